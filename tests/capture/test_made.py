"""tests/captures/made is what lib/made_captures.py makes, and its decodes are tshark's."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lib.captures import Row, lines_in, manifest, name_of, octets_of
from lib.made_captures import captures, frames_of, messages_of

ROWS = {name_of(row): row for row in manifest() if row["file"].startswith("made/")}
VERSION = "4.0"  # another version may show other fields


@pytest.fixture(scope="module")
def tshark() -> None:
    if shutil.which("tshark") is None:
        pytest.skip("needs tshark (apt install tshark)")
    said = subprocess.run(["tshark", "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"\d+\.\d+", said)
    if found is None or found[0] != VERSION:
        pytest.skip(f"needs tshark {VERSION} (this one is {found[0] if found else 'unknown'})")


def test_captures_are_what_is_made() -> None:
    made = captures()
    assert {name: octets_of(row) for name, row in ROWS.items()} == {name: m.octets for name, m in made.items()}
    assert {name: bool(row["protocols"]) for name, row in ROWS.items()} == {name: m.whole for name, m in made.items()}


@pytest.mark.usefixtures("tshark")
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_decodes_are_those_of_tshark(row: Row, tmp_path: Path) -> None:
    path = tmp_path / name_of(row)
    path.write_bytes(octets_of(row))
    assert lines_in(row, row["frames"]) == frames_of(path)
    if "expected" in row:
        assert lines_in(row, row["expected"]) == messages_of(path)
