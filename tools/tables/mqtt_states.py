"""docs/mqtt-connection.md: the states of an MQTT connection, drawn from the table of transitions."""

from __future__ import annotations

from types import ModuleType

from tables.states import states_page

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
    return states_page(states, INTRO, "packets")
