"""docs/amqp091-connection.md: the states of an AMQP 0.9.1 connection and its channels, drawn from the tables of transitions."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

INTRO = """
# The states of an AMQP 0.9.1 connection

`amqp091.ClientConnection` and `amqp091.ServerConnection` keep to two tables (`wirefmt/amqp091/states.py`), one for the
connection and one for each of its channels: for each role, state and kind of frame they say which state follows, or which
rule is broken. This page is drawn from them. How to use the connections: [connections.md](connections.md).

In the diagrams, `+` is a frame that comes from the peer and `-` one that we send. Frames that change no state are in the
tables below them. A method with content counts once, when its content is complete.

A violation has a reply code. A client answers it with connection.close once start-ok has been sent. A server answers in state
idle with its protocol header, until the connection is open with connection.close if the client has announced
authentication_failure_close, and then always. 403, 404, 405 and 406 close the channel only; these come from the host and from
checks of arguments, which are not in the tables:

| what comes to a server | code |
| --- | --- |
| an acknowledgement of a delivery-tag that does not wait for one | 406 |
| confirm.select on a channel in tx mode, tx.select in confirm mode, tx.commit and tx.rollback without tx.select | 406 |
| a body larger than `message_size` | 406 |
| an empty queue name, and no queue declared on the channel | 404 |
| a consumer-tag in use; more channels than negotiated; tune-ok with values that tune does not allow | 530 |
| immediate; prefetch-size other than 0; recover without requeue; flow with active=0 | 540 |
| a content larger than `body_size`, frames that cannot be read | 501 |
| a frame that its channel does not expect: a content that begins, ends or is interrupted out of place | 505 |

Two more things end a connection in any state: the end of the stream, and a timer."""


def amqp091_states_page(states: ModuleType) -> list[str]:
    lines = INTRO.splitlines()
    for role in states.Role:
        for title, meanings, receives, sends, kinds, first in (
            ("connection", states.MEANINGS, states.RECEIVES, states.SENDS, states.KINDS, "idle"),
            (
                "channels",
                states.CHANNEL_MEANINGS,
                states.CHANNEL_RECEIVES,
                states.CHANNEL_SENDS,
                states.CHANNEL_KINDS,
                "unused",
            ),
        ):
            order = [state for whose, state in meanings if whose is role]
            lines += ["", f"## The {role.value}: {title}", "", "```mermaid"]
            lines += [*_diagram(states, role, order, receives, sends, first), "```", ""]
            lines += ["| state | meaning |", "| --- | --- |"]
            lines += [f"| {state.value} | {meanings[role, state]} |" for state in order]
            for heading, table in (("What comes from the peer", receives), ("What we send", sends)):
                lines += ["", f"### The {role.value}: {title}: {heading.lower()}", ""]
                lines += _table(states, role, order, table, kinds)
    return lines


def _diagram(states: ModuleType, role: Any, order: list[Any], receives: Any, sends: Any, first: str) -> Iterator[str]:
    """Transitions to another state, one arrow for each pair of states."""
    yield "stateDiagram-v2"
    yield f"    [*] --> {first}"
    arrows: dict[tuple[int, int], list[str]] = {}
    for sign, table in (("+", receives), ("-", sends)):
        for (whose, state, kind), after in table.items():
            if whose is role and type(after) is type(state) and after is not state:
                arrows.setdefault((order.index(state), order.index(after)), []).append(f"{sign} {kind}")
    for (before, after), kinds in sorted(arrows.items()):
        yield f"    {order[before].value} --> {order[after].value}: {'<br>'.join(kinds)}"
    if first == "idle":
        yield "    closed --> [*]"


def _table(states: ModuleType, role: Any, order: list[Any], table: Any, all_kinds: Any) -> Iterator[str]:
    yield "| state | frames | what becomes of them |"
    yield "| --- | --- | --- |"
    for state in order:
        outcomes: dict[str, list[str]] = {}
        for kind in all_kinds:
            outcome = table[role, state, kind]
            if type(outcome) is type(state):
                text = "taken" if outcome is state else f"taken; then {outcome.value}"
            elif isinstance(outcome, states.Outcome):
                text = outcome.value
            else:
                text = f"violation, {outcome.code}: {outcome.rule}"
            outcomes.setdefault(text, []).append(kind)
        for text, kinds in outcomes.items():
            yield f"| {state.value} | {'all' if len(kinds) == len(all_kinds) else ', '.join(kinds)} | {text} |"
