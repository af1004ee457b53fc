"""How fast do NSQ message frames become objects, and columns?

    python bench/bench_nsq_objects.py

Peers: the decoders of pynsq and ansq, which make all fields at once. All read the same stream of message frames; pynsq's
is framed by hand as its connection does it. All read the four fields, the body as bytes; `not read` is our
decoder alone. `struct.iter_unpack` shows the cost in CPython of making the four values of a frame and looping over
them: it checks nothing and requires frames of one size. Columns are measured beside one memcpy of the same
buffer. Before timing, all results are compared.
"""

from __future__ import annotations

import struct
from typing import Any

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


def ours(data: bytes) -> list[Any]:
    return nsq.Decoder(side="server").feed(data)


def pynsq(data: bytes) -> list[Any]:
    out = []
    at = 0
    while at < len(data):
        (size,) = SIZE.unpack(data[at : at + 4])
        frame, octets = protocol.unpack_response(data[at + 4 : at + 4 + size])
        if frame == protocol.FRAME_TYPE_MESSAGE:
            out.append(protocol.decode_message(octets))
        at += 4 + size
    return out


def ansq(data: bytes) -> list[Any]:
    """Fed one message at a time, which suits it best: it copies the rest of its buffer for each."""
    reader = Reader()
    out = []
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        reader.feed(data[at:end])
        out.append(reader.get())
        at = end
    return out


def read_ours(messages: list[Any]) -> None:
    for m in messages:
        m.timestamp, m.attempts, m.message_id, m.body_bytes()


def read_views(messages: list[Any]) -> None:
    for m in messages:
        m.timestamp, m.attempts, m.message_id, m.body  # noqa: B018


def read_peer(messages: list[Any]) -> None:
    for m in messages:
        m.timestamp, m.attempts, m.id, m.body  # noqa: B018


def read_structs(data: bytes, body: int) -> None:
    for _, _, _, _, _, _ in struct.iter_unpack(f">iiqH16s{body}s", data):
        pass


def main() -> None:
    print(versions("wirefmt", "pynsq", "ansq", "numpy"))
    for body in (100, 1024):
        data = stream(body)
        said = [(m.timestamp, m.attempts, m.message_id, m.body_bytes()) for m in ours(data)]
        assert said == [(m.timestamp, m.attempts, m.id, m.body) for m in pynsq(data)]
        assert said == [(m.timestamp, m.attempts, m.id.encode(), m.body) for m in ansq(data)]
        assert said == [row[2:] for row in struct.iter_unpack(f">iiqH16s{body}s", data)]
        compare(
            f"NSQ message frames with {body} octets to objects",
            {
                "wirefmt, every field read": lambda d=data: read_ours(ours(d)),
                "wirefmt, every field read, body a view": lambda d=data: read_views(ours(d)),
                "wirefmt, not read": lambda d=data: ours(d),
                "pynsq": lambda d=data: read_peer(pynsq(d)),
                "ansq": lambda d=data: read_peer(ansq(d)),
                "struct.iter_unpack": lambda d=data, b=body: read_structs(d, b),
            },
            units=COUNT,
        )
    data = stream(1024) * 100
    source = numpy.frombuffer(data, dtype="u1")
    batch = nsq.decode_batch(data, side="server")
    assert batch["payload"][:COUNT].tolist() == [m.body_bytes() for m in ours(data)[:COUNT]]
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
