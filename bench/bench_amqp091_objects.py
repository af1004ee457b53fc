"""How fast do octets become AMQP 0.9.1 deliveries with every field read once, and messages become octets?

    python bench/bench_amqp091_objects.py

Peers: pika's and pamqp's own frame codecs. All read the same stream of deliveries (basic.deliver, a content header
with five properties and two headers, a body of 256 octets) and return every argument, property, header and the body.
Ours reads 64 KiB at a time, as from a socket. `lazy` is our Assembler without reading a field. Encoding makes the three
frames of a basic.publish of the same content.
Before timing, the readers are compared with each other.
"""

from __future__ import annotations

from typing import Any

import pamqp.frame
import pika.frame
import pika.spec
from ratios import compare, versions

from wirefmt import amqp091

COUNT = 1000
SIZE = 256
READ = 1 << 16


def content(i: int) -> dict[str, Any]:
    return {
        "content_type": "application/json",
        "headers": {"x-origin": "bench", "x-retries": i % 5},
        "delivery_mode": 2,
        "correlation_id": f"correlation-{i:06}",
        "message_id": f"message-{i:06}",
    }


def body(i: int) -> bytes:
    return bytes((i + k) & 0xFF for k in range(SIZE))


def deliveries() -> bytes:
    return b"".join(
        amqp091.BasicMessage(
            amqp091.BasicDeliver(
                channel=1,
                consumer_tag="ctag1.0",
                delivery_tag=i + 1,
                exchange="orders",
                routing_key=f"room{i % 50:02}.new",
            ),
            amqp091.BasicProperties(**content(i)),
            body(i),
        ).encode()
        for i in range(COUNT)
    )


def fields(m: Any, p: Any, payload: Any) -> tuple[Any, ...]:
    return (
        m.consumer_tag,
        m.delivery_tag,
        m.redelivered,
        m.exchange,
        m.routing_key,
        p.content_type,
        p.delivery_mode,
        p.correlation_id,
        p.message_id,
        dict(p.headers),
        payload,
    )


def check(data: bytes) -> None:
    messages: list[Any] = amqp091.Assembler().feed(data)
    ours = [fields(m.method, m.properties, m.body_bytes()) for m in messages]
    theirs = []
    at = 0
    while at < len(data):
        parts = []
        for _ in range(3):
            used, frame = pika.frame.decode_frame(data[at:])
            at += used
            parts.append(frame)
        theirs.append(fields(parts[0].method, parts[1].properties, parts[2].fragment))
    assert len(ours) == COUNT
    assert ours == theirs
    first = data[: len(data) // COUNT]
    used, _, method = pamqp.frame.unmarshal(first)
    more, _, header = pamqp.frame.unmarshal(first[used:])
    _, _, part = pamqp.frame.unmarshal(first[used + more :])
    assert fields(method, header.properties, part.value) == ours[0]


def ours(reads: list[bytes]) -> None:
    message: Any
    assembler = amqp091.Assembler()
    for read in reads:
        for message in assembler.feed(read):
            m = message.method
            m.consumer_tag, m.delivery_tag, m.redelivered, m.exchange, m.routing_key  # noqa: B018
            p = message.properties
            p.content_type, p.delivery_mode, p.correlation_id, p.message_id  # noqa: B018
            for _, _ in p.headers.pairs:
                pass
            message.body_bytes()


def ours_frames(reads: list[bytes]) -> None:
    """The frames themselves, distinguished by their class."""
    frame: Any
    decoder = amqp091.Decoder()
    for read in reads:
        for frame in decoder.feed(read):
            kind = type(frame)
            if kind is amqp091.BasicDeliver:
                frame.consumer_tag, frame.delivery_tag, frame.redelivered, frame.exchange, frame.routing_key  # noqa: B018
            elif kind is amqp091.ContentHeader:
                p = frame.properties
                p.content_type, p.delivery_mode, p.correlation_id, p.message_id  # noqa: B018
                for _, _ in p.headers.pairs:
                    pass
            else:
                frame.payload_bytes()


def lazy(reads: list[bytes]) -> None:
    assembler = amqp091.Assembler()
    for read in reads:
        for _ in assembler.feed(read):
            pass


def with_pika(data: bytes) -> None:
    """pika's codec reads from the front of its input. It gets one delivery at a time, so that the cost of slicing the rest
    of a long stream is not counted."""
    decode = pika.frame.decode_frame
    for part in PARTS:
        used, frame = decode(part)
        m = frame.method
        m.consumer_tag, m.delivery_tag, m.redelivered, m.exchange, m.routing_key  # noqa: B018
        part = part[used:]
        used, frame = decode(part)
        p = frame.properties
        p.content_type, p.delivery_mode, p.correlation_id, p.message_id  # noqa: B018
        for _, _ in p.headers.items():
            pass
        _, frame = decode(part[used:])
        frame.fragment  # noqa: B018


def with_pamqp(data: bytes) -> None:
    decode = pamqp.frame.unmarshal
    for part in PARTS:
        used, _, m = decode(part)
        m.consumer_tag, m.delivery_tag, m.redelivered, m.exchange, m.routing_key  # noqa: B018
        part = part[used:]
        used, _, header = decode(part)
        p = header.properties
        p.content_type, p.delivery_mode, p.correlation_id, p.message_id  # noqa: B018
        for _, _ in p.headers.items():
            pass
        _, _, b = decode(part[used:])
        b.value  # noqa: B018


PARTS: list[bytes] = []
MESSAGES = [
    (f"room{i % 50:02}.new", c["headers"], c["correlation_id"], c["message_id"], body(i))
    for i, c in enumerate(map(content, range(COUNT)))
]


def encode_ours() -> None:
    for key, headers, correlation_id, message_id, payload in MESSAGES:
        method = amqp091.BasicPublish(channel=1, exchange="orders", routing_key=key)
        properties = amqp091.BasicProperties(
            content_type="application/json",
            headers=headers,
            delivery_mode=2,
            correlation_id=correlation_id,
            message_id=message_id,
        )
        amqp091.BasicMessage(method, properties, payload).encode()


def encode_pika() -> None:
    for key, headers, correlation_id, message_id, payload in MESSAGES:
        method = pika.spec.Basic.Publish(exchange="orders", routing_key=key)
        properties = pika.spec.BasicProperties(
            content_type="application/json",
            headers=headers,
            delivery_mode=2,
            correlation_id=correlation_id,
            message_id=message_id,
        )
        b"".join(
            (
                pika.frame.Method(1, method).marshal(),
                pika.frame.Header(1, len(payload), properties).marshal(),
                pika.frame.Body(1, payload).marshal(),
            )
        )


def encode_pamqp() -> None:
    for key, headers, correlation_id, message_id, payload in MESSAGES:
        method = pamqp.commands.Basic.Publish(exchange="orders", routing_key=key)
        properties = pamqp.commands.Basic.Properties(
            content_type="application/json",
            headers=headers,
            delivery_mode=2,
            correlation_id=correlation_id,
            message_id=message_id,
        )
        b"".join(
            (
                pamqp.frame.marshal(method, 1),
                pamqp.frame.marshal(pamqp.header.ContentHeader(0, len(payload), properties), 1),
                pamqp.frame.marshal(pamqp.body.ContentBody(payload), 1),
            )
        )


def main() -> None:
    print(versions("wirefmt", "pika", "pamqp"))
    data = deliveries()
    check(data)
    reads = [data[at : at + READ] for at in range(0, len(data), READ)]
    PARTS.extend(data[m.offset : m.offset + m.size] for m in cuts(data))
    compare(
        f"AMQP 0.9.1 delivery, body of {SIZE} octets, to objects",
        {
            "wirefmt, every field": lambda: ours(reads),
            "wirefmt, every field, frame by frame": lambda: ours_frames(reads),
            "wirefmt, lazy": lambda: lazy(reads),
            "pika": lambda: with_pika(data),
            "pamqp": lambda: with_pamqp(data),
        },
        units=COUNT,
        rounds=21,
        at_least=0.02,
    )
    compare(
        f"AMQP 0.9.1 publish, body of {SIZE} octets, to octets",
        {"wirefmt": encode_ours, "pika": encode_pika, "pamqp": encode_pamqp},
        units=COUNT,
        rounds=21,
        at_least=0.02,
    )


class Cut:
    def __init__(self, offset: int, size: int) -> None:
        self.offset, self.size = offset, size


def cuts(data: bytes) -> list[Cut]:
    """The position of each delivery."""
    out, at = [], 0
    for message in amqp091.Assembler().feed(data):
        out.append(Cut(at, len(message.encode())))
        at += out[-1].size
    return out


if __name__ == "__main__":
    main()
