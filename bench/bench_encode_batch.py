"""How near to a copy of their pieces is writing frames from Arrow columns?

    python bench/bench_encode_batch.py [mqtt | amqp091 | amqp10 | rocketmq | nsq | phpmq ...]

`encode_batch` makes one bytes object of the columns that `decode_batch` gives for a stream of like messages. In the same run,
by turns: the floor, one `b"".join` of what the frames are made of (each string, binary and map entry a piece, and what
stands between two of them another; those of a thousand frames again and again, so that they are in the processor's cache);
one memcpy of the whole output; constructors and `encode()` for each message; and a package of others that writes the same
message from Python. CPU time, best of nine rounds.

Before anything is timed, what was written is compared: `encode_batch` writes the octets that the constructors wrote, or as
many that decode to the same columns.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import mqtt5
import numpy
import pika.frame
import pika.spec
import proton
import pyarrow
from bench_encode import BODY, COMMANDS, CONTENT, CONTENTS, MESSAGES, NAMES, PAYLOAD, TOPICS, USER, rocketmq_fields
from nsq import protocol as nsq_protocol
from ratios import compare, versions

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq

COUNT = 1000
REPEATS = 20  # of the messages: the output is a few megabytes


def values_of(value: Any) -> Iterator[bytes]:
    """Strings and binaries of a row, at any depth."""
    if isinstance(value, str):
        yield value.encode()
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from values_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from values_of(item)


def pieces_of(frame: bytes, row: dict[str, Any]) -> list[bytes]:
    """A frame split at the values of its columns."""
    cuts = {0, len(frame)}
    taken: list[tuple[int, int]] = []
    for value in sorted(set(values_of(row)), key=len, reverse=True):
        at = frame.find(value) if len(value) > 1 else -1
        if at >= 0 and all(at + len(value) <= begin or at >= end for begin, end in taken):
            taken.append((at, at + len(value)))
            cuts |= {at, at + len(value)}
    places = sorted(cuts)
    return [frame[a:b] for a, b in itertools.pairwise(places)]


def race(
    title: str,
    frames: Callable[[], Iterable[bytes]],
    decode: Callable[[bytes], Any],
    encode: Callable[[Any], bytes],
    **peers: Callable[[], Iterable[bytes]],
) -> None:
    each = list(frames())
    octets = b"".join(each) * REPEATS
    batch = decode(octets)
    table = pyarrow.record_batch(batch)
    assert len(batch) == COUNT * REPEATS
    assert table.column("error").null_count == len(batch)
    made = encode(batch)
    if made != octets:
        again = pyarrow.record_batch(decode(made)).drop_columns(["byte_offset", "wire_size"])
        assert again.equals(table.drop_columns(["byte_offset", "wire_size"]))
    rows = table.drop_columns(["byte_offset", "wire_size", "error"]).to_pylist()
    whole, at, pieces = made, 0, []
    for row, size in zip(rows[:COUNT], decode(made)["wire_size"].tolist(), strict=False):
        pieces += pieces_of(whole[at : at + size], row)
        at += size
    count = len(pieces) / COUNT
    pieces *= REPEATS
    assert b"".join(pieces) == made
    written = numpy.frombuffer(made, dtype="u1")
    contestants: dict[str, Callable[[], object]] = {
        "encode_batch": lambda: encode(batch),
        f"floor: a copy of {count:.0f} pieces": lambda: b"".join(pieces),
        "one memcpy of the output": lambda: written.copy(),
        "constructors and encode()": lambda: [deque(frames(), maxlen=0) for _ in range(REPEATS)],
    }
    for name, peer in peers.items():
        contestants[name] = lambda peer=peer: [deque(peer(), maxlen=0) for _ in range(REPEATS)]  # type: ignore[misc]
    compare(f"{title}, from columns", contestants, units=COUNT * REPEATS, rounds=9, clock=time.process_time)


# ---- MQTT


def mqtt_publish(title: str, payload: bytes, version: int, properties: tuple[tuple[str, Any], ...]) -> None:
    def frames() -> Iterator[bytes]:
        for topic, i in TOPICS:
            yield mqtt.Publish(
                topic_name=topic, payload=payload, qos=1, packet_identifier=i, properties=properties, version=version
            ).encode()

    def rust() -> Iterator[bytes]:
        once = mqtt5.QoS.AT_LEAST_ONCE
        for topic, i in TOPICS:
            if not properties:
                yield mqtt5.PublishPacket(topic, payload, qos=once, packet_id=i).write()
                continue
            yield mqtt5.PublishPacket(
                topic, payload, qos=once, packet_id=i, message_expiry_interval=7, content_type="application/octet-stream",
                response_topic="answers/bench", user_properties=USER,
            ).write()  # fmt: skip

    race(
        title,
        frames,
        lambda octets: mqtt.decode_batch(octets, version=version),
        lambda columns: mqtt.encode_batch(columns, version=version),
        **({"mqtt5 (Rust)": rust} if version == 5 else {}),
    )


def run_mqtt() -> None:
    mqtt_publish("MQTT 3.1.1 PUBLISH of 64 octets", BODY[:34], 4, ())
    mqtt_publish("MQTT 5 PUBLISH of 256 octets", PAYLOAD, 5, ())
    properties = (
        ("message_expiry_interval", 7),
        ("content_type", "application/octet-stream"),
        ("response_topic", "answers/bench"),
        ("user_property", ("origin", "bench")),
        ("user_property", ("unit", "celsius")),
    )
    mqtt_publish("MQTT 5 PUBLISH with 5 properties", PAYLOAD, 5, properties)


# ---- AMQP


def run_amqp091() -> None:
    def frames() -> Iterator[bytes]:
        for key, headers, correlation, identifier in CONTENTS:
            yield amqp091.BasicMessage(
                amqp091.BasicPublish(channel=1, exchange="orders", routing_key=key),
                amqp091.BasicProperties(
                    content_type="application/json",
                    headers={name: str(value) for name, value in headers.items()},
                    delivery_mode=2,
                    correlation_id=correlation,
                    message_id=identifier,
                ),
                BODY,
            ).encode()

    def with_pika() -> Iterator[bytes]:
        for key, headers, correlation, identifier in CONTENTS:
            properties = pika.spec.BasicProperties(
                content_type="application/json",
                headers={name: str(value) for name, value in headers.items()},
                delivery_mode=2,
                correlation_id=correlation,
                message_id=identifier,
            )
            yield b"".join(
                (
                    pika.frame.Method(1, pika.spec.Basic.Publish(exchange="orders", routing_key=key)).marshal(),
                    pika.frame.Header(1, len(BODY), properties).marshal(),
                    pika.frame.Body(1, BODY).marshal(),
                )
            )

    title = "AMQP 0.9.1 publish, 256 octets, 5 properties"
    race(title, frames, amqp091.decode_batch, amqp091.encode_batch, pika=with_pika)


def run_amqp10() -> None:
    def frames() -> Iterator[bytes]:
        for i, identifier, correlation, properties in MESSAGES:
            yield amqp10.Transfer(
                channel=1, handle=0, delivery_id=i, delivery_tag=b"tag-0001", message_format=0,
                payload=amqp10.Message(
                    header=amqp10.Header(durable=True, priority=5, ttl=60000),
                    properties=amqp10.Properties(
                        message_id=identifier, to="/queues/measurements", subject="temperature",
                        correlation_id=correlation, content_type="application/octet-stream",
                        creation_time=1_700_000_000_000 + i,
                    ),
                    application_properties={name: str(value) for name, value in properties.items()},
                    body=BODY,
                ),
            ).encode()  # fmt: skip

    def with_proton() -> Iterator[bytes]:
        for i, identifier, correlation, properties in MESSAGES:
            m = proton.Message(
                body=BODY, id=identifier, address="/queues/measurements", subject="temperature",
                correlation_id=correlation, content_type="application/octet-stream",
                properties={name: str(value) for name, value in properties.items()},
            )  # fmt: skip
            m.inferred = True
            m.durable = True
            m.priority = 5
            m.ttl = 60.0
            m.creation_time = (1_700_000_000_000 + i) / 1000
            yield m.encode()

    title = "AMQP 1.0 message in a transfer, 4 sections, 256 octets"
    race(title, frames, amqp10.decode_batch, amqp10.encode_batch, **{"proton, message alone": with_proton})


# ---- RocketMQ, NSQ, PHPMQ


def run_rocketmq() -> None:
    def frames(form: Any) -> Callable[[], Iterator[bytes]]:
        def made() -> Iterator[bytes]:
            for i, queue, born, properties in COMMANDS:
                yield rocketmq.RemotingCommand(
                    code=310, opaque=i, language="JAVA", serialize_type=form,
                    ext_fields=rocketmq_fields(queue, born, properties), body=BODY,
                ).encode()  # fmt: skip

        return made

    for name, form in (("JSON", "JSON"), ("binary", "ROCKETMQ")):
        race(f"RocketMQ SEND_MESSAGE_V2, {name}", frames(form), rocketmq.decode_batch, rocketmq.encode_batch)


def run_nsq() -> None:
    def frames() -> Iterator[bytes]:
        for name in NAMES:
            yield nsq.Publish(topic=name, body=CONTENT).encode()

    def pynsq() -> Iterator[bytes]:
        for name in NAMES:
            yield nsq_protocol.pub(name, CONTENT)

    race("NSQ PUB of 200 octets", frames, nsq.decode_batch, nsq.encode_batch, pynsq=pynsq)


def run_phpmq() -> None:
    def frames() -> Iterator[bytes]:
        for name in NAMES:
            yield phpmq.MessageClientToServer(queue_name=name, content=CONTENT).encode()

    race("PHPMQ message of 200 octets", frames, phpmq.decode_batch, phpmq.encode_batch)


def main() -> None:
    print(versions("wirefmt", "pyarrow", "mqtt5", "pika", "python-qpid-proton", "pynsq"))
    wanted = sys.argv[1:]
    for run in (run_mqtt, run_amqp091, run_amqp10, run_rocketmq, run_nsq, run_phpmq):
        if not wanted or any(word in run.__name__ for word in wanted):
            run()


if __name__ == "__main__":
    main()
