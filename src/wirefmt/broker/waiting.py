"""Messages that wait in a queue, in order; and what receivers that do not just take the next one have seen of them."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, Final

from wirefmt.broker.messages import Item

#: The place of a message in a queue: its priority, negated; its number; and the message.
Entry = tuple[int, int, Item]

#: Entries of a part of the list, when it is full. A part that grows beyond twice as many is cut in two.
PART: Final = 512

#: Messages that a view has passed and has to look at again, before it goes back instead.
AGAIN: Final = 1000

#: Bytes that a view costs.
VIEW: Final = 1000


def _last(part: list[Entry]) -> Any:
    return part[-1]


class Waiting:
    """Entries in order. Adding the last, taking the first and removing any one take a time that hardly grows with their number.

    Attributes:
        parts: of the list; empty: nothing waits.
        count: of entries.
    """

    __slots__ = ("count", "parts")

    def __init__(self) -> None:
        self.parts: list[list[Entry]] = []
        self.count = 0

    def add(self, entry: Entry) -> None:
        self.count += 1
        parts = self.parts
        if not parts or (len(parts[-1]) >= PART and entry > parts[-1][-1]):
            parts.append([entry])
        elif entry > parts[-1][-1]:
            parts[-1].append(entry)
        else:
            at = bisect_left(parts, entry, key=_last)
            part = parts[at]
            insort(part, entry)
            if len(part) > 2 * PART:
                parts.insert(at + 1, part[PART:])
                del part[PART:]

    def take(self) -> Item:
        """Remove the first."""
        part = self.parts[0]
        item = part.pop(0)[2]
        self.count -= 1
        if not part:
            del self.parts[0]
        return item

    @property
    def first(self) -> Item:
        return self.parts[0][0][2]

    def after(self, place: tuple[int, int]) -> Entry | None:
        """The first entry after a place."""
        parts = self.parts
        at = bisect_right(parts, (place[0], place[1] + 1), key=_last)
        if at == len(parts):
            return None
        part = parts[at]
        return part[bisect_left(part, (place[0], place[1] + 1))]

    def _find(self, entry: Entry) -> tuple[int, int] | None:
        at = bisect_left(self.parts, entry[:2], key=_last)
        if at < len(self.parts):
            part = self.parts[at]
            where = bisect_left(part, entry[:2])
            if part[where][2] is entry[2]:
                return at, where
        return None

    def __contains__(self, entry: Entry) -> bool:
        return self._find(entry) is not None

    def remove(self, entry: Entry) -> None:
        """Remove an entry that is there."""
        found = self._find(entry)
        assert found is not None
        at, where = found
        del self.parts[at][where]
        self.count -= 1
        if not self.parts[at]:
            del self.parts[at]

    def clear(self) -> None:
        self.parts.clear()
        self.count = 0

    def __iter__(self) -> Iterator[Item]:
        return (item for part in self.parts for _, _, item in part)


class View:
    """What a receiver with a filter, or one that browses, has seen of a queue.

    It goes through the queue once, and looks at each message once. Messages that come to places behind it are kept in a list, up
    to AGAIN of them; beyond that it goes back to the first of these.

    Args:
        wants: which messages are for it; None: all.
        cost: of looking at one.
        takes: False: it browses. Messages that come back to the queue behind it are not shown to it.
        size: bytes that it costs with its filter.
        caught_up: called when it has looked at all that there is.
    """

    __slots__ = ("_again", "_place", "caught_up", "cost", "idle", "size", "takes", "wants")

    def __init__(
        self,
        wants: Callable[[Item], bool] | None,
        cost: int = 1,
        *,
        takes: bool,
        size: int = 0,
        caught_up: Callable[[], Any] = lambda: None,
    ) -> None:
        self.wants = wants
        self.cost = cost
        self.takes = takes
        self.size = VIEW + size
        self.caught_up = caught_up
        self.idle = False
        self._place = (-(1 << 16), -1)
        self._again: list[Entry] = []

    def next(self, waiting: Waiting) -> Entry | None:
        """The next message to look at."""
        while self._again:
            entry = heapq.heappop(self._again)
            if entry in waiting:
                return entry
        found = waiting.after(self._place)
        if found is not None:
            self._place = found[:2]
        return found

    def miss(self, entry: Entry, *, returned: bool) -> None:
        """A message has been added to the queue, perhaps behind the place of the view."""
        if entry[:2] > self._place or (returned and not self.takes):
            return
        heapq.heappush(self._again, entry)
        if len(self._again) > AGAIN:
            priority, number, _ = self._again[0]
            self._place = (priority, number - 1)
            self._again.clear()

    def undo(self, entry: Entry) -> None:
        """What `next` has given was not taken: it comes next again."""
        heapq.heappush(self._again, entry)
