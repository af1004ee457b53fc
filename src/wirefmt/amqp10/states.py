"""What may be said when: the states of AMQP 1.0's SASL layer, connections, sessions and links, and their transitions.

Each table has every role, state and kind of performative, for what comes from the peer (RECEIVES) and for what we send
(SENDS). The page docs/amqp10-connection.md is drawn from them. Sections are prefixed with the part of the specification.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wirefmt.amqp10.codes import ErrorCondition
from wirefmt.connection.states import Outcome, Role, Violation, each, rows


class LinkRole(enum.Enum):
    SENDER = "sender"
    RECEIVER = "receiver"


class SaslState(enum.Enum):
    """The SASL layer (5.3.2)."""

    START = "start"
    HEADER = "header exchanged"
    INIT = "exchange"
    WAITING = "host decides"
    DONE = "done"
    FAILED = "failed"


class State(enum.Enum):
    """States of a connection (2.4.6). OPEN RCVD is also where a server's host decides about open."""

    START = "start"
    HDR_SENT = "header sent"
    HDR_RCVD = "header received"
    HDR_EXCH = "headers exchanged"
    OPEN_PIPE = "open pipelined"
    OC_PIPE = "open and close pipelined"
    OPEN_SENT = "open sent"
    OPEN_RCVD = "open received"
    CLOSE_PIPE = "close pipelined"
    OPENED = "opened"
    CLOSE_SENT = "close sent"
    DISCARDING = "discarding"
    END = "end"


class SessionState(enum.Enum):
    """States of a session (2.5.5). A begin or an end of the peer is answered at once."""

    UNMAPPED = "unmapped"
    BEGIN_SENT = "begin sent"
    MAPPED = "mapped"
    END_SENT = "end sent"
    DISCARDING = "discarding"


class LinkState(enum.Enum):
    """States of a link endpoint (2.6.3 to 2.6.6). A detach of the peer is answered at once."""

    DETACHED = "detached"
    ATTACH_SENT = "attach sent"
    ATTACH_RCVD = "attach received"
    ATTACHED = "attached"
    DETACH_SENT = "detach sent"
    ERRORED = "detached with an error"


AnyState = SaslState | State | SessionState | LinkState
AnyRole = Role | LinkRole
Transition = AnyState | Outcome | Violation
Table = dict[tuple[AnyRole, AnyState, str], Transition]


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the protocol: its roles, states and kinds, and both tables."""

    title: str
    roles: type[AnyRole]
    states: type[AnyState]
    first: AnyState
    last: tuple[AnyState, ...]
    kinds: tuple[str, ...]
    receives: Table
    sends: Table


def _rows(
    roles: Iterable[AnyRole],
    state: AnyState,
    kinds: tuple[str, ...],
    legal: dict[str, Transition],
    otherwise: Transition,
) -> Table:
    return {at: after for role in roles for at, after in rows(role, state, kinds, legal, otherwise).items()}


CLIENT, SERVER = Role.CLIENT, Role.SERVER
BOTH: Final = (CLIENT, SERVER)


def _wrong(rule: str) -> Violation:
    return Violation(rule, ErrorCondition.NOT_ALLOWED)


_OVER = Violation("the connection is over", "")

# ------------------------------------------------------------------------------------------------ SASL

SASL_KINDS: Final[tuple[str, ...]] = (
    "SASL header",
    "sasl-mechanisms",
    "sasl-init",
    "sasl-challenge",
    "sasl-response",
    "sasl-outcome ok",
    "sasl-outcome failed",
)
_SASL_ORDER = _wrong("not in the order of the SASL exchange (5.3.2)")
_SASL_HEADER_FIRST = _wrong("the protocol header comes first (5.3.1)")
_SASL_OVER = _wrong("the SASL layer is done: frames of type AMQP follow (5.3.2)")
S = SaslState

SASL_RECEIVES: Final[Table] = {
    **_rows(BOTH, S.START, SASL_KINDS, {"SASL header": S.HEADER}, _SASL_HEADER_FIRST),
    **_rows((CLIENT,), S.HEADER, SASL_KINDS, {"sasl-mechanisms": S.INIT}, _SASL_ORDER),
    **_rows(
        (CLIENT,),
        S.INIT,
        SASL_KINDS,
        {"sasl-challenge": S.INIT, "sasl-outcome ok": S.DONE, "sasl-outcome failed": S.FAILED},
        _SASL_ORDER,
    ),
    **_rows((CLIENT,), S.WAITING, SASL_KINDS, {}, _SASL_ORDER),
    **_rows((SERVER,), S.HEADER, SASL_KINDS, {"sasl-init": S.WAITING}, _SASL_ORDER),
    **_rows((SERVER,), S.INIT, SASL_KINDS, {"sasl-response": S.WAITING}, _SASL_ORDER),
    **_rows((SERVER,), S.WAITING, SASL_KINDS, {}, Outcome.UNREAD),
    **_rows(BOTH, S.DONE, SASL_KINDS, {}, _SASL_OVER),
    **_rows(BOTH, S.FAILED, SASL_KINDS, {}, Outcome.DROPPED),
}
SASL_SENDS: Final[Table] = {
    **_rows(BOTH, S.START, SASL_KINDS, {"SASL header": S.START}, _SASL_HEADER_FIRST),
    **_rows((CLIENT,), S.HEADER, SASL_KINDS, {"sasl-init": S.HEADER}, _SASL_ORDER),  # pipelined
    **_rows((CLIENT,), S.INIT, SASL_KINDS, {"sasl-init": S.INIT, "sasl-response": S.INIT}, _SASL_ORDER),
    **_rows((CLIENT,), S.WAITING, SASL_KINDS, {}, _SASL_ORDER),
    **_rows((SERVER,), S.HEADER, SASL_KINDS, {"sasl-mechanisms": S.HEADER}, _SASL_ORDER),
    **_rows((SERVER,), S.INIT, SASL_KINDS, {}, _SASL_ORDER),
    **_rows(
        (SERVER,),
        S.WAITING,
        SASL_KINDS,
        {"sasl-challenge": S.INIT, "sasl-outcome ok": S.DONE, "sasl-outcome failed": S.FAILED},
        _SASL_ORDER,
    ),
    **_rows(BOTH, S.DONE, SASL_KINDS, {}, _SASL_OVER),
    **_rows(BOTH, S.FAILED, SASL_KINDS, {}, _OVER),
}

# ------------------------------------------------------------------------------------------------ connections

KINDS: Final[tuple[str, ...]] = (
    "AMQP header",
    "open",
    "begin",
    "attach",
    "flow",
    "transfer",
    "disposition",
    "detach",
    "end",
    "close",
    "empty frame",
)
#: What belongs to a session.
IN_SESSION: Final = ("begin", "attach", "flow", "transfer", "disposition", "detach", "end")
_HEADER_FIRST = Violation("the protocol header comes first (2.2)", ErrorCondition.CONNECTION_FRAMING_ERROR)
_SECOND_HEADER = Violation("a second protocol header (2.2)", ErrorCondition.CONNECTION_FRAMING_ERROR)
_OPEN_FIRST = Violation("the first frame is open (2.4.1)", ErrorCondition.CONNECTION_FRAMING_ERROR)
_SECOND_OPEN = _wrong("a second open (2.4.1)")
C = State


def _before_open(state: State, opened: State) -> Table:
    """The header has arrived and open is awaited; an empty frame is not a performative."""
    legal: dict[str, Transition] = {"open": opened, "empty frame": state, "AMQP header": _SECOND_HEADER}
    return _rows(BOTH, state, KINDS, legal, _OPEN_FIRST)


RECEIVES: Final[Table] = {
    **_rows((CLIENT,), C.START, KINDS, {}, Outcome.UNREAD),
    **_rows((SERVER,), C.START, KINDS, {"AMQP header": C.HDR_RCVD}, _HEADER_FIRST),
    **_rows(BOTH, C.HDR_SENT, KINDS, {"AMQP header": C.HDR_EXCH}, _HEADER_FIRST),
    **_rows(BOTH, C.HDR_RCVD, KINDS, {}, Outcome.UNREAD),
    **_before_open(C.HDR_EXCH, C.OPEN_RCVD),
    **_rows(BOTH, C.OPEN_PIPE, KINDS, {"AMQP header": C.OPEN_SENT}, _HEADER_FIRST),
    **_rows(BOTH, C.OC_PIPE, KINDS, {"AMQP header": C.CLOSE_PIPE}, _HEADER_FIRST),
    **_before_open(C.OPEN_SENT, C.OPENED),
    **_rows(BOTH, C.OPEN_RCVD, KINDS, {}, Outcome.UNREAD),
    **_before_open(C.CLOSE_PIPE, C.CLOSE_SENT),
    **_rows(
        BOTH,
        C.OPENED,
        KINDS,
        {
            **each(C.OPENED, *(*IN_SESSION, "empty frame")),
            "close": C.END,
            "open": _SECOND_OPEN,
            "AMQP header": _SECOND_HEADER,
        },
        _SECOND_OPEN,
    ),
    **_rows(BOTH, C.CLOSE_SENT, KINDS, {"close": C.END}, Outcome.DROPPED),
    **_rows(BOTH, C.DISCARDING, KINDS, {"close": C.END}, Outcome.DROPPED),
    **_rows(BOTH, C.END, KINDS, {}, Outcome.DROPPED),
}

_NOT_OPEN = _wrong("open has not been sent (2.4.1)")
_CLOSED = _wrong("nothing follows close (2.4.3)")
#: Frames that may follow our open before the peer's has arrived (2.4.4).
PIPELINED: Final = (*IN_SESSION, "empty frame")
SENDS: Final[Table] = {
    **_rows(BOTH, C.START, KINDS, {"AMQP header": C.HDR_SENT}, _HEADER_FIRST),
    **_rows(BOTH, C.HDR_SENT, KINDS, {"open": C.OPEN_PIPE}, _NOT_OPEN),
    **_rows(BOTH, C.HDR_RCVD, KINDS, {"AMQP header": C.HDR_EXCH}, _HEADER_FIRST),
    **_rows(BOTH, C.HDR_EXCH, KINDS, {"open": C.OPEN_SENT}, _NOT_OPEN),
    **_rows(BOTH, C.OPEN_PIPE, KINDS, {**each(C.OPEN_PIPE, *PIPELINED), "close": C.OC_PIPE}, _SECOND_OPEN),
    **_rows(BOTH, C.OC_PIPE, KINDS, {}, _CLOSED),
    **_rows(BOTH, C.OPEN_SENT, KINDS, {**each(C.OPEN_SENT, *PIPELINED), "close": C.CLOSE_PIPE}, _SECOND_OPEN),
    **_rows(BOTH, C.OPEN_RCVD, KINDS, {"open": C.OPENED}, _NOT_OPEN),
    **_rows(BOTH, C.CLOSE_PIPE, KINDS, {}, _CLOSED),
    **_rows(
        BOTH, C.OPENED, KINDS, {**each(C.OPENED, *(*IN_SESSION, "empty frame")), "close": C.CLOSE_SENT}, _SECOND_OPEN
    ),
    **_rows(BOTH, C.CLOSE_SENT, KINDS, {}, _CLOSED),
    **_rows(BOTH, C.DISCARDING, KINDS, {}, _CLOSED),
    **_rows(BOTH, C.END, KINDS, {}, _OVER),
}

# ------------------------------------------------------------------------------------------------ sessions

SESSION_KINDS: Final = IN_SESSION
_INSIDE: Final = ("attach", "flow", "transfer", "disposition", "detach")
_UNMAPPED = _wrong("no session on this channel (2.5.1)")
_BUSY = _wrong("the channel has a session (2.5.1)")
_ENDED = _wrong("nothing follows end (2.5.3)")
M = SessionState

SESSION_RECEIVES: Final[Table] = {
    **_rows(BOTH, M.UNMAPPED, SESSION_KINDS, {"begin": M.MAPPED}, _UNMAPPED),
    **_rows(BOTH, M.BEGIN_SENT, SESSION_KINDS, {"begin": M.MAPPED}, _UNMAPPED),
    **_rows(BOTH, M.MAPPED, SESSION_KINDS, {**each(M.MAPPED, *_INSIDE), "end": M.UNMAPPED, "begin": _BUSY}, _UNMAPPED),
    **_rows(BOTH, M.END_SENT, SESSION_KINDS, {"end": M.UNMAPPED, "begin": M.END_SENT}, Outcome.DROPPED),
    **_rows(BOTH, M.DISCARDING, SESSION_KINDS, {"end": M.UNMAPPED, "begin": Outcome.DROPPED}, Outcome.DROPPED),
}
_NOT_BEGUN = _wrong("begin has not been sent (2.5.1)")
SESSION_SENDS: Final[Table] = {
    **_rows(BOTH, M.UNMAPPED, SESSION_KINDS, {"begin": M.BEGIN_SENT}, _NOT_BEGUN),
    **_rows(BOTH, M.BEGIN_SENT, SESSION_KINDS, {**each(M.BEGIN_SENT, *_INSIDE), "end": M.END_SENT}, _BUSY),
    **_rows(BOTH, M.MAPPED, SESSION_KINDS, {**each(M.MAPPED, *_INSIDE), "end": M.END_SENT}, _BUSY),
    **_rows(BOTH, M.END_SENT, SESSION_KINDS, {}, _ENDED),
    **_rows(BOTH, M.DISCARDING, SESSION_KINDS, {}, _ENDED),
}

# ------------------------------------------------------------------------------------------------ links

LINK_KINDS: Final = ("attach", "flow", "transfer", "detach")
LINK_ROLES: Final = (LinkRole.SENDER, LinkRole.RECEIVER)
_UNATTACHED = Violation("no link with this handle (2.6.2)", ErrorCondition.SESSION_UNATTACHED_HANDLE)
_HANDLE_BUSY = Violation("the handle has a link (2.6.2)", ErrorCondition.SESSION_HANDLE_IN_USE)
_WRONG_WAY = _wrong("a transfer to a sender (2.6.1)")
_NO_CREDIT = Violation("no credit has been given (2.6.7)", ErrorCondition.LINK_TRANSFER_LIMIT_EXCEEDED)
_BY_SENDER = _wrong("only a sender sends transfers (2.6.1)")
_NOT_ATTACHED = _wrong("the link is not attached (2.6.3)")
_DETACHED = _wrong("nothing follows detach (2.6.5)")
_ERRANT = Violation("only detach follows a detach with an error (2.6.5)", ErrorCondition.SESSION_ERRANT_LINK)
SENDER, RECEIVER = LinkRole.SENDER, LinkRole.RECEIVER
L = LinkState

LINK_RECEIVES: Final[Table] = {
    **_rows(LINK_ROLES, L.DETACHED, LINK_KINDS, {"attach": L.ATTACH_RCVD}, _UNATTACHED),
    **_rows(LINK_ROLES, L.ATTACH_SENT, LINK_KINDS, {"attach": L.ATTACHED}, _UNATTACHED),
    **_rows(
        (SENDER,),
        L.ATTACH_RCVD,
        LINK_KINDS,
        {"flow": L.ATTACH_RCVD, "detach": L.DETACHED, "transfer": _WRONG_WAY},
        _HANDLE_BUSY,
    ),
    **_rows(
        (RECEIVER,),
        L.ATTACH_RCVD,
        LINK_KINDS,
        {"flow": L.ATTACH_RCVD, "detach": L.DETACHED, "transfer": _NO_CREDIT},
        _HANDLE_BUSY,
    ),
    **_rows(
        (SENDER,),
        L.ATTACHED,
        LINK_KINDS,
        {"flow": L.ATTACHED, "detach": L.DETACHED, "transfer": _WRONG_WAY},
        _HANDLE_BUSY,
    ),
    **_rows(
        (RECEIVER,),
        L.ATTACHED,
        LINK_KINDS,
        {"flow": L.ATTACHED, "transfer": L.ATTACHED, "detach": L.DETACHED},
        _HANDLE_BUSY,
    ),
    **_rows(LINK_ROLES, L.DETACH_SENT, LINK_KINDS, {"attach": L.DETACH_SENT, "detach": L.DETACHED}, Outcome.DROPPED),
    **_rows(LINK_ROLES, L.ERRORED, LINK_KINDS, {"detach": L.DETACHED}, _ERRANT),
}
LINK_SENDS: Final[Table] = {
    **_rows(LINK_ROLES, L.DETACHED, LINK_KINDS, {"attach": L.ATTACH_SENT}, _NOT_ATTACHED),
    **_rows((SENDER,), L.ATTACH_SENT, LINK_KINDS, {"flow": L.ATTACH_SENT, "detach": L.DETACH_SENT}, _NOT_ATTACHED),
    **_rows(
        (RECEIVER,),
        L.ATTACH_SENT,
        LINK_KINDS,
        {"flow": L.ATTACH_SENT, "detach": L.DETACH_SENT, "transfer": _BY_SENDER},
        _NOT_ATTACHED,
    ),
    **_rows(LINK_ROLES, L.ATTACH_RCVD, LINK_KINDS, {"attach": L.ATTACHED}, _NOT_ATTACHED),
    **_rows(
        (SENDER,),
        L.ATTACHED,
        LINK_KINDS,
        {"flow": L.ATTACHED, "transfer": L.ATTACHED, "detach": L.DETACH_SENT},
        _HANDLE_BUSY,
    ),
    **_rows(
        (RECEIVER,),
        L.ATTACHED,
        LINK_KINDS,
        {"flow": L.ATTACHED, "detach": L.DETACH_SENT, "transfer": _BY_SENDER},
        _HANDLE_BUSY,
    ),
    **_rows(LINK_ROLES, L.DETACH_SENT, LINK_KINDS, {}, _DETACHED),
    **_rows(LINK_ROLES, L.ERRORED, LINK_KINDS, {}, _DETACHED),
}

SASL: Final = Level(
    "The SASL layer", Role, SaslState, S.START, (S.DONE, S.FAILED), SASL_KINDS, SASL_RECEIVES, SASL_SENDS
)
CONNECTION: Final = Level("The connection", Role, State, C.START, (C.END,), KINDS, RECEIVES, SENDS)
SESSION: Final = Level(
    "A session", Role, SessionState, M.UNMAPPED, (M.UNMAPPED,), SESSION_KINDS, SESSION_RECEIVES, SESSION_SENDS
)
LINK: Final = Level("A link", LinkRole, LinkState, L.DETACHED, (L.DETACHED,), LINK_KINDS, LINK_RECEIVES, LINK_SENDS)
LEVELS: Final = (SASL, CONNECTION, SESSION, LINK)

MEANINGS: Final[dict[AnyState, str]] = {
    S.START: "no SASL header of the peer has arrived",
    S.HEADER: "the server has sent sasl-mechanisms or is about to; the client's sasl-init is awaited",
    S.INIT: "the exchange runs: a challenge or the outcome (client), or a response (server), is awaited",
    S.WAITING: "the server's host decides about the credentials; what follows stays unread",
    S.DONE: "outcome 0: protocol headers of AMQP follow",
    S.FAILED: "another outcome: the server closes",
    C.START: "no header has been sent or has arrived; a client reads nothing before its `open`",
    C.HDR_SENT: "our header has been sent",
    C.HDR_RCVD: "the peer's header has arrived; a server answers at once",
    C.HDR_EXCH: "both headers are known",
    C.OPEN_PIPE: "open has been sent after our header; the peer's header has not arrived",
    C.OC_PIPE: "open and close have been sent; the peer's header has not arrived",
    C.OPEN_SENT: "open has been sent, the peer's is awaited",
    C.OPEN_RCVD: "the peer's open has arrived; the host decides, what follows stays unread",
    C.CLOSE_PIPE: "open and close have been sent, the peer's open is awaited",
    C.OPENED: "both opens are known",
    C.CLOSE_SENT: "close has been sent, the peer's is awaited",
    C.DISCARDING: "close with an error has been sent: all but the peer's close is dropped",
    C.END: "the connection is over; what still comes is dropped",
    M.UNMAPPED: "there is no session",
    M.BEGIN_SENT: "begin has been sent, the peer's is awaited",
    M.MAPPED: "both begins are known",
    M.END_SENT: "end has been sent, the peer's is awaited",
    M.DISCARDING: "end with an error has been sent: all but the peer's end is dropped",
    L.DETACHED: "there is no link with this handle",
    L.ATTACH_SENT: "attach has been sent, the peer's is awaited",
    L.ATTACH_RCVD: "attach has arrived; the host decides",
    L.ATTACHED: "both attaches are known",
    L.DETACH_SENT: "detach has been sent, the peer's is awaited; transfers still count in the session's window",
    L.ERRORED: "the link was attached and detach with an error has been sent: only the peer's detach may come",
}
