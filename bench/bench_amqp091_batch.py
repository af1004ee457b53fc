"""How close to a copy of the octets is decoding AMQP 0.9.1 deliveries to Arrow columns?

    python bench/bench_amqp091_batch.py

A stream of deliveries (basic.deliver, a content header with five properties and two headers, a body of 1 KiB) goes
through `amqp091.decode_batch`, with bodies copied into the column, and, alternately, through one memcpy of the same buffer into
fresh memory (like that of the columns) and into memory that was written before. Before timing, the columns
are compared with the Assembler's messages.
"""

from __future__ import annotations

from typing import Any

import numpy
from ratios import compare, versions

from wirefmt import amqp091

COUNT = 100_000
SIZE = 1024


def stream() -> bytes:
    messages = [
        amqp091.BasicMessage(
            amqp091.BasicDeliver(
                channel=1 + i % 8,
                consumer_tag="ctag1.0",
                delivery_tag=i + 1,
                exchange="orders",
                routing_key=f"room{i % 50:02}.new",
            ),
            amqp091.BasicProperties(
                content_type="application/json",
                headers={"x-origin": "bench", "x-retries": i % 5},
                delivery_mode=2,
                correlation_id=f"correlation-{i:06}",
                message_id=f"message-{i:06}",
            ),
            bytes((i + k) & 0xFF for k in range(SIZE)),
        ).encode()
        for i in range(1000)
    ]
    return b"".join(messages) * (COUNT // 1000)


def check(data: bytes) -> None:
    batch = amqp091.decode_batch(data)
    messages: list[Any] = amqp091.Assembler().feed(data)
    assert batch.num_rows == len(messages) == COUNT
    assert batch.rest == 0
    assert batch["sequence"].tolist() == [m.method.delivery_tag for m in messages]
    for name in ("consumer_tag", "redelivered", "exchange", "routing_key"):
        assert batch[name].tolist() == [getattr(m.method, name) for m in messages], name
    for name in ("content_type", "delivery_mode", "correlation_id", "message_id"):
        assert batch[name].tolist() == [getattr(m.properties, name) for m in messages], name
    assert batch["payload"].tolist() == [m.body_bytes() for m in messages]


def main() -> None:
    print(versions("wirefmt", "numpy"))
    data = stream()
    check(data)
    source = numpy.frombuffer(data, dtype="u1")
    written = source.copy()
    compare(
        f"AMQP 0.9.1 deliveries with bodies of {SIZE} octets to columns",
        {
            "memcpy, fresh memory": source.copy,
            "memcpy, memory written before": lambda: numpy.copyto(written, source),
            "decode_batch": lambda: amqp091.decode_batch(data),
            "decode_batch, without bodies": lambda: amqp091.decode_batch(data, payload=False),
            "decode_batch, offset and routing key only": lambda: amqp091.decode_batch(
                data, columns=("byte_offset", "routing_key")
            ),
        },
        units=COUNT,
    )


if __name__ == "__main__":
    main()
