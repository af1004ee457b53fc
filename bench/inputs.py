"""Inputs of the benchmarks, made by seeded generators: the same octets on every machine."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

ETHERNET = bytes.fromhex("020000000002 020000000001 0800")
PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
MTU_PAYLOAD = 1448


def string(text: str) -> bytes:
    octets = text.encode()
    return len(octets).to_bytes(2, "big") + octets


def mqtt_packet(first: int, body: bytes) -> bytes:
    size, length = len(body), bytearray()
    while True:
        size, low = size >> 7, size & 127
        length.append(low | (128 if size else 0))
        if not size:
            return bytes((first, *length)) + body


def connect(client: str, version: int) -> bytes:
    properties = b"\0" if version == 5 else b""
    return mqtt_packet(0x10, string("MQTT") + bytes((version, 2)) + b"\0\x3c" + properties + string(client))


class Connection:
    """One TCP connection: segments as IPv4 packets, with sequence numbers."""

    def __init__(self, number: int, chance: random.Random, port: int = 1883) -> None:
        self.ends = (0x0A000000 + number // 60000 + 2, 1024 + number % 60000), (0x0A000001, port)
        self.seq = [chance.getrandbits(32), chance.getrandbits(32)]

    def segment(self, side: int, flags: int, payload: bytes = b"") -> bytes:
        (src, sport), (dst, dport) = self.ends[side], self.ends[1 - side]
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0, src, dst)
        tcp = struct.pack(">HHIIBBHHH", sport, dport, self.seq[side], self.seq[1 - side], 0x50, flags, 65535, 0, 0)
        self.seq[side] = self.seq[side] + len(payload) + (flags & 3 != 0) & 0xFFFFFFFF
        return ETHERNET + ip + tcp + payload

    def open(self) -> Iterator[bytes]:
        yield self.segment(0, 2)
        yield self.segment(1, 18)
        yield self.segment(0, 16)

    def close(self) -> Iterator[bytes]:
        yield self.segment(0, 17)
        yield self.segment(1, 17)
        yield self.segment(0, 16)


def capture(
    messages: int, *, connections: int = 200, payload: int = 128, version: int = 4, seed: int = 1, turn: int = 8
) -> Iterator[bytes]:
    """Packets of clients that publish with QoS 1 and are acknowledged.

    A client sends up to `turn` messages at a time, as one stream cut into segments of 1,448 octets.
    """
    chance = random.Random(seed)
    clients = [Connection(i, chance) for i in range(connections)]
    for i, client in enumerate(clients):
        yield from client.open()
        yield client.segment(0, 24, connect(f"client-{i}", version))
        yield client.segment(1, 24, mqtt_packet(0x20, b"\0\0\0" if version == 5 else b"\0\0"))
    topics = [string(f"site/{i % 7}/room{i:03}/temperature") for i in range(500)]
    payloads = [chance.randbytes(payload) for _ in range(64)]
    properties = b"\0" if version == 5 else b""
    sent = 0
    while sent < messages:
        client = chance.choice(clients)
        count = min(chance.randint(1, turn), messages - sent)
        stream, acknowledged = bytearray(), bytearray()
        for _ in range(count):
            identifier = (sent % 65535 + 1).to_bytes(2, "big")
            stream += mqtt_packet(0x32, chance.choice(topics) + identifier + properties + chance.choice(payloads))
            acknowledged += b"\x40\x02" + identifier
            sent += 1
        for at in range(0, len(stream), MTU_PAYLOAD):
            yield client.segment(0, 24, bytes(stream[at : at + MTU_PAYLOAD]))
        yield client.segment(1, 24, bytes(acknowledged))
    for client in clients:
        yield from client.close()


def write_pcap(path: Path, packets: Iterator[bytes], *, start: int = 1_700_000_000) -> int:
    """Write packets 20 microseconds apart; return the octets written."""
    with path.open("wb") as out:
        out.write(PCAP_HEADER)
        for i, packet in enumerate(packets):
            at = i * 20
            out.write(struct.pack("<IIII", start + at // 1_000_000, at % 1_000_000, len(packet), len(packet)) + packet)
        return out.tell()
