"""The vocabulary of the conversion rules: protocols, their fields and types, conditions, and conversions.

It is defined only here. `tools/gen_tables.py` generates the enumerations of the compiled engine from it; rows
(`rules/`), dialects, messages of losses and docs/dialects.md use it by name. A member's position is its number in the engine.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self


class Word(StrEnum):
    """A word of the rules, with a readable text."""

    text: str

    def __new__(cls, name: str, text: str) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.text = text
        return member


class When(Word):
    """The condition of a row."""

    ANY = "ANY", ""
    SHORTSTR = "SHORTSTR", "fewer than 256 bytes of UTF-8 without NUL"
    SHORT = "SHORT", "fewer than 256 bytes"
    OVER_255 = "OVER_255", "more than 255 bytes"
    UTF8 = "UTF8", "UTF-8 without NUL"
    UTF8_4096 = "UTF8_4096", "at most 4096 bytes of UTF-8 without NUL"
    ASCII = "ASCII", "ASCII"
    ASCII_SHORT = "ASCII_SHORT", "fewer than 256 bytes of ASCII"
    URN_UUID = "URN_UUID", "urn:uuid: and a UUID"
    URN_UUID_LOOSE = "URN_UUID_LOOSE", "urn:uuid: and 36 bytes, pairs of hexadecimal digits with dashes anywhere"
    NUMERIC = "NUMERIC", "digits"
    NOT_EXPIRATION = "NOT_EXPIRATION", "not digits, or more milliseconds than ten years"
    FINITE = "FINITE", "neither NaN nor infinite"
    KEY_SHORTSTR = "KEY_SHORTSTR", "key of fewer than 256 bytes of UTF-8 without NUL"
    KEY_SHORT = "KEY_SHORT", "key of fewer than 256 bytes"
    KEY_ASCII = "KEY_ASCII", "key in ASCII"
    QUEUE = "QUEUE", "an address /queues/:queue"
    MQTT_EXCHANGE = "MQTT_EXCHANGE", "an address /exchanges/:exchange/:key of mqtt.exchange"
    JMS_TOPIC = "JMS_TOPIC", "x-opt-jms-reply-to says it is a topic"
    UNSET = "UNSET", "target not set yet"
    FORMATTED = "FORMATTED", "Payload Format Indicator 1"
    AMQP_ENCODED = "AMQP_ENCODED", "the message's type is amqp-1.0"
    OLD_MQTT_EXCHANGE = "OLD_MQTT_EXCHANGE", "an address /exchange/:exchange/:key of mqtt.exchange"


class How(Word):
    """What a row does with a value."""

    DROPPED = "DROPPED", "dropped"
    REFUSED = "REFUSED", "the message is refused"
    SAME = "SAME", "unchanged"
    BY_TYPE = "BY_TYPE", "by the table of types"
    TEXT = "TEXT", "as text"
    URN_UUID = "URN_UUID", "as urn:uuid:..."
    UUID = "UUID", "its 16 bytes"
    NUMBER = "NUMBER", "as a number"
    DECIMAL = "DECIMAL", "as digits"
    MS_TO_S = "MS_TO_S", "milliseconds to seconds"
    S_TO_MS = "S_TO_MS", "seconds to milliseconds"
    S_TO_MS_TEXT = "S_TO_MS_TEXT", "seconds to milliseconds as digits"
    MS_TEXT_TO_S = "MS_TEXT_TO_S", "milliseconds as digits to seconds"
    TRUE_2_FALSE_1 = "TRUE_2_FALSE_1", "true is 2, false 1"
    TRUE_1_FALSE_0 = "TRUE_1_FALSE_0", "true is 1, false 0"
    TWO_IS_TRUE = "TWO_IS_TRUE", "2 is true"
    TWO_IS_1 = "TWO_IS_1", "2 is 1"
    NOT_0_IS_TRUE = "NOT_0_IS_TRUE", "true unless 0"
    NOT_0_IS_2 = "NOT_0_IS_2", "2 unless 0"
    FALSE = "FALSE", "false"
    ONE = "ONE", "1"
    QUEUE_NAME = "QUEUE_NAME", "the queue's name, percent-decoded"
    QUEUE_ADDRESS = "QUEUE_ADDRESS", "the address /queues/:queue, percent-encoded"
    TOPIC_ADDRESS = "TOPIC_ADDRESS", "the address /exchanges/:exchange/:key, the key percent-encoded"
    ADDRESS_TOPIC = "ADDRESS_TOPIC", "the key as topic, percent-decoded"
    ROUTING_KEY = "ROUTING_KEY", "topic to routing key"
    TOPIC = "TOPIC", "routing key to topic"
    OLD_TOPIC_ADDRESS = "OLD_TOPIC_ADDRESS", "the address /exchange/:exchange/:key, not percent-encoded"
    OLD_ADDRESS_TOPIC = "OLD_ADDRESS_TOPIC", "the key as topic"
    JOINED = "JOINED", "all sections joined"
    AMQP_ENCODED = "AMQP_ENCODED", "encoded as AMQP 1.0 and marked as such"
    AMQP_BODY = "AMQP_BODY", "encoded again as AMQP 1.0 without the footer and marked as such"
    FORMATTED = "FORMATTED", "with Payload Format Indicator 1"
    SECTION = "SECTION", "as the whole section"
    SECTIONS = "SECTIONS", "decoded into its sections"
    DEATHS = "DEATHS", "to x-death"
    FIRST_OF_EACH = "FIRST_OF_EACH", "the first value of each key, in order"
    SORTED = "SORTED", "the first value of each key, sorted by key"
    SECTION_TOO = "SECTION_TOO", "as the whole section; the next matching row also applies"


PROTOCOLS: Final = ("amqp10", "amqp091", "mqtt5")

#: By protocol: fields that values come from and go to. Number 0 means no field.
FIELDS: Final = {
    "amqp10": (
        "",
        "header.durable",
        "header.priority",
        "header.ttl",
        "header.first_acquirer",
        "header.delivery_count",
        "properties.message_id",
        "properties.user_id",
        "properties.to",
        "properties.subject",
        "properties.reply_to",
        "properties.correlation_id",
        "properties.content_type",
        "properties.content_encoding",
        "properties.absolute_expiry_time",
        "properties.creation_time",
        "properties.group_id",
        "properties.group_sequence",
        "properties.reply_to_group_id",
        "delivery annotations",
        "message annotations",
        "application properties",
        "data",
        "data (multiple)",
        "amqp.sequence",
        "amqp.value",
        "footer",
    ),
    "amqp091": (
        "",
        "properties.content_type",
        "properties.content_encoding",
        "properties.headers",
        "properties.delivery_mode",
        "properties.priority",
        "properties.correlation_id",
        "properties.reply_to",
        "properties.expiration",
        "properties.message_id",
        "properties.timestamp",
        "properties.type",
        "properties.user_id",
        "properties.app_id",
        "properties.cluster_id",
        "payload",
    ),
    "mqtt5": (
        "",
        "Dup",
        "QoS",
        "Retain",
        "Payload Format Indicator",
        "Message Expiry Interval",
        "Topic Alias",
        "Response Topic",
        "Correlation Data",
        "User Property",
        "Subscription Identifier",
        "Content Type",
        "Payload",
        "Other Property",
    ),
}

#: By protocol: types of values. Number 0 means no type. AMQP 1.0's numbers are those of its type system.
TYPES: Final = {
    "amqp10": (
        "",
        "null",
        "boolean",
        "ubyte",
        "ushort",
        "uint",
        "ulong",
        "byte",
        "short",
        "int",
        "long",
        "float",
        "double",
        "decimal32",
        "decimal64",
        "decimal128",
        "char",
        "timestamp",
        "uuid",
        "binary",
        "utf8",
        "symbol",
        "list",
        "map",
        "array",
        "described",
    ),
    "amqp091": (
        "",
        "bool",
        "byte",
        "ubyte",
        "short",
        "ushort",
        "int",
        "uint",
        "long",
        "float",
        "double",
        "decimal",
        "longstr",
        "array",
        "timestamp",
        "table",
        "void",
        "binary",
        "shortstr",
        "octet",
    ),
    "mqtt5": (
        "",
        "bits",
        "ushort",
        "uint",
        "utf8",
        "binary",
        "utf8 pair",
    ),
}

#: The letters of AMQP 0.9.1's types in field tables, in the order of TYPES; NUL: a type that does not occur in tables.
LETTERS: Final = "\0tbBsuIilfdDSATFVx"

#: Special values of the type column: the field is absent; the key of a table entry.
SPECIAL_TYPES: Final = {"absent": 31, "table.key": 30}
