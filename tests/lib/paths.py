"""What several tests need: where shared data lies, and how vectors are read."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
VECTORS = ROOT / "tests" / "vectors"
#: Captures of others and all vectors: a folder beside the checkout, not part of the repository.
SHARED = ROOT.parent / "shared"


def shared(path: str) -> Path:
    """A file or folder of the shared data; skips the test where it is absent."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"no {path} beside the checkout (folder `shared`)")
    return found
