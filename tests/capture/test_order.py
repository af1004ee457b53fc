"""Packets that were captured in another order than they were sent: no row is lost, whichever side comes first; and what is
not decoded is counted."""

from __future__ import annotations

import io
import random
from itertools import permutations
from typing import Any

import pytest

from lib import packets
from lib.batches import decode_in_any_batches
from lib.openings import OTHERS, OURS
from lib.websocket import REQUEST, RESPONSE
from lib.wire import ACK, PSH, Tcp, connack, connect, packet, pcap, puback, publish, socket_frame
from wirefmt import amqp10, capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1


def decode(frames: list[bytes], **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    return decode_in_any_batches(pcap(frames), **options)


def facts(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Everything but which packet, in the order of each direction's octets."""
    known = (
        "direction",
        "byte_offset",
        "protocol",
        "kind",
        "status",
        "version",
        "destination",
        "payload",
        "wire_size",
        "error",
    )
    return sorted((tuple(r[k] for k in known) for r in found), key=str)


# ---- the server's first octets before the client's


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("port", [7777, 1883, 5672])
@pytest.mark.parametrize("size", [1448, 7, 1])
@pytest.mark.parametrize("handshake", [True, False])
def test_a_server_whose_octets_come_first(name: str, port: int, size: int, handshake: bool) -> None:
    """All that the server sent stands before all that the client sent, as two taps or queues may show it."""
    first, answer, _ = OURS[name]
    if (port == 1883 and name != "mqtt") or (port == 5672 and not name.startswith("amqp")):
        pytest.skip("the port is registered for another protocol")
    if not handshake and (name == "amqp10" or size < 1448):
        pytest.skip("nothing tells the client from the server, or where its octets begin")
    tcp = Tcp(port=port)
    opening = tcp.open() if handshake else []
    client = tcp.send(CLIENT, first, size)
    server = tcp.send(SERVER, answer, size)
    closing = tcp.close()
    usual, _ = decode([*opening, *client, *server, *closing])
    crossed, stats = decode([*opening, *server, *client, *closing])
    assert {r["status"] for r in usual} == {"ok"}
    assert facts(crossed) == facts(usual)
    assert {r["direction"] for r in crossed} == {CLIENT, SERVER}
    assert stats["not_decoded"]["not_recognised"]["connections"] == 0


@pytest.mark.parametrize("handshake", [True, False])
def test_a_server_that_sends_more_than_is_kept(handshake: bool) -> None:
    """What does not fit is skipped and is a gap row; behind it messages are found again, at the latest with the CONNECT."""
    tcp = Tcp(port=7777)
    frames = tcp.open() if handshake else []
    messages = [publish(f"t/{i}", b"x" * 900) for i in range(40)]
    frames += [frame for message in messages[:30] for frame in tcp.send(SERVER, message)]
    frames += tcp.send(CLIENT, connect("late"))
    frames += [frame for message in messages[30:] for frame in tcp.send(SERVER, message)]
    found, stats = decode(frames)
    server = [r for r in found if r["direction"] == SERVER]
    assert found[0]["client_id"] == "late"
    names = [r["destination"] for r in server if r["status"] == "ok"]
    assert len(names) >= 10
    assert names == [f"t/{i}" for i in range(40 - len(names), 40)]
    assert sum(r["wire_size"] for r in server) == sum(map(len, messages))
    assert {r["status"] for r in server[: len(server) - len(names)]} <= {"gap"}
    assert stats["not_decoded"]["not_recognised"] == {"connections": 0, "packets": 0, "bytes": 0}


def test_a_websocket_whose_response_comes_before_its_request() -> None:
    for response in (RESPONSE, RESPONSE.replace(b"Sec-WebSocket-Protocol: mqtt\r\n", b"")):
        tcp = Tcp(port=8080)
        frames = tcp.open()
        request = tcp.send(CLIENT, REQUEST)
        answer = tcp.send(SERVER, response)
        hello = tcp.send(CLIENT, socket_frame(connect("ws"), mask=b"abcd"))
        frames += [*answer, *request, *tcp.send(SERVER, socket_frame(connack())), *hello]
        found, stats = decode(frames)
        assert [(r["kind"], r["direction"], r["status"]) for r in sorted(found, key=lambda r: r["direction"])] == [
            ("CONNECT", 0, "ok"),
            ("CONNACK", 1, "ok"),
        ]
        assert stats["websocket_flows"] == 1


def test_octets_that_one_direction_keeps_are_bounded() -> None:
    """Many connections of which only what the server sends is captured."""
    decoder = capture.CaptureDecoder(limits={"max_buffered": 400_000})
    decoder.begin_file("f")
    frames = []
    for i in range(200):
        tcp = Tcp(port=7777, client_port=20000 + i)
        frames += [tcp.open()[1], *tcp.send(SERVER, random.Random(i).randbytes(9000))]
    data = pcap(frames)
    for at in range(0, len(data), 10000):
        decoder.feed(data[at : at + 10000])
        stats = decoder.stats
        # a quarter of the limit, what comes with one packet, and the connections themselves
        assert stats["buffered"] <= min(400_000, 100_000 + 16_384 + 2048 * stats["open_flows"])
    assert decoder.end_file()
    assert decoder.stats["buffered"] == 0
    assert decoder.stats["not_decoded"]["not_recognised"] == {"connections": 200, "packets": 1600, "bytes": 200 * 9000}


# ---- what is not decoded is counted


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("handshake", [True, False])
@pytest.mark.parametrize("server_first", [True, False])
@pytest.mark.parametrize("size", [1448, 1])
def test_connections_of_others_are_counted_by_reason(name: str, handshake: bool, server_first: bool, size: int) -> None:
    first, answer = OTHERS[name]
    if name == "text" and size == 1:
        pytest.skip("its first four octets are all that NSQ begins with")
    tcp = Tcp(port=7777)
    frames = tcp.open() if handshake else []
    said = [tcp.send(CLIENT, first, size), tcp.send(SERVER, answer, size)]
    frames += [frame for side in (reversed(said) if server_first else said) for frame in side]
    frames += [*tcp.send(CLIENT, first, size), *tcp.close()]
    found, stats = decode(frames)
    assert found == []
    reason = "tls" if name == "tls" else "not_recognised"
    assert stats["not_decoded"][reason] == {
        "connections": 1,
        "packets": len(frames),
        "bytes": 2 * len(first) + len(answer),
    }
    others = {k: v for k, v in stats["not_decoded"].items() if k != reason}
    assert not any(v["packets"] or v["connections"] for v in others.values())


def test_few_octets_that_could_be_anything_are_counted() -> None:
    tcp = Tcp(port=7777)
    found, stats = decode([*tcp.open(), *tcp.send(CLIENT, b"\x10")])
    assert found == []
    assert stats["not_decoded"]["not_recognised"] == {"connections": 1, "packets": 4, "bytes": 1}


def test_tls_that_began_before_the_capture_is_tls() -> None:
    """Application data records (RFC 8446, 5.1), on a registered port too."""
    record = b"\x17\x03\x03\x00\x50" + bytes(range(80))
    for port in (443, 8883, 1883):
        tcp = Tcp(port=port)
        frames = [*tcp.send(SERVER, record), *tcp.send(CLIENT, record + record), *tcp.send(SERVER, record)]
        found, stats = decode(frames)
        assert found == []
        assert stats["not_decoded"]["tls"] == {"connections": 1, "packets": 3, "bytes": 340}


@pytest.mark.parametrize(
    ("kind", "size", "good"),
    [
        (23, 16384 + 2048, True), (23, 16384 + 2049, False), (23, 0, False), (23, 1, True), (21, 1, False), (21, 2, True),
        (19, 5, False), (20, 1, True), (24, 5, False),
    ],
)  # fmt: skip
def test_what_a_record_of_tls_can_be(kind: int, size: int, good: bool) -> None:
    """RFC 5246, 6.2.3 and 7.2: a record's content has 2**14 + 2048 octets at most, an alert two at least; types are 20 to 23."""
    record = bytes((kind, 3, 3)) + size.to_bytes(2) + bytes(size)
    tcp = Tcp(port=443)
    _, stats = decode([*tcp.send(CLIENT, record), *tcp.send(SERVER, record)])
    assert stats["not_decoded"]["tls"]["connections"] == good


def test_other_packets_are_counted_by_reason_with_their_octets() -> None:
    frames = [
        packets.ethernet(0x0800, packets.ip4(packets.udp(53, bytes(40)), 17)),
        packets.ethernet(0x0800, packets.ip4(packets.udp(53, bytes(10)), 17)),
        packets.ethernet(0x0806, bytes(28)),
        packets.ethernet(0x0800, packets.ip4(bytes(20), 132)),
        packets.ethernet(0x0800, packets.fragments4(bytes(100), 32, number=77)[0]),  # of a datagram that is never whole
        *[packets.ethernet(0x0800, f) for f in packets.fragments4(packets.tcp(b"x" * 100, destination=7777), 32)],
    ]
    for repeated in (1, 2):  # as two files: counts are of all
        files = [io.BytesIO(pcap(frames)) for _ in range(repeated)]
        reader = capture.read(files)
        list(reader)
        seen = {k: (v["packets"], v["bytes"]) for k, v in reader.stats["not_decoded"].items() if v["packets"]}
        assert seen == {
            "udp": (2 * repeated, (14 + 20 + 8 + 40 + 14 + 20 + 8 + 10) * repeated),
            "arp": (repeated, 42 * repeated),
            "other_transport": (repeated, 54 * repeated),
            "fragments": (repeated, (14 + 20 + 32) * repeated),
            "not_recognised": (repeated, 100 * repeated),
        }


# ---- a capture that begins inside a stream


@pytest.mark.parametrize("gap", ["nothing", "acknowledgement", "duplicate"])
@pytest.mark.parametrize("port", [1883])
def test_a_late_start_whose_first_segments_are_swapped(gap: str, port: int) -> None:
    tcp = Tcp(port=port)
    one, two, three = (tcp.send(CLIENT, publish(f"t/{i}", bytes(10)))[0] for i in range(3))
    between = {
        "nothing": [],
        "acknowledgement": [Tcp(port=port, seq=[tcp.seq[0], 5000]).segment(SERVER)],
        "duplicate": [Tcp(port=port).segment(SERVER)],
    }[gap]
    found, stats = decode([two, *between, one, three, tcp.segment(SERVER)])
    assert sorted((r["destination"], r["status"]) for r in found) == [(f"t/{i}", "ok") for i in range(3)]
    size = len(publish("t/0", bytes(10)))
    offsets = {r["destination"]: r["byte_offset"] for r in found}
    start = 0 if gap != "acknowledgement" else -size
    assert offsets == {f"t/{i}": start + i * size for i in range(3)}
    assert stats["retransmitted"] == 0


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_late_start_in_any_order_with_a_message_across_segments(order: tuple[int, ...]) -> None:
    tcp = Tcp()
    message = publish("big", b"y" * 3000)
    segments = [*tcp.send(CLIENT, message), *tcp.send(CLIENT, packet(0xC0))]
    assert len(segments) == 4
    found, _ = decode([*(segments[i] for i in order), tcp.segment(SERVER)])
    assert [(r["kind"], r["status"], r["byte_offset"]) for r in found] == [
        ("PUBLISH", "ok", 0),
        ("PINGREQ", "ok", len(message)),
    ]
    assert found[0]["payload"] == b"y" * 3000


def test_octets_from_before_the_beginning_that_are_no_message_are_a_gap_row() -> None:
    """The server has acknowledged them; the capture shows them later, and they are the middle of a message."""
    tcp = Tcp()
    early = tcp.send(CLIENT, b"\xff" * 50)[0]
    late = tcp.send(CLIENT, publish("t", b""))[0]
    found, _ = decode([late, tcp.segment(SERVER), early])
    assert [(r["status"], r["byte_offset"], r["wire_size"]) for r in found] == [("ok", 0, 5), ("gap", -50, 50)]
    assert found[1]["error"] == "capture began inside the stream: 50 bytes skipped"


def test_a_message_of_which_the_end_came_first_is_partial() -> None:
    tcp = Tcp()
    message = publish("t/early", b"z" * 91)
    head = [tcp.segment(CLIENT, puback(1), ACK | PSH), tcp.segment(CLIENT, message[:60], ACK | PSH)]
    rest = tcp.segment(CLIENT, message[60:] + publish("t", b"") * 2, ACK | PSH)
    found, _ = decode([rest, tcp.segment(SERVER), tcp.segment(SERVER), *head])
    rows = [(r["status"], r["kind"], r["byte_offset"]) for r in found]
    assert ("ok", "PUBACK", -64) in rows
    assert ("ok", "PUBLISH", len(message) - 60) in rows
    assert {r[0] for r in rows} <= {"ok", "gap", "partial"}
    covered = {i for r in found for i in range(r["byte_offset"], r["byte_offset"] + r["wire_size"])}
    assert covered >= set(range(-64, len(message) - 60 + 10))


def test_amqp_10_headers_in_the_other_order_keep_the_sides() -> None:
    """Both peers begin with the same octets (2.2): the SYN says who is who."""
    tcp = Tcp(port=7777)
    opening = tcp.open()
    client = tcp.send(CLIENT, amqp10.ProtocolHeader().encode() + amqp10.Open(container_id="client").encode())
    server = tcp.send(SERVER, amqp10.ProtocolHeader().encode() + amqp10.Open(container_id="server").encode())
    found, _ = decode([*opening, *server, *client])
    assert {(r["kind"], r["direction"], r["src_port"]) for r in found} == {
        (kind, side, (40000, 7777)[side]) for kind in ("protocol-header", "open") for side in (0, 1)
    }
