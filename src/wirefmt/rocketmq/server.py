"""A RocketMQ name server or broker on asyncio: a `ServerConnection` for each client, and a handler that is the host.

docs/rocketmq-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from wirefmt.connection import aio
from wirefmt.rocketmq._codec import CommandCustomHeader, RemotingCommand, Request
from wirefmt.rocketmq.codes import ResponseCode
from wirefmt.rocketmq.connection import ServerConnection
from wirefmt.rocketmq.events import ConnectionOptions, ServerEvent

if TYPE_CHECKING:
    from typing_extensions import Buffer

Server = aio.Server


class Peer(aio.Peer):
    """One client of a server, see `aio.Peer`."""

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
Handler = aio.Handler[Peer, ServerEvent]


@aio.serving
async def serve(
    handler: Callable[[Peer], Coroutine[Any, Any, None]] | Handler,
    host: str | None = "127.0.0.1",
    port: int | None = 9876,
    *,
    options: ConnectionOptions | None = None,
    **more: Unpack[aio.Listening],
) -> Server:
    """Serve RocketMQ's remoting protocol.

    Args:
        options: limits and times of each connection.
        ssl: TLS with this context, for all clients. The option `tls` must be "disabled": TLS that begins after the first
            byte has been read is for hosts with a transport of their own, and so is the option `proxy`.
    """
    if options is not None and options.tls != "disabled":
        raise ValueError("options.tls: give a context as ssl")
    if options is not None and options.proxy:
        raise ValueError("options.proxy: give proxy_protocol=True")

    def make(server: Server, now: float) -> Peer:
        return Peer(handler, server, ServerConnection(now, options))

    return await aio.listen(make, host, port, **more)
