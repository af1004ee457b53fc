"""Tables of states: (role, state, kind of message) -> the next state, or an outcome that leaves the state as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def arrows(role: Any, *tables: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """From each state of the role to its next states."""
    return [
        (state, after)
        for table in tables
        for (whose, state, _), after in table.items()
        if whose is role and isinstance(after, type(state))
    ]


def reachable(start: Any, arrows: Iterable[tuple[Any, Any]]) -> set[Any]:
    """The states that are reachable from `start`, which is one of them."""
    arrows = list(arrows)
    reached, edge = {start}, {start}
    while edge:
        edge = {after for state, after in arrows if state in edge} - reached
        reached |= edge
    return reached
