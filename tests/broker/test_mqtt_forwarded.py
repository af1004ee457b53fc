"""MQTT messages go on as they came: with their properties, whatever their size, and only if MQTT has such messages."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from lib.loopback import until
from lib.mqtt_raw import Place, tried
from wirefmt import mqtt
from wirefmt.broker.mqtt import Message


def test_what_the_server_tolerates_goes_to_no_client() -> None:
    """A PUBLISH and a will with a wildcard in their topic, which the server tolerates, cannot be sent on: they are counted."""
    tolerate = frozenset({"CONNECT WILL_TOPIC_WILDCARD", "PUBLISH TOPIC_NAME_WILDCARD"})

    async def steps(place: Place) -> None:
        watcher = await place.connect("watcher")
        await watcher.subscribe("#")
        client = await place.open()
        will = mqtt.Connect(client_identifier="w", will=mqtt.Will("t", b"x"), version=5).encode()
        client.send(will.replace(b"\x00\x01t\x00\x01x", b"\x00\x01#\x00\x01x"))
        await client.want(mqtt.Connack)
        for pairs in ([], [("message_expiry_interval", 60), ("content_type", "text")]):
            packet = mqtt.Publish(topic_name="t", payload=b"x", qos=1, packet_identifier=1, properties=pairs).encode()
            client.send(packet.replace(b"\x00\x01t", b"\x00\x01+"))
            await client.want(mqtt.Puback)
        client.close()
        await until(lambda: place.broker.counts["unconvertible"] == 3)
        (await place.connect("other")).publish("t", b"fine")
        assert (await watcher.want(mqtt.Publish)).payload_bytes() == b"fine"

    tried(steps, limits=mqtt.ConnectionOptions(tolerate=tolerate))


@pytest.mark.parametrize("size", [10, 3000])
def test_properties_go_on_in_their_order(size: int) -> None:
    """3.3.2.3: unaltered, to a client that takes them at once and to one whose messages wait; not before 5.0."""
    pairs = (
        ("user_property", ("b", "1")),
        ("message_expiry_interval", 600),
        ("payload_format_indicator", 1),
        ("user_property", ("a", "2")),
        ("content_type", "text"),
        ("correlation_data", b"\x00\x01"),
        ("response_topic", "back"),
        ("user_property", ("b", "1")),
    )
    kept = tuple(pair for pair in pairs if pair[0] != "message_expiry_interval")

    async def steps(place: Place) -> None:
        now, old = await place.connect("now"), await place.connect("old", version=4)
        later = await place.connect("later", properties=[("session_expiry_interval", 60)])
        for client in (now, old, later):
            await client.subscribe("t", qos=1)
        later.close()
        await until(lambda: place.broker.subscribers["later"].peer is None)
        sender = await place.connect("sender")
        for properties in (pairs, kept):
            sender.publish("t", b"x" * size, 1, properties=properties)
            await sender.want(mqtt.Puback)
        later = await place.connect(
            "later", clean_start=False, properties=[("session_expiry_interval", 60), ("receive_maximum", 1)]
        )
        for properties in (pairs, kept):
            for client in (now, later):
                message = await client.want(mqtt.Publish)
                assert tuple(p for p in message.properties if p[0] != "message_expiry_interval") == kept
                left = message.properties.get("message_expiry_interval")
                assert left is None if properties is kept else 590 <= left <= 600
                assert message.payload_bytes() == b"x" * size
                client.send(mqtt.Puback(packet_identifier=message.packet_identifier))
            message = await old.want(mqtt.Publish)
            assert (message.payload_bytes(), tuple(message.properties)) == (b"x" * size, ())

    tried(steps)


@pytest.mark.parametrize("properties", [0, 50])
@pytest.mark.parametrize("size", [0, 100])
def test_a_message_counts_what_it_costs(size: int, properties: int) -> None:
    """For the limits: its objects, too, and not the bytes that it came with."""
    pairs = [("user_property", (f"name{number}", "value")) for number in range(properties)]
    packets = [
        mqtt.Publish(topic_name=f"t/{number:06}", payload=bytes(size), properties=pairs).encode()
        for number in range(1000)
    ]
    events: list[Any] = mqtt.Decoder(version=5).feed(b"".join(packets))
    tracemalloc.start()
    try:
        messages = [Message.of(event, None, "c") for event in events]
        del events
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used <= 1.05 * sum(message.size for message in messages)


def test_a_time_beyond_the_interval_is_the_longest_one() -> None:
    assert Message("t", expires=1e12).at(0.0).properties == (("message_expiry_interval", 0xFFFF_FFFF),)
