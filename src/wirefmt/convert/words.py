"""Readable text of rows, for `wirefmt convert --explain` and docs/dialects.md."""

from __future__ import annotations

from collections.abc import Iterable

from .rules.row import Row
from .vocabulary import How


def does(row: Row) -> str:
    """What a row does, and when."""
    conditions = _listed((f"type {row.type}" if row.section and row.type != "*" else "", row.when.text))
    if row.how in (How.DROPPED, How.REFUSED):
        what = row.how.text
    else:
        to = place(row.to_section, row.to_field)
        type_ = row.to_type if row.to_type not in ("", "*") else ""
        what = f"to {_listed((to, type_))}: {row.how.text}"
    note = f" ({row.note})" if row.note else ""
    return f"{conditions}: {what}{note}" if conditions else f"{what}{note}"


def place(section: str, field: str) -> str:
    """A section and its field, written as in Loss.field."""
    if not field or field == "*":
        return section
    if section in ("Fixed Header", "Variable Header"):
        return field
    return f"{section} {field}" if " " in section else f"{section}.{field}"


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(part for part in parts if part)
