"""Where the frames of a stream end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wirefmt.errors import DecodeError

#: Bytes of a frame of unknown size that are held.
HELD_BYTES: Final = 1 << 20


class FrameSplitter:
    """Splits one direction of a stream at the ends of its frames. Time is linear, whatever the chunks.

    Bytes are passed on as soon as the size of their frame is known. Held are an incomplete frame header, of 16 KiB at most, and
    of PHPMQ, whose frames have their sizes in parts, an incomplete frame.

    Args:
        size: returns the size of the frame that begins a buffer, or NEED_DATA. Raises DecodeError.

    Attributes:
        lost: a frame was invalid, or its size was not known within HELD_BYTES: it is not known any more where frames end.
    """

    def __init__(self, size: Callable[[memoryview], Any]) -> None:
        self.lost = False
        self._size = size
        self._held = bytearray()
        self._missing = 0  # bytes of a frame that has been passed on in part

    def split(self, data: bytes) -> list[bytes]:
        """Pieces of the stream. Each ends where a frame ends, or with `data`."""
        self._held += data
        pieces: list[bytes] = []
        at, end = 0, len(self._held)
        with memoryview(self._held) as view:
            while at < end:
                if not self._missing:
                    self._missing = self._next(view[at:])
                    if not self._missing:
                        break
                piece = bytes(view[at : at + self._missing])
                pieces.append(piece)
                at += len(piece)
                self._missing -= len(piece)
        del self._held[:at]
        if self.lost:
            pieces += filter(None, [self.rest()])
        return pieces

    def _next(self, view: memoryview) -> int:
        """The size of the next frame; 0: it is not known."""
        with view:
            try:
                size = self._size(view)
            except DecodeError:
                self.lost = True
                return 0
            self.lost = not isinstance(size, int) and len(view) > HELD_BYTES
        return size if isinstance(size, int) else 0

    def rest(self) -> bytes:
        """Take what is held."""
        rest, self._held = bytes(self._held), bytearray()
        return rest
