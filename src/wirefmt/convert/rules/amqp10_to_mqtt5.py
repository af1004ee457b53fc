"""AMQP 1.0 -> MQTT 5.0."""

from __future__ import annotations

from typing import Final

from ..vocabulary import How, When
from .row import Row, Table, dropped, row, server

#: Types whose values become text.
SCALARS: Final = "* - array, list, map, binary"

# fmt: off
FIELDS: Final[tuple[Row, ...]] = (
    row("durable",                     "header", "durable",                                 "boolean",             When.ANY,            "Fixed Header", "QoS",                             "bits",     How.TRUE_1_FALSE_0,
        "true is QoS 1, false is QoS 0"),
    server(row("durable-absent",              "header", "durable",                                 "absent",              When.ANY,            "Fixed Header", "QoS",                             "bits",     How.ONE)),
    server(dropped("priority", "header", "priority", "*")),
    server(dropped("ttl", "header", "ttl", "*")),
    server(dropped("first_acquirer", "header", "first_acquirer", "*")),
    server(dropped("delivery_count", "header", "delivery_count", "*")),
    dropped("message_id", "properties", "message_id", "*"),
    dropped("user_id", "properties", "user_id", "*"),
    dropped("to", "properties", "to", "*"),
    dropped("subject", "properties", "subject", "*"),
    row("reply_to",                    "properties", "reply_to",                            "utf8",                When.MQTT_EXCHANGE,  "Variable Header", "Response Topic",               "utf8",     How.ADDRESS_TOPIC,
        "/exchanges/X/RK, X being mqtt.exchange; the routing key as a topic"),
    row("correlation_id",              "properties", "correlation_id",                      "utf8, binary",        When.ANY,            "Variable Header", "Correlation Data",             "binary",   How.SAME),
    row("correlation_id-uuid",         "properties", "correlation_id",                      "uuid",                When.ANY,            "Variable Header", "Correlation Data",             "binary",   How.URN_UUID),
    row("correlation_id-ulong",        "properties", "correlation_id",                      "ulong",               When.ANY,            "Variable Header", "Correlation Data",             "binary",   How.DECIMAL),
    row("content_type",                "properties", "content_type",                        "symbol",              When.ANY,            "Variable Header", "Content Type",                 "utf8",     How.SAME),
    dropped("content_encoding", "properties", "content_encoding", "*"),
    dropped("absolute_expiry_time", "properties", "absolute_expiry_time", "*"),
    dropped("creation_time", "properties", "creation_time", "*"),
    dropped("group_id", "properties", "group_id", "*"),
    dropped("group_sequence", "properties", "group_sequence", "*"),
    dropped("reply_to_group_id", "properties", "reply_to_group_id", "*"),
    row("application_properties",      "application properties", "*",                       SCALARS,               When.ANY,            "Variable Header", "User Property",                "utf8",     How.TEXT,
        "not of array, list, map or binary; as text"),
    row("annotations-x",               "message annotations", "x-*",                        SCALARS,               When.ANY,            "Variable Header", "User Property",                "utf8",     How.TEXT,
        "x- headers alone, not of array, list, map or binary"),
    server(dropped("delivery_annotations", "delivery annotations", "*", "*")),
    row("data",                        "data", "",                                          "binary",              When.ANY,            "Payload", "",                                     "binary",   How.SAME),
    row("data-multiple",               "data (multiple)", "",                               "*",                   When.ANY,            "Payload", "",                                     "binary",   How.JOINED,
        "one or more data sections"),
    row("amqp.value-binary",           "amqp.value", "",                                    "binary",              When.ANY,            "Payload", "",                                     "binary",   How.SAME),
    row("amqp.value-utf8",             "amqp.value", "",                                    "utf8",                When.UTF8,           "Payload", "",                                     "binary",   How.FORMATTED,
        "Payload Format Indicator 1, so that clients know it as text"),
    row("amqp.value",                  "amqp.value", "",                                    "*",                   When.ANY,            "Payload", "",                                     "binary",   How.AMQP_ENCODED,
        "AMQP 1.0 encoded; Content Type is message/vnd.rabbitmq.amqp"),
    row("amqp.sequence",               "amqp.sequence", "",                                 "*",                   When.ANY,            "Payload", "",                                     "binary",   How.AMQP_ENCODED,
        "AMQP 1.0 encoded; Content Type is message/vnd.rabbitmq.amqp"),
    server(dropped("footer", "footer", "*", "*",
        "where the body is not encoded with it")),
)

TYPES: Final[tuple[Row, ...]] = ()
# fmt: on

TABLE: Final = Table("amqp10", "mqtt5", FIELDS, TYPES)
