"""Policies and limits of the MQTT broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from wirefmt import mqtt
from wirefmt.broker.permissions import Permissions
from wirefmt.errors import check_choice
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.server import Peer
from wirefmt.mqtt.session import NEVER

#: Where bridges say whether they are connected.
BRIDGES: Final = "$SYS/broker/connection/+/state"

#: Topics of the server, and what looks like a shared subscription. Clients do not publish there, those of AMQP neither.
RESERVED: Final = ("$SYS/", "$share/")

Overlap = Literal["merged", "each"]
Overflow = Literal["drop_oldest", "refuse", "disconnect"]
Full = Literal["refuse", "drop_oldest"]
Qos = Literal[0, 1, 2]


def default_authorise(client: str, deed: str, topic: str) -> int:
    """Everything but publishing where topics are the server's, or where shared filters look like topics. A bridge may say there
    whether it is connected, as with mosquitto."""
    if deed == "subscribe" or not topic.startswith(RESERVED):
        return 0
    return 0 if mqtt.matches(BRIDGES, topic) else ReasonCode.NOT_AUTHORIZED


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Policies and limits of a broker. What clients can make it remember is bounded by them.

    Attributes:
        overlap: a client with several filters that match a message gets "merged": one copy with the highest QoS and all
            Subscription Identifiers, or "each": a copy for each subscription (3.3.4 allows both).
        memory: bytes of all that is kept: sessions, subscriptions, wills, queued and retained messages, with what an entry costs.
            Beyond it a CONNECT, a SUBSCRIBE and a retained message are refused with 0x97, and so is a message that has to wait
            (`overflow="refuse"`), or it is dropped.
        queue_messages, queue_bytes: what may wait for one client.
        overflow: what happens when a queue is full. "drop_oldest": its oldest messages are dropped. "refuse": a message of QoS
            1 or 2 is refused with 0x97 and goes to nobody; before 5.0 and with QoS 0 the new message is dropped, and so are
            retained messages for a new subscription, messages from AMQP, and those of a shared subscription.
            "disconnect": the slow client is disconnected with 0x97; for a client that is away the new message is dropped.
        retain_available: False: no message is retained. In 5.0 CONNACK says so, and one with RETAIN is a fault of its client;
            before 5.0 it is delivered.
        retained_messages, retained_bytes: of all retained messages. Bytes include topic, properties and what an entry costs.
        client_share, user_share: the part of `memory`, `retained_messages` and `retained_bytes` that one client, and one user,
            may have, and of `sessions` that one user may have (`wirefmt.broker.shares`); what exceeds it is refused. A message is
            its publisher's.
        retained_overflow: what happens to a retained message that exceeds them. "refuse": with 0x97. "drop_oldest": topics
            whose message has been retained longest lose it.
        sessions: sessions of clients, connected or not.
        sessions_overflow: what happens to a CONNECT that exceeds them. "refuse": with 0x97. "drop_oldest": the session that
            has been without a connection longest ends; if all are connected, it is refused.
        subscriptions: of one client. Further ones are refused with 0x97.
        topic_levels: of a topic (more are refused with 0x90) or a filter (0x8F), as in mosquitto.
        session_expiry: seconds; sessions live no longer without a connection. In 5.0 CONNACK says so.
        maximum_keep_alive: seconds, in place of a longer Keep Alive of a client, or of none (5.0); None: the client's.
        maximum_qos: the highest QoS that is granted and (5.0) accepted.
        sys_interval: seconds after which the broker's figures are published again below `$SYS`, while somebody subscribes to
            them. 0: never.
        authenticate: called with CONNECT and the peer; returns a reason code of CONNACK, 0 to accept. It may be a coroutine
            function. With it, a session belongs to the user name of the client that began it.
        authorise: called with the Client Identifier, "publish", "subscribe" or "will", and the topic or filter; returns 0, or
            the reason code to refuse with, as 0x87.
        permissions: what the users may do besides; None: everything.
    """

    overlap: Overlap = "merged"
    memory: int = 1 << 30
    queue_messages: int = 1000
    queue_bytes: int = 1 << 24
    overflow: Overflow = "drop_oldest"
    retain_available: bool = True
    retained_messages: int = 100_000
    retained_bytes: int = 1 << 28
    client_share: float = 0.25
    user_share: float = 0.5
    retained_overflow: Full = "refuse"
    sessions: int = 100_000
    sessions_overflow: Full = "refuse"
    subscriptions: int = 10_000
    topic_levels: int = 200
    session_expiry: int = NEVER
    maximum_keep_alive: int | None = None
    maximum_qos: Qos = 2
    sys_interval: float = 10.0
    authenticate: Callable[[mqtt.Connect, Peer], int | Awaitable[int]] | None = None
    authorise: Callable[[str, str, str], int] = default_authorise
    permissions: Permissions | None = None

    def __post_init__(self) -> None:
        check_choice("overlap", self.overlap, Overlap)
        check_choice("overflow", self.overflow, Overflow)
        check_choice("retained_overflow", self.retained_overflow, Full)
        check_choice("sessions_overflow", self.sessions_overflow, Full)
        check_choice("maximum_qos", self.maximum_qos, Qos)
