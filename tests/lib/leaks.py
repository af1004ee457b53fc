"""What calls leave behind.

What is counted is exact: bytes of the C library's heap that are in use (mallinfo2), objects of Python's allocator, references
to the objects that everything shares. A call that leaks one of them a time is found after CALLS calls.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from lib.heap import heap

CALLS = 32
#: A leak is at least the smallest chunk of malloc, or one object, or one reference a call.
SMALLEST_CHUNK = 32


clear_type_cache: Callable[[], None] = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache


def growth(call: Callable[[], object], shared: tuple[object, ...] = ()) -> dict[str, float]:
    """What each call adds, in shares of the smallest leak: 1 is a leak, less is noise.

    The collector runs only before a measurement, so that each finds as much garbage as the one before it: lists of free
    objects, which garbage fills, grow in the first round only.
    """
    watched = (None, True, False, (), b"", "", *shared)
    before = after = [0] * (2 + len(watched))
    gc.disable()
    try:
        for _ in range(2):
            for _ in range(CALLS):
                call()
            gc.collect()
            clear_type_cache()  # it holds names of attributes that are looked up, by their addresses
            before = after
            after = [heap(), sys.getallocatedblocks(), *(sys.getrefcount(o) for o in watched)]
    finally:
        gc.enable()
    grown = [b - a for a, b in zip(before, after, strict=True)]
    found = {"heap": grown[0] / SMALLEST_CHUNK, "objects": float(grown[1])}
    found |= {f"references to {o!r:.40}": float(n) for o, n in zip(watched, grown[2:], strict=True)}
    return {name: n / CALLS for name, n in found.items()}


def leaks(call: Callable[[], object], shared: tuple[object, ...] = ()) -> dict[str, float]:
    """What leaks: it grows however often it is measured. Tables and lists of free objects stop growing."""
    found: dict[str, float] = {}
    for _ in range(12):
        now = growth(call, shared)
        found = {name: now[name] for name in found or now if now[name] > 0.9}
        if not found:
            break
    return found
