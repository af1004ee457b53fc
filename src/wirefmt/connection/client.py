"""A client on asyncio: it makes a connection, waits for its end, makes the next one, and closes it in good order."""

from __future__ import annotations

import asyncio
import inspect
import os
import ssl as tls
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from itertools import count
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar

from wirefmt.connection import aio
from wirefmt.connection.address import Address
from wirefmt.connection.carriers import WebSocket
from wirefmt.connection.contract import Disconnected
from wirefmt.connection.deflate import Deflate
from wirefmt.connection.described import describe
from wirefmt.connection.recovery import ConnectionDown, ConnectionUp, NotRestored, OnRefused, RecoveryEvent
from wirefmt.connection.websocket import ClientHandshake
from wirefmt.errors import ConnectionLost, DecodeError, JournalError, Refused

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from wirefmt.connection.journal import Store

_P = ParamSpec("_P")
_T = TypeVar("_T")
_C = TypeVar("_C")
_Link = TypeVar("_Link", bound="Link")


class Link:
    """The host of one connection of a client. A protocol adds `handle` and `writable`.

    Attributes:
        up: done once the connection can be used; the exception says why it never was.
        gone: done once the transport is gone.
        event: the end of the connection; None: it is not over.
        since: when the client began to use it, in the loop's time.
        tasks: those of `spawn` that have not ended.
    """

    driver: aio.Driver
    connection: Any

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.up: asyncio.Future[None] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.event: Disconnected | None = None
        self.since = loop.time()
        self.tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside: it is cancelled once the transport is gone. If it raises, the connection is dropped."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.driver.abort(error if isinstance(error, Exception) else None)

    @asynccontextmanager
    async def attempt(self, seconds: float) -> AsyncIterator[None]:
        """The block makes the connection. If it raises or takes too long, the connection is dropped and its transport closed."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except BaseException:
            self.driver.abort()
            if self.driver.transport is not None:
                await self.driver.wait_closed()
            raise

    def accepted(self) -> None:
        """The connection can be used."""
        if not self.up.done():
            self.up.set_result(None)

    def ended(self, event: Disconnected) -> None:
        """The connection is over."""
        self.event = event
        if not self.up.done():
            fail(self.up, self.lost())

    def closed(self, error: Exception | None) -> None:
        for task in self.tasks:
            task.cancel()
        if not self.gone.done():
            self.gone.set_result(None)

    def lost(self) -> Exception:
        """Why this connection is over, as an exception for the program."""
        event, error = self.event, self.driver.error
        if isinstance(error, JournalError):
            return error
        if event is not None and event.by != "local" and event.code:
            return self._refused(event)
        cause = event.error if event is not None and event.error is not None else error
        text = str(cause) if cause else event.reason if event is not None else "the connection is over"
        lost = ConnectionLost(text, event)
        lost.__cause__ = cause
        return lost

    def _refused(self, event: Disconnected) -> Refused:
        return Refused(f"the server has ended the connection: {event.code} {event.reason}", event.code or 0, event)


class Connecting(TypedDict, total=False):
    """How a client connects: what clients of these protocols take by keyword."""

    ssl: tls.SSLContext | None
    reconnect: aio.Backoff | None
    timeout: float
    random: Random | None
    shuffle: bool
    on_event: Callable[[RecoveryEvent], None] | None
    keylog: str | Path | None


class Client(Generic[_Link]):
    """How clients of all protocols open, keep and close their connections.

    Args:
        addresses: the servers, which are tried in turn.
        deflate: offer compression over WebSocket; None: do not.
        ssl: TLS with this context; None: the default one, if the URL asks for TLS.
        reconnect: connect again when the connection is lost; None: its end ends the client.
        timeout: seconds that an attempt to connect may take.
        random: for back-off, names and WebSocket; None: the system's.
        shuffle: True: several servers are tried in an order made by chance.
        on_event: called with each event of `wirefmt.connection.recovery`.
        keylog: a file to which the secrets of TLS are appended, so that a capture of the connections can be decrypted. Not with
            `ssl`, which has `keylog_filename`.

    Attributes:
        connections: how many connections there have been.
    """

    def __init__(
        self,
        addresses: Iterable[Address],
        *,
        deflate: Deflate | None = None,
        ssl: tls.SSLContext | None = None,
        reconnect: aio.Backoff | None = None,
        timeout: float = 30.0,
        random: Random | None = None,
        shuffle: bool = False,
        on_event: Callable[[RecoveryEvent], None] | None = None,
        keylog: str | Path | None = None,
    ) -> None:
        if keylog is not None and ssl is not None:
            raise ValueError("keylog is for contexts that are made here: set keylog_filename of `ssl`")
        self._deflate = deflate
        self._keylog = keylog
        self._random = random or SystemRandom()
        self._addresses = list(addresses)
        if shuffle:
            self._random.shuffle(self._addresses)
        self._turn = 0  # the number of the server that is tried next
        self._reconnect = reconnect
        self._ssl = ssl
        self._timeout = timeout
        self._on_event = on_event
        self.connections = 0
        self._link: _Link | None = None  # the connection that is up
        self._store: Store | None = None  # the journal, while the client is open
        self._keeper: asyncio.Task[None] | None = None
        self._closing = False
        self._ended = True
        self._error: Exception | None = None

    # ---- what a protocol adds

    async def _begin(self) -> _Link | None:
        """Open the journal, and make the first connection. None: the client needs none."""
        return await self._try_servers()

    async def _connect(self, address: Address) -> _Link:
        """One attempt. Raises OSError, DecodeError, Refused."""
        raise NotImplementedError

    def _is_final(self, refused: Refused) -> bool:
        """True: another attempt would be refused in the same way."""
        return True

    def _comes_back(self, link: _Link) -> bool:
        """True: another connection is made after this one."""
        return self._reconnect is not None and not self._closing

    def _finish(self, error: Exception | None, reason: Exception) -> None:
        """There is no further connection. `error`: what iterators raise; None: the client was closed. `reason`: what calls
        that wait raise."""

    def _not_kept(self, numbers: set[int], error: JournalError) -> None:
        """The journal cannot keep the messages with these numbers, and they have not been sent: forget them. Their calls raise
        the error, as do those whose messages wait to be sent."""

    # ---- opening and closing

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect.

        Raises:
            Refused: the server refuses the connection.
            ConnectionLost: it ends the connection, or breaks the protocol.
            OSError: there is no connection (TimeoutError; ssl.SSLError).
            JournalError: the journal cannot be opened, or written.
        """
        if not self._ended:
            raise RuntimeError("the client is open")
        self._ended = self._closing = False
        self._error = None
        try:
            link = await self._begin()
            if self._closing:
                if link is not None:
                    link.driver.abort()
                    await link.driver.wait_closed()
                raise ConnectionLost("the client was closed")
        except BaseException as error:
            self._end(error if isinstance(error, Exception) else None)  # other tasks may wait already
            await self._close_journal()
            raise
        if link is not None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep(link))

    async def close(self) -> None:
        """Close the connection, and wait until transport, tasks and journal are closed. Calls that wait raise
        ConnectionLost.

        Raises JournalError if the journal could not be written to its end; all is closed then, too.
        """
        await self._close(lambda link: link.driver.close())

    async def _close(self, end: Callable[[_Link], None]) -> None:
        """`end`: ends the connection, if there is one."""
        self._closing = True
        link, keeper = self._link, self._keeper
        try:
            if link is not None and link.event is None:
                end(link)
                await link.driver.wait_closed()
            if keeper is not None:
                if link is None:
                    keeper.cancel()  # it waits before the next attempt, or connects
                await asyncio.wait([keeper])
        except BaseException:
            if link is not None:
                link.driver.abort()
            if keeper is not None:
                keeper.cancel()
                await asyncio.wait([keeper])
            if link is not None:
                await link.driver.wait_closed()
            raise
        finally:
            self._keeper = None
            self._end(None)
            await self._close_journal()

    async def _close_journal(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    @property
    def connected(self) -> bool:
        """True while there is a connection that can be used."""
        return self._link is not None

    # ---- connections

    async def _dial(self, link: _Link, address: Address) -> None:
        """Open the transport. Raises OSError (ssl.SSLError), ConnectionLost: it is gone already."""
        await aio.open_transport(
            link.driver, address.host, address.port, path=address.path, ssl=self._context(address.scheme.tls)
        )
        if link.event is not None:  # on uvloop the end may come first
            raise link.lost()

    def _context(self, wanted: bool) -> tls.SSLContext | None:
        """The context of TLS; None: there is no TLS."""
        if self._ssl is None and wanted:
            self._ssl = self._logged(tls.create_default_context())
        return self._ssl

    def _logged(self, context: tls.SSLContext) -> tls.SSLContext:
        """A context that was made here: its secrets go to the file that was asked for. Raises OSError."""
        if self._keylog is not None:
            context.keylog_filename = os.fspath(self._keylog)
        return context

    def _websocket(self, address: Address, subprotocol: str, usual: str) -> dict[str, Any]:
        """Arguments of a driver whose transport carries WebSocket, if the URL says so. `usual`: the resource that is asked for if
        the URL has none."""
        if not address.scheme.websocket:
            return {}
        key = self._random.randbytes(16)
        return {
            "opening": ClientHandshake(
                address.authority, address.resource or usual, subprotocol, key, deflate=self._deflate
            ),
            "carrier": WebSocket(lambda: self._random.randbytes(4)),
        }

    async def _try_servers(self) -> _Link:
        """Try each server once, in turn. Raises the last error that another attempt may be spared, or else the last one."""
        loop = asyncio.get_running_loop()
        passing: Exception | None = None
        final: Exception | None = None
        for _ in self._addresses:
            address = self._addresses[self._turn % len(self._addresses)]
            try:
                link = await self._connect(address)
            except Refused as refused:
                if self._is_final(refused):
                    final = refused
                else:
                    passing = refused
            except (OSError, DecodeError) as failed:
                passing = failed
            else:
                link.since = loop.time()
                self._tell(ConnectionUp(address, self.connections))
                return link
            self._turn += 1
        error = passing or final
        assert error is not None
        raise error

    async def _keep(self, link: _Link | None, error: Exception | None = None) -> None:
        """`error`: why there is no first connection."""
        try:
            self._end(await self._keeping(link, error))
        except Exception as failed:
            self._end(failed)

    async def _keeping(self, link: _Link | None, error: Exception | None) -> Exception | None:
        """Wait for the end of each connection, and make the next one. Returns why it cannot be made; None: the client closes."""
        loop = asyncio.get_running_loop()
        failures = 0  # since a connection has lasted
        backoff = self._reconnect
        while True:
            if link is not None:
                await link.gone
                if link.tasks:
                    await asyncio.wait(link.tasks)
                unwritten = await self._write_journal()
                if self._closing:
                    return None
                error = unwritten or link.lost()
                if isinstance(error, JournalError) and error.statement is not None:
                    return error  # it is the program's
                if not self._comes_back(link):
                    return error
                if backoff is not None and loop.time() - link.since >= backoff.stable:
                    failures = 0
                self._turn += 1
            assert error is not None
            if backoff is None:
                return error
            while True:
                if backoff.attempts is not None and failures >= backoff.attempts:
                    return error
                wait = backoff.delay(failures, self._random)
                self._tell(ConnectionDown(error, wait))
                await asyncio.sleep(wait)
                failures += 1
                if (unwritten := await self._write_journal()) is not None:
                    error = unwritten  # nothing could be sent on a connection
                    continue
                try:
                    link = await self._try_servers()
                    break
                except Refused as refused:
                    error = refused
                    if self._is_final(refused):
                        return error
                except (OSError, DecodeError) as failed:
                    error = failed

    async def _write_journal(self) -> JournalError | None:
        """Write what the journal owes. Returns why that cannot be done; then the messages that are not on disk are given up."""
        if self._store is not None:
            try:
                await self._store.flush()
            except JournalError as error:
                self._not_kept(await self._store.withdraw(), error)
                return error
        return None

    def _check_journal(self) -> None:
        """Called before a message is taken that the journal has to keep. Raises JournalError while it cannot be written."""
        if self._store is not None and (error := self._store.error) is not None:
            raise JournalError(str(error)) from error.__cause__

    async def _restore_one(
        self,
        link: _Link,
        entity: Any,
        ask: Callable[[], Awaitable[Any]],
        policy: OnRefused | None,
        passes: Callable[[Refused], bool],
        failed: int = 0,
    ) -> bool:
        """Ask the server for one thing until it grants it. While it is refused, it reports each refusal, and acts on it.

        Args:
            ask: asks, and raises Refused.
            policy: what to do if it is refused; None: retry if `passes` says that the cause can pass, else fail.
            failed: how often it has been lost a moment after it was granted; counts as attempts.

        Returns True: it is granted. False: it is left out. Raises Refused: it is over. What `ask` raises after the end of the
        connection is raised as it is.
        """
        backoff = self._reconnect or aio.Backoff()
        for attempt in count(failed):
            try:
                await ask()
                return True
            except Refused as refused:
                if link.event is not None:
                    raise
                action = policy or ("retry" if passes(refused) else "fail")
                if action == "retry" and backoff.attempts is not None and attempt >= backoff.attempts:
                    action = "fail"
                wait = backoff.delay(attempt, self._random) if action == "retry" else None
                self._tell(NotRestored(entity, refused, action, wait))
                if wait is None:
                    if action == "skip":
                        return False
                    raise
                await asyncio.sleep(wait)
        raise AssertionError

    def _tell(self, event: RecoveryEvent) -> None:
        """Let the program know."""
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception as error:
                asyncio.get_running_loop().call_exception_handler({"message": "on_event raised", "exception": error})

    def _end(self, error: Exception | None) -> None:
        """There is no further connection: calls that wait end."""
        if not self._ended:
            self._ended = True
            self._error = error
            if error is not None:
                self._tell(ConnectionDown(error, None))
            self._finish(error, error or ConnectionLost("the client was closed"))


class Receivers:
    """Coroutines that wait for what comes one by one: each thing wakes up one of them. True: somebody waits."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiters)

    async def wait(self) -> None:
        """Wait until `wake` is called for this one. Look again then: another one may have been faster."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.wake()  # it was meant for another one
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def wake(self, count: int = 1) -> None:
        """Things have arrived: wake up as many as there are things."""
        while count and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    def wake_all(self) -> None:
        """Nothing more comes."""
        self.wake(len(self._waiters))


def fail(future: asyncio.Future[Any], error: Exception) -> None:
    """Let a call raise this error, unless it has ended. If nobody waits, the event loop reports nothing."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # it is seen


def release(waiters: Iterable[asyncio.Future[None]]) -> None:
    """Wake up everybody who waits."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def complete(client: type[_C]) -> type[_C]:
    """Complete the class `Client` of a package, whose constructor has `**more: Unpack[Connecting]`."""
    client.__doc__ = describe(client.__init__, client.__doc__, Client, Connecting.__annotations__)
    return client


def verb(make: Callable[_P, _T], example: str) -> Callable[_P, _T]:
    """The function `connect` of a package: what makes a client, under the name of what is done with it."""

    def connect(*args: _P.args, **more: _P.kwargs) -> _T:
        return make(*args, **more)

    connect.__doc__ = f"""A client for a server, not connected yet: see `Client` for the arguments.

        ::

            async with {example} as client: ...
        """
    connect.__module__ = make.__module__
    connect.__qualname__ = "connect"
    parameters = inspect.signature(make)
    connect.__signature__ = parameters.replace(return_annotation=make.__name__)  # type: ignore[attr-defined]
    return connect
