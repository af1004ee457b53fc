"""How fast do NSQ message frames become objects, and columns?

    python bench/bench_nsq_objects.py

Peers: the decoders of pynsq and ansq. All read the same stream of message frames; pynsq's is framed by hand the way its
connection does it. `lazy` is our decoder with no field read; the peers make all fields at once. Columns are measured
beside one memcpy of the same buffer. Before anything is timed, what the contestants say is compared.
"""

from __future__ import annotations

import struct

import numpy
from ansq.tcp.protocol import Reader
from nsq import protocol
from ratios import compare, versions

from wirefmt import nsq

COUNT = 1000
SIZE = struct.Struct(">l")


def stream(body: int, count: int = COUNT) -> bytes:
    return b"".join(
        nsq.MessageFrame(
            timestamp=1_700_000_000_000_000_000 + i,
            attempts=1 + i % 3,
            message_id=b"0d5b2e8f%08x" % i,
            body=bytes((i + k) & 0xFF for k in range(body)),
        ).encode()
        for i in range(count)
    )


def lazy(data: bytes) -> list[nsq.Frame]:
    return nsq.Decoder(side="server").feed(data)


def ours(data: bytes) -> list[tuple[int, int, bytes, bytes]]:
    return [(m.timestamp, m.attempts, m.message_id, m.body_bytes()) for m in nsq.Decoder(side="server").feed(data)]


def views(data: bytes) -> None:
    for m in nsq.Decoder(side="server").feed(data):
        m.timestamp, m.attempts, m.message_id, m.body  # noqa: B018


def pynsq(data: bytes) -> list[tuple[int, int, bytes, bytes]]:
    out = []
    at = 0
    while at < len(data):
        (size,) = SIZE.unpack(data[at : at + 4])
        frame, octets = protocol.unpack_response(data[at + 4 : at + 4 + size])
        if frame == protocol.FRAME_TYPE_MESSAGE:
            m = protocol.decode_message(octets)
            out.append((m.timestamp, m.attempts, m.id, m.body))
        at += 4 + size
    return out


def ansq(data: bytes) -> list[tuple[int, int, bytes, bytes]]:
    """Fed a message at a time, which suits it best: it copies what is left of its buffer for each."""
    reader = Reader()
    out = []
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        reader.feed(data[at:end])
        m = reader.get()
        out.append((m.timestamp, m.attempts, m.id, m.body))
        at = end
    return out


def main() -> None:
    print(versions("wirefmt", "pynsq", "ansq", "numpy"))
    for body in (100, 1024):
        data = stream(body)
        assert ours(data) == pynsq(data)
        assert ours(data) == [(t, a, i.encode(), b) for t, a, i, b in ansq(data)]
        compare(
            f"NSQ message frames with {body} octets to objects",
            {
                "wirefmt, lazy": lambda d=data: lazy(d),
                "wirefmt, every field, body copied": lambda d=data: ours(d),
                "wirefmt, every field, body a view": lambda d=data: views(d),
                "pynsq": lambda d=data: pynsq(d),
                "ansq": lambda d=data: ansq(d),
            },
            units=COUNT,
        )
    data = stream(1024) * 100
    source = numpy.frombuffer(data, dtype="u1")
    batch = nsq.decode_batch(data, side="server")
    assert batch["body"][:COUNT].tolist() == [m.body_bytes() for m in lazy(data)[:COUNT]]
    compare(
        "NSQ message frames with 1024 octets to columns",
        {
            "memcpy, fresh memory": source.copy,
            "decode_batch": lambda: nsq.decode_batch(data, side="server"),
        },
        units=COUNT * 100,
    )


if __name__ == "__main__":
    main()
