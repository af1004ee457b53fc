"""The examples of docs/amqp091-asyncio.md run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lib.paths import ROOT

PAGE = ROOT / "docs" / "amqp091-asyncio.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_run(block: str, tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-W", "always", "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
