"""Ratios measured in one run: our code and its peers alternate, and the best round of each counts.

Alternating makes a noisy machine slow all of them alike. A figure here is a ratio; the times beside it are for the reader.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).parent / "results"


def versions(*packages: str) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def compare(
    title: str,
    contestants: Mapping[str, Callable[..., object]],
    *,
    units: int = 1,
    unit: str = "message",
    rounds: int = 7,
    at_least: float = 0.05,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds per unit for each contestant (best of `rounds`), printed as ratios to the first and kept as JSON.

    `units` is the number that one call handles; each round of a contestant lasts `at_least` seconds of `clock`.
    """
    loops: dict[str, int] = {}
    for name, run in contestants.items():
        start = clock()
        run()
        once = max(clock() - start, 1e-9)
        loops[name] = max(1, int(at_least / once))
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            start = clock()
            for _ in range(loops[name]):
                run()
            seconds[name].append((clock() - start) / loops[name] / units)
    best = {name: min(times) for name, times in seconds.items()}
    ours = next(iter(best.values()))
    print(f"\n{title}")
    for name, value in best.items():
        spread = median(seconds[name]) / value - 1
        print(f"  {name:42} {value * 1e9:12,.1f} ns per {unit}   {value / ours:9.2f} x   (median +{spread:.0%})")
    RESULTS.mkdir(exist_ok=True)
    slug = "".join(c if c.isalnum() else "-" for c in title.lower())[:60].strip("-")
    result = {"title": title, "unit": unit, "best_seconds": best, "rounds": rounds, "versions": versions("wirefmt")}
    (RESULTS / f"{slug}.json").write_text(json.dumps(result, indent=1))
    return best
