"""What both roles of a connection do, whatever the protocol: reading, writing, timers, faults and the end.

A protocol derives its two connections from `Endpoint` and adds what it knows: how many messages may be read now, what
to do with each, what its timers mean, what to answer to a fault, and which handles are left at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from wirefmt.connection.carriers import Compression
from wirefmt.connection.contract import Disconnected
from wirefmt.connection.deadlines import Deadlines
from wirefmt.connection.outbox import Outbox
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Answers may exceed the limit on queued bytes by so much before a peer that does not read is given up.
ANSWER_ROOM: Final = 1 << 20

#: Messages that are read in one step, if nothing else limits them.
STEP: Final = 1 << 20

Fault = DecodeError | RemoteProtocolError


class FrameDecoder(Protocol):
    """What is needed of a protocol's Decoder."""

    @property
    def pending(self) -> int: ...
    @property
    def unread(self) -> int: ...
    def feed(self, data: Buffer, /, count: int | None = None) -> list[Any]: ...
    def rest(self) -> bytes: ...


class Endpoint:
    """Reading, writing, timers, faults and the end.

    Args:
        now: the time at which the transport was connected.
        unread_bytes: bytes kept while we do not read.
        pending_bytes: bytes queued for the peer; above it `_check_pending` refuses.
    """

    def __init__(self, now: float, *, unread_bytes: int, pending_bytes: int) -> None:
        self._deadlines = Deadlines(now)
        self._unread_bytes = unread_bytes
        self._pending_bytes = pending_bytes
        self._outbox = Outbox()
        self._before: list[Buffer] = []  # bytes for the transport that were queued before the carrier changed
        self._before_bytes = 0
        self._carrier: Compression | None = None
        self._decoder: FrameDecoder = self._make_decoder()
        self._held: Sequence[Any] = ()  # messages read whose turn comes after an answer
        self._fault_after: Fault | None = None  # and the fault behind them
        self._over = False
        self._paused = False
        self._reading = True
        self._eof = False
        self._trailing = b""

    # ---- what a protocol adds

    def _make_decoder(self) -> FrameDecoder:
        raise NotImplementedError

    def _room(self) -> int:
        """How many messages may be read now."""
        raise NotImplementedError

    def _handle(self, messages: Sequence[Any], events: list[Any]) -> Sequence[Any]:
        """Take messages. Those that have to wait for an answer of the host are returned. Raises Fault."""
        raise NotImplementedError

    def _due(self, name: str, events: list[Any]) -> None:
        """A timer is due."""

    def _say(self, error: Fault) -> Any:
        """Queue the answer to a fault of the peer. Returns its code; None: there is no answer."""
        return None

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The connection is over: drop what belongs to it. Returns the handles that are resumable, and those lost."""
        return (), ()

    def _heard(self) -> None:
        """Bytes have come."""

    def _note_reading(self) -> None:
        """`_reading` says whether we read."""
        self._reading = not self._paused and not self._held and self._room() > 0

    # ---- in

    def receive(self, data: Buffer, now: float) -> list[Any]:
        """Take bytes from the peer; return the events they complete, in order."""
        self._check_open()
        self._deadlines.advance(now)
        self._heard()
        events: list[Any] = []
        self._read(data, events)
        return events

    def receive_eof(self, now: float) -> list[Any]:
        """Take the end of the peer's stream. What was left unread is read first, once there is room."""
        self._check_open()
        self._deadlines.advance(now)
        self._eof = True
        events: list[Any] = []
        self._finish_eof(events)
        return events

    def pause(self) -> None:
        """Stop after the messages read so far. Bytes that follow are kept."""
        self._check_open()
        self._paused = True
        self._note_reading()

    def resume(self, now: float) -> list[Any]:
        """Go on after `pause`; return the events of the bytes kept."""
        self._check_open()
        self._deadlines.advance(now)
        self._paused = False
        return self._go_on()

    @property
    def trailing_data(self) -> bytes:
        """Bytes of the protocol that were received and not read, while we do not read or after the end."""
        if self._over or not self._reading:
            try:
                self._trailing += self._decoder.rest()
            except DecodeError:
                pass
        return self._trailing

    @property
    def wants_read(self) -> bool:
        return self._reading and not self._over

    # ---- out

    def data_to_send(self) -> bytes:
        """Take everything queued, as one bytes object."""
        return b"".join(self.buffers_to_send())

    def buffers_to_send(self) -> list[Buffer]:
        """Take everything queued, as a list of buffers in order. Large payloads are not copied."""
        buffers = self._wire()
        if self._before:
            buffers = self._before + buffers
            self._before, self._before_bytes = [], 0
        return buffers

    @property
    def pending_bytes(self) -> int:
        return self._outbox.pending + self._before_bytes

    @property
    def should_close(self) -> bool:
        return self._over and not self.pending_bytes

    def _wire(self) -> list[Buffer]:
        """What is in the outbox, as bytes for the transport."""
        if self._carrier is None:
            return self._outbox.take_buffers()
        data = self._outbox.take()
        return [self._carrier.send(data)] if data else []

    def _change_carrier(self, carrier: Compression | None) -> None:
        """From here on bytes for the peer go through another carrier."""
        before = self._wire()
        self._before += before
        self._before_bytes += sum(memoryview(buffer).nbytes for buffer in before)
        self._carrier = carrier

    # ---- time

    def next_timeout(self) -> float | None:
        """When to call `handle_timeout` at the latest; None: no timer runs."""
        return self._deadlines.next()

    def handle_timeout(self, now: float) -> list[Any]:
        """Do what is due."""
        self._check_open()
        events: list[Any] = []
        for name in self._deadlines.due(now):
            if self._over:
                break
            self._due(name, events)
        return events

    # ---- reading

    def _read(self, data: Buffer, events: list[Any]) -> None:
        """Read as many messages as there is room for."""
        trailing: Buffer = b""
        if self._trailing:
            trailing, self._trailing = self._trailing, b""
        carrier = self._carrier
        if carrier is not None:
            carrier.feed(bytes(data))
            data = trailing
        elif trailing:
            data = bytes(trailing) + bytes(data)
        while True:
            room = 0 if self._paused or self._held else self._room()
            decoder = self._decoder
            fault: Fault | None = None
            messages: Sequence[Any] = ()
            try:
                if carrier is not None and room and not decoder.unread and not memoryview(data).nbytes:
                    data = carrier.read()
                messages = decoder.feed(data, room)
            except DecodeError as error:
                messages, fault = error.messages, error
            data = b""
            self._take(messages, fault, events)
            if self._over:
                return
            decoder, carrier = self._decoder, self._carrier
            if self._held or self._fault_after is not None:
                break
            if not (decoder.unread or (carrier is not None and carrier.unread)) or self._paused or not self._room():
                break
        if self.pending_bytes > self._pending_bytes + ANSWER_ROOM:
            self._give_up("the peer does not take its answers", events)
        elif self._unread() > self._unread_bytes and (self._paused or self._held or not self._room()):
            self._give_up("more bytes than are kept while the host decides", events)
        elif self._eof:
            self._finish_eof(events)
        else:
            self._note_reading()

    def _take(self, messages: Sequence[Any], fault: Fault | None, events: list[Any]) -> None:
        """Messages, then the fault behind them, as far as they need not wait."""
        try:
            self._held = self._handle(messages, events) if messages else ()
        except (DecodeError, RemoteProtocolError) as error:
            self._held = ()
            self._fault(error, events)
        if self._over or fault is None:
            return
        if self._held:
            self._fault_after = fault
        else:
            self._fault(fault, events)

    def _go_on(self) -> list[Any]:
        """Read what was left unread, after an answer or `resume`."""
        events: list[Any] = []
        self._go_on_into(events)
        return events

    def _go_on_into(self, events: list[Any]) -> None:
        if self._reading or self._over:
            return  # nothing was left
        if self._held and not self._paused:
            held, fault = self._held, self._fault_after
            self._held, self._fault_after = (), None
            self._take(held, fault, events)
        if not self._over:
            if self._unread() or self._eof:
                self._read(b"", events)
            else:
                self._note_reading()

    def _unread(self) -> int:
        return self._decoder.unread + len(self._trailing) + (self._carrier.unread if self._carrier is not None else 0)

    def _finish_eof(self, events: list[Any]) -> None:
        if self._unread() or self._held or self._paused:
            return  # `resume` or an answer reads them first
        reason = "the stream ended inside a message" if self._decoder.pending else "the stream ended"
        self._end("transport", None, reason, events)

    # ---- writing

    def _check_pending(self, size: int) -> None:
        pending = self.pending_bytes
        if pending and pending + size > self._pending_bytes:
            raise LocalProtocolError(f"{pending} bytes are queued and not taken")

    # ---- the end

    def _check_open(self) -> None:
        if self._over:
            raise LocalProtocolError("the connection is over")

    def _fault(self, error: Fault, events: list[Any]) -> None:
        """The peer has broken a rule: answer as the protocol asks, and end."""
        self._end("local", self._say(error), str(error), events, error=error)

    def _give_up(self, reason: str, events: list[Any]) -> None:
        """The peer costs more memory than it may: end at once."""
        error = RemoteProtocolError(reason)
        self._end("local", self._say(error), reason, events, error=error)

    def _end(
        self,
        by: Literal["local", "peer", "transport"],
        code: Any,
        reason: str,
        events: list[Any],
        *,
        error: Exception | None = None,
        message: Any = None,
    ) -> None:
        resumable, lost = self._forget()
        self._over = True
        self._held, self._fault_after = (), None
        self._deadlines.clear()
        events.append(
            Disconnected(by=by, code=code, reason=reason, error=error, message=message, resumable=resumable, lost=lost)
        )
