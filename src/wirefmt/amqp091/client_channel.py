"""A channel of an AMQP 0.9.1 client: calls and replies, publishing, consuming."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from wirefmt import amqp091
from wirefmt.amqp091._codec import ClientChannelFlows, Consumer, Publication
from wirefmt.amqp091.channel import NAME_OF, REPLY_OF, Channel, text_of, wrong_reply
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp091.events import Call, ClientEvent, Event, Returned
from wirefmt.amqp091.states import ChannelState
from wirefmt.connection.contract import Acknowledged, WindowOpened
from wirefmt.connection.states import Role
from wirefmt.errors import LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from wirefmt.amqp091.connection import ClientConnection

_MODES = {amqp091.ConfirmSelect: "confirm", amqp091.TxSelect: "tx"}
_IN_TX = frozenset((amqp091.TxCommit, amqp091.TxRollback))


class ClientChannel(Channel, ClientChannelFlows):
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
        #: The handle of channel.open.
        self.opened: Call | None = None
        self._closed_with: tuple[int, str] = (ReplyCode.REPLY_SUCCESS, "")

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
            raise LocalProtocolError(f"{kind.__name__} is not a method of a channel")
        self._check(name)
        special = self._special.get(kind)
        if special is not None:
            return special(self, message)
        reply = REPLY_OF.get(kind)
        nowait = getattr(message, "nowait", False)
        if kind is amqp091.BasicConsume:
            self._check_consume(message)
        elif kind is amqp091.BasicQos and message.prefetch_size:
            raise LocalProtocolError(
                "prefetch-size is not implemented by servers (RabbitMQ)", reply=ReplyCode.NOT_IMPLEMENTED
            )
        elif kind in _MODES and self.mode not in ("plain", _MODES[kind]):
            raise LocalProtocolError(f"the channel is in mode {self.mode}", reply=ReplyCode.PRECONDITION_FAILED)
        elif kind in _IN_TX and self.mode != "tx":
            raise LocalProtocolError("the channel is not transactional (1.9.2)", reply=ReplyCode.PRECONDITION_FAILED)
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
        tag = text_of(message.consumer_tag)
        if tag in self.consumers or (
            tag and any(call.message.consumer_tag == tag for call in self._waiting_consumes())
        ):
            raise LocalProtocolError(f"the consumer-tag {tag!r} is in use on this channel", reply=ReplyCode.NOT_ALLOWED)
        if not tag and message.nowait:
            raise LocalProtocolError("nowait needs a consumer-tag: the server's name for it does not come")
        if len(self.consumers) + len(self._leaving) >= self.connection.options.consumers:
            raise LocalProtocolError("the channel has too many consumers", reply=ReplyCode.RESOURCE_ERROR)

    def _waiting_consumes(self) -> deque[Any]:
        return self._calls.get(amqp091.BasicConsumeOk, deque())

    def _did(self, message: amqp091.Method) -> None:
        """A method without a reply is done."""
        if isinstance(message, amqp091.BasicConsume):
            tag = text_of(message.consumer_tag)
            self.consumers[tag] = Consumer(tag, message)
            self._leaving.pop(tag, None)
        elif isinstance(message, amqp091.BasicCancel):
            consumer = self.consumers.pop(text_of(message.consumer_tag), None)
            if consumer is not None:
                self._leaving[consumer.tag] = consumer
        elif isinstance(message, amqp091.QueueDeclare) and message.queue:
            self.queue = text_of(message.queue)

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
            raise LocalProtocolError(
                "recover without requeue is not implemented (RabbitMQ)", reply=ReplyCode.NOT_IMPLEMENTED
            )
        self._put(message)
        self._tags.clear()
        if type(message) is amqp091.BasicRecoverAsync:
            return None
        self._recovering += 1
        call = Call(self.connection._next_number(), message)
        self._calls.setdefault(amqp091.BasicRecoverOk, deque()).append(call)
        self.connection._note_reading()  # deliveries no longer wait: recover-ok must be read
        return call

    def close(self, code: int = ReplyCode.REPLY_SUCCESS, reason: str = "Normal shutdown") -> list[ClientEvent]:
        """Close the channel. `ChannelClosed` comes with close-ok; until then what the server sends on it is dropped.

        Deliveries that are not acknowledged go back to their queues. Returns events of bytes that were waiting.
        """
        self._check("channel.close")
        self._close(code, reason)
        self._begin_closing(code, reason)
        return self.connection._go_on()

    def _send_close(self, message: amqp091.ChannelClose) -> None:
        self._put(message)
        self._begin_closing(message.reply_code, text_of(message.reply_text))
        self.connection._note_reading()

    def _begin_closing(self, code: int, reason: str) -> None:
        self.state = ChannelState.CLOSING
        self._closed_with = (code, reason)
        self._tags.clear()

    # ---- publishing

    def publish_message(self, message: amqp091.BasicMessage) -> Publication | None:
        """Publish a BasicMessage with basic.publish: see `publish`."""
        method = message.method
        if type(method) is not amqp091.BasicPublish:
            raise LocalProtocolError("a client sends basic.publish with content (1.8.3.7)")
        if method.immediate:
            raise LocalProtocolError(
                "immediate is not implemented by servers (RabbitMQ)", reply=ReplyCode.NOT_IMPLEMENTED
            )
        return self._publish(message)

    def resend(self, publication: Publication) -> None:
        """Publish a message of an earlier channel or connection again, in confirm mode. Its handle stays the same.

        Raises LocalProtocolError as `publish` does, and if the message does not wait for a confirm."""
        connection = self.connection
        session = connection._session
        if session.outgoing.get(publication.number) is not publication:
            raise LocalProtocolError("this message does not wait for a confirm")
        old = connection.channels.get(publication.channel)
        if old is not None and old._unconfirmed.get(publication.tag) is publication:
            raise LocalProtocolError("this message has been sent on a channel that is open")
        if self.mode != "confirm":
            raise LocalProtocolError("the channel is not in confirm mode")
        self._check_publish()
        method = publication.message.method
        self._send_again(
            publication,
            self._build(
                amqp091.BasicPublish,
                exchange=method.exchange,
                routing_key=method.routing_key,
                mandatory=method.mandatory,
            ),
        )

    @property
    def send_quota(self) -> int:
        """How many messages may be published now."""
        if not self.active or self.connection.blocked or self.state not in (ChannelState.OPEN, ChannelState.OPENING):
            return 0
        return max(self.connection.options.unconfirmed - len(self._unconfirmed), 0)

    @property
    def unconfirmed(self) -> int:
        """Publishes that wait for their confirms."""
        return len(self._unconfirmed)

    def _window(self, events: list[Event]) -> None:
        if self._full and (capacity := self.send_quota):
            self._full = False
            events.append(WindowOpened(capacity, self))

    def _on_flow(self, message: amqp091.ChannelFlow, events: list[Event]) -> None:
        super()._on_flow(message, events)
        self._window(events)

    # ---- consuming

    @property
    def unacknowledged(self) -> int:
        """Deliveries that wait for their acknowledgement."""
        return len(self._tags)

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> list[ClientEvent]:
        """Return a delivery to the server, or with `multiple` all up to it (tag 0: all). The server delivers it again, or without
        `requeue` drops or dead-letters it. See `ack`."""
        self._check("basic.nack")
        if not (self._take(delivery_tag) if multiple else self._take_one(delivery_tag)):
            return []
        self._put(amqp091.BasicNack(channel=self.number, delivery_tag=delivery_tag, multiple=multiple, requeue=requeue))
        return self.connection._go_on()

    def reject(self, delivery_tag: int, requeue: bool = True) -> list[ClientEvent]:
        """Return one delivery: basic.reject. See `nack`."""
        self._check("basic.reject")
        self._take_one(delivery_tag)
        self._put(amqp091.BasicReject(channel=self.number, delivery_tag=delivery_tag, requeue=requeue))
        return self.connection._go_on()

    def _take_one(self, tag: int) -> bool:
        """Take out one delivery. Acks noted before are written first: their `multiple` must not include it."""
        if tag not in self._tags:
            self._not_waiting(tag)
        self._flush()
        self._tags.pop(tag)
        return True

    def _take(self, tag: int) -> bool:
        """Take out all deliveries up to a tag, as `_take_one`. False: there are none."""
        if tag and tag not in self._tags:
            self._not_waiting(tag)
        self._flush()
        return bool(self._tags.settle_up_to(tag or self._last_delivery))

    def _not_waiting(self, tag: int) -> None:
        raise LocalProtocolError(
            f"channel {self.number}: delivery-tag {tag} does not wait for an acknowledgement",
            reply=ReplyCode.PRECONDITION_FAILED,
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
        if kind is amqp091.BasicReturn:
            events.append(Returned(message, self._match(message)))
        elif kind is amqp091.BasicGetOk:
            call = self._reply(method, amqp091.BasicGetOk)
            self._take_tag(method.delivery_tag, call.message.no_ack)  # type: ignore[attr-defined]
            events.append(Acknowledged(call, message))
        else:
            raise RemoteProtocolError("only a client sends this method (2.2.4)", reply=ReplyCode.COMMAND_INVALID)

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
                self._mandatory.pop(publication.tag)  # a return comes once
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
        self.queue = text_of(message.queue)
        events.append(Acknowledged(call, message))

    def _on_consume_ok(self, message: amqp091.BasicConsumeOk, events: list[Event]) -> None:
        tag = text_of(message.consumer_tag)
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
        self.consumers.pop(text_of(message.consumer_tag), None)
        events.append(Acknowledged(call, message))

    def _on_cancel(self, message: amqp091.BasicCancel, events: list[Event]) -> None:
        """The server ends a consumer (RabbitMQ's consumer cancel notification). It wants no answer."""
        consumer = self.consumers.pop(text_of(message.consumer_tag), None)
        if consumer is None:
            self.connection.strays += 1
            return
        if not message.nowait:
            self._put(amqp091.BasicCancelOk(channel=self.number, consumer_tag=message.consumer_tag))
        events.append(message)

    def _unconfirmed_handles(self) -> tuple[Publication, ...]:
        return tuple(self._unconfirmed.values())

    def _lost(self) -> tuple[Any, ...]:
        calls = [call for waiting in self._calls.values() for call in waiting]
        return tuple(sorted(calls, key=lambda call: call.number))

    def _forget(self) -> None:
        self._unconfirmed.clear()
        self._mandatory.clear()
        self._calls.clear()

    _special: ClassVar = {
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
    _handlers: ClassVar = {
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
        amqp091.BasicAck: ClientChannelFlows._on_ack,
        amqp091.BasicNack: ClientChannelFlows._on_nack,
        amqp091.ConfirmSelectOk: _on_reply,
        amqp091.TxSelectOk: _on_reply,
        amqp091.TxCommitOk: _on_reply,
        amqp091.TxRollbackOk: _on_reply,
    }
