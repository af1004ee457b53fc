"""Frames of both AMQPs by hand, for captures."""

from __future__ import annotations

HEADER_091 = b"AMQP\0\0\x09\1"
HEADER_10 = b"AMQP\0\1\0\0"


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """general 4.2.3"""
    return bytes((kind,)) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def short(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


def publish(channel: int, exchange: str, key: str) -> bytes:
    """reference 1.8.3.7"""
    return frame(1, channel, bytes.fromhex("003c0028 0000") + short(exchange) + short(key) + b"\0")


def header(channel: int, size: int) -> bytes:
    """general 4.2.6.1: class basic, no properties."""
    return frame(2, channel, bytes.fromhex("003c0000") + size.to_bytes(8, "big") + b"\0\0")


def body(channel: int, octets: bytes) -> bytes:
    return frame(3, channel, octets)


def list8(*fields: bytes) -> bytes:
    content = b"".join(fields)
    return bytes((0xC0, len(content) + 1, len(fields))) + content


def performative(code: int, fields: bytes, payload: bytes = b"", channel: int = 0) -> bytes:
    """2.3, 2.7"""
    octets = b"\2\0" + channel.to_bytes(2, "big") + b"\0\x53" + bytes((code,)) + fields + payload
    return (len(octets) + 4).to_bytes(4, "big") + octets


def string(text: str) -> bytes:
    return b"\xa1" + short(text)


def attach(handle: int, address: str) -> bytes:
    """A sender of the client's, 2.7.3: its target is the broker's end."""
    target = b"\0\x53\x29" + list8(string(address))
    return performative(0x12, list8(string(address), bytes((0x52, handle)), b"\x42", b"\x40", b"\x40", b"\x40", target))


def transfer(handle: int, delivery: int | None, payload: bytes, more: bool = False, aborted: bool = False) -> bytes:
    fields = [
        bytes((0x52, handle)),
        b"\x40" if delivery is None else bytes((0x52, delivery)),
        b"\xa0\1t",
        b"\x43",
        b"\x40",
    ]
    fields += [b"\x41" if more else b"\x42", b"\x40", b"\x40", b"\x40", b"\x41" if aborted else b"\x42"]
    return performative(0x14, list8(*fields), payload)


def data(octets: bytes) -> bytes:
    return b"\0\x53\x75\xa0" + bytes((len(octets),)) + octets
