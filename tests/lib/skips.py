"""What a machine lacks. A test that cannot run says `needs NAME (how to install it)`; the summary names each once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

#: Packages whose name is not that of their module.
PACKAGES = {"aio_pika": "aio-pika", "paho": "paho-mqtt", "proton": "python-qpid-proton"}


def imported(module: str) -> Any:
    """The module. The test is skipped if its package is not installed."""
    top = module.partition(".")[0]
    package = PACKAGES.get(top, top)
    return pytest.importorskip(module, reason=f"needs {package} (pip install {package})")


def not_tried(reasons: Iterable[str]) -> str:
    """One line for the summary; empty if nothing is lacking. `reasons`: of tests that were skipped."""
    found = {m[1] for reason in reasons if (m := re.fullmatch(r"(?:Skipped: )?needs (.+ \(.+\))", reason))}
    return f"not tried: {', '.join(sorted(found, key=str.lower))}" if found else ""
