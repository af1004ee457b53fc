"""Exchanges, bindings and queues: the core that AMQP 0.9.1, AMQP 1.0 and MQTT share. It knows no connection.

What the specification leaves open is done as RabbitMQ does it. Sections are those of AMQP 0.9.1. Messages are those of
`wirefmt.broker.messages`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from wirefmt.amqp091.codes import ReplyCode
from wirefmt.broker.bindings import HOW_TO_MATCH, TABLES, Binding
from wirefmt.broker.history import History
from wirefmt.broker.limits import ENTRY, Limits, Refusal
from wirefmt.broker.messages import Envelope, Item, Published
from wirefmt.broker.queues import LOOKS_TOGETHER, Queue
from wirefmt.broker.shares import UNOWNED, Holder, Shares
from wirefmt.convert import Container
from wirefmt.errors import ConversionError

#: Copies of messages that are made together, at most, or one message.
TOGETHER_COPIES: Final = 4096

#: Copies that dead-lettering may make of a message without a client's doing, or as many as there may be queues. Queues that
#: dead-letter to each other through a fanout exchange make more than they are by orders.
COPIES: Final = 1000

#: What each key of a message costs in an exchange (`Limits.steps`), and steps that are as much as the work of one copy.
STEPS_OF_KEY: Final = 30
STEPS_OF_WORK: Final = 64

#: Dead letters, and copies that they become, that are made before the event loop goes on; the rest waits for its next iteration.
LETTERS: Final = 1000
LETTER: Final = 8

#: Exchanges that every router has.
PREDECLARED: Final = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}


class Sink(Protocol):
    """A destination of an exchange that no binding names: the subscriptions of MQTT."""

    def wants(self, routing_key: str) -> bool: ...

    def put(self, item: Item) -> None: ...


class Exchange:
    """An exchange and what is bound to it.

    Attributes:
        bindings: their arguments. `Router.bind` and `Router.unbind` change them.
        holder: who has made it.
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
        holder: Holder = UNOWNED,
    ) -> None:
        self.name = name
        self.holder = holder
        self.type = type
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = dict(arguments or {})
        self.alternate: str | None = self.arguments.get("alternate-exchange")
        if self.alternate is not None and not isinstance(self.alternate, str):
            raise Refusal(
                ReplyCode.PRECONDITION_FAILED,
                f"invalid arg 'alternate-exchange' for exchange '{name}': {self.alternate!r}",
            )
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

    @property
    def cost(self) -> int:
        """What its bindings cost a message: see `Limits.steps`."""
        return self._table.cost

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
        shares: its bytes are those of all messages in queues and in open transactions, with ENTRY for each.
        work: what routing and dead-lettering have cost so far: copies of messages, and what has been looked at for them. Hosts
            tell their drivers (`Driver.spend`).
        unroutable: messages that no queue was bound for.
        unrouted: the last of them.
        unconvertible: messages whose headers AMQP 0.9.1 cannot have, for which a headers exchange has seen none.
    """

    def __init__(self, limits: Limits | None = None, name: str = "/") -> None:
        self.limits = limits or Limits()
        self.name = name
        self.exchanges = {exchange: Exchange(exchange, kind, durable=True) for exchange, kind in PREDECLARED.items()}
        self.queues: dict[str, Queue] = {}
        self.shares = Shares(self.limits.client_share, self.limits.user_share)
        self.unroutable = 0
        self.unrouted: History[Published] = History()
        self.unconvertible = 0
        self.replies: dict[str, Sink] = {}
        # by destination: whose each binding is, and what it costs
        self._bound: dict[Any, dict[tuple[Exchange, Binding], tuple[Holder, int]]] = {}
        self._bindings = 0
        self._owned: dict[object, dict[Queue, None]] = {}  # exclusive queues by their owners
        self._dead: deque[tuple[Queue, Item, str, bool]] = deque()  # to be dead-lettered; they count
        self._dead_lettering = False
        self._letters = LETTERS  # left until the loop goes on
        self._pause: asyncio.Handle | None = None  # dead-lettering goes on after it
        self.work = 0
        self.looks = LOOKS_TOGETHER  # for this iteration
        self._looking: dict[Queue, None] = {}  # queues that wait for the next one
        self._next_looks: asyncio.Handle | None = None

    def count(self, published: Published) -> None:
        """Count a message that waits in a queue or a transaction."""
        self.shares.keep(published.envelope.holder, published.cost + ENTRY)

    def discount(self, published: Published) -> None:
        """Undo `count`: the message no longer waits."""
        self.shares.keep(published.envelope.holder, -published.cost - ENTRY)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def looked(self, work: int) -> None:
        """A consumer with a filter has looked at a message."""
        self.looks -= work
        self._arm()

    def look_later(self, queue: Queue) -> None:
        """Consumers with filters continue their search of the queue in the next iteration of the event loop."""
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
            queue.holder.count("queues", -1)
        self.queues.clear()
        self._owned.clear()
        for exchange in list(self.exchanges.values()):
            for binding in list(exchange.bindings):
                self._remove(exchange, binding)
            if exchange.name not in PREDECLARED:
                self._drop_exchange(exchange)
        for _, item, _, _ in self._dead:
            self.discount(item.published)
        self._dead.clear()
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self._letters = LETTERS
        self.replies.clear()
        self.unroutable = self.unconvertible = 0
        self.unrouted.clear()

    def exchange(self, name: str) -> Exchange:
        try:
            return self.exchanges[name]
        except KeyError:
            raise Refusal(ReplyCode.NOT_FOUND, f"no exchange '{name}' in vhost '{self.name}'") from None

    def queue(self, name: str, user: object) -> Queue:
        """A queue, for a connection that may use it."""
        queue = self.queues.get(name)
        if queue is None:
            raise Refusal(ReplyCode.NOT_FOUND, f"no queue '{name}' in vhost '{self.name}'")
        if queue.owner is not None and queue.owner is not user:
            raise Refusal(
                ReplyCode.RESOURCE_LOCKED,
                f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}'",
            )
        queue.used()
        return queue

    def make_queue(self, name: str, arguments: Mapping[str, Any] | None = None, **fields: Any) -> Queue:
        """A new queue."""
        if len(self.queues) >= self.limits.queues:
            raise Refusal(ReplyCode.PRECONDITION_FAILED, f"there are {len(self.queues)} queues in vhost '{self.name}'")
        self._check_share(fields.get("holder", UNOWNED), "queues")
        queue = self.queues[name] = Queue(self, name, arguments, **fields)
        queue.holder.count("queues")
        if queue.owner is not None:
            self._owned.setdefault(queue.owner, {})[queue] = None
        return queue

    def make_exchange(self, name: str, type: str, *, holder: Holder = UNOWNED, **fields: Any) -> Exchange:
        """A new exchange. `fields`: as of `Exchange`."""
        if len(self.exchanges) >= self.limits.exchanges:
            raise Refusal(
                ReplyCode.PRECONDITION_FAILED, f"there are {len(self.exchanges)} exchanges in vhost '{self.name}'"
            )
        self._check_share(holder, "exchanges")
        exchange = self.exchanges[name] = Exchange(name, type, holder=holder, **fields)
        holder.count("exchanges")
        return exchange

    def _check_share(self, holder: Holder, kind: str, more: int = 1) -> None:
        """Raises Refusal if a client or its user has its share of something."""
        whose = self.shares.lacks(holder, kind, getattr(self.limits, kind), more)
        if whose is not None:
            raise Refusal(
                ReplyCode.PRECONDITION_FAILED, f"the {whose} has its share of the {kind} in vhost '{self.name}'"
            )

    # ---- messages

    def route(
        self, exchange: Exchange, *messages: Published, besides: Sink | None = None, quiet: bool = False
    ) -> list[Any]:
        """Queues and sinks of messages that go the same way, each once. `besides`: one that has them already. `quiet`: no
        observer is called and nothing is counted: the messages are not published yet.

        Raises ConversionError if RabbitMQ would refuse the messages, and Refusal if they cost too much (`Limits.steps`).
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
        steps = 0
        while waiting:
            one = waiting.pop()
            destinations: list[Any] = []
            steps += (STEPS_OF_KEY + one.cost) * len(keys)
            if steps > 2 * self.limits.steps:
                raise Refusal(
                    ReplyCode.PRECONDITION_FAILED, "the message has too many keys, or goes through too many exchanges"
                )
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
        self.work += steps // STEPS_OF_WORK
        if not quiet:
            self.unconvertible += published.unconvertible * len(messages)
        found.pop(besides, None)
        return list(found)

    def note_unroutable(self, *messages: Published) -> None:
        """No queue was bound for these."""
        self.unroutable += len(messages)
        if self.unrouted.most:
            for published in messages:
                self.unrouted.add(published, published.cost)

    def takes(self, destinations: list[Any], *messages: Published) -> bool:
        """Do all destinations accept these messages together? If not, `refuses` decides for each message."""
        if self._exceeds(destinations, *messages):
            return False
        return not any(
            isinstance(queue, Queue) and queue.rejects and queue.full_for(*messages) for queue in destinations
        )

    def _exceeds(self, destinations: list[Any], *messages: Published) -> bool:
        """Do the bytes of all queues exceed `Limits.memory`?"""
        more = 0
        for published in messages:
            more += (published.cost + ENTRY) * len(destinations)
        return not self.shares.fits(messages[0].envelope.holder, self.limits.memory, more)

    def refuses(self, destinations: list[Any], published: Published) -> bool:
        """Remove from the destinations those that refuse the message: queues that are full and do not drop older messages, or
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
        """Send a message that has expired, was rejected or exceeded a limit to the queue's dead-letter exchange.

        Args:
            unfit: it was not a client that rejected it: it cannot be delivered to one.
        """
        if queue.dead_letter_exchange is None:
            queue.dropped += 1
            return
        self._dead.append((queue, item, reason, unfit))
        self.count(item.published)
        if not self._dead_lettering and self._pause is None:  # further deaths on the way wait for their turn
            self._dead_letter_all()

    def _dead_letter_all(self) -> None:
        """Publish the dead letters that wait, as many as one iteration of the event loop may take."""
        self._dead_lettering = True
        try:
            while self._dead:
                if self._letters <= 0:
                    self._pause = asyncio.get_running_loop().call_soon(self._after_pause)
                    return
                queue, item, reason, unfit = self._dead.popleft()
                self.discount(item.published)
                before = self.work
                self._dead_letter(queue, item, reason, unfit)
                self.work += LETTER
                self._letters -= self.work - before
        finally:
            self._dead_lettering = False

    def _after_pause(self) -> None:
        self._pause, self._letters = None, LETTERS
        self._dead_letter_all()

    def _dead_letter(self, queue: Queue, item: Item, reason: str, unfit: bool) -> None:
        exchange = self.exchanges.get(queue.dead_letter_exchange or "")
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
                published.envelope.holder,
            )
            letter = Published(envelope, container.body, container)
            targets = self.route(exchange, letter)
        except (ConversionError, Refusal):
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
                self.work += 1
                target.put(Item(letter))

    # ---- bindings

    def bind(
        self, exchange: Exchange, binding: Binding, arguments: Mapping[str, Any], holder: Holder = UNOWNED
    ) -> None:
        """Bind a destination, if it is not bound like this already. `holder`: who does it."""
        if binding in exchange.bindings:
            return
        if exchange.type == "headers" and arguments.get("x-match", "all") not in HOW_TO_MATCH:
            raise Refusal(
                ReplyCode.PRECONDITION_FAILED,
                f"invalid x-match {arguments['x-match']!r}, expected {', '.join(HOW_TO_MATCH)}",
            )
        if self._bindings >= self.limits.bindings:
            raise Refusal(ReplyCode.PRECONDITION_FAILED, "too many bindings")
        self._check_share(holder, "bindings")
        before = exchange.cost
        exchange.add(binding, arguments)
        cost = exchange.cost - before
        try:
            if exchange.cost > self.limits.steps:
                raise Refusal(
                    ReplyCode.PRECONDITION_FAILED,
                    f"the bindings of exchange '{exchange.name}' have too many arguments or patterns",
                )
            self._check_share(holder, "steps", cost)
        except Refusal:
            exchange.remove(binding)
            raise
        self._bound.setdefault(binding[0], {})[exchange, binding] = (holder, cost)
        holder.count("bindings")
        holder.count("steps", cost)
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
        holder, cost = bound.pop((exchange, binding))
        holder.count("bindings", -1)
        holder.count("steps", -cost)
        if not bound:
            del self._bound[binding[0]]

    def _unbind_all(self, destination: Any) -> None:
        """Remove the bindings of what has been deleted. An exchange with auto-delete goes with its last binding."""
        deleted = [destination]
        while deleted:
            for exchange, binding in list(self._bound.get(deleted.pop(), ())):
                self._remove(exchange, binding)
                if exchange.auto_delete and not exchange.bindings and self._drop_exchange(exchange):
                    deleted.append(exchange)

    def _drop_exchange(self, exchange: Exchange) -> bool:
        if self.exchanges.pop(exchange.name, None) is None:
            return False
        exchange.holder.count("exchanges", -1)
        return True

    def delete_exchange(self, exchange: Exchange) -> None:
        self._drop_exchange(exchange)
        for binding in list(exchange.bindings):
            self._remove(exchange, binding)
        self._unbind_all(exchange)

    def delete_queue(self, queue: Queue) -> None:
        if self.queues.pop(queue.name, None) is not None:
            queue.holder.count("queues", -1)
        if queue.owner is not None:
            self._owned.get(queue.owner, {}).pop(queue, None)
        queue.end()
        self._unbind_all(queue)
        consumers, queue.consumers = queue.consumers, {}
        for consumer in consumers:
            consumer.cancelled(queue)

    def release(self, owner: object) -> None:
        """A connection has ended: delete its exclusive queues."""
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
