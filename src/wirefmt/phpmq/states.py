"""What may be said when: the states of a PHPMQ connection, and the table of their transitions.

There is no handshake and no closing message. The table has every state of a role with every kind of what comes from the
peer (RECEIVES) and of what we send (SENDS). The diagrams of docs/phpmq-connection.md are drawn from it.
"""

from __future__ import annotations

import enum
from typing import Final

from wirefmt.connection.states import Outcome, Role, Violation, rows


class State(enum.Enum):
    """States of a connection, the same in both roles."""

    IDLE = "idle"
    CONSUMING = "consuming"
    CLOSED = "closed"


CLIENT, SERVER = Role.CLIENT, Role.SERVER
IDLE, CONSUMING, CLOSED = State.IDLE, State.CONSUMING, State.CLOSED

#: What a state means in each role.
MEANINGS: Final[dict[tuple[Role, State], str]] = {
    (CLIENT, IDLE): "no consume request has been sent",
    (CLIENT, CONSUMING): "a consume request has been sent: messages come, as many as it allows",
    (CLIENT, CLOSED): "the connection is over; what still comes is dropped",
    (SERVER, IDLE): "no consume request has arrived",
    (SERVER, CONSUMING): "a consume request has arrived: messages may be sent, as many as it allows",
    (SERVER, CLOSED): "the connection is over; what still comes is dropped",
}

#: The states of each role.
STATES: Final[dict[Role, tuple[State, ...]]] = {role: tuple(State) for role in Role}


#: Kinds of what a client sends, and of what a server sends: message types 001, 002, 004, 005, 006, and 003.
FROM_CLIENT: Final[tuple[str, ...]] = ("publish", "consume", "acknowledge", "re-queue", "dead letter")
FROM_SERVER: Final[tuple[str, ...]] = ("message",)

Transition = State | Outcome | Violation
Table = dict[tuple[Role, State, str], Transition]


_NOT_ASKED = Violation("a message before a consume request")
_NOTHING_YET = Violation("no message has arrived: there was no consume request")
_OVER = Violation("the connection is over")

#: An acknowledgement of a message that another client has received counts, so a server takes it in any state.
_TAKES: Final[dict[State, dict[str, Transition]]] = {
    state: {"consume": CONSUMING, **dict.fromkeys(("publish", "acknowledge", "re-queue", "dead letter"), state)}
    for state in (IDLE, CONSUMING)
}

#: What comes from the peer.
RECEIVES: Final[Table] = {
    **rows(CLIENT, IDLE, FROM_SERVER, {}, _NOT_ASKED),
    **rows(CLIENT, CONSUMING, FROM_SERVER, {"message": CONSUMING}, _NOT_ASKED),
    **rows(CLIENT, CLOSED, FROM_SERVER, {}, Outcome.DROPPED),
    **rows(SERVER, IDLE, FROM_CLIENT, _TAKES[IDLE], _OVER),
    **rows(SERVER, CONSUMING, FROM_CLIENT, _TAKES[CONSUMING], _OVER),
    **rows(SERVER, CLOSED, FROM_CLIENT, {}, Outcome.DROPPED),
}

#: What we send.
SENDS: Final[Table] = {
    **rows(CLIENT, IDLE, FROM_CLIENT, {"publish": IDLE, "consume": CONSUMING}, _NOTHING_YET),
    **rows(CLIENT, CONSUMING, FROM_CLIENT, _TAKES[CONSUMING], _OVER),
    **rows(CLIENT, CLOSED, FROM_CLIENT, {}, _OVER),
    **rows(SERVER, IDLE, FROM_SERVER, {}, _NOT_ASKED),
    **rows(SERVER, CONSUMING, FROM_SERVER, {"message": CONSUMING}, _NOT_ASKED),
    **rows(SERVER, CLOSED, FROM_SERVER, {}, _OVER),
}
