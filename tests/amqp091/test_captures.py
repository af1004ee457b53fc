"""Every AMQP 0.9.1 capture of the tests, message by message, against tshark's decode of it.

tshark gives frames: here they are folded by channel, as the message table does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from lib.captures import captures_of
from lib.tshark import lines_of, rows_of, same, sizes_of, where_from

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CAPTURES = captures_of("amqp091")
each_capture = pytest.mark.parametrize("row", CAPTURES)

#: Columns of their own; every other argument and property is in the struct under its name.
COMMON = {
    "routing_key": "routing_key", "delivery_tag": "sequence", "redelivered": "redelivered", "reply_code": "code",
    "content_type": "content_type", "correlation_id": "correlation_id", "reply_to": "reply_to",
    "message_id": "message_id", "destination": "destination",
}  # fmt: skip
#: Labels of tables, whose entries are fields of their own; `filter` is what tshark calls basic.consume's arguments.
TABLES = {"arguments", "server_properties", "client_properties", "headers", "filter"}
#: It does not know RabbitMQ's update-secret, and shows nothing of it; exchange.unbind-ok neither, by its real number.
UNKNOWN = {
    (10, 70): "connection.update-secret", (10, 71): "connection.update-secret-ok", (40, 51): "exchange.unbind-ok",
}  # fmt: skip
#: What is wrong with its reading of tables: type `L` (which py-amqp writes) is unknown to it, and the rest of the table
#: is read from the wrong place; strings end at their first NUL for it; decimals are signed in 0.9.1's text, unsigned for
#: it and RabbitMQ alike. Entries behind `L` are not compared.
BEHIND_L = "unknown type"


def text(value: Any) -> Any:
    """tshark prints the label of a field whose string is empty."""
    return "" if isinstance(value, str) and re.fullmatch(r"[A-Z][\w-]*: (<MISSING>)?", value) else value


def octets(value: Any) -> Any:
    return bytes.fromhex(value.replace(":", "")) if isinstance(value, str) else value


def messages(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Frames folded: each with the last frame's packet, its fields, and its bodies."""
    found: list[dict[str, Any]] = []
    open_ones: dict[Any, dict[str, Any]] = {}
    for e in lines:
        channel = e["stream"], e["dir"], e.get("channel")
        if e.get("ftype") == 2 and channel in open_ones:
            message = open_ones[channel]
            message["fields"] += e["fields"]
            message["body_size"] = e["body_size"]
            message["header"] = True
        elif e.get("ftype") == 3 and channel in open_ones:
            message = open_ones[channel]
            message["bodies"].append(e["payload"])
        else:
            message = {**e, "fields": list(e["fields"]), "bodies": []}
            if (e.get("class"), e.get("method")) in {(60, 40), (60, 50), (60, 60), (60, 71)}:
                open_ones[channel] = message
        message |= {"frame": e["frame"], "t": e["t"]}
        whole = sum(b["len"] for b in message["bodies"]) == message.get("body_size", -1)
        if channel not in open_ones or message is not open_ones[channel]:
            found.append(message)
        elif whole:
            found.append(open_ones.pop(channel))
    return found + list(open_ones.values())


def kind_of(e: dict[str, Any]) -> str:
    if "ftype" not in e:
        return "protocol-header"
    if e["ftype"] == 8:
        return "heartbeat"
    if (e["class"], e["method"]) in UNKNOWN:
        return UNKNOWN[e["class"], e["method"]]
    names = dict(n.split(": ", 1) for n in e["names"])
    return ".".join(names[part].split(" ")[0].lower() for part in ("Class", "Method"))


def ours_of(r: dict[str, Any], name: str) -> Any:
    """The value of an argument or property in our row, as tshark's text."""
    if name == "destination" and r["kind"] not in ("exchange.bind", "exchange.unbind"):
        name = "exchange"
    value = r[COMMON[name]] if name in COMMON else r["amqp091"][name]
    if isinstance(value, bool):
        return str(int(value))
    return str(value) if isinstance(value, int) else value


def flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Entries of a table and of those inside it, elements of arrays by their number."""
    yield name, value
    if isinstance(value, str) and value[:1] in ("{", "["):
        value = json.loads(value, parse_float=str)
    if isinstance(value, dict):
        for k, v in value.items():
            yield from flat(k, v)
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from flat(f"[{i}]", v)


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def unhex(value: str) -> bytes:
    return bytes.fromhex(value) if re.fullmatch("([0-9a-f]{2})+", value) else value.encode()


def check_entries(e: dict[str, Any], r: dict[str, Any]) -> int:
    """tshark's entries of tables are among ours. How many were compared."""
    a = r["amqp091"]
    tables = [*(a[n] or () for n in ("arguments", "server_properties", "client_properties")), r["headers"] or ()]
    ours = {(n, as_text(v)) for table in tables for k, value in table for n, v in flat(k, value)}
    compared = 0
    for name, value in e["fields"]:
        if name != "amqp.field" or not isinstance(value, str):
            continue
        if BEHIND_L in value:
            break
        entry = re.fullmatch(r"(.*?) \((string|boolean|integer|long int|decimal|void)\): ?(.*)", value, re.S)
        if entry is None or value.startswith(" [truncated]"):
            continue
        key, kind, said = entry.groups()
        mine = [v for n, v in ours if n == key]
        if kind == "decimal":
            assert any(v and float(v) == float(said) for v in mine), (value, mine)
        elif kind == "string":
            # with NUL or ill-formed UTF-8 in them they are not text, and hexadecimal in our columns
            assert said in mine or any(unhex(v).split(b"\0")[0].decode("utf-8", "replace") == said for v in mine)
        else:
            assert said in mine, (value, mine)
        compared += 1
    return compared


def check(e: dict[str, Any], r: dict[str, Any]) -> None:
    theirs = {k: e[k] for k in ("frame", "t", "src", "dst")}
    assert theirs == where_from(r)
    assert r["status"] == "ok"
    assert r["kind"] == kind_of(e)
    assert r["direction"] == (e["dir"] == "s2c")
    if "ftype" not in e:
        a = r["amqp091"]
        assert (a["version_major"], a["version_minor"], a["version_revision"]) == (0, 9, 1)
        return
    assert r["channel"] == e["channel"]
    for name, value in e["fields"]:
        last = name.rpartition(".")[2]
        if not name.startswith(("amqp.method.arguments.", "amqp.method.properties.")) or last in TABLES:
            continue
        said, ours = text(value), ours_of(r, last)
        if last in ("response", "mechanisms", "locales", "channel_id"):
            said = octets(said)
            ours = ours.encode() if isinstance(ours, str) else ours
            assert same(said if said else b"", ours), (name, value, ours)
        elif last == "timestamp":
            when = datetime.strptime(said[:-14].replace("  ", " "), "%b %d, %Y %H:%M:%S").replace(tzinfo=UTC)
            assert int(when.timestamp()) == r["amqp091"]["timestamp"]
        elif isinstance(said, dict):  # of a long short string, sometimes with the octet of its length
            assert same(said, ours) or same(said, bytes([len(ours.encode())]) + ours.encode()), (name, value, ours)
        elif isinstance(said, str) and "\ufffd" in said:  # it shows strings as ASCII
            assert re.sub(r"[^\0-\x7f]", lambda c: "\ufffd" * len(c[0].encode()), ours) == said
        else:
            assert same(said, ours), (name, value, ours)
    if "body_size" in e:
        assert r["payload_size"] == e["body_size"] == r["amqp091"]["body_size"]
        assert r["amqp091"]["body_frames"] == len(e["bodies"])
        at = 0
        for body in e["bodies"]:
            assert same(body, r["payload"][at : at + body["len"]])
            at += body["len"]
        assert at == len(r["payload"])
    else:
        assert r["payload"] is None
    check_entries(e, r)


@each_capture
def test_messages_agree(row: dict[str, Any]) -> None:
    theirs = messages([e for e in lines_of(row) if e["proto"] == "amqp"])
    ours = [r for r in rows_of(row) if r["status"] != "gap"]
    assert len(ours) == len(theirs) > 0
    for e, r in zip(theirs, sorted(ours, key=lambda r: r["frame_no"]), strict=True):
        check(e, r)


@each_capture
def test_entries_of_tables_were_compared(row: dict[str, Any]) -> None:
    """Otherwise the comparison above could pass by looking at nothing."""
    lines = [e for e in lines_of(row) if e["proto"] == "amqp"]
    said = sum(name == "amqp.field" for e in lines for name, _ in e["fields"])
    theirs = messages(lines)
    ours = sorted((r for r in rows_of(row) if r["status"] != "gap"), key=lambda r: r["frame_no"])
    assert sum(check_entries(e, r) for e, r in zip(theirs, ours, strict=True)) >= said // 2


@each_capture
def test_every_octet_is_in_one_row(row: dict[str, Any]) -> None:
    """Contents of several channels interleave, so that rows need not tile the stream; their sizes add up to it."""
    for sizes, extent in sizes_of(rows_of(row)):
        assert sizes == extent


@pytest.mark.parametrize(
    "row",
    captures_of("amqp091", counted=True),
)
def test_count_agrees_with_a_third_decoder(row: dict[str, Any]) -> None:
    """tcpflow with amqplib counts frames: a content is a method, a header, and its bodies."""
    frames = 0
    for r in rows_of(row):
        a = r["amqp091"]
        frames += 1 if a["body_size"] is None else 2 + a["body_frames"]
    assert frames == row["crosscheck"]["messages"]
