"""Small captures by hand: TCP connections as Ethernet frames in a pcap file, MQTT packets, WebSocket frames."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
START = 1_700_000_000


def string(text: str | bytes) -> bytes:
    """A string or binary data of MQTT: its length in two octets, then its octets."""
    octets = text.encode() if isinstance(text, str) else text
    return len(octets).to_bytes(2, "big") + octets


def varint(value: int) -> bytes:
    """Remaining Length: the algorithm printed in MQTT 3.1 section 2.1, line for line."""
    out = b""
    while True:
        digit, value = value % 128, value // 128
        if value > 0:
            digit |= 0x80
        out += bytes([digit])
        if value <= 0:
            return out


def packet(first: int, *parts: bytes) -> bytes:
    """An MQTT packet: first octet, Remaining Length, the rest."""
    body = b"".join(parts)
    return bytes([first]) + varint(len(body)) + body


def connect(client: str = "c", version: int = 4) -> bytes:
    name = string("MQIsdp") if version == 3 else string("MQTT")
    return packet(0x10, name + bytes((version, 2, 0, 60)) + (b"\0" if version == 5 else b"") + string(client))


def connack(version: int = 4) -> bytes:
    return packet(0x20, b"\0\0\0" if version == 5 else b"\0\0")


def publish(topic: str, payload: bytes, version: int = 4, properties: bytes = b"", identifier: int = 0) -> bytes:
    body = string(topic) + (identifier.to_bytes(2, "big") if identifier else b"")
    return packet(
        0x32 if identifier else 0x30,
        body + (bytes((len(properties),)) + properties if version == 5 else b"") + payload,
    )


def puback(identifier: int) -> bytes:
    return packet(0x40, identifier.to_bytes(2, "big"))


def numbered(count: int, seed: int, version: int = 4) -> tuple[bytes, dict[int, tuple[str, bytes]]]:
    """A stream of messages, and offset -> (topic, payload)."""
    chance = random.Random(seed)
    stream, truth = b"", {}
    for i in range(count):
        kind = chance.randrange(5)
        size = chance.choice((0, 3, 40, 300, 4000))
        payload = (
            chance.randbytes(size),
            b"\0" * size,
            b'{"a": "0123456789", "b": [1, 2, 3]}' * (size // 30),
            # messages inside a payload, but none that ends where it ends
            b"".join(publish(f"inner/{n}", b"x" * (n % 50), version) for n in range(size // 40)) + b"\xff",
            "".join(chr(chance.randrange(32, 0x800)) for _ in range(size // 2)).encode(),
        )[kind]
        truth[len(stream)] = (f"t/{i}", payload)
        stream += publish(f"t/{i}", payload, version)
    return stream, truth


def socket_frame(payload: bytes, *, first: int = 0x82, mask: bytes | None = None) -> bytes:
    """RFC 6455, 5.2."""
    n = len(payload)
    length = bytes((n,)) if n < 126 else b"\x7e" + n.to_bytes(2, "big") if n < 65536 else b"\x7f" + n.to_bytes(8, "big")
    if mask is None:
        return bytes((first,)) + length + payload
    return bytes((first, length[0] | 0x80)) + length[1:] + mask + bytes(o ^ mask[i & 3] for i, o in enumerate(payload))


@dataclass
class Tcp:
    """One connection; each call gives the Ethernet frames of what is sent. Side 0 is the client."""

    port: int = 1883
    client_port: int = 40000
    client: int = 0x0A000002
    server: int = 0x0A000001
    seq: list[int] = field(default_factory=lambda: [2**32 - 100, 5000])

    def segment(self, side: int, payload: bytes = b"", flags: int = ACK, *, advance: bool = True) -> bytes:
        ends = ((self.client, self.client_port), (self.server, self.port))
        (src, sport), (dst, dport) = ends[side], ends[1 - side]
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0, src, dst)
        tcp = struct.pack(">HHIIBBHHH", sport, dport, self.seq[side], self.seq[1 - side], 0x50, flags, 65535, 0, 0)
        if advance:
            self.seq[side] = self.seq[side] + len(payload) + bool(flags & (SYN | FIN)) & 0xFFFFFFFF
        return bytes.fromhex("020000000002 020000000001 0800") + ip + tcp + payload

    def open(self) -> list[bytes]:
        return [self.segment(0, flags=SYN), self.segment(1, flags=SYN | ACK), self.segment(0)]

    def send(self, side: int, octets: bytes, size: int = 1448) -> list[bytes]:
        """As segments of up to `size` octets."""
        return [self.segment(side, octets[i : i + size]) for i in range(0, len(octets), size)]

    def close(self) -> list[bytes]:
        return [self.segment(0, flags=FIN | ACK), self.segment(1, flags=FIN | ACK), self.segment(0)]


def pcap(frames: list[bytes], *, snaplen: int = 262144, first: int = 0) -> bytes:
    """A file of these frames, a millisecond apart; `first` is the number of the first one, for its time."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snaplen, 1)]
    for i, frame in enumerate(frames, first):
        kept = frame[:snaplen]
        out.append(struct.pack("<IIII", START + i // 1000, i % 1000 * 1000, len(kept), len(frame)) + kept)
    return b"".join(out)


def frames_of(data: bytes) -> list[tuple[bytes, bytes]]:
    """(record header, frame) of a little-endian pcap file."""
    at, found = 24, []
    while at < len(data):
        n = int.from_bytes(data[at + 8 : at + 12], "little")
        found.append((data[at : at + 16], data[at + 16 : at + 16 + n]))
        at += 16 + n
    return found
