"""Carriers, without flows and frames: octets of a direction in, what is carried out. They nest in any order."""

from __future__ import annotations

import random
import zlib

import pytest

from lib.wire import socket_frame
from wirefmt.capture._engine import CarrierTrace

MASK = b"\x9a\x01\xf7\x33"
TEXT = bytes(range(256)) * 40


def deflated(octets: bytes) -> bytes:
    """A stream of its own."""
    stream = zlib.compressobj(6, zlib.DEFLATED, -15)
    return stream.compress(octets) + stream.flush(zlib.Z_SYNC_FLUSH)


def snapped(octets: bytes) -> bytes:
    return bytes(pytest.importorskip("cramjam", reason="needs cramjam (pip install cramjam)").snappy.compress(octets))


def framed(octets: bytes, size: int = 700) -> bytes:
    """In frames of WebSockets, with a ping between two of them."""
    parts = [octets[i : i + size] for i in range(0, len(octets), size)]
    return socket_frame(b"?", first=0x89, mask=MASK).join(socket_frame(part, mask=MASK) for part in parts)


ENCODINGS = {"websocket": framed, "deflate": deflated, "snappy": snapped}
NESTS = [
    (),
    ("websocket",),
    ("deflate",),
    ("snappy",),
    ("websocket", "deflate"),
    ("deflate", "websocket"),
    ("websocket", "websocket"),
    ("snappy", "websocket", "deflate"),
    ("websocket", "deflate", "websocket", "snappy"),
]


def encoded(carriers: tuple[str, ...], octets: bytes) -> bytes:
    for name in reversed(carriers):
        octets = ENCODINGS[name](octets)
    return octets


def carried(trace: CarrierTrace) -> bytes:
    return b"".join(what for _, what in trace.events if isinstance(what, bytes))


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("carriers", NESTS, ids="-".join)
def test_what_is_carried_comes_out(carriers: tuple[str, ...], one_by_one: bool) -> None:
    """However it is cut, and if the batch is full after each event."""
    octets = encoded(carriers, TEXT)
    for size in (len(octets), 1460, 7):
        trace = CarrierTrace(*carriers, one_by_one=one_by_one)
        for at in range(0, len(octets), size):
            trace.feed(octets[at : at + size])
        assert carried(trace) == TEXT
        assert trace.errors == 0
        assert trace.close() == 0


@pytest.mark.parametrize("carriers", NESTS[1:], ids="-".join)
def test_noise_is_an_error_and_nothing_else(carriers: tuple[str, ...]) -> None:
    """Each carrier in the nest, from the lowest on, gets octets that are not its own."""
    for depth in range(len(carriers)):
        noise = b"\xff" * 200
        trace = CarrierTrace(*carriers)
        trace.feed(encoded(carriers[:depth], noise))
        assert (trace.events, trace.errors) == ([], 1), depth
        trace.feed(random.Random(depth).randbytes(5000))
        assert trace.events == []
        assert trace.close() == 0


def test_a_gap_in_the_payload_of_a_frame_is_one_of_what_is_carried() -> None:
    trace = CarrierTrace("websocket")
    octets = socket_frame(TEXT[:100], mask=MASK)
    trace.feed(octets[:-60])
    trace.gap(10)
    trace.feed(octets[-50:] + socket_frame(b"next", mask=MASK))
    assert trace.events == [("octets", TEXT[:40]), ("gap", 10), ("octets", TEXT[50:100]), ("octets", b"next")]


def test_a_gap_in_frames_of_frames_reaches_the_frames_inside() -> None:
    """The header of the frame outside says where the next one is; that of the frame inside, too."""
    trace = CarrierTrace("websocket", "websocket")
    octets = framed(framed(TEXT[:100]))
    trace.feed(octets[:-60])
    trace.gap(10)
    trace.feed(octets[-50:] + framed(framed(b"next")))
    assert trace.events == [("octets", TEXT[:40]), ("gap", 10), ("octets", TEXT[50:100]), ("octets", b"next")]


@pytest.mark.parametrize("carriers", [("deflate",), ("websocket", "deflate"), ("deflate", "websocket")], ids="-".join)
def test_after_a_gap_in_a_compressed_stream_nothing_comes_out(carriers: tuple[str, ...]) -> None:
    octets = encoded(carriers, TEXT)
    trace = CarrierTrace(*carriers)
    trace.feed(octets[:-40])
    before = list(trace.events)
    trace.gap(10)
    trace.feed(octets[-30:] + octets)
    assert trace.events == before
    assert TEXT.startswith(carried(trace))
    assert trace.close() == 0


def test_octets_of_the_carriers_own_are_counted() -> None:
    trace = CarrierTrace("websocket")
    octets = framed(TEXT)
    trace.feed(octets)
    assert trace.carrier_octets == len(octets) - len(TEXT)
