"""The server's side of an NSQ connection, without I/O.

docs/connections.md describes the contract, docs/nsq-connection.md the states. Where the specification is silent, a server does
what nsqd 1.3.0 does.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wirefmt import nsq
from wirefmt._core import ANSWER_CAPACITY
from wirefmt.connection.carriers import Deflate, Snappy
from wirefmt.connection.contract import Acknowledged, Connected, StartTls, WindowOpened
from wirefmt.connection.deadlines import Keepalive
from wirefmt.connection.endpoint import Fault
from wirefmt.connection.states import Role, Violation
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.framing import Limits
from wirefmt.nsq._codec import Delivery, ServerFlows, size_of
from wirefmt.nsq.codes import ErrorCode
from wirefmt.nsq.endpoint import Endpoint, build, kind_of
from wirefmt.nsq.events import (
    DEFLATE_LEVEL,
    HEARTBEAT_INTERVAL,
    Asked,
    ConnectionOptions,
    Event,
    Negotiated,
    Publication,
    Requeued,
    ServerEvent,
    TimedOut,
)
from wirefmt.nsq.inflight import InFlight
from wirefmt.nsq.refusals import refusal
from wirefmt.nsq.spec import LINE_MAX
from wirefmt.nsq.states import State

if TYPE_CHECKING:
    from typing_extensions import Buffer

_OK: Final = nsq.Response(b"OK").encode()
_CLOSE_WAIT: Final = nsq.Response(b"CLOSE_WAIT").encode()
_HEARTBEAT: Final = nsq.Response(b"_heartbeat_").encode()
#: Size, frame type, timestamp, attempts, message id of a message frame.
_MESSAGE: Final = struct.Struct(">iiqH16s")
_MESSAGE_REST: Final = 30  # what the size counts next to the body

_PUBLISHING: Final = (nsq.Publish, nsq.MultiPublish, nsq.DeferredPublish)


#: States of a server in which nothing is read.
_DECIDING: Final = frozenset((State.IDENTIFYING, State.SECURING, State.AUTHENTICATING, State.SUBSCRIBING))


class _Reply:
    """What a command is answered. `answer`: None until the host has decided; `then`: what follows once it is queued."""

    __slots__ = ("answer", "event", "size", "then")

    def __init__(self, event: Any, size: int = 0, answer: bytes | None = None) -> None:
        self.event = event
        self.size = size
        self.answer = answer
        self.then: Callable[[list[Event]], None] | None = None


class ServerConnection(Endpoint[ServerEvent], ServerFlows):
    """The server's side of one connection.

    Events and their answers:

    - `nsq.Identify`: `accept`, `refuse`. Nothing else is read before. `Connected` follows, after the upgrades.
    - `StartTls`: `secured` or `tls_failed`.
    - `nsq.Auth`: `accept` with what is known of the client, `refuse`.
    - `nsq.Sub`: `accept`, `refuse`.
    - `nsq.Publish`, `nsq.MultiPublish`, `nsq.DeferredPublish`: `acknowledge`, `refuse`. Answers leave in the order of the
      commands, whatever the order of the calls.

    Events that have no answer: `WindowOpened` (the client has space for messages again); `Acknowledged` (FIN), `Requeued` (REQ)
    and `TimedOut`, one of them for each message sent; `nsq.Close`; `Disconnected`, whose `lost` are the messages in flight:
    the host puts them into their channel again. Refusing anything ends the connection, as every error of nsqd does but the
    three about messages that are not in flight.

    Args:
        now: the time at which the transport was accepted.
        options: limits and times.
    """

    role = Role.SERVER
    _frequent = nsq.Finish
    _late: ClassVar[Mapping[str, tuple[str, Any]]] = {
        Keepalive.EXPECT: ("no command has arrived within two heartbeat intervals", None),
        "identify": ("no command has arrived in time", None),
        "tls": ("the TLS handshake has not been complete in time", None),
    }

    def __init__(self, now: float, options: ConnectionOptions | None = None) -> None:
        self._settled = False  # IDENTIFY cannot bring an upgrade any more
        super().__init__(now, options)
        self._configure(self.options.pending_bytes, Acknowledged)
        #: What IDENTIFY has said.
        self.identify: nsq.Identify | None = None
        #: What the client has subscribed to.
        self.subscription: nsq.Sub | None = None
        self.secure = False
        self.authenticated = False
        self._asked: _Reply | None = None  # the request that the host decides about
        self._agreed: Negotiated | None = None
        self._failing = False  # the end waits for earlier answers
        self._replies: deque[_Reply] = deque()
        self._waiting: dict[int, _Reply] = {}  # by id of the event
        self._undecided_bytes = 0
        self._in_flight: InFlight[Delivery] = InFlight(60.0, 900.0)
        self._watching = False  # the timer "in flight" runs
        self._deadlines.start("identify", self.options.identify_timeout)
        self._restrict()

    # ---- for the host

    @property
    def undecided(self) -> int:
        """Commands that wait for an answer of the host."""
        return len(self._waiting) + (self._asked is not None) + self._handshaking

    @property
    def in_flight(self) -> int:
        """Messages in flight at the client."""
        return len(self._in_flight)

    @property
    def deliveries(self) -> list[Delivery]:
        """Those."""
        return list(self._in_flight.by_id.values())

    @property
    def send_quota(self) -> int:
        """How many messages the client has space for."""
        return max(self.ready_count - len(self._in_flight), 0) if self._state is State.SUBSCRIBED else 0

    def accept(self, event: Asked, **members: Any) -> list[ServerEvent]:
        """Accept IDENTIFY, AUTH or SUB.

        Args:
            members: further members of the answer's JSON. AUTH: `identity`, `identity_url`, `permission_count`.

        Returns events that had to wait for this answer.

        Raises LocalProtocolError if the command does not wait for an answer.
        """
        reply = self._take_asked(event)
        then: Callable[[list[Event]], None]
        if isinstance(event, nsq.Identify):
            agreed, answer = self._negotiate(event, members)
            reply.answer, then = answer, lambda events: self._identified(event, agreed, events)
        elif isinstance(event, nsq.Auth):
            said = {"identity": "", "identity_url": "", "permission_count": 0, **members}
            reply.answer, then = build(nsq.Response, members=said).encode(), lambda events: self._authenticate()
        else:
            reply.answer, then = _OK, lambda events: self._subscribe(event)
        reply.then = then
        self._asked = None
        return self._answer_due()

    def acknowledge(self, event: Publication) -> list[ServerEvent]:
        """Answer PUB, MPUB or DPUB once the host owns the message. Returns events that had to wait for this answer.

        Raises LocalProtocolError if the command does not wait for an answer.
        """
        if self._over:
            self._check_over()
        reply = self._waiting.pop(id(event), None)
        if reply is None:
            raise LocalProtocolError("this command does not wait for an answer")
        self._undecided_bytes -= reply.size
        replies = self._replies
        if self._reading and replies[0] is reply:
            replies.popleft()
            self._outbox.put(_OK)
            if not replies or replies[0].answer is None:
                return []
        else:
            reply.answer = _OK
        return self._answer_due()

    def refuse(self, event: Asked | Publication, code: str, text: str = "") -> list[ServerEvent]:
        """Refuse a command with an error, and end the connection once the commands before it are answered.

        Args:
            code: one of ErrorCode, as E_SUB_FAILED
            text: what follows the code.

        Raises LocalProtocolError if the command does not wait for an answer.
        """
        self._check_over()
        error = _error(code, text)
        if self._asked is not None and self._asked.event is event:
            reply, self._asked = self._asked, None
        else:
            found = self._waiting.pop(id(event), None)
            if found is None:
                raise LocalProtocolError("this command does not wait for an answer")
            reply = found
            self._undecided_bytes -= reply.size
        reply.answer = error.encode()
        reply.then = lambda events: self._end("local", code, text or code, events)
        self._failing = True
        return self._answer_due()

    def send(self, message: nsq.MessageFrame) -> Delivery:
        """Send a message. Its handle is in flight until `Acknowledged`, `Requeued`, `TimedOut` or `Disconnected` names it.

        Raises LocalProtocolError if the client has no space, or the message is not legal now; nothing has changed then.
        """
        self._check_over()
        kind = kind_of(message)
        transition = self._sends[self._state].get(kind)
        if transition is None:
            raise LocalProtocolError(f"a server sends frames, not a command: {kind}")
        if isinstance(transition, Violation):
            raise LocalProtocolError(transition.rule, reply=transition.reply)
        if not isinstance(message, nsq.MessageFrame):
            raise LocalProtocolError(f"{kind} is sent by {_SENT_BY[kind]}")
        return self.deliver(message.message_id, message.body, message.timestamp, message.attempts)

    def _deliver(self, message_id: bytes, body: Buffer, timestamp: int, attempts: int, host: Any) -> Delivery:
        """`deliver` of what is not plain, or not legal."""
        if self._state is not State.SUBSCRIBED:
            self._check_over()
            transition = self._sends[self._state]["message"]
            assert isinstance(transition, Violation)
            raise LocalProtocolError(transition.rule)
        flight = self._in_flight
        if len(flight) >= self.ready_count:
            raise LocalProtocolError(f"the client has no space: RDY {self.ready_count}")
        if len(message_id) != 16 or message_id in flight.by_id:
            raise LocalProtocolError(f"{message_id!r} has not 16 bytes, or is in flight")
        if type(body) is not bytes:
            body = bytes(body)
        size = len(body)
        self._check_pending(size)
        try:
            head = _MESSAGE.pack(size + _MESSAGE_REST, 2, timestamp, attempts & 0xFFFF, message_id)
        except struct.error as error:
            raise LocalProtocolError(str(error)) from None
        self._outbox.put(head)
        self._outbox.put(body)
        message_id = bytes(message_id)
        delivery = Delivery(self._number(), message_id, attempts, flight.moment(), host)
        flight.by_id[message_id] = delivery
        return delivery

    def secured(self, now: float) -> list[ServerEvent]:
        """TLS is up: from now on `receive` is given what TLS has decrypted, and `data_to_send` is what it encrypts."""
        self._handshake_done(now)
        self._drop_unread()
        self.secure = True
        self._outbox.put(_OK)
        self._deadlines.cancel("tls")
        events: list[Event] = []
        self._compress(events)
        return events + self._go_on()

    def tls_failed(self, reason: str = "") -> list[ServerEvent]:
        """The TLS handshake has failed: say so without TLS, as nsqd does, and end."""
        self._check_over()
        if not self._handshaking:
            raise LocalProtocolError("no TLS handshake runs")
        events: list[Event] = []
        self._outbox.put(_error(ErrorCode.E_IDENTIFY_FAILED, f"IDENTIFY failed {reason}").encode())
        self._end("local", ErrorCode.E_IDENTIFY_FAILED, reason, events)
        return events

    def close(self, code: str | None = None, text: str = "", *, immediate: bool = False) -> list[ServerEvent]:
        """End. The protocol has no closing message; with `code` an error says why.

        With `immediate` what is queued is dropped.
        """
        self._check_over()
        if immediate:
            return self._drop()
        events: list[Event] = []
        if code is not None:
            self._outbox.put(_error(code, text).encode())
        self._end("local", code, text or "closed by the host", events)
        return events

    # ---- time

    def _advance(self, now: float) -> None:
        """The time of messages sent since the last call that brought it."""
        super()._advance(now)
        if self._in_flight.waits_for_time:
            self._in_flight.advance(self._deadlines.clock)
            if not self._watching:
                self._watch()

    def _heard(self) -> None:
        """Only whole commands count: see `_handle`."""

    def next_timeout(self) -> float | None:
        if self._in_flight.waits_for_time:
            return self._deadlines.clock
        return self._deadlines.next()

    def _due(self, name: str, events: list[Event]) -> None:
        match name:
            case "heartbeat":
                if self._state not in (State.IDENTIFYING, State.SECURING):
                    self._outbox.put(_HEARTBEAT)
                if self.pending_bytes > self.options.pending_bytes + ANSWER_CAPACITY:
                    self._end("local", None, "the client does not read", events)
                else:
                    self._deadlines.set("heartbeat", self._deadlines.clock + self._interval)
            case "in flight":
                closed = not self.send_quota
                events += [TimedOut(delivery) for delivery in self._in_flight.expire(self._deadlines.clock)]
                self._note_window(closed, events)
                self._watch()
            case _:
                super()._due(name, events)

    def _watch(self) -> None:
        when = self._in_flight.next()
        self._watching = when is not None
        if when is not None:
            self._deadlines.set("in flight", when)

    _interval = HEARTBEAT_INTERVAL / 1000

    def _start_heartbeat(self, interval: int) -> None:
        self._interval = interval / 1000
        self._deadlines.cancel("heartbeat")
        self._keep_alive(expect_within=2 * self._interval if interval else None)
        if interval:
            self._deadlines.start("heartbeat", self._interval)

    # ---- reading

    def _make_decoder(self) -> nsq.Decoder:
        server = self.options.server
        self._parser = nsq.Decoder(
            side="client",
            magic=self._decoder is None,
            limits=Limits(frame_size=server.max_body_size + LINE_MAX + 64, elements=server.max_body_size // 5 + 1),
            server=server,
        )
        return self._parser

    def _enter(self, state: State) -> None:
        super()._enter(state)
        self._deciding = state in _DECIDING

    def _step(self) -> int:
        if self._failing or self._deciding:
            return 0
        if self._undecided_bytes >= self.options.undecided_bytes:
            return 0
        capacity = self.options.undecided - len(self._waiting)
        return capacity if self._settled else min(capacity, 1)

    def _failed(self) -> bool:
        return self._failing or super()._failed()

    def _handle(self, messages: Sequence[Any], events: list[Event]) -> None:
        if messages:
            self._keepalive.received()
        if self._restricted:
            self._handle_restricted(messages, events)
        else:
            super()._handle(messages, events)

    def _handle_restricted(self, messages: Sequence[Any], events: list[Event]) -> None:
        """While TLS or AUTH is missing."""
        for at, message in enumerate(messages):
            if isinstance(message, nsq.Command) and not isinstance(message, nsq.Magic | nsq.Identify):
                if self.options.tls == "required" and not self.secure:
                    raise RemoteProtocolError(
                        f"cannot {message.name} in current state (TLS required)", reply=ErrorCode.E_INVALID
                    )
                needs = isinstance(message, (nsq.Sub, *_PUBLISHING))
                if needs and self.options.auth_required and not self.authenticated:
                    raise RemoteProtocolError(f"AUTH required before {message.name}", reply=ErrorCode.E_AUTH_FIRST)
            super()._handle((message,), events)
            if self._held:
                self._held = messages[at:]
            if self._held or self._over:
                return

    def _restrict(self) -> None:
        """Do commands need a further look?"""
        self._restricted = (self.options.tls == "required" and not self.secure) or (
            self.options.auth_required and not self.authenticated
        )
        self.state = self._state

    def _reply_to(self, error: Fault) -> str | None:
        reply = error.reply
        if not isinstance(reply, str):
            return None
        text = b""
        if not isinstance(error, DecodeError):
            text = str(error).encode()
        elif reply != ErrorCode.E_BAD_PROTOCOL:
            text = refusal(error, self._parser._faulty or (b"", b""), self.options.server)
        self._outbox.put(nsq.Error(b" ".join(filter(None, (reply.encode(), text)))).encode())
        return reply

    def _fault(self, error: Fault, events: list[Event]) -> None:
        if self._held or not self._replies:
            super()._fault(error, events)
        elif not self._failing:  # the commands before it are answered first
            self._failing = True
            reply = _Reply(None, answer=b"")
            reply.then = lambda events: super(ServerConnection, self)._fault(error, events)
            self._replies.append(reply)
            self._note_reading()

    def _violated(self, kind: str, rule: Violation) -> RemoteProtocolError:
        text = rule.rule if kind == "magic" else f"cannot {kind} in current state"
        return RemoteProtocolError(text, reply=rule.reply)

    def _on_magic(self, message: nsq.Magic, events: list[Event]) -> None:
        self._start_heartbeat(self.options.heartbeat_interval)

    def _ask(self, event: Asked, events: list[Event]) -> None:
        self._deadlines.cancel("identify")
        self._asked = _Reply(event)
        self._replies.append(self._asked)
        events.append(event)

    def _on_identify(self, message: nsq.Identify, events: list[Event]) -> None:
        self._ask(message, events)

    def _on_auth(self, message: nsq.Auth, events: list[Event]) -> None:
        if self.authenticated:
            raise RemoteProtocolError("AUTH already set", reply=ErrorCode.E_INVALID)
        if not self.options.auth_required:
            raise RemoteProtocolError("AUTH disabled", reply=ErrorCode.E_AUTH_DISABLED)
        self._ask(message, events)

    def _on_sub(self, message: nsq.Sub, events: list[Event]) -> None:
        if not self._keepalive.expect_within:
            raise RemoteProtocolError("cannot SUB with heartbeats disabled", reply=ErrorCode.E_INVALID)
        self._settled = True
        self._ask(message, events)

    def _on_publication(self, message: Publication, events: list[Event]) -> None:
        if not self._settled:
            self._settled = True
            self._deadlines.cancel("identify")
        size = size_of(message)
        reply = _Reply(message, size)
        self._replies.append(reply)
        self._waiting[id(message)] = reply
        self._undecided_bytes += size
        events.append(message)

    def _on_ready(self, message: nsq.Ready, events: list[Event]) -> None:
        count = message.count
        if count is None or count > self.options.server.max_rdy_count:
            raise RemoteProtocolError(
                f"RDY count {count} out of range 0-{self.options.server.max_rdy_count}", reply=ErrorCode.E_INVALID
            )
        closed = not self.send_quota
        self.ready_count = count
        self._note_window(closed, events)

    def _note_window(self, closed: bool, events: list[Event]) -> None:
        if closed and self.send_quota:
            events.append(WindowOpened(self.send_quota))

    def _on_finish(self, message: nsq.Finish, events: list[Event]) -> None:
        closed = not self.send_quota
        delivery = self._in_flight.by_id.pop(message.message_id or b"", None)
        if delivery is None:
            self._not_in_flight(message)
            return
        events.append(Acknowledged(delivery, message))
        self._note_window(closed, events)

    def _on_requeue(self, message: nsq.Requeue, events: list[Event]) -> None:
        closed = not self.send_quota
        delivery = self._in_flight.by_id.pop(message.message_id or b"", None)
        if delivery is None:
            self._not_in_flight(message)
            return
        events.append(Requeued(delivery, min(message.timeout or 0, self.options.server.max_req_timeout)))
        self._note_window(closed, events)

    def _on_touch(self, message: nsq.Touch, events: list[Event]) -> None:
        if not self._in_flight.touch(message.message_id or b"", self._deadlines.clock):
            self._not_in_flight(message)

    def _not_in_flight(self, message: nsq.Finish | nsq.Requeue | nsq.Touch) -> None:
        text = b"E_%b_FAILED %b %b failed ID not in flight"
        name = message.name.encode()
        self._outbox.put(nsq.Error(text % (name, name, message.message_id or b"")).encode())

    def _on_close(self, message: nsq.Close, events: list[Event]) -> None:
        if self._replies:
            self._replies.append(_Reply(None, answer=_CLOSE_WAIT))
        else:
            self._outbox.put(_CLOSE_WAIT)
        events.append(message)

    def _on_nop(self, message: nsq.Nop, events: list[Event]) -> None:
        pass

    # ---- answers

    def _take_asked(self, event: Asked) -> _Reply:
        self._check_over()
        if self._asked is None or self._asked.event is not event:
            raise LocalProtocolError("this command does not wait for an answer")
        return self._asked

    def _answer_due(self) -> list[ServerEvent]:
        """Queue the answers whose turn has arrived, and go on reading if there is space again."""
        events: list[Event] = []
        replies = self._replies
        while replies and replies[0].answer is not None and not self._over:
            reply = replies.popleft()
            assert reply.answer is not None
            self._outbox.put(reply.answer)
            if reply.then is not None:
                reply.then(events)
        return events + self._go_on()

    def _negotiate(self, identify: nsq.Identify, members: Mapping[str, Any]) -> tuple[Negotiated, bytes]:
        """What is agreed on, and the answer that says so."""
        options, server = self.options, self.options.server
        interval = identify.heartbeat_interval or options.heartbeat_interval
        timeout = identify.msg_timeout or options.msg_timeout
        features = identify.feature_negotiation is True
        may = features and not self._settled
        deflate = may and server.deflate and identify.deflate is True and self._carrier is None
        snappy = may and server.snappy and identify.snappy is True and self._carrier is None and _has_snappy()
        level = identify.deflate_level or 0
        agreed = Negotiated(
            heartbeat_interval=max(interval, 0),
            msg_timeout=timeout,
            max_msg_timeout=server.max_msg_timeout,
            max_rdy_count=server.max_rdy_count,
            tls=may and options.tls != "no" and identify.tls_v1 is True and not self.secure,
            deflate=deflate,
            deflate_level=min(level, DEFLATE_LEVEL) if level > 0 else DEFLATE_LEVEL,
            snappy=snappy,
            sample_rate=identify.sample_rate or 0,
            auth_required=options.auth_required,
        )
        if not features:
            return agreed, _OK
        buffer_size, buffer_timeout = identify.output_buffer_size, identify.output_buffer_timeout
        said = {
            "max_rdy_count": server.max_rdy_count,
            "version": options.version,
            "max_msg_timeout": server.max_msg_timeout,
            "msg_timeout": timeout,
            "tls_v1": agreed.tls,
            "deflate": deflate,
            "deflate_level": agreed.deflate_level if deflate else 0,
            "max_deflate_level": DEFLATE_LEVEL,
            "snappy": snappy,
            "sample_rate": agreed.sample_rate,
            "auth_required": options.auth_required,
            "output_buffer_size": 1 if buffer_size == -1 else buffer_size or 16384,
            "output_buffer_timeout": 0 if -1 in (buffer_size, buffer_timeout) else buffer_timeout or 250,
            **members,
        }
        return agreed, build(nsq.Response, members=said).encode()

    def _identified(self, identify: nsq.Identify, agreed: Negotiated, events: list[Event]) -> None:
        self.identify = identify
        self._agreed = agreed
        self._start_heartbeat(agreed.heartbeat_interval)
        if agreed.tls or agreed.deflate or agreed.snappy:
            self._drop_unread()  # as nsqd: what follows IDENTIFY without waiting is thrown away
        if agreed.tls:
            self.state = State.SECURING
            self._handshaking = True
            self._deadlines.start("tls", self.options.identify_timeout)
            self._note_reading()
            events.append(StartTls())
        else:
            self._compress(events)

    def _drop_unread(self) -> None:
        try:
            self._decoder.rest()
        except DecodeError:
            pass
        self._decoder = self._make_decoder()
        self._trailing = b""
        self._held, self._fault_after = (), None

    def _compress(self, events: list[Event]) -> None:
        """Compression follows, if it is agreed on; then the negotiation is complete."""
        agreed, self._agreed = self._agreed, None
        assert agreed is not None
        if agreed.deflate or agreed.snappy:
            self._change_carrier(Snappy() if agreed.snappy else Deflate(agreed.deflate_level))
            self._outbox.put(_OK)
        self.negotiated = agreed
        self._restrict()
        self.state = State.INIT
        events.append(Connected(agreed, self.identify))

    def _authenticate(self) -> None:
        self.authenticated = True
        self._restrict()
        self.state = State.INIT

    def _subscribe(self, sub: nsq.Sub) -> None:
        self.subscription = sub
        agreed = self.negotiated or Negotiated(msg_timeout=self.options.msg_timeout)
        self._in_flight = InFlight(agreed.msg_timeout / 1000, self.options.server.max_msg_timeout / 1000)
        self.state = State.SUBSCRIBED

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        self._replies.clear()
        self._waiting.clear()
        self._asked = None
        self._handshaking = False
        return (), self._in_flight.clear()

    _handlers: ClassVar[dict[str, Callable[[Any, Any, list[Event]], None]]] = {
        "magic": _on_magic,
        "IDENTIFY": _on_identify,
        "AUTH": _on_auth,
        "SUB": _on_sub,
        "PUB": _on_publication,
        "MPUB": _on_publication,
        "DPUB": _on_publication,
        "RDY": _on_ready,
        "FIN": _on_finish,
        "REQ": _on_requeue,
        "TOUCH": _on_touch,
        "CLS": _on_close,
        "NOP": _on_nop,
    }


#: What sends a frame that `send` does not.
_SENT_BY: Final[dict[str, str]] = {
    "OK": "accept() and acknowledge()",
    "JSON": "accept()",
    "JSON with tls_v1": "accept()",
    "JSON with compression": "accept()",
    "CLOSE_WAIT": "the connection itself",
    "heartbeat": "the connection itself",
    "error": "the connection itself",
    "fatal error": "refuse() and close()",
}


def _error(code: str, text: str) -> nsq.Error:
    return nsq.Error(f"{code} {text}".strip().encode())


def _has_snappy() -> bool:
    try:
        Snappy()
    except ImportError:
        return False
    return True
