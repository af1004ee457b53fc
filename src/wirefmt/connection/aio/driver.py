"""The driver: input, output and timers of one connection."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from weakref import WeakKeyDictionary

from wirefmt.connection.aio.transports import LINGER, READ_SIZE, start_tls
from wirefmt.connection.carriers import Carrier, WebSocket
from wirefmt.connection.contract import Connection, Disconnected
from wirefmt.connection.proxy import Address, FirstBytes
from wirefmt.connection.websocket import ClientHandshake, ServerHandshake
from wirefmt.errors import DecodeError, LocalProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from wirefmt.connection.aio.server import Server

#: Bytes queued in the connection from which `Driver.ready` is false. What one read brings can go on to another peer in one turn.
READY_BYTES: Final = READ_SIZE

#: What the hosts of a server's connections may do in one iteration of the event loop, and what one of them may do in it in any
#: case. Every event costs 1, and what a host does besides (copies of a message, say) what it says: see `Driver.spend`.
WORK: Final = 4096
SHARE: Final = 256

#: Reads that are answered at their end after one that was alone in its iteration, and what has to be left of WORK for that.
ALONE: Final = 32
ENOUGH: Final = WORK // 2

# Before these versions writelines() does not call pause_writing().
_WRITELINES = sys.version_info < (3, 12) or (3, 12, 9) <= sys.version_info < (3, 13) or sys.version_info >= (3, 13, 2)


class Closable(Connection, Protocol):
    """A connection as the driver needs it: it can be dropped."""

    def close(self, *, immediate: bool = False) -> list[Any]: ...

    def changes(self) -> list[Any]: ...

    @property
    def unfinished_bytes(self) -> int: ...

    def give_up(self) -> list[Any]: ...


class Host(Protocol):
    """The code that handles the events of one connection. Its methods are called in the event loop and do not wait."""

    def handle(self, event: Any) -> None:
        """An event, in order. An exception drops the connection. What may be too much for one iteration of the loop goes to
        `Driver.later`."""
        ...

    # A host may also have `handle_run(events: list, at: int) -> int`. It takes events from number `at` on, as far as it wants
    # to take them together, and returns the number of the first other one, which goes to `handle`. An exception drops the
    # connection. Nobody changes the list, so the host may keep it.

    def writable(self) -> None:
        """The transport takes bytes again: `Driver.ready` is true."""
        ...

    def closed(self, error: Exception | None) -> None:
        """The transport is gone; the last call. `error`: what the transport, the carrier, the store or the host raised."""
        ...


class _Turn:
    """The drivers of one event loop that write at the end of its iteration, and those whose hosts wait for their turn: for events
    that are left, or to send. One callback for all of them.

    A read that is the only one of its iteration is the end of it, too: what it has brought is written there (`end_read`), or each
    message would cost the loop a second iteration. No loop says what is ready. So if a read has been the only one, the next ALONE
    reads are taken for such. Where several clients send in one iteration, each receiver gets one write for all of them.
    """

    __slots__ = ("alone", "armed", "calls", "drivers", "late", "left", "reads", "wanting")

    def __init__(self) -> None:
        self.drivers: list[Driver] = []
        self.calls: deque[Callable[[], object]] = deque()  # come before writing
        self.late: deque[Driver] = deque()
        self.wanting: dict[Driver, None] = {}
        self.left = WORK  # for this iteration, or since the last one that has ended with `flush`
        self.armed = False  # the end is to come
        self.reads = 0  # since the last `flush`
        self.alone = 0  # reads that are still taken for the only ones

    def arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self.armed:
            self.armed = True
            loop.call_soon(self.flush)

    def end_read(self, loop: asyncio.AbstractEventLoop) -> None:
        """A read that has begun while nothing was to be done at the end of the iteration is over."""
        self.alone -= 1
        if self.alone < 0 or self.left < ENOUGH or self.late or self.wanting:
            loop.call_soon(self.flush)
        else:
            self.armed = False
            self.reads = 0
            self.write()

    def flush(self) -> None:
        """Write; then let drivers that wait for their turn go on, one after the other."""
        self.armed = False
        self.left = WORK
        self.alone = ALONE if self.reads == 1 else 0
        self.reads = 0
        self.write()
        for number, driver in enumerate(list(self.wanting)):
            if number and self.left <= 0:
                break
            del self.wanting[driver]
            driver.tell_writable()
        for number in range(len(self.late)):
            if number and self.left <= 0:
                break
            self.late.popleft().go_on()
        left = self.late[0] if self.late else next(iter(self.wanting), None)
        if left is not None:
            self.arm(left._loop)

    def write(self) -> None:
        """Make the calls, then write."""
        if self.calls:
            self._call()
        drivers, self.drivers = self.drivers, []
        rest = iter(drivers)
        while True:
            try:
                for driver in rest:
                    driver._flush()
                return
            except Exception as error:
                driver.report(error)
            except BaseException:  # the loop is interrupted, and may go on
                self.arm(driver._loop)
                self.drivers[:0] = rest
                raise

    def _call(self) -> None:
        """Make the calls. What they ask for is for the next iteration, what they queue is written in this one."""
        self.armed = True
        try:
            for _ in range(len(self.calls)):
                try:
                    self.calls.popleft()()
                except Exception as error:
                    context = {"message": "a call before writing raised", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(context)
        except BaseException:  # the loop is interrupted, and may go on
            asyncio.get_running_loop().call_soon(self.flush)
            raise
        self.armed = False
        if self.calls:
            self.arm(asyncio.get_running_loop())


_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Turn]] = WeakKeyDictionary()


class Driver(asyncio.BufferedProtocol):
    """Input, output and timers of one connection.

    After every call of a method of the connection comes a call of `update`. Bytes are written once per iteration of the event
    loop. When the transport's buffer is full, bytes stay in the connection, which refuses what exceeds its own limit.

    Args:
        connection: the connection.
        host: handles its events.
        buffer: where reads go. Drivers of one event loop can share it, if the loop reads and hands over in one step, as
            asyncio's selector loops and uvloop do. None: one of its own.
        opening: a WebSocket handshake that comes first.
        carrier: what lies between transport and connection.
        store: makes `connection.changes()` durable; bytes that were queued with them are written once the future is done. It
            returns None if there is nothing to keep. None: there is no journal.
    """

    # a server has thousands of these, and a message to all of them visits each: without a dictionary they are small
    __slots__ = (
        "__weakref__",
        "_buffer",
        "_carrier",
        "_dispatching",
        "_eof",
        "_events",
        "_finished",
        "_gone",
        "_handle",
        "_handle_run",
        "_immediate",
        "_late",
        "_lingering",
        "_loop",
        "_lost",
        "_opening",
        "_over",
        "_paused",
        "_plain",
        "_reading",
        "_rest",
        "_scheduled",
        "_securing",
        "_store",
        "_stored_by",
        "_storing",
        "_timer",
        "_timer_at",
        "_tls",
        "_turn",
        "_unfinished",
        "_waiters",
        "_wanted",
        "connection",
        "error",
        "full_since",
        "host",
        "server",
        "source",
        "transport",
    )

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
        self._loop = loop = asyncio.get_running_loop()
        turn = _TURNS.get(loop)
        self._turn = _TURNS.setdefault(loop, _Turn()) if turn is None else turn
        # a view: TLS writes into slices of it
        self._buffer = memoryview(buffer if buffer is not None else bytearray(READ_SIZE))
        self._opening: ClientHandshake | ServerHandshake | FirstBytes | None = opening
        self._carrier = carrier
        self._store = store
        self._handle = host.handle
        self._handle_run: Callable[[list[Any], int], int] | None = getattr(host, "handle_run", None)
        self._events: list[Any] = []  # those that came while the host was handling others
        self._dispatching = False
        self._rest: Iterator[int] | None = None  # steps of an event that are left
        self._late = False  # these wait for their turn; nothing is read meanwhile
        self._gone = False  # the transport is gone, which the host receives after them
        self._over = False  # Disconnected has arrived
        self._finished = False  # the sending side is shut down
        self._immediate = False  # nothing more is written
        self._eof = False
        self._paused = False
        self._lost = False
        self._reading = True
        #: Since when the transport's buffer has been full, in the loop's time; None: it is not.
        self.full_since: float | None = None
        self._unfinished = False  # the server counts bytes that have arrived in part
        self._wanted = False  # the host has seen that we are not ready
        self._storing = False
        self._stored_by: asyncio.Future[None] | None = None  # the transaction that was asked for last
        self._scheduled = False
        # the transport, while it takes the connection's bytes as they are and nothing has to be done besides
        self._plain: asyncio.Transport | None = None
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0  # uvloop's handle of a time that has passed does not say it
        self._lingering: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._tls: tuple[SSLContext, str | None] | None = None  # asked for, once what is queued is written
        self._securing: asyncio.Task[None] | None = None  # the handshake
        #: The server that has accepted the transport.
        self.server: Server | None = None
        #: The address of the peer, if a proxy has said it; "" for a Unix socket without name.
        self.source: Address | None = None

    def refuse_proxies(self) -> None:
        """Called before there is a transport: refuse a peer that begins with a PROXY header."""
        if self._opening is None:  # WebSocket's handshake does it, too
            self._opening = FirstBytes()

    # ---- for the host

    @property
    def ready(self) -> bool:
        """True: the transport takes bytes and few are queued. A host that sends only while this is true, and goes on at
        `Host.writable`, needs no memory for a slow peer."""
        if self.full_since is None and self.connection.pending_bytes < READY_BYTES:
            return True
        self._wanted = True
        return False

    def want(self) -> None:
        """The connection has refused to queue more: `Host.writable` is called when bytes have been written, also if `ready`
        has been true all the time."""
        self._wanted = True

    def update(self, events: list[Any] | tuple[Any, ...] = ()) -> None:
        """Pass events to the host, in order, then set writing, timer and reading. Call it after every call of a method of the
        connection, with the events that the method returned."""
        if self._dispatching:
            if events:
                self._events += events
            return
        if self._late:
            self._events += events
        elif events or self._events or self._rest is not None:
            self._dispatch(events if type(events) is list else list(events))
        if self._lost:
            return
        if not self._scheduled:
            self._schedule()
        if self._over:
            self._stop_timer()
            if self._lingering is None and self.transport is not None:
                self._lingering = self._loop.call_later(LINGER, self.abort)
        else:
            self._set_timer()
        self._set_reading()

    def spend(self, work: int) -> None:
        """The host says that an event has cost it so much work besides: see WORK."""
        self._turn.left -= work

    @property
    def spent(self) -> bool:
        """Nothing is left of the work of this iteration. A host that takes several events together stops, and the rest comes when
        it is the driver's turn."""
        return self._turn.left <= 0

    def go_on(self) -> None:
        """The driver's turn has arrived: pass on events that have waited for it."""
        self._late = False
        self.update()
        if self._gone and not self._late:
            self._tell_closed()

    @property
    def _ended(self) -> bool:
        """The connection is over, though the host may still have to be told."""
        return self._over or (self._late and _ends(self._events, 0))

    def _wait_for_turn(self, events: list[Any]) -> None:
        self._events[:0] = events
        self._late = True
        self._turn.late.append(self)
        self._turn.arm(self._loop)

    def _forgo(self) -> None:
        """The connection is to end: what waits for its turn is dropped, except the end."""
        if self._late:
            self._events = [event for event in self._events if type(event) is Disconnected]

    def _dispatch(self, events: list[Any]) -> None:
        """Pass events to the host, and those that its calls bring. What exceeds the work of one iteration of the loop waits for
        its turn."""
        if self._events:
            events = self._events + events
            self._events = []
        handle, handle_run, turn = self._handle, self._handle_run, self._turn
        # clients have their loop for themselves
        stop = min(turn.left - SHARE, 0) if self.server is not None else -sys.maxsize
        self._dispatching = True
        rest, self._rest = self._rest, None
        at = 0
        try:
            while True:
                count = len(events)
                while at < count or rest is not None:
                    if turn.left <= stop:
                        self._rest = rest
                        self._wait_for_turn(events[at:])
                        return
                    if handle_run is not None and rest is None:
                        begin = at
                        try:
                            at = handle_run(events, at)
                        except Exception as error:
                            self.report(error)
                            self._drop(error)
                            at = count - (type(events[-1]) is Disconnected)
                        if at != begin:
                            turn.left -= at - begin
                            continue
                    step, rest = rest, None
                    try:
                        if step is None:
                            event = events[at]
                            at += 1
                            turn.left -= 1
                            if type(event) is Disconnected:
                                self._over = True
                                self._plain = None
                            handle(event)
                        elif work := next(step, 0):
                            turn.left -= work
                            rest = step
                    except LocalProtocolError as error:
                        # the host has answered a message that came before the end: its answer has no receiver
                        over = step is not None and self._over
                        if not over and not _ends(events, at) and not _ends(self._events, 0):
                            self.report(error)
                            self._drop(error)
                    except Exception as error:
                        self.report(error)
                        self._drop(error)
                    if self._rest is not None:
                        rest, self._rest = (self._rest if rest is None else chain(rest, self._rest)), None
                if not self._events:
                    return
                events, self._events, at = self._events, [], 0
        except BaseException:  # not the host's: the next call goes on after this event
            self._events[:0] = events[at:]
            raise
        finally:
            self._dispatching = False

    def later(self, steps: Iterator[int]) -> None:
        """The host has more to do for an event than may fit one iteration of the loop.

        Args:
            steps: each does a part, and says how much work it was (at least 1). The next event comes after the last one. All
                are taken, also if the connection ends meanwhile, except `close`.
        """
        self._rest = steps if self._rest is None else chain(self._rest, steps)
        if not self._dispatching:
            self.update()

    def queued(self) -> None:
        """Bytes have been queued in the connection, and nothing else has changed: they are written at the end of the loop's
        iteration. Cheaper than `update`."""
        if not self._scheduled and not self._lost:
            self._scheduled = True
            turn = self._turn
            if not turn.armed:
                turn.arm(self._loop)
            turn.drivers.append(self)

    def before_writing(self, call: Callable[[], object]) -> None:
        """Call this once at the end of the event loop's iteration, before what it has brought is written, for all drivers of the
        loop. What the call makes hosts send is written with the rest. What is too much for one iteration asks again."""
        turn = self._turn
        turn.calls.append(call)
        if not turn.armed:
            turn.arm(self._loop)

    def tick(self) -> None:
        """Tell the connection the time, for what has begun in this iteration; otherwise a timer does so in the next one."""
        self.update(self.connection.handle_timeout(self._loop.time()))

    def start_tls(self, context: SSLContext, server_hostname: str | None = None) -> None:
        """Switch to TLS: the answer to `StartTls`. What is queued is written first; after the handshake the connection's
        `secured(now)` is called. A handshake that fails drops the connection.

        Args:
            server_hostname: the name that the server's certificate has to have; None: this is the server's side.
        """
        self._tls = (context, server_hostname)
        self._plain = None
        self._schedule()

    def abort(self, error: Exception | None = None) -> None:
        """Drop the connection now: nothing more is written."""
        self._drop(error)
        self.update()

    def close(self) -> None:
        """End the connection in the protocol's way, if it is not over. Events that wait for their turn are dropped, and so are
        steps that are left of one."""
        self._rest = None
        if not self._over:
            self._forgo()
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
        if not self._paused and not self._ended:
            self._paused = True
            self.connection.pause()
            self._set_reading()

    def resume(self) -> None:
        """Read again. Messages that have been read already come now."""
        if self._paused:
            self._paused = False
            if not self._ended:
                self.update(self.connection.resume(self._loop.time()))

    def report(self, error: Exception) -> None:
        """Pass an exception of the host to the event loop's exception handler."""
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

    @property
    def _is_opening(self) -> bool:
        """Is there a handshake that comes before the connection's bytes?"""
        return self._opening is not None and type(self._opening) is not FirstBytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's are not, and are used alike
        self.transport = transport
        if self.server is not None and not self.server.admit(self):
            self.abort(ConnectionError("the server takes no more clients"))
            return
        if self.error is not None:
            self._refuse(self.error)
            return
        if self._opening is not None and self._is_opening:
            transport.write(self._opening.data_to_send())
        self.update()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        turn = self._turn
        turn.reads += 1
        if turn.armed:
            self._take(self._buffer[:nbytes])
            return
        turn.armed = True
        try:
            self._take(self._buffer[:nbytes])
        finally:
            turn.end_read(self._loop)

    def _take(self, data: Buffer) -> None:
        """Take bytes that have arrived."""
        if self._opening is not None or self._carrier is not None:
            data = self._carried(bytes(data))
            if not data:
                return
        if not (self._ended if self._late else self._over):
            now = self._loop.time()
            self.update(self.connection.receive(data, now))
            if self.server is not None and ((size := self.connection.unfinished_bytes) or self._unfinished):
                self._unfinished = size > 0
                self.server.unfinished.count(self, 0 if self._over else size, now)

    def give_up(self) -> None:
        """All connections together have too many bytes of what has arrived in part: end this one."""
        self._unfinished = False
        if not self._ended:
            self.update(self.connection.give_up())

    def eof_received(self) -> bool:
        self._eof = True
        if self._ended:
            return False
        if self._is_opening:
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
        self._plain = None
        if self._unfinished and self.server is not None:
            self.server.unfinished.count(self, 0, self._loop.time())
        if not self._ended:
            events = self.connection.receive_eof(self._loop.time())
            if not any(type(event) is Disconnected for event in events):
                events += self.connection.close(immediate=True)
            self.update(events)
        self._stop_timer()
        if self._lingering is not None:
            self._lingering.cancel()
        if self._late:
            self._gone = True
        else:
            self._tell_closed()

    def _tell_closed(self) -> None:
        """The transport is gone, and all events have been handled."""
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
            turn = self._turn
            if not turn.armed:
                turn.arm(self._loop)
            turn.drivers.append(self)

    def _flush(self) -> None:
        self._scheduled = False
        if self.full_since is not None:
            return
        plain = self._plain
        if plain is None:
            self._flush_any()
            return
        buffers: Sequence[Any] = self.connection.buffers_to_send()
        if len(buffers) == 1:
            plain.write(buffers[0])
        elif buffers:
            self._write(buffers)
        if self._wanted:
            self._tell_writable()

    def _tell_writable(self) -> None:
        if self._wanted and not self._over and self.ready:
            if self._turn.left <= 0 and self.server is not None:
                self._turn.wanting[self] = None
                return
            self._wanted = False
            self.host.writable()

    def tell_writable(self) -> None:
        """The driver's turn has arrived: if there is still space, the host can send."""
        try:
            if self._wanted and not self._over and self.ready:
                self._wanted = False
                self.host.writable()
        except Exception as error:
            self.report(error)

    def _flush_any(self) -> None:
        """Pass on what is queued, as the store, the carrier, TLS and the end of the connection want it."""
        if self._lost or self.transport is None or self._securing is not None:
            return
        if self._storing:  # bytes wait for the disk; changes go there in order, so that a query after them sees them
            assert self._store is not None
            later = self._store(self.connection.changes())
            if later is not None and later is not self._stored_by:
                self._stored_by = later
                later.add_done_callback(self._also_stored)
            return
        if self._opening is not None and self._is_opening:
            return
        connection = self.connection
        buffers: Sequence[Any] = connection.buffers_to_send()
        stored = self._store(connection.changes()) if self._store is not None else None
        if stored is None:
            self._write(buffers)
        else:
            self._storing = True
            self._stored_by = stored
            stored.add_done_callback(lambda future: self._stored(future, buffers))
        if self._store is None and self._carrier is None and not (self._tls or self._securing or self._over):
            self._plain = self.transport
        self._tell_writable()

    def _stored(self, future: asyncio.Future[None], buffers: Sequence[Any]) -> None:
        self._storing = False
        if self._also_stored(future):
            self._write(buffers)
            self._schedule()

    def _also_stored(self, future: asyncio.Future[None]) -> bool:
        """A transaction is over. False: nothing is written any more, since it has failed or the transport is gone."""
        if self._lost:
            return False
        error = future.exception()
        if error is not None:
            self.abort(error if isinstance(error, Exception) else None)
        return error is None

    def _write(self, buffers: Sequence[Any]) -> None:
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
            secure = await start_tls(before, self, context, name)
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
                transport.write(self._carrier.close())
                if not self._eof:
                    return  # the answer to it ends the stream
        elif not self._eof and transport.can_write_eof():
            try:
                transport.write_eof()
            except OSError:  # the peer has reset the connection
                transport.abort()
            return
        transport.close()

    def _drop(self, error: Exception | None) -> None:
        self._immediate = True
        self._plain = None
        self._forgo()
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
        if self._securing is not None:
            self._securing.cancel()  # uvloop's handshake does not end with its transport

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
                if isinstance(self._carrier, WebSocket) and (agreed := getattr(opening, "agreed", None)) is not None:
                    self._carrier.agree(agreed)
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
            self._refuse(error)
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

    def _refuse(self, error: Exception) -> None:
        """End the connection because of bytes that it has not seen."""
        self._opening = self._carrier = None
        if self._over:
            return
        events = self.connection.close(immediate=True)
        told = [
            replace(each, reason=str(error), error=error) if type(each) is Disconnected else each for each in events
        ]
        self.update(told)

    def _set_reading(self) -> None:
        if self._securing is not None:
            return
        wanted = self._over or (not self._late and self.connection.wants_read)
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
        elif self._timer is None or when < self._timer_at:  # an earlier one sets this one when it is due
            self._stop_timer()
            self._timer, self._timer_at = self._loop.call_at(when, self._due, when), when

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self, when: float) -> None:
        self._timer = None
        if not self._ended:
            self.update(self.connection.handle_timeout(max(when, self._loop.time())))


def _ends(events: list[Any], at: int) -> bool:
    """Is the end of the connection among the events from number `at` on? It is always the last one."""
    return at < len(events) and type(events[-1]) is Disconnected
