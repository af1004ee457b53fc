"""Exchanges, bindings and queues: the core that AMQP 0.9.1, AMQP 1.0 and MQTT share. It knows no connection.

A message is a `wirefmt.convert.Container`: it stays as it was published, and is converted when a consumer of another protocol
gets it, as RabbitMQ does. What the specification leaves open is done as RabbitMQ does it. Sections are those of AMQP 0.9.1.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from wirefmt import amqp091
from wirefmt.amqp091.events import ACCESS_REFUSED, LOCKED, NOT_FOUND, PRECONDITION
from wirefmt.convert import Container
from wirefmt.errors import ConversionError

TYPES: Final = ("direct", "fanout", "topic", "headers")

#: Exchanges that every router has.
PREDECLARED: Final = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the memory of a router, and how it converts.

    Attributes:
        exchanges, queues, bindings: how many there may be.
        queue_messages, queue_bytes: messages, and bytes of them, that wait in one queue.
        bytes: of all queues together. A message that exceeds it is refused.
        overflow: what happens to a message for a queue that is full: "reject": it is refused, as far as the protocol can say so.
            "drop": the oldest message of the queue is dropped, or dead-lettered. A queue's x-overflow comes first.
        dialect: of `wirefmt.convert`, for consumers of other protocols than the publisher's.
    """

    exchanges: int = 10_000
    queues: int = 10_000
    bindings: int = 100_000
    queue_messages: int = 100_000
    queue_bytes: int = 1 << 28
    bytes: int = 1 << 30
    overflow: Literal["reject", "drop"] = "reject"
    dialect: str = "documented"


class Refusal(Exception):
    """A request is refused. `code`: of AMQP 0.9.1."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Published:
    """A message on its way to its queues.

    Attributes:
        container: the message.
        exchange, routing_key: how it was published.
        size, body_size: bytes of the message, and of its body; of AMQP 1.0 and MQTT both are those of the message.
        ttl: milliseconds until it expires; None: its queues decide.
        properties: of a message of AMQP 0.9.1, decoded; None: of another protocol, or changed since.
    """

    __slots__ = ("body_size", "container", "exchange", "priority", "properties", "routing_key", "size", "ttl")

    def __init__(
        self,
        container: Container,
        exchange: str,
        routing_key: str,
        ttl: int | None,
        priority: int,
        properties: amqp091.BasicProperties | None = None,
    ) -> None:
        self.container = container
        self.exchange = exchange
        self.routing_key = routing_key
        self.ttl = ttl
        self.priority = priority
        self.properties = properties
        self.body_size = len(container.octets if container.body is None else container.body)
        self.size = len(container.octets) + len(container.body or b"")

    @classmethod
    def of(cls, container: Container) -> Published:
        """With what the container knows. Raises ConversionError if RabbitMQ would refuse the message."""
        known = container.annotations
        ttl = known.ttl_ms if known.ttl_ms is not None and known.ttl_ms >= 0 else None
        return cls(container, known.exchange, known.routing_keys[0], ttl, known.priority or 0)

    @property
    def keys(self) -> tuple[str, ...]:
        """The routing key, and those of CC and BCC."""
        if self.properties is not None and self.properties.headers is None:
            return (self.routing_key,)
        known = self.container.annotations
        return (self.routing_key, *known.routing_keys[1:], *known.bcc)

    def headers(self) -> Mapping[Any, Any]:
        """For headers exchanges: of AMQP 0.9.1, or what the message has in their place."""
        properties = self.properties
        if properties is None:
            properties = self.container.to("amqp091").message[0]
        return properties.headers or {}


class Item:
    """A message in a queue."""

    __slots__ = ("expires", "failed", "priority", "published", "redelivered", "where")

    def __init__(self, published: Published) -> None:
        self.published = published
        self.expires: float | None = None
        self.priority = 0
        self.where = 0  # its place in the queue
        self.redelivered = False
        self.failed = 0  # deliveries that have failed

    def __lt__(self, other: Item) -> bool:
        return (-self.priority, self.where) < (-other.priority, other.where)

    @property
    def body(self) -> bytes:
        """The body of AMQP 0.9.1, or the bytes of the message."""
        container = self.published.container
        return container.octets if container.body is None else container.body

    def for_amqp091(self) -> tuple[amqp091.BasicProperties, bytes]:
        """Properties and body for a consumer of AMQP 0.9.1. Raises ConversionError."""
        published = self.published
        if published.properties is not None:
            return published.properties, published.container.body or b""
        made = published.container.deliver("amqp091", redelivered=self.redelivered, delivery_count=self.failed)
        properties, body = made.message
        return properties, body

    def for_amqp10(self) -> bytes:
        """The message for a consumer of AMQP 1.0. Raises ConversionError."""
        made = self.published.container.deliver("amqp10", redelivered=self.redelivered, delivery_count=self.failed)
        return made.octets


class Consumer(Protocol):
    """A consumer of a queue."""

    exclusive: bool
    priority: int

    def room(self) -> int:
        """Messages that it takes now."""
        ...

    def deliver(self, queue: Queue, item: Item) -> bool:
        """Give it a message. False: it does not take it now. Raises ConversionError if it is not for its protocol."""
        ...

    def cancelled(self, queue: Queue) -> None:
        """Its queue has been deleted."""
        ...


class Sink(Protocol):
    """What gets the messages of an exchange besides what is bound to it: the subscriptions of MQTT."""

    def wants(self, routing_key: str) -> bool: ...

    def put(self, item: Item) -> None: ...


@dataclass(slots=True, eq=False)
class Exchange:
    """An exchange and what is bound to it: destination, routing key, arguments.

    Attributes:
        observe: called with each message that reaches the exchange and its routing key, but not with those that a sink has
            given to it; None: no observer.
    """

    name: str
    type: str
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    bindings: dict[tuple[Any, str, bytes], dict[str, Any]] = field(default_factory=dict)
    sinks: list[Sink] = field(default_factory=list)
    observe: Callable[[Published, str], object] | None = None

    def matching(self, published: Published, routing_key: str) -> Iterable[Any]:
        """Queues, exchanges and sinks that a message goes to."""
        headers = published.headers() if self.type == "headers" and self.bindings else {}
        for (destination, key, _), arguments in self.bindings.items():
            if (
                self.type == "fanout"
                or (self.type == "direct" and key == routing_key)
                or (self.type == "topic" and topic_matches(key, routing_key))
                or (self.type == "headers" and headers_match(arguments, headers))
            ):
                yield destination
        for sink in self.sinks:
            if sink.wants(routing_key):
                yield sink


class Queue:
    """A queue: messages by priority and place, and its consumers.

    Attributes:
        messages: what waits, a heap.
        owner: the connection that alone may use it; None: it is not exclusive.
        dropped: messages that were lost: rejected, expired, or too many, without a dead letter exchange.
    """

    def __init__(
        self,
        router: Router,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        owner: object | None = None,
    ) -> None:
        self.router = router
        self.name = name
        self.durable = durable
        self.exclusive = owner is not None
        self.auto_delete = auto_delete
        self.owner = owner
        self.arguments = dict(arguments or {})
        self.messages: list[Item] = []
        self.bytes = self.body_bytes = 0
        self.consumers: list[Consumer] = []
        self.dropped = 0
        self.gone = False
        self._places = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._pumping = False
        limits = router.limits
        self.most = min(self._number("x-max-length", limits.queue_messages), limits.queue_messages)
        self.most_bytes = self._number("x-max-length-bytes", limits.queue_bytes)  # of bodies, as RabbitMQ counts
        self.ttl = self._number("x-message-ttl", -1)
        self.expiry = self._number("x-expires", 0)
        self.priorities = min(self._number("x-max-priority", 0), 255)
        overflow = self.arguments.get("x-overflow")
        limited = "x-max-length" in self.arguments or "x-max-length-bytes" in self.arguments
        self.dead_letters_refused = overflow == "reject-publish-dlx"
        self.rejects = overflow in ("reject-publish", "reject-publish-dlx") or (
            overflow is None and not limited and limits.overflow == "reject"
        )
        self._unused: asyncio.TimerHandle | None = None
        self.used()

    def _number(self, name: str, otherwise: int) -> int:
        value = self.arguments.get(name, otherwise)
        if not isinstance(value, int) or (name in self.arguments and value < (name == "x-expires")):
            raise Refusal(PRECONDITION, f"invalid arg '{name}' for queue '{self.name}': {value!r}")
        return value

    def full_for(self, published: Published) -> bool:
        return (
            len(self.messages) >= self.most
            or self.bytes + published.size > self.router.limits.queue_bytes
            or self.body_bytes + published.body_size > self.most_bytes
        )

    @property
    def _exceeds(self) -> bool:
        return (
            len(self.messages) > self.most
            or self.bytes > self.router.limits.queue_bytes
            or self.body_bytes > self.most_bytes
        )

    def used(self) -> None:
        """x-expires: the queue is deleted when nobody has used it for this time."""
        if self._unused is not None:
            self._unused.cancel()
            self._unused = None
        if self.expiry and not self.consumers and not self.gone:
            loop = asyncio.get_running_loop()
            self._unused = loop.call_later(self.expiry / 1000, self.router.delete_queue, self)

    def put(self, item: Item) -> None:
        """Add a message. One that is too much drops the oldest ones."""
        ttl = item.published.ttl
        if self.ttl >= 0:
            ttl = self.ttl if ttl is None else min(ttl, self.ttl)
        item.priority = min(item.published.priority, self.priorities)
        item.where = next(self._places)
        self._push(item)
        self.pump()
        if ttl is not None:  # after the pump: what a consumer takes at once has not expired, even with 0
            item.expires = self.router.now() + ttl / 1000
        while self.messages and self._exceeds:
            self.router.dead_letter(self, self._pop(), "maxlen")
        self._watch()

    def back(self, items: Iterable[Item]) -> None:
        """Messages that were delivered and are not acknowledged: to their old places."""
        for item in items:
            item.redelivered = True
            self._push(item)
        self.pump()
        self._watch()

    def take(self) -> Item | None:
        """The next message."""
        self.expire()
        return self._pop() if self.messages else None

    def expire(self) -> None:
        """Messages at the head whose time is over."""
        now = self.router.now()
        while self.messages and (expires := self.messages[0].expires) is not None and expires <= now:
            self.router.dead_letter(self, self._pop(), "expired")

    def purge(self) -> int:
        """Drop what waits. Returns how many there were."""
        count = len(self.messages)
        self.messages.clear()
        self.router.bytes -= self.bytes
        self.bytes = self.body_bytes = 0
        return count

    def pump(self) -> None:
        """Deliver what there is to consumers that have room: higher priorities first, others in turns."""
        if self._pumping or not self.consumers:
            return
        self._pumping = True
        try:
            while self.messages:
                consumer = next((c for c in self.consumers if c.room() > 0), None)
                item = self.take() if consumer is not None else None
                if consumer is None or item is None:
                    return
                try:
                    taken = consumer.deliver(self, item)
                except ConversionError:
                    self.router.dead_letter(self, item, "rejected")
                    continue
                if not taken:
                    self._push(item)
                    return
                if len(self.consumers) > 1 and consumer in self.consumers:
                    self.consumers.remove(consumer)
                    self.insert(consumer)
        finally:
            self._pumping = False

    def insert(self, consumer: Consumer) -> None:
        """Behind those of its priority."""
        at = next((k for k, c in enumerate(self.consumers) if c.priority < consumer.priority), len(self.consumers))
        self.consumers.insert(at, consumer)
        if self._unused is not None:
            self.used()

    def check(self, consumer: Consumer) -> None:
        """Raises Refusal if the consumer must not be inserted."""
        if any(c.exclusive for c in self.consumers) or (consumer.exclusive and self.consumers):
            raise Refusal(ACCESS_REFUSED, f"queue '{self.name}' in vhost '{self.router.name}' in exclusive use")

    def leave(self, consumer: Consumer) -> None:
        """A consumer is gone. The last one takes a queue with auto-delete along."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            if self.auto_delete and not self.consumers and not self.gone:
                self.router.delete_queue(self)
            self.used()

    def _push(self, item: Item) -> None:
        heapq.heappush(self.messages, item)
        self.body_bytes += item.published.body_size
        self.bytes += item.published.size
        self.router.bytes += item.published.size

    def _pop(self) -> Item:
        item = heapq.heappop(self.messages)
        self.body_bytes -= item.published.body_size
        self.bytes -= item.published.size
        self.router.bytes -= item.published.size
        return item

    def _watch(self) -> None:
        """Come back when the first message is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.messages and self.messages[0].expires is not None and not self.gone:
            self._timer = asyncio.get_running_loop().call_at(self.messages[0].expires, self._due)

    def _due(self) -> None:
        self._timer = None
        self.expire()
        self._watch()

    def end(self) -> None:
        self.gone = True
        self.purge()
        for timer in (self._timer, self._unused):
            if timer is not None:
                timer.cancel()


class Router:
    """Exchanges and queues of one virtual host.

    Args:
        limits: what bounds it.
        name: of the virtual host, for errors.

    Attributes:
        exchanges, queues: by name.
        bytes: of all messages in queues.
        unroutable: messages that no queue was bound for.
    """

    def __init__(self, limits: Limits | None = None, name: str = "/") -> None:
        self.limits = limits or Limits()
        self.name = name
        self.exchanges = {exchange: Exchange(exchange, kind, durable=True) for exchange, kind in PREDECLARED.items()}
        self.queues: dict[str, Queue] = {}
        self.bytes = 0
        self.unroutable = 0

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def close(self) -> None:
        """Forget everything, and stop the timers."""
        for queue in self.queues.values():
            queue.end()
        self.queues.clear()
        for exchange in list(self.exchanges.values()):
            exchange.bindings.clear()
            if exchange.name not in PREDECLARED:
                del self.exchanges[exchange.name]
        self.unroutable = 0

    def exchange(self, name: str) -> Exchange:
        try:
            return self.exchanges[name]
        except KeyError:
            raise Refusal(NOT_FOUND, f"no exchange '{name}' in vhost '{self.name}'") from None

    def queue(self, name: str, user: object) -> Queue:
        """A queue, for a connection that may use it."""
        queue = self.queues.get(name)
        if queue is None:
            raise Refusal(NOT_FOUND, f"no queue '{name}' in vhost '{self.name}'")
        if queue.owner is not None and queue.owner is not user:
            raise Refusal(LOCKED, f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}'")
        queue.used()
        return queue

    def make_queue(self, name: str, arguments: Mapping[str, Any] | None = None, **fields: Any) -> Queue:
        """A new queue."""
        if len(self.queues) >= self.limits.queues:
            raise Refusal(PRECONDITION, f"there are {len(self.queues)} queues in vhost '{self.name}'")
        queue = self.queues[name] = Queue(self, name, arguments, **fields)
        return queue

    # ---- messages

    def route(self, exchange: Exchange, published: Published, besides: Sink | None = None) -> list[Any]:
        """Queues and sinks of a message, each once. `besides`: one that has it already."""
        found: dict[Any, None] = {}
        for key in published.keys:
            if exchange.name == "":
                queue = self.queues.get(key)
                if queue is not None:
                    found[queue] = None
                continue
            seen = {exchange.name}
            waiting = [exchange]
            while waiting:
                one = waiting.pop()
                if one.observe is not None and besides is None:
                    one.observe(published, key)
                destinations = list(one.matching(published, key))
                other = one.arguments.get("alternate-exchange")
                if not destinations and other in self.exchanges:
                    destinations = [self.exchanges[other]]
                for destination in destinations:
                    if not isinstance(destination, Exchange):
                        found[destination] = None
                    elif destination.name not in seen:
                        seen.add(destination.name)
                        waiting.append(destination)
        found.pop(besides, None)
        return list(found)

    def refuses(self, destinations: list[Any], published: Published) -> bool:
        """True: one of the queues is full and does not drop older messages. Nobody gets the message then."""
        full = [q for q in destinations if isinstance(q, Queue) and q.rejects and q.full_for(published)]
        for queue in full:
            if queue.dead_letters_refused:
                self.dead_letter(queue, Item(published), "maxlen")
        return bool(full) or self.bytes + published.size > self.limits.bytes

    def put(self, destinations: list[Any], published: Published) -> None:
        """Give the message to its queues and sinks."""
        for destination in destinations:
            destination.put(Item(published))

    def dead_letter(self, queue: Queue, item: Item, reason: str) -> None:
        """A message that has expired, was rejected, or was too much: to the queue's dead letter exchange."""
        exchange = self.exchanges.get(queue.arguments.get("x-dead-letter-exchange", object()))
        if exchange is None:
            queue.dropped += 1
            return
        key = queue.arguments.get("x-dead-letter-routing-key")
        container = item.published.container.dead_lettered(
            queue.name, reason, exchange=exchange.name, routing_key=None if key is None else str(key), clear_ttl=True
        )
        letter = Published(
            container,
            exchange.name,
            item.published.routing_key if key is None else str(key),
            None,
            item.published.priority,
        )
        for target in self.route(exchange, letter):
            if isinstance(target, Queue) and (
                _died_in(container, target.name) or (target.rejects and target.full_for(letter))
            ):
                continue  # a cycle without a rejection drops it
            target.put(Item(letter))

    # ---- bindings

    def bind(self, exchange: Exchange, key: tuple[Any, str, bytes], arguments: dict[str, Any]) -> None:
        """`key`: the destination, the routing key, the arguments as they are encoded."""
        if key not in exchange.bindings:
            if sum(len(e.bindings) for e in self.exchanges.values()) >= self.limits.bindings:
                raise Refusal(PRECONDITION, "too many bindings")
            exchange.bindings[key] = arguments

    def unbind(self, exchange: Exchange, key: tuple[Any, str, bytes]) -> None:
        if exchange.bindings.pop(key, None) is not None and exchange.auto_delete and not exchange.bindings:
            self.delete_exchange(exchange)

    def _unbind_all(self, destination: Any) -> None:
        for exchange in list(self.exchanges.values()):
            for key in [k for k in exchange.bindings if k[0] is destination]:
                self.unbind(exchange, key)

    def delete_exchange(self, exchange: Exchange) -> None:
        self.exchanges.pop(exchange.name, None)
        self._unbind_all(exchange)

    def delete_queue(self, queue: Queue) -> None:
        self.queues.pop(queue.name, None)
        queue.end()
        self._unbind_all(queue)
        consumers, queue.consumers = queue.consumers, []
        for consumer in consumers:
            consumer.cancelled(queue)


def _died_in(container: Container, queue: str) -> bool:
    """Has the message come from this queue without being rejected on the way? (RabbitMQ: a cycle.)"""
    for death in container.annotations.deaths:  # latest first
        if death.reason == "rejected":
            return False
        if death.queue == queue:
            return True
    return False


def topic_matches(pattern: str, routing_key: str) -> bool:
    """Does a binding of a topic exchange match (3.1.3.3)? `*` is one word, `#` any number of words.

    In time of the product of both lengths, whatever they are.
    """
    words = routing_key.split(".") if routing_key else []
    reached = [True] + [False] * len(words)  # after the words of the pattern so far, how many of the key may be used
    for part in pattern.split(".") if pattern else []:
        if part == "#":
            for k in range(len(words)):
                reached[k + 1] = reached[k + 1] or reached[k]
        else:
            reached = [False, *(reached[k] and part in ("*", word) for k, word in enumerate(words))]
    return reached[-1]


def headers_match(arguments: Mapping[str, Any], headers: Mapping[Any, Any]) -> bool:
    """Does a binding of a headers exchange match (3.1.3.4)? x-match is all or any; the -with-x forms (RabbitMQ) look at names
    that begin with x-, too."""
    how = arguments.get("x-match", "all")
    with_x = how in ("all-with-x", "any-with-x")
    wanted = {k: v for k, v in arguments.items() if k != "x-match" and (with_x or not k.startswith("x-"))}
    found = (k in headers and (v is None or headers[k] == v) for k, v in wanted.items())
    return any(found) if how in ("any", "any-with-x") else all(found)
