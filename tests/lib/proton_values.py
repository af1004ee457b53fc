"""Values as python-qpid-proton writes and reads them, one of every AMQP 1.0 type and encoding, and what they are as nodes of
the vectors: `node_of` says for proton's objects what amqp10_vectors.node says for ours."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest

proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")

D = proton.Data
NONE = proton.UNDESCRIBED
NAMES = {
    D.NULL: "null", D.BOOL: "boolean", D.UBYTE: "ubyte", D.BYTE: "byte", D.USHORT: "ushort", D.SHORT: "short",
    D.UINT: "uint", D.INT: "int", D.CHAR: "char", D.ULONG: "ulong", D.LONG: "long", D.TIMESTAMP: "timestamp",
    D.FLOAT: "float", D.DOUBLE: "double", D.DECIMAL32: "decimal32", D.DECIMAL64: "decimal64",
    D.DECIMAL128: "decimal128", D.UUID: "uuid", D.BINARY: "binary", D.STRING: "string", D.SYMBOL: "symbol",
    D.DESCRIBED: "described", D.ARRAY: "array", D.LIST: "list", D.MAP: "map",
}  # fmt: skip
CLASSES = {
    proton.ubyte: "ubyte", proton.byte: "byte", proton.ushort: "ushort", proton.short: "short", proton.uint: "uint",
    proton.int32: "int", proton.ulong: "ulong", proton.timestamp: "timestamp", int: "long",
}  # fmt: skip

IDENTIFIER = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
SCALARS: list[Any] = [
    None, True, False,
    proton.ubyte(0), proton.ubyte(255), proton.ushort(65535), proton.uint(0), proton.uint(255), proton.uint(256),
    proton.uint(2**32 - 1), proton.ulong(0), proton.ulong(255), proton.ulong(256), proton.ulong(2**64 - 1),
    proton.byte(-128), proton.short(-32768), proton.int32(-1), proton.int32(127), proton.int32(-(2**31)),
    0, -128, 128, 2**63 - 1, -(2**63),
    proton.float32(1.5), proton.float32(float("inf")), 1.1, -0.0,
    proton.decimal32(7), proton.decimal64(2**60), proton.decimal128(bytes(range(16))),
    proton.char("a"), proton.char("\U0001f600"), proton.timestamp(-1), proton.timestamp(1_700_000_000_123), IDENTIFIER,
    b"", b"\x00\xff", b"x" * 256, "", "grüße", "é" * 128, proton.symbol(""), proton.symbol("amqp:s"),
    proton.symbol("s" * 256),
]  # fmt: skip
#: RabbitMQ 3.10 ends the connection on a list of several as the body, and on arrays of types that it does not know there.
NOT_FOR_RABBITMQ: list[Any] = [
    [1, "a", None],
    [1, ["a", [None]], []],
    {"list": [1], "map": {"k": {}}},
    proton.Array(NONE, D.LIST, [1], []),
    proton.Array(NONE, D.DOUBLE, 1.5, -0.0),
    proton.Array(NONE, D.UUID, IDENTIFIER),
    proton.Array(NONE, D.DECIMAL32, proton.decimal32(1)),
    proton.Array(NONE, D.DECIMAL64, proton.decimal64(1)),
    proton.Array(NONE, D.DECIMAL128, proton.decimal128(bytes(16))),
    proton.Array(NONE, D.FLOAT, proton.float32(1.5)),
    proton.Array(NONE, D.MAP, {"a": 1}, {}),
    proton.Array(NONE, D.BINARY, b"a", b""),
    proton.Array(NONE, D.CHAR, proton.char("c")),
    proton.Array(NONE, D.TIMESTAMP, proton.timestamp(1)),
    proton.Array(NONE, D.BYTE, proton.byte(-1), proton.byte(1)),
    proton.Array(NONE, D.UBYTE, proton.ubyte(1)),
    proton.Array(NONE, D.SHORT, proton.short(1)),
    proton.Array(NONE, D.USHORT, proton.ushort(1)),
    proton.Array(proton.symbol("des"), D.LONG, 1, 2),
    proton.Array(proton.ulong(7), D.STRING, "a"),
]
COMPOUNDS: list[Any] = [
    [],
    ["a"],
    {},
    {"a": 1, proton.symbol("b"): proton.uint(2), 3: None, True: "t"},
    proton.Array(NONE, D.BOOL, True, False),
    proton.Array(NONE, D.INT, proton.int32(1), proton.int32(-200)),
    proton.Array(NONE, D.UINT, proton.uint(1), proton.uint(300)),
    proton.Array(NONE, D.ULONG, proton.ulong(1)),
    proton.Array(NONE, D.LONG, 1, 2**40),
    proton.Array(NONE, D.STRING, "a", "é"),
    proton.Array(NONE, D.SYMBOL, proton.symbol("a"), proton.symbol("bc")),
    proton.Array(NONE, D.UINT),
    proton.Described(proton.symbol("x:y"), "value"),
    proton.Described(proton.ulong(2**40), [1]),
    proton.Described("text", proton.ulong(9999)),
]
FOR_RABBITMQ = [value for value in SCALARS + COMPOUNDS if value is not None]
EVERYTHING = SCALARS + COMPOUNDS + NOT_FOR_RABBITMQ


def number(value: float, code: str) -> Any:
    if value != value or value in (float("inf"), float("-inf")):
        return {"bits": struct.pack(code, value).hex()}
    return value


def node_of(value: Any) -> list[Any]:
    """As the vectors write it. proton's classes are subclasses of Python's: the exact class is asked."""
    kind = type(value)
    if kind in CLASSES:
        return [CLASSES[kind], int(value)]
    if value is None:
        return ["null", None]
    if kind is bool:
        return ["boolean", value]
    if kind is proton.float32:
        return ["float", number(float(value), ">f")]
    if kind is float:
        return ["double", number(value, ">d")]
    if kind is proton.decimal32:
        return ["decimal32", {"bits": int(value).to_bytes(4, "big").hex()}]
    if kind is proton.decimal64:
        return ["decimal64", {"bits": int(value).to_bytes(8, "big").hex()}]
    if kind is proton.decimal128:
        return ["decimal128", {"bits": bytes(value).hex()}]
    if kind is proton.char:
        return ["char", ord(value)]
    if kind is uuid.UUID:
        return ["uuid", value.hex]
    if kind in (bytes, memoryview):
        return ["binary", bytes(value).hex()]
    if kind is proton.symbol:
        return ["symbol", str(value)]
    if isinstance(value, str):
        return ["string", value]
    if isinstance(value, list):
        return ["list", [node_of(item) for item in value]]
    if isinstance(value, dict):
        return ["map", [[node_of(k), node_of(v)] for k, v in value.items()]]
    if isinstance(value, proton.Array):
        return array_node_of(value)
    return ["described", node_of(value.descriptor), node_of(value.value)]


def array_node_of(array: Any) -> list[Any]:
    name = NAMES[array.type]
    of: Any = name if array.descriptor is NONE else ["described", node_of(array.descriptor), name]
    return ["array", of, [[name, node_of(item)[1]] for item in array.elements]]


def described(value: Any) -> str:
    """For the name of a test."""
    return f"{type(value).__name__} {value!r}"[:40].encode("ascii", "replace").decode()
