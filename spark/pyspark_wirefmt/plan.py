"""Which task reads what, and how a task reads. Uses captures and Arrow; knows Spark only as a caller.

The flows of a capture are assigned to tasks by their hash (`slice=(i, n)`): each task walks the headers of the whole
capture and decodes its own flows, so rows are the same as in one process and nothing is shuffled. Many small captures share
a task. Tables that are made of messages are not sliced: why a connection ended may depend on connections of other flows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from wirefmt.capture.files import CaptureFile
from wirefmt.convert.table import NEEDED, convert_table
from wirefmt.spec.columns import CONVERTED

from .bounded import Bounded, Several
from .options import Options
from .schema import ON_REQUEST, columns_of

if TYPE_CHECKING:
    import pyarrow as pa

    from wirefmt import capture

Item = TypeVar("Item")

#: Captures smaller than this share a task, up to as many bytes together.
BUNDLE_SIZE = 32 << 20
#: Opening a capture costs as much as reading this many bytes.
OPEN_COST = 1 << 18


class Task(NamedTuple):
    """Decode slice `part` of `parts` of the flows in these captures, of which only the first `sizes` bytes are read."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    part: int
    parts: int


class Following(NamedTuple):
    """Decode slice `part` of `parts` of rotated captures; keep the rows after the first `context` captures."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    context: int
    part: int
    parts: int


def tasks(captures: list[CaptureFile], options: Options) -> list[Task]:
    """The tasks that decode `captures`, in order. No captures: no tasks.

    With `options.partitions` about that many tasks. Otherwise small captures share a task, and a capture larger than
    `split_size` is split. In both cases a capture has at most `max_slices` slices.
    """
    together = options.flows == "across-files"
    size = share(captures, options) or min(options.split_size, BUNDLE_SIZE)
    groups = ([captures] if captures else []) if together else bundles(captures, [cost(c) for c in captures], size)
    planned = []
    for group in groups:
        parts = _slices(group, options, size) if together or len(group) == 1 else 1
        names, sizes = tuple(c.name for c in group), tuple(c.size for c in group)
        planned += [Task(names, sizes, part, parts) for part in range(parts)]
    return planned


def _slices(group: list[CaptureFile], options: Options, size: int) -> int:
    """The number of slices for the flows of these captures.

    Each slice walks the headers of all of them, which costs a twentieth of decoding them: `n` slices cost `1 + (n - 1) / 20`
    times the CPU of one and take `1 / n + 1 / 20` of its time, so that more than `max_slices` gain little.
    """
    if options.is_made:
        return 1
    if options.partitions:
        wanted = min(options.partitions, round(sum(map(cost, group)) / size))
    else:
        wanted = math.ceil(sum(c.size for c in group) / options.split_size)
    return min(options.max_slices, max(1, wanted))


def cost(capture: CaptureFile) -> int:
    """The cost of reading a capture, in bytes: its size plus the cost of opening it."""
    return capture.size + OPEN_COST


def share(captures: list[CaptureFile], options: Options) -> int:
    """The cost of one of `options.partitions` tasks; 0 if no number of tasks is given."""
    return math.ceil(sum(map(cost, captures)) / options.partitions) if options.partitions else 0


def bundles(items: Iterable[Item], costs: Iterable[int], size: int) -> Iterator[list[Item]]:
    """Group neighbours to about `size`; an item that costs `size` or more is a group of its own.

    The costs are laid end to end and divided into cells of `size`; items whose middle is in one cell are a group. So there
    are at most as many groups as cells, plus one for each large item.
    """
    group: list[Item] = []
    before, cell = 0, 0
    for item, weight in zip(items, costs, strict=True):
        alone = weight >= size
        mine = (2 * before + weight) // (2 * size)
        if group and (alone or mine != cell):
            yield group
            group = []
        cell = mine
        before += weight
        group.append(item)
        if alone:
            yield group
            group = []
    if group:
        yield group


def following(context: list[CaptureFile], captures: list[CaptureFile], options: Options) -> list[Following]:
    """Tasks for rotated captures that follow others. No captures: no tasks."""
    sliced = tasks([*context, *captures], options) if captures else []
    return [Following(task.names, task.sizes, len(context), task.part, task.parts) for task in sliced]


def decode(task: Task, options: Options, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a task, of the table that the options name. Raises CaptureError if a capture cannot be opened."""
    from wirefmt import capture

    if options.is_made:
        for _, batch in decode_tables(task, options, (options.table,), columns):
            yield batch
        return
    how = decoder_options(options, columns, slice=(task.part, task.parts))
    with Several(task.names, task.sizes) as captures, capture.read(captures, how) as reader:
        yield from messages(reader, options, columns)


def decode_tables(
    task: Task, options: Options, tables: Sequence[str], columns: list[str] | None = None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """(table, rows of it) of a task, from one pass: rows of independent captures do not depend on which of them share a task.

    columns: of the only table. Several tables have all of theirs, except those of the message table that exist on request.
    """
    together = options.flows == "across-files"
    files = list(zip(task.names, task.sizes, strict=True))
    for group in [files] if together else [[file] for file in files]:
        with Several(*zip(*group, strict=True)) as captures:
            yield from _tables_of(captures, options, tables, columns)


def _tables_of(
    captures: Several, options: Options, tables: Sequence[str], columns: list[str] | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    from wirefmt import capture
    from wirefmt.capture.reader import open_tables

    flows = "across-files" if options.flows == "across-files" else "in-file"
    if columns is not None:
        with capture.read(captures, options.reading(columns, flows=flows)) as reader:
            for batch in as_arrow(reader, columns):
                yield tables[0], batch
        return
    own = {
        f.name: getattr(options, f.name)
        for f in fields(capture.Options)
        if f.name not in ("table", "columns", "filter")
    }
    names = {name: columns_of_all(name) for name in tables}
    with open_tables(captures, tables, **own | {"flows": flows}) as reader:
        for name, made in reader.tables():
            yield from ((name, batch) for batch in as_arrow([made], names[name]))


def columns_of_all(table: str) -> list[str]:
    """The columns that a table has if several are read in one pass."""
    return [column.name for column in columns_of(table) if column.name not in ON_REQUEST]


def follow(task: Following, options: Options, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows that these captures add to the rows of those before them. The last capture is not the end: the next captures
    read it again as their context, and complete what is incomplete there."""
    from wirefmt.capture import CaptureDecoder, decode_source, sources

    decoder = CaptureDecoder(decoder_options(options, columns, slice=(task.part, task.parts)))

    def read(captures: list[Bounded], first: int) -> Iterator[Any]:
        for index, source in enumerate(sources.find(captures) if captures else (), first):
            yield from decode_source([decoder], source, index)
        if (batch := decoder.take(final=True)) is not None:
            yield batch

    with Several(task.names, task.sizes) as captures:
        for _ in read(captures[: task.context], 0):
            pass  # rows of an earlier micro-batch
        yield from messages(read(captures[task.context :], task.context), options, columns)


def decoder_options(options: Options, columns: list[str], **changes: Any) -> capture.Options:
    """Options of a decoder whose rows suffice for these columns. Captures are independent unless the user says otherwise: rows
    must not depend on which of them share a task."""
    changes["flows"] = "across-files" if options.flows == "across-files" else "in-file"
    if CONVERTED.name not in columns:
        return options.reading(columns, **changes)
    needed = dict.fromkeys([*(name for name in columns if name != CONVERTED.name), *NEEDED])
    return options.reading(list(needed), raw=True, **changes)


def messages(batches: Iterable[Any], options: Options, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Batches of the message table as Arrow record batches of exactly these columns, including `converted` if named."""
    if CONVERTED.name not in columns:
        yield from as_arrow(batches, columns)
        return
    import pyarrow as pa

    for batch in batches:
        yield convert_table(pa.record_batch(batch), **options.conversion()).select(columns)


def chunks(name: str, size: int) -> Iterator[memoryview]:
    """The first `size` bytes of a capture, decompressed. A chunk is valid until the next one is requested."""
    from wirefmt.capture import sources

    with Bounded(name, size) as file:
        (source,) = sources.find(file)
        with sources.Chunks(source) as opened:
            yield from opened


def as_arrow(batches: Iterable[Any], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Batches of the core as Arrow record batches that share their buffers; columns in exactly the given order."""
    import pyarrow as pa

    for batch in batches:
        arrow = pa.record_batch(batch)
        yield arrow if arrow.schema.names == columns else arrow.select(columns)
