"""Options: those of `wirefmt.capture.Options`, and Spark's own; from strings (data source) or Python values (functions).

The names are `capture.read`'s keywords. Case and underscores are ignored: payload_max, payloadMax and PAYLOADMAX are equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Final, Literal, get_args, get_origin, get_type_hints

from wirefmt import capture
from wirefmt.capture import files
from wirefmt.capture.reader import Schema
from wirefmt.convert import DIALECTS, PROTOCOLS, Topics
from wirefmt.errors import suggest
from wirefmt.spec.columns import ON_REQUEST
from wirefmt.spec.filter import Filter
from wirefmt.spec.insight import TABLES


def _text(value: Any) -> str:
    return str(value)


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false", "1", "0", "yes", "no"):
        raise ValueError("must be true or false")
    return text in ("true", "1", "yes")


def _octets(value: Any) -> int:
    """A number of bytes; k, m, g are powers of 1024."""
    if isinstance(value, int):
        return value
    text = str(value).strip().lower().removesuffix("b")
    scale = {"k": 10, "m": 20, "g": 30, "t": 40}.get(text[-1:], 0)
    return int(float(text[:-1] if scale else text) * (1 << scale))


def _positive(value: Any) -> int:
    number = _octets(value)
    if number < 1:
        raise ValueError("must be at least 1")
    return number


def _words(value: Any) -> tuple[str, ...]:
    parts: Iterable[Any] = value.split(",") if isinstance(value, str) else value
    return tuple(text for part in parts if (text := str(part).strip()))


def _names(value: Any) -> tuple[str, ...]:
    """Names of columns; their case is ignored, as Spark does."""
    return tuple(word.lower() for word in _words(value))


def _rules(value: Any) -> tuple[str, ...]:
    # a decode_as rule contains a comma, so semicolons separate several rules
    return tuple(r.strip() for r in value.split(";") if r.strip()) if isinstance(value, str) else tuple(value)


def _numbers(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(int(part) for part in _words(value))


def _limits(value: Any) -> Any:
    """A dict, or its JSON text."""
    try:
        limits = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        limits = None
    if not isinstance(limits, Mapping) or not all(type(n) is int for n in limits.values()):
        raise ValueError('must be an object of numbers such as {"max_flows": 10000}')
    return limits


def _one_of(*words: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if str(value).lower() not in words:
            raise ValueError(f"must be {' or '.join(words)}")
        return str(value).lower()

    return check


def _option(parse: Callable[[Any], Any], default: Any) -> Any:
    return field(default=default, metadata={"parse": parse})


#: The parser for each type in `capture.Options`.
_PARSERS: dict[Any, Callable[[Any], Any]] = {
    bool: _flag,
    bool | None: _flag,
    int: _octets,
    int | None: _octets,
    str | None: _text,
    Sequence[str] | None: _words,
    str | Sequence[str]: _rules,
    Mapping[str, int] | None: _limits,
}


def _parser(name: str) -> Callable[[Any], Any]:
    """The parser of an option of captures, by its type."""
    kind = get_type_hints(capture.Options)[name]
    return _one_of(*get_args(kind)) if get_origin(kind) is Literal else _PARSERS[kind]


#: What only this package reads.
_PACKETS: Final = "packets"
#: Options of some tables only, and what is said of them with another one.
_OF_SOME_TABLES: Final = (
    ("convert_to", ("messages",), "only the message table can be converted"),
    ("filter", tuple(TABLES), "only the message table and what is made of it can be filtered"),
    ("ports", (_PACKETS,), "only the packets table is limited to ports; for messages: filter='port == 1883'"),
)


@dataclass(frozen=True, kw_only=True)
class Options(capture.Options):
    """Every option with its default: those of captures, which `capture.Options` checks, and those that only Spark has."""

    convert_to: str | None = _option(_one_of(*PROTOCOLS), None)
    dialect: str = _option(_one_of(*DIALECTS), "documented")
    mqtt_exchange: str = _option(_text, "amq.topic")
    topics: str = _option(_one_of(*get_args(Topics)), "translated")
    percent_encoding: bool = _option(_flag, True)

    TABLE_NAMES: ClassVar[tuple[str, ...]] = (*TABLES, _PACKETS)
    table: str = _option(_one_of(*TABLE_NAMES), "messages")
    columns: tuple[str, ...] | None = _option(_names, None)
    ports: tuple[int, ...] = _option(_numbers, ())
    recursive: bool = _option(_flag, False)
    split_size: int = _option(_positive, 256 << 20)
    max_slices: int = _option(_positive, 8)
    partitions: int | None = _option(_positive, None)
    pushdown: bool = _option(_flag, False)
    max_files_per_trigger: int = _option(_positive, 1000)
    context_files: int = _option(_octets, 100)
    settle: float = _option(float, 10.0)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Options from user input, all checked, so that an invalid one fails here and not in the tasks.

        Raises:
            ValueError: an unknown option, or an invalid value; the message suggests corrections.
        """
        known = {_plain(f.name): f for f in fields(cls) if f.name not in ("slice", "threads")}  # tasks share the work
        values: dict[str, Any] = {}
        for name, value in given.items():
            option = known.get(_plain(name))
            if option is None:
                raise ValueError(f"no option {name!r}; {suggest(name, ['path', *(f.name for f in known.values())])}")
            try:
                parse = option.metadata.get("parse") or _parser(option.name)
                values[option.name] = None if value is None else parse(value)
            except (TypeError, ValueError, OverflowError) as fault:
                raise ValueError(f"option {option.name} = {value!r}: {fault}") from None
        table = values.get("table", "messages")
        for name, tables, says in _OF_SOME_TABLES:
            if values.get(name) not in (None, ()) and table not in tables:
                raise ValueError(f"option {name}: {says}")
        chosen = cls(**values)
        if chosen.filter is not None:  # its types are checked
            import pyarrow as pa

            Filter(chosen.filter, TABLES[table]).compile(pa.schema(Schema(None, table)))
        return chosen

    def filling(self, columns: Iterable[str]) -> Options:
        """These options, with the on-request columns filled that `columns` names."""
        named = set(columns)
        filled: dict[str, Any] = {c.name: getattr(self, c.name) or c.name in named for c in ON_REQUEST}
        return replace(self, **filled)

    def reading(self, columns: Sequence[str], **changes: Any) -> capture.Options:
        """Only the options of captures, for these columns of the table."""
        values = {f.name: getattr(self, f.name) for f in fields(capture.Options)}
        return capture.Options(**values | {"columns": columns} | changes)

    @property
    def is_made(self) -> bool:
        """Is the table made of messages?"""
        return self.table not in ("messages", _PACKETS)

    def conversion(self) -> dict[str, Any]:
        """Keywords of `wirefmt.convert.table.convert_table`."""
        how = ("dialect", "mqtt_exchange", "topics", "percent_encoding")
        return {"to": self.convert_to} | {name: getattr(self, name) for name in how}


#: Properties that Spark's catalog adds to the options of a table; none of them is an option. It also repeats each option
#: as `option.NAME`.
_CATALOG = frozenset({"owner", "location", "provider", "comment", "external", "is_managed_location", "collation"})


def take_paths(given: Mapping[str, Any]) -> tuple[list[str], bool, dict[str, Any]]:
    """Split a data source's options: paths, whether they came from the catalog (CREATE TABLE), and the others."""
    paths: list[str] = []
    others: dict[str, Any] = {}
    for name, value in given.items():
        if _plain(name) in ("path", "paths"):
            paths += files.parse_paths(value)
        elif name not in _CATALOG and not name.startswith("option."):
            others[name] = value
    return paths, "provider" in given, others


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
