"""Messages to one client: sent, or queued after what waits already."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from wirefmt import mqtt
from wirefmt.broker.mqtt.memory import Memory
from wirefmt.broker.mqtt.options import BrokerOptions
from wirefmt.broker.mqtt.values import EXPIRY, Queued, Subscriber, left_of
from wirefmt.errors import LocalProtocolError
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.events import Pairs
from wirefmt.mqtt.server import Peer
from wirefmt.mqtt.session import Delivery

#: What a copy of a message costs that needs more than `forward`, beside a copy that does not (`Driver.spend`).
COPY: Final = 8


class Outgoing:
    """Sends messages to clients. A message that a client cannot take now is queued. Only `send` publishes.

    Attributes:
        counts: those of the broker.
    """

    def __init__(self, options: BrokerOptions, memory: Memory, counts: Counter[str]) -> None:
        self.options = options
        self.counts = counts
        self._memory = memory

    def deliver(self, subscriber: Subscriber, queued: Queued, taken: bool = False) -> None:
        """Send, or queue after what waits already. `taken`: there was space when it was looked for, perhaps before PUBREC: it is
        queued even if the queue is full now. The memory of the broker is a limit for it, too."""
        if not subscriber.queue and self.send(subscriber, queued):
            return
        peer, options = subscriber.peer, self.options
        if peer is None and not queued.qos:
            return  # QoS 0 is not kept for a client that is away
        if self._memory.full_for(subscriber, queued.message):
            self._expire(subscriber)
        if self._memory.full_for(subscriber, queued.message):
            if options.overflow == "drop_oldest":
                while subscriber.queue and self._memory.full_for(subscriber, queued.message):
                    self._memory.dequeue(subscriber)
                    self.counts["dropped"] += 1
            elif not (options.overflow == "refuse" and queued.qos and taken):
                self.counts["dropped"] += 1
                if options.overflow == "disconnect" and peer is not None:
                    self.counts["slow"] += 1
                    if peer.connection.state is not mqtt.State.CLOSED:
                        peer.close(ReasonCode.QUOTA_EXCEEDED)
                return
        if not self._memory.may_wait(queued.message):
            self.counts["dropped"] += 1
            return
        self._memory.enqueue(subscriber, queued)

    def _expire(self, subscriber: Subscriber) -> None:
        """Drop the messages that have expired while they waited, if there are any [MQTT-3.3.2-5]."""
        now = asyncio.get_running_loop().time()
        if subscriber.expires > now:
            return
        self.counts["expired"] += self._memory.sift(
            subscriber, lambda message: message.expires is None or message.expires > now
        )

    def send(self, subscriber: Subscriber, queued: Queued) -> bool:
        """False: it cannot be sent now."""
        peer, message = subscriber.peer, queued.message
        if peer is None or not peer.ready:
            return False
        connection = peer.connection
        if queued.qos and not connection.send_quota:
            return False
        left: int | None = None
        if message.expires is not None:
            now = asyncio.get_running_loop().time()
            if message.expires <= now:
                self.counts["expired"] += 1
                return True
            left = left_of(message.expires, now)
        try:
            handle = connection.forward(message.packet, queued.qos, -1, queued.retain, left, queued.identifiers)
            if handle is NotImplemented:
                handle = self._publish(peer, queued, left)
            else:
                peer.driver.queued()
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
                self._memory.hold(message)
        return True

    def _publish(self, peer: Peer, queued: Queued, left: int | None) -> Delivery | None:
        """Send what `forward` does not, or raise why it cannot be sent."""
        message = queued.message
        properties: Pairs = ()
        if peer.connection.version == 5:
            properties = (
                *message.properties,
                *([(EXPIRY, left)] if left is not None else ()),
                *(("subscription_identifier", each) for each in queued.identifiers),
            )
        return peer.publish(
            message.topic, message.packet.payload, qos=queued.qos, retain=queued.retain, properties=properties
        )

    def drain(self, subscriber: Subscriber) -> bool:
        """Send what is queued, as far as possible. False: some is left."""
        while subscriber.queue:
            peer = subscriber.peer
            if peer is not None:
                peer.driver.spend(COPY)
            if not self.send(subscriber, subscriber.queue[0]):
                return False
            self._memory.dequeue(subscriber)
        return True

    def settle(self, subscriber: Subscriber, delivery: Delivery) -> None:
        """A message of a shared subscription is acknowledged, or will not be."""
        queued = subscriber.unacknowledged.pop(delivery, None)
        if queued is not None:
            self._memory.let_go(queued.message)
