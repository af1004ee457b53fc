"""The examples of docs/recovery.md run."""

from __future__ import annotations

import pytest

from lib.pages import examples

PAGE = "recovery.md"


@pytest.mark.parametrize("block", examples(PAGE), ids=lambda block: str(len(block)))
def test_examples_run(block: str) -> None:
    exec(compile(block, PAGE, "exec"), {})
