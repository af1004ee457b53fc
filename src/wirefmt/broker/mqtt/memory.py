"""What is kept, and whose it is."""

from __future__ import annotations

from math import inf

from wirefmt.broker.mqtt.options import BrokerOptions
from wirefmt.broker.mqtt.values import QUEUED_BYTES, Message, Queued, Subscriber
from wirefmt.broker.shares import Holder, Shares


class Memory:
    """Counts what the broker keeps, and what of it is each client's.

    Attributes:
        kept: bytes that count for `BrokerOptions.memory`.
        stored: messages that something keeps.
        shares: of the clients.
    """

    def __init__(self, options: BrokerOptions) -> None:
        self.options = options
        self.shares = Shares(options.client_share, options.user_share)
        self.kept = self.stored = 0

    def clear(self) -> None:
        self.kept = self.stored = 0

    def has_room(self, size: int, holder: Holder) -> bool:
        """May so many bytes more be kept?"""
        memory = self.options.memory
        return self.kept + size <= memory and not self.shares.lacks_bytes(holder, memory, size)

    def keep(self, size: int, holder: Holder) -> None:
        """So many bytes more, or less, are kept, which are somebody's."""
        self.kept += size
        holder.hold(size)

    def hold(self, message: Message) -> None:
        """Something keeps the message."""
        if not message.holders:
            self.keep(message.size, message.holder)
            self.stored += 1
        message.holders += 1

    def let_go(self, message: Message) -> None:
        """It keeps it no more."""
        message.holders -= 1
        if not message.holders:
            self.keep(-message.size, message.holder)
            self.stored -= 1

    def resize(self, subscriber: Subscriber, size: int) -> None:
        """What the session itself costs."""
        self.keep(size - subscriber.size, subscriber.holder)
        subscriber.size = size

    def enqueue(self, subscriber: Subscriber, queued: Queued) -> None:
        """A message waits for a client."""
        subscriber.queue.append(queued)
        message = queued.message
        subscriber.queued_bytes += message.size + QUEUED_BYTES
        self.keep(QUEUED_BYTES, subscriber.holder)
        self.hold(message)
        if message.expires is not None and message.expires < subscriber.expires:
            subscriber.expires = message.expires

    def dequeue(self, subscriber: Subscriber) -> Queued:
        """The next message that waits, which does so no more."""
        queued = subscriber.queue.popleft()
        subscriber.queued_bytes -= queued.message.size + QUEUED_BYTES
        self.keep(-QUEUED_BYTES, subscriber.holder)
        self.let_go(queued.message)
        if not subscriber.queue:
            subscriber.expires = inf
        return queued
