"""A PHPMQ client on asyncio."""

from __future__ import annotations

import asyncio
import ssl as tls
from collections import deque
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final, ParamSpec
from urllib.parse import unquote, urlsplit

from wirefmt import phpmq
from wirefmt.connection import aio
from wirefmt.connection.aio import Backoff
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import ConnectionLost, EncodeError, LocalProtocolError
from wirefmt.phpmq.connection import ClientConnection
from wirefmt.phpmq.events import ConnectionOptions, Profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from typing_extensions import Buffer

_P = ParamSpec("_P")

#: URL scheme -> TLS, usual port.
SCHEMES: Final[dict[str, tuple[bool, int]]] = {
    "phpmq": (False, 9100),
    "phpmqs": (True, 9100),
    "phpmq+unix": (False, 0),
}


class Client:
    """A PHPMQ client, made by `phpmq.connect`. `async with` connects and closes it; so do its methods `open` and `close`.

    ::

        async with phpmq.connect("phpmq://127.0.0.1:9100") as client:
            await client.publish("orders", b"one")
            await client.consume("orders", 10)
            async for message in client.messages(): ...         # acknowledged when the next one is asked for

    The protocol has no answer to a message that is published: `publish` returns when its bytes are the transport's, and what the
    server has not read when the connection ends is lost without a word.

    Args:
        url: `phpmq://host:9100`, `phpmqs://` (TLS from the first byte), `phpmq+unix:///path`.
        profile: "early" is what the existing PHP server speaks, "present" what the protocol's README describes.
        ssl: TLS with this context; None: the default one with `phpmqs`.
        reconnect: connect again when the connection is lost, and consume again. None: the end of the connection ends the client.
        timeout: seconds that an attempt to connect may take.
        options: limits of each connection; its `profile` is replaced by the argument's.
        random: for back-off; None: the system's.

    Raises ValueError for a URL with another scheme.

    Attributes:
        connections: how many connections there have been.
    """

    def __init__(
        self,
        url: str,
        *,
        profile: Profile = "early",
        ssl: tls.SSLContext | None = None,
        reconnect: Backoff | None = None,
        timeout: float = 30.0,
        options: ConnectionOptions | None = None,
        random: Random | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise ValueError(f"the scheme of {parts.scheme + ':'!r} is not one of {', '.join(SCHEMES)}")
        secure, port = SCHEMES[parts.scheme]
        self._path = unquote(parts.path) if parts.scheme == "phpmq+unix" else None
        self._host, self._port = parts.hostname or "localhost", parts.port or port
        self._ssl = ssl if ssl is not None or not secure else tls.create_default_context()
        base = options or ConnectionOptions()
        self._options = ConnectionOptions(
            profile=profile,
            frame_size=base.frame_size,
            in_flight=base.in_flight,
            unread_bytes=base.unread_bytes,
            pending_bytes=base.pending_bytes,
        )
        self._reconnect = reconnect
        self._timeout = timeout
        self._random = random or SystemRandom()
        self.connections = 0
        self._driver: aio.Driver | None = None
        self._connection: ClientConnection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._gone: asyncio.Future[None] | None = None
        self._event: Disconnected | None = None
        self._consuming: tuple[str, int] | None = None
        self._inbox: deque[phpmq.MessageServerToClient] = deque()
        self._changed: list[asyncio.Future[None]] = []
        self._closing = False
        self._ended = True
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect. Raises OSError (TimeoutError; ssl.SSLError)."""
        if not self._ended:
            raise RuntimeError("the client is open")
        self._closing = False
        self._error = None
        await self._connect()
        self._ended = False
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        """Send what is queued, and wait until the transport is closed. Messages in flight go back into their queue."""
        self._closing = True
        driver, keeper = self._driver, self._keeper
        if driver is not None:
            driver.close()
            await driver.wait_closed()
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])
        self._keeper = None
        self._end(None)

    @property
    def connected(self) -> bool:
        """True while there is a connection."""
        return self._connection is not None

    async def publish(self, queue_name: str, content: Buffer | str, ttl: int = 0) -> None:
        """Publish a message. Returns when its bytes are the transport's.

        Args:
            content: text is written in UTF-8.
            ttl: seconds; the early profile does not write it.

        Raises LocalProtocolError if it cannot be sent, ConnectionLost if there is no connection.
        """
        data = content.encode() if isinstance(content, str) else content
        while True:
            connection, driver = self._connection, self._driver
            if connection is None or driver is None:
                if self._ended or self._closing:
                    raise self._error or ConnectionLost("the client is not open")
            elif driver.ready:
                connection.publish(queue_name, data, ttl)
                driver.update()
                while connection.pending_bytes and self._connection is connection:
                    await self._change() if not driver.ready else await asyncio.sleep(0)
                return
            await self._change()

    async def consume(self, queue_name: str, count: int = 10) -> None:
        """Ask for the messages of a queue, at most `count` in flight. It replaces the queue asked for before, whose messages in
        flight go back.

        Raises LocalProtocolError for a name or number that cannot be sent, ConnectionLost if the client is not open.
        """
        if self._ended:
            raise self._error or ConnectionLost("the client is not open")
        try:
            phpmq.ConsumeRequest(queue_name=queue_name, message_count=count)
        except (EncodeError, TypeError, ValueError) as error:
            raise LocalProtocolError(str(error)) from error
        if self._connection is not None and self._driver is not None:
            self._connection.consume(queue_name, count)
            self._driver.update()
        self._consuming = (queue_name, count)
        self._inbox.clear()

    async def messages(self) -> Any:
        """Messages, in order: `async for message in client.messages()`. Each is acknowledged when the next one is asked for.

        Raises what ended the connection; ends when the client is closed.
        """
        while True:
            message = await self.get()
            if message is None:
                return
            yield message
            self.acknowledge(message)

    async def get(self) -> phpmq.MessageServerToClient | None:
        """The next message, which the host acknowledges; None: the client is closed. Raises what ended the connection."""
        while not self._inbox:
            if self._ended:
                if self._error is not None:
                    raise self._error
                return None
            await self._change()
        return self._inbox.popleft()

    def acknowledge(self, message: phpmq.MessageServerToClient) -> bool:
        """A message is done. False: it is not in flight any more, and the server delivers it again."""
        if self._connection is None or self._driver is None:
            return False
        try:
            self._connection.acknowledge(message)
        except LocalProtocolError:
            return False
        self._driver.update()
        return True

    # ---- called by the driver

    def handle(self, event: Any) -> None:
        if isinstance(event, Disconnected):
            self._event = event
            self._connection = None
            self._inbox.clear()
        else:
            self._inbox.append(event)
        self._wake()

    def writable(self) -> None:
        self._wake()

    def closed(self, error: Exception | None) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        self._wake()

    # ---- below

    async def _change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._changed.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._changed = self._changed, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        connection = ClientConnection(loop.time(), self._options)
        driver = aio.Driver(connection, self)
        self._gone = loop.create_future()
        try:
            async with asyncio.timeout(self._timeout):
                await aio.open_transport(driver, self._host, self._port, path=self._path, ssl=self._ssl)
        except BaseException:
            driver.abort()
            if driver.transport is not None:
                await driver.wait_closed()
            raise
        self._driver, self._connection = driver, connection
        self.connections += 1
        if self._consuming is not None:
            connection.consume(*self._consuming)
        driver.update()
        self._wake()

    async def _keep(self) -> None:
        """Wait for the end of each connection, and make the next one."""
        while True:
            assert self._gone is not None
            await self._gone
            if self._closing:
                return
            driver, event = self._driver, self._event
            assert driver is not None
            error: Exception = ConnectionLost(str(driver.error or (event.reason if event else "")), event)
            error.__cause__ = driver.error or (event.error if event is not None else None)
            backoff = self._reconnect
            if backoff is None:
                self._end(error)
                return
            attempt = 0
            while True:
                if backoff.attempts is not None and attempt >= backoff.attempts:
                    self._end(error)
                    return
                await asyncio.sleep(backoff.delay(attempt, self._random))
                attempt += 1
                try:
                    await self._connect()
                    break
                except OSError as failed:
                    error = failed

    def _end(self, error: Exception | None) -> None:
        self._ended = True
        self._error = error
        self._wake()


def _verb(make: Callable[_P, Client]) -> Callable[_P, Client]:
    def connect(*args: _P.args, **more: _P.kwargs) -> Client:
        """A client for a server, not connected yet: see `Client` for the arguments.

        ::

            async with phpmq.connect("phpmq://127.0.0.1:9100") as client: ...
        """
        return make(*args, **more)

    connect.__qualname__ = "connect"
    connect.__wrapped__ = make  # type: ignore[attr-defined]  # its signature
    return connect


connect = _verb(Client)
