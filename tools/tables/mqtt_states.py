"""docs/mqtt-connection.md: the states of an MQTT connection, drawn from the table of transitions."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

INTRO = """
# The states of an MQTT connection

`mqtt.ClientConnection` and `mqtt.ServerConnection` follow one table (`wirefmt/mqtt/states.py`). For each role, state and
kind of packet it contains the next state, or the rule that the packet violates. This page is generated from that table.
[connections.md](connections.md) describes how to use the connections.

In the diagrams, `+` is a packet from the peer and `-` a packet that we send. Packets that change no state are in the
tables below the diagrams. A violation ends the connection:

| state | what the peer receives in 5.0 | before 5.0 |
| --- | --- | --- |
| server, idle | nothing; a CONNECT that cannot be read may get CONNACK with a code | nothing, or CONNACK with return code 1 |
| server, connecting or authenticating | CONNACK with a code | nothing |
| client, before CONNACK | nothing | nothing |
| connected, reauthenticating | DISCONNECT with a code | nothing |

The code is 0x82 (Protocol Error) for all violations in the tables. Other faults have other codes, which their
errors contain. The end of the stream and a timer also end a connection, in any state."""


def mqtt_states_page(states: ModuleType) -> list[str]:
    lines = INTRO.splitlines()
    for role in states.Role:
        lines += ["", f"## The {role.value}", "", "```mermaid", *_diagram(states, role), "```", ""]
        lines += ["| state | meaning |", "| --- | --- |"]
        lines += [f"| {state.value} | {states.MEANINGS[role, state]} |" for state in states.State]
        for title, table in (("What the peer sends", states.RECEIVES), ("What we send", states.SENDS)):
            lines += ["", f"### {title}", "", *_table(states, role, table)]
    return lines


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
    yield "| state | packets | result |"
    yield "| --- | --- | --- |"
    for state in states.State:
        outcomes: dict[str, list[str]] = {}
        for kind in states.KINDS:
            outcome = table[role, state, kind]
            if isinstance(outcome, states.State):
                text = "accepted" if outcome is state else f"accepted; then {outcome.value}"
            elif isinstance(outcome, states.Outcome):
                text = outcome.value
            else:
                text = f"violation: {outcome.rule}"
            outcomes.setdefault(text, []).append(kind)
        for text, kinds in outcomes.items():
            yield f"| {state.value} | {'all' if len(kinds) == len(states.KINDS) else ', '.join(kinds)} | {text} |"
