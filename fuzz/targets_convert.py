"""Conversions between AMQP 1.0, AMQP 0.9.1 and MQTT 5.0: refused, or a message that the other protocol accepts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import rows, same
from targets_columns import LETTERS, amqp10_values, table

from lib.convert_cases import CASES
from wirefmt import amqp091, amqp10, convert, mqtt
from wirefmt.convert._engine import convert_rows
from wirefmt.convert.dialects import compiled
from wirefmt.errors import ConversionError, DecodeError, EncodeError

DIALECTS = tuple(convert.DIALECTS)
READ: dict[str, Callable[[convert.Wire, str], object]] = {
    "amqp10": lambda wire, strictness: amqp10.Message.decode(wire.octets, strictness=strictness),
    "amqp091": lambda wire, strictness: amqp091.BasicProperties.decode(wire.octets),
    "mqtt5": lambda wire, strictness: mqtt.decode(wire.octets, version=5, strictness=strictness),
}


#: A PUBLISH with a User Property that is not UTF-8, so that the core reads a copy of it.
ILL_FORMED = bytes.fromhex("300d00017408260001ff0002fefe70")


def attempt(message: Any, **options: Any) -> convert.Conversion | str:
    try:
        return convert.convert(message, **options)
    except ConversionError as refused:
        return str(refused)


#: How topics and addresses are translated, and a routing key for it.
ADDRESSES: tuple[dict[str, Any], ...] = (
    {"routing_key": "k.a"},
    {"routing_key": "spBv1___0.g.*", "topics": "sparkplug"},
    {"routing_key": "k/a", "topics": "unchanged"},
    {"routing_key": "k.a", "percent_encoding": False},
    {"routing_key": "spAv1___.g", "topics": "sparkplug"},
)


def conversion(data: bytes) -> None:
    """The first octet chooses protocols and dialect; AMQP 0.9.1 has its properties after two octets of length."""
    if len(data) < 3:
        return
    source = convert.PROTOCOLS[data[0] % 3]
    to = convert.PROTOCOLS[data[0] // 3 % 3]
    options: dict[str, Any] = {"to": to, "dialect": DIALECTS[data[0] // 9 % len(DIALECTS)]}
    options |= ADDRESSES[data[0] // 27 % len(ADDRESSES)]
    message: Any = data[1:]
    if source == "amqp091":
        size = int.from_bytes(data[1:3], "big")
        message = convert.Wire(source, data[3 : 3 + size], data[3 + size :])
    made = attempt(message, source=source, **options)
    told = attempt(message, source=source, explain=True, **options)
    if isinstance(made, str) or isinstance(told, str):
        same(made, told, "explain")
        return
    same(made.wire, told.wire, "explain")
    given = message if isinstance(message, convert.Wire) else convert.Wire(source, message)
    read_losses(given, made)
    read_losses(given, told)
    # the server passes on octets that are not text in the target's protocol
    if source != to and options["dialect"] == "documented" and fault(given, "strict") == "":
        same(fault(made.wire, "strict"), "", f"{to} is not valid: {made.octets.hex()}")
    deliver(given, to, options["dialect"])


def read_losses(given: convert.Wire, made: convert.Conversion) -> None:
    """After other conversions have reused the memory of this one: losses show octets of the source."""
    convert.convert(ILL_FORMED, source="mqtt5", to="amqp10", dialect="rabbitmq-4.3")
    for loss in made.losses:
        inside = loss.value in given.octets or loss.value in (given.body or b"")
        same(inside or loss.type == "boolean", True, f"{loss!r} is of the source {given!r}")
        repr(loss), str(loss)
    repr(made), repr(made.wire), made.losses
    try:
        repr(made.message)
    except DecodeError as error:
        repr(error)


def deliver(given: convert.Wire, to: convert.Protocol, dialect: str) -> None:
    """Through a queue, and through a stream."""
    container = convert.Container(given, exchange="x", routing_key="k.a", dialect=dialect, now_ms=0)
    try:
        read_losses(given, container.deliver(to, delivery_count=2))
        read_losses(given, container.dead_lettered("q", "expired", exchange="", now_ms=1).deliver(to))
        entry = container.stream_entry()
        stored = convert.Container.from_stream_entry(entry, offset=7, dialect=dialect)
        read_losses(stored.wire, stored.deliver(to))
    except ConversionError as refused:
        repr(refused)


def fault(wire: convert.Wire, strictness: str) -> str:
    """Why it cannot be decoded; empty: it can."""
    try:
        READ[wire.protocol](wire, strictness)
    except DecodeError as error:
        # a value nested more deeply than we read comes from an equally deep one
        return "" if type(error).__name__ == "LimitExceeded" else str(error)
    return ""


def seeds() -> Iterator[bytes]:
    r = random.Random(12)
    for row in rows("conversions"):
        if row["path"] != "convert":
            continue
        source, to = (convert.PROTOCOLS.index(row[name]) for name in ("from", "to"))
        first = bytes([source + 3 * to + 9 * r.randrange(len(DIALECTS))])
        if row["from"] == "amqp091":
            properties, body = (bytes.fromhex(row["input_hex"][name]) for name in ("properties_hex", "body_hex"))
            if len(properties) < 4096:
                yield first + len(properties).to_bytes(2, "big") + properties + body[:64]
        elif len(row["input_hex"]) < 8192:
            yield first + bytes.fromhex(row["input_hex"])

    yield from case_seeds()
    yield from value_seeds()


def placed(source: str, to: str, dialect: int, address: int, octets: bytes) -> bytes:
    protocols = convert.PROTOCOLS
    return bytes([protocols.index(source) + 3 * protocols.index(to) + 9 * dialect + 27 * address]) + octets


def written(message: Any) -> bytes:
    """As conversion() reads it."""
    if isinstance(message, amqp091.BasicMessage):
        properties, body = message.properties.encode(), message.body_bytes()
        return len(properties).to_bytes(2, "big") + properties + body
    return bytes(message.encode())


def case_seeds() -> Iterator[bytes]:
    """The messages of tests/lib/convert_cases.py."""
    for number, dialect in enumerate(DIALECTS):
        for way, cases in CASES[dialect].items():
            source, to = way.split(">")
            for case in cases.values():
                for message in (case.take, case.miss):
                    if message is not None:
                        yield placed(source, to, number, 0, written(message))


def value_seeds() -> Iterator[bytes]:
    """Each kind of value as a header, property, annotation, body; topics for Sparkplug; repeated keys."""
    for number in range(len(DIALECTS)):
        for value in amqp10_values():
            mapped = map_of(b"\xa3\3x-k" + value)
            body = b"\0\x53\x77" + value
            for octets in (b"\0\x53\x72" + mapped + body, b"\0\x53\x74" + mapped + b"\0\x53\x75\xa0\1b", body):
                for to in ("amqp091", "mqtt5"):
                    yield placed("amqp10", to, number, 0, octets)
        for value in LETTERS:
            headers = table((b"k", value), (b"x-k", value), (b"\xc3\xa9", value), (b"\xff", value))
            for to in ("amqp10", "mqtt5"):
                yield placed(
                    "amqp091", to, number, 0, (len(headers) + 2).to_bytes(2, "big") + b"\x20\0" + headers + b"b"
                )
        many = [(b"k%d" % (i % 70), b"t\1") for i in range(90)]
        for entries in (
            many,
            [*many[:80], (b"in", b"F" + table(*many))],
            [(b"x-in", b"F" + table(*many, (b"", b"V")))],
        ):
            headers = table(*entries)
            yield placed("amqp091", "amqp10", number, 0, (len(headers) + 2).to_bytes(2, "big") + b"\x20\0" + headers)
        for address in range(len(ADDRESSES)):
            for topic in (
                "spBv1.0/g/+",
                "spAv1.0/g",
                "spBv.0/g",
                "spBv1.0",
                "spBv1.0.x",
                "sp",
                "a/b.c*",
                "a%20b/é",
                "$q/+",
            ):
                try:
                    message = mqtt.Publish(
                        topic_name="t", payload=b"p", properties=[("response_topic", topic)]
                    ).encode()
                except EncodeError:
                    continue
                yield placed("mqtt5", "amqp10", number, address, message)
                yield placed("mqtt5", "amqp091", number, address, message)
            for name in ("/exchanges/amq.topic/spBv1___0.g.*", "/exchange/amq.topic/spAv1___0.g", "/queues/a%20b", "/queues/%zz",
                         "/exchanges/amq.topic/a%2Fb", "/exchanges/amq.topic/spBv1___x", "/queue/q", "/topic/t.a"):  # fmt: skip
                message = amqp10.Message(properties=amqp10.Properties(reply_to=name, to=name), body=b"b").encode()
                for to in ("amqp091", "mqtt5"):
                    yield placed("amqp10", to, number, address, message)


def map_of(entries: bytes, count: int = 2) -> bytes:
    return b"\xd1" + (len(entries) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + entries


# ------------------------------------------------------------------------------------------------ columns


KINDS = (0, 1, 2, 3, 255)  # for convert_rows: the protocols, PUBLISH of MQTT 3.1.1, not a message


def column(data: bytes) -> None:
    """The first octet chooses target and dialect; a row is an octet for its kind, two for its size, and its octets. A
    column gives the same results as its messages one by one; AMQP 0.9.1 is in frames."""
    if not data:
        return
    to, dialect = convert.PROTOCOLS[data[0] % 3], DIALECTS[data[0] // 3 % len(DIALECTS)]
    kinds, parts, at = bytearray(), [], 1
    while len(data) - at >= 3:
        size = int.from_bytes(data[at + 1 : at + 3], "big")
        kinds.append(KINDS[data[at] % len(KINDS)])
        parts.append(data[at + 3 : at + 3 + size])
        at += 3 + size
    offsets: Any = np.cumsum([0, *map(len, parts)], dtype=np.int32)
    keys: Any = np.arange(len(parts) + 1, dtype=np.int32)
    made = convert_rows(
        compiled(dialect), convert.PROTOCOLS.index(to), kinds, offsets, b"".join(parts), keys, b"k" * len(parts)
    )
    columns = (made["raw"], made["rule"], made["error"])
    check_refused(dialect, kinds, offsets, b"".join(parts), keys)
    for kind, part, octets, rule, error in zip(kinds, parts, *columns, strict=True):
        if kind == 255:
            same((octets, rule, error), (None, None, None), "no message")
            continue
        same((octets is None), (error is not None), "octets or an error")
        if kind < 3 and convert.PROTOCOLS[kind] != to:
            same((octets, rule), alone(convert.PROTOCOLS[kind], part, to, dialect), "one by one")


def check_refused(dialect: str, kinds: bytearray, offsets: Any, data: bytes, keys: Any) -> None:
    """Columns that do not match."""
    if not data:
        return
    rules, key_data = compiled(dialect), b"k" * len(kinds)
    for wrong in (
        (rules, 7, kinds, offsets, data, keys, key_data),
        (rules, 0, kinds[1:], offsets, data, keys, key_data),
        (rules, 0, kinds, offsets + 1, data, keys, key_data),
        (rules, 0, kinds, -offsets[::-1], data, keys, key_data),
        (rules, 0, kinds, offsets, data, keys[1:], key_data),
    ):
        try:
            convert_rows(*wrong)
        except ValueError:
            continue
        raise AssertionError("columns that do not match are converted")


def content_frames() -> Iterator[bytes]:
    """Contents of AMQP 0.9.1 in frames, complete and incomplete."""
    properties = amqp091.BasicProperties(content_type="a/b", headers={"k": "v", "x": b"\xff"})
    publish = amqp091.BasicPublish(channel=1, exchange="e", routing_key="k")
    for body in (b"", b"abc", b"a" * 20):
        for frame_max in (0, 9, 12):
            message = amqp091.BasicMessage(publish, properties, body, frame_max=frame_max)
            octets, first = message.encode(), len(publish.encode())
            yield octets
            yield octets[first:]
            yield octets[first:-3]
            yield octets[:first]
            yield octets + octets[first:]
            yield octets[:first] + amqp091.Heartbeat().encode() + octets[first:]
            yield octets[:-1] + b"\0"
            yield octets[first:] + b"\x08\0\0\0\0\0\0\xce"


def alone(source: convert.Protocol, part: bytes, to: convert.Protocol, dialect: str) -> tuple[bytes | None, str | None]:
    try:
        wire = convert.Wire.from_frames(part) if source == "amqp091" else convert.Wire(source, part)
        same(wire, convert.Wire.from_frames(wire.frames()) if source == "amqp091" else wire, "frames")
        return convert.convert(wire, to=to, dialect=dialect, routing_key="k").wire.frames(), None
    except DecodeError:
        return None, "amqp091:undecodable"
    except ConversionError as refused:
        return None, refused.rule


def column_seeds() -> Iterator[bytes]:
    """Three messages of the vectors, and one of MQTT 3.1.1."""
    octets: bytes
    for number, octets in enumerate(content_frames()):
        for kind in (1, 3) if number % 4 == 0 else (1,):
            yield bytes([number % 9]) + (bytes([kind]) + len(octets).to_bytes(2, "big") + octets) * 2
    for number, octets in enumerate(
        (
            b"",
            b"\x30\0",
            b"\x30\4\0\1ab",
            b"\x3b\7\0\1a\0\1xy",
            b"\x40\2\0\1",
            b"\x30\x80\x80\x80\x80\1",
            b"\x33\5\0\1#\0\2",
        )
    ):
        for first in range(9):
            yield bytes([first]) + bytes([(2, 3)[number % 2]]) + len(octets).to_bytes(2, "big") + octets
            yield bytes([first]) + b"\3" + len(octets).to_bytes(2, "big") + octets
    held = []
    for number, row in enumerate(rows("conversions")):
        if row["path"] != "convert" or number % 7:
            continue
        if row["from"] == "amqp091":
            properties, body = (bytes.fromhex(row["input_hex"][name]) for name in ("properties_hex", "body_hex"))
            octets = convert.Wire("amqp091", properties, body[:64]).frames()
        else:
            octets = bytes.fromhex(row["input_hex"])
        if len(octets) < 2048:
            held.append(bytes([convert.PROTOCOLS.index(row["from"])]) + len(octets).to_bytes(2, "big") + octets)
        if len(held) == 3:
            yield bytes([number % 9]) + b"".join(held) + b"\3\0\x0b" + bytes.fromhex("32090003612f6200076869")
            held.clear()


TARGETS = {"conversion": (conversion, seeds), "conversion_columns": (column, column_seeds)}
