"""Operations and connections do not depend on how a capture is read."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

import pyarrow as pa

from lib.truth import FOLDER, NAMES, tables_of
from wirefmt import capture, insight, mqtt
from wirefmt.spec.insight import CONNECTIONS, OPERATIONS, TABLES

#: Captures of several connections, of each protocol.
SOME = ("amqp-tx", "amqp10-outcomes", "mqtt-resume", "mqtt-takeover", "nsq-trouble", "rocketmq-talk", "crossing")


def sorted_rows(name: str, **options: Any) -> dict[str, list[str]]:
    return {
        table: sorted(map(repr, rows))
        for table, rows in tables_of(name, "connections", "operations", **options).items()
    }


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize(
    "options", [{"batch_rows": 1}, {"batch_rows": 7}, {"threads": 3}, {"threads": 2, "batch_rows": 1}], ids=str
)
def test_batches_and_threads(name: str, options: dict[str, Any]) -> None:
    assert sorted_rows(name, **options) == sorted_rows(name)


@pytest.mark.parametrize("name", SOME)
def test_one_table_alone_has_the_rows_of_all(name: str) -> None:
    for table, rows in sorted_rows(name).items():
        alone = pa.table(capture.read(FOLDER / f"{name}.pcap.gz", table=table)).to_pylist()
        assert sorted(map(repr, alone)) == rows


@pytest.mark.parametrize("name", NAMES)
def test_slices_have_all_operations(name: str) -> None:
    """Each connection is in one slice. What depends on another connection of the client needs both in one slice."""
    whole = tables_of(name, "operations")["operations"]
    parts = [row for i in range(3) for row in tables_of(name, "operations", slice=(i, 3))["operations"]]
    for row in whole + parts:
        row["resumed_from"] = None
    assert sorted(map(repr, parts)) == sorted(map(repr, whole))


def test_a_stored_message_table_gives_the_same_operations(tmp_path: Any) -> None:
    """Without the capture nothing is known of TCP."""
    made = insight.Tables(("operations", "connections"))
    rows: dict[str, list[dict[str, Any]]] = {"operations": [], "connections": []}
    with capture.read(FOLDER / "amqp-acks.pcap.gz") as reader:
        for batch in reader:
            for table, answer in made.messages(batch):
                rows[table] += pa.table(answer).to_pylist()
    for table, answer in made.finish():
        rows[table] += pa.table(answer).to_pylist()
    assert sorted(map(repr, rows["operations"])) == sorted_rows("amqp-acks")["operations"]
    assert {row["reason"] for row in rows["connections"]} == {"orderly"}
    assert {row["how"] for row in rows["connections"]} == {None}


@pytest.mark.parametrize("table", ["connections", "operations"])
def test_columns_and_filter(table: str) -> None:
    path = FOLDER / "amqp-acks.pcap.gz"
    assert pa.table(capture.read(path, table=table)).column_names == [column.name for column in TABLES[table]]
    some = pa.table(capture.read(path, table=table, columns=["client_port", "protocol"], filter="port == 36516"))
    assert some.column_names == ["client_port", "protocol"]
    assert set(some["client_port"].to_pylist()) == {36516}
    with pytest.raises(ValueError, match="no column 'reasons'"):
        capture.read(path, table=table, columns=["reasons"])
    with pytest.raises(ValueError, match="no column"):
        capture.read(path, table=table, filter="payload_sise > 3")


def test_a_table_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="table must be"):
        capture.read(FOLDER / "amqp-acks.pcap.gz", table="operation")
    with pytest.raises(ValueError, match="table must be"):
        list(capture.read_tables(FOLDER / "amqp-acks.pcap.gz", ["operation"]))


def test_other_batches_are_refused() -> None:
    """The engine reads columns by their place: a batch of other columns must not reach it."""
    engine = insight.Insight()
    other = mqtt.decode_batch(b"\xc0\0")
    for read in (engine.messages, engine.transport):
        with pytest.raises(ValueError, match="table"):
            read(other)
    with (
        capture.read(FOLDER / "amqp-acks.pcap.gz", columns=["ts"]) as reader,
        pytest.raises(ValueError, match="all its columns"),
    ):
        engine.messages(next(reader))


def test_the_oldest_open_operations_end_if_there_are_too_many() -> None:
    engine = insight.Insight(max_operations=3)
    with capture.read(FOLDER / "amqp-acks.pcap.gz") as reader:
        for batch in reader:
            engine.messages(batch)
    assert engine.stats["open_operations"] <= 3
    assert engine.stats["operations_evicted"] > 50
    engine.finish()
    outcomes = pa.table(engine.take_operations())["outcome"].to_pylist()
    assert outcomes.count("unanswered") >= engine.stats["operations_evicted"]
    assert engine.stats["buffered"] == 0


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        insight.Insight(max_operations=0)


def test_every_column_says_what_it_is() -> None:
    without = {column.name for column in (*CONNECTIONS, *OPERATIONS) if not column.meaning}
    assert without <= {
        "client_ip",
        "client_port",
        "server_ip",
        "server_port",
        "protocol",
        "routing_key",
        "message_id",
        "correlation_id",
        "reply_to",
    }
