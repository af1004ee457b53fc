"""The client's side of an NSQ connection, without I/O.

docs/connections.md describes the contract, docs/nsq-connection.md the states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from wirefmt import nsq
from wirefmt.connection.carriers import Compression, Deflate, Snappy
from wirefmt.connection.contract import Acknowledged, Change, Connected, StartTls, WindowOpened
from wirefmt.connection.deadlines import Keepalive
from wirefmt.connection.endpoint import STEP
from wirefmt.connection.states import Role, Violation
from wirefmt.errors import LocalProtocolError, RemoteProtocolError
from wirefmt.framing import Limits
from wirefmt.nsq._codec import Arrival, ClientFlows, Request
from wirefmt.nsq.codes import ErrorCode
from wirefmt.nsq.endpoint import Endpoint, build, kind_of
from wirefmt.nsq.events import (
    DEFLATE_LEVEL,
    HEARTBEAT_INTERVAL,
    ClientEvent,
    ConnectionOptions,
    Event,
    Negotiated,
    Publication,
    TimedOut,
)
from wirefmt.nsq.inflight import InFlight, Moment
from wirefmt.nsq.session import Session
from wirefmt.nsq.states import State

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NOP: Final = nsq.Nop().encode()

_PUBLISHING: Final = (nsq.Publish, nsq.MultiPublish, nsq.DeferredPublish)


class ClientConnection(Endpoint[ClientEvent], ClientFlows):
    """The client's side of one connection: a producer, a consumer, or both.

    ::

        client = nsq.ClientConnection(now)
        client.send(nsq.Identify(client_id="meter-7", feature_negotiation=True))
        ...                                     # write data_to_send(), give what comes to receive()

    The magic goes before the first command. Events: `Connected` (IDENTIFY is complete); `StartTls` (answer with `secured`);
    `nsq.MessageFrame` (answer with `finish` or `requeue`); `Acknowledged`; `WindowOpened`; `TimedOut`; `nsq.Error` (one that
    is not fatal); `Disconnected`. Heartbeats are answered by the connection.

    Args:
        now: the time at which the transport was connected.
        session: publishing commands that an earlier connection has not seen answered: they are sent again once IDENTIFY
            (and AUTH, if the server requires it) is complete. None: nothing is sent again.
        options: limits and times.
    """

    role = Role.CLIENT
    _frequent = nsq.MessageFrame
    _late: ClassVar[Mapping[str, tuple[str, Any]]] = {
        Keepalive.EXPECT: ("nothing has arrived within two heartbeat intervals", None),
        "answer": ("the server has not answered in time", None),
    }

    def __init__(self, now: float, session: Session | None = None, options: ConnectionOptions | None = None) -> None:
        if session is not None and session.held:
            raise LocalProtocolError("the session belongs to another connection")
        self.session = session
        #: True once the server has accepted AUTH.
        self.authenticated = False
        super().__init__(now, options)
        if session is not None:
            session.held = True
        self._configure(self.options.pending_bytes, Acknowledged)
        self._answer_within(self.options.unanswered)
        #: The largest number of messages that the server may have in flight here, as the last RDY says.
        self.ready_count = 0
        #: Errors that are not fatal: FIN, REQ or TOUCH came too late.
        self.failures = 0
        self._identify: nsq.Identify | None = None
        self._agreed: Negotiated | None = None  # by the answer to IDENTIFY, while upgrades run
        self._answer: Any = None
        self._replay: deque[Request] = deque()
        self._in_flight: InFlight[Arrival] = InFlight(60.0, 900.0)
        self._moment = Moment(now)
        self._touched: list[bytes] = []  # since the last call that brought the time
        self._compressor: Compression | None = None

    # ---- for the host

    @property
    def undecided(self) -> int:
        """Messages in flight: they wait for `finish` or `requeue`."""
        return len(self._in_flight)

    def messages(self) -> list[nsq.MessageFrame]:
        """The messages in flight."""
        return [arrival.message for arrival in self._in_flight.by_id.values()]

    @property
    def send_quota(self) -> int:
        """How many publishing commands may be sent now."""
        return 0 if self._replay else max(self.options.unanswered - len(self._requests), 0)

    def send(self, command: nsq.Command) -> Request | None:
        """Queue a command.

        Returns a handle for a command that `Acknowledged` answers: AUTH, SUB, PUB, MPUB, DPUB, CLS; otherwise None.

        Raises LocalProtocolError if the command is not legal now; nothing has changed then.
        """
        request = self._publish(command)
        if request is not None:
            return request
        self._check_over()
        kind = kind_of(command)
        transition = self._sends[self._state].get(kind)
        if transition is None:
            raise LocalProtocolError(f"a client sends commands, not a frame: {kind}")
        if isinstance(transition, Violation):
            raise LocalProtocolError(transition.rule, reply=transition.reply)
        assert isinstance(transition, State)
        return self._senders[kind](self, command, transition)

    def publish(self, topic: str, body: Buffer, *, defer: int | None = None) -> Request:
        """Make and send a PUB, or with `defer` in milliseconds a DPUB: see `send`."""
        request = self.send(
            build(nsq.Publish, topic=topic, body=body)
            if defer is None
            else build(nsq.DeferredPublish, topic=topic, defer_time=defer, body=body)
        )
        assert request is not None
        return request

    def publish_many(self, topic: str, bodies: Iterable[Buffer]) -> Request:
        """Make and send an MPUB: see `send`."""
        request = self.send(build(nsq.MultiPublish, topic=topic, bodies=bodies))
        assert request is not None
        return request

    def subscribe(self, topic: str, channel: str) -> Request:
        """Make and send a SUB: see `send`."""
        request = self.send(build(nsq.Sub, topic=topic, channel=channel))
        assert request is not None
        return request

    def ready(self, count: int) -> None:
        """Send RDY: the server may have so many messages in flight here; 0 pauses it."""
        self.send(build(nsq.Ready, count=count))

    def requeue(self, message: nsq.MessageFrame, delay: int = 0) -> None:
        """Answer a message: it is to be delivered again, after so many milliseconds. Raises as `finish` does."""
        if not self.holds(message):
            self._refuse_answer()
        self._settle(message, build(nsq.Requeue, message_id=message.message_id, timeout=delay).encode())

    def touch(self, message: nsq.MessageFrame) -> None:
        """Ask for more time for a message. Raises as `finish` does."""
        if not self.holds(message):
            self._refuse_answer()
        message_id = message.message_id
        self._touched.append(message_id)
        self._put(b"TOUCH %b\n" % message_id)

    def secured(self, now: float) -> list[ClientEvent]:
        """TLS is up: from now on `receive` is given what TLS has decrypted, and `data_to_send` is what it encrypts."""
        self._handshake_done(now)
        self._trailing = b""
        self._decoder = self._make_decoder()
        return self._go_on()

    def close(self, *, immediate: bool = False) -> list[ClientEvent]:
        """End. The protocol has no closing message: what is queued still goes, then the transport is closed. A consumer says
        CLS before and finishes what is in flight, or the server delivers it again.

        With `immediate` what is queued is dropped.
        """
        self._check_over()
        if immediate:
            return self._drop()
        events: list[Event] = []
        self._end("local", None, "closed by the host", events)
        return events

    def changes(self) -> list[Change]:
        """What a journal must keep since the last call: see `Session.changes`."""
        return self.session.changes() if self.session is not None else []

    def _enter(self, state: State) -> None:
        super()._enter(state)
        self._at_once = 1 if state in _STEPS else STEP
        plain = self.session is None
        authorised = self.authenticated or self.negotiated is None or not self.negotiated.auth_required
        self._allow(
            self._flowing,
            plain and self._receives[state].get("OK") is state,
            plain and authorised and self._sends[state].get("PUB") is state,
        )

    # ---- time

    def next_timeout(self) -> float | None:
        return self._deadlines.clock if self._touched else self._deadlines.next()

    def _advance(self, now: float) -> None:
        """The time of TOUCHes since the last call that brought it."""
        self._deadlines.advance(now)
        if self._touched:
            for message_id in self._touched:
                self._in_flight.touch(message_id, self._deadlines.clock)
            self._touched.clear()

    def _heard(self) -> None:
        self._keepalive.received()
        self._moment = Moment(self._deadlines.clock)

    def _due(self, name: str, events: list[Event]) -> None:
        if name == "in flight":
            self._expire(events)
        else:
            super()._due(name, events)

    def _send_keepalive(self) -> None:
        if self._may_nop():
            self._put(_NOP)

    def _expire(self, events: list[Event]) -> None:
        flight, clock = self._in_flight, self._deadlines.clock
        events += [TimedOut(arrival.message) for arrival in flight.expire(clock)]
        if self.options.touch:
            for message_id in flight.to_touch(clock):
                flight.touch(message_id, clock)
                self._put(b"TOUCH %b\n" % message_id)
        self._watch()

    def _watch(self) -> None:
        when = self._in_flight.next()
        if self.options.touch and (touch := self._in_flight.next_touch()) is not None:
            when = touch if when is None else min(when, touch)
        self._watching = when is not None
        if when is not None:
            self._deadlines.set("in flight", when)

    # ---- reading

    def _make_decoder(self) -> nsq.Decoder:
        return nsq.Decoder(side="server", limits=Limits(frame_size=self.options.frame_size))

    def _step(self) -> int:
        return 0 if self._handshaking else self._at_once

    def _on_heartbeat(self, message: nsq.Response, events: list[Event]) -> None:
        if self._may_nop():
            self._put(_NOP)

    def _may_nop(self) -> bool:
        return isinstance(self._sends[self._state]["NOP"], State)

    def _on_ok(self, message: nsq.Response, events: list[Event]) -> None:
        match self._state:
            case State.IDENTIFYING:
                self._identified(message, (), events)
            case State.SECURING | State.COMPRESSING:
                self._upgraded(message, events)
            case _:
                request = self._answered(message, events)
                if isinstance(request.command, nsq.Sub):
                    negotiated = self.negotiated or Negotiated()
                    self._in_flight = InFlight(negotiated.msg_timeout / 1000, negotiated.max_msg_timeout / 1000)
                    self._deadlines.cancel("answer")

    def _on_json(self, message: nsq.Response, events: list[Event]) -> None:
        if self._state is State.AUTHENTICATING:
            self._answered(message, events)
            self._deadlines.cancel("answer")
            self.authenticated = True
            self.state = State.INIT
            self._resume_session(events)
            return
        members = message.members
        assert members is not None
        self._identified(message, members, events)

    def _on_close_wait(self, message: nsq.Response, events: list[Event]) -> None:
        self._answered(message, events)

    def _answered(self, message: nsq.Response, events: list[Event]) -> Request:
        """The first command that awaits an answer has it, if it is of its kind."""
        requests = self._requests
        if not requests or (message.data == b"CLOSE_WAIT") is not isinstance(requests[0].command, nsq.Close):
            raise RemoteProtocolError(f"no command awaits {message.data[:40]!r}")
        request = requests.popleft()
        if self.session is not None:
            self.session.finish(request)
        events.append(Acknowledged(request, message))
        if self._replay:
            self._send_again()
        if self._window_closed and self.send_quota:
            self._window_closed = False
            events.append(WindowOpened(self.send_quota))
        return request

    def _on_message(self, message: nsq.MessageFrame, events: list[Event]) -> None:
        message_id = message.message_id
        records = self._in_flight.by_id
        if message_id in records or len(records) >= self._most_ready:
            self._overtake(message_id, events)
        records[message_id] = Arrival(message, self._moment)
        if not self._watching:
            self._watch()
        events.append(message)

    def _overtake(self, message_id: bytes, events: list[Event]) -> None:
        """The server counts no more than RDY says, so it has taken a message of ours to be timed out: the earlier delivery of
        this one, or the oldest."""
        if not self._most_ready:
            raise RemoteProtocolError("a message before RDY")
        records = self._in_flight.by_id
        over = message_id if message_id in records else next(iter(records))
        events.append(TimedOut(records.pop(over).message))

    def _on_error(self, message: nsq.Error, events: list[Event]) -> None:
        self.failures += 1
        words = message.text.split(" ")
        message_id = words[1].encode("latin-1", "replace") if len(words) > 1 else b""
        arrival = self._in_flight.by_id.pop(message_id, None)  # TOUCH has arrived too late
        if arrival is not None:
            events.append(TimedOut(arrival.message))
        events.append(message)

    def _on_fatal(self, message: nsq.Error, events: list[Event]) -> None:
        code = message.code
        # E_INVALID may be about a command that has no answer: it begins with the name of the command, if that is not "cannot"
        if self._requests and (
            code != ErrorCode.E_INVALID or message.text.startswith(f"{self._requests[0].command.name} ")
        ):
            request = self._requests.popleft()
            if self.session is not None:
                self.session.finish(request)
            events.append(Acknowledged(request, message))
        self._end("peer", code, message.text, events, message=message)

    # ---- IDENTIFY and upgrades

    def _identified(self, message: nsq.Response, members: Iterable[tuple[str, Any]], events: list[Event]) -> None:
        identify = self._identify
        assert identify is not None
        said = dict(members)
        for name in ("tls_v1", "deflate", "snappy"):
            if said.get(name) is True and getattr(identify, name) is not True:
                raise RemoteProtocolError(f"the server agrees to {name}, which IDENTIFY has not asked for")
        if said.get("deflate") is True and said.get("snappy") is True:
            raise RemoteProtocolError("the server agrees to deflate and snappy")
        interval = identify.heartbeat_interval
        before = self.negotiated or Negotiated()
        self._agreed = Negotiated(
            heartbeat_interval=HEARTBEAT_INTERVAL if not interval else max(interval, 0),
            msg_timeout=_positive(said.get("msg_timeout")) or identify.msg_timeout or before.msg_timeout,
            max_msg_timeout=_positive(said.get("max_msg_timeout")) or before.max_msg_timeout,
            max_rdy_count=_positive(said.get("max_rdy_count")) or before.max_rdy_count,
            tls=said.get("tls_v1") is True,
            deflate=said.get("deflate") is True,
            deflate_level=min(_positive(said.get("deflate_level")) or DEFLATE_LEVEL, 9),
            snappy=said.get("snappy") is True,
            sample_rate=_positive(said.get("sample_rate")) or 0,
            auth_required=said.get("auth_required") is True,
            members=tuple(said.items()),
        )
        self._answer = message
        if self._agreed.tls:
            self.state = State.SECURING
            self._handshaking = True
            events.append(StartTls())
        else:
            self._compress_or_connect(events)

    def _upgraded(self, message: nsq.Response, events: list[Event]) -> None:
        if self._state is State.SECURING:
            self._compress_or_connect(events)
        else:
            self._connected(events)

    def _compress_or_connect(self, events: list[Event]) -> None:
        """What follows the answer to IDENTIFY, or OK under TLS."""
        assert self._agreed is not None
        if self._compressor is None:
            self._connected(events)
            return
        if not (self._agreed.deflate or self._agreed.snappy):
            self._compressor = None
            self._connected(events)
            return
        if self._agreed.deflate and isinstance(self._compressor, Deflate):
            self._compressor = Deflate(self._agreed.deflate_level)
        self._compressor.feed(self._decoder.rest())
        self._change_carrier(self._compressor)
        self.state = State.COMPRESSING

    def _connected(self, events: list[Event]) -> None:
        negotiated = self.negotiated = self._agreed
        assert negotiated is not None
        self._deadlines.cancel("answer")
        self._start_keepalive(negotiated.heartbeat_interval)
        self.state = State.INIT
        events.append(Connected(negotiated, self._answer))
        self._identify = self._agreed = self._answer = None
        if not negotiated.auth_required:
            self._resume_session(events)

    def _start_keepalive(self, interval: int) -> None:
        seconds = interval / 1000 or None
        self._keep_alive(send_every=seconds, expect_within=seconds and 2 * seconds)

    def _resume_session(self, events: list[Event]) -> None:
        """Send again what has not been answered, in the order first sent."""
        if self.session is not None:
            self._replay.extend(self.session.pending.values())
            self._send_again()
            self._window_closed = not self.send_quota

    def _send_again(self) -> None:
        while self._replay and len(self._requests) < self.options.unanswered:
            if self.pending_bytes > self.options.pending_bytes // 2:
                break
            request = self._replay.popleft()
            self._put(request.command.encode())
            self._requests.append(request)

    # ---- writing

    def _put(self, data: bytes) -> None:
        self._outbox.put(data)

    def _begin(self) -> None:
        """The magic, before the first command."""
        if self._state is State.IDLE:
            self._put(b"  V2")
            self._start_keepalive(HEARTBEAT_INTERVAL)

    def _check_answered(self) -> None:
        if self._requests or self._replay:
            raise LocalProtocolError(f"{len(self._requests) + len(self._replay)} commands await their answer")

    def _send_magic(self, command: nsq.Magic, state: State) -> None:
        self._begin()
        self.state = state

    def _send_identify(self, command: nsq.Identify, state: State) -> None:
        self._check_answered()
        compressor: Compression | None = None
        if command.feature_negotiation is True:
            if self._carrier is not None and (command.deflate or command.snappy):
                raise LocalProtocolError("the connection is compressed already")
            if command.deflate and command.snappy:
                raise LocalProtocolError("deflate or snappy, not both", reply=ErrorCode.E_IDENTIFY_FAILED)
            try:
                compressor = Snappy() if command.snappy else Deflate() if command.deflate else None
            except ImportError:
                raise LocalProtocolError("snappy needs cramjam (wirefmt[snappy])") from None
        self._begin()
        self._put(command.encode())
        self._identify = command
        self._compressor = compressor
        self._deadlines.start("answer", self.options.answer_timeout)
        self.state = state

    def _send_request(self, command: nsq.Auth | nsq.Sub, state: State) -> Request:
        self._check_answered()
        if isinstance(command, nsq.Sub) and self.negotiated is not None and not self.negotiated.heartbeat_interval:
            raise LocalProtocolError("SUB needs heartbeats", reply=ErrorCode.E_INVALID)
        request = self._send_answered(command)
        self._deadlines.start("answer", self.options.answer_timeout)
        self.state = state
        return request

    def _send_publishing(self, command: Publication, state: State) -> Request:
        if not self.send_quota:
            self._window_closed = True
            raise LocalProtocolError(f"{len(self._requests) + len(self._replay)} commands await their answer")
        if self.negotiated is not None and self.negotiated.auth_required and not self.authenticated:
            raise LocalProtocolError("the server requires AUTH first", reply=ErrorCode.E_AUTH_FIRST)
        request = self._send_answered(command)
        if self.session is not None:
            self.session.add(request)
        self.state = state
        return request

    def _send_answered(self, command: nsq.Command) -> Request:
        data = command.encode()
        self._check_pending(len(data))
        self._begin()
        self._put(data)
        request = Request(self.session.next_number() if self.session is not None else self._number(), command)
        self._requests.append(request)
        return request

    def _send_close(self, command: nsq.Close, state: State) -> Request:
        request = self._send_answered(command)
        self.ready_count = 0
        self.state = state
        return request

    def _send_ready(self, command: nsq.Ready, state: State) -> None:
        most = (self.negotiated or Negotiated()).max_rdy_count
        count = command.count
        if count is None or count > most:
            raise LocalProtocolError(f"RDY {count}: the server takes up to {most}", reply=ErrorCode.E_INVALID)
        self._put(command.encode())
        self.ready_count = count
        self._most_ready = max(self._most_ready, count)

    def _send_nop(self, command: nsq.Nop, state: State) -> None:
        self._begin()
        self._put(_NOP)
        self.state = state

    def _send_answer(self, command: nsq.Finish | nsq.Requeue | nsq.Touch, state: State) -> None:
        arrival = self._in_flight.by_id.get(command.message_id or b"")
        if arrival is None:
            raise LocalProtocolError("the message is not in flight", reply=f"E_{command.name}_FAILED")
        if isinstance(command, nsq.Touch):
            self.touch(arrival.message)
        else:
            self._settle(arrival.message, command.encode())

    def _settle(self, message: nsq.MessageFrame, data: bytes) -> None:
        del self._in_flight.by_id[message.message_id]
        self._put(data)

    def _refuse_answer(self) -> NoReturn:
        self._check_over()
        raise LocalProtocolError("this message does not wait for an answer: it has had one, or its time is over")

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        self._in_flight.clear()
        requests = tuple(self._requests)
        self._requests.clear()
        self._replay.clear()
        if self.session is None:
            return (), requests
        self.session.held = False
        resumable = tuple(self.session.pending.values())
        return resumable, tuple(r for r in requests if not isinstance(r.command, _PUBLISHING))

    _handlers: ClassVar[dict[str, Callable[[Any, Any, list[Event]], None]]] = {
        "OK": _on_ok,
        "JSON": _on_json,
        "JSON with tls_v1": _on_json,
        "JSON with compression": _on_json,
        "CLOSE_WAIT": _on_close_wait,
        "heartbeat": _on_heartbeat,
        "error": _on_error,
        "fatal error": _on_fatal,
        "message": _on_message,
    }
    _senders: ClassVar[dict[str, Callable[[Any, Any, State], Request | None]]] = {
        "magic": _send_magic,
        "IDENTIFY": _send_identify,
        "AUTH": _send_request,
        "SUB": _send_request,
        "PUB": _send_publishing,
        "MPUB": _send_publishing,
        "DPUB": _send_publishing,
        "RDY": _send_ready,
        "FIN": _send_answer,
        "REQ": _send_answer,
        "TOUCH": _send_answer,
        "CLS": _send_close,
        "NOP": _send_nop,
    }


#: States of a client in which the bytes after a frame may belong to something else: it reads one frame at a time.
_STEPS: Final = frozenset((State.IDENTIFYING, State.SECURING, State.COMPRESSING))


def _positive(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 53 else 0
