"""Transports that begin with a header of the PROXY protocol, before TLS and all other bytes."""

from __future__ import annotations

import asyncio
from ssl import SSLContext
from typing import Any, Final, Protocol, cast

from wirefmt.connection import proxy
from wirefmt.connection.aio.transports import hand_over, start_tls
from wirefmt.errors import DecodeError, Truncated

#: Seconds within which a header must be complete. The specification wants 3 at least (2).
HEADER_TIMEOUT: Final = 5.0


class Listener(Protocol):
    """Who takes the transports of a listener."""

    #: Connections that have not come to a protocol yet. Each has `abort()`.
    undecided: set[Any]

    def has_capacity(self) -> bool:
        """Called for each new connection. Returns False if it must be closed; it is counted then."""
        ...

    def accept(self, source: proxy.Address | None = None, error: DecodeError | None = None) -> asyncio.BaseProtocol:
        """The protocol of a new transport, which is called with `connection_made` next.

        Args:
            source: the address of the client; None: that of the transport.
            error: why the transport is refused. The protocol reports it and closes the transport.
        """
        ...


class Proxied(asyncio.BufferedProtocol):
    """A transport until its header has been read, and until its TLS handshake is done.

    Every read asks for bytes of the header only. What follows stays in the socket until TLS, or the protocol, reads it.

    Args:
        listener: takes the transport afterwards.
        ssl: TLS with this context, after the header.
    """

    def __init__(self, listener: Listener, ssl: SSLContext | None = None) -> None:
        self._listener = listener
        self._ssl = ssl
        self._read = bytearray()
        self._buffer = bytearray()
        self._wanted = cast(int, proxy.read_header(b""))
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's are not, and are used alike
        if not self._listener.has_capacity():
            transport.abort()
            return
        self._listener.undecided.add(self)
        self._timer = asyncio.get_running_loop().call_later(HEADER_TIMEOUT, self._late)

    def get_buffer(self, sizehint: int) -> bytearray:
        self._buffer = bytearray(self._wanted)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._read += self._buffer[:nbytes]
        try:
            found = proxy.read_header(bytes(self._read))
        except DecodeError as error:
            self._refuse(error)
            return
        if isinstance(found, int):
            self._wanted = found
            return
        self._stop_timer()
        if self._ssl is None:
            self._go_on(self._listener.accept(found.source))
        else:
            self._transport.pause_reading()
            self._task = asyncio.get_running_loop().create_task(self._secure(self._ssl, found.source))

    def eof_received(self) -> None:
        if self._read:
            self._refuse(Truncated("the stream ended in the PROXY header", protocol="proxy", offset=len(self._read)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """Drop the connection."""
        self._leave()
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    def _late(self) -> None:
        self._refuse(
            Truncated(f"no complete PROXY header within {HEADER_TIMEOUT:g} s", protocol="proxy", offset=len(self._read))
        )

    def _refuse(self, error: DecodeError) -> None:
        self._go_on(self._listener.accept(error=error))

    def _go_on(self, protocol: asyncio.BaseProtocol) -> None:
        self._leave()
        transport = self._transport
        transport.pause_reading()  # the loop reads in another way for another kind of protocol
        transport.set_protocol(protocol)
        transport.resume_reading()
        protocol.connection_made(transport)

    async def _secure(self, context: SSLContext, source: proxy.Address | None) -> None:
        early = _Early()
        try:
            transport = await start_tls(self._transport, early, context, None)
        except (OSError, RuntimeError):  # the handshake has failed, or uvloop's transport is closed
            self._transport.abort()
            return
        finally:
            self._leave()
        protocol = self._listener.accept(source)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        early.pass_on(protocol)

    def _leave(self) -> None:
        self._listener.undecided.discard(self)
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Early(asyncio.Protocol):
    """Keeps what comes with the end of a TLS handshake, before its task goes on."""

    def __init__(self) -> None:
        self._data = b""
        self._eof = False
        self._lost: list[Exception | None] = []

    def data_received(self, data: bytes) -> None:
        self._data += data

    def eof_received(self) -> None:
        self._eof = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.append(exc)

    def pass_on(self, protocol: Any) -> None:
        if self._data:
            hand_over(protocol, self._data)
        if self._eof:
            protocol.eof_received()
        for error in self._lost:
            protocol.connection_lost(error)
