"""Columns of MQTT: of its struct in the message table, and of decode_batch. tools/gen_tables.py numbers them for C."""

from typing import Final

from wirefmt.spec.columns import Column, struct

#: Letters before the numbers of FIELDS and of BATCH in C.
LETTERS: Final = ("M", "B")

#: Fields of MQTT that have no common column. Names are those of MQTT 5.0, 2.2.2.2 and chapter 3.
FIELDS: Final[tuple[Column, ...]] = (
    Column("flags", "int16", "low four bits of the first byte"),
    Column("dup", "boolean", "DUP"),
    Column("retain", "boolean", "RETAIN"),
    Column("protocol_name", "string", "CONNECT: MQIsdp or MQTT"),
    Column("protocol_level", "int16", "CONNECT: 3, 4, 5"),
    Column("connect_flags", "int16", "CONNECT: the flags byte"),
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
    Column("subscription_options", "list<int16>", "SUBSCRIBE: the options byte of each filter, as sent"),
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
    Column("maximum_packet_size", "int64", "property 39, bytes"),
    Column("wildcard_subscription_available", "int16", "property 40"),
    Column("subscription_identifier_available", "int16", "property 41"),
    Column("shared_subscription_available", "int16", "property 42"),
    Column("will_properties", "map<string,string>", "CONNECT: will properties by name, including User Properties"),
)

#: Names of fields that differ from the property's: a list, since the property may repeat; a name that 2.2.2.2 and 3.2.2.3.12
#: spell differently.
PROPERTY_FIELDS: Final[dict[str, str]] = {
    "subscription_identifier": "subscription_identifiers",
    "subscription_identifiers_available": "subscription_identifier_available",
}

#: OpenTelemetry's operation of each packet type, from the client and from the server; otherwise a name of wirefmt's own.
OPERATIONS: Final[dict[str, tuple[str, str]]] = {
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

#: Columns of `wirefmt.mqtt.decode_batch`: one row per packet of one stream, without network columns.
BATCH: Final[tuple[Column, ...]] = (
    Column("byte_offset", "int64", "bytes of the input before the packet"),
    Column("wire_size", "int32", "bytes of the packet"),
    Column("packet_type", "int8", "1 CONNECT ... 15 AUTH"),
    Column("qos", "int8", "PUBLISH"),
    Column("dup", "boolean", "PUBLISH"),
    Column("retain", "boolean", "PUBLISH"),
    Column("sequence", "int32", "Packet Identifier, if the packet has one"),
    Column("destination", "string", "PUBLISH: the Topic Name in the packet; a Topic Alias is not resolved"),
    Column("payload", "binary", "PUBLISH"),
    Column("code", "int16", "reason or return code"),
    Column("client_id", "string", "CONNECT: Client Identifier"),
    Column("content_type", "string", "property 3"),
    Column("headers", "map<string,string>", "User Properties: in order, with repeated names; null if there are none"),
    Column("mqtt", struct(FIELDS), "all other fields, as in the message table"),
    Column("error", "string", "why the packet is malformed; then all fields except byte_offset and wire_size are null"),
)
