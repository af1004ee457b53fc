"""Work of the event loop, counted in calls of functions: it is the same whatever the machine does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Turns:
    """`most`: calls of functions in one iteration of the loop, at most. `calls`: of all. `iterations`: how many there were."""

    def __init__(self) -> None:
        self.most = self.calls = self.iterations = 0


@contextmanager
def counted_turns() -> Iterator[Turns]:
    """Count while the block runs. The loop is asyncio's own."""
    loop: Any = asyncio.get_running_loop()
    turns, once = Turns(), loop._run_once

    def count(frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            turns.calls += 1

    def run_once() -> None:
        before = turns.calls
        once()
        turns.iterations += 1
        turns.most = max(turns.most, turns.calls - before)

    loop._run_once = run_once
    sys.setprofile(count)
    try:
        yield turns
    finally:
        sys.setprofile(None)
        loop._run_once = once
