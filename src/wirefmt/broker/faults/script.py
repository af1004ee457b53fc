"""Scripts: faults for a whole test, with the times at which they begin and end."""

from __future__ import annotations

import asyncio
import math
import tomllib
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from wirefmt.broker.faults.control import Active, Faults
from wirefmt.broker.faults.fault import Fault

if TYPE_CHECKING:
    from wirefmt.broker.embedded import Broker

#: The values of `restart`.
RESTARTS = ("with state", "without state")


class Step(NamedTuple):
    """One entry of a script: a fault or a restart.

    Attributes:
        after: seconds after the beginning of the script.
        seconds: the duration of the fault; None: until the script is cancelled.
        fault: the fault; None if this is a restart.
        restart: "with state" or "without state"; None if this is a fault.
    """

    after: float
    seconds: float | None
    fault: Fault | None
    restart: str | None


class Script(NamedTuple):
    """Faults for a whole test.

    Attributes:
        seed: the seed of the randomness; None: chosen at random.
        steps: in the order of their times.
    """

    seed: int | None
    steps: tuple[Step, ...]


def read_script(text: str) -> Script:
    """Read a script in TOML (docs/broker-faults.md). Raises ValueError, which says what is wrong."""
    return script_of(tomllib.loads(text))


def script_of(data: Mapping[str, Any]) -> Script:
    """From the values of a TOML file. Raises ValueError."""
    if unknown := set(data) - {"seed", "fault"}:
        raise ValueError(f"a script has seed and [[fault]], not {', '.join(sorted(unknown))}")
    seed, steps = data.get("seed"), []
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise ValueError(f"seed must be an integer, not {seed!r}")
    entries = data.get("fault", [])
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ValueError("each fault of a script has a table of its own: [[fault]]")
    for entry in map(dict, entries):
        after, seconds, restart = (entry.pop(name, None) for name in ("after", "for", "restart"))
        for name, value in (("after", after), ("for", seconds)):
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf
            ):
                raise ValueError(f"{name} must be a number of seconds, at least 0, not {value!r}")
        if restart not in (None, *RESTARTS):
            raise ValueError(f'restart must be "with state" or "without state", not {restart!r}')
        if restart is not None and (entry or seconds is not None):
            raise ValueError("a [[fault]] with restart can have no other entry than after")
        steps.append(Step(after or 0.0, seconds, None if restart else Fault.of(entry), restart))
    return Script(seed, tuple(sorted(steps, key=lambda step: step.after)))


async def play(broker: Broker, script: Script) -> None:
    """Run a script. Returns after its last step, if every fault of it ends; otherwise runs until it is cancelled. Then the faults
    that are active end."""
    faults: Faults = broker.faults
    if script.seed is not None:
        faults.sow(script.seed)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    active: dict[Active, float | None] = {}
    steps = deque(script.steps)
    try:
        while steps or any(end is not None for end in active.values()):
            ends = [end for end in active.values() if end is not None]
            due = min([*ends, *([begun + steps[0].after] if steps else [])])
            await asyncio.sleep(due - loop.time())
            for over in [fault for fault, end in active.items() if end is not None and end <= due]:
                del active[over]
                faults.stop(over)
            while steps and begun + steps[0].after <= due:
                step = steps.popleft()
                if step.fault is None:
                    await broker.restart(keep_state=step.restart == "with state")
                else:
                    active[faults.start(step.fault)] = None if step.seconds is None else due + step.seconds
        if active:
            await loop.create_future()  # until it is cancelled
    finally:
        for fault in active:
            faults.stop(fault)
