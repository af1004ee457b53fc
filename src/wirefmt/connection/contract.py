"""The contract that all connections keep, and the events that are not messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Handle(Protocol):
    """What `send` returns for a message that the peer acknowledges.

    A handle is one object from the first transmission to the end. Packet identifiers and tags are used again; handles
    are not. Compare them with `is`.
    """

    @property
    def number(self) -> int:
        """Counts up with each handle of a session, so numbers give the order of sending."""
        ...


@dataclass(frozen=True, slots=True)
class Connected:
    """The handshake is complete.

    Attributes:
        negotiated: what both sides have agreed on; each protocol has a class for it.
        message: the message that completed the handshake: the peer's, or our own answer to the peer.
        resumed: True if the state of an earlier connection goes on.
        lost: handles of an earlier connection that the peer has forgotten. They are not sent again.
    """

    negotiated: Any
    message: Any
    resumed: bool = False
    lost: tuple[Handle, ...] = ()


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The peer has answered a message that we sent. Its handle is finished.

    Attributes:
        handle: what `send` returned.
        message: the peer's answer.
        code: the answer's code, or 0. A message may be refused: see the protocol's codes.
    """

    handle: Handle
    message: Any
    code: int = 0


@dataclass(frozen=True, slots=True)
class WindowOpened:
    """A window that was closed is open again: `send` accepts messages it refused before.

    Attributes:
        available: messages (or bytes, where the protocol counts bytes) that may be sent now.
        view: the channel or link with the window; None: the window is the connection's.
    """

    available: int
    view: Any = None


@dataclass(frozen=True, slots=True)
class StartTls:
    """The bytes that follow belong to TLS. `connection.trailing_data` holds those that have come already."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is over. Always the last event, and there is exactly one.

    Attributes:
        by: who ended it. "local": a call of the host, a timer, or a fault of the peer that we answered;
            "peer": the peer's closing message; "transport": the stream ended without one.
        code: the protocol's code, sent or received; None: there was none.
        reason: why, in words.
        error: the DecodeError or RemoteProtocolError if the peer broke the protocol, else None.
        message: the peer's closing message, or None.
        resumable: handles that a later connection with the same session sends again.
        lost: handles whose end is not known and that are not sent again.
        will: what a server has to publish for the client now (or after the will's own delay); None: nothing.
    """

    by: Literal["local", "peer", "transport"]
    code: int | str | None = None
    reason: str = ""
    error: Exception | None = None
    message: Any = None
    resumable: tuple[Handle, ...] = ()
    lost: tuple[Handle, ...] = ()
    will: Any = None


class Connection(Protocol):
    """Both roles of every protocol.

    `now` is a time in seconds from any clock that never goes back, the same clock in every call.

    `receive`, `receive_eof`, `handle_timeout` and `resume` do not raise for what a peer does: a fault ends in a
    `Disconnected` event with the error, after the events that came before the fault. The answer that the specification
    asks for is queued. After `Disconnected` these calls, `send` and all answers raise LocalProtocolError; what is queued
    can still be taken.
    """

    def receive(self, data: Buffer, now: float) -> list[Any]:
        """Take bytes from the peer; return the events they complete, in order."""
        ...

    def receive_eof(self, now: float) -> list[Any]:
        """Take the end of the peer's stream."""
        ...

    def send(self, message: Any) -> Any:
        """Queue a message, and return its handle or None.

        Raises LocalProtocolError if the message is not legal now; nothing has changed then.
        """
        ...

    def data_to_send(self) -> bytes:
        """Take everything queued, as one bytes object."""
        ...

    def buffers_to_send(self) -> Sequence[Buffer]:
        """Take everything queued, as a list of buffers in order. Large payloads are not copied."""
        ...

    def next_timeout(self) -> float | None:
        """When to call `handle_timeout` at the latest; None: no timer runs. Ask again after every other call."""
        ...

    def handle_timeout(self, now: float) -> list[Any]:
        """Do what is due. Harmless if nothing is."""
        ...

    def pause(self) -> None:
        """Stop after the message being decoded. Bytes that follow are kept and not read."""
        ...

    def resume(self, now: float) -> list[Any]:
        """Go on after `pause`; return the events of the bytes kept."""
        ...

    @property
    def trailing_data(self) -> bytes:
        """Bytes received and not read, while paused or after the end."""
        ...

    @property
    def wants_read(self) -> bool:
        """False: stop reading from the transport. Bytes received anyway are kept, up to a limit."""
        ...

    @property
    def should_close(self) -> bool:
        """True once the connection is over and its last bytes have been taken: shut down the sending side, read and drop
        what still comes, then close. A socket closed with bytes unread resets the connection, which may cost the peer
        our last message."""
        ...

    @property
    def undecided(self) -> int:
        """Events that wait for an answer of the host."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Bytes queued and not taken."""
        ...
