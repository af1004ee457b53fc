"""Options of MQTT connections, what they negotiate, their events other than packets, and reason codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from wirefmt import mqtt
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.errors import LocalProtocolError, RemoteProtocolError, check_choice
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.session import NEVER, Delivery
from wirefmt.mqtt.spec import CHECKS

Pairs = Iterable[tuple[str, Any]]
Event = Any
Asked = mqtt.Subscribe | mqtt.Unsubscribe

#: The largest packet there can be: a fixed header of 5 bytes and the largest Remaining Length (1.5.5).
LARGEST_PACKET: Final = 268_435_460

Qos2Event = Literal["publish", "release"]

#: Properties of CONNACK that say what the server offers (3.2.2.3).
_OFFERS: Final = {
    "maximum_qos",
    "retain_available",
    "wildcard_subscription_available",
    "subscription_identifiers_available",
    "shared_subscription_available",
    "response_information",
}

#: There is no flow of QoS 3.
_SKIPPABLE = [[row.name] for row in CHECKS if row.lax and row.name != "PUBLISH_QOS"]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Limits and times of one connection. What a peer can make us remember is bounded by them.

    Attributes:
        receive_maximum: QoS 1 and 2 messages of the peer that may be unfinished (5.0; announced in CONNECT or CONNACK).
        topic_alias_maximum: aliases the peer may set, each a topic to remember (5.0; announced). 0: none.
        topic_aliases: topics that we send with an alias, as far as the peer allows aliases (5.0): from the second message on such
            a topic is two bytes long. 0: none. None: a client none, a server as many as its client has asked for. An alias that
            the host chooses, as a property of a message, needs no option.
        packet_size: bytes of a packet of the peer (announced in 5.0). LARGEST_PACKET: no limit of ours.
        elements: properties, filters and codes in one packet.
        undecided: requests, and before 5.0 also QoS 1 and 2 messages, that may wait for an answer of the host before
            reading stops.
        unread_bytes: bytes kept while we do not read. A driver that reads on although `wants_read` is False meets it.
        pending_bytes: bytes queued for the peer. `send` refuses above it.
        outgoing_bytes: of QoS 1 and 2 messages that we have sent and the peer has not acknowledged: no further one is sent then
            (`send_quota` is 0), however many Receive Maximum allows.
        released_bytes: with `qos2_event="release"`: bytes of messages that wait for PUBREL.
        connect_timeout: seconds until CONNECT (server) or CONNACK (client) must have arrived.
        authentication_timeout: seconds until the peer's next AUTH must have arrived.
        answer_timeout: seconds that a client waits for any byte after PINGREQ.
        control_characters: False: control characters and noncharacters in topics, filters and Client Identifiers are
            faults. The standard lets a receiver choose (1.5.4).
        tolerate: violations in packets that are accepted, each as the packet's name and the name of a check of
            `wirefmt.mqtt.spec.CHECKS` that LAX skips: "UNSUBACK UNSUBACK_EMPTY".
        automatic: True: QoS 1 and 2 messages are acknowledged without the host.
        journaled: True: a session that the connection makes is journaled (see `Session`).
        qos2_event: "publish": a QoS 2 message is the host's at PUBLISH. "release": the host decides at PUBLISH, and a
            `Released` event comes at PUBREL (4.3.3 allows both).
        copies: QoS 2 PUBLISHes of one identifier and content that are taken before PUBREL; one more is a fault, as mosquitto
            has it. 0: any number [MQTT-4.3.3-10].
    """

    receive_maximum: int = 1024
    topic_alias_maximum: int = 0
    topic_aliases: int | None = None
    packet_size: int = 1 << 24
    elements: int = 10_000
    undecided: int = 1024
    unread_bytes: int = 1 << 20
    pending_bytes: int = 1 << 26
    outgoing_bytes: int = 1 << 26
    released_bytes: int = 1 << 24
    connect_timeout: float = 30.0
    authentication_timeout: float = 30.0
    answer_timeout: float = 10.0
    control_characters: bool = True
    tolerate: frozenset[str] = frozenset()
    automatic: bool = False
    journaled: bool = False
    qos2_event: Qos2Event = "publish"
    copies: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("receive_maximum", 1, 65535),
            ("topic_alias_maximum", 0, 65535),
            ("topic_aliases", 0, 65535),
            ("packet_size", 16, LARGEST_PACKET),
            ("undecided", 1, 65535),
        ):
            value = getattr(self, name)
            if not (value is None and name == "topic_aliases") and not least <= value <= most:
                raise ValueError(f"{name} is a number of {least} to {most}, not {value!r}")
        check_choice("qos2_event", self.qos2_event, Qos2Event)
        for fault in self.tolerate:
            if fault.split(" ")[1:] not in _SKIPPABLE:
                raise ValueError(f"{fault!r} is not a packet's name and the name of a check that can be skipped")


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What CONNECT and CONNACK have agreed on. Limits are those that we have to keep.

    Attributes:
        version: 3, 4, 5: MQTT 3.1, 3.1.1, 5.0.
        client_identifier: the client's, perhaps assigned by the server.
        keep_alive: seconds; 0: none.
        session_expiry_interval: seconds; NEVER.
        receive_maximum: QoS 1 and 2 messages we may have unfinished.
        maximum_packet_size: bytes of a packet we may send.
        topic_alias_maximum: aliases we may set.
        maximum_qos, retain_available, wildcard_subscription_available, subscription_identifiers_available,
            shared_subscription_available: what the server offers. The client keeps to it.
        response_information: what Response Topics begin with (4.10.1); "": the server has not said.
    """

    version: int
    client_identifier: str
    keep_alive: int
    session_expiry_interval: int
    receive_maximum: int = 65535
    maximum_packet_size: int = LARGEST_PACKET
    topic_alias_maximum: int = 0
    maximum_qos: int = 2
    retain_available: bool = True
    wildcard_subscription_available: bool = True
    subscription_identifiers_available: bool = True
    shared_subscription_available: bool = True
    response_information: str = ""


@dataclass(frozen=True, slots=True)
class Released:
    """PUBREL has arrived for a QoS 2 message of the peer. Only with `qos2_event="release"`; PUBCOMP is queued."""

    message: mqtt.Publish


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message of a resumed session is larger than this peer accepts. It is not sent again, and its handle is finished.

    A server behaves as if it had been delivered [MQTT-3.1.2-25].
    """

    handle: Delivery


class Request:
    """The handle of a SUBSCRIBE or UNSUBSCRIBE."""

    __slots__ = ("message", "number", "packet_identifier")

    def __init__(self, number: int, packet_identifier: int, message: Asked) -> None:
        self.number = number
        self.packet_identifier = packet_identifier
        self.message = message

    def __repr__(self) -> str:
        return f"<Request {self.number}: packet identifier {self.packet_identifier}>"


def find(properties: Pairs, name: str, default: Any = None) -> Any:
    """The value of a property, or `default`."""
    if isinstance(properties, mqtt.Properties):
        return properties.get(name, default)
    return next((value for key, value in properties if key == name), default)


def without(properties: Pairs, *names: str) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for name, value in properties if name not in names)


def connect_limits(properties: Pairs) -> dict[str, Any]:
    """Limits that CONNECT and CONNACK announce alike."""
    names = ("receive_maximum", "maximum_packet_size", "topic_alias_maximum")
    return {name: value for name, value in properties if name in names}


def agreed(connect: mqtt.Connect, identifier: str, connack: Pairs, peer: Pairs) -> Negotiated:
    """What CONNECT and CONNACK agree on.

    Args:
        identifier: the Client Identifier.
        connack: properties of CONNACK: what the server offers.
        peer: properties of the one that the peer has sent: what we may send.
    """
    if connect.version == 5:
        expiry = find(connack, "session_expiry_interval", find(connect.properties, "session_expiry_interval", 0))
    else:
        expiry = 0 if connect.clean_start else NEVER
    keep_alive = find(connack, "server_keep_alive", connect.keep_alive)  # [MQTT-3.1.2-21]
    offers: dict[str, Any] = {
        name: bool(value) if name.endswith("available") else value for name, value in connack if name in _OFFERS
    }
    return Negotiated(connect.version, identifier, keep_alive, expiry, **connect_limits(peer), **offers)


def check_subscriptions(
    message: mqtt.Subscribe, negotiated: Negotiated, error: type[LocalProtocolError | RemoteProtocolError]
) -> None:
    """What the server has announced it does not offer (3.2.2.3.11 to 3.2.2.3.13)."""
    if not negotiated.subscription_identifiers_available and find(message.properties, "subscription_identifier"):
        raise error("no Subscription Identifiers (3.2.2.3.12)", reply=ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED)
    if negotiated.wildcard_subscription_available and negotiated.shared_subscription_available:
        return
    for subscription in message.subscriptions:
        topic_filter = subscription.topic_filter
        shared = negotiated.version == 5 and topic_filter.startswith("$share/")
        if shared and not negotiated.shared_subscription_available:
            raise error("no shared subscriptions (3.2.2.3.13)", reply=ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED)
        if not negotiated.wildcard_subscription_available and ("#" in topic_filter or "+" in topic_filter):
            raise error(
                "no wildcards in subscriptions (3.2.2.3.11)", reply=ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
            )


def announced(properties: Pairs, options: ConnectionOptions) -> tuple[tuple[str, Any], ...]:
    """Properties of CONNECT or CONNACK, with our limits added. The host may not give others."""
    given = connect_limits(properties)
    if given:
        raise LocalProtocolError(f"{', '.join(given)}: set by ConnectionOptions")
    ours: list[tuple[str, Any]] = []
    if options.topic_alias_maximum:
        ours.append(("topic_alias_maximum", options.topic_alias_maximum))
    if options.packet_size < LARGEST_PACKET:
        ours.append(("maximum_packet_size", options.packet_size))
    if options.receive_maximum < 65535:
        ours.append(("receive_maximum", options.receive_maximum))
    return (*properties, *ours)


#: What a client's connection returns as events, and what a server's does.
ClientEvent = (
    mqtt.Publish
    | mqtt.Auth
    | mqtt.Pingresp
    | Acknowledged
    | Connected
    | Dropped
    | Released
    | WindowOpened
    | Disconnected
)
ServerEvent = (
    mqtt.Connect
    | mqtt.Auth
    | mqtt.Publish
    | Asked
    | Acknowledged
    | Connected
    | Dropped
    | Released
    | WindowOpened
    | Disconnected
)
