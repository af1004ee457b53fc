"""Messages that wait for an answer: identifiers, order, and settling one, all up to one, or a range."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

from wirefmt._core import Identifiers

__all__ = ["Identifiers", "InOrder", "Outstanding", "serial_distance"]

_Key = TypeVar("_Key", bound=int)
_Record = TypeVar("_Record")


def serial_distance(start: int, end: int, bits: int = 32) -> int:
    """How far `end` is after `start`; negative: before. Two numbers half the range apart count as after."""
    distance = (end - start) & ((1 << bits) - 1)
    return distance - (1 << bits) if distance > 1 << (bits - 1) else distance


class Outstanding(Generic[_Key, _Record]):
    """Records by number, in the order in which they were added.

    Numbers are added in ascending order, with `bits`-bit serial arithmetic if they wrap (AMQP 1.0's delivery-id). The cost of
    settling depends only on what is settled, whatever range a peer names.

    Attributes:
        records: the records by number. A fast path may add and remove records here.
    """

    __slots__ = ("_bits", "_order", "records")

    def __init__(self, bits: int = 64) -> None:
        self._bits = bits
        self._order: list[_Key] = []  # numbers in order; the latest may be missing, and some have been settled
        self.records: dict[_Key, _Record] = {}

    def __len__(self) -> int:
        return len(self.records)

    def __contains__(self, number: _Key) -> bool:
        return number in self.records

    def __iter__(self) -> Iterator[_Record]:
        """Records in the order of sending: the order of replay."""
        return iter(self.records.values())

    def __getitem__(self, number: _Key) -> _Record:
        return self.records[number]

    def get(self, number: _Key) -> _Record | None:
        return self.records.get(number)

    def add(self, number: _Key, record: _Record) -> None:
        """Add a record. Raises KeyError if its number is outstanding already."""
        if number in self.records:
            raise KeyError(number)
        self.records[number] = record

    def settle(self, number: _Key) -> _Record | None:
        """Remove and return one record; None: the number is not outstanding."""
        return self.records.pop(number, None)

    def range(self, first: _Key, last: _Key) -> list[_Key]:
        """The numbers of the records from `first` to `last`, both included, in order; none if `last` comes before `first`."""
        records = self.records
        if first == last:
            return [first] if first in records else []
        low, high = self._find(first, last)
        order = self._order
        within = [number for number in order[low:high] if number in records]
        if len(within) < high - low:
            order[low:high] = within  # what has been settled is walked over once
        return within

    def span(self, first: _Key, last: _Key) -> tuple[_Key, _Key] | None:
        """The first and the last number of the records from `first` to `last`; None: no such record. Its cost does not depend on
        how many there are."""
        records, order = self.records, self._order
        low, high = self._find(first, last)
        start, end = low, high
        while start < end and order[start] not in records:
            start += 1
        while start < end and order[end - 1] not in records:
            end -= 1
        found = (order[start], order[end - 1]) if start < end else None
        del order[end:high], order[low:start]  # what has been settled is walked over once
        return found

    def _find(self, first: _Key, last: _Key) -> tuple[int, int]:
        """Where the numbers from `first` to `last` are in `_order`: from the one index up to the other."""
        order, bits = self._order, self._bits
        span = serial_distance(first, last, bits)
        if span < 0 or not self.records:
            return 0, 0
        self._learn(order)
        origin = order[0]

        def position(number: _Key) -> int:
            return serial_distance(origin, number, bits)

        start = position(first)
        low = bisect_left(order, start, key=position)
        return low, bisect_right(order, start + span, lo=low, key=position)

    def _learn(self, order: list[_Key]) -> None:
        """Add the numbers that are new since the last call."""
        records, bits = self.records, self._bits
        if len(order) > 2 * len(records) + 64:
            order[:] = records
            return
        while order and order[-1] not in records:
            order.pop()
        settled = 0  # both ends are outstanding, so all numbers are within half the range of each other
        while settled < len(order) and order[settled] not in records:
            settled += 1
        del order[:settled]
        latest = order[-1] if order else None
        new: list[_Key] = []
        for number in reversed(records):
            if latest is not None and serial_distance(latest, number, bits) <= 0:
                break
            new.append(number)
        new.reverse()
        order += new


class InOrder(OrderedDict[int, _Record]):
    """Records by number, in the order in which they were added, for numbers that ascend and never wrap (AMQP 0.9.1's
    delivery-tag). They leave from the front, or alone."""

    def settle_up_to(self, number: int) -> list[_Record]:
        """Remove and return all records up to and including `number`, in order. Costs time for what is settled."""
        settled: list[_Record] = []
        while self:
            oldest, record = self.popitem(last=False)
            if oldest > number:
                self[oldest] = record
                self.move_to_end(oldest, last=False)
                break
            settled.append(record)
        return settled
