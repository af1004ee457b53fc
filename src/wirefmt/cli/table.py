"""Readable rows of the requested columns: aligned, streamed. lines.py has the default table.

Widths come from the first rows; on a terminal the widest texts are shortened until a row fits in a line. The error of
a message (column `error`) follows its row or, if there is no space, is printed below it; it has no column.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows that determine the widths.
SAMPLE = 500
#: Longest cell of a table, in characters; the narrowest width of texts on a terminal, and of all cells if that is not enough.
WIDEST, NARROW, NARROWEST = 60, 8, 4
_GAP = "  "
_HEADERS = {"direction": "dir"}
_ARROWS = {0: "->", 1: "<-"}
_BOLD, _RED, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"

Row = tuple[list[str], str | None]  # cells, error


class TableWriter:
    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        import pyarrow as pa

        self._sink = sink
        self._names = [name for name in schema.names if name != "error"]
        types = [schema.field(name).type for name in self._names]
        self._right = [pa.types.is_integer(kind) for kind in types]
        self._texts = [i for i, kind in enumerate(types) if pa.types.is_string(kind) or pa.types.is_binary(kind)]
        self._terminal = sink is sys.stdout.buffer and sys.stdout.isatty()
        self._colour = self._terminal and not os.environ.get("NO_COLOR")
        self._held: list[Row] = []
        self._widths: list[int] | None = None
        self._capacity = 0

    def write(self, batch: pa.RecordBatch) -> None:
        rows = self._rows(batch)
        if self._widths is None:
            self._held += rows
            if len(self._held) < SAMPLE:
                return
            rows = self._begin()
        self._print(rows)

    def flush(self) -> None:
        if self._widths is None and self._held:
            self._print(self._begin())
        self._sink.flush()

    def close(self) -> None:
        if self._widths is None and self._held:
            self._print(self._begin())

    def _rows(self, batch: pa.RecordBatch) -> list[Row]:
        from .text import cell, json_values

        columns = []
        for name in self._names:
            column = batch.column(name)
            if name == "direction":
                columns.append([_ARROWS.get(v, "-") for v in column.to_pylist()])
                continue
            if _is_time(column.type):
                columns.append([cell(v and v.replace("T", " ")[:-1], WIDEST) for v in json_values(column)])
                continue
            values = column.to_pylist() if _is_octets(column.type) else json_values(column)
            columns.append([cell(value, WIDEST) for value in values])
        wrong = batch.column("error").to_pylist() if "error" in batch.schema.names else [None] * batch.num_rows
        cells = zip(*columns, strict=True) if columns else ((),) * batch.num_rows
        return [(list(row), error) for row, error in zip(cells, wrong, strict=True)]

    def _begin(self) -> list[Row]:
        """Choose the widths and print the header; returns the waiting rows."""
        from rich.cells import cell_len

        held, self._held = self._held, []
        header = [_HEADERS.get(name, name) for name in self._names]
        sample = [header, *(cells for cells, _ in held)]
        self._widths = [max(map(cell_len, column)) for column in zip(*sample, strict=True)]
        self._capacity = shutil.get_terminal_size().columns
        if self._terminal:
            capacity = self._capacity - len(_GAP) * (len(self._widths) - 1)
            whole = {i for i, name in enumerate(self._names) if name == "kind"}
            fit(self._widths, [i for i in self._texts if i not in whole], NARROW, capacity)
            fit(self._widths, [i for i in range(len(self._widths)) if i not in whole], NARROWEST, capacity)
        self._line(header, None, _BOLD)
        return held

    def _print(self, rows: list[Row]) -> None:
        for cells, error in rows:
            self._line(cells, error, "")

    def _line(self, cells: list[str], error: str | None, style: str) -> None:
        from rich.cells import cell_len

        from .text import printable

        assert self._widths is not None
        padded = (
            self._pad(cell, width, right) for cell, width, right in zip(cells, self._widths, self._right, strict=True)
        )
        line = _GAP.join(padded).rstrip()
        if error is not None:
            wrong = f"! {printable(error)}"
            apart = self._terminal and cell_len(line) + len(_GAP) + cell_len(wrong) > self._capacity
            line += "\n    " if apart else _GAP
            line += f"{_RED}{wrong}{_PLAIN}" if self._colour else wrong
        elif style and self._colour:
            line = f"{style}{line}{_PLAIN}"
        self._sink.write(f"{line}\n".encode())

    def _pad(self, text: str, width: int, right: bool) -> str:
        from rich.cells import cell_len, set_cell_size

        size = cell_len(text)
        if size > width and self._terminal:
            return set_cell_size(text, width - 1) + "…"
        space = " " * (width - size)
        return space + text if right else text + space


def fit(widths: list[int], columns: list[int], narrow: int, capacity: int) -> None:
    """Shrink the widest of `columns`, one character at a time, until all fit or none is wider than `narrow`."""
    while columns and sum(widths) > capacity:
        widest = max(columns, key=lambda i: widths[i])
        if widths[widest] <= narrow:
            return
        widths[widest] -= 1


def _is_time(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(kind))


def _is_octets(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind))


def show_table(title: str, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """A small table on standard output; nothing if there are no rows."""
    from rich.table import Table
    from rich.text import Text

    from .text import console, printable

    if not rows:
        return
    grid = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    for name, value in zip(header, rows[0], strict=True):
        grid.add_column(name, justify="right" if isinstance(value, int) else "left", overflow="fold")
    for row in rows:
        cells = ("-" if v is None else f"{v:,}" if isinstance(v, int) else printable(str(v)) for v in row)
        grid.add_row(*map(Text, cells))
    out = console()
    out.print()
    out.print(grid)
