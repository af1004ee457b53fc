"""One queue of bytes for the peer, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Buffers of at least this many bytes are kept by reference; smaller ones are copied together.
KEEP_FROM = 2048


class Outbox:
    """Bytes for the peer. `pending` counts bytes that have not been taken.

    `position` counts all bytes ever queued and `taken` all bytes ever taken, so the transport has a message
    once `taken` has reached the `position` noted after it was queued.
    """

    __slots__ = ("_buffers", "_tail", "position", "taken")

    def __init__(self) -> None:
        self.position = 0
        self.taken = 0
        self._buffers: list[Buffer] = []
        self._tail = bytearray()  # small buffers that follow the last of _buffers

    @property
    def pending(self) -> int:
        return self.position - self.taken

    def put(self, data: bytes | memoryview) -> None:
        """Queue bytes. A memoryview must be of single bytes and of an object that is not changed any more."""
        size = len(data)
        if size < KEEP_FROM:
            self._tail += data
        else:
            if self._tail:
                self._buffers.append(self._tail)
                self._tail = bytearray()
            self._buffers.append(data)
        self.position += size

    def take(self) -> bytes:
        """All queued bytes, joined."""
        if not self._buffers:
            if not self._tail:
                return b""
            data = bytes(self._tail)
            self._tail.clear()
        else:
            data = b"".join(self.take_buffers())
        self.taken = self.position
        return data

    def take_buffers(self) -> list[Buffer]:
        """All queued bytes, with large buffers by reference."""
        buffers = self._buffers
        if self._tail:
            buffers.append(self._tail)
        self._buffers = []
        self._tail = bytearray()
        self.taken = self.position
        return buffers

    def clear(self) -> None:
        """Drop all queued bytes. They do not count as taken."""
        self.position = self.taken
        self._buffers = []
        self._tail = bytearray()
