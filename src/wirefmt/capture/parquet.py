"""A Parquet file that is written from a stream of batches, for the command line and Spark."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a row group, and the size in bytes at which it is written earlier.
ROW_GROUP_ROWS, ROW_GROUP_OCTETS = 1 << 17, 64 << 20


class ParquetWriter:
    """Collects batches to row groups. A file that is not closed stays incomplete: it cannot be read."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema, compression: str = "zstd") -> None:
        import pyarrow.parquet

        self._writer = pyarrow.parquet.ParquetWriter(sink, schema, compression=compression)
        self._schema = schema
        self._held: list[pa.RecordBatch] = []
        self._rows = self._octets = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        self._octets += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._octets >= ROW_GROUP_OCTETS:
            self._write_group()

    def flush(self) -> None:
        """A Parquet file can be read only when it is complete."""

    def close(self) -> None:
        self._write_group()
        self._writer.close()

    def __del__(self) -> None:
        # pyarrow's writer closes itself when it is garbage-collected; after an error or a signal, its file is closed
        if hasattr(self, "_writer"):
            self._writer.is_open = False

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema))
            self._held.clear()
            self._rows = self._octets = 0
