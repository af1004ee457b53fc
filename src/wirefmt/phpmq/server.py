"""A PHPMQ server on asyncio: a `ServerConnection` for each client, and a handler that is the host."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Unpack

from wirefmt.connection import aio
from wirefmt.phpmq.connection import ServerConnection
from wirefmt.phpmq.events import ConnectionOptions, Delivery, ServerEvent

if TYPE_CHECKING:
    from typing_extensions import Buffer

Server = aio.Server


class Peer(aio.Peer):
    """One client of a server, see `aio.Peer`."""

    connection: ServerConnection

    def deliver(self, queue_name: str, content: Buffer, message_id: str, ttl: int = 0, host: Any = None) -> Delivery:
        """Send a message. One of `Acknowledged`, `Returned` and `Disconnected` has the handle returned.

        Raises LocalProtocolError if the client has no space.
        """
        delivery = self.connection.deliver(queue_name, content, message_id, ttl, host)
        self.driver.update()
        return delivery

    def close(self) -> None:
        """End the connection."""
        self.driver.close()


#: The host of all connections of a server, without tasks: an object with these methods, which do not wait.
Handler = aio.Handler[Peer, ServerEvent]


@aio.serving
async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int | None = 9100,
    *,
    options: ConnectionOptions | None = None,
    **more: Unpack[aio.Listening],
) -> Server:
    """Serve PHPMQ.

    Args:
        options: limits, and the profile, of each connection.
        ssl: TLS with this context, from the first byte.
    """

    def make(server: Server, now: float) -> Peer:
        return Peer(handler, server, ServerConnection(now, options))

    return await aio.listen(make, host, port, **more)
