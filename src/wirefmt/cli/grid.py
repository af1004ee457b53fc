"""Lines of the tables that are made of messages: the columns that views.py chooses, and a text at the end.

    2026-11-27 UTC, server 127.0.0.1:5672, amqp091
    time           lasted client  published delivered reason
    13:52:34.030   110 ms biller         30           orderly    the client said connection.close 200 "Normal shutdown"

A value that all rows have is in the first line, and an empty column is omitted; when that changes, a new header is printed. On a
terminal, columns are as wide as `View` says, and the text continues below its row; in a file or pipe each row is one line.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import IO, TYPE_CHECKING, Any

from .lines import NARROWEST, WIDE, folded, padded
from .table import fit
from .text import cell, json_values, printable

if TYPE_CHECKING:
    import pyarrow as pa

    from .views import View

#: Rows that determine the widths.
SAMPLE = 500
#: The fewest characters of a terminal's line for the text after the columns; with less space it is below them.
LEAST = 24
#: A column whose values may be cut is not made narrower than this.
NARROW = 8
_BOLD, _RED, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"


class GridWriter:
    """Writes batches that have the columns of a view."""

    def __init__(self, sink: IO[bytes], view: View) -> None:
        self._sink, self._view = sink, view
        self._terminal = sink is sys.stdout.buffer and sys.stdout.isatty()
        self._colour = self._terminal and not os.environ.get("NO_COLOR")
        self._capacity = max(shutil.get_terminal_size().columns, NARROWEST) if self._terminal else sys.maxsize
        self._wide = self._capacity >= WIDE
        self._gap = "  " if self._wide else " "
        self._held: list[dict[str, Any]] = []
        self._widths: dict[str, int] = {}
        self._head = ""

    def write(self, batch: pa.RecordBatch) -> None:
        self.write_rows(rows_of(batch))

    def write_rows(self, rows: list[dict[str, Any]]) -> None:
        """Rows as `rows_of` makes them."""
        self._held += rows
        while len(self._held) >= SAMPLE:
            held, self._held = self._held[:SAMPLE], self._held[SAMPLE:]
            self._print(held)

    def flush(self) -> None:
        self.close()
        self._sink.flush()

    def close(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._print(held)

    def _print(self, rows: list[dict[str, Any]]) -> None:
        from itertools import groupby

        for date, day in groupby(rows, self._view.date):
            self._print_day(date, list(day))

    def _print_day(self, date: str, rows: list[dict[str, Any]]) -> None:
        """Print rows of one day, after a header if it is another one than before."""
        from rich.cells import cell_len

        view = self._view
        cells = [{column.title: printable(column.text(row)) for column in view.cells} for row in rows]
        common = {t: cells[0][t] for t in view.common if len({line[t] for line in cells}) == 1}
        shown = [
            column
            for column in view.cells
            if (self._wide or column.narrow) and column.title not in common
            and (column.title in self._widths or any(line[column.title] for line in cells))
        ]  # fmt: skip
        for column in shown:
            most = max(cell_len(column.title), *(cell_len(line[column.title]) for line in cells))
            if self._terminal:
                most = min(most, column.wide if self._wide else column.narrow)
            self._widths[column.title] = max(self._widths.get(column.title, 0), most)
        if self._terminal:
            widths = [self._widths[column.title] for column in shown]
            capacity = self._capacity - len(self._gap) * (len(shown) - 1)
            fit(widths, [i for i, column in enumerate(shown) if column.may_cut], NARROW, capacity)
            self._widths = {column.title: width for column, width in zip(shown, widths, strict=True)}
        where = "".join(
            f", {title} {value}" if title in view.named else f", {value}" for title, value in common.items() if value
        )
        head = self._gap.join(self._pad(column.title, column.title, column.right) for column in shown)
        first = f"{date or '-'} UTC{where}"
        if self._head != f"{first}\n{head}":
            self._head = f"{first}\n{head}"
            self._put(first, _BOLD)
            self._put(head.rstrip(), _BOLD)
        for row, line in zip(rows, cells, strict=True):
            fixed = self._gap.join(self._pad(column.title, line[column.title], column.right) for column in shown)
            self._line(fixed, printable(view.text(row)), view.is_bad(row))

    def _line(self, fixed: str, text: str, bad: bool) -> None:
        from rich.cells import cell_len

        left = self._capacity - cell_len(fixed) - len(self._gap)
        below: list[str] = []
        if text and cell_len(text) > left:
            text, *below = folded(text, left if left >= LEAST else 0, self._capacity)
        line = f"{fixed}{self._gap}{text}".rstrip() if text else fixed.rstrip()
        self._put(line, _RED if bad else "")
        for part in below:
            self._put(part, _RED if bad else "")

    def _pad(self, title: str, text: str, right: bool) -> str:
        width = self._widths[title]
        if title == "time" and self._terminal:
            text = text[:width]  # milliseconds are enough
        return text.rjust(width) if right else padded(text, width, self._terminal)

    def _put(self, text: str, style: str) -> None:
        line = f"{style}{text}{_PLAIN}" if style and self._colour else text
        self._sink.write(f"{line}\n".encode())


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dicts, times as texts in ISO 8601."""
    columns = {name: json_values(batch.column(name)) for name in batch.schema.names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def span(ns: int | None) -> str:
    """A time in three digits, with its unit: 755 µs, 14.5 ms, 3.36 s, 2.5 h."""
    if ns is None:
        return ""
    for size, unit, most in (
        (1, "ns", 1000),
        (1e3, "µs", 1000),
        (1e6, "ms", 1000),
        (1e9, "s", 600),
        (6e10, "min", 120),
    ):
        if abs(ns) < most * size * 0.9995:
            return f"{_three(ns / size)} {unit}"
    return f"{_three(ns / 3.6e12)} h"


def _three(value: float) -> str:
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{digits}f}"


def short(value: Any, limit: int) -> str:
    """A value in at most so many characters; nothing for null."""
    return "" if value is None else cell(value, limit)
