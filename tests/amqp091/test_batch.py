"""amqp091.decode_batch: columns say what the vectors say; faults and unfinished contents are rows; nothing is dropped."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from lib.amqp091_vectors import Vector, depth_of, frame, load
from lib.groups import each_vector
from wirefmt import amqp091
from wirefmt.amqp091.columns import BATCH as AMQP091_BATCH
from wirefmt.errors import DecodeError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

VALID = [v for v in load() if v.valid and depth_of(v) <= 64]
OWN = ("exchange", "routing-key", "queue", "consumer-tag", "delivery-tag", "redelivered", "reply-code", "reply-text")
SECRETS = ("response", "new-secret")
PUBLISH = amqp091.BasicPublish(channel=1, exchange="e", routing_key="k").encode()


def rows(octets: bytes, **options: Any) -> list[dict[str, Any]]:
    """Rows without their nulls; Arrow has found them in order."""
    batch = pa.record_batch(amqp091.decode_batch(octets, **options))
    batch.validate(full=True)
    return [{k: v for k, v in row.items() if v is not None} for row in batch.to_pylist()]


def text(value: Any) -> str:
    """A value of `decoded` as the text of a column; what is not text in hexadecimal."""
    if isinstance(value, dict):
        return str(value["hex"])
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).encode().hex() if isinstance(value, str) and "\0" in value else str(value)


def field(letter: str, value: Any) -> Any:
    """A typed value of `decoded` as JSON would have it."""
    if letter == "F":
        return {text(name): field(*item) for name, item in value}
    if letter == "A":
        return [field(*item) for item in value]
    if letter == "D":
        scale, unscaled = value
        return unscaled / 10**scale
    if letter in "fd" and isinstance(value, dict):
        return ...  # NaN and infinities: looked at below
    return text(value) if letter == "S" else value


def agree(got: str, letter: str, value: Any) -> bool:
    """The text of a map's value says what the typed value is."""
    if letter in "Sx":
        return got == text(value)
    if letter == "V":
        return got == ""
    if letter in "fdD":
        want = field(letter, value)
        return got in ('"NaN"', '"Infinity"', '"-Infinity"') if want is ... else same_json(float(got), want)
    if letter in "FA" and "bits" not in str(value):
        return len(set(map(str, value))) != len(value) or same_json(json.loads(got), field(letter, value))
    return letter in "FA" or got == text(value)


def same_json(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and all(same_json(a[k], b[k]) for k in a) and a.keys() == b.keys()
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    if isinstance(a, float) and isinstance(b, float) and abs(a) < 3.4028236e38 and abs(b) < 3.4028236e38:
        # a float of 32 bits is written in as many digits as tell it from its neighbours
        return a == b or struct.pack(">f", a) == struct.pack(">f", b)
    return bool(a == b)


def check_method(row: dict[str, Any], decoded: dict[str, Any]) -> None:
    assert row["kind"] == decoded["method"]
    rest = {}
    for name, value in decoded["args"].items():
        if name in OWN:
            got = row[{"delivery-tag": "sequence", "reply-code": "code"}.get(name, name.replace("-", "_"))]
            if name == "delivery-tag":
                got %= 2**64
            assert got == (text(value) if isinstance(value, (str, dict)) else value), name
        else:
            rest["global_" if name == "global" else name.replace("-", "_")] = value
    found = dict(row.get("arguments", []))
    assert found.keys() == rest.keys()
    for name, value in rest.items():
        if name in ("challenge", "response", "new_secret"):
            assert found[name] == "***"
        elif isinstance(value, list):
            assert agree(found[name], "F", value), name
        else:
            assert found[name] == text(value), name


def check_properties(row: dict[str, Any], decoded: dict[str, Any]) -> None:
    for name, value in decoded.items():
        got = row[{"delivery-tag": "sequence", "reply-code": "code"}.get(name, name.replace("-", "_"))]
        if name == "headers":
            assert [k for k, _ in got] == [text(k) for k, _ in value]
            assert all(agree(v, *item) for (_, v), (_, item) in zip(got, value, strict=True))
        elif name == "timestamp":
            assert got % 2**64 == value
        else:
            assert got == (text(value) if isinstance(value, (str, dict)) else value), name


@each_vector(v for v in VALID if v.decoded is not None)
def test_vectors(vector: Vector) -> None:
    if vector.kind in ("properties", "table") or (
        vector.kind == "frame" and vector.decoded["type"] in ("header", "body")
    ):
        # a content of its own
        octets = PUBLISH.replace(b"\0\1", vector.whole[1:3], 1)
        if vector.kind == "frame" and vector.decoded["type"] == "body":
            size = len(vector.octets) - 8
            octets += frame(2, vector.decoded["channel"], b"\0\x3c\0\0" + size.to_bytes(8, "big") + b"\0\0")
            octets += vector.whole if size else b""
            (row,) = rows(octets)
            assert row["payload"].hex() == vector.decoded["payload"]
            return
        octets += vector.whole
        (row,) = rows(octets, body_max=0)
        decoded = {"headers": vector.decoded} if vector.kind == "table" else vector.decoded
        if vector.kind == "frame":
            assert row["body_size"] == min(decoded["body-size"], 2**63 - 1)
            decoded = decoded["properties"]
        check_properties(row, decoded)
        return
    frames = vector.decoded if vector.kind == "sequence" else [vector.decoded]
    found = rows(vector.whole, side=vector.side)
    methods = [f for f in frames if f.get("type", "method") == "method"]
    assert sum(1 for r in found if r["kind"] not in ("heartbeat", "protocol-header")) == len(methods)
    assert sum(1 for r in found if r["kind"] == "heartbeat") == sum(1 for f in frames if f.get("type") == "heartbeat")
    if len(methods) == 1:
        (row,) = (r for r in found if r["kind"] not in ("heartbeat", "protocol-header"))
        check_method(row, methods[0])
    bodies: dict[int, str] = {}
    for f in frames:
        if f.get("type") == "body":
            bodies[f["channel"]] = bodies.get(f["channel"], "") + f["payload"]
    got: dict[int, str] = {}
    for row in found:
        if row.get("payload"):
            got[row["channel"]] = got.get(row["channel"], "") + row["payload"].hex()
    assert {c: b for c, b in bodies.items() if b} == got


@each_vector(v for v in load() if v.kind != "sequence")
def test_errors_are_rows(vector: Vector) -> None:
    """As decode() says it, in either strictness."""
    for strictness in ("strict", "lax"):
        batch = amqp091.decode_batch(vector.whole, side=vector.side, strictness=strictness, frame_max=vector.frame_max)
        pa.record_batch(batch).validate(full=True)
        try:
            message = amqp091.decode(vector.whole, **vector.options, strictness=strictness)
        except DecodeError as error:
            if batch.num_rows:
                assert batch["error"][0]
                if "bytes after the frame" not in str(error):
                    assert str(error).removeprefix("amqp091: ") == batch["error"][0]
            else:
                assert batch.rest == len(vector.whole)
        else:
            alone = not isinstance(message, (amqp091.ContentHeader, amqp091.Body))
            content = isinstance(message, amqp091.Method) and message.has_content
            assert bool(batch.validity("error")[0]) == (content or not alone)


def test_columns() -> None:
    assert amqp091.decode_batch(b"").names == [c.name for c in AMQP091_BATCH]
    batch = amqp091.decode_batch(PUBLISH, columns=("kind", "byte_offset"))
    assert batch.names == ["kind", "byte_offset"]
    with pytest.raises(ValueError, match="no such column"):
        amqp091.decode_batch(b"", columns=("no such column",))


def test_rest_and_partial() -> None:
    message = amqp091.BasicMessage(
        amqp091.decode(PUBLISH), amqp091.BasicProperties(type="t"), b"12345", frame_max=11
    ).encode()
    (row,) = rows(message)
    assert (row["payload"], row["wire_size"], row["byte_offset"]) == (b"12345", len(message), 0)
    batch = amqp091.decode_batch(message + PUBLISH[:9])
    assert (batch.num_rows, batch.rest) == (1, 9)
    (row,) = rows(message[:-10])  # the last body frame is missing
    assert (row["kind"], row["type"], row["payload"], row["body_size"]) == ("basic.publish", "t", b"123", 5)
    assert "the stream ends inside a content" in row["error"]
    (row,) = rows(PUBLISH)
    assert (row["kind"], row["exchange"]) == ("basic.publish", "e")
    assert "error" in row
    assert "body_size" not in row


def test_unexpected_frames() -> None:
    """The pending content ends with its error; a new method follows."""
    whole = amqp091.BasicMessage(amqp091.decode(PUBLISH), None, b"12345", frame_max=0).encode()
    header = whole[len(PUBLISH) : -13]
    first, second = rows(PUBLISH + header + whole)
    assert "method inside a content" in first["error"]
    assert first["body_size"] == 5
    assert second["payload"] == b"12345"
    assert "error" not in second
    (only,) = rows(header)
    assert "content header without a preceding method with content" in only["error"]
    assert "kind" not in only
    first, second = rows(PUBLISH + frame(3, 1, b"xx") + amqp091.TxSelect(channel=1).encode())
    assert "unexpected content body" in first["error"]
    assert second["kind"] == "tx.select"
    (row,) = rows(whole, body_max=4)[:1]
    assert "body larger than the caller's limit" in row["error"]


def test_channels_interleaved() -> None:
    parts = []
    for channel in (1, 300, 65535):
        octets = amqp091.BasicMessage(
            amqp091.BasicPublish(channel=channel), None, bytes([channel & 255]) * 3, frame_max=9
        )
        parts.append([f.encode() for f in amqp091.Decoder().feed(octets.encode())])
    found = rows(b"".join(b"".join(turn) for turn in zip(*parts, strict=True)))
    assert [(r["channel"], r["payload"]) for r in found] == [(1, b"\1" * 3), (300, b"\x2c" * 3), (65535, b"\xff" * 3)]


def test_secrets() -> None:
    octets = amqp091.ConnectionStartOk(client_properties={"product": "p"}, response=b"\0guest\0hunter2").encode()
    (row,) = rows(octets)
    assert dict(row["arguments"])["response"] == "***"
    assert dict(row["arguments"])["client_properties"] == '{"product":"p"}'
    (row,) = rows(octets, expose_credentials=True)
    assert dict(row["arguments"])["response"] == b"\0guest\0hunter2".hex()


def test_bodies_left_out() -> None:
    whole = amqp091.BasicMessage(amqp091.decode(PUBLISH), None, b"12345").encode()
    (row,) = rows(whole, payload=False)
    assert "payload" not in row
    assert row["body_size"] == 5


def test_texts_of_values() -> None:
    table = amqp091.FieldTable(
        {
            "json": {"quote": '"\\', "line": "\n", "list": [1, None, True, b"\xff", 0.1, float("nan")]},
            "hex": b"\x00\xff",
            "float": amqp091.FieldValue("f", 0.1),
            "void": None,
            "bad": amqp091.FieldValue("S", b"a\xffb\xfe"),
            "time": amqp091.Timestamp(5),
        }
    )
    (row,) = rows(amqp091.BasicMessage(amqp091.decode(PUBLISH), amqp091.BasicProperties(headers=table)).encode())
    got = dict(row["headers"])
    assert json.loads(got["json"]) == {"quote": '"\\', "line": "\n", "list": [1, None, True, "ff", 0.1, "NaN"]}
    assert (got["hex"], got["float"], got["void"], got["bad"], got["time"]) == (
        "00ff",
        "0.1",
        "",
        "61ff62fe",
        "5",
    )
    (row,) = rows(amqp091.BasicMessage(amqp091.decode(PUBLISH), amqp091.BasicProperties(headers={})).encode())
    assert row["headers"] == []
