"""What is kept, and whose it is."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from wirefmt.broker.mqtt.options import BrokerOptions
from wirefmt.broker.mqtt.values import QUEUED_BYTES, Message, Queued, Subscriber
from wirefmt.broker.shares import Holder, Shares


class Memory(Shares):
    """Counts what the broker keeps, and what of it is each client's. A message counts once, whatever keeps it."""

    def __init__(self, options: BrokerOptions) -> None:
        super().__init__(options.client_share, options.user_share)
        self.options = options

    def clear(self) -> None:
        self.bytes = self.messages = 0

    def has_capacity(self, holder: Holder, size: int) -> bool:
        """May so many bytes more be kept (`BrokerOptions.memory`)?"""
        return self.fits(holder, self.options.memory, size)

    def hold(self, message: Message) -> None:
        """Something keeps the message."""
        if not message.holders:
            self.keep(message.holder, message.size, 1)
        message.holders += 1

    def let_go(self, message: Message) -> None:
        """Count that a holder has released the message."""
        message.holders -= 1
        if not message.holders:
            self.keep(message.holder, -message.size, -1)

    def resize(self, subscriber: Subscriber, size: int) -> None:
        """What the session itself costs."""
        self.keep(subscriber.holder, size - subscriber.size)
        subscriber.size = size

    def may_wait(self, message: Message) -> bool:
        """May the message wait in one more queue, as far as the memory goes?"""
        return self.has_capacity(message.holder, QUEUED_BYTES + (0 if message.holders else message.size))

    def full_for(self, subscriber: Subscriber, message: Message, copies: int = 1) -> bool:
        """Would the client's queue have to drop messages to take these copies?"""
        return (
            len(subscriber.queue) + copies > self.options.queue_messages
            or subscriber.queued_bytes + copies * (message.size + QUEUED_BYTES) > self.options.queue_bytes
        )

    def enqueue(self, subscriber: Subscriber, queued: Queued) -> None:
        """A message waits for a client."""
        subscriber.queue.append(queued)
        message = queued.message
        subscriber.queued_bytes += message.size + QUEUED_BYTES
        self.keep(subscriber.holder, QUEUED_BYTES)
        self.hold(message)
        if message.expires is not None and message.expires < subscriber.expires:
            subscriber.expires = message.expires

    def dequeue(self, subscriber: Subscriber) -> Queued:
        """Take the next message from the queue of a subscriber."""
        queued = subscriber.queue.popleft()
        subscriber.queued_bytes -= queued.message.size + QUEUED_BYTES
        self.keep(subscriber.holder, -QUEUED_BYTES)
        self.let_go(queued.message)
        if not subscriber.queue:
            subscriber.expires = inf
        return queued

    def sift(self, subscriber: Subscriber, wanted: Callable[[Message], bool]) -> int:
        """Only these messages go on to wait. Returns how many do not."""
        waiting = [self.dequeue(subscriber) for _ in range(len(subscriber.queue))]
        for queued in waiting:
            if wanted(queued.message):
                self.enqueue(subscriber, queued)
        return len(waiting) - len(subscriber.queue)
