"""docs/amqp10-connection.md: the states of AMQP 1.0, drawn from the tables of transitions."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

INTRO = """
# The states of an AMQP 1.0 connection

`amqp10.ClientConnection` and `amqp10.ServerConnection` keep to the tables of `wirefmt/amqp10/states.py`: for the SASL layer,
the connection, each session and each link they say, for each state and kind of performative, which state follows, or which
rule is broken. This page is drawn from them. How to use the connections: [connections.md](connections.md).

In the diagrams, `+` is what comes from the peer and `-` what we send. What changes no state is in the tables below them. A
violation has an error condition, and its prefix says what it ends: `amqp:link` the link (detach), `amqp:session` the session
(end), all others the connection (close). Before both opens, and in the SASL layer, the connection ends without a word, or
with open and close if the headers are known. Two more things end a connection in any state: the end of the stream, and a
timer."""


def amqp10_states_page(states: ModuleType) -> list[str]:
    lines = INTRO.splitlines()
    for level in states.LEVELS:
        lines += ["", f"## {level.title}", "", "| state | meaning |", "| --- | --- |"]
        lines += [f"| {state.value} | {states.MEANINGS[state]} |" for state in level.states]
        for roles in _alike(level):
            if len(roles) < len(level.roles):
                lines += ["", f"### The {roles[0].value} of {level.title[0].lower()}{level.title[1:]}"]
            lines += ["", "```mermaid", *_diagram(level, roles[0]), "```"]
            for title, table in (("comes from the peer", level.receives), ("we send", level.sends)):
                lines += ["", *_table(states, level, roles[0], table, title)]
    return lines


def _alike(level: Any) -> list[list[Any]]:
    """The roles of a level; those with equal rows together."""
    found: list[list[Any]] = []
    for role in level.roles:
        for group in found:
            if all(
                table[role, state, kind] == table[group[0], state, kind]
                for table in (level.receives, level.sends)
                for state in level.states
                for kind in level.kinds
            ):
                group.append(role)
                break
        else:
            found.append([role])
    return found


def _diagram(level: Any, role: Any) -> Iterator[str]:
    """Transitions to another state, one arrow for each pair of states."""
    names = {state: state.name.lower() for state in level.states}
    yield "stateDiagram-v2"
    for state, name in names.items():
        if state.value != name:
            yield f'    state "{state.value}" as {name}'
    yield f"    [*] --> {names[level.first]}"
    arrows: dict[tuple[Any, Any], list[str]] = {}
    for sign, table in (("+", level.receives), ("-", level.sends)):
        for (whose, state, kind), after in table.items():
            if whose is role and isinstance(after, level.states) and after is not state:
                arrows.setdefault((state, after), []).append(f"{sign} {kind}")
    order = list(level.states)
    for (before, after), kinds in sorted(arrows.items(), key=lambda item: [order.index(state) for state in item[0]]):
        yield f"    {names[before]} --> {names[after]}: {'<br>'.join(kinds)}"
    for state in level.last:
        yield f"    {names[state]} --> [*]"


def _table(states: ModuleType, level: Any, role: Any, table: Any, title: str) -> Iterator[str]:
    yield f"| state | what {title} | what becomes of it |"
    yield "| --- | --- | --- |"
    for state in level.states:
        outcomes: dict[str, list[str]] = {}
        for kind in level.kinds:
            outcome = table[role, state, kind]
            if isinstance(outcome, level.states):
                text = "taken" if outcome is state else f"taken; then {outcome.value}"
            elif isinstance(outcome, states.Outcome):
                text = outcome.value
            else:
                text = f"violation: {outcome.rule}" + (f", `{outcome.condition}`" if outcome.condition else "")
            outcomes.setdefault(text, []).append(kind)
        for text, kinds in outcomes.items():
            yield f"| {state.value} | {'all' if len(kinds) == len(level.kinds) else ', '.join(kinds)} | {text} |"
