"""What holds for any message: encoding and decoding undo each other, however a stream is cut; any octets give frames or a
DecodeError; columns say what objects say."""

from __future__ import annotations

import copy
import itertools
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib import amqp091_strategies as a
from wirefmt import amqp091
from wirefmt.errors import DecodeError

#: A loaded machine is not a failure.
SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)


@settings(SLOW)
@given(a.frames)
def test_decode_undoes_encode(frame: amqp091.Frame) -> None:
    octets = frame.encode()
    again = amqp091.decode(octets, frame_max=0)
    assert again == frame
    assert hash(again) == hash(frame)
    assert again.encode() == octets
    assert type(again) is type(frame)
    assert amqp091.frame_size(octets, frame_max=0) == len(octets)


@settings(SLOW)
@given(a.frames)
def test_a_frame_is_its_values(frame: amqp091.Frame) -> None:
    """Built again from its own attributes."""
    kind: Any = type(frame)
    fields = {name: getattr(frame, name) for name in kind.__match_args__}
    assert kind(**fields).encode() == frame.encode()


@settings(SLOW)
@given(a.frames | a.messages())
def test_pickle_copy_detach(message: Any) -> None:
    assert pickle.loads(pickle.dumps(message)) == message
    assert copy.copy(message) is message
    assert copy.deepcopy(message) is message
    assert message.detach() == message


@settings(SLOW)
@given(a.frames | a.messages())
def test_repr_is_an_expression(message: Any) -> None:
    shown = repr(message)
    if "... " in shown or "b'***'" in shown:
        return  # a long body is cut, secrets are hidden
    made = eval(shown, {"amqp091": amqp091, "inf": float("inf"), "nan": float("nan"), "Decimal": Decimal})
    assert made == message
    assert made.encode()[:1] == message.encode()[:1]


@settings(SLOW)
@given(a.tables)
def test_tables(table: amqp091.FieldTable) -> None:
    octets = table.encode()
    assert amqp091.FieldTable.decode(octets) == table
    assert amqp091.FieldTable(table) == table
    entries = table.entries
    assert [(n, v) for n, _, v in entries] == list(table.pairs)
    # the types and values alone make the same octets
    again = amqp091.FieldTable([(name, amqp091.FieldValue(letter, value)) for name, letter, value in entries])
    assert again.encode() == octets
    assert pickle.loads(pickle.dumps(table)) == table
    names = [name for name, _ in table.pairs]
    assert len(table) == len(set(names))
    assert list(table) == list(dict.fromkeys(names))
    for name in set(names):
        assert table[name] == table.pairs[names.index(name)][1]
        assert name in table
    if "***" not in repr(table):  # some name is that of a secret
        made = eval(repr(table), {"amqp091": amqp091, "inf": float("inf"), "Decimal": Decimal})
        assert made == table


@settings(SLOW)
@given(a.plain_tables)
def test_plain_values_stay_what_they_are(values: dict[str, Any]) -> None:
    table = amqp091.FieldTable(values)
    assert table == values
    assert dict(table) == values
    assert table.get("no such name") is None


@settings(SLOW)
@given(a.properties())
def test_properties(properties: amqp091.BasicProperties) -> None:
    assert amqp091.BasicProperties.decode(properties.encode()) == properties
    given_ = {name: getattr(properties, name) for name in type(properties).__match_args__}
    again = amqp091.BasicProperties(**given_)
    assert again == properties
    assert again.encode() == properties.encode()
    assert hash(again) == hash(properties)
    assert pickle.loads(pickle.dumps(properties)) == properties


@settings(SLOW)
@given(a.streams(), st.lists(st.integers(1, 100), min_size=1, max_size=8))
def test_streams_however_they_are_cut(stream: tuple[list[Any], bytes], steps: list[int]) -> None:
    complete, octets = stream
    assembler = amqp091.Assembler()
    out: list[Any] = []
    at = 0
    for step in itertools.cycle(steps):
        out += assembler.feed(octets[at : at + step])
        at += step
        if at >= len(octets):
            break
    assembler.close()
    assert out == complete
    assert [m.encode() for m in out] == [m.encode() for m in complete]
    assert assembler.pending == 0


@settings(SLOW)
@given(a.messages(), st.integers(9, 200))
def test_messages_are_cut_as_frame_max_asks(message: amqp091.BasicMessage, frame_max: int) -> None:
    octets = message.encode(frame_max=frame_max)
    frames = amqp091.Decoder().feed(octets)
    assert all(len(f.encode()) <= frame_max for f in frames if isinstance(f, amqp091.Body))
    (again,) = amqp091.Assembler().feed(octets)
    assert again == message
    assert hash(again) == hash(message)
    assert b"".join(f.payload_bytes() for f in frames if isinstance(f, amqp091.Body)) == message.body_bytes()


@settings(SLOW)
@given(st.binary(max_size=200))
def test_any_octets(octets: bytes) -> None:
    options: Any
    for options in ({}, {"strictness": "lax"}):
        for kind in (amqp091.Decoder, amqp091.Assembler):
            decoder = kind(**options)
            try:
                decoder.feed(octets)
                decoder.close()
            except DecodeError as error:
                assert 0 <= error.offset <= len(octets)
                with pytest.raises(DecodeError):
                    decoder.feed(b"")


@settings(SLOW)
@given(a.frames, st.data())
def test_damaged_frames(frame: amqp091.Frame, data: st.DataObject) -> None:
    """One octet changed, or some left out: a frame or a DecodeError; what STRICT reads, LAX reads the same."""
    octets = bytearray(frame.encode())
    at = data.draw(st.integers(0, len(octets) - 1))
    if data.draw(st.booleans()):
        octets[at] = data.draw(st.integers(0, 255))
    else:
        del octets[at : at + data.draw(st.integers(1, 4))]
    try:
        strict = amqp091.decode(octets)
    except DecodeError:
        strict = None
    try:
        lax = amqp091.decode(octets, strictness="lax")
    except DecodeError:
        assert strict is None
        return
    repr(lax), hash(lax), lax.notes
    if strict is not None:
        assert strict == lax
        assert strict.encode() == octets


# ---- columns


def in_a_column(value: Any) -> Any:
    """Octets that are not text, and text with U+0000, are shown in hexadecimal."""
    return value.encode().hex() if isinstance(value, str) and "\0" in value else value


@settings(SLOW)
@given(a.streams())
def test_columns_say_what_objects_say(stream: tuple[list[Any], bytes]) -> None:
    complete, octets = stream
    batch = amqp091.decode_batch(octets)
    assert batch.num_rows == len(complete)
    assert batch.rest == 0
    for row, message in enumerate(complete):
        method = getattr(message, "method", message)
        assert not batch.validity("error")[row]
        assert batch["kind"][row] == getattr(method, "name", "heartbeat")
        assert batch["channel"][row] == message.channel
        assert batch["wire_size"][row] == len(message.encode())
        for name in ("exchange", "routing_key", "queue", "consumer_tag", "reply_code", "redelivered"):
            if hasattr(method, name):
                assert batch["code" if name == "reply_code" else name][row] == in_a_column(getattr(method, name))
        if isinstance(message, amqp091.BasicMessage):
            assert batch["payload"][row] == message.body_bytes()
            assert batch["body_size"][row] == len(message.body_bytes())
            assert bool(batch.validity("headers")[row]) == (message.properties.headers is not None)
            for name in ("content_type", "message_id", "reply_to", "type", "delivery_mode", "priority"):
                value = getattr(message.properties, name)
                assert bool(batch.validity(name)[row]) == (value is not None)
                if value is not None:
                    assert batch[name][row] == in_a_column(value)
