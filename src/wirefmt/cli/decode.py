"""`wirefmt decode`: the message table of captures, row by row or into a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from .output import no_rows
from .rows import (
    chosen_format,
    columns_option,
    limit_option,
    named_columns,
    output_options,
    select,
    to_terminal,
    write_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of a converted message that a table shows.
_SHOWN = 64


@click.command()
@capture_options
@limit_option()
@columns_option()
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
@output_options
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
    fmt = chosen_format(out, fmt, mark_formulas)
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

        from wirefmt.spec.columns import CONVERTED

        schema = pa.schema(reader.schema)
        for_people = fmt == "table" and not any(name.startswith(f"{CONVERTED.name}.") for name in shown or ())
        if to is not None:
            from wirefmt.convert.table import convert_table, converted_field

            schema = schema.append(pa.field(CONVERTED.name, pa.string()) if for_people else converted_field())
        if shown is not None:
            schema = select(no_rows(schema), shown).schema

        def changed(part: pa.RecordBatch) -> pa.RecordBatch:
            if extractor is not None:
                extractor.write(part)
            if to is not None:
                part = convert_table(part, to=to, **options)  # type: ignore[arg-type]
                if for_people:
                    part = _for_people(part)
            return part if shown is None else select(part, shown)

        rows = write_rows(
            batches(reader, to_terminal=to_terminal(out)), schema, out, fmt,
            make=LinesWriter if fmt == "table" and columns is None else None,
            mark=mark_formulas, limit=limit, live=is_live(files), change=changed,
        )  # fmt: skip
        if not rows and limit != 0:
            tell_empty(condition, whole=fmt == "table")
        return verdict(reader)


def _shown(columns: str | None, fmt: str, to: str | None) -> list[str] | None:
    """The columns of the output; None for all."""
    from wirefmt.spec.columns import CONVERTED
    from wirefmt.spec.table import COLUMNS

    if columns is None:
        if fmt != "table":
            return None
        return [*LINE_COLUMNS, CONVERTED.name] if to else list(LINE_COLUMNS)
    return named_columns(columns, (*COLUMNS, CONVERTED) if to else COLUMNS)


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
