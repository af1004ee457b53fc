"""A network in memory for a virtual event loop: it delays, cuts at any byte, refuses, freezes and forgets, as a script says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .virtual_loop import VirtualLoop


class Stream:
    """The bytes of one direction of a connection: written, and not read yet.

    Attributes:
        buffer: those bytes.
        frozen: True: nothing moves.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.writer: Transport
        self.reader: Transport
        self.buffer = bytearray()
        self.frozen = False
        self.eof = False  # no byte follows those in the buffer
        self.told = False  # the reader knows
        self.full = False  # the writer has been told to pause
        self._moving: asyncio.TimerHandle | None = None

    def go(self) -> None:
        """Let the next bytes move, if there are any and nothing stops them."""
        if (
            self._moving is None
            and not self.frozen
            and (self.buffer or (self.eof and not self.told))
            and (self.reader.reading or self.reader.lost or not self.buffer)
        ):
            self._moving = self.network.loop.call_later(self.network.delay(), self._move)

    def _move(self) -> None:
        self._moving = None
        if self.frozen or self.told:
            return
        reader = self.reader
        if reader.lost or reader.closing:
            if self.buffer:  # nobody is there to read them
                self.buffer.clear()
                self.writer.reset()
            return
        if self.buffer:
            if not reader.reading:
                return
            size = self.network.piece(len(self.buffer))
            data = bytes(self.buffer[:size])
            del self.buffer[:size]
            reader.feed(data)
        if self.full and len(self.buffer) <= self.network.high // 4:
            self.full = False
            if not self.writer.lost:
                self.writer.protocol.resume_writing()
        if not self.buffer:
            if self.writer.closing and not self.writer.lost:
                self.writer.lose(None)
            if self.eof and not self.told and not reader.lost:
                self.told = True
                reader.end()
                return
        self.go()

    def stop(self) -> None:
        if self._moving is not None:
            self._moving.cancel()
            self._moving = None


class Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: VirtualLoop, protocol: Any, out: Stream, into: Stream, port: int) -> None:
        super().__init__({"peername": ("127.0.0.1", port), "sockname": ("127.0.0.1", port)})
        self.loop = loop
        self.protocol = protocol
        self.out, self.into = out, into
        out.writer = into.reader = self
        self.reading = True
        self.closing = False  # nothing more is read; what is written goes out
        self.lost = False  # connection_lost has been called, or is about to be
        self.sock: socket.socket | None = None
        self.dial: Dial | None = None

    # ---- called by the network

    def feed(self, data: bytes) -> None:
        protocol = self.protocol
        try:
            if isinstance(protocol, asyncio.BufferedProtocol):
                while data:
                    room = memoryview(protocol.get_buffer(len(data)))
                    size = min(len(room), len(data))
                    room[:size] = data[:size]
                    protocol.buffer_updated(size)
                    data = data[size:]
            else:
                protocol.data_received(data)
        except Exception as error:
            self.loop.call_exception_handler({"message": "a protocol raised", "exception": error})
            self.abort()

    def end(self) -> None:
        if not self.protocol.eof_received():
            self.close()

    def reset(self) -> None:
        """The peer has dropped the connection."""
        self.lose(ConnectionResetError("reset by the peer"))

    def lose(self, error: Exception | None) -> None:
        if self.lost:
            return
        self.lost = self.closing = True
        self.reading = False
        self.loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        if self.sock is not None:
            self.sock.close()
        if self.dial is not None:
            self.dial.ended = self.loop.now
        self.out.buffer.clear()
        self.out.eof = True
        self.out.go()
        self.into.go()
        self.protocol.connection_lost(error)

    # ---- called by the protocol

    def write(self, data: Any) -> None:
        out = self.out
        if self.lost or self.closing or out.eof:
            return
        out.buffer += data
        self.loop.network.written = max(self.loop.network.written, len(data))
        out.go()
        if not out.full and len(out.buffer) > self.loop.network.high:
            out.full = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self.out.eof = True
        self.out.go()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if self.closing:
            return
        self.closing = True
        self.reading = False
        if self.out.buffer:
            self.out.go()
        else:
            self.lose(None)

    def abort(self) -> None:
        if self.lost:
            return
        peer = self.into.writer
        self.lose(None)
        self.out.buffer.clear()
        self.out.told = True  # the peer gets a reset in its place
        if not self.out.frozen:
            self.loop.call_later(self.loop.network.delay(), peer.reset)

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        if not self.closing:
            self.reading = True
            self.into.go()

    def is_reading(self) -> bool:
        return self.reading

    def get_write_buffer_size(self) -> int:
        return len(self.out.buffer)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol


#: Who dials: set by a program before it opens a client, and inherited by the client's tasks.
WHO: ContextVar[str] = ContextVar("who", default="")


@dataclass(slots=True, eq=False)
class Dial:
    """An attempt to connect.

    Attributes:
        time, port, who: when, where to, and who dials.
        ended: when it had failed, or the client's end of its connection was gone; None: it is not over.
    """

    time: float
    port: int
    who: str
    ended: float | None = None


class Wire:
    """One connection.

    Attributes:
        client, server: its ends.
        number: in the order of connections.
        port: the server's.
    """

    def __init__(self, network: Network, client: Any, server: Any, port: int, number: int) -> None:
        up, down = Stream(network), Stream(network)
        self.network = network
        self.client = Transport(network.loop, client, up, down, port)
        self.server = Transport(network.loop, server, down, up, 40000 + number % 20000)
        self.number = number
        self.port = port

    @property
    def alive(self) -> bool:
        return not (self.client.lost and self.server.lost)

    def reset(self) -> None:
        """Both ends lose it, with what has not arrived."""
        for end in (self.client, self.server):
            end.out.frozen = True
            end.reset()

    def freeze(self, ends: Literal["client", "server", "both"] = "both") -> None:
        """What these ends write does not arrive, and nobody knows it."""
        for name in ("client", "server"):
            if ends in (name, "both"):
                getattr(self, name).out.frozen = True

    def thaw(self) -> None:
        for end in (self.client, self.server):
            end.out.frozen = False
            end.out.go()
            if end.lost and not end.into.writer.lost:  # its reset had been lost
                end.into.writer.reset()


class _Listener:
    """What `create_server` returns."""

    sockets: tuple[Any, ...] = ()

    def __init__(self, network: Network, port: int) -> None:
        self._network, self._port = network, port

    def close(self) -> None:
        self._network.listeners.pop(self._port, None)


class Network:
    """All connections of one loop; servers listen on ports.

    Attributes:
        listeners: port -> makes the protocol of a new connection.
        refusing: ports that refuse connections; None for a port: it does not answer at all.
        wires: the connections, the last ones only once they are over.
        dials: every attempt.
        made: a callback (wire) for each new connection, or None.
        slowness: seconds that a piece needs at most.
        chop: bytes of a piece at most; None: all that there is.
        high: bytes that a transport takes before it says that it is full.
        written: the most bytes that were written at once.
    """

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self.loop = loop
        self.random = random
        self.listeners: dict[int, Callable[[], Any]] = {}
        self.refusing: dict[int, Literal["refuse", "silent"]] = {}
        self.wires: list[Wire] = []
        self.dials: list[Dial] = []
        self.made: Callable[[Wire], None] | None = None
        self.slowness = 0.002
        self.chop: int | None = None
        self.high = 1 << 16
        self.written = 0
        self._sockets: dict[socket.socket, Dial] = {}
        self._number = 0

    def delay(self) -> float:
        return 1e-6 + self.slowness * self.random.random()

    def piece(self, size: int) -> int:
        if self.chop is not None:
            return min(size, self.random.randint(1, self.chop))
        return size if self.random.random() < 0.9 else self.random.randint(1, size)

    # ---- called by the loop

    def listen(self, factory: Callable[[], Any], port: int) -> _Listener:
        assert port not in self.listeners, f"port {port} is in use"
        self.listeners[port] = factory
        return _Listener(self, port)

    async def dial(self, sock: socket.socket, port: int) -> None:
        dial = self._sockets[sock] = Dial(self.loop.now, port, WHO.get())
        self.dials.append(dial)
        try:
            await asyncio.sleep(self.delay())
            how = self.refusing.get(port)
            if how == "silent":
                await self.loop.create_future()
            if how == "refuse" or port not in self.listeners:
                raise ConnectionRefusedError(111, "Connection refused")
        except BaseException:
            dial.ended = self.loop.now
            raise

    async def connect(self, factory: Callable[[], Any], sock: socket.socket) -> tuple[Any, Any]:
        dial = self._sockets[sock]
        port = dial.port
        protocol = factory()
        make = self.listeners.get(port)
        if make is None:
            sock.close()
            dial.ended = self.loop.now
            raise ConnectionResetError(104, "Connection reset by peer")
        self._number += 1
        wire = Wire(self, protocol, make(), port, self._number)
        wire.client.sock, wire.client.dial = sock, dial
        self.wires = [one for one in self.wires if one.alive] + [wire]
        if self.made is not None:
            self.made(wire)
        self.loop.call_soon(wire.server.protocol.connection_made, wire.server)
        made = self.loop.create_future()

        def connected() -> None:
            protocol.connection_made(wire.client)
            if not made.done():
                made.set_result(None)

        self.loop.call_soon(connected)
        try:
            await made
        except BaseException:
            wire.client.close()
            raise
        return wire.client, protocol

    # ---- for simulations

    def open_sockets(self) -> int:
        """Descriptors that are not closed."""
        return sum(sock.fileno() >= 0 for sock in self._sockets)

    def heal(self) -> None:
        """From now on nothing is refused, chopped or slow. What is frozen stays so."""
        self.refusing.clear()
        self.slowness, self.chop = 0.002, None

    def close(self) -> None:
        """Close all descriptors."""
        for sock in self._sockets:
            sock.close()
