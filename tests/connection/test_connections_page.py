"""The examples of docs/connections.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "connections.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


def test_there_are_examples() -> None:
    assert len(BLOCKS) > 2


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_run(block: str) -> None:
    exec(compile(block, str(PAGE), "exec"), {})
