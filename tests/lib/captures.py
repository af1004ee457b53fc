"""The captures of the tests (tests/captures), and further ones in the folders that WIREFMT_CAPTURES names."""

from __future__ import annotations

import atexit
import gzip
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lib.paths import CAPTURES

#: A row of a MANIFEST.jsonl, and its folder; tests/captures/README.md says what a row has.
Row = dict[str, Any]


@cache
def manifest() -> tuple[Row, ...]:
    """Rows of all folders. A capture that a folder before has too is left out."""
    found: dict[str, Row] = {}
    for folder in CAPTURES:
        for line in (folder / "MANIFEST.jsonl").read_text().splitlines():
            row = json.loads(line)
            found.setdefault(row["sha256"], row | {"folder": folder})
    return tuple(found.values())


def recorded() -> list[Row]:
    """The captures in tests/captures that were recorded: what was said, and by which programs, is known."""
    return [row for row in manifest() if row["folder"] == CAPTURES[0] and not row["file"].startswith("made/")]


def captures_of(protocol: str, *, counted: bool = False) -> list[Any]:
    """Parameters of a test: the captures of a protocol; `counted`: those in which a third decoder finds as many messages as
    the first."""
    return parameters(
        [
            row
            for row in manifest()
            if protocol in row["protocols"] and (not counted or row.get("crosscheck", {}).get("result") == "agrees")
        ]
    )


def parameters(rows: list[Row]) -> list[Any]:
    """Where there are none the test is skipped and says why."""
    if not rows:
        absent = pytest.mark.skip(reason="needs captures of others (a folder in WIREFMT_CAPTURES)")
        return [pytest.param({}, marks=absent, id="none")]
    return [pytest.param(row, id=name_of(row)) for row in rows]


def name_of(row: Row) -> str:
    return Path(row["file"]).name.removesuffix(".gz")


def path_of(row: Row) -> Path:
    return Path(row["folder"] / row["file"])


def octets_of(row: Row) -> bytes:
    return unpacked_octets(path_of(row))


def unpacked_octets(path: Path) -> bytes:
    octets = path.read_bytes()
    return gzip.decompress(octets) if path.suffix == ".gz" else octets


def lines_in(row: Row, name: str) -> list[dict[str, Any]]:
    """Lines of a file that a row names."""
    return list(map(json.loads, unpacked_octets(row["folder"] / name).decode().splitlines()))


def frames_name(row: Row) -> str:
    """The file of the decode packet by packet, if there is one."""
    return str(row.get("frames") or (row["expected"] if "robustness" in Path(row["file"]).parts else ""))


def row_of(name: str) -> Row:
    """The row of one of our captures: mosquitto-paho-v5.pcap."""
    return next(row for row in manifest() if name_of(row) == name)


@cache
def live(name: str) -> Path:
    """One of our captures of real peers, unpacked."""
    path = unpacked_folder() / name
    path.write_bytes(octets_of(row_of(name)))
    return path


@cache
def unpacked_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="wirefmt-captures-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
