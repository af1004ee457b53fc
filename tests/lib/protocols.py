"""The protocols of the registry, for tests: their packages and a port of each."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from wirefmt.protocols import PROTOCOLS

MODULES: dict[str, ModuleType] = {row.name: import_module(f"wirefmt.{row.name}") for row in PROTOCOLS}
#: 9100: PHPMQ has no registered port; it is that of its sample configuration.
PORTS: dict[str, int] = {row.name: row.ports[0] if row.ports else 9100 for row in PROTOCOLS}
