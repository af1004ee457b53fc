"""amqp10.encode_batch: columns to frames, against frames and messages of real AMQP 1.0 programs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.amqp10_vectors import LIMITS, Vector, load
from lib.encoded import again, columns_of
from lib.groups import each_vector
from lib.kinds import only
from wirefmt import amqp10
from wirefmt.errors import EncodeError, Unsupported

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

VECTORS = [v for v in load() if v.kind in ("frame", "sasl", "sequence", "message") and len(v.octets) < 100_000]
#: What LAX accepts and the columns do not hold: a handle that is missing or no number, a body of sections of several kinds,
#: a binary within a list in the place of a value of another type, a SASL frame that is empty.
NOT_HELD = {"a10-1038", "a10-1344", "a10-1081", "a10-1085", "a10-1657", "a10-1661"}


def decode(strictness: str) -> Any:
    return lambda octets: amqp10.decode_batch(octets, strictness=strictness, limits=LIMITS, expose_credentials=True)


def encode(strictness: str, **options: Any) -> Any:
    return lambda columns: amqp10.encode_batch(columns, strictness=strictness, **options)


def frames_of(vector: Vector) -> bytes:
    if vector.kind != "message":
        return vector.octets
    transfer = amqp10.Transfer(handle=0, delivery_id=1, delivery_tag=b"t", payload=vector.octets)
    return bytes(transfer.encode())


@each_vector(VECTORS)
def test_what_was_decoded_is_encoded_again(vector: Vector) -> None:
    for strictness in ("strict", "lax"):
        if vector.id in NOT_HELD:
            if strictness == "strict":
                assert not vector.valid
            continue
        again(frames_of(vector), decode(strictness), encode(strictness))


def test_canonical_frames_come_back() -> None:
    """Those whose values are in their smallest encoding, lists without nulls at their end, and no type is lost."""
    batches = [
        (v.octets, decode("strict")(v.octets)) for v in VECTORS if v.valid and v.kind in ("frame", "sasl", "sequence")
    ]
    whole = [
        (octets, batch)
        for octets, batch in batches
        if not batch.rest and batch["error"].tolist() == [None] * len(batch)
    ]
    assert sum(encode("strict")(batch) == octets for octets, batch in whole) > 0.4 * len(whole)


def test_the_sasl_header_is_told_by_what_follows() -> None:
    """5.3.1: protocol id 3 before SASL frames, 0 before those of AMQP."""
    sasl = amqp10.SaslInit(mechanism="PLAIN", initial_response=b"\0user\0secret").encode()
    octets = b"AMQP\x03\x01\0\0" + sasl + b"AMQP\0\x01\0\0" + amqp10.Open(container_id="c").encode()
    assert again(octets, decode("strict"), encode("strict")) == octets


# ---- values

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SYMBOL = st.text(st.characters(max_codepoint=127, exclude_characters="\0"), max_size=20).map(amqp10.Symbol)
UINT = st.integers(0, 2**32 - 1)
MAP = st.dictionaries(
    TEXT, TEXT | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False), max_size=4
)
MESSAGES = st.builds(
    amqp10.Message,
    header=st.none() | st.builds(amqp10.Header, durable=st.booleans() | st.none(), priority=st.integers(0, 255)),
    message_annotations=st.none() | st.dictionaries(SYMBOL, TEXT, max_size=3),
    properties=st.none()
    | st.builds(
        amqp10.Properties,
        message_id=TEXT | st.integers(0, 2**64 - 1).map(amqp10.ULong) | st.binary(max_size=20) | st.none(),
        to=TEXT | st.none(),
        user_id=st.binary(max_size=20) | st.none(),
        content_type=SYMBOL | st.none(),
        creation_time=st.integers(-(2**63), 2**63 - 1).map(amqp10.Timestamp) | st.none(),
        group_sequence=UINT | st.none(),
    ),
    application_properties=st.none() | MAP,
    body=st.one_of(
        st.lists(st.binary(max_size=30).map(amqp10.Data), min_size=1, max_size=3).map(tuple),
        (TEXT | st.binary(max_size=20) | st.integers(-(2**63), 2**63 - 1) | MAP).map(amqp10.AmqpValue),
        st.lists(st.lists(TEXT | st.booleans(), max_size=3).map(amqp10.AmqpSequence), min_size=1, max_size=3).map(
            tuple
        ),
    ),
)


@given(st.lists(st.tuples(MESSAGES, UINT, st.binary(max_size=32), st.booleans()), max_size=3))
def test_any_messages(made: list[Any]) -> None:
    octets = b"".join(
        amqp10.Transfer(
            channel=1, handle=0, delivery_id=i, delivery_tag=tag, settled=settled, payload=message.encode()
        ).encode()
        for message, i, tag, settled in made
    )
    again(octets, decode("strict"), encode("strict"))


def columns(**given: Any) -> Any:
    def array(value: Any) -> Any:
        return pa.array([value], pa.map_(pa.string(), pa.string())) if isinstance(value, list) else pa.array([value])

    return pa.table({name: array(value) for name, value in given.items()})


def transfer(**given: Any) -> Any:
    usual = {"kind": "transfer", "channel": 1, "handle": 0, "delivery_id": 7, "payload": b"hello"}
    return columns(**{name: value for name, value in (usual | given).items() if value is not None})


def test_a_message() -> None:
    """2.3.1, 2.7.5, 3.2: frame header, transfer(handle 0, delivery-id 7), durable header, data."""
    made = amqp10.encode_batch(transfer(durable=True, headers=[("k", "v")]))
    performative = bytes.fromhex("00 53 14 c0 04 02 43 52 07")
    sections = bytes.fromhex("00 53 70 c0 02 01 41  00 53 74 c1 07 02 a1 01 6b a1 01 76  00 53 75 a0 05") + b"hello"
    size = 8 + len(performative) + len(sections)
    assert made == size.to_bytes(4) + bytes.fromhex("02 00 0001") + performative + sections


@pytest.mark.parametrize(
    ("size", "transfers", "fits"), [(1, 65536, True), (1, 65537, False), (70_000, 65537, True), (60_000, 65537, False)]
)
def test_transfers_are_bounded_by_the_message(size: int, transfers: int, fits: bool) -> None:
    """docs/columns.md: 65,536 transfers, or as many as the message has bytes."""
    columns = transfer(payload=bytes(size), transfers=transfers)
    if fits:
        assert len(amqp10.Decoder().feed(amqp10.encode_batch(columns))) == transfers
    else:
        with pytest.raises(EncodeError, match="column 'transfers', row 0: 65537, not 1 to"):
            amqp10.encode_batch(columns)


@pytest.mark.parametrize("transfers", [1, 2, 3, 7])
def test_a_message_in_several_transfers(transfers: int) -> None:
    body = bytes(range(256)) * 5
    made = amqp10.encode_batch(transfer(payload=body, transfers=transfers))
    frames: list[Any] = amqp10.Decoder().feed(made)
    assert [f.more for f in frames] == ([True] * (transfers - 1) + [False] if transfers > 1 else [None])
    row = columns_of(amqp10.decode_batch(made)).to_pylist()[0]
    assert (row["transfers"], row["payload"], row["error"]) == (transfers, body, None)

    assert row["fields"] is None  # the delivery has its last transfer


@pytest.mark.parametrize("payload", [b"", b"opaque", amqp10.Message(body=b"b").encode()])
@pytest.mark.parametrize("transfers", [1, 2])
def test_another_message_format(payload: bytes, transfers: int) -> None:
    """2.7.5, 3.2.16: the format says how the payload is read, and only 0 are the sections of part 3."""
    octets = amqp10.encode_batch(transfer(message_format=7, payload=payload, transfers=transfers))
    row = columns_of(amqp10.decode_batch(octets)).to_pylist()[0]
    assert (row["payload"], row["body"], row["error"]) == (payload, None, None)
    assert again(octets, decode("strict"), encode("strict")) == octets
    delivery = only(amqp10.Assembler().feed(octets), amqp10.Delivery)
    assert bytes(delivery.payload) == payload
    carriers: list[Any] = [delivery, *([delivery.transfer] if transfers == 1 else [])]
    for found in carriers:
        with pytest.raises(Unsupported, match=r"transfer.message_format: not 0.*\[3.2.16\]"):
            _ = found.message


def test_an_empty_list_in_the_place_of_a_map() -> None:
    """What LAX accepts it also writes: a list stays one."""
    row = columns(kind="open", channel=0, fields=[("container_id", "c"), ("properties", "[]")])
    octets = amqp10.encode_batch(row, strictness="lax")
    assert again(octets, decode("lax"), encode("lax")) == octets
    assert octets.endswith(b"\x45")
    with pytest.raises(EncodeError, match=r"open\.properties"):
        amqp10.encode_batch(row)


@pytest.mark.parametrize("options", [{"transfers": 2}, {"payload": bytes(600)}])
def test_several_transfers_have_a_delivery_id(options: dict[str, Any]) -> None:
    """2.7.5: the first transfer of a delivery that has several carries delivery-id. LAX writes it without one."""
    columns = transfer(**options, delivery_id=None)
    with pytest.raises(EncodeError, match="column 'delivery_id', row 0: null"):
        amqp10.encode_batch(columns, max_frame_size=512)
    frames: list[Any] = amqp10.Decoder(strictness="lax").feed(
        amqp10.encode_batch(columns, max_frame_size=512, strictness="lax")
    )
    assert (len(frames), frames[0].delivery_id) == (2, None)
    assert amqp10.encode_batch(transfer(delivery_id=None), max_frame_size=512)


@pytest.mark.parametrize("size", [60, 64, 128, 511, 512, 1000])
def test_frames_have_a_limit(size: int) -> None:
    body = bytes(range(256)) * 5
    made = amqp10.encode_batch(transfer(payload=body), max_frame_size=size)
    frames: list[Any] = amqp10.Decoder().feed(made)
    assert max(len(f.encode()) for f in frames) <= size
    row = columns_of(amqp10.decode_batch(made)).to_pylist()[0]
    assert (row["payload"], row["error"]) == (body, None)
    with pytest.raises(EncodeError, match="row 0: "):
        amqp10.encode_batch(transfer(), max_frame_size=16)


def test_fields_are_of_their_types() -> None:
    fields = [
        ("name", "link"),
        ("handle", "1"),
        ("role", "true"),
        (
            "source",
            '{"descriptor":40,"value":["/queues/q",2,null,null,null,null,null,{"a":{"descriptor":"b","value":1}}]}',
        ),
        ("initial_delivery_count", "5"),
        ("offered_capabilities", '["a","b"]'),
        ("desired_capabilities", "c"),
        ("properties", '{"product":"wirefmt"}'),
    ]
    frame: Any = amqp10.decode(amqp10.encode_batch(columns(kind="attach", channel=3, fields=fields)))
    assert (frame.channel, frame.name, frame.handle, frame.role, frame.initial_delivery_count) == (
        3,
        "link",
        1,
        True,
        5,
    )
    assert (frame.source.address, frame.source.durable) == ("/queues/q", 2)
    assert [str(s) for s in frame.offered_capabilities] == ["a", "b"]
    assert frame.properties == {amqp10.Symbol("product"): "wirefmt"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (transfer(kind=None), "column 'kind', row 0: null"),
        (transfer(kind="source"), "column 'kind', row 0: no name"),
        (transfer(channel=None), "column 'channel', row 0: null"),
        (transfer(channel=65536), "column 'channel', row 0: 65536, not 0 to 65535"),
        (transfer(handle=None), "column 'handle', row 0: null"),
        (transfer(handle=2**32), "column 'handle', row 0: 4294967296, not 0 to 4294967295"),
        (transfer(transfers=0), "column 'transfers', row 0: 0, not 1 to"),
        (transfer(transfers=10**6), "column 'transfers', row 0: 1000000, not 1 to 65536"),
        (transfer(fields=[("more", "true")]), "column 'fields', row 0: more: a row is a whole"),
        (transfer(message_format=7, subject="s"), "column 'subject', row 0: a message whose message_format is not 0"),
        (transfer(message_format=7, body="data"), "column 'body', row 0: a message whose message_format is not 0"),
        (
            transfer(message_format=7, body_sections=1),
            "column 'body_sections', row 0: a message whose message_format is",
        ),
        (transfer(fields=[("aborted", "true")]), "column 'fields', row 0: aborted: "),
        (transfer(fields=[("handle", "1")]), "column 'fields', row 0: a field that the performative does not have"),
        (transfer(fields=[("state", '{"descriptor":36,"value":[')]), "row 0: transfer.state"),
        (transfer(fields=[("rcv_settle_mode", "256")]), "column 'fields', row 0: rcv_settle_mode: no number"),
        (transfer(fields=[("batchable", "yes")]), "column 'fields', row 0: batchable: neither true nor false"),
        (transfer(priority=256), "column 'priority', row 0: 256, not 0 to 255"),
        (transfer(body="text"), "column 'body', row 0: no name"),
        (transfer(body="data", payload=None), "column 'payload', row 0: null"),
        (transfer(body="amqp-sequence"), "column 'payload', row 0: an amqp-sequence is a JSON array in each line"),
        (
            transfer(body="amqp-sequence", payload=b"[1]\n[2]", body_sections=1),
            "column 'body_sections', row 0: 1, not 2",
        ),
        (transfer(message_annotations=[("é", "v")]), "row 0: "),
        (transfer(headers=[("k", None)]), "column 'headers.entries.value', row 0: null"),
        (transfer(headers=[("k", "v"), ("k", "w")]), "row 0: application_properties"),
        (transfer(error="bad"), "column 'error', row 0"),
        (columns(kind="open", channel=0), "row 0: open.container_id"),
        (columns(kind="open", channel=0, fields=[("container_id", "c"), ("properties", "[")]), "properties: no JSON"),
    ],
)
def test_a_wrong_row_is_named(given: Any, said: str) -> None:
    with pytest.raises(EncodeError, match=said):
        amqp10.encode_batch(given)
