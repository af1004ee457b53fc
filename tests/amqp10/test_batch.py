"""decode_batch of AMQP 1.0 says what the objects say: every vector, deliveries in several transfers, what is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lib.amqp10_vectors import LIMITS, Vector, class_name, load
from lib.groups import each_vector
from lib.kinds import all_of
from wirefmt import amqp10
from wirefmt.amqp10 import columns as amqp10_columns
from wirefmt.amqp10 import spec
from wirefmt.errors import DecodeError

pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

FRAMES = [v for v in load() if v.kind in ("frame", "sasl") and v.valid]
MESSAGES = [v for v in load() if v.kind == "message"]
PROPERTIES = [spec.attribute(f.name) for c in spec.COMPOSITES if c.name == "properties" for f in c.fields]
HEADER = [spec.attribute(f.name) for c in spec.COMPOSITES if c.name == "header" for f in c.fields]
SIMPLE = (int, str, bool, bytes)


def rows(data: bytes, **options: Any) -> list[dict[str, Any]]:
    batch = amqp10.decode_batch(data, **({"limits": LIMITS} | options))
    out: list[dict[str, Any]] = pyarrow.record_batch(batch).to_pylist()
    return out


def text_of(value: Any) -> Any:
    """What a column of text says of a simple value; None where the test leaves it to others."""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is bytes:
        text = value.decode("utf-8", "replace")
        return value.hex() if "\ufffd" in text or "\0" in text else text
    if isinstance(value, bytes):
        return value.hex()  # decimals
    if isinstance(value, str):
        return str(value)
    return str(int(value)) if isinstance(value, int) else None


@each_vector(FRAMES)
def test_frames(vector: Vector) -> None:
    frame = amqp10.decode(vector.octets, limits=LIMITS)
    (row,) = rows(vector.octets, expose_credentials=True)
    assert (row["byte_offset"], row["wire_size"]) == (0, len(vector.octets))
    if not isinstance(frame, amqp10.Performative):
        assert row["kind"] == ("empty" if isinstance(frame, amqp10.EmptyFrame) else "protocol-header")
        return
    assert class_name(row["kind"]) == type(frame).__name__
    assert row["channel"] == (None if vector.kind == "sasl" else frame.channel)
    fields = dict(row["fields"] or ())
    for name in type(frame).__match_args__:
        value = getattr(frame, name)
        if name in ("channel", "payload"):
            continue
        if name in table_columns() and row["kind"] == "transfer":
            assert row[name] == value
        elif value is None:
            assert name not in fields
        elif isinstance(value, SIMPLE):
            assert fields[name] == text_of(value)
        else:
            json.loads(fields[name])


def table_columns() -> set[str]:
    return {c.name for c in amqp10_columns.BATCH}


@each_vector(MESSAGES)
def test_messages(vector: Vector) -> None:
    octets = amqp10.Transfer(handle=0, delivery_id=1, payload=vector.octets).encode()
    (row,) = rows(octets, strictness="strict")
    if not vector.valid:
        assert row["error"]
        assert row["message_id"] is None
        return
    assert row["error"] is None
    message = amqp10.decode_message(vector.octets, limits=LIMITS)
    for section, names in ((message.header, HEADER), (message.properties, PROPERTIES)):
        for name in names:
            value = getattr(section, name) if section is not None else None
            got = row["ttl_ms" if name == "ttl" else name]
            if value is None or name in ("user_id", *HEADER) or isinstance(got, int):
                assert got == value
            elif isinstance(value, SIMPLE):
                assert got == text_of(value)
            else:
                assert got == str(value)  # a uuid
    for name in ("delivery_annotations", "message_annotations", "headers", "footer"):
        entries = getattr(message, "application_properties" if name == "headers" else name)
        assert (row[name] is None) == (entries is None)
        for (key, value), (said_key, said) in zip(
            entries.pairs if entries is not None else (), row[name] or (), strict=True
        ):
            assert said_key == text_of(key)
            if isinstance(value, SIMPLE):
                assert said == text_of(value)
    assert row["body_sections"] == len(message.body)
    assert class_name(row["body"]) == type(message.body[0]).__name__
    if isinstance(message.body[0], amqp10.Data):
        assert row["payload"] == b"".join(bytes(section.payload) for section in all_of(message.body, amqp10.Data))


def transfers(payload: bytes, cuts: list[int], **first: Any) -> list[amqp10.Transfer]:
    """A delivery cut into transfers."""
    pieces = [payload[a:b] for a, b in zip([0, *cuts], [*cuts, len(payload)], strict=True)]
    out = []
    for i, piece in enumerate(pieces):
        fields = {"delivery_id": 7, "delivery_tag": b"t", **first} if i == 0 else {"channel": first.get("channel", 0)}
        out.append(amqp10.Transfer(**({"handle": 0} | fields), more=i < len(pieces) - 1, payload=piece))
    return out


PAYLOAD = amqp10.Message(application_properties={"a": 1}, body=b"0123456789").encode()


def test_interleaved_deliveries() -> None:
    one = transfers(PAYLOAD, [3, 9], channel=1)
    two = transfers(PAYLOAD, [11], channel=2, delivery_id=8)
    frames: list[Any] = [one[0], two[0], one[1], amqp10.EmptyFrame(), two[1], one[2]]
    found = rows(b"".join(f.encode() for f in frames))
    assert [r["kind"] for r in found] == ["empty", "transfer", "transfer"]
    assert [r["delivery_id"] for r in found] == [None, 8, 7]
    assert [r["transfers"] for r in found] == [None, 2, 3]
    assert found[2]["byte_offset"] == 0
    assert found[2]["wire_size"] == sum(len(f.encode()) for f in one)
    assert all(r["payload"] == b"0123456789" and r["error"] is None for r in found[1:])


def test_what_is_not_complete() -> None:
    one = transfers(PAYLOAD, [3], channel=1)
    aborted = amqp10.Transfer(handle=0, channel=1, aborted=True)
    found = rows(one[0].encode() + aborted.encode() + one[0].encode())
    assert [r["error"] for r in found] == ["delivery was aborted", "input ends inside the delivery"]
    found = rows(one[0].encode() + amqp10.Detach(handle=0, channel=1).encode() + one[0].encode()[:-1])
    assert [r["kind"] for r in found] == ["detach"]
    assert amqp10.decode_batch(one[0].encode()[:-1]).rest == len(one[0].encode()) - 1


def test_aborted_deliveries_count_all_their_transfers() -> None:
    """2.7.5: the transfer that aborts a delivery is one of its transfers, in `size` and in `transfers` alike."""
    parts = [f.encode() for f in transfers(PAYLOAD, [3, 5], channel=1)[:2]]
    aborted = amqp10.Transfer(handle=0, channel=1, aborted=True, settled=True).encode()
    (row,) = rows(b"".join(parts) + aborted)
    assert (row["byte_offset"], row["wire_size"]) == (0, sum(map(len, parts)) + len(aborted))
    assert (row["transfers"], row["settled"], row["error"]) == (3, True, "delivery was aborted")
    (row,) = rows(aborted)  # of a delivery that began elsewhere
    assert (row["wire_size"], row["transfers"], row["error"]) == (len(aborted), 1, "delivery was aborted")


@pytest.mark.parametrize("cuts", [(), (0,)])
def test_an_empty_payload_is_no_message(cuts: tuple[int, ...]) -> None:
    """3.2: the body of a message is one section at least. A delivery without any octet is as little a message as any other
    without a body."""
    one = [amqp10.Transfer(handle=0, delivery_id=1, delivery_tag=b"t", more=bool(cuts))]
    one += [amqp10.Transfer(handle=0) for _ in cuts]
    data = b"".join(f.encode() for f in one)
    (row,) = rows(data, strictness="strict")
    assert row["transfers"] == len(one)
    with pytest.raises(DecodeError) as refused:
        amqp10.decode_message(b"")
    assert row["error"].startswith(refused.value.reason)
    (row,) = rows(data, strictness="lax")
    assert (row["error"], row["payload"], row["body"]) == (None, None, None)


def test_faults_are_rows() -> None:
    good = amqp10.Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1).encode()
    bad = bytes.fromhex("0000000c0200000000532445")
    found = rows(good + bad + good + b"\0\0\0\1rest")
    assert [r["error"] is None for r in found] == [True, False, True, False]
    assert "not allowed" in found[1]["error"]
    assert f"offset {len(good) + 8}" in found[1]["error"]
    assert found[3]["wire_size"] == 8


def test_secrets_are_hidden() -> None:
    data = amqp10.SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0guest").encode()
    assert dict(rows(data)[0]["fields"])["initial_response"] == "***"
    assert dict(rows(data, expose_credentials=True)[0]["fields"])["initial_response"] == b"\0guest\0guest".hex()


def test_bodies_of_other_kinds() -> None:
    def body(*sections: Any) -> Any:
        message = amqp10.Message(body=sections)
        return rows(amqp10.Transfer(handle=0, payload=message).encode())[0]["payload"]

    assert body(amqp10.AmqpValue("text")) == b"text"
    assert body(amqp10.AmqpValue(b"\xff\x00")) == b"\xff\x00"
    assert json.loads(body(amqp10.AmqpValue({"a": [1, None, 1.5, True]}))) == {"a": [1, None, 1.5, True]}
    assert body(amqp10.AmqpSequence([1]), amqp10.AmqpSequence(["a"])) == b'[1]\n["a"]'
    assert body(amqp10.Data(b"ab"), amqp10.Data(b"cd")) == b"abcd"
    assert json.loads(body(amqp10.AmqpValue(amqp10.Array.repeat(None, 10**6)))) == {"repeat": 10**6, "of": None}
    assert json.loads(body(amqp10.AmqpValue(amqp10.Described(amqp10.ULong(1), "x")))) == {"descriptor": 1, "value": "x"}


def test_projection() -> None:
    octets = amqp10.Transfer(handle=3, delivery_id=1, payload=PAYLOAD).encode()
    batch = amqp10.decode_batch(octets * 3, columns=("payload", "handle"))
    assert batch.names == ["payload", "handle"]
    assert batch["handle"].tolist() == [3, 3, 3]
    assert amqp10.decode_batch(octets, payload=False)["payload"].tolist() == [None]
