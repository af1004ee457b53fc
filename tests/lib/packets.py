"""Packets, header by header as the RFCs say."""

from __future__ import annotations

import socket
import struct

A4, B4 = "10.0.0.1", "192.168.7.9"
A6, B6 = "2001:db8::1", "fe80::2"
PAYLOAD = b"mqtt?"

OUTER = ("1.2.3.4", "5.6.7.8")  # ends of a tunnel

FLOW = {"src_port": 40000, "dst_port": 1883, "seq": 0xFFFFFFF0, "ack": 77, "flags": 0x18}


def tcp(payload: bytes = PAYLOAD, options: bytes = b"", source: int = 40000, destination: int = 1883) -> bytes:
    words = (20 + len(options)) // 4
    head = struct.pack(">HHIIBBHHH", source, destination, 0xFFFFFFF0, 77, words << 4, 0x18, 1000, 0, 0)
    return head + options + payload


def ip4(body: bytes, protocol: int = 6, *, fragment: int = 0, options: bytes = b"", total: int | None = None,
        ends: tuple[str, str] = (A4, B4), number: int = 5) -> bytes:  # fmt: skip
    header = 20 + len(options)
    size = header + len(body) if total is None else total
    head = struct.pack(">BBHHHBBH", 0x40 | header // 4, 0, size, number, fragment, 64, protocol, 0)
    return head + socket.inet_aton(ends[0]) + socket.inet_aton(ends[1]) + options + body


def ip6(body: bytes, next_header: int = 6, *, size: int | None = None, ends: tuple[str, str] = (A6, B6)) -> bytes:
    head = struct.pack(">IHBB", 6 << 28, len(body) if size is None else size, next_header, 64)
    return head + b"".join(socket.inet_pton(socket.AF_INET6, e) for e in ends) + body


def ethernet(kind: int, body: bytes) -> bytes:
    return bytes(12) + struct.pack(">H", kind) + body


def udp(port: int, body: bytes) -> bytes:
    return struct.pack(">HHHH", 5555, port, 8 + len(body), 0) + body


def fragments4(body: bytes, size: int, number: int = 5, ends: tuple[str, str] = (A4, B4)) -> list[bytes]:
    cuts = range(0, len(body), size)
    return [
        ip4(
            body[at : at + size],
            fragment=(at // 8) | (0x2000 if at + size < len(body) else 0),
            number=number,
            ends=ends,
        )
        for at in cuts
    ]


def fragments6(body: bytes, size: int, number: int = 9, ends: tuple[str, str] = (A6, B6)) -> list[bytes]:
    return [
        ip6(struct.pack(">BBHI", 6, 0, at | (at + size < len(body)), number) + body[at : at + size], 44, ends=ends)
        for at in range(0, len(body), size)
    ]
