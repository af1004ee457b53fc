"""What a row of the conversion tables is, and the words it is written in.

A row says, in the order of the published tables' columns: section, field and type of the source; the condition; section, field
and type of the target; and how. Rows of one field are tried in their order and the first whose condition holds converts the
value; if none does, the value is not converted. `*` is any.

Types of the source may be several ("list, map"), all but some ("* - array, binary"), or `absent`: what to do where the field is
not there. A field of headers, annotations and properties is a key: `*`, `x-*` (keys that begin so) or a whole key; of AMQP 0.9.1
and MQTT it stands in brackets, as in `headers[x-*]`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from ..vocabulary import How, When

Source = Literal["document", "server"]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table of fields or, where `section` is empty, of a table of types."""

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
    source: Source = "document"  # "server": the document says nothing, the row is what RabbitMQ does


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
    """The same row, but the document says nothing of it."""
    return dataclasses.replace(row, source="server")


@dataclass(frozen=True, slots=True)
class Table:
    """One of the published tables: fields, then types."""

    source: str
    target: str
    fields: tuple[Row, ...]
    types: tuple[Row, ...]
