"""What the commands that print rows of a table share: options, the names of columns, and the loop that writes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, TypeVar

import rich_click as click

from .names import complete_columns_of
from .output import FORMATS, CsvWriter, Writer, format_of, open_writer

if TYPE_CHECKING:
    import pyarrow as pa

    from wirefmt.spec.columns import Column

Command = TypeVar("Command", bound=Callable[..., object])
Make = Callable[[IO[bytes], "pa.Schema"], Writer]


def limit_option(rows: str = "messages") -> Callable[[Command], Command]:
    return click.option(
        "-n", "--limit", type=click.IntRange(min=0), metavar="N", help=f"Stop after N {rows}.", panel="Rows"
    )


def columns_option(table: str = "messages", example: str = "kind,mqtt.flags") -> Callable[[Command], Command]:
    command = "wirefmt columns" if table == "messages" else f"wirefmt columns --table {table}"
    return click.option(
        "--columns",
        metavar="A,B,C",
        help=f"Only these columns, in this order, such as {example}; the command {command} lists them.",
        panel="Columns",
        shell_complete=complete_columns_of(table),
    )


def output_options(command: Command) -> Command:
    """Where rows go: -o, --format, --mark-formulas."""
    for decorate in (
        click.option(
            "--mark-formulas", is_flag=True, panel="Output",
            help="CSV: an apostrophe before texts that a spreadsheet would take for formulas.",
        ),
        click.option(
            "--format", "fmt", type=click.Choice(list(FORMATS)), panel="Output",
            help="Format, if no suffix selects it. \\[default: table]",
        ),
        click.option(
            "-o", "--out", metavar="OUT", panel="Output",
            help="A file or URL; its suffix selects the format (.gz and .zst compress). By default standard output.",
        ),
    ):  # fmt: skip
        command = decorate(command)
    return command


def chosen_format(out: str | None, fmt: str | None, mark_formulas: bool) -> str:
    """The format of the output. UsageError: no format has the suffix, or it has no formulas."""
    fmt = format_of(out, fmt)
    if mark_formulas and fmt != "csv":
        raise click.UsageError("--mark-formulas is for CSV: --format csv, or -o FILE.csv")
    return fmt


def named_columns(columns: str, known: Sequence[Column]) -> list[str]:
    """The columns of --columns. UsageError: there is no such column or field."""
    from wirefmt.errors import suggest

    types = {column.name: column.type for column in known}
    shown = list(dict.fromkeys(name.strip() for name in columns.split(",") if name.strip()))
    for name in shown:
        column, _, field = name.partition(".")
        if column not in types:
            raise click.UsageError(f"--columns: no column {column!r}; {suggest(column, types)}")
        if field and field not in (fields := re.findall(r"(?:struct<|,)(\w+):", types[column])):
            raise click.UsageError(f"--columns: {column} has no field {field!r}; {suggest(field, fields)}")
    return shown


def select(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Columns in this order; `mqtt.flags` is the field of a struct column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = []
    for name in names:
        column, _, field = name.partition(".")
        found.append(pc.struct_field(batch.column(column), field) if field else batch.column(column))
    return pa.record_batch(found, names=names)


def write_rows(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    out: str | None,
    fmt: str,
    *,
    make: Make | None = None,
    mark: bool = False,
    limit: int | None = None,
    live: bool = False,
    change: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda part: part,
) -> int:
    """Write batches, at most `limit` rows. Returns the number of rows.

    schema: of the output, which `change` makes of the rows. mark: marks formulas in CSV. live: rows appear as they arrive.
    """
    rows = 0
    with open_writer(out, fmt, schema, partial(CsvWriter, mark=True) if mark else make) as writer:
        for batch in batches:
            part = batch.slice(0, None if limit is None else limit - rows)
            rows += part.num_rows
            writer.write(change(part))
            if live:
                writer.flush()
            if rows == limit:
                break
    return rows


def to_terminal(out: str | None) -> bool:
    """Do rows go to the terminal?"""
    return out is None and sys.stdout.isatty()
