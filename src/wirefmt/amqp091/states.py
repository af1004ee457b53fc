"""The states of an AMQP 0.9.1 connection and of its channels, and the tables of their transitions.

The tables have every role, state and kind of frame, for what comes from the peer (RECEIVES, CHANNEL_RECEIVES) and for what
we send (SENDS, CHANNEL_SENDS). The page docs/amqp091-connection.md is drawn from them. Sections 1.x are those of the
reference, 2.x and 4.x those of the specification; where both are silent the outcome is RabbitMQ's.
"""

from __future__ import annotations

import enum
from typing import Final

from wirefmt.amqp091.codes import ReplyCode
from wirefmt.connection.states import Outcome, Role, Violation, each, rows


class State(enum.Enum):
    """States of a connection."""

    IDLE = "idle"
    STARTING = "starting"
    DECIDING = "deciding"
    SECURING = "securing"
    TUNING = "tuning"
    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class ChannelState(enum.Enum):
    """States of a channel number."""

    UNUSED = "unused"
    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


CLIENT, SERVER = Role.CLIENT, Role.SERVER

#: What a state means in each role. A role has only the states that are listed.
MEANINGS: Final[dict[tuple[Role, State], str]] = {
    (CLIENT, State.IDLE): "the protocol header has not been sent",
    (CLIENT, State.STARTING): "the protocol header has been sent, start is awaited",
    (CLIENT, State.SECURING): "start-ok has been sent, secure or tune is awaited",
    (CLIENT, State.OPENING): "tune-ok and open have been sent, open-ok is awaited",
    (CLIENT, State.OPEN): "the connection is open",
    (CLIENT, State.CLOSING): "close has been sent, close-ok is awaited",
    (CLIENT, State.CLOSED): "the connection is over",
    (SERVER, State.IDLE): "no protocol header has arrived",
    (SERVER, State.STARTING): "start has been sent, start-ok is awaited",
    (SERVER, State.DECIDING): "the host decides about start-ok, secure-ok or open; what follows stays unread",
    (SERVER, State.SECURING): "secure has been sent, secure-ok is awaited",
    (SERVER, State.TUNING): "tune has been sent, tune-ok is awaited",
    (SERVER, State.OPENING): "tune-ok has arrived, open is awaited",
    (SERVER, State.OPEN): "the connection is open",
    (SERVER, State.CLOSING): "close has been sent, close-ok is awaited",
    (SERVER, State.CLOSED): "the connection is over",
}

CHANNEL_MEANINGS: Final[dict[tuple[Role, ChannelState], str]] = {
    (CLIENT, ChannelState.UNUSED): "the number has never been used",
    (CLIENT, ChannelState.OPENING): "open has been sent, open-ok is awaited; methods may be sent",
    (CLIENT, ChannelState.OPEN): "the channel is open",
    (CLIENT, ChannelState.CLOSING): "close has been sent, close-ok is awaited",
    (CLIENT, ChannelState.CLOSED): "the channel has been closed; its number is free",
    (SERVER, ChannelState.UNUSED): "the number is free",
    (SERVER, ChannelState.OPEN): "the channel is open",
    (SERVER, ChannelState.CLOSING): "close has been sent, close-ok is awaited",
}


#: Methods of class connection, by sender.
OF_SERVER: Final = (
    "connection.start",
    "connection.secure",
    "connection.tune",
    "connection.open-ok",
    "connection.blocked",
    "connection.unblocked",
    "connection.update-secret-ok",
)
OF_CLIENT: Final = (
    "connection.start-ok",
    "connection.secure-ok",
    "connection.tune-ok",
    "connection.open",
    "connection.update-secret",
)
OF_BOTH: Final = ("connection.close", "connection.close-ok")

HEADER: Final = "protocol header"
HEARTBEAT: Final = "heartbeat"
CHANNEL_FRAME: Final = "frame of a channel"
CHANNEL_ON_ZERO: Final = "method of a channel on channel 0"

#: Kinds of frames on a connection.
KINDS: Final[tuple[str, ...]] = (HEADER, HEARTBEAT, *OF_SERVER, *OF_CLIENT, *OF_BOTH, CHANNEL_FRAME, CHANNEL_ON_ZERO)

#: Methods on a channel, by sender. A content counts with its method.
BY_CLIENT: Final = (
    "access.request",
    "exchange.declare",
    "exchange.delete",
    "exchange.bind",
    "exchange.unbind",
    "queue.declare",
    "queue.bind",
    "queue.purge",
    "queue.delete",
    "queue.unbind",
    "basic.qos",
    "basic.consume",
    "basic.publish",
    "basic.get",
    "basic.reject",
    "basic.recover-async",
    "basic.recover",
    "confirm.select",
    "tx.select",
    "tx.commit",
    "tx.rollback",
)
BY_SERVER: Final = (
    "access.request-ok",
    "exchange.declare-ok",
    "exchange.delete-ok",
    "exchange.bind-ok",
    "exchange.unbind-ok",
    "queue.declare-ok",
    "queue.bind-ok",
    "queue.purge-ok",
    "queue.delete-ok",
    "queue.unbind-ok",
    "basic.qos-ok",
    "basic.consume-ok",
    "basic.return",
    "basic.deliver",
    "basic.get-ok",
    "basic.get-empty",
    "basic.recover-ok",
    "confirm.select-ok",
    "tx.select-ok",
    "tx.commit-ok",
    "tx.rollback-ok",
)
BY_BOTH: Final = ("channel.flow", "channel.flow-ok", "basic.ack", "basic.nack", "basic.cancel", "basic.cancel-ok")
LIFE: Final = ("channel.open", "channel.open-ok", "channel.close", "channel.close-ok")
ON_CHANNEL_ZERO_ONLY: Final = "method of class connection"

#: Kinds of methods on a channel.
CHANNEL_KINDS: Final[tuple[str, ...]] = (*LIFE, *BY_CLIENT, *BY_SERVER, *BY_BOTH, ON_CHANNEL_ZERO_ONLY)

Transition = State | Outcome | Violation
Table = dict[tuple[Role, State, str], Transition]
ChannelTransition = ChannelState | Outcome | Violation
ChannelTable = dict[tuple[Role, ChannelState, str], ChannelTransition]


def _wrong(rule: str) -> Violation:
    return Violation(rule, ReplyCode.COMMAND_INVALID)


_HEADER_FIRST = Violation("a connection begins with the protocol header (4.2.2)", ReplyCode.FRAME_ERROR)
_HEADER_LATE = Violation("a protocol header on a connection that has begun (4.2.2)", ReplyCode.FRAME_ERROR)
_ORDER = Violation("the handshake expects another method (2.2.4)", ReplyCode.COMMAND_INVALID)
_NO_CHANNELS = Violation("channels are used once the connection is open (4.3)", ReplyCode.UNEXPECTED_FRAME)
_BY_SERVER_ONLY = Violation("only a server sends this method (2.2.4)", ReplyCode.COMMAND_INVALID)
_BY_SERVER_ON_ZERO = Violation("only a server sends this method (2.2.4)", ReplyCode.CHANNEL_ERROR)
_ORDER_OPENING = Violation("the handshake expects open (2.2.4)", ReplyCode.CHANNEL_ERROR)
_BY_CLIENT_ONLY = Violation("only a client sends this method (2.2.4)", ReplyCode.COMMAND_INVALID)
_AGAIN = Violation("the handshake is over (2.2.4)", ReplyCode.CHANNEL_ERROR)
_NO_CLOSE = Violation("close-ok without close (1.4.2.10)", ReplyCode.CHANNEL_ERROR)
_ON_ZERO = Violation("channel 0 is for methods of class connection (4.3)", ReplyCode.CHANNEL_ERROR)

_HANDSHAKE: dict[str, Transition] = {
    HEADER: _HEADER_LATE,
    CHANNEL_FRAME: _NO_CHANNELS,
    CHANNEL_ON_ZERO: _ON_ZERO,
}

#: What comes from the peer.
RECEIVES: Final[Table] = {
    **rows(SERVER, State.IDLE, KINDS, {HEADER: State.STARTING}, _HEADER_FIRST),
    **rows(
        SERVER,
        State.STARTING,
        KINDS,
        {
            **_HANDSHAKE,
            **each(_BY_SERVER_ONLY, *OF_SERVER),
            HEARTBEAT: State.STARTING,
            "connection.start-ok": State.DECIDING,
        },
        _ORDER,
    ),
    **rows(SERVER, State.DECIDING, KINDS, {}, Outcome.UNREAD),
    **rows(
        SERVER,
        State.SECURING,
        KINDS,
        {
            **_HANDSHAKE,
            **each(_BY_SERVER_ONLY, *OF_SERVER),
            HEARTBEAT: State.SECURING,
            "connection.secure-ok": State.DECIDING,
        },
        _ORDER,
    ),
    **rows(
        SERVER,
        State.TUNING,
        KINDS,
        {
            **_HANDSHAKE,
            **each(_BY_SERVER_ONLY, *OF_SERVER),
            HEARTBEAT: State.TUNING,
            "connection.tune-ok": State.OPENING,
        },
        _ORDER,
    ),
    **rows(
        SERVER,
        State.OPENING,
        KINDS,
        {**_HANDSHAKE, HEARTBEAT: State.OPENING, "connection.open": State.DECIDING},
        _ORDER_OPENING,
    ),
    **rows(
        SERVER,
        State.OPEN,
        KINDS,
        {
            **each(_BY_SERVER_ON_ZERO, *OF_SERVER),
            HEADER: _HEADER_LATE,
            HEARTBEAT: State.OPEN,
            CHANNEL_FRAME: Outcome.CHANNEL,
            CHANNEL_ON_ZERO: _ON_ZERO,
            "connection.update-secret": State.OPEN,
            "connection.close": State.CLOSED,
            "connection.close-ok": _NO_CLOSE,
        },
        _AGAIN,
    ),
    **rows(
        SERVER,
        State.CLOSING,
        KINDS,
        {"connection.close": State.CLOSING, "connection.close-ok": State.CLOSED},
        Outcome.DROPPED,
    ),
    **rows(SERVER, State.CLOSED, KINDS, {}, Outcome.DROPPED),
    **rows(
        CLIENT,
        State.IDLE,
        KINDS,
        {},
        Violation("a server says nothing before the protocol header (4.2.2)", ReplyCode.FRAME_ERROR),
    ),
    **rows(
        CLIENT,
        State.STARTING,
        KINDS,
        {
            **_HANDSHAKE,
            **each(_BY_CLIENT_ONLY, *OF_CLIENT),
            HEADER: State.CLOSED,
            HEARTBEAT: State.STARTING,
            "connection.start": State.SECURING,
        },
        _ORDER,
    ),
    **rows(
        CLIENT,
        State.SECURING,
        KINDS,
        {
            **_HANDSHAKE,
            **each(_BY_CLIENT_ONLY, *OF_CLIENT),
            HEARTBEAT: State.SECURING,
            "connection.secure": State.SECURING,
            "connection.tune": State.OPENING,
            "connection.close": State.CLOSED,
        },
        _ORDER,
    ),
    **rows(
        CLIENT,
        State.OPENING,
        KINDS,
        {
            **_HANDSHAKE,
            **each(_BY_CLIENT_ONLY, *OF_CLIENT),
            HEARTBEAT: State.OPENING,
            "connection.open-ok": State.OPEN,
            "connection.close": State.CLOSED,
        },
        _ORDER,
    ),
    **rows(
        CLIENT,
        State.OPEN,
        KINDS,
        {
            **each(_BY_CLIENT_ONLY, *OF_CLIENT),
            HEADER: _HEADER_LATE,
            HEARTBEAT: State.OPEN,
            CHANNEL_FRAME: Outcome.CHANNEL,
            CHANNEL_ON_ZERO: _ON_ZERO,
            "connection.blocked": State.OPEN,
            "connection.unblocked": State.OPEN,
            "connection.update-secret-ok": State.OPEN,
            "connection.close": State.CLOSED,
            "connection.close-ok": _NO_CLOSE,
        },
        _AGAIN,
    ),
    **rows(
        CLIENT,
        State.CLOSING,
        KINDS,
        {"connection.close": State.CLOSING, "connection.close-ok": State.CLOSED},
        Outcome.DROPPED,
    ),
    **rows(CLIENT, State.CLOSED, KINDS, {}, Outcome.DROPPED),
}

_OVER = _wrong("the connection is over")
_NOT_OPEN = Violation("the connection is not open (2.2.4)", ReplyCode.CHANNEL_ERROR)

#: What we send. `close` before the handshake is complete ends the connection without a word, except a server's refusal.
SENDS: Final[Table] = {
    **rows(CLIENT, State.IDLE, KINDS, {HEADER: State.STARTING, "connection.close": State.CLOSED}, _HEADER_FIRST),
    **rows(
        CLIENT,
        State.STARTING,
        KINDS,
        {"connection.start-ok": State.SECURING, "connection.close": State.CLOSED},
        _NOT_OPEN,
    ),
    **rows(
        CLIENT,
        State.SECURING,
        KINDS,
        {
            HEARTBEAT: State.SECURING,
            "connection.secure-ok": State.SECURING,
            "connection.tune-ok": State.OPENING,
            "connection.close": State.CLOSED,
        },
        _NOT_OPEN,
    ),
    **rows(
        CLIENT,
        State.OPENING,
        KINDS,
        {HEARTBEAT: State.OPENING, "connection.open": State.OPENING, "connection.close": State.CLOSED},
        _NOT_OPEN,
    ),
    **rows(
        CLIENT,
        State.OPEN,
        KINDS,
        {
            **each(_BY_SERVER_ONLY, *OF_SERVER),
            HEADER: _HEADER_LATE,
            HEARTBEAT: State.OPEN,
            CHANNEL_FRAME: Outcome.CHANNEL,
            CHANNEL_ON_ZERO: _ON_ZERO,
            "connection.update-secret": State.OPEN,
            "connection.close": State.CLOSING,
            "connection.close-ok": _NO_CLOSE,
        },
        _AGAIN,
    ),
    **rows(
        CLIENT,
        State.CLOSING,
        KINDS,
        {"connection.close-ok": State.CLOSING},
        Violation("close has been sent (1.4.2.9)", ReplyCode.CHANNEL_ERROR),
    ),
    **rows(CLIENT, State.CLOSED, KINDS, {}, _OVER),
    **rows(SERVER, State.IDLE, KINDS, {"connection.close": State.CLOSED}, _HEADER_FIRST),
    **rows(SERVER, State.STARTING, KINDS, {"connection.close": State.CLOSED}, _NOT_OPEN),
    **rows(
        SERVER,
        State.DECIDING,
        KINDS,
        {
            "connection.secure": State.SECURING,
            "connection.tune": State.TUNING,
            "connection.open-ok": State.OPEN,
            "connection.close": State.CLOSED,
        },
        _NOT_OPEN,
    ),
    **rows(SERVER, State.SECURING, KINDS, {"connection.close": State.CLOSED}, _NOT_OPEN),
    **rows(SERVER, State.TUNING, KINDS, {"connection.close": State.CLOSED}, _NOT_OPEN),
    **rows(SERVER, State.OPENING, KINDS, {HEARTBEAT: State.OPENING, "connection.close": State.CLOSED}, _NOT_OPEN),
    **rows(
        SERVER,
        State.OPEN,
        KINDS,
        {
            **each(_BY_CLIENT_ONLY, *OF_CLIENT),
            HEADER: _HEADER_LATE,
            HEARTBEAT: State.OPEN,
            CHANNEL_FRAME: Outcome.CHANNEL,
            CHANNEL_ON_ZERO: _ON_ZERO,
            "connection.blocked": State.OPEN,
            "connection.unblocked": State.OPEN,
            "connection.update-secret-ok": State.OPEN,
            "connection.close": State.CLOSING,
            "connection.close-ok": _NO_CLOSE,
        },
        _AGAIN,
    ),
    **rows(
        SERVER,
        State.CLOSING,
        KINDS,
        {"connection.close-ok": State.CLOSING},
        Violation("close has been sent (1.4.2.9)", ReplyCode.CHANNEL_ERROR),
    ),
    **rows(SERVER, State.CLOSED, KINDS, {}, _OVER),
}

_UNUSED = Violation("the channel is not open: expected channel.open (1.5.2.1)", ReplyCode.CHANNEL_ERROR)
_SECOND_OPEN = Violation("channel.open on a channel that is open (1.5.2.1)", ReplyCode.CHANNEL_ERROR)
_NO_CHANNEL_CLOSE = Violation("channel.close-ok without channel.close (1.5.2.6)", ReplyCode.COMMAND_INVALID)
_NO_CANCEL = Violation("cancel-ok, but a server wants no answer to its cancel (RabbitMQ)", ReplyCode.COMMAND_INVALID)
_WRONG_CHANNEL = Violation("methods of class connection are on channel 0 (4.3)", ReplyCode.COMMAND_INVALID)


#: What comes from the peer on a channel, while the connection is open.
CHANNEL_RECEIVES: Final[ChannelTable] = {
    **rows(
        SERVER,
        ChannelState.UNUSED,
        CHANNEL_KINDS,
        {"channel.open": ChannelState.OPEN, ON_CHANNEL_ZERO_ONLY: _WRONG_CHANNEL},
        _UNUSED,
    ),
    **rows(
        SERVER,
        ChannelState.OPEN,
        CHANNEL_KINDS,
        {
            **each(ChannelState.OPEN, *BY_CLIENT, *BY_BOTH),
            "basic.cancel-ok": _NO_CANCEL,
            "channel.open": _SECOND_OPEN,
            "channel.close": ChannelState.UNUSED,
            "channel.close-ok": _NO_CHANNEL_CLOSE,
            ON_CHANNEL_ZERO_ONLY: _WRONG_CHANNEL,
        },
        _BY_SERVER_ONLY,
    ),
    **rows(
        SERVER,
        ChannelState.CLOSING,
        CHANNEL_KINDS,
        {
            "channel.open": _SECOND_OPEN,
            "channel.close": ChannelState.CLOSING,
            "channel.close-ok": ChannelState.UNUSED,
        },
        Outcome.DROPPED,
    ),
    **rows(CLIENT, ChannelState.UNUSED, CHANNEL_KINDS, {ON_CHANNEL_ZERO_ONLY: _WRONG_CHANNEL}, _UNUSED),
    **rows(
        CLIENT,
        ChannelState.OPENING,
        CHANNEL_KINDS,
        {"channel.open-ok": ChannelState.OPEN, "channel.close": ChannelState.CLOSED},
        Outcome.DROPPED,
    ),
    **rows(
        CLIENT,
        ChannelState.OPEN,
        CHANNEL_KINDS,
        {
            **each(ChannelState.OPEN, *BY_SERVER, *BY_BOTH),
            "channel.open-ok": Violation("channel.open-ok without channel.open (1.5.2.2)", ReplyCode.COMMAND_INVALID),
            "channel.close": ChannelState.CLOSED,
            "channel.close-ok": _NO_CHANNEL_CLOSE,
            ON_CHANNEL_ZERO_ONLY: _WRONG_CHANNEL,
        },
        _BY_CLIENT_ONLY,
    ),
    **rows(
        CLIENT,
        ChannelState.CLOSING,
        CHANNEL_KINDS,
        {"channel.close": ChannelState.CLOSING, "channel.close-ok": ChannelState.CLOSED},
        Outcome.DROPPED,
    ),
    **rows(CLIENT, ChannelState.CLOSED, CHANNEL_KINDS, {}, Outcome.DROPPED),
}

_CLOSE_SENT = Violation("channel.close has been sent (1.5.2.5)", ReplyCode.CHANNEL_ERROR)

_CLIENT_OPEN: dict[str, ChannelTransition] = {
    **each(_BY_SERVER_ONLY, *BY_SERVER, "channel.open-ok"),
    "channel.open": _SECOND_OPEN,
    "channel.close": ChannelState.CLOSING,
    "channel.close-ok": _NO_CHANNEL_CLOSE,
    ON_CHANNEL_ZERO_ONLY: _WRONG_CHANNEL,
}

#: What we send on a channel. A client may use a channel before open-ok has arrived.
CHANNEL_SENDS: Final[ChannelTable] = {
    **rows(CLIENT, ChannelState.UNUSED, CHANNEL_KINDS, {"channel.open": ChannelState.OPENING}, _UNUSED),
    **rows(CLIENT, ChannelState.OPENING, CHANNEL_KINDS, _CLIENT_OPEN, ChannelState.OPENING),
    **rows(CLIENT, ChannelState.OPEN, CHANNEL_KINDS, _CLIENT_OPEN, ChannelState.OPEN),
    **rows(CLIENT, ChannelState.CLOSING, CHANNEL_KINDS, {"channel.close-ok": ChannelState.CLOSING}, _CLOSE_SENT),
    **rows(CLIENT, ChannelState.CLOSED, CHANNEL_KINDS, {"channel.open": ChannelState.OPENING}, _UNUSED),
    **rows(SERVER, ChannelState.UNUSED, CHANNEL_KINDS, {}, _UNUSED),
    **rows(
        SERVER,
        ChannelState.OPEN,
        CHANNEL_KINDS,
        {
            **each(ChannelState.OPEN, *BY_SERVER, *BY_BOTH),
            "channel.open-ok": ChannelState.OPEN,
            "channel.close": ChannelState.CLOSING,
            "channel.close-ok": ChannelState.UNUSED,
            ON_CHANNEL_ZERO_ONLY: _WRONG_CHANNEL,
        },
        _BY_CLIENT_ONLY,
    ),
    **rows(SERVER, ChannelState.CLOSING, CHANNEL_KINDS, {"channel.close-ok": ChannelState.CLOSING}, _CLOSE_SENT),
}
