"""A fuzz target of callers' objects: constructors and functions with nearly valid values.

It chooses a class of a public module, then the fields of one of its objects from the vectors, and changes some of these.
Refusals must be one of ERRORS; objects that are built are written, read back, equal, copied, pickled.
"""

from __future__ import annotations

import copy
import pickle
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

from common import rows, same

from lib.protocols import MODULES
from wirefmt import amqp091, amqp10, mqtt, rocketmq
from wirefmt.errors import DecodeError, WireError

#: Exceptions that invalid arguments may raise.
ERRORS = (WireError, TypeError, ValueError, OverflowError, LookupError, AttributeError, BufferError, MemoryError)
EDGES = (0, 1, 2, 5, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**31, 2**32, 2**63, 2**64, 10**30)

T = TypeVar("T")


class Source:
    """Choices from an input; zeros after its end."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at = 0

    def octet(self) -> int:
        self.at += 1
        return self.octets[self.at - 1] if self.at <= len(self.octets) else 0

    def below(self, n: int) -> int:
        return (self.octet() << 8 | self.octet()) % n if n > 256 else self.octet() % n

    def choice(self, of: Sequence[T]) -> T:
        return of[self.below(len(of))]

    def take(self, n: int) -> bytes:
        self.at += n
        return self.octets[self.at - n : self.at]


def number(s: Source) -> int:
    return s.choice((1, -1)) * s.choice(EDGES) - s.choice((0, 0, 1, -1))


def text(s: Source) -> str:
    kind = s.below(6)
    if kind == 0:
        return s.choice(
            ("", "a", "k.a", "a/b/+", "#", "$share/g/t", "\0", "\ud800", "é漢😀", "x" * 255, "x" * 256, "1 2 3")
        )
    return s.take(s.octet() % 40).decode("latin-1" if kind == 1 else "utf-8", "replace")


def octets(s: Source) -> bytes:
    return s.take(s.octet() % 60) * s.choice((1, 1, 1, 30, 1200))


def value(s: Source, depth: int = 0) -> Any:
    """Any value, of Python or of a protocol."""
    kind = s.below(24 if depth < 4 else 14)
    simple: tuple[Callable[[Source], Any], ...] = (
        number, number, text, text, octets, lambda s: None, lambda s: bool(s.octet() & 1),
        lambda s: s.choice((0.0, -0.0, 1.5, 1e300, float("nan"), float("inf"))),
        lambda s: datetime.fromtimestamp(s.choice((0, 1, 1.7e9, 2**33)), UTC), lambda s: uuid.UUID(int=s.octet()),
        lambda s: memoryview(octets(s)), lambda s: bytearray(octets(s)),
        lambda s: Decimal(number(s)).scaleb(-s.octet() % 40), lambda s: s.choice(HELD),
    )  # fmt: skip
    if kind < len(simple):
        return simple[kind](s)
    if kind < 17:
        return [value(s, depth + 1) for _ in range(s.octet() % 4)]
    if kind < 19:
        return {text(s): value(s, depth + 1) for _ in range(s.octet() % 4)}
    if kind < 20:
        return tuple((text(s), value(s, depth + 1)) for _ in range(s.octet() % 3))
    wrap = s.choice(WRAPS)
    try:
        return wrap(value(s, depth + 1)) if s.octet() & 1 else wrap(text(s), value(s, depth + 1))
    except ERRORS:
        return None


#: Classes of values that are contained in others.
WRAPS = [
    amqp10.Int, amqp10.UInt, amqp10.ULong, amqp10.UByte, amqp10.Byte, amqp10.Short, amqp10.UShort, amqp10.Timestamp,
    amqp10.Symbol, amqp10.Char, amqp10.Float, amqp10.Decimal32, amqp10.Decimal64, amqp10.Decimal128, amqp10.List,
    amqp10.Map, amqp10.Array, amqp10.Described, amqp10.Data, amqp10.AmqpValue, amqp10.AmqpSequence, amqp10.Source,
    amqp091.FieldTable, amqp091.FieldArray, amqp091.FieldValue, amqp091.Timestamp, mqtt.Subscription, mqtt.Will,
]  # fmt: skip


def known() -> Iterator[tuple[str, Any]]:
    """Objects of the vectors."""
    for protocol, module in MODULES.items():
        for row in rows(protocol):
            found = bytes.fromhex(row["hex"]) if row.get("hex") else b""
            if not 0 < len(found) < 600:
                continue
            options = {"version": row["version"]} if protocol == "mqtt" else {}
            kind = row.get("kind")
            for decode in (
                [amqp10.decode_message] if kind == "message" and protocol == "amqp10"
                else [amqp10.decode_value] if kind == "value"
                else [amqp091.FieldTable.decode] if kind == "table"
                else [amqp091.BasicProperties.decode] if kind == "properties"
                else [lambda o: next(iter(rocketmq.decode_messages(o)))] if kind == "stored-message"
                else [lambda o, m=module, p=options: m.decode(o, **p)]
            ):  # fmt: skip
                try:
                    yield protocol, decode(found)
                except ERRORS:
                    continue


def fields_of(message: Any) -> dict[str, Any]:
    found = {}
    for name in getattr(type(message), "__match_args__", ()):
        try:
            found[name] = getattr(message, name)
        except ERRORS:
            continue
    return found


#: Base classes, which nobody builds.
BASES = ("RemotingSerializable", "CommandCustomHeader")


def classes() -> dict[type, tuple[str, list[dict[str, Any]]]]:
    """Public classes, with fields that objects of theirs have."""
    found: dict[type, tuple[str, list[dict[str, Any]]]] = {}
    for protocol, message in known():
        stack = [message]
        if protocol == "rocketmq":
            try:
                stack += [message.header, message.decode_body()]
            except (*ERRORS, DecodeError):
                pass
        while stack:
            one = stack.pop()
            if not type(one).__module__.startswith("wirefmt"):
                continue
            examples = found.setdefault(type(one), (protocol, []))[1]
            fields = fields_of(one)
            if len(examples) < 12 and fields not in examples:
                examples.append(fields)
                HELD.append(one)
                stack += list(fields.values())
                stack += [part for f in fields.values() if isinstance(f, tuple) for part in f]
    for protocol, module in MODULES.items():
        for name in module.__all__:
            cls = getattr(module, name)
            if isinstance(cls, type) and name not in BASES:
                names = getattr(cls, "__match_args__", ()) or [row[1] for row in getattr(cls, "FIELDS", ())]
                found.setdefault(cls, (protocol, [dict.fromkeys(names)]))
    return found


HELD: list[Any] = [None]
CLASSES = list(classes().items())
FUNCTIONS = [
    getattr(module, name)
    for module in MODULES.values()
    for name in module.__all__
    if callable(getattr(module, name)) and not isinstance(getattr(module, name), type)
]


def decoded(protocol: str, made: Any) -> Any:
    """The message that its octets decode to; None if it is not a message."""
    written = made.encode()
    if isinstance(made, amqp10.Message):
        return amqp10.decode_message(written, strictness="lax")
    if isinstance(made, (amqp091.FieldTable, amqp091.BasicProperties)):
        return type(made).decode(written)
    if isinstance(made, amqp091.BasicMessage):
        return amqp091.Assembler(frame_max=0, strictness="lax").feed(written)[0]
    if isinstance(made, (amqp091.FieldArray, rocketmq.MessageExt)) or (
        protocol == "rocketmq" and hasattr(made, "FIELDS")
    ):
        return made
    if hasattr(type(made), "decode"):
        return type(made).decode(written)
    if isinstance(made, amqp10.Value) or (
        isinstance(made, amqp10.Composite) and not isinstance(made, amqp10.Performative)
    ):
        return amqp10.decode_value(written, strictness="lax")
    options = {"version": made.version} if protocol == "mqtt" else {}
    return MODULES[protocol].decode(written, strictness="lax", **options)


def ask(made: Any) -> None:
    """Everything that an object offers."""
    repr(made)
    for name in dir(type(made)):
        if name.startswith("_"):
            continue
        try:
            found = getattr(made, name)
            if callable(found) and name in ("detach", "walk", "items", "keys", "values", "body_bytes", "payload_bytes"):
                found()
        except ERRORS:
            pass


def objects(data: bytes) -> None:
    s = Source(data)
    if s.octet() < 32:
        function = s.choice(FUNCTIONS)
        try:
            made = function(*(value(s) for _ in range(s.octet() % 3 + 1)))
            repr(made)
            if isinstance(made, Coroutine):
                made.close()  # nothing runs
        except ERRORS:
            pass
        return
    cls, (protocol, examples) = s.choice(CLASSES)
    fields = dict(s.choice(examples))
    for _ in range(s.octet() % 4):
        name = s.choice([*fields, "form", "version", "extended_header"])
        fields[name] = value(s)
        if s.octet() > 240:
            del fields[name]
    try:
        made = cls(**fields) if fields or s.octet() & 1 else cls(value(s))
    except ERRORS:
        return
    ask(made)
    if not hasattr(made, "encode") or isinstance(made, str | bytes):
        return
    try:
        again = decoded(protocol, made)
    except DecodeError as error:
        if "version" in str(error) or type(error).__name__ == "LimitExceeded":
            return
        raise AssertionError(f"{made!r} is built and cannot be read") from error
    if made != made or isinstance(made, amqp10.Composite | rocketmq.RemotingCommand):
        return  # NaN; descriptors and names of other classes; null fields of the binary header
    same(again, made, "built, written and read")
    same(hash(again), hash(made), "hash")
    same(pickle.loads(pickle.dumps(made)), made, "pickled")
    same(copy.deepcopy(made), made, "copied")


def seeds() -> Iterator[bytes]:
    """Each class several times: unchanged, and with a field changed."""
    for number in range(len(CLASSES)):
        place = number.to_bytes(2, "big") if len(CLASSES) > 256 else bytes([number])
        for example in range(3):
            yield b"\xff" + place + bytes((example, 0))
            yield b"\xff" + place + bytes((example, 1, example, 2 + example, 7, 9, 20)) + bytes(range(40))
    for number in range(len(FUNCTIONS)):
        for kind in (0, 2, 4, 14, 17):
            yield bytes((1, number, 1, kind, 1, 5)) + b"0 1 2 3 4 5 6 7 8"


TARGETS = {"objects": (objects, seeds)}
