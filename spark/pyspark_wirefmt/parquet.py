"""Captures to Parquet by tasks that write the files themselves: rows never pass through the JVM.

Retries and speculation are safe: a task writes under a name of its own attempt and renames at the end, to a name that
depends only on the task, and every attempt of a task writes the same rows.

A driver may die at any moment: the files of a job are in `_temporary/JOB/` until all are complete. The driver then moves them
into the folder, writes `_SUCCESS`, which contains the manifest of all jobs, and removes `_temporary/JOB/`. While that folder
exists, the job is not finished; the next job removes what it has left.
"""

from __future__ import annotations

import json
import os
import posixpath
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wirefmt.capture import files
from wirefmt.capture.parquet import ParquetWriter
from wirefmt.errors import suggest
from wirefmt.spec.insight import TABLES

from . import needs, plan
from .options import Options
from .schema import source_schema
from .shipping import ensure, parallelism

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row, SparkSession

MANIFEST = "file string, rows bigint, bytes bigint, errors bigint, captures array<string>, slice string, table string"
_TEMPORARY = "_temporary"
_SUCCESS = "_SUCCESS"


def decode_to_parquet(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    mode: str = "error",
    compression: str = "snappy",
    tables: Iterable[str] | None = None,
    **options: Any,
) -> list[Row]:
    """Decodes captures into Parquet files under `out`, one file per task.

    Args:
        paths: captures, as for `spark.read.format("wirefmt").load`.
        out: a folder; a local path (on a cluster: one that all machines share) or an fsspec URL.
        mode: if `out` already has files: "error", "overwrite" (delete them first) or "append". With "append" the files that a
            job has left which did not finish (its driver died) are removed first. One job at a time writes to a folder.
        compression: of the Parquet files: "snappy", "zstd", "none" ...
        tables: several tables from one pass, such as ["messages", "connections", "operations"]: each is a folder of its name in
            `out`, with all its columns. By default the one of the option `table` (messages), in `out` itself.
        options: as for the data source. `partitions` is the number of tasks for a capture; by default the
            number of cores of the cluster.

    Returns:
        the manifest of this job, one row per file: file, rows, bytes, errors (rows whose status is not "ok"; 0 without a
        status), captures, slice, table. A task without rows leaves no file, and its row says rows=0, file=None.

    Raises:
        ValueError: an unknown option, or an invalid value.
        FileExistsError: `out` is not empty and mode is "error".
        FileNotFoundError: a path does not exist.
        RuntimeError: the executors cannot decode as the driver does (`check`, once per session).
    """
    if mode not in ("error", "overwrite", "append"):
        raise ValueError("mode must be error, overwrite or append")
    chosen = Options.parse({"partitions": parallelism(spark)} | options)
    if chosen.table == "packets":
        raise ValueError("decode_to_parquet does not write the packets table; write it with df.write")
    several = _several(tables, chosen)
    columns = source_schema(chosen).names
    captures = files.expand(files.parse_paths(paths), recursive=chosen.recursive)
    needs.require_for(captures)
    ensure(spark)
    # what is made of messages is not sliced
    planned = plan.tasks(captures, replace(chosen, table=several[-1]) if several else chosen)
    target = _Folder(os.fspath(out))
    job = uuid.uuid4().hex[:12]
    earlier = target.prepare(mode, job)
    manifest: list[Row] = []
    try:
        if planned:
            write = _writer(planned, chosen, several, columns, target.url, job, compression)
            manifest = spark.range(0, len(planned), 1, len(planned)).mapInArrow(write, MANIFEST).collect()
        target.finish(job, earlier, [row.asDict() for row in manifest])
    except BaseException:
        target.discard(job)
        raise
    return manifest


def _several(tables: Iterable[str] | None, options: Options) -> tuple[str, ...]:
    """The tables of the argument, those made of messages last; none if it is not given."""
    if tables is None:
        return ()
    if isinstance(tables, str):
        raise ValueError(f"tables must be several names, such as [{tables!r}]")
    names = tuple(sorted(dict.fromkeys(tables), key=lambda name: name != "messages"))
    for name in names:
        if name not in TABLES:
            raise ValueError(f"no table {name!r}; {suggest(name, TABLES)}")
    if not names:
        raise ValueError("tables is empty")
    fixed = ("table", "columns", "filter", "convert_to", "payload", "payload_max", "raw", "detail", "vlan")
    defaults = Options()
    if changed := [name for name in fixed if getattr(options, name) != getattr(defaults, name)]:
        raise ValueError(f"option {changed[0]}: tables from one pass have all rows, columns and payloads")
    return names


def _writer(
    planned: list[plan.Task],
    options: Options,
    tables: tuple[str, ...],
    columns: list[str],
    url: str,
    job: str,
    compression: str,
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function of one Spark task: its partition of the range has the number of its `plan.Task`."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for number in [i for batch in batches for i in batch.column(0).to_pylist()]:
            rows = _write_task(planned[number], number, options, tables, columns, url, job, compression)
            yield pa.RecordBatch.from_pylist(rows, schema=_manifest_schema())

    return write


def _write_task(
    task: plan.Task,
    number: int,
    options: Options,
    tables: tuple[str, ...],
    columns: list[str],
    url: str,
    job: str,
    compression: str,
) -> list[dict[str, Any]]:
    """Write the file of each table; their rows of the manifest."""
    folder = _Folder(url)
    names = {name: plan.columns_of_all(name) for name in tables} or {options.table: columns}
    parts = {
        name: _Part(folder, f"{name if tables else 'part'}-{number:05d}-{job}.parquet", job, kept, compression)
        for name, kept in names.items()
    }
    if tables:
        read = plan.decode_tables(task, options, tables)
    else:
        # the manifest counts by status
        wanted = columns if options.is_made or "status" in columns else [*columns, "status"]
        read = ((options.table, batch) for batch in plan.decode(task, options, wanted))
    try:
        for name, batch in read:
            parts[name].write(batch)
    except BaseException:
        for part in parts.values():
            part.discard()
        raise
    told = {"captures": list(task.names), "slice": f"{task.part}/{task.parts}"}
    return [part.finish() | told | {"table": name} for name, part in parts.items()]


class _Part:
    """A file of a task: the rows of one table."""

    def __init__(self, folder: _Folder, name: str, job: str, columns: list[str], compression: str) -> None:
        self._folder, self._name, self._job = folder, name, job
        self._columns, self._compression = columns, compression
        self._attempt = folder.path(_TEMPORARY, job, f"attempt-{uuid.uuid4().hex[:12]}-{name}")
        self._writer: ParquetWriter | None = None
        self._sink: Any = None
        self._rows = self._errors = 0

    def write(self, batch: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        if "status" in batch.schema.names:
            self._errors += batch.num_rows - (pc.sum(pc.equal(batch.column("status"), "ok")).as_py() or 0)
        self._rows += batch.num_rows
        kept = batch if batch.schema.names == self._columns else batch.select(self._columns)
        if self._writer is None:
            self._sink = self._folder.open(self._attempt)
            self._writer = ParquetWriter(self._sink, kept.schema, self._compression)
        self._writer.write(kept)

    def discard(self) -> None:
        if self._sink is not None:
            self._sink.close()
            self._folder.delete(self._attempt)

    def finish(self) -> dict[str, Any]:
        octets = 0
        if self._writer is not None:
            self._writer.close()
            octets = self._sink.tell()
            self._sink.close()
            self._folder.move(self._attempt, self._folder.path(_TEMPORARY, self._job, self._name))
        file = self._folder.path(_place(self._name)) if self._rows else None
        return {"file": file, "rows": self._rows, "bytes": octets, "errors": self._errors}


def _place(name: str) -> str:
    """Where a file of a job is at its end: one of several tables is in the folder of its table."""
    table = name.partition("-")[0]
    return name if table == "part" else f"{table}/{name}"


def _manifest_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("file", pa.string()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("errors", pa.int64()),
            ("captures", pa.list_(pa.field("element", pa.string()))),
            ("slice", pa.string()),
            ("table", pa.string()),
        ]
    )


class _Folder:
    """The output folder, through pyarrow's filesystems, or through fsspec for others."""

    def __init__(self, url: str) -> None:
        from pyarrow import fs

        self.url = url if "://" in url else os.path.abspath(os.path.expanduser(url))
        try:
            self.fs, self.root = fs.FileSystem.from_uri(self.url)
        except ValueError:
            import fsspec

            remote, self.root = fsspec.core.url_to_fs(self.url)
            self.fs = fs.PyFileSystem(fs.FSSpecHandler(remote))

    def path(self, *parts: str) -> str:
        return posixpath.join(self.root, *parts)

    def open(self, path: str) -> Any:
        return self.fs.open_output_stream(path)

    def delete(self, path: str) -> None:
        self.fs.delete_file(path)

    def move(self, source: str, target: str) -> None:
        try:
            self.fs.move(source, target)
        except FileExistsError:
            # another attempt of this task was first; stores that do not replace files raise, and the other file is equivalent
            self.delete(source)

    def prepare(self, mode: str, job: str) -> list[dict[str, Any]]:
        """Make the folder ready for a job. Returns the manifest of earlier jobs."""
        held = self._held(self.root)
        if held and mode == "error":
            raise FileExistsError(f"{self.url} is not empty; use mode='overwrite' or mode='append'")
        if held and mode == "overwrite":
            self.fs.delete_dir_contents(self.root)
        earlier = self._manifest() if mode == "append" else []
        for dead in self._held(self.path(_TEMPORARY)) if mode == "append" else ():
            self._remove(dead.base_name, _named(earlier))
        self.fs.create_dir(self.path(_TEMPORARY, job), recursive=True)
        with self.open(self.path(_TEMPORARY, job, "_job")):
            pass  # many stores have no folders without files
        return earlier

    def discard(self, job: str) -> None:
        """Remove the files that a failed job has left."""
        self._remove(job, _named(self._manifest()))

    def finish(self, job: str, earlier: list[dict[str, Any]], manifest: list[dict[str, Any]]) -> None:
        """Move the files of a job to where they are seen, and say so in `_SUCCESS`, which is replaced in one step."""
        names = _named(manifest)
        for folder in {posixpath.dirname(_place(name)) for name in names} - {""}:
            self.fs.create_dir(self.path(folder))
        with ThreadPoolExecutor(8) as threads:  # a store may copy a file to move it
            list(threads.map(lambda name: self.move(self.path(_TEMPORARY, job, name), self.path(_place(name))), names))
        written = self.path(_TEMPORARY, job, _SUCCESS)
        with self.open(written) as marker:
            marker.write(json.dumps([*earlier, *manifest], indent=1).encode())
        try:
            self.fs.move(written, self.path(_SUCCESS))
        except OSError:  # some stores do not replace files
            self.delete(self.path(_SUCCESS))
            self.fs.move(written, self.path(_SUCCESS))
        self._remove(job, names)

    def _remove(self, job: str, finished: set[str]) -> None:
        """Remove a job's own folder, after its files that are not finished: while the folder is there, they are known."""
        for held in [*self._held(self.root), *(one for table in TABLES for one in self._held(self.path(table)))]:
            if held.base_name.endswith(f"-{job}.parquet") and held.base_name not in finished:
                self.delete(held.path)
        for folder in (self.path(_TEMPORARY, job), self.path(_TEMPORARY)):
            if folder != self.path(_TEMPORARY) or not self._held(folder):
                self.fs.delete_dir(folder)

    def _held(self, folder: str) -> list[Any]:
        from pyarrow import fs

        found: list[Any] = self.fs.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return found

    def _manifest(self) -> list[dict[str, Any]]:
        """The rows of `_SUCCESS`; none if there is none, or another program's."""
        try:
            with self.fs.open_input_stream(self.path(_SUCCESS)) as marker:
                rows = json.loads(marker.read())
        except (FileNotFoundError, ValueError):
            return []
        return rows if isinstance(rows, list) else []


def _named(manifest: list[dict[str, Any]]) -> set[str]:
    """The names of the files of a manifest."""
    return {posixpath.basename(row["file"]) for row in manifest if row["file"]}
