"""Routing by topic: retained messages, and who shares a subscription. It knows no connection.

Which filters match a topic is `wirefmt.mqtt.TopicIndex`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

_Value = TypeVar("_Value")
_Member = TypeVar("_Member")


class _Level(Generic[_Value]):
    __slots__ = ("below", "topic", "value")

    def __init__(self) -> None:
        self.below: dict[str, _Level[_Value]] = {}
        self.topic = ""
        self.value: _Value | None = None


class TopicTree(Generic[_Value]):
    """A value for each topic name, found by topic filters (MQTT 5.0, 4.7). The opposite of a TopicIndex."""

    def __init__(self) -> None:
        self._root: _Level[_Value] = _Level()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, topic: str) -> _Value | None:
        level: _Level[_Value] | None = self._root
        for name in topic.split("/"):
            if level is None:
                return None
            level = level.below.get(name)
        return level.value if level is not None else None

    def put(self, topic: str, value: _Value) -> None:
        level = self._root
        for name in topic.split("/"):
            below = level.below.get(name)
            if below is None:
                below = level.below[name] = _Level()
            level = below
        self._count += level.value is None
        level.topic, level.value = topic, value

    def discard(self, topic: str) -> None:
        """Remove the value of a topic, and levels that hold nothing any more."""
        path = [self._root]
        names = topic.split("/")
        for name in names:
            level = path[-1].below.get(name)
            if level is None:
                return
            path.append(level)
        self._count -= path[-1].value is not None
        path[-1].value = None
        for name, level in zip(reversed(names), reversed(path[:-1]), strict=True):
            below = level.below[name]
            if below.value is not None or below.below:
                return
            del level.below[name]

    def match(self, topic_filter: str) -> Iterator[tuple[str, _Value]]:
        """Topics and values that the filter matches. A wildcard at the start matches no topic that begins with `$`
        [MQTT-4.7.2-1]. The tree must stay as it is meanwhile."""
        names = topic_filter.split("/")
        stack = [(self._root, 0)]
        while stack:
            level, depth = stack.pop()
            if depth == len(names) or (name := names[depth]) == "#":
                if level.value is not None:  # with "#" the parent level, too (4.7.1.2)
                    yield level.topic, level.value
                if depth < len(names):
                    stack += [(below, depth) for below in _wild(level, level is self._root)]
            elif name == "+":
                stack += [(below, depth + 1) for below in _wild(level, level is self._root)]
            elif (below := level.below.get(name)) is not None:
                stack.append((below, depth + 1))


def _wild(level: _Level[_Value], first: bool) -> list[_Level[_Value]]:
    """The levels that a wildcard matches here."""
    return [below for name, below in level.below.items() if not (first and name.startswith("$"))]


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
