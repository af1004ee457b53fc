"""Names and numbers of the PHPMQ protocol, as literal tables.

Sources: the README of php-mq/protocol (`spec` of a check is one of its headings), and its library (2018) where the two
differ: a packet header has 32 bytes, its length 29 digits, and no line breaks are sent. See docs/phpmq.md.

The C tables of the compiled core are generated from this module: after a change run `python tools/gen_tables.py`.
"""

from typing import Final, NamedTuple

from wirefmt.spec.checks import Check

VERSION: Final = 1

#: Bytes of `H`, version, message type, number of packets.
MESSAGE_HEADER: Final[tuple[tuple[str, int], ...]] = (
    ("identifier", 1),
    ("version", 2),
    ("message_type", 3),
    ("packet_count", 2),
)

#: Bytes of `P`, packet type, length of the content.
PACKET_HEADER: Final[tuple[tuple[str, int], ...]] = (("identifier", 1), ("packet_type", 2), ("content_length", 29))


class PacketType(NamedTuple):
    number: int
    name: str
    type: str  # text, octets, number (decimal digits)


PACKET_TYPES: Final[tuple[PacketType, ...]] = (
    PacketType(1, "queue_name", "text"),
    PacketType(2, "content", "octets"),
    PacketType(3, "message_id", "text"),
    PacketType(4, "message_count", "number"),
    PacketType(5, "ttl", "number"),
)


class MessageType(NamedTuple):
    """A message type with its packets in the order in which they are written.

    `early` has the packets of the protocol's first form, which the existing PHP server and client use with the same version
    number; empty: the message does not exist there. If TTL is not among them, it may be absent when reading.
    """

    number: int
    name: str
    class_name: str
    sender: str
    packets: tuple[int, ...]
    early: tuple[int, ...]


MESSAGE_TYPES: Final[tuple[MessageType, ...]] = (
    MessageType(1, "MESSAGE_CLIENT_TO_SERVER", "MessageClientToServer", "client", (1, 2, 5), (1, 2)),
    MessageType(2, "CONSUME_REQUEST", "ConsumeRequest", "client", (1, 4), (1, 4)),
    MessageType(3, "MESSAGE_SERVER_TO_CLIENT", "MessageServerToClient", "server", (1, 2, 3, 5), (1, 2, 3)),
    MessageType(4, "ACKNOWLEDGEMENT", "Acknowledgement", "client", (1, 3), (1, 3)),
    MessageType(5, "REQUEUE", "ReQueue", "client", (1, 3, 5), ()),
    MessageType(6, "DEAD_LETTER", "DeadLetter", "client", (1, 3), ()),
)

#: Line breaks that LAX accepts before a message; the README prints one after every header and content.
LINE_BREAKS_MAX: Final = 4


CHECKS: Final[tuple[Check, ...]] = (
    # ---- limits of the caller
    Check("FRAME_SIZE", "larger than the caller's limit", "Packet header", status="LIMIT"),
    Check("FIELD_TRUNCATED", "truncated", "Message header", status="TRUNCATED"),
    Check("TRAILING_OCTETS", "bytes after the last packet", "Message header"),
    # ---- message header
    Check("MESSAGE_IDENTIFIER", "message does not begin with H", "Message header", lax=True),
    Check("MESSAGE_HEADER_DIGITS", "not digits", "Message header", lax=True),
    Check("VERSION", "version is not 01", "Message header", lax=True, status="UNSUPPORTED"),
    Check("SENDER", "message type is not sent by this side", "Message types", lax=True),
    Check("LINE_BREAKS", "line breaks between the parts, as the README prints them", "Examples", lax=True),
    # ---- packets
    Check("PACKET_IDENTIFIER", "packet does not begin with P", "Packet header", lax=True),
    Check("PACKET_HEADER_DIGITS", "not digits", "Packet header", lax=True),
    Check("CONTENT_LENGTH", "negative content length", "Packet header"),
    Check("PACKET_TWICE", "packet type occurs more than once", "Packet types", lax=True),
    Check("PACKET_NOT_ALLOWED", "not a packet of this message", "Packet types", lax=True),
    Check("PACKET_MISSING", "a packet of this message is missing", "Packet types", lax=True),
    Check("NUMBER", "not a decimal number of 64 bits", "Packet types", lax=True),
)

#: Paths of fields in errors; the first is the whole message.
FIELDS: Final[tuple[str, ...]] = (
    "",
    "identifier",
    "version",
    "message_type",
    "packet_count",
    "packets",
    "packets[].identifier",
    "packets[].packet_type",
    "packets[].content_length",
    "packets[].content",
    *(p.name for p in PACKET_TYPES),
)
