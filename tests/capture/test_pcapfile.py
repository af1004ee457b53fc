"""pcap and pcapng, octet by octet as their drafts say, and what a damaged file still gives."""

from __future__ import annotations

import random
import struct

import pytest

from wirefmt.capture._engine import PcapReader

MAX_RECORD = 262144  # octets of the largest packet that is read
Packet = tuple[int, int, int, int, bytes]


def read(octets: bytes, chunk: int = 1 << 30) -> tuple[list[Packet], list[tuple[int, str]]]:
    reader = PcapReader()
    found: list[Packet] = []
    for at in range(0, len(octets), chunk):
        found += reader.feed(octets[at : at + chunk])
    found += reader.close()
    return found, reader.faults


# ---- pcap


def file_header(magic: int, order: str = "<", link_type: int = 1, version: tuple[int, int] = (2, 4)) -> bytes:
    return struct.pack(order + "IHHiIII", magic, *version, 0, 0, 65535, link_type)


def record(octets: bytes, seconds: int, fraction: int, order: str = "<", original: int | None = None) -> bytes:
    size = len(octets) if original is None else original
    return struct.pack(order + "IIII", seconds, fraction, len(octets), size) + octets


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_pcap_byte_orders_and_units(order: str, magic: int, unit: int) -> None:
    octets = file_header(magic, order) + record(b"abcd", 5, 7, order, 9) + record(b"", 6, 8, order, 1)
    assert read(octets) == ([(1, 5 * 10**9 + 7 * unit, 1, 9, b"abcd"), (2, 6 * 10**9 + 8 * unit, 1, 1, b"")], [])


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcap_of_kuznetzov_has_eight_more_octets_a_record(order: str) -> None:
    # interface index, protocol, packet type, padding
    long = struct.pack(order + "IIIIIHBB", 5, 7, 4, 9, 2, 0x0800, 0, 0) + b"abcd"
    assert read(file_header(0xA1B2CD34, order) + long + long)[0] == [
        (1, 5000007000, 1, 9, b"abcd"),
        (2, 5000007000, 1, 9, b"abcd"),
    ]


def test_pcap_of_red_hat_is_kuznetzovs_under_the_common_magic_number() -> None:
    long = struct.pack("<IIIIIHBB", 5, 7, 4, 9, 2, 0x0800, 0, 0) + b"abcd"
    for count in (2, 3, 4, 50):
        for chunk in (1, 33, 1 << 30):
            packets, faults = read(file_header(0xA1B2C3D4) + long * count, chunk)
            assert [p[4] for p in packets] == [b"abcd"] * count
            assert faults == []


@pytest.mark.parametrize("chunk", [1, 37, 1 << 30])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 40])
@pytest.mark.parametrize("head", [
    "0200000000020200000000010800", "0242ac1100020242ac1100030800", "0800000000000001030400060000000000000000",
])  # fmt: skip
def test_a_fraction_of_a_second_or_more_does_not_make_longer_headers(head: str, count: int, chunk: int) -> None:
    """tcpdump, tshark and capinfos read every record. The octets are those of usual headers of Ethernet and SLL2, behind which
    the beginning of a packet looks like a record of Red Hat 6.1."""
    for fraction in (1_000_000, 1_500_000, 999_999, 4_000_000_000):
        packets = [bytes.fromhex(head) + b"\x45\0\0\x28" + bytes(36 + 7 * i) for i in range(count)]
        octets = file_header(0xA1B2C3D4)
        for i, packet in enumerate(packets):
            octets += record(packet, 1_700_000_000 + i, fraction if i == 1 else 500)
        found, faults = read(octets, chunk)
        assert [p[4] for p in found] == packets
        assert faults == []


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcap_before_version_2_3_has_the_lengths_the_other_way_round(order: str) -> None:
    octets = struct.pack(order + "IIII", 5, 7, 9, 4) + b"abcd"
    assert read(file_header(0xA1B2C3D4, order, version=(2, 2)) + octets)[0] == [(1, 5000007000, 1, 9, b"abcd")]


def test_ixia_has_a_longer_file_header() -> None:
    assert read(file_header(0x1C0001AC) + bytes(4) + record(b"x", 1, 2))[0] == [(1, 1000000002, 1, 1, b"x")]


def test_upper_bits_of_the_link_type_are_no_part_of_it() -> None:
    assert read(file_header(0xA1B2C3D4, link_type=0x28000000 | 113) + record(b"x", 1, 2))[0][0][2] == 113


@pytest.mark.parametrize(
    ("octets", "fault"),
    [
        (b"", (0, "empty file")),
        (b"\xd4\xc3\xb2", (0, "file ends inside its header")),
        (file_header(0xA1B2C3D4)[:23], (0, "file ends inside its header")),
        (b"GET / HTTP/1.1\r\n", (0, "not a packet capture: unknown magic number")),
        (file_header(0xA1B2C3D4, version=(3, 0)), (0, "unknown version of the file format")),
        (file_header(0xA1B2C3D4) + bytes(15), (24, "file ends inside a record")),
        (file_header(0xA1B2C3D4) + record(b"abcd", 1, 1)[:-1], (24, "file ends inside a record")),
        (file_header(0xA1B2C3D4) + bytes(400), (24, "zeros where a record should be")),
    ],
)
def test_files_with_nothing_to_read(octets: bytes, fault: tuple[int, str]) -> None:
    assert read(octets) == read(octets, 1) == ([], [fault])


def traffic(records: int, seed: int = 1, largest: int = 1500) -> list[bytes]:
    chance = random.Random(seed)
    return [record(chance.randbytes(chance.randrange(40, largest)), 1000 + i, i) for i in range(records)]


@pytest.mark.parametrize("chunk", [1 << 30, 65536, 1000])
@pytest.mark.parametrize("length", [0x7FFFFFFF, 262145, 200000, 1])
def test_a_damaged_record_length_costs_few_packets(length: int, chunk: int) -> None:
    records = traffic(1500)
    bad = bytearray(records[500])
    bad[8:12] = struct.pack("<I", length)
    octets = file_header(0xA1B2C3D4) + b"".join([*records[:500], bytes(bad), *records[501:]])
    packets, faults = read(octets, chunk)
    expected = {r[16:] for r in records}
    good = [p for p in packets if p[4] in expected]
    assert len(faults) == 1
    # nothing before it is lost, and after it at most what the false length covers
    assert [p[4] for p in good[:500]] == [r[16:] for r in records[:500]]
    assert good[-1][4] == records[-1][16:]
    assert len(good) >= 1498 - (200000 // 750 + 50 if length == 200000 else 0)
    assert len(packets) - len(good) <= 2


def test_faults_of_one_file_are_bounded() -> None:
    block = struct.pack("<IIIIIIII", 6, 32, 9, 0, 0, 0, 0, 32)  # a packet of interface 9
    packets, faults = read(section() + block * 5000)
    assert packets == []
    assert len(faults) == 1000
    assert {f[1] for f in faults} == {"packet of an interface that was not described"}


# ---- pcapng


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<", version: tuple[int, int] = (1, 0)) -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, *version, -1), order)


def interface(order: str = "<", link_type: int = 1, snap_length: int = 0, options: bytes = b"") -> bytes:
    return block(1, struct.pack(order + "HHI", link_type, 0, snap_length) + options, order)


def enhanced(octets: bytes, ticks: int, order: str = "<", number: int = 0, original: int | None = None) -> bytes:
    size = len(octets) if original is None else original
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(octets), size)
    return block(6, head + octets, order)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("tsresol", "ticks", "ns"),
    [
        (None, 1_500_000, 1_500_000_000),  # default: 10**-6
        (0, 3, 3_000_000_000),
        (3, 1_500, 1_500_000_000),
        (9, 1_500_000_001, 1_500_000_001),
        (12, 1_500_000_000_001, 1_500_000_000),
        (0x80 | 10, 1024 + 512, 1_500_000_000),
        (0x80 | 32, (1 << 32) + (1 << 31), 1_500_000_000),
        (0x80 | 63, 3 << 62, 1_500_000_000),
        (0x80 | 127, (1 << 64) - 1, 0),
        (127, (1 << 64) - 1, 0),
        (6, (1 << 64) - 1, 2**63 - 1),  # past the year 2262: the last moment there is
    ],
)
def test_pcapng_time_resolutions(order: str, tsresol: int | None, ticks: int, ns: int) -> None:
    options = b"" if tsresol is None else option(9, bytes([tsresol]), order)
    octets = section(order) + interface(order, options=options) + enhanced(b"abc", ticks, order)
    assert read(octets) == ([(1, ns, 1, 3, b"abc")], [])


@pytest.mark.parametrize("shift", range(1, 128))
def test_binary_time_resolutions(shift: int) -> None:
    """if_tsresol with its top bit: the negative power of 2 that follows (section 4.2)."""
    for ticks in {1, 1 << min(shift, 63) - 1, 1 << min(shift, 63), (1 << 64) - 1 if shift > 30 else 1}:
        octets = section() + interface(options=option(9, bytes([0x80 | shift]))) + enhanced(b"abc", ticks)
        assert abs(read(octets)[0][0][1] - (ticks * 10**9 >> shift)) <= 1, (shift, ticks)


def test_the_last_second_that_64_bits_of_nanoseconds_hold() -> None:
    last = (2**63 - 1) // 10**9 - 1
    for seconds, ns in ((last, last * 10**9), (last + 2, 2**63 - 1)):
        octets = section() + interface(options=option(9, b"\x8a")) + enhanced(b"abc", seconds << 10)
        assert read(octets)[0][0][1] == ns


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_time_offset(order: str) -> None:
    for seconds in (100, -100):
        options = option(14, struct.pack(order + "q", seconds), order)
        octets = section(order) + interface(order, options=options) + enhanced(b"", 200_000_000, order)
        assert read(octets)[0][0][1] == (200 + seconds) * 10**9


def test_sections_of_either_byte_order_have_their_own_interfaces() -> None:
    octets = (
        section("<") + interface("<", 113) + interface("<", 276) + enhanced(b"a", 1, "<", 1)
        + section(">") + interface(">", 101) + enhanced(b"b", 2, ">", 0) + enhanced(b"c", 3, ">", 1)
    )  # fmt: skip
    packets, faults = read(octets)
    assert [(p[0], p[2], p[4]) for p in packets] == [(1, 276, b"a"), (2, 101, b"b")]
    assert [f[1] for f in faults] == ["packet of an interface that was not described"]


def test_simple_and_obsolete_packet_blocks() -> None:
    simple = block(3, struct.pack("<I", 9) + b"abcd")  # nine octets, of which the snapshot length keeps four
    obsolete = block(2, struct.pack("<HHIIII", 0, 77, 0, 5, 2, 2) + b"xy")
    packets, faults = read(section() + interface(snap_length=4) + simple + obsolete)
    assert packets == [(1, 0, 1, 9, b"abcd"), (2, 5000, 1, 2, b"xy")]
    assert faults == []


def test_a_simple_packet_is_not_longer_than_its_block() -> None:
    """Section 4.4: the original length may be larger than what was captured."""
    packets, faults = read(section() + interface() + block(3, struct.pack("<I", 1000) + b"abcd"))
    assert (packets, faults) == ([(1, 0, 1, 1000, b"abcd")], [])


@pytest.mark.parametrize("kind", [6, 0x0BAD])
def test_the_largest_block_that_is_read(kind: int) -> None:
    """A packet of the largest size, with its options."""
    packet = bytes(MAX_RECORD)
    options = bytes(65536 - 32)
    body = struct.pack("<IIIII", 0, 0, 1, len(packet), len(packet)) + packet + options
    large = block(kind, body)
    assert len(large) == MAX_RECORD + 65536
    packets, faults = read(section() + interface() + large + enhanced(b"x", 1), 1 << 20)
    assert [len(p[4]) for p in packets] == ([len(packet), 1] if kind == 6 else [1])
    assert faults == []


def test_other_blocks_are_passed_over_whatever_their_size() -> None:
    other = block(0x0BAD, bytes(100)) + block(0xA, b"s" * 2_000_000) + block(0x80000001, b"")
    octets = section() + interface() + other + enhanced(b"a", 1)
    for chunk in (1 << 30, 100_000):
        assert read(octets, chunk) == ([(1, 1000, 1, 1, b"a")], [])


def test_a_section_of_an_unknown_version_is_passed_over() -> None:
    one = section() + interface() + enhanced(b"a", 1)
    packets, faults = read(one + section(version=(2, 0)) + interface() + enhanced(b"b", 1) + one)
    assert [p[4] for p in packets] == [b"a", b"a"]
    assert faults == [(len(one), "unknown version of the file format")]


@pytest.mark.parametrize("chunk", [1 << 30, 4096, 7])
@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (4, 30, "implausible block length"),
        (4, 0, "implausible block length"),
        (4, 0xFFFFFFF0, "implausible block length"),
        (-4, 36, "block length at its end differs from the one at its start"),
    ],
)
def test_a_damaged_block_costs_itself(at: int, value: int, reason: str, chunk: int) -> None:
    blocks = [enhanced(bytes([i]) * 30, i) for i in range(100)]
    bad = bytearray(blocks[50])
    bad[at if at > 0 else len(bad) + at :][:4] = b""
    where = at if at > 0 else len(bad) + at
    bad[where : where + 4] = struct.pack("<I", value)
    before = section() + interface() + b"".join(blocks[:50])
    packets, faults = read(before + bytes(bad) + b"".join(blocks[51:]), chunk)
    assert faults == [(len(before), reason)]
    assert [p[4][0] for p in packets] == [*range(50), *range(51, 100)]


@pytest.mark.parametrize("off", [1, 2, 3])
def test_blocks_lie_on_multiples_of_four(off: int) -> None:
    """Section 3.1: what looks like blocks elsewhere is found neither in its place nor by its size."""
    before = section() + interface() + enhanced(b"a", 1)
    bad = block(6, bytes(20))
    bad = bad[:4] + struct.pack("<I", 30) + bad[8:]
    packets, faults = read(before + bad + bytes(off) + enhanced(b"b", 1) * 3)
    assert ([p[4] for p in packets], faults) == ([b"a"], [(len(before), "implausible block length")])
    size = 32 + off
    odd = struct.pack("<II", 6, size) + bytes(size - 12) + struct.pack("<I", size)
    packets, faults = read(before + bad + odd)
    assert ([p[4] for p in packets], faults) == ([b"a"], [(len(before), "implausible block length")])


def test_a_packet_that_does_not_fit_its_block() -> None:
    bad = block(6, struct.pack("<IIIII", 0, 0, 1, 9, 9) + b"abcd")
    packets, faults = read(section() + interface() + bad + enhanced(b"x", 1))
    assert [p[4] for p in packets] == [b"x"]
    assert [f[1] for f in faults] == ["packet does not fit in its block"]
