"""Dialects: what differs from the published tables, by named rows; and how rows are compiled for the core.

A dialect is an overlay. Each `Change` names a row of a table and gives its replacement: other rows, or none. A change may also
insert rows before the row it names. Rows that a dialect does not name are those of the document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from . import _engine
from .rules import TABLES, Row, Table
from .rules.row import type_row
from .vocabulary import FIELDS, PROTOCOLS, SPECIAL_TYPES, TYPES, How, When


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that replace the row `id` of a table ("source>target"), or that come before it."""

    table: str
    id: str
    rows: tuple[Row, ...]
    why: str
    before: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """An overlay on the tables of the document, and settings that rows cannot express.

    Attributes:
        valid: values that the specification of the target does not allow are dropped, whatever the row says.
        annotation_keys: an AMQP 1.0 message with annotations whose keys do not begin with x- is refused.
        short_arrays: an AMQP 1.0 message with arrays whose elements are in a short encoding (one byte for a uint, for the size of a
            list ...) is refused.
        sections: AMQP 1.0 messages without a body, or with sections out of order, are refused.
        short_strings: bytes of the longest AMQP 1.0 string or binary whose size is written in one byte.
        all_fields: AMQP 1.0 header and properties are written with all fields, including nulls at the end.
        expiry_delivered: an MQTT consumer receives the Message Expiry Interval of messages from other protocols.
        same_is_identity: a message converted to its own protocol keeps its bytes; otherwise it is encoded again.
    """

    name: str
    changes: tuple[Change, ...] = ()
    valid: bool = True
    annotation_keys: bool = False
    short_arrays: bool = False
    sections: bool = True
    all_fields: bool = False
    short_strings: int = 255
    expiry_delivered: bool = True
    same_is_identity: bool = True


def _row(id: str, section: str, field: str, type: str, when: When, to_section: str, to_field: str, to_type: str, how: How,
         note: str = "") -> Row:  # fmt: skip
    return Row(id, section, field, type, when, to_section, to_field, to_type, how, note, "server")


def _drop(id: str, section: str, field: str, type: str, note: str = "") -> Row:
    return Row(id, section, field, type, When.ANY, "", "", "", How.DROPPED, note, "server")


_MA: Final = "message annotations"
_SCALARS_4_3: Final = "* - array, list, map, binary, decimal32, decimal64, decimal128, uuid, char, described"
_INTEGERS: Final = "ubyte, ushort, uint, ulong, byte, short, int, long"
_EXPIRATION: Final = _row("expiration-refused", "properties", "expiration", "shortstr", When.NOT_EXPIRATION, "", "", "", How.REFUSED,
                          "a number of milliseconds, at most ten years")  # fmt: skip


def _urn(table: str, section: str, field: str, type: str, id: str, to: str = "correlation_id") -> Change:
    """The loose test of urn:uuid."""
    return Change(
        table, id, (_row(id, section, field, type, When.URN_UUID_LOOSE, "properties", to, "uuid", How.UUID),),
        "any 36 bytes after urn:uuid: whose pairs of hexadecimal digits make 16 bytes or more, with dashes anywhere",
    )  # fmt: skip


# fmt: off
RABBITMQ_4_3: Final = Dialect("rabbitmq-4.3", (
    # ---- AMQP 1.0 -> AMQP 0.9.1
    *(Change("amqp10>amqp091", f"{field}-utf8", (
        _row(f"{field}-utf8", "properties", field, "utf8", When.SHORT, "properties", field, "shortstr", How.SAME),),
        "only the length is tested: NUL and bytes that are not UTF-8 are accepted") for field in ("message_id", "correlation_id")),
    Change("amqp10>amqp091", "reply_to", (
        _row("reply_to-queue", "properties", "reply_to", "utf8", When.QUEUE, "properties", "reply_to", "shortstr", How.QUEUE_NAME, "dropped if the percent-encoding is invalid"),
        _row("reply_to", "properties", "reply_to", "utf8", When.SHORT, "properties", "reply_to", "shortstr", How.SAME)),
        "/queues/:queue becomes the queue's name, percent-decoded; for other addresses only the length is tested"),
    Change("amqp10>amqp091", "group_id", (
        _row("group_id", "properties", "group_id", "utf8", When.SHORT, "properties", "app_id", "shortstr", How.SAME),),
        "only the length is tested"),
    Change("amqp10>amqp091", "application_properties", (
        _row("application_properties", "application properties", "*", "*", When.KEY_SHORT, "properties", "headers", "*", How.BY_TYPE),),
        "for keys, only the length is tested"),
    Change("amqp10>amqp091", "annotations-x", (
        _row("annotations-x-basic-type", _MA, "x-basic-type", "utf8, symbol, binary", When.UNSET, "properties", "type", "shortstr", How.SAME),
        _row("annotations-x-basic-delivery-mode", _MA, "x-basic-delivery-mode", _INTEGERS, When.UNSET, "properties", "delivery_mode", "octet", How.SAME, "if there is no header"),
        _row("annotations-x-basic-priority", _MA, "x-basic-priority", _INTEGERS, When.UNSET, "properties", "priority", "octet", How.SAME, "if there is no header"),
        _row("annotations-x-basic-expiration", _MA, "x-basic-expiration", "utf8, symbol, binary", When.UNSET, "properties", "expiration", "shortstr", How.SAME, "if there is no header"),
        _drop("annotations-x-basic", _MA, "x-basic-*", "*"),
        _drop("annotations-x-exchange", _MA, "x-exchange", "*", "the exchange is in basic.deliver"),
        _drop("annotations-x-routing-key", _MA, "x-routing-key", "*", "the routing key is in basic.deliver"),
        _drop("annotations-x-death", _MA, "x-death", "*"),
        _row("annotations-received-time", _MA, "x-opt-rabbitmq-received-time", "timestamp", When.ANY, "properties", "headers[timestamp_in_ms]", "long", How.SAME, "in milliseconds"),
        _row("annotations-x-opt-deaths", _MA, "x-opt-deaths", "array", When.ANY, "properties", "headers[x-death]", "array", How.DEATHS),
        _drop("annotations-x-opt-deaths-shape", _MA, "x-opt-deaths", "*", "not an array of deaths"),
        _row("annotations-x", _MA, "x-*", "*", When.KEY_SHORT, "properties", "headers", "*", How.BY_TYPE)),
        "annotations that RabbitMQ itself adds are converted back or dropped; for keys, only the length is tested"),
    Change("amqp10>amqp091", "data-multiple", (
        _row("data-multiple", "data (multiple)", "", "*", When.ANY, "payload", "", "binary", How.JOINED),),
        "several data sections are joined to a plain payload, and type is not changed"),
    Change("amqp10>amqp091", "types/binary", (type_row("binary", "binary", When.ANY, "longstr", How.SAME),),
        "binary headers and annotations become longstr; identifiers stay binary"),
    # ---- AMQP 0.9.1 -> AMQP 1.0
    _urn("amqp091>amqp10", "properties", "message_id", "shortstr", "message_id-uuid", "message_id"),
    _urn("amqp091>amqp10", "properties", "correlation_id", "shortstr", "correlation_id-uuid"),
    Change("amqp091>amqp10", "expiration", (_EXPIRATION,), "refused when published; the document does not convert it", before=True),
    Change("amqp091>amqp10", "reply_to", (
        _row("reply_to", "properties", "reply_to", "shortstr", When.ANY, "properties", "reply_to", "utf8", How.QUEUE_ADDRESS),),
        "the address /queues/:queue, percent-encoded"),
    Change("amqp091>amqp10", "headers-amqp-properties", (
        _row("headers-cc", "properties", "headers[CC]", "array", When.ANY, _MA, "x-cc", "list", How.BY_TYPE),
        _row("headers-amqp-properties", "properties", "headers[x-amqp-1.0-properties]", "longstr, binary", When.ANY, "properties", "message_id", "", How.SECTION_TOO)),
        "CC becomes the annotation x-cc; headers of the old plugin replace a section and stay as annotations"),
    Change("amqp091>amqp10", "headers-amqp-application-properties", (
        _row("headers-amqp-app-properties", "properties", "headers[x-amqp-1.0-app-properties]", "longstr, binary", When.ANY, "application properties", "*", "", How.SECTION_TOO),),
        "the header is x-amqp-1.0-app-properties; x-amqp-1.0-application-properties is an ordinary header"),
    Change("amqp091>amqp10", "headers-amqp-annotations", (
        _row("headers-amqp-annotations", "properties", "headers[x-amqp-1.0-message-annotations]", "longstr, binary", When.ANY, _MA, "*", "", How.SECTION_TOO),
        _row("headers-amqp-footer", "properties", "headers[x-amqp-1.0-footer]", "longstr, binary", When.ANY, "footer", "*", "", How.SECTION_TOO)),
        "the footer has such a header, too"),
    Change("amqp091>amqp10", "payload", (
        _row("payload-amqp", "payload", "", "binary", When.AMQP_ENCODED, "data", "", "", How.SECTIONS, "its sections replace others"),),
        "a payload of type amqp-1.0 is decoded into its sections", before=True),
    Change("amqp091>amqp10", "types/longstr", (type_row("longstr", "longstr", When.UTF8_4096, "utf8", How.SAME),),
        "utf8 up to 4096 bytes"),
    Change("amqp091>amqp10", "types/double", (type_row("double", "double", When.FINITE, "double", How.SAME),), "the server cannot read NaN and infinities"),
    Change("amqp091>amqp10", "types/float", (type_row("float", "float", When.FINITE, "float", How.SAME),), "the server cannot read NaN and infinities"),
    Change("amqp091>amqp10", "types/table.key", (type_row("table.key", "table.key", When.ANY, "symbol", How.SAME),), "keys in tables are symbols"),
    # ---- MQTT 5.0 -> AMQP 1.0
    Change("mqtt5>amqp10", "message-expiry-interval", (
        _drop("message-expiry-interval", "Variable Header", "Message Expiry Interval", "*"),),
        "the broker keeps the interval; AMQP 1.0 consumers do not receive it"),
    _urn("mqtt5>amqp10", "Variable Header", "Correlation Data", "binary", "correlation-data-uuid"),
    Change("mqtt5>amqp10", "payload-formatted", (), "always one data section"),
    *(Change(table, "subscription-identifier", (
        _row("subscription-identifier", "Variable Header", "Subscription Identifier", "*", When.ANY, "", "", "", How.REFUSED, "a client must not send it"),),
        "a PUBLISH with Subscription Identifier is refused") for table in ("mqtt5>amqp10", "mqtt5>amqp091")),
    # ---- MQTT 5.0 -> AMQP 0.9.1
    Change("mqtt5>amqp091", "user-property", (
        _row("user-property", "Variable Header", "User Property", "utf8 pair", When.KEY_SHORT, "properties", "headers", "longstr", How.BY_TYPE),),
        "for names, only the length is tested"),
    Change("mqtt5>amqp091", "content-type", (
        _row("content-type", "Variable Header", "Content Type", "utf8", When.ASCII_SHORT, "properties", "content_type", "shortstr", How.SAME),),
        "only ASCII"),
    # ---- AMQP 1.0 -> MQTT 5.0
    Change("amqp10>mqtt5", "reply_to", (
        _row("reply_to-jms", "properties", "reply_to", "utf8", When.JMS_TOPIC, "Variable Header", "Response Topic", "utf8", How.TOPIC, "the whole address"),),
        "the address is a topic if x-opt-jms-reply-to says so", before=True),
    Change("amqp10>mqtt5", "application_properties", (
        _row("application_properties", "application properties", "*", _SCALARS_4_3, When.FINITE, "Variable Header", "User Property", "utf8", How.TEXT),),
        "the server has no text for decimals, uuids, characters, NaN and infinities"),
    Change("amqp10>mqtt5", "annotations-x", (
        _row("annotations-x", _MA, "x-*", _SCALARS_4_3, When.FINITE, "Variable Header", "User Property", "utf8", How.TEXT),),
        "the server has no text for decimals, uuids, characters, NaN and infinities"),
    Change("amqp10>mqtt5", "amqp.value-binary", (), "every amqp-value is passed on encoded"),
    Change("amqp10>mqtt5", "amqp.value-utf8", (), "every amqp-value is passed on encoded, the indicator is never set"),
    # ---- AMQP 0.9.1 -> MQTT 5.0
    Change("amqp091>mqtt5", "expiration", (_EXPIRATION,), "refused when published", before=True),
    Change("amqp091>mqtt5", "headers", (
        _row("headers", "properties", "headers", "* - array, table, binary, decimal", When.FINITE, "Variable Header", "User Property", "utf8", How.TEXT),),
        "binary is dropped, too; the server has no text for decimals"),
), valid=False, annotation_keys=True, short_arrays=True, expiry_delivered=False, same_is_identity=False)
# fmt: on


def _but(dialect: Dialect, *changes: Change, without: tuple[tuple[str, str], ...] = ()) -> tuple[Change, ...]:
    """The changes of a dialect, with `changes` instead of those for the same rows, and without the changes in `without`."""
    instead = {(change.table, change.id) for change in changes}.union(without)
    return *(change for change in dialect.changes if (change.table, change.id) not in instead), *changes


# fmt: off
RABBITMQ_3_13: Final = Dialect("rabbitmq-3.13", _but(RABBITMQ_4_3,
    Change("amqp10>amqp091", "reply_to", (
        _row("reply_to", "properties", "reply_to", "utf8", When.SHORT, "properties", "reply_to", "shortstr", How.SAME),),
        "any address is unchanged; only the length is tested"),
    *(Change("amqp10>amqp091", body, (
        _row(body, body, "", "*", When.ANY, "payload", "", "binary", How.AMQP_BODY, "type is amqp-1.0"),),
        "encoded again, without the footer") for body in ("amqp.value", "amqp.sequence")),
    Change("amqp10>amqp091", "data-multiple", (
        _row("data-multiple", "data (multiple)", "", "*", When.ANY, "payload", "", "binary", How.AMQP_BODY, "or no body; type is amqp-1.0"),),
        "encoded again, without the footer; also if there is no body"),
    Change("amqp091>amqp10", "headers-amqp-annotations", (
        _row("headers-amqp-annotations", "properties", "headers[x-amqp-1.0-message-annotations]", "longstr, binary", When.ANY, _MA, "*", "", How.SECTION_TOO),),
        "the footer has no such header"),
    Change("mqtt5>amqp10", "response-topic", (
        _row("response-topic", "Variable Header", "Response Topic", "utf8", When.ANY, "properties", "reply_to", "utf8", How.OLD_TOPIC_ADDRESS),),
        "the address is /exchange/X/RK, not percent-encoded"),
    Change("amqp10>mqtt5", "durable-absent", (
        _row("durable-absent", "header", "durable", "absent", When.ANY, "Fixed Header", "QoS", "bits", How.FALSE),),
        "a message without the field durable is not durable"),
    Change("amqp10>mqtt5", "reply_to", (
        _row("reply_to", "properties", "reply_to", "utf8", When.OLD_MQTT_EXCHANGE, "Variable Header", "Response Topic", "utf8", How.OLD_ADDRESS_TOPIC),),
        "the address is /exchange/X/RK, not percent-encoded"),
    Change("amqp10>mqtt5", "amqp.value-utf8", (
        _row("amqp.value-text", "amqp.value", "", _SCALARS_4_3, When.FINITE, "Payload", "", "binary", How.FORMATTED, "Payload Format Indicator 1"),),
        "every scalar is text"),
    *(Change("amqp10>mqtt5", body, (
        _row(body, body, "", "*", When.ANY, "Payload", "", "binary", How.AMQP_BODY, "Content Type is message/vnd.rabbitmq.amqp"),),
        "encoded again, without the footer") for body in ("amqp.value", "amqp.sequence")),
    without=(
        ("amqp091>amqp10", "reply_to"),
        ("mqtt5>amqp10", "payload-formatted"),
        ("mqtt5>amqp10", "subscription-identifier"),
        ("mqtt5>amqp091", "subscription-identifier"),
        ("amqp10>mqtt5", "amqp.value-binary"),
    ),
), valid=False, short_arrays=True, sections=False, all_fields=True, short_strings=254, expiry_delivered=False, same_is_identity=False)
# fmt: on

DOCUMENTED: Final = Dialect("documented")

DIALECTS: Final = {dialect.name: dialect for dialect in (DOCUMENTED, RABBITMQ_4_3, RABBITMQ_3_13)}


def tables_of(dialect: Dialect) -> tuple[Table, ...]:
    """The tables of the dialect."""
    used: set[tuple[str, str]] = set()
    out = []
    for table in TABLES:
        name = f"{table.source}>{table.target}"
        changes = {change.id: change for change in dialect.changes if change.table == name}
        out.append(
            Table(
                table.source, table.target,
                tuple(_overlay(table.fields, changes, "", used, name)),
                tuple(_overlay(table.types, changes, "types/", used, name)),
            )
        )  # fmt: skip
    unused = {(change.table, change.id) for change in dialect.changes} - used
    if unused:
        raise ValueError(f"{dialect.name}: no such rows: {sorted(unused)}")
    return tuple(out)


def _overlay(
    rows: Iterable[Row], changes: dict[str, Change], prefix: str, used: set[tuple[str, str]], name: str
) -> Iterator[Row]:
    for row in rows:
        change = changes.get(prefix + row.id)
        if change is None:
            yield row
            continue
        used.add((name, change.id))
        yield from change.rows
        if change.before:
            yield row


# ---- for the core


@cache
def compiled(name: str) -> _engine.ConvertRules:
    """The rules of a dialect, compiled for the core. ValueError: the dialect is unknown."""
    if name not in DIALECTS:
        raise ValueError(f"dialect {name!r} is not one of {', '.join(DIALECTS)}")
    dialect = DIALECTS[name]
    return compile_tables(tables_of(dialect), dialect)


def compile_tables(tables: Iterable[Table], dialect: Dialect) -> _engine.ConvertRules:
    rows: list[tuple[object, ...]] = []
    ids = [""]
    for table in tables:
        for row in (*table.fields, *table.types):
            ids.append(f"{table.source}>{table.target} {'' if row.section else 'types/'}{row.id}")
            rows += _compile_row(table.source, table.target, row, len(ids) - 1)
    return _engine.ConvertRules(
        rows,
        ids,
        valid=dialect.valid,
        annotation_keys=dialect.annotation_keys,
        same_is_identity=dialect.same_is_identity,
        short_arrays=dialect.short_arrays,
        sections=dialect.sections,
        all_fields=dialect.all_fields,
        short_strings=dialect.short_strings,
        expiry_delivered=dialect.expiry_delivered,
    )


def _compile_row(source: str, target: str, row: Row, number: int) -> Iterator[tuple[object, ...]]:
    field, key = _place(source, row.section, row.field) if row.section else (0, _key_of(row.field))
    to_field, name = _place(target, row.to_section, row.to_field) if row.to_section else (0, None)
    to_type = 0
    if row.to_type not in ("", "*") and row.how not in (How.FIRST_OF_EACH, How.SORTED):
        to_type = TYPES[target].index(row.to_type)
    moved = name is not None and key is None and row.field != row.to_field
    pair = PROTOCOLS.index(source), PROTOCOLS.index(target)
    when, how = list(When).index(row.when), list(How).index(row.how)
    for type_ in types_of(source, row.type):
        yield *pair, field, type_, key, when, how, to_field, to_type, name, moved, number


def types_of(protocol: str, text: str) -> list[int]:
    """Numbers of the types that the type column of a row names."""
    names = TYPES[protocol]
    if text in SPECIAL_TYPES:
        return [SPECIAL_TYPES[text]]
    if not text.startswith("*"):
        return [names.index(name) for name in text.split(", ")]
    but = [name for name in text.removeprefix("*").removeprefix(" - ").split(", ") if name]
    return [i for i, name in enumerate(names) if name and name not in but]


def _place(protocol: str, section: str, field: str) -> tuple[int, bytes | None]:
    """The field number of the core, and the key in the field."""
    names = FIELDS[protocol]
    if section in names:
        return names.index(section), _key_of(field)
    field, bracket, key = field.partition("[")
    key_ = _key_of(key[:-1]) if bracket else None
    return names.index(field if field in names else f"{section}.{field}"), key_


def _key_of(field: str) -> bytes | None:
    return None if field in ("", "*") else field.encode()
