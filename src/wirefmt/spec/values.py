"""The texts that columns may have, as far as specifications list them: for hints and for completion."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

#: Of the column `status`.
_STATUS = ("ok", "partial", "gap", "malformed")


@cache
def _listed() -> dict[str, dict[str, tuple[str, ...]]]:
    """Texts that a table of what became of messages has: by table and column."""
    from wirefmt.spec import insight
    from wirefmt.spec.rules import RULES, SEVERITIES

    sides = ("client", "server")
    how = ("fin", "rst", "open", "idle", "evicted", "reused")
    return {
        "connections": {"reason": insight.REASONS, "how": how, "closed_by": sides, "ended_by": sides},
        "operations": {"kind": insight.KINDS, "outcome": insight.OUTCOMES},
        "paths": {"matched_by": insight.MATCHES},
        "findings": {"rule": tuple(RULES), "severity": SEVERITIES},
    }


@cache
def values_of(column: str, table: str = "messages") -> tuple[str, ...]:
    """The texts that a column may have; none for columns whose texts no specification lists."""
    from wirefmt.protocols import PROTOCOLS

    if table != "messages":
        protocol = column == "protocol" or column.endswith("_protocol")
        return values_of("protocol") if protocol else _listed()[table].get(column, ())
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
