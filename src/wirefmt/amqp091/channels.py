"""Channels of an AMQP 0.9.1 connection: opening and closing, calls and replies, publishing, consuming."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from wirefmt import amqp091
from wirefmt.amqp091 import spec
from wirefmt.amqp091.events import (
    COMMAND_INVALID,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION,
    RESOURCE,
    SUCCESS,
    Call,
    ChannelClosed,
    ChannelOpened,
    Confirmed,
    Consumer,
    Delivery,
    Event,
    Publication,
    Returned,
    Settled,
    reply_text,
)
from wirefmt.amqp091.states import CHANNEL_RECEIVES, CHANNEL_SENDS, ChannelState, ChannelTransition, Role, Violation
from wirefmt.connection.contract import Acknowledged, WindowOpened
from wirefmt.connection.outstanding import InOrder
from wirefmt.errors import EncodeError, LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from wirefmt.amqp091.connection import ClientConnection, ServerConnection

_Record = TypeVar("_Record")

_EMPTY = amqp091.BasicProperties()


def class_of(method: str) -> type[amqp091.Method]:
    """The class of a method by its name in the specification."""
    name = "".join(part.capitalize() for word in method.split(".") for part in word.split("-"))
    cls: type[amqp091.Method] = getattr(amqp091, name)
    return cls


#: Names of methods by class.
NAME_OF: dict[type[Any], str] = {
    class_of(name): name for name in (f"{c.name}.{m.name}" for c in spec.CLASSES for m in c.methods)
}

#: The reply of each synchronous method.
REPLY_OF: dict[type[Any], type[amqp091.Method]] = {
    class_of(f"{c.name}.{m.name}"): class_of(f"{c.name}.{m.responses[0]}")
    for c in spec.CLASSES
    for m in c.methods
    if m.responses
}


def rows(role: Role, table: Any) -> dict[ChannelState, dict[str, ChannelTransition]]:
    """The table by state, so that a method costs one look-up."""
    found: dict[ChannelState, dict[str, ChannelTransition]] = {}
    for (whose, state, kind), transition in table.items():
        if whose is role:
            found.setdefault(state, {})[kind] = transition
    return found


class Tags(Generic[_Record]):
    """Numbers that wait to be settled, with their records, and those settled positively whose ack is not written.

    Acks of one turn become one frame with `multiple` for all numbers below the smallest open one, and one frame for each
    other number.
    """

    __slots__ = ("acked", "open")

    def __init__(self) -> None:
        self.open: InOrder[_Record] = InOrder()
        self.acked: list[int] = []

    def frames(self, channel: int) -> bytes:
        """The basic.ack frames for what was settled positively."""
        acked, self.acked = self.acked, []
        if len(acked) == 1:
            return ack(channel, acked[0], False)
        acked.sort()
        smallest = next(iter(self.open), None)
        together = len(acked)
        if smallest is not None:
            while together and acked[together - 1] > smallest:
                together -= 1
        out = ack(channel, acked[together - 1], together > 1) if together else b""
        return out + b"".join([ack(channel, tag, False) for tag in acked[together:]])


def ack(channel: int, tag: int, multiple: bool) -> bytes:
    """A basic.ack frame (1.8.3.13)."""
    return b"\x01%b\x00\x00\x00\x0d\x00\x3c\x00\x50%b%b\xce" % (
        channel.to_bytes(2),
        tag.to_bytes(8),
        b"\x01" if multiple else b"\x00",
    )


class Channel:
    """What channels of both roles share: state, frames, closing."""

    role: Role
    _handlers: dict[type[Any], Callable[[Any, Any, list[Event]], None]]
    _receives: dict[ChannelState, dict[str, ChannelTransition]]
    _sends: dict[ChannelState, dict[str, ChannelTransition]]
    _steady: dict[type[Any], Callable[[Any, Any, list[Event]], None]]

    def __init_subclass__(cls) -> None:
        cls._receives = rows(cls.role, CHANNEL_RECEIVES)
        cls._sends = rows(cls.role, CHANNEL_SENDS)
        cls._steady = {
            kind: handler
            for kind, handler in cls._handlers.items()
            if cls._receives[ChannelState.OPEN][NAME_OF[kind]] is ChannelState.OPEN
        }

    def __init__(self, connection: Any, number: int) -> None:
        self.connection = connection
        self.number = number
        self.state = ChannelState.UNUSED
        #: Consumers by consumer-tag.
        self.consumers: dict[str, Consumer] = {}
        #: "plain", "confirm" (1.9, RabbitMQ) or "tx".
        self.mode: Literal["plain", "confirm", "tx"] = "plain"
        #: False: the peer has asked us to send no content (1.5.2.3).
        self.active = True
        self._tags: Tags[Any] = Tags()  # deliveries of a client, publishes in confirm mode of a server
        self._marked = False
        self._method: amqp091.BasicPublish | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number}: {self.state.value}>"

    def _settle(self, tag: int) -> None:
        """Note a number whose ack is written when output is taken."""
        self._tags.acked.append(tag)
        if not self._marked:
            self._marked = True
            self.connection._marked.append(self)

    def _flush(self) -> None:
        """Write the acks that have been noted."""
        if self._tags.acked:
            self.connection._put(self._tags.frames(self.number))

    def _put(self, method: amqp091.Method | amqp091.BasicMessage) -> None:
        self._flush()
        self.connection._put(method.encode())

    def _check(self, kind: str) -> None:
        """May this method be sent now?"""
        self.connection._check_open()
        transition = self._sends[self.state][kind]
        if isinstance(transition, Violation):
            raise LocalProtocolError(f"channel {self.number}: {transition.rule}", reply=transition.code)

    def _build(self, cls: Any, **fields: Any) -> Any:
        try:
            return cls(channel=self.number, **fields)
        except (EncodeError, TypeError, ValueError) as error:
            raise LocalProtocolError(str(error)) from error

    def _content(self, method: amqp091.Method, properties: amqp091.BasicProperties | None, body: Buffer) -> Any:
        connection = self.connection
        try:
            return amqp091.BasicMessage(
                method, properties if properties is not None else _EMPTY, body, frame_max=connection.frame_max
            )
        except (EncodeError, TypeError, ValueError) as error:
            raise LocalProtocolError(str(error)) from error

    def _send_content(self, message: amqp091.BasicMessage) -> None:
        octets = message.encode()
        connection = self.connection
        outbox = connection._outbox
        pending = outbox.position - outbox.taken
        if pending and pending + len(octets) > connection.options.pending_bytes:
            raise LocalProtocolError(f"{pending} bytes are queued and not taken", reply=RESOURCE)
        outbox.put(octets)
        connection._keepalive.sent()

    def flow(self, active: bool) -> None:
        """Ask the peer to stop or to go on sending content (1.5.2.3). RabbitMQ refuses False with 540."""
        self._check("channel.flow")
        self._put(amqp091.ChannelFlow(channel=self.number, active=active))

    def _on_flow(self, message: amqp091.ChannelFlow, events: list[Event]) -> None:
        self.active = message.active
        self._put(amqp091.ChannelFlowOk(channel=self.number, active=message.active))
        events.append(message)

    def _on_flow_ok(self, message: amqp091.ChannelFlowOk, events: list[Event]) -> None:
        events.append(message)

    def _close(self, code: int, reason: str, ids: tuple[int, int] = (0, 0)) -> amqp091.ChannelClose:
        """Send channel.close."""
        text = reply_text(code, reason) if code != SUCCESS else reason.encode()[:255].decode(errors="ignore")
        close = amqp091.ChannelClose(
            channel=self.number, reply_code=code, reply_text=text, class_id=ids[0], method_id=ids[1]
        )
        self._put(close)
        return close

    def _on_close(self, message: amqp091.ChannelClose, events: list[Event]) -> None:
        self._put(amqp091.ChannelCloseOk(channel=self.number))
        if self.state is ChannelState.CLOSING:
            return  # closes have crossed: ours is answered by close-ok
        self._gone("peer", message.reply_code, _text(message.reply_text), events, message=message)
        self.connection._free(self)

    def _on_close_ok(self, message: amqp091.ChannelCloseOk, events: list[Event]) -> None:
        self.connection._closed(self, events)

    def _gone(
        self,
        by: Literal["local", "peer"],
        code: int,
        reason: str,
        events: list[Event],
        *,
        error: Exception | None = None,
        message: amqp091.ChannelClose | None = None,
    ) -> None:
        consumers = tuple(self.consumers.values())
        self.consumers.clear()
        self._tags.acked.clear()
        self._tags.open.clear()
        events.append(
            ChannelClosed(
                channel=self.number,
                by=by,
                code=code,
                reason=reason,
                error=error,
                message=message,
                resumable=self._unconfirmed_handles(),
                lost=self._lost(),
                consumers=consumers,
            )
        )
        self._forget()

    def _unconfirmed_handles(self) -> tuple[Publication, ...]:
        return ()

    def _lost(self) -> tuple[Any, ...]:
        return ()

    def _forget(self) -> None:
        """The channel is closed: drop what belongs to it."""


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


def wrong_reply(message: amqp091.Method) -> RemoteProtocolError:
    return RemoteProtocolError(f"{message.name}, but no call waits for it (4.7)", reply=COMMAND_INVALID)


class ClientChannel(Channel):
    """A channel of a client, made by `ClientConnection.open_channel`.

    `call` sends any synchronous method and returns a handle for `Acknowledged`. With `nowait` there is no reply and no handle.
    Replies of different methods may come in another order than the calls (RabbitMQ); they are matched by kind, and those of
    consumers by their tag.

    Attributes:
        queue: the queue declared last on this channel: what an empty queue name means (1.7.2.1).
    """

    role = Role.CLIENT
    connection: ClientConnection

    def __init__(self, connection: ClientConnection, number: int) -> None:
        super().__init__(connection, number)
        self.queue = ""
        self._calls: dict[type[Any], deque[Call]] = {}
        self._unconfirmed: Tags[Publication] = Tags()
        self._mandatory: InOrder[Publication] = InOrder()  # by tag: those that may still be returned
        self._next_tag = 0  # of confirms
        self._last_delivery = 0
        self._full = False  # a publish was refused
        self._leaving: dict[str, Consumer] = {}  # cancelled without a reply: deliveries may still come
        #: The handle of channel.open.
        self.opened: Call | None = None
        self._closed_with = (SUCCESS, "")
        self._recovering = 0  # calls of recover: what comes before recover-ok is delivered again

    # ---- calls

    def call(self, cls: type[Any], **fields: Any) -> Call | None:
        """Make and send a synchronous method: `channel.call(amqp091.QueueDeclare, queue="q")`. See `send`."""
        handle: Call | None = self.send(self._build(cls, **fields))
        return handle

    def send(self, message: Any) -> Any:
        """Send a method, or a message.

        Returns:
            a handle: a `Call` for a method with a reply, a `Publication` for a message in confirm mode; otherwise None.

        Raises LocalProtocolError if it is not legal now; nothing has changed.
        """
        if type(message) is amqp091.BasicMessage:
            return self.publish_message(message)
        kind = type(message)
        name = NAME_OF.get(kind)
        if name is None or name.startswith("connection."):
            raise LocalProtocolError(f"{kind.__name__} is no method of a channel")
        self._check(name)
        special = self._special.get(kind)
        if special is not None:
            return special(self, message)
        reply = REPLY_OF.get(kind)
        nowait = getattr(message, "nowait", False)
        if kind is amqp091.BasicConsume:
            self._check_consume(message)
        elif kind is amqp091.BasicQos and message.prefetch_size:
            raise LocalProtocolError("prefetch-size is not implemented by servers (RabbitMQ)", reply=NOT_IMPLEMENTED)
        elif kind in _MODES and self.mode not in ("plain", _MODES[kind]):
            raise LocalProtocolError(f"the channel is in mode {self.mode}", reply=PRECONDITION)
        elif kind in _IN_TX and self.mode != "tx":
            raise LocalProtocolError("the channel is not transactional (1.9.2)", reply=PRECONDITION)
        self.connection._check_pending(len(message.encode()))
        self._put(message)
        if kind is amqp091.ConfirmSelect:
            self.mode = "confirm"
        elif kind is amqp091.TxSelect:
            self.mode = "tx"
        if reply is None or nowait:
            self._did(message)
            return None
        call = Call(self.connection._next_number(), message)
        self._calls.setdefault(reply, deque()).append(call)
        return call

    def _check_consume(self, message: amqp091.BasicConsume) -> None:
        tag = _text(message.consumer_tag)
        if tag in self.consumers or (
            tag and any(call.message.consumer_tag == tag for call in self._waiting_consumes())
        ):
            raise LocalProtocolError(f"the consumer-tag {tag!r} is in use on this channel", reply=NOT_ALLOWED)
        if not tag and message.nowait:
            raise LocalProtocolError("nowait needs a consumer-tag: the server's name for it does not come")
        if len(self.consumers) + len(self._leaving) >= self.connection.options.consumers:
            raise LocalProtocolError("the channel has too many consumers", reply=RESOURCE)

    def _waiting_consumes(self) -> deque[Any]:
        return self._calls.get(amqp091.BasicConsumeOk, deque())

    def _did(self, message: amqp091.Method) -> None:
        """A method without a reply is done."""
        if isinstance(message, amqp091.BasicConsume):
            tag = _text(message.consumer_tag)
            self.consumers[tag] = Consumer(tag, message)
            self._leaving.pop(tag, None)
        elif isinstance(message, amqp091.BasicCancel):
            consumer = self.consumers.pop(_text(message.consumer_tag), None)
            if consumer is not None:
                self._leaving[consumer.tag] = consumer
        elif isinstance(message, amqp091.QueueDeclare) and message.queue:
            self.queue = _text(message.queue)

    def consume(self, queue: str = "", consumer_tag: str = "", **fields: Any) -> Call | None:
        """Start a consumer: basic.consume."""
        return self.call(amqp091.BasicConsume, queue=queue, consumer_tag=consumer_tag, **fields)

    def cancel(self, consumer_tag: str, *, nowait: bool = False) -> Call | None:
        """End a consumer: basic.cancel. Deliveries may come until cancel-ok."""
        return self.call(amqp091.BasicCancel, consumer_tag=consumer_tag, nowait=nowait)

    def get(self, queue: str = "", *, no_ack: bool = False) -> Call:
        """Ask for one message: basic.get. `Acknowledged.message` is a BasicMessage with get-ok, or get-empty."""
        call = self.call(amqp091.BasicGet, queue=queue, no_ack=no_ack)
        assert call is not None
        return call

    def qos(self, prefetch_count: int, *, shared: bool = False) -> Call:
        """How many deliveries may be unacknowledged, for each consumer started later, or `shared` by all of the channel."""
        call = self.call(amqp091.BasicQos, prefetch_count=prefetch_count, global_=shared)
        assert call is not None
        return call

    def recover(self) -> Call:
        """Have all unacknowledged messages delivered again: basic.recover with requeue. Their tags are no longer valid."""
        call = self.call(amqp091.BasicRecover, requeue=True)
        assert call is not None
        return call

    def confirm_select(self) -> Call:
        """Put the channel into confirm mode (RabbitMQ)."""
        call = self.call(amqp091.ConfirmSelect)
        assert call is not None
        return call

    def _send_recover(self, message: Any) -> Call | None:
        if not message.requeue:
            raise LocalProtocolError("recover without requeue is not implemented (RabbitMQ)", reply=NOT_IMPLEMENTED)
        self._put(message)
        self._tags.open.clear()
        if type(message) is amqp091.BasicRecoverAsync:
            return None
        self._recovering += 1
        call = Call(self.connection._next_number(), message)
        self._calls.setdefault(amqp091.BasicRecoverOk, deque()).append(call)
        self.connection._note_reading()  # deliveries no longer wait: recover-ok must be read
        return call

    def close(self, code: int = SUCCESS, reason: str = "Normal shutdown") -> list[Event]:
        """Close the channel. `ChannelClosed` comes with close-ok; until then what the server sends on it is dropped.

        Deliveries that are not acknowledged go back to their queues. Returns events of bytes that were waiting.
        """
        self._check("channel.close")
        self._close(code, reason)
        self._begin_closing(code, reason)
        return self.connection._go_on()

    def _send_close(self, message: amqp091.ChannelClose) -> None:
        self._put(message)
        self._begin_closing(message.reply_code, _text(message.reply_text))
        self.connection._note_reading()

    def _begin_closing(self, code: int, reason: str) -> None:
        self.state = ChannelState.CLOSING
        self._closed_with = (code, reason)
        self._tags.open.clear()

    # ---- publishing

    def publish(
        self,
        exchange: str = "",
        routing_key: str = "",
        body: Buffer = b"",
        properties: amqp091.BasicProperties | None = None,
        *,
        mandatory: bool = False,
    ) -> Publication | None:
        """Publish a message: basic.publish.

        Returns its handle in confirm mode, otherwise None.

        Raises LocalProtocolError: the server has blocked the connection or stopped the flow (`WindowOpened` follows), too many
        publishes are unconfirmed (the same), too many bytes are queued, or the channel is not open.
        """
        method = self._method
        if (
            method is None
            or method.routing_key != routing_key
            or method.exchange != exchange
            or method.mandatory is not mandatory
        ):
            method = self._build(amqp091.BasicPublish, exchange=exchange, routing_key=routing_key, mandatory=mandatory)
            self._method = method
        try:
            message = amqp091.BasicMessage(
                method, _EMPTY if properties is None else properties, body, frame_max=self.connection.frame_max
            )
        except (EncodeError, TypeError, ValueError) as error:
            raise LocalProtocolError(str(error)) from error
        return self._publish(message, mandatory)

    def publish_message(self, message: amqp091.BasicMessage) -> Publication | None:
        """Publish a BasicMessage with basic.publish: see `publish`."""
        method = message.method
        if type(method) is not amqp091.BasicPublish:
            raise LocalProtocolError("a client sends basic.publish with content (1.8.3.7)")
        if method.immediate:
            raise LocalProtocolError("immediate is not implemented by servers (RabbitMQ)", reply=NOT_IMPLEMENTED)
        limit = self.connection.frame_max
        if limit and len(message.body) > limit - 8:
            message = self._content(method, message.properties, message.body_bytes())
        return self._publish(message, method.mandatory)

    def _publish(self, message: amqp091.BasicMessage, mandatory: bool) -> Publication | None:
        connection = self.connection
        if not connection._up or self.state is not ChannelState.OPEN:
            self._check("basic.publish")
        if not self.active or connection.blocked:
            self._full = True
            raise LocalProtocolError("the server takes no content now: wait for WindowOpened (1.5.2.3, RabbitMQ)")
        if self.mode != "confirm":
            if self.mode == "tx":
                self._flush()
            self._send_content(message)
            return None
        unconfirmed = self._unconfirmed.open
        if len(unconfirmed) >= connection.options.unconfirmed:
            self._full = True
            raise LocalProtocolError("too many publishes wait for their confirms: wait for WindowOpened")
        self._send_content(message)
        self._next_tag = tag = self._next_tag + 1
        publication = connection._session.publish(self.number, tag, message)
        unconfirmed[tag] = publication
        if mandatory:
            self._mandatory[tag] = publication
        return publication

    def resend(self, publication: Publication) -> None:
        """Publish a message of an earlier channel or connection again, in confirm mode. Its handle stays the same.

        Raises LocalProtocolError as `publish` does, and if the message does not wait for a confirm."""
        connection = self.connection
        session = connection._session
        if session.outgoing.get(publication.number) is not publication:
            raise LocalProtocolError("this message does not wait for a confirm")
        old = connection.channels.get(publication.channel)
        if old is not None and old._unconfirmed.open.get(publication.tag) is publication:
            raise LocalProtocolError("this message has been sent on a channel that is open")
        if self.mode != "confirm":
            raise LocalProtocolError("the channel is not in confirm mode")
        if len(self._unconfirmed.open) >= connection.options.unconfirmed:
            self._full = True
            raise LocalProtocolError("too many publishes wait for their confirms: wait for WindowOpened")
        self._check("basic.publish")
        if not self.active or connection.blocked:
            self._full = True
            raise LocalProtocolError("the server takes no content now: wait for WindowOpened (1.5.2.3, RabbitMQ)")
        method = publication.message.method
        method = self._build(
            amqp091.BasicPublish,
            exchange=method.exchange,
            routing_key=method.routing_key,
            mandatory=method.mandatory,
        )
        message = self._content(method, publication.message.properties, publication.message.body_bytes())
        self._send_content(message)
        self._next_tag += 1
        publication.channel, publication.tag = self.number, self._next_tag
        publication.message, publication.returned = message, None
        self._unconfirmed.open[self._next_tag] = publication
        if method.mandatory:
            self._mandatory[self._next_tag] = publication

    @property
    def send_quota(self) -> int:
        """How many messages may be published now."""
        if not self.active or self.connection.blocked or self.state not in (ChannelState.OPEN, ChannelState.OPENING):
            return 0
        return max(self.connection.options.unconfirmed - len(self._unconfirmed.open), 0)

    @property
    def unconfirmed(self) -> int:
        """Publishes that wait for their confirms."""
        return len(self._unconfirmed.open)

    def _window(self, events: list[Event]) -> None:
        if self._full and (room := self.send_quota):
            self._full = False
            events.append(WindowOpened(room, self))

    def _on_flow(self, message: amqp091.ChannelFlow, events: list[Event]) -> None:
        super()._on_flow(message, events)
        self._window(events)

    def _on_confirm(self, message: Any, events: list[Event]) -> None:
        unconfirmed = self._unconfirmed.open
        tag = message.delivery_tag
        handles: list[Publication]
        if message.multiple:
            handles = self._unconfirmed.open.settle_up_to(tag or self._next_tag)  # 0: all (1.8.3.13)
        else:
            publication = unconfirmed.pop(tag, None)
            handles = [publication] if publication is not None else []
        if not handles:
            self.connection.strays += 1
            return
        session = self.connection._session
        if session.journaled or self._mandatory:
            for publication in handles:
                session.forget(publication)
                self._mandatory.pop(publication.tag, None)
        else:
            outgoing = session.outgoing
            for publication in handles:
                del outgoing[publication.number]
        events.append(Confirmed(self.number, handles, type(message) is amqp091.BasicAck, message))
        if self._full:
            self._window(events)

    # ---- consuming

    @property
    def unacknowledged(self) -> int:
        """Deliveries that wait for their acknowledgement."""
        return len(self._tags.open)

    def ack(self, delivery_tag: int, multiple: bool = False) -> list[Event]:
        """Acknowledge a delivery, or with `multiple` all up to it (tag 0: all). Acks of one turn are written together.

        Returns events of bytes that were waiting. Raises LocalProtocolError if the delivery does not wait for it.
        """
        connection = self.connection
        if not connection._up:
            self._check("basic.ack")
        if not multiple:
            try:
                del self._tags.open[delivery_tag]
            except KeyError:
                self._not_waiting(delivery_tag)
            acked = self._tags.acked
            acked.append(delivery_tag)
            if not self._marked:
                self._marked = True
                connection._marked.append(self)
        else:
            self._check("basic.ack")
            if not self._take(delivery_tag):
                return []
            connection._put(ack(self.number, delivery_tag, True))
        return [] if connection._reading else connection._go_on()

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> list[Event]:
        """Return a delivery to the server, or with `multiple` all up to it (tag 0: all). The server delivers it again, or without
        `requeue` drops or dead-letters it. See `ack`."""
        self._check("basic.nack")
        if not (self._take(delivery_tag) if multiple else self._take_one(delivery_tag)):
            return []
        self._put(amqp091.BasicNack(channel=self.number, delivery_tag=delivery_tag, multiple=multiple, requeue=requeue))
        return self.connection._go_on()

    def reject(self, delivery_tag: int, requeue: bool = True) -> list[Event]:
        """Return one delivery: basic.reject. See `nack`."""
        self._check("basic.reject")
        self._take_one(delivery_tag)
        self._put(amqp091.BasicReject(channel=self.number, delivery_tag=delivery_tag, requeue=requeue))
        return self.connection._go_on()

    def _take_one(self, tag: int) -> bool:
        """Take out one delivery. Acks noted before are written first: their `multiple` must not include it."""
        if tag not in self._tags.open:
            self._not_waiting(tag)
        self._flush()
        del self._tags.open[tag]
        return True

    def _take(self, tag: int) -> bool:
        """Take out all deliveries up to a tag, as `_take_one`. False: there are none."""
        if tag and tag not in self._tags.open:
            self._not_waiting(tag)
        self._flush()
        return bool(self._tags.open.settle_up_to(tag or self._last_delivery))

    def _not_waiting(self, tag: int) -> None:
        raise LocalProtocolError(
            f"channel {self.number}: delivery-tag {tag} does not wait for an acknowledgement", reply=PRECONDITION
        )

    def _send_ack(self, message: amqp091.BasicAck) -> None:
        self.ack(message.delivery_tag, message.multiple)

    def _send_nack(self, message: amqp091.BasicNack) -> None:
        self.nack(message.delivery_tag, message.multiple, message.requeue)

    def _send_reject(self, message: amqp091.BasicReject) -> None:
        self.reject(message.delivery_tag, message.requeue)

    def _send_flow(self, message: amqp091.ChannelFlow) -> None:
        self._put(message)

    def _send_by_itself(self, message: Any) -> None:
        raise LocalProtocolError(f"{message.name} is sent by the connection itself")

    def _send_open(self, message: Any) -> None:
        raise LocalProtocolError("channel.open is sent by open_channel()")

    def _on_content(self, message: amqp091.BasicMessage, events: list[Event]) -> None:
        method = message.method
        kind = type(method)
        if kind is amqp091.BasicDeliver:
            tag = method.delivery_tag
            if tag <= self._last_delivery:
                raise RemoteProtocolError(
                    f"delivery-tag {tag} after {self._last_delivery}: tags rise (1.8.3.9)", reply=COMMAND_INVALID
                )
            consumer = self.consumers.get(method.consumer_tag) or self._leaving.get(method.consumer_tag)
            if consumer is None:
                raise RemoteProtocolError(
                    f"a delivery for consumer-tag {method.consumer_tag!r}, which the channel does not have (1.8.3.9)",
                    reply=COMMAND_INVALID,
                )
            self._last_delivery = tag
            if not consumer.no_ack and not self._recovering:
                self._tags.open[tag] = None
            events.append(message)
        elif kind is amqp091.BasicReturn:
            events.append(Returned(message, self._match(message)))
        elif kind is amqp091.BasicGetOk:
            call = self._reply(method, amqp091.BasicGetOk)
            tag = method.delivery_tag
            if tag <= self._last_delivery:
                raise RemoteProtocolError(
                    f"delivery-tag {tag} after {self._last_delivery}: tags rise (1.8.3.9)", reply=COMMAND_INVALID
                )
            self._last_delivery = tag
            if not call.message.no_ack:  # type: ignore[attr-defined]
                self._tags.open[tag] = None
            events.append(Acknowledged(call, message))
        else:
            raise RemoteProtocolError("only a client sends this method (2.2.4)", reply=COMMAND_INVALID)

    def _match(self, message: amqp091.BasicMessage) -> Publication | None:
        """The publication that a return is for: returns come in the order of the publishes, and a confirm of it has not
        come."""
        method = message.method
        for publication in self._mandatory.values():
            published = publication.message
            if (
                published.method.routing_key == method.routing_key
                and published.method.exchange == method.exchange
                and published.properties == message.properties
                and published.body == message.body
            ):
                publication.returned = message
                del self._mandatory[publication.tag]  # a return comes once
                return publication
        return None

    # ---- replies

    def _reply(self, message: amqp091.Method, kind: type[Any]) -> Call:
        waiting = self._calls.get(kind)
        if not waiting:
            raise wrong_reply(message)
        return waiting.popleft()

    def _on_open_ok(self, message: amqp091.ChannelOpenOk, events: list[Event]) -> None:
        self.state = ChannelState.OPEN
        events.append(Acknowledged(self._reply(message, amqp091.ChannelOpenOk), message))

    def _on_reply(self, message: amqp091.Method, events: list[Event]) -> None:
        events.append(Acknowledged(self._reply(message, type(message)), message))

    def _on_recover_ok(self, message: amqp091.BasicRecoverOk, events: list[Event]) -> None:
        self._on_reply(message, events)
        self._recovering -= 1

    def _on_get_empty(self, message: amqp091.BasicGetEmpty, events: list[Event]) -> None:
        events.append(Acknowledged(self._reply(message, amqp091.BasicGetOk), message))

    def _on_declared(self, message: amqp091.QueueDeclareOk, events: list[Event]) -> None:
        call = self._reply(message, amqp091.QueueDeclareOk)
        self.queue = _text(message.queue)
        events.append(Acknowledged(call, message))

    def _on_consume_ok(self, message: amqp091.BasicConsumeOk, events: list[Event]) -> None:
        tag = _text(message.consumer_tag)
        waiting = self._waiting_consumes()
        call = next((c for c in waiting if c.message.consumer_tag == tag), None) or next(
            (c for c in waiting if not c.message.consumer_tag), None
        )
        if call is None or tag in self.consumers:
            raise wrong_reply(message)
        waiting.remove(call)
        self.consumers[tag] = Consumer(tag, call.message)
        self._leaving.pop(tag, None)
        events.append(Acknowledged(call, message))

    def _on_cancel_ok(self, message: amqp091.BasicCancelOk, events: list[Event]) -> None:
        waiting: deque[Any] = self._calls.get(amqp091.BasicCancelOk, deque())
        call = next((c for c in waiting if c.message.consumer_tag == message.consumer_tag), None)
        if call is None:
            raise wrong_reply(message)
        waiting.remove(call)
        self.consumers.pop(_text(message.consumer_tag), None)
        events.append(Acknowledged(call, message))

    def _on_cancel(self, message: amqp091.BasicCancel, events: list[Event]) -> None:
        """The server ends a consumer (RabbitMQ's consumer cancel notification). It wants no answer."""
        consumer = self.consumers.pop(_text(message.consumer_tag), None)
        if consumer is None:
            self.connection.strays += 1
            return
        if not message.nowait:
            self._put(amqp091.BasicCancelOk(channel=self.number, consumer_tag=message.consumer_tag))
        events.append(message)

    def _unconfirmed_handles(self) -> tuple[Publication, ...]:
        return tuple(self._unconfirmed.open.values())

    def _lost(self) -> tuple[Any, ...]:
        calls = [call for waiting in self._calls.values() for call in waiting]
        return tuple(sorted(calls, key=lambda call: call.number))

    def _forget(self) -> None:
        self._unconfirmed.open.clear()
        self._mandatory.clear()
        self._calls.clear()

    _special = {  # noqa: RUF012
        amqp091.ChannelOpen: _send_open,
        amqp091.ChannelClose: _send_close,
        amqp091.ChannelCloseOk: _send_by_itself,
        amqp091.ChannelFlow: _send_flow,
        amqp091.ChannelFlowOk: _send_by_itself,
        amqp091.BasicAck: _send_ack,
        amqp091.BasicNack: _send_nack,
        amqp091.BasicReject: _send_reject,
        amqp091.BasicRecover: _send_recover,
        amqp091.BasicRecoverAsync: _send_recover,
        amqp091.BasicCancelOk: _send_by_itself,
        amqp091.BasicPublish: _send_by_itself,
    }
    _handlers = {  # noqa: RUF012
        amqp091.ChannelOpenOk: _on_open_ok,
        amqp091.ChannelClose: Channel._on_close,
        amqp091.ChannelCloseOk: Channel._on_close_ok,
        amqp091.ChannelFlow: _on_flow,
        amqp091.ChannelFlowOk: Channel._on_flow_ok,
        amqp091.AccessRequestOk: _on_reply,
        amqp091.ExchangeDeclareOk: _on_reply,
        amqp091.ExchangeDeleteOk: _on_reply,
        amqp091.ExchangeBindOk: _on_reply,
        amqp091.ExchangeUnbindOk: _on_reply,
        amqp091.QueueDeclareOk: _on_declared,
        amqp091.QueueBindOk: _on_reply,
        amqp091.QueuePurgeOk: _on_reply,
        amqp091.QueueDeleteOk: _on_reply,
        amqp091.QueueUnbindOk: _on_reply,
        amqp091.BasicQosOk: _on_reply,
        amqp091.BasicConsumeOk: _on_consume_ok,
        amqp091.BasicCancelOk: _on_cancel_ok,
        amqp091.BasicCancel: _on_cancel,
        amqp091.BasicGetEmpty: _on_get_empty,
        amqp091.BasicRecoverOk: _on_recover_ok,
        amqp091.BasicAck: _on_confirm,
        amqp091.BasicNack: _on_confirm,
        amqp091.ConfirmSelectOk: _on_reply,
        amqp091.TxSelectOk: _on_reply,
        amqp091.TxCommitOk: _on_reply,
        amqp091.TxRollbackOk: _on_reply,
    }


_MODES = {amqp091.ConfirmSelect: "confirm", amqp091.TxSelect: "tx"}
_IN_TX = frozenset((amqp091.TxCommit, amqp091.TxRollback))


class ServerChannel(Channel):
    """A channel that a client has opened.

    Attributes:
        queue: the queue declared last on this channel; "" if there is none. See `named`.
        prefetch: basic.qos for consumers started later; 0: no limit.
        shared_prefetch: basic.qos with global: deliveries of all consumers together; 0: no limit.
    """

    role = Role.SERVER
    connection: ServerConnection

    def __init__(self, connection: ServerConnection, number: int) -> None:
        super().__init__(connection, number)
        self.queue = ""
        self.prefetch = 0
        self.shared_prefetch = 0
        self._published = 0  # in confirm mode
        self._requests: dict[int, Any] = {}  # by id: events that wait for a reply
        self._confirms: dict[int, tuple[Any, int]] = {}  # by id of the event: the event, its number
        self._deliveries: Tags[Delivery] = Tags()
        self._next_delivery = 0
        self._shared_used = 0
        self._in_transaction: list[tuple[list[Delivery], Literal["ack", "requeue", "discard"], Any]] = []
        self._transacted = 0  # deliveries in it
        self._tag_number = 0

    # ---- what the host asks

    def named(self, queue: str | bytes) -> str:
        """A queue's name: an empty one means the queue declared last on this channel (1.7.2.1)."""
        return _text(queue) or self.queue

    def room(self, consumer_tag: str) -> int:
        """How many deliveries a consumer may have now."""
        consumer = self.consumers.get(consumer_tag)
        if consumer is None or not self.active or self.state is not ChannelState.OPEN:
            return 0
        room = self.connection.options.unacknowledged
        if consumer.no_ack:
            return room
        room -= len(self._deliveries.open) + self._transacted
        if consumer.prefetch:
            room = min(room, consumer.prefetch - consumer.unacknowledged)
        if self.shared_prefetch:
            room = min(room, self.shared_prefetch - self._shared_used)
        return max(room, 0)

    @property
    def unacknowledged(self) -> int:
        """Deliveries that wait for their acknowledgement."""
        return len(self._deliveries.open)

    # ---- deliveries

    def deliver(
        self,
        consumer_tag: str,
        exchange: str,
        routing_key: str,
        body: Buffer = b"",
        properties: amqp091.BasicProperties | None = None,
        *,
        redelivered: bool = False,
        context: Any = None,
    ) -> Delivery | None:
        """Deliver a message to a consumer: basic.deliver.

        Returns its handle, which `Settled` names; None if the consumer does not acknowledge.

        Raises LocalProtocolError: there is no such consumer, its window is closed (`room`), or too many bytes are queued.
        """
        if self.state is not ChannelState.OPEN or not self.connection._up:
            self._check("basic.deliver")
        consumer = self.consumers.get(consumer_tag)
        if consumer is None:
            raise LocalProtocolError(f"the channel has no consumer {consumer_tag!r}")
        if not self.room(consumer_tag):
            raise LocalProtocolError(f"the window of consumer {consumer_tag!r} is closed")
        tag = self._next_delivery + 1
        method = self._build(
            amqp091.BasicDeliver,
            consumer_tag=consumer_tag,
            delivery_tag=tag,
            redelivered=redelivered,
            exchange=exchange,
            routing_key=routing_key,
        )
        self._send_content(self._content(method, properties, body))
        self._next_delivery = tag
        if consumer.no_ack:
            return None
        delivery = Delivery(self.connection._next_number(), self.number, tag, consumer, context)
        self._deliveries.open[tag] = delivery
        consumer.unacknowledged += 1
        self._shared_used += 1
        return delivery

    def get_ok(
        self,
        event: amqp091.BasicGet,
        exchange: str,
        routing_key: str,
        body: Buffer = b"",
        properties: amqp091.BasicProperties | None = None,
        *,
        message_count: int = 0,
        redelivered: bool = False,
        context: Any = None,
    ) -> tuple[Delivery | None, list[Event]]:
        """Answer a basic.get with a message. `connection.reply` answers that there is none.

        Returns the handle of the delivery, as `deliver` does, and events of bytes that were waiting. Raises
        LocalProtocolError if the event does not wait for it, or too many deliveries are unacknowledged.
        """
        self._check("basic.get-ok")
        self._asked(event)
        if not event.no_ack and len(self._deliveries.open) + self._transacted >= self.connection.options.unacknowledged:
            raise LocalProtocolError("too many deliveries are unacknowledged", reply=RESOURCE)
        tag = self._next_delivery + 1
        method = self._build(
            amqp091.BasicGetOk,
            delivery_tag=tag,
            redelivered=redelivered,
            exchange=exchange,
            routing_key=routing_key,
            message_count=message_count,
        )
        self._flush()
        self._send_content(self._content(method, properties, body))
        self._answered(event)
        self._next_delivery = tag
        delivery: Delivery | None = None
        if not event.no_ack:
            delivery = Delivery(self.connection._next_number(), self.number, tag, None, context)
            self._deliveries.open[tag] = delivery
        return delivery, self.connection._go_on()

    def cancel(self, consumer_tag: str) -> None:
        """End a consumer, as when its queue is deleted. A client that has announced consumer_cancel_notify receives
        basic.cancel."""
        self.connection._check_open()
        if self.consumers.pop(consumer_tag, None) is None:
            raise LocalProtocolError(f"the channel has no consumer {consumer_tag!r}")
        if "consumer_cancel_notify" in self.connection.capabilities:
            self._put(amqp091.BasicCancel(channel=self.number, consumer_tag=consumer_tag, nowait=True))

    def close(self, code: int = SUCCESS, reason: str = "", event: Any = None) -> list[Event]:
        """Close the channel, for an event with its class and method. Returns `ChannelClosed`, and events of bytes that were
        waiting."""
        self._check("channel.close")
        events: list[Event] = []
        self._fail(code, reason, ids_of(event) if event is not None else (0, 0), events)
        return events + self.connection._go_on()

    def _fail(
        self, code: int, reason: str, ids: tuple[int, int], events: list[Event], error: Exception | None = None
    ) -> None:
        self._close(code, reason, ids)
        self.state = ChannelState.CLOSING
        self._gone("local", code, reason, events, error=error)

    # ---- requests

    def _asked(self, event: Any) -> None:
        if self._requests.get(id(event)) is not event:
            raise LocalProtocolError("this event does not wait for a reply")

    def _answered(self, event: Any) -> None:
        del self._requests[id(event)]
        self.connection._undecided -= 1

    def _ask(self, event: Any, events: list[Event]) -> None:
        self._requests[id(event)] = event
        self.connection._undecided += 1
        events.append(event)

    def _reply(self, event: Any, fields: dict[str, Any]) -> None:
        self._asked(event)
        kind = type(event)
        nowait = getattr(event, "nowait", False)
        reply: Any = None
        if kind is amqp091.BasicGet:
            reply = self._build(amqp091.BasicGetEmpty, **fields)
        elif kind is amqp091.BasicConsume:
            tag = fields.setdefault("consumer_tag", _text(event.consumer_tag) or self._make_tag())
            if tag in self.consumers:
                raise LocalProtocolError(f"the consumer-tag {tag!r} is in use on this channel", reply=NOT_ALLOWED)
            reply = self._build(amqp091.BasicConsumeOk, **fields)
            self.consumers[tag] = Consumer(tag, event, self.prefetch)
        elif kind is amqp091.QueueDeclare:
            fields = {"queue": event.queue, "message_count": 0, "consumer_count": 0, **fields}
            reply = self._build(amqp091.QueueDeclareOk, **fields)
            self.queue = _text(fields["queue"])
        elif kind in (amqp091.QueuePurge, amqp091.QueueDelete):
            reply = self._build(REPLY_OF[kind], **{"message_count": 0, **fields})
        else:
            reply = self._build(REPLY_OF[kind], **fields)
        self._answered(event)
        if not nowait:
            self._put(reply)

    def _make_tag(self) -> str:
        while True:
            self._tag_number += 1
            tag = f"amq.ctag-{self.number}-{self._tag_number}"
            if tag not in self.consumers:
                return tag

    def _confirm(self, event: Any) -> int:
        """The number of a publish that waits for its confirm."""
        known = self._confirms.get(id(event))
        if known is None or known[0] is not event:
            raise LocalProtocolError("this message does not wait for a confirm")
        return known[1]

    def _confirmed(self, event: Any, tag: int) -> None:
        del self._confirms[id(event)]
        del self._tags.open[tag]
        self.connection._undecided -= 1

    # ---- what comes

    def _on_open(self, message: amqp091.ChannelOpen, events: list[Event]) -> None:
        self.state = ChannelState.OPEN
        self._put(amqp091.ChannelOpenOk(channel=self.number))
        events.append(ChannelOpened(self.number, self))

    def _on_content(self, message: amqp091.BasicMessage, events: list[Event]) -> None:
        method = message.method
        if type(method) is not amqp091.BasicPublish:
            raise RemoteProtocolError("only a server sends this method (2.2.4)", reply=COMMAND_INVALID)
        if method.immediate:
            raise RemoteProtocolError("immediate=true", reply=NOT_IMPLEMENTED)
        if len(message.body) > self.connection.options.message_size:
            raise RemoteProtocolError(
                f"message size {len(message.body)} is larger than configured max size "
                f"{self.connection.options.message_size}",
                reply=PRECONDITION,
            )
        if self.mode == "confirm":
            self._published = tag = self._published + 1
            self._tags.open[tag] = None
            self._confirms[id(message)] = (message, tag)
            self.connection._undecided += 1
        events.append(message)

    def _on_request(self, message: amqp091.Method, events: list[Event]) -> None:
        self._ask(message, events)

    def _on_queue_request(self, message: Any, events: list[Event]) -> None:
        if not message.queue and not self.queue:
            raise RemoteProtocolError("no previously declared queue", reply=NOT_FOUND)
        self._ask(message, events)

    def _on_declare_queue(self, message: amqp091.QueueDeclare, events: list[Event]) -> None:
        if not message.queue and message.passive and not self.queue:
            raise RemoteProtocolError("no previously declared queue", reply=NOT_FOUND)
        self._ask(message, events)

    def _on_consume(self, message: amqp091.BasicConsume, events: list[Event]) -> None:
        tag = _text(message.consumer_tag)
        if not message.queue and not self.queue:
            raise RemoteProtocolError("no previously declared queue", reply=NOT_FOUND)
        asked = any(
            type(event) is amqp091.BasicConsume and event.consumer_tag == tag for event in self._requests.values()
        )
        if tag and (tag in self.consumers or asked):
            raise RemoteProtocolError(f"attempt to reuse consumer tag '{tag}'", reply=NOT_ALLOWED)
        if len(self.consumers) >= self.connection.options.consumers:
            raise RemoteProtocolError("too many consumers on a channel", reply=NOT_ALLOWED)
        self._ask(message, events)

    def _on_cancel(self, message: amqp091.BasicCancel, events: list[Event]) -> None:
        """Answered at once, also for a consumer that is not there (RabbitMQ)."""
        known = self.consumers.pop(_text(message.consumer_tag), None)
        if not message.nowait:
            self._put(amqp091.BasicCancelOk(channel=self.number, consumer_tag=message.consumer_tag))
        if known is not None:
            events.append(message)

    def _on_cancel_ok(self, message: amqp091.BasicCancelOk, events: list[Event]) -> None:
        """The answer of a client to our basic.cancel; RabbitMQ's clients send none."""

    def _on_flow(self, message: amqp091.ChannelFlow, events: list[Event]) -> None:
        if not message.active:
            raise RemoteProtocolError("active=false", reply=NOT_IMPLEMENTED)
        super()._on_flow(message, events)

    def _on_qos(self, message: amqp091.BasicQos, events: list[Event]) -> None:
        if message.prefetch_size:
            raise RemoteProtocolError(f"prefetch_size!=0 ({message.prefetch_size})", reply=NOT_IMPLEMENTED)
        if message.global_:
            self.shared_prefetch = message.prefetch_count
        else:
            self.prefetch = message.prefetch_count
        self._put(amqp091.BasicQosOk(channel=self.number))
        events.append(message)

    def _on_access(self, message: amqp091.AccessRequest, events: list[Event]) -> None:
        self._put(amqp091.AccessRequestOk(channel=self.number, ticket=1))

    def _on_confirm_select(self, message: amqp091.ConfirmSelect, events: list[Event]) -> None:
        if self.mode == "tx":
            raise RemoteProtocolError("cannot switch from tx to confirm mode", reply=PRECONDITION)
        self.mode = "confirm"
        if not message.nowait:
            self._put(amqp091.ConfirmSelectOk(channel=self.number))

    def _on_tx_select(self, message: amqp091.TxSelect, events: list[Event]) -> None:
        if self.mode == "confirm":
            raise RemoteProtocolError("cannot switch from confirm to tx mode", reply=PRECONDITION)
        self.mode = "tx"
        self._put(amqp091.TxSelectOk(channel=self.number))

    def _on_tx_commit(self, message: amqp091.TxCommit, events: list[Event]) -> None:
        if self.mode != "tx":
            raise RemoteProtocolError("channel is not transactional", reply=PRECONDITION)
        for deliveries, outcome, method in self._in_transaction:
            self._release(deliveries)
            events.append(Settled(self.number, deliveries, outcome, method))
        self._in_transaction.clear()
        self._transacted = 0
        self._ask(message, events)

    def _on_tx_rollback(self, message: amqp091.TxRollback, events: list[Event]) -> None:
        """Acks are undone: their deliveries wait again (1.9.2.6)."""
        if self.mode != "tx":
            raise RemoteProtocolError("channel is not transactional", reply=PRECONDITION)
        if self._in_transaction:
            back = [d for deliveries, _, _ in self._in_transaction for d in deliveries]
            self._in_transaction.clear()
            self._transacted = 0
            everything = sorted([*back, *self._deliveries.open.values()], key=lambda d: d.tag)
            self._deliveries.open.clear()
            self._deliveries.open.update((d.tag, d) for d in everything)
        self._put(amqp091.TxRollbackOk(channel=self.number))
        events.append(message)

    def _on_ack(self, message: amqp091.BasicAck, events: list[Event]) -> None:
        self._settled(message, message.multiple, "ack", events)

    def _on_nack(self, message: amqp091.BasicNack, events: list[Event]) -> None:
        self._settled(message, message.multiple, "requeue" if message.requeue else "discard", events)

    def _on_reject(self, message: amqp091.BasicReject, events: list[Event]) -> None:
        self._settled(message, False, "requeue" if message.requeue else "discard", events)

    def _settled(
        self, message: Any, multiple: bool, outcome: Literal["ack", "requeue", "discard"], events: list[Event]
    ) -> None:
        tag = message.delivery_tag
        waiting = self._deliveries.open
        if multiple:
            if tag and tag not in waiting:
                raise RemoteProtocolError(f"unknown delivery tag {tag}", reply=PRECONDITION)
            deliveries = self._deliveries.open.settle_up_to(tag or self._next_delivery)
        else:
            delivery = waiting.pop(tag, None)
            if delivery is None:
                raise RemoteProtocolError(f"unknown delivery tag {tag}", reply=PRECONDITION)
            deliveries = [delivery]
        if not deliveries:
            return
        if self.mode == "tx":
            self._in_transaction.append((deliveries, outcome, message))
            self._transacted += len(deliveries)
            return
        self._release(deliveries)
        events.append(Settled(self.number, deliveries, outcome, message))

    def _release(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            consumer = delivery.consumer
            if consumer is not None:
                consumer.unacknowledged -= 1
                self._shared_used -= 1

    def _on_recover(self, message: Any, events: list[Event]) -> None:
        if not message.requeue:
            raise RemoteProtocolError("requeue=false", reply=NOT_IMPLEMENTED)
        deliveries = self._deliveries.open.settle_up_to(self._next_delivery)
        self._release(deliveries)
        if type(message) is amqp091.BasicRecover:
            self._put(amqp091.BasicRecoverOk(channel=self.number))
        events.append(Settled(self.number, deliveries, "requeue", message))

    def _lost(self) -> tuple[Any, ...]:
        waiting = [*self._deliveries.open.values(), *(d for ds, _, _ in self._in_transaction for d in ds)]
        return tuple(sorted(waiting, key=lambda delivery: delivery.tag))

    def _forget(self) -> None:
        self.connection._undecided -= len(self._requests) + len(self._confirms)
        self._requests.clear()
        self._confirms.clear()
        self._deliveries.open.clear()
        self._in_transaction.clear()

    _handlers = {  # noqa: RUF012
        amqp091.ChannelOpen: _on_open,
        amqp091.ChannelClose: Channel._on_close,
        amqp091.ChannelCloseOk: Channel._on_close_ok,
        amqp091.ChannelFlow: _on_flow,
        amqp091.ChannelFlowOk: Channel._on_flow_ok,
        amqp091.AccessRequest: _on_access,
        amqp091.ExchangeDeclare: _on_request,
        amqp091.ExchangeDelete: _on_request,
        amqp091.ExchangeBind: _on_request,
        amqp091.ExchangeUnbind: _on_request,
        amqp091.QueueDeclare: _on_declare_queue,
        amqp091.QueueBind: _on_queue_request,
        amqp091.QueuePurge: _on_queue_request,
        amqp091.QueueDelete: _on_queue_request,
        amqp091.QueueUnbind: _on_queue_request,
        amqp091.BasicQos: _on_qos,
        amqp091.BasicConsume: _on_consume,
        amqp091.BasicCancel: _on_cancel,
        amqp091.BasicCancelOk: _on_cancel_ok,
        amqp091.BasicGet: _on_queue_request,
        amqp091.BasicAck: _on_ack,
        amqp091.BasicNack: _on_nack,
        amqp091.BasicReject: _on_reject,
        amqp091.BasicRecover: _on_recover,
        amqp091.BasicRecoverAsync: _on_recover,
        amqp091.ConfirmSelect: _on_confirm_select,
        amqp091.TxSelect: _on_tx_select,
        amqp091.TxCommit: _on_tx_commit,
        amqp091.TxRollback: _on_tx_rollback,
    }


def ids_of(event: Any) -> tuple[int, int]:
    """Class and method of an event, as close names them."""
    method = event.method if type(event) is amqp091.BasicMessage else event
    ids: tuple[int, int] = method.ids
    return ids
