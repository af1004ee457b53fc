"""Captures of real peers, mangled at every position: packets in another order, lost, cut off, split, sent twice, one
direction late. Nothing vanishes: every octet of TCP payload that was captured is in a row or in a count, and what is only in
another order gives the same messages.

How many octets were captured is counted here, from addresses and sequence numbers alone."""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lib.paths import DATA, ROOT
from lib.websocket import in_sockets
from lib.wire import frames_of, pcap
from wirefmt import capture
from wirefmt.capture._engine import PacketTrace

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

Record = tuple[bytes, bytes]
SYN = 2
LATE_PACKETS = 58  # up to the end of a message


def sample(name: str, count: int, port: int | None = None) -> tuple[bytes, list[Record]]:
    """The file's header and its first packets, those of its registered port on another one if asked."""
    path = ROOT / "samples" / name
    data = (path if path.exists() else DATA / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    records = frames_of(data)[:count]
    if port is not None:
        records = [(head, moved(frame, port)) for head, frame in records]
    return data[:24], records


def moved(frame: bytes, port: int) -> bytes:
    at = 14 + (frame[14] & 15) * 4
    ports = [port if p in (1883, 5672) else p for p in struct.unpack(">HH", frame[at : at + 4])]
    return frame[:at] + struct.pack(">HH", *ports) + frame[at + 4 :]


def websockets(size: int, late: bool) -> tuple[bytes, list[Record]]:
    upgrades, later = in_sockets("mosquitto-paho-v5.pcap", 9001, size)
    data = pcap(later[:LATE_PACKETS] if late else [*upgrades, *later[:40]])
    return data[:24], frames_of(data)


SAMPLES: dict[str, Callable[[], tuple[bytes, list[Record]]]] = {
    "mqtt": lambda: sample("mosquitto-paho-v5.pcap", 60),
    "mqtt on another port": lambda: sample("mosquitto-paho-v5.pcap", 60, 7777),
    "mqtt, lossy": lambda: sample("mosquitto-paho-v311-lossy-outoforder.pcap.gz", 60),
    "mqtt, cut packets": lambda: sample("mosquitto-paho-v5-snaplen128.pcap", 60),
    "amqp091": lambda: sample("rabbitmq-pyamqp-amqp091.pcap", 60),
    "amqp091 on another port": lambda: sample("rabbitmq-pyamqp-amqp091.pcap", 60, 7777),
    "amqp10": lambda: sample("rabbitmq-rhea-amqp10.pcap.gz", 60),
    "amqp10 on another port": lambda: sample("rabbitmq-rhea-amqp10.pcap.gz", 60, 7777),
    "mqtt in websockets": lambda: websockets(1 << 20, late=False),
    "mqtt in websockets, fragments, late": lambda: websockets(60, late=True),
    "phpmq": lambda: sample("phpmq/protocol-37bf1fb.pcap.gz", 60),
    "rocketmq": lambda: sample("rocketmq/client-5.5.0-json-header.pcap.gz", 60),
    "nsq": lambda: sample("nsq/nsqd-1.3.0-wirefmt.pcap.gz", 60),
}


class Seen:
    """What is known of a frame without its capture: who sends, where in the stream, how many octets."""

    trace = PacketTrace()

    def __init__(self, link_type: int, record: Record) -> None:
        original = int.from_bytes(record[0][12:16], "little")
        what, fields = self.trace.parse(link_type, record[1], original_size=original)
        assert what == "tcp"
        assert fields is not None
        self.ends = (fields["src_ip"], fields["src_port"], fields["dst_ip"], fields["dst_port"])
        self.seq = fields["seq"]
        self.size = len(fields["payload"])
        self.syn = fields["flags"] & SYN != 0


def captured(header: bytes, records: list[Record]) -> int:
    """Octets of payload in the packets, those that are there twice counted once."""
    link_type = int.from_bytes(header[20:24], "little")
    streams: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for record in records:
        seen = Seen(link_type, record)
        ranges = streams.setdefault(seen.ends, [])
        # relative to the first: none of these wraps by more than half of the numbers
        first = ranges[0][0] if ranges else seen.seq
        at = first + ((seen.seq - first + (1 << 31)) % (1 << 32) - (1 << 31)) + seen.syn
        ranges.append((at, at + seen.size))
    octets = 0
    for ranges in streams.values():
        end = -(1 << 63)
        for begin, stop in sorted(ranges):
            octets += max(0, stop - max(begin, end))
            end = max(end, stop)
    return octets


def decode(header: bytes, records: list[Record], **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    reader = capture.read(io.BytesIO(header + b"".join(h + f for h, f in records)), **options)
    found = pa.table(reader).to_pylist()
    return found, reader.stats


def check(header: bytes, records: list[Record], where: str, *, whole: bool = False) -> list[dict[str, Any]]:
    """Decode, and see that nothing has vanished. `whole`: no octet is missing, so that the sums are equal."""
    found, stats = decode(header, records)
    rows = sum(r["wire_size"] for r in found)
    counts = sum(stats["not_decoded"][name]["bytes"] for name in ("not_recognised", "tls", "compressed"))
    counts += stats["carrier_bytes"] + stats["outside_bytes"]
    octets = captured(header, records)
    assert rows + counts >= octets, where
    assert not whole or rows + counts == octets, where
    assert stats["buffered"] == 0, where
    assert {r["status"] for r in found} <= ({"ok"} if whole else {"ok", "gap", "partial"}), where
    return found


def facts(found: list[dict[str, Any]]) -> list[Any]:
    """Messages, without the packets they came in."""
    known = ("src_ip", "src_port", "dst_port", "status", "byte_offset", "wire_size", "payload", "direction")
    return sorted(((*kind_of(r), *(r[k] for k in known)) for r in found), key=str)


def contents(found: list[dict[str, Any]]) -> set[Any]:
    """Whole messages, without what earlier ones tell about them."""
    known = ("src_ip", "src_port", "dst_port", "wire_size", "payload")
    return {(kind_of(r)[0], *(r[k] for k in known)) for r in found if r["status"] == "ok"}


def kind_of(row: dict[str, Any]) -> tuple[str | None, str | None]:
    """Kind and destination. A response of RocketMQ has those of its request, if that was read before it."""
    return (
        (None, None) if row["protocol"] == "rocketmq" and row["direction"] == 1 else (row["kind"], row["destination"])
    )


def positions(records: list[Record], margin: int) -> Iterator[int]:
    yield from range(len(records) - margin)


def has_holes(name: str) -> bool:
    return "lossy" in name or "cut" in name


@pytest.mark.parametrize("name", SAMPLES)
def test_as_captured(name: str) -> None:
    header, records = SAMPLES[name]()
    assert len(records) > 20
    found = check(header, records, name, whole=not has_holes(name))
    assert len(found) > 15


def split(record: Record) -> list[Record]:
    """One packet as two (Ethernet, IPv4): each has half of the payload."""
    head, frame = record
    ip = 14
    tcp = ip + (frame[ip] & 15) * 4
    data = tcp + (frame[tcp + 12] >> 4) * 4
    total = int.from_bytes(frame[ip + 2 : ip + 4], "big")
    payload = frame[data : ip + total]
    if len(payload) < 2 or frame[tcp + 13] & SYN or len(frame) < ip + total:
        return [record]
    half, parts = len(payload) // 2, []
    seq = int.from_bytes(frame[tcp + 4 : tcp + 8], "big")
    for at, part in ((0, payload[:half]), (half, payload[half:])):
        part_frame = (
            frame[: ip + 2]
            + struct.pack(">H", total - len(payload) + len(part))
            + frame[ip + 4 : tcp + 4]
            + struct.pack(">I", seq + at & 0xFFFFFFFF)
            + frame[tcp + 8 : data]
            + part
        )
        parts.append((head[:8] + struct.pack("<II", len(part_frame), len(part_frame)), part_frame))
    return parts


@pytest.mark.parametrize("name", SAMPLES)
def test_packets_split_and_sent_twice_at_every_position(name: str) -> None:
    header, records = SAMPLES[name]()
    whole = facts(check(header, records, name, whole=not has_holes(name)))
    for i in positions(records, 0):
        for what in ("split", "split and swapped", "twice"):
            parts = split(records[i]) if what != "twice" else [records[i], records[i]]
            if what == "split and swapped":
                parts = parts[::-1]
            mangled = [*records[:i], *parts, *records[i + 1 :]]
            found = check(header, mangled, f"{what} at {i}", whole=not has_holes(name))
            if not has_holes(name):
                assert facts(found) == whole, f"{what} at {i}"


@pytest.mark.parametrize("name", SAMPLES)
def test_neighbours_change_places_at_every_position(name: str) -> None:
    """Two packets, or three backwards."""
    header, records = SAMPLES[name]()
    link_type = int.from_bytes(header[20:24], "little")
    seen = [Seen(link_type, r) for r in records]
    begun: dict[tuple[Any, ...], int] = {}
    for i, s in enumerate(seen):
        begun.setdefault(s.ends, i)
    whole = facts(check(header, records, name, whole=not has_holes(name)))
    for count in (2, 3):
        for i in positions(records, count):
            mangled = [*records[:i], *records[i : i + count][::-1], *records[i + count :]]
            # a SYN that moves, or the first packets of a late capture, leave a stream that begins before the capture
            opening = any(s.syn for s in seen[i : i + count]) or ("late" in name and i < begun[seen[i].ends] + count)
            found = check(header, mangled, f"{count} at {i}", whole=not has_holes(name) and not opening)
            if not has_holes(name) and not opening:
                assert facts(found) == whole, f"{count} at {i}"


@pytest.mark.parametrize("name", SAMPLES)
def test_one_direction_comes_late_at_every_position(name: str) -> None:
    """As two taps or queues may show it: from a packet on, the next packets of its direction come behind those of the other."""
    header, records = SAMPLES[name]()
    link_type = int.from_bytes(header[20:24], "little")
    seen = [Seen(link_type, r) for r in records]
    whole = facts(check(header, records, name, whole=not has_holes(name)))
    for i in positions(records, 6):
        block = range(i, i + 6)
        if any(seen[k].syn for k in block):
            continue
        late = [records[k] for k in block if seen[k].ends == seen[i].ends]
        first = [records[k] for k in block if seen[k].ends != seen[i].ends]
        found = check(header, [*records[:i], *first, *late, *records[i + 6 :]], f"at {i}", whole=not has_holes(name))
        if not has_holes(name):
            assert facts(found) == whole, f"at {i}"


@pytest.mark.parametrize("name", SAMPLES)
def test_a_packet_is_lost_and_the_capture_ends_at_every_position(name: str) -> None:
    header, records = SAMPLES[name]()
    good = contents(decode(header, records)[0])
    for i in positions(records, 0):
        found = check(header, [*records[:i], *records[i + 1 :]], f"lost {i}")
        if name != "phpmq" and not has_holes(name):
            assert contents(found) <= good, f"lost {i}"
        check(header, records[:i], f"ends at {i}")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_capture_begins_at_every_position_also_with_its_first_segments_swapped(name: str) -> None:
    header, records = SAMPLES[name]()
    link_type = int.from_bytes(header[20:24], "little")
    seen = [Seen(link_type, r) for r in records]
    for i in positions(records, 6):
        late = check(header, records[i:], f"from {i}")
        swapped = check(header, [records[i + 1], records[i], *records[i + 2 :]], f"from {i}, swapped")
        opening = any(s.syn for s in seen[i : i + 6])
        if not opening and not has_holes(name):
            assert contents(late) == contents(swapped), f"from {i}, swapped"
        # the first two that carry octets in the direction of the first one, whatever is between them
        same = [k for k in range(i, len(records)) if seen[k].ends == seen[i].ends and seen[k].size][:2]
        if len(same) == 2:
            mangled = records[i:]
            a, b = same[0] - i, same[1] - i
            mangled[a], mangled[b] = mangled[b], mangled[a]
            check(header, mangled, f"from {i}, segments swapped")
