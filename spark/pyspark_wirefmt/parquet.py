"""Captures to Parquet by tasks that write the files themselves: rows never pass through the JVM.

Retries and speculation are safe: a task writes under a name of its own attempt and renames at the end, to a name that
depends only on the task, and every attempt of a task writes the same rows. `_SUCCESS` is written last and contains the
manifest.
"""

from __future__ import annotations

import json
import os
import posixpath
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from wirefmt.capture import files

from . import plan
from .options import Options
from .schema import source_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row, SparkSession

MANIFEST = "file string, rows bigint, bytes bigint, errors bigint, captures array<string>, slice string"
_TEMPORARY = "_temporary"


def decode_to_parquet(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    mode: str = "error",
    compression: str = "snappy",
    **options: Any,
) -> list[Row]:
    """Decodes captures into Parquet files under `out`, one file per task.

    Args:
        paths: captures, as for `spark.read.format("wirefmt").load`.
        out: a folder; a local path (on a cluster: one that all machines share) or an fsspec URL.
        mode: if `out` already has files: "error", "overwrite" (delete them first) or "append".
        compression: of the Parquet files: "snappy", "zstd", "none" ...
        options: as for the data source. `partitions` is the number of tasks for a capture; by default the
            number of cores of the cluster.

    Returns:
        the manifest, one row per file: file, rows, bytes, errors (rows whose status is not "ok"), captures, slice.
        A task without rows leaves no file, and its row says rows=0, file=None.

    Raises:
        ValueError: an unknown option, or an invalid value.
        FileExistsError: `out` is not empty and mode is "error".
        FileNotFoundError: a path does not exist.
    """
    if mode not in ("error", "overwrite", "append"):
        raise ValueError("mode must be error, overwrite or append")
    chosen = Options.parse({"partitions": spark.sparkContext.defaultParallelism} | options)
    if chosen.table != "messages":
        raise ValueError("decode_to_parquet writes the message table; write the packets table with df.write")
    columns = source_schema(chosen).names
    planned = plan.tasks(files.expand(files.parse_paths(paths), recursive=chosen.recursive), chosen)
    target = _Folder(os.fspath(out))
    target.prepare(mode)
    job = uuid.uuid4().hex[:12]
    manifest: list[Row] = []
    try:
        if planned:
            write = _writer(planned, chosen, columns, target.url, job, compression)
            manifest = spark.range(0, len(planned), 1, len(planned)).mapInArrow(write, MANIFEST).collect()
    except BaseException:
        target.discard(job)
        raise
    target.finish(manifest)
    return manifest


def _writer(
    planned: list[plan.Task], options: Options, columns: list[str], url: str, job: str, compression: str
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function of one Spark task: its partition of the range has the number of its `plan.Task`."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for number in [i for batch in batches for i in batch.column(0).to_pylist()]:
            row = _write_task(planned[number], number, options, columns, url, job, compression)
            yield pa.RecordBatch.from_pylist([row], schema=_manifest_schema())

    return write


def _write_task(
    task: plan.Task, number: int, options: Options, columns: list[str], url: str, job: str, compression: str
) -> dict[str, Any]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder = _Folder(url)
    attempt = folder.path(_TEMPORARY, f"{job}-{number:05d}-{uuid.uuid4().hex[:12]}.parquet")
    final = folder.path(f"part-{number:05d}-{job}.parquet")
    rows = errors = octets = 0
    wanted = columns if "status" in columns else [*columns, "status"]  # the manifest counts by status
    writer = sink = None
    try:
        for batch in plan.decode(task, options, wanted):
            errors += batch.num_rows - (pc.sum(pc.equal(batch.column("status"), "ok")).as_py() or 0)
            rows += batch.num_rows
            kept = batch.select(columns) if wanted is not columns else batch
            if writer is None:
                sink = folder.open(attempt)
                writer = pq.ParquetWriter(sink, kept.schema, compression=compression)
            writer.write_batch(kept)
    except BaseException:
        if sink is not None:
            sink.close()
            folder.delete(attempt)
        raise
    if writer is not None and sink is not None:
        writer.close()
        octets = sink.tell()
        sink.close()
        folder.move(attempt, final)
    return {
        "file": final if rows else None,
        "rows": rows,
        "bytes": octets,
        "errors": errors,
        "captures": list(task.names),
        "slice": f"{task.part}/{task.parts}",
    }


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

    def prepare(self, mode: str) -> None:
        from pyarrow import fs

        held = self.fs.get_file_info(fs.FileSelector(self.root, allow_not_found=True))
        if held and mode == "error":
            raise FileExistsError(f"{self.url} is not empty; use mode='overwrite' or mode='append'")
        if held and mode == "overwrite":
            self.fs.delete_dir_contents(self.root)
        elif held and self.path("_SUCCESS") in {h.path for h in held}:
            self.delete(self.path("_SUCCESS"))
        self.fs.create_dir(self.path(_TEMPORARY), recursive=True)

    def discard(self, job: str) -> None:
        """Remove the files that a failed job has left."""
        from pyarrow import fs

        self.fs.delete_dir(self.path(_TEMPORARY))
        for held in self.fs.get_file_info(fs.FileSelector(self.root)):
            if held.base_name.endswith(f"-{job}.parquet"):
                self.delete(held.path)

    def finish(self, manifest: list[Row]) -> None:
        self.fs.delete_dir(self.path(_TEMPORARY))
        with self.open(self.path("_SUCCESS")) as marker:
            marker.write(json.dumps([row.asDict() for row in manifest], indent=1).encode())
