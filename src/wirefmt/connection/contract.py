"""The contract of all connections, and the events that are not messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from wirefmt.errors import Malformed

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Handle(Protocol):
    """What `send` returns for a message that the peer acknowledges.

    A handle is the same object from the first transmission to the end. Packet identifiers and tags are reused; handles
    are not. Compare them with `is`.
    """

    @property
    def number(self) -> int:
        """Counts up with each handle of a session, so numbers give the order of sending."""
        ...


class Change(NamedTuple):
    """One record for a journal. Applied in order, changes restore the state.

    Attributes:
        op: "put" replaces the record with this table and key; "delete" removes it; "clear" removes all of the table.
        table: the kind of record; each protocol names its own.
        key: with the table, what identifies the record.
        value: the record; empty for "delete" and "clear".
    """

    op: Literal["put", "delete", "clear"]
    table: str
    key: int
    value: bytes = b""


#: Keys of records are below: space for all numbers that a session ever gives.
LAST_KEY: Final = 1 << 62


def records_of(changes: Iterable[Change], tables: Iterable[str], protocol: str) -> dict[str, dict[int, bytes]]:
    """What these changes leave in each table, by key in ascending order. Raises DecodeError for what is not a change of these
    tables."""
    records: dict[str, dict[int, bytes]] = {table: {} for table in tables}
    for change in changes:
        if not isinstance(change, tuple) or len(change) != 4:
            raise Malformed(f"{change!r} is not a change", protocol=protocol)
        op, table, key, value = change
        kept = records.get(table) if isinstance(table, str) else None
        if kept is None:
            raise Malformed(f"no table is called {table!r}", protocol=protocol)
        if type(key) is not int or not 0 <= key < LAST_KEY:
            raise Malformed(f"the key of a record is a number, not {key!r}", protocol=protocol)
        match op:
            case "put":
                if not isinstance(value, bytes | bytearray | memoryview):
                    raise Malformed(f"a record is bytes, not {type(value).__name__}", protocol=protocol)
                kept[key] = bytes(value)
            case "delete":
                kept.pop(key, None)
            case "clear":
                kept.clear()
            case _:
                raise Malformed(f"no change is called {op!r}", protocol=protocol)
    return {table: dict(sorted(kept.items())) for table, kept in records.items()}


@dataclass(frozen=True, slots=True)
class Connected:
    """The handshake is complete.

    Attributes:
        negotiated: the agreed values; each protocol has a class for them.
        message: the message that completed the handshake: the peer's, or our own answer to the peer.
        resumed: True if the state of an earlier connection continues.
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
        code: the answer's code, or 0. The peer may refuse a message: see the protocol's codes.
    """

    handle: Handle
    message: Any
    code: int = 0


@dataclass(frozen=True, slots=True)
class WindowOpened:
    """A closed window is open again: `send` accepts messages that it refused before.

    Attributes:
        available: messages (or bytes, where the protocol counts bytes) that may be sent now.
        view: the channel or link with the window; None: the window is the connection's.
    """

    available: int
    view: Any = None


@dataclass(frozen=True, slots=True)
class StartTls:
    """The bytes that follow belong to TLS. `connection.trailing_data` has those that were already received."""


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

    `receive`, `receive_eof`, `handle_timeout` and `resume` never raise because of the peer: a fault ends in a
    `Disconnected` event with the error, after the events from before the fault. The connection queues the reply that the
    specification requires. After `Disconnected` these calls, `send` and all answers raise LocalProtocolError; queued bytes
    can still be taken.
    """

    def receive(self, data: Buffer, now: float) -> list[Any]:
        """Accept bytes from the peer; return the events that they complete, in order."""
        ...

    def receive_eof(self, now: float) -> list[Any]:
        """Accept the end of the peer's stream."""
        ...

    def send(self, message: Any) -> Any:
        """Queue a message, and return its handle or None.

        Raises LocalProtocolError if the message is not legal now; nothing has changed then.
        """
        ...

    def data_to_send(self) -> bytes:
        """Return all queued bytes, as one bytes object."""
        ...

    def buffers_to_send(self) -> Sequence[Buffer]:
        """Return all queued bytes, as a list of buffers in order. Large payloads are not copied."""
        ...

    def next_timeout(self) -> float | None:
        """The latest time for `handle_timeout`; None: no timer runs. Call it again after every other call."""
        ...

    def handle_timeout(self, now: float) -> list[Any]:
        """Run the timers that are due. Harmless if none is."""
        ...

    def pause(self) -> None:
        """Stop after the message being decoded. Bytes that follow are buffered."""
        ...

    def resume(self, now: float) -> list[Any]:
        """Continue after `pause`; return the events of the buffered bytes."""
        ...

    @property
    def trailing_data(self) -> bytes:
        """Received bytes that were not read, while paused or after the end."""
        ...

    @property
    def wants_read(self) -> bool:
        """False: stop reading from the transport. Bytes received in spite of this are buffered, up to a limit."""
        ...

    @property
    def should_close(self) -> bool:
        """True once the connection is over and its last bytes have been taken: shut down the sending side, read and drop
        further bytes, then close. Closing a socket with unread bytes resets the connection, and the peer may lose
        our last message."""
        ...

    @property
    def undecided(self) -> int:
        """The number of events that wait for an answer of the host."""
        ...

    @property
    def pending_bytes(self) -> int:
        """The number of queued bytes."""
        ...
