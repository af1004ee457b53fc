"""Which task reads what, and the tasks' own reading. Knows captures and Arrow; Spark only as a caller.

A capture's flows are dealt out to tasks by their hash (`slice=(i, n)`): each task walks the headers of the whole
capture and decodes its own flows, so rows are what one process gives and nothing is shuffled. Many small captures share
a task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from wirefmt.capture.files import CaptureFile

from .options import Options

if TYPE_CHECKING:
    import pyarrow as pa

#: Captures smaller than this share a task, up to as many octets together.
BUNDLE_SIZE = 32 << 20
#: Opening a capture costs as much as reading this many octets.
OPEN_COST = 1 << 18


class Task(NamedTuple):
    """Decode slice `part` of `parts` of the flows in these captures."""

    names: tuple[str, ...]
    part: int
    parts: int


class Following(NamedTuple):
    """Decode slice `part` of `parts` of rotated captures; keep the rows that come after the first `context` of them."""

    names: tuple[str, ...]
    context: int
    part: int
    parts: int


def tasks(captures: list[CaptureFile], options: Options) -> list[Task]:
    """No capture: no task."""
    split_size, most = options.split_size, options.max_slices
    if options.partitions:
        split_size = max(1, math.ceil(sum(c.size for c in captures) / options.partitions))
        most = options.partitions
    if options.flows == "across-files":
        return _sliced([captures], split_size, most) if captures else []
    return _sliced(_bundles(captures, min(split_size, BUNDLE_SIZE)), split_size, most)


def following(context: list[CaptureFile], captures: list[CaptureFile], options: Options) -> list[Following]:
    """Tasks for rotated captures that follow others. No capture: no task."""
    names = tuple(c.name for c in (*context, *captures))
    sliced = tasks([*context, *captures], options) if captures else []
    return [Following(names, len(context), task.part, task.parts) for task in sliced]


def _sliced(bundles: Iterable[list[CaptureFile]], split_size: int, most: int) -> list[Task]:
    planned = []
    for bundle in bundles:
        parts = min(most, max(1, math.ceil(sum(c.size for c in bundle) / split_size)))
        names = tuple(c.name for c in bundle)
        planned += [Task(names, part, parts) for part in range(parts)]
    return planned


def _bundles(captures: list[CaptureFile], size: int) -> Iterator[list[CaptureFile]]:
    """Neighbours together while they stay within `size`; what is larger stands alone."""
    bundle: list[CaptureFile] = []
    weight = 0
    for capture in captures:
        cost = capture.size + OPEN_COST
        if bundle and weight + cost > size:
            yield bundle
            bundle, weight = [], 0
        bundle.append(capture)
        weight += cost
    if bundle:
        yield bundle


def decode(task: Task, options: Options, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The message rows of a task. Raises CaptureError where a capture cannot be opened."""
    from wirefmt import capture

    keywords = options.core() | {"columns": columns, "slice": (task.part, task.parts)}
    with capture.read(list(task.names), **keywords) as reader:
        yield from as_arrow(reader, columns)


def follow(task: Following, options: Options, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows that these captures add to those before them. The last capture is not the end: what is unfinished there
    is left for those to come, which read this one again as their context."""
    from wirefmt.capture import CaptureDecoder, decode_source, sources

    keywords = options.core() | {"columns": columns, "slice": (task.part, task.parts)}
    decoder = CaptureDecoder(**keywords)

    def read(names: Iterable[str], first: int) -> Iterator[Any]:
        for index, name in enumerate(names, first):
            (source,) = sources.find(name)
            yield from decode_source(decoder, source, index)
        if (batch := decoder.take(final=True)) is not None:
            yield batch

    for _ in read(task.names[: task.context], 0):
        pass  # rows of an earlier micro-batch
    yield from as_arrow(read(task.names[task.context :], task.context), columns)


def chunks(name: str) -> Iterator[memoryview]:
    """The octets of a capture, decompressed. A chunk is valid until the next one is asked for."""
    from wirefmt.capture import sources

    (source,) = sources.find(name)
    with sources.Chunks(source, lambda _: None) as opened:
        yield from opened


def as_arrow(batches: Iterable[Any], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Batches of the core as Arrow record batches, sharing their buffers; columns in exactly the order given."""
    import pyarrow as pa

    for batch in batches:
        arrow = pa.record_batch(batch)
        yield arrow if arrow.schema.names == columns else arrow.select(columns)
