"""Spark's side without Spark's JVM: schema, options, paths, plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

from pyspark.sql.types import StructType

from lib.captures import live
from lib.spark_captures import one_process, records, rows
from pyspark_wirefmt import packets, plan, schema
from pyspark_wirefmt.options import Options, take_paths
from wirefmt.capture import files
from wirefmt.capture.files import CaptureFile
from wirefmt.spec.table import COLUMNS


def spark_arrow(struct: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(struct, timezone="UTC")


# --- schema


def test_spark_sees_the_cores_arrow_schema() -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
    from wirefmt import capture

    assert spark_arrow(schema.message_schema()).equals(pa.schema(capture.Schema()))


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("boolean", "boolean"),
        ("int8", "tinyint"),
        ("int16", "smallint"),
        ("int32", "int"),
        ("int64", "bigint"),
        ("binary", "binary"),
        ("timestamp", "timestamp"),
        ("list<int16>", "array<smallint>"),
        ("map<string,string>", "map<string,string>"),
        ("struct<a:int8,b:list<struct<c:string>>,d:map<string,string>>",
         "struct<a:tinyint,b:array<struct<c:string>>,d:map<string,string>>"),
    ],
)  # fmt: skip
def test_types(text: str, spark: str) -> None:
    assert schema.spark_type(text).simpleString() == spark


def test_every_column_once_and_in_order() -> None:
    assert schema.message_schema().names == [c.name for c in COLUMNS]


def test_projection_takes_any_order() -> None:
    asked = schema.message_schema(["qos", "ts", "mqtt"])
    assert schema.projection(Options(), asked) == ["qos", "ts", "mqtt"]


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("nothing string", "no column 'nothing'"),
        ("qos int", "'qos' is declared int but is tinyint"),
        ("headers map<string,binary>", "'headers' is declared map<string,binary> but is map<string,string>"),
        ("qos tinyint, qos tinyint", "twice"),
        ("qos tinyint not null", "NOT NULL"),
    ],
)
def test_projection_refuses(ddl: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        schema.projection(Options(), parse_ddl(ddl))


def parse_ddl(text: str) -> StructType:
    """Enough of DDL for these tests without a JVM (Spark parses DDL there)."""
    from pyspark.sql.types import BinaryType as Binary
    from pyspark.sql.types import ByteType, IntegerType, MapType, StringType, StructField

    types = {
        "string": StringType(),
        "int": IntegerType(),
        "tinyint": ByteType(),
        "map<string,binary>": MapType(StringType(), Binary()),
    }
    fields = [part.split() for part in text.split(", ")]
    return StructType([StructField(f[0], types[f[1]], len(f) == 2) for f in fields])


def test_no_column_is_refused() -> None:
    with pytest.raises(ValueError, match="no column"):
        schema.message_schema([])


# --- options


def test_names_ignore_case_and_underscores() -> None:
    assert Options.parse({"PAYLOADMAX": "10", "payload": "FALSE"}) == Options(payload_max=10, payload=False)
    assert Options.parse({"payload_max": 10, "payload": False}) == Options(payload_max=10, payload=False)


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("protocols", "mqtt, amqp091", ("mqtt", "amqp091")),
        ("protocols", ["mqtt"], ("mqtt",)),
        ("decode_as", "tcp.port==1884,mqtt; tcp.port==1885,mqtt", ("tcp.port==1884,mqtt", "tcp.port==1885,mqtt")),
        ("split_size", "2k", 2048),
        ("split_size", "1.5MB", 1536 << 10),
        ("split_size", 77, 77),
        ("flows", "across-files", "across-files"),
        ("settle", "2.5", 2.5),
        ("columns", "ts,qos", ("ts", "qos")),
        ("limits", '{"max_flows": 3}', {"max_flows": 3}),
    ],
)
def test_values(name: str, value: Any, parsed: Any) -> None:
    assert getattr(Options.parse({name: value}), name) == parsed


def test_ports_of_the_packets_table() -> None:
    assert Options.parse({"ports": "1883,8883", "table": "packets"}).ports == (1883, 8883)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"colums": "ts"}, "no option 'colums'; did you mean columns"),
        ({"payload": "perhaps"}, "option payload = 'perhaps': must be true or false"),
        ({"flows": "some"}, "must be auto or in-file or across-files"),
        ({"split_size": "0"}, "must be at least 1"),
        ({"split_size": "many"}, "option split_size = 'many'"),
        ({"batch_rows": None, "strictness": "mild"}, "must be lax or strict"),
        ({"protocols": "mqqt"}, "no protocol 'mqqt'; did you mean mqtt?"),
        ({"protocols": "kafka"}, "no protocol 'kafka'; there are mqtt, "),
        ({"decode_as": "tcp.port==1884,mqqt"}, "no protocol 'mqqt'; did you mean mqtt?"),
        ({"decode_as": "port 1884"}, "decode_as must be like"),
        ({"limits": '{"max_flow": 3}'}, "no limit 'max_flow'; did you mean max_flows"),
        ({"limits": '{"max_flows": 0}'}, "limit max_flows must be at least 1"),
        ({"limits": '{"max_flows": "3"}'}, "option limits = .*: must be an object of numbers"),
        ({"limits": "3"}, "option limits = '3': must be an object of numbers"),
        ({"limits": "{"}, "option limits = '{': must be an object of numbers"),
        ({"convert_to": "amqp1"}, "must be amqp10 or amqp091 or mqtt5"),
        ({"convert_to": "amqp10", "dialect": "rabbit"}, "option dialect = 'rabbit'"),
        ({"convert_to": "amqp10", "table": "packets"}, "only the message table"),
        ({"filter": "qos == 1", "table": "packets"}, "option filter: only the message table"),
        ({"ports": "1883"}, "option ports: only the packets table"),
        ({"filter": "qso == 1"}, "no column 'qso'; did you mean qos"),
        ({"filter": "kind == 1"}, "string cannot be compared with 1"),
    ],
)
def test_values_refused(given: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Options.parse(given)


def test_options_of_captures_are_handed_on() -> None:
    from wirefmt import capture

    text = "kind == 'PUBLISH'"
    chosen = Options.parse(
        {"payload_max": "1k", "flows": "across-files", "detail": "true", "columns": "kind", "filter": text}
    )
    given: dict[str, Any] = {
        "payload_max": 1024,
        "flows": "across-files",
        "detail": True,
        "columns": ["ts"],
        "filter": text,
    }
    assert chosen.reading(["ts"]) == capture.Options(**given, raw=False)
    assert chosen.reading(["ts"], slice=(1, 2)) == capture.Options(**given, raw=False, slice=(1, 2))
    with pytest.raises(ValueError, match="no option 'slice'"):
        Options.parse({"slice": "1"})


def test_a_column_on_request_is_filled_where_it_is_named() -> None:
    assert (Options().raw, Options().detail) == (False, False)
    assert (Options(columns=("raw",)).raw, Options(columns=("raw",)).detail) == (True, False)
    assert Options().reading(["raw", "detail"]).raw is False  # the columns of a default schema ask for nothing
    assert Options().filling(["raw"]).reading(["raw", "detail"]).raw is True


def test_paths_are_parted_from_options() -> None:
    paths, catalog, rest = take_paths({"path": "a.pcap,b.pcap", "payload": "false"})
    assert (paths, catalog, rest) == (["a.pcap", "b.pcap"], False, {"payload": "false"})
    assert take_paths({"paths": json.dumps(["x,y.pcap", "z.pcap"])})[0] == ["x,y.pcap", "z.pcap"]


def test_what_the_catalog_adds_is_no_option() -> None:
    """The options that Spark 4.3 gives for CREATE TABLE t USING wirefmt OPTIONS (path 'a.pcap', payload 'false')."""
    given = {
        "owner": "me", "path": "a.pcap", "location": "a.pcap", "provider": "wirefmt",
        "payload": "false", "option.payload": "false",
    }  # fmt: skip
    assert take_paths(given) == (["a.pcap"], True, {"payload": "false"})


# --- paths


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.pcap10", "b.pcap", "b.pcap2", "a.pcapng.gz", "notes.txt", "_SUCCESS", ".hidden.pcap", "in/c.cap"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(len(name)))
    return tmp_path


def names(found: list[CaptureFile], folder: Path) -> list[str]:
    return [str(Path(f.name).relative_to(folder)) for f in found]


def test_directory(folder: Path) -> None:
    assert names(files.expand([str(folder)]), folder) == ["a.pcapng.gz", "b.pcap", "b.pcap2", "b.pcap10"]


def test_directory_with_what_is_below(folder: Path) -> None:
    assert "in/c.cap" in names(files.expand([str(folder)], recursive=True), folder)


def test_glob_sorts_numbers_as_numbers(folder: Path) -> None:
    assert names(files.expand([f"{folder}/b.*"]), folder) == ["b.pcap", "b.pcap2", "b.pcap10"]


def test_order_given_is_kept_and_no_file_comes_twice(folder: Path) -> None:
    given = [f"{folder}/b.pcap2", str(folder), f"file://{folder}/b.pcap"]
    assert names(files.expand(given), folder) == ["b.pcap2", "a.pcapng.gz", "b.pcap", "b.pcap10"]


def test_a_named_file_needs_no_suffix(folder: Path) -> None:
    assert files.expand([f"{folder}/notes.txt"])[0].size == len("notes.txt")


def test_nothing_there(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no capture at"):
        files.expand([f"{folder}/none*.pcap"])
    assert files.expand([f"{folder}/none*.pcap"], missing_ok=True) == []


def test_a_directory_without_captures(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"none")
    with pytest.raises(FileNotFoundError, match="no capture in"):
        files.expand([str(tmp_path)])
    assert files.expand([str(tmp_path)], missing_ok=True) == []


def test_urls(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install fsspec)")
    store = fsspec.filesystem("memory")
    for name in ("one.pcap", "two.pcap"):
        store.pipe(f"/planned/{name}", b"1234")
    try:
        found = files.expand(["memory://planned/*.pcap"])
        assert [(f.name, f.size) for f in found] == [
            ("memory:///planned/one.pcap", 4),
            ("memory:///planned/two.pcap", 4),
        ]
        assert files.expand(["memory://planned"]) == found
        with pytest.raises(FileNotFoundError):
            files.expand(["memory://planned/three.pcap"])
    finally:
        store.rm("/planned", recursive=True)


# --- plans


def captures(*sizes: int) -> list[CaptureFile]:
    return [CaptureFile(f"/{n}.pcap", size) for n, size in enumerate(sizes)]


def test_small_captures_share_a_task() -> None:
    assert [t.names for t in plan.tasks(captures(1, 1, 40 << 20, 1), Options())] == [
        ("/0.pcap", "/1.pcap"),
        ("/2.pcap",),
        ("/3.pcap",),
    ]


def test_a_large_capture_is_dealt_out_by_flows() -> None:
    assert [(t.part, t.parts) for t in plan.tasks(captures(1 << 30), Options())] == [(n, 4) for n in range(4)]
    assert len(plan.tasks(captures(1 << 40), Options(max_slices=3))) == 3
    assert len(plan.tasks(captures(1000), Options(partitions=2))) == 2
    # each slice walks the whole capture, also where there are 200 cores
    assert len(plan.tasks(captures(1 << 40), Options(partitions=200))) == 8
    assert len(plan.tasks(captures(1 << 40), Options(partitions=200, max_slices=20))) == 20


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
@pytest.mark.parametrize("sizes", [[100] * 2000, [10, 400_000, 3 << 20] * 500, [1 << 20] * 64])
def test_partitions_is_the_number_of_tasks_for_small_captures(sizes: Any, partitions: int) -> None:
    for table in ("messages", "packets"):
        options = Options(partitions=partitions, table=table)
        works_of = (
            plan.tasks(captures(*sizes), options) if table == "messages" else packets.tasks(captures(*sizes), options)
        )
        assert partitions // 2 < len(works_of) <= partitions
    names = [name for task in plan.tasks(captures(*sizes), options) for name in task.names]
    assert names == [capture.name for capture in captures(*sizes)]


def test_partitions_with_large_and_small_captures() -> None:
    made = plan.tasks(captures(*[1000] * 100, 1 << 30, *[1000] * 100), Options(partitions=8))
    assert len(made) <= 8 + 2  # the small captures on each side have a task of their own
    assert sum(len(task.names) for task in made if task.part == 0) == 201


def test_rotated_captures_stay_together() -> None:
    made = plan.tasks(captures(10, 10, 10), Options(flows="across-files", split_size=15))
    assert [(t.names, t.part, t.parts) for t in made] == [(("/0.pcap", "/1.pcap", "/2.pcap"), n, 2) for n in range(2)]


def test_nothing_to_do() -> None:
    assert plan.tasks([], Options()) == plan.tasks([], Options(flows="across-files")) == []


@pytest.mark.parametrize("how", ["slices", "whole", "ranges", "counted", "follow"])
def test_a_capture_that_grows_ends_where_it_was_planned(tmp_path: Path, how: Any) -> None:
    """Every task, and every attempt of a task, sees the bytes that were there when the tasks were planned."""
    path = tmp_path / "growing.pcap"
    header, every = records(live("mosquitto-paho-v5.pcap"))
    path.write_bytes(header + b"".join(every[:100]))
    expected = one_process(path, columns=("frame_no", "kind"))
    table = "packets" if how in ("ranges", "counted") else "messages"
    columns = ["frame_no"] if table == "packets" else ["frame_no", "kind"]
    options = Options(
        table=table, partitions={"slices": 3, "follow": 2}.get(how), split_size=2000 if table == "packets" else 256 << 20,
        flows="across-files" if how == "follow" else "in-file",
    )  # fmt: skip
    found = files.expand([str(path)])
    made: Any = packets.tasks(found, options) if table == "packets" else plan.tasks(found, options)
    if how == "follow":
        made = plan.following([], found, options)
    grown: list[Any] = []
    for n, task in enumerate(made):
        path.write_bytes(header + b"".join(every[: 130 + 30 * n]))
        if how == "counted":
            grown += [packets.count(piece, options)["frames"] for piece in task.pieces]
        elif how == "ranges":
            grown += [row for batch in packets.scan(task, options, columns) for row in batch.column(0).to_pylist()]
        else:
            decode: Any = plan.follow if how == "follow" else plan.decode
            grown += [row for batch in decode(task, options, columns) for row in rows([batch])]
    if how == "counted":
        assert sum(grown) == 100
        assert len(grown) > 3
    elif how == "ranges":
        assert grown
        assert max(grown) <= 100
    else:
        assert sorted(grown) == expected
