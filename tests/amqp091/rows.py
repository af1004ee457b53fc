"""What every column says of AMQP 0.9.1's messages. See lib/columns.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lib.column_values import Json, Members, Number, Row, digits, text, wrapped
from lib.kinds import checked
from wirefmt import amqp091
from wirefmt.amqp091 import columns

VERSION = "0.9.1"
COMMON = {
    "routing_key": "routing_key", "delivery_tag": "sequence", "redelivered": "redelivered", "reply_code": "code",
    "content_type": "content_type", "headers": "headers", "correlation_id": "correlation_id", "reply_to": "reply_to",
    "message_id": "message_id",
}  # fmt: skip
STRUCT = {c.name for c in columns.FIELDS}
#: Arguments with a column of their own in decode_batch, and its name; all others are in its map.
OWN = {
    "exchange": "exchange", "routing_key": "routing_key", "queue": "queue", "consumer_tag": "consumer_tag",
    "delivery_tag": "sequence", "redelivered": "redelivered", "reply_code": "code", "reply_text": "reply_text",
}  # fmt: skip
#: Long strings that are octets, and not text.
OCTETS = ("challenge", "response", "new_secret", "channel_id")


def as_json(letter: str, value: Any) -> Any:
    if letter == "F":
        return Members((text(name), as_json(*item)) for name, *item in value.entries)
    if letter == "A":
        return [as_json(*item) for item in value.items]
    if letter == "S":
        return text(value)
    if letter == "x":
        return value.hex()
    if letter in "tV":
        return value
    if letter == "D":
        return Number(format(value, "f"))
    return digits(value, narrow=letter == "f") if letter in "fd" else Number(int(value))


def as_text(letter: str, value: Any) -> Any:
    if letter == "V":
        return ""
    found = as_json(letter, value)
    return found if type(found) is str and letter in "Sx" else Json(found)


def entries(found: amqp091.FieldTable) -> list[tuple[Any, Any]]:
    return [(text(name), as_text(letter, value)) for name, letter, value in found.entries]


def column(name: str, value: Any) -> Any:
    if isinstance(value, amqp091.FieldTable):
        return entries(value)
    if isinstance(value, bytes) and name in OCTETS:
        return value
    if isinstance(value, (str, bytes)):
        return text(value)
    return wrapped(int(value)) if type(value) is not bool and isinstance(value, int) else value


def arguments_of(message: Any) -> Iterable[tuple[str, Any]]:
    for name in type(message).__match_args__:
        if name not in ("channel", "properties", "body"):
            yield name, getattr(message, name)


def is_milliseconds(value: Any) -> bool:
    """`expiration`: RabbitMQ wants digits alone; a column has space for eighteen."""
    return isinstance(value, str) and 0 < len(value) <= 18 and value.isascii() and value.isdigit()


def row(message: Any, direction: int, *, body_frames: int | None = None) -> Row:
    """`body_frames`: those in which the body came."""
    if isinstance(message, amqp091.ProtocolHeader):
        numbers = dict(zip(("version_major", "version_minor", "version_revision"), message.octets[1:], strict=True))
        return {"version": VERSION, "kind": "protocol-header", "operation": "connect", "amqp091": numbers}
    row: Row = {"version": VERSION, "channel": message.channel}
    if isinstance(message, amqp091.Heartbeat):
        return row | {"kind": "heartbeat", "operation": "ping", "amqp091": {}}
    method = message.method if isinstance(message, amqp091.BasicMessage) else message
    name = method.name
    row |= {"kind": name, "operation": columns.OPERATIONS[name][direction], "amqp091": (fields := {})}
    arguments = dict(arguments_of(method))
    for key, value in arguments.items():
        place = key.rstrip("_")
        if place in COMMON:
            row[COMMON[place]] = column(place, value)
        elif place in STRUCT:
            fields[place] = column(place, value)
    for key in ("queue", "destination", "exchange"):
        if key in arguments:
            about = arguments[key] or (arguments["routing_key"] if method.has_content else "")
            if about:
                row["destination"] = text(about)
            break
    if name == "connection.start-ok":
        names = [v for n, letter, v in arguments["client_properties"].entries if n == "connection_name"][:1]
        letters = [letter for n, letter, v in arguments["client_properties"].entries if n == "connection_name"][:1]
        if names and letters == ["S"] and names[0]:
            row["client_id"] = text(names[0])
    if isinstance(message, amqp091.BasicMessage):
        row |= {"payload": message.body_bytes(), "payload_size": len(message.body_bytes())}
        fields |= {"body_size": len(message.body_bytes()), "body_frames": body_frames}
        for key in amqp091.BasicProperties.__match_args__:
            value = getattr(message.properties, key)
            if value is None:
                continue
            if key in COMMON:
                row[COMMON[key]] = column(key, value)
            else:
                fields[key] = column(key, value)
        if is_milliseconds(message.properties.expiration):
            row["ttl_ms"] = int(checked(message.properties.expiration, str))
        if message.properties.headers is not None and name in ("basic.deliver", "basic.get-ok"):
            counts = [(letter, v) for n, letter, v in message.properties.headers.entries if n == "x-delivery-count"]
            if counts and counts[0][0] in "bBsuIilL" and 0 <= counts[0][1] < 2**31 - 1:
                row["attempts"] = counts[0][1] + 1
    return row


def batch_row(message: Any) -> Row:
    if isinstance(message, amqp091.ProtocolHeader):
        return {"kind": "protocol-header"}
    if isinstance(message, amqp091.Heartbeat):
        return {"channel": message.channel, "kind": "heartbeat"}
    method = message.method if isinstance(message, amqp091.BasicMessage) else message
    row: Row = {"channel": message.channel, "kind": method.name}
    for key, value in arguments_of(method):
        if key in OWN:
            row[OWN[key]] = column(OWN[key], value)
        else:
            if type(value) is bool:
                shown: Any = "true" if value else "false"
            elif isinstance(value, amqp091.FieldTable):
                shown = Json(as_json("F", value))
            else:
                shown = text(value) if isinstance(value, (str, bytes)) else str(int(value))
            row.setdefault("arguments", []).append((key, shown))
    if isinstance(message, amqp091.BasicMessage):
        row |= {"payload": message.body_bytes(), "body_size": len(message.body_bytes())}
        for key in amqp091.BasicProperties.__match_args__:
            if getattr(message.properties, key) is not None:
                row[key] = column(key, getattr(message.properties, key))
    return row


def opening(version: int) -> bytes:
    """What a client says first."""
    return b"AMQP\0\0\x09\1"
