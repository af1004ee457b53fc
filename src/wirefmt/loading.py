"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

#: Names in a package's file that are not its own. Pickles name functions that begin with `restore`.
_NOT_PUBLIC = {"TYPE_CHECKING", "annotations", "lazy"}


def lazy(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package (PEP 562). Sets its `__all__`: what it has imported, and these names.

    Args:
        package: its name. Its file calls this last.
        modules: names, separated by spaces, by the module that has them; "": submodules of the package.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}
    space = vars(sys.modules[package])
    imported = {
        name
        for name, value in space.items()
        if not name.startswith(("_", "restore")) and name not in _NOT_PUBLIC and not isinstance(value, ModuleType)
    }
    space["__all__"] = sorted({*imported, *(name for name, module in homes.items() if module)})

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not homes[name]:
            return import_module(f"{package}.{name}")
        space[name] = value = getattr(import_module(homes[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*space, *homes} - _NOT_PUBLIC)

    return __getattr__, __dir__
