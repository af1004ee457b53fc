"""Filter expressions in the style of SQL92: what their dialects share.

The dialects are `rocketmq.sql` (RocketMQ's filters) and `broker.selectors` (JMS message selectors, the SQL filters of AMQP 1.0).
Each is a class derived from `Parser` with its tokens, its values and how they compare. `Parser` has the grammar of ActiveMQ's
selectors, from which RocketMQ's are derived. An expression becomes a closure for each of its nodes.

Logic has three values: True, False and None, which is unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

#: Levels of nesting: parentheses, signs, NOT, comparisons of comparisons.
DEPTH_MAX: Final = 100

#: Gives the value of a node for what is filtered.
Evaluate = Callable[[Any], Any]


class NoMatchError(Exception):
    """The evaluation ends: an operand is of the wrong type. There is no match, whatever the rest says."""


class Token(NamedTuple):
    """A token. `kind`: a symbol, a keyword, "name", "string", a kind of number, or "" at the end."""

    kind: str
    text: str


class Node(NamedTuple):
    """A part of an expression.

    Attributes:
        evaluate: gives its value.
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


def above(evaluate: Evaluate, *below: Node, boolean: bool = True) -> Node:
    """A node above others. Raises ValueError if there are too many levels."""
    depth = 1 + max(node.depth for node in below)
    if depth > DEPTH_MAX:
        raise ValueError(f"the expression has more than {DEPTH_MAX} levels")
    return Node(evaluate, boolean=boolean, depth=depth)


def constant(value: Any) -> Node:
    return Node(lambda seen: value, "constant", value is None or type(value) is bool, value)


def negation(node: Node) -> Node:
    """NOT."""
    value = node.evaluate

    def evaluate(seen: Any) -> bool | None:
        given = value(seen)
        return None if given is None else not given

    return above(evaluate, node)


def all_of(nodes: list[Node]) -> Node:
    """AND of nodes whose values are bools or None."""
    parts = [node.evaluate for node in nodes]

    def evaluate(seen: Any) -> bool | None:
        result: bool | None = True
        for part in parts:
            given = part(seen)
            if given is False:
                return False
            if given is None:
                result = None
        return result

    return above(evaluate, *nodes)


def any_of(nodes: list[Node]) -> Node:
    """OR of nodes whose values are bools or None."""
    parts = [node.evaluate for node in nodes]

    def evaluate(seen: Any) -> bool | None:
        result: bool | None = False
        for part in parts:
            given = part(seen)
            if given is True:
                return True
            if given is None:
                result = None
        return result

    return above(evaluate, *nodes)


def order_of_doubles(left: float, right: float) -> int:
    """Java's Double.compare: -0.0 is below 0.0, NaN is above all and equal to itself."""
    if left < right:
        return -1
    if left > right:
        return 1

    def place(value: float) -> int:
        return 2 if value != value else 1 if value != 0.0 or math.copysign(1.0, value) > 0 else 0

    return place(left) - place(right)


#: What an order (below 0, 0, above 0) says of a comparison.
HOLDS: Final[dict[str, Callable[[int], bool]]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}


class Parser:
    """Reads tokens only as far as the grammar needs them::

        either     : both ("OR" both)*
        both       : equality ("AND" equality)*
        equality   : comparison (("=" | "<>") comparison | "IS" ["NOT"] "NULL")*
        comparison : operand ((">" | ">=" | "<" | "<=") operand | ["NOT"] test)*
        test       : "BETWEEN" operand "AND" operand | "IN" "(" string ("," string)* ")" | tests of the dialect
        unary      : ("+" | "-" | "NOT") unary | primary
        primary    : string | number | "TRUE" | "FALSE" | "NULL" | name | "(" either ")"

    Attributes:
        spaces: what is between tokens.
        tokens: kinds of tokens, in the order in which they are tried. The kind of a symbol is the symbol.
        keywords: names that are none.
        folds: keywords are written in either case.
        tests: keywords of the dialect's own tests.
        numbers: kinds of numbers.
        levels: how deep parentheses, signs and NOT may be.
    """

    spaces: ClassVar[re.Pattern[str]] = re.compile(
        r"(?:[ \t\n\r\f]|--[^\n\r]*(?:\r\n|[\n\r])|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)*"
    )
    tokens: ClassVar[tuple[tuple[str, re.Pattern[str]], ...]]
    keywords: ClassVar[frozenset[str]]
    folds: ClassVar[bool] = True
    tests: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[tuple[str, ...]] = ("decimal", "float")
    levels: ClassVar[int] = DEPTH_MAX

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.ahead: list[Token] = []

    def parse(self) -> Node:
        """The whole expression, whose value is a bool or None. Raises ValueError."""
        return self.boolean(self.either())

    # ---- of the dialect

    def number(self, kind: str, text: str) -> Any:
        """The value of a literal. Raises ValueError."""
        raise NotImplementedError

    def name(self, text: str) -> Node:
        """An identifier. Raises ValueError."""
        raise NotImplementedError

    def test(self, keyword: str, node: Node, wanted: bool) -> Node:
        """A test of the dialect, whose keyword has been read."""
        raise NotImplementedError

    def truth(self, value: Any) -> bool:
        """What a property that stands alone says, if it is not null."""
        raise NotImplementedError

    def same(self, left: Any, right: Any) -> bool:
        """Are two values that are not null equal?"""
        raise NotImplementedError

    def order(self, left: Any, right: Any) -> int | None:
        """Below 0, 0 or above 0: how two values that are not null compare. None: they have no order, no comparison holds."""
        raise NotImplementedError

    def minus(self, value: Any) -> Any:
        """A value negated; None if it is not a number."""
        raise NotImplementedError

    def operand(self) -> Node:
        """What is compared."""
        return self.unary()

    # ---- tokens

    def scan(self) -> Token:
        text = self.text
        space = self.spaces.match(text, self.at)
        at = self.at = space.end() if space is not None else self.at
        if at == len(text):
            return Token("", "")
        for kind, pattern in self.tokens:
            found = pattern.match(text, at)
            if found is not None:
                self.at = found.end()
                word = found[0]
                if kind == "name":
                    keyword = word.upper() if self.folds else word
                    kind = keyword if keyword in self.keywords else kind
                return Token(kind or word, word)
        raise ValueError(f"character {at} of the expression, {text[at]!r}, does not begin a token")

    def peek(self, number: int = 0) -> str:
        """The kind of one of the next tokens."""
        while len(self.ahead) <= number:
            self.ahead.append(self.scan())
        return self.ahead[number].kind

    def take(self, *kinds: str) -> Token:
        """The next token. Raises ValueError unless it is of one of these kinds."""
        if self.peek() not in kinds:
            text = self.ahead[0].text
            wanted = " or ".join(kind or "the end" for kind in kinds)
            raise ValueError(f"there is {repr(text) if text else 'the end'} where {wanted} is expected")
        return self.ahead.pop(0)

    def skip(self, kind: str) -> bool:
        """Take the next token if it is of this kind."""
        if self.peek() != kind:
            return False
        del self.ahead[0]
        return True

    def deeper(self) -> None:
        """One level down; the caller comes back up."""
        self.depth += 1
        if self.depth > self.levels:
            raise ValueError(f"the expression has more than {self.levels} levels")

    def string(self) -> str:
        text = self.take("string").text
        return text[1:-1].replace(text[0] * 2, text[0])

    # ---- grammar

    def either(self) -> Node:
        nodes = [self.both()]
        while self.skip("OR"):
            nodes.append(self.both())
        return nodes[0] if len(nodes) == 1 else any_of([self.boolean(node) for node in nodes])

    def both(self) -> Node:
        nodes = [self.equality()]
        while self.skip("AND"):
            nodes.append(self.equality())
        return nodes[0] if len(nodes) == 1 else all_of([self.boolean(node) for node in nodes])

    def equality(self) -> Node:
        node = self.comparison()
        while self.peek() in ("=", "<>", "IS"):
            symbol = self.take("=", "<>", "IS").kind
            if symbol == "IS":
                negative = self.skip("NOT")
                self.take("NULL")
                node = self.equal(node, constant(None))
            else:
                negative = symbol == "<>"
                other = self.comparison()
                check_equality(node, other)
                node = self.equal(node, other)
            if negative:
                node = negation(node)
        return node

    def comparison(self) -> Node:
        node = self.operand()
        while True:
            kind = self.peek()
            if kind in HOLDS:
                node = self.compared(self.take(kind).kind, node, self.operand())
            elif kind in ("NOT", "BETWEEN", "IN", *self.tests):
                wanted = not self.skip("NOT")
                keyword = self.take("BETWEEN", "IN", *self.tests).kind
                if keyword == "BETWEEN":
                    low = self.operand()
                    self.take("AND")
                    node = self.between(node, low, self.operand(), wanted)
                elif keyword == "IN":
                    node = self.among(node, wanted)
                else:
                    node = self.test(keyword, node, wanted)
            else:
                return node

    def unary(self) -> Node:
        self.deeper()
        kind = self.peek()
        if kind in ("+", "-", "NOT"):
            self.take(kind)
            node = self.unary()
            if kind == "-":
                node = self.negated(node)
            elif kind == "NOT":
                node = negation(self.boolean(node))
        else:
            node = self.primary()
        self.depth -= 1
        return node

    def primary(self) -> Node:
        kind = self.peek()
        if kind == "string":
            return constant(self.string())
        if self.skip("("):
            node = self.either()
            self.take(")")
            return node
        text = self.take(*self.numbers, "name", "TRUE", "FALSE", "NULL").text
        if kind in self.numbers:
            return constant(self.number(kind, text))
        if kind == "name":
            return self.name(text)
        return constant({"TRUE": True, "FALSE": False, "NULL": None}[kind])

    # ---- nodes

    def boolean(self, node: Node) -> Node:
        """A node whose value is a bool or null: also a property alone."""
        if node.boolean:
            return node
        if node.kind != "property":
            raise ValueError("a part of the expression is neither true nor false")
        value, truth = node.evaluate, self.truth

        def evaluate(seen: Any) -> bool | None:
            given = value(seen)
            return None if given is None else truth(given)

        return above(evaluate, node)

    def equal(self, left: Node, right: Node) -> Node:
        lefts, rights, same = left.evaluate, right.evaluate, self.same

        def evaluate(seen: Any) -> bool | None:
            a, b = lefts(seen), rights(seen)
            if a is None or b is None:
                return True if a is b else None if a is None else False
            return same(a, b)

        return above(evaluate, left, right)

    def compared(self, symbol: str, left: Node, right: Node) -> Node:
        for node in (left, right):
            if node.boolean or (node.kind == "constant" and not isinstance(node.value, (int, float))):
                raise ValueError(f"{symbol} compares numbers")
        lefts, rights, holds, order = left.evaluate, right.evaluate, HOLDS[symbol], self.order

        def evaluate(seen: Any) -> bool | None:
            a = lefts(seen)
            if a is None:
                return None
            b = rights(seen)
            if b is None:
                return None
            found = order(a, b)
            return found is not None and holds(found)

        return above(evaluate, left, right)

    def between(self, value: Node, low: Node, high: Node, wanted: bool) -> Node:
        if wanted:
            return all_of([self.compared(">=", value, low), self.compared("<=", value, high)])
        return any_of([self.compared("<", value, low), self.compared(">", value, high)])

    def among(self, node: Node, wanted: bool) -> Node:
        """IN, whose keyword has been read."""
        self.take("(")
        texts = [self.string()]
        while self.skip(","):
            texts.append(self.string())
        self.take(")")
        if node.kind != "property":
            raise ValueError("IN looks at a property")
        value, known = node.evaluate, frozenset(texts)

        def evaluate(seen: Any) -> bool | None:
            given = value(seen)
            return (given in known) is wanted if isinstance(given, str) else None

        return above(evaluate, node)

    def negated(self, node: Node) -> Node:
        value, minus = node.evaluate, self.minus

        def evaluate(seen: Any) -> Any:
            given = value(seen)
            return None if given is None else minus(given)

        return above(evaluate, node, boolean=False)


def check_equality(left: Node, right: Node) -> None:
    """Raises ValueError for operands of = and <> that make no sense."""
    for node in (left, right):
        if node.kind == "constant" and node.value is None:
            raise ValueError("NULL cannot be compared: use IS NULL")
    if left.kind == right.kind == "constant" and left.boolean and not right.boolean:
        raise ValueError("TRUE and FALSE cannot be compared with a string or a number")
