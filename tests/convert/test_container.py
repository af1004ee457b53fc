"""A container keeps a message and what the broker knows of it: it is never changed, and it can be copied and pickled."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any

import pytest

from wirefmt import amqp091, amqp10, mqtt
from wirefmt.convert import PROTOCOLS, Container, Conversion, Protocol, Wire
from wirefmt.errors import ConversionError

#: An MQTT 5.0 PUBLISH, topic a/b, expiry 7 s, RETAIN; what a broker knows of it follows from its QoS, expiry and topic.
PACKET = mqtt.Publish(
    topic_name="a/b", payload=b"x", version=5, retain=True, properties=(("message_expiry_interval", 7),)
).encode()


def expiration(milliseconds: int) -> Container:
    """An AMQP 0.9.1 message with an expiration and the latest timestamp, as they are on the wire."""
    text = str(milliseconds).encode()
    octets = (0x0100 | 0x0040).to_bytes(2) + bytes([len(text)]) + text + b"\xff" * 8
    return Container(Wire("amqp091", octets, b"x"), routing_key="k", now_ms=1)


@pytest.mark.parametrize("milliseconds", [0, 1 << 31, (1 << 63) - 1, 1 << 63, 18446744073709551599])
def test_any_expiration_is_delivered(milliseconds: int) -> None:
    """AMQP 0.9.1 has it as digits, and a timestamp as 64 bits without a sign: none is too large to be delivered."""
    container = expiration(milliseconds)
    assert container.annotations.ttl_ms == milliseconds
    assert container.annotations.timestamp_ms == ((1 << 64) - 1) * 1000
    properties = amqp091.BasicProperties.decode(container.deliver("amqp091").octets)
    assert (properties.expiration, properties.timestamp) == (str(milliseconds), (1 << 64) - 1)
    for protocol in PROTOCOLS:
        try:
            assert isinstance(container.deliver(protocol), Conversion)
        except ConversionError as refusal:
            assert refusal.rule


def test_annotations_of_a_publish() -> None:
    known = Container(PACKET, source="mqtt5", now_ms=1234).annotations
    assert (known.exchange, known.routing_keys, known.durable) == ("amq.topic", ("a.b",), False)
    assert (known.ttl_ms, known.timestamp_ms, known.priority, known.received_ms) == (7000, 1234, None, None)
    assert (known.bcc, known.deaths, known.extra) == ((), (), {})


def test_waiting_is_subtracted_from_the_expiry() -> None:
    """[MQTT-3.3.2-6]: the received value minus the time that the message has been waiting, here in whole seconds."""
    container = Container(PACKET, source="mqtt5", now_ms=1)
    for waited, left in ((0, 7), (1, 6), (1000, 6), (1001, 5), (7000, 0), (1 << 62, 0)):
        packet = mqtt.decode(container.deliver("mqtt5", waited_ms=waited).octets, version=5)
        assert isinstance(packet, mqtt.Publish)
        assert packet.properties == (("message_expiry_interval", left),)


def test_retain_is_the_publishers_or_the_consumers() -> None:
    container = Container(PACKET, source="mqtt5", now_ms=1)
    assert [container.deliver("mqtt5", retain=said).octets[0] & 1 for said in (None, False, True)] == [1, 0, 1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversion_is_made_once(protocol: Protocol) -> None:
    container = Container(PACKET, source="mqtt5", now_ms=1)
    assert container.to(protocol) is container.to(protocol)
    assert container.deliver(protocol) is container.deliver(protocol, redelivered=False)
    ways = [container.to(protocol), container.deliver(protocol)]
    ways += [container.deliver(protocol, **{name: 2}) for name in ("delivery_count", "packet_identifier", "waited_ms")]  # type: ignore[arg-type]
    ways += [container.deliver(protocol, **{name: True}) for name in ("redelivered", "retain", "explain")]
    assert len({id(way) for way in ways}) == len(ways)


def test_a_container_keeps_few_conversions() -> None:
    """A message waits for long, or goes to many consumers: the number of its conversions is not bounded, its memory is."""
    container = Container(PACKET, source="mqtt5", now_ms=1)
    container.deliver("amqp10")
    tracemalloc.start()
    try:
        for n in range(1, 5001):
            container.deliver("mqtt5", packet_identifier=n)
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_copies_deliver_the_same(take: Any, protocol: Protocol) -> None:
    published = Container(PACKET, source="mqtt5", topics="unchanged", now_ms=5, annotations={"x-a": 1})
    died = published.dead_lettered("q", "expired", exchange="dlx", routing_key="k", now_ms=9, clear_ttl=True)
    read = Container.from_stream_entry(published.stream_entry(), stream="s", offset=42)
    for container in (published, died, died.annotated(received_ms=3), read):
        taken = take(container)
        assert taken.annotations == container.annotations
        assert (taken.topics, taken.now_ms, taken.octets) == (container.topics, container.now_ms, container.octets)
        assert taken.deliver(protocol).octets == container.deliver(protocol).octets


def test_a_container_is_not_changed() -> None:
    container = Container(PACKET, source="mqtt5", now_ms=1)
    before = container.annotations
    container.dead_lettered("q", "rejected", exchange="dlx", now_ms=2)
    container.annotated(**{"x-a": 1})
    assert container.annotations is before
    for name in ("wire", "dialect", "topics", "annotations", "anything"):
        with pytest.raises(AttributeError):
            setattr(container, name, None)


def test_copies_of_a_message_are_known_from_its_headers() -> None:
    """CC and BCC of RabbitMQ's sender-selected distribution: arrays of long strings, anything else is refused."""

    def container(headers: dict[str, object]) -> Container:
        octets = amqp091.BasicProperties(headers=headers).encode()
        return Container(Wire("amqp091", octets, b"x"), routing_key="k", now_ms=1)

    known = container({"CC": ["a", "b"], "BCC": ["c"]}).annotations
    assert (known.routing_keys, known.bcc) == (("k", "a", "b"), ("c",))
    for name in ("CC", "BCC"):
        with pytest.raises(ConversionError, match=f"{name} is not an array"):
            assert container({name: "a"}).annotations.routing_keys is None


def test_a_topic_whose_routing_key_means_wildcards_stays() -> None:
    """RabbitMQ's translation makes `*` of a topic the `+` of filters, which no topic name may have [MQTT-3.3.2-2]."""
    packet = mqtt.Publish(topic_name="a/*", payload=b"x", version=5).encode()
    container = Container(packet, source="mqtt5", now_ms=1)
    assert container.annotations.routing_keys == ("a.*",)
    for way in (container, container.annotated(routing_keys=("a.*",))):  # type: ignore[arg-type]
        delivered = mqtt.decode(way.deliver("mqtt5").octets, version=5)
        assert isinstance(delivered, mqtt.Publish)
        assert delivered.topic_name == "a/*"


def test_an_expiry_that_dead_lettering_clears_is_not_delivered() -> None:
    message = amqp10.Message(header=amqp10.Header(ttl=5000, priority=3), body=b"x")
    container = Container(message, routing_key="k", now_ms=1)
    dead = container.dead_lettered("q", "expired", exchange="", now_ms=9, clear_ttl=True)
    for way, ttl in ((container, 5000), (dead, None)):
        header = amqp10.decode_message(way.deliver("amqp10").octets).header
        assert header is not None
        assert (header.ttl, header.priority) == (ttl, 3)
