"""docs/nsq-connection.md: the states of an NSQ connection, drawn from the table of transitions."""

from __future__ import annotations

from types import ModuleType

from tables.states import states_page

INTRO = """
# The states of an NSQ connection

`nsq.ClientConnection` and `nsq.ServerConnection` keep to one table (`wirefmt/nsq/states.py`): for each role, state and kind
of command or frame it says which state follows, or which rule is broken. This page is drawn from that table. How to use the
connections: [connections.md](connections.md).

In the diagrams, `+` comes from the peer and `-` is what we send. What changes no state is in the tables below them. A
violation ends the connection: a server says the error code that nsqd says, E_INVALID or for the first bytes E_BAD_PROTOCOL; a
client has no word for it and closes. Three more things end a connection in any state: a fault in a command (with the code
that nsqd has for it), the end of the stream, and a timer.

- A client sends the magic before its first command by itself, and a NOP for every heartbeat.
- When IDENTIFY is answered by JSON that says `tls_v1`, both sides are securing: the connection gives `StartTls`, the driver
  does the handshake and calls `secured`, and the server says OK under TLS. Compression is switched on after that, and OK
  follows under it. A server throws away what a client has sent after such an IDENTIFY without waiting, as nsqd does.
- E_FIN_FAILED, E_REQ_FAILED and E_TOUCH_FAILED are the errors that are not fatal: the message is not in flight any more.
- Responses come in the order of their commands. A client has a violation if there is no command that awaits one."""


def nsq_states_page(states: ModuleType) -> list[str]:
    return states_page(states, INTRO, "commands and frames")
