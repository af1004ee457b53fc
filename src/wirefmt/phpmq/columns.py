"""Columns of PHPMQ: its struct in the message table, and decode_batch. tools/gen_tables.py numbers them for C."""

from typing import Final

from wirefmt.spec.columns import Column, struct

#: Letters before the numbers of FIELDS and of BATCH in C.
LETTERS: Final = ("PHPMQ_F", "PHPMQ_B")

#: Fields of PHPMQ that have no common column.
FIELDS: Final[tuple[Column, ...]] = (
    Column("message_type", "int64", "1 to 6, or an unknown type"),
    Column("packet_count", "int32", "packets of the message"),
    Column("message_count", "int64", "CONSUME_REQUEST: allowed number of unacknowledged messages"),
    Column("ttl", "int64", "seconds; null in the early form"),
    Column("line_broken", "boolean", "line breaks between the parts"),
)

#: OpenTelemetry's operation of each message.
OPERATIONS: Final[dict[str, str]] = {
    "MESSAGE_CLIENT_TO_SERVER": "send",
    "CONSUME_REQUEST": "subscribe",
    "MESSAGE_SERVER_TO_CLIENT": "receive",
    "ACKNOWLEDGEMENT": "settle",
    "REQUEUE": "settle",
    "DEAD_LETTER": "settle",
}

#: Columns of `wirefmt.phpmq.decode_batch`: one row per message of one direction.
BATCH: Final[tuple[Column, ...]] = (
    Column("byte_offset", "int64", "bytes of the input before the message"),
    Column("wire_size", "int64", "bytes of the message"),
    Column("kind", "string", "MESSAGE_CLIENT_TO_SERVER ..., empty for an unknown type"),
    Column("destination", "string", "packet 01: queue name"),
    Column("payload", "binary", "packet 02"),
    Column("message_id", "string", "packet 03"),
    Column("phpmq", struct(FIELDS), "all other fields, as in the message table"),
    Column("error", "string", "why it is malformed; then all fields except byte_offset and wire_size are null"),
)
