"""Messages whose answer is awaited: identifiers, order, and settling one, all up to one, or a range."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from wirefmt._core import Identifiers

__all__ = ["Identifiers", "Outstanding", "serial_add", "serial_distance", "serial_less"]

_Key = TypeVar("_Key", bound=int)
_Record = TypeVar("_Record")


def serial_add(value: int, count: int, bits: int = 32) -> int:
    """RFC 1982, 3.1: addition of a serial number of `bits` bits and a count below 2 ** (bits - 1)."""
    if not 0 <= count < 1 << (bits - 1):
        raise ValueError(f"{count} cannot be added to a serial number of {bits} bits")
    return (value + count) & ((1 << bits) - 1)


def serial_distance(start: int, end: int, bits: int = 32) -> int:
    """How far `end` lies after `start`; negative: before. Two numbers half the range apart count as after."""
    distance = (end - start) & ((1 << bits) - 1)
    return distance - (1 << bits) if distance > 1 << (bits - 1) else distance


def serial_less(first: int, second: int, bits: int = 32) -> bool:
    """RFC 1982, 3.2: does `first` come before `second`? False both ways if they lie half the range apart."""
    return 0 < (second - first) & ((1 << bits) - 1) < 1 << (bits - 1)


def numbers_between(numbers: Collection[_Key], first: _Key, last: _Key, bits: int = 32) -> list[_Key]:
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


class Outstanding(Generic[_Key, _Record]):
    """Records by number, in the order in which they were added.

    Numbers are added counting up, with `bits`-bit serial arithmetic where they wrap (AMQP 1.0's delivery-id); tags that
    never wrap (AMQP 0.9.1's delivery-tag) need no `bits`. Settling costs time for what is settled only.
    """

    __slots__ = ("_bits", "_records")

    def __init__(self, bits: int = 64) -> None:
        self._bits = bits
        self._records: dict[_Key, _Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, number: _Key) -> bool:
        return number in self._records

    def __iter__(self) -> Iterator[_Record]:
        """Records in the order of sending: the order of replay."""
        return iter(self._records.values())

    def __getitem__(self, number: _Key) -> _Record:
        return self._records[number]

    @property
    def by_number(self) -> Mapping[_Key, _Record]:
        return self._records

    def get(self, number: _Key) -> _Record | None:
        return self._records.get(number)

    def add(self, number: _Key, record: _Record) -> None:
        """Add a record. Raises KeyError if its number is outstanding already."""
        if number in self._records:
            raise KeyError(number)
        self._records[number] = record

    def settle(self, number: _Key) -> _Record | None:
        """Take out one record; None: no such number is outstanding."""
        return self._records.pop(number, None)

    def settle_up_to(self, number: _Key) -> list[_Record]:
        """Take out all records up to and including `number`, in order."""
        settled: list[_Record] = []
        while self._records:
            oldest = next(iter(self._records))
            if serial_distance(oldest, number, self._bits) < 0:
                break
            settled.append(self._records.pop(oldest))
        return settled

    def range(self, first: _Key, last: _Key) -> list[_Key]:
        """The numbers of the records from `first` to `last`, both included, in order."""
        return numbers_between(self._records, first, last, self._bits)

    def settle_range(self, first: _Key, last: _Key) -> list[_Record]:
        """Take out the records from `first` to `last`, both included, in order. Numbers not outstanding are skipped."""
        return [self._records.pop(n) for n in self.range(first, last)]

    def clear(self) -> list[_Record]:
        """Take out all records, in order."""
        records = list(self._records.values())
        self._records.clear()
        return records
