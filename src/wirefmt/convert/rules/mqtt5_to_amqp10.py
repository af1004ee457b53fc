"""MQTT 5.0 -> AMQP 1.0."""

from __future__ import annotations

from typing import Final

from ..vocabulary import How, When
from .row import Row, Table, dropped, row, type_row

# fmt: off
FIELDS: Final[tuple[Row, ...]] = (
    dropped("dup", "Fixed Header", "Dup", "*",
        "first-acquirer would mean nothing: DUP is between a client and a server, queues say what is redelivered"),
    row("qos",                         "Fixed Header", "QoS",                               "bits",                When.ANY,            "header", "durable",                               "boolean",  How.NOT_0_IS_TRUE,
        "durable is true if QoS > 0"),
    dropped("retain", "Fixed Header", "Retain", "*"),
    dropped("payload-format-indicator", "Variable Header", "Payload Format Indicator", "*",
        "see Payload"),
    row("message-expiry-interval",     "Variable Header", "Message Expiry Interval",        "uint",                When.ANY,            "header", "ttl",                                   "uint",     How.S_TO_MS,
        "seconds to milliseconds"),
    dropped("topic-alias", "Variable Header", "Topic Alias", "*"),
    row("response-topic",              "Variable Header", "Response Topic",                 "utf8",                When.ANY,            "properties", "reply_to",                          "utf8",     How.TOPIC_ADDRESS,
        "the topic as a routing key (RK), the address is /exchanges/X/RK"),
    row("correlation-data-uuid",       "Variable Header", "Correlation Data",               "binary",              When.URN_UUID,       "properties", "correlation_id",                    "uuid",     How.UUID),
    row("correlation-data",            "Variable Header", "Correlation Data",               "binary",              When.ANY,            "properties", "correlation_id",                    "binary",   How.SAME),
    row("user-property-x",             "Variable Header", "User Property[x-*]",             "utf8 pair",           When.KEY_ASCII,      "message annotations", "*",                        "utf8",     How.BY_TYPE,
        "keys are symbols"),
    dropped("user-property-x-not-ascii", "Variable Header", "User Property[x-*]", "utf8 pair", "begins with x- but is not a valid symbol"),
    row("user-property",               "Variable Header", "User Property",                  "utf8 pair",           When.ANY,            "application properties", "*",                     "utf8",     How.BY_TYPE,
        "keys are utf8"),
    dropped("subscription-identifier", "Variable Header", "Subscription Identifier", "*"),
    row("content-type",                "Variable Header", "Content Type",                   "utf8",                When.ASCII,          "properties", "content_type",                      "symbol",   How.SAME,
        "UTF-8 in MQTT, ASCII in AMQP 1.0"),
    row("payload-formatted",           "Payload", "",                                       "binary",              When.FORMATTED,      "amqp.value", "",                                  "utf8",     How.SAME,
        "text, as AMQP strings are UTF-8; stands before the row without a condition"),
    row("payload",                     "Payload", "",                                       "binary",              When.ANY,            "data", "",                                        "binary",   How.SAME),
)

TYPES: Final[tuple[Row, ...]] = (
    type_row("utf8 pair", "utf8 pair", When.ANY, "map", How.FIRST_OF_EACH, "no key twice, the order is kept"),
)
# fmt: on

TABLE: Final = Table("mqtt5", "amqp10", FIELDS, TYPES)
