"""Each row is taken by a message, and just missed by another (tests/lib/convert_cases.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lib.convert_cases import CASES, DOCUMENTED, PLAIN, RABBITMQ_4_3, Case
from lib.kinds import checked
from wirefmt import amqp091, amqp10, mqtt
from wirefmt.convert import DIALECTS, TABLES, Conversion, Row, convert, tables_of
from wirefmt.errors import ConversionError

REFUSED = "refused"
#: Rows that also give their value to the next row are not reported.
SILENT = "SECTION_TOO"


def rows_of(dialect: str) -> Iterator[tuple[str, str, Row]]:
    for table in tables_of(DIALECTS[dialect]):
        for rows, prefix in ((table.fields, ""), (table.types, "types/")):
            for row in rows:
                yield f"{table.source}>{table.target}", prefix + row.id, row


DOCUMENT = {(table, id): row for table, id, row in rows_of("documented")}
SERVER = {(table, id): row for table, id, row in rows_of("rabbitmq-4.3")}


def changed(dialect: str) -> dict[tuple[str, str], Row]:
    """Rows that a dialect has other than the ones it is described by the difference from."""
    if dialect == "documented":
        return DOCUMENT
    before = DOCUMENT if dialect == "rabbitmq-4.3" else SERVER
    return {(t, i): row for t, i, row in rows_of(dialect) if row not in (before.get((t, i)), DOCUMENT.get((t, i)))}


def may_miss(row: Row) -> bool:
    """The row has a condition: of its own, on the key, or on one of several types of the field."""
    return row.when != "ANY" or "[" in row.field or " - " in row.type or (row.section != "" and ", " in row.type)


def said(got: Conversion) -> dict[str, str]:
    """A result field by field; values as they are written, so that their types are compared as well."""
    out: dict[str, Any] = {}
    if isinstance(got.message, mqtt.Publish):
        out["QoS"], out["payload"] = got.message.qos, got.message.payload_bytes()
        for name, value in got.message.properties:
            out[f"user {value[0]}" if name == "user_property" else name] = (
                value[1] if name == "user_property" else value
            )
    elif isinstance(got.message, amqp10.Message):
        for section in ("header", "properties"):
            whole = getattr(got.message, section)
            for name in type(whole).__match_args__ if whole is not None else ():
                out[f"{section}.{name}"] = getattr(whole, name)
        entries = {"annotations": got.message.message_annotations, "application": got.message.application_properties,
                   "footer": got.message.footer}  # fmt: skip
        for section, found in entries.items():
            out |= {f"{section} {key}": value for key, value in (found.pairs if found is not None else ())}
        body: Any = got.message.body[0]
        out["data" if isinstance(body, amqp10.Data) else "value"] = (
            bytes(body) if isinstance(body, amqp10.Data) else body.value
        )
    else:
        properties, out["body"] = got.message.properties, got.message.body_bytes()
        out |= {name: getattr(properties, name) for name in type(properties).__match_args__ if name != "headers"}
        out |= {
            f"headers {entry[0]}": entry[1:] for entry in (properties.headers.entries if properties.headers else ())
        }
    return {name: repr(value) for name, value in out.items() if value is not None or " " in name}


def meant(gives: dict[str, Any]) -> dict[str, str]:
    """Expected fields in the same form: of headers the letter of the type, and the value."""
    return {
        name: repr(amqp091.FieldTable({"": value}).entries[0][1:] if name.startswith("headers ") else value)
        for name, value in gives.items()
    }


def attempt(table: str, dialect: str, message: Any) -> tuple[Conversion | None, dict[str, str]]:
    """The result and what became of each value, by rule: of none where the message is refused."""
    to = table.partition(">")[2]
    try:
        got = convert(message, to=to, dialect=dialect, routing_key="t", explain=True)  # type: ignore[arg-type]
    except ConversionError as refusal:
        return None, {refusal.rule.partition(" ")[2]: REFUSED}
    return got, {loss.rule.partition(" ")[2]: loss.what for loss in got.losses}


EVERY = [
    pytest.param(dialect, table, id, case, id=f"{dialect} {table} {id}")
    for dialect, tables in CASES.items()
    for table, cases in tables.items()
    for id, case in cases.items()
]


@pytest.mark.parametrize(("dialect", "table", "id", "case"), EVERY)
def test_the_row_takes_it(dialect: str, table: str, id: str, case: Case) -> None:
    row = next(row for t, i, row in rows_of(dialect) if (t, i) == (table, id))
    got, told = attempt(table, dialect, case.take)
    if row.how == "REFUSED":
        assert told == {id: REFUSED}
        return
    assert got is not None
    if row.type != "absent" and row.how not in (SILENT, "FIRST_OF_EACH", "SORTED"):
        assert id in told, told
        assert (told[id] == "dropped") == (row.how == "DROPPED")
    plain, _ = attempt(table, dialect, PLAIN[table.partition(">")[0]])
    assert plain is not None
    expected = {**said(plain), **meant(case.gives)}
    if "value" in case.gives:
        del expected["data"]
    assert said(got) == expected


@pytest.mark.parametrize(
    ("dialect", "table", "id", "case"), [p for p in EVERY if checked(p.values[3], Case).miss is not None]
)
def test_the_row_just_misses_it(dialect: str, table: str, id: str, case: Case) -> None:
    got, told = attempt(table, dialect, case.miss)
    assert got is not None
    assert id not in told or told[id] != told.get(id), told
    assert case.instead in told, told


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_row_has_its_cases(dialect: str) -> None:
    """And every row with a condition one that misses it."""
    cases = {(table, id): case for table, found in CASES[dialect].items() for id, case in found.items()}
    assert cases.keys() == changed(dialect).keys()
    without = {key for key, row in changed(dialect).items() if may_miss(row) and cases[key].miss is None}
    assert not without, sorted(without)


def test_every_row_where_the_server_deviates_has_its_case_in_the_document() -> None:
    """The rows that rabbitmq-4.3 replaces are among those worked out from the document."""
    for change in DIALECTS["rabbitmq-4.3"].changes:
        assert change.id in DOCUMENTED[change.table]
        for row in change.rows:
            prefix = "types/" if change.id.startswith("types/") else ""
            assert prefix + row.id in RABBITMQ_4_3[change.table] or row == DOCUMENT[change.table, prefix + row.id]


def test_number_of_tables() -> None:
    assert len(TABLES) == len(DOCUMENTED) == 6
