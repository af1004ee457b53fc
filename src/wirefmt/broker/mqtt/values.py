"""What the MQTT broker keeps: messages, subscriptions, sessions, and what they count for its limits."""

from __future__ import annotations

import asyncio
from collections import deque
from enum import IntEnum
from math import inf
from typing import Final

from wirefmt import mqtt
from wirefmt.broker.shares import UNOWNED, Holder
from wirefmt.broker.topics import Sharing, Walk
from wirefmt.mqtt.events import Pairs, find, without
from wirefmt.mqtt.server import Peer
from wirefmt.mqtt.session import Delivery, Session, changed

#: Bytes that an entry costs besides its strings: a session, a subscription, a message and its place in a queue, a level of a
#: retained topic, a property.
SESSION_BYTES: Final = 3000
SUBSCRIPTION_BYTES: Final = 700
MESSAGE_BYTES: Final = 390
QUEUED_BYTES: Final = 100
LEVEL_BYTES: Final = 450
PROPERTY_BYTES: Final = 250

EXPIRY: Final = "message_expiry_interval"


class Message:
    """A message on its way: the PUBLISH that came. It goes to its subscribers as it is on the wire.

    Args: those of a message of the program's own, as for `mqtt.Publish`. `Message.of` makes one of a packet.

    Raises EncodeError if MQTT has no such message.

    Attributes:
        packet: the PUBLISH, which holds only its own bytes. Its Message Expiry Interval is what it was when it came.
        topic, qos, retain: of the packet; they are read for each subscriber.
        expires: the loop's time; None: never. Of a will that waits: its Message Expiry Interval.
        publisher: its Client Identifier. holder: its owner.
        holders: queues and others that keep it: it counts once.
        size: bytes that count for the limits.
    """

    __slots__ = ("expires", "holder", "holders", "packet", "publisher", "qos", "retain", "size", "topic")

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
        packet = mqtt.Publish(
            topic_name=topic,
            payload=payload,
            qos=qos,
            retain=retain,
            packet_identifier=1 if qos else None,
            properties=properties,
            version=5,
        )
        self._take(packet, expires, publisher, holder)

    @classmethod
    def of(cls, packet: mqtt.Publish, expires: float | None, publisher: str, holder: Holder = UNOWNED) -> Message:
        """The message of a packet, with its full topic."""
        made = cls.__new__(cls)
        made._take(packet.detach(), expires, publisher, holder)
        return made

    def _take(self, packet: mqtt.Publish, expires: float | None, publisher: str | None, holder: Holder) -> None:
        self.packet = packet
        self.topic = packet.topic_name
        self.qos = packet.qos
        self.retain = packet.retain
        self.expires = expires
        self.publisher = publisher
        self.holder = holder
        self.holders = 0
        self.size = MESSAGE_BYTES + len(self.topic) + len(packet.encode())

    @property
    def payload(self) -> bytes:
        """The payload, copied."""
        return self.packet.payload_bytes()

    @property
    def properties(self) -> Pairs:
        """The properties but Message Expiry Interval."""
        return without(self.packet.properties, EXPIRY)

    def at(self, now: float) -> mqtt.Publish:
        """The packet with what is left of its time. `now`: the loop's time. Raises EncodeError if only LAX accepts the packet."""
        left = None if self.expires is None else left_of(self.expires, now)
        packet = self.packet
        if find(packet.properties, EXPIRY) == left:
            return packet
        return changed(packet, self.properties if left is None else (*self.properties, (EXPIRY, left)))


def left_of(expires: float, now: float) -> int:
    """The Message Expiry Interval of a message that expires then [MQTT-3.3.2-6], which has four bytes."""
    return min(max(1, int(expires - now + 0.5)), 0xFFFF_FFFF)


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


def will_size(will: mqtt.Will) -> int:
    return MESSAGE_BYTES + len(will.topic) + len(will.payload) + size_of(will.properties)


def levels(topic: str) -> int:
    return topic.count("/") + 1


def retained_size(message: Message) -> int:
    """Bytes that count for a retained message."""
    return message.size + levels(message.topic) * LEVEL_BYTES


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
        return SUBSCRIPTION_BYTES + 2 * len(topic_filter) + levels(topic_filter) * 50


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


class Rank(IntEnum):
    """Who of the members of a share gets a message first."""

    ABLE = 0  # can take one of every QoS now
    CONNECTED = 1
    AWAY = 2

    @classmethod
    def of(cls, subscriber: Subscriber) -> Rank:
        peer = subscriber.peer
        if peer is None:
            return cls.AWAY
        return cls.ABLE if not subscriber.queue and peer.ready and peer.connection.send_quota else cls.CONNECTED


class Subscriber:
    """A client's session, with or without a connection.

    Attributes:
        subscriptions: by filter.
        queue, queued_bytes: messages that wait. `expires`: when the first of them expires at the earliest.
        unacknowledged: QoS 1 messages of shared subscriptions that have been sent.
        expiring: when messages expire that have been sent and are not acknowledged. `held`: the same for those of the client that
            wait for PUBREL, by packet identifier.
        walks: subscriptions whose retained messages are still to come. `early`: topics whose retained message arrived before its
            turn, with the last walk that it was part of.
        passed_over: shared subscriptions that are not among the able members of their shares (`Rank`).
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
        "passed_over",
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
        self.passed_over: dict[Subscription, None] = {}
        self.size = 0
        self.will: Message | None = None
        self.will_timer: asyncio.TimerHandle | None = None
        self.expiry_timer: asyncio.TimerHandle | None = None


class Clients:
    """The sessions of a broker.

    Attributes:
        subscribers: by Client Identifier.
        by_peer: those with a connection.
        away: those without one; who went first comes first.
        most: the most that have had a connection at the same time.
    """

    def __init__(self) -> None:
        self.subscribers: dict[str, Subscriber] = {}
        self.by_peer: dict[Peer, Subscriber] = {}
        self.away: dict[Subscriber, None] = {}
        self.most = 0
