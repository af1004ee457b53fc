"""What does it cost to encode a message from Python values: a constructor with keywords, then encode()?

    python bench/bench_encode.py [mqtt | publish_091 | transfer_10 | rocketmq | nsq | phpmq ...]

Peers, in the same run: mqtt5 (Rust), pika and pamqp for AMQP 0.9.1, python-qpid-proton for AMQP 1.0, pynsq. No package
writes RocketMQ's frames or PHPMQ's: orjson writes only the JSON of the same header, and `%` of bytes makes
a PHPMQ frame.

CPU time, best of nine alternating rounds. Before timing, the octets of all are compared: they are equal, or
decode to the same values.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import mqtt5
import orjson
import pamqp.body
import pamqp.commands
import pamqp.frame
import pamqp.header
import pika.frame
import pika.spec
import proton
from nsq import protocol as nsq_protocol
from ratios import compare, versions

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq

COUNT = 1000
BODY = bytes(range(256))

Encoder = Callable[[list[Any]], Iterator[bytes]]  # of prepared values


def octets_of(encoders: dict[str, Encoder], values: list[Any], same: tuple[str, ...] = ()) -> dict[str, list[bytes]]:
    """The result of each encoder for the first values; those named in `same` write the same octets as ours."""
    made = {name: list(encode(values[:50])) for name, encode in encoders.items()}
    ours = next(iter(made.values()))
    for name in same:
        assert made[name] == ours, name
    return made


def race(title: str, encoders: dict[str, Encoder], values: list[Any]) -> None:
    compare(
        f"{title}, encoded from Python",
        {name: lambda e=encode: deque(e(values), maxlen=0) for name, encode in encoders.items()},
        units=COUNT,
        rounds=9,
        clock=time.process_time,
    )


# ---- MQTT 5

PAYLOAD = BODY[:222]
TOPICS = [(f"sensors/room{i % 50:02}/temperature", i + 1) for i in range(COUNT)]
USER = [("origin", "bench"), ("unit", "celsius")]


def mqtt_plain() -> None:
    def ours(values: list[Any]) -> Iterator[bytes]:
        for topic, i in values:
            yield mqtt.Publish(topic_name=topic, payload=PAYLOAD, qos=1, packet_identifier=i).encode()

    def rust(values: list[Any]) -> Iterator[bytes]:
        once = mqtt5.QoS.AT_LEAST_ONCE
        for topic, i in values:
            yield mqtt5.PublishPacket(topic, PAYLOAD, qos=once, packet_id=i).write()

    encoders: dict[str, Encoder] = {"wirefmt": ours, "mqtt5 (Rust)": rust}
    made = octets_of(encoders, TOPICS, ("mqtt5 (Rust)",))
    assert len(made["wirefmt"][0]) == 256
    race("MQTT 5 PUBLISH of 256 octets", encoders, TOPICS)


def mqtt_properties() -> None:
    def ours(values: list[Any]) -> Iterator[bytes]:
        for topic, i in values:
            yield mqtt.Publish(
                topic_name=topic,
                payload=PAYLOAD,
                qos=1,
                packet_identifier=i,
                properties=(
                    ("message_expiry_interval", i),
                    ("content_type", "application/octet-stream"),
                    ("response_topic", "answers/bench"),
                    ("user_property", ("origin", "bench")),
                    ("user_property", ("unit", "celsius")),
                ),
            ).encode()

    def rust(values: list[Any]) -> Iterator[bytes]:
        once = mqtt5.QoS.AT_LEAST_ONCE
        for topic, i in values:
            yield mqtt5.PublishPacket(
                topic,
                PAYLOAD,
                qos=once,
                packet_id=i,
                message_expiry_interval=i,
                content_type="application/octet-stream",
                response_topic="answers/bench",
                user_properties=USER,
            ).write()

    def fields(octets: bytes) -> tuple[Any, ...]:
        p: Any = mqtt.decode(octets, version=5)
        return (p.topic_name, p.qos, p.packet_identifier, sorted(p.properties), p.payload_bytes())

    encoders: dict[str, Encoder] = {"wirefmt": ours, "mqtt5 (Rust)": rust}
    made = octets_of(encoders, TOPICS)
    assert list(map(fields, made["mqtt5 (Rust)"])) == list(map(fields, made["wirefmt"]))
    race("MQTT 5 PUBLISH with 5 properties", encoders, TOPICS)


# ---- AMQP 0.9.1

CONTENTS = [
    (f"room{i % 50:02}.new", {"x-origin": "bench", "x-retries": i % 5}, f"correlation-{i:06}", f"message-{i:06}")
    for i in range(COUNT)
]


def publish_091() -> None:
    def ours(values: list[Any]) -> Iterator[bytes]:
        for key, headers, correlation, identifier in values:
            yield amqp091.BasicMessage(
                amqp091.BasicPublish(channel=1, exchange="orders", routing_key=key),
                amqp091.BasicProperties(
                    content_type="application/json",
                    headers=headers,
                    delivery_mode=2,
                    correlation_id=correlation,
                    message_id=identifier,
                ),
                BODY,
            ).encode()

    def with_pika(values: list[Any]) -> Iterator[bytes]:
        for key, headers, correlation, identifier in values:
            method = pika.spec.Basic.Publish(exchange="orders", routing_key=key)
            properties = pika.spec.BasicProperties(
                content_type="application/json",
                headers=headers,
                delivery_mode=2,
                correlation_id=correlation,
                message_id=identifier,
            )
            yield b"".join(
                (
                    pika.frame.Method(1, method).marshal(),
                    pika.frame.Header(1, len(BODY), properties).marshal(),
                    pika.frame.Body(1, BODY).marshal(),
                )
            )

    def with_pamqp(values: list[Any]) -> Iterator[bytes]:
        for key, headers, correlation, identifier in values:
            method = pamqp.commands.Basic.Publish(exchange="orders", routing_key=key)
            properties = pamqp.commands.Basic.Properties(
                content_type="application/json",
                headers=headers,
                delivery_mode=2,
                correlation_id=correlation,
                message_id=identifier,
            )
            yield b"".join(
                (
                    pamqp.frame.marshal(method, 1),
                    pamqp.frame.marshal(pamqp.header.ContentHeader(0, len(BODY), properties), 1),
                    pamqp.frame.marshal(pamqp.body.ContentBody(BODY), 1),
                )
            )

    def fields(octets: bytes) -> tuple[Any, ...]:
        m: Any
        (m,) = amqp091.Assembler().feed(octets)
        values = [getattr(m.properties, name) for name in m.properties.__match_args__]
        return m.method, [dict(v) if isinstance(v, amqp091.FieldTable) else v for v in values], m.body_bytes()

    encoders: dict[str, Encoder] = {"wirefmt": ours, "pika": with_pika, "pamqp": with_pamqp}
    made = octets_of(encoders, CONTENTS)
    for name in ("pika", "pamqp"):
        assert list(map(fields, made[name])) == list(map(fields, made["wirefmt"]))
    race("AMQP 0.9.1 publish, 256 octets, 5 properties", encoders, CONTENTS)


# ---- AMQP 1.0

MESSAGES = [
    (i, f"id-{i:06}", f"request-{i:06}", {"site": "north", "sequence": i, "battery": 3.75, "online": True})
    for i in range(COUNT)
]


def transfer_10() -> None:
    def ours(values: list[Any]) -> Iterator[bytes]:
        for i, identifier, correlation, properties in values:
            yield amqp10.Transfer(
                channel=1,
                handle=0,
                delivery_id=i,
                delivery_tag=b"tag-0001",
                message_format=0,
                payload=amqp10.Message(
                    header=amqp10.Header(durable=True, priority=5, ttl=60000),
                    properties=amqp10.Properties(
                        message_id=identifier,
                        to="/queues/measurements",
                        subject="temperature",
                        correlation_id=correlation,
                        content_type="application/octet-stream",
                        creation_time=1_700_000_000_000 + i,
                    ),
                    application_properties=properties,
                    body=BODY,
                ),
            ).encode()

    def ours_message(values: list[Any]) -> Iterator[bytes]:
        """Without a transfer around it, as proton's Message.encode()."""
        for i, identifier, correlation, properties in values:
            yield amqp10.Message(
                header=amqp10.Header(durable=True, priority=5, ttl=60000),
                properties=amqp10.Properties(
                    message_id=identifier,
                    to="/queues/measurements",
                    subject="temperature",
                    correlation_id=correlation,
                    content_type="application/octet-stream",
                    creation_time=1_700_000_000_000 + i,
                ),
                application_properties=properties,
                body=BODY,
            ).encode()

    def with_proton(values: list[Any]) -> Iterator[bytes]:
        for i, identifier, correlation, properties in values:
            m = proton.Message(
                body=BODY,
                id=identifier,
                address="/queues/measurements",
                subject="temperature",
                correlation_id=correlation,
                content_type="application/octet-stream",
                properties=properties,
            )
            m.inferred = True
            m.durable = True
            m.priority = 5
            m.ttl = 60.0
            m.creation_time = (1_700_000_000_000 + i) / 1000
            yield m.encode()

    def fields(octets: bytes) -> tuple[Any, ...]:
        m = amqp10.decode_message(octets)
        p = m.properties
        return (
            (m.header.durable, m.header.priority, m.header.ttl) if m.header else None,
            (p.message_id, p.to, p.subject, p.correlation_id, p.content_type, p.creation_time) if p else None,
            dict(m.application_properties or ()),
            bytes(m.payload or b""),
        )

    encoders: dict[str, Encoder] = {
        "wirefmt": ours,
        "wirefmt, message alone": ours_message,
        "proton, message alone": with_proton,
    }
    made = octets_of(encoders, MESSAGES)
    assert list(map(fields, made["proton, message alone"])) == list(map(fields, made["wirefmt, message alone"]))
    for whole, part in zip(made["wirefmt"], made["wirefmt, message alone"], strict=True):
        assert whole.endswith(part)
    race("AMQP 1.0 message in a transfer, 4 sections, 256 octets", encoders, MESSAGES)


# ---- RocketMQ

COMMANDS = [
    (
        i,
        i % 4,
        1700000000000 + i,
        rocketmq.encode_properties(
            {"KEYS": f"key{i}", "UNIQ_KEY": f"C0000201000078BF18B4AAC2{i:08X}", "WAIT": "true", "TAGS": "TagA"}
        ),
    )
    for i in range(COUNT)
]


def rocketmq_fields(queue: int, born: int, properties: str) -> dict[str, str]:
    return {
        "a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": str(born), "h": "0",
        "i": properties, "j": "0", "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip


def rocketmq_commands() -> None:
    def ours(form: Any) -> Encoder:
        def encode(values: list[Any]) -> Iterator[bytes]:
            for i, queue, born, properties in values:
                yield rocketmq.RemotingCommand(
                    code=310,
                    opaque=i,
                    language="JAVA",
                    serialize_type=form,
                    header=rocketmq.SendMessageRequestHeaderV2(
                        a="producers", b="orders", c="TBW102", d=4, e=queue, f=0, g=born, h=0, i=properties, j=0,
                        k=False, m=False, n="broker-a",
                    ),
                    body=BODY,
                ).encode()  # fmt: skip

        return encode

    def ours_mapping(form: Any) -> Encoder:
        def encode(values: list[Any]) -> Iterator[bytes]:
            for i, queue, born, properties in values:
                yield rocketmq.RemotingCommand(
                    code=310,
                    opaque=i,
                    language="JAVA",
                    serialize_type=form,
                    ext_fields=rocketmq_fields(queue, born, properties),
                    body=BODY,
                ).encode()

        return encode

    def with_orjson(values: list[Any]) -> Iterator[bytes]:
        """The members of the header in the order of a dict, without a frame."""
        for i, queue, born, properties in values:
            yield orjson.dumps(
                {
                    "code": 310, "extFields": rocketmq_fields(queue, born, properties), "flag": 0, "language": "JAVA",
                    "opaque": i, "serializeTypeCurrentRPC": "JSON", "version": 401,
                }
            )  # fmt: skip

    for name, form in (("JSON", "JSON"), ("binary", "ROCKETMQ")):
        encoders: dict[str, Encoder] = {"wirefmt": ours(form), "wirefmt, fields as a mapping": ours_mapping(form)}
        made = octets_of(encoders, COMMANDS)
        for one, other in zip(*made.values(), strict=True):
            assert rocketmq.decode(one) == rocketmq.decode(other)
        for octets, header in zip(made["wirefmt"], with_orjson(COMMANDS), strict=False):
            assert rocketmq.decode(octets).ext_fields == orjson.loads(header)["extFields"]
        encoders["orjson, JSON of the header alone"] = with_orjson
        race(f"RocketMQ SEND_MESSAGE_V2, {name}", encoders, COMMANDS)


# ---- NSQ, PHPMQ

NAMES = [f"measurements-{i % 50:02}" for i in range(COUNT)]
CONTENT = BODY[:200]


def nsq_pub() -> None:
    def ours(values: list[Any]) -> Iterator[bytes]:
        for name in values:
            yield nsq.Publish(topic=name, body=CONTENT).encode()

    def pynsq(values: list[Any]) -> Iterator[bytes]:
        for name in values:
            yield nsq_protocol.pub(name, CONTENT)

    encoders: dict[str, Encoder] = {"wirefmt": ours, "pynsq": pynsq}
    octets_of(encoders, NAMES, ("pynsq",))
    race("NSQ PUB of 200 octets", encoders, NAMES)


def phpmq_message() -> None:
    def ours(values: list[Any]) -> Iterator[bytes]:
        for name in values:
            yield phpmq.MessageClientToServer(queue_name=name, content=CONTENT).encode()

    def by_hand(values: list[Any]) -> Iterator[bytes]:
        for name in values:
            text = name.encode()
            yield b"H0100103P01%029d%bP02%029d%bP05%029d0" % (len(text), text, len(CONTENT), CONTENT, 1)

    encoders: dict[str, Encoder] = {"wirefmt": ours, "bytes formatted by hand": by_hand}
    octets_of(encoders, NAMES, ("bytes formatted by hand",))
    race("PHPMQ message of 200 octets", encoders, NAMES)


def main() -> None:
    print(versions("wirefmt", "mqtt5", "pika", "pamqp", "python-qpid-proton", "orjson", "pynsq"))
    wanted = sys.argv[1:]
    for run in (mqtt_plain, mqtt_properties, publish_091, transfer_10, rocketmq_commands, nsq_pub, phpmq_message):
        if not wanted or any(word in run.__name__ for word in wanted):
            run()


if __name__ == "__main__":
    main()
