"""An AMQP 0.9.1 server on asyncio: a `ServerConnection` for each client, and a handler that is the host.

docs/amqp091-asyncio.md has examples.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Unpack

from wirefmt import amqp091
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp091.connection import ServerConnection
from wirefmt.amqp091.events import ChannelWaits, ConnectionOptions, Event, ServerEvent
from wirefmt.amqp091.server_channel import ServerChannel
from wirefmt.connection import aio

Server = aio.Server


class Peer(aio.Peer):
    """One client of a server, see `aio.Peer`."""

    connection: ServerConnection

    def handle(self, event: Event) -> None:
        if type(event) is ChannelWaits and self._handler is not None:
            self.driver.update(self.connection.proceed(event))
        else:
            super().handle(event)

    async def __anext__(self) -> Event:
        while type(event := await super().__anext__()) is ChannelWaits:
            self.driver.update(
                self.connection.proceed(event)
            )  # the handler asks for the next event: it has handled the others
        return event

    @property
    def channels(self) -> Mapping[int, ServerChannel]:
        """Open channels by number. After `ServerChannel.deliver` call `update`, after `get_ok` and `close` with their events."""
        return self.connection.channels

    def update(self, events: Sequence[Event] = ()) -> None:
        """Have written what methods of the connection or of a channel have queued, and handle the events they returned."""
        self.driver.update(list(events))

    def accept(self, event: Any) -> None:
        """Accept credentials, an open or a new secret."""
        self.driver.update(self.connection.accept(event))

    def challenge(self, event: Any, challenge: bytes) -> None:
        """Ask the client for another response."""
        self.driver.update(self.connection.challenge(event, challenge))

    def refuse(self, event: Any, code: int | None = None, reason: str = "") -> None:
        """Refuse an event: a soft code closes its channel, another one the connection."""
        self.driver.update(self.connection.refuse(event, code, reason))

    def reply(self, event: Any, **fields: Any) -> None:
        """Answer a request with its reply."""
        self.driver.update(self.connection.reply(event, **fields))

    def acknowledge(self, *events: amqp091.BasicMessage) -> None:
        """Confirm messages."""
        if self.connection.wants_read:
            self.connection.acknowledge(*events)  # which returns no events then
            self.driver.queued()
        else:
            self.driver.update(self.connection.acknowledge(*events))

    def reject(self, event: amqp091.BasicMessage) -> None:
        """Tell that a message has not been taken."""
        self.driver.update(self.connection.reject(event))

    def return_message(
        self, event: amqp091.BasicMessage, code: int = ReplyCode.NO_ROUTE, reason: str = "NO_ROUTE"
    ) -> None:
        """Send a message back that cannot be routed, before its confirm."""
        self.connection.return_message(event, code, reason)
        self.driver.update()

    def close(self, code: int = ReplyCode.CONNECTION_FORCED, reason: str = "the server is shutting down") -> None:
        """Close the connection."""
        self.driver.update(self.connection.close(code, reason))


#: The host of all connections of a server, without tasks: an object with these methods, which do not wait.
Handler = aio.Handler[Peer, ServerEvent]


@aio.serving
async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int | None = 5672,
    *,
    mechanisms: Sequence[str] = ("PLAIN", "AMQPLAIN"),
    properties: Mapping[str, Any] | None = None,
    options: ConnectionOptions | None = None,
    **more: Unpack[aio.Listening],
) -> Server:
    """Serve AMQP 0.9.1.

    Args:
        mechanisms: of SASL, offered in this order.
        properties: server-properties, for example product and version; capabilities are added.
        options: limits and times of each connection.
    """

    def make(server: Server, now: float) -> Peer:
        connection = ServerConnection(now, options, mechanisms=mechanisms, properties=properties)
        return Peer(handler, server, connection)

    return await aio.listen(make, host, port, **more)
