"""Retained messages for new subscriptions. They are read as the client takes them."""

from __future__ import annotations

import asyncio
from typing import Final

from wirefmt.broker.mqtt.memory import Memory
from wirefmt.broker.mqtt.outgoing import Outgoing
from wirefmt.broker.mqtt.retained import Retained
from wirefmt.broker.mqtt.rights import Rights
from wirefmt.broker.mqtt.values import QUEUED_BYTES, Message, Queued, Subscriber, Subscription
from wirefmt.broker.topics import Sharing, Walk

#: Levels of retained topics that are looked at for new subscriptions in one turn of the event loop.
STEPS: Final = 500


class Walks:
    """The walks of new subscriptions through the retained messages.

    Attributes:
        count: of subscriptions whose retained messages are still to come.
    """

    def __init__(self, retained: Retained, outgoing: Outgoing, rights: Rights, memory: Memory) -> None:
        self.count = 0
        self._retained = retained
        self._outgoing = outgoing
        self._rights = rights
        self._memory = memory
        self._walking: dict[Subscriber, None] = {}  # retained messages can go on to them
        self._steps = STEPS  # left in this turn
        self._turn: asyncio.Handle | None = None

    def close(self) -> None:
        self._walking.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn, self._steps = None, STEPS

    def begin(self, subscription: Subscription, before: Walk[Message] | None = None) -> None:
        """The retained messages of a subscription are to come. `before`: a walk that has begun, and goes on."""
        walk = before if before is not None else Walk(self._retained.tree, subscription.asked.topic_filter)
        subscription.walk, subscription.plain = walk, False
        subscription.subscriber.walks.append(subscription)
        self.count += 1

    def stop(self, subscriber: Subscriber) -> None:
        """The session is over, and so are its subscriptions."""
        self._walking.pop(subscriber, None)
        self._forget(subscriber)
        subscriber.walks.clear()

    def drain(self, subscriber: Subscriber) -> None:
        """Send what waits, as far as possible: what is queued, then retained messages."""
        if self._outgoing.drain(subscriber) and subscriber.walks:
            self._walk(subscriber)

    def bring_forward(self, topic: str, targets: list[Subscription | Sharing[Subscription]]) -> None:
        """A message goes to these. The retained message of its topic that has not arrived yet comes before it."""
        early: set[Subscriber] = set()
        for found in targets:
            if isinstance(found, Sharing) or found.walk is None:
                continue
            subscriber = found.subscriber
            if subscriber.early.get(topic, -1) >= found.walk.number:
                continue
            message = found.walk.ahead(topic)
            queued = self._found(found, topic, message) if message is not None else None
            if queued is not None:
                self._outgoing.deliver(subscriber, queued)
                early.add(subscriber)
        for subscriber in early:
            if topic not in subscriber.early:
                self._memory.keep(subscriber.holder, QUEUED_BYTES)
            subscriber.early[topic] = self._retained.tree.number

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
                queued = self._found(subscription, *found)
                if queued is not None and not self._outgoing.send(subscriber, queued):
                    self._memory.enqueue(subscriber, queued)  # it goes on after this one
                    return
            subscriber.walks.popleft()
            self.end(subscription)
        if not subscriber.walks:
            self._forget(subscriber)

    def _walk_on(self) -> None:
        """The next turn."""
        self._turn, self._steps = None, STEPS
        walking, self._walking = self._walking, {}
        for subscriber in walking:
            if self._steps > 0:
                self.drain(subscriber)
            else:
                self._walking[subscriber] = None

    def _found(self, subscription: Subscription, topic: str, message: Message) -> Queued | None:
        """A retained message for a new subscription. None: it has expired, or the subscription does not get it."""
        if message.expires is not None and message.expires <= asyncio.get_running_loop().time():
            self._retained.drop(topic)
            return None
        asked, subscriber = subscription.asked, subscription.subscriber
        if not self._rights.gets(subscriber.user, topic) or (
            asked.no_local and message.publisher == subscriber.identifier
        ):
            return None
        identifiers = (subscription.identifier,) if subscription.identifier is not None else ()
        qos = min(message.qos, asked.qos)
        return Queued(message, qos, True, identifiers)  # [MQTT-3.3.1-8]

    def _forget(self, subscriber: Subscriber) -> None:
        self._memory.keep(subscriber.holder, -len(subscriber.early) * QUEUED_BYTES)
        subscriber.early.clear()

    def end(self, subscription: Subscription) -> None:
        """All have arrived, or no more are wanted."""
        if subscription.walk is not None:
            subscription.walk = None
            subscription.plain = subscription.identifier is None and not subscription.asked.no_local
            self.count -= 1
