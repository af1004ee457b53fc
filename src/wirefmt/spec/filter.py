"""The language of filters (`--filter`, `capture.read(filter=...)`): a small subset of Python expressions, compiled to one Arrow
compute expression.

    qos >= 1 and kind == 'PUBLISH' and destination.startswith('a/')
    mqtt.retain or headers['site'] in ('north', 'south') or 'a/+' in mqtt.topic_filters
    port == 1883 and ip.startswith('10.')
    ts >= '2026-01-31T12:00' and len(payload) > 1000

Nothing is evaluated as Python: the text is parsed by `ast`, and each allowed kind of node has a
row or a method here; any other node is an error at its position. As in SQL, comparing null gives null, `not` null is
null, and a row is kept only if the whole expression is true; `error is not None` tests for null.

Parsing needs no Arrow; `compile` and `Keep`, which are for reading, need pyarrow.
"""

from __future__ import annotations

import ast
import copy
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, time
from difflib import get_close_matches
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, NamedTuple

from wirefmt.errors import suggest
from wirefmt.spec.columns import Column
from wirefmt.spec.table import COLUMNS
from wirefmt.spec.values import meant

if TYPE_CHECKING:
    import pyarrow as pa

#: Operators of other languages, and their equivalents here.
_FOREIGN = {"&&": "and", "||": "or", "=~": ".matches('...')", "!": "not"}
#: Constants as other languages and SQL write them.
_CONSTANTS = {"true": "True", "false": "False", "null": "None", "none": "None"}

#: Python's operator and the equivalent Arrow function.
_COMPARE: dict[type[ast.AST], str] = {
    ast.Eq: "equal", ast.NotEq: "not_equal", ast.Lt: "less", ast.LtE: "less_equal",
    ast.Gt: "greater", ast.GtE: "greater_equal",
}  # fmt: skip
_ARITHMETIC: dict[type[ast.AST], str] = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply"}
#: Methods of text, all with one literal argument.
_METHODS = {
    "startswith": "starts_with",
    "endswith": "ends_with",
    "contains": "match_substring",
    "matches": "match_substring_regex",
}
_DEPTH, _COMPARISONS = 50, 1000
#: A time of day, as the default table prints it.
_OF_DAY = re.compile(r"\d\d:\d\d(:|$)")


class FilterError(ValueError):
    """An invalid filter; `at` is the column of the error in its text, from 0."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


class Term(NamedTuple):
    """A compiled part; its Arrow type determines the allowed comparisons."""

    value: Any  # pyarrow.compute.Expression, or the Python value of a literal
    type: pa.DataType | None
    literal: bool


class Filter:
    """A parsed filter. columns: of the table whose rows it chooses. Raises FilterError for an invalid filter or an unknown
    column."""

    def __init__(self, text: str, columns: Sequence[Column] = COLUMNS) -> None:
        self._table = [column.name for column in columns]
        self._either = {name: [end for end in ends if end in self._table] for name, ends in EITHER.items()}
        self.text = " ".join(text.split("\n")).strip()  # one line, so that the column alone gives the position
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about style in Python
                self._tree = ast.parse(self.text, mode="eval").body
        except SyntaxError as fault:
            raise _not_an_expression(self.text, fault) from None
        except (ValueError, RecursionError, MemoryError):
            raise FilterError("not an expression") from None
        _check_depth(self._tree)
        octets = self.text.encode()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.expr):  # Python counts bytes, users count characters
                node.col_offset = len(octets[: node.col_offset].decode())
        self.columns = self._names()
        self.hints = list(self._hints())
        self._tree = _Either(self._either).visit(self._tree)
        _check_count(self._tree)

    def _names(self) -> list[str]:
        """The columns the filter reads."""
        called = {node.func for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        names: dict[str, None] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and node not in called:
                if self._either.get(node.id):
                    names |= dict.fromkeys(self._either[node.id])
                elif node.id in self._table:
                    names[node.id] = None
                else:
                    raise FilterError(f"no column {node.id!r}; {self._meant(node)}", node.col_offset)
        return list(names)

    def _hints(self) -> Iterator[str]:
        """Values that a column of text cannot have, with those that were meant: for a filter that keeps nothing."""
        for node in ast.walk(self._tree):
            if not isinstance(node, ast.Compare):
                continue
            parts = [node.left, *node.comparators]
            names = [part.id for part in parts if isinstance(part, ast.Name)]
            for value in (part for whole in parts for part in ast.walk(whole)):
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    for name in names:
                        if other := meant(name, value.value):
                            yield f"no {name} {value.value!r}; did you mean {other!r}?"

    def _meant(self, node: ast.Name) -> str:
        """A suggestion for an unknown name: a text without quotes, if a value is expected, or another column."""
        values: set[ast.AST] = set()
        for place in ast.walk(self._tree):
            if isinstance(place, ast.Compare):
                values.update(place.comparators)
            elif isinstance(place, ast.Tuple | ast.List | ast.Set):
                values.update(place.elts)
            elif isinstance(place, ast.Call):
                values.update(place.args)
        if constant := _CONSTANTS.get(node.id.lower()):
            return f"did you mean {constant}?"
        likely = node in values and not get_close_matches(node.id, self._table, 1, 0.8)
        return f"did you mean the text {node.id!r}?" if likely else suggest(node.id, (*self._table, *self._either))

    def compile(self, schema: pa.Schema) -> Any:
        """The filter as a `pyarrow.compute.Expression` over record batches of `schema`.

        Raises FilterError if types do not match.
        """
        import pyarrow as pa

        term = _Compiler(schema).boolean(self._tree)
        try:
            schema.empty_table().filter(term)
        except pa.ArrowException as fault:
            raise FilterError(str(fault)) from None
        return term


class Keep:
    """A filter at work: which rows of a batch does it keep?

    Args:
        text: the filter.
        schema: of the batches, as any Arrow library gives it; it has the columns that the filter names.
        columns: of the table.

    Raises: FilterError if types do not match; ModuleNotFoundError without pyarrow.
    """

    def __init__(self, text: str, schema: Any, columns: Sequence[Column] = COLUMNS) -> None:
        try:
            import pyarrow as pa
            import pyarrow.compute as pc
            from pyarrow import acero
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError("a filter needs pyarrow: pip install 'wirefmt[cli]'", name=missing.name) from None
        condition = Filter(text, columns)
        self._pa, self._pc, self._acero = pa, pc, acero
        self._columns = condition.columns
        self._project = acero.ProjectNodeOptions([condition.compile(pa.schema(schema))], ["kept"])

    def __call__(self, batch: Any) -> bytes:
        """The numbers of the rows, each an int64."""
        source = self._pa.Table.from_batches([self._pa.record_batch(batch).select(self._columns)])
        kept = self._acero.Declaration.from_sequence(
            [
                self._acero.Declaration("table_source", self._acero.TableSourceNodeOptions(source)),
                self._acero.Declaration("project", self._project),
            ]
        ).to_table(use_threads=False)  # in order
        rows = self._pc.indices_nonzero(kept.column("kept"))
        numbers: bytes = rows.cast("int64").to_numpy().tobytes()
        return numbers


#: Names that match either end of the connection: the columns of a table that has them.
EITHER = {
    "port": ("src_port", "dst_port", "client_port", "server_port", "publish_client_port", "deliver_client_port"),
    "ip": ("src_ip", "dst_ip", "client_ip", "server_ip", "publish_client_ip", "deliver_client_ip"),
}


class _Either(ast.NodeTransformer):
    """Make a test of `port` or `ip` test both ends: true if it is true for either end, `!=` and `not in` for both."""

    def __init__(self, either: Mapping[str, Sequence[str]]) -> None:
        self._columns = either

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        negative = any(isinstance(op, ast.NotEq | ast.NotIn) for op in node.ops)
        return self._both(node, ast.And() if negative else ast.Or())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return self._both(node, ast.Or())

    def _both(self, node: ast.expr, op: ast.boolop) -> ast.expr:
        used = next((n.id for n in ast.walk(node) if isinstance(n, ast.Name) and self._columns.get(n.id)), None)
        if used is None:
            return node
        ends = [self.visit(_Renamed(used, end).visit(copy.deepcopy(node))) for end in self._columns[used]]
        return ast.copy_location(ast.BoolOp(op, ends), node) if len(ends) > 1 else ends[0]


class _Renamed(ast.NodeTransformer):
    def __init__(self, name: str, other: str) -> None:
        self.name, self.other = name, other

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.other, node.ctx), node) if node.id == self.name else node


def _not_an_expression(text: str, fault: SyntaxError) -> FilterError:
    at = max((fault.offset or 1) - 1, 0)
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", lambda quoted: "_" * len(quoted[0]), text)
    if single := [found.start() for found in re.finditer(r"(?<![=!<>])=(?![=~])", bare)]:
        meant = "".join("==" if at in single else letter for at, letter in enumerate(text))
        return FilterError(f"values are compared with ==; did you mean {meant}", single[0])
    if wrong := re.search("|".join(map(re.escape, _FOREIGN)) + "(?!=)", bare):
        return FilterError(f"{wrong[0]} is written {_FOREIGN[wrong[0]]}", wrong.start())
    return FilterError(f"not an expression: {fault.msg}", at)


class _Compiler:
    def __init__(self, schema: pa.Schema) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self.schema, self.pa, self.pc = schema, pa, pc

    def boolean(self, node: ast.expr) -> Any:
        match node:
            case ast.BoolOp(op=op, values=values):
                return reduce(and_ if isinstance(op, ast.And) else or_, map(self.boolean, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~self.boolean(operand)
            case ast.Compare():
                return self.comparison(node)
            case ast.Call(func=ast.Attribute(attr=name)) if name in _METHODS:
                return self.method(node)
        term = self.term(node)
        if term.type is None or not self.pa.types.is_boolean(term.type):
            raise FilterError("needs a comparison: this is neither true nor false", node.col_offset)
        return self.pc.scalar(term.value) if term.literal else term.value

    def comparison(self, node: ast.Compare) -> Any:
        lefts = [node.left, *node.comparators]
        return reduce(and_, map(self.compare, lefts, node.ops, node.comparators))

    def compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Any:
        if isinstance(op, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise FilterError("`is` is only for None; use ==", right.col_offset)
            null = self.expression(left).is_null()
            return null if isinstance(op, ast.Is) else ~null
        if isinstance(op, ast.In | ast.NotIn):
            found = self.membership(left, right)
            return found if isinstance(op, ast.In) else ~found
        if any(isinstance(side, ast.Constant) and side.value is None for side in (left, right)):
            raise FilterError("nothing equals None; use `is None` or `is not None`", right.col_offset)
        a, b = self.fit(self.term(left), self.term(right), right.col_offset)
        return getattr(self.pc, _COMPARE[type(op)])(a, b)

    def membership(self, left: ast.expr, right: ast.expr) -> Any:
        if isinstance(right, ast.Tuple | ast.List | ast.Set):
            item = self.term(left)
            if item.type is None or item.literal:
                raise FilterError("`in` needs a column on its left", left.col_offset)
            values = [self.literal(self.constant(v), item, v.col_offset).as_py() for v in right.elts]
            kind = item.type
            if self.pa.types.is_integer(
                kind
            ):  # a number that the column cannot have is not in it, which is not an error
                kind, values = self.pa.int64(), [int(v) for v in values if v % 1 == 0]
            found = item.value.isin(self.pa.array(values, kind))
            # Arrow returns False for null in a list; here null stays null, so that `not in` omits the row as well
            return self.pc.if_else(item.value.is_valid(), found, self.pc.scalar(self.pa.scalar(None, self.pa.bool_())))
        whole = self.term(right)
        if _family(self.pa, whole.type) == "list":
            return self.in_list(left, whole)
        if isinstance(left, ast.Constant):  # 'x' in destination
            return self.text_test("match_substring", right, left)
        raise FilterError(
            "`in` needs a list of values, kind in ('PUBLISH', 'PUBACK'), or a column of lists", right.col_offset
        )

    def in_list(self, left: ast.expr, whole: Term) -> Any:
        """`'a/+' in mqtt.topic_filters`. Arrow has no such function: the elements are joined and searched as text."""
        assert whole.type is not None
        value = self.literal(self.constant(left), Term(None, whole.type.value_type, False), left.col_offset)
        text = value.as_py()
        mark: Any = b"\x00\xff\x00" if isinstance(text, bytes) else "\x00"
        kind = self.pa.scalar(mark).type
        text = mark + (text if isinstance(text, bytes) else str(text)) + mark
        joined = self.pc.binary_join(whole.value.cast(self.pa.list_(kind)), self.pa.scalar(mark, kind))
        ends = self.pc.scalar(self.pa.scalar(mark, kind))
        around = self.pc.binary_join_element_wise(ends, joined, ends, self.pc.scalar(self.pa.scalar(mark[:0], kind)))
        # an empty list joins to an empty text, which contains no element
        return (self.pc.list_value_length(whole.value) > 0) & self.pc.match_substring(around, text)

    def method(self, node: ast.Call) -> Any:
        assert isinstance(node.func, ast.Attribute)
        if len(node.args) != 1 or node.keywords:
            raise FilterError(f"{node.func.attr}() takes one text argument", node.col_offset)
        return self.text_test(_METHODS[node.func.attr], node.func.value, node.args[0])

    def text_test(self, function: str, subject: ast.expr, pattern: ast.expr) -> Any:
        term = self.term(subject)
        family = _family(self.pa, term.type)
        if family not in ("text", "octets") or term.literal:
            raise FilterError("only text and payloads can be searched", subject.col_offset)
        value = self.constant(pattern)
        if not isinstance(value, str | bytes):
            raise FilterError("needs text in quotes", pattern.col_offset)
        if function == "match_substring_regex":
            try:
                self.pc.match_substring_regex(self.pa.array([""]), value)
            except self.pa.ArrowInvalid as fault:
                raise FilterError(f"not a regular expression: {fault}", pattern.col_offset) from None
        return getattr(self.pc, function)(term.value, value)

    def term(self, node: ast.expr) -> Term:
        match node:
            case ast.Name(id=name):
                return Term(self.pc.field(name), self.type_of(name, node), False)
            case ast.Constant() | ast.UnaryOp(op=ast.USub()):
                value = self.constant(node)
                return Term(value, self.pa.scalar(value).type, True)
            case ast.Attribute(value=ast.Name(id=name), attr=field):
                return self.struct_field(name, field, node)
            case ast.Subscript(value=ast.Name(id=name), slice=key):
                return self.map_value(name, key, node)
            case ast.Call(func=ast.Name(id="len"), args=[of], keywords=[]):
                return self.length(of)
            case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
                return self.arithmetic(node)
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return Term(self.boolean(node), self.pa.bool_(), False)
        raise FilterError(f"a filter has no {_describe(node)}; see `wirefmt decode --help`", node.col_offset)

    def expression(self, node: ast.expr) -> Any:
        term = self.term(node)
        return self.pc.scalar(term.value) if term.literal else term.value

    def type_of(self, name: str, node: ast.expr) -> pa.DataType:
        if name in EITHER:  # `_Either` has replaced it where it is compared
            example = "port == 1883" if name == "port" else "ip.startswith('10.')"
            raise FilterError(f"needs a comparison, such as {example}", node.col_offset)
        return self.schema.field(name).type

    def struct_field(self, name: str, field: str, node: ast.expr) -> Term:
        kind = self.type_of(name, node)
        if not self.pa.types.is_struct(kind):
            raise FilterError(f"{name} has no fields; methods are {', '.join(_METHODS)}", node.col_offset)
        names = [kind.field(i).name for i in range(kind.num_fields)]
        if field not in names:
            raise FilterError(f"{name} has no field {field!r}; {suggest(field, names)}", node.col_offset)
        return Term(self.pc.field(name, field), kind.field(field).type, False)

    def map_value(self, name: str, key: ast.expr, node: ast.expr) -> Term:
        kind = self.type_of(name, node)
        value = self.constant(key)
        if not self.pa.types.is_map(kind) or not isinstance(value, str):
            raise FilterError("only headers['name'] can be looked up", node.col_offset)
        return Term(self.pc.map_lookup(self.pc.field(name), self.pa.scalar(value), "first"), kind.item_type, False)

    def length(self, node: ast.expr) -> Term:
        term = self.term(node)
        if term.type is not None and not term.literal:
            families = {"text": "utf8_length", "octets": "binary_length", "list": "list_value_length"}
            function = families.get(_family(self.pa, term.type))
            if function:
                return Term(getattr(self.pc, function)(term.value), self.pa.int64(), False)
        raise FilterError("len() is for text, payloads and lists", node.col_offset)

    def arithmetic(self, node: ast.BinOp) -> Term:
        left, right = self.term(node.left), self.term(node.right)
        for side, part in ((left, node.left), (right, node.right)):
            if _family(self.pa, side.type) != "number":
                raise FilterError("only numbers can be added", part.col_offset)
        # in 64 bits, because Arrow adds int8 to int8 as int8
        a, b = (self.pc.scalar(t.value) if t.literal else t.value.cast(self.pa.int64()) for t in (left, right))
        return Term(getattr(self.pc, _ARITHMETIC[type(node.op)])(a, b), self.pa.int64(), False)

    def constant(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=str() | bytes() | bool() | int() | float() as value):
                if isinstance(value, int) and not -(2**63) <= value < 2**63:
                    raise FilterError("numbers must fit 64 bits", node.col_offset)
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
        raise FilterError(f"expected a value, not a {_describe(node)}", node.col_offset)

    def fit(self, a: Term, b: Term, at: int) -> tuple[Any, Any]:
        """Both sides as expressions that Arrow can compare: text compared with a time is a time, with a payload bytes."""
        if a.literal and not b.literal:
            right, left = self.fit(b, a, at)
            return left, right
        if b.literal and _family(self.pa, a.type) == "time" and isinstance(b.value, str) and _OF_DAY.match(b.value):
            return a.value.cast(self.pa.time64("us")), self.pc.scalar(_of_day(b.value, at))
        if b.literal:
            other = self.literal(b.value, a, at)
            return (self.pc.scalar(a.value) if a.literal else a.value), self.pc.scalar(other)
        if _family(self.pa, a.type) != _family(self.pa, b.type):
            raise FilterError(f"{a.type} cannot be compared with {b.type}", at)
        return a.value, b.value

    def literal(self, value: Any, beside: Term, at: int) -> pa.Scalar[Any]:
        family = _family(self.pa, beside.type)
        if family == "time" and isinstance(value, str):
            return self.pa.scalar(_time(value, at), beside.type)
        if family == "octets" and isinstance(value, str):
            return self.pa.scalar(value.encode(), beside.type)
        scalar = self.pa.scalar(value)
        if family != _family(self.pa, scalar.type):
            raise FilterError(f"{beside.type} cannot be compared with {value!r}", at)
        return scalar


def _family(pa: Any, kind: pa.DataType | None) -> str:
    tests = {
        "boolean": pa.types.is_boolean, "number": lambda t: pa.types.is_integer(t) or pa.types.is_floating(t),
        "text": pa.types.is_string, "octets": pa.types.is_binary, "time": pa.types.is_timestamp,
        "list": lambda t: pa.types.is_list(t) and not pa.types.is_map(t),
    }  # fmt: skip
    return next((name for name, test in tests.items() if kind is not None and test(kind)), str(kind))


def _of_day(text: str, at: int) -> time:
    try:
        return time.fromisoformat(text)
    except ValueError:
        raise FilterError(f"{text!r} is not a time of day such as 12:00:00", at) from None


def _time(text: str, at: int) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise FilterError(f"{text!r} is not a time such as 2026-01-31T12:00:00, or 12:00:00 of any day", at) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _describe(node: ast.AST) -> str:
    return {"Call": "such function", "BinOp": "such operator"}.get(type(node).__name__, type(node).__name__.lower())


def _check_count(tree: ast.AST) -> None:
    """Arrow walks a long expression by recursion."""
    count = sum(len(n.values) if isinstance(n, ast.BoolOp) else len(n.ops) - 1 for n in ast.walk(tree)
                if isinstance(n, ast.BoolOp | ast.Compare))  # fmt: skip
    if count > _COMPARISONS:
        raise FilterError(
            f"more than {_COMPARISONS:,} comparisons; one of many values is kind in ('PUBLISH', 'PUBACK')"
        )


def _check_depth(tree: ast.AST) -> None:
    level: list[ast.AST] = [tree]
    for _ in range(_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise FilterError(f"nested deeper than {_DEPTH} levels")
