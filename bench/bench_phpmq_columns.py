"""How close to a copy of the octets is decoding PHPMQ messages to Arrow columns?

    python bench/bench_phpmq_columns.py

Messages of a server with 1,024 octets of content go through `phpmq.decode_batch`, with contents copied into the column, and,
alternately, through one memcpy of the same buffer. No other decoder in Python is known; a plain one beside it shows the
cost in Python.
"""

from __future__ import annotations

import numpy
from ratios import compare, versions

from wirefmt import phpmq

COUNT = 100_000


def stream(count: int) -> bytes:
    messages = [
        phpmq.MessageServerToClient(
            queue_name=f"queue-{i % 50}",
            content=bytes((i + k) & 0xFF for k in range(1024)),
            message_id=f"{i:032x}",
            ttl=3600,
        ).encode()
        for i in range(1000)
    ]
    return b"".join(messages) * (count // 1000)


def plain(data: bytes) -> list[list[tuple[int, bytes]]]:
    """A straightforward decoder in Python."""
    out = []
    at = 0
    while at < len(data):
        packets = []
        count = int(data[at + 6 : at + 8])
        at += 8
        for _ in range(count):
            size = int(data[at + 3 : at + 32])
            packets.append((int(data[at + 1 : at + 3]), data[at + 32 : at + 32 + size]))
            at += 32 + size
        out.append(packets)
    return out


def main() -> None:
    print(versions("wirefmt", "numpy"))
    data = stream(COUNT)
    small = stream(1000)
    batch = phpmq.decode_batch(small)
    assert batch["payload"].tolist() == [dict(packets)[2] for packets in plain(small)]
    source = numpy.frombuffer(data, dtype="u1")
    compare(
        "PHPMQ messages with 1024 octets to columns",
        {"memcpy, fresh memory": source.copy, "decode_batch": lambda: phpmq.decode_batch(data)},
        units=COUNT,
    )
    compare(
        "PHPMQ messages with 1024 octets to objects",
        {"wirefmt, lazy": lambda: phpmq.Decoder().feed(small), "plain Python": lambda: plain(small)},
        units=1000,
    )


if __name__ == "__main__":
    main()
