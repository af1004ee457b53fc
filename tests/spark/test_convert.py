"""`convert_messages` on Spark: the rows that one process gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

import pyarrow as pa
from pyspark.sql import SparkSession

import pyspark_wirefmt
from lib.paths import ROOT
from lib.spark_captures import rows
from pyspark_wirefmt import convert_messages, message_schema
from pyspark_wirefmt.schema import spark_type
from wirefmt import capture, convert
from wirefmt.capture import files
from wirefmt.spec.columns import CONVERTED

pytestmark = pytest.mark.spark

SAMPLES = str(ROOT / "samples")
COLUMNS = ["ts", "protocol", "version", "destination", "routing_key", "headers", "amqp091", "raw"]


def one_process(to: str, **options: object) -> list[str]:
    """What `wirefmt decode --as` gives, of all samples."""
    names = [file.name for file in files.expand([SAMPLES])]
    with capture.read(names, raw=True, columns=COLUMNS) as reader:
        batches = [convert.convert_table(pa.record_batch(batch), to=to, **options) for batch in reader]  # type: ignore[arg-type]
    return rows(pa.Table.from_batches(batches))


def load(spark: SparkSession, **options: Any) -> Any:
    return spark.read.format("wirefmt").options(raw="true", columns=",".join(COLUMNS), **options).load(SAMPLES)


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> Any:
    """Rows of all samples, read once, in two partitions."""
    frame = load(spark, splitSize="20000")
    assert frame.rdd.getNumPartitions() > 2
    frame = frame.coalesce(2).cache()
    yield frame
    frame.unpersist()


@pytest.mark.parametrize("to", convert.PROTOCOLS)
@pytest.mark.parametrize("dialect", list(convert.DIALECTS))
def test_as_one_process(messages: Any, to: Any, dialect: Any) -> None:
    frame = convert_messages(messages, to, dialect=dialect)
    assert frame.rdd.getNumPartitions() > 1
    assert frame.columns == [*COLUMNS, "converted"]
    found = rows(frame.toArrow())
    assert found == one_process(to, dialect=dialect)
    assert len(found) > 2000


def test_the_whole_table_and_sql(spark: SparkSession) -> None:
    frame = convert_messages(spark.read.format("wirefmt").option("raw", "true").load(SAMPLES), "amqp10")
    assert frame.columns == [*(name for name in message_schema().names if name != "vlan"), "converted"]
    frame.createOrReplaceTempView("messages")
    said = spark.sql(
        "SELECT protocol, count(converted) AS messages, count(converted.raw) AS raw, count(converted.error) AS errors "
        "FROM messages WHERE raw IS NOT NULL GROUP BY protocol ORDER BY protocol"
    ).collect()
    assert [row.protocol for row in said] == ["amqp091", "amqp10", "mqtt"]
    assert all(row.messages == row.raw + row.errors for row in said)
    assert [(row.raw, row.errors) for row in said[:2]] == [(21, 0), (136, 0)]


@pytest.mark.parametrize("to", convert.PROTOCOLS)
def test_converted_by_the_source(spark: SparkSession, to: Any) -> None:
    """Option convert_to: the rows of convert_messages, without a second pass through Python."""
    columns = [name for name in COLUMNS if name != "raw"]
    frame = load(spark, splitSize="20000", convertTo=to, dialect="rabbitmq-4.3").drop("raw")
    assert frame.columns == [*columns, "converted"]
    how = {"dialect": "rabbitmq-4.3"}
    expected = [json.dumps({k: v for k, v in json.loads(row).items() if k != "raw"}, sort_keys=True)
                for row in one_process(to, **how)]  # fmt: skip
    assert rows(frame.toArrow()) == sorted(expected)


def test_converted_wherever_captures_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """Chosen columns, `read` and Parquet; columns that the conversion needs are read though not asked for."""
    how = {"convert_to": "amqp10", "columns": "frame_no,converted,capture"}
    source = spark.read.format("wirefmt").options(**how).load(SAMPLES).toArrow()
    assert source.column_names == ["frame_no", "converted", "capture"]
    found = rows(source)
    assert sum(row["raw"] is not None for row in source["converted"].to_pylist() if row) > 1000
    shuffled = pyspark_wirefmt.read(spark, SAMPLES, split_size=20_000, partitions=3, **how)
    assert rows(shuffled.toArrow()) == found
    pyspark_wirefmt.decode_to_parquet(spark, SAMPLES, tmp_path / "out", **how)
    assert rows(spark.read.parquet(str(tmp_path / "out")).toArrow()) == found
    declared = "converted struct<raw:binary,losses:{}>".format(
        spark_type(CONVERTED.type).simpleString().partition("losses:")[2].removesuffix(">")
    )
    one = spark.read.format("wirefmt").schema(declared).option("convertTo", "amqp10").load(SAMPLES)
    assert one.where("converted.raw is not null").count() > 1000


@pytest.fixture
def table(spark: SparkSession) -> Any:
    """A table of the catalog, read without raw."""
    spark.sql(f"CREATE TABLE without_raw USING wirefmt OPTIONS (path '{SAMPLES}')")
    yield spark.table("without_raw")
    spark.sql("DROP TABLE without_raw")


def test_octets_are_there_or_it_is_an_error(spark: SparkSession, table: Any, tmp_path: Path) -> None:
    """Converting rows that were read without their octets would give nulls."""
    source = spark.read.format("wirefmt")
    pyspark_wirefmt.decode_to_parquet(spark, SAMPLES, tmp_path / "out")
    without = {
        "source": source.load(SAMPLES),
        "columns": source.option("columns", "protocol,version,destination,routing_key").load(SAMPLES),
        "table": table,
        "stream": spark.readStream.format("wirefmt").load(SAMPLES),
        "read": pyspark_wirefmt.read(spark, SAMPLES, split_size=20_000),
        "Parquet": spark.read.parquet(str(tmp_path / "out")),
        "convert_to": source.option("convertTo", "mqtt5").load(SAMPLES),
    }
    for name, frame in without.items():
        assert "raw" not in frame.columns, name
        with pytest.raises(ValueError, match=r'raw is missing \(\.option\("raw", "true"\)'):
            convert_messages(frame, "amqp10")
    with pytest.raises(Exception, match=r"UNRESOLVED_COLUMN.*`raw`"):
        without["source"].select("raw")

    needed = ["protocol", "version", "destination", "routing_key", "raw"]
    expected = [json.loads(row).get("converted") for row in one_process("amqp10")]
    messages = sum(converted is not None for converted in expected)
    assert messages > 1000
    asked = {
        "option": spark.read.format("wirefmt").option("raw", "true").load(SAMPLES),
        "columns": spark.read.format("wirefmt").option("columns", ",".join(needed)).load(SAMPLES),
        "schema": spark.read.format("wirefmt").schema(message_schema(needed)).load(SAMPLES),
        "read": pyspark_wirefmt.read(spark, SAMPLES, split_size=20_000, columns=needed),
    }
    for name, frame in asked.items():
        assert convert_messages(frame, "amqp10").where("converted IS NOT NULL").count() == messages, name


def test_options(spark: SparkSession) -> None:
    how: dict[str, Any] = {"mqtt_exchange": "mine", "topics": "unchanged", "percent_encoding": False}
    found = rows(convert_messages(load(spark), "amqp10", **how).toArrow())
    assert found == one_process("amqp10", **how) != one_process("amqp10")


def test_what_is_not_converted_does_not_end_the_job(spark: SparkSession) -> None:
    made = spark.createDataFrame(
        [("mqtt", "5.0", None, None, bytearray(b"\x30\xff")), ("mqtt", "5.0", None, None, None)],
        "protocol string, version string, destination string, routing_key string, raw binary",
    )
    first, second = (row.converted for row in convert_messages(made, "amqp10").collect())
    assert (first.raw, first.rule, bool(first.error)) == (None, "mqtt5:undecodable", True)
    assert second is None


def test_wrong_usage(spark: SparkSession) -> None:
    frame = load(spark)
    with pytest.raises(ValueError, match="raw is missing"):
        convert_messages(frame.drop("raw"), "amqp10")
    with pytest.raises(ValueError, match="already"):
        convert_messages(convert_messages(frame, "amqp10"), "amqp10")
    wrong: Any
    for wrong in ({"to": "amqp1"}, {"to": "amqp10", "dialect": "x"}, {"to": "amqp10", "topics": "x"}):
        with pytest.raises(ValueError, match="is not one of"):
            convert_messages(frame, **wrong)
    assert CONVERTED.name == "converted"
