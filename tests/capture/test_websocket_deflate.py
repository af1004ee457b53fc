"""permessage-deflate (RFC 7692) in captures: compressed WebSocket messages, whole, cut, after gaps; hostile ones, too.

Compressed by wsproto, by zlib, and as the examples of the specification are.
"""

from __future__ import annotations

import random
import zlib
from itertools import chain, pairwise
from typing import Any

import pytest

from lib.batches import decode_in_any_batches
from lib.skips import imported
from lib.websocket import REQUEST, RESPONSE
from lib.wire import Tcp, connack, connect, numbered, pcap, puback, publish, socket_frame
from wirefmt.capture._engine import CarrierTrace

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1
MASK = b"\x9a\x01\xf7\x33"
TAIL = b"\0\0\xff\xff"
OFFER = b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
FRESH = "; server_no_context_takeover; client_no_context_takeover"


class Deflater:
    """RFC 7692, 7.2.1. `fresh`: each message by itself."""

    def __init__(self, fresh: bool = False, bits: int = 15) -> None:
        self.fresh, self.bits = fresh, bits
        self.begin()

    def begin(self) -> None:
        self.stream = zlib.compressobj(6, zlib.DEFLATED, -self.bits)

    def __call__(self, octets: bytes) -> bytes:
        if self.fresh:
            self.begin()
        packed = self.stream.compress(octets) + self.stream.flush(zlib.Z_SYNC_FLUSH)
        assert packed.endswith(TAIL)
        return packed[:-4] or b"\0"


def upgraded(agreed: str = "", port: int = 8080) -> tuple[Tcp, list[bytes]]:
    tcp = Tcp(port=port)
    answer = f"Sec-WebSocket-Extensions: permessage-deflate{agreed}\r\n\r\n".encode()
    request = REQUEST[:-2] + OFFER + b"\r\n"
    return tcp, [*tcp.open(), *tcp.send(CLIENT, request), *tcp.send(SERVER, RESPONSE[:-2] + answer)]


def packed_frame(side: int, packed: bytes, size: int = 1 << 30, ping: bool = False) -> bytes:
    """A compressed message, in fragments of at most `size` octets."""
    mask = MASK if side == CLIENT else None
    parts = [packed[i : i + size] for i in range(0, len(packed), size)]
    frames = []
    for i, part in enumerate(parts):
        first = (0x80 if i == len(parts) - 1 else 0) | (0x42 if i == 0 else 0)
        frames.append(socket_frame(part, first=first, mask=mask))
    return (socket_frame(b"?", first=0x89, mask=mask) if ping else b"").join(frames)


def brief(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["status"], r["kind"], r["destination"]) for r in found]


def decode(frames: list[bytes], **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    found, stats = decode_in_any_batches(pcap(frames), **options)
    assert stats["buffered"] == 0
    return found, stats


# ---- whole


EXAMPLES = {
    "one frame": (b"\xf2\x48\xcd\xc9\xc9\x07\x00", b"Hello"),
    "shared window": (b"\xf2\x00\x11\x00\x00", b"Hello"),
    "no compression": (b"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", b"Hello"),
    "last block": (b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00", b"Hello"),
    "two blocks": (b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", b"Hello"),
    "empty": (b"\x00", b""),
    "after the last block": (b"\xf2\x00\x11\x00\x00", b"Hello"),
}


@pytest.mark.parametrize("size", [1 << 30, 3, 1])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_examples_of_the_specification(size: int, one_by_one: bool) -> None:
    """RFC 7692, 7.2.3, one after the other in one direction. What follows a last block refers to what is before it."""
    octets = b"".join(packed_frame(CLIENT, packed, size, ping=True) for packed, _ in EXAMPLES.values())
    expected = b"".join(content for _, content in EXAMPLES.values())
    for step in (len(octets), 1, 2, 5):
        trace = CarrierTrace("websocket", one_by_one=one_by_one)
        for at in range(0, len(octets), step):
            trace.feed(octets[at : at + step])
        assert b"".join(what for _, what in trace.events if isinstance(what, bytes)) == expected
        assert trace.errors == 0
        assert trace.carrier_octets == len(octets)
        assert trace.close() == 0


def test_an_empty_frame_ends_a_compressed_message() -> None:
    trace = CarrierTrace("websocket")
    trace.feed(socket_frame(EXAMPLES["one frame"][0], first=0x42) + socket_frame(b"", first=0x80))
    trace.feed(socket_frame(EXAMPLES["shared window"][0], first=0xC2))
    assert [what for _, what in trace.events] == [b"Hello", b"Hello"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("agreed", ["", FRESH, "; server_max_window_bits=9; client_max_window_bits=10"])
def test_messages_in_compressed_messages(agreed: str, seed: int) -> None:
    """Messages of all sizes, some not compressed, in fragments, at any port; as what comes out without a WebSocket."""
    chance = random.Random(seed)
    stream, truth = numbered(120, seed)
    offsets = [*truth, len(stream)]
    bits = (10, 9) if "bits" in agreed else (15, 15)
    deflaters = [Deflater(agreed == FRESH, each) for each in bits]
    tcp, frames = upgraded(agreed, chance.choice((80, 1883, 9001)))
    plain = Tcp()
    whole = plain.open()
    for side, message in ((CLIENT, connect()), (SERVER, connack())):
        frames += tcp.send(side, packed_frame(side, deflaters[side](message)))
        whole += plain.send(side, message)
    for side in (CLIENT, SERVER):
        for begin, stop in pairwise(offsets):
            message = stream[begin:stop]
            if chance.random() < 0.2:
                octets = socket_frame(message, mask=MASK if side == CLIENT else None)
            else:
                packed = deflaters[side](message)
                octets = packed_frame(side, packed, chance.choice((1 << 30, 50, 1000)), chance.random() < 0.3)
            frames += tcp.send(side, octets, chance.choice((1448, 100)))
            whole += plain.send(side, message)
    found, stats = decode(frames)
    expected, _ = decode(whole)
    known = ("kind", "direction", "destination", "payload", "byte_offset", "wire_size", "status")
    for side in (CLIENT, SERVER):
        assert [[r[k] for k in known] for r in found if r["direction"] == side] == [
            [r[k] for k in known] for r in expected if r["direction"] == side
        ]
    assert stats["websocket_flows"] == 1


def test_what_wsproto_writes() -> None:
    extensions = imported("wsproto.extensions")
    wsproto = imported("wsproto")
    events = imported("wsproto.events")
    client = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
    server = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
    offer = extensions.PerMessageDeflate(client_max_window_bits=12)
    asked = client.send(events.Request(host="h", target="/mqtt", subprotocols=["mqtt"], extensions=[offer]))
    server.receive_data(asked)
    list(server.events())
    answered = server.send(events.AcceptConnection(subprotocol="mqtt", extensions=[extensions.PerMessageDeflate()]))
    assert b"permessage-deflate" in answered
    client.receive_data(answered)
    list(client.events())
    tcp = Tcp(port=8080)
    frames = [*tcp.open(), *tcp.send(CLIENT, asked), *tcp.send(SERVER, answered)]
    sent = [connect("ws"), *(publish(f"t/{i}", b"value %d" % i) for i in range(50))]
    for message in sent:
        frames += tcp.send(CLIENT, client.send(events.BytesMessage(data=message)))
    frames += tcp.send(SERVER, server.send(events.BytesMessage(data=connack())))
    frames += tcp.send(SERVER, server.send(events.BytesMessage(data=puback(1) * 40)))
    found, stats = decode(frames)
    assert {r["status"] for r in found} == {"ok"}
    assert [r["destination"] for r in found if r["kind"] == "PUBLISH"] == [f"t/{i}" for i in range(50)]
    assert [r["payload"] for r in found if r["kind"] == "PUBLISH"] == [b"value %d" % i for i in range(50)]
    assert sum(r["kind"] == "PUBACK" for r in found) == 40
    assert stats["carrier_bytes"] < sum(map(len, sent)) + 1500


# ---- gaps, and the beginning not captured


def spoken(side: int, fresh: bool, count: int = 30) -> list[bytes]:
    deflate = Deflater(fresh)
    return [packed_frame(side, deflate(publish(f"topic/{i}", b"payload %d" % (i % 3) * 9))) for i in range(count)]


@pytest.mark.parametrize("side", [CLIENT, SERVER])
@pytest.mark.parametrize("cut", ["message", "inside", "across"])
@pytest.mark.parametrize("fresh", [False, True])
def test_a_gap_in_compressed_messages(fresh: bool, cut: str, side: int) -> None:
    """Without context the next message is read. With it nothing after the gap is, as the row says, except what was not
    compressed, or refers to nothing before it."""
    tcp, frames = upgraded(FRESH if fresh else "")
    sent = [tcp.send(side, octets, 5 if 10 <= i < 13 else 1448) for i, octets in enumerate(spoken(side, fresh))]
    if cut == "message":
        sent[10:12] = []
        lost = {10, 11}
    elif cut == "inside":
        assert len(sent[10]) > 2
        del sent[10][1]
        lost = {10}
    else:
        del sent[10][-1]
        del sent[11][0]
        lost = {10, 11}
    frames += chain.from_iterable(sent)
    frames += tcp.send(side, socket_frame(publish("plain", b""), mask=MASK if side == CLIENT else None))
    frames += tcp.send(side, packed_frame(side, Deflater()(publish("new", b"x" * 30))))
    found, _ = decode([*frames, tcp.segment(1 - side)])
    good = [r["destination"] for r in found if r["status"] == "ok"]
    gaps = [r["error"] for r in found if r["status"] == "gap"]
    assert {r["status"] for r in found} <= {"ok", "gap", "partial"}
    if fresh:
        # all of a message may be in the packets before its last one
        expected = [f"topic/{i}" for i in range(30) if i not in lost] + ["plain", "new"]
        assert [name for name in good if name != "topic/10" or cut != "across"] == expected
        assert len(gaps) == 1
    else:
        expected = [f"topic/{i}" for i in range(10)] + ["plain", "new"]
        assert [name for name in good if name != "topic/10"] == expected
        assert "not captured" in gaps[0]


def test_a_message_that_refers_to_what_was_not_read_says_so() -> None:
    tcp, frames = upgraded()
    sent = spoken(CLIENT, False)
    frames += tcp.send(CLIENT, sent[0])
    frames += tcp.send(CLIENT, sent[1])
    tcp.send(CLIENT, sent[2])
    plain, last = (socket_frame(publish(name, b"1"), mask=MASK) for name in ("plain", "p2"))
    for octets in (plain, sent[3], sent[4], last):
        frames += tcp.send(CLIENT, octets)
    found, _ = decode([*frames, tcp.segment(SERVER)])
    assert brief(found) == [
        ("ok", "PUBLISH", "topic/0"), ("ok", "PUBLISH", "topic/1"), ("gap", None, None), ("ok", "PUBLISH", "plain"),
        ("gap", None, None), ("ok", "PUBLISH", "p2"),
    ]  # fmt: skip
    assert found[4]["error"].startswith("compressed, and refers to messages that were not read: ")
    headers = 2 * 6
    assert found[4]["wire_size"] <= len(sent[3]) + len(sent[4]) - headers


def test_a_gap_in_a_ping_is_no_gap_of_the_messages() -> None:
    tcp, frames = upgraded()
    frames += tcp.send(CLIENT, socket_frame(publish("a", b"1")[:3], first=2, mask=MASK))
    ping = tcp.send(CLIENT, socket_frame(b"p" * 100, first=0x89, mask=MASK), 40)
    frames += [ping[0], *ping[2:]]
    frames += tcp.send(CLIENT, socket_frame(publish("a", b"1")[3:], first=0x80, mask=MASK))
    found, stats = decode([*frames, tcp.segment(SERVER)])
    assert brief(found) == [("ok", "PUBLISH", "a")]
    assert stats["gaps"] == 1


@pytest.mark.parametrize("port", [80, 9001, 1883])
def test_a_capture_that_begins_after_the_upgrade(port: int) -> None:
    """Messages without context are found by what is in them, on any port; with context it is too late for all but the first."""
    tcp = Tcp(port=port)
    frames = []
    for octets in spoken(CLIENT, True):
        frames += tcp.send(CLIENT, octets)
    found, stats = decode(frames)
    assert [r["destination"] for r in found if r["status"] == "ok"] == [f"topic/{i}" for i in range(30)]
    assert {r["direction"] for r in found} == {CLIENT}
    assert stats["websocket_flows"] == 1
    tcp = Tcp(port=port)
    frames = []
    for octets in spoken(CLIENT, False)[5:]:
        frames += tcp.send(CLIENT, octets)
    found, stats = decode(frames)
    assert [r for r in found if r["status"] == "ok"] == []


def test_an_upgrade_whose_answer_was_not_captured() -> None:
    tcp = Tcp(port=8080)
    frames = [*tcp.open(), *tcp.send(CLIENT, REQUEST[:-2] + OFFER + b"\r\n")]
    tcp.send(SERVER, RESPONSE)
    for octets in spoken(CLIENT, False):
        frames += tcp.send(CLIENT, octets)
    found, _ = decode(frames)
    assert [r["destination"] for r in found if r["status"] == "ok"] == [f"topic/{i}" for i in range(30)]


# ---- hostile


def test_compressed_without_an_agreement() -> None:
    tcp = Tcp(port=8080)
    frames = [
        *tcp.open(),
        *tcp.send(CLIENT, REQUEST),
        *tcp.send(SERVER, RESPONSE),
        *tcp.send(CLIENT, spoken(CLIENT, True)[0]),
    ]
    found, stats = decode(frames)
    assert brief(found) == [("malformed", None, None)]
    assert "without an agreement" in found[0]["error"]
    assert stats["not_decoded"]["compressed"]["connections"] == 1


@pytest.mark.parametrize("first", [0xC0, 0x40, 0xC9, 0xC8, 0xCA])
def test_rsv1_on_a_frame_that_does_not_begin_a_message(first: int) -> None:
    """RFC 7692, 6: it is only on the first frame of a message, and never on a control frame."""
    tcp, frames = upgraded()
    frames += tcp.send(CLIENT, socket_frame(publish("a", b"1")[:5], first=0x02, mask=MASK))
    frames += tcp.send(CLIENT, socket_frame(publish("a", b"1")[5:], first=first, mask=MASK))
    frames += tcp.send(CLIENT, socket_frame(publish("b", b"2"), mask=MASK))
    found, _ = decode([*frames, tcp.segment(SERVER)])
    assert ("malformed", None, None) in brief(found)
    assert brief(found)[-1] == ("ok", "PUBLISH", "b")


@pytest.mark.parametrize("noise", [b"\xff" * 40, b"\x07\x01\x02", b"\x06" * 30])
def test_a_message_that_is_not_compressed_data(noise: bytes) -> None:
    """A row says so; the next message, which refers to nothing, is read."""
    tcp, frames = upgraded(FRESH)
    sent = spoken(SERVER, True, 3)
    for octets in (sent[0], packed_frame(SERVER, noise), sent[1], sent[2]):
        frames += tcp.send(SERVER, octets)
    found, _ = decode([*frames, tcp.segment(CLIENT)])
    assert [r["destination"] for r in found if r["status"] == "ok"] == ["topic/0", "topic/1", "topic/2"]
    assert [r["error"][:11] for r in found if r["status"] == "malformed"] == ["compressed:"]


def test_what_grows_too_much_is_a_counted_fault() -> None:
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = bytes(1 << 20)
    packed = b"".join(stream.compress(chunk) for _ in range(70)) + stream.flush(zlib.Z_SYNC_FLUSH)
    tcp, frames = upgraded()
    for _ in range(2):
        frames += tcp.send(CLIENT, packed_frame(CLIENT, packed[:-4]))
    frames += tcp.send(CLIENT, socket_frame(publish("after", b""), mask=MASK))
    found, stats = decode(frames)
    assert stats["messages_limited"] >= 2
    assert stats["most_buffered"] < 64 << 20
    assert any("limit of the decompressed size" in (r["error"] or "") for r in found)
    assert brief(found)[-1] == ("ok", "PUBLISH", "after")


def test_the_memory_of_many_connections_is_bounded() -> None:
    frames = []
    for number in range(300):
        tcp = Tcp(port=8080, client_port=1000 + number)
        answer = b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
        frames += [
            *tcp.open(),
            *tcp.send(CLIENT, REQUEST[:-2] + OFFER + b"\r\n"),
            *tcp.send(SERVER, RESPONSE[:-2] + answer),
        ]
        frames += tcp.send(CLIENT, spoken(CLIENT, False, 1)[0])
    limit = 4 << 20
    found, stats = decode(frames, limits={"max_buffered": limit})
    assert stats["most_buffered"] <= limit + 4096
    assert stats["messages_limited"] > 0
    assert {r["error"] for r in found if r["status"] == "malformed"} == {"compressed: limit"}
    assert sum(r["status"] == "ok" for r in found) > 20


def test_many_last_blocks_take_linear_time() -> None:
    """Each begins a new stream of zlib."""
    tcp, frames = upgraded()
    frames += tcp.send(CLIENT, packed_frame(CLIENT, b"\x03\x00" * 50_000 + b"\x00"))
    frames += tcp.send(CLIENT, packed_frame(CLIENT, Deflater()(publish("after", b""))))
    found, _ = decode(frames)
    assert brief(found) == [("ok", "PUBLISH", "after")]
