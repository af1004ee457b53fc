"""spark.read.format("wirefmt"): the rows of one process, whatever the options and the plan."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

from pyspark.sql import SparkSession

from lib.captures import live
from lib.planted_secret import shows
from lib.secret_plants import OBJECTS, planted_capture
from lib.spark_captures import DEFAULT, one_process, records, rows
from lib.vlan import numbered
from pyspark_wirefmt import decode_to_parquet, message_schema, read

pytestmark = pytest.mark.spark

#: recorded with these passwords, see the captures' own list
CAPTURES = ("mosquitto-paho-v5.pcap", "mosquitto-paho-v31.pcap", "rabbitmq-paho-v31.pcap")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("captures")
    for name in CAPTURES:
        shutil.copyfile(live(name), path / name)
    return path


@pytest.fixture(scope="module")
def truth(folder: Path) -> list[str]:
    found = one_process([folder / name for name in CAPTURES])
    assert len(found) > 500
    return found


def load(spark: SparkSession, path: Any, **options: Any) -> Any:
    return spark.read.format("wirefmt").options(**options).load(path if isinstance(path, list) else str(path))


def test_found_without_registration(spark: SparkSession, folder: Path, truth: list[str]) -> None:
    frame = load(spark, folder)
    assert frame.schema == message_schema(DEFAULT)
    assert rows(frame.toArrow()) == truth


def test_detail_is_filled_where_it_is_asked_for(spark: SparkSession, folder: Path, truth: list[str]) -> None:
    assert load(spark, folder).select("detail").toArrow().column("detail").null_count == len(truth)
    expected = one_process([folder / name for name in CAPTURES], columns=("detail",), detail=True)
    assert sum(row != "{}" for row in expected) > len(truth) / 2
    declared = spark.read.format("wirefmt").schema("detail string").load(str(folder))
    for asked in (load(spark, folder, detail="true").select("detail"), load(spark, folder, columns="detail"), declared):
        assert rows(asked.toArrow()) == expected


def test_identifiers_of_vlans_on_request(spark: SparkSession, tmp_path: Path) -> None:
    capture = tmp_path / "x.pcap"
    capture.write_bytes(numbered(live(CAPTURES[0]).read_bytes(), 100))
    expected = one_process(capture, columns=["frame_no", "vlan"])
    assert sum("vlan" in row for row in expected) == len(expected) > 100
    assert "vlan" not in load(spark, capture).columns
    assert load(spark, capture, vlan="true").columns == message_schema([*DEFAULT, "vlan"]).names
    declared = spark.read.format("wirefmt").schema("frame_no bigint, vlan array<int>").load(str(capture))
    named = load(spark, capture, columns="frame_no,vlan", splitSize="20000", maxSlices="3")
    shuffled = read(spark, str(capture), columns=["frame_no", "vlan"], split_size=20_000, partitions=3)
    for frame in (declared, named, shuffled, load(spark, capture, vlan="true").select("frame_no", "vlan")):
        assert rows(frame.toArrow()) == expected
    decode_to_parquet(spark, capture, tmp_path / "out", columns=["frame_no", "vlan"], partitions=2)
    written = spark.read.parquet(str(tmp_path / "out"))
    assert rows(written.toArrow()) == expected
    assert written.schema == message_schema(["frame_no", "vlan"])


@pytest.mark.parametrize("split_size", [700, 20_011, 60_000])
def test_rows_do_not_depend_on_the_split(spark: SparkSession, folder: Path, truth: list[str], split_size: int) -> None:
    frame = load(spark, folder, splitSize=str(split_size))
    assert frame.rdd.getNumPartitions() > 1
    assert rows(frame.toArrow()) == truth


def test_ways_to_name_captures(spark: SparkSession, folder: Path, truth: list[str]) -> None:
    names = [str(folder / name) for name in CAPTURES]
    for path in (f"{folder}/*.pcap", ",".join(names), names, f"file://{folder}"):
        assert rows(load(spark, path).toArrow()) == truth


def test_across_files(spark: SparkSession, folder: Path) -> None:
    names = [folder / name for name in CAPTURES]
    frame = load(spark, [str(n) for n in names], flows="across-files", partitions="3")
    assert rows(frame.toArrow()) == one_process(names, flows="across-files")


def test_schema_is_the_projection(spark: SparkSession, folder: Path) -> None:
    frame = (
        spark.read.format("wirefmt").schema("qos tinyint, ts timestamp, headers map<string,string>").load(str(folder))
    )
    assert frame.columns == ["qos", "ts", "headers"]
    expected = one_process([folder / n for n in CAPTURES], columns=["qos", "ts", "headers"])
    assert rows(frame.toArrow()) == expected


def test_struct_columns_are_projected(spark: SparkSession, folder: Path) -> None:
    kinds = message_schema(["mqtt", "kind"])
    frame = spark.read.format("wirefmt").schema(kinds).load(str(folder))
    expected = one_process([folder / n for n in CAPTURES], columns=["mqtt", "kind"])
    assert rows(frame.toArrow()) == expected


def test_letter_case_of_columns_is_ignored(spark: SparkSession, folder: Path) -> None:
    frame = (
        spark.read.format("wirefmt").schema("KIND string, Ts timestamp").option("pushdown", "true").load(str(folder))
    )
    table = frame.where("kind = 'PUBLISH'").toArrow()
    assert table.column_names == ["KIND", "Ts"]
    expected = one_process([folder / n for n in CAPTURES], columns=["kind", "ts"])
    assert rows(table.rename_columns(["kind", "ts"])) == [row for row in expected if '"kind": "PUBLISH"' in row]


def test_filter_option(spark: SparkSession, folder: Path) -> None:
    """The language of the command line, with columns that the frame does not have; by a plan of slices and by a shuffle."""
    text = "qos >= 1 and kind == 'PUBLISH'"
    whole = one_process([folder / n for n in CAPTURES], columns=["qos", "kind", "destination"])
    kept = [json.loads(row) for row in whole]
    expected = Counter(r["destination"] for r in kept if r.get("kind") == "PUBLISH" and r["qos"] >= 1)
    assert expected
    for frame in (
        load(spark, folder, filter=text, columns="destination"),
        load(spark, folder, filter=text, columns="destination", splitSize="20k"),
        read(spark, str(folder), filter=text, columns="destination", split_size=20_000, batch_rows=7),
    ):
        assert Counter(row.destination for row in frame.collect()) == expected


def test_columns_option(spark: SparkSession, folder: Path) -> None:
    assert load(spark, folder, columns="KIND").columns == ["kind"]
    assert load(spark, folder, columns="destination, kind").columns == ["destination", "kind"]


@pytest.mark.parametrize(
    ("ddl", "says"), [("qos string", "'qos' is declared string but is tinyint"), ("nothing int", "no column 'nothing'")]
)
def test_wrong_schema_says_what_is_wrong(spark: SparkSession, folder: Path, ddl: str, says: str) -> None:
    with pytest.raises(Exception, match=says):
        spark.read.format("wirefmt").schema(ddl).load(str(folder)).collect()


def test_unknown_option_says_so(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(Exception, match="no option 'colums'; did you mean columns"):
        load(spark, folder, colums="ts").collect()


def test_missing_capture_says_so(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(Exception, match="no capture at"):
        load(spark, folder / "none.pcap").collect()


def test_sql(spark: SparkSession, folder: Path, truth: list[str]) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW captured USING wirefmt OPTIONS (path '{folder}', payload 'false')")
    total, without = spark.sql("SELECT count(*), count_if(payload IS NULL) FROM captured").collect()[0]
    assert total == without == len(truth)
    kinds = {r.kind: r.n for r in spark.sql("SELECT kind, count(*) n FROM captured GROUP BY kind").collect()}
    counted: dict[str, int] = {}
    for row in truth:
        kind = json.loads(row).get("kind")
        counted[kind] = counted.get(kind, 0) + 1
    assert kinds == counted


def test_pushdown_gives_the_same_rows(spark: SparkSession, folder: Path) -> None:
    conditions = (
        "qos = 1",
        "kind IN ('CONNECT', 'CONNACK')",
        "destination IS NOT NULL AND payload_size > 20",
        "destination IS NULL",
        "NOT (kind = 'PUBLISH')",
        "destination LIKE 't%' AND redelivered = false",
        "qos NOT IN (0, 2)",
        "qos = 1 OR kind = 'CONNECT'",
        "ts > timestamp'2020-01-01'",
    )
    plain = load(spark, folder).cache()
    for condition in conditions:
        pushed = load(spark, folder, pushdown="true").where(condition)
        assert rows(pushed.toArrow()) == rows(plain.where(condition).toArrow()), condition
    plain.unpersist()


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_pushed_filters_leave_the_plan(spark: SparkSession, folder: Path, pushdown: str) -> None:
    frame = load(spark, folder, pushdown=pushdown).where("qos = 1")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert ("Filter (" in plan) == (pushdown == "false")


def test_credentials_are_redacted(spark: SparkSession, folder: Path) -> None:
    hidden = load(spark, folder).selectExpr("mqtt.user_name user", "mqtt.password password").where("user IS NOT NULL")
    assert hidden.count() > 0
    assert hidden.where("password IS NOT NULL").count() == 0
    shown = load(spark, folder, exposeCredentials="true").selectExpr("mqtt.password password")
    assert shown.where("password IS NOT NULL").count() > 0


@pytest.mark.parametrize("protocol", OBJECTS)
def test_no_row_shows_a_secret(spark: SparkSession, tmp_path: Path, protocol: str) -> None:
    (tmp_path / "c.pcap").write_bytes(planted_capture(protocol))
    hidden = load(spark, tmp_path, raw="true").collect()
    assert len(hidden) > 3
    assert not shows(str(hidden))
    assert shows(str(load(spark, tmp_path, expose_credentials="true").collect()))


def test_empty_directory(spark: SparkSession, tmp_path: Path) -> None:
    frame = load(spark, tmp_path)
    assert frame.schema == message_schema(DEFAULT)
    with pytest.raises(Exception, match="no capture in"):
        frame.count()


@pytest.fixture
def tables(spark: SparkSession) -> Any:
    """Drops the tables that a test creates."""
    names = [f"captured_{n}" for n in range(4)]
    yield names
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_tables_of_the_catalog(spark: SparkSession, folder: Path, truth: list[str], tables: Any) -> None:
    spark.sql(f"CREATE TABLE {tables[0]} USING wirefmt OPTIONS (path '{folder}')")
    spark.sql(f"CREATE TABLE {tables[1]} USING wirefmt LOCATION '{folder}'")
    for name in tables[:2]:
        assert rows(spark.table(name).toArrow()) == truth
    spark.sql(
        f"CREATE TABLE {tables[2]} USING wirefmt OPTIONS (path '{folder}', columns 'kind,payload', payload 'false') "
        "COMMENT 'what was captured'"
    )
    frame = spark.table(tables[2])
    assert frame.columns == ["kind", "payload"]
    assert (frame.count(), frame.where("payload IS NOT NULL").count()) == (len(truth), 0)


def test_a_table_that_keeps_no_options_says_what_to_do(spark: SparkSession, folder: Path, tables: Any) -> None:
    """Spark gives a Python source no options when a table is read, and declared columns leave no place to keep them."""
    spark.sql(f"CREATE TABLE {tables[0]} (kind string) USING wirefmt OPTIONS (path '{folder}')")
    with pytest.raises(Exception, match="without column definitions"):
        spark.table(tables[0]).count()
    assert spark.sql(f"SELECT kind FROM {tables[0]} WITH (path = '{folder}')").count() > 500


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("protocols", "mqqt", "no protocol 'mqqt'; did you mean mqtt"),
        ("decodeAs", "tcp.port==1884,mqqt", "no protocol 'mqqt'; did you mean mqtt"),
        ("limits", '{"max_flow": 3}', "no limit 'max_flow'; did you mean max_flows"),
        ("ports", "1883", "option ports: only the packets table is limited to ports"),
    ],
)
def test_wrong_options_fail_before_any_task(
    spark: SparkSession, folder: Path, option: str, value: Any, says: str
) -> None:
    with pytest.raises(Exception, match=says):
        load(spark, folder, **{option: value})


def test_capture_without_packets(spark: SparkSession, tmp_path: Path) -> None:
    header, _ = records(live(CAPTURES[0]))
    (tmp_path / "empty.pcap").write_bytes(header)
    assert load(spark, tmp_path).count() == 0


def test_corrupt_captures_give_error_rows(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    whole = (folder / CAPTURES[0]).read_bytes()
    middle = len(whole) // 2
    (tmp_path / "cut.pcap").write_bytes(whole[:-7])
    (tmp_path / "hole.pcap").write_bytes(whole[:middle] + bytes(3000) + whole[middle + 3000 :])
    (tmp_path / "noise.pcap").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "nothing.pcap").write_bytes(b"")
    shutil.copyfile(folder / CAPTURES[1], tmp_path / "good.pcap")
    frame = load(spark, tmp_path).cache()
    expected = one_process(sorted(tmp_path.glob("*.pcap")))
    assert rows(frame.toArrow()) == expected
    faulty = {Path(r.capture).name for r in frame.where("status <> 'ok' AND error IS NOT NULL").collect()}
    assert {"cut.pcap", "hole.pcap", "noise.pcap"} <= faulty
    assert frame.where("capture LIKE '%good.pcap' AND status = 'ok'").count() > 50
    frame.unpersist()
