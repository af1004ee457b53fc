"""asyncio: one driver for the connections of all protocols, and a server that makes one for each client.

The driver does the input and output of one connection (`wirefmt.connection.Connection`) and calls its host for each event.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import zip_longest
from random import Random
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, Protocol

from wirefmt.connection.carriers import Carrier, WebSocket
from wirefmt.connection.contract import Connection, Disconnected
from wirefmt.connection.websocket import ClientHandshake, ServerHandshake
from wirefmt.errors import DecodeError, LocalProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Bytes that one read takes at most.
READ_SIZE: Final = 1 << 18

#: Seconds that a connection which is over waits for the peer to take the last bytes and to close.
LINGER: Final = 2.0

#: Bytes queued in the connection from which `Driver.ready` is false. What one read brings can go on to another peer in one turn.
READY_BYTES: Final = READ_SIZE

#: Seconds after which the next address of a host is tried beside those before it (RFC 8305, section 5).
NEXT_ADDRESS: Final = 0.25

# Before these versions writelines() does not call pause_writing().
_WRITELINES = sys.version_info < (3, 12) or (3, 12, 9) <= sys.version_info < (3, 13) or sys.version_info >= (3, 13, 2)


class Closable(Connection, Protocol):
    """A connection as the driver needs it: it can be dropped."""

    def close(self, *, immediate: bool = False) -> list[Any]: ...

    def changes(self) -> list[Any]: ...


class Host(Protocol):
    """What decides about the events of one connection. Its methods are called in the event loop and do not wait."""

    def handle(self, event: Any) -> None:
        """An event, in order. An exception drops the connection."""
        ...

    def writable(self) -> None:
        """The transport takes bytes again: `Driver.ready` is true."""
        ...

    def closed(self, error: Exception | None) -> None:
        """The transport is gone; the last call. `error`: what the transport, the carrier, the store or the host raised."""
        ...


class Driver(asyncio.BufferedProtocol):
    """Input, output and timers of one connection.

    After every call of a method of the connection comes a call of `update`. Bytes are written once per iteration of the event
    loop. When the transport's buffer is full, bytes stay in the connection, which refuses what exceeds its own limit.

    Args:
        connection: the connection.
        host: what decides about its events.
        buffer: where reads go. Drivers of one event loop can share it, if the loop reads and hands over in one step, as
            asyncio's selector loops and uvloop do. None: one of its own.
        opening: a WebSocket handshake that comes first.
        carrier: what lies between transport and connection.
        store: makes `connection.changes()` durable; bytes that were queued with them are written once the future is done. It
            returns None if there is nothing to keep. None: there is no journal.
    """

    def __init__(
        self,
        connection: Closable,
        host: Host,
        *,
        buffer: bytearray | None = None,
        opening: ClientHandshake | ServerHandshake | None = None,
        carrier: Carrier | None = None,
        store: Callable[[list[Any]], asyncio.Future[None] | None] | None = None,
    ) -> None:
        self.connection = connection
        self.host = host
        self.transport: asyncio.Transport | None = None
        self.error: Exception | None = None
        self._loop = asyncio.get_running_loop()
        # a view: TLS writes into slices of it
        self._buffer = memoryview(buffer if buffer is not None else bytearray(READ_SIZE))
        self._opening = opening
        self._carrier = carrier
        self._store = store
        self._events: deque[Any] = deque()
        self._dispatching = False
        self._over = False  # Disconnected has come
        self._finished = False  # the sending side is shut down
        self._immediate = False  # nothing more is written
        self._eof = False
        self._paused = False
        self._lost = False
        self._reading = True
        #: Since when the transport's buffer has been full, in the loop's time; None: it is not.
        self.full_since: float | None = None
        self._wanted = False  # the host has seen that we are not ready
        self._storing = False
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._tls: tuple[SSLContext, str | None] | None = None  # asked for, once what is queued is written
        self._securing: asyncio.Task[None] | None = None  # the handshake
        #: The server that has accepted the transport.
        self.server: Server | None = None

    # ---- for the host

    @property
    def ready(self) -> bool:
        """True: the transport takes bytes and few are queued. A host that sends only while this is true, and goes on at
        `Host.writable`, needs no memory for a slow peer."""
        ready = self.full_since is None and self.connection.pending_bytes < READY_BYTES
        self._wanted |= not ready
        return ready

    def want(self) -> None:
        """The connection has refused to queue more: `Host.writable` is called when bytes have been written, also if `ready`
        has been true all the time."""
        self._wanted = True

    def update(self, events: list[Any] | tuple[Any, ...] = ()) -> None:
        """Hand events to the host, in order, and see to what the connection wants now. Call it after every call of a method
        of the connection, with what that returned."""
        self._events += events
        if self._dispatching:
            return
        self._dispatching = True
        try:
            while self._events:
                event = self._events.popleft()
                if type(event) is Disconnected:
                    self._over = True
                try:
                    self.host.handle(event)
                except Exception as error:
                    self.report(error)
                    self._drop(error)
        finally:
            self._dispatching = False
        if self._lost:
            return
        self._schedule()
        if self._over:
            self._stop_timer()
            if self._lingering is None and self.transport is not None:
                self._lingering = self._loop.call_later(LINGER, self.abort)
        else:
            self._set_timer()
        self._set_reading()

    def queued(self) -> None:
        """Bytes have been queued in the connection, and nothing else has changed: they are written at the end of the loop's
        iteration. Cheaper than `update`."""
        if not self._scheduled and not self._lost:
            self._schedule()

    def start_tls(self, context: SSLContext, server_hostname: str | None = None) -> None:
        """Go over to TLS: the answer to `StartTls`. What is queued is written first; after the handshake the connection's
        `secured(now)` is called. A handshake that fails drops the connection.

        Args:
            server_hostname: the name that the server's certificate has to have; None: this is the server's side.
        """
        self._tls = (context, server_hostname)
        self._schedule()

    def abort(self, error: Exception | None = None) -> None:
        """Drop the connection now: nothing more is written."""
        self._drop(error)
        self.update()

    def close(self) -> None:
        """End the connection in the protocol's way, if it is not over."""
        if not self._over:
            try:
                events = self.connection.close()
            except LocalProtocolError:  # it is over, and the event is among those that wait
                events = []
            self.update(events)

    @property
    def paused(self) -> bool:
        return self._paused

    def pause(self) -> None:
        """Read nothing more, until `resume`."""
        if not self._paused and not self._over:
            self._paused = True
            self.connection.pause()
            self._set_reading()

    def resume(self) -> None:
        """Read again. Messages that have been read already come now."""
        if self._paused:
            self._paused = False
            if not self._over:
                self.update(self.connection.resume(self._loop.time()))

    def report(self, error: Exception) -> None:
        """Give an exception of the host to the event loop's exception handler."""
        self._loop.call_exception_handler(
            {"message": "a host raised", "exception": error, "protocol": self, "transport": self.transport}
        )

    async def wait_closed(self) -> None:
        """Wait until the transport is gone."""
        if not self._lost:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    # ---- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.server is not None and not self.server.admit(self):
            self.abort(ConnectionError("the server takes no more clients"))
            return
        if self._opening is not None:
            transport.write(self._opening.data_to_send())
        self.update()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data: Buffer = self._buffer[:nbytes]
        if self._opening is not None or self._carrier is not None:
            data = self._carried(bytes(data))
            if not data:
                return
        if not self._over:
            self.update(self.connection.receive(data, self._loop.time()))

    def eof_received(self) -> bool:
        self._eof = True
        if self._over:
            return False
        if self._opening is not None:
            self.abort(ConnectionError("the stream ended in the opening handshake"))
            return False
        self.update(self.connection.receive_eof(self._loop.time()))
        assert self.transport is not None
        return self.transport.can_write_eof()  # TLS has no half-closed state

    def pause_writing(self) -> None:
        self.full_since = self._loop.time()

    def resume_writing(self) -> None:
        self.full_since = None
        self._schedule()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost:
            return
        if self.error is None and not self._over:
            self.error = exc
        self._lost = True
        if not self._over:
            events = self.connection.receive_eof(self._loop.time())
            if not any(type(event) is Disconnected for event in events):
                events += self.connection.close(immediate=True)
            self.update(events)
        self._stop_timer()
        if self._lingering is not None:
            self._lingering.cancel()
        if self._store is not None:
            self._store(self.connection.changes())
        if self.server is not None:
            self.server.drivers.discard(self)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.host.closed(self.error)

    # ---- out

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        if (
            self._lost
            or self.full_since is not None
            or self._storing
            or self.transport is None
            or self._opening is not None
        ):
            return
        if self._securing is not None:
            return
        connection = self.connection
        buffers = list(connection.buffers_to_send())
        stored = self._store(connection.changes()) if self._store is not None else None
        if stored is None:
            self._write(buffers)
        else:
            self._storing = True
            stored.add_done_callback(lambda future: self._stored(future, buffers))
        if self._wanted and not self._over and self.ready:
            self._wanted = False
            self.host.writable()

    def _stored(self, future: asyncio.Future[None], buffers: list[Any]) -> None:
        self._storing = False
        if self._lost:
            return
        error = future.exception()
        if error is not None:
            self.abort(error if isinstance(error, Exception) else None)
            return
        self._write(buffers)
        self._schedule()

    def _write(self, buffers: list[Any]) -> None:
        transport = self.transport
        assert transport is not None
        if self._carrier is not None:
            data = self._carrier.send(b"".join(buffers))
            if isinstance(self._carrier, WebSocket) and self._carrier.replies:
                data = bytes(self._carrier.replies) + data
                self._carrier.replies.clear()
            buffers = [data] if data else []
        if self._immediate or self._finished:
            pass
        elif len(buffers) == 1:
            transport.write(buffers[0])
        elif buffers:
            if _WRITELINES:
                transport.writelines(buffers)
            else:
                transport.write(b"".join(buffers))
        if self._over and self.connection.should_close:
            self._finish()
        elif self._tls is not None and not self.connection.pending_bytes:
            context, name = self._tls
            self._tls = None
            self._securing = self._loop.create_task(self._secure(context, name))

    async def _secure(self, context: SSLContext, name: str | None) -> None:
        """The TLS handshake, in the middle of the stream."""
        before = self.transport
        assert before is not None
        try:
            secure = await _start_tls(before, self, context, name)
        except BaseException as error:
            before.abort()
            self._securing = None
            if not self._lost:
                self.connection_lost(error if isinstance(error, Exception) else None)
            if not isinstance(error, Exception):
                raise
            return
        self.transport = secure
        self._securing = None
        self._reading = True
        if self._immediate or self._over:
            secure.abort()
            return
        self.update(self.connection.secured(self._loop.time()))  # type: ignore[attr-defined]  # connections with StartTls

    def _finish(self) -> None:
        """The connection is over and its last bytes are the transport's: end our side, and wait for the peer's."""
        if self._finished:
            return
        self._finished = True
        transport = self.transport
        assert transport is not None
        if self._immediate:
            transport.abort()
            return
        if isinstance(self._carrier, WebSocket):
            if not self._carrier.closed:
                transport.write(self._carrier.close())  # the answer to it ends the stream
                return
        elif not self._eof and transport.can_write_eof():
            try:
                transport.write_eof()
            except OSError:  # the peer has reset the connection
                transport.abort()
            return
        transport.close()

    def _drop(self, error: Exception | None) -> None:
        self._immediate = True
        if self.error is None:
            self.error = error
        if not self._over:
            try:
                self._events += self.connection.close(immediate=True)
            except LocalProtocolError:  # it is over, and the event is among those that wait
                pass
        if self.transport is not None:
            self._finished = True
            self.transport.abort()

    # ---- in

    def _carried(self, data: bytes) -> bytes:
        """Bytes of the protocol in bytes of the transport."""
        transport = self.transport
        assert transport is not None
        try:
            if self._opening is not None:
                opening = self._opening
                try:
                    data = opening.receive(data)
                finally:
                    if answer := opening.data_to_send():
                        transport.write(answer)
                if not opening.done:
                    return b""
                self._opening = None
                self._schedule()
            if self._carrier is not None:
                data = self._carrier.receive(data)
        except DecodeError as error:
            if self._over:
                transport.abort()
                return b""
            for before in error.messages:
                assert isinstance(before, bytes)
                self.update(self.connection.receive(before, self._loop.time()))
            self.error = error
            if self._opening is None and isinstance(self._carrier, WebSocket):
                transport.write(bytes(self._carrier.replies) + self._carrier.close(1002))  # 7.4.1: protocol error
            self._opening = self._carrier = None
            if not self._over:
                self.update(self.connection.close(immediate=True))
            return b""
        if isinstance(self._carrier, WebSocket):
            if self._carrier.replies:
                self._schedule()
            if self._carrier.closed:
                if data and not self._over:
                    self.update(self.connection.receive(data, self._loop.time()))
                if not self._over:
                    self._eof = True
                    self.update(self.connection.receive_eof(self._loop.time()))
                elif self._finished:
                    transport.close()
                return b""
        return data

    def _set_reading(self) -> None:
        if self._securing is not None:
            return
        wanted = self._over or self.connection.wants_read
        if wanted is self._reading or self.transport is None or self._eof:
            return
        self._reading = wanted
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # ---- time

    def _set_timer(self) -> None:
        when = self.connection.next_timeout()
        if when is None:
            self._stop_timer()
        elif self._timer is None or when < self._timer.when():  # an earlier one sets this one when it is due
            self._stop_timer()
            self._timer = self._loop.call_at(when, self._due, when)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self, when: float) -> None:
        self._timer = None
        if not self._over:
            self.update(self.connection.handle_timeout(max(when, self._loop.time())))


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
        """Where the peer is, as the transport says it; None over a Unix socket."""
        return self.get_extra_info("peername") or None

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


async def _start_tls(
    transport: asyncio.BaseTransport, protocol: asyncio.BaseProtocol, context: SSLContext, name: str | None
) -> asyncio.Transport:
    """Go over to TLS below all taps; `name` as in `Driver.start_tls`. Returns the transport that the protocol uses then."""
    if isinstance(transport, Tap):
        transport.transport = await _start_tls(transport._below, transport, context, name)
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
    assert isinstance(secure, asyncio.Transport)
    return secure


class Handler(Protocol):
    """What decides for all peers of a server. Its methods are called in the event loop and do not wait."""

    def handle(self, peer: Any, event: Any) -> None:
        """An event of a peer, in order. An exception drops the peer."""
        ...

    def writable(self, peer: Any) -> None:
        """The peer takes bytes again."""
        ...

    def closed(self, peer: Any) -> None:
        """The peer's transport is gone. `Disconnected` has been handled before."""
        ...


class Peer:
    """One client of a server: the host of its connection. A package of a protocol adds the answers to requests.

    With a coroutine function as handler the events are taken by `async for event in peer`, the last one is
    `Disconnected`. Reading stops while EVENTS of them wait.
    """

    EVENTS: Final = 1000

    def __init__(self, handler: Handler | Callable[[Any], Coroutine[Any, Any, None]], server: Server) -> None:
        self.driver: Driver
        self.server = server
        self.error: Exception | None = None
        self._handler: Handler | None = None
        self._run: Callable[[Any], Coroutine[Any, Any, None]] | None = None
        if callable(handler):
            self._run = handler
        else:
            self._handler = handler
        self._task: asyncio.Task[None] | None = None
        self._inbox: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._drained: list[asyncio.Future[None]] = []
        self._gone = False

    @property
    def ready(self) -> bool:
        """True: the transport takes bytes. A handler that sends only then needs no memory for a slow peer."""
        return self.driver.ready

    @property
    def address(self) -> Any:
        """Where the peer is, as the transport says it; None over a Unix socket."""
        transport = self.driver.transport
        return (transport.get_extra_info("peername") or None) if transport is not None else None

    def abort(self) -> None:
        """Drop the connection now."""
        self.driver.abort()

    async def drain(self) -> None:
        """Wait until `ready`, or until the transport is gone."""
        while not self.ready and not self._gone:
            waiter = asyncio.get_running_loop().create_future()
            self._drained.append(waiter)
            await waiter

    def __aiter__(self) -> Peer:
        return self

    async def __anext__(self) -> Any:
        while not self._inbox:
            if self._gone:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        event = self._inbox.popleft()
        if not self._inbox and self.driver.paused:
            self.driver.resume()
        return event

    # ---- called by the driver

    def handle(self, event: Any) -> None:
        if self._handler is not None:
            self._handler.handle(self, event)
            return
        self._inbox.append(event)
        if len(self._inbox) >= self.EVENTS:
            self.driver.pause()
        self._wake()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._serve())
            self.server.tasks.add(self._task)
            self._task.add_done_callback(self.server.tasks.discard)

    def writable(self) -> None:
        self._release()
        if self._handler is not None:
            self._handler.writable(self)

    def closed(self, error: Exception | None) -> None:
        self.error = error
        self._gone = True
        self._release()
        self._wake()
        if self._handler is not None:
            self._handler.closed(self)

    def _release(self) -> None:
        waiters, self._drained = self._drained, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _serve(self) -> None:
        assert self._run is not None
        try:
            await self._run(self)
        except Exception as error:
            self.driver.report(error)
            self.driver.abort(error)
        finally:
            self.driver.close()


#: Makes the tap of a driver, or of a tap nearer to it.
TapFactory = Callable[[asyncio.BaseProtocol], asyncio.BaseProtocol]


class Server:
    """Accepts transports and makes a driver for each. `listen` makes it.

    An asynchronous context manager: leaving it closes the server.
    """

    def __init__(self, make: Callable[[Server], Driver], most: int, tap: TapFactory | None = None) -> None:
        self._make = make
        self._most = most
        self._tap = tap
        self._listener: asyncio.Server | None = None
        self._closing = False
        #: Where drivers read into, all of them: a read is over before the next one begins.
        self.buffer = bytearray(READ_SIZE)
        self.drivers: set[Driver] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        #: Transports that were closed at once, since there were too many.
        self.turned_away = 0

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def sockets(self) -> tuple[Any, ...]:
        """The listening sockets."""
        return tuple(self._listener.sockets) if self._listener is not None else ()

    @property
    def port(self) -> int:
        """The port of the first listening socket: which one it is if 0 was asked for."""
        port: int = self.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop listening, close every connection in the protocol's way, wait until their transports are gone, and cancel
        handlers that have not ended by then."""
        self._closing = True
        if self._listener is not None:
            self._listener.close()
        drivers = list(self.drivers)
        for driver in drivers:
            driver.close()
        for driver in drivers:
            await driver.wait_closed()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=LINGER)
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def admit(self, driver: Driver) -> bool:
        """Called by a driver once it has a transport."""
        if self._closing or len(self.drivers) >= self._most:
            self.turned_away += 1
            return False
        self.drivers.add(driver)
        return True

    def accept(self) -> asyncio.BaseProtocol:
        """The protocol of a new transport: its driver, or the tap before it."""
        driver = self._make(self)
        driver.server = self
        return driver if self._tap is None else self._tap(driver)


async def listen(
    make: Callable[[Server], Driver],
    host: str | None,
    port: int | None,
    *,
    path: str | None = None,
    ssl: SSLContext | None = None,
    backlog: int = 100,
    most: int = 100_000,
    tap: TapFactory | None = None,
) -> Server:
    """A server on a TCP port or a Unix socket.

    Args:
        make: makes the driver of a new transport.
        host, port: where to listen; port 0: any that is free; None: nowhere, `Server.accept` gives the protocol of a transport
            that the caller has.
        path: of a Unix socket, in place of host and port.
        ssl: TLS with this context.
        backlog: connections that the system keeps until they are accepted.
        most: connections at a time; further ones are closed at once.
        tap: called with the driver of a new transport; returns what lies between them.
    """
    loop = asyncio.get_running_loop()
    server = Server(make, most, tap)
    times: dict[str, Any] = (
        {"ssl": ssl, "ssl_shutdown_timeout": LINGER, "ssl_handshake_timeout": 30.0} if ssl is not None else {}
    )
    if path is not None:
        server._listener = await loop.create_unix_server(server.accept, path, backlog=backlog, **times)
    elif port is not None:
        server._listener = await loop.create_server(server.accept, host, port, backlog=backlog, **times)
    return server


async def open_transport(
    driver: Driver, host: str, port: int, *, path: str | None = None, ssl: SSLContext | None = None
) -> None:
    """Connect a driver over TCP, or over a Unix socket at `path`; TLS with a context. Raises OSError (ssl.SSLError)."""
    loop = asyncio.get_running_loop()
    secure: dict[str, Any] = (
        {"ssl": ssl, "server_hostname": host, "ssl_shutdown_timeout": LINGER} if ssl is not None else {}
    )
    if path is not None:
        await loop.create_unix_connection(lambda: driver, path, **secure)
    else:
        await loop.create_connection(lambda: driver, sock=await _connected(host, port), **secure)


async def _connected(host: str, port: int) -> socket.socket:
    """A socket that is connected to the first address of a host that answers. The next address is tried when one has failed, or
    after NEXT_ADDRESS. Nothing is left of the other attempts, or of a call that is cancelled. (`happy_eyeballs_delay` of asyncio
    loses a socket if the call is cancelled between the attempt's end and its own.) Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)  # does not wait
    except socket.gaierror:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families: dict[int, list[Any]] = {}
    for info in found:
        families.setdefault(info[0], []).append(info)
    infos = [info for row in zip_longest(*families.values()) for info in row if info is not None]
    errors: list[BaseException] = []
    attempts: dict[asyncio.Task[None], socket.socket] = {}
    winner: socket.socket | None = None
    try:
        while winner is None and (infos or attempts):
            if infos:
                family, kind, protocol, _, address = infos.pop(0)
                try:
                    attempted = socket.socket(family, kind, protocol)
                except OSError as error:  # the system has no such family
                    errors.append(error)
                    continue
                attempted.setblocking(False)
                attempts[loop.create_task(loop.sock_connect(attempted, address))] = attempted
            done, _ = await asyncio.wait(
                attempts, timeout=NEXT_ADDRESS if infos else None, return_when=asyncio.FIRST_COMPLETED
            )
            for attempt in done:
                failed = attempt.exception()
                if failed is not None:
                    errors.append(failed)
                    attempts.pop(attempt).close()
                elif winner is None:
                    winner = attempts.pop(attempt)
    finally:
        for attempt, attempted in attempts.items():
            attempt.cancel()
            attempt.add_done_callback(lambda ended, attempted=attempted: _give_up(ended, attempted))  # type: ignore[misc]
        if winner is None and attempts:
            await asyncio.wait(attempts)
    if winner is not None:
        return winner  # no await since it is there: a cancellation would lose it
    if len(errors) == 1:
        raise errors[0]
    raise OSError(f"cannot connect to {host}: {', '.join(map(str, errors))}")


def _give_up(attempt: asyncio.Task[None], attempted: socket.socket) -> None:
    """Close the socket of an attempt that has ended and is not wanted."""
    attempted.close()
    if not attempt.cancelled():
        attempt.exception()  # it is seen


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a client waits before it connects again.

    Attributes:
        first: seconds before the first attempt.
        factor: how much longer each further wait is.
        most: seconds; no wait is longer.
        jitter: 0 to 1: the part of each wait that is random, so that clients do not come back all at once.
        attempts: how many attempts there are before the client gives up; None: any number.
    """

    first: float = 1.0
    factor: float = 2.0
    most: float = 60.0
    jitter: float = 0.5
    attempts: int | None = None

    def delay(self, attempt: int, random: Random) -> float:
        """Seconds before this attempt, counted from 0."""
        wait = min(self.most, self.first * self.factor ** min(attempt, 64))
        return wait * (1 - self.jitter * random.random())
