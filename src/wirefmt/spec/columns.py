"""Columns in general; the columns of the message table that every protocol has; the column that conversion adds.

Types have the names that Spark and Arrow users know: boolean, int8, int16, int32, int64, string, binary,
timestamp (microseconds, UTC), list<T>, map<string,string>, struct<name:T,...>. All columns are nullable.
"""

from typing import Final, NamedTuple

from wirefmt.protocols import PROTOCOLS


class Column(NamedTuple):
    name: str
    type: str
    meaning: str


def struct(fields: tuple[Column, ...]) -> str:
    return "struct<" + ",".join(f"{f.name}:{f.type}" for f in fields) + ">"


#: The first columns of the message table.
SHARED: Final[tuple[Column, ...]] = (
    Column("ts", "timestamp", "time of the packet that completed the message"),
    Column("ts_ns", "int64", "the same, nanoseconds since 1970"),
    Column("ts_first", "timestamp", "time of the packet that began the message"),
    Column("capture", "string", "path or URL of the capture file"),
    Column("frame_no", "int64", "number, from 1, of the packet that completed the message in its capture"),
    Column("byte_offset", "int64", "bytes of this direction of the stream before the message"),
    Column("flow_id", "int64", "identifies the TCP connection; the same on every machine and for any splitting"),
    Column("direction", "int8", "0 client to server, 1 server to client"),
    Column("src_ip", "string", "sender's address"),
    Column("src_port", "int32", "sender's port"),
    Column("dst_ip", "string", "receiver's address"),
    Column("dst_port", "int32", "receiver's port"),
    Column("protocol", "string", ", ".join(row.name for row in PROTOCOLS)),
    Column("version", "string", "protocol version: 3.1, 3.1.1, 5.0; 0.9.1; 1.0 ..."),
    Column("kind", "string", "PUBLISH, basic.deliver, transfer, SEND_MESSAGE ..."),
    Column(
        "operation",
        "string",
        "OpenTelemetry's create, send, receive, process, settle; otherwise connect, subscribe ...",
    ),
    Column("destination", "string", "topic, queue, exchange or address; the queue for AMQP's default exchange"),
    Column("routing_key", "string", "AMQP 0.9.1"),
    Column("consumer_group", "string", "RocketMQ group, NSQ channel, MQTT share name"),
    Column("client_id", "string", "client identifier of the connection, once known"),
    Column("message_id", "string", ""),
    Column("correlation_id", "string", ""),
    Column("reply_to", "string", ""),
    Column("channel", "int32", "AMQP channel"),
    Column("sequence", "int64", "packet identifier, delivery tag, opaque ..."),
    Column("qos", "int8", "0, 1, 2"),
    Column("redelivered", "boolean", "DUP, redelivered ..."),
    Column("attempts", "int32", ""),
    Column("ttl_ms", "int64", "milliseconds"),
    Column("code", "int32", "reason, reply or response code"),
    Column("content_type", "string", ""),
    Column(
        "headers",
        "map<string,string>",
        "User Properties, headers, application properties; in order, with repeated keys",
    ),
    Column("payload", "binary", ""),
    Column("payload_size", "int64", "bytes, even if the payload is omitted"),
    Column("wire_size", "int64", "bytes of the message on the wire; for a gap, the bytes missing or skipped"),
    Column("status", "string", "ok, partial, gap, malformed"),
    Column("error", "string", "what is wrong: field, offset, reason"),
)

#: The last columns. They are null unless an option requests them.
ON_REQUEST: Final[tuple[Column, ...]] = (
    Column(
        "raw",
        "binary",
        "the encoded message for wirefmt.convert, on request: a PUBLISH packet; an AMQP 1.0 message; content header and body "
        "of AMQP 0.9.1 as frames. Null if it holds a secret, unless credentials are exposed",
    ),
    Column(
        "detail",
        "string",
        "a summary of the message beyond its kind, on request: one line of at most 200 bytes, never with a secret",
    ),
    Column(
        "vlan",
        "list<int32>",
        "VLAN identifiers (IEEE 802.1Q) of the packet that began the message, on request: at most five, the outermost first; "
        "null if it has no tag",
    ),
)

#: Fields of the column `converted`, which conversion adds to a row.
CONVERTED_FIELDS: Final[tuple[Column, ...]] = (
    Column("raw", "binary", "the message in the other protocol, in the form of the column `raw`"),
    Column("losses", "list<string>", "what was dropped, narrowed or moved: field, reason, rule; null if nothing was"),
    Column("rule", "string", "the rule that refused the message"),
    Column("error", "string", "why the message was refused"),
)

CONVERTED: Final = Column(
    "converted", struct(CONVERTED_FIELDS), "null if the row is not a message of the three protocols"
)
