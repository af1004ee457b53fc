"""What losses tell: by which row, of which field, key and value; and that they outlive what they were made from."""

from __future__ import annotations

import gc
from typing import Any

import pyarrow as pa
import pytest

from wirefmt import amqp091, amqp10, mqtt
from wirefmt.convert import DIALECTS, Container, Conversion, Protocol, Wire, convert, convert_table
from wirefmt.errors import ConversionError

PUBLISH = amqp091.BasicPublish(channel=1, exchange="", routing_key="")

P = bytes.fromhex("005375a00170")  # data: p


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(2) + octets


def publish(first: int, properties: bytes, payload: bytes = b"p") -> bytes:
    """A PUBLISH to the topic t, packet identifier 7."""
    rest = sized(b"t") + (b"\0\7" if first & 6 else b"") + bytes([len(properties)]) + properties + payload
    length, size = b"", len(rest)
    while True:
        size, low = divmod(size, 128)
        length += bytes([low | 128 if size else low])
        if not size:
            return bytes([first]) + length + rest


def section(code: int, count: int, content: bytes) -> bytes:
    """A list (header 0x70, properties 0x73) or map (annotations 0x72, application properties 0x74)."""
    kind = b"\xd0" if code in (0x70, 0x73) else b"\xd1"
    return b"\0\x53" + bytes([code]) + kind + (len(content) + 4).to_bytes(4) + count.to_bytes(4) + content


def symbol(text: bytes) -> bytes:
    return b"\xa3" + bytes([len(text)]) + text


def string(text: bytes) -> bytes:
    return b"\xa1" + bytes([len(text)]) + text


def told(got: Conversion) -> list[tuple[str, str | None, str, str, bytes]]:
    return [(loss.field, loss.key, loss.what, loss.reason, loss.value) for loss in got.losses]


def churn() -> list[Conversion]:
    """Other conversions, whose memory is that of the one before, if that was freed."""
    junk = bytes(range(256)) * 20
    return [convert(publish(0x30, b"", junk), source="mqtt5", to="amqp091", dialect="rabbitmq-4.3") for _ in range(50)]


@pytest.mark.parametrize("to", ["amqp10", "amqp091", "mqtt5"])
@pytest.mark.parametrize("dialect", ["rabbitmq-4.3", "rabbitmq-3.13"])
@pytest.mark.parametrize("size", [10, 3000, 200_000])
def test_losses_of_ill_formed_strings_are_of_the_packet(size: int, dialect: str, to: Protocol) -> None:
    """Strings that are not UTF-8 make the core read a copy of the packet: DUP, RETAIN and QoS 1 are still 0x3b."""
    octets = publish(0x3B, b"\x26" + sized(b"k") + sized(b"\xff\xfe"), b"x" * size)
    got = convert(octets, source="mqtt5", to=to, dialect=dialect, routing_key="t", explain=True)
    churned = churn()
    gc.collect()
    found = {loss.field: loss.value for loss in got.losses}
    flags = {name: value for name, value in found.items() if name in ("Dup", "QoS", "Retain")}
    assert flags == ({"Dup": b"\x3b"} if to == "mqtt5" else dict.fromkeys(("Dup", "QoS", "Retain"), b"\x3b"))
    if to != "mqtt5":
        assert (found["User Property"], found["Payload"]) == (b"\xff\xfe", b"x" * size)
    assert len(churned) == 50


def test_a_dropped_duplicate_has_its_field_key_and_value() -> None:
    table = b"\x01kV" + b"\x01kt\x01"
    got = convert(Wire("amqp091", b"\x20\0" + len(table).to_bytes(4) + table, b"p"), to="amqp10")
    assert told(got) == [("properties.headers", "k", "dropped", "a second value of one key", b"\1")]
    assert str(got.losses[0]) == ("properties.headers[k] dropped: a second value of one key (amqp091>amqp10 headers)")


def test_a_dropped_duplicate_of_another_place() -> None:
    """The key x-k of an annotation and of an application property are one header of AMQP 0.9.1."""
    octets = section(0x72, 2, symbol(b"x-k") + b"\x41") + section(0x74, 2, string(b"x-k") + b"\x42") + P
    got = convert(octets, source="amqp10", to="amqp091")
    assert told(got) == [("application properties", "x-k", "dropped", "a second value of one key", b"\0")]


@pytest.mark.parametrize("depth", [0, 1, 40])
def test_a_dropped_duplicate_within_a_value(depth: int) -> None:
    """A table of AMQP 0.9.1 has no name twice (4.2.5.5), a map of AMQP 1.0 no key (1.6.23), where a string and a symbol are two
    keys. A value within another has no field."""
    values: list[tuple[str, bool | None]] = [("k", None), ("l", False), ("k", True), ("k", None)]
    table: Any = amqp091.FieldValue("F", values)
    for _ in range(depth):
        table = amqp091.FieldValue("A", [table])
    got = convert(amqp091.BasicMessage(PUBLISH, amqp091.BasicProperties(headers={"x-a": table}), b"p"), to="amqp10")
    dropped = ("", "k", "dropped", "a second value of one key")
    assert told(got) == [(*dropped, b"\1"), (*dropped, b"")]
    found = dict(got.message.message_annotations.pairs)[amqp10.Symbol("x-a")]
    for _ in range(depth):
        (found,) = found
    assert found.pairs == (("k", None), ("l", False))

    mapped: Any = amqp10.Map([(1, True), ("k", None), ("l", False), (amqp10.Symbol("k"), True), (b"k", None)])
    for _ in range(depth):
        mapped = amqp10.List([mapped])
    message = amqp10.Message(message_annotations={"x-a": mapped}, body=b"p")
    got = convert(message, to="amqp091")
    assert told(got) == [
        ("", "\1", "dropped", "not a valid key in the target", b"\1"),
        (*dropped, b"\1"),
        (*dropped, b""),
    ]
    found = got.message.properties.headers["x-a"]
    for _ in range(depth):
        (found,) = found
    assert found.pairs == (("k", None), ("l", False))
    assert (
        convert(message, to="amqp091", dialect="rabbitmq-4.3").message.properties.headers
        != got.message.properties.headers
    )


def test_many_duplicates() -> None:
    """More than are compared with each other, and more than the memory of a conversion holds."""
    table = b"".join(b"\x03%03dB" % (n % 40) + bytes([n]) for n in range(120))
    got = convert(Wire("amqp091", b"\x20\0" + len(table).to_bytes(4) + table, b"p"), to="amqp10")
    kept = got.message.application_properties.pairs
    assert [(key, int(value)) for key, value in kept] == [(f"{n:03d}", n) for n in range(40)]
    assert [(loss.key, loss.value) for loss in got.losses] == [(f"{n % 40:03d}", bytes([n])) for n in range(40, 120)]


@pytest.mark.parametrize("kind", ["A", "F"])
@pytest.mark.parametrize("depth", [61, 62, 63, 64])
def test_values_nested_too_deep_are_told(depth: int, kind: str) -> None:
    """AMQP 0.9.1 is read 64 levels deep; of AMQP 1.0 the map of the section is one of the 64."""
    value: Any = amqp091.FieldValue("l", 1)
    for _ in range(depth):
        value = amqp091.FieldValue("F", [("k", value)]) if kind == "F" else amqp091.FieldValue("A", [value])
    given = amqp091.BasicMessage(PUBLISH, amqp091.BasicProperties(delivery_mode=1, headers={"x-a": value}), b"p")
    got = convert(given, to="amqp10")
    levels, found = 0, dict(got.message.message_annotations.pairs)[amqp10.Symbol("x-a")]
    while isinstance(found, (amqp10.List, amqp10.Map)) and len(found):
        levels += 1
        found = found.pairs[0][1] if isinstance(found, amqp10.Map) else found[0]
    if depth < 64:
        assert (levels, found, got.losses) == (depth, 1, ())
        assert convert(given, to="amqp10", lossless=True).octets == got.octets
        return
    name = "k" if kind == "F" else None
    innermost = (b"\1k" if kind == "F" else b"") + b"l" + (1).to_bytes(8)
    assert [loss[1:] for loss in told(got)] == [(name, "dropped", "nested too deep for the target", innermost)]
    with pytest.raises(ConversionError):
        convert(given, to="amqp10", lossless=True)


# ---- lossless


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("to", ["amqp10", "amqp091"])
def test_qos_2_is_not_lossless(to: Protocol, dialect: str) -> None:
    got = convert(publish(0x34, b""), source="mqtt5", to=to, dialect=dialect)
    assert told(got) == [("QoS", None, "narrowed", "the target has no such value: replaced by another", b"\x34")]
    with pytest.raises(ConversionError):
        convert(publish(0x34, b""), source="mqtt5", to=to, dialect=dialect, lossless=True)
    assert convert(publish(0x32, b""), source="mqtt5", to=to, dialect=dialect, lossless=True)


@pytest.mark.parametrize("dialect", ["rabbitmq-4.3", "rabbitmq-3.13"])
def test_qos_2_becomes_1_for_mqtt_as_well(dialect: str) -> None:
    got = convert(publish(0x34, b""), source="mqtt5", to="mqtt5", routing_key="t", dialect=dialect)
    assert got.octets[0] == 0x32
    assert [loss.field for loss in got.losses] == ["QoS"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("to", ["amqp10", "mqtt5"])
@pytest.mark.parametrize("mode", [0, 1, 2, 3, 255])
def test_delivery_mode_that_is_none_is_not_lossless(mode: int, to: Protocol, dialect: str) -> None:
    """AMQP 0.9.1, 1.8.3.3: non-persistent (1) or persistent (2)."""
    given = Wire("amqp091", b"\x10\0" + bytes([mode]), b"p")
    if mode in (1, 2):
        assert convert(given, to=to, dialect=dialect, routing_key="t", lossless=True).losses == ()
        return
    with pytest.raises(ConversionError) as caught:
        convert(given, to=to, dialect=dialect, routing_key="t", lossless=True)
    (loss,) = caught.value.losses
    assert (loss.field, loss.what, loss.value) == ("properties.delivery_mode", "narrowed", bytes([mode]))  # type: ignore[attr-defined]


@pytest.mark.parametrize(("topic", "lossless"), [("a/b", True), ("a", True), ("a.b", False), ("a/*", False)])
def test_a_dot_in_a_response_topic_is_not_lossless(topic: str, lossless: bool) -> None:
    """a.b would come back as a/b."""
    given = mqtt.Publish(topic_name="t", version=5, properties=[("response_topic", topic)])
    for to in ("amqp10", "amqp091"):
        got = convert(given, to=to)
        assert any(loss.what != "moved" for loss in got.losses) != lossless
        unchanged = convert(given, to=to, topics="unchanged")
        assert all(loss.what == "moved" for loss in unchanged.losses)


# ---- what is replaced


def test_a_section_in_a_header_replaces_properties() -> None:
    """The header x-amqp-1.0-properties of the old plugin is the whole section: message_id and app_id go."""
    inner = section(0x73, 1, string(b"m"))
    table = b"\x15x-amqp-1.0-properties" + b"x" + len(inner).to_bytes(4) + inner
    got = convert(Wire("amqp091", b"\x20\x88" + len(table).to_bytes(4) + table + b"\1n" + b"\1a", b"p"), to="amqp10")
    assert got.message.properties == amqp10.Properties(message_id="m")
    assert told(got) == [
        ("properties.message_id", None, "dropped", "replaced by another value", b"n"),
        ("properties.app_id", None, "dropped", "replaced by another value", b"a"),
    ]


def test_sections_of_a_payload_replace_others() -> None:
    """rabbitmq-4.3: type amqp-1.0. Delivery annotations are of one connection; the payload's header replaces ours."""
    payload = section(0x70, 1, b"\x41") + section(0x71, 2, symbol(b"x-d") + b"\x41") + P
    got = convert(Wire("amqp091", b"\x10\x20\1" + b"\x08amqp-1.0", payload), to="amqp10", dialect="rabbitmq-4.3")
    assert got.message.header == amqp10.Header(durable=True)
    assert [loss for loss in told(got) if loss[2] != "moved"] == [
        ("payload", None, "dropped", "a broker does not pass it on", section(0x71, 2, symbol(b"x-d") + b"\x41")),
        ("properties.delivery_mode", None, "dropped", "replaced by another value", b"\1"),
    ]


def test_a_content_type_that_is_replaced() -> None:
    octets = section(0x73, 7, b"\x40" * 6 + symbol(b"a/b")) + bytes.fromhex("00537754") + b"\5"
    got = convert(octets, source="amqp10", to="mqtt5", routing_key="t")
    assert got.message.properties == (("content_type", "message/vnd.rabbitmq.amqp"),)
    assert told(got) == [("properties.content_type", None, "dropped", "replaced by another value", b"a/b")]


def test_a_second_header_of_one_field() -> None:
    """Two headers x-reply-to-topic, the field is one: the second stays."""
    table = b"".join(b"\x10x-reply-to-topic" + b"S\0\0\0\1" + name for name in (b"a", b"b"))
    got = convert(Wire("amqp091", b"\x20\0" + len(table).to_bytes(4) + table, b"p"), to="mqtt5", routing_key="t")
    assert got.message.properties == (("response_topic", "b"),)
    assert told(got) == [("properties.headers", "x-reply-to-topic", "dropped", "replaced by another value", b"a")]


def test_explain_tells_of_each_value_once() -> None:
    table = b"".join(b"\x10x-reply-to-topic" + b"S\0\0\0\1" + name for name in (b"a", b"b"))
    got = convert(
        Wire("amqp091", b"\x20\0" + len(table).to_bytes(4) + table, b"p"), to="mqtt5", routing_key="t", explain=True
    )
    assert [(loss.value, loss.what) for loss in got.losses] == [(b"a", "dropped"), (b"b", "taken"), (b"p", "taken")]


def test_deaths_have_no_last_time() -> None:
    """x-death of AMQP 0.9.1 has one time, in seconds."""
    entries = [
        (b"queue", string(b"q")), (b"reason", symbol(b"expired")), (b"count", b"\x53\2"),
        (b"first-time", b"\x83" + (5999).to_bytes(8)), (b"last-time", b"\x83" + (7000).to_bytes(8)),
        (b"exchange", string(b"x")), (b"routing-keys", b"\xe0\4\1\xa1\1k"), (b"mine", b"\x41"),
    ]  # fmt: skip
    content = b"".join(symbol(key) + value for key, value in entries)
    one = (len(content) + 4).to_bytes(4) + (16).to_bytes(4) + content
    array = b"\xf0" + (len(one) + 5).to_bytes(4) + (1).to_bytes(4) + b"\xd1" + one
    octets = section(0x72, 2, symbol(b"x-opt-deaths") + array) + P
    got = convert(octets, source="amqp10", to="amqp091", dialect="rabbitmq-4.3")
    assert [loss for loss in told(got) if loss[2] != "moved"] == [
        ("", "first-time", "narrowed", "rounded toward zero", (5999).to_bytes(8)),
        ("", "last-time", "dropped", "no rule matches", (7000).to_bytes(8)),
        ("", "mine", "dropped", "no rule matches", b"\1"),
    ]


def test_keys_of_maps_that_are_no_names() -> None:
    """A map whose key is a ulong: the loss has key and value."""
    inner = b"\xc1\x05\2\x53\7" + b"\x54\x2a"
    got = convert(section(0x74, 2, string(b"k") + inner) + P, source="amqp10", to="amqp091")
    assert told(got) == [("", "\7", "dropped", "not a valid key in the target", b"\x2a")]


def test_a_described_value_is_told_with_its_descriptor() -> None:
    value = b"\0\x53\x09\xa1\1v"
    got = convert(section(0x74, 2, string(b"k") + value) + P, source="amqp10", to="amqp091")
    assert told(got) == [("application properties", "k", "dropped", "no rule matches", value)]


def test_properties_of_mqtt_that_a_lax_reader_lets_pass() -> None:
    """A second Subscription Identifier; the Server Keep Alive of CONNACK."""
    properties = b"\x0b\1" + b"\x0b\2" + b"\x13\0\x3c"
    got = convert(publish(0x30, properties), source="mqtt5", to="amqp10")
    assert {(loss.field, loss.key, loss.what, loss.value) for loss in got.losses} == {
        ("Subscription Identifier", None, "dropped", b"\1"),
        ("Subscription Identifier", None, "dropped", b"\2"),
        ("Other Property", "server_keep_alive", "dropped", b"\0\x3c"),
    }


def test_a_time_that_a_signed_number_cannot_hold() -> None:
    """Timestamps of AMQP 0.9.1 are unsigned seconds, of AMQP 1.0 signed milliseconds."""
    for seconds, lost in ((2**63 // 1000, False), (2**63 // 1000 + 1, True)):
        got = convert(Wire("amqp091", b"\0\x40" + seconds.to_bytes(8), b"p"), to="amqp10")
        assert [loss.what for loss in got.losses] == ["narrowed"] * lost


def test_an_octet_that_is_too_large() -> None:
    """rabbitmq-4.3: x-basic-priority 258 as priority."""
    octets = section(0x72, 2, symbol(b"x-basic-priority") + b"\x60\1\2") + P
    got = convert(octets, source="amqp10", to="amqp091", dialect="rabbitmq-4.3")
    assert got.message.properties.priority == 2
    assert [(loss.key, loss.what, loss.value) for loss in got.losses] == [("x-basic-priority", "narrowed", b"\1\2")]


def test_uuids_that_are_loose() -> None:
    """rabbitmq-4.3 takes dashes anywhere and 36 digits: what a uuid does not have is lost."""
    for identifier in ("550e-8400e29b41d4a716446655440000---", "550e8400e29b41d4a716446655440000abcd"):
        text = f"urn:uuid:{identifier}"
        got = convert(
            amqp091.BasicMessage(PUBLISH, amqp091.BasicProperties(message_id=text), b"p"),
            to="amqp10",
            dialect="rabbitmq-4.3",
        )
        assert [(loss.what, loss.value) for loss in got.losses] == [("narrowed", text.encode())]


# ---- delivered, and for one protocol


def test_what_a_broker_puts_in_the_place_of_a_value() -> None:
    """The annotation x-exchange of the message, its first-acquirer and delivery-count; delivery annotations."""
    octets = (
        section(0x70, 5, b"\x41\x40\x40\x42\x52\7")
        + section(0x71, 2, symbol(b"x-d") + b"\x41")
        + section(0x72, 2, symbol(b"x-exchange") + string(b"mine"))
        + P
    )
    got = Container(Wire("amqp10", octets), exchange="ex", routing_key="k").deliver("amqp10")
    assert ("delivery annotations", "x-d", "dropped", "a broker does not pass it on", b"\1") in told(got)
    assert ("message annotations", "x-exchange", "dropped", "replaced by another value", b"mine") in told(got)


def test_fields_of_a_header_that_a_queue_does_not_keep() -> None:
    """durable, priority and ttl come back with the message; first-acquirer and delivery-count are the queue's own. MQTT has
    durable alone, as QoS."""
    octets = section(0x70, 5, b"\x41\x50\x07\x52\x09\x41\x52\x02") + P
    container = Container(Wire("amqp10", octets), exchange="ex", routing_key="k")
    fields = {
        to: [loss.field for loss in container.deliver(to).losses if loss.what != "taken"] for to in ("amqp091", "mqtt5")
    }
    assert fields == {
        "amqp091": ["header.first_acquirer", "header.delivery_count"],
        "mqtt5": ["header.priority", "header.ttl", "header.first_acquirer", "header.delivery_count"],
    }
    properties = container.deliver("amqp091").message.properties
    assert (properties.delivery_mode, properties.priority, properties.expiration) == (2, 7, "9")


def test_bcc_is_told() -> None:
    table = b"\x03BCCA\0\0\0\0"
    got = convert(
        Wire("amqp091", b"\x20\0" + len(table).to_bytes(4) + table, b"p"), to="amqp091", dialect="rabbitmq-4.3"
    )
    assert told(got) == [("properties.headers", "BCC", "dropped", "a broker does not pass it on", b"")]


# ---- columns


def test_a_column_tells_the_same() -> None:
    """Losses that have their octets from the packet, its copy and from neither."""
    messages = [
        ("mqtt", "5.0", publish(0x3D, b"\x26" + sized(b"\xff") + sized(b"\xfe") + b"\x13\0\x3c")),
        ("mqtt", "5.0", publish(0x34, b"\x0b\1\x0b\2")),
        ("amqp10", None, section(0x74, 2, string(b"k") + b"\xc1\x05\2\x53\7\x54\x2a") + P),
    ]
    protocols, versions, octets = zip(*messages, strict=True)
    batch = pa.record_batch({
        "protocol": pa.array(protocols), "version": pa.array(versions), "destination": pa.array([None] * 3, pa.string()),
        "routing_key": pa.array(["k"] * 3), "raw": pa.array(octets, pa.binary()),
    })  # fmt: skip
    for dialect in ("rabbitmq-3.13", "documented"):
        rows = convert_table(batch, to="amqp091", dialect=dialect).column("converted").to_pylist()
        for (protocol, _, data), row in zip(messages, rows, strict=True):
            source: Any = "mqtt5" if protocol == "mqtt" else protocol
            if dialect == "documented" and b"\xff" in data:
                assert row["error"]
                continue
            losses = convert(data, source=source, to="amqp091", dialect=dialect).losses
            assert losses and row["losses"] == [str(loss) for loss in losses]


# ---- topics


@pytest.mark.parametrize("source", ["amqp10", "amqp091"])
def test_an_empty_topic_is_refused(source: str) -> None:
    """[MQTT-4.7.3-1]; STRICT would refuse the packet."""
    given: Any = amqp10.Message(body=b"x") if source == "amqp10" else amqp091.BasicMessage(PUBLISH, body=b"x")
    with pytest.raises(ConversionError) as caught:
        convert(given, to="mqtt5")
    assert caught.value.rule == "mqtt5:no-topic"
    assert mqtt.decode(convert(given, to="mqtt5", routing_key="k").octets, version=5, strictness="strict")


# ---- rabbitmq-3.13


@pytest.mark.parametrize(("size", "wide"), [(254, False), (255, True), (256, True)])
def test_strings_of_255_octets_of_3_13(size: int, wide: bool) -> None:
    """That server writes the size of strings and binaries in one octet below 255. (4.3 and the document: below 256.)"""

    def octets(code: int, text: bytes, dialect: str) -> bytes:
        if wide if dialect == "rabbitmq-3.13" else len(text) > 255:
            return bytes([code + 0x10]) + len(text).to_bytes(4) + text
        return bytes([code, len(text)]) + text

    text = b"s" * size
    for dialect in DIALECTS:
        pair = b"\x26" + sized(b"k") + sized(text)
        properties = pair + b"\x09" + sized(text)
        rest = sized(b"t") + bytes([len(properties) & 127 | 128, len(properties) >> 7]) + properties + text
        packet = b"\x30" + bytes([len(rest) & 127 | 128, len(rest) >> 7]) + rest
        got = convert(packet, source="mqtt5", to="amqp10", dialect=dialect).octets
        assert b"\xa1\1k" + octets(0xA1, text, dialect) in got  # application property
        assert b"\0\x53\x75" + octets(0xA0, text, dialect) in got  # data
        assert b"\x40" * 5 + octets(0xA0, text, dialect) in got  # correlation_id
        table = b"\1k" + b"S" + size.to_bytes(4) + text
        if dialect == "documented" and size > 255:
            continue  # binary
        headers = Wire("amqp091", b"\x20\0" + len(table).to_bytes(4) + table, b"p")
        assert b"\xa1\1k" + octets(0xA1, text, dialect) in convert(headers, to="amqp10", dialect=dialect).octets
        written = convert(
            b"\0\x53\x77" + b"\xb1" + size.to_bytes(4) + text, source="amqp10", to="amqp091", dialect="rabbitmq-3.13"
        )
        assert written.body == b"\0\x53\x77" + octets(0xA1, text, "rabbitmq-3.13")


VALUE = bytes.fromhex("005377a10176")


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        (P + VALUE, [("data", b"p")]),
        (P + P + VALUE, [("data", b"p"), ("data", b"p")]),
        (VALUE + P, [("data", b"p")]),
        (bytes.fromhex("005377a10177") + VALUE, [("amqp.value", b"w")]),
    ],
)
def test_an_amqp_value_replaces_data_in_3_13(body: bytes, lost: list[tuple[str, bytes]]) -> None:
    """That server takes bodies of different kinds; an amqp-value replaces what comes before it. (What comes after it stops
    the server: it is dropped.)"""
    got = convert(body, source="amqp10", to="amqp091", dialect="rabbitmq-3.13")
    assert (got.message.properties.type, got.body) == ("amqp-1.0", VALUE)
    assert [(loss.field, loss.value) for loss in got.losses] == lost
    text = convert(body, source="amqp10", to="mqtt5", dialect="rabbitmq-3.13", routing_key="t")
    assert (text.message.payload_bytes(), [(loss.field, loss.value) for loss in text.losses]) == (b"v", lost)
    within = convert(Wire("amqp091", b"\0\x20\x08amqp-1.0", body), to="amqp10", dialect="rabbitmq-3.13")
    assert within.octets.endswith(VALUE) and within.octets.count(b"\0\x53\x75") == 0
    assert len([loss for loss in within.losses if loss.field == "payload"]) == len(lost)


def test_the_last_of_sections_that_come_again_in_3_13() -> None:
    octets = section(0x70, 1, b"\x41") + section(0x70, 2, b"\x42\x50\5") + P
    got = convert(octets, source="amqp10", to="amqp091", dialect="rabbitmq-3.13")
    assert (got.message.properties.delivery_mode, got.message.properties.priority) == (1, 5)
    assert told(got) == [("header.durable", None, "dropped", "replaced by another value", b"\1")]


# ---- what RabbitMQ's reader does not know


#: Constructors of one array element each, with the element: its octets are zeros except for sizes.
ELEMENTS = {
    **{code: bytes(1) for code in (0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56)},
    **{code: bytes(2) for code in (0x60, 0x61)},
    **{code: bytes(4) for code in (0x70, 0x71, 0x72, 0x73, 0x74)},
    **{code: bytes(8) for code in (0x80, 0x81, 0x82, 0x83, 0x84)},
    **{code: bytes(16) for code in (0x94, 0x98)},
    **{code: bytes(1) for code in (0xA0, 0xA1, 0xA3)}, **{code: bytes(4) for code in (0xB0, 0xB1, 0xB3)},
    **dict.fromkeys((64, 65, 66, 67, 68, 69), b""),
    **dict.fromkeys((192, 193), b"\x01\x00"), **{code: b"\0\0\0\4" + bytes(4) for code in (0xD0, 0xD1)},
    0xE0: b"\2\0\x70", 0xF0: b"\0\0\0\5" + bytes(4) + b"\x70",
}  # fmt: skip
#: Of element types the server's reader has no clause for these: smalluint, smallulong, smallint, smalllong, list8, map8, array8
#: and decimals.
NOT_OF_ARRAYS = {0x52, 0x53, 0x54, 0x55, 0x74, 0x84, 0x94, 0xC0, 0xC1, 0xE0}


@pytest.mark.parametrize("code", ELEMENTS, ids=hex)
def test_arrays_that_the_server_does_not_read(code: int) -> None:
    """Refused in any place where values are; within a list too, and without elements too."""
    for element in (ELEMENTS[code], b""):
        array = (
            b"\xf0"
            + (len(element) + 5).to_bytes(4)
            + (element != b"" or code < 0x50).to_bytes(4)
            + bytes([code])
            + element
        )
        within = b"\xd0" + (len(array) + 4).to_bytes(4) + (1).to_bytes(4) + array
        for value in (array, within):
            octets = section(0x72, 2, symbol(b"x-opt-k") + value) + P
            try:
                convert(octets, source="amqp10", to="mqtt5", dialect="rabbitmq-4.3", routing_key="t")
                refused = ""
            except ConversionError as error:
                refused = error.rule
            assert refused == ("amqp10:array-constructor" if code in NOT_OF_ARRAYS else "")
            convert(octets, source="amqp10", to="mqtt5", routing_key="t")  # the document reads them all


@pytest.mark.parametrize("dialect", ["rabbitmq-4.3", "rabbitmq-3.13"])
def test_a_header_without_fields_stays(dialect: str) -> None:
    """Of a payload that is AMQP 1.0 the sections take effect, an empty header too: its fields have their defaults, which are not
    what the server says of a message without that header."""
    for header in (b"\x45", b"\xc0\3\2\x40\x40"):
        got = convert(Wire("amqp091", b"\0\x20\x08amqp-1.0", b"\0\x53\x70" + header + P), to="amqp10", dialect=dialect)
        assert got.message.header == amqp10.Header()
