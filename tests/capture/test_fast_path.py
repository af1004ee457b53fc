"""The fast path of records, packets and segments: its rows and counters are those of the general one."""

from __future__ import annotations

import io
import random
import struct
from typing import Any

import pytest

from lib.wire import ACK, FIN, PSH, RST, SYN, Tcp, connack, connect, pcap, publish
from wirefmt import capture
from wirefmt.capture._engine import CaptureDecoder, StreamTrace

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

URG = 32


# ---- segments


def script(seed: int) -> list[tuple[int, int, int, int, bytes, int]]:
    """A connection as a capture may show it: (sender, flags, sequence number, acknowledgement, payload, size on the wire)."""
    chance = random.Random(seed)
    seq = [chance.choice((100, 2**32 - 10)), 5000]
    packets = []
    if chance.random() < 0.8:
        packets += [(0, SYN, seq[0] - 1, 0, b"", 0), (1, SYN | ACK, seq[1] - 1, seq[0], b"", 0)]
    for _ in range(chance.randrange(40)):
        side = chance.randrange(2)
        payload = chance.randbytes(chance.choice((0, 1, 1, 2, 9)))
        size = len(payload) + (chance.random() < 0.03)
        flags = ACK | chance.choice((0, 0, PSH, URG, 0xC0))
        if chance.random() < 0.05:
            flags = chance.choice((0, PSH, SYN, SYN | ACK, FIN | ACK, FIN | ACK, RST, RST | ACK))
        number = seq[side] + (chance.choice((-9, -1, 1, 7)) if chance.random() < 0.1 else 0)
        ack = seq[1 - side] + (chance.choice((-3, 2)) if chance.random() < 0.1 else 0)
        packets.append((side, flags, number, ack, payload, size))
        if chance.random() < 0.95:  # otherwise it is sent again, or the next one overlaps it
            seq[side] = number + size + bool(flags & FIN)
        if chance.random() < 0.05:
            packets.pop()  # not captured
    return packets


def traced(packets: list[tuple[int, int, int, int, bytes, int]], later_ns: int) -> tuple[list[Any], dict[str, Any]]:
    """Events and counters. `later_ns`: the time of each packet but the first."""
    trace = StreamTrace()
    ends = (0x0A000001, 40000), (0x0A000002, 1883)
    for number, (side, flags, seq, ack, payload, size) in enumerate(packets):
        trace.segment_in(
            ends[side], ends[1 - side], flags, seq, ack, payload, size=size, ts_ns=later_ns if number else 0, frame_no=number
        )  # fmt: skip
    trace.finish()
    return [
        event[:3] for event in trace.events
    ], trace.stats  # without the flow_id of an end, which depends on the time


@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_segments_in_order_and_out_of_order_in_time(start: int) -> None:
    """A segment that is earlier than one before it, if only by a nanosecond, takes the general path."""
    for seed in range(start, start + 100):
        packets = script(seed)
        assert traced(packets, 0) == traced(packets, -1), seed


@pytest.mark.parametrize(("idle", "flows"), [(59, 2), (60, 2), (61, 1)])
def test_the_next_octets_after_a_long_silence_begin_another_flow(idle: int, flows: int) -> None:
    trace = StreamTrace(idle_seconds=idle)
    ends = (0x0A000001, 40000), (0x0A000002, 1883)
    for side, seq, payload, ts_ns in [(0, 1, b"a", 0), (1, 1, b"b", 0), (0, 2, b"c", 60 * 10**9 + 1)]:
        trace.segment_in(ends[side], ends[1 - side], ACK, seq, 2 - side, payload, ts_ns=ts_ns)
    assert trace.stats["flows"] == flows


# ---- records and packets


def directly(data: bytes) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Rows of a file, and outcomes of its packets."""
    reader = capture.read(io.BytesIO(data), batch_rows=1 << 30)
    rows = pa.table(reader).to_pylist()
    return rows, reader.stats["packet_kinds"]


def in_two_steps(data: bytes) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The same by the packets table, whose records and packets take the general path."""
    scanner, decoder = capture.PacketScanner(), CaptureDecoder(batch_rows=1 << 30)
    scanner.begin_file("<file>", 0)
    decoder.begin_file("<file>", 0)
    scanner.feed(data)
    scanner.end_file()
    batch = scanner.take(final=True)
    octets = b"" if batch is None else b"".join(pa.record_batch(batch)["segment"].to_pylist())
    assert decoder.feed_segments(octets) == len(octets)
    assert decoder.finish()
    rows = decoder.take(final=True)
    return [] if rows is None else pa.record_batch(rows).to_pylist(), scanner.stats


def same_outcomes(kinds: dict[str, int], said: dict[str, int]) -> bool:
    """The packets table has fragments as they are; what they are otherwise depends on whether they fit together."""
    return all(kinds[name] == said[name] for name in (["tcp"] if said["fragments"] else kinds))


def conversation(chance: random.Random) -> list[bytes]:
    """Ethernet frames of one connection: with options, padding, and a message in each segment."""
    tcp = Tcp(client_port=chance.randrange(1024, 65536))
    frames = [*tcp.open(), *tcp.send(0, connect("c")), *tcp.send(1, connack())]
    for number in range(4):
        frames += tcp.send(
            0, publish(f"t/{number}", chance.randbytes(chance.randrange(60))), size=chance.choice((7, 1448))
        )
    frames += [tcp.segment(1), *tcp.close()]
    return [f + bytes(chance.choice((0, max(60 - len(f), 0), 5))) for f in frames]


def damaged(seed: int) -> bytes:
    """A capture with a few wrong octets in its headers."""
    chance = random.Random(seed)
    frames = conversation(chance)
    data = bytearray(pcap(frames, snaplen=chance.choice((50, 54, 70, 262144))))
    at, records = 24, []
    while at < len(data):
        records.append(at)
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    for _ in range(chance.randrange(4)):
        place = min(chance.choice(records) + chance.randrange(16 + 54), len(data) - 1)
        data[place] = chance.choice((data[place] ^ 1 << chance.randrange(8), chance.randrange(256), 0, 0xFF))
    if chance.random() < 0.1:
        data[20] = chance.choice((0, 101, 113, 228))
    return bytes(data[: -chance.randrange(1, 40)] if chance.random() < 0.1 else data)


@pytest.mark.parametrize("start", range(0, 500, 50))
def test_records_and_packets_with_wrong_octets(start: int) -> None:
    for seed in range(start, start + 50):
        data = damaged(seed)
        rows, kinds = directly(data)
        expected, said = in_two_steps(data)
        assert rows == expected, seed
        assert same_outcomes(kinds, said), seed


#: What every octet of the headers may be: those of the record's sizes, Ethernet's type, IPv4 and TCP.
PLACES = [*range(8, 16), *range(28, 70)]


@pytest.mark.parametrize("place", PLACES)
def test_each_octet_of_the_headers(place: int) -> None:
    """Any value of one octet of the record, Ethernet, IPv4 and TCP headers of the first segment with payload."""
    tcp = Tcp()
    octets = connect("c") + publish("t", b"x")
    (frame,) = tcp.send(0, octets)
    for padding in (b"", bytes(3)):
        for value in {*range(0, 256, 5), *(1 << bit for bit in range(8)), 6, 8, 0x45}:
            data = bytearray(pcap([frame + padding, *tcp.send(1, connack())]))
            data[24 + place] = value
            rows, kinds = directly(bytes(data))
            expected, said = in_two_steps(bytes(data))
            assert rows == expected, (place, value)
            assert same_outcomes(kinds, said), (place, value)


@pytest.mark.parametrize("size", range(1, 400, 7))
def test_records_in_chunks_of_any_size(size: int) -> None:
    data = pcap(conversation(random.Random(1)))
    decoder = CaptureDecoder()
    decoder.begin_file("<file>", 0)
    for at in range(0, len(data), size):
        piece = data[at : at + size]
        assert decoder.feed(piece) == len(piece)
    assert decoder.end_file()
    assert pa.record_batch(decoder.take(final=True)).to_pylist() == directly(data)[0]


def test_the_order_of_octets_in_the_file_and_its_unit_of_time_change_nothing_else() -> None:
    """Only little-endian files take the short path."""
    data = pcap(conversation(random.Random(2)))
    swapped = bytearray(struct.pack(">IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
    fine = bytearray(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
    at = 24
    while at < len(data):
        seconds, fraction, size, original = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16 : at + 16 + size]
        swapped += struct.pack(">IIII", seconds, fraction, size, original) + frame
        fine += struct.pack("<IIII", seconds, fraction * 1000, size, original) + frame
        at += 16 + size
    assert directly(bytes(swapped)) == directly(data) == directly(bytes(fine))
    assert len(directly(data)[0]) == 6


@pytest.mark.parametrize("link_type", [0, 12, 101, 113, 147])
def test_only_the_link_type_makes_octets_ethernet(link_type: int) -> None:
    """Ethernet frames in a file of another link type: a MAC address is not an address family, version of IP or EtherType."""
    client = Tcp()
    data = bytearray(pcap([*client.open(), client.segment(0, connect()), client.segment(0, publish("a", b"x"))]))
    with capture.read(io.BytesIO(bytes(data))) as reader:
        assert sum(batch.num_rows for batch in reader) == 2
    data[20:24] = struct.pack("<I", link_type)
    with capture.read(io.BytesIO(bytes(data))) as reader:
        assert sum(batch.num_rows for batch in reader) == 0
    assert reader.stats["packet_kinds"]["tcp"] == 0
