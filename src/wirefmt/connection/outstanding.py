"""Messages that wait for an answer: identifiers, order, and settling one, all up to one, or a range."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from wirefmt._core import Identifiers

__all__ = ["Identifiers", "Outstanding", "numbers_between", "serial_distance"]

_Record = TypeVar("_Record")


def serial_distance(start: int, end: int, bits: int = 32) -> int:
    """How far `end` is after `start`, by RFC 1982; negative: before. Two numbers half the range apart count as after."""
    distance = (end - start) & ((1 << bits) - 1)
    return distance - (1 << bits) if distance > 1 << (bits - 1) else distance


def numbers_between(numbers: Collection[int], first: int, last: int, bits: int = 32) -> list[int]:
    """Those of `numbers` from `first` to `last`, both included, in order; none if `last` comes before `first`.

    A peer chooses both ends: a range larger than the collection costs no more than the collection.
    """
    span = serial_distance(first, last, bits)
    if span < 0:
        return []
    if span >= len(numbers):
        return [n for n in numbers if 0 <= serial_distance(first, n, bits) <= span]
    mask = (1 << bits) - 1
    within: Iterable[Any] = ((first + i) & mask for i in range(span + 1))
    return [n for n in within if n in numbers]


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
