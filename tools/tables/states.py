"""Pages about the states of connections, drawn from a protocol's tables: transitions, and (if there are any) CALLS."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any


def states_page(states: ModuleType, intro: str, kinds: str) -> list[str]:
    """The page of one protocol. `kinds`: the word for what the table's kinds are. A state is drawn in the roles that MEANINGS
    names for it."""
    lines = intro.splitlines()
    for role in states.Role:
        lines += ["", f"## The {role.value}", "", "```mermaid", *_diagram(states, role), "```", ""]
        lines += ["| state | meaning |", "| --- | --- |"]
        lines += [f"| {state.value} | {states.MEANINGS[role, state]} |" for state in _states_of(states, role)]
        for title, table in (("What comes from the peer", states.RECEIVES), ("What we send", states.SENDS)):
            lines += ["", f"### {title}", "", *_table(states, role, table, kinds)]
    return lines


def _states_of(states: ModuleType, role: Any) -> list[Any]:
    return [state for state in states.State if (role, state) in states.MEANINGS]


def _diagram(states: ModuleType, role: Any) -> Iterator[str]:
    """Transitions to another state, one arrow for each pair of states."""
    yield "stateDiagram-v2"
    yield "    [*] --> idle"
    arrows: dict[tuple[str, str], list[str]] = {}
    for sign, table in (("+", states.RECEIVES), ("-", states.SENDS)):
        for (whose, state, kind), after in table.items():
            if whose is role and isinstance(after, states.State) and after is not state:
                arrows.setdefault((state.value, after.value), []).append(f"{sign} {kind}")
    for whose, before, call, after in getattr(states, "CALLS", ()):
        if whose is role:
            arrows.setdefault((before.value, after.value), []).append(call)
    order = [state.value for state in states.State]
    for (before, after), kinds in sorted(arrows.items(), key=lambda item: [order.index(name) for name in item[0]]):
        yield f"    {before} --> {after}: {'<br>'.join(kinds)}"
    yield "    closed --> [*]"


def _table(states: ModuleType, role: Any, table: Any, kinds_word: str) -> Iterator[str]:
    yield f"| state | {kinds_word} | what becomes of them |"
    yield "| --- | --- | --- |"
    for state in _states_of(states, role):
        outcomes: dict[str, list[str]] = {}
        for kind in states.KINDS:
            outcome = table[role, state, kind]
            if isinstance(outcome, states.State):
                text = "taken" if outcome is state else f"taken; then {outcome.value}"
            elif isinstance(outcome, states.Outcome):
                text = outcome.value
            else:
                text = f"violation: {outcome.rule}"
            outcomes.setdefault(text, []).append(kind)
        for text, kinds in outcomes.items():
            yield f"| {state.value} | {'all' if len(kinds) == len(states.KINDS) else ', '.join(kinds)} | {text} |"
