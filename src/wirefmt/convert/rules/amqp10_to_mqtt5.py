"""AMQP 1.0 -> MQTT 5.0."""

from __future__ import annotations

from typing import Final

from .row import (
    ADDRESS_TOPIC,
    AMQP_ENCODED_BODY,
    ANY,
    DECIMAL,
    JOINED,
    MQTT_EXCHANGE,
    ONE,
    SAME,
    TEXT,
    TEXT_PAYLOAD,
    TRUE_1_FALSE_0,
    URN,
    UTF8,
    Row,
    Table,
    dropped,
    row,
    server,
)

#: types whose values become text
SCALARS: Final = "* - array, list, map, binary"

# fmt: off
FIELDS: Final[tuple[Row, ...]] = (
    row("durable",                     "header", "durable",                                 "boolean",             ANY,            "Fixed Header", "QoS",                             "bits",     TRUE_1_FALSE_0,
        "true is QoS 1, false is QoS 0"),
    server(row("durable-absent",              "header", "durable",                                 "absent",              ANY,            "Fixed Header", "QoS",                             "bits",     ONE)),
    server(dropped("priority", "header", "priority", "*")),
    server(dropped("ttl", "header", "ttl", "*")),
    server(dropped("first_acquirer", "header", "first_acquirer", "*")),
    server(dropped("delivery_count", "header", "delivery_count", "*")),
    dropped("message_id", "properties", "message_id", "*"),
    dropped("user_id", "properties", "user_id", "*"),
    dropped("to", "properties", "to", "*"),
    dropped("subject", "properties", "subject", "*"),
    row("reply_to",                    "properties", "reply_to",                            "utf8",                MQTT_EXCHANGE,  "Variable Header", "Response Topic",               "utf8",     ADDRESS_TOPIC,
        "/exchanges/X/RK, X being mqtt.exchange; the routing key as a topic"),
    row("correlation_id",              "properties", "correlation_id",                      "utf8, binary",        ANY,            "Variable Header", "Correlation Data",             "binary",   SAME),
    row("correlation_id-uuid",         "properties", "correlation_id",                      "uuid",                ANY,            "Variable Header", "Correlation Data",             "binary",   URN),
    row("correlation_id-ulong",        "properties", "correlation_id",                      "ulong",               ANY,            "Variable Header", "Correlation Data",             "binary",   DECIMAL),
    row("content_type",                "properties", "content_type",                        "symbol",              ANY,            "Variable Header", "Content Type",                 "utf8",     SAME),
    dropped("content_encoding", "properties", "content_encoding", "*"),
    dropped("absolute_expiry_time", "properties", "absolute_expiry_time", "*"),
    dropped("creation_time", "properties", "creation_time", "*"),
    dropped("group_id", "properties", "group_id", "*"),
    dropped("group_sequence", "properties", "group_sequence", "*"),
    dropped("reply_to_group_id", "properties", "reply_to_group_id", "*"),
    row("application_properties",      "application properties", "*",                       SCALARS,               ANY,            "Variable Header", "User Property",                "utf8",     TEXT,
        "not of array, list, map or binary; as text"),
    row("annotations-x",               "message annotations", "x-*",                        SCALARS,               ANY,            "Variable Header", "User Property",                "utf8",     TEXT,
        "x- headers alone, not of array, list, map or binary"),
    server(dropped("delivery_annotations", "delivery annotations", "*", "*")),
    row("data",                        "data", "",                                          "binary",              ANY,            "Payload", "",                                     "binary",   SAME),
    row("data-multiple",               "data (multiple)", "",                               "*",                   ANY,            "Payload", "",                                     "binary",   JOINED,
        "one or more data sections"),
    row("amqp.value-binary",           "amqp.value", "",                                    "binary",              ANY,            "Payload", "",                                     "binary",   SAME),
    row("amqp.value-utf8",             "amqp.value", "",                                    "utf8",                UTF8,           "Payload", "",                                     "binary",   TEXT_PAYLOAD,
        "Payload Format Indicator 1, so that clients know it as text"),
    row("amqp.value",                  "amqp.value", "",                                    "*",                   ANY,            "Payload", "",                                     "binary",   AMQP_ENCODED_BODY,
        "AMQP 1.0 encoded; Content Type is message/vnd.rabbitmq.amqp"),
    row("amqp.sequence",               "amqp.sequence", "",                                 "*",                   ANY,            "Payload", "",                                     "binary",   AMQP_ENCODED_BODY,
        "AMQP 1.0 encoded; Content Type is message/vnd.rabbitmq.amqp"),
    server(dropped("footer", "footer", "*", "*",
        "where the body is not encoded with it")),
)

TYPES: Final[tuple[Row, ...]] = ()
# fmt: on

TABLE: Final = Table("amqp10", "mqtt5", FIELDS, TYPES)
