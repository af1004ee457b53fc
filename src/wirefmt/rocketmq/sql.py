"""Filter expressions in SQL92, as RocketMQ's brokers read and evaluate them over the properties of a message.

The grammar, with keywords in either case::

    or         : and ("OR" and)*
    and        : equality ("AND" equality)*
    equality   : comparison (("=" | "<>") comparison | "IS" ["NOT"] "NULL")*
    comparison : unary ((">" | ">=" | "<" | "<=") unary
                 | ["NOT"] "BETWEEN" unary "AND" unary
                 | ["NOT"] "IN" "(" string ("," string)* ")"
                 | ["NOT"] ("CONTAINS" | "STARTSWITH" | "ENDSWITH") string)*
    unary      : ("+" | "-" | "NOT") unary | primary
    primary    : string | number | "TRUE" | "FALSE" | "NULL" | name | "(" or ")"

There is no LIKE. What follows a complete expression is not read, as by the real parser. Comments are ``-- to the end of the
line`` and ``/* ... */``.

A property is a string, or null if the message does not have it. A comparison with a number converts the string to the type of
the number: 1 and 1L are ints, 3000000000 is a long, 1.5 is a double. A string that is not a number of that type ends
the evaluation: the message does not match, whatever the rest says. ``=`` and ``<>`` compare strings with strings; ``<``, ``<=``,
``>`` and ``>=`` compare two properties as doubles. ``AND``, ``OR`` and ``NOT`` have three values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

#: Characters of an expression, and levels of nesting (parentheses, signs, NOT, and comparisons of comparisons).
LENGTH_MAX: Final = 65_536
DEPTH_MAX: Final = 100

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Any]

_KEYWORDS: Final = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)
_SPACE: Final = re.compile(r"(?:[ \t\n\r\f]|--[^\n\r]*(?:\r\n|[\n\r])|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)*")
#: Kinds of tokens, in the order in which they are tried. The kind of a symbol is the symbol.
_TOKENS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("float", re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")),
    ("decimal", re.compile(r"(?:0|[1-9][0-9]*[lL]?)")),
    ("name", re.compile(r"[a-zA-Z_$][a-zA-Z0-9_$]*")),
    ("string", re.compile(r"'[^']*(?:''[^']*)*'")),
    ("", re.compile(r"<>|>=|<=|[=<>(),+-]")),
)

#: What Java's Double.valueOf takes, without the surrounding control characters and spaces that it ignores.
_DOUBLE: Final = re.compile(
    r"([+-]?)(?:(NaN)|(Infinity)|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)\Z"
)
_INTEGER: Final = re.compile(r"([+-]?)(\d+)\Z")
_BLANKS: Final = "".join(map(chr, range(33)))

_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1
_DOUBLE_MIN: Final = 5e-324


class _Long(int):
    """A number that Java has as a long. An int is a Python int."""


class _NoMatchError(Exception):
    """The evaluation ends: an operand cannot be converted. The message does not match."""


class _Token(NamedTuple):
    """A token. `kind`: a symbol, a keyword in upper case, "name", "string", "decimal", "float", or "" at the end."""

    kind: str
    text: str


class _Node(NamedTuple):
    """A part of an expression.

    Attributes:
        evaluate: gives its value: str, int, _Long, float, bool or None.
        kind: "property", "constant" or "other".
        boolean: True: its value is a bool or None.
        value: of a constant.
        depth: levels of nodes below it, with itself.
    """

    evaluate: Evaluate
    kind: str = "other"
    boolean: bool = False
    value: Any = None
    depth: int = 1


class SqlFilter:
    """A filter expression that has been parsed.

    Args:
        expression: in SQL92, up to LENGTH_MAX characters and DEPTH_MAX levels.

    Raises:
        ValueError: the expression is not one that RocketMQ takes, or beyond a limit.
    """

    __slots__ = ("_evaluate", "expression")

    def __init__(self, expression: str) -> None:
        if len(expression) > LENGTH_MAX:
            raise ValueError(f"the expression has more than {LENGTH_MAX} characters")
        self.expression = expression
        self._evaluate = _Parser(expression).parse().evaluate

    def matches(self, properties: Properties) -> bool:
        """True if the expression is true for a message with these properties."""
        try:
            return self._evaluate(properties) is True
        except _NoMatchError:
            return False

    def __repr__(self) -> str:
        return f"SqlFilter({self.expression!r})"


# ------------------------------------------------------------------------------------------------ values


def _integer(text: str, most: int) -> int:
    """Java's Integer.valueOf and Long.valueOf."""
    found = _INTEGER.match(text)
    if found is None or not all(c <= "\uffff" for c in text):
        raise _NoMatchError
    digits = found[2].lstrip("0") or "0"
    value = int(digits) if len(digits) <= 19 else most + 2
    value = -value if found[1] == "-" else value
    if not -most - 1 <= value <= most:
        raise _NoMatchError
    return value


def _double(text: str) -> float:
    """Java's Double.valueOf."""
    found = _DOUBLE.match(text.strip(_BLANKS))
    if found is None:
        raise _NoMatchError
    sign, nan, infinity, decimal, hexadecimal = found.groups()
    if nan:
        return math.nan
    if infinity:
        value = math.inf
    elif decimal:
        value = float(decimal)
    else:
        try:
            value = float.fromhex(hexadecimal)
        except OverflowError:
            value = math.inf
    return -value if sign == "-" else value


def _converted(text: str, like: Any) -> Any:
    """A string as a number of the type of another one."""
    if type(like) is float:
        return _double(text)
    return _integer(text, _LONG_MAX if type(like) is _Long else _INT_MAX)


def _order_of_doubles(left: float, right: float) -> int:
    """Java's Double.compare: -0.0 is below 0.0, NaN is above all and equal to itself."""
    if left < right:
        return -1
    if left > right:
        return 1

    def place(value: float) -> int:
        return 2 if value != value else 1 if value != 0.0 or math.copysign(1.0, value) > 0 else 0

    return place(left) - place(right)


def _order(left: Any, right: Any) -> int:
    """Below 0, 0 or above 0: how two values that are not null compare. What has no order is -1."""
    kinds = type(left), type(right)
    if bool in kinds:
        if kinds == (bool, bool):
            return int(left) - int(right)
        if kinds == (str, bool):
            return int(left.lower() == "true") - int(right)
        if kinds == (bool, str):
            raise _NoMatchError
        return -1
    if kinds == (str, str):
        return 0 if left == right else -1
    if kinds[0] is str:
        left = _converted(left, right)
    elif kinds[1] is str:
        right = _converted(right, left)
    if type(left) is float or type(right) is float:
        return _order_of_doubles(float(left), float(right))
    return int(left > right) - int(left < right)


# ------------------------------------------------------------------------------------------------ nodes


def _above(evaluate: Evaluate, *below: _Node, boolean: bool = True) -> _Node:
    depth = 1 + max(node.depth for node in below)
    if depth > DEPTH_MAX:
        raise ValueError(f"the expression has more than {DEPTH_MAX} levels")
    return _Node(evaluate, boolean=boolean, depth=depth)


def _as_boolean(node: _Node) -> _Node:
    """A node whose value is a bool or null. A property alone is one: it is never true, since it is a string."""
    if node.boolean:
        return node
    if node.kind != "property":
        raise ValueError("a part of the expression is neither true nor false")
    value = node.evaluate
    return _above(lambda properties: None if value(properties) is None else False, node)


def _equal(left: _Node, right: _Node) -> _Node:
    lefts, rights = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> bool | None:
        a, b = lefts(properties), rights(properties)
        if a is None or b is None:
            return True if a is b else None if a is None else False
        return _order(a, b) == 0

    return _above(evaluate, left, right)


def _checked_equal(left: _Node, right: _Node) -> _Node:
    for node in (left, right):
        if node.kind == "constant" and node.value is None:
            raise ValueError("NULL cannot be compared: use IS NULL")
    if left.kind == right.kind == "constant" and left.boolean and not right.boolean:
        raise ValueError("TRUE and FALSE cannot be compared with a string or a number")
    return _equal(left, right)


_HOLDS: Final[dict[str, Callable[[int], bool]]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}


def _compared(symbol: str, left: _Node, right: _Node) -> _Node:
    for node in (left, right):
        if node.boolean or (node.kind == "constant" and type(node.value) not in (int, _Long, float)):
            raise ValueError(f"{symbol} compares numbers")
    lefts, rights, holds = left.evaluate, right.evaluate, _HOLDS[symbol]

    def evaluate(properties: Properties) -> bool | None:
        a = lefts(properties)
        if a is None:
            return None
        b = rights(properties)
        if b is None:
            return None
        if type(a) is str and type(b) is str:
            return holds(_order_of_doubles(_double(a), _double(b)))
        return holds(_order(a, b))

    return _above(evaluate, left, right)


def _between(value: _Node, low: _Node, high: _Node) -> _Node:
    if low.kind == high.kind == "constant":
        if low.value is None or high.value is None:
            raise ValueError("a limit of BETWEEN is NULL")
        least, most = _compared(">=", value, low), _compared("<=", value, high)
        if _order(high.value, low.value) < 0:
            raise ValueError("the first limit of BETWEEN is above the second")
        return _all_of([least, most])
    return _all_of([_compared(">=", value, low), _compared("<=", value, high)])


def _negated(node: _Node) -> _Node:
    value = node.evaluate

    def evaluate(properties: Properties) -> Any:
        given = value(properties)
        kind = type(given)
        return kind(-given) if kind in (int, _Long, float) else None

    return _above(evaluate, node, boolean=False)


def _not(node: _Node) -> _Node:
    value = node.evaluate

    def evaluate(properties: Properties) -> bool | None:
        given = value(properties)
        return None if given is None else not given

    return _above(evaluate, node)


def _among(node: _Node, texts: list[str], *, wanted: bool) -> _Node:
    if node.kind != "property":
        raise ValueError("IN looks at a property")
    value, known = node.evaluate, frozenset(texts)

    def evaluate(properties: Properties) -> bool | None:
        given = value(properties)
        return None if given is None else (given in known) is wanted

    return _above(evaluate, node)


_FINDS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda text, part: part in text,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def _found(keyword: str, node: _Node, part: str, *, wanted: bool) -> _Node:
    value, finds = node.evaluate, _FINDS[keyword]

    def evaluate(properties: Properties) -> bool:
        if not part:
            return False
        given = value(properties)
        return type(given) is str and finds(given, part) is wanted

    return _above(evaluate, node)


def _all_of(nodes: list[_Node]) -> _Node:
    parts = [node.evaluate for node in nodes]

    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = True
        for part in parts:
            given = part(properties)
            if given is False:
                return False
            if given is None:
                result = None
        return result

    return _above(evaluate, *nodes)


def _any_of(nodes: list[_Node]) -> _Node:
    parts = [node.evaluate for node in nodes]

    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = False
        for part in parts:
            given = part(properties)
            if given is True:
                return True
            if given is None:
                result = None
        return result

    return _above(evaluate, *nodes)


def _constant(value: Any) -> _Node:
    return _Node(lambda properties: value, "constant", value is None or type(value) is bool, value)


def _property(name: str) -> _Node:
    return _Node(lambda properties: properties.get(name), "property")


# ------------------------------------------------------------------------------------------------ parser


class _Parser:
    """Reads tokens only as far as the grammar needs them: a bad character after the expression may stay unseen."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.ahead: list[_Token] = []

    def parse(self) -> _Node:
        return _as_boolean(self.either())

    # ---- tokens

    def scan(self) -> _Token:
        text = self.text
        space = _SPACE.match(text, self.at)
        at = self.at = space.end() if space is not None else self.at
        if at == len(text):
            return _Token("", "")
        for kind, pattern in _TOKENS:
            found = pattern.match(text, at)
            if found is not None:
                self.at = found.end()
                word = found[0]
                if kind == "name" and word.upper() in _KEYWORDS:
                    kind = word.upper()
                return _Token(kind or word, word)
        raise ValueError(f"character {at} of the expression, {text[at]!r}, does not begin a token")

    def peek(self, number: int = 0) -> str:
        """The kind of one of the next tokens."""
        while len(self.ahead) <= number:
            self.ahead.append(self.scan())
        return self.ahead[number].kind

    def take(self, *kinds: str) -> _Token:
        """The next token. Raises ValueError unless it is of one of these kinds."""
        if self.peek() not in kinds:
            raise ValueError(f"there is {self.ahead[0].text or 'an end'!r} where {' or '.join(kinds)} is expected")
        return self.ahead.pop(0)

    # ---- grammar

    def either(self) -> _Node:
        nodes = [self.both()]
        while self.peek() == "OR":
            self.take("OR")
            nodes.append(self.both())
        return nodes[0] if len(nodes) == 1 else _any_of([_as_boolean(node) for node in nodes])

    def both(self) -> _Node:
        nodes = [self.equality()]
        while self.peek() == "AND":
            self.take("AND")
            nodes.append(self.equality())
        return nodes[0] if len(nodes) == 1 else _all_of([_as_boolean(node) for node in nodes])

    def equality(self) -> _Node:
        node = self.comparison()
        while self.peek() in ("=", "<>", "IS"):
            symbol = self.take("=", "<>", "IS").kind
            if symbol == "IS":
                negative = self.peek() == "NOT"
                if negative:
                    self.take("NOT")
                self.take("NULL")
                node = _equal(node, _constant(None))
            else:
                negative = symbol == "<>"
                node = _checked_equal(node, self.comparison())
            if negative:
                node = _not(node)
        return node

    def comparison(self) -> _Node:
        node = self.unary()
        while True:
            kind = self.peek()
            if kind in _HOLDS:
                node = _compared(self.take(kind).kind, node, self.unary())
            elif kind in ("NOT", "BETWEEN", "IN", *_FINDS):
                node = self.test(node)
            else:
                return node

    def test(self, node: _Node) -> _Node:
        """BETWEEN, IN, CONTAINS and their kind, perhaps after NOT."""
        wanted = self.peek() != "NOT"
        if not wanted:
            self.take("NOT")
        keyword = self.take("BETWEEN", "IN", *_FINDS).kind
        if keyword == "BETWEEN":
            low = self.unary()
            self.take("AND")
            high = self.unary()
            return _between(node, low, high) if wanted else _any_of(
                [_compared("<", node, low), _compared(">", node, high)]
            )  # fmt: skip
        if keyword == "IN":
            self.take("(")
            texts = [self.string()]
            while self.peek() == ",":
                self.take(",")
                texts.append(self.string())
            self.take(")")
            return _among(node, texts, wanted=wanted)
        return _found(keyword, node, self.string(), wanted=wanted)

    def unary(self) -> _Node:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise ValueError(f"the expression has more than {DEPTH_MAX} levels")
        kind = self.peek()
        if kind in ("+", "-", "NOT"):
            self.take(kind)
            node = self.unary()
            if kind == "-":
                node = _negated(node)
            elif kind == "NOT":
                node = _not(_as_boolean(node))
        else:
            node = self.primary()
        self.depth -= 1
        return node

    def primary(self) -> _Node:
        kind = self.peek()
        if kind == "string":
            return _constant(self.string())
        if kind == "(":
            self.take("(")
            node = self.either()
            self.take(")")
            return node
        text = self.take("decimal", "float", "name", "TRUE", "FALSE", "NULL").text
        if kind == "decimal":
            digits = text.rstrip("lL")
            value = int(digits) if len(digits) <= 19 else _LONG_MAX + 1
            if value > _LONG_MAX:
                raise ValueError(f"{text} is out of range of a long")
            return _constant(value if value <= _INT_MAX else _Long(value))
        if kind == "float":
            number = float(text)
            if not _DOUBLE_MIN <= number < math.inf:
                raise ValueError(f"{text} is 0 or infinite as a double")
            return _constant(number)
        if kind == "name":
            return _property(text)
        return _constant({"TRUE": True, "FALSE": False, "NULL": None}[kind])

    def string(self) -> str:
        return self.take("string").text[1:-1].replace("''", "'")
