"""MQTT 5.0 -> AMQP 1.0."""

from __future__ import annotations

from typing import Final

from .row import (
    ANY,
    ASCII,
    BY_TYPE,
    FIRST_OF_EACH,
    FORMATTED,
    KEY_ASCII,
    NOT_0_IS_TRUE,
    S_TO_MS,
    SAME,
    TOPIC_ADDRESS,
    URN_UUID,
    UUID,
    Row,
    Table,
    dropped,
    row,
    type_row,
)

# fmt: off
FIELDS: Final[tuple[Row, ...]] = (
    dropped("dup", "Fixed Header", "Dup", "*",
        "first-acquirer would mean nothing: DUP is between a client and a server, queues say what is redelivered"),
    row("qos",                         "Fixed Header", "QoS",                               "bits",                ANY,            "header", "durable",                               "boolean",  NOT_0_IS_TRUE,
        "durable is true if QoS > 0"),
    dropped("retain", "Fixed Header", "Retain", "*"),
    dropped("payload-format-indicator", "Variable Header", "Payload Format Indicator", "*",
        "see Payload"),
    row("message-expiry-interval",     "Variable Header", "Message Expiry Interval",        "uint",                ANY,            "header", "ttl",                                   "uint",     S_TO_MS,
        "seconds to milliseconds"),
    dropped("topic-alias", "Variable Header", "Topic Alias", "*"),
    row("response-topic",              "Variable Header", "Response Topic",                 "utf8",                ANY,            "properties", "reply_to",                          "utf8",     TOPIC_ADDRESS,
        "the topic as a routing key (RK), the address is /exchanges/X/RK"),
    row("correlation-data-uuid",       "Variable Header", "Correlation Data",               "binary",              URN_UUID,       "properties", "correlation_id",                    "uuid",     UUID),
    row("correlation-data",            "Variable Header", "Correlation Data",               "binary",              ANY,            "properties", "correlation_id",                    "binary",   SAME),
    row("user-property-x",             "Variable Header", "User Property[x-*]",             "utf8 pair",           KEY_ASCII,      "message annotations", "*",                        "utf8",     BY_TYPE,
        "keys are symbols"),
    dropped("user-property-x-not-ascii", "Variable Header", "User Property[x-*]", "utf8 pair", "cannot be a symbol, and does begin with x-"),
    row("user-property",               "Variable Header", "User Property",                  "utf8 pair",           ANY,            "application properties", "*",                     "utf8",     BY_TYPE,
        "keys are utf8"),
    dropped("subscription-identifier", "Variable Header", "Subscription Identifier", "*"),
    row("content-type",                "Variable Header", "Content Type",                   "utf8",                ASCII,          "properties", "content_type",                      "symbol",   SAME,
        "UTF-8 in MQTT, ASCII in AMQP 1.0"),
    row("payload-formatted",           "Payload", "",                                       "binary",              FORMATTED,      "amqp.value", "",                                  "utf8",     SAME,
        "text, as AMQP strings are UTF-8; stands before the row without a condition"),
    row("payload",                     "Payload", "",                                       "binary",              ANY,            "data", "",                                        "binary",   SAME),
)

TYPES: Final[tuple[Row, ...]] = (
    type_row("utf8 pair", "utf8 pair", ANY, "map", FIRST_OF_EACH, "no key twice, the order is kept"),
)
# fmt: on

TABLE: Final = Table("mqtt5", "amqp10", FIELDS, TYPES)
