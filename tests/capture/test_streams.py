"""Captures to the message table: what a stream means, however it was cut, lost, carried or spoilt."""

from __future__ import annotations

import gzip
import io
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lib.captures import octets_of, row_of
from lib.websocket import REQUEST, RESPONSE
from lib.wire import (
    ACK,
    PSH,
    SYN,
    Tcp,
    connack,
    connect,
    frames_of,
    numbered,
    packet,
    pcap,
    puback,
    publish,
    socket_frame,
    string,
)
from wirefmt import capture
from wirefmt.capture._engine import CaptureDecoder
from wirefmt.errors import CaptureError
from wirefmt.spec.table import COLUMNS

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
pytest.importorskip("pyarrow.compute", reason="needs pyarrow (pip install pyarrow)")

LIVE = (
    "mosquitto-paho-v5.pcap", "mosquitto-paho-v311-lossy-outoforder.pcap", "mosquitto-paho-v5-snaplen128.pcap",
    "rabbitmq-pika-basic.pcap", "rabbitmq-pika-confirms.pcap", "rabbitmq-pyamqp.pcap",
    "rabbitmq-proton.pcap", "rabbitmq-rhea.pcap", "rheabroker-rhea.pcap",
)  # fmt: skip
SENT_AGAIN = ("rabbitmq-proton.pcap", "rabbitmq-rhea.pcap", "rheabroker-rhea.pcap")  # they have retransmissions


def table(data: bytes, **options: Any) -> Any:
    return pa.table(capture.read(io.BytesIO(data), **options))


def rows(data: bytes | list[bytes], **options: Any) -> list[dict[str, Any]]:
    return list(table(data if isinstance(data, bytes) else pcap(data), **options).to_pylist())


def brief(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["status"], r["kind"], r["destination"] if r["kind"] == "PUBLISH" else None) for r in found]


def live(name: str) -> bytes:
    return octets_of(row_of(name))


# ---- the same rows, however the octets come


def decode(data: bytes, sizes: Any, **options: Any) -> Any:
    """The whole table, fed in chunks of the sizes that `sizes()` gives."""
    decoder = CaptureDecoder(**options)
    batches = []

    def take(final: bool = False) -> None:
        if (batch := decoder.take(final)) is not None:
            batches.append(pa.record_batch(batch))

    decoder.begin_file("<file>")
    at = 0
    while at < len(data):
        chunk = memoryview(data)[at : at + sizes()]
        at += decoder.feed(chunk)
        take()
    while not decoder.end_file():
        take()
    while not decoder.finish():
        take()
    take(final=True)
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("size", [1, 7, 100, 4096, 1 << 20])
def test_chunks_of_any_size(name: str, size: int) -> None:
    data = live(name)[:120_000]
    whole = decode(data, lambda: 1 << 30)
    assert whole.num_rows > 30
    assert decode(data, lambda: size) == whole


@pytest.mark.parametrize("name", LIVE)
def test_batches_of_any_size(name: str) -> None:
    data = live(name)
    whole = table(data)
    for options in ({"batch_rows": 1}, {"batch_rows": 7}, {"batch_bytes": 1}, {"batch_bytes": 5000}):
        assert table(data, **options).combine_chunks() == whole.combine_chunks()
    sizes = [b.num_rows for b in capture.read(io.BytesIO(data), batch_rows=7)]
    assert max(sizes) < 7 + 3  # a frame that ends others comes together with their rows
    assert sum(sizes) == whole.num_rows


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("count", [2, 3, 8])
def test_slices_together_are_the_whole(name: str, count: int) -> None:
    data = live(name)
    whole = table(data).to_pylist()
    parts = [table(data, slice=(i, count)).to_pylist() for i in range(count)]
    assert sorted((r for p in parts for r in p), key=str) == sorted(whole, key=str)
    flows = [{r["flow_id"] for r in p} for p in parts]
    assert sum(map(len, flows)) == len(set().union(*flows))


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("seed", range(4))
def test_a_capture_cut_into_rotated_files(name: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    data = live(name)
    records = frames_of(data)
    cuts = [0, *sorted(chance.sample(range(1, len(records)), 6)), len(records)]
    paths, numbers = [], {}
    for k, (begin, end) in enumerate(pairwise(cuts)):
        path = tmp_path / f"rotated.pcap{k}"
        path.write_bytes(data[:24] + b"".join(h + f for h, f in records[begin:end]))
        paths.append(path)
        numbers[str(path)] = begin
    found = pa.table(capture.read(paths, flows="across-files")).to_pylist()
    for r in found:
        r["frame_no"] += numbers[r["capture"]]
        r["capture"] = "<_io.BytesIO>"
    whole = table(data).to_pylist()
    for r in whole:
        r["capture"] = "<_io.BytesIO>"
    assert found == whole


@pytest.mark.parametrize("seed", range(6))
def test_packets_out_of_order(seed: int) -> None:
    """Neighbours change places; the messages of each direction stay what they are."""
    chance = random.Random(seed)
    data = live("mosquitto-paho-v311-mtu1500.pcap")
    records = frames_of(data)
    mixed = []
    for i in range(0, len(records), 8):
        block = records[i : i + 8]
        if not any(f[47] & SYN for _, f in block):  # a flow begins with the first packet seen
            chance.shuffle(block)
        mixed += block

    def messages(octets: bytes) -> dict[tuple[int, int], list[Any]]:
        found: dict[tuple[int, int], list[Any]] = {}
        for r in rows(octets):
            key = (r["src_port"], r["dst_port"])
            found.setdefault(key, []).append((r["status"], r["kind"], r["destination"], r["payload"], r["byte_offset"]))
        return found

    assert mixed != records
    assert messages(data[:24] + b"".join(h + f for h, f in mixed)) == messages(data)


def facts(data: bytes) -> dict[tuple[Any, ...], list[Any]]:
    """Messages by flow, direction, place in the stream and channel."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for r in rows(data):
        key = (r["flow_id"], r["direction"], r["byte_offset"], r["channel"])
        known = ("kind", "payload", "routing_key", "sequence", "headers", "wire_size", "ts_ns", "ts_first")
        found.setdefault(key, []).append((r["status"], *(r[k] for k in known)))
    return found


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("seed", range(6))
def test_lost_packets_make_no_message_of_their_own(name: str, seed: int) -> None:
    """Packets are taken out: whatever is read as a whole message is one that was sent, with its octets, place and time."""
    chance = random.Random(seed)
    data = live(name)
    records = frames_of(data)
    kept = [r for r in records if r[1][47] & SYN or chance.random() > 0.04]
    assert len(kept) < len(records)
    whole, lossy = facts(data), facts(data[:24] + b"".join(h + f for h, f in kept))
    good = [(key, m) for key, found in lossy.items() for m in found if m[0] == "ok"]
    # a message comes with another packet where it was sent again
    known = -2 if "lossy" in name or name in SENT_AGAIN else None
    for key, m in good:
        assert m[:known] in [w[:known] for w in whole[key]], (key, m)
    assert len(good) > sum(map(len, whole.values())) // 4
    assert "malformed" not in {m[0] for found in lossy.values() for m in found}


@pytest.mark.parametrize("name", [n for n in LIVE if n.startswith("rabbitmq")])
@pytest.mark.parametrize("part", [3, 5, 8])
def test_a_capture_that_begins_late(name: str, part: int) -> None:
    """Without its first packets: no message but those that were sent, each with the packet that completed it."""
    data = live(name)
    records = frames_of(data)
    first = len(records) * part // 10
    late = facts(data[:24] + b"".join(h + f for h, f in records[first:]))
    sent = sum(r["frame_no"] > first for r in rows(data))
    whole = {
        m for (_, direction, _, _), found in facts(data).items() for m in ((direction, *map(str, f)) for f in found)
    }
    good = [(key[1], *map(str, m)) for key, found in late.items() for m in found if m[0] == "ok"]
    assert set(good) <= whole
    assert len(good) > sent // 2


# ---- holes, late starts


@pytest.mark.parametrize("seed", range(20))
def test_payload_is_never_read_as_messages(seed: int) -> None:
    """Segments are lost and the beginning is not captured: what is read are messages that were sent, in their place."""
    chance = random.Random(seed)
    tcp = Tcp()
    stream, truth = numbered(400, seed)
    ends = list(truth)[:: chance.choice((1, 3, 10))]  # what the sender writes at a time
    segments, places = [], {}
    for begin, stop in pairwise([*ends, len(stream)]):
        for at in range(begin, stop, 1000):
            last = at + 1000 >= stop
            segments.append(tcp.segment(0, stream[at : min(at + 1000, stop)], ACK | (PSH if last else 0)))
            places[len(segments) - 1] = at
    first = chance.randrange(3, 30)
    kept = [s for i, s in enumerate(segments) if i >= first and chance.random() > 0.03]
    lead = places[segments.index(kept[0])]
    found = rows(kept)
    whole = {offset - lead: message for offset, message in truth.items()}
    good = [r for r in found if r["status"] == "ok"]
    for r in good:
        topic, payload = whole[r["byte_offset"]]
        if r["version"] == "5.0":  # could be of either version, and nothing before it decides: see mqtt_version
            assert payload[:1] == b"\0"
            payload = payload[1:]
        assert (r["destination"], r["payload"]) == (topic, payload)
    assert {r["status"] for r in found} <= {"ok", "gap", "partial"}
    # and nearly all that could be read is: a hole costs the messages in it and what follows up to a certain boundary
    lost = sum(offset >= 0 for offset in whole) - len(good)
    assert lost < 12 * (1 + sum(r["status"] == "gap" for r in found))
    assert len(good) > 150


def test_a_late_start_at_a_boundary_loses_nothing() -> None:
    tcp = Tcp()
    found = rows([*tcp.send(0, packet(0xC0)), *tcp.send(1, packet(0xD0)), *tcp.send(0, packet(0xC0))])
    assert brief(found) == [("ok", "PINGREQ", None), ("ok", "PINGRESP", None), ("ok", "PINGREQ", None)]
    assert [r["direction"] for r in found] == [0, 1, 0]


def test_a_late_start_inside_a_message() -> None:
    tcp = Tcp()
    whole = publish("a/b", b"x" * 50)
    tcp.send(0, whole[:20])
    found = rows(tcp.send(0, whole[20:] + publish("a/c", b"1") + publish("a/d", b"2")))
    assert brief(found) == [("gap", None, None), ("ok", "PUBLISH", "a/c"), ("ok", "PUBLISH", "a/d")]
    assert found[0]["wire_size"] == len(whole) - 20
    assert "began inside the stream" in found[0]["error"]
    assert found[1]["byte_offset"] == len(whole) - 20


def test_a_lost_segment_is_a_gap_row() -> None:
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, connect("me"))]
    tcp.send(0, publish("lost", b"0" * 60))
    frames += tcp.send(0, publish("a", b"1") + publish("b", b"2"))
    frames += [tcp.segment(1), *tcp.close()]
    found = rows(frames)
    assert brief(found) == [
        ("ok", "CONNECT", None),
        ("gap", None, None),
        ("ok", "PUBLISH", "a"),
        ("ok", "PUBLISH", "b"),
    ]
    assert found[1]["wire_size"] == len(publish("lost", b"0" * 60))
    assert found[1]["byte_offset"] == len(connect("me"))
    assert "not captured" in found[1]["error"]
    assert [r["client_id"] for r in found] == ["me", None, "me", "me"]


def test_a_hole_inside_a_message_whose_size_is_known() -> None:
    """No search is needed: the message is partial, and the next one is where its length says."""
    tcp = Tcp()
    long = publish("big", b"z" * 5000)
    frames = [*tcp.open(), *tcp.send(0, connect()), *tcp.send(0, long[:1000])]
    tcp.send(0, long[1000:2000])
    frames += [*tcp.send(0, long[2000:] + packet(0xC0)), tcp.segment(1)]
    found = rows(frames)
    assert brief(found) == [
        ("ok", "CONNECT", None),
        ("partial", "PUBLISH", "big"),
        ("gap", None, None),
        ("ok", "PINGREQ", None),
    ]
    assert found[1]["wire_size"] == len(long)
    assert found[1]["payload"] == long[8:1000]
    assert found[2]["wire_size"] == 1000


def test_a_cut_packet() -> None:
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, connect()), *tcp.send(0, publish("t", b"p" * 500)), *tcp.send(0, packet(0xE0))]
    found = rows(pcap(frames, snaplen=100))
    assert brief(found) == [
        ("ok", "CONNECT", None),
        ("partial", "PUBLISH", "t"),
        ("gap", None, None),
        ("ok", "DISCONNECT", None),
    ]
    assert "snapshot length" in found[1]["error"]


def test_the_capture_ends_inside_a_message() -> None:
    tcp = Tcp()
    found = rows([*tcp.open(), *tcp.send(0, connect() + publish("t", b"p" * 50)[:30])])
    assert brief(found) == [("ok", "CONNECT", None), ("partial", "PUBLISH", "t")]
    assert found[1]["error"] == "stream ended: 30 of 55 bytes read"
    assert found[1]["payload"] == b"p" * 25


def partial_of(frames: list[bytes], **options: Any) -> dict[str, Any]:
    (row,) = [
        r for r in rows(pcap(frames, snaplen=options.pop("snaplen", 262144)), **options) if r["status"] == "partial"
    ]
    return row


def test_a_partial_row_says_how_much_was_read_and_why_no_more() -> None:
    """A message of 1,473 octets of which the first segment, 1,448 octets, is there."""
    message = publish("a/b", b"x" * 1465)
    assert len(message) == 1473

    def frames(what: str) -> list[bytes]:
        tcp = Tcp()
        found = [*tcp.open(), *tcp.send(0, connect())]
        first, second = tcp.send(0, message)
        behind = tcp.send(0, packet(0xC0))
        if what == "lost":
            return [*found, first, *behind, tcp.segment(1)]
        if what == "never seen":
            return [*found, first, *behind]
        return [*found, first] if what == "end" else [*found, first, second]

    assert partial_of(frames("lost"))["error"] == "not captured: 1448 of 1473 bytes read"
    assert partial_of(frames("end"))["error"] == "stream ended: 1448 of 1473 bytes read"
    assert partial_of(frames("never seen"))["error"] == "stream ended: 1448 of 1473 bytes read"
    cut = partial_of(frames("whole"), snaplen=54 + 1000)
    assert cut["error"] == "truncated by the snapshot length: 1000 of 1473 bytes read"
    limited = partial_of(frames("whole"), limits={"max_message": 1472})
    assert limited["error"] == "limit: 1448 of 1473 bytes read"
    for row in (partial_of(frames("lost")), limited):
        assert (row["wire_size"], len(row["payload"])) == (1473, 1448 - 8)


def test_a_partial_row_of_a_body_in_several_frames_says_how_much_of_it_was_read() -> None:
    def frame(kind: int, payload: bytes) -> bytes:  # AMQP 0.9.1, 4.2.3
        return bytes((kind, 0, 1)) + len(payload).to_bytes(4, "big") + payload + b"\xce"

    publish_q = frame(1, b"\0\x3c\0\x28\0\0\0\1q\0")
    header = frame(2, b"\0\x3c\0\0" + (5000).to_bytes(8, "big") + b"\0\0")
    tcp = Tcp(port=5672)
    frames = [*tcp.open(), *tcp.send(0, AMQP091_HEADER), *tcp.send(0, publish_q + header + frame(3, b"x" * 1000))]
    tcp.send(0, frame(3, b"y" * 1000))
    frames += [*tcp.send(0, HEARTBEAT + HEARTBEAT), tcp.segment(1)]
    row = partial_of(frames)
    assert row["error"] == "not captured: 1000 of 5000 bytes of the body read"
    assert row["payload"] == b"x" * 1000


# ---- malformed messages


def test_after_a_malformed_message_the_next_one_is_read() -> None:
    tcp = Tcp()
    ill_formed = packet(0x30, b"\0\x02\xff\xfe" + b"x")
    found = rows([*tcp.open(), *tcp.send(0, connect() + ill_formed + publish("good", b""))])
    assert brief(found) == [("ok", "CONNECT", None), ("malformed", "PUBLISH", None), ("ok", "PUBLISH", "good")]
    assert "UTF-8" in found[1]["error"]
    assert "topic_name" in found[1]["error"]
    assert found[1]["wire_size"] == len(ill_formed)


@pytest.mark.parametrize("junk", [b"\x00", b"\x30\xff\xff\xff\xff\x01", b"\x00" * 5000])
def test_where_no_message_begins_the_next_boundary_is_searched(junk: bytes) -> None:
    tcp = Tcp()
    sent = connect() + junk + publish("x", b"1") + publish("y", b"2") + publish("z", b"3")
    found = rows([*tcp.open(), *tcp.send(0, sent)])
    assert brief(found) == [
        ("ok", "CONNECT", None),
        ("malformed", None, None),
        ("gap", None, None),
        ("ok", "PUBLISH", "x"),
        ("ok", "PUBLISH", "y"),
        ("ok", "PUBLISH", "z"),
    ]
    assert found[2]["wire_size"] == len(junk)


def test_lax_notes_and_strict_refuses() -> None:
    tcp = Tcp()
    wildcard = publish("a/+", b"")
    frames = [*tcp.open(), *tcp.send(0, connect() + wildcard)]
    lax, strict = rows(frames)[1], rows(frames, strictness="strict")[1]
    assert (lax["status"], lax["destination"]) == ("ok", "a/+")
    assert "wildcard" in lax["error"].lower()
    assert (strict["status"], strict["destination"]) == ("malformed", None)


# ---- which protocol, which version


def test_another_port_is_known_by_its_connect() -> None:
    tcp = Tcp(port=8123)
    sent = connect("far", 5)
    for size in (1448, 1):
        tcp = Tcp(port=8123)
        found = rows([*tcp.open(), *tcp.send(0, sent, size), *tcp.send(1, connack(5))])
        assert [(r["kind"], r["version"], r["direction"]) for r in found] == [
            ("CONNECT", "5.0", 0),
            ("CONNACK", "5.0", 1),
        ]


def test_another_port_with_other_octets_is_left_alone() -> None:
    tcp = Tcp(port=8123)
    reader = capture.read(io.BytesIO(pcap([*tcp.open(), *tcp.send(0, packet(0xC0)), *tcp.send(0, connect())])))
    assert pa.table(reader).num_rows == 0
    assert reader.stats["not_decoded"]["not_recognised"]["connections"] == 1


def test_decode_as_decides() -> None:
    tcp = Tcp(port=8123)
    frames = [*tcp.open(), *tcp.send(0, packet(0xC0)), *tcp.send(1, packet(0xD0))]
    assert rows(frames) == []
    assert [r["kind"] for r in rows(frames, decode_as="tcp.port==8123,mqtt")] == ["PINGREQ", "PINGRESP"]


@pytest.mark.parametrize(
    "rule", ["tcp.port==0,mqtt", "udp.port==5,mqtt", "tcp.port==1883,http", "tcp.port==x,mqtt", ""]
)
def test_decode_as_that_cannot_be(rule: str) -> None:
    with pytest.raises(ValueError, match="decode_as"):
        capture.read(io.BytesIO(pcap([])), decode_as=[rule])


@pytest.mark.parametrize("port", [1883, 8883, 8123])
def test_tls_is_left_alone_and_counted(port: int) -> None:
    tcp = Tcp(port=port)
    hello = bytes.fromhex("16030100a5010000a10303") + bytes(range(160))
    reader = capture.read(io.BytesIO(pcap([*tcp.open(), *tcp.send(0, hello), *tcp.send(1, hello)])))
    assert pa.table(reader).num_rows == 0
    assert reader.stats["not_decoded"]["tls"]["connections"] == 1


AMQP091_HEADER = b"AMQP\0\0\x09\x01"  # general 4.2.2
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"  # 4.2.7


@pytest.mark.parametrize("size", [1, 100, 5000, 70_000])
@pytest.mark.parametrize("junk_from", [0, 1])
def test_a_port_of_two_protocols_and_octets_of_neither(size: int, junk_from: int) -> None:
    """A capture that begins later. Which AMQP it is, is said by the first frames in either direction; what stands before them is
    a hole."""
    tcp = Tcp(port=5672)
    frames = tcp.send(junk_from, random.Random(size).randbytes(size))
    frames += tcp.send(1 - junk_from, HEARTBEAT if junk_from == 0 else AMQP091_HEADER + HEARTBEAT)
    frames += [*tcp.send(junk_from, HEARTBEAT), *tcp.send(junk_from, HEARTBEAT + HEARTBEAT)]
    found = rows(frames)
    junk = [r for r in found if r["direction"] == junk_from]
    assert [r["status"] for r in junk] == ["gap", "ok", "ok", "ok"]
    assert [(r["byte_offset"], r["wire_size"]) for r in junk][:2] == [(0, size), (size, 8)]
    other = [(r["status"], r["kind"]) for r in found if r["direction"] != junk_from]
    assert other == [("ok", "heartbeat")] if junk_from == 0 else [("ok", "protocol-header"), ("ok", "heartbeat")]
    assert {r["protocol"] for r in found} == {"amqp091"}
    last = junk[-1]["frame_no"]
    assert [r["frame_no"] for r in junk if r["status"] == "ok"] == [last - 1, last, last]


def test_a_port_of_two_protocols_and_nothing_of_either() -> None:
    tcp = Tcp(port=5672)
    reader = capture.read(io.BytesIO(pcap(tcp.send(0, random.Random(0).randbytes(3000)))))
    found = pa.table(reader).to_pylist()
    assert [(r["status"], r["protocol"], r["wire_size"]) for r in found] == [("gap", None, 3000)]
    assert reader.stats["not_decoded"]["not_recognised"]["connections"] == 1


def test_protocols_that_were_not_asked_for() -> None:
    tcp = Tcp()
    assert rows([*tcp.open(), *tcp.send(0, connect())], protocols=[]) == []
    with pytest.raises(ValueError, match="no protocol 'smtp'; did you mean mqtt"):
        capture.read(io.BytesIO(), protocols=["smtp"])


SUBSCRIBE = {4: packet(0x82, b"\0\x01" + string("a") + b"\0"), 5: packet(0x82, b"\0\x01\0" + string("a") + b"\0")}
EXPIRY = b"\x02\0\0\0\x3c"


@pytest.mark.parametrize(
    ("sent", "versions"),
    [
        ([publish("t", b'{"a": 1}')], ["3.1.1"]),
        ([publish("t", b"")], ["3.1.1"]),
        ([publish("t", b"x", 5)], ["5.0"]),
        ([publish("t", b"x", 5, EXPIRY)], ["5.0"]),
        ([SUBSCRIBE[4], publish("t", b"\0bin")], ["3.1.1", "3.1.1"]),
        ([SUBSCRIBE[5], publish("t", b"bin", 5), puback(1)], ["5.0", "5.0", "5.0"]),
        ([publish("t", b"text"), publish("t", b"\0bin")], ["3.1.1", "3.1.1"]),
    ],
)
def test_the_version_without_a_connect(sent: list[bytes], versions: list[str]) -> None:
    tcp = Tcp()
    found = rows([f for p in sent for f in tcp.send(0, p)])
    assert [r["version"] for r in found] == versions


# ---- WebSocket


@pytest.mark.parametrize("size", [1448, 1, 5])
@pytest.mark.parametrize("port", [80, 1883])
def test_mqtt_inside_a_websocket(size: int, port: int) -> None:
    tcp = Tcp(port=port)
    mask = b"\x11\x22\x33\x44"
    message = publish("ws/topic", b"p" * 300)
    client = (
        socket_frame(connect("ws"), mask=mask)
        + socket_frame(message[:100], first=0x02, mask=mask)  # a message in two fragments, a ping between them
        + socket_frame(b"ping", first=0x89, mask=mask)
        + socket_frame(message[100:] + packet(0xC0), first=0x80, mask=b"\xff\0\xff\0")
        + socket_frame(b"\x03\xe8", first=0x88, mask=mask)
    )
    server = socket_frame(connack()) + socket_frame(b"pong", first=0x8A) + socket_frame(packet(0xD0))
    frames = [*tcp.open(), *tcp.send(0, REQUEST, size), *tcp.send(1, RESPONSE, size)]
    frames += [*tcp.send(0, client, size), *tcp.send(1, server, size), *tcp.close()]
    reader = capture.read(io.BytesIO(pcap(frames)))
    found = pa.table(reader).to_pylist()
    sent = [[(r["kind"], r["byte_offset"]) for r in found if r["direction"] == d] for d in (0, 1)]
    n = len(connect("ws"))
    assert sent == [[("CONNECT", 0), ("PUBLISH", n), ("PINGREQ", n + len(message))], [("CONNACK", 0), ("PINGRESP", 4)]]
    assert {r["status"] for r in found} == {"ok"}
    assert found[1]["client_id"] == "ws"
    assert reader.stats["websocket_flows"] == 1


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        REQUEST.replace(b"mqtt\r\n\r\n", b"soap\r\n\r\n"),
        REQUEST.replace(b"Upgrade: websocket", b"Upgrade: h2c"),
    ],
)
def test_other_uses_of_http_are_left_alone(request_: bytes) -> None:
    tcp = Tcp(port=80)
    assert rows([*tcp.open(), *tcp.send(0, request_), *tcp.send(1, RESPONSE), *tcp.send(0, connect())]) == []


def test_compressed_websocket_messages_are_said_not_to_be_read() -> None:
    tcp = Tcp(port=80)
    frames = [*tcp.open(), *tcp.send(0, REQUEST), *tcp.send(1, RESPONSE)]
    found = rows([*frames, *tcp.send(0, socket_frame(b"\x01\x02\x03", first=0xC2, mask=b"abcd"))])
    assert brief(found) == [("malformed", None, None)]
    assert "compressed" in found[0]["error"]


def test_a_hole_in_a_websocket() -> None:
    tcp = Tcp(port=80)
    frames = [*tcp.open(), *tcp.send(0, REQUEST), *tcp.send(1, RESPONSE)]
    frames += tcp.send(1, socket_frame(connack()))
    tcp.send(1, socket_frame(publish("lost", b"")))
    frames += [*tcp.send(1, socket_frame(publish("a", b"1"))), *tcp.send(1, socket_frame(publish("b", b"2")))]
    found = rows([*frames, tcp.segment(0)])
    assert [r["destination"] for r in found if r["kind"] == "PUBLISH"] == ["a", "b"]
    assert [r["status"] for r in found] == ["ok", "gap", "ok", "ok"]


# ---- limits


def test_a_message_beyond_the_limit_is_passed_over() -> None:
    tcp = Tcp()
    big = publish("big", b"x" * 20000)
    frames = [*tcp.open(), *tcp.send(0, connect() + big + publish("next", b"")), *tcp.close()]
    reader = capture.read(io.BytesIO(pcap(frames)), limits={"max_message": 10000})
    found = pa.table(reader).to_pylist()
    assert brief(found) == [("ok", "CONNECT", None), ("partial", "PUBLISH", "big"), ("ok", "PUBLISH", "next")]
    assert found[1]["wire_size"] == len(big)
    assert found[1]["error"].startswith("limit")
    assert reader.stats["messages_limited"] == 1


def test_open_flows_and_stored_octets_stay_within_their_limits() -> None:
    frames = []
    for i in range(300):
        tcp = Tcp(client_port=1000 + i)
        frames += [*tcp.open(), *tcp.send(0, connect() + publish("t", b"x" * 900)[:600])]
    decoder = CaptureDecoder(limits={"max_flows": 50, "max_buffered": 10000})
    decoder.begin_file("f")
    data = pcap(frames)
    for at in range(0, len(data), 1000):
        decoder.feed(data[at : at + 1000])
        assert decoder.stats["open_flows"] <= 50
        assert decoder.stats["buffered"] <= 10000
    assert decoder.stats["flows_evicted"] >= 250
    assert decoder.end_file()
    assert decoder.stats["buffered"] == 0


@pytest.mark.parametrize("limits", [{"max_flow": 1}, {"max_flows": 0}])
def test_limits_that_cannot_be(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="limit"):
        capture.read(io.BytesIO(), limits=limits)


@pytest.mark.parametrize(
    "options",
    [{"strictness": "hard"}, {"flows": "all"}, {"slice": (2, 2)}, {"batch_rows": 0}, {"columns": ["nothing"]}],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        capture.read(io.BytesIO(), **options)


# ---- sources


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    tcp = Tcp()
    path = tmp_path / "sample.pcap"
    path.write_bytes(pcap([*tcp.open(), *tcp.send(0, connect("s") + publish("t", b"1")), *tcp.close()]))
    return path


def kinds(source: Any, **options: Any) -> list[str | None]:
    return list(pa.table(capture.read(source, **options)).column("kind").to_pylist())


BOTH = ["CONNECT", "PUBLISH"]


def test_sources(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = sample.read_bytes()
    assert (
        kinds(sample) == kinds(str(sample)) == kinds(str(sample.parent)) == kinds(str(sample.parent / "*.pcap")) == BOTH
    )
    assert kinds([sample, str(sample)]) == BOTH * 2 or kinds([sample, str(sample)]) == BOTH
    with sample.open("rb") as opened:
        assert kinds(opened) == BOTH
        assert not opened.closed
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert kinds("-") == BOTH


@pytest.mark.parametrize("where", ["alone", "list"])
def test_compressed(sample: Path, where: str) -> None:
    data = sample.read_bytes()
    zipped = sample.with_name("a.pcap.gz")
    zipped.write_bytes(gzip.compress(data[:100]) + gzip.compress(data[100:]))
    assert kinds(zipped if where == "alone" else [zipped]) == BOTH
    zstd = pytest.importorskip("backports.zstd", reason="needs backports.zstd (pip install backports.zstd)")
    packed = sample.with_name("a.pcap.zst")
    packed.write_bytes(zstd.compress(data))
    assert kinds(packed) == BOTH


@pytest.mark.parametrize(("name", "module", "function"), [
    ("bz2", "bz2", "compress"), ("xz", "lzma", "compress"), ("lz4", "lz4.frame", "compress"),
])  # fmt: skip
def test_other_compressions(name: str, module: str, function: str, sample: Path) -> None:
    """Several streams in a file, a file in a folder, one that was cut, and one that is damaged."""
    pack = getattr(pytest.importorskip(module, reason=f"needs {module} (pip install lz4)"), function)
    data = sample.read_bytes()
    folder = sample.with_name("packed")
    folder.mkdir()
    packed = folder / f"a.pcap.{name}"
    packed.write_bytes(pack(data[:100]) + pack(data[100:]))
    assert kinds(packed) == kinds(str(folder)) == BOTH
    octets = pack(data)
    for spoilt in (octets[: len(octets) // 2], octets[: len(octets) // 2] + bytes(9) + octets[len(octets) // 2 + 9 :]):
        packed.write_bytes(spoilt)
        assert pa.table(capture.read([packed])).column("status").to_pylist()[-1] == "malformed"


def test_a_url(sample: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install fsspec)")
    fsspec.filesystem("memory").pipe("/captures/x.pcap", sample.read_bytes())
    with capture.read("memory://captures/x.pcap") as reader:
        assert pa.table(reader).column("kind").to_pylist() == BOTH
        assert reader.bytes_read == reader.bytes_total == sample.stat().st_size


@pytest.mark.parametrize("data", [b"", b"no capture at all, but text", b"\0" * 1000, b"\xd4\xc3"])
def test_what_is_no_capture(data: bytes, sample: Path) -> None:
    wrong = sample.with_name("wrong.pcap")
    wrong.write_bytes(data)
    with pytest.raises(CaptureError, match=r"cannot read .*wrong\.pcap"):
        capture.read(wrong)
    found = pa.table(capture.read([sample, wrong, sample])).to_pylist()
    assert [r["status"] for r in found if r["capture"] == str(wrong)] == ["malformed"]
    assert [r["kind"] for r in found if r["capture"] == str(sample)] == BOTH * 2


@pytest.mark.parametrize("source", ["/nowhere/at/all.pcap", "/nowhere/*.pcap", ["/nowhere/x"], []])
def test_what_is_not_there(source: Any) -> None:
    with pytest.raises(CaptureError):
        capture.read(source)


def test_a_source_of_the_wrong_type() -> None:
    with pytest.raises(TypeError, match="a capture is"):
        capture.read(7)


def test_a_cut_file_gives_what_can_be_read_and_one_error_row(sample: Path) -> None:
    data = sample.read_bytes()
    cut = sample.with_name("cut.pcap")
    cut.write_bytes(data[:-30])
    found = pa.table(capture.read(cut)).to_pylist()
    assert brief(found)[-1] == ("malformed", None, None) or ("malformed", None, None) in brief(found)
    error = next(r for r in found if r["status"] == "malformed")
    assert error["capture"] == str(cut)
    assert error["byte_offset"] is not None
    assert error["ts"] is None
    assert [r["kind"] for r in found if r["status"] == "ok"] == BOTH
    zipped = sample.with_name("cut.pcap.gz")
    zipped.write_bytes(gzip.compress(random.Random(1).randbytes(10) + data, 1)[:-20])
    packed = gzip.compress(data)
    zipped.write_bytes(packed[: len(packed) - 12])
    found = pa.table(capture.read(zipped)).to_pylist()
    assert found[-1]["status"] == "malformed" or any(r["status"] == "malformed" for r in found)
    assert any("EOFError" in (r["error"] or "") for r in found)


def test_the_reader(sample: Path) -> None:
    reader = capture.read(sample, columns=["destination", "kind"])
    assert pa.schema(reader.schema).names == reader.schema.names == ["destination", "kind"]
    assert reader.bytes_total == sample.stat().st_size
    batches = list(reader)
    assert [pa.record_batch(b).to_pydict() for b in batches] == [{"destination": [None, "t"], "kind": BOTH}]
    assert reader.bytes_read == reader.bytes_total
    assert list(reader) == []
    assert reader.stats["packets"] == 7
    assert pa.schema(capture.read(sample)).names == [c.name for c in COLUMNS]
    with capture.read(sample) as reader:
        pass
    assert list(reader) == []


def test_payload_and_credentials_are_left_out_on_request() -> None:
    tcp = Tcp()
    login = packet(0x10, string("MQTT") + bytes((4, 0xC2, 0, 60)) + string("c") + string("user") + string("secret"))
    frames = [*tcp.open(), *tcp.send(0, login + publish("t", b"12345"))]
    first, second = rows(frames)
    assert (first["mqtt"]["user_name"], first["mqtt"]["password"]) == ("user", None)
    assert rows(frames, expose_credentials=True)[0]["mqtt"]["password"] == b"secret"
    assert second["payload"] == b"12345"
    assert [(r["payload"], r["payload_size"]) for r in rows(frames, payload=False)][1] == (None, 5)
    assert [(r["payload"], r["payload_size"]) for r in rows(frames, payload_max=2)][1] == (b"12", 5)


# ---- any octets at all


@pytest.mark.parametrize("seed", range(40))
def test_spoilt_captures(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(live(chance.choice(LIVE))[:60_000])
    for _ in range(chance.choice((1, 10, 100, 1000))):
        at = chance.randrange(24, len(data))
        what = chance.randrange(4)
        if what == 0:
            data[at] = chance.randrange(256)
        elif what == 1:
            del data[at : at + chance.randrange(1, 50)]
        elif what == 2:
            data[at:at] = chance.randbytes(chance.randrange(1, 50))
        else:
            data[at] ^= 1 << chance.randrange(8)
    found = rows(bytes(data), batch_rows=chance.choice((1, 100, 16384)))
    assert {r["status"] for r in found} <= {"ok", "partial", "gap", "malformed"}
    for r in found:
        assert r["status"] == "ok" or r["error"]


@pytest.mark.parametrize("seed", range(10))
def test_spoilt_streams(seed: int) -> None:
    """Whatever the octets on the port are: rows, in bounded time, that tile the stream."""
    chance = random.Random(seed)
    tcp = Tcp()
    pieces = [connect(), publish("t", b"x" * 200), chance.randbytes(300), b"\x30\xc4\x84\x0800" * 2000, b"\x30" * 5000]
    stream = connect() + b"".join(chance.choice(pieces) for _ in range(60))
    found = rows([*tcp.open(), *tcp.send(0, stream, chance.choice((10, 1000))), *tcp.close()])
    at = 0
    for r in found:
        assert r["byte_offset"] == at
        at += r["wire_size"]
        if r["error"] and r["error"].startswith("stream ended: "):
            at += int(r["error"].split(" ")[2]) - r["wire_size"]
    assert at == len(stream)


# ---- packets shuffled by flow: the second stage on a cluster


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("files", [1, 3])
def test_segments_give_the_rows_of_the_capture(name: str, files: int) -> None:
    data = live(name)
    records = frames_of(data)
    cuts = [len(records) * i // files for i in range(files + 1)]
    parts = [data[:24] + b"".join(h + f for h, f in records[a:b]) for a, b in pairwise(cuts)]
    scanner, scanned = capture.PacketScanner(), []
    decoder, batches = CaptureDecoder(flows="across-files", batch_rows=50), []

    def take(final: bool = False) -> None:
        if (batch := decoder.take(final)) is not None:
            batches.append(pa.record_batch(batch))

    for index, part in enumerate(parts):
        scanner.begin_file(f"file {index}", index)
        decoder.begin_file(f"file {index}", index)
        scanner.feed(part)
        scanner.end_file()
        scanned.append(pa.record_batch(scanner.take(final=True)))
    packets = pa.Table.from_batches(scanned).sort_by(
        [(c, "ascending") for c in ("flow_hash", "file_index", "frame_no")]
    )
    for key in packets["flow_hash"].unique().to_pylist():
        rows_of_flow = packets.filter(pa.compute.equal(packets["flow_hash"], key))
        octets = b"".join(rows_of_flow["segment"].to_pylist())
        at = 0
        while at < len(octets):
            at += decoder.feed_segments(octets[at:])
            take()
        while not decoder.finish():
            take()
    take(final=True)
    found = pa.Table.from_batches(batches).to_pylist()

    decoder, batches = CaptureDecoder(flows="across-files"), []
    for index, part in enumerate(parts):
        decoder.begin_file(f"file {index}", index)
        assert decoder.feed(part) == len(part)
        assert decoder.end_file()
    assert decoder.finish()
    take(final=True)
    whole = pa.Table.from_batches(batches).to_pylist()
    assert len(found) > 80
    assert sorted(found, key=str) == sorted(whole, key=str)


def test_octets_that_are_no_segments() -> None:
    with pytest.raises(ValueError, match="not a row"):
        CaptureDecoder().feed_segments(b"\xff" * 100)


@pytest.mark.parametrize("reason", [0, 1, 3, 200, 0x7FFFFFFF, 0x80000000, 0xFDFFFF05, 0xFFFFFFFF])
def test_a_segment_of_a_fault_may_have_any_reason(reason: int) -> None:
    """Another version may have written the rows, or nobody who knows the format. `size` is at offset 4."""
    scanner, decoder = capture.PacketScanner(), CaptureDecoder(flows="across-files")
    for reader in (scanner, decoder):
        reader.begin_file("f", 0)
    scanner.feed(live(LIVE[0])[:30])
    scanner.end_file()
    (octets,) = pa.record_batch(scanner.take(final=True)).to_pydict()["segment"]
    octets = octets[:4] + reason.to_bytes(4, "little") + octets[8:]
    assert decoder.feed_segments(octets) == len(octets)
    assert decoder.finish()
    (row,) = pa.record_batch(decoder.take(final=True)).to_pylist()
    known = {1: "not a packet capture: unknown magic number", 3: "file ends inside its header"}
    assert row["error"] == known.get(reason, "?")
