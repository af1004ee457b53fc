"""What AMQP 0-9-1 says must be, section by section, and where RabbitMQ says otherwise: for each statement octets that keep
it and octets that break it, in STRICT and in LAX.

Sections of the general specification begin with 2 or 4, those of the class reference with 1; `errata` is RabbitMQ's page on
the types of field values, `RabbitMQ` what its server does where the specification is silent.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pytest

from lib.amqp091_vectors import frame
from wirefmt import amqp091
from wirefmt.errors import DecodeError
from wirefmt.protocols import skippable


def method(cls: int, number: int, arguments: bytes = b"", channel: int = 1) -> bytes:
    return frame(1, channel, struct.pack(">HH", cls, number) + arguments)


def header(rest: bytes = b"\0\0", *, cls: int = 60, weight: int = 0, size: int = 0, channel: int = 1) -> bytes:
    return frame(2, channel, struct.pack(">HHQ", cls, weight, size) + rest)


def table(entries: bytes, declared: int | None = None) -> bytes:
    return struct.pack(">I", len(entries) if declared is None else declared) + entries


def headers(entries: bytes, declared: int | None = None) -> bytes:
    return header(b"\x20\0" + table(entries, declared))


@dataclass(frozen=True)
class Statement:
    section: str
    text: str
    kept: tuple[bytes, ...] = ()
    broken: tuple[bytes, ...] = ()
    lax: str | None = None  # the check that LAX notes; None: LAX refuses as well
    side: str | None = None


ACK = b"\0" * 7 + b"\5"
STATEMENTS = (
    Statement("4.2.2", "a connection begins with AMQP 0 0 9 1", (b"AMQP\0\0\x09\x01",), (b"AMQP\0\0\x09\0", b"AMQP\1\1\0\x0a"),
              "PROTOCOL_VERSION"),
    Statement("4.2.2", "a protocol header begins with AMQP", (), (b"AMQZ\0\0\x09\x01", b"AXXX\0\0\x09\x01")),
    Statement("4.2.3", "frames are of type 1, 2, 3 or 8",
              (method(90, 10), header(), frame(3, 1, b"x"), frame(8, 0, b"")),
              tuple(frame(t, 1, b"") for t in (0, 4, 5, 6, 7, 9, 16, 255))),
    Statement("4.2.3", "a frame ends with 0xCE", (method(90, 10),),
              tuple(method(90, 10)[:-1] + bytes([end]) for end in (0, 0xCD, 0xCF, 0xFF))),
    Statement("4.2.3", "the size is that of the payload", (method(90, 10),),
              (b"\1\0\1\0\0\0\3\0\x5a\0\x0a\xce", b"\1\0\1\0\0\0\5\0\x5a\0\x0a\xce")),
    Statement("4.2.4", "a method payload has class and method", (), (frame(1, 1, b""), frame(1, 1, b"\0\x5a\0"))),
    Statement("4.2.4", "a method is one of its class", (method(60, 120, ACK + b"\0\0"[:1]),),
              (method(60, 0), method(60, 12), method(60, 121), method(60, 65535), method(90, 12), method(85, 20))),
    Statement("4.2.4", "a class is one that there is", (), (method(0, 10), method(11, 10), method(70, 10), method(65535, 10))),
    Statement("4.2.4", "arguments fill the payload", (method(60, 80, ACK + b"\0"),), (method(60, 80, ACK + b"\0\0"),),
              "TRAILING_ARGUMENTS"),
    Statement("4.2.4", "no argument is truncated", (),
              (method(60, 80, ACK), method(60, 80), method(60, 31, b"\2a"), method(10, 20, b"\0\0\0\1", 0),
               method(10, 20, b"\0\0", 0), method(10, 30, b"\0\0\0\0\0\0\0", 0))),
    Statement("4.2.5.2", "bits fill an octet from the lowest up; those above them mean nothing",
              (method(60, 120, ACK + b"\xff"), method(60, 120, ACK + b"\x03"))),
    Statement("4.2.5.3", "a short string has up to 255 octets", (method(60, 31, b"\xff" + b"x" * 255),)),
    Statement("RabbitMQ", "short strings of methods without content are UTF-8", (method(60, 31, b"\2\xc3\xa9"),),
              (method(60, 31, b"\2a\xff"), method(60, 31, b"\2\xc3("), method(10, 60, b"\1\x80", 0)), "SHORT_STRING_UTF8"),
    Statement("RabbitMQ", "those of methods with content, of properties and tables need not be",
              (method(60, 40, b"\0\0\1\xff\1\xfe\0"), header(b"\x80\0\1\xff"), headers(b"\1\xffS\0\0\0\1\xfe"))),
    Statement("RabbitMQ", "U+0000 may be in a short string", (method(60, 31, b"\3a\0b"),)),
    Statement("4.2.5.5", "entries end where their table does", (headers(b"\1aI\0\0\0\1"),),
              (headers(b"\1aI\0\0\0"), headers(b"\1a"), headers(b"\5a"), headers(b"\1aS\0\0\0\2x"),
               headers(b"\1aF\0\0\0\1"), headers(b"\1aA\0\0\0\5I\0\0\0"), headers(b"\1aS\xff\xff\xff\xff"))),
    Statement("4.2.5.5", "a table ends where it says", (),
              (headers(b"\1aV", 2), headers(b"\1aV", 4), headers(b"\1aV", 0xFFFFFFFF))),
    Statement("errata", "the letters of RabbitMQ",
              tuple(headers(b"\1k" + letter + bytes(size)) for letter, size in
                    ((b"t", 1), (b"b", 1), (b"B", 1), (b"s", 2), (b"u", 2), (b"I", 4), (b"i", 4), (b"l", 8), (b"L", 8), (b"f", 4),
                     (b"d", 8), (b"D", 5), (b"S", 4), (b"A", 4), (b"T", 8), (b"F", 4), (b"V", 0), (b"x", 4))),
              tuple(headers(b"\1k" + bytes([letter]) + bytes(4)) for letter in b"\0UcCZnNvXzOEgjpqy \xff")),
    Statement("errata", "s is a signed number of 16 bits, no short string", (headers(b"\1ks\x02\x61"),),
              (headers(b"\1ks\2ab"),)),
    Statement("4.2.6", "contents are not on channel 0", (frame(3, 1, b"x"),), (frame(3, 0, b"x"), header(channel=0)),
              "CONTENT_CHANNEL"),
    Statement("4.2.6.1", "a content header is of class basic", (header(),),
              tuple(header(cls=c) for c in (10, 20, 40, 50, 85, 90, 0, 61, 65535))),
    Statement("4.2.6.1", "weight is 0", (header(),), (header(weight=1), header(weight=256)), "WEIGHT"),
    Statement("4.2.6.1", "a body may have any size of 64 bits", (header(size=2**64 - 1), header(size=0))),
    Statement("4.2.6.1", "property flags are there", (), (header(b""), header(b"\0"))),
    Statement("4.2.6.1", "properties come in the order of their flags", (header(b"\xd0\0\1a\1b\2"),),
              (header(b"\xd0\0\1a\1b"), header(b"\xd0\0\1a\5b\2"))),
    Statement("4.2.6.1", "class basic has fourteen properties, in one word of flags", (header(b"\0\0"),),
              (header(b"\0\1"), header(b"\0\2"), header(b"\0\3"), header(b"\x80\3\1a")), "PROPERTY_FLAGS"),
    Statement("4.2.6.1", "nothing follows the last property", (header(b"\x80\0\1a"),), (header(b"\x80\0\1ab"), header(b"\0\0\0")),
              "TRAILING_PROPERTIES"),
    Statement("4.2.6.2", "a body may be empty", (frame(3, 1, b""),)),
    Statement("4.2.7", "a heartbeat is on channel 0", (frame(8, 0, b""),), (frame(8, 1, b""), frame(8, 65535, b"")),
              "HEARTBEAT_CHANNEL"),
    Statement("4.2.7", "a heartbeat has no payload", (frame(8, 0, b""),), (frame(8, 0, b"x"),), "HEARTBEAT_PAYLOAD"),
    Statement("4.3", "class connection is on channel 0", (method(10, 51, channel=0),), (method(10, 51),), "METHOD_CHANNEL_ZERO"),
    Statement("4.3", "the other classes are on other channels", (method(90, 10), method(90, 10, channel=65535)),
              (method(90, 10, channel=0),), "METHOD_CHANNEL"),
    Statement("2.2.4", "clients send what clients send", (method(90, 10), method(60, 80, ACK + b"\0"), method(20, 41)),
              (method(90, 11), method(60, 111)), "METHOD_SENDER", "client"),
    Statement("2.2.4", "servers send what servers send", (method(90, 11), method(60, 80, ACK + b"\0"), method(20, 41)),
              (method(90, 10), method(60, 90, ACK + b"\0")), "METHOD_SENDER", "server"),
    Statement("RabbitMQ", "a server cancels consumers, and acknowledges what a client published",
              (method(60, 30, b"\1c\0"), method(60, 80, ACK + b"\0"), method(60, 120, ACK + b"\0")), side="server"),
)  # fmt: skip

KEPT = [pytest.param(s, o, id=f"{s.section}-{s.text}-{i}") for s in STATEMENTS for i, o in enumerate(s.kept)]
BROKEN = [pytest.param(s, o, id=f"{s.section}-{s.text}-{i}") for s in STATEMENTS for i, o in enumerate(s.broken)]


@pytest.mark.parametrize(("statement", "octets"), KEPT)
def test_kept(statement: Statement, octets: bytes) -> None:
    options: dict[str, Any] = {"side": statement.side}
    message = amqp091.decode(octets, **options)
    assert message.encode() == octets
    lax = amqp091.decode(octets, strictness="lax", **options)
    assert lax == message
    assert lax.notes == ()


@pytest.mark.parametrize(("statement", "octets"), BROKEN)
def test_broken(statement: Statement, octets: bytes) -> None:
    options: dict[str, Any] = {"side": statement.side}
    with pytest.raises(DecodeError) as caught:
        amqp091.decode(octets, **options)
    assert caught.value.spec
    if statement.lax is None:
        with pytest.raises(DecodeError):
            amqp091.decode(octets, strictness="lax", **options)
        return
    lax = amqp091.decode(octets, strictness="lax", **options)
    assert statement.lax in [n.check for n in lax.notes]
    assert lax.notes[0].reason == caught.value.reason
    assert (lax.notes[0].path, lax.notes[0].offset) == (caught.value.path, caught.value.offset)
    assert lax.encode() == octets
    repr(lax)


def test_everything_that_lax_skips_is_here() -> None:
    skipped = {s.check for s in skippable() if s.protocol == "amqp091"}
    assert skipped == {s.lax for s in STATEMENTS if s.lax}


@pytest.mark.parametrize("text", [b"UTF-8 \xc3\xa9", b""])
def test_long_strings_are_octets(text: bytes) -> None:
    """4.2.5.3: long strings hold any octets."""
    message = amqp091.ConnectionSecure(challenge=text + b"\xff\0")
    assert amqp091.decode(message.encode()).challenge == text + b"\xff\0"


def test_what_rabbitmq_reads_of_each_letter() -> None:
    """The errata's table: values, not only lengths."""
    octets = bytes.fromhex(
        "0174 74 02"  # any octet but 0 is true
        "0162 62 ff"  # -1
        "0142 42 ff"  # 255
        "0173 73 ffff"  # -1
        "0175 75 ffff"  # 65535
        "0149 49 ffffffff"  # -1
        "0169 69 ffffffff"  # 4294967295
        "016c 6c ffffffffffffffff"  # -1: l is signed, whatever 4.2.1 says
        "014c 4c ffffffffffffffff"  # -1
        "0144 44 02 ffffffff"  # unsigned: 42949672.95
        "0154 54 ffffffffffffffff"
        "0164 64 3ff8000000000000"
        "0166 66 3fc00000"
    )
    read = amqp091.FieldTable.decode(len(octets).to_bytes(4, "big") + octets)
    assert {name: str(value) for name, value in read.items()} == {
        "t": "True", "b": "-1", "B": "255", "s": "-1", "u": "65535", "I": "-1", "i": "4294967295", "l": "-1", "L": "-1",
        "D": "42949672.95", "T": "amqp091.Timestamp(18446744073709551615)", "d": "1.5", "f": "1.5",
    }  # fmt: skip
