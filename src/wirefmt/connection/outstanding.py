"""Messages that wait for an answer: identifiers, order, and settling one, all up to one, or a range."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeVar

from wirefmt._core import Identifiers

__all__ = ["Identifiers", "Outstanding", "Ranges", "serial_distance"]

_Record = TypeVar("_Record")


def serial_distance(start: int, end: int, bits: int = 32) -> int:
    """How far `end` is after `start`, by RFC 1982; negative: before. Two numbers half the range apart count as after."""
    distance = (end - start) & ((1 << bits) - 1)
    return distance - (1 << bits) if distance > 1 << (bits - 1) else distance


class Ranges:
    """Finds the outstanding numbers of a range. The cost depends on what is found, whatever range a peer names.

    Args:
        bits: of the numbers, which wrap.
    """

    __slots__ = ("_bits", "_order")

    def __init__(self, bits: int = 32) -> None:
        self._bits = bits
        self._order: list[int] = []  # numbers in order; the latest may be missing, and some are no longer outstanding

    def find(self, records: Mapping[int, Any], first: int, last: int) -> list[int]:
        """Those from `first` to `last`, both included, in order; none if `last` comes before `first`.

        Args:
            records: outstanding numbers with their records, in ascending order; in each call the same mapping.
        """
        span = serial_distance(first, last, self._bits)
        if span < 0 or not records:
            return []
        if not span:
            return [first] if first in records else []
        order = self._order
        self._learn(records)
        origin, bits = order[0], self._bits

        def position(number: int) -> int:
            return serial_distance(origin, number, bits)

        start = position(first)
        low = bisect_left(order, start, key=position)
        high = bisect_right(order, start + span, lo=low, key=position)
        within = [number for number in order[low:high] if number in records]
        if len(within) < high - low:
            order[low:high] = within  # what has been settled is walked over once
        return within

    def _learn(self, records: Mapping[int, Any]) -> None:
        """Add the numbers that are new since the last call."""
        order, bits = self._order, self._bits
        if len(order) > 2 * len(records) + 64:
            order[:] = records
            return
        while order and order[-1] not in records:
            order.pop()
        gone = 0  # both ends are outstanding, so all numbers are within half the range of each other
        while gone < len(order) and order[gone] not in records:
            gone += 1
        del order[:gone]
        latest = order[-1] if order else None
        new: list[int] = []
        for number in reversed(records):
            if latest is not None and serial_distance(latest, number, bits) <= 0:
                break
            new.append(number)
        new.reverse()
        order += new


class Outstanding(OrderedDict[int, _Record]):
    """Records by number, in the order in which they were added: the order of replay.

    Numbers are added in ascending order. What is settled leaves at any place, and the cost depends only on what is settled.

    Args:
        bits: of numbers that wrap, compared by RFC 1982 (AMQP 1.0's delivery-id). None: numbers never wrap (AMQP 0.9.1's
            delivery-tag).
    """

    __slots__ = ("_bits",)

    def __init__(self, bits: int | None = None) -> None:
        super().__init__()
        self._bits = bits

    def settle_up_to(self, number: int) -> list[_Record]:
        """Remove and return all records up to and including `number`, in order."""
        settled: list[_Record] = []
        bits = self._bits
        while self:
            oldest, record = self.popitem(last=False)
            if oldest > number if bits is None else serial_distance(oldest, number, bits) < 0:
                self[oldest] = record
                self.move_to_end(oldest, last=False)
                break
            settled.append(record)
        return settled
