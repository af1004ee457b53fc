"""A forwarder of TCP on loopback whose connections can die in silence: neither side sees an end."""

from __future__ import annotations

import asyncio
from typing import Self

from lib.loopback import HOST


class _Half(asyncio.Protocol):
    """One side of a connection: what it reads goes to the other side."""

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self.transport: asyncio.Transport | None = None
        self.other: _Half | None = None
        self.early: list[bytes] = []
        self.silent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.forwarder.halves.add(self)
        if self.other is None:  # the client's side
            self.forwarder.dial(self)

    def data_received(self, data: bytes) -> None:
        if self.silent:
            return
        if self.other is None or self.other.transport is None:
            self.early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.forwarder.halves.discard(self)
        if self.other is not None and self.other.transport is not None and not self.silent:
            self.other.transport.close()


class Forwarder:
    """`async with Forwarder(target) as forwarder`: connections to `forwarder.port` go to the port `target`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.halves: set[_Half] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self.server = await asyncio.get_running_loop().create_server(lambda: _Half(self), HOST, 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for half in list(self.halves):
            assert half.transport is not None
            half.transport.abort()
        while self.halves or self.tasks:
            await asyncio.sleep(0.01)

    def dial(self, client: _Half) -> None:
        task = asyncio.get_running_loop().create_task(self._dial(client))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _dial(self, client: _Half) -> None:
        assert client.transport is not None
        server = _Half(self)
        server.other = client
        try:
            await asyncio.get_running_loop().create_connection(lambda: server, HOST, self.target)
        except OSError:
            client.transport.abort()
            return
        assert server.transport is not None
        client.other = server
        for data in client.early:
            server.transport.write(data)
        client.early.clear()

    def silence(self) -> None:
        """The connections that are there pass nothing more, and stay open on both sides."""
        for half in self.halves:
            half.silent = True

    def cut(self) -> None:
        """End the connections that are there, on both sides."""
        for half in list(self.halves):
            half.silent = True
            assert half.transport is not None
            half.transport.abort()
