"""Rows of headers in the form of the Java code, and of the same headers in a form that takes another path through the reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.wire import Tcp, pcap
from wirefmt import rocketmq
from wirefmt.rocketmq import spec

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
from wirefmt.capture import CaptureDecoder  # noqa: E402

Fields = list[tuple[str, str]]

#: Columns that depend on the form, or on the packets.
PLACE = {"raw", "byte_offset", "wire_size", "offset", "size", "ts", "ts_ns", "ts_first", "frame_no"}

NAMES = [
    *"abcdefghijklmnz", "topic", "consumerGroup", "group", "producerGroup", "queueId", "queueOffset", "commitOffset", "offset",
    "commitLogOffset", "properties", "sysFlag", "flag", "bornTimestamp", "storeTimestamp", "reconsumeTimes", "bname",
    "brokerName", "msgId", "transactionId", "clientID", "clientId", "subscription", "nextBeginOffset", "minOffset",
    "maxOffset", "", "tags", "topik", "xopic", "queueid", "password", "x-token", "größe", 'quo"te', "back\\slash",
]  # fmt: skip
PROPERTIES = st.lists(
    st.sampled_from([
        "TAGS", "KEYS", "UNIQ_KEY", "PGROUP", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "WAIT", "secret", "password", "true",
        "x", "7", "v" * 15, "v" * 16, "v" * 17, "w" * 40, "", "Ω", "\x01", "\x02", "\x01", "\x02", "\0", '"', "\\", "\x7f",
    ]),
    max_size=24,
).map("".join)  # fmt: skip
USUAL = st.lists(
    st.tuples(st.sampled_from(["KEYS", "TAGS", "TTL", "apiKey", "n"]), st.sampled_from(["1", "value", "é"])), max_size=9
).map(lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs))
VALUES = st.one_of(
    st.sampled_from(
        ["", "0", "-1", "42", "1700000000174", "9223372036854775807", "9223372036854775808", "-", "4x", "orders"]
    ),
    st.integers(0, 70).map(lambda n: "v" * n),
    st.sampled_from(["\x01", "\x07", "\x08", "\t", "\x1f", "é", "\U0001f600", '"', "\\", "/", "\\u0001", "a\x01b\x02"]),
    PROPERTIES,
    USUAL,
)
FIELDS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=40)


def header(code: int, flag: int, fields: Fields, between: str) -> bytes:
    """The members as the Java code orders them, with this between them. Names may repeat."""
    ext = ",".join(
        f"{json.dumps(k, ensure_ascii=False)}:{between}{json.dumps(v, ensure_ascii=False)}" for k, v in fields
    )
    # the Java code writes control characters as \u and four digits, as json does
    members = [f'"code":{code}', f'"extFields":{{{ext}}}', f'"flag":{flag}', '"language":"JAVA"', '"opaque":7']
    members += ['"serializeTypeCurrentRPC":"JSON"', '"version":479']
    return ("{" + ("," + between).join(members) + "}").encode()


def frame(code: int, flag: int, fields: Fields, between: str) -> bytes:
    octets = header(code, flag, fields, between)
    return (8 + len(octets)).to_bytes(4, "big") + len(octets).to_bytes(4, "big") + octets + b"body"


def without_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in PLACE} for row in rows]


def rows_of(first: bytes, answer: bytes, size: int, **options: Any) -> list[dict[str, Any]]:
    tcp = Tcp(port=10911)
    frames = tcp.open() + tcp.send(0, first, size) + tcp.send(1, answer, size) + tcp.close()
    decoder = CaptureDecoder(**options)
    decoder.begin_file("c", 0)
    octets = pcap(frames)
    assert decoder.feed(octets) == len(octets)
    assert decoder.end_file()
    assert decoder.finish()
    table = pa.table(decoder.take(final=True))
    table.validate(full=True)
    return without_place(table.to_pylist())


def columns_of(octets: bytes, **options: Any) -> list[dict[str, Any]]:
    batch = pa.record_batch(rocketmq.decode_batch(octets, **options))
    batch.validate(full=True)
    return without_place(batch.to_pylist())


@given(code=st.sampled_from([310, 10, 15]), exposed=st.booleans(), asked=FIELDS, answered=FIELDS)
def test_the_spelling_does_not_matter(code: int, exposed: bool, asked: Fields, answered: Fields) -> None:
    turns = [(frame(code, 0, asked, between), frame(0, 1, answered, between)) for between in ("", " ", "\n/**/")]
    usual, *others = [rows_of(*turn, 1448, expose_credentials=exposed, detail=True) for turn in turns]
    assert [row["kind"] for row in usual] == [spec_name(code)] * 2
    for other in [*others, rows_of(*turns[0], 7, expose_credentials=exposed, detail=True)]:
        assert other == usual
    some = rows_of(*turns[0], 1448, columns=["protocol", "kind", "destination"])
    assert some == [{name: row[name] for name in ("protocol", "kind", "destination")} for row in usual]
    batches = [columns_of(first + answer, expose_credentials=exposed) for first, answer in turns]
    assert batches[0] == batches[1] == batches[2]


def spec_name(code: int) -> str:
    (name,) = [row.name for row in spec.REQUEST_CODES if row.code == code]
    return name


@given(code=st.one_of(st.sampled_from([row.code for row in spec.REQUEST_CODES]), st.integers(0, 999_999_999)))
def test_a_code_has_its_own_name(code: int) -> None:
    known = {row.code: row.name for row in spec.REQUEST_CODES}
    rows = rows_of(frame(code, 0, [], ""), frame(0, 1, [], ""), 1448)
    assert [row["kind"] for row in rows] == [known.get(code, str(code))] * 2
