"""Rows of the conversion tables.

A row has, in the order of the published tables' columns: section, field and type of the source; the condition; section, field
and type of the target; and the conversion. The rows of a field are tried in order, and the first whose condition is true converts
the value. Without such a row the value is not converted. `*` matches any value.

A row may name several types of the source ("list, map"), all types except some ("* - array, binary"), or `absent`, which applies
if the field is absent. A field of headers, annotations and properties is a key: `*`, `x-*` (keys with this prefix) or a whole key;
for AMQP 0.9.1 and MQTT it is in brackets, as in `headers[x-*]`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from ..vocabulary import How, When

Source = Literal["document", "server"]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table of fields or, if `section` is empty, of a table of types."""

    id: str
    section: str
    field: str
    type: str
    when: When
    to_section: str
    to_field: str
    to_type: str
    how: How
    note: str = ""
    source: Source = "document"  # "server": the document is silent; the row does what RabbitMQ does


def row(
    id: str,
    section: str,
    field: str,
    type: str,
    when: When,
    to_section: str,
    to_field: str,
    to_type: str,
    how: How,
    note: str = "",
) -> Row:
    """A row of the document."""
    return Row(id, section, field, type, when, to_section, to_field, to_type, how, note)


def dropped(id: str, section: str, field: str, type: str, note: str = "") -> Row:
    """A row of the document that converts nothing."""
    return Row(id, section, field, type, When.ANY, "", "", "", How.DROPPED, note)


def type_row(id: str, type: str, when: When, to_type: str, how: How, note: str = "") -> Row:
    """A row of a table of types."""
    return Row(id, "", "", type, when, "", "", to_type, how, note)


def server(row: Row) -> Row:
    """The same row, marked as one that the document lacks."""
    return dataclasses.replace(row, source="server")


@dataclass(frozen=True, slots=True)
class Table:
    """One of the published tables: fields, then types."""

    source: str
    target: str
    fields: tuple[Row, ...]
    types: tuple[Row, ...]
