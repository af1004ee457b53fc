"""The protocols of the registry, for tests: their packages and a port of each."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from lib.modules import load
from lib.paths import ROOT
from wirefmt.protocols import PROTOCOLS

MODULES: dict[str, ModuleType] = {row.name: import_module(f"wirefmt.{row.name}") for row in PROTOCOLS}
#: 9100: PHPMQ has no registered port; it is that of its sample configuration.
PORTS: dict[str, int] = {row.name: row.ports[0] if row.ports else 9100 for row in PROTOCOLS}


def part(name: str, file: str) -> Any:
    """The module tests/NAME/FILE.py: what the tests of all protocols ask of one. None if there is no such file."""
    path = ROOT / "tests" / name / f"{file}.py"
    return load(f"lib.protocols.{name}_{file}", path) if path.exists() else None


#: `examples.py` of each protocol that has one:
#: OPENING: what a client and a server say first, and kinds of messages that captures find in it;
#: samples(): calls that make messages, or raise DecodeError; USES: calls of constructors with one argument of any kind;
#: plants(): (side, message) with a secret in every place; before(message): what a client says before such a message.
EXAMPLES: dict[str, Any] = {name: part(name, "examples") for name in MODULES if part(name, "examples")}
