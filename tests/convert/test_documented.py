"""The dialect `documented`: rows where the document and the server differ, octets worked out by hand from the document."""

from __future__ import annotations

from itertools import combinations
from uuid import UUID

import pytest

from wirefmt import amqp091
from wirefmt.convert import DIALECTS, Container, Wire, convert
from wirefmt.errors import ConversionError

PUBLISH = amqp091.BasicPublish(channel=1, exchange="", routing_key="")

DATA = "005375a00568656c6c6f"  # data: hello
HEADER = "005370c0020142"  # durable false, as an AMQP 0.9.1 message without delivery_mode has it


def to_091(sections: str) -> tuple[str, bytes | None]:
    got = convert(bytes.fromhex(sections), source="amqp10", to="amqp091")
    return got.octets.hex(), got.body


def to_10(properties: str, body: bytes = b"hello") -> str:
    return convert(Wire("amqp091", bytes.fromhex(properties), body), to="amqp10").octets.hex()


def packet(properties: str, payload: bytes = b"hi") -> bytes:
    """A PUBLISH of QoS 0 to the topic t."""
    octets = bytes.fromhex(properties)
    rest = b"\0\1t" + bytes([len(octets)]) + octets + payload
    return bytes([0x30, len(rest)]) + rest


def test_several_data_sections_are_a_payload_of_amqp() -> None:
    """Several data sections: the payload is AMQP 1.0 encoded, type is amqp-1.0. (The server joins them.)"""
    sections = "005375a00161005375a00162"
    assert to_091(sections) == ("0020" + "08" + b"amqp-1.0".hex(), bytes.fromhex(sections))


def test_binary_stays_binary() -> None:
    """Types: binary is binary. (The server makes it longstr.)"""
    assert to_091("005374c10702a1016ba00101" + DATA) == ("2000" + "00000008" + "016b" + "78" + "0000000101", b"hello")


@pytest.mark.parametrize(("text", "properties"), [
    ("a\0b", "0000"),
    ("m" * 255, "0080" + "ff" + "6d" * 255),
    ("m" * 256, "2000" + "00000112" + "0c" + b"x-message-id".hex() + "53" + "00000100" + "6d" * 256),
    ("m" * 257, "2000" + "00000113" + "0c" + b"x-message-id".hex() + "53" + "00000101" + "6d" * 257),
])  # fmt: skip
def test_message_id_is_a_short_string_or_longer_than_255_octets(text: str, properties: str) -> None:
    """utf8 that is a shortstr is message_id; of more than 255 octets, as the document's own example has it, the header
    x-message-id; else no row is left."""
    octets = text.encode()
    value = f"b1{len(octets):08x}" + octets.hex()
    section = "005373d0" + f"{len(value) // 2 + 4:08x}" + "00000001" + value
    assert to_091(section + DATA)[0] == properties


def test_reply_to_stays_as_it_is() -> None:
    """reply_to is a string on both sides. (The server knows addresses of queues.)"""
    assert to_10("0200" + "0171") == HEADER + "005373c00805404040" + "40" + "a10171" + DATA
    address = b"/queues/%71".hex()
    assert to_091("005373c01205" + "40404040" + "a10b" + address + DATA)[0] == "0200" + "0b" + address


def test_an_expiration_that_is_no_number_is_not_converted() -> None:
    """expiration is ttl if it can be converted to a number. (The server refuses the message.)"""
    assert to_10("0100" + "03616263") == HEADER + DATA
    with pytest.raises(ConversionError) as caught:
        convert(Wire("amqp091", bytes.fromhex("010003616263"), b""), to="amqp10", dialect="rabbitmq-4.3")
    assert caught.value.rule == "amqp091>amqp10 expiration-refused"


def test_a_payload_of_type_amqp_stays_data() -> None:
    """payload is data, type is the annotation x-basic-type. (The server decodes the payload.)"""
    annotations = "005372c11902" + "a30c" + b"x-basic-type".hex() + "a108" + b"amqp-1.0".hex()
    assert to_10("0020" + "08" + b"amqp-1.0".hex(), b"\0Sw\xa1\x01v") == HEADER + annotations + "005375a006005377a10176"


def test_keys_of_tables_are_strings() -> None:
    """Keys that do not begin with x- are utf8. (The server makes every key a symbol.)"""
    table = "016b" + "53" + "00000001" + "76"
    headers = "03782d74" + "46" + f"{len(table) // 2:08x}" + table
    inner = "c10702" + "a1016b" + "a10176"
    annotations = "005372c10f02" + "a303782d74" + inner
    assert to_10("2000" + f"{len(headers) // 2:08x}" + headers) == HEADER + annotations + DATA


def test_formatted_payloads_are_strings_and_expiry_is_ttl() -> None:
    """Payload Format Indicator 1: an amqp-value of utf8; the interval is ttl. (The server does neither.)"""
    got = convert(packet("0101" + "020000001e"), source="mqtt5", to="amqp10")
    assert got.octets.hex() == "005370c0080342407000007530" + "005377a1026869"


def test_values_of_text_are_formatted_payloads() -> None:
    """amqp-value of utf8: the raw payload, Payload Format Indicator 1; of binary: the raw payload. (The server encodes both.)"""
    durable = "005370c0020142"
    text = convert(bytes.fromhex(durable + "005377a1026869"), source="amqp10", to="mqtt5", routing_key="t")
    assert text.octets == packet("0101")
    binary = convert(bytes.fromhex(durable + "005377a0026869"), source="amqp10", to="mqtt5", routing_key="t")
    assert binary.octets == packet("")


def test_the_same_protocol_is_the_same_octets() -> None:
    octets = bytes.fromhex("005371c10802a304782d646140" + DATA)
    assert convert(octets, source="amqp10", to="amqp10").octets == octets
    assert Container(octets, source="amqp10").to("amqp10").octets == octets


def test_lossless_raises_with_what_would_be_lost() -> None:
    octets = bytes.fromhex("005373c00603" + "4040a10171" + DATA)
    with pytest.raises(ConversionError) as caught:
        convert(octets, source="amqp10", to="mqtt5", routing_key="t", lossless=True)
    assert [loss.field for loss in caught.value.losses] == ["properties.to"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("octets", "text"), [
    ("74" + "32800000", "0"), ("74" + "b2800000", "-0"), ("74" + "32000096", "15.0"), ("74" + "34800001", "1E+4"),
    ("74" + "6cb8967f", "9999999"), ("74" + "2f000007", "7E-7"), ("74" + "2f800007", "0.000007"),
    ("74" + "78000000", "inf"), ("74" + "f8000000", "-inf"), ("74" + "7c000000", "nan"), ("74" + "6cb89680", "0"),
    ("84" + "3180000000000000", "0.00"), ("84" + "31a000000000007b", "12.3"),
    ("84" + "ec7386f26fc0ffff", "-9999999999999999"),
    ("94" + "3040" + "00" * 13 + "0c", "12"), ("94" + "3041ed09bead87c0378d8e63ffffffff", "9" * 34),
])  # fmt: skip
def test_decimals_are_text(octets: str, text: str) -> None:
    """Values that are neither array, list, map nor binary become their text: a decimal has its digits and an exponent of ten.
    The coefficient is a binary integer (AMQP 1.0, 1.6.13 to 15; IEEE 754-2008, 3.5.2)."""
    entries = "a1016b" + octets
    section = f"005374c1{len(entries) // 2 + 1:02x}02" + entries
    got = convert(bytes.fromhex("005370c0020142" + section + DATA), source="amqp10", to="mqtt5", routing_key="t")
    assert got.octets == packet("2600016b" + f"{len(text):04x}" + text.encode().hex(), b"hello")
    server = convert(
        bytes.fromhex(section + DATA), source="amqp10", to="mqtt5", routing_key="t", dialect="rabbitmq-4.3"
    )
    assert [loss.what for loss in server.losses] == ["dropped"]


# ---- every row where the server deviates


def hexed(text: str) -> str:
    return text.encode().hex()


def listed(code: str, count: int, fields: str) -> str:
    """A section of AMQP 1.0 that is a list, in its short encoding: header 70, properties 73."""
    return f"0053{code}c0{len(fields) // 2 + 1:02x}{count:02x}{fields}"


def mapped(code: str, count: int, entries: str) -> str:
    """A section that is a map: message annotations 72, application properties 74."""
    size = len(entries) // 2
    if size < 255:
        return f"0053{code}c1{size + 1:02x}{count * 2:02x}{entries}"
    return f"0053{code}d1{size + 4:08x}{count * 2:08x}{entries}"


def table(entries: str) -> str:
    """A field table of AMQP 0.9.1: headers."""
    return f"{len(entries) // 2:08x}{entries}"


def publish(properties: str = "", payload: str = "70") -> str:
    size = len(properties) // 2
    rest = "000174" + f"{size:02x}" + properties + payload
    return f"30{len(rest) // 2:02x}{rest}"


P = "005375a00170"  # data: p
URN = hexed("urn:uuid:")
LOOSE = "550e-8400e29b41d4a716446655440000---"
SEQUENCE = "005373c00401a1016d"  # properties: message_id m
APPLICATION = "005374c10702a1016ba10176"  # application properties: k is v
ANNOTATIONS = "005372c10902a303782d71a10176"  # message annotations: x-q is v
PLAIN_KEY = "016b"  # k

#: (table, row): what the document says in our words, the input, what becomes of it. AMQP 0.9.1: properties, with the body p.
DEVIATIONS: dict[tuple[str, str], tuple[str, str, str]] = {
    ("amqp10>amqp091", "message_id-utf8"): (
        "a string that is a shortstr, so without NUL, is message_id; else no row is left",
        listed("73", 1, "a1026d00") + P, "0000"),
    ("amqp10>amqp091", "correlation_id-utf8"): (
        "the same for correlation_id",
        listed("73", 6, "4040404040" + "a1026300") + P, "0000"),
    ("amqp10>amqp091", "reply_to"): (
        "an address that is a shortstr is reply_to",
        listed("73", 5, "40404040" + "a10b" + hexed("/queues/%71")) + P, "0200" + "0b" + hexed("/queues/%71")),
    ("amqp10>amqp091", "group_id"): (
        "a shortstr is app_id, without NUL therefore",
        listed("73", 11, "40" * 10 + "a1026700") + P, "0000"),
    ("amqp10>amqp091", "application_properties"): (
        "keys are shortstrs, without NUL therefore",
        mapped("74", 1, "a1026b00" + "a10176") + P, "0000"),
    ("amqp10>amqp091", "annotations-x"): (
        "any annotation whose key is a shortstr that begins with x- is a header",
        mapped("72", 1, "a30a" + hexed("x-exchange") + "a10178") + P,
        "2000" + table("0a" + hexed("x-exchange") + "53" + "00000001" + "78")),
    ("amqp10>amqp091", "data-multiple"): (
        "several data sections stay encoded, type is amqp-1.0 (the payload is compared elsewhere)",
        P + P, "0020" + "08" + hexed("amqp-1.0")),
    ("amqp10>amqp091", "types/binary"): (
        "binary is binary",
        mapped("74", 1, "a1" + PLAIN_KEY + "a00176") + P, "2000" + table(PLAIN_KEY + "78" + "00000001" + "76")),
    ("amqp091>amqp10", "message_id-uuid"): (
        "a valid urn of a uuid becomes one; dashes elsewhere are not valid, and it stays text",
        "0080" + "2d" + URN + hexed(LOOSE), HEADER + listed("73", 1, "a12d" + URN + hexed(LOOSE)) + P),
    ("amqp091>amqp10", "correlation_id-uuid"): (
        "the same for correlation_id",
        "0400" + "2d" + URN + hexed(LOOSE), HEADER + listed("73", 6, "4040404040" + "a12d" + URN + hexed(LOOSE)) + P),
    ("amqp091>amqp10", "expiration"): (
        "ttl, if it can be converted to a number; else it is not converted",
        "0100" + "02" + hexed("5s"), HEADER + P),
    ("amqp091>amqp10", "reply_to"): (
        "reply_to, a string",
        "0200" + "03" + hexed("a b"), HEADER + listed("73", 5, "40404040" + "a103" + hexed("a b")) + P),
    ("amqp091>amqp10", "headers-amqp-properties"): (
        "the header x-amqp-1.0-properties is the section of properties, and no annotation",
        "2000" + table("15" + hexed("x-amqp-1.0-properties") + "78" + "00000009" + SEQUENCE), HEADER + SEQUENCE + P),
    ("amqp091>amqp10", "headers-amqp-application-properties"): (
        "the header x-amqp-1.0-application-properties is the section of application properties",
        "2000" + table("21" + hexed("x-amqp-1.0-application-properties") + "78" + "0000000c" + APPLICATION),
        HEADER + APPLICATION + P),
    ("amqp091>amqp10", "headers-amqp-annotations"): (
        "the header for annotations is that section; of a footer the document says nothing, so that header is like others",
        "2000" + table("11" + hexed("x-amqp-1.0-footer") + "78" + "0000000d" + "005378c10802a302782da10176"),
        HEADER + mapped("72", 1, "a311" + hexed("x-amqp-1.0-footer") + "a00d" + "005378c10802a302782da10176") + P),
    ("amqp091>amqp10", "payload"): (
        "the payload is one data section, whatever the type",
        "0020" + "08" + hexed("amqp-1.0"),
        HEADER + mapped("72", 1, "a30c" + hexed("x-basic-type") + "a108" + hexed("amqp-1.0")) + P),
    ("amqp091>amqp10", "types/longstr"): (
        "a longstr that is a shortstr, so of 255 octets at most, is utf8, a longer one binary",
        "2000" + table(PLAIN_KEY + "53" + "00000100" + "76" * 256),
        HEADER + mapped("74", 1, "a1" + PLAIN_KEY + "b000000100" + "76" * 256) + P),
    ("amqp091>amqp10", "types/double"): (
        "double is double, NaN too",
        "2000" + table(PLAIN_KEY + "64" + "7ff8000000000000"),
        HEADER + mapped("74", 1, "a1" + PLAIN_KEY + "82" + "7ff8000000000000") + P),
    ("amqp091>amqp10", "types/float"): (
        "float is float, infinity too",
        "2000" + table(PLAIN_KEY + "66" + "7f800000"),
        HEADER + mapped("74", 1, "a1" + PLAIN_KEY + "72" + "7f800000") + P),
    ("amqp091>amqp10", "types/table.key"): (
        "keys of tables are utf8, unless they begin with x-",
        "2000" + table("03" + hexed("x-t") + "46" + table(PLAIN_KEY + "56")),
        HEADER + mapped("72", 1, "a303" + hexed("x-t") + "c10502" + "a1" + PLAIN_KEY + "40") + P),
    ("mqtt5>amqp10", "message-expiry-interval"): (
        "the interval is ttl, in milliseconds",
        publish("02" + "00000003"), listed("70", 3, "4240" + "7000000bb8") + P),
    ("mqtt5>amqp10", "correlation-data-uuid"): (
        "a valid urn of a uuid becomes one, other octets are binary",
        publish("09" + "002d" + URN + hexed(LOOSE)), HEADER + listed("73", 6, "4040404040" + "a02d" + URN + hexed(LOOSE)) + P),
    ("mqtt5>amqp10", "payload-formatted"): (
        "a payload with Payload Format Indicator 1 is an amqp-value of utf8",
        publish("0101"), HEADER + "005377a10170"),
    ("mqtt5>amqp10", "subscription-identifier"): (
        "Subscription Identifiers are not converted",
        publish("0b07"), HEADER + P),
    ("mqtt5>amqp091", "user-property"): (
        "names are shortstrs (none deviates: MQTT has no names with NUL, and the server tests the length)",
        publish("26" + "0001" + "6b" + "0001" + "76"), "3000" + table(PLAIN_KEY + "53" + "00000001" + "76") + "01"),
    ("mqtt5>amqp091", "content-type"): (
        "a Content Type that is a shortstr is content_type, in any letters",
        publish("03" + "0002" + "c3a9"), "9000" + "02c3a9" + "01"),
    ("mqtt5>amqp091", "subscription-identifier"): (
        "Subscription Identifiers are not converted",
        publish("0b07"), "1000" + "01"),
    ("amqp10>mqtt5", "reply_to"): (
        "the address of MQTT's exchange alone is a Response Topic, whatever annotations say",
        HEADER + mapped("72", 1, "a312" + hexed("x-opt-jms-reply-to") + "5101")
        + listed("73", 5, "40404040" + "a103" + hexed("a.b")) + P,
        publish("26" + "0012" + hexed("x-opt-jms-reply-to") + "0001" + "31")),
    ("amqp10>mqtt5", "application_properties"): (
        "values that are neither array, list, map nor binary are text: a uuid too",
        HEADER + mapped("74", 1, "a1" + PLAIN_KEY + "98550e8400e29b41d4a716446655440000") + P,
        publish("26" + "0001" + "6b" + "0024" + hexed("550e8400-e29b-41d4-a716-446655440000"))),
    ("amqp10>mqtt5", "annotations-x"): (
        "the same for annotations: a character",
        HEADER + mapped("72", 1, "a303" + hexed("x-k") + "73000000e9") + P,
        publish("26" + "0003" + hexed("x-k") + "0002" + "c3a9")),
    ("amqp10>mqtt5", "amqp.value-binary"): (
        "a single amqp-value of binary is the payload",
        HEADER + "005377a00170", publish()),
    ("amqp10>mqtt5", "amqp.value-utf8"): (
        "a single amqp-value of utf8 is the payload, Payload Format Indicator is 1",
        HEADER + "005377a10170", publish("0101")),
    ("amqp091>mqtt5", "expiration"): (
        "seconds of the milliseconds; there is no limit of ten years",
        "0100" + "0c" + hexed("315360001000"), publish("02" + "12cc0301")),
    ("amqp091>mqtt5", "headers"): (
        "headers that are neither array nor table are text: binary that is text, and decimals",
        "2000" + table(PLAIN_KEY + "44" + "02" + "0000007b"), publish("26" + "0001" + "6b" + "0004" + hexed("1.23"))),
}  # fmt: skip

#: The row differs, and yet its result only for what MQTT does not let be sent.
NO_INPUT = {("mqtt5>amqp091", "user-property")}


@pytest.mark.parametrize("key", DEVIATIONS, ids=" ".join)
def test_rows_where_the_server_deviates(key: tuple[str, str]) -> None:
    source, _, to = key[0].partition(">")
    _, given, expected = DEVIATIONS[key]
    octets = bytes.fromhex(given)

    def made(dialect: str) -> str:
        message = Wire("amqp091", octets, b"p") if source == "amqp091" else octets
        got = convert(message, source=source, to=to, dialect=dialect, routing_key="t")  # type: ignore[arg-type]
        return got.octets.hex()

    assert made("documented") == expected
    if key in NO_INPUT:
        return
    try:
        assert made("rabbitmq-4.3") != expected
    except ConversionError:
        pass


def test_every_row_where_the_server_deviates_is_worked_out() -> None:
    assert DEVIATIONS.keys() == {(change.table, change.id) for change in DIALECTS["rabbitmq-4.3"].changes}


def test_keys_come_once() -> None:
    """A map of AMQP 1.0 has no key twice (1.6.23), a field table of AMQP 0.9.1 no name (4.2.5.5): the first stays, the other is
    told."""
    twice = PLAIN_KEY + "56" + PLAIN_KEY + "74" + "01"
    got = convert(
        Wire("amqp091", bytes.fromhex("2000" + table(twice + "03" + hexed("x-t") + "46" + table(twice))), b"p"),
        to="amqp10",
    )
    annotations = mapped("72", 1, "a303" + hexed("x-t") + "c10502" + "a1" + PLAIN_KEY + "40")
    assert got.octets.hex() == HEADER + annotations + mapped("74", 1, "a1" + PLAIN_KEY + "40") + P
    assert [loss.reason for loss in got.losses] == ["a second value of one key"] * 2
    typed = Wire("amqp091", bytes.fromhex("2020" + table("0c" + hexed("x-basic-type") + "56") + "01" + "74"), b"p")
    assert convert(typed, to="amqp10").octets.hex() == (
        HEADER + mapped("72", 1, "a30c" + hexed("x-basic-type") + "a10174") + P
    )
    both = mapped("72", 1, "a303" + hexed("x-k") + "41") + mapped("74", 1, "a103" + hexed("x-k") + "42") + P
    assert to_091(both)[0] == "2000" + table("03" + hexed("x-k") + "7401")


def test_what_is_no_text_there_is_dropped() -> None:
    """If `type` is not UTF-8, no annotation is written. If a key of a nested table is not UTF-8, only that key is dropped."""
    assert to_10("0020" + "01" + "ff", b"p") == HEADER + P
    keys = "01ff" + "56" + PLAIN_KEY + "56" + "03782dff" + "56"
    assert to_10("2000" + table("03" + hexed("x-t") + "46" + table(keys)), b"p") == (
        HEADER + mapped("72", 1, "a303" + hexed("x-t") + "c10502" + "a1" + PLAIN_KEY + "40") + P
    )


def test_a_section_in_a_header_is_valid() -> None:
    """Headers of the old plugin hold a whole section: one that is not valid (a message_id that is not UTF-8) is refused."""
    header = "2000" + table("15" + hexed("x-amqp-1.0-properties") + "78" + "00000009" + "005373c00401a101ff")
    with pytest.raises(ConversionError) as caught:
        convert(Wire("amqp091", bytes.fromhex(header), b"p"), to="amqp10")
    assert caught.value.rule == "amqp091>amqp10 headers-amqp-properties"


DASHES = (8, 13, 18, 23)


@pytest.mark.parametrize("dashes", [dashes for n in range(5) for dashes in combinations(DASHES, n)])
def test_a_uuid_has_its_dashes_in_their_places(dashes: tuple[int, ...]) -> None:
    """RFC 9562, section 4: 8-4-4-4-12 hexadecimal digits. Anything else behind urn:uuid: is text."""
    text = "".join("-" if i in dashes else "0123456789abcdef"[i % 16] for i in range(36))
    got = convert(
        amqp091.BasicMessage(PUBLISH, amqp091.BasicProperties(message_id=f"urn:uuid:{text}"), b"p"), to="amqp10"
    )
    assert got.message.properties.message_id == (UUID(text) if dashes == DASHES else f"urn:uuid:{text}")
