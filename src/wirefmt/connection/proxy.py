"""The PROXY protocol of HAProxy, versions 1 and 2: what a proxy says about its client before the first byte of the client.

It does no I/O. Facts are from HAProxy's doc/proxy-protocol.txt, which the sections in this module refer to::

    version 1   "PROXY" SP ("TCP4" | "TCP6") SP source SP destination SP source port SP destination port CRLF
                "PROXY UNKNOWN" anything CRLF                                            at most 107 bytes

    version 2   offset  bytes
                     0     12  signature: 0D 0A 0D 0A 00 0D 0A "QUIT" 0A
                    12      1  version (2) and command: 0x20 LOCAL, 0x21 PROXY
                    13      1  family (0 unspecified, 1 IPv4, 2 IPv6, 3 Unix) and transport (0, 1 stream, 2 datagram)
                    14      2  bytes that follow: addresses, then records of type (1), length (2) and value
                    16    12, 36 or 216  source, destination, source port, destination port; Unix: two paths of 108 bytes
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Literal

from wirefmt.errors import LimitExceeded, Malformed, Truncated

Family = Literal["unspecified", "inet", "inet6", "unix"]
Transport = Literal["unspecified", "stream", "datagram"]

#: Limit on the bytes of a header. The specification wants 536 to be enough; client certificates in version 2 are larger.
LIMIT: Final = 4096

#: Why a listener without this protocol refuses a connection.
REFUSAL: Final = "a PROXY header and this listener does not take them (proxy_protocol)"

_V1: Final = b"PROXY"
_V1_LIMIT: Final = 107
_V1_SHORTEST: Final = len(b"PROXY UNKNOWN\r\n")
_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_FIXED: Final = 16

_FAMILIES: Final[tuple[Family, ...]] = ("unspecified", "inet", "inet6", "unix")
_TRANSPORTS: Final[tuple[Transport, ...]] = ("unspecified", "stream", "datagram")
_SIZES: Final = (0, 12, 36, 216)
_CRC32C: Final = 0x03
_PORT: Final = re.compile(rb"0|[1-9][0-9]{0,4}")

#: An address as Python's sockets have it: (host, port), (host, port, 0, 0) for IPv6, the path of a Unix socket.
Address = tuple[str, int] | tuple[str, int, int, int] | str


@dataclass(frozen=True, slots=True)
class Header:
    """A PROXY header.

    Attributes:
        size: its bytes.
        version: 1 or 2.
        local: True: the proxy itself has made the connection, for example to see if the server lives.
        family: of the addresses. "unspecified": there are none, also in version 1's UNKNOWN and with `local`.
        transport: what the client uses; "stream" in version 1.
        source: the address of the client. None: that of the transport is to be used. A Unix socket without name is "".
        destination: the address that the client has connected to, or None.
    """

    size: int
    version: int
    local: bool = False
    family: Family = "unspecified"
    transport: Transport = "unspecified"
    source: Address | None = None
    destination: Address | None = None


def begins(data: bytes) -> bool | None:
    """Are these the first bytes of a header? None: more bytes are needed."""
    if data.startswith((_V1, _V2)):
        return True
    return None if _V1.startswith(data) or _V2.startswith(data) else False


def read_header(data: bytes) -> Header | int:
    """Read a header at the start of `data`. Bytes after it are not looked at.

    Returns the header, or the number of bytes that can be read next without passing its end. Raises DecodeError if the bytes are
    not a header, or violate a rule.
    """
    match begins(data):
        case False:
            raise _wrong(f"no PROXY header: {data[:16]!r}", "2.2")
        case None:
            return _V1_SHORTEST - len(data)  # the shortest of both versions
    return _read_v1(data) if data.startswith(_V1) else _read_v2(data)


def _wrong(reason: str, section: str, offset: int = 0) -> Malformed:
    return Malformed(reason, protocol="proxy", offset=offset, spec=f"proxy-protocol {section}")


# ---- version 1


def _read_v1(data: bytes) -> Header | int:
    end = data.find(b"\r\n", 0, _V1_LIMIT)
    line = data[:_V1_LIMIT] if end < 0 else data[:end]
    if end < 0 and len(data) >= _V1_LIMIT:
        raise _wrong(f"no CRLF in the first {_V1_LIMIT} bytes", "2.1")
    alone = line[:-1] if end < 0 and line.endswith(b"\r") else line
    if b"\r" in alone or b"\n" in alone:
        raise _wrong("a CR or LF that is not part of CRLF", "2.1")
    if end < 0:
        return max(_V1_SHORTEST - len(data), 1 if line.endswith(b"\r") else 2)
    words = line.split(b" ")
    if words[:2] == [_V1, b"UNKNOWN"]:
        return Header(end + 2, 1, transport="stream")  # whatever comes before CRLF is ignored
    if len(words) != 6 or words[0] != _V1 or words[1] not in (b"TCP4", b"TCP6"):
        raise _wrong("not PROXY, TCP4, TCP6 or UNKNOWN, two addresses and two ports, each after one space", "2.1")
    ports = words[4:]
    if not all(_PORT.fullmatch(port) and int(port) <= 65535 for port in ports):
        raise _wrong(f"invalid ports: {ports!r}", "2.1")
    source, destination = (
        _address(words[1] == b"TCP6", text, int(port)) for text, port in zip(words[2:4], ports, strict=True)
    )
    return Header(end + 2, 1, False, "inet6" if words[1] == b"TCP6" else "inet", "stream", source, destination)


def _address(is_v6: bool, text: bytes, port: int) -> Address:
    try:
        if b"%" in text or b"/" in text:  # zones and networks are not part of an address here
            raise ValueError(f"{text!r} is not an address")
        host = text.decode("ascii")
        return (str(IPv6Address(host)), port, 0, 0) if is_v6 else (str(IPv4Address(host)), port)
    except ValueError as error:
        raise _wrong(f"invalid address: {error}", "2.1") from None


# ---- version 2


def _read_v2(data: bytes) -> Header | int:
    if len(data) < _V2_FIXED:
        return _V2_FIXED - len(data)
    version, command = data[12] >> 4, data[12] & 15
    family, transport = data[13] >> 4, data[13] & 15
    size = _V2_FIXED + int.from_bytes(data[14:16])
    if version != 2:
        raise _wrong(f"version {version}", "2.2", 12)
    if command > 1:
        raise _wrong(f"command {command}", "2.2", 12)
    if family >= len(_FAMILIES) or transport >= len(_TRANSPORTS):
        raise _wrong(f"address family {family}, transport protocol {transport}", "2.2", 13)
    if size > LIMIT:
        raise LimitExceeded("the header exceeds the limit", protocol="proxy", offset=14, need=size, have=LIMIT)
    if len(data) < size:
        return size - len(data)
    if command == 0:
        return Header(size, 2, True)  # everything else is discarded
    if family == 0 or transport == 0:
        return Header(size, 2)
    records = _V2_FIXED + _SIZES[family]
    if records > size:
        raise Truncated(
            "the addresses do not fit", protocol="proxy", offset=16, need=_SIZES[family], have=size - _V2_FIXED,
            spec="proxy-protocol 2.2",
        )  # fmt: skip
    _check_records(data[:size], records)
    source, destination = _addresses(family, data[_V2_FIXED:records])
    return Header(size, 2, False, _FAMILIES[family], _TRANSPORTS[transport], source, destination)


def _addresses(family: int, block: bytes) -> tuple[Address, Address]:
    if family == 3:
        source, destination = (
            path.rstrip(b"\0") if path.startswith(b"\0") else path.partition(b"\0")[0]  # Linux: an abstract name
            for path in (block[:108], block[108:])
        )
        return source.decode(errors="surrogateescape"), destination.decode(errors="surrogateescape")
    size = 4 if family == 1 else 16
    hosts, ports = (block[:size], block[size : 2 * size]), (block[-4:-2], block[-2:])
    if family == 1:
        first, second = (
            (str(IPv4Address(host)), int.from_bytes(port)) for host, port in zip(hosts, ports, strict=True)
        )
        return first, second
    third, fourth = (
        (str(IPv6Address(host)), int.from_bytes(port), 0, 0) for host, port in zip(hosts, ports, strict=True)
    )
    return third, fourth


def _check_records(header: bytes, at: int) -> None:
    """The records after the addresses. Only the checksum has a meaning here (2.2.3)."""
    while at < len(header):
        value = at + 3
        end = value + int.from_bytes(header[at + 1 : value])
        if end > len(header) or value > len(header):
            raise Truncated("a record runs past the header", protocol="proxy", offset=at, spec="proxy-protocol 2.2")
        if header[at] == _CRC32C:
            if end - value != 4:
                raise _wrong(f"a checksum of {end - value} bytes", "2.2.3", at)
            if crc32c(header[:value] + bytes(4) + header[end:]) != int.from_bytes(header[value:end]):
                raise _wrong("the checksum does not match", "2.2.3", at)
            return
        at = end


@lru_cache(maxsize=1)
def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


def crc32c(data: bytes) -> int:
    """CRC32c (RFC 9260, appendix A)."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class FirstBytes:
    """The first bytes of a connection whose listener takes no PROXY header. No other protocol here begins like one.

    `receive` returns the bytes when they are not the start of a header, and raises Malformed when they are.
    """

    __slots__ = ("_kept", "done")

    def __init__(self) -> None:
        self._kept = b""
        self.done = False

    def receive(self, data: bytes) -> bytes:
        self._kept += data
        begun = begins(self._kept)
        if begun:
            raise _wrong(REFUSAL, "2")
        self.done = begun is False
        return self._kept if self.done else b""

    def data_to_send(self) -> bytes:
        return b""
