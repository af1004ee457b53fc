"""Contents are assembled in one place: an Assembler, decode_batch and captures say the same of any frames."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import amqp091_strategies as a
from lib.kinds import all_of
from lib.wire import Tcp, pcap
from wirefmt import amqp091, capture
from wirefmt.errors import DecodeError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

HEADER = b"AMQP\0\0\x09\x01"


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Frames of messages on several channels, interleaved, with heartbeats; the last ones may be missing."""
    waiting: dict[int, list[bytes]] = {}
    for message in draw(st.lists(a.messages(), max_size=8)):
        waiting.setdefault(message.channel, []).extend(a.cut(message.encode()))
    frames = []
    while waiting:
        channel = draw(st.sampled_from(sorted(waiting)))
        frames.append(waiting[channel].pop(0))
        if not waiting[channel]:
            del waiting[channel]
        if draw(st.integers(0, 9)) == 0:
            frames.append(amqp091.Heartbeat().encode())
    return frames[: len(frames) - draw(st.integers(0, min(3, len(frames))))]


def described(name: object, channel: object, message_id: object, body: object) -> tuple[object, ...]:
    return name, channel, message_id, body or b""


def assembled(octets: bytes, size: int) -> tuple[list[Any], DecodeError | None]:
    """What an Assembler completes when it is fed `size` octets at a time, and where it stops."""
    assembler = amqp091.Assembler()
    out: list[Any] = []
    try:
        for at in range(0, len(octets), size):
            out += assembler.feed(octets[at : at + size])
        assembler.close()
    except DecodeError as error:
        return out + list(error.messages), error
    return out, None


def rows_of(octets: bytes) -> list[dict[str, Any]]:
    return list(pa.record_batch(amqp091.decode_batch(octets)).to_pylist())


def captured(octets: bytes) -> list[dict[str, Any]]:
    tcp = Tcp(port=5672)
    packets = [*tcp.open(), *tcp.send(0, octets), *tcp.close()]
    return list(pa.table(capture.read(io.BytesIO(pcap(packets)))).to_pylist())


def complete_rows(rows: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    found = [r for r in rows if r["error"] is None and str(r["kind"]).startswith("basic.")]
    return [described(r["kind"], r["channel"], r["message_id"], r["payload"]) for r in found]


def complete_captured(rows: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    found = [r for r in rows if r["status"] == "ok" and str(r["kind"]).startswith("basic.")]
    return [described(r["kind"], r["channel"], r["message_id"], r["payload"]) for r in found]


def complete_messages(messages: list[Any]) -> list[tuple[object, ...]]:
    """Text as columns have it: what is not text in hexadecimal."""
    out = []
    for m in messages:
        if isinstance(m, amqp091.BasicMessage):
            name = m.properties.message_id
            name = name.encode() if isinstance(name, str) and "\0" in name else name
            out.append(
                described(m.method.name, m.channel, name.hex() if isinstance(name, bytes) else name, m.body_bytes())
            )
    return out


@settings(deadline=None, max_examples=60)
@given(streams(), st.integers(1, 400))
def test_three_ways(frames: list[bytes], size: int) -> None:
    octets = HEADER + b"".join(frames)
    messages, error = assembled(octets, size)
    expected = complete_messages(messages)

    rows = rows_of(octets)
    assert complete_rows(rows) == expected
    unfinished = [r for r in rows if r["error"] is not None]
    assert bool(unfinished) == (error is not None)
    assert [r["byte_offset"] for r in unfinished] == sorted(r["byte_offset"] for r in unfinished)

    table = captured(octets)
    assert complete_captured(table) == expected
    partial = [r for r in table if r["status"] == "partial"]
    assert [(r["kind"], r["channel"], r["byte_offset"]) for r in partial] == [
        (r["kind"], r["channel"], r["byte_offset"]) for r in unfinished
    ]


@settings(deadline=None, max_examples=60)
@given(streams(), st.data())
def test_three_ways_with_a_violation(frames: list[bytes], data: st.DataObject) -> None:
    """One frame is missing, or comes twice: the Assembler refuses the first that it does not expect, columns go on."""
    if frames:
        at = data.draw(st.integers(0, len(frames) - 1))
        frames[at : at + 1] = data.draw(st.sampled_from(([], [frames[at], frames[at]])))
    octets = HEADER + b"".join(frames)
    messages, error = assembled(octets, len(octets))
    rows = complete_rows(rows_of(octets))
    expected = complete_messages(messages)
    assert rows[: len(expected)] == expected
    if error is None:
        assert len(rows) == len(expected)
    assert complete_captured(captured(octets)) == rows


def test_many_channels() -> None:
    """Contents on all channels at once, in channels' order and in the reverse."""
    channels = range(1, 65536, 13)
    methods = b"".join(amqp091.BasicPublish(channel=c).encode() for c in channels)
    headers = [amqp091.ContentHeader(channel=c, body_size=2).encode() for c in channels]
    bodies = [amqp091.Body(channel=c, payload=b"x").encode() for c in channels]
    assembler = amqp091.Assembler()
    assert assembler.feed(methods) == []
    assert assembler.feed(b"".join(headers)) == []
    assert assembler.feed(b"".join(reversed(bodies))) == []
    assert assembler.pending == len(methods) + sum(map(len, headers + bodies))
    found = assembler.feed(b"".join(bodies))
    assert [m.channel for m in found] == list(channels)
    assert {m.body_bytes() for m in all_of(found, amqp091.BasicMessage)} == {b"xx"}
    assert {m.body_sizes for m in all_of(found, amqp091.BasicMessage)} == {(1, 1)}
    assert assembler.pending == 0
    assembler.close()
