"""Options of AMQP 1.0 connections, what they negotiate, their events other than performatives, and error conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from wirefmt.amqp10._codec import (
    Accepted,
    Attach,
    Detach,
    Error,
    Flow,
    Incoming,
    Modified,
    Open,
    Outgoing,
    Rejected,
    Released,
)
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.errors import LocalProtocolError

if TYPE_CHECKING:
    from wirefmt.amqp10.links import Link
    from wirefmt.amqp10.receiver import Receiver
    from wirefmt.amqp10.sender import Sender
    from wirefmt.amqp10.sessions import Session

Event = Any
State = Any  # a delivery state: Accepted, Rejected, Released, Modified, Received, Declared, TransactionalState

#: Default of max-frame-size, channel-max and handle-max where the field is absent (2.7.1, 2.7.2).
UNLIMITED: Final = 0xFFFFFFFF
#: The least max-frame-size, and what may be sent before the peer's open has arrived (2.7.1).
SMALLEST_FRAME: Final = 512
#: Serial numbers count modulo 2 ** 32 (RFC 1982).
MASK: Final = 0xFFFFFFFF

# Error conditions: 2.8.15 to 2.8.18, 4.5.8

#: snd-settle-mode (2.8.2) and rcv-settle-mode (2.8.3).
UNSETTLED: Final = 0
SETTLED: Final = 1
MIXED: Final = 2
FIRST: Final = 0
SECOND: Final = 1

#: Codes of `Acknowledged`: 0 for accepted (and declared), else the descriptor of the outcome (3.4).
CODES: Final[dict[type[Any], int]] = {Rejected: 0x25, Released: 0x26, Modified: 0x27}
OUTCOMES: Final = (Accepted, Rejected, Released, Modified)
ACCEPTED: Final = Accepted()


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Limits and times of one connection. What a peer can make us remember is bounded by them.

    Attributes:
        frame_size: bytes of a frame of the peer (announced as max-frame-size).
        sessions: sessions at a time (announced as channel-max, one less).
        links: links of a session at a time (announced as handle-max, one less).
        incoming_window: transfer frames of a session that the peer may send before we renew its window (announced).
        unsettled: deliveries of a session that are not settled, in each direction. The window announced closes at it.
        unfinished_bytes: bytes of messages that have arrived in part, over all links. A message above it detaches its link.
        message_size: bytes of one message (announced as max-message-size); 0: no limit but `unfinished_bytes`.
        elements: list entries in one frame.
        idle_timeout: seconds of silence of the peer after which the connection is over; half of it is announced. None:
            the peer may be silent.
        overrun: messages that a sender may send beyond the credit given. RabbitMQ 3.10 does so.
        undecided: logins, opens and attaches that may wait for the host; attaches beyond it are refused.
        unread_bytes: bytes kept while we do not read.
        pending_bytes: bytes queued for the peer. `send` refuses above it.
        open_timeout: seconds until the peer's open must have arrived.
        close_timeout: seconds that we wait for the peer's close.
        journaled: True: `changes` notes deliveries of links with a `Terminus`.
    """

    frame_size: int = 65536
    sessions: int = 256
    links: int = 1024
    incoming_window: int = 2048
    unsettled: int = 65536
    unfinished_bytes: int = 1 << 26
    message_size: int = 0
    elements: int = 100_000
    idle_timeout: float | None = 120.0
    overrun: int = 0
    undecided: int = 1000
    unread_bytes: int = 1 << 20
    pending_bytes: int = 1 << 26
    open_timeout: float = 30.0
    close_timeout: float = 5.0
    journaled: bool = False

    def __post_init__(self) -> None:
        for name, least, most in (
            ("frame_size", SMALLEST_FRAME, UNLIMITED),
            ("sessions", 1, 65536),
            ("links", 1, 1 << 32),
            ("incoming_window", 1, 1 << 31),
            ("unsettled", 1, 1 << 31),
            ("undecided", 1, 1 << 31),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} is a number of {least} to {most}, not {value}")
        if self.idle_timeout is not None and not 0 < self.idle_timeout < 4_000_000:
            raise ValueError(f"idle_timeout is a number of seconds up to 4000000, not {self.idle_timeout}")


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What both opens say together.

    Attributes:
        container_id: the peer's.
        hostname: what the client asked for.
        max_frame_size: bytes of a frame that the peer takes.
        channel_max: the highest channel number, the smaller of both.
        idle_timeout: seconds; the peer wants to hear of us at least so often. None: never.
    """

    container_id: str
    hostname: str | None
    max_frame_size: int
    channel_max: int
    idle_timeout: float | None


class Login:
    """A server's event: a client wants to authenticate. Nothing else is read before the answer.

    Answers: `accept(login)`, for SCRAM with `credentials`; `refuse(login, code)`; for other mechanisms than PLAIN,
    ANONYMOUS, EXTERNAL and SCRAM also `challenge(login, data)`.

    Attributes:
        mechanism: its name.
        user_name: of PLAIN and SCRAM.
        password: of PLAIN.
        authorization: whose rights are asked for; "": the user's own.
        response: what the client has sent.
        hostname: the host that the client asks for.
    """

    __slots__ = ("authorization", "hostname", "mechanism", "password", "response", "user_name")

    def __init__(self, mechanism: str, response: bytes, hostname: str | None) -> None:
        self.mechanism = mechanism
        self.response = response
        self.hostname = hostname
        self.user_name = ""
        self.password = ""
        self.authorization = ""

    def __repr__(self) -> str:
        return f"Login({self.mechanism!r}, user_name={self.user_name!r})"


@dataclass(frozen=True, slots=True)
class SessionBegun:
    """A session is mapped: the peer has answered our begin, or has begun it itself (and been answered).

    Attributes:
        session: the session.
        by: "local": ours; "peer": the peer's.
        message: the peer's begin.
    """

    session: Session
    by: Literal["local", "peer"]
    message: Any


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """A session is over, and its links with it; there are no events for these.

    Attributes:
        session: the session.
        by: who ended it.
        error: the error of the end, or None.
        resumable: handles that a link with the same Terminus sends again.
        lost: handles of which nothing more is heard.
        returned: deliveries that the host has not answered, or whose answer may not have arrived.
    """

    session: Session
    by: Literal["local", "peer"]
    error: Error | None
    resumable: tuple[Outgoing, ...] = ()
    lost: tuple[Outgoing, ...] = ()
    returned: tuple[Incoming, ...] = ()


class Attaching:
    """The peer attaches a link. Answers: `accept(attaching, source, target, ...)`, `refuse(attaching, error)`. An answer
    does nothing if the link is gone (`LinkDetached`, `SessionEnded`, `Disconnected`).

    Attributes:
        link: our end of it: a Sender if the peer receives.
        message: the peer's attach.
    """

    __slots__ = ("answered", "link", "message")

    def __init__(self, link: Link, message: Attach) -> None:
        self.link = link
        self.message = message
        self.answered = False

    def __repr__(self) -> str:
        return f"Attaching({self.message!r})"


@dataclass(frozen=True, slots=True)
class LinkAttached:
    """The peer has answered our attach with a terminus.

    Attributes:
        link: the link.
        message: the peer's attach, with the actual source and target.
    """

    link: Link
    message: Attach


@dataclass(frozen=True, slots=True)
class LinkDetached:
    """A link is over, or an attach is refused.

    Attributes:
        link: the link.
        by: who detached it.
        closed: True: the link is gone. False: its terminus stays, and it may be resumed.
        error: the error of the detach, or None.
        message: the peer's detach, or None.
        resumable, lost, returned: as in SessionEnded.
    """

    link: Link
    by: Literal["local", "peer"]
    closed: bool
    error: Error | None
    message: Detach | None = None
    resumable: tuple[Outgoing, ...] = ()
    lost: tuple[Outgoing, ...] = ()
    returned: tuple[Incoming, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a delivery, on a link with `streamed`. An `Incoming` event with an empty payload follows the last part.

    Attributes:
        delivery: the delivery.
        payload: the next bytes of its message.
    """

    delivery: Incoming
    payload: bytes


@dataclass(frozen=True, slots=True)
class Aborted:
    """The sender has given up a delivery of which a part had arrived. It needs no answer (2.7.5)."""

    delivery: Incoming


@dataclass(frozen=True, slots=True)
class Settled:
    """The sender has settled a delivery: our answer has arrived (rcv-settle-mode second), or is not wanted.

    Attributes:
        delivery: the delivery; None: it came on an earlier connection, and only its tag is known.
        link: the link.
        delivery_tag: the delivery's.
        state: what the sender says of it, or our own state.
    """

    delivery: Incoming | None
    link: Receiver
    delivery_tag: bytes
    state: State


@dataclass(frozen=True, slots=True)
class Updated:
    """The receiver tells a state other than an outcome: Received, or a transaction without one. One disposition is one event.

    Attributes:
        handles: the deliveries that it names. Their list is made when it is first looked at, and has those that are not
            settled then.
        state: the state.
    """

    handles: Sequence[Outgoing]
    state: State


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """The receiver wants what there is now, and its credit back. Send, then call `link.drained()` (2.6.7).

    Attributes:
        link: the sender.
        credit: what may be sent.
    """

    link: Sender
    credit: int


@dataclass(frozen=True, slots=True)
class Drained:
    """The sender has answered `drain`: no message is pending, and the credit is 0."""

    link: Receiver


@dataclass(frozen=True, slots=True)
class Flowed:
    """A flow with properties of the link (2.7.4).

    Attributes:
        view: the link, or the session if the flow names no link.
        message: the flow.
    """

    view: Link | Session
    message: Flow


@dataclass(frozen=True, slots=True)
class Change:
    """A record for a journal: the last one with the same table and key counts.

    Attributes:
        op: "put" or "delete".
        table: "sender NAME" or "receiver NAME".
        key: the delivery-tag.
        value: what `Terminus.replay` reads; b"" with "delete".
    """

    op: Literal["put", "delete"]
    table: str
    key: bytes
    value: bytes = b""


def build(cls: Callable[..., Any], **fields: Any) -> Any:
    """A performative from the host's values, which the codec checks."""
    try:
        made = cls(**fields)
        made.encode()
        return made
    except (TypeError, ValueError) as error:
        raise LocalProtocolError(str(error)) from error


#: What a client's connection returns as events, and what a server's does.
ClientEvent = (
    Incoming
    | Aborted
    | Acknowledged
    | Attaching
    | Connected
    | Drained
    | DrainRequested
    | Flowed
    | LinkAttached
    | LinkDetached
    | Part
    | SessionBegun
    | SessionEnded
    | Settled
    | Updated
    | WindowOpened
    | Disconnected
)
ServerEvent = ClientEvent | Login | Open
