"""Completion in a shell: functions that click calls with what has been typed of a word."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from wirefmt.spec.values import values_of

if TYPE_CHECKING:
    import click


@cache
def column_names(table: str = "messages") -> tuple[str, ...]:
    """Columns of a table; of the message table also their fields, after a dot."""
    from wirefmt.protocols import PROTOCOLS
    from wirefmt.spec.insight import TABLES

    protocols = PROTOCOLS if table == "messages" else ()
    fields = (f"{row.name}.{field.name}" for row in protocols for field in row.columns().FIELDS)
    return (*(column.name for column in TABLES[table]), *fields)


def _beginning(names: tuple[str, ...], word: str) -> list[str]:
    """Names that begin with a word; fields only once their dot is there."""
    return [
        name
        for name in names
        if name.startswith(word) and ("." in word or "." not in name or name not in column_names())
    ]


def complete_columns_of(table: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes the last one of columns with commas between them."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in _beginning(column_names(table), last)]

    return complete


complete_columns = complete_columns_of("messages")


def complete_protocols(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The name of a protocol, in a rule after its comma."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in values_of("protocol") if name.startswith(last)]


#: The table that the filter of a command is about, if it is not that of messages.
_FILTERED: Final = {
    **{name: name for name in ("connections", "operations", "paths", "findings")},
    "diagnose": "findings", "latency": "operations", "trace": "operations",
}  # fmt: skip


def complete_filter(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The last word of a filter: a column of the command's table, or a value of the column that it is compared with."""
    table = _FILTERED.get(context.info_name or "", "messages")
    value = re.search(r"(\w+) *(?:[!=]=|(?:not )?in \(.*?) *(['\"])([^'\"]*)$", incomplete)
    if value:
        column, quote, last = value.groups()
        before = incomplete[: len(incomplete) - len(last)]
        return [f"{before}{name}{quote}" for name in values_of(column, table) if name.startswith(last)]
    last = re.search(r"[\w.]*$", incomplete)[0]  # type: ignore[index]
    before = incomplete[: len(incomplete) - len(last)]
    return [before + name for name in _beginning(column_names(table), last)]
