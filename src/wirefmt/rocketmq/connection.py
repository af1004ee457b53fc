"""The two roles of a RocketMQ connection: requests, responses and one-way requests in both directions.

Sections are those of docs/rocketmq.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from wirefmt._core import ANSWER_CAPACITY
from wirefmt.connection import endpoint
from wirefmt.connection.contract import Acknowledged, Connected, StartTls
from wirefmt.connection.deadlines import Keepalive
from wirefmt.connection.endpoint import EventT
from wirefmt.connection.states import Outcome, Role, Violation
from wirefmt.errors import DecodeError, EncodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.framing import Limits
from wirefmt.rocketmq._codec import CommandCustomHeader, Decoder, Flows, RemotingCommand, Request, decode
from wirefmt.rocketmq.codes import ResponseCode
from wirefmt.rocketmq.events import (
    BINARY_CODE_MOST,
    VERSION_5_3_1,
    ClientEvent,
    ConnectionOptions,
    Event,
    Negotiated,
    ServerEvent,
    TimedOut,
)
from wirefmt.rocketmq.preface import TLS, proxy_preface
from wirefmt.rocketmq.states import RECEIVES, SENDS, State

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Bits of a command's flag (section 1).
RESPONSE: Final = 1
ONEWAY: Final = 2

_OPAQUE_AND_FLAG: Final = Struct(">ii")
_OPAQUE_AT: Final = 13  # after the lengths, code, language and version of a ROCKETMQ header (section 3)
_KINDS: Final = ("request", "response", "one-way request", "response")  # by the two bits of the flag
_OPENING: Final = frozenset((State.IDLE, State.PROXIED, State.SECURED))


def kind_of(command: RemotingCommand) -> str:
    """The kind of a command in the table of states. Receivers look at the response bit first (section 1)."""
    kind = _KINDS[command.flag & 3]
    return "response GO_AWAY" if kind == "response" and command.code == ResponseCode.GO_AWAY else kind


def numbered(command: RemotingCommand, opaque: int | None, flag: int) -> RemotingCommand:
    """The command with another opaque and flag.

    Raises:
        LocalProtocolError: its JSON header has something that the encoder does not write, such as a member without a name; or
            `opaque` is None, as in a JSON header without it, and its own header is binary.
    """
    if command.opaque == opaque and command.flag == flag:
        return command
    if command.serialize_type == "ROCKETMQ":
        if opaque is None:
            raise LocalProtocolError("the request has no opaque, which a ROCKETMQ header cannot express")
        octets = bytearray(command.encode())  # the rest stays as it is, also a language that is unknown here
        _OPAQUE_AND_FLAG.pack_into(octets, _OPAQUE_AT, opaque, flag)
        return decode(bytes(octets), strictness="lax", limits=Limits(frame_size=len(octets)))
    try:
        return RemotingCommand(
            code=command.code,
            flag=flag,
            opaque=opaque,
            remark=command.remark,
            ext_fields=command.ext_fields,
            body=command.body,
            language=command.language,
            version=command.version,
        )
    except (EncodeError, TypeError) as error:
        raise LocalProtocolError(str(error)) from error


class Endpoint(endpoint.Endpoint[State, EventT], Flows):
    """What both roles do. What they do for every request and response is compiled: `Flows`."""

    role: Role
    options: ConnectionOptions
    _final_state = State.CLOSED
    _late: ClassVar = {
        Keepalive.EXPECT: ("nothing has arrived within the idle timeout", None),
        "first": ("no command has arrived in time", None),
    }
    _unit = "frame"

    def __init__(self, now: float, options: ConnectionOptions | None = None) -> None:
        super().__init__(now, options or ConnectionOptions(), State.IDLE)
        self.negotiated: Negotiated | None = None
        self._configure(self.options, self.role is Role.SERVER, Acknowledged)
        self._source: tuple[str, int] | None = None
        self._secured = False
        self._ending: tuple[Literal["local", "peer"], int | None, str] = ("local", None, "")
        if self.role is Role.SERVER:
            self._keep_alive(expect_within=self.options.idle_timeout)
            if self.options.first_timeout is not None:
                self._deadlines.set("first", now + self.options.first_timeout)

    def _enter(self, state: State) -> None:
        self._open = state is State.OPEN

    def _capacity(self) -> int:
        """How many commands may be read now."""
        if self._paused or self._over or self._state is State.SECURING:
            return 0
        return max(self.options.undecided - len(self._undecided), 0)

    if TYPE_CHECKING:
        receive = Flows.receive

    def _make_decoder(self) -> Decoder:
        return Decoder(limits=Limits(frame_size=self.options.frame_size))

    @property
    def undecided(self) -> int:
        """Requests of the peer that wait for an answer of the host."""
        return len(self._undecided)

    @property
    def pending(self) -> int:
        """Requests of ours that wait for their responses."""
        return len(self._pending)

    # ---- out

    def _request(
        self,
        code: int,
        header: CommandCustomHeader | None,
        body: Buffer | None,
        ext_fields: Mapping[str, str | None] | None,
        oneway: bool,
        timeout: float | None,
        now: float | None,
    ) -> Request | None:
        """`request` for the cases that the compiled part leaves: options, limits, violations."""
        if self._state is not State.OPEN:
            self._check_send("one-way request" if oneway else "request")
        options = self.options
        opaque = self._next_opaque(oneway)
        try:
            command = RemotingCommand(
                code=code,
                flag=ONEWAY if oneway else 0,
                opaque=opaque,
                header=header,
                ext_fields=ext_fields,
                body=body,
                language=options.language,
                version=options.version,
                serialize_type=self._serialize_type if code <= BINARY_CODE_MOST else "JSON",
            )
            if options.credentials is not None:
                command = options.credentials.sign(command)
        except (EncodeError, TypeError, ValueError, OverflowError) as error:
            raise LocalProtocolError(str(error)) from error
        return self._queue(command, code, opaque, oneway, timeout, now)

    def send(self, message: RemotingCommand, timeout: float | None = None, now: float | None = None) -> Request | None:
        """Queue a request or one-way request that exists already.

        It gets an opaque of ours in place of the one it holds, keeps everything else, and is not signed. Responses are sent by
        `respond`.

        Returns:
            the request's handle; None for a one-way request.

        Raises:
            LocalProtocolError: not legal now, or a limit is reached. Nothing has changed.
        """
        if not isinstance(message, RemotingCommand):
            raise LocalProtocolError(f"{type(message).__name__} is not a RocketMQ command")
        kind = kind_of(message)
        self._check_send(kind)
        if message.flag & RESPONSE:
            raise LocalProtocolError("a response is sent by respond() and forward()")
        oneway = kind == "one-way request"
        opaque = self._next_opaque(oneway)
        return self._queue(numbered(message, opaque, message.flag), message.code, opaque, oneway, timeout, now)

    def cancel(self, handle: Request) -> None:
        """Cancel a request. It has no outcome; a later response is counted in `late`. A finished request stays finished."""
        self._check_over()
        self._give_up_on(handle)

    def _respond(
        self,
        event: RemotingCommand,
        code: int,
        header: CommandCustomHeader | None,
        body: Buffer | None,
        ext_fields: Mapping[str, str | None] | None,
        remark: str | None,
    ) -> list[EventT]:
        """`respond` for the cases that the compiled part leaves."""
        if id(event) not in self._undecided:
            self._check_undecided(event)
        options = self.options
        try:
            command = RemotingCommand(
                code=code,
                flag=RESPONSE,
                opaque=event.opaque,
                remark=remark,
                header=header,
                ext_fields=ext_fields,
                body=body,
                language=options.language,
                version=options.version,
                serialize_type=event.serialize_type,
            )
        except (EncodeError, TypeError, ValueError, OverflowError) as error:
            raise LocalProtocolError(str(error)) from error
        return self._answer(event, command.encode())

    def forward(self, event: RemotingCommand, response: RemotingCommand) -> list[EventT]:
        """Answer a request with a response of another server, unchanged except for its opaque."""
        self._check_undecided(event)
        if not response.flag & RESPONSE:
            raise LocalProtocolError("only a response answers a request")
        response = numbered(response, event.opaque, response.flag)
        return self._answer(event, response.encode())

    def refuse(self, event: RemotingCommand) -> list[EventT]:
        """Answer a request whose code the host does not know."""
        return self.respond(
            event, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {event.code} not supported"
        )

    def ignore(self, event: RemotingCommand) -> list[EventT]:
        """Give no answer, as real clients do for codes they do not know. The peer's request times out."""
        self._check_undecided(event)
        del self._undecided[id(event)]
        return self._answered()

    def close(self, wait: float = 0.0, *, immediate: bool = False) -> list[EventT]:
        """End the connection. RocketMQ has no message for it.

        Args:
            wait: seconds. Above 0 what is pending and undecided may come to its end first: state DRAINING.
            immediate: drop what is queued.
        """
        self._check_over()
        if immediate:
            return self._drop()
        events: list[Event] = []
        if wait > 0 and self._state is not State.SECURING:
            if self._state is not State.DRAINING:
                self.state = State.DRAINING
                self._ending = ("local", None, "the host has closed the connection")
            self._deadlines.start("drain", wait)
            self._finish_draining(events)
            return events
        self._end("local", None, "the host has closed the connection", events)
        return events

    # ---- time

    def next_timeout(self) -> float | None:
        first, when = self._first_deadline(), self._deadlines.next()
        return first if when is None or (first is not None and first < when) else when

    def handle_timeout(self, now: float) -> list[EventT]:
        self._check_over()
        self._advance(now)
        events: list[Event] = [TimedOut(request) for request in self._take_overdue()]
        events += super().handle_timeout(now)
        self._finish_draining(events)
        return events

    def _due(self, name: str, events: list[Event]) -> None:
        if name == "drain":
            by, code, reason = self._ending
            self._end(by, code, reason, events)
        else:
            super()._due(name, events)

    def _advance(self, now: float) -> None:
        if now != self._deadlines.clock:
            super()._advance(now)
        self._begin_waiting()

    # ---- reading

    def _read(self, data: Buffer, events: list[Event]) -> None:
        if self.role is Role.SERVER and self._state in _OPENING:
            self._trailing += bytes(data)
            data = b""
            if self._capacity() and not self._preface(events):
                if not self._over:
                    self._check_limits(events)
                return
        super()._read(data, events)

    def _preface(self, events: list[Event]) -> bool:
        """Read prefaces at the start of `_trailing`. True: it begins with a frame, or is empty."""
        state = self._state
        while self._trailing:
            first = self._trailing[0]
            if first == TLS and (self.options.tls != "disabled" or state is State.SECURED):
                transition = RECEIVES[self.role, state, "TLS preface"]
                if isinstance(transition, Violation):
                    self._fault(RemoteProtocolError(transition.rule), events)
                else:
                    self.state = State.SECURING
                    events.append(StartTls())
                return False
            if not self.options.proxy:
                break
            try:
                found = proxy_preface(self._trailing)
            except DecodeError as error:
                self._fault(error, events)
                return False
            if found is None:
                return False
            size, source = found
            if not size:
                break
            transition = RECEIVES[self.role, state, "PROXY preface"]
            if isinstance(transition, Violation):
                self._fault(RemoteProtocolError(transition.rule), events)
                return False
            self.state = state = State.PROXIED
            self._source = source
            self._trailing = self._trailing[size:]
        if self._trailing and self.options.tls == "enforcing" and not self._secured:
            self._fault(RemoteProtocolError("a frame without TLS (section 12)"), events)
            return False
        return True

    def secured(self) -> None:
        """The TLS handshake, which began with `trailing_data`, is complete. Bytes received from now on are plaintext of TLS."""
        self._check_over()
        if self._state is not State.SECURING:
            raise LocalProtocolError("no client has begun with TLS")
        self._decoder.rest()
        self._trailing = b""
        self._secured = True
        self.state = State.SECURED
        self._note_reading()

    def _read_on(self, messages: list[RemotingCommand], fault: DecodeError | None, events: list[Event]) -> None:
        """Handle what `receive` leaves: commands that need the table, a fault after them, bytes that had no space."""
        try:
            self._handle(messages, events)
        except (DecodeError, RemoteProtocolError) as error:
            self._fault(error, events)
        if self._over:
            return
        if fault is not None:
            self._fault(fault, events)
        elif self._decoder.unread and self._capacity():
            super()._read(b"", events)
        else:
            self._check_limits(events)

    def _handle(self, messages: list[RemotingCommand], events: list[Event]) -> None:
        at = self._flow(messages, 0, events)
        while at < len(messages):
            self._handle_any(messages[at], events)
            if self._over:
                return
            at = self._flow(messages, at + 1, events)

    def _handle_any(self, message: RemotingCommand, events: list[Event]) -> None:
        """A command in any state."""
        flag = message.flag
        state = self._state
        transition = RECEIVES[self.role, state, kind_of(message)]
        if self.negotiated is None:
            self._deadlines.cancel("first")
            self.negotiated = Negotiated(
                message.language, message.version, message.serialize_type, self._secured, self._source
            )
            if self.role is Role.SERVER:
                self._serialize_type = message.serialize_type
            events.append(Connected(self.negotiated, message))
        if isinstance(transition, State):
            self.state = transition
        elif transition is Outcome.DROPPED:
            return
        elif transition is Outcome.REFUSED:
            self._turn_away(message)
            return
        else:
            assert isinstance(transition, Violation)
            self._fault(RemoteProtocolError(transition.rule), events)
            return
        if not flag & RESPONSE:
            if not flag & ONEWAY:
                self._undecided[id(message)] = message
            events.append(message)
        else:
            self._settle(message, events)
            if self._state is State.DRAINING:
                if state is not State.DRAINING:
                    self._ending = ("peer", ResponseCode.GO_AWAY, message.remark or "the server asks to go away")
                self._finish_draining(events)

    def _turn_away(self, message: RemotingCommand) -> None:
        """Answer a request that arrives while we drain."""
        aware = message.version > VERSION_5_3_1
        self._outbox.put(
            RemotingCommand(
                code=ResponseCode.GO_AWAY if aware else ResponseCode.SERVICE_NOT_AVAILABLE,
                flag=RESPONSE,
                opaque=message.opaque,
                remark="please go away",
                body=None,
                language=self.options.language,
                version=self.options.version,
                serialize_type=message.serialize_type,
            ).encode()
        )

    # ---- writing

    def _check_send(self, kind: str) -> None:
        transition = SENDS[self.role, self._state, kind]
        if isinstance(transition, Violation):
            raise LocalProtocolError(transition.rule)

    def _next_opaque(self, oneway: bool) -> int:
        """`_free_opaque`, if one more request may be pending. Raises LocalProtocolError."""
        if not oneway and len(self._pending) >= self.options.pending:
            raise LocalProtocolError(f"{len(self._pending)} requests wait for their responses")
        return self._free_opaque()

    def _queue(
        self, command: RemotingCommand, code: int, opaque: int, oneway: bool, timeout: float | None, now: float | None
    ) -> Request | None:
        frame = command.encode()
        outbox, options = self._outbox, self.options
        if outbox.position - outbox.taken + len(frame) > options.pending_bytes:
            self._check_pending(len(frame))
        if timeout is None:
            timeout = options.timeout
        elif timeout <= 0:
            raise LocalProtocolError("timeout is above 0")
        return self._put_request(frame, code, opaque, oneway, timeout, now)

    def _answer(self, event: RemotingCommand, response: bytes) -> list[EventT]:
        del self._undecided[id(event)]
        outbox = self._outbox
        outbox.put(response)
        if outbox.position - outbox.taken > self.options.pending_bytes + ANSWER_CAPACITY:
            events: list[Event] = []
            self._give_up("the peer does not take its answers", events)
            return events
        return [] if self._reading and self._state is State.OPEN else self._answered()

    def _answered(self) -> list[EventT]:
        events = self._go_on()
        self._finish_draining(events)
        return events

    def _check_undecided(self, event: RemotingCommand) -> None:
        self._check_over()
        if id(event) not in self._undecided:
            raise LocalProtocolError("this request does not wait for an answer")

    # ---- the end

    def _finish_draining(self, events: list[Event]) -> None:
        if self._state is State.DRAINING and not self._pending and not self._undecided:
            by, code, reason = self._ending
            self._end(by, code, reason, events)

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (), self._drop_all()


class ClientConnection(Endpoint[ClientEvent]):
    """A client's side of a connection to a name server or a broker.

    Events: `Connected` with the server's first command; a `RemotingCommand` for each request of the server (answer it with
    `respond`, `forward`, `refuse` or `ignore`) and for each one-way request (which has no answer); `Acknowledged` or `TimedOut`
    for each request of ours; `Disconnected`.

    Args:
        now: the time.
        options: limits, times and defaults.
    """

    role = Role.CLIENT


class ServerConnection(Endpoint[ServerEvent]):
    """A name server's or broker's side of a connection.

    Events as those of `ClientConnection`, and `StartTls` (make the handshake with `trailing_data`, then call `secured`).

    Args:
        now: the time.
        options: limits, times and defaults.
    """

    role = Role.SERVER
