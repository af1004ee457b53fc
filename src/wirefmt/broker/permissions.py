"""What users may do. All brokers ask `Permissions.may`.

The rights are those of the real brokers. AMQP: configure, write and read of RabbitMQ, with its table of operations. MQTT: topics
to publish and to subscribe to, as in an ACL file of mosquitto. NSQ and RocketMQ: topics to publish and to subscribe to. What
is denied comes before them, as mosquitto's `topic deny`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from wirefmt import amqp091, mqtt
from wirefmt.errors import EncodeError, suggest

#: The rights of each protocol. Those of AMQP are for 0.9.1 and 1.0.
RIGHTS: Final = {
    "amqp": ("configure", "write", "read"),
    "mqtt": ("publish", "subscribe"),
    "nsq": ("publish", "subscribe"),
    "rocketmq": ("publish", "subscribe"),
}

#: The key beside the rights: patterns of names for which nothing is allowed, whatever the rights say.
DENY: Final = "deny"

#: The user whose table is for all that have none of their own, and for all clients if there are no users.
OTHERS: Final = "*"

#: The name of AMQP's default exchange in patterns, as in RabbitMQ.
DEFAULT_EXCHANGE: Final = "amq.default"

#: Permissions as a user writes them: user or OTHERS -> protocol -> right or DENY -> pattern or patterns.
Table = Mapping[str, Mapping[str, Mapping[str, Any]]]


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

    def may(self, user: str, action: str, name: str) -> bool:
        """May this user do this?

        Args:
            action: a protocol and one of its rights, "amqp.read".
            name: AMQP: a queue or an exchange; MQTT: a topic, or a topic filter for "mqtt.subscribe"; otherwise a topic.
        """
        return self._finds(user, action, name) and not self.denies(user, action.partition(".")[0], name)

    def denies(self, user: str, protocol: str, name: str) -> bool:
        """Is this name denied to this user, whatever the rights say? A filter of MQTT is denied if all that it matches is."""
        return self._finds(user, f"{protocol}.{DENY}", name)

    def denies_some(self, protocol: str) -> bool:
        """Is there a name of this protocol that is denied to a user?"""
        return any(action == f"{protocol}.{DENY}" for _, action in self._matchers)

    def _finds(self, user: str, action: str, name: str) -> bool:
        known = user if user in self._users else OTHERS
        return any(matches(name) for matches in self._matchers.get((known, action), ()))


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


def amqp091_needs(event: Any, named: Callable[[Any], str]) -> Iterator[tuple[str, str]]:
    """The actions and names that a method of AMQP 0.9.1 or a message needs, as in RabbitMQ.

    Args:
        named: returns the name of a queue; the channel's last declared one for "".
    """
    match event:
        case amqp091.ExchangeDeclare() if not event.passive:
            yield "amqp.configure", _exchange(event.exchange)
            if alternate := event.arguments.get("alternate-exchange"):
                yield "amqp.read", _exchange(event.exchange)
                yield "amqp.write", _exchange(alternate)
        case amqp091.ExchangeDelete():
            yield "amqp.configure", _exchange(event.exchange)
        case amqp091.ExchangeBind() | amqp091.ExchangeUnbind():
            yield "amqp.write", _exchange(event.destination)
            yield "amqp.read", _exchange(event.source)
        case amqp091.QueueDeclare() if not event.passive:
            name = str(event.queue) or "amq.gen"  # the server makes up a name with this prefix
            yield "amqp.configure", name
            if dead := event.arguments.get("x-dead-letter-exchange"):
                yield "amqp.read", name
                yield "amqp.write", _exchange(dead)
        case amqp091.QueueDelete():
            yield "amqp.configure", named(event.queue)
        case amqp091.QueueBind() | amqp091.QueueUnbind():
            yield "amqp.write", named(event.queue)
            yield "amqp.read", _exchange(event.exchange)
        case amqp091.QueuePurge() | amqp091.BasicGet() | amqp091.BasicConsume():
            yield "amqp.read", named(event.queue)
        case amqp091.BasicMessage():
            yield "amqp.write", _exchange(event.method.exchange)


def amqp10_needs(exchange: str, routing_key: str, right: str, missing: bool) -> Iterator[tuple[str, str]]:
    """The actions and names that a link of AMQP 1.0 needs, as in RabbitMQ.

    Args:
        exchange, routing_key: its address; a queue has the exchange "".
        right: "read" for a source, "write" for a target.
        missing: the queue does not exist and is declared.
    """
    if missing:
        yield "amqp.configure", routing_key
    yield f"amqp.{right}", routing_key if right == "read" else _exchange(exchange)


def _exchange(name: Any) -> str:
    return str(name) or DEFAULT_EXCHANGE


def rocketmq_refused(permissions: Permissions, event: Any) -> str:
    """Why a request of RocketMQ is refused; "": it is not. Retry topics belong to groups, which have no permissions."""
    fields = event.ext_fields or {}
    if event.code in (10, 310, 320):  # SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE
        right, topic = "publish", fields.get("topic" if event.code == 10 else "b") or ""
    elif event.code in (11, 361, 200050):  # PULL_MESSAGE, LITE_PULL_MESSAGE, POP_MESSAGE
        right, topic = "subscribe", fields.get("topic") or ""
    else:
        return ""
    user = fields.get("AccessKey") or ""
    if topic.startswith("%RETRY%") or permissions.may(user, f"rocketmq.{right}", topic):
        return ""
    return f"No permission to {right} topic {topic!r} for {user!r}"
