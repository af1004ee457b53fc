"""Values of AMQP as the text of columns: its size is bounded by that of the value, and text that was cut says so."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.wire import Tcp, pcap
from wirefmt import amqp091, amqp10, capture, mqtt, nsq, rocketmq

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

#: Characters for an octet: docs/amqp10.md. The worst is an array of 16 times false in an array of arrays.
FACTOR = 48


def compound(code: int, count: int, items: bytes) -> bytes:
    """1.6.22 to 1.6.24, in the 32-bit forms: 0xd0 list, 0xd1 map, 0xf0 array (`items` with their constructor)."""
    return bytes((code,)) + struct.pack(">II", len(items) + 4, count) + items


def small(code: int, count: int, items: bytes) -> bytes:
    """The 8-bit forms: 0xc0 list, 0xc1 map, 0xe0 array."""
    return bytes((code, len(items) + 1, count)) + items


def transfer(value: bytes) -> bytes:
    return amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"t", payload=b"\0\x53\x77" + value).encode()


def text_of(value: bytes) -> str:
    """The text of a value as the body of a message in a batch, which is also that in a capture."""
    (row,) = pa.record_batch(amqp10.decode_batch(transfer(value))).to_pylist()
    assert row["error"] is None
    tcp = Tcp(port=5672)
    sent = b"AMQP\0\1\0\0" + transfer(value)
    *_, found = pa.table(capture.read(io.BytesIO(pcap([*tcp.open(), *tcp.send(0, sent)])))).to_pylist()
    assert (found["status"], found["payload"]) == ("ok", row["payload"])
    text: str = row["payload"].decode()
    assert len(text) <= FACTOR * len(value)
    return text


def map_as_key(depth: int) -> bytes:
    value = b"\xa1\1k"
    for _ in range(depth):
        value = compound(0xD1, 2, value + b"\x40")
    return value


def test_a_map_as_the_key_of_a_map() -> None:
    """Each level used to quote the level below once more: 28 levels were 1 GiB of text."""
    expected: Any = {"k": None}
    assert json.loads(text_of(map_as_key(1))) == expected
    for depth in range(2, 60):
        expected = [[expected, None]]
        assert json.loads(text_of(map_as_key(depth))) == expected


def test_a_map_of_scalars_is_an_object_and_any_other_key_makes_pairs() -> None:
    assert json.loads(text_of(small(0xC1, 4, b"\xa1\1k\x54\1" + b"\x54\x07\x41"))) == {"k": 1, "7": True}
    for key, shown in ((small(0xC0, 1, b"\x40"), [None]), (b"\0\x53\1\x40", {"descriptor": 1, "value": None})):
        assert json.loads(text_of(small(0xC1, 4, b"\xa1\1k\x54\1" + key + b"\x41"))) == [["k", 1], [shown, True]]


def test_an_array_says_its_descriptor_once() -> None:
    """1.6.24: elements share the constructor with its descriptor: one of 1000 octets may serve for many small elements."""
    assert json.loads(text_of(small(0xE0, 2, b"\0\x53\5\x54" + b"\1\2"))) == {"descriptor": 5, "values": [1, 2]}
    two = small(0xE0, 2, b"\0\x53\5\0\x53\6\x54" + b"\1\2")
    assert json.loads(text_of(two)) == {"descriptor": 5, "values": {"descriptor": 6, "values": [1, 2]}}
    symbol = b"\xb3" + struct.pack(">I", 1000) + b"s" * 1000
    shown = json.loads(text_of(compound(0xF0, 1000, b"\0" + symbol + b"\x54" + b"\1" * 1000)))
    assert shown == {"descriptor": "s" * 1000, "values": [1] * 1000}
    many = text_of(small(0xE0, 200, b"\0\x53\5\x43"))
    assert json.loads(many) == {"descriptor": 5, "values": {"repeat": 200, "of": 0}}


def test_arrays_in_the_descriptors_of_arrays() -> None:
    """16 elements without octets, each of which would show the descriptor: 16 times 16 times 16 ..."""
    value = b"\x40"
    for _ in range(25):
        value = compound(0xF0, 16, b"\0" + value + b"\x43")
    json.loads(text_of(value))


def test_the_worst_text() -> None:
    inner = bytes((2, 16, 0x42)) * 500  # array8: size, count, constructor false
    shown = json.loads(text_of(compound(0xF0, 500, b"\xe0" + inner)))
    assert shown == [[False] * 16] * 500


scalars = st.one_of(
    st.sampled_from([b"\x40", b"\x41", b"\x42", b"\x43", b"\x44", b"\x45", b"\x54\x80", b"\x72\xff\x7f\xff\xff"]),
    st.binary(max_size=8).map(lambda o: b"\xa0" + bytes((len(o),)) + o),
    st.text(max_size=4).map(lambda s: b"\xa1" + bytes((len(s.encode()),)) + s.encode()),
    st.binary(min_size=8, max_size=8).map(lambda o: b"\x82" + o),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda v: compound(0xD0, len(v), b"".join(v))),
        st.lists(st.tuples(inner, inner), max_size=3, unique_by=lambda kv: kv[0]).map(
            lambda v: compound(0xD1, 2 * len(v), b"".join(k + w for k, w in v))
        ),
        st.tuples(inner, inner).map(lambda v: b"\0" + v[0] + v[1]),
        st.tuples(inner, st.integers(0, 40)).map(lambda v: compound(0xF0, v[1], b"\0" + v[0] + b"\x41")),
        st.tuples(inner, st.integers(0, 40)).map(lambda v: compound(0xF0, v[1], b"\0" + v[0] + b"\x50" + b"\7" * v[1])),
    ),
    max_leaves=20,
)


@given(values)
@settings(max_examples=200, deadline=None)
def test_text_is_bounded_by_the_value(value: bytes) -> None:
    (row,) = pa.record_batch(amqp10.decode_batch(transfer(value))).to_pylist()
    if row["error"] is None:
        assert len(row["payload"] or b"") <= FACTOR * len(value)


def test_nested_tables_of_091() -> None:
    """Names are short strings, so nothing is quoted twice: the text grows with the depth, not with its power."""
    table: dict[str, Any] = {"\\": '"'}
    for _ in range(60):
        table = {'"' * 9: table, "\1" * 9: table if len(str(table)) < 200 else None}
    octets = amqp091.BasicMessage(amqp091.BasicPublish(channel=1), amqp091.BasicProperties(headers=table), b"").encode()
    (row,) = pa.record_batch(amqp091.decode_batch(octets)).to_pylist()
    assert row["error"] is None
    assert sum(len(k) + len(v) for k, v in row["headers"]) <= FACTOR * len(octets)


def test_octets_that_are_no_text_and_are_cut_say_so() -> None:
    octets = b"\xff" * 1025
    cut = "ff" * 1024 + "... (1024 of 1025 bytes)"
    binary = b"\xb0" + struct.pack(">I", 1025) + octets
    assert json.loads(text_of(compound(0xD1, 2, b"\xa1\1k" + binary))) == {"k": cut}
    message = amqp10.Message(application_properties={"k": octets, "whole": octets[:1024]}, body=b"")
    sent = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"t", payload=message.encode()).encode()
    (row,) = pa.record_batch(amqp10.decode_batch(sent)).to_pylist()
    assert dict(row["headers"]) == {"k": cut, "whole": "ff" * 1024}
    head = b"\0\x3c\0\0" + bytes(8) + b"\x20\0"  # class basic, no body, headers
    headers = b"\1kS" + struct.pack(">I", 1025) + octets + b"\1xx" + struct.pack(">I", 1025) + octets
    content = head + struct.pack(">I", len(headers)) + headers
    method = amqp091.BasicPublish(channel=1).encode()
    sent = method + b"\2\0\1" + struct.pack(">I", len(content)) + content + b"\xce"
    (row,) = pa.record_batch(amqp091.decode_batch(sent)).to_pylist()
    assert dict(row["headers"]) == {"k": cut, "x": octets.hex()}  # a byte array is hexadecimal as such, and whole
    will = mqtt.Will(topic="t", payload=b"", properties=[("correlation_data", octets)])
    connect = mqtt.Connect(client_identifier="c", version=5, will=will).encode()
    (row,) = pa.record_batch(mqtt.decode_batch(connect)).to_pylist()
    assert dict(row["mqtt"]["will_properties"]) == {"correlation_data": cut}
    (row,) = pa.record_batch(nsq.decode_batch(struct.pack(">II", 1029, 0) + octets, side="server")).to_pylist()
    assert row["nsq"]["response"] == cut


def test_a_string_of_nsq_that_is_cut_says_so() -> None:
    """Only strings with escapes are rewritten, in 4096 octets of space."""
    identify = json.dumps({"hostname": "\\" * 5000, "user_agent": "\\" * 4000}).encode()
    octets = b"IDENTIFY\n" + struct.pack(">I", len(identify)) + identify
    (row,) = pa.record_batch(nsq.decode_batch(octets, side="client")).to_pylist()
    assert row["error"] is None
    assert row["nsq"]["user_agent"] == "\\" * 4000
    assert row["nsq"]["hostname"].endswith("\\... (cut)")
    assert 4000 < len(row["nsq"]["hostname"]) <= 4096


def test_nested_json_of_rocketmq() -> None:
    """A JSON value among extFields is the text of Java's object: nothing is quoted, so nothing is quoted twice."""
    value = '"\\"\\\\"'
    for _ in range(60):
        value = f'{{"\\"":{value},"b":[1]}}'
    header = f'{{"code":10,"language":"JAVA","version":1,"opaque":1,"flag":0,"extFields":{{"a":{value}}}}}'.encode()
    octets = struct.pack(">II", 4 + len(header), len(header)) + header
    (row,) = pa.record_batch(rocketmq.decode_batch(octets)).to_pylist()
    assert row["error"] is None
    assert 0 < sum(len(v) for _, v in row["ext_fields"]) <= len(octets)


@pytest.mark.parametrize("code", [0xD7FF, 0xD800, 0xDFFF, 0xE000])
def test_a_surrogate_has_no_utf8(code: int) -> None:
    """RFC 3629, 3: D800 to DFFF are not characters; U+FFFD replaces them (Unicode, 3.9)."""
    expected = "\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code)
    assert text_of(b"\x73" + code.to_bytes(4)) == expected
