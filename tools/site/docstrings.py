"""A griffe extension: what the stubs of compiled modules leave out is read from the compiled modules themselves.

The stubs have the signatures, the classes their docstrings. A name that is only a name in an `__all__` made at import time
(wirefmt.loading.lazy) is public, too.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import griffe

DOCS = Path(__file__).parents[2] / "docs"


class RuntimeDocstrings(griffe.Extension):
    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.docstring is not None:
            pkg.docstring.value = marked(pkg.docstring.value)
        self._walk(pkg)

    def _walk(self, module: Any) -> None:
        for child in list(module.members.values()):
            if child.is_alias:
                continue
            if child.is_module or child.is_class:
                self._walk(child)
            if child.docstring is not None:
                child.docstring.value = marked(child.docstring.value)
        if module.is_module and str(module.filepath).endswith(".pyi") and module.filepath.stem.startswith("_"):
            self._fill(module)

    def _fill(self, module: griffe.Module) -> None:
        home = module.path.replace("._classes", "._codec")  # the classes of a table have a stub of their own
        runtime = importlib.import_module(home)
        for name, member in module.members.items():
            if not member.is_alias and (value := getattr(runtime, name, None)) is not None:
                _take(member, value)
                if member.is_class and isinstance(value, type):
                    for inner, item in member.members.items():
                        if (
                            not inner.startswith("_")
                            and not item.is_alias
                            and (found := vars(value).get(inner)) is not None
                        ):
                            _take(item, found)


def _take(member: Any, value: Any) -> None:
    text = getattr(value, "__doc__", None)
    # a value of another type has the docstring of its type
    if member.docstring is None and isinstance(text, str) and (member.is_class or text != type(value).__doc__):
        member.docstring = griffe.Docstring(marked(inspect.cleandoc(text)), parent=member)


def marked(text: str) -> str:
    """A docstring as Markdown: sessions of the interpreter are code, `::` before a block is a colon, names of pages are links."""
    text = re.sub(r"^((?:>>> ).*(?:\n(?!\n).*)*)", r"```pycon\n\1\n```", text, flags=re.M)
    text = re.sub(r"::\n\n(?=    )", ":\n\n", text)
    return re.sub(r"(?<![\w/(])docs/([a-z0-9-]+)\.md", _page, text)


def _page(found: re.Match[str]) -> str:
    return f"[{found[0]}]({found[1]}.html)" if (DOCS / f"{found[1]}.md").exists() else found[0]
