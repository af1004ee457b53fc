"""Conversions of the message table's messages, in the executors' Python, without a shuffle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.functions import arrow_udf

from wirefmt.convert import DIALECTS, PROTOCOLS, Topics, topic_of
from wirefmt.convert.table import NEEDED, convert_table
from wirefmt.spec.columns import CONVERTED

from .schema import spark_type

if TYPE_CHECKING:
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
    """Append a column `converted` to rows of the message table: the message in another protocol.

    Args:
        df: rows with at least the columns protocol, version, destination, routing_key and raw; other columns stay unchanged.
            Read captures with the option raw=true, or with columns that name it, to get `raw`.
        to: "amqp10", "amqp091" or "mqtt5".
        dialect, mqtt_exchange, topics, percent_encoding: as for `wirefmt.convert.convert`.

    `converted` is a struct: raw, losses, rule, error. It is null if a row is not a message of the three protocols. A
    refused message has an error, and the job continues. Needs Spark 4.1; the option `convert_to` of the data
    source and of `read` converts while captures are read, which costs less and also works on Spark 3.5.

    Raises:
        ValueError: a column is missing, or the protocol, dialect or `topics` is unknown.
    """
    missing = [name for name in NEEDED if name not in df.columns]
    if missing:
        raise ValueError(
            f"converting needs the columns {', '.join(NEEDED)}; {', '.join(missing)} is missing "
            '(.option("raw", "true").option("columns", ...) when reading, or .option("convert_to", ...) instead)'
        )
    if CONVERTED.name in df.columns:
        raise ValueError(f"the column {CONVERTED.name!r} exists already")
    for value, known in ((to, PROTOCOLS), (dialect, DIALECTS)):
        if value not in known:
            raise ValueError(f"{value!r} is not one of {', '.join(known)}")
    topic_of("", topics)  # raises ValueError for an unknown translation
    how: dict[str, Any] = {
        "to": to, "dialect": dialect, "mqtt_exchange": mqtt_exchange, "topics": topics,
        "percent_encoding": percent_encoding,
    }  # fmt: skip

    import pyarrow as pa

    def convert_in_arrow(batches):  # type: ignore[no-untyped-def]
        for columns in batches:
            yield convert_table(pa.record_batch(list(columns), names=list(NEEDED)), **how).column(CONVERTED.name)

    # only the needed columns go to Python and only the new one comes back; mapInArrow would move every column twice
    convert_in_arrow.__annotations__ = {"batches": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    # pyspark's stubs do not allow a call without a function type, which the annotations give
    converted = arrow_udf(convert_in_arrow, spark_type(CONVERTED.type))  # type: ignore[call-overload]
    return df.withColumn(CONVERTED.name, converted(*NEEDED))
