"""MQTT 3.1, statement by statement: everything the specification (IBM and Eurotech, 2010) says about octets.

Cases name the section they come from: `2.1 DUP` is what section 2.1 says of the DUP flag; `A` is appendix A. The octets
are those of its own tables and examples, or written by hand from its words.
"""

from __future__ import annotations

from typing import Any

import pytest

from lib.kinds import checked
from lib.mqtt_cases import Case, Read, Refused, parameters, run, x
from lib.wire import packet, varint
from lib.wire import string as s
from wirefmt import mqtt
from wirefmt.errors import DecodeError, EncodeError, Unsupported
from wirefmt.framing import NEED_DATA

V3: dict[str, Any] = {"version": 3}


def connect(
    flags: int, *payload: bytes, name: bytes | None = None, version: int = 3, keep_alive: str = "000a"
) -> bytes:
    return packet(0x10, s("MQIsdp") if name is None else name, bytes([version, flags]), x(keep_alive), *payload)


def publish(first: int = 0x30, topic: bytes | str = "a/b", identifier: str = "000a", payload: bytes = b"") -> bytes:
    return packet(first, s(topic), x(identifier) if first & 6 else b"", payload)


#: 2.1, table of message types: the number, its mnemonic, and the smallest message of the type that chapter 3 allows.
MESSAGE_TYPES: list[tuple[int, str, bytes]] = [
    (1, "CONNECT", connect(0, s("c"))),
    (2, "CONNACK", x("20 02 00 00")),
    (3, "PUBLISH", x("30 03 0001 61")),
    (4, "PUBACK", x("40 02 0001")),
    (5, "PUBREC", x("50 02 0001")),
    (6, "PUBREL", x("62 02 0001")),
    (7, "PUBCOMP", x("70 02 0001")),
    (8, "SUBSCRIBE", x("82 06 0001 0001 61 00")),
    (9, "SUBACK", x("90 03 0001 00")),
    (10, "UNSUBSCRIBE", x("a2 05 0001 0001 61")),
    (11, "UNSUBACK", x("b0 02 0001")),
    (12, "PINGREQ", x("c0 00")),
    (13, "PINGRESP", x("d0 00")),
    (14, "DISCONNECT", x("e0 00")),
]
SMALLEST = {name: octets for _, name, octets in MESSAGE_TYPES}

CASES: list[Case] = [
    # ---- 2.1 fixed header: message type in bits 7-4, DUP in bit 3, QoS in bits 2-1, RETAIN in bit 0
    *(Read("2.1 message type", name, octets) for _, name, octets in MESSAGE_TYPES),
    Refused("2.1 message type", "0 is reserved", x("00 00"), spec="2.1", path="packet_type"),
    Refused("2.1 message type", "15 is reserved", x("f0 00"), spec="2.1", path="packet_type"),
    Read("2.1 DUP", "PUBLISH, first", publish(0x32), {"dup": False}),
    Read("2.1 DUP", "PUBLISH, again, with a message id", publish(0x3A), {"dup": True, "packet_identifier": 10}),
    Read("2.1 DUP", "PUBREL", x("6a 02 0001"), {"dup": True, "packet_identifier": 1}),
    Read("2.1 DUP", "SUBSCRIBE", x("8a 06 0001 0001 61 00"), {"dup": True, "packet_identifier": 1}),
    Read("2.1 DUP", "UNSUBSCRIBE", x("aa 05 0001 0001 61"), {"dup": True, "packet_identifier": 1}),
    Read("2.1 QoS", "0", publish(0x30), {"qos": 0, "packet_identifier": None}),
    Read("2.1 QoS", "1", publish(0x32), {"qos": 1, "packet_identifier": 10}),
    Read("2.1 QoS", "2", publish(0x34), {"qos": 2, "packet_identifier": 10}),
    Refused("2.1 QoS", "3 is reserved", publish(0x36), spec="2.1", path="qos"),
    Refused("2.1 QoS", "3 is reserved, DUP and RETAIN set", publish(0x3F), spec="2.1", path="qos"),
    Read("2.1 RETAIN", "0", publish(0x30), {"retain": False}),
    Read("2.1 RETAIN", "1", publish(0x31), {"retain": True}),
    Read("2.1 RETAIN", "1 and no payload: the retained message is to go", publish(0x31), {"payload": b""}),
    Read("2.1 big-endian", "message id", publish(0x32, identifier="0102"), {"packet_identifier": 258}),
    # ---- 2.1 remaining length
    Read("2.1 remaining length", "one octet", publish(payload=bytes(122)), {"payload": bytes(122)}),
    Read("2.1 remaining length", "two octets", publish(payload=bytes(123)), {"payload": bytes(123)}),
    Read("2.1 remaining length", "three octets", publish(payload=bytes(16379)), {"payload": bytes(16379)}),
    Read("2.1 remaining length", "four octets", publish(payload=bytes(2097147)), {"payload": bytes(2097147)}),
    Read("2.1 remaining length", "321 = 0xC1 0x02", x("30 c102 0001 61") + bytes(318), {"payload": bytes(318)}),
    Read("2.1 remaining length", "64 = 0x40", x("30 40 0001 61") + bytes(61), {"payload": bytes(61)}),
    Refused("2.1 remaining length", "five octets", x("30 8080808001"), spec="2.1"),
    # ---- 2.2 variable header: protocol name and version
    Read("2.2 protocol name", "MQIsdp", connect(2, s("c")), {"protocol_name": "MQIsdp"}),
    Read("2.2 protocol version", "3", connect(2, s("c")), {"protocol_version": 3}),
    Refused("2.2 protocol name", "not capitalised as shown", connect(2, s("c"), name=s("mqisdp")), spec="3.1"),
    Refused("2.2 protocol name", "another", connect(2, s("c"), name=s("MQISDP")), spec="3.1"),
    Refused("2.2 protocol version", "2", connect(2, s("c"), version=2), spec="3.1", path="protocol_version"),
    Refused("2.2 protocol version", "6", connect(2, s("c"), version=6), spec="3.1", path="protocol_version"),
    # ---- 2.2 connect flags, one table each
    Read("2.2 clean session", "bit 1 set", connect(0x02, s("c")), {"clean_session": True, "connect_flags": 2}),
    Read("2.2 clean session", "bit 1 not set", connect(0x00, s("c")), {"clean_session": False, "connect_flags": 0}),
    Read(
        "2.2 will",
        "bit 2 set: topic and message follow",
        connect(0x04, s("c"), s("w/t"), s("gone")),
        {"will.topic": "w/t", "will.payload": b"gone", "will.qos": 0, "will.retain": False},
    ),
    Read("2.2 will", "bit 2 not set", connect(0x00, s("c")), {"will": None}),
    Refused("2.2 will", "set, topic and message missing", connect(0x04, s("c")), spec="2.2"),
    Refused("2.2 will", "set, message missing", connect(0x04, s("c"), s("w/t")), spec="2.2"),
    *(
        Read("2.2 will QoS", f"bits 4-3 are {q}", connect(4 | q << 3, s("c"), s("w"), s("m")), {"will.qos": q})
        for q in range(3)
    ),
    Refused("2.2 will QoS", "3 is not a value", connect(0x1C, s("c"), s("w"), s("m")), spec="2.1", path="will.qos"),
    Read("2.2 will QoS", "1, ignored without will flag", connect(0x08, s("c")), {"will": None, "connect_flags": 8}),
    Read("2.2 will QoS", "2, ignored without will flag", connect(0x10, s("c")), {"will": None, "connect_flags": 16}),
    Read("2.2 will QoS", "3, ignored without will flag", connect(0x18, s("c")), {"will": None, "connect_flags": 24}),
    Read("2.2 will retain", "bit 5 set", connect(0x24, s("c"), s("w"), s("m")), {"will.retain": True, "will.qos": 0}),
    Read("2.2 will retain", "ignored without will flag", connect(0x20, s("c")), {"will": None, "connect_flags": 0x20}),
    Read("2.2 user name", "bit 7 set", connect(0x80, s("c"), s("u")), {"user_name": "u", "password": None}),
    Read("2.2 password", "bits 7 and 6 set", connect(0xC0, s("c"), s("u"), s("p")), {"password": b"p"}),
    Refused("2.2 password", "without user name is not valid", connect(0x40, s("c"), s("p")), spec="3.1"),
    Read("2.2 connect flags", "bit 0 is not used", connect(0x03, s("c")), {"clean_session": True}),
    # ---- 2.2 keep alive timer
    Read("2.2 keep alive", "MSB, LSB", connect(2, s("c"), keep_alive="0102"), {"keep_alive": 258}),
    Read("2.2 keep alive", "zero", connect(2, s("c"), keep_alive="0000"), {"keep_alive": 0}),
    Read("2.2 keep alive", "about 18 hours", connect(2, s("c"), keep_alive="ffff"), {"keep_alive": 65535}),
    # ---- 2.2 connect return code
    *(Read("2.2 return code", str(c), bytes([0x20, 2, 0, c]), {"return_code": c}) for c in range(6)),
    *(Refused("2.2 return code", f"{c} is reserved", bytes([0x20, 2, 0, c]), spec="3.2") for c in (6, 7, 0x80, 255)),
    # ---- 2.2 topic name
    Read("2.2 topic name", "32,767 characters", publish(topic="x" * 32767), {"topic_name": "x" * 32767}),
    # ---- 2.3 payload
    Read("2.3 payload", "a BLOB", publish(payload=b"\x00\xff\xed\xa0\x80"), {"payload": b"\x00\xff\xed\xa0\x80"}),
    # ---- 2.4 message identifier
    Read("2.4 message id", "not in QoS 0", x("30 05 0001 61 000a"), {"packet_identifier": None, "payload": b"\0\n"}),
    *(
        Read("2.4 message id", f"in {name}", octets[: k] + x("fffe") + octets[k + 2 :], {"packet_identifier": 65534})
        for name, k in (("PUBACK", 2), ("PUBREC", 2), ("PUBREL", 2), ("PUBCOMP", 2), ("SUBSCRIBE", 2), ("SUBACK", 2),
                        ("UNSUBSCRIBE", 2), ("UNSUBACK", 2))
        for octets in (SMALLEST[name],)
    ),
    Read("2.4 message id", "in PUBLISH of QoS 1", publish(0x32, identifier="fffe"), {"packet_identifier": 65534}),
    Read("2.4 message id", "in PUBLISH of QoS 2", publish(0x34, identifier="fffe"), {"packet_identifier": 65534}),
    Refused("2.4 message id", "0 in PUBLISH", publish(0x32, identifier="0000"), spec="2.4", path="packet_identifier"),
    *(
        Refused("2.4 message id", f"0 in {name}", octets[:2] + x("0000") + octets[4:], "2.4", "packet_identifier")
        for name in ("PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK")
        for octets in (SMALLEST[name],)
    ),
    # ---- 2.5 UTF-8
    Read("2.5 strings", "OTWP", packet(0x30, x("00 04 4f 54 57 50")), {"topic_name": "OTWP"}),
    Read("2.5 strings", "octets are counted", packet(0x30, x("0005 e4b8ad c3a9")), {"topic_name": "中é"}),
    Refused("2.5 strings", "not UTF-8", packet(0x30, x("0002 61ff")), spec="2.5", path="topic_name"),
    Refused("2.5 strings", "longer than the message", packet(0x30, x("0005 61")), spec="2.1", path="topic_name"),
    # ---- 3.1 CONNECT
    Read(
        "3.1 CONNECT",
        "the example's variable header",
        packet(
            0x10,
            x("00 06 4d 51 49 73 64 70  03  ce  00 0a"),  # bits 7, 6, QoS 01, will, clean session; bit 0 is not used
            s("client"),
            s("will/topic"),
            s("will message"),
            s("user"),
            s("pass"),
        ),
        {
            "protocol_name": "MQIsdp",
            "protocol_version": 3,
            "connect_flags": 0xCE,
            "clean_session": True,
            "keep_alive": 10,
            "client_identifier": "client",
            "will.topic": "will/topic",
            "will.payload": b"will message",
            "will.qos": 1,
            "will.retain": False,
            "user_name": "user",
            "password": b"pass",
        },
    ),
    Read("3.1 remaining length", "12 + payload", x("10 0f 00064d5149736470 03 02 000a 000163"), {"keep_alive": 10}),
    Read("3.1 client identifier", "one character", connect(2, s("c")), {"client_identifier": "c"}),
    Read("3.1 client identifier", "23 characters", connect(2, s("c" * 23)), {"client_identifier": "c" * 23}),
    Read("3.1 client identifier", "24: an answer of 2, not bad octets", connect(2, s("c" * 24)), {"connect_flags": 2}),
    Refused("3.1 client identifier", "missing", connect(2), spec="3.1"),
    Read("3.1 will message", "zero length", connect(6, s("c"), s("w"), s("")), {"will.payload": b""}),
    Read(
        "3.1 user name",
        "flag set and string missing is valid",
        connect(0x82, s("c")),
        {"user_name": None, "connect_flags": 0x82, "client_identifier": "c"},
    ),
    Read(
        "3.1 user name",
        "flag set and string missing after a will",
        connect(0x86, s("c"), s("w"), s("m")),
        {"user_name": None, "will.payload": b"m"},
    ),
    Refused("3.1 user name", "half a string", connect(0x82, s("c"), x("00")), spec="2.1", path="user_name"),
    Read(
        "3.1 password",
        "flag set and string missing is valid",
        connect(0xC2, s("c"), s("u")),
        {"user_name": "u", "password": None, "connect_flags": 0xC2},
    ),
    Read(
        "3.1 password",
        "both flags set and both strings missing",
        connect(0xC2, s("c")),
        {"user_name": None, "password": None, "connect_flags": 0xC2},
    ),
    Refused("3.1 password", "cut off", connect(0xC2, s("c"), s("u"), x("0002 70")), spec="2.1", path="password"),
    # ---- 3.2 CONNACK
    Read("3.2 CONNACK", "accepted", x("20 02 00 00"), {"return_code": 0}),
    Refused("3.2 CONNACK", "remaining length 1", x("20 01 00"), spec="2.1"),
    # ---- 3.3 PUBLISH
    Read(
        "3.3 PUBLISH",
        "the example: a/b, QoS 1, message id 10",
        x("32 07  00 03 61 2f 62  00 0a"),
        {"dup": False, "qos": 1, "retain": False, "topic_name": "a/b", "packet_identifier": 10, "payload": b""},
    ),
    *(Refused("3.3 PUBLISH", f"wildcard in {t}", publish(topic=t), spec="A") for t in ("a/#", "+", "a/+/b", "#")),
    Refused("3.3 PUBLISH", "no message id", x("32 03 0001 61"), spec="2.1", path="packet_identifier"),
    # ---- 3.4 to 3.7
    Read("3.4 PUBACK", "message id", x("40 02 000a"), {"packet_identifier": 10}),
    Read("3.5 PUBREC", "message id", x("50 02 000a"), {"packet_identifier": 10}),
    Read("3.6 PUBREL", "QoS 1 in the header", x("62 02 000a"), {"packet_identifier": 10, "dup": False}),
    *(Refused("3.6 PUBREL", f"QoS {f >> 1 & 3}", bytes([0x60 | f, 2, 0, 10]), spec="3.6") for f in (0, 4, 6, 8, 12)),
    Read("3.7 PUBCOMP", "message id", x("70 02 000a"), {"packet_identifier": 10}),
    *(Refused(f"{section} {name}", "one octet", bytes([first, 1, 0]), spec="2.1", path="packet_identifier")
      for section, name, first in (("3.4", "PUBACK", 0x40), ("3.5", "PUBREC", 0x50), ("3.6", "PUBREL", 0x62),
                                   ("3.7", "PUBCOMP", 0x70))),
    # ---- 3.8 SUBSCRIBE
    Read(
        "3.8 SUBSCRIBE",
        "the example: a/b QoS 1, c/d QoS 2, message id 10",
        x("82 0e  00 0a  00 03 61 2f 62 01  00 03 63 2f 64 02"),
        {
            "dup": False,
            "packet_identifier": 10,
            "subscriptions.0.topic_filter": "a/b",
            "subscriptions.0.qos": 1,
            "subscriptions.1.topic_filter": "c/d",
            "subscriptions.1.qos": 2,
        },
    ),
    Read("3.8 SUBSCRIBE", "wildcards", packet(0x82, x("000a"), s("+/b/#"), x("00")), {"subscriptions.0.qos": 0}),
    Refused("3.8 SUBSCRIBE", "both QoS bits set", packet(0x82, x("000a"), s("a"), x("03")), spec="3.8"),
    Refused("3.8 SUBSCRIBE", "no QoS", packet(0x82, x("000a"), s("a")), spec="2.1"),
    *(Refused("3.8 SUBSCRIBE", f"header QoS {f >> 1 & 3}", packet(0x80 | f, x("000a"), s("a"), x("00")), spec="3.8")
      for f in (0, 4, 6, 8)),
    # ---- 3.9 SUBACK
    Read("3.9 SUBACK", "the example: granted 0 and 2", x("90 04  00 0a  00 02"),
         {"packet_identifier": 10, "return_codes": (0, 2)}),
    Refused("3.9 SUBACK", "granted 3", x("90 03 000a 03"), spec="3.9"),
    # ---- 3.10 UNSUBSCRIBE
    Read(
        "3.10 UNSUBSCRIBE",
        "the example: a/b, c/d, message id 10",
        x("a2 0c  00 0a  00 03 61 2f 62  00 03 63 2f 64"),
        {"dup": False, "packet_identifier": 10, "topic_filters": ("a/b", "c/d")},
    ),
    *(Refused("3.10 UNSUBSCRIBE", f"header QoS {f >> 1 & 3}", packet(0xA0 | f, x("000a"), s("a")), spec="3.10")
      for f in (0, 4, 6, 8)),
    # ---- 3.11 to 3.14
    Read("3.11 UNSUBACK", "message id", x("b0 02 000a"), {"packet_identifier": 10}),
    Read("3.12 PINGREQ", "remaining length 0", x("c0 00")),
    Read("3.13 PINGRESP", "remaining length 0", x("d0 00")),
    Read("3.14 DISCONNECT", "remaining length 0", x("e0 00")),
    # ---- appendix A
    Refused("A topics", "at least one character: name", publish(topic=""), spec="A"),
    Refused("A topics", "at least one character: filter", packet(0x82, x("000a"), s(""), x("00")), spec="A"),
    Refused("A topics", "no null character: name", publish(topic="a\0"), spec="A"),
    Refused("A topics", "no null character: filter", packet(0xA2, x("000a"), s("\0")), spec="A"),
    Refused("A topics", "no null character: will", connect(6, s("c"), s("a\0"), s("")), spec="A"),
    Read("A topics", "64k", publish(topic="x" * 65535), {"topic_name": "x" * 65535}),
    Read("A topics", "a space", publish(topic="Accounts payable"), {"topic_name": "Accounts payable"}),
    *(Refused("A wildcards", f"{t} in SUBSCRIBE", packet(0x82, x("000a"), s(t), x("00")), spec="A")
      for t in ("finance#", "finance/#/closingprice", "finance+")),
    *(Refused("A wildcards", f"{t} in UNSUBSCRIBE", packet(0xA2, x("000a"), s(t)), spec="A")
      for t in ("finance#", "finance/#/closingprice", "finance+")),
    *(Read("A wildcards", t, packet(0x82, x("000a"), s(t), x("00")), {"subscriptions.0.topic_filter": t})
      for t in ("#", "finance/#", "+", "finance/+", "finance/+/ibm", "/+", "+/+")),
]  # fmt: skip

SECTIONS = """
2.1 message type, 2.1 DUP, 2.1 QoS, 2.1 RETAIN, 2.1 big-endian, 2.1 remaining length, 2.2 protocol name, 2.2
protocol version, 2.2 clean session, 2.2 will, 2.2 will QoS, 2.2 will retain, 2.2 user name, 2.2 password, 2.2
connect flags, 2.2 keep alive, 2.2 return code, 2.2 topic name, 2.3 payload, 2.4 message id, 2.5 strings, 3.1
CONNECT, 3.1 remaining length, 3.1 client identifier, 3.1 will message, 3.1 user name, 3.1 password, 3.2
CONNACK, 3.3 PUBLISH, 3.4 PUBACK, 3.5 PUBREC, 3.6 PUBREL, 3.7 PUBCOMP, 3.8 SUBSCRIBE, 3.9 SUBACK, 3.10
UNSUBSCRIBE, 3.11 UNSUBACK, 3.12 PINGREQ, 3.13 PINGRESP, 3.14 DISCONNECT, A topics, A wildcards
"""


@pytest.mark.parametrize("case", parameters(CASES))
def test_statement(case: Case) -> None:
    run(case, 3)


def test_every_section_has_a_case() -> None:
    assert {case.id for case in CASES} == {" ".join(name.split()) for name in SECTIONS.split(",")}


# ---- 2.1: the table and the algorithms of the remaining length


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("00", 0),
        ("7f", 127),
        ("80 01", 128),
        ("ff 7f", 16_383),
        ("80 80 01", 16_384),
        ("ff ff 7f", 2_097_151),
        ("80 80 80 01", 2_097_152),
        ("ff ff ff 7f", 268_435_455),
        ("40", 64),
        ("c1 02", 321),
    ],
)
def test_2_1_remaining_length_table(octets: str, value: int) -> None:
    """Both columns of the table; 64 and 321 = 65 + 2 * 128 are the text's own examples."""
    wire = x(octets)
    assert mqtt.frame_size(b"\x30" + wire) == 1 + len(wire) + value
    assert varint(value) == wire
    for cut in range(len(wire)):
        assert mqtt.frame_size(b"\x30" + wire[:cut]) is NEED_DATA


def test_2_1_remaining_length_of_what_we_write() -> None:
    for size in (0, 60, 124, 125, 316, 16_380, 16_381, 2_097_148, 2_097_149):
        octets = mqtt.Publish(topic_name="a", payload=bytes(size), version=3).encode()
        assert octets == packet(0x30, s("a"), bytes(size))


def test_2_1_remaining_length_has_at_most_four_octets() -> None:
    for wire in ("80 80 80 80", "ff ff ff ff", "ff ff ff 80 00"):
        with pytest.raises(DecodeError) as error:
            mqtt.frame_size(b"\x30" + x(wire))
        assert error.value.path == "remaining_length"
        with pytest.raises(DecodeError) as error:
            mqtt.decode(b"\x30" + x(wire), **V3)
        assert error.value.spec == "2.1"


# ---- 2.2: protocol versions


def test_2_2_another_version_is_told_apart_from_bad_octets() -> None:
    """3.1: the server may answer return code 1; the octets are those of some other protocol, not broken ones."""
    with pytest.raises(Unsupported):
        mqtt.decode(connect(2, s("c"), version=7), **V3)


# ---- 2.6 and 3: bits that are not used


def unused(first: int, mask: int) -> list[int]:
    return [first | bits for bits in range(1, 16) if bits & ~mask == 0]


UNUSED = {
    "CONNECT": unused(0x10, 0xF),
    "CONNACK": unused(0x20, 0xF),
    "PUBACK": unused(0x40, 0xF),
    "PUBREC": unused(0x50, 0xF),
    "PUBREL": unused(0x62, 0x1),
    "PUBCOMP": unused(0x70, 0xF),
    "SUBSCRIBE": unused(0x82, 0x1),
    "SUBACK": unused(0x90, 0xF),
    "UNSUBSCRIBE": unused(0xA2, 0x1),
    "UNSUBACK": unused(0xB0, 0xF),
    "PINGREQ": unused(0xC0, 0xF),
    "PINGRESP": unused(0xD0, 0xF),
    "DISCONNECT": unused(0xE0, 0xF),
}


@pytest.mark.parametrize("name", UNUSED)
def test_3_unused_bits_of_the_fixed_header_are_not_looked_at(name: str) -> None:
    """The bits that the tables of chapter 3 print as X."""
    octets = SMALLEST[name]
    plain: Any = mqtt.decode(octets, **V3)
    for first in UNUSED[name]:
        message: Any = mqtt.decode(bytes([first]) + octets[1:], **V3)
        assert type(message) is type(plain)
        for field in plain.__match_args__:
            if field != "flags":
                assert getattr(message, field) == getattr(plain, field), field


@pytest.mark.parametrize("name", SMALLEST)
def test_2_6_unused_bits_are_written_as_zero(name: str) -> None:
    """2.6, and the fixed headers of chapter 3: what we write of each message has its first octet as printed, X as 0."""
    made: dict[str, Any] = {
        "CONNECT": mqtt.Connect(client_identifier="c", clean_start=False, keep_alive=10, version=3),
        "CONNACK": mqtt.Connack(reason_code=0, version=3),
        "PUBLISH": mqtt.Publish(topic_name="a", version=3),
        "PUBACK": mqtt.Puback(packet_identifier=1, version=3),
        "PUBREC": mqtt.Pubrec(packet_identifier=1, version=3),
        "PUBREL": mqtt.Pubrel(packet_identifier=1, version=3),
        "PUBCOMP": mqtt.Pubcomp(packet_identifier=1, version=3),
        "SUBSCRIBE": mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("a")], version=3),
        "SUBACK": mqtt.Suback(packet_identifier=1, reason_codes=[0], version=3),
        "UNSUBSCRIBE": mqtt.Unsubscribe(packet_identifier=1, topic_filters=["a"], version=3),
        "UNSUBACK": mqtt.Unsuback(packet_identifier=1, version=3),
        "PINGREQ": mqtt.Pingreq(version=3),
        "PINGRESP": mqtt.Pingresp(version=3),
        "DISCONNECT": mqtt.Disconnect(version=3),
    }
    assert made[name].encode() == SMALLEST[name]


def test_3_2_the_reserved_octet_of_connack_is_not_looked_at() -> None:
    for octet in (0x00, 0x01, 0xFF):
        assert checked(mqtt.decode(bytes([0x20, 2, octet, 0]), **V3), mqtt.Connack).return_code == 0


def test_3_8_unused_bits_of_the_requested_qos_are_not_looked_at() -> None:
    for bits in (0x04, 0x80, 0xFC):
        message = checked(mqtt.decode(packet(0x82, x("000a"), s("a"), bytes([bits | 1])), **V3), mqtt.Subscribe)
        assert message.subscriptions[0].qos == 1


def test_3_9_unused_bits_of_the_granted_qos() -> None:
    """2.6 wants them zero, and what 3.1.1 made of one of them (0x80, failure) is not a granted QoS: LAX lets them pass."""
    for bits in (0x04, 0x40, 0x7C, 0x80):
        octets = bytes([0x90, 3, 0, 10, bits | 2])
        with pytest.raises(DecodeError):
            mqtt.decode(octets, **V3)
        assert checked(mqtt.decode(octets, **V3, strictness="lax"), mqtt.Suback).return_codes[0] & 3 == 2


# ---- 2.4: what we write never bears message id 0


def test_2_4_message_id_0_is_not_written() -> None:
    for build in (
        lambda: mqtt.Publish(topic_name="a", qos=1, packet_identifier=0, version=3),
        lambda: mqtt.Puback(packet_identifier=0, version=3),
        lambda: mqtt.Subscribe(packet_identifier=0, subscriptions=[mqtt.Subscription("a")], version=3),
    ):
        with pytest.raises(EncodeError):
            build().encode()


# ---- appendix A: matching


@pytest.mark.parametrize(
    ("filter", "topic", "expected"),
    [
        ("finance/stock/ibm/#", "finance/stock/ibm", True),
        ("finance/stock/ibm/#", "finance/stock/ibm/closingprice", True),
        ("finance/stock/ibm/#", "finance/stock/ibm/currentprice", True),
        ("finance/#", "finance", True),
        ("finance/stock/+", "finance/stock/ibm", True),
        ("finance/stock/+", "finance/stock/xyz", True),
        ("finance/stock/+", "finance/stock/ibm/closingprice", False),
        ("finance/+", "finance", False),
        ("finance/+", "finance/", True),
        ("finance/+/ibm", "finance/stock/ibm", True),
        ("ACCOUNTS", "Accounts", False),
        ("Accounts payable", "Accounts payable", True),
        ("finance", "/finance", False),
        ("/finance", "finance", False),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        # there is no rule for names that start with $
        ("#", "$SYS/broker", True),
        ("+/broker", "$SYS/broker", True),
    ],
)
def test_A_matching(filter: str, topic: str, expected: bool) -> None:
    assert mqtt.matches(filter, topic, version=3) is expected


@pytest.mark.parametrize(
    "filter", ["#", "finance/#", "+", "finance/+", "finance/+/ibm", "finance/+/#", "/", "a" * 65535]
)
def test_A_valid_filters(filter: str) -> None:
    mqtt.validate_topic_filter(filter, version=3)


@pytest.mark.parametrize("filter", ["finance#", "finance/#/closingprice", "finance+", "", "a\0", "a" * 65536])
def test_A_filters_that_are_not_valid(filter: str) -> None:
    with pytest.raises(EncodeError, match="appendix A"):
        mqtt.validate_topic_filter(filter, version=3)


def test_A_any_number_of_levels() -> None:
    deep = "/" * 65535
    assert mqtt.matches("#", deep, version=3)
    assert mqtt.matches(deep, deep, version=3)
    assert checked(mqtt.decode(publish(topic=deep), **V3), mqtt.Publish).topic_name == deep
