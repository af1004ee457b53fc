"""An NSQ client on asyncio: a producer, and consumers.

docs/nsq-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
import json
import ssl as tls
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from wirefmt import nsq
from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.connection.aio import Backoff
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, StartTls, WindowOpened
from wirefmt.connection.journal import Store
from wirefmt.errors import ConnectionLost, DecodeError, EncodeError, LocalProtocolError, Refused
from wirefmt.nsq.connection import ClientConnection
from wirefmt.nsq.events import ConnectionOptions, Publication, Request, TimedOut
from wirefmt.nsq.session import Session

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

#: URL scheme -> TLS asked for in IDENTIFY, usual port.
SCHEMES: Final[dict[str, tuple[bool, int]]] = {"nsq": (False, 4150), "nsqs": (True, 4150), "nsq+unix": (False, 0)}

#: Bytes of an answer of nsqlookupd.
LOOKUP_BYTES: Final = 1 << 24


class Address:
    """Where an nsqd is."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise ValueError(f"the scheme of {parts.scheme + ':'!r} is not one of {', '.join(SCHEMES)}")
        self.tls, port = SCHEMES[parts.scheme]
        self.path = unquote(parts.path) if parts.scheme == "nsq+unix" else None
        self.host, self.port = parts.hostname or "localhost", parts.port or port
        self.secret = unquote(parts.password).encode() if parts.password is not None else None
        self.key = (self.host, self.port, self.path)


class _Link(connecting.Link):
    """The host of one connection."""

    connection: ClientConnection

    def __init__(self, owner: Client | Consumer, settings: Client, address: Address, session: Session | None) -> None:
        super().__init__()
        self.owner = owner
        self.settings = settings
        self.address = address
        self.request: Request | None = None  # AUTH or SUB, whose answer is awaited
        self.subscribe: tuple[str, str] | None = None
        self.connection = ClientConnection(asyncio.get_running_loop().time(), session, settings._options)
        store = settings._store
        self.driver = aio.Driver(
            self.connection, self, store=store.put if store is not None and session is not None else None
        )

    async def open(self) -> None:
        """Connect, IDENTIFY, TLS, compression, AUTH, SUB. Raises OSError, Refused, ConnectionLost."""
        address = self.address
        async with self.attempt(self.settings._timeout):
            self.connection.send(self.settings._identify(address.tls))
            await aio.open_transport(self.driver, address.host, address.port, path=address.path)
            self.driver.update()
            await self.up

    def handle(self, event: Any) -> None:
        match event:
            case nsq.MessageFrame() | TimedOut() | WindowOpened():
                self.owner._handle(self, event)
            case Acknowledged() if event.handle is self.request:
                self.request = None
                self._answered(event)
            case Acknowledged():
                self.owner._handle(self, event)
            case StartTls():
                self.driver.start_tls(self.settings._context(), self.address.host)
            case Connected():
                self._connected(event)
            case Disconnected():
                self.ended(event)
                self.owner._handle(self, event)

    def writable(self) -> None:
        self.owner._writable(self)

    def _connected(self, event: Connected) -> None:
        negotiated = event.negotiated
        if self.address.tls and not negotiated.tls:
            self.driver.abort(ConnectionError("the server does not offer TLS"))
        elif negotiated.auth_required:
            secret = self.address.secret if self.address.secret is not None else self.settings._secret
            if secret is None:
                self.driver.abort(PermissionError("the server requires AUTH, and there is no secret"))
                return
            self.request = self.connection.send(nsq.Auth(secret=secret))
            self.driver.update()
        else:
            self._ready()

    def _answered(self, event: Acknowledged) -> None:
        if isinstance(event.message, nsq.Error):
            return  # Disconnected follows
        if isinstance(event.handle.command, nsq.Auth):  # type: ignore[attr-defined]
            self._ready()
        else:
            self._is_up()

    def _ready(self) -> None:
        if self.subscribe is not None:
            self.request = self.connection.subscribe(*self.subscribe)
            self.driver.update()
        else:
            self._is_up()

    def _is_up(self) -> None:
        self.accepted()
        self.owner._up(self)

    def lost(self) -> Exception:
        error = self.driver.error
        return Refused(str(error), "E_AUTH_FIRST", self.event) if isinstance(error, PermissionError) else super().lost()

    def _refused(self, event: Disconnected) -> Refused:
        return Refused(f"the server says {event.code} {event.reason}".rstrip(), event.code or 0, event.message)


class Message:
    """A message of a consumer.

    Attributes:
        frame: what the server has sent: its `body`, `attempts`, `timestamp`, `message_id`.
    """

    __slots__ = ("_consumer", "_link", "frame")

    def __init__(self, frame: nsq.MessageFrame, link: _Link, consumer: Consumer) -> None:
        self.frame = frame
        self._link: _Link | None = link
        self._consumer = consumer

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
        """False: it has been answered, or its time is over, and the server delivers it again."""
        return self._link is not None

    def finish(self) -> bool:
        """It is done. False: it is not in flight any more."""
        link, self._link = self._link, None
        return link is not None and self._consumer._finish(link, self)

    def requeue(self, delay: float | None = None, *, backoff: bool = True) -> bool:
        """It is to be delivered again.

        Args:
            delay: seconds; None: the consumer's `requeue_delay` for each attempt so far.
            backoff: the consumer takes fewer messages for a while.

        Returns False if it is not in flight any more.
        """
        link, self._link = self._link, None
        return link is not None and self._consumer._requeue(link, self, delay, backoff)

    def touch(self) -> bool:
        """Ask for more time. Consumers do so by themselves. False: it is not in flight any more."""
        if self._link is None:
            return False
        self._link.connection.touch(self.frame)
        self._link.driver.update()
        return True


class Consumer:
    """Messages of one channel, from all servers that have its topic: made by `Client.consume`.

    ::

        async with client.consume("orders", "billing", max_in_flight=100) as messages:
            async for message in messages:
                ...                             # finished when the next one is asked for, requeued if the loop is left

    `max_in_flight` is shared among the connections. While messages are with the host, TOUCH is sent at half their time. A
    message that is requeued makes the consumer back off: it takes nothing for a while, then one message, and all again after as
    many messages are done as had failed. A connection that is lost is made again.

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
        self._links: list[_Link] = []
        self._keepers: dict[Any, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbox: deque[Message] = deque()
        self._messages: dict[int, Message] = {}  # in flight, by id of the frame
        self._receivers: deque[asyncio.Future[None]] = deque()
        self._last: Message | None = None
        self._failures = 0  # messages that have failed and are not made up for
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
        """Connect to the servers, or begin to ask for them. Raises Refused if a server refuses, OSError if none is reached and
        no look-up can find others."""
        self._open = True
        try:
            links = await asyncio.gather(
                *(self._connect(address) for address in self._client._addresses), return_exceptions=True
            )
            errors = [link for link in links if isinstance(link, BaseException)]
            if errors and len(errors) == len(links) and not self._client._lookups:
                raise errors[0]
            for address, link in zip(self._client._addresses, links, strict=True):
                self._keep(address, link if isinstance(link, _Link) else None)
            if self._client._lookups:
                await self._look_up()
                self._spawn(self._polling())
            if self._touch:
                self._spawn(self._touching())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Say CLS, give back the messages that the host has not taken, wait until the transports are closed."""
        self._open = False
        for timer in (self._pause, self._turn):
            if timer is not None:
                timer.cancel()
        tasks = [*self._keepers.values(), *self._tasks]
        for task in tasks:
            task.cancel()
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
        try:
            if waits:
                await asyncio.wait(waits, timeout=5.0)
        finally:
            while self._inbox:
                self._inbox.popleft().requeue(0, backoff=False)
            for link in links:
                link.driver.close()
            self._links.clear()
        for link in links:
            await link.driver.wait_closed()
        self._wake_all()

    # ---- for the host

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        last, self._last = self._last, None
        if last is not None:
            last.finish()
        message = await self.get()
        self._last = message
        return message

    async def get(self) -> Message:
        """The next message. The host finishes or requeues it. Raises StopAsyncIteration after `close`."""
        while True:
            while self._inbox:
                message = self._inbox.popleft()
                if message.in_flight:
                    return message
            if not self._open:
                raise StopAsyncIteration
            waiter = asyncio.get_running_loop().create_future()
            self._receivers.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # it was meant for another one
                raise

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

    def _up(self, link: _Link) -> None:
        if link not in self._links:
            self._links.append(link)
            self._share()

    def _writable(self, link: _Link) -> None:
        pass

    def _handle(self, link: _Link, event: Any) -> None:
        match event:
            case nsq.MessageFrame():
                message = Message(event, link, self)
                self._messages[id(event)] = message
                self._inbox.append(message)
                self._wake()
            case TimedOut():
                gone = self._messages.pop(id(event.handle), None)
                if gone is not None:
                    gone._link = None
            case Disconnected():
                for key, message in list(self._messages.items()):
                    if message._link is link:
                        message._link = None
                        del self._messages[key]
                if link in self._links:
                    self._links.remove(link)
                    self._share()

    # ---- answers and backing off

    def _finish(self, link: _Link, message: Message) -> bool:
        self._messages.pop(id(message.frame), None)
        try:
            link.connection.finish(message.frame)
        except LocalProtocolError:  # the event that says why is about to come
            return False
        link.driver.update()
        if self._failures and self._probing:
            self._failures -= 1
            self._probing = False
            if self._failures:
                self._back_off()
            else:
                self._share()
        return True

    def _requeue(self, link: _Link, message: Message, delay: float | None, backoff: bool) -> bool:
        self._messages.pop(id(message.frame), None)
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
        """Take nothing for a while, then try one message."""
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
        """Keep messages that the host works on."""
        while True:
            times = [link.connection.negotiated.msg_timeout for link in self._links if link.connection.negotiated]
            await asyncio.sleep(min(times, default=60_000) / 2000)
            for message in list(self._messages.values()):
                message.touch()

    async def _connect(self, address: Address) -> _Link:
        link = _Link(self, self._client, address, None)
        link.subscribe = (self._topic, self._channel)
        await link.open()
        self.error = None
        return link

    def _keep(self, address: Address, link: _Link | None) -> None:
        if address.key not in self._keepers and self._open:
            task = asyncio.get_running_loop().create_task(self._keeping(address, link))
            self._keepers[address.key] = task

    async def _keeping(self, address: Address, link: _Link | None) -> None:
        """One connection after the other to one server."""
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
                address = Address(f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}")
                self._keep_new(address)

    def _keep_new(self, address: Address) -> None:
        if address.key not in self._keepers and self._open:
            self._keepers[address.key] = asyncio.get_running_loop().create_task(self._begin(address))

    async def _begin(self, address: Address) -> None:
        link: _Link | None = None
        try:
            link = await self._connect(address)
        except (OSError, Refused, DecodeError) as error:
            self.error = error
        await self._keeping(address, link)

    def _wake(self) -> None:
        while self._receivers:
            waiter = self._receivers.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._receivers:
            self._wake()


async def lookup(url: str, topic: str) -> list[tuple[str, int]]:
    """Ask nsqlookupd for the servers that have a topic: host and port of each.

    Raises OSError if it cannot be asked, ValueError for an answer that is none.
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


class _Entry:
    """A publishing command of the host: it waits to be sent, or for its answer."""

    __slots__ = ("command", "future")

    def __init__(self, command: Publication, future: asyncio.Future[None]) -> None:
        self.command = command
        self.future = future


class Client(connecting.Client[_Link]):
    """An NSQ client, made by `nsq.connect`. `async with` connects and closes it; so do its methods `open` and `close`.

    ::

        async with nsq.connect("nsq://127.0.0.1:4150") as client:
            await client.publish("orders", b"one")                  # returns when the server has answered
            async with client.consume("orders", "billing") as messages:
                async for message in messages: ...

    Messages are published to the first server that takes a connection. Consumers have connections of their own, to all servers.

    Args:
        urls: `nsq://host:4150`, `nsqs://` (TLS asked for in IDENTIFY, and required), `nsq+unix:///path`. A secret may be in it:
            `nsq://:secret@host`.
        lookup: URLs of nsqlookupd's HTTP: consumers connect to the servers that it names, too. With no `urls` there is no
            producer.
        secret: for AUTH, if the server requires it.
        deflate: True, or the level: asked for in IDENTIFY.
        snappy: asked for in IDENTIFY (needs cramjam: `wirefmt[snappy]`).
        ssl: TLS with this context; None: the default one.
        identify: further members of IDENTIFY: `client_id`, `heartbeat_interval`, `msg_timeout`, `sample_rate` ...
        journal: path of a SQLite database: what was published and not answered outlives the process, and the next client with
            the journal publishes it again. Each message arrives at least once.
        reconnect: connect again when the producer's connection is lost; what was not answered is published again, so a message
            may arrive twice. None: the end of the connection ends the producer. Consumers always connect again.
        timeout: seconds that an attempt to connect may take.
        lookup_interval: seconds between two questions to each nsqlookupd.
        options: limits and times of each connection.
        random: for back-off; None: the system's.

    Raises ValueError for a URL with another scheme.

    Every coroutine can be cancelled; the client stays usable. A call that is cancelled after its command has been sent takes
    nothing back.

    Attributes:
        connections: how many connections the producer has had.
        lost: messages of which it is not known whether they have arrived and for which no call waits.
    """

    def __init__(
        self,
        *urls: str,
        lookup: Iterable[str] = (),
        secret: bytes | str | None = None,
        deflate: bool | int = False,
        snappy: bool = False,
        ssl: tls.SSLContext | None = None,
        identify: dict[str, Any] | None = None,
        journal: str | Path | None = None,
        reconnect: Backoff | None = None,
        timeout: float = 30.0,
        lookup_interval: float = 60.0,
        options: ConnectionOptions | None = None,
        random: Random | None = None,
    ) -> None:
        super().__init__(reconnect, random)
        self._addresses = [Address(url) for url in urls]
        self._lookups = tuple(lookup)
        if not self._addresses and not self._lookups:
            raise ValueError("a URL of a server, or lookup")
        self._tls = any(address.tls for address in self._addresses)
        self._secret = secret.encode() if isinstance(secret, str) else secret
        self._features: dict[str, Any] = {"snappy": True} if snappy else {}
        if deflate:
            self._features["deflate"] = True
            if deflate is not True:
                self._features["deflate_level"] = deflate
        self._ssl = ssl
        self._members = {"user_agent": "wirefmt", "feature_negotiation": True, **(identify or {})}
        self._journal_path = journal
        self._timeout = timeout
        self._lookup_interval = lookup_interval
        self._options = options or ConnectionOptions()
        self._identify(self._tls)  # raises for an invalid value

        self.session: Session | None = Session() if reconnect is not None else None
        self.lost = 0
        self._store: Store | None = None
        self._queue: deque[_Entry] = deque()  # not sent
        self._waiting: dict[Request, _Entry] = {}  # sent
        self._drained: asyncio.Future[None] | None = None

    def _identify(self, secure: bool) -> nsq.Identify:
        try:
            return nsq.Identify({**self._members, **self._features, **({"tls_v1": True} if secure else {})})
        except EncodeError as error:
            raise ValueError(str(error)) from error

    def _context(self) -> tls.SSLContext:
        if self._ssl is None:
            self._ssl = tls.create_default_context()
        return self._ssl

    # ---- opening and closing

    async def _begin(self) -> _Link | None:
        """The producer connects, if there are servers for it."""
        if self._journal_path is not None:
            self._store = Store(self._journal_path, "nsq")
            self.session = Session.replay(await self._store.open(), journaled=True)
        return await self._connect() if self._addresses else None

    async def close(self) -> None:
        """Wait until what was published is answered and sent, for at most the time of an attempt to connect, then close
        transport and journal. Calls that still wait raise ConnectionLost."""
        link = self._link
        try:
            if link is not None and (self._queue or self._waiting or self._unanswered()):
                self._drained = asyncio.get_running_loop().create_future()
                await asyncio.wait([self._drained, link.gone], timeout=self._timeout, return_when="FIRST_COMPLETED")
        finally:
            self._drained = None
            await super().close()

    def _unanswered(self) -> int:
        return len(self.session.pending) if self.session is not None else 0

    async def _close_journal(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    # ---- requests

    async def publish(self, topic: str, body: Buffer | str, *, defer: float | None = None) -> None:
        """Publish a message. Returns when the server has answered.

        Calls need not wait for one another: what several tasks publish is sent together, and the answers come in order.

        Args:
            body: text is written in UTF-8.
            defer: seconds until it is delivered.

        Raises:
            Refused: the server refuses the message, and ends the connection.
            LocalProtocolError: it cannot be sent. Nothing was sent.
            ConnectionLost: the connection has ended, and the message is not sent again by this client.
        """
        data = body.encode() if isinstance(body, str) else body
        if defer is None:
            await self._request(_build(nsq.Publish, topic=topic, body=data))
        else:
            await self._request(_build(nsq.DeferredPublish, topic=topic, defer_time=int(defer * 1000), body=data))

    async def publish_many(self, topic: str, bodies: Iterable[Buffer]) -> None:
        """Publish messages together: all of them arrive, or none. As `publish` otherwise."""
        await self._request(_build(nsq.MultiPublish, topic=topic, bodies=bodies))

    def consume(
        self,
        topic: str,
        channel: str,
        *,
        max_in_flight: int = 100,
        requeue_delay: float = 90.0,
        backoff: Backoff | None = None,
        touch: bool = True,
    ) -> Consumer:
        """Messages of a channel: see `Consumer`.

        Args:
            max_in_flight: messages that may be in flight on all connections together.
            requeue_delay: seconds for each attempt, until a message that has failed comes again.
            backoff: how long nothing is taken after a failure; None: from 1 second to 2 minutes.
            touch: ask for more time for messages that the host works on.

        Raises ValueError for a name that is none.
        """
        return Consumer(
            self,
            topic,
            channel,
            max_in_flight=max_in_flight,
            requeue_delay=requeue_delay,
            backoff=backoff or Backoff(first=1.0, most=120.0),
            touch=touch,
        )

    async def _request(self, command: Publication) -> None:
        if self._ended or self._closing or not self._addresses:
            raise self._error or ConnectionLost("the producer is not open")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(_Entry(command, future))
        self._pump()
        await future

    def _pump(self) -> None:
        """Send what waits, as far as the window and the transport allow."""
        link = self._link
        if link is None:
            return
        driver, connection, queue = link.driver, link.connection, self._queue
        while queue and driver.ready and connection.send_quota and connection.state is nsq.State.INIT:
            entry = queue.popleft()
            if entry.future.done():
                continue
            try:
                handle = connection.send(entry.command)
            except LocalProtocolError as error:
                entry.future.set_exception(error)
                continue
            assert handle is not None
            self._waiting[handle] = entry
        driver.update()

    # ---- called by the link

    def _up(self, link: _Link) -> None:
        self.connections += 1
        self._link = link
        self._pump()

    def _writable(self, link: _Link) -> None:
        self._pump()

    def _handle(self, link: _Link, event: Any) -> None:
        match event:
            case Acknowledged():
                self._acknowledged(event)
            case WindowOpened():
                self._pump()
            case Disconnected() if self._link is link:
                self._link = None
                for handle in event.lost:
                    self._fail(handle, link.lost())  # type: ignore[arg-type]

    def _acknowledged(self, event: Acknowledged) -> None:
        entry = self._waiting.pop(event.handle, None)  # type: ignore[call-overload]
        if isinstance(event.message, nsq.Error):
            error = Refused(
                f"the server says {event.message.code} {event.message.text}".rstrip(), event.message.code, event.message
            )
            if entry is None or entry.future.done():
                self.lost += 1
            else:
                entry.future.set_exception(error)
        elif entry is not None and not entry.future.done():
            entry.future.set_result(None)
        if self._queue:
            self._pump()
        idle = not (self._queue or self._waiting or self._unanswered())
        if idle and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _fail(self, handle: Request, reason: Exception) -> None:
        entry = self._waiting.pop(handle, None)
        if entry is None or entry.future.done():
            self.lost += 1
        else:
            entry.future.set_exception(reason)

    # ---- connections

    async def _connect(self) -> _Link:
        """One attempt at each server. Raises what the last one has brought."""
        error: Exception | None = None
        for address in self._addresses:
            link = _Link(self, self, address, self.session)
            try:
                await link.open()
            except (OSError, Refused, DecodeError) as failed:
                error = failed
                continue
            return link
        assert error is not None
        raise error

    def _is_final(self, refused: Refused) -> bool:
        return False

    def _finish(self, error: Exception | None, reason: Exception) -> None:
        for entry in [*self._waiting.values(), *self._queue]:
            if entry.future.done():
                self.lost += 1
            else:
                entry.future.set_exception(reason)
        self._waiting.clear()
        self._queue.clear()


def _build(make: Callable[..., Any], **fields: Any) -> Any:
    try:
        return make(**fields)
    except (EncodeError, TypeError, ValueError) as error:
        raise LocalProtocolError(str(error)) from error


connect = connecting.verb(Client, 'nsq.connect("nsq://127.0.0.1:4150")')
