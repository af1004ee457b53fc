"""Captures that end at the size at which they were planned, however long they have become since.

Several tasks read one capture, and a task may be run again: all must see the same bytes of a capture that is still written.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from typing import Any, BinaryIO, cast

from wirefmt.errors import CaptureError

#: Bytes at each end of a capture that its digest covers.
DIGESTED = 1 << 16


class Bounded(io.RawIOBase):
    """The first `size` bytes of a capture, opened when they are first read; size 0: unknown, the whole capture.

    Raises CaptureError, at the first read, if the capture cannot be opened.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self._limit = size
        self._at = 0
        self._inner: Any = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return super().read(size) or b""
        data: bytes = self._opened_at(self._at).read(self._left(size))
        self._at += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_END:
            end = self._opened_at(None).seek(0, os.SEEK_END)
            offset += min(end, self._limit) if self._limit else end
        elif whence == os.SEEK_CUR:
            offset += self._at
        self._at = max(0, offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
            self._inner = None
        super().close()

    def _left(self, size: int) -> int:
        return min(size, max(0, self._limit - self._at)) if self._limit else size

    def _opened_at(self, place: int | None) -> Any:
        if self._inner is None:
            try:
                if "://" in self.name:
                    import fsspec

                    self._inner = fsspec.open(self.name, "rb").open()
                else:
                    self._inner = io.FileIO(self.name)
            except OSError as fault:
                raise CaptureError(f"cannot read {self.name!r}: {fault}") from fault
        if place is not None and self._inner.tell() != place:
            self._inner.seek(place)
        return self._inner


def bounded(name: str, size: int) -> BinaryIO:
    """The first `size` bytes of a capture, as an open file."""
    return cast(BinaryIO, Bounded(name, size))


class Several(list[Bounded]):
    """Captures for `capture.read`; a context manager that closes those that were opened."""

    def __init__(self, names: Iterable[str], sizes: Iterable[int]) -> None:
        super().__init__(map(Bounded, names, sizes))

    def __enter__(self) -> Several:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self:
            one.close()


def digest(name: str, size: int) -> str:
    """16 hexadecimal digits for the first `size` bytes of a capture: of their beginning and their end, DIGESTED bytes each.

    A capture has times and sizes of packets at both. Raises CaptureError if the capture cannot be opened.
    """
    found = hashlib.blake2b(digest_size=8)
    with Bounded(name, size) as file:
        for begin in sorted({0, max(0, size - DIGESTED)}):
            file.seek(begin)
            left = min(DIGESTED, size - begin)
            while left > 0 and (data := file.read(left)):
                found.update(data)
                left -= len(data)
    return found.hexdigest()
