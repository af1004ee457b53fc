"""Options of PHPMQ connections, their handles, and their events other than messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from wirefmt import phpmq
from wirefmt.connection.contract import Acknowledged, Disconnected, WindowOpened
from wirefmt.errors import check_choice

Event = Any
Profile = Literal["present", "early"]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Limits of one connection. What a peer can make us remember is bounded by them.

    Attributes:
        profile: "early": the form that the existing PHP server and client speak, without TTL, re-queue and dead letter.
            "present": the form that the protocol's README describes. Both say version 01.
        frame_size: bytes of a message of the peer.
        in_flight: server: messages that may be in flight, whatever a consume request says.
        unread_bytes: bytes kept while we do not read. A driver that reads on although `wants_read` is False meets it.
        pending_bytes: bytes queued for the peer. `send` refuses above it.
        first_timeout: server: seconds until the client's first message must have arrived, whole; None: any time.
        idle_timeout: server: seconds without bytes of a client after which the connection ends; None: none. The protocol has no
            heartbeat: a consumer without messages is silent, and a publisher that is cut off loses what it sends next without
            being told. So it is None, unless clients are known to say something.
    """

    profile: Profile = "early"
    frame_size: int = 1 << 24
    in_flight: int = 10_000
    unread_bytes: int = 1 << 20
    pending_bytes: int = 1 << 26
    first_timeout: float | None = 30.0
    idle_timeout: float | None = None

    def __post_init__(self) -> None:
        check_choice("profile", self.profile, Profile)
        for name, least, most in (("frame_size", 64, 1 << 32), ("in_flight", 1, 1 << 31)):
            value = getattr(self, name)
            if not least <= value < most:
                raise ValueError(f"{name} is a number of {least} to {most - 1}, not {value!r}")
        for name in ("first_timeout", "idle_timeout"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is a number of seconds or None, not {value!r}")


class Delivery:
    """The handle of a message that a server has sent. `Acknowledged`, `Returned` or the end of the connection finishes it,
    exactly one of them.

    Attributes:
        message_id: the message's.
        queue_name: where it comes from.
        host: what the host wants to find here.
    """

    __slots__ = ("host", "message_id", "number", "queue_name")

    def __init__(self, number: int, queue_name: str, message_id: str, host: Any = None) -> None:
        self.number = number
        self.queue_name = queue_name
        self.message_id = message_id
        self.host = host

    def __repr__(self) -> str:
        return f"<Delivery {self.number}: {self.message_id!r} of {self.queue_name!r}>"


@dataclass(frozen=True, slots=True)
class Returned:
    """A new consume request has replaced the one before: the host puts these messages into their queue again."""

    handles: tuple[Delivery, ...]


#: What a client's connection returns as events, and what a server's does.
ClientEvent = phpmq.MessageServerToClient | Disconnected
ServerEvent = (
    phpmq.MessageClientToServer
    | phpmq.ConsumeRequest
    | phpmq.Acknowledgement
    | phpmq.ReQueue
    | phpmq.DeadLetter
    | Acknowledged
    | Returned
    | WindowOpened
    | Disconnected
)
