"""A RocketMQ name server or broker on asyncio: a `ServerConnection` for each client, and a handler that is the host.

docs/rocketmq-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

from wirefmt.connection import aio
from wirefmt.rocketmq._codec import CommandCustomHeader, RemotingCommand, Request
from wirefmt.rocketmq.codes import ResponseCode
from wirefmt.rocketmq.connection import ServerConnection
from wirefmt.rocketmq.events import ConnectionOptions, Event

if TYPE_CHECKING:
    from typing_extensions import Buffer

Server = aio.Server


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

    def respond(
        self,
        event: RemotingCommand,
        code: int = ResponseCode.SUCCESS,
        header: CommandCustomHeader | None = None,
        body: Buffer | None = None,
        *,
        ext_fields: Mapping[str, str | None] | None = None,
        remark: str | None = None,
    ) -> None:
        """Answer a request."""
        self.driver.update(self.connection.respond(event, code, header, body, ext_fields=ext_fields, remark=remark))

    def forward(self, event: RemotingCommand, response: RemotingCommand) -> None:
        """Answer a request with a response that another peer made."""
        self.driver.update(self.connection.forward(event, response))

    def refuse(self, event: RemotingCommand) -> None:
        """Answer a request whose code is not known."""
        self.driver.update(self.connection.refuse(event))

    def request(
        self,
        code: int,
        header: CommandCustomHeader | None = None,
        body: Buffer | None = None,
        *,
        ext_fields: Mapping[str, str | None] | None = None,
        oneway: bool = False,
        timeout: float | None = None,
    ) -> Request | None:
        """Ask the client. The outcome is an event with the handle returned; None for a one-way request."""
        now = asyncio.get_running_loop().time()
        handle = self.connection.request(
            code, header, body, ext_fields=ext_fields, oneway=oneway, timeout=timeout, now=now
        )
        self.driver.update()
        return handle

    def close(self, wait: float = 0.0) -> None:
        """End the connection. `wait`: seconds that what is pending and undecided may take."""
        self.driver.update(self.connection.close(wait))


#: The host of all connections of a server, without tasks: an object with these methods, which do not wait.
Handler = aio.Handler[Peer, Event]


async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int = 9876,
    *,
    path: str | None = None,
    ssl: SSLContext | None = None,
    options: ConnectionOptions | None = None,
    backlog: int = 100,
    most: int = 100_000,
    tap: aio.TapFactory | None = None,
    proxy_protocol: bool = False,
) -> Server:
    """Serve RocketMQ's remoting protocol.

    Args:
        handler: a coroutine function that is called with the `Peer` of each client and iterates over its events; when it
            returns, the connection is closed. Or an object with the methods of `Handler`, which serves all clients.
        host, port: where to listen; loopback by default. None: all interfaces. Port 0: any that is free (`Server.port`).
        path: of a Unix socket, in place of host and port.
        ssl: TLS with this context, for all clients. The option `tls` must be "disabled": TLS that begins after the first
            byte has been read is for hosts with a transport of their own, and so is the option `proxy`.
        options: limits and times of each connection.
        backlog: connections that the system keeps until they are accepted.
        most: clients at a time; further ones are closed at once and counted (`Server.turned_away`).
        tap: what lies between transport and driver of each client (`aio.Tap`); None: nothing.
        proxy_protocol: True: each client comes through a proxy that sends a header of the PROXY protocol first, version 1 or 2,
            before TLS; it says `Peer.address`. Connections without one are refused; False: connections with one are.

    Returns the running server. Leaving `async with` or `close()` ends it.
    """
    if options is not None and options.tls != "disabled":
        raise ValueError("options.tls: give a context as ssl")
    if options is not None and options.proxy:
        raise ValueError("options.proxy: give proxy_protocol=True")

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
