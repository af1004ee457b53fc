"""docs/mqtt-connection.md: the states of an MQTT connection, drawn from the table of transitions."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

INTRO = """
# The states of an MQTT connection

`mqtt.ClientConnection` and `mqtt.ServerConnection` keep to one table (`wirefmt/mqtt/states.py`): for each role, state and
kind of packet it says which state follows, or which rule is broken. This page is drawn from that table. How to use the
connections: [connections.md](connections.md).

In the diagrams, `+` is a packet that comes from the peer and `-` one that we send. Packets that change no state are in the
tables below them. A violation ends the connection:

| state | what the peer receives in 5.0 | before 5.0 |
| --- | --- | --- |
| server, idle | nothing; a CONNECT that cannot be read may get CONNACK with a code | nothing, or CONNACK with return code 1 |
| server, connecting or authenticating | CONNACK with a code | nothing |
| client, before CONNACK | nothing | nothing |
| connected, reauthenticating | DISCONNECT with a code | nothing |

The code is 0x82 (Protocol Error) for all violations of the table. Other faults have codes of their own, as the fault's
error says. Two more things end a connection in any state: the end of the stream, and a timer."""


def mqtt_states_page(states: ModuleType) -> list[str]:
    return states_page(states, INTRO)


def states_page(states: ModuleType, intro: str) -> list[str]:
    """The page of a protocol whose module of states has roles, states, their meanings, and both tables."""
    lines = intro.splitlines()
    for role in states.Role:
        lines += ["", f"## The {role.value}", "", "```mermaid", *_diagram(states, role), "```", ""]
        lines += ["| state | meaning |", "| --- | --- |"]
        lines += [f"| {state.value} | {states.MEANINGS[role, state]} |" for state in _states(states, role)]
        for title, table in (("What comes from the peer", states.RECEIVES), ("What we send", states.SENDS)):
            lines += ["", f"### {title}", "", *_table(states, role, table)]
    return lines


def _states(states: ModuleType, role: Any) -> list[Any]:
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
    order = [state.value for state in states.State]
    for (before, after), kinds in sorted(arrows.items(), key=lambda item: [order.index(name) for name in item[0]]):
        yield f"    {before} --> {after}: {'<br>'.join(kinds)}"
    yield "    closed --> [*]"


def _table(states: ModuleType, role: Any, table: Any) -> Iterator[str]:
    yield f"| state | {getattr(states, 'SAID', 'packets')} | what becomes of them |"
    yield "| --- | --- | --- |"
    for state in _states(states, role):
        outcomes: dict[str, list[str]] = {}
        row = {kind: outcome for (whose, where, kind), outcome in table.items() if whose is role and where is state}
        for kind, outcome in row.items():
            if isinstance(outcome, states.State):
                text = "taken" if outcome is state else f"taken; then {outcome.value}"
            elif isinstance(outcome, states.Outcome):
                text = outcome.value
            else:
                text = f"violation: {outcome.rule}"
            outcomes.setdefault(text, []).append(kind)
        for text, kinds in outcomes.items():
            yield f"| {state.value} | {'all' if len(kinds) == len(row) else ', '.join(kinds)} | {text} |"
