"""What both roles of an NSQ connection do: states, compression that begins in mid-stream, commands that wait their turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wirefmt import nsq
from wirefmt.connection import endpoint
from wirefmt.connection.carriers import CarriedDecoder, Compression
from wirefmt.connection.endpoint import EventT, Fault
from wirefmt.connection.states import Outcome, Role, Violation, by_state
from wirefmt.errors import DecodeError, EncodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.nsq.events import ConnectionOptions, Event, Negotiated
from wirefmt.nsq.states import RECEIVES, SENDS, State, Transition

if TYPE_CHECKING:
    from typing_extensions import Buffer


def kind_of(message: nsq.Command | nsq.Frame) -> str:
    """The kind of a command or a frame in the table of states."""
    if isinstance(message, nsq.Response):
        data = message.data
        if data == b"OK":
            return "OK"
        if data == b"_heartbeat_":
            return "heartbeat"
        if data == b"CLOSE_WAIT":
            return "CLOSE_WAIT"
        members = message.members
        if members is None:
            return "other response"
        said = dict(members)
        if said.get("tls_v1") is True:
            return "JSON with tls_v1"
        if said.get("deflate") is True or said.get("snappy") is True:
            return "JSON with compression"
        return "JSON"
    if isinstance(message, nsq.MessageFrame):
        return "message"
    if isinstance(message, nsq.Error):
        return "error" if message.fatal is False else "fatal error"
    if isinstance(message, nsq.Magic):
        return "magic"
    if isinstance(message, nsq.Command):
        return message.name
    if isinstance(message, nsq.Frame):
        return "other response"
    raise LocalProtocolError(f"{type(message).__name__} is not an NSQ command or frame")


def build(make: Callable[..., Any], **fields: Any) -> Any:
    """A command or frame of the host's values."""
    try:
        return make(**fields)
    except (EncodeError, TypeError, ValueError) as error:
        raise LocalProtocolError(str(error)) from error


#: Kinds that have a class of their own.
_ONE_KIND: Final[dict[str, type[Any]]] = {
    "message": nsq.MessageFrame,
    "PUB": nsq.Publish,
    "MPUB": nsq.MultiPublish,
    "DPUB": nsq.DeferredPublish,
    "RDY": nsq.Ready,
    "FIN": nsq.Finish,
    "REQ": nsq.Requeue,
    "TOUCH": nsq.Touch,
    "NOP": nsq.Nop,
}


class Endpoint(endpoint.Endpoint[State, EventT]):
    """What both roles share. What is done for every message is in the compiled base of each: `ClientFlows`, `ServerFlows`."""

    role: ClassVar[Role]
    options: ConnectionOptions
    _final_state = State.CLOSED
    _receives: ClassVar[dict[State, dict[str, Transition]]]
    _sends: ClassVar[dict[State, dict[str, Transition]]]
    _handlers: ClassVar[dict[str, Callable[[Any, Any, list[Event]], None]]]
    #: The class of what comes most often. `_flow` takes it in the states that it leaves as they are.
    _frequent: ClassVar[type[Any]]
    if TYPE_CHECKING:
        _flowing: bool
        _subscribed: bool

        def _number(self) -> int: ...
        def _flow(self, messages: Sequence[Any], at: int, events: list[Event]) -> int: ...

    #: Classes whose objects are of one kind each: for each state the handlers of those that are legal and leave it as it is.
    _steady_in: ClassVar[dict[State, dict[type[Any], Callable[[Any, Any, list[Event]], None]]]]

    def __init_subclass__(cls) -> None:
        cls._receives = by_state(RECEIVES, cls.role)
        cls._sends = by_state(SENDS, cls.role)
        cls._steady_in = {
            state: {
                kind: cls._handlers[name]
                for name, kind in _ONE_KIND.items()
                if name in cls._handlers and cls._receives[state].get(name) is state
            }
            for state in State
        }

    def __init__(self, now: float, options: ConnectionOptions | None) -> None:
        self.negotiated: Negotiated | None = None
        self._restricted = False  # commands need a further look
        self._handshaking = False  # TLS has been announced, and `secured` has not been called
        self._carrier: Compression | None = None
        self._before: list[Buffer] = []  # bytes for the transport that were queued before the carrier changed
        self._before_bytes = 0
        self._held: Sequence[Any] = ()  # messages read whose turn comes after an answer
        self._fault_after: Fault | None = None  # and the fault after them
        super().__init__(now, options or ConnectionOptions(), State.IDLE)

    def _enter(self, state: State) -> None:
        self._steady = {} if self._restricted else self._steady_in[state]
        self._flowing = self._frequent in self._steady
        self._subscribed = state is State.SUBSCRIBED

    def _handshake_done(self, now: float) -> None:
        """What `secured` does in both roles."""
        self._check_over()
        if not self._handshaking:
            raise LocalProtocolError("no TLS handshake runs")
        self._advance(now)
        self._handshaking = False

    # ---- compression

    def _change_carrier(self, carrier: Compression) -> None:
        """From here on bytes in both directions go through a compression."""
        before = self._wire()
        self._before += before
        self._before_bytes += sum(memoryview(buffer).nbytes for buffer in before)
        self._carrier = carrier
        self._decoder = CarriedDecoder(self._make_decoder(), carrier)

    def _wire(self) -> list[Buffer]:
        """What is in the outbox, as bytes for the transport."""
        if self._carrier is None:
            return self._outbox.take_buffers()
        data = self._outbox.take()
        return [self._carrier.send(data)] if data else []

    def data_to_send(self) -> bytes:
        return b"".join(self.buffers_to_send())

    def buffers_to_send(self) -> list[Buffer]:
        buffers = self._wire()
        if self._before:
            buffers = self._before + buffers
            self._before, self._before_bytes = [], 0
        return buffers

    @property
    def pending_bytes(self) -> int:
        return super().pending_bytes + self._before_bytes

    def _drop(self) -> list[EventT]:
        self._before, self._before_bytes = [], 0
        return super()._drop()

    # ---- reading

    def _step(self) -> int:
        """How many messages may be read at once."""
        raise NotImplementedError

    def _failed(self) -> bool:
        """Has the peer made a fault that waits for its turn? Nothing is read after it."""
        return self._fault_after is not None

    def _capacity(self) -> int:
        if self._paused or self._over or self._held:
            return 0
        step = self._step()
        return step if step > 0 else 0

    def _read(self, data: Buffer, events: list[Event]) -> None:
        if self._failed():
            return  # the decoder would raise the same error again, with the same messages
        if self._trailing and isinstance(self._decoder, CarriedDecoder):
            self._decoder.put_back(self._trailing)
            self._trailing = b""
        super()._read(data, events)

    def _handle(self, messages: Sequence[Any], events: list[Event]) -> None:
        at, count = 0, len(messages)
        while True:
            if self._flowing:
                at = self._flow(messages, at, events)
            if at == count:
                return
            message = messages[at]
            at += 1
            handler = self._steady.get(type(message))
            if handler is not None:
                handler(self, message, events)
                continue
            kind = kind_of(message)
            transition = self._receives[self._state][kind]
            if isinstance(transition, Violation):
                raise self._violated(kind, transition)
            if transition is Outcome.IGNORED:
                continue
            if transition is Outcome.UNREAD:
                self._held = messages[at - 1 :]
                return
            before = self._state
            self._handlers[kind](self, message, events)
            if self._over:
                return
            if self._state is before and isinstance(transition, State):
                self.state = transition

    def _violated(self, kind: str, rule: Violation) -> RemoteProtocolError:
        """The fault of a message that must not come in this state."""
        return RemoteProtocolError(rule.rule, reply=rule.reply)

    def _go_on(self) -> list[EventT]:
        events: list[Event] = []
        if self._held and not self._paused and not self._over:
            held, fault = self._held, self._fault_after
            self._held, self._fault_after = (), None
            try:
                self._handle(held, events)
            except (DecodeError, RemoteProtocolError) as error:
                self._fault(error, events)
            if fault is not None and not self._over:
                self._fault(fault, events)
        return events + super()._go_on()

    def _unread(self) -> int:
        return super()._unread() + len(self._held)

    # ---- the end

    def _fault(self, error: Fault, events: list[Event]) -> None:
        if self._held:  # their turn comes first
            self._fault_after = error
            self._note_reading()
        else:
            super()._fault(error, events)

    def _give_up(self, reason: str, events: list[Event]) -> None:
        self._end("local", None, reason, events, error=RemoteProtocolError(reason))
