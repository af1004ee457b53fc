"""_core/table_columns.pxi, columns.pxi of the protocols and docs/message-table.md from spec/table.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType

from tables.text import enum

#: Letters before the numbers of a protocol's columns: of its struct in the message table, of its decode_batch.
PREFIXES = {
    "mqtt": ("M", "B"),
    "amqp091": ("A9", "A9B"),
    "amqp10": ("A10", "A10B"),
    "rocketmq": ("RM", "RB"),
    "nsq": ("NSQ_F", "NSQ_B"),
    "phpmq": ("PHPMQ_F", "PHPMQ_B"),
}


def numbers(name: str, prefix: str, columns: Iterable[tuple[str, str, str]]) -> list[str]:
    return enum(name, ((f"{prefix}_{c[0].upper()}", i) for i, c in enumerate(columns)))


def table_columns(spec: ModuleType) -> list[str]:
    """Numbers of the message table's columns that all protocols share, T_."""
    shared = [(f"T_{c.name.upper()}", i) for i, c in enumerate(spec.COLUMNS) if not c.type.startswith("struct<")]
    return enum("TableColumn", shared)


def protocol_columns(protocol: str) -> Callable[[ModuleType], list[str]]:
    """Numbers of a protocol's column of the message table, of that column's fields, and of the columns of decode_batch."""

    def lines(spec: ModuleType) -> list[str]:
        at = next(i for i, c in enumerate(spec.COLUMNS) if c.name == protocol)
        field, batch = PREFIXES[protocol]
        title, upper = protocol.capitalize(), protocol.upper()
        return [
            *enum(f"{title}TableColumn", [(f"T_{upper}", at)]),
            *numbers(f"{title}TableField", field, getattr(spec, f"{upper}_FIELDS")),
            *numbers(f"{title}BatchColumn", batch, getattr(spec, f"{upper}_BATCH")),
        ]

    return lines


def table_page(spec: ModuleType) -> list[str]:
    """docs/message-table.md: the columns and their meaning."""
    intro = """
# The message table

One row is one protocol message, or one error found while reading: then `kind` is null, and `status` and `error` describe the
error. The table is the same in Arrow, on the command line and in Spark; only `wirefmt.spec.table.COLUMNS` names the columns.
All columns may be null. Times are UTC. Secrets are hidden unless credentials are exposed; [secrets](secrets.md) has the
rule.

| column | type | meaning |
|---|---|---|"""
    further = """
## {0}

The struct column `{0}` has the fields of this protocol that have no common column. On the command line and in Spark a
field is named `{0}.{1}`. A field is null if the message does not have it.

| field | type | meaning |
|---|---|---|"""

    def rows(columns: Iterable[tuple[str, str, str]]) -> list[str]:
        # a struct's fields have a separate table
        return [
            f"| `{name}` | {kind if kind[:7] != 'struct<' else 'struct'} | {said} |" for name, kind, said in columns
        ]

    lines = [*intro.splitlines(), *rows(spec.COLUMNS)]
    for name, fields in structs(spec):
        lines += [*further.format(name, fields[0].name).splitlines(), *rows(fields)]
    return lines


def structs(spec: ModuleType) -> list[tuple[str, tuple]]:
    """The struct columns and their fields, in the order of the table."""
    return [(c.name, getattr(spec, f"{c.name.upper()}_FIELDS")) for c in spec.COLUMNS if c.type.startswith("struct<")]
