"""Faults that act on bytes: what lies between a connection and its driver."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wirefmt.broker.faults.frames import FrameSplitter
from wirefmt.broker.faults.protocols import PROTOCOLS
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import DecodeError, LocalProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from wirefmt.broker.faults.control import Active, Faults
    from wirefmt.connection.aio import Driver


class Passed:
    """What has passed on one connection since a fault began: messages, bytes, and acknowledgements that were lost."""

    __slots__ = ("lost", "messages", "octets")

    def __init__(self) -> None:
        self.messages = 0
        self.octets = 0
        self.lost = 0


class FaultyConnection:
    """A connection with faults, in the place of `Driver.connection`. While no fault is active it passes everything on.

    Args:
        connection: the real connection.
        name: the protocol.

    Attributes:
        asked: NSQ: the types of commands that have not been answered, in order. Only while messages are counted.
        requests: RocketMQ: the codes of requests that have not been answered, by opaque. Only while messages are counted.
        refused: the connection was made while clients were refused, and its protocol has no error for that.
    """

    def __init__(self, connection: Any, name: str, driver: Driver, faults: Faults) -> None:
        self.connection = connection
        self.driver = driver
        self.asked: deque[type[Any]] = deque()
        self.requests: dict[int | None, int | None] = {}
        self._rules = PROTOCOLS[name]
        self._faults = faults
        self._active = faults.active[name]
        self._passed: dict[Active, Passed] = {}
        self._splitter: FrameSplitter | None = None  # of the client's bytes, while messages are counted
        self._unread: deque[bytes] = deque()  # the client's bytes that the connection has not received yet
        self._unsent: deque[bytes] = (
            deque()
        )  # the broker's bytes, split if messages are counted, while the connection stalls
        self._late: deque[tuple[float, bytes]] = deque()  # times of sending, and bytes
        self._decoder: Any = None  # of the broker's bytes, while messages are counted
        self._stalled = False
        self._cut = False
        self._next_wrong = 0  # bytes until the next one that is corrupted
        self.refused = not self._rules.opening and any(active.fault.refuse for active in self._active)
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    # ---- in

    def receive(self, data: Buffer, now: float) -> list[Any]:
        if not self._active and not self._unread and self._splitter is None:
            return self.connection.receive(data, now)  # type: ignore[no-any-return]
        self._check()
        self._unread += self._split(bytes(data))
        if self.refused:
            self._drop()
        for active in self._active:
            if active.fault.reorder:
                self._faults.hold(active, self)
                return []
        return self.hear(now)

    def receive_eof(self, now: float) -> list[Any]:
        self._stop_splitting()
        events = self.hear(now)
        if not any(type(event) is Disconnected for event in events):
            events += self.connection.receive_eof(now)
        return events

    def hear(self, now: float) -> list[Any]:
        """Pass the client's bytes to the connection, as far as the faults allow it. Returns the events."""
        events: list[Any] = []
        while self._unread and not self._stalled and not self._cut:
            piece = self._unread.popleft()[: self._capacity()]
            found = self.connection.receive(piece, now)
            if self._reads_messages():
                for event in found:
                    self._rules.record(event, self)
            events += found
            self._count(sum(map(self._rules.is_publication, found)), len(piece))
            if any(type(event) is Disconnected for event in found):
                self._unread.clear()
        if self._cut:
            self._unread.clear()
        return events

    @property
    def wants_read(self) -> bool:
        return self.connection.wants_read and not self._stalled and not self._unread

    def _split(self, data: bytes) -> list[bytes]:
        """The client's bytes, split at the ends of frames if messages are counted.

        Splitting begins where a frame begins: in the middle of a stream, after a chunk that ends with a frame.
        """
        if self._splitter is None:
            if not self._reads_messages() or self._unread or self.connection._decoder.pending:
                return [data] if data else []
            self._splitter = FrameSplitter(lambda buffer: self._rules.size(buffer, "client"))
        pieces = self._splitter.split(data)
        if self._splitter.lost:
            self._splitter = None
        return pieces

    def _stop_splitting(self) -> None:
        if self._splitter is not None:
            if rest := self._splitter.rest():
                self._unread.append(rest)
            self._splitter = None

    # ---- out

    def data_to_send(self) -> bytes:
        return b"".join(self.buffers_to_send())

    def buffers_to_send(self) -> Sequence[Buffer]:
        if not self._active and not self._late and not self._unsent:
            return self.connection.buffers_to_send()  # type: ignore[no-any-return]
        self._check()
        now = self._loop.time()
        if not self._stalled and not self._cut:
            self._unsent += self._frames(self.connection.data_to_send())
            if data := self._changed():
                due = now + sum(active.fault.delay or 0 for active in self._active)
                if self._late:
                    due = max(due, self._late[-1][0])
                self._late.append((due, data))
        out = []
        while self._late and self._late[0][0] <= now:
            out.append(self._late.popleft()[1])
        if self._late:  # again if the loop is early, as uvloop may be by a part of a millisecond
            self._loop.call_at(self._late[0][0], self.driver.queued)
        return out

    @property
    def pending_bytes(self) -> int:
        kept = sum(len(data) for _, data in self._late) + sum(map(len, self._unsent))
        return self.connection.pending_bytes + kept  # type: ignore[no-any-return]

    @property
    def should_close(self) -> bool:
        return self.connection.should_close and not self._late and not self._unsent

    def _frames(self, data: bytes) -> list[bytes]:
        """The broker's bytes, split if messages are counted. A connection always queues whole frames."""
        if not data or not self._reads_messages():
            return [data] if data else []
        splitter = FrameSplitter(lambda buffer: self._rules.size(buffer, "server"))
        return [*splitter.split(data), *filter(None, [splitter.rest()])]

    def _changed(self) -> bytes:
        """Take the broker's bytes, as far as the faults let them pass, and as they change them."""
        out = bytearray()
        while self._unsent and not self._stalled and not self._cut:
            frame = self._unsent.popleft()
            messages = self._messages(frame)
            lost = sum(self._is_lost(message) for message in messages)
            deliveries = sum(self._rules.is_delivery(message, self) for message in messages)
            if self.requests:
                for message in messages:
                    self.requests.pop(message.opaque, None)
            if not lost:
                frame = frame[: self._capacity()]
                out += frame
                self._count(deliveries, len(frame))
        if self._cut:
            self._unsent.clear()
        for active in self._active:
            if active.fault.corrupt:
                self._corrupt(active, out)
        return bytes(out)

    def _messages(self, frame: bytes) -> list[Any]:
        if not self._reads_messages():
            return []
        if self._decoder is None:
            self._decoder = self._rules.decoder(self.connection)
        try:
            return self._decoder.feed(frame)  # type: ignore[no-any-return]
        except DecodeError:  # the rest of a message that began before the fault
            self._decoder = None
            return []

    def _is_lost(self, message: Any) -> bool:
        if not self._rules.is_acknowledgement(message, self):
            return False
        for active in self._active:
            passed = self._passed.setdefault(active, Passed())
            if passed.lost < (active.fault.lose_acknowledgements or 0):
                passed.lost += 1
                active.happened += 1
                return True
        return False

    def _corrupt(self, active: Active, data: bytearray) -> None:
        random, about = self._faults.random, active.fault.corrupt or 1
        self._next_wrong = self._next_wrong or random.randrange(2 * about)
        while self._next_wrong < len(data):
            data[self._next_wrong] ^= 1 << random.randrange(8)
            active.happened += 1
            self._next_wrong += 1 + random.randrange(2 * about)
        self._next_wrong -= len(data)

    # ---- both directions

    def _counts_messages(self) -> bool:
        return any(
            fault.cut_after is not None or fault.stall_after is not None or fault.lose_acknowledgements
            for fault in (active.fault for active in self._active)
        )

    def _reads_messages(self) -> bool:
        return self._counts_messages() and self._rules.is_framed(self.connection)

    def _capacity(self) -> int:
        """Bytes that may pass before the connection is dropped."""
        return min(
            (
                max(active.fault.cut_after_bytes - self._passed.get(active, Passed()).octets, 0)
                for active in self._active
                if active.fault.cut_after_bytes is not None
            ),
            default=sys.maxsize,
        )

    def _check(self) -> None:
        """Apply limits that are reached without anything passing: those of 0."""
        self._count(0, 0)

    def _count(self, messages: int, octets: int) -> None:
        """So much has passed."""
        for active in self._active:
            fault, passed = active.fault, self._passed.setdefault(active, Passed())
            passed.messages += messages
            passed.octets += octets
            if (fault.cut_after is not None and passed.messages >= fault.cut_after) or (
                fault.cut_after_bytes is not None and passed.octets >= fault.cut_after_bytes
            ):
                active.happened += not self._cut
                self._drop()
            if fault.stall_after is not None and passed.messages >= fault.stall_after and not self._stalled:
                active.happened += 1
                self._stalled = True

    def _drop(self) -> None:
        if not self._cut:
            self._cut = True
            self._loop.call_soon(self._close)

    def _close(self) -> None:
        """Close the transport without a closing message of the protocol. What has passed still arrives."""
        if self.driver.transport is not None:
            self.driver.transport.close()

    def begin(self) -> None:
        """A fault has begun."""
        self._check()
        if not self._cut:
            self.driver.update()

    def end(self, active: Active) -> None:
        """A fault has ended. The bytes that it held are passed on."""
        self._passed.pop(active, None)
        self._stalled = any(
            other.fault.stall_after is not None
            and self._passed.get(other, Passed()).messages >= other.fault.stall_after
            for other in self._active
        )
        if not self._counts_messages():
            self._stop_splitting()
            self._decoder = None
            self.asked.clear()
            self.requests.clear()
        try:
            self.driver.update(self.hear(self._loop.time()))
        except LocalProtocolError:
            pass  # the connection has ended meanwhile
