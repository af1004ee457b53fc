"""Byte ranges of one uncompressed capture, for several readers.

pcap does not mark where a record begins. A range is therefore any range of bytes. Every reader finds the first record
at or after the beginning of the range, and at or after its end, by the same rule, so ranges cover the file without gaps
and overlaps. The rule searches for a chain of records that is longer than one packet could imitate. It starts well before
the range and follows the chain to it, so bytes inside a packet that look like records, as in a capture of a capture, are
not taken for records.

pcapng may change byte order, interfaces and clocks within a file, so its ranges are found by reading all block headers once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import BinaryIO

from wirefmt.capture import _engine
from wirefmt.capture.keylog import Secrets
from wirefmt.errors import CaptureError

#: Bytes examined before and after a split; each is more than the largest packet with its record header.
WINDOW = 1 << 19
#: Bytes of a file that contain any pcap header.
HEADER = 32

Source = str | os.PathLike[str] | BinaryIO


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes `begin` to `end` of a capture file.

    prefix: bytes to parse first (the file header; in pcapng the section header and interfaces).
    first_frame: number of the first packet; None: unknown unless the packets before it are counted.
    exact: True if records begin at both ends.
    """

    begin: int
    end: int
    prefix: bytes
    first_frame: int | None
    exact: bool


@dataclass(frozen=True, slots=True)
class Count:
    """Contents of a range: packets, IP fragments among them, where its first record begins and its last record ends; the key logs
    of its secrets blocks and of those before the first packet."""

    frames: int
    fragments: int
    begin: int
    end: int
    secrets: bytes = b""


def ranges(source: Source, split_size: int, *, exact: bool = False) -> list[Range]:
    """Split a capture into ranges of about `split_size` bytes.

    source: a path or URL, or a seekable open binary file. For pcap, its size and first bytes are enough; with
    `exact` the record headers are read, and frame numbers are known. Those of pcapng are always read. A file that cannot
    be split (it is damaged, or not a capture) is one Range.
    Raises CaptureError if the file cannot be opened, ValueError if split_size is below 1.
    """
    if split_size < 1:
        raise ValueError("split_size must be at least 1")
    with _opened(source) as file:
        size = _size(file)
        head = _read_at(file, 0, HEADER)
        header = _pcap_header(head)
        if header and not exact:
            starts = [header, *range(split_size, size, split_size)] if size > header else [header]
            starts = sorted({max(header, s) for s in starts})
            ends = [*starts[1:], max(size, header)]
            prefix = head[:header]
            return [
                Range(begin, end, prefix, 1 if begin == header else None, begin == header and end == size)
                for begin, end in zip(starts, ends, strict=True)
            ]
        marks = _walk_pcap(file, size, split_size) if header else _walk_pcapng(file, size, split_size)
    if not marks:
        return [Range(0, size, b"", 1, True)]
    ends = [*(m[0] for m in marks[1:]), size]
    return [Range(begin, end, prefix, frame, True) for (begin, frame, prefix), end in zip(marks, ends, strict=True)]


def resolve(source: Source, piece: Range) -> Range:
    """The range with its ends moved to where records begin."""
    if piece.exact:
        return piece
    with _opened(source) as file:
        size = _size(file)
        return replace(
            piece,
            begin=_record_at(file, size, piece.prefix, piece.begin),
            end=_record_at(file, size, piece.prefix, piece.end),
            exact=True,
        )


def read_range(source: Source, piece: Range, chunk_size: int = 1 << 20) -> Iterator[memoryview]:
    """The bytes from the first record at or after `begin` to the first one at or after `end`, in chunks: views of bytes."""
    with _opened(source) as file:
        true = resolve(file, piece)
        file.seek(true.begin)
        left = true.end - true.begin
        while left > 0 and (data := file.read(min(left, chunk_size))):
            yield memoryview(data)
            left -= len(data)


def count_frames(source: Source, piece: Range) -> Count:
    """Read a range to count its packets, and IP fragments among them."""
    with _opened(source) as file:
        true = resolve(file, piece)
        secrets = Secrets()
        scanner = _engine.PacketScanner(columns=(), secrets=secrets)
        scanner.begin_file("", 0, prefix=true.prefix, offset=true.begin)
        for chunk in read_range(file, true):
            scanner.feed(chunk)
            scanner.take(final=True)
        scanner.end_file()  # the only record of a range waits for it
        stats = scanner.stats
    return Count(stats["frames"], stats["fragments"], true.begin, true.end, secrets.blocks())


# ------------------------------------------------------------------------------------------------ files


def _opened(source: Source) -> AbstractContextManager[BinaryIO]:
    if not isinstance(source, str | os.PathLike):
        return nullcontext(source)
    name = os.fspath(source)
    try:
        if "://" in name:
            import fsspec

            opened: AbstractContextManager[BinaryIO] = fsspec.open(name, "rb")
            return opened
        return open(name, "rb")
    except OSError as error:
        raise CaptureError(error.errno, f"cannot open the capture: {error.strerror}", name) from error


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


# ------------------------------------------------------------------------------------------------ pcap


#: Magic numbers as in the file: byte order, and the sizes of the file header and of a record header.
_PCAP = {
    bytes.fromhex(magic): (order, file_header, record_header)
    for little, file_header, record_header in (
        ("d4c3b2a1", 24, 16),  # microseconds
        ("4d3cb2a1", 24, 16),  # nanoseconds
        ("34cdb2a1", 24, 24),  # Kuznetzov's
        ("ac01001c", 28, 16),  # IXIA's
        ("ab01001c", 28, 16),
    )
    for order, magic in (("little", little), ("big", bytes.fromhex(little)[::-1].hex()))
}


def _pcap_header(head: bytes) -> int:
    """Bytes of the header of a pcap file; 0: not a pcap file, or truncated."""
    size = _PCAP.get(head[:4], ("", 0, 0))[1]
    return size if len(head) >= size else 0


def _record_at(file: BinaryIO, size: int, prefix: bytes, split: int) -> int:
    """Where the first record at or after `split` begins."""
    if split <= len(prefix):
        return len(prefix)
    if split >= size:
        return size
    begin = max(len(prefix), split - WINDOW)
    reach = WINDOW
    while True:
        window = _read_at(file, begin, split - begin + reach)
        last = begin + len(window) >= size
        found: int = _engine.find_record(prefix, window, begin, last, split)
        if found >= 0:
            return found
        reach *= 2  # damaged bytes around the split: search further


def _walk_pcap(file: BinaryIO, size: int, split_size: int) -> list[tuple[int, int, bytes]]:
    """(offset, frame number, prefix) of the first record at or after each split; empty if the file is damaged."""
    head = _read_at(file, 0, HEADER)
    order, at, record_header = _PCAP[head[:4]]
    prefix = head[:at]
    swapped = int.from_bytes(head[6:8], order) < 3 and int.from_bytes(head[4:6], order) == 2  # type: ignore[arg-type]
    marks = [(at, 1, prefix)]
    frame, threshold = 1, split_size
    octets = _Window(file)
    while at < size:
        header = octets.get(at, record_header)
        if len(header) < record_header:
            return []
        if at >= threshold:
            marks.append((at, frame, prefix))
            threshold = (at // split_size + 1) * split_size
        captured = int.from_bytes(header[12:16] if swapped else header[8:12], order)  # type: ignore[arg-type]
        at += record_header + captured
        frame += 1
        if captured > 1 << 18 or at > size:
            return []
    return marks


# ------------------------------------------------------------------------------------------------ pcapng


def _walk_pcapng(file: BinaryIO, size: int, split_size: int) -> list[tuple[int, int, bytes]]:
    """The same for the blocks of pcapng; the prefix is the section header and its interfaces so far."""
    marks: list[tuple[int, int, bytes]] = []
    state = bytearray()
    order = "little"
    at, frame, threshold = 0, 1, 0
    octets = _Window(file)
    while at < size:
        head = octets.get(at, 12)
        if len(head) < 12:
            return []
        section = head[:4] == b"\x0a\x0d\x0d\x0a"
        if section:
            order = "big" if head[8:12] == b"\x1a\x2b\x3c\x4d" else "little"
        kind = int.from_bytes(head[:4], order)  # type: ignore[arg-type]
        length = int.from_bytes(head[4:8], order)  # type: ignore[arg-type]
        if length < 12 or length & 3 or length > size - at:
            return []
        if at >= threshold:
            marks.append((at, frame, b"" if section else bytes(state)))
            threshold = (at // split_size + 1) * split_size
        if section:
            state.clear()
        if section or kind == 1:
            state += octets.get(at, length)
        elif kind in (2, 3, 6):
            frame += 1
        at += length
    return marks


class _Window:
    """Small reads at increasing offsets, from a buffer."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.begin = 0
        self.octets = b""

    def get(self, offset: int, size: int) -> bytes:
        at = offset - self.begin
        if at < 0 or at + size > len(self.octets):
            self.octets = _read_at(self.file, offset, max(size, 1 << 20))
            self.begin, at = offset, 0
        return self.octets[at : at + size]
