"""The fast path of captures reads packets in one pass: the rows say what the objects say, which are read field by field."""

from __future__ import annotations

from typing import Any, Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.batches import talk_both_ways
from lib.columns import Case, agree, captured, row_of
from lib.wire import connect, packet
from wirefmt import mqtt
from wirefmt.errors import DecodeError

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

SIDES: Final[tuple[Literal["client"], Literal["server"]]] = ("client", "server")
TOPICS = st.one_of(
    st.integers(0, 140).map(lambda n: b"t" * n),
    st.sampled_from([b"a/b", b"a/+", b"#", "é/ü".encode(), b"\xff", b"\0", b"$SYS"]),
)
IDENTIFIERS = st.sampled_from([0, 1, 255, 256, 65535])
#: Properties with their length: those of the fast path, and ones that a PUBLISH must not have.
PROPERTIES = st.sampled_from(
    [
        *(b"\0", b"\x80\0", b"\2\1\1", b"\2\1\2", b"\5\2\0\0\0\7", b"\7\x26\0\1k\0\1v", b"\3\x23\0\1"),
        *(b"\3\x23\0\0", b"\2\x0b\5", b"\2\x0b\0", b"\4\1\1\1\1", b"\5\x08\0\2r+", b"\5\x08\0\2rt"),
        *(b"\5\x03\0\2ct", b"\2\x24\1", b"\x7f"),
    ]
)


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(2, "big") + octets


@st.composite
def packets(draw: st.DrawFn) -> Case:
    version, direction = draw(st.sampled_from([3, 4, 5])), draw(st.integers(0, 1))
    kind = draw(st.sampled_from([3, 3, 3, 4, 5, 6, 7]))
    flags = draw(st.integers(0, 15)) if kind == 3 or draw(st.integers(0, 4)) == 0 else 2 * (kind == 6)
    if kind == 3:
        body = sized(draw(TOPICS)) + (draw(IDENTIFIERS).to_bytes(2, "big") if flags & 6 else b"")
        body += draw(PROPERTIES) if version == 5 else b""
        body += draw(st.sampled_from([b"", b"\0", b"text", bytes(200), b"\xff" * 17000]))
    else:
        body = draw(IDENTIFIERS).to_bytes(2, "big") + draw(
            st.sampled_from([b"", b"", b"", b"\0", b"\x10", b"\x77", b"\0\0"])
        )
    octets = packet(kind << 4 | flags, body)
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, min(len(octets), 12) - 1))
        octets = octets[:at] + draw(st.binary(min_size=1, max_size=1)) + octets[at + 1 :]
    return Case(octets, direction, version)


def read(case: Case) -> Any:
    try:
        return mqtt.decode(case.octets, version=case.version, side=SIDES[case.direction])
    except DecodeError:
        return None


@given(cases=st.lists(packets(), min_size=1, max_size=40))
def test_rows_say_what_objects_say(cases: list[Case]) -> None:
    for case, rows in zip(cases, captured("mqtt", cases), strict=True):
        message = read(case)
        alias = dict(getattr(message, "properties", ())).get("topic_alias")
        if message is None:
            assert not rows or rows[0]["status"] != "ok" or rows[0]["wire_size"] < len(case.octets), case
        elif not isinstance(message, mqtt.Connect) and not (alias and not message.topic_name):
            want = {"byte_offset": 0, "wire_size": len(case.octets)} | row_of("mqtt", message, case.direction)
            assert len(rows) == 1 and agree(rows[0], want) == [], case


@given(
    cases=st.lists(packets(), min_size=1, max_size=30),
    version=st.sampled_from([3, 4, 5]),
    size=st.sampled_from([1448, 60]),
)
def test_both_ways(cases: list[Case], version: int, size: int) -> None:
    """One connection with packets of both sides, some of which are of another version."""
    said = [(case.direction, case.octets) for case in cases]
    rows = talk_both_ways((0, connect("c", version)), *said, port=1883, size=size)
    assert rows[0]["kind"] == "CONNECT"


def test_topic_aliases_both_ways() -> None:
    def publish(topic: bytes, alias: int) -> tuple[int, bytes]:
        return 0, packet(0x30, sized(topic) + b"\3\x23" + alias.to_bytes(2, "big") + b"x")

    said = [publish(b"a", 1), publish(b"", 1), publish(b"b", 1), publish(b"", 1), publish(b"", 2)]
    rows = talk_both_ways((0, connect("c", 5)), *said, port=1883)
    assert [row["destination"] for row in rows[1:]] == ["a", "a", "b", "b", None]
    assert [row["client_id"] for row in rows] == ["c"] * 6
