"""Names and numbers of MQTT 3.1, 3.1.1 and 5.0, one literal table for each table of the specifications.

Sources: MQTT 5.0 (OASIS, 7 March 2019), MQTT 3.1.1 (OASIS, 29 October 2014), MQTT 3.1 (IBM and Eurotech, 2010).
Versions are named by their protocol level: 3 is MQTT 3.1, 4 is 3.1.1, 5 is 5.0.

The C tables of the compiled core are generated from this module: after a change run `python tools/gen_tables.py`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

VERSIONS: Final[dict[int, str]] = {3: "3.1", 4: "3.1.1", 5: "5.0"}

#: Protocol Name of each version: 3.1 section 2.2; 3.1.1 and 5.0 section 3.1.2.1.
PROTOCOL_NAMES: Final[dict[int, str]] = {3: "MQIsdp", 4: "MQTT", 5: "MQTT"}


class PacketType(NamedTuple):
    """A row of table 2-1 of 5.0 (3.1 section 2.1, 3.1.1 table 2.1) with its flags of table 2-2."""

    number: int
    name: str
    sender: str  # client, server, both
    flags: int | None  # value of the four flag bits; None: they have a meaning
    flags_check: str  # the row of CHECKS for other flags
    section: str  # of 5.0; the same number in 3.1.1 and 3.1
    first_version: int = 3


PACKET_TYPES: Final[tuple[PacketType, ...]] = (
    PacketType(1, "CONNECT", "client", 0b0000, "FLAGS_RESERVED", "3.1"),
    PacketType(2, "CONNACK", "server", 0b0000, "FLAGS_RESERVED", "3.2"),
    PacketType(3, "PUBLISH", "both", None, "PUBLISH_QOS", "3.3"),
    PacketType(4, "PUBACK", "both", 0b0000, "FLAGS_RESERVED", "3.4"),
    PacketType(5, "PUBREC", "both", 0b0000, "FLAGS_RESERVED", "3.5"),
    PacketType(6, "PUBREL", "both", 0b0010, "FLAGS_PUBREL", "3.6"),
    PacketType(7, "PUBCOMP", "both", 0b0000, "FLAGS_RESERVED", "3.7"),
    PacketType(8, "SUBSCRIBE", "client", 0b0010, "FLAGS_SUBSCRIBE", "3.8"),
    PacketType(9, "SUBACK", "server", 0b0000, "FLAGS_RESERVED", "3.9"),
    PacketType(10, "UNSUBSCRIBE", "client", 0b0010, "FLAGS_UNSUBSCRIBE", "3.10"),
    PacketType(11, "UNSUBACK", "server", 0b0000, "FLAGS_RESERVED", "3.11"),
    PacketType(12, "PINGREQ", "client", 0b0000, "FLAGS_RESERVED", "3.12"),
    PacketType(13, "PINGRESP", "server", 0b0000, "FLAGS_RESERVED", "3.13"),
    PacketType(14, "DISCONNECT", "both", 0b0000, "FLAGS_DISCONNECT", "3.14"),
    PacketType(15, "AUTH", "both", 0b0000, "FLAGS_AUTH", "3.15", first_version=5),
)


class Property(NamedTuple):
    """A row of table 2-4 of 5.0 (2.2.2.2), with the section that describes it in each packet that may have it."""

    identifier: int
    name: str
    type: str  # byte, two, four, varint, string, binary, pair
    rule: str  # "", boolean (0 or 1), non_zero, topic (names a topic): a row of PROPERTY_RULES
    sections: dict[str, str]  # packet (WILL: will properties) -> section
    repeats_in: tuple[str, ...] = ()  # packets where it may occur more than once


#: The section on properties of each packet of 5.0; WILL is the will properties of CONNECT.
PROPERTY_SECTIONS: Final[dict[str, str]] = {
    "WILL": "3.1.3.2",
    "CONNECT": "3.1.2.11",
    "CONNACK": "3.2.2.3",
    "PUBLISH": "3.3.2.3",
    "PUBACK": "3.4.2.2",
    "PUBREC": "3.5.2.2",
    "PUBREL": "3.6.2.2",
    "PUBCOMP": "3.7.2.2",
    "SUBSCRIBE": "3.8.2.1",
    "SUBACK": "3.9.2.1",
    "UNSUBSCRIBE": "3.10.2.1",
    "UNSUBACK": "3.11.2.1",
    "DISCONNECT": "3.14.2.2",
    "AUTH": "3.15.2.2",
}

PROPERTIES: Final[tuple[Property, ...]] = (
    Property(1, "payload_format_indicator", "byte", "", {"PUBLISH": "3.3.2.3.2", "WILL": "3.1.3.2.3"}),
    Property(2, "message_expiry_interval", "four", "", {"PUBLISH": "3.3.2.3.3", "WILL": "3.1.3.2.4"}),
    Property(3, "content_type", "string", "", {"PUBLISH": "3.3.2.3.9", "WILL": "3.1.3.2.5"}),
    Property(8, "response_topic", "string", "topic", {"PUBLISH": "3.3.2.3.5", "WILL": "3.1.3.2.6"}),
    Property(9, "correlation_data", "binary", "", {"PUBLISH": "3.3.2.3.6", "WILL": "3.1.3.2.7"}),
    Property(
        11,
        "subscription_identifier",
        "varint",
        "non_zero",
        {"PUBLISH": "3.3.2.3.8", "SUBSCRIBE": "3.8.2.1.2"},
        repeats_in=("PUBLISH",),
    ),
    Property(
        17,
        "session_expiry_interval",
        "four",
        "",
        {"CONNECT": "3.1.2.11.2", "CONNACK": "3.2.2.3.2", "DISCONNECT": "3.14.2.2.2"},
    ),
    Property(18, "assigned_client_identifier", "string", "", {"CONNACK": "3.2.2.3.7"}),
    Property(19, "server_keep_alive", "two", "", {"CONNACK": "3.2.2.3.14"}),
    Property(
        21,
        "authentication_method",
        "string",
        "",
        {"CONNECT": "3.1.2.11.9", "CONNACK": "3.2.2.3.17", "AUTH": "3.15.2.2.2"},
    ),
    Property(
        22,
        "authentication_data",
        "binary",
        "",
        {"CONNECT": "3.1.2.11.10", "CONNACK": "3.2.2.3.18", "AUTH": "3.15.2.2.3"},
    ),
    Property(23, "request_problem_information", "byte", "boolean", {"CONNECT": "3.1.2.11.7"}),
    Property(24, "will_delay_interval", "four", "", {"WILL": "3.1.3.2.2"}),
    Property(25, "request_response_information", "byte", "boolean", {"CONNECT": "3.1.2.11.6"}),
    Property(26, "response_information", "string", "", {"CONNACK": "3.2.2.3.15"}),
    Property(28, "server_reference", "string", "", {"CONNACK": "3.2.2.3.16", "DISCONNECT": "3.14.2.2.5"}),
    Property(
        31,
        "reason_string",
        "string",
        "",
        {
            "CONNACK": "3.2.2.3.9",
            "PUBACK": "3.4.2.2.2",
            "PUBREC": "3.5.2.2.2",
            "PUBREL": "3.6.2.2.2",
            "PUBCOMP": "3.7.2.2.2",
            "SUBACK": "3.9.2.1.2",
            "UNSUBACK": "3.11.2.1.2",
            "DISCONNECT": "3.14.2.2.3",
            "AUTH": "3.15.2.2.4",
        },
    ),
    Property(33, "receive_maximum", "two", "non_zero", {"CONNECT": "3.1.2.11.3", "CONNACK": "3.2.2.3.3"}),
    Property(34, "topic_alias_maximum", "two", "", {"CONNECT": "3.1.2.11.5", "CONNACK": "3.2.2.3.8"}),
    Property(35, "topic_alias", "two", "non_zero", {"PUBLISH": "3.3.2.3.4"}),
    Property(36, "maximum_qos", "byte", "boolean", {"CONNACK": "3.2.2.3.4"}),
    Property(37, "retain_available", "byte", "boolean", {"CONNACK": "3.2.2.3.5"}),
    Property(
        38,
        "user_property",
        "pair",
        "",
        {
            "WILL": "3.1.3.2.8",
            "CONNECT": "3.1.2.11.8",
            "CONNACK": "3.2.2.3.10",
            "PUBLISH": "3.3.2.3.7",
            "PUBACK": "3.4.2.2.3",
            "PUBREC": "3.5.2.2.3",
            "PUBREL": "3.6.2.2.3",
            "PUBCOMP": "3.7.2.2.3",
            "SUBSCRIBE": "3.8.2.1.3",
            "SUBACK": "3.9.2.1.3",
            "UNSUBSCRIBE": "3.10.2.1.2",
            "UNSUBACK": "3.11.2.1.3",
            "DISCONNECT": "3.14.2.2.4",
            "AUTH": "3.15.2.2.5",
        },
        repeats_in=tuple(PROPERTY_SECTIONS),
    ),
    Property(39, "maximum_packet_size", "four", "non_zero", {"CONNECT": "3.1.2.11.4", "CONNACK": "3.2.2.3.6"}),
    Property(40, "wildcard_subscription_available", "byte", "boolean", {"CONNACK": "3.2.2.3.11"}),
    Property(41, "subscription_identifiers_available", "byte", "boolean", {"CONNACK": "3.2.2.3.12"}),
    Property(42, "shared_subscription_available", "byte", "boolean", {"CONNACK": "3.2.2.3.13"}),
)


class ReasonRow(NamedTuple):
    """A row of table 2-6 of 5.0 (2.4). `senders` narrows the packets named there, where a table of chapter 3 does."""

    code: int
    name: str
    packets: tuple[str, ...]
    senders: Mapping[str, str] = MappingProxyType({})  # packet -> client or server; not listed: either sender


REASON_CODES: Final[tuple[ReasonRow, ...]] = (
    ReasonRow(
        0x00, "Success", ("CONNACK", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "UNSUBACK", "AUTH"), {"AUTH": "server"}
    ),
    ReasonRow(0x00, "Normal disconnection", ("DISCONNECT",)),
    ReasonRow(0x00, "Granted QoS 0", ("SUBACK",)),
    ReasonRow(0x01, "Granted QoS 1", ("SUBACK",)),
    ReasonRow(0x02, "Granted QoS 2", ("SUBACK",)),
    ReasonRow(0x04, "Disconnect with Will Message", ("DISCONNECT",), {"DISCONNECT": "client"}),
    ReasonRow(0x10, "No matching subscribers", ("PUBACK", "PUBREC")),
    ReasonRow(0x11, "No subscription existed", ("UNSUBACK",)),
    ReasonRow(0x18, "Continue authentication", ("AUTH",)),
    ReasonRow(0x19, "Re-authenticate", ("AUTH",), {"AUTH": "client"}),
    ReasonRow(0x80, "Unspecified error", ("CONNACK", "PUBACK", "PUBREC", "SUBACK", "UNSUBACK", "DISCONNECT")),
    ReasonRow(0x81, "Malformed Packet", ("CONNACK", "DISCONNECT")),
    ReasonRow(0x82, "Protocol Error", ("CONNACK", "DISCONNECT")),
    ReasonRow(
        0x83, "Implementation specific error", ("CONNACK", "PUBACK", "PUBREC", "SUBACK", "UNSUBACK", "DISCONNECT")
    ),
    ReasonRow(0x84, "Unsupported Protocol Version", ("CONNACK",)),
    ReasonRow(0x85, "Client Identifier not valid", ("CONNACK",)),
    ReasonRow(0x86, "Bad User Name or Password", ("CONNACK",)),
    ReasonRow(
        0x87,
        "Not authorized",
        ("CONNACK", "PUBACK", "PUBREC", "SUBACK", "UNSUBACK", "DISCONNECT"),
        {"DISCONNECT": "server"},
    ),
    ReasonRow(0x88, "Server unavailable", ("CONNACK",)),
    ReasonRow(0x89, "Server busy", ("CONNACK", "DISCONNECT"), {"DISCONNECT": "server"}),
    ReasonRow(0x8A, "Banned", ("CONNACK",)),
    ReasonRow(0x8B, "Server shutting down", ("DISCONNECT",), {"DISCONNECT": "server"}),
    ReasonRow(0x8C, "Bad authentication method", ("CONNACK", "DISCONNECT"), {"DISCONNECT": "server"}),
    ReasonRow(0x8D, "Keep Alive timeout", ("DISCONNECT",), {"DISCONNECT": "server"}),
    ReasonRow(0x8E, "Session taken over", ("DISCONNECT",), {"DISCONNECT": "server"}),
    ReasonRow(0x8F, "Topic Filter invalid", ("SUBACK", "UNSUBACK", "DISCONNECT"), {"DISCONNECT": "server"}),
    ReasonRow(0x90, "Topic Name invalid", ("CONNACK", "PUBACK", "PUBREC", "DISCONNECT")),
    ReasonRow(0x91, "Packet Identifier in use", ("PUBACK", "PUBREC", "SUBACK", "UNSUBACK")),
    ReasonRow(0x92, "Packet Identifier not found", ("PUBREL", "PUBCOMP")),
    ReasonRow(0x93, "Receive Maximum exceeded", ("DISCONNECT",)),
    ReasonRow(0x94, "Topic Alias invalid", ("DISCONNECT",)),
    ReasonRow(0x95, "Packet too large", ("CONNACK", "DISCONNECT")),
    ReasonRow(0x96, "Message rate too high", ("DISCONNECT",)),
    ReasonRow(0x97, "Quota exceeded", ("CONNACK", "PUBACK", "PUBREC", "SUBACK", "DISCONNECT")),
    ReasonRow(0x98, "Administrative action", ("DISCONNECT",)),
    ReasonRow(0x99, "Payload format invalid", ("CONNACK", "PUBACK", "PUBREC", "DISCONNECT")),
    ReasonRow(0x9A, "Retain not supported", ("CONNACK", "DISCONNECT"), {"DISCONNECT": "server"}),
    ReasonRow(0x9B, "QoS not supported", ("CONNACK", "DISCONNECT"), {"DISCONNECT": "server"}),
    ReasonRow(0x9C, "Use another server", ("CONNACK", "DISCONNECT"), {"DISCONNECT": "server"}),
    ReasonRow(0x9D, "Server moved", ("CONNACK", "DISCONNECT"), {"DISCONNECT": "server"}),
    ReasonRow(0x9E, "Shared Subscriptions not supported", ("SUBACK", "DISCONNECT"), {"DISCONNECT": "server"}),
    ReasonRow(0x9F, "Connection rate exceeded", ("CONNACK", "DISCONNECT"), {"DISCONNECT": "server"}),
    ReasonRow(0xA0, "Maximum connect time", ("DISCONNECT",), {"DISCONNECT": "server"}),
    ReasonRow(0xA1, "Subscription Identifiers not supported", ("SUBACK", "DISCONNECT"), {"DISCONNECT": "server"}),
    ReasonRow(0xA2, "Wildcard Subscriptions not supported", ("SUBACK", "DISCONNECT"), {"DISCONNECT": "server"}),
)

#: Reason Codes from this one on are failures (2.4). It is also the only failure of SUBACK in 3.1.1 (3.9.3).
FAILURE: Final = 0x80

#: Connect Return Codes of 3.1 (3.2) and 3.1.1 (3.2.2.3).
CONNACK_RETURN_CODES: Final[dict[int, str]] = {
    0: "Connection accepted",
    1: "unacceptable protocol version",
    2: "identifier rejected",
    3: "server unavailable",
    4: "bad user name or password",
    5: "not authorized",
}

#: Return codes of SUBACK: 3.1 section 3.9 only has the granted QoS, 3.1.1 section 3.9.3 also a failure.
SUBACK_RETURN_CODES: Final[dict[int, dict[int, str]]] = {
    3: {0: "QoS 0", 1: "QoS 1", 2: "QoS 2"},
    4: {0: "Maximum QoS 0", 1: "Maximum QoS 1", 2: "Maximum QoS 2", 0x80: "Failure"},
}


class Check(NamedTuple):
    """A rule that bytes can break.

    `v3`, `v4`, `v5` are the violated statement or section of 3.1, 3.1.1 and 5.0; empty: that version does not have the
    rule, and the bytes are accepted. `{section}` is replaced by the section of the property in its packet.
    """

    name: str
    text: str
    v3: str
    v4: str
    v5: str
    reply: int | None = 0x81  # Reason Code that a receiver answers in 5.0
    lax: bool = False  # LAX adds a note and continues
    status: str = "MALFORMED"  # MALFORMED, TRUNCATED, LIMIT, UNSUPPORTED
    return_code: int | None = None  # Connect Return Code that a server answers before 5.0

    def specs(self, versions: tuple[str, ...]) -> dict[str, str]:
        """Version -> statement or section, of the versions that have the rule."""
        rows = zip(versions, (self.v3, self.v4, self.v5), strict=True)
        return {version: spec for version, spec in rows if spec}


#: Every check of the decoder. Rows without a specification are limits of the caller; they name what they limit.
CHECKS: Final[tuple[Check, ...]] = (
    # ---- fixed header
    Check("FRAME_SIZE", "larger than the caller's limit", "2.1", "2.2.3", "3.1.2.11.4", 0x95, status="LIMIT"),
    Check("ELEMENTS", "more elements than the caller's limit", "2.1", "2.2.3", "2.1.4", 0x97, status="LIMIT"),
    Check("FIELD_TRUNCATED", "field runs past the end of the packet", "2.1", "2.2.3", "2.1.4", status="TRUNCATED"),
    Check("TRAILING_OCTETS", "trailing bytes after the last field", "2.1", "2.2.3", "2.1.4", lax=True),
    Check("REMAINING_LENGTH_TOO_LONG", "Remaining Length of more than four bytes", "2.1", "2.2.3", "1.5.5"),
    Check(
        "REMAINING_LENGTH_NOT_SHORTEST", "Remaining Length not in its shortest form", "", "", "MQTT-1.5.5-1", lax=True
    ),
    Check("PACKET_TYPE_RESERVED", "packet type is reserved", "2.1", "2.2.1", "2.1.2"),
    Check("PACKET_TYPE_SENDER", "packet type is not sent by this side", "3", "2.2.1", "2.1.2", 0x82, lax=True),
    Check(
        "VERSION_UNKNOWN",
        "version unknown: the first packet is not CONNECT, and version= is not given",
        "3.1",
        "MQTT-3.1.0-1",
        "MQTT-3.1.0-1",
        0x82,
        status="UNSUPPORTED",
    ),
    Check("FLAGS_RESERVED", "reserved flags must be 0000", "", "MQTT-2.2.2-2", "MQTT-2.1.3-1", lax=True),
    Check("FLAGS_PUBREL", "flags must be 0010", "3.6", "MQTT-3.6.1-1", "MQTT-3.6.1-1", lax=True),
    Check("FLAGS_SUBSCRIBE", "flags must be 0010", "3.8", "MQTT-3.8.1-1", "MQTT-3.8.1-1", lax=True),
    Check("FLAGS_UNSUBSCRIBE", "flags must be 0010", "3.10", "MQTT-3.10.1-1", "MQTT-3.10.1-1", lax=True),
    Check(
        "FLAGS_DISCONNECT", "reserved flags must be 0000", "", "MQTT-2.2.2-2/MQTT-3.14.1-1", "MQTT-3.14.1-1", lax=True
    ),
    Check("FLAGS_AUTH", "reserved flags must be 0000", "", "", "MQTT-3.15.1-1", lax=True),
    # ---- strings
    Check("STRING_UTF8", "ill-formed UTF-8", "2.5", "MQTT-1.5.3-1", "MQTT-1.5.4-1"),
    Check("STRING_NUL", "U+0000 in a string", "", "MQTT-1.5.3-2", "MQTT-1.5.4-2", lax=True),
    Check("TOPIC_NUL", "U+0000 in a topic", "A", "MQTT-1.5.3-2", "MQTT-1.5.4-2", lax=True),
    Check("USER_PROPERTY_UTF8", "ill-formed UTF-8", "", "", "MQTT-1.5.4-1/MQTT-1.5.7-1"),
    Check("USER_PROPERTY_NUL", "U+0000 in a string", "", "", "MQTT-1.5.4-2/MQTT-1.5.7-1", lax=True),
    # ---- a topic by itself, before it is in a packet
    Check("TOPIC_TEXT_UTF8", "ill-formed UTF-8", "A", "MQTT-1.5.3-1", "MQTT-1.5.4-1"),
    Check("TOPIC_TEXT_NUL", "U+0000 in a topic", "A", "MQTT-4.7.3-2", "MQTT-4.7.3-2"),
    Check("TOPIC_TEXT_LENGTH", "a topic of more than 65535 bytes", "A", "MQTT-4.7.3-3", "MQTT-4.7.3-3"),
    # ---- packet identifiers
    Check("PACKET_IDENTIFIER_ZERO", "Packet Identifier 0", "2.4", "MQTT-2.3.1-1", "MQTT-2.2.1-3", 0x82, lax=True),
    Check(
        "PACKET_IDENTIFIER_ZERO_PUBLISH",
        "Packet Identifier 0",
        "2.4",
        "MQTT-2.3.1-1",
        "MQTT-2.2.1-3/MQTT-2.2.1-4",
        0x82,
        lax=True,
    ),
    Check("PACKET_IDENTIFIER_ZERO_ACK", "Packet Identifier 0", "2.4", "MQTT-2.3.1-6", "MQTT-2.2.1-5", 0x82, lax=True),
    Check(
        "PACKET_IDENTIFIER_ZERO_SUBACK", "Packet Identifier 0", "2.4", "MQTT-2.3.1-7", "MQTT-2.2.1-6", 0x82, lax=True
    ),
    # ---- properties, 5.0 only
    Check("PROPERTY_LENGTH_MISSING", "no Property Length", "", "", "MQTT-2.2.2-1", lax=True, status="TRUNCATED"),
    Check("PROPERTY_LENGTH_BEYOND", "Property Length runs past the packet", "", "", "2.2.2.1", status="TRUNCATED"),
    Check("PROPERTY_LENGTH_TOO_LONG", "Property Length of more than four bytes", "", "", "2.2.2.1"),
    Check("VARINT_NOT_SHORTEST", "variable byte integer not in its shortest form", "", "", "MQTT-1.5.5-1", lax=True),
    Check("VARINT_TOO_LONG", "variable byte integer of more than four bytes", "", "", "1.5.5"),
    Check("PROPERTY_TRUNCATED", "runs past the Property Length", "", "", "2.2.2", status="TRUNCATED"),
    Check("PROPERTY_UNKNOWN", "Property Identifier is not defined", "", "", "2.2.2.2"),
    Check("PROPERTY_NOT_ALLOWED", "not a property of this packet", "", "", "2.2.2.2", lax=True),
    Check("PROPERTY_TWICE", "property occurs more than once", "", "", "{section}", 0x82, lax=True),
    Check("PROPERTY_BOOLEAN", "must be 0 or 1", "", "", "{section}", 0x82, lax=True),
    Check("PROPERTY_ZERO", "must not be 0", "", "", "{section}", 0x82, lax=True),
    Check("TOPIC_ALIAS_ZERO", "Topic Alias 0", "", "", "MQTT-3.3.2-8", 0x94, lax=True),
    Check(
        "SUBSCRIPTION_IDENTIFIER_SENT",
        "a client's PUBLISH must not have a Subscription Identifier",
        "",
        "",
        "MQTT-3.3.4-6",
        0x82,
        lax=True,
    ),
    Check(
        "SESSION_EXPIRY_SENT",
        "a server's DISCONNECT must not have a Session Expiry Interval",
        "",
        "",
        "MQTT-3.14.2-2",
        0x82,
        lax=True,
    ),
    Check("AUTHENTICATION_DATA_ALONE", "Authentication Data without Method", "", "", "3.1.2.11.10", 0x82, lax=True),
    Check("AUTHENTICATION_METHOD_MISSING", "AUTH without Authentication Method", "", "", "3.15.2.2.2", 0x82, lax=True),
    # ---- CONNECT
    Check(
        "PROTOCOL_NAME",
        "protocol name is not this version's",
        "3.1",
        "MQTT-3.1.2-1",
        "MQTT-3.1.2-1",
        0x84,
        lax=True,
        status="UNSUPPORTED",
        return_code=1,
    ),
    Check(
        "PROTOCOL_LEVEL",
        "unacceptable protocol version",
        "3.1",
        "MQTT-3.1.2-2",
        "MQTT-3.1.2-2",
        0x84,
        status="UNSUPPORTED",
        return_code=1,
    ),
    Check(
        "BRIDGE",
        "top bit of the protocol version set, as bridges do",
        "3.1",
        "MQTT-3.1.2-2",
        "MQTT-3.1.2-2",
        0x84,
        lax=True,
        status="UNSUPPORTED",
        return_code=1,
    ),
    Check("CONNECT_FLAG_RESERVED", "reserved connect flag must be 0", "", "MQTT-3.1.2-3", "MQTT-3.1.2-3", lax=True),
    Check("WILL_QOS", "Will QoS 3", "2.1", "MQTT-3.1.2-14", "MQTT-3.1.2-12", lax=True),
    Check("WILL_QOS_ALONE", "Will QoS without Will Flag", "", "MQTT-3.1.2-13", "MQTT-3.1.2-11", lax=True),
    Check("WILL_RETAIN_ALONE", "Will Retain without Will Flag", "", "MQTT-3.1.2-15", "MQTT-3.1.2-13", lax=True),
    Check("PASSWORD_ALONE", "Password Flag without User Name Flag", "3.1", "MQTT-3.1.2-22", "", lax=True),
    Check(
        "CLIENT_IDENTIFIER_MISSING", "no Client Identifier", "3.1", "MQTT-3.1.3-3", "MQTT-3.1.3-3", status="TRUNCATED"
    ),
    Check("WILL_MISSING", "Will Flag set, no will", "2.2", "MQTT-3.1.2-9", "MQTT-3.1.2-9", status="TRUNCATED"),
    Check(
        "USER_NAME_MISSING",
        "User Name Flag set, no user name",
        "",
        "MQTT-3.1.2-19",
        "MQTT-3.1.2-17",
        status="TRUNCATED",
    ),
    Check(
        "PASSWORD_MISSING", "Password Flag set, no password", "", "MQTT-3.1.2-21", "MQTT-3.1.2-19", status="TRUNCATED"
    ),
    Check(
        "USER_NAME_UNANNOUNCED",
        "bytes for a user name, but its flag is 0",
        "",
        "MQTT-3.1.2-18",
        "MQTT-3.1.2-16",
        lax=True,
    ),
    Check(
        "PASSWORD_UNANNOUNCED",
        "bytes for a password, but its flag is 0",
        "",
        "MQTT-3.1.2-20",
        "MQTT-3.1.2-18",
        lax=True,
    ),
    # ---- CONNACK
    Check("CONNACK_FLAGS", "bits 7-1 of the acknowledge flags must be 0", "", "3.2.2.1", "MQTT-3.2.2-1", lax=True),
    Check(
        "SESSION_PRESENT_REFUSED", "Session Present with a refusal", "", "MQTT-3.2.2-4", "MQTT-3.2.2-6", 0x82, lax=True
    ),
    # ---- reason and return codes
    Check("CONNACK_CODE", "not a CONNACK code", "3.2", "3.2.2.3", "MQTT-3.2.2-8", lax=True),
    Check("PUBACK_CODE", "not a PUBACK Reason Code", "", "", "MQTT-3.4.2-1", lax=True),
    Check("PUBREC_CODE", "not a PUBREC Reason Code", "", "", "MQTT-3.5.2-1", lax=True),
    Check("PUBREL_CODE", "not a PUBREL Reason Code", "", "", "MQTT-3.6.2-1", lax=True),
    Check("PUBCOMP_CODE", "not a PUBCOMP Reason Code", "", "", "MQTT-3.7.2-1", lax=True),
    Check("SUBACK_CODE", "not a SUBACK code", "3.9", "MQTT-3.9.3-2", "MQTT-3.9.3-2", lax=True),
    Check("UNSUBACK_CODE", "not an UNSUBACK Reason Code", "", "", "MQTT-3.11.3-2", lax=True),
    Check("DISCONNECT_CODE", "not a DISCONNECT Reason Code", "", "", "MQTT-3.14.2-1", lax=True),
    Check("AUTH_CODE", "not an AUTH Reason Code", "", "", "MQTT-3.15.2-1", lax=True),
    # ---- PUBLISH and topic names
    Check("PUBLISH_QOS", "QoS 3", "2.1", "MQTT-3.3.1-4", "MQTT-3.3.1-4", lax=True),
    Check("PUBLISH_DUP", "DUP with QoS 0", "", "MQTT-3.3.1-2", "MQTT-3.3.1-2", lax=True),
    Check("TOPIC_NAME_EMPTY", "empty Topic Name", "A", "MQTT-4.7.3-1", "MQTT-4.7.3-1/3.3.2.1", 0x82, lax=True),
    Check("TOPIC_NAME_WILDCARD", "wildcard in a Topic Name", "A", "MQTT-3.3.2-2", "MQTT-3.3.2-2", lax=True),
    Check("TOPIC_EMPTY", "empty topic", "A", "MQTT-4.7.3-1", "MQTT-4.7.3-1", lax=True),
    Check("WILL_TOPIC_WILDCARD", "wildcard in a Will Topic", "A", "MQTT-4.7.1-1", "MQTT-4.7.0-1", lax=True),
    Check("RESPONSE_TOPIC_WILDCARD", "wildcard in a Response Topic", "", "", "MQTT-3.3.2-14", 0x82, lax=True),
    # ---- SUBSCRIBE, UNSUBSCRIBE and topic filters
    Check("SUBSCRIBE_EMPTY", "no Topic Filter", "3.8", "MQTT-3.8.3-3", "MQTT-3.8.3-2", 0x82, lax=True),
    Check("UNSUBSCRIBE_EMPTY", "no Topic Filter", "3.10", "MQTT-3.10.3-2", "MQTT-3.10.3-2", 0x82, lax=True),
    Check(
        "SUBACK_EMPTY", "no codes: one per filter is required", "3.9", "MQTT-3.8.4-5", "MQTT-3.8.4-6", 0x82, lax=True
    ),
    Check("UNSUBACK_EMPTY", "no Reason Codes: one per filter is required", "", "", "MQTT-3.11.3-2", 0x82, lax=True),
    Check("OPTIONS_RESERVED", "reserved option bits must be 0", "", "MQTT-3-8.3-4", "MQTT-3.8.3-5", lax=True),
    Check("OPTIONS_QOS", "QoS 3", "3.8", "MQTT-3-8.3-4", "3.8.3.1", 0x82, lax=True),
    Check("OPTIONS_RETAIN_HANDLING", "Retain Handling 3", "", "", "3.8.3.1", 0x82, lax=True),
    Check("OPTIONS_NO_LOCAL", "No Local on a Shared Subscription", "", "", "MQTT-3.8.3-4", 0x82, lax=True),
    Check("FILTER_MULTI_LEVEL", "misplaced #", "A", "MQTT-4.7.1-2", "MQTT-4.7.1-1", lax=True),
    Check("FILTER_SINGLE_LEVEL", "misplaced +", "A", "MQTT-4.7.1-3", "MQTT-4.7.1-2", lax=True),
    Check("FILTER_SHARE", "no ShareName", "", "", "MQTT-4.8.2-1", lax=True),
    Check("FILTER_SHARE_NAME", "wildcard in a ShareName, or no filter after it", "", "", "MQTT-4.8.2-2", lax=True),
)

#: Paths of errors. `[]` takes the index of a repeated field. Row 0 is the packet itself.
FIELDS: Final[tuple[str, ...]] = (
    "",
    "packet_type",
    "flags",
    "qos",
    "dup",
    "remaining_length",
    "property_length",
    "properties",
    "properties[]",
    "will.property_length",
    "will.properties",
    "will.properties[]",
    "protocol_name",
    "protocol_version",
    "connect_flags",
    "keep_alive",
    "client_identifier",
    "will",
    "will.topic",
    "will.payload",
    "will.qos",
    "will.retain",
    "user_name",
    "password",
    "acknowledge_flags",
    "session_present",
    "return_code",
    "reason_code",
    "topic_name",
    "packet_identifier",
    "payload",
    "subscriptions",
    "subscriptions[].topic_filter",
    "subscriptions[].options",
    "topic_filters",
    "topic_filters[]",
    "return_codes",
    "return_codes[]",
    "reason_codes",
    "reason_codes[]",
    "properties.user_property[].name",
    "properties.user_property[].value",
    "will.properties.user_property[].name",
    "will.properties.user_property[].value",
    *(
        f"{area}.{p.name}{'[]' if p.repeats_in else ''}"
        for area in ("properties", "will.properties")
        for p in PROPERTIES
    ),
)

#: Secret fields, as (message, field); message "": every message. wirefmt.spec.secrets has the rule.
SECRETS: Final[tuple[tuple[str, str], ...]] = (
    ("CONNECT", "password"),
    ("", "authentication_data"),  # CONNECT, CONNACK, AUTH
)
