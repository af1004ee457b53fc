"""Consumers of an NSQ client on asyncio: messages of one channel, from all servers that have its topic."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from wirefmt import nsq
from wirefmt.connection import client as connecting
from wirefmt.connection.address import Address, read_url
from wirefmt.connection.aio import Backoff
from wirefmt.connection.client import Receivers
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import DecodeError, EncodeError, LimitExceeded, LocalProtocolError, Refused
from wirefmt.nsq._codec import Inbox, Taken
from wirefmt.nsq.events import TimedOut
from wirefmt.nsq.link import SCHEMES, Link, Settings

if TYPE_CHECKING:
    from typing import Self

#: Bytes of an answer of nsqlookupd.
LOOKUP_BYTES: Final = 1 << 24

#: Seconds that an nsqlookupd has for its answer.
LOOKUP_TIME: Final = 10.0

#: The code of a refusal of ours: no look-up names the server any more.
NOT_LISTED: Final = "not listed"

#: Seconds that a connection keeps its turn, if there are more connections than messages in flight: at most, and if no message
#: comes by it.
TURN: Final = 1.0
IDLE: Final = 0.25

#: Seconds until a server has surely seen that its RDY is less. Messages may come until then.
SETTLE: Final = 0.1


class Message(Taken):
    """A message of a consumer.

    Attributes:
        frame: what the server has sent: its `body`, `attempts`, `timestamp`, `message_id`.
    """

    __slots__ = ()

    @property
    def body(self) -> bytes:
        return self.frame.body_bytes()

    @property
    def attempts(self) -> int:
        return self.frame.attempts

    @property
    def timestamp(self) -> int:
        """Nanoseconds since 1970."""
        return self.frame.timestamp

    @property
    def in_flight(self) -> bool:
        """False: it has been answered, or it has timed out and the server delivers it again."""
        link = self._link
        return link is not None and link.connection.holds(self.frame)

    def requeue(self, delay: float | None = None, *, backoff: bool = True) -> bool:
        """Answer REQ: the message is to be delivered again.

        Args:
            delay: seconds; None: the consumer's `requeue_delay` for each attempt so far.
            backoff: the consumer takes fewer messages for a while.

        Returns False if it is not in flight any more.
        """
        link, self._link = self._link, None
        return link is not None and bool(self._consumer._requeue(link, self, delay, backoff))

    def touch(self) -> bool:
        """Send TOUCH: the timeout starts again. Consumers do so by themselves. False: it is not in flight any more."""
        link = self._link
        if link is None or not link.connection.holds(self.frame):
            return False
        link.connection.touch(self.frame)
        link.driver.update()
        return True


class Consumer(Inbox):
    """Messages of one channel, from all servers that have its topic: made by `Client.consume`.

    ::

        async with client.consume("orders", "billing", max_in_flight=100) as messages:
            async for message in messages:
                ...                             # finished when the next one is asked for, requeued if the loop is left

    `max_in_flight` is shared among the connections; with more connections than messages they take turns. It is never exceeded by
    what the host has. A server may send a message before it has seen that its turn is over: that one waits here until there is
    space. For messages that the host has not answered, TOUCH is sent at half their timeout. A message that is requeued makes the
    consumer back off: it takes nothing for a while, then one message at a time. It takes all again once as many messages are done
    as had failed. A lost connection is made again; one to a server that a look-up has found, only if a look-up still names it.

    Attributes:
        connections: how many connections are up.
        error: why the last attempt to connect has failed; None: it has not.
    """

    def __init__(
        self,
        client: Settings,
        topic: str,
        channel: str,
        *,
        max_in_flight: int,
        requeue_delay: float,
        backoff: Backoff,
        touch: bool,
    ) -> None:
        try:
            nsq.Sub(topic=topic, channel=channel)
        except EncodeError as error:
            raise ValueError(str(error)) from None
        self._client = client
        self._topic, self._channel = topic, channel
        self._max_in_flight = max_in_flight
        self._requeue_delay = requeue_delay
        self._backoff = backoff
        self._options = replace(client._options, touch=touch)
        self._servers: dict[Any, _Server] = {}  # by key of the address
        self._links: list[Link] = []  # those that are up; with fewer messages than these the first ones have their turn
        self._aside: deque[tuple[Link, nsq.MessageFrame]] = deque()  # came while there was no space
        self._tasks: set[asyncio.Task[None]] = set()
        self._hand_over(Message)
        self._receivers = Receivers()
        self._asking: asyncio.Task[Any] | None = None  # the task that has had `_last`
        self._lasts: dict[asyncio.Task[Any] | None, Message | None] = {}  # what other tasks have had
        self._more = asyncio.Event()  # max_in_flight has grown
        self._failures = 0  # messages that have failed and are not made up for
        self._probing = False  # RDY 1 on one connection, while backing off
        self._pause: asyncio.TimerHandle | None = None
        self._turn: asyncio.TimerHandle | None = None
        self._settling: asyncio.TimerHandle | None = None
        self._waits = False  # a connection waits until others have fewer messages in flight
        self._open = False
        self._excess: list[Exception] = []  # errors for the host, of messages above our limits
        self.error: Exception | None = None

    @property
    def connections(self) -> int:
        return len(self._links)

    # ---- opening and closing

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for last in [self._last, *self._lasts.values()]:
            if last is None:
                continue
            if kind is None:
                last.finish()
            else:
                last.requeue()
        self._last = None
        self._lasts.clear()
        await self.close()

    async def open(self) -> None:
        """Connect to the servers, and begin to poll the look-ups.

        Raises Refused if a server refuses, OSError if none is reached and there is no look-up.
        """
        self._open = True
        self.error = None
        try:
            servers = {address.key: _Server(self, address) for address in self._client._addresses}
            self._servers.update(servers)
            errors = await asyncio.gather(*(server.begin() for server in servers.values()))
            if servers and all(errors) and not self._client._lookups:
                assert errors[0] is not None
                raise errors[0]
            if self._client._lookups:
                await self._look_up()
                self._spawn(self._polling())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Send CLS, requeue the messages that the host has not taken, and wait until the transports are closed."""
        self._open = False
        for timer in (self._pause, self._turn, self._settling):
            if timer is not None:
                timer.cancel()
        self._pause = self._turn = self._settling = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        servers = list(self._servers.values())
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            waits: list[asyncio.Future[None]] = []
            for link in list(self._links):
                if link.event is None and link.connection.state is nsq.State.SUBSCRIBED:
                    waits.append(asyncio.get_running_loop().create_future())
                    link.request = link.connection.send(nsq.Close())
                    link.up = waits[-1]  # CLOSE_WAIT sets it
                    link.driver.update()
            if waits:
                await asyncio.wait(waits, timeout=5.0)
            while (message := self._next()) is not None:
                message.requeue(0, backoff=False)
            for link, frame in self._aside:
                if link.connection.holds(frame):
                    link.connection.requeue(frame, 0)
                    link.driver.update()
            await asyncio.gather(*(server.close() for server in servers))
        except BaseException:
            for server in servers:
                server.abort()
            raise
        finally:
            self._servers.clear()
            self._links.clear()
            self._aside.clear()
            self._receivers.wake_all()
            self._more.set()

    # ---- for the host

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        task = asyncio.current_task()
        if task is not self._asking:  # it finishes what it has had itself, not what another task has
            self._lasts[self._asking] = self._last
            self._asking, self._last = task, self._lasts.pop(task, None)
        message: Message | None = self._following()
        if message is None:
            message = await self.get()
            if self._asking is task:
                self._last = message
            else:
                self._lasts[task] = message
        return message

    async def get(self) -> Message:
        """The next message. The host finishes or requeues it.

        Raises:
            StopAsyncIteration: after `close`.
            ConnectionLost: a server has sent what exceeds our limits (`frame_size`), and would do so again: there is no further
                connection to it. Raised once; other servers go on.
            ConnectionLost, Refused, OSError: all servers have been given up, as `attempts` of the client's `reconnect` says.
        """
        while True:
            message: Message | None = self._next()
            if message is not None:
                return message
            if not self._open:
                raise StopAsyncIteration
            if self._excess:
                raise self._excess.pop()
            if not self._servers and not self._client._lookups and self.error is not None:
                raise self.error
            await self._receivers.wait()

    async def run(self, handler: Callable[[Message], Awaitable[Any]], *, concurrency: int = 1) -> None:
        """Call a coroutine function for each message, as many at a time as `concurrency` and `max_in_flight` say, until
        cancelled or closed.

        A message whose call returns is finished, unless the handler has answered it; one whose call raises is requeued, and
        the exception goes to the event loop's exception handler.
        """

        async def work(number: int) -> None:
            while True:
                while number >= max(self._max_in_flight, 1) and self._open:
                    self._more.clear()
                    await self._more.wait()
                try:
                    message = await self.get()
                except StopAsyncIteration:
                    return
                try:
                    await handler(message)
                except asyncio.CancelledError:
                    message.requeue(0, backoff=False)
                    raise
                except Exception as error:
                    message.requeue()
                    asyncio.get_running_loop().call_exception_handler(
                        {"message": "a handler of messages raised", "exception": error}
                    )
                else:
                    message.finish()

        async with asyncio.TaskGroup() as group:
            for number in range(concurrency):
                group.create_task(work(number))

    def change_max_in_flight(self, count: int) -> None:
        """How many messages may be in flight from now on, on all connections together; 0 pauses."""
        self._max_in_flight = count
        self._more.set()
        self._admit()
        self._share()

    # ---- called by links

    def _up(self, link: Link) -> None:
        if link not in self._links:
            self._links.append(link)
            self._share()

    def _writable(self, link: Link) -> None:
        pass

    def _take(self, link: Link, events: list[Any], at: int) -> int:
        """Take messages: see `Host.handle_run`."""
        if type(events[at]) is not nsq.MessageFrame:
            return at
        if self._turn is not None:
            link.last = self._now()
        if self._aside or self._in_flight() > self._max_in_flight:
            end = at
            while end < len(events) and type(events[end]) is nsq.MessageFrame:
                self._aside.append((link, events[end]))
                end += 1
            self._admit()
            return end
        end = self._put(link, events, at)
        if self._receivers:
            self._receivers.wake(end - at)
        return end

    def _handle(self, link: Link, event: Any) -> None:
        if type(event) is Disconnected and link in self._links:
            self._links.remove(link)
        if type(event) is Disconnected or type(event) is TimedOut:
            self._freed()

    # ---- max_in_flight

    def _in_flight(self) -> int:
        """Messages that the servers count."""
        links = self._links
        return links[0].connection.undecided if len(links) == 1 else sum(link.connection.undecided for link in links)

    def _admit(self) -> None:
        """Let the host have messages that came while there was no space."""
        if not self._aside:
            return
        waiting = [(link, frame) for link, frame in self._aside if link.connection.holds(frame)]
        capacity = max(self._max_in_flight - (self._in_flight() - len(waiting)), 0)
        for link, frame in waiting[:capacity]:
            self._put(link, [frame], 0)
            self._receivers.wake()
        self._aside = deque(waiting[capacity:])
        self._watch()

    def _watch(self) -> None:
        """Does anything depend on the messages that are done?"""
        self._watched = self._failures > 0 or self._waits or bool(self._aside)

    def _answered(self) -> None:
        """A message is done, and something depends on it."""
        if self._probing:  # it makes up for one that has failed
            self._failures -= 1
            self._probing = False
            if self._failures:
                self._back_off()
            else:
                self._share()
        self._freed()

    def _freed(self) -> None:
        """A message is not in flight any more."""
        self._admit()
        if self._waits:
            self._share()

    def _share(self) -> None:
        """Divide `max_in_flight` among the connections.

        A connection counts with its RDY, and with what is in flight or may still come by an RDY before it, if that is more. What
        others get beyond that waits until those are done.
        """
        if not self._open:
            return
        links = [link for link in self._links if link.connection.state is nsq.State.SUBSCRIBED]
        total = 0 if self._pause is not None else self._max_in_flight
        if self._probing:
            total = min(total, 1)
        each, more = divmod(total, len(links) or 1)
        self._take_turns(links, more if not each else 0)
        wanted: list[tuple[Link, int]] = []
        capacity = self._max_in_flight
        for at, link in enumerate(links):
            connection = link.connection
            negotiated = connection.negotiated
            count = each + (at < more)
            if negotiated is not None:
                count = min(count, negotiated.max_rdy_count)
            if count < connection.ready_count:
                if not each and connection.undecided < connection.ready_count:
                    self._settle(link)
                self._ready(link, count)
            elif count > connection.ready_count:
                wanted.append((link, count))
            capacity -= self._held(link)
        self._waits = False
        for link, count in wanted:
            connection = link.connection
            has = self._held(link)
            given = min(count, has + max(capacity, 0))
            if given > connection.ready_count:
                self._ready(link, given)
                capacity -= self._held(link) - has
            self._waits = self._waits or given < count
        self._watch()

    def _held(self, link: Link) -> int:
        """How many messages a server may have in flight here."""
        connection = link.connection
        before = link.before if self._now() < link.settled else 0
        return max(connection.ready_count, connection.undecided, before)

    def _settle(self, link: Link) -> None:
        """RDY is about to be less, and the server has space for messages until it knows."""
        link.before, link.settled = self._held(link), self._now() + SETTLE
        if self._settling is None:
            self._settling = asyncio.get_running_loop().call_later(SETTLE, self._seen)

    def _seen(self) -> None:
        self._settling = None
        late = [link.settled - self._now() for link in self._links if self._now() < link.settled]
        if late:
            self._settling = asyncio.get_running_loop().call_later(max(late), self._seen)
        self._share()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _ready(self, link: Link, count: int) -> None:
        link.connection.ready(count)
        link.driver.update()

    def _take_turns(self, links: list[Link], turns: int) -> None:
        """With fewer messages than connections, `turns` of them have one: see that it ends. 0: none does."""
        if turns and self._turn is None:
            self._turn = asyncio.get_running_loop().call_later(IDLE, self._rotate)
        now = self._now()
        for link in links[:turns]:
            if not link.connection.ready_count:
                link.turn = link.last = now

    def _rotate(self) -> None:
        """Those whose turn is over go to the end."""
        self._turn = None
        now = self._now()
        over = [
            link
            for link in self._links
            if link.connection.ready_count
            and (now >= link.turn + TURN or (not link.connection.undecided and now >= link.last + IDLE))
        ]
        self._links = [link for link in self._links if link not in over] + over
        self._share()

    # ---- backing off

    def _requeue(self, link: Link, message: Message, delay: float | None, backoff: bool) -> bool:
        if delay is None:
            delay = min(self._requeue_delay * max(message.frame.attempts, 1), 3600.0)
        try:
            link.connection.requeue(message.frame, int(delay * 1000))
        except LocalProtocolError:  # its time is over
            return False
        link.driver.update()
        if backoff and self._pause is None:  # failures of messages that were in flight before count once
            self._failures = min(self._failures + 1, 20)
            self._probing = False
            self._back_off()
        self._freed()
        return True

    def _back_off(self) -> None:
        """Pause all connections, then try one message."""
        if not self._open:
            return
        wait = self._backoff.delay(self._failures - 1, self._client._random)
        self._pause = asyncio.get_running_loop().call_later(wait, self._probe)
        self._share()

    def _probe(self) -> None:
        self._pause = None
        self._probing = True
        self._share()

    # ---- servers

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _given_up(self, server: _Server, error: Exception) -> None:
        """There is no further attempt to connect to a server."""
        if self._servers.get(server.address.key) is server:
            del self._servers[server.address.key]
        self.error = error
        if isinstance(error.__cause__, LimitExceeded):
            self._excess.append(error)
        if self._excess or not self._servers:
            self._receivers.wake_all()

    async def _polling(self) -> None:
        while True:
            interval = self._client._lookup_interval
            await asyncio.sleep(interval * (0.9 + 0.2 * self._client._random.random()))
            await self._look_up()

    async def _look_up(self) -> None:
        """Connect to the servers that the look-ups name."""
        try:
            found = await self._listed()
        except OSError as error:
            self.error = error
            return
        for address in found:
            if address.key not in self._servers and self._open:
                server = self._servers[address.key] = _Server(self, address, found=True)
                self._spawn(server.start())

    async def _listed(self) -> list[Address]:
        """The servers that the look-ups name. Raises OSError if none of them answers."""
        answers = await asyncio.gather(
            *(lookup(url, self._topic) for url in self._client._lookups), return_exceptions=True
        )
        scheme = "nsqs" if self._client._tls else "nsq"
        found: list[Address] = []
        error: BaseException | None = None
        for answer in answers:
            if isinstance(answer, BaseException):
                error = answer
                continue
            for host, port in answer:
                try:
                    found.append(
                        read_url(f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}", SCHEMES)
                    )
                except ValueError as wrong:
                    error = wrong
        if error is not None:
            if not isinstance(error, OSError | ValueError):
                raise error
            self.error = error if isinstance(error, Exception) else None
            if all(isinstance(answer, BaseException) for answer in answers):
                raise OSError(f"no nsqlookupd answers: {error}") from error
        return found


class _Server(connecting.Client[Link]):
    """One server of a consumer: the connection to it, made again when it is lost.

    Args:
        found: by a look-up. Its connection is made again only if a look-up still names the server: SUB would make a topic again
            that was deleted.
    """

    def __init__(self, consumer: Consumer, address: Address, *, found: bool = False) -> None:
        client = consumer._client
        super().__init__(
            [address],
            ssl=client._ssl,
            reconnect=client._reconnect or Backoff(),
            random=client._random,
            keylog=client._keylog if client._ssl is None else None,
            timeout=client._timeout,
            on_event=client._on_event,
        )
        self.address = address
        self._consumer = consumer
        self._found = found

    async def begin(self) -> Exception | None:
        """Make the first connection, and go on without it if that fails. Returns why it has."""
        self._ended = False
        link: Link | None = None
        error: Exception | None = None
        try:
            link = await self._try_servers()
        except (OSError, Refused, DecodeError) as failed:
            error = failed
        self._keeper = asyncio.get_running_loop().create_task(self._keep(link, error))
        return error

    async def start(self) -> None:
        """As `begin`."""
        await self.begin()

    def abort(self) -> None:
        """Drop the connection, and make no other."""
        self._closing = True
        if self._keeper is not None:
            self._keeper.cancel()
        if self._link is not None:
            self._link.driver.abort()

    async def _connect(self, address: Address) -> Link:
        consumer = self._consumer
        try:
            if self._found and self._keeper is not None:
                listed = await consumer._listed()
                if all(each.key != address.key for each in listed):
                    raise Refused(f"no nsqlookupd names {address} for the topic any more", NOT_LISTED)
            link = Link(consumer, consumer._client, address, None, consumer._options)
            link.subscribe = (consumer._topic, consumer._channel)
            await link.open()
        except (OSError, Refused, DecodeError) as error:
            consumer.error = error
            raise
        consumer.error = None
        self.connections += 1
        self._link = link
        link.gone.add_done_callback(lambda _: self._lost(link))
        return link

    def _lost(self, link: Link) -> None:
        if self._link is link:
            self._link = None
            self._consumer.error = link.lost()

    def _comes_back(self, link: Link) -> bool:
        return super()._comes_back(link) and not isinstance(link.lost().__cause__, LimitExceeded)

    def _is_final(self, refused: Refused) -> bool:
        return refused.code == NOT_LISTED

    def _finish(self, error: Exception | None, reason: Exception) -> None:
        if error is not None:
            self._consumer._given_up(self, error)


async def lookup(url: str, topic: str) -> list[tuple[str, int]]:
    """Ask nsqlookupd for the servers that have a topic: host and port of each.

    Raises OSError if it does not answer, ValueError for an invalid answer.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"the URL of an nsqlookupd begins with http: {url}")
    path = f"{parts.path.rstrip('/')}/lookup?topic={quote(topic, safe='')}"
    host = parts.netloc.rpartition("@")[2]
    secure = parts.scheme == "https"
    async with asyncio.timeout(LOOKUP_TIME):
        reader, writer = await asyncio.open_connection(
            parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None
        )
        try:
            # HTTP/1.0: the answer ends with the stream
            writer.write(
                f"GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/vnd.nsq; version=1.0\r\n\r\n".encode()
            )
            answer = bytearray()
            while len(answer) < LOOKUP_BYTES and (data := await reader.read(1 << 16)):
                answer += data
        finally:
            writer.transport.abort()
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0]
    words = status.split(b" ")
    if words[1:2] == [b"404"]:  # nobody has the topic yet
        return []
    if words[1:2] != [b"200"]:
        raise OSError(f"{url} answers {status[:80].decode('latin-1') or 'nothing'}")
    try:
        data = json.loads(body)
        if isinstance(data.get("data"), dict):  # before 1.0
            data = data["data"]
        return [(str(p["broadcast_address"]), int(p["tcp_port"])) for p in data["producers"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(f"not an answer of nsqlookupd: {url}") from None
