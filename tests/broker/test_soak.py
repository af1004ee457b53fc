"""A short run of bench/soak_broker.py: nothing is left over when the clients have gone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "soak_broker.py"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc (Linux)")
def test_clients_that_come_and_go_leave_nothing() -> None:
    command = [sys.executable, str(SCRIPT), "--minutes", "0.05", "--connections", "40", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) clients, at most (\d+) at a time", done.stdout)
    assert found is not None
    assert int(found[1]) >= 40
    assert int(found[2]) > 10
    assert done.stderr == ""
