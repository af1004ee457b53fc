"""`wirefmt sql`: DuckDB over the tables of captures, which are read in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import rich_click as click

from wirefmt.spec.insight import TABLES

from .inputs import PANELS, capture_option, capture_options, open_captures, parse_filter, table_batches, verdict
from .output import no_rows
from .rows import chosen_format, output_options, write_rows

if TYPE_CHECKING:
    from wirefmt.capture import Reader
    from wirefmt.spec.filter import Filter


@click.command()
@capture_options
@click.argument("query", metavar="QUERY")
@capture_option("payload", "Captures")
@capture_option("expose_credentials", "Captures")
@capture_option("all_connections", "Captures")
@output_options
@click.option_panel(PANELS[0][0], help=PANELS[0][1])
@click.option_panel(
    "Rows", help="The filter names columns of messages, and is for them alone: write WHERE for the others"
)
@click.option_panel("Output", help="The output, as in: -o result.parquet")
def sql(
    files: tuple[str, ...],
    query: str,
    filter: str | None,
    payload: bool,
    out: str | None,
    fmt: str | None,
    mark_formulas: bool,
    **options: Any,
) -> int:
    """Answer a question in SQL: DuckDB over the tables messages, connections, operations ..., read in one pass.

    FILES are captures (pcap, pcapng, also compressed), directories, globs in quotes, URLs, or - for standard input. The last
    argument is the query. wirefmt columns --table NAME lists the columns of a table. Needs duckdb: pip install 'wirefmt\\[sql]'.

    [b]Examples[/b]

    \b
    wirefmt sql trace.pcap "select reason, count(*) from connections group by all"
    wirefmt sql trace.pcap "select destination, count(*) n from operations where outcome = 'lost' group by all order by n desc"
    wirefmt sql 'captures/*.pcap' "from connections where client_id = 'sensor-7'" --format jsonl
    wirefmt sql trace.pcap "select kind, quantile_cont(duration_ns, 0.99) / 1e6 ms from operations group by all" -o ms.csv
    """
    import duckdb
    import pyarrow as pa

    from wirefmt.capture.reader import Schema

    condition = parse_filter(filter)
    fmt = chosen_format(out, fmt, mark_formulas)
    with duckdb.connect() as database:
        for name in TABLES:
            database.register("batch", no_rows(pa.schema(Schema(None, name))))
            database.execute(f"create table {name} as from batch")
        with _told(duckdb.Error):
            if len(statements := database.extract_statements(query)) == 1:
                database.execute(f"explain {statements[0].query}")  # a fault is reported before anything is read
        tables = tuple(name for name in TABLES if re.search(rf"\b{name}\b", query, re.I))
        with open_captures(files, out=out, tables=tables or ("connections",), **options) as reader:
            if tables:
                _load(database, reader, condition, payload)
            with _told(duckdb.Error):
                if (answer := database.sql(query)) is not None:
                    result = pa.RecordBatchReader.from_stream(answer)
                    write_rows(result, result.schema, out, fmt, mark=mark_formulas)
            return verdict(reader, "rows")


def _load(database: Any, reader: Reader, condition: Filter | None, payload: bool) -> None:
    """Put all rows into the tables of the database: it may scan a table twice."""
    for name, batch in table_batches(reader):
        if name == "messages" and condition is not None:
            batch = batch.filter(condition.compile(batch.schema))
        hidden = " replace (null as payload)" if name == "messages" and not payload else ""
        database.register("batch", batch)
        database.execute(f"insert into {name} select *{hidden} from batch")
    database.unregister("batch")


@contextmanager
def _told(errors: type[Exception]) -> Iterator[None]:
    """A fault of the query is wrong usage."""
    try:
        yield
    except errors as fault:
        raise click.UsageError(f"QUERY: {fault}") from None
