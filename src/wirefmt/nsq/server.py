"""An NSQ server on asyncio: a `ServerConnection` for each client, and a handler that is the host.

docs/nsq-asyncio.md has examples.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Unpack

from wirefmt.connection import aio
from wirefmt.connection.contract import StartTls
from wirefmt.nsq._codec import Delivery
from wirefmt.nsq.events import Asked, ConnectionOptions, Event, Publication, ServerEvent
from wirefmt.nsq.server_connection import ServerConnection

if TYPE_CHECKING:
    from typing_extensions import Buffer

Server = aio.Server


class Peer(aio.Peer):
    """One client of a server, see `aio.Peer`. `StartTls` is answered here."""

    connection: ServerConnection
    ssl: SSLContext | None

    def accept(self, event: Asked, **members: Any) -> None:
        """Accept IDENTIFY, AUTH or SUB."""
        self.driver.update(self.connection.accept(event, **members))

    def acknowledge(self, event: Publication) -> None:
        """Answer PUB, MPUB or DPUB."""
        self.driver.update(self.connection.acknowledge(event))

    def refuse(self, event: Asked | Publication, code: str, text: str = "") -> None:
        """Refuse a command with an error, and end."""
        self.driver.update(self.connection.refuse(event, code, text))

    def deliver(
        self, message_id: bytes, body: Buffer, timestamp: int = 0, attempts: int = 1, host: Any = None
    ) -> Delivery:
        """Send a message. One of `Acknowledged`, `Requeued`, `TimedOut` and `Disconnected` has the handle returned."""
        delivery = self.connection.deliver(message_id, body, timestamp, attempts, host)
        self.driver.update()
        return delivery

    def close(self, code: str | None = None, text: str = "") -> None:
        """End the connection, with an error if there is a code."""
        self.driver.update(self.connection.close(code, text))

    def handle(self, event: Event) -> None:
        if type(event) is StartTls:
            assert self.ssl is not None
            self.driver.start_tls(self.ssl)
        else:
            super().handle(event)


#: The host of all connections of a server, without tasks: an object with these methods, which do not wait.
Handler = aio.Handler[Peer, ServerEvent]


@aio.serving
async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int | None = 4150,
    *,
    options: ConnectionOptions | None = None,
    **more: Unpack[aio.Listening],
) -> Server:
    """Serve NSQ's TCP protocol V2.

    Args:
        options: limits and times of each connection.
        ssl: for clients that ask for TLS in IDENTIFY. Needed if `options.tls` is not "no".

    Raises ValueError if TLS is to be offered without a context.
    """
    ssl = more.pop("ssl", None)
    if options is not None and options.tls != "no" and ssl is None:
        raise ValueError("options.tls needs ssl")

    def make(server: Server, now: float) -> Peer:
        peer = Peer(handler, server, ServerConnection(now, options))
        peer.ssl = ssl
        return peer

    return await aio.listen(make, host, port, **more)
