"""The tasks of the data source and of the stream: the plan as Spark's partitions, and a partition's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from wirefmt.capture import files

from . import plan
from .options import Options

if TYPE_CHECKING:
    import pyarrow as pa


class Work(InputPartition):
    """The work of one Spark task: a `plan.Task`, `plan.Following` or `packets.RangeTask`; None: no work."""

    def __init__(self, task: Any) -> None:
        super().__init__(task)


def run(task: Any, options: Options, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of one task."""
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
    if options.table == "packets":
        from . import packets

        planned: Sequence[Any] = packets.tasks(captures, options)
    else:
        planned = plan.tasks(captures, options)
    return [Work(task) for task in planned or (None,)]
