"""Exchanges, bindings and queues: the core that AMQP 0.9.1, AMQP 1.0 and MQTT share. It knows no connection.

What the specification leaves open is done as RabbitMQ does it. Sections are those of AMQP 0.9.1. Messages are those of
`wirefmt.broker.messages`.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from wirefmt.amqp091.events import ACCESS_REFUSED, LOCKED, NOT_FOUND, NOT_IMPLEMENTED, PRECONDITION
from wirefmt.broker.bindings import HOW_TO_MATCH, TABLES, Binding
from wirefmt.broker.messages import Envelope, Item, Published
from wirefmt.convert import Container
from wirefmt.errors import ConversionError

#: Messages that a consumer is given together, at most, and bytes of them from which on there are no more.
TOGETHER: Final = 256
TOGETHER_BYTES: Final = 1 << 18

#: Bytes that a message costs in each queue besides its own. They count in `Router.bytes`.
ENTRY: Final = 200

#: Copies of messages that are made together, at most, or one message.
TOGETHER_COPIES: Final = 4096

#: The longest time that a message or a queue may have, in milliseconds: ten years (RabbitMQ).
LONGEST: Final = 315_360_000_000

#: How often a message of a quorum queue may go back to it, unless x-delivery-limit says otherwise (RabbitMQ 4).
DELIVERY_LIMIT: Final = 20

#: Arguments of queues that are numbers: the smallest and the largest value.
NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "x-max-length": (0, 1 << 63),
    "x-max-length-bytes": (0, 1 << 63),
    "x-message-ttl": (0, LONGEST),
    "x-expires": (1, LONGEST),
    "x-max-priority": (0, 255),
    "x-delivery-limit": (-(1 << 63), 1 << 63),
}

#: Types of queues.
QUEUE_TYPES: Final = ("classic", "quorum")

_BOTH = (
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-expires", "x-max-length", "x-max-length-bytes", "x-message-ttl",
    "x-overflow", "x-queue-leader-locator", "x-queue-type", "x-single-active-consumer",
)  # fmt: skip

#: The arguments that a second declaration of a queue is compared in, by its type. All others have no meaning (RabbitMQ).
COMPARED: Final[Mapping[str, tuple[str, ...]]] = {
    "classic": (*_BOTH, "x-max-priority", "x-queue-master-locator", "x-queue-mode", "x-queue-version"),
    "quorum": (
        *_BOTH, "x-dead-letter-strategy", "x-delivery-limit", "x-max-in-memory-bytes", "x-max-in-memory-length",
        "x-quorum-initial-group-size",
    ),
}  # fmt: skip

#: Copies that dead-lettering may make of a message without a client's doing, or as many as there may be queues. Queues that
#: dead-letter to each other through a fanout exchange make more than they are by orders.
COPIES: Final = 1000

#: Values of x-overflow.
OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")

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


class Refusal(Exception):
    """A request is refused. `code`: of AMQP 0.9.1."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Consumer(Protocol):
    """A consumer of a queue, as a protocol's broker makes it.

    Attributes:
        exclusive: it wants to be the queue's only one.
        priority: consumers with a higher one come first.
    """

    exclusive: bool
    priority: int

    def room(self) -> int:
        """Messages that it takes now. If there are none, the broker of its protocol calls `Queue.wake` when there may be."""
        ...

    def deliver(self, queue: Queue, items: Sequence[Item], at: int) -> int:
        """Give it message number `at` and the following ones, as far as it takes them together. There is room for one.

        Returns how many it has taken; 0: it takes none now, and the broker of its protocol calls `Queue.wake`. Raises
        ConversionError if message number `at` is not for its protocol; then it has taken none.
        """
        ...

    def cancelled(self, queue: Queue) -> None:
        """Its queue has been deleted."""
        ...


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


class Queue:
    """A queue: messages by priority and place, and its consumers.

    Attributes:
        consumers: in no order.
        owner: the connection that alone may use it; None: it is not exclusive.
        dropped: messages that were lost: those that died here (rejected, expired, or too many) and went to no other queue, and
            dead letters from other queues that were refused here.
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
        self._heap: list[tuple[int, int, Item]] = []  # (-priority, place, item): numbers alone are compared
        self.bytes = self.body_bytes = 0
        self.consumers: dict[Consumer, None] = {}
        self._able: dict[int, OrderedDict[Consumer, None]] = {}  # those that may have room, by priority, in turn
        self._ranks: list[int] = []  # the priorities of these, negated: the highest comes first
        self.dropped = 0
        self.gone = False
        self._place = 0  # of the next message
        self._timer: asyncio.TimerHandle | None = None
        self._pumping = False
        limits = router.limits
        self.most = min(self._number("x-max-length", limits.queue_messages), limits.queue_messages)
        self.most_bytes = self._number("x-max-length-bytes", limits.queue_bytes)  # of bodies, as RabbitMQ counts
        self.ttl = self._number("x-message-ttl", -1)
        self.expiry = self._number("x-expires", 0)
        self.priorities = self._number("x-max-priority", 0)
        self.type = self._text("x-queue-type") or "classic"
        if self.type == "stream":
            raise Refusal(NOT_IMPLEMENTED, f"queue '{name}' in vhost '{router.name}': this broker has no streams")
        if self.type not in QUEUE_TYPES:
            raise self.invalid("x-queue-type", f"unsupported queue type '{self.type}'")
        limit = self._number("x-delivery-limit", DELIVERY_LIMIT)
        self.delivery_limit = limit if self.type == "quorum" and limit >= 0 else None
        self.dead_letter_exchange = self._text("x-dead-letter-exchange")
        self.dead_letter_key = self._text("x-dead-letter-routing-key")
        if self.dead_letter_key is not None and self.dead_letter_exchange is None:
            raise self.invalid("x-dead-letter-routing-key", "without x-dead-letter-exchange")
        overflow = self._text("x-overflow")
        if overflow not in (None, *OVERFLOWS):
            raise self.invalid("x-overflow", repr(overflow))
        limited = "x-max-length" in self.arguments or "x-max-length-bytes" in self.arguments
        self.dead_letters_refused = overflow == "reject-publish-dlx"
        self.rejects = overflow in ("reject-publish", "reject-publish-dlx") or (
            overflow is None and not limited and limits.overflow == "reject"
        )
        self._unused: asyncio.TimerHandle | None = None
        self.used()

    def _number(self, name: str, otherwise: int) -> int:
        if name not in self.arguments:
            return otherwise
        value = self.arguments[name]
        least, most = NUMBERS[name]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.invalid(name, f"{value!r}, expected an integer from {least} to {most}")
        return value

    def _text(self, name: str) -> str | None:
        value = self.arguments.get(name)
        if name in self.arguments and not isinstance(value, str):
            raise self.invalid(name, repr(value))
        return value

    def invalid(self, name: str, why: str) -> Refusal:
        """The refusal of an argument."""
        return Refusal(
            PRECONDITION, f"invalid arg '{name}' for queue '{self.name}' in vhost '{self.router.name}': {why}"
        )

    def check_same(self, durable: bool, auto_delete: bool, arguments: Mapping[str, Any]) -> None:
        """The queue is declared again. Raises Refusal if it is not the same (1.7.2.1, "equivalent")."""
        what = f"queue '{self.name}' in vhost '{self.router.name}'"
        check_equal(what, "durable", durable, self.durable)
        check_equal(what, "auto_delete", auto_delete, self.auto_delete)
        for name in COMPARED[self.type]:
            otherwise = "classic" if name == "x-queue-type" else None
            check_equal(what, name, arguments.get(name, otherwise), self.arguments.get(name, otherwise))

    def full_for(self, *messages: Published) -> bool:
        """Would the queue have to drop messages to take these?"""
        return (
            len(self._heap) + len(messages) > self.most
            or self.bytes + sum([published.size for published in messages]) > self.router.limits.queue_bytes
            or self.body_bytes + sum([published.body_size for published in messages]) > self.most_bytes
        )

    @property
    def count(self) -> int:
        """How many messages wait."""
        return len(self._heap)

    @property
    def messages(self) -> list[Item]:
        """What waits, in the order in which it will be delivered."""
        return [item for _, _, item in sorted(self._heap)]

    @property
    def _exceeds(self) -> bool:
        return (
            len(self._heap) > self.most
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

    def put(self, *items: Item) -> None:
        """Add messages that go the same way, in order. Those that are too much drop the oldest ones."""
        envelope = items[0].published.envelope
        ttl = envelope.ttl
        if self.ttl >= 0:
            ttl = self.ttl if ttl is None else min(ttl, self.ttl)
        priority = min(envelope.priority, self.priorities)
        for place, item in enumerate(items, self._place):
            item.priority = priority
            item.where = place
        self._place += len(items)
        waiting = items if self._heap else self._hand_over(items)
        for item in waiting:
            self._push(item)
        if self._heap:  # also what was dead-lettered to this queue meanwhile
            self.pump()
        if ttl is not None:  # after the pump: what a consumer takes at once has not expired, even with 0
            expires = self.router.now() + ttl / 1000
            for item in items:
                item.expires = expires
        while self._heap and self._exceeds:
            self.router.dead_letter(self, self._pop(), "maxlen")
        self._watch()

    def back(self, items: Iterable[Item]) -> None:
        """Messages that were delivered and are not acknowledged: to their old places. What is too much drops the oldest ones, as
        in `put`, unless the queue refuses what is too much."""
        for item in items:
            item.redelivered = True
            if self.type == "quorum":
                item.returns += 1
                if self.delivery_limit is not None and item.returns > self.delivery_limit:
                    self.router.dead_letter(self, item, "delivery_limit")
                    continue
            self._push(item)
        while not self.rejects and self._heap and self._exceeds:
            self.router.dead_letter(self, self._pop(), "maxlen")
        self.pump()
        self._watch()

    def take(self) -> Item | None:
        """The next message."""
        self.expire()
        return self._pop() if self._heap else None

    def untake(self, item: Item) -> None:
        """A message that was taken and not delivered: to its place."""
        self._push(item)
        self._watch()

    def expire(self) -> None:
        """Messages at the head whose time is over."""
        if not self._heap or self._heap[0][2].expires is None:
            return
        now = self.router.now()
        while self._heap and (expires := self._heap[0][2].expires) is not None and expires <= now:
            self.router.dead_letter(self, self._pop(), "expired")

    def purge(self) -> int:
        """Drop what waits. Returns how many there were."""
        count = len(self._heap)
        self._heap.clear()
        self.router.bytes -= self.bytes + count * ENTRY
        self.bytes = self.body_bytes = 0
        return count

    def pump(self) -> None:
        """Deliver what there is to consumers that have room: higher priorities first, others in turns."""
        if self._pumping or not self._ranks:
            return
        self._pumping = True
        try:
            while self._heap and (found := self._next()) is not None:
                consumer, most = found
                items: list[Item] = []
                size = 0
                while len(items) < most and size < TOGETHER_BYTES and (item := self.take()) is not None:
                    items.append(item)
                    size += item.published.size
                if not items:
                    return
                taken = self._give(consumer, items)
                if self.gone:
                    return
                for item in items[taken:]:
                    self._push(item)
        finally:
            self._pumping = False

    def _hand_over(self, items: Sequence[Item]) -> Sequence[Item]:
        """Deliver messages to consumers at once: nothing waits before them. Returns those that have to wait."""
        if self._pumping or not self._ranks:
            return items
        self._pumping = True
        at = 0
        try:
            while at < len(items) and (found := self._next()) is not None:
                consumer, most = found
                at += self._give(consumer, items[at : at + most])
                if self.gone:
                    return ()
            return items[at:]
        finally:
            self._pumping = False

    def _give(self, consumer: Consumer, items: Sequence[Item]) -> int:
        """Deliver messages, in order, to a consumer that has room for one. Returns how many are done with: those that it has
        taken, and those that are not for its protocol, which are dead letters."""
        at = given = 0
        while at < len(items):
            if at and (consumer not in self.consumers or consumer.room() <= 0):
                break  # if it is still there, `_next` lets it rest
            try:
                taken = consumer.deliver(self, items, at)
            except ConversionError:
                self.router.dead_letter(self, items[at], "rejected", unfit=True)
                at += 1
                continue
            if not taken:
                self._rest(consumer)
                break
            at += taken
            given += taken
        turns = self._able.get(consumer.priority)
        if given and turns is not None and len(turns) > 1 and consumer in turns:
            turns.move_to_end(consumer)
        return at

    def _next(self) -> tuple[Consumer, int] | None:
        """The consumer whose turn it is, and how many messages it may be given: one, if others wait for theirs. Those that have
        no room are not asked again until `wake`."""
        while self._ranks:
            turns = self._able[-self._ranks[0]]
            consumer = next(iter(turns))
            room = consumer.room()
            if room > 0:
                return consumer, min(room, TOGETHER) if len(turns) == 1 else 1
            self._rest(consumer)
        return None

    def _rest(self, consumer: Consumer) -> None:
        """Ask it no more."""
        turns = self._able.get(consumer.priority)
        if turns is not None and consumer in turns:
            del turns[consumer]
            if not turns:
                del self._able[consumer.priority]
                self._ranks.remove(-consumer.priority)

    def wake(self, consumer: Consumer) -> None:
        """A consumer may have room: deliver what there is. Each of them has to say so when it has had none."""
        if consumer not in self.consumers:
            return
        turns = self._able.get(consumer.priority)
        if turns is None:
            turns = self._able[consumer.priority] = OrderedDict()
            insort(self._ranks, -consumer.priority)
        turns[consumer] = None  # one that is there already keeps its turn
        if self._heap:
            self.pump()

    def insert(self, consumer: Consumer) -> None:
        """A new consumer, after those of its priority."""
        self.consumers[consumer] = None
        if self._unused is not None:
            self.used()
        self.wake(consumer)

    def check(self, consumer: Consumer) -> None:
        """Raises Refusal if the consumer must not be inserted."""
        first = next(iter(self.consumers), None)  # an exclusive one is alone
        if first is not None and (first.exclusive or consumer.exclusive):
            raise Refusal(ACCESS_REFUSED, f"queue '{self.name}' in vhost '{self.router.name}' in exclusive use")

    def leave(self, consumer: Consumer) -> None:
        """A consumer is gone. The last one takes a queue with auto-delete along."""
        if consumer in self.consumers:
            del self.consumers[consumer]
            self._rest(consumer)
            if self.auto_delete and not self.consumers and not self.gone:
                self.router.delete_queue(self)
            self.used()

    def _push(self, item: Item) -> None:
        heapq.heappush(self._heap, (-item.priority, item.where, item))
        self.body_bytes += item.published.body_size
        self.bytes += item.published.size
        self.router.bytes += item.published.size + ENTRY

    def _pop(self) -> Item:
        _, _, item = heapq.heappop(self._heap)
        self.body_bytes -= item.published.body_size
        self.bytes -= item.published.size
        self.router.bytes -= item.published.size + ENTRY
        return item

    def _watch(self) -> None:
        """Come back when the first message is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and self._heap[0][2].expires is not None and not self.gone:
            self._timer = asyncio.get_running_loop().call_at(self._heap[0][2].expires, self._due)

    def _due(self) -> None:
        self._timer = None
        self.expire()
        self._watch()

    def end(self) -> None:
        self.gone = True
        self.purge()
        self._able.clear()
        self._ranks.clear()
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

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def close(self) -> None:
        """Forget everything, and stop the timers."""
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


def check_equal(what: str, name: str, received: Any, current: Any) -> None:
    """Something is declared again, with a value that has to be the same. Integers of all sizes are one type (RabbitMQ)."""
    if type(received) is not type(current) or received != current:
        raise Refusal(
            PRECONDITION,
            f"inequivalent arg '{name}' for {what}: received {_value(received)} but current is {_value(current)}",
        )


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return f"'{str(value).lower() if isinstance(value, bool) else value}'"


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
