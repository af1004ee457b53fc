"""Options of NSQ connections, what they negotiate, their handles, and their events other than frames and commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from wirefmt import nsq
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, StartTls, WindowOpened
from wirefmt.errors import check_choice
from wirefmt.nsq.spec import ServerOptions

Event = Any
Publication = nsq.Publish | nsq.MultiPublish | nsq.DeferredPublish
Asked = nsq.Identify | nsq.Auth | nsq.Sub

#: Milliseconds between heartbeats, and of a message in flight, unless IDENTIFY asks for others.
HEARTBEAT_INTERVAL: Final = 30_000
MSG_TIMEOUT: Final = 60_000

#: The deflate level that nsqd uses where none is asked for, and the highest that it uses.
DEFLATE_LEVEL: Final = 6

Tls = Literal["no", "offered", "required"]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Limits and times of one connection. What a peer can make us remember is bounded by them.

    Attributes:
        frame_size: client: bytes of a frame of the server.
        unanswered: client: publishing commands that may wait for their answer. `send` refuses above it.
        touch: client: send TOUCH for each message in flight at half of its timeout. The server grants no more than its
            `max_msg_timeout` from the delivery on; TOUCH is not sent after that, and the message times out.
        answer_timeout: client: seconds until IDENTIFY, AUTH and SUB must be answered, and until TLS must be complete.
        undecided: server: publishing commands that may wait for an answer of the host before reading stops.
        undecided_bytes: server: bytes of these commands.
        unread_bytes: bytes kept while we do not read. A driver that reads on although `wants_read` is False meets it.
        pending_bytes: bytes queued for the peer. `send` refuses above it.
        identify_timeout: server: seconds until the magic and a first command must have arrived, and until TLS must be complete.
        server: server: what it accepts, with the names and defaults of nsqd's flags.
        tls: server: whether TLS is offered; "required": every command but IDENTIFY is refused without it.
        auth_required: server: SUB and publishing need AUTH first. False: AUTH is refused with E_AUTH_DISABLED.
        msg_timeout: server: milliseconds that a message may be in flight, unless IDENTIFY asks for another time.
        heartbeat_interval: server: milliseconds between heartbeats, unless IDENTIFY asks for another time.
        version: server: what the answer to IDENTIFY says.
    """

    frame_size: int = 1 << 24
    unanswered: int = 10_000
    touch: bool = False
    answer_timeout: float = 30.0
    undecided: int = 1024
    undecided_bytes: int = 1 << 26
    unread_bytes: int = 1 << 20
    pending_bytes: int = 1 << 26
    identify_timeout: float = 60.0
    server: ServerOptions = field(default_factory=ServerOptions)
    tls: Tls = "no"
    auth_required: bool = False
    msg_timeout: int = MSG_TIMEOUT
    heartbeat_interval: int = HEARTBEAT_INTERVAL
    version: str = "1.3.0"

    def __post_init__(self) -> None:
        for name, least, most in (
            ("frame_size", 64, 1 << 31),
            ("unanswered", 1, 1 << 31),
            ("undecided", 1, 1 << 31),
            ("msg_timeout", 1, 1 << 31),
            ("heartbeat_interval", 1, 1 << 31),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} is a number of {least} to {most}, not {value!r}")
        check_choice("tls", self.tls, Tls)


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What IDENTIFY and its answer have agreed on.

    Attributes:
        heartbeat_interval: milliseconds; 0: none.
        msg_timeout: milliseconds that a message may be in flight.
        max_msg_timeout: the longest time in flight in milliseconds, TOUCH included.
        max_rdy_count: the largest count of RDY.
        tls, deflate, snappy: what the connection uses from here on.
        deflate_level: of the stream.
        sample_rate: percentage of messages that are delivered; 0: all.
        auth_required: AUTH must come before SUB and publishing.
        members: the answer's JSON; empty without feature negotiation.
    """

    heartbeat_interval: int = HEARTBEAT_INTERVAL
    msg_timeout: int = MSG_TIMEOUT
    max_msg_timeout: int = 900_000
    max_rdy_count: int = 2500
    tls: bool = False
    deflate: bool = False
    deflate_level: int = DEFLATE_LEVEL
    snappy: bool = False
    sample_rate: int = 0
    auth_required: bool = False
    members: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A message in flight has timed out. The host of a server puts it into its channel again; a client cannot finish it any
    more.

    Attributes:
        handle: server: the Delivery; client: the MessageFrame.
    """

    handle: Any


@dataclass(frozen=True, slots=True)
class Requeued:
    """REQ has arrived: the message is not in flight any more, and the host delivers it again after `delay` milliseconds."""

    handle: nsq.Delivery
    delay: int


#: What a client's connection returns as events, and what a server's does.
ClientEvent = (
    nsq.MessageFrame | nsq.Error | Acknowledged | Connected | StartTls | TimedOut | WindowOpened | Disconnected
)
ServerEvent = (
    Asked
    | Publication
    | nsq.Close
    | Acknowledged
    | Connected
    | Requeued
    | StartTls
    | TimedOut
    | WindowOpened
    | Disconnected
)
