"""Constructors take a short way for exact str, int and bytes. It gives what the long way gives, and refuses what that refuses.

Values of derived classes go the long way, and so do keywords that are not interned. Whatever way a message was made, it has
the fields of the message that its octets decode to.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from lib.kinds import checked
from wirefmt import amqp091, amqp10, mqtt, nsq, rocketmq
from wirefmt.amqp10 import spec as spec10
from wirefmt.errors import EncodeError
from wirefmt.mqtt import spec as spec_mqtt


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Octets(bytes):
    pass


def derived(value: Any) -> Any:
    """The same value, of classes for which there is no short way."""
    if type(value) is str:
        return Text(value)
    if type(value) is int:
        return Number(value)
    if type(value) is bytes:
        return bytearray(value)
    if type(value) is tuple:
        return [derived(item) for item in value]
    if type(value) is dict:
        return {derived(key): derived(item) for key, item in value.items()}
    return value


def outcome(make: Callable[..., Any]) -> tuple[Any, ...]:
    """What came of it: octets, or the error."""
    try:
        return ("octets", make().encode())
    except Exception as error:
        return (type(error), str(error))


def fields(message: Any) -> list[Any]:
    out = []
    for name in type(message).__match_args__:
        value = getattr(message, name)
        out.append((name, bytes(value) if isinstance(value, memoryview) else value, type(value)))
    return out


def not_interned(keywords: dict[str, Any]) -> dict[str, Any]:
    return {"".join(list(name)): value for name, value in keywords.items()}


# ---- MQTT

SAMPLES: dict[str, list[Any]] = {
    "byte": [0, 1, 2, 255, 256, -1],
    "two": [0, 1, 0xFFFF, 0x10000],
    "four": [0, 1, 0xFFFFFFFF, 0x100000000, 1 << 70],
    "varint": [0, 1, 127, 128, 268435455, 268435456],
    "string": [
        "",
        "a",
        "abcdefg",
        "abcdefgh",
        "a/b",
        "a/#",
        "+",
        "\u00e9t\u00e9",
        "a\0b",
        "\ud800",
        "x" * 65535,
        "x" * 65536,
        b"a",
    ],
    "pair": [("a", "b"), ("", ""), ("a\0", "b"), ("a", "b\0cdefgh"), ("a",), "ab", ("a", 1)],
    "binary": [b"", b"\0\xff", b"x" * 65535, b"x" * 65536, "text"],
}
KINDS = {
    "string": "string",
    "pair": "pair",
    "binary": "binary",
    "byte": "byte",
    "two": "two",
    "four": "four",
    "varint": "varint",
}


def publish(properties: Any, **others: Any) -> mqtt.Publish:
    return mqtt.Publish(**{"topic_name": "a/b", "payload": b"payload", "properties": properties} | others)


def all_properties() -> list[tuple[str, Any]]:
    every = [sample for samples in SAMPLES.values() for sample in samples]
    return [(row.name, value) for row in spec_mqtt.PROPERTIES for value in every]


@pytest.mark.parametrize("name", sorted({name for name, _ in all_properties()}))
def test_a_property_of_publish_is_written_or_refused_either_way(name: str) -> None:
    for other, value in all_properties():
        if other != name:
            continue
        for properties in (
            ((name, value),),
            ((name, value), (name, value)),
            (("user_property", ("k", "v")), (name, value)),
        ):
            short = outcome(lambda p=properties: publish(p))
            assert short == outcome(lambda p=properties: publish(list(p))), properties
            if short[0] == "octets":
                made = publish(properties)
                read = mqtt.decode(short[1], version=5)
                assert fields(made) == fields(read)
                assert (made.flags, made.remaining_length, made.notes) == (read.flags, read.remaining_length, ())


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    "topic", ["", "a", "a/b", "a/+", "#", "a\0b", "\u00e9t\u00e9/t", "x" * 65535, "x" * 65536, "\ud800", b"a", None]
)
def test_a_publish_is_written_or_refused_either_way(version: int, topic: str) -> None:
    for qos in (0, 1, 2, 3, 4):
        for dup in (False, True):
            for identifier in (None, 0, 1, 65535, 65536, -1):
                given = {"qos": qos, "dup": dup, "retain": dup, "packet_identifier": identifier, "version": version}
                short = outcome(lambda g=given: publish((), topic_name=topic, **g))
                assert short == outcome(lambda g=given: publish([], topic_name=topic, **g))
                if short[0] == "octets":
                    made = publish((), topic_name=topic, **given)
                    assert fields(made) == fields(mqtt.decode(short[1], version=version))


def test_publish_takes_its_arguments_and_defaults_either_way() -> None:
    defaults = {"payload": b"", "qos": 0, "retain": False, "dup": False, "packet_identifier": None}
    defaults |= {"properties": (), "version": 5}
    others = {"payload": b"octets", "qos": 1, "retain": True, "dup": True, "packet_identifier": 7}
    others |= {"properties": (("content_type", "a"),), "version": 4, "topic_name": "a/b", "unknown": 1}
    for bits in range(1 << len(others)):
        given = {name: value for i, (name, value) in enumerate(others.items()) if bits >> i & 1}
        short = outcome(lambda g=given: mqtt.Publish(**g))
        assert short == outcome(lambda g=given: mqtt.Publish(**dict(reversed(g.items()))))
        assert short == outcome(lambda g=given: mqtt.Publish(**not_interned(g)))
        assert short == outcome(lambda g=given: mqtt.Publish.__new__(mqtt.Publish, **g))
        assert short[0] is TypeError or short == outcome(lambda g=given: mqtt.Publish(**defaults | g))
    with pytest.raises(TypeError):
        mqtt.Publish("a/b")  # type: ignore[call-arg]


def test_the_rules_of_publish_are_named_when_they_are_broken() -> None:
    for wrong, rule in (
        ({"topic_name": "a/#"}, "MQTT-3.3.2-2"),
        ({"dup": True}, "MQTT-3.3.1-2"),
        ({"qos": 3, "packet_identifier": 1}, "MQTT-3.3.1-4"),
        ({"properties": (("content_type", "a"), ("content_type", "b"))}, "3.3.2.3.9"),
    ):
        told = outcome(lambda w=wrong: publish(**{"properties": ()} | w))
        assert told[0] is EncodeError
        assert rule in told[1]


# ---- AMQP 1.0

OF_TYPE: dict[str, list[Any]] = {
    "string": ["", "text", "\u00e9t\u00e9", "x" * 300, "\ud800", b"octets", 1],
    "symbol": ["", "name", "\u00e9t\u00e9", "x" * 300, b"octets", 1],
    "binary": [b"", b"octets", b"x" * 300, "text", 1],
    "boolean": [True, False, 1, "true"],
    "ubyte": [0, 5, 255, 256, -1, True, 1 << 70, "1"],
    "ushort": [0, 65535, 65536, -1],
    "uint": [0, 255, 256, 0xFFFFFFFF, 0x100000000, -1, 1.5],
    "ulong": [0, 255, 256, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -1],
    "timestamp": [0, -1, 1_700_000_000_000, (1 << 63) - 1, 1 << 63],
    "map": [{}, {"a": 1}, 1],
}
ANYTHING = ["text", b"octets", 7, -1, 1 << 63, 1 << 64, True, 1.5, None, ["a"], {"a": 1}, "\u00e9t\u00e9"]


def composites() -> list[type]:
    return sorted(
        {
            cls
            for cls in vars(amqp10).values()
            if isinstance(cls, type) and issubclass(cls, amqp10.Composite) and len(cls.__mro__) > 2 and
            cls not in (amqp10.Composite, amqp10.Performative)
        },
        key=lambda cls: cls.__name__,
    )  # fmt: skip


MANDATORY: dict[str, dict[str, Any]] = {
    "Open": {"container_id": "c"},
    "Begin": {"next_outgoing_id": 1, "incoming_window": 2, "outgoing_window": 3},
    "Attach": {"name": "n", "handle": 1, "role": False},
    "Flow": {"incoming_window": 2, "next_outgoing_id": 1, "outgoing_window": 3},
    "Transfer": {"handle": 1},
    "Disposition": {"role": True, "first": 1},
    "Detach": {"handle": 1},
    "SaslMechanisms": {"sasl_server_mechanisms": "PLAIN"},
    "SaslInit": {"mechanism": "PLAIN"},
    "SaslChallenge": {"challenge": b"c"},
    "SaslResponse": {"response": b"r"},
    "SaslOutcome": {"code": 0},
    "Error": {"condition": "amqp:internal-error"},
    "Received": {"section_number": 1, "section_offset": 2},
    "Discharge": {"txn_id": b"t"},
    "Declared": {"txn_id": b"t"},
    "TransactionalState": {"txn_id": b"t"},
}


def same_either_way(cls: Any, given: dict[str, Any]) -> None:
    short = outcome(lambda: cls(**given))
    assert short == outcome(lambda: cls.__new__(cls, **given)), given
    assert short == outcome(lambda: cls(**not_interned(given))), given
    # an int that identifies a message is a ulong, an int of a derived class is not
    other = {
        name: value if name in ("message_id", "correlation_id") else derived(value) for name, value in given.items()
    }
    long = outcome(lambda: cls(**other))
    assert (short[0] == "octets") == (long[0] == "octets"), (given, short, long)
    if short[0] != "octets":
        return
    assert short == long
    made = cls(**given)
    assert fields(made) == fields(cls(**other))
    if issubclass(cls, amqp10.Performative):
        read: Any = amqp10.decode(short[1])
        assert fields(made) == fields(read)
        assert (made.channel, made.extended_header, made.notes) == (read.channel, read.extended_header, ())
        assert made == read
    else:
        read = pickle.loads(pickle.dumps(made))  # reads the octets again
        assert fields(made) == fields(read)
        assert made == read


@pytest.mark.parametrize("cls", composites(), ids=lambda cls: cls.__name__)
def test_a_composite_is_written_or_refused_either_way(cls: Any) -> None:
    mandatory = MANDATORY.get(cls.__name__, {})
    names = [name for name in cls.__match_args__ if name not in ("channel", "payload")]
    same_either_way(cls, {})
    same_either_way(cls, mandatory)
    same_either_way(cls, mandatory | {"no_such_field": 1})
    for name in names:
        for value in [value for values in OF_TYPE.values() for value in values] + ANYTHING:
            same_either_way(cls, mandatory | {name: value})
    for name in mandatory:
        same_either_way(cls, {other: value for other, value in mandatory.items() if other != name})
    if issubclass(cls, amqp10.Performative):
        for channel in (0, 1, 65535, 65536, -1, "1"):
            same_either_way(cls, mandatory | {"channel": channel})
        for octets in (b"", b"1234", b"123", b"x" * 1012, b"x" * 1016):
            same_either_way(cls, mandatory | {"extended_header": octets})
    with pytest.raises(TypeError):
        cls("positional")


def test_every_field_of_a_composite_that_may_be_left_out_is_none() -> None:
    cls: Any
    for cls in composites():
        made = cls(**MANDATORY.get(cls.__name__, {}))
        for name in cls.__match_args__:
            if name not in MANDATORY.get(cls.__name__, {}) and name not in ("channel", "payload"):
                assert getattr(made, name) is None, (cls, name)


@pytest.mark.parametrize("header", [None, amqp10.Header(durable=True), amqp10.Header(ttl=Number(5))])
@pytest.mark.parametrize(
    "properties",
    [None, amqp10.Properties(message_id="i", content_type="a/b"), amqp10.Properties(user_id=bytearray(b"u"))],
)
def test_a_message_has_the_sections_of_its_octets(header: Any, properties: Any) -> None:
    for values in (None, {}, {"a": "b", "n": 1, "t": True, "d": 1.5}, {"\u00e9t\u00e9": 1}, {"a": amqp10.UInt(1)}, {"a": None},
                   {"a": b"octets"}, {"a": [1]}, {1: 2}, {"a": 1 << 63}, {f"k{i}": i for i in range(300)}):  # fmt: skip
        for body in (b"", b"octets", b"x" * 300, bytearray(b"octets"), amqp10.Data(b"octets"), amqp10.AmqpValue("v")):
            given = {"header": header, "properties": properties, "application_properties": values, "body": body}
            short = outcome(lambda g=given: amqp10.Message(**g))
            long = outcome(lambda g=given, v=values: amqp10.Message(**g | {"application_properties": derived(v)}))
            assert (short[0] == "octets") == (long[0] == "octets"), given
            if short[0] != "octets":
                continue
            assert short == long
            made, read = amqp10.Message(**given), amqp10.decode_message(short[1])
            assert fields(made) == fields(read)
            assert made == read
            assert (made.payload is None) == (read.payload is None)
            assert made.payload is None or bytes(made.payload) == bytes(checked(read.payload, memoryview))
            frame = amqp10.Transfer(handle=0, payload=made)
            assert frame.payload_bytes() == short[1]
            assert frame.message == read
            assert amqp10.decode(frame.encode()) == frame


def test_composites_of_the_specification_are_all_tried() -> None:
    assert {cls.__name__ for cls in composites()} >= set(MANDATORY)
    assert len(composites()) == len(list(spec10.COMPOSITES))


# ---- AMQP 0.9.1, NSQ


@pytest.mark.parametrize("size", [0, 1, 131064, 131065, 400000])
@pytest.mark.parametrize("headers", [None, {}, {"a": "b", "n": 1, "t": {"x": "\u00e9t\u00e9"}}])
def test_a_basic_message_is_written_in_the_room_it_takes(size: int, headers: Any) -> None:
    body = bytes(i & 0xFF for i in range(size))
    method = amqp091.BasicPublish(channel=3, exchange="e", routing_key="\u00e9t\u00e9")
    message = amqp091.BasicMessage(method, amqp091.BasicProperties(content_type="a/b", headers=headers), body)
    for frame_max in (None, 4096):
        octets = message.encode(frame_max=frame_max)
        (read,) = amqp091.Assembler().feed(octets)
        assert read == message
        assert read.encode() == octets
        assert octets.startswith(method.encode() + message.header.encode())
        assert len(octets) == len(method.encode()) + len(message.header.encode()) + size + 8 * len(read.body_sizes)


@pytest.mark.parametrize(
    "name", ["", "a", "a" * 64, "a" * 65, "t#ephemeral", "a b", "\u00e9t\u00e9", "a\n", "\ud800", b"a", None]
)
def test_a_publication_is_written_or_refused_either_way(name: Any) -> None:
    body: Any
    for body in (b"octets", b"", bytearray(b"octets"), "text"):
        short = outcome(lambda b=body: nsq.Publish(topic=name, body=b))
        long_name = derived(name) if type(name) is str else name
        assert short == outcome(lambda b=body, n=long_name: nsq.Publish(topic=n, body=b))
        for defer in (0, 1, -1, 1 << 63):
            given = {"topic": name, "defer_time": defer, "body": body}
            assert outcome(lambda g=given: nsq.DeferredPublish(**g)) == outcome(
                lambda g=given, n=long_name: nsq.DeferredPublish(**g | {"topic": n})
            )
        if short[0] == "octets":
            assert fields(nsq.Publish(topic=name, body=body)) == fields(nsq.decode(short[1], side="client"))


# ---- RocketMQ


def headers() -> list[type]:
    return sorted(
        {
            cls
            for cls in vars(rocketmq).values()
            if isinstance(cls, type) and issubclass(cls, rocketmq.CommandCustomHeader) and cls.FIELDS
        },
        key=lambda cls: cls.__name__,
    )  # fmt: skip


OF_JAVA: dict[str, list[Any]] = {
    "int": [0, -1, 2**31 - 1, -(2**31), 2**31, "1", True],
    "long": [0, -1, 2**63 - 1, -(2**63), 2**63, None],
    "boolean": [True, False, 0, "x"],
    "string": ["", "text", 'q"\\\x01\x7f', "\u00e9t\u00e9\x85\u2028", "x" * 300, "\ud800", 1],
}


def command(header: Any, form: Any, **others: Any) -> rocketmq.RemotingCommand:
    return rocketmq.RemotingCommand(code=10, opaque=7, header=header, body=b"body", serialize_type=form, **others)


@pytest.mark.parametrize("cls", headers(), ids=lambda cls: cls.__name__)
def test_a_typed_header_is_written_or_refused_either_way(cls: Any) -> None:
    class Other(cls):
        """A derived class has no short way."""

        __slots__ = ()

    plain = {name: OF_JAVA[kind][1] for _, name, kind, _ in cls.FIELDS}
    tried = [plain, {}, plain | {"no_such_field": 1}]
    tried += [plain | {name: value} for _, name, kind, _ in cls.FIELDS for value in OF_JAVA[kind]]
    for given in tried:
        for form in ("JSON", "ROCKETMQ"):
            short = outcome(lambda g=given, f=form: command(cls(**g), f))
            assert short == outcome(lambda g=given, f=form: command(cls(**not_interned(g)), f))
            assert short == outcome(lambda g=given, f=form: command(cls.__new__(cls, **g), f))
            long = outcome(lambda g=given, f=form: command(Other(**g), f))
            assert short == (long[0], long[1].replace("Other", cls.__name__) if isinstance(long[1], str) else long[1])
            if short[0] == "octets":
                texts = cls(**given).ext_fields()
                assert dict(rocketmq.decode(checked(short[1], bytes)).ext_fields or {}) == {
                    wire: text or (None if form == "ROCKETMQ" else "") for wire, text in texts.items()
                }


@pytest.mark.parametrize("count", [0, 1, 12, 13, 24, 25, 32, 33, 100])
@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_fields_of_a_mapping_stand_in_the_order_of_java(count: int, form: Any) -> None:
    fields_ = {f"name{i * 7}": f"value {i}\x02" for i in range(count)}
    short = command(None, form, ext_fields=fields_)
    assert short.encode() == command(None, form, ext_fields=derived(fields_)).encode()
    assert rocketmq.decode(short.encode()).ext_fields == (fields_ or ({} if form == "JSON" else None))
    room = 16
    while count > room * 3 // 4:
        room *= 2
    places = [((h := rocketmq.hash_code(name) & 0xFFFFFFFF) ^ h >> 16) & (room - 1) for name in short.ext_fields or ()]
    assert places == sorted(places)


def test_a_header_and_a_mapping_together_are_one_map() -> None:
    kinds: list[Any] = list(headers())
    cls = next(cls for cls in kinds if cls.FAST)
    typed = cls(**{name: OF_JAVA[kind][1] for _, name, kind, _ in cls.FIELDS})
    for form in ("JSON", "ROCKETMQ"):
        both = command(typed, form, ext_fields={"extra": "1"})
        assert dict(both.ext_fields or {}) == typed.ext_fields() | {"extra": "1"}


# ---- keywords: a class keeps the order of its last call

ORDERED: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (mqtt.Publish, {"topic_name": "a/b", "payload": b"p", "qos": 1, "packet_identifier": 7, "version": 4}),
    (amqp10.Transfer, {"handle": 1, "delivery_id": 2, "delivery_tag": b"t", "settled": True, "payload": b""}),
    (amqp10.Properties, {"message_id": "m", "to": "/queues/q", "subject": "s", "group_sequence": 9}),
    (
        rocketmq.QueryMessageRequestHeader,
        {"topic": "t", "key": "k", "max_num": 3, "begin_timestamp": 4, "end_timestamp": 5},
    ),
]


@pytest.mark.parametrize(("cls", "keywords"), ORDERED, ids=[cls.__name__ for cls, _ in ORDERED])
def test_keywords_in_any_order(cls: Callable[..., Any], keywords: dict[str, Any]) -> None:
    whole = cls(**keywords)
    names = list(keywords)
    for turn in range(len(names)):
        turned = names[turn:] + names[:turn]
        calls = [
            eval(f"lambda c, k: c({', '.join(f'{n}=k[{n!r}]' for n in order)})") for order in (turned, turned[::-1])
        ]
        for call in calls * 2:  # one place in a program after another, then the same again
            assert call(cls, keywords) == whole
            with pytest.raises(TypeError):
                cls(**keywords, nothing=1)
            with pytest.raises(TypeError):
                cls(*keywords.values())
            assert cls(**not_interned(keywords)) == whole
    assert call(cls, keywords) == whole
