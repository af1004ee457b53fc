"""Pages about the states of connections, drawn from the tables of transitions of a protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Machine:
    """One machine in one role. `receives` and `sends` map (role, state, kind) to the next state, an outcome or a violation."""

    role: Any
    states: Sequence[Any]
    """States in the order of the page, the first one first."""
    meanings: Mapping[Any, str]
    receives: Mapping[tuple[Any, Any, str], Any]
    sends: Mapping[tuple[Any, Any, str], Any]
    last: Sequence[Any] = ()
    """States that nothing leaves."""
    calls: Sequence[tuple[Any, Any, str, Any]] = ()
    """(role, state, call, next state): transitions by calls of the host."""
    kinds: str = "kinds"
    """The word for what a table's kinds are."""
    reply: str = ""
    """The attribute of a violation that is shown: what the peer receives."""


def role_machine(states: ModuleType, role: Any, kinds: str) -> Machine:
    """The machine of a role in a module that has one machine. A role has the states that MEANINGS names for it."""
    own = [state for state in states.State if (role, state) in states.MEANINGS]
    meanings = {state: states.MEANINGS[role, state] for state in own}
    calls = getattr(states, "CALLS", ())
    return Machine(role, own, meanings, states.RECEIVES, states.SENDS, own[-1:], calls, kinds)


def states_page(states: ModuleType, intro: str, kinds: str) -> list[str]:
    """The page of a protocol that has one machine for each role. `kinds`: the word for what the table's kinds are."""
    lines = intro.splitlines()
    for role in states.Role:
        lines += ["", f"## The {role.value}", *machine_lines(role_machine(states, role, kinds))]
    return lines


def machine_lines(machine: Machine, level: int = 3, before: str = "") -> list[str]:
    """The diagram, the meanings of the states, and both tables under headings of `level` that begin with `before`."""
    lines = ["", "```mermaid", *diagram(machine), "```", "", *meanings(machine)]
    for title, table in (("What the peer sends", machine.receives), ("What we send", machine.sends)):
        heading = f"{before}{title[0].lower()}{title[1:]}" if before else title
        lines += ["", f"{'#' * level} {heading}", "", *transitions(machine, table)]
    return lines


def meanings(machine: Machine) -> Iterator[str]:
    yield "| state | meaning |"
    yield "| --- | --- |"
    for state in machine.states:
        yield f"| {state.value} | {machine.meanings[state]} |"


def diagram(machine: Machine) -> Iterator[str]:
    """Transitions to another state, one arrow for each pair of states."""
    order = list(machine.states)
    names = {state: state.value.replace(" ", "_") for state in order}
    yield "stateDiagram-v2"
    for state, name in names.items():
        if state.value != name:
            yield f'    state "{state.value}" as {name}'
    yield f"    [*] --> {names[order[0]]}"
    arrows: dict[tuple[int, int], list[str]] = {}
    for sign, table in (("+", machine.receives), ("-", machine.sends)):
        for (role, state, kind), after in table.items():
            if role is machine.role and after in names and after is not state:
                arrows.setdefault((order.index(state), order.index(after)), []).append(f"{sign} {kind}")
    for role, state, call, after in machine.calls:
        if role is machine.role:
            arrows.setdefault((order.index(state), order.index(after)), []).append(call)
    for (first, second), kinds in sorted(arrows.items()):
        yield f"    {names[order[first]]} --> {names[order[second]]}: {'<br>'.join(kinds)}"
    for state in machine.last:
        yield f"    {names[state]} --> [*]"


def transitions(machine: Machine, table: Mapping[tuple[Any, Any, str], Any]) -> Iterator[str]:
    """One row for each state and result: the kinds that have it."""
    yield f"| state | {machine.kinds} | result |"
    yield "| --- | --- | --- |"
    for state in machine.states:
        row = {kind: result for (role, at, kind), result in table.items() if role is machine.role and at is state}
        results: dict[str, list[str]] = {}
        for kind, result in row.items():
            if result in machine.states:
                text = "accepted" if result is state else f"accepted; then {result.value}"
            elif hasattr(result, "rule"):
                reply = getattr(result, machine.reply) if machine.reply else None
                text = f"violation{f', `{reply}`' if reply else ''}: {result.rule}"
            else:
                text = result.value
            results.setdefault(text, []).append(kind)
        for text, kinds in results.items():
            yield f"| {state.value} | {'all' if len(kinds) == len(row) else ', '.join(kinds)} | {text} |"
