"""What users may do. The brokers ask `Permissions.lacks` for each request, and the tables of `wirefmt.broker.requests` say what a
request needs.

The rights are those of the real brokers. AMQP: configure, write and read of RabbitMQ. MQTT: topics to publish and to subscribe
to, as in an ACL file of mosquitto. NSQ and RocketMQ: topics to publish and to subscribe to, and channels or groups, as in nsqd
and in RocketMQ 5. What is denied comes before them, as mosquitto's `topic deny`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from wirefmt import mqtt
from wirefmt.errors import EncodeError, suggest

#: The rights of each protocol. Those of AMQP are for 0.9.1 and 1.0.
RIGHTS: Final = {
    "amqp": ("configure", "write", "read"),
    "mqtt": ("publish", "subscribe"),
    "nsq": ("publish", "subscribe", "channel"),
    "rocketmq": ("publish", "subscribe", "group"),
}

#: Rights that limit another one. A user who has no patterns for one of them has it for all names; DENY is not for their names.
LIMITING: Final = frozenset(("nsq.channel", "rocketmq.group"))

#: The key beside the rights: patterns of names for which nothing is allowed, whatever the rights say.
DENY: Final = "deny"

#: The user whose table is for all that have none of their own, and for all clients if there are no users.
OTHERS: Final = "*"

#: What is needed of a request that only one user may send: it is that user's name. And of one that nobody may send.
USER: Final = "user"
NOBODY: Final = "nobody"

#: Decisions that are kept, and the longest name in them.
KEPT: Final = 4096
KEPT_NAME: Final = 256

#: Permissions as a user writes them: user or OTHERS -> protocol -> right or DENY -> pattern or patterns.
Table = Mapping[str, Mapping[str, Mapping[str, Any]]]


class Need(NamedTuple):
    """A right that a request needs.

    Attributes:
        action: a protocol and one of its rights, "amqp.read"; or USER, NOBODY.
        name: what the right is for: a queue, an exchange, a topic. NOBODY: why.
        others: one of these is enough instead.
    """

    action: str
    name: str
    others: tuple[Need, ...] = ()

    @property
    def right(self) -> str:
        """The right without its protocol."""
        return self.action.rpartition(".")[2]


#: What a request needs, all of it: called with the request, and with what its table says. Free and Nobody are rules, too.
Rule = Callable[[Any, Any], Iterable[Need]]

#: The requests of a protocol, and the rule for each.
Requests = Mapping[Any, Rule]


@dataclass(frozen=True, slots=True)
class Free:
    """A request that needs no right. `why`: for the reader."""

    why: str

    def __call__(self, request: Any, known: Any) -> tuple[Need, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Nobody:
    """A request that no user may send. `why`: for the client."""

    why: str

    def __call__(self, request: Any, known: Any) -> tuple[Need, ...]:
        return (Need(NOBODY, self.why),)


_UNDECLARED: Final = Nobody("it is not known what this request needs")


class Permissions:
    """The rights of all users. What is not listed is refused.

    Args:
        table: user -> protocol -> right -> patterns, as a string or a list: `{"ann": {"amqp": {"read": "^orders"}}}`. RIGHTS has
            the protocols and their rights; DENY in place of a right has what is refused. OTHERS in place of a user is for those
            who have no table. Patterns of MQTT are topic filters. All others are regular expressions that are searched in the
            name, as in RabbitMQ and nsqd; "^$" or "" matches no name.

    Raises ValueError for an unknown protocol or right, and for an invalid pattern.
    """

    def __init__(self, table: Table) -> None:
        self._users: set[str] = set()
        self._matchers: dict[tuple[str, str], list[Callable[[str], object]]] = {}
        self._kept: dict[tuple[str, str, str], bool] = {}
        for user, protocols in _items(table, "permissions"):
            self._users.add(user)
            for protocol, rights in _items(protocols, f"permissions of {user!r}"):
                if protocol not in RIGHTS:
                    raise ValueError(f"unknown protocol {protocol!r} in permissions; {suggest(protocol, RIGHTS)}")
                for right, patterns in _items(rights, f"permissions of {user!r} for {protocol}"):
                    known = (*RIGHTS[protocol], DENY)
                    if right not in known:
                        raise ValueError(f"unknown right {right!r} for {protocol}; {suggest(right, known)}")
                    self._matchers[user, f"{protocol}.{right}"] = [
                        _matcher(protocol, pattern) for pattern in _strings(patterns, f"{protocol}.{right} of {user!r}")
                    ]

    def lacks(self, user: str, requests: Requests, key: Any, request: Any, known: Any = None) -> Need | None:
        """The first right that a request needs and the user does not have; None: the user may do it.

        Args:
            requests, key: the table of the protocol, and where the request is in it. What is not in it is refused.
            request, known: what the rule is called with.
        """
        for need in requests.get(key, _UNDECLARED)(request, known):
            if not self._has(user, need):
                return need
        return None

    def may(self, user: str, action: str, name: str) -> bool:
        """May this user do this?

        Args:
            action: a protocol and one of its rights, "amqp.read".
            name: AMQP: a queue or an exchange; MQTT: a topic, or a topic filter for "mqtt.subscribe"; otherwise a topic, channel
                or group.
        """
        key = (user, action, name)
        known = self._kept.get(key)
        if known is None:
            known = self._decide(user, action, name)
            if len(name) <= KEPT_NAME and len(user) <= KEPT_NAME:
                if len(self._kept) >= KEPT:
                    self._kept.clear()
                self._kept[key] = known
        return known

    def _has(self, user: str, need: Need) -> bool:
        if need.action == USER:
            return need.name == user
        if need.action != NOBODY and self.may(user, need.action, need.name):
            return True
        return any(self._has(user, other) for other in need.others)

    def _decide(self, user: str, action: str, name: str) -> bool:
        if action in LIMITING:
            return (self._known(user), action) not in self._matchers or self._finds(user, action, name)
        return self._finds(user, action, name) and not self.denies(user, action.partition(".")[0], name)

    def denies(self, user: str, protocol: str, name: str) -> bool:
        """Is this name denied to this user, whatever the rights say? A filter of MQTT is denied if all that it matches is."""
        return self._finds(user, f"{protocol}.{DENY}", name)

    def _known(self, user: str) -> str:
        return user if user in self._users else OTHERS

    def _finds(self, user: str, action: str, name: str) -> bool:
        return any(matches(name) for matches in self._matchers.get((self._known(user), action), ()))


def _items(value: Any, what: str) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a table, not {value!r}")
    return value.items()


def _strings(value: Any, what: str) -> list[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(pattern, str) for pattern in found):
        raise ValueError(f"{what} must be a pattern or a list of patterns, not {value!r}")
    return list(found)


def _matcher(protocol: str, pattern: str) -> Callable[[str], object]:
    if protocol == "mqtt":
        try:
            mqtt.validate_topic_filter(pattern)
        except EncodeError as error:
            raise ValueError(f"{pattern!r} is not a topic filter: {error}") from None
        return lambda name: covers(pattern, name)
    try:
        return re.compile(pattern or "^$").search
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


def covers(pattern: str, asked: str) -> bool:
    """Does a topic filter match everything that another filter, or a topic, matches? (MQTT 5.0, 4.7)"""
    levels, wanted = pattern.split("/"), asked.split("/")
    if asked.startswith("$") and levels[0] in ("+", "#"):
        return False  # 4.7.2
    for number, level in enumerate(levels):
        if level == "#":
            return True
        if number == len(wanted) or wanted[number] == "#" or level not in ("+", wanted[number]):
            return False
    return len(levels) == len(wanted)
