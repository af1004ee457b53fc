"""Routing by topic: retained messages, and who shares a subscription. It knows no connection.

Which filters match a topic is `wirefmt.mqtt.TopicIndex`'s.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final, Generic, TypeVar

_Value = TypeVar("_Value")
_Member = TypeVar("_Member")

_number_of: Final = attrgetter("number")


class _Level(Generic[_Value]):
    __slots__ = ("below", "changed", "gone", "name", "number", "order", "topic", "unused", "value")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number  # levels below one level have ascending numbers
        self.below: dict[str, _Level[_Value]] = {}
        self.order: list[_Level[_Value]] = []  # those below, and some that are gone; never shortened, but replaced
        self.unused = 0  # how many of these are gone
        self.gone = False
        self.topic = ""
        self.value: _Value | None = None
        self.changed = 0  # the number of the value


class TopicTree(Generic[_Value]):
    """A value for each topic name, found by topic filters (MQTT 5.0, 4.7). The opposite of a TopicIndex.

    Attributes:
        number: of the last value that was put.
    """

    def __init__(self) -> None:
        self._root: _Level[_Value] = _Level("", 0)
        self._count = 0
        self.number = 0

    def __len__(self) -> int:
        return self._count

    def _find(self, topic: str) -> _Level[_Value] | None:
        level: _Level[_Value] | None = self._root
        for name in topic.split("/"):
            if level is None:
                return None
            level = level.below.get(name)
        return level

    def get(self, topic: str) -> _Value | None:
        level = self._find(topic)
        return level.value if level is not None else None

    def match(self, topic_filter: str) -> Iterator[tuple[str, _Value]]:
        """Topics and values that the filter matches: see `Walk`."""
        walk = Walk(self, topic_filter)
        while not walk.done:
            found = walk.step()
            if found is not None:
                yield found

    def put(self, topic: str, value: _Value) -> None:
        self.number += 1
        level = self._root
        for name in topic.split("/"):
            below = level.below.get(name)
            if below is None:
                below = level.below[name] = _Level(name, self.number)
                level.order.append(below)
            level = below
        self._count += level.value is None
        level.topic, level.value, level.changed = topic, value, self.number

    def discard(self, topic: str) -> None:
        """Remove the value of a topic, and levels that hold nothing any more."""
        path = [self._root]
        for name in topic.split("/"):
            level = path[-1].below.get(name)
            if level is None:
                return
            path.append(level)
        self._count -= path[-1].value is not None
        path[-1].value = None
        while len(path) > 1 and path[-1].value is None and not path[-1].below:
            level = path.pop()
            level.gone = True
            above = path[-1]
            del above.below[level.name]
            above.unused += 1
            if above.unused > len(above.below):
                above.order = list(above.below.values())
                above.unused = 0


class Walk(Generic[_Value]):
    """The values of a tree that a filter matches, one step at a time.

    The tree may change meanwhile: values that are put after the walk has begun do not belong to it, nor do those that are
    removed before it comes to them.

    A wildcard at the start matches no topic that begins with `$` [MQTT-4.7.2-1].

    Attributes:
        done: it is complete.
        number: of the last value that was put before it began.
    """

    __slots__ = ("_names", "_path", "_tree", "done", "number")

    def __init__(self, tree: TopicTree[_Value], topic_filter: str) -> None:
        self.done = False
        self._tree = tree
        self._names = topic_filter.split("/")
        self.number = tree.number
        self._path: list[_Place[_Value]] = [self._enter(tree._root, 0)]

    def _enter(self, level: _Level[_Value], depth: int) -> _Place[_Value]:
        name = self._name(depth)
        if name in ("#", "+"):
            return _Place(level, level.order, True)
        below = level.below.get(name) if name is not None else None
        return _Place(level, () if below is None else (below,), False)

    def _name(self, depth: int) -> str | None:
        """What the filter has for the levels below this depth; None: nothing."""
        if depth < len(self._names):
            return self._names[depth]
        return "#" if self._names[-1] == "#" else None

    def step(self) -> tuple[str, _Value] | None:
        """Go on to the next level. Returns its topic and value, if it has one that belongs to the walk."""
        place = self._path[-1]
        if place.wild and place.order is not place.level.order:  # it has been replaced
            last, place.order = place.last, place.level.order
            place.at = bisect_right(place.order, last, key=_number_of)
        level = place.order[place.at] if place.at < len(place.order) else None
        if level is None or level.number > self.number:  # later ones have higher numbers
            self._path.pop()
            self.done = not self._path
            return None
        place.at += 1
        if level.gone or (place.wild and len(self._path) == 1 and level.name.startswith("$")):
            return None
        depth = len(self._path)
        self._path.append(self._enter(level, depth))
        if level.value is None or level.changed > self.number or self._name(depth) not in (None, "#"):
            return None
        return level.topic, level.value  # with "#" also that of the level above (4.7.1.2)

    def ahead(self, topic: str) -> _Value | None:
        """The value of a topic that the filter matches, if it belongs to the walk, and the walk has not come to it; else None."""
        found = self._tree._find(topic)
        if self.done or found is None or found.value is None or found.changed > self.number:
            return None
        level = self._tree._root
        for depth, name in enumerate(topic.split("/"), 1):
            place, level = self._path[depth - 1], level.below[name]
            if depth == len(self._path) or self._path[depth].level is not level:  # it has another way
                return found.value if level.number > place.last else None
        return None


class _Place(Generic[_Value]):
    """Where a walk is: the level, and the next of those below it."""

    __slots__ = ("at", "level", "order", "wild")

    def __init__(self, level: _Level[_Value], order: Sequence[_Level[_Value]], wild: bool) -> None:
        self.level = level
        self.order = order
        self.wild = wild
        self.at = 0

    @property
    def last(self) -> int:
        """The number of the level that came last."""
        return self.order[self.at - 1].number if self.at else -1


class Sharing(Generic[_Member]):
    """The members of one shared subscription (MQTT 5.0, 4.8.2), in turn."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self._turn = 0

    def choose(self, *ranks: Callable[[_Member], bool]) -> _Member | None:
        """The next member of the first rank that has one; None: no rank has one."""
        count = len(self.members)
        for rank in ranks:
            for step in range(count):
                at = (self._turn + step) % count
                if rank(self.members[at]):
                    self._turn = at + 1
                    return self.members[at]
        return None
