"""`wirefmt columns`: the columns of the message table, with their types and what they mean."""

from __future__ import annotations

import rich_click as click

from .names import complete_columns


@click.command()
@click.argument("names", nargs=-1, metavar="[NAMES...]", shell_complete=complete_columns)
def columns(names: tuple[str, ...]) -> None:
    """List the columns of the message table, or the fields of a protocol's column.

    NAMES are columns, such as kind, or columns with fields, such as mqtt. Without NAMES, all columns are listed.

    [b]Examples[/b]

    \b
    wirefmt columns
    wirefmt columns mqtt amqp091
    wirefmt columns | grep topic
    """
    from wirefmt.errors import suggest
    from wirefmt.protocols import PROTOCOLS
    from wirefmt.spec.columns import CONVERTED, CONVERTED_FIELDS, Column
    from wirefmt.spec.table import COLUMNS

    from .table import show_table

    known = {column.name: column for column in (*COLUMNS, CONVERTED)}
    fields: dict[str, tuple[Column, ...]] = {row.name: row.columns().FIELDS for row in PROTOCOLS}
    fields[CONVERTED.name] = CONVERTED_FIELDS
    for name in names:
        if name not in known:
            raise click.UsageError(f"no column {name!r}; {suggest(name, known)}")
    rows: list[tuple[str, str, str]] = []
    for name in names or known:
        column = known[name]
        rows.append((name, "struct" if name in fields else column.type, column.meaning))
        if names:
            rows += [(f"{name}.{field.name}", field.type, field.meaning) for field in fields.get(name, ())]
    show_table("Columns", ("column", "type", "meaning"), rows)
    if not names:
        click.echo(f"\nwirefmt columns {next(iter(fields))} lists the fields of a struct: --columns kind,mqtt.flags")
