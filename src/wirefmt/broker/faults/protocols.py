"""What faults need to know of each protocol: frames, deliveries, acknowledgements, and how a client or a message is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp10._codec import Incoming
from wirefmt.amqp10.codes import ErrorCondition, SaslCode
from wirefmt.amqp10.events import Login
from wirefmt.broker.limits import ENTRY, Refusal
from wirefmt.broker.messages import Published
from wirefmt.broker.mqtt import size_of
from wirefmt.broker.rocketmq.sending import SEND_LONG, SEND_SHORT, TOGETHER, parts_of
from wirefmt.broker.views import Message, text_of_body
from wirefmt.convert import Container
from wirefmt.errors import ConversionError, DecodeError
from wirefmt.mqtt.codes import ReasonCode, ReturnCode
from wirefmt.rocketmq.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from wirefmt.broker import amqp091 as amqp091_broker
    from wirefmt.broker import amqp10 as amqp10_broker
    from wirefmt.broker import mqtt as mqtt_broker
    from wirefmt.broker import nsq as nsq_broker
    from wirefmt.broker import phpmq as phpmq_broker
    from wirefmt.broker import rocketmq as rocketmq_broker
    from wirefmt.broker.faults.connection import FaultyConnection


def _nothing(event: Any, connection: FaultyConnection) -> None:
    """Answers of this protocol say what they acknowledge: requests are not recorded."""


Remembered = tuple[Message, int]

#: Messages that are remembered of those that one event publishes, the last of them.
REMEMBERED: Final = 10_000


class Rules(NamedTuple):
    """What faults need to know of one protocol.

    Attributes:
        size: the size of the frame that begins a buffer, sent by that side; NEED_DATA if the buffer is too short.
        is_framed: does this connection carry frames? False: they are compressed.
        decoder: a decoder for what the server sends on a connection.
        opening: the events with which a client asks for admission. Empty: the first event.
        is_publication: is this event a message for the broker?
        messages: the messages of such an event, and the bytes of each. They do not hold what they were read from.
        is_delivery: is this server message a message for the client?
        is_acknowledgement: does this server message acknowledge a message of the client?
        refuse: refuses a client.
        full: refuses a message for a lack of resources. None: the client is blocked and its messages wait.
        again: accepts a message once more, with the permissions of its publisher.
        record: records a request whose answer does not say what it acknowledges.
    """

    size: Callable[[memoryview, Literal["client", "server"]], Any]
    decoder: Callable[[Any], Any]
    opening: tuple[type[Any], ...]
    is_publication: Callable[[Any], bool]
    messages: Callable[[Any], Iterable[Remembered]]
    is_delivery: Callable[[Any, FaultyConnection], bool]
    is_acknowledgement: Callable[[Any, FaultyConnection], bool]
    refuse: Callable[[Any, Any], None]
    full: Callable[[Any, Any, str], None] | None
    again: Callable[[Any, Any, Any], None]
    is_framed: Callable[[Any], bool] = lambda connection: True
    record: Callable[[Any, FaultyConnection], None] = _nothing


def _drop(peer: Any, *_: Any) -> None:
    """The protocol has no error for this."""
    peer.abort()


# ---- MQTT

_ANSWERS: Final = (mqtt.Puback, mqtt.Pubrec, mqtt.Pubcomp)


def _mqtt_messages(event: mqtt.Publish) -> Iterable[Remembered]:
    payload, topic, properties = event.payload_bytes(), event.topic_name, tuple(event.properties)
    message = Message(payload, topic, "mqtt", qos=event.qos, retain=event.retain, properties=properties)
    yield message, ENTRY + len(payload) + len(topic) + size_of(properties)


def _mqtt_refuse(peer: Any, event: mqtt.Connect) -> None:
    peer.refuse(event, ReasonCode.SERVER_UNAVAILABLE if event.version == 5 else ReturnCode.SERVER_UNAVAILABLE)


def _mqtt_full(peer: Any, event: mqtt.Publish, resource: str) -> None:
    """0x97 is quota exceeded. Before 5.0 there is no code, and the client is disconnected. With QoS 0 the message is dropped."""
    if event.qos and event.version != 5:
        peer.abort()
    elif event.qos:
        peer.acknowledge(event, ReasonCode.QUOTA_EXCEEDED)


def _mqtt_again(broker: mqtt_broker.Broker, peer: Any, event: mqtt.Publish) -> None:
    broker.repeat(peer, event)


# ---- AMQP 0.9.1


def _amqp091_messages(event: amqp091.BasicMessage) -> Iterable[Remembered]:
    method, octets, body = event.method, event.properties.encode(), event.body_bytes()
    properties = amqp091.BasicProperties.decode(octets)
    message = Message(body, str(method.routing_key), "amqp", str(method.exchange), properties=properties)
    yield message, ENTRY + len(body) + 2 * len(octets)


def _amqp091_refuse(peer: Any, event: amqp091.ConnectionOpen) -> None:
    peer.refuse(event, ReplyCode.CONNECTION_FORCED, "CONNECTION_FORCED - the broker takes no clients")


def _amqp091_again(broker: amqp091_broker.Broker, peer: Any, event: amqp091.BasicMessage) -> None:
    if not event.method.mandatory:  # it could be returned twice
        broker.handle(peer, event)  # it is confirmed only once


# ---- AMQP 1.0


def _amqp10_messages(event: Incoming) -> Iterable[Remembered]:
    payload = bytes(event.payload)
    message = amqp10.decode_message(payload, strictness="lax")
    target = getattr(event.link.target, "address", None)
    name = target or (message.properties.to if message.properties is not None else None)
    yield Message(text_of_body(message), str(name or ""), "amqp10", properties=message), ENTRY + 2 * len(payload)


def _amqp10_refuse(peer: Any, event: Login | amqp10.Open) -> None:
    if isinstance(event, Login):
        peer.refuse(event, SaslCode.SYS_TEMP)
    else:
        peer.refuse(
            event, amqp10.Error(condition=ErrorCondition.CONNECTION_FORCED, description="the broker takes no clients")
        )


def _amqp10_full(peer: Any, event: Incoming, resource: str) -> None:
    if not event.settled:
        text = f"the broker is out of {resource}"
        peer.reject(event, amqp10.Error(condition=ErrorCondition.RESOURCE_LIMIT_EXCEEDED, description=text))


def _amqp10_again(broker: amqp10_broker.Broker, peer: Any, event: Incoming) -> None:
    address = broker._clients[peer].targets.get(event.link)
    if address is None or isinstance(event.remote_state, amqp10.TransactionalState):
        return  # messages to the anonymous terminus and those of transactions are not repeated
    router = broker.router
    try:
        published = Published.of(
            Container(
                bytes(event.payload),
                source="amqp10",
                exchange=address.exchange,
                routing_key=address.routing_key,
                dialect=router.limits.dialect,
            )
        )
        destinations = router.route(router.exchange(address.exchange), published)
    except (ConversionError, DecodeError, Refusal):
        return  # the broker has rejected it
    router.refuses(destinations, published)  # it takes those that refuse out
    router.put(destinations, published)


# ---- NSQ

_NSQ_PUBLICATIONS: Final = (nsq.Publish, nsq.MultiPublish, nsq.DeferredPublish)
_NSQ_ANSWERED: Final = (nsq.Identify, nsq.Auth, nsq.Sub, *_NSQ_PUBLICATIONS)


def _nsq_messages(event: Any) -> Iterable[Remembered]:
    bodies = event.bodies if isinstance(event, nsq.MultiPublish) else (event.body_bytes(),)
    return [(Message(bytes(body), event.topic, "nsq"), ENTRY + len(body)) for body in bodies[-REMEMBERED:]]


def _nsq_record(event: Any, connection: FaultyConnection) -> None:
    """Responses come in the order of the commands."""
    if isinstance(event, _NSQ_ANSWERED):
        connection.asked.append(type(event))


def _nsq_is_acknowledgement(message: Any, connection: FaultyConnection) -> bool:
    if not isinstance(message, nsq.Response) or bytes(message.data) == b"_heartbeat_" or not connection.asked:
        return False
    return connection.asked.popleft() in _NSQ_PUBLICATIONS


def _nsq_full(peer: Any, event: Any, resource: str) -> None:
    peer.refuse(event, f"E_{event.name}_FAILED", f"{event.name} failed: the broker is out of {resource}")


def _nsq_again(broker: nsq_broker.Broker, peer: Any, event: Any) -> None:
    bodies = event.bodies if isinstance(event, nsq.MultiPublish) else (event.body_bytes(),)
    permissions = broker.options.permissions
    if permissions is not None and not permissions.may(broker._users.get(peer, ""), "nsq.publish", event.topic):
        return
    holder = broker._holder(peer)
    if not broker._has_capacity(event.topic, len(bodies), sum(map(len, bodies)), holder):
        return
    defer = (event.defer_time or 0) if isinstance(event, nsq.DeferredPublish) else 0
    broker.publish(event.topic, *bodies, defer=defer, holder=holder)


# ---- RocketMQ

_SENDS: Final = frozenset((RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE))
COMPRESSED: Final = 1  # of sysFlag
_PULLS: Final = frozenset((RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.POP_MESSAGE))


def _rocketmq_messages(event: Any) -> Iterable[Remembered]:
    given = event.ext_fields or {}
    field = SEND_LONG if event.code == RequestCode.SEND_MESSAGE else SEND_SHORT
    topic, flags, body = str(given.get(field.topic) or ""), given.get(field.sys_flag) or "", event.body_bytes() or b""
    if event.code == RequestCode.SEND_BATCH_MESSAGE or given.get(field.batch) == "true":
        parts = list(parts_of(body))[-(-REMEMBERED // TOGETHER) :]
        batch = [m for part in parts for m in rocketmq.decode_batch_messages(part)]
        found = [(bytes(m.body or b""), dict(m.properties)) for m in batch]
    else:
        if len(flags) <= 10 and flags.isdecimal() and int(flags) & COMPRESSED:
            (message,) = rocketmq.decode_messages(
                rocketmq.MessageExt(topic=topic, body=body, sys_flag=int(flags)).encode()
            )
            body = bytes(message.body or b"")
        found = [(body, rocketmq.decode_properties(given.get(field.properties) or ""))]
    size = ENTRY + len(topic)
    return [
        (
            Message(one, topic, "rocketmq", properties=named),
            size + len(one) + sum(len(k) + len(v) for k, v in named.items()),
        )
        for one, named in found
    ]


def _rocketmq_record(event: Any, connection: FaultyConnection) -> None:
    if isinstance(event, rocketmq.RemotingCommand) and not event.is_response and not event.is_oneway:
        connection.requests[event.opaque] = event.code


def _rocketmq_answers(message: Any, connection: FaultyConnection, codes: frozenset[int]) -> bool:
    return message.is_response and connection.requests.get(message.opaque) in codes


def _rocketmq_full(peer: Any, event: Any, resource: str) -> None:
    if not event.is_oneway:
        peer.respond(event, ResponseCode.SYSTEM_BUSY, remark=f"system busy: the broker is out of {resource}")


def _rocketmq_again(broker: rocketmq_broker.Broker, peer: Any, event: Any) -> None:
    broker.handle(peer, event)  # it is answered only once


# ---- PHPMQ


def _phpmq_messages(event: phpmq.MessageClientToServer) -> Iterable[Remembered]:
    content = event.content_bytes() or b""
    yield Message(content, event.queue_name or "", "phpmq"), ENTRY + len(content)


def _phpmq_again(broker: phpmq_broker.Broker, peer: Any, event: Any) -> None:
    broker.publish(event.queue_name or "", event.content_bytes() or b"", event.ttl or 0)


#: By the names of `wirefmt.broker.listeners.NAMES`.
PROTOCOLS: Final[dict[str, Rules]] = {
    "mqtt": Rules(
        size=lambda data, side: mqtt.frame_size(data),
        decoder=lambda connection: mqtt.Decoder(version=connection.version or 5, side="server"),
        opening=(mqtt.Connect,),
        is_publication=lambda event: isinstance(event, mqtt.Publish),
        messages=_mqtt_messages,
        is_delivery=lambda message, _: isinstance(message, mqtt.Publish),
        is_acknowledgement=lambda message, _: isinstance(message, _ANSWERS),
        refuse=_mqtt_refuse,
        full=_mqtt_full,
        again=_mqtt_again,
    ),
    "amqp": Rules(
        size=lambda data, side: amqp091.frame_size(data, frame_max=0),
        decoder=lambda connection: amqp091.Assembler(side="server", frame_max=0),
        opening=(amqp091.ConnectionOpen,),
        is_publication=lambda event: isinstance(event, amqp091.BasicMessage),
        messages=_amqp091_messages,
        is_delivery=lambda message, _: isinstance(message, amqp091.BasicMessage),
        is_acknowledgement=lambda message, _: isinstance(message, amqp091.BasicAck | amqp091.BasicNack),
        refuse=_amqp091_refuse,
        full=None,  # connection.blocked, as RabbitMQ
        again=_amqp091_again,
    ),
    "amqp10": Rules(
        size=lambda data, side: amqp10.frame_size(data),
        decoder=lambda connection: amqp10.Assembler(),
        opening=(Login, amqp10.Open),
        is_publication=lambda event: isinstance(event, Incoming),
        messages=_amqp10_messages,
        is_delivery=lambda message, _: isinstance(message, amqp10.Delivery),
        is_acknowledgement=lambda message, _: isinstance(message, amqp10.Disposition) and bool(message.role),
        refuse=_amqp10_refuse,
        full=_amqp10_full,
        again=_amqp10_again,
    ),
    "nsq": Rules(
        size=lambda data, side: nsq.frame_size(data, side=side),
        decoder=lambda connection: nsq.Decoder(side="server"),
        opening=(),
        is_publication=lambda event: isinstance(event, _NSQ_PUBLICATIONS),
        messages=_nsq_messages,
        is_delivery=lambda message, _: isinstance(message, nsq.MessageFrame),
        is_acknowledgement=_nsq_is_acknowledgement,
        refuse=_drop,
        full=_nsq_full,
        again=_nsq_again,
        is_framed=lambda connection: connection._carrier is None,
        record=_nsq_record,
    ),
    "rocketmq": Rules(
        size=lambda data, side: rocketmq.frame_size(data),
        decoder=lambda connection: rocketmq.Decoder(),
        opening=(),
        is_publication=lambda event: isinstance(event, rocketmq.RemotingCommand) and event.code in _SENDS,
        messages=_rocketmq_messages,
        is_delivery=lambda message, connection: (
            bool(message.body_bytes()) and _rocketmq_answers(message, connection, _PULLS)
        ),
        is_acknowledgement=lambda message, connection: _rocketmq_answers(message, connection, _SENDS),
        refuse=_drop,
        full=_rocketmq_full,
        again=_rocketmq_again,
        record=_rocketmq_record,
    ),
    "phpmq": Rules(
        size=lambda data, side: phpmq.frame_size(data),
        decoder=lambda connection: phpmq.Decoder(side="server"),
        opening=(),
        is_publication=lambda event: isinstance(event, phpmq.MessageClientToServer),
        messages=_phpmq_messages,
        is_delivery=lambda message, _: isinstance(message, phpmq.MessageServerToClient),
        is_acknowledgement=lambda message, _: False,  # the server has none
        refuse=_drop,
        full=_drop,
        again=_phpmq_again,
    ),
}
