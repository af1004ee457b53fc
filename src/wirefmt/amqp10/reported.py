"""States that are not outcomes, stored as ranges of deliveries (2.7.6)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, overload

from wirefmt.amqp10._codec import Outgoing
from wirefmt.amqp10.events import MASK, State
from wirefmt.connection.outstanding import serial_distance

if TYPE_CHECKING:
    from wirefmt.amqp10.sessions import Session

#: Ranges that are kept beyond twice the number of deliveries before those without a delivery are dropped.
SPARE: Final = 64
#: Deliveries after which positions are counted anew.
FAR: Final = 1 << 20


class Reported:
    """The states that the receiver has sent, as ranges of delivery-ids that do not overlap.

    A disposition costs the ranges that it replaces, and adds two at most: not the deliveries that it names. Memory is
    bounded by the deliveries that are not settled.

    Args:
        session: the session whose deliveries these are.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._origin = session.next_delivery_id  # positions count from here; those of earlier deliveries are negative
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._states: list[State] = []

    def __len__(self) -> int:
        """How many ranges there are."""
        return len(self._starts)

    def _position(self, number: int) -> int:
        return serial_distance(self._origin, number)

    def find(self, number: int) -> State:
        """The state of a delivery-id, or None."""
        at = bisect_right(self._starts, self._position(number)) - 1
        return self._states[at] if at >= 0 and self._position(number) <= self._ends[at] else None

    def store(self, first: int, last: int, state: State) -> bool:
        """Store the state of the deliveries that a disposition names. False: all of them had this state."""
        starts, ends, states = self._starts, self._ends, self._states
        start, end = self._position(first), self._position(last)
        low = bisect_left(ends, start)
        high = bisect_right(starts, end, lo=low)
        if high == low + 1 and starts[low] <= start and end <= ends[low] and states[low] == state:
            return False
        new = [(start, end, state)]
        if low < high:
            if starts[low] < start:
                new.insert(0, (starts[low], start - 1, states[low]))
            if ends[high - 1] > end:
                new.append((end + 1, ends[high - 1], states[high - 1]))
        starts[low:high] = [item[0] for item in new]
        ends[low:high] = [item[1] for item in new]
        states[low:high] = [item[2] for item in new]
        if len(starts) > 2 * len(self._session.outgoing) + SPARE:
            self._drop_empty()
        return True

    def renew(self) -> bool:
        """Call this regularly, because delivery-ids wrap. False: no range is left."""
        if self._position(self._session.next_delivery_id) > FAR:
            self._drop_empty()
        return bool(self._starts)

    def _drop_empty(self) -> None:
        """Drop ranges without a delivery, and move the origin to the next delivery-id."""
        session = self._session
        moved = self._position(session.next_delivery_id)
        held = set()
        for number in session.outgoing.records:
            position = self._position(number)
            at = bisect_right(self._starts, position) - 1
            if at >= 0 and position <= self._ends[at]:
                held.add(at)
        kept = sorted(held)
        self._starts = [self._starts[at] - moved for at in kept]
        self._ends = [self._ends[at] - moved for at in kept]
        self._states = [self._states[at] for at in kept]
        self._origin = session.next_delivery_id


class Named(Sequence[Outgoing]):
    """The deliveries of a range that were not settled when they were first looked at."""

    def __init__(self, session: Session, first: int, last: int) -> None:
        self._session = session
        self._range = first, last
        self._found: list[Outgoing] | None = None

    def _all(self) -> list[Outgoing]:
        if self._found is None:
            outgoing = self._session.outgoing
            self._found = [outgoing[number] for number in outgoing.range(*self._range)]
        return self._found

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, at: int) -> Outgoing: ...
    @overload
    def __getitem__(self, at: slice) -> list[Outgoing]: ...
    def __getitem__(self, at: int | slice) -> Outgoing | list[Outgoing]:
        return self._all()[at]

    def __iter__(self) -> Iterator[Outgoing]:
        return iter(self._all())

    def __repr__(self) -> str:
        first, last = self._range
        return f"<deliveries {first} to {last & MASK}>"
