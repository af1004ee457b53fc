"""Examples of the pages in docs/."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from lib.paths import ROOT

DOCS = ROOT / "docs"


def examples(page: str) -> list[str]:
    """The blocks of Python in a page."""
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)


def output_of(example: str, folder: Path) -> str:
    """Run an example as a program in this folder. It must succeed without a warning. Returns what it prints."""
    command = [sys.executable, "-W", "always", "-c", example]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
