"""What may be said when: the states of a PHPMQ connection, and the table of their transitions.

There is no handshake and no closing message. The table has every state of a role with every kind of what comes from the
peer (RECEIVES) and of what we send (SENDS). The diagrams of docs/phpmq-connection.md are drawn from it.

This module imports nothing that is compiled, so the page can be made without the compiled core.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Role(enum.Enum):
    CLIENT = "client"
    SERVER = "server"


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
    (SERVER, IDLE): "no consume request has come",
    (SERVER, CONSUMING): "a consume request has come: messages may be sent, as many as it allows",
    (SERVER, CLOSED): "the connection is over; what still comes is dropped",
}

#: The states of each role.
STATES: Final[dict[Role, tuple[State, ...]]] = {role: tuple(State) for role in Role}


class Outcome(enum.Enum):
    """What becomes of something that changes no state and breaks no rule."""

    DROPPED = "is dropped"


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not come, or must not be sent, in this state.

    Attributes:
        rule: the rule that it breaks.
    """

    rule: str


#: Kinds of what a client sends, and of what a server sends: message types 001, 002, 004, 005, 006, and 003.
FROM_CLIENT: Final[tuple[str, ...]] = ("publish", "consume", "acknowledge", "re-queue", "dead letter")
FROM_SERVER: Final[tuple[str, ...]] = ("message",)

Transition = State | Outcome | Violation
Table = dict[tuple[Role, State, str], Transition]


def _rows(
    role: Role, state: State, kinds: tuple[str, ...], legal: dict[str, Transition], otherwise: Transition
) -> Table:
    return {(role, state, kind): legal.get(kind, otherwise) for kind in kinds}


_NOT_ASKED = Violation("a message before a consume request")
_NOTHING_YET = Violation("no message has come: there was no consume request")
_OVER = Violation("the connection is over")

#: An acknowledgement of a message that another client has received counts, so a server takes it in any state.
_TAKES: Final[dict[State, dict[str, Transition]]] = {
    state: {"consume": CONSUMING, **dict.fromkeys(("publish", "acknowledge", "re-queue", "dead letter"), state)}
    for state in (IDLE, CONSUMING)
}

#: What comes from the peer.
RECEIVES: Final[Table] = {
    **_rows(CLIENT, IDLE, FROM_SERVER, {}, _NOT_ASKED),
    **_rows(CLIENT, CONSUMING, FROM_SERVER, {"message": CONSUMING}, _NOT_ASKED),
    **_rows(CLIENT, CLOSED, FROM_SERVER, {}, Outcome.DROPPED),
    **_rows(SERVER, IDLE, FROM_CLIENT, _TAKES[IDLE], _OVER),
    **_rows(SERVER, CONSUMING, FROM_CLIENT, _TAKES[CONSUMING], _OVER),
    **_rows(SERVER, CLOSED, FROM_CLIENT, {}, Outcome.DROPPED),
}

#: What we send.
SENDS: Final[Table] = {
    **_rows(CLIENT, IDLE, FROM_CLIENT, {"publish": IDLE, "consume": CONSUMING}, _NOTHING_YET),
    **_rows(CLIENT, CONSUMING, FROM_CLIENT, _TAKES[CONSUMING], _OVER),
    **_rows(CLIENT, CLOSED, FROM_CLIENT, {}, _OVER),
    **_rows(SERVER, IDLE, FROM_SERVER, {}, _NOT_ASKED),
    **_rows(SERVER, CONSUMING, FROM_SERVER, {"message": CONSUMING}, _NOT_ASKED),
    **_rows(SERVER, CLOSED, FROM_SERVER, {}, _OVER),
}
