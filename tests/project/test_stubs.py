"""The stub of the core says what the core has, and the generated files are what their tables say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lib.paths import ROOT


def test_the_stub_says_what_the_core_has():
    pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")
    told = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "wirefmt._core", "--concise",
         "--allowlist", ROOT / "tests" / "project" / "stubtest_allowlist.txt"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr


def test_generated_files_are_fresh():
    told = subprocess.run(
        [sys.executable, ROOT / "tools" / "gen_tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
