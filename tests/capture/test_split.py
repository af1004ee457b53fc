"""Byte ranges of one capture: they tile for every reader. True record boundaries are known, since the captures are
written here, among them captures that carry captures, whose packets look like records."""

from __future__ import annotations

import io
import random
import struct
from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lib.wire import Tcp, pcap
from wirefmt.capture import split
from wirefmt.capture._engine import PacketScanner, PcapReader, find_record

RAW = 101


def record(octets: bytes, seconds: int, order: str = "<") -> bytes:
    return struct.pack(order + "IIII", seconds, seconds % 1000000, len(octets), len(octets)) + octets


def header(order: str = "<", magic: int = 0xA1B2C3D4) -> bytes:
    return struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, RAW)


def segment(payload: bytes, number: int) -> bytes:
    """IPv4 and TCP around a payload; a total length of 0 where it does not fit, as segmentation offload has it."""
    size = 40 + len(payload)
    total = size if size < 65536 else 0
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, total, 1, 0, 64, 6, 0, 0x0A000001, 0x0A000002)
    return ip + struct.pack(">HHIIBBHHH", 1883, 40000, number & 0xFFFFFFFF, 0, 0x50, 0x10, 9, 0, 0) + payload


def plain(size: int, chance: random.Random, order: str = "<") -> list[bytes]:
    records: list[bytes] = []
    while size > 0:
        octets = segment(chance.randbytes(chance.choice([0, 20, 200, 1460])), len(records))
        records.append(record(octets, 1_600_000_000 + len(records), order))
        size -= len(records[-1])
    return records


def carrying(size: int, chance: random.Random, largest: int, inner_size: int) -> list[bytes]:
    """A file transfer of a capture: its octets, cut into segments of `largest` octets."""
    inner = header() + b"".join(
        record(segment(bytes(chance.randrange(inner_size)), i), 1_500_000_000 + i)
        for i in range(2 * size // inner_size)
    )
    records = []
    for at in range(0, min(len(inner), size), largest):
        records.append(record(segment(inner[at : at + largest], at), 1_600_000_000 + at))
        if chance.random() < 0.3:
            records.append(record(segment(b"", at), 1_600_000_000 + at))
    return records


CAPTURES = {
    "plain": lambda c: plain(2_500_000, c),
    "a capture in segments of 1448": lambda c: carrying(2_500_000, c, 1448, 300),
    "small records in segments of 64 KiB": lambda c: carrying(4_000_000, c, 65495, 100),
    "records in segments of 256 KiB": lambda c: carrying(5_000_000, c, 262000, 1400),
    "every segment begins with a record": lambda c: [
        record(segment(b"".join(record(segment(bytes(60), i), 5) for i in range(600)), 0), 7) for _ in range(60)
    ],
}


@pytest.mark.parametrize("name", CAPTURES)
def test_any_offset_leads_to_the_next_true_record(name: str) -> None:
    chance = random.Random(name)
    records = CAPTURES[name](chance)
    octets = header() + b"".join(records)
    starts = [24]
    for r in records:
        starts.append(starts[-1] + len(r))
    file = io.BytesIO(octets)
    for _ in range(120):
        at = chance.randrange(len(octets) + 1)
        found = split.resolve(file, split.Range(at, len(octets), octets[:24], None, False))
        assert found.begin == starts[bisect_left(starts, at)]
        assert found.end == len(octets)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("exact", [False, True])
def test_ranges_tile_and_give_the_packets_of_the_whole(order: str, exact: bool) -> None:
    chance = random.Random(5)
    octets = header(order) + b"".join(plain(1_500_000, chance, order))
    reader = PcapReader()
    whole = [p[4] for p in reader.feed(octets) + reader.close()]
    file = io.BytesIO(octets)
    for split_size in (len(octets) + 1, 400_000, 100_001, 17_777):
        pieces = split.ranges(file, split_size, exact=exact)
        resolved = [split.resolve(file, p) for p in pieces]
        assert resolved[0].begin == 24
        assert resolved[-1].end == len(octets)
        assert [p.end for p in resolved[:-1]] == [p.begin for p in resolved[1:]]
        found: list[bytes] = []
        for piece in pieces:
            if piece.first_frame is not None:
                assert piece.first_frame == len(found) + 1
            counted = split.count_frames(file, piece)
            reader = PcapReader()
            reader.feed(piece.prefix)
            packets = [p for chunk in split.read_range(file, piece, 5000) for p in reader.feed(chunk)] + reader.close()
            assert reader.faults == []
            assert counted.frames == len(packets)
            found += [p[4] for p in packets]
        assert found == whole


def pcapng(chance: random.Random) -> bytes:
    """Sections of either byte order, with interfaces described among the packets."""
    octets = b""
    for order in "<><":

        def block(kind: int, body: bytes, order: str = order) -> bytes:
            body += bytes(-len(body) % 4)
            size = struct.pack(order + "I", len(body) + 12)
            return struct.pack(order + "I", kind) + size + body + size

        octets += block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
        octets += block(1, struct.pack(order + "HHI", RAW, 0, 0))
        for i in range(400):
            if i == 200:
                octets += block(1, struct.pack(order + "HHI", 228, 0, 0) + struct.pack(order + "HHB3x", 9, 1, 9))
            data = segment(chance.randbytes(chance.randrange(1400)), i)
            octets += block(6, struct.pack(order + "IIIII", int(i > 200), 0, i, len(data), len(data)) + data)
            if chance.random() < 0.1:
                octets += block(5, bytes(20))
    return octets


def test_ranges_of_pcapng_know_sections_interfaces_and_frames() -> None:
    octets = pcapng(random.Random(6))
    file = io.BytesIO(octets)
    reader = PcapReader()
    whole = reader.feed(octets) + reader.close()
    assert len(whole) == 1200
    for split_size in (300_000, 50_000, 3_000):
        pieces = split.ranges(file, split_size)
        assert len(pieces) > len(octets) // split_size // 2
        assert all(p.exact for p in pieces)
        assert [p.end for p in pieces[:-1]] == [p.begin for p in pieces[1:]]
        assert (pieces[0].begin, pieces[-1].end) == (0, len(octets))
        seen: list[Any] = []
        for piece in pieces:
            reader = PcapReader()
            assert reader.feed(piece.prefix) == []
            packets = [p for chunk in split.read_range(file, piece) for p in reader.feed(chunk)] + reader.close()
            assert reader.faults == []
            assert split.count_frames(file, piece).frames == len(packets)
            assert piece.first_frame == len(seen) + 1
            seen += packets
        assert [p[1:] for p in seen] == [p[1:] for p in whole]


def test_the_packets_table_is_the_same_in_ranges() -> None:
    octets = header() + b"".join(plain(600_000, random.Random(7)))
    file = io.BytesIO(octets)

    def rows(scanner: PacketScanner) -> list[tuple[object, ...]]:
        batch = scanner.take(final=True)
        return [] if batch is None else list(zip(*(list(batch[n]) for n in ("frame_no", "segment")), strict=True))

    scanner = PacketScanner(columns=["frame_no", "segment"])
    scanner.begin_file("x")
    scanner.feed(octets)
    scanner.end_file()
    whole = rows(scanner)
    found: list[tuple[object, ...]] = []
    for piece in split.ranges(file, 70_001):
        first = split.count_frames(file, replace(piece, begin=0, end=piece.begin)).frames + 1
        scanner.begin_file("x", prefix=piece.prefix, offset=piece.begin, first_frame=first)
        for chunk in split.read_range(file, piece):
            scanner.feed(chunk)
        scanner.end_file()
        found += rows(scanner)
    assert found == whole


def test_fragments_are_counted() -> None:
    fragment = bytearray(segment(b"x" * 16, 1))
    fragment[6] = 0x20
    octets = header() + record(bytes(fragment), 1) + record(segment(b"x", 1), 1) * 3
    counted = split.count_frames(io.BytesIO(octets), split.ranges(io.BytesIO(octets), 1 << 20)[0])
    assert (counted.frames, counted.fragments) == (4, 1)


@pytest.mark.parametrize("octets", [b"", b"\xd4\xc3\xb2\xa1", b"no capture at all" * 100, header()])
def test_what_cannot_be_split_is_one_range(octets: bytes) -> None:
    (piece,) = split.ranges(io.BytesIO(octets), 10)
    assert piece.end == len(octets)


@pytest.mark.parametrize("size", range(24))
def test_a_part_of_the_header_is_no_prefix(size: int) -> None:
    """Without the whole header the size of a record's header is not known."""
    for window in (b"", b"\1", bytes(range(1, 34)), b"\1" * 100):
        with pytest.raises(ValueError, match="not the beginning of a pcap file"):
            find_record(header()[:size], window, 24, True, 100)


def test_damaged_octets_around_a_split_lose_no_more_than_one_reader_does() -> None:
    chance = random.Random(8)
    records = plain(2_000_000, chance)
    octets = bytearray(header() + b"".join(records))
    octets[1_000_000:1_000_400] = chance.randbytes(400)
    reader = PcapReader()
    whole = {p[4] for p in reader.feed(octets) + reader.close()}
    file = io.BytesIO(octets)
    for split_size in (1_000_100, 999_000, 250_000):
        found = set()
        ends = []
        for piece in split.ranges(file, split_size):
            true = split.resolve(file, piece)
            ends.append((true.begin, true.end))
            reader = PcapReader()
            reader.feed(piece.prefix)
            found |= {p[4] for chunk in split.read_range(file, piece) for p in reader.feed(chunk)}
            found |= {p[4] for p in reader.close()}
        assert [e for _, e in ends[:-1]] == [b for b, _ in ends[1:]]
        assert len(whole - found) <= 3


def test_the_only_record_of_a_range_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    tcp = Tcp()
    path.write_bytes(pcap([*tcp.open(), *(tcp.segment(0, bytes(size)) for size in (3000, 900, 3000, 20, 5000, 10))]))
    counts = [split.count_frames(path, piece).frames for piece in split.ranges(path, 2000)]
    assert sum(counts) == 9
    assert 1 in counts
