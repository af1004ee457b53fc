"""A server: a driver for each client that connects."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from ssl import SSLContext
from typing import Any, Final, ParamSpec, Protocol, TypedDict, TypeVar

from wirefmt.connection import proxy
from wirefmt.connection.aio.driver import Driver
from wirefmt.connection.aio.proxied import Proxied
from wirefmt.connection.aio.transports import LINGER, READ_SIZE, TapFactory
from wirefmt.connection.aio.unfinished import Unfinished
from wirefmt.connection.carriers import WebSocket
from wirefmt.connection.described import describe
from wirefmt.connection.websocket import ServerHandshake
from wirefmt.errors import DecodeError

_P = ParamSpec("_P")
_T = TypeVar("_T")
PeerT = TypeVar("PeerT", contravariant=True)
EventT = TypeVar("EventT", contravariant=True)


class Handler(Protocol[PeerT, EventT]):
    """The code that handles the events of all peers of a server. Its methods are called in the event loop and do not wait.

    It may also have `handle_run(peer, events, at)`, which takes several events of a peer: see `Host`.
    """

    def handle(self, peer: PeerT, event: EventT) -> None:
        """An event of a peer, in order. An exception drops the peer. What may be too much for one iteration of the loop goes to
        `peer.driver.later`."""
        ...

    def writable(self, peer: PeerT) -> None:
        """The peer takes bytes again."""
        ...

    def closed(self, peer: PeerT) -> None:
        """The peer's transport is gone. `Disconnected` has been handled before."""
        ...


class Peer:
    """One client of a server: the host of its connection. A package of a protocol adds the answers to requests: methods that
    call those of its `ServerConnection` and raise LocalProtocolError as they do. What they queue is written at the end of the
    loop's iteration.

    With a coroutine function as handler the events are taken by `async for event in peer`, the last one is
    `Disconnected`. Reading stops while EVENTS of them wait.

    Attributes:
        connection: the connection. After a call of a method that returns events, give these to `driver.update`.
        driver: its input and output.
        server: the server.
        error: what ended the transport, if it was an error.
    """

    EVENTS: Final = 1000

    def __init__(
        self,
        handler: Handler[Any, Any] | Callable[[Any], Coroutine[Any, Any, None]],
        server: Server,
        connection: Any,
        opening: ServerHandshake | None = None,
    ) -> None:
        self.connection = connection
        self.server = server
        self.error: Exception | None = None
        self._handler: Handler[Any, Any] | None = None
        self.handle_run: Callable[[list[Any], int], int] | None = None
        self._run: Callable[[Any], Coroutine[Any, Any, None]] | None = None
        if callable(handler):
            self._run = handler
        else:
            self._handler = handler
            handle_run = getattr(handler, "handle_run", None)
            if handle_run is not None:
                self.handle_run = partial(handle_run, self)
        self._task: asyncio.Task[None] | None = None
        self._inbox: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._drained: list[asyncio.Future[None]] = []
        self._gone = False
        carrier = WebSocket() if opening is not None else None
        # last: the driver looks for `handle_run`
        self.driver = Driver(connection, self, buffer=server.buffer, opening=opening, carrier=carrier)

    @property
    def ready(self) -> bool:
        """True: the transport takes bytes. A handler that sends only then needs no memory for a slow peer."""
        return self.driver.ready

    @property
    def address(self) -> Any:
        """Where the peer is, as its proxy has said it (`proxy_protocol`), or else the transport; None over a Unix socket."""
        source = self.driver.source
        if source is not None:
            return source or None
        transport = self.driver.transport
        return (transport.get_extra_info("peername") or None) if transport is not None else None

    def abort(self) -> None:
        """Drop the connection now."""
        self.driver.abort()

    async def drain(self) -> None:
        """Wait until `ready`, or until the transport is gone."""
        while not self.ready and not self._gone:
            waiter = asyncio.get_running_loop().create_future()
            self._drained.append(waiter)
            await waiter

    def __aiter__(self) -> Peer:
        return self

    async def __anext__(self) -> Any:
        while not self._inbox:
            if self._gone:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        event = self._inbox.popleft()
        if not self._inbox and self.driver.paused:
            self.driver.resume()
        return event

    # ---- called by the driver

    def handle(self, event: Any) -> None:
        if self._handler is not None:
            self._handler.handle(self, event)
            return
        self._inbox.append(event)
        if len(self._inbox) >= self.EVENTS:
            self.driver.pause()
        self._wake()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._serve())
            self.server.tasks.add(self._task)
            self._task.add_done_callback(self.server.tasks.discard)

    def writable(self) -> None:
        self._release()
        if self._handler is not None:
            self._handler.writable(self)

    def closed(self, error: Exception | None) -> None:
        self.error = error
        self._gone = True
        self._release()
        self._wake()
        if self._handler is not None:
            self._handler.closed(self)

    def _release(self) -> None:
        waiters, self._drained = self._drained, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _serve(self) -> None:
        assert self._run is not None
        try:
            await self._run(self)
        except Exception as error:
            self.driver.report(error)
            self.driver.abort(error)
        finally:
            self.driver.close()


class Server:
    """Accepts transports and makes a driver for each. `listen` makes it.

    An asynchronous context manager: leaving it closes the server.
    """

    def __init__(
        self,
        make: Callable[[Server, float], Peer],
        most: int,
        tap: TapFactory | None = None,
        *,
        proxy_protocol: bool = False,
    ) -> None:
        self._make = make
        self._proxy_protocol = proxy_protocol
        self._most = most
        self._tap = tap
        self._listener: asyncio.Server | None = None
        self._closing = False
        #: Where drivers read into, all of them: a read is over before the next one begins.
        self.buffer = bytearray(READ_SIZE)
        self.drivers: set[Driver] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        #: Transports whose PROXY header, or TLS handshake after it, is not complete.
        self.undecided: set[Any] = set()
        #: What has arrived in part, over all connections. Set another one to share it with other servers.
        self.unfinished = Unfinished()
        #: Transports that were closed at once, since there were too many.
        self.turned_away = 0

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def sockets(self) -> tuple[Any, ...]:
        """The listening sockets."""
        return tuple(self._listener.sockets) if self._listener is not None else ()

    @property
    def port(self) -> int:
        """The port of the first listening socket: which one it is if 0 was asked for."""
        port: int = self.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop listening, close every connection in the protocol's way, wait until their transports are gone, and cancel
        handlers that have not ended by then."""
        self._closing = True
        if self._listener is not None:
            self._listener.close()
        for proxied in list(self.undecided):
            proxied.abort()
        drivers = list(self.drivers)
        for driver in drivers:
            driver.close()
        for driver in drivers:
            await driver.wait_closed()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=LINGER)
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def admit(self, driver: Driver) -> bool:
        """Called by a driver once it has a transport."""
        if not self.has_capacity():
            return False
        self.drivers.add(driver)
        return True

    def has_capacity(self) -> bool:
        """Is another transport to be kept? If not, it is counted."""
        if self._closing or len(self.drivers) + len(self.undecided) >= self._most:
            self.turned_away += 1
            return False
        return True

    def accept(self, source: proxy.Address | None = None, error: DecodeError | None = None) -> asyncio.BaseProtocol:
        """The protocol of a new transport: its driver, or the tap before it.

        Args:
            source: the address of the client, if a proxy has said it.
            error: why the transport is refused: `Disconnected` has it.
        """
        driver = self._make(self, asyncio.get_running_loop().time()).driver
        driver.server = self
        driver.source = source
        driver.error = error
        if not self._proxy_protocol:
            driver.refuse_proxies()
        return driver if self._tap is None else self._tap(driver)


class Listening(TypedDict, total=False):
    """Where and how a server listens: what `serve` of every protocol takes by keyword."""

    path: str | None
    ssl: SSLContext | None
    backlog: int
    most: int
    tap: TapFactory | None
    proxy_protocol: bool


async def listen(
    make: Callable[[Server, float], Peer],
    host: str | None,
    port: int | None,
    *,
    path: str | None = None,
    ssl: SSLContext | None = None,
    backlog: int = 100,
    most: int = 100_000,
    tap: TapFactory | None = None,
    proxy_protocol: bool = False,
) -> Server:
    """A server on a TCP port or a Unix socket.

    Args:
        make: makes the peer of a new transport; called with the server and the loop's time.
        host, port: see `serve` of a package.
        path: of a Unix socket, in place of host and port.
        ssl: TLS with this context.
        backlog: connections that the system keeps until they are accepted.
        most: clients at a time; further ones are closed at once and counted (`Server.turned_away`).
        tap: what lies between transport and driver of each client (`aio.Tap`); None: nothing.
        proxy_protocol: True: each client comes through a proxy that sends a header of the PROXY protocol first, version 1 or 2,
            before TLS; it says `Peer.address`. Connections without one are refused; False: connections with one are.
    """
    loop = asyncio.get_running_loop()
    server = Server(make, most, tap, proxy_protocol=proxy_protocol)
    accept: Callable[[], asyncio.BaseProtocol] = server.accept
    if proxy_protocol:
        accept, ssl = partial(Proxied, server, ssl), None
    times: dict[str, Any] = (
        {"ssl": ssl, "ssl_shutdown_timeout": LINGER, "ssl_handshake_timeout": 30.0} if ssl is not None else {}
    )
    if path is not None:
        server._listener = await loop.create_unix_server(accept, path, backlog=backlog, **times)
    elif port is not None:
        server._listener = await loop.create_server(accept, host, port, backlog=backlog, **times)
    return server


_HANDLER = """handler: a coroutine function that is called with the `Peer` of each client and iterates over its events; when it
    returns, the connection is closed. Or an object with the methods of `Handler`, which serves all clients."""
_HOST = """host, port: where to listen; loopback by default. Host None: all interfaces. Port 0: any that is free (`Server.port`);
    None: nowhere, `Server.accept` gives the protocol of a transport that the caller has."""


def serving(serve: Callable[_P, _T]) -> Callable[_P, _T]:
    """Complete the function `serve` of a package, which has `**more: Unpack[Listening]`."""
    serve.__doc__ = describe(
        serve,
        serve.__doc__,
        listen,
        Listening.__annotations__,
        first={"handler": _HANDLER, "host, port": _HOST},
        then="Returns the running server. Leaving `async with` or `close()` ends it.",
    )
    return serve
