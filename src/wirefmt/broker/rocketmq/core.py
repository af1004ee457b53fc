"""What all parts of the broker use: topics and messages, timers, waiting requests, and requests to clients."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from wirefmt import rocketmq
from wirefmt.broker.rocketmq.answers import FAULTS, Answer, failed
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.broker.shares import UNOWNED, Holder, Shares
from wirefmt.errors import LocalProtocolError
from wirefmt.rocketmq import MessageExt, RemotingCommand
from wirefmt.rocketmq.server import Peer

#: The longest time that a request waits, in seconds.
LONGEST_WAIT: Final = 60.0

#: Requests that have waited for messages and are answered before the event loop goes on; the rest waits for its next iteration.
WOKEN: Final = 256

#: What a message is made of, but for its place in the log.
_PLACE: Final = ("queue_offset", "physical_offset", "store_timestamp", "store_host")
_FIELDS: Final = tuple(name for name in MessageExt.__match_args__ if name not in ("version", *_PLACE))


def fields_of(message: MessageExt) -> dict[str, Any]:
    """What a message like this one is made of, but for its place in the log."""
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
        """It, with its body as it was stored."""
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
        """The offset of the first message of this time or later; `end`: there is none. Times ascend."""
        found = bisect_left(self._stored, seconds, self._first, key=_time_of)
        return found - self._first + self.base


def _time_of(stored: Stored) -> float:
    return stored.time


class Waiting:
    """A pull or a pop that waits for messages. `again`: answers it, or returns None to wait on."""

    __slots__ = ("again", "event", "group", "peer", "queue_id", "timer", "topic")

    def __init__(
        self,
        peer: Peer,
        event: RemotingCommand,
        topic: str,
        queue_id: int,
        group: str | None,
        again: Callable[[], Answer | None],
    ) -> None:
        self.peer = peer
        self.event = event
        self.topic = topic
        self.queue_id = queue_id
        self.group = group
        self.again = again
        self.timer: asyncio.TimerHandle | None = None


class Core:
    """The state that all parts share. Each part has its own in `_start`, which derived classes extend."""

    def __init__(self, options: BrokerOptions, address: str) -> None:
        self.options = options
        self.address = address
        self._timers: set[asyncio.TimerHandle] = set()
        self._start()

    def _start(self) -> None:
        """Reset to the state without messages and members."""
        self.topics: dict[str, list[Queue]] = {}
        self.shares = Shares(self.options.client_share, self.options.user_share)
        self._holders: dict[Peer, Holder] = {}  # of clients that have sent a request
        self.dropped = 0
        self._position = 0
        self._places: dict[int, tuple[str, int, int]] = {}  # physical offset -> topic, queue id, offset
        # by topic, queue id (-1: all queues), group of a pop (None: pulls), identity of the event
        self._waiting: dict[str, dict[int, dict[str | None, dict[int, Waiting]]]] = {}
        self._waiting_of: dict[Peer, dict[int, Waiting]] = {}  # by identity of the event
        self._waiters = 0
        self._ready: dict[tuple[str, int, str | None], None] = {}  # there may be something for these
        self._answers = WOKEN  # that may be sent before the loop goes on
        self._resting: asyncio.Handle | None = None
        self._asked: dict[Any, Callable[[RemotingCommand | None], None]] = {}  # by the handle of the request

    @property
    def address(self) -> str:
        return self._address

    @address.setter
    def address(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._host = (host, int(port))
        self._id_of_place = rocketmq.encode_message_id(host, int(port), 0)[:-16]
        self._address = address

    def close(self) -> None:
        """Drop all state and stop the timers. Close the servers first, or drop their clients."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._resting is not None:
            self._resting.cancel()
        self._start()

    # ---- answers and requests

    def _answer(self, peer: Peer, event: RemotingCommand, answer: Answer) -> None:
        if not event.is_oneway:
            try:
                peer.respond(event, answer.code, answer.header, answer.body, remark=answer.remark)
            except LocalProtocolError:
                pass  # the connection has ended; `Disconnected` follows

    def _ask(
        self,
        peer: Peer,
        code: int,
        header: Any,
        body: bytes | None,
        then: Callable[[RemotingCommand | None], None],
        *,
        ext_fields: Mapping[str, str | None] | None = None,
    ) -> bool:
        """Ask a client, and call `then` with its response; None: it has not answered. False: it cannot be asked."""
        try:
            handle = peer.request(code, header, body, ext_fields=ext_fields, timeout=self.options.ask)
        except LocalProtocolError:
            return False
        assert handle is not None
        self._asked[handle] = then
        return True

    def _outcome(self, handle: Any, response: RemotingCommand | None) -> None:
        then = self._asked.pop(handle, None)
        if then is not None:
            then(response)

    # ---- time

    def _later(self, seconds: float, call: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        def run() -> None:
            self._timers.discard(timer)
            call(*arguments)

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers.add(timer)
        return timer

    def _stop(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
            self._timers.discard(timer)

    # ---- topics and messages

    def topic(self, name: str, queues: int | None = None, holder: Holder = UNOWNED) -> list[Queue] | None:
        """The queues of a topic, which is made at first use; None: there are too many topics, or its client has its share."""
        found, most = self.topics.get(name), self.options.topics
        if found is None and len(self.topics) < most and not self.shares.lacks(holder, "topics", most):
            found = self.topics[name] = [Queue() for _ in range(queues or self.options.queues)]
            holder.count("topics")
        return found

    def _has_room(self, size: int, holder: Holder) -> bool:
        """May so many bytes more be stored?"""
        return self.shares.fits(holder, self.options.memory, size)

    def _queue_of(self, header: Any) -> Queue:
        """The queue that a header names. Raises ValueError for an unknown one."""
        queues = self.topics.get(header.topic, [])
        if not 0 <= header.queue_id < len(queues):
            raise ValueError(f"topic {header.topic} has no queue {header.queue_id}")
        return queues[int(header.queue_id)]

    def _placed(self, fields: dict[str, Any], offset: int) -> MessageExt:
        """A message with the next place in the log, which is not taken."""
        return MessageExt(
            **fields,
            queue_offset=offset,
            physical_offset=self._position,
            store_timestamp=int(time.time() * 1000),
            store_host=self._host,
        )

    def _id_of(self, message: MessageExt) -> str:
        """The id of a message: where it lies (section 8)."""
        return f"{self._id_of_place}{message.physical_offset:016X}"

    def _store(self, fields: dict[str, Any], holder: Holder = UNOWNED) -> MessageExt:
        """Store a message, and serve those who wait for one. `holder`: who has sent it."""
        topic, queue_id = fields["topic"], fields["queue_id"]
        queue = self.topics[topic][queue_id]
        end = queue.end
        message = self._placed(fields, end)
        frame = message.encode()
        self._places[self._position] = (topic, queue_id, end)
        queue.put(Stored(frame, self._position, message.store_timestamp / 1000, holder))
        self._position += len(frame)
        self.shares.keep(holder, len(frame) + ENTRY)
        if len(queue) > self.options.queue_messages:
            oldest = queue.drop()
            self.shares.keep(oldest.holder, -len(oldest.frame) - ENTRY)
            self._places.pop(oldest.physical, None)
            self.dropped += 1
        if topic in self._waiting:
            self._wake(topic, queue_id)
        return message

    def _store_later(self, seconds: float, fields: dict[str, Any], holder: Holder = UNOWNED) -> None:
        """Store a message after a time. It counts as stored meanwhile."""
        size = len(MessageExt(**fields).encode()) + ENTRY
        self.shares.keep(holder, size)

        def store() -> None:
            self.shares.keep(holder, -size)
            self._store(fields, holder)

        self._later(seconds, store)

    def _find(self, physical: int) -> MessageExt | None:
        """A stored message by its physical offset."""
        place = self._places.get(physical)
        if place is None:
            return None
        topic, queue_id, offset = place
        return self.topics[topic][queue_id].at(offset).message()

    def topic_at(self, physical: int) -> str | None:
        """The topic of a stored message by its physical offset; None: there is none."""
        place = self._places.get(physical)
        return None if place is None else place[0]

    # ---- requests that wait for messages

    def _wake(self, topic: str, queue_id: int) -> None:
        """A message has come: answer the pulls that wait for its queue, and one pop of each group, or more as long as there is
        something for them."""
        for number in (queue_id, -1):
            for group in self._waiting.get(topic, {}).get(number, ()):
                self._ready[topic, number, group] = None
        self._wake_ready()

    def _wake_group(self, topic: str, group: str) -> None:
        """There is something for the pops of a group."""
        for queue_id in self._waiting.get(topic, ()):
            self._ready[topic, queue_id, group] = None
        self._wake_ready()

    def _wake_ready(self) -> None:
        """Answer those that there is something for, as many as one iteration of the event loop takes."""
        if self._resting is not None:
            return
        while self._ready:
            if self._answers <= 0:
                self._resting = asyncio.get_running_loop().call_soon(self._rested)
                return
            topic, queue_id, group = place = next(iter(self._ready))
            some = self._waiting.get(topic, {}).get(queue_id, {}).get(group)
            waiting = next(iter(some.values())) if some else None
            try:
                answer = waiting.again() if waiting is not None else None
            except FAULTS as error:  # this one's alone: the others are looked at
                answer = failed(error)
            self._answers -= 1
            if waiting is None or answer is None:  # the others would see the same
                del self._ready[place]
            else:
                self._forget(waiting)
                self._answer(waiting.peer, waiting.event, answer)

    def _rested(self) -> None:
        self._resting, self._answers = None, WOKEN
        self._wake_ready()

    def _wait(
        self,
        peer: Peer,
        event: RemotingCommand,
        topic: str,
        queue_id: int,
        group: str | None,
        seconds: float,
        again: Callable[[], Answer | None],
        end: Answer,
    ) -> Answer | None:
        """Let a request wait for messages of a topic. Returns `end` if it cannot wait.

        Args:
            queue_id: of the queue that it asks for; -1: all.
            group: of a pop; None: it is a pull.
        """
        most, holder = self.options.waiting, self._holders[peer]
        if seconds <= 0 or self._waiters >= most or self.shares.lacks(holder, "waiting", most):
            return end
        holder.count("waiting")
        waiting = Waiting(peer, event, topic, queue_id, group, again)
        groups = self._waiting.setdefault(topic, {}).setdefault(queue_id, {})
        groups.setdefault(group, {})[id(event)] = waiting
        self._waiting_of.setdefault(peer, {})[id(event)] = waiting
        self._waiters += 1
        waiting.timer = self._later(min(seconds, LONGEST_WAIT), self._over, waiting, end)
        return None

    def _over(self, waiting: Waiting, end: Answer) -> None:
        self._forget(waiting)
        self._answer(waiting.peer, waiting.event, end)

    def _forget(self, waiting: Waiting) -> None:
        queues = self._waiting.get(waiting.topic, {})
        groups = queues.get(waiting.queue_id, {})
        some = groups.get(waiting.group, {})
        if some.pop(id(waiting.event), None) is not None:
            self._waiters -= 1
            self._holders[waiting.peer].count("waiting", -1)
            of_peer = self._waiting_of[waiting.peer]
            del of_peer[id(waiting.event)]
            levels: tuple[tuple[dict[Any, Any], dict[Any, Any], Any], ...] = (
                (some, groups, waiting.group),
                (groups, queues, waiting.queue_id),
                (queues, self._waiting, waiting.topic),
                (of_peer, self._waiting_of, waiting.peer),
            )
            for inner, outer, key in levels:
                if not inner:
                    del outer[key]
        self._stop(waiting.timer)

    def _stop_waiting(self, peer: Peer) -> None:
        """Drop the waiting requests of a client that is gone."""
        for waiting in list(self._waiting_of.get(peer, {}).values()):
            self._forget(waiting)
        self._holders.pop(peer, None)
