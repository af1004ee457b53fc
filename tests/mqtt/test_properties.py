"""What must hold for every MQTT packet, and for any octets at all."""

from __future__ import annotations

import copy
import importlib.util
import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.mqtt_cases import rebuilt
from lib.mqtt_strategies import ANY, VERSIONS, Arguments, arguments, broken
from wirefmt import mqtt
from wirefmt.errors import DecodeError
from wirefmt.framing import NEED_DATA

SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)


def options(a: Arguments) -> dict[str, Any]:
    return {"version": a.values["version"], **({"side": a.side} if a.side else {})}


# ---- packets


@SLOW
@given(ANY)
def test_what_goes_in_comes_out(a: Arguments) -> None:
    """Values -> octets -> values, and the same octets again from those values."""
    octets = a.build().encode()
    found = mqtt.decode(octets, **options(a))
    for name, value in a.values.items():
        assert getattr(found, name) == value, name
    assert found == a.build()
    assert found.encode() == octets
    assert rebuilt(found).encode() == octets
    assert mqtt.encode(found) == octets


@SLOW
@given(ANY)
def test_lax_is_strict_on_valid_packets(a: Arguments) -> None:
    octets = a.build().encode()
    found = mqtt.decode(octets, **options(a), strictness="lax")
    assert found == mqtt.decode(octets, **options(a))
    assert found.notes == ()


@SLOW
@given(ANY)
def test_frame_size(a: Arguments) -> None:
    octets = a.build().encode()
    assert mqtt.frame_size(octets + b"\x30") == len(octets)
    known = next(k for k in range(1, len(octets) + 1) if mqtt.frame_size(octets[:k]) is not NEED_DATA)
    assert known == len(octets) - a.build().remaining_length  # from the fixed header alone
    assert all(mqtt.frame_size(octets[:k]) == len(octets) for k in range(known, len(octets) + 1))
    for cut in range(len(octets)):
        with pytest.raises(DecodeError):
            mqtt.decode(octets[:cut], **options(a))


@SLOW
@given(ANY)
def test_objects(a: Arguments) -> None:
    """Equality by value, hash, copies, pickles, and a repr that can be evaluated."""
    built = a.build()
    found = mqtt.decode(b"".join([built.encode()]), **options(a))
    assert built == found
    assert hash(built) == hash(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert copy.copy(found) == copy.deepcopy(found) == found.detach() == found
    assert found != object()
    hidden = "***" in repr(found)  # secrets, and what has the name of one
    cut = len(a.values.get("payload", b"")) > 32
    will = a.values.get("will")
    if not hidden and not cut and (will is None or len(will.payload) <= 32):
        assert eval(repr(found), {"mqtt": mqtt}) == found


@SLOW
@given(st.data(), VERSIONS)
def test_streams(data: st.DataObject, version: int) -> None:
    """Whole, octet by octet and in any pieces: the same packets."""
    side: Any = data.draw(st.sampled_from(["client", "server"]))
    sent = data.draw(st.lists(arguments(version).filter(lambda a: a.side in (None, side)), min_size=1, max_size=4))
    packets = [a.build() for a in sent]
    octets = b"".join(p.encode() for p in packets)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=6)))
    for edges in ([], list(range(1, len(octets))), cuts):
        decoder = mqtt.Decoder(version=version, side=side)
        found: list[Any] = []
        at = 0
        for edge in [*edges, len(octets)]:
            found += decoder.feed(octets[at:edge])
            at = edge
        decoder.close()
        assert found == packets
        assert decoder.pending == 0


@SLOW
@given(st.data(), VERSIONS)
def test_batches(data: st.DataObject, version: int) -> None:
    """Columns say what objects say."""
    packets = [a.build() for a in data.draw(st.lists(arguments(version), max_size=5))]
    octets = b"".join(p.encode() for p in packets)
    batch = mqtt.decode_batch(octets, version=version, strictness="strict")
    assert batch.num_rows == len(packets)
    assert batch.rest == 0
    assert not batch.validity("error").any()
    at = 0
    for row, p in enumerate(packets):
        assert batch["byte_offset"][row] == at
        assert batch["wire_size"][row] == len(p.encode())
        at += len(p.encode())
        if isinstance(p, mqtt.Publish):
            assert batch["destination"][row] == p.topic_name
            assert batch["payload"][row] == p.payload_bytes()
            assert (batch["qos"][row], batch["dup"][row], batch["retain"][row]) == (p.qos, p.dup, p.retain)
        identifier = getattr(p, "packet_identifier", None)
        assert batch.validity("sequence")[row] == (identifier is not None)
        if identifier is not None:
            assert batch["sequence"][row] == identifier


# ---- any octets


def outcome(octets: bytes, **options: Any) -> Any:
    """A packet or a DecodeError; any other exception ends the test."""
    try:
        return mqtt.decode(octets, **options)
    except DecodeError as fault:
        error = fault
    assert type(error) is not DecodeError
    assert 0 <= error.offset <= len(octets)
    assert error.protocol == "mqtt"
    assert str(error)
    assert type(pickle.loads(pickle.dumps(error))) is type(error)
    return error


def streamed(pieces: Iterable[bytes], **options: Any) -> tuple[list[Any], Any]:
    """Packets of a Decoder that gets octets in pieces, those before a fault too; what is wrong and where, or None."""
    decoder = mqtt.Decoder(**options)
    found: list[Any] = []
    try:
        for piece in pieces:
            found += decoder.feed(piece)
        decoder.close()
    except DecodeError as fault:
        return found + list(fault.messages), (type(fault), fault.reason, fault.path, fault.offset)
    return found, None


def check_octets(octets: bytes, version: int, side: str | None) -> None:
    strict = outcome(octets, version=version, side=side)
    lax = outcome(octets, version=version, side=side, strictness="lax")
    if not isinstance(strict, DecodeError):
        assert lax == strict, "LAX is stricter than STRICT"
        assert lax.notes == ()
    elif not isinstance(lax, DecodeError):
        assert len(lax.notes) >= 1
    if not isinstance(lax, DecodeError):
        repr(lax)
        hash(lax)
        assert lax == pickle.loads(pickle.dumps(lax))
        assert lax.encode() == octets
        for name in type(lax).__match_args__:
            getattr(lax, name)
    by_octet = (octets[k : k + 1] for k in range(len(octets)))
    assert streamed(by_octet, version=version, side=side) == streamed([octets], version=version, side=side)


SIDE = st.sampled_from(["client", "server", None])


@SLOW
@given(st.binary(max_size=64), VERSIONS, SIDE)
def test_random_octets(octets: bytes, version: int, side: str | None) -> None:
    check_octets(octets, version, side)


@SLOW
@given(st.integers(1, 15), st.integers(0, 15), st.binary(max_size=100), VERSIONS, SIDE)
def test_random_bodies(type: int, flags: int, body: bytes, version: int, side: str | None) -> None:
    check_octets(bytes([type << 4 | flags, len(body)]) + body, version, side)


@settings(SLOW, max_examples=300)
@given(broken(), SIDE)
def test_broken_packets(case: tuple[int, bytes], side: str | None) -> None:
    check_octets(case[1], case[0], side)


@SLOW
@given(ANY, st.integers(0, 200))
def test_a_smaller_limit_is_kept(a: Arguments, size: int) -> None:
    from wirefmt.errors import LimitExceeded
    from wirefmt.framing import Limits

    octets = a.build().encode()
    if 0 < size < len(octets):
        with pytest.raises(LimitExceeded):
            mqtt.decode(octets, **options(a), limits=Limits(frame_size=size))
        with pytest.raises(LimitExceeded):
            mqtt.frame_size(octets, limits=Limits(frame_size=size))
    else:
        assert mqtt.decode(octets, **options(a), limits=Limits(frame_size=size)) == a.build()


# ---- other programs read what we write

#: Our property names -> attributes of the mqtt5 package (Rust); the others have the same name.
MQTT5_NAMES = {
    "assigned_client_identifier": "assigned_client_id",
    "request_problem_information": "request_problem_info",
    "request_response_information": "request_response_info",
    "response_information": "response_info",
    "reason_string": "reason_str",
    "receive_maximum": "receive_max",
    "topic_alias_maximum": "topic_alias_max",
    "maximum_qos": "max_qos",
    "maximum_packet_size": "max_packet_size",
    "subscription_identifiers_available": "subscription_id_available",
}
MQTT5_FIELDS = {
    "client_identifier": "client_id",
    "user_name": "username",
    "packet_identifier": "packet_id",
    "topic_name": "topic",
    "dup": "duplicate",
    "topic_filters": "patterns",
}


def same_properties(theirs: Any, pairs: tuple[tuple[str, Any], ...]) -> None:
    for name, value in pairs:
        if name == "user_property":
            assert list(theirs.user_properties) == [v for n, v in pairs if n == name]
        elif name == "subscription_identifier":
            found = getattr(theirs, "subscription_ids", None) or [theirs.subscription_id]
            assert list(found) == [v for n, v in pairs if n == name]
        else:
            assert getattr(theirs, MQTT5_NAMES.get(name, name)) == value, name


@pytest.mark.skipif(importlib.util.find_spec("mqtt5") is None, reason="needs mqtt5 (pip install mqtt5)")
@settings(SLOW, max_examples=300)
@given(arguments(5))
def test_mqtt5_reads_what_we_write(a: Arguments) -> None:
    import mqtt5

    octets = a.build().encode()
    theirs, used = mqtt5.read(octets)
    assert used == len(octets)
    assert type(theirs).__name__.lower() == f"{a.kind}packet".lower()
    for name, value in a.values.items():
        if name == "properties":
            same_properties(theirs, value)
        elif name == "will":
            assert (theirs.will is None) == (value is None)
            if value is not None:
                assert (theirs.will.topic, theirs.will.payload or b"") == (value.topic, value.payload)
                assert (theirs.will.qos, theirs.will.retain) == (value.qos, value.retain)
                same_properties(theirs.will, value.properties)
        elif name == "subscriptions":
            assert [
                (f.pattern, f.max_qos, f.no_local, f.retain_as_published, f.retain_handling)
                for f in theirs.topic_filters
            ] == [(s.topic_filter, s.qos, s.no_local, s.retain_as_published, s.retain_handling) for s in value]
        elif name in ("topic_filters", "reason_codes"):
            assert tuple(getattr(theirs, MQTT5_FIELDS.get(name, name))) == value
        elif name not in ("version", "form"):
            assert getattr(theirs, MQTT5_FIELDS.get(name, name)) == value, name


ZMQTT_FIELDS = {
    "client_identifier": "client_id",
    "clean_start": "clean_session",
    "keep_alive": "keepalive",
    "user_name": "username",
    "packet_identifier": "packet_id",
    "topic_name": "topic",
}


@pytest.mark.skipif(importlib.util.find_spec("zmqtt") is None, reason="needs zmqtt (pip install zmqtt)")
@settings(SLOW, max_examples=300)
@given(st.sampled_from([4, 5]).flatmap(arguments))
def test_zmqtt_reads_what_we_write(a: Arguments) -> None:
    """Without properties: it keeps one Subscription Identifier."""
    from zmqtt._internal.packets.reader import PacketBuffer

    reader = PacketBuffer(version="5.0" if a.values["version"] == 5 else "3.1.1")
    reader.feed(a.build().encode())
    (theirs,) = list(reader)
    assert type(theirs).__name__.lower() == a.kind.lower()
    for name, value in a.values.items():
        if name == "will":
            assert (theirs.will is None) == (value is None)
            if value is not None:
                assert (theirs.will.topic, theirs.will.payload) == (value.topic, value.payload)
                assert (theirs.will.qos, theirs.will.retain) == (value.qos, value.retain)
        elif name == "subscriptions":
            assert [(s.topic_filter, s.qos) for s in theirs.subscriptions] == [(s.topic_filter, s.qos) for s in value]
        elif name == "reason_code" and a.kind == "Connack":
            assert theirs.return_code == value
        elif name == "reason_codes" and a.kind == "Suback":
            assert theirs.return_codes == value
        elif name not in ("version", "form", "properties"):
            assert getattr(theirs, ZMQTT_FIELDS.get(name, name)) == value, name
