"""The examples of docs/amqp091-asyncio.md run."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.pages import examples, output_of

PAGE = "amqp091-asyncio.md"
BLOCKS = examples(PAGE)


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 4


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_run(block: str, tmp_path: Path) -> None:
    output_of(block, tmp_path)
