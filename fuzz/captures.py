"""Captures that targets make: connections in layers, in pcapng, in WebSockets; and small ones out of the samples."""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import cramjam
from common import ROOT

from lib.paths import CAPTURES
from lib.wire import Tcp, pcap
from wirefmt.capture._engine import PacketTrace, PcapReader

FOLDERS = (ROOT / "tests" / "data", ROOT / "samples", *CAPTURES)
SEED_OCTETS = 12 << 10  # of a capture that is a seed
PER_FILE = 6  # seeds of one file


class Packet(NamedTuple):
    ts_ns: int
    link_type: int
    original: int
    octets: bytes


# ------------------------------------------------------------------------------------------------ out of the samples


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        if folder.exists():
            yield from sorted(p for p in folder.rglob("*") if {".pcap", ".pcapng", ".cap"} & set(p.suffixes))


def octets_of(path: Path) -> bytes:
    octets = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(octets)
    return bytes(cramjam.zstd.decompress(octets)) if path.suffix == ".zst" else octets


def packets_of(octets: bytes) -> list[Packet]:
    reader = PcapReader()
    found = reader.feed(octets) + reader.close()
    return [Packet(ts, link_type, original, kept) for _, ts, link_type, original, kept in found]


def connections(packets: list[Packet]) -> list[list[Packet]]:
    """The packets of each TCP connection; the other packets together are one more."""
    found: dict[object, list[Packet]] = {}
    for packet in packets:
        _, said = PacketTrace(tunnels=True).parse(packet.link_type, packet.octets, original_size=packet.original)
        ends = frozenset((said[f"{e}_ip"], said[f"{e}_port"]) for e in ("src", "dst")) if said else packet.link_type
        found.setdefault((packet.link_type, ends), []).append(packet)
    return list(found.values())


def small(packets: list[Packet]) -> Iterator[list[Packet]]:
    """From the beginning, and from the midst, as many packets as a seed has space for."""
    for first in {0, len(packets) // 2}:
        size, last = 0, first
        while last < len(packets) and size + len(packets[last].octets) + 16 <= SEED_OCTETS:
            size += len(packets[last].octets) + 16
            last += 1
        if last > first:
            yield packets[first:last]


def written(packets: list[Packet]) -> bytes:
    """As pcap, in nanoseconds."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, packets[0].link_type if packets else 1)]
    for p in packets:
        seconds, rest = divmod(p.ts_ns, 10**9)
        out.append(struct.pack("<IIII", seconds & 0xFFFFFFFF, rest, len(p.octets), p.original) + p.octets)
    return b"".join(out)


def sample_captures() -> Iterator[bytes]:
    """Small captures out of every sample and every capture of the tests, packed ones too."""
    r = random.Random(7)
    for path in files():
        if path.stat().st_size > 4 << 20:
            continue
        octets = octets_of(path)
        if len(octets) <= SEED_OCTETS:
            yield octets
        parts = [part for connection in connections(packets_of(octets)) for part in small(connection)]
        for part in r.sample(parts, min(PER_FILE, len(parts))):
            yield written(part)


# ------------------------------------------------------------------------------------------------ pcapng


def padded(octets: bytes) -> bytes:
    return octets + bytes(-len(octets) % 4)


def block(order: str, kind: int, body: bytes) -> bytes:
    size = struct.pack(order + "I", 12 + len(padded(body)))
    return struct.pack(order + "I", kind) + size + padded(body) + size


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + padded(value)


#: if_tsresol: its octet, ticks a second.
RESOLUTIONS = ((None, 10**6), (6, 10**6), (9, 10**9), (0x80 | 30, 1 << 30))


def pcapng(packets: list[Packet], choice: int) -> tuple[bytes, list[Packet]]:
    """As pcapng, and the packets as it has them: byte order, resolution and kinds of blocks by the bits of `choice`."""
    order = "<>"[choice & 1]
    code, ticks = RESOLUTIONS[choice >> 1 & 3]
    r = random.Random(choice)
    head = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    options = option(order, 3, b"os") + option(order, 4, b"fuzz") + bytes(4)
    out = [block(order, 0x0A0D0D0A, head + (options if choice & 8 else b""))]
    interfaces: dict[int, int] = {}
    kept = []
    for p in packets:
        if p.link_type not in interfaces:
            options = option(order, 2, b"eth0") + (option(order, 9, bytes([code])) if code is not None else b"")
            body = struct.pack(order + "HHI", p.link_type, 0, 0) + options + bytes(4)
            interfaces[p.link_type] = len(interfaces)
            out.append(block(order, 1, body))
        stamp = p.ts_ns * ticks // 10**9
        number = interfaces[p.link_type]
        sizes = struct.pack(order + "II", len(p.octets), p.original)
        kind = r.choice((6, 6, 6, 2)) if choice & 16 else 6
        if kind == 2:  # the obsolete packet block
            body = (
                struct.pack(order + "HHII", number, 0xFFFF, stamp >> 32, stamp & 0xFFFFFFFF) + sizes + padded(p.octets)
            )
        else:
            body = struct.pack(order + "III", number, stamp >> 32, stamp & 0xFFFFFFFF) + sizes + padded(p.octets)
            if r.random() < 0.3:
                body += option(order, 2, bytes(4)) + option(order, 1, b"comment") + bytes(4)
        out.append(block(order, kind, body))
        kept.append(p._replace(ts_ns=stamp * 10**9 // ticks))
        if choice & 32 and r.random() < 0.3:  # names, statistics, decryption secrets, custom, unknown
            out.append(block(order, r.choice((4, 5, 10, 0xBAD, 0x40000BAD, 77)), bytes(r.choice((12, 16, 40)))))
    return b"".join(out), kept


# ------------------------------------------------------------------------------------------------ layers


def ip4(body: bytes, protocol: int, number: int = 5) -> bytes:
    head = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(body), number, 0, 64, protocol, 0, 0x0A000009, 0x0A00000A)
    return head + body


def ip6(body: bytes, next_header: int) -> bytes:
    return struct.pack(">IHBB", 6 << 28, len(body), next_header, 64) + bytes(15) + b"\1" + bytes(15) + b"\2" + body


def udp(port: int, body: bytes) -> bytes:
    return struct.pack(">HHHH", 55555, port, 8 + len(body), 0) + body


def tagged(frame: bytes, tag: bytes) -> bytes:
    return frame[:12] + tag + frame[12:]


def mpls(frame: bytes) -> bytes:
    return frame[:12] + b"\x88\x47\0\1\x01\x40" + frame[14:]


def pppoe(frame: bytes) -> bytes:
    size = len(frame) - 14 + 2
    return frame[:12] + b"\x88\x64\x11\0\0\1" + size.to_bytes(2, "big") + b"\0\x21" + frame[14:]


def fragments(frame: bytes, number: int) -> list[bytes]:
    """The IP packet of an Ethernet frame in two fragments, the second one first."""
    head, body = frame[14:34], frame[34:]
    cut = len(body) // 2 & ~7
    if cut == 0 or head[0] != 0x45:
        return [frame]
    out = []
    for at, part, more in ((cut, body[cut:], 0), (0, body[:cut], 0x2000)):
        words = struct.pack(">HHH", 20 + len(part), number & 0xFFFF, more | at // 8)
        out.append(frame[:14] + head[:2] + words + head[8:] + part)
    return out


HEADER = bytes(12)
#: Layers around an Ethernet frame of IPv4, each one an Ethernet frame again.
LAYERS = (
    lambda f: f,
    lambda f: tagged(f, b"\x81\0\0\7"),
    lambda f: tagged(f, b"\x88\xa8\0\7\x81\0\0\x08"),
    mpls,
    pppoe,
    lambda f: HEADER + b"\x08\0" + ip4(f[14:], 4),  # IP in IP
    lambda f: HEADER + b"\x08\0" + ip4(b"\0\0\x08\0" + f[14:], 47),  # GRE
    lambda f: HEADER + b"\x08\0" + ip4(b"\x30\0\x65\x58\0\0\0\1\0\0\0\2" + f, 47),  # GRE with key and number, Ethernet
    lambda f: HEADER + b"\x08\0" + ip4(udp(4789, b"\x08\0\0\0\0\0\x07\0" + f), 17),  # VXLAN
    lambda f: (
        HEADER + b"\x08\0" + ip4(udp(6081, b"\x02\0\x65\x58\0\0\x07\0" + bytes(8) + f), 17)
    ),  # GENEVE with an option
    lambda f: HEADER + b"\x86\xdd" + ip6(f[14:], 4),  # IP in IPv6
    lambda f: HEADER + b"\x86\xdd" + ip6(bytes((17, 0, 1, 4, 0, 0, 0, 0)) + udp(4789, b"\x08\0\0\0\0\0\x07\0" + f), 0),
)
#: Link layers in place of Ethernet.
LINKS: tuple[tuple[int, Callable[[bytes], bytes]], ...] = (
    (1, lambda f: f),
    (113, lambda f: struct.pack(">HHH8s", 0, 1, 6, bytes(8)) + f[12:]),
    (276, lambda f: f[12:14] + struct.pack(">HIHBB8s", 0, 2, 1, 0, 6, bytes(8)) + f[14:]),
    (101, lambda f: f[14:]),
    (0, lambda f: (b"\x02\0\0\0" if f[12:14] == b"\x08\0" else b"\x1e\0\0\0") + f[14:]),
    (9, lambda f: b"\xff\x03" + (b"\0\x21" if f[12:14] == b"\x08\0" else b"\0\x57") + f[14:]),
    (104, lambda f: b"\x0f\0" + f[12:14] + f[14:]),
)


def is_ip(frame: bytes) -> bool:
    return frame[12:14] in (b"\x08\0", b"\x86\xdd")


def layered(frames: list[bytes], choice: bytes) -> list[Packet]:
    """Ethernet frames in the layers that the octets of `choice` name, the first one is the link."""
    link_type, link = LINKS[choice[0] % len(LINKS)]
    out = []
    for number, frame in enumerate(frames):
        pieces = fragments(frame, number) if choice[0] & 0x80 else [frame]
        for piece in pieces:
            found = piece
            for octet in choice[1:]:
                found = LAYERS[octet % len(LAYERS)](found) if is_ip(found) or octet % len(LAYERS) in (1, 2) else found
            if link_type != 1 and not is_ip(found):
                return []
            octets = link(found)
            out.append(Packet(1_700_000_000 * 10**9 + number * 10**6, link_type, len(octets), octets))
    return out


def conversation(port: int, said: list[tuple[int, bytes]], size: int = 1448) -> list[bytes]:
    """Ethernet frames of a connection on which these octets are sent, in this order."""
    tcp = Tcp(port)
    frames = tcp.open()
    for side, octets in said:
        frames += tcp.send(side, octets, size)
    return frames + tcp.close()


def capture_of(frames: list[bytes]) -> bytes:
    return pcap(frames)


# ------------------------------------------------------------------------------------------------ odd packets and files


def segment(payload: bytes = b"\xc0\0", words: int = 5) -> bytes:
    """TCP to a port of MQTT's."""
    return struct.pack(">HHIIBBHHH", 40000, 1883, 1, 1, words << 4, 0x18, 65535, 0, 0) + payload


def ip4_of(
    body: bytes, protocol: int, *, total: int | None = None, words: int = 5, fragment: int = 0, number: int = 9
) -> bytes:
    size = 20 + len(body) if total is None else total
    head = struct.pack(">BBHHHBBHII", 0x40 | words, 0, size, number, fragment, 64, protocol, 0, 0x0A000002, 0x0A000001)
    return head + body


def ip6_of(body: bytes, kind: int, size: int | None = None) -> bytes:
    ends = bytes(15) + b"\1" + bytes(15) + b"\2"
    return struct.pack(">IHBB", 6 << 28, len(body) if size is None else size, kind, 64) + ends + body


def gre(flags: int, kind: int, rest: bytes) -> bytes:
    return ip4_of(struct.pack(">HH", flags, kind) + rest, 47)


def tunnel_udp(port: int, body: bytes) -> bytes:
    return ip4_of(struct.pack(">HHHH", 50000, port, 8 + len(body), 0) + body, 17)


def attribute(order: str, kind: int, value: bytes) -> bytes:
    return padded(struct.pack(order + "HH", 4 + len(value), kind) + value)


def odd_packets() -> Iterator[tuple[int, bytes]]:
    """Link type and octets of packets in every layer that is known, whole and cut in the midst of each."""
    ip = ip4_of(segment(), 6)
    frame = bytes(12) + b"\x08\0" + ip
    jumbo = b"\x06\0\0\1\2\0\xc2\4" + struct.pack(">I", 32 + len(segment())) + b"\0\0\0\0"
    hops = bytes((6, 0, 1, 4, 0, 0, 0, 0))
    whole: list[tuple[int, bytes]] = [
        (51, b"\x11\0\0\1" + struct.pack(">H", len(ip) + 2) + b"\0\x21" + ip),
        (9, b"\x21" + ip),
        (50, b"\xff\3\2\x81" + b"\0\1\1\x40" + ip),
        (9, b"\xff\3\xc0\x21\1\1\0\4"),
        (239, b"\2\0\0\0" + attribute("<", 1, b"abc") + attribute("<", 9, ip)),
        (239, b"\2\0\0\0" + attribute(">", 1, b"abc") + attribute(">", 9, ip)),
        (239, b"\2\0\0\0\1\0\1\0" + ip),
        (239, b"\2\0\0\0" + attribute("<", 1, b"a")),
        (147, frame),
        (0, b"\x07\0\0\0" + ip),
        (108, b"\0\0\0\2" + ip),
        (101, b"\x50" + ip[1:]),
        (101, b""),
        (12, ip),
        (1, bytes(12) + struct.pack(">H", 8 + len(ip)) + b"\xaa\xaa\3\0\0\0\x08\0" + ip),
        (1, bytes(12) + b"\x08\6" + bytes(28)),
        (1, bytes(12) + b"\x88\x47\0\0\1\1" + b"\0\x20\0\0" + frame),
        (1, bytes(12) + b"\x88\x47\0\0\1\1" + b"\0\2\0\0" + frame),
        (1, bytes(12) + b"\x88\x47\0\0\1\1" + b"\x10\0\0\0" + frame),
        (1, bytes(12) + b"\x88\x47" + b"\0\0\0\1" * 40 + ip),
        (1, bytes(12) + b"\x81\0\0\1" * 40 + b"\x08\0" + ip),
        (1, bytes(12) + b"\x88\x48\0\0\0\1\0\0\1\1" + ip),
        (1, bytes(12) + b"\x86\xdd" + ip6_of(segment(), 6)),
        (101, ip4_of(segment(), 6, total=0)),
        (101, ip4_of(segment(), 6, words=4)),
        (101, ip4_of(segment(), 6, total=10)),
        (101, ip4_of(segment(), 6, words=15)),
        (101, ip4_of(segment(), 1)),
        (101, ip4_of(segment(), 132)),
        (101, ip4_of(segment(words=3), 6)),
        (101, ip4_of(segment(words=15), 6)),
        (101, ip6_of(segment(), 6, 0)),
        (101, ip6_of(jumbo + segment(), 0, 0)),
        (101, ip6_of(b"\6\0\1\0\0\0\0\xc2" + segment(), 0, 0)),
        (101, ip6_of(b"\6\0\0\0\0\0\0\0" + segment(), 0, 0)),
        (101, ip6_of(b"\6\0\xc2\2\0\0\0\0" + segment(), 0, 0)),
        (101, ip6_of(b"", 0, 0)),
        (101, ip6_of(hops + segment(), 60)),
        (101, ip6_of(b"\6\3" + bytes(6) + segment(), 43, 20)),
        (101, ip6_of(bytes((51, 1, *bytes(10))) + segment(), 51)),
        (101, ip6_of(b"\6\1" + bytes(10) + segment(), 51)),
        (101, ip6_of(b"\0\0\1\4\0\0\0\0" * 40 + segment(), 0)),
        (101, ip6_of(b"\x3a\0\0\0\0\0\0\1" + segment(), 44)),
        (101, ip6_of(b"\6\0\0\1\0\0\0\7" + segment()[:16], 44)),
        (101, ip6_of(b"\6\0\0\x10\0\0\0\7" + segment()[16:], 44)),
        (101, ip6_of(segment(), 58)),
        (101, ip4_of(segment()[:13], 6, fragment=0x2000)),
        (101, ip4_of(b"", 6, fragment=0x2000)),
        (101, ip4_of(segment(), 6, fragment=0x1FFF)),
        (101, ip4_of(segment()[:16], 6, fragment=0x2000, number=3)),
        (101, ip4_of(ip4_of(segment(), 6, fragment=0x2000)[:32], 4, fragment=0x2000, number=4)),
        (101, gre(0, 0x0800, ip)),
        (101, gre(0x8000, 0x6558, bytes(4) + frame)),
        (101, gre(0x3001, 0x880B, struct.pack(">HHI", len(ip) + 1, 7, 1) + b"\x21" + ip)),
        (101, gre(0x3081, 0x880B, struct.pack(">HHII", len(ip) + 1, 7, 1, 1) + b"\x21" + ip)),
        (101, gre(0x1000, 0x88BE, bytes(12) + frame)),
        (101, gre(0, 0x88BE, frame)),
        (101, gre(0x1000, 0x22EB, bytes(4 + 12) + frame)),
        (101, gre(0x1000, 0x22EB, bytes(4 + 11) + b"\1" + bytes(8) + frame)),
        (101, gre(0x4000, 0x0800, bytes(4) + ip)),
        (101, gre(2, 0x0800, ip)),
        (101, ip4_of(ip4_of(ip4_of(ip4_of(ip, 4), 4), 4), 4)),
        (101, nested(ip, 40)),
        (101, ip4_of(ip6_of(segment(), 6), 41)),
        (101, tunnel_udp(4789, b"\x08\0\0\0\0\0\7\0" + frame)),
        (101, tunnel_udp(4789, bytes(8) + frame)),
        (101, tunnel_udp(4790, b"\x0c\0\0\1\0\0\7\0" + ip)),
        (101, tunnel_udp(4790, b"\x0c\0\0\3\0\0\7\0" + frame)),
        (101, tunnel_udp(4790, b"\x0c\0\0\x09\0\0\7\0" + ip)),
        (101, tunnel_udp(8472, b"\x08\0\0\0\0\0\7\0" + frame)),
        (101, tunnel_udp(6081, b"\1\0\x65\x58\0\0\7\0" + bytes(4) + frame)),
        (101, tunnel_udp(6081, b"\x40\0\x65\x58\0\0\7\0" + frame)),
        (101, tunnel_udp(53, bytes(20))),
        (101, tunnel_udp(6081, b"\0\0\x08\0\0\0\7\0" + ip)),
        (101, tunnel_udp(6081, b"\x3f\0\x65\x58\0\0\7\0" + frame)),
        (101, tunnel_udp(4789, b"\x08\0")),
    ]
    yield from whole


def nested(octets: bytes, times: int) -> bytes:
    for _ in range(times):
        octets = ip4_of(octets, 4)
    return octets


def odd_packet_captures() -> Iterator[bytes]:
    """A capture for each link type with all its odd packets, each one also cut behind every few octets, as the wire had them."""
    by_link: dict[int, list[Packet]] = {}
    for number, (link, octets) in enumerate(odd_packets()):
        found = by_link.setdefault(link, [])
        for size in (len(octets), *range(0, len(octets), 3)):
            found.append(Packet((1_700_000_000 + number) * 10**9, link, len(octets), octets[:size]))
        if octets[40:]:  # nothing is said to be missing
            found.append(Packet((1_700_000_000 + number) * 10**9, link, 40, octets[:40]))
    for found in by_link.values():
        for at in range(0, len(found), 120):
            yield written(found[at : at + 120])


def odd_files() -> Iterator[bytes]:
    """Files of pcapng with blocks that are rare or wrong, and of formats that are recognised and not read."""
    frame = bytes(12) + b"\x08\0" + ip4_of(segment(), 6)
    for order in "<>":
        head = block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))

        def described(options: bytes, snap: int = 0, order: str = order) -> bytes:
            return block(order, 1, struct.pack(order + "HHI", 1, 0, snap) + options + bytes(4))

        def packet(stamp: int, number: int = 0, order: str = order) -> bytes:
            sizes = struct.pack(order + "IIIII", number, stamp >> 32, stamp & 0xFFFFFFFF, len(frame), len(frame))
            return block(order, 6, sizes + frame)

        for code in (0, 6, 9, 10, 12, 28, 29, 0x80, 0x8A, 0xA0, 0xA8, 0xC0, 0xE4, 0xFF):
            yield (
                head + described(option(order, 9, bytes([code]))) + packet(1 << 60) + packet((1 << 64) - 1) + packet(7)
            )
        for seconds in (5, -5, 1 << 62, -(1 << 62)):
            shifted = described(option(order, 14, struct.pack(order + "q", seconds)))
            yield head + shifted + packet(1_700_000_000_000_000) + packet((1 << 63) - 1)
        simple = block(order, 3, struct.pack(order + "I", len(frame)) + frame)
        yield head + described(b"") + simple * 3 + described(b"", 20) + simple
        yield (
            head
            + described(b"", 20)
            + simple
            + block(order, 3, b"")
            + block(order, 3, struct.pack(order + "I", 900) + frame)
        )
        yield head + simple + described(b"") + packet(1, 5) + packet(2)
        cut, unpadded = described(struct.pack(order + "HH", 9, 900)), described(struct.pack(order + "HH", 2, 2) + b"ab")
        yield head + block(order, 1, b"\1\0") + cut * 9 + packet(3, 8) + unpadded
        yield head + described(b"") + block(order, 6, b"short") + packet(1)
        foreign = block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 7, 0, -1))
        yield foreign + described(b"") + packet(1) + head + described(b"") + packet(2)
        other = "<>"[order == "<"]
        turned = block(other, 0x0A0D0D0A, struct.pack(other + "IHHq", 0x1A2B3C4D, 1, 0, -1))
        yield head + packet(1)[:-4] + b"\0\0\0\1" + packet(2) + turned + head
        yield head + struct.pack(order + "II", 6, 13) + b"x" * 40 + head + described(b"") + packet(1) + packet(2)
        large = struct.pack(order + "II", 0xBAD, 20 << 20) + bytes(600)
        yield head + described(b"") + packet(1) + large
        yield head + described(b"") + struct.pack(order + "II", 6, 20 << 20) + bytes(600) + packet(1) + packet(2)
        yield head + described(b"") + packet(1) + bytes(5)
        yield head[:12] + b"abcd" + head[16:] + described(b"")
    record = struct.pack("<II", 0, 1_700_000_000) + struct.pack(">BBHHH", 2, 4, 36, 0, 20) + bytes(20)
    yield record
    yield record * 3
    yield record + record[:4] + b"\0\0\0\1" + record[8:]
    yield record + record[:30]
    for magic in ("a1b2c3d4", "d4c3b2a1"):
        yield bytes.fromhex(magic) + (b"\0\3" if magic[0] == "a" else b"\3\0") + bytes(18)
    plain = struct.pack("<IIII", 1, 2, len(frame), len(frame)) + frame
    start = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    longer = struct.pack("<IIIIQ", 1, 2, len(frame), len(frame), 0) + frame
    yield start + longer * 4
    yield start + plain + bytes(40) + plain * 3
    yield start + plain + struct.pack("<IIII", 1, 2, 900 << 20, 5) + plain * 3
    yield start + plain + struct.pack("<IIII", 1, 2_000_000, 50, 5) + plain * 3


def odd_snappy() -> Iterator[bytes]:
    """Streams of NSQ's in snappy's framing: padding, chunks that may be skipped, and what ends the stream."""
    from wirefmt import nsq

    members = {"max_rdy_count": 2500, "tls_v1": False, "deflate": False, "snappy": True}
    identify = b"  V2" + nsq.Identify(client_id="c", feature_negotiation=True, snappy=True).encode()
    answer = nsq.Response(members=members).encode()
    begun = b"\xff\6\0\0sNaPpY"
    whole = bytes(cramjam.snappy.compress(nsq.Response(b"OK").encode()))[10:]
    nop = bytes(cramjam.snappy.compress(b"NOP\n"))[10:]
    for chunks in (
        begun + whole,
        begun + b"\xfe\5\0\0abcde" + whole,
        begun + b"\x80\xff\xff\0" + bytes(70000) + whole,
        whole,
        b"\xff\6\0\0SnApPy" + whole,
        begun + b"\2\1\0\0x",
        begun + b"\0\xff\xff\xff",
        b"\xff\5\0\0sNaPp",
        begun + whole + begun + whole,
        begun + b"\xfd\0\0\0" * 40 + whole,
        begun + whole[:5] + b"\0" + whole[6:],
    ):
        yield capture_of(conversation(4150, [(0, identify), (1, answer), (1, chunks), (0, begun + nop)]))
    for chunk in (b"\3\0more", b"\7"):
        packed = zlib.compressobj(6, zlib.DEFLATED, -15)
        octets = packed.compress(nsq.Response(b"OK").encode()) + packed.flush() + chunk
        said = nsq.Response(members=members | {"snappy": False, "deflate": True}).encode()
        identify = b"  V2" + nsq.Identify(client_id="c", feature_negotiation=True, deflate=True).encode()
        yield capture_of(conversation(4150, [(0, identify), (1, said), (1, octets)]))
