"""Vectors of tests/vectors/amqp10: octets made by real AMQP 1.0 programs, with what they mean or why they are wrong.

A value is a node: [type, value]; ["described", descriptor, value]; ["map", [[key, value], ...]]; ["array", element type
or ["described", descriptor, type], [values]], where {"repeat": n, "of": value} is many values without octets.
`encodings` names the encodings in pre-order, `canonical` is the smallest encoding, `reencoded` another one.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from lib.paths import VECTORS
from wirefmt import amqp10
from wirefmt.amqp10 import spec
from wirefmt.framing import Limits

#: What the vectors were judged with; arrays of elements that take no octets have as many as they say.
LIMITS = Limits(frame_size=131072, elements=0)

CLASSES = {
    "ubyte": amqp10.UByte,
    "ushort": amqp10.UShort,
    "uint": amqp10.UInt,
    "ulong": amqp10.ULong,
    "byte": amqp10.Byte,
    "short": amqp10.Short,
    "int": amqp10.Int,
    "timestamp": amqp10.Timestamp,
    "float": amqp10.Float,
    "char": amqp10.Char,
    "symbol": amqp10.Symbol,
}
DECIMALS = {"decimal32": amqp10.Decimal32, "decimal64": amqp10.Decimal64, "decimal128": amqp10.Decimal128}
NAMES = {cls: name for name, cls in (CLASSES | DECIMALS).items()}
COMPOSITES = {c.code: c for c in spec.COMPOSITES}


@dataclass(frozen=True, slots=True)
class Vector:
    id: str
    rule: str
    kind: str  # value, frame, sasl, message, sequence
    octets: bytes
    valid: bool
    decoded: Any
    encodings: tuple[str, ...]
    canonical: bytes | None
    reencoded: tuple[bytes, ...]
    reason: str
    incomplete: bool
    too_deep: bool  # its tree was left out

    @property
    def options(self) -> dict[str, Any]:
        return {"limits": LIMITS}


@cache
def load() -> tuple[Vector, ...]:
    rows = map(json.loads, (VECTORS / "amqp10" / "public.jsonl").read_text(encoding="utf-8").splitlines())
    return tuple(
        Vector(
            row["id"],
            row["rule"],
            row["kind"],
            bytes.fromhex(row["hex"]),
            row["valid"],
            row["decoded"],
            tuple(flat(row.get("encodings", ()))),
            bytes.fromhex(row["canonical_hex"]) if row.get("canonical_hex") else None,
            tuple(octets_of(row.get("reencoded"))),
            row.get("reason") or "",
            bool(row.get("incomplete")),
            row["valid"] and row["decoded"] is None,
        )
        for row in rows
    )


def flat(names: Any) -> list[str]:
    return [n for name in names for n in (flat(name) if isinstance(name, list) else [name])]


def octets_of(value: Any) -> list[bytes]:
    """Every hex string in a value of `reencoded`, however it is wrapped."""
    if isinstance(value, str):
        return [bytes.fromhex(value)]
    if isinstance(value, dict):
        return [o for v in value.values() for o in octets_of(v)]
    return [o for v in value or () for o in octets_of(v)]


# ---- objects -> nodes


def number(value: float, code: str) -> Any:
    if math.isnan(value) or math.isinf(value):
        return {"bits": struct.pack(code, value).hex()}
    return value


def node(value: Any) -> list[Any]:
    """What a decoded value is, as the vectors write it."""
    kind = type(value)
    simple = {type(None): "null", bool: "boolean", int: "long", str: "string"}
    if kind in simple:
        return [simple[kind], value]
    if kind is bytes:
        return ["binary", value.hex()]
    if kind is float:
        return ["double", number(value, ">d")]
    if kind is UUID:
        return ["uuid", value.hex]
    if kind in DECIMALS.values():
        return [NAMES[kind], {"bits": value.hex()}]
    if kind is amqp10.Char:
        return ["char", ord(value)]
    if kind is amqp10.Float:
        return ["float", number(float(value), ">f")]
    if kind in NAMES:
        return [NAMES[kind], str(value) if kind is amqp10.Symbol else int(value)]
    if kind is amqp10.List:
        return ["list", [node(item) for item in value]]
    if kind is amqp10.Map:
        return ["map", [[node(key), node(item)] for key, item in value.pairs]]
    if kind is amqp10.Array:
        return array_node(value)
    return ["described", node(value.descriptor), node(value.value)]


def array_node(array: amqp10.Array) -> list[Any]:
    of: Any = array.type
    for descriptor in reversed(array.descriptors):
        of = ["described", node(descriptor), of]
    if len(array) > 1000 and array.constructor < 0x50:
        return ["array", of, {"repeat": len(array), "of": node(array[0])}]
    return ["array", of, [node(item) for item in array]]


def same(a: Any, b: Any) -> bool:
    """Two nodes are one, -0.0 and 0.0 apart."""
    return json.dumps(a) == json.dumps(b)


# ---- nodes -> objects


def build(value: list[Any], composites: bool = False) -> Any:
    """A fresh object for a node; `composites`: those of the specification by their classes."""
    kind = value[0]
    if kind in CLASSES:
        cls = CLASSES[kind]
        return cls(from_bits(value[1], ">f") if kind == "float" else value[1])
    if kind in DECIMALS:
        return DECIMALS[kind](bytes.fromhex(value[1]["bits"]))
    if kind == "double":
        return from_bits(value[1], ">d")
    if kind == "binary":
        return bytes.fromhex(value[1])
    if kind == "uuid":
        return UUID(value[1])
    if kind == "list":
        return [build(item, composites) for item in value[1]]
    if kind == "map":
        return amqp10.Map([(build(k, composites), build(v, composites)) for k, v in value[1]])
    if kind == "array":
        return build_array(value[1], value[2], composites)
    if kind == "described":
        return build_described(value, composites)
    return value[1]  # null, boolean, long, string


def from_bits(value: Any, code: str) -> float:
    if isinstance(value, dict):
        return float(struct.unpack(code, bytes.fromhex(value["bits"]))[0])
    return float(value)


def build_array(of: Any, items: Any, composites: bool) -> amqp10.Array:
    descriptors = []
    while isinstance(of, list):
        descriptors.append(build(of[1], composites))
        of = of[2]
    if isinstance(items, dict):
        return amqp10.Array.repeat(build(items["of"]), items["repeat"])
    return amqp10.Array(of, [build(item, composites) for item in items], descriptors=descriptors)


def build_described(value: list[Any], composites: bool) -> Any:
    _, descriptor, described = value
    composite = COMPOSITES.get(descriptor[1]) if descriptor[0] == "ulong" else None
    if not composites or composite is None or described[0] != "list" or "section" in composite.provides:
        return amqp10.Described(build(descriptor, composites), build(described, composites))
    fields = {
        spec.attribute(field.name): build(item, composites)
        for field, item in zip(composite.fields, described[1], strict=False)
    }
    return getattr(amqp10, class_name(composite.name))(**fields)


def class_name(name: str) -> str:
    """Of a composite type of the specification: `sasl-init` -> SaslInit."""
    return "".join(part.capitalize() for part in name.split("-"))


# ---- frames and messages


def build_frame(decoded: dict[str, Any], composites: bool = False) -> Any:
    if "header" in decoded:
        return amqp10.ProtocolHeader(decoded["id"])
    if decoded.get("empty"):
        return amqp10.EmptyFrame(decoded["channel"])
    fields = {spec.attribute(name): build(value, composites) for name, value in decoded["fields"].items()}
    if decoded["performative"] == "transfer":
        fields["payload"] = bytes.fromhex(decoded.get("payload", ""))
    channel = decoded["channel"] if decoded["type"] == "amqp" else 0  # SASL ignores it
    return getattr(amqp10, class_name(decoded["performative"]))(channel=channel, **fields)


def frame_differences(frame: Any, decoded: dict[str, Any]) -> list[str]:
    """Where a decoded frame is not what the vector says."""
    if "header" in decoded:
        return [] if frame == amqp10.ProtocolHeader(decoded["id"]) else [repr(frame)]
    if decoded.get("empty"):
        return [] if isinstance(frame, amqp10.EmptyFrame) and frame.channel == decoded["channel"] else [repr(frame)]
    wrong = []
    composite = next(c for c in spec.COMPOSITES if c.name == decoded["performative"])
    if type(frame) is not getattr(amqp10, class_name(composite.name)):
        return [f"{type(frame).__name__} for {composite.name}"]
    if frame.channel != decoded["channel"]:
        wrong.append(f"channel {frame.channel}")
    if frame.extended_header.hex() != decoded.get("extended_header", ""):
        wrong.append(f"extended header {frame.extended_header.hex()}")
    written = node(frame.value)[1]
    if len(written) != decoded["field_count"]:
        wrong.append(f"{len(written)} fields")
    for i, field in enumerate(composite.fields):
        want = decoded["fields"].get(field.name)
        have = getattr(frame, spec.attribute(field.name))
        if (have is None) != (want is None):
            wrong.append(f"{field.name}: {have!r} for {want}")
        elif want is not None and not (same(written[i], want) and field_is(have, want)):
            wrong.append(f"{field.name}: {have!r}, written {written[i]}, for {want}")
    payload = bytes.fromhex(decoded.get("payload", ""))
    if composite.name == "transfer" and (bytes(frame.payload) != payload or frame.payload_bytes() != payload):
        wrong.append(f"payload {frame.payload_bytes().hex()}")
    return wrong


def field_is(value: Any, want: list[Any]) -> bool:
    """The attribute of a field, in which integers are plain, is what a node says."""
    if type(value) is int:
        return want[0] in NAMES.values() and bool(value == want[1])
    return same(node(value), want)


SECTIONS = {"data": amqp10.Data, "amqp-sequence": amqp10.AmqpSequence, "amqp-value": amqp10.AmqpValue}


def sections(message: amqp10.Message) -> list[Any]:
    """A decoded message as the vectors write it."""
    out: list[Any] = []
    for section in spec.SECTIONS:
        if section.name in SECTIONS:
            if section.name == "data":
                out += [[body_name(part), body_node(part)] for part in message.body]
            continue
        value = getattr(message, spec.attribute(section.name))
        if value is None:
            continue
        if section.type == "map":
            out.append([section.name, node(value)])
        else:
            composite = COMPOSITES[section.code]
            written = node(value.value)[1]
            fields = zip(composite.fields, written, strict=False)
            out.append([section.name, {f.name: item for f, item in fields if item[0] != "null"}])
    return out


def body_name(part: Any) -> str:
    return next(name for name, cls in SECTIONS.items() if type(part) is cls)


def body_node(part: Any) -> Any:
    if isinstance(part, amqp10.Data):
        return ["binary", bytes(part).hex()]
    return node(part.items) if isinstance(part, amqp10.AmqpSequence) else node(part.value)


def build_message(decoded: list[Any], composites: bool = False) -> amqp10.Message:
    fields: dict[str, Any] = {}
    body: list[Any] = []
    for name, value in decoded:
        if name in SECTIONS:
            body.append(SECTIONS[name](build(value, composites)))
        elif isinstance(value, dict):
            made = {spec.attribute(field): build(item, composites) for field, item in value.items()}
            fields[name] = getattr(amqp10, class_name(name))(**made)
        else:
            fields[spec.attribute(name)] = build(value, composites)
    return amqp10.Message(body=body, **fields)
