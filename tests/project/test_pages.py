"""Every program of README.md and the pages for users passes mypy --strict and pyright, as a user's copy of it would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lib.paths import ROOT

#: Pages for developers: their blocks are files of the package, or no programs.
INTERNAL = ("adding-a-protocol.md", "design.md")
PAGES = (ROOT / "README.md", *(p for p in sorted((ROOT / "docs").glob("*.md")) if p.name not in INTERNAL))


#: As users call them; pyright in its default mode, as their editors have it.
CHECKERS = {
    "mypy": ("--strict", "--no-error-summary", "--hide-error-context"),
    "pyright": ("--pythonpath", sys.executable),
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_programs_of_the_pages_are_typed(checker: str, tmp_path: Path) -> None:
    """Errors name the page and the line of its block, for example docs_mqtt_md_42.py:3."""
    pytest.importorskip(checker, reason=f"needs {checker} (pip install {checker})")
    programs = [write(page, block, tmp_path) for page in PAGES for block in blocks(page)]
    text = "\n".join(program.read_text() for program in programs)
    for module in ("paho", "pika", "polars", "duckdb", "trio", "uvloop"):
        if re.search(rf"^ *(?:import|from) {module}\b", text, re.M):
            pytest.importorskip(module, reason=f"needs {module} (pip install {module})")
    command = [sys.executable, "-m", checker, *CHECKERS[checker], *map(str, programs)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout.replace(f"{tmp_path}/", "") + told.stderr


def blocks(page: Path) -> list[re.Match[str]]:
    return list(re.finditer(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S))


def write(page: Path, block: re.Match[str], folder: Path) -> Path:
    line = block.string.count("\n", 0, block.start(1)) + 1
    path = folder / f"{re.sub(r'[^a-z0-9]', '_', str(page.relative_to(ROOT)).lower())}_{line}.py"
    path.write_text(block[1], encoding="utf-8")
    return path
