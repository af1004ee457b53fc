"""What may be said when: the states of an MQTT connection, and the table of their transitions.

The table has every role, state and kind of packet, for what comes from the peer (RECEIVES) and for what we send
(SENDS). The diagrams of docs/mqtt-connection.md are drawn from it. Sections are those of MQTT 5.0.
"""

from __future__ import annotations

import enum
from typing import Final

from wirefmt.connection.states import Outcome, Role, Violation, each, rows


class State(enum.Enum):
    """States of a connection, the same in both roles."""

    IDLE = "idle"
    CONNECTING = "connecting"
    AUTHENTICATING = "authenticating"
    CONNECTED = "connected"
    REAUTHENTICATING = "reauthenticating"
    CLOSED = "closed"


#: What a state means in each role.
MEANINGS: Final[dict[tuple[Role, State], str]] = {
    (Role.CLIENT, State.IDLE): "no CONNECT has been sent",
    (Role.CLIENT, State.CONNECTING): "CONNECT has been sent, CONNACK is awaited",
    (Role.CLIENT, State.AUTHENTICATING): "the server has sent AUTH, CONNACK is awaited",
    (Role.CLIENT, State.CONNECTED): "the server has accepted",
    (Role.CLIENT, State.REAUTHENTICATING): "connected, and a re-authentication is running",
    (Role.CLIENT, State.CLOSED): "the connection is over; what still comes is dropped",
    (Role.SERVER, State.IDLE): "no CONNECT has arrived",
    (Role.SERVER, State.CONNECTING): "the host decides about CONNECT or AUTH; what follows stays unread",
    (Role.SERVER, State.AUTHENTICATING): "AUTH has been sent, the client's AUTH is awaited",
    (Role.SERVER, State.CONNECTED): "the client has been accepted",
    (Role.SERVER, State.REAUTHENTICATING): "connected, and a re-authentication is running",
    (Role.SERVER, State.CLOSED): "the connection is over; what still comes is dropped",
}


#: Kinds of packets. CONNACK and AUTH differ by their codes, since these lead to different states.
KINDS: Final[tuple[str, ...]] = (
    "CONNECT",
    "CONNACK accepted",
    "CONNACK refused",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "PINGREQ",
    "PINGRESP",
    "DISCONNECT",
    "AUTH success",
    "AUTH continue",
    "AUTH re-authenticate",
)

FLOWS: Final = ("PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP")
REQUESTS: Final = ("SUBSCRIBE", "UNSUBSCRIBE", "PINGREQ")
ANSWERS: Final = ("SUBACK", "UNSUBACK", "PINGRESP")

Transition = State | Outcome | Violation
Table = dict[tuple[Role, State, str], Transition]

CLIENT, SERVER = Role.CLIENT, Role.SERVER
IDLE, CONNECTING, AUTHENTICATING = State.IDLE, State.CONNECTING, State.AUTHENTICATING
CONNECTED, REAUTHENTICATING, CLOSED = State.CONNECTED, State.REAUTHENTICATING, State.CLOSED


def _rows(
    role: Role, state: State, legal: dict[str, Transition], otherwise: Transition, **special: Transition
) -> Table:
    """The rows of one state: `legal`, then `special` by the first word of the kind, then `otherwise`."""
    of_word = {kind: special[word] for kind in KINDS if (word := kind.split()[0].lower()) in special}
    return rows(role, state, KINDS, of_word | legal, otherwise)


_BY_SERVER = Violation("only a server sends this packet (2.1.2)")
_BY_CLIENT = Violation("only a client sends this packet (2.1.2)")
_NO_EXCHANGE = Violation("no authentication exchange is running (4.12)")

#: What comes from the peer.
RECEIVES: Final[Table] = {
    **_rows(SERVER, IDLE, {"CONNECT": CONNECTING}, Violation("the first packet is CONNECT [MQTT-3.1.0-1]")),
    **_rows(SERVER, CONNECTING, {}, Outcome.UNREAD),
    **_rows(
        SERVER,
        AUTHENTICATING,
        {"AUTH continue": CONNECTING, "DISCONNECT": CLOSED},
        Violation("until CONNACK a client sends AUTH or DISCONNECT [MQTT-3.1.2-30]"),
    ),
    **_rows(
        SERVER,
        CONNECTED,
        {
            **each(CONNECTED, *FLOWS, *REQUESTS),
            "DISCONNECT": CLOSED,
            "AUTH re-authenticate": REAUTHENTICATING,
        },
        _BY_SERVER,
        connect=Violation("a second CONNECT [MQTT-3.1.0-2]"),
        auth=_NO_EXCHANGE,
    ),
    **_rows(
        SERVER,
        REAUTHENTICATING,
        {
            **each(REAUTHENTICATING, *FLOWS, *REQUESTS, "AUTH continue"),
            "DISCONNECT": CLOSED,
        },
        _BY_SERVER,
        connect=Violation("a second CONNECT [MQTT-3.1.0-2]"),
        auth=Violation("the exchange goes on with AUTH 0x18 [MQTT-4.12.0-3]"),
    ),
    **_rows(SERVER, CLOSED, {}, Outcome.DROPPED),
    **_rows(CLIENT, IDLE, {}, Violation("a server says nothing before CONNECT (3.1)")),
    **_rows(
        CLIENT,
        CONNECTING,
        {"CONNACK accepted": CONNECTED, "CONNACK refused": CLOSED, "AUTH continue": AUTHENTICATING},
        Violation("before CONNACK a server sends AUTH only [MQTT-3.2.0-1]"),
        auth=Violation("AUTH before CONNACK has code 0x18 [MQTT-4.12.0-2]"),
        disconnect=Violation("no DISCONNECT before CONNACK [MQTT-3.14.0-1]"),
    ),
    **_rows(
        CLIENT,
        AUTHENTICATING,
        {"CONNACK accepted": CONNECTED, "CONNACK refused": CLOSED, "AUTH continue": AUTHENTICATING},
        Violation("before CONNACK a server sends AUTH only [MQTT-3.2.0-1]"),
        auth=Violation("AUTH before CONNACK has code 0x18 [MQTT-4.12.0-2]"),
        disconnect=Violation("no DISCONNECT before CONNACK [MQTT-3.14.0-1]"),
    ),
    **_rows(
        CLIENT,
        CONNECTED,
        {**each(CONNECTED, *FLOWS, *ANSWERS), "DISCONNECT": CLOSED},
        _BY_CLIENT,
        connack=Violation("a second CONNACK [MQTT-3.2.0-2]"),
        auth=_NO_EXCHANGE,
    ),
    **_rows(
        CLIENT,
        REAUTHENTICATING,
        {
            **each(REAUTHENTICATING, *FLOWS, *ANSWERS, "AUTH continue"),
            "AUTH success": CONNECTED,
            "DISCONNECT": CLOSED,
        },
        _BY_CLIENT,
        connack=Violation("a second CONNACK [MQTT-3.2.0-2]"),
        auth=Violation("only a client asks for re-authentication (4.12.1)"),
    ),
    **_rows(CLIENT, CLOSED, {}, Outcome.DROPPED),
}

_OVER = Violation("the connection is over")
_NOT_YET = Violation("CONNACK has not been sent [MQTT-3.2.0-1]")
_FIRST_CONNECT = Violation("the first packet is CONNECT [MQTT-3.1.0-1]")
_AWAIT_CONNACK = Violation("CONNACK has not arrived: this packet could break a limit of the server (3.1.4)")

#: What we send. DISCONNECT and the refusing CONNACK end the connection.
SENDS: Final[Table] = {
    **_rows(CLIENT, IDLE, {"CONNECT": CONNECTING}, _FIRST_CONNECT),
    **_rows(
        CLIENT,
        CONNECTING,
        {"DISCONNECT": CLOSED},
        _AWAIT_CONNACK,
        connect=Violation("a second CONNECT [MQTT-3.1.0-2]"),
    ),
    **_rows(
        CLIENT,
        AUTHENTICATING,
        {"DISCONNECT": CLOSED, "AUTH continue": AUTHENTICATING},
        _AWAIT_CONNACK,
        connect=Violation("a second CONNECT [MQTT-3.1.0-2]"),
    ),
    **_rows(
        CLIENT,
        CONNECTED,
        {
            **each(CONNECTED, *FLOWS, *REQUESTS),
            "DISCONNECT": CLOSED,
            "AUTH re-authenticate": REAUTHENTICATING,
        },
        _BY_SERVER,
        connect=Violation("a second CONNECT [MQTT-3.1.0-2]"),
        auth=_NO_EXCHANGE,
    ),
    **_rows(
        CLIENT,
        REAUTHENTICATING,
        {**each(REAUTHENTICATING, *FLOWS, *REQUESTS, "AUTH continue"), "DISCONNECT": CLOSED},
        _BY_SERVER,
        connect=Violation("a second CONNECT [MQTT-3.1.0-2]"),
        auth=Violation("an exchange is running (4.12.1)"),
    ),
    **_rows(CLIENT, CLOSED, {}, _OVER),
    **_rows(
        SERVER,
        IDLE,
        {"CONNACK refused": CLOSED},
        Violation("no CONNECT has arrived [MQTT-3.1.0-1]"),
    ),
    **_rows(
        SERVER,
        CONNECTING,
        {"CONNACK accepted": CONNECTED, "CONNACK refused": CLOSED, "AUTH continue": AUTHENTICATING},
        _NOT_YET,
    ),
    **_rows(SERVER, AUTHENTICATING, {"CONNACK refused": CLOSED}, _NOT_YET),
    **_rows(
        SERVER,
        CONNECTED,
        {**each(CONNECTED, *FLOWS, *ANSWERS), "DISCONNECT": CLOSED},
        _BY_CLIENT,
        connack=Violation("a second CONNACK [MQTT-3.2.0-2]"),
        auth=_NO_EXCHANGE,
    ),
    **_rows(
        SERVER,
        REAUTHENTICATING,
        {
            **each(REAUTHENTICATING, *FLOWS, *ANSWERS, "AUTH continue"),
            "AUTH success": CONNECTED,
            "DISCONNECT": CLOSED,
        },
        _BY_CLIENT,
        connack=Violation("a second CONNACK [MQTT-3.2.0-2]"),
        auth=Violation("only a client asks for re-authentication (4.12.1)"),
    ),
    **_rows(SERVER, CLOSED, {}, _OVER),
}
