"""An AMQP 0.9.1 broker in memory: a host for `amqp091.serve`, bounded by its options.

It keeps exchanges (direct, fanout, topic, headers, the default one), bindings, queues and messages, and does what RabbitMQ does
where the specification is silent.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Any, Final, Literal

from wirefmt import amqp091
from wirefmt.amqp091.channels import ServerChannel
from wirefmt.amqp091.events import (
    ACCESS_REFUSED,
    LOCKED,
    NOT_ALLOWED,
    NOT_FOUND,
    PRECONDITION,
    ChannelClosed,
    ChannelOpened,
    Event,
    Settled,
)
from wirefmt.amqp091.server import Peer
from wirefmt.amqp091.states import ChannelState
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import LocalProtocolError, RemoteProtocolError

TYPES: Final = ("direct", "fanout", "topic", "headers")

#: Exchanges that every virtual host has.
PREDECLARED: Final = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """What the broker allows, and what bounds its memory.

    Attributes:
        users: passwords by user name.
        virtual_hosts: their names.
        exchanges, queues, bindings: how many there may be in a virtual host.
        queue_messages, queue_bytes: messages, and bytes of their bodies, that wait in one queue.
        overflow: what happens to a message for a queue that is full: "reject": basic.nack on a channel in confirm mode, on others
            it is dropped and counted. "drop": the oldest message of the queue is dropped, or dead-lettered. A queue's x-overflow
            comes first.
    """

    users: Mapping[str, str] = field(default_factory=lambda: {"guest": "guest"})
    virtual_hosts: frozenset[str] = frozenset(("/",))
    exchanges: int = 10_000
    queues: int = 10_000
    bindings: int = 100_000
    queue_messages: int = 100_000
    queue_bytes: int = 1 << 28
    overflow: Literal["reject", "drop"] = "reject"


class Refusal(Exception):
    """A request is refused with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Item:
    """A message in a queue."""

    __slots__ = (
        "body",
        "deaths",
        "exchange",
        "expires",
        "priority",
        "properties",
        "redelivered",
        "routing_key",
        "where",
    )

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        properties: amqp091.BasicProperties,
        body: bytes,
        deaths: tuple[str, ...] = (),
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.properties = properties
        self.body = body
        self.redelivered = False
        self.expires: float | None = None
        self.priority = 0
        self.where = 0  # its place in the queue
        self.deaths = deaths  # queues that have dead-lettered it

    def __lt__(self, other: Item) -> bool:
        return (-self.priority, self.where) < (-other.priority, other.where)


@dataclass(slots=True, eq=False)
class Exchange:
    """An exchange and what is bound to it: destination, routing key, arguments."""

    name: str
    type: str
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    bindings: dict[tuple[Any, str, bytes], dict[str, Any]] = field(default_factory=dict)

    def matching(self, routing_key: str, headers: Mapping[Any, Any]) -> Iterable[Any]:
        """Queues and exchanges that a message goes to."""
        for (destination, key, _), arguments in self.bindings.items():
            if (
                self.type == "fanout"
                or (self.type == "direct" and key == routing_key)
                or (self.type == "topic" and topic_matches(key, routing_key))
                or (self.type == "headers" and headers_match(arguments, headers))
            ):
                yield destination


@dataclass(slots=True, eq=False)
class Subscriber:
    """A consumer of a queue."""

    peer: Peer
    channel: int
    tag: str
    exclusive: bool
    priority: int

    def room(self) -> int:
        channel = self.peer.connection.channels.get(self.channel)
        return channel.room(self.tag) if channel is not None and self.peer.ready else 0


class Queue:
    """A queue: messages by priority and place, and its consumers."""

    def __init__(self, host: VirtualHost, declare: amqp091.QueueDeclare, name: str, owner: Peer | None) -> None:
        self.host = host
        self.name = name
        self.durable = declare.durable
        self.exclusive = declare.exclusive
        self.auto_delete = declare.auto_delete
        self.owner = owner
        self.arguments = {str(k): v for k, v in declare.arguments.items()}
        self.messages: list[Item] = []  # a heap
        self.bytes = 0
        self.subscribers: list[Subscriber] = []
        self.gone = False
        self._places = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._pumping = False
        options = host.broker.options
        self.most = min(self.number("x-max-length", options.queue_messages), options.queue_messages)
        self.most_bytes = min(self.number("x-max-length-bytes", options.queue_bytes), options.queue_bytes)
        self.ttl = self.number("x-message-ttl", -1)
        self.priorities = self.number("x-max-priority", 0)
        overflow = self.arguments.get("x-overflow")
        limited = "x-max-length" in self.arguments or "x-max-length-bytes" in self.arguments
        self.rejects = overflow in ("reject-publish", "reject-publish-dlx") or (
            overflow is None and not limited and options.overflow == "reject"
        )

    def number(self, name: str, otherwise: int) -> int:
        value = self.arguments.get(name, otherwise)
        if not isinstance(value, int) or (name in self.arguments and value < 0):
            raise Refusal(PRECONDITION, f"invalid arg '{name}' for queue '{self.name}': {value!r}")
        return value

    def full_for(self, size: int) -> bool:
        return len(self.messages) >= self.most or self.bytes + size > self.most_bytes

    def put(self, item: Item) -> None:
        """Add a message. One that is too much drops the oldest ones."""
        properties = item.properties
        ttl = self.ttl
        if properties.expiration is not None:
            own = int(properties.expiration)
            ttl = own if ttl < 0 else min(ttl, own)
        if ttl >= 0:
            item.expires = self.host.broker.now() + ttl / 1000
        item.priority = min(properties.priority or 0, self.priorities)
        item.where = next(self._places)
        self._push(item)
        self.pump()
        while self.messages and (len(self.messages) > self.most or self.bytes > self.most_bytes):
            self.host.dead_letter(self, self._pop(), "maxlen")
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
        now = self.host.broker.now()
        while self.messages and (expires := self.messages[0].expires) is not None and expires <= now:
            self.host.dead_letter(self, self._pop(), "expired")

    def pump(self) -> None:
        """Deliver what there is to consumers that have room: higher priorities first, others in turns."""
        if self._pumping or not self.subscribers:
            return
        self._pumping = True
        try:
            while self.messages:
                subscriber = next((s for s in self.subscribers if s.room() > 0), None)
                if subscriber is None:
                    return
                item = self.take()
                if item is None:
                    return
                peer = subscriber.peer
                try:
                    peer.connection.channels[subscriber.channel].deliver(
                        subscriber.tag,
                        item.exchange,
                        item.routing_key,
                        item.body,
                        item.properties,
                        redelivered=item.redelivered,
                        context=(self, item),
                    )
                except LocalProtocolError:
                    self._push(item)
                    return
                peer.driver.update()
                self.subscribers.remove(subscriber)
                self.insert(subscriber)
        finally:
            self._pumping = False

    def insert(self, subscriber: Subscriber) -> None:
        """Behind those of its priority."""
        at = next(
            (k for k, s in enumerate(self.subscribers) if s.priority < subscriber.priority), len(self.subscribers)
        )
        self.subscribers.insert(at, subscriber)

    def _push(self, item: Item) -> None:
        heapq.heappush(self.messages, item)
        self.bytes += len(item.body)

    def _pop(self) -> Item:
        item = heapq.heappop(self.messages)
        self.bytes -= len(item.body)
        return item

    def _watch(self) -> None:
        """Come back when the first message is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.messages and self.messages[0].expires is not None and not self.gone:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self.messages[0].expires, self._due)

    def _due(self) -> None:
        self._timer = None
        self.expire()
        self._watch()

    def end(self) -> None:
        self.gone = True
        self.messages.clear()
        self.bytes = 0
        if self._timer is not None:
            self._timer.cancel()


class VirtualHost:
    """Exchanges and queues of one virtual host."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.exchanges = {exchange: Exchange(exchange, kind, durable=True) for exchange, kind in PREDECLARED.items()}
        self.queues: dict[str, Queue] = {}

    def exchange(self, name: str) -> Exchange:
        try:
            return self.exchanges[name]
        except KeyError:
            raise Refusal(NOT_FOUND, f"no exchange '{name}' in vhost '{self.name}'") from None

    def queue(self, name: str, peer: Peer) -> Queue:
        queue = self.queues.get(name)
        if queue is None:
            raise Refusal(NOT_FOUND, f"no queue '{name}' in vhost '{self.name}'")
        if queue.owner is not None and queue.owner is not peer:
            raise Refusal(LOCKED, f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}'")
        return queue

    def route(self, exchange: Exchange, routing_key: str, headers: Mapping[Any, Any]) -> list[Queue]:
        """Queues of a message, each once."""
        if exchange.name == "":
            queue = self.queues.get(routing_key)
            return [queue] if queue is not None else []
        found: dict[Queue, None] = {}
        seen = {exchange.name}
        waiting = [exchange]
        while waiting:
            one = waiting.pop()
            destinations = list(one.matching(routing_key, headers))
            other = one.arguments.get("alternate-exchange")
            if not destinations and other in self.exchanges:
                destinations = [self.exchanges[other]]
            for destination in destinations:
                if isinstance(destination, Queue):
                    found[destination] = None
                elif destination.name not in seen:
                    seen.add(destination.name)
                    waiting.append(destination)
        return list(found)

    def dead_letter(self, queue: Queue, item: Item, reason: str) -> None:
        """A message that has expired, was rejected, or was too much: to the queue's dead letter exchange."""
        exchange = self.exchanges.get(queue.arguments.get("x-dead-letter-exchange", object()))
        if exchange is None or queue.name in item.deaths:
            return  # a cycle drops it
        routing_key = str(queue.arguments.get("x-dead-letter-routing-key", item.routing_key))
        headers = {str(k): v for k, v in (item.properties.headers or {}).items()}
        death = {
            "count": 1,
            "reason": reason,
            "queue": queue.name,
            "exchange": item.exchange,
            "routing-keys": [item.routing_key],
        }
        before = headers.get("x-death")
        headers["x-death"] = [death, *(before if before is not None else ())]
        headers.setdefault("x-first-death-reason", reason)
        headers.setdefault("x-first-death-queue", queue.name)
        headers.setdefault("x-first-death-exchange", item.exchange)
        properties = changed(item.properties, headers=headers, expiration=None)
        for target in self.route(exchange, routing_key, headers):
            if not (target.rejects and target.full_for(len(item.body))):
                deaths = (*item.deaths, queue.name) if reason != "rejected" else ()
                target.put(Item(exchange.name, routing_key, properties, item.body, deaths))

    def unbind_all(self, destination: Any) -> None:
        for exchange in list(self.exchanges.values()):
            for key in [k for k in exchange.bindings if k[0] is destination]:
                self.unbind(exchange, key)

    def unbind(self, exchange: Exchange, key: tuple[Any, str, bytes]) -> None:
        if exchange.bindings.pop(key, None) is not None and exchange.auto_delete and not exchange.bindings:
            self.delete_exchange(exchange)

    def bind(self, exchange: Exchange, key: tuple[Any, str, bytes], arguments: dict[str, Any]) -> None:
        if key not in exchange.bindings:
            if sum(len(e.bindings) for e in self.exchanges.values()) >= self.broker.options.bindings:
                raise Refusal(PRECONDITION, "too many bindings")
            exchange.bindings[key] = arguments

    def delete_exchange(self, exchange: Exchange) -> None:
        self.exchanges.pop(exchange.name, None)
        self.unbind_all(exchange)

    def delete_queue(self, queue: Queue) -> int:
        count = len(queue.messages)
        self.queues.pop(queue.name, None)
        queue.end()
        self.unbind_all(queue)
        subscribers, queue.subscribers = queue.subscribers, []
        for subscriber in subscribers:
            self.broker.session(subscriber.peer).subscriptions.pop((subscriber.channel, subscriber.tag), None)
            channel = subscriber.peer.connection.channels.get(subscriber.channel)
            if channel is not None and subscriber.tag in channel.consumers:
                try:
                    channel.cancel(subscriber.tag)
                    subscriber.peer.driver.update()
                except LocalProtocolError:
                    pass  # its connection is closing
        return count


class Session:
    """What the broker knows of one client."""

    def __init__(self) -> None:
        self.user = ""
        self.host: VirtualHost | None = None
        self.subscriptions: dict[tuple[int, str], Queue] = {}
        self.transactions: dict[int, list[amqp091.BasicMessage]] = {}
        self.views: dict[int, ServerChannel] = {}  # as far as events have been handled


class Broker:
    """The handler of `amqp091.serve`: `await amqp091.serve(Broker(), "127.0.0.1", 5672)`.

    Attributes:
        options: what it allows.
        hosts: virtual hosts by name.
        dropped: messages that were dropped since a queue was full and no one could be told.
        unroutable: messages that no queue was bound for.

    Args:
        options: what it allows.
        random: for names of queues; None: the system's.
    """

    def __init__(self, options: BrokerOptions | None = None, *, random: Random | None = None) -> None:
        self.options = options or BrokerOptions()
        self.hosts = {name: VirtualHost(self, name) for name in self.options.virtual_hosts}
        self.dropped = 0
        self.unroutable = 0
        self._random = random or SystemRandom()
        self._sessions: dict[Peer, Session] = {}

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def session(self, peer: Peer) -> Session:
        return self._sessions.setdefault(peer, Session())

    def close(self) -> None:
        """Stop all timers. What is queued is gone."""
        for host in self.hosts.values():
            for queue in host.queues.values():
                queue.end()

    # ---- called by the server

    def handle(self, peer: Peer, event: Event) -> None:
        action = self._actions.get(type(event))
        if action is None:
            return
        if isinstance(event, amqp091.Method | amqp091.BasicMessage) and event.channel:
            view = self.session(peer).views.get(event.channel)
            if view is None or view.state is ChannelState.CLOSING:
                return  # its channel was closed by the answer to an event before it
        try:
            action(self, peer, event)
        except Refusal as refusal:
            peer.refuse(event, refusal.code, refusal.reason)

    def writable(self, peer: Peer) -> None:
        for queue in list(self.session(peer).subscriptions.values()):
            queue.pump()

    def closed(self, peer: Peer) -> None:
        self._sessions.pop(peer, None)

    # ---- the connection

    def _start(self, peer: Peer, event: amqp091.ConnectionStartOk) -> None:
        try:
            user, password = amqp091.credentials(event)
        except RemoteProtocolError:
            peer.refuse(event)
            return
        if self.options.users.get(user) != password:
            peer.refuse(
                event,
                ACCESS_REFUSED,
                f"Login was refused using authentication mechanism {event.mechanism!s}.",
            )
            return
        self.session(peer).user = user
        peer.accept(event)

    def _open(self, peer: Peer, event: amqp091.ConnectionOpen) -> None:
        host = self.hosts.get(str(event.virtual_host))
        if host is None:
            peer.refuse(event, NOT_ALLOWED, f"vhost {event.virtual_host!s} not found")
            return
        self.session(peer).host = host
        peer.accept(event)

    def _secret(self, peer: Peer, event: amqp091.ConnectionUpdateSecret) -> None:
        peer.accept(event)

    def _disconnected(self, peer: Peer, event: Disconnected) -> None:
        session = self.session(peer)
        for (channel, tag), queue in list(session.subscriptions.items()):
            self._leave(peer, channel, tag, queue)
        session.subscriptions.clear()
        self._requeue(event.lost)
        if session.host is not None:
            for queue in list(session.host.queues.values()):
                if queue.owner is peer:
                    session.host.delete_queue(queue)

    def _channel_closed(self, peer: Peer, event: ChannelClosed) -> None:
        session = self.session(peer)
        session.transactions.pop(event.channel, None)
        session.views.pop(event.channel, None)
        self._requeue(event.lost)
        for consumer in event.consumers:
            queue = session.subscriptions.pop((event.channel, consumer.tag), None)
            if queue is not None:
                self._leave(peer, event.channel, consumer.tag, queue)

    def _channel_opened(self, peer: Peer, event: ChannelOpened) -> None:
        self.session(peer).views[event.channel] = event.view

    def _leave(self, peer: Peer, channel: int, tag: str, queue: Queue) -> None:
        """A consumer is gone."""
        queue.subscribers = [s for s in queue.subscribers if s.peer is not peer or s.channel != channel or s.tag != tag]
        if queue.auto_delete and not queue.subscribers and not queue.gone:
            queue.host.delete_queue(queue)

    def _requeue(self, deliveries: Iterable[Any]) -> None:
        back: dict[Queue, list[Item]] = {}
        for delivery in deliveries:
            queue, item = delivery.context
            if not queue.gone:
                back.setdefault(queue, []).append(item)
        for queue, items in back.items():
            queue.back(items)

    # ---- exchanges and queues

    def _host(self, peer: Peer) -> VirtualHost:
        host = self.session(peer).host
        assert host is not None
        return host

    def _declare_exchange(self, peer: Peer, event: amqp091.ExchangeDeclare) -> None:
        host, name = self._host(peer), str(event.exchange)
        known = host.exchanges.get(name)
        if event.passive:
            host.exchange(name)
        elif name == "":
            raise Refusal(ACCESS_REFUSED, "operation not permitted on the default exchange")
        elif known is not None:
            for what in ("type", "durable", "auto_delete", "internal"):
                if getattr(known, what) != getattr(event, what):
                    raise Refusal(
                        PRECONDITION,
                        f"inequivalent arg '{what}' for exchange '{name}' in vhost '{host.name}': "
                        f"received '{getattr(event, what)}' but current is '{getattr(known, what)}'",
                    )
        elif event.type not in TYPES:
            raise Refusal(PRECONDITION, f"unknown exchange type '{event.type!s}'")
        elif name.startswith("amq."):
            raise Refusal(ACCESS_REFUSED, f"exchange name '{name}' contains reserved prefix 'amq.*'")
        elif len(host.exchanges) >= self.options.exchanges:
            raise Refusal(PRECONDITION, "too many exchanges")
        else:
            arguments = {str(k): v for k, v in event.arguments.items()}
            host.exchanges[name] = Exchange(
                name, str(event.type), event.durable, event.auto_delete, event.internal, arguments
            )
        peer.reply(event)

    def _delete_exchange(self, peer: Peer, event: amqp091.ExchangeDelete) -> None:
        host, name = self._host(peer), str(event.exchange)
        if name in PREDECLARED:
            raise Refusal(ACCESS_REFUSED, f"operation not permitted on exchange '{name}'")
        exchange = host.exchanges.get(name)
        if exchange is not None:
            if event.if_unused and exchange.bindings:
                raise Refusal(PRECONDITION, f"exchange '{name}' in vhost '{host.name}' in use")
            host.delete_exchange(exchange)
        peer.reply(event)

    def _bind_exchange(self, peer: Peer, event: amqp091.ExchangeBind | amqp091.ExchangeUnbind) -> None:
        host = self._host(peer)
        if event.source == "" or event.destination == "":
            raise Refusal(ACCESS_REFUSED, "operation not permitted on the default exchange")
        arguments = {str(k): v for k, v in event.arguments.items()}
        if isinstance(event, amqp091.ExchangeBind):
            source, destination = host.exchange(str(event.source)), host.exchange(str(event.destination))
            host.bind(source, (destination, str(event.routing_key), event.arguments.encode()), arguments)
        elif str(event.source) in host.exchanges and str(event.destination) in host.exchanges:
            key = (host.exchanges[str(event.destination)], str(event.routing_key), event.arguments.encode())
            host.unbind(host.exchanges[str(event.source)], key)
        peer.reply(event)

    def _declare_queue(self, peer: Peer, event: amqp091.QueueDeclare) -> None:
        host = self._host(peer)
        name = str(event.queue)
        if event.passive:
            queue = host.queue(name or self.session(peer).views[event.channel].queue, peer)
        elif name in host.queues:
            queue = host.queue(name, peer)
            arguments = {str(k): v for k, v in event.arguments.items()}
            for what, have in (
                ("durable", event.durable),
                ("exclusive", event.exclusive),
                ("auto_delete", event.auto_delete),
                ("arguments", arguments),
            ):
                if getattr(queue, what) != have:
                    raise Refusal(
                        PRECONDITION,
                        f"inequivalent arg '{what}' for queue '{name}' in vhost '{host.name}': "
                        f"received '{have}' but current is '{getattr(queue, what)}'",
                    )
        elif name.startswith("amq."):
            raise Refusal(ACCESS_REFUSED, f"queue name '{name}' contains reserved prefix 'amq.*'")
        elif len(host.queues) >= self.options.queues:
            raise Refusal(PRECONDITION, "too many queues")
        else:
            name = name or f"amq.gen-{self._random.getrandbits(128):032x}"
            queue = Queue(host, event, name, peer if event.exclusive else None)
            host.queues[name] = queue
        peer.reply(event, queue=queue.name, message_count=len(queue.messages), consumer_count=len(queue.subscribers))

    def _bind_queue(self, peer: Peer, event: amqp091.QueueBind | amqp091.QueueUnbind) -> None:
        host, channel = self._host(peer), self.session(peer).views[event.channel]
        name, routing_key = channel.named(event.queue), str(event.routing_key)
        if not event.queue and not routing_key:
            routing_key = name
        if event.exchange == "":
            raise Refusal(ACCESS_REFUSED, "operation not permitted on the default exchange")
        if isinstance(event, amqp091.QueueBind):
            exchange, queue = host.exchange(str(event.exchange)), host.queue(name, peer)
            arguments = {str(k): v for k, v in event.arguments.items()}
            host.bind(exchange, (queue, routing_key, event.arguments.encode()), arguments)
        elif name in host.queues and str(event.exchange) in host.exchanges:
            queue = host.queue(name, peer)
            host.unbind(host.exchanges[str(event.exchange)], (queue, routing_key, event.arguments.encode()))
        peer.reply(event)

    def _purge(self, peer: Peer, event: amqp091.QueuePurge) -> None:
        queue = self._host(peer).queue(self.session(peer).views[event.channel].named(event.queue), peer)
        count = len(queue.messages)
        queue.messages.clear()
        queue.bytes = 0
        peer.reply(event, message_count=count)

    def _delete_queue(self, peer: Peer, event: amqp091.QueueDelete) -> None:
        host, name = self._host(peer), self.session(peer).views[event.channel].named(event.queue)
        count = 0
        if name in host.queues:
            queue = host.queue(name, peer)
            if event.if_unused and queue.subscribers:
                raise Refusal(PRECONDITION, f"queue '{name}' in vhost '{host.name}' in use")
            if event.if_empty and queue.messages:
                raise Refusal(PRECONDITION, f"queue '{name}' in vhost '{host.name}' not empty")
            count = len(queue.messages)
            peer.reply(event, message_count=count)  # delete-ok comes before the end of consumers
            host.delete_queue(queue)
            return
        peer.reply(event, message_count=count)

    # ---- messages

    def _publish(self, peer: Peer, event: amqp091.BasicMessage) -> None:
        host, method, properties = self._host(peer), event.method, event.properties
        exchange = host.exchange(str(method.exchange))
        if exchange.internal:
            raise Refusal(ACCESS_REFUSED, f"cannot publish to internal exchange '{exchange.name}'")
        session = self.session(peer)
        if properties.user_id is not None and properties.user_id != session.user:
            raise Refusal(
                PRECONDITION,
                f"user_id property set to '{properties.user_id!s}' but authenticated user was '{session.user}'",
            )
        if properties.expiration is not None and not str(properties.expiration).isdecimal():
            raise Refusal(PRECONDITION, f"invalid expiration '{properties.expiration!s}'")
        if self.session(peer).views[event.channel].mode == "tx":
            session.transactions.setdefault(event.channel, []).append(event)
        else:
            self._deliver(peer, event)

    def _deliver(self, peer: Peer, event: amqp091.BasicMessage) -> None:
        host, method, properties = self._host(peer), event.method, event.properties
        channel = self.session(peer).views[event.channel]
        exchange = host.exchanges.get(str(method.exchange))
        queues = host.route(exchange, str(method.routing_key), properties.headers or {}) if exchange is not None else []
        if not queues:
            self.unroutable += 1
            if method.mandatory:
                peer.return_message(event)  # before its confirm
        body = event.body_bytes()
        taken = True
        for queue in queues:
            if queue.rejects and queue.full_for(len(body)):
                taken = False
        if peer.connection.waits(event):
            # the order of the wire is that of acknowledge and deliver: a client may have the message before its confirm
            peer.acknowledge(event) if taken else peer.reject(event)
        if not taken:
            self.dropped += channel.mode != "confirm"
            return
        for queue in queues:
            queue.put(Item(str(method.exchange), str(method.routing_key), properties, body))

    def _commit(self, peer: Peer, event: amqp091.TxCommit) -> None:
        for message in self.session(peer).transactions.pop(event.channel, []):
            self._deliver(peer, message)
        peer.reply(event)

    def _rollback(self, peer: Peer, event: amqp091.TxRollback) -> None:
        self.session(peer).transactions.pop(event.channel, None)

    def _consume(self, peer: Peer, event: amqp091.BasicConsume) -> None:
        channel = self.session(peer).views[event.channel]
        queue = self._host(peer).queue(channel.named(event.queue), peer)
        if any(s.exclusive for s in queue.subscribers) or (event.exclusive and queue.subscribers):
            raise Refusal(ACCESS_REFUSED, f"queue '{queue.name}' in vhost '{queue.host.name}' in exclusive use")
        before = set(channel.consumers)
        peer.reply(event)
        if channel.state is not ChannelState.OPEN:
            return  # it has been closed meanwhile
        (tag,) = set(channel.consumers) - before
        priority = event.arguments.get("x-priority", 0)
        subscriber = Subscriber(peer, event.channel, tag, event.exclusive, priority if isinstance(priority, int) else 0)
        queue.insert(subscriber)
        self.session(peer).subscriptions[event.channel, tag] = queue
        queue.pump()

    def _cancel(self, peer: Peer, event: amqp091.BasicCancel) -> None:
        queue = self.session(peer).subscriptions.pop((event.channel, str(event.consumer_tag)), None)
        if queue is not None:
            self._leave(peer, event.channel, str(event.consumer_tag), queue)

    def _get(self, peer: Peer, event: amqp091.BasicGet) -> None:
        channel = self.session(peer).views[event.channel]
        queue = self._host(peer).queue(channel.named(event.queue), peer)
        item = queue.take() if channel.state is ChannelState.OPEN else None
        if item is None:
            peer.reply(event)
            return
        _, events = channel.get_ok(
            event,
            item.exchange,
            item.routing_key,
            item.body,
            item.properties,
            message_count=len(queue.messages),
            redelivered=item.redelivered,
            context=(queue, item),
        )
        peer.driver.update(events)

    def _settled(self, peer: Peer, event: Settled) -> None:
        if event.outcome == "requeue":
            self._requeue(event.deliveries)
        elif event.outcome == "discard":
            for delivery in event.deliveries:
                queue, item = delivery.context
                if not queue.gone:
                    queue.host.dead_letter(queue, item, "rejected")
        self._pump_channel(peer, event.channel)

    def _qos(self, peer: Peer, event: amqp091.BasicQos) -> None:
        self._pump_channel(peer, event.channel)

    def _pump_channel(self, peer: Peer, number: int) -> None:
        """There may be room for consumers of a channel."""
        for (channel, _), queue in list(self.session(peer).subscriptions.items()):
            if channel == number:
                queue.pump()

    _actions: Final[dict[type[Any], Any]] = {
        amqp091.ConnectionStartOk: _start,
        amqp091.ConnectionOpen: _open,
        amqp091.ConnectionUpdateSecret: _secret,
        amqp091.ExchangeDeclare: _declare_exchange,
        amqp091.ExchangeDelete: _delete_exchange,
        amqp091.ExchangeBind: _bind_exchange,
        amqp091.ExchangeUnbind: _bind_exchange,
        amqp091.QueueDeclare: _declare_queue,
        amqp091.QueueBind: _bind_queue,
        amqp091.QueueUnbind: _bind_queue,
        amqp091.QueuePurge: _purge,
        amqp091.QueueDelete: _delete_queue,
        amqp091.BasicMessage: _publish,
        amqp091.BasicConsume: _consume,
        amqp091.BasicCancel: _cancel,
        amqp091.BasicGet: _get,
        amqp091.BasicQos: _qos,
        amqp091.TxCommit: _commit,
        amqp091.TxRollback: _rollback,
        Settled: _settled,
        ChannelOpened: _channel_opened,
        ChannelClosed: _channel_closed,
        Disconnected: _disconnected,
    }


def changed(properties: amqp091.BasicProperties, **fields: Any) -> amqp091.BasicProperties:
    """Properties with some of them changed."""
    values = {name: getattr(properties, name) for name in properties.__match_args__}
    return amqp091.BasicProperties(**{**values, **fields})


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
