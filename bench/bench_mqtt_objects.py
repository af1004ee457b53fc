"""How fast do octets become MQTT 5 PUBLISH objects with every field read once?

    python bench/bench_mqtt_objects.py

Peers: `mqtt5` (Rust), `zmqtt` and paho-mqtt's own parser (Python). All read the same stream of packets of 256 octets
and return topic, payload, QoS, DUP, RETAIN, packet identifier and properties. Ours become objects in a loop over them. `lazy` is
our decoder without reading a field.
"""

from __future__ import annotations

from typing import Any

import mqtt5
from paho.mqtt import _packet
from paho.mqtt.enums import MQTTProtocolVersion
from ratios import compare, versions
from zmqtt._internal.packets.reader import PacketBuffer

from wirefmt import mqtt

COUNT = 1000
SIZE = 256


def stream(properties: tuple[tuple[str, object], ...]) -> bytes:
    """COUNT PUBLISH packets of SIZE octets each, with varying topics and identifiers."""

    def packet(i: int, payload_size: int) -> bytes:
        return mqtt.Publish(
            topic_name=f"sensors/room{i % 50:02}/temperature",
            payload=bytes((i + k) & 0xFF for k in range(payload_size)),
            qos=1,
            packet_identifier=i + 1,
            properties=properties,
            version=5,
        ).encode()

    around = len(packet(0, 128)) - 128  # 128: the remaining length takes two octets in both
    packets = [packet(i, SIZE - around) for i in range(COUNT)]
    assert {len(p) for p in packets} == {SIZE}
    return b"".join(packets)


def ours(data: bytes) -> None:
    p: Any
    for p in mqtt.Decoder(version=5).feed(data):
        p.topic_name, p.payload, p.qos, p.dup, p.retain, p.packet_identifier  # noqa: B018
        for _name, _value in p.properties:
            pass


def ours_bytes(data: bytes) -> None:
    p: Any
    for p in mqtt.Decoder(version=5).feed(data):
        p.topic_name, p.payload_bytes(), p.qos, p.dup, p.retain, p.packet_identifier
        for _name, _value in p.properties:
            pass


def lazy(data: bytes) -> None:
    for _ in mqtt.Decoder(version=5).feed(data):
        pass


def rust(data: bytes) -> None:
    """mqtt5 has one attribute per property; all are read."""
    read, view, at = mqtt5.read, memoryview(data), 0
    while at < len(data):
        p, used = read(view[at:])
        at += used
        p.topic, p.payload, p.qos, p.duplicate, p.retain, p.packet_id  # noqa: B018
        p.user_properties, p.content_type, p.response_topic, p.correlation_data, p.message_expiry_interval  # noqa: B018
        p.payload_format_indicator, p.subscription_ids, p.topic_alias  # noqa: B018


def rust_six(data: bytes) -> None:
    """The same without its eight property attributes: the most favourable measurement for mqtt5."""
    read, view, at = mqtt5.read, memoryview(data), 0
    while at < len(data):
        p, used = read(view[at:])
        at += used
        p.topic, p.payload, p.qos, p.duplicate, p.retain, p.packet_id  # noqa: B018


def zmqtt(data: bytes) -> None:
    reader = PacketBuffer(version="5.0")
    reader.feed(data)
    for p in reader:
        p.topic, p.payload, p.qos, p.dup, p.retain, p.packet_id, p.properties  # noqa: B018


def paho(data: bytes) -> None:
    """paho's framing is tied to a socket: its parser of one packet is measured, with the same framing by hand."""
    at = 0
    while at < len(data):
        header = data[at]
        at += 1
        length = shift = 0
        while True:
            octet = data[at]
            at += 1
            length |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                break
        p = _packet.decode_publish(header, data[at : at + length], MQTTProtocolVersion.MQTTv5)
        p.topic.decode(), p.payload, p.qos, p.dup, p.retain, p.mid, p.properties
        at += length


PROPERTIES = (
    ("message_expiry_interval", 60),
    ("content_type", "application/octet-stream"),
    ("user_property", ("origin", "bench")),
    ("user_property", ("unit", "celsius")),
)


def main() -> None:
    print(versions("wirefmt", "mqtt5", "zmqtt", "paho-mqtt"))
    for title, properties in (("no properties", ()), ("four properties", PROPERTIES)):
        data = stream(properties)
        compare(
            f"MQTT 5 PUBLISH of {SIZE} octets to objects, {title}",
            {
                "wirefmt, every field": lambda d=data: ours(d),
                "wirefmt, every field, payload copied": lambda d=data: ours_bytes(d),
                "wirefmt, lazy": lambda d=data: lazy(d),
                "mqtt5 (Rust)": lambda d=data: rust(d),
                "mqtt5 (Rust), properties not read": lambda d=data: rust_six(d),
                "zmqtt": lambda d=data: zmqtt(d),
                "paho-mqtt parser": lambda d=data: paho(d),
            },
            units=COUNT,
        )


if __name__ == "__main__":
    main()
