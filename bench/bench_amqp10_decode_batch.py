"""How close to a copy of the octets is decoding AMQP 1.0 transfers to Arrow columns?

    python bench/bench_amqp10_decode_batch.py

A stream of transfers with messages of 1 KiB of data goes through `amqp10.decode_batch`, with bodies copied into the column,
and, alternately, through one memcpy of the same buffer into fresh memory (like that of the columns) and into memory
that was written before. Before timing, the columns are compared with the objects.
"""

from __future__ import annotations

from typing import Any

import numpy
from ratios import compare, versions

from wirefmt import amqp10

COUNT = 100_000


def message(i: int, full: bool) -> amqp10.Message:
    body = bytes((i + k) & 0xFF for k in range(1024))
    if not full:
        return amqp10.Message(body=body)
    return amqp10.Message(
        header=amqp10.Header(durable=True),
        properties=amqp10.Properties(message_id=f"id-{i}", to="/queues/measurements", content_type="a/b"),
        application_properties={"site": f"north-{i % 7}", "sequence": i},
        body=body,
    )


def stream(full: bool, cuts: int) -> bytes:
    out = []
    for i in range(1000):
        octets = message(i, full).encode()
        size = -(-len(octets) // cuts)
        for k in range(cuts):
            first: dict[str, Any] = (
                {"delivery_id": i, "delivery_tag": i.to_bytes(4, "big"), "settled": True} if k == 0 else {}
            )
            piece = octets[k * size : (k + 1) * size]
            out.append(amqp10.Transfer(handle=0, more=k < cuts - 1, payload=piece, **first).encode())
    return b"".join(out) * (COUNT // 1000)


def check(data: bytes) -> None:
    data = data[: len(data) // (COUNT // 1000)]
    batch = amqp10.decode_batch(data)
    deliveries = [d for d in amqp10.Assembler().feed(data) if isinstance(d, amqp10.Delivery)]
    assert batch.num_rows == len(deliveries) == 1000
    assert batch["delivery_id"].tolist() == [d.transfer.delivery_id for d in deliveries]
    assert batch["payload"].tolist() == [bytes(d.message.payload or b"") for d in deliveries]


def main() -> None:
    print(versions("wirefmt", "numpy"))
    for title, full, cuts in (
        ("data alone", False, 1),
        ("header, properties, two application properties", True, 1),
        ("the same in two transfers", True, 2),
    ):
        data = stream(full, cuts)
        check(data)
        source = numpy.frombuffer(data, dtype="u1")
        written = source.copy()
        compare(
            f"AMQP 1.0 transfers with 1 KiB of data to columns, {title}",
            {
                "memcpy, fresh memory": source.copy,
                "memcpy, memory written before": lambda s=source, w=written: numpy.copyto(w, s),
                "decode_batch": lambda d=data: amqp10.decode_batch(d),
                "decode_batch, without bodies": lambda d=data: amqp10.decode_batch(d, payload=False),
            },
            units=COUNT,
        )


if __name__ == "__main__":
    main()
