"""Exchanges, bindings and queues: the core that AMQP 0.9.1, AMQP 1.0 and MQTT share. It knows no connection.

What the specification leaves open is done as RabbitMQ does it. Sections are those of AMQP 0.9.1. Messages are those of
`wirefmt.broker.messages`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from wirefmt.amqp091.events import LOCKED, NOT_FOUND, PRECONDITION
from wirefmt.broker.bindings import HOW_TO_MATCH, TABLES, Binding
from wirefmt.broker.messages import Envelope, Item, Published
from wirefmt.broker.queues import ENTRY, LOOKS_TOGETHER, Queue, Refusal
from wirefmt.convert import Container
from wirefmt.errors import ConversionError

#: Copies of messages that are made together, at most, or one message.
TOGETHER_COPIES: Final = 4096

#: Copies that dead-lettering may make of a message without a client's doing, or as many as there may be queues. Queues that
#: dead-letter to each other through a fanout exchange make more than they are by orders.
COPIES: Final = 1000

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
        queue_messages, queue_bytes: messages, and bytes of them, that wait in one queue, or in one open transaction, where a
            message counts as often as there are queues that it goes to.
        bytes: of all queues and open transactions together, with ENTRY bytes for each message in each queue. A message that
            exceeds it is refused.
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


class Sink(Protocol):
    """What gets the messages of an exchange besides what is bound to it: the subscriptions of MQTT."""

    def wants(self, routing_key: str) -> bool: ...

    def put(self, item: Item) -> None: ...


class Transaction:
    """Messages that wait for the end of a transaction, in order. They have the limits of a queue, and count among the bytes of
    all queues.

    Attributes:
        messages: what the host has added.
        bytes: of them.
    """

    def __init__(self, router: Router) -> None:
        self.router = router
        self.messages: list[Any] = []
        self.bytes = 0
        self._copies = 0

    def add(self, message: Any, size: int, copies: int = 1) -> None:
        """Add a message of this size, for so many queues. Raises Refusal if it is too much."""
        router, limits = self.router, self.router.limits
        size += ENTRY
        if (
            len(self.messages) >= limits.queue_messages
            or (self._copies and self._copies + copies > limits.queue_messages)
            or self.bytes + size > limits.queue_bytes
            or router.bytes + size > limits.bytes
        ):
            raise Refusal(PRECONDITION, "the messages of the transaction are too many or too large")
        self.messages.append(message)
        self._copies += max(copies, 1)
        self.bytes += size
        router.bytes += size

    def end(self) -> list[Any]:
        """Commit or roll back: the messages, which count no more. The next transaction begins."""
        messages, self.messages = self.messages, []
        self.router.bytes -= self.bytes
        self.bytes = self._copies = 0
        return messages


class Exchange:
    """An exchange and what is bound to it.

    Attributes:
        bindings: their arguments. `Router.bind` and `Router.unbind` change them.
        sinks: what gets its messages besides.
        observe: called with each message that reaches the exchange and its routing key, but not with those that a sink has
            given to it; None: no observer.
    """

    def __init__(
        self,
        name: str,
        type: str,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = dict(arguments or {})
        self.alternate: str | None = self.arguments.get("alternate-exchange")
        if self.alternate is not None and not isinstance(self.alternate, str):
            raise Refusal(PRECONDITION, f"invalid arg 'alternate-exchange' for exchange '{name}': {self.alternate!r}")
        self.bindings: dict[Binding, Mapping[str, Any]] = {}
        self.sinks: list[Sink] = []
        self.observe: Callable[[Published, str], object] | None = None
        self._table = TABLES[type]()

    def add(self, binding: Binding, arguments: Mapping[str, Any]) -> None:
        self.bindings[binding] = arguments
        self._table.add(binding, arguments)

    def remove(self, binding: Binding) -> None:
        del self.bindings[binding]
        self._table.remove(binding)

    def matching(self, published: Published, routing_key: str) -> list[Any]:
        """Queues, exchanges and sinks that a message goes to; some may be there several times."""
        found = list(self._table.find(routing_key, published.headers))
        return [*found, *(sink for sink in self.sinks if sink.wants(routing_key))] if self.sinks else found


class Router:
    """Exchanges and queues of one virtual host.

    Args:
        limits: what bounds it.
        name: of the virtual host, for errors.

    Attributes:
        exchanges, queues: by name.
        replies: what gets messages of the default exchange besides queues, by routing key: consumers of direct replies.
        bytes: of all messages in queues and in open transactions, with ENTRY for each.
        unroutable: messages that no queue was bound for.
        unrouted: the last of them.
        unconvertible: messages whose headers AMQP 0.9.1 cannot have, for which a headers exchange has seen none.
    """

    def __init__(self, limits: Limits | None = None, name: str = "/") -> None:
        self.limits = limits or Limits()
        self.name = name
        self.exchanges = {exchange: Exchange(exchange, kind, durable=True) for exchange, kind in PREDECLARED.items()}
        self.queues: dict[str, Queue] = {}
        self.bytes = 0
        self.unroutable = 0
        self.unrouted: deque[Published] = deque(maxlen=0)
        self.unconvertible = 0
        self.replies: dict[str, Sink] = {}
        self._bound: dict[Any, dict[tuple[Exchange, Binding], None]] = {}  # by destination
        self._bindings = 0
        self._owned: dict[object, dict[Queue, None]] = {}  # exclusive queues by their owners
        self._dead: deque[tuple[Queue, Item, str, bool]] = deque()  # to be buried
        self._burying = False
        self.looks = LOOKS_TOGETHER  # for this iteration
        self._looking: dict[Queue, None] = {}  # queues that wait for the next one
        self._next_looks: asyncio.Handle | None = None

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def looked(self, work: int) -> None:
        """A consumer with a filter has looked at a message."""
        self.looks -= work
        self._arm()

    def look_later(self, queue: Queue) -> None:
        """Consumers of the queue go on with looking in the next iteration."""
        self._looking[queue] = None
        self._arm()

    def _arm(self) -> None:
        if self._next_looks is None:
            self._next_looks = asyncio.get_running_loop().call_soon(self._look_on)

    def _look_on(self) -> None:
        self._next_looks, self.looks = None, LOOKS_TOGETHER
        looking, self._looking = self._looking, {}
        for queue in looking:
            if self.looks > 0:
                queue.look_on()
            else:
                self.look_later(queue)

    def close(self) -> None:
        """Forget everything, and stop the timers."""
        if self._next_looks is not None:
            self._next_looks.cancel()
            self._next_looks = None
        self._looking.clear()
        for queue in self.queues.values():
            queue.end()
        self.queues.clear()
        self._owned.clear()
        for exchange in list(self.exchanges.values()):
            for binding in list(exchange.bindings):
                exchange.remove(binding)
            if exchange.name not in PREDECLARED:
                del self.exchanges[exchange.name]
        self._bound.clear()
        self._bindings = 0
        self._dead.clear()
        self.replies.clear()
        self.unroutable = self.unconvertible = 0
        self.unrouted.clear()

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
        if queue.owner is not None:
            self._owned.setdefault(queue.owner, {})[queue] = None
        return queue

    # ---- messages

    def route(
        self, exchange: Exchange, *messages: Published, besides: Sink | None = None, quiet: bool = False
    ) -> list[Any]:
        """Queues and sinks of messages that go the same way, each once. `besides`: one that has them already. `quiet`: nobody is
        told, and nothing counted: the messages do not come yet.

        Raises ConversionError if RabbitMQ would refuse the messages.
        """
        published = messages[0]
        found: dict[Any, None] = {}
        keys = published.keys
        if exchange.name == "":
            for key in keys:
                destination = self.queues.get(key) or self.replies.get(key)
                if destination is not None:
                    found[destination] = None
            return list(found)
        seen = {exchange.name}
        waiting = [exchange]
        while waiting:
            one = waiting.pop()
            destinations: list[Any] = []
            for key in keys:  # every exchange looks at all of them (RabbitMQ)
                if one.observe is not None and besides is None and not quiet:
                    for message in messages:
                        one.observe(message, key)
                destinations += one.matching(published, key)
            if not destinations and one.alternate in self.exchanges:
                destinations = [self.exchanges[one.alternate]]
            for destination in destinations:
                if not isinstance(destination, Exchange):
                    found[destination] = None
                elif destination.name not in seen:
                    seen.add(destination.name)
                    waiting.append(destination)
        if not quiet:
            self.unconvertible += published.unconvertible * len(messages)
        found.pop(besides, None)
        return list(found)

    def note_unroutable(self, *messages: Published) -> None:
        """No queue was bound for these."""
        self.unroutable += len(messages)
        self.unrouted += messages

    def takes(self, destinations: list[Any], *messages: Published) -> bool:
        """Do all destinations take these messages together? If not, each message has to be asked about: see `refuses`."""
        if self._exceeds(destinations, *messages):
            return False
        return not any(
            isinstance(queue, Queue) and queue.rejects and queue.full_for(*messages) for queue in destinations
        )

    def _exceeds(self, destinations: list[Any], *messages: Published) -> bool:
        """Are the bytes of all queues too many?"""
        more = sum([published.size for published in messages]) + ENTRY * len(messages) * len(destinations)
        return self.bytes + more > self.limits.bytes

    def refuses(self, destinations: list[Any], published: Published) -> bool:
        """Take those out of the destinations that refuse the message: queues that are full and do not drop older messages, or
        all if the bytes of all queues are too many.

        Returns True if there are any: the publisher receives a refusal, and the other destinations the message (RabbitMQ).
        """
        if self.takes(destinations, published):
            return False
        if self._exceeds(destinations, published):
            destinations.clear()
            return True
        full: dict[Queue, None] = {}
        for queue in destinations:
            if isinstance(queue, Queue) and queue.rejects and queue.full_for(published):
                full[queue] = None
        destinations[:] = [destination for destination in destinations if destination not in full]
        for queue in full:
            if queue.dead_letters_refused:
                self.dead_letter(queue, Item(published), "maxlen")
        return True

    def put(self, destinations: list[Any], *messages: Published) -> None:
        """Give messages that go the same way to their queues and sinks."""
        for destination in destinations:
            items = [Item(published) for published in messages]
            if isinstance(destination, Queue):
                destination.put(*items)
            else:
                for item in items:
                    destination.put(item)

    def dead_letter(self, queue: Queue, item: Item, reason: str, *, unfit: bool = False) -> None:
        """A message that has expired, was rejected, or was too much: to the queue's dead letter exchange.

        Args:
            unfit: it was not a client that rejected it: it cannot be delivered to one.
        """
        self._dead.append((queue, item, reason, unfit))
        if self._burying:
            return  # further deaths on the way wait for their turn
        self._burying = True
        try:
            while self._dead:
                self._bury(*self._dead.popleft())
        finally:
            self._burying = False

    def _bury(self, queue: Queue, item: Item, reason: str, unfit: bool) -> None:
        exchange = self.exchanges.get(queue.dead_letter_exchange) if queue.dead_letter_exchange is not None else None
        if exchange is None:
            queue.dropped += 1
            return
        published, key = item.published, queue.dead_letter_key
        try:
            container = published.container.dead_lettered(
                queue.name, reason, exchange=exchange.name, routing_key=key, clear_ttl=True
            )
            envelope = Envelope(
                container.octets,
                exchange.name,
                published.routing_key if key is None else key,
                None,
                published.envelope.priority,
                None,
                "",
            )
            letter = Published(envelope, container.body, container)
            targets = self.route(exchange, letter)
        except ConversionError:
            targets = []
        if not targets:
            queue.dropped += 1
            return
        copies = published.copies or [0]
        if reason != "rejected" or unfit:
            published.copies = copies
        else:
            copies = [0]
        letter.copies = copies
        for target in targets:
            if isinstance(target, Queue) and (
                _died_in(container, target.name, rejections=not unfit)
                or (target.rejects and target.full_for(letter))
                or self._exceeds(targets[:1], letter)
                or copies[0] >= max(COPIES, self.limits.queues)
            ):
                target.dropped += 1
            else:
                copies[0] += 1
                target.put(Item(letter))

    # ---- bindings

    def bind(self, exchange: Exchange, binding: Binding, arguments: Mapping[str, Any]) -> None:
        """Bind a destination, if it is not bound like this already."""
        if binding in exchange.bindings:
            return
        if exchange.type == "headers" and arguments.get("x-match", "all") not in HOW_TO_MATCH:
            raise Refusal(PRECONDITION, f"invalid x-match {arguments['x-match']!r}, expected {', '.join(HOW_TO_MATCH)}")
        if self._bindings >= self.limits.bindings:
            raise Refusal(PRECONDITION, "too many bindings")
        exchange.add(binding, arguments)
        self._bound.setdefault(binding[0], {})[exchange, binding] = None
        self._bindings += 1

    def unbind(self, exchange: Exchange, binding: Binding) -> None:
        if binding in exchange.bindings:
            self._remove(exchange, binding)
            if exchange.auto_delete and not exchange.bindings:
                self.delete_exchange(exchange)

    def _remove(self, exchange: Exchange, binding: Binding) -> None:
        exchange.remove(binding)
        self._bindings -= 1
        bound = self._bound[binding[0]]
        del bound[exchange, binding]
        if not bound:
            del self._bound[binding[0]]

    def _unbind_all(self, destination: Any) -> None:
        """What has been deleted is bound no more. An exchange with auto-delete goes with its last binding."""
        deleted = [destination]
        while deleted:
            for exchange, binding in list(self._bound.get(deleted.pop(), ())):
                self._remove(exchange, binding)
                if (
                    exchange.auto_delete
                    and not exchange.bindings
                    and self.exchanges.pop(exchange.name, None) is not None
                ):
                    deleted.append(exchange)

    def delete_exchange(self, exchange: Exchange) -> None:
        self.exchanges.pop(exchange.name, None)
        for binding in list(exchange.bindings):
            self._remove(exchange, binding)
        self._unbind_all(exchange)

    def delete_queue(self, queue: Queue) -> None:
        self.queues.pop(queue.name, None)
        if queue.owner is not None:
            self._owned.get(queue.owner, {}).pop(queue, None)
        queue.end()
        self._unbind_all(queue)
        consumers, queue.consumers = queue.consumers, {}
        for consumer in consumers:
            consumer.cancelled(queue)

    def release(self, owner: object) -> None:
        """A connection is gone: delete its exclusive queues."""
        for queue in list(self._owned.get(owner, ())):
            self.delete_queue(queue)
        self._owned.pop(owner, None)


def _died_in(container: Container, queue: str, *, rejections: bool) -> bool:
    """Has the message been dead-lettered by this queue before, and by no client's rejection since? (RabbitMQ: a cycle.)

    Args:
        rejections: False: rejections do not count as a client's.
    """
    for death in container.annotations.deaths:  # latest first
        if rejections and death.reason == "rejected":
            return False
        if death.queue == queue:
            return True
    return False
