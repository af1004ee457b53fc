"""_core/table_columns.pxi and docs/message-table.md from spec/columns.py; columns.pxi of the protocols from NAME/columns.py,
of captures from spec/packets.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType

from tables.text import enum
from wirefmt.protocols import PROTOCOLS
from wirefmt.spec.columns import SHARED


def numbers(name: str, prefix: str, columns: Iterable[tuple[str, str, str]]) -> list[str]:
    return enum(name, ((f"{prefix}_{c[0].upper()}", i) for i, c in enumerate(columns)))


def table_columns(spec: ModuleType) -> list[str]:
    """Numbers of the message table's columns that all protocols share, T_."""
    first_struct = len(spec.SHARED)
    after_structs = first_struct + len(PROTOCOLS)
    return enum(
        "TableColumn",
        [
            *((f"T_{c.name.upper()}", i) for i, c in enumerate(spec.SHARED)),
            *((f"T_{c.name.upper()}", i) for i, c in enumerate(spec.ON_REQUEST, after_structs)),
        ],
    )


def packet_columns(spec: ModuleType) -> list[str]:
    """Numbers of the packets table's columns, P_."""
    return numbers("PacketColumn", "P", spec.COLUMNS)


def protocol_columns(protocol: str) -> Callable[[ModuleType], list[str]]:
    """Numbers of a protocol's column of the message table, of its fields, and of the columns of decode_batch."""

    def lines(columns: ModuleType) -> list[str]:
        at = len(SHARED) + [row.name for row in PROTOCOLS].index(protocol)
        field, batch = columns.LETTERS
        title, upper = protocol.capitalize(), protocol.upper()
        return [
            *enum(f"{title}TableColumn", [(f"T_{upper}", at)]),
            *numbers(f"{title}TableField", field, columns.FIELDS),
            *numbers(f"{title}BatchColumn", batch, columns.BATCH),
        ]

    return lines


def table_page(spec: ModuleType, columns_of: Callable[[str], ModuleType]) -> list[str]:
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

    structs = [(row.name, "struct<", f"other fields of {row.title}") for row in PROTOCOLS]
    lines = [*intro.splitlines(), *rows(spec.SHARED), *rows(structs), *rows(spec.ON_REQUEST)]
    for row in PROTOCOLS:
        fields = columns_of(row.name).FIELDS
        lines += [*further.format(row.name, fields[0].name).splitlines(), *rows(fields)]
    return lines
