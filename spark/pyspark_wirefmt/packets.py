"""The packets table: pieces of captures, and how a task scans them.

A large uncompressed capture is split into byte ranges (`wirefmt.capture.split`), and each task resynchronises on its
own; the driver only reads file sizes and headers. Frame numbers continue from range to range, which requires
counting the frames before a range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from wirefmt.capture.files import CaptureFile

from . import plan
from .bounded import bounded
from .options import Options
from .plan import BUNDLE_SIZE, OPEN_COST, as_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from wirefmt.capture.split import Range


class Piece(NamedTuple):
    """A whole capture (`range` None) or a byte range of one."""

    file_index: int  # number of the capture among all
    name: str
    range: Range | None
    size: int
    total: int  # bytes of the capture when it was planned: no more are read
    first_frame: int | None = 1  # None: unknown until counted


class RangeTask(NamedTuple):
    """Scan these pieces, one after another."""

    pieces: tuple[Piece, ...]


def pieces(captures: list[CaptureFile], options: Options) -> list[Piece]:
    """The pieces of captures, in order."""
    split_size = plan.share(captures, options) or options.split_size
    found: list[Piece] = []
    for index, capture in enumerate(captures):
        cut: list[Range] = []
        if capture.size > split_size and not capture.compressed:
            from wirefmt.capture import split

            with bounded(capture.name, capture.size) as file:
                cut = split.ranges(file, split_size)
        if len(cut) > 1:
            found += [Piece(index, capture.name, r, r.end - r.begin, capture.size, r.first_frame) for r in cut]
        else:
            found.append(Piece(index, capture.name, None, capture.size, capture.size))
    return found


def bundles(found: list[Piece], size: int = BUNDLE_SIZE) -> list[RangeTask]:
    """Group neighbouring small captures into one task each; a byte range has its own task."""
    costs = [p.size + OPEN_COST if p.range is None else size for p in found]
    return [RangeTask(tuple(group)) for group in plan.bundles(found, costs, size)]


def tasks(captures: list[CaptureFile], options: Options) -> list[RangeTask]:
    """Tasks of option("table", "packets")."""
    return bundles(pieces(captures, options), plan.share(captures, options) or BUNDLE_SIZE)


def scan(task: RangeTask, options: Options, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The packet rows of a task."""
    yield from as_arrow(_scan(task, options, columns), columns)


def _scan(task: RangeTask, options: Options, columns: list[str], secrets: Any = None) -> Iterator[Any]:
    from wirefmt.capture import PacketScanner

    scanner = PacketScanner(
        tunnels=options.tunnels,
        columns=columns,
        ports=options.ports,
        batch_rows=options.batch_rows,
        batch_bytes=options.batch_bytes,
        secrets=secrets,
    )
    for piece in map(_resolved, task.pieces):
        if piece.range is None:
            scanner.begin_file(piece.name, piece.file_index)
        else:
            first = piece.first_frame
            if first is None:
                first = _frames_before(piece) + 1 if "frame_no" in columns or "segment" in columns else 1
            scanner.begin_file(
                piece.name, piece.file_index, prefix=piece.range.prefix, offset=piece.range.begin, first_frame=first
            )
        for chunk in chunks(piece):
            scanner.feed(chunk)
            while (batch := scanner.take()) is not None:
                yield batch
        scanner.end_file()
    if (batch := scanner.take(final=True)) is not None:
        yield batch


def count(piece: Piece, options: Options) -> dict[str, Any]:
    """Frames of a piece, IP fragments among them, the bounds of its records, and the key logs of its secrets blocks."""
    from wirefmt.capture import split
    from wirefmt.capture.keylog import Secrets

    if piece.range is not None:
        with bounded(piece.name, piece.total) as file:
            found = split.count_frames(file, piece.range)
        return {name: getattr(found, name) for name in ("frames", "fragments", "begin", "end", "secrets")}
    import pyarrow.compute as pc

    secrets = Secrets()
    seen = as_arrow(_scan(RangeTask((piece,)), options, ["fragment"], secrets), ["fragment"])
    fragments = sum(pc.sum(b.column(0)).as_py() or 0 for b in seen)
    return {"frames": 0, "fragments": fragments, "begin": 0, "end": 0, "secrets": secrets.blocks()}


def chunks(piece: Piece) -> Iterator[Any]:
    """The bytes of a piece, from its first record on."""
    from wirefmt.capture import split

    if piece.range is None:
        yield from plan.chunks(piece.name, piece.total)
    else:
        with bounded(piece.name, piece.total) as file:
            yield from split.read_range(file, piece.range)


def _resolved(piece: Piece) -> Piece:
    """The piece with the true bounds of its range, which are record boundaries."""
    from wirefmt.capture import split

    if piece.range is None:
        return piece
    with bounded(piece.name, piece.total) as file:
        return piece._replace(range=split.resolve(file, piece.range))


def _frames_before(piece: Piece) -> int:
    from wirefmt.capture import split

    assert piece.range is not None
    with bounded(piece.name, piece.total) as file:
        return split.count_frames(file, replace(piece.range, begin=0, end=piece.range.begin, exact=False)).frames
