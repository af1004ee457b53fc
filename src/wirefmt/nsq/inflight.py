"""Messages in flight on one connection, and when they time out.

All messages of a connection have the same timeout, so they time out in the order in which they were sent. TOUCH moves a message
to the end of that order. A message that reaches the limit of TOUCH times out earlier: those are in a heap of their own.
"""

from __future__ import annotations

import heapq
from typing import Generic, Protocol, TypeVar


class Moment:
    """A time that several messages share. It is None until `InFlight.advance` sets it."""

    __slots__ = ("at",)

    def __init__(self, at: float | None = None) -> None:
        self.at = at


class Timed(Protocol):
    """What is in flight.

    Attributes:
        moment: when it was sent.
        until: None, or the time at which it times out after TOUCH, in seconds of the clock.
    """

    @property
    def moment(self) -> Moment: ...

    until: float | None


_Timed = TypeVar("_Timed", bound=Timed)


class InFlight(Generic[_Timed]):
    """Messages by their id, in the order in which they time out.

    Args:
        seconds: the timeout of a message.
        most: the longest time in flight, whatever TOUCH asks for.
    """

    __slots__ = ("_capped", "_counter", "_open", "by_id", "most", "seconds")

    def __init__(self, seconds: float, most: float) -> None:
        self.seconds = seconds
        self.most = max(most, seconds)
        self.by_id: dict[bytes, _Timed] = {}
        self._open: Moment | None = None  # of messages sent since the last call that brought the time
        self._capped: list[tuple[float, int, bytes, _Timed]] = []  # a heap
        self._counter = 0

    def __len__(self) -> int:
        return len(self.by_id)

    def moment(self) -> Moment:
        """The shared time of the messages that are sent now. The next call of `advance` sets it."""
        if self._open is None:
            self._open = Moment()
        return self._open

    @property
    def waits_for_time(self) -> bool:
        """True: messages were sent whose time is not known yet."""
        return self._open is not None

    def advance(self, now: float) -> None:
        """Set the time of the messages that were sent since the last call."""
        if self._open is not None:
            self._open.at = now
            self._open = None

    def touch(self, message_id: bytes, now: float) -> bool:
        """Start the timeout of a message again, within the limit. False: it is not in flight."""
        record = self.by_id.pop(message_id, None)
        if record is None:
            return False
        self.by_id[message_id] = record
        begun = record.moment.at if record.moment.at is not None else now
        last = begun + self.most
        record.until = now + self.seconds
        if record.until > last:
            record.until = last
            self._counter += 1
            heapq.heappush(self._capped, (last, self._counter, message_id, record))
            if len(self._capped) > 2 * len(self.by_id) + 8:  # many are of messages that are gone, or twice here
                alive = {entry[2]: entry for entry in self._capped if self.by_id.get(entry[2]) is entry[3]}
                self._capped = list(alive.values())
                heapq.heapify(self._capped)
        return True

    def next_touch(self) -> float | None:
        """When the next TOUCH is due, at half the timeout of a message; None: there is none that helps."""
        for record in self.by_id.values():
            if self._can_grow(record):
                return self._end(record) - self.seconds / 2
        return None

    def to_touch(self, now: float) -> list[bytes]:
        """The messages for which TOUCH is due."""
        due: list[bytes] = []
        for message_id, record in self.by_id.items():
            if self._can_grow(record):
                if self._end(record) - self.seconds / 2 > now:
                    break
                due.append(message_id)
        return due

    def next(self) -> float | None:
        """When the next message times out; None: nothing is in flight, or its time is not known."""
        for record in self.by_id.values():
            if record.moment.at is None:
                return None
            first = self._end(record)
            return min(first, self._capped[0][0]) if self._capped else first
        return None

    def expire(self, now: float) -> list[_Timed]:
        """Remove and return the messages that have timed out."""
        over: list[_Timed] = []
        while self._capped and self._capped[0][0] <= now:
            _, _, message_id, record = heapq.heappop(self._capped)
            if self.by_id.get(message_id) is record:
                del self.by_id[message_id]
                over.append(record)
        while self.by_id:
            message_id, record = next(iter(self.by_id.items()))
            if record.moment.at is None or self._end(record) > now:
                break
            del self.by_id[message_id]
            over.append(record)
        return over

    def clear(self) -> tuple[_Timed, ...]:
        """Remove and return all messages, in order."""
        left = tuple(self.by_id.values())
        self.by_id.clear()
        self._capped.clear()
        return left

    def _can_grow(self, record: _Timed) -> bool:
        """False: it has all the time that TOUCH can give it."""
        assert record.moment.at is not None
        return self._end(record) < record.moment.at + self.most

    def _end(self, record: _Timed) -> float:
        if record.until is not None:
            return record.until
        assert record.moment.at is not None
        return record.moment.at + self.seconds
