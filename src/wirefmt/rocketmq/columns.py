"""Columns of RocketMQ: of its struct in the message table, and of decode_batch. tools/gen_tables.py numbers them for C."""

from typing import Final

from wirefmt.rocketmq.spec import REQUEST_CODES
from wirefmt.spec.columns import Column

#: Letters before the numbers of FIELDS and of BATCH in C.
LETTERS: Final = ("RM", "RB")

FIELDS: Final[tuple[Column, ...]] = (
    Column("code", "int32", "request code, or response code"),
    Column("request_code", "int32", "of a response: the code of its request, if the capture has the request"),
    Column("flag", "int32", "bit 0 response, bit 1 one-way"),
    Column("oneway", "boolean", "true for a request without a response"),
    Column("language", "string", "language of the sender: JAVA, GO ..."),
    Column("serialize_type", "string", "JSON or ROCKETMQ: how the header is written"),
    Column("remark", "string", "explanation in a response"),
    Column(
        "ext_fields",
        "map<string,string>",
        "all fields of the header, with repeats; secrets are *** unless credentials are exposed",
    ),
    Column("message_index", "int32", "position of the message in the body, from 0"),
    Column("message_count", "int32", "messages in the body"),
    Column("tags", "string", "property TAGS"),
    Column("keys", "string", "property KEYS: separated by blanks"),
    Column("producer_group", "string", "producerGroup, PGROUP"),
    Column("broker_name", "string", "bname"),
    Column("queue_id", "int32", ""),
    Column("queue_offset", "int64", ""),
    Column("physical_offset", "int64", "stored messages"),
    Column("offset_message_id", "string", "the broker's id of a stored message"),
    Column("message_flag", "int32", "flag of the application"),
    Column("sys_flag", "int32", "compression, transaction, kind of addresses"),
    Column("body_crc", "int32", "stored messages: CRC-32 of the body without its top bit"),
    Column("born_timestamp", "int64", "milliseconds since 1970, by the producer"),
    Column("born_host", "string", "address:port of the producer"),
    Column("store_timestamp", "int64", "milliseconds since 1970, by the broker"),
    Column("store_host", "string", "address:port of the broker"),
    Column("reconsume_times", "int32", ""),
    Column("prepared_transaction_offset", "int64", ""),
    Column("transaction_id", "string", ""),
    Column("subscription", "string", "PULL_MESSAGE: the filter"),
    Column("next_begin_offset", "int64", "responses to PULL_MESSAGE"),
    Column("min_offset", "int64", "responses to PULL_MESSAGE"),
    Column("max_offset", "int64", "responses to PULL_MESSAGE"),
)

#: OpenTelemetry's operation of requests and of their responses; all others are manage.
OPERATIONS: Final[dict[str, tuple[str, str]]] = {
    "SEND_MESSAGE": ("send", "send"),
    "SEND_MESSAGE_V2": ("send", "send"),
    "SEND_BATCH_MESSAGE": ("send", "send"),
    "SEND_REPLY_MESSAGE": ("send", "send"),
    "SEND_REPLY_MESSAGE_V2": ("send", "send"),
    "PUSH_REPLY_MESSAGE_TO_CLIENT": ("receive", "settle"),
    "PULL_MESSAGE": ("receive", "receive"),
    "LITE_PULL_MESSAGE": ("receive", "receive"),
    "POP_MESSAGE": ("receive", "receive"),
    "PEEK_MESSAGE": ("receive", "receive"),
    "QUERY_MESSAGE": ("receive", "receive"),
    "VIEW_MESSAGE_BY_ID": ("receive", "receive"),
    "NOTIFICATION": ("receive", "receive"),
    "CONSUME_MESSAGE_DIRECTLY": ("process", "process"),
    "CHECK_TRANSACTION_STATE": ("settle", "settle"),
    "END_TRANSACTION": ("settle", "settle"),
    "CONSUMER_SEND_MSG_BACK": ("settle", "settle"),
    "UPDATE_CONSUMER_OFFSET": ("settle", "settle"),
    "ACK_MESSAGE": ("settle", "settle"),
    "BATCH_ACK_MESSAGE": ("settle", "settle"),
    "CHANGE_MESSAGE_INVISIBLETIME": ("settle", "settle"),
    "RECALL_MESSAGE": ("settle", "settle"),
    "HEART_BEAT": ("subscribe", "subscribe"),
    "UNREGISTER_CLIENT": ("disconnect", "disconnect"),
    "REGISTER_BROKER": ("connect", "connect"),
    "UNREGISTER_BROKER": ("disconnect", "disconnect"),
    "BROKER_HEARTBEAT": ("ping", "ping"),
}

#: Every kind of message; the operation of those that OPERATIONS does not name is manage.
KINDS: Final = (*(row.name for row in REQUEST_CODES), "RESPONSE")

#: Columns of `wirefmt.rocketmq.decode_batch`: one row per frame of one stream.
BATCH: Final[tuple[Column, ...]] = (
    Column("byte_offset", "int64", "bytes of the input before the frame"),
    Column("wire_size", "int32", "bytes of the frame"),
    Column("code", "int32", "request code, or response code"),
    Column("flag", "int32", "bit 0 response, bit 1 one-way"),
    Column("sequence", "int32", "opaque, the number of the request; null if a JSON header has none"),
    Column("language", "string", "null if the language is unknown"),
    Column("version", "int32", "release number of the sender"),
    Column("serialize_type", "string", "JSON or ROCKETMQ: how the header is written"),
    Column("remark", "string", ""),
    Column("destination", "string", "field `topic`, or `b` of SEND_MESSAGE_V2"),
    Column("properties", "string", "field `properties`, or `i` of SEND_MESSAGE_V2"),
    Column(
        "ext_fields", "map<string,string>", "all fields of the header, in order and with repeats, without null values"
    ),
    Column("payload", "binary", "null if it is empty"),
    Column("error", "string", "why the frame is malformed; then all fields except byte_offset and wire_size are null"),
)
