"""An AMQP 0.9.1 broker in memory: a host for `amqp091.serve`.

Exchanges, bindings and queues are those of `wirefmt.broker.routing`. Where the specification is silent, it does what RabbitMQ
does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random, SystemRandom
from typing import Any, Final

from wirefmt import amqp091
from wirefmt.amqp091.channel import text_of
from wirefmt.amqp091.events import (
    ACCESS_REFUSED,
    LOCKED,
    NOT_ALLOWED,
    PRECONDITION,
    ChannelClosed,
    ChannelOpened,
    Event,
    Settled,
)
from wirefmt.amqp091.server import Peer
from wirefmt.amqp091.server_channel import ServerChannel
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.broker.bindings import TABLES
from wirefmt.broker.credentials import is_password
from wirefmt.broker.messages import Envelope, Item, Published
from wirefmt.broker.permissions import NOBODY, Permissions
from wirefmt.broker.requests.amqp091 import REQUESTS
from wirefmt.broker.routing import LONGEST, PREDECLARED, Exchange, Limits, Queue, Refusal, Router, Transaction
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
    """

    users: Mapping[str, str] | None = field(default_factory=lambda: {"guest": "guest"})
    virtual_hosts: frozenset[str] = frozenset(("/",))
    permissions: Permissions | None = None


#: The events that are requests of a client.
_ASKED: Final = (amqp091.BasicMessage, amqp091.Method)


class Subscriber:
    """A consumer on a channel (`routing.Consumer`)."""

    def __init__(self, peer: Peer, session: Session, view: ServerChannel, consume: amqp091.BasicConsume) -> None:
        self.peer = peer
        self.session = session
        self.view = view
        self.tag = text_of(consume.consumer_tag)
        self.no_ack = consume.no_ack
        self.exclusive = consume.exclusive
        priority = consume.arguments.get("x-priority", 0)
        self.priority = priority if isinstance(priority, int) else 0

    def room(self) -> int:
        return self.view.room(self.tag) if self.peer.ready else 0

    def deliver(self, queue: Queue, items: Sequence[Item], at: int) -> int:
        """Deliver message number `at` and the following ones that were published in the same way, as far as there is room."""
        first, redelivered = items[at].published.envelope, items[at].redelivered
        one, body = items[at].for_amqp091(self.peer.connection.frame_max)
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
                if item.redelivered is not redelivered:
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
        except LocalProtocolError as error:
            _check_fit(error)
            driver.want()
            return 0
        driver.queued()
        return taken

    def cancelled(self, queue: Queue) -> None:
        self.session.subscriptions.pop((self.view.number, self.tag), None)
        if self.tag in self.view.consumers:
            try:
                self.view.cancel(self.tag)
                self.peer.driver.update()
            except LocalProtocolError:
                pass  # its connection is closing


def _check_fit(error: LocalProtocolError) -> None:
    """Raises ConversionError if the message was refused because it has no form on this connection, as properties that are
    larger than its frames."""
    if error.__cause__ is not None:
        raise ConversionError(str(error), rule="amqp091:frame") from error


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
        raise Refusal(PRECONDITION, f"user-id {bytes(said)!r} in a section but authenticated user was '{user}'")


class Session:
    """What the broker knows of one client."""

    def __init__(self) -> None:
        self.user = ""
        self.host: Router | None = None
        self.subscriptions: dict[tuple[int, str], tuple[Queue, Subscriber]] = {}
        # as far as events have been handled: channels, and the transactions of those that are transactional
        self.views: dict[int, ServerChannel] = {}
        self.transactions: dict[int, Transaction] = {}


class Broker:
    """The handler of `amqp091.serve`: `await amqp091.serve(Broker(), "127.0.0.1", 5672)`.

    Attributes:
        options: what it allows.
        hosts: the routers of the virtual hosts, by their names.
        dropped: messages that a full queue has refused, where the publisher could not be told.

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
            else:
                action(self, peer, event)
        except Refusal as refusal:
            peer.refuse(event, refusal.code, refusal.reason)
        except ConversionError as error:
            peer.refuse(event, PRECONDITION, str(error))

    def handle_run(self, peer: Peer, events: list[Event], at: int) -> int:
        """Several events together: see `wirefmt.connection.aio.Host`. They are messages that have the same method, or
        acknowledgements of one channel. What is refused is left to `handle`."""
        event, session = events[at], self.session(peer)
        if type(event) is Settled and event.outcome == "ack":
            channel, at = event.channel, at + 1
            while at < len(events) and type(more := events[at]) is Settled and (more.channel, more.outcome) == (
                channel, "ack",
            ):  # fmt: skip
                at += 1
            self._pump_channel(peer, channel)
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
        except (Refusal, ConversionError):
            pass
        return at

    def writable(self, peer: Peer) -> None:
        for queue, subscriber in list(self.session(peer).subscriptions.values()):
            queue.wake(subscriber)

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
            raise Refusal(ACCESS_REFUSED, f"{what} in vhost '{host}' refused for user '{session.user}'")

    # ---- the connection

    def _start(self, peer: Peer, event: amqp091.ConnectionStartOk) -> None:
        try:
            user, password = amqp091.credentials(event)
        except RemoteProtocolError:
            peer.refuse(event)
            return
        users = self.options.users
        if users is not None and not is_password(users, user, password):
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
        for queue, subscriber in list(session.subscriptions.values()):
            queue.leave(subscriber)
        session.subscriptions.clear()
        for channel in list(session.transactions):
            self._leave_transaction(session, channel)
        self._requeue(event.lost)
        if session.host is not None:
            session.host.release(peer)

    def _channel_closed(self, peer: Peer, event: ChannelClosed) -> None:
        session = self.session(peer)
        self._leave_transaction(session, event.channel)
        session.views.pop(event.channel, None)
        self._requeue(event.lost)
        for consumer in event.consumers:
            self._leave(session, event.channel, consumer.tag)

    def _channel_opened(self, peer: Peer, event: ChannelOpened) -> None:
        self.session(peer).views[event.channel] = event.view

    def _leave_transaction(self, session: Session, channel: int) -> None:
        """A channel is gone: its transaction is rolled back."""
        transaction = session.transactions.pop(channel, None)
        if transaction is not None:
            transaction.end()

    def _leave(self, session: Session, channel: int, tag: str) -> None:
        """A consumer is gone."""
        queue, subscriber = session.subscriptions.pop((channel, tag), (None, None))
        if queue is not None and subscriber is not None:
            queue.leave(subscriber)

    def _requeue(self, deliveries: Iterable[Any]) -> None:
        back: dict[Queue, list[Item]] = {}
        for delivery in deliveries:
            queue, item = delivery.context
            if not queue.gone:
                back.setdefault(queue, []).append(item)
        for queue, items in back.items():
            queue.back(items)

    # ---- exchanges and queues

    def _host(self, peer: Peer) -> Router:
        host = self.session(peer).host
        assert host is not None
        return host

    def _declare_exchange(self, peer: Peer, event: amqp091.ExchangeDeclare) -> None:
        host, name = self._host(peer), str(event.exchange)
        known = host.exchanges.get(name)
        if name == "":
            raise Refusal(ACCESS_REFUSED, "operation not permitted on the default exchange")
        if event.passive:
            host.exchange(name)
        elif known is not None:
            for what in ("type", "durable", "auto_delete", "internal"):
                if getattr(known, what) != getattr(event, what):
                    raise Refusal(
                        PRECONDITION,
                        f"inequivalent arg '{what}' for exchange '{name}' in vhost '{host.name}': "
                        f"received '{getattr(event, what)}' but current is '{getattr(known, what)}'",
                    )
        elif event.type not in TABLES:
            raise Refusal(PRECONDITION, f"unknown exchange type '{event.type!s}'")
        elif name.startswith("amq."):
            raise Refusal(ACCESS_REFUSED, f"exchange name '{name}' contains reserved prefix 'amq.*'")
        elif len(host.exchanges) >= host.limits.exchanges:
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
            if queue.exclusive != event.exclusive:
                raise Refusal(
                    LOCKED,
                    f"cannot obtain exclusive access to locked queue '{name}' in vhost '{host.name}'. It was declared with "
                    "another value of exclusive",
                )
            arguments = {str(k): v for k, v in event.arguments.items()}
            for what, have in (
                ("durable", event.durable),
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
        else:
            queue = host.make_queue(
                name or f"amq.gen-{self._random.getrandbits(128):032x}",
                {str(k): v for k, v in event.arguments.items()},
                durable=event.durable,
                auto_delete=event.auto_delete,
                owner=peer if event.exclusive else None,
            )
        peer.reply(event, queue=queue.name, message_count=queue.count, consumer_count=len(queue.consumers))

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
        peer.reply(event, message_count=queue.purge())

    def _delete_queue(self, peer: Peer, event: amqp091.QueueDelete) -> None:
        host, name = self._host(peer), self.session(peer).views[event.channel].named(event.queue)
        count = 0
        if name in host.queues:
            queue = host.queue(name, peer)
            if event.if_unused and queue.consumers:
                raise Refusal(PRECONDITION, f"queue '{name}' in vhost '{host.name}' in use")
            if event.if_empty and queue.count:
                raise Refusal(PRECONDITION, f"queue '{name}' in vhost '{host.name}' not empty")
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
        exchange = host.exchange(str(method.exchange))
        if exchange.internal:
            raise Refusal(ACCESS_REFUSED, f"cannot publish to internal exchange '{exchange.name}'")
        routing_key = str(method.routing_key)
        envelope = self._envelope(events[at].properties, exchange, routing_key, session, host)
        messages = [Published(envelope, events[at].body_bytes())]
        if _embeds(events[at].properties):
            _check_user(messages[0], session.user)
            end = at + 1
        for number in range(at + 1, end):
            event = events[number]
            properties = event.properties
            if properties.encode() != envelope.octets:
                try:
                    other = self._envelope(properties, exchange, routing_key, session, host)
                except Refusal:
                    break
                if not other.goes_with(envelope) or _embeds(properties):
                    break
                envelope = other
            messages.append(Published(envelope, event.body_bytes()))
        run = events[at : at + len(messages)]
        transaction = session.transactions.get(method.channel)
        if transaction is None:
            self._deliver(peer, run, messages, host)
        else:
            _ = messages[0].keys  # refused now, not when the transaction commits
            for event, published in zip(run, messages, strict=True):
                transaction.add((event.detach(), published), published.size)
        return at + len(messages)

    @staticmethod
    def _envelope(
        properties: amqp091.BasicProperties, exchange: Exchange, routing_key: str, session: Session, host: Router
    ) -> Envelope:
        """The envelope of a message. Raises Refusal."""
        if properties.user_id is not None and properties.user_id != session.user:
            raise Refusal(
                PRECONDITION,
                f"user_id property set to '{properties.user_id!s}' but authenticated user was '{session.user}'",
            )
        expiration = None if properties.expiration is None else str(properties.expiration)
        if expiration is not None and not (expiration.isdecimal() and int(expiration) <= LONGEST):
            raise Refusal(PRECONDITION, f"invalid expiration '{expiration}'")
        octets = properties.encode()
        return Envelope(
            octets,
            exchange.name,
            routing_key,
            None if expiration is None else int(expiration),
            properties.priority or 0,
            # without the bytes that they were read from; BCC is not delivered
            amqp091.BasicProperties.decode(octets) if "BCC" not in (properties.headers or ()) else None,
            host.limits.dialect,
        )

    def _deliver(
        self, peer: Peer, events: Sequence[amqp091.BasicMessage], messages: Sequence[Published], host: Router
    ) -> None:
        """Messages that go the same way. Raises ConversionError before anything has changed."""
        exchange = host.exchanges.get(messages[0].exchange)
        destinations = host.route(exchange, *messages) if exchange is not None else []
        if not destinations:
            host.unroutable += len(messages)
            if events[0].method.mandatory:
                for event in events:
                    self._return(peer, event)  # before its confirm
        if len(messages) == 1 or host.takes(destinations, *messages):
            self._put(peer, events, messages, destinations, host)
        else:
            for event, published in zip(events, messages, strict=True):
                self._put(peer, (event,), (published,), destinations.copy(), host)

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
        self.session(peer).transactions.setdefault(event.channel, Transaction(self._host(peer)))

    def _commit(self, peer: Peer, event: amqp091.TxCommit) -> None:
        session, host = self.session(peer), self._host(peer)
        for message, published in session.transactions[event.channel].end():
            self._deliver(peer, (message,), (published,), host)
        peer.reply(event)

    def _rollback(self, peer: Peer, event: amqp091.TxRollback) -> None:
        self.session(peer).transactions[event.channel].end()

    def _consume(self, peer: Peer, event: amqp091.BasicConsume) -> None:
        channel = self.session(peer).views[event.channel]
        queue = self._host(peer).queue(channel.named(event.queue), peer)
        before = set(channel.consumers)
        session = self.session(peer)
        subscriber = Subscriber(peer, session, channel, event)
        queue.check(subscriber)
        peer.reply(event)
        if channel.state is not ChannelState.OPEN:
            return  # it has been closed meanwhile
        if not event.consumer_tag:
            (subscriber.tag,) = set(channel.consumers) - before
        session.subscriptions[event.channel, subscriber.tag] = queue, subscriber
        queue.insert(subscriber)

    def _cancel(self, peer: Peer, event: amqp091.BasicCancel) -> None:
        self._leave(self.session(peer), event.channel, text_of(event.consumer_tag))

    def _get(self, peer: Peer, event: amqp091.BasicGet) -> None:
        channel = self.session(peer).views[event.channel]
        queue = self._host(peer).queue(channel.named(event.queue), peer)
        while channel.state is ChannelState.OPEN and (item := queue.take()) is not None:
            try:
                properties, body = item.for_amqp091(peer.connection.frame_max)
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
            except LocalProtocolError as error:
                if error.__cause__ is None:  # too much is queued or unacknowledged
                    queue.untake(item)
                    raise Refusal(PRECONDITION, str(error)) from error
                queue.router.dead_letter(queue, item, "rejected", unfit=True)
            else:
                peer.driver.update(events)
                return
        peer.reply(event)

    def _settled(self, peer: Peer, event: Settled) -> None:
        if event.outcome == "requeue":
            self._requeue(event.deliveries)
        elif event.outcome == "discard":
            for delivery in event.deliveries:
                queue, item = delivery.context
                if not queue.gone:
                    queue.router.dead_letter(queue, item, "rejected")
        self._pump_channel(peer, event.channel)

    def _qos(self, peer: Peer, event: amqp091.BasicQos) -> None:
        self._pump_channel(peer, event.channel)

    def _pump_channel(self, peer: Peer, number: int) -> None:
        """There may be room for consumers of a channel."""
        for (channel, _), (queue, subscriber) in list(self.session(peer).subscriptions.items()):
            if channel == number:
                queue.wake(subscriber)

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
        amqp091.TxSelect: _select,
        amqp091.TxCommit: _commit,
        amqp091.TxRollback: _rollback,
        Settled: _settled,
        ChannelOpened: _channel_opened,
        ChannelClosed: _channel_closed,
        Disconnected: _disconnected,
    }
