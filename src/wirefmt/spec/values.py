"""The texts that columns of the message table may have, as far as specifications list them: for hints and for completion."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

#: Of the column `status`.
_STATUS = ("ok", "partial", "gap", "malformed")


@cache
def values_of(column: str) -> tuple[str, ...]:
    """The texts that a column may have; none for columns whose texts no specification lists."""
    from wirefmt.protocols import PROTOCOLS

    if column == "status":
        return _STATUS
    if column == "protocol":
        return tuple(row.name for row in PROTOCOLS)
    columns = [row.columns() for row in PROTOCOLS]
    if column == "kind":
        return tuple(dict.fromkeys(kind for of in columns for kind in getattr(of, "KINDS", of.OPERATIONS)))
    if column == "operation":
        ways = (way for of in columns for way in of.OPERATIONS.values())
        found = (name for way in ways for name in ((way,) if isinstance(way, str) else way))
        return tuple(dict.fromkeys(found))
    return ()


def meant(column: str, value: str) -> str | None:
    """The value of a column that somebody meant who wrote another one; None: it may have this one, or nothing is like it."""
    known = values_of(column)
    if value in known:
        return None
    folded = {name.lower(): name for name in known}
    close = get_close_matches(value.lower(), folded, 1, 0.8)
    return folded[close[0]] if close else None
