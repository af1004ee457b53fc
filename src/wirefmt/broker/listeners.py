"""The protocols and listeners of a broker, and the port that AMQP 0.9.1 and AMQP 1.0 can share."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final, cast

from wirefmt.connection import aio, proxy
from wirefmt.connection.aio.proxied import Proxied
from wirefmt.errors import DecodeError
from wirefmt.protocols import PROTOCOLS

#: The protocols, as they are named in ports, URLs, views and faults. "amqp" is AMQP 0.9.1. They are not those of the registry,
#: since a protocol can have a codec without a broker: these are the fields of `wirefmt.broker.Options` that are brokers.
NAMES: Final = ("mqtt", "amqp", "amqp10", "nsq", "rocketmq", "phpmq")

#: All possible listeners, and the schemes of their URLs. "+ws" is WebSocket, "+wss" is WebSocket over TLS.
SCHEMES: Final = {
    "mqtt": "mqtt", "mqtt+tls": "mqtts", "mqtt+ws": "ws", "mqtt+wss": "wss",
    "amqp": "amqp", "amqp+tls": "amqps",
    "amqp10": "amqp", "amqp10+tls": "amqps", "amqp10+ws": "ws", "amqp10+wss": "wss",
    "nsq": "nsq", "rocketmq": "rocketmq", "rocketmq+tls": "rocketmqs", "phpmq": "phpmq", "phpmq+tls": "phpmqs",
    "nsqlookupd": "http",
}  # fmt: skip

#: The usual port of each protocol without TLS: the first in the registry. PHPMQ has none; 9100 is in its sample configuration.
_FIRST = {row.name: row.ports[0] for row in PROTOCOLS if row.ports} | {"phpmq": 9100}
PORTS: Final = {name: _FIRST[{"amqp": "amqp091"}.get(name, name)] for name in NAMES}

#: Seconds within which a client of the shared port must send its protocol header.
HEADER_TIMEOUT: Final = 10.0

#: Bytes of a protocol header.
HEADER_SIZE: Final = 8


class SharedPort:
    """One port for AMQP 0.9.1 and AMQP 1.0: the client's protocol header decides (0.9.1: 4.2.2; 1.0: 2.2 and 5.3.1).

    Clients that have not sent their protocol header yet count against `connections`, together with the clients of both servers.

    Args:
        old: the server of AMQP 0.9.1, which has no listener.
        new: the server of AMQP 1.0, which has no listener.
        connections: clients of the port at a time; further ones are closed immediately.

    Attributes:
        undecided: connections without a complete protocol header, or PROXY header.
        turned_away: connections that were closed because there were too many.
    """

    def __init__(self, old: aio.Server, new: aio.Server, connections: int) -> None:
        self.old = old
        self.new = new
        self.undecided: set[Any] = set()
        self.turned_away = 0
        self._connections = connections
        self._listener: asyncio.Server | None = None

    async def listen(self, host: str, port: int, *, proxy_protocol: bool = False) -> None:
        """Listen. `proxy_protocol` as in `aio.listen`. Raises OSError if the port is not available."""
        loop = asyncio.get_running_loop()
        accept = partial(Proxied, self) if proxy_protocol else self.accept
        self._listener = await loop.create_server(accept, host, port)

    def accept(self, source: proxy.Address | None = None, error: DecodeError | None = None) -> asyncio.BaseProtocol:
        """The protocol of a new transport, as in `aio.Server.accept`."""
        return _Undecided(self, source) if error is None else self.old.accept(source, error)

    def has_capacity(self) -> bool:
        """Called for each new connection. Returns False if it must be closed."""
        used = len(self.undecided) + len(self.old.drivers) + len(self.new.drivers)
        if self._listener is None or used >= self._connections:
            self.turned_away += 1
            return False
        return True

    def drop(self) -> None:
        """Abort the connections without a complete protocol header."""
        for connection in list(self.undecided):
            connection.abort()

    def close(self) -> None:
        """Stop listening, and abort the connections without a complete protocol header."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        self.drop()


class _Undecided(asyncio.Protocol):
    """A connection of the shared port until its protocol header is complete."""

    def __init__(self, port: SharedPort, source: proxy.Address | None) -> None:
        self._port = port
        self._source = source
        self._header = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's are not, and are used alike
        if not self._port.has_capacity():
            transport.abort()
            return
        self._port.undecided.add(self)
        self._timer = asyncio.get_running_loop().call_later(HEADER_TIMEOUT, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def data_received(self, data: bytes) -> None:
        if self not in self._port.undecided:
            return
        self._header += data
        if len(self._header) < HEADER_SIZE:
            return
        self._leave()
        # "AMQP", protocol id, major, minor, revision. Version 1.0.0 is AMQP 1.0; 0.9.1 answers all other headers.
        is_new = self._header.startswith(b"AMQP") and self._header[5:HEADER_SIZE] == b"\1\0\0"
        protocol = (self._port.new if is_new else self._port.old).accept(self._source)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        aio.hand_over(protocol, bytes(self._header))

    def abort(self) -> None:
        self._leave()
        self._transport.abort()

    def _leave(self) -> None:
        self._port.undecided.discard(self)
        if self._timer is not None:
            self._timer.cancel()
