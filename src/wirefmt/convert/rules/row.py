"""What a row of the conversion tables is, and the words it is written in.

A row says, in the order of the published tables' columns: section, field and type of the source; the condition; section, field
and type of the target; and how. Rows of one field are tried in their order and the first whose condition holds converts the
value; if none does, the value is not converted. `*` is any.

Types of the source may be several ("list, map"), all but some ("* - array, binary"), or `absent`: what to do where the field is
not there. A field of headers, annotations and properties is a key: `*`, `x-*` (keys that begin so) or a whole key; of AMQP 0.9.1
and MQTT it stands in brackets, as in `headers[x-*]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Source = Literal["document", "server"]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table of fields or, where `section` is empty, of a table of types."""

    id: str
    section: str
    field: str
    type: str
    when: str
    to_section: str
    to_field: str
    to_type: str
    how: str
    note: str = ""
    source: Source = "document"  # "server": the document says nothing, the row is what RabbitMQ does


# conditions
ANY: Final = "ANY"
SHORTSTR: Final = "SHORTSTR"  # fewer than 256 octets, valid UTF-8, no NUL
SHORT: Final = "SHORT"  # fewer than 256 octets
OVER_255: Final = "OVER_255"
UTF8: Final = "UTF8"  # valid, no NUL
UTF8_4096: Final = "UTF8_4096"  # ... and at most 4096 octets
ASCII: Final = "ASCII"
ASCII_SHORT: Final = "ASCII_SHORT"
URN_UUID: Final = "URN_UUID"  # urn:uuid: and 8-4-4-4-12 hexadecimal digits
URN_UUID_LOOSE: Final = (
    "URN_UUID_LOOSE"  # urn:uuid: and 36 octets: pairs of hexadecimal digits, dashes anywhere between
)
NUMERIC: Final = "NUMERIC"  # digits, perhaps behind a plus
NOT_EXPIRATION: Final = "NOT_EXPIRATION"  # no such number, or one of more than ten years in milliseconds
FINITE: Final = "FINITE"  # neither NaN nor infinite
KEY_SHORTSTR: Final = "KEY_SHORTSTR"
KEY_SHORT: Final = "KEY_SHORT"
KEY_ASCII: Final = "KEY_ASCII"
QUEUE: Final = "QUEUE"  # the address /queues/:queue
MQTT_EXCHANGE: Final = "MQTT_EXCHANGE"  # the address /exchanges/:exchange/:key, the exchange being mqtt.exchange
JMS_TOPIC: Final = "JMS_TOPIC"  # the annotation x-opt-jms-reply-to says: a topic
UNSET: Final = "UNSET"  # nothing has gone to the target yet
FORMATTED: Final = "FORMATTED"  # Payload Format Indicator 1
OLD_MQTT_EXCHANGE: Final = "OLD_MQTT_EXCHANGE"  # the address /exchange/:exchange/:key, the exchange being mqtt.exchange
AMQP_ENCODED: Final = "AMQP_ENCODED"  # the message's type is amqp-1.0

# conversions
DROPPED: Final = "DROPPED"
REFUSED: Final = "REFUSED"  # the whole message
SAME: Final = "SAME"
BY_TYPE: Final = "BY_TYPE"  # by the table of types
TEXT: Final = "TEXT"
URN: Final = "URN_UUID"  # 16 octets to urn:uuid:...
UUID: Final = "UUID"  # and back
NUMBER: Final = "NUMBER"  # digits to a number
DECIMAL: Final = "DECIMAL"  # and back
MS_TO_S: Final = "MS_TO_S"
S_TO_MS: Final = "S_TO_MS"
S_TO_MS_TEXT: Final = "S_TO_MS_TEXT"
MS_TEXT_TO_S: Final = "MS_TEXT_TO_S"
TRUE_2_FALSE_1: Final = "TRUE_2_FALSE_1"
TRUE_1_FALSE_0: Final = "TRUE_1_FALSE_0"
TWO_IS_TRUE: Final = "TWO_IS_TRUE"
TWO_IS_1: Final = "TWO_IS_1"
NOT_0_IS_TRUE: Final = "NOT_0_IS_TRUE"
NOT_0_IS_2: Final = "NOT_0_IS_2"
FALSE: Final = "FALSE"
ONE: Final = "ONE"
QUEUE_NAME: Final = "QUEUE_NAME"  # /queues/:queue to the queue's name, percent-decoded
QUEUE_ADDRESS: Final = "QUEUE_ADDRESS"  # and back
TOPIC_ADDRESS: Final = "TOPIC_ADDRESS"  # MQTT topic to /exchanges/:exchange/:key, the key percent-encoded
ADDRESS_TOPIC: Final = "ADDRESS_TOPIC"  # and back
OLD_TOPIC_ADDRESS: Final = "OLD_TOPIC_ADDRESS"  # MQTT topic to /exchange/:exchange/:key, as it is
OLD_ADDRESS_TOPIC: Final = "OLD_ADDRESS_TOPIC"  # and back
ROUTING_KEY: Final = "ROUTING_KEY"  # MQTT topic to routing key: / is ., + is *
TOPIC: Final = "TOPIC"  # and back
JOINED: Final = "JOINED"  # all data sections as one
AMQP_ENCODED_BODY: Final = (
    "AMQP_ENCODED"  # body sections and footer as they are encoded; the target says that they are AMQP
)
AMQP_BODY: Final = "AMQP_BODY"  # ... written anew, without the footer
TEXT_PAYLOAD: Final = "FORMATTED"  # text, and Payload Format Indicator 1
SECTION: Final = "SECTION"  # octets that are a whole section of AMQP 1.0
SECTION_TOO: Final = "SECTION_TOO"  # ... and the next row has the value as well
SECTIONS: Final = "SECTIONS"  # octets that are sections of AMQP 1.0
DEATHS: Final = "DEATHS"  # x-opt-deaths to x-death
FIRST_OF_EACH: Final = "FIRST_OF_EACH"  # of pairs with one key the first, in their order
SORTED: Final = "SORTED"  # of pairs with one key the first, by key


def row(
    id: str,
    section: str,
    field: str,
    type: str,
    when: str,
    to_section: str,
    to_field: str,
    to_type: str,
    how: str,
    note: str = "",
) -> Row:
    """A row of the document."""
    return Row(id, section, field, type, when, to_section, to_field, to_type, how, note)


def dropped(id: str, section: str, field: str, type: str, note: str = "") -> Row:
    """A row of the document that converts nothing."""
    return Row(id, section, field, type, ANY, "", "", "", DROPPED, note)


def type_row(id: str, type: str, when: str, to_type: str, how: str, note: str = "") -> Row:
    """A row of a table of types."""
    return Row(id, "", "", type, when, "", "", to_type, how, note)


def server(row: Row) -> Row:
    """The same row, but the document says nothing of it."""
    return Row(
        row.id,
        row.section,
        row.field,
        row.type,
        row.when,
        row.to_section,
        row.to_field,
        row.to_type,
        row.how,
        row.note,
        "server",
    )


@dataclass(frozen=True, slots=True)
class Table:
    """One of the published tables: fields, then types."""

    source: str
    target: str
    fields: tuple[Row, ...]
    types: tuple[Row, ...]
