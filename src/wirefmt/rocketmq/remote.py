"""One name server or broker as a client sees it: a connection that is made when it is needed, and calls that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random, SystemRandom
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final

from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.connection.contract import Acknowledged, Disconnected
from wirefmt.errors import ConnectionLost, DecodeError, LocalProtocolError, Refused
from wirefmt.rocketmq._codec import CommandCustomHeader, RemotingCommand
from wirefmt.rocketmq.codes import ResponseCode
from wirefmt.rocketmq.connection import ClientConnection
from wirefmt.rocketmq.events import ConnectionOptions, TimedOut
from wirefmt.rocketmq.states import State

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Waits between attempts to connect to one server.
BACKOFF: Final = aio.Backoff(first=0.1, most=3.0)

#: What a later attempt may be spared: a server is gone, or says what makes no sense.
PASSING: Final = (ConnectionLost, TimeoutError, Refused, DecodeError)


def check(response: RemotingCommand, *codes: int) -> RemotingCommand:
    """The response. Raises Refused unless its code is 0 or one of `codes`."""
    if response.code and response.code not in codes:
        raise Refused(f"the server answers {response.code}: {response.remark}", response.code, response)
    return response


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of "host:port". Raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not port.isascii() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"not host:port: {address!r}")
    return host.strip("[]"), int(port)


class Link(connecting.Link):
    """The host of one connection."""

    connection: ClientConnection

    def __init__(
        self,
        asked: Callable[[Link, RemotingCommand], None],
        over: Callable[[Link], None],
        options: ConnectionOptions,
    ) -> None:
        super().__init__()
        self.connection = ClientConnection(asyncio.get_running_loop().time(), options)
        self.driver = aio.Driver(self.connection, self)
        self.waiting: dict[Any, asyncio.Future[RemotingCommand]] = {}  # by handle
        self.heard = 0  # how much the server has said
        self.silent: dict[Any, int | None] = {}  # `heard` at the request, by handle; None: less than the client's time
        self._asked = asked
        self._over = over
        self._drained: list[asyncio.Future[None]] = []
        self._stuck: asyncio.TimerHandle | None = None  # somebody waits for the transport

    @property
    def usable(self) -> bool:
        """True: requests may be sent."""
        return self.connection.state in (State.IDLE, State.OPEN)

    async def drain(self, seconds: float) -> None:
        """Wait until the transport takes bytes, or no request may be sent any more.

        Raises TimeoutError. A connection that takes no bytes, and on which the server says nothing, for as long as its `timeout`
        is dropped: there may be no request whose time could run out.
        """
        if self.usable and not self.driver.ready:
            if self._stuck is None:
                self._watch()
            async with asyncio.timeout(seconds):
                while self.usable and not self.driver.ready:
                    waiter = asyncio.get_running_loop().create_future()
                    self._drained.append(waiter)
                    await waiter

    def _watch(self) -> None:
        """The transport takes no bytes."""
        seconds = self.connection.options.timeout
        self._stuck = asyncio.get_running_loop().call_later(seconds, self._still_stuck, self.heard)

    def _still_stuck(self, heard: int) -> None:
        if self.heard == heard:  # the connection may be dead
            self.driver.abort(TimeoutError("the server neither reads nor says anything"))
        else:
            self._watch()

    # ---- called by the driver

    def handle(self, event: Any) -> None:
        match event:
            case Acknowledged():
                self.heard += 1
                future = self._pop(event.handle)
                if not future.done():
                    future.set_result(event.message)
                if not self.usable:  # GO_AWAY
                    self.writable()
            case TimedOut():
                late = TimeoutError(f"no response to request {event.handle.code} in time")
                silent = self.silent[event.handle] == self.heard
                connecting.fail(self._pop(event.handle), late)
                if silent:  # the connection may be dead
                    self.driver.abort(late)
            case Disconnected():
                self.event = event
                self._over(self)
                for handle in event.lost:
                    lost = ConnectionLost(event.reason, event)
                    lost.__cause__ = event.error
                    connecting.fail(self._pop(handle), lost)
                self.writable()
            case RemotingCommand():
                self.heard += 1
                self._asked(self, event)

    def _pop(self, handle: Any) -> asyncio.Future[RemotingCommand]:
        del self.silent[handle]
        return self.waiting.pop(handle)

    def writable(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        waiters, self._drained = self._drained, []
        connecting.release(waiters)


class Remote:
    """A name server or a broker.

    Calls share one attempt to connect, and what comes of it. After a failure, and after a connection that has not lasted, the
    next attempt waits, longer each time.

    Args:
        address: "host:port".
        asked: called with each request of the server and its link.
        options: of each connection.
        ssl: TLS with this context.
        connect_timeout: seconds that an attempt to connect may take.
        backoff: how long attempts wait. No wait is longer than `connect_timeout`.
        random: for `backoff`.
    """

    def __init__(
        self,
        address: str,
        asked: Callable[[Link, RemotingCommand], None],
        options: ConnectionOptions,
        ssl: SSLContext | None = None,
        connect_timeout: float = 3.0,
        backoff: aio.Backoff = BACKOFF,
        random: Random | None = None,
    ) -> None:
        self.address = address
        self._host, self._port = host_and_port(address)
        self._asked = asked
        self._options = replace(options, tls="disabled")
        self._ssl = ssl
        self._connect_timeout = connect_timeout
        self._link: Link | None = None
        self._links: set[Link] = set()
        self._backoff = backoff
        self._random = random or SystemRandom()
        self._attempt: asyncio.Task[Link] | None = None
        self._calls = 0  # how many wait for it
        self._attempts: set[asyncio.Task[Link]] = set()  # it, and those that are being cancelled
        self._failures = 0  # attempts that have failed, and connections that have not lasted, one after the other
        self._next = 0.0  # when there may be an attempt again, in the loop's time
        self.connections = 0
        self._closed = False

    @property
    def resting(self) -> bool:
        """True: there is no connection, and the next attempt has to wait."""
        return (self._link is None or not self._link.usable) and asyncio.get_running_loop().time() < self._next

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
            TimeoutError: no response in time. If the server has said nothing meanwhile, for as long as `options.timeout`, the
                connection is dropped: it may be dead.
            ConnectionLost: there is no connection, or it has ended; the request may have been carried out or not.
            LocalProtocolError: the request cannot be written.
        """
        for attempt in range(2):
            link = await self._up()
            await link.drain(self._options.timeout if timeout is None else timeout)
            loop = asyncio.get_running_loop()
            try:
                handle = link.connection.request(code, header, body, timeout=timeout, now=loop.time())
            except LocalProtocolError:
                if link.usable:
                    raise
                if not attempt:
                    continue  # the connection has ended
                break
            assert handle is not None
            future: asyncio.Future[RemotingCommand] = loop.create_future()
            link.waiting[handle] = future
            link.silent[handle] = link.heard if timeout is None or timeout >= self._options.timeout else None
            link.driver.update()
            try:
                response = await future
            except asyncio.CancelledError:
                if handle in link.waiting:
                    link._pop(handle)
                    if link.connection.state is not State.CLOSED:
                        link.connection.cancel(handle)
                        link.driver.update()
                raise
            if response.code != ResponseCode.GO_AWAY or attempt:
                return response
        raise ConnectionLost(f"{self.address} has ended the connection")

    async def send_oneway(
        self, code: int, header: CommandCustomHeader | None = None, body: Buffer | None = None
    ) -> None:
        """Send a one-way request. Raises ConnectionLost if there is no connection, TimeoutError if the server does not read."""
        link = await self._taking()
        link.connection.request(code, header, body, oneway=True)
        link.driver.update()

    async def ready(self) -> None:
        """Wait until there is a connection that takes bytes. A request made now is sent before anything else happens.

        Raises ConnectionLost if none can be made, TimeoutError if the server does not read.
        """
        await self._taking()

    async def _taking(self) -> Link:
        """A connection that takes bytes; a second one if the first ends meanwhile."""
        for _ in range(2):
            link = await self._up()
            await link.drain(self._options.timeout)
            if link.usable:
                return link
        raise ConnectionLost(f"{self.address} has ended the connection")

    async def _up(self) -> Link:
        if (link := self._link) is not None and link.usable:
            return link
        if self._closed:
            raise ConnectionLost("the client is closed")
        attempt = self._attempt
        if attempt is None:
            attempt = self._attempt = asyncio.get_running_loop().create_task(self._connect())
            self._attempts.add(attempt)
            self._calls = 0
            attempt.add_done_callback(self._attempted)
        self._calls += 1
        try:
            await asyncio.wait([attempt])
        except asyncio.CancelledError:
            if self._attempt is attempt:
                self._calls -= 1
                if not self._calls:
                    self._attempt = None
                    attempt.cancel()
            raise
        if attempt.cancelled():
            raise ConnectionLost("the client is closed")
        return attempt.result()

    def _attempted(self, attempt: asyncio.Task[Link]) -> None:
        self._attempts.discard(attempt)
        if self._attempt is attempt:
            self._attempt = None
        if not attempt.cancelled():
            attempt.exception()  # it is seen

    async def _connect(self) -> Link:
        loop = asyncio.get_running_loop()
        if self._next > loop.time():
            await asyncio.sleep(self._next - loop.time())
        link = Link(self._asked, self._ended, self._options)
        try:
            async with link.attempt(self._connect_timeout):
                await aio.open_transport(link.driver, self._host, self._port, ssl=self._ssl)
        except (OSError, OverflowError) as error:  # OverflowError: no such port
            self._failed()
            raise ConnectionLost(f"cannot connect to {self.address}: {error}") from error
        self.connections += 1
        self._link = link
        self._links.add(link)
        link.gone.add_done_callback(lambda _: self._links.discard(link))
        if link.event is not None:
            self._ended(link)
        return link

    def _ended(self, link: Link) -> None:
        if link not in self._links:
            return  # it has never been up
        if asyncio.get_running_loop().time() - link.since >= self._backoff.stable:
            self._failures = 0
            self._next = 0.0
        else:
            self._failed()

    def _failed(self) -> None:
        wait = min(self._backoff.delay(self._failures, self._random), self._connect_timeout)
        self._failures += 1
        self._next = asyncio.get_running_loop().time() + wait

    async def close(self) -> None:
        """End the connections, and wait until their transports are gone."""
        self._closed = True
        for attempt in self._attempts:
            attempt.cancel()
        if self._attempts:
            await asyncio.wait(self._attempts)
        links = list(self._links)
        for link in links:
            link.driver.close()
        for link in links:
            await link.driver.wait_closed()

    def abort(self) -> None:
        """Drop the connections, at once, and end an attempt to connect."""
        self._closed = True
        for attempt in self._attempts:
            attempt.cancel()
        for link in list(self._links):
            link.driver.abort()
