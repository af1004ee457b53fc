"""Vectors of tests/vectors/amqp091: octets made by RabbitMQ's own codec and by clients, with what they mean or why they
are wrong.

`kind` says what the octets are: a whole `frame` or a `sequence` of them, or a part of one: `method` (class id, method id,
arguments), `properties` (flags and values), `table` (length and entries). Here every part is put into a frame around it.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Literal, cast

from lib.paths import VECTORS
from wirefmt import amqp091

SIDES: dict[str, Literal["client", "server"] | None] = {"client": "client", "server": "server", "both": None}


@dataclass(frozen=True, slots=True)
class Vector:
    id: str
    rule: str
    kind: str
    side: Literal["client", "server"] | None
    octets: bytes
    valid: bool
    decoded: Any
    reason: str
    incomplete: bool
    contested: bool
    frame_max: int
    note: str
    verdicts: dict[str, str]

    @property
    def options(self) -> dict[str, Any]:
        return {"side": self.side, "frame_max": self.frame_max}

    @property
    def whole(self) -> bytes:
        """As whole frames."""
        if self.kind in ("frame", "sequence"):
            return self.octets
        if self.kind == "method":
            connection = self.octets[:2] == b"\0\x0a"
            return frame(1, 0 if connection else 1, self.octets)
        if self.kind == "properties":
            return frame(2, 1, struct.pack(">HHQ", 60, 0, 0) + self.octets)
        return frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 1 << 13) + self.octets)


def frame(type: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", type, channel, len(payload)) + payload + b"\xce"


@cache
def load() -> tuple[Vector, ...]:
    out = []
    for line in (VECTORS / "amqp091" / "public.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        out.append(
            Vector(
                row["id"],
                row["rule"],
                row["kind"],
                SIDES[row["side"]],
                bytes.fromhex(row["hex"]),
                row["valid"],
                row["decoded"],
                row.get("reason", ""),
                row.get("incomplete", False),
                row.get("contested", False),
                row.get("frame_max", 131072),
                row.get("note", ""),
                row["verdicts"],
            )
        )
    return tuple(out)


def depth_of(vector: Vector) -> int:
    """Of the vectors that nest deep: their note says how deep."""
    return int(vector.note.split(";")[0].removeprefix("depth ")) if vector.rule.startswith("nested-depth") else 0


# ---- our objects, as `decoded` writes them


def text(value: Any) -> Any:
    """Strings; octets that are not UTF-8 as {"hex": ...}."""
    if isinstance(value, str):
        return value
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return {"hex": bytes(value).hex()}


def typed(letter: str, value: Any) -> list[Any]:
    if letter == "F":
        return ["F", table(value)]
    if letter == "A":
        return ["A", [typed(*item) for item in value.items]]
    if letter == "S":
        return ["S", text(value)]
    if letter == "x":
        return ["x", value.hex()]
    if letter == "D":
        assert isinstance(value, Decimal)
        _, digits, exponent = value.as_tuple()
        return ["D", [-int(exponent), int("".join(map(str, digits)))]]
    if letter in "fd" and (value != value or value in (float("inf"), float("-inf"))):
        return [letter, {"bits": struct.pack(">f" if letter == "f" else ">d", value).hex()}]
    return [letter, int(value) if letter == "T" else value]


def table(value: amqp091.FieldTable) -> list[Any]:
    return [[text(name), typed(letter, item)] for name, letter, item in value.entries]


def properties(value: amqp091.BasicProperties) -> dict[str, Any]:
    found = {name: getattr(value, name) for name in type(value).__match_args__}
    return {name.replace("_", "-"): plain(item) for name, item in found.items() if item is not None}


def plain(value: Any) -> Any:
    if isinstance(value, amqp091.FieldTable):
        return table(value)
    return text(value) if isinstance(value, (str, bytes)) else value


def method(value: amqp091.Method) -> dict[str, Any]:
    kind: Any = type(value)
    names = [name for name in kind.__match_args__ if name != "channel"]
    arguments = {name.strip("_").replace("_", "-"): plain(getattr(value, name)) for name in names}
    return {"method": value.name, "args": arguments}


def shown(value: amqp091.Frame) -> dict[str, Any]:
    """A frame, as `decoded` of a frame vector."""
    if isinstance(value, amqp091.ProtocolHeader):
        return {"type": "protocol-header", "octets": list(value.octets)}
    if isinstance(value, amqp091.Heartbeat):
        return {"type": "heartbeat"}
    if isinstance(value, amqp091.Body):
        return {"type": "body", "channel": value.channel, "payload": value.payload_bytes().hex()}
    if isinstance(value, amqp091.ContentHeader):
        return {
            "type": "header",
            "channel": value.channel,
            "class": {60: "basic"}[value.class_id],
            "weight": value.weight,
            "body-size": value.body_size,
            "properties": properties(value.properties),
        }
    assert isinstance(value, amqp091.Method)
    return {"type": "method", "channel": value.channel, **method(value)}


# ---- `decoded`, as our constructors take it


def octets_of(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


def field_value(letter: str, value: Any) -> amqp091.FieldValue:
    if letter == "F":
        value = field_table(value)
    elif letter == "A":
        value = amqp091.FieldArray([field_value(*item) for item in value])
    elif letter == "S":
        value = octets_of(value)
    elif letter == "x":
        value = bytes.fromhex(value)
    elif letter == "D":
        value = Decimal((0, tuple(map(int, str(value[1]))), -value[0]))
    elif letter in "fd" and isinstance(value, dict):
        (value,) = struct.unpack(">f" if letter == "f" else ">d", bytes.fromhex(value["bits"]))
    return amqp091.FieldValue(letter, value)


def field_table(rows: list[Any]) -> amqp091.FieldTable:
    return amqp091.FieldTable([(octets_of(name), field_value(*value)) for name, value in rows])


def built_properties(fields: dict[str, Any]) -> amqp091.BasicProperties:
    given = {name.replace("-", "_"): octets_of(value) for name, value in fields.items()}
    if "headers" in given:
        given["headers"] = field_table(given["headers"])
    return amqp091.BasicProperties(**given)


def class_of(name: str) -> type[amqp091.Method]:
    kind, _, word = name.partition(".")
    found: type[amqp091.Method] = getattr(amqp091, kind.capitalize() + "".join(w.capitalize() for w in word.split("-")))
    return found


def built_method(fields: dict[str, Any], channel: int) -> amqp091.Method:
    given: dict[str, Any] = {}
    for name, value in fields["args"].items():
        name = "global_" if name == "global" else name.replace("-", "_")
        given[name] = field_table(value) if isinstance(value, list) else octets_of(value)
    made: Any = class_of(fields["method"])
    return cast(amqp091.Method, made(channel=channel, **given))


def built(fields: dict[str, Any]) -> amqp091.Frame:
    """The frame made from `decoded` alone."""
    if fields["type"] == "protocol-header":
        return amqp091.ProtocolHeader(bytes(fields["octets"]))
    if fields["type"] == "heartbeat":
        return amqp091.Heartbeat()
    if fields["type"] == "body":
        return amqp091.Body(channel=fields["channel"], payload=bytes.fromhex(fields["payload"]))
    if fields["type"] == "header":
        return amqp091.ContentHeader(
            channel=fields["channel"],
            body_size=fields["body-size"],
            properties=built_properties(fields["properties"]),
        )
    return built_method(fields, fields["channel"])
