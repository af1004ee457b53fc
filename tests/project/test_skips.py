"""A test that is skipped for what a machine lacks says what that is and how to install it, and the summary repeats it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lib.paths import ROOT
from lib.skips import not_tried

FILES = sorted((ROOT / "tests").rglob("*.py"))
#: Skips that have nothing to do with what is installed.
OF_THE_CASE = {
    "reads /proc",
    "no /dev/full on this system",
    "None is immortal from 3.12 on, references are not counted",
    "nothing is shared without a GIL",
    "a hole: tcpflow stops there",
    "the port is registered for another protocol",
    "nothing tells the client from the server, or where its octets begin",
    "its first four octets are all that NSQ begins with",
    "this editcap does not write it",
}


def reasons_of(path: Path) -> Iterator[str]:
    """The reason of every skip, skipif and importorskip; values in braces are put in as `X`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = node.func.attr
        if name not in ("skip", "skipif", "importorskip") or "pytest" not in ast.unparse(node.func):
            continue
        given = [k.value for k in node.keywords if k.arg == "reason"] + (node.args[:1] if name == "skip" else [])
        if not given:
            yield f"{name} without a reason in line {node.lineno}"
        for reason in given:
            if isinstance(reason, ast.JoinedStr):
                yield "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in reason.values)
            else:
                yield str(ast.literal_eval(reason))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT / "tests")))
def test_reasons_say_what_is_needed(path: Path) -> None:
    assert [r for r in reasons_of(path) if r not in OF_THE_CASE and not re.fullmatch(r"needs .+ \(.+\)", r)] == []


def test_reasons_are_found() -> None:
    found = {reason for path in FILES for reason in reasons_of(path)}
    assert {"needs mosquitto (apt install mosquitto)", "needs pyarrow (pip install pyarrow)"} <= found
    assert found >= OF_THE_CASE


def test_each_is_named_once() -> None:
    skipped = ["Skipped: needs php (apt install php-cli)", "needs mosquitto (apt install mosquitto)", "a hole"] * 3
    assert not_tried(skipped) == "not tried: mosquitto (apt install mosquitto), php (apt install php-cli)"
    assert not_tried(["a hole", "Skipped: reads /proc"]) == ""


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "a worker"])
def test_the_summary_says_what_was_not_tried(tmp_path: Path, workers: list[str]) -> None:
    """On a machine without tshark. Elsewhere nothing is said."""
    if workers:
        pytest.importorskip("xdist", reason="needs pytest-xdist (pip install pytest-xdist)")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, "tests/capture/test_made.py"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    said = subprocess.run(
        command, cwd=ROOT, env=environment | {"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout
    *_, line, last = said.stdout.splitlines()
    assert line == "not tried: tshark (apt install tshark)"
    assert re.fullmatch(r"1 passed, \d+ skipped in .*", last)
