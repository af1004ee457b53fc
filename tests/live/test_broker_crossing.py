"""Messages between paho (MQTT 5.0), pika (AMQP 0.9.1) and proton (AMQP 1.0) through a broker, in all six directions.

The messages use every row of the conversion tables. `lib/crossing.py` has the messages and the expected values.
"""

from __future__ import annotations

import queue
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

from lib.crossing import BODY, CASES, NOT_SET, NOW, UNREPORTED, Case, Refused, Untried
from lib.loopback import HOST, PATIENCE
from lib.rabbitmq import PASSWORD, USER
from lib.rabbitmq import Broker as Node
from lib.skips import imported
from wirefmt import broker, convert
from wirefmt.broker.limits import Limits
from wirefmt.convert.dialects import DIALECTS, tables_of
from wirefmt.convert.vocabulary import TYPES
from wirefmt.mqtt import ConnectionOptions

pytestmark = pytest.mark.live

Sent = dict[str, Any]


@dataclass
class Place:
    """A broker's ports."""

    amqp: int
    amqp10: int
    mqtt: int


def topic(source: str, case: Case) -> str:
    return f"from-{source}/{case.name}"


def routing_key(source: str, case: Case) -> str:
    return topic(source, case).replace("/", ".")


def name_of(key: str) -> str:
    """The name of the case with this topic or routing key."""
    return key.replace("/", ".").partition(".")[2]


# ---- pika, AMQP 0.9.1

FORMATS = {
    "bool": ("t", "?"), "byte": ("b", "b"), "ubyte": ("B", "B"), "short": ("s", "h"), "ushort": ("u", "H"), "int": ("I", "i"),
    "uint": ("i", "I"), "long": ("l", "q"), "float": ("f", "f"), "double": ("d", "d"), "timestamp": ("T", "Q"),
    "void": ("V", ""), "longstr": ("S", ""), "binary": ("x", ""), "array": ("A", ""), "table": ("F", ""), "decimal": ("D", "Bi"),
}  # fmt: skip
OF_CODE = {code.encode(): name for name, (code, _) in FORMATS.items()}


def encode_field(pieces: list[bytes], value: Any) -> int:
    """Replaces pika's encoder, which cannot write all integer types."""
    import pika.data

    kind, value = ("longstr", value) if isinstance(value, str) else value
    code, form = FORMATS[kind]
    inner: list[bytes] = []
    if kind == "table":
        pika.data.encode_table(inner, value)
    elif kind in ("array", "longstr", "binary"):
        if kind == "array":
            for item in value:
                encode_field(inner, item)
        else:
            inner.append(value.encode() if isinstance(value, str) else value)
        inner.insert(0, struct.pack(">I", sum(map(len, inner))))
    elif form:
        inner.append(struct.pack(f">{form}", *(value if kind == "decimal" else (value,))))
    pieces += [code.encode(), *inner]
    return 1 + sum(map(len, inner))


def decode_field(encoded: bytes, offset: int) -> tuple[Any, int]:
    """Replaces pika's decoder, which does not return the types."""
    import pika.data

    kind = OF_CODE[encoded[offset : offset + 1]]
    offset += 1
    form = FORMATS[kind][1]
    if kind == "table":
        table, offset = pika.data.decode_table(encoded, offset)
        return (kind, table), offset
    if form:
        values = struct.unpack_from(f">{form}", encoded, offset)
        return (kind, values if kind == "decimal" else values[0]), offset + struct.calcsize(f">{form}")
    if kind == "void":
        return (kind, None), offset
    end = offset + 4 + struct.unpack_from(">I", encoded, offset)[0]
    offset += 4
    if kind == "array":
        items = []
        while offset < end:
            item, offset = decode_field(encoded, offset)
            items.append(item)
        return (kind, items), end
    octets = encoded[offset:end]
    if kind == "longstr":
        try:
            return octets.decode(), end  # a plain text is a longstr
        except UnicodeDecodeError:
            pass
    return (kind, octets), end


@contextmanager
def pika_channel(place: Place) -> Iterator[Any]:
    pika = imported("pika")
    with pika.BlockingConnection(pika.URLParameters(f"amqp://{USER}:{PASSWORD}@{HOST}:{place.amqp}/")) as connection:
        yield connection.channel()


def publish_pika(place: Place, cases: list[Case]) -> set[str]:
    """Publish with confirms. Returns the names of the cases that the broker refused."""
    pika = imported("pika")
    refused = set()
    for case in cases:
        try:
            with pika_channel(place) as channel:
                channel.confirm_delivery()
                sets = dict(case.sets)
                octets = sets.pop("body", BODY)
                key = routing_key("amqp091", case)
                with mock.patch("pika.data.encode_value", encode_field):
                    channel.basic_publish("amq.topic", key, octets, pika.BasicProperties(**sets), mandatory=True)
        except pika.exceptions.AMQPError:
            refused.add(case.name)
    return refused


@contextmanager
def consume_pika(place: Place, source: str) -> Iterator[Callable[[], tuple[str, Sent]]]:
    with pika_channel(place) as channel:
        channel.queue_declare("for pika", exclusive=True)
        channel.queue_bind("for pika", "amq.topic", f"from-{source}.#")

        def receive() -> tuple[str, Sent]:
            with mock.patch("pika.data.decode_value", decode_field):
                method, properties, octets = next(
                    channel.consume("for pika", auto_ack=True, inactivity_timeout=PATIENCE)
                )
            assert method is not None, "no message came"
            said = {name: value for name, value in vars(properties).items() if value is not None}
            if said.get("timestamp", 0) > time.time() - 3600:
                said["timestamp"] = NOW
            assert method.exchange == "amq.topic"
            assert not method.redelivered
            return name_of(method.routing_key), {"body": octets, **said}

        yield receive


# ---- proton, AMQP 1.0

# Part 3, 3.2.1 and 3.2.4: the fields in their order. They and the descriptors are written out here, because the test reads with
# them what the broker writes: taken from the package, an error in its tables would not show.
HEADER = ["durable", "priority", "ttl", "first_acquirer", "delivery_count"]
PROPERTIES = [
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
]
#: proton's names, where they differ.
PROTON = {"message_id": "id", "to": "address", "absolute_expiry_time": "expiry_time"}
SECTIONS = {
    0x70: "header", 0x71: "delivery_annotations", 0x72: "annotations", 0x73: "properties", 0x74: "application_properties",
    0x75: "data", 0x76: "sequence", 0x77: "value", 0x78: "footer",
}  # fmt: skip
MAPS = ("delivery_annotations", "annotations", "application_properties", "footer")


def proton_type(kind: str) -> Any:
    """The Python class of a type of AMQP 1.0. `type(value)` must be this class: a ulong and a timestamp are also ints."""
    import proton

    return {
        "null": type(None), "boolean": bool, "long": int, "double": float, "utf8": str, "binary": bytes, "uuid": uuid.UUID,
        "float": proton.float32, "int": proton.int32, "list": list, "map": dict, "array": proton.Array,
    }.get(kind) or getattr(proton, kind)  # fmt: skip


#: Types of AMQP 1.0 that have a class in proton.
KINDS = [kind for kind in TYPES["amqp10"] if kind not in ("", "described")]


def to_proton(value: Any) -> Any:
    import proton

    kind, value = ("utf8", value) if isinstance(value, str) else value
    if kind == "list":
        return [to_proton(item) for item in value]
    if kind == "map":
        return {to_proton(key): to_proton(item) for key, item in value.items()}
    if kind == "array":
        code = getattr(proton.Data, value[0][0].upper())
        return proton.Array(proton.UNDESCRIBED, code, *map(to_proton, value))
    return None if kind == "null" else proton_type(kind)(value)


def from_proton(value: Any) -> Any:
    if isinstance(value, memoryview):
        value = bytes(value)
    (kind,) = (kind for kind in KINDS if type(value) is proton_type(kind))
    if kind == "list":
        return kind, [from_proton(item) for item in value]
    if kind == "map":
        return kind, {from_proton(key): from_proton(item) for key, item in value.items()}
    if kind == "array":
        return kind, [from_proton(item) for item in value.elements]
    return kind, str(value) if kind in ("uuid", "symbol") else value


def encode_proton(case: Case) -> bytes:
    import proton

    sets = dict(case.sets)
    header, tail = sets.pop("header", None), sets.pop("tail", b"")
    kind, value = sets.pop("body", ("data", BODY))
    message = proton.Message(inferred=kind != "value", body=value if kind == "data" else to_proton(value))
    for name, value in sets.items():
        if name in MAPS:
            key = str if name == "application_properties" else proton.symbol
            attribute = {"delivery_annotations": "instructions", "application_properties": "properties"}.get(name, name)
            setattr(message, attribute, {key(k): to_proton(v) for k, v in value.items()})
        elif name in ("message_id", "correlation_id"):
            setattr(message, PROTON.get(name, name), to_proton(value))
        else:
            milliseconds = name in ("ttl", "absolute_expiry_time", "creation_time")
            setattr(message, PROTON.get(name, name), value / 1000 if milliseconds else value)
    octets: bytes = message.encode()
    if header is not None:
        empty = bytes.fromhex("00537045")
        assert octets.startswith(empty)
        octets = header + octets.removeprefix(empty)
    return octets + tail


class Encoded:
    """Encoded octets that a sender of proton can send as a message."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets

    def send(self, sender: Any, tag: str | None = None) -> Any:
        delivery = sender.delivery(tag or sender.delivery_tag())
        sender.stream(self.octets)
        sender.advance()
        return delivery


@contextmanager
def proton_connection(place: Place) -> Iterator[Any]:
    imported("proton")
    from proton.utils import BlockingConnection

    url = f"amqp://{USER}:{PASSWORD}@{HOST}:{place.amqp10}"
    connection = BlockingConnection(url, timeout=PATIENCE, allowed_mechs="PLAIN")
    try:
        yield connection
    finally:
        connection.close()


def publish_proton(place: Place, cases: list[Case]) -> set[str]:
    refused = set()
    with proton_connection(place) as connection:
        import proton

        for case in cases:
            sender = connection.create_sender(f"/exchanges/amq.topic/{routing_key('amqp10', case)}")
            delivery = sender.send(Encoded(encode_proton(case)), error_states=[])
            if delivery.remote_state != proton.Disposition.ACCEPTED:
                refused.add(case.name)
            sender.close()
    return refused


@contextmanager
def consume_proton(place: Place, source: str) -> Iterator[Callable[[], tuple[str, Sent]]]:
    with (
        pika_channel(place) as channel,
        proton_connection(place) as connection,
    ):  # AMQP 1.0 has no operation to bind a queue
        channel.queue_declare("for-proton")
        channel.queue_bind("for-proton", "amq.topic", f"from-{source}.#")
        receiver = connection.create_receiver("/queues/for-proton", credit=1)

        def receive() -> tuple[str, Sent]:
            with mock.patch("proton.Message.decode", lambda message, octets: setattr(message, "octets", bytes(octets))):
                octets = receiver.receive(timeout=PATIENCE).octets
            receiver.accept()
            said = decode_proton(octets)
            annotations = said["annotations"]
            assert annotations.pop("x-exchange") == ("utf8", "amq.topic")
            kind, key = annotations.pop("x-routing-key")
            assert kind == "utf8"
            if not annotations:
                del said["annotations"]
            return name_of(key), said

        try:
            yield receive
        finally:
            channel.queue_delete("for-proton")


def decode_proton(octets: bytes) -> Sent:
    """The sections of a message, decoded by proton."""
    import proton

    said: Sent = {}
    while octets:
        data = proton.Data()
        octets = octets[data.decode(octets) :]
        data.rewind()
        data.next()
        section = data.get_object()
        name, value = SECTIONS[int(section.descriptor)], section.value
        if name in ("header", "properties"):
            for field, item in zip(HEADER if name == "header" else PROPERTIES, value, strict=False):
                if item is not None:
                    plain = bytes(item) if isinstance(item, memoryview) else item
                    said[field] = from_proton(item) if field in ("message_id", "correlation_id") else plain
        elif name in MAPS:
            said[name] = {str(key): from_proton(item) for key, item in value.items()}
        else:
            assert "body" not in said
            said["body"] = (name, bytes(value) if name == "data" else from_proton(value))
    return said


# ---- paho, MQTT 5.0


@contextmanager
def paho_client(place: Place, subscribe: str = "") -> Iterator[tuple[Any, queue.Queue[Any]]]:
    mqtt = imported("paho.mqtt.client")
    ready: queue.Queue[Any] = queue.Queue()
    got: queue.Queue[Any] = queue.Queue()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.username_pw_set(USER, PASSWORD)
    client.on_connect = lambda *_: client.subscribe(subscribe, qos=1) if subscribe else ready.put(None)
    client.on_subscribe = lambda *_: ready.put(None)
    client.on_message = lambda _client, _user, message: got.put(message)
    client.connect(HOST, place.mqtt)
    client.loop_start()
    try:
        ready.get(timeout=PATIENCE)
        yield client, got
    finally:
        client.disconnect()
        client.loop_stop()


def publish_paho(place: Place, cases: list[Case]) -> set[str]:
    with paho_client(place) as (client, _):
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        for case in cases:
            sets = dict(case.sets)
            octets, qos, retain = sets.pop("body", BODY), sets.pop("qos", 1), sets.pop("retain", False)
            properties = Properties(PacketTypes.PUBLISH)
            for name, value in sets.items():
                setattr(properties, name, value)
            sent = client.publish(topic("mqtt5", case), octets, qos, retain, properties)
            sent.wait_for_publish(PATIENCE)
    return set()


@contextmanager
def consume_paho(place: Place, source: str) -> Iterator[Callable[[], tuple[str, Sent]]]:
    with paho_client(place, f"from-{source}/#") as (_, got):

        def receive() -> tuple[str, Sent]:
            message = got.get(timeout=PATIENCE)
            assert not message.retain
            assert not message.dup
            said = {"body": message.payload, "qos": message.qos}
            for name in map(message.properties.getNameFromIdent, message.properties.properties):
                attribute = name.replace(" ", "")
                if hasattr(message.properties, attribute):
                    said[attribute] = getattr(message.properties, attribute)
            if 0 < said.get("MessageExpiryInterval", 0) <= 600:  # minus the time in the queue
                said["MessageExpiryInterval"] = 600
            return name_of(message.topic), said

        yield receive


# ---- the directions

PUBLISH = {"amqp091": publish_pika, "amqp10": publish_proton, "mqtt5": publish_paho}
CONSUME = {"amqp091": consume_pika, "amqp10": consume_proton, "mqtt5": consume_paho}
DIRECTIONS = [(source, target) for source in CASES for target in CASES if source != target]


def crossed(place: Place, source: str, target: str, judge: str) -> dict[str, tuple[Any, Any]]:
    """Publish all cases. Returns, by name, what was received and what was expected, for the cases in which the two differ."""
    expected = {case.name: case.expected(target, judge) for case in CASES[source]}
    cases = [case for case in CASES[source] if expected[case.name] is not Untried]
    with CONSUME[target](place, source) as receive:
        came: dict[str, Any] = dict.fromkeys(PUBLISH[source](place, cases), Refused)
        came |= dict(receive() for _ in range(len(cases) - len(came)))
    return {
        case.name: (came.get(case.name), expected[case.name])
        for case in cases
        if came.get(case.name) != expected[case.name]
    }


@contextmanager
def embedded(judge: str) -> Iterator[tuple[Place, Any]]:
    options = broker.Options(
        limits=Limits(dialect=judge), connection={"mqtt": ConnectionOptions(topic_alias_maximum=1)}
    )
    with broker.running(options) as b:
        yield Place(b.port("amqp"), b.port("amqp10"), b.port("mqtt")), b


@pytest.mark.parametrize("judge", ["documented", "rabbitmq-4.3"])
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_messages_cross(source: str, target: str, judge: str) -> None:
    with embedded(judge) as (place, _):
        assert crossed(place, source, target, judge) == {}


@pytest.mark.parametrize("source", CASES)
def test_a_message_comes_to_all_protocols_at_once(source: str) -> None:
    """The protocol of the publisher is one of them."""
    with embedded("documented") as (place, _), ExitStack() as stack:
        consumers = {target: stack.enter_context(consume(place, source)) for target, consume in CONSUME.items()}
        PUBLISH[source](place, CASES[source][:1])
        bodies = {target: receive()[1]["body"] for target, receive in consumers.items()}
        assert bodies == {"amqp091": BODY, "amqp10": ("data", BODY), "mqtt5": BODY}


def test_rabbitmq_4_agrees(rabbitmq4: Node) -> None:
    """RabbitMQ 4 confirms the expected values. It is older than the dialect; the cases list the differences."""
    place = Place(rabbitmq4.port, rabbitmq4.port, rabbitmq4.mqtt_port)
    for source, target in DIRECTIONS:
        assert crossed(place, source, target, "4.0") == {}, (source, target)


@pytest.mark.parametrize("dialect", ["documented", "rabbitmq-4.3"])
@pytest.mark.parametrize("source", CASES)
def test_the_cases_have_every_row_of_the_tables(source: Any, dialect: str) -> None:
    """A row is a property or one of its types, with a condition. The messages use every row that a client can use."""
    with embedded(dialect) as (place, b), pika_channel(place) as channel:
        channel.queue_declare("all")
        channel.queue_bind("all", "amq.topic", f"from-{source}.#")
        PUBLISH[source](place, CASES[source])
        published = [item.published for item in b.broker.router.queues["all"].messages]
    used: set[str] = set()
    rows: set[str] = set()
    for table in tables_of(DIALECTS[dialect]):
        if table.source != source:
            continue
        target: Any = table.target
        for message in published:
            octets: Any = message.envelope.octets
            if message.body is not None:
                octets = convert.Wire("amqp091", octets, message.body)
            result = convert.convert(
                octets, source=source, to=target, dialect=dialect, routing_key="t", explain=True
            )  # fmt: skip
            used |= {loss.rule for loss in result.losses}
        name = f"{table.source}>{table.target}"
        rows |= {f"{name} {row.id}" for row in table.fields} | {f"{name} types/{row.id}" for row in table.types}
    assert sorted(rows - used - NOT_SET.keys() - UNREPORTED.keys()) == []
    assert sorted(used & NOT_SET.keys()) == [], "a message uses these rows"
    assert {case for row, case in UNREPORTED.items() if row.startswith(source)} <= {case.name for case in CASES[source]}
