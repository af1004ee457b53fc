"""Captures that targets make: connections in layers, in pcapng, in WebSockets; and small ones out of the samples."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Iterator
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
    """The packets of each TCP connection; all that are none are one of their own."""
    found: dict[object, list[Packet]] = {}
    for packet in packets:
        _, said = PacketTrace(tunnels=True).parse(packet.link_type, packet.octets, original_size=packet.original)
        ends = frozenset((said[f"{e}_ip"], said[f"{e}_port"]) for e in ("src", "dst")) if said else packet.link_type
        found.setdefault((packet.link_type, ends), []).append(packet)
    return list(found.values())


def small(packets: list[Packet]) -> Iterator[list[Packet]]:
    """From the beginning, and from the midst, as many packets as a seed has room for."""
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
LINKS = (
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
