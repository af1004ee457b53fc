"""`wirefmt latency`: percentiles of the time from requests to their answers, and from publish to delivery, by group."""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import rich_click as click

from wirefmt.spec.insight import KINDS, OPERATIONS, TABLES

from .grid import span
from .inputs import (
    PANELS,
    batches,
    capture_options,
    columns_to_read,
    open_captures,
    parse_filter,
    table_batches,
    tell_empty,
    verdict,
)
from .lines import padded
from .rows import chosen_format, output_options, write_rows
from .text import can_show, printable

if TYPE_CHECKING:
    import pyarrow as pa

#: Buckets for each doubling of a time: a percentile is exact within 0.6 %.
STEPS: Final = 64
#: Groups that are counted; the times of further ones are counted together.
GROUPS: Final = 1 << 14
PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
#: Of a path, where a name means one of its sides.
_DELIVERED: Final = ("queue", "consumer_group")
_PATH: Final = "publish to delivery"
_OTHERS: Final = "(others)"
_BARS: Final = "▁▂▃▄▅▆▇█"
_COLUMNS: Final = {column.name for column in OPERATIONS}
#: Cells of the small histogram.
_CELLS: Final = 12


@click.command()
@capture_options
@click.option(
    "--by", metavar="A,B", default="destination", show_default=True, panel="Rows",
    help="Columns of operations by whose values times are grouped, beside the kind: client_id, queue, consumer_group ...",
)  # fmt: skip
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", panel="Rows",
              help="Number of groups to list of each kind, those with most times first.")  # fmt: skip
@output_options
@click.option_panel(PANELS[0][0], help=PANELS[0][1])
@click.option_panel("Rows", help="Which operations are counted, as in: --filter \"kind == 'publish'\" --by client_id")
@click.option_panel("Output", help="The output, as in: -o latency.csv; times are nanoseconds there")
def latency(
    files: tuple[str, ...],
    filter: str | None,
    by: str,
    top: int,
    out: str | None,
    fmt: str | None,
    mark_formulas: bool,
    **options: Any,
) -> int:
    """Percentiles of the time from requests to their answers: from publishes to confirms, from deliveries to acknowledgements.

    FILES are captures (pcap, pcapng, also compressed), directories, globs in quotes, URLs, or - for standard input.

    [b]Examples[/b]

    \b
    wirefmt latency trace.pcap
    wirefmt latency trace.pcap --by client_id --filter "kind == 'publish'"
    wirefmt latency trace.pcap --by queue,consumer_group --top 5
    wirefmt latency trace.pcap -o latency.csv
    """
    fmt = chosen_format(out, fmt, mark_formulas)
    condition = parse_filter(filter, "operations")
    names = _columns(by)
    paths = "paths" in TABLES and condition is None and all(_side(name) for name in names)
    found = Times(names)
    # a filter is about operations
    how: dict[str, Any] = (
        {"tables": ("operations", "paths")}
        if paths
        else {
            "table": "operations",
            "filter": filter,
            "columns": columns_to_read([*names, "kind", "duration_ns"], "operations"),
        }
    )
    with open_captures(files, out=out, **how, **options) as reader:
        read = table_batches(reader) if paths else (("operations", b) for b in batches(reader, to_terminal=False))
        for table, batch in read:
            found.add(table, batch)
        groups = found.groups(top)
        if fmt == "table" and out is None:
            _show(groups, names)
        else:
            made = _batch(groups, names)
            write_rows([made], made.schema, out, fmt, mark=mark_formulas)
        if not groups:
            tell_empty(condition, whole=fmt == "table", rows="operations with an answer")
        return verdict(reader, "times")


class Group(NamedTuple):
    """Times of one kind and group, ns."""

    kind: str
    values: tuple[str, ...]
    buckets: Counter[int]
    least: int
    most: int

    @property
    def total(self) -> int:
        return self.buckets.total()

    def percentile(self, part: float) -> int:
        """The time that this part of all times does not exceed."""
        rank, seen = math.ceil(part * self.total), 0
        if rank == self.total:
            return self.most
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                break
        return min(max(round(2 ** ((bucket + 0.5) / STEPS)), self.least), self.most)

    def figures(self) -> list[int]:
        return [*map(self.percentile, PERCENTILES.values()), self.most]


@dataclass
class Times:
    """Counts times in buckets of a logarithmic scale: memory grows with the number of groups alone."""

    by: list[str]
    counts: dict[tuple[str, ...], Counter[int]] = field(default_factory=dict)
    bounds: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)

    def add(self, table: str, batch: pa.RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if table == "operations":
            names, kinds, times = self.by, batch.column("kind"), batch.column("duration_ns")
        else:
            names, times = [_side(name) or "" for name in self.by], batch.column("latency_ns")
            kinds = pa.array([_PATH] * batch.num_rows)
        scale = pc.floor(pc.multiply(pc.log2(pc.max_element_wise(times, 1).cast("double")), float(STEPS))).cast("int64")
        keys = [f"key{i}" for i in range(len(names) + 1)]
        columns = dict(zip(keys, [kinds, *(batch.column(name).cast("string") for name in names)], strict=True))
        counted = pa.table(columns | {"bucket": scale, "ns": times}).filter(pc.is_valid(times))
        aggregates = [([], "count_all"), ("ns", "min"), ("ns", "max")]
        for row in counted.group_by([*keys, "bucket"], use_threads=False).aggregate(aggregates).to_pylist():
            group = tuple("" if row[key] is None else row[key] for key in keys)
            self._count(group, row["bucket"], row["count_all"], row["ns_min"], row["ns_max"])

    def _count(self, group: tuple[str, ...], bucket: int, count: int, least: int, most: int) -> None:
        if group not in self.counts and len(self.counts) >= GROUPS:
            group = (group[0], *(_OTHERS for _ in group[1:]))
        self.counts.setdefault(group, Counter())[bucket] += count
        low, high = self.bounds.get(group, (least, most))
        self.bounds[group] = min(low, least), max(high, most)

    def groups(self, top: int) -> list[Group]:
        """Groups in the order of their kinds, of each kind the `top` ones with most times."""
        made = [Group(key[0], key[1:], self.counts[key], *self.bounds[key]) for key in self.counts]
        order = list(dict.fromkeys((_PATH, "publish", "deliver", "get", *KINDS)))
        made.sort(key=lambda group: (order.index(group.kind), -group.total, group.values))
        return [g for kind in dict.fromkeys(g.kind for g in made) for g in [g for g in made if g.kind == kind][:top]]


def _columns(by: str) -> list[str]:
    from wirefmt.errors import suggest

    names = [name for word in by.split(",") if (name := word.strip()) and name != "kind"]  # it is always there
    for name in names:
        if name not in _COLUMNS:
            raise click.UsageError(f"--by: no column {name!r}; {suggest(name, _COLUMNS)}")
    return names


def _side(name: str) -> str | None:
    """The column of paths for one of operations."""
    known = {column.name for column in TABLES.get("paths", ())}
    sides = ("deliver", "publish") if name in _DELIVERED else ("publish", "deliver")
    return next((column for column in (name, *(f"{side}_{name}" for side in sides)) if column in known), None)


def _batch(groups: list[Group], names: list[str]) -> pa.RecordBatch:
    import pyarrow as pa

    columns: dict[str, pa.Array[Any]] = {"kind": pa.array([group.kind for group in groups], pa.string())}
    for i, name in enumerate(names):
        columns[name] = pa.array([group.values[i] or None for group in groups], pa.string())
    columns["count"] = pa.array([group.total for group in groups], pa.int64())
    figures = [group.figures() for group in groups]
    for i, name in enumerate((*PERCENTILES, "max")):
        columns[f"{name.replace('.', '')}_ns"] = pa.array([row[i] for row in figures], pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def _show(groups: list[Group], names: list[str]) -> None:
    if not groups:
        return
    # whole decades, so that the scale can be read
    low = math.floor(math.log10(max(1, min(group.least for group in groups))))
    high = max(math.ceil(math.log10(max(1, max(group.most for group in groups)))), low + 1)
    bars = can_show(_BARS)
    scale = f"{_decade(low)}..{_decade(high)}" if bars else ""
    header = ["kind", *names, "count", *PERCENTILES, "max", scale]
    lines = [
        [
            group.kind, *(printable(value) or "-" for value in group.values), f"{group.total:,}", *map(_short, group.figures()),
            _histogram(group, low, high) if bars else "",
        ]
        for group in groups
    ]  # fmt: skip
    for line in _aligned([header, *lines], 1 + len(names)):
        click.echo(line.rstrip())


def _aligned(lines: list[list[str]], texts: int) -> Iterator[str]:
    """Lines with their cells aligned, the first `texts` ones left and cut on a terminal where they must be."""
    from rich.cells import cell_len

    from .table import fit

    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    terminal = sys.stdout.isatty()
    if terminal:
        capacity = shutil.get_terminal_size().columns
        fit(widths, list(range(1, texts)), 10, capacity - len(widths) + 1)
        if sum(widths) + len(widths) - 1 > capacity:  # no space for bars
            widths.pop()
            lines = [line[:-1] for line in lines]
    for line in lines:
        cells = (
            padded(cell, width, terminal) if i < texts or i == texts + len(PERCENTILES) + 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield " ".join(cells)


def _short(ns: int) -> str:
    return (
        span(ns).replace(".00 ", " ").replace(" ", "")
        if ns in (10**n for n in range(13))
        else span(ns).replace(" ", "")
    )


def _decade(n: int) -> str:
    return re.sub(r"\.0+", "", _short(10**n))


def _histogram(group: Group, low: int, high: int) -> str:
    """Bars over the logarithm of the time; a cell that has any times has a bar."""
    cells = [0] * _CELLS
    for bucket, count in group.buckets.items():
        place = (bucket + 0.5) / STEPS * math.log10(2) - low
        cells[min(max(int(place * _CELLS / (high - low)), 0), _CELLS - 1)] += count
    most = max(cells)
    return "".join(_BARS[-(-count * len(_BARS) // most) - 1] if count else " " for count in cells)
