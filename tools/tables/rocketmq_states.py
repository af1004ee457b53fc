"""docs/rocketmq-connection.md: the states of a RocketMQ connection, drawn from the table of transitions."""

from __future__ import annotations

from types import ModuleType

from tables.states import states_page

INTRO = """
# The states of a RocketMQ connection

`rocketmq.ClientConnection` and `rocketmq.ServerConnection` keep to one table (`wirefmt/rocketmq/states.py`): for each role,
state and kind of input it says which state follows, or which rule is broken. This page is drawn from that table. How to use
the connections: [connections.md](connections.md).

In the diagrams, `+` is what comes from the peer and `-` what we send. What changes no state is in the tables below them. A
violation ends the connection without a word: the protocol has no message for it. Calls of the host are drawn without a sign.
Draining ends with the last answer and the last response, or with its time. What is refused gets GO_AWAY (1500), or
SERVICE_NOT_AVAILABLE (14) if the client is older than 5.3.2. The end of the stream ends a connection in any
state.

A TLS preface is a first byte of 0x16, and a violation unless the option `tls` allows it. A PROXY preface needs the option
`proxy`. With `tls="enforcing"` a frame outside TLS is a violation."""


def rocketmq_states_page(states: ModuleType) -> list[str]:
    return states_page(states, INTRO, "inputs")
