"""`capture.read(filter=...)`: the rows for which a filter is true, in the columns that were asked for. What the language means is
tested in tests/cli/test_decode.py."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lib.paths import ROOT
from wirefmt import _core, capture
from wirefmt.spec.filter import FilterError
from wirefmt.spec.table import COLUMNS

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

SAMPLES = sorted((ROOT / "samples").glob("*.pcap"))
V5 = ROOT / "samples" / "mosquitto-paho-v5.pcap"

#: Filters, and the same in Python.
FILTERS: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
    ("kind == 'PUBLISH' and qos >= 1", lambda r: r["kind"] == "PUBLISH" and r["qos"] >= 1),
    ("mqtt.retain", lambda r: bool((r["mqtt"] or {}).get("retain"))),
    ("len(payload) > 10", lambda r: len(r["payload"] or b"") > 10),
    ("destination.contains('/')", lambda r: "/" in (r["destination"] or "")),
    ("src_port == 1883", lambda r: r["src_port"] == 1883),
    ("status != 'ok'", lambda r: r["status"] != "ok"),
    ("headers['k'] is not None", lambda r: "k" in dict(r["headers"] or ())),
    ("ts_ns > 0", lambda r: True),
    ("ts_ns < 0", lambda r: False),
]


def rows(source: Any, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.table(capture.read(source, **options)).to_pylist()
    return found


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_rows_are_those_for_which_it_is_true(path: Any) -> None:
    whole = rows(path)
    for text, python in FILTERS:
        kept = [row for row in whole if python(row)]
        assert rows(path, filter=text) == kept, text
        for how in ({}, {"batch_rows": 1}, {"batch_bytes": 300}):
            chosen = [{"mqtt": row["mqtt"], "kind": row["kind"]} for row in kept]
            assert rows(path, filter=text, columns=["mqtt", "kind"], **how) == chosen, text
        threaded = rows(path, filter=text, threads=2)
        assert sorted(threaded, key=repr) == sorted(kept, key=repr)


def test_batches_are_batches_and_counters_count_all_rows() -> None:
    with capture.read(V5, filter="kind == 'PUBACK'", columns=["kind", "qos"]) as reader:
        batches = list(reader)
        assert {type(batch) for batch in batches} == {_core.Batch}
        assert reader.schema.names == batches[0].names == ["kind", "qos"]
        assert set(batches[0]["kind"]) == {"PUBACK"}
        assert sum(map(len, batches)) < reader.stats["rows"] == len(rows(V5))


def test_a_decoder_takes_it_as_well() -> None:
    decoder = capture.CaptureDecoder(filter="kind == 'CONNECT'", columns=["client_id"])
    decoder.begin_file("x")
    decoder.feed(V5.read_bytes())
    decoder.end_file()
    batch = decoder.take(final=True)
    assert batch is not None
    assert batch.names == ["client_id"]
    assert len(batch) == sum(row["kind"] == "CONNECT" for row in rows(V5))
    assert decoder.take(final=True) is None
    none = capture.CaptureDecoder(filter="kind == 'none'")
    none.begin_file("x")
    none.feed(V5.read_bytes())
    assert none.take(final=True) is None


@pytest.mark.parametrize("name", ["raw", "detail"])
def test_a_column_on_request_is_filled_if_the_filter_names_it(name: str) -> None:
    assert rows(V5, filter=f"{name} is not None") == [row for row in rows(V5, **{name: True}) if row[name] is not None]
    assert len(rows(V5, filter=f"{name} is not None", columns=["kind"])) > 50
    assert rows(V5, filter=f"{name} is not None", **{name: False}) == []


@pytest.mark.parametrize(
    ("text", "says", "at"),
    [("qso == 1", "no column 'qso'; did you mean qos?", 0), ("kind == 1", "string cannot be compared with 1", 8)],
)
def test_a_wrong_one_is_refused_before_anything_is_read(text: str, says: str, at: int) -> None:
    with pytest.raises(FilterError) as fault:
        capture.read(V5, filter=text)
    assert says in str(fault.value)
    assert fault.value.at == at
    assert isinstance(fault.value, ValueError)


def test_only_a_filter_needs_arrow() -> None:
    script = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from wirefmt import capture\n"
        f"assert sum(map(len, capture.read({str(V5)!r}))) > 100\n"
        "capture.Options(filter='qos == 1')\n"
        f"try: capture.read({str(V5)!r}, filter='qos == 1')\n"
        "except ModuleNotFoundError as missing: print(missing)\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "a filter needs pyarrow: pip install 'wirefmt[cli]'"


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_some_rows_of_every_column(path: Any) -> None:
    for batch in capture.read(path, raw=True, detail=True, batch_rows=100):
        arrow = pa.record_batch(batch)
        for numbers in ([], [0], [len(batch) - 1], list(range(0, len(batch), 3)), list(range(len(batch)))):
            some = _core.some_rows(batch, pa.array(numbers, pa.int64()).to_numpy().tobytes(), COLUMNS)
            made = pa.record_batch(some)
            made.validate(full=True)
            assert made.equals(arrow.take(pa.array(numbers, pa.int64())))
            few = _core.some_rows(
                batch, pa.array(numbers, pa.int64()).to_numpy().tobytes(), COLUMNS, ["kind", "headers"]
            )
            assert pa.record_batch(few).equals(made.select(["kind", "headers"]))
        for number in (-1, len(batch)):
            with pytest.raises(IndexError, match=f"no row {number}"):
                _core.some_rows(batch, number.to_bytes(8, sys.byteorder, signed=True), COLUMNS)
