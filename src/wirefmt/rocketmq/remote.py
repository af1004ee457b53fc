"""One name server or broker as a client sees it: a connection that is made when it is needed, and calls that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.connection.contract import Acknowledged, Disconnected
from wirefmt.errors import ConnectionLost, LocalProtocolError
from wirefmt.rocketmq._codec import CommandCustomHeader, RemotingCommand
from wirefmt.rocketmq.connection import ClientConnection
from wirefmt.rocketmq.events import GO_AWAY, ConnectionOptions, TimedOut
from wirefmt.rocketmq.states import State

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Link(connecting.Link):
    """The host of one connection."""

    connection: ClientConnection

    def __init__(self, asked: Callable[[Link, RemotingCommand], None], options: ConnectionOptions) -> None:
        super().__init__()
        self.connection = ClientConnection(asyncio.get_running_loop().time(), options)
        self.driver = aio.Driver(self.connection, self)
        self.waiting: dict[Any, asyncio.Future[RemotingCommand]] = {}  # by handle
        self._asked = asked
        self._drained: list[asyncio.Future[None]] = []

    @property
    def usable(self) -> bool:
        """True: requests may be sent."""
        return self.connection.state in (State.IDLE, State.OPEN)

    async def drain(self) -> None:
        """Wait until the transport takes bytes, or is gone."""
        while self.usable and not self.driver.ready:
            waiter = asyncio.get_running_loop().create_future()
            self._drained.append(waiter)
            await waiter

    # ---- called by the driver

    def handle(self, event: Any) -> None:
        match event:
            case Acknowledged():
                future = self.waiting.pop(event.handle)
                if not future.done():
                    future.set_result(event.message)
            case TimedOut():
                late = TimeoutError(f"no response to request {event.handle.code} in time")
                connecting.fail(self.waiting.pop(event.handle), late)
            case Disconnected():
                self.event = event
                for handle in event.lost:
                    lost = ConnectionLost(event.reason, event)
                    lost.__cause__ = event.error
                    connecting.fail(self.waiting.pop(handle), lost)
                self.writable()
            case RemotingCommand():
                self._asked(self, event)

    def writable(self) -> None:
        waiters, self._drained = self._drained, []
        connecting.release(waiters)


class Remote:
    """A name server or a broker.

    Args:
        address: "host:port".
        asked: called with each request of the server and its link.
        options: of each connection.
        ssl: TLS with this context.
        connect_timeout: seconds that an attempt to connect may take.
    """

    def __init__(
        self,
        address: str,
        asked: Callable[[Link, RemotingCommand], None],
        options: ConnectionOptions,
        ssl: SSLContext | None = None,
        connect_timeout: float = 3.0,
    ) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self._host, self._port = host.strip("[]"), int(port)
        self._asked = asked
        self._options = replace(options, tls="disabled")
        self._ssl = ssl
        self._connect_timeout = connect_timeout
        self._link: Link | None = None
        self._links: set[Link] = set()
        self._lock = asyncio.Lock()
        self.connections = 0
        self._closed = False

    async def call(
        self,
        code: int,
        header: CommandCustomHeader | None = None,
        body: Buffer | None = None,
        *,
        timeout: float | None = None,
    ) -> RemotingCommand:
        """Send a request and wait for the response, whatever its code.

        A server that answers GO_AWAY is asked once more, by a new connection.

        Raises:
            TimeoutError: no response in time.
            ConnectionLost: there is no connection, or it has ended; the request may have been carried out or not.
            LocalProtocolError: the request cannot be written.
        """
        for attempt in range(2):
            link = await self._up()
            await link.drain()
            loop = asyncio.get_running_loop()
            try:
                handle = link.connection.request(code, header, body, timeout=timeout, now=loop.time())
            except LocalProtocolError:
                if not link.usable and not attempt:
                    continue  # the connection has ended
                raise
            assert handle is not None
            future: asyncio.Future[RemotingCommand] = loop.create_future()
            link.waiting[handle] = future
            link.driver.update()
            try:
                response = await future
            except asyncio.CancelledError:
                if link.waiting.pop(handle, None) is not None and link.connection.state is not State.CLOSED:
                    link.connection.cancel(handle)
                    link.driver.update()
                raise
            if response.code != GO_AWAY or attempt:
                return response
        raise ConnectionLost(f"{self.address} asks to go away")

    async def send_oneway(
        self, code: int, header: CommandCustomHeader | None = None, body: Buffer | None = None
    ) -> None:
        """Send a one-way request. Raises ConnectionLost if there is no connection."""
        link = await self._up()
        await link.drain()
        if not link.usable:
            raise ConnectionLost(f"{self.address}: the connection has ended")
        link.connection.request(code, header, body, oneway=True)
        link.driver.update()

    async def ready(self) -> None:
        """Wait until there is a connection that takes bytes. A request made now is sent before anything else happens.

        Raises ConnectionLost if none can be made.
        """
        while True:
            link = await self._up()
            await link.drain()
            if link.usable:
                return

    async def _up(self) -> Link:
        if (link := self._link) is not None and link.usable:
            return link
        async with self._lock:
            if (link := self._link) is not None and link.usable:
                return link
            if self._closed:
                raise ConnectionLost("the client is closed")
            link = Link(self._asked, self._options)
            try:
                async with link.attempt(self._connect_timeout):
                    await aio.open_transport(link.driver, self._host, self._port, ssl=self._ssl)
                    if self._closed:
                        raise ConnectionLost("the client is closed")
            except (OSError, TimeoutError) as error:
                raise ConnectionLost(f"cannot connect to {self.address}: {error}") from error
            self.connections += 1
            self._link = link
            self._links.add(link)
            link.gone.add_done_callback(lambda _: self._links.discard(link))
            return link

    async def close(self) -> None:
        """End the connections, and wait until their transports are gone."""
        self._closed = True
        async with self._lock:
            links = list(self._links)
        for link in links:
            link.driver.close()
        for link in links:
            await link.driver.wait_closed()

    def abort(self) -> None:
        """Drop the connections, at once. An attempt to connect fails once it has a connection."""
        self._closed = True
        for link in list(self._links):
            link.driver.abort()
