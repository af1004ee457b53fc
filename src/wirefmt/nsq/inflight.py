"""Messages in flight on one connection, and when their time is over.

All messages of a connection have the same time, so the order in which they were sent is the order in which they end. TOUCH
moves a message to the end of that order; only one that TOUCH cannot give its whole time has to be kept apart.
"""

from __future__ import annotations

import heapq
from typing import Generic, Protocol, TypeVar


class Moment:
    """A time that several messages share. It is not known until the next call brings the time."""

    __slots__ = ("at",)

    def __init__(self, at: float | None = None) -> None:
        self.at = at


class Timed(Protocol):
    """What is in flight.

    Attributes:
        moment: when it was sent.
        until: None, or what TOUCH has made of its end: seconds of the clock.
    """

    @property
    def moment(self) -> Moment: ...

    until: float | None


_Timed = TypeVar("_Timed", bound=Timed)


class InFlight(Generic[_Timed]):
    """Messages by their id, in the order in which their time ends.

    Args:
        seconds: the time of a message.
        most: the time of a message that is touched again and again.
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
        """The time of what is sent now: the next call brings it."""
        if self._open is None:
            self._open = Moment()
        return self._open

    @property
    def waits_for_time(self) -> bool:
        """True: messages were sent whose time is not known yet."""
        return self._open is not None

    def advance(self, now: float) -> None:
        """Bring the time."""
        if self._open is not None:
            self._open.at = now
            self._open = None

    def touch(self, message_id: bytes, now: float) -> bool:
        """Give a message its time again, within its limit. False: it is not in flight."""
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

    def next(self) -> float | None:
        """When to look again; None: nothing is in flight, or its time is not known."""
        for record in self.by_id.values():
            if record.moment.at is None:
                return None
            first = self._end(record)
            return min(first, self._capped[0][0]) if self._capped else first
        return None

    def expire(self, now: float) -> list[_Timed]:
        """Take out the messages whose time is over."""
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
        """Take out all, in order."""
        left = tuple(self.by_id.values())
        self.by_id.clear()
        self._capped.clear()
        return left

    def _end(self, record: _Timed) -> float:
        if record.until is not None:
            return record.until
        assert record.moment.at is not None
        return record.moment.at + self.seconds
