"""The values of messages, read from their octets by the specifications alone: what conversions may lose, and what they may not.

A node is a value with its place (field and key, as `Loss` names them), its type, its octets without length and type, and its
meaning: a word that is the same in all three protocols. Nothing of wirefmt is used here.
"""

from __future__ import annotations

import dataclasses
import re
import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import unquote_to_bytes

Word = Any


@dataclass(eq=False)
class Node:
    """`field` is empty within other values."""

    field: str
    key: bytes | None
    type: str
    octets: bytes
    words: list[Word] = dataclasses.field(default_factory=list)  # the meaning; of a result perhaps several readings
    inner: list[Node] = dataclasses.field(default_factory=list)
    also: bytes | None = None  # other octets that a Loss may give
    data: bytes | None = None  # of a data section, which a table may join with others

    def all(self) -> Iterator[Node]:
        yield self
        for node in self.inner:
            yield from node.all()


def text(octets: bytes) -> Word:
    """urn:uuid:... is the uuid."""
    if re.fullmatch(rb"(?i)urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", octets):
        return octets[9:].lower()
    return octets


def digits(number: int) -> Word:
    return str(number).encode()


def real(number: float) -> Word:
    return f"{number:.20e}".encode()


def toward_zero(ms: int) -> Word:
    return digits(abs(ms) // 1000 * (1 if ms >= 0 else -1))


def binary_decimal(octets: bytes) -> Word:
    """IEEE 754-2008, 3.5.2, the coefficient a binary integer."""
    bits, number = len(octets) * 8, int.from_bytes(octets, "big")
    width, bias, most = {32: (8, 101, 7), 64: (10, 398, 16), 128: (14, 6176, 34)}[bits]
    minus = bool(number >> (bits - 1))
    if octets[0] & 0x7C == 0x7C:
        return b"nan"
    if octets[0] & 0x7C == 0x78:
        return b"-inf" if minus else b"inf"
    shift = bits - 1 - width
    high = 0
    if octets[0] & 0x60 == 0x60:
        shift -= 2
        high = 1 << (shift + 2)
    exponent = (number >> shift) & ((1 << width) - 1)
    coefficient = (number & ((1 << shift) - 1)) | high
    if coefficient >= 10**most:
        coefficient = 0
    return Decimal((int(minus), tuple(map(int, str(coefficient))), exponent - bias))


def address(octets: bytes) -> Word:
    """The routing key of a reply address, a Response Topic or a queue."""
    for start in (b"/exchanges/amq.topic/", b"/exchange/amq.topic/", b"/queues/"):
        if octets.startswith(start):
            octets = octets[len(start) :]
    return unquote_to_bytes(octets).replace(b"/", b".").replace(b"+", b"*")


# ------------------------------------------------------------------------------------------------ AMQP 1.0

FIXED: dict[int, tuple[str, int]] = {
    0x40: ("null", 0), 0x41: ("boolean", 0), 0x42: ("boolean", 0), 0x43: ("uint", 0), 0x44: ("ulong", 0),
    0x50: ("ubyte", 1), 0x51: ("byte", 1), 0x52: ("uint", 1), 0x53: ("ulong", 1), 0x54: ("int", 1), 0x55: ("long", 1),
    0x56: ("boolean", 1), 0x60: ("ushort", 2), 0x61: ("short", 2), 0x70: ("uint", 4), 0x71: ("int", 4), 0x72: ("float", 4),
    0x73: ("char", 4), 0x74: ("decimal32", 4), 0x80: ("ulong", 8), 0x81: ("long", 8), 0x82: ("double", 8),
    0x83: ("timestamp", 8), 0x84: ("decimal64", 8), 0x94: ("decimal128", 16), 0x98: ("uuid", 16),
}  # fmt: skip
VARIABLE = {0xA0: "binary", 0xA1: "utf8", 0xA3: "symbol"}
COMPOUND = {0xC0: "list", 0xC1: "map", 0xE0: "array"}

WORDS_10: dict[str, Callable[[bytes], Word]] = {
    "null": lambda o: b"", "boolean": lambda o: b"true" if any(o) else b"false",
    "float": lambda o: real(struct.unpack(">f", o)[0]), "double": lambda o: real(struct.unpack(">d", o)[0]),
    "char": lambda o: chr(int.from_bytes(o)).encode("utf-8", "surrogatepass"),
    "timestamp": lambda o: toward_zero(int.from_bytes(o, signed=True)), "uuid": lambda o: str(uuid.UUID(bytes=o)).encode(),
    "binary": text, "utf8": text, "symbol": text,
    **dict.fromkeys(("decimal32", "decimal64", "decimal128"), binary_decimal),
    **dict.fromkeys(("ubyte", "ushort", "uint", "ulong"), lambda o: digits(int.from_bytes(o))),
    **dict.fromkeys(("byte", "short", "int", "long"), lambda o: digits(int.from_bytes(o, signed=True))),
}  # fmt: skip


class Reader:
    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at = 0

    def take(self, size: int) -> bytes:
        self.at += size
        assert self.at <= len(self.octets)
        return self.octets[self.at - size : self.at]


class Reader10(Reader):
    def value(self, field_: str = "", key: bytes | None = None) -> Node:
        start = self.at
        code = self.take(1)[0]
        if code == 0:
            self.value()
            inner = self.value()
            octets = self.octets[start : self.at]
            return Node(field_, key, "described", octets, [("described", octets)], [inner] if inner.inner else [])
        return self.content(code, field_, key)

    def content(self, code: int, field_: str, key: bytes | None) -> Node:
        if code in FIXED:
            type_, size = FIXED[code]
            octets = self.take(size)
            if code in (0x41, 0x42):  # what Loss says of them
                octets = b"\1" if code == 0x41 else b"\0"
            return Node(field_, key, type_, octets, [WORDS_10[type_](octets)])
        if code == 0x45:
            return Node(field_, key, "list", b"", ["list"])
        width = 4 if code & 0x10 else 1
        size = int.from_bytes(self.take(width))
        if code & ~0x10 in VARIABLE:
            type_ = VARIABLE[code & ~0x10]
            octets = self.take(size)
            return Node(field_, key, type_, octets, [WORDS_10[type_](octets)])
        type_ = COMPOUND[code & ~0x10]
        end = self.at + size
        count = int.from_bytes(self.take(width))
        node = Node(field_, key, type_, self.octets[self.at : end], ["map" if type_ == "map" else "list"])
        if type_ == "array":
            self.elements(node, count)
        elif type_ == "list":
            node.inner = [self.value() for _ in range(count)]
        else:
            node.inner = [self.entry("") for _ in range(count // 2)]
        assert self.at == end
        return node

    def elements(self, node: Node, count: int) -> None:
        described = False
        end = self.at + len(node.octets)
        code = self.take(1)[0]
        while code == 0:
            described = True
            self.value()
            code = self.take(1)[0]
        begin = self.at
        for _ in range(count if code not in FIXED or FIXED[code][1] else 0):
            start = self.at
            inner = self.content(code, "", None)
            if described:
                octets = self.octets[start : self.at]
                inner = Node("", None, "described", octets, [("described", octets)], also=inner.octets)
            node.inner.append(inner)
        node.also = node.octets[len(node.octets) - (end - begin) :]  # without the constructor of its elements

    def entry(self, field_: str) -> Node:
        key = self.value()
        return self.value(field_, key.octets)


HEADER = ("durable", "priority", "ttl", "first_acquirer", "delivery_count")
PROPERTIES = (
    "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
    "absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id",
)  # fmt: skip
MAPS = {0x71: "delivery annotations", 0x72: "message annotations", 0x74: "application properties", 0x78: "footer"}


def amqp10(octets: bytes) -> list[Node]:
    reader = Reader10(octets)
    out: list[Node] = []
    while reader.at < len(octets):
        assert reader.take(1) == b"\0"
        descriptor = reader.value()
        code = {b"amqp:%b:%b" % (name, kind): 0x70 + i for i, (name, kind) in enumerate(SECTIONS)}.get(
            descriptor.octets, descriptor.octets[-1] if descriptor.type == "ulong" else 0
        )
        if code in (0x70, 0x73):
            fields, kind = (HEADER, "header") if code == 0x70 else (PROPERTIES, "properties")
            section = reader.value()
            for name, node in zip(fields, section.inner, strict=False):
                if node.type != "null":
                    node.field = f"{kind}.{name}"
                    out.append(placed(node))
        elif code in MAPS:
            section = reader.value()
            for node in section.inner:
                node.field = MAPS[code]
                out.append(placed(node))
        else:
            node = reader.value({0x75: "data", 0x76: "amqp.sequence", 0x77: "amqp.value"}[code])
            node.data = node.octets if code == 0x75 else None
            out.append(node)
    return out


SECTIONS = (
    (b"header", b"list"), (b"delivery-annotations", b"map"), (b"message-annotations", b"map"), (b"properties", b"list"),
    (b"application-properties", b"map"), (b"data", b"binary"), (b"amqp-sequence", b"list"), (b"amqp-value", b"*"),
    (b"footer", b"map"),
)  # fmt: skip


# ------------------------------------------------------------------------------------------------ AMQP 0.9.1

LETTERS = {
    "t": ("bool", 1), "b": ("byte", 1), "B": ("ubyte", 1), "s": ("short", 2), "u": ("ushort", 2), "I": ("int", 4),
    "i": ("uint", 4), "l": ("long", 8), "L": ("long", 8), "f": ("float", 4), "d": ("double", 8), "D": ("decimal", 5),
    "T": ("timestamp", 8), "V": ("void", 0),
}  # fmt: skip
WORDS_091: dict[str, Callable[[bytes], Word]] = {
    "void": lambda o: b"", "bool": lambda o: b"true" if o[0] else b"false",
    "float": WORDS_10["float"], "double": WORDS_10["double"],
    "decimal": lambda o: Decimal(int.from_bytes(o[1:])).scaleb(-o[0]),
    **dict.fromkeys(("ubyte", "ushort", "uint", "timestamp"), lambda o: digits(int.from_bytes(o))),
    **dict.fromkeys(("byte", "short", "int", "long"), lambda o: digits(int.from_bytes(o, signed=True))),
}  # fmt: skip
PROPERTIES_091 = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration",
    "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip


class Reader091(Reader):
    def short(self) -> bytes:
        return self.take(self.take(1)[0])

    def value(self, field_: str, key: bytes | None) -> Node:
        letter = self.take(1).decode()
        if letter in LETTERS:
            type_, size = LETTERS[letter]
            octets = self.take(size)
            return Node(field_, key, type_, octets, [WORDS_091[type_](octets)])
        octets = self.take(int.from_bytes(self.take(4)))
        if letter in "Sx":
            return Node(field_, key, "longstr" if letter == "S" else "binary", octets, [text(octets)])
        node = Node(field_, key, "table" if letter == "F" else "array", octets, ["map" if letter == "F" else "list"])
        inner = Reader091(octets)
        while inner.at < len(octets):
            name = inner.short() if letter == "F" else None
            node.inner.append(inner.value("", name))
        return node


def amqp091(octets: bytes, body: bytes) -> list[Node]:
    reader = Reader091(octets)
    flags = int.from_bytes(reader.take(2))
    out: list[Node] = []
    for i, name in enumerate(PROPERTIES_091):
        if not flags >> (15 - i) & 1:
            continue
        place = f"properties.{name}"
        if name == "headers":
            inner = Reader091(reader.take(int.from_bytes(reader.take(4))))
            while inner.at < len(inner.octets):
                key = inner.short()
                out.append(placed(inner.value(place, key)))
        elif name == "timestamp":
            value = reader.take(8)
            out.append(Node(place, None, "timestamp", value, [digits(int.from_bytes(value))]))
        elif name in ("delivery_mode", "priority"):
            value = reader.take(1)
            out.append(placed(Node(place, None, "octet", value, [digits(value[0])])))
        else:
            value = reader.short()
            out.append(placed(Node(place, None, "shortstr", value, [text(value)])))
    out.append(Node("payload", None, "binary", body, [text(body)]))
    return out


# ------------------------------------------------------------------------------------------------ MQTT 5.0

PUBLISH: dict[int, tuple[str, str]] = {
    1: ("Payload Format Indicator", "bits"), 2: ("Message Expiry Interval", "uint"), 3: ("Content Type", "utf8"),
    8: ("Response Topic", "utf8"), 9: ("Correlation Data", "binary"), 11: ("Subscription Identifier", "uint"),
    35: ("Topic Alias", "ushort"), 38: ("User Property", "utf8 pair"),
}  # fmt: skip
#: Properties of other packets, which a lax reader accepts: the field "Other Property", the name is its key.
OTHERS: dict[int, tuple[str, str]] = {
    17: ("session_expiry_interval", "uint"), 18: ("assigned_client_identifier", "utf8"), 19: ("server_keep_alive", "ushort"),
    21: ("authentication_method", "utf8"), 22: ("authentication_data", "binary"), 23: ("request_problem_information", "bits"),
    24: ("will_delay_interval", "uint"), 25: ("request_response_information", "bits"), 26: ("response_information", "utf8"),
    28: ("server_reference", "utf8"), 31: ("reason_string", "utf8"), 33: ("receive_maximum", "ushort"),
    34: ("topic_alias_maximum", "ushort"), 36: ("maximum_qos", "bits"), 37: ("retain_available", "bits"),
    39: ("maximum_packet_size", "uint"), 40: ("wildcard_subscription_available", "bits"),
    41: ("subscription_identifiers_available", "bits"), 42: ("shared_subscription_available", "bits"),
}  # fmt: skip


def mqtt5(octets: bytes) -> list[Node]:
    at = 1

    def varint() -> tuple[int, bytes]:
        nonlocal at
        start, number, shift = at, 0, 0
        while True:
            number |= (octets[at] & 0x7F) << shift
            shift += 7
            at += 1
            if octets[at - 1] < 0x80:
                return number, octets[start:at]

    def sized() -> bytes:
        nonlocal at
        size = int.from_bytes(octets[at : at + 2])
        at += 2 + size
        return octets[at - size : at]

    varint()
    sized()
    flags = octets[0] & 15
    at += 2 if flags & 6 else 0
    out = [Node("QoS", None, "bits", octets[:1], [("durable", flags >> 1 & 3 > 0)])]
    out += [Node("Dup", None, "bits", octets[:1], ["dup"])] if flags & 8 else []
    out += [Node("Retain", None, "bits", octets[:1], ["retain"])] if flags & 1 else []
    end = varint()[0] + at
    while at < end:
        number = varint()[0]
        key = None
        if number in PUBLISH:
            name, type_ = PUBLISH[number]
        else:
            name, (other, type_) = "Other Property", OTHERS[number]
            key = other.encode()
        if type_ == "utf8 pair":
            key = sized()
            value = sized()
        elif type_ in ("utf8", "binary"):
            value = sized()
        elif number == 11:
            value = varint()[1]
        else:
            size = {"bits": 1, "ushort": 2, "uint": 4}[type_]
            value = octets[at : at + size]
            at += size
        word = text(value) if type_ in ("utf8", "binary", "utf8 pair") else digits(int.from_bytes(value))
        node = Node(name, key, type_, value, [word])
        if type_ == "utf8 pair" and re.fullmatch(rb"-?[0-9]+(\.[0-9]+)?(E[+-][0-9]+)?", value):
            node.words.append(Decimal(value.decode()))
        out.append(placed(node))
    out.append(Node("Payload", None, "binary", octets[at:], [text(octets[at:])]))
    return out


# ------------------------------------------------------------------------------------------------ meanings by place

REPLIES = {"properties.reply_to", "Response Topic"}


def placed(node: Node) -> Node:
    """What some fields mean beside their octets."""
    place, octets = node.field, node.octets
    if place == "header.durable":
        node.words = [("durable", node.words[0] == b"true")]
    elif place == "properties.delivery_mode":
        node.words.insert(0, ("durable", octets == b"\2"))
    elif place == "properties.expiration" and re.fullmatch(rb"[+-]?[0-9]+", octets):
        node.words.insert(0, digits(int(octets)))
    elif place == "Message Expiry Interval":
        node.words.insert(0, digits(int.from_bytes(octets) * 1000))
    elif place in REPLIES or (
        place == "properties.headers" and node.key == b"x-reply-to-topic" and node.type == "longstr"
    ):
        node.words.insert(0, address(octets))
    elif place == "message annotations" and node.key == b"x-opt-rabbitmq-received-time" and node.type == "timestamp":
        node.words.insert(0, digits(int.from_bytes(octets, signed=True)))
    return node
