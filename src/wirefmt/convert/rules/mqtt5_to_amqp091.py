"""MQTT 5.0 -> AMQP 0.9.1."""

from __future__ import annotations

from typing import Final

from .row import (
    ANY,
    BY_TYPE,
    KEY_SHORTSTR,
    NOT_0_IS_2,
    ROUTING_KEY,
    S_TO_MS_TEXT,
    SAME,
    SHORTSTR,
    SORTED,
    Row,
    Table,
    dropped,
    row,
    type_row,
)

# fmt: off
FIELDS: Final[tuple[Row, ...]] = (
    dropped("dup", "Fixed Header", "Dup", "*",
        "redelivered would mean nothing: DUP is between a client and a server, queues say what is redelivered"),
    row("qos",                         "Fixed Header", "QoS",                               "bits",                ANY,            "properties", "delivery_mode",                     "octet",    NOT_0_IS_2,
        "QoS 0 is delivery_mode 1, QoS 1 is delivery_mode 2"),
    dropped("retain", "Fixed Header", "Retain", "*"),
    dropped("payload-format-indicator", "Variable Header", "Payload Format Indicator", "*",
        "content_encoding is of MIME; content_type would need a subtype of text"),
    row("message-expiry-interval",     "Variable Header", "Message Expiry Interval",        "uint",                ANY,            "properties", "expiration",                        "shortstr", S_TO_MS_TEXT,
        "seconds to milliseconds"),
    dropped("topic-alias", "Variable Header", "Topic Alias", "*"),
    row("response-topic",              "Variable Header", "Response Topic",                 "utf8",                ANY,            "properties", "headers[x-reply-to-topic]",         "longstr",  ROUTING_KEY,
        "reply_to is the name of a queue and not of a topic"),
    row("correlation-data",            "Variable Header", "Correlation Data",               "binary",              SHORTSTR,       "properties", "correlation_id",                    "shortstr", SAME),
    row("correlation-data-long",       "Variable Header", "Correlation Data",               "binary",              ANY,            "properties", "headers[x-correlation-id]",         "longstr",  SAME),
    row("user-property",               "Variable Header", "User Property",                  "utf8 pair",           KEY_SHORTSTR,   "properties", "headers",                           "longstr",  BY_TYPE,
        "RabbitMQ has no headers that are short strings"),
    dropped("subscription-identifier", "Variable Header", "Subscription Identifier", "*"),
    row("content-type",                "Variable Header", "Content Type",                   "utf8",                SHORTSTR,       "properties", "content_type",                      "shortstr", SAME),
    row("payload",                     "Payload", "",                                       "binary",              ANY,            "payload", "",                                     "binary",   SAME),
)

TYPES: Final[tuple[Row, ...]] = (
    type_row("utf8 pair", "utf8 pair", ANY, "table", SORTED, "no field twice in a table; sorted by key"),
)
# fmt: on

TABLE: Final = Table("mqtt5", "amqp091", FIELDS, TYPES)
