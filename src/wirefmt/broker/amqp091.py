"""An AMQP 0.9.1 broker in memory: a host for `amqp091.serve`.

Exchanges, bindings and queues are those of `wirefmt.broker.routing`. Where the specification is silent, it does what RabbitMQ
does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random, SystemRandom
from typing import Any, Final

from wirefmt import __version__, amqp091
from wirefmt.amqp091.channel import text_of
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp091.events import ChannelClosed, ChannelOpened, Event, Settled
from wirefmt.amqp091.server import Peer
from wirefmt.amqp091.server_channel import ServerChannel
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.broker.bindings import TABLES
from wirefmt.broker.credentials import is_password
from wirefmt.broker.limits import Limits, Refusal, Transaction, check_equal
from wirefmt.broker.messages import Envelope, Item, Published, changed
from wirefmt.broker.permissions import NOBODY, Permissions
from wirefmt.broker.queues import LONGEST, Queue
from wirefmt.broker.requests.amqp091 import REPLY_TO, REQUESTS, entity, is_reply_name, text
from wirefmt.broker.routing import PREDECLARED, TOGETHER_COPIES, Exchange, Router
from wirefmt.broker.shares import UNOWNED
from wirefmt.connection.aio.driver import READY_BYTES
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import ConversionError, LocalProtocolError, RemoteProtocolError


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """What the broker allows. What bounds its memory are the limits of its routers.

    Attributes:
        users: passwords by user name; None: everybody is let in.
        virtual_hosts: their names. Every one has exchanges and queues of its own.
        permissions: what the users may do; None: everything.
        server_properties: what the server says of itself, besides or in place of SERVER_PROPERTIES.
    """

    users: Mapping[str, str] | None = field(default_factory=lambda: {"guest": "guest"})
    virtual_hosts: frozenset[str] = frozenset(("/",))
    permissions: Permissions | None = None
    server_properties: Mapping[str, str] = field(default_factory=dict)


#: What the server says of itself (1.4.2.1).
SERVER_PROPERTIES: Final = {
    "product": "wirefmt",
    "version": __version__,
    "platform": f"Python {sys.version_info.major}.{sys.version_info.minor}",
    "copyright": "Copyright (c) the authors of wirefmt",
    "information": "An AMQP 0.9.1 broker in memory. Its documentation is that of wirefmt.",
}

#: The user and the password that clients of the mechanism ANONYMOUS have (RabbitMQ).
ANONYMOUS: Final = ("guest", "guest")

#: What a message costs that is delivered, or dead-lettered, alone, beside a copy that is made with others (`Driver.spend`).
ALONE: Final = 4

#: The events that are requests of a client.
_ASKED: Final = (amqp091.BasicMessage, amqp091.Method)


class Subscriber:
    """A consumer on a channel (`queues.Consumer`).

    One that has had no space is noted where what opens its window finds it: the transport, its channel, or its own prefetch.
    """

    def __init__(self, peer: Peer, session: Session, view: ServerChannel, consume: amqp091.BasicConsume) -> None:
        self.peer = peer
        self.session = session
        self.view = view
        self.tag = text_of(consume.consumer_tag)
        self.no_ack = consume.no_ack
        self.exclusive = consume.exclusive
        self.priority: int = consume.arguments.get("x-priority", 0)
        self.queue: Queue
        self.noted: dict[Any, Subscriber] | None = None  # where it waits for space
        self.key: Any = None

    def credit(self) -> int:
        if not self.peer.ready:
            self._note(self.session.unready, self)
            return 0
        capacity: int = self.view.credit(self.tag)
        if capacity <= 0:
            window = self.view.consumers.get(self.tag)
            if window is not None and 0 < window.prefetch <= window.unacknowledged:
                self._note(self.session.full, window)
            else:
                self._note(self.session.waiting.setdefault(self.view.number, {}), self)
        return capacity

    def _note(self, where: dict[Any, Subscriber], key: Any) -> None:
        if self.noted is not where:
            self.forget()
            where[key] = self
            self.noted, self.key = where, key

    def forget(self) -> None:
        """It does not wait for space."""
        if self.noted is not None:
            self.noted.pop(self.key, None)
            self.noted = None

    def wake(self) -> None:
        """There may be space."""
        self.forget()
        self.queue.wake(self)

    def deliver(self, queue: Queue, items: Sequence[Item], at: int) -> int:
        """Deliver message number `at` and the following ones that were published in the same way, as far as there is space."""
        first, redelivered = items[at].published.envelope, items[at].redelivered
        one, body = items[at].for_amqp091()
        properties: list[Any] = [one]
        bodies: list[Any] = [body]
        if first.properties is not None:
            for item in islice(items, at + 1, None):
                published = item.published
                envelope = published.envelope
                if envelope is not first and (
                    envelope.properties is None
                    or envelope.routing_key != first.routing_key
                    or envelope.exchange != first.exchange
                ):
                    break
                if item.redelivered is not redelivered or item.returns:
                    break
                properties.append(envelope.properties)
                bodies.append(published.body)
        driver = self.peer.driver
        try:
            taken = self.view.deliver_all(
                self.tag,
                first.exchange,
                first.routing_key,
                bodies,
                properties,
                redelivered=redelivered,
                contexts=None if self.no_ack else [(queue, item) for item in islice(items, at, at + len(bodies))],
                pending_bytes=READY_BYTES,
            )
        except LocalProtocolError:
            driver.want()
            self._note(self.session.unready, self)
            return 0
        driver.queued()
        driver.spend(taken)
        return taken

    def cancelled(self, queue: Queue) -> None:
        self.forget()
        self.session.subscriptions.pop((self.view.number, self.tag), None)
        if self.tag in self.view.consumers:
            try:
                self.view.cancel(self.tag)
                self.peer.driver.update()
            except LocalProtocolError:
                pass  # its connection is closing


class Replies:
    """The consumer of direct replies on a channel (`routing.Sink`). Without acknowledgements, and without a queue: a reply for
    which the client has no space is lost."""

    def __init__(self, broker: Broker, peer: Peer, view: ServerChannel, tag: str, routing_key: str) -> None:
        self.broker = broker
        self.peer = peer
        self.view = view
        self.tag = tag
        self.routing_key = routing_key

    def wants(self, routing_key: str) -> bool:
        return routing_key == self.routing_key

    def put(self, item: Item) -> None:
        try:
            properties, body = item.for_amqp091()
            self.view.deliver(self.tag, item.published.exchange, item.published.routing_key, body, properties)
        except (ConversionError, LocalProtocolError):
            self.broker.dropped += 1
        else:
            self.peer.driver.queued()


def _embeds(properties: amqp091.BasicProperties) -> bool:
    """May the message have sections of AMQP 1.0 in it, as messages of RabbitMQ's old plugin?"""
    return properties.type == "amqp-1.0" or "x-amqp-1.0-properties" in (properties.headers or ())


def _check_user(published: Published, user: str) -> None:
    """Raises Refusal if sections of AMQP 1.0 in a message say that it is another user's."""
    try:
        properties = published.container.to("amqp10").message.properties
    except ConversionError:
        return  # no consumer of AMQP 1.0 gets it
    said = properties.user_id if properties is not None else None
    if said is not None and bytes(said) != user.encode():
        raise Refusal(
            ReplyCode.PRECONDITION_FAILED, f"user-id {bytes(said)!r} in a section but authenticated user was '{user}'"
        )


class Session:
    """What the broker knows of one client."""

    def __init__(self) -> None:
        self.user = ""
        self.host: Router | None = None
        self.holder = UNOWNED  # what it has in this host
        self.subscriptions: dict[tuple[int, str], tuple[Queue, Subscriber]] = {}
        # consumers that have had no space: for the transport did not take more; by the number of their channel, for that took no
        # more; or by their windows, for these were full
        self.unready: dict[Any, Subscriber] = {}
        self.waiting: dict[int, dict[Any, Subscriber]] = {}
        self.full: dict[Any, Subscriber] = {}
        # as far as events have been handled: channels, and the transactions of those that are transactional
        self.views: dict[int, ServerChannel] = {}
        self.transactions: dict[int, Transaction] = {}
        self.replies: dict[int, Replies] = {}  # by channel


class Broker:
    """The handler of `amqp091.serve`: `await amqp091.serve(Broker(), "127.0.0.1", 5672)`.

    Attributes:
        options: what it allows.
        hosts: the routers of the virtual hosts, by their names.
        dropped: messages that a full queue has refused, where the publisher could not be told, and direct replies for which
            their client had no space.

    Args:
        options: what it allows.
        router: the router of the virtual host "/", which brokers of other protocols may share; None: one of its own.
        limits: of the routers.
        random: for names of queues; None: the system's.
    """

    def __init__(
        self,
        options: BrokerOptions | None = None,
        *,
        router: Router | None = None,
        limits: Limits | None = None,
        random: Random | None = None,
    ) -> None:
        self.options = options or BrokerOptions()
        self.hosts = {name: Router(limits, name) for name in self.options.virtual_hosts}
        if router is not None:
            self.hosts[router.name] = router
        self.dropped = 0
        self._random = random or SystemRandom()
        self._sessions: dict[Peer, Session] = {}

    def session(self, peer: Peer) -> Session:
        session = self._sessions.get(peer)
        if session is None:
            session = self._sessions[peer] = Session()
        return session

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Those of SASL that a server of this broker offers. ANONYMOUS is for the user guest, if its password is `guest`, too."""
        users = self.options.users
        anonymous = users is None or is_password(users, *ANONYMOUS)
        return ("PLAIN", "AMQPLAIN", "ANONYMOUS") if anonymous else ("PLAIN", "AMQPLAIN")

    @property
    def properties(self) -> Mapping[str, Any]:
        """The server-properties of a server of this broker."""
        return {**SERVER_PROPERTIES, **self.options.server_properties, "capabilities": {"direct_reply_to": True}}

    def close(self) -> None:
        """Forget everything, and stop the timers. Close the servers first, or drop their clients."""
        for host in self.hosts.values():
            host.close()
        self.dropped = 0

    # ---- called by the server

    def handle(self, peer: Peer, event: Event) -> None:
        published = type(event) is amqp091.BasicMessage
        action = None if published else self._actions.get(type(event))
        if action is None and not published:
            return
        session = self.session(peer)
        view = None
        if published or (isinstance(event, amqp091.Method) and event.channel):
            view = session.views.get(event.channel)
            if view is None or view.state is ChannelState.CLOSING:
                return  # its channel was closed by the answer to an event before it
        try:
            if self.options.permissions is not None:
                self._permit(peer, event, self.options.permissions)
            if action is None:
                assert view is not None
                self._publish(peer, [event], 0, 1, session)
            elif (steps := action(self, peer, event)) is not None:
                peer.driver.later(self._in_steps(peer, event, steps))
        except (Refusal, ConversionError) as error:
            self._refuse(peer, event, error)

    def _in_steps(self, peer: Peer, event: Event, steps: Iterator[int]) -> Iterator[int]:
        """What is left to do for an event."""
        try:
            yield from steps
        except (Refusal, ConversionError) as error:
            self._refuse(peer, event, error)

    @staticmethod
    def _refuse(peer: Peer, event: Event, error: Refusal | ConversionError) -> None:
        if isinstance(error, Refusal):
            peer.refuse(event, error.code, error.reason)
        else:
            peer.refuse(event, ReplyCode.PRECONDITION_FAILED, str(error))

    def handle_run(self, peer: Peer, events: list[Event], at: int) -> int:
        """Several events together: see `wirefmt.connection.aio.Host`. They are messages that have the same method, or
        acknowledgements of one channel. What is refused is left to `handle`."""
        event, session = events[at], self.session(peer)
        if type(event) is Settled and event.outcome == "ack":
            channel, begin, at = event.channel, at, at + 1
            while at < len(events) and type(more := events[at]) is Settled and (more.channel, more.outcome) == (
                channel, "ack",
            ):  # fmt: skip
                at += 1
            self._wake(session, channel, events[begin:at])
            return at
        if type(event) is not amqp091.BasicMessage or event.channel in session.transactions:
            return at
        end = peer.connection.run_of(events, at)
        view = session.views.get(event.channel)
        if view is None or view.state is ChannelState.CLOSING:
            return end
        try:
            if self.options.permissions is not None:
                self._permit(peer, event, self.options.permissions)
            while at < end:
                at = self._publish(peer, events, at, end, session)
                if peer.driver.spent:
                    break
        except (Refusal, ConversionError):
            pass
        return at

    def writable(self, peer: Peer) -> None:
        unready = self.session(peer).unready
        for _ in range(len(unready)):
            if not unready or not peer.ready:
                return
            next(iter(unready.values())).wake()

    def closed(self, peer: Peer) -> None:
        self._sessions.pop(peer, None)

    def _permit(self, peer: Peer, event: Event, permissions: Permissions) -> None:
        """Raises Refusal if the user may not do this. Only methods and messages are requests."""
        if not isinstance(event, _ASKED):
            return
        session = self.session(peer)
        view = session.views.get(event.channel)
        named = view.named if view is not None else str
        lacking = permissions.lacks(session.user, REQUESTS, type(event), event, named)
        if lacking is not None:
            host = session.host.name if session.host is not None else ""
            what = lacking.name if lacking.action == NOBODY else f"{lacking.right} access to '{lacking.name}'"
            raise Refusal(ReplyCode.ACCESS_REFUSED, f"{what} in vhost '{host}' refused for user '{session.user}'")

    # ---- the connection

    def _start(self, peer: Peer, event: amqp091.ConnectionStartOk) -> None:
        try:
            user, password = ANONYMOUS if event.mechanism == "ANONYMOUS" else amqp091.credentials(event)
        except RemoteProtocolError:
            peer.refuse(event)
            return
        users = self.options.users
        if users is not None and not is_password(users, user, password):
            peer.refuse(
                event,
                ReplyCode.ACCESS_REFUSED,
                f"Login was refused using authentication mechanism {event.mechanism!s}.",
            )
            return
        self.session(peer).user = user
        peer.accept(event)

    def _open(self, peer: Peer, event: amqp091.ConnectionOpen) -> None:
        host = self.hosts.get(str(event.virtual_host))
        if host is None:
            peer.refuse(event, ReplyCode.NOT_ALLOWED, f"vhost {event.virtual_host!s} not found")
            return
        session = self.session(peer)
        session.host = host
        session.holder = host.shares.holder(session.user if self.options.users is not None else None)
        peer.accept(event)

    def _secret(self, peer: Peer, event: amqp091.ConnectionUpdateSecret) -> None:
        peer.accept(event)

    def _disconnected(self, peer: Peer, event: Disconnected) -> Iterator[int]:
        session = self.session(peer)
        for queue, subscriber in list(session.subscriptions.values()):
            queue.leave(subscriber)
        session.subscriptions.clear()
        for waiting in (session.unready, session.waiting, session.full):
            waiting.clear()
        for replies in session.replies.values():
            self._host(peer).replies.pop(replies.routing_key, None)
        session.replies.clear()
        for channel in list(session.transactions):
            self._leave_transaction(session, channel)
        if session.host is not None:
            session.host.release(peer)
        return self._requeue(event.lost)

    def _channel_closed(self, peer: Peer, event: ChannelClosed) -> Iterator[int]:
        session = self.session(peer)
        self._leave_transaction(session, event.channel)
        session.views.pop(event.channel, None)
        session.waiting.pop(event.channel, None)
        for consumer in event.consumers:
            self._leave(session, event.channel, consumer.tag)
        return self._requeue(event.lost)

    def _channel_opened(self, peer: Peer, event: ChannelOpened) -> None:
        self.session(peer).views[event.channel] = event.view

    def _leave_transaction(self, session: Session, channel: int) -> None:
        """A channel is gone: its transaction is rolled back."""
        transaction = session.transactions.pop(channel, None)
        if transaction is not None:
            transaction.end()

    def _leave(self, session: Session, channel: int, tag: str) -> None:
        """A consumer is gone."""
        replies = session.replies.get(channel)
        if replies is not None and replies.tag == tag:
            assert session.host is not None
            session.host.replies.pop(session.replies.pop(channel).routing_key, None)
        queue, subscriber = session.subscriptions.pop((channel, tag), (None, None))
        if queue is not None and subscriber is not None:
            subscriber.forget()
            queue.leave(subscriber)

    def unsettled(self) -> list[tuple[Queue, Item]]:
        """What clients have and have not acknowledged."""
        channels = [view for session in self._sessions.values() for view in session.views.values()]
        return [delivery.context for channel in channels for delivery in channel.deliveries]

    @staticmethod
    def _requeue(deliveries: Sequence[Any]) -> Iterator[int]:
        for begin in range(0, len(deliveries), TOGETHER_COPIES):
            back: dict[Queue, list[Item]] = {}
            some = deliveries[begin : begin + TOGETHER_COPIES]
            for delivery in some:
                queue, item = delivery.context
                if not queue.gone:
                    item.failed += queue.type == "quorum"
                    back.setdefault(queue, []).append(item)
            for queue, items in back.items():
                queue.back(items)
            yield len(some)

    # ---- exchanges and queues

    def _host(self, peer: Peer) -> Router:
        host = self.session(peer).host
        assert host is not None
        return host

    def _declare_exchange(self, peer: Peer, event: amqp091.ExchangeDeclare) -> None:
        host, name = self._host(peer), entity(event.exchange)
        known = host.exchanges.get(name)
        if name == "":
            raise Refusal(ReplyCode.ACCESS_REFUSED, "operation not permitted on the default exchange")
        if event.passive:
            host.exchange(name)
        elif known is not None:
            what = f"exchange '{name}' in vhost '{host.name}'"
            for field_name in ("type", "durable", "auto_delete", "internal"):
                check_equal(what, field_name, getattr(event, field_name), getattr(known, field_name))
            check_equal(what, "alternate-exchange", event.arguments.get("alternate-exchange"), known.alternate)
        elif event.type not in TABLES:
            raise Refusal(ReplyCode.PRECONDITION_FAILED, f"unknown exchange type '{event.type!s}'")
        elif name.startswith("amq."):
            raise Refusal(ReplyCode.ACCESS_REFUSED, f"exchange name '{name}' contains reserved prefix 'amq.*'")
        else:
            arguments = {str(k): v for k, v in event.arguments.items()}
            host.make_exchange(
                name, str(event.type), holder=self.session(peer).holder, durable=event.durable,
                auto_delete=event.auto_delete, internal=event.internal, arguments=arguments,
            )  # fmt: skip
        peer.reply(event)

    def _delete_exchange(self, peer: Peer, event: amqp091.ExchangeDelete) -> None:
        host, name = self._host(peer), entity(event.exchange)
        if name in PREDECLARED:
            raise Refusal(ReplyCode.ACCESS_REFUSED, f"operation not permitted on exchange '{name}'")
        exchange = host.exchanges.get(name)
        if exchange is not None:
            if event.if_unused and exchange.bindings:
                raise Refusal(ReplyCode.PRECONDITION_FAILED, f"exchange '{name}' in vhost '{host.name}' in use")
            host.delete_exchange(exchange)
        peer.reply(event)

    def _bind_exchange(self, peer: Peer, event: amqp091.ExchangeBind | amqp091.ExchangeUnbind) -> None:
        host = self._host(peer)
        source, destination = entity(event.source), entity(event.destination)
        if source == "" or destination == "":
            raise Refusal(ReplyCode.ACCESS_REFUSED, "operation not permitted on the default exchange")
        arguments = {str(k): v for k, v in event.arguments.items()}
        if isinstance(event, amqp091.ExchangeBind):
            exchange, bound = host.exchange(source), host.exchange(destination)
            binding = (bound, text(event.routing_key), event.arguments.encode())
            host.bind(exchange, binding, arguments, self.session(peer).holder)
        elif source in host.exchanges and destination in host.exchanges:
            key = (host.exchanges[destination], text(event.routing_key), event.arguments.encode())
            host.unbind(host.exchanges[source], key)
        peer.reply(event)

    def _declare_queue(self, peer: Peer, event: amqp091.QueueDeclare) -> None:
        host = self._host(peer)
        name = entity(event.queue)
        durable = event.durable and not event.exclusive  # an exclusive queue ends with its connection (RabbitMQ)
        arguments = {str(k): v for k, v in event.arguments.items()}
        if is_reply_name(name):  # declaring it only asks whether it is there
            if name != REPLY_TO and name not in host.replies:
                raise Refusal(ReplyCode.NOT_FOUND, f"no queue '{name}' in vhost '{host.name}'")
            peer.reply(event, queue=name, message_count=0, consumer_count=1)
            return
        if event.passive:
            queue = host.queue(name or self.session(peer).views[event.channel].queue, peer)
        elif name in host.queues:
            queue = host.queue(name, peer)
            if queue.exclusive != event.exclusive:
                raise Refusal(
                    ReplyCode.RESOURCE_LOCKED,
                    f"cannot obtain exclusive access to locked queue '{name}' in vhost '{host.name}'. It was declared with "
                    "another value of exclusive",
                )
            queue.check_same(durable, event.auto_delete, arguments)
        elif name.startswith("amq."):
            raise Refusal(ReplyCode.ACCESS_REFUSED, f"queue name '{name}' contains reserved prefix 'amq.*'")
        else:
            queue = host.make_queue(
                name or f"amq.gen-{self._random.getrandbits(128):032x}",
                arguments,
                durable=durable,
                auto_delete=event.auto_delete,
                owner=peer if event.exclusive else None,
                holder=self.session(peer).holder,
            )
        peer.reply(event, queue=queue.name, message_count=queue.count, consumer_count=len(queue.consumers))

    def _bind_queue(self, peer: Peer, event: amqp091.QueueBind | amqp091.QueueUnbind) -> None:
        host, channel = self._host(peer), self.session(peer).views[event.channel]
        name, routing_key = entity(channel.named(event.queue)), text(event.routing_key)
        if not event.queue and not routing_key:
            routing_key = name
        source = entity(event.exchange)
        if source == "":
            raise Refusal(ReplyCode.ACCESS_REFUSED, "operation not permitted on the default exchange")
        if isinstance(event, amqp091.QueueBind):
            exchange, queue = host.exchange(source), host.queue(name, peer)
            arguments = {str(k): v for k, v in event.arguments.items()}
            binding = (queue, routing_key, event.arguments.encode())
            host.bind(exchange, binding, arguments, self.session(peer).holder)
        elif name in host.queues and source in host.exchanges:
            queue = host.queue(name, peer)
            host.unbind(host.exchanges[source], (queue, routing_key, event.arguments.encode()))
        peer.reply(event)

    def _purge(self, peer: Peer, event: amqp091.QueuePurge) -> None:
        queue = self._host(peer).queue(self.session(peer).views[event.channel].named(event.queue), peer)
        peer.reply(event, message_count=queue.purge())

    def _delete_queue(self, peer: Peer, event: amqp091.QueueDelete) -> None:
        host, name = self._host(peer), entity(self.session(peer).views[event.channel].named(event.queue))
        count = 0
        if name in host.queues:
            queue = host.queue(name, peer)
            if event.if_unused and queue.consumers:
                raise Refusal(ReplyCode.PRECONDITION_FAILED, f"queue '{name}' in vhost '{host.name}' in use")
            if event.if_empty and queue.count:
                raise Refusal(ReplyCode.PRECONDITION_FAILED, f"queue '{name}' in vhost '{host.name}' not empty")
            count = queue.count
            peer.reply(event, message_count=count)  # delete-ok comes before the end of consumers
            host.delete_queue(queue)
            return
        peer.reply(event, message_count=count)

    # ---- messages

    def _publish(self, peer: Peer, events: list[Event], at: int, end: int, session: Session) -> int:
        """Publish message number `at`, and those after it that go the same way. Those before `end` have the same method.
        Returns the number of the first other one. Raises Refusal and ConversionError if message number `at` is refused."""
        host, method = session.host, events[at].method
        assert host is not None
        exchange = host.exchange(text(method.exchange))
        if exchange.internal:
            raise Refusal(ReplyCode.ACCESS_REFUSED, f"cannot publish to internal exchange '{exchange.name}'")
        envelope = self._envelope(events[at].properties, exchange, method, session, host)
        messages = [Published(envelope, events[at].body_bytes())]
        if _embeds(events[at].properties):
            _check_user(messages[0], session.user)
            end = at + 1
        transaction = session.transactions.get(method.channel)
        if end - at > 1 and exchange.name and transaction is None:
            copies = len(host.route(exchange, messages[0], quiet=True))
            end = min(end, at + max(1, TOGETHER_COPIES // max(copies, 1)))
        for number in range(at + 1, end):
            event = events[number]
            properties = event.properties
            if properties.encode() != envelope.octets:
                try:
                    other = self._envelope(properties, exchange, method, session, host)
                except Refusal:
                    break
                if not other.matches(envelope) or _embeds(properties):
                    break
                envelope = other
            messages.append(Published(envelope, event.body_bytes()))
        run = events[at : at + len(messages)]
        if transaction is None:
            self._deliver(peer, run, messages, host)
        else:
            # messages that cannot be converted are refused now, not when the transaction commits
            copies = len(host.route(exchange, messages[0], quiet=True))
            for event, published in zip(run, messages, strict=True):
                transaction.add((event.detach(), published), published.cost, copies)
        return at + len(messages)

    @staticmethod
    def _envelope(
        properties: amqp091.BasicProperties,
        exchange: Exchange,
        method: amqp091.BasicPublish,
        session: Session,
        host: Router,
    ) -> Envelope:
        """The envelope of a message. Raises Refusal."""
        if properties.user_id is not None and properties.user_id != session.user:
            raise Refusal(
                ReplyCode.PRECONDITION_FAILED,
                f"user_id property set to '{properties.user_id!s}' but authenticated user was '{session.user}'",
            )
        if properties.reply_to == REPLY_TO:
            replies = session.replies.get(method.channel)
            if replies is None:
                raise Refusal(ReplyCode.PRECONDITION_FAILED, "fast reply consumer does not exist")
            properties = changed(properties, reply_to=replies.routing_key)
        expiration = None if properties.expiration is None else str(properties.expiration)
        if expiration is not None and not (
            expiration.isascii() and expiration.isdecimal() and int(expiration) <= LONGEST
        ):
            raise Refusal(ReplyCode.PRECONDITION_FAILED, f"invalid expiration '{expiration}'")
        octets = properties.encode()
        return Envelope(
            octets,
            exchange.name,
            text(method.routing_key),
            None if expiration is None else int(expiration),
            properties.priority or 0,
            # without the bytes that they were read from; BCC is not delivered
            amqp091.BasicProperties.decode(octets) if "BCC" not in (properties.headers or ()) else None,
            host.limits.dialect,
            session.holder,
        )

    def _deliver(
        self, peer: Peer, events: Sequence[amqp091.BasicMessage], messages: Sequence[Published], host: Router
    ) -> None:
        """Messages that go the same way. Raises ConversionError before anything has changed."""
        exchange = host.exchanges.get(messages[0].exchange)
        before = host.work
        destinations = host.route(exchange, *messages) if exchange is not None else []
        copies = len(destinations) * len(messages) if len(destinations) > 1 else 0
        if not destinations:
            host.note_unroutable(*messages)
            if events[0].method.mandatory:
                for event in events:
                    self._return(peer, event)  # before its confirm
        if len(messages) == 1 or host.takes(destinations, *messages):
            self._put(peer, events, messages, destinations, host)
        else:
            for event, published in zip(events, messages, strict=True):
                self._put(peer, (event,), (published,), destinations.copy(), host)
        if copies or host.work != before:
            peer.driver.spend(copies + host.work - before)

    def _put(
        self,
        peer: Peer,
        events: Sequence[amqp091.BasicMessage],
        messages: Sequence[Published],
        destinations: list[Any],
        host: Router,
    ) -> None:
        """Messages that their destinations all take, or one message."""
        refused = host.refuses(destinations, messages[0])
        if peer.connection.waits(events[0]):
            # the order of the wire is that of acknowledge and deliver: a client may have the message before its confirm
            peer.reject(events[0]) if refused else peer.acknowledge(*events)
        else:
            self.dropped += refused
        host.put(destinations, *messages)

    def _return(self, peer: Peer, event: amqp091.BasicMessage) -> None:
        try:
            peer.return_message(event)
        except LocalProtocolError as error:
            if peer.connection.state is State.OPEN:  # the client does not take what it gets back
                peer.driver.abort(error)

    def _select(self, peer: Peer, event: amqp091.TxSelect) -> None:
        session = self.session(peer)
        session.transactions.setdefault(event.channel, Transaction(self._host(peer), session.holder))

    def _commit(self, peer: Peer, event: amqp091.TxCommit) -> Iterator[int]:
        session, host = self.session(peer), self._host(peer)
        for message, published in session.transactions[event.channel].take():
            self._deliver(peer, (message,), (published,), host)
            yield ALONE
        peer.reply(event)

    def _rollback(self, peer: Peer, event: amqp091.TxRollback) -> None:
        self.session(peer).transactions[event.channel].end()

    def _consume(self, peer: Peer, event: amqp091.BasicConsume) -> None:
        session = self.session(peer)
        channel = session.views[event.channel]
        if event.queue == REPLY_TO:
            self._consume_replies(peer, event, session, channel)
            return
        queue = self._host(peer).queue(channel.named(event.queue), peer)
        priority = event.arguments.get("x-priority", 0)
        if not isinstance(priority, int) or isinstance(priority, bool):
            raise queue.invalid("x-priority", f"{priority!r}, expected an integer")
        if channel.shared_prefetch and queue.type == "quorum":
            raise Refusal(
                ReplyCode.NOT_IMPLEMENTED,
                f"queue '{queue.name}' in vhost '{queue.router.name}' does not support global qos",
            )
        subscriber = Subscriber(peer, session, channel, event)
        queue.check(subscriber)
        tag = self._begin(peer, event, channel)
        if tag is not None:
            subscriber.tag, subscriber.queue = tag, queue
            session.subscriptions[event.channel, tag] = queue, subscriber
            queue.insert(subscriber)

    def _consume_replies(
        self, peer: Peer, event: amqp091.BasicConsume, session: Session, channel: ServerChannel
    ) -> None:
        """Direct reply-to: the consumer is the channel, which has at most one."""
        if not event.no_ack:
            raise Refusal(ReplyCode.PRECONDITION_FAILED, "reply consumer cannot acknowledge")
        if event.channel in session.replies:
            raise Refusal(ReplyCode.PRECONDITION_FAILED, "reply consumer already set")
        tag = self._begin(peer, event, channel)
        if tag is not None:
            key = f"{REPLY_TO}.{self._random.getrandbits(128):032x}"
            replies = session.replies[event.channel] = Replies(self, peer, channel, tag, key)
            self._host(peer).replies[key] = replies

    @staticmethod
    def _begin(peer: Peer, event: amqp091.BasicConsume, channel: ServerChannel) -> str | None:
        """Answer with consume-ok. Returns the consumer-tag; None: the channel has been closed meanwhile."""
        peer.reply(event)
        if channel.state is not ChannelState.OPEN:
            return None
        return text_of(event.consumer_tag) or str(next(reversed(channel.consumers)))

    def _cancel(self, peer: Peer, event: amqp091.BasicCancel) -> None:
        self._leave(self.session(peer), event.channel, text_of(event.consumer_tag))

    def _get(self, peer: Peer, event: amqp091.BasicGet) -> None:
        channel = self.session(peer).views[event.channel]
        queue = self._host(peer).queue(channel.named(event.queue), peer)
        while channel.state is ChannelState.OPEN and (item := queue.take()) is not None:
            try:
                properties, body = item.for_amqp091()
                _, events = channel.get_ok(
                    event,
                    item.published.exchange,
                    item.published.routing_key,
                    body,
                    properties,
                    message_count=queue.count,
                    redelivered=item.redelivered,
                    context=(queue, item),
                )
            except ConversionError:
                queue.router.dead_letter(queue, item, "rejected", unfit=True)
            except LocalProtocolError as error:  # too much is queued or unacknowledged
                queue.requeue(item)
                raise Refusal(ReplyCode.PRECONDITION_FAILED, str(error)) from error
            else:
                peer.driver.update(events)
                return
        peer.reply(event)

    def _settled(self, peer: Peer, event: Settled) -> Iterator[int]:
        if event.outcome == "requeue":
            yield from self._requeue(event.deliveries)
        elif event.outcome == "discard":
            for delivery in event.deliveries:
                queue, item = delivery.context
                if not queue.gone:
                    queue.router.dead_letter(queue, item, "rejected")
                yield ALONE
        self._wake(self.session(peer), event.channel, (event,))

    def _qos(self, peer: Peer, event: amqp091.BasicQos | amqp091.ChannelFlow) -> None:
        for subscriber in list(self.session(peer).waiting.get(event.channel, {}).values()):
            subscriber.wake()

    def _wake(self, session: Session, channel: int, settled: Iterable[Settled]) -> None:
        """Deliveries of a channel are finished: there is space for those consumers that have had none, and for no others."""
        if session.full:
            for event in settled:
                for delivery in event.deliveries:
                    subscriber = session.full.get(delivery.consumer)
                    if subscriber is not None:
                        subscriber.wake()
        waiting = session.waiting.get(channel)
        while waiting:
            subscriber = next(iter(waiting.values()))
            subscriber.wake()
            if subscriber.noted is waiting:
                return  # the channel is full, for all of them

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
        amqp091.BasicConsume: _consume,
        amqp091.BasicCancel: _cancel,
        amqp091.BasicGet: _get,
        amqp091.BasicQos: _qos,
        amqp091.ChannelFlow: _qos,
        amqp091.TxSelect: _select,
        amqp091.TxCommit: _commit,
        amqp091.TxRollback: _rollback,
        Settled: _settled,
        ChannelOpened: _channel_opened,
        ChannelClosed: _channel_closed,
        Disconnected: _disconnected,
    }
