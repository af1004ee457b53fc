"""A connection has one owner of its state: what is compiled of it, from which its Python half is derived. What the two halves
share is in the stub of the compiled one, each name with its meaning, and nothing is defined in both."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from typing import Any

import pytest

from lib.paths import ROOT
from wirefmt.protocols import PROTOCOLS

SRC = ROOT / "src" / "wirefmt"
PACKAGES = [row.name for row in PROTOCOLS if (SRC / row.name / "connection.pxi").exists()]
MODULES = {"connection": "wirefmt._core", **{name: f"wirefmt.{name}._codec" for name in PACKAGES}}
ROOM_NAMES = ("deliveries", "arrivals", "connection", "channels", "links")
#: Where the compiled half of a package is written.
ROOMS = {"connection": [SRC / "_core" / "connection.pxi"]} | {
    name: [path for room in ROOM_NAMES if (path := SRC / name / f"{room}.pxi").exists()] for name in PACKAGES
}
#: What a Python half adds to a member of the compiled one, and calls it.
EXTENDED = {"data_to_send", "buffers_to_send", "pending_bytes", "unfinished_bytes", "_flush", "_read"}


def is_shared(name: str) -> bool:
    """A name that is not the user's."""
    return name.startswith("_") and not name.startswith("__")


def trees(package: str) -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in sorted((SRC / package).glob("*.py"))]


def bases(package: str) -> set[str]:
    """Classes of the compiled module from which classes of the package are derived, and their bases."""
    stub = {node.name: node for node in stub_of(package).body if isinstance(node, ast.ClassDef)}
    found: set[str] = set()
    for tree in trees(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found |= {base.id for base in node.bases if isinstance(base, ast.Name) and base.id in stub}
    while (
        more := {b.id for name in found for b in stub[name].bases if isinstance(b, ast.Name) and b.id in stub} - found
    ):
        found |= more
    return found


def stub_of(package: str) -> ast.Module:
    return ast.parse((SRC.parent / MODULES[package].replace(".", "/")).with_suffix(".pyi").read_text())


def listed(package: str) -> dict[str, dict[str, str]]:
    """Of each of these classes: the names that are not the user's, with their meaning as the stub says it."""
    found: dict[str, dict[str, str]] = {}
    wanted = bases(package)
    for node in stub_of(package).body:
        if not isinstance(node, ast.ClassDef) or node.name not in wanted:
            continue
        names = found[node.name] = {}
        for at, member in enumerate(node.body):
            match member:
                case ast.FunctionDef() if is_shared(member.name):
                    names[member.name] = names.get(member.name, "") or ast.get_docstring(member) or ""
                case ast.AnnAssign(target=ast.Name(id=name)) if is_shared(name):
                    after = node.body[at + 1] if at + 1 < len(node.body) else None
                    text = after.value if isinstance(after, ast.Expr) else None
                    names[name] = str(text.value) if isinstance(text, ast.Constant) else ""
    return found


def used(package: str) -> set[str]:
    """Attributes that Python code of the package, or a test of connections, names."""
    packages = [
        "connection",
        *(PACKAGES if package == "connection" else [package]),
    ]  # all are derived from the kernel's class
    folders = [*(SRC / name for name in packages), ROOT / "tests" / "connection", ROOT / "tests" / "lib"]
    paths = [path for folder in folders for path in folder.glob("*.py")]
    return {
        node.attr for path in paths for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
    }


@pytest.mark.parametrize("package", MODULES)
def test_the_stub_lists_what_the_halves_share(package: str) -> None:
    module = import_module(MODULES[package])
    classes = listed(package)
    assert classes, "the test reads nothing"
    for cls, names in classes.items():
        assert set(names) == set(filter(is_shared, vars(getattr(module, cls)))), cls
        assert not [name for name, meaning in names.items() if not meaning], cls


@pytest.mark.parametrize("package", MODULES)
def test_the_halves_share_only_what_both_use(package: str) -> None:
    assert {name for names in listed(package).values() for name in names} <= used(package)


@pytest.mark.parametrize("package", MODULES)
def test_what_is_compiled_names_the_methods_it_calls(package: str) -> None:
    """Methods of the Python half are in the docstring of the class that calls them."""
    text = "".join(path.read_text() for path in ROOMS[package])
    code = re.sub(r'"""(?:.|\n)*?"""|#.*', "", text)
    defined = set(re.findall(r"(?:def|cdef|cpdef) [^\n(=]*?(\w+)\(", code))
    called = set(filter(is_shared, re.findall(r"\.(_\w+)\(", code))) - defined
    told = set(re.findall(r"`(_\w+)`", "".join(re.findall(r'"""(?:.|\n)*?"""', text))))
    assert called <= told


def derived(cls: type[Any]) -> list[type[Any]]:
    """Python classes of wirefmt that are derived from a compiled one."""
    found = [
        kind for kind in cls.__subclasses__() if kind.__module__.startswith("wirefmt.") and kind.__flags__ & 1 << 9
    ]
    return found + [deeper for kind in cls.__subclasses__() for deeper in derived(kind)]


@pytest.mark.parametrize("package", MODULES)
def test_nothing_is_defined_in_both_halves(package: str) -> None:
    module = import_module(MODULES[package])
    for path in (SRC / package).glob("*.py"):
        import_module(f"wirefmt.{package}.{path.stem}")
    for name in bases(package):
        compiled: type[Any] = getattr(module, name)
        ours = {n: value for n, value in vars(compiled).items() if not n.startswith("__") and n not in EXTENDED}
        for cls in derived(compiled):
            assert not [n for n, value in vars(cls).items() if n in ours and value is not ours[n]], (name, cls)
