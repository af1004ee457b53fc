"""What lies between the transport and the protocol: nothing, deflate, or WebSocket frames.

A carrier turns bytes of the transport into bytes of the protocol (`receive`) and back (`send`). It does no I/O.
`receive` raises DecodeError for bytes that are not of its format; the carrier is finished then. Bytes of the protocol that came
before are in the error's `messages`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

from wirefmt.errors import DecodeError, LimitExceeded, Malformed

#: Bytes that one call of `receive` may produce, unless the caller says otherwise. Compressed data can grow a thousandfold.
LIMIT = 1 << 26


class Carrier(Protocol):
    def receive(self, data: bytes) -> bytes:
        """Bytes of the protocol in `data`, as far as they are complete."""
        ...

    def send(self, data: bytes) -> bytes:
        """Bytes for the transport that carry all of `data`."""
        ...


class Plain:
    """No carrier: the protocol's bytes as they are."""

    def receive(self, data: bytes) -> bytes:
        return data

    def send(self, data: bytes) -> bytes:
        return data


class Deflate:
    """A raw deflate stream (RFC 1951) in each direction, flushed after each `send`.

    Args:
        level: 0 (stored) to 9 (smallest).
        limit: bytes that one call of `receive` may produce.
    """

    def __init__(self, level: int = 6, limit: int = LIMIT) -> None:
        self._inflate = zlib.decompressobj(wbits=-15)
        self._deflate = zlib.compressobj(level, wbits=-15)
        self._limit = limit

    def receive(self, data: bytes) -> bytes:
        try:
            out = self._inflate.decompress(data, self._limit)
        except zlib.error as error:
            raise Malformed(f"not a deflate stream: {error}", protocol="deflate") from None
        if self._inflate.unconsumed_tail:
            raise LimitExceeded("more bytes than the caller's limit", protocol="deflate", have=self._limit)
        if self._inflate.unused_data:
            raise Malformed("bytes after the end of the deflate stream", protocol="deflate")
        return out

    def send(self, data: bytes) -> bytes:
        return self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


class WebSocket:
    """Binary WebSocket messages (RFC 6455, 5), after the opening handshake. Frames and protocol messages need not line up.

    Answers to pings and to a close go to `replies`: bytes for the transport, to be sent before anything else. `closed` turns
    True with the peer's close frame; what follows it is dropped.

    Args:
        mask: makes the 4 bytes of a mask for each frame: the client's side, whose frames are masked (5.3). None: the
            server's side, whose frames are not.
        limit: bytes that one frame may have.
    """

    BINARY, CLOSE, PING, PONG = 0x2, 0x8, 0x9, 0xA

    def __init__(self, mask: Callable[[], bytes] | None = None, limit: int = LIMIT) -> None:
        self._mask = mask
        self._limit = limit
        self._kept = bytearray()
        self._needed = 2  # bytes from the start of _kept that say more
        self._in_message = False
        self.replies = bytearray()
        self.closed = False

    def receive(self, data: bytes) -> bytes:
        self._kept += data
        if len(self._kept) < self._needed:
            return b""
        data, out, at = bytes(self._kept), bytearray(), 0
        while not self.closed:
            try:
                frame = self._frame(data, at)
            except DecodeError as error:
                error.messages = (bytes(out),)
                raise
            if frame is None:
                break
            first, payload, at = frame
            opcode = first & 0x0F
            if opcode == self.PING:
                self.replies += self._write(self.PONG, payload)
            elif opcode == self.CLOSE:
                self.replies += self._write(self.CLOSE, payload[:2])
                self.closed = True
            elif opcode < 0x8:
                self._in_message = not first & 0x80
                out += payload
        del self._kept[: len(data) if self.closed else at]
        self._needed -= at
        return bytes(out)

    def send(self, data: bytes) -> bytes:
        return self._write(self.BINARY, data) if data else b""

    def close(self, code: int = 1000) -> bytes:
        """A close frame with this code (7.4)."""
        return self._write(self.CLOSE, code.to_bytes(2))

    def _frame(self, data: bytes, at: int) -> tuple[int, bytes, int] | None:
        """First byte and payload of the frame at `at`, and where the next one begins; None: it is not complete."""
        if not self._has(data, at, 2):
            return None
        first, second = data[at], data[at + 1]
        self._check(first, second)
        size, at = second & 0x7F, at + 2
        if size > 125:
            width = 2 if size == 126 else 8
            if not self._has(data, at, width):
                return None
            size, at = int.from_bytes(data[at : at + width]), at + width
        if size > self._limit:
            raise LimitExceeded(
                "a frame larger than the caller's limit", protocol="websocket", need=size, have=self._limit
            )
        masked = 4 if second & 0x80 else 0
        if not self._has(data, at, masked + size):
            return None
        payload = data[at + masked : at + masked + size]
        return first, _masked(payload, data[at : at + 4]) if masked else payload, at + masked + size

    def _has(self, data: bytes, at: int, size: int) -> bool:
        """Are so many bytes there? Notes how many would be, so that a large frame in small pieces is looked at once."""
        self._needed = at + size
        return len(data) >= self._needed

    def _check(self, first: int, second: int) -> None:
        opcode, final, size = first & 0x0F, first & 0x80, second & 0x7F
        if first & 0x70:
            raise Malformed("reserved bits are set, no extension is in use", protocol="websocket", spec="RFC 6455, 5.2")
        if bool(second & 0x80) is (self._mask is not None):
            raise Malformed("a client masks its frames, a server does not", protocol="websocket", spec="RFC 6455, 5.1")
        if opcode in (self.CLOSE, self.PING, self.PONG):
            if not final or size > 125:
                raise Malformed("a control frame is whole and short", protocol="websocket", spec="RFC 6455, 5.5")
        elif opcode not in (0x0, self.BINARY):  # text has no place in these protocols [MQTT-6.0.0-1]
            raise Malformed(f"opcode {opcode}, where binary data is wanted", protocol="websocket", spec="RFC 6455, 5.6")
        elif (opcode == 0) is not self._in_message:
            raise Malformed("a fragment out of place", protocol="websocket", spec="RFC 6455, 5.4")

    def _write(self, opcode: int, payload: bytes) -> bytes:
        size = len(payload)
        bit = 0x80 if self._mask is not None else 0
        if size < 126:
            head = bytes((0x80 | opcode, bit | size))
        elif size < 1 << 16:
            head = bytes((0x80 | opcode, bit | 126)) + size.to_bytes(2)
        else:
            head = bytes((0x80 | opcode, bit | 127)) + size.to_bytes(8)
        if self._mask is None:
            return head + payload
        mask = self._mask()
        return head + mask + _masked(payload, mask)


def _masked(payload: bytes, mask: bytes) -> bytes:
    """RFC 6455, 5.3: each byte XOR the mask's; the same call masks and unmasks."""
    size = len(payload)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(size)
