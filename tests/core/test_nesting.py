"""Values within values: 64 levels are read and 65 are not, whatever they are made of, from octets and from objects."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from wirefmt import amqp091, amqp10, rocketmq
from wirefmt.errors import DecodeError, EncodeError, LimitExceeded

LEVELS = 64


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


def table091(letters: str) -> bytes:
    """A table with nested entries of these letters, of F and A."""
    octets, inner = b"", ""
    for letter in reversed(letters):
        held = {"": b"", "F": inner.encode() + octets, "A": inner.encode() + octets}[inner]
        octets = sized((b"\1k" if letter == "F" else b"") + held if inner else b"")
        inner = letter
    return sized(b"\1t" + inner.encode() + octets)


def object091(letters: str) -> Any:
    value: Any = None
    for letter in reversed(letters):
        held = () if value is None else (value,)
        value = amqp091.FieldTable([("k", v) for v in held]) if letter == "F" else list(held)
    return value


SHAPES091 = ("F", "A", "FA", "AF", "FFA", "AAF")


def cycle(shape: str, count: int) -> str:
    return "".join(itertools.islice(itertools.cycle(shape), count))


@pytest.mark.parametrize("shape", SHAPES091)
def test_tables_and_arrays(shape: str) -> None:
    """RabbitMQ reads any depth; 64 is our limit for what lies in a table."""
    for count in (1, 2, LEVELS - 1, LEVELS):
        found = amqp091.FieldTable.decode(table091(cycle(shape, count)))
        assert repr(found).count("FieldTable") + repr(found).count("FieldArray") == count + 1
        assert amqp091.FieldTable([("t", object091(cycle(shape, count)))]).encode() == found.encode()
    for count in (LEVELS + 1, LEVELS + 2, 2 * LEVELS, 5000):
        with pytest.raises(LimitExceeded):
            amqp091.FieldTable.decode(table091(cycle(shape, count)))
    with pytest.raises(EncodeError):
        amqp091.FieldTable([("t", list_of(cycle(shape, LEVELS + 1)))])


def list_of(letters: str) -> Any:
    """As object091, of Python's own values: nothing is checked before the whole is written."""
    value: Any = None
    for letter in reversed(letters):
        held = () if value is None else (value,)
        value = dict.fromkeys("k", *held) if letter == "F" else list(held)
    return value


def value10(kinds: str) -> bytes:
    """Nested values: l a list, m a map's value, k its key, d described, i a descriptor, a an array."""
    octets = b"\x40"
    for kind in reversed(kinds):
        if kind == "l":
            octets = b"\xd0" + sized(b"\0\0\0\1" + octets)
        elif kind == "m":
            octets = b"\xd1" + sized(b"\0\0\0\2\x40" + octets)
        elif kind == "k":
            octets = b"\xd1" + sized(b"\0\0\0\2" + octets + b"\x40")
        elif kind == "d":
            octets = b"\0\x53\1" + octets
        elif kind == "i":
            octets = b"\0" + octets + b"\x40"
        else:  # of one element: its constructor, then its content
            octets = b"\xf0" + sized(b"\0\0\0\1" + octets)
    return octets


@pytest.mark.parametrize("shape", ["l", "m", "k", "d", "i", "a", "la", "al", "ma", "da", "lmda", "kia"])
def test_lists_maps_arrays_and_described_values(shape: str) -> None:
    for count in (1, 2, LEVELS - 1, LEVELS):
        value = amqp10.decode_value(value10(cycle(shape, count)))
        assert amqp10.encode_value(value) == value10(cycle(shape, count))
    for count in (LEVELS + 1, LEVELS + 2, 2 * LEVELS, 5000):
        with pytest.raises(LimitExceeded):
            amqp10.decode_value(value10(cycle(shape, count)))


def test_lists_and_maps_that_are_written() -> None:
    for make in (lambda v: [v], lambda v: {"k": v}, lambda v: amqp10.Described(amqp10.ULong(1), v)):
        value: Any = None
        depth = 0
        while depth < 200:
            try:
                value = make(value)
                octets = amqp10.encode_value(value)
            except EncodeError:
                break
            depth += 1
            assert amqp10.decode_value(octets) is not None
        assert depth == LEVELS


def within_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("shape", ["A", "F", "AF"])
def test_no_depth_exhausts_the_stack_of_a_writer(shape: str) -> None:
    """Levels are counted as they are written, not when what was written is read back."""
    deep = list_of(cycle(shape, 200_000))
    with pytest.raises(EncodeError, match="deeper than 64"):
        amqp091.FieldTable([("t", deep)])
    with pytest.raises(EncodeError, match="deeper than 64"):
        amqp10.encode_value(deep)
    for write in (lambda v: amqp091.FieldTable([("t", v)]), amqp10.encode_value):
        with pytest.raises(EncodeError, match="deeper than 64"):
            write(within_itself())


def test_json_of_rocketmq() -> None:
    """Whatever the limit is, it holds for objects and arrays, and for both nested."""
    depths = set()
    for shape in (("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")):
        depth = 1
        while depth < 5000:
            try:
                rocketmq.decode_json((shape[0] * depth + "1" + shape[1] * depth).encode())
            except DecodeError:
                break
            depth += 1
        depths.add(depth * (2 if len(shape[1]) == 2 else 1))
    assert max(depths) - min(depths) <= 1
    assert max(depths) < 5000
