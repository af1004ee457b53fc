"""`wirefmt trace`: one message, from publish to delivery, and on where an application has published it again.

Publishes and deliveries belong together if a path says so (its `trace_id`). Those of no path are joined by `_causes`. All of them
are kept until the end of the captures.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import rich_click as click

from wirefmt.spec.insight import TABLES

from .grid import GridWriter, rows_of, span
from .inputs import PANELS, capture_option, capture_options, open_captures, table_batches, verdict
from .rows import chosen_format, output_options, write_rows
from .views import VIEWS, Cell, Row, counted

if TYPE_CHECKING:
    import pyarrow as pa

#: Kinds of operations that carry a message.
KINDS: Final = ("publish", "deliver", "get")
#: What the operations of one message may have in common.
_LINKS: Final = ("message_id", "correlation_id", "traceparent", "payload_hash")
#: A part of traceparent that is long enough to be searched for.
_TRACE: Final = 16
_NEEDED: Final = tuple(
    dict.fromkeys((*VIEWS["operations"].needs, "started_ns", "flow_id", *_LINKS, "capture", "response_frame"))
)
_KEY: Final = ("flow_id", "frame", "payload_hash")
#: Columns that the rows of a trace have beside those of operations.
_ADDED: Final = (("trace", "int64"), ("step", "int64"), ("delay_ns", "int64"))


@click.command()
@click.argument("value", metavar="VALUE")
@capture_options
@capture_option("expose_credentials", "Rows")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=10, show_default=True, metavar="N",
              help="The most messages to show, the first ones.", panel="Rows")  # fmt: skip
@output_options
@click.option_panel(PANELS[0][0], help=PANELS[0][1])
@click.option_panel("Rows", help="The filter names columns of operations, as in: --filter \"protocol == 'mqtt'\"")
@click.option_panel("Output", help="The output, as in: --format jsonl | jq .delay_ns")
def trace(
    value: str,
    files: tuple[str, ...],
    filter: str | None,
    limit: int,
    out: str | None,
    fmt: str | None,
    mark_formulas: bool,
    **options: Any,
) -> int:
    """Follow a message from its publisher to its consumers, step by step, with the time of each step.

    VALUE is its payload, message identifier, correlation identifier, traceparent or a trace identifier. FILES are captures (pcap,
    pcapng, also compressed), directories, globs in quotes, URLs, or - for standard input.

    [b]Examples[/b]

    \b
    wirefmt trace order-17 trace.pcap
    wirefmt trace '{"order":17}' 'captures/*.pcap'
    wirefmt trace 4bf92f3577b34da6a3ce929d0e0e4736 trace.pcap --format jsonl | jq .delay_ns
    """
    fmt = chosen_format(out, fmt, mark_formulas)
    tables = tuple(name for name in ("operations", "paths") if name in TABLES)
    with open_captures(files, out=out, tables=tables, **options) as reader:
        found = Messages(filter)
        for table, batch in table_batches(reader):
            found.add(table, batch)
        traces = list(islice(found.traces(value), limit + 1))
        if fmt == "table" and out is None:
            _show(traces, limit)
        else:
            made = _batch(traces[:limit])
            write_rows([made], made.schema, out, fmt, mark=mark_formulas)
        if not traces and fmt == "table":
            click.echo(f"no message has {value!r} as its payload, message, correlation or trace identifier", err=True)
        return verdict(reader, "messages")


class Messages:
    """The publishes and deliveries of captures, and the paths between them."""

    def __init__(self, filter: str | None) -> None:
        from .inputs import parse_filter

        self._filter = parse_filter(filter, "operations")
        self._operations: list[pa.RecordBatch] = []
        self._paths: list[pa.RecordBatch] = []

    def add(self, table: str, batch: pa.RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if table == "paths":
            self._paths.append(batch)
            return
        kept = pa.Table.from_batches([batch]).filter(pc.field("kind").isin(KINDS))
        if self._filter is not None:
            kept = kept.filter(self._filter.compile(batch.schema))
        self._operations += kept.select(_NEEDED).to_batches()

    def traces(self, value: str) -> Iterator[list[dict[str, Any]]]:
        """The operations of each message that has this value, in the order of the messages."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._operations:
            return
        table = pa.Table.from_batches(self._operations).sort_by(
            [("started_ns", "ascending"), ("request_frame", "ascending")]
        )
        keys = dict[tuple[Any, ...], list[int]]()
        if self._paths:  # the operations of a frame with several messages differ in what they carry
            columns = [table[name].to_pylist() for name in ("flow_id", "request_frame", "payload_hash")]
            for row, key in enumerate(zip(*columns, strict=True)):
                keys.setdefault(key, []).append(row)
        causes = _causes(table)
        roots = [_root(causes, row) for row in range(table.num_rows)]
        seen = set[int]()
        for seed in pc.indices_nonzero(_has(table, value)).to_pylist():
            if seed not in seen:
                rows = self._of_paths(table, seed, keys) or {i for i, root in enumerate(roots) if root == roots[seed]}
                seen.update(rows)
                chosen = sorted(rows)
                found = rows_of(table.take(chosen).combine_chunks().to_batches()[0])
                yield _with_delays(found, [causes[row] for row in chosen], chosen)

    def _of_paths(self, table: pa.Table, seed: int, keys: dict[tuple[Any, ...], list[int]]) -> set[int]:
        """The operations of all paths that have the trace of this one; none if no path has it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._paths:
            return set()
        paths = pa.Table.from_batches(self._paths)
        flow, frame, payload = (table[name][seed] for name in ("flow_id", "request_frame", "payload_hash"))
        mine = None
        for side in ("publish", "deliver"):
            same = pc.and_(pc.equal(paths[f"{side}_flow_id"], flow), pc.equal(paths[f"{side}_frame"], frame))
            if payload.is_valid:
                same = pc.and_kleene(same, pc.equal(paths[f"{side}_payload_hash"], payload))
            same = pc.fill_null(same, False)
            mine = same if mine is None else pc.or_(mine, same)
        traces = paths["trace_id"].filter(mine).drop_null().unique()
        found = set[int]()
        for side in ("publish", "deliver"):
            of = paths.filter(pc.is_in(paths["trace_id"], value_set=traces))
            for key in zip(*(of[f"{side}_{name}"].to_pylist() for name in _KEY), strict=True):
                found.update(keys.get(key, ()))
        return found


def _has(table: pa.Table, value: str) -> Any:
    """The rows that have the value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from wirefmt.insight import payload_hash

    tests = [pc.equal(table[name], value) for name in ("message_id", "correlation_id", "traceparent")]
    tests.append(pc.equal(table["payload_hash"], pa.scalar(payload_hash(value.encode()), pa.int64())))
    if len(value) >= _TRACE:
        tests.append(pc.match_substring(table["traceparent"], value))
    found = pc.fill_null(tests[0], False)
    for test in tests[1:]:
        found = pc.or_(found, pc.fill_null(test, False))
    return found.combine_chunks()


def _causes(table: pa.Table) -> list[int | None]:
    """For each row, in the order of time, the row that caused it.

    Of a delivery it is the last publish before it with the same message identifier, or else with the same payload. Of a publish
    it is the last delivery to its client with the same correlation identifier, trace or payload: the application publishes it
    again.
    """
    columns = [table[name].to_pylist() for name in ("kind", "client_id", "flow_id", *_LINKS)]
    publishes, deliveries = dict[Any, int](), dict[Any, int]()
    causes: list[int | None] = []
    for row, (kind, client, flow, message, correlation, parent, payload) in enumerate(zip(*columns, strict=True)):
        again = [("correlation", correlation), ("trace", parent and parent.split("-")[1:2]), ("payload", payload)]
        keys = [(client or flow, name, str(value)) for name, value in again if value is not None]
        if kind == "publish":
            causes.append(max((deliveries[key] for key in keys if key in deliveries), default=None))
            # a message without an identifier may get one on the way
            publishes |= {("message", message): row, ("payload", payload): row}
        else:
            named = publishes.get(("message", message)) if message is not None else None
            causes.append(named if named is not None or payload is None else publishes.get(("payload", payload)))
            deliveries |= dict.fromkeys(keys, row)
    return causes


def _root(causes: list[int | None], row: int) -> int:
    while (cause := causes[row]) is not None:
        row = cause
    return row


def _with_delays(rows: list[dict[str, Any]], causes: list[int | None], numbers: list[int]) -> list[dict[str, Any]]:
    """Rows with their place (`step`) and the time since their cause (`delay_ns`)."""
    places = {number: place for place, number in enumerate(numbers)}
    for place, (row, cause) in enumerate(zip(rows, causes, strict=True)):
        before = rows[places[cause]] if cause in places else None
        row["step"] = place + 1
        row["delay_ns"] = row["started_ns"] - before["started_ns"] if before else None
    return rows


def _batch(traces: list[list[dict[str, Any]]]) -> pa.RecordBatch:
    import pyarrow as pa

    from wirefmt.capture.reader import Schema

    names = [name for name, _ in _ADDED]
    fields = [pa.schema(Schema([n], "operations")).field(0) for n in _NEEDED if n not in ("started", "completed")]
    rows = [{**step, "trace": i} for i, steps in enumerate(traces, 1) for step in steps]
    columns: dict[str, pa.Array[Any]] = {name: pa.array([row[name] for row in rows], pa.int64()) for name in names}
    for name in ("started", "completed"):
        columns[name] = pa.array([row[name] and row[name].removesuffix("Z") for row in rows], pa.string()).cast(
            pa.timestamp("us")
        ).cast(pa.timestamp("us", "UTC"))  # fmt: skip
    columns |= {field.name: pa.array([row[field.name] for row in rows], field.type) for field in fields}
    return pa.RecordBatch.from_pydict(columns)


def _show(traces: list[list[dict[str, Any]]], limit: int) -> None:
    if len(traces) > 1:
        click.echo(f"the first {limit} messages:" if len(traces) > limit else f"{len(traces)} messages:")
    for i, steps in enumerate(traces[:limit]):
        if i:
            click.echo()
        sys.stdout.flush()
        writer = GridWriter(sys.stdout.buffer, _VIEW)
        writer.write_rows(steps)
        writer.flush()
        click.echo(_ending(steps))


def _ending(steps: list[dict[str, Any]]) -> str:
    """A sentence about a whole trace."""
    publishes = sum(step["kind"] == "publish" for step in steps)
    deliveries = len(steps) - publishes
    times = [step["started_ns"] for step in steps if step["started_ns"] is not None]
    told = f"{counted(publishes, 'publish', 'publishes')}, {counted(deliveries, 'delivery', 'deliveries')}"
    if not deliveries:
        return f"{told}: nobody received it in this capture"
    if not publishes:
        return f"{told}: its publish was not captured"
    return f"{told}, {span(max(times) - min(times))} from the first to the last"


def _after(row: Row) -> str:
    return f"+{span(row['delay_ns'])}" if row["delay_ns"] is not None else ""


def _text(row: Row) -> str:
    after = f" after {span(row['duration_ns'])}" if row["duration_ns"] is not None else ""
    outcome = f"{row['outcome']}{after}" if row["outcome"] != "none" else ""
    return "; ".join(filter(None, (outcome, VIEWS["operations"].text(row))))


def _cells() -> Iterator[Cell]:
    """Those of operations, with the time since what caused them in place of the time that they took."""
    for cell in VIEWS["operations"].cells:
        if cell.title == "took":
            yield Cell("after", _after, 9, 9, right=True)
        elif cell.title == "outcome":
            yield Cell(
                "frame", lambda row: "" if row["request_frame"] is None else str(row["request_frame"]), 8, 8, right=True
            )
        else:
            yield cell
        if cell.title == "kind":
            yield Cell("protocol", lambda row: row["protocol"] or "", 0, 8)


_VIEW: Final = VIEWS["operations"]._replace(cells=tuple(_cells()), text=_text)
