"""Completion in a shell: functions that click calls with what has been typed of a word."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from wirefmt.spec.values import values_of

if TYPE_CHECKING:
    import click


@cache
def column_names() -> tuple[str, ...]:
    """Columns of the message table, and their fields after a dot."""
    from wirefmt.protocols import PROTOCOLS
    from wirefmt.spec.table import COLUMNS

    fields = (f"{row.name}.{field.name}" for row in PROTOCOLS for field in row.columns().FIELDS)
    return (*(column.name for column in COLUMNS), *fields)


def _beginning(names: tuple[str, ...], word: str) -> list[str]:
    """Names that begin with a word; fields only once their dot is there."""
    return [
        name
        for name in names
        if name.startswith(word) and ("." in word or "." not in name or name not in column_names())
    ]


def complete_columns(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The last one of names with commas between them."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning(column_names(), last)]


def complete_protocols(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The name of a protocol, in a rule after its comma."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in values_of("protocol") if name.startswith(last)]


def complete_filter(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The last word of a filter: a column, or a value of the column that it is compared with."""
    value = re.search(r"(\w+) *(?:[!=]=|(?:not )?in \(.*?) *(['\"])([^'\"]*)$", incomplete)
    if value:
        column, quote, last = value.groups()
        before = incomplete[: len(incomplete) - len(last)]
        return [f"{before}{name}{quote}" for name in values_of(column) if name.startswith(last)]
    last = re.search(r"[\w.]*$", incomplete)[0]  # type: ignore[index]
    before = incomplete[: len(incomplete) - len(last)]
    return [before + name for name in _beginning(column_names(), last)]
