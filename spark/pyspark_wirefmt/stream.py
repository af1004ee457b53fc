"""`spark.readStream.format("wirefmt")`: a directory that receives rotated captures.

A file is read when it has not been written for `settle` seconds; later writes are ignored. Files are read
in the order of (modification time, name), and an offset is the last file read, so it is small. A
file that appears later with an older modification time than the last file read is ignored.

flows="in-file" decodes each file independently. With flows="across-files" the files are one rotated capture, and a
micro-batch reads up to `context_files` files before its own again, to restore the state of flows. It stores no
state, so a replay gives the same rows. Incomplete messages at the end of the newest file wait for the next file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from wirefmt.capture import files

from . import plan
from .options import Options
from .work import Work, run, works

if TYPE_CHECKING:
    import pyarrow as pa

try:  # Spark 4.2 and later: limits on a micro-batch
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # pragma: no cover - Spark 4.0 and 4.1 take everything in one micro-batch

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


Offset = dict[str, Any]  # {"modified": seconds, "name": path}, JSON
Key = tuple[float, str]


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lists on the driver, decodes in the tasks."""

    def __init__(self, paths: list[str], options: Options, columns: list[str]) -> None:
        self.paths = paths
        self.options = options
        self.columns = columns
        self.target: Key | None = None

    def initialOffset(self) -> Offset:
        return {"modified": -1.0, "name": ""}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self.options.max_files_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        ready = self._ready()
        self.target = _key(ready[-1]) if ready else (-1.0, "")

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        begin = _offset_key(start or self.initialOffset())
        ready = [f for f in self._ready() if begin < _key(f) and (self.target is None or _key(f) <= self.target)]
        ready = ready[: getattr(limit, "max_files", None)]
        last = _key(ready[-1]) if ready else begin
        return {"modified": last[0], "name": last[1]}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        begin, last = _offset_key(start), _offset_key(end)
        listed = self._all()
        taken = [f for f in listed if begin < _key(f) <= last]
        if self.options.flows != "across-files" or self.options.table == "packets":
            return works(taken, self.options)
        before = [f for f in listed if _key(f) <= begin]
        context = before[max(0, len(before) - self.options.context_files) :]
        return [Work(task) for task in plan.following(context, taken, self.options) or (None,)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return run(partition.value, self.options, self.columns)

    def commit(self, end: Offset) -> None:
        """Nothing is stored for finished batches."""

    def stop(self) -> None:
        """No resources are open."""

    def _ready(self) -> list[files.CaptureFile]:
        now = time.time()
        return [f for f in self._all() if now - f.modified >= self.options.settle]

    def _all(self) -> list[files.CaptureFile]:
        return sorted(files.expand(self.paths, recursive=self.options.recursive, missing_ok=True), key=_key)


def _key(capture: files.CaptureFile) -> Key:
    return capture.modified, capture.name


def _offset_key(offset: Offset) -> Key:
    return float(offset["modified"]), str(offset["name"])
