"""phpmq.encode_batch: columns to messages, against what the PHP library wrote."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.encoded import again, columns_of
from lib.json_vectors import ids
from lib.phpmq_vectors import README, load, of_kind
from wirefmt import phpmq
from wirefmt.errors import EncodeError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

MESSAGES = of_kind("message")
WITH_OCTETS = [row for row in load() if row.get("hex")]


def decode(strictness: str) -> Any:
    return lambda octets: phpmq.decode_batch(octets, strictness=strictness)


def encode(strictness: str) -> Any:
    return lambda columns: phpmq.encode_batch(columns, strictness=strictness)


@pytest.mark.parametrize("row", MESSAGES, ids=ids(MESSAGES))
def test_messages_of_the_library_come_back(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])
    assert again(3 * octets, decode("strict"), encode("strict")) == 3 * octets


@pytest.mark.parametrize("row", WITH_OCTETS, ids=ids(WITH_OCTETS))
def test_what_lax_accepts_is_encoded_again(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])
    if row["id"] == "phpmq-live-dup-packet-type":  # of a packet that is there twice, the columns have the first
        with pytest.raises(EncodeError, match=r"column 'phpmq\.packet_count', row 0: the other columns do not hold"):
            encode("lax")(decode("lax")(octets))
        return
    again(octets, decode("lax"), encode("lax"))


@pytest.mark.parametrize("name", README)
def test_line_breaks(name: str) -> None:
    octets = README[name].encode()
    two = (2 * octets).removesuffix(b"\n")
    assert again(two, decode("lax"), encode("lax")) == two
    with pytest.raises(EncodeError, match="row 0: "):
        encode("strict")(decode("lax")(octets))


TEXT = st.text(max_size=20)
NUMBER = st.integers(-(2**63), 2**63 - 1)
OBJECTS = st.one_of(
    st.builds(phpmq.MessageClientToServer, queue_name=TEXT, content=st.binary(max_size=50), ttl=NUMBER | st.none()),
    st.builds(phpmq.ConsumeRequest, queue_name=TEXT, message_count=NUMBER),
    st.builds(
        phpmq.MessageServerToClient,
        queue_name=TEXT,
        content=st.binary(max_size=50),
        message_id=TEXT,
        ttl=NUMBER | st.none(),
    ),
    st.builds(phpmq.Acknowledgement, queue_name=TEXT, message_id=TEXT),
    st.builds(phpmq.ReQueue, queue_name=TEXT, message_id=TEXT, ttl=NUMBER),
    st.builds(phpmq.DeadLetter, queue_name=TEXT, message_id=TEXT),
    st.builds(
        phpmq.Message,
        message_type=st.integers(7, 999),
        packets=st.lists(TEXT.map(str.encode), min_size=3, max_size=3).map(
            lambda c: tuple(zip((1, 2, 3), c, strict=True))
        ),
    ),
)


@given(st.lists(OBJECTS, max_size=6))
def test_any_values(messages: list[Any]) -> None:
    octets = b"".join(m.encode() for m in messages)
    if any("\0" in str(getattr(m, name, "")) for m in messages for name in ("queue_name", "message_id")):
        again(octets, decode("strict"), encode("strict"))  # U+0000 is not text in columns: it is shown in hexadecimal
    elif not any(type(m) is phpmq.Message for m in messages):
        assert again(octets, decode("strict"), encode("strict")) == octets


def columns(**given: Any) -> Any:
    return pa.table({name: pa.array([value]) for name, value in given.items()})


def test_the_fewest_columns() -> None:
    made = phpmq.encode_batch(columns(kind="ACKNOWLEDGEMENT", destination="Foo", message_id="7"))
    assert made == b"H0100402" + b"P01" + b"3".zfill(29) + b"Foo" + b"P03" + b"1".zfill(29) + b"7"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"destination": "a"}, "column 'kind', row 0: null"),
        ({"kind": "ACK", "destination": "a"}, "column 'kind', row 0: no name"),
        ({"kind": "ACKNOWLEDGEMENT", "destination": "a"}, "column 'message_id', row 0: null"),
        ({"kind": "ACKNOWLEDGEMENT", "message_id": "a"}, "column 'destination', row 0: null"),
        ({"kind": "ACKNOWLEDGEMENT", "destination": "a", "message_id": "a", "payload": b""}, "row 0: packets"),
        ({"kind": "ACKNOWLEDGEMENT", "phpmq": {"message_type": 3}}, "column 'phpmq.message_type', row 0: it is not"),
        ({"phpmq": {"message_type": 1}}, "column 'phpmq.message_type', row 0: it is not"),
        ({"phpmq": {"message_type": 1000}}, "column 'phpmq.message_type', row 0: 1000, not 0 to 999"),
        ({"kind": "DEAD_LETTER", "destination": "a", "message_id": "b", "phpmq": {"packet_count": 3}}, "packet_count"),
        ({"kind": "CONSUME_REQUEST", "destination": "a"}, "column 'phpmq.message_count', row 0: null"),
        ({"kind": "DEAD_LETTER", "error": "bad"}, "column 'error', row 0"),
    ],
)
def test_a_wrong_row_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(EncodeError, match=said):
        phpmq.encode_batch(columns(**given))


def test_the_sender_is_checked() -> None:
    row = columns(kind="DEAD_LETTER", destination="a", message_id="b")
    assert phpmq.encode_batch(row, side="client") == phpmq.encode_batch(row)
    with pytest.raises(EncodeError, match="message_type: "):
        phpmq.encode_batch(row, side="server")
    assert columns_of(phpmq.decode_batch(phpmq.encode_batch(row))).column("message_id").to_pylist() == ["b"]
