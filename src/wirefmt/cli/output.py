"""Writers of rows, one per format. All of them stream: their memory does not grow with the capture."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, reduce
from typing import IO, TYPE_CHECKING, NamedTuple, Protocol

import rich_click as click

from .table import TableWriter

if TYPE_CHECKING:
    import pyarrow as pa


class Writer(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...
    def flush(self) -> None: ...  # makes the rows so far readable; a format without readable rows does nothing
    def close(self) -> None: ...


class Format(NamedTuple):
    suffixes: tuple[str, ...]
    binary: bool  # not for a terminal
    writer: Callable[[IO[bytes], pa.Schema], Writer]


class ArrowWriter:
    """Arrow IPC: the file format for a file, the stream format for a pipe."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        import pyarrow.ipc

        make = pyarrow.ipc.new_stream if sink is sys.stdout.buffer else pyarrow.ipc.new_file
        self._writer, self._sink = make(sink, schema), sink

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        self._writer.close()


def parquet(sink: IO[bytes], schema: pa.Schema) -> Writer:
    from ..capture.parquet import ParquetWriter

    return ParquetWriter(sink, schema)


class CsvWriter:
    """CSV with a header, as `wirefmt.batch.csv_lines` writes it. mark: `text.mark_formula` for every text."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema, mark: bool = False) -> None:
        from wirefmt.batch import csv_lines

        from .text import changed_csv, mark_formula, printable

        self._sink, self._lines = sink, csv_lines
        self._changes = [
            partial(changed_csv, change) for change in [mark_formula] * mark + [printable] * to_terminal(sink)
        ]
        sink.write(csv_lines(no_rows(schema)))

    def write(self, batch: pa.RecordBatch) -> None:
        lines = self._lines(batch, header=False)
        self._sink.write(reduce(lambda text, change: change(text), self._changes, lines))

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        pass


class JsonLinesWriter:
    """One JSON object per line, as `wirefmt.batch.json_lines` writes it."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        from wirefmt.batch import json_lines

        from .text import printable_lines

        self._sink = sink
        self._change = printable_lines if to_terminal(sink) else bytes
        self._lines = json_lines

    def write(self, batch: pa.RecordBatch) -> None:
        self._sink.write(self._change(self._lines(batch)))

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        pass


def to_terminal(sink: IO[bytes]) -> bool:
    """Does the output go to a terminal? Then it must not contain what controls one."""
    return sink is sys.stdout.buffer and sys.stdout.isatty()


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows. `pa.array([])`, and with it `empty_table`, would import pandas if it is installed."""
    import pyarrow as pa

    return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)


FORMATS: dict[str, Format] = {
    "table": Format((), False, TableWriter),
    "jsonl": Format((".jsonl", ".ndjson"), False, JsonLinesWriter),
    "csv": Format((".csv",), False, CsvWriter),
    "arrow": Format((".arrow", ".arrows", ".feather", ".ipc"), True, ArrowWriter),
    "parquet": Format((".parquet",), True, parquet),
}


def format_of(out: str | None, asked: str | None) -> str:
    """The requested format, otherwise the one of the suffix (before .gz or .zst), otherwise a table."""
    if asked:
        return asked
    if out is None:
        return "table"
    name = out.lower().removesuffix(".gz").removesuffix(".zst")
    for fmt, row in FORMATS.items():
        if name.endswith(row.suffixes or "\0"):
            return fmt
    raise click.UsageError(f"-o {out}: no format has this suffix; use --format {'|'.join(FORMATS)}")


@contextmanager
def open_writer(
    out: str | None, fmt: str, schema: pa.Schema, make: Callable[[IO[bytes], pa.Schema], Writer] | None = None
) -> Iterator[Writer]:
    """A writer to a file, URL or standard output. A local file gets its name when it is complete.

    make: creates the writer; by default the one of the format."""
    make = make or FORMATS[fmt].writer
    if out is None:
        if FORMATS[fmt].binary and sys.stdout.isatty():
            raise click.UsageError(f"{fmt} is not for a terminal: use -o FILE or a pipe")
        writer = make(sys.stdout.buffer, schema)
        yield writer
        writer.close()
        sys.stdout.buffer.flush()
        return
    with _open(out) as sink:
        writer = make(sink, schema)
        yield writer
        writer.close()


@contextmanager
def open_output(out: str | None) -> Iterator[IO[bytes]]:
    """Write bytes to a file, URL or standard output, with the same guarantees as `open_writer`."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with _open(out) as sink:
        yield sink


@contextmanager
def _open(out: str) -> Iterator[IO[bytes]]:
    if "://" in out:
        import fsspec

        with fsspec.open(out, "wb") as sink, _compressed(sink, out) as inner:
            yield inner
        return
    # a device or a pipe has no temporary file
    part = f"{out}.part" if os.path.isfile(out) or not os.path.exists(out) else out
    try:
        with open(part, "wb") as sink, _compressed(sink, out) as inner:
            yield inner
        if part != out:
            os.replace(part, out)
    except BaseException:
        if part != out:
            with suppress(FileNotFoundError):
                os.unlink(part)
        raise


@contextmanager
def _compressed(sink: IO[bytes], out: str) -> Iterator[IO[bytes]]:
    import pyarrow as pa

    kind = {".gz": "gzip", ".zst": "zstd"}.get(os.path.splitext(out)[1].lower())
    if kind is None:
        yield sink
        return
    with pa.CompressedOutputStream(sink, kind) as inner:
        yield inner
