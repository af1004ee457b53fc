"""`wirefmt decode`: the message table of captures, row by row or into a file."""

from __future__ import annotations

import sys

import rich_click as click

from .inputs import PANELS, batches, capture_options, columns_to_read, open_captures, parse_filter, verdict
from .output import FORMATS, format_of, open_writer
from .table import COLUMNS as TABLE_COLUMNS


@click.command()
@capture_options
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N messages.", panel="Rows")
@click.option(
    "--columns", metavar="A,B,C", help="Only these columns, in this order; docs/message-table.md has them all.",
    panel="Columns",
)  # fmt: skip
@click.option("--no-payload", is_flag=True, help="Leave payloads out; payload_size stays.", panel="Columns")
@click.option(
    "--payload-max", type=click.IntRange(min=0), metavar="N", help="The first N octets of a payload.", panel="Columns"
)
@click.option("--expose-credentials", is_flag=True, help="Show passwords; they are left out else.", panel="Columns")
@click.option(
    "-o", "--out", metavar="OUT",
    help="A file or URL; its suffix says the format (.gz and .zst compress). Standard output if absent.",
    panel="Output",
)  # fmt: skip
@click.option(
    "--format", "fmt", type=click.Choice(list(FORMATS)), help="Format, where no suffix says it. \\[default: table]",
    panel="Output",
)  # fmt: skip
@click.option_panel(PANELS[0][0], help=PANELS[0][1])
@click.option_panel(PANELS[1][0], help=PANELS[1][1])
@click.option_panel(
    "Columns", help="What is told of a message, as in: --columns ts,destination,payload --payload-max 80"
)
@click.option_panel("Output", help="Where rows go, as in: -o messages.parquet, or --format jsonl | jq .destination")
def decode(
    files: tuple[str, ...],
    protocols: tuple[str, ...],
    decode_as: tuple[str, ...],
    tunnels: bool,
    flows: str,
    filter_text: str | None,
    limit: int | None,
    columns: str | None,
    no_payload: bool,
    payload_max: int | None,
    expose_credentials: bool,
    out: str | None,
    fmt: str | None,
) -> int:
    """Decode captures to the message table.

    FILES are captures (pcap, pcapng, also .gz and .zst), directories, globs in quotes, URLs, or - for standard input.

    [b]Examples[/b]

    \b
    wirefmt decode trace.pcap
    wirefmt decode trace.pcap --filter "kind == 'PUBLISH' and destination.startswith('plant/')" -n 20
    wirefmt decode 'captures/*.pcapng.gz' --no-payload -o messages.parquet
    wirefmt decode trace.pcap --columns ts,client_id,payload --format jsonl | jq .payload
    """
    fmt = format_of(out, fmt)
    condition = parse_filter(filter_text)
    shown = _shown(columns, fmt)
    with open_captures(
        files,
        out=out,
        protocols=protocols or None,
        decode_as=decode_as,
        tunnels=tunnels,
        flows=flows,
        columns=columns_to_read(shown, condition),
        payload=not no_payload,
        payload_max=payload_max,
        expose_credentials=expose_credentials,
    ) as reader:
        import pyarrow as pa

        schema = pa.schema(reader.schema)
        if shown is not None:
            schema = pa.schema([schema.field(name) for name in shown])
        to_terminal = out is None and sys.stdout.isatty()
        rows = 0
        with open_writer(out, fmt, schema) as writer:
            for batch in batches(reader, condition, progress=not to_terminal):
                part = batch.slice(0, None if limit is None else limit - rows)
                rows += part.num_rows
                writer.write(part if shown is None else part.select(shown))
                if rows == limit:
                    break
        if not rows and fmt == "table" and limit != 0:
            click.echo("no messages" + (" for which the filter holds" if condition else ""), err=True)
        return verdict(reader)


def _shown(columns: str | None, fmt: str) -> list[str] | None:
    """The columns that come out; None for all."""
    if columns is None:
        return list(TABLE_COLUMNS) if fmt == "table" else None
    from wirefmt.spec.table import COLUMNS

    from .filter import near

    known = [column.name for column in COLUMNS]
    shown = list(dict.fromkeys(name.strip() for name in columns.split(",") if name.strip()))
    for name in shown:
        if name not in known:
            raise click.UsageError(f"--columns: no column {name!r}; {near(name, known)}")
    return shown
