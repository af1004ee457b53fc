"""What `wirefmt connections` and its sisters show by default, as data: a `View` for each table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from wirefmt.spec.insight import TABLES

Row = Mapping[str, Any]


class Cell(NamedTuple):
    """A column of lines. narrow, wide: the most characters on a terminal; narrow 0: only where there is space."""

    title: str
    text: Callable[[Row], str]
    narrow: int
    wide: int
    right: bool = False
    may_cut: bool = False  # narrower still, if a line has no space


class View(NamedTuple):
    """How the rows of a table are shown."""

    needs: tuple[str, ...]  # columns of the table
    time: str  # the column whose date is in the header
    cells: tuple[Cell, ...]
    text: Callable[[Row], str]  # after the columns
    is_bad: Callable[[Row], bool]
    common: tuple[str, ...] = ()  # titles of columns that are in the header if all rows have the same value
    named: tuple[str, ...] = ()  # of these, those whose title is there, too

    def columns(self, table: str) -> list[str]:
        """Those that the table has."""
        known = {column.name for column in TABLES[table]}
        return [name for name in self.needs if name in known]

    def date(self, row: Row) -> str:
        return (row.get(self.time) or "")[:10]


def address(row: Row, side: str) -> str:
    """Address and port of an end, "" if they are not known."""
    host, port = row.get(f"{side}_ip"), row.get(f"{side}_port")
    if not host:
        return f":{port}" if port else ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def client(row: Row) -> str:
    return row.get("client_id") or address(row, "client")


def who(row: Row) -> str:
    """The client of a finding, with its port: a client id may have many connections."""
    name, end = row.get("client_id"), address(row, "client")
    return f"{name} ({end})" if name and end else name or end or address(row, "server")


def counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def where(row: Row) -> str:
    """What an operation is about: destination, key, queue, group."""
    destination, queue = row.get("destination"), row.get("queue")
    parts = [destination or ""]
    for name, value in (
        ("key", row.get("routing_key")),
        ("queue", queue if queue != destination else None),
        ("group", row.get("consumer_group")),
    ):
        if value and value != destination:
            parts.append(f"{name}={value}")
    return " ".join(filter(None, parts))


def time_of_day(name: str) -> Cell:
    return Cell("time", lambda row: (row.get(name) or "")[11:26].removesuffix("Z"), 12, 15)


def _protocol(row: Row) -> str:
    if row["protocol"] == "mqtt" and row["version"]:
        return f"mqtt {row['version']}"
    carrier = row["carrier"]
    return row["protocol"] or (carrier if carrier not in (None, "plain") else "")


def _number(name: str, title: str | None = None, narrow: int = 9) -> Cell:
    return Cell(title or name, lambda row: f"{row[name]:,}" if row.get(name) else "", narrow, 12, right=True)


def _span(name: str, title: str) -> Cell:
    from .grid import span

    return Cell(title, lambda row: span(row.get(name)), 8, 8, right=True)


def _connection_text(row: Row) -> str:
    parts = [row["reason_text"]]
    if row["unconfirmed"]:
        parts.append(f"{counted(row['unconfirmed'], 'publish', 'publishes')} without acknowledgement")
    if row["unsettled"]:
        parts.append(f"{counted(row['unsettled'], 'delivery', 'deliveries')} without acknowledgement")
    return "; ".join(filter(None, parts))


def _operation_text(row: Row) -> str:
    parts: list[str] = []
    if row["outcome"] != "acknowledged":
        parts += filter(None, [" ".join(filter(None, (_code(row), row["text"])))])
    elif row["protocol"] == "mqtt" and row["code"] == _NOBODY:
        parts.append("nobody has subscribed to it")
    if (row["attempts"] or 0) > 1:
        parts.append(f"attempt {row['attempts']}")
    elif row["redelivered"]:
        parts.append("redelivered")
    if (row["transmissions"] or 0) > 1:
        parts.append(f"sent {row['transmissions']} times")
    if row["resumed_from"] is not None:
        parts.append("began on the connection before")
    if row["request_frame"] is None:
        parts.append("the request was not captured")
    return "; ".join(parts)


def _kind(row: Row) -> str:
    kind = row["message_kind"] if row["kind"] == "request" else row["kind"]
    return kind or ""


def _code(row: Row) -> str:
    if not row["code"]:
        return ""
    return f"0x{row['code']:02X}" if row["protocol"] == "mqtt" else str(row["code"])


def _sides(row: Row, *names: str) -> str:
    """Values of the two sides of a path: one if they are equal."""
    values = [
        next((str(v) for n in names if (v := row.get(f"{side}_{n}")) is not None), "")
        for side in ("publish", "deliver")
    ]
    return values[0] if values[0] == values[1] or not values[1] else " -> ".join(filter(None, values))


def _end(side: str) -> Callable[[Row], str]:
    def end(row: Row) -> str:
        port = row.get(f"{side}_client_port")
        return row.get(f"{side}_client_id") or (f":{port}" if port is not None else "")

    return end


def _path_text(row: Row) -> str:
    if not row.get("deliver_ts"):
        return "nobody received it" if row.get("publish_ts") else ""
    parts = []
    if (row.get("attempt") or 0) > 1:
        parts.append(f"attempt {row['attempt']}")
    if (row.get("copies") or 0) > 1:
        parts.append(f"one of {row['copies']} copies")
    if (row.get("candidates") or 0) > 1:
        parts.append(f"ambiguous: one of {row['candidates']} messages")
    if row.get("converted"):
        parts.append("converted")
    if (row.get("hop") or 0) > 1:
        parts.append(f"hop {row['hop']}")
    return "; ".join(parts)


#: MQTT's reason code "No matching subscribers".
_NOBODY: Final = 0x10
#: Outcomes that a line shows in red.
_BAD_OUTCOMES: Final = ("rejected", "returned", "refused", "timed-out", "lost")
#: Reasons that it does not.
_GOOD_REASONS: Final = ("orderly", "open", None)

_PATH_ENDS: Final = tuple(
    f"{side}_{name}"
    for side in ("publish", "deliver")
    for name in ("ts", "protocol", "client_id", "client_port", "destination", "queue", "consumer_group")
)

VIEWS: Final[dict[str, View]] = {
    "connections": View(
        (
            "first", "duration_ns", "client_id", "client_ip", "client_port", "server_ip", "server_port", "protocol", "version",
            "carrier", "published", "delivered", "unconfirmed", "unsettled", "reason", "reason_text",
        ),
        "first",
        (
            time_of_day("first"),
            _span("duration_ns", "lasted"),
            Cell("client", client, 16, 28, may_cut=True),
            Cell("port", lambda row: str(row["client_port"]) if row["client_id"] else "", 0, 5, right=True),
            Cell("server", lambda row: address(row, "server"), 14, 24, may_cut=True),
            Cell("protocol", _protocol, 10, 12),
            _number("published", narrow=9),
            _number("delivered", narrow=9),
            Cell("reason", lambda row: row["reason"] or "", 14, 14),
        ),
        _connection_text,
        lambda row: row["reason"] not in _GOOD_REASONS,
        common=("server", "protocol"), named=("server",),
    ),
    "operations": View(
        (
            "started", "completed", "duration_ns", "protocol", "client_id", "client_ip", "client_port", "direction", "channel",
            "sequence", "destination", "routing_key", "queue", "consumer_group", "kind", "message_kind", "payload_size",
            "redelivered", "attempts", "transmissions", "request_frame", "outcome", "code", "text", "resumed_from",
        ),
        "started",
        (
            Cell("time", lambda row: (row["started"] or row["completed"] or "")[11:26].removesuffix("Z"), 12, 15),
            _span("duration_ns", "took"),
            Cell("client", client, 16, 28, may_cut=True),
            Cell("ch", lambda row: "" if row["channel"] is None else str(row["channel"]), 0, 5, right=True),
            Cell("", lambda row: {0: "->", 1: "<-"}.get(row["direction"], ""), 2, 2),
            Cell("kind", _kind, 22, 22, may_cut=True),
            Cell("id", lambda row: "" if row["sequence"] is None else str(row["sequence"]), 0, 8, right=True),
            Cell("about", where, 24, 44, may_cut=True),
            Cell("size", lambda row: "" if row["payload_size"] is None else f"{row['payload_size']:,}", 0, 9, right=True),
            Cell("outcome", lambda row: row["outcome"] or "", 12, 12),
        ),
        _operation_text,
        lambda row: row["outcome"] in _BAD_OUTCOMES,
    ),
    "paths": View(
        (*_PATH_ENDS, "latency_ns", "copies", "attempt", "matched_by", "candidates", "converted", "hop"),
        "publish_ts",
        (
            time_of_day("publish_ts"),
            _span("latency_ns", "latency"),
            Cell("publisher", _end("publish"), 16, 24, may_cut=True),
            Cell("consumer", _end("deliver"), 16, 24, may_cut=True),
            Cell("about", lambda row: _sides(row, "queue", "destination"), 24, 40, may_cut=True),
            Cell("protocol", lambda row: _sides(row, "protocol"), 0, 18),
            Cell("matched by", lambda row: row.get("matched_by") or "", 0, 19),
        ),
        _path_text,
        lambda row: not row.get("deliver_ts"),
        common=("protocol",),
    ),
    "findings": View(
        (
            "ts", "severity", "rule", "client_id", "client_ip", "client_port", "server_ip", "server_port", "destination", "queue",
            "text",
        ),
        "ts",
        (
            time_of_day("ts"),
            Cell("severity", lambda row: row["severity"] or "", 8, 8),
            Cell("rule", lambda row: row["rule"] or "", 20, 26),
            Cell("who", who, 0, 32),
        ),
        lambda row: row["text"] or "",
        lambda row: row["severity"] == "error",
    ),
}  # fmt: skip
