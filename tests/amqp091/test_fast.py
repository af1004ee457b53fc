"""Captures and decode_batch read a content whose frames lie together by the fast path. Its rows are those of the general path,
which a pending content in the same direction forces here."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import amqp091_strategies as a
from lib.wire import Tcp, pcap
from wirefmt import amqp091, capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

START = b"AMQP\0\0\x09\x01"
PORTS = 40000  # the client's, of the first connection
#: A content that is pending until OTHER's body arrives.
OTHER = 64999
BEGUN = [
    amqp091.BasicPublish(channel=OTHER).encode() + amqp091.ContentHeader(channel=OTHER, body_size=1).encode(),
    amqp091.Body(channel=OTHER, payload=b"x").encode(),
]
#: What rules speak of: channels, classes and flags, sizes of strings, NUL and octets that are not text, frame-end.
OCTETS = (0x00, 0x01, 0x02, 0x03, 0x3C, 0x7F, 0x80, 0xC3, 0xCE, 0xFF)
PROPERTIES: dict[str, Any] = {
    "content_type": "application/json", "headers": {"x-origin": "bench", "x-delivery-count": 3, "password": 1, "t": True},
    "delivery_mode": 2, "expiration": "60000", "message_id": "message-000001", "timestamp": 1_700_000_000, "type": "t",
}  # fmt: skip
METHODS = (
    amqp091.BasicPublish(channel=1, exchange="orders", routing_key="room.new", mandatory=True),
    amqp091.BasicDeliver(channel=1, consumer_tag="c", delivery_tag=7, redelivered=True, exchange="", routing_key="q"),
    amqp091.BasicGetOk(channel=1, delivery_tag=7, exchange="e", routing_key="", message_count=70_000),
    amqp091.BasicReturn(channel=1, reply_code=312, reply_text="NO_ROUTE", exchange="e", routing_key="k"),
)


def captured(streams: list[bytes], side: int, size: int, *, pending: bool, **options: Any) -> list[dict[str, Any]]:
    """The rows of the streams, each on its own connection, in segments of `size` octets. `pending`: while a content on
    another channel is pending."""
    before = BEGUN[0] if pending else b"".join(BEGUN)
    begin = len(before) + (len(START) if side == 0 else 0)
    packets = []
    for port, octets in enumerate(streams, PORTS):
        tcp = Tcp(port=5672, client_port=port)
        packets += [*tcp.open(), *tcp.send(0, START), *tcp.send(side, before)]
        packets += [*tcp.send(side, octets, size), *tcp.send(side, BEGUN[1]), *tcp.close()]
    rows = pa.table(
        capture.read(io.BytesIO(pcap(packets)), batch_rows=options.pop("batch_rows", 1000), **options)
    ).to_pylist()
    out = []
    for row in rows:
        row["byte_offset"] -= begin
        octets = streams[row["dst_port" if side else "src_port"] - PORTS] if row["direction"] == side else b""
        if row["channel"] != OTHER and 0 <= row["byte_offset"] < len(octets):
            out.append(row)
    return out


def agree(streams: list[bytes], side: int, size: int, **options: Any) -> list[dict[str, Any]]:
    rows = captured(streams, side, size, pending=False, **options)
    assert rows == captured(streams, side, size, pending=True, **options)
    return rows


def side_of(method: amqp091.Method) -> int:
    return 0 if isinstance(method, amqp091.BasicPublish) else 1


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Contents one after another, most in three frames, with other frames between; a few octets are changed."""
    parts = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.integers(0, 9))
        if kind == 0:
            parts.append(draw(a.frames).encode())
        else:
            method = draw(st.sampled_from(METHODS) | a.methods(content=True))
            properties = draw(st.builds(lambda: amqp091.BasicProperties(**PROPERTIES)) | a.properties())
            body = draw(st.binary(max_size=60))
            frames = a.cut(
                amqp091.BasicMessage(method, properties, body, frame_max=draw(st.sampled_from((20, 4096)))).encode()
            )
            if kind == 1:
                del frames[draw(st.integers(0, len(frames) - 1))]
            parts.append(b"".join(frames))
    octets = bytearray(b"".join(parts))
    for at in draw(st.lists(st.integers(0, max(len(octets) - 1, 0)), max_size=3)):
        if octets:
            octets[at] = draw(st.integers(0, 255) | st.sampled_from(OCTETS))
    return bytes(octets)


@settings(deadline=None, max_examples=100)
@given(contents(), st.integers(0, 1), st.integers(1, 300) | st.just(1448), st.booleans(), st.integers(1, 3))
def test_both_ways(octets: bytes, side: int, size: int, exposed: bool, batch: int) -> None:
    agree([octets], side, size, expose_credentials=exposed, raw=True, detail=True, batch_rows=batch)


@settings(deadline=None, max_examples=150)
@given(contents(), st.sampled_from(["client", "server", None]), st.sampled_from(["strict", "lax"]), st.integers(0, 60))
def test_batches_both_ways(octets: bytes, side: Any, strictness: Any, body_max: int) -> None:
    """Limits are the same for both, and so is the rest after an invalid size."""
    method: amqp091.Method = METHODS[0] if side == "client" else METHODS[1]
    begun = b"\x01" + (59_999).to_bytes(2, "big") + method.encode()[3:]
    options = {"side": side, "strictness": strictness, "body_max": body_max, "frame_max": 4096, "channel_max": 60_000}
    plain, around = (
        pa.record_batch(amqp091.decode_batch(before + octets, **options)).to_pylist() for before in (b"", begun)
    )
    for row in around:
        row["byte_offset"] -= len(begun)
    around = [row for row in around if row["byte_offset"] >= 0]
    for row in plain + around:  # they name the offset
        row["error"] = row["error"] is not None
    assert plain == around


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("strictness", ["strict", "lax"])
def test_every_octet_changed(method: amqp091.Method, strictness: str) -> None:
    """Each octet of a content in turn has other values; another content follows."""
    whole = amqp091.BasicMessage(method, amqp091.BasicProperties(**PROPERTIES), b"body").encode()
    chance = random.Random(method.name)
    streams = [
        whole[:at] + bytes((octet,)) + whole[at + 1 :] + whole
        for at in range(len(whole))
        for octet in {chance.choice(OCTETS), whole[at] ^ 1, chance.randrange(256)} - {whole[at]}
    ]
    rows = agree(streams, side_of(method), 1448, strictness=strictness)
    assert {row["status"] for row in rows} >= {"ok", "partial", "malformed"}
    assert len({(row["src_port"], row["dst_port"]) for row in rows}) == len(streams)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_the_row(method: amqp091.Method) -> None:
    """Its row has the place of the first frame, the size of all, and what was sent; an empty body has no frame."""
    for body in (b"", b"body", bytes(3000)):
        whole = amqp091.BasicMessage(method, amqp091.BasicProperties(**PROPERTIES), body).encode()
        for size in (1, 100, 1448, 60_000):
            rows = agree([whole * 3], side_of(method), size, raw=True)
            assert [row["byte_offset"] for row in rows] == [0, len(whole), 2 * len(whole)]
            for row in rows:
                assert row["status"] == "ok"
                assert (row["kind"], row["wire_size"], row["payload"]) == (method.name, len(whole), body)
                assert (row["amqp091"]["body_frames"], row["amqp091"]["body_size"]) == (bool(body), len(body))
                assert ("x-delivery-count", "3") in row["headers"]
                assert ("password", "***") in row["headers"]
                assert row["ttl_ms"] == 60_000
                assert row["raw"] is None  # it has a password
            rows = agree([whole], side_of(method), size, raw=True, expose_credentials=True)
            assert [row["raw"] for row in rows] == [whole[len(method.encode()) :]]


def test_columns_that_are_off_change_nothing() -> None:
    octets = b"".join(amqp091.BasicMessage(m, amqp091.BasicProperties(**PROPERTIES), b"body").encode() for m in METHODS)
    rows = agree([octets], 1, 1448)
    for columns in (
        ["kind"],
        ["destination", "ttl_ms"],
        ["headers", "attempts"],
        ["routing_key", "sequence", "amqp091"],
    ):
        columns += ["byte_offset", "direction", "channel", "dst_port"]
        part = captured([octets], 1, 1448, pending=False, columns=columns)
        assert part == [{name: row[name] for name in columns} for row in rows]


@pytest.mark.parametrize("limit", [1, 2_000, 5_000, 9_000, 12_000, 20_000])
def test_what_is_held_meanwhile_counts(limit: int) -> None:
    """With little memory a content becomes partial rows, whether its frames lie together or not."""
    octets = amqp091.BasicMessage(METHODS[0], amqp091.BasicProperties(**PROPERTIES), b"body").encode()
    together, apart = ([(r["kind"], r["status"]) for r in limited(octets, limit, size)] for size in (1448, 30))
    if limit == 1:
        assert ("basic.publish", "partial") in together
    if limit == 20_000:
        assert together == apart == [("protocol-header", "ok"), ("basic.publish", "ok")]


def limited(octets: bytes, limit: int, size: int) -> list[dict[str, Any]]:
    tcp = Tcp(port=5672)
    packets = [*tcp.open(), *tcp.send(0, START), *tcp.send(0, octets, size)]
    return list(pa.table(capture.read(io.BytesIO(pcap(packets)), limits={"max_buffered": limit})).to_pylist())
