"""Where the checkout, recorded data and vectors are."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
VECTORS = ROOT / "tests" / "vectors"
#: Folders with a MANIFEST.jsonl. WIREFMT_CAPTURES names further ones, separated as in PATH (tests/README.md).
CAPTURES = [
    ROOT / "tests" / "captures",
    *map(Path, filter(None, os.environ.get("WIREFMT_CAPTURES", "").split(os.pathsep))),
]
