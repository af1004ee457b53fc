"""The message table: one row a protocol message, one schema for Arrow, the command line and Spark.

`COLUMNS` is the only place where its columns are named and typed. The compiled core builds its column
writers from it, and `tools/gen_tables.py` numbers the columns for the core's C code.

Types are written as Spark and Arrow users would say them: boolean, int8, int16, int32, int64, string, binary,
timestamp (microseconds, UTC), list<T>, map<string,string>, struct<name:T,...>. All columns are nullable.
"""

from typing import NamedTuple


class Column(NamedTuple):
    name: str
    type: str
    meaning: str


#: What MQTT says beyond the common columns. Names are those of MQTT 5.0, 2.2.2.2 and chapter 3.
MQTT_FIELDS: tuple[Column, ...] = (
    Column("flags", "int16", "low four bits of the first octet"),
    Column("dup", "boolean", "DUP"),
    Column("retain", "boolean", "RETAIN"),
    Column("protocol_name", "string", "CONNECT: MQIsdp or MQTT"),
    Column("protocol_level", "int16", "CONNECT: 3, 4, 5"),
    Column("connect_flags", "int16", "CONNECT: the flags octet"),
    Column("clean_start", "boolean", "CONNECT: Clean Start, Clean Session before 5.0"),
    Column("keep_alive", "int32", "CONNECT, seconds"),
    Column("will_topic", "string", "CONNECT"),
    Column("will_payload", "binary", "CONNECT"),
    Column("will_qos", "int16", "CONNECT"),
    Column("will_retain", "boolean", "CONNECT"),
    Column("user_name", "string", "CONNECT"),
    Column("password", "binary", "CONNECT; null unless credentials are exposed"),
    Column("session_present", "boolean", "CONNACK"),
    Column("topic_filters", "list<string>", "SUBSCRIBE, UNSUBSCRIBE"),
    Column("subscription_options", "list<int16>", "SUBSCRIBE: the options octet of each filter"),
    Column("reason_codes", "list<int16>", "SUBACK, UNSUBACK"),
    Column("payload_format_indicator", "int16", "property 1"),
    Column("message_expiry_interval", "int64", "property 2, seconds"),
    Column("response_topic", "string", "property 8"),
    Column("correlation_data", "binary", "property 9"),
    Column("subscription_identifiers", "list<int32>", "property 11"),
    Column("session_expiry_interval", "int64", "property 17, seconds"),
    Column("assigned_client_identifier", "string", "property 18"),
    Column("server_keep_alive", "int32", "property 19, seconds"),
    Column("authentication_method", "string", "property 21"),
    Column("authentication_data", "binary", "property 22; null unless credentials are exposed"),
    Column("request_problem_information", "int16", "property 23"),
    Column("will_delay_interval", "int64", "property 24, seconds"),
    Column("request_response_information", "int16", "property 25"),
    Column("response_information", "string", "property 26"),
    Column("server_reference", "string", "property 28"),
    Column("reason_string", "string", "property 31"),
    Column("receive_maximum", "int32", "property 33"),
    Column("topic_alias_maximum", "int32", "property 34"),
    Column("topic_alias", "int32", "property 35"),
    Column("maximum_qos", "int16", "property 36"),
    Column("retain_available", "int16", "property 37"),
    Column("maximum_packet_size", "int64", "property 39, octets"),
    Column("wildcard_subscription_available", "int16", "property 40"),
    Column("subscription_identifier_available", "int16", "property 41"),
    Column("shared_subscription_available", "int16", "property 42"),
    Column("will_properties", "map<string,string>", "CONNECT: will properties by name, User Properties among them"),
)

#: OpenTelemetry's operation of each packet type, from the client and from the server; else a word of our own.
MQTT_OPERATIONS: dict[str, tuple[str, str]] = {
    "CONNECT": ("connect", "connect"),
    "CONNACK": ("connect", "connect"),
    "PUBLISH": ("send", "receive"),
    "PUBACK": ("settle", "settle"),
    "PUBREC": ("settle", "settle"),
    "PUBREL": ("settle", "settle"),
    "PUBCOMP": ("settle", "settle"),
    "SUBSCRIBE": ("subscribe", "subscribe"),
    "SUBACK": ("subscribe", "subscribe"),
    "UNSUBSCRIBE": ("unsubscribe", "unsubscribe"),
    "UNSUBACK": ("unsubscribe", "unsubscribe"),
    "PINGREQ": ("ping", "ping"),
    "PINGRESP": ("ping", "ping"),
    "DISCONNECT": ("disconnect", "disconnect"),
    "AUTH": ("authenticate", "authenticate"),
}

#: What NSQ says beyond the common columns. Times of IDENTIFY are milliseconds, sizes octets, as on the wire.
NSQ_FIELDS: tuple[Column, ...] = (
    Column("frame_type", "int32", "frames: 0 response, 1 error, 2 message"),
    Column("timestamp_ns", "int64", "message frames: nanoseconds since 1970, when it was published"),
    Column("message_count", "int32", "MPUB"),
    Column("bodies", "list<binary>", "MPUB: its messages; payload_size is all of them"),
    Column("rdy_count", "int64", "RDY"),
    Column("timeout_ms", "int64", "DPUB: deferred by; REQ: comes again after"),
    Column("response", "string", "response frames: OK, CLOSE_WAIT, _heartbeat_ or JSON"),
    Column("error_code", "string", "error frames: E_INVALID ..."),
    Column("error_text", "string", "error frames: what follows the code"),
    Column("fatal", "boolean", "error frames: is the connection closed? null for a code that is not NSQ's"),
    Column("hostname", "string", "IDENTIFY"),
    Column("user_agent", "string", "IDENTIFY"),
    Column("feature_negotiation", "boolean", "IDENTIFY"),
    Column("heartbeat_interval", "int64", "IDENTIFY"),
    Column("output_buffer_timeout", "int64", "IDENTIFY, its response"),
    Column("output_buffer_size", "int64", "IDENTIFY, its response"),
    Column("sample_rate", "int64", "IDENTIFY, its response"),
    Column("msg_timeout", "int64", "IDENTIFY, its response"),
    Column("tls_v1", "boolean", "IDENTIFY: asked for; its response: will be"),
    Column("deflate", "boolean", "IDENTIFY: asked for; its response: will be"),
    Column("deflate_level", "int64", "IDENTIFY, its response"),
    Column("snappy", "boolean", "IDENTIFY: asked for; its response: will be"),
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
    Column("compression", "string", "deflate or snappy, where the stream is compressed; offsets are of what is inside"),
)

#: OpenTelemetry's operation of each command and frame; else a word of our own.
NSQ_OPERATIONS: dict[str, str] = {
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


ROCKETMQ_FIELDS: tuple[Column, ...] = (
    Column("code", "int32", "request code, or response code"),
    Column("request_code", "int32", "of a response: the code of the request it answers, if the capture has that"),
    Column("flag", "int32", "bit 0 response, bit 1 one-way"),
    Column("oneway", "boolean", "a request that is not answered"),
    Column("language", "string", "JAVA, GO ...: of the sender"),
    Column("serialize_type", "string", "JSON or ROCKETMQ: how the header is written"),
    Column("remark", "string", "a response's explanation"),
    Column("ext_fields", "map<string,string>", "all fields of the header; credentials hidden unless exposed"),
    Column("message_index", "int32", "place of the message in the body, from 0"),
    Column("message_count", "int32", "messages in the body"),
    Column("tags", "string", "property TAGS"),
    Column("keys", "string", "property KEYS: separated by blanks"),
    Column("producer_group", "string", "producerGroup, PGROUP"),
    Column("broker_name", "string", "bname"),
    Column("queue_id", "int32", ""),
    Column("queue_offset", "int64", ""),
    Column("physical_offset", "int64", "stored messages"),
    Column("offset_message_id", "string", "the broker's id of a stored message"),
    Column("message_flag", "int32", "the application's"),
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

#: OpenTelemetry's operation of requests and of their responses; of all others: manage.
ROCKETMQ_OPERATIONS: dict[str, tuple[str, str]] = {
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


def struct(fields: tuple[Column, ...]) -> str:
    return "struct<" + ",".join(f"{f.name}:{f.type}" for f in fields) + ">"


COLUMNS: tuple[Column, ...] = (
    Column("ts", "timestamp", "time of the packet that completed the message"),
    Column("ts_ns", "int64", "the same, nanoseconds since 1970"),
    Column("ts_first", "timestamp", "time of the packet that began the message"),
    Column("capture", "string", "path or URL of the capture file"),
    Column("frame_no", "int64", "number, from 1, of the packet that completed the message in its capture"),
    Column("byte_offset", "int64", "octets of this direction of the stream before the message"),
    Column("flow_id", "int64", "one TCP connection; the same on every machine and for any splitting"),
    Column("direction", "int8", "0 client to server, 1 server to client"),
    Column("src_ip", "string", "sender's address"),
    Column("src_port", "int32", "sender's port"),
    Column("dst_ip", "string", "receiver's address"),
    Column("dst_port", "int32", "receiver's port"),
    Column("protocol", "string", "mqtt, amqp091, amqp10, rocketmq, nsq, phpmq"),
    Column("version", "string", "protocol version: 3.1, 3.1.1, 5.0"),
    Column("kind", "string", "PUBLISH, basic.deliver, transfer, SEND_MESSAGE ..."),
    Column(
        "operation", "string", "OpenTelemetry's create, send, receive, process, settle; else connect, subscribe ..."
    ),
    Column("destination", "string", "topic, queue, exchange or address"),
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
    Column("headers", "map<string,string>", "User Properties, headers, application properties; order and repeats kept"),
    Column("payload", "binary", ""),
    Column("payload_size", "int64", "octets, also where the payload is left out"),
    Column("wire_size", "int64", "octets of the message on the wire; of the hole, for a gap"),
    Column("status", "string", "ok, partial, gap, malformed"),
    Column("error", "string", "what was wrong: field, offset, reason"),
    Column("mqtt", struct(MQTT_FIELDS), "MQTT's further fields"),
    Column("rocketmq", struct(ROCKETMQ_FIELDS), "RocketMQ's further fields"),
    Column("nsq", struct(NSQ_FIELDS), "NSQ's further fields"),
)


#: What `wirefmt.mqtt.decode_batch` gives: one row a packet of one stream, nothing known of a network.
MQTT_BATCH: tuple[Column, ...] = (
    Column("offset", "int64", "octets of the input before the packet"),
    Column("size", "int32", "octets of the packet"),
    Column("packet_type", "int8", "1 CONNECT ... 15 AUTH"),
    Column("qos", "int8", "PUBLISH"),
    Column("dup", "boolean", "PUBLISH"),
    Column("retain", "boolean", "PUBLISH"),
    Column("packet_identifier", "int32", "where the packet has one"),
    Column("topic_name", "string", "PUBLISH; what the packet says, a Topic Alias is not resolved"),
    Column("payload", "binary", "PUBLISH"),
    Column("reason_code", "int16", "reason or return code"),
    Column("client_identifier", "string", "CONNECT"),
    Column("content_type", "string", "property 3"),
    Column("user_properties", "map<string,string>", "in order, with repeats; null where there is none"),
    Column("mqtt", struct(MQTT_FIELDS), "every further field, as in the message table"),
    Column("error", "string", "why the packet cannot be read; all other fields but offset and size are null then"),
)

#: What `wirefmt.rocketmq.decode_batch` gives: one row a frame of one stream.
ROCKETMQ_BATCH: tuple[Column, ...] = (
    Column("offset", "int64", "octets of the input before the frame"),
    Column("size", "int32", "octets of the frame"),
    Column("code", "int32", "request code, or response code"),
    Column("flag", "int32", "bit 0 response, bit 1 one-way"),
    Column("opaque", "int32", "number of the request; null where a JSON header has none"),
    Column("language", "string", "null where it is none that is known"),
    Column("version", "int32", "number of the sender's release"),
    Column("serialize_type", "string", "JSON or ROCKETMQ: how the header is written"),
    Column("remark", "string", ""),
    Column("topic", "string", "field `topic`, or `b` of SEND_MESSAGE_V2"),
    Column("properties", "string", "field `properties`, or `i` of SEND_MESSAGE_V2"),
    Column("ext_fields", "map<string,string>", "all fields of the header, in order; null values are left out"),
    Column("body", "binary", "null where there is no octet of it"),
    Column("error", "string", "why the frame cannot be read; all other fields but offset and size are null then"),
)


#: What `wirefmt.amqp091.decode_batch` gives: one row a method of one direction of a stream, its content folded in.
AMQP091_BATCH: tuple[Column, ...] = (
    Column("offset", "int64", "octets of the input before the method's frame"),
    Column("size", "int64", "octets of all its frames"),
    Column("channel", "int32", ""),
    Column("kind", "string", "basic.deliver ..., or heartbeat, protocol-header"),
    Column("exchange", "string", "argument"),
    Column("routing_key", "string", "argument"),
    Column("queue", "string", "argument"),
    Column("consumer_tag", "string", "argument"),
    Column("delivery_tag", "int64", "argument; from 2^63 on it is negative"),
    Column("redelivered", "boolean", "argument"),
    Column("reply_code", "int32", "argument"),
    Column("reply_text", "string", "argument"),
    Column("arguments", "map<string,string>", "all other arguments, tables as JSON; secrets are *** unless exposed"),
    Column("content_type", "string", "property"),
    Column("content_encoding", "string", "property"),
    Column("headers", "map<string,string>", "property: in order, with repeats; null where there is no table"),
    Column("delivery_mode", "int16", "property"),
    Column("priority", "int16", "property"),
    Column("correlation_id", "string", "property"),
    Column("reply_to", "string", "property"),
    Column("expiration", "string", "property"),
    Column("message_id", "string", "property"),
    Column("timestamp", "int64", "property, seconds since 1970; from 2^63 on it is negative"),
    Column("type", "string", "property"),
    Column("user_id", "string", "property"),
    Column("app_id", "string", "property"),
    Column("cluster_id", "string", "property"),
    Column("body", "binary", "of all body frames"),
    Column("body_size", "int64", "as the content header has it"),
    Column("error", "string", "why the frame cannot be read, or the content is not complete"),
)


#: What `wirefmt.nsq.decode_batch` gives: one row a command or frame of one direction.
NSQ_BATCH: tuple[Column, ...] = (
    Column("offset", "int64", "octets of the input before it"),
    Column("size", "int32", "octets"),
    Column("kind", "string", "PUB, FIN ... response, error, message"),
    Column("topic", "string", "SUB, PUB, MPUB, DPUB"),
    Column("channel", "string", "SUB"),
    Column("message_id", "binary", "FIN, REQ, TOUCH, message frames: 16 octets"),
    Column("timestamp", "int64", "message frames: nanoseconds since 1970"),
    Column("attempts", "int32", "message frames"),
    Column("body", "binary", "PUB, DPUB, message frames"),
    Column("nsq", struct(NSQ_FIELDS), "every further field, as in the message table"),
    Column("error", "string", "why it cannot be read; all other fields but offset and size are null then"),
)
