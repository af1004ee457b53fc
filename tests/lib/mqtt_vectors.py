"""Vectors of tests/vectors/mqtt: octets made by real MQTT programs, with the fields they mean or why they are wrong.

`public.jsonl` and `ambiguous.jsonl` hold one packet per line: `hex`, or for long ones `hex_rle` [[hex, times], ...]; long
strings and lists of `decoded` are run-length coded too. `version` is what the reader expects; `direction` who sent it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from lib.paths import VECTORS
from wirefmt import mqtt

#: Properties whose values are written in hex.
BINARY = {"correlation_data", "authentication_data"}
SIDES: dict[str, Literal["client", "server"] | None] = {"c2s": "client", "s2c": "server", "both": None}


@dataclass(frozen=True, slots=True)
class Vector:
    id: str
    version: int
    side: Literal["client", "server"] | None
    kind: str
    octets: bytes
    valid: bool | None
    decoded: dict[str, Any] | None
    reason: str
    note: str

    @property
    def incomplete(self) -> bool:
        return self.kind == "incomplete"

    @property
    def options(self) -> dict[str, Any]:
        return {"version": self.version, "side": self.side}


def expand(value: Any) -> Any:
    if isinstance(value, list):
        return [expand(v) for v in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"rle"}:
        return "".join(piece * times for piece, times in value["rle"])
    if value.keys() == {"rle_list"}:
        return [item for item, times in value["rle_list"] for _ in range(times)]
    return {key: expand(v) for key, v in value.items()}


@cache
def load(name: str) -> tuple[Vector, ...]:
    out = []
    for line in (VECTORS / "mqtt" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        octets = row.get("hex") or "".join(piece * times for piece, times in row["hex_rle"])
        out.append(
            Vector(
                row["id"],
                row["version"],
                SIDES[row["direction"]],
                row["class"],
                bytes.fromhex(octets),
                row["valid"],
                expand(row["decoded"]),
                row["reason"] or "",
                row.get("note") or "",
            )
        )
    return tuple(out)


def with_properties(pairs: list[list[Any]]) -> tuple[tuple[str, Any], ...]:
    def value_of(name: str, value: Any) -> Any:
        if name == "user_property":
            return tuple(value)
        return bytes.fromhex(value) if name in BINARY else value

    return tuple((name, value_of(name, value)) for name, value in pairs)


def expected(vector: Vector) -> dict[str, Any]:
    """The fields of `decoded` as Python values, under the names of our attributes."""
    assert vector.decoded is not None
    fields = {k: v for k, v in vector.decoded.items() if k != "type"}
    for name in ("payload", "password"):
        if fields.get(name) is not None:
            fields[name] = bytes.fromhex(fields[name])
    if "properties" in fields:
        fields["properties"] = with_properties(fields["properties"])
    if "subscriptions" in fields:
        fields["subscriptions"] = tuple(mqtt.Subscription(**s) for s in fields["subscriptions"])
    for name in ("topic_filters", "reason_codes", "return_codes"):
        if name in fields:
            fields[name] = tuple(fields[name])
    if fields.get("will") is not None:
        will = dict(fields["will"])
        will["payload"] = bytes.fromhex(will["payload"])
        will["properties"] = with_properties(will.get("properties", []))
        fields["will"] = mqtt.Will(**will)
    return fields


#: Fields of `decoded` that follow from others and are not arguments of a constructor.
DERIVED = {"flags", "remaining_length", "protocol_name", "protocol_version"}
RENAMED = {"clean_session": "clean_start", "return_code": "reason_code", "return_codes": "reason_codes"}


def build(vector: Vector) -> mqtt.Packet:
    """The packet made from the fields of `decoded` alone."""
    assert vector.decoded is not None
    arguments = {RENAMED.get(k, k): v for k, v in expected(vector).items() if k not in DERIVED}
    made: mqtt.Packet = getattr(mqtt, vector.decoded["type"].capitalize())(version=vector.version, **arguments)
    return made
