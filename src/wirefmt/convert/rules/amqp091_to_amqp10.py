"""AMQP 0.9.1 -> AMQP 1.0."""

from __future__ import annotations

from typing import Final

from ..vocabulary import How, When
from .row import Row, Table, dropped, row, server, type_row

# fmt: off
FIELDS: Final[tuple[Row, ...]] = (
    #   id                        AMQP 0.9.1 section, field                         type               when      AMQP section, field                          type         how
    row("message_id-uuid",        "properties", "message_id",                       "shortstr",        When.URN_UUID, "properties", "message_id",                   "uuid",      How.UUID),
    row("message_id",             "properties", "message_id",                       "shortstr",        When.ANY,      "properties", "message_id",                   "utf8",      How.SAME),
    row("correlation_id-uuid",    "properties", "correlation_id",                   "shortstr",        When.URN_UUID, "properties", "correlation_id",               "uuid",      How.UUID),
    row("correlation_id",         "properties", "correlation_id",                   "shortstr",        When.ANY,      "properties", "correlation_id",               "utf8",      How.SAME),
    row("user_id",                "properties", "user_id",                          "shortstr",        When.ANY,      "properties", "user_id",                      "binary",    How.SAME),
    row("expiration",             "properties", "expiration",                       "shortstr",        When.NUMERIC,  "header", "ttl",                              "uint",      How.NUMBER,
        "if it can be converted to a number"),
    row("type",                   "properties", "type",                             "shortstr",        When.ANY,      "message annotations", "x-basic-type",        "utf8",      How.BY_TYPE),
    row("reply_to",               "properties", "reply_to",                         "shortstr",        When.ANY,      "properties", "reply_to",                     "utf8",      How.SAME),
    row("app_id",                 "properties", "app_id",                           "shortstr",        When.ANY,      "properties", "group_id",                     "utf8",      How.SAME),
    row("timestamp",              "properties", "timestamp",                        "timestamp",       When.ANY,      "properties", "creation_time",                "timestamp", How.S_TO_MS,
        "to milliseconds"),
    row("content_type",           "properties", "content_type",                     "shortstr",        When.ANY,      "properties", "content_type",                 "symbol",    How.SAME),
    row("content_encoding",       "properties", "content_encoding",                 "shortstr",        When.ANY,      "properties", "content_encoding",             "symbol",    How.SAME),
    row("delivery_mode",          "properties", "delivery_mode",                    "octet",           When.ANY,      "header", "durable",                          "boolean",   How.TWO_IS_TRUE,
        "formerly in x-basic-delivery-mode"),
    server(row("delivery_mode-absent", "properties", "delivery_mode",               "absent",          When.ANY,      "header", "durable",                          "boolean",   How.FALSE)),
    row("priority",               "properties", "priority",                         "octet",           When.ANY,      "header", "priority",                         "ubyte",     How.SAME,
        "formerly in x-basic-priority"),
    server(dropped("cluster_id", "properties", "cluster_id", "*")),
    server(dropped("headers-bcc", "properties", "headers[BCC]", "*", "consumers must not see it")),
    row("headers-amqp-properties", "properties", "headers[x-amqp-1.0-properties]",  "longstr, binary", When.ANY,      "properties", "message_id",                   "",          How.SECTION,
        "a header of the old 1.0 plugin: all properties"),
    row("headers-amqp-application-properties", "properties", "headers[x-amqp-1.0-application-properties]", "longstr, binary", When.ANY, "application properties", "*", "",    How.SECTION,
        "a header of the old 1.0 plugin"),
    row("headers-amqp-annotations", "properties", "headers[x-amqp-1.0-message-annotations]", "longstr, binary", When.ANY, "message annotations", "*",              "",          How.SECTION,
        "a header of the old 1.0 plugin"),
    row("headers-x",              "properties", "headers[x-*]",                     "*",               When.ANY,      "message annotations", "*",                   "*",         How.BY_TYPE),
    row("headers",                "properties", "headers",                          "* - array, table", When.ANY,     "application properties", "*",                "*",         How.BY_TYPE),
    dropped("headers-nested",     "properties", "headers",                          "array, table"),
    row("payload",                "payload", "",                                    "binary",          When.ANY,      "data", "",                                   "binary",    How.SAME),
)

TYPES: Final[tuple[Row, ...]] = (
    type_row("longstr",   "longstr",   When.SHORTSTR, "utf8",      How.SAME, "a trade of speed for fidelity"),
    type_row("longstr-binary", "longstr", When.ANY,   "binary",    How.SAME),
    type_row("long",      "long",      When.ANY,      "long",      How.SAME),
    type_row("ubyte",     "ubyte",     When.ANY,      "ubyte",     How.SAME),
    type_row("short",     "short",     When.ANY,      "short",     How.SAME),
    type_row("ushort",    "ushort",    When.ANY,      "ushort",    How.SAME),
    type_row("uint",      "uint",      When.ANY,      "uint",      How.SAME),
    type_row("int",       "int",       When.ANY,      "int",       How.SAME),
    type_row("double",    "double",    When.ANY,      "double",    How.SAME),
    type_row("float",     "float",     When.ANY,      "float",     How.SAME),
    type_row("bool",      "bool",      When.ANY,      "boolean",   How.SAME),
    type_row("binary",    "binary",    When.ANY,      "binary",    How.SAME),
    type_row("timestamp", "timestamp", When.ANY,      "timestamp", How.S_TO_MS, "to milliseconds"),
    type_row("byte",      "byte",      When.ANY,      "byte",      How.SAME),
    type_row("void",      "void",      When.ANY,      "null",      How.SAME),
    type_row("array",     "array",     When.ANY,      "list",      How.BY_TYPE),
    type_row("table",     "table",     When.ANY,      "map",       How.BY_TYPE),
    row("table.key-x",    "", "x-*", "table.key", When.ANY, "", "", "symbol", How.SAME, "keys of x- headers"),
    type_row("table.key", "table.key", When.ANY,      "utf8",      How.SAME),
    server(type_row("shortstr", "shortstr", When.ANY, "utf8",      How.SAME, "of type")),
)
# fmt: on

TABLE: Final = Table("amqp091", "amqp10", FIELDS, TYPES)
