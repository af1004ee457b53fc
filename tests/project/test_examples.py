"""Property tests repeat their examples, whatever else is loaded."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

NUMBERS = tuple(range(10**15, 10**15 + 50))


def test_examples_do_not_depend_on_the_modules_that_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where new examples are wanted (EXPLORE), constants of modules are among them."""
    (tmp_path / "constants.py").write_text(f"NUMBERS = {NUMBERS}")
    spec = importlib.util.spec_from_file_location("constants", tmp_path / "constants.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "constants", module)
    spec.loader.exec_module(module)
    drawn = set()

    @settings(max_examples=2000, database=None)
    @given(st.integers())
    def draw(number: int) -> None:
        drawn.add(number)

    draw()
    assert len(drawn) > 1000
    assert bool(drawn & set(NUMBERS)) == (os.environ.get("EXPLORE", "0") != "0")
