"""Rows in words: for `wirefmt convert --explain` and for docs/dialects.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .rules.row import Row

#: Conditions of rows (rules/row.py).
WHEN: Final = {
    "ANY": "",
    "SHORTSTR": "fewer than 256 octets of UTF-8 without NUL",
    "SHORT": "fewer than 256 octets",
    "OVER_255": "more than 255 octets",
    "UTF8": "UTF-8 without NUL",
    "UTF8_4096": "at most 4096 octets of UTF-8 without NUL",
    "ASCII": "ASCII",
    "ASCII_SHORT": "fewer than 256 octets of ASCII",
    "URN_UUID": "urn:uuid: and a UUID",
    "URN_UUID_LOOSE": "urn:uuid: and 36 octets, pairs of hexadecimal digits with dashes anywhere",
    "NUMERIC": "digits",
    "NOT_EXPIRATION": "not digits, or more than ten years of milliseconds",
    "FINITE": "neither NaN nor infinite",
    "KEY_SHORTSTR": "key of fewer than 256 octets of UTF-8 without NUL",
    "KEY_SHORT": "key of fewer than 256 octets",
    "KEY_ASCII": "key in ASCII",
    "QUEUE": "an address /queues/:queue",
    "MQTT_EXCHANGE": "an address /exchanges/:exchange/:key of mqtt.exchange",
    "JMS_TOPIC": "x-opt-jms-reply-to says it is a topic",
    "UNSET": "nothing has gone there yet",
    "FORMATTED": "Payload Format Indicator 1",
    "AMQP_ENCODED": "the message's type is amqp-1.0",
    "OLD_MQTT_EXCHANGE": "an address /exchange/:exchange/:key of mqtt.exchange",
}

#: What rows do with a value.
HOW: Final = {
    "SAME": "as it is",
    "BY_TYPE": "by the table of types",
    "TEXT": "as text",
    "URN_UUID": "as urn:uuid:...",
    "UUID": "its 16 octets",
    "NUMBER": "as a number",
    "DECIMAL": "in digits",
    "MS_TO_S": "milliseconds to seconds",
    "S_TO_MS": "seconds to milliseconds",
    "S_TO_MS_TEXT": "seconds to milliseconds in digits",
    "MS_TEXT_TO_S": "milliseconds in digits to seconds",
    "TRUE_2_FALSE_1": "true is 2, false 1",
    "TRUE_1_FALSE_0": "true is 1, false 0",
    "TWO_IS_TRUE": "2 is true",
    "TWO_IS_1": "2 is 1",
    "NOT_0_IS_TRUE": "all but 0 is true",
    "NOT_0_IS_2": "all but 0 is 2",
    "FALSE": "false",
    "ONE": "1",
    "QUEUE_NAME": "the queue's name, percent-decoded",
    "QUEUE_ADDRESS": "the address /queues/:queue, percent-encoded",
    "TOPIC_ADDRESS": "the address /exchanges/:exchange/:key, the key percent-encoded",
    "ADDRESS_TOPIC": "the key as topic, percent-decoded",
    "OLD_TOPIC_ADDRESS": "the address /exchange/:exchange/:key, nothing percent-encoded",
    "OLD_ADDRESS_TOPIC": "the key as topic",
    "ROUTING_KEY": "topic to routing key",
    "TOPIC": "routing key to topic",
    "JOINED": "all sections joined",
    "AMQP_ENCODED": "encoded as AMQP 1.0, and marked so",
    "AMQP_BODY": "encoded anew as AMQP 1.0 without the footer, and marked so",
    "FORMATTED": "with Payload Format Indicator 1",
    "SECTION": "as the whole section",
    "SECTION_TOO": "as the whole section; the next row has it as well",
    "SECTIONS": "decoded into its sections",
    "DEATHS": "to x-death",
    "FIRST_OF_EACH": "of one key the first, in order",
    "SORTED": "of one key the first, sorted by key",
}


def does(row: Row) -> str:
    """What a row does, and when."""
    conditions = _listed((f"type {row.type}" if row.section and row.type != "*" else "", word(WHEN, row.when)))
    if row.how in ("DROPPED", "REFUSED"):
        what = "dropped" if row.how == "DROPPED" else "the message is refused"
    else:
        to = place(row.to_section, row.to_field)
        type_ = row.to_type if row.to_type not in ("", "*") else ""
        what = f"to {_listed((to, type_))}: {word(HOW, row.how)}"
    note = f" ({row.note})" if row.note else ""
    return f"{conditions}: {what}{note}" if conditions else f"{what}{note}"


def place(section: str, field: str) -> str:
    """A section and a field of it, as Loss.field has them."""
    if not field or field == "*":
        return section
    if section in ("Fixed Header", "Variable Header"):
        return field
    return f"{section} {field}" if " " in section else f"{section}.{field}"


def word(words: dict[str, str], name: str) -> str:
    """A condition or conversion in words."""
    return words.get(name, name.replace("_", " ").lower())


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(part for part in parts if part)
