"""AMQP 0.9.1 objects: what they are made of, what they refuse, and the errors that say why."""

from __future__ import annotations

import datetime
import gc
import math
import sys
from decimal import Decimal
from typing import Any

import pytest

from lib.amqp091_vectors import frame
from lib.kinds import checked
from wirefmt import NEED_DATA, Limits, amqp091
from wirefmt.amqp091.spec import CLASSES
from wirefmt.errors import DecodeError, EncodeError, LimitExceeded, Malformed, Truncated, Unsupported

DELIVER = amqp091.BasicDeliver(channel=3, consumer_tag="c", delivery_tag=9, exchange="e", routing_key="k")
PUBLISH = amqp091.BasicPublish(channel=3, exchange="e", routing_key="k")


# ---- frames


def test_a_frame_is_its_octets() -> None:
    octets = bytes.fromhex("0100030000001200 3c003c01630000000000000009 0001 65016b ce".replace(" ", ""))
    octets = octets[:3] + (len(octets) - 8).to_bytes(4, "big") + octets[7:]
    assert DELIVER.encode() == octets
    message = amqp091.decode(memoryview(octets))
    assert message == DELIVER
    assert (message.channel, message.consumer_tag, message.delivery_tag) == (3, "c", 9)
    assert (message.redelivered, message.exchange, message.routing_key) == (False, "e", "k")
    assert (message.name, message.ids, message.has_content, message.synchronous) == (
        "basic.deliver",
        (60, 60),
        True,
        False,
    )


def test_frames_do_not_change() -> None:
    for change in ("channel", "exchange", "name", "anything"):
        with pytest.raises(AttributeError):
            setattr(DELIVER, change, 1)
    with pytest.raises(TypeError):
        DELIVER.__init__(channel=1, consumer_tag="", delivery_tag=1, exchange="", routing_key="")
    with pytest.raises(TypeError):
        amqp091.Frame()
    with pytest.raises(TypeError):
        amqp091.Method()


def test_equality_is_by_value() -> None:
    spare = bytearray(amqp091.BasicAck(channel=1, delivery_tag=1, multiple=True).encode())
    spare[-2] |= 0xF0  # bits that mean nothing
    assert amqp091.decode(spare) == amqp091.BasicAck(channel=1, delivery_tag=1, multiple=True)
    assert hash(amqp091.decode(spare)) == hash(amqp091.BasicAck(channel=1, delivery_tag=1, multiple=True))
    assert amqp091.decode(spare).encode() == spare
    assert amqp091.TxSelect(channel=1) != amqp091.TxCommit(channel=1)  # type: ignore[comparison-overlap]
    assert amqp091.TxSelect(channel=1) != amqp091.TxSelect(channel=2)
    assert amqp091.TxSelect(channel=1) != "tx.select"  # type: ignore[comparison-overlap]


def test_match() -> None:
    match DELIVER:
        case amqp091.BasicDeliver(channel, consumer_tag, delivery_tag, exchange="e"):
            assert (channel, consumer_tag, delivery_tag) == (3, "c", 9)
        case _:
            raise AssertionError
    match amqp091.FieldTable({"a": {"b": [1, 2]}}):
        case {"a": {"b": [1, second]}}:
            assert second == 2
        case _:
            raise AssertionError


def test_repr() -> None:
    assert repr(DELIVER) == (
        "amqp091.BasicDeliver(channel=3, consumer_tag='c', delivery_tag=9, redelivered=False, exchange='e', routing_key='k')"
    )
    assert repr(amqp091.Body(channel=1, payload=b"x" * 40)) == (
        f"amqp091.Body(channel=1, payload={b'x' * 32!r} b'... 8 more')"
    )
    table = amqp091.FieldTable({"b": amqp091.FieldValue("b", 5), "i": 5, "n": [None]})
    assert (
        repr(table) == "amqp091.FieldTable({'b': amqp091.FieldValue('b', 5), 'i': 5, 'n': amqp091.FieldArray([None])})"
    )
    assert repr(amqp091.BasicProperties(type="t")) == "amqp091.BasicProperties(type='t')"


@pytest.mark.parametrize(
    "secret",
    [
        amqp091.ConnectionStartOk(client_properties={}, response=b"\0guest\0hunter2"),
        amqp091.ConnectionSecureOk(response=b"hunter2"),
        amqp091.ConnectionUpdateSecret(new_secret="hunter2", reason="r"),
    ],
)
def test_repr_shows_no_secret(secret: amqp091.Method) -> None:
    assert "hunter2" not in repr(secret)
    assert "b'***'" in repr(secret)
    assert b"hunter2" in secret.encode()


def test_detach_lets_the_block_go() -> None:
    block = amqp091.Body(channel=1, payload=bytes(100_000)).encode() + DELIVER.encode()
    (_, message) = amqp091.Decoder().feed(block)
    before = sys.getrefcount(block)
    small = message.detach()
    del message
    gc.collect()
    assert sys.getrefcount(block) < before
    assert small == DELIVER
    assert small.detach() is small


def test_body_is_a_view() -> None:
    block = amqp091.Body(channel=1, payload=b"12345").encode()
    body = amqp091.decode(block)
    assert body.payload.readonly
    assert bytes(body.payload) == bytes(body) == body.payload_bytes() == b"12345"
    assert memoryview(body).obj is body


def test_content_header() -> None:
    header = amqp091.ContentHeader(channel=1, body_size=2**64 - 1)
    assert (header.class_id, header.weight, header.body_size) == (60, 0, 2**64 - 1)
    assert header.properties == amqp091.BasicProperties()
    assert header.properties is header.properties
    assert header.properties.headers is None


def test_protocol_header() -> None:
    assert amqp091.ProtocolHeader().encode() == b"AMQP\0\0\x09\x01"
    assert amqp091.ProtocolHeader().channel == 0
    with pytest.raises(EncodeError):
        amqp091.ProtocolHeader(b"\0\0\x09\x00")
    with pytest.raises(EncodeError):
        amqp091.ProtocolHeader(b"\0\0\x09")
    other = amqp091.decode(b"AMQP\x03\x01\0\0", strictness="lax")
    assert other.octets == b"\x03\x01\0\0"
    assert [n.check for n in other.notes] == ["PROTOCOL_VERSION"]


# ---- what constructors refuse


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: amqp091.BasicAck(channel=65536, delivery_tag=1), "channel"),
        (lambda: amqp091.BasicAck(channel=0, delivery_tag=1), "only methods of class connection may be on channel 0"),
        (lambda: amqp091.ConnectionCloseOk(channel=1), "method of class connection must be on channel 0"),
        (lambda: amqp091.BasicAck(channel=1, delivery_tag=2**64), "delivery_tag"),
        (lambda: amqp091.BasicAck(channel=1, delivery_tag=-1), "delivery_tag"),
        (lambda: amqp091.BasicPublish(channel=1, exchange="x" * 256), "exchange: 256 bytes, the limit is 255"),
        (lambda: amqp091.BasicPublish(channel=1, routing_key="\ud800"), "routing_key: a surrogate"),
        (lambda: amqp091.QueueDeclare(channel=1, queue=b"\xff"), "queue: ill-formed UTF-8"),
        (lambda: amqp091.Body(channel=0, payload=b""), "content on channel 0"),
        (lambda: amqp091.ContentHeader(channel=0), "content on channel 0"),
        (lambda: amqp091.BasicMessage(amqp091.BasicAck(channel=1)), "basic.ack has no content"),
        (lambda: amqp091.BasicMessage(PUBLISH, body=b"12", frame_max=8), "frame_max"),
        (lambda: amqp091.BasicProperties(priority=256), "priority"),
        (lambda: amqp091.BasicProperties(timestamp=-1), "timestamp"),
        (lambda: amqp091.BasicProperties(timestamp=datetime.datetime(2024, 1, 1)), "time zone"),
        (lambda: amqp091.FieldTable({"k" * 256: 1}), "the limit is 255"),
        (lambda: amqp091.FieldTable({"k": 2**63}), "no integer type holds"),
        (lambda: amqp091.FieldTable({"k": Decimal("-1")}), "type D holds only non-negative numbers"),
        (lambda: amqp091.FieldTable({"k": Decimal("1E+10")}), "type D"),
        (lambda: amqp091.FieldTable({"k": Decimal("NaN")}), "type D"),
        (lambda: amqp091.FieldTable({"k": Decimal("1" * 5000)}), "limits of type D"),
        (lambda: amqp091.FieldTable({"k": Decimal("42949.67296")}), "limits of type D"),
        (lambda: amqp091.FieldTable({"k": amqp091.FieldValue("D", "text")}), "type D holds a number, not 'text'"),
        (lambda: amqp091.FieldValue("b", 128), "128 is out of range (-128 to 127)"),
        (lambda: amqp091.FieldValue("B", -1), "-1 is out of range (0 to 255)"),
        (lambda: amqp091.FieldValue("s", 2**15), "type s"),
        (lambda: amqp091.FieldValue("u", 2**16), "type u"),
        (lambda: amqp091.FieldValue("I", 2**31), "type I"),
        (lambda: amqp091.FieldValue("i", -1), "type i"),
        (lambda: amqp091.FieldValue("l", 2**63), "type l"),
        (lambda: amqp091.FieldValue("T", -1), "type T"),
        (lambda: amqp091.FieldValue("V", 1), "void"),
        (lambda: amqp091.FieldValue("Z", 1), "not a type of field values"),
        (lambda: amqp091.FieldValue("U", 1), "not a type of field values"),
    ],
)  # fmt: skip
def test_refused_values(build: Any, says: str) -> None:
    with pytest.raises(EncodeError) as caught:
        build()
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "build",
    [
        lambda: amqp091.BasicAck(channel="1", delivery_tag=1),  # type: ignore[arg-type]
        lambda: amqp091.BasicAck(channel=1, delivery_tag=1.5),  # type: ignore[arg-type]
        lambda: amqp091.BasicPublish(channel=1, exchange=5),  # type: ignore[arg-type]
        lambda: amqp091.BasicDeliver(channel=1),  # type: ignore[call-arg]
        lambda: amqp091.BasicAck(channel=1, no_such_argument=1),  # type: ignore[call-arg]
        lambda: amqp091.BasicProperties(no_such_property=1),  # type: ignore[call-arg]
        lambda: amqp091.FieldTable({"k": object()}),
        lambda: amqp091.FieldTable({5: 1}),
        lambda: amqp091.FieldTable(5),  # type: ignore[arg-type]
        lambda: amqp091.FieldValue("I", "5"),
        lambda: amqp091.FieldValue("d", "5"),
        lambda: amqp091.ContentHeader(channel=1, properties={"type": "t"}),  # type: ignore[arg-type]
        lambda: amqp091.BasicMessage("basic.publish"),  # type: ignore[arg-type]
        lambda: amqp091.encode(b"octets"),  # type: ignore[arg-type]
    ],
)
def test_refused_types(build: Any) -> None:
    with pytest.raises(TypeError):
        build()


def test_what_stands_for_values() -> None:
    """NumPy's integers, buffers, moments."""
    numpy = pytest.importorskip("numpy", reason="needs numpy (pip install numpy)")
    ack = amqp091.BasicAck(channel=numpy.uint16(1), delivery_tag=numpy.uint64(2**64 - 1))
    assert ack.delivery_tag == 2**64 - 1
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert amqp091.BasicProperties(timestamp=moment).timestamp == 1704067200
    table = amqp091.FieldTable({"n": numpy.int32(7), "x": bytearray(b"\xff"), "t": moment, "view": memoryview(b"ab")})
    assert [e[1:] for e in table.entries] == [("I", 7), ("x", b"\xff"), ("T", 1704067200), ("x", b"ab")]
    assert amqp091.Timestamp.of(moment).to_datetime() == moment
    with pytest.raises(
        ValueError, match=r"datetime has no time 1152921504606846976 s after 1970: use int\(timestamp\)"
    ):
        amqp091.Timestamp(2**60).to_datetime()


# ---- tables


def test_letters_of_plain_values() -> None:
    """As RabbitMQ's and most clients' encoders choose."""
    values: dict[Any, Any] = {
        "S": "text", "t": True, "I": -(2**31), "l": 2**31, "d": 1.5, "V": None, "x": b"\xff", "D": Decimal("1.5"),
        "T": amqp091.Timestamp(5), "F": {"k": 1}, "A": [1, (2,)],
    }  # fmt: skip
    table = amqp091.FieldTable(values)
    assert [letter for _, letter, _ in table.entries] == list(values)
    assert amqp091.FieldTable(table.pairs) == table


def test_types_are_kept() -> None:
    """A decoded table written into another message is the same octets, nested ones too."""
    inner = amqp091.FieldTable({"short": amqp091.FieldValue("s", 5), "list": [amqp091.FieldValue("B", 1)]})
    outer = amqp091.FieldTable({"inner": inner, "array": inner["list"]})
    assert outer["inner"] == inner
    assert outer["inner"]["list"].items == (("B", 1),)
    assert outer["array"].items == (("B", 1),)
    again = amqp091.decode(amqp091.BasicConsume(channel=1, arguments=outer["inner"]).encode()).arguments
    assert again.entries[0] == ("short", "s", 5)


def test_repeated_names() -> None:
    table = amqp091.FieldTable([("k", 1), ("x", None), ("k", 2)])
    assert table["k"] == 1  # as RabbitMQ finds it
    assert (len(table), list(table), table.pairs) == (2, ["k", "x"], (("k", 1), ("x", None), ("k", 2)))
    assert table != {"k": 1, "x": None}
    assert amqp091.FieldTable([("k", 1)]) == {"k": 1}
    with pytest.raises(KeyError):
        table["no"]
    large = amqp091.FieldTable([(f"name {i}", i) for i in range(200)])
    assert large["name 150"] == 150
    with pytest.raises(KeyError):
        large[b"name 150"]


def test_octets_that_are_no_text() -> None:
    table = amqp091.FieldTable([(b"\xff", amqp091.FieldValue("S", b"\xfe")), ("nul\0", "a\0b")])
    assert table.pairs == ((b"\xff", b"\xfe"), ("nul\0", "a\0b"))
    assert table[b"\xff"] == b"\xfe"
    message = amqp091.decode(amqp091.BasicPublish(channel=1, routing_key=b"a\xff").encode())
    assert message.routing_key == b"a\xff"
    assert amqp091.BasicProperties(message_id=b"\xff").message_id == b"\xff"


def test_nan_and_infinity() -> None:
    table = amqp091.FieldTable({"n": math.nan, "i": math.inf})
    assert math.isnan(table["n"])
    assert table["i"] == math.inf
    assert table == amqp091.FieldTable.decode(table.encode())


def nested(depth: int, kind: Any) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = kind(value)
    return value


@pytest.mark.parametrize("kind", [lambda v: {"k": v}, lambda v: [v]])
def test_nesting(kind: Any) -> None:
    table = amqp091.FieldTable({"top": nested(64, kind)})
    assert amqp091.FieldTable.decode(table.encode()) == table
    hash(table), repr(table)
    with pytest.raises(EncodeError):
        amqp091.FieldTable({"top": nested(65, kind)})
    with pytest.raises(EncodeError):  # as an object, its depth shows only when it is read back
        amqp091.FieldTable({"top": kind(table)})
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(EncodeError):
        amqp091.FieldTable({"loop": loop})


def test_arrays() -> None:
    array = amqp091.FieldArray([1, "two", [3]])
    assert array == [1, "two", [3]]
    assert array == (1, "two", [3])
    assert array == amqp091.FieldArray([1, "two", [3]])
    assert hash(array) == hash(amqp091.FieldArray([1, "two", [3]]))
    assert (len(array), array[0], array[-1], list(array[:2]), "two" in array) == (3, 1, [3], [1, "two"], True)
    assert array != [1]
    assert array.items == (("I", 1), ("S", "two"), ("A", [3]))


# ---- errors


@pytest.mark.parametrize(
    ("octets", "kind", "reason", "path", "offset", "reply"),
    [
        (b"\x04\0\1", Malformed, "unknown frame type", "type", 0, 501),
        (b"AMQX", Unsupported, "not a protocol header", "protocol_header", 3, None),
        (b"AMQP\1\1\0\x09", Unsupported, "protocol header of another version", "protocol_header", 4, None),
        (b"\1\0\1\0\2\0\0", LimitExceeded, "frame larger than frame-max", "size", 3, 501),
        (frame(8, 1, b""), Malformed, "heartbeat on a channel other than 0", "channel", 1, 505),
        (frame(8, 0, b"x"), Malformed, "heartbeat with a payload", "payload", 7, 501),
        (frame(3, 0, b"x"), Malformed, "content on channel 0", "channel", 1, 505),
        (frame(1, 1, b"\0\x0b\0\x0a"), Malformed, "unknown class", "class_id", 7, 540),
        (frame(1, 1, b"\0\x3c\0\x0c"), Malformed, "unknown method", "method_id", 9, 540),
        (frame(1, 1, b"\0\x3c\0"), Truncated, "field runs past its enclosing structure", "method_id", 7, 501),
        (frame(1, 1, b"\0\x5a\0\x0ax"), Malformed, "bytes after the last argument", "payload", 11, 501),
        (
            frame(1, 1, b"\0\x3c\0\x1f\x05ab"),
            Truncated,
            "field runs past its enclosing structure",
            "arguments.consumer_tag",
            11,
            501,
        ),
        (frame(1, 1, b"\0\x3c\0\x1f\x02a\xff"), Malformed, "ill-formed UTF-8", "arguments.consumer_tag", 13, 501),
        (frame(2, 1, bytes(14)), Malformed, "content header of a class that has no content", "class_id", 7, 505),
        (
            frame(2, 1, b"\0\x0a" + bytes(12)),
            Malformed,
            "content header of a class that has no content",
            "class_id",
            7,
            505,
        ),
        (frame(2, 1, b"\0\x3c\0\1" + bytes(10)), Malformed, "weight is not 0", "weight", 9, 505),
        (
            frame(2, 1, b"\0\x3c" + bytes(11)),
            Truncated,
            "field runs past its enclosing structure",
            "property_flags",
            19,
            501,
        ),
        (
            frame(2, 1, b"\0\x3c" + bytes(10) + b"\x80\0\x05a"),
            Truncated,
            "property runs past the end of the frame",
            "properties.content_type",
            21,
            541,
        ),
        (
            frame(2, 1, b"\0\x3c" + bytes(10) + b"\x20\0\0\0\0\x07\1aV\1bZ\0"),
            Malformed,
            "unknown type of field value",
            "properties.headers[1]",
            30,
            501,
        ),
        (
            frame(2, 1, b"\0\x3c" + bytes(10) + b"\x20\0\0\0\0\x05\1aI\0\0\0\0"),
            Truncated,
            "entry runs past the end of its table",
            "properties.headers[0]",
            28,
            501,
        ),
        (frame(1, 1, b"\0\x5a\0\x0a")[:-1] + b"\0", Malformed, "frame does not end with 0xCE", "frame_end", 11, 501),
        (frame(1, 1, b"\0\x5a\0\x0a")[:-1], Truncated, "the input ends inside the frame", "", 11, 501),
        (frame(1, 1, b"\0\x5a\0\x0a") + b"\1", Malformed, "bytes after the frame", "", 12, 501),
    ],
)
def test_errors_say_where(
    octets: bytes, kind: type[DecodeError], reason: str, path: str, offset: int, reply: int | None
) -> None:
    with pytest.raises(kind) as caught:
        amqp091.decode(octets)
    error = caught.value
    assert (error.reason, error.path, error.offset, error.reply) == (reason, path, offset, reply)
    assert error.protocol == "amqp091"
    assert error.spec


def test_length_errors_say_how_much() -> None:
    with pytest.raises(Truncated) as caught:
        amqp091.decode(frame(1, 1, b"\0\x3c\0\x1f\x05ab"))
    error = caught.value
    assert (error.need, error.have, error.limited_by) == (6, 3, "size")
    with pytest.raises(Truncated) as caught:
        amqp091.decode(frame(2, 1, b"\0\x3c" + bytes(10) + b"\x20\0\0\0\0\x05\1aI\0\0\0\0"))
    assert (caught.value.need, caught.value.have, caught.value.limited_by) == (4, 2, "properties.headers")


# ---- limits


def test_frame_max() -> None:
    body = amqp091.Body(channel=1, payload=bytes(100)).encode()
    assert amqp091.decode(body, frame_max=108).payload.nbytes == 100
    for more in range(1, 9):
        with pytest.raises(LimitExceeded):
            amqp091.decode(body, frame_max=108 - more)
        # RabbitMQ's tolerance: the frame's own eight octets are not counted
        assert amqp091.decode(body, frame_max=108 - more, strictness="lax").payload.nbytes == 100
    with pytest.raises(LimitExceeded):
        amqp091.decode(body, frame_max=99, strictness="lax")
    assert amqp091.decode(body, frame_max=0).payload.nbytes == 100
    with pytest.raises(LimitExceeded):
        amqp091.decode(body, frame_max=0, limits=Limits(frame_size=107))
    assert amqp091.frame_size(body[:6]) is NEED_DATA
    with pytest.raises(LimitExceeded):
        amqp091.frame_size(body[:7], frame_max=107)
    decoder = amqp091.Decoder()
    assert decoder.frame_max == 131072
    decoder.frame_max = 0
    assert decoder.frame_max == Limits().frame_size
    decoder.frame_max = 4096
    with pytest.raises(LimitExceeded) as caught:
        decoder.feed(amqp091.Body(channel=1, payload=bytes(4089)).encode())
    assert (caught.value.need, caught.value.have) == (4097, 4096)


def test_channel_max() -> None:
    octets = amqp091.TxSelect(channel=9).encode()
    assert amqp091.decode(octets, channel_max=9) == amqp091.decode(octets)
    with pytest.raises(LimitExceeded):
        amqp091.decode(octets, channel_max=8, strictness="lax")
    with pytest.raises(LimitExceeded) as caught:
        amqp091.decode(octets, channel_max=8)
    assert caught.value.reply == 504
    decoder = amqp091.Decoder()
    decoder.channel_max = 8
    assert decoder.channel_max == 8
    with pytest.raises(LimitExceeded):
        decoder.feed(octets)


def test_elements() -> None:
    octets = amqp091.BasicConsume(channel=1, arguments={"a": [1, 2, 3]}).encode()
    assert amqp091.decode(octets, limits=Limits(elements=4)).arguments["a"] == [1, 2, 3]
    with pytest.raises(LimitExceeded) as caught:
        amqp091.decode(octets, limits=Limits(elements=3))
    assert caught.value.path == "arguments.arguments[0]"


def test_options() -> None:
    wrong: Any
    for wrong in ({"side": "peer"}, {"strictness": "none"}):
        with pytest.raises(ValueError, match=r"peer|none"):
            amqp091.decode(b"", **wrong)
        with pytest.raises(ValueError, match=r"peer|none"):
            amqp091.Assembler(**wrong)
    with pytest.raises(EncodeError):
        amqp091.Decoder(frame_max=-1)


def test_side() -> None:
    octets = DELIVER.encode()
    assert amqp091.decode(octets, side="server") == DELIVER
    with pytest.raises(Malformed) as caught:
        amqp091.decode(octets, side="client")
    assert caught.value.reply == 503
    noted = amqp091.decode(octets, side="client", strictness="lax")
    assert [(n.check, n.path, n.offset) for n in noted.notes] == [("METHOD_SENDER", "method_id", 9)]
    assert noted == DELIVER
    assert noted.detach().notes == noted.notes


def test_notes_in_order() -> None:
    octets = frame(2, 0, b"\0\x3c\0\1" + bytes(8) + b"\0\3x")
    noted = amqp091.decode(octets, strictness="lax")
    assert [n.check for n in noted.notes] == ["CONTENT_CHANNEL", "WEIGHT", "PROPERTY_FLAGS", "TRAILING_PROPERTIES"]
    assert noted.weight == 1
    assert noted.properties == amqp091.BasicProperties()


# ---- contents


def test_basic_message() -> None:
    properties = amqp091.BasicProperties(content_type="text/plain", headers={"k": 1})
    message = amqp091.BasicMessage(PUBLISH, properties, b"hello", frame_max=10)
    assert (message.channel, message.method, message.properties) == (3, PUBLISH, properties)
    assert (message.body_bytes(), bytes(message.body), message.body_sizes) == (b"hello", b"hello", (2, 2, 1))
    assert message.header == amqp091.ContentHeader(channel=3, body_size=5, properties=properties)
    assert message.encode() == b"".join(
        (
            PUBLISH.encode(),
            message.header.encode(),
            *(amqp091.Body(channel=3, payload=part).encode() for part in (b"he", b"ll", b"o")),
        )
    )
    whole = message.encode(frame_max=0)
    (again,) = amqp091.Assembler().feed(whole)
    assert again == message
    assert again.body_sizes == (5,)
    assert amqp091.BasicMessage(PUBLISH).body_sizes == ()
    assert amqp091.BasicMessage(PUBLISH).encode() == PUBLISH.encode() + amqp091.ContentHeader(channel=3).encode()
    assert amqp091.BasicMessage(PUBLISH) != amqp091.BasicMessage(PUBLISH, body=b"1")
    assert message.properties.headers == {"k": 1}
    with pytest.raises(TypeError):
        message.__init__(PUBLISH)


def test_a_body_of_one_frame_is_not_copied() -> None:
    block = amqp091.BasicMessage(PUBLISH, None, bytes(1000)).encode()
    before = sys.getrefcount(block)
    (message,) = amqp091.Assembler().feed(block)
    assert sys.getrefcount(block) > before
    small = checked(message.detach(), amqp091.BasicMessage)
    del message
    gc.collect()
    assert sys.getrefcount(block) == before
    assert small.body_bytes() == bytes(1000)


def test_unfinished_contents_hold_no_blocks() -> None:
    """One octet of a content in a large read does not keep the read alive."""
    message = amqp091.BasicMessage(PUBLISH, None, bytes(10), frame_max=13)
    octets = message.encode()
    filler = amqp091.Body(channel=4, payload=bytes(60_000)).encode()
    opening = amqp091.BasicMessage(amqp091.BasicPublish(channel=4), None, bytes(60_000)).encode()
    opening = opening[: opening.index(b"\x03\x00\x04")]
    block = opening + octets[:-13] + filler
    before = sys.getrefcount(block)
    assembler = amqp091.Assembler()
    assert len(assembler.feed(block)) == 1
    gc.collect()
    assert sys.getrefcount(block) == before
    (last,) = assembler.feed(octets[-13:])
    assert last == message


def test_contents_interleave() -> None:
    parts = []
    for channel in range(1, 6):
        method = amqp091.BasicPublish(channel=channel, routing_key=str(channel))
        octets = amqp091.BasicMessage(method, None, bytes([channel]) * 4, frame_max=10).encode()
        parts.append([f.encode() for f in amqp091.Decoder().feed(octets)])
    stream = b"".join(b"".join(turn) + amqp091.Heartbeat().encode() for turn in zip(*parts, strict=True))
    out = amqp091.Assembler(side="client").feed(stream)
    assert [m.body_bytes() for m in out if isinstance(m, amqp091.BasicMessage)] == [bytes([c]) * 4 for c in range(1, 6)]
    assert sum(isinstance(m, amqp091.Heartbeat) for m in out) == 4


@pytest.mark.parametrize(
    ("frames", "reason", "reply"),
    [
        ([amqp091.ContentHeader(channel=3)], "content header without a preceding method with content", 505),
        ([amqp091.Body(channel=3, payload=b"x")], "unexpected content body", 505),
        ([PUBLISH, PUBLISH], "method inside a content", 505),
        ([PUBLISH, amqp091.Body(channel=3, payload=b"x")], "unexpected content body", 505),
        (
            [PUBLISH, amqp091.ContentHeader(channel=3, body_size=1), amqp091.ContentHeader(channel=3)],
            "content header without a preceding method with content",
            505,
        ),
        (
            [PUBLISH, amqp091.ContentHeader(channel=3, body_size=1), amqp091.Body(channel=3, payload=b"xx")],
            "content bodies exceed the announced size",
            501,
        ),
        ([PUBLISH, amqp091.ContentHeader(channel=3, body_size=2**30)], "body larger than the caller's limit", 501),
    ],
)
def test_unexpected_frames(frames: list[amqp091.Frame], reason: str, reply: int) -> None:
    assembler = amqp091.Assembler()
    octets = b"".join(f.encode() for f in frames)
    last = len(octets) - len(frames[-1].encode())
    with pytest.raises(DecodeError) as caught:
        assembler.feed(octets)
    assert (caught.value.reason, caught.value.reply) == (reason, reply)
    assert last <= caught.value.offset < len(octets)


def test_limits_of_contents() -> None:
    message = amqp091.BasicMessage(PUBLISH, None, bytes(1000), frame_max=108).encode()
    assert len(amqp091.Assembler(body_max=1000).feed(message)) == 1
    with pytest.raises(LimitExceeded) as caught:
        amqp091.Assembler(body_max=999).feed(message)
    assert (caught.value.path, caught.value.need, caught.value.have) == ("body_size", 1000, 999)
    with pytest.raises(LimitExceeded) as caught:
        amqp091.Assembler(pending_max=500).feed(message)
    assert caught.value.reply == 506
    assembler = amqp091.Assembler()
    assembler.feed(message[:-50])
    assert assembler.pending == len(message) - 50
    with pytest.raises(Truncated):
        assembler.close()
    assembler = amqp091.Assembler()
    assembler.feed(message[:-108])
    with pytest.raises(Truncated) as cut:
        assembler.close()
    assert cut.value.reason == "the stream ends inside a content"


def test_a_decoder_stays_finished() -> None:
    decoder = amqp091.Decoder()
    good = amqp091.Heartbeat().encode()
    with pytest.raises(DecodeError) as caught:
        decoder.feed(good + b"\x09")
    assert caught.value.messages == (amqp091.Heartbeat(),)
    assert caught.value.offset == len(good)
    with pytest.raises(DecodeError):
        decoder.feed(good)


def test_the_channel_of_a_method_is_told_where_it_is() -> None:
    """general 4.2.3: type, then the channel; methods of connection are on channel 0, and only those."""
    for octets in (
        b"\1\0\5" + amqp091.ConnectionCloseOk().encode()[3:],
        b"\1\0\0" + amqp091.ChannelCloseOk(channel=1).encode()[3:],
    ):
        with pytest.raises(DecodeError) as caught:
            amqp091.decode(octets)
        assert (caught.value.path, caught.value.offset) == ("channel", 1)


def test_no_class_or_method_but_those_of_the_specification() -> None:
    found = set()
    for class_id in (*range(130), 255, 256, 65535):
        for method_id in (*range(130), 255, 256, 65535):
            payload = class_id.to_bytes(2, "big") + method_id.to_bytes(2, "big")
            channel = int(class_id != 10)
            octets = bytes((1, 0, channel)) + len(payload).to_bytes(4, "big") + payload + b"\xce"
            try:
                amqp091.decode(octets)
            except DecodeError as error:
                if error.path in ("class_id", "method_id"):
                    continue
            found.add((class_id, method_id))
    assert found == {(of.id, method.id) for of in CLASSES for method in of.methods}


def test_values_differ_by_letter_and_by_value() -> None:
    value = amqp091.FieldValue
    assert value("I", 1) == value("I", 1)
    assert hash(value("I", 1)) == hash(value("I", 1))
    assert value("I", 1) != value("I", 2)
    assert value("I", 1) != value("l", 1)
    assert value("I", 1) != 1  # type: ignore[comparison-overlap]


def test_contents_differ_by_each_part() -> None:
    publish, properties = amqp091.BasicPublish, amqp091.BasicProperties
    one = amqp091.BasicMessage(publish(channel=1, routing_key="k"), properties(type="t"), b"body")
    assert one == amqp091.BasicMessage(publish(channel=1, routing_key="k"), properties(type="t"), b"body")
    for other in (
        amqp091.BasicMessage(publish(channel=1, routing_key="l"), properties(type="t"), b"body"),
        amqp091.BasicMessage(publish(channel=1, routing_key="k"), properties(type="u"), b"body"),
        amqp091.BasicMessage(publish(channel=1, routing_key="k"), properties(type="t"), b"bodies"),
        amqp091.BasicMessage(publish(channel=1, routing_key="k"), properties(type="t"), b"bodz"),
        amqp091.BasicMessage(publish(channel=1, routing_key="k"), properties(type="t"), b""),
    ):
        assert one != other
    assert one != 1  # type: ignore[comparison-overlap]
