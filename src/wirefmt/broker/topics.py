"""Routing by topic: retained messages, and who shares a subscription. It knows no connection.

Which filters match a topic is `wirefmt.mqtt.TopicIndex`'s.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final, Generic, TypeVar

_Value = TypeVar("_Value")
_Member = TypeVar("_Member")

_number_of: Final = attrgetter("number")

#: Members of one rank that are put into higher ones for one choice.
PUT: Final = 256


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
        """The value of a topic that the filter matches, if it belongs to the walk, and the walk is not there yet; else None."""
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
    """The members of one shared subscription (MQTT 5.0, 4.8.2), in turn. Those of a lower rank come first.

    It does not search: a member that turns out to have a higher rank is put there, and stays until `move`. After PUT of them one
    of the next rank has to do. Members of users who may not have a message are skipped together.

    Args:
        ranks: how many there are.

    Attributes:
        work: members and users that have been looked at so far.
    """

    def __init__(self, ranks: int) -> None:
        self.work = 0
        self._ranks = [_Turns[_Member]() for _ in range(ranks)]
        self._places: dict[_Member, tuple[int, str]] = {}  # rank and user

    def __len__(self) -> int:
        return len(self._places)

    def add(self, member: _Member, user: str) -> None:
        """One more, of the first rank."""
        self._put(member, 0, user)

    def discard(self, member: _Member) -> str:
        """It has left. Returns its user."""
        rank, user = self._places.pop(member)
        self._ranks[rank].discard(member, user)
        return user

    def move(self, member: _Member, rank: int) -> None:
        """It is known to have another rank, or may have it again."""
        if self._places[member][0] != rank:
            self._put(member, rank, self.discard(member))

    def choose(self, rank_of: Callable[[_Member], int], may: Callable[[str], bool]) -> _Member | None:
        """The next member of the lowest rank that is known to have one. None: none of them may have the message.

        Args:
            rank_of: a member's rank now.
            may: may a user have the message?
        """
        for rank, turns in enumerate(self._ranks):
            for _ in range(PUT):
                member = self._next(turns, may)
                if member is None:
                    break
                now = rank_of(member)
                if now <= rank:
                    return member
                self._put(member, now, self.discard(member))
        return None

    def _next(self, turns: _Turns[_Member], may: Callable[[str], bool]) -> _Member | None:
        for user in turns.users:
            self.work += 1
            if may(user):
                return turns.take(user)
        return None

    def _put(self, member: _Member, rank: int, user: str) -> None:
        self._ranks[rank].add(member, user)
        self._places[member] = rank, user


class _Turns(Generic[_Member]):
    """Members of one rank. Users take turns, each for as many messages as he has members. `users`: by name, the next one first:
    his members, and how many messages are left of his turn."""

    def __init__(self) -> None:
        self.users: OrderedDict[str, tuple[OrderedDict[_Member, None], list[int]]] = OrderedDict()

    def add(self, member: _Member, user: str) -> None:
        members, left = self.users.setdefault(user, (OrderedDict(), [0]))
        members[member] = None
        left[0] += 1

    def discard(self, member: _Member, user: str) -> None:
        members, left = self.users[user]
        del members[member]
        left[0] = min(left[0], len(members))
        if not members:
            del self.users[user]

    def take(self, user: str) -> _Member:
        members, left = self.users[user]
        member = next(iter(members))
        members.move_to_end(member)
        left[0] -= 1
        if left[0] <= 0:
            left[0] = len(members)
            self.users.move_to_end(user)
        return member
