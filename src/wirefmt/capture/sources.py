"""Read the bytes of a capture from a file, glob, URL, standard input or open file; gzip, zstd, bzip2, xz and lz4 are recognised
by magic."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from wirefmt.capture import files
from wirefmt.errors import CaptureError

if TYPE_CHECKING:
    from wirefmt.capture.keylog import Secrets

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
BZIP2 = b"BZh"
XZ = b"\xfd7zX"
LZ4 = b"\x04\x22\x4d\x18"
#: Most bytes of a chunk, and of one that several threads share: at each chunk they may have to wait for each other.
CHUNK, SHARED_CHUNK = 1 << 19, 1 << 20
#: Seconds that rows of a pipe wait for further rows before they are emitted.
LIVE_WAIT = 0.05

#: Exceptions of reading an open file. Each becomes one error row, since the rows before it are valid.
READ_FAULTS = (OSError, EOFError, ValueError, zlib.error)


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Source:
    """One capture that is not open yet."""

    name: str
    size: int | None  # bytes as stored; None: unknown
    open: Callable[[], Any]
    close: bool = True  # False: the caller's file, which stays open


def find(source: Any) -> list[Source]:
    """The captures that the argument names, in order. Raises CaptureError if it names no capture."""
    if isinstance(source, (str, os.PathLike)):
        return _by_name(os.fspath(source))
    if hasattr(source, "read"):
        return [Source(str(getattr(source, "name", "<file>")), None, lambda: source, close=False)]
    if isinstance(source, Iterable):
        found = [s for one in source for s in find(one)]
        if not found:
            raise CaptureError("no capture given")
        return found
    raise TypeError(f"a capture is a path, a URL, an open binary file or a list of them, not {type(source).__name__}")


def _by_name(name: str) -> list[Source]:
    if name == "-":
        return [Source("-", None, lambda: getattr(sys.stdin.buffer, "raw", sys.stdin.buffer), close=False)]
    try:
        found = files.expand([name])
    except (OSError, ValueError, ImportError) as fault:
        raise CaptureError(f"cannot read {name!r}: {fault}") from fault
    if not found:
        raise CaptureError(f"no capture in the directory {name!r}")
    return [Source(f.name, f.size, _opener(f.name)) for f in found]


def _opener(name: str) -> Callable[[], Any]:
    def open_it() -> Any:
        try:
            if "://" in name:
                import fsspec

                return fsspec.open(name, "rb").open()
            return open(name, "rb", buffering=0)
        except OSError as fault:
            raise CaptureError(f"cannot read {name!r}: {fault}") from fault

    return open_it


class _Counted(io.RawIOBase):
    """The stored bytes, counted as they are read; the first bytes can be peeked at."""

    def __init__(self, inner: Readable, count: Callable[[int], None]) -> None:
        self._inner, self._count, self._ahead = inner, count, b""

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size and (more := self._inner.read(size - len(self._ahead))):
            self._ahead += more
            self._count(len(more))
        return self._ahead[:size]

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._ahead or size < 0:
            return super().read(size) or b""
        data = self._inner.read(size) or b""
        self._count(len(data))
        return data

    def chunks(self, size: int) -> Iterator[memoryview]:
        """All bytes, in chunks of this size."""
        if data := self.read(size):
            yield memoryview(data)
        if type(self._inner) is io.FileIO:  # which does not keep what it has filled
            from wirefmt.capture._engine import Blocks

            blocks = Blocks(size)
            while chunk := blocks.read(self._inner):
                self._count(len(chunk))
                yield chunk
            return
        while data := self.read(size):
            yield memoryview(data)

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        if self._ahead:
            n = min(len(view), len(self._ahead))
            view[:n] = self._ahead[:n]
            self._ahead = self._ahead[n:]
            return n
        if hasattr(self._inner, "readinto"):
            n = self._inner.readinto(view) or 0
        else:
            data = self._inner.read(len(view))
            n = len(data)
            view[:n] = data
        self._count(n)
        return n


class Chunks:
    """An open capture as decompressed chunks of CHUNK or SHARED_CHUNK bytes: views of bytes, which the core reads in place.

    A context manager.

    Attributes:
        live: True for a pipe or socket, whose bytes arrive as they are written. A chunk is the result of one read; an empty
            chunk means that no byte arrived for `LIVE_WAIT` seconds. Known when the first chunk is there.
        cut: True if the rest is not read, since the reader was stopped. Setting it stops reading.
    """

    def __init__(
        self,
        source: Source,
        count: Callable[[int], None] = lambda _: None,
        stopped: Callable[[], bool] = lambda: False,
        *,
        shared: bool = False,
    ) -> None:
        self._source, self._count, self._stopped = source, count, stopped
        self._size = SHARED_CHUNK if shared else CHUNK
        self._close = ExitStack()
        self.live = self.cut = False

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()

    def __iter__(self) -> Iterator[memoryview]:
        inner = self._source.open()
        if self._source.close:
            self._close.callback(inner.close)
        pipe = _pipe(inner)
        self.live = pipe is not None
        stored = _Counted(inner, self._count)
        stream = _decompressed(stored, stored.peek(4), self._source.name)
        for chunk in _whole(stream, self._size) if pipe is None else _as_it_comes(stream, pipe, self._size):
            yield chunk
            if self.cut or self._stopped():
                self.cut = True
                return


#: Bytes of a compressed file, as stored, that are read once more for its secrets blocks.
LOOK_AHEAD = 64 << 20


def look_ahead(source: Source, threads: int) -> tuple[Callable[[Secrets], None] | None, bool]:
    """What reads all secrets blocks of a capture, if it can be read twice; and whether the capture is complete."""
    if not source.close:
        return _caller_s(source, threads)
    if source.size is None or (files.COMPRESSED_NAME.search(source.name) and source.size > LOOK_AHEAD):
        return None, "://" in source.name or not _is_pipe(source.name)
    if _is_pipe(source.name):
        return None, False

    def scan(secrets: Secrets) -> None:
        with Chunks(source) as chunks:
            _scan(chunks, secrets)

    return scan, True


def _is_pipe(name: str) -> bool:
    return "://" not in name and not os.path.isfile(name)


def _caller_s(source: Source, threads: int) -> tuple[Callable[[Secrets], None] | None, bool]:
    """Of an open file: it goes on where it was."""
    opened = source.open()
    try:
        begin = opened.tell() if opened.seekable() else None
    except (AttributeError, OSError, ValueError):
        begin = None
    if begin is None:
        return None, False
    if threads > 1:  # another thread may be reading it
        return None, True

    def scan(secrets: Secrets) -> None:
        at = opened.tell()
        opened.seek(begin)
        try:
            with Chunks(source) as chunks:
                _scan(chunks, secrets)
        finally:
            opened.seek(at)

    return scan, True


def _scan(chunks: Iterable[memoryview], secrets: Secrets) -> None:
    from wirefmt.capture._engine import SecretsScan

    search = SecretsScan(secrets)
    try:
        for chunk in chunks:
            if not search.feed(chunk):
                return
    except (*READ_FAULTS, CaptureError):
        return  # the reading itself tells it


def _whole(stream: Any, size: int) -> Iterator[memoryview]:
    """The bytes of a file, in full chunks."""
    if isinstance(stream, _Counted):
        yield from stream.chunks(size)
        return
    view = memoryview(bytearray(size))
    # the output of a decompressor before its error is used
    fault: Exception | None = None
    while fault is None:
        n = 0
        try:
            while n < size and (more := _read_once(stream, view[n:])):
                n += more
        except READ_FAULTS as caught:
            fault = caught
        if n:
            yield memoryview(bytes(view[:n]))
        elif fault is None:
            return
    raise fault


def _as_it_comes(stream: Any, pipe: int, size: int) -> Iterator[memoryview]:
    view = memoryview(bytearray(size))
    compressed = not isinstance(stream, _Counted)
    while True:
        # a decompressor may have output without reading the pipe
        while not compressed and not select.select([pipe], [], [], LIVE_WAIT)[0]:
            yield view[:0]
        n = _read_once(stream, view) if compressed else stream.readinto(view)
        if not n:
            return
        yield memoryview(bytes(view[:n]))


def _read_once(stream: Any, view: memoryview) -> int:
    """Decompress into `view` what one read of the file gives; 0: the end."""
    try:
        if hasattr(stream, "readinto1"):
            n: int = stream.readinto1(view)
            return n
        data = stream.read1(len(view)) if hasattr(stream, "read1") else stream.read(len(view))  # lz4's
    except Exception as fault:  # xz and lz4 have errors of their own
        if isinstance(fault, (MemoryError, *READ_FAULTS)):
            raise
        raise ValueError(f"{type(fault).__name__}: {fault}") from fault
    view[: len(data)] = data
    return len(data)


def _pipe(opened: Any) -> int | None:
    """The file descriptor of an unbuffered pipe or socket; None for other files."""
    if not isinstance(opened, io.RawIOBase):
        return None  # select() does not see buffered data
    try:
        number: int = opened.fileno()
        mode = os.fstat(number).st_mode
    except (AttributeError, OSError, ValueError):
        return None
    return number if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


def _decompressed(stored: _Counted, magic: bytes, name: str) -> BinaryIO | _Counted:
    if magic.startswith(GZIP):
        import gzip

        return cast(BinaryIO, gzip.GzipFile(fileobj=stored, mode="rb"))
    if magic.startswith(BZIP2):
        import bz2

        return cast(BinaryIO, bz2.BZ2File(cast(BinaryIO, stored)))
    if magic.startswith(XZ):
        import lzma

        return cast(BinaryIO, lzma.LZMAFile(cast(BinaryIO, stored)))
    if magic == LZ4:
        return cast(BinaryIO, _lz4_file(stored))
    if magic == ZSTD:
        return cast(BinaryIO, _zstd_file()(stored))
    return stored


def _lz4_file(stored: _Counted) -> Any:
    try:
        from lz4.frame import LZ4FrameFile  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise CaptureError("lz4 captures need the package lz4") from None
    return LZ4FrameFile(stored, mode="r")


def _zstd_file() -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        try:
            from backports import zstd  # type: ignore[no-redef, import-not-found, unused-ignore]
        except ImportError:
            raise CaptureError("zstd captures need Python 3.14 or the package backports.zstd") from None
    return zstd.ZstdFile
