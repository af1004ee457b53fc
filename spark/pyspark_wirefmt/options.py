"""Options: what `capture.read` takes, and what is Spark's own; from strings (data source) or Python values (functions).

Names are `capture.read`'s keywords. Case and underscores do not count: payload_max, payloadMax and PAYLOADMAX are one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from wirefmt.capture import CaptureDecoder, files
from wirefmt.convert import DIALECTS, PROTOCOLS, Topics
from wirefmt.errors import suggest


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
    """A number of octets; k, m, g are powers of 1024."""
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


def _rules(value: Any) -> tuple[str, ...]:
    # a decode_as rule contains a comma, so several rules are parted by semicolons
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


def _option(parse: Callable[[Any], Any], default: Any, *, core: bool = False) -> Any:
    return field(default=default, metadata={"parse": parse, "core": core})


@dataclass(frozen=True)
class Options:
    """Every option with its default. Those marked `core` are handed to the core as they are."""

    protocols: tuple[str, ...] | None = _option(_words, None, core=True)
    decode_as: tuple[str, ...] = _option(_rules, (), core=True)
    payload: bool = _option(_flag, True, core=True)
    payload_max: int | None = _option(_octets, None, core=True)
    expose_credentials: bool = _option(_flag, False, core=True)
    strictness: str = _option(_one_of("lax", "strict"), "lax", core=True)
    batch_rows: int = _option(_positive, 16384, core=True)
    batch_bytes: int = _option(_positive, 16 << 20, core=True)
    flows: str = _option(_one_of("in-file", "across-files"), "in-file", core=True)
    tunnels: bool = _option(_flag, False, core=True)
    limits: Mapping[str, int] | None = _option(_limits, None, core=True)
    raw: bool = _option(_flag, False, core=True)
    detail: bool = _option(_flag, False, core=True)

    convert_to: str | None = _option(_one_of(*PROTOCOLS), None)
    dialect: str = _option(_one_of(*DIALECTS), "documented")
    mqtt_exchange: str = _option(_text, "amq.topic")
    topics: str = _option(_one_of(*get_args(Topics)), "translated")
    percent_encoding: bool = _option(_flag, True)

    table: str = _option(_one_of("messages", "packets"), "messages")
    columns: tuple[str, ...] | None = _option(_words, None)
    ports: tuple[int, ...] = _option(_numbers, ())
    recursive: bool = _option(_flag, False)
    split_size: int = _option(_positive, 256 << 20)
    max_slices: int = _option(_positive, 8)
    partitions: int | None = _option(_positive, None)
    pushdown: bool = _option(_flag, False)
    max_files_per_trigger: int = _option(_positive, 1000)
    context_files: int = _option(_octets, 100)
    settle: float = _option(float, 0.0)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Options from what the user gave, all checked, so that a wrong one fails here and not in the tasks.

        Raises:
            ValueError: an unknown option, or an invalid value; the message suggests what may be meant.
        """
        known = {_plain(f.name): f for f in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            option = known.get(_plain(name))
            if option is None:
                raise ValueError(f"no option {name!r}; {suggest(name, ['path', *(f.name for f in fields(cls))])}")
            try:
                values[option.name] = None if value is None else option.metadata["parse"](value)
            except (TypeError, ValueError, OverflowError) as fault:
                raise ValueError(f"option {option.name} = {value!r}: {fault}") from None
        chosen = cls(**values)
        if chosen.convert_to and chosen.table != "messages":
            raise ValueError("option convert_to: only the message table can be converted")
        CaptureDecoder(**chosen.core())  # the core knows which protocols, rules and limits there are
        return chosen.filling(chosen.columns or ())

    def filling(self, columns: Iterable[str]) -> Options:
        """These options, with the columns filled that are null unless asked for, where `columns` names them."""
        named = set(columns)
        return replace(self, raw=self.raw or "raw" in named, detail=self.detail or "detail" in named)

    def core(self) -> dict[str, Any]:
        """Keywords of `wirefmt.capture.read` and `CaptureDecoder`."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.metadata["core"]}

    def conversion(self) -> dict[str, Any]:
        """Keywords of `wirefmt.convert.table.convert_table`."""
        how = ("dialect", "mqtt_exchange", "topics", "percent_encoding")
        return {"to": self.convert_to} | {name: getattr(self, name) for name in how}


#: Properties that Spark's catalog adds to the options of a table; none of them is an option. It also repeats each option
#: as `option.NAME`.
_CATALOG = frozenset({"owner", "location", "provider", "comment", "external", "is_managed_location", "collation"})


def take_paths(given: Mapping[str, Any]) -> tuple[list[str], bool, dict[str, Any]]:
    """Parts a data source's options: paths, whether they came from the catalog (CREATE TABLE), and the others."""
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
