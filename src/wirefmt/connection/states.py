"""What the tables of states of all protocols are made of: (role, state, kind of message) -> transition.

This module imports nothing that is compiled, so the pages of the tables can be made without the compiled core.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class Role(enum.Enum):
    CLIENT = "client"
    SERVER = "server"


class Outcome(enum.Enum):
    """What becomes of a message that changes no state and breaks no rule."""

    UNREAD = "stays unread until the host has decided"
    DROPPED = "is dropped"
    IGNORED = "is ignored"
    REFUSED = "is refused"
    CHANNEL = "is the channel's: see the table of channels"


@dataclass(frozen=True, slots=True)
class Violation:
    """A message that must not come, or must not be sent, in this state.

    Attributes:
        rule: the rule it breaks, with its statement or section.
        reply: the code that the peer receives for it; empty or None if it receives none.
    """

    rule: str
    reply: int | str | None = None


def rows(
    role: Any, state: Any, kinds: Iterable[str], legal: Mapping[str, Any], otherwise: Any
) -> dict[tuple[Any, Any, str], Any]:
    """The rows of one state: `legal`, and `otherwise` for the other kinds."""
    made = {(role, state, kind): legal.get(kind, otherwise) for kind in kinds}
    assert len(made) == len({*kinds, *legal}), set(legal) - set(kinds)
    return made


def each(transition: Any, *kinds: str) -> dict[str, Any]:
    """One transition for several kinds."""
    return dict.fromkeys(kinds, transition)


def by_state(table: Mapping[tuple[Any, Any, str], Any], role: Role) -> dict[Any, dict[str, Any]]:
    """The rows of a role by state, so that a message costs one look-up of its kind."""
    found: dict[Any, dict[str, Any]] = {state: {} for _, state, _ in table}
    for (whose, state, kind), transition in table.items():
        if whose is role:
            found[state][kind] = transition
    return found
