"""A small PHPMQ server in memory: queues, oldest message first.

It is bounded: the protocol has no word for a refusal, so a client that publishes when the broker is full is disconnected.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Any, ClassVar, Final

from wirefmt import phpmq
from wirefmt.broker.history import History
from wirefmt.broker.shares import UNOWNED, Holder, Shares
from wirefmt.connection.contract import Acknowledged, Disconnected, WindowOpened
from wirefmt.errors import LocalProtocolError
from wirefmt.phpmq.events import Delivery, Returned
from wirefmt.phpmq.server import Peer

#: Bytes that a message costs besides its content, and a queue besides its name. They count.
ENTRY: Final = 400


#: What a message costs that is sent (`Driver.spend`).
SENDING: Final = 12


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Limits of a broker.

    Attributes:
        messages: messages kept, in all queues together.
        memory: bytes of their contents and of the names of queues, with ENTRY bytes for each of them. Dead letters have
            the same limits of their own: the oldest are dropped.
        queues: how many there may be. A queue without messages and clients is removed.
        client_share: the part of each of these that one client may have (`wirefmt.broker.shares`): of what it has published, and
            of queues that it was the first to name.
    """

    messages: int = 1_000_000
    memory: int = 1 << 30
    queues: int = 10_000
    client_share: float = 0.25


class Message:
    """A message of one queue. `order`: counts up with each message. `waits`: it is not in flight. `holder`: its publisher."""

    __slots__ = ("content", "holder", "message_id", "order", "ttl", "waits")

    def __init__(self, order: int, message_id: str, content: bytes, ttl: int, holder: Holder = UNOWNED) -> None:
        self.holder = holder
        self.order = order
        self.message_id = message_id
        self.content = content
        self.ttl = ttl
        self.waits = False


class Queue:
    """Messages that wait, and the clients that want them."""

    def __init__(self, name: str, holder: Holder = UNOWNED) -> None:
        self.name = name
        self.holder = holder
        self.messages: dict[str, Message] = {}  # also those in flight
        self.clients: set[Peer] = set()
        self._able: OrderedDict[Peer, None] = OrderedDict()  # clients that may have space, in turn
        self._heap: list[tuple[int, Message]] = []  # (order, message), and some that are done
        self._done = 0  # of them

    @property
    def waiting(self) -> list[Message]:
        """Messages that wait, the oldest first."""
        return [message for _, message in sorted(self._heap, key=lambda entry: entry[0]) if message.waits]

    def put(self, *messages: Message) -> None:
        """Add messages to those that wait: the oldest comes first."""
        for message in messages:
            message.waits = True
            heapq.heappush(self._heap, (message.order, message))

    def remove(self, message: Message) -> None:
        """A message is done."""
        del self.messages[message.message_id]
        if message.waits:
            message.waits = False
            self._done += 1
            if self._done > len(self._heap) // 2:
                self._heap = [entry for entry in self._heap if entry[1].waits]
                heapq.heapify(self._heap)
                self._done = 0

    def wake(self, peer: Peer) -> None:
        """A client may have space. Each has to say so when it has had none."""
        if peer in self.clients:
            self._able[peer] = None
            self.pump()

    def leave(self, peer: Peer) -> None:
        self.clients.discard(peer)
        self._able.pop(peer, None)

    def pump(self) -> None:
        """Send what waits to the clients in turn, as far as they have space."""
        while self._heap and self._able:
            peer = next(iter(self._able))
            if not peer.ready or not peer.connection.send_quota:
                del self._able[peer]
                continue
            _, message = heapq.heappop(self._heap)
            if not message.waits:  # it has been acknowledged meanwhile
                self._done -= 1
                continue
            message.waits = False
            self._able.move_to_end(peer)
            peer.driver.spend(SENDING)
            try:
                peer.deliver(self.name, message.content, message.message_id, message.ttl, message)
            except LocalProtocolError:  # too much is queued for it
                self.put(message)
                del self._able[peer]
                peer.driver.want()


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
        self.dead: History[tuple[str, Message]] = History(self.options.messages, self.options.memory)
        self.counts = {"acknowledged": 0, "given back": 0, "refused": 0}
        self._random = random or SystemRandom()
        self._order = 0
        self._by_peer: dict[Peer, Queue] = {}
        self.shares = Shares(self.options.client_share, 1.0)
        self._holders: dict[Peer, Holder] = {}

    def queue(self, name: str, holder: Holder = UNOWNED) -> Queue:
        """The queue, which is made at first use, whatever the limits are. `holder`: who uses it."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name, holder)
            holder.count("queues")
            self.shares.keep(holder, len(name) + ENTRY)
        return queue

    def _holder(self, peer: Peer) -> Holder:
        holder = self._holders.get(peer)
        if holder is None:
            holder = self._holders[peer] = self.shares.holder(None)
        return holder

    def _has_capacity(self, name: str, holder: Holder, size: int = 0, messages: int = 0) -> bool:
        """May there be a queue of this name, with so many bytes and messages more?"""
        options, shares = self.options, self.shares
        if name not in self.queues:
            if len(self.queues) >= options.queues or shares.lacks(holder, "queues", options.queues):
                return False
            size += len(name) + ENTRY
        return shares.fits_messages(holder, options.messages, messages) and shares.fits(holder, options.memory, size)

    def _tidy(self, queue: Queue) -> None:
        """Remove a queue that nobody uses."""
        if not queue.messages and not queue.clients and self.queues.get(queue.name) is queue:
            del self.queues[queue.name]
            queue.holder.count("queues", -1)
            self.shares.keep(queue.holder, -len(queue.name) - ENTRY)

    def publish(self, name: str, content: bytes, ttl: int = 0, holder: Holder = UNOWNED) -> None:
        """Put a message into a queue. `holder`: who publishes it."""
        self._order += 1
        message = Message(self._order, self._random.randbytes(16).hex(), content, ttl, holder)
        queue = self.queue(name, holder)
        queue.messages[message.message_id] = message
        queue.put(message)
        self.shares.keep(holder, len(content) + ENTRY, 1)
        queue.pump()

    def close(self) -> None:
        """Forget everything. Close the servers first, or drop their clients."""
        self.queues.clear()
        self.dead.clear()
        self.counts = dict.fromkeys(self.counts, 0)
        self.shares.bytes = self.shares.messages = 0

    # ---- events of the clients

    def handle(self, peer: Peer, event: Any) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(self, peer, event)

    def writable(self, peer: Peer) -> None:
        queue = self._by_peer.get(peer)
        if queue is not None:
            queue.wake(peer)

    def closed(self, peer: Peer) -> None:
        pass

    def _on_publish(self, peer: Peer, event: phpmq.MessageClientToServer) -> None:
        content, name = event.content_bytes() or b"", event.queue_name or ""
        holder = self._holder(peer)
        if self._has_capacity(name, holder, len(content) + ENTRY, 1):
            self.publish(name, content, event.ttl or 0, holder)
        else:
            self._refuse(peer)

    def _on_consume(self, peer: Peer, event: phpmq.ConsumeRequest) -> None:
        self._leave(peer)
        name = event.queue_name or ""
        holder = self._holder(peer)
        if not self._has_capacity(name, holder):
            self._refuse(peer)
            return
        queue = self._by_peer[peer] = self.queue(name, holder)
        queue.clients.add(peer)
        queue.wake(peer)

    def _refuse(self, peer: Peer) -> None:
        """There is no word for it."""
        self.counts["refused"] += 1
        peer.abort()

    def _on_returned(self, peer: Peer, event: Returned) -> None:
        self._leave(peer)  # its space is for the queue that it asks for now
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
            if not message.waits:
                self.counts["given back"] += 1
                queue.put(message)
            queue.pump()
            return
        queue.remove(message)
        self.shares.keep(message.holder, -len(message.content) - ENTRY, -1)
        self._tidy(queue)
        if isinstance(answer, phpmq.DeadLetter):
            self.dead.add((name, message), len(name) + len(message.content) + ENTRY)
        else:
            self.counts["acknowledged"] += 1

    def _on_window(self, peer: Peer, event: WindowOpened) -> None:
        queue = self._by_peer.get(peer)
        if queue is not None:
            queue.wake(peer)

    def _on_disconnected(self, peer: Peer, event: Disconnected) -> None:
        self._leave(peer)
        self._holders.pop(peer, None)
        self._give_back(peer, event.lost)  # type: ignore[arg-type]

    def unsettled(self) -> list[tuple[str, Message]]:
        """Queue and message of what clients have and have not answered."""
        return [(q.name, message) for q in self.queues.values() for message in q.messages.values() if not message.waits]

    def _leave(self, peer: Peer) -> None:
        queue = self._by_peer.pop(peer, None)
        if queue is not None:
            queue.leave(peer)
            self._tidy(queue)

    def _give_back(self, peer: Peer, handles: tuple[Delivery, ...]) -> None:
        if handles:
            self.counts["given back"] += len(handles)
            peer.driver.spend(len(handles))
            queue = self.queues.get(handles[0].queue_name)
            if queue is not None:
                kept = (queue.messages.get(handle.message_id) for handle in handles)
                queue.put(*[message for message in kept if message is not None and not message.waits])
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
