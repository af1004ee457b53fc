"""Simulations with a seed for each run: how many there are, and how a run that fails is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

STEPS: Final = int(os.environ.get("SIMULATE_STEPS", "21000"))
SEED: Final = int(os.environ.get("SIMULATE_SEED", "0"))
#: Steps with disturbances in one world, before it is left to settle.
RUN: Final = 700
#: Parts of a simulation: tests that may run beside each other.
PARTS: Final = range(10)


def run_part(run: Callable[[int], Any], part: int) -> None:
    """The runs of one part. A run that fails has its seed in a note."""
    for number in range(max(STEPS // RUN // len(PARTS), 1)):
        seed = SEED + part + len(PARTS) * number
        try:
            run(seed)
        except Exception as error:
            error.add_note(f"SIMULATE_SEED={seed}")
            raise
