"""`wirefmt summary`: counts the contents of captures in one pass and bounded memory."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import rich_click as click

from wirefmt.spec.insight import TABLES

from .diagnose import show as show_findings
from .diagnose import worst_first
from .failures import COLUMNS as FAILURE_COLUMNS
from .failures import Failure, First, failures
from .grid import rows_of
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
from .text import can_show
from .views import VIEWS, Row, who

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = [
    "ts_ns", "destination", "payload_size", "wire_size", "status", "error", *FAILURE_COLUMNS, "operation", "capture",
    "frame_no", "client_id", "consumer_group", "src_ip", "src_port", "dst_ip", "dst_port",
]  # fmt: skip
#: Why packets were not decoded, as text; other names of `stats["not_decoded"]` are shown unchanged.
_NOT_DECODED = {
    "not_recognised": "protocol not recognised",
    "tls": "encrypted (TLS)",
}
#: Distinct keys of a count; beyond that the rarer half is dropped, and the counts are reported as approximate.
DISTINCT = 1 << 16
BINS = 60
#: Findings that are kept, and those that are printed: the worst.
FINDINGS, WORST = 1000, 5
_BARS = " ▁▂▃▄▅▆▇█"


@click.command()
@capture_options
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, metavar="N",
              help="Number of destinations, failures and errors to list.", panel="Output")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.", panel="Output")
@click.option_panel(PANELS[0][0], help=PANELS[0][1])
@click.option_panel(PANELS[1][0], help=PANELS[1][1])
@click.option_panel("Output", help="The output, as in: --json | jq .messages")
def summary(
    files: tuple[str, ...],
    filter: str | None,
    top: int,
    as_json: bool,
    **options: Any,
) -> int:
    """Count messages by protocol and kind, destinations, clients, queues, failures, ends of connections, what was not decoded.

    FILES are captures (pcap, pcapng, also .gz and .zst), directories, globs in quotes, URLs, or - for standard input.

    [b]Examples[/b]

    \b
    wirefmt summary trace.pcap
    wirefmt summary 'captures/*.pcap' --filter "kind == 'PUBLISH'" --top 20
    wirefmt summary trace.pcap --json | jq '.destinations[0]'
    """
    condition = parse_filter(filter)
    # ends of connections and findings are those of all messages: with a filter there are none
    made = () if condition else tuple(name for name in ("messages", "connections", "findings") if name in TABLES)
    only: dict[str, Any] = {
        "filter": filter,
        "columns": columns_to_read(_COLUMNS),
        "payload": bool(condition and "payload" in condition.columns),
    }
    with open_captures(files, tables=made, **({} if made else only), **options) as reader:
        found = Summary()
        read = table_batches(reader) if made else (("messages", b) for b in batches(reader, to_terminal=False))
        for table, batch in read:
            found.add(batch) if table == "messages" else found.add_made(table, batch)
        found.stats = reader.stats
        if as_json:
            click.echo(json.dumps(found.as_dict(top), ensure_ascii=False))
        else:
            found.show(top)
        if not found.messages:
            tell_empty(condition, whole=False)
        return verdict(reader)


class Counts:
    """Messages and bytes by key, for at most `DISTINCT` keys: the most frequent ones are kept."""

    def __init__(self) -> None:
        self.messages: Counter[tuple[Any, ...]] = Counter()
        self.octets: Counter[tuple[Any, ...]] = Counter()
        self.exact = True

    def add(self, key: tuple[Any, ...], messages: int, octets: int) -> None:
        self.messages[key] += messages
        self.octets[key] += octets
        if len(self.messages) > DISTINCT:
            self.exact = False
            self.messages = Counter(dict(self.messages.most_common(DISTINCT // 2)))
            self.octets = Counter({key: self.octets[key] for key in self.messages})

    def top(self, count: int | None = None) -> list[tuple[tuple[Any, ...], int, int]]:
        # equal counts in the order of their names, so that two runs print the same
        ranked = sorted(self.messages.items(), key=lambda item: (-item[1], str(item[0])))
        return [(key, n, self.octets[key]) for key, n in ranked[:count]]


class Traffic:
    """Messages by the values of one column, those published and those delivered apart."""

    COUNTS = ("messages", "published", "delivered", "payload bytes")

    def __init__(self, column: str) -> None:
        self.column, self.all, self.published, self.delivered = column, Counts(), Counts(), Counts()

    def add_rows(self, table: pa.Table) -> None:
        import pyarrow.compute as pc

        table = table.filter(pc.field(self.column).is_valid())
        _count(self.all, table, [self.column])
        for counts, operation in ((self.published, "send"), (self.delivered, "receive")):
            # a request for a message, or the answer of a broker, is none
            carries = pc.field("payload_size").is_valid() & (pc.field("operation") == operation)
            _count(counts, table.filter(carries), [self.column])

    def rows(self, count: int) -> list[tuple[Any, ...]]:
        return [
            (*key, n, self.published.messages[key], self.delivered.messages[key], octets)
            for key, n, octets in self.all.top(count)
        ]

    def as_dicts(self, count: int) -> list[dict[str, Any]]:
        names = (self.column, *(name.replace(" ", "_") for name in self.COUNTS))
        return [dict(zip(names, row, strict=True)) for row in self.rows(count)]


class Histogram:
    """Messages over time in `BINS` bins whose width doubles as the time range grows."""

    def __init__(self) -> None:
        self.begin: int | None = None  # seconds since 1970, a multiple of width
        self.width = 1
        self.bins = [0] * BINS

    def add(self, second: int, count: int) -> None:
        if self.begin is None:
            self.begin = second
        while not self.begin <= second < self.begin + BINS * self.width:
            self._widen(second)
        self.bins[(second - self.begin) // self.width] += count

    def _widen(self, second: int) -> None:
        assert self.begin is not None
        width, begin = self.width * 2, min(self.begin, second)
        begin -= begin % width
        if self.begin + BINS * self.width > begin + BINS * width:  # long before the present range: widen first
            begin = self.begin - self.begin % width
        bins = [0] * BINS
        for i, count in enumerate(self.bins):
            at = (self.begin + i * self.width - begin) // width
            if count:
                bins[at] += count
        self.begin, self.width, self.bins = begin, width, bins

    def used(self) -> list[int]:
        """The bins from the first to the last one with a message."""
        filled = [i for i, count in enumerate(self.bins) if count]
        return self.bins[filled[0] : filled[-1] + 1] if filled else []


@dataclass
class Summary:
    stats: dict[str, Any] = field(default_factory=dict)  # the reader's
    kinds: Counts = field(default_factory=Counts)
    destinations: Traffic = field(default_factory=lambda: Traffic("destination"))
    clients: Traffic = field(default_factory=lambda: Traffic("client"))
    queues: Traffic = field(default_factory=lambda: Traffic("queue"))
    faults: Counts = field(default_factory=Counts)
    failures: Counts = field(default_factory=Counts)
    firsts: dict[Failure, First] = field(default_factory=dict)
    times: Histogram = field(default_factory=Histogram)
    first_ns: int | None = None
    last_ns: int | None = None
    wire_bytes: int = 0
    ends: Counts = field(default_factory=Counts)  # of connections
    examples: dict[str, Row] = field(default_factory=dict)  # the first connection that ended for a reason
    findings: list[Row] = field(default_factory=list)

    def add_made(self, table: str, batch: pa.RecordBatch) -> None:
        """Connections or findings."""
        if table == "findings":
            self.findings = sorted([*self.findings, *rows_of(batch)], key=worst_first)[:FINDINGS]
            return
        for row in rows_of(batch.select([*VIEWS["connections"].columns(table), "client_bytes", "server_bytes"])):
            # connections that ended for the same reason, with the first of them
            self.ends.add((row["reason"] or "unknown",), 1, row["client_bytes"] + row["server_bytes"])
            self.examples.setdefault(row["reason"] or "unknown", row)

    def add(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        table = _with_ends(pa.Table.from_batches([batch]))
        # a row without a kind is not a message: a gap, or an error of a capture file
        messages = table.filter(pc.field("kind").is_valid())
        _count(self.kinds, messages, ["protocol", "version", "kind"])
        for traffic in (self.destinations, self.clients, self.queues):
            traffic.add_rows(messages)
        for failure, count, first in failures(messages):
            self.failures.add(failure, count, 0)
            if failure not in self.firsts or (first.ts_ns or 0) < (self.firsts[failure].ts_ns or 0):
                self.firsts[failure] = first
        if len(self.firsts) > len(self.failures.messages):  # the rarer ones were dropped
            self.firsts = {failure: self.firsts[failure] for failure in self.failures.messages}  # type: ignore[index, misc]
        faults = table.filter(pc.field("status") != "ok")
        # faults that differ only in numbers are one kind
        texts = pc.replace_substring_regex(faults["error"], r"[0-9]+", "N")
        faults = faults.set_column(faults.schema.get_field_index("error"), "error", texts)
        _count(self.faults, faults, ["status", "error"])
        self.wire_bytes += pc.sum(messages["wire_size"]).as_py() or 0
        self._add_times(messages["ts_ns"].drop_null())

    def _add_times(self, ts_ns: pa.ChunkedArray[Any]) -> None:
        import pyarrow.compute as pc

        if not len(ts_ns):
            return
        low, high = pc.min_max(ts_ns).values()
        self.first_ns = min(low.as_py(), low.as_py() if self.first_ns is None else self.first_ns)
        self.last_ns = max(high.as_py(), high.as_py() if self.last_ns is None else self.last_ns)
        for row in pc.value_counts(pc.divide(ts_ns, 1_000_000_000)).to_pylist():
            self.times.add(row["values"], row["counts"])

    @property
    def messages(self) -> int:
        return sum(self.kinds.messages.values())

    @property
    def seconds(self) -> float:
        return 0.0 if self.first_ns is None or self.last_ns is None else (self.last_ns - self.first_ns) / 1e9

    def as_dict(self, top: int) -> dict[str, Any]:
        rate = self.messages / self.seconds if self.seconds else None
        return {
            "captures": self.stats.get("files", 0),
            "messages": self.messages,
            "wire_bytes": self.wire_bytes,
            "first": _iso(self.first_ns),
            "last": _iso(self.last_ns),
            "seconds": self.seconds,
            "messages_per_second": rate,
            "bytes_per_second": self.wire_bytes / self.seconds if self.seconds else None,
            "rate": {"begin": self.times.begin, "seconds_per_bin": self.times.width, "messages": self.times.used()},
            "kinds": [
                {"protocol": p, "version": v, "kind": k, "messages": n, "payload_bytes": octets}
                for (p, v, k), n, octets in self.kinds.top()
            ],
            "destinations": self.destinations.as_dicts(top),
            "destinations_exact": self.destinations.all.exact,
            "clients": self.clients.as_dicts(top),
            "queues": self.queues.as_dicts(top),
            "connections": [
                {"reason": reason, "connections": n, "bytes": octets} for (reason,), n, octets in self.ends.top()
            ],
            "findings": self.findings[:top],
            "failures": [
                failure._asdict() | {"messages": n, "first": _iso(first.ts_ns)} | first._asdict()
                for failure, n, first in self.top_failures(top)
            ],
            "errors": [{"status": status, "error": error, "rows": n} for (status, error), n, _ in self.faults.top(top)],
            "not_decoded": self.stats.get("not_decoded", {}),
            "tls": self.stats.get("tls", {}),
            "not_recognised_ports": [{"port": port, "connections": n} for port, n in self._unknown_ports(top)],
        }

    def show(self, top: int) -> None:
        from .table import show_table

        count = self.stats.get("files", 0)
        files = f"{count:,} capture{'' if count == 1 else 's'}"
        click.echo(f"{files}, {self.messages:,} messages, {self.wire_bytes:,} bytes on the wire")
        if self.first_ns is not None:
            click.echo(f"from {_readable(self.first_ns)} to {_readable(self.last_ns)} UTC, {self.seconds:,.3f} s")
        if self.seconds:
            rate, octets = self.messages / self.seconds, self.wire_bytes / self.seconds
            click.echo(f"{rate:,.1f} messages/s, {octets:,.0f} bytes/s")
        bins = self.times.used()
        if len(bins) > 1 and can_show(_BARS):
            click.echo(f"{_spark(bins)}  messages in {self.times.width:,} s, at most {max(bins):,}")
        show_table("Messages", ("protocol", "kind", "messages", "payload bytes", "version"), self._by_kind())
        for title, traffic in (
            ("Top destinations", self.destinations),
            ("Top clients", self.clients),
            ("Top queues and groups", self.queues),
        ):
            about = "" if traffic.all.exact else f" (approximate: more than {DISTINCT:,})"
            show_table(f"{title}{about}", (traffic.column, *Traffic.COUNTS), traffic.rows(top))
        show_table(
            "Ends of connections", ("connections", "reason", "bytes", "client", "the first of them"), self._ends()
        )
        show_table(
            "Failures", ("messages", "kind", "code", "text", "first", "client", "about", "frame"), self._failures(top)
        )
        show_table(
            "Not decoded in full", ("status", "error", "rows"), [(*key, n) for key, n, _ in self.faults.top(top)]
        )

        show_table("Not decoded", ("reason", "connections", "packets", "bytes"), self._not_decoded())
        show_table("TLS", ("connections", "reason"), self._tls())
        show_table("Ports of protocols that were not recognised", ("port", "connections"), self._unknown_ports(top))
        if self.findings:
            click.echo()
            show_findings(self.findings, WORST)

    def _ends(self) -> list[tuple[Any, ...]]:
        return [
            (n, reason, octets, who(self.examples[reason]), self.examples[reason]["reason_text"])
            for (reason,), n, octets in self.ends.top()
        ]

    def _failures(self, top: int) -> list[tuple[Any, ...]]:
        one_day = (_iso(self.first_ns) or "")[:10] == (_iso(self.last_ns) or "")[:10]
        one_file = self.stats.get("files", 0) == 1
        return [
            (
                n, kind, "-" if code is None else str(code), text, _readable(first.ts_ns)[11 if one_day else 0 : 23],
                first.client, first.about, str(first.frame_no) if one_file else f"{first.capture}:{first.frame_no}",
            )
            for (_, kind, code, text), n, first in self.top_failures(top)
        ]  # fmt: skip

    def top_failures(self, count: int) -> list[tuple[Failure, int, First]]:
        found = [(Failure(*key), n) for key, n, _ in self.failures.top(count)]
        return [(failure, n, self.firsts[failure]) for failure, n in found]

    def _not_decoded(self) -> list[tuple[Any, ...]]:
        return [
            (_NOT_DECODED.get(why, why.replace("_", " ")), seen["connections"], seen["packets"], seen["bytes"])
            for why, seen in sorted(self.stats.get("not_decoded", {}).items(), key=lambda item: -item[1]["bytes"])
            if any(seen.values())
        ]

    def _tls(self) -> list[tuple[Any, ...]]:
        """Connections that were decrypted, and why others were not."""
        from wirefmt.capture.tls import REASONS

        counts = self.stats.get("tls", {})
        hints = {"no_secrets": ": --keylog FILE gives one"}
        return [(counts[name], text + hints.get(name, "")) for name, text in REASONS.items() if counts.get(name)]

    def _unknown_ports(self, top: int) -> list[tuple[int, int]]:
        ports: dict[int, int] = self.stats.get("not_recognised_ports", {})
        return sorted(ports.items(), key=lambda item: (-item[1], item[0]))[:top]

    def _by_kind(self) -> list[tuple[Any, ...]]:
        """Rows of messages by protocol and kind, with the protocol versions in which it occurred."""
        totals: Counter[str] = Counter()
        rows: dict[tuple[str, str], Counter[str]] = {}
        octets: Counter[tuple[str, str]] = Counter()
        for (protocol, version, kind), n, payload in self.kinds.top():
            rows.setdefault((protocol, kind), Counter())[version or "-"] = n
            octets[protocol, kind] += payload
            totals[protocol] += n
        return [
            (*key, counts.total(), octets[key], ", ".join(sorted(counts)))
            for key, counts in sorted(
                rows.items(), key=lambda row: (-totals[row[0][0]], row[0][0], -row[1].total(), row[0])
            )
        ]


def _with_ends(table: pa.Table) -> pa.Table:
    """With `client`, its identifier or else its address; `queue`, a queue or a group; `about`, that or else the destination."""
    import pyarrow.compute as pc

    def address(end: str) -> Any:
        return pc.binary_join_element_wise(table[f"{end}_ip"], table[f"{end}_port"].cast("string"), ":")

    here = pc.if_else(pc.equal(table["direction"], 1), address("dst"), address("src"))
    queue = pc.coalesce(pc.struct_field(table["amqp091"], "queue"), table["consumer_group"])
    queue = pc.if_else(pc.equal(queue, ""), None, queue)  # the queue that the server has named last
    table = table.append_column("client", pc.coalesce(table["client_id"], here)).append_column("queue", queue)
    return table.append_column("about", pc.coalesce(queue, table["destination"]))


def _count(counts: Counts, table: pa.Table, keys: list[str]) -> None:
    counted = table.group_by(keys).aggregate([([], "count_all"), ("payload_size", "sum")])
    for row in counted.to_pylist():
        counts.add(tuple(row[key] for key in keys), row["count_all"], row["payload_size_sum"] or 0)


def _spark(bins: list[int]) -> str:
    most = max(bins)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in bins)


def _iso(ns: int | None) -> str | None:
    if ns is None:
        return None
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}Z"


def _readable(ns: int | None) -> str:
    return (_iso(ns) or "").replace("T", " ")[:-4]
