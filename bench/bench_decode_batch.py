"""How close to a copy of the octets is decoding them to Arrow columns?

    python bench/bench_decode_batch.py

A stream of MQTT 5 PUBLISH packets with payloads of 128 octets goes through `mqtt.decode_batch`, with payloads copied into
the column, and, alternately, through one memcpy of the same buffer into fresh memory (like that of the columns) and
into memory that was written before. Before timing, the columns are compared with the packet objects.
"""

from __future__ import annotations

from typing import Any

import numpy
from ratios import compare, versions

from wirefmt import mqtt

COUNT = 400_000


def stream(qos: int, properties: tuple[tuple[str, object], ...]) -> bytes:
    packets = [
        mqtt.Publish(
            topic_name=f"sensors/room{i % 50:02}/temperature",
            payload=bytes((i + k) & 0xFF for k in range(128)),
            qos=qos,
            packet_identifier=i + 1 if qos else None,
            properties=properties,
            version=5,
        ).encode()
        for i in range(1000)
    ]
    return b"".join(packets) * (COUNT // 1000)


def check(data: bytes) -> None:
    batch = mqtt.decode_batch(data, version=5)
    objects: list[Any] = mqtt.Decoder(version=5).feed(data)
    assert batch.num_rows == len(objects) == COUNT
    assert batch.rest == 0
    assert batch["destination"].tolist() == [p.topic_name for p in objects]
    for name in ("qos", "dup", "retain"):
        assert batch[name].tolist() == [getattr(p, name) for p in objects], name
    assert batch["payload"].tolist() == [p.payload_bytes() for p in objects]


def main() -> None:
    print(versions("wirefmt", "numpy"))
    for title, qos, properties in (
        ("QoS 0", 0, ()),
        ("QoS 1, content type and a User Property", 1, (("content_type", "a/b"), ("user_property", ("k", "value")))),
    ):
        data = stream(qos, properties)
        check(data)
        source = numpy.frombuffer(data, dtype="u1")
        written = source.copy()
        compare(
            f"PUBLISH with 128 octets of payload to columns, {title}",
            {
                "memcpy, fresh memory": source.copy,
                "memcpy, memory written before": lambda s=source, w=written: numpy.copyto(w, s),
                "decode_batch": lambda d=data: mqtt.decode_batch(d, version=5),
                "decode_batch, without payloads": lambda d=data: mqtt.decode_batch(d, version=5, payload=False),
                "decode_batch, offset and topic only": lambda d=data: mqtt.decode_batch(
                    d, version=5, columns=("byte_offset", "destination")
                ),
            },
            units=COUNT,
        )


if __name__ == "__main__":
    main()
