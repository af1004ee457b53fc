"""AMQP 0.9.1 -> MQTT 5.0."""

from __future__ import annotations

from typing import Final

from ..vocabulary import How, When
from .row import Row, Table, dropped, row, server

# fmt: off
FIELDS: Final[tuple[Row, ...]] = (
    dropped("message_id", "properties", "message_id", "*"),
    row("correlation_id",              "properties", "correlation_id",                      "shortstr",            When.ANY,            "Variable Header", "Correlation Data",             "binary",   How.SAME),
    dropped("user_id", "properties", "user_id", "*"),
    row("expiration",                  "properties", "expiration",                          "shortstr",            When.ANY,            "Variable Header", "Message Expiry Interval",      "uint",     How.MS_TEXT_TO_S,
        "milliseconds to seconds"),
    dropped("type", "properties", "type", "*"),
    dropped("reply_to", "properties", "reply_to", "*"),
    dropped("app_id", "properties", "app_id", "*"),
    dropped("timestamp", "properties", "timestamp", "*"),
    row("content_type",                "properties", "content_type",                        "shortstr",            When.ANY,            "Variable Header", "Content Type",                 "utf8",     How.SAME),
    dropped("content_encoding", "properties", "content_encoding", "*"),
    row("delivery_mode",               "properties", "delivery_mode",                       "octet",               When.ANY,            "Fixed Header", "QoS",                             "bits",     How.TWO_IS_1,
        "2 is QoS 1, 1 is QoS 0"),
    dropped("priority", "properties", "priority", "*"),
    server(dropped("cluster_id", "properties", "cluster_id", "*")),
    server(dropped("headers-bcc", "properties", "headers[BCC]", "*",
        "consumers must not see it")),
    row("headers-reply-to-topic",      "properties", "headers[x-reply-to-topic]",           "longstr",             When.ANY,            "Variable Header", "Response Topic",               "utf8",     How.TOPIC,
        "a routing key as a topic"),
    row("headers-correlation-id",      "properties", "headers[x-correlation-id]",           "longstr",             When.UNSET,          "Variable Header", "Correlation Data",             "binary",   How.SAME),
    row("headers",                     "properties", "headers",                             "* - array, table",    When.ANY,            "Variable Header", "User Property",                "utf8",     How.TEXT,
        "not arrays and tables; simple values as text"),
    dropped("headers-nested", "properties", "headers", "array, table"),
    row("payload",                     "payload", "",                                       "binary",              When.ANY,            "Payload", "",                                     "binary",   How.SAME),
)

TYPES: Final[tuple[Row, ...]] = ()
# fmt: on

TABLE: Final = Table("amqp091", "mqtt5", FIELDS, TYPES)
