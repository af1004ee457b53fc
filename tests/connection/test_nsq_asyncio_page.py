"""The examples of docs/nsq-asyncio.md and docs/phpmq-asyncio.md run."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.pages import examples, output_of


@pytest.mark.parametrize(("page", "last"), [("nsq-asyncio.md", "b'four' 1"), ("phpmq-asyncio.md", "b'one'")])
def test_the_examples_run(page: str, last: str, tmp_path: Path) -> None:
    blocks = examples(page)
    assert blocks
    for block in blocks:
        assert output_of(block, tmp_path).splitlines()[-1] == last
