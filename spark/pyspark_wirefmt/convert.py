"""Conversions of the message table's messages, in the executors' Python: no shuffle, no row leaves its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from wirefmt.convert import DIALECTS, PROTOCOLS, Topics, topic_of
from wirefmt.convert.table import NEEDED, convert_table
from wirefmt.spec.table import CONVERTED

from .schema import spark_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def convert_messages(
    df: DataFrame,
    to: str,
    *,
    dialect: str = "documented",
    mqtt_exchange: str = "amq.topic",
    topics: Topics = "translated",
    percent_encoding: bool = True,
) -> DataFrame:
    """Rows of the message table with one more column, `converted`: the message in another protocol.

    Args:
        df: rows with at least the columns protocol, version, destination, routing_key and octets; others stay as they are.
            `octets` is filled where captures are read with the option octets=true.
        to: "amqp10", "amqp091" or "mqtt5".
        dialect, mqtt_exchange, topics, percent_encoding: as for `wirefmt.convert.convert`.

    `converted` is a struct: octets, losses, rule, error. It is null where a row is no message of the three protocols; a
    message that is not converted has an error, and the job goes on. On Spark 3.5 and later.

    Raises:
        ValueError: a column is missing, or no such protocol, dialect or `topics`.
    """
    missing = [name for name in NEEDED if name not in df.columns]
    if missing:
        raise ValueError(
            f"converting needs the columns {', '.join(NEEDED)}; {', '.join(missing)} is missing "
            '(.option("octets", "true").option("columns", ...) when reading)'
        )
    if CONVERTED.name in df.columns:
        raise ValueError(f"there is a column {CONVERTED.name!r} already")
    for value, known in ((to, PROTOCOLS), (dialect, DIALECTS)):
        if value not in known:
            raise ValueError(f"{value!r} is not one of {', '.join(known)}")
    topic_of("", topics)  # is there such a translation?
    how: dict[str, Any] = {
        "to": to, "dialect": dialect, "mqtt_exchange": mqtt_exchange, "topics": topics,
        "percent_encoding": percent_encoding,
    }  # fmt: skip

    def convert_in_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield convert_table(batch, **how)

    schema = StructType([*df.schema.fields, StructField(CONVERTED.name, spark_type(CONVERTED.type))])
    return df.mapInArrow(convert_in_arrow, schema)
