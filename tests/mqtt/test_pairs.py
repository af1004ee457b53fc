"""`mqtt.Properties`, which makes values when they are read, says what a tuple of the same pairs says."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.mqtt_strategies import properties
from wirefmt import mqtt
from wirefmt.errors import EncodeError

Pairs = tuple[tuple[str, Any], ...]
SHARED = not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled()


def read(pairs: Pairs) -> mqtt.Properties:
    """The properties of a packet that was decoded, of which nothing was read."""
    octets = mqtt.Publish(topic_name="t", properties=pairs).encode()
    found = mqtt.decode(octets, version=5)
    assert isinstance(found, mqtt.Publish)
    return found.properties


def both(pairs: Pairs) -> list[mqtt.Properties]:
    """Properties that were not read yet, that were read, and of no packet."""
    known = read(pairs)
    known[:]
    return [read(pairs), known, mqtt.Properties(pairs)]


@given(properties("Publish"))
def test_they_are_a_sequence_of_pairs(pairs: Pairs) -> None:
    for made in both(pairs):
        assert list(made) == list(pairs)
        assert (len(made), bool(made)) == (len(pairs), bool(pairs))
    for made in both(pairs):
        assert made == pairs and pairs == made and not made != pairs  # noqa: SIM202
        assert made != list(pairs) and made != (*pairs, ("content_type", "x"))
    for made in both(pairs):
        assert hash(made) == hash(pairs)
    for made in both(pairs):
        assert list(reversed(made)) == list(pairs[::-1])
        assert made[1:] == pairs[1:]
        assert [made[i] for i in range(-len(pairs), len(pairs))] == [*pairs, *pairs]
        with pytest.raises(IndexError):
            made[len(pairs)]
    for made in both(pairs):
        assert all(pair in made and made.index(pair) == pairs.index(pair) for pair in pairs)
        assert [made.count(pair) for pair in pairs] == [pairs.count(pair) for pair in pairs]
        assert ("content_type", 5) not in made
    for made in both(pairs):
        assert (*made, 1) == (*pairs, 1) and dict(made) == dict(pairs)
        match made:
            case [*found]:
                assert found == list(pairs)
            case _:
                pytest.fail("it is a sequence")
    assert isinstance(read(pairs), Sequence)


@given(properties("Publish"))
def test_values_are_found_by_name(pairs: Pairs) -> None:
    names = {name for name, _ in pairs} | {"content_type", "user_property", "receive_maximum", "no property"}
    for made in both(pairs):
        for name in names:
            values = tuple(value for key, value in pairs if key == name)
            assert made.get(name) == (values[0] if values else None)
            assert made.get("".join(list(name)), 7) == (values[0] if values else 7)  # a str that is not interned
            assert made.get_all(name) == values


def test_some_properties_do_not_equal_more() -> None:
    """Their octets begin alike."""
    few: Pairs = (("content_type", "x"), ("user_property", ("a", "b")))
    more = (*few, ("user_property", ("a", "c")))
    assert read(few) != read(more) and read(more) != read(few)
    assert read(few) == read(few) and read(more) == mqtt.Properties(more) and mqtt.Properties(more) != read(few)


def test_a_name_that_cannot_be_one() -> None:
    for made in both((("content_type", "x"),)):
        assert made.get(5) is None  # type: ignore[arg-type]
        assert made.get_all(None) == ()  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        read((("content_type", "x"),)).get([])  # type: ignore[arg-type]


@given(properties("Publish"))
def test_a_pair_that_was_kept_does_not_change(pairs: Pairs) -> None:
    """An iterator makes the next pair of the last one only if nobody else has it."""
    made = read(pairs)
    kept = []
    for pair in made:
        kept.append(pair)
    assert kept == list(pairs)
    first, second = iter(made), iter(made)
    assert [(a, b) for a, b in zip(first, second, strict=True)] == [(pair, pair) for pair in pairs]
    names = [name for name, _ in made]
    values = [value for _, value in made]
    assert list(zip(names, values, strict=True)) == list(pairs)
    again = iter(made)
    taken = [next(again) for _ in pairs]
    del again
    gc.collect()
    assert taken == list(pairs)


@given(st.lists(properties("Publish"), max_size=40))
def test_what_the_packet_before_had_does_not_matter(packets: list[Pairs]) -> None:
    octets = b"".join(mqtt.Publish(topic_name="t", properties=pairs).encode() for pairs in packets)
    assert [tuple(p.properties) for p in mqtt.Decoder(version=5).feed(octets)] == packets  # type: ignore[attr-defined]


@given(st.lists(st.tuples(st.sampled_from(["unit", "password", "passage", "x-token", ""]), st.text("ab")), max_size=60))
def test_secrets_are_those_of_their_own_name(entries: list[tuple[str, str]]) -> None:
    """Names and values of neighbouring packets are compared: a value is hidden if and only if its own name is secret."""
    for name, text in entries:
        for made in both((("user_property", (name, text)),)):
            ((_, (found, value)),) = made
            assert (found, value) == (name, text)
            assert (type(value) is str) == (name not in ("password", "x-token"))
            assert (text in repr(made) or not text) or name in ("password", "x-token")


def test_what_packets_repeat_is_one_object() -> None:
    octets = mqtt.Publish(topic_name="t", properties=[("user_property", ("origin", "bench"))]).encode()
    packets = mqtt.Decoder(version=5).feed(octets * 120)
    pairs = [pair for p in packets for pair in p.properties]  # type: ignore[attr-defined]
    assert len({id(pair) for pair in pairs[60:]}) == (1 if SHARED else 60)


def test_few_values_are_kept_of_packets_that_repeat_nothing() -> None:
    texts = [f"value {i}" for i in range(400)]
    octets = b"".join(mqtt.Publish(topic_name="t", properties=[("content_type", text)]).encode() for text in texts)
    packets = mqtt.Decoder(version=5).feed(octets)
    values = [value for p in packets for _, value in p.properties]  # type: ignore[attr-defined]
    alone = [f"{value}!" for value in values]
    extra = sum(sys.getrefcount(a) - sys.getrefcount(b) for a, b in zip(values, alone, strict=True))
    assert values == texts and extra <= 2


def test_copies_and_pickles() -> None:
    pairs = (("content_type", "text/plain"), ("user_property", ("password", "x")), ("correlation_data", b"1"))
    for made in both(pairs):
        assert copy.copy(made) is made is copy.deepcopy(made)
        again = pickle.loads(pickle.dumps(made))
        assert type(again) is mqtt.Properties and again == made
        assert repr(again) == repr(made)
    plain = read((("content_type", "text/plain"), ("subscription_identifier", 7)))
    assert eval(repr(plain), {"mqtt": mqtt}) == plain


def test_properties_of_a_packet_make_another_packet() -> None:
    pairs = (("user_property", ("a", "b")), ("reason_string", "é"), ("user_property", ("a", "c")))
    for made in [mqtt.decode(mqtt.Puback(packet_identifier=1, properties=pairs).encode(), version=5).properties]:  # type: ignore[attr-defined]
        assert mqtt.Pubrec(packet_identifier=2, properties=made) == mqtt.Pubrec(packet_identifier=2, properties=pairs)
        with pytest.raises(EncodeError, match="reason_string"):
            mqtt.Publish(topic_name="t", properties=made)
        with pytest.raises(EncodeError, match=r"only MQTT 5\.0 has"):
            mqtt.Puback(packet_identifier=1, properties=made, version=4)
    for made in both((("content_type", "x"), ("user_property", ("a", "b")))):
        published = mqtt.Publish(topic_name="t", payload=b"p", properties=made)
        assert published.encode() == mqtt.Publish(topic_name="t", payload=b"p", properties=tuple(made)).encode()
        will = mqtt.Will("t", b"p", properties=made)
        assert will.properties is made
        assert mqtt.decode(mqtt.Connect(will=will).encode()).will == will  # type: ignore[attr-defined]
    with pytest.raises(EncodeError, match="is not a property"):
        mqtt.Publish(topic_name="t", properties=mqtt.Properties([("no property", 1)]))
    assert mqtt.Publish(topic_name="t", properties=mqtt.Properties(), version=4).properties == ()


def test_what_only_lax_accepts_is_not_copied_to_another_packet() -> None:
    """A Subscription Identifier in two bytes where one does: a new packet has one."""
    octets = bytes.fromhex("3008000174030b810031")
    found = mqtt.decode(octets, version=5, strictness="lax")
    assert found.notes
    assert found.properties == (("subscription_identifier", 1),)  # type: ignore[attr-defined]
    made = mqtt.Publish(topic_name="t", payload=b"1", properties=found.properties)  # type: ignore[attr-defined]
    assert made.encode().hex() == "3007000174020b0131"


def test_empty_properties_of_every_version() -> None:
    for version in (3, 4, 5):
        made = mqtt.Publish(topic_name="t", version=version).properties
        assert made == ()
    assert (len(made), list(made), made.get("content_type")) == (0, [], None)


def test_they_are_read_only() -> None:
    made: Any = read((("content_type", "x"),))
    with pytest.raises(TypeError):
        made[0] = ("content_type", "y")
    with pytest.raises(AttributeError):
        made.pairs = ()
    with pytest.raises(TypeError):
        made.__init__(())


def test_secrets_of_packets_are_not_kept() -> None:
    """Whatever repeats is one object, except secrets: no table keeps them."""
    pairs = (
        ("user_property", ("password", "x" * 9)),
        ("authentication_data", b"y" * 9),
        ("authentication_method", "m"),
    )
    packets = mqtt.Decoder(version=5).feed(mqtt.Auth(reason_code=0x18, properties=pairs).encode() * 120)
    read = [dict(p.properties) for p in packets]  # type: ignore[attr-defined]
    assert len({id(p["user_property"]) for p in read}) == len({id(p["authentication_data"]) for p in read}) == 120
    assert len({id(p["user_property"][0]) for p in read[60:]}) == (1 if SHARED else 60)


def test_a_will_keeps_no_packet() -> None:
    """A server keeps it for as long as the session; the packet has the password."""
    will = mqtt.Will("t", b"p", properties=[("content_type", "x" * 60), ("user_property", ("a", "b"))])
    octets = mqtt.Connect(user_name="u", password=b"secret", will=will).encode()
    before = sys.getrefcount(octets)
    found: Any = mqtt.decode(octets)
    read = found.will
    del found
    assert read == will and read.properties.get("user_property") == ("a", "b")
    assert sys.getrefcount(octets) == before
