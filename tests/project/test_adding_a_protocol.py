"""docs/adding-a-protocol.md, followed to the letter in a copy of the sources: STOMP from a capture to rows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lib.paths import ROOT

PAGE = (ROOT / "docs" / "adding-a-protocol.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`(src/wirefmt/\S+)`\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
ROW = re.search(r"^```python\n( {4}Protocol\(.*\n)```", PAGE, re.MULTILINE)


def test_it_is_short() -> None:
    """Lines of code: blank lines, comments and the first lines of docstrings are not counted."""
    code = [line.strip() for text in FILES.values() for line in text.splitlines()]
    assert 300 < sum(bool(line) and not line.startswith(("#", '"""')) for line in code) < 400


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("Cython", reason="needs Cython (pip install Cython)")
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc (apt install gcc)")
    tree = tmp_path_factory.mktemp("stomp")
    for folder in ("src", "spark", "tools"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    (tree / "docs").mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tree / name)
    for name, text in FILES.items():
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
    registry = tree / "src" / "wirefmt" / "protocols.py"
    assert ROW is not None
    rows, end, rest = registry.read_text(encoding="utf-8").partition("\n)\n\n\nclass Skippable")
    assert end
    registry.write_text(rows + "\n" + ROW.group(1).rstrip() + end + rest, encoding="utf-8")
    run(tree, "tools/gen_tables.py")
    environment = os.environ | {"WIREFMT_DEBUG": "1"}
    run(tree, "setup.py", "-q", "build_ext", "--inplace", environment=environment)
    return tree


def run(tree: Path, *command: str, environment: dict[str, str] | None = None) -> str:
    environment = dict(environment or os.environ, PYTHONPATH=f"{tree / 'src'}{os.pathsep}{ROOT / 'tests'}")
    done = subprocess.run([sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


CONVERSATION = ROOT / "tests" / "data" / "stomp-rabbitmq.pcap.gz"


@pytest.mark.timeout(1200)
def test_a_conversation_with_rabbitmq_becomes_rows(tree: Path) -> None:
    script = """
import sys, json
from wirefmt import capture
for row in capture.read(sys.argv[1]).to_pylist():
    fields = {k: v for k, v in row["stomp"].items() if v is not None}
    print(json.dumps([row["protocol"], row["direction"], row["kind"], row["operation"], row["destination"], row["status"],
                      dict(row["headers"]).get("passcode"), fields, (row["payload"] or b"").decode()]))
"""
    rows = run(tree, "-c", script, str(CONVERSATION))
    assert rows == ""
