"""MQTT 3.1.1: every normative statement that octets can show.

Octets are written by hand from the standard (OASIS, 29 October 2014). Each case names the statement it is for.
"""

# ruff: noqa: SIM905 (columns of numbers read best as text)

from __future__ import annotations

import pytest

from lib.mqtt_cases import BAD_STRINGS, Case, Read, Refused, parameters, run, x
from lib.wire import packet
from lib.wire import string as s

#: Statements of appendix B that concern the octets of one packet. The id of 3-8.3-4 is printed with that hyphen.
STATEMENTS = """
1.5.3-1 1.5.3-2 1.5.3-3 2.2.2-1 2.2.2-2 2.3.1-1 2.3.1-5
3.1.2-1 3.1.2-2 3.1.2-3 3.1.2-9 3.1.2-11 3.1.2-13 3.1.2-14 3.1.2-15 3.1.2-18 3.1.2-19 3.1.2-20 3.1.2-21 3.1.2-22
3.1.3-1 3.1.3-3 3.1.3-4 3.1.3-10 3.1.3-11 3.1.4-1 3.2.2-4
3.3.1-2 3.3.1-4 3.3.2-1 3.3.2-2 3.6.1-1 3.8.1-1 3.8.3-1 3.8.3-3 3-8.3-4 3.9.3-2 3.10.1-1 3.10.3-1 3.10.3-2 3.14.1-1
4.7.1-1 4.7.1-2 4.7.1-3 4.7.3-1 4.7.3-2 4.7.3-3
""".split()


def connect(flags: int, *payload: bytes, name: bytes | None = None, level: int = 4) -> bytes:
    return packet(0x10, s("MQTT") if name is None else name, bytes([level, flags]), x("003c"), *payload)


def publish(first: int = 0x30, topic: bytes | str = "a/b", identifier: str = "000a") -> bytes:
    return packet(first, s(topic), x(identifier) if first & 6 else b"", b"!")


def subscribe(*filters: bytes, first: int = 0x82, identifier: str = "000a") -> bytes:
    return packet(first, x(identifier), *filters)


def unsubscribe(*filters: bytes, first: int = 0xA2, identifier: str = "000a") -> bytes:
    return packet(first, x(identifier), *filters)


#: Packets with fixed flags (table 2.2), flags set right, by first octet.
FIXED_FLAGS = {
    "CONNECT": connect(2, s("a")),
    "CONNACK": x("20 02 00 00"),
    "PUBACK": x("40 02 00 0a"),
    "PUBREC": x("50 02 00 0a"),
    "PUBCOMP": x("70 02 00 0a"),
    "SUBACK": x("90 03 00 0a 00"),
    "UNSUBACK": x("b0 02 00 0a"),
    "PINGREQ": x("c0 00"),
    "PINGRESP": x("d0 00"),
}

CASES: list[Case] = [
    # ---- 1.5: data representations
    *(Refused("MQTT-1.5.3-1", name, publish(topic=octets), path="topic_name") for name, octets in BAD_STRINGS.items()),
    Refused("MQTT-1.5.3-2", "in a topic", publish(topic="a\0b"), path="topic_name"),
    Refused("MQTT-1.5.3-2", "in a client identifier", connect(2, s("\0")), path="client_identifier"),
    Read("MQTT-1.5.3-3", "first", publish(topic=x("efbbbf 61")), {"topic_name": "\ufeffa"}),
    Read("MQTT-1.5.3-3", "within", publish(topic=x("61 efbbbf 62")), {"topic_name": "a\ufeffb"}),
    # ---- 2: packet format
    *(Read("MQTT-2.2.2-1", name, octets) for name, octets in FIXED_FLAGS.items()),
    *(
        Refused("MQTT-2.2.2-2", f"{name} {flag:04b}", bytes([octets[0] | flag]) + octets[1:], path="flags")
        for name, octets in FIXED_FLAGS.items()
        for flag in (1, 2, 4, 8)
    ),
    Refused("MQTT-2.3.1-1", "PUBLISH", publish(0x32, identifier="0000"), path="packet_identifier"),
    Refused("MQTT-2.3.1-1", "SUBSCRIBE", subscribe(s("a"), x("00"), identifier="0000"), path="packet_identifier"),
    Refused("MQTT-2.3.1-1", "UNSUBSCRIBE", unsubscribe(s("a"), identifier="0000"), path="packet_identifier"),
    Read("MQTT-2.3.1-1", "the largest", publish(0x34, identifier="ffff"), {"packet_identifier": 65535}),
    Read("MQTT-2.3.1-5", "none", x("30 04 0001 61 21"), {"packet_identifier": None, "payload": b"!"}),
    Read("MQTT-2.3.1-5", "the payload follows", x("30 05 0001 61 000a"), {"payload": b"\x00\x0a"}),
    # ---- 3.1: CONNECT
    Refused("MQTT-3.1.2-1", "lower case", connect(2, s("a"), name=s("mqtt")), path="protocol_name"),
    Refused("MQTT-3.1.2-1", "the name of 3.1", connect(2, s("a"), name=s("MQIsdp")), path="protocol_name"),
    Refused("MQTT-3.1.2-2", "6", connect(2, s("a"), level=6), path="protocol_version"),
    Refused("MQTT-3.1.2-2", "0", connect(2, s("a"), level=0), path="protocol_version"),
    Read("MQTT-3.1.2-2", "4", connect(2, s("a")), {"protocol_version": 4, "protocol_name": "MQTT"}),
    Refused("MQTT-3.1.2-3", "1", connect(3, s("a"))),
    Read("MQTT-3.1.2-9", "there", connect(0x06, s("a"), s("w"), s("")), {"will.topic": "w", "will.payload": b""}),
    Refused("MQTT-3.1.2-9", "no topic", connect(0x06, s("a"))),
    Refused("MQTT-3.1.2-9", "no message", connect(0x06, s("a"), s("w"))),
    Read("MQTT-3.1.2-11", "no will", connect(0x02, s("a")), {"will": None}),
    Refused("MQTT-3.1.2-11", "Will QoS", connect(0x0A, s("a")), spec="MQTT-3.1.2-13"),
    Refused("MQTT-3.1.2-11", "will fields", connect(0x02, s("a"), s("w"), s("m")), spec="MQTT-3.1.2-18"),
    Refused("MQTT-3.1.2-13", "1", connect(0x0A, s("a"))),
    Refused("MQTT-3.1.2-13", "2", connect(0x12, s("a"))),
    Refused("MQTT-3.1.2-14", "3", connect(0x1E, s("a"), s("w"), s(""))),
    *(Read("MQTT-3.1.2-14", str(q), connect(6 | q << 3, s("a"), s("w"), s("")), {"will.qos": q}) for q in range(3)),
    Refused("MQTT-3.1.2-15", "1", connect(0x22, s("a"))),
    Read("MQTT-3.1.2-15", "with will", connect(0x26, s("a"), s("w"), s("")), {"will.retain": True}),
    Refused("MQTT-3.1.2-18", "there", connect(0x02, s("a"), s("user"))),
    Read("MQTT-3.1.2-18", "not there", connect(0x02, s("a")), {"user_name": None}),
    Refused("MQTT-3.1.2-19", "not there", connect(0x82, s("a"))),
    Read("MQTT-3.1.2-19", "there", connect(0x82, s("a"), s("")), {"user_name": ""}),
    Refused("MQTT-3.1.2-20", "there", connect(0x82, s("a"), s("user"), s("word"))),
    Read("MQTT-3.1.2-20", "not there", connect(0x82, s("a"), s("user")), {"password": None}),
    Refused("MQTT-3.1.2-21", "not there", connect(0xC2, s("a"), s("user"))),
    Read("MQTT-3.1.2-21", "there", connect(0xC2, s("a"), s("user"), s(b"\xff")), {"password": b"\xff"}),
    Refused("MQTT-3.1.2-22", "alone", connect(0x42, s("a"), s("word"))),
    Read(
        "MQTT-3.1.3-1",
        "order",
        connect(0xEE, s("id"), s("w/t"), s(b"\x00\xff"), s("user"), s("word")),
        {
            "connect_flags": 0xEE,
            "clean_session": True,
            "keep_alive": 60,
            "client_identifier": "id",
            "will.topic": "w/t",
            "will.payload": b"\x00\xff",
            "will.qos": 1,
            "will.retain": True,
            "user_name": "user",
            "password": b"word",
        },
    ),
    Refused("MQTT-3.1.3-3", "absent", connect(0x02)),
    Read("MQTT-3.1.3-3", "empty", connect(0x02, s("")), {"client_identifier": ""}),
    Refused("MQTT-3.1.3-4", "ill-formed", connect(2, x("0001 ff")), spec="MQTT-1.5.3-1", path="client_identifier"),
    Refused(
        "MQTT-3.1.3-10", "ill-formed", connect(6, s("a"), x("0001 ff"), s("")), spec="MQTT-1.5.3-1", path="will.topic"
    ),
    Refused("MQTT-3.1.3-11", "ill-formed", connect(0x82, s("a"), x("0001 ff")), spec="MQTT-1.5.3-1", path="user_name"),
    Refused("MQTT-3.1.4-1", "no flags", packet(0x10, s("MQTT"), x("04")), spec="2.2.3"),
    Refused("MQTT-3.1.4-1", "half a keep alive", packet(0x10, s("MQTT"), x("04 02 00")), spec="2.2.3"),
    Refused("MQTT-3.1.4-1", "octets after the end", connect(0xC2, s("a"), s("u"), s("p"), b"!"), spec="2.2.3"),
    # ---- 3.2: CONNACK
    *(Refused("MQTT-3.2.2-4", str(c), bytes([0x20, 2, 1, c])) for c in range(1, 6)),
    *(Read("MQTT-3.2.2-4", f"{c}, not present", bytes([0x20, 2, 0, c]), {"return_code": c}) for c in range(6)),
    Read("MQTT-3.2.2-4", "0, present", x("20 02 01 00"), {"session_present": True, "return_code": 0}),
    # ---- 3.3: PUBLISH
    Refused("MQTT-3.3.1-2", "1", publish(0x38)),
    Read("MQTT-3.3.1-2", "with QoS 2", publish(0x3C), {"dup": True, "qos": 2}),
    *(Refused("MQTT-3.3.1-4", f"{first:02x}", publish(first)) for first in (0x36, 0x37, 0x3E, 0x3F)),
    Refused("MQTT-3.3.2-1", "ill-formed", publish(topic=b"\xff"), spec="MQTT-1.5.3-1", path="topic_name"),
    Refused("MQTT-3.3.2-1", "cut off", packet(0x30, x("0004"), b"a/b"), spec="2.2.3", path="topic_name"),
    *(Refused("MQTT-3.3.2-2", t, publish(topic=t), path="topic_name") for t in ("#", "+", "a/#", "a/+/b", "a#", "+a")),
    # ---- 3.6 to 3.10
    *(Refused("MQTT-3.6.1-1", f"{f:04b}", bytes([0x60 | f, 2, 0, 10])) for f in range(16) if f != 2),
    Read("MQTT-3.6.1-1", "0010", x("62 02 000a"), {"packet_identifier": 10}),
    *(Refused("MQTT-3.8.1-1", f"{f:04b}", subscribe(s("a"), x("00"), first=0x80 | f)) for f in range(16) if f != 2),
    Refused("MQTT-3.8.3-1", "ill-formed", subscribe(x("0001 ff 00")), spec="MQTT-1.5.3-1", path="topic_filter"),
    Refused("MQTT-3.8.3-3", "none", subscribe()),
    Refused("MQTT-3.8.3-3", "no QoS", subscribe(s("a")), spec="2.2.3"),
    *(
        Refused("MQTT-3-8.3-4", f"{o:02x}", subscribe(s("a"), bytes([o])))
        for o in (3, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xFF)
    ),
    Read(
        "MQTT-3-8.3-4",
        "0, 1, 2",
        subscribe(s("a"), x("00"), s("b"), x("01"), s("c"), x("02")),
        {f"subscriptions.{k}.qos": k for k in range(3)} | {"subscriptions.2.topic_filter": "c"},
    ),
    Read("MQTT-3.9.3-2", "all four", x("90 06 000a 00010280"), {"return_codes": (0, 1, 2, 0x80)}),
    *(Refused("MQTT-3.9.3-2", f"{c:02x}", bytes([0x90, 4, 0, 10, 0, c])) for c in (3, 4, 0x7F, 0x81, 0x87, 0xFF)),
    *(Refused("MQTT-3.10.1-1", f"{f:04b}", unsubscribe(s("a"), first=0xA0 | f)) for f in range(16) if f != 2),
    Refused("MQTT-3.10.3-1", "ill-formed", unsubscribe(x("0001 ff")), spec="MQTT-1.5.3-1", path="topic_filters"),
    Refused("MQTT-3.10.3-2", "none", unsubscribe()),
    Read("MQTT-3.10.3-2", "two", unsubscribe(s("a"), s("b/#")), {"topic_filters": ("a", "b/#")}),
    *(Refused("MQTT-3.14.1-1", f"{f:04b}", bytes([0xE0 | f, 0])) for f in range(1, 16)),
    Read("MQTT-3.14.1-1", "0000", x("e0 00")),
    # ---- 4.7: topics
    Refused("MQTT-4.7.1-1", "PUBLISH", publish(topic="a/+"), spec="MQTT-3.3.2-2"),
    Refused("MQTT-4.7.1-1", "will", connect(6, s("a"), s("w/#"), s("")), path="will.topic"),
    *(Refused("MQTT-4.7.1-2", t, subscribe(s(t), x("00"))) for t in ("a#", "#/a", "a/#/b", "##", "sport/tennis#")),
    *(
        Read("MQTT-4.7.1-2", t, subscribe(s(t), x("00")), {"subscriptions.0.topic_filter": t})
        for t in ("#", "sport/tennis/#", "/#", "sport/tennis/player1/#")
    ),
    *(Refused("MQTT-4.7.1-3", t, unsubscribe(s(t))) for t in ("sport+", "+a", "a/b+/c", "++")),
    *(
        Read("MQTT-4.7.1-3", t, unsubscribe(s(t)), {"topic_filters": (t,)})
        for t in ("+", "+/tennis/#", "sport/+/player1", "/+", "+/+", "$share/+", "$share")
    ),
    Refused("MQTT-4.7.3-1", "filter", subscribe(s(""), x("00"))),
    Refused("MQTT-4.7.3-1", "filter of UNSUBSCRIBE", unsubscribe(s(""))),
    Refused("MQTT-4.7.3-1", "name", publish(topic="")),
    Refused("MQTT-4.7.3-1", "will", connect(6, s("a"), s(""), s(""))),
    Refused("MQTT-4.7.3-2", "filter", subscribe(s("a\0"), x("00")), spec="MQTT-1.5.3-2", path="topic_filter"),
    Refused("MQTT-4.7.3-2", "name", publish(topic="\0"), spec="MQTT-1.5.3-2", path="topic_name"),
    Read("MQTT-4.7.3-3", "the longest name", publish(topic="x" * 65535), {"topic_name": "x" * 65535}),
]


@pytest.mark.parametrize("case", parameters(CASES))
def test_statement(case: Case) -> None:
    run(case, 4)


def test_every_statement_has_a_case() -> None:
    assert len(STATEMENTS) == len(set(STATEMENTS)) == 47
    assert {case.id for case in CASES} == {f"MQTT-{number}" for number in STATEMENTS}
