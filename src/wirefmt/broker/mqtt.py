"""An MQTT broker in memory, the handler of `wirefmt.mqtt.serve`.

::

    broker = Broker()
    async with await mqtt.serve(broker, "127.0.0.1", 1883) as server: ...
    broker.close()

Versions 3.1, 3.1.1 and 5.0. Sections are those of MQTT 5.0.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Any, ClassVar, Final, Literal

from wirefmt import mqtt
from wirefmt.broker.messages import Item, Published
from wirefmt.broker.permissions import Permissions
from wirefmt.broker.requests.mqtt import REQUESTS
from wirefmt.broker.routing import Router
from wirefmt.broker.topics import Sharing, TopicTree
from wirefmt.connection.aio.driver import READY_BYTES
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.convert import Container, topic_of
from wirefmt.errors import ConversionError, EncodeError, LocalProtocolError
from wirefmt.mqtt.events import (
    NOT_AUTHORIZED,
    PACKET_TOO_LARGE,
    QUOTA_EXCEEDED,
    SUCCESS,
    Dropped,
    Event,
    Pairs,
    Released,
    find,
    without,
)
from wirefmt.mqtt.server import Peer
from wirefmt.mqtt.session import NEVER, Session

#: The exchange that MQTT's topics are in.
EXCHANGE: Final = "amq.topic"

NO_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION: Final = 0x11
NOT_VALID: Final = 0x85
BAD_METHOD: Final = 0x8C
TAKEN_OVER: Final = 0x8E

#: Return codes of CONNACK before 5.0 for reason codes; 3 (unavailable) for others.
OLD_CODES: Final = {0x81: 5, 0x84: 1, 0x85: 2, 0x86: 4, 0x87: 5, 0x8A: 5}

#: Topics of the server, and what looks like a shared subscription. Clients do not publish there, those of AMQP neither.
_RESERVED: Final = ("$SYS/", "$share/")


def default_authorise(client: str, deed: str, topic: str) -> int:
    """Everything but publishing where topics are the server's, or where shared filters look like topics."""
    return NOT_AUTHORIZED if deed != "subscribe" and topic.startswith(_RESERVED) else SUCCESS


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Policies and limits of a broker. What clients can make it remember is bounded by them.

    Attributes:
        overlap: a client with several filters that match a message gets "merged": one copy with the highest QoS and all
            Subscription Identifiers, or "each": a copy for each subscription (3.3.4 allows both).
        queue_messages, queue_bytes: what may wait for one client.
        overflow: what happens when a queue is full. "drop_oldest": its oldest messages are dropped. "refuse": a message of QoS
            1 or 2 is refused with 0x97 and goes to nobody; before 5.0 and with QoS 0 the new message is dropped, and so are
            retained messages for a new subscription, messages from AMQP, and those of a shared subscription.
            "disconnect": the slow client is disconnected with 0x97; for a client that is away the new message is dropped.
        retained_messages, retained_bytes: of all retained messages.
        retained_overflow: what happens to a retained message that exceeds them. "refuse": with 0x97. "drop_oldest": topics
            whose message has been retained longest lose it.
        sessions: sessions of clients, connected or not.
        sessions_overflow: what happens to a CONNECT that exceeds them. "refuse": with 0x97. "drop_oldest": the session that
            has been without a connection longest ends; if all are connected, it is refused.
        subscriptions: of one client. Further ones are refused with 0x97.
        session_expiry: seconds; sessions live no longer without a connection. In 5.0 CONNACK says so.
        maximum_keep_alive: seconds, in place of a longer Keep Alive of a client, or of none (5.0); None: the client's.
        maximum_qos: the highest QoS that is granted and (5.0) accepted.
        authenticate: called with CONNECT and the peer; returns a reason code of CONNACK, 0 to accept. It may be a coroutine
            function. With it, a session belongs to the user name of the client that began it.
        authorise: called with the Client Identifier, "publish", "subscribe" or "will", and the topic or filter; returns 0, or
            the reason code to refuse with, as 0x87.
        permissions: what the users may do besides; None: everything.
    """

    overlap: Literal["merged", "each"] = "merged"
    queue_messages: int = 1000
    queue_bytes: int = 1 << 24
    overflow: Literal["drop_oldest", "refuse", "disconnect"] = "drop_oldest"
    retained_messages: int = 100_000
    retained_bytes: int = 1 << 28
    retained_overflow: Literal["refuse", "drop_oldest"] = "refuse"
    sessions: int = 100_000
    sessions_overflow: Literal["refuse", "drop_oldest"] = "refuse"
    subscriptions: int = 10_000
    session_expiry: int = NEVER
    maximum_keep_alive: int | None = None
    maximum_qos: Literal[0, 1, 2] = 2
    authenticate: Callable[[mqtt.Connect, Peer], int | Awaitable[int]] | None = None
    authorise: Callable[[str, str, str], int] = default_authorise
    permissions: Permissions | None = None


#: What `BrokerOptions.authorise` is asked for, by the packet.
_DEEDS: Final = {mqtt.Connect: "will", mqtt.Publish: "publish", mqtt.Subscribe: "subscribe"}


class Message:
    """A message on its way. `expires`: the loop's time; None: never. `publisher`: its Client Identifier."""

    __slots__ = ("expires", "payload", "properties", "publisher", "qos", "retain", "topic")

    def __init__(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        retain: bool = False,
        properties: Pairs = (),
        expires: float | None = None,
        publisher: str | None = None,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = tuple(properties)
        self.expires = expires
        self.publisher = publisher

    @property
    def size(self) -> int:
        """Bytes that count for the limits."""
        return len(self.topic) + len(self.payload) + 64


class Subscription:
    """A filter of one client, with its options."""

    __slots__ = ("asked", "identifier", "plain", "qos", "shared", "subscriber")

    def __init__(self, subscriber: Subscriber, asked: mqtt.Subscription, qos: int, identifier: int | None) -> None:
        self.subscriber = subscriber
        self.asked = mqtt.Subscription(
            asked.topic_filter,
            qos=qos,
            no_local=asked.no_local,
            retain_as_published=asked.retain_as_published,
            retain_handling=asked.retain_handling,
        )
        self.identifier = identifier
        self.shared: tuple[str, str] | None = None  # share name and filter
        self.qos = qos
        self.plain = identifier is None and not asked.no_local  # a message goes on as it is


class Queued:
    """A message that waits for one client. `sharing`: the shared subscription it came by."""

    __slots__ = ("identifiers", "message", "qos", "retain", "sharing")

    def __init__(
        self,
        message: Message,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        sharing: Sharing[Subscription] | None = None,
    ) -> None:
        self.message = message
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.sharing = sharing


class Subscriber:
    """A client's session, with or without a connection: subscriptions, queued messages, its will while that is delayed."""

    __slots__ = (
        "expiry_timer",
        "identifier",
        "peer",
        "queue",
        "queued_bytes",
        "session",
        "subscriptions",
        "user",
        "will",
        "will_timer",
    )

    def __init__(self, identifier: str, session: Session) -> None:
        self.identifier = identifier
        self.session = session
        self.user = ""
        self.peer: Peer | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.queue: deque[Queued] = deque()
        self.queued_bytes = 0
        self.will: Message | None = None
        self.will_timer: asyncio.TimerHandle | None = None
        self.expiry_timer: asyncio.TimerHandle | None = None

    def put(self, queued: Queued) -> None:
        self.queue.append(queued)
        self.queued_bytes += queued.message.size

    def take(self) -> Queued:
        queued = self.queue.popleft()
        self.queued_bytes -= queued.message.size
        return queued


class Broker:
    """Routes messages between clients. Give it to `mqtt.serve`, to several servers if wanted, and close it afterwards.

    Attributes:
        subscribers: sessions by Client Identifier.
        retained: retained messages by topic.
        observe: called with each message that is accepted from MQTT, before it is delivered; None: no observer.
        counts: messages "dropped" from full queues, "expired", "too_large" for a client, "unconvertible" from or to AMQP;
            clients "slow" and disconnected.

    Args:
        options: policies and limits.
        router: what connects it with AMQP: messages go to what is bound to its exchange amq.topic, and those published there
            come to MQTT's subscriptions, "a/b" with the routing key "a.b". None: messages stay within MQTT.
        random: for assigned Client Identifiers; None: the system's.
    """

    def __init__(
        self,
        options: BrokerOptions | None = None,
        *,
        router: Router | None = None,
        random: Random | None = None,
    ) -> None:
        self.options = options or BrokerOptions()
        self.router = router
        self._bindings: Mapping[Any, Any] = {}  # of amq.topic: not empty if messages go there
        if router is not None:
            exchange = router.exchanges[EXCHANGE]
            exchange.sinks.append(self)
            self._bindings = exchange.bindings
        self.subscribers: dict[str, Subscriber] = {}
        self._away: dict[Subscriber, None] = {}  # without a connection, those that went first come first
        self.retained: TopicTree[Message] = TopicTree()
        self.observe: Callable[[Message], object] | None = None
        self.counts: Counter[str] = Counter()
        self._random = random or SystemRandom()
        self._retained_bytes = 0
        self._retained_order: dict[str, None] = {}  # topics, those retained longest first
        self._index: mqtt.TopicIndex[Subscription | Sharing[Subscription]] = mqtt.TopicIndex(4)
        self._shared: dict[tuple[str, str], Sharing[Subscription]] = {}
        self._by_peer: dict[Peer, Subscriber] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Forget everything. Close the servers first, or drop their clients."""
        for subscriber in self.subscribers.values():
            self._stop_timers(subscriber)
            for subscription in subscriber.subscriptions.values():
                self._unsubscribe(subscription)
            subscriber.subscriptions.clear()
        self.subscribers.clear()
        self._away.clear()
        self.retained = TopicTree()
        self._retained_order.clear()
        self._retained_bytes = 0
        self.counts.clear()
        for task in self._tasks:
            task.cancel()

    def publish(self, message: Message) -> int:
        """Route a message of the program's own. Returns the code that a client would get."""
        return self._accept(message)

    # ---- called by the server

    def handle(self, peer: Peer, event: Event) -> None:
        try:
            self._handlers[type(event)](self, peer, event)
        except LocalProtocolError:
            if peer.connection.state is not mqtt.State.CLOSED:
                raise
            # events from before the end: there is no one to answer

    def writable(self, peer: Peer) -> None:
        subscriber = self._by_peer.get(peer)
        if subscriber is not None:
            self._drain(subscriber)

    def closed(self, peer: Peer) -> None:
        pass

    def _ask(self, user: str, client: str, packet: mqtt.Connect | mqtt.Publish | mqtt.Subscribe) -> list[int]:
        """The code to refuse with for each topic and filter that a packet names; 0: it is allowed."""
        kind = type(packet)
        deed = _DEEDS[kind]
        return [self._authorise(user, client, deed, action, name) for action, name, _ in REQUESTS[kind](packet, None)]

    def _authorise(self, user: str, client: str, deed: str, action: str, topic: str) -> int:
        code = self.options.authorise(client, deed, topic)
        if not code and self.options.permissions is not None:
            code = SUCCESS if self.options.permissions.may(user, action, topic) else NOT_AUTHORIZED
        return code

    # ---- CONNECT

    def _on_connect(self, peer: Peer, connect: mqtt.Connect) -> None:
        authenticate = self.options.authenticate
        code = SUCCESS if authenticate is None else authenticate(connect, peer)
        if not inspect.isawaitable(code):
            assert isinstance(code, int)
            self._decide(peer, connect, code)
            return
        later = code

        async def wait() -> None:
            try:
                code = await later
            except Exception as error:
                peer.driver.report(error)
                peer.abort()
                return
            try:
                self._decide(peer, connect, code)
            except LocalProtocolError:  # the client has gone meanwhile
                pass

        task = asyncio.get_running_loop().create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _decide(self, peer: Peer, connect: mqtt.Connect, code: int) -> None:
        five = connect.version == 5
        will = connect.will
        identifier = connect.client_identifier
        if not code and find(connect.properties, "authentication_method") is not None:
            code = BAD_METHOD
        if not code and will is not None:
            (code,) = self._ask(connect.user_name or "", identifier, connect)
        if not code and self.options.authenticate is not None and identifier in self.subscribers:
            # a session belongs to its user: nobody else gets it, ends it, or takes the place of its client
            owner = self.subscribers[identifier].user
            code = SUCCESS if owner == (connect.user_name or "") else NOT_VALID
        if not code and identifier not in self.subscribers and len(self.subscribers) >= self.options.sessions:
            oldest = next(iter(self._away), None) if self.options.sessions_overflow == "drop_oldest" else None
            if oldest is None:
                code = QUOTA_EXCEEDED
            else:
                self._end_session(oldest)
                self.counts["sessions dropped"] += 1
        if code:
            peer.refuse(connect, code if five else OLD_CODES.get(code, 3))
            return
        properties: list[tuple[str, Any]] = []
        if not identifier:
            identifier = self._random.randbytes(10).hex()
            if five:
                properties.append(("assigned_client_identifier", identifier))
        asked = find(connect.properties, "session_expiry_interval", 0)
        if five:
            if asked > self.options.session_expiry:
                properties.append(("session_expiry_interval", self.options.session_expiry))
            longest = self.options.maximum_keep_alive
            if longest is not None and not 0 < connect.keep_alive <= longest:
                properties.append(("server_keep_alive", longest))
            if self.options.maximum_qos < 2:
                properties.append(("maximum_qos", self.options.maximum_qos))
        old = self.subscribers.get(identifier)
        if old is not None and old.peer is not None:
            old.peer.close(TAKEN_OVER)  # [MQTT-3.1.4-3]; its session may end with it, and its will may be published
            old = self.subscribers.get(identifier)
        if old is not None and connect.clean_start:
            self._end_session(old)
            old = None
        try:
            events = peer.connection.accept(connect, old.session if old is not None else None, properties)
        except LocalProtocolError as error:
            if five and isinstance(error.reply, int) and error.reply != PACKET_TOO_LARGE:
                peer.refuse(connect, error.reply)
            else:
                peer.abort()
            return
        session = peer.connection.session
        assert session is not None
        subscriber = old if old is not None else Subscriber(identifier, session)
        session.client_identifier = identifier
        self._stop_timers(subscriber)
        subscriber.will = None  # [MQTT-3.1.3-9]: within the delay it is not published
        subscriber.peer = peer
        subscriber.user = connect.user_name or ""
        if old is not None:
            self._check_rights(subscriber)
        self._away.pop(subscriber, None)
        self.subscribers[identifier] = subscriber
        self._by_peer[peer] = subscriber
        peer.driver.update(events)

    def _check_rights(self, subscriber: Subscriber) -> None:
        """A session goes on: its subscriptions need their rights again, and so do the messages that wait."""
        for topic_filter, subscription in list(subscriber.subscriptions.items()):
            packet = mqtt.Subscribe(packet_identifier=1, subscriptions=[subscription.asked], version=5)
            if any(self._ask(subscriber.user, subscriber.identifier, packet)):
                self._unsubscribe(subscription)
                del subscriber.subscriptions[topic_filter]
        if self.options.permissions is not None:
            waiting = [subscriber.take() for _ in range(len(subscriber.queue))]
            for queued in waiting:
                if self._gets(subscriber, queued.message.topic):
                    subscriber.put(queued)

    def _on_connected(self, peer: Peer, event: Connected) -> None:
        self._drain(self._by_peer[peer])

    def _on_disconnected(self, peer: Peer, event: Disconnected) -> None:
        subscriber = self._by_peer.pop(peer, None)
        if subscriber is None:
            return
        subscriber.peer = None
        loop = asyncio.get_running_loop()
        expiry = min(subscriber.session.expiry_interval, self.options.session_expiry)
        delay = 0
        if event.will is not None:
            delay = find(event.will.properties, "will_delay_interval", 0)
            subscriber.will = self._message(event.will, event.will.topic, subscriber.identifier)
        if not expiry:
            self._end_session(subscriber)
            return
        self._away[subscriber] = None
        if expiry != NEVER:
            subscriber.expiry_timer = loop.call_later(expiry, self._end_session, subscriber)
        if subscriber.will is not None:
            if delay:
                subscriber.will_timer = loop.call_later(delay, self._publish_will, subscriber)
            else:
                self._publish_will(subscriber)

    def _publish_will(self, subscriber: Subscriber) -> None:
        will, subscriber.will = subscriber.will, None
        if will is not None and not self._authorise(
            subscriber.user, subscriber.identifier, "will", "mqtt.publish", will.topic
        ):
            if will.expires is not None:  # its time begins now (3.1.3.2.4)
                will.expires += asyncio.get_running_loop().time()
            self._accept(will)

    def _end_session(self, subscriber: Subscriber) -> None:
        """The session is over: its subscriptions, its queue; a will that waits is published [MQTT-3.1.3-9]."""
        self._stop_timers(subscriber)
        self._away.pop(subscriber, None)
        if self.subscribers.get(subscriber.identifier) is subscriber:
            del self.subscribers[subscriber.identifier]
        for subscription in subscriber.subscriptions.values():
            self._unsubscribe(subscription)
        subscriber.subscriptions.clear()
        self._publish_will(subscriber)
        while subscriber.queue:
            queued = subscriber.take()
            if queued.sharing is not None:  # not begun, so another member may have it [MQTT-4.8.2-4]
                self._deliver_shared(queued.sharing, queued.message)

    def _stop_timers(self, subscriber: Subscriber) -> None:
        for timer in (subscriber.will_timer, subscriber.expiry_timer):
            if timer is not None:
                timer.cancel()
        subscriber.will_timer = subscriber.expiry_timer = None

    # ---- messages

    def _message(self, source: mqtt.Publish | mqtt.Will, topic: str, publisher: str) -> Message:
        properties: Pairs = source.properties
        expires: float | None = None
        if properties:
            expires = find(properties, "message_expiry_interval")
            if expires is not None and isinstance(source, mqtt.Publish):
                expires += asyncio.get_running_loop().time()
            properties = without(properties, "message_expiry_interval", "will_delay_interval")
        payload = source.payload_bytes() if isinstance(source, mqtt.Publish) else bytes(source.payload)
        return Message(topic, payload, source.qos, bool(source.retain), properties, expires, publisher)

    def _on_publish(self, peer: Peer, event: mqtt.Publish) -> None:
        subscriber = self._by_peer[peer]
        client = subscriber.identifier
        permissions = self.options.permissions
        if permissions is None:  # the usual case, and the fast one
            code = self.options.authorise(client, "publish", event.topic_name)
        else:
            (code,) = self._ask(subscriber.user, client, event)
        if not code:
            plain = not (self._bindings or event.retain or event.properties or permissions)
            forwarded = self._forward(client, event) if plain else None
            code = self._take(peer, event, client) if forwarded is None else forwarded
        if event.qos:
            peer.acknowledge(event, code)

    def _take(self, peer: Peer, event: mqtt.Publish, client: str) -> int:
        """Take a message over, and deliver it unless its PUBREL has to come first. Returns the code for its publisher."""
        message = self._message(event, event.topic_name, client)
        if message.qos == 2 and peer.connection.options.qos2_event == "release":
            return self._refusal(message)
        return self._accept(message)

    def _forward(self, client: str, event: mqtt.Publish) -> int | None:
        """Deliver a message that is neither retained nor has properties, without an object for each subscriber. Returns the code
        for its publisher; None: it needs more, and nothing has been done."""
        qos = event.qos
        if qos == 2 or (qos and self.options.overflow == "refuse"):
            return None
        targets = self._index.match(event.topic_name)
        subscribers = {found.subscriber: found.qos for found in targets if type(found) is Subscription and found.plain}
        if len(subscribers) < len(targets):
            return None
        message: Message | None = None
        if self.observe is not None:
            message = self._message(event, event.topic_name, client)
            self.observe(message)
        for subscriber, most in subscribers.items():
            peer = subscriber.peer
            granted = qos and min(qos, most)
            if (
                peer is not None
                and not subscriber.queue
                and (driver := peer.driver).full_since is None
                and peer.connection.forward(event, granted, READY_BYTES) is not NotImplemented
            ):
                driver.queued()
                continue
            if message is None:
                message = self._message(event, event.topic_name, client)
            self._deliver(subscriber, Queued(message, granted, False, ()))
        return SUCCESS if targets else NO_SUBSCRIBERS

    def _on_released(self, peer: Peer, event: Released) -> None:
        self._accept(
            self._message(event.message, event.message.topic_name, self._by_peer[peer].identifier), checked=True
        )

    def _refusal(self, message: Message) -> int:
        """The code to refuse the message with, before anything is done for it; 0: it is taken."""
        if message.retain and message.payload:
            old = self.retained.get(message.topic)
            bytes_after = self._retained_bytes + message.size - (old.size if old is not None else 0)
            if message.size > self.options.retained_bytes or (
                self.options.retained_overflow == "refuse"
                and (
                    bytes_after > self.options.retained_bytes
                    or (old is None and len(self.retained) >= self.options.retained_messages)
                )
            ):
                return QUOTA_EXCEEDED
        if self.options.overflow == "refuse" and message.qos:
            copies: dict[Subscriber, int] = {}
            for found in self._targets(message.topic):
                if isinstance(found, Subscription) and found.asked.qos:
                    before = copies.get(found.subscriber, 0) if self.options.overlap == "each" else 0
                    copies[found.subscriber] = before + 1
            if any(self._full(subscriber, message, count) for subscriber, count in copies.items()):
                return QUOTA_EXCEEDED
        return SUCCESS

    # ---- from and to AMQP

    def wants(self, routing_key: str) -> bool:
        """A message is published to amq.topic: does a subscription match? (`routing.Sink`)"""
        try:
            topic = topic_of(routing_key).decode()
            mqtt.validate_topic_name(topic)
        except (UnicodeError, EncodeError):
            return False  # MQTT has no such topic
        if topic.startswith(_RESERVED):
            return False
        return bool(self._index.match(topic))

    def put(self, item: Item) -> None:
        """A message from amq.topic. One that MQTT cannot carry is counted and dropped."""
        try:
            packet = item.published.container.deliver("mqtt5", qos=1).message
        except ConversionError:
            self.counts["unconvertible"] += 1
        else:
            self._accept(self._message(packet, packet.topic_name, ""), checked=True, crossed=True)

    def _cross(self, message: Message) -> tuple[bool, bool]:
        """Give a message to what is bound to amq.topic. Returns whether something is bound that the message matches, and whether
        a queue was full and has refused it; the others have it then (RabbitMQ).

        Raises ConversionError if AMQP cannot have the message.
        """
        assert self.router is not None
        properties = message.properties
        if message.expires is not None:
            left = max(1, int(message.expires - asyncio.get_running_loop().time() + 0.5))
            properties = (*properties, ("message_expiry_interval", left))
        packet = mqtt.Publish(
            topic_name=message.topic,
            payload=message.payload,
            qos=message.qos,
            retain=message.retain,
            packet_identifier=1 if message.qos else None,
            properties=properties,
            version=5,
        )
        published = Published.of(Container(packet, dialect=self.router.limits.dialect))
        destinations = self.router.route(self.router.exchanges[EXCHANGE], published, besides=self)
        if published.unconvertible:
            self.counts["unconvertible"] += 1
        routed = bool(destinations)
        refused = self.router.refuses(destinations, published)
        self.router.put(destinations, published)
        return routed, refused

    # ---- to the subscriptions

    def _accept(self, message: Message, *, checked: bool = False, crossed: bool = False) -> int:
        """Retain the message, and deliver it. Returns the code for its publisher.

        Args:
            checked: its publisher knows already that it is taken.
            crossed: it comes from AMQP.
        """
        code = SUCCESS if checked else self._refusal(message)
        if code:
            return code
        if self.observe is not None and not crossed:
            self.observe(message)
        routed = False
        if self._bindings and not crossed:
            try:
                routed, refused = self._cross(message)
            except ConversionError:
                self.counts["unconvertible"] += 1
            else:
                code = QUOTA_EXCEEDED if refused else SUCCESS
                if refused and (checked or not message.qos):  # its publisher does not learn it
                    self.counts["dropped"] += 1
        if message.retain:
            self._retain(message)
        targets = self._targets(message.topic)
        if not targets:
            return code or (SUCCESS if routed else NO_SUBSCRIBERS)
        taken = checked and not crossed  # before PUBREL, when there was room
        apart = self.options.overlap == "each" or len(targets) == 1
        merged: dict[Subscriber, Queued] = {}
        shared: list[Sharing[Subscription]] = []
        for found in targets:
            if isinstance(found, Sharing):
                shared.append(found)
            elif not (found.asked.no_local and found.subscriber.identifier == message.publisher):
                identifiers = (found.identifier,) if found.identifier is not None else ()
                queued = self._queued(found, message, identifiers)
                if apart:
                    self._deliver(found.subscriber, queued, taken)
                    continue
                before = merged.get(found.subscriber)
                if before is not None:
                    queued.qos = max(queued.qos, before.qos)
                    queued.retain |= before.retain
                    queued.identifiers = before.identifiers + identifiers
                merged[found.subscriber] = queued
        for subscriber, queued in merged.items():
            self._deliver(subscriber, queued, taken)
        for sharing in shared:  # last: the room that was found is that of the subscribers' own
            self._deliver_shared(sharing, message)
        return code

    def _targets(self, topic: str) -> list[Subscription | Sharing[Subscription]]:
        """What a message of this topic goes to. A shared subscription may have members that do not get it."""
        targets = self._index.match(topic)
        if self.options.permissions is None:
            return targets
        return [found for found in targets if isinstance(found, Sharing) or self._gets(found.subscriber, topic)]

    def _gets(self, subscriber: Subscriber, topic: str) -> bool:
        """May the client have messages of this topic, which a filter of it matches?"""
        permissions = self.options.permissions
        return permissions is None or permissions.may(subscriber.user, "mqtt.subscribe", topic)

    def _queued(self, subscription: Subscription, message: Message, identifiers: tuple[int, ...]) -> Queued:
        asked = subscription.asked
        return Queued(
            message,
            min(message.qos, asked.qos),
            message.retain and asked.retain_as_published,  # [MQTT-3.3.1-12, MQTT-3.3.1-13]
            identifiers,
        )

    def _deliver_shared(self, sharing: Sharing[Subscription], message: Message) -> None:
        """To one member: best one that can take it now, else one that is connected, else one whose session goes on."""

        def able(member: Subscription) -> bool:
            peer = member.subscriber.peer
            return (
                peer is not None
                and not member.subscriber.queue
                and peer.ready
                and bool(peer.connection.send_quota or not min(message.qos, member.asked.qos))
                and gets(member)
            )

        def gets(member: Subscription) -> bool:
            return self._gets(member.subscriber, message.topic)

        member = sharing.choose(able, lambda m: m.subscriber.peer is not None and gets(m), gets)
        if member is not None:
            identifiers = (member.identifier,) if member.identifier is not None else ()
            queued = self._queued(member, message, identifiers)
            queued.sharing = sharing
            self._deliver(member.subscriber, queued)

    def _retain(self, message: Message) -> None:
        self._drop_retained(message.topic)
        if not message.payload:
            return
        options = self.options
        while self._retained_order and (
            len(self.retained) >= options.retained_messages
            or self._retained_bytes + message.size > options.retained_bytes
        ):
            self._drop_retained(next(iter(self._retained_order)))
            self.counts["retained dropped"] += 1
        self.retained.put(message.topic, message)
        self._retained_order[message.topic] = None
        self._retained_bytes += message.size

    def _drop_retained(self, topic: str) -> None:
        old = self.retained.get(topic)
        if old is not None:
            self._retained_bytes -= old.size
            self.retained.discard(topic)
            del self._retained_order[topic]

    # ---- to one client

    def _deliver(self, subscriber: Subscriber, queued: Queued, taken: bool = False) -> None:
        """Send, or queue after what waits already. `taken`: its publisher has PUBREC, so it is queued even if that is full."""
        if not subscriber.queue and self._send(subscriber, queued):
            return
        peer, options = subscriber.peer, self.options
        if peer is None and not queued.qos:
            return  # QoS 0 is not kept for a client that is away
        if self._full(subscriber, queued.message):
            if options.overflow == "drop_oldest":
                while subscriber.queue and self._full(subscriber, queued.message):
                    subscriber.take()
                    self.counts["dropped"] += 1
            elif not (options.overflow == "refuse" and queued.qos and taken):
                self.counts["dropped"] += 1
                if options.overflow == "disconnect" and peer is not None:
                    self.counts["slow"] += 1
                    peer.close(QUOTA_EXCEEDED)
                return
        subscriber.put(queued)

    def _full(self, subscriber: Subscriber, message: Message, copies: int = 1) -> bool:
        return (
            len(subscriber.queue) + copies > self.options.queue_messages
            or subscriber.queued_bytes + copies * message.size > self.options.queue_bytes
        )

    def _send(self, subscriber: Subscriber, queued: Queued) -> bool:
        """False: it cannot be sent now."""
        peer, message = subscriber.peer, queued.message
        if peer is None or not peer.ready:
            return False
        connection = peer.connection
        if queued.qos and not connection.send_quota:
            return False
        properties: Pairs = ()
        if message.expires is not None:
            left = message.expires - asyncio.get_running_loop().time()
            if left <= 0:
                self.counts["expired"] += 1
                return True
        if connection.version == 5:
            properties = message.properties
            if message.expires is not None:
                properties = (*properties, ("message_expiry_interval", max(1, int(left + 0.5))))  # [MQTT-3.3.2-6]
            if queued.identifiers:
                properties = (*properties, *(("subscription_identifier", each) for each in queued.identifiers))
        try:
            peer.publish(message.topic, message.payload, qos=queued.qos, retain=queued.retain, properties=properties)
        except LocalProtocolError as error:
            if error.reply == QUOTA_EXCEEDED:  # too many bytes are queued
                peer.driver.want()
                return False
            # AMQP's message has no form in MQTT; or it is larger than the client accepts [MQTT-3.1.2-25], or that has gone
            self.counts["unconvertible" if error.__cause__ is not None else "too_large"] += 1
        return True

    def _drain(self, subscriber: Subscriber) -> None:
        """Send what waits, as far as possible."""
        while subscriber.queue and self._send(subscriber, subscriber.queue[0]):
            subscriber.take()

    def _on_acknowledged(self, peer: Peer, event: Acknowledged | WindowOpened | Dropped) -> None:
        subscriber = self._by_peer.get(peer)
        if subscriber is not None and subscriber.queue:
            self._drain(subscriber)

    # ---- subscriptions

    def _on_subscribe(self, peer: Peer, event: mqtt.Subscribe) -> None:
        subscriber = self._by_peer[peer]
        identifier = find(event.properties, "subscription_identifier")
        codes: list[int] = []
        retained: list[Subscription] = []
        answers = self._ask(subscriber.user, subscriber.identifier, event)
        for asked, code in zip(event.subscriptions, answers, strict=True):
            topic_filter = asked.topic_filter
            shared = mqtt.parse_shared(topic_filter, event.version)
            before = subscriber.subscriptions.get(topic_filter)
            if code:
                codes.append(code)
                continue
            if before is None and len(subscriber.subscriptions) >= self.options.subscriptions:
                codes.append(QUOTA_EXCEEDED)
                continue
            subscription = Subscription(subscriber, asked, min(asked.qos, self.options.maximum_qos), identifier)
            subscription.shared = shared
            if before is not None:
                self._unsubscribe(before)
            subscriber.subscriptions[topic_filter] = subscription
            if shared is not None:
                sharing = self._shared.get(shared)
                if sharing is None:
                    sharing = self._shared[shared] = Sharing()
                    self._index.add(shared[1], sharing)
                sharing.members.append(subscription)
            else:
                self._index.add(topic_filter, subscription)
                if asked.retain_handling == 0 or (asked.retain_handling == 1 and before is None):
                    retained.append(subscription)
            codes.append(subscription.asked.qos)
        if event.version == 3:
            codes = [min(code, 2) if code < 0x80 else 0 for code in codes]  # 3.1 has no code for a refusal
        peer.grant(event, codes)
        for subscription in retained:
            self._send_retained(subscription)

    def _send_retained(self, subscription: Subscription) -> None:
        identifiers = (subscription.identifier,) if subscription.identifier is not None else ()
        now = asyncio.get_running_loop().time()
        for topic, message in list(self.retained.match(subscription.asked.topic_filter)):
            if message.expires is not None and message.expires <= now:
                self._drop_retained(topic)
                continue
            if not self._gets(subscription.subscriber, topic):
                continue
            qos = min(message.qos, subscription.asked.qos)
            self._deliver(subscription.subscriber, Queued(message, qos, True, identifiers))  # [MQTT-3.3.1-8]

    def _on_unsubscribe(self, peer: Peer, event: mqtt.Unsubscribe) -> None:
        subscriber = self._by_peer[peer]
        codes: list[int] = []
        for topic_filter in event.topic_filters:
            subscription = subscriber.subscriptions.pop(topic_filter, None)
            if subscription is not None:
                self._unsubscribe(subscription)
            codes.append(SUCCESS if subscription is not None else NO_SUBSCRIPTION)
        peer.grant(event, codes if event.version == 5 else ())

    def _unsubscribe(self, subscription: Subscription) -> None:
        if subscription.shared is None:
            self._index.discard(subscription.asked.topic_filter, subscription)
            return
        sharing = self._shared[subscription.shared]
        sharing.members.remove(subscription)
        if not sharing.members:
            del self._shared[subscription.shared]
            self._index.discard(subscription.shared[1], sharing)

    def _ignore(self, peer: Peer, event: Event) -> None:
        pass

    _handlers: ClassVar[dict[type[Any], Callable[[Broker, Peer, Any], None]]] = {
        mqtt.Connect: _on_connect,
        Connected: _on_connected,
        mqtt.Publish: _on_publish,
        Released: _on_released,
        mqtt.Subscribe: _on_subscribe,
        mqtt.Unsubscribe: _on_unsubscribe,
        Acknowledged: _on_acknowledged,
        WindowOpened: _on_acknowledged,
        Dropped: _on_acknowledged,
        mqtt.Auth: _ignore,
        Disconnected: _on_disconnected,
    }
