"""Modules outside the package: programs of tools/, and the files that tests of all protocols ask for."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path
from types import ModuleType


def load(name: str, path: Path) -> ModuleType:
    """The module in `path`, once."""
    if name not in sys.modules:
        spec = util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = util.module_from_spec(spec)  # NamedTuple looks for it
        spec.loader.exec_module(module)
    return sys.modules[name]
