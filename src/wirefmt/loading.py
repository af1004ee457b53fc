"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(
    package: str, modules: Mapping[str, tuple[str, ...]], submodules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: its name.
        modules: names by the module that has them.
        submodules: modules of the package that are attributes without having been imported.
    """
    homes = {name: module for module, names in modules.items() for name in names}
    space = vars(sys.modules[package])

    def __getattr__(name: str) -> Any:
        if name in homes:
            space[name] = value = getattr(import_module(homes[name]), name)
            return value
        if name in submodules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*space, *homes, *submodules})

    return __getattr__, __dir__
