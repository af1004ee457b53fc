"""The stubs say what the compiled modules have, and the generated files are what their tables say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lib.compiled import NAMES
from lib.paths import ROOT


def test_the_stubs_say_what_the_compiled_modules_have() -> None:
    pytest.importorskip("mypy", reason="needs mypy (pip install mypy)")
    told = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", *NAMES, "--concise",
         "--allowlist", ROOT / "tests" / "project" / "stubtest_allowlist.txt"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr


def test_generated_files_are_fresh() -> None:
    told = subprocess.run(
        [sys.executable, ROOT / "tools" / "gen_tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
