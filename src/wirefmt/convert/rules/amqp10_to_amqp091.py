"""AMQP 1.0 -> AMQP 0.9.1."""

from __future__ import annotations

from typing import Final

from ..vocabulary import How, When
from .row import Row, Table, dropped, row, server, type_row

# fmt: off
FIELDS: Final[tuple[Row, ...]] = (
    #   id                        AMQP section, field                              type          when          AMQP 0.9.1 section, field                    type         how
    row("durable",                "header", "durable",                             "boolean",    When.ANY,          "properties", "delivery_mode",               "octet",     How.TRUE_2_FALSE_1),
    row("priority",               "header", "priority",                            "ubyte",      When.ANY,          "properties", "priority",                    "octet",     How.SAME),
    row("ttl",                    "header", "ttl",                                 "uint",       When.ANY,          "properties", "expiration",                  "shortstr",  How.DECIMAL,
        "milliseconds as text"),
    server(dropped("first_acquirer", "header", "first_acquirer", "*")),
    server(dropped("delivery_count", "header", "delivery_count", "*")),
    row("message_id-utf8",        "properties", "message_id",                      "utf8",       When.SHORTSTR,     "properties", "message_id",                  "shortstr",  How.SAME),
    row("message_id-utf8-long",   "properties", "message_id",                      "utf8",       When.OVER_255,     "properties", "headers[x-message-id]",       "longstr",   How.SAME),
    row("message_id-uuid",        "properties", "message_id",                      "uuid",       When.ANY,          "properties", "message_id",                  "shortstr",  How.URN_UUID,
        "as text, for example urn:uuid:550e8400-e29b-41d4-a716-446655440000"),
    row("message_id-ulong",       "properties", "message_id",                      "ulong",      When.ANY,          "properties", "message_id",                  "shortstr",  How.DECIMAL, "as text"),
    row("message_id-binary",      "properties", "message_id",                      "binary",     When.ANY,          "properties", "headers[x-message-id]",       "binary",    How.SAME),
    row("user_id",                "properties", "user_id",                         "binary",     When.SHORTSTR,     "properties", "user_id",                     "shortstr",  How.SAME),
    dropped("to",                 "properties", "to",                              "*"),
    dropped("subject",            "properties", "subject",                         "*"),
    row("reply_to",               "properties", "reply_to",                        "utf8",       When.SHORTSTR,     "properties", "reply_to",                    "shortstr",  How.SAME),
    row("correlation_id-utf8",    "properties", "correlation_id",                  "utf8",       When.SHORTSTR,     "properties", "correlation_id",              "shortstr",  How.SAME),
    row("correlation_id-utf8-long", "properties", "correlation_id",                "utf8",       When.OVER_255,     "properties", "headers[x-correlation-id]",   "longstr",   How.SAME),
    row("correlation_id-uuid",    "properties", "correlation_id",                  "uuid",       When.ANY,          "properties", "correlation_id",              "shortstr",  How.URN_UUID,
        "as text, for example urn:uuid:550e8400-e29b-41d4-a716-446655440000"),
    row("correlation_id-ulong",   "properties", "correlation_id",                  "ulong",      When.ANY,          "properties", "correlation_id",              "shortstr",  How.DECIMAL, "as text"),
    row("correlation_id-binary",  "properties", "correlation_id",                  "binary",     When.ANY,          "properties", "headers[x-correlation-id]",   "binary",    How.SAME),
    row("content_type",           "properties", "content_type",                    "symbol",     When.ANY,          "properties", "content_type",                "shortstr",  How.SAME),
    row("content_encoding",       "properties", "content_encoding",                "symbol",     When.ANY,          "properties", "content_encoding",            "shortstr",  How.SAME),
    dropped("absolute_expiry_time", "properties", "absolute_expiry_time",          "*"),
    row("creation_time",          "properties", "creation_time",                   "timestamp",  When.ANY,          "properties", "timestamp",                   "timestamp", How.MS_TO_S, "to seconds"),
    row("group_id",               "properties", "group_id",                        "utf8",       When.SHORTSTR,     "properties", "app_id",                      "shortstr",  How.SAME),
    dropped("group_sequence",     "properties", "group_sequence",                  "*"),
    dropped("reply_to_group_id",  "properties", "reply_to_group_id",               "*"),
    row("application_properties", "application properties", "*",                   "*",          When.KEY_SHORTSTR, "properties", "headers",                     "*",         How.BY_TYPE),
    row("annotations-x-cc",       "message annotations", "x-cc",                   "*",          When.ANY,          "properties", "headers[CC]",                 "longstr",   How.BY_TYPE,
        "a list of strings becomes an array of them"),
    row("annotations-x",          "message annotations", "x-*",                    "*",          When.KEY_SHORTSTR, "properties", "headers",                     "*",         How.BY_TYPE,
        "usually these are x- headers"),
    server(dropped("delivery_annotations", "delivery annotations", "*", "*")),
    row("data",                   "data", "",                                      "binary",     When.ANY,          "payload", "",                               "binary",    How.SAME, "one data section"),
    row("data-multiple",          "data (multiple)", "",                           "*",          When.ANY,          "payload", "",                               "binary",    How.AMQP_ENCODED,
        "AMQP 1.0 encoded; type is amqp-1.0"),
    row("amqp.value",             "amqp.value", "",                                "*",          When.ANY,          "payload", "",                               "binary",    How.AMQP_ENCODED,
        "AMQP 1.0 encoded; type is amqp-1.0"),
    row("amqp.sequence",          "amqp.sequence", "",                             "*",          When.ANY,          "payload", "",                               "binary",    How.AMQP_ENCODED,
        "AMQP 1.0 encoded; type is amqp-1.0"),
    server(dropped("footer", "footer", "*", "*", "after data sections; other bodies are encoded with it")),
)

TYPES: Final[tuple[Row, ...]] = (
    type_row("utf8",      "utf8",      When.ANY,    "longstr",   How.SAME, "RabbitMQ has no headers that are short strings"),
    type_row("binary",    "binary",    When.ANY,    "binary",    How.SAME),
    type_row("long",      "long",      When.ANY,    "long",      How.SAME),
    type_row("ulong",     "ulong",     When.ANY,    "long",      How.SAME, "may overflow"),
    type_row("ubyte",     "ubyte",     When.ANY,    "ubyte",     How.SAME),
    type_row("short",     "short",     When.ANY,    "short",     How.SAME),
    type_row("ushort",    "ushort",    When.ANY,    "ushort",    How.SAME),
    type_row("uint",      "uint",      When.ANY,    "uint",      How.SAME),
    type_row("int",       "int",       When.ANY,    "int",       How.SAME),
    type_row("double",    "double",    When.FINITE, "double",    How.SAME),
    type_row("float",     "float",     When.FINITE, "float",     How.SAME),
    dropped("decimal", "", "", "decimal32, decimal64, decimal128", "values of these types are not converted"),
    type_row("boolean",   "boolean",   When.ANY,    "bool",      How.SAME),
    type_row("timestamp", "timestamp", When.ANY,    "timestamp", How.MS_TO_S, "divided by 1000"),
    type_row("byte",      "byte",      When.ANY,    "byte",      How.SAME),
    type_row("null",      "null",      When.ANY,    "void",      How.SAME),
    type_row("list",      "list",      When.ANY,    "array",     How.BY_TYPE),
    type_row("map",       "map",       When.ANY,    "table",     How.BY_TYPE),
    type_row("symbol",    "symbol",    When.ANY,    "longstr",   How.SAME),
    server(type_row("array", "array",  When.ANY,    "array",     How.BY_TYPE)),
)
# fmt: on

TABLE: Final = Table("amqp10", "amqp091", FIELDS, TYPES)
