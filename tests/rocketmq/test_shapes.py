"""Headers whose form is known from an earlier header, and the same headers after one from which no form is learned."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.wire import Tcp, pcap
from wirefmt import rocketmq
from wirefmt.capture import CaptureDecoder
from wirefmt.framing import Limits

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

NAMES = [
    *"abci", "topic", "properties", "group", "consumerGroup", "queueId", "queueOffset", "commitOffset", "msgId", "clientID",
    "bornTimestamp", "n" * 42, "n" * 43, "", "password", "x y", "\x7f", "größe", 'quo"te', "\x01",
]  # fmt: skip
PAIRS = st.lists(
    st.tuples(
        st.sampled_from(
            ["TAGS", "KEYS", "UNIQ_KEY", "PGROUP", "TTL", "WAIT", "CORRELATION_ID", "password", "", "n" * 20]
        ),
        st.sampled_from(["1", "true", "v" * 15, "v" * 16, "v" * 50, "", "-7"]),
    ),
    max_size=40,
).map(lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs))
VALUES = st.one_of(
    st.integers(0, 70).map(lambda n: "v" * n),
    st.sampled_from(
        ["0", "-1", "1700000000174", "9223372036854775808", "orders", "a\x01b", "\x01", "\x02", "a\x02b\x01c"]
    ),
    st.sampled_from(
        ["é", "\U0001f600", '"', "\\", "/", "\\u0001", "\x7f", "\t", "\0", "\x01\x01\x02", "a\x01b\x02\x03"]
    ),
    PAIRS,
    PAIRS.map(lambda text: text[:-1]),
    st.text(st.sampled_from('ab\x01\x02\x1f "\\é'), max_size=40),
)
#: A value as it stands in the header, between quotes.
WRITTEN = st.one_of(
    VALUES.map(lambda text: json.dumps(text)[1:-1]),
    VALUES.map(lambda text: json.dumps(text, ensure_ascii=False)[1:-1]),
    VALUES.map(lambda text: text.replace("\\", "").replace('"', "")),  # control characters without escapes
    st.sampled_from(
        [r"\/", r"\x41", r"\x4", r"\q", r"a\'b", r"\u00e9", r"\ud83d\ude00", r"\ud83d", r"\u12", r"\u000", "\\"]
    ),
    st.sampled_from(
        [r"a\u0001b\u0002", r"a\U0001b", r"a\u0001b\u0001", r"a\u0002b\u0001", r"a\u0001b\u0002\u0003", r"\u0001"]
    ),
)
OPAQUES = st.one_of(
    st.integers(0, 2**31 - 1).map(str),
    st.sampled_from(["", "007", "999999999", "1000000000", "9999999999", "-1", '"7"', "1.5"]),
)
COLUMNS = [
    None,
    ["ext_fields"],
    ["properties"],
    ["destination"],
    ["properties", "ext_fields"],
    ["code", "sequence", "payload"],
]
OF_PACKETS = {"ts", "ts_ns", "ts_first", "frame_no"}
TABLES: list[dict[str, Any]] = [
    {},
    {"detail": True},
    {"columns": ["headers"]},
    {"columns": ["message_id", "destination", "kind"]},
    {"expose_credentials": True},
    {"expose_credentials": True, "columns": ["rocketmq", "ts"]},
]


def header(code: int, flag: int, fields: list[tuple[str, str]] | None, opaque: str, extra: str = "") -> bytes:
    ext = "" if fields is None else ',"extFields":{' + ",".join(f'{json.dumps(k)}:"{v}"' for k, v in fields) + "}"
    return (
        f'{{"code":{code}{ext},"flag":{flag},"language":"JAVA","opaque":{opaque}{extra},'
        '"serializeTypeCurrentRPC":"JSON","version":479}'
    ).encode("utf-8", "surrogatepass")


def frame(octets: bytes, body: bytes = b"") -> bytes:
    return (4 + len(octets) + len(body)).to_bytes(4, "big") + len(octets).to_bytes(4, "big") + octets + body


def other_form(known: bytes) -> bytes:
    """The same frame with two members in another order: nothing is learned from its header."""
    flag, language, tail = known.rpartition(b',"language":"JAVA"')
    before, comma, number = flag.rpartition(b',"flag":')
    return before + language + comma + number + tail


def batch_of(octets: bytes, **options: Any) -> list[dict[str, Any]]:
    batch = pa.record_batch(rocketmq.decode_batch(octets, **options))
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def table_of(asked: bytes, answered: bytes, size: int, **options: Any) -> list[dict[str, Any]]:
    tcp = Tcp(port=10911)
    decoder = CaptureDecoder(decode_as="tcp.port==10911,rocketmq", **options)  # whatever the first octets are
    octets = pcap(tcp.open() + tcp.send(0, asked, size) + tcp.send(1, answered, size) + tcp.close())
    decoder.begin_file("c", 0)
    assert decoder.feed(octets) == len(octets)
    assert decoder.end_file()
    assert decoder.finish()
    table = pa.table(decoder.take(final=True))
    table.validate(full=True)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def without_packets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without what the number and times of a message's packets decide."""
    return [{name: row[name] for name in row.keys() - OF_PACKETS} for row in rows]


def same(known: bytes, subject: bytes) -> None:
    """The subject has the same values after a header of its form as after another one."""
    before = other_form(known)
    for columns in COLUMNS:
        for exposed in (False, True):
            seen, expected = (
                batch_of(first + subject, columns=columns, expose_credentials=exposed) for first in (known, before)
            )
            assert seen[1:] == expected[1:]
    answer = frame(header(0, 1, [("queueId", "1"), ("msgId", "x")], "7"))
    for options in TABLES:
        tables = [table_of(first + subject, answer + answer, 1448, **options) for first in (known, before)]
        assert tables[0][1:] == tables[1][1:]


@st.composite
def known_and_subject(draw: st.DrawFn) -> tuple[bytes, bytes]:
    code, flag = draw(st.sampled_from([(310, 0), (10, 0), (0, 1), (310, 1), (11, 0), (7, 0)]))
    names = draw(st.one_of(st.none(), st.lists(st.sampled_from(NAMES), max_size=34)))
    body = draw(st.sampled_from([b"", b"body", b'{"password": 1}', b"b" * 100]))
    extra = draw(st.sampled_from(["", "", "", ',"remark":"r"']))
    known = None if names is None else [(name, "v" * (i % 5)) for i, name in enumerate(names)]
    values = None if names is None else [(name, draw(WRITTEN)) for name in names]
    octets = header(code, flag, values, draw(OPAQUES), extra)
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(octets) - 1))
        octets = (
            octets[:at] + draw(st.sampled_from([b"", b'"', b"\\", b" ", b"x", b"}", b"\xff", b"0"])) + octets[at + 1 :]
        )
    return frame(header(code, flag, known, "7"), body), frame(octets, body)


@given(known_and_subject())
def test_a_header_of_known_form_has_the_values_of_any(octets: tuple[bytes, bytes]) -> None:
    same(*octets)


@pytest.mark.parametrize("value", ["", "v", "v" * 15, "v" * 16, "v" * 300, r"KEYS\u0001k\u0002WAIT\u0001true\u0002"])
@pytest.mark.parametrize("names", ["", "i", "abi", "bi" + "cdefghjklmn"])
def test_every_shorter_header_and_every_other_octet(names: str, value: str) -> None:
    known = frame(header(310, 0, [(name, "") for name in names], "1"), b"body")
    octets = header(310, 0, [(name, value if name == "i" else name) for name in names], "12345678")
    before = other_form(known)
    subjects = [frame(octets[:n]) for n in range(len(octets) + 1)]
    subjects += [frame(octets[:n] + bytes([octets[n] ^ 1]) + octets[n + 1 :]) for n in range(len(octets))]
    for subject in subjects:
        assert batch_of(known + subject)[1:] == batch_of(before + subject)[1:]
    whole = without_packets(table_of(known + frame(octets), b"", 1448))
    for size in range(1, 40):
        assert without_packets(table_of(known + frame(octets), b"", size)) == whole


@given(
    st.lists(st.tuples(st.integers(0, 30), VALUES), min_size=1, max_size=200), st.sampled_from([None, 14, 15, 16, 17])
)
def test_more_forms_than_are_remembered(messages: list[tuple[int, str]], elements: int | None) -> None:
    frames = [
        frame(
            header(
                10 + form % 3,
                0,
                [(f"f{form}", json.dumps(text)[1:-1]), *[(f"k{k}", "v") for k in range(form % 9)]],
                "1",
            )
        )
        for form, text in messages
    ]
    limits = None if elements is None else Limits(elements=elements)
    expected = [batch_of(octets, limits=limits)[0] for octets in frames]
    for row, one in zip(batch_of(b"".join(frames), limits=limits), expected, strict=True):
        assert [row[name] for name in ("code", "ext_fields", "properties", "destination")] == [
            one[name] for name in ("code", "ext_fields", "properties", "destination")
        ]
        assert (row["error"] is None) == (one["error"] is None)


@pytest.mark.parametrize("columns", [["destination"], None])
def test_the_topic_of_letters_is_b(columns: list[str] | None) -> None:
    """The names of SEND_MESSAGE_V2: a is the producer group, b the topic, c the default topic."""
    octets = frame(header(310, 0, [("a", "producers"), ("b", "orders"), ("c", "TBW102"), ("i", "")], "1"))
    assert [row["destination"] for row in batch_of(octets * 3, columns=columns)] == ["orders"] * 3


def test_a_header_of_another_serialization_has_no_form() -> None:
    """The highest octet of a header's length is its serialization: JSON of 16 MiB says that it is RocketMQ's own."""
    known = frame(header(310, 0, [("i", "")], "1"))
    subject = frame(header(310, 0, [("i", "v" * (1 << 24))], "1"))
    assert subject[4] == 1
    limits = Limits(frame_size=1 << 25)
    seen, expected = (batch_of(first + subject, limits=limits)[1:] for first in (known, other_form(known)))
    assert seen == expected
    assert seen[0]["error"] is not None


@pytest.mark.parametrize("letters", [False, True])
def test_a_secret_is_not_shown(letters: bool) -> None:
    name, code = ("i", 310) if letters else ("properties", 10)
    plain, secret = r"KEYS\u0001k\u0002", r"KEYS\u0001k\u0002password\u0001MARK\u0002"
    octets = b"".join(frame(header(code, 0, [(name, value)], "1")) for value in (plain, plain, secret, plain))
    for columns in COLUMNS:
        rows = batch_of(octets, columns=columns)
        assert "MARK" not in repr(rows)
        if columns is None or "properties" in columns:
            assert [row["properties"] for row in rows] == [*["KEYS\x01k\x02"] * 2, "***", "KEYS\x01k\x02"]
            exposed = batch_of(octets, columns=columns, expose_credentials=True)
            assert exposed[2]["properties"] == "KEYS\x01k\x02password\x01MARK\x02"
    for options in TABLES[:4]:
        assert "MARK" not in repr(table_of(octets, b"", 1448, **options))
