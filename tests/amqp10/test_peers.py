"""AMQP 1.0 values and messages against python-qpid-proton, both ways, over random values."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wirefmt import amqp10

proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TEXT = st.text(max_size=20)
SYMBOL = st.text(alphabet=st.characters(max_codepoint=127), max_size=20)
#: A float of 32 bits survives only if it is one.
FLOAT = st.floats(width=32, allow_nan=False)


def ours_and_theirs(strategy: st.SearchStrategy[Any], ours: Any, theirs: Any) -> st.SearchStrategy[tuple[Any, Any]]:
    return strategy.map(lambda value: (ours(value), theirs(value)))


def same(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    return strategy.map(lambda value: (value, value))


SIGNED = {"Byte": ("byte", 7), "Short": ("short", 15), "Int": ("int32", 31)}
UNSIGNED = {"UByte": ("ubyte", 8), "UShort": ("ushort", 16), "UInt": ("uint", 32), "ULong": ("ulong", 64)}

SCALARS = st.one_of(
    same(st.none()),
    same(st.booleans()),
    same(st.integers(-(2**63), 2**63 - 1)),
    same(st.floats(allow_nan=False)),
    same(TEXT),
    same(st.binary(max_size=20)),
    same(st.uuids()),
    *(
        ours_and_theirs(st.integers(-(2**bits), 2**bits - 1), getattr(amqp10, name), getattr(proton, theirs))
        for name, (theirs, bits) in SIGNED.items()
    ),
    *(
        ours_and_theirs(st.integers(0, 2**bits - 1), getattr(amqp10, name), getattr(proton, theirs))
        for name, (theirs, bits) in UNSIGNED.items()
    ),
    ours_and_theirs(st.integers(-(2**63), 2**63 - 1), amqp10.Timestamp, proton.timestamp),
    ours_and_theirs(SYMBOL, amqp10.Symbol, proton.symbol),
    ours_and_theirs(FLOAT, amqp10.Float, proton.float32),
    ours_and_theirs(st.characters(exclude_categories=["Cs"]), amqp10.Char, proton.char),
    ours_and_theirs(st.binary(min_size=8, max_size=8), amqp10.Decimal64, lambda b: proton.decimal64(int.from_bytes(b))),
    ours_and_theirs(st.binary(min_size=4, max_size=4), amqp10.Decimal32, lambda b: proton.decimal32(int.from_bytes(b))),
    ours_and_theirs(st.binary(min_size=16, max_size=16), amqp10.Decimal128, proton.decimal128),
)


def lists(pairs: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    return [a for a, _ in pairs], [b for _, b in pairs]


def maps(pairs: dict[str, tuple[Any, Any]]) -> tuple[Any, Any]:
    return {k: a for k, (a, _) in pairs.items()}, {k: b for k, (_, b) in pairs.items()}


def described(parts: tuple[int, tuple[Any, Any]]) -> tuple[Any, Any]:
    code, (a, b) = parts
    # above the composite types, which have classes of their own here
    return amqp10.Described(amqp10.ULong(code), a), proton.Described(proton.ulong(code), b)


#: Of scalars: proton loses its way in a described value that describes one.
DESCRIBED = st.tuples(st.integers(1000, 2**64 - 1), SCALARS).map(described)
VALUES = st.recursive(
    st.one_of(SCALARS, DESCRIBED),
    lambda values: st.one_of(
        st.lists(values, max_size=5).map(lists), st.dictionaries(TEXT, values, max_size=5).map(maps)
    ),
    max_leaves=12,
)


def plain(value: Any) -> Any:
    """Both sides' values as one form: (name of the type, value), for both have classes for types."""
    if isinstance(value, amqp10.Described | proton.Described):
        return ("described", plain(value.descriptor), plain(value.value))
    if isinstance(value, amqp10.Map | dict):
        return ("map", [(plain(k), plain(v)) for k, v in value.items()])
    if isinstance(value, amqp10.Array | proton.Array):
        elements = list(value) if isinstance(value, amqp10.Array) else value.elements
        return ("array", [plain(item) for item in elements])
    if isinstance(value, amqp10.List | list | tuple):
        return ("list", [plain(item) for item in value])
    name = type(value).__name__.lower().removesuffix("32").replace("float", "float32")
    if isinstance(value, float):
        return (name, struct.pack(">d", value))
    if isinstance(value, memoryview | bytes) and "decimal" not in name:
        return ("bytes", bytes(value))
    if "decimal" in name:
        width = {"decimal": 4, "decimal64": 8, "decimal128": 16}[name]
        return (name, int(value).to_bytes(width) if isinstance(value, int) else bytes(value))
    return (name, value if isinstance(value, bool | UUID) or value is None else type(value).__mro__[-2](value))


def their_octets(value: Any) -> bytes:
    data = proton.Data()
    data.put_object(value)
    octets: bytes = data.encode()
    return octets


def their_value(octets: bytes) -> Any:
    """What proton reads, in plain form: its binaries point into the Data, which must be alive."""
    data = proton.Data()
    assert data.decode(octets) == len(octets)
    data.rewind()
    data.next()
    return plain(data.get_object())


@SETTINGS
@given(VALUES)
def test_they_read_what_we_write(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    assert their_value(amqp10.encode_value(ours)) == plain(theirs)


@SETTINGS
@given(VALUES)
def test_we_read_what_they_write(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    octets = their_octets(theirs)
    value = amqp10.decode_value(octets)
    assert plain(value) == plain(ours)
    assert amqp10.decode_value(amqp10.encode_value(ours)) == value
    if isinstance(value, amqp10.Value):
        assert value.encode() == octets


ARRAYS = st.one_of(
    *(
        st.lists(st.integers(*bounds), min_size=1, max_size=8).map(lambda v, n=name, c=code: (n, v, c))  # type: ignore[misc]
        for name, bounds, code in (
            ("ubyte", (0, 255), proton.Data.UBYTE),
            ("ushort", (0, 65535), proton.Data.USHORT),
            ("uint", (0, 2**32 - 1), proton.Data.UINT),
            ("ulong", (0, 2**64 - 1), proton.Data.ULONG),
            ("byte", (-128, 127), proton.Data.BYTE),
            ("short", (-(2**15), 2**15 - 1), proton.Data.SHORT),
            ("int", (-(2**31), 2**31 - 1), proton.Data.INT),
            ("long", (-(2**63), 2**63 - 1), proton.Data.LONG),
        )
    ),
    st.lists(SYMBOL, min_size=1, max_size=8).map(lambda v: ("symbol", v, proton.Data.SYMBOL)),
    st.lists(TEXT, min_size=1, max_size=8).map(lambda v: ("string", v, proton.Data.STRING)),
    st.lists(st.booleans(), min_size=1, max_size=8).map(lambda v: ("boolean", v, proton.Data.BOOL)),
)


#: Without its own class proton takes every int for a long.
THEIRS = {name.lower(): getattr(proton, theirs) for name, (theirs, _) in (SIGNED | UNSIGNED).items()} | {
    "symbol": proton.symbol
}


@SETTINGS
@given(ARRAYS)
def test_arrays_both_ways(case: tuple[str, list[Any], int]) -> None:
    name, values, code = case
    ours = amqp10.Array(name, values)
    theirs = proton.Array(proton.UNDESCRIBED, code, *map(THEIRS.get(name, lambda v: v), values))
    assert their_value(ours.encode()) == plain(ours)
    back = amqp10.decode_value(their_octets(theirs))
    assert back == ours
    assert back.type == name
    assert list(back) == values


#: Types that application properties and annotations may have.
SIMPLE = SCALARS.filter(lambda pair: not isinstance(pair[0], amqp10.Decimal32 | amqp10.Decimal64 | amqp10.Decimal128))
IDENTIFIERS = st.one_of(
    same(st.none()),
    same(TEXT),
    same(st.uuids()),
    same(st.binary(max_size=9)),
    ours_and_theirs(st.integers(0, 2**64 - 1), amqp10.ULong, proton.ulong),
)
#: proton says "" and None for one another, and its addresses and subjects end at U+0000
NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


@st.composite
def messages(draw: st.DrawFn) -> tuple[amqp10.Message, Any]:
    identifier, their_identifier = draw(IDENTIFIERS)
    properties, their_properties = maps(draw(st.dictionaries(TEXT, SIMPLE, max_size=6)))
    annotations, their_annotations = maps(draw(st.dictionaries(NAME.filter(str.isascii), SIMPLE, max_size=3)))
    subject, to, durable, priority = draw(NAME), draw(NAME), draw(st.booleans()), draw(st.integers(0, 255))
    body, their_body = draw(st.one_of(st.binary(max_size=300).map(lambda b: (b, b)), VALUES))
    ours = amqp10.Message(
        header=amqp10.Header(durable=durable, priority=priority),
        message_annotations=annotations or None,
        properties=amqp10.Properties(message_id=identifier, to=to, subject=subject, user_id=b"me"),
        application_properties=properties or None,
        body=amqp10.Data(body) if type(body) is bytes else amqp10.AmqpValue(body),
    )
    theirs = proton.Message(body=their_body, id=their_identifier, address=to, subject=subject, user_id=b"me")
    theirs.durable, theirs.priority, theirs.properties = durable, priority, their_properties
    theirs.annotations = {proton.symbol(k): v for k, v in their_annotations.items()}
    theirs.inferred = type(their_body) is bytes
    return ours, theirs


@SETTINGS
@given(messages())
def test_they_read_our_messages(pair: tuple[amqp10.Message, Any]) -> None:
    ours, theirs = pair
    read = proton.Message()
    read.decode(ours.encode())
    for name in ("durable", "priority", "id", "address", "subject", "user_id"):
        assert getattr(read, name) == getattr(theirs, name)
    assert plain(read.properties or {}) == plain(theirs.properties or {})
    assert plain(read.annotations or {}) == plain(theirs.annotations or {})
    assert plain(read.body) == plain(theirs.body)


@SETTINGS
@given(messages())
def test_we_read_their_messages(pair: tuple[amqp10.Message, Any]) -> None:
    ours, theirs = pair
    # without a body proton writes none: only LAX reads that
    read = amqp10.decode_message(theirs.encode(), strictness="lax" if theirs.body is None else "strict")
    assert read.properties is not None
    assert read.header is not None
    assert ours.header is not None
    assert read.properties == ours.properties
    assert (read.header.durable or False, read.header.priority) == (
        ours.header.durable,
        None if ours.header.priority == 4 else ours.header.priority,
    )
    # it writes empty sections
    assert (read.application_properties or None) == ours.application_properties
    assert (read.message_annotations or None) == ours.message_annotations
    if theirs.body is None:
        assert [n.check for n in read.notes] in ([], ["BODY_MISSING"])
    else:
        assert read.body == ours.body
