"""The states of a RocketMQ connection, and the table of their transitions.

The table has every role, state of the role and kind of input, for what comes from the peer (RECEIVES) and for what we send
(SENDS). The diagrams of docs/rocketmq-connection.md are drawn from it. Sections are those of docs/rocketmq.md.

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
    """States of a connection. A client has four of them."""

    IDLE = "idle"
    PROXIED = "proxied"
    SECURING = "securing"
    SECURED = "secured"
    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"


#: The states of each role, and what they mean.
MEANINGS: Final[dict[tuple[Role, State], str]] = {
    (Role.CLIENT, State.IDLE): "nothing has come from the server; requests may be sent",
    (Role.CLIENT, State.OPEN): "the server has spoken",
    (Role.CLIENT, State.DRAINING): "no request is sent any more; answers to those that were sent still come",
    (Role.CLIENT, State.CLOSED): "the connection is over; what still comes is dropped",
    (Role.SERVER, State.IDLE): "nothing has come from the client",
    (Role.SERVER, State.PROXIED): "a PROXY preface has come, and no more",
    (Role.SERVER, State.SECURING): "the host runs the handshake of TLS; bytes stay unread until `secured`",
    (Role.SERVER, State.SECURED): "TLS runs, and no frame has come",
    (Role.SERVER, State.OPEN): "the client has spoken",
    (
        Role.SERVER,
        State.DRAINING,
    ): "new requests are answered with GO_AWAY; those that came before are answered by the host",
    (Role.SERVER, State.CLOSED): "the connection is over; what still comes is dropped",
}


class Outcome(enum.Enum):
    """What happens to an input that changes no state and breaks no rule."""

    UNREAD = "stays unread until TLS runs"
    DROPPED = "is dropped"
    REFUSED = "is answered with GO_AWAY (1500), or with SERVICE_NOT_AVAILABLE (14) if the client is older than 5.3.2"


@dataclass(frozen=True, slots=True)
class Violation:
    """An input that must not come (or must not be sent) in this state.

    Attributes:
        rule: the rule it breaks.
    """

    rule: str


#: Kinds of input. A response with GO_AWAY differs from others, since it leads to another state.
KINDS: Final[tuple[str, ...]] = (
    "TLS preface",
    "PROXY preface",
    "request",
    "one-way request",
    "response",
    "response GO_AWAY",
)

FRAMES: Final = ("request", "one-way request", "response", "response GO_AWAY")
REQUESTS: Final = ("request", "one-way request")
RESPONSES: Final = ("response", "response GO_AWAY")

Transition = State | Outcome | Violation
Table = dict[tuple[Role, State, str], Transition]

CLIENT, SERVER = Role.CLIENT, Role.SERVER
IDLE, PROXIED, SECURING, SECURED = State.IDLE, State.PROXIED, State.SECURING, State.SECURED
OPEN, DRAINING, CLOSED = State.OPEN, State.DRAINING, State.CLOSED


def _rows(role: Role, state: State, legal: dict[str, Transition], otherwise: Transition) -> Table:
    """The rows of one state: `legal`, then `otherwise`."""
    return {(role, state, kind): legal.get(kind, otherwise) for kind in KINDS}


def _all(after: Transition, *kinds: str) -> dict[str, Transition]:
    return dict.fromkeys(kinds, after)


_PREFACE = Violation("a preface comes before the first frame (section 12)")
_BY_CLIENT = Violation("only a client begins with a preface (section 12)")

#: What comes from the peer.
RECEIVES: Final[Table] = {
    **_rows(CLIENT, IDLE, {**_all(OPEN, *FRAMES), "response GO_AWAY": DRAINING}, _BY_CLIENT),
    **_rows(CLIENT, OPEN, {**_all(OPEN, *FRAMES), "response GO_AWAY": DRAINING}, _BY_CLIENT),
    **_rows(CLIENT, DRAINING, _all(DRAINING, *FRAMES), _BY_CLIENT),
    **_rows(CLIENT, CLOSED, {}, Outcome.DROPPED),
    **_rows(
        SERVER,
        IDLE,
        {**_all(OPEN, *FRAMES), "TLS preface": SECURING, "PROXY preface": PROXIED},
        _PREFACE,
    ),
    **_rows(
        SERVER,
        PROXIED,
        {**_all(OPEN, *FRAMES), "TLS preface": SECURING},
        Violation("a second PROXY preface (section 12)"),
    ),
    **_rows(SERVER, SECURING, {}, Outcome.UNREAD),
    **_rows(SERVER, SECURED, _all(OPEN, *FRAMES), Violation("a preface inside TLS (section 12)")),
    **_rows(SERVER, OPEN, _all(OPEN, *FRAMES), _PREFACE),
    **_rows(
        SERVER,
        DRAINING,
        {"request": Outcome.REFUSED, "one-way request": Outcome.DROPPED, **_all(DRAINING, *RESPONSES)},
        _PREFACE,
    ),
    **_rows(SERVER, CLOSED, {}, Outcome.DROPPED),
}

_OVER = Violation("the connection is over")
_ENDING = Violation("the connection is ending: no request is sent any more")
_SILENT = Violation("the client speaks first: it may begin with TLS (section 12)")
_NO_PREFACE = Violation("a preface is sent by the host")

#: What we send. Responses are answers to requests that have come.
SENDS: Final[Table] = {
    **_rows(
        CLIENT,
        IDLE,
        {**_all(IDLE, *REQUESTS), **_all(Violation("no request has come"), *RESPONSES)},
        _NO_PREFACE,
    ),
    **_rows(CLIENT, OPEN, _all(OPEN, *FRAMES), _NO_PREFACE),
    **_rows(CLIENT, DRAINING, {**_all(DRAINING, *RESPONSES), **_all(_ENDING, *REQUESTS)}, _NO_PREFACE),
    **_rows(CLIENT, CLOSED, {}, _OVER),
    **_rows(SERVER, IDLE, {}, _SILENT),
    **_rows(SERVER, PROXIED, {}, _SILENT),
    **_rows(SERVER, SECURING, {}, _SILENT),
    **_rows(SERVER, SECURED, {}, _SILENT),
    **_rows(SERVER, OPEN, _all(OPEN, *FRAMES), _NO_PREFACE),
    **_rows(SERVER, DRAINING, {**_all(DRAINING, *RESPONSES), **_all(_ENDING, *REQUESTS)}, _NO_PREFACE),
    **_rows(SERVER, CLOSED, {}, _OVER),
}

#: Transitions by calls of the host, and by the end of draining: (role, state, what, state after).
CALLS: Final[tuple[tuple[Role, State, str, State], ...]] = (
    (SERVER, SECURING, "secured()", SECURED),
    *((role, state, "close(wait)", DRAINING) for role, state in ((CLIENT, IDLE), (CLIENT, OPEN), (SERVER, OPEN))),
    *((role, state, "close()", CLOSED) for role, state in MEANINGS if state is not CLOSED),
    (CLIENT, DRAINING, "the last response or answer", CLOSED),
    (SERVER, DRAINING, "the last response or answer", CLOSED),
)
