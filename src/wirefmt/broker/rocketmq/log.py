"""Topics, and the messages that are stored in their queues."""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import Any, Final, NamedTuple

from wirefmt import rocketmq
from wirefmt.broker.rocketmq.clients import Clients, Timers
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.broker.rocketmq.waits import Waits
from wirefmt.broker.shares import UNOWNED, Holder
from wirefmt.rocketmq import MessageExt

#: What a message is made of, except its place in the log.
_PLACE: Final = ("queue_offset", "physical_offset", "store_timestamp", "store_host")
_FIELDS: Final = tuple(name for name in MessageExt.__match_args__ if name not in ("version", *_PLACE))


def fields_of(message: MessageExt) -> dict[str, Any]:
    """What a message like this one is made of, except its place in the log."""
    return {name: getattr(message, name) for name in _FIELDS}


def place_of(message: MessageExt) -> dict[str, Any]:
    """Where the message lies in the log."""
    return {name: getattr(message, name) for name in _PLACE}


#: Bytes that a message costs besides its frame: its entries in the queue and among the places of the log. They count.
ENTRY: Final = 450


class Stored(NamedTuple):
    """A message in a queue: as it is on the wire, and where it lies in the log. `time`: seconds since 1970. `holder`: who has
    sent it."""

    frame: bytes
    physical: int
    time: float
    holder: Holder = UNOWNED

    def message(self) -> MessageExt:
        """The message, with its body as it was stored: compressed or not."""
        (message,) = rocketmq.decode_messages(self.frame, decompress=False)
        return message


class Queue:
    """Messages in order; the first has the offset `base`."""

    __slots__ = ("_first", "_stored", "base")

    def __init__(self) -> None:
        self.base = 0
        self._stored: list[Any] = []
        self._first = 0  # number of the first message in it; before it there is nothing

    def __len__(self) -> int:
        return len(self._stored) - self._first

    @property
    def end(self) -> int:
        return self.base + len(self)

    @property
    def messages(self) -> list[Stored]:
        """All of them: a copy."""
        return self._stored[self._first :]

    def put(self, stored: Stored) -> None:
        self._stored.append(stored)

    def drop(self) -> Stored:
        """Remove the oldest message."""
        oldest: Stored = self._stored[self._first]
        self._stored[self._first] = None
        self._first += 1
        self.base += 1
        if self._first > len(self._stored) // 2:
            del self._stored[: self._first]
            self._first = 0
        return oldest

    def at(self, offset: int) -> Stored:
        """The message at an offset from `base` to below `end`."""
        stored: Stored = self._stored[self._first + offset - self.base]
        return stored

    def since(self, seconds: float) -> int:
        """The offset of the first message of this time or later; `end`: all are earlier. Times ascend."""
        found = bisect_left(self._stored, seconds, self._first, key=_time_of)
        return found - self._first + self.base


def _time_of(stored: Stored) -> float:
    return stored.time


class Log:
    """What is stored.

    Attributes:
        topics: name -> queues.
        shares: its bytes are those of all messages that are stored, delayed or undecided.
        dropped: messages that were dropped because their queue was full.
        position: the physical offset of the next message.
        places: physical offset -> topic, queue id, offset.
    """

    def __init__(self, options: BrokerOptions, address: str, timers: Timers, clients: Clients, waits: Waits) -> None:
        self.options = options
        self.address = address
        self._timers = timers
        self._waits = waits
        self.topics: dict[str, list[Queue]] = {}
        self.shares = clients.shares
        self.dropped = 0
        self.position = 0
        self.places: dict[int, tuple[str, int, int]] = {}

    @property
    def address(self) -> str:
        """Of the broker, "host:port". It is part of the ids of messages."""
        return self._address

    @address.setter
    def address(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._host = (host, int(port))
        self._id_of_place = rocketmq.encode_message_id(host, int(port), 0)[:-16]
        self._address = address

    def topic(self, name: str, queues: int | None = None, holder: Holder = UNOWNED) -> list[Queue] | None:
        """The queues of a topic, which is made at first use; None: there are too many topics, or its client has its share."""
        found, most = self.topics.get(name), self.options.topics
        if found is None and len(self.topics) < most and not self.shares.lacks(holder, "topics", most):
            found = self.topics[name] = [Queue() for _ in range(queues or self.options.queues)]
            holder.count("topics")
        return found

    def has_capacity(self, size: int, holder: Holder) -> bool:
        """May so many bytes more be stored?"""
        return self.shares.fits(holder, self.options.memory, size)

    def queue_of(self, header: Any) -> Queue:
        """The queue that a header names. Raises ValueError for an unknown one."""
        queues = self.topics.get(header.topic, [])
        if not 0 <= header.queue_id < len(queues):
            raise ValueError(f"topic {header.topic} has no queue {header.queue_id}")
        return queues[int(header.queue_id)]

    def placed(self, fields: dict[str, Any], offset: int) -> MessageExt:
        """A message with the next place in the log, which is not taken."""
        return MessageExt(
            **fields,
            queue_offset=offset,
            physical_offset=self.position,
            store_timestamp=int(time.time() * 1000),
            store_host=self._host,
        )

    def id_of(self, message: MessageExt) -> str:
        """The id of a message: where it lies (section 8)."""
        return f"{self._id_of_place}{message.physical_offset:016X}"

    def store(self, fields: dict[str, Any], holder: Holder = UNOWNED) -> MessageExt:
        """Store a message, and serve those who wait for one. `holder`: who has sent it."""
        topic, queue_id = fields["topic"], fields["queue_id"]
        queue = self.topics[topic][queue_id]
        end = queue.end
        message = self.placed(fields, end)
        frame = message.encode()
        self.places[self.position] = (topic, queue_id, end)
        queue.put(Stored(frame, self.position, message.store_timestamp / 1000, holder))
        self.position += len(frame)
        self.shares.keep(holder, len(frame) + ENTRY)
        if len(queue) > self.options.queue_messages:
            oldest = queue.drop()
            self.shares.keep(oldest.holder, -len(oldest.frame) - ENTRY)
            self.places.pop(oldest.physical, None)
            self.dropped += 1
        if topic in self._waits.waiting:
            self._waits.wake(topic, queue_id)
        return message

    def store_later(self, seconds: float, fields: dict[str, Any], holder: Holder = UNOWNED) -> None:
        """Store a message after a time. It counts as stored meanwhile."""
        size = len(MessageExt(**fields).encode()) + ENTRY
        self.shares.keep(holder, size)

        def store() -> None:
            self.shares.keep(holder, -size)
            self.store(fields, holder)

        self._timers.later(seconds, store)

    def find(self, physical: int) -> MessageExt | None:
        """A stored message by its physical offset."""
        place = self.places.get(physical)
        if place is None:
            return None
        topic, queue_id, offset = place
        return self.topics[topic][queue_id].at(offset).message()

    def topic_at(self, physical: int) -> str | None:
        """The topic of a stored message by its physical offset; None: no message begins there."""
        place = self.places.get(physical)
        return None if place is None else place[0]
