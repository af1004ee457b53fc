"""The command line, as a user meets it: formats, filters, inputs, exit codes, terminals, pipes.

Numbers of messages are those that other decoders found in the samples (samples/README.md).
"""

from __future__ import annotations

import base64
import bz2
import contextlib
import csv
import fcntl
import gc
import gzip
import inspect
import io
import itertools
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.captures import row_of
from lib.paths import DATA, ROOT
from lib.vlan import tagged
from lib.wire import Tcp, connack, connect, packet, pcap, publish, string

pytest.importorskip("rich_click", reason="needs rich-click (pip install 'wirefmt[cli]')")

from click.shell_completion import ShellComplete
from rich.cells import cell_len

from wirefmt import capture
from wirefmt.batch import csv_lines
from wirefmt.batch import json_lines as json_lines_of
from wirefmt.cli.app import run
from wirefmt.cli.app import wirefmt as wirefmt_group
from wirefmt.cli.output import FORMATS, format_of, open_writer
from wirefmt.cli.summary import BINS, DISTINCT, Counts, Histogram
from wirefmt.cli.table import show_table
from wirefmt.cli.text import cell, octets_for_json, printable
from wirefmt.convert.table import convert_table, converted_field
from wirefmt.spec.filter import Filter, FilterError
from wirefmt.spec.table import COLUMNS

SAMPLES = ROOT / "samples"
read = capture.read
V5 = SAMPLES / "mosquitto-paho-v5.pcap"
COMMAND = [sys.executable, "-m", "wirefmt.cli"]


def told_by_readme() -> dict[str, int]:
    rows = re.findall(r"^\| (\S+) \|.*\| (\d+) \|$", (SAMPLES / "README.md").read_text(), re.M)
    return {name: int(number) for name, number in rows}


COUNTS = told_by_readme()


@pytest.fixture
def wirefmt(capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    """Runs a command here: (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, bytes, str]:
        sys.stdout.flush()
        capfdbinary.readouterr()
        code = run([str(a) for a in arguments])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return call


@pytest.fixture(scope="module")
def v5() -> pa.Table:
    """The sample as the reader itself gives it."""
    with capture.read(V5) as reader:
        return pa.table(reader)


def json_lines(octets: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in octets.decode().splitlines()]


# ---- formats


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_every_sample_has_as_many_messages_as_other_decoders_found(
    wirefmt: Callable[..., Any], name: str, count: int
) -> None:
    code, out, err = wirefmt("decode", SAMPLES / name, "--format", "jsonl")
    rows = json_lines(out)
    assert (code, err) == (0, "")
    assert sum("kind" in row for row in rows) == count


def test_kinds_are_those_of_tshark(wirefmt: Callable[..., Any]) -> None:
    kinds = row_of(V5.name)["message_types"]
    _, out, _ = wirefmt("summary", V5, "--json")
    told = json.loads(out)
    assert {f"mqtt/{row['kind']}": row["messages"] for row in told["kinds"]} == kinds
    assert told["messages"] == sum(kinds.values())


def test_parquet_and_arrow_files_hold_the_readers_table(wirefmt: Callable[..., Any], tmp_path: Path, v5: Any) -> None:
    for name, read in (
        ("m.parquet", pyarrow.parquet.read_table),
        ("m.arrow", lambda p: pyarrow.ipc.open_file(p).read_all()),
        ("m.feather", lambda p: pyarrow.ipc.open_file(p).read_all()),
    ):
        assert wirefmt("decode", V5, "-o", tmp_path / name) == (0, b"", "")
        assert read(tmp_path / name).equals(v5), name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.arrow", "m.feather", "m.parquet"]  # no .part


def test_arrow_on_a_pipe_is_a_stream(wirefmt: Callable[..., Any], v5: Any) -> None:
    _, out, _ = wirefmt("decode", V5, "--format", "arrow")
    assert pa.ipc.open_stream(out).read_all().equals(v5)


def test_parquet_on_a_pipe(wirefmt: Callable[..., Any], v5: Any) -> None:
    _, out, _ = wirefmt("decode", V5, "--format", "parquet")
    assert pa.parquet.read_table(io.BytesIO(out)).equals(v5)


def test_json_lines_say_the_same_as_the_table(wirefmt: Callable[..., Any], v5: Any) -> None:
    _, out, _ = wirefmt("decode", V5, "--format", "jsonl")
    rows = json_lines(out)
    expected = v5.to_pylist()
    assert len(rows) == len(expected)
    for row, want in zip(rows, expected, strict=True):
        assert set(row) == {name for name, value in want.items() if value is not None}
        assert datetime.fromisoformat(row["ts"]) == want["ts"]
        assert _octets(row.get("payload")) == want["payload"]
        assert [tuple(pair) for pair in row.get("headers", [])] == (want["headers"] or [])
        for name in ("kind", "destination", "qos", "frame_no", "sequence", "status"):
            assert row.get(name) == want[name]
        mqtt = {k: v for k, v in want["mqtt"].items() if v is not None}
        assert set(row["mqtt"]) == set(mqtt)
        for name, value in mqtt.items():
            told = row["mqtt"][name]
            assert (_octets(told) if isinstance(value, bytes) else told) == (
                [list(pair) for pair in value] if name == "will_properties" else value
            )


def _octets(value: Any) -> bytes | None:
    if value is None:
        return None
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


def test_csv_says_the_same_as_the_table(wirefmt: Callable[..., Any], v5: Any) -> None:
    _, out, _ = wirefmt("decode", V5, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out.decode(), newline="")))
    assert len(rows) == v5.num_rows
    for row, want in zip(rows, v5.to_pylist(), strict=True):
        assert row["destination"] == (want["destination"] or "")
        payload = row["payload"]
        octets = base64.b64decode(payload[7:]) if payload.startswith("base64:") else payload.encode()
        assert octets == (want["payload"] or b"")
        assert row["mqtt.retain"] == {True: "true", False: "false", None: ""}[want["mqtt"]["retain"]]
        assert json.loads(row["headers"] or "null") == ([list(p) for p in want["headers"]] if want["headers"] else None)


def one_of(kind: pa.DataType) -> list[Any]:
    """Values of a type, the difficult ones among them."""
    if pa.types.is_struct(kind):
        fields = [(kind.field(i).name, one_of(kind.field(i).type)) for i in range(kind.num_fields)]
        return [{name: values[n % len(values)] for name, values in fields} for n in range(4)] + [None]
    if pa.types.is_map(kind):
        return [[("k", "v"), ("k", "=1\x9b")], [], None]
    if pa.types.is_list(kind):
        of = [v for v in one_of(kind.value_type) if v is not None]
        return [of, [], of[:1], None]
    if pa.types.is_binary(kind):
        return [b"\xff\x00", b"text", b"base64:", b"", None]
    if pa.types.is_string(kind):
        return ["plain", '\x1b[31m\u202e\x9b\x7f\n"', "=1+1", "", None]
    if pa.types.is_boolean(kind):
        return [True, False, None]
    return [datetime(2026, 1, 2, 3, 4, 5, 678)] if pa.types.is_timestamp(kind) else [5, 0, None]


@pytest.fixture(scope="module")
def every_type() -> pa.RecordBatch:
    """Rows with values in every column of the message table, and in the one that conversion adds."""
    schema = pa.schema(capture.read(V5).schema).append(converted_field())
    values = [one_of(field.type) for field in schema]
    columns = [pa.array([of[n % len(of)] for n in range(12)], f.type) for of, f in zip(values, schema, strict=True)]
    return pa.record_batch(columns, schema=schema)


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_column_is_written_in_every_format(every_type: Any, tmp_path: Path, fmt: str) -> None:
    out = tmp_path / "out"
    with open_writer(str(out), fmt, every_type.schema) as writer:
        writer.write(every_type)
    said = out.read_bytes()
    rows = every_type.to_pylist()
    if fmt == "jsonl":
        for line, row in zip(json_lines(said), rows, strict=True):
            assert set(line) == {name for name, value in row.items() if value is not None}
            bodies = (row["nsq"] or {}).get("bodies")
            assert bodies is None or [_octets(v) for v in line["nsq"]["bodies"]] == bodies
    elif fmt == "csv":
        for line, row in zip(csv.DictReader(io.StringIO(said.decode(), newline="")), rows, strict=True):
            bodies = (row["nsq"] or {}).get("bodies")
            told = json.loads(line["nsq.bodies"] or "null")
            assert bodies is None or [_octets(v) for v in told] == bodies
            assert line["destination"] == (row["destination"] or "")
    elif fmt == "table":
        assert said.count(b"\n") >= len(rows)
    else:
        assert read_back(fmt, said).to_pylist() == rows


def read_back(fmt: str, octets: bytes) -> pa.Table:
    source = io.BytesIO(octets)
    return pa.parquet.read_table(source) if fmt == "parquet" else pa.ipc.open_file(source).read_all()


@pytest.mark.parametrize("fmt", ["table", "jsonl", "csv"])
def test_a_terminal_gets_nothing_that_controls_it(every_type: Any, fmt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.BytesIO):
        buffer = property(lambda self: self)
        isatty = staticmethod(lambda: True)

    sink = Terminal()
    monkeypatch.setattr(sys, "stdout", sink)
    monkeypatch.setenv("NO_COLOR", "1")
    writer = FORMATS[fmt].writer(sink, every_type.schema)
    writer.write(every_type)
    writer.close()
    monkeypatch.undo()
    text = sink.getvalue().decode()
    assert all(line.isprintable() for line in text.split("\n")), fmt
    if fmt == "jsonl":
        assert [row.get("kind") for row in map(json.loads, text.splitlines())] == every_type["kind"].to_pylist()


def test_formulas_in_csv_are_marked_on_request(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    texts = ["=cmd|'/C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", "-21.5", "+7", "21.5", "a=b", ""]
    tcp = Tcp()
    packets = [
        *tcp.open(),
        *tcp.send(0, connect("=c")),
        *(p for t in texts for p in tcp.send(0, publish("t", t.encode()))),
    ]
    (tmp_path / "f.pcap").write_bytes(pcap(packets))
    command = ("decode", tmp_path / "f.pcap", "--columns", "client_id,payload", "--filter", "kind == 'PUBLISH'")
    for option, marked in (("--mark-formulas", texts[:5]), (None, [])):
        _, out, _ = wirefmt(*command, "--format", "csv", *([option] if option else []))
        rows = list(csv.DictReader(io.StringIO(out.decode(), newline="")))
        assert [row["payload"] for row in rows] == [f"'{t}" if t in marked else t for t in texts]
        assert {row["client_id"] for row in rows} == {"'=c" if option else "=c"}
    code, _, err = wirefmt(*command, "--mark-formulas")
    assert (code, "--mark-formulas is for CSV" in err) == (2, True)


def one_cell(octets: bytes) -> pa.RecordBatch:
    return pa.record_batch({"payload": pa.array([octets], pa.binary())})


def octets_for_csv(octets: bytes) -> str:
    return next(csv.reader(io.StringIO(csv_lines(one_cell(octets), header=False).decode(), newline="")))[0]


@given(st.binary(max_size=40))
def test_octets_as_text_can_be_read_back(octets: bytes) -> None:
    assert _octets(json.loads(json.dumps(octets_for_json(octets)))) == octets
    assert json.loads(json_lines_of(one_cell(octets))) == {"payload": octets_for_json(octets)}
    text = octets_for_csv(octets)
    assert (base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()) == octets


@given(st.text(max_size=40))
def test_text_that_looks_like_base64_in_csv_is_not_taken_for_it(text: str) -> None:
    told = octets_for_csv(("base64:" + text).encode())
    assert base64.b64decode(told[7:]).decode() == "base64:" + text


@pytest.mark.parametrize(
    ("out", "asked", "expected"),
    [
        (None, None, "table"), (None, "csv", "csv"), ("a.parquet", None, "parquet"), ("A.JSONL.GZ", None, "jsonl"),
        ("a.csv.zst", None, "csv"), ("s3://b/a.arrow", None, "arrow"), ("a.txt", "jsonl", "jsonl"),
    ],
)  # fmt: skip
def test_the_suffix_says_the_format(out: Any, asked: Any, expected: Any) -> None:
    assert format_of(out, asked) == expected


def test_compressed_output(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    wirefmt("decode", V5, "-o", tmp_path / "m.jsonl.gz")
    wirefmt("decode", V5, "-o", tmp_path / "m.csv.zst")
    assert len(gzip.decompress((tmp_path / "m.jsonl.gz").read_bytes()).splitlines()) == COUNTS[V5.name]
    with pa.input_stream(str(tmp_path / "m.csv.zst"), compression="zstd") as stream:
        assert stream.read(5) == b'"ts",'


def test_output_to_a_url(wirefmt: Callable[..., Any], v5: Any) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install fsspec)")
    wirefmt("decode", V5, "-o", "memory://out/m.parquet")
    assert pa.parquet.read_table(fsspec.filesystem("memory").open("/out/m.parquet")).equals(v5)


# ---- columns, payloads, limits


def test_columns_come_in_the_order_asked_for(wirefmt: Callable[..., Any]) -> None:
    _, out, _ = wirefmt("decode", V5, "--columns", "kind, destination,ts", "--format", "csv", "-n", 3)
    lines = out.decode().splitlines()
    assert lines[0] == '"kind","destination","ts"'
    assert len(lines) == 4


def test_a_filter_may_use_a_column_that_is_not_shown(wirefmt: Callable[..., Any]) -> None:
    _, out, _ = wirefmt("decode", V5, "--columns", "destination", "--filter", "kind == 'PUBLISH'", "--format", "jsonl")
    rows = json_lines(out)
    assert len(rows) == 293  # tshark's count of PUBLISH
    assert all(set(row) <= {"destination"} for row in rows)


@pytest.mark.parametrize("limit", [0, 1, 7, 10_000])
def test_limit(wirefmt: Callable[..., Any], limit: Any) -> None:
    _, out, _ = wirefmt("decode", V5, "-n", limit, "--format", "jsonl")
    assert len(out.splitlines()) == min(limit, COUNTS[V5.name])


def test_the_limit_counts_what_the_filter_keeps(wirefmt: Callable[..., Any]) -> None:
    _, out, _ = wirefmt("decode", V5, "-n", 5, "--filter", "kind == 'PUBACK'", "--format", "jsonl")
    assert [row["kind"] for row in json_lines(out)] == ["PUBACK"] * 5


def test_payload_left_out_or_cut(wirefmt: Callable[..., Any], v5: Any) -> None:
    _, out, _ = wirefmt("decode", V5, "--no-payload", "--format", "jsonl")
    rows = json_lines(out)
    assert not any("payload" in row for row in rows)
    sizes = [row.get("payload_size") for row in rows]
    assert sizes == v5["payload_size"].to_pylist()
    assert max(size or 0 for size in sizes) > 3
    _, out, _ = wirefmt("decode", V5, "--payload-max", 3, "--format", "jsonl")
    for row, whole in zip(json_lines(out), v5["payload"].to_pylist(), strict=True):
        assert _octets(row.get("payload")) == (None if whole is None else whole[:3])
        assert row.get("payload_size") == (None if whole is None else len(whole))


def test_credentials_are_shown_only_when_asked_for(wirefmt: Callable[..., Any]) -> None:
    def passwords(*more: str) -> set[str | None]:
        _, out, _ = wirefmt("decode", SAMPLES, "--filter", "kind == 'CONNECT'", "--format", "jsonl", *more)
        return {json.dumps(row["mqtt"].get("password")) for row in json_lines(out)}

    assert passwords() == {"null"}
    assert len(passwords("--expose-credentials")) > 1


# ---- filters


KEEPS = [
    "qos >= 1",
    "qos >= 1 and kind == 'PUBLISH' and destination.startswith('t')",
    "kind in ('PUBACK', 'PUBREC') or qos == 2",
    "not (kind == 'PUBLISH')",
    "kind != 'PUBLISH' and kind != 'PUBACK'",
    "kind not in ('PUBLISH',)",
    "0 < qos <= 1",
    "sequence + 1 == 3",
    "sequence * 2 - 1 > 20",
    "payload_size > 100",
    "len(payload) > 100",
    "len(destination) == 12",
    "'/' in destination",
    "destination.endswith('e')",
    "direction == 0 and kind == 'PUBLISH'",
    "error is None",
    "destination is not None",
    "client_id is None",
    "wire_size >= 4 and wire_size < 10",
    "ts >= '2020-01-01' and ts < '2100-01-01T00:00:00+02:00'",
    "ts < '2020-01-01'",
    "payload == b''",
    "payload_size == -1",
    "qos in (1, 300)",
    "qos in [1e400]",
    "qos in (1.0, 1.5, -1e400)",
    "True",
    "kind == 'PUBLISH' or False",
    "'PUBLISH' == kind",
    "2 > qos",
]


@pytest.mark.parametrize("text", KEEPS)
def test_filters_keep_what_python_would(wirefmt: Callable[..., Any], text: str, v5: Any) -> None:
    """The oracle is Python's own eval, row by row, over the columns used; a row with a null in one is left out, as
    long as the filter has no `or`, `not` or `is` (those are in the table of nulls below)."""
    keep = Filter(text).compile(v5.schema)
    got = v5.filter(keep)["frame_no"].to_pylist()

    class Text(str):
        contains = str.__contains__

    def value(x: object) -> object:
        return Text(x) if isinstance(x, str) else x

    python = re.sub(r"'(\d{4}-[^']*)'", r"when('\1')", text)

    def when(t: str) -> datetime:
        found = datetime.fromisoformat(t)
        return found if found.tzinfo else found.replace(tzinfo=v5["ts"][0].as_py().tzinfo)

    expected = []
    for row in v5.to_pylist():
        names = {name: value(row[name]) for name in Filter(text).columns}
        null = " is " not in text and None in names.values()
        if null and " or " not in text:
            continue
        try:
            kept = eval(python, {"__builtins__": {"len": len}, "when": when}, names)
        except TypeError:  # a null in a comparison
            continue
        if kept:
            expected.append(row["frame_no"])
    assert got == expected


def test_a_time_of_day_is_that_of_the_table(v5: Any) -> None:
    """The default table prints times without their date."""
    times = [when.time() for when in v5["ts"].to_pylist()]
    middle = sorted(times)[len(times) // 2]
    assert times[0] < middle
    for text, kept in (
        (f"ts >= '{middle.isoformat()}'", [when >= middle for when in times]),
        ("'00:00' <= ts < '00:00:01'", [False] * len(times)),
    ):  # fmt: skip
        assert v5.filter(Filter(text).compile(v5.schema)).num_rows == sum(kept), text


def test_many_comparisons_are_one_filter(v5: Any) -> None:
    rows = v5.filter(Filter(" or ".join(f"frame_no == {n}" for n in range(1000))).compile(v5.schema))
    assert rows.num_rows == sum(n < 1000 for n in v5["frame_no"].to_pylist())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("kind == 'publish'", "; no kind 'publish'; did you mean 'PUBLISH'?"),
        ("'publish' == kind and qos > 0", "did you mean 'PUBLISH'?"),
        ("kind in ('publsh', 'PUBACK')", "did you mean 'PUBLISH'?"),
        ("kind == 'Basic.Deliver'", "did you mean 'basic.deliver'?"),
        ("kind == 'send_message'", "did you mean 'SEND_MESSAGE'?"),
        ("protocol == 'MQTT' and kind == 'x'", "no protocol 'MQTT'; did you mean 'mqtt'?"),
        ("status == 'OK'", "did you mean 'ok'?"),
        ("operation == 'Send'", "did you mean 'send'?"),
        ("client_id == 'nobody'", "filter holds\n"),
    ],
)
def test_a_filter_that_keeps_nothing_says_which_value_was_meant(
    wirefmt: Callable[..., Any], text: str, hint: Any
) -> None:
    if "PUBACK" in text:
        text += " and qos == 7"
    code, out, err = wirefmt("decode", V5, "--filter", text)
    assert (code, out) == (0, b"")
    assert err.startswith("no messages for which the filter holds")
    assert hint in err
    for command in (("decode", V5, "--format", "jsonl"), ("summary", V5)):
        code, _, err = wirefmt(*command, "--filter", text)
        assert (code, "did you mean" in err) == (0, "did you mean" in hint)


def test_filters_find_something_and_leave_something(v5: Any) -> None:
    kept = {text: v5.filter(Filter(text).compile(v5.schema)).num_rows for text in KEEPS}
    assert sum(0 < n < v5.num_rows for n in kept.values()) > len(KEEPS) * 2 // 3, kept


NULLS = pa.table({"qos": pa.array([0, 1, None], pa.int8()), "kind": ["A", None, "B"]})


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("qos == 0", [0]), ("qos != 0", [1]), ("not qos == 0", [1]), ("qos is None", [2]), ("qos is not None", [0, 1]),
        ("qos in (0, 5)", [0]), ("qos not in (0, 5)", [1]), ("not (qos in (0, 5))", [1]),
        ("qos == 1 or kind == 'B'", [1, 2]), ("qos < 5 and kind == 'A'", [0]), ("not (qos is None)", [0, 1]),
        ("kind.startswith('A') or qos == 1", [0, 1]), ("not kind.contains('A')", [2]), ("qos == 1000", []),
    ],
)  # fmt: skip
def test_null_is_neither_true_nor_false(text: str, rows: Any) -> None:
    keep = Filter(text).compile(NULLS.schema)
    table = NULLS.append_column("row", pa.array(range(3)))
    assert table.filter(keep)["row"].to_pylist() == rows


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("'t/q0' in mqtt.topic_filters", lambda r: r["mqtt"]["topic_filters"] and "t/q0" in r["mqtt"]["topic_filters"]),
        ("'t/q' in mqtt.topic_filters", lambda r: False),  # part of an element
        ("1 in mqtt.reason_codes", lambda r: r["mqtt"]["reason_codes"] and 1 in r["mqtt"]["reason_codes"]),
        (
            "1 not in mqtt.reason_codes",
            lambda r: r["mqtt"]["reason_codes"] is not None and 1 not in r["mqtt"]["reason_codes"],
        ),
        ("port == 1883 and kind == 'PUBLISH'", lambda r: r["kind"] == "PUBLISH"),
        ("port != 1883", lambda r: False),
        ("port in (44617, 1)", lambda r: 44617 in (r["src_port"], r["dst_port"])),
        ("port not in (44617, 1)", lambda r: 44617 not in (r["src_port"], r["dst_port"])),
        ("not port == 44617", lambda r: 44617 not in (r["src_port"], r["dst_port"])),
        ("port < 44617", lambda r: min(r["src_port"], r["dst_port"]) < 44617),
        ("ip.startswith('127.')", lambda r: True),
        ("ip == '10.0.0.1' or qos == 2", lambda r: r["qos"] == 2),
    ],
)  # fmt: skip
def test_filters_of_lists_and_of_either_end(text: str, python: Any, v5: Any) -> None:
    kept = Filter(text)
    assert set(kept.columns) <= set(v5.column_names)
    found = v5.filter(kept.compile(v5.schema)).num_rows
    assert found == sum(bool(python(row)) for row in v5.to_pylist())


def test_an_element_of_a_list_is_found_whole() -> None:
    lists = pa.table({"mqtt": pa.array([{"reason_codes": [1, 12]}, {"reason_codes": []}, {"reason_codes": [2]}],
                                       pa.struct([("reason_codes", pa.list_(pa.int16()))]))})  # fmt: skip
    for value, expected in ((1, 1), (12, 1), (2, 1), (11, 0), (21, 0)):
        assert lists.filter(Filter(f"{value} in mqtt.reason_codes").compile(lists.schema)).num_rows == expected


def test_a_filter_of_the_wrong_type_says_so_before_any_output(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    code, out, err = wirefmt("decode", V5, "--filter", "qos == 'x'", "--format", "csv")
    assert (code, out) == (2, b"")
    assert "int8 cannot be compared with 'x'" in err
    code, _, _ = wirefmt("decode", V5, "--filter", "qos == 'x'", "-o", tmp_path / "x.csv")
    assert (code, list(tmp_path.iterdir())) == (2, [])


def test_fields_as_columns(wirefmt: Callable[..., Any], v5: Any) -> None:
    names = ["kind", "mqtt.flags", "mqtt.topic_filters"]
    _, out, _ = wirefmt("decode", V5, "--columns", ",".join(names), "--format", "arrow")
    table = pa.ipc.open_stream(out).read_all()
    assert table.column_names == names
    expected = [(row["kind"], row["mqtt"]["flags"], row["mqtt"]["topic_filters"]) for row in v5.to_pylist()]
    assert list(zip(*(table[name].to_pylist() for name in names), strict=True)) == expected
    for asked, says in (
        ("mqtt.flag", "mqtt has no field 'flag'; did you mean flags"),
        ("mqt.flags", "no column 'mqt'"),
    ):
        code, out, err = wirefmt("decode", V5, "--columns", asked)
        assert (code, out) == (2, b"")
        assert says in err
    _, out, _ = wirefmt("decode", V5, "--as", "amqp10", "--columns", "kind,converted.raw", "--format", "jsonl")
    assert sum("converted.raw" in row for row in json_lines(out)) == 293


def test_filters_of_fields_headers_and_octets(wirefmt: Callable[..., Any], v5: Any) -> None:
    rows = v5.to_pylist()
    cases: tuple[tuple[str, Callable[[dict[str, Any]], object]], ...] = (
        ("mqtt.retain", lambda r: r["mqtt"]["retain"]),
        ("mqtt.dup == True", lambda r: r["mqtt"]["dup"]),
        ("mqtt.keep_alive > 0", lambda r: (r["mqtt"]["keep_alive"] or 0) > 0),
        ("len(mqtt.topic_filters) == 1", lambda r: len(r["mqtt"]["topic_filters"] or []) == 1),
        ("payload.contains('a')", lambda r: b"a" in (r["payload"] or b"")),
        ("payload.startswith(b'\\x00')", lambda r: (r["payload"] or b"").startswith(b"\x00")),
        ("headers['k'] == 'v'", lambda r: dict(reversed(r["headers"] or [])).get("k") == "v"),
        ("kind.matches('^PUB(ACK|REC)$')", lambda r: r["kind"] in ("PUBACK", "PUBREC")),
        ("error.contains('x')", lambda r: "x" in (r["error"] or "")),
    )
    for text, python in cases:
        got = v5.filter(Filter(text).compile(v5.schema)).num_rows
        assert got == sum(bool(python(row)) for row in rows), text


@pytest.mark.parametrize(
    ("text", "says", "at"),
    [
        ("qso >= 1", "no column 'qso'; did you mean qos?", 0),
        ("kind == 'PUBLISH' and topic == 'x'", "no column 'topic'; ", 22),
        ("mqtt.retian", "mqtt has no field 'retian'; did you mean retain", 0),
        ("kind == PUBLISH", "no column 'PUBLISH'", 8),
        ("qos == 'x'", "int8 cannot be compared with 'x'", 7),
        ("kind == 1", "string cannot be compared with 1", 8),
        ("kind == qos", "string cannot be compared with int8", 8),
        ("qos", "neither true nor false", 0),
        ("qos and kind == 'x'", "neither true nor false", 0),
        ("kind == None", "use `is None`", 8),
        ("kind is 'PUBLISH'", "use ==", 8),
        ("kind in 'PUBLISH'", "needs a list of values", 8),
        ("kind in (qos,)", "expected a value", 9),
        ("qos in ('a',)", "int8 cannot be compared with 'a'", 8),
        ("kind =", "did you mean kind ==", None),
        ("", "not an expression", None),
        ("ts > 'noon'", "'noon' is not a time", 5),
        ("ts > '25:00:00'", "'25:00:00' is not a time of day", 5),
        ("port", "needs a comparison, such as port == 1883", 0),
        ("qos == 1 or not ip", "needs a comparison, such as ip.startswith('10.')", 16),
        ("port.x", "needs a comparison", 0),
        ("ip['x'] is None or ip['x']", "only headers['name'] can be looked up", None),
        ("qos==1" + " or qos==1" * 9990, "more than 1,000 comparisons", 0),
        ("0" + " < qos" * 1002, "more than 1,000 comparisons", 0),
        ("port == 1" + " or port == 1" * 600, "more than 1,000 comparisons", 0),
        ("destination.matches('[')", "not a regular expression", 20),
        ("destination.startswith()", "takes one text argument", 0),
        ("qos.startswith('1')", "only text and payloads can be searched", 0),
        ("kind.upper() == 'X'", "a filter has no such function", 0),
        ("__import__('os')", "a filter has no such function", 0),
        ("kind.__class__ == 1", "kind has no fields", 0),
        ("[k for k in (1, 2)]", "no column 'k'", None),
        ("(lambda: True)()", "a filter has no such function", None),
        ("qos / 2 == 1", "a filter has no such operator", 0),
        ("qos if True else False", "a filter has no ifexp", 0),
        ("qos == 99999999999999999999", "numbers must fit 64 bits", 7),
        ("sequence + 'x' == 1", "only numbers can be added", 11),
        ("headers['a']['b'] == 'c'", "a filter has no subscript", 0),
        ("qos['a'] == 'c'", "only headers['name'] can be looked up", 0),
        ("len(qos) == 1", "len() is for text, payloads and lists", 4),
        ("f'{qos}' == kind", "a filter has no joinedstr", None),
        ("not " * 60 + "True", "nested deeper than", None),
        ("(" * 5000 + "qos" + ")" * 5000, "not an expression", None),
        ("qos == 1\x00", "not an expression", None),
        ("kind == 'Grüße' and (\n qso == 1)", "no column 'qso'", 23),
        ("qos = 1", "did you mean qos == 1", 4),
        ("kind = 'a=b' and qos == 1", "did you mean kind == 'a=b' and", 5),
        ("kind = 'a=b' and qos = 1 and dup >= 0", "did you mean kind == 'a=b' and qos == 1 and dup >= 0", 5),
        ("destination =~ 'a.*'", "=~ is written .matches(", 12),
        ("mqtt.retain == true", "did you mean True?", 15),
        ("error is NULL", "did you mean None?", 9),
        ("kind == PUBLISH", "no column 'PUBLISH'; did you mean the text 'PUBLISH'?", 8),
        ("kind in (PUBLISH, PUBACK)", "did you mean the text 'PUBLISH'?", 9),
        ("kind.startswith(PUB)", "did you mean the text 'PUB'?", 16),
        ("kind == destinaton", "did you mean destination", 8),
        ("prt == 1", "did you mean port", 0),
        ("qos == 1 && qos == 2", "&& is written and", 9),
        ("!dup", "! is written not", 0),
        ("'a' in mqtt.reason_codes", "int16 cannot be compared with 'a'", 0),
        ("'a' in qos", "only text and payloads can be searched", None),
    ],
)  # fmt: skip
def test_a_filter_that_cannot_be_says_where_and_why(text: str, says: str, at: Any, v5: Any) -> None:
    with pytest.raises(FilterError) as fault:
        Filter(text).compile(v5.schema)
    assert says in str(fault.value)
    if at is not None:
        assert fault.value.at == at


@given(st.text(alphabet="qoskind =<>'()[].,+-*and ornt1\n\\", max_size=60))
def test_any_text_is_a_filter_or_a_filter_error(v5: Any, text: str) -> None:
    try:
        Filter(text).compile(v5.schema)
    except FilterError as fault:
        assert 0 <= fault.at <= len(text)


def test_a_wrong_filter_is_shown_with_a_caret(wirefmt: Callable[..., Any]) -> None:
    code, out, err = wirefmt("decode", V5, "--filter", "qso == 1")
    assert (code, out) == (2, b"")
    assert "no column 'qso'; did you mean qos?" in err
    assert "\n  qso == 1\n  ^\n" in err


# ---- inputs


def test_standard_input_gzip_glob_directory_and_url(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    count = COUNTS[V5.name]
    piped = subprocess.run([*COMMAND, "decode", "-", "--format", "jsonl"], stdin=V5.open("rb"), capture_output=True)
    assert (piped.returncode, len(piped.stdout.splitlines())) == (0, count)
    packed = gzip.compress(V5.read_bytes())
    piped = subprocess.run([*COMMAND, "decode", "-", "--format", "jsonl"], input=packed, capture_output=True)
    assert (piped.returncode, len(piped.stdout.splitlines())) == (0, count)
    for name in ("a.pcap", "b.pcap2", "c.pcap10"):
        shutil.copy(V5, tmp_path / name)
    (tmp_path / "notes.txt").write_text("not a capture")
    for files in (tmp_path, tmp_path / "*.pcap*", f"file://{tmp_path}/a.pcap"):
        code, out, _ = wirefmt("summary", files, "--json")
        told = json.loads(out)
        assert code == 0
        assert told["messages"] == count * told["captures"]
        assert told["captures"] == (1 if "://" in str(files) else 3)
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install fsspec)")
    with fsspec.open("memory://captures/a.pcap", "wb") as remote:
        remote.write(V5.read_bytes())
    _, out, _ = wirefmt("summary", "memory://captures/*.pcap", "--json")
    assert json.loads(out)["messages"] == count


def test_protocol_of_a_port(wirefmt: Callable[..., Any]) -> None:
    _, out, _ = wirefmt("summary", V5, "--json")
    assert json.loads(out)["messages"] == COUNTS[V5.name]
    code, _, err = wirefmt("decode", V5, "--decode-as", "tcp.port==x,mqtt")
    assert code == 2
    assert "tcp.port==x,mqtt" in err
    code, _, err = wirefmt("decode", V5, "--protocol", "mtqq")
    assert code == 2
    assert "mtqq" in err


# ---- exit codes and errors


def test_a_missing_file(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    code, out, err = wirefmt("decode", tmp_path / "none.pcap")
    assert (code, out) == (1, b"")
    assert "none.pcap" in err
    assert "Traceback" not in err


def test_what_is_no_capture(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(bz2.compress(b"no capture at all"))
    code, out, err = wirefmt("decode", tmp_path / "x.pcap", "--format", "jsonl")
    assert (code, out) == (1, b"")
    assert "x.pcap" in err
    # among others it is a row, and the others are read
    code, out, err = wirefmt("decode", tmp_path / "x.pcap", V5, "--format", "jsonl")
    rows = json_lines(out)
    assert code == 1
    assert sum("kind" in row for row in rows) == COUNTS[V5.name]
    assert [row["status"] for row in rows if "kind" not in row] == ["malformed"]
    assert "1 fault in the capture files" in err


def test_a_capture_that_is_cut_gives_what_it_has(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(V5.read_bytes()[:-11])
    code, out, err = wirefmt("decode", cut, "--format", "jsonl")
    rows = json_lines(out)
    assert code == 1
    assert COUNTS[V5.name] - 5 <= sum("kind" in row for row in rows) <= COUNTS[V5.name]
    assert any("kind" not in row and row["error"] for row in rows)
    assert "fault" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["decode"], "FILES"),
        (["dcode", "x"], "dcode"),
        (["decode", V5, "--columns", "kind,destinaton"], "did you mean destination"),
        (["decode", V5, "-o", "m.txt"], "no format has this suffix"),
        (["decode", V5, "--format", "xml"], "xml"),
        (["decode", V5, "-n", "-1"], "-1"),
        (["decode", V5, "--flows", "x"], "in-file"),
        (["summary", V5, "--top", "0"], "0"),
    ],
)
def test_wrong_usage_is_two(wirefmt: Callable[..., Any], arguments: Any, says: str) -> None:
    code, out, err = wirefmt(*arguments)
    assert (code, out) == (2, b"")
    assert says in err
    assert "--help" in err


def test_output_never_goes_onto_an_input(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    mine = tmp_path / "mine.pcap"
    shutil.copy(V5, mine)
    (tmp_path / "link.csv").symlink_to(mine)
    for out in (mine, tmp_path / "link.csv"):
        for files in ([mine], [V5, tmp_path], [tmp_path / "*.pcap"]):
            code, _, err = wirefmt("decode", *files, "-o", out, "--format", "csv")
            assert code == 2
            assert "is one of the captures" in err
    assert mine.read_bytes() == V5.read_bytes()


def test_an_output_that_cannot_be_written(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    code, _, err = wirefmt("decode", V5, "-o", tmp_path / "no" / "m.jsonl")
    assert code == 1
    assert "No such file or directory" in err
    (tmp_path / "m.jsonl").write_text("old")
    code, _, _ = wirefmt("decode", tmp_path / "none.pcap", "-o", tmp_path / "m.jsonl")
    assert code == 1
    assert [p.name for p in tmp_path.iterdir()] == ["m.jsonl"]
    assert (tmp_path / "m.jsonl").read_text() == "old"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_is_told_in_one_line() -> None:
    with open("/dev/full", "wb") as full:
        told = subprocess.run([*COMMAND, "decode", str(V5), "--format", "jsonl"], stdout=full, stderr=subprocess.PIPE)
    assert told.returncode == 1
    assert told.stderr.decode().count("\n") == 1


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_closed_pipe_is_silent(fmt: str, tmp_path: Path) -> None:
    for i in range(20):
        shutil.copy(V5, tmp_path / f"{i}.pcap")
    command = subprocess.Popen(
        [*COMMAND, "decode", str(tmp_path), "--format", fmt], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.read(10)
    command.stdout.close()
    assert command.stderr.read() == b""
    assert command.wait(60) == 0


def test_a_table_whose_reader_has_gone_is_a_broken_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """rich would end the command with 1, as in `wirefmt summary x | head -4`."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        show_table("Failures", ("kind", "messages"), [("PUBACK", 1)])


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_file_that_is_given_up_leaves_nothing_and_no_traceback(
    fmt: str, tmp_path: Path, v5: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    with contextlib.suppress(SystemExit), open_writer(str(tmp_path / "m"), fmt, v5.schema) as writer:
        writer.write(v5.to_batches()[0])
        raise SystemExit(143)  # as SIGTERM does
    del writer
    gc.collect()
    assert unraisable == []
    assert list(tmp_path.iterdir()) == []


def test_help_is_quick_and_complete(wirefmt: Callable[..., Any]) -> None:
    code, out, _ = wirefmt("decode", "--help")
    text = re.sub(r"[│\s]+", " ", out.decode())
    assert code == 0
    for words in (
        "--filter", "--decode-as", "--no-payload", "--payload-max", "--columns", "--expose-credentials", "--flows",
        "--limit", "--format", "--protocol", "Examples", "as in: -o messages.parquet",
    ):  # fmt: skip
        assert words in text, words
    heavy = (
        "import sys; from wirefmt.cli.app import run; run(['decode', '--help']); run(['--help']);"
        "print([m for m in ('pyarrow', 'numpy', 'wirefmt._core', 'fsspec') if m in sys.modules], file=sys.stderr)"
    )
    told = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert told.stderr.strip() == "[]"


@pytest.mark.parametrize("fmt", ["jsonl", "csv", "arrow"])
def test_decode_loads_nothing_that_it_does_not_use(fmt: str) -> None:
    """pandas alone takes as long as some 10 MB of a capture; pyarrow loads it for an array of a list, if it is installed."""
    loaded = (
        f"import sys; from wirefmt.cli.app import run; run(['decode', {str(V5)!r}, '--format', {fmt!r}]);"
        "print([m for m in ('pandas', 'asyncio', 'wirefmt.convert', 'wirefmt.broker') if m in sys.modules], file=sys.stderr)"
    )
    told = subprocess.run([sys.executable, "-c", loaded], capture_output=True, check=True)
    assert told.stderr.strip() == b"[]"


def options_shown(command: str) -> dict[str, Any]:
    from wirefmt.cli.app import wirefmt as group

    found = group.commands[command]
    return {option.name: option for option in found.params if option.name in {f.name for f in fields(capture.Options)}}


def test_every_command_has_the_options_of_captures_as_capture_defines_them() -> None:
    flags = {f.name: f.metadata["flag"] for f in fields(capture.Options) if "flag" in f.metadata}
    # --columns also takes fields of structs, so it is an option of the command; every message has a connection that was decoded
    assert set(options_shown("decode")) == (set(flags) | {"columns"}) - {"all_connections"}
    assert set(options_shown("connections")) >= {"all_connections", "columns", "filter"}
    shown = {"filter", "protocols", "decode_as", "flows", "threads", "tunnels", "keylog", "keys"}
    assert set(options_shown("summary")) == shown
    for command in ("decode", "summary", "connections", "operations", "latency", "trace", "sql"):
        for name, option in options_shown(command).items():
            if name in flags:
                assert (option.opts, option.help) == ([flags[name].name], flags[name].help)


def test_every_option_of_decode_is_a_keyword_of_read_or_about_the_output() -> None:
    reading = set(inspect.signature(capture.read).parameters)
    converting = set(inspect.signature(convert_table).parameters)
    output = {"files", "limit", "out", "fmt", "mark_formulas", "extract"}
    assert {option.name for option in wirefmt_group.commands["decode"].params} <= reading | converting | output
    assert not reading & (converting | output)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ([], {}),
        (["--no-payload"], {"payload": False}),
        (["--filter", "qos == 1"], {"filter": "qos == 1"}),
        (["--payload-max", "3"], {"payload_max": 3}),
        (["--expose-credentials"], {"expose_credentials": True}),
        (["--raw", "--detail", "--vlan"], {"raw": True, "detail": True, "vlan": True}),
        (["--tunnels", "--flows", "across-files"], {"tunnels": True, "flows": "across-files"}),
        (["--protocol", "mqtt", "--protocol", "nsq"], {"protocols": ("mqtt", "nsq")}),
        (["--decode-as", "tcp.port==1,nsq"], {"decode_as": ("tcp.port==1,nsq",)}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_of_captures_reach_the_reader(
    arguments: Any, given: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Options that are not given have the defaults of `capture.Options`."""
    seen: list[Any] = []

    def reading(source: Any, **options: Any) -> Any:
        seen.append(options)
        return read(source, **options)

    monkeypatch.setattr(capture, "read", reading)
    assert run(["decode", *arguments, str(V5), "-n", "0", "--format", "jsonl"]) == 0
    (options,) = seen
    assert capture.Options(**options) == capture.Options(**given)


def test_without_the_extra_the_message_names_it() -> None:
    for module in ("rich_click", "pyarrow"):
        hide = f"import sys; sys.modules[{module!r}] = None; sys.argv = ['wirefmt', 'decode', {str(V5)!r}];"
        told = subprocess.run(
            [sys.executable, "-c", hide + "from wirefmt.cli import main; main()"], capture_output=True, text=True
        )
        assert told.returncode == 2
        assert told.stderr == f"wirefmt: the command line needs {module}: pip install 'wirefmt[cli]'\n"


# ---- tables and terminals


def terminal(
    *arguments: object, columns: int = 100, bar_after: float | None = None, stdin: int = subprocess.DEVNULL
) -> tuple[int, str]:
    """What a command shows on a terminal of this width, stdout and stderr together."""
    import fcntl
    import struct
    import termios

    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")} | {"TERM": "xterm"}
    start = COMMAND
    if bar_after is not None:
        wait = f"import wirefmt.cli as c, wirefmt.cli.inputs as i; i._BAR_AFTER = {bar_after}; c.main()"
        start = [sys.executable, "-c", wait]
    command = subprocess.Popen([*start, *map(str, arguments)], stdin=stdin, stdout=side, stderr=side, env=environment)
    os.close(side)
    shown = b""
    while True:
        try:
            octets = os.read(main, 65536)
        except OSError:
            break
        if not octets:
            break
        shown += octets
    os.close(main)
    return command.wait(60), shown.decode()


def plain(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").splitlines()


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
@pytest.mark.parametrize("names", [(), ("--columns", "ts,client_id,direction,kind,destination,qos,payload,error")])
def test_a_table_fits_the_terminal(columns: Any, names: Any) -> None:
    code, shown = terminal("decode", V5, *names, columns=columns)
    lines = plain(shown)
    assert code == 0
    assert len(lines) == COUNTS[V5.name] + (1 if names else 2)  # the header; before it date and server
    assert "\x1b[1m" in shown  # the header stands out
    assert not [line for line in lines if cell_len(line) > columns]


@pytest.mark.parametrize("columns", [50, 80, 130])
@pytest.mark.parametrize("names", [(), ("--columns", "ts,src_ip,client_id,kind,destination,payload,error")])
def test_the_kind_is_never_cut(columns: Any, names: Any, v5: Any) -> None:
    """`connection.start-ok` and `UNSUBSCRIBE` are whole at any width."""
    for path in (V5, SAMPLES / "rabbitmq-pyamqp-amqp091.pcap"):
        with capture.read(path, columns=("kind",)) as reader:
            kinds = Counter(pa.table(reader).column("kind").to_pylist())
        lines = plain(terminal("decode", path, *names, columns=columns)[1])
        told = Counter(word for line in lines for word in set(line.split()) if word in kinds)
        assert told == kinds


def test_the_default_table_at_80_columns() -> None:
    """Time of day, the date once, the server once, who, channel, kind, detail: written out by hand from tshark's decode."""
    lines = plain(terminal("decode", SAMPLES / "rabbitmq-pyamqp-amqp091.pcap", "-n", 12, columns=80)[1])
    assert lines[:4] == [
        "2026-11-21 UTC, server 127.0.0.1:5672",
        "time         client          ch    kind          detail",
        "02:37:27.182 127.0.0.1:60334    -> protocol-header 0-9-1",
        "02:37:27.188 127.0.0.1:60334  0 <- connection.start product=RabbitMQ version=3.…",
    ]
    assert lines[5] == "02:37:27.195 127.0.0.1:60334  0 <- connection.tune channel_max=2047 frame_max=1…"
    assert lines[-1] == "02:37:27.209 127.0.0.1:60334  1 -> queue.declare queue=pa.q durable"


def test_a_wide_terminal_has_more() -> None:
    """Microseconds, the server of each row, the payload; no channel where there is none."""
    lines = plain(terminal("decode", V5, "--filter", "kind == 'PUBLISH'", "-n", 5, columns=140)[1])
    assert lines[0] == "2026-11-21 UTC"
    assert lines[1].split() == ["time", "client", "server", "kind", "detail"]
    assert re.fullmatch(
        r"02:21:07\.\d{6} sub-ü-5 +127\.0\.0\.1:1883 <- PUBLISH t/q0 qos=0 retain size=8 subscription_identifier=1 \| \S+",
        lines[2],
    )


def test_explaining_texts_are_not_cut() -> None:
    """A reply text that has no space goes on below; a list of names is cut."""
    lines = plain(
        terminal("decode", SAMPLES / "rabbitmq-pyamqp-amqp091.pcap", "--filter", "kind == 'channel.close'", columns=80)[
            1
        ]
    )
    assert lines[2].endswith('<- channel.close 404 "NOT_FOUND - no queue')
    assert lines[3] == "    'missing' in vhost '/'\" method=queue.declare"


def test_a_column_that_was_left_out_comes_back_with_a_header(tmp_path: Path) -> None:
    """500 rows settle the columns. What comes after them may need a channel, another server, another day: then the next 500
    rows do."""
    frames = []
    for i, (server, port) in enumerate(((1, 1883), (2, 1883), (2, 1884))):
        tcp = Tcp(server=0x0A000000 + server, port=port, client_port=40000 + i)
        pings = b"".join(packet(0xC0) for _ in range(600 if i == 0 else 3))
        frames += tcp.open() + tcp.send(0, connect(f"c{i}")) + tcp.send(1, connack()) + tcp.send(0, pings) + tcp.close()
    (tmp_path / "a.pcap").write_bytes(pcap(frames))
    (tmp_path / "b.pcap").write_bytes(pcap(frames[:5], first=100_000_000))
    shutil.copy(SAMPLES / "rabbitmq-pyamqp-amqp091.pcap", tmp_path / "c.pcap")
    lines = plain(terminal("decode", tmp_path, columns=80)[1])
    heads = [i for i, line in enumerate(lines) if line.startswith("time ")]
    assert [lines[i - 1] for i in heads] == [
        "2023-11-14 UTC, server 10.0.0.1:1883", "2023-11-14 UTC", "2023-11-16 UTC", "2026-11-21 UTC",
    ]  # fmt: skip
    assert [lines[i].split()[1:-2] for i in heads] == [
        ["client"], *[["client", "server", "ch"]] * 3
    ]  # fmt: skip
    assert not [line for line in lines if cell_len(line) > 80]


def test_what_was_wrong_stands_below_its_row_where_there_is_no_room() -> None:
    _, shown = terminal("decode", SAMPLES / "mosquitto-paho-v5-snaplen128.pcap", columns=80)
    lines = plain(shown)
    assert not [line for line in lines if cell_len(line) > 80]
    assert sum(line.startswith("    ! truncated by the snapshot length") for line in lines) > 20
    assert sum(" (gap) " in line or line.endswith(" (gap)") for line in lines) > 10


def test_nothing_of_a_capture_steers_the_terminal(tmp_path: Path) -> None:
    tcp = Tcp()
    bad = "\x1b[2J\u202e\n"
    octets = connect(f"id{bad}") + publish(f"t{bad}", bad.encode())
    (tmp_path / "a.pcap").write_bytes(pcap(tcp.open() + tcp.send(0, octets) + tcp.close()))
    shown = terminal("decode", tmp_path / "a.pcap", columns=200)[1]
    text = "\n".join(plain(shown))
    assert "\x1b" not in text.replace("\n", "")
    assert "\u202e" not in shown
    assert "\x1b[2J" not in shown
    assert len(plain(shown)) == 4


def test_binary_formats_are_not_for_a_terminal() -> None:
    for fmt in ("arrow", "parquet"):
        code, shown = terminal("decode", V5, "--format", fmt)
        assert code == 2
        assert "-o FILE" in shown


def test_progress_is_for_a_terminal_only(tmp_path: Path) -> None:
    captures, out = tmp_path / "captures", tmp_path / "m.parquet"
    captures.mkdir()
    for i in range(5):
        shutil.copy(V5, captures / f"{i}.pcap")
    code, shown = terminal("decode", captures, "-o", out, bar_after=60)
    assert (code, shown) == (0, "")  # nothing for what takes less
    code, shown = terminal("decode", captures, "-o", out, bar_after=0)
    assert code == 0
    assert "reading" in shown
    code, shown = terminal("decode", captures, "-o", out, bar_after=0, stdin=subprocess.PIPE)
    assert (code, shown) == (0, "")  # another program of the pipeline may use the terminal
    told = subprocess.run([*COMMAND, "decode", str(captures), "-o", str(out)], capture_output=True)
    assert (told.returncode, told.stdout, told.stderr) == (0, b"", b"")


def test_a_table_in_a_pipe_is_whole_and_plain(wirefmt: Callable[..., Any]) -> None:
    code, out, _ = wirefmt("decode", V5, "--columns", "kind,destination,qos")
    lines = out.decode().splitlines()
    assert code == 0
    assert b"\x1b" not in out
    assert len(lines) == COUNTS[V5.name] + 1
    assert Counter(line.split()[0] for line in lines[1:])["PUBLISH"] == 293


def test_the_default_table_in_a_pipe_is_whole_and_plain(wirefmt: Callable[..., Any]) -> None:
    """One line per message, with the server, whatever the width; errors follow their row."""
    _, out, _ = wirefmt("decode", SAMPLES / "mosquitto-paho-v5-snaplen128.pcap")
    with capture.read(SAMPLES / "mosquitto-paho-v5-snaplen128.pcap", detail=True) as reader:
        told = pa.table(reader).to_pylist()
    lines = out.decode().splitlines()
    assert b"\x1b" not in out
    assert lines[1].split() == ["time", "client", "server", "kind", "detail"]
    assert len(lines) == len(told) + 2
    for line, row in zip(lines[2:], told, strict=True):
        assert (row["detail"] or "") in line
        assert row["error"] is None or line.endswith(f" ! {row['error']}")
        assert f"{row['ts']:%H:%M:%S.%f}" == line.split()[0]


def test_detail_in_other_formats(wirefmt: Callable[..., Any]) -> None:
    """It is filled where it is named, or asked for."""
    for options, there in (((), False), (("--detail",), True), (("--columns", "kind,detail"), True),
                           (("--filter", "detail.startswith('version=5.0')"), True)):  # fmt: skip
        _, out, _ = wirefmt("decode", V5, "--format", "jsonl", *options)
        rows = json_lines(out)
        assert ("detail" in rows[0]) == there
        assert rows[0]["kind"] == "CONNECT"


def test_identifiers_of_vlans_in_every_format(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    """Lists in columns of lists, JSON where a format has none."""
    client = Tcp()
    frames = [
        *client.open(),
        client.segment(0, connect()),
        tagged(client.segment(1, connack()), [(0x88A8, 7), (0x8100, 4094)]),
    ]
    (tmp_path / "x.pcap").write_bytes(pcap(frames))
    call = ("decode", tmp_path / "x.pcap", "--columns", "kind,vlan")
    assert json_lines(wirefmt(*call, "--format", "jsonl")[1]) == [
        {"kind": "CONNECT"},
        {"kind": "CONNACK", "vlan": [7, 4094]},
    ]
    table = csv.DictReader(io.StringIO(wirefmt(*call, "--format", "csv")[1].decode()))
    assert [row["vlan"] for row in table] == ["", "[7,4094]"]
    shown = wirefmt(*call, "--format", "table")[1].decode().splitlines()
    assert ["CONNACK", "[7,4094]"] in [line.split() for line in shown]
    readers: tuple[tuple[str, Callable[[Path], Any]], ...] = (
        ("parquet", pa.parquet.read_table),
        ("arrow", lambda path: pa.ipc.open_file(path).read_all()),
    )
    for suffix, read_back in readers:
        wirefmt(*call, "-o", tmp_path / f"x.{suffix}")
        assert read_back(tmp_path / f"x.{suffix}").column("vlan").to_pylist() == [None, [7, 4094]]
    for options in ((), ("--vlan",), ("--filter", "7 in vlan")):
        rows = json_lines(wirefmt("decode", tmp_path / "x.pcap", "--format", "jsonl", *options)[1])
        assert [row.get("vlan") for row in rows][-1] == ([7, 4094] if options else None)


def test_nothing_found_is_said(wirefmt: Callable[..., Any]) -> None:
    code, out, err = wirefmt("decode", V5, "--filter", "kind == 'nothing'")
    assert (code, out) == (0, b"")
    assert "no messages for which the filter holds" in err


@given(st.text(max_size=50))
def test_nothing_from_the_wire_steers_the_terminal(text: str) -> None:
    assert printable(text).isprintable()
    assert cell(text, 20).isprintable()
    assert len(cell(text, 20)) <= 20


@given(st.binary(max_size=50))
def test_octets_in_a_cell(octets: bytes) -> None:
    assert cell(octets, 20).isprintable()
    assert len(cell(octets, 20)) <= 20


# ---- summary


def test_summary_says_the_same_as_the_table(wirefmt: Callable[..., Any], v5: Any) -> None:
    _, out, _ = wirefmt("summary", V5, "--json", "--top", 1000)
    told = json.loads(out)
    rows = v5.to_pylist()
    assert told["wire_bytes"] == sum(row["wire_size"] for row in rows)
    times = [row["ts_ns"] for row in rows]
    assert told["seconds"] == (max(times) - min(times)) / 1e9
    assert told["messages_per_second"] == pytest.approx(len(rows) / told["seconds"])
    assert told["first"].startswith(f"{min(row['ts'] for row in rows):%Y-%m-%dT%H:%M:%S}")
    destinations = Counter(row["destination"] for row in rows if row["destination"] is not None)
    assert {d["destination"]: d["messages"] for d in told["destinations"]} == destinations
    assert told["destinations_exact"] is True
    assert sum(told["rate"]["messages"]) == len(rows)


def test_summary_for_people(wirefmt: Callable[..., Any]) -> None:
    code, out, err = wirefmt("summary", V5)
    text = out.decode()
    assert (code, err) == (0, "")
    assert text.startswith(f"1 capture, {COUNTS[V5.name]} messages, ")
    assert re.search(r"^mqtt +PUBLISH +293 ", text, re.M)
    assert "Top destinations" in text


def test_summary_of_all_samples(wirefmt: Callable[..., Any]) -> None:
    _, out, _ = wirefmt("summary", SAMPLES, "--filter", "status == 'ok'", "--json")
    told = json.loads(out)
    assert told["captures"] == len(COUNTS) + 1  # and the one whose packets are cut
    assert told["messages"] >= sum(COUNTS.values())
    assert {row["version"] for row in told["kinds"]} >= {"3.1", "3.1.1", "5.0"}


def test_summary_counts_failures(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    """One connection, each message by hand: MQTT 5.0, sections 3.2, 3.4, 3.9, 3.14."""
    tcp = Tcp()
    suback = packet(0x90, b"\0\x07\0\x00\x80\x87\x87")  # granted, Unspecified error, Not authorized twice
    sent = [
        *tcp.open(), *tcp.send(0, connect("c", 5)), *tcp.send(1, connack(5)),
        *tcp.send(0, packet(0x82, b"\0\x07\0" + b"".join(string(t) + b"\0" for t in "abcd"))), *tcp.send(1, suback),
        *tcp.send(0, publish("t", b"", 5, identifier=9)), *tcp.send(1, packet(0x40, b"\0\x09\x97\0")),  # Quota exceeded
        *tcp.send(0, publish("t", b"", 5, identifier=9)), *tcp.send(1, packet(0x40, b"\0\x09\x10\0")),  # no subscribers
        *tcp.send(1, packet(0xE0, b"\x8b\0")),  # Server shutting down
    ]  # fmt: skip
    refused = Tcp(client_port=40001)
    sent += [*refused.open(), *refused.send(0, connect()), *refused.send(1, packet(0x20, b"\0\x05"))]
    (tmp_path / "f.pcap").write_bytes(pcap(sent))
    _, out, _ = wirefmt("summary", tmp_path / "f.pcap", "--json")
    assert {(f["kind"], f["code"], f["text"]): f["messages"] for f in json.loads(out)["failures"]} == {
        ("SUBACK", 0x80, "Unspecified error"): 1,
        ("SUBACK", 0x87, "Not authorized"): 2,
        ("PUBACK", 0x97, "Quota exceeded"): 1,
        ("PUBACK", 0x10, "No matching subscribers"): 1,
        ("DISCONNECT", 0x8B, "Server shutting down"): 1,
        ("CONNACK", 5, "not authorized"): 1,
    }


def test_summary_names_the_first_failure_of_a_kind(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    """Of two clients that are refused by the same code, the earlier one, with its queue, time and place."""
    packets: list[bytes] = []
    for port, name, topic in ((40001, "early", "a"), (40002, "late", "b")):
        tcp = Tcp(client_port=port)
        packets += [*tcp.open(), *tcp.send(0, connect(name, 5)), *tcp.send(1, connack(5))]
        packets += [
            *tcp.send(0, publish(topic, b"12345", 5, identifier=9)),
            *tcp.send(1, packet(0x40, b"\0\x09\x97\0")),
        ]
        packets += [
            *tcp.send(1, publish(topic, b"123", 5)),
            *tcp.send(0, packet(0x82, b"\0\x07\0" + string(topic) + b"\0")),
        ]
    (tmp_path / "f.pcap").write_bytes(pcap(packets))
    rows = pa.table(read(tmp_path / "f.pcap")).to_pylist()
    wanted = next(row for row in rows if row["kind"] == "PUBACK")
    _, out, _ = wirefmt("summary", tmp_path / "f.pcap", "--json")
    told = json.loads(out)
    (failure,) = told["failures"]
    assert (failure["messages"], failure["client"], failure["about"]) == (2, "early", None)
    assert (failure["ts_ns"], failure["frame_no"], failure["capture"]) == (
        wanted["ts_ns"], wanted["frame_no"], str(tmp_path / "f.pcap"),
    )  # fmt: skip
    assert datetime.fromisoformat(failure["first"]) == wanted["ts"]
    counts = {"messages": 3, "published": 1, "delivered": 1, "payload_bytes": 8}
    assert told["destinations"] == [{"destination": name, **counts} for name in "ab"]
    assert {row["client"]: (row["published"], row["delivered"]) for row in told["clients"]} == {
        "early": (1, 1), "late": (1, 1),
    }  # fmt: skip
    _, out, _ = wirefmt("summary", tmp_path / "f.pcap")
    line = next(line for line in out.decode().splitlines() if "Quota exceeded" in line)
    when = f"{wanted['ts']:%H:%M:%S.%f}"[:12]
    assert line.split() == f"2 PUBACK 151 Quota exceeded {when} early - {wanted['frame_no']}".split()


@pytest.mark.parametrize(
    ("name", "queue", "about"),
    [
        ("nsq/nsqd-1.3.0-wirefmt.pcap.gz", "ch#ephemeral", {"E_FIN_FAILED": None}),
        ("rocketmq/client-5.5.0-json-header.pcap.gz", "Push_json", {21: "Push_json"}),
        ("rabbitmq-amqp091.pcap.gz", "box", {}),
    ],
)
def test_summary_has_queues_and_groups(wirefmt: Callable[..., Any], name: str, queue: Any, about: Any) -> None:
    _, out, _ = wirefmt("summary", DATA / name, "--json", "--top", 100)
    told = json.loads(out)
    rows = pa.table(read(DATA / name)).to_pylist()
    named = [row for row in rows if queue in (row["consumer_group"], (row["amqp091"] or {}).get("queue"))]
    sizes = [row for row in named if row["payload_size"] is not None]
    assert next(row for row in told["queues"] if row["queue"] == queue) == {
        "queue": queue, "messages": len(named), "payload_bytes": sum(row["payload_size"] for row in sizes),
        "published": sum(row["operation"] == "send" for row in sizes),
        "delivered": sum(row["operation"] == "receive" for row in sizes),
    }  # fmt: skip
    assert about.items() <= {failure["code"]: failure["about"] for failure in told["failures"]}.items()


def test_summary_lists_kinds_by_protocol(wirefmt: Callable[..., Any]) -> None:
    _, out, _ = wirefmt("summary", SAMPLES)
    lines = out.decode().split("Messages")[1].split("\n\n")[0].splitlines()[2:]
    protocols = [line.split()[0] for line in lines]
    assert [name for name, _ in itertools.groupby(protocols)] == ["mqtt", "amqp10", "amqp091"]


@pytest.mark.parametrize(
    ("name", "protocol", "kind", "code", "octets"),
    [
        ("nsq/nsqd-1.3.0-wirefmt.pcap.gz", "nsq", "error", "E_FIN_FAILED", b"E_FIN_FAILED"),
        ("rabbitmq-amqp091.pcap.gz", "amqp091", "channel.close", 404, b"NOT_FOUND - no "),
        ("rocketmq/client-5.5.0-json-header.pcap.gz", "rocketmq", "GET_ROUTEINFO_BY_TOPIC", 17, b"No topic route info"),
    ],
)
def test_summary_counts_failures_of_real_brokers(
    wirefmt: Callable[..., Any], name: str, protocol: str, kind: Any, code: Any, octets: bytes
) -> None:
    """As many as the capture's octets hold the broker's words."""
    _, out, _ = wirefmt("summary", DATA / name, "--json", "--top", 100)
    found = [f for f in json.loads(out)["failures"] if (f["protocol"], f["kind"], f["code"]) == (protocol, kind, code)]
    count = gzip.decompress((DATA / name).read_bytes()).count(octets)
    assert sum(f["messages"] for f in found) == count > 0


def test_summary_counts_captures_without_messages(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    shutil.copy(V5, tmp_path)
    (tmp_path / "empty.pcap").write_bytes(V5.read_bytes()[:24])
    _, out, _ = wirefmt("summary", tmp_path, "--json")
    assert json.loads(out)["captures"] == 2


def test_a_directory_says_what_it_passes_over(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    shutil.copy(V5, tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "older").mkdir()
    shutil.copy(V5, tmp_path / "older")
    code, _, err = wirefmt("summary", tmp_path)
    assert code == 0
    assert "not named as captures: notes.txt" in err
    assert f"subdirectories not read: older (use '{tmp_path}/**/*.pcap')" in err
    (tmp_path / V5.name).unlink()
    code, _, err = wirefmt("summary", tmp_path)
    assert code == 1
    assert f"no capture in '{tmp_path}'; not named as captures: notes.txt" in err


@given(st.lists(st.tuples(st.integers(0, 2**33), st.integers(1, 9)), min_size=1, max_size=30))
def test_a_histogram_counts_all_whatever_the_order(seconds: Any) -> None:
    histogram = Histogram()
    for second, count in seconds:
        histogram.add(second, count)
    assert sum(histogram.bins) == sum(count for _, count in seconds)
    assert len(histogram.bins) == BINS
    expected = [0] * BINS
    for second, count in seconds:
        expected[(second - histogram.begin) // histogram.width] += count
    assert histogram.bins == expected


def test_counting_many_destinations_is_bounded_and_keeps_the_frequent_ones() -> None:
    counts = Counts()
    for i in range(DISTINCT * 2):
        counts.add((f"rare/{i}",), 1, 10)
        if i % 10 == 0:
            counts.add(("frequent",), 1, 10)
    assert len(counts.messages) <= DISTINCT
    assert not counts.exact
    assert counts.top(1) == [(("frequent",), DISTINCT * 2 // 10 + 1, (DISTINCT * 2 // 10 + 1) * 10)]


def on_a_terminal(width: int, *arguments: object) -> list[str]:
    """The lines that a command prints to a terminal of this width."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")} | {"NO_COLOR": "1"}
    done = subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=follower, env=env)
    os.close(follower)
    out = b""
    with contextlib.suppress(OSError):
        while part := os.read(leader, 1 << 16):
            out += part
    os.close(leader)
    assert done.wait() == 0
    return out.decode().replace("\r\n", "\n").splitlines()


def test_a_long_topic_does_not_hide_what_follows_it(tmp_path: Path) -> None:
    topic = "plants/north/hall-7/line-3/machine-12/temperature/sensor-0042"
    tcp = Tcp()
    packets = [*tcp.open(), *tcp.send(0, connect("c", 4)), *tcp.send(0, publish(topic, b"21.5", 4, identifier=77))]
    (tmp_path / "t.pcap").write_bytes(pcap(packets))
    line = on_a_terminal(80, "decode", tmp_path / "t.pcap")[-1]
    assert re.search(r"plants/\S*…\S*0042 qos=1 id=77 size=4 \| 21.5$", line), line
    assert cell_len(line) <= 80
    assert topic in on_a_terminal(140, "decode", tmp_path / "t.pcap")[-1]
    assert cell_len(on_a_terminal(64, "decode", tmp_path / "t.pcap")[-1]) <= 64


@pytest.mark.parametrize("command", ["", "columns", "convert", "decode", "serve", "summary"])
def test_help_can_be_pasted_and_names_no_file_that_is_not_installed(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = subprocess.run([*COMMAND, *command.split(), "--help"], capture_output=True, text=True, check=True).stdout
    assert "docs/" not in said
    lines = [line.strip() for line in said.split("Examples")[1].splitlines()[1:]]
    examples = list(itertools.takewhile(bool, lines))
    assert examples
    assert all(re.match(r"(\S.*\| )?wirefmt( |$)|tcpdump|xxd", line) for line in examples), examples
    panels = [line for line in said.splitlines() if "as in:" in line and line.startswith("│")]
    assert all(re.search(r"as in: \S.*\S +│$", line) and line.count('"') % 2 == 0 for line in panels), panels


def test_examples_of_help_are_run(wirefmt: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example that reads captures is run, on captures of these names."""
    monkeypatch.setenv("COLUMNS", "100")
    said = {
        command: subprocess.run([*COMMAND, command, "--help"], capture_output=True, text=True, check=True).stdout
        for command in ("decode", "summary", "columns")
    }
    monkeypatch.chdir(tmp_path)
    shutil.copy(V5, "trace.pcap")
    (tmp_path / "captures").mkdir()
    shutil.copy(V5, "captures/a.pcap")
    Path("captures/a.pcapng.gz").write_bytes(gzip.compress(V5.read_bytes()))
    ran = 0
    for command, text in said.items():
        for line in re.findall(rf"^ (wirefmt {command}\b[^|\n]*)", text, re.M):
            _, *arguments = shlex.split(line)
            code, _, err = wirefmt(*arguments)
            assert code == 0, (line, err)
            ran += 1
    assert ran >= 9


def test_columns_are_listed(wirefmt: Callable[..., Any]) -> None:
    _, out, _ = wirefmt("columns")
    names = [line.split()[0] for line in out.decode().splitlines() if "  " in line]
    assert names[2:] == [*(column.name for column in COLUMNS), "converted"]
    _, out, _ = wirefmt("columns", "mqtt", "kind")
    lines = out.decode().splitlines()
    assert any(line.split()[:2] == ["mqtt.topic_filters", "list<string>"] for line in lines)
    assert lines[-1].split()[:2] == ["kind", "string"]
    code, _, err = wirefmt("columns", "mqt")
    assert (code, "no column 'mqt'; did you mean mqtt" in err) == (2, True)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["decode", "--columns", "ts,mqtt.ret"], ["ts,mqtt.retain", "ts,mqtt.retain_available"]),
        (["decode", "--columns", "payl"], ["payload", "payload_size"]),
        (["summary", "--protocol", "amqp"], ["amqp091", "amqp10"]),
        (["decode", "--decode-as", "tcp.port==1,rock"], ["tcp.port==1,rocketmq"]),
        (["decode", "--filter", "qos > 0 and payload_"], ["qos > 0 and payload_size"]),
        (["decode", "--filter", "kind == 'PUBL"], ["kind == 'PUBLISH'"]),
        (["decode", "--filter", "kind in ('PUBLISH', 'basic.del"], ["kind in ('PUBLISH', 'basic.deliver'"]),
        (["decode", "--filter", "status != 'g"], ["status != 'gap'"]),
        (["columns", "client"], ["client_id"]),
        (["connections", "--filter", "closed_"], ["closed_by"]),
        (["connections", "--filter", "reason == 'keep"], ["reason == 'keep-alive'"]),
        (
            ["operations", "--filter", "kind == 'publish' and outcome != 'ack"],
            ["kind == 'publish' and outcome != 'acknowledged'"],
        ),
        (["paths", "--filter", "publish_protocol == 'm"], ["publish_protocol == 'mqtt'"]),
        (["paths", "--filter", "lat"], ["latency_ns"]),
        (["findings", "--filter", "severity != 'n"], ["severity != 'note'"]),
        (["diagnose", "--filter", "rule == 'keep"], ["rule == 'keep-alive-missed'"]),
        (["latency", "--filter", "dur"], ["duration_ns"]),
        (["trace", "7", "--filter", "payload_"], ["payload_size", "payload_hash"]),
    ],
)
def test_completion_knows_columns_protocols_and_kinds(typed: Any, offered: Any) -> None:
    complete = ShellComplete(wirefmt_group, {}, "wirefmt", "_WIREFMT_COMPLETE")
    assert [item.value for item in complete.get_completions(typed[:-1], typed[-1])] == offered


def test_completion_of_a_shell() -> None:
    words = {"COMP_WORDS": "wirefmt summary --protocol m", "COMP_CWORD": "3", "_WIREFMT_COMPLETE": "bash_complete"}
    code = "import sys; sys.argv = ['wirefmt']; from wirefmt.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | words)
    assert done.stdout == "plain,mqtt\n"


def test_every_column_can_be_filtered_by() -> None:
    schema = pa.schema(capture.read(V5).schema)
    for column in COLUMNS:
        Filter(f"{column.name} is not None").compile(schema)


def test_samples_are_small() -> None:
    assert sum(p.stat().st_size for p in Path(SAMPLES).iterdir()) < 2_000_000
