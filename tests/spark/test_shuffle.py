"""pyspark_wirefmt.read: packets shuffled by flow give the rows of one process."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

import pyarrow as pa
from pyspark.sql import SparkSession

import pyspark_wirefmt
from lib.captures import live
from lib.paths import ROOT
from lib.spark_captures import cut, one_process, records, rows
from pyspark_wirefmt import message_schema, shuffle
from pyspark_wirefmt.options import Options
from wirefmt.capture import PacketScanner

pytestmark = pytest.mark.spark

PLAIN = "mosquitto-paho-v5.pcap"
LOSSY = "mosquitto-paho-v311-lossy-outoforder.pcap"
#: what a cut changes by its nature
PLACE = ("capture", "frame_no")
MAX_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.mark.parametrize("name", [PLAIN, LOSSY, "rabbitmq-pyamqp.pcap", "rheabroker-rhea.pcap"])
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_do_not_depend_on_byte_ranges(spark: SparkSession, name: str, seed: int) -> None:
    capture = live(name)
    size = capture.stat().st_size
    split_size = random.Random(seed).randrange(size // 20, size // 2)
    frame = pyspark_wirefmt.read(spark, str(capture), split_size=split_size, partitions=3)
    assert rows(frame.toArrow()) == one_process(capture)


@pytest.mark.parametrize("name", [PLAIN, LOSSY])
@pytest.mark.parametrize("seed", [3, 4])
def test_rows_do_not_depend_on_the_cutting_into_files(
    spark: SparkSession, tmp_path: Path, name: str, seed: int
) -> None:
    capture = live(name)
    count = len(records(capture)[1])
    places = random.Random(seed).sample(range(1, count), 4)
    parts = cut(capture, places, tmp_path)
    frame = pyspark_wirefmt.read(spark, [str(p) for p in parts], flows="across-files", partitions=3)
    table = frame.toArrow()
    assert rows(table) == one_process(parts, flows="across-files")
    assert rows(table, PLACE) == one_process(capture, PLACE)


def test_rotated_and_split(spark: SparkSession, tmp_path: Path) -> None:
    capture = live(LOSSY)
    parts = cut(capture, [1000], tmp_path)
    frame = pyspark_wirefmt.read(spark, [str(p) for p in parts], flows="across-files", split_size=200_000)
    assert rows(frame.toArrow(), PLACE) == one_process(capture, PLACE)


def test_in_file_flows_never_cross(spark: SparkSession, tmp_path: Path) -> None:
    parts = cut(live(PLAIN), [100, 200], tmp_path)
    frame = pyspark_wirefmt.read(spark, [str(p) for p in parts], split_size=9000)
    assert rows(frame.toArrow()) == one_process(parts)


def test_whole_and_split_captures_together(spark: SparkSession, tmp_path: Path) -> None:
    for name in (PLAIN, "mosquitto-paho-v31.pcap"):
        shutil.copyfile(live(name), tmp_path / name)
    frame = pyspark_wirefmt.read(spark, str(tmp_path), split_size=40_000)
    assert rows(frame.toArrow()) == one_process(sorted(tmp_path.iterdir()))


def test_partitions_bound_the_tasks_of_captures_that_are_not_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(300):
        shutil.copyfile(live("mosquitto-paho-v31.pcap"), tmp_path / f"{number}.pcap")
    assert pyspark_wirefmt.read(spark, str(tmp_path)).rdd.getNumPartitions() > 2
    assert pyspark_wirefmt.read(spark, str(tmp_path), partitions=2).rdd.getNumPartitions() == 2


def test_projection_and_options(spark: SparkSession) -> None:
    capture = live(PLAIN)
    chosen: dict[str, Any] = {"columns": ["qos", "payload", "frame_no"], "payload_max": 5}
    frame = pyspark_wirefmt.read(spark, str(capture), split_size=9000, **chosen)
    assert frame.columns == chosen["columns"]
    assert rows(frame.toArrow()) == one_process(capture, **chosen)


def test_corrupt_capture_in_ranges(spark: SparkSession, tmp_path: Path) -> None:
    whole = live(PLAIN).read_bytes()
    middle = len(whole) // 2
    (tmp_path / "hole.pcap").write_bytes(whole[:middle] + bytes(3000) + whole[middle + 3000 :])
    (tmp_path / "cut.pcap").write_bytes(whole[:-7])
    for name in ("hole.pcap", "cut.pcap"):
        frame = pyspark_wirefmt.read(spark, str(tmp_path / name), split_size=9000)
        assert rows(frame.toArrow()) == one_process(tmp_path / name)


SAMPLES = ROOT / "samples"


def sorted_packets(captures: Any, size: int, *, in_file: Any) -> Any:
    """Packets as they come behind the shuffle, sorted by flow, in Arrow batches of `size` rows."""
    scanner = PacketScanner(columns=["flow_hash", "file_index", "frame_no", "segment"])
    for index, capture in enumerate(captures):
        scanner.begin_file(str(capture), index)
        scanner.feed(capture.read_bytes())
        scanner.end_file()
    found = pa.table(pa.record_batch(scanner.take(final=True)))
    keys = ["file_index", "flow_hash"] if in_file else ["flow_hash", "file_index"]
    found = found.sort_by([(key, "ascending") for key in (*keys, "frame_no")])
    for begin in range(0, found.num_rows, size):
        # a batch of its own, not a slice: so batches come from the JVM
        yield pa.RecordBatch.from_pylist(found.slice(begin, size).to_pylist(), schema=found.schema)


@pytest.mark.parametrize("size", [1, 2, 7, 50])
@pytest.mark.parametrize("name", ["mosquitto-paho-v5.pcap", "rabbitmq-pyamqp-amqp091.pcap", "rabbitmq-paho-v31.pcap"])
def test_a_flow_continues_in_the_next_arrow_batch(name: str, size: int) -> None:
    """Only the first flow of a batch may continue from the batch before, only the last one into the batch after."""
    capture = SAMPLES / name
    columns = message_schema(None).names
    decode = shuffle._decoder("flow_hash", [str(capture)], Options.parse({}), columns)
    assert rows(decode(sorted_packets([capture], size, in_file=True))) == one_process(capture)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("flows", ["in-file", "across-files"])
def test_arrow_batches_of_several_captures(tmp_path: Path, flows: Any, size: int) -> None:
    parts = cut(SAMPLES / PLAIN, [100, 101, 350], tmp_path)
    options = Options.parse({"flows": flows})
    decode = shuffle._decoder("flow_hash", [str(part) for part in parts], options, message_schema(None).names)
    packets = sorted_packets(parts, size, in_file=flows == "in-file")
    assert rows(decode(packets)) == one_process(parts, flows=flows)


@pytest.mark.parametrize("size", [1, 2, 7, 50])
def test_small_arrow_batches_in_a_job(spark: SparkSession, size: int) -> None:
    capture = SAMPLES / PLAIN
    before = spark.conf.get(MAX_RECORDS)
    assert before is not None
    spark.conf.set(MAX_RECORDS, size)
    try:
        frame = pyspark_wirefmt.read(spark, str(capture), split_size=30_000, partitions=2)
        assert rows(frame.toArrow()) == one_process(capture)
    finally:
        spark.conf.set(MAX_RECORDS, before)


def test_nothing_to_read(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no capture in"):
        pyspark_wirefmt.read(spark, str(tmp_path))


def test_options_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no option 'colums'"):
        pyspark_wirefmt.read(spark, str(tmp_path), colums="ts")
    with pytest.raises(FileNotFoundError):
        pyspark_wirefmt.read(spark, str(tmp_path / "none.pcap"))


def test_packets_table(spark: SparkSession) -> None:
    capture = live(PLAIN)
    packets = spark.read.format("wirefmt").option("table", "packets")
    frame = packets.load(str(capture))
    count = len(records(capture)[1])
    assert [r.frame_no for r in frame.select("frame_no").orderBy("frame_no").collect()] == list(range(1, count + 1))
    pieces = packets.option("splitSize", "5000").load(str(capture))
    assert pieces.rdd.getNumPartitions() > 1
    assert rows(pieces.toArrow()) == rows(frame.toArrow())
