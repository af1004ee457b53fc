"""items() of a section's map says what the items() of a dict of its entries say, and makes no dict."""

from __future__ import annotations

import sys
from collections.abc import ItemsView
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.kinds import checked
from wirefmt import amqp10

NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=6)
VALUES = st.one_of(
    st.text("abc", max_size=60),
    st.integers(-300, 300),
    st.booleans(),
    st.none(),
    st.binary(max_size=4),
    st.floats(allow_nan=False),
)
ENTRIES = st.dictionaries(NAMES, VALUES, max_size=20)


def read(entries: dict[Any, Any], section: str = "application_properties") -> amqp10.Map:
    octets = amqp10.Message(body=b"", **{section: entries}).encode()  # type: ignore[arg-type]
    found: amqp10.Map = getattr(amqp10.decode_message(octets), section)
    return found


@given(ENTRIES)
def test_they_are_those_of_a_dict(entries: dict[str, Any]) -> None:
    expected = entries.items()
    assert list(read(entries).items()) == list(expected)
    assert len(read(entries).items()) == len(expected)
    for of in (read(entries), m := read(entries)):
        if of is m:
            assert dict(m) == entries  # makes its dict
        items = of.items()
        assert isinstance(items, ItemsView)
        assert list(items) == list(expected) == list(of.items()) == list(of.pairs)
        assert list(reversed(items)) == list(reversed(expected))  # type: ignore[call-overload]
        assert all(pair in items for pair in expected) and ("no such name", 1) not in items
        assert items == expected and expected == items and items == of.items()
        assert not items != expected  # noqa: SIM202
        assert items <= expected and expected >= items and items.isdisjoint({("other", 1)})


def test_sets_of_items() -> None:
    a, b = {"a": 1, "b": 2}, {"b": 2, "c": 3}
    for left, right in ((read(a).items(), b.items()), (a.items(), read(b).items()), (read(a).items(), read(b).items())):
        assert left & right == {("b", 2)}
        assert left | right == {("a", 1), ("b", 2), ("c", 3)}
        assert left - right == {("a", 1)}
        assert left ^ right == {("a", 1), ("c", 3)}
        assert left != right and not left < right
    with pytest.raises(TypeError):
        hash(read(a).items())
    assert repr(read(a).items()) == "amqp10.Map.items(amqp10.Map({'a': 1, 'b': 2}))"


@given(ENTRIES)
def test_a_pair_that_was_kept_does_not_change(entries: dict[str, Any]) -> None:
    items = read(entries).items()
    kept = []
    for pair in items:
        kept.append(pair)
    assert kept == list(entries.items())
    assert list(zip(items, items, strict=True)) == [(pair, pair) for pair in entries.items()]
    assert {k: v for k, v in items} == entries  # noqa: C416


def test_keys_of_annotations_are_symbols() -> None:
    annotations = {"x-opt-a": 1, "x-opt-b": "text"}
    for section in ("message_annotations", "delivery_annotations", "footer"):
        found = read(annotations, section)
        assert list(found.items()) == list(annotations.items())
        assert {type(key) for key, _ in found.items()} == {amqp10.Symbol}
    numbered = {amqp10.ULong(1): "a", "b": 2}
    assert list(read(numbered, "footer").items()) == list(numbered.items())


def test_the_last_of_equal_keys_counts() -> None:
    """LAX accepts them."""
    section = bytes.fromhex("005374c10d04a10161a10131a10161a10132")
    octets = section + amqp10.Message(body=b"").encode()
    found = amqp10.decode_message(octets, strictness="lax").application_properties
    assert found is not None
    assert list(found.items()) == [("a", "2")]
    assert found.pairs == (("a", "1"), ("a", "2"))


@given(
    st.lists(
        st.tuples(st.sampled_from(["unit", "password", "passage", "x-token", "", "k" * 60]), st.text("ab")), max_size=60
    )
)
def test_secrets_are_those_of_their_own_name(entries: list[tuple[str, str]]) -> None:
    """Keys of neighbouring messages are compared: a value is hidden if and only if its own key is secret."""
    for name, text in entries:
        for found in (dict(read({name: text}).items()), dict(read({name: text})), dict(read({name: text}).pairs)):
            assert found == {name: text}
            assert (type(found[name]) is str) == (name not in ("password", "x-token"))


@given(
    st.lists(st.tuples(ENTRIES, st.text("ab", max_size=50), st.text("ab", max_size=3), st.integers(0, 2)), max_size=40)
)
def test_what_the_message_before_had_does_not_matter(messages: list[tuple[dict[str, Any], str, str, int]]) -> None:
    """Fields, keys and the header are compared with those of the message before."""
    made = [
        amqp10.Message(
            header=amqp10.Header(durable=True, priority=n, ttl=n) if n else None,
            properties=amqp10.Properties(to=to, content_type=kind or None, user_id=to.encode()),
            application_properties=entries,
            body=b"",
        )
        for entries, to, kind, n in messages
    ]
    for message, (entries, to, kind, n) in zip(
        [amqp10.decode_message(m.encode()) for m in made], messages, strict=True
    ):
        properties = message.properties
        assert properties is not None and message.application_properties is not None
        assert (properties.to, properties.content_type, properties.user_id) == (to, kind or None, to.encode())
        assert properties.content_type is None or type(properties.content_type) is amqp10.Symbol
        assert dict(message.application_properties.items()) == entries
        assert message.header == (amqp10.Header(durable=True, priority=n, ttl=n) if n else None)


def test_a_header_that_messages_share_keeps_no_message() -> None:
    header = amqp10.Header(durable=True, priority=9)
    octets = amqp10.Message(header=header, body=bytes(1000)).encode()
    blocks = [bytes(bytearray(octets)) for _ in range(120)]
    before = [sys.getrefcount(block) for block in blocks[60:]]
    headers = [amqp10.decode_message(block).header for block in blocks]
    assert all(found == header and found.encode() == header.encode() for found in headers if found)
    if not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled():
        assert len({id(found) for found in headers[60:]}) == 1
        assert [sys.getrefcount(block) for block in blocks[60:]] == before


def test_secret_fields_are_not_kept() -> None:
    """Fields that repeat are one object, except secrets: no table keeps them."""
    octets = amqp10.SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0guest", hostname="host").encode()
    frames = [checked(amqp10.decode(octets), amqp10.SaslInit) for _ in range(120)]
    assert len({id(f.initial_response) for f in frames}) == 120
    if not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled():
        assert len({id(f.hostname) for f in frames[60:]}) == 1


def test_what_messages_repeat_is_one_object() -> None:
    """Fields of text and of bytes, at the same place of each message."""
    properties = amqp10.Properties(user_id=b"guest", to="/queues/q", subject="s" * 40, content_type="text/plain")
    octets = amqp10.Message(properties=properties, body=b"").encode()
    found = [amqp10.decode_message(octets).properties for _ in range(120)]
    if not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled():
        for name in ("user_id", "to", "subject", "content_type"):
            assert len({id(getattr(p, name)) for p in found[60:]}) == 1, name
