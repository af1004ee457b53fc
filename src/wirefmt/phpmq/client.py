"""A PHPMQ client on asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Unpack

from wirefmt import phpmq
from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.connection.address import Address, Scheme, read_urls
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import ConnectionLost, EncodeError, LimitExceeded, LocalProtocolError
from wirefmt.phpmq.connection import ClientConnection
from wirefmt.phpmq.events import ConnectionOptions, Profile

if TYPE_CHECKING:
    from typing_extensions import Buffer

SCHEMES: Final = {
    "phpmq": Scheme(9100),
    "phpmqs": Scheme(9100, tls=True),
    "phpmq+unix": Scheme(unix=True),
}


class _Link(connecting.Link):
    """The host of one connection of a client."""

    connection: ClientConnection

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client

    def handle(self, event: Any) -> None:
        self.client._handle(self, event)

    def writable(self) -> None:
        self.client._wake()


@connecting.complete
class Client(connecting.Client[_Link]):
    """A PHPMQ client, made by `phpmq.connect`. `async with` connects and closes it; so do its methods `open` and `close`.

    ::

        async with phpmq.connect("phpmq://127.0.0.1:9100") as client:
            await client.publish("orders", b"one")
            await client.consume("orders", 10)
            async for message in client.messages(): ...         # acknowledged when the next one is asked for

    The protocol has no answer to a message that is published: `publish` returns when its bytes are the transport's, and what the
    server has not read when the connection ends is lost without a word.

    Args:
        url: `phpmq://host:9100`, `phpmqs://` (TLS from the first byte), `phpmq+unix:///path`. Several: they are tried in turn.
        profile: "early" is what the existing PHP server speaks, "present" what the protocol's README describes.
        reconnect: connect again when the connection is lost, and consume again. None: the end of the connection ends the client.
        timeout: seconds that an attempt to connect may take, and that the server may read nothing while `publish` waits for it;
            the connection is dropped then.
        options: limits of each connection; its `profile` is replaced by the argument's.

    Raises ValueError for a URL that cannot be used.

    Attributes:
        connections: how many connections there have been.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        *,
        profile: Profile = "early",
        options: ConnectionOptions | None = None,
        **more: Unpack[connecting.Connecting],
    ) -> None:
        super().__init__(read_urls(url, SCHEMES), **more)
        base = options or ConnectionOptions()
        self._options = ConnectionOptions(
            profile=profile,
            frame_size=base.frame_size,
            in_flight=base.in_flight,
            unread_bytes=base.unread_bytes,
            pending_bytes=base.pending_bytes,
        )
        self._consuming: tuple[str, int] | None = None
        self._inbox: deque[phpmq.MessageServerToClient] = deque()
        self._changed: list[asyncio.Future[None]] = []

    async def publish(self, queue_name: str, content: Buffer | str, ttl: int = 0) -> None:
        """Publish a message. Returns when its bytes are the transport's.

        Args:
            content: text is written in UTF-8.
            ttl: seconds; the early profile does not write it.

        If the connection ends before that, the message is sent on the next one.

        Raises LocalProtocolError if it cannot be sent, ConnectionLost if there is no connection and none is made again.
        """
        data = content.encode() if isinstance(content, str) else content
        while True:
            link = self._link
            if link is None:
                if self._ended or self._closing:
                    raise self._error or ConnectionLost("the client is not open")
                await self._change()
            elif link.driver.ready:
                link.connection.publish(queue_name, data, ttl)
                end = link.connection.position
                link.driver.update()
                while link.connection.taken < end and self._link is link:
                    await self._capacity(link) if not link.driver.ready else await asyncio.sleep(0)
                if link.connection.taken >= end:
                    return
            else:
                await self._capacity(link)

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
        if not 0 <= count <= self._options.in_flight:
            raise LocalProtocolError(f"a consume request is for 0 to {self._options.in_flight} messages, not {count}")
        if self._link is not None:
            self._link.connection.consume(queue_name, count)
            self._link.driver.update()
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
        """The next message, which the host acknowledges; None: the client is closed. Raises what ended the connection
        permanently: a message above our limits (`frame_size`) does, since the server would send it again.
        """
        while not self._inbox:
            if self._ended:
                if self._error is not None:
                    raise self._error
                return None
            await self._change()
        return self._inbox.popleft()

    def acknowledge(self, message: phpmq.MessageServerToClient) -> bool:
        """A message is done. False: it is not in flight any more, and the server delivers it again."""
        if self._link is None:
            return False
        try:
            self._link.connection.acknowledge(message)
        except LocalProtocolError:
            return False
        self._link.driver.update()
        return True

    def _handle(self, link: _Link, event: Any) -> None:
        if isinstance(event, Disconnected):
            link.ended(event)
            self._link = None
            self._inbox.clear()
        else:
            self._inbox.append(event)
        self._wake()

    # ---- below

    async def _change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._changed.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._changed:
                self._changed.remove(waiter)
            raise

    async def _capacity(self, link: _Link) -> None:
        """Wait until something has changed, and drop a connection whose server does not read."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._change()
        except TimeoutError:
            if self._link is link and not link.driver.ready:
                link.driver.abort(TimeoutError(f"the server has read nothing for {self._timeout:g} s"))

    def _wake(self) -> None:
        waiters, self._changed = self._changed, []
        connecting.release(waiters)

    async def _connect(self, address: Address) -> _Link:
        link = _Link(self)
        link.connection = ClientConnection(asyncio.get_running_loop().time(), self._options)
        link.driver = aio.Driver(link.connection, link)
        async with link.attempt(self._timeout):
            await self._dial(link, address)
        self.connections += 1
        self._link = link
        if self._consuming is not None:
            link.connection.consume(*self._consuming)
        link.driver.update()
        self._wake()
        return link

    def _comes_back(self, link: _Link) -> bool:
        return super()._comes_back(link) and not isinstance(link.lost().__cause__, LimitExceeded)

    def _finish(self, error: Exception | None, reason: Exception) -> None:
        self._wake()


connect = connecting.verb(Client, 'phpmq.connect("phpmq://127.0.0.1:9100")')
