"""`wirefmt decode`: the message table of captures, row by row or into a file."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import rich_click as click
from click.core import ParameterSource

from wirefmt.spec.options import FLAGS

from .convert import TARGETS, conversion_options
from .extract import COLUMNS as EXTRACTED
from .extract import Extractor
from .inputs import (
    PANELS,
    batches,
    capture_option,
    capture_options,
    columns_to_read,
    is_live,
    open_captures,
    parse_filter,
    tell_empty,
    verdict,
)
from .lines import COLUMNS as LINE_COLUMNS
from .lines import LinesWriter
from .names import complete_columns
from .output import FORMATS, CsvWriter, Writer, format_of, no_rows, open_writer

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of a converted message that a table shows.
_SHOWN = 64


@click.command()
@capture_options
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N messages.", panel="Rows")
@click.option(
    "--columns", metavar="A,B,C", help="Only these columns, in this order, such as kind,mqtt.flags; "
    "the command wirefmt columns lists them.",
    panel="Columns", shell_complete=complete_columns,
)  # fmt: skip
@capture_option("payload", "Columns")
@capture_option("payload_max", "Columns")
@capture_option("expose_credentials", "Columns")
@capture_option("raw", "Columns")
@capture_option("detail", "Columns")
@capture_option("vlan", "Columns")
@click.option(
    "--as", "to", type=click.Choice(TARGETS), panel="Conversion",
    help="Convert messages of AMQP 1.0, AMQP 0.9.1 and MQTT: adds the column converted with raw, losses, rule, error.",
)  # fmt: skip
@conversion_options
@click.option(
    "-o", "--out", metavar="OUT",
    help="A file or URL; its suffix selects the format (.gz and .zst compress). By default standard output.",
    panel="Output",
)  # fmt: skip
@click.option(
    "--format", "fmt", type=click.Choice(list(FORMATS)), help="Format, if no suffix selects it. \\[default: table]",
    panel="Output",
)  # fmt: skip
@click.option(
    "--mark-formulas", is_flag=True, panel="Output",
    help="CSV: an apostrophe before texts that a spreadsheet would take for formulas.",
)  # fmt: skip
@click.option(
    "--extract", metavar="DIR", help="Also write each payload to a file of its own in this empty directory.",
    panel="Output",
)  # fmt: skip
@click.option_panel(PANELS[0][0], help=PANELS[0][1])
@click.option_panel(PANELS[1][0], help=PANELS[1][1])
@click.option_panel("Columns", help="Columns of a message, as in: --columns ts,payload --payload-max 80")
@click.option_panel("Conversion", help="Messages in another protocol, as in: --as amqp10 -o m.parquet")
@click.option_panel("Output", help="The output, as in: -o messages.parquet, or --format jsonl | jq .kind")
def decode(
    files: tuple[str, ...],
    filter: str | None,
    limit: int | None,
    columns: str | None,
    raw: bool | None,
    detail: bool | None,
    vlan: bool | None,
    to: str | None,
    out: str | None,
    fmt: str | None,
    mark_formulas: bool,
    extract: str | None,
    **options: Any,
) -> int:
    """Decode captures to the message table.

    FILES are captures (pcap, pcapng, also compressed), directories, globs in quotes, URLs, or - for standard input.

    [b]Examples[/b]

    \b
    wirefmt decode trace.pcap
    wirefmt decode trace.pcap --filter "qos >= 1 and 'plant/' in destination"
    wirefmt decode 'captures/*.pcapng.gz' --no-payload -o messages.parquet
    wirefmt decode trace.pcap --columns ts,payload --format jsonl | jq .payload
    wirefmt decode trace.pcap --as amqp10 --filter "raw is not None" -o m.jsonl
    """
    fmt = format_of(out, fmt)
    if mark_formulas and fmt != "csv":
        raise click.UsageError("--mark-formulas is for CSV: --format csv, or -o FILE.csv")
    condition = parse_filter(filter)
    shown = _shown(columns, fmt, to)
    reading = {name: options.pop(name) for name in FLAGS if name in options}
    if to is None:
        _refuse_without_as(options)
    if extract is not None and not reading["payload"]:
        raise click.UsageError("--extract needs payloads; it excludes --no-payload")
    needed = _needed(shown, to)
    if needed is not None and extract is not None:
        needed = [*needed, *EXTRACTED]
    extractor = Extractor(extract) if extract is not None else None
    with open_captures(
        files,
        out=out,
        filter=filter,
        columns=columns_to_read(needed),
        raw=True if to is not None else raw,
        detail=detail,
        vlan=vlan,
        **reading,
    ) as reader:
        import pyarrow as pa

        from wirefmt.convert.table import convert_table, converted_field
        from wirefmt.spec.columns import CONVERTED

        schema = pa.schema(reader.schema)
        for_people = fmt == "table" and not any(name.startswith(f"{CONVERTED.name}.") for name in shown or ())
        if to is not None:
            schema = schema.append(pa.field(CONVERTED.name, pa.string()) if for_people else converted_field())
        if shown is not None:
            schema = select(no_rows(schema), shown).schema
        to_terminal = out is None and sys.stdout.isatty()
        rows = 0
        read = batches(reader, to_terminal=to_terminal)
        live = is_live(files)
        make: Callable[[IO[bytes], pa.Schema], Writer] | None = None
        if mark_formulas:
            make = partial(CsvWriter, mark=True)
        elif fmt == "table" and columns is None:
            make = LinesWriter
        with open_writer(out, fmt, schema, make) as writer:
            for batch in read:
                part = batch.slice(0, None if limit is None else limit - rows)
                rows += part.num_rows
                if extractor is not None:
                    extractor.write(part)
                if to is not None:
                    part = convert_table(part, to=to, **options)  # type: ignore[arg-type]
                    if for_people:
                        part = _for_people(part)
                writer.write(part if shown is None else select(part, shown))
                if live:
                    writer.flush()
                if rows == limit:
                    break
        if not rows and limit != 0:
            tell_empty(condition, whole=fmt == "table")
        return verdict(reader)


def _shown(columns: str | None, fmt: str, to: str | None) -> list[str] | None:
    """The columns of the output; None for all."""
    from wirefmt.errors import suggest
    from wirefmt.spec.columns import CONVERTED
    from wirefmt.spec.table import COLUMNS

    if columns is None:
        if fmt != "table":
            return None
        return [*LINE_COLUMNS, CONVERTED.name] if to else list(LINE_COLUMNS)
    known = [column.name for column in COLUMNS] + [CONVERTED.name] * (to is not None)
    shown = list(dict.fromkeys(name.strip() for name in columns.split(",") if name.strip()))
    for name in shown:
        column, _, field = name.partition(".")
        if column not in known:
            raise click.UsageError(f"--columns: no column {column!r}; {suggest(column, known)}")
        if field and field not in (fields := _fields_of(column)):
            raise click.UsageError(f"--columns: {column} has no field {field!r}; {suggest(field, fields)}")
    return shown


def _fields_of(column: str) -> list[str]:
    """The fields of a struct column."""
    from wirefmt.spec.columns import CONVERTED
    from wirefmt.spec.table import COLUMNS

    kind = next(c.type for c in (*COLUMNS, CONVERTED) if c.name == column)
    return re.findall(r"(?:struct<|,)(\w+):", kind)


def select(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Columns in this order; `mqtt.flags` is the field of a struct column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = []
    for name in names:
        column, _, field = name.partition(".")
        found.append(pc.struct_field(batch.column(column), field) if field else batch.column(column))
    return pa.record_batch(found, names=names)


def _refuse_without_as(options: dict[str, Any]) -> None:
    """Refuse options of the conversion without --as."""
    context = click.get_current_context()
    assert context is not None
    for name in options:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            option = next(p.opts[0] for p in context.command.params if p.name == name)
            raise click.UsageError(f"{option} is for --as amqp10|amqp091|mqtt5")


def _needed(shown: list[str] | None, to: str | None) -> list[str] | None:
    """The columns of the message table that the output columns need."""
    if shown is None or to is None:
        return shown
    from wirefmt.convert.table import NEEDED
    from wirefmt.spec.columns import CONVERTED

    return [*(name for name in shown if name.partition(".")[0] != CONVERTED.name), *NEEDED]


def _for_people(part: pa.RecordBatch) -> pa.RecordBatch:
    """The bytes of `converted` in hexadecimal; the reason for a refusal is added to the error of the row."""
    import pyarrow as pa

    made = part.column(part.num_columns - 1)
    texts = [None if o is None else o[:_SHOWN].hex() for o in made.field("raw").to_pylist()]
    columns = [*part.columns[:-1], pa.array(texts, pa.string())]
    names = part.schema.names
    if "error" in names:
        at = names.index("error")
        reasons = [why and f"not converted: {why}" for why in made.field("error").to_pylist()]
        both = zip(columns[at].to_pylist(), reasons, strict=True)
        columns[at] = pa.array(["; ".join(filter(None, texts)) or None for texts in both], pa.string())
    return pa.record_batch(columns, names=names)
