"""nsq.encode_batch: columns to commands and frames, against what go-nsq and nsqd wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.encoded import again, columns_of
from lib.json_vectors import ids
from lib.kinds import checked
from lib.nsq_vectors import load
from wirefmt import nsq
from wirefmt.errors import EncodeError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

WITH_OCTETS = [row for row in load() if row.get("hex")]
#: Kinds that the columns do not hold: frames of an unknown type, and in LAX lines that begin with no command.
NOT_HELD = {None, "", "FRAME", "frame", "COMMAND", "command"}
#: Commands and frames whose bytes have one form only: no JSON, no number.
OF_ONE_FORM = (b"PUB ", b"MPUB ", b"SUB ", b"FIN ", b"TOUCH ", b"CLS\n", b"NOP\n", b"  V2", b"\0")


def decode(strictness: str) -> Any:
    return lambda octets: nsq.decode_batch(octets, strictness=strictness, expose_credentials=True)


def encode(strictness: str) -> Any:
    return lambda columns: nsq.encode_batch(columns, strictness=strictness)


@pytest.mark.parametrize("strictness", ["strict", "lax"])
@pytest.mark.parametrize("row", WITH_OCTETS, ids=ids(WITH_OCTETS))
def test_what_was_decoded_is_encoded_again(row: dict[str, Any], strictness: str) -> None:
    octets = bytes.fromhex(row["hex"])
    batch = columns_of(decode(strictness)(octets)).to_pylist()
    counts = [r["nsq"]["rdy_count"] for r in batch if r["kind"] == "RDY" and r["nsq"]]
    if any(r["error"] is None and r["kind"] in NOT_HELD for r in batch) or None in counts:
        with pytest.raises(EncodeError, match=r"column '(kind|error|nsq\.rdy_count)', row"):
            encode(strictness)(decode(strictness)(octets))
        return
    made = again(octets, decode(strictness), encode(strictness))
    if made is not None and strictness == "strict" and octets.startswith(OF_ONE_FORM) and len(batch) == 1:
        assert made == octets


def test_most_vectors_come_back() -> None:
    made = [nsq_again for row in WITH_OCTETS if (nsq_again := whole(bytes.fromhex(row["hex"])))]
    assert len(made) > 60


def whole(octets: bytes) -> bool:
    batch = decode("strict")(octets)
    if batch["error"].any() or batch.rest or "frame" in batch["kind"].tolist():
        return False
    return bool(encode("strict")(batch) == octets)


# ---- values

NAME = st.from_regex(r"\A[.a-zA-Z0-9_-]{1,54}(#ephemeral)?\Z")
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
BODY = st.binary(min_size=1, max_size=60)
ID = st.binary(min_size=16, max_size=16).filter(lambda b: not set(b) & set(b" \n") and b[-1] != 13)
NUMBER = st.integers(0, 2500)
COMMANDS = st.one_of(
    st.builds(nsq.Publish, topic=NAME, body=BODY),
    st.builds(nsq.MultiPublish, topic=NAME, bodies=st.lists(BODY, min_size=1, max_size=5)),
    st.builds(nsq.DeferredPublish, topic=NAME, defer_time=NUMBER, body=BODY),
    st.builds(nsq.Sub, topic=NAME, channel=NAME),
    st.builds(nsq.Ready, count=NUMBER),
    st.builds(nsq.Finish, message_id=ID),
    st.builds(nsq.Requeue, message_id=ID, timeout=NUMBER),
    st.builds(nsq.Touch, message_id=ID),
    st.just(nsq.Close()),
    st.just(nsq.Nop()),
    st.builds(nsq.Auth, secret=BODY),
)
FRAMES = st.one_of(
    st.builds(
        nsq.MessageFrame,
        timestamp=st.integers(-(2**63), 2**63 - 1),
        attempts=st.integers(0, 65535),
        message_id=st.binary(min_size=16, max_size=16),
        body=st.binary(max_size=60),
    ),
    st.builds(nsq.Response, data=TEXT.map(str.encode)),
    st.builds(nsq.Error, data=st.from_regex(r"\AE_[A-Z]{1,10}( [a-z ]{0,20})?\Z").map(str.encode)),
)


@given(st.lists(COMMANDS, max_size=6) | st.lists(FRAMES, max_size=6))
def test_any_values(messages: list[Any]) -> None:
    octets = b"".join(m.encode() for m in messages)
    assert again(octets, decode("strict"), encode("strict")) == octets


def test_magic_and_identify() -> None:
    identify = nsq.Identify(user_agent='a "quoted" \\ \t\x01 é', deflate=True, heartbeat_interval=30000)
    octets = nsq.Magic().encode() + identify.encode() + nsq.Nop().encode()
    made = again(octets, decode("strict"), encode("strict"))
    assert made is not None
    back = checked(nsq.decode(made[4:-4]), nsq.Identify)
    assert dict(back.members or ()) == dict(identify.members or ())


def columns(**given: Any) -> Any:
    return pa.table({name: pa.array([value]) for name, value in given.items()})


def test_the_fewest_columns() -> None:
    assert nsq.encode_batch(columns(kind="PUB", destination="t", payload=b"hello")) == b"PUB t\n\0\0\0\5hello"
    assert nsq.encode_batch(columns(kind="MPUB", destination="t", nsq={"bodies": [b"a", b"bc"]})) == (
        b"MPUB t\n" + bytes.fromhex("0000000f 00000002 00000001 61 00000002 6263")
    )
    assert nsq.encode_batch(columns(kind="NOP")) == b"NOP\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"destination": "t", "payload": b"a"}, "column 'kind', row 0: null"),
        ({"kind": "PUBLISH"}, "column 'kind', row 0: no name"),
        ({"kind": ""}, "column 'kind', row 0: no name"),
        ({"kind": "PUB", "payload": b"a"}, "column 'destination', row 0: null"),
        ({"kind": "PUB", "destination": "t"}, "column 'payload', row 0: null"),
        ({"kind": "PUB", "destination": "t", "payload": b""}, "row 0: body_size: "),
        ({"kind": "PUB", "destination": "t/u", "payload": b"a"}, "row 0: topic: "),
        ({"kind": "PUB", "destination": "t u", "payload": b"a"}, "column 'destination', row 0: a word has no space"),
        ({"kind": "PUB", "destination": "t\nNOP", "payload": b"a"}, "column 'destination', row 0: a word has no space"),
        ({"kind": "PUB", "destination": "t" * 65, "payload": b"a"}, "row 0: topic: "),
        ({"kind": "SUB", "destination": "t"}, "column 'consumer_group', row 0: null"),
        ({"kind": "FIN", "message_id": b"short"}, "row 0: message_id: "),
        ({"kind": "REQ", "message_id": b"0" * 16}, "column 'nsq.timeout_ms', row 0: null"),
        ({"kind": "RDY", "nsq": {"rdy_count": -1}}, "column 'nsq.rdy_count', row 0: -1, not 0 to"),
        ({"kind": "MPUB", "destination": "t"}, "column 'nsq.bodies', row 0: null"),
        (
            {"kind": "MPUB", "destination": "t", "nsq": {"bodies": [b"a", None]}},
            "column 'nsq.bodies.element', row 0: null",
        ),
        ({"kind": "AUTH"}, "column 'nsq.secret', row 0: null"),
        (
            {"kind": "message", "message_id": b"0" * 15, "timestamp_ns": 1, "attempts": 1, "payload": b""},
            "has 16 bytes",
        ),
        (
            {"kind": "message", "message_id": b"0" * 16, "timestamp_ns": 1, "attempts": 65536, "payload": b""},
            "'attempts', row 0",
        ),
        ({"kind": "response"}, "column 'nsq.response', row 0: null"),
        ({"kind": "error", "nsq": {"error_code": "E A"}}, "column 'nsq.error_code', row 0: a code has no space"),
        ({"kind": "NOP", "error": "bad"}, "column 'error', row 0"),
    ],
)
def test_a_wrong_row_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(EncodeError, match=said):
        nsq.encode_batch(columns(**given))


def test_the_two_directions_do_not_mix() -> None:
    table = pa.table({"kind": ["NOP", "response"], "nsq": [None, {"response": "OK"}]})
    with pytest.raises(EncodeError, match="column 'kind', row 1: it is sent in the other direction"):
        nsq.encode_batch(table)
    with pytest.raises(EncodeError, match="column 'kind', row 0: it is sent in the other direction"):
        nsq.encode_batch(columns(kind="NOP"), side="server")
    with pytest.raises(EncodeError, match="row 1: "):
        nsq.encode_batch(pa.table({"kind": ["NOP", "MAGIC"]}))


@pytest.mark.parametrize("code", range(0x20))
def test_control_characters_of_json(code: int) -> None:
    """RFC 8259, section 7: U+0000 to U+001F are escaped. Python's reader refuses them otherwise."""
    text = f"a{chr(code)}b"
    batch = nsq.decode_batch(nsq.Identify({"hostname": text}).encode(), side="client")
    octets = nsq.encode_batch(batch)
    head, _, body = octets.partition(b"\n")
    assert head == b"IDENTIFY"
    assert json.loads(body[4:]) == {"hostname": text}
