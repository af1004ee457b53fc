"""A PHPMQ server on asyncio: a `ServerConnection` for each client, and a handler that is the host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from wirefmt.connection import aio
from wirefmt.phpmq.connection import ServerConnection
from wirefmt.phpmq.events import ConnectionOptions, Delivery, Event

if TYPE_CHECKING:
    from typing_extensions import Buffer

Server = aio.Server


class Peer(aio.Peer):
    """One client of a server.

    With a coroutine function as handler, the events of `ServerConnection` are taken by `async for event in peer`; the last
    one is `Disconnected`.

    Attributes:
        connection: the connection. After a call of a method that returns events, give these to `driver.update`.
        server: the server.
        error: what ended the transport, if it was an error.
    """

    connection: ServerConnection

    def deliver(self, queue_name: str, content: Buffer, message_id: str, ttl: int = 0, host: Any = None) -> Delivery:
        """Send a message. One of `Acknowledged`, `Returned` and `Disconnected` has the handle returned.

        Raises LocalProtocolError if the client has no room.
        """
        delivery = self.connection.deliver(queue_name, content, message_id, ttl, host)
        self.driver.update()
        return delivery

    def close(self) -> None:
        """End the connection."""
        self.driver.close()


#: The host of all connections of a server, without tasks: an object with these methods, which do not wait.
Handler = aio.Handler[Peer, Event]


async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int = 9100,
    *,
    path: str | None = None,
    ssl: SSLContext | None = None,
    options: ConnectionOptions | None = None,
    backlog: int = 100,
    most: int = 100_000,
    tap: aio.TapFactory | None = None,
    proxy_protocol: bool = False,
) -> Server:
    """Serve PHPMQ.

    Args:
        handler: a coroutine function that is called with the `Peer` of each client and iterates over its events; when it
            returns, the connection is closed. Or an object with the methods of `Handler`, which serves all clients.
        host, port: where to listen; loopback by default. None: all interfaces. Port 0: any that is free (`Server.port`).
        path: of a Unix socket, in place of host and port.
        ssl: TLS with this context, from the first byte.
        options: limits, and the profile, of each connection.
        backlog: connections that the system keeps until they are accepted.
        most: clients at a time; further ones are closed at once and counted (`Server.turned_away`).
        tap: what lies between transport and driver of each client (`aio.Tap`); None: nothing.
        proxy_protocol: True: each client comes through a proxy that sends a header of the PROXY protocol first, version 1 or 2,
            before TLS; it says `Peer.address`. Connections without one are refused; False: connections with one are.

    Returns the running server. Leaving `async with` or `close()` ends it.
    """

    def make(server: Server) -> aio.Driver:
        return make_driver(server, handler, options)

    return await aio.listen(
        make, host, port, path=path, ssl=ssl, backlog=backlog, most=most, tap=tap, proxy_protocol=proxy_protocol
    )


def make_driver(
    server: Server,
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    options: ConnectionOptions | None = None,
) -> aio.Driver:
    """The driver of a new client, with its connection and its peer."""
    peer = Peer(handler, server)
    peer.connection = ServerConnection(asyncio.get_running_loop().time(), options)
    peer.driver = aio.Driver(peer.connection, peer, buffer=server.buffer)
    return peer.driver
