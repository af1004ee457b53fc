"""Options: what `capture.read` takes, and what is Spark's own; from strings (data source) or Python values (functions).

Names are `capture.read`'s keywords. Case and underscores do not count: payload_max, payloadMax and PAYLOADMAX are one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from wirefmt.capture import files


def _text(value: Any) -> str:
    return str(value)


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false", "1", "0", "yes", "no"):
        raise ValueError("is true or false")
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
        raise ValueError("is at least 1")
    return number


def _words(value: Any) -> tuple[str, ...]:
    parts: Iterable[Any] = value.split(",") if isinstance(value, str) else value
    return tuple(text for part in parts if (text := str(part).strip()))


def _rules(value: Any) -> tuple[str, ...]:
    # a decode_as rule contains a comma, so several rules are parted by semicolons
    return tuple(r.strip() for r in value.split(";") if r.strip()) if isinstance(value, str) else tuple(value)


def _numbers(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(int(part) for part in _words(value))


def _object(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _one_of(*words: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if str(value).lower() not in words:
            raise ValueError("is " + " or ".join(words))
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
    limits: Mapping[str, int] | None = _option(_object, None, core=True)
    octets: bool = _option(_flag, False, core=True)

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
        """Raises ValueError that names the option, for one that is not known or has a value it cannot have."""
        known = {_plain(f.name): f for f in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            option = known.get(_plain(name))
            if option is None:
                raise ValueError(
                    f"wirefmt has no option {name!r}; there are path, {', '.join(f.name for f in fields(cls))}"
                )
            try:
                values[option.name] = None if value is None else option.metadata["parse"](value)
            except (TypeError, ValueError, OverflowError) as fault:
                raise ValueError(f"option {option.name} = {value!r}: {fault}") from None
        return cls(**values)

    def core(self) -> dict[str, Any]:
        """Keywords of `wirefmt.capture.read` and `CaptureDecoder`."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.metadata["core"]}


def take_paths(given: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Parts the paths from a data source's options."""
    rest = {name: value for name, value in given.items() if _plain(name) not in ("path", "paths")}
    paths = [p for name, value in given.items() if name not in rest for p in files.parse_paths(value)]
    if not paths:
        raise ValueError('wirefmt needs a path: .load("dir/*.pcap") or OPTIONS (path ...)')
    return paths, rest


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
