"""Settings of `wirefmt serve`: every field of the broker's options whose value can be written in TOML.

A table is a dataclass, or a mapping; a list of strings is a tuple or a set. A value of None is written "none".
"""

from __future__ import annotations

import re
import tomllib
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from wirefmt.errors import suggest

_T = TypeVar("_T")

#: How None is written: TOML has no null.
NONE: Final = "none"

_PLAIN: Final = (bool, int, float, str)
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def names_of(options: object, besides: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields of a dataclass that can be written in TOML, with their types."""
    hints = get_type_hints(type(options))
    return {f.name: hints[f.name] for f in fields(options) if f.name not in besides and _writable(hints[f.name])}  # type: ignore[arg-type]


def merged(options: _T, given: Mapping[str, Any], where: str, besides: frozenset[str] = frozenset()) -> _T:
    """The options with these settings in place of their own.

    Args:
        options: a dataclass.
        given: names and values, as TOML has them.
        where: the table's name, for errors.
        besides: fields that are left out.

    Raises ValueError for an unknown name, or a value that the field cannot have.
    """
    hints = names_of(options, besides)
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name not in hints:
            raise ValueError(f"unknown option {name!r} in {where}; {suggest(name, list(hints))}")
        changes[name] = _value(f"{where}.{name}", value, hints[name], getattr(options, name))
    try:
        return replace(options, **changes)  # type: ignore[type-var]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def assigned(text: str) -> dict[str, Any]:
    """The nested tables of NAME=VALUE, as in `mqtt.overflow=refuse`. A value that is not TOML is a string."""
    name, equals, value = text.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(map(_KEY.fullmatch, keys)):
        raise ValueError(f"--set needs NAME=VALUE, as in mqtt.overflow=refuse, not {text!r}")
    try:
        found: Any = tomllib.loads(f"x = {value}")
        found = found["x"] if list(found) == ["x"] else value
    except tomllib.TOMLDecodeError:
        found = value
    for key in reversed(keys):
        found = {key: found}
    assert isinstance(found, dict)
    return found


def joined(settings: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Put settings among others; those of the same name are replaced."""
    for name, value in more.items():
        have = settings.get(name)
        if isinstance(have, dict) and isinstance(value, Mapping):
            joined(have, value)
        else:
            settings[name] = value


def written(options: object, where: str, besides: frozenset[str] = frozenset()) -> Iterator[str]:
    """The options as lines of TOML: a table with a comment for what else a value can be, and the tables inside."""
    hints = names_of(options, besides)
    tables: list[tuple[str, object]] = []
    yield f"[{where}]"
    for name, hint in hints.items():
        value = getattr(options, name)
        if is_dataclass(value):
            tables.append((f"{where}.{name}", value))
        else:
            yield f"{name} = {as_toml(value)}{_comment(hint)}"
    for name, table in tables:
        yield ""
        yield from written(table, name)


# ---- types and values


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _writable(hint: Any) -> bool:
    """Can a value of this type be written in TOML?"""
    return any(map(_reader, _kinds(hint)))


def _reader(kind: Any) -> Callable[[str, Any, Any, Any], Any] | None:
    """What makes a value of this type; None: TOML has none."""
    origin = get_origin(kind)
    if kind in _PLAIN:
        return _plain
    if origin is Literal:
        return _literal
    if origin in (frozenset, tuple, Collection) and get_args(kind)[0] is str:
        return _strings
    if (
        isinstance(origin, type)
        and issubclass(origin, Mapping)
        and get_args(kind)[0] is str
        and _writable(get_args(kind)[1])
    ):
        return _table
    if isinstance(kind, type) and is_dataclass(kind) and any(map(_writable, get_type_hints(kind).values())):
        return _dataclass
    return None


def _value(name: str, value: Any, hint: Any, now: Any) -> Any:
    """The value of a field. Raises ValueError if it cannot have this one."""
    kinds = _kinds(hint)
    if types.NoneType in kinds and value == NONE:
        return None
    readers = [(kind, reader) for kind in kinds if (reader := _reader(kind)) is not None]
    problems: list[str] = []
    for kind, reader in readers:
        try:
            return reader(name, value, kind, now)
        except ValueError as error:
            problems.append(str(error))
    if len(problems) == 1:
        raise ValueError(problems[0])
    raise ValueError(f"{name} must be of type {' or '.join(kind.__name__ for kind, _ in readers)}, not {value!r}")


def _plain(name: str, value: Any, kind: Any, now: Any) -> Any:
    if type(value) is kind or (kind is float and type(value) is int):
        return value
    raise ValueError(f"{name} must be of type {kind.__name__}, not {value!r}")


def _literal(name: str, value: Any, kind: Any, now: Any) -> Any:
    for choice in get_args(kind):
        if type(choice) is type(value) and choice == value:
            return choice
    raise ValueError(f"{name} must be {' or '.join(map(repr, get_args(kind)))}, not {value!r}")


def _strings(name: str, value: Any, kind: Any, now: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} must be a list of strings, not {value!r}")
    return (frozenset if get_origin(kind) is frozenset else tuple)(value)


def _table(name: str, value: Any, kind: Any, now: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a table, not {value!r}")
    return {key: _value(f"{name}.{key}", each, get_args(kind)[1], None) for key, each in value.items()}


def _dataclass(name: str, value: Any, kind: Any, now: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a table, not {value!r}")
    if isinstance(now, kind):
        return merged(now, value, name)
    hints = {field: hint for field, hint in get_type_hints(kind).items() if _writable(hint)}
    for field in value:
        if field not in hints:
            raise ValueError(f"unknown option {field!r} in {name}; {suggest(field, list(hints))}")
    try:
        return kind(**{field: _value(f"{name}.{field}", each, hints[field], None) for field, each in value.items()})
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from None


# ---- writing


def as_toml(value: Any) -> str:
    """A value as TOML."""
    if value is None:
        return f'"{NONE}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, frozenset | tuple):
        return f"[{', '.join(as_toml(each) for each in sorted(value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{as_toml(key)} = {as_toml(each)}' for key, each in value.items())}}}"
    return str(value)


def _comment(hint: Any) -> str:
    """What a value can be, where its default does not show it."""
    others: list[str] = []
    for kind in _kinds(hint):
        if get_origin(kind) is Literal:
            others += map(as_toml, get_args(kind))
        elif kind is types.NoneType:
            others.append(as_toml(None))
        else:
            others.append(getattr(get_origin(kind) or kind, "__name__", str(kind)))
    return f"  # {' or '.join(others)}" if len(others) > 1 else ""
