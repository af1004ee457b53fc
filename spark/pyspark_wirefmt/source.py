"""`spark.read.format("wirefmt")`: captures as a DataFrame.

Spark has no column pruning for a Python data source: a projection is the schema that the user declares by `.schema(...)` or
the option `columns`; `select(...)` alone decodes and moves every column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from wirefmt.capture import files

from .needs import present
from .options import Options, take_paths
from .schema import keep_options, kept_options, projection, source_schema
from .work import Reading, works

if TYPE_CHECKING:
    import pyarrow as pa

    from .stream import CaptureStream


class DefaultSource(DataSource):
    """The data source "wirefmt". Options: see `options.Options`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.given = dict(options)
        self.paths, self.catalog, rest = take_paths(options)
        self.options: Options = Options.parse(rest)  # type: ignore[assignment]

    @classmethod
    def name(cls) -> str:
        return "wirefmt"

    def schema(self) -> StructType:
        found = source_schema(self.options)
        return keep_options(found, self.given) if self.catalog else found

    def reader(self, schema: StructType) -> DataSourceReader:
        if not self.given and (kept := kept_options(schema)):
            return DefaultSource(kept).reader(schema)
        self._need_path()
        reader = FilteringReader if self.options.pushdown else CaptureReader
        return reader(self.paths, self._reading(schema))

    def streamReader(self, schema: StructType) -> CaptureStream:
        from .stream import CaptureStream

        if not self.given and (kept := kept_options(schema)):
            return DefaultSource(kept).streamReader(schema)
        self._need_path()
        if self.options.is_made and self.options.flows == "across-files":
            raise ValueError(f"a stream cannot have the table {self.options.table} with flows = across-files")
        return CaptureStream(self.paths, self._reading(schema))

    def _reading(self, schema: StructType) -> Reading:
        """How to read. A schema declared by the user requests its columns; the default one does not."""
        columns = projection(self.options, schema)
        options = self.options if columns == self.schema().names else self.options.filling(columns)
        return Reading(options, columns, list(schema.names), present())

    def _need_path(self) -> None:
        if not self.paths:
            raise ValueError(
                'wirefmt needs a path: .load("dir/*.pcap"), or CREATE TABLE name USING wirefmt OPTIONS (path "dir/*.pcap") '
                "without column definitions: choose columns by the option columns"
            )


class CaptureReader(DataSourceReader):
    """Plans on the driver; pickled into every task, so it has no file list."""

    def __init__(self, paths: list[str], reading: Reading) -> None:
        self.paths = paths
        self.reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        options = self.reading.options
        return works(files.expand(self.paths, recursive=options.recursive), options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reading.rows(partition.value)


class FilteringReader(CaptureReader):
    """option("pushdown", "true"): filters run here, before rows go to the JVM.

    A separate class, because Spark refuses every read of a reader with `pushFilters` while
    `spark.sql.python.filterPushdown.enabled` is false, which is its default.
    """

    def __init__(self, paths: list[str], reading: Reading) -> None:
        super().__init__(paths, reading)
        self.filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        from .pushdown import can_push

        for condition in filters:
            if can_push(condition, self.reading.options.table):
                self.filters.append(condition)
            else:
                yield condition

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from .pushdown import mask

        for batch in super().read(partition):
            kept = batch.filter(mask(self.filters, batch)) if self.filters else batch
            if kept.num_rows:
                yield kept
