"""docs/dialects.md: every difference between the dialects is there, in words."""

from __future__ import annotations

import re

import pytest

from lib.paths import ROOT
from wirefmt.convert import DIALECTS, TABLES, words
from wirefmt.convert.vocabulary import How, When

PAGE = (ROOT / "docs" / "dialects.md").read_text(encoding="utf-8")
SECTIONS = dict(zip(re.findall(r"^## (.+)$", PAGE, re.M), re.split(r"^## .+\n", PAGE, flags=re.M)[1:], strict=True))
NAMES = {"amqp10": "AMQP 1.0", "amqp091": "AMQP 0.9.1", "mqtt5": "MQTT 5.0"}


def section_of(table: str) -> str:
    source, target = table.split(">")
    return SECTIONS[f"{NAMES[source]} to {NAMES[target]}"]


@pytest.mark.parametrize("name", list(DIALECTS))
def test_every_change_is_there(name: str) -> None:
    for change in DIALECTS[name].changes:
        text = section_of(change.table)
        lines = text.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith(f"| `{change.id}` |"))
        block = [lines[at]]
        for line in lines[at + 1 :]:
            if not line.startswith("|  |"):
                break
            block.append(line)
        mine = [line for line in block if f"| `{name}` |" in line]
        assert any(change.why.replace("|", "\\|") in line for line in mine), change
        for row in change.rows:
            assert any(words.does(row).replace("|", "\\|") in line for line in mine), (change, row)
    assert f"`{name}`" in PAGE


def test_rows_are_as_many_as_changes() -> None:
    rows = len(re.findall(r"^\|  \|  \| `", PAGE, re.M))
    assert rows == sum(len(dialect.changes) for dialect in DIALECTS.values())
    assert len(SECTIONS) == len(TABLES)


def test_every_word_is_used() -> None:
    """No condition and no conversion is there for nothing, and each has words of its own."""
    every = [row for table in TABLES for row in (*table.fields, *table.types)]
    every += [row for dialect in DIALECTS.values() for change in dialect.changes for row in change.rows]
    assert {row.when for row in every} == set(When)
    assert {row.how for row in every} == set(How)
    for words_of in (When, How):
        assert len({word.text for word in words_of}) == len(words_of)
