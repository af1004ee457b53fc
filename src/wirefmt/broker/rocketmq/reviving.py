"""Messages that wait to be delivered again after a pop."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from wirefmt.broker.shares import Holder

#: Group and topic.
Place = tuple[str, str]


class Taken(NamedTuple):
    """A message that a client has popped: where it lies, how often its delivery has failed before, and who has popped it. It
    stays in its queue alone, so it is gone when that drops it."""

    queue_id: int
    offset: int
    failed: int
    holder: Holder


_Waiting = tuple[Place, int, int]  # queue id, offset


class Revived:
    """Messages that wait, by group and topic in their order, and by the user, or the client, that has popped them last."""

    def __init__(self) -> None:
        self._count = 0
        self._places: dict[Place, OrderedDict[_Waiting, Taken]] = {}
        self._owners: dict[Holder, OrderedDict[_Waiting, None]] = {}
        self._levels: dict[int, OrderedDict[Holder, None]] = {0: OrderedDict()}  # owners by how many messages they have
        self._most = 0  # the highest level that has owners

    def __len__(self) -> int:
        return self._count

    def add(self, place: Place, taken: Taken) -> None:
        waiting = (place, taken.queue_id, taken.offset)
        owner = taken.holder.user or taken.holder
        self._places.setdefault(place, OrderedDict())[waiting] = taken
        messages = self._owners.setdefault(owner, OrderedDict())
        messages[waiting] = None
        self._count += 1
        self._level(owner, len(messages) - 1, len(messages))

    def pop(self, place: Place) -> Taken | None:
        """The next message of a group and topic; None: none waits."""
        messages = self._places.get(place)
        return self._remove(next(iter(messages))) if messages else None

    def drop(self) -> tuple[Place, Taken]:
        """Make space: the first message of who has most of them."""
        owner = next(iter(self._levels[self._most]))
        waiting = next(iter(self._owners[owner]))
        return waiting[0], self._remove(waiting)

    def _remove(self, waiting: _Waiting) -> Taken:
        place = waiting[0]
        messages = self._places[place]
        taken = messages.pop(waiting)
        if not messages:
            del self._places[place]
        owner = taken.holder.user or taken.holder
        own = self._owners[owner]
        del own[waiting]
        self._count -= 1
        self._level(owner, len(own) + 1, len(own))
        if not own:
            del self._owners[owner]
        return taken

    def _level(self, owner: Holder, before: int, now: int) -> None:
        if before:
            del self._levels[before][owner]
        if now:
            self._levels.setdefault(now, OrderedDict())[owner] = None
        if before and not self._levels[before]:
            del self._levels[before]
        if now > self._most or (before == self._most and before not in self._levels):
            self._most = now
