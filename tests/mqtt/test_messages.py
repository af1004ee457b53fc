"""MQTT packets as Python objects: values, errors, the Decoder, limits, and the tables against a second source."""

from __future__ import annotations

import array
import copy
import mmap
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy
import pytest

from lib.groups import each_vector
from lib.kinds import checked, exactly
from lib.mqtt_vectors import Vector, load
from lib.paths import ROOT
from wirefmt import NEED_DATA, Limits, mqtt
from wirefmt.errors import DecodeError, EncodeError, LimitExceeded, Malformed, Truncated, Unsupported
from wirefmt.mqtt import spec
from wirefmt.protocols import skippable
from wirefmt.strictness import LAX, STRICT

VALID = [v for v in load("public") if v.valid]
CLASSES = [getattr(mqtt, p.name.capitalize()) for p in spec.PACKET_TYPES]
#: 5.0, 3.3.1 figure 3-9 and on: `a/b`, identifier 10, QoS 1; here with a property and a payload.
PUBLISH = bytes.fromhex("320f0003612f62000a050200000e10") + b"21"
CONNECT_311 = bytes.fromhex("100d00044d5154540402003c000163")


# ------------------------------------------------------------------------------------------------ values


def test_a_packet_by_hand() -> None:
    packet = mqtt.decode(PUBLISH, version=5)
    assert type(packet) is mqtt.Publish
    assert (packet.topic_name, packet.qos, packet.dup, packet.retain) == ("a/b", 1, False, False)
    assert packet.packet_identifier == 10
    assert packet.properties == (("message_expiry_interval", 3600),)
    assert packet.payload == b"21"  # type: ignore[comparison-overlap]
    assert packet.remaining_length == 15
    built = mqtt.Publish(
        topic_name="a/b", payload=b"21", qos=1, packet_identifier=10, properties=[("message_expiry_interval", 3600)]
    )
    assert built.encode() == mqtt.encode(built) == PUBLISH


@each_vector(VALID)
def test_packets_are_values(vector: Vector) -> None:
    packet = mqtt.decode(vector.octets, **vector.options)
    again = mqtt.decode(bytearray(vector.octets), **vector.options)
    assert packet == again
    assert hash(packet) == hash(again)
    assert packet != mqtt.Pubcomp(packet_identifier=4711, version=3)
    for other in (pickle.loads(pickle.dumps(packet)), copy.copy(packet), copy.deepcopy(packet), packet.detach()):
        assert other == packet
        assert hash(other) == hash(packet)
        assert other.encode() == vector.octets


@each_vector(VALID)
def test_a_repr_is_an_expression(vector: Vector) -> None:
    packet = mqtt.decode(vector.octets, **vector.options)
    text = repr(packet)
    evaluated = eval(text, {"mqtt": mqtt})
    assert type(evaluated) is type(packet)
    if "b'***'" not in text and " more'" not in text:
        assert evaluated == packet


def test_a_repr_hides_secrets_and_long_payloads() -> None:
    connect = mqtt.Connect(user_name="u", password=b"secret", will=mqtt.Will("w", bytes(1000)))
    assert "secret" not in repr(connect)
    assert "password=b'***'" in repr(connect)
    assert len(repr(connect)) < 400
    auth = mqtt.Auth(reason_code=0x18, properties=[("authentication_method", "m"), ("authentication_data", b"secret")])
    assert "secret" not in repr(auth)
    assert "b'***'" in repr(auth)
    assert repr(mqtt.Publish(topic_name="t", payload=b"x" * 33)).count("x") == 32


def test_pattern_matching_follows_the_order_of_the_specification() -> None:
    match mqtt.decode(PUBLISH, version=5):
        case mqtt.Publish(dup, qos, retain, topic, identifier, properties, payload):
            assert (dup, qos, retain, topic, identifier) == (False, 1, False, "a/b", 10)
            assert properties
            assert payload == b"21"  # type: ignore[comparison-overlap]
        case _:
            pytest.fail("no match")
    match mqtt.Subscription("a/#", 2):
        case mqtt.Subscription(topic_filter, qos):
            assert (topic_filter, qos) == ("a/#", 2)


def test_packets_do_not_change() -> None:
    seen = set()
    for thing in (mqtt.Subscription("a"), mqtt.Will("a"), *(mqtt.decode(v.octets, **v.options) for v in VALID)):
        seen.add(type(thing))
        for name in type(thing).__match_args__:  # type: ignore[attr-defined]
            with pytest.raises(AttributeError):
                setattr(thing, name, None)
    assert seen == {*CLASSES, mqtt.Subscription, mqtt.Will}


@pytest.mark.parametrize("unused", range(0, 256, 4))
def test_unused_bits_of_a_requested_qos_mean_nothing(unused: int) -> None:
    """3.1, 3.8: the upper six bits of Requested QoS are not used; 3.1.1 reserves them, and LAX lets them pass."""
    octets = bytes.fromhex("820600010001 61") + bytes([unused | 1])
    plain = octets[:-1] + b"\x01"
    for version, strictness in ((3, "strict"), (3, "lax"), (4, "lax")):
        packet: Any = mqtt.decode(octets, version=version, strictness=strictness)
        assert packet.subscriptions == (mqtt.Subscription("a", 1),)
        assert packet.encode() == octets
        assert packet == mqtt.decode(plain, version=version)
        assert hash(packet) == hash(mqtt.decode(plain, version=version))
        assert eval(repr(packet), {"mqtt": mqtt}) == packet


@pytest.mark.parametrize("version", [3, 4, 5])
def test_what_strict_takes_evaluates_from_its_repr(version: int) -> None:
    """Valid packets with one bit turned: where STRICT takes that, it is a bit nobody uses, or another valid packet."""
    taken = 0
    for octets in {v.octets for v in VALID if v.version == version and len(v.octets) <= 16}:
        for bit in range(8 * len(octets)):
            turned = bytearray(octets)
            turned[bit // 8] ^= 1 << bit % 8
            try:
                packet: Any = mqtt.decode(turned, version=version)
            except DecodeError:
                continue
            if "b'***'" not in repr(packet):  # which hides what a repr does not show
                again = eval(repr(packet), {"mqtt": mqtt})
                assert again == packet, turned.hex()
                assert hash(again) == hash(packet), turned.hex()
                taken += 1
    assert taken > 500


def test_init_does_not_change_a_packet() -> None:
    packet = mqtt.decode(PUBLISH, version=5)
    for call in (lambda: packet.__init__(topic_name="x"), lambda: mqtt.Pingreq().__init__()):  # type: ignore[misc]
        with pytest.raises(TypeError):
            call()
    subscription = mqtt.Subscription("a")
    with pytest.raises(TypeError):
        subscription.__init__("b")
    with pytest.raises(TypeError):
        mqtt.Packet()


def test_the_payload_is_a_view_that_outlives_the_packet() -> None:
    packet = checked(mqtt.decode(PUBLISH, version=5), mqtt.Publish)
    view = packet.payload
    assert view.readonly
    assert bytes(cast(Any, packet)) == packet.payload_bytes() == b"21"
    with pytest.raises(TypeError):
        view[0] = 0
    del packet
    assert bytes(view) == b"21"
    assert hash(view) == hash(b"21")


def test_detach_owns_its_octets_only() -> None:
    block = PUBLISH * 1000
    packet = mqtt.Decoder(version=5).feed(block)[7]
    assert packet.encode() == PUBLISH
    before = sys.getrefcount(block)
    detached = packet.detach()
    assert detached == packet
    assert detached.detach() is detached
    assert sys.getrefcount(block) == before
    assert detached.encode() is detached.encode()


def test_equal_topics_of_a_stream_are_one_object() -> None:
    """From the second time on: what comes once is not kept."""
    first, second, third = exactly(mqtt.Decoder(version=5).feed(PUBLISH * 3), mqtt.Publish, mqtt.Publish, mqtt.Publish)
    assert first.topic_name == second.topic_name
    assert second.topic_name is third.topic_name
    assert first.properties == second.properties


def test_equal_octets_with_another_meaning_are_not_shared() -> None:
    """A topic, two text properties and a number that are made of the same octets, in every order."""
    text = "\x01\x02"
    kinds = [("content_type", text), ("reason_string", text), ("topic_alias", 0x0102), ("server_keep_alive", 0x0102)]
    for _ in range(2):
        for name, value in kinds:
            packet = (
                mqtt.Publish(topic_name=text, properties=[(name, value)])
                if name in ("content_type", "topic_alias")
                else mqtt.Connack(properties=[(name, value)])
            )
            assert packet.properties == ((name, value),)
            assert getattr(packet, "topic_name", text) == text


def test_fields_that_a_version_lacks_are_none_or_empty() -> None:
    puback = mqtt.Puback(packet_identifier=1, version=4)
    assert (puback.reason_code, puback.form) == (None, None)
    assert puback.properties == ()
    assert mqtt.Connack(version=3).session_present is None
    assert mqtt.Connack(version=4).return_code == mqtt.Connack(version=4).reason_code == 0
    assert mqtt.Unsuback(packet_identifier=1, version=4).reason_codes == ()
    assert mqtt.Connect(clean_start=False, version=4, client_identifier="c").clean_session is False


def test_31_announces_strings_that_do_not_come() -> None:
    """3.1, section 3.1: Remaining Length has precedence over the flags."""
    octets = bytes.fromhex("100f00064d514973647003c2003c000163")
    packet = checked(mqtt.decode(octets, version=3), mqtt.Connect)
    assert (packet.user_name, packet.password, packet.connect_flags) == (None, None, 0xC2)
    assert mqtt.Connect(client_identifier="c", keep_alive=60, connect_flags=0xC2, version=3).encode() == octets
    assert eval(repr(packet), {"mqtt": mqtt}) == packet
    for version, flags in ((4, 0xC2), (3, 0x06), (3, 0x00)):
        with pytest.raises(EncodeError, match="connect_flags"):
            mqtt.Connect(client_identifier="c", connect_flags=flags, version=version)


# ------------------------------------------------------------------------------------------------ what cannot be built


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: mqtt.Publish(topic_name="a/#"), "MQTT-3.3.2-2"),
        (lambda: mqtt.Publish(topic_name=""), "MQTT-4.7.3-1"),
        (lambda: mqtt.Publish(topic_name="a\0b"), "MQTT-1.5.4-2"),
        (lambda: mqtt.Publish(topic_name="a\ud800"), "surrogate"),
        (lambda: mqtt.Publish(topic_name="a" * 65536), "65535"),
        (lambda: mqtt.Publish(topic_name="a", qos=1), "MQTT-2.2.1-2"),
        (lambda: mqtt.Publish(topic_name="a", packet_identifier=1), "MQTT-2.2.1-2"),
        (lambda: mqtt.Publish(topic_name="a", qos=1, packet_identifier=0), "MQTT-2.2.1-3"),
        (lambda: mqtt.Publish(topic_name="a", qos=1, packet_identifier=65536), "packet_identifier"),
        (lambda: mqtt.Publish(topic_name="a", qos=3, packet_identifier=1), "MQTT-3.3.1-4"),
        (lambda: mqtt.Publish(topic_name="a", dup=True), "MQTT-3.3.1-2"),
        (lambda: mqtt.Publish(topic_name="a", version=6), "version"),
        (lambda: mqtt.Publish(topic_name="a", version=4, properties=[("topic_alias", 1)]), "5.0"),
        (lambda: mqtt.Publish(topic_name="a", properties=[("topic_alias", 0)]), "MQTT-3.3.2-8"),
        (lambda: mqtt.Publish(topic_name="a", properties=[("topic_alias", 65536)]), "65535"),
        (lambda: mqtt.Publish(topic_name="a", properties=[("topic_alias", 1)] * 2), "3.3.2.3.4"),
        (lambda: mqtt.Publish(topic_name="a", properties=[("no_such", 1)]), "2.2.2.2"),
        (lambda: mqtt.Publish(topic_name="a", properties=[("reason_string", "x")]), "2.2.2.2"),
        (lambda: mqtt.Subscribe(packet_identifier=1, subscriptions=[]), "MQTT-3.8.3-2"),
        (lambda: mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("a#")]), "MQTT-4.7.1-1"),
        (
            lambda: mqtt.Subscribe(
                packet_identifier=1, subscriptions=[mqtt.Subscription("a", no_local=True)], version=4
            ),
            "5.0",
        ),
        (
            lambda: mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("$share/g/a", no_local=True)]),
            "MQTT-3.8.3-4",
        ),
        (lambda: mqtt.Suback(packet_identifier=1, reason_codes=[3]), "MQTT-3.9.3-2"),
        (lambda: mqtt.Puback(packet_identifier=1, reason_code=1), "MQTT-3.4.2-1"),
        (lambda: mqtt.Puback(packet_identifier=1, reason_code=0, version=4), "5.0"),
        (lambda: mqtt.Puback(packet_identifier=1, reason_code=0x10, form="short"), "short"),
        (lambda: mqtt.Puback(packet_identifier=1, form="long"), "form"),  # type: ignore[arg-type]
        (lambda: mqtt.Connect(password=b"p", version=4, client_identifier="c"), "MQTT-3.1.2-22"),
        (lambda: mqtt.Connect(will=mqtt.Will("a", qos=3)), "MQTT-3.1.2-12"),
        (lambda: mqtt.Connect(keep_alive=-1), "keep_alive"),
        (lambda: mqtt.Connack(session_present=True, reason_code=0x80), "MQTT-3.2.2-6"),
        (lambda: mqtt.Connack(session_present=True, version=3), "3.1"),
        (lambda: mqtt.Auth(reason_code=0x18), "3.15.2.2.2"),
        (lambda: mqtt.Auth(version=4), "2.2.1"),
    ],
)
def test_what_cannot_be_built(build: Callable[[], Any], words: str) -> None:
    with pytest.raises(EncodeError, match=words.replace(".", r"\.")):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: mqtt.Publish(topic_name=b"a"),  # type: ignore[arg-type]
        lambda: mqtt.Publish(topic_name="a", payload="text"),  # type: ignore[arg-type]
        lambda: mqtt.Publish(topic_name="a", qos="1"),  # type: ignore[arg-type]
        lambda: mqtt.Publish(topic_name="a", properties=[("content_type", b"x")]),
        lambda: mqtt.Subscribe(packet_identifier=1, subscriptions=["a"]),  # type: ignore[list-item]
        lambda: mqtt.Connect(will="w"),  # type: ignore[arg-type]
        lambda: mqtt.decode("text", version=5),  # type: ignore[arg-type]
        lambda: mqtt.encode(b"\xc0\x00"),  # type: ignore[arg-type]
    ],
)
def test_wrong_types_are_type_errors(build: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        build()


@pytest.mark.parametrize("options", [{"version": 6}, {"version": 5, "side": "peer"}, {"strictness": "loose"}])
def test_wrong_options_are_value_errors(options: dict[str, Any]) -> None:
    for use in (lambda: mqtt.decode(PUBLISH, **options), lambda: mqtt.Decoder(**options)):
        with pytest.raises(ValueError, match=r"version|side|loose") as caught:
            use()
        assert not isinstance(caught.value, DecodeError)


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("octets", "options", "cls", "attributes"),
    [
        # a packet of seven octets of which six are there
        ("30050009746f", {"version": 5}, Truncated, {"offset": 1, "path": "remaining_length", "need": 7, "have": 6}),
        # a topic of nine octets where three are left
        (
            "30050009746f70",
            {"version": 5},
            Truncated,
            {"offset": 2, "path": "topic_name", "need": 11, "have": 5, "limited_by": "remaining_length", "reply": 0x81},
        ),
        # a User Property whose value runs past the Property Length, the second of the packet
        (
            "30140001740f26000161000162260001610005627a7a",
            {"version": 5},
            Truncated,
            {
                "offset": 17,
                "path": "properties.user_property[1].value",
                "need": 7,
                "have": 4,
                "limited_by": "property_length",
                "reply": 0x81,
            },
        ),
        (
            "820a00010000016100000123",
            {"version": 5},
            Truncated,
            {"offset": 12, "path": "subscriptions[1].options", "need": 1, "have": 0},
        ),
        (
            "82080001000002612300",
            {"version": 5},
            Malformed,
            {"offset": 8, "path": "subscriptions[0].topic_filter", "spec": "MQTT-4.7.1-1", "reply": 0x81},
        ),
        (
            "e0028200",
            {"version": 4},
            Malformed,
            {"offset": 2, "path": "", "spec": "2.2.3", "reply": None},
        ),
        ("100d00044d5154540602003c000163", {"version": 5}, Unsupported, {"path": "protocol_version", "reply": 0x84}),
        ("100d00044d5154540602003c000163", {"version": 4}, Unsupported, {"path": "protocol_version", "reply": 0x01}),
        ("c000", {}, Unsupported, {"path": "packet_type", "offset": 0}),
        ("c0ffffffff01", {"version": 5}, Malformed, {"path": "remaining_length", "offset": 1, "spec": "1.5.5"}),
        (
            PUBLISH.hex(),
            {"version": 5, "limits": Limits(frame_size=10)},
            LimitExceeded,
            {"path": "remaining_length", "need": 17, "have": 10, "reply": 0x95},
        ),
        (
            PUBLISH.hex(),
            {"version": 5, "limits": Limits(elements=1)},
            None,
            None,
        ),
        (
            "900700010000000000",
            {"version": 5, "limits": Limits(elements=3)},
            LimitExceeded,
            {"path": "reason_codes[3]", "offset": 8, "need": 4, "have": 3},
        ),
    ],
)
def test_errors_say_what_and_where(
    octets: str, options: dict[str, Any], cls: type[DecodeError] | None, attributes: dict[str, Any] | None
) -> None:
    if cls is None:
        mqtt.decode(bytes.fromhex(octets), **options)
        return
    with pytest.raises(DecodeError) as caught:
        mqtt.decode(bytes.fromhex(octets), **options)
    assert attributes is not None
    assert type(caught.value) is cls
    assert {name: getattr(caught.value, name) for name in attributes} == attributes
    copied = pickle.loads(pickle.dumps(caught.value))
    assert vars(copied) == vars(caught.value)


# ------------------------------------------------------------------------------------------------ strictness


def test_lax_notes_what_it_lets_pass() -> None:
    # DUP with QoS 0, a wildcard in the Topic Name, Receive Maximum in a PUBLISH, and its value 0
    octets = bytes.fromhex("380a0003612f230321000070")
    packet = checked(mqtt.decode(octets, version=5, strictness=LAX), mqtt.Publish)
    assert (packet.dup, packet.topic_name) == (True, "a/#")
    assert packet.properties == (("receive_maximum", 0),)
    assert [(n.check, n.path, n.offset, n.spec) for n in packet.notes] == [
        ("PUBLISH_DUP", "dup", 0, "MQTT-3.3.1-2"),
        ("TOPIC_NAME_WILDCARD", "topic_name", 6, "MQTT-3.3.2-2"),
        ("PROPERTY_NOT_ALLOWED", "properties.receive_maximum", 8, "2.2.2.2"),
        ("PROPERTY_ZERO", "properties.receive_maximum", 9, "3.3.2.3"),
    ]
    assert pickle.loads(pickle.dumps(packet)).notes == packet.notes
    with pytest.raises(Malformed):
        mqtt.decode(octets, version=5, strictness=STRICT)
    assert {n.check for n in packet.notes} <= {s.check for s in skippable()}


@pytest.mark.parametrize(
    "octets",
    ["300a0003612f", "3005000361ff62", "30070001740522ff", "00", "f0000000", "300500017403ff00", "c0ffffffff01"],
)
def test_lax_keeps_to_lengths_and_utf8(octets: str) -> None:
    with pytest.raises(DecodeError):
        mqtt.decode(bytes.fromhex(octets), version=4 if octets[0] == "f" else 5, strictness="lax")


def test_sides() -> None:
    subscription_identifier = bytes.fromhex("3007000174020b0170")
    mqtt.decode(subscription_identifier, version=5)
    mqtt.decode(subscription_identifier, version=5, side="server")
    with pytest.raises(Malformed) as caught:
        mqtt.decode(subscription_identifier, version=5, side="client")
    assert (caught.value.spec, caught.value.reply) == ("MQTT-3.3.4-6", 0x82)
    with pytest.raises(Malformed) as caught:
        mqtt.decode(b"\xd0\x00", version=4, side="client")
    assert caught.value.path == "packet_type"


# ------------------------------------------------------------------------------------------------ Decoder


def test_the_decoder_learns_the_version() -> None:
    decoder = mqtt.Decoder(side="client")
    assert decoder.version is None
    connect, publish = decoder.feed(CONNECT_311 + bytes.fromhex("30040001743f"))
    assert connect.version == publish.version == decoder.version == 4
    assert publish.payload == b"?"
    fixed = mqtt.Decoder(version=5)
    with pytest.raises(Unsupported):
        fixed.feed(CONNECT_311)
    assert mqtt.Decoder(version=5, strictness="lax").feed(CONNECT_311)[0].version == 4


def test_messages_before_a_fault_are_not_lost() -> None:
    decoder = mqtt.Decoder(version=5)
    assert len(decoder.feed(PUBLISH + PUBLISH[:5])) == 1
    with pytest.raises(Malformed) as caught:
        decoder.feed(PUBLISH[5:] + b"\xc0\x00" + b"\xc1\x00" + PUBLISH)
    error = caught.value
    assert [type(m) for m in error.messages] == [mqtt.Publish, mqtt.Pingreq]
    assert error.offset == decoder.offset == 2 * len(PUBLISH) + 2
    assert error.spec == "MQTT-2.1.3-1"
    for call in (lambda: decoder.feed(PUBLISH), decoder.close):
        with pytest.raises(Malformed) as again:
            call()
        assert again.value is error


def test_a_stream_that_ends_inside_a_packet() -> None:
    decoder = mqtt.Decoder(version=5)
    decoder.close()
    decoder.feed(PUBLISH + PUBLISH[:7])
    assert decoder.pending == 7
    with pytest.raises(Truncated) as caught:
        decoder.close()
    assert (caught.value.offset, caught.value.need, caught.value.have) == (len(PUBLISH) + 7, len(PUBLISH), 7)


def test_a_limit_stops_a_packet_before_it_comes() -> None:
    decoder = mqtt.Decoder(version=5, limits=Limits(frame_size=1000))
    decoder.feed(b"\x30")
    decoder.feed(b"\xff")
    with pytest.raises(LimitExceeded):
        decoder.feed(b"\x7f")
    assert not decoder.pending > 3


def test_frame_size() -> None:
    assert mqtt.frame_size(PUBLISH) == len(PUBLISH)
    assert mqtt.frame_size(PUBLISH[:2]) == len(PUBLISH)
    assert mqtt.frame_size(b"\x30\xff\xff\xff\x7f", limits=Limits(frame_size=0)) == 268_435_460
    for octets in (b"", b"\x30", b"\x30\x80", b"\x30\xff\xff\xff"):
        size = mqtt.frame_size(octets)
        assert size is NEED_DATA
        assert not size
    assert repr(NEED_DATA) == str(NEED_DATA) == "NEED_DATA"
    assert pickle.loads(pickle.dumps(NEED_DATA)) is NEED_DATA
    with pytest.raises(Malformed):
        mqtt.frame_size(b"\x00")


def test_large_packets_in_small_pieces() -> None:
    packet = mqtt.Publish(topic_name="t", payload=bytes(range(256)) * 4096)
    octets = packet.encode()
    for size in (1000, 65536, len(octets) - 1):
        decoder = mqtt.Decoder(version=5)
        got = []
        for at in range(0, len(octets), size):
            got += decoder.feed(octets[at : at + size])
        assert got == [packet]
        decoder.close()


def test_any_buffer(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
    path = tmp_path / "packet"
    path.write_bytes(PUBLISH)
    want = mqtt.decode(PUBLISH, version=5)
    with path.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        buffers = [
            bytearray(PUBLISH),
            memoryview(PUBLISH),
            memoryview(bytearray(b"xx" + PUBLISH))[2:],
            mapped,
            array.array("B", PUBLISH),
            numpy.frombuffer(PUBLISH, numpy.uint8).copy(),
            pyarrow.py_buffer(PUBLISH),
        ]
        for buffer in buffers:
            assert mqtt.decode(buffer, version=5) == want
            assert mqtt.Decoder(version=5).feed(buffer) == [want]
            assert mqtt.frame_size(buffer) == len(PUBLISH)
            assert mqtt.Publish(topic_name="t", payload=buffer).payload == PUBLISH
        del buffer, buffers
    with pytest.raises((BufferError, ValueError)):
        mqtt.decode(memoryview(PUBLISH + PUBLISH)[::2], version=5)


def test_mutable_octets_are_copied() -> None:
    octets = bytearray(PUBLISH)
    packet = checked(mqtt.decode(octets, version=5), mqtt.Publish)
    octets[:] = bytes(len(octets))
    octets.extend(b"more")
    assert packet.encode() == PUBLISH
    assert packet.topic_name == "a/b"


# ------------------------------------------------------------------------------------------------ tables


def test_tables_are_complete_and_unique() -> None:
    assert [p.number for p in spec.PACKET_TYPES] == list(range(1, 16))
    assert len(spec.PROPERTIES) == 27  # 5.0, table 2-4
    assert len({p.identifier for p in spec.PROPERTIES}) == len({p.name for p in spec.PROPERTIES}) == 27
    assert len({row.code for row in spec.REASON_CODES}) == 43  # 5.0, table 2-6: 45 rows, three of them 0x00
    assert len(spec.REASON_CODES) == 45
    assert len({c.name for c in spec.CHECKS}) == len(spec.CHECKS)
    assert len(set(spec.FIELDS)) == len(spec.FIELDS)
    for p in spec.PROPERTIES:
        for packet, section in p.sections.items():
            assert section.startswith(spec.PROPERTY_SECTIONS[packet] + ".")


def test_properties_and_reason_codes_agree_with_paho() -> None:
    """A second, independent source of tables 2-4 and 2-6."""
    properties = pytest.importorskip("paho.mqtt.properties", reason="needs paho-mqtt (pip install paho-mqtt)")
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.reasoncodes import ReasonCode

    numbers = {p.name: p.number for p in spec.PACKET_TYPES} | {"WILL": PacketTypes.WILLMESSAGE}
    theirs = properties.Properties(PacketTypes.CONNECT)
    kinds = ["byte", "two", "four", "varint", "binary", "string", "pair"]
    for p in spec.PROPERTIES:
        kind, packets_ = theirs.properties[p.identifier]
        assert kinds[kind] == p.type, p.name
        assert sorted(packets_) == sorted(numbers[name] for name in p.sections), p.name
    assert len(theirs.properties) == len(spec.PROPERTIES)
    names = ReasonCode(PacketTypes.CONNACK, "Success").names
    for code, rows in names.items():
        want = {number for numbers_ in rows.values() for number in numbers_}
        ours = {numbers[packet] for row in spec.REASON_CODES if row.code == code for packet in row.packets}
        # 5.0, table 3-1 has Payload format invalid for CONNACK (a Will Payload); paho follows table 2-6, which has not
        assert ours == (want | {PacketTypes.CONNACK} if code == 0x99 else want), hex(code)
    assert set(names) == {row.code for row in spec.REASON_CODES}


def test_the_tables_of_the_core_are_those_of_spec() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "gen_tables.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", [4, 5])
def test_a_reserved_connect_flag_is_no_password(version: int) -> None:
    """Bit 0 of the Connect Flags is reserved (3.1.2.3); LAX passes over it, and the payload is as without it."""
    octets = bytearray(mqtt.Connect(client_identifier="c", version=version).encode())
    octets[9] |= 1
    with pytest.raises(DecodeError):
        mqtt.decode(bytes(octets), version=version)
    found = checked(mqtt.decode(bytes(octets), version=version, strictness="lax"), mqtt.Connect)
    assert (found.client_identifier, found.password, found.user_name) == ("c", None, None)
    assert [note.check for note in found.notes] == ["CONNECT_FLAG_RESERVED"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_flags_that_follow_from_fields_are_not_shown(qos: int) -> None:
    will = mqtt.Will("t", b"", qos=qos, retain=qos == 1)
    connect = mqtt.Connect(client_identifier="c", will=will, user_name="u", password=b"p", clean_start=qos == 2)
    assert "connect_flags" not in repr(connect)
    assert mqtt.decode(connect.encode()) == connect
