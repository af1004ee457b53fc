"""Names that the command line knows: values of columns of text, for hints and for completion in a shell."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

#: Of the column `status`.
_STATUS = ("ok", "partial", "gap", "malformed")


@cache
def values_of(column: str) -> tuple[str, ...]:
    """The texts that a column may have, as far as specifications list them; none for all other columns."""
    from wirefmt.protocols import PROTOCOLS
    from wirefmt.rocketmq.spec import REQUEST_CODES

    if column == "status":
        return _STATUS
    if column == "protocol":
        return tuple(row.name for row in PROTOCOLS)
    operations = [row.columns().OPERATIONS for row in PROTOCOLS]
    if column == "kind":
        requests = [row.name for row in REQUEST_CODES]
        return tuple(dict.fromkeys([*(kind for of in operations for kind in of), *requests, "RESPONSE"]))
    if column == "operation":
        found = (name for of in operations for way in of.values() for name in ((way,) if isinstance(way, str) else way))
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
