"""Captures to messages by a shuffle of packets, for very large and for rotated captures. Also works on Spark 3.5.

    byte ranges -> packets -> repartition by flow -> sort -> mapInArrow(decoder)

Rows are the same as in one process. With flows="in-file" a capture that one task reads as a whole is decoded there,
without a shuffle.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from wirefmt.capture import files

from . import needs, packets, plan
from .options import Options
from .packets import Piece
from .schema import packet_schema, source_schema
from .shipping import ensure, parallelism

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from wirefmt.capture import CaptureDecoder

    ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_COUNTS = "piece bigint, frames bigint, fragments bigint, begin bigint, end bigint, secrets binary"


def read(
    spark: SparkSession, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], **options: Any
) -> DataFrame:
    """The message table of captures.

    Args:
        paths: captures, as for `spark.read.format("wirefmt").load`. With flows="across-files" they are one rotated
            capture, in this order.
        options: as for the data source. `partitions` is the number of partitions that decode after the shuffle; by
            default the number of cores of the cluster. Captures that are not shuffled are decoded by at most as many tasks.

    If a capture is split or flows cross files, a small job runs at once. It counts the frames of each byte range, so
    that frame numbers are right, and searches for IP fragments, which have no ports: with fragments, address pairs are
    shuffled instead of flows.

    Raises:
        ValueError: an unknown option, or an invalid value.
        FileNotFoundError: a path does not exist.
        RuntimeError: the executors cannot decode as the driver does (`check`, once per session).
    """
    chosen = Options.parse(options)
    if chosen.table != "messages":
        raise ValueError('read() gives the message table; the other tables are format("wirefmt")\'s')
    schema = source_schema(chosen)
    captures = files.expand(files.parse_paths(paths), recursive=chosen.recursive)
    needs.require_for(captures)
    ensure(spark)
    parts = chosen.partitions or parallelism(spark)
    # here `partitions` is the width of the shuffle, not the number of ranges
    found = packets.pieces(captures, replace(chosen, partitions=None))
    if chosen.flows != "across-files" or len(captures) < 2:
        whole = [captures[p.file_index] for p in found if p.range is None]
        shuffled = [p for p in found if p.range is not None]
    else:
        whole, shuffled = [], found
    names = [c.name for c in captures]
    direct = _direct(spark, whole, chosen, schema)
    if not shuffled:
        return direct
    by_flow = _shuffle(spark, shuffled, names, chosen, schema, parts)
    return by_flow.unionAll(direct) if whole else by_flow


def _direct(spark: SparkSession, captures: list[files.CaptureFile], options: Options, schema: Any) -> DataFrame:
    """Decode each capture as a whole in one task, in at most `partitions` tasks."""
    planned = plan.tasks(captures, replace(options, partitions=None))
    if options.partitions and len(planned) > options.partitions:
        planned = plan.tasks(captures, options)
    columns = list(schema.names)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            yield from plan.decode(planned[number], options, columns)

    return _each(spark, len(planned), decode, schema)


def _shuffle(
    spark: SparkSession, found: list[Piece], names: list[str], options: Options, schema: Any, parts: int
) -> DataFrame:
    found, fragments, secrets = _count(spark, found, options)
    hashed = "pair_hash" if fragments else "flow_hash"
    planned = packets.bundles(found)
    columns = [hashed, "file_index", "frame_no", "segment"]

    def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            yield from packets.scan(planned[number], options, columns)

    rows = _each(spark, len(planned), scan, packet_schema(columns))
    in_file = options.flows != "across-files"
    keys = ["file_index", hashed] if in_file else [hashed]
    return (
        rows.repartition(parts, *keys)
        .sortWithinPartitions(*(keys if in_file else [hashed, "file_index"]), "frame_no")
        .mapInArrow(_decoder(hashed, names, options, list(schema.names), secrets), schema)
    )


def _decoder(
    hashed: str, names: list[str], options: Options, columns: list[str], secrets: tuple[bytes, ...] = ()
) -> ArrowFunction:
    """Sorted packets to messages. Flows come one after another, so only the last one of a batch can continue in the next.
    secrets: the key logs of all secrets blocks."""
    in_file = options.flows != "across-files"

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        from wirefmt.capture import CaptureDecoder

        decoder = CaptureDecoder(plan.decoder_options(options, columns))
        decoder.secrets.give(secrets)
        if not in_file:
            for index, name in enumerate(names):
                decoder.begin_file(name, index)
        last: tuple[int, int] | None = None
        for batch in batches:
            segments = batch.column("segment")
            for begin, end, first, key in _runs(batch, hashed, in_file):
                if last is not None and first != last:
                    yield from _ended(decoder)
                if in_file and (last is None or first[0] != last[0]):
                    decoder.begin_file(names[first[0]], first[0])
                last = key
                yield from _fed(decoder, octets(segments, begin, end))
        yield from _ended(decoder)
        if (made := decoder.take(final=True)) is not None:
            yield made
        _warn_of_equal_hashes(decoder.stats["equal_flow_hashes"])

    def decode_in_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from plan.messages(decode(b for b in batches if b.num_rows), options, columns)

    return decode_in_arrow


def _warn_of_equal_hashes(count: int) -> None:
    """Warn about flows of equal hash, which share a partition. They do not occur by chance."""
    if count:
        warnings.warn(
            f"{count} connections have the flow hash of another one: their addresses were chosen so, and one task decodes "
            "all of them",
            RuntimeWarning,
            stacklevel=2,
        )


def _fed(decoder: CaptureDecoder, rows: memoryview) -> Iterator[Any]:
    at = 0
    while at < len(rows):
        at += decoder.feed_segments(rows[at:])
        if (made := decoder.take()) is not None:
            yield made


def _ended(decoder: CaptureDecoder) -> Iterator[Any]:
    while not decoder.finish():
        if (made := decoder.take()) is not None:
            yield made


class Run(NamedTuple):
    """Rows begin to end of a batch, which are fed together; the flow keys (file index, hash) of its first and last row."""

    begin: int
    end: int
    first: tuple[int, int]
    last: tuple[int, int]


def _runs(batch: pa.RecordBatch, hashed: str, in_file: bool) -> Iterator[Run]:
    """Runs of a batch. A run ends where the file changes, if flows stay in files, and before the last flow of the batch.

    A flow that continues from the previous batch is in the first run; only the last flow can continue in the next batch.
    Flows between these end together with their run, not one by one.
    """
    hashes = batch.column(hashed).to_numpy()
    indices = batch.column("file_index").to_numpy()
    places = {0, batch.num_rows}
    if in_file:
        places.update(_changes(indices))
    places.update(_changes(hashes)[-1:])

    def key(row: int) -> tuple[int, int]:
        return int(indices[row]) if in_file else 0, int(hashes[row])

    for begin, end in pairwise(sorted(places)):
        yield Run(begin, end, key(begin), key(end - 1))


def _changes(values: Any) -> list[int]:
    """Rows that differ from the previous row."""
    import numpy as np

    return [int(row) + 1 for row in np.flatnonzero(values[1:] != values[:-1])]


def octets(column: pa.Array, begin: int, end: int) -> memoryview:
    """The values of some rows of a binary column, concatenated: a view of bytes, which the core reads in place."""
    import numpy as np

    _, ends, values = column.buffers()
    at = np.frombuffer(ends, dtype=np.int32, count=column.offset + len(column) + 1)
    if values is None:
        return memoryview(b"")
    return memoryview(memoryview(values).cast("B")[at[column.offset + begin] : at[column.offset + end]].tobytes())


def _count(spark: SparkSession, found: list[Piece], options: Options) -> tuple[list[Piece], bool, tuple[bytes, ...]]:
    """Pieces with their first frame numbers, whether IP fragments occur, and the key logs of secrets blocks.

    A capture whose ranges are not adjacent (it is damaged near a boundary) becomes one piece again.
    """
    tasks = packets.bundles(found)
    numbers = {piece: i for i, piece in enumerate(found)}

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for number in _numbers(batches):
            rows = [{"piece": numbers[piece]} | packets.count(piece, options) for piece in tasks[number].pieces]
            types = [(name, pa.binary() if name == "secrets" else pa.int64()) for name in rows[0]]
            yield pa.RecordBatch.from_pylist(rows, schema=pa.schema(types))

    counted = {row.piece: row for row in _each(spark, len(tasks), count, _COUNTS).collect()}
    fragments = any(row.fragments for row in counted.values())
    settled: list[Piece] = []
    for index in dict.fromkeys(p.file_index for p in found):
        mine = [(i, p) for i, p in enumerate(found) if p.file_index == index]
        tiles = all(counted[i].end == counted[j].begin for (i, _), (j, _) in pairwise(mine))
        if not tiles:
            settled.append(mine[0][1]._replace(range=None, size=sum(p.size for _, p in mine), first_frame=1))
            fragments = True  # unknown: the counts are not reliable
            continue
        first = 1
        for i, piece in mine:
            if piece.range is not None:
                true = replace(piece.range, begin=counted[i].begin, end=counted[i].end, exact=True)
                piece = piece._replace(range=true, first_frame=first)
            settled.append(piece)
            first += counted[i].frames
    secrets = dict.fromkeys(bytes(counted[i].secrets) for i in sorted(counted) if counted[i].secrets)
    return settled, fragments, tuple(secrets)


def _each(spark: SparkSession, count: int, function: ArrowFunction, schema: Any) -> DataFrame:
    """A frame of `count` partitions, each of which passes its number to the function."""
    return spark.range(0, count, 1, max(1, count)).mapInArrow(function, schema)


def _numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
