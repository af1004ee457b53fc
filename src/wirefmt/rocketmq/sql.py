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
from typing import Any, Final

from wirefmt.sql import DEPTH_MAX as DEPTH_MAX
from wirefmt.sql import Node, NoMatchError, Parser, above, order_of_doubles

#: Characters of an expression.
LENGTH_MAX: Final = 65_536

Properties = Mapping[str, str]

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


#: Tests of a property beside BETWEEN and IN.
_FINDS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda text, part: part in text,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


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
        except NoMatchError:
            return False

    def __repr__(self) -> str:
        return f"SqlFilter({self.expression!r})"


# ------------------------------------------------------------------------------------------------ values


def _integer(text: str, most: int) -> int:
    """Java's Integer.valueOf and Long.valueOf."""
    found = _INTEGER.match(text)
    if found is None or not all(c <= "\uffff" for c in text):
        raise NoMatchError
    digits = found[2].lstrip("0") or "0"
    value = int(digits) if len(digits) <= 19 else most + 2
    value = -value if found[1] == "-" else value
    if not -most - 1 <= value <= most:
        raise NoMatchError
    return value


def _double(text: str) -> float:
    """Java's Double.valueOf."""
    found = _DOUBLE.match(text.strip(_BLANKS))
    if found is None:
        raise NoMatchError
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


def _order(left: Any, right: Any) -> int:
    """Below 0, 0 or above 0: how two values that are not null compare. What has no order is -1."""
    kinds = type(left), type(right)
    if bool in kinds:
        if kinds == (bool, bool):
            return int(left) - int(right)
        if kinds == (str, bool):
            return int(left.lower() == "true") - int(right)
        if kinds == (bool, str):
            raise NoMatchError
        return -1
    if kinds == (str, str):
        return 0 if left == right else -1
    if kinds[0] is str:
        left = _converted(left, right)
    elif kinds[1] is str:
        right = _converted(right, left)
    if type(left) is float or type(right) is float:
        return order_of_doubles(float(left), float(right))
    return int(left > right) - int(left < right)


# ------------------------------------------------------------------------------------------------ parser


class _Parser(Parser):
    """A property is a string. A bad character after the expression may stay unseen."""

    tokens = (
        ("float", re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")),
        ("decimal", re.compile(r"(?:0|[1-9][0-9]*[lL]?)")),
        ("name", re.compile(r"[a-zA-Z_$][a-zA-Z0-9_$]*")),
        ("string", re.compile(r"'[^']*(?:''[^']*)*'")),
        ("", re.compile(r"<>|>=|<=|[=<>(),+-]")),
    )
    keywords = frozenset(("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", *_FINDS))
    tests = tuple(_FINDS)

    def number(self, kind: str, text: str) -> int | float:
        if kind == "float":
            number = float(text)
            if not _DOUBLE_MIN <= number < math.inf:
                raise ValueError(f"{text} is 0 or infinite as a double")
            return number
        digits = text.rstrip("lL")
        value = int(digits) if len(digits) <= 19 else _LONG_MAX + 1
        if value > _LONG_MAX:
            raise ValueError(f"{text} is out of range of a long")
        return value if value <= _INT_MAX else _Long(value)

    def name(self, text: str) -> Node:
        return Node(lambda properties: properties.get(text), "property")

    def test(self, keyword: str, node: Node, wanted: bool) -> Node:
        part = self.string()
        value, finds = node.evaluate, _FINDS[keyword]

        def evaluate(properties: Properties) -> bool:
            if not part:
                return False
            given = value(properties)
            return type(given) is str and finds(given, part) is wanted

        return above(evaluate, node)

    def truth(self, value: Any) -> bool:
        return False

    def same(self, left: Any, right: Any) -> bool:
        return _order(left, right) == 0

    def order(self, left: Any, right: Any) -> int:
        if type(left) is str and type(right) is str:
            return order_of_doubles(_double(left), _double(right))
        return _order(left, right)

    def minus(self, value: Any) -> Any:
        kind = type(value)
        return kind(-value) if kind in (int, _Long, float) else None

    def between(self, value: Node, low: Node, high: Node, wanted: bool) -> Node:
        made = super().between(value, low, high, wanted)
        if wanted and low.kind == high.kind == "constant" and _order(high.value, low.value) < 0:
            raise ValueError("the first limit of BETWEEN is above the second")
        return made
