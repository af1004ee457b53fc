"""Retained messages (3.3.1.3), within their limits."""

from __future__ import annotations

import asyncio
from collections import Counter
from math import inf

from wirefmt.broker.mqtt.memory import Memory
from wirefmt.broker.mqtt.options import BrokerOptions
from wirefmt.broker.mqtt.values import Message, retained_size
from wirefmt.broker.topics import TopicTree


class Retained:
    """The retained messages of a broker.

    Attributes:
        tree: by topic. It has the figures below `$SYS`, too, which do not count.
        order: topics, those retained longest first.
        bytes: of them.
        counts: those of the broker.
    """

    def __init__(self, options: BrokerOptions, memory: Memory, counts: Counter[str]) -> None:
        self.options = options
        self.counts = counts
        self.tree: TopicTree[Message] = TopicTree()
        self.order: dict[str, None] = {}
        self.bytes = 0
        self._expires = inf  # the first of them, at the earliest
        self._memory = memory

    def clear(self) -> None:
        self.tree = TopicTree()
        self.order.clear()
        self.bytes = 0

    def refuses(self, message: Message) -> bool:
        """Is there no space to retain the message?"""
        size = retained_size(message)
        if size > self.options.retained_bytes or self._lacks(message, size):
            return True
        if self.options.retained_overflow != "refuse" or self._fits(message, size):
            return False
        self._expire()
        return not self._fits(message, size)

    def put(self, message: Message) -> None:
        """Retain a message, if there is space. One without payload removes what is retained."""
        if not len(message.packet.payload):
            self.drop(message.topic)
            return
        size = retained_size(message)
        if self._lacks(message, size):  # a will, say, which cannot be refused
            self.counts["retained dropped"] += 1
            self.drop(message.topic)
            return
        if not self._fits(message, size):
            self._expire()
        while self.order and not self._fits(message, size):
            self.drop(next(iter(self.order)))
            self.counts["retained dropped"] += 1
        self.drop(message.topic)
        self.tree.put(message.topic, message)
        self.order[message.topic] = None
        self._count(message, size, 1)
        self._memory.hold(message)
        if message.expires is not None:
            self._expires = min(self._expires, message.expires)

    def drop(self, topic: str) -> None:
        """Nothing is retained for the topic any more."""
        if topic in self.order:
            old = self.tree.get(topic)
            assert old is not None
            self._count(old, -retained_size(old), -1)
            self._memory.let_go(old)
            self.tree.discard(topic)
            del self.order[topic]

    def _fits(self, message: Message, size: int) -> bool:
        old = self.tree.get(message.topic)
        more = size - (retained_size(old) if old is not None else 0)
        return (
            self.bytes + more <= self.options.retained_bytes
            and (old is not None or len(self.order) < self.options.retained_messages)
            and self._memory.bytes + more <= self.options.memory
        )

    def _lacks(self, message: Message, size: int) -> bool:
        """Has the publisher its share of retained messages?"""
        options, shares, holder = self.options, self._memory, message.holder
        old = self.tree.get(message.topic)
        if old is not None and old.holder is holder:
            size -= retained_size(old)
        elif shares.lacks(holder, "retained_messages", options.retained_messages):
            return True
        return bool(
            shares.lacks(holder, "retained_bytes", options.retained_bytes, size)
            or shares.lacks_bytes(holder, options.memory, size)
        )

    def _count(self, message: Message, size: int, sign: int) -> None:
        self.bytes += size
        self._memory.keep(message.holder, size - sign * message.size)
        message.holder.count("retained_messages", sign)
        message.holder.count("retained_bytes", size)

    def _expire(self) -> None:
        """Drop all retained messages that have expired, if there are any."""
        now = asyncio.get_running_loop().time()
        if self._expires > now:
            return
        self._expires = inf
        for topic in list(self.order):
            message = self.tree.get(topic)
            assert message is not None
            if message.expires is not None:
                if message.expires <= now:
                    self.drop(topic)
                else:
                    self._expires = min(self._expires, message.expires)
