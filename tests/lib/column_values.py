"""How values of objects look in columns: text, hexadecimal, JSON. For lib/columns.py and the `rows.py` of each protocol."""

from __future__ import annotations

import json
import struct
from typing import Any

HEX_OCTETS = 1024  # octets that are not text: so many are shown

Row = dict[str, Any]


def text(value: str | bytes | None, *, nul: bool = False) -> str | None:
    """Octets in a column of text: as they are if they are text, else in hexadecimal."""
    if value is None:
        return None
    octets = value.encode() if isinstance(value, str) else bytes(value)
    try:
        found = octets.decode()
    except UnicodeDecodeError:
        return octets[:HEX_OCTETS].hex()
    return found if nul or "\0" not in found else octets[:HEX_OCTETS].hex()


def wrapped(value: int | None) -> int | None:
    """An unsigned number of 64 bits in a column of signed ones."""
    return value - 2**64 if value is not None and value >= 2**63 else value


class Number(str):
    """A number of JSON, by its digits."""


class Json:
    """Equal to any text that is this JSON: names in order, with repeats."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, bytes):
            other = other.decode()
        if not isinstance(other, str):
            return NotImplemented
        try:
            found = json.loads(
                other, object_pairs_hook=Members, parse_int=Number, parse_float=Number, parse_constant=Number
            )
        except ValueError:
            return False
        return alike(found, self.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Json({self.value!r})"


class Members(list[tuple[Any, Any]]):
    """Of a JSON object."""


def alike(a: Any, b: Any) -> bool:
    if (type(a) is str and isinstance(b, Json)) or isinstance(b, Floating):
        return bool(b == a)
    if type(a) is not type(b):
        return False
    if isinstance(a, Members):
        return len(a) == len(b) and all(alike(k, n) and alike(v, w) for (k, v), (n, w) in zip(a, b, strict=True))
    if isinstance(a, list):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b)


class Floating:
    """Equal to digits of JSON that are read back as the same number, and are no more than such numbers need."""

    def __init__(self, value: float, narrow: bool) -> None:
        self.value, self.narrow = value, narrow

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Number):
            return NotImplemented
        significant = other.lower().partition("e")[0].lstrip("-0.").replace(".", "")
        return len(significant) <= (9 if self.narrow else 17) and same_number(float(other), self.value, self.narrow)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Floating({self.value!r})"


def digits(value: float, *, narrow: bool) -> Any:
    """A number as JSON has it: NaN and infinities are strings."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return Floating(value, narrow)


def same_number(a: float, b: float, narrow: bool) -> bool:
    try:
        return struct.pack(">f", a) == struct.pack(">f", b) if narrow else a == b
    except OverflowError:  # rounds to more than the largest
        return False
