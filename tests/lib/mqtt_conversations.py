"""Conversations of MQTT, octet by octet: what is sent, what is answered, and whether the connection lives on.

`made` makes them from the specification: each packet in each state in which it is right, and each with one thing wrong that the
specification says closes the connection. tests/lib/mosquitto_conversations.py reads others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lib.mqtt_cases import BAD_STRINGS, x
from lib.wire import packet, string, varint
from wirefmt import mqtt

#: The limits that the broker of these conversations tells clients (5.0), and those that the clients tell it.
LIMITS = [("topic_alias_maximum", 10), ("maximum_packet_size", 2_000_000), ("receive_maximum", 20)]


@dataclass(frozen=True)
class Step:
    """One step of a conversation."""

    do: str  # send: the judge sends `octets`; expect: it awaits them; publish: another client publishes `message`
    octets: bytes = b""
    message: dict[str, Any] | None = None


@dataclass(frozen=True)
class Conversation:
    """What is played against a server or a client."""

    id: str
    version: int
    steps: tuple[Step, ...]
    stays: bool  # whether the connection lives on
    clean_start: bool = True  # of a client
    command: str | None = None  # what a client does once it is connected
    may_say_why: bool = False  # whether a server may send DISCONNECT first (5.0)


def opening(client: str, version: int) -> tuple[bytes, bytes]:
    """CONNECT, and the CONNACK of the broker."""
    five = version == 5
    connect = mqtt.Connect(
        client_identifier=client,
        clean_start=True,
        keep_alive=60,
        version=version,
        properties=LIMITS[2:] if five else (),
    )
    return connect.encode(), mqtt.Connack(version=version, properties=LIMITS if five else ()).encode()


# ---- right packets

#: By packet type: its name; who sends it; the fixed flags of its first octet, None where they mean something.
TYPES: dict[int, tuple[str, str, int | None]] = {
    1: ("CONNECT", "client", 0), 2: ("CONNACK", "server", 0), 3: ("PUBLISH", "both", None), 4: ("PUBACK", "both", 0),
    5: ("PUBREC", "both", 0), 6: ("PUBREL", "both", 2), 7: ("PUBCOMP", "both", 0), 8: ("SUBSCRIBE", "client", 2),
    9: ("SUBACK", "server", 0), 10: ("UNSUBSCRIBE", "client", 2), 11: ("UNSUBACK", "server", 0), 12: ("PINGREQ", "client", 0),
    13: ("PINGRESP", "server", 0), 14: ("DISCONNECT", "client", 0), 15: ("AUTH", "both", 0),
}  # fmt: skip
#: Properties of 5.0, with a value: in which packets they may stand (table 2-4).
PROPERTIES: dict[int, tuple[bytes, str]] = {
    1: (x("01"), "PUBLISH"), 2: (x("00000009"), "PUBLISH"), 3: (string("t"), "PUBLISH"), 8: (string("r"), "PUBLISH"),
    9: (string("c"), "PUBLISH"), 11: (x("05"), "PUBLISH SUBSCRIBE"), 17: (x("00000009"), "CONNECT CONNACK DISCONNECT"),
    18: (string("i"), "CONNACK"), 19: (x("0009"), "CONNACK"), 21: (string("m"), "CONNECT CONNACK AUTH"),
    22: (string("d"), "CONNECT CONNACK AUTH"), 23: (x("01"), "CONNECT"), 24: (x("00000009"), ""), 25: (x("01"), "CONNECT"),
    26: (string("i"), "CONNACK"), 28: (string("s"), "CONNACK DISCONNECT"),
    31: (string("w"), "CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH"),
    33: (x("0009"), "CONNECT CONNACK"), 34: (x("0009"), "CONNECT CONNACK"), 35: (x("0001"), "PUBLISH"), 36: (x("01"), "CONNACK"),
    37: (x("01"), "CONNACK"), 39: (x("00000fff"), "CONNECT CONNACK"), 40: (x("01"), "CONNACK"), 41: (x("01"), "CONNACK"),
    42: (x("01"), "CONNACK"),
}  # fmt: skip
IDENTIFIER = x("0007")


def body(kind: str, version: int, properties: bytes = b"") -> bytes:
    """What follows the Remaining Length of a right packet; of PUBLISH, with QoS 1. `properties` count in 5.0 only."""
    five = version == 5
    area = varint(len(properties)) + properties if five else b""
    acknowledgement = IDENTIFIER + (x("00") + area if five else b"")
    return {
        "CONNECT": (string("MQIsdp") if version == 3 else string("MQTT"))
        + bytes((version, 2, 0, 60))
        + area
        + string("c"),
        "CONNACK": x("0000") + area,
        "PUBLISH": string("t") + IDENTIFIER + area + b"!",
        **dict.fromkeys(("PUBACK", "PUBREC", "PUBREL", "PUBCOMP"), acknowledgement),
        "SUBSCRIBE": IDENTIFIER + area + string("t") + x("00"),
        "SUBACK": IDENTIFIER + area + x("00"),
        "UNSUBSCRIBE": IDENTIFIER + area + string("t"),
        "UNSUBACK": IDENTIFIER + (area + x("00") if five else b""),
        **dict.fromkeys(("PINGREQ", "PINGRESP"), b""),
        "DISCONNECT": x("00") + area if five else b"",
        "AUTH": x("18") + area,
    }[kind]


def first_octet(number: int) -> int:
    return number << 4 | (2 if number == 3 else TYPES[number][2] or 0)


def whole(number: int, version: int, properties: bytes = b"") -> bytes:
    return packet(first_octet(number), body(TYPES[number][0], version, properties))


def of(version: int) -> list[int]:
    """The packet types of a version."""
    return [number for number in TYPES if number != 15 or version == 5]


# ---- one thing wrong


def wrong(sender: str, version: int) -> Iterator[tuple[str, bytes]]:
    """Packets after the opening that close the connection: what is wrong, and the octets. Statements are those of 5.0."""
    other = {"client": "server", "server": "client"}[sender]
    mine = [number for number in of(version) if TYPES[number][1] in (sender, "both") and number not in (1, 2, 15)]
    yield "a packet of type 0 (2.1.2)", x("0000")
    for number in of(version):
        kind, by, _ = TYPES[number]
        if by == other and not (version == 5 and kind == "DISCONNECT"):
            yield f"{kind} from the other side (2.1.2)", whole(number, version)
    yield (
        f"a second {'CONNECT (3.1.0-2)' if sender == 'client' else 'CONNACK (3.2.0-2)'}",
        whole(1 if sender == "client" else 2, version),
    )
    for number in mine:
        kind, _, flags = TYPES[number]
        right = body(kind, version)
        if flags is not None and version != 3:  # 3.1 does not look at them
            for nibble in range(16):
                if nibble != flags:
                    yield f"{kind} with flags {nibble} (2.1.3-1)", packet(number << 4 | nibble, right)
        yield f"{kind} with a Remaining Length of five octets (1.5.5)", bytes([first_octet(number)]) + x("8080808001")
        if right and kind not in ("PUBLISH", "DISCONNECT"):
            if version != 5 or kind in ("SUBSCRIBE", "SUBACK", "UNSUBSCRIBE"):  # else it has another meaning
                yield f"{kind} without its first octet", packet(first_octet(number), right[1:])
            yield f"{kind} of one octet", packet(first_octet(number), right[:1])
        if kind.startswith("PING"):
            yield f"{kind} with a body", packet(first_octet(number), b"!")
        if right.startswith(IDENTIFIER) and kind in ("SUBSCRIBE", "UNSUBSCRIBE"):
            yield f"{kind} with Packet Identifier 0 (2.2.1-3)", packet(first_octet(number), x("0000") + right[2:])
            yield (
                f"{kind} of nothing (3.8.3-2, 3.10.3-2)",
                packet(first_octet(number), right[: 3 if version == 5 else 2]),
            )
    none = x("00") if version == 5 else b""
    yield "PUBLISH with Packet Identifier 0 (2.2.1-3)", packet(0x32, string("t"), x("0000"), none)
    yield "PUBLISH with QoS 3 (3.3.1-4)", packet(0x36, string("t"), IDENTIFIER, none)
    for topic in ("#", "a/#", "+", "a/+/b"):
        yield f"PUBLISH to {topic} (3.3.2-2)", packet(0x30, string(topic), none)
    for name, octets in BAD_STRINGS.items():
        yield f"PUBLISH to a topic that is not UTF-8: {name} (1.5.4-1)", packet(0x30, string(octets), none)
    yield "PUBLISH to a topic with NUL (1.5.4-2)", packet(0x30, string("a\0b"), none)
    if sender == "client":
        for text in ("a/#/b", "a#", "a+", "+a", ""):
            yield f"SUBSCRIBE to {text!r} (4.7)", packet(0x82, IDENTIFIER, none, string(text), x("00"))
            yield f"UNSUBSCRIBE from {text!r} (4.7)", packet(0xA2, IDENTIFIER, none, string(text))
        if version != 3:
            for options in (3, 0x40, 0x80, *((0x30,) if version == 5 else (4, 8, 0x10, 0x20))):
                yield (
                    f"SUBSCRIBE with options {options:#x} (3.8.3-4, 3.8.3-5)",
                    packet(0x82, IDENTIFIER, none, string("t"), bytes([options])),
                )
    if version == 5:
        yield from wrong_properties(mine)


def wrong_properties(numbers: list[int]) -> Iterator[tuple[str, bytes]]:
    """Properties that a packet may not have, or not twice, or that do not end (2.2.2)."""
    for number in numbers:
        kind = TYPES[number][0]
        if kind.startswith("PING"):
            continue
        for identifier, (value, packets) in PROPERTIES.items():
            one = bytes([identifier]) + value
            if kind not in packets.split():
                yield f"{kind} with property {identifier} (2.2.2.2)", whole(number, 5, one)
            else:
                if (kind, identifier) != ("PUBLISH", 11):  # a server may send several (3.3.2.3.8)
                    yield f"{kind} with property {identifier} twice", whole(number, 5, one + one)
                yield f"{kind} with property {identifier} cut (2.2.2.1)", whole(number, 5, one[:-1])
        for identifier in (0, 4, 20, 43, 127):
            yield f"{kind} with an unknown property {identifier} (2.2.2.2)", whole(number, 5, bytes([identifier, 0]))


# ---- conversations


def made(role: str) -> list[Conversation]:
    """`server`: to be played against a server, `client`: against a client."""
    return [conversation for version in (3, 4, 5) for conversation in made_for(role, version)]


def made_for(role: str, version: int) -> Iterator[Conversation]:
    server = role == "server"
    connect, connack = opening("made" if server else "fuzzish", version)
    if server:
        begin = (Step("send", connect), Step("expect", connack))
    else:
        client_side = mqtt.Connack(version=version, properties=LIMITS[2:] if version == 5 else ())
        begin = (Step("expect", connect), Step("send", client_side.encode()))
    for what, octets in wrong("client" if server else "server", version):
        yield Conversation(
            f"{version} {what}", version, (*begin, Step("send", octets)), stays=False, may_say_why=version == 5
        )
    for what, steps in right(role, version):
        yield Conversation(f"{version} {what}", version, (*begin, *steps), stays=True)
    if server:
        for number in of(version):
            if number != 1:
                name = f"{version} {TYPES[number][0]} before CONNECT (3.1.0-1)"
                yield Conversation(name, version, (Step("send", whole(number, version)),), stays=False)


def right(role: str, version: int) -> Iterator[tuple[str, list[Step]]]:
    """What goes on as it should."""
    none = x("00") if version == 5 else b""
    acknowledged = IDENTIFIER + (x("1000") if version == 5 and role == "server" else b"")
    yield "PUBLISH with QoS 0", [Step("send", packet(0x30, string("t"), none, b"!"))]
    yield "PUBLISH without octets", [Step("send", packet(0x30, string("t"), none))]
    yield (
        "PUBLISH with QoS 1",
        [
            Step("send", packet(0x32, string("t"), IDENTIFIER, none, b"!")),
            Step("expect", packet(0x40, acknowledged)),
        ],
    )
    yield (
        "PUBLISH with QoS 2, twice",
        [
            Step("send", packet(0x34, string("t"), IDENTIFIER, none, b"!")),
            Step("expect", packet(0x50, acknowledged)),
            Step("send", packet(0x3C, string("t"), IDENTIFIER, none, b"!")),
            Step("expect", packet(0x50, acknowledged)),
            Step("send", packet(0x62, IDENTIFIER)),
            Step("expect", packet(0x70, IDENTIFIER)),
        ],
    )
    if role == "server":
        yield "PINGREQ", [Step("send", x("c000")), Step("expect", x("d000"))]
        yield (
            "SUBSCRIBE, PUBLISH, UNSUBSCRIBE",
            [
                Step("send", packet(0x82, IDENTIFIER, none, string("t"), x("00"))),
                Step("expect", packet(0x90, IDENTIFIER, none, x("00"))),
                Step("send", packet(0x30, string("t"), none, b"!")),
                Step("expect", packet(0x30, string("t"), none, b"!")),
                Step("send", packet(0xA2, IDENTIFIER, none, string("t"))),
                Step("expect", packet(0xB0, IDENTIFIER, *([x("0000")] if version == 5 else []))),
            ],
        )
