"""What may be said when: the states of an NSQ connection, and the table of their transitions.

A client sends commands, a server sends frames. The table has every state of a role with every kind of what comes from
the peer (RECEIVES) and of what we send (SENDS). The diagrams of docs/nsq-connection.md are drawn from it. Where the
specification is silent, the rules are those of nsqd 1.3.0.
"""

from __future__ import annotations

import enum
from typing import Final

from wirefmt.connection.states import Outcome, Role, Violation, each, rows
from wirefmt.nsq.codes import ErrorCode


class State(enum.Enum):
    """States of a connection. COMPRESSING is a client's only."""

    IDLE = "idle"
    INIT = "init"
    IDENTIFYING = "identifying"
    SECURING = "securing"
    COMPRESSING = "compressing"
    AUTHENTICATING = "authenticating"
    SUBSCRIBING = "subscribing"
    SUBSCRIBED = "subscribed"
    CLOSING = "closing"
    CLOSED = "closed"


CLIENT, SERVER = Role.CLIENT, Role.SERVER
IDLE, INIT, IDENTIFYING, SECURING = State.IDLE, State.INIT, State.IDENTIFYING, State.SECURING
COMPRESSING, AUTHENTICATING, SUBSCRIBING = State.COMPRESSING, State.AUTHENTICATING, State.SUBSCRIBING
SUBSCRIBED, CLOSING, CLOSED = State.SUBSCRIBED, State.CLOSING, State.CLOSED

#: What a state means in each role.
MEANINGS: Final[dict[tuple[Role, State], str]] = {
    (CLIENT, IDLE): "nothing has been sent",
    (CLIENT, INIT): "the magic has been sent; no SUB",
    (CLIENT, IDENTIFYING): "IDENTIFY has been sent, its answer is awaited",
    (CLIENT, SECURING): "the server has agreed to TLS: handshake, then OK under TLS",
    (CLIENT, COMPRESSING): "the server has agreed to compress: OK under the compression is awaited",
    (CLIENT, AUTHENTICATING): "AUTH has been sent, its answer is awaited",
    (CLIENT, SUBSCRIBING): "SUB has been sent, its answer is awaited",
    (CLIENT, SUBSCRIBED): "the server has accepted SUB",
    (CLIENT, CLOSING): "CLS has been sent: messages in flight are finished",
    (CLIENT, CLOSED): "the connection is over; what still comes is dropped",
    (SERVER, IDLE): "the magic has not arrived",
    (SERVER, INIT): "the magic has arrived; no SUB",
    (SERVER, IDENTIFYING): "the host decides about IDENTIFY; what follows stays unread",
    (SERVER, SECURING): "the answer says TLS: the handshake runs; what follows belongs to it",
    (SERVER, AUTHENTICATING): "the host decides about AUTH; what follows stays unread",
    (SERVER, SUBSCRIBING): "the host decides about SUB; what follows stays unread",
    (SERVER, SUBSCRIBED): "the host has accepted SUB",
    (SERVER, CLOSING): "CLS has arrived: no further message is sent, those in flight are finished",
    (SERVER, CLOSED): "the connection is over; what still comes is dropped",
}

#: The states of each role.
STATES: Final[dict[Role, tuple[State, ...]]] = {
    role: tuple(state for state in State if (role, state) in MEANINGS) for role in Role
}


#: Kinds of what a client sends. The magic is called by its name, the others by their command.
COMMANDS: Final[tuple[str, ...]] = (
    "magic",
    "IDENTIFY",
    "AUTH",
    "SUB",
    "PUB",
    "MPUB",
    "DPUB",
    "RDY",
    "FIN",
    "REQ",
    "TOUCH",
    "CLS",
    "NOP",
)

#: Kinds of what a server sends. JSON that answers IDENTIFY leads to different states.
FRAMES: Final[tuple[str, ...]] = (
    "OK",
    "JSON",
    "JSON with tls_v1",
    "JSON with compression",
    "CLOSE_WAIT",
    "heartbeat",
    "other response",
    "error",
    "fatal error",
    "message",
)

Transition = State | Outcome | Violation
Table = dict[tuple[Role, State, str], Transition]

PUBLISHING: Final = ("PUB", "MPUB", "DPUB")
ANSWERS: Final = ("FIN", "REQ", "TOUCH")


def _wrong(rule: str) -> Violation:
    return Violation(rule, ErrorCode.E_INVALID)


_TWICE = _wrong("the magic is sent once, first")
_FIRST = Violation("the magic of V2 comes first", ErrorCode.E_BAD_PROTOCOL)
_NO_SUB = _wrong("the command needs a subscription")
_SUBSCRIBED = _wrong("the command is not possible after SUB")
_CLOSED_TWICE = _wrong("CLS has been sent before")

#: Commands in the states in which both sides see them alike.
_INIT: Final[dict[str, Transition]] = {
    "magic": _TWICE,
    "IDENTIFY": IDENTIFYING,
    "AUTH": AUTHENTICATING,
    "SUB": SUBSCRIBING,
    **each(INIT, *PUBLISHING, "NOP"),
}
_LATER: Final[dict[str, Transition]] = {"magic": _TWICE, **each(_SUBSCRIBED, "IDENTIFY", "AUTH", "SUB")}
_WHILE_SUBSCRIBED: Final[dict[str, Transition]] = {
    **_LATER,
    **each(SUBSCRIBED, *PUBLISHING, "RDY", *ANSWERS, "NOP"),
    "CLS": CLOSING,
}
_WHILE_CLOSING: Final[dict[str, Transition]] = {
    **_LATER,
    **each(CLOSING, *PUBLISHING, *ANSWERS, "NOP"),
    "CLS": _CLOSED_TWICE,
}

_EARLY = _wrong("a server says nothing before the magic")
_NO_ANSWER = _wrong("no command awaits this response")
_NO_MESSAGE = _wrong("a message before SUB")
_NO_UPGRADE = _wrong("only the answer to IDENTIFY agrees on TLS or compression")
_UNKNOWN = _wrong("a response that the protocol does not have")
_AWAIT_OK = _wrong("only OK reports that the upgrade is complete")

#: Frames that any state after the magic takes, and those that none takes.
_ANY_TIME: Final[dict[str, Transition]] = {
    "other response": _UNKNOWN,
    **each(_NO_UPGRADE, "JSON with tls_v1", "JSON with compression"),
    "fatal error": CLOSED,
    "message": _NO_MESSAGE,
}

#: What comes from the peer.
RECEIVES: Final[Table] = {
    **rows(CLIENT, IDLE, FRAMES, {}, _EARLY),
    **rows(CLIENT, INIT, FRAMES, {**_ANY_TIME, **each(INIT, "OK", "heartbeat", "error")}, _NO_ANSWER),
    **rows(
        CLIENT,
        IDENTIFYING,
        FRAMES,
        {
            **_ANY_TIME,
            **each(INIT, "OK", "JSON"),
            "JSON with tls_v1": SECURING,
            "JSON with compression": COMPRESSING,
            **each(IDENTIFYING, "heartbeat", "error"),
        },
        _NO_ANSWER,
    ),
    # after OK compression may follow: the handler knows what has been agreed on
    **rows(CLIENT, SECURING, FRAMES, {**_ANY_TIME, "OK": INIT, "heartbeat": SECURING}, _AWAIT_OK),
    **rows(CLIENT, COMPRESSING, FRAMES, {**_ANY_TIME, "OK": INIT, "heartbeat": COMPRESSING}, _AWAIT_OK),
    **rows(
        CLIENT,
        AUTHENTICATING,
        FRAMES,
        {**_ANY_TIME, "JSON": INIT, **each(AUTHENTICATING, "heartbeat", "error")},
        _NO_ANSWER,
    ),
    **rows(
        CLIENT,
        SUBSCRIBING,
        FRAMES,
        {**_ANY_TIME, "OK": SUBSCRIBED, **each(SUBSCRIBING, "heartbeat", "error")},
        _NO_ANSWER,
    ),
    **rows(
        CLIENT,
        SUBSCRIBED,
        FRAMES,
        {**_ANY_TIME, **each(SUBSCRIBED, "OK", "heartbeat", "error", "message")},
        _NO_ANSWER,
    ),
    **rows(
        CLIENT,
        CLOSING,
        FRAMES,
        {**_ANY_TIME, **each(CLOSING, "OK", "CLOSE_WAIT", "heartbeat", "error", "message")},
        _NO_ANSWER,
    ),
    **rows(CLIENT, CLOSED, FRAMES, {}, Outcome.DROPPED),
    **rows(SERVER, IDLE, COMMANDS, {"magic": INIT}, _FIRST),
    **rows(SERVER, INIT, COMMANDS, _INIT, _NO_SUB),
    **rows(SERVER, IDENTIFYING, COMMANDS, {}, Outcome.UNREAD),
    **rows(SERVER, SECURING, COMMANDS, {}, Outcome.UNREAD),
    **rows(SERVER, AUTHENTICATING, COMMANDS, {}, Outcome.UNREAD),
    **rows(SERVER, SUBSCRIBING, COMMANDS, {}, Outcome.UNREAD),
    **rows(SERVER, SUBSCRIBED, COMMANDS, _WHILE_SUBSCRIBED, _NO_SUB),
    **rows(SERVER, CLOSING, COMMANDS, {**_WHILE_CLOSING, "RDY": Outcome.IGNORED}, _NO_SUB),
    **rows(SERVER, CLOSED, COMMANDS, {}, Outcome.DROPPED),
}

_OVER = _wrong("the connection is over")
_AWAIT_IDENTIFY = _wrong("IDENTIFY is not complete: the server throws away what comes before")
_AWAIT_AUTH = _wrong("AUTH has not been answered")
_AWAIT_SUB = _wrong("SUB has not been answered")
_AFTER_CLS = _wrong("after CLS the server ignores RDY")
_NO_REQUEST = _wrong("no command awaits this answer")
_AFTER_CLS_NO_MESSAGE = _wrong("after CLS no message is sent")

#: Frames that a server may send in a state, next to the answers. A fatal error ends the connection.
_FATAL: Final[dict[str, Transition]] = {"fatal error": CLOSED, "other response": _UNKNOWN, "message": _NO_MESSAGE}

#: What we send. In IDLE the magic goes before the first command by itself.
SENDS: Final[Table] = {
    **rows(CLIENT, IDLE, COMMANDS, {**_INIT, "magic": INIT}, _NO_SUB),
    **rows(CLIENT, INIT, COMMANDS, _INIT, _NO_SUB),
    **rows(CLIENT, IDENTIFYING, COMMANDS, {}, _AWAIT_IDENTIFY),
    **rows(CLIENT, SECURING, COMMANDS, {}, _AWAIT_IDENTIFY),
    **rows(CLIENT, COMPRESSING, COMMANDS, {}, _AWAIT_IDENTIFY),
    **rows(CLIENT, AUTHENTICATING, COMMANDS, {"NOP": AUTHENTICATING}, _AWAIT_AUTH),
    **rows(CLIENT, SUBSCRIBING, COMMANDS, {"NOP": SUBSCRIBING}, _AWAIT_SUB),
    **rows(CLIENT, SUBSCRIBED, COMMANDS, _WHILE_SUBSCRIBED, _NO_SUB),
    **rows(CLIENT, CLOSING, COMMANDS, {**_WHILE_CLOSING, "RDY": _AFTER_CLS}, _NO_SUB),
    **rows(CLIENT, CLOSED, COMMANDS, {}, _OVER),
    **rows(SERVER, IDLE, FRAMES, {"fatal error": CLOSED}, _EARLY),
    **rows(SERVER, INIT, FRAMES, {**_FATAL, **each(INIT, "OK", "heartbeat")}, _NO_REQUEST),
    # after JSON with compression the server says OK under it at once
    **rows(
        SERVER,
        IDENTIFYING,
        FRAMES,
        {
            **_FATAL,
            **each(INIT, "OK", "JSON", "JSON with compression"),
            "JSON with tls_v1": SECURING,
            "heartbeat": IDENTIFYING,
        },
        _NO_REQUEST,
    ),
    **rows(SERVER, SECURING, FRAMES, {**_FATAL, "OK": INIT}, _wrong("the TLS handshake is not complete")),
    **rows(
        SERVER,
        AUTHENTICATING,
        FRAMES,
        {**_FATAL, "JSON": INIT, "heartbeat": AUTHENTICATING},
        _NO_REQUEST,
    ),
    **rows(
        SERVER,
        SUBSCRIBING,
        FRAMES,
        {**_FATAL, "OK": SUBSCRIBED, "heartbeat": SUBSCRIBING},
        _NO_REQUEST,
    ),
    **rows(
        SERVER,
        SUBSCRIBED,
        FRAMES,
        {**_FATAL, **each(SUBSCRIBED, "OK", "heartbeat", "error", "message")},
        _NO_REQUEST,
    ),
    **rows(
        SERVER,
        CLOSING,
        FRAMES,
        {**_FATAL, **each(CLOSING, "OK", "CLOSE_WAIT", "heartbeat", "error"), "message": _AFTER_CLS_NO_MESSAGE},
        _NO_REQUEST,
    ),
    **rows(SERVER, CLOSED, FRAMES, {}, _OVER),
}
