"""Options of RocketMQ connections, negotiated values, events that are not commands, and response codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, StartTls
from wirefmt.errors import check_choice
from wirefmt.rocketmq._codec import RemotingCommand, Request, sign, signature
from wirefmt.rocketmq.spec import CURRENT_VERSION

Event = Any
SerializeType = Literal["JSON", "ROCKETMQ"]
Tls = Literal["disabled", "permissive", "enforcing"]

#: The largest frame of real peers, with its length word.
LARGEST_FRAME: Final = 1 << 24

#: First bytes of frames are lower than those of prefaces, up to this size of a frame.
FRAME_MOST: Final = 0x0D000000

#: The number of release 5.3.1, above which GO_AWAY is known.
VERSION_5_3_1: Final = 475

# Response codes (docs/rocketmq.md, 4 to 6)

#: Request codes above it do not fit into binary headers.
BINARY_CODE_MOST: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class Credentials:
    """What requests are signed with (section 11)."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, command: RemotingCommand) -> RemotingCommand:
        """The command with AccessKey and Signature."""
        return sign(command, access_key=self.access_key, secret_key=self.secret_key, security_token=self.security_token)


def is_signed(command: RemotingCommand, find: Callable[[str], str | None]) -> bool:
    """True if a request has a valid signature (section 11). The answer for an unknown access key takes as long.

    Args:
        command: the request.
        find: gives the secret key of an access key; None: there is no such key.
    """
    from hmac import compare_digest

    fields = command.ext_fields or {}
    key, given = fields.get("AccessKey"), fields.get("Signature")
    if key is None or given is None:
        return False
    secret = find(key)
    same = compare_digest(signature(command, secret or "").encode(), given.encode())
    return same and secret is not None


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Limits, times and defaults of one connection. They bound what a peer can make us remember.

    Attributes:
        serialize_type: the headers of our requests. Codes above 32767 (POP) always have JSON. A response has the form of its
            request. A server's requests have the form of the client's last request.
        language, version: of our commands.
        credentials: our requests are signed with them; None: not signed.
        timeout: seconds that a request may take, if `send` says nothing else.
        pending: requests of ours that may wait for their responses. `send` refuses above it.
        pending_bytes: bytes queued for the peer. `send` refuses above it; a peer that does not take its responses is given up.
        undecided: requests of the peer that may wait for an answer of the host before reading stops. A broker holds pulls for
            some seconds, one for each queue and consumer.
        unread_bytes: bytes kept while we do not read. Only a driver that ignores `wants_read` reaches it.
        frame_size: bytes of a frame of the peer.
        remembered: requests that have timed out or were cancelled and whose late responses are counted as such.
        idle_timeout: seconds without bytes of the peer after which a server ends the connection; None: none. Real servers:
            120.
        first_timeout: server: seconds until the client's first command must have arrived, whole; None: any time.
        tls: what a server does about a client that begins with TLS (section 12). "disabled": end. "permissive": `StartTls`.
            "enforcing": a client that does not is a fault.
        proxy: True: a server takes a PROXY preface, version 1 or 2 (section 12).
    """

    serialize_type: SerializeType = "JSON"
    language: str = "PYTHON"
    version: int = CURRENT_VERSION
    credentials: Credentials | None = None
    timeout: float = 3.0
    pending: int = 65535
    pending_bytes: int = 1 << 26
    undecided: int = 4096
    unread_bytes: int = 1 << 20
    frame_size: int = LARGEST_FRAME
    remembered: int = 1024
    idle_timeout: float | None = 120.0
    first_timeout: float | None = 30.0
    tls: Tls = "disabled"
    proxy: bool = False

    def __post_init__(self) -> None:
        for name, least, most in (
            ("pending", 1, 0x7FFFFFFF),
            ("undecided", 1, 0x7FFFFFFF),
            ("remembered", 0, 0x7FFFFFFF),
            ("frame_size", 64, FRAME_MOST),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} is a number of {least} to {most}, not {value!r}")
        check_choice("serialize_type", self.serialize_type, SerializeType)
        check_choice("tls", self.tls, Tls)
        if self.timeout <= 0 or (self.idle_timeout is not None and self.idle_timeout <= 0):
            raise ValueError("timeout and idle_timeout are above 0")


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What is known from the peer's first command. RocketMQ has no handshake.

    Attributes:
        language: as "JAVA"; None: an unknown one.
        version: the ordinal of the release: 479 is 5.3.3. Name servers say 0.
        serialize_type: of its headers.
        tls: True: the connection runs over TLS that began with a preface.
        source: address and port of the client, if a PROXY preface says so.
    """

    language: str | None
    version: int
    serialize_type: SerializeType
    tls: bool = False
    source: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No response has arrived in time. The handle is finished; a later response is counted in `late`."""

    handle: Request


#: What a client's connection returns as events, and what a server's does.
ClientEvent = RemotingCommand | Acknowledged | Connected | TimedOut | Disconnected
ServerEvent = ClientEvent | StartTls
