"""The commands of the tables that are made of messages: formats, filters, columns, terminals, and what each of them answers.

Truths about the captures are those of the scripts that recorded them (tests/data/insight).
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from lib.paths import DATA

pytest.importorskip("rich_click", reason="needs rich-click (pip install 'wirefmt[cli]')")

from rich.cells import cell_len

from wirefmt import capture
from wirefmt.cli.app import run
from wirefmt.cli.app import wirefmt as wirefmt_group
from wirefmt.cli.diagnose import show, worst_first
from wirefmt.cli.grid import span
from wirefmt.cli.latency import GROUPS, Times
from wirefmt.cli.tables import HELP
from wirefmt.cli.views import VIEWS
from wirefmt.spec.insight import TABLES

MADE = tuple(name for name in TABLES if name != "messages")
FOLDER = DATA / "insight"
ERRORS, CROSSING, TAKEOVER, SILENT, NSQ = (
    FOLDER / f"{name}.pcap.gz"
    for name in ("amqp-errors", "crossing", "mqtt-takeover", "mqtt-keep-alive", "nsq-trouble")
)


@pytest.fixture
def wirefmt(capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    """Runs a command here: (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        sys.stdout.flush()
        capfdbinary.readouterr()
        code = run([str(a) for a in arguments])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


def table_of(source: Path, table: str, **options: Any) -> pa.Table:
    with capture.read(source, table=table, **options) as reader:
        return pa.table(reader)


def on_terminal(width: int, *arguments: object) -> list[str]:
    """The lines of a command whose standard output is a terminal of this width."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    command = [sys.executable, "-m", "wirefmt.cli", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=other, stderr=subprocess.DEVNULL, env=os.environ | {"NO_COLOR": "1"})
    os.close(other)
    text = b""
    while True:
        try:
            part = os.read(main, 1 << 16)
        except OSError:  # the end of a terminal
            break
        if not part:
            break
        text += part
    os.close(main)
    assert process.wait() == 0
    return text.decode().replace("\r\n", "\n").rstrip("\n").split("\n")


# ---- every table in every format


@pytest.mark.parametrize("table", MADE)
def test_every_table_has_a_command_a_view_and_help(wirefmt: Callable[..., Any], table: str) -> None:
    code, out, _ = wirefmt(table, "--help")
    text = re.sub(r"[│\s]+", " ", out)
    assert code == 0
    for words in ("--filter", "--columns", "--format", "--limit", "Examples", *HELP[table].examples):
        assert words in text, words
    assert VIEWS[table].columns(table)


@pytest.mark.parametrize("example", [e for table in MADE for e in HELP[table].examples])
def test_examples_of_help_run(example: str, tmp_path: Path) -> None:
    """Those that name trace.pcap, as a shell runs them."""
    command = example.replace("trace.pcap", str(ERRORS)).replace("'captures/*.pcap'", f"'{FOLDER}/amqp*.gz'")
    shell = command.replace("wirefmt", f"{sys.executable} -m wirefmt.cli", 1)
    done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("table", MADE)
def test_formats_agree(wirefmt: Callable[..., Any], tmp_path: Path, table: str) -> None:
    truth = table_of(ERRORS, table)
    assert truth.num_rows
    for suffix in ("parquet", "arrow"):
        assert wirefmt(table, ERRORS, "-o", tmp_path / f"x.{suffix}")[0] == 0
    assert pyarrow.parquet.read_table(tmp_path / "x.parquet").to_pylist() == truth.to_pylist()
    with pyarrow.ipc.open_file(tmp_path / "x.arrow") as file:
        assert file.read_all().equals(truth)
    lines = wirefmt(table, ERRORS, "--format", "jsonl")[1].splitlines()
    assert [set(json.loads(line)) for line in lines] == [
        {name for name, value in row.items() if value is not None} for row in truth.to_pylist()
    ]
    records = list(csv.DictReader(io.StringIO(wirefmt(table, ERRORS, "--format", "csv")[1])))
    assert len(records) == truth.num_rows
    assert list(records[0]) == truth.column_names
    code, text, err = wirefmt(table, ERRORS)
    assert (code, err) == (0, "")
    assert len(text.splitlines()) == truth.num_rows + 2  # in a pipe a row is a line, after date and header


@pytest.mark.parametrize("table", MADE)
def test_columns_and_limit(wirefmt: Callable[..., Any], table: str) -> None:
    names = [column.name for column in TABLES[table]][:4][::-1]
    code, out, _ = wirefmt(
        table, CROSSING if table == "paths" else ERRORS, "--columns", ",".join(names), "--format", "csv", "-n", 2
    )
    assert code == 0
    assert out.splitlines()[0].replace('"', "") == ",".join(names)
    assert len(out.splitlines()) == 3
    assert wirefmt(table, ERRORS, "--columns", names[0])[1].split()[0] == names[0]
    code, out, err = wirefmt(table, ERRORS, "--columns", "nothing")
    assert (code, out) == (2, "")
    assert "no column 'nothing'" in err
    listed = wirefmt("columns", "--table", table)[1]
    assert all(column.name in listed for column in TABLES[table])


@pytest.mark.parametrize("table", MADE)
def test_filters_name_columns_of_the_table(wirefmt: Callable[..., Any], table: str) -> None:
    assert wirefmt(table, ERRORS, "--filter", "port < 0")[1:] == ("", f"no {table} for which the filter holds\n")
    code, _, err = wirefmt(table, ERRORS, "--filter", "keep_alive == 1")
    assert code == 2
    assert "no column 'keep_alive'" in err


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", [ERRORS, CROSSING, NSQ], ids=lambda path: path.name)
@pytest.mark.parametrize("table", MADE)
def test_lines_fit_a_terminal(table: str, name: Path, width: int) -> None:
    lines = on_terminal(width, table, name)
    assert max(map(cell_len, lines)) <= width
    whole = " ".join(" ".join(lines).split())
    for row in table_of(name, table).to_pylist():
        if text := row.get("reason_text"):  # a text is never cut
            assert " ".join(text.split()) in whole


# ---- what they say


def test_connections_say_why(wirefmt: Callable[..., Any]) -> None:
    rows = [json.loads(line) for line in wirefmt("connections", TAKEOVER, "--format", "jsonl")[1].splitlines()]
    assert sorted(row["reason"] for row in rows) == ["orderly"] * 2 + ["taken-over"] * 7
    text = wirefmt("connections", SILENT)[1]
    assert "keep-alive" in text
    assert "nothing from the client for 5.17 s, 3.00 s allowed; the server closed" in text
    assert text.splitlines()[0] == "2026-11-27 UTC, server 127.0.0.1:1883"


def test_what_is_common_is_in_the_header(wirefmt: Callable[..., Any]) -> None:
    first, second, *_ = wirefmt("connections", ERRORS)[1].splitlines()
    assert first == "2026-11-27 UTC, server 127.0.0.1:5672, amqp091"
    assert "protocol" not in second
    both = wirefmt("connections", CROSSING)[1].splitlines()
    assert "protocol" in both[1]
    assert "server" in both[1]


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, ""), (0, "0.00 ns"), (999, "999 ns"), (1000, "1.00 µs"), (14_520_000, "14.5 ms"), (999_600_000, "1.00 s"),
        (3_360_000_000, "3.36 s"), (599 * 10**9, "599 s"), (600 * 10**9, "10.0 min"), (3 * 3600 * 10**9, "3.00 h"),
    ],
)  # fmt: skip
def test_spans(ns: int | None, text: str) -> None:
    assert span(ns) == text


def test_percentiles_are_those_of_all_times(wirefmt: Callable[..., Any]) -> None:
    out = wirefmt("latency", ERRORS, NSQ, CROSSING, "--by", "protocol", "--format", "jsonl", "--flows", "in-file")[1]
    found = {(row["kind"], row["protocol"]): row for row in map(json.loads, out.splitlines())}
    times: dict[tuple[str, str], list[int]] = {}
    for name in (ERRORS, NSQ, CROSSING):
        for row in table_of(name, "operations").to_pylist():
            if row["duration_ns"] is not None:
                times.setdefault((row["kind"], row["protocol"]), []).append(row["duration_ns"])
        for row in table_of(name, "paths").to_pylist():
            if row["latency_ns"] is not None:
                times.setdefault(("publish to delivery", row["publish_protocol"]), []).append(row["latency_ns"])
    assert {key: row["count"] for key, row in found.items()} == {key: len(all) for key, all in times.items()}
    for key, all in times.items():
        all.sort()
        for percentile, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
            exact = all[-int(-part * len(all) // 1) - 1]
            assert found[key][f"{percentile}_ns"] == pytest.approx(exact, rel=0.006)
        assert found[key]["max_ns"] == all[-1]


def test_latency_counts_groups_beyond_its_bound_together() -> None:
    times = Times(["destination"])
    columns = {
        "kind": ["publish"] * (GROUPS + 3),
        "destination": [f"d{i}" for i in range(GROUPS + 3)],
        "duration_ns": [1000] * (GROUPS + 3),
    }
    times.add("operations", pa.RecordBatch.from_pydict(columns))
    groups = times.groups(10)
    assert len(times.counts) == GROUPS + 1
    assert (groups[0].values, groups[0].total) == (("(others)",), 3)


def test_latency_shows_bars_and_message_kinds_first(wirefmt: Callable[..., Any]) -> None:
    head, *lines = wirefmt("latency", CROSSING)[1].splitlines()
    assert head.split()[:3] == ["kind", "destination", "count"]
    assert re.search(r"\d+(µs|ms|s)\.\.\d+(ms|s)$", head)
    kinds = ("publish to delivery", "publish", "deliver")
    found = [next((kind for kind in kinds if line.startswith(kind)), "") for line in lines]
    assert found[:7] == [kinds[0]] * 3 + [kinds[1]] * 2 + [kinds[2]] * 2
    assert all(re.search("[▁▂▃▄▅▆▇█]", line) for line in lines)
    assert "no column 'destinatio'; did you mean" in wirefmt("latency", CROSSING, "--by", "destinatio")[2]


@pytest.mark.parametrize("number", [7000, 7001, 7002, 7003])
def test_a_message_is_traced_across_protocols_and_an_application(wirefmt: Callable[..., Any], number: int) -> None:
    """MQTT to AMQP 0.9.1, republished there after 350 ms, and to MQTT again: the truth of the capture."""
    out = wirefmt("trace", f"bridge-weight-{number}", CROSSING, "--format", "jsonl")[1]
    steps = [json.loads(line) for line in out.splitlines()]
    assert [(step["kind"], step["protocol"], step["client_port"]) for step in steps] == [
        ("publish", "mqtt", 49109), ("deliver", "amqp091", 49270), ("publish", "amqp091", 49270), ("deliver", "mqtt", 57925),
    ]  # fmt: skip
    assert 347 <= steps[2]["delay_ns"] / 1e6 <= 389
    text = wirefmt("trace", f"bridge-weight-{number}", CROSSING)[1]
    assert text.splitlines()[-1].startswith("2 publishes, 2 deliveries, ")


def test_messages_that_only_share_a_correlation_are_apart(wirefmt: Callable[..., Any]) -> None:
    """Three messages of one job: nobody has received one of them before another one was published."""
    out = wirefmt("trace", "job-export", CROSSING, "--format", "jsonl")[1]
    steps = [json.loads(line) for line in out.splitlines()]
    assert [(step["trace"], step["message_id"]) for step in steps] == [
        (i // 2 + 1, f"export-{i // 2}") for i in range(6)
    ]
    assert wirefmt("trace", "job-export", CROSSING, "-n", 2)[1].startswith("the first 2 messages:")
    code, out, err = wirefmt("trace", "no such message", CROSSING)
    assert (code, out) == (0, "")
    assert "no message has" in err


def test_sql_joins_tables(wirefmt: Callable[..., Any]) -> None:
    pytest.importorskip("duckdb", reason="needs duckdb (pip install 'wirefmt[sql]')")
    query = (
        "with c as (select * from connections) select a.reason, count(*) n from c a join c b using (flow_id) "
        "join messages using (flow_id) where kind is not null group by all order by a.reason"
    )
    code, out, err = wirefmt("sql", ERRORS, query, "--format", "jsonl")
    assert (code, err) == (0, "")
    counts = {row["reason"]: row["n"] for row in map(json.loads, out.splitlines())}
    with capture.read(ERRORS, columns=["kind"], filter="kind is not None") as reader:
        assert sum(counts.values()) == pa.table(reader).num_rows
    assert set(counts) == {"orderly", "refused", "protocol-error"}
    assert wirefmt("sql", ERRORS, "select 1 as x")[1].split() == ["x", "1"]
    assert wirefmt("sql", ERRORS, "select count(*) n from messages", "--filter", "kind == 'basic.publish'")[
        1
    ].split() == ["n", "1"]
    assert wirefmt("sql", ERRORS, "select count(payload) n from messages", "--no-payload")[1].split() == ["n", "0"]
    for query, says in (
        ("select nothing from connections", "nothing"),
        ("selec 1", "syntax error"),
        ("select * from t", "t"),
    ):
        code, out, err = wirefmt("sql", ERRORS, query)
        assert (code, out) == (2, "")
        assert "QUERY: " in err
        assert says in err


def test_summary_has_ends_of_connections(wirefmt: Callable[..., Any]) -> None:
    text = wirefmt("summary", TAKEOVER)[1]
    assert re.search(r"7 +taken-over .*gate-2 \(127\.0\.0\.1:\d+\) +gate-2 logged in again", text)
    told = json.loads(wirefmt("summary", TAKEOVER, "--json")[1])
    assert {row["reason"]: row["connections"] for row in told["connections"]} == {"taken-over": 7, "orderly": 2}
    filtered = json.loads(wirefmt("summary", TAKEOVER, "--json", "--filter", "kind == 'CONNECT'")[1])
    assert (filtered["messages"], filtered["connections"]) == (9, [])


def test_summary_names_the_option_that_decrypts(wirefmt: Callable[..., Any]) -> None:
    folder = DATA / "tls/recorded"
    text = wirefmt("summary", folder / "old-tls10.pcap.gz")[1]
    assert re.search(r"1 +neither a key log nor a secrets block: --keylog FILE", text)
    assert "weak-tls" in text
    text = wirefmt("summary", folder / "expired.pcap.gz", "--keylog", folder / "expired.log")[1]
    assert "--keylog" not in text
    assert "certificate-not-valid" in text


# ---- findings, as far as they do not depend on the rules


def finding(**values: Any) -> dict[str, Any]:
    names = (
        "ts", "severity", "rule", "protocol", "flow_id", "client_ip", "client_port", "client_id", "server_ip", "server_port",
        "destination", "queue", "message_id", "text", "count", "capture", "frames",
    )  # fmt: skip
    return dict.fromkeys(names) | {"count": 1} | values


def test_findings_are_shown_worst_first(capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        finding(severity="note", rule="prefetch-one", text="a", ts="2026-01-01T00:00:00.000001Z"),
        finding(severity="error", rule="lost", text="b", count=2),
        finding(
            severity="error", rule="takeover-fight", text="two clients fight: give each of them its own id", count=9,
            client_id="gate", client_ip="10.0.0.1", client_port=5, queue="q\x1b[1m", frames=list(range(1, 9)), capture="x.pcap",
        ),
    ]  # fmt: skip
    found = sorted(given, key=worst_first)
    assert [row["rule"] for row in found] == ["takeover-fight", "lost", "prefetch-one"]
    show(found)
    text = capsys.readouterr().out
    assert text.splitlines()[:5] == [
        "2 errors, 1 note", "", "error   takeover-fight  gate (10.0.0.1:5), q\\x1b[1m, 9 times",
        "    two clients fight: give each of them its own id", "    frames 1, 2, 3, 4, 5, 6 ..., x.pcap",
    ]  # fmt: skip
    show([])
    assert "nothing found" in capsys.readouterr().out
    show(found, 1)
    assert "2 more findings: wirefmt diagnose" in capsys.readouterr().out


if "findings" in TABLES:

    def test_diagnose_sets_the_exit_code(wirefmt: Callable[..., Any]) -> None:
        assert "diagnose" in wirefmt_group.commands
        code, out, _ = wirefmt("diagnose", TAKEOVER, "--fail-on", "note")
        assert code == 3
        assert "takeover-fight" in out
        assert wirefmt("diagnose", TAKEOVER, "--filter", "rule == 'nothing'", "--fail-on", "note")[0] == 0
