"""An MQTT server on asyncio: a `ServerConnection` for each client, and a handler that is the host.

docs/mqtt-asyncio.md has examples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final, Unpack

from wirefmt import mqtt
from wirefmt.connection import aio
from wirefmt.connection.deflate import Deflate
from wirefmt.connection.websocket import ServerHandshake
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.events import Asked, ConnectionOptions, Pairs, ServerEvent
from wirefmt.mqtt.server_connection import ServerConnection
from wirefmt.mqtt.session import Delivery, Session

if TYPE_CHECKING:
    from typing_extensions import Buffer

Server = aio.Server

_SYSTEM: Final = SystemRandom()

#: Of WebSocket: the standard's [MQTT-6.0.0-4], and what clients of 3.1 say.
SUBPROTOCOLS: Final = ("mqtt", "mqttv3.1")


class Peer(aio.Peer):
    """One client of a server, see `aio.Peer`."""

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
Handler = aio.Handler[Peer, ServerEvent]


@aio.serving
async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int | None = 1883,
    *,
    websocket: bool = False,
    origins: Collection[str] = (),
    deflate: Deflate | None = None,
    options: ConnectionOptions | None = None,
    random: Random | None = None,
    **more: Unpack[aio.Listening],
) -> Server:
    """Serve MQTT 3.1, 3.1.1 and 5.0.

    Args:
        websocket: MQTT over WebSocket (section 6), with the subprotocol "mqtt", for any path.
        origins: web pages that may connect over WebSocket, as "https://panel.example"; "*": all. Requests with another Origin are
            refused (`wirefmt.connection.websocket.is_allowed`).
        deflate: accept compression (permessage-deflate) over WebSocket; None: do not.
        options: limits and times of each connection.
        random: for Client Identifiers of clients that have none; None: the system's.
    """

    def make(server: Server, now: float) -> Peer:
        connection = ServerConnection(now, options, random or _SYSTEM)
        opening = ServerHandshake(SUBPROTOCOLS, origins, deflate) if websocket else None
        return Peer(handler, server, connection, opening)

    return await aio.listen(make, host, port, **more)
