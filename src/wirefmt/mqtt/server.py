"""An MQTT server on asyncio: a `ServerConnection` for each client, and a handler that is the host.

docs/mqtt-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from random import Random, SystemRandom
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final

from wirefmt import mqtt
from wirefmt.connection import aio
from wirefmt.connection.carriers import WebSocket
from wirefmt.connection.websocket import ServerHandshake
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.connection import ServerConnection
from wirefmt.mqtt.events import Asked, ConnectionOptions, Event, Pairs
from wirefmt.mqtt.session import Delivery, Session

if TYPE_CHECKING:
    from typing_extensions import Buffer

Server = aio.Server

_SYSTEM: Final = SystemRandom()

#: Of WebSocket: the standard's [MQTT-6.0.0-4], and what clients of 3.1 say.
SUBPROTOCOLS: Final = ("mqtt", "mqttv3.1")


class Peer(aio.Peer):
    """One client of a server.

    With a coroutine function as handler, the events of `ServerConnection` are taken by `async for event in peer`; the last
    one is `Disconnected`. The methods are those of `ServerConnection` and raise LocalProtocolError as they do. What they
    queue is written at the end of the loop's iteration.

    Attributes:
        connection: the connection. After a call of a method that returns events, give these to `driver.update`.
        server: the server.
        error: what ended the transport, if it was an error.
    """

    connection: ServerConnection

    def accept(
        self,
        event: mqtt.Connect | mqtt.Auth,
        session: Session | None = None,
        properties: Pairs = (),
        authentication_data: bytes | None = None,
    ) -> None:
        """Accept a CONNECT, or the AUTH that completes an exchange. A client without a Client Identifier is assigned one."""
        self.driver.update(self.connection.accept(event, session, properties, authentication_data))

    def refuse(self, event: mqtt.Connect | mqtt.Auth, reason_code: int, properties: Pairs = ()) -> None:
        """Refuse a CONNECT or an AUTH, and end."""
        self.driver.update(self.connection.refuse(event, reason_code, properties))

    def continue_authentication(
        self, event: mqtt.Connect | mqtt.Auth, authentication_data: bytes | None = None, properties: Pairs = ()
    ) -> None:
        """Ask the client for its next AUTH."""
        self.driver.update(self.connection.continue_authentication(event, authentication_data, properties))

    def acknowledge(self, message: mqtt.Publish, reason_code: int = ReasonCode.SUCCESS, properties: Pairs = ()) -> None:
        """Answer a message of QoS 1 or 2."""
        self.driver.update(self.connection.acknowledge(message, reason_code, properties))

    def grant(self, event: Asked, reason_codes: Iterable[int] = (), properties: Pairs = ()) -> None:
        """Answer a SUBSCRIBE or UNSUBSCRIBE."""
        self.driver.update(self.connection.grant(event, reason_codes, properties))

    def publish(
        self, topic_name: str, payload: Buffer = b"", *, qos: int = 0, retain: bool = False, properties: Pairs = ()
    ) -> Delivery | None:
        """Send a message to the client. QoS 1 and 2: `Acknowledged` has the handle returned."""
        handle = self.connection.publish(topic_name, payload, qos=qos, retain=retain, properties=properties)
        self.driver.queued()
        return handle

    def close(self, reason_code: int = ReasonCode.SERVER_SHUTTING_DOWN, properties: Pairs = ()) -> None:
        """End the connection, with DISCONNECT in 5.0."""
        self.driver.update(self.connection.close(reason_code, properties))


#: The host of all connections of a server, without tasks: an object with these methods, which do not wait.
Handler = aio.Handler[Peer, Event]


async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int = 1883,
    *,
    path: str | None = None,
    ssl: SSLContext | None = None,
    websocket: bool = False,
    origins: Collection[str] = (),
    options: ConnectionOptions | None = None,
    backlog: int = 100,
    most: int = 100_000,
    tap: aio.TapFactory | None = None,
    proxy_protocol: bool = False,
    random: Random | None = None,
) -> Server:
    """Serve MQTT 3.1, 3.1.1 and 5.0.

    Args:
        handler: a coroutine function that is called with the `Peer` of each client and iterates over its events; when it
            returns, the connection is closed. Or an object with the methods of `Handler`, which serves all clients.
        host, port: where to listen; loopback by default. None: all interfaces. Port 0: any that is free (`Server.port`).
        path: of a Unix socket, in place of host and port.
        ssl: TLS with this context.
        websocket: MQTT over WebSocket (section 6), with the subprotocol "mqtt", for any path.
        origins: web pages that may connect over WebSocket, as "https://panel.example"; "*": all. Requests with another Origin are
            refused (`wirefmt.connection.websocket.is_allowed`).
        options: limits and times of each connection.
        backlog: connections that the system keeps until they are accepted.
        most: clients at a time; further ones are closed at once and counted (`Server.turned_away`).
        tap: what lies between transport and driver of each client (`aio.Tap`); None: nothing.
        proxy_protocol: True: each client comes through a proxy that sends a header of the PROXY protocol first, version 1 or 2,
            before TLS; it says `Peer.address`. Connections without one are refused; False: connections with one are.
        random: for Client Identifiers of clients that have none; None: the system's.

    Returns the running server. Leaving `async with` or `close()` ends it.
    """

    def make(server: Server) -> aio.Driver:
        return make_driver(server, handler, options, websocket=websocket, origins=origins, random=random)

    return await aio.listen(
        make, host, port, path=path, ssl=ssl, backlog=backlog, most=most, tap=tap, proxy_protocol=proxy_protocol
    )


def make_driver(
    server: Server,
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    options: ConnectionOptions | None = None,
    *,
    websocket: bool = False,
    origins: Collection[str] = (),
    random: Random | None = None,
) -> aio.Driver:
    """The driver of a new client, with its connection and its peer."""
    peer = Peer(handler, server)
    now = asyncio.get_running_loop().time()
    peer.connection = ServerConnection(now, options, random or _SYSTEM)
    peer.driver = aio.Driver(
        peer.connection,
        peer,
        buffer=server.buffer,
        opening=ServerHandshake(SUBPROTOCOLS, origins) if websocket else None,
        carrier=WebSocket() if websocket else None,
    )
    return peer.driver
