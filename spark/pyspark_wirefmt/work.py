"""The tasks of the data source and of the stream: the plan as Spark's partitions, and a partition's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import InputPartition

from wirefmt.capture import files

from . import needs, plan
from .options import Options

if TYPE_CHECKING:
    import pyarrow as pa


class Work(InputPartition):
    """The work of one Spark task: a `plan.Task`, `plan.Following` or `packets.RangeTask`; None: no work."""

    def __init__(self, task: Any) -> None:
        super().__init__(task)


class Reading(NamedTuple):
    """How the tasks of a reader read; made on the driver."""

    options: Options
    columns: list[str]
    names: list[str]  # of the columns, in the user's letter case
    packages: tuple[str, ...]  # that the driver has

    def rows(self, task: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        needs.require(self.packages)
        for batch in _run(task, self.options, self.columns):
            yield batch if self.names == self.columns else batch.rename_columns(self.names)


def _run(task: Any, options: Options, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if task is None:
        return iter(())
    if isinstance(task, plan.Task):
        return plan.decode(task, options, columns)
    if isinstance(task, plan.Following):
        return plan.follow(task, options, columns)
    from . import packets

    return packets.scan(task, options, columns)


def works(captures: list[files.CaptureFile], options: Options) -> list[InputPartition]:
    """Never empty: Spark replaces an empty list by a partition of its own."""
    needs.require_for(captures)
    if options.table == "packets":
        from . import packets

        planned: Sequence[Any] = packets.tasks(captures, options)
    else:
        planned = plan.tasks(captures, options)
    return [Work(task) for task in planned or (None,)]
