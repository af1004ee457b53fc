"""`wirefmt columns`: the columns of a table, with their types and what they mean."""

from __future__ import annotations

import rich_click as click

from wirefmt.spec.insight import TABLES

from .names import complete_columns


@click.command()
@click.option("--table", type=click.Choice(list(TABLES)), default="messages", show_default=True, help="Which table.")
@click.argument("names", nargs=-1, metavar="[NAMES...]", shell_complete=complete_columns)
def columns(names: tuple[str, ...], table: str) -> None:
    """List the columns of a table, or the fields of a protocol's column of the message table.

    NAMES are columns, such as kind, or columns with fields, such as mqtt. Without NAMES, all columns are listed.

    [b]Examples[/b]

    \b
    wirefmt columns
    wirefmt columns mqtt amqp091
    wirefmt columns | grep topic
    wirefmt columns --table connections
    """
    from wirefmt.errors import suggest
    from wirefmt.protocols import PROTOCOLS
    from wirefmt.spec.columns import CONVERTED, CONVERTED_FIELDS, Column

    from .table import show_table

    known = {column.name: column for column in TABLES[table]}
    fields: dict[str, tuple[Column, ...]] = {}
    if table == "messages":
        known[CONVERTED.name] = CONVERTED
        fields = {row.name: row.columns().FIELDS for row in PROTOCOLS} | {CONVERTED.name: CONVERTED_FIELDS}
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
    if fields and not names:
        click.echo(f"\nwirefmt columns {next(iter(fields))} lists the fields of a struct: --columns kind,mqtt.flags")
