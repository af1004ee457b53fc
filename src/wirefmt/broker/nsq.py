"""A small NSQ server in memory: topics, channels, deferred and requeued messages, and the look-up paths of nsqlookupd.

It is bounded: publishing is refused when the messages kept exceed a limit. Nothing outlives the process.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs, urlsplit

from wirefmt import nsq
from wirefmt.broker.permissions import Permissions
from wirefmt.broker.requests.nsq import REQUESTS
from wirefmt.broker.shares import UNOWNED, Holder, Shares
from wirefmt.connection import proxy
from wirefmt.connection.aio.proxied import Proxied
from wirefmt.connection.contract import Acknowledged, Disconnected, WindowOpened
from wirefmt.errors import DecodeError
from wirefmt.nsq.codes import ErrorCode
from wirefmt.nsq.events import Publication, Requeued, TimedOut
from wirefmt.nsq.refusals import quoted
from wirefmt.nsq.server import Peer

#: Bytes that a message costs in each channel besides its body. They count.
ENTRY: Final = 270

#: Messages that are sent to clients in one iteration of the event loop, and deferred ones of a channel that become due in it.
SENT: Final = 4096

#: Bodies of MPUB that are published, or copied, in one step.
TOGETHER: Final = 1000


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Limits of a broker.

    Attributes:
        messages: messages kept, in all channels together.
        memory: bytes of their bodies, with ENTRY bytes for each message in each channel.
        topics: topics and channels that there may be.
        client_share, user_share: the part of each of these that one client, and one user, may have (`wirefmt.broker.shares`): of
            what it has published, and of topics and channels that it has made.
        authorise: called with the secret of AUTH; returns the name of its user, or None to refuse the client. None: AUTH is
            refused. The connections' option `auth_required` asks for AUTH.
        permissions: what the users may do; None: everything.
    """

    messages: int = 1_000_000
    memory: int = 1 << 30
    topics: int = 10_000
    client_share: float = 0.25
    user_share: float = 0.5
    authorise: Callable[[bytes], str | None] | None = None
    permissions: Permissions | None = None


class Message:
    """A message of one channel. `holder`: who has published it."""

    __slots__ = ("attempts", "body", "holder", "message_id", "timestamp")

    def __init__(self, message_id: bytes, timestamp: int, body: bytes, holder: Holder = UNOWNED) -> None:
        self.holder = holder
        self.message_id = message_id
        self.timestamp = timestamp
        self.body = body
        self.attempts = 0


class Channel:
    """Messages that wait, and the clients that want them. `holder`: who has made it. `soon`: called if there may be something to
    send."""

    def __init__(self, topic: Topic, name: str, soon: Callable[[Channel], None], holder: Holder = UNOWNED) -> None:
        self.topic = topic
        self.soon = soon
        self.holder = holder
        self.name = name
        self.queue: deque[Message] = deque()
        self.deferred: list[tuple[float, int, Message]] = []  # a heap
        self.clients: set[Peer] = set()
        self._able: OrderedDict[Peer, None] = OrderedDict()  # clients that may have space, in turn
        self.counter = 0
        self.timer: asyncio.Handle | None = None
        self.timer_at = 0.0

    def defer(self, message: Message, milliseconds: int) -> None:
        """Put a message into the queue after a time."""
        loop = asyncio.get_running_loop()
        self.counter += 1
        heapq.heappush(self.deferred, (loop.time() + milliseconds / 1000, self.counter, message))
        self._set_timer()

    def _set_timer(self) -> None:
        if self.deferred and (self.timer is None or self.timer_at > self.deferred[0][0]):
            if self.timer is not None:
                self.timer.cancel()
            self.timer_at = self.deferred[0][0]
            self.timer = asyncio.get_running_loop().call_at(self.timer_at, self._due)

    def _due(self) -> None:
        self.timer = None
        now, left = asyncio.get_running_loop().time(), SENT
        while left and self.deferred and self.deferred[0][0] <= now:
            self.queue.append(heapq.heappop(self.deferred)[2])
            left -= 1
        self._set_timer()
        self.soon(self)

    def pump(self, most: int) -> int:
        """Send what waits to the clients in turn, as far as they have space: `most` messages at most. Those without are not
        asked again until they say so: see `able`. Returns how many messages have been sent."""
        queue, able, left = self.queue, self._able, most
        while queue and able and left:
            peer = next(iter(able))
            connection = peer.connection
            capacity = min(connection.send_quota, len(queue), left) if peer.ready else 0
            if not capacity:
                del able[peer]
                continue
            if len(able) > 1:
                able.move_to_end(peer)
                capacity = 1
            for _ in range(capacity):
                message = queue.popleft()
                message.attempts += 1
                connection.deliver(message.message_id, message.body, message.timestamp, message.attempts, message)
            left -= capacity
            peer.driver.tick()
        return most - left

    def able(self, peer: Peer) -> None:
        """A client may have space."""
        if peer in self.clients:
            self._able[peer] = None

    def come_back(self, peer: Peer, message: Message) -> None:
        """A client has given a message back, or not answered it in time: another one gets it, if there is one with space."""
        self.queue.append(message)
        self.able(peer)
        if peer in self._able:
            self._able.move_to_end(peer)
        self.soon(self)

    def leave(self, peer: Peer) -> None:
        self.clients.discard(peer)
        self._able.pop(peer, None)

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class Topic:
    """Channels, and the messages that came before there was one. `holder`: who has made it."""

    def __init__(self, name: str, holder: Holder = UNOWNED) -> None:
        self.name = name
        self.holder = holder
        self.channels: dict[str, Channel] = {}
        self.backlog: list[tuple[Message, int]] = []


class LookupServer:
    """An HTTP server with one request per connection.

    Args:
        answer: returns status and body for a path; a body that is not bytes becomes JSON.
        most: clients at a time; further ones are closed immediately.
    """

    #: Seconds within which a client must send its request and take the response.
    TIMEOUT: ClassVar = 10.0

    def __init__(self, answer: Callable[[str], tuple[int, Any]], most: int) -> None:
        self._answer = answer
        self._most = most
        self._listener: asyncio.Server | None = None
        self._closing = False
        self._tasks: set[asyncio.Task[Any]] = set()
        #: Transports whose PROXY header is not complete.
        self.undecided: set[Any] = set()

    @property
    def port(self) -> int:
        """The port of the listening socket."""
        assert self._listener is not None
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def listen(self, host: str, port: int, *, proxy_protocol: bool = False) -> None:
        """Listen. `proxy_protocol` as in `aio.listen`. Raises OSError if the port is not available."""
        accept = partial(Proxied, self) if proxy_protocol else self.accept
        self._listener = await asyncio.get_running_loop().create_server(accept, host, port)

    def has_capacity(self) -> bool:
        """Is another transport to be kept?"""
        return not self._closing and len(self._tasks) + len(self.undecided) < self._most

    def accept(self, source: proxy.Address | None = None, error: DecodeError | None = None) -> asyncio.BaseProtocol:
        """The protocol of a new transport; with an error it is dropped."""
        serve = self._serve if error is None else lambda reader, writer: writer.transport.abort()
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), serve)

    async def close(self) -> None:
        """Stop listening, and drop the clients."""
        self._closing = True
        if self._listener is not None:
            self._listener.close()
        for proxied in list(self.undecided):
            proxied.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.has_capacity():
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.timeout(self.TIMEOUT):
                head = await reader.readexactly(12)  # a request has more, and no empty line in them
                if proxy.begins(head):
                    raise ValueError(proxy.REFUSAL)
                head += await reader.readuntil(b"\r\n\r\n")
                status, data = self._answer(head.split(b" ")[1].decode("ascii", "replace"))
                # without X-NSQ-Content-Type clients take the answer for one from before 1.0
                body, form = (
                    (data, b"text/plain")
                    if isinstance(data, bytes)
                    else (json.dumps(data).encode(), b"application/json\r\nX-NSQ-Content-Type: nsq; version=1.0")
                )
                writer.write(
                    b"HTTP/1.1 %d X\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
                    % (status, form, len(body), body)
                )
                await writer.drain()
            writer.close()
        except (OSError, TimeoutError, ValueError, IndexError, EOFError, asyncio.LimitOverrunError):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)


class Broker:
    """The host of an NSQ server: `await nsq.serve(Broker())`.

    Attributes:
        topics: by name.
        counts: what has been finished, requeued, timed out and refused.
    """

    def __init__(self, options: BrokerOptions | None = None) -> None:
        self.options = options or BrokerOptions()
        self.topics: dict[str, Topic] = {}
        self.counts = {"finished": 0, "requeued": 0, "timed out": 0, "refused": 0}
        self._next = 0
        self.shares = Shares(self.options.client_share, self.options.user_share)
        self._holders: dict[Peer, Holder] = {}
        self._channels: dict[Peer, Channel] = {}
        self._users: dict[Peer, str] = {}
        self._pumps: dict[Channel, None] = {}
        self._made = 0  # channels that there are

    def topic(self, name: str, holder: Holder = UNOWNED) -> Topic:
        """The topic, which is made at first use. `holder`: who uses it."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name, holder)
            holder.count("topics")
        return topic

    def publish(self, topic: str, *bodies: bytes, defer: int = 0, holder: Holder = UNOWNED) -> None:
        """Put messages into every channel of a topic, after `defer` milliseconds. `holder`: who publishes them."""
        found = self.topics.get(topic) or self.topic(topic, holder)
        first, timestamp = self._next + 1, time.time_ns()
        self._next += len(bodies)
        copies = max(len(found.channels), 1)
        self._count(holder, copies * len(bodies), copies * sum(map(len, bodies)))
        if not found.channels:
            found.backlog += [
                (Message(b"%016x" % number, timestamp, body, holder), defer)
                for number, body in enumerate(bodies, first)
            ]
        for channel in found.channels.values():
            messages = [
                Message(b"%016x" % number, timestamp, body, holder) for number, body in enumerate(bodies, first)
            ]
            if defer:
                for message in messages:
                    channel.defer(message, defer)
            else:
                channel.queue += messages
                self._pump_soon(channel)

    def close(self) -> None:
        """Forget everything, and stop the timers. Close the servers first, or drop their clients."""
        for topic in self.topics.values():
            for channel in topic.channels.values():
                channel.close()
        self.topics.clear()
        self.shares.bytes = self.shares.messages = self._made = 0
        self.counts = dict.fromkeys(self.counts, 0)

    # ---- events of the clients

    def handle(self, peer: Peer, event: Any) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None and (
            self.options.permissions is None or self._may(peer, event, self.options.permissions)
        ):
            steps = handler(self, peer, event)
            if steps is not None:
                peer.driver.later(steps)

    def handle_run(self, peer: Peer, events: list[Any], at: int) -> int:
        """Messages that are done, together: see `wirefmt.connection.aio.Host`."""
        begin, count = at, len(events)
        while at < count and type(events[at]) is Acknowledged:
            message = events[at].handle.host
            holder, size, first = message.holder, 0, at
            while message.holder is holder:
                size += len(message.body)
                at += 1
                if at == count or type(events[at]) is not Acknowledged:
                    break
                message = events[at].handle.host
            self._count(holder, first - at, -size)
        if at > begin:
            self.counts["finished"] += at - begin
            self._able(peer, self._channels[peer])
        return at

    def writable(self, peer: Peer) -> None:
        channel = self._channels.get(peer)
        if channel is not None:
            self._able(peer, channel)

    def closed(self, peer: Peer) -> None:
        pass

    def _on_identify(self, peer: Peer, event: nsq.Identify) -> None:
        peer.accept(event)

    def _on_auth(self, peer: Peer, event: nsq.Auth) -> None:
        user = self.options.authorise(event.secret) if self.options.authorise is not None else None
        if user is None:
            peer.refuse(event, ErrorCode.E_AUTH_FAILED, "AUTH failed")
        else:
            self._users[peer] = user
            self._holders[peer] = self.shares.holder(user)
            peer.accept(event, permission_count=1)

    def _may(self, peer: Peer, event: Any, permissions: Permissions) -> bool:
        """Refuse a command that the user has no right to. Only commands are requests."""
        if not issubclass(type(event), nsq.Command):
            return True
        if permissions.lacks(self._users.get(peer, ""), REQUESTS, type(event), event) is None:
            return True
        where = f"{quoted(getattr(event, 'topic', None) or '')} {quoted(getattr(event, 'channel', None) or '')}"
        peer.refuse(event, ErrorCode.E_UNAUTHORIZED, f"AUTH failed for {event.name} on {where}")
        return False

    def _on_sub(self, peer: Peer, event: nsq.Sub) -> None:
        assert event.topic is not None
        assert event.channel is not None
        known = self.topics.get(event.topic)
        channel = known.channels.get(event.channel) if known is not None else None
        if channel is None:
            holder, more, limit = self._holder(peer), 1 + (known is None), self.options.topics
            if len(self.topics) + self._made + more > limit or self.shares.lacks(holder, "topics", limit, more):
                peer.refuse(event, ErrorCode.E_SUB_FAILED, "SUB failed too many topics and channels")
                return
            topic = self.topic(event.topic, holder)
            self._made += 1
            holder.count("topics")
            channel = topic.channels[event.channel] = Channel(topic, event.channel, self._pump_soon, holder)
            backlog, topic.backlog = topic.backlog, []
            for message, defer in backlog:
                if defer:
                    channel.defer(message, defer)
                else:
                    channel.queue.append(message)
        channel.clients.add(peer)
        channel.able(peer)
        self._channels[peer] = channel
        peer.accept(event)

    def _on_publication(self, peer: Peer, event: Publication) -> Iterator[int] | None:
        name, holder = event.topic, self._holder(peer)
        assert name is not None
        if isinstance(event, nsq.MultiPublish):
            bodies: tuple[bytes, ...] = event.bodies
        else:
            bodies = (event.body_bytes(),)
        size = sum(map(len, bodies))
        if not self._has_capacity(name, len(bodies), size, holder):
            self.counts["refused"] += len(bodies)
            peer.refuse(event, f"E_{event.name}_FAILED", f"{event.name} failed the broker is full")
            return None
        if len(bodies) > TOGETHER:
            return self._publish_in_steps(peer, event, name, bodies, size, holder)
        defer = (event.defer_time or 0) if isinstance(event, nsq.DeferredPublish) else 0
        self.publish(name, *bodies, defer=defer, holder=holder)
        peer.driver.spend(len(bodies) * len(self.topics[name].channels))
        peer.acknowledge(event)
        return None

    def _publish_in_steps(
        self, peer: Peer, event: Publication, name: str, bodies: tuple[bytes, ...], size: int, holder: Holder
    ) -> Iterator[int]:
        """An MPUB with many bodies. What is still to come counts already."""
        left = len(bodies)
        self._count(holder, left, size)
        try:
            for begin in range(0, len(bodies), TOGETHER):
                some = bodies[begin : begin + TOGETHER]
                some_size = sum(map(len, some))
                left, size = left - len(some), size - some_size
                self._count(holder, -len(some), -some_size)
                self.publish(name, *some, holder=holder)
                yield len(some) * max(len(self.topics[name].channels), 1)
        finally:
            self._count(holder, -left, -size)
        peer.acknowledge(event)

    def _on_acknowledged(self, peer: Peer, event: Acknowledged) -> None:
        self.handle_run(peer, [event], 0)

    def _on_requeued(self, peer: Peer, event: Requeued) -> None:
        self.counts["requeued"] += 1
        channel = self._channels[peer]
        if event.delay:
            channel.defer(event.handle.host, event.delay)
            self._able(peer, channel)
        else:
            channel.come_back(peer, event.handle.host)

    def _on_timed_out(self, peer: Peer, event: TimedOut) -> None:
        self.counts["timed out"] += 1
        self._channels[peer].come_back(peer, event.handle.host)

    def _on_window(self, peer: Peer, event: WindowOpened) -> None:
        self._able(peer, self._channels[peer])

    def _on_disconnected(self, peer: Peer, event: Disconnected) -> None:
        self._users.pop(peer, None)
        self._holders.pop(peer, None)
        channel = self._channels.pop(peer, None)
        if channel is None:
            return
        channel.leave(peer)
        for delivery in reversed(event.lost):
            assert isinstance(delivery, nsq.Delivery)
            channel.queue.appendleft(delivery.host)
        if channel.clients:
            self._pump_soon(channel)
        elif channel.name.endswith("#ephemeral"):
            self._drop(channel)

    def _drop(self, channel: Channel) -> None:
        """An ephemeral channel ends with its last client, and an ephemeral topic with its last channel."""
        channel.close()
        for message in [*channel.queue, *(entry[2] for entry in channel.deferred)]:
            self._count(message.holder, -1, -len(message.body))
        topic = channel.topic
        if topic.channels.pop(channel.name, None) is not None:
            self._made -= 1
            channel.holder.count("topics", -1)
        if topic.name.endswith("#ephemeral") and not topic.channels and self.topics.pop(topic.name, None) is not None:
            topic.holder.count("topics", -1)

    # ---- below

    def _holder(self, peer: Peer) -> Holder:
        holder = self._holders.get(peer)
        if holder is None:
            holder = self._holders[peer] = self.shares.holder(None)
        return holder

    def _has_capacity(self, name: str, count: int, size: int, holder: Holder) -> bool:
        topic, options, shares = self.topics.get(name), self.options, self.shares
        if topic is None and (
            len(self.topics) + self._made >= options.topics or shares.lacks(holder, "topics", options.topics)
        ):
            return False
        copies = max(len(topic.channels), 1) if topic is not None else 1
        count, size = copies * count, copies * (size + count * ENTRY)
        return shares.fits_messages(holder, options.messages, count) and shares.fits(holder, options.memory, size)

    def _count(self, holder: Holder, messages: int, size: int) -> None:
        self.shares.keep(holder, size + messages * ENTRY, messages)

    def unsettled(self) -> list[tuple[Channel, Message]]:
        """What clients have and have not finished."""
        found = [(channel, peer.connection) for peer, channel in self._channels.items()]
        return [(channel, delivery.host) for channel, connection in found for delivery in connection.deliveries]

    def _able(self, peer: Peer, channel: Channel) -> None:
        """A client may have space."""
        channel.able(peer)
        if channel.queue and channel not in self._pumps:
            self._pump_soon(channel)

    def _pump_soon(self, channel: Channel) -> None:
        """Send once for all that this iteration of the loop brings. What exceeds SENT messages waits for the next one."""
        if channel.clients:
            if not self._pumps:
                next(iter(channel.clients)).driver.before_writing(self._pump_all)
            self._pumps[channel] = None

    def _pump_all(self) -> None:
        pumps, self._pumps = self._pumps, {}
        left = SENT
        for channel in pumps:
            left -= channel.pump(left) if left else 0
            if not left:
                self._pump_soon(channel)

    # ---- nsqlookupd's paths

    async def serve_lookup(
        self,
        tcp_port: int,
        host: str = "127.0.0.1",
        port: int = 0,
        broadcast_address: str = "127.0.0.1",
        *,
        most: int = 1000,
        proxy_protocol: bool = False,
    ) -> LookupServer:
        """Answer `/lookup?topic=`, `/topics`, `/channels?topic=`, `/nodes` and `/ping` as nsqlookupd does, for this broker.

        Args:
            tcp_port: where the broker's clients connect.
            most: clients at a time; further ones are closed immediately.
            proxy_protocol: as in `nsq.serve`.

        Returns the server; the caller closes it. Raises OSError if the port is not available.
        """
        server = LookupServer(lambda path: self._look_up(path, tcp_port, broadcast_address), most)
        await server.listen(host, port, proxy_protocol=proxy_protocol)
        return server

    def _look_up(self, path: str, tcp_port: int, address: str) -> tuple[int, Any]:
        parts = urlsplit(path)
        name = parse_qs(parts.query).get("topic", [""])[0]
        producer = {
            "remote_address": f"{address}:0",
            "hostname": address,
            "broadcast_address": address,
            "tcp_port": tcp_port,
            "http_port": 0,
            "version": "1.3.0",
        }
        topic = self.topics.get(name)
        match parts.path:
            case "/ping":
                return 200, b"OK"
            case "/topics":
                return 200, {"topics": sorted(self.topics)}
            case "/nodes":
                return 200, {"producers": [{**producer, "topics": sorted(self.topics)}]}
            case "/channels":
                return 200, {"channels": sorted(topic.channels) if topic is not None else []}
            case "/lookup" if topic is not None:
                return 200, {"channels": sorted(topic.channels), "producers": [producer]}
            case "/lookup":
                return 404, {"message": "TOPIC_NOT_FOUND"}
            case _:
                return 404, {"message": "NOT_FOUND"}

    _handlers: ClassVar[dict[type[Any], Callable[[Broker, Peer, Any], Iterator[int] | None]]] = {
        nsq.Identify: _on_identify,
        nsq.Auth: _on_auth,
        nsq.Sub: _on_sub,
        nsq.Publish: _on_publication,
        nsq.MultiPublish: _on_publication,
        nsq.DeferredPublish: _on_publication,
        Acknowledged: _on_acknowledged,
        Requeued: _on_requeued,
        TimedOut: _on_timed_out,
        WindowOpened: _on_window,
        Disconnected: _on_disconnected,
    }
