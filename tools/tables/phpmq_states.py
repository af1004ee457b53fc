"""docs/phpmq-connection.md: the states of a PHPMQ connection, drawn from the table of transitions."""

from __future__ import annotations

from types import ModuleType

from tables.states import states_page

INTRO = """
# The states of a PHPMQ connection

`phpmq.ClientConnection` and `phpmq.ServerConnection` keep to one table (`wirefmt/phpmq/states.py`): for each role, state and
kind of message it says which state follows, or which rule is broken. This page is drawn from that table. How to use the
connections: [connections.md](connections.md).

In the diagrams, `+` comes from the peer and `-` is what we send. A violation ends the connection without a word, since the
protocol has none. The early profile, which the existing PHP programs speak, has no re-queue and no dead letter: there these
are violations in every state."""


def phpmq_states_page(states: ModuleType) -> list[str]:
    return states_page(states, INTRO, "messages")
