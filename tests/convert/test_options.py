"""How topics and addresses are written: options of `convert` and `Container`, with RabbitMQ's defaults."""

from __future__ import annotations

from typing import Any

import pytest

from wirefmt import amqp091, amqp10, convert, mqtt
from wirefmt.convert import Container, Wire, routing_key_of, topic_of
from wirefmt.convert._engine import ConvertRules

#: Topic, and its routing key as RabbitMQ's documentation of mqtt.sparkplug has it; without, the dot is a slash on the way back.
SPARKPLUG = [
    ("spBv1.0/Group/NBIRTH/edge", "spBv1___0.Group.NBIRTH.edge"),
    ("spAv1.0/a", "spAv1___0.a"),
    ("spBv12.34/+/", "spBv12___34.*."),
    ("spBv10.90/a", "spBv10___90.a"),
    ("spAv0.09/a", "spAv0___09.a"),
    ("spCv1.0/a", None),
    ("spBv1/0", None),
    ("spBv.0/a", None),
    ("spBv1./a", None),
    ("spBv1.0", None),
    ("spB", None),
    ("x/spBv1.0/a", None),
    ("", None),
]


@pytest.mark.parametrize(("topic", "key"), SPARKPLUG)
def test_sparkplug(topic: str, key: str) -> None:
    plain = topic.replace("/", ".").replace("+", "*")
    assert routing_key_of(topic, "sparkplug") == (plain if key is None else key)
    assert routing_key_of(topic) == plain
    if key is not None:
        assert topic_of(key, "sparkplug") == topic
        assert topic_of(key) == key.replace(".", "/").replace("*", "+")


def test_unchanged() -> None:
    assert routing_key_of("a/+.b*", "unchanged") == topic_of("a/+.b*", "unchanged") == "a/+.b*"


def test_no_other_way() -> None:
    packet = mqtt.Publish(topic_name="a", version=5)
    for call in (
        lambda: topic_of("a", "x"),  # type: ignore[arg-type]
        lambda: convert.convert(packet, to="amqp10", topics="x"),  # type: ignore[arg-type]
        lambda: Container(packet, topics="x"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match="topics 'x' is not one of translated, sparkplug, unchanged"):
            call()


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({}, "/exchanges/amq.topic/spBv1.0.g.%C3%A9%20b"),
        ({"percent_encoding": False}, "/exchanges/amq.topic/spBv1.0.g.é b"),
        ({"topics": "sparkplug"}, "/exchanges/amq.topic/spBv1___0.g.%C3%A9%20b"),
        ({"topics": "unchanged", "percent_encoding": False}, "/exchanges/amq.topic/spBv1.0/g/é b"),
        ({"topics": "unchanged", "mqtt_exchange": "mine"}, "/exchanges/mine/spBv1.0%2Fg%2F%C3%A9%20b"),
    ],
)
def test_response_topic_and_back(options: Any, address: Any) -> None:
    topic = "spBv1.0/g/é b"
    packet = mqtt.Publish(topic_name="t", version=5, properties=[("response_topic", topic)])
    there = convert.convert(packet, to="amqp10", **options)
    assert there.message.properties.reply_to == address
    assert Container(packet, **options).to("amqp10").octets == there.octets
    back = convert.convert(there.message, to="mqtt5", routing_key="t", **options).message
    # translated, a dot cannot be told from a slash
    assert dict(back.properties)["response_topic"] == (topic if "topics" in options else "spBv1/0/g/é b")


def test_queues_of_the_server() -> None:
    message = amqp10.Message(properties=amqp10.Properties(reply_to="/queues/a%20b"), body=b"")
    for encoded, name in ((True, "a b"), (False, "a%20b")):
        result = convert.convert(message, to="amqp091", dialect="rabbitmq-4.3", percent_encoding=encoded)
        assert result.message.properties.reply_to == name


def test_containers_route_by_the_topic() -> None:
    packet = mqtt.Publish(topic_name="spBv1.0/a", version=5)
    topics: Any
    for topics, key in (("translated", "spBv1.0.a"), ("sparkplug", "spBv1___0.a"), ("unchanged", "spBv1.0/a")):
        container = Container(packet, topics=topics)
        assert container.annotations.routing_keys == (key,)
        entry = container.stream_entry()
        again = Container.from_stream_entry(entry, stream="s", topics=topics)
        assert again.annotations.routing_keys == (key,)
        expected = "spBv1/0/a" if topics == "translated" else "spBv1.0/a"
        assert again.deliver("mqtt5").message.topic_name == expected


def test_older_packets_are_packets_of_5_without_properties() -> None:
    for version in (3, 4):
        packet = mqtt.Publish(topic_name="a/b", payload=b"\5hello", qos=1, packet_identifier=3, version=version)
        assert convert.convert(packet, to="amqp10").message.body == (amqp10.Data(b"\5hello"),)


def test_frames_of_amqp091() -> None:
    wire = Wire("amqp091", bytes.fromhex("1000") + b"\2", b"x" * 131065)
    frames = wire.frames(channel=5)
    # header: type 2, channel 5, size 15, class 60, weight 0, body size, flags, delivery mode; bodies: 131064 octets and 1
    assert frames[:23].hex() == "0200050000000f003c0000000000000001fff9100002ce"
    assert (frames[23:30].hex(), frames[23 + 131072 :].hex()) == ("0300050001fff8", "030005000000" + "01" + "78ce")
    assert Wire.from_frames(frames) == wire
    publish = bytes.fromhex("01 0005 00000009 003c 0028 0000 00 00 00 ce")
    assert Wire.from_frames(publish + frames) == wire
    assert Wire.from_frames(Wire("amqp091", b"\0\0", b"").frames()) == Wire("amqp091", b"\0\0", b"")


@pytest.mark.parametrize("cut", [0, 3, 22, 23, 40, -1])
def test_frames_that_are_not_whole(cut: Any) -> None:
    from wirefmt.errors import DecodeError

    frames = Wire("amqp091", b"\0\0", b"x" * 30).frames()
    with pytest.raises(DecodeError):
        Wire.from_frames(frames[:cut])
    with pytest.raises(DecodeError):
        Wire.from_frames(frames + frames)
    with pytest.raises(DecodeError):
        Wire.from_frames(b"\x08\0\0\0\0\0\0\xce" + frames)


@pytest.mark.parametrize(
    "char", ["a", "\x7f", "\u0080", "\u07ff", "\u0800", "\u6f22", "\uffff", "\U00010000", "\U0001f600", "\U0010ffff"]
)
def test_a_character_is_its_utf8(char: str) -> None:
    """RFC 3629, 3."""
    message = amqp10.Message(application_properties={"c": amqp10.Char(char)}, body=b"x")
    made = convert.convert(message, to="mqtt5", routing_key="k")
    assert made.message.properties == (("user_property", ("c", char)),)


ROW = (0, 1, 1, 1, None, 0, 0, 1, 1, None, 0, 0)


def test_rules_are_of_what_there_is() -> None:
    assert ConvertRules([ROW], ("",)) is not None
    for place in (0, 1, 2, 3, 5, 6, 7, 8, 11):
        for number in (-1, 250):
            with pytest.raises(ValueError, match=r"row [01] has"):
                ConvertRules([(*ROW[:place], number, *ROW[place + 1 :])], ("",))
    with pytest.raises(ValueError, match=r"row [01] has"):
        ConvertRules([(*ROW[:11], 1)], ("",))
    assert ConvertRules([(*ROW[:11], 1)], ("", "b")) is not None


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_acknowledged_is_durable(qos: int) -> None:
    """RabbitMQ's MQTT plugin: a PUBLISH of QoS 0 is transient, others are persistent."""
    packet = mqtt.Publish(topic_name="a", payload=b"", qos=qos, packet_identifier=1 if qos else None)
    assert Container(packet).annotations.durable is (qos > 0)


def test_a_message_of_each_protocol_is_one_object_that_convert_takes() -> None:
    """Of AMQP 0.9.1 too, and what names a message is text, as the clients' publish takes it."""
    kinds: dict[Any, type] = {"amqp10": amqp10.Message, "amqp091": amqp091.BasicMessage, "mqtt5": mqtt.Publish}
    packet = mqtt.Publish(topic_name="a/b", payload=b"21.5", properties=[("content_type", "text/plain")], version=5)
    for to, kind in kinds.items():
        made = convert.convert(packet, to=to, routing_key="a.b")
        assert type(made.message) is kind
        assert made.wire.message() == made.message
        back = convert.convert(made.message, to="mqtt5", routing_key=routing_key_of("a/b")).message
        assert (back.topic_name, back.payload_bytes()) == ("a/b", b"21.5")
        assert back.properties.get("content_type") == "text/plain"
    message = convert.convert(packet, to="amqp091").message
    assert message.method == amqp091.BasicPublish(channel=1, exchange="", routing_key="")
    assert (message.properties.content_type, message.body_bytes()) == ("text/plain", b"21.5")
    with pytest.raises(TypeError, match="tuple needs the name of its protocol"):
        convert.convert((message.properties, message.body_bytes()), to="mqtt5")


@pytest.mark.parametrize("octets", [b"a/\xff", "a/\xe9".encode()])
def test_topics_that_are_bytes_come_back(octets: bytes) -> None:
    """Bytes that are not UTF-8 stay in the text as surrogates (PEP 383)."""
    key = routing_key_of(octets)
    assert key.encode("utf-8", "surrogateescape") == octets.replace(b"/", b".")
    assert topic_of(key).encode("utf-8", "surrogateescape") == octets
