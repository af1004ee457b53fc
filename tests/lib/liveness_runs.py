"""Runs of the simulated liveness: worlds by protocol, and what is said of a run that fails: its script, cut to what is needed."""

from __future__ import annotations

import gc
import re
from importlib import import_module
from typing import Any, Final

from .liveness import Action, Violation, World

PROTOCOLS: Final = ("amqp10", "amqp091", "mqtt", "nsq", "rocketmq", "phpmq")
#: Steps that cutting a script may take, and lines at the begin and the end of a log that are printed.
CUTS: Final = 300_000
FIRST, LAST = 50, 20


def world_of(protocol: str) -> type[World]:
    world: type[World] = import_module(f".liveness_{protocol}", __package__).WORLD
    return world


def kind_of(error: BaseException) -> str:
    """The same for two violations of one kind: what it says, without names and numbers."""
    return re.sub(r"b'\w+'|'[^']*'|0x[0-9a-f]+|\d+(\.\d+)?|second .*", "#", f"{type(error).__name__}: {error}")[:60]


def violation_of(world: World) -> BaseException | None:
    """Run it. Returns what is wrong."""
    try:
        world.run()
    except Exception as error:
        return error
    finally:
        gc.collect(1)
    return None


def cut(protocol: str, seed: int, script: list[Action], error: BaseException) -> tuple[list[Action], World]:
    """The script without actions that are not needed for the violation, and a run of it."""
    make, kind = world_of(protocol), kind_of(error)
    steps = 0
    size = max(len(script) // 2, 1)
    shortest = make(seed, script)
    violation_of(shortest)
    while size and steps < CUTS:
        at = 0
        while at < len(script) and steps < CUTS:
            shorter = script[:at] + script[at + size :]
            world = make(seed, shorter)
            found = violation_of(world)
            steps += world.steps
            if found is not None and kind_of(found) == kind:
                script, shortest = shorter, world
            else:
                at += size
        size //= 2
    return script, shortest


def run(protocol: str, seed: int) -> int:
    """One run. Returns its steps. Raises Violation, with all that is needed to repeat and to understand it."""
    world = world_of(protocol)(seed)
    error = violation_of(world)
    if error is None:
        return world.steps
    script, shortest = cut(protocol, seed, world.script, error)
    log = shortest.log
    if len(log) > FIRST + LAST:
        log = [*log[:FIRST], "      ...", *log[-LAST:]]
    raise Violation(
        f"{error}\n{protocol}, seed {seed}, step {world.steps}; {len(script)} of {len(world.script)} actions are enough:\n"
        + "\n".join(log)
        + f"\nagain: SIMULATE_SEED={seed} SIMULATE_STEPS=1 pytest tests/connection/test_liveness.py -k {protocol}-0"
    ) from error


def run_steps(protocol: str, seed: int, stride: int, steps: int) -> dict[str, Any]:
    """Runs of the seeds `seed`, `seed + stride` ... until there were so many steps."""
    done = runs = 0
    while not runs or done < steps:
        done += run(protocol, seed + stride * runs)
        runs += 1
    return {"steps": done, "runs": runs}
