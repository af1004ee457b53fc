"""Every vector: valid ones decode to the values given and encode back, invalid ones are refused; four ways."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lib.amqp091_vectors import (
    Vector,
    built,
    built_method,
    built_properties,
    class_of,
    depth_of,
    field_table,
    load,
    method,
    properties,
    shown,
    table,
)
from lib.groups import each_vector
from wirefmt import amqp091
from wirefmt.errors import DecodeError, LimitExceeded, Truncated
from wirefmt.framing import NEED_DATA

#: Of a table, RabbitMQ reads any depth; we stop at 64 tables and arrays within the outermost.
NESTING_MAX = 64


def deep(vector: Vector) -> bool:
    return depth_of(vector) > NESTING_MAX


VALID = [v for v in load() if v.valid and not deep(v)]
INVALID = [v for v in load() if not v.valid or deep(v)]
SIGNALLING_NAN = bytes.fromhex("667f800001")
#: Octets that `decoded` does not tell: spare bits of bit octets, booleans other than 0 and 1.
LOST = {"reserved-bits-in-bit-octet", "bool-not-0-or-1"}


def test_there_are_vectors() -> None:
    assert len(load()) == 1023
    assert {v.kind for v in load()} == {"frame", "sequence", "method", "properties", "table"}


def same(ours: Any, theirs: Any) -> bool:
    """Equal, and -0.0 is not 0.0, True is not 1."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float):
        return ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)
    return bool(ours == theirs)


def expect(ours: Any, theirs: Any) -> None:
    assert same(ours, theirs), f"{ours}\nis not\n{theirs}"


def frames_of(vector: Vector, octets: bytes) -> list[amqp091.Frame]:
    decoder = amqp091.Decoder(**vector.options)
    out = decoder.feed(octets)
    decoder.close()
    return out


# ---- valid


@each_vector(VALID)
def test_values(vector: Vector) -> None:
    if SIGNALLING_NAN in vector.octets:
        assert amqp091.decode(vector.whole).encode() == vector.whole
        return  # it becomes a quiet one in Python's float; its octets stay
    if vector.kind == "sequence":
        expect([shown(m) for m in frames_of(vector, vector.whole)], vector.decoded)
        return
    message = amqp091.decode(vector.whole, **vector.options)
    assert message.encode() == vector.whole
    assert amqp091.encode(message) == vector.whole
    assert message.notes == ()
    if vector.decoded is None:
        assert depth_of(vector)
    elif vector.kind == "frame":
        expect(shown(message), vector.decoded)
    elif vector.kind == "method":
        assert isinstance(message, class_of(vector.decoded["method"]))
        expect(method(message), vector.decoded)
    elif vector.kind == "properties":
        expect(properties(message.properties), vector.decoded)
        assert message.properties == amqp091.BasicProperties.decode(vector.octets)
        assert message.properties.encode() == vector.octets
    else:
        expect(table(message.properties.headers), vector.decoded)
        assert message.properties.headers == amqp091.FieldTable.decode(vector.octets)
        assert message.properties.headers.encode() == vector.octets


@each_vector(v for v in VALID if v.rule not in LOST and v.decoded is not None)
def test_built_from_the_values(vector: Vector) -> None:
    """The same octets come from the values alone."""
    if SIGNALLING_NAN in vector.octets:
        return  # it becomes a quiet one in Python's float
    if vector.kind == "sequence":
        assert b"".join(built(fields).encode() for fields in vector.decoded) == vector.whole
    elif vector.kind == "frame":
        assert built(vector.decoded).encode() == vector.whole
    elif vector.kind == "method":
        made = built_method(vector.decoded, 0 if vector.decoded["method"].startswith("connection") else 1)
        assert made.encode() == vector.whole
        assert made == amqp091.decode(vector.whole)
        assert hash(made) == hash(amqp091.decode(vector.whole))
    elif vector.kind == "properties":
        assert built_properties(vector.decoded).encode() == vector.octets
    else:
        assert field_table(vector.decoded).encode() == vector.octets


@each_vector(VALID)
def test_octet_by_octet(vector: Vector) -> None:
    decoder = amqp091.Decoder(**vector.options)
    out: list[amqp091.Frame] = []
    for i in range(len(vector.whole)):
        out += decoder.feed(vector.whole[i : i + 1])
    decoder.close()
    assert out == frames_of(vector, vector.whole)
    assert decoder.pending == 0
    assert decoder.offset == len(vector.whole)
    if vector.kind != "sequence":
        size = len(vector.whole)
        known = 4 if vector.whole[:1] == b"A" else 7  # before AMQP is there in full, it may not be a header
        for n in range(min(size, 40)):
            told = amqp091.frame_size(vector.whole[:n], frame_max=vector.frame_max)
            assert told == (size if n >= known else NEED_DATA)


@each_vector(VALID)
def test_with_trailing_octets(vector: Vector) -> None:
    decoder = amqp091.Decoder(**vector.options)
    assert decoder.feed(vector.whole + b"\x01\x00") == frames_of(vector, vector.whole)
    assert decoder.pending == 2
    if vector.kind != "sequence":
        assert amqp091.frame_size(vector.whole + b"\xff", frame_max=vector.frame_max) == len(vector.whole)
        with pytest.raises(DecodeError):
            amqp091.decode(vector.whole + b"\xff", **vector.options)


@each_vector(VALID)
def test_over_two_blocks(vector: Vector) -> None:
    wanted = frames_of(vector, vector.whole)
    for at in sorted({1, 6, 7, 8, len(vector.whole) // 2, len(vector.whole) - 1}):
        decoder = amqp091.Decoder(**vector.options)
        assert decoder.feed(vector.whole[:at]) + decoder.feed(bytearray(vector.whole[at:])) == wanted


@each_vector(VALID)
def test_lax_is_strict_on_valid_octets(vector: Vector) -> None:
    decoder = amqp091.Decoder(**vector.options, strictness="lax")
    found = decoder.feed(vector.whole)
    assert found == frames_of(vector, vector.whole)
    assert all(m.notes == () for m in found)


@each_vector(v for v in VALID if v.kind == "sequence")
def test_contents_are_joined(vector: Vector) -> None:
    """What the Assembler gives holds every frame: methods, headers and bodies again, channel by channel."""

    def frames(message: Any) -> list[amqp091.Frame]:
        if not isinstance(message, amqp091.BasicMessage):
            return [message]
        return amqp091.Decoder(**vector.options).feed(message.encode())

    for step in (len(vector.whole), 1, 7, 1000):
        assembler = amqp091.Assembler(**vector.options)
        out: list[amqp091.Frame] = []
        for at in range(0, len(vector.whole), step):
            for message in assembler.feed(vector.whole[at : at + step]):
                out += frames(message)
        assembler.close()
        assert assembler.pending == 0
        by_channel = [[f for f in found if f.channel == channel]
                      for found in (out, frames_of(vector, vector.whole)) for channel in range(64)]  # fmt: skip
        assert by_channel[:64] == by_channel[64:]


# ---- invalid


def read_all(vector: Vector, step: int, **options: Any) -> None:
    """Through an Assembler where contents matter, else a Decoder; so many octets at a time."""
    kind = amqp091.Assembler if vector.kind == "sequence" else amqp091.Decoder
    decoder = kind(**vector.options, **options)
    for at in range(0, len(vector.whole), step):
        decoder.feed(vector.whole[at : at + step])
    decoder.close()


def refusal(vector: Vector, **options: Any) -> DecodeError:
    read: Callable[[], object] = partial(amqp091.decode, vector.whole, **vector.options, **options)
    if vector.kind == "sequence":
        read = partial(read_all, vector, len(vector.whole), **options)
    with pytest.raises(DecodeError) as caught:
        read()
    return caught.value


@each_vector(INVALID)
def test_refused(vector: Vector) -> None:
    error = refusal(vector)
    assert error.protocol == "amqp091"
    assert 0 <= error.offset <= len(vector.whole)
    assert error.reason
    assert error.spec
    if vector.incomplete and vector.rule != "garbage-after-frame":
        assert isinstance(error, (Truncated, LimitExceeded))
    if deep(vector):
        assert isinstance(error, LimitExceeded)
        assert error.path == "properties.headers[0]"


@each_vector(v for v in INVALID if v.incomplete and v.kind == "frame")
def test_a_stream_waits_for_the_rest(vector: Vector) -> None:
    decoder = amqp091.Decoder(**vector.options)
    assert decoder.feed(vector.whole) == []
    assert decoder.pending == len(vector.whole)
    with pytest.raises(Truncated):
        decoder.close()


@each_vector(v for v in INVALID if not v.incomplete and v.kind == "frame")
def test_refused_octet_by_octet(vector: Vector) -> None:
    """The same error, however the octets come."""
    error = refusal(vector)
    with pytest.raises(DecodeError) as caught:
        read_all(vector, 1)
    if error.reason != "bytes after the frame" and not isinstance(error, Truncated):
        assert (caught.value.reason, caught.value.path, caught.value.offset) == (error.reason, error.path, error.offset)


@each_vector(v for v in INVALID if v.kind == "properties" and v.octets)
def test_properties_alone_are_refused(vector: Vector) -> None:
    with pytest.raises(DecodeError):
        amqp091.BasicProperties.decode(vector.octets)


@each_vector(v for v in INVALID if v.kind == "table")
def test_tables_alone_are_refused(vector: Vector) -> None:
    with pytest.raises(DecodeError):
        amqp091.FieldTable.decode(vector.octets)
