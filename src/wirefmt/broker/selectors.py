"""Filters of AMQP 1.0 sources (3.5.8): which messages a receiver wants.

JMS message selectors (`apache.org:selector-filter:string`), as ActiveMQ Artemis evaluates them; property filters and SQL
filters of the AMQP Filter Expressions 1.0, as RabbitMQ evaluates them. docs/broker.md says what of them there is. Sections
without a name are those of AMQP 1.0.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from wirefmt import amqp10
from wirefmt.broker.messages import Item
from wirefmt.errors import ConversionError
from wirefmt.sql import DEPTH_MAX, HOLDS, Node, NoMatchError, Parser, above, constant, negation, order_of_doubles

#: Characters of an expression, and fields of a property filter (RabbitMQ).
LENGTH_MAX: Final = 4096
FIELDS_MAX: Final = 16

#: Characters of a value that LIKE looks at. A longer one does not match. The second is for patterns with `_` between two `%`.
LIKE_MAX: Final = 65_536
LIKE_SLOW_MAX: Final = 4096

#: Bytes that a token of an expression costs while its link is attached.
TOKEN_BYTES: Final = 300

Matches = Callable[["Fields"], Any]


class Fields:
    """A message as filters see it: as its consumer would get it."""

    __slots__ = ("application", "failed", "header", "message", "properties")

    def __init__(self, item: Item) -> None:
        """Raises ConversionError if the message is not for AMQP 1.0."""
        made = item.published.container.deliver("amqp10", redelivered=item.redelivered, delivery_count=item.failed)
        message: amqp10.Message = made.message
        self.message = message
        self.failed = item.failed
        self.header: amqp10.Header = message.header or _NO_HEADER
        self.properties: amqp10.Properties = message.properties or _NO_PROPERTIES
        self.application: Mapping[Any, Any] = message.application_properties or {}


_NO_HEADER: Final = amqp10.Header()
_NO_PROPERTIES: Final = amqp10.Properties()


class Test(NamedTuple):
    """One filter of a source. `tokens`: how large its expression is."""

    matches: Matches
    tokens: int


class Filter:
    """All filters of a source: a message has to pass each of them (3.5.8).

    Attributes:
        tokens: how large its expressions are.
        cost: what looking at a message costs, in simple comparisons.
        size: bytes that the filter takes.
    """

    __slots__ = ("_tests", "cost", "size", "tokens")

    def __init__(self, tests: Iterable[Test]) -> None:
        found = list(tests)
        self._tests = [test.matches for test in found]
        self.tokens = sum(test.tokens for test in found)
        self.cost = 1 + (self.tokens >> 4)
        self.size = TOKEN_BYTES * self.tokens

    def matches(self, item: Item) -> bool:
        """Does its consumer want this message? False if it cannot be converted to AMQP 1.0."""
        try:
            fields = Fields(item)
            return all(matches(fields) is True for matches in self._tests)
        except (ConversionError, NoMatchError):
            return False


def read(filters: Mapping[Any, Any] | None) -> tuple[Filter | None, dict[Any, Any]]:
    """The filters of a source that there are here; and the same as they are answered (3.5.3).

    Raises ValueError for a JMS selector that is invalid (as Artemis). Other filters that are invalid are left out, as are those
    of other kinds (RabbitMQ).
    """
    tests: list[Test] = []
    applied: dict[Any, Any] = {}
    for name, value in (filters or {}).items():
        if not isinstance(value, amqp10.Described):
            continue
        maker = _MAKERS.get(value.descriptor)
        if maker is None:
            continue
        try:
            tests.append(maker(value.value))
        except ValueError:
            if maker is _selector:
                raise
            continue
        applied[name] = value
    return (Filter(tests) if tests else None), applied


# ------------------------------------------------------------------------------------------------ LIKE


def like(pattern: Iterable[str | None]) -> Callable[[str], bool]:
    """LIKE. `pattern`: characters; None for any one (`_`), "" for any number of them (`%`). Time is linear in the value, except
    for patterns with `_` between two `%`."""
    pieces: list[list[str | None]] = [[]]
    for character in pattern:
        if character == "":
            pieces.append([])
        else:
            pieces[-1].append(character)
    sizes = [len(piece) for piece in pieces]
    literals = [None if None in piece else "".join(map(str, piece)) for piece in pieces]
    tests = [re.compile("".join("." if c is None else re.escape(c) for c in piece), re.DOTALL) for piece in pieces]

    def is_at(text: str, at: int, number: int) -> bool:
        literal = literals[number]
        return text.startswith(literal, at) if literal is not None else tests[number].match(text, at) is not None

    if len(pieces) == 1:
        return lambda text: len(text) == sizes[0] and is_at(text, 0, 0)
    middle = [number for number in range(1, len(pieces) - 1) if pieces[number]]
    most = LIKE_SLOW_MAX if any(literals[number] is None for number in middle) else LIKE_MAX

    def matches(text: str) -> bool:
        at, end = sizes[0], len(text) - sizes[-1]
        if end < at or len(text) > most or not is_at(text, 0, 0) or not is_at(text, end, -1):
            return False
        for number in middle:
            literal = literals[number]
            if literal is not None:
                begin = text.find(literal, at, end)
            else:
                found = tests[number].search(text, at, end)
                begin = found.start() if found is not None else -1
            if begin < 0:
                return False
            at = begin + sizes[number]
        return True

    return matches


def _characters(pattern: str, escape: str | None, escaped: str) -> list[str | None]:
    """A pattern as `like` takes it. `escaped`: what the escape character is before; "": before everything, and it must not be the
    last one."""
    found: list[str | None] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        following = pattern[at + 1 : at + 2]
        if character == escape and (not escaped or (following and following in escaped)):
            if not following:
                raise ValueError("the pattern of LIKE ends with its escape character")
            found.append(following)
            at += 1
        else:
            found.append({"%": "", "_": None}.get(character, character))
        at += 1
    return found


# ------------------------------------------------------------------------------------------------ both languages


class _Expression(Parser):
    """Sums, products and LIKE, which RocketMQ's filters do not have."""

    levels = DEPTH_MAX // 2  # there are more functions on each
    tokens_max = 1000

    def parse(self) -> Node:
        node = super().parse()
        self.take("")
        return node

    def scan(self) -> Any:
        self.count = getattr(self, "count", 0) + 1
        if self.count > self.tokens_max:
            raise ValueError(f"the expression has more than {self.tokens_max} tokens")
        return super().scan()

    def operand(self) -> Node:
        node = self.product()
        while self.peek() in ("+", "-"):
            node = self.computed(self.take("+", "-").kind, node, self.product())
        return node

    def product(self) -> Node:
        node = self.unary()
        while self.peek() in ("*", "/", "%"):
            node = self.computed(self.take("*", "/", "%").kind, node, self.unary())
        return node

    def computed(self, symbol: str, left: Node, right: Node) -> Node:
        lefts, rights, compute = left.evaluate, right.evaluate, self.compute

        def evaluate(fields: Fields) -> Any:
            a = lefts(fields)
            if a is None:
                return None
            b = rights(fields)
            return None if b is None else compute(symbol, a, b)

        return above(evaluate, left, right, boolean=False)

    def compute(self, symbol: str, left: Any, right: Any) -> Any:
        raise NotImplementedError

    def escape(self) -> str | None:
        if not self.skip("ESCAPE"):
            return None
        found = self.string()
        if len(found) != 1:
            raise ValueError("ESCAPE has one character")
        return found

    def alike(self, node: Node, matches: Callable[[str], bool], other: bool | None) -> Node:
        """LIKE. `other`: what it says of a value that is not a string."""
        value = node.evaluate

        def evaluate(fields: Fields) -> bool | None:
            given = value(fields)
            return None if given is None else matches(given) if isinstance(given, str) else other

        return above(evaluate, node)


def _text(identifier: Any) -> str | None:
    """A message-id or correlation-id as text."""
    if identifier is None or isinstance(identifier, str):
        return identifier
    return bytes(identifier).hex() if isinstance(identifier, (bytes, memoryview)) else str(identifier)


# ------------------------------------------------------------------------------------------------ JMS


def _message_id(fields: Fields) -> str | None:
    found = _text(fields.properties.message_id)
    return found if found is None or found.startswith("ID:") else f"ID:{found}"


def _user_id(fields: Fields) -> str | None:
    found = fields.properties.user_id
    return None if found is None else bytes(found).decode("utf-8", "replace")


def _priority(fields: Fields) -> amqp10.Int:
    found = fields.header.priority
    return amqp10.Int(4 if found is None else min(found, 9))


def _mode(fields: Fields) -> str:
    return "PERSISTENT" if fields.header.durable else "NON_PERSISTENT"


def _annotation(name: str) -> Callable[[Fields], Any]:
    def annotation(fields: Fields) -> Any:
        found = fields.message.message_annotations
        return None if found is None else found.get(name)

    return annotation


#: What names mean that are not application properties: those of JMS as Artemis has them, and those of Qpid's C++ broker.
_NAMES: Final[dict[str, Callable[[Fields], Any]]] = {
    "JMSDeliveryMode": _mode,
    "JMSPriority": _priority,
    "JMSMessageID": _message_id,
    "JMSTimestamp": lambda fields: int(fields.properties.creation_time or 0),
    "JMSExpiration": lambda fields: int(fields.properties.absolute_expiry_time or 0),
    "JMSCorrelationID": lambda fields: _text(fields.properties.correlation_id),
    "JMSType": lambda fields: fields.properties.subject,
    "JMSXGroupID": lambda fields: fields.properties.group_id,
    "JMSXGroupSeq": lambda fields: amqp10.Int((fields.properties.group_sequence or 0) & 0x7FFFFFFF),
    "JMSXUserID": _user_id,
    "JMSRedelivered": lambda fields: bool(fields.header.delivery_count or fields.failed),
    "JMSDestination": lambda fields: _text(fields.properties.to),
    "JMSReplyTo": lambda fields: _text(fields.properties.reply_to),
    "amqp.durable": lambda fields: bool(fields.header.durable),
    "amqp.delivery_mode": _mode,
    "amqp.priority": _priority,
    "amqp.delivery_count": lambda fields: int(fields.header.delivery_count or fields.failed),
    "amqp.redelivered": lambda fields: bool(fields.header.delivery_count or fields.failed),
    "amqp.subject": lambda fields: fields.properties.subject,
    "amqp.correlation_id": lambda fields: _text(fields.properties.correlation_id),
    "amqp.to": lambda fields: _text(fields.properties.to),
    "amqp.absolute_expiry_time": lambda fields: int(fields.properties.absolute_expiry_time or 0),
    "amqp.message_id": lambda fields: _text(fields.properties.message_id),
    "amqp.reply_to": lambda fields: _text(fields.properties.reply_to),
    "amqp.creation_time": lambda fields: int(fields.properties.creation_time or 0),
    "amqp.jms_type": _annotation("x-opt-jms-type"),
}

#: What is compared with what, by type.
_KINDS: Final[dict[type, type]] = {
    **dict.fromkeys((int, float, amqp10.Float, amqp10.Byte, amqp10.Short, amqp10.Int), float),
    **dict.fromkeys((amqp10.UByte, amqp10.UShort, amqp10.UInt, amqp10.ULong), float),
    **dict.fromkeys((str, amqp10.Symbol, amqp10.Char), str),
    bool: bool,
    amqp10.Timestamp: amqp10.Timestamp,
}

_INTS: Final = (amqp10.Int, amqp10.Short, amqp10.Byte)


def _wrapped(value: int, bits: int) -> int:
    """An integer of Java."""
    return ((value + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1))


class _Jms(_Expression):
    """A message selector, as Artemis reads it, with names that have dots."""

    tokens = (
        ("float", re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")),
        ("hexadecimal", re.compile(r"0[xX][0-9a-fA-F]+")),
        ("octal", re.compile(r"0[0-7]*")),
        ("decimal", re.compile(r"[1-9][0-9]*[lL]?")),
        ("name", re.compile(r"[a-zA-Z_$][a-zA-Z0-9_$.]*")),
        ("quoted", re.compile(r'"[^"]*(?:""[^"]*)*"')),
        ("string", re.compile(r"'[^']*(?:''[^']*)*'")),
        ("", re.compile(r"<>|>=|<=|[=<>(),+*/%-]")),
    )
    keywords = frozenset(
        ("NOT", "AND", "OR", "BETWEEN", "LIKE", "ESCAPE", "IN", "IS", "TRUE", "FALSE", "NULL", "XPATH", "XQUERY")
    )
    tests = ("LIKE",)
    numbers = ("decimal", "float", "hexadecimal", "octal")

    def number(self, kind: str, text: str) -> int | float:
        if kind == "float":
            return float(text)
        value = int(text.rstrip("lL"), {"hexadecimal": 16, "octal": 8, "decimal": 10}[kind])
        if value > 1 << 63:  # which is one only with a sign
            raise ValueError(f"{text} is out of range of a long")
        return amqp10.Int(value) if value < 1 << 31 else value

    def primary(self) -> Node:
        if self.peek() == "quoted":
            return self.name(self.take("quoted").text[1:-1].replace('""', '"'))
        return super().primary()

    def name(self, text: str) -> Node:
        known = _NAMES.get(text)
        if known is None and text.startswith("m."):
            known = _annotation(text[2:])
        return Node(known or (lambda fields: fields.application.get(text)), "property")

    def test(self, keyword: str, node: Node, wanted: bool) -> Node:
        pattern, escape = self.string(), self.escape()
        found = self.alike(node, like(_characters(pattern, escape, f"%_{escape}")), False)
        return found if wanted else negation(found)

    def truth(self, value: Any) -> bool:
        return value is True

    def same(self, left: Any, right: Any) -> bool:
        return self.order(left, right) == 0

    def order(self, left: Any, right: Any) -> int | None:
        kind = _KINDS.get(type(left))
        if kind is None or kind is not _KINDS.get(type(right)):
            return None
        if kind is float and (isinstance(left, float) or isinstance(right, float)):
            return order_of_doubles(float(left), float(right))
        return int(left > right) - int(left < right)

    def minus(self, value: Any) -> Any:
        if _KINDS.get(type(value)) is not float:
            return None
        return -value if isinstance(value, float) else self.compute("-", amqp10.Int(0), value)

    def compute(self, symbol: str, left: Any, right: Any) -> Any:
        if _KINDS.get(type(left)) is not float or _KINDS.get(type(right)) is not float:
            raise NoMatchError
        if symbol in "/%":
            a, b = float(left), float(right)
            if symbol == "%":
                return math.nan if not b or math.isinf(a) else math.fmod(a, b)
            return a / b if b else math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
        value = left * right if symbol == "*" else left + right if symbol == "+" else left - right
        if isinstance(value, float):
            return value
        if isinstance(left, _INTS) and isinstance(right, _INTS):
            return amqp10.Int(_wrapped(value, 32))
        return _wrapped(value, 64)


def _selector(value: Any) -> Test:
    return _parsed(_Jms, value)


# ------------------------------------------------------------------------------------------------ SQL of AMQP

_SECTIONS: Final[dict[str, str]] = {
    "header": "header", "h": "header", "properties": "properties", "p": "properties",
    "application_properties": "application", "a": "application",
}  # fmt: skip

#: Fields of the bare message's properties, as both kinds of filters of AMQP name them.
_PROPERTIES: Final = (
    "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
    "absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id",
)  # fmt: skip

#: Names that no identifier may have.
_RESERVED: Final = frozenset(
    (
        "and", "or", "not", "like", "in", "is", "null", "escape", "true", "false", "exists", "nan", "inf", "lower", "upper",
        "left", "right", "substring", "utc", "date",
    )
)  # fmt: skip


def _plain(value: Any) -> Any:
    """A value as RabbitMQ compares it: strings, symbols, binary values and UUIDs are bytes."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, UUID):
        return value.bytes
    return bytes(value) if isinstance(value, memoryview) else value


def _as_text(value: Any) -> Any:
    """Bytes as a string; None if they are not UTF-8."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return None


def _equal(left: Any, right: Any) -> bool:
    """Are two values equal? Numbers of all types are compared with each other."""
    if isinstance(left, str) and isinstance(right, bytes):
        left = left.encode("utf-8", "surrogatepass")
    elif isinstance(left, bytes) and isinstance(right, str):
        right = right.encode("utf-8", "surrogatepass")
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


class _Sql(_Expression):
    """An SQL filter expression, as RabbitMQ reads it."""

    spaces = re.compile(r"[ \t\n\r\f]*")
    tokens = (
        ("binary", re.compile(r"0x(?:[0-9A-F]{2})+")),
        ("float", re.compile(r"[0-9]+\.[0-9]+(?:E[+-]?[0-9]+)?")),
        ("integer", re.compile(r"[0-9]+")),
        ("string", re.compile(r"'[^']*(?:''[^']*)*'" + r'|"[^"]*(?:""[^"]*)*"')),
        ("section", re.compile(r"[a-zA-Z][a-zA-Z_-]*\.[a-zA-Z][a-zA-Z0-9_]*")),
        ("delimited", re.compile(r"\[(?:[^\[\]]|\[\[|\]\])*\]")),
        ("name", re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")),
        ("<>", re.compile(r"<>|!=")),
        ("", re.compile(r">=|<=|[=<>(),+*/%-]")),
    )
    keywords = frozenset(("AND", "OR", "NOT", "LIKE", "IN", "IS", "NULL", "ESCAPE", "TRUE", "FALSE", "UTC"))
    folds = False
    tokens_max = 200

    def equality(self) -> Node:
        if not self.skip("NOT"):
            return self.comparison()
        self.deeper()
        node = negation(self.boolean(self.equality()))
        self.depth -= 1
        return node

    def comparison(self) -> Node:
        node = self.operand()
        kind = self.peek()
        if kind in ("=", "<>", *HOLDS):
            return self.compared(self.take(kind).kind, node, self.operand())
        if kind == "IS":
            self.take("IS")
            wanted = not self.skip("NOT")
            self.take("NULL")
            if node.kind != "property":
                raise ValueError("IS NULL looks at an identifier")
            value = node.evaluate
            return above(lambda fields: (value(fields) is None) is wanted, node)
        if kind not in ("NOT", "IN", "LIKE"):
            return node
        wanted = not self.skip("NOT")
        found = self.among(node, True) if self.take("IN", "LIKE").kind == "IN" else self.pattern(node)
        return found if wanted else negation(found)

    def among(self, node: Node, wanted: bool) -> Node:
        self.take("(")
        nodes = [self.operand()]
        while self.skip(","):
            nodes.append(self.operand())
        self.take(")")
        value, others = node.evaluate, [other.evaluate for other in nodes]

        def evaluate(fields: Fields) -> bool | None:
            given = value(fields)
            return None if given is None else any(_equal(other(fields), given) for other in others)

        return above(evaluate, node, *nodes)

    def pattern(self, node: Node) -> Node:
        text, escape = self.string(), self.escape()
        _check_characters(text)
        value = node.evaluate
        return self.alike(
            node._replace(evaluate=lambda fields: _as_text(value(fields))), like(_characters(text, escape, "")), None
        )

    def unary(self) -> Node:
        kind = self.peek()
        if kind not in ("+", "-"):
            return self.primary()
        self.take(kind)
        value = self.primary()
        zero = constant(0)
        return self.computed(kind, zero, value)

    def primary(self) -> Node:
        kind = self.peek()
        if kind == "string":
            return constant(self.string())
        if self.skip("("):
            self.deeper()
            node = self.either()
            self.depth -= 1
            self.take(")")
            return node._replace(kind="other")  # in parentheses an identifier is none any more
        text = self.take("integer", "float", "binary", "section", "delimited", "name", "TRUE", "FALSE", "UTC").text
        match kind:
            case "name" | "delimited" | "section":
                return self.name(text)
            case "TRUE" | "FALSE":
                return constant(kind == "TRUE")
            case "UTC":
                self.take("(")
                self.take(")")
                return Node(lambda fields: time.time_ns() // 1_000_000)
            case "binary":
                return constant(bytes.fromhex(text[2:]))
            case "float" if math.isinf(float(text)):
                raise ValueError(f"{text} is out of range of a double")
        return constant(float(text) if kind == "float" else int(text))

    def name(self, text: str) -> Node:
        section, field = "application", text
        if text.startswith("["):
            field = text[1:-1].replace("[[", "[").replace("]]", "]")
            _check_characters(field)
        elif "." in text:
            section, field = text.split(".")
            section = _SECTIONS.get(section, "")
            if not section or (section == "properties" and field not in _PROPERTIES):
                raise ValueError(f"there is no field {text}")
        elif text.lower() in _RESERVED:
            raise ValueError(f"{text} is reserved")
        if section == "header":
            if field != "priority":
                raise ValueError(f"there is no field {text}")
            return Node(lambda fields: 4 if fields.header.priority is None else fields.header.priority, "property")
        if section == "properties":
            return Node(lambda fields: _plain(getattr(fields.properties, field)), "property")
        return Node(lambda fields: _plain(fields.application.get(field)), "property")

    def boolean(self, node: Node) -> Node:
        if node.boolean:
            return node
        value = node.evaluate

        def evaluate(fields: Fields) -> bool | None:
            given = value(fields)
            return given if isinstance(given, bool) else None

        return above(evaluate, node)

    def compared(self, symbol: str, left: Node, right: Node) -> Node:
        lefts, rights = left.evaluate, right.evaluate
        holds = HOLDS.get(symbol)

        def evaluate(fields: Fields) -> bool | None:
            a, b = lefts(fields), rights(fields)
            if a is None or b is None:
                return None
            if holds is None:
                return _equal(a, b) is (symbol == "=")
            if isinstance(a, (str, bytes)) and isinstance(b, (str, bytes)):
                a, b = (v.encode("utf-8", "surrogatepass") if isinstance(v, str) else v for v in (a, b))
            elif (
                not (isinstance(a, (int, float)) and isinstance(b, (int, float)))
                or isinstance(a, bool)
                or isinstance(b, bool)
            ):
                return False
            return holds(int(a > b) - int(a < b))

        return above(evaluate, left, right)

    def compute(self, symbol: str, left: Any, right: Any) -> Any:
        for value in (left, right):
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                return None
        try:
            if symbol == "%":
                if isinstance(left, float) or isinstance(right, float) or not right:
                    return None
                rest = abs(left) % abs(right)
                return -rest if left < 0 else rest
            if symbol == "/":
                value = left / right if right else math.nan
            else:
                value = left * right if symbol == "*" else left + right if symbol == "+" else left - right
        except OverflowError:
            return None
        return None if isinstance(value, float) and not math.isfinite(value) else value


def _check_characters(text: str) -> None:
    if any(c < " " or c == "\x7f" for c in text):
        raise ValueError("control characters in a name or pattern")


def _sql(value: Any) -> Test:
    return _parsed(_Sql, value)


def _parsed(language: Any, value: Any) -> Test:
    if not isinstance(value, str) or len(value) > LENGTH_MAX:
        raise ValueError(f"an expression is a string of up to {LENGTH_MAX} characters")
    return _cached(language, str(value))


@lru_cache(32)
def _cached(language: Any, text: str) -> Test:
    parser = language(text)
    return Test(parser.parse().evaluate, parser.count)


# ------------------------------------------------------------------------------------------------ property filters

#: Types of the fields, and of their values in a filter.
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("to", "subject", "reply_to", "group_id", "reply_to_group_id"), str),
    **dict.fromkeys(("message_id", "correlation_id"), (str, bytes, UUID, amqp10.ULong)),
    **dict.fromkeys(("content_type", "content_encoding"), amqp10.Symbol),
    **dict.fromkeys(("absolute_expiry_time", "creation_time"), amqp10.Timestamp),
    "user_id": bytes,
    "group_sequence": amqp10.UInt,
}


def _reference(value: Any) -> Callable[[Any], bool]:
    """What a value in a filter matches (4.1.1 of the filter expressions)."""
    if value is None:
        return lambda given: True
    if isinstance(value, str) and not isinstance(value, amqp10.Symbol) and value.startswith("&"):
        rest = str(value)[3:]
        if value.startswith("&s:"):
            return lambda given: isinstance(given, str) and given.endswith(rest)
        if value.startswith("&p:"):
            return lambda given: isinstance(given, str) and given.startswith(rest)
        if not value.startswith("&&"):
            raise ValueError(f"{value!r} begins with & and has no meaning")
        value = value[1:]
    wanted = _plain(value)
    return lambda given: given is not None and _equal(_plain(given), wanted)


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, amqp10.Map) or not 0 < len(value) <= FIELDS_MAX:
        raise ValueError(f"a property filter is a map with 1 to {FIELDS_MAX} entries")
    return list(value.pairs)


def _properties(value: Any) -> Test:
    wanted: list[tuple[str, Callable[[Any], bool]]] = []
    for name, given in _pairs(value):
        field = name.replace("-", "_") if isinstance(name, amqp10.Symbol) and "_" not in name else ""
        if field not in _TYPES or not isinstance(given, _TYPES[field]):
            raise ValueError(f"no field {name!r} with a value {given!r}")
        wanted.append((field, _reference(given)))
    return Test(lambda fields: all(test(getattr(fields.properties, field)) for field, test in wanted), len(wanted))


def _application_properties(value: Any) -> Test:
    wanted: list[tuple[str, Callable[[Any], bool]]] = []
    for name, given in _pairs(value):
        if not isinstance(name, str) or isinstance(name, amqp10.Symbol):
            raise ValueError("a name of an application property is a string")
        wanted.append((str(name), _reference(given)))

    def matches(fields: Fields) -> bool:
        application = fields.application
        return all(name in application and test(application[name]) for name, test in wanted)

    return Test(matches, len(wanted))


#: By descriptor, in both forms.
_MAKERS: Final[dict[Any, Callable[[Any], Test]]] = {
    "apache.org:selector-filter:string": _selector,
    0x0000_468C_0000_0004: _selector,
    "amqp:sql-filter": _sql,
    0x120: _sql,
    "amqp:properties-filter": _properties,
    0x173: _properties,
    "amqp:application-properties-filter": _application_properties,
    0x174: _application_properties,
}
