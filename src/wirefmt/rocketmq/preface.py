"""What may come before the first frame of a client: TLS, or the PROXY protocol of HAProxy, version 1 and 2 (section 12)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from wirefmt.errors import Malformed

#: The first byte of a TLS handshake record.
TLS: Final = 0x16

_V1: Final = b"PROXY "
_V1_MOST: Final = 107  # bytes, with the line break
_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_MOST: Final = 1024  # bytes of addresses and TLVs


def proxy_preface(data: bytes) -> tuple[int, tuple[str, int] | None] | None:
    """Read a PROXY preface at the start of `data`.

    Returns its size in bytes and its source address (None: it has none). Returns None if more bytes are needed, and size 0
    if `data` begins with no preface. Raises Malformed.
    """
    if _V1.startswith(data[: len(_V1)]):
        end = data.find(b"\r\n", 0, _V1_MOST)
        if end >= 0:
            return end + 2, _source_of_text(data[:end])
        if len(data) >= _V1_MOST:
            raise Malformed("a PROXY preface without end", protocol="rocketmq", path="proxy")
        return None
    if _V2.startswith(data[: len(_V2)]):
        if len(data) < 16:
            return None
        size = int.from_bytes(data[14:16])
        if data[12] >> 4 != 2 or data[12] & 15 > 1 or size > _V2_MOST:
            raise Malformed("not a PROXY preface of version 2", protocol="rocketmq", path="proxy")
        if len(data) < 16 + size:
            return None
        return 16 + size, _source_of_bytes(data[12] & 15, data[13], data[16 : 16 + size])
    return 0, None


def _source_of_text(line: bytes) -> tuple[str, int] | None:
    words = line.decode("latin-1").split(" ")
    if words[1:2] == ["UNKNOWN"]:
        return None
    try:
        _, family, source, destination, port, other = words
        address = ip_address(source)
        if {"TCP4": 4, "TCP6": 6}[family] != address.version or ip_address(destination).version != address.version:
            raise ValueError
        if not (port.isascii() and port.isdigit() and other.isascii() and other.isdigit()):
            raise ValueError
        if max(int(port), int(other)) > 65535:
            raise ValueError
    except (ValueError, KeyError):
        raise Malformed("not a PROXY preface of version 1", protocol="rocketmq", path="proxy") from None
    return str(address), int(port)


def _source_of_bytes(command: int, family: int, rest: bytes) -> tuple[str, int] | None:
    if command == 0 or family >> 4 not in (1, 2):  # LOCAL, or no address of the Internet
        return None
    size = 4 if family >> 4 == 1 else 16
    if len(rest) < 2 * size + 4:
        raise Malformed("a PROXY preface without its addresses", protocol="rocketmq", path="proxy")
    address = IPv4Address(rest[:4]) if size == 4 else IPv6Address(rest[:16])
    return str(address), int.from_bytes(rest[2 * size : 2 * size + 2])
