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
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from random import Random, SystemRandom
from typing import Any, ClassVar, Final, Literal

from wirefmt import mqtt
from wirefmt.broker.figures import FIGURES, Figures, Traffic
from wirefmt.broker.limits import Refusal
from wirefmt.broker.messages import Item, Published
from wirefmt.broker.permissions import Permissions
from wirefmt.broker.requests.mqtt import REQUESTS
from wirefmt.broker.routing import Router
from wirefmt.broker.shares import UNOWNED, Holder, Shares
from wirefmt.broker.topics import Sharing, TopicTree, Walk
from wirefmt.connection.aio.driver import READY_BYTES, WORK
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.convert import Container, topic_of
from wirefmt.errors import ConversionError, EncodeError, LocalProtocolError
from wirefmt.mqtt.codes import ReasonCode, ReturnCode
from wirefmt.mqtt.events import Dropped, Event, Pairs, Released, find, without
from wirefmt.mqtt.server import Peer
from wirefmt.mqtt.session import NEVER, Delivery, Session
from wirefmt.mqtt.spec import FAILURE

#: The exchange that MQTT's topics are in.
EXCHANGE: Final = "amq.topic"

#: Where bridges say whether they are connected.
BRIDGES: Final = "$SYS/broker/connection/+/state"

#: Bytes that an entry costs besides its strings: a session, a subscription, a message and its place in a queue, a level of a
#: retained topic, a property.
SESSION_BYTES: Final = 3000
SUBSCRIPTION_BYTES: Final = 700
MESSAGE_BYTES: Final = 300
QUEUED_BYTES: Final = 100
LEVEL_BYTES: Final = 450
PROPERTY_BYTES: Final = 250

#: What a copy of a message costs that needs more than `forward`, and a filter of SUBSCRIBE, beside a copy that does not
#: (`Driver.spend`).
COPY: Final = 8
FILTER: Final = 8

#: Levels of retained topics that are looked at for new subscriptions in one turn of the event loop.
STEPS: Final = 500


#: Return codes of CONNACK before 5.0 for reason codes; SERVER_UNAVAILABLE for others.
OLD_CODES: Final[Mapping[int, ReturnCode]] = {
    ReasonCode.MALFORMED_PACKET: ReturnCode.NOT_AUTHORIZED,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: ReturnCode.UNACCEPTABLE_PROTOCOL_VERSION,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: ReturnCode.IDENTIFIER_REJECTED,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: ReturnCode.BAD_USER_NAME_OR_PASSWORD,
    ReasonCode.NOT_AUTHORIZED: ReturnCode.NOT_AUTHORIZED,
    ReasonCode.BANNED: ReturnCode.NOT_AUTHORIZED,
}

#: Read for each message: on Python 3.11 an attribute of an enum takes some 0.1 us.
_SUCCESS, _NO_SUBSCRIBERS = ReasonCode.SUCCESS, ReasonCode.NO_MATCHING_SUBSCRIBERS

#: Topics of the server, and what looks like a shared subscription. Clients do not publish there, those of AMQP neither.
_RESERVED: Final = ("$SYS/", "$share/")


def default_authorise(client: str, deed: str, topic: str) -> int:
    """Everything but publishing where topics are the server's, or where shared filters look like topics. A bridge may say there
    whether it is connected, as with mosquitto."""
    if deed == "subscribe" or not topic.startswith(_RESERVED):
        return ReasonCode.SUCCESS
    return ReasonCode.SUCCESS if mqtt.matches(BRIDGES, topic) else ReasonCode.NOT_AUTHORIZED


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Policies and limits of a broker. What clients can make it remember is bounded by them.

    Attributes:
        overlap: a client with several filters that match a message gets "merged": one copy with the highest QoS and all
            Subscription Identifiers, or "each": a copy for each subscription (3.3.4 allows both).
        memory: bytes of all that is kept: sessions, subscriptions, wills, queued and retained messages, with what an entry costs.
            Beyond it a CONNECT, a SUBSCRIBE and a retained message are refused with 0x97, and so is a message that has to wait
            (`overflow="refuse"`), or it is dropped.
        queue_messages, queue_bytes: what may wait for one client.
        overflow: what happens when a queue is full. "drop_oldest": its oldest messages are dropped. "refuse": a message of QoS
            1 or 2 is refused with 0x97 and goes to nobody; before 5.0 and with QoS 0 the new message is dropped, and so are
            retained messages for a new subscription, messages from AMQP, and those of a shared subscription.
            "disconnect": the slow client is disconnected with 0x97; for a client that is away the new message is dropped.
        retain_available: False: no message is retained. In 5.0 CONNACK says so, and one with RETAIN is a fault of its client;
            before 5.0 it is delivered.
        retained_messages, retained_bytes: of all retained messages. Bytes include topic, properties and what an entry costs.
        client_share, user_share: the part of `memory`, `retained_messages` and `retained_bytes` that one client, and one user,
            may have, and of `sessions` that one user may have (`wirefmt.broker.shares`); what exceeds it is refused. A message is
            its publisher's.
        retained_overflow: what happens to a retained message that exceeds them. "refuse": with 0x97. "drop_oldest": topics
            whose message has been retained longest lose it.
        sessions: sessions of clients, connected or not.
        sessions_overflow: what happens to a CONNECT that exceeds them. "refuse": with 0x97. "drop_oldest": the session that
            has been without a connection longest ends; if all are connected, it is refused.
        subscriptions: of one client. Further ones are refused with 0x97.
        topic_levels: of a topic (more are refused with 0x90) or a filter (0x8F), as in mosquitto.
        session_expiry: seconds; sessions live no longer without a connection. In 5.0 CONNACK says so.
        maximum_keep_alive: seconds, in place of a longer Keep Alive of a client, or of none (5.0); None: the client's.
        maximum_qos: the highest QoS that is granted and (5.0) accepted.
        sys_interval: seconds after which the broker's figures are published again below `$SYS`, while somebody subscribes to
            them. 0: never.
        authenticate: called with CONNECT and the peer; returns a reason code of CONNACK, 0 to accept. It may be a coroutine
            function. With it, a session belongs to the user name of the client that began it.
        authorise: called with the Client Identifier, "publish", "subscribe" or "will", and the topic or filter; returns 0, or
            the reason code to refuse with, as 0x87.
        permissions: what the users may do besides; None: everything.
    """

    overlap: Literal["merged", "each"] = "merged"
    memory: int = 1 << 30
    queue_messages: int = 1000
    queue_bytes: int = 1 << 24
    overflow: Literal["drop_oldest", "refuse", "disconnect"] = "drop_oldest"
    retain_available: bool = True
    retained_messages: int = 100_000
    retained_bytes: int = 1 << 28
    client_share: float = 0.25
    user_share: float = 0.5
    retained_overflow: Literal["refuse", "drop_oldest"] = "refuse"
    sessions: int = 100_000
    sessions_overflow: Literal["refuse", "drop_oldest"] = "refuse"
    subscriptions: int = 10_000
    topic_levels: int = 200
    session_expiry: int = NEVER
    maximum_keep_alive: int | None = None
    maximum_qos: Literal[0, 1, 2] = 2
    sys_interval: float = 10.0
    authenticate: Callable[[mqtt.Connect, Peer], int | Awaitable[int]] | None = None
    authorise: Callable[[str, str, str], int] = default_authorise
    permissions: Permissions | None = None


#: What `BrokerOptions.authorise` is asked for, by the packet.
_DEEDS: Final = {mqtt.Connect: "will", mqtt.Publish: "publish", mqtt.Subscribe: "subscribe"}


class Message:
    """A message on its way. `expires`: the loop's time; None: never. `publisher`: its Client Identifier. `holder`: its owner."""

    __slots__ = (
        "_size",
        "expires",
        "holder",
        "holders",
        "payload",
        "properties",
        "publisher",
        "qos",
        "retain",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        retain: bool = False,
        properties: Pairs = (),
        expires: float | None = None,
        publisher: str | None = None,
        holder: Holder = UNOWNED,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = tuple(properties)
        self.expires = expires
        self.publisher = publisher
        self.holder = holder
        self.holders = 0  # queues and others that keep it: it counts once
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes that count for the limits."""
        if not self._size:
            self._size = MESSAGE_BYTES + len(self.topic) + len(self.payload) + size_of(self.properties)
        return self._size


def size_of(properties: Pairs) -> int:
    """Bytes that count for properties."""
    size = 0
    for _, value in properties:
        size += PROPERTY_BYTES
        if isinstance(value, tuple):
            size += len(value[0]) + len(value[1])
        elif isinstance(value, str | bytes):
            size += len(value)
    return size


def _will_size(will: mqtt.Will) -> int:
    return MESSAGE_BYTES + len(will.topic) + len(will.payload) + size_of(will.properties)


def _levels(topic: str) -> int:
    return topic.count("/") + 1


def _cost(message: Message) -> int:
    """What one more place in a queue costs."""
    return QUEUED_BYTES + (0 if message.holders else message.size)


def _retained_size(message: Message) -> int:
    """Bytes that count for a retained message."""
    return message.size + _levels(message.topic) * LEVEL_BYTES


class Subscription:
    """A filter of one client, with its options."""

    __slots__ = ("asked", "identifier", "plain", "qos", "shared", "subscriber", "walk")

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
        self.walk: Walk[Message] | None = None  # through the retained messages that are still to come

    @property
    def size(self) -> int:
        """Bytes that count for the limits."""
        topic_filter = self.asked.topic_filter
        return SUBSCRIPTION_BYTES + 2 * len(topic_filter) + _levels(topic_filter) * 50


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
    """A client's session, with or without a connection.

    Attributes:
        subscriptions: by filter.
        queue, queued_bytes: messages that wait. `expires`: when the first of them expires at the earliest.
        unacknowledged: QoS 1 messages of shared subscriptions that have been sent.
        expiring: when messages expire that have been sent and are not acknowledged. `held`: the same for those of the client that
            wait for PUBREL, by packet identifier.
        walks: subscriptions whose retained messages are still to come. `early`: topics whose retained message has come before its
            turn, with the last walk that it was part of.
        will: while it is delayed.
        size: bytes that count for the session itself.
        holder: what counts as its own. `routed`: the same in the router.
    """

    __slots__ = (
        "early",
        "expires",
        "expiring",
        "expiry_timer",
        "held",
        "holder",
        "identifier",
        "peer",
        "queue",
        "queued_bytes",
        "routed",
        "session",
        "size",
        "subscriptions",
        "unacknowledged",
        "user",
        "walks",
        "will",
        "will_timer",
    )

    def __init__(self, identifier: str, session: Session, holder: Holder) -> None:
        self.identifier = identifier
        self.session = session
        self.holder = holder
        self.routed = UNOWNED
        self.user = ""
        self.peer: Peer | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.queue: deque[Queued] = deque()
        self.queued_bytes = 0
        self.expires = inf
        self.unacknowledged: dict[Delivery, Queued] = {}
        self.expiring: dict[Delivery, float] = {}
        self.held: dict[int, float] = {}
        self.walks: deque[Subscription] = deque()
        self.early: dict[str, int] = {}
        self.size = 0
        self.will: Message | None = None
        self.will_timer: asyncio.TimerHandle | None = None
        self.expiry_timer: asyncio.TimerHandle | None = None


class Broker:
    """Routes messages between clients. Give it to `mqtt.serve`, to several servers if wanted, and close it afterwards.

    Attributes:
        subscribers: sessions by Client Identifier.
        retained: retained messages by topic.
        observe: called with each message that is accepted from MQTT, before it is delivered; None: no observer.
        counts: messages "dropped" from full queues, "expired", "too_large" for a client, "unconvertible" from or to AMQP;
            clients "slow" and disconnected.
        kept: bytes that count for `BrokerOptions.memory`.

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
        self.kept = 0
        self.shares = Shares(self.options.client_share, self.options.user_share)
        self._work = 0  # copies of messages that have been made, and what else it took
        self._random = random or SystemRandom()
        self._retained_bytes = 0
        self._retained_order: dict[str, None] = {}  # topics, those retained longest first
        self._retained_expires = inf  # the first of them, at the earliest
        self._walking: dict[Subscriber, None] = {}  # retained messages can go on to them
        self._walkers = 0  # subscriptions whose retained messages are still to come
        self._steps = STEPS  # left in this turn
        self._turn: asyncio.Handle | None = None
        self._stored = 0  # messages that something keeps
        self._most_clients = 0
        self._traffic = Traffic()
        self._figures = Figures(self.options.sys_interval, self._values, self._say, self._unsay)
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
        self._retained_bytes = self._stored = self.kept = 0
        self._walking.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn, self._steps = None, STEPS
        self.counts.clear()
        for task in self._tasks:
            task.cancel()

    def publish(self, message: Message) -> int:
        """Route a message of the program's own. Returns the code that a client would get."""
        return self._accept(message)

    # ---- called by the server

    def handle(self, peer: Peer, event: Event) -> None:
        steps = self._handlers[type(event)](self, peer, event)
        if steps is not None:
            peer.driver.later(steps)

    def writable(self, peer: Peer) -> None:
        subscriber = self._by_peer.get(peer)
        if subscriber is not None:
            self._drain(subscriber)

    def closed(self, peer: Peer) -> None:
        pass

    # ---- figures

    def _values(self) -> dict[str, int]:
        """Names below `$SYS/broker/`, and values, as mosquitto's manual has them."""
        connected, total = len(self._by_peer), len(self.subscribers)
        shared = sum(len(sharing.members) for sharing in self._shared.values())
        return {
            "clients/total": total,
            "clients/connected": connected,
            "clients/disconnected": total - connected,
            "clients/maximum": self._most_clients,
            "messages/stored": self._stored,
            "store/messages/count": self._stored,
            "store/messages/bytes": self.kept,
            "retained messages/count": len(self._retained_order),
            "subscriptions/count": sum(len(each.subscriptions) for each in self.subscribers.values()) - shared,
            "shared_subscriptions/count": shared,
            "publish/messages/dropped": self.counts["dropped"],
            **self._traffic.now(peer.connection for peer in self._by_peer),
        }

    def _say(self, topic: str, payload: bytes) -> None:
        """Publish a figure, within MQTT."""
        message = Message(topic, payload, retain=True)
        targets = self._targets(topic)
        if self._walkers:
            self._bring_forward(topic, targets)
        self._drop_retained(topic)
        self.retained.put(topic, message)
        self._route(message, targets, False)

    def _unsay(self, topic: str) -> None:
        if topic not in self._retained_order:
            self.retained.discard(topic)

    # ---- what is kept

    def _has_room(self, size: int, holder: Holder) -> bool:
        memory = self.options.memory
        return self.kept + size <= memory and not self.shares.lacks_bytes(holder, memory, size)

    def _keep(self, size: int, holder: Holder) -> None:
        """So many bytes more, or less, are kept, which are somebody's."""
        self.kept += size
        holder.hold(size)

    def _hold(self, message: Message) -> None:
        """Something keeps the message."""
        if not message.holders:
            self._keep(message.size, message.holder)
            self._stored += 1
        message.holders += 1

    def _let_go(self, message: Message) -> None:
        message.holders -= 1
        if not message.holders:
            self._keep(-message.size, message.holder)
            self._stored -= 1

    def _resize(self, subscriber: Subscriber, size: int) -> None:
        """What the session itself costs."""
        self._keep(size - subscriber.size, subscriber.holder)
        subscriber.size = size

    def _enqueue(self, subscriber: Subscriber, queued: Queued) -> None:
        subscriber.queue.append(queued)
        message = queued.message
        subscriber.queued_bytes += message.size + QUEUED_BYTES
        self._keep(QUEUED_BYTES, subscriber.holder)
        self._hold(message)
        if message.expires is not None and message.expires < subscriber.expires:
            subscriber.expires = message.expires

    def _dequeue(self, subscriber: Subscriber) -> Queued:
        queued = subscriber.queue.popleft()
        subscriber.queued_bytes -= queued.message.size + QUEUED_BYTES
        self._keep(-QUEUED_BYTES, subscriber.holder)
        self._let_go(queued.message)
        if not subscriber.queue:
            subscriber.expires = inf
        return queued

    def _ask(self, user: str, client: str, packet: mqtt.Connect | mqtt.Publish | mqtt.Subscribe) -> list[int]:
        """The code to refuse with for each topic and filter that a packet names; 0: it is allowed."""
        kind = type(packet)
        deed = _DEEDS[kind]
        return [self._authorise(user, client, deed, action, name) for action, name, _ in REQUESTS[kind](packet, None)]

    def _authorise(self, user: str, client: str, deed: str, action: str, topic: str) -> int:
        code = self.options.authorise(client, deed, topic)
        if not code and self.options.permissions is not None:
            code = (
                ReasonCode.SUCCESS if self.options.permissions.may(user, action, topic) else ReasonCode.NOT_AUTHORIZED
            )
        return code

    # ---- CONNECT

    def _on_connect(self, peer: Peer, connect: mqtt.Connect) -> Iterator[int] | None:
        authenticate = self.options.authenticate
        code = ReasonCode.SUCCESS if authenticate is None else authenticate(connect, peer)
        if not inspect.isawaitable(code):
            assert isinstance(code, int)
            return self._decide(peer, connect, code)
        later = code

        async def wait() -> None:
            try:
                code = await later
            except Exception as error:
                peer.driver.report(error)
                peer.abort()
                return
            try:
                for _ in self._decide(peer, connect, code) or ():
                    await asyncio.sleep(0)
            except LocalProtocolError:  # the client has gone meanwhile
                pass

        task = asyncio.get_running_loop().create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return None

    def _decide(self, peer: Peer, connect: mqtt.Connect, code: int) -> Iterator[int] | None:
        five = connect.version == 5
        will = connect.will
        identifier = connect.client_identifier
        if not code and find(connect.properties, "authentication_method") is not None:
            code = ReasonCode.BAD_AUTHENTICATION_METHOD
        if not code and will is not None:
            (code,) = self._ask(connect.user_name or "", identifier, connect)
        if not code and self.options.authenticate is not None and identifier in self.subscribers:
            # a session belongs to its user: nobody else gets it, ends it, or takes the place of its client
            owner = self.subscribers[identifier].user
            code = ReasonCode.SUCCESS if owner == (connect.user_name or "") else ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
        if not code and will is not None and _levels(will.topic) > self.options.topic_levels:
            code = ReasonCode.TOPIC_NAME_INVALID
        size = SESSION_BYTES + size_of(connect.properties) + (_will_size(will) if will is not None else 0)
        known = self.subscribers.get(identifier)
        if known is not None:
            holder = known.holder
        else:
            holder = self.shares.holder((connect.user_name or "") if self.options.authenticate is not None else None)
            if not code and self.shares.lacks(holder, "sessions", self.options.sessions):
                code = ReasonCode.QUOTA_EXCEEDED
        if not code and not self._has_room(size - (known.size if known is not None else 0), holder):
            code = ReasonCode.QUOTA_EXCEEDED
        if not code and identifier not in self.subscribers and len(self.subscribers) >= self.options.sessions:
            oldest = next(iter(self._away), None) if self.options.sessions_overflow == "drop_oldest" else None
            if oldest is None:
                code = ReasonCode.QUOTA_EXCEEDED
            else:
                self._end_session(oldest)
                self.counts["sessions dropped"] += 1
        if code:
            peer.refuse(connect, code if five else OLD_CODES.get(code, ReturnCode.SERVER_UNAVAILABLE))
            return None
        if known is not None and known.peer is not None:
            return self._take_over(peer, connect, size, holder)
        self._let_in(peer, connect, size, holder)
        return None

    def _take_over(self, peer: Peer, connect: mqtt.Connect, size: int, holder: Holder) -> Iterator[int]:
        """End the client's connection before [MQTT-3.1.4-3]; its session may end with it, and its will may be published. What it
        has sent, and waits for its turn, comes first."""
        while (known := self.subscribers.get(connect.client_identifier)) is not None and known.peer is not None:
            if known.peer.connection.state is not mqtt.State.CLOSED:
                known.peer.close(ReasonCode.SESSION_TAKEN_OVER)
            else:
                yield WORK
        self._let_in(peer, connect, size, holder)

    def _let_in(self, peer: Peer, connect: mqtt.Connect, size: int, holder: Holder) -> None:
        five, identifier = connect.version == 5, connect.client_identifier
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
            if not self.options.retain_available:
                properties.append(("retain_available", 0))
        old = self.subscribers.get(identifier)
        if old is not None and connect.clean_start:
            self._end_session(old)
            old = None
        if old is not None:
            self._age(old)
        try:
            events = peer.connection.accept(connect, old.session if old is not None else None, properties)
        except LocalProtocolError as error:
            if five and isinstance(error.reply, int) and error.reply != ReasonCode.PACKET_TOO_LARGE:
                peer.refuse(connect, error.reply)
            else:
                peer.abort()
            return
        session = peer.connection.session
        assert session is not None
        if old is not None:
            subscriber = old
        else:
            subscriber = Subscriber(identifier, session, holder)
            holder.count("sessions")
            if self.router is not None:
                named = self.options.authenticate is not None
                subscriber.routed = self.router.shares.holder((connect.user_name or "") if named else None)
        session.client_identifier = identifier
        self._stop_timers(subscriber)
        subscriber.will = None  # [MQTT-3.1.3-9]: within the delay it is not published
        self._resize(subscriber, size)
        subscriber.peer = peer
        subscriber.user = connect.user_name or ""
        if old is not None:
            self._check_rights(subscriber)
        self._away.pop(subscriber, None)
        self.subscribers[identifier] = subscriber
        self._by_peer[peer] = subscriber
        self._most_clients = max(self._most_clients, len(self._by_peer))
        peer.driver.update(events)

    def _age(self, subscriber: Subscriber) -> None:
        """Before messages are sent again: what is left of their time [MQTT-3.3.2-6]. Those of QoS 2 do not expire any more
        [MQTT-4.3.3-7]."""
        session, now = subscriber.session, asyncio.get_running_loop().time()
        for delivery, expires in list(subscriber.expiring.items()):
            del subscriber.expiring[delivery]
            if (
                session.outgoing.get(delivery.packet_identifier) is not delivery
                or (message := delivery.message) is None
            ):
                continue
            if expires <= now and delivery.qos == 1:
                session.discard(delivery)
                self.counts["expired"] += 1
                self._forget_shared(subscriber, delivery)
                continue
            left = ("message_expiry_interval", max(1, int(expires - now + 0.5)))
            amended = session.amend(delivery, (*without(message.properties, left[0]), left))
            subscriber.expiring[amended] = expires
            if delivery in subscriber.unacknowledged:
                subscriber.unacknowledged[amended] = subscriber.unacknowledged.pop(delivery)

    def _forget_shared(self, subscriber: Subscriber, delivery: Delivery) -> None:
        queued = subscriber.unacknowledged.pop(delivery, None)
        if queued is not None:
            self._let_go(queued.message)

    def _check_rights(self, subscriber: Subscriber) -> None:
        """A session goes on: its subscriptions need their rights again, and so do the messages that wait."""
        for topic_filter, subscription in list(subscriber.subscriptions.items()):
            packet = mqtt.Subscribe(packet_identifier=1, subscriptions=[subscription.asked], version=5)
            if any(self._ask(subscriber.user, subscriber.identifier, packet)):
                self._unsubscribe(subscription)
                del subscriber.subscriptions[topic_filter]
        if self.options.permissions is not None:
            waiting = [self._dequeue(subscriber) for _ in range(len(subscriber.queue))]
            for queued in waiting:
                if self._gets(subscriber, queued.message.topic):
                    self._enqueue(subscriber, queued)

    def _on_connected(self, peer: Peer, event: Connected) -> None:
        self._drain(self._by_peer[peer])

    def _on_disconnected(self, peer: Peer, event: Disconnected) -> None:
        self._traffic.end(peer.connection)
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
        will = subscriber.will.size if subscriber.will is not None and delay else 0
        self._resize(subscriber, SESSION_BYTES + will + subscriber.session.outgoing_bytes)
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
        if will is not None and subscriber.size:  # else its session is over
            self._resize(subscriber, max(SESSION_BYTES, subscriber.size - will.size))
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
        self._walking.pop(subscriber, None)
        self._forget_early(subscriber)
        if subscriber.size:
            subscriber.holder.count("sessions", -1)
        self._resize(subscriber, 0)
        if self.subscribers.get(subscriber.identifier) is subscriber:
            del self.subscribers[subscriber.identifier]
        for subscription in subscriber.subscriptions.values():
            self._unsubscribe(subscription)
        subscriber.subscriptions.clear()
        subscriber.walks.clear()
        self._publish_will(subscriber)
        # another member of a share gets what has not been acknowledged; of QoS 2, what has not been sent (4.8.2, [MQTT-4.8.2-5])
        shared = list(subscriber.unacknowledged.values())
        for queued in shared:
            self._let_go(queued.message)
        subscriber.unacknowledged.clear()
        while subscriber.queue:
            shared.append(self._dequeue(subscriber))
        for queued in shared:
            if queued.sharing is not None:
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
        known = self.subscribers.get(publisher)
        holder = known.holder if known is not None else UNOWNED
        return Message(topic, payload, source.qos, bool(source.retain), properties, expires, publisher, holder)

    def _on_publish(self, peer: Peer, event: mqtt.Publish) -> None:
        subscriber = self._by_peer[peer]
        client = subscriber.identifier
        permissions = self.options.permissions
        if permissions is None:  # the usual case, and the fast one
            code = self.options.authorise(client, "publish", event.topic_name)
        else:
            (code,) = self._ask(subscriber.user, client, event)
        if not code and event.topic_name.count("/") >= self.options.topic_levels:
            code = ReasonCode.TOPIC_NAME_INVALID
        if not code:
            plain = not (self._bindings or event.retain or event.properties or permissions)
            forwarded = self._forward(peer, client, event) if plain else None
            if forwarded is None:
                before = self._work
                code = self._take(peer, event, client)
                peer.driver.spend(self._work - before)
            else:
                code = forwarded
        if event.qos:
            peer.acknowledge(event, code)

    def _take(self, peer: Peer, event: mqtt.Publish, client: str) -> int:
        """Take a message over, and deliver it unless its PUBREL has to come first. Returns the code for its publisher."""
        message = self._message(event, event.topic_name, client)
        if message.qos == 2 and peer.connection.options.qos2_event == "release":
            code = self._refusal(message)
            if not code and message.expires is not None and event.packet_identifier is not None:
                self._by_peer[peer].held[event.packet_identifier] = message.expires
            return code
        return self._accept(message)

    def _forward(self, peer: Peer, client: str, event: mqtt.Publish) -> int | None:
        """Deliver a message that is neither retained nor has properties, without an object for each subscriber. Returns the code
        for its publisher; None: it needs more, and nothing has been done."""
        qos = event.qos
        if qos == 2 or (qos and self.options.overflow == "refuse"):
            return None
        targets = self._index.match(event.topic_name)
        subscribers = {found.subscriber: found.qos for found in targets if type(found) is Subscription and found.plain}
        if len(subscribers) < len(targets):
            return None
        peer.driver.spend(len(subscribers))
        message: Message | None = None
        if self.observe is not None:
            message = self._message(event, event.topic_name, client)
            self.observe(message)
        for subscriber, most in subscribers.items():
            there = subscriber.peer
            granted = qos and min(qos, most)
            if (
                there is not None
                and not subscriber.queue
                and (driver := there.driver).full_since is None
                and there.connection.forward(event, granted, READY_BYTES) is not NotImplemented
            ):
                driver.queued()
                continue
            if message is None:
                message = self._message(event, event.topic_name, client)
            self._deliver(subscriber, Queued(message, granted, False, ()))
        return _SUCCESS if targets else _NO_SUBSCRIBERS

    def _on_released(self, peer: Peer, event: Released) -> None:
        subscriber = self._by_peer[peer]
        message = self._message(event.message, event.message.topic_name, subscriber.identifier)
        if message.expires is not None:  # it has waited for PUBREL, too
            message.expires = subscriber.held.pop(event.message.packet_identifier or 0, message.expires)
        before = self._work
        self._accept(message, checked=True)
        peer.driver.spend(self._work - before)

    def _refusal(self, message: Message) -> int:
        """The code to refuse the message with, before anything is done for it; 0: it is taken."""
        if message.retain and message.payload and self.options.retain_available:
            size = _retained_size(message)
            if size > self.options.retained_bytes or self._retained_lacks(message, size):
                return ReasonCode.QUOTA_EXCEEDED
            if self.options.retained_overflow == "refuse" and not self._retained_fits(message, size):
                self._expire_retained()
                if not self._retained_fits(message, size):
                    return ReasonCode.QUOTA_EXCEEDED
        if self.options.overflow == "refuse" and message.qos:
            copies: dict[Subscriber, int] = {}
            for found in self._targets(message.topic):
                if isinstance(found, Subscription) and found.asked.qos:
                    before = copies.get(found.subscriber, 0) if self.options.overlap == "each" else 0
                    copies[found.subscriber] = before + 1
            if any(self._full(subscriber, message, count) for subscriber, count in copies.items()):
                return ReasonCode.QUOTA_EXCEEDED
            if copies and not self._has_room(_cost(message), message.holder):
                return ReasonCode.QUOTA_EXCEEDED
        return _SUCCESS

    # ---- from and to AMQP

    def wants(self, routing_key: str) -> bool:
        """A message is published to amq.topic: does a subscription match? (`routing.Sink`)"""
        try:
            topic = topic_of(routing_key)
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
        publisher = self.subscribers.get(message.publisher or "")
        published = Published.of(
            Container(packet, dialect=self.router.limits.dialect),
            publisher.routed if publisher is not None else UNOWNED,
        )
        before = self.router.work
        destinations = self.router.route(self.router.exchanges[EXCHANGE], published, besides=self)
        self._work += len(destinations) + self.router.work - before
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
        code = _SUCCESS if checked else self._refusal(message)
        if code:
            return code
        if self.observe is not None and not crossed:
            self.observe(message)
        routed = False
        if self._bindings and not crossed:
            try:
                routed, refused = self._cross(message)
            except (ConversionError, Refusal):
                self.counts["unconvertible"] += 1
            else:
                code = ReasonCode.QUOTA_EXCEEDED if refused else _SUCCESS
                if refused and (checked or not message.qos):  # its publisher does not learn it
                    self.counts["dropped"] += 1
        targets = self._targets(message.topic)
        if self._walkers:
            self._bring_forward(message.topic, targets)
        if message.retain and self.options.retain_available:
            self._retain(message)
        if not targets:
            return code or (_SUCCESS if routed else _NO_SUBSCRIBERS)
        self._route(message, targets, checked and not crossed)  # before PUBREL, when there was room
        return code

    def _route(self, message: Message, targets: list[Subscription | Sharing[Subscription]], taken: bool) -> None:
        """Give a message to these subscriptions. `taken`: see `_deliver`."""
        self._work += COPY * len(targets)
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

    def _retained_fits(self, message: Message, size: int) -> bool:
        old = self.retained.get(message.topic)
        more = size - (_retained_size(old) if old is not None else 0)
        return (
            self._retained_bytes + more <= self.options.retained_bytes
            and (old is not None or len(self._retained_order) < self.options.retained_messages)
            and self.kept + more <= self.options.memory
        )

    def _retained_lacks(self, message: Message, size: int) -> bool:
        """Has the publisher its share of retained messages?"""
        options, shares, holder = self.options, self.shares, message.holder
        old = self.retained.get(message.topic)
        if old is not None and old.holder is holder:
            size -= _retained_size(old)
        elif shares.lacks(holder, "retained_messages", options.retained_messages):
            return True
        return bool(
            shares.lacks(holder, "retained_bytes", options.retained_bytes, size)
            or shares.lacks_bytes(holder, options.memory, size)
        )

    def _retain(self, message: Message) -> None:
        if not message.payload:
            self._drop_retained(message.topic)
            return
        size = _retained_size(message)
        if self._retained_lacks(message, size):  # a will, say, which cannot be refused
            self.counts["retained dropped"] += 1
            self._drop_retained(message.topic)
            return
        if not self._retained_fits(message, size):
            self._expire_retained()
        while self._retained_order and not self._retained_fits(message, size):
            self._drop_retained(next(iter(self._retained_order)))
            self.counts["retained dropped"] += 1
        self._drop_retained(message.topic)
        self.retained.put(message.topic, message)
        self._retained_order[message.topic] = None
        self._count_retained(message, size, 1)
        self._hold(message)
        if message.expires is not None:
            self._retained_expires = min(self._retained_expires, message.expires)

    def _count_retained(self, message: Message, size: int, sign: int) -> None:
        self._retained_bytes += size
        self._keep(size - sign * message.size, message.holder)
        message.holder.count("retained_messages", sign)
        message.holder.count("retained_bytes", size)

    def _drop_retained(self, topic: str) -> None:
        if topic in self._retained_order:
            old = self.retained.get(topic)
            assert old is not None
            self._count_retained(old, -_retained_size(old), -1)
            self._let_go(old)
            self.retained.discard(topic)
            del self._retained_order[topic]

    def _expire_retained(self) -> None:
        """Drop all retained messages that have expired, if there are any."""
        now = asyncio.get_running_loop().time()
        if self._retained_expires > now:
            return
        self._retained_expires = inf
        for topic in list(self._retained_order):
            message = self.retained.get(topic)
            assert message is not None
            if message.expires is not None:
                if message.expires <= now:
                    self._drop_retained(topic)
                else:
                    self._retained_expires = min(self._retained_expires, message.expires)

    # ---- retained messages for a new subscription

    def _walk(self, subscriber: Subscriber) -> None:
        """Send retained messages as long as the client takes them, in steps: other clients are served between them."""
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._walk_on)
        while subscriber.walks and subscriber.peer is not None:
            subscription = subscriber.walks[0]
            walk = subscription.walk
            while walk is not None and not walk.done:
                if self._steps <= 0:
                    self._walking[subscriber] = None
                    return
                self._steps -= 1
                found = walk.step()
                if found is None or subscriber.early.get(found[0], -1) >= walk.number:
                    continue
                queued = self._retained_for(subscription, *found)
                if queued is not None and not self._send(subscriber, queued):
                    self._enqueue(subscriber, queued)  # it goes on after this one
                    return
            subscriber.walks.popleft()
            self._end_walk(subscription)
        if not subscriber.walks:
            self._forget_early(subscriber)

    def _walk_on(self) -> None:
        """The next turn."""
        self._turn, self._steps = None, STEPS
        walking, self._walking = self._walking, {}
        for subscriber in walking:
            if self._steps > 0:
                self._drain(subscriber)
            else:
                self._walking[subscriber] = None

    def _retained_for(self, subscription: Subscription, topic: str, message: Message) -> Queued | None:
        """A retained message for a new subscription. None: it has expired, or the subscription does not get it."""
        if message.expires is not None and message.expires <= asyncio.get_running_loop().time():
            self._drop_retained(topic)
            return None
        asked, subscriber = subscription.asked, subscription.subscriber
        if not self._gets(subscriber, topic) or (asked.no_local and message.publisher == subscriber.identifier):
            return None
        identifiers = (subscription.identifier,) if subscription.identifier is not None else ()
        qos = min(message.qos, asked.qos)
        return Queued(message, qos, True, identifiers)  # [MQTT-3.3.1-8]

    def _bring_forward(self, topic: str, targets: list[Subscription | Sharing[Subscription]]) -> None:
        """A message goes to these. The retained message of its topic that has not come yet comes before it."""
        early: set[Subscriber] = set()
        for found in targets:
            if isinstance(found, Sharing) or found.walk is None:
                continue
            subscriber = found.subscriber
            if subscriber.early.get(topic, -1) >= found.walk.number:
                continue
            message = found.walk.ahead(topic)
            queued = self._retained_for(found, topic, message) if message is not None else None
            if queued is not None:
                self._deliver(subscriber, queued)
                early.add(subscriber)
        for subscriber in early:
            if topic not in subscriber.early:
                self._keep(QUEUED_BYTES, subscriber.holder)
            subscriber.early[topic] = self.retained.number

    def _forget_early(self, subscriber: Subscriber) -> None:
        self._keep(-len(subscriber.early) * QUEUED_BYTES, subscriber.holder)
        subscriber.early.clear()

    def _end_walk(self, subscription: Subscription) -> None:
        if subscription.walk is not None:
            subscription.walk = None
            subscription.plain = subscription.identifier is None and not subscription.asked.no_local
            self._walkers -= 1

    # ---- to one client

    def _deliver(self, subscriber: Subscriber, queued: Queued, taken: bool = False) -> None:
        """Send, or queue after what waits already. `taken`: its publisher has PUBREC, so it is queued even if that is full."""
        if not subscriber.queue and self._send(subscriber, queued):
            return
        peer, options = subscriber.peer, self.options
        if peer is None and not queued.qos:
            return  # QoS 0 is not kept for a client that is away
        if self._full(subscriber, queued.message):
            self._expire_queued(subscriber)
        if self._full(subscriber, queued.message):
            if options.overflow == "drop_oldest":
                while subscriber.queue and self._full(subscriber, queued.message):
                    self._dequeue(subscriber)
                    self.counts["dropped"] += 1
            elif not (options.overflow == "refuse" and queued.qos and taken):
                self.counts["dropped"] += 1
                if options.overflow == "disconnect" and peer is not None:
                    self.counts["slow"] += 1
                    if peer.connection.state is not mqtt.State.CLOSED:
                        peer.close(ReasonCode.QUOTA_EXCEEDED)
                return
        if not (taken or self._has_room(_cost(queued.message), queued.message.holder)):
            self.counts["dropped"] += 1
            return
        self._enqueue(subscriber, queued)

    def _full(self, subscriber: Subscriber, message: Message, copies: int = 1) -> bool:
        return (
            len(subscriber.queue) + copies > self.options.queue_messages
            or subscriber.queued_bytes + copies * (message.size + QUEUED_BYTES) > self.options.queue_bytes
        )

    def _expire_queued(self, subscriber: Subscriber) -> None:
        """Drop the messages that have expired while they waited, if there are any [MQTT-3.3.2-5]."""
        now = asyncio.get_running_loop().time()
        if subscriber.expires > now:
            return
        waiting = [self._dequeue(subscriber) for _ in range(len(subscriber.queue))]
        for queued in waiting:
            if queued.message.expires is not None and queued.message.expires <= now:
                self.counts["expired"] += 1
            else:
                self._enqueue(subscriber, queued)

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
            handle = peer.publish(
                message.topic, message.payload, qos=queued.qos, retain=queued.retain, properties=properties
            )
        except LocalProtocolError as error:
            if connection.state is mqtt.State.CLOSED:  # its end is among the events that wait
                return False
            if error.reply == ReasonCode.QUOTA_EXCEEDED:  # too many bytes are queued
                peer.driver.want()
                return False
            # AMQP's message has no form in MQTT; or it is larger than the client accepts [MQTT-3.1.2-25], or that has gone
            self.counts["unconvertible" if error.__cause__ is not None else "too_large"] += 1
        else:
            if handle is not None and message.expires is not None:
                subscriber.expiring[handle] = message.expires
            if queued.sharing is not None and handle is not None and queued.qos == 1:
                subscriber.unacknowledged[handle] = queued
                self._hold(message)
        return True

    def _drain(self, subscriber: Subscriber) -> None:
        """Send what waits, as far as possible."""
        while subscriber.queue:
            peer = subscriber.peer
            if peer is not None:
                peer.driver.spend(COPY)
            if not self._send(subscriber, subscriber.queue[0]):
                return
            self._dequeue(subscriber)
        if subscriber.walks:
            self._walk(subscriber)

    def _on_acknowledged(self, peer: Peer, event: Acknowledged | WindowOpened | Dropped) -> None:
        subscriber = self._by_peer.get(peer)
        if subscriber is None:
            return
        if (subscriber.expiring or subscriber.unacknowledged) and not isinstance(event, WindowOpened):
            assert isinstance(event.handle, Delivery)  # a server sends no requests
            subscriber.expiring.pop(event.handle, None)
            self._forget_shared(subscriber, event.handle)
        if subscriber.queue:
            self._drain(subscriber)

    # ---- subscriptions

    def _on_subscribe(self, peer: Peer, event: mqtt.Subscribe) -> Iterator[int]:
        subscriber = self._by_peer[peer]
        identifier = find(event.properties, "subscription_identifier")
        codes: list[int] = []
        answers = self._ask(subscriber.user, subscriber.identifier, event)
        for asked, code in zip(event.subscriptions, answers, strict=True):
            if codes:
                yield FILTER
            topic_filter = asked.topic_filter
            try:
                shared = mqtt.parse_shared(topic_filter)  # of all versions, as mosquitto
            except EncodeError:
                codes.append(ReasonCode.TOPIC_FILTER_INVALID)
                continue
            if peer.connection.bridge and shared is None:
                asked = mqtt.Subscription(topic_filter, qos=asked.qos, no_local=True, retain_as_published=True)
            before = subscriber.subscriptions.get(topic_filter)
            topics = shared[1] if shared else topic_filter
            if code:
                codes.append(code)
                continue
            if _levels(topics) > self.options.topic_levels:
                codes.append(ReasonCode.TOPIC_FILTER_INVALID)
                continue
            subscription = Subscription(subscriber, asked, min(asked.qos, self.options.maximum_qos), identifier)
            subscription.shared = shared
            if before is None and (
                len(subscriber.subscriptions) >= self.options.subscriptions
                or not self._has_room(subscription.size, subscriber.holder)
            ):
                codes.append(ReasonCode.QUOTA_EXCEEDED)
                continue
            walk: Walk[Message] | None = None
            if before is not None:
                walk = before.walk
                self._unsubscribe(before)
            self._keep(subscription.size, subscriber.holder)
            subscriber.subscriptions[topic_filter] = subscription
            if topics.startswith(FIGURES):
                self._figures.watch()
            if shared is not None:
                sharing = self._shared.get(shared)
                if sharing is None:
                    sharing = self._shared[shared] = Sharing()
                    self._index.add(shared[1], sharing)
                sharing.members.append(subscription)
            else:
                self._index.add(topic_filter, subscription)
                if asked.retain_handling == 0 or (asked.retain_handling == 1 and before is None):
                    walk = Walk(self.retained, topic_filter)
                if walk is not None:  # one that has begun goes on
                    subscription.walk, subscription.plain = walk, False
                    subscriber.walks.append(subscription)
                    self._walkers += 1
            codes.append(subscription.asked.qos)
        if event.version == 3:
            codes = [min(code, 2) if code < FAILURE else 0 for code in codes]  # 3.1 has no code for a refusal
        peer.grant(event, codes)
        if subscriber.walks and not subscriber.queue:
            self._walk(subscriber)

    def _on_unsubscribe(self, peer: Peer, event: mqtt.Unsubscribe) -> Iterator[int]:
        subscriber = self._by_peer[peer]
        codes: list[int] = []
        for topic_filter in event.topic_filters:
            if codes:
                yield FILTER
            subscription = subscriber.subscriptions.pop(topic_filter, None)
            if subscription is not None:
                self._unsubscribe(subscription)
            codes.append(ReasonCode.SUCCESS if subscription is not None else ReasonCode.NO_SUBSCRIPTION_EXISTED)
        peer.grant(event, codes if event.version == 5 else ())

    def _unsubscribe(self, subscription: Subscription) -> None:
        self._keep(-subscription.size, subscription.subscriber.holder)
        topics = subscription.shared[1] if subscription.shared else subscription.asked.topic_filter
        if topics.startswith(FIGURES):
            self._figures.unwatch()
        if subscription.shared is None:
            self._index.discard(topics, subscription)
            self._end_walk(subscription)
            return
        sharing = self._shared[subscription.shared]
        sharing.members.remove(subscription)
        if not sharing.members:
            del self._shared[subscription.shared]
            self._index.discard(subscription.shared[1], sharing)

    def _ignore(self, peer: Peer, event: Event) -> None:
        pass

    _handlers: ClassVar[dict[type[Any], Callable[[Broker, Peer, Any], Iterator[int] | None]]] = {
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
