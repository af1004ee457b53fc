"""An AMQP 1.0 server on asyncio: a `ServerConnection` for each client, and a handler that is the host.

docs/amqp10-asyncio.md has examples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final, Unpack

from wirefmt.amqp10._codec import Error, Incoming
from wirefmt.amqp10.connection import ServerConnection
from wirefmt.amqp10.events import ConnectionOptions, ServerEvent, State
from wirefmt.connection import aio
from wirefmt.connection.deflate import Deflate
from wirefmt.connection.websocket import ServerHandshake

Server = aio.Server

#: Of WebSocket (AMQP WebSocket Binding 1.0, 2.1).
SUBPROTOCOLS: Final = ("amqp",)


class Peer(aio.Peer):
    """One client of a server, see `aio.Peer`. After a call of a method of a session or link call `update`."""

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
Handler = aio.Handler[Peer, ServerEvent]


@aio.serving
async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int | None = 5672,
    *,
    container_id: str = "wirefmt",
    mechanisms: Sequence[str] = ("ANONYMOUS",),
    without_sasl: bool = False,
    websocket: bool = False,
    origins: Collection[str] = (),
    deflate: Deflate | None = None,
    options: ConnectionOptions | None = None,
    **more: Unpack[aio.Listening],
) -> Server:
    """Serve AMQP 1.0.

    Args:
        container_id: ours.
        mechanisms, without_sasl: see `ServerConnection`.
        websocket: AMQP over WebSocket, with the subprotocol "amqp", for any path.
        origins: web pages that may connect over WebSocket, as "https://panel.example"; "*": all. Requests with another Origin are
            refused (`wirefmt.connection.websocket.is_allowed`).
        deflate: accept compression (permessage-deflate) over WebSocket; None: do not.
        options: limits and times of each connection.
    """

    def make(server: Server, now: float) -> Peer:
        connection = ServerConnection(
            now, container_id, mechanisms=mechanisms, without_sasl=without_sasl, options=options
        )
        opening = ServerHandshake(SUBPROTOCOLS, origins, deflate) if websocket else None
        return Peer(handler, server, connection, opening)

    return await aio.listen(make, host, port, **more)
