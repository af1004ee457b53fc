"""`wirefmt connections`, `operations`, `paths`, `findings`: what is made of messages, written as `wirefmt decode` writes them."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import rich_click as click

from wirefmt.spec.insight import TABLES

from .grid import GridWriter
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
from .views import VIEWS


class Told(NamedTuple):
    """What the help of a command says."""

    does: str
    examples: tuple[str, ...]
    columns: str  # an example of --columns


HELP: Final[dict[str, Told]] = {
    "connections": Told(
        "One row for each TCP connection: who, when, what it did, and why it ended.",
        (
            "wirefmt connections trace.pcap",
            "wirefmt connections trace.pcap --filter \"reason not in ('orderly', 'open')\"",
            "wirefmt connections 'captures/*.pcap' --columns client_id,closed,reason,reason_text --format csv",
            "wirefmt connections trace.pcap --all-connections -o connections.parquet",
        ),
        "client_id,closed,reason",
    ),
    "operations": Told(
        "One row for each request with its outcome: publishes and deliveries with their acknowledgements, logins, declares.",
        (
            "wirefmt operations trace.pcap",
            "wirefmt operations trace.pcap --filter \"kind == 'deliver' and outcome != 'acknowledged'\"",
            "wirefmt operations trace.pcap --filter 'duration_ns > 1000000' --format jsonl",
            "wirefmt operations 'captures/*.pcap' -o operations.parquet",
        ),
        "started,kind,destination,outcome",
    ),
    "paths": Told(
        "One row for each copy of a message that reached a consumer, from its publish, across connections and protocols.",
        (
            "wirefmt paths trace.pcap",
            "wirefmt paths trace.pcap --filter 'latency_ns > 1000000000'",
            "wirefmt paths trace.pcap --filter 'deliver_ts is None' --format csv",
            "wirefmt paths 'captures/*.pcap' -o paths.parquet",
        ),
        "publish_ts,latency_ns,publish_destination",
    ),
    "findings": Told(
        "One row for each thing that is wrong. wirefmt diagnose shows the same, worst first.",
        (
            "wirefmt findings trace.pcap",
            "wirefmt findings trace.pcap --filter \"severity == 'error'\"",
            "wirefmt findings 'captures/*.pcap' --format jsonl",
            "wirefmt findings trace.pcap -o findings.parquet",
        ),
        "ts,severity,rule,text",
    ),
}  # fmt: skip


def _command(table: str) -> click.Command:
    told = HELP[table]

    def run(
        files: tuple[str, ...],
        filter: str | None,
        limit: int | None,
        columns: str | None,
        out: str | None,
        fmt: str | None,
        mark_formulas: bool,
        **options: Any,
    ) -> int:
        return _write(table, files, filter, limit, columns, out, fmt, mark_formulas, options)

    run.__doc__ = (
        f"{told.does}\n\n    FILES are captures (pcap, pcapng, also compressed), directories, globs in quotes, URLs, or - for "
        "standard input.\n\n    [b]Examples[/b]\n\n    \b\n    " + "\n    ".join(told.examples)
    )
    for decorate in (
        click.option_panel("Output", help=f"The output, as in: -o {table}.parquet, or --format jsonl | jq ."),
        click.option_panel("Columns", help=f"Columns of a row, as in: --columns {told.columns}"),
        click.option_panel("Rows", help="Which rows come out; the filter names columns of this table"),
        click.option_panel(PANELS[0][0], help=PANELS[0][1]),
        output_options,
        columns_option(table, told.columns),
        limit_option("rows"),
        *([capture_option("all_connections", "Rows")] if table == "connections" else []),
        capture_option("expose_credentials", "Columns"),
        capture_options,
    ):
        run = decorate(run)
    return click.command(table)(run)


def _write(
    table: str,
    files: tuple[str, ...],
    filter: str | None,
    limit: int | None,
    columns: str | None,
    out: str | None,
    fmt: str | None,
    mark_formulas: bool,
    options: dict[str, Any],
) -> int:
    fmt = chosen_format(out, fmt, mark_formulas)
    condition = parse_filter(filter, table)
    view = VIEWS[table] if fmt == "table" and columns is None else None
    shown = view.columns(table) if view else None if columns is None else named_columns(columns, TABLES[table])
    read = columns_to_read(shown, table)
    with open_captures(files, out=out, table=table, filter=filter, columns=read, **options) as reader:
        import pyarrow as pa

        schema = pa.schema(reader.schema)
        if shown is not None:
            schema = select(no_rows(schema), shown).schema
        rows = write_rows(
            batches(reader, to_terminal=to_terminal(out)), schema, out, fmt,
            make=None if view is None else lambda sink, _: GridWriter(sink, view),
            mark=mark_formulas, limit=limit, live=is_live(files),
            change=partial(select, names=shown) if shown is not None else lambda part: part,
        )  # fmt: skip
        if not rows and limit != 0:
            tell_empty(condition, whole=fmt == "table", rows=table)
        return verdict(reader, table)


COMMANDS: Final = tuple(_command(table) for table in HELP if table in TABLES)
