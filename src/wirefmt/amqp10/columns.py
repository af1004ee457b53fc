"""Columns of AMQP 1.0: of its struct in the message table, and of decode_batch. tools/gen_tables.py numbers them for C."""

from typing import Final

from wirefmt.spec.columns import Column

#: Letters before the numbers of FIELDS and of BATCH in C.
LETTERS: Final = ("A10", "A10B")

#: Fields of AMQP 1.0 that have no common column. Names are those of performatives, SASL frames and message sections.
FIELDS: Final[tuple[Column, ...]] = (
    Column("protocol_id", "int16", "protocol header: 0 AMQP, 2 TLS, 3 SASL"),
    Column("version_major", "int16", "protocol header"),
    Column("version_minor", "int16", "protocol header"),
    Column("version_revision", "int16", "protocol header"),
    # ---- SASL frames
    Column("mechanisms", "list<string>", "sasl-mechanisms"),
    Column("mechanism", "string", "sasl-init"),
    Column("initial_response", "binary", "sasl-init; null unless credentials are exposed"),
    Column("challenge", "binary", "sasl-challenge; null unless credentials are exposed"),
    Column("response", "binary", "sasl-response; null unless credentials are exposed"),
    Column("additional_data", "binary", "sasl-outcome; null unless credentials are exposed"),
    # ---- open
    Column("container_id", "string", "open"),
    Column("hostname", "string", "open, sasl-init"),
    Column("max_frame_size", "int64", "open: bytes"),
    Column("channel_max", "int32", "open"),
    Column("idle_time_out", "int64", "open: milliseconds"),
    Column("outgoing_locales", "list<string>", "open"),
    Column("incoming_locales", "list<string>", "open"),
    Column("offered_capabilities", "list<string>", "open, begin, attach"),
    Column("desired_capabilities", "list<string>", "open, begin, attach"),
    Column("properties", "map<string,string>", "open, begin, attach, flow: of connection, session, link"),
    # ---- begin, flow
    Column("remote_channel", "int32", "begin"),
    Column("next_incoming_id", "int64", "flow"),
    Column("incoming_window", "int64", "begin, flow"),
    Column("next_outgoing_id", "int64", "begin, flow"),
    Column("outgoing_window", "int64", "begin, flow"),
    Column("handle_max", "int64", "begin"),
    Column("link_credit", "int64", "flow"),
    Column("available", "int64", "flow"),
    Column("drain", "boolean", "flow"),
    Column("echo", "boolean", "flow"),
    # ---- attach, detach
    Column("name", "string", "attach: the link"),
    Column("handle", "int64", "attach, flow, transfer, detach"),
    Column("role", "string", "attach, disposition: sender, receiver"),
    Column("snd_settle_mode", "int16", "attach: 0 unsettled, 1 settled, 2 mixed"),
    Column("rcv_settle_mode", "int16", "attach, transfer: 0 first, 1 second"),
    Column("source_address", "string", "attach"),
    Column("target_address", "string", "attach"),
    Column("source", "string", "attach: all fields of the source, as JSON"),
    Column("target", "string", "attach: all fields of the target or coordinator, as JSON"),
    Column("unsettled", "string", "attach: as JSON"),
    Column("incomplete_unsettled", "boolean", "attach"),
    Column("initial_delivery_count", "int64", "attach"),
    Column("max_message_size", "int64", "attach: bytes"),
    Column("closed", "boolean", "detach"),
    Column("error_condition", "string", "detach, end, close; a rejected outcome"),
    Column("error_description", "string", "the same"),
    Column("error_info", "map<string,string>", "the same"),
    # ---- transfer, disposition
    Column("delivery_id", "int64", "transfer"),
    Column("delivery_tag", "binary", "transfer"),
    Column("message_format", "int64", "transfer"),
    Column("settled", "boolean", "transfer, disposition"),
    Column("more", "boolean", "transfer: true if the last transfer of the delivery is missing"),
    Column("resume", "boolean", "transfer"),
    Column("aborted", "boolean", "transfer"),
    Column("batchable", "boolean", "transfer, disposition"),
    Column("transfers", "int32", "transfer frames of the delivery"),
    Column("first", "int64", "disposition: delivery-id"),
    Column("last", "int64", "disposition: delivery-id"),
    Column("state", "string", "transfer, disposition: accepted, rejected, released, modified, received, declared ..."),
    Column("state_fields", "string", "fields of the state, as JSON; null if it has none"),
    # ---- message sections
    Column("durable", "boolean", "header"),
    Column("priority", "int16", "header"),
    Column("first_acquirer", "boolean", "header"),
    Column("delivery_count", "int64", "header: earlier attempts that failed; flow: of the link"),
    Column("user_id", "binary", "properties"),
    Column("to", "string", "properties"),
    Column("subject", "string", "properties"),
    Column("content_encoding", "string", "properties"),
    Column("absolute_expiry_time", "int64", "properties: milliseconds since 1970"),
    Column("creation_time", "int64", "properties: milliseconds since 1970"),
    Column("group_id", "string", "properties"),
    Column("group_sequence", "int64", "properties"),
    Column("reply_to_group_id", "string", "properties"),
    Column("delivery_annotations", "map<string,string>", ""),
    Column("message_annotations", "map<string,string>", ""),
    Column("footer", "map<string,string>", ""),
    Column("body", "string", "data, amqp-sequence or amqp-value: the kind of section that payload is from"),
    Column("body_sections", "int32", "sections of the body"),
)

#: OpenTelemetry's operation of each performative and SASL frame (and of the other frames), from the client and from
#: the server.
OPERATIONS: Final[dict[str, tuple[str, str]]] = {
    "protocol-header": ("connect", "connect"),
    "empty": ("ping", "ping"),
    "sasl-mechanisms": ("authenticate", "authenticate"),
    "sasl-init": ("authenticate", "authenticate"),
    "sasl-challenge": ("authenticate", "authenticate"),
    "sasl-response": ("authenticate", "authenticate"),
    "sasl-outcome": ("authenticate", "authenticate"),
    "open": ("connect", "connect"),
    "begin": ("open", "open"),
    "attach": ("open", "open"),
    "flow": ("flow", "flow"),
    "transfer": ("send", "receive"),
    "disposition": ("settle", "settle"),
    "detach": ("close", "close"),
    "end": ("close", "close"),
    "close": ("disconnect", "disconnect"),
}

#: Columns of `wirefmt.amqp10.decode_batch`: one row per frame or delivery of one direction of a stream.
BATCH: Final[tuple[Column, ...]] = (
    Column("byte_offset", "int64", "bytes of the input before the (first) frame"),
    Column("wire_size", "int64", "bytes of all its frames"),
    Column("channel", "int32", ""),
    Column("kind", "string", "open, transfer, sasl-init ..., empty, protocol-header"),
    # ---- transfer; the first five in the order of its fields
    Column("handle", "int64", "of a transfer"),
    Column("delivery_id", "int64", "of a transfer"),
    Column("delivery_tag", "binary", "of a transfer"),
    Column("message_format", "int64", "of a transfer"),
    Column("settled", "boolean", "of a transfer; true if it is true in any transfer of the delivery"),
    Column("transfers", "int32", "transfers of the delivery"),
    Column(
        "fields",
        "map<string,string>",
        "all other fields, lists and maps as JSON; secrets are *** unless credentials are exposed",
    ),
    # ---- header, in the order of its fields
    Column("durable", "boolean", "header"),
    Column("priority", "int16", "header"),
    Column("ttl_ms", "int64", "header, milliseconds"),
    Column("first_acquirer", "boolean", "header"),
    Column("delivery_count", "int64", "header"),
    # ---- properties, in the order of their fields
    Column("message_id", "string", "properties; in hexadecimal if it is binary and not UTF-8"),
    Column("user_id", "binary", "properties"),
    Column("to", "string", "properties"),
    Column("subject", "string", "properties"),
    Column("reply_to", "string", "properties"),
    Column("correlation_id", "string", "properties; in hexadecimal if it is binary and not UTF-8"),
    Column("content_type", "string", "properties"),
    Column("content_encoding", "string", "properties"),
    Column("absolute_expiry_time", "int64", "properties, milliseconds since 1970"),
    Column("creation_time", "int64", "properties, milliseconds since 1970"),
    Column("group_id", "string", "properties"),
    Column("group_sequence", "int64", "properties"),
    Column("reply_to_group_id", "string", "properties"),
    # ---- other sections
    Column("delivery_annotations", "map<string,string>", "in order; null if there is no such section"),
    Column("message_annotations", "map<string,string>", "the same"),
    Column("headers", "map<string,string>", "application properties: the same"),
    Column("footer", "map<string,string>", "the same"),
    Column("body", "string", "data, amqp-sequence or amqp-value: the kind of section that payload is from"),
    Column("body_sections", "int32", "sections of the body"),
    Column(
        "payload",
        "binary",
        "data, several sections joined; an amqp-value as text or bytes; sequences as JSON, one per line; "
        "all that follows the performative if message_format is not 0",
    ),
    Column("error", "string", "why the frame or message is malformed, or the delivery is incomplete"),
)
