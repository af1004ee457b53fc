"""MQTT 5.0 -> AMQP 0.9.1."""

from __future__ import annotations

from typing import Final

from ..vocabulary import How, When
from .row import Row, Table, dropped, row, type_row

# fmt: off
FIELDS: Final[tuple[Row, ...]] = (
    dropped("dup", "Fixed Header", "Dup", "*",
        "redelivered would mean nothing: DUP is between a client and a server, queues say what is redelivered"),
    row("qos",                         "Fixed Header", "QoS",                               "bits",                When.ANY,            "properties", "delivery_mode",                     "octet",    How.NOT_0_IS_2,
        "QoS 0 is delivery_mode 1, QoS 1 is delivery_mode 2"),
    dropped("retain", "Fixed Header", "Retain", "*"),
    dropped("payload-format-indicator", "Variable Header", "Payload Format Indicator", "*",
        "content_encoding is of MIME; content_type would need a subtype of text"),
    row("message-expiry-interval",     "Variable Header", "Message Expiry Interval",        "uint",                When.ANY,            "properties", "expiration",                        "shortstr", How.S_TO_MS_TEXT,
        "seconds to milliseconds"),
    dropped("topic-alias", "Variable Header", "Topic Alias", "*"),
    row("response-topic",              "Variable Header", "Response Topic",                 "utf8",                When.ANY,            "properties", "headers[x-reply-to-topic]",         "longstr",  How.ROUTING_KEY,
        "reply_to is the name of a queue and not of a topic"),
    row("correlation-data",            "Variable Header", "Correlation Data",               "binary",              When.SHORTSTR,       "properties", "correlation_id",                    "shortstr", How.SAME),
    row("correlation-data-long",       "Variable Header", "Correlation Data",               "binary",              When.ANY,            "properties", "headers[x-correlation-id]",         "longstr",  How.SAME),
    row("user-property",               "Variable Header", "User Property",                  "utf8 pair",           When.KEY_SHORTSTR,   "properties", "headers",                           "longstr",  How.BY_TYPE,
        "RabbitMQ has no headers that are short strings"),
    dropped("subscription-identifier", "Variable Header", "Subscription Identifier", "*"),
    row("content-type",                "Variable Header", "Content Type",                   "utf8",                When.SHORTSTR,       "properties", "content_type",                      "shortstr", How.SAME),
    row("payload",                     "Payload", "",                                       "binary",              When.ANY,            "payload", "",                                     "binary",   How.SAME),
)

TYPES: Final[tuple[Row, ...]] = (
    type_row("utf8 pair", "utf8 pair", When.ANY, "table", How.SORTED, "no field twice in a table; sorted by key"),
)
# fmt: on

TABLE: Final = Table("mqtt5", "amqp091", FIELDS, TYPES)
