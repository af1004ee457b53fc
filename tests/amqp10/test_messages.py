"""AMQP 1.0 objects: what constructors take, what errors say, deliveries joined, hostile octets."""

from __future__ import annotations

import math
import pickle
import struct
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.kinds import checked
from wirefmt import amqp10
from wirefmt.amqp10 import spec
from wirefmt.errors import DecodeError, EncodeError, LimitExceeded, Malformed, Truncated, Unsupported
from wirefmt.framing import NEED_DATA, Limits

proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")

# ---- tables against a second source


def test_constructors_are_those_of_the_text() -> None:
    """1.2.1: the upper four bits of a constructor say how wide its value or size is."""
    widths = {4: ("fixed", 0), 5: ("fixed", 1), 6: ("fixed", 2), 7: ("fixed", 4), 8: ("fixed", 8), 9: ("fixed", 16)}
    widths |= {0xA: ("variable", 1), 0xB: ("variable", 4), 0xC: ("compound", 1), 0xD: ("compound", 4)}
    widths |= {0xE: ("array", 1), 0xF: ("array", 4)}
    assert (
        len({c.code for c in spec.CONSTRUCTORS}) == len({c.name for c in spec.CONSTRUCTORS}) == len(spec.CONSTRUCTORS)
    )
    for c in spec.CONSTRUCTORS:
        assert (c.category, c.width) == widths[c.code >> 4]
        assert c.type in spec.TYPES


def test_composites_are_those_proton_writes() -> None:
    """Their codes and field counts as a proton connection writes them."""
    transport, connection = proton.Transport(), proton.Connection()
    transport.bind(connection)
    connection.container = "c"
    connection.open()
    session = connection.session()
    session.open()
    link = session.sender("s")
    link.open()
    octets = transport.peek(transport.pending())
    kinds = [type(frame).__name__ for frame in amqp10.Decoder().feed(octets)]
    assert kinds == ["ProtocolHeader", "Open", "Begin", "Attach"]
    codes = {c.code: c.name for c in spec.COMPOSITES}
    assert len(codes) == len(spec.COMPOSITES)
    assert {codes[c] for c in range(0x10, 0x19)} == {
        "open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end", "close",
    }  # fmt: skip
    outcomes = {"RECEIVED": "received", "ACCEPTED": "accepted", "REJECTED": "rejected", "RELEASED": "released"}
    for theirs, ours in (outcomes | {"MODIFIED": "modified"}).items():
        assert codes[int(getattr(proton.Disposition, theirs))] == ours


# ---- errors


def error_of(octets: bytes, decode: Any = amqp10.decode, **options: Any) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        decode(octets, **options)
    return caught.value


@pytest.mark.parametrize(
    ("octets", "kind", "offset", "path", "reply"),
    [
        ("0000000702000000", Malformed, 0, "size", "amqp:connection:framing-error"),
        ("0000000801000000", Malformed, 4, "doff", "amqp:connection:framing-error"),
        ("0000000803000000", Malformed, 4, "doff", "amqp:connection:framing-error"),
        ("0000000802050000", Malformed, 5, "type", "amqp:connection:framing-error"),
        ("414d515000000901", Unsupported, 4, "protocol_header", None),
        ("00000010020000000053", Truncated, 0, "size", "amqp:connection:framing-error"),
        ("0000000c0200000000531045", Malformed, 12, "open.container_id", "amqp:invalid-field"),
        ("0000001102000000005310c0040152034040", Malformed, 17, "size", "amqp:connection:framing-error"),
        ("0000001002000000005310c003015203", Malformed, 14, "open.container_id", "amqp:decode-error"),
        ("0000001002000000005310c00901a101", Truncated, 13, "open", "amqp:decode-error"),
        ("0000000c0200000000532445", Malformed, 8, "performative", "amqp:not-allowed"),
        ("0000000c0200000000531945", Malformed, 8, "performative", "amqp:decode-error"),
        ("0000001902000001005315c00c0541434341005334c0020140", Malformed, 25, "transactional_state.txn_id", "amqp:invalid-field"),
        # the second entry of a map: an unknown constructor
        ("", Malformed, None, "begin.properties[1]", None),
    ],
)  # fmt: skip
def test_errors_say_what_and_where(octets: str, kind: type, offset: int | None, path: str, reply: str | None) -> None:
    data = bytes.fromhex(octets)
    if path == "begin.properties[1]":
        entries = bytes.fromhex("a10161a10162a10163ff")
        fields = b"\x40\x43\x43\x43\x40\x40\x40" + b"\xc1" + bytes([len(entries) + 1, 4]) + entries
        body = bytes.fromhex("005311c0") + bytes([len(fields) + 1, 8]) + fields
        data = (len(body) + 8).to_bytes(4, "big") + b"\2\0\0\0" + body
        offset, reply = len(data) - 1, "amqp:decode-error"
    error = error_of(data)
    assert type(error) is kind
    assert (error.offset, error.path, error.reply) == (offset, path, reply)
    assert error.spec
    assert error.protocol == "amqp10"


def test_a_field_that_is_cut_says_what_it_needs() -> None:
    error = error_of(bytes.fromhex("a105616263"), amqp10.decode_value)
    assert (error.need, error.have, error.offset) == (5, 3, 2)
    assert error_of(b"", amqp10.decode_value).need == 1


def test_sections_are_named() -> None:
    data = amqp10.Message(application_properties={"a": 1, "b": 2}, body=b"").encode()
    bad = data.replace(b"\xa1\x01b", b"\xa1\x01a")
    assert error_of(bad, amqp10.decode_message).path == "application_properties[1]"
    assert error_of(b"\0\x53\x70\xc0\x03\x01\x52\x01\0\x53\x75\xa0\0", amqp10.decode_message).path == "header.durable"
    assert error_of(b"\0\x53\x75\xa0\0\0\x53\x70\x45", amqp10.decode_message).path == "section[1]"


def test_frame_size() -> None:
    octets = amqp10.EmptyFrame().encode()
    for n in range(4):
        assert amqp10.frame_size(octets[:n]) is NEED_DATA
    assert amqp10.frame_size(octets[:4]) == 8
    assert amqp10.frame_size(b"AMQP") == 8
    with pytest.raises(LimitExceeded):
        amqp10.frame_size(b"\0\1\0\0", limits=Limits(frame_size=65535))


# ---- constructors

MESSAGE = amqp10.Message(
    header=amqp10.Header(durable=True, priority=9, ttl=1000),
    delivery_annotations={"x-opt-a": 1},
    message_annotations={"x-opt-b": amqp10.Symbol("s"), 7: None},
    properties=amqp10.Properties(message_id=5, user_id=b"u", to="/queues/q", content_type="a/b", creation_time=1),
    application_properties={"k": amqp10.UInt(1), "t": amqp10.Timestamp(2), "n": None},
    body=(amqp10.Data(b"ab"), amqp10.Data(b"cd")),
    footer={"x-f": 1},
)
OBJECTS: list[Any] = [
    amqp10.ProtocolHeader(3),
    amqp10.EmptyFrame(5),
    amqp10.Open(container_id="c", offered_capabilities=["a", "b"], desired_capabilities="d", properties={"p": [1]}),
    amqp10.Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=2, channel=3),
    amqp10.Attach(
        name="l",
        handle=0,
        role=False,
        source=amqp10.Source(address="a", filter={amqp10.Symbol("f"): amqp10.Described(amqp10.Symbol("f"), "x")}),
        target=amqp10.Target(dynamic=True, dynamic_node_properties={"lifetime-policy": amqp10.DeleteOnClose()}),
    ),
    amqp10.Attach(name="t", handle=1, role=False, target=amqp10.Coordinator(capabilities="amqp:local-transactions")),
    amqp10.Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1, echo=True),
    amqp10.Transfer(handle=0, delivery_id=1, delivery_tag=b"t", payload=MESSAGE, state=amqp10.Accepted()),
    amqp10.Disposition(role=True, first=1, state=amqp10.Rejected(error=amqp10.Error(condition="amqp:not-found"))),
    amqp10.Disposition(role=True, first=1, state=amqp10.TransactionalState(txn_id=b"t", outcome=amqp10.Released())),
    amqp10.Detach(handle=0, closed=True, error=amqp10.Error(condition="x", description="y", info={"z": 1})),
    amqp10.End(),
    amqp10.Close(),
    amqp10.SaslMechanisms(sasl_server_mechanisms=["PLAIN", "ANONYMOUS"]),
    amqp10.SaslChallenge(challenge=b"***"),  # as a repr shows secrets
    amqp10.SaslOutcome(code=0),
    amqp10.Received(section_number=1, section_offset=2),
    amqp10.Modified(delivery_failed=True, message_annotations={"a": 1}),
    amqp10.Declare(),
    amqp10.Discharge(txn_id=b"t", fail=True),
    amqp10.Declared(txn_id=b"t"),
    MESSAGE,
]


@pytest.mark.parametrize("value", OBJECTS, ids=lambda v: type(v).__name__)
def test_a_repr_makes_an_equal_object(value: Any) -> None:
    again = eval(repr(value), {"amqp10": amqp10, "UUID": UUID})
    if isinstance(value, amqp10.Transfer):
        return  # its payload is cut
    assert again == value
    assert again.encode() == value.encode()


@pytest.mark.parametrize("value", OBJECTS, ids=lambda v: type(v).__name__)
def test_objects_do_not_change(value: Any) -> None:
    for name in type(value).__match_args__:
        with pytest.raises((AttributeError, TypeError)):
            setattr(value, name, None)
    with pytest.raises(TypeError):
        value.__init__(**{n: getattr(value, n) for n in type(value).__match_args__})


def test_matching() -> None:
    match amqp10.decode(OBJECTS[7].encode()):
        case amqp10.Transfer(handle=0, delivery_id=1, state=amqp10.Accepted(), payload=payload):
            assert bytes(payload) == MESSAGE.encode()
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: amqp10.Open(), EncodeError),  # type: ignore[call-arg]
        (lambda: amqp10.Open(container_id=5), EncodeError),  # type: ignore[arg-type]
        (lambda: amqp10.Open(container_id="c", channel_max=65536), EncodeError),
        (lambda: amqp10.Open(container_id="c", nothing=1), TypeError),  # type: ignore[call-arg]
        (lambda: amqp10.Open(container_id="c", channel=65536), EncodeError),
        (lambda: amqp10.Open(container_id="c", extended_header=b"abc"), EncodeError),
        (lambda: amqp10.Open(container_id="c", offered_capabilities=["\xe9"]), EncodeError),
        (lambda: amqp10.Transfer(handle=0, state=amqp10.Source()), EncodeError),
        (lambda: amqp10.End(error="x"), EncodeError),  # type: ignore[arg-type]
        (lambda: amqp10.Properties(message_id=1.5), EncodeError),
        (lambda: amqp10.Properties(message_id=-1), EncodeError),
        (lambda: amqp10.Properties(user_id="text"), TypeError),  # type: ignore[arg-type]
        (lambda: amqp10.Message(body=()), EncodeError),
        (lambda: amqp10.Message(body=(amqp10.Data(b""), amqp10.AmqpValue(1))), EncodeError),
        (lambda: amqp10.Message(body=(amqp10.AmqpValue(1), amqp10.AmqpValue(1))), EncodeError),
        (lambda: amqp10.Message(body="text"), TypeError),  # type: ignore[arg-type]
        (lambda: amqp10.Message(application_properties={"a": [1]}, body=b""), EncodeError),
        (lambda: amqp10.Message(application_properties={1: 1}, body=b""), EncodeError),
        (lambda: amqp10.UByte(256), EncodeError),
        (lambda: amqp10.Byte(-129), EncodeError),
        (lambda: amqp10.Char("ab"), EncodeError),
        (lambda: amqp10.Decimal32(b"123"), EncodeError),
        (lambda: amqp10.Array("uint", [-1]), EncodeError),
        (lambda: amqp10.Array("smalluint", [256]), EncodeError),
        (lambda: amqp10.Array("string", ["a", 1]), EncodeError),
        (lambda: amqp10.Array("nothing", []), EncodeError),
        (lambda: amqp10.Array.repeat(1, 2), EncodeError),
        (lambda: amqp10.Map([("a", 1), ("a", 2)]), EncodeError),
        (lambda: amqp10.encode_value(2**63), EncodeError),
        (lambda: amqp10.encode_value("\ud800"), EncodeError),
        (lambda: amqp10.encode_value(amqp10.Symbol("\xe9")), EncodeError),
        (lambda: amqp10.encode_value(object()), TypeError),
        (lambda: amqp10.encode_value(datetime(2024, 1, 1)), TypeError),
    ],
)
def test_what_cannot_be_written(make: Any, error: type) -> None:
    with pytest.raises(error):
        make()


def test_lists_within_themselves_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodeError):
        amqp10.encode_value(endless)


def test_plain_objects_stand_for_types() -> None:
    moment = datetime(2024, 1, 2, tzinfo=UTC)
    value = amqp10.decode_value(amqp10.encode_value([1, 1.5, "s", b"b", None, True, {"k": (2,)}, UUID(int=3), moment]))
    assert list(value)[:6] == [1, 1.5, "s", b"b", None, True]
    assert value[6]["k"] == (2,)
    assert value[7] == UUID(int=3)
    assert value[8] == amqp10.Timestamp.of(moment)
    assert value[8].to_datetime() == moment
    assert type(value[0]) is int


def test_containers_read_as_pythons_do() -> None:
    value = amqp10.decode_value(amqp10.encode_value([1, [2, 3], {"a": None}]))
    assert value == [1, [2, 3], {"a": None}]
    assert value[1] == (2, 3)
    assert hash(value[1]) == hash((2, 3))
    assert (value.index(1), value.count(1), 1 in value, len(value), value[-1]) == (0, 1, True, 3, {"a": None})
    entries = value[2]
    assert (entries.get("a", 1), entries.get("b", 1), "a" in entries, list(entries.keys())) == (None, 1, True, ["a"])
    assert (list(entries.values()), list(entries.items())) == ([None], [("a", None)])
    match value:
        case [1, [2, 3], {"a": None}]:
            pass
        case _:
            pytest.fail("they match patterns as Python's do")
    # types are part of a value
    assert amqp10.List([amqp10.UInt(1)]) != amqp10.List([amqp10.ULong(1)])
    assert amqp10.Map({"a": 1, "b": 2}) != amqp10.Map({"b": 2, "a": 1})
    assert amqp10.Array("uint", [1]) == amqp10.Array("uint", [1])
    assert amqp10.Array("uint", [1]).encode().hex() == "e003015201"
    assert amqp10.Array("uint", [1]) == amqp10.decode_value(bytes.fromhex("e006017000000001"))
    nan = amqp10.List([math.nan])
    assert nan == amqp10.List([math.nan])
    assert hash(nan) == hash(amqp10.List([math.nan]))


def test_keys_that_python_takes_for_equal() -> None:
    value = amqp10.Map([(amqp10.UInt(1), "a"), (amqp10.ULong(1), "b")])
    assert len(value.pairs) == 2
    assert dict(value) == {1: "b"}


def test_a_message_keeps_what_it_was_given() -> None:
    wide = bytes.fromhex("d10000000b00000002b1000000016141")  # every length in four octets
    entries = amqp10.decode_value(wide)
    made = amqp10.Message(application_properties=entries, body=b"")
    assert entries.encode() in made.encode()


def test_secrets_are_not_shown() -> None:
    assert "guest" not in repr(amqp10.SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0guest"))
    assert "guest" not in repr(amqp10.SaslResponse(response=b"guest"))


def test_detach_lets_the_block_go() -> None:
    block = OBJECTS[7].encode() * 3
    frame = checked(amqp10.Decoder().feed(block)[1], amqp10.Transfer)
    assert frame.detach() == frame
    assert frame.detach().message.detach() == MESSAGE


# ---- deliveries


def pieces(payload: bytes, cuts: list[int], **first: Any) -> list[amqp10.Transfer]:
    parts = [payload[a:b] for a, b in zip([0, *cuts], [*cuts, len(payload)], strict=True)]
    out = []
    for i, part in enumerate(parts):
        fields: dict[str, Any] = {"delivery_id": 1, "delivery_tag": b"t"} | first if i == 0 else {}
        out.append(amqp10.Transfer(handle=2, channel=1, more=i < len(parts) - 1, payload=part, **fields))
    return out


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 400), max_size=6).map(sorted))
def test_any_cutting_is_joined(cuts: list[int]) -> None:
    payload = amqp10.Message(body=bytes(range(256))).encode()
    assembler = amqp10.Assembler()
    found = [assembler.feed(t.encode()) for t in pieces(payload, [min(c, len(payload)) for c in cuts])]
    assert found[:-1] == [[]] * len(cuts)
    (delivery,) = found[-1]
    assert isinstance(delivery, amqp10.Delivery)
    assert bytes(delivery.payload) == payload
    assert delivery.transfers == len(cuts) + 1
    assert (delivery.transfer.delivery_id, delivery.transfer.delivery_tag, delivery.settled) == (1, b"t", False)
    assert delivery.message == amqp10.decode_message(payload)
    assert assembler.unfinished == 0


def test_a_transfer_reads_its_message_as_strictly_as_itself() -> None:
    """The frame has nothing to note, its message has: it has no body, which python-qpid-proton sends."""
    without_body = bytes.fromhex("00537045")  # a header without fields
    octets = amqp10.Transfer(handle=0, delivery_id=1, delivery_tag=b"t", payload=without_body).encode()
    lax = amqp10.decode(octets, strictness="lax")
    fed, _ = amqp10.Decoder(strictness="lax").feed(octets * 2)
    assert isinstance(fed, amqp10.Transfer)
    for frame in (lax, fed, fed.detach(), pickle.loads(pickle.dumps(lax))):
        assert isinstance(frame, amqp10.Transfer)
        assert frame.notes == ()
        assert frame.message.body == ()
        assert [note.check for note in frame.message.notes] == ["BODY_MISSING"]
    strict = amqp10.decode(octets)
    for frame in (strict, pickle.loads(pickle.dumps(strict)), amqp10.Transfer(handle=0, payload=without_body)):
        assert isinstance(frame, amqp10.Transfer)
        with pytest.raises(DecodeError):
            _ = frame.message


def test_what_ends_a_delivery() -> None:
    first, *_ = pieces(MESSAGE.encode(), [5])
    for ends in (
        amqp10.Transfer(handle=2, channel=1, aborted=True),
        amqp10.Detach(handle=2, channel=1),
        amqp10.End(channel=1),
        amqp10.Close(),
    ):
        assembler = amqp10.Assembler()
        assembler.feed(first.encode())
        assert (assembler.unfinished, assembler.pending) == (1, len(first.encode()))
        assert assembler.feed(ends.encode()) == ([] if isinstance(ends, amqp10.Transfer) else [ends])
        assert (assembler.unfinished, assembler.pending) == (0, 0)
    assembler = amqp10.Assembler()
    assembler.feed(first.encode())
    others = (
        amqp10.Detach(handle=3, channel=1),
        amqp10.Detach(handle=2, channel=2),
        amqp10.End(channel=2),
        amqp10.EmptyFrame(),
    )
    for other in others:
        assert assembler.feed(other.encode()) == [other]
        assert assembler.unfinished == 1


def test_later_transfers_agree_with_the_first() -> None:
    first, last = pieces(MESSAGE.encode(), [5])
    other = amqp10.Transfer(handle=2, channel=1, delivery_id=9, payload=last.payload)
    strict, lax = amqp10.Assembler(), amqp10.Assembler(strictness="lax")
    for assembler in (strict, lax):
        assembler.feed(first.encode())
    with pytest.raises(Malformed) as caught:
        strict.feed(other.encode())
    assert (caught.value.path, caught.value.reply) == ("transfer.delivery_id", "amqp:invalid-field")
    (delivery,) = lax.feed(other.encode())
    assert isinstance(delivery, amqp10.Delivery)
    assert delivery.message == MESSAGE
    with pytest.raises(Malformed):
        amqp10.Assembler().feed(amqp10.Transfer(handle=0, more=True, payload=b"x").encode())


def test_deliveries_that_never_end_are_bounded() -> None:
    assembler = amqp10.Assembler(limits=Limits(frame_size=10_000))
    assembler.feed(amqp10.Transfer(handle=0, delivery_id=0, more=True, payload=bytes(5000)).encode())
    assembler.feed(amqp10.Transfer(handle=0, more=True, payload=bytes(4000)).encode())
    with pytest.raises(LimitExceeded) as caught:
        assembler.feed(amqp10.Transfer(handle=0, more=True, payload=bytes(4000)).encode())
    assert caught.value.reply == "amqp:link:message-size-exceeded"
    assert assembler.unfinished == 0
    assembler = amqp10.Assembler()
    for handle in range(1024):
        assembler.feed(amqp10.Transfer(handle=handle, delivery_id=0, more=True).encode())
    with pytest.raises(LimitExceeded):
        assembler.feed(amqp10.Transfer(handle=1024, delivery_id=0, more=True).encode())


# ---- hostile octets


def test_keys_that_are_all_equal_take_no_longer() -> None:
    """No choice of keys makes finding equal ones quadratic: a million octets are read like others."""
    count = 100_000
    same_keys = b"\xa1\x05aaaaa\x40" * count
    other_keys = b"".join(b"\xa1\x05%05d\x40" % i for i in range(count))

    def octets(entries: bytes) -> bytes:
        return b"\xd1" + (len(entries) + 4).to_bytes(4, "big") + (2 * count).to_bytes(4, "big") + entries

    assert len(amqp10.decode_value(octets(other_keys))) == count
    with pytest.raises(Malformed):
        amqp10.decode_value(octets(same_keys))
    assert len(amqp10.decode_value(octets(same_keys), strictness="lax").pairs) == count


@pytest.mark.parametrize("code", [0x40, 0x41, 0x42, 0x43, 0x44, 0x45])
def test_arrays_of_nothing(code: int) -> None:
    array = b"\xf0\0\0\0\5\xff\xff\xff\xff" + bytes([code])
    with pytest.raises(LimitExceeded):
        amqp10.decode_value(array)
    value = amqp10.decode_value(array, limits=Limits(elements=0))
    assert len(value) == 2**32 - 1
    assert value == amqp10.decode_value(array, limits=Limits(elements=0))
    assert hash(value)
    assert value.encode() == array
    assert len(repr(value)) < 100
    # many small ones count together
    many = b"\xd0" + (4 + 14 * 20).to_bytes(4, "big") + (20).to_bytes(4, "big")
    many += (b"\xf0\0\0\0\5\0\1\0\0" + bytes([code])) * 20
    many = many[:1] + (len(many) - 5).to_bytes(4, "big") + many[5:]
    with pytest.raises(LimitExceeded):
        amqp10.decode_value(many)


def test_a_decoder_that_failed_says_so_again() -> None:
    decoder = amqp10.Decoder()
    with pytest.raises(DecodeError) as first:
        decoder.feed(amqp10.EmptyFrame().encode() + b"\0\0\0\1")
    assert first.value.messages == (amqp10.EmptyFrame(),)
    assert first.value.offset == 8
    with pytest.raises(DecodeError):
        decoder.feed(b"")


@pytest.mark.parametrize("count", [63, 64, 65, 200])
def test_notes_are_at_most_so_many(count: int) -> None:
    """Keys of annotations that are not symbols (3.2.10): a note each, and no more than 64 of them."""
    entries = b"".join(b"\xa1\2%02d\x40" % i if i < 100 else b"\xa1\3%03d\x40" % i for i in range(count))
    octets = b"\0\x53\x72\xd1" + (4 + len(entries)).to_bytes(4, "big") + (2 * count).to_bytes(4, "big") + entries
    message = amqp10.decode_message(octets + b"\0\x53\x75\xa0\1x", strictness="lax")
    assert len(message.notes) == min(count, 64)
    assert len({note.offset for note in message.notes}) == len(message.notes)
    assert len(checked(message.message_annotations, amqp10.Map)) == count


def section_of(code: int, entries: list[tuple[bytes, bytes]]) -> bytes:
    """A section that is a map, of keys and values that are written out."""
    octets = b"".join(key + value for key, value in entries)
    return b"\0\x53" + bytes((code, 0xD1)) + struct.pack(">II", 4 + len(octets), 2 * len(entries)) + octets


DATA = b"\0\x53\x75\xa0\x01x"


@pytest.mark.parametrize(("code", "short", "long"), [(0x74, 0xA1, 0xB1), (0x72, 0xA3, 0xB3)])
@pytest.mark.parametrize("count", [2, 3, 16, 17, 40])
def test_equal_keys_are_found_wherever_they_stand(code: int, short: int, long: int, count: int) -> None:
    """1.6.23: no two keys are equal. 1.6.20, 1.6.21: a string or symbol is the same with a size of one octet or four."""
    names = [f"key-{i}".encode() for i in range(count)]
    entries = [(bytes((short, len(name))) + name, b"\x54\x07") for name in names]
    assert len(amqp10.decode_message(section_of(code, entries) + DATA).body) == 1
    for first in range(count - 1):
        last = bytes((long,)) + struct.pack(">I", len(names[first])) + names[first]
        octets = section_of(code, [*entries[:-1], (last, b"\x40")]) + DATA
        with pytest.raises(DecodeError, match="equal"):
            amqp10.decode_message(octets)


def test_elements_of_sections_are_limited() -> None:
    """Keys and values of all maps count, those of sections as well."""
    entries = [(b"\xa1\x01" + bytes((97 + i,)), b"\x41") for i in range(8)]
    octets = section_of(0x74, entries) + DATA
    assert amqp10.decode_message(octets, limits=Limits(elements=16)).payload == b"x"  # type: ignore[comparison-overlap]
    with pytest.raises(LimitExceeded):
        amqp10.decode_message(octets, limits=Limits(elements=15))


SIZED = {0xA0: b"\1x", 0xA1: b"\1x", 0xA3: b"\1x", 0xB0: b"\0\0\0\1x", 0xB1: b"\0\0\0\1x", 0xB3: b"\0\0\0\1x"}
COMPOUND = {0x45: b"", 0xC0: b"\1\0", 0xC1: b"\1\0", 0xD0: b"\0\0\0\4\0\0\0\0", 0xD1: b"\0\0\0\4\0\0\0\0"}
COMPOUND |= {0xE0: b"\2\0\x40", 0xF0: b"\0\0\0\5\0\0\0\0\x40"}


@pytest.mark.parametrize("constructor", range(0x40, 0x100))
def test_values_of_application_properties_are_simple(constructor: int) -> None:
    """3.2.5: no list, map or array, not even one of no octets."""
    fixed = {c.code: bytes(c.width) for c in spec.CONSTRUCTORS if c.category == "fixed"}
    content = {**fixed, **SIZED, **COMPOUND}.get(constructor, b"")
    octets = section_of(0x74, [(b"\xa1\x01k", bytes((constructor,)) + content)]) + DATA
    if constructor in {*fixed, *SIZED} - {*COMPOUND}:
        assert [*(amqp10.decode_message(octets).application_properties or ())] == ["k"]
    else:
        with pytest.raises(DecodeError, match="simple" if constructor in COMPOUND else "constructor"):
            amqp10.decode_message(octets)


def test_octets_that_are_no_boolean_are_found_in_sections() -> None:
    """1.6.2: 0 or 1."""
    assert amqp10.decode_message(section_of(0x74, [(b"\xa1\x01k", b"\x56\x01")]) + DATA)
    with pytest.raises(DecodeError, match="boolean"):
        amqp10.decode_message(section_of(0x74, [(b"\xa1\x01k", b"\x56\x02")]) + DATA)
