"""rocketmq.encode_batch: columns to frames, against what the real Java code wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.encoded import again
from lib.rocketmq_vectors import Vector, load, of
from wirefmt import rocketmq
from wirefmt.errors import EncodeError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

WRITTEN = of("captured-frame", "request", "response", "acl-signed-request")
#: A value of no bytes is null in the binary header, and columns have no null values.
NOT_HELD = {"rmq-edge-ext-rocketmq", "rmq-frame-bin-ext-emptyval"}
FRAMES = [v for v in load() if "frame" in v.kind or v in WRITTEN]


def decode(octets: bytes) -> Any:
    return rocketmq.decode_batch(octets, expose_credentials=True)


@pytest.mark.parametrize("vector", FRAMES, ids=[v.id for v in FRAMES])
def test_what_was_decoded_is_encoded_again(vector: Vector) -> None:
    if vector.id in NOT_HELD:
        return
    made = again(vector.octets, decode, rocketmq.encode_batch)
    if vector in WRITTEN:
        assert made == vector.octets


def test_an_empty_map_has_no_entries() -> None:
    """A binary header has the length 0 then, which is null again (as the object with `ext_fields={}`); JSON has {}."""
    for form in ("ROCKETMQ", "JSON"):
        row = columns(serialize_type=form, code=10, sequence=1, flag=0, language="JAVA", ext_fields=[])
        octets = rocketmq.encode_batch(row)
        command = rocketmq.RemotingCommand(code=10, opaque=1, ext_fields={}, serialize_type=form)
        assert rocketmq.decode(octets).ext_fields == rocketmq.decode(command.encode()).ext_fields


def test_a_stream_of_all() -> None:
    octets = b"".join(v.octets for v in WRITTEN if v.id not in NOT_HELD)
    assert again(octets, decode, rocketmq.encode_batch) == octets


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)


@st.composite
def commands(draw: st.DrawFn) -> rocketmq.RemotingCommand:
    binary = draw(st.booleans())
    number = INT16 if binary else INT32
    return rocketmq.RemotingCommand(
        code=draw(number),
        version=draw(number),
        opaque=draw(INT32),
        flag=draw(st.integers(0, 3)),
        language=draw(st.sampled_from(["JAVA", "GO", "RUST"])),
        remark=draw(TEXT | st.none()),
        ext_fields=draw(st.dictionaries(TEXT.filter(bool), TEXT, max_size=40)),
        body=draw(st.binary(max_size=50) | st.none()),
        serialize_type="ROCKETMQ" if binary else "JSON",
    )


@given(st.lists(commands(), max_size=4))
def test_any_values(made: list[Any]) -> None:
    again(b"".join(c.encode() for c in made), decode, rocketmq.encode_batch)


def columns(**given: Any) -> Any:
    return pa.table(
        {
            name: pa.array([value], pa.map_(pa.string(), pa.string())) if isinstance(value, list) else pa.array([value])
            for name, value in given.items()
        }
    )


def test_the_fewest_columns() -> None:
    """Sections 2 and 3 of docs/rocketmq.md: length, type and length of the header, header."""
    made = rocketmq.encode_batch(columns(serialize_type="JSON", code=34, language="GO"))
    header = b'{"code":34,"flag":0,"language":"GO","serializeTypeCurrentRPC":"JSON","version":0}'
    assert made == (4 + len(header)).to_bytes(4) + len(header).to_bytes(4) + header
    made = rocketmq.encode_batch(columns(serialize_type="ROCKETMQ", code=34, sequence=1, language="GO", payload=b"x"))
    assert made == bytes.fromhex("0000001a 01000015 0022 09 0000 00000001 00000000 00000000 00000000 78")


def test_texts_are_escaped_as_fastjson_does() -> None:
    text = 'a"b\\c\n\t\x0b\x7f\x85\u2028é中🚀' + "x" * 20
    row = columns(serialize_type="JSON", code=1, remark=text, ext_fields=[(text, text)])
    octets = rocketmq.encode_batch(row)
    assert b'\\"b\\\\c\\n\\t\\u000B\\u007F\\u0085\\u2028\xc3\xa9' in octets
    header = json.loads(octets[8:])
    assert (header["remark"], header["extFields"]) == (text, {text: text})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"code": 1}, "column 'serialize_type', row 0: null"),
        ({"code": 1, "serialize_type": "XML"}, "column 'serialize_type', row 0: no name"),
        ({"serialize_type": "JSON"}, "column 'code', row 0: null"),
        ({"serialize_type": "JSON", "code": 2**31}, "column 'code', row 0: 2147483648, not -2147483648 to 2147483647"),
        (
            {"serialize_type": "ROCKETMQ", "code": 40000, "sequence": 1},
            "column 'code', row 0: 40000, not -32768 to 32767",
        ),
        ({"serialize_type": "ROCKETMQ", "code": 1}, "column 'sequence', row 0: null"),
        ({"serialize_type": "JSON", "code": 1, "language": "COBOL"}, "column 'language', row 0: no name"),
        (
            {"serialize_type": "JSON", "code": 1, "destination": "t"},
            "column 'destination', row 0: ext_fields has no such field",
        ),
        (
            {"serialize_type": "JSON", "code": 1, "destination": "t", "ext_fields": [("topic", "u")]},
            "column 'destination', row 0: ext_fields has another value",
        ),
        (
            {"serialize_type": "JSON", "code": 310, "properties": "p", "ext_fields": [("properties", "p")]},
            "column 'properties', row 0: ext_fields has no such field",
        ),
        (
            {"serialize_type": "JSON", "code": 1, "ext_fields": [("n", None)]},
            "column 'ext_fields.entries.value', row 0: null",
        ),
        (
            {"serialize_type": "ROCKETMQ", "code": 1, "sequence": 1, "ext_fields": [("n" * 32768, "")]},
            "column 'ext_fields.entries.key', row 0: 32768 bytes or elements, at most 32767 fit",
        ),
        ({"serialize_type": "JSON", "code": 1, "remark": "x" * (1 << 24)}, "column 'remark', row 0: 16777216 bytes"),
        ({"serialize_type": "JSON", "code": 1, "remark": '"' * (1 << 23)}, "row 0: 16777287 bytes|column"),
        ({"serialize_type": "JSON", "code": 1, "error": "bad"}, "column 'error', row 0"),
    ],
)
def test_a_wrong_row_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(EncodeError, match=said):
        rocketmq.encode_batch(columns(**given))


def test_the_letters_of_send_message_v2() -> None:
    fields = [("a", "group"), ("b", "topic"), ("i", "p")]
    row = columns(serialize_type="JSON", code=310, destination="topic", properties="p", ext_fields=fields)
    assert decode(rocketmq.encode_batch(row))["destination"].tolist() == ["topic"]
