"""The parts of a connection that are the same for both roles and all protocols: reading, writing, timers, faults and the end.

A protocol derives its two connections from `Endpoint` and adds what it knows: how many messages may be read now, what
to do with each, what its timers mean, what to answer to a fault, and which handles are left at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar

from wirefmt._core import EndpointFlows
from wirefmt.connection.contract import Disconnected
from wirefmt.connection.deadlines import Deadlines, Keepalive
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Messages that are read in one step, if nothing else limits them.
STEP: Final = 1 << 20

#: The timer of what a turn has left.
_TURN: Final = "turn"

Fault = DecodeError | RemoteProtocolError

_State = TypeVar("_State")
EventT = TypeVar("EventT")


class FrameDecoder(Protocol):
    """The methods of a protocol's Decoder that a connection needs."""

    @property
    def pending(self) -> int: ...
    @property
    def unread(self) -> int: ...
    def feed(self, data: Buffer, /, count: int | None = None) -> list[Any]: ...
    def rest(self) -> bytes: ...


class Options(Protocol):
    """The members of a protocol's ConnectionOptions that every connection needs.

    Attributes:
        unread_bytes: bytes kept while we do not read.
        pending_bytes: bytes queued for the peer; above it `_check_pending` refuses.
    """

    @property
    def unread_bytes(self) -> int: ...
    @property
    def pending_bytes(self) -> int: ...


class Endpoint(EndpointFlows, Generic[_State, EventT]):
    """Reading, writing, timers, faults and the end.

    What a call reads is bounded, whatever its bytes inflate to (ROUNDS, INFLATED_MESSAGES, INFLATED_BYTES). The rest waits for
    the next turn: `wants_read` is False until then, `next_timeout` says now, and `handle_timeout` goes on.

    Args:
        now: the time at which the transport was connected.
        options: limits and times.
        state: the first state.
    """

    #: The state after the end.
    _final_state: ClassVar[Any]
    #: The code for a peer that costs more memory than it may; None: it receives no answer.
    _exhausted: ClassVar[Any] = None
    #: Timers that end the connection: the reason, and the code for the peer; None: it receives nothing.
    _late: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    #: What a stream consists of, in words.
    _unit: ClassVar[str] = "message"

    options: Any
    _decoder: FrameDecoder

    if TYPE_CHECKING:

        def receive(self, data: Buffer, now: float) -> list[EventT]: ...

        def _capacity(self) -> int:
            """How many messages may be read now. 0 while paused and after the end. A protocol has it."""

    def __init__(self, now: float, options: Options, state: _State) -> None:
        self.options = options
        self._deadlines = Deadlines(now)
        self._keepalive = Keepalive(self._deadlines)
        self._said = 0  # position in the outbox when the keep-alive timer was last due
        self._decoder = self._make_decoder()
        self.state = state

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._state.value}>"  # type: ignore[attr-defined]

    @property
    def state(self) -> _State:
        return self._state

    @state.setter
    def state(self, state: _State) -> None:
        self._state = state
        self._enter(state)

    # ---- what a protocol adds

    def _make_decoder(self) -> Any:
        raise NotImplementedError

    def _enter(self, state: _State) -> None:
        """The state has changed."""

    def _handle(self, messages: list[Any], events: list[Any]) -> Any:
        """Take messages. Raises Fault."""
        raise NotImplementedError

    def _advance(self, now: float) -> None:
        """A call of the host has brought the time."""
        self._deadlines.advance(now)

    def _heard(self) -> None:
        """Bytes have arrived."""
        self._keepalive.received()

    def _send_keepalive(self) -> None:
        """Nothing has been sent for too long."""

    def _reply_to(self, error: Fault) -> Any:
        """Queue the answer to a fault of the peer. Returns its code; None: there is no answer."""
        return self._tell(error.reply, str(error)) if error.reply is not None else None

    def _tell(self, code: Any, reason: str) -> Any:
        """Queue a closing message. Returns its code; None: none is possible."""
        return None

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The connection is over: drop what belongs to it. Returns the handles that are resumable, and those lost."""
        return (), ()

    # ---- in

    def receive_eof(self, now: float) -> list[EventT]:
        """Take the end of the peer's stream. What was left unread is read first, once there is space."""
        self._check_over()
        self._advance(now)
        self._eof = True
        events: list[Any] = []
        self._finish_eof(events)
        return events

    def pause(self) -> None:
        """Stop after the messages read so far. Bytes that follow are kept."""
        self._check_over()
        self._paused = True
        self._note_reading()

    def resume(self, now: float) -> list[EventT]:
        """Go on after `pause`; return the events of the bytes kept."""
        self._check_over()
        self._advance(now)
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

    def give_up(self) -> list[EventT]:
        """The host has no space for what has arrived in part: end the connection, as for a peer that costs too much memory."""
        self._check_over()
        events: list[Any] = []
        self._give_up("too much has arrived in part", events)
        self._decoder, self._trailing = self._make_decoder(), b""
        return events

    # ---- out

    @property
    def should_close(self) -> bool:
        return self._over and not self.pending_bytes

    def changes(self) -> list[Any]:
        """What a journal must keep since the last call."""
        return []

    # ---- time

    def next_timeout(self) -> float | None:
        """When to call `handle_timeout` at the latest; None: no timer runs."""
        return self._deadlines.next()

    def handle_timeout(self, now: float) -> list[EventT]:
        """Do what is due."""
        self._check_over()
        self._advance(now)
        events: list[Any] = []
        for name in self._deadlines.due(now):
            if self._over:
                break
            self._due(name, events)
        return events

    def _due(self, name: str, events: list[Any]) -> None:
        """A timer is due."""
        if name == _TURN:
            self._turn_over = False
            events += self._go_on()
        elif name == Keepalive.SEND:
            if self._outbox.position != self._said:
                self._said = self._outbox.position
                self._keepalive.sent()
            if self._keepalive.must_send():
                self._send_keepalive()
        elif name != Keepalive.EXPECT or self._keepalive.is_lost():
            reason, code = self._late[name]
            self._end("local", None if code is None else self._tell(code, reason), reason, events)

    def _keep_alive(self, *, send_every: float | None = None, expect_within: float | None = None) -> None:
        """Begin keep-alive, in place of the one before: see `Keepalive`."""
        self._deadlines.cancel(Keepalive.SEND)
        self._deadlines.cancel(Keepalive.EXPECT)
        self._keepalive = Keepalive(self._deadlines, send_every=send_every, expect_within=expect_within)
        self._said = self._outbox.position

    # ---- reading

    def _wait_for_turn(self) -> None:
        """What is left waits for the next turn."""
        self._deadlines.set(_TURN, self._deadlines.clock)

    def _go_on(self) -> list[EventT]:
        """Read what was left unread, after an answer or `resume`."""
        if self._reading or self._over or self._turn_over:
            return []  # nothing was left, or its turn comes
        events: list[Any] = []
        if self._unread() or self._eof:
            self._read(b"", events)
        else:
            self._note_reading()
        return events

    def _unread(self) -> int:
        return self._decoder.unread + len(self._trailing)

    def _note_reading(self) -> None:
        """Silence of the peer does not count while we do not read."""
        reading = not self._turn_over and self._capacity() > 0
        if reading is not self._reading:
            self._reading = reading
            if reading:
                self._keepalive.expect_again()
            else:
                self._keepalive.suspend()

    def _finish_eof(self, events: list[Any]) -> None:
        if self._over or self._paused or self._turn_over or (self._unread() and not self._capacity()):
            return  # `resume` or an answer reads them first
        inside = self._decoder.pending or self._trailing
        self._end(
            "transport", None, f"the stream ended inside a {self._unit}" if inside else "the stream ended", events
        )

    # ---- writing

    def _check_pending(self, size: int) -> None:
        """Raises LocalProtocolError if the peer does not take what is queued."""
        pending = self._outbox.pending
        if pending and pending + size > self.options.pending_bytes:
            raise LocalProtocolError(f"{pending} bytes are queued and not taken", reply=self._exhausted)

    # ---- the end

    def _check_over(self) -> None:
        if self._over:
            raise LocalProtocolError("the connection is over")

    def _drop(self) -> list[EventT]:
        """The host ends the connection at once. What is queued is dropped."""
        self._outbox.clear()
        events: list[Any] = []
        self._end("local", None, "dropped by the host", events)
        return events

    def _fault(self, error: Fault, events: list[Any]) -> None:
        """The peer has broken a rule: answer as the protocol asks, and end."""
        self._end("local", self._reply_to(error), str(error), events, error=error)

    def _give_up(self, reason: str, events: list[Any]) -> None:
        """The peer costs more memory than it may."""
        self._fault(RemoteProtocolError(reason, reply=self._exhausted), events)

    def _end(
        self,
        by: Literal["local", "peer", "transport"],
        code: Any,
        reason: str,
        events: list[Any],
        *,
        error: Exception | None = None,
        message: Any = None,
        will: Any = None,
    ) -> None:
        resumable, lost = self._forget()
        self._over = True
        self.state = self._final_state
        self._deadlines.clear()
        events.append(
            Disconnected(
                by=by,
                code=code,
                reason=reason,
                error=error,
                message=message,
                resumable=resumable,
                lost=lost,
                will=will,
            )
        )
