"""The states of a RocketMQ connection, and the table of their transitions.

The table has every role, state of the role and kind of input, for what comes from the peer (RECEIVES) and for what we send
(SENDS). The diagrams of docs/rocketmq-connection.md are drawn from it. Sections are those of docs/rocketmq.md.
"""

from __future__ import annotations

import enum
from typing import Final

from wirefmt.connection.states import Outcome, Role, Violation, each, rows


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
    (Role.SERVER, State.PROXIED): "a PROXY preface has arrived, and no more",
    (Role.SERVER, State.SECURING): "the host runs the handshake of TLS; bytes stay unread until `secured`",
    (Role.SERVER, State.SECURED): "TLS runs, and no frame has arrived",
    (Role.SERVER, State.OPEN): "the client has spoken",
    (
        Role.SERVER,
        State.DRAINING,
    ): "new requests are answered with GO_AWAY; those that came before are answered by the host",
    (Role.SERVER, State.CLOSED): "the connection is over; what still comes is dropped",
}


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


_PREFACE = Violation("a preface comes before the first frame (section 12)")
_BY_CLIENT = Violation("only a client begins with a preface (section 12)")

#: What comes from the peer.
RECEIVES: Final[Table] = {
    **rows(CLIENT, IDLE, KINDS, {**each(OPEN, *FRAMES), "response GO_AWAY": DRAINING}, _BY_CLIENT),
    **rows(CLIENT, OPEN, KINDS, {**each(OPEN, *FRAMES), "response GO_AWAY": DRAINING}, _BY_CLIENT),
    **rows(CLIENT, DRAINING, KINDS, each(DRAINING, *FRAMES), _BY_CLIENT),
    **rows(CLIENT, CLOSED, KINDS, {}, Outcome.DROPPED),
    **rows(
        SERVER,
        IDLE,
        KINDS,
        {**each(OPEN, *FRAMES), "TLS preface": SECURING, "PROXY preface": PROXIED},
        _PREFACE,
    ),
    **rows(
        SERVER,
        PROXIED,
        KINDS,
        {**each(OPEN, *FRAMES), "TLS preface": SECURING},
        Violation("a second PROXY preface (section 12)"),
    ),
    **rows(SERVER, SECURING, KINDS, {}, Outcome.UNREAD),
    **rows(SERVER, SECURED, KINDS, each(OPEN, *FRAMES), Violation("a preface inside TLS (section 12)")),
    **rows(SERVER, OPEN, KINDS, each(OPEN, *FRAMES), _PREFACE),
    **rows(
        SERVER,
        DRAINING,
        KINDS,
        {"request": Outcome.REFUSED, "one-way request": Outcome.DROPPED, **each(DRAINING, *RESPONSES)},
        _PREFACE,
    ),
    **rows(SERVER, CLOSED, KINDS, {}, Outcome.DROPPED),
}

_OVER = Violation("the connection is over")
_ENDING = Violation("the connection is ending: no request is sent any more")
_SILENT = Violation("the client speaks first: it may begin with TLS (section 12)")
_NO_PREFACE = Violation("a preface is sent by the host")

#: What we send. Responses are answers to requests that have arrived.
SENDS: Final[Table] = {
    **rows(
        CLIENT,
        IDLE,
        KINDS,
        {**each(IDLE, *REQUESTS), **each(Violation("no request has arrived"), *RESPONSES)},
        _NO_PREFACE,
    ),
    **rows(CLIENT, OPEN, KINDS, each(OPEN, *FRAMES), _NO_PREFACE),
    **rows(CLIENT, DRAINING, KINDS, {**each(DRAINING, *RESPONSES), **each(_ENDING, *REQUESTS)}, _NO_PREFACE),
    **rows(CLIENT, CLOSED, KINDS, {}, _OVER),
    **rows(SERVER, IDLE, KINDS, {}, _SILENT),
    **rows(SERVER, PROXIED, KINDS, {}, _SILENT),
    **rows(SERVER, SECURING, KINDS, {}, _SILENT),
    **rows(SERVER, SECURED, KINDS, {}, _SILENT),
    **rows(SERVER, OPEN, KINDS, each(OPEN, *FRAMES), _NO_PREFACE),
    **rows(SERVER, DRAINING, KINDS, {**each(DRAINING, *RESPONSES), **each(_ENDING, *REQUESTS)}, _NO_PREFACE),
    **rows(SERVER, CLOSED, KINDS, {}, _OVER),
}

#: Transitions by calls of the host, and by the end of draining: (role, state, what, state after).
CALLS: Final[tuple[tuple[Role, State, str, State], ...]] = (
    (SERVER, SECURING, "secured()", SECURED),
    *((role, state, "close(wait)", DRAINING) for role, state in ((CLIENT, IDLE), (CLIENT, OPEN), (SERVER, OPEN))),
    *((role, state, "close()", CLOSED) for role, state in MEANINGS if state is not CLOSED),
    (CLIENT, DRAINING, "the last response or answer", CLOSED),
    (SERVER, DRAINING, "the last response or answer", CLOSED),
)
