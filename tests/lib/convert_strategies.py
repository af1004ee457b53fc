"""Messages of the three protocols that are valid under STRICT, as conversions take them."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import strategies as st

from lib import amqp091_strategies, mqtt_strategies
from wirefmt import amqp10, mqtt
from wirefmt.convert import Wire
from wirefmt.errors import WireError

TEXT = st.text(max_size=12) | st.sampled_from(["", "\0", "é", "x" * 255, "x" * 256, "é" * 128, "#", "a+b", "amqp-1.0"])
ADDRESS = st.sampled_from(["/queues/", "/exchanges/amq.topic/", "/exchanges/ex/", "/exchange/amq.topic/", ""]).flatmap(
    lambda start: st.sampled_from(["q", "a.b", "%2a", "*.#", "%23", "%zz", "%00", "a b", "", "%C3%A9"]).map(
        start.__add__
    )
)
SYMBOLS = st.text(st.characters(max_codepoint=127), max_size=12).map(amqp10.Symbol)
ANNOTATIONS = st.sampled_from(
    ["x-a", "x-b", "x-cc", "x-basic-type", "x-basic-priority", "x-opt-deaths", "x-exchange", "x-", "x-opt-jms-reply-to"]
).map(amqp10.Symbol)
UUID_TEXT = st.uuids().map(lambda u: f"urn:uuid:{u}")
IDENTIFIERS = st.one_of(
    TEXT, UUID_TEXT, st.uuids(), st.binary(max_size=300), st.integers(0, 2**64 - 1).map(amqp10.ULong)
)


def whole(kind: Any, bits: int, signed: bool) -> st.SearchStrategy[Any]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return (st.integers(low, high) | st.sampled_from([low, high, 0, 1])).map(kind)


SCALARS = st.one_of(
    st.none(), st.booleans(), TEXT, SYMBOLS, st.uuids(), st.binary(max_size=20), st.floats(), UUID_TEXT,
    st.floats(width=32).map(amqp10.Float), st.characters(exclude_categories=["Cs"]).map(amqp10.Char),
    whole(amqp10.UByte, 8, False), whole(amqp10.UShort, 16, False), whole(amqp10.UInt, 32, False),
    whole(amqp10.ULong, 64, False), whole(amqp10.Byte, 8, True), whole(amqp10.Short, 16, True),
    whole(amqp10.Int, 32, True), whole(int, 64, True), whole(amqp10.Timestamp, 64, True),
    st.binary(min_size=4, max_size=4).map(amqp10.Decimal32), st.binary(min_size=8, max_size=8).map(amqp10.Decimal64),
    st.binary(min_size=16, max_size=16).map(amqp10.Decimal128),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(amqp10.List),
        st.dictionaries(TEXT | SYMBOLS | st.integers(0, 9), inner, max_size=3).map(amqp10.Map),
        # keys that are one name in a table of AMQP 0.9.1
        st.lists(
            st.tuples(st.sampled_from(["k", amqp10.Symbol("k"), b"k", 1]), inner),
            max_size=4,
            unique_by=lambda pair: (type(pair[0]), pair[0]),
        ).map(amqp10.Map),
        st.lists(TEXT, max_size=3).map(lambda items: amqp10.Array("string", items)),
        st.lists(st.integers(0, 2**32 - 1), max_size=3).map(lambda items: amqp10.Array("uint", items)),
    ),
    max_leaves=6,
)

HEADERS = st.builds(
    amqp10.Header,
    durable=st.none() | st.booleans(),
    priority=st.none() | st.integers(0, 255),
    ttl=st.none() | st.integers(0, 2**32 - 1),
    delivery_count=st.none() | st.integers(0, 3),
)
PROPERTIES = st.fixed_dictionaries({}, optional={
    "message_id": IDENTIFIERS, "correlation_id": IDENTIFIERS, "user_id": st.binary(max_size=300) | TEXT.map(str.encode),
    "to": TEXT, "subject": TEXT, "reply_to": TEXT | ADDRESS, "content_type": SYMBOLS, "content_encoding": SYMBOLS,
    "absolute_expiry_time": st.integers(-(2**63), 2**63 - 1), "creation_time": st.integers(-(2**63), 2**63 - 1),
    "group_id": TEXT, "group_sequence": st.integers(0, 2**32 - 1), "reply_to_group_id": TEXT,
}).map(lambda given: amqp10.Properties(**cast(dict[str, Any], given)))  # fmt: skip
BODIES = st.one_of(
    st.binary(max_size=30).map(amqp10.Data),
    st.lists(st.binary(max_size=10).map(amqp10.Data), min_size=2, max_size=3),
    VALUES.map(amqp10.AmqpValue),
    st.lists(st.lists(VALUES, max_size=2).map(amqp10.AmqpSequence), min_size=1, max_size=2),
)


@st.composite
def amqp10_messages(draw: st.DrawFn) -> Wire:
    annotations = draw(st.none() | st.dictionaries(ANNOTATIONS, VALUES, max_size=4))
    made = amqp10.Message(
        header=draw(st.none() | HEADERS),
        message_annotations=None if annotations is None else amqp10.Map(annotations),
        properties=draw(st.none() | PROPERTIES),
        application_properties=draw(st.none() | st.dictionaries(TEXT, SCALARS, max_size=4).map(amqp10.Map)),
        body=draw(BODIES),
        footer=draw(
            st.none() | st.dictionaries(SYMBOLS.map(lambda s: amqp10.Symbol("x-" + s)), SCALARS).map(amqp10.Map)
        ),
    )
    return Wire("amqp10", made.encode())


NAMES = st.sampled_from(
    ["x-a", "CC", "BCC", "x-reply-to-topic", "x-correlation-id", "x-amqp-1.0-properties", "k", "é", "", "x-é"]
)


@st.composite
def amqp091_messages(draw: st.DrawFn) -> Wire:
    """Properties, and now and then headers that conversions know."""
    made = draw(amqp091_strategies.properties())
    if draw(st.booleans()):
        known = draw(st.dictionaries(NAMES, amqp091_strategies.plain | TEXT | ADDRESS | UUID_TEXT, max_size=4))
        values = {name: getattr(made, name) for name in type(made).__match_args__}
        values["headers"] = known
        if draw(st.booleans()):
            values["expiration"] = draw(st.sampled_from(["0", "1000", "4294967296", "x", "-1", "18446744073709551615"]))
        made = type(made)(**values)
    return Wire("amqp091", made.encode(), draw(st.binary(max_size=30)))


@st.composite
def mqtt5_messages(draw: st.DrawFn) -> Wire:
    given = draw(mqtt_strategies.publishes(5))
    return Wire("mqtt5", mqtt.Publish(version=5, **given.values).encode())


def is_valid(wire: Wire) -> bool:
    """Under STRICT."""
    try:
        read(wire)
    except WireError:
        return False
    return True


def read(wire: Wire) -> Any:
    if wire.protocol == "amqp10":
        return amqp10.Message.decode(wire.octets, strictness="strict")
    if wire.protocol == "mqtt5":
        return mqtt.decode(wire.octets, version=5, strictness="strict")
    return wire.message()


MESSAGES = {"amqp10": amqp10_messages(), "amqp091": amqp091_messages(), "mqtt5": mqtt5_messages()}
