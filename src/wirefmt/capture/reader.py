"""`read`: one or several captures to batches of the message table, in bounded memory."""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ParamSpec, Protocol, cast, overload

from wirefmt._core import schema_capsule, some_rows, stream_capsule
from wirefmt.batch import Batch
from wirefmt.capture.decode import Ends, decode_source, decoders_for, stats_of, taken
from wirefmt.capture.rotation import Rotations
from wirefmt.capture.sources import Source, find
from wirefmt.errors import CaptureError, suggest
from wirefmt.spec.columns import Column
from wirefmt.spec.insight import TABLES
from wirefmt.spec.options import Options, options_of

P = ParamSpec("P")


class _Read(Protocol[P]):
    """The type of `read`: options as one value, or as keywords, which are the fields of Options."""

    @overload
    def __call__(self, source: Any, options: Options, /) -> Reader: ...
    @overload
    def __call__(self, source: Any, /, *args: P.args, **keywords: P.kwargs) -> Reader: ...


def _with_keywords_of(options: Callable[P, Options]) -> Callable[[Callable[..., Reader]], _Read[P]]:
    """Give a function with `**keywords` the signature that has their names, for help() and type checkers."""

    def typed(function: Callable[..., Reader]) -> _Read[P]:
        own = inspect.signature(function)
        first = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        named = [*first, *inspect.signature(options).parameters.values()]
        function.__signature__ = own.replace(parameters=named)  # type: ignore[attr-defined]
        return cast("_Read[P]", function)

    return typed


@_with_keywords_of(Options)
def read(source: Any, options: Options | None = None, /, **keywords: Any) -> Reader:
    """Decode packet captures: pcap and pcapng, also inside gzip and zstd.

    Args:
        source: a path, glob, directory, fsspec URL, `-` (standard input), open binary file, or a list of these. For a
            pipe, rows are emitted as they arrive, in batches that are not full.
        options: how to read; see `Options`. Its fields may be given as keywords instead: `read(source, payload=False)`.

    Returns: a Reader.
    Raises: CaptureError if a file is missing or unreadable, or if the only file given is not a capture. Later damage, and
        non-capture files among several, become rows with status malformed. ValueError if an option has an invalid
        value.
    """
    options = options_of(options, keywords)
    alone = not isinstance(source, Sequence) or isinstance(source, str)
    return Reader(find(source), options, alone=alone)


def read_tables(source: Any, tables: Sequence[str], /, **keywords: Any) -> Iterator[tuple[str, Batch]]:
    """Read several tables in one pass over packet captures.

    Args:
        source: as for `read`.
        tables: their names: "messages", "connections", "operations", "paths", "findings".
        keywords: fields of `Options`, except table, columns and filter.

    Yields: (name of the table, batch of it).
    Raises: as `read`.
    """
    with open_tables(source, tables, **keywords) as reader:
        yield from reader.tables()


def open_tables(source: Any, tables: Sequence[str], /, **keywords: Any) -> Reader:
    """The reader of `read_tables`, for who needs its statistics; its method `tables` yields the rows."""
    options = Options(**keywords)
    for name in tables:
        replace(options, table=name)  # is it a table?
    alone = not isinstance(source, Sequence) or isinstance(source, str)
    return Reader(find(source), options, alone=alone, tables=tuple(tables))


class Schema:
    """The columns of a reader; `pyarrow.schema(...)` and other Arrow libraries accept it directly."""

    def __init__(self, columns: Sequence[str] | None = None, table: str = "messages") -> None:
        self.table = TABLES[table]
        by_name = {c.name: c for c in self.table}
        for name in columns or ():
            if name not in by_name:
                raise ValueError(f"no column {name!r}; {suggest(name, by_name)}")
        self.columns: tuple[Column, ...] = self.table if columns is None else tuple(by_name[name] for name in columns)

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(self.table, self.names)

    def __repr__(self) -> str:
        return f"Schema({self.names})"


class _Progress:
    """What the threads of a reader know of it: a reader that nobody uses any more is not kept by its threads."""

    def __init__(self) -> None:
        self.octets = 0
        self.stopped = False

    def count(self, octets: int) -> None:
        self.octets += octets

    def is_stopped(self) -> bool:
        return self.stopped


class Reader(AbstractContextManager["Reader"]):
    """Iterates `Batch`es of the table, once; also an Arrow stream: `pyarrow.table(reader)`.

    Attributes:
        schema: the columns, in order.
        stats: counters of data read, skipped and limited; see `CaptureDecoder.stats`. "insight": those of the table that is
            made of the messages, if it is another one; see `Insight.stats`.
        stopped: True after stop().
        notes: lines about the files as a whole: which are read as one rotated capture, and what is missing in it.
            Complete after the last batch.
        bytes_read, bytes_total: bytes of the files as stored (compressed); the total is None if it is unknown.
    """

    def __init__(self, sources: list[Source], options: Options, *, alone: bool, tables: tuple[str, ...] = ()) -> None:
        rotations = Rotations(sources if options.flows == "auto" else ())
        if rotations:
            sources, options = rotations.sources, replace(options, flows="across-files")
        self.schema = Schema(options.columns, options.table)
        self._progress = _Progress()
        sizes = [s.size for s in sources]
        self.bytes_total = None if None in sizes else sum(s for s in sizes if s is not None)
        self._options, self._made = options, None
        if tables or options.table != "messages":
            from wirefmt.insight.tables import Tables

            limits = options.all_limits()
            self._made = Tables(
                tables or (options.table,),
                all_connections=options.all_connections,
                path_seconds=limits["path_seconds"],
                max_paths=limits["max_paths"],
                max_buffered=limits["max_buffered"],
            )
        self._decoders, self._dispatcher = decoders_for(options.of_messages(), transport=self._made is not None)
        self._rotations = rotations
        self._items = self._run(sources, alone and len(sources) == 1)
        self._batches = self._items if self._made is None or tables else self._chosen()
        # read to the first batch or pause, so that a file that is not a capture is reported at once
        first = alone and len(sources) == 1 and not tables
        self._first: Any = next(self._batches, None) if first else None

    @property
    def stats(self) -> dict[str, Any]:
        stats = stats_of(self._decoders, self._dispatcher)
        return stats if self._made is None else stats | {"insight": self._made.stats}

    @property
    def notes(self) -> list[str]:
        return list(self._rotations.notes)

    @property
    def bytes_read(self) -> int:
        return self._progress.octets

    @property
    def stopped(self) -> bool:
        return self._progress.stopped

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch: Batch | None = self._first
        self._first = None
        while batch is None:
            batch = next(self._batches)
        return batch

    def stop(self) -> None:
        """Stop reading (safe in a signal handler). The rows of the data read so far follow, as at the end of a capture."""
        self._progress.stopped = True

    def close(self) -> None:
        """Close the open file; no batch follows."""
        self._first = None
        self._batches.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return stream_capsule(self.schema.table, self, self.schema.names)

    def _run(self, sources: list[Source], alone: bool) -> Generator[Any]:
        decoders, dispatcher, progress = self._decoders, self._dispatcher, self._progress
        rotations = self._rotations
        file = dispatcher or decoders[0]  # what reads the octets of files
        index = -1
        failures: list[str] = []
        for index, source in enumerate(sources):
            if rotations and index and not rotations.goes_on(index, file.last_ns):
                rotations.ended(index)
                yield from self._end_flows()
                file.forget()
            watched = progress.count, progress.is_stopped
            for batch in decode_source(decoders, source, index, *watched, dispatcher, failures.append):
                if alone and file.not_a_capture:
                    break
                yield batch
            if alone and file.not_a_capture:
                raise CaptureError(f"cannot read {source.name!r}: {failures[-1] if failures else file.fault}")
            if self.stopped:
                break
        if rotations:
            rotations.ended(index + 1)
        yield from self._end_flows()
        for decoder in decoders:
            yield from taken(decoder, final=True)

    def _end_flows(self) -> Iterator[Batch | Ends | None]:
        for decoder in self._decoders:
            while not decoder.finish():
                yield from taken(decoder)

    def tables(self) -> Iterator[tuple[str, Batch]]:
        """(name of a table, batch of it), of a reader of several tables."""
        made = self._made
        assert made is not None
        for item in self._items:
            if item is not None:
                yield from made.ended(item.batch) if isinstance(item, Ends) else made.messages(item)
        yield from made.finish()

    def _chosen(self) -> Generator[Batch | None]:
        """The batches of the table that the options name, with its columns and rows that they name."""
        options, keep = self._options, None
        for _, batch in self.tables():
            if options.filter is not None:
                from wirefmt.spec.filter import Keep

                keep = keep or Keep(options.filter, batch, self.schema.table)
                rows = keep(batch)
                if rows:
                    yield some_rows(batch, rows, self.schema.table, options.columns)
            elif options.columns is not None:
                yield some_rows(batch, array("q", range(batch.num_rows)), self.schema.table, options.columns)
            else:
                yield batch
