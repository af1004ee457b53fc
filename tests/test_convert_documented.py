"""The dialect `documented`: rows where the document and the server differ, octets worked out by hand from the document."""

from __future__ import annotations

import pytest

from wirefmt.convert import Container, convert
from wirefmt.errors import ConversionError

DATA = "005375a00568656c6c6f"  # data: hello
HEADER = "005370c0020142"  # durable false, as an AMQP 0.9.1 message without delivery_mode has it


def to_091(sections: str) -> tuple[str, bytes | None]:
    got = convert(bytes.fromhex(sections), source="amqp10", to="amqp091")
    return got.octets.hex(), got.body


def to_10(properties: str, body: bytes = b"hello") -> str:
    return convert((bytes.fromhex(properties), body), to="amqp10").octets.hex()


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
    ("m" * 256, "0000"),
    ("m" * 257, "2000" + "00000113" + "0c" + b"x-message-id".hex() + "53" + "00000101" + "6d" * 257),
])  # fmt: skip
def test_message_id_is_a_short_string_or_longer_than_256_octets(text: str, properties: str) -> None:
    """utf8 that is a shortstr is message_id, of more than 256 octets the header x-message-id; else no row is left."""
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
        convert((bytes.fromhex("010003616263"), b""), to="amqp10", dialect="rabbitmq-4.3")
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
        convert(octets, source="amqp10", to="mqtt5", lossless=True)
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
