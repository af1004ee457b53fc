"""AMQP 0.9.1 -> AMQP 1.0."""

from __future__ import annotations

from typing import Final

from .row import (
    ANY,
    BY_TYPE,
    FALSE,
    NUMBER,
    NUMERIC,
    S_TO_MS,
    SAME,
    SECTION,
    SHORTSTR,
    TWO_IS_TRUE,
    URN_UUID,
    UUID,
    Row,
    Table,
    dropped,
    row,
    server,
    type_row,
)

# fmt: off
FIELDS: Final[tuple[Row, ...]] = (
    #   id                        AMQP 0.9.1 section, field                         type               when      AMQP section, field                          type         how
    row("message_id-uuid",        "properties", "message_id",                       "shortstr",        URN_UUID, "properties", "message_id",                   "uuid",      UUID),
    row("message_id",             "properties", "message_id",                       "shortstr",        ANY,      "properties", "message_id",                   "utf8",      SAME),
    row("correlation_id-uuid",    "properties", "correlation_id",                   "shortstr",        URN_UUID, "properties", "correlation_id",               "uuid",      UUID),
    row("correlation_id",         "properties", "correlation_id",                   "shortstr",        ANY,      "properties", "correlation_id",               "utf8",      SAME),
    row("user_id",                "properties", "user_id",                          "shortstr",        ANY,      "properties", "user_id",                      "binary",    SAME),
    row("expiration",             "properties", "expiration",                       "shortstr",        NUMERIC,  "header", "ttl",                              "uint",      NUMBER,
        "if it can be converted to a number"),
    row("type",                   "properties", "type",                             "shortstr",        ANY,      "message annotations", "x-basic-type",        "utf8",      BY_TYPE),
    row("reply_to",               "properties", "reply_to",                         "shortstr",        ANY,      "properties", "reply_to",                     "utf8",      SAME),
    row("app_id",                 "properties", "app_id",                           "shortstr",        ANY,      "properties", "group_id",                     "utf8",      SAME),
    row("timestamp",              "properties", "timestamp",                        "timestamp",       ANY,      "properties", "creation_time",                "timestamp", S_TO_MS,
        "to milliseconds"),
    row("content_type",           "properties", "content_type",                     "shortstr",        ANY,      "properties", "content_type",                 "symbol",    SAME),
    row("content_encoding",       "properties", "content_encoding",                 "shortstr",        ANY,      "properties", "content_encoding",             "symbol",    SAME),
    row("delivery_mode",          "properties", "delivery_mode",                    "octet",           ANY,      "header", "durable",                          "boolean",   TWO_IS_TRUE,
        "formerly in x-basic-delivery-mode"),
    server(row("delivery_mode-absent", "properties", "delivery_mode",               "absent",          ANY,      "header", "durable",                          "boolean",   FALSE)),
    row("priority",               "properties", "priority",                         "octet",           ANY,      "header", "priority",                         "ubyte",     SAME,
        "formerly in x-basic-priority"),
    server(dropped("cluster_id", "properties", "cluster_id", "*")),
    server(dropped("headers-bcc", "properties", "headers[BCC]", "*", "nobody may see it")),
    row("headers-amqp-properties", "properties", "headers[x-amqp-1.0-properties]",  "longstr, binary", ANY,      "properties", "message_id",                   "",          SECTION,
        "a header of the old 1.0 plugin: all properties"),
    row("headers-amqp-application-properties", "properties", "headers[x-amqp-1.0-application-properties]", "longstr, binary", ANY, "application properties", "*", "",    SECTION,
        "a header of the old 1.0 plugin"),
    row("headers-amqp-annotations", "properties", "headers[x-amqp-1.0-message-annotations]", "longstr, binary", ANY, "message annotations", "*",              "",          SECTION,
        "a header of the old 1.0 plugin"),
    row("headers-x",              "properties", "headers[x-*]",                     "*",               ANY,      "message annotations", "*",                   "*",         BY_TYPE),
    row("headers",                "properties", "headers",                          "* - array, table", ANY,     "application properties", "*",                "*",         BY_TYPE),
    dropped("headers-nested",     "properties", "headers",                          "array, table"),
    row("payload",                "payload", "",                                    "binary",          ANY,      "data", "",                                   "binary",    SAME),
)

TYPES: Final[tuple[Row, ...]] = (
    type_row("longstr",   "longstr",   SHORTSTR, "utf8",      SAME, "a trade of speed for fidelity"),
    type_row("longstr-binary", "longstr", ANY,   "binary",    SAME),
    type_row("long",      "long",      ANY,      "long",      SAME),
    type_row("ubyte",     "ubyte",     ANY,      "ubyte",     SAME),
    type_row("short",     "short",     ANY,      "short",     SAME),
    type_row("ushort",    "ushort",    ANY,      "ushort",    SAME),
    type_row("uint",      "uint",      ANY,      "uint",      SAME),
    type_row("int",       "int",       ANY,      "int",       SAME),
    type_row("double",    "double",    ANY,      "double",    SAME),
    type_row("float",     "float",     ANY,      "float",     SAME),
    type_row("bool",      "bool",      ANY,      "boolean",   SAME),
    type_row("binary",    "binary",    ANY,      "binary",    SAME),
    type_row("timestamp", "timestamp", ANY,      "timestamp", S_TO_MS, "to milliseconds"),
    type_row("byte",      "byte",      ANY,      "byte",      SAME),
    type_row("void",      "void",      ANY,      "null",      SAME),
    type_row("array",     "array",     ANY,      "list",      BY_TYPE),
    type_row("table",     "table",     ANY,      "map",       BY_TYPE),
    row("table.key-x",    "", "x-*", "table.key", ANY, "", "", "symbol", SAME, "keys of x- headers"),
    type_row("table.key", "table.key", ANY,      "utf8",      SAME),
    server(type_row("shortstr", "shortstr", ANY, "utf8",      SAME, "of type")),
)
# fmt: on

TABLE: Final = Table("amqp091", "amqp10", FIELDS, TYPES)
