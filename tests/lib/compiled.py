"""The compiled modules: the kernel, a codec for each protocol, conversions, captures, insight."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from wirefmt.protocols import PROTOCOLS

NAMES = (
    "wirefmt._core",
    *(row.codec for row in PROTOCOLS),
    "wirefmt.convert._engine",
    "wirefmt.capture._engine",
    "wirefmt.insight._engine",
)


def compiled() -> list[ModuleType]:
    return [import_module(name) for name in NAMES]
