"""Columns of NSQ: of its struct in the message table, and of decode_batch. tools/gen_tables.py numbers them for C."""

from typing import Final

from wirefmt.spec.columns import Column, struct

#: Letters before the numbers of FIELDS and of BATCH in C.
LETTERS: Final = ("NSQ_F", "NSQ_B")

#: Fields of NSQ that have no common column. Times of IDENTIFY are in milliseconds, sizes in bytes, as on the wire.
FIELDS: Final[tuple[Column, ...]] = (
    Column("frame_type", "int32", "frames: 0 response, 1 error, 2 message"),
    Column("timestamp_ns", "int64", "message frames: nanoseconds since 1970, when it was published"),
    Column("message_count", "int32", "MPUB"),
    Column("bodies", "list<binary>", "MPUB: its messages; payload_size is the sum of their sizes"),
    Column("rdy_count", "int64", "RDY"),
    Column("timeout_ms", "int64", "DPUB: delay before delivery; REQ: delay before redelivery"),
    Column("response", "string", "response frames: OK, CLOSE_WAIT, _heartbeat_ or JSON"),
    Column("error_code", "string", "error frames: E_INVALID ..."),
    Column("error_text", "string", "error frames: text after the code"),
    Column("fatal", "boolean", "error frames: true if the connection is closed; null for an unknown code"),
    Column("hostname", "string", "IDENTIFY"),
    Column("user_agent", "string", "IDENTIFY"),
    Column("feature_negotiation", "boolean", "IDENTIFY"),
    Column("heartbeat_interval", "int64", "IDENTIFY"),
    Column("output_buffer_timeout", "int64", "IDENTIFY, its response"),
    Column("output_buffer_size", "int64", "IDENTIFY, its response"),
    Column("sample_rate", "int64", "IDENTIFY, its response"),
    Column("msg_timeout", "int64", "IDENTIFY, its response"),
    Column("tls_v1", "boolean", "IDENTIFY: requested; its response: agreed"),
    Column("deflate", "boolean", "IDENTIFY: requested; its response: agreed"),
    Column("deflate_level", "int64", "IDENTIFY, its response"),
    Column("snappy", "boolean", "IDENTIFY: requested; its response: agreed"),
    Column("topology_region", "string", "IDENTIFY, its response"),
    Column("topology_zone", "string", "IDENTIFY, its response"),
    Column("max_rdy_count", "int64", "response to IDENTIFY"),
    Column("server_version", "string", "response to IDENTIFY: `version`"),
    Column("max_msg_timeout", "int64", "response to IDENTIFY"),
    Column("max_deflate_level", "int64", "response to IDENTIFY"),
    Column("auth_required", "boolean", "response to IDENTIFY"),
    Column("identity", "string", "response to AUTH"),
    Column("identity_url", "string", "response to AUTH"),
    Column("permission_count", "int64", "response to AUTH"),
    Column("secret", "binary", "AUTH; null unless credentials are exposed"),
    Column(
        "compression", "string", "deflate or snappy if the stream is compressed; offsets then count decompressed bytes"
    ),
)

#: OpenTelemetry's operation of each command and frame; otherwise a name of wirefmt's own.
OPERATIONS: Final[dict[str, str]] = {
    "MAGIC": "connect",
    "IDENTIFY": "connect",
    "AUTH": "authenticate",
    "SUB": "subscribe",
    "PUB": "send",
    "MPUB": "send",
    "DPUB": "send",
    "RDY": "flow",
    "FIN": "settle",
    "REQ": "settle",
    "TOUCH": "settle",
    "CLS": "unsubscribe",
    "NOP": "ping",
    "response": "response",
    "heartbeat": "ping",
    "error": "error",
    "message": "receive",
}

#: Columns of `wirefmt.nsq.decode_batch`: one row per command or frame of one direction.
BATCH: Final[tuple[Column, ...]] = (
    Column("byte_offset", "int64", "bytes of the input before it"),
    Column("wire_size", "int32", "bytes"),
    Column("kind", "string", "PUB, FIN ... response, error, message"),
    Column("destination", "string", "topic: SUB, PUB, MPUB, DPUB"),
    Column("consumer_group", "string", "channel: SUB"),
    Column("message_id", "binary", "FIN, REQ, TOUCH, message frames: 16 bytes"),
    Column("timestamp_ns", "int64", "message frames: nanoseconds since 1970"),
    Column("attempts", "int32", "message frames"),
    Column("payload", "binary", "PUB, DPUB, message frames"),
    Column("nsq", struct(FIELDS), "all other fields, as in the message table"),
    Column("error", "string", "why it is malformed; then all fields except byte_offset and wire_size are null"),
)
