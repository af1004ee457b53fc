"""What both roles of an AMQP 0.9.1 connection share: frames and their channels, acks of a turn, faults, the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from wirefmt import amqp091
from wirefmt.amqp091._codec import Flows
from wirefmt.amqp091.channel import NAME_OF, Channel, ids_of, text_of
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp091.events import SOFT, Confirmed, ConnectionOptions, Event, Negotiated, Settled, reply_text
from wirefmt.amqp091.spec import FRAME_OVERHEAD
from wirefmt.amqp091.states import (
    CHANNEL_FRAME,
    CHANNEL_ON_ZERO,
    HEADER,
    HEARTBEAT,
    ON_CHANNEL_ZERO_ONLY,
    RECEIVES,
    SENDS,
    ChannelState,
    State,
)
from wirefmt.connection import endpoint
from wirefmt.connection.deadlines import Keepalive
from wirefmt.connection.endpoint import EventT
from wirefmt.connection.states import Outcome, Role, Violation
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.framing import Limits

HEARTBEAT_FRAME = amqp091.Heartbeat().encode()


class Endpoint(endpoint.Endpoint[State, EventT], Flows):
    """What both roles do. The connections add what only they do. What happens for every message is compiled: `Flows`."""

    role: Role
    options: ConnectionOptions
    _final_state = State.CLOSED
    _exhausted = ReplyCode.RESOURCE_ERROR
    _late: ClassVar = {
        # no close method: the peer would not read it (RabbitMQ)
        Keepalive.EXPECT: ("nothing has arrived within two heartbeats (4.2.7)", None),
        "handshake": ("the handshake has not been completed in time", None),
        "blocked": ("the server has blocked the connection too long", None),
    }
    _decoder: amqp091.Assembler
    _sender: Literal["server"] | None
    _channel: type[Channel]
    _free_state: ChannelState
    _handlers: ClassVar[dict[type[Any], Callable[[Any, Any, list[Event]], None]]]

    def __init__(self, now: float, options: ConnectionOptions | None) -> None:
        super().__init__(now, options or ConnectionOptions(), State.IDLE)
        self.negotiated: Negotiated | None = None
        #: Names of the capabilities that the peer has announced.
        self.capabilities: frozenset[str] = frozenset()
        self.frame_max = self.options.first_frame
        #: Confirms of nothing that was open, and cancellations of consumers that were gone. They are ignored.
        self.strays = 0
        self._deadlines.set("handshake", now + self.options.handshake_timeout)
        self._configure(self.options, ChannelState.OPEN, Confirmed, Settled)
        self._closing: tuple[int, str] | None = None  # what the host has closed with

    def _enter(self, state: State) -> None:
        self._up = state is State.OPEN

    def _make_decoder(self) -> amqp091.Assembler:
        return amqp091.Assembler(
            side=self._sender,
            frame_max=self.options.first_frame,
            body_max=self.options.body_size,
            pending_max=self.options.unfinished_bytes,
            limits=Limits(frame_size=0, elements=self.options.elements),
        )

    @property
    def undecided(self) -> int:
        """Events that wait for an answer of the host."""
        return self._undecided

    # ---- out

    def _due(self, name: str, events: list[Event]) -> None:
        if name == "close":
            assert self._closing is not None
            self._end("local", self._closing[0], "no close-ok has arrived in time", events)
        else:
            super()._due(name, events)

    def _send_keepalive(self) -> None:
        self._put(HEARTBEAT_FRAME)
        self._said = self._outbox.position  # RabbitMQ sends one in each half interval, so this one does not count

    # ---- the end, by the host

    def close(self, code: int = ReplyCode.REPLY_SUCCESS, reason: str = "", *, immediate: bool = False) -> list[EventT]:
        """Send connection.close and wait for close-ok: `Disconnected` comes with it, or when `close_timeout` is over.

        Before the connection is open it ends at once and without a word. With `immediate` nothing is sent and what is queued
        is dropped. Returns `Disconnected` if the connection has ended. A second call changes nothing.
        """
        self._check_over()
        if immediate:
            return self._drop()
        events: list[Event] = []
        if self._state is State.CLOSING:
            pass
        elif SENDS[self.role, self._state, "connection.close"] is State.CLOSED:
            self._end("local", None, "closed before the connection was open", events)
        else:
            self._say_close(code, reason)
            self._closing = (code, reason or "closed by the host")
            self.state = State.CLOSING
            self._deadlines.start("close", self.options.close_timeout)
            events += self._go_on()
        return events

    def _say_close(self, code: int, reason: str, ids: tuple[int, int] = (0, 0)) -> None:
        self._flush()
        text = (
            reply_text(code, reason)
            if code != ReplyCode.REPLY_SUCCESS
            else (reason or "Goodbye").encode()[:255].decode("utf-8", "ignore")
        )
        close = amqp091.ConnectionClose(reply_code=code, reply_text=text, class_id=ids[0], method_id=ids[1])
        self._put(close.encode())

    # ---- reading

    def _handle(self, messages: list[Any], events: list[Event]) -> None:
        at = 0
        while at < len(messages):
            frequent = True
            try:
                at = self._flow(messages, at, events)
                frequent = False
                if at < len(messages):
                    self._take_frame(messages[at], events)
            except RemoteProtocolError as error:
                if self._state is State.CLOSED:
                    return
                if frequent:
                    at = self._at
                self._answer_fault(error, messages[at], events)
            if self._over:
                return
            at += 1

    def _take_frame(self, message: Any, events: list[Event]) -> None:
        """A frame that is not one of the frequent ones."""
        if self._up:
            kind, number = type(message), message.channel
            channel = self.channels.get(number)
            if channel is not None and channel.state is ChannelState.OPEN:
                if kind is amqp091.BasicMessage:
                    channel._on_content(message, events)
                    return
                handler = channel._steady.get(kind)
                if handler is not None:
                    handler(channel, message, events)
                    return
            if number:
                self._on_channel(message, events)
                return
        self._on_connection(message, events)

    def _answer_fault(self, error: RemoteProtocolError, message: Any, events: list[Event]) -> None:
        """A message breaks a rule: a soft code closes its channel, any other one the connection."""
        channel = self.channels.get(message.channel)
        if error.reply in SOFT and channel is not None and channel.state is ChannelState.OPEN:
            self._close_channel(channel, error, ids_of(message), events)
        else:
            self._fault(error, events, message)

    def _on_channel(self, message: Any, events: list[Event]) -> None:
        """A frame of a channel that is not open, or that changes the channel's state."""
        number = message.channel
        channel = self.channels.get(number) or self._closed_channel(number)
        kind = NAME_OF[type(message.method) if type(message) is amqp091.BasicMessage else type(message)]
        if kind.startswith("connection."):
            kind = ON_CHANNEL_ZERO_ONLY
        transition = channel._receives[channel.state][kind]
        if isinstance(transition, Violation):
            raise RemoteProtocolError(f"channel {number}: {transition.rule}", reply=transition.reply)
        if transition is not Outcome.DROPPED:
            channel._handlers[type(message)](channel, message, events)

    def _closed_channel(self, number: int) -> Channel:
        """A view of a number that has no channel now."""
        return self._channel(self, number)

    def _on_connection(self, message: Any, events: list[Event]) -> None:
        kind = kind_of(message)
        transition = RECEIVES[self.role, self._state, kind]
        if isinstance(transition, Violation):
            raise RemoteProtocolError(transition.rule, reply=transition.reply)
        if transition is Outcome.DROPPED or kind is HEARTBEAT:
            return
        before = self._state
        self._handlers[type(message)](self, message, events)
        if self._state is before and isinstance(transition, State):
            self.state = transition

    def _close_channel(
        self, channel: Channel, error: RemoteProtocolError, ids: tuple[int, int], events: list[Event]
    ) -> None:
        """The peer has broken a rule with a soft code: close the channel."""
        raise NotImplementedError

    def _capacity(self) -> int:
        """How many messages may be read now."""
        if self._paused or self._over or self._state is State.DECIDING:
            return 0
        if self._state is State.CLOSING:
            return 1024
        if not self._up:
            return 1
        capacity = self.options.undecided - self._waiting()
        return capacity if capacity > 0 else 0

    def _waiting(self) -> int:
        """Events that count for the limit of `undecided`."""
        return self._undecided

    def _finish_eof(self, events: list[Event]) -> None:
        if self._closing is not None and not self._paused and not self._unread():
            self._end("local", *self._closing, events)
        else:
            super()._finish_eof(events)

    # ---- writing

    def _put(self, octets: bytes) -> None:
        """Queue a frame. Raises as `_check_size`."""
        self._check_size(octets)
        self._outbox.put(octets)

    def _check_size(self, octets: bytes) -> None:
        """Raises LocalProtocolError if a method does not fit into the frames that were agreed on; nothing has changed then."""
        if len(octets) > self.frame_max and self.frame_max:
            raise LocalProtocolError(
                f"the method has {len(octets)} bytes, a frame has at most {self.frame_max} (4.2.3)"
            )

    def _use_frame_max(self, frame_max: int) -> None:
        """Tune-ok has been sent or has arrived. Without a limit a frame is still bounded by the size of a body."""
        self.frame_max = frame_max
        self._decoder.frame_max = frame_max or self.options.body_size + FRAME_OVERHEAD

    def _check_open(self) -> None:
        """May methods of channels be sent?"""
        self._check_over()
        transition = SENDS[self.role, self._state, CHANNEL_FRAME]
        if isinstance(transition, Violation):
            raise LocalProtocolError(transition.rule, reply=transition.reply)

    def _begin_heartbeats(self, seconds: int) -> None:
        """4.2.7: the peer is lost after two silent intervals. A heartbeat follows half an interval in which nothing was sent, as
        RabbitMQ does it."""
        if seconds:
            self._keep_alive(send_every=float(seconds), expect_within=2.0 * seconds)

    # ---- channels

    def _free(self, channel: Channel) -> None:
        """The number may be used again."""
        del self.channels[channel.number]
        channel.state = self._free_state

    def _closed(self, channel: Channel, events: list[Event]) -> None:
        """close-ok has arrived for our channel.close."""
        self._free(channel)

    # ---- the end

    def _on_close(self, message: amqp091.ConnectionClose, events: list[Event]) -> None:
        self._flush()
        self._put(amqp091.ConnectionCloseOk().encode())
        if self._state is State.CLOSING:
            return  # closes have crossed: ours is answered by close-ok
        self._end("peer", message.reply_code, text_of(message.reply_text), events, message=message)

    def _on_close_ok(self, message: amqp091.ConnectionCloseOk, events: list[Event]) -> None:
        assert self._closing is not None
        self._end("local", *self._closing, events)

    def _fault(self, error: endpoint.Fault, events: list[Event], message: Any = None) -> None:
        """The peer has broken a rule: answer as RabbitMQ does, and end."""
        if isinstance(error, DecodeError) and self._state is State.CLOSING:
            # dropped, but where the next frame begins is not known
            assert self._closing is not None
            self._end("local", *self._closing, events)
            return
        code = error.reply if isinstance(error.reply, int) else None
        if isinstance(error, DecodeError) and error.spec == "4.3" and "only methods of class" in error.reason:
            code = ReplyCode.CHANNEL_ERROR
        said = self._say_fault(ReplyCode.INTERNAL_ERROR if code is None else code, str(error), message)
        unread = self._decoder.faulty_content if isinstance(error, DecodeError) else None
        self._end("local", said, str(error), events, error=error, message=unread)

    def _say_fault(self, code: int, reason: str, message: Any) -> int | None:
        """Queue the answer to the peer and return its code; None: there is no answer."""
        raise NotImplementedError

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        self._marked.clear()
        handles = self._handles()
        for channel in self.channels.values():
            channel._drop()
            channel.state = self._free_state
        self.channels.clear()
        return handles

    def _handles(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Handles that a later connection may send again, and the others that are not finished."""
        lost = [handle for channel in self.channels.values() for handle in channel._lost()]
        return (), tuple(sorted(lost, key=lambda handle: handle.number))


def kind_of(message: Any) -> str:
    """The kind of a frame in the table of connections."""
    kind = type(message)
    if kind is amqp091.Heartbeat:
        return HEARTBEAT
    if kind is amqp091.ProtocolHeader:
        return HEADER
    if message.channel:
        return CHANNEL_FRAME
    name = NAME_OF.get(type(message.method) if kind is amqp091.BasicMessage else kind, CHANNEL_ON_ZERO)
    return name if name.startswith("connection.") else CHANNEL_ON_ZERO
