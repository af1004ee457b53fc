"""Where the frames of a stream end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wirefmt.errors import DecodeError


class FrameSplitter:
    """Splits one direction of a stream at the ends of its frames. Time is linear, whatever the chunks.

    Bytes are passed on as soon as the size of their frame is known. Only an incomplete frame header is held; the limit is the
    protocol's, 16 KiB for NSQ and a few bytes for the others.

    Args:
        size: returns the size of the frame that begins a buffer, or NEED_DATA. Raises DecodeError.
    """

    def __init__(self, size: Callable[[memoryview], Any]) -> None:
        self._size = size
        self._header = bytearray()  # the beginning of a frame whose size is not known yet
        self._missing = 0  # bytes of a frame that has been passed on in part
        self._invalid = False

    def split(self, data: bytes) -> list[bytes]:
        """Pieces of the stream. Each ends where a frame ends, or with `data`. From an invalid frame on, nothing is split."""
        if self._header:
            data = bytes(self._header) + data
        pieces: list[bytes] = []
        at, view = 0, memoryview(data)
        while at < len(data):
            if not self._missing and not self._invalid:
                try:
                    size = self._size(view[at:])
                except DecodeError:
                    self._invalid = True
                else:
                    if not isinstance(size, int):
                        break
                    self._missing = size
            end = min(at + self._missing, len(data)) if not self._invalid else len(data)
            pieces.append(data[at:end])
            self._missing -= 0 if self._invalid else end - at
            at = end
        self._header = bytearray(data[at:])
        return pieces

    def rest(self) -> bytes:
        """Take what is held."""
        rest, self._header = bytes(self._header), bytearray()
        return rest
