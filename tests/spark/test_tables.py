"""Tables that are made of messages, on Spark: the rows of one process, whatever the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from lib.paths import DATA
from lib.spark_captures import rows
from pyspark_wirefmt import decode_to_parquet, read
from wirefmt import capture
from wirefmt.spec.insight import TABLES

pytestmark = pytest.mark.spark

CAPTURES = tuple(DATA / "insight" / f"{name}.pcap.gz" for name in ("mqtt-takeover", "crossing", "amqp-errors"))
MADE = tuple(name for name in TABLES if name != "messages")


def one_by_one(table: str, **options: Any) -> list[str]:
    """The rows of one process that reads each capture by itself."""
    import pyarrow as pa

    found = []
    for name in CAPTURES:
        with capture.read(name, table=table, **options) as reader:
            found += rows(pa.table(reader))
    return sorted(found)


def load(spark: SparkSession, table: str, **options: Any) -> Any:
    return spark.read.format("wirefmt").options(table=table, **options).load([str(name) for name in CAPTURES])


@pytest.mark.parametrize("table", MADE)
def test_rows_do_not_depend_on_the_plan(spark: SparkSession, table: str) -> None:
    truth = one_by_one(table)
    assert len(truth) > 5
    for options in ({}, {"partitions": "3"}, {"splitSize": "700"}):
        frame = load(spark, table, **options)
        assert rows(frame.toArrow()) == truth
    assert frame.columns == [column.name for column in TABLES[table]]
    assert frame.rdd.getNumPartitions() <= len(CAPTURES)  # a capture is not split


def test_columns_and_filter(spark: SparkSession) -> None:
    chosen = {"columns": ["client_id", "reason"], "filter": "reason == 'taken-over'"}
    frame = load(spark, "connections", columns="client_id,reason", filter=chosen["filter"])
    assert frame.columns == chosen["columns"]
    assert rows(frame.toArrow()) == one_by_one("connections", **chosen) != []


def test_rotated_captures_are_one(spark: SparkSession) -> None:
    import pyarrow as pa

    names = [str(name) for name in CAPTURES]
    with capture.read(names, table="connections", flows="across-files") as reader:
        truth = rows(pa.table(reader))
    assert rows(load(spark, "connections", flows="across-files", partitions="3").toArrow()) == truth


def test_all_connections_on_request(spark: SparkSession) -> None:
    assert (
        load(spark, "connections", allConnections="true", protocols="mqtt").count()
        > load(spark, "connections", protocols="mqtt").count()
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"table": "connection"}, "must be messages or connections"),
        ({"table": "connections", "ports": "1883"}, "only the packets table"),
        ({"table": "connections", "convert_to": "amqp10"}, "only the message table"),
        ({"table": "connections", "filter": "kind == 'PUBLISH'"}, "no column 'kind'"),
        ({"table": "packets", "filter": "kind == 'PUBLISH'"}, "only the message table and what"),
    ],
)
def test_options_that_do_not_fit(spark: SparkSession, options: dict[str, str], says: str) -> None:
    with pytest.raises(Exception, match=says):
        spark.read.format("wirefmt").options(**options).load(str(CAPTURES[0])).count()


def test_read_has_messages_alone(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="message table"):
        read(spark, CAPTURES, table="connections")


def test_several_tables_as_parquet(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = decode_to_parquet(spark, CAPTURES, out, tables=["connections", "messages", "operations"], partitions=3)
    for table in ("messages", "connections", "operations"):
        found = pq.ParquetDataset(str(out / table)).read()
        left_out = ("raw", "vlan") if table == "messages" else ()
        assert found.column_names == [column.name for column in TABLES[table] if column.name not in left_out]
        assert rows(found) == one_by_one(table)
        assert sum(row.rows for row in manifest if row.table == table) == found.num_rows
        assert spark.read.parquet(str(out / table)).columns == found.column_names
    assert {path.name for path in out.iterdir()} == {"messages", "connections", "operations", "_SUCCESS"}
    assert {row.file for row in manifest} == {str(path) for path in out.glob("*/*.parquet")}
    decode_to_parquet(spark, CAPTURES[0], out, tables=["connections"], mode="append")
    assert len(json.loads((out / "_SUCCESS").read_text())) == len(manifest) + 1
    assert len(list((out / "connections").glob("*.parquet"))) == sum(row.table == "connections" for row in manifest) + 1


def test_one_table_as_parquet(spark: SparkSession, tmp_path: Path) -> None:
    decode_to_parquet(spark, CAPTURES, tmp_path, table="connections", columns=["client_id", "reason"])
    found = pq.ParquetDataset(str(tmp_path)).read()
    assert rows(found) == one_by_one("connections", columns=["client_id", "reason"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"tables": ["connection"]}, "did you mean 'connections'|did you mean connections"),
        ({"tables": []}, "empty"),
        ({"tables": "connections"}, "several names"),
        ({"tables": ["messages"], "payload": False}, "option payload"),
        ({"tables": ["connections"], "columns": ["reason"]}, "option columns"),
        ({"table": "packets"}, "packets table"),
    ],
)
def test_tables_that_cannot_be_written(
    spark: SparkSession, tmp_path: Path, arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        decode_to_parquet(spark, CAPTURES, tmp_path / "out", **arguments)
