"""docs/mqtt-connection.md: the states of an MQTT connection, drawn from the table of transitions."""

from __future__ import annotations

from types import ModuleType

from tables.states import states_page

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
    return states_page(states, INTRO, "packets")
