"""Options of AMQP 0.9.1 connections, what they negotiate, their handles, and their events other than methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from wirefmt import amqp091
from wirefmt.amqp091._codec import Consumer, Delivery, Publication
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp091.spec import CAPABILITIES, FRAME_MIN, REPLY_CODES
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened

Event = Any

#: Codes that close the channel; any other one closes the connection.
SOFT: Final = frozenset(row.code for row in REPLY_CODES if row.kind == "soft") - {
    ReplyCode.NO_ROUTE,
    ReplyCode.NO_CONSUMERS,
}

#: A frame-max of 0 means no limit: the largest size that a frame can have.
NO_FRAME_LIMIT: Final = 0xFFFF_FFFF

#: What we announce: a server all of RabbitMQ's that the connection keeps to, a client those that a server looks at and those
#: that it knows how to use.
SERVER_CAPABILITIES: Final = {
    name: True for name, sides in CAPABILITIES.items() if "server" in sides and name != "direct_reply_to"
}
CLIENT_CAPABILITIES: Final = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


def reply_text(code: int, reason: str) -> str:
    """`NAME - reason`, as RabbitMQ writes it, cut to the 255 bytes of a short string."""
    name = next((known.name for known in ReplyCode if known == code), "ERROR")
    text = f"{name} - {reason}".encode()[:255]
    return text.decode(errors="ignore")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Limits and times of one connection. What a peer can make us remember is bounded by them.

    Attributes:
        channel_max: channels that may be open at a time; 0: 65535. Proposed by a server, an upper bound for a client.
        frame_max: bytes of a frame with its 8 bytes around the payload; 0: no limit. Proposed by a server, an upper bound for
            a client.
        heartbeat: seconds; 0: none. Proposed by a server; a client takes the smaller of both, or the one that is not 0.
        first_frame: bytes of a frame before tune-ok (4.2.3 has 4096, RabbitMQ 8192 since 4.1).
        elements: entries of the tables in one frame.
        message_size: bytes of a body; a larger one closes the channel with 406.
        body_size: bytes of a body that are read at all; a content header with more closes the connection.
        unfinished_bytes: bytes of contents that are not complete, on all channels together.
        undecided: events that may wait for an answer before reading stops. At a server requests and publishes in confirm
            mode; at a client deliveries that are not acknowledged.
        unacknowledged: deliveries of one channel of a server that may wait for an acknowledgement.
        unconfirmed: publishes of one channel of a client that may wait for a confirm.
        consumers: consumers of one channel.
        unread_bytes: bytes kept while we do not read. A driver that reads on although `wants_read` is False meets it.
        pending_bytes: bytes queued for the peer. `send` refuses above it.
        handshake_timeout: seconds from the beginning until the connection is open.
        close_timeout: seconds that close-ok is waited for.
        blocked_timeout: seconds that a client waits for unblocked; None: for ever.
    """

    channel_max: int = 2047
    frame_max: int = 131_072
    heartbeat: int = 60
    first_frame: int = 8192
    elements: int = 10_000
    message_size: int = 1 << 24
    body_size: int = 1 << 27
    unfinished_bytes: int = 1 << 28
    undecided: int = 65_535
    unacknowledged: int = 65_535
    unconfirmed: int = 65_535
    consumers: int = 10_000
    unread_bytes: int = 1 << 20
    pending_bytes: int = 1 << 26
    handshake_timeout: float = 10.0
    close_timeout: float = 10.0
    blocked_timeout: float | None = None

    def __post_init__(self) -> None:
        for name, least, most in (
            ("channel_max", 0, 65535),
            ("heartbeat", 0, 65535),
            ("first_frame", FRAME_MIN, NO_FRAME_LIMIT),
            ("undecided", 1, 1 << 32),
            ("unacknowledged", 1, 1 << 32),
            ("unconfirmed", 1, 1 << 32),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} is a number of {least} to {most}, not {value!r}")
        if self.frame_max and self.frame_max < FRAME_MIN:
            raise ValueError(f"frame_max is 0 or at least {FRAME_MIN}, not {self.frame_max!r}")


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What the handshake has agreed on.

    Attributes:
        channel_max: channels that may be open at a time.
        frame_max: bytes of a frame; 0: no limit.
        heartbeat: seconds; 0: none.
        mechanism: of SASL.
        virtual_host: the client's choice.
        properties: the peer's: server-properties or client-properties.
        capabilities: names of the capabilities that the peer has announced as true.
    """

    channel_max: int
    frame_max: int
    heartbeat: int
    mechanism: str
    virtual_host: str
    properties: amqp091.FieldTable
    capabilities: frozenset[str] = field(default_factory=frozenset)


class Call:
    """The handle of a method that waits for its reply.

    Attributes:
        number: counts up with each handle of a connection.
        message: the method.
    """

    __slots__ = ("message", "number")

    def __init__(self, number: int, message: amqp091.Method) -> None:
        self.number = number
        self.message = message

    @property
    def channel(self) -> int:
        return self.message.channel

    def __repr__(self) -> str:
        return f"<Call {self.number}: {self.message.name}>"


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The server has answered publishes: one event for each basic.ack or basic.nack.

    Attributes:
        channel: the number of the channel.
        handles: the publications, in the order of sending. They are finished.
        accepted: True: basic.ack. False: basic.nack, the server has not taken the messages.
        message: the method.
    """

    channel: int
    handles: Sequence[Publication]
    accepted: bool
    message: amqp091.Method


@dataclass(frozen=True, slots=True)
class Returned:
    """The server returns a message that it could not route (1.8.3.9). In confirm mode its confirm follows.

    Attributes:
        message: basic.return with the content.
        handle: the publication, in confirm mode; None: it is not known which one it was.
    """

    message: amqp091.BasicMessage
    handle: Publication | None


@dataclass(frozen=True, slots=True)
class Settled:
    """The client has acknowledged, rejected or recovered deliveries.

    Attributes:
        channel: the number of the channel.
        deliveries: in the order of their tags. They are finished.
        outcome: "ack": they are done. "requeue": to be delivered again. "discard": rejected without requeue.
        message: basic.ack, nack, reject, recover or recover-async.
    """

    channel: int
    deliveries: Sequence[Delivery]
    outcome: Literal["ack", "requeue", "discard"]
    message: amqp091.Method


@dataclass(frozen=True, slots=True)
class ChannelOpened:
    """The client has opened a channel.

    Attributes:
        channel: the number of the channel.
        view: the channel. It stays the same object when the number is used again by another one.
    """

    channel: int
    view: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """A channel is closed. Its number may be used again.

    Attributes:
        channel: the number of the channel.
        by: "local": a call of the host, or a fault of the peer; "peer": the peer's channel.close.
        code: the reply code, sent or received.
        reason: the reply text.
        error: the RemoteProtocolError if the peer broke a rule, else None.
        message: the peer's channel.close, or None.
        resumable: publications without a confirm, in the order of sending: whether the server has them is not known.
        lost: calls without a reply (of a client); deliveries without an acknowledgement, in order (of a server): they go back
            to their queues.
        consumers: the consumers that have ended with it.
    """

    channel: int
    by: Literal["local", "peer"]
    code: int
    reason: str
    error: Exception | None = None
    message: amqp091.ChannelClose | None = None
    resumable: tuple[Publication, ...] = ()
    lost: tuple[Any, ...] = ()
    consumers: tuple[Consumer, ...] = ()


@dataclass(frozen=True, slots=True)
class ChannelWaits:
    """A method that a server's connection answers by itself waits, with what follows it on its channel, until the host has
    handled the messages that were published before it (4.7): one of them may be refused, which closes the channel.

    The host calls `ServerConnection.proceed` when it comes to this event. `Peer` does it, and passes the event to no handler.

    Attributes:
        channel: the number of the channel.
    """

    channel: int


#: What a client's connection returns as events, and what a server's does.
ClientEvent = (
    amqp091.BasicMessage
    | amqp091.BasicCancel
    | amqp091.ChannelFlow
    | amqp091.ChannelFlowOk
    | amqp091.ConnectionBlocked
    | amqp091.ConnectionUnblocked
    | Acknowledged
    | ChannelClosed
    | Confirmed
    | Connected
    | Returned
    | WindowOpened
    | Disconnected
)
ServerEvent = (
    amqp091.ConnectionStartOk
    | amqp091.ConnectionSecureOk
    | amqp091.ConnectionOpen
    | amqp091.ConnectionUpdateSecret
    | amqp091.BasicMessage
    | amqp091.BasicGet
    | amqp091.BasicConsume
    | amqp091.BasicCancel
    | amqp091.BasicQos
    | amqp091.ExchangeDeclare
    | amqp091.ExchangeDelete
    | amqp091.ExchangeBind
    | amqp091.ExchangeUnbind
    | amqp091.QueueDeclare
    | amqp091.QueueBind
    | amqp091.QueuePurge
    | amqp091.QueueDelete
    | amqp091.QueueUnbind
    | amqp091.TxSelect
    | amqp091.TxCommit
    | amqp091.TxRollback
    | amqp091.ChannelFlow
    | amqp091.ChannelFlowOk
    | ChannelClosed
    | ChannelOpened
    | ChannelWaits
    | Connected
    | Settled
    | Disconnected
)
