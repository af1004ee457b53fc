"""What lies between the transport and the protocol: nothing, deflate, snappy, or WebSocket frames.

A carrier turns bytes of the transport into bytes of the protocol (`receive`) and back (`send`). It does no I/O.
`receive` raises DecodeError for bytes that are not of its format; the carrier is finished then.
"""

from __future__ import annotations

import zlib
from typing import Protocol

from wirefmt.errors import LimitExceeded, Malformed

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
