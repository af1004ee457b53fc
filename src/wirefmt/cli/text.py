"""Values of the message table as text: for JSON, CSV and display."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


def octets_for_json(value: bytes) -> str | dict[str, str]:
    """UTF-8 as a string; other bytes as {"base64": "..."}."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def json_values(column: pa.Array[Any]) -> list[Any]:
    """A column as values for json: times in ISO 8601, structs without their nulls, maps as lists of pairs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind):
        return list(pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ").to_pylist())  # %S has the fraction
    if pa.types.is_binary(kind):
        return [None if v is None else octets_for_json(v) for v in column.to_pylist()]
    if pa.types.is_list(kind) and not pa.types.is_map(kind) and pa.types.is_binary(kind.value_type):
        items = iter(json_values(column.flatten()))
        sizes = pc.list_value_length(column).to_pylist()
        return [None if n is None else list(islice(items, n)) for n in sizes]
    if pa.types.is_struct(kind):
        fields = [(kind.field(i).name, column.field(i)) for i in range(kind.num_fields)]
        rows = json_objects([(name, values) for name, values in fields], len(column))
        return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]
    return list(column.to_pylist())


def json_objects(columns: list[tuple[str, pa.Array[Any]]], count: int) -> list[dict[str, Any]]:
    """Rows as dicts, without keys whose value is null."""
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, column in columns:
        if column.null_count < count:
            for row, value in zip(rows, json_values(column), strict=True):
                if value is not None:
                    row[name] = value
    return rows


#: What a spreadsheet takes for a formula: the beginning of a text that is not a number.
_FORMULA = re.compile(r"(?![+-]?[\d.,]+\Z)[=+\-@\t\r]")


def mark_formula(text: str) -> str:
    """A cell of CSV with an apostrophe before what a spreadsheet would take for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


#: A text in CSV as `wirefmt.batch.csv_lines` writes it: every text is in quotes, and nothing else.
_CELL = re.compile(r'"((?:[^"]|"")*)"')


def changed_csv(change: Callable[[str], str], lines: bytes) -> bytes:
    """Lines of CSV with every text changed."""

    def changed(cell: re.Match[str]) -> str:
        return '"' + change(cell[1].replace('""', '"')).replace('"', '""') + '"'

    return _CELL.sub(changed, lines.decode()).encode()


#: A value as JSON in one line, without spaces.
compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def cell(value: Any, limit: int) -> str:
    """A value for display in one line of at most `limit` characters; it never contains terminal control characters."""
    if value is None:
        return "-"
    if isinstance(value, bytes):
        head = value[: limit * 4]  # a character has at most four bytes
        value = head.decode(errors="backslashreplace" if len(head) == len(value) else "ignore")
    elif not isinstance(value, str):
        value = compact_json(value) if isinstance(value, list | dict | bool) else str(value)
    text = printable(value[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    r"""Text with all invisible characters escaped: \n, \x1b, \u202e."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_json(text: str) -> str:
    r"""JSON in one line that does the same to a terminal as it looks: \u001b for what `printable` escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] if ord(c) != 0x7F else r"\u007f" for c in text)


def printable_lines(lines: bytes) -> bytes:
    """JSON lines with `printable_json` of each."""
    return "\n".join(map(printable_json, lines.decode().split("\n"))).encode()


def can_show(text: str) -> bool:
    """Can standard output show these characters?"""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def console(*, stderr: bool = False) -> Console:
    """A console of rich. In a pipe nothing is folded; if its reader has exited, BrokenPipeError is raised."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise  # otherwise rich would end the process with 1

    made = Ours(stderr=stderr)
    if not made.is_terminal:
        made.width = 400
    return made
