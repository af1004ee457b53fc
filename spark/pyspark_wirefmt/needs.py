"""Optional packages, which the driver and every executor must have alike.

Without one, rows are missing, or a capture cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Final

from wirefmt.capture.files import CaptureFile

#: Package -> the modules of which one is enough.
PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    "backports.zstd": ("compression.zstd", "backports.zstd"),  # captures named .zst, bodies of RocketMQ
    "lz4": ("lz4",),  # bodies of RocketMQ
    "cramjam": ("cramjam",),  # connections of NSQ with snappy
    "fsspec": ("fsspec",),  # URLs
}


def present() -> tuple[str, ...]:
    """The optional packages that this Python has."""
    return tuple(package for package, modules in PACKAGES.items() if any(map(_found, modules)))


def require(packages: Iterable[str]) -> None:
    """Raises RuntimeError in a task if this Python lacks a package that the driver has: the rows would be others."""
    if missing := sorted(set(packages) - set(present())):
        raise RuntimeError(
            f"{', '.join(missing)}: installed for the driver, missing here; install the same packages on the executors"
        )


def require_for(captures: Iterable[CaptureFile]) -> None:
    """Raises RuntimeError on the driver if a capture cannot be read, before any task starts."""
    named = next((c.name for c in captures if c.name.lower().endswith(".zst")), None)
    if named and "backports.zstd" not in present():
        raise RuntimeError(f"{named!r} needs Python 3.14 or the package backports.zstd, here and on the executors")


def _found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # its parent is missing
        return False
