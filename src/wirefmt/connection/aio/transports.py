"""What lies below a driver: taps, which see or change what passes, and TLS that begins in mid-stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ssl import SSLContext
from typing import Any, Final

#: Bytes that one read takes at most.
READ_SIZE: Final = 1 << 18

#: Seconds that a connection which is over waits for the peer to take the last bytes and to close.
LINGER: Final = 2.0

#: Makes the tap of a driver, or of a tap nearer to it.
TapFactory = Callable[[asyncio.BaseProtocol], asyncio.BaseProtocol]


class Tap(asyncio.Transport, asyncio.Protocol):
    """Lies between the transport of one connection and its driver: what both say passes through it, without TLS.

    Derived classes override `made`, `received`, `ended`, `sent` and `lost` to record, change, delay or drop what passes. As
    they are, they pass everything on at once. Taps can be nested.

    Args:
        inner: the driver, or a tap nearer to it.

    Attributes:
        transport: the transport, or a tap nearer to it; None before `made`. `transport.abort()` cuts the connection.
    """

    def __init__(self, inner: asyncio.BaseProtocol) -> None:
        super().__init__()
        self.inner = inner
        self.transport: asyncio.Transport | None = None
        self._gone = False

    # ---- for derived classes

    def made(self) -> None:
        """The connection is there. `address` is the peer's."""
        self.inner.connection_made(self)

    def received(self, data: bytes) -> None:
        """Bytes from the peer. What the driver is to read goes to `deliver`, now or later."""
        self.deliver(data)

    def ended(self) -> bool | None:
        """The peer's stream has ended. Returns true to keep our side open."""
        return self.inner.eof_received()  # type: ignore[attr-defined, no-any-return]

    def sent(self, data: bytes) -> None:
        """Bytes for the peer. What it is to get goes to `forward`, now or later."""
        self.forward(data)

    def lost(self, error: Exception | None) -> None:
        """The connection is gone: the last call."""
        self.inner.connection_lost(error)

    def deliver(self, data: bytes) -> None:
        """Let the driver read these bytes."""
        if not self._gone:
            hand_over(self.inner, data)

    def forward(self, data: bytes) -> None:
        """Write these bytes to the peer."""
        if self.transport is not None and not self._gone:
            self.transport.write(data)

    @property
    def address(self) -> Any:
        """Where the peer is, as its proxy has said it, or else the transport; None over a Unix socket."""
        return (self.get_extra_info("peername") if self.source is None else self.source) or None

    @property
    def source(self) -> Any:
        """Where the peer is, as its proxy has said it; None: it has not."""
        return self.inner.source  # type: ignore[attr-defined]

    # ---- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.made()

    def data_received(self, data: bytes) -> None:
        self.received(data)

    def eof_received(self) -> bool | None:
        return self.ended()

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self.lost(exc)

    # ---- called by the driver

    def write(self, data: Any) -> None:
        self.sent(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.sent(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._below.write_eof()

    def can_write_eof(self) -> bool:
        return self._below.can_write_eof()

    def close(self) -> None:
        self._below.close()

    def abort(self) -> None:
        self._below.abort()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    @property
    def _below(self) -> asyncio.Transport:
        assert self.transport is not None
        return self.transport


def hand_over(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    """Let a driver or a tap read these bytes."""
    if isinstance(protocol, asyncio.Protocol):  # a tap
        protocol.data_received(data)
        return
    assert isinstance(protocol, asyncio.BufferedProtocol)
    for at in range(0, len(data), READ_SIZE):
        piece = data[at : at + READ_SIZE]
        protocol.get_buffer(len(piece))[: len(piece)] = piece  # type: ignore[index]
        protocol.buffer_updated(len(piece))


async def start_tls(
    transport: asyncio.BaseTransport, protocol: asyncio.BaseProtocol, context: SSLContext, name: str | None
) -> asyncio.Transport:
    """Switch to TLS below all taps; `name` as in `Driver.start_tls`. Returns the transport that the protocol uses then."""
    if isinstance(transport, Tap):
        transport.transport = await start_tls(transport._below, transport, context, name)
        return transport
    secure = await asyncio.get_running_loop().start_tls(
        transport,  # type: ignore[arg-type]
        protocol,
        context,
        server_side=name is None,
        server_hostname=name,
        ssl_handshake_timeout=30.0,
        ssl_shutdown_timeout=LINGER,
    )
    if secure is None:
        raise ConnectionError("the stream ended in the TLS handshake")
    return secure
