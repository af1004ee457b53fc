"""Subscriptions: which of them a message goes to, and SUBSCRIBE and UNSUBSCRIBE (3.8, 3.10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from wirefmt import mqtt
from wirefmt.broker.mqtt.figures import FIGURES, Figures
from wirefmt.broker.mqtt.memory import Memory
from wirefmt.broker.mqtt.options import BrokerOptions
from wirefmt.broker.mqtt.rights import Rights
from wirefmt.broker.mqtt.values import Clients, Message, Rank, Subscriber, Subscription, levels
from wirefmt.broker.mqtt.walks import Walks
from wirefmt.broker.topics import Sharing, Walk
from wirefmt.errors import EncodeError
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.events import find
from wirefmt.mqtt.server import Peer
from wirefmt.mqtt.spec import FAILURE

#: What a filter of SUBSCRIBE costs (`Driver.spend`).
FILTER: Final = 8


#: Topics whose plain ways are kept, the longest topic of them, and the most subscribers.
WAYS: Final = 1024
WAY_TOPIC: Final = 256
WAY_SUBSCRIBERS: Final = 16

#: What a message goes to.
Target: TypeAlias = "Subscription | Sharing[Subscription]"


class Index:
    """Subscriptions by filter, and what has been found for the topics of late: clients publish to the same ones again."""

    def __init__(self) -> None:
        self._filters: mqtt.TopicIndex[Target] = mqtt.TopicIndex(4)
        self._ways: dict[str, dict[Subscriber, int]] = {}
        self.match = self._filters.match

    def add(self, topic_filter: str, target: Target) -> None:
        self._ways.clear()
        self._filters.add(topic_filter, target)

    def discard(self, topic_filter: str, target: Target) -> None:
        self._ways.clear()
        self._filters.discard(topic_filter, target)

    def plain_way(self, topic: str) -> dict[Subscriber, int] | None:
        """The subscribers whose subscriptions match a topic, each with one, and its QoS. None: not all of these are plain."""
        way = self._ways.get(topic)
        if way is None:
            targets = self.match(topic)
            way = {found.subscriber: found.qos for found in targets if type(found) is Subscription and found.plain}
            if len(way) < len(targets):
                return None
            if len(way) <= WAY_SUBSCRIBERS and len(topic) <= WAY_TOPIC:
                if len(self._ways) >= WAYS:
                    self._ways.clear()
                self._ways[topic] = way
        return way


class Subscriptions:
    """The subscriptions of all clients.

    Attributes:
        index: by filter.
        shared: by the name of the share and its filter.
    """

    def __init__(
        self,
        options: BrokerOptions,
        clients: Clients,
        memory: Memory,
        rights: Rights,
        walks: Walks,
        figures: Figures,
    ) -> None:
        self.options = options
        self.index = Index()
        self.shared: dict[tuple[str, str], Sharing[Subscription]] = {}
        self._clients = clients
        self._memory = memory
        self._rights = rights
        self._walks = walks
        self._figures = figures

    def allowed(self, topic: str, targets: list[Target]) -> list[Target]:
        """Those of the targets that may have a message of this topic. A shared subscription may have members that may not."""
        if self.options.permissions is None:
            return targets
        gets = self._rights.gets
        return [found for found in targets if isinstance(found, Sharing) or gets(found.subscriber.user, topic)]

    def subscribe(self, peer: Peer, event: mqtt.Subscribe) -> Iterator[int]:
        """SUBSCRIBE, in steps."""
        subscriber = self._clients.by_peer[peer]
        identifier = find(event.properties, "subscription_identifier")
        codes: list[int] = []
        answers = self._rights.ask(subscriber.user, subscriber.identifier, event)
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
            if levels(topics) > self.options.topic_levels:
                codes.append(ReasonCode.TOPIC_FILTER_INVALID)
                continue
            subscription = Subscription(subscriber, asked, min(asked.qos, self.options.maximum_qos), identifier)
            subscription.shared = shared
            if before is None and (
                len(subscriber.subscriptions) >= self.options.subscriptions
                or not self._memory.has_capacity(subscriber.holder, subscription.size)
            ):
                codes.append(ReasonCode.QUOTA_EXCEEDED)
                continue
            walk: Walk[Message] | None = None
            if before is not None:
                walk = before.walk
                self.remove(before)
            self._memory.keep(subscriber.holder, subscription.size)
            subscriber.subscriptions[topic_filter] = subscription
            if topics.startswith(FIGURES):
                self._figures.watch()
            if shared is not None:
                sharing = self.shared.get(shared)
                if sharing is None:
                    sharing = self.shared[shared] = Sharing(len(Rank))
                    self.index.add(shared[1], sharing)
                sharing.add(subscription, subscriber.user)
            else:
                self.index.add(topic_filter, subscription)
                if asked.retain_handling == 0 or (asked.retain_handling == 1 and before is None):
                    self._walks.begin(subscription)
                elif walk is not None:
                    self._walks.begin(subscription, walk)
            codes.append(subscription.asked.qos)
        if event.version == 3:
            codes = [min(code, 2) if code < FAILURE else 0 for code in codes]  # 3.1 has no code for a refusal
        peer.grant(event, codes)
        if subscriber.walks and not subscriber.queue:
            self._walks.drain(subscriber)

    def unsubscribe(self, peer: Peer, event: mqtt.Unsubscribe) -> Iterator[int]:
        """UNSUBSCRIBE, in steps."""
        subscriber = self._clients.by_peer[peer]
        codes: list[int] = []
        for topic_filter in event.topic_filters:
            if codes:
                yield FILTER
            subscription = subscriber.subscriptions.pop(topic_filter, None)
            if subscription is not None:
                self.remove(subscription)
            codes.append(ReasonCode.SUCCESS if subscription is not None else ReasonCode.NO_SUBSCRIPTION_EXISTED)
        peer.grant(event, codes if event.version == 5 else ())

    def remove(self, subscription: Subscription) -> None:
        """It has ended. What has its filter is the caller's."""
        self._memory.keep(subscription.subscriber.holder, -subscription.size)
        topics = subscription.shared[1] if subscription.shared else subscription.asked.topic_filter
        if topics.startswith(FIGURES):
            self._figures.unwatch()
        if subscription.shared is None:
            self.index.discard(topics, subscription)
            self._walks.end(subscription)
            return
        sharing = self.shared[subscription.shared]
        sharing.discard(subscription)
        subscription.subscriber.passed_over.pop(subscription, None)
        if not sharing:
            del self.shared[subscription.shared]
            self.index.discard(subscription.shared[1], sharing)

    def restore(self, subscriber: Subscriber) -> int:
        """It may be able to take messages of its shared subscriptions again. Returns for how many of them."""
        if Rank.of(subscriber) is not Rank.ABLE:
            return 0
        passed_over, subscriber.passed_over = subscriber.passed_over, {}
        for subscription in passed_over:
            assert subscription.shared is not None
            self.shared[subscription.shared].move(subscription, Rank.ABLE)
        return len(passed_over)

    def leave(self, subscriber: Subscriber) -> None:
        """Its connection is over: other members of its shared subscriptions come first."""
        for subscription in subscriber.subscriptions.values():
            if subscription.shared is not None:
                self.shared[subscription.shared].move(subscription, Rank.AWAY)
                subscriber.passed_over[subscription] = None

    def rejoin(self, subscription: Subscription) -> None:
        """Its session goes on, perhaps with another user."""
        assert subscription.shared is not None
        sharing = self.shared[subscription.shared]
        sharing.discard(subscription)
        sharing.add(subscription, subscription.subscriber.user)

    def remove_all(self, subscriber: Subscriber) -> None:
        """The session is over."""
        for subscription in subscriber.subscriptions.values():
            self.remove(subscription)
        subscriber.subscriptions.clear()
