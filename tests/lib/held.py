"""How much an object of wirefmt holds."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Mapping
from typing import Any


def held_by(root: Any) -> int:
    """Entries of all containers that can be reached from it through objects of wirefmt."""
    seen: set[int] = set()
    count = 0
    stack = [root]
    while stack:
        found = stack.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, Mapping):
            count += len(found)
            stack += [*found.keys(), *found.values()]
        elif isinstance(found, list | tuple | set | frozenset | deque):
            count += len(found)
            stack += found
        elif type(found).__module__.startswith("wirefmt"):
            stack += [each for each in gc.get_referents(found) if not isinstance(each, type)]
    return count
