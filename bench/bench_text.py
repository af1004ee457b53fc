"""How fast do rows of the message table become JSON lines and CSV?

    python bench/bench_text.py [FOLDER]

`json_lines` and `csv_lines` write the batches of two captures: clients that publish with MQTT 5, and five protocols. Beside
them, in CPU time, in one run: a copy of the text (memcpy into memory written before); dicts of the rows, as the command's tables
make them of columns, alone and with json.dumps and orjson after it, which write the same text; pyarrow.csv, which gets columns
whose binaries and nested values are text already; and DuckDB, if it is installed, which writes other text. Then the command on
both captures, about 50 MB each, in CPU time of the processes, beside `tshark -T ek` (a line of JSON for each packet), if it is
installed. FOLDER keeps the captures.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_capture
import inputs
import numpy
import orjson
import pyarrow
import pyarrow.csv
from ratios import compare, versions

from wirefmt import capture
from wirefmt.batch import csv_lines, json_lines
from wirefmt.cli.text import compact_json, json_objects

MESSAGES = 250_000
ROWS = 32_768  # of a capture, for the writers alone


def batches(path: Path) -> list[Any]:
    found: list[Any] = []
    with capture.read(path) as reader:
        for batch in reader:
            found.append(pyarrow.record_batch(batch))
            if sum(map(len, found)) >= ROWS:
                break
    return found


def objects(batch: Any) -> list[dict[str, Any]]:
    """Rows as dicts of what JSON has, without nulls, made column by column."""
    return json_objects(list(zip(batch.schema.names, batch.columns, strict=True)), len(batch))


def flat(batch: Any) -> Any:
    """Columns that pyarrow.csv can write: fields of structs as columns, binaries and nested values as text."""
    columns: dict[str, Any] = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pyarrow.types.is_struct(field.type):
            names = [f"{field.name}.{child.name}" for child in field.type]
            columns |= zip(names, column.flatten(), strict=True)
        else:
            columns[field.name] = column
    for name, column in columns.items():
        if pyarrow.types.is_nested(column.type) or pyarrow.types.is_binary(column.type):
            texts = [None if value is None else str(value) for value in column.to_pylist()]
            columns[name] = pyarrow.array(texts, pyarrow.string())
    return pyarrow.record_batch(columns)


def with_arrow(parts: list[Any]) -> bytes:
    out = io.BytesIO()
    with pyarrow.csv.CSVWriter(out, parts[0].schema) as writer:
        for part in parts:
            writer.write_batch(part)
    return out.getvalue()


def writers(title: str, path: Path, folder: Path) -> None:
    parts = batches(path)
    count = sum(map(len, parts))
    flattened = [flat(part) for part in parts]
    text = numpy.frombuffer(b"".join(map(json_lines, parts)), dtype="u1")
    written = text.copy()
    peers: dict[str, Callable[[], object]] = {
        "wirefmt, json_lines": lambda: [json_lines(part) for part in parts],
        "wirefmt, csv_lines": lambda: [csv_lines(part, header=False) for part in parts],
        "memcpy of the JSON": lambda: numpy.copyto(written, text),
        "dicts of the rows": lambda: list(map(objects, parts)),
        "dicts and json.dumps": lambda: ["\n".join(map(compact_json, objects(part))) for part in parts],
        "dicts and orjson": lambda: [b"\n".join(map(orjson.dumps, objects(part))) for part in parts],
        "pyarrow.csv, columns that are text": lambda: with_arrow(flattened),
    }
    try:
        import duckdb
    except ImportError:
        pass
    else:
        database = duckdb.connect()
        database.execute("set threads = 1")
        database.register("rows", pyarrow.Table.from_batches(parts))
        peers["DuckDB, JSON"] = lambda: database.execute(f"copy rows to '{folder}/duckdb.json' (format json)")
        peers["DuckDB, CSV"] = lambda: database.execute(f"copy rows to '{folder}/duckdb.csv' (format csv)")
    compare(f"Rows as text, {title}", peers, units=count, unit="row", rounds=3, clock=time.process_time)


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def children() -> float:
    """CPU seconds of processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def commands(title: str, path: Path) -> None:
    ours = (sys.executable, "-m", "wirefmt.cli", "decode", str(path), "--format")
    peers: dict[str, Callable[[], object]] = {
        f"wirefmt decode --format {name}": lambda name=name: run(*ours, name)  # type: ignore[misc]
        for name in ("jsonl", "csv", "arrow", "parquet")
    }
    if shutil.which("tshark"):
        peers["tshark -T ek"] = lambda: run("tshark", "-n", "-r", str(path), "-T", "ek")
    compare(f"A capture as text, {title}", peers, units=path.stat().st_size, unit="byte", rounds=3, clock=children)


def main() -> None:
    print(versions("wirefmt", "pyarrow", "orjson", "duckdb"))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else made)
        for title, packets in (
            ("MQTT", inputs.capture(MESSAGES, payload=128, version=5)),
            ("five protocols", bench_capture.mixed(50_000_000, 100)),
        ):
            path = folder / f"{title.replace(' ', '-')}.pcap"
            inputs.write_pcap(path, packets)
            writers(title, path, folder)
            commands(title, path)


if __name__ == "__main__":
    main()
