"""What all parts of the broker use: topics and messages, timers, waiting requests, and requests to clients."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from wirefmt import rocketmq
from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.errors import LocalProtocolError
from wirefmt.rocketmq import MessageExt, RemotingCommand
from wirefmt.rocketmq.server import Peer

#: The longest time that a request waits, in seconds.
LONGEST_WAIT: Final = 60.0

#: What a message is made of, but for its place in the log.
_PLACE: Final = ("queue_offset", "physical_offset", "store_timestamp", "store_host")
_FIELDS: Final = tuple(name for name in MessageExt.__match_args__ if name not in ("version", *_PLACE))


def fields_of(message: MessageExt) -> dict[str, Any]:
    """What a message like this one is made of, but for its place in the log."""
    return {name: getattr(message, name) for name in _FIELDS}


def place_of(message: MessageExt) -> dict[str, Any]:
    """Where the message lies in the log."""
    return {name: getattr(message, name) for name in _PLACE}


class Stored(NamedTuple):
    """A message in a queue: as it is on the wire, and where it lies in the log. `time`: seconds since 1970."""

    frame: bytes
    physical: int
    time: float

    def message(self) -> MessageExt:
        """It, with its body as it was stored."""
        (message,) = rocketmq.decode_messages(self.frame, decompress=False)
        return message


class Queue:
    """Messages in order; the first has the offset `base`."""

    __slots__ = ("base", "messages")

    def __init__(self) -> None:
        self.base = 0
        self.messages: deque[Stored] = deque()

    @property
    def end(self) -> int:
        return self.base + len(self.messages)


class Waiting:
    """A pull or a pop that waits for messages. `again`: answers it, or returns None to wait on."""

    __slots__ = ("again", "event", "peer", "timer", "topic")

    def __init__(self, peer: Peer, event: RemotingCommand, topic: str, again: Callable[[], Answer | None]) -> None:
        self.peer = peer
        self.event = event
        self.topic = topic
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
        self.stored_bytes = 0
        self.dropped = 0
        self._position = 0
        self._places: dict[int, tuple[str, int, int]] = {}  # physical offset -> topic, queue id, offset
        self._waiting: dict[str, dict[int, Waiting]] = {}  # by topic and identity of the event
        self._waiters = 0
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

    def topic(self, name: str, queues: int | None = None) -> list[Queue] | None:
        """The queues of a topic, which is made at first use; None: there are too many topics."""
        found = self.topics.get(name)
        if found is None and len(self.topics) < self.options.topics:
            found = self.topics[name] = [Queue() for _ in range(queues or self.options.queues)]
        return found

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

    def _store(self, fields: dict[str, Any]) -> MessageExt:
        """Store a message, and serve those who wait for one."""
        topic, queue_id = fields["topic"], fields["queue_id"]
        queue = self.topics[topic][queue_id]
        end = queue.end
        message = self._placed(fields, end)
        frame = message.encode()
        self._places[self._position] = (topic, queue_id, end)
        queue.messages.append(Stored(frame, self._position, message.store_timestamp / 1000))
        self._position += len(frame)
        self.stored_bytes += len(frame)
        if len(queue.messages) > self.options.queue_messages:
            oldest = queue.messages.popleft()
            queue.base += 1
            self.stored_bytes -= len(oldest.frame)
            self._places.pop(oldest.physical, None)
            self.dropped += 1
        if topic in self._waiting:
            self._wake(topic)
        return message

    def _store_later(self, seconds: float, fields: dict[str, Any]) -> None:
        """Store a message after a time. It counts as stored meanwhile."""
        size = len(MessageExt(**fields).encode())
        self.stored_bytes += size

        def store() -> None:
            self.stored_bytes -= size
            self._store(fields)

        self._later(seconds, store)

    def _find(self, physical: int) -> MessageExt | None:
        """A stored message by its physical offset."""
        place = self._places.get(physical)
        if place is None:
            return None
        topic, queue_id, offset = place
        queue = self.topics[topic][queue_id]
        return queue.messages[offset - queue.base].message()

    def topic_at(self, physical: int) -> str | None:
        """The topic of a stored message by its physical offset; None: there is none."""
        place = self._places.get(physical)
        return None if place is None else place[0]

    # ---- requests that wait for messages

    def _wake(self, topic: str) -> None:
        for waiting in list(self._waiting.get(topic, {}).values()):
            answer = waiting.again()
            if answer is not None:
                self._forget(waiting)
                self._answer(waiting.peer, waiting.event, answer)

    def _wait(
        self,
        peer: Peer,
        event: RemotingCommand,
        topic: str,
        seconds: float,
        again: Callable[[], Answer | None],
        end: Answer,
    ) -> Answer | None:
        """Let a request wait for messages of a topic. Returns `end` if it cannot wait."""
        if seconds <= 0 or self._waiters >= self.options.waiting:
            return end
        waiting = Waiting(peer, event, topic, again)
        self._waiting.setdefault(topic, {})[id(event)] = waiting
        self._waiters += 1
        waiting.timer = self._later(min(seconds, LONGEST_WAIT), self._over, waiting, end)
        return None

    def _over(self, waiting: Waiting, end: Answer) -> None:
        self._forget(waiting)
        self._answer(waiting.peer, waiting.event, end)

    def _forget(self, waiting: Waiting) -> None:
        some = self._waiting.get(waiting.topic, {})
        if some.pop(id(waiting.event), None) is not None:
            self._waiters -= 1
            if not some:
                del self._waiting[waiting.topic]
        self._stop(waiting.timer)

    def _stop_waiting(self, peer: Peer) -> None:
        """Drop the waiting requests of a client that is gone."""
        for waiting in [w for some in self._waiting.values() for w in some.values() if w.peer is peer]:
            self._forget(waiting)
