"""The tables of rows: complete, in the core's words, and each row taken by some vector."""

from __future__ import annotations

import json

import pytest

from lib.convert_vectors import VECTORS, cases, octets
from wirefmt.convert import DIALECTS, TABLES, Table, convert, tables_of
from wirefmt.errors import ConversionError


@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{t.source}>{t.target}")
def test_ids_are_unique(table: Table) -> None:
    for rows in (table.fields, table.types):
        ids = [row.id for row in rows]
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", DIALECTS)
def test_ids_of_dialects_are_unique(name: str) -> None:
    for table in tables_of(DIALECTS[name]):
        for rows in (table.fields, table.types):
            ids = [row.id for row in rows]
            assert len(ids) == len(set(ids)), sorted(i for i in ids if ids.count(i) > 1)


def test_every_row_of_a_dialect_says_why() -> None:
    for dialect in DIALECTS.values():
        for change in dialect.changes:
            assert change.why


@pytest.mark.parametrize("name", DIALECTS)
def test_every_row_of_fields_is_taken_by_a_vector(name: str) -> None:
    """Those that are not are listed: no vector has such a value."""
    taken: set[str] = set()
    for case in cases("convert"):
        if case["from"] == case["to"]:
            continue
        try:
            got = convert(
                octets(case["from"], case["input_hex"]),
                source=case["from"],
                to=case["to"],
                dialect=name,
                routing_key="t",
                mqtt_exchange=case["context"].get("mqtt_exchange") or "amq.topic",
                explain=True,
            )
        except ConversionError as refusal:
            taken.add(refusal.rule)
            continue
        taken |= {loss.rule for loss in got.losses}
    rows = {
        f"{table.source}>{table.target} {row.id}"
        for table in tables_of(DIALECTS[name])
        for row in table.fields
        if row.type != "absent"
    }
    assert not rows - taken - NEVER.get(name, set()), sorted(rows - taken)


#: Rows that leave their value to the next row are not told.
NEVER: dict[str, set[str]] = {
    "rabbitmq-3.13": {
        "amqp091>amqp10 headers-amqp-annotations",
        "amqp091>amqp10 headers-amqp-app-properties",
    },
    "rabbitmq-4.3": {
        "amqp091>amqp10 headers-amqp-annotations",
        "amqp091>amqp10 headers-amqp-app-properties",
        "amqp091>amqp10 headers-amqp-footer",
    },
}


def test_rows_json_names_no_table_that_is_missing() -> None:
    named = {entry["table"] for entry in json.loads((VECTORS / "rows.json").read_text())}
    assert len(named) >= len(TABLES)
