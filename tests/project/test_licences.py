"""What wirefmt depends on may be used with it, and the data of its tests have an origin."""

from __future__ import annotations

import json
import re
import tomllib
from email.message import Message
from importlib import metadata
from typing import Any

import pytest

from lib.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Licences that let an Apache-2.0 program depend on a package: SPDX identifiers.
PERMISSIVE = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "PSF-2.0", "Python-2.0",
    "Unlicense", "Zlib",
}  # fmt: skip
#: Words of packages that have no SPDX expression yet, in the field License or in classifiers.
WORDS = re.compile(r"\b(MIT|BSD|Apache|ISC)\b")
STRICT = re.compile(r"\b(A?GPL|LGPL|MPL|EPL|SSPL|Proprietary)\b|GNU", re.IGNORECASE)


def required_by(requirements: list[str]) -> list[str]:
    """Names in requirements, without those of extras."""
    return [re.split(r"[^\w.-]", requirement)[0] for requirement in requirements if "extra ==" not in requirement]


def dependencies() -> dict[str, metadata.PackageMetadata]:
    """What the package and its extras need, directly or not, as far as it is installed."""
    extras = [name for key, extra in PROJECT["optional-dependencies"].items() if key != "all" for name in extra]
    todo, found = required_by(PROJECT["dependencies"] + extras), {}
    while todo:
        name = todo.pop()
        if name in found:
            continue
        try:
            found[name] = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        todo += required_by(metadata.requires(name) or [])
    return found


def fault(package: Any) -> str | None:
    """Why a package may not be a dependency, by its own metadata."""
    expression = package.get("License-Expression")
    if expression:
        others = set(re.findall(r"[\w.+-]+", expression)) - {"AND", "OR", "WITH", "LLVM-exception"} - PERMISSIVE
        return f"{expression}: {sorted(others)} not in the list" if others else None
    lines = [(package.get("License") or "").partition("\n")[0]]
    lines += [name for name in package.get_all("Classifier") or [] if name.startswith("License ::")]
    if any(map(STRICT.search, lines)):
        return f"{lines}"
    return None if any(map(WORDS.search, lines)) else f"no known licence: {lines}"


def test_dependencies_are_permissive() -> None:
    found = dependencies()
    if "numpy" not in found:
        pytest.skip("needs numpy (pip install numpy)")
    faults = {name: told for name, package in found.items() if (told := fault(package))}
    assert not faults


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ({"License-Expression": "MIT OR Apache-2.0"}, True),
        ({"License-Expression": "GPL-3.0-or-later"}, False),
        ({"License": "BSD 3-Clause License\n\nLong text"}, True),
        ({"License": "GNU LGPL"}, False),
        ({"Classifier": "License :: OSI Approved :: MIT License"}, True),
        ({"License": ""}, False),
    ],
)
def test_a_licence_is_recognised(fields: Any, allowed: Any) -> None:
    package = Message()
    for key, value in fields.items():
        package[key] = value
    assert (fault(package) is None) == allowed


def test_the_package_brings_no_code_of_others() -> None:
    """A file under other terms would need a file NOTICE (CONTRIBUTING.md)."""
    assert PROJECT["license"] == "Apache-2.0"
    assert not (ROOT / "NOTICE").exists()
    named = re.compile(r"SPDX-License-Identifier|\(c\) (?:19|20)\d\d|Copyright (?:19|20)\d\d")
    for folder in ("src", "spark", "tools"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".pyx", ".pxi", ".pxd", ".pyi", ".h"):
                assert not named.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests" / "vectors").glob("*/*.jsonl")), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_a_vector_says_where_it_is_from(path: Any) -> None:
    folder = f"`{path.stem}`.*" if path.parent.name == "mqtt" else rf"^\| `{path.parent.name}` .*"
    field = re.search(rf"{folder} \| `(\w+)` \|$", (ROOT / "tests" / "vectors" / "README.md").read_text(), re.MULTILINE)
    assert field is not None, "a line in tests/vectors/README.md"
    with path.open(encoding="utf-8") as rows:
        without = [row["id"] for row in map(json.loads, rows) if not row.get(field[1])]
    assert not without


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "data").iterdir()), ids=lambda p: p.name)
def test_recorded_data_are_described(path: Any) -> None:
    if not (path / "README.md").exists() and path.name != "README.md":
        assert re.search(rf"\b{re.escape(path.name)}\b", (ROOT / "tests" / "data" / "README.md").read_text()), (
            "not described"
        )
