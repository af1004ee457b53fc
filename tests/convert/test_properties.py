"""Conversions of any valid message: refused by a rule that says so, or a valid message of the other protocol, as we read it under
STRICT and as pamqp, python-qpid-proton and paho read it; what the tables map both ways comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lib.convert_strategies import MESSAGES, is_valid
from wirefmt import amqp091, amqp10, mqtt
from wirefmt.convert import DIALECTS, PROTOCOLS, Container, Conversion, Protocol, Wire, convert
from wirefmt.errors import ConversionError

PUBLISH = amqp091.BasicPublish(channel=1, exchange="", routing_key="")

SETTINGS = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
PAIRS = [(a, b) for a in PROTOCOLS for b in PROTOCOLS if a != b]
#: Of a valid message `documented` refuses only what the target's protocol has no space for.
REFUSALS = {
    "amqp091>amqp10 headers-amqp-properties",
    "amqp091>amqp10 headers-amqp-application-properties",
    "amqp091>amqp10 headers-amqp-annotations",
}


def attempt(wire: Wire, to: Protocol, dialect: str = "documented") -> Conversion | str:
    try:
        return convert(wire, to=to, dialect=dialect, routing_key="a.b")
    except ConversionError as refusal:
        return refusal.rule


@pytest.mark.parametrize(("source", "to"), PAIRS)
@SETTINGS
@given(data=st.data())
def test_a_valid_message_becomes_a_valid_message(source: Protocol, to: Protocol, data: st.DataObject) -> None:
    wire = data.draw(MESSAGES[source])
    assume(is_valid(wire))
    got = attempt(wire, to)
    if isinstance(got, str):
        assert got in REFUSALS
        return
    assert is_valid(got.wire), (wire, got.octets.hex(), got.losses)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "documented"])
@pytest.mark.parametrize(("source", "to"), PAIRS)
@SETTINGS
@given(data=st.data())
def test_a_server_refuses_or_converts(source: Protocol, to: Protocol, dialect: str, data: st.DataObject) -> None:
    wire = data.draw(MESSAGES[source])
    got = attempt(wire, to, dialect)
    if isinstance(got, str):
        assert got
    else:  # what is not text in the other protocol goes over as well, so that the result need not be valid
        assert got.octets


# ---- peers


def read_by_pamqp(wire: Wire) -> None:
    """The properties as a content header."""
    header = pytest.importorskip("pamqp.header", reason="needs pamqp (pip install pamqp)")
    frame = pytest.importorskip("pamqp.frame", reason="needs pamqp (pip install pamqp)")
    exceptions = pytest.importorskip("pamqp.exceptions", reason="needs pamqp (pip install pamqp)")
    payload = (60).to_bytes(2, "big") + bytes(2) + len(wire.body or b"").to_bytes(8, "big") + wire.octets
    octets = b"\x02\0\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"
    try:
        _, _, got = frame.unmarshal(octets)
    except exceptions.UnmarshalingException as error:
        # it makes a datetime of every timestamp, and has no year behind 9999
        assert "year" in str(error) or "out of range" in str(error)
        return
    assert isinstance(got, header.ContentHeader)


def read_by_proton(wire: Wire) -> None:
    proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")
    proton.Message().decode(wire.octets)


def read_by_paho(wire: Wire) -> None:
    """The properties of a PUBLISH."""
    properties = pytest.importorskip("paho.mqtt.properties", reason="needs paho-mqtt (pip install paho-mqtt)")
    packettypes = pytest.importorskip("paho.mqtt.packettypes", reason="needs paho-mqtt (pip install paho-mqtt)")
    packet = mqtt.decode(wire.octets, version=5)
    assert isinstance(packet, mqtt.Publish)
    at = wire.octets.index(packet.topic_name.encode(), 3) + len(packet.topic_name.encode()) + (2 if packet.qos else 0)
    read, used = properties.Properties(packettypes.PacketTypes.PUBLISH).unpack(wire.octets[at:])
    assert wire.octets[at + used :] == packet.payload_bytes()
    assert getattr(read, "UserProperty", []) == [v for k, v in packet.properties if k == "user_property"]


PEERS: dict[str, Callable[[Wire], None]] = {
    "amqp091": read_by_pamqp,
    "amqp10": read_by_proton,
    "mqtt5": read_by_paho,
}


@pytest.mark.parametrize(("source", "to"), PAIRS)
@SETTINGS
@given(data=st.data())
def test_peers_read_the_result(source: Protocol, to: Protocol, data: st.DataObject) -> None:
    wire = data.draw(MESSAGES[source])
    assume(is_valid(wire))
    got = attempt(wire, to)
    assume(not isinstance(got, str))
    assert not isinstance(got, str)
    PEERS[to](got.wire)


# ---- identity and round trips


@pytest.mark.parametrize("protocol", PROTOCOLS)
@SETTINGS
@given(data=st.data())
def test_the_same_protocol_is_the_same_octets(protocol: Protocol, data: st.DataObject) -> None:
    wire = data.draw(MESSAGES[protocol])
    for got in (convert(wire, to=protocol), Container(wire).to(protocol)):
        assert (got.octets, got.body) == (wire.octets, wire.body)
        assert not got.losses


SHORT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
ASCII = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=40)
NOT_URN = SHORT.filter(lambda s: not s.startswith("urn:uuid:"))
SECONDS = st.integers(0, 2**53)
#: Both ways by the tables of types.
BOTH_WAYS = st.one_of(
    st.none(), st.booleans(), SHORT, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False),
    st.integers(0, 255).map(amqp10.UByte), st.integers(0, 65535).map(amqp10.UShort),
    st.integers(0, 2**32 - 1).map(amqp10.UInt), st.integers(-128, 127).map(amqp10.Byte),
    st.integers(-32768, 32767).map(amqp10.Short), st.integers(-(2**31), 2**31 - 1).map(amqp10.Int),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(amqp10.Float), st.binary(max_size=20),
    SECONDS.map(lambda s: amqp10.Timestamp(s * 1000)),
)  # fmt: skip
KEYS = SHORT.filter(lambda s: not s.startswith("x-") and s not in ("CC", "BCC"))


@SETTINGS
@given(
    header=st.fixed_dictionaries({"durable": st.booleans()}, optional={
        "priority": st.integers(0, 255), "ttl": st.integers(0, 2**32 - 1)}),
    properties=st.fixed_dictionaries({}, optional={
        "message_id": NOT_URN | st.uuids(), "correlation_id": NOT_URN | st.uuids(), "user_id": SHORT.map(str.encode),
        "reply_to": SHORT, "content_type": ASCII.map(amqp10.Symbol), "content_encoding": ASCII.map(amqp10.Symbol),
        "creation_time": SECONDS.map(lambda s: s * 1000), "group_id": SHORT}),
    entries=st.dictionaries(KEYS, BOTH_WAYS, max_size=5), payload=st.binary(max_size=40),
)  # fmt: skip
def test_amqp10_comes_back_from_amqp091(
    header: dict[str, Any], properties: dict[str, Any], entries: dict[str, Any], payload: bytes
) -> None:
    """durable, priority and ttl; identifiers as text and uuids, user_id, reply_to, content_type and content_encoding, whole
    seconds of creation_time, group_id; application properties of the types that both tables of types have; one data section."""
    there = amqp10.Message(
        header=amqp10.Header(**header),
        properties=amqp10.Properties(**properties) if properties else None,
        application_properties=amqp10.Map(entries) if entries else None,
        body=amqp10.Data(payload),
    )
    back = convert(convert(there, to="amqp091").wire, to="amqp10").message
    assert back == there


@SETTINGS
@given(
    given=st.fixed_dictionaries({}, optional={
        "content_type": SHORT, "content_encoding": ASCII, "delivery_mode": st.sampled_from([1, 2]),
        "priority": st.integers(0, 255), "correlation_id": NOT_URN | st.uuids().map(lambda u: f"urn:uuid:{u}"),
        "reply_to": SHORT, "expiration": st.integers(0, 2**32 - 1).map(str), "message_id": NOT_URN, "timestamp": SECONDS,
        "type": SHORT, "user_id": SHORT, "app_id": SHORT}),
    headers=st.dictionaries(KEYS, SHORT | st.booleans() | st.integers(-(2**63), 2**63 - 1), max_size=5),
    payload=st.binary(max_size=40),
)  # fmt: skip
def test_amqp091_comes_back_from_amqp10(given: dict[str, Any], headers: dict[str, Any], payload: bytes) -> None:
    """All properties but cluster_id, type by way of an annotation; headers of texts, booleans and numbers, in their order."""
    assume(given.get("content_type", "").isascii())
    if headers:
        given = {**given, "headers": headers}
    there = amqp091.BasicProperties(**{"delivery_mode": 1, **given})
    back = convert(convert(amqp091.BasicMessage(PUBLISH, there, payload), to="amqp10").wire, to="amqp091").message
    typed = dict(there.headers.items()) if there.headers else None
    if given.get("type") is not None and typed is None:
        typed = {}
    properties = back.properties
    assert back.body_bytes() == payload
    for name in type(there).__match_args__:
        if name == "type" and "type" in given:
            # the header x-basic-type: the document has no way back to type
            assert properties.headers["x-basic-type"] == given["type"]
        elif name == "headers":
            got = {k: v for k, v in (properties.headers or {}).items() if k != "x-basic-type"}
            assert got == (typed or {})
        else:
            assert getattr(properties, name) == getattr(there, name)


TOPIC = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0#+*."), min_size=1, max_size=30)


@pytest.mark.parametrize("to", ["amqp10", "amqp091"])
@SETTINGS
@given(
    qos=st.integers(0, 1),
    payload=st.binary(max_size=40),
    topic=st.none() | TOPIC,
    correlation=st.none() | st.binary(max_size=300) | st.uuids().map(lambda u: f"urn:uuid:{u}".encode()),
    content_type=st.none() | ASCII,
    pairs=st.lists(st.tuples(KEYS, SHORT), max_size=5, unique_by=lambda pair: pair[0]),
    expiry=st.none() | st.integers(0, 2**32 - 1),
)
def test_mqtt5_comes_back(
    to: Protocol, qos: int, payload: bytes, topic: str | None, correlation: bytes | None, content_type: str | None,
    pairs: list[tuple[str, str]], expiry: int | None,
) -> None:  # fmt: skip
    """QoS, Response Topic (without the characters that mean something else in routing keys), Correlation Data, Content Type
    in ASCII, User Properties (without x-, no key twice), payload; the interval by AMQP 0.9.1 alone."""
    assume(not (correlation or b"").startswith(b"urn:uuid:") or len(correlation or b"") == 45)
    named: dict[str, Any] = {"response_topic": topic, "correlation_data": correlation, "content_type": content_type}
    if to == "amqp091":
        named["message_expiry_interval"] = expiry
    properties = [(k, v) for k, v in named.items() if v is not None]
    if to == "amqp091":
        pairs = sorted(pairs, key=lambda pair: pair[0].encode())
    there = mqtt.Publish(
        topic_name="t", payload=payload, qos=qos, packet_identifier=1 if qos else None, version=5,
        properties=(*properties, *(("user_property", pair) for pair in pairs)),
    )  # fmt: skip
    back = convert(convert(there, to=to).wire, to="mqtt5", routing_key="t").message
    assert isinstance(back, mqtt.Publish)
    assert sorted(back.properties, key=repr) == sorted(there.properties, key=repr)
    assert [v for k, v in back.properties if k == "user_property"] == pairs
    assert (back.qos, back.payload_bytes(), back.topic_name) == (qos, payload, "t")


# ---- deliveries


@pytest.mark.parametrize("source", PROTOCOLS)
@pytest.mark.parametrize("to", PROTOCOLS)
@SETTINGS
@given(data=st.data(), died=st.booleans(), count=st.integers(0, 3))
def test_deliveries_are_valid(source: Protocol, to: Protocol, data: st.DataObject, died: bool, count: int) -> None:
    """From a queue, perhaps after another, and from a stream."""
    wire = data.draw(MESSAGES[source])
    assume(is_valid(wire))
    container = Container(wire, exchange="ex", routing_key="a.b", now_ms=1700000000000)
    try:
        if died:
            container = container.dead_lettered("q", "expired", exchange="dlx", routing_key="k", now_ms=1700000001000)
        delivered = container.deliver(to, redelivered=count > 0, delivery_count=count)
        entry = container.stream_entry()
    except ConversionError as refusal:
        assert refusal.rule
        return
    assert is_valid(delivered.wire), delivered.octets.hex()
    assert is_valid(Wire("amqp10", entry)), entry.hex()
    try:
        read = Container.from_stream_entry(entry, stream="s", offset=42).deliver(to)
    except ConversionError as refusal:
        assert refusal.rule == "mqtt5:topic"  # the asterisk of a topic, which comes back as a wildcard
        return
    assert is_valid(read.wire), read.octets.hex()
