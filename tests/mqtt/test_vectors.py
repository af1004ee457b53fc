"""Every MQTT vector, four ways, through decode(), Decoder and the constructors. Vectors: tests/vectors/mqtt."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from lib.four_ways import four_ways
from lib.groups import each_vector
from lib.mqtt_vectors import Vector, build, expected, load
from wirefmt import mqtt
from wirefmt.errors import DecodeError, LimitExceeded, Malformed, Truncated, Unsupported
from wirefmt.framing import NEED_DATA

PUBLIC = load("public")
VALID = [v for v in PUBLIC if v.valid]
INVALID = [v for v in PUBLIC if v.valid is False and not v.incomplete]
INCOMPLETE = [v for v in PUBLIC if v.incomplete]
AMBIGUOUS = load("ambiguous")

#: A small packet that ends a stream well in every version.
PING = b"\xc0\x00"


def fields_of(packet: mqtt.Packet, names: Any) -> dict[str, Any]:
    return {name: getattr(packet, name) for name in names}


def test_the_files_hold_what_they_should() -> None:
    assert Counter((v.valid, v.incomplete) for v in PUBLIC) == {
        (True, False): len(VALID),
        (False, False): len(INVALID),
        (False, True): len(INCOMPLETE),
    }
    assert len(VALID) > 1000
    assert len(INVALID) > 900
    assert len(INCOMPLETE) > 20
    assert {v.version for v in VALID} == {3, 4, 5}


@each_vector(VALID)
def test_valid_packets(vector: Vector) -> None:
    want = expected(vector)
    packet = mqtt.decode(vector.octets, **vector.options)
    assert type(packet) is getattr(mqtt, vector.decoded["type"].capitalize())  # type: ignore[index]
    assert packet.version == vector.version
    assert fields_of(packet, want) == want
    assert packet.encode() == vector.octets
    for packets in four_ways(mqtt.Decoder, vector.octets, PING[:1], **vector.options):
        assert [p.encode() for p in packets] == [vector.octets]
        assert packets == [packet]
        assert hash(packets[0]) == hash(packet)


@each_vector(VALID)
def test_packets_built_from_the_fields_have_the_same_octets(vector: Vector) -> None:
    built = build(vector)
    assert built.encode() == vector.octets
    assert built == mqtt.decode(vector.octets, **vector.options)


@each_vector(VALID)
def test_lax_reads_valid_packets_as_strict_does(vector: Vector) -> None:
    packet = mqtt.decode(vector.octets, strictness="lax", **vector.options)
    assert packet == mqtt.decode(vector.octets, **vector.options)
    assert packet.notes == ()


@each_vector(INCOMPLETE)
def test_incomplete_packets_wait(vector: Vector) -> None:
    size = mqtt.frame_size(vector.octets)
    assert size is NEED_DATA or size > len(vector.octets)
    decoder = mqtt.Decoder(**vector.options)
    assert decoder.feed(vector.octets) == []
    assert decoder.pending == len(vector.octets)
    with pytest.raises(Truncated):
        decoder.close()
    with pytest.raises(Truncated):
        mqtt.decode(vector.octets, **vector.options)


# ---- what is wrong with an invalid packet, as far as the words of `reason` can be compared

STATEMENT = re.compile(r"\[(MQTT-[-.\d]+)\]")
#: `(Protocol Error, 3.2.2.3)`, `(2.2.2.2: Malformed Packet)`, `(3.1 2.4)`: the last number is the section.
SECTION = re.compile(r"\((?:Protocol Error, |3\.1 )?(\d+\.\d+(?:\.\d+)*)(?:: Malformed Packet)?\)$")
#: Words of reasons -> where our error says the fault is. The first that fits counts.
PLACES = (
    (r"^body of \w+ cut to \d+ of \d+ octets: (.+)$", None),  # the rest is a reason of its own
    (r"^octets after the last field: (.+)$", None),
    (r"^([a-z_]{6,}) (is not|twice|must|0 is|cut)|^([a-z_]{6,}):|in ([a-z_]{6,}) ?\[", r"(will\.)?properties(\[|\.).*"),
    (r"Session Present", r"session_present"),
    (r"trailing octets after|neither variable header", r""),
    (r"AUTH without Authentication Method", r"properties\.authentication_method"),
    (r"Subscription Identifier 0", r"properties\.subscription_identifier\[0\]"),
    (r"Protocol Version", r"protocol_version"),
    (r"Client Identifier", r"client_identifier"),
    (r"Protocol Name|protocol name|needs MQIsdp", r"protocol_(name|version)"),
    (r"level \d+ with name", r"protocol_version"),
    (r"Will Topic", r"will(\.topic)?"),
    (r"Will Payload|Will Flag set", r"will(\.payload|\.topic)?"),
    (r"Will QoS|Will Retain", r"will\.(qos|retain)"),
    (r"Response Topic", r"(will\.)?properties\.response_topic"),
    (r"User Name|user name", r"user_name|connect_flags"),
    (r"Password|password", r"password|connect_flags"),
    (r"Topic Filter|misplaced|ShareName", r"(subscriptions|topic_filters)(\[\d+\](\.topic_filter)?)?"),
    (r"Topic Name", r"topic_name|properties\.topic_alias"),
    (r"Topic Alias", r"properties\.topic_alias"),
    (r"Packet Identifier|Message ID", r"packet_identifier"),
    (r"Remaining Length", r"remaining_length"),
    (r"Property Length", r"(will\.)?property_length"),
    (r"fixed header|uses QoS 1", r"flags"),
    (r"packet type", r"packet_type"),
    (r"Keep Alive", r"keep_alive"),
    (r"Connect Flags|connect flag", r"connect_flags"),
    (r"both QoS bits", r"qos"),
    (r"^DUP", r"dup"),
    (r"[Rr]eason [Cc]odes?|[Rr]eturn [Cc]odes?|granted QoS|[Cc]odes", r"re(ason|turn)_codes?(\[\d+\])?"),
    (
        r"Subscription Options|option bits|Retain Handling|Maximum QoS|Requested QoS|No Local",
        r"subscriptions\[\d+\]\.options",
    ),
    (r"without options", r"subscriptions\[\d+\]\.options"),
    (r"CONNACK flag|acknowledge flags", r"acknowledge_flags"),
    (r"a User Property|^user_property", r"(will\.)?properties(\.user_property)?(\[\d+\])?(\.\w+)?"),
    (r"Property Identifier|unknown property|property \w+ not allowed", r"(will\.)?properties(\[|\.).*"),
)


def place(reason: str) -> str | None:
    for words, where in PLACES:
        found = re.search(words, reason)
        if found:
            return place(found[1]) if where is None else where
    return None


#: Vectors whose reason cannot be ours, and why.
OTHER_REASONS = {
    "mqtt4-connack-bad-f012b65897-s2c": "names a statement of 5.0; in 3.1.1 MQTT-3.2.2-1 is about something else",
    "mqtt5-connack-bad-59c65e02bf-s2c": "two faults: 0x01 is not a Reason Code either, and comes first",
    "mqtt5-unsubscribe-bad-ba0e9f4704-c2s": "two faults: `+?#` has a misplaced + before the misplaced #",
    "mqtt5-subscribe-bad-94eafaf012-c2s": "MQTT-1.5.5-1 is about the shortest form; four octets are the maximum by 1.5.5",
}


def error_of(vector: Vector) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        mqtt.decode(vector.octets, **vector.options)
    return caught.value


@each_vector(INVALID)
def test_invalid_packets_are_refused(vector: Vector) -> None:
    error = error_of(vector)
    assert type(error) in (Truncated, Malformed, Unsupported)
    assert error.protocol == "mqtt"
    assert 0 <= error.offset <= len(vector.octets)
    assert error.reason
    assert error.spec
    for feed in (
        lambda d: d.feed(vector.octets),
        lambda d: [d.feed(vector.octets[i : i + 1]) for i in range(len(vector.octets))],
    ):
        decoder = mqtt.Decoder(**vector.options)
        with pytest.raises(DecodeError) as again:
            feed(decoder)
        assert str(again.value) == str(error)
        with pytest.raises(DecodeError):
            decoder.feed(PING)


def wrong_reasons() -> tuple[list[str], Counter[str]]:
    wrong = []
    compared: Counter[str] = Counter()
    for vector in INVALID:
        if vector.id in OTHER_REASONS:
            continue
        error = error_of(vector)
        statements = STATEMENT.findall(vector.reason)
        if statements:
            compared["statement"] += 1
            if not set(statements) & set(error.spec.split("/")):
                wrong.append(f"{vector.id}: {vector.reason} | {vector.octets.hex()[:80]} | {error}")
                continue
        section = SECTION.search(vector.reason)
        if section and vector.version == 5 and "properties" in error.path:
            compared["section"] += 1
            if not error.spec.startswith(section[1]):
                wrong.append(f"{vector.id}: {vector.reason} | {vector.octets.hex()[:80]} | {error}")
        where = place(vector.reason)
        if where is not None:
            compared["field"] += 1
            if not re.fullmatch(where, error.path):
                wrong.append(f"{vector.id}: {vector.reason} | {vector.octets.hex()[:80]} | {error}")
        compared["any"] += bool(statements) or where is not None
    return wrong, compared


def test_invalid_packets_are_refused_for_the_reason_given() -> None:
    wrong, compared = wrong_reasons()
    assert not wrong, "\n".join(wrong)
    assert compared["statement"] > 450
    assert compared["section"] > 100
    assert compared["any"] == len(INVALID) - len(OTHER_REASONS)


def read(octets: bytes, **options: Any) -> mqtt.Packet | None:
    """The packet, or None where it is refused as it should be."""
    try:
        return mqtt.decode(octets, **options)
    except (Truncated, Malformed, Unsupported, LimitExceeded):
        return None


@pytest.mark.parametrize("strictness", ["strict", "lax"])
@each_vector(AMBIGUOUS)
def test_ambiguous_packets_are_read_or_refused(vector: Vector, strictness: str) -> None:
    packet = read(vector.octets, strictness=strictness, **vector.options)
    if packet is not None:
        assert packet.encode() == vector.octets
        fields_of(packet, type(packet).__match_args__)  # type: ignore[attr-defined]


@pytest.mark.parametrize("strictness", ["strict", "lax"])
def test_every_packet_cut_at_every_length(strictness: str) -> None:
    """A cut packet waits in a stream; as a whole packet, with its Remaining Length mended, it is read or refused."""
    for vector in PUBLIC + AMBIGUOUS:
        octets = vector.octets
        options = vector.options | {"strictness": strictness}
        for n in range(min(len(octets), 300)):
            assert read(octets[:n], **options) is None
            with suppress(Malformed):
                size = mqtt.frame_size(octets[:n])
                assert size is NEED_DATA or size > 0
            if n < 127:
                read(octets[:1] + bytes([n]) + octets[2 : 2 + n], **options)


def test_lax_reads_what_strict_refuses_where_it_can_be_framed() -> None:
    """LAX takes more than STRICT, never less, and notes what it accepted."""
    taken = 0
    for vector in INVALID:
        packet = read(vector.octets, strictness="lax", **vector.options)
        if packet is not None:
            taken += 1
            # in LAX a CONNECT is read as the version it claims: of another version than expected, it may be a valid one
            assert packet.notes or packet.version != vector.version, vector
            assert packet.encode() == vector.octets
            fields_of(packet, type(packet).__match_args__)  # type: ignore[attr-defined]
    assert taken > 300
