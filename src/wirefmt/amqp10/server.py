"""An AMQP 1.0 server on asyncio: a `ServerConnection` for each client, and a handler that is the host.

docs/amqp10-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from ssl import SSLContext
from typing import Any, Final

from wirefmt.amqp10._codec import Error, Incoming
from wirefmt.amqp10.connection import ServerConnection
from wirefmt.amqp10.events import ConnectionOptions, Event, State
from wirefmt.connection import aio
from wirefmt.connection.carriers import WebSocket
from wirefmt.connection.websocket import ServerHandshake

Server = aio.Server

#: Of WebSocket (AMQP WebSocket Binding 1.0, 2.1).
SUBPROTOCOLS: Final = ("amqp",)


class Peer(aio.Peer):
    """One client of a server.

    With a coroutine function as handler, the events of `ServerConnection` are taken by `async for event in peer`; the last
    one is `Disconnected`. The methods are those of `ServerConnection` and raise LocalProtocolError as they do. After a call
    of a method of a session or link call `update`. What they queue is written at the end of the loop's iteration.

    Attributes:
        connection: the connection.
        server: the server.
        error: what ended the transport, if it was an error.
    """

    connection: ServerConnection

    def update(self) -> None:
        """Write what calls of a session or link have queued."""
        self.driver.update()

    def accept(self, event: Any, **answer: Any) -> None:
        """Answer a `Login`, `Open`, `Attaching` or `Incoming` with yes."""
        self.driver.update(self.connection.accept(event, **answer))

    def refuse(self, event: Any, error: Any = None) -> None:
        """Answer a `Login` (with a code), `Open` or `Attaching` (with an Error) with no."""
        self.driver.update(self.connection.refuse(event, error))

    def reject(self, delivery: Incoming, error: Error | None = None) -> None:
        """Answer `rejected`: the message is invalid."""
        self.connection.reject(delivery, error)
        self.driver.update()

    def release(self, delivery: Incoming) -> None:
        """Answer `released`: the message was not processed."""
        self.connection.release(delivery)
        self.driver.update()

    def modify(self, delivery: Incoming, **fields: Any) -> None:
        """Answer `modified`."""
        self.connection.modify(delivery, **fields)
        self.driver.update()

    def settle(self, delivery: Incoming, state: State, *, settled: bool | None = None) -> None:
        """Answer a delivery with any state."""
        self.connection.settle(delivery, state, settled=settled)
        self.driver.update()

    def close(self, error: Error | None = None) -> None:
        """End the connection."""
        self.driver.update(self.connection.close(error))


#: The host of all connections of a server, without tasks: an object with these methods, which do not wait.
Handler = aio.Handler[Peer, Event]


async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int | None = 5672,
    *,
    container_id: str = "wirefmt",
    mechanisms: Sequence[str] = ("ANONYMOUS",),
    without_sasl: bool = False,
    path: str | None = None,
    ssl: SSLContext | None = None,
    websocket: bool = False,
    origins: Collection[str] = (),
    options: ConnectionOptions | None = None,
    backlog: int = 100,
    most: int = 100_000,
    tap: aio.TapFactory | None = None,
    proxy_protocol: bool = False,
) -> Server:
    """Serve AMQP 1.0.

    Args:
        handler: a coroutine function that is called with the `Peer` of each client and iterates over its events; when it
            returns, the connection is closed. Or an object with the methods of `Handler`, which serves all clients.
        host, port: where to listen; loopback by default. None: all interfaces. Port 0: any that is free
            (`Server.port`); None: nowhere (`Server.accept`).
        container_id: ours.
        mechanisms, without_sasl: see `ServerConnection`.
        path: of a Unix socket, in place of host and port.
        ssl: TLS with this context.
        websocket: AMQP over WebSocket, with the subprotocol "amqp", for any path.
        origins: web pages that may connect over WebSocket, as "https://panel.example"; "*": all. Requests with another Origin are
            refused (`wirefmt.connection.websocket.is_allowed`).
        options: limits and times of each connection.
        backlog: connections that the system keeps until they are accepted.
        most: clients at a time; further ones are closed at once and counted (`Server.turned_away`).
        tap: what lies between transport and driver of each client (`aio.Tap`); None: nothing.
        proxy_protocol: True: each client comes through a proxy that sends a header of the PROXY protocol first, version 1 or 2,
            before TLS; it says `Peer.address`. Connections without one are refused; False: connections with one are.

    Returns the running server. Leaving `async with` or `close()` ends it.
    """

    def make(server: Server) -> aio.Driver:
        peer = Peer(handler, server)
        now = asyncio.get_running_loop().time()
        peer.connection = ServerConnection(
            now, container_id, mechanisms=mechanisms, without_sasl=without_sasl, options=options
        )
        peer.driver = aio.Driver(
            peer.connection,
            peer,
            buffer=server.buffer,
            opening=ServerHandshake(SUBPROTOCOLS, origins) if websocket else None,
            carrier=WebSocket() if websocket else None,
        )
        return peer.driver

    return await aio.listen(
        make, host, port, path=path, ssl=ssl, backlog=backlog, most=most, tap=tap, proxy_protocol=proxy_protocol
    )
