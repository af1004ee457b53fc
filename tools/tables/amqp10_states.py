"""docs/amqp10-connection.md: the states of AMQP 1.0, drawn from the tables of transitions."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tables.states import Machine, diagram, meanings, transitions

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
        lines += ["", f"## {level.title}", "", *meanings(_machine(level, next(iter(level.roles)), states))]
        for role in _different(level):
            machine = _machine(level, role, states)
            if len(_different(level)) > 1:
                lines += ["", f"### The {role.value} of {level.title[0].lower()}{level.title[1:]}"]
            lines += ["", "```mermaid", *diagram(machine), "```"]
            for title, table in (("The peer sends", machine.receives), ("We send", machine.sends)):
                lines += ["", f"{title}:", "", *transitions(machine, table)]
    return lines


def _machine(level: Any, role: Any, states: ModuleType) -> Machine:
    return Machine(
        role,
        list(level.states),
        states.MEANINGS,
        level.receives,
        level.sends,
        level.last,
        kinds="performatives",
        reply="reply",
    )


def _different(level: Any) -> list[Any]:
    """The roles of a level, without those whose rows are equal to an earlier role's."""
    found: dict[tuple[Any, ...], Any] = {}
    for role in level.roles:
        rows = tuple(
            table[role, state, kind]
            for table in (level.receives, level.sends)
            for state in level.states
            for kind in level.kinds
        )
        found.setdefault(rows, role)
    return list(found.values())
