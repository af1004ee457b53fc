"""Captures made by hand that together have every layer, order of segments and file format that is read, for tests/captures.

    cd tests; python -m lib.made_captures      writes them, and tshark's decode of them, to tests/captures/made

Each is a number of MQTT conversations, one for each thing that is shown. tshark is the second opinion: it gives every packet
(`NAME.frames`), and every MQTT message where the conversations are whole (`NAME.messages`).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import subprocess
import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.packets import OUTER, ethernet, fragments4, fragments6, ip4, ip6, udp
from lib.paths import ROOT
from lib.wire import ACK, RST, START, Tcp, connack, connect, packet, puback, publish, string

FOLDER = ROOT / "tests" / "captures" / "made"
CLIENT, SERVER = 0, 1
ETHERNET, RAW = 1, 101

#: A packet of a capture: link type, octets.
Packet = tuple[int, bytes]
#: A TCP segment: who sends it, the segment.
Segment = tuple[int, bytes]


# ---- conversations


def segments(number: int, size: int = 1448, *, payload: int = 40) -> list[Segment]:
    """A whole conversation; `size`: of the largest segment."""
    tcp = Tcp(client_port=41000 + number)
    topic = f"t/{number}"
    said = [
        (CLIENT, connect(f"c{number}")),
        (SERVER, connack()),
        (CLIENT, packet(0x82, b"\0\1", string(topic), b"\1")),
        (SERVER, packet(0x90, b"\0\1\1")),
        (CLIENT, publish(topic, bytes(i & 0xFF for i in range(payload)), identifier=2)),
        (SERVER, puback(2)),
        (SERVER, publish(topic, b"x" * payload, identifier=9)),
        (CLIENT, puback(9)),
        (CLIENT, packet(0xC0)),
        (SERVER, packet(0xD0)),
        (CLIENT, packet(0xE0)),
    ]
    frames = tcp.open() + [frame for side, octets in said for frame in tcp.send(side, octets, size)] + tcp.close()
    return [(CLIENT if frame[36:38] == b"\x07\x5b" else SERVER, frame[34:]) for frame in frames]


def ends(side: int, one: str, other: str) -> tuple[str, str]:
    return (one, other) if side == CLIENT else (other, one)


def in_ip4(segment: Segment) -> bytes:
    side, octets = segment
    return ip4(octets, ends=ends(side, "10.0.0.2", "10.0.0.1"))


def in_ip6(segment: Segment, headers: bytes = b"", first: int = 6) -> bytes:
    side, octets = segment
    return ip6(headers + octets, first, ends=ends(side, "2001:db8::2", "2001:db8::1"))


def framed(segment: Segment) -> Packet:
    return ETHERNET, ethernet(0x0800, in_ip4(segment))


# ---- layers

LABEL, BOTTOM = b"\x00\x01\x00\x40", b"\x00\x01\x01\x40"
CISCO = bytes.fromhex("00000c010203 00000c040506")  # tshark knows a pseudowire by the makers' numbers
SNAP = b"\xaa\xaa\x03\x00\x00\x00"


def nflog(ip: bytes) -> bytes:
    return b"\x02\0\0\0" + struct.pack("<HH", 8, 1) + b"\x08\0\0\0" + struct.pack("<HH", 4 + len(ip), 9) + ip


#: Link type, and what it makes of an IPv4 packet.
LINKS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "Ethernet": (1, lambda ip: ethernet(0x0800, ip)),
    "padded": (1, lambda ip: ethernet(0x0800, ip) + bytes(max(0, 46 - len(ip)))),
    "802.1Q": (1, lambda ip: ethernet(0x8100, b"\0\7\x08\0" + ip)),
    "QinQ": (1, lambda ip: ethernet(0x88A8, b"\0\7\x81\0\0\x08\x08\0" + ip)),
    "802.3 and SNAP": (1, lambda ip: ethernet(8 + len(ip), SNAP + b"\x08\0" + ip)),
    "PPPoE": (1, lambda ip: ethernet(0x8864, b"\x11\0\0\1" + struct.pack(">H", 2 + len(ip)) + b"\0\x21" + ip)),
    "MPLS": (1, lambda ip: ethernet(0x8847, LABEL + BOTTOM + ip)),
    "pseudowire": (1, lambda ip: ethernet(0x8847, LABEL + BOTTOM + bytes(4) + CISCO + b"\x08\0" + ip)),
    "SLL": (113, lambda ip: struct.pack(">HHH8sH", 0, 1, 6, bytes(8), 0x0800) + ip),
    "SLL2": (276, lambda ip: struct.pack(">HHIHBB8s", 0x0800, 0, 2, 1, 0, 6, bytes(8)) + ip),
    "null": (0, lambda ip: struct.pack("<I", 2) + ip),
    "loop": (108, lambda ip: struct.pack(">I", 2) + ip),
    "raw": (101, lambda ip: ip),
    "IPv4": (228, lambda ip: ip),
    "PPP": (9, lambda ip: b"\xff\x03\0\x21" + ip),
    "Cisco HDLC": (104, lambda ip: b"\x0f\0\x08\0" + ip),
    "NFLOG": (239, nflog),
}

VXLAN, GENEVE = b"\x08\0\0\0\0\x12\x34\0", b"\1\0\x65\x58\0\0\7\0" + bytes(4)
PPTP = b"\x30\x01\x88\x0b"

#: What a tunnel makes of an IPv4 packet: an IPv4 packet.
TUNNELS: dict[str, Callable[[bytes], bytes]] = {
    "4 in 4": lambda ip: ip4(ip, 4, ends=OUTER),
    "GRE": lambda ip: ip4(b"\0\0\x08\0" + ip, 47, ends=OUTER),
    "GRE with key and sequence": lambda ip: ip4(b"\x30\0\x08\0" + bytes(8) + ip, 47, ends=OUTER),
    "GRE, Ethernet": lambda ip: ip4(b"\0\0\x65\x58" + ethernet(0x0800, ip), 47, ends=OUTER),
    "GRE, PPTP": lambda ip: ip4(PPTP + struct.pack(">HHI", 4 + len(ip), 1, 5) + b"\xff\x03\0\x21" + ip, 47, ends=OUTER),
    "ERSPAN II": lambda ip: ip4(
        b"\x10\0\x88\xbe" + bytes(4) + b"\x10" + bytes(7) + ethernet(0x0800, ip), 47, ends=OUTER
    ),
    "ERSPAN III": lambda ip: ip4(
        b"\x10\0\x22\xeb" + bytes(4) + b"\x20" + bytes(11) + ethernet(0x0800, ip), 47, ends=OUTER
    ),
    "VXLAN": lambda ip: ip4(udp(4789, VXLAN + ethernet(0x0800, ip)), 17, ends=OUTER),
    "GENEVE": lambda ip: ip4(udp(6081, GENEVE + ethernet(0x0800, ip)), 17, ends=OUTER),
    "MPLS in GRE": lambda ip: ip4(b"\0\0\x88\x47" + BOTTOM + ip, 47, ends=OUTER),
}

#: IPv6 extension headers in front of TCP: the first header's number, the headers.
HEADERS = {
    "none": (6, b""),
    "hop-by-hop": (0, b"\x06\0" + b"\1\4" + bytes(4)),
    "routing": (43, b"\x06\2\2\0" + bytes(4) + bytes.fromhex("20010db8" + "0" * 23 + "1")),
    "destination options": (60, b"\x06\1" + b"\1\x0c" + bytes(12)),
    "hop-by-hop, destination options": (0, b"\x3c\0" + b"\1\4" + bytes(4) + b"\x06\0" + b"\1\4" + bytes(4)),
    "atomic fragment": (44, b"\x06\0\0\0\0\0\0\x09"),
}


def links() -> list[Packet]:
    return [
        (link_type, wrap(in_ip4(segment)))
        for number, (link_type, wrap) in enumerate(LINKS.values())
        for segment in segments(number)
    ]


def tunnels() -> list[Packet]:
    whole = [
        (ETHERNET, ethernet(0x0800, wrap(in_ip4(segment))))
        for number, wrap in enumerate(TUNNELS.values())
        for segment in segments(number)
    ]
    four_in_six = [(ETHERNET, ethernet(0x86DD, ip6(in_ip4(segment), 4))) for segment in segments(50)]
    six_in_four = [(ETHERNET, ethernet(0x0800, ip4(in_ip6(segment), 41, ends=OUTER))) for segment in segments(51)]
    return whole + four_in_six + six_in_four


def headers() -> list[Packet]:
    return [
        (ETHERNET, ethernet(0x86DD, in_ip6(segment, octets, first)))
        for number, (first, octets) in enumerate(HEADERS.values())
        for segment in segments(number)
    ]


def fragments() -> list[Packet]:
    """Datagrams in fragments: in order, backwards, each fragment twice; IPv4 and IPv6."""
    orders: list[Callable[[list[bytes]], list[bytes]]] = [
        list,
        lambda f: f[::-1],
        lambda f: [x for x in f for _ in (1, 2)],
    ]
    found = []
    datagram = 0
    for number, order in enumerate(orders):
        for side, octets in segments(number, payload=200):
            datagram += 1
            parts = fragments4(octets, 64, number=datagram, ends=ends(side, "10.0.0.2", "10.0.0.1"))
            found += [(ETHERNET, ethernet(0x0800, part)) for part in order(parts)]
    for number, order in enumerate(orders[:2], 10):
        for side, octets in segments(number, payload=200):
            datagram += 1
            parts = fragments6(octets, 64, number=datagram, ends=ends(side, "2001:db8::2", "2001:db8::1"))
            found += [(ETHERNET, ethernet(0x86DD, part)) for part in order(parts)]
    return found


# ---- order of segments


def data_of(found: list[Segment]) -> list[int]:
    """Places of segments that have a payload."""
    return [i for i, (_, octets) in enumerate(found) if len(octets) > 20]


def swapped(found: list[Segment]) -> list[Segment]:
    """Of each pair of neighbours of one sender the second comes first."""
    found = list(found)
    places = data_of(found)
    for one, two in zip(places[::2], places[1::2], strict=False):
        if two == one + 1 and found[one][0] == found[two][0]:
            found[one], found[two] = found[two], found[one]
    return found


def twice(found: list[Segment]) -> list[Segment]:
    return [segment for segment in found for _ in range(2 if len(segment[1]) > 20 else 1)]


def merged(found: list[Segment]) -> list[Segment]:
    """After two segments of one sender, both once more as one."""
    made = []
    for i, (side, octets) in enumerate(found):
        made.append((side, octets))
        before = found[i - 1] if i else (None, b"")
        if before[0] == side and len(before[1]) > 20 and len(octets) > 20:
            made.append((side, before[1] + octets[20:]))
    return made


def overlapping(found: list[Segment]) -> list[Segment]:
    """A segment begins with the last octets of the one before."""
    made = []
    for i, (side, octets) in enumerate(found):
        before = found[i - 1] if i else (None, b"")
        if before[0] == side and len(before[1]) > 24 and len(octets) > 20:
            (seq,) = struct.unpack(">I", octets[4:8])
            octets = octets[:4] + struct.pack(">I", seq - 4 & 0xFFFFFFFF) + octets[8:20] + before[1][-4:] + octets[20:]
        made.append((side, octets))
    return made


def kept_alive(found: list[Segment]) -> list[Segment]:
    """A keep-alive before the end: one octet in front of the next one expected, and its acknowledgement."""
    end = len(found) - 3
    tcp = [found[end][1], found[end + 1][1]]
    (seq,) = struct.unpack(">I", tcp[0][4:8])
    probe = tcp[0][:4] + struct.pack(">I", seq - 1 & 0xFFFFFFFF) + tcp[0][8:13] + bytes((ACK,)) + tcp[0][14:20] + b"\0"
    answer = tcp[1][:8] + struct.pack(">I", seq) + tcp[1][12:13] + bytes((ACK,)) + tcp[1][14:20]
    return [*found[:end], (CLIENT, probe), (SERVER, answer), *found[end:]]


def reset(found: list[Segment]) -> list[Segment]:
    """Ends in a RST in the place of the FINs."""
    last = found[-3][1]
    return [*found[:-3], (CLIENT, last[:13] + bytes((RST | ACK,)) + last[14:])]


def with_options(found: list[Segment]) -> list[Segment]:
    """A time stamp in every segment (RFC 7323)."""
    stamp = b"\1\1\x08\x0a" + bytes(8)
    return [(side, o[:12] + b"\x80" + o[13:20] + stamp + o[20:]) for side, o in found]


#: What becomes of a conversation's segments, and how large they are.
ORDERS: dict[str, tuple[Callable[[list[Segment]], list[Segment]], int]] = {
    "in order": (list, 1448),
    "octet by octet": (list, 1),
    "two of a sender swapped": (swapped, 16),
    "sent twice": (twice, 16),
    "sent again as larger segments": (merged, 16),
    "overlapping": (overlapping, 16),
    "keep-alive": (kept_alive, 1448),
    "reset": (reset, 1448),
    "options": (with_options, 1448),
    "ports used before": (list, 1448),
}


def orders() -> list[Packet]:
    found = []
    for number, (change, size) in enumerate(ORDERS.values()):
        number = 0 if change is list and size == 1448 else number  # the last uses the ports of the first
        found += [framed(segment) for segment in change(segments(number, size))]
    return found


def holes() -> list[Packet]:
    """A segment that is missing and was acknowledged; a conversation whose beginning, and one whose end is missing; one side."""
    whole = [segments(number, 16) for number in range(4)]
    places = data_of(whole[0])
    lost = [segment for i, segment in enumerate(whole[0]) if i != places[len(places) // 2]]
    return [
        framed(s) for part in (lost, whole[1][6:], whole[2][:-9], [s for s in whole[3] if s[0] == CLIENT]) for s in part
    ]


# ---- files


def pcap(packets: list[Packet], order: str = "<", *, nanoseconds: bool = False, snaplen: int = 262144) -> bytes:
    out = [
        struct.pack(order + "IHHiIII", 0xA1B23C4D if nanoseconds else 0xA1B2C3D4, 2, 4, 0, 0, snaplen, packets[0][0])
    ]
    for i, (_, octets) in enumerate(packets):
        kept = octets[:snaplen]
        rest = i % 1000 * 1_000_000 + (i % 7 if nanoseconds else 0)
        fields = (START + i // 1000, rest if nanoseconds else rest // 1000, len(kept), len(octets))
        out.append(struct.pack(order + "IIII", *fields) + kept)
    return b"".join(out)


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(order + "II", kind, 12 + len(body)) + body + struct.pack(order + "I", 12 + len(body))


def pcapng(packets: list[Packet], order: str = "<", *, resolution: int = 6) -> bytes:
    """An interface for each link type; times in 10^-resolution seconds, or in 2^-n (0x80 | n)."""
    types = list(dict.fromkeys(link_type for link_type, _ in packets))
    out = [block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    option = struct.pack(order + "HHBxxxHH", 9, 1, resolution, 0, 0)
    out += [block(order, 1, struct.pack(order + "HHI", link_type, 0, 262144) + option) for link_type in types]
    for i, (link_type, octets) in enumerate(packets):
        unit = 1 << (resolution & 0x7F) if resolution & 0x80 else 10**resolution
        time = START * unit + i * unit // 1000
        head = struct.pack(
            order + "IIIII", types.index(link_type), time >> 32, time & 0xFFFFFFFF, len(octets), len(octets)
        )
        out.append(block(order, 6, head + octets))
    return b"".join(out)


@dataclass(frozen=True)
class Made:
    """A capture: what it shows, its octets, whether its conversations are whole (and are compared message by message)."""

    notes: str
    octets: bytes
    whole: bool = True
    tunnels: bool = False


def captures() -> dict[str, Made]:
    small = [framed(segment) for segment in segments(0)]
    return {
        "links.pcapng": Made("link layers: " + ", ".join(LINKS), pcapng(links())),
        "tunnels.pcap": Made("tunnels: " + ", ".join([*TUNNELS, "4 in 6", "6 in 4"]), pcap(tunnels()), tunnels=True),
        "ipv6-headers.pcap": Made("IPv6 extension headers: " + ", ".join(HEADERS), pcap(headers())),
        "fragments.pcap": Made("IPv4 and IPv6 fragments: in order, backwards, each twice", pcap(fragments())),
        "orders.pcap": Made("segments: " + ", ".join(ORDERS), pcap(orders())),
        "holes.pcap": Made(
            "segments that are missing, at the beginning, within and at the end", pcap(holes()), whole=False
        ),
        "snaplen.pcap": Made("packets cut at 60 octets", pcap(small, snaplen=60), whole=False),
        "pcap-big-endian.pcap": Made("pcap, big-endian", pcap(small, ">")),
        "pcap-nanoseconds.pcap": Made("pcap in nanoseconds", pcap(small, nanoseconds=True)),
        "pcap-big-endian-nanoseconds.pcap": Made("both", pcap(small, ">", nanoseconds=True)),
        "pcapng-big-endian.pcapng": Made("pcapng, big-endian, nanoseconds", pcapng(small, ">", resolution=9)),
        "pcapng-binary-times.pcapng": Made("pcapng, times in 2^-20 seconds", pcapng(small, resolution=0x80 | 20)),
        "pcapng-two-sections.pcapng": Made(
            "pcapng, a second section of the other byte order", pcapng(small) + pcapng(links()[:51], ">")
        ),
    }


# ---- tshark

FIELDS = {
    "frame": "frame.number", "t": "frame.time_epoch", "caplen": "frame.cap_len", "len": "frame.len",
    "protocols": "frame.protocols", "ip4src": "ip.src", "ip4dst": "ip.dst", "ip6src": "ipv6.src", "ip6dst": "ipv6.dst",
    "sport": "tcp.srcport", "dport": "tcp.dstport", "seq": "tcp.seq_raw", "ack": "tcp.ack_raw", "flags": "tcp.flags",
    "tcplen": "tcp.len", "payload": "tcp.payload",
}  # fmt: skip
TYPES = (
    "", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK", "UNSUBSCRIBE",
    "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH",
)  # fmt: skip


def tshark(path: Path, *arguments: str) -> str:
    command = ["tshark", "-r", str(path), "-o", "tcp.reassemble_out_of_order:TRUE", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def digest(octets: bytes) -> dict[str, Any]:
    return {"len": len(octets), "sha1": hashlib.sha1(octets).hexdigest()}


def frames_of(path: Path) -> list[dict[str, Any]]:
    """Every packet: only the fields that it has, as text."""
    shown = [f for name in FIELDS.values() for f in ("-e", name)]
    found = []
    for line in tshark(path, "-T", "fields", *shown).splitlines():
        row: dict[str, Any] = {k: v for k, v in zip(FIELDS, line.split("\t"), strict=True) if v}
        if "payload" in row:
            row["payload"] = digest(bytes.fromhex(row["payload"]))
        found.append(row)
    return found


def messages_of(path: Path) -> list[dict[str, Any]]:
    """Every MQTT message."""
    found: list[dict[str, Any]] = []
    for frame in xml.fromstring(tshark(path, "-T", "pdml")).iter("packet"):
        shown = {f.get("name"): f.get("show") for f in frame.iter("field")}
        hosts = [p for p in frame.iter("proto") if p.get("name") in ("ip", "ipv6")][-1]
        address = {str(f.get("name")).rpartition(".")[2]: f.get("show") for f in hosts.iter("field")}
        where = {
            "frame": int(shown["frame.number"] or 0),
            "t": shown["frame.time_epoch"],
            "src": f"{address['src']}:{shown.get('tcp.srcport')}",
            "dst": f"{address['dst']}:{shown.get('tcp.dstport')}",
        }
        for message in (p for p in frame.iter("proto") if p.get("name") == "mqtt"):
            found.append({"i": len(found)} | where | facts_of(message))
    return found


def facts_of(message: xml.Element) -> dict[str, Any]:
    """In the words of the other decodes of tests/captures."""
    fields = [(str(f.get("name")).removeprefix("mqtt."), str(f.get("show"))) for f in message.iter("field")]
    values = dict(fields)
    kind = TYPES[int(values["msgtype"])]
    facts: dict[str, Any] = {"proto": "mqtt", "type": kind, "rl": int(values["len"])}
    for name, field in (("dup", "dupflag"), ("qos", "qos"), ("retain", "retain")):
        if kind == "PUBLISH":
            facts[name] = int(values[field])
    facts |= {
        new: int(values[name])
        for name, new in (("msgid", "msgid"), ("ver", "ver"), ("kalive", "keepalive"))
        if name in values
    }
    facts |= {name: values[name] for name in ("protoname", "clientid") if name in values}
    topics = [value for name, value in fields if name == "topic"]
    if topics:
        facts |= {"topics": topics} if kind != "PUBLISH" else {"topic": topics[0]}
    codes = {
        name: [int(v) for n, v in fields if n == name]
        for name in ("conack.val", "suback.qos", "sub.qos")
        if name in values
    }
    if codes:
        facts["rc"] = codes
    for f in message.iter("field"):
        if f.get("name") == "mqtt.msg":
            facts["payload"] = digest(bytes.fromhex(str(f.get("value"))))
    return facts | {"fields": [[f"mqtt.{name}", value] for name, value in fields]}


def packed(rows: list[dict[str, Any]]) -> bytes:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return gzip.compress(text.encode(), 9, mtime=0)


def write() -> None:
    """The captures and their decodes, and their rows in MANIFEST.jsonl."""
    manifest = FOLDER.parent / "MANIFEST.jsonl"
    rows = [row for row in map(json.loads, manifest.read_text().splitlines()) if not row["file"].startswith("made/")]
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, made in captures().items():
            path = Path(folder) / name
            path.write_bytes(made.octets)
            (FOLDER / f"{name}.gz").write_bytes(gzip.compress(made.octets, 9, mtime=0))
            frames = frames_of(path)
            row: dict[str, Any] = {
                "file": f"made/{name}.gz",
                "sha256": hashlib.sha256(made.octets).hexdigest(),
                "packets": len(frames),
                "protocols": ["mqtt"] if made.whole else [],
                "tunnels": made.tunnels,
                "frames": f"made/{path.stem}.frames.jsonl.gz",
                "notes": [made.notes],
            }
            (FOLDER.parent / row["frames"]).write_bytes(packed(frames))
            if made.whole:
                messages = messages_of(path)
                row |= {"messages": len(messages), "expected": f"made/{path.stem}.messages.jsonl.gz"}
                (FOLDER.parent / row["expected"]).write_bytes(packed(messages))
            rows.append(row)
    manifest.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


if __name__ == "__main__":
    write()
