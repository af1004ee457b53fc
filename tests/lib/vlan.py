"""Captures with VLAN tags (IEEE 802.1Q)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from lib.wire import FIN, START


def tagged(frame: bytes, tags: Iterable[tuple[int, int]], at: int = 12) -> bytes:
    """A frame with tags, each an EtherType and its 16 bits, the outermost first. `at`: where its EtherType is."""
    return frame[:at] + b"".join(struct.pack(">HH", *tag) for tag in tags) + frame[at:]


def records_of(octets: bytes) -> list[bytes]:
    """The records of a little-endian pcap file."""
    found, at = [], 24
    while at < len(octets):
        size = 16 + int.from_bytes(octets[at + 8 : at + 12], "little")
        found.append(octets[at : at + size])
        at += size
    return found


def pieces_of(frame: bytes, at: int, size: int) -> Iterator[bytes]:
    """A frame of IPv4 and TCP as frames with at most `size` octets of payload. `at`: where its IP header is."""
    tcp = at + (frame[at] & 15) * 4
    begin, end = tcp + (frame[tcp + 12] >> 4) * 4, at + int.from_bytes(frame[at + 2 : at + 4], "big")
    sequence = int.from_bytes(frame[tcp + 4 : tcp + 8], "big")
    for first in range(begin, max(end, begin + 1), size):
        last = min(first + size, end)
        head = bytearray(frame[:begin])
        head[at + 2 : at + 4] = (begin - at + last - first).to_bytes(2, "big")
        head[tcp + 4 : tcp + 8] = (sequence + first - begin & 0xFFFFFFFF).to_bytes(4, "big")
        if last < end:
            head[tcp + 13] &= ~FIN
        yield bytes(head) + frame[first:last]


def numbered(octets: bytes, size: int = 65535) -> bytes:
    """A capture of IPv4 on Ethernet or Linux SLL, as packets of at most `size` octets of payload, each with tags and a time of
    its own: `number_at` and `number_of`."""
    at = {1: 12, 113: 14}[int.from_bytes(octets[20:24], "little")]
    frames = [piece for record in records_of(octets) for piece in pieces_of(record[16:], at + 2, size)]
    out = [octets[:24]]
    for number, frame in enumerate(frames):
        made = tagged(frame, [(0x88A8, number >> 12), (0x8100, number & 0xFFF)], at)
        out.append(struct.pack("<IIII", START + number // 1000, number % 1000 * 1000, len(made), len(made)) + made)
    return b"".join(out)


def number_at(when: datetime) -> int:
    return (when - datetime.fromtimestamp(START, UTC)) // timedelta(milliseconds=1)


def number_of(identifiers: list[int]) -> int:
    outer, inner = identifiers
    return outer << 12 | inner
