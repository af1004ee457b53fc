"""Benchmarks run, except the long ones. Times are not looked at: where a benchmark compares, each contestant runs once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lib.paths import ROOT

BENCH = ROOT / "bench"
# these start Spark or brokers; some take minutes
LONG = {
    "bench_amqp091_loopback",
    "bench_fairness",
    "bench_mqtt_fanout",
    "bench_mqtt_loopback",
    "bench_nsq_connection",
    "bench_one_at_a_time",
    "bench_rocketmq_connection",
    "bench_spark",
}
ONCE = """
import runpy, sys
from pathlib import Path
folder, results, ours, bench = sys.argv[1:]
sys.path.insert(0, folder)
import ratios
def once(title, contestants, **_):
    assert contestants, title
    for run in contestants.values():
        run()
    print("once:", title)
    return dict.fromkeys(contestants, 1.0)
ratios.compare, ratios.RESULTS = once, Path(results)
sys.argv = [bench]
try:
    runpy.run_path(bench, run_name="__main__")
except ModuleNotFoundError as absent:
    if absent.name.split(".")[0] in ours.split():
        raise
    print("absent:", absent.name)
"""
# a module of these is never a package to install
OURS = ("wirefmt", "pyspark_wirefmt", "lib", *(path.stem for path in BENCH.glob("*.py")))


def test_the_long_ones_are_benchmarks() -> None:
    assert set(OURS) >= LONG


@pytest.mark.parametrize("bench", sorted({path.stem for path in BENCH.glob("bench_*.py")} - LONG))
def test_a_benchmark_runs(bench: Any, tmp_path: Path) -> None:
    path = BENCH / f"{bench}.py"
    command = [sys.executable, "-c", ONCE, str(BENCH), str(tmp_path), " ".join(OURS), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    absent = [line.removeprefix("absent: ") for line in done.stdout.splitlines() if line.startswith("absent: ")]
    if absent:
        pytest.skip(f"needs {absent[0]} (pip install --group bench)")
    assert done.returncode == 0, done.stderr
    assert "compare(" not in path.read_text() or "once: " in done.stdout, done.stdout
