"""A small PHPMQ server in memory: queues, oldest message first.

It is bounded: the protocol has no word for a refusal, so a client that publishes when the broker is full is disconnected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Any, ClassVar

from wirefmt import phpmq
from wirefmt.connection.contract import Acknowledged, Disconnected, WindowOpened
from wirefmt.phpmq.events import Delivery, Returned
from wirefmt.phpmq.server import Peer


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Limits of a broker.

    Attributes:
        messages: messages kept, in all queues together.
        content_bytes: bytes of their contents. Dead letters have the same limits of their own: the oldest are dropped.
    """

    messages: int = 1_000_000
    content_bytes: int = 1 << 30


class Message:
    """A message of one queue. `order`: counts up with each message."""

    __slots__ = ("content", "message_id", "order", "ttl")

    def __init__(self, order: int, message_id: str, content: bytes, ttl: int) -> None:
        self.order = order
        self.message_id = message_id
        self.content = content
        self.ttl = ttl


class Queue:
    """Messages that wait, and the clients that want them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: deque[Message] = deque()
        self.messages: dict[str, Message] = {}  # also those in flight
        self.clients: deque[Peer] = deque()

    def give_back(self, messages: list[Message]) -> None:
        """The oldest first."""
        self.waiting = deque(sorted([*messages, *self.waiting], key=lambda message: message.order))

    def pump(self) -> None:
        """Send what waits to the clients in turn, as far as they have room."""
        full = 0  # clients in a row that have no room
        while self.waiting and full < len(self.clients):
            peer = self.clients[0]
            self.clients.rotate(-1)
            if not peer.ready or not peer.connection.send_quota:
                full += 1
                continue
            full = 0
            message = self.waiting.popleft()
            if self.messages.get(message.message_id) is message:  # else it has been acknowledged meanwhile
                peer.deliver(self.name, message.content, message.message_id, message.ttl, message)


class Broker:
    """The host of a PHPMQ server: `await phpmq.serve(Broker())`.

    Attributes:
        queues: by name.
        dead: messages that were made dead letters, with the name of their queue.
        counts: what has been acknowledged, given back and refused.

    Args:
        random: for message ids; None: the system's.
    """

    def __init__(self, options: BrokerOptions | None = None, random: Random | None = None) -> None:
        self.options = options or BrokerOptions()
        self.queues: dict[str, Queue] = {}
        self.dead: deque[tuple[str, Message]] = deque()
        self._dead_bytes = 0
        self.counts = {"acknowledged": 0, "given back": 0, "refused": 0}
        self._random = random or SystemRandom()
        self._order = 0
        self._messages = 0
        self._bytes = 0
        self._by_peer: dict[Peer, Queue] = {}

    def queue(self, name: str) -> Queue:
        """The queue, which is made at first use."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name)
        return queue

    def publish(self, name: str, content: bytes, ttl: int = 0) -> None:
        """Put a message into a queue."""
        self._order += 1
        message = Message(self._order, self._random.randbytes(16).hex(), content, ttl)
        queue = self.queue(name)
        queue.messages[message.message_id] = message
        queue.waiting.append(message)
        self._messages += 1
        self._bytes += len(content)
        queue.pump()

    def close(self) -> None:
        """Forget everything. Close the servers first, or drop their clients."""
        self.queues.clear()
        self.dead.clear()
        self.counts = dict.fromkeys(self.counts, 0)
        self._messages = self._bytes = self._dead_bytes = 0

    # ---- events of the clients

    def handle(self, peer: Peer, event: Any) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(self, peer, event)

    def writable(self, peer: Peer) -> None:
        queue = self._by_peer.get(peer)
        if queue is not None:
            queue.pump()

    def closed(self, peer: Peer) -> None:
        pass

    def _on_publish(self, peer: Peer, event: phpmq.MessageClientToServer) -> None:
        content = event.content_bytes() or b""
        if (
            self._messages >= self.options.messages
            or self._bytes + len(content) > self.options.content_bytes
            or (len(self.queues) >= self.options.messages and event.queue_name not in self.queues)
        ):
            self.counts["refused"] += 1
            peer.abort()
            return
        self.publish(event.queue_name or "", content, event.ttl or 0)

    def _on_consume(self, peer: Peer, event: phpmq.ConsumeRequest) -> None:
        self._leave(peer)
        queue = self.queue(event.queue_name or "")
        self._by_peer[peer] = queue
        queue.clients.append(peer)
        queue.pump()

    def _on_returned(self, peer: Peer, event: Returned) -> None:
        self._leave(peer)  # its room is for the queue that it asks for now
        self._give_back(peer, event.handles)

    def _on_acknowledged(self, peer: Peer, event: Acknowledged) -> None:
        delivery = event.handle
        assert isinstance(delivery, Delivery)
        self._settle(delivery.queue_name, delivery.message_id, event.message)

    def _on_answer(self, peer: Peer, event: phpmq.Acknowledgement | phpmq.ReQueue | phpmq.DeadLetter) -> None:
        self._settle(event.queue_name or "", event.message_id or "", event)

    def _settle(self, name: str, message_id: str, answer: Any) -> None:
        queue = self.queues.get(name)
        message = queue.messages.get(message_id) if queue is not None else None
        if queue is None or message is None:
            return
        if isinstance(answer, phpmq.ReQueue):
            message.ttl = answer.ttl or 0
            if message not in queue.waiting:
                self.counts["given back"] += 1
                queue.give_back([message])
            queue.pump()
            return
        del queue.messages[message_id]
        self._messages -= 1
        self._bytes -= len(message.content)
        if isinstance(answer, phpmq.DeadLetter):
            self.dead.append((name, message))
            self._dead_bytes += len(message.content)
            while len(self.dead) > self.options.messages or self._dead_bytes > self.options.content_bytes:
                self._dead_bytes -= len(self.dead.popleft()[1].content)
        else:
            self.counts["acknowledged"] += 1

    def _on_window(self, peer: Peer, event: WindowOpened) -> None:
        queue = self._by_peer.get(peer)
        if queue is not None:
            queue.pump()

    def _on_disconnected(self, peer: Peer, event: Disconnected) -> None:
        queue = self._by_peer.get(peer)
        self._leave(peer)
        self._give_back(peer, event.lost)  # type: ignore[arg-type]
        if queue is not None:
            queue.pump()

    def _leave(self, peer: Peer) -> None:
        queue = self._by_peer.pop(peer, None)
        if queue is not None:
            queue.clients.remove(peer)

    def _give_back(self, peer: Peer, handles: tuple[Delivery, ...]) -> None:
        if handles:
            queue = self.queue(handles[0].queue_name)
            kept = (queue.messages.get(handle.message_id) for handle in handles)
            queue.give_back([message for message in kept if message is not None])
            self.counts["given back"] += len(handles)
            queue.pump()

    _handlers: ClassVar[dict[type[Any], Callable[[Broker, Peer, Any], None]]] = {
        phpmq.MessageClientToServer: _on_publish,
        phpmq.ConsumeRequest: _on_consume,
        phpmq.Acknowledgement: _on_answer,
        phpmq.ReQueue: _on_answer,
        phpmq.DeadLetter: _on_answer,
        Returned: _on_returned,
        Acknowledged: _on_acknowledged,
        WindowOpened: _on_window,
        Disconnected: _on_disconnected,
    }
