"""Consumers of an NSQ client on asyncio: messages of one channel, from all servers that have its topic."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from wirefmt import nsq
from wirefmt.connection.address import Address, read_url
from wirefmt.connection.aio import Backoff
from wirefmt.connection.client import Receivers
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import DecodeError, EncodeError, LocalProtocolError, Refused
from wirefmt.nsq._codec import Inbox, Taken
from wirefmt.nsq.link import SCHEMES, Link

if TYPE_CHECKING:
    from typing import Self

    from wirefmt.nsq.client import Client

#: Bytes of an answer of nsqlookupd.
LOOKUP_BYTES: Final = 1 << 24


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

    `max_in_flight` is shared among the connections. For messages that the host has not answered, TOUCH is sent at half
    their timeout. A message that is requeued makes the consumer back off: it takes nothing for a while, then one message at a
    time. It takes all again once as many messages are done as had failed. A lost connection is made again.

    Attributes:
        connections: how many connections are up.
        error: why the last attempt to connect has failed; None: it has not.
    """

    def __init__(
        self,
        client: Client,
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
        self._touch = touch
        self._links: list[Link] = []
        self._keepers: dict[Any, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._hand_over(Message)
        self._receivers = Receivers()
        self._probing = False  # RDY 1 on one connection, while backing off
        self._pause: asyncio.TimerHandle | None = None
        self._turn: asyncio.TimerHandle | None = None
        self._rotation = 0
        self._open = False
        self.error: Exception | None = None

    @property
    def connections(self) -> int:
        return len(self._links)

    # ---- opening and closing

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        last, self._last = self._last, None
        if last is not None:
            if kind is None:
                last.finish()
            else:
                last.requeue()
        await self.close()

    async def open(self) -> None:
        """Connect to the servers, and begin to poll the look-ups.

        Raises Refused if a server refuses, OSError if none is reached and there is no look-up.
        """
        self._open = True
        try:
            links = await asyncio.gather(
                *(self._connect(address) for address in self._client._addresses), return_exceptions=True
            )
            errors = [link for link in links if isinstance(link, BaseException)]
            if errors and len(errors) == len(links) and not self._client._lookups:
                raise errors[0]
            for address, link in zip(self._client._addresses, links, strict=True):
                self._keep(address, link if isinstance(link, Link) else None)
            if self._client._lookups:
                await self._look_up()
                self._spawn(self._polling())
            if self._touch:
                self._spawn(self._touching())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Send CLS, requeue the messages that the host has not taken, and wait until the transports are closed."""
        self._open = False
        for timer in (self._pause, self._turn):
            if timer is not None:
                timer.cancel()
        tasks = [*self._keepers.values(), *self._tasks]
        for task in tasks:
            task.cancel()
        links: list[Link] = []
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            self._keepers.clear()
            links = list(self._links)
            waits: list[asyncio.Future[None]] = []
            for link in links:
                if link.event is None and link.connection.state is nsq.State.SUBSCRIBED:
                    waits.append(asyncio.get_running_loop().create_future())
                    link.request = link.connection.send(nsq.Close())
                    link.up = waits[-1]  # CLOSE_WAIT sets it
                    link.driver.update()
            if waits:
                await asyncio.wait(waits, timeout=5.0)
            while (message := self._next()) is not None:
                message.requeue(0, backoff=False)
            self._links.clear()
            for link in links:
                link.driver.close()
            for link in links:
                await link.driver.wait_closed()
        except BaseException:
            for link in {*links, *self._links}:
                link.driver.abort()
            raise
        finally:
            self._keepers.clear()
            self._receivers.wake_all()

    # ---- for the host

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        message: Message | None = self._following()
        if message is None:
            message = self._last = await self.get()
        return message

    async def get(self) -> Message:
        """The next message. The host finishes or requeues it. Raises StopAsyncIteration after `close`."""
        while True:
            message: Message | None = self._next()
            if message is not None:
                return message
            if not self._open:
                raise StopAsyncIteration
            await self._receivers.wait()

    async def run(self, handler: Callable[[Message], Awaitable[Any]], *, concurrency: int = 1) -> None:
        """Call a coroutine function for each message, as many at a time as `concurrency` says, until cancelled or closed.

        A message whose call returns is finished, unless the handler has answered it; one whose call raises is requeued, and
        the exception goes to the event loop's exception handler.
        """

        async def work() -> None:
            while True:
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
            for _ in range(concurrency):
                group.create_task(work())

    def change_max_in_flight(self, count: int) -> None:
        """How many messages may be in flight from now on, on all connections together; 0 pauses."""
        self._max_in_flight = count
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
        end = self._put(link, events, at)
        if self._receivers:
            self._receivers.wake(end - at)
        return end

    def _handle(self, link: Link, event: Any) -> None:
        if type(event) is Disconnected and link in self._links:
            self._links.remove(link)
            self._share()

    # ---- answers and backing off

    def _make_up(self) -> None:
        """A message is done after others have failed."""
        if self._probing:
            self._failures -= 1
            self._probing = False
            if self._failures:
                self._back_off()
            else:
                self._share()

    def _requeue(self, link: Link, message: Message, delay: float | None, backoff: bool) -> bool:
        if delay is None:
            delay = min(self._requeue_delay * max(message.frame.attempts, 1), 3600.0)
        try:
            link.connection.requeue(message.frame, int(delay * 1000))
        except LocalProtocolError:  # as above
            return False
        link.driver.update()
        if backoff and self._pause is None:  # failures of messages that were in flight before count once
            self._failures = min(self._failures + 1, 20)
            self._probing = False
            self._back_off()
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

    def _share(self) -> None:
        """Divide `max_in_flight` among the connections."""
        links = self._links
        if not links or not self._open:
            return
        if self._pause is not None:
            total = 0
        elif self._probing:
            total = min(1, self._max_in_flight)
        else:
            total = self._max_in_flight
        each, more = divmod(total, len(links))
        if 0 < total < len(links) and self._turn is None:
            # fewer than connections: they take turns
            self._turn = asyncio.get_running_loop().call_later(1.0, self._rotate)
        for at, link in enumerate(links):
            count = each + ((at - self._rotation) % len(links) < more)
            connection = link.connection
            negotiated = connection.negotiated
            if negotiated is not None:
                count = min(count, negotiated.max_rdy_count)
            if connection.state is nsq.State.SUBSCRIBED and connection.ready_count != count:
                connection.ready(count)
                link.driver.update()

    def _rotate(self) -> None:
        self._turn = None
        self._rotation += 1
        self._share()

    # ---- tasks

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _touching(self) -> None:
        """Send TOUCH for the messages in flight."""
        while True:
            times = [link.connection.negotiated.msg_timeout for link in self._links if link.connection.negotiated]
            await asyncio.sleep(min(times, default=60_000) / 2000)
            for link in self._links:
                for frame in link.connection.messages():
                    link.connection.touch(frame)
                link.driver.update()

    async def _connect(self, address: Address) -> Link:
        link = Link(self, self._client, address, None)
        link.subscribe = (self._topic, self._channel)
        await link.open()
        self.error = None
        return link

    def _keep(self, address: Address, link: Link | None) -> None:
        if address.key not in self._keepers and self._open:
            task = asyncio.get_running_loop().create_task(self._keeping(address, link))
            self._keepers[address.key] = task

    async def _keeping(self, address: Address, link: Link | None) -> None:
        """Keep one connection to one server: make the next one when it is lost."""
        attempt = 0
        while True:
            if link is not None:
                attempt = 0
                await link.gone
                self.error = link.lost()
            backoff = self._client._reconnect or Backoff()
            await asyncio.sleep(backoff.delay(attempt, self._client._random))
            attempt += 1
            try:
                link = await self._connect(address)
            except (OSError, Refused, DecodeError) as error:
                self.error = error
                link = None
                if self._client._lookups and attempt > 3 and all(a.key != address.key for a in self._client._addresses):
                    del self._keepers[address.key]  # a look-up finds it again, if it comes back
                    return

    async def _polling(self) -> None:
        while True:
            interval = self._client._lookup_interval
            await asyncio.sleep(interval * (0.9 + 0.2 * self._client._random.random()))
            await self._look_up()

    async def _look_up(self) -> None:
        for url in self._client._lookups:
            try:
                found = await lookup(url, self._topic)
            except (OSError, ValueError) as error:
                self.error = error
                continue
            for host, port in found:
                scheme = "nsqs" if self._client._tls else "nsq"
                address = read_url(
                    f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}", SCHEMES
                )
                self._keep_new(address)

    def _keep_new(self, address: Address) -> None:
        if address.key not in self._keepers and self._open:
            self._keepers[address.key] = asyncio.get_running_loop().create_task(self._begin(address))

    async def _begin(self, address: Address) -> None:
        link: Link | None = None
        try:
            link = await self._connect(address)
        except (OSError, Refused, DecodeError) as error:
            self.error = error
        await self._keeping(address, link)


async def lookup(url: str, topic: str) -> list[tuple[str, int]]:
    """Ask nsqlookupd for the servers that have a topic: host and port of each.

    Raises OSError if it does not answer, ValueError for an invalid answer.
    """

    def ask() -> list[tuple[str, int]]:
        request = HttpRequest(
            f"{url.rstrip('/')}/lookup?topic={quote(topic)}", headers={"Accept": "application/vnd.nsq; version=1.0"}
        )
        try:
            with urlopen(request, timeout=10) as answer:
                data = json.loads(answer.read(LOOKUP_BYTES))
        except OSError as error:
            if getattr(error, "code", None) == 404:  # nobody has the topic yet
                return []
            raise
        if isinstance(data, dict) and isinstance(data.get("data"), dict):  # before 1.0
            data = data["data"]
        try:
            return [(str(p["broadcast_address"]), int(p["tcp_port"])) for p in data["producers"]]
        except (KeyError, TypeError):
            raise ValueError(f"not an answer of nsqlookupd: {url}") from None

    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"the URL of an nsqlookupd begins with http: {url}")
    return await asyncio.to_thread(ask)
