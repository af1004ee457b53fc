"""docs/dialects.md: how each dialect of the conversions differs from the document, generated from the rows."""

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

#: Common names of the protocols.
NAMES = {"amqp10": "AMQP 1.0", "amqp091": "AMQP 0.9.1", "mqtt5": "MQTT 5.0"}

INTRO = """
# Dialects of the conversions

`dialect=` of `wirefmt.convert` selects the rules. `documented` follows the published document and, where that is silent, the
server. The other dialects follow servers, as overlays of named rows (`src/wirefmt/convert/dialects.py`). This page lists the
rows in which the dialects differ; all other rows are the same in all dialects. For each field the first row whose condition is
true applies. `Loss.rule`, `--explain` and `--lossless` name the id of the row."""


def load_dialects(path: Path) -> ModuleType:
    """Import convert/dialects.py without the compiled core, which is needed only to apply the rules."""
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
    """Settings without a row: the boolean attributes of a dialect, with the sentences of its docstring."""
    said = dict(re.findall(r"^ {4}(\w+): (.+(?:\n {8,}.+)*)", inspect.cleandoc(every[0].__doc__), re.M))
    yield "| setting | " + " | ".join(f"`{d.name}`" for d in every) + " |"
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
                    "no such row: the next matching row applies"
                ]
                if change.before:
                    does.append("then as documented")
                yield _line("", "", dialect.name, does, change.why)


def _line(row: str, of: str, dialect: str, does: list[str], why: str) -> str:
    cells = (row, of, f"`{dialect}`", "<br>".join(does), why)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _names(new: Any, old: Any, words: Any) -> str:
    """The id of a replacement row, and its field, if they differ from those of the replaced row."""
    if new.id == old.id:
        return ""
    field = "" if (new.section, new.field) == (old.section, old.field) else f" ({words.place(new.section, new.field)})"
    return f"`{new.id}`{field}: "
