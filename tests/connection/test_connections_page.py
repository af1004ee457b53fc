"""The examples of docs/connections.md run."""

from __future__ import annotations

import pytest

from lib.pages import examples

PAGE = "connections.md"
BLOCKS = examples(PAGE)


def test_there_are_examples() -> None:
    assert len(BLOCKS) > 2


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_run(block: str) -> None:
    exec(compile(block, PAGE, "exec"), {})
