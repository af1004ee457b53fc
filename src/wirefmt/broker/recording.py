"""Recordings: the bytes of all connections of a broker, as a pcapng file for `wirefmt.capture`, tshark and Wireshark.

The packets are synthetic: Ethernet, IPv4 or IPv6, and TCP with sequence numbers, checksums, SYN and FIN. The bytes are recorded
between TLS and the protocol, so TLS connections are recorded in plaintext; a comment on the connection's first packet says so.
The broker's bytes are those that it gave to the transport; the client may not have received the last of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from wirefmt.connection.aio import Tap, TapFactory

#: The maximum payload of one packet, in bytes.
SEGMENT: Final = 1 << 15

#: Blocks are written when they have this many bytes, and at the end of each iteration of the event loop.
KEPT: Final = 1 << 16

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

# pcapng: block types, and codes of options
SECTION_HEADER: Final = 0x0A0D0D0A
INTERFACE: Final = 1
ENHANCED_PACKET: Final = 6
COMMENT: Final = 1
TIME_RESOLUTION: Final = 9
APPLICATION: Final = 4
ETHERNET: Final = 1

#: MAC addresses, administered locally.
CLIENT_MAC, SERVER_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


class Address(NamedTuple):
    """One end of a connection. `host`: 4 or 16 bytes."""

    host: bytes
    port: int


#: The address of a socket without an IP address, such as a Unix socket.
NOWHERE: Final = socket.inet_aton("127.0.0.1")


def address_of(name: Any) -> Address:
    """The address in a socket's name, as the operating system returns it."""
    if not isinstance(name, tuple):
        return Address(NOWHERE, 0)
    host = name[0].partition("%")[0]
    return Address(socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host), name[1])


def checksum(data: bytes) -> int:
    """RFC 1071. A remainder modulo 2^16 - 1 is the sum with end-around carry."""
    total = int.from_bytes(data + b"\0" * (len(data) & 1)) % 0xFFFF
    return 0xFFFF - total if total else 0


def packet(source: Address, target: Address, to_server: bool, segment: bytes) -> bytes:
    """Ethernet and IP around a TCP segment whose checksum is still zero."""
    addresses = source.host + target.host
    pseudo = addresses + struct.pack("!HH", 6, len(segment))  # RFC 9293, 3.1; the sum is the same for IPv6
    segment = segment[:16] + checksum(pseudo + segment).to_bytes(2) + segment[18:]
    if len(source.host) == 4:
        kind, head = 0x0800, struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0x4000, 64, 6, 0) + addresses
        head = head[:10] + checksum(head).to_bytes(2) + head[12:]
    else:
        kind, head = 0x86DD, struct.pack("!IHBB", 6 << 28, len(segment), 6, 64) + addresses
    macs = SERVER_MAC + CLIENT_MAC if to_server else CLIENT_MAC + SERVER_MAC
    return macs + kind.to_bytes(2) + head + segment


def block(kind: int, body: bytes, options: Iterable[tuple[int, bytes]] = ()) -> bytes:
    """A pcapng block."""
    for code, value in options:
        body += struct.pack("<HH", code, len(value)) + value + b"\0" * (-len(value) % 4)
    if options:
        body += b"\0\0\0\0"
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


class Recorder:
    """A pcapng file to which connections are recorded.

    Blocks are written whole, so the file can be read at any time. A kill in the middle of a write can cut the last block. When
    the disk is full, the recording ends with the last whole block, and the broker continues. Memory: KEPT bytes, and a few
    numbers per connection.

    Args:
        path: the file; an existing file is replaced.
        now: returns the time in nanoseconds since 1970.

    Attributes:
        error: the error that ended the recording, or None.

    Raises OSError if the file cannot be created.
    """

    def __init__(self, path: str | Path, *, now: Callable[[], int] = time.time_ns) -> None:
        self.error: OSError | None = None
        self._now = now
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115  # `close` closes it
        self._kept = bytearray()
        self._written = 0
        self._scheduled = False
        self._open: set[tuple[Address, Address]] = set()
        self._kept += block(
            SECTION_HEADER,
            struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1),
            (
                (APPLICATION, b"wirefmt"),
                (COMMENT, b"Recorded by a broker: the link, IP and TCP headers are synthetic."),
            ),
        )
        self._kept += block(INTERFACE, struct.pack("<HHI", ETHERNET, 0, 0), ((TIME_RESOLUTION, b"\x09"),))
        self.flush()

    def tap(self, plain_port: int) -> TapFactory:
        """The argument `tap` of the protocols' `serve`.

        Args:
            plain_port: the recorded port of the server for connections with TLS.
        """
        return lambda inner: RecordingTap(inner, self, plain_port)

    def conversation(self, client: Address, server: Address, comment: str = "", *, begun: bool = True) -> Conversation:
        """A new connection.

        Args:
            begun: False: without SYN, like a capture that begins in the middle of a connection.
        """
        if len(client.host) != len(server.host):
            server = Address(client.host, server.port)
        while (client, server) in self._open:  # another connection may have the same address with the plaintext port
            client = Address(client.host, (client.port - 1) % 0x10000 or 0xFFFF)
        self._open.add((client, server))
        return Conversation(self, client, server, comment, begun)

    def close(self) -> None:
        """Write the buffered blocks, and close the file. Later packets are ignored."""
        self.flush()
        self._file.close()

    def flush(self) -> None:
        """Write the buffered blocks. If that fails, the file is truncated after its last whole block."""
        self._scheduled = False
        kept, self._kept = self._kept, bytearray()
        if self._file.closed or self.error is not None:
            return
        view = memoryview(kept)
        try:
            while view:
                view = view[os.write(self._file.fileno(), view) :]
        except OSError as error:
            self.error = error
            with contextlib.suppress(OSError):  # it is a pipe
                os.ftruncate(self._file.fileno(), self._written)
            return
        self._written += len(kept)

    def write(self, data: bytes, comment: str = "") -> None:
        """Record a packet with the current time."""
        if self.error is not None or self._file.closed:
            return
        now = self._now()
        head = struct.pack("<IIIII", 0, now >> 32, now & 0xFFFFFFFF, len(data), len(data))
        options = ((COMMENT, comment.encode()),) if comment else ()
        self._kept += block(ENHANCED_PACKET, head + data + b"\0" * (-len(data) % 4), options)
        if len(self._kept) >= KEPT:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def forget(self, client: Address, server: Address) -> None:
        """The connection has ended: its addresses may be used again."""
        self._open.discard((client, server))


class Conversation:
    """One connection of a recording, with the sequence numbers of TCP (RFC 9293, 3.4)."""

    def __init__(self, recorder: Recorder, client: Address, server: Address, comment: str, begun: bool) -> None:
        self.client = client
        self.server = server
        self._recorder = recorder
        self._comment = comment
        self._next = {True: 1, False: 1}  # sequence numbers, of the client and of the server
        self._finished: list[bool] = []
        if begun:
            self._next = {True: 0, False: 0}
            self._write(True, SYN)
            self._write(False, SYN | ACK)
            self._write(True, ACK)

    def say(self, by_client: bool, data: bytes) -> None:
        """Bytes of one side."""
        for at in range(0, len(data), SEGMENT):
            self._write(by_client, PSH | ACK, data[at : at + SEGMENT])

    def finish(self, by_client: bool) -> None:
        """One side ends its stream."""
        if by_client not in self._finished:
            self._finished.append(by_client)
            self._write(by_client, FIN | ACK)

    def end(self, *, reset: bool = False, by_client: bool = False) -> None:
        """The connection has ended. `reset`: without an orderly close."""
        if reset:
            self._write(by_client, RST | ACK)
        else:
            self.finish(by_client)
            self.finish(not by_client)
            self._write(not self._finished[-1], ACK)
        self._recorder.forget(self.client, self.server)

    def _write(self, by_client: bool, flags: int, data: bytes = b"") -> None:
        ports = (self.client.port, self.server.port) if by_client else (self.server.port, self.client.port)
        number, other = self._next[by_client], self._next[not by_client]
        acknowledged = other if flags & ACK else 0
        segment = struct.pack("!HHIIBBHHH", *ports, number, acknowledged, 5 << 4, flags, 0xFFFF, 0, 0) + data
        self._next[by_client] = (number + len(data) + bool(flags & SYN) + bool(flags & FIN)) % (1 << 32)
        ends = (self.client, self.server) if by_client else (self.server, self.client)
        self._recorder.write(packet(*ends, by_client, segment), self._comment)
        self._comment = ""


class RecordingTap(Tap):
    """Records all bytes, and passes them on unchanged."""

    def __init__(self, inner: asyncio.BaseProtocol, recorder: Recorder, plain_port: int) -> None:
        super().__init__(inner)
        self._recorder = recorder
        self._plain_port = plain_port
        self._conversation: Conversation | None = None
        self._below_tls: Any = None

    def made(self) -> None:
        self._begin(begun=True)
        super().made()

    def received(self, data: bytes) -> None:
        self._say(True, data)
        super().received(data)

    def ended(self) -> bool | None:
        if self._conversation is not None:
            self._conversation.finish(True)
        return super().ended()

    def sent(self, data: bytes) -> None:
        self._say(False, data)
        super().sent(data)

    def write_eof(self) -> None:
        if self._conversation is not None:
            self._conversation.finish(False)
        super().write_eof()

    def lost(self, error: Exception | None) -> None:
        super().lost(error)  # first, because the driver may still write
        if self._conversation is not None:
            self._conversation.end(reset=error is not None, by_client=True)
            self._conversation = None

    def abort(self) -> None:
        if self._conversation is not None:
            self._conversation.end(reset=True)
            self._conversation = None
        super().abort()

    def _say(self, by_client: bool, data: bytes) -> None:
        if self.transport is not self._below_tls:  # TLS has begun in the middle of the connection
            if self._conversation is not None:
                self._conversation.end()
            self._begin(begun=False)
        if self._conversation is not None:
            self._conversation.say(by_client, data)

    def _begin(self, *, begun: bool) -> None:
        self._below_tls = self.transport
        client = address_of(self.address)
        server = address_of(self.get_extra_info("sockname"))
        comment = ""
        if self.get_extra_info("sslcontext") is not None:
            comment = f"TLS on port {server.port}, recorded as plaintext."
            server = Address(server.host, self._plain_port)
        self._conversation = self._recorder.conversation(client, server, comment, begun=begun)
