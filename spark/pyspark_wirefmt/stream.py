"""`spark.readStream.format("wirefmt")`: a directory that receives rotated captures.

A file is read when it is not empty and has not been written for `settle` seconds, in the order of (modification time, name).
A file is the same as one that was read if its path is the same and its first bytes, as many as were read, have the same digest;
times do not matter. So a file that is touched or copied back is not read again; one that has grown is not either, which a
`RuntimeWarning` says; another capture under the same name is read.

An offset therefore lists the files that were read. A file that is gone from a directory which still has captures is forgotten.

With flows="across-files" the files are one rotated capture, and a micro-batch reads up to `context_files` files before its
own again, to restore the state of flows. Only the list of files is stored, so a replay gives the same rows. Incomplete
messages at the end of the newest file wait for the next file.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from wirefmt.capture import files
from wirefmt.errors import CaptureError

from . import needs, plan
from .bounded import digest
from .work import Reading, Work, works

if TYPE_CHECKING:
    import pyarrow as pa

try:  # Spark 4.2 and later: limits on a micro-batch
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # pragma: no cover - Spark 4.0 and 4.1 take everything in one micro-batch

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


Offset = dict[str, Any]  # {"files": {path: [bytes, modification time, digest]}}, JSON


class Read(NamedTuple):
    """What was read of a file."""

    size: int
    modified: float
    digest: str


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lists on the driver, decodes in the tasks."""

    def __init__(self, paths: list[str], reading: Reading) -> None:
        self.paths = paths
        self.reading = reading
        self.options = reading.options
        self.target: list[files.CaptureFile] | None = None
        self._seen: dict[str, Read] = {}  # for Spark 4.0 and 4.1, whose latestOffset has no start
        self._digests: dict[tuple[str, int, float], str] = {}
        self._told: set[tuple[str, int]] = set()

    def initialOffset(self) -> Offset:
        self._listed(first=True)
        return {"files": {}}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self.options.max_files_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self._settled(self._listed())

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        before = self._seen if start is None else _files(start)
        listed = self._listed(first=start is not None and not before)
        ready = self._settled(listed) if self.target is None else self.target
        added: dict[str, Read] = {}
        for file in ready:
            if len(added) == getattr(limit, "max_files", None):
                break
            if (read := self._is_new(file, before.get(file.name))) is not None:
                added[file.name] = read
        if not added and start is not None:
            return start
        held = {file.name for file in listed}
        folders = {os.path.dirname(name) for name in held}
        kept = {n: r for n, r in before.items() if n in held or os.path.dirname(n) not in folders}
        return {"files": {name: list(read) for name, read in (kept | added).items()}}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        before, self._seen = _files(start), _files(end)
        old: list[files.CaptureFile] = []
        taken: list[files.CaptureFile] = []
        for name, read in sorted(self._seen.items(), key=lambda item: (item[1].modified, item[0])):
            new = name not in before or self._differs(name, before[name], read)
            (taken if new else old).append(files.CaptureFile(name, read.size, read.modified))
        taken = [file for file in taken if self._is_there(file)]
        if self.options.flows != "across-files" or self.options.table == "packets":
            return works(taken, self.options)
        needs.require_for(taken)
        context = [f for f in old[max(0, len(old) - self.options.context_files) :] if self._is_there(f)]
        return [Work(task) for task in plan.following(context, taken, self.options) or (None,)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reading.rows(partition.value)

    def commit(self, end: Offset) -> None:
        """Nothing is stored for finished batches."""

    def stop(self) -> None:
        """No resources are open."""

    def _is_new(self, file: files.CaptureFile, before: Read | None) -> Read | None:
        """What is to be read of a file; None: nothing, it was read."""
        if before is not None and (before.size, before.modified) == (file.size, file.modified):
            return None
        try:
            read = Read(file.size, file.modified, self._digest(file.name, file.size, file.modified))
            return read if before is None or self._differs(file.name, before, read) else None
        except CaptureError as fault:
            self._tell(file, f"cannot be read: {fault}")
            return None

    def _differs(self, name: str, before: Read, now: Read) -> bool:
        """Is it another capture? It is not if what was read of it is still there."""
        if now.size == before.size or now.digest == before.digest:
            return now.digest != before.digest
        if now.size < before.size or self._digest(name, before.size, now.modified) != before.digest:
            return True
        text = f"has grown from {before.size:,} to {now.size:,} bytes since it was read, and the rest is not read: set settle"
        self._tell(files.CaptureFile(name, now.size), text)
        return False

    def _is_there(self, file: files.CaptureFile) -> bool:
        """Is it still what an offset says? If not, it cannot be read, and a warning says so."""
        try:
            there = digest(file.name, file.size) == self._seen[file.name].digest
        except CaptureError:
            there = False
        if not there:
            self._tell(file, "was removed or replaced before it could be read")
        return there

    def _digest(self, name: str, size: int, modified: float) -> str:
        key = name, size, modified
        if key not in self._digests:
            self._digests[key] = digest(name, size)
        return self._digests[key]

    def _tell(self, file: files.CaptureFile, what: str) -> None:
        """Once for each size of a file."""
        if (file.name, file.size) not in self._told:
            self._told.add((file.name, file.size))
            warnings.warn(f"the capture {file.name!r} {what}", RuntimeWarning, stacklevel=2)

    def _settled(self, listed: list[files.CaptureFile]) -> list[files.CaptureFile]:
        now = time.time()
        return [f for f in listed if f.size and now - f.modified >= self.options.settle]

    def _listed(self, *, first: bool = False) -> list[files.CaptureFile]:
        """All files, in order. Raises FileNotFoundError if none has been read yet (`first`) and all are in subdirectories."""
        found = files.expand(self.paths, recursive=self.options.recursive, missing_ok=True)
        if first and not found and not self.options.recursive:
            for path in self.paths:
                if below := files.expand([path], recursive=True, missing_ok=True):
                    raise FileNotFoundError(
                        f"no capture in {path!r}, but {len(below)} in its subdirectories, such as {below[0].name!r}: set the "
                        f"option recursive to true, or watch {os.path.join(path, '*.pcap')!r} if they are not meant"
                    )
        return sorted(found, key=_key)


def _key(capture: files.CaptureFile) -> tuple[float, str]:
    return capture.modified, capture.name


def _files(offset: Offset | None) -> dict[str, Read]:
    return {name: Read(*read) for name, read in (offset or {"files": {}})["files"].items()}
