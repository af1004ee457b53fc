"""A channel of an AMQP 0.9.1 server: requests and replies, deliveries, confirms, transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from wirefmt import amqp091
from wirefmt.amqp091._codec import Consumer, Delivery, ServerChannelFlows
from wirefmt.amqp091.channel import REPLY_OF, Channel, ids_of, text_of, wrong_reply
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp091.events import ChannelOpened, ChannelWaits, Event, ServerEvent, Settled
from wirefmt.amqp091.states import ChannelState
from wirefmt.connection.states import Role
from wirefmt.errors import LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from wirefmt.amqp091.connection import ServerConnection


class ServerChannel(Channel, ServerChannelFlows):
    """A channel that a client has opened.

    Attributes:
        queue: the queue declared last on this channel; "" before the first. See `named`.
        prefetch: basic.qos for consumers started later; 0: no limit.
        shared_prefetch: basic.qos with global: deliveries of all consumers together; 0: no limit.
    """

    role = Role.SERVER
    connection: ServerConnection

    def __init__(self, connection: ServerConnection, number: int) -> None:
        super().__init__(connection, number)
        self.queue = ""
        self._request: Any = None  # the event that waits for a reply; what comes after it waits, too: see `_held`
        self._in_transaction: list[tuple[list[Delivery], Literal["ack", "requeue", "discard"], Any]] = []
        self._tag_number = 0
        self._flows = 0  # channel.flow that wait for flow-ok

    # ---- what the host asks

    def named(self, queue: str | bytes) -> str:
        """A queue's name: an empty one means the queue declared last on this channel (1.7.2.1)."""
        return text_of(queue) or self.queue

    @property
    def unacknowledged(self) -> int:
        """Deliveries that wait for their acknowledgement."""
        return len(self._deliveries)

    @property
    def deliveries(self) -> list[Delivery]:
        """Those."""
        return list(self._deliveries.values())

    # ---- deliveries

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
        """Answer a basic.get with a message. `connection.reply` answers get-empty.

        Returns the handle of the delivery, as `deliver` does, and events of bytes that were waiting. Raises
        LocalProtocolError if the event does not wait for it, or too many deliveries are unacknowledged.
        """
        self._check("basic.get-ok")
        self._asked(event)
        if not event.no_ack and len(self._deliveries) + self._transacted >= self.connection.options.unacknowledged:
            raise LocalProtocolError("too many deliveries are unacknowledged", reply=ReplyCode.RESOURCE_ERROR)
        tag = self._last_delivery + 1
        method = self._build(
            amqp091.BasicGetOk,
            delivery_tag=tag,
            redelivered=redelivered,
            exchange=exchange,
            routing_key=routing_key,
            message_count=message_count,
        )
        self._flush()
        self._put_content(method, properties, body)
        self._answered()
        delivery = self._delivered(context, event.no_ack)
        return delivery, self.connection._go_on_with(self)

    def cancel(self, consumer_tag: str) -> None:
        """End a consumer, as when its queue is deleted. A client that has announced consumer_cancel_notify receives
        basic.cancel."""
        self.connection._check_open()
        if self.consumers.pop(consumer_tag, None) is None:
            raise LocalProtocolError(f"the channel has no consumer {consumer_tag!r}")
        if "consumer_cancel_notify" in self.connection.capabilities:
            self._put(amqp091.BasicCancel(channel=self.number, consumer_tag=consumer_tag, nowait=True))

    def close(self, code: int = ReplyCode.REPLY_SUCCESS, reason: str = "", event: Any = None) -> list[ServerEvent]:
        """Close the channel, for an event with its class and method. Returns `ChannelClosed`, and events of bytes that were
        waiting."""
        self._check("channel.close")
        events: list[Event] = []
        self._fail(code, reason, ids_of(event) if event is not None else (0, 0), events)
        return events + self.connection._go_on_with(self)

    def _fail(
        self, code: int, reason: str, ids: tuple[int, int], events: list[Event], error: Exception | None = None
    ) -> None:
        self._close(code, reason, ids)
        self.state = ChannelState.CLOSING
        self._gone("local", code, reason, events, error=error)

    # ---- requests

    def _asked(self, event: Any) -> None:
        if event is None or self._request is not event:
            raise LocalProtocolError("this event does not wait for a reply")

    def _answered(self) -> None:
        """The request is answered, or nobody waits for its answer any more."""
        if self._held:
            self.connection._undecided -= type(self._request) is not ChannelWaits
            self._request, self._held = None, False

    def _ask(self, event: Any, events: list[Event]) -> None:
        """An event waits for the host. `ChannelWaits` does not count for `undecided`: the message behind it does."""
        self._request, self._held = event, True
        self.connection._undecided += type(event) is not ChannelWaits
        events.append(event)

    def _reply(self, event: Any, fields: dict[str, Any]) -> None:
        self._asked(event)
        kind = type(event)
        nowait = getattr(event, "nowait", False)
        reply: Any = None
        if kind is amqp091.BasicGet:
            reply = self._build(amqp091.BasicGetEmpty, **fields)
        elif kind is amqp091.BasicConsume:
            tag = fields.setdefault("consumer_tag", text_of(event.consumer_tag) or self._make_tag())
            if tag in self.consumers:
                raise LocalProtocolError(
                    f"the consumer-tag {tag!r} is in use on this channel", reply=ReplyCode.NOT_ALLOWED
                )
            reply = self._build(amqp091.BasicConsumeOk, **fields)
            self.consumers[tag] = Consumer(tag, event, self.prefetch)
        elif kind is amqp091.QueueDeclare:
            fields = {"queue": event.queue, "message_count": 0, "consumer_count": 0, **fields}
            reply = self._build(amqp091.QueueDeclareOk, **fields)
            self.queue = text_of(fields["queue"])
        elif kind in (amqp091.QueuePurge, amqp091.QueueDelete):
            reply = self._build(REPLY_OF[kind], **{"message_count": 0, **fields})
        else:
            reply = self._build(REPLY_OF[kind], **fields)
        self._answered()
        if not nowait:
            self._put(reply)

    def _make_tag(self) -> str:
        while True:
            self._tag_number += 1
            tag = f"amq.ctag-{self.number}-{self._tag_number}"
            if tag not in self.consumers:
                return tag

    # ---- what comes

    def _on_open(self, message: amqp091.ChannelOpen, events: list[Event]) -> None:
        self.state = ChannelState.OPEN
        self._put(amqp091.ChannelOpenOk(channel=self.number))
        events.append(ChannelOpened(self.number, self))

    def _on_request(self, message: amqp091.Method, events: list[Event]) -> None:
        self._ask(message, events)

    def _on_queue_request(self, message: Any, events: list[Event]) -> None:
        if not message.queue and not self.queue:
            raise RemoteProtocolError("no previously declared queue", reply=ReplyCode.NOT_FOUND)
        self._ask(message, events)

    def _on_declare_queue(self, message: amqp091.QueueDeclare, events: list[Event]) -> None:
        if not message.queue and message.passive and not self.queue:
            raise RemoteProtocolError("no previously declared queue", reply=ReplyCode.NOT_FOUND)
        self._ask(message, events)

    def _on_consume(self, message: amqp091.BasicConsume, events: list[Event]) -> None:
        tag = text_of(message.consumer_tag)
        if not message.queue and not self.queue:
            raise RemoteProtocolError("no previously declared queue", reply=ReplyCode.NOT_FOUND)
        if tag in self.consumers:
            raise RemoteProtocolError(f"attempt to reuse consumer tag '{tag}'", reply=ReplyCode.NOT_ALLOWED)
        if len(self.consumers) >= self.connection.options.consumers:
            raise RemoteProtocolError("too many consumers on a channel", reply=ReplyCode.NOT_ALLOWED)
        self._ask(message, events)

    def _on_cancel(self, message: amqp091.BasicCancel, events: list[Event]) -> None:
        """Answered at once, also for a consumer that is not there (RabbitMQ)."""
        known = self.consumers.pop(text_of(message.consumer_tag), None)
        if not message.nowait:
            self._put(amqp091.BasicCancelOk(channel=self.number, consumer_tag=message.consumer_tag))
        if known is not None:
            events.append(message)

    def flow(self, active: bool) -> None:
        super().flow(active)
        self._flows += 1

    def _on_flow_ok(self, message: amqp091.ChannelFlowOk, events: list[Event]) -> None:
        if not self._flows:
            raise wrong_reply(message)
        self._flows -= 1
        super()._on_flow_ok(message, events)

    def _on_flow(self, message: amqp091.ChannelFlow, events: list[Event]) -> None:
        if not message.active:
            raise RemoteProtocolError("active=false", reply=ReplyCode.NOT_IMPLEMENTED)
        super()._on_flow(message, events)

    def _on_qos(self, message: amqp091.BasicQos, events: list[Event]) -> None:
        if message.prefetch_size:
            raise RemoteProtocolError(f"prefetch_size!=0 ({message.prefetch_size})", reply=ReplyCode.NOT_IMPLEMENTED)
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
            raise RemoteProtocolError("cannot switch from tx to confirm mode", reply=ReplyCode.PRECONDITION_FAILED)
        self.mode = "confirm"
        if not message.nowait:
            self._put(amqp091.ConfirmSelectOk(channel=self.number))

    def _on_tx_select(self, message: amqp091.TxSelect, events: list[Event]) -> None:
        if self.mode == "confirm":
            raise RemoteProtocolError("cannot switch from confirm to tx mode", reply=ReplyCode.PRECONDITION_FAILED)
        self.mode = "tx"
        self._put(amqp091.TxSelectOk(channel=self.number))
        events.append(message)

    def _on_tx_commit(self, message: amqp091.TxCommit, events: list[Event]) -> None:
        if self.mode != "tx":
            raise RemoteProtocolError("channel is not transactional", reply=ReplyCode.PRECONDITION_FAILED)
        for deliveries, outcome, method in self._in_transaction:
            self._release(deliveries)
            events.append(Settled(self.number, deliveries, outcome, method))
        self._in_transaction.clear()
        self._transacted = 0
        self._ask(message, events)

    def _on_tx_rollback(self, message: amqp091.TxRollback, events: list[Event]) -> None:
        """Acks are undone: their deliveries wait again (1.9.2.6)."""
        if self.mode != "tx":
            raise RemoteProtocolError("channel is not transactional", reply=ReplyCode.PRECONDITION_FAILED)
        if self._in_transaction:
            self._restore([d for deliveries, _, _ in self._in_transaction for d in deliveries])
            self._in_transaction.clear()
            self._transacted = 0
        self._put(amqp091.TxRollbackOk(channel=self.number))
        events.append(message)

    def _in_tx(
        self, deliveries: list[Delivery], outcome: Literal["ack", "requeue", "discard"], message: amqp091.Method
    ) -> None:
        """Deliveries have been settled in a transaction."""
        self._in_transaction.append((deliveries, outcome, message))
        self._transacted += len(deliveries)

    def _on_recover(self, message: Any, events: list[Event]) -> None:
        if not message.requeue:
            raise RemoteProtocolError("requeue=false", reply=ReplyCode.NOT_IMPLEMENTED)
        deliveries = self._deliveries.settle_up_to(self._last_delivery)
        self._release(deliveries)
        if type(message) is amqp091.BasicRecover:
            self._put(amqp091.BasicRecoverOk(channel=self.number))
        events.append(Settled(self.number, deliveries, "requeue", message))

    def _lost(self) -> tuple[Any, ...]:
        waiting = [*self._deliveries.values(), *(d for ds, _, _ in self._in_transaction for d in ds)]
        return tuple(sorted(waiting, key=lambda delivery: delivery.tag))

    def _forget(self) -> None:
        self._answered()
        self._unheard = False
        self.connection._undecided -= len(self._tags)
        self._deliveries.clear()
        self._in_transaction.clear()

    _handlers: ClassVar = {
        amqp091.ChannelOpen: _on_open,
        amqp091.ChannelClose: Channel._on_close,
        amqp091.ChannelCloseOk: Channel._on_close_ok,
        amqp091.ChannelFlow: _on_flow,
        amqp091.ChannelFlowOk: _on_flow_ok,
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
        amqp091.BasicGet: _on_queue_request,
        amqp091.BasicAck: ServerChannelFlows._on_ack,
        amqp091.BasicNack: ServerChannelFlows._on_nack,
        amqp091.BasicReject: ServerChannelFlows._on_reject,
        amqp091.BasicRecover: _on_recover,
        amqp091.BasicRecoverAsync: _on_recover,
        amqp091.ConfirmSelect: _on_confirm_select,
        amqp091.TxSelect: _on_tx_select,
        amqp091.TxCommit: _on_tx_commit,
        amqp091.TxRollback: _on_tx_rollback,
    }
