"""What both roles of an AMQP 1.0 connection do: sessions, open and close, faults."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from wirefmt.amqp10._codec import (
    Attach,
    Begin,
    Close,
    ConnectionFlows,
    Decoder,
    Detach,
    Disposition,
    EmptyFrame,
    End,
    Error,
    Flow,
    Incoming,
    Modified,
    Open,
    Performative,
    ProtocolHeader,
    Rejected,
    Released,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)
from wirefmt.amqp10.codes import ErrorCondition
from wirefmt.amqp10.events import (
    SMALLEST_FRAME,
    UNLIMITED,
    Attaching,
    Change,
    ConnectionOptions,
    Event,
    Login,
    Negotiated,
    State,
    build,
)
from wirefmt.amqp10.links import Fault, Link
from wirefmt.amqp10.sessions import Session
from wirefmt.amqp10.states import RECEIVES, SENDS, SaslState, SessionState
from wirefmt.amqp10.states import State as ConnectionState
from wirefmt.amqp10.terminus import Terminus
from wirefmt.connection import endpoint
from wirefmt.connection.contract import Acknowledged, Connected
from wirefmt.connection.deadlines import Keepalive
from wirefmt.connection.endpoint import STEP, EventT
from wirefmt.connection.states import Outcome, Role, Violation
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.framing import Limits

#: Seconds: the shortest idle time-out of a peer that we accept (2.4.5).
SHORTEST_IDLE: Final = 0.1

HEADER: Final = ProtocolHeader(0).encode()
SASL_HEADER: Final = ProtocolHeader(3).encode()
_EMPTY: Final = EmptyFrame().encode()

_KINDS: dict[type[Any], str] = {
    Open: "open",
    Begin: "begin",
    Attach: "attach",
    Flow: "flow",
    Transfer: "transfer",
    Disposition: "disposition",
    Detach: "detach",
    End: "end",
    Close: "close",
    EmptyFrame: "empty frame",
    SaslMechanisms: "sasl-mechanisms",
    SaslInit: "sasl-init",
    SaslChallenge: "sasl-challenge",
    SaslResponse: "sasl-response",
}
#: The methods that send a performative, which `send` does not.
_SENT_BY: dict[str, str] = {
    "AMQP header": "open()",
    "SASL header": "open()",
    "open": "open() and accept()",
    "begin": "begin()",
    "attach": "session.sender(), session.receiver() and accept()",
    "flow": "grant(), drain(), drained() and the connection itself",
    "transfer": "link.send()",
    "disposition": "accept(), reject(), release(), modify() and settle()",
    "detach": "link.detach()",
    "end": "session.end()",
    "close": "close()",
    "empty frame": "the connection itself",
}


def kind_of(message: Any) -> str:
    """The kind of a performative or header in the tables of states."""
    kind = _KINDS.get(type(message))
    if kind is not None:
        return kind
    if isinstance(message, ProtocolHeader):
        return {0: "AMQP header", 3: "SASL header"}.get(message.protocol_id, "TLS header")
    if isinstance(message, SaslOutcome):
        return "sasl-outcome failed" if message.code else "sasl-outcome ok"
    raise LocalProtocolError(f"{type(message).__name__} is not a performative")


class Endpoint(endpoint.Endpoint[ConnectionState, EventT], ConnectionFlows):
    """What both roles do. Use `ClientConnection` or `ServerConnection`.

    Attributes:
        container_id: ours.
        sessions: the sessions by our channel number.
        state: the state (`State`), without the SASL layer.
        sasl_state: the state of the SASL layer; None: the connection has no SASL layer.
        negotiated: what both opens say; None before that.
        remote: the peer's open, or None.
    """

    role: Role
    options: ConnectionOptions
    _final_state = ConnectionState.END
    _exhausted = ErrorCondition.RESOURCE_LIMIT_EXCEEDED
    _late: ClassVar = {
        Keepalive.EXPECT: (
            "nothing has arrived within the idle time-out (2.4.5)",
            ErrorCondition.RESOURCE_LIMIT_EXCEEDED,
        ),
        "open": ("no open has arrived in time", None),
        "close": ("no close has arrived in time", None),
    }
    _unit = "frame"

    def __init__(self, now: float, container_id: str, options: ConnectionOptions | None) -> None:
        self.container_id = container_id
        self.sessions: dict[int, Session] = {}
        self.sasl_state: SaslState | None = None
        self.negotiated: Negotiated | None = None
        self.remote: Open | None = None
        self.attaching = 0  # attaches that wait for the host
        self.frame_limit = SMALLEST_FRAME
        self._changes: dict[tuple[str, bytes], Terminus] = {}
        self._undecided: Login | Open | None = None
        self._error: Error | None = None  # of our close
        self._spoken = False  # a valid frame or header has arrived
        super().__init__(now, options or ConnectionOptions(), ConnectionState.START)
        self._configure(self.options, Acknowledged)
        self._channel_max = self.options.sessions - 1

    def _enter(self, state: ConnectionState) -> None:
        self._opened = state is ConnectionState.OPENED

    def _make_decoder(self) -> Decoder:
        return Decoder(
            strictness="strict", limits=Limits(frame_size=self.options.frame_size, elements=self.options.elements)
        )

    @property
    def undecided(self) -> int:
        """Logins, opens, attaches and deliveries that wait for an answer of the host."""
        count = int(self._undecided is not None)
        for session in self.sessions.values():
            count += session.undecided
        return count

    # ---- out

    def send(self, message: Open) -> None:
        """Queue an open: see `open`. All other performatives are sent by methods of their session or link.

        Raises LocalProtocolError if the message is not legal now, or another method sends it.
        """
        kind = kind_of(message)
        if kind in _SENT_BY:
            transition = SENDS[self.role, self._state, kind]
            if isinstance(transition, Violation):
                raise LocalProtocolError(transition.rule, reply=transition.reply)
        raise LocalProtocolError(f"{kind} is sent by {_SENT_BY.get(kind, 'the connection itself')}")

    def begin(self, *, next_outgoing_id: int = 0, channel: int = 0, **fields: Any) -> Session:
        """Begin a session. `SessionBegun` comes with the peer's answer; links may be attached before.

        Args:
            next_outgoing_id: the id of the first transfer; any number.
            channel: the session has this number, or else the next one that is free.
            fields: further fields of begin: capabilities, properties.

        Raises LocalProtocolError if open has not been sent, or all channels are in use.
        """
        self.check("begin")
        session = Session(self, self._free_channel(channel), next_outgoing_id)
        session.put_begin(fields)
        self.sessions[session.channel] = session
        return session

    def _accept(self, event: Any, answer: dict[str, Any]) -> list[EventT]:
        """`accept` for an event that is not a delivery."""
        if not isinstance(event, Attaching):
            raise LocalProtocolError(f"{type(event).__name__} is not answered so")
        events: list[Event] = []
        if not self._waits(event):
            return events
        message = event.message
        answer.setdefault("source", message.source)
        answer.setdefault("target", message.target)
        event.link.session.accept(event, answer, answer.pop("terminus", None), events)
        event.answered = True
        return events

    def refuse(self, event: Any, error: Any = None) -> list[EventT]:
        """Answer an `Attaching` with no: an attach without the terminus, then a detach with the error (2.6.3).

        Raises LocalProtocolError if the event does not wait for an answer.
        """
        if not isinstance(event, Attaching):
            raise LocalProtocolError(f"{type(event).__name__} is not answered so")
        if self._waits(event):
            event.link.session.refuse(event.link, error or Error(condition=ErrorCondition.NOT_FOUND))
            event.answered = True
        return []

    def _waits(self, event: Attaching) -> bool:
        """True if the peer still waits for the answer. Raises LocalProtocolError if it was given before."""
        if event.answered:
            raise LocalProtocolError("this attach has been answered")
        return event.link.attaching is event and event.link.session.mapped

    def reject(self, delivery: Incoming, error: Error | None = None) -> None:
        """Answer `rejected`: the message is invalid (3.4.3)."""
        delivery.link.settle(delivery, Rejected(error=error), None)

    def release(self, delivery: Incoming) -> None:
        """Answer `released`: the message was not processed and can be delivered again (3.4.4)."""
        delivery.link.settle(delivery, _RELEASED, None)

    def modify(self, delivery: Incoming, **fields: Any) -> None:
        """Answer `modified`, with the fields `delivery_failed`, `undeliverable_here`, `message_annotations` (3.4.5)."""
        delivery.link.settle(delivery, build(Modified, **fields), None)

    def settle(self, delivery: Incoming, state: State, *, settled: bool | None = None) -> None:
        """Answer a delivery with any state: Declared, a TransactionalState.

        Args:
            settled: None: as the link's rcv-settle-mode says: in mode second the sender settles (2.6.12).

        Raises LocalProtocolError if the delivery has been answered, or its link is gone.
        """
        delivery.link.settle(delivery, state, settled)

    @property
    def pending_bytes(self) -> int:
        """Bytes queued and not taken, with those that wait for a session's window."""
        waiting = 0
        for session in self.sessions.values():
            if session.job is not None:
                waiting += len(session.job.payload) - session.job.at
        return super().pending_bytes + waiting

    def changes(self) -> list[Change]:
        """What a journal must keep since the last call, with `options.journaled`: deliveries of links with a Terminus."""
        if not self._changes:
            return []
        changes, self._changes = self._changes, {}
        return [
            terminus.put(tag)
            if tag in (terminus.outgoing if terminus.role == "sender" else terminus.incoming)
            else terminus.delete(tag)
            for (_, tag), terminus in changes.items()
        ]

    def close(self, error: Error | None = None, *, immediate: bool = False) -> list[EventT]:
        """End the connection with close; `Disconnected` comes with the peer's close, or when `close_timeout` is over.

        Args:
            error: why, if something is wrong.
            immediate: drop the connection and what is queued.

        Returns `Disconnected` if there is nothing to wait for. Harmless if close has been sent.
        """
        self._check_over()
        if immediate:
            return self._drop()
        events: list[Event] = []
        self._close(error, events)
        return events

    # ---- for sessions and links

    def put(self, data: bytes | memoryview) -> None:
        self._outbox.put(data)

    def _send_keepalive(self) -> None:
        if not self._closing:
            self.put(_EMPTY)

    def check(self, kind: str) -> None:
        """Raise LocalProtocolError if this performative is not legal now."""
        if not self._opened:
            transition = SENDS[self.role, self._state, kind]
            if isinstance(transition, Violation):
                raise LocalProtocolError(transition.rule, reply=transition.reply)

    @property
    def unfinished_bytes(self) -> int:
        return super().unfinished_bytes + self.unfinished

    def check_pending(self, size: int) -> None:
        """Raise LocalProtocolError if too many bytes are queued."""
        self._check_pending(size)

    def note(self, terminus: Terminus, tag: bytes) -> None:
        """Note a change of a delivery in a Terminus, for `changes`."""
        if self.options.journaled:
            self._changes[terminus.table, tag] = terminus

    unnote = note

    def find(self, name: str, sends: bool) -> Link | None:
        """A link by its name and direction, in any session."""
        for session in self.sessions.values():
            link = session.find(name, sends)
            if link is not None:
                return link
        return None

    def remove(self, session: Session) -> None:
        """Both sides have ended a session: its channels are free."""
        del self.sessions[session.channel]
        if session.remote_channel is not None:
            del self._by_remote[session.remote_channel]

    # ---- reading

    def _handle(self, messages: list[Any], events: list[Event]) -> None:
        at = 0
        while at < len(messages):
            try:
                at = self._flow(messages, at, events)
                if at < len(messages):
                    self._take(messages[at], events)
            except Fault as fault:
                at = self._at
                if fault.link is not None:
                    fault.link.fail(fault.error, events)
                else:
                    self._by_remote[messages[at].channel].fail(fault.error, events)
            if self._state is ConnectionState.END:
                return
            at += 1

    def _take(self, message: Any, events: list[Event]) -> None:
        """Handle a frame in any state."""
        kind = kind_of(message)
        if self.sasl_state not in (None, SaslState.DONE) or kind.lower().startswith("sasl"):
            self._take_sasl(kind, message, events)
            return
        transition = RECEIVES.get((self.role, self._state, kind), _UNKNOWN_HEADER)
        if isinstance(transition, Violation):
            raise RemoteProtocolError(transition.rule, reply=transition.reply)
        if transition is Outcome.DROPPED:
            return
        self._spoken = True
        match kind:
            case "AMQP header":
                assert isinstance(transition, ConnectionState)
                self.state = transition
                self._on_header()
            case "open":
                assert isinstance(transition, ConnectionState)
                self._on_open(message, transition, events)
            case "close":
                self._on_close(message, events)
            case "empty frame":
                pass
            case _:
                self._in_session(kind, message, events)

    def _in_session(self, kind: str, message: Performative, events: list[Event]) -> None:
        channel = message.channel
        if channel > self._channel_max:
            raise RemoteProtocolError(
                "a channel above channel-max (2.7.1)", reply=ErrorCondition.CONNECTION_FRAMING_ERROR
            )
        session = self._by_remote.get(channel)
        if session is None and isinstance(message, Begin):
            self._on_begin(message, events)
        elif session is None:
            raise RemoteProtocolError(
                f"{kind} on a channel without a session (2.5.1)", reply=ErrorCondition.NOT_ALLOWED
            )
        else:
            session.receive(kind, message, events)

    def _on_begin(self, message: Begin, events: list[Event]) -> None:
        number = message.remote_channel
        if number is not None:
            ours = self.sessions.get(number)
            if ours is None or ours.remote_channel is not None:
                raise RemoteProtocolError(
                    "remote-channel does not name a begin of this side (2.7.2)", reply=ErrorCondition.NOT_ALLOWED
                )
            self._by_remote[message.channel] = ours
            ours.remote_channel = message.channel
            ours.receive("begin", message, events)
            return
        try:
            session = Session(self, self._free_channel(), 0)
        except LocalProtocolError as error:
            raise RemoteProtocolError(str(error), reply=ErrorCondition.RESOURCE_LIMIT_EXCEEDED) from error
        self.sessions[session.channel] = session
        self._by_remote[message.channel] = session
        session.begun_by_peer(message, events)

    def _free_channel(self, first: int = 0) -> int:
        count = self._channel_max + 1
        if len(self.sessions) >= count:
            raise LocalProtocolError(f"all {count} channels are in use (2.7.1)")
        channel = first % count
        while channel in self.sessions:
            channel = (channel + 1) % count
        return channel

    def _has_capacity(self) -> bool:
        return not self._paused and self._undecided is None and not self._over

    def _capacity(self) -> int:
        if not self._has_capacity():
            return 0
        return STEP if self._opened else 1

    def _finish_eof(self, events: list[Event]) -> None:
        if self._has_capacity():
            super()._finish_eof(events)

    # ---- headers, open and close

    def _on_header(self) -> None:
        """The peer's AMQP header has arrived."""

    def _take_sasl(self, kind: str, message: Any, events: list[Event]) -> None:
        raise NotImplementedError

    def _on_open(self, message: Open, after: ConnectionState, events: list[Event]) -> None:
        raise NotImplementedError

    def _learn(self, message: Open) -> None:
        """Take the limits of the peer's open. Raises RemoteProtocolError if we cannot meet them."""
        size = UNLIMITED if message.max_frame_size is None else message.max_frame_size
        if size < SMALLEST_FRAME:
            raise RemoteProtocolError(f"max-frame-size {size} is below 512 (2.7.1)", reply=ErrorCondition.INVALID_FIELD)
        idle = message.idle_time_out or 0
        if 0 < idle < SHORTEST_IDLE * 1000:
            raise RemoteProtocolError(
                f"an idle time-out of {idle} ms cannot be kept (2.4.5)", reply=ErrorCondition.NOT_ALLOWED
            )
        self.remote = message
        self.frame_limit = size
        channel_max = 65535 if message.channel_max is None else message.channel_max
        self._channel_max = min(self._channel_max, channel_max)
        self._keep_alive(
            send_every=idle / 2000 if idle else None,  # half of what the peer enforces
            expect_within=self.options.idle_timeout,
        )

    def _connected(self, hostname: str | None, events: list[Event]) -> None:
        remote = self.remote
        assert remote is not None
        self._deadlines.cancel("open")
        self.negotiated = Negotiated(
            container_id=remote.container_id or "",
            hostname=hostname,
            max_frame_size=self.frame_limit,
            channel_max=self._channel_max,
            idle_timeout=remote.idle_time_out / 1000 if remote.idle_time_out else None,
        )
        events.append(Connected(self.negotiated, remote))

    def _make_open(self, **fields: Any) -> Open:
        """Build our open from the host's fields and our limits."""
        idle = self.options.idle_timeout
        limits = {
            "max_frame_size": self.options.frame_size,
            "channel_max": self.options.sessions - 1,
            "idle_time_out": None if idle is None else max(int(idle * 500), 1),  # half of what we enforce
        }
        made: Open = build(Open, **{"container_id": self.container_id, **limits, **fields})
        if len(made.encode()) > SMALLEST_FRAME and self.remote is None:
            raise LocalProtocolError("the first open is longer than 512 bytes (2.7.1)")
        return made

    @property
    def _closing(self) -> bool:
        return self._state in _CLOSING

    def _close(self, error: Error | None, events: list[Event]) -> None:
        if self._closing:
            return
        transition = SENDS[self.role, self._state, "close"]
        if isinstance(transition, Violation):  # there is nothing to close yet
            self._end("local", None, "closed", events)
            return
        close = build(Close, error=error)
        self._flush()
        self.put(close.encode())
        for session in self.sessions.values():
            session.freeze()
        self._error = error
        opened = self._opened
        assert isinstance(transition, ConnectionState)
        self.state = ConnectionState.DISCARDING if error is not None and opened else transition
        self._deadlines.start("close", self.options.close_timeout)

    def _on_close(self, message: Close, events: list[Event]) -> None:
        error = message.error
        if self._opened:
            self._flush()
            self.put(Close().encode())
            condition = str(error.condition) if error is not None else None
            reason = (error.description or "") if error is not None else "closed by the peer"
            self._end("peer", condition, reason, events, message=message)
            return
        own = self._error
        code = str(own.condition) if own is not None else None
        reason = (own.description or "") if own is not None else "closed"
        self._end("local", code, reason, events, message=message)

    def _reply_to(self, error: endpoint.Fault) -> str | None:
        code = error.reply
        if isinstance(error, DecodeError):
            if not self._spoken:  # 2.2: the answer to another header is ours
                self._answer_header()
                return None
            code = code or ErrorCondition.CONNECTION_FRAMING_ERROR
        return self._tell(str(code), str(error)) if code else None

    def _answer_header(self) -> None:
        """Send the header of the protocol that is supported here."""

    def _tell(self, code: str, reason: str) -> str | None:
        """Send close with an error (2.4.3)."""
        if self.sasl_state not in (None, SaslState.DONE) or self._closing:
            return None
        transition = SENDS[self.role, self._state, "close"]
        text = Error(condition=code, description=reason[:200])
        if not isinstance(transition, Violation):
            self._flush()
            self.put(Close(error=text).encode())
            return code
        if self._state in (ConnectionState.HDR_EXCH, ConnectionState.OPEN_RCVD):
            self.put(self._make_open().encode())
            self.put(Close(error=text).encode())
            return code
        return None

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        resumable: list[Any] = []
        lost: list[Any] = []
        for session in list(self.sessions.values()):
            again, gone, _ = session.leave(None)
            resumable += again
            lost += gone
            session.state = SessionState.UNMAPPED
        self.sessions.clear()
        self._by_remote.clear()
        self._undecided = None
        return tuple(resumable), tuple(lost)

    def _flush(self) -> None:
        """Write the answers and flows of this turn."""
        if self._opened:
            for session in self.sessions.values():
                session.flush()


_RELEASED: Final = Released()
_UNKNOWN_HEADER: Final = Violation(
    "a protocol header of another protocol (2.2)", ErrorCondition.CONNECTION_FRAMING_ERROR
)
_CLOSING: Final = frozenset(
    (
        ConnectionState.OC_PIPE,
        ConnectionState.CLOSE_PIPE,
        ConnectionState.CLOSE_SENT,
        ConnectionState.DISCARDING,
        ConnectionState.END,
    )
)
