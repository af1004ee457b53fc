"""WebSockets whose handshake was not captured, and WebSockets with holes: frames are found again, payload is never read as
frames."""

from __future__ import annotations

import io
import json
import random
from itertools import pairwise
from typing import Any

import pytest

from lib.batches import decode_in_any_batches
from lib.paths import DATA
from lib.websocket import REQUEST, RESPONSE, in_sockets
from lib.wire import ACK, PSH, Tcp, connack, connect, numbered, packet, pcap, puback, publish, socket_frame
from wirefmt import amqp10, capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1
MASK = b"\x9a\x01\xf7\x33"


def decode(frames: list[bytes], **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    return decode_in_any_batches(pcap(frames), **options)


def wrapped(side: int, octets: bytes, mask: bytes = MASK) -> bytes:
    return socket_frame(octets, mask=mask if side == CLIENT else None)


# ---- the capture begins after the upgrade


@pytest.mark.parametrize("options", [{}, {"decode_as": "tcp.port==9001,mqtt"}, {"protocols": ["mqtt"]}])
def test_what_tshark_finds_in_the_frames_of_a_late_capture(options: dict[str, Any]) -> None:
    """Two connections of mosquitto after their upgrade, and a whole one. Expected: frame, port, payload of each data frame,
    as tshark 4.0.17 unmasks them (`-d tcp.port==9001,websocket`)."""
    found = pa.table(capture.read(DATA / "websocket-late.pcap", raw=True, **options)).to_pylist()
    expected = json.loads((DATA / "websocket-late.json").read_text())
    assert [r for r in found if r["status"] != "ok"] == []
    kinds = {
        1: "CONNECT",
        2: "CONNACK",
        3: "PUBLISH",
        4: "PUBACK",
        5: "PUBREC",
        6: "PUBREL",
        7: "PUBCOMP",
        14: "DISCONNECT",
    }
    ours = sorted((r["frame_no"], r["src_port"], r["kind"], r["wire_size"]) for r in found)
    assert ours == sorted((n, port, kinds[bytes.fromhex(p)[0] >> 4], len(p) // 2) for n, port, p in expected)
    by_frame = {r["frame_no"]: r for r in found}
    for number, port, payload in expected:
        octets, row = bytes.fromhex(payload), by_frame[number]
        assert row["direction"] == (SERVER if port == 9001 else CLIENT)
        if octets[0] >> 4 == 3:
            topic = int.from_bytes(octets[2:4], "big")
            assert row["destination"] == octets[4 : 4 + topic].decode()
            assert octets.endswith(row["payload"])


def messages(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    known = ("src_port", "dst_port", "kind", "status", "version", "destination", "payload", "wire_size", "byte_offset")
    return sorted((tuple(r[k] for k in known) for r in found), key=str)


@pytest.mark.parametrize("size", [1 << 20, 700, 50])
@pytest.mark.parametrize("port", [9001, 443, 1883])
def test_a_sample_in_websockets_with_and_without_the_upgrade(size: int, port: int) -> None:
    upgrades, later = in_sockets("mosquitto-paho-v5.pcap", port, size)
    whole, stats = decode(upgrades + later)
    assert stats["websocket_flows"] == 7
    assert len(whole) > 400
    assert {r["status"] for r in whole} == {"ok"}
    late, stats = decode(later)
    # the CONNECT that is the first message of a connection is there too, so versions are known
    assert messages(late) == messages(whole)
    assert {r["direction"] for r in late} == {CLIENT, SERVER}
    assert stats["websocket_flows"] == 7


@pytest.mark.parametrize("first", [CLIENT, SERVER])
@pytest.mark.parametrize("options", [{}, {"decode_as": "tcp.port==8080,amqp10"}])
def test_amqp_10_in_a_websocket_after_its_upgrade(first: int, options: dict[str, Any]) -> None:
    tcp = Tcp(port=8080)
    flow = amqp10.Flow(incoming_window=100, next_outgoing_id=1, outgoing_window=50).encode()
    empty = bytes.fromhex("0000000802000000")
    frames = []
    for side in (first, 1 - first):
        frames += [*tcp.send(side, wrapped(side, flow)), *tcp.send(side, wrapped(side, empty))]
    found, stats = decode(frames, **options)
    assert sorted((r["kind"], r["direction"], r["protocol"]) for r in found) == [
        ("empty", 0, "amqp10"), ("empty", 1, "amqp10"), ("flow", 0, "amqp10"), ("flow", 1, "amqp10"),
    ]  # fmt: skip
    assert stats["websocket_flows"] == 1


@pytest.mark.parametrize("options", [{}, {"decode_as": "tcp.port==8080,mqtt"}])
@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_a_capture_that_begins_inside_a_frame(side: int, options: dict[str, Any]) -> None:
    """The rest of the frame is skipped; from the next packet that begins with one on all is read."""
    tcp = Tcp(port=8080)
    big = wrapped(side, publish("big", b"p" * 5000))
    tcp.send(side, big[:2000])
    frames = tcp.send(side, big[2000:])
    for i in range(3):
        frames += tcp.send(side, wrapped(side, publish(f"t/{i}", b"x" * 30)))
    found, _ = decode(frames, **options)
    assert [(r["status"], r["destination"]) for r in found] == [("gap", None)] + [("ok", f"t/{i}") for i in range(3)]
    assert found[0]["wire_size"] == len(big) - 2000
    assert "began inside the stream" in found[0]["error"]


def test_control_frames_alone_tell_nothing_and_are_counted() -> None:
    tcp = Tcp(port=8080)
    frames = []
    for _ in range(4):
        frames += [
            *tcp.send(CLIENT, socket_frame(b"", first=0x89, mask=MASK)),
            *tcp.send(SERVER, socket_frame(b"", first=0x8A)),
        ]
    found, stats = decode(frames)
    assert found == []
    assert stats["not_decoded"]["not_recognised"] == {"connections": 1, "packets": 8, "bytes": 4 * (6 + 2)}
    frames += tcp.send(SERVER, wrapped(SERVER, packet(0xD0)))
    found, stats = decode(frames)
    assert [(r["kind"], r["status"]) for r in found if r["status"] == "ok"] == [("PINGRESP", "ok")]


@pytest.mark.parametrize("seed", range(40))
def test_other_octets_are_not_taken_for_a_websocket(seed: int) -> None:
    """Packets that look like WebSocket frames but hold no valid frames; MQTT without a WebSocket, begun late."""
    chance = random.Random(seed)
    tcp = Tcp(port=8080)
    frames = []
    for _ in range(60):
        side = chance.randrange(2)
        content = chance.choice(
            (
                chance.randbytes(chance.randrange(1, 200)),
                publish("t", b"x" * 20)[:-1],
                publish("t", b"x") + b"\0",
                publish("t", b"x")[1:],
                b"\0" * chance.randrange(1, 100),
            )
        )
        carried = chance.choice((wrapped(side, content), content, wrapped(1 - side, publish("t", b"x") + b"z")))
        frames += tcp.send(side, carried)
    found, stats = decode(frames)
    assert found == []
    assert stats["websocket_flows"] == 0


@pytest.mark.parametrize("seed", range(10))
def test_late_mqtt_is_not_taken_for_a_websocket(seed: int) -> None:
    """SUBSCRIBE begins with the octet of a binary message, and payloads may hold WebSocket frames."""
    chance = random.Random(seed)
    tcp = Tcp()
    inner = wrapped(SERVER, publish("inner", b"y" * 9))
    subscribe = packet(0x82, b"\0\x01" + b"\0\x05a/b/c" + b"\0")
    sent = [
        subscribe,
        publish("t", inner),
        publish("t", inner * 3),
        puback(1),
        packet(0xC0),
        packet(0x82, b"\0\2" + b"\0\x7f" + b"a" * 127 + b"\0"),
    ]
    frames, count = [], 0
    for _ in range(50):
        frames += tcp.send(CLIENT, chance.choice(sent))
        count += 1
    found, stats = decode(frames)
    assert len(found) == count
    assert {r["status"] for r in found} == {"ok"}
    assert stats["websocket_flows"] == 0


# ---- holes


def upgraded(port: int = 8080) -> tuple[Tcp, list[bytes]]:
    tcp = Tcp(port=port)
    return tcp, [*tcp.open(), *tcp.send(CLIENT, REQUEST), *tcp.send(SERVER, RESPONSE)]


@pytest.mark.parametrize("side", [CLIENT, SERVER])
@pytest.mark.parametrize("seed", range(12))
def test_a_hole_costs_the_messages_in_it(side: int, seed: int) -> None:
    """Messages of all sizes in frames of all sizes, segments lost here and there: each message that is read was sent, in its
    place; what is between is a gap or a partial row; and reading goes on behind every hole."""
    chance = random.Random(seed)
    stream, truth = numbered(300, seed)
    offsets = [*truth, len(stream)]
    tcp, frames = upgraded()
    segments = []
    for begin, stop in pairwise(offsets):
        message, carried = stream[begin:stop], b""
        size = chance.choice((len(message), len(message), 1000))
        parts = [message[i : i + size] for i in range(0, len(message), size)]
        for i, part in enumerate(parts):
            first = (0x80 if i == len(parts) - 1 else 0) | (2 if i == 0 else 0)
            carried += socket_frame(part, first=first, mask=chance.randbytes(4) if side == CLIENT else None)
        if chance.random() < 0.1:
            carried += socket_frame(b"ping", first=0x89, mask=MASK if side == CLIENT else None)
        for i in range(0, len(carried), 1000):
            last = i + 1000 >= len(carried)
            segments.append(tcp.segment(side, carried[i : i + 1000], ACK | (PSH if last else 0)))
    kept = [s for s in segments if chance.random() > 0.04]
    found, _ = decode([*frames, *kept, tcp.segment(1 - side)])
    sent = {(topic, payload) for topic, payload in truth.values()}
    good = [r for r in found if r["status"] == "ok"]
    for r in good:
        payload = b"\0" + r["payload"] if r["version"] == "5.0" else r["payload"]  # see mqtt_version
        assert {(r["destination"], r["payload"]), (r["destination"], payload)} & sent
    order = [int(r["destination"][2:]) for r in good]
    assert order == sorted(set(order))
    assert {r["status"] for r in found} <= {"ok", "gap", "partial"}
    gaps = sum(r["status"] == "gap" for r in found)
    assert gaps
    assert len(good) > 300 - 6 * (1 + gaps)
    assert order[-1] > 290


def test_a_hole_across_the_end_of_a_frame_whose_message_goes_on() -> None:
    """How much of the message is missing is not known: it is partial, and what follows it is found by its own beginning."""
    tcp, frames = upgraded()
    big = publish("big", b"b" * 9000)
    carried = b"".join(
        socket_frame(big[i : i + 3000], first=(0x80 if i + 3000 >= len(big) else 0) | (2 if i == 0 else 0))
        for i in range(0, len(big), 3000)
    )
    frames += tcp.send(SERVER, wrapped(SERVER, connack()))
    parts = tcp.send(SERVER, carried, 1500)
    frames += [*parts[:1], *parts[3:], *tcp.send(SERVER, wrapped(SERVER, publish("next", b"n")))]
    found, _ = decode([*frames, tcp.segment(CLIENT)])
    assert [(r["status"], r["kind"], r["destination"]) for r in found] == [
        ("ok", "CONNACK", None),
        ("partial", "PUBLISH", "big"),
        ("gap", None, None),
        ("ok", "PUBLISH", "next"),
    ]
    assert found[1]["error"].startswith("not captured: ")


def test_a_websocket_inside_the_payload_is_not_read_behind_a_hole() -> None:
    """The payload is itself a row of WebSocket frames with messages: they do not end where the packet ends."""
    inner = b"".join(wrapped(SERVER, publish("inner", b"y" * n)) for n in range(60))
    tcp, frames = upgraded()
    message = wrapped(SERVER, publish("outer", inner + b"\xff"))
    parts = tcp.send(SERVER, message, 1000)
    frames += [*parts[1:], *tcp.send(SERVER, wrapped(SERVER, publish("next", b"1")))]
    found, _ = decode([*frames, tcp.segment(CLIENT)])
    assert [r["destination"] for r in found if r["status"] == "ok"] == ["next"]


def test_a_masked_payload_cannot_hold_frames() -> None:
    inner = b"".join(wrapped(CLIENT, publish("inner", b"y" * n)) for n in range(60))
    tcp, frames = upgraded()
    parts = tcp.send(CLIENT, wrapped(CLIENT, publish("outer", inner)), 1000)
    frames += [*parts[1:], *tcp.send(CLIENT, wrapped(CLIENT, packet(0xC0)))]
    found, _ = decode([*frames, tcp.segment(SERVER)])
    assert [r["kind"] for r in found if r["status"] == "ok"] == ["PINGREQ"]


@pytest.mark.parametrize("first", [0xF7, 0x92, 0xA2, 0xB2, 0x83, 0x87, 0x8B, 0x8F])
def test_octets_that_are_no_frame_end_nothing(first: int) -> None:
    """A header that RFC 6455 does not know (5.2: RSV2, RSV3, opcodes 3 to 7 and from 11): a row says so, and the next message is
    found."""
    tcp, frames = upgraded()
    frames += tcp.send(CLIENT, wrapped(CLIENT, connect("c")))
    frames += tcp.send(CLIENT, bytes((first, 0, 1, 2, 3)) * 20)
    frames += tcp.send(CLIENT, wrapped(CLIENT, publish("next", b"")))
    found, _ = decode(frames)
    assert [(r["status"], r["kind"]) for r in found] == [
        ("ok", "CONNECT"),
        ("malformed", None),
        ("gap", None),
        ("ok", "PUBLISH"),
    ]
    assert found[1]["error"] == "WebSocket: not the header of a frame"
    assert found[2]["wire_size"] == 100


@pytest.mark.parametrize("seed", range(30))
def test_spoilt_websockets(seed: int) -> None:
    chance = random.Random(seed)
    _, later = in_sockets("mosquitto-paho-v5.pcap", 9001, 1 << 20, seed=seed)
    data = bytearray(pcap(later))
    for _ in range(chance.choice((1, 10, 100, 1000))):
        data[chance.randrange(24, len(data))] = chance.randrange(256)
    found = pa.table(capture.read(io.BytesIO(bytes(data)))).to_pylist()
    assert {r["status"] for r in found} <= {"ok", "partial", "gap", "malformed"}


def test_any_filler_behind_a_hole_is_passed_over_within_the_window() -> None:
    """Whatever stands after a gap, what the decoder keeps stays within its window. Each filler makes long chains of frames
    that lead nowhere: were they followed from every octet, this would take hours."""
    for filler in (b"\0", b"\x82", b"\x82\x7e", b"\x82\x05", b"\x89\0", wrapped(SERVER, packet(0xD0))):
        tcp, frames = upgraded()
        tcp.send(SERVER, b"lost")
        frames += [*tcp.send(SERVER, filler * (600_000 // len(filler))), tcp.segment(CLIENT)]
        decoder = capture.CaptureDecoder()
        decoder.begin_file("f")
        data = pcap(frames)
        most = 0
        for at in range(0, len(data), 100_000):
            part = data[at : at + 100_000]
            while len(part := part[decoder.feed(part) :]):
                decoder.take()
            most = max(most, decoder.stats["buffered"])
        assert most <= (4 << 20)
        while not decoder.end_file():
            decoder.take()


@pytest.mark.parametrize("side", [CLIENT, SERVER])
@pytest.mark.parametrize("size", range(8))
def test_behind_the_rest_of_a_message_the_mask_tells_who_sends(size: int, side: int) -> None:
    """RFC 6455, 5.1: a client masks its frames. The first packet ends a message that began before the capture."""
    message = publish("topic", b"x" * size)
    tcp = Tcp(port=8080)
    frames = tcp.send(side, b"\1" * 50)
    for _ in range(3):
        frames += tcp.send(side, wrapped(side, message))
    found, stats = decode(frames)
    assert [(r["kind"], r["direction"], r["payload_size"]) for r in found if r["status"] == "ok"] == [
        ("PUBLISH", side, size)
    ] * 3
    assert stats["websocket_flows"] == 1
