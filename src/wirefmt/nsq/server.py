"""An NSQ server on asyncio: a `ServerConnection` for each client, and a handler that is the host.

docs/nsq-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from wirefmt.connection import aio
from wirefmt.connection.contract import StartTls
from wirefmt.nsq._codec import Delivery
from wirefmt.nsq.events import Asked, ConnectionOptions, Event, Publication
from wirefmt.nsq.server_connection import ServerConnection

if TYPE_CHECKING:
    from typing_extensions import Buffer

Server = aio.Server


class Peer(aio.Peer):
    """One client of a server.

    With a coroutine function as handler, the events of `ServerConnection` are taken by `async for event in peer`; the last
    one is `Disconnected`. The methods are those of `ServerConnection` and raise LocalProtocolError as they do. What they
    queue is written at the end of the loop's iteration. `StartTls` is answered here.

    Attributes:
        connection: the connection. After a call of a method that returns events, give these to `driver.update`.
        server: the server.
        error: what ended the transport, if it was an error.
    """

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
Handler = aio.Handler[Peer, Event]


async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int = 4150,
    *,
    path: str | None = None,
    ssl: SSLContext | None = None,
    options: ConnectionOptions | None = None,
    backlog: int = 100,
    most: int = 100_000,
    tap: aio.TapFactory | None = None,
    proxy_protocol: bool = False,
) -> Server:
    """Serve NSQ's TCP protocol V2.

    Args:
        handler: a coroutine function that is called with the `Peer` of each client and iterates over its events; when it
            returns, the connection is closed. Or an object with the methods of `Handler`, which serves all clients.
        host, port: where to listen; loopback by default. None: all interfaces. Port 0: any that is free (`Server.port`).
        path: of a Unix socket, in place of host and port.
        ssl: for clients that ask for TLS in IDENTIFY. Needed if `options.tls` is not "no".
        options: limits and times of each connection.
        backlog: connections that the system keeps until they are accepted.
        most: clients at a time; further ones are closed at once and counted (`Server.turned_away`).
        tap: what lies between transport and driver of each client (`aio.Tap`); None: nothing.
        proxy_protocol: True: each client comes through a proxy that sends a header of the PROXY protocol first, version 1 or 2,
            before TLS; it says `Peer.address`. Connections without one are refused; False: connections with one are.

    Returns the running server. Leaving `async with` or `close()` ends it.

    Raises ValueError if TLS is to be offered without a context.
    """
    if options is not None and options.tls != "no" and ssl is None:
        raise ValueError("options.tls needs ssl")

    def make(server: Server) -> aio.Driver:
        return make_driver(server, handler, options, ssl)

    return await aio.listen(
        make, host, port, path=path, backlog=backlog, most=most, tap=tap, proxy_protocol=proxy_protocol
    )


def make_driver(
    server: Server,
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    options: ConnectionOptions | None = None,
    ssl: SSLContext | None = None,
) -> aio.Driver:
    """The driver of a new client, with its connection and its peer."""
    peer = Peer(handler, server)
    peer.ssl = ssl
    peer.connection = ServerConnection(asyncio.get_running_loop().time(), options)
    peer.driver = aio.Driver(peer.connection, peer, buffer=server.buffer)
    return peer.driver
