"""MQTT 5.0: every normative statement that octets can show, and the rules that have no statement id.

Octets are written by hand from the standard (OASIS, 7 March 2019). Each case names the statement it is for.
"""

# ruff: noqa: SIM905 (columns of numbers read best as text)

from __future__ import annotations

from typing import Any

import pytest

from lib.mqtt_cases import BAD_STRINGS, NONE, Case, Read, Refused, parameters, properties, run, x
from lib.wire import packet
from lib.wire import string as s
from wirefmt import mqtt
from wirefmt.errors import DecodeError

#: Statements of appendix B that concern the octets of one packet.
STATEMENTS = """
1.5.4-1 1.5.4-2 1.5.4-3 1.5.5-1 1.5.7-1 2.1.3-1 2.2.1-2 2.2.1-3 2.2.1-4 2.2.2-1
3.1.2-1 3.1.2-2 3.1.2-3 3.1.2-9 3.1.2-11 3.1.2-12 3.1.2-13 3.1.2-16 3.1.2-17 3.1.2-18 3.1.2-19
3.1.3-1 3.1.3-3 3.1.3-4 3.1.3-11 3.1.3-12 3.1.4-1 3.2.2-1 3.2.2-6 3.2.2-8
3.3.1-2 3.3.1-4 3.3.2-1 3.3.2-2 3.3.2-8 3.3.2-13 3.3.2-14 3.3.2-18 3.3.2-19 3.3.4-6
3.4.2-1 3.5.2-1 3.6.1-1 3.6.2-1 3.7.2-1
3.8.1-1 3.8.3-1 3.8.3-2 3.8.3-4 3.8.3-5 3.8.4-7 3.9.3-2 3.10.1-1 3.10.3-1 3.10.3-2 3.11.3-2
3.14.1-1 3.14.2-1 3.14.2-2 3.15.1-1 3.15.2-1
4.7.0-1 4.7.1-1 4.7.1-2 4.7.3-1 4.7.3-2 4.7.3-3 4.8.2-1 4.8.2-2
""".split()

#: Sections with rules for octets that have no statement id.
SECTIONS = """
1.5.5 2.1.2 2.2.2.2 3.1.2.11.3 3.1.2.11.4 3.1.2.11.6 3.1.2.11.7 3.1.2.11.10
3.2.2.3.3 3.2.2.3.4 3.2.2.3.5 3.2.2.3.6 3.2.2.3.11 3.2.2.3.12 3.2.2.3.13 3.3.2.1 3.3.2.3.8 3.8.2.1.2
3.4.2.1 3.5.2.1 3.6.2.1 3.7.2.1 3.8.3.1 3.14.2.1 3.14.2.2.2 3.15.2.1 3.15.2.2.2
""".split()

# ---- packets with one part left open


def connect(flags: int, *payload: bytes, props: bytes = NONE, name: bytes | None = None, level: int = 5) -> bytes:
    return packet(0x10, s("MQTT") if name is None else name, bytes([level, flags]), x("003c"), props, *payload)


def connack(flags: int, code: int, props: bytes = NONE) -> bytes:
    return packet(0x20, bytes([flags, code]), props)


def publish(first: int = 0x30, topic: bytes | str = "a/b", props: bytes = NONE, identifier: str = "000a") -> bytes:
    return packet(first, s(topic), x(identifier) if first & 6 else b"", props, b"!")


def acknowledge(first: int, *rest: bytes) -> bytes:
    return packet(first, x("000a"), *rest)


def subscribe(*filters: bytes, first: int = 0x82, identifier: str = "000a", props: bytes = NONE) -> bytes:
    return packet(first, x(identifier), props, *filters)


def unsubscribe(*filters: bytes, first: int = 0xA2, identifier: str = "000a", props: bytes = NONE) -> bytes:
    return packet(first, x(identifier), props, *filters)


def codes(statement: str, first: int, good: str, bad: str, around: Any) -> list[Case]:
    """One case for each Reason Code of a packet's table, and for some that are not in it."""
    refused = [Refused(statement, f"code {c}", around(x(c))) for c in bad.split()]
    return [*refused, *(Read(statement, f"code {c}", around(x(c)), {"reason_code": int(c, 16)}) for c in good.split())]


METHOD = x("15") + s("SCRAM")
CONNECT_ALL = connect(
    0xF6,  # user name, password, will retain, Will QoS 2, will, clean start
    s("id"),
    properties(x("18 00000005"), x("26") + s("k") + s("v")),
    s("w/t"),
    s(b"\x00\xff"),
    s("user"),
    s(b"\xfepass"),
    props=properties(x("11 0000000a")),
)

STATEMENT_CASES: list[Case] = [
    # ---- 1.5: data representation
    *(Refused("MQTT-1.5.4-1", name, publish(topic=octets), path="topic_name") for name, octets in BAD_STRINGS.items()),
    Refused("MQTT-1.5.4-2", "in a topic", publish(topic="a\0b"), path="topic_name"),
    Refused("MQTT-1.5.4-2", "in a client identifier", connect(2, s("\0")), path="client_identifier"),
    Refused("MQTT-1.5.4-2", "in a property", publish(props=properties(x("03") + s("text\0"))), path="content_type"),
    Read("MQTT-1.5.4-3", "first", publish(topic=x("efbbbf 61")), {"topic_name": "\ufeffa"}),
    Read("MQTT-1.5.4-3", "within", publish(topic=x("61 efbbbf efbbbf 62")), {"topic_name": "a\ufeff\ufeffb"}),
    Refused("MQTT-1.5.5-1", "Remaining Length", x("c0 8000")),
    Refused("MQTT-1.5.5-1", "Remaining Length of three octets", x("30 848000 0001 61 00")),
    Refused("MQTT-1.5.5-1", "Property Length", publish(props=x("8000"))),
    Refused("MQTT-1.5.5-1", "Subscription Identifier", publish(props=properties(x("0b 8100"))), side="server"),
    Refused("MQTT-1.5.7-1", "name", publish(props=properties(x("26 0001 ff") + s("v"))), path="user_property"),
    Refused("MQTT-1.5.7-1", "value", publish(props=properties(x("26") + s("n") + x("0001 ff"))), path="user_property"),
    Refused("MQTT-1.5.7-1", "NUL", publish(props=properties(x("26") + s("n") + s("\0"))), path="user_property"),
    # ---- 2: packet format
    Refused("MQTT-2.1.3-1", "CONNECT", x("11") + CONNECT_ALL[1:]),
    Refused("MQTT-2.1.3-1", "CONNACK", x("28 03 00 00 00")),
    Refused("MQTT-2.1.3-1", "PUBACK", x("41 02 000a")),
    Refused("MQTT-2.1.3-1", "PUBREC", x("52 02 000a")),
    Refused("MQTT-2.1.3-1", "PUBCOMP", x("72 02 000a")),
    Refused("MQTT-2.1.3-1", "SUBACK", x("94 04 000a 00 00")),
    Refused("MQTT-2.1.3-1", "UNSUBACK", x("b8 04 000a 00 00")),
    Refused("MQTT-2.1.3-1", "PINGREQ", x("c1 00")),
    Refused("MQTT-2.1.3-1", "PINGRESP", x("df 00")),
    Read("MQTT-2.2.1-2", "none", x("30 05 0001 61 00 21"), {"packet_identifier": None, "payload": b"!"}),
    Read("MQTT-2.2.1-2", "the payload follows", x("31 06 0001 61 00 000a"), {"payload": b"\x00\x0a", "retain": True}),
    Refused("MQTT-2.2.1-3", "PUBLISH", publish(0x32, identifier="0000"), side="client", path="packet_identifier"),
    Refused("MQTT-2.2.1-3", "SUBSCRIBE", subscribe(s("a"), x("00"), identifier="0000"), path="packet_identifier"),
    Refused("MQTT-2.2.1-3", "UNSUBSCRIBE", unsubscribe(s("a"), identifier="0000"), path="packet_identifier"),
    Refused("MQTT-2.2.1-4", "QoS 1", publish(0x32, identifier="0000"), side="server", path="packet_identifier"),
    Refused("MQTT-2.2.1-4", "QoS 2", publish(0x34, identifier="0000"), side="server", path="packet_identifier"),
    Refused("MQTT-2.2.2-1", "PUBLISH", x("30 03 0001 61")),
    Refused("MQTT-2.2.2-1", "CONNACK", x("20 02 00 00")),
    Refused("MQTT-2.2.2-1", "SUBSCRIBE", x("82 02 000a")),
    Refused("MQTT-2.2.2-1", "CONNECT", packet(0x10, s("MQTT"), x("05 02 003c"))),
    Read("MQTT-2.2.2-1", "zero", x("20 03 00 00 00"), {"properties": ()}),
    # ---- 3.1: CONNECT
    Refused("MQTT-3.1.2-1", "lower case", connect(2, s("a"), name=s("mqtt")), reply=0x84),
    Refused("MQTT-3.1.2-1", "the name of 3.1", connect(2, s("a"), name=s("MQIsdp")), reply=0x84),
    Refused("MQTT-3.1.2-2", "6", connect(2, s("a"), level=6), reply=0x84, path="protocol_version"),
    Refused("MQTT-3.1.2-2", "0", connect(2, s("a"), level=0), reply=0x84, path="protocol_version"),
    Read("MQTT-3.1.2-2", "5", connect(2, s("a")), {"protocol_version": 5, "protocol_name": "MQTT"}),
    Refused("MQTT-3.1.2-3", "1", connect(3, s("a"))),
    Read(
        "MQTT-3.1.2-9",
        "all there",
        connect(0x04, s("a"), NONE, s("w"), s(b"")),
        {"will.properties": (), "will.topic": "w", "will.payload": b""},
    ),
    Refused("MQTT-3.1.2-9", "nothing there", connect(0x04, s("a"))),
    Refused("MQTT-3.1.2-9", "no topic", connect(0x04, s("a"), NONE), spec="2.1.4", path="will.topic"),
    Refused("MQTT-3.1.2-9", "no payload", connect(0x04, s("a"), NONE, s("w"))),
    Refused("MQTT-3.1.2-11", "1", connect(0x08, s("a"))),
    Refused("MQTT-3.1.2-11", "2", connect(0x10, s("a"))),
    Refused("MQTT-3.1.2-12", "3", connect(0x1C, s("a"), NONE, s("w"), s(b""))),
    *(
        Read("MQTT-3.1.2-12", str(q), connect(4 | q << 3, s("a"), NONE, s("w"), s(b"")), {"will.qos": q})
        for q in range(3)
    ),
    Refused("MQTT-3.1.2-13", "1", connect(0x20, s("a"))),
    Refused("MQTT-3.1.2-16", "there", connect(0x00, s("a"), s("user"))),
    Read("MQTT-3.1.2-16", "not there", connect(0x00, s("a")), {"user_name": None}),
    Refused("MQTT-3.1.2-17", "not there", connect(0x80, s("a"))),
    Read("MQTT-3.1.2-17", "there", connect(0x80, s("a"), s("user")), {"user_name": "user", "password": None}),
    Refused("MQTT-3.1.2-18", "there", connect(0x80, s("a"), s("user"), s("word"))),
    Refused("MQTT-3.1.2-19", "not there", connect(0xC0, s("a"), s("user"))),
    Read("MQTT-3.1.2-19", "without user name", connect(0x40, s("a"), s(b"\0")), {"user_name": None, "password": b"\0"}),
    Read(
        "MQTT-3.1.3-1",
        "order",
        CONNECT_ALL,
        {
            "clean_start": True,
            "keep_alive": 60,
            "properties": (("session_expiry_interval", 10),),
            "client_identifier": "id",
            "will.properties": (("will_delay_interval", 5), ("user_property", ("k", "v"))),
            "will.topic": "w/t",
            "will.payload": b"\x00\xff",
            "will.qos": 2,
            "will.retain": True,
            "user_name": "user",
            "password": b"\xfepass",
        },
    ),
    Refused("MQTT-3.1.3-3", "absent", connect(0x02)),
    Read("MQTT-3.1.3-3", "empty", connect(0x02, s("")), {"client_identifier": ""}),
    Refused("MQTT-3.1.3-4", "ill-formed", connect(2, x("0001 ff")), spec="MQTT-1.5.4-1", path="client_identifier"),
    Refused(
        "MQTT-3.1.3-11",
        "ill-formed",
        connect(4, s("a"), NONE, x("0001 ff"), s("")),
        spec="MQTT-1.5.4-1",
        path="will.topic",
    ),
    Refused("MQTT-3.1.3-12", "ill-formed", connect(0x80, s("a"), x("0001 ff")), spec="MQTT-1.5.4-1", path="user_name"),
    Refused("MQTT-3.1.4-1", "no flags", packet(0x10, s("MQTT"), x("05")), spec="2.1.4"),
    Refused("MQTT-3.1.4-1", "half a keep alive", packet(0x10, s("MQTT"), x("05 02 00")), spec="2.1.4"),
    Refused("MQTT-3.1.4-1", "octets after the end", connect(0xC0, s("a"), s("u"), s("p"), b"!"), spec="2.1.4"),
    # ---- 3.2: CONNACK
    Refused("MQTT-3.2.2-1", "bit 1", connack(0x02, 0)),
    Refused("MQTT-3.2.2-1", "bit 7", connack(0x81, 0)),
    Refused("MQTT-3.2.2-6", "0x87", connack(0x01, 0x87)),
    Read("MQTT-3.2.2-6", "success", connack(0x01, 0), {"session_present": True}),
    *codes(
        "MQTT-3.2.2-8",
        0x20,
        "00 80 81 82 83 84 85 86 87 88 89 8a 8c 90 95 97 99 9a 9b 9c 9d 9f",
        "01 02 04 10 18 8b 8e 91 98 9e a0 ff",
        lambda c: packet(0x20, x("00"), c, NONE),
    ),
    # ---- 3.3: PUBLISH
    Refused("MQTT-3.3.1-2", "1", publish(0x38)),
    Read("MQTT-3.3.1-2", "with QoS 1", publish(0x3A), {"dup": True, "qos": 1, "packet_identifier": 10}),
    Refused("MQTT-3.3.1-4", "3", publish(0x36)),
    Refused("MQTT-3.3.1-4", "3 with DUP and RETAIN", publish(0x3F)),
    Refused("MQTT-3.3.2-1", "ill-formed", publish(topic=b"\xff"), spec="MQTT-1.5.4-1", path="topic_name"),
    Refused("MQTT-3.3.2-1", "cut off", packet(0x30, x("0004"), b"a/b"), spec="2.1.4", path="topic_name"),
    *(Refused("MQTT-3.3.2-2", t, publish(topic=t), path="topic_name") for t in ("#", "+", "a/#", "a/+/b", "a#", "+a")),
    Refused("MQTT-3.3.2-8", "0", publish(props=properties(x("23 0000"))), reply=0x94, path="topic_alias"),
    Read("MQTT-3.3.2-8", "1", publish(props=properties(x("23 0001"))), {"properties": (("topic_alias", 1),)}),
    Refused(
        "MQTT-3.3.2-13",
        "ill-formed",
        publish(props=properties(x("08 0001 ff"))),
        spec="MQTT-1.5.4-1",
        path="response_topic",
    ),
    *(
        Refused("MQTT-3.3.2-14", t, publish(props=properties(x("08") + s(t))), path="response_topic")
        for t in ("r/#", "+")
    ),
    Read(
        "MQTT-3.3.2-18",
        "order and repeats",
        publish(
            props=properties(
                x("26") + s("b") + s("1"), x("02 00000009"), x("26") + s("a") + s("2"), x("26") + s("b") + s("1")
            )
        ),
        {
            "properties": (
                ("user_property", ("b", "1")),
                ("message_expiry_interval", 9),
                ("user_property", ("a", "2")),
                ("user_property", ("b", "1")),
            )
        },
    ),
    Refused(
        "MQTT-3.3.2-19",
        "ill-formed",
        publish(props=properties(x("03 0001 ff"))),
        spec="MQTT-1.5.4-1",
        path="content_type",
    ),
    Refused("MQTT-3.3.4-6", "from a client", publish(props=properties(x("0b 01"))), side="client"),
    Read(
        "MQTT-3.3.4-6",
        "from a server, several",
        publish(props=properties(x("0b 01"), x("0b ffffff7f"), x("0b 01"))),
        {"properties": tuple(("subscription_identifier", n) for n in (1, 268435455, 1))},
        side="server",
    ),
    # ---- 3.4 to 3.7: acknowledgements
    *codes("MQTT-3.4.2-1", 0x40, "00 10 80 83 87 90 91 97 99", "01 18 81 92 ff", lambda c: acknowledge(0x40, c)),
    *codes("MQTT-3.5.2-1", 0x50, "00 10 80 83 87 90 91 97 99", "01 18 81 92 ff", lambda c: acknowledge(0x50, c)),
    *codes("MQTT-3.6.2-1", 0x62, "00 92", "01 10 80 91 ff", lambda c: acknowledge(0x62, c)),
    *codes("MQTT-3.7.2-1", 0x70, "00 92", "01 10 80 91 ff", lambda c: acknowledge(0x70, c)),
    *(Refused("MQTT-3.6.1-1", f"{f:04b}", acknowledge(0x60 | f)) for f in range(16) if f != 2),
    # ---- 3.8 and 3.9: SUBSCRIBE, SUBACK
    *(Refused("MQTT-3.8.1-1", f"{f:04b}", subscribe(s("a"), x("00"), first=0x80 | f)) for f in range(16) if f != 2),
    Refused("MQTT-3.8.3-1", "ill-formed", subscribe(x("0001 ff 00")), spec="MQTT-1.5.4-1", path="topic_filter"),
    Refused("MQTT-3.8.3-2", "none", subscribe()),
    Refused("MQTT-3.8.3-2", "no options", subscribe(s("a")), spec="2.1.4"),
    Refused("MQTT-3.8.3-4", "1", subscribe(s("$share/g/a"), x("04")), reply=0x82),
    Read("MQTT-3.8.3-4", "0", subscribe(s("$share/g/a"), x("02")), {"subscriptions.0.topic_filter": "$share/g/a"}),
    Read("MQTT-3.8.3-4", "1 on another filter", subscribe(s("$shared"), x("04")), {"subscriptions.0.no_local": True}),
    Refused("MQTT-3.8.3-5", "bit 6", subscribe(s("a"), x("40"))),
    Refused("MQTT-3.8.3-5", "bit 7", subscribe(s("a"), x("80"))),
    Read(
        "MQTT-3.8.3-5",
        "all others",
        subscribe(s("a"), x("2e"), s("b"), x("01")),
        {
            "subscriptions.0.qos": 2,
            "subscriptions.0.no_local": True,
            "subscriptions.0.retain_as_published": True,
            "subscriptions.0.retain_handling": 2,
            "subscriptions.1.topic_filter": "b",
            "subscriptions.1.qos": 1,
            "subscriptions.1.no_local": False,
            "subscriptions.1.retain_as_published": False,
            "subscriptions.1.retain_handling": 0,
        },
    ),
    Read("MQTT-3.8.4-7", "granted, refused", x("90 07 000a 00 00018702"), {"reason_codes": (0, 1, 0x87, 2)}),
    *(
        Read("MQTT-3.9.3-2", f"code {c}", packet(0x90, x("000a 00"), x(c)), {"reason_codes": (int(c, 16),)})
        for c in "00 01 02 80 83 87 8f 91 97 9e a1 a2".split()
    ),
    *(Refused("MQTT-3.9.3-2", f"code {c}", packet(0x90, x("000a 00 00"), x(c))) for c in "03 04 11 81 ff".split()),
    # ---- 3.10 and 3.11: UNSUBSCRIBE, UNSUBACK
    *(Refused("MQTT-3.10.1-1", f"{f:04b}", unsubscribe(s("a"), first=0xA0 | f)) for f in range(16) if f != 2),
    Refused("MQTT-3.10.3-1", "ill-formed", unsubscribe(x("0001 ff")), spec="MQTT-1.5.4-1", path="topic_filters"),
    Refused("MQTT-3.10.3-2", "none", unsubscribe()),
    Read("MQTT-3.10.3-2", "two", unsubscribe(s("a"), s("b/#")), {"topic_filters": ("a", "b/#")}),
    *(
        Read("MQTT-3.11.3-2", f"code {c}", packet(0xB0, x("000a 00"), x(c)), {"reason_codes": (int(c, 16),)})
        for c in "00 11 80 83 87 8f 91".split()
    ),
    *(Refused("MQTT-3.11.3-2", f"code {c}", packet(0xB0, x("000a 00 00"), x(c))) for c in "01 02 10 97 ff".split()),
    # ---- 3.14 and 3.15: DISCONNECT, AUTH
    *(Refused("MQTT-3.14.1-1", f"{f:04b}", bytes([0xE0 | f, 0])) for f in range(1, 16)),
    *codes(
        "MQTT-3.14.2-1",
        0xE0,
        "00 80 81 82 83 87 89 8b 8d 8e 8f 90 93 94 95 96 97 98 99 9a 9b 9c 9d 9e 9f a0 a1 a2",
        "01 10 84 85 86 88 8a 91 92 ff",
        lambda c: packet(0xE0, c),
    ),
    Read("MQTT-3.14.2-1", "code 04", x("e0 01 04"), {"reason_code": 4}, side="client"),
    Refused("MQTT-3.14.2-2", "from a server", packet(0xE0, x("00"), properties(x("11 00000001"))), side="server"),
    *(Refused("MQTT-3.15.1-1", f"{f:04b}", packet(0xF0 | f, x("18"), properties(METHOD))) for f in range(1, 16)),
    *codes("MQTT-3.15.2-1", 0xF0, "00 18 19", "01 80 87 ff", lambda c: packet(0xF0, c, properties(METHOD))),
    # ---- 4.7 and 4.8: topics
    Refused("MQTT-4.7.0-1", "PUBLISH", publish(topic="a/+"), spec="MQTT-3.3.2-2"),
    Refused("MQTT-4.7.0-1", "will", connect(4, s("a"), NONE, s("w/#"), s("")), path="will.topic"),
    *(Refused("MQTT-4.7.1-1", t, subscribe(s(t), x("00"))) for t in ("a#", "#/a", "a/#/b", "##", "sport/tennis#")),
    *(Refused("MQTT-4.7.1-1", f"unsubscribe {t}", unsubscribe(s("b"), s(t))) for t in ("a#", "#/a")),
    *(
        Read("MQTT-4.7.1-1", t, subscribe(s(t), x("00")), {"subscriptions.0.topic_filter": t})
        for t in ("#", "sport/tennis/#", "/#", "sport/tennis/player1/#")
    ),
    *(Refused("MQTT-4.7.1-2", t, subscribe(s(t), x("00"))) for t in ("sport+", "+a", "a/b+/c", "++")),
    *(
        Read("MQTT-4.7.1-2", t, unsubscribe(s(t)), {"topic_filters": (t,)})
        for t in ("+", "+/tennis/#", "sport/+/player1", "/+", "+/+")
    ),
    Refused("MQTT-4.7.3-1", "filter", subscribe(s(""), x("00"))),
    Refused("MQTT-4.7.3-1", "filter of UNSUBSCRIBE", unsubscribe(s(""))),
    Refused("MQTT-4.7.3-1", "name", publish(topic="")),
    Refused("MQTT-4.7.3-1", "will", connect(4, s("a"), NONE, s(""), s(""))),
    Refused("MQTT-4.7.3-2", "filter", subscribe(s("a\0"), x("00")), spec="MQTT-1.5.4-2", path="topic_filter"),
    Refused("MQTT-4.7.3-2", "name", publish(topic="\0"), spec="MQTT-1.5.4-2", path="topic_name"),
    Read("MQTT-4.7.3-3", "the longest name", publish(topic="x" * 65535), {"topic_name": "x" * 65535}),
    *(
        Refused("MQTT-4.8.2-1", t, subscribe(s(t), x("00")), path="topic_filter")
        for t in ("$share", "$share/", "$share//a")
    ),
    *(
        Refused("MQTT-4.8.2-2", t, subscribe(s(t), x("00")), path="topic_filter")
        for t in ("$share/g", "$share/g/", "$share/+/a", "$share/g#/a", "$share/g+h/a")
    ),
    Read("MQTT-4.8.2-2", "good", unsubscribe(s("$share/g/+/#")), {"topic_filters": ("$share/g/+/#",)}),
]


@pytest.mark.parametrize("case", parameters(STATEMENT_CASES))
def test_statement(case: Case) -> None:
    run(case, 5)


# ---- rules without a statement id

SECTION_CASES: list[Case] = [
    Refused("1.5.5", "Remaining Length", x("30 80808080 01")),
    Refused("1.5.5", "Remaining Length, never ended", x("30 ffffffffffffff")),
    Refused("1.5.5", "Property Length", publish(props=x("8080808001")), spec="2.2.2.1"),
    Refused("1.5.5", "Subscription Identifier", publish(props=properties(x("0b 8080808001"))), side="server"),
    Refused("2.1.2", "type 0", x("00 00")),
    Refused("2.1.2", "type 0 with flags", x("0f 00")),
    *(Refused("2.2.2.2", f"no such property {i:02x}", publish(props=properties(bytes([i]), x("00"))))
      for i in (0, 4, 7, 10, 20, 27, 43, 127)),
    Refused("3.1.2.11.3", "0", connect(2, s("a"), props=properties(x("21 0000"))), reply=0x82),
    Refused("3.1.2.11.4", "0", connect(2, s("a"), props=properties(x("27 00000000"))), reply=0x82),
    Refused("3.1.2.11.6", "2", connect(2, s("a"), props=properties(x("19 02"))), reply=0x82),
    Refused("3.1.2.11.7", "2", connect(2, s("a"), props=properties(x("17 02"))), reply=0x82),
    Refused("3.1.2.11.10", "no method", connect(2, s("a"), props=properties(x("16 0001 00"))), reply=0x82),
    Read("3.1.2.11.10", "method", connect(2, s("a"), props=properties(x("16 0000"), METHOD)),
         {"properties": (("authentication_data", b""), ("authentication_method", "SCRAM"))}),
    Refused("3.2.2.3.3", "0", connack(0, 0, properties(x("21 0000"))), reply=0x82),
    Refused("3.2.2.3.4", "2", connack(0, 0, properties(x("24 02"))), reply=0x82),
    Refused("3.2.2.3.5", "2", connack(0, 0, properties(x("25 02"))), reply=0x82),
    Refused("3.2.2.3.6", "0", connack(0, 0, properties(x("27 00000000"))), reply=0x82),
    Refused("3.2.2.3.11", "2", connack(0, 0, properties(x("28 02"))), reply=0x82),
    Refused("3.2.2.3.12", "255", connack(0, 0, properties(x("29 ff"))), reply=0x82),
    Refused("3.2.2.3.13", "2", connack(0, 0, properties(x("2a 02"))), reply=0x82),
    Refused("3.3.2.1", "no alias", publish(topic=""), reply=0x82),
    Read("3.3.2.1", "alias", publish(topic="", props=properties(x("23 0007"))),
         {"topic_name": "", "properties": (("topic_alias", 7),)}),
    Refused("3.3.2.3.8", "0", publish(props=properties(x("0b 00"))), side="server", reply=0x82),
    Refused("3.8.2.1.2", "0", subscribe(s("a"), x("00"), props=properties(x("0b 00"))), reply=0x82),
    Refused("3.8.2.1.2", "twice", subscribe(s("a"), x("00"), props=properties(x("0b 01 0b 02"))), reply=0x82),
    Read("3.8.2.1.2", "the largest", subscribe(s("a"), x("00"), props=properties(x("0b ffffff7f"))),
         {"properties": (("subscription_identifier", 268435455),)}),
    *(case for section, first in {"3.4.2.1": 0x40, "3.5.2.1": 0x50, "3.6.2.1": 0x62, "3.7.2.1": 0x70}.items()
      for case in (
        Read(section, "neither", acknowledge(first), {"reason_code": 0, "properties": (), "form": "short"}),
        Read(section, "no properties", acknowledge(first, x("92" if first > 0x50 else "10")),
             {"reason_code": 0x92 if first > 0x50 else 0x10, "properties": (), "form": "reason_only"}),
        Read(section, "all", acknowledge(first, x("00"), properties(x("1f") + s("why"))),
             {"reason_code": 0, "properties": (("reason_string", "why"),), "form": "full"}),
        Read(section, "zero Property Length", acknowledge(first, x("00 00")), {"properties": (), "form": "full"}),
        Refused(section, "half an identifier", bytes([first, 1, 0]), spec="2.1.4"),
    )),
    Refused("3.8.3.1", "Maximum QoS 3", subscribe(s("a"), x("03")), reply=0x82),
    Refused("3.8.3.1", "Retain Handling 3", subscribe(s("a"), x("30")), reply=0x82),
    Read("3.14.2.1", "length 0", x("e0 00"), {"reason_code": 0, "properties": (), "form": "short"}),
    Read("3.14.2.1", "length 1", x("e0 01 8e"), {"reason_code": 0x8E, "form": "reason_only"}),
    Read("3.14.2.1", "full", x("e0 02 00 00"), {"reason_code": 0, "form": "full"}),
    Read("3.14.2.2.2", "from a client", packet(0xE0, x("00"), properties(x("11 ffffffff"))),
         {"properties": (("session_expiry_interval", 0xFFFFFFFF),)}, side="client"),
    Refused("3.15.2.2.2", "no method", x("f0 02 18 00"), reply=0x82),
    Refused("3.15.2.2.2", "data only", packet(0xF0, x("18"), properties(x("16 0001 00"))), reply=0x82),
    # 3.15.2.1 says so of AUTH too, though 3.15.2.2.2 wants a method in every AUTH
    Read("3.15.2.1", "length 0", x("f0 00"), {"reason_code": 0, "properties": (), "form": "short"}),
]  # fmt: skip


@pytest.mark.parametrize("case", parameters(SECTION_CASES))
def test_section(case: Case) -> None:
    run(case, 5)


# ---- table 2-4: which property may stand in which packet, and how often

WILL = "WILL"
ACKNOWLEDGEMENTS = "PUBACK PUBREC PUBREL PUBCOMP"
#: identifier, name, octets of one example, its value, the packets of table 2-4
PROPERTY_TABLE: list[tuple[int, str, bytes, Any, str]] = [
    (1, "payload_format_indicator", x("01"), 1, "PUBLISH WILL"),
    (2, "message_expiry_interval", x("00000102"), 258, "PUBLISH WILL"),
    (3, "content_type", s("t/p"), "t/p", "PUBLISH WILL"),
    (8, "response_topic", s("r"), "r", "PUBLISH WILL"),
    (9, "correlation_data", s(b"\0\xff"), b"\0\xff", "PUBLISH WILL"),
    (11, "subscription_identifier", x("8001"), 128, "PUBLISH SUBSCRIBE"),
    (17, "session_expiry_interval", x("ffffffff"), 0xFFFFFFFF, "CONNECT CONNACK DISCONNECT"),
    (18, "assigned_client_identifier", s("id"), "id", "CONNACK"),
    (19, "server_keep_alive", x("0102"), 258, "CONNACK"),
    (21, "authentication_method", s("m"), "m", "CONNECT CONNACK AUTH"),
    (22, "authentication_data", s(b"\xfe"), b"\xfe", "CONNECT CONNACK AUTH"),
    (23, "request_problem_information", x("00"), 0, "CONNECT"),
    (24, "will_delay_interval", x("00000001"), 1, "WILL"),
    (25, "request_response_information", x("01"), 1, "CONNECT"),
    (26, "response_information", s("i"), "i", "CONNACK"),
    (28, "server_reference", s("other:1883"), "other:1883", "CONNACK DISCONNECT"),
    (31, "reason_string", s("why"), "why", f"CONNACK {ACKNOWLEDGEMENTS} SUBACK UNSUBACK DISCONNECT AUTH"),
    (33, "receive_maximum", x("0001"), 1, "CONNECT CONNACK"),
    (34, "topic_alias_maximum", x("ffff"), 65535, "CONNECT CONNACK"),
    (35, "topic_alias", x("0001"), 1, "PUBLISH"),
    (36, "maximum_qos", x("01"), 1, "CONNACK"),
    (37, "retain_available", x("00"), 0, "CONNACK"),
    (
        38,
        "user_property",
        s("n") + s("v"),
        ("n", "v"),
        f"CONNECT CONNACK PUBLISH WILL {ACKNOWLEDGEMENTS} SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK DISCONNECT AUTH",
    ),
    (39, "maximum_packet_size", x("00000001"), 1, "CONNECT CONNACK"),
    (40, "wildcard_subscription_available", x("00"), 0, "CONNACK"),
    (41, "subscription_identifiers_available", x("00"), 0, "CONNACK"),
    (42, "shared_subscription_available", x("00"), 0, "CONNACK"),
]

#: Packets around a property area, and who sends them where that matters for the property.
CARRIERS: dict[str, Any] = {
    "CONNECT": lambda p: connect(2, s("a"), props=p),
    WILL: lambda p: connect(4, s("a"), p, s("w"), s(b"")),
    "CONNACK": lambda p: connack(0, 0, p),
    "PUBLISH": lambda p: publish(props=p),
    "PUBACK": lambda p: acknowledge(0x40, x("00"), p),
    "PUBREC": lambda p: acknowledge(0x50, x("00"), p),
    "PUBREL": lambda p: acknowledge(0x62, x("00"), p),
    "PUBCOMP": lambda p: acknowledge(0x70, x("00"), p),
    "SUBSCRIBE": lambda p: subscribe(s("a"), x("00"), props=p),
    "SUBACK": lambda p: packet(0x90, x("000a"), p, x("00")),
    "UNSUBSCRIBE": lambda p: unsubscribe(s("a"), props=p),
    "UNSUBACK": lambda p: packet(0xB0, x("000a"), p, x("00")),
    "DISCONNECT": lambda p: packet(0xE0, x("00"), p),
    "AUTH": lambda p: packet(0xF0, x("18"), p),
}
NEEDED = {("AUTH", 22), ("CONNECT", 22), ("CONNACK", 22)}  # Authentication Data stands beside its method


def test_property_table_is_complete() -> None:
    assert len(PROPERTY_TABLE) == 27
    assert sum(len(row[4].split()) for row in PROPERTY_TABLE) == 64


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("row", PROPERTY_TABLE, ids=lambda row: row[1])
def test_property_in_packet(row: tuple[int, str, bytes, Any, str], carrier: str) -> None:
    identifier, name, octets, value, packets = row
    around = CARRIERS[carrier]
    beside: tuple[tuple[str, Any], ...] = ()
    extra = b""
    if (carrier == "AUTH" and name != "authentication_method") or (carrier, identifier) in NEEDED:
        extra, beside = METHOD, (("authentication_method", "SCRAM"),)
    one = bytes([identifier]) + octets
    side = "client" if (identifier, carrier) == (17, "DISCONNECT") else "server" if carrier == "PUBLISH" else None
    options: dict[str, Any] = {"version": 5, **({"side": side} if side else {})}
    if carrier not in packets.split():
        with pytest.raises(DecodeError) as error:
            mqtt.decode(around(properties(extra, one)), **options)
        assert error.value.spec == "2.2.2.2"
        assert name in error.value.path or error.value.path.endswith("]")
        return
    octets = around(properties(extra, one))
    message: Any = mqtt.decode(octets, **options)
    area = message.will.properties if carrier == WILL else message.properties
    assert area == (*beside, (name, value))
    assert message.encode() == octets
    twice = around(properties(extra, one, one))
    if name == "user_property" or (name, carrier) == ("subscription_identifier", "PUBLISH"):
        message = mqtt.decode(twice, **options)
        assert (message.will.properties if carrier == WILL else message.properties) == (*beside, *((name, value),) * 2)
        assert message.encode() == twice
    else:
        with pytest.raises(DecodeError) as error:
            mqtt.decode(twice, **options)
        assert error.value.reply == 0x82
        assert error.value.spec.startswith("3.")
        assert name in error.value.path


@pytest.mark.parametrize(
    ("row", "carrier"),
    [pytest.param(row, packet, id=f"{row[1]} in {packet}") for row in PROPERTY_TABLE for packet in row[4].split()],
)
def test_property_cut_by_its_length(row: tuple[int, str, bytes, Any, str], carrier: str) -> None:
    """A property that the Property Length cuts off does not reach into what follows (2.2.2.1)."""
    identifier, _, octets, _, _ = row
    one = bytes([identifier]) + octets
    for length in range(1, len(one)):
        area = bytes([length]) + one
        with pytest.raises(DecodeError):
            mqtt.decode(CARRIERS[carrier](area), version=5, side="client" if carrier == "DISCONNECT" else "server")


# ---- the lists above are complete


def test_every_statement_has_a_case() -> None:
    assert len(STATEMENTS) == len(set(STATEMENTS)) == 69
    assert {case.id for case in STATEMENT_CASES} == {f"MQTT-{number}" for number in STATEMENTS}


def test_every_section_has_a_case() -> None:
    assert {case.id for case in SECTION_CASES} == set(SECTIONS)
