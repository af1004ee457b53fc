"""docs/dialects.md: what each dialect of the conversions does otherwise than the document, from the rows themselves."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

#: Names of protocols as people write them.
NAMES = {"amqp10": "AMQP 1.0", "amqp091": "AMQP 0.9.1", "mqtt5": "MQTT 5.0"}

INTRO = """
# Dialects of the conversions

What `wirefmt.convert` does by `dialect=`: `documented` is the published document (and where that is silent, the server);
the others are servers, as overlays of named rows (`src/wirefmt/convert/dialects.py`). Here are the rows in which they
differ; all others are the same in all dialects. A row is the first of its field whose condition holds; its id is what
`Loss.rule`, `--explain` and `--lossless` name."""


def load_dialects(path: Path) -> ModuleType:
    """convert/dialects.py without the compiled core, which only running the rules needs."""
    package = ModuleType("wirefmt_unbuilt")
    package.__path__ = [str(path.parent.parent)]
    convert = ModuleType("wirefmt_unbuilt.convert")
    convert.__path__ = [str(path.parent)]
    convert._engine = ModuleType("wirefmt_unbuilt.convert._engine")  # type: ignore[attr-defined]
    sys.modules |= {m.__name__: m for m in (package, convert, convert._engine)}
    importlib.import_module("wirefmt_unbuilt.convert.words")
    return importlib.import_module("wirefmt_unbuilt.convert.dialects")


def dialects_page(dialects: ModuleType) -> list[str]:
    words = sys.modules[dialects.__name__.replace("dialects", "words")]
    every = list(dialects.DIALECTS.values())
    lines = [*INTRO.splitlines(), "", *_settings(every)]
    for table in dialects.TABLES:
        lines += ["", f"## {NAMES[table.source]} to {NAMES[table.target]}", ""]
        lines += ["| row | of | dialect | what it does | why |", "|---|---|---|---|---|"]
        changed = list(_changed(table, every, words))
        lines += changed or ["| (none) | | | | |"]
    return lines


def _settings(every: list[Any]) -> Iterator[str]:
    """What no row says: the yes-or-no attributes of a dialect, with the sentences of its docstring."""
    said = dict(re.findall(r"^ {4}(\w+): (.+(?:\n {8,}.+)*)", inspect.cleandoc(every[0].__doc__), re.M))
    yield "| what no row says | " + " | ".join(f"`{d.name}`" for d in every) + " |"
    yield "|---" * (len(every) + 1) + "|"
    for field in dataclasses.fields(every[0]):
        if isinstance(getattr(every[0], field.name), bool):
            text = " ".join(said[field.name].split()).rstrip(".")
            yield f"| {text} | " + " | ".join("yes" if getattr(d, field.name) else "no" for d in every) + " |"


def _changed(table: Any, every: list[Any], words: Any) -> Iterator[str]:
    name = f"{table.source}>{table.target}"
    for row, id in [(r, r.id) for r in table.fields] + [(r, f"types/{r.id}") for r in table.types]:
        changes = {d.name: [c for c in d.changes if (c.table, c.id) == (name, id)] for d in every}
        if not any(changes.values()):
            continue
        of = f"type {row.type}" if id.startswith("types/") else words.place(row.section, row.field)
        yield _line(f"`{id}`", of, "documented", [words.does(row)], "")
        for dialect in every:
            for change in changes[dialect.name]:
                does = [_names(r, row, words) + words.does(r) for r in change.rows] or [
                    "no such row: the next that fits"
                ]
                if change.before:
                    does.append("then as documented")
                yield _line("", "", dialect.name, does, change.why)


def _line(row: str, of: str, dialect: str, does: list[str], why: str) -> str:
    cells = (row, of, f"`{dialect}`", "<br>".join(does), why)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _names(new: Any, old: Any, words: Any) -> str:
    """A row that stands in for another may have an id, and a field, of its own."""
    if new.id == old.id:
        return ""
    field = "" if (new.section, new.field) == (old.section, old.field) else f" ({words.place(new.section, new.field)})"
    return f"`{new.id}`{field}: "
