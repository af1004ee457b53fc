"""Clients of all protocols on asyncio, under a virtual clock, beside networks and servers that do what they like; when these are
well again, every call has ended, every message has one outcome, everything is restored, and nothing is left over.

A run has a seed. `SIMULATE_STEPS=1 SIMULATE_SEED=7 pytest tests/connection/test_liveness.py -k mqtt-0` runs one again;
`tests/README.md` says what a step is. The engine is `lib/liveness.py`; `lib/liveness_PROTOCOL.py` are the worlds.
"""

from __future__ import annotations

import pytest

from lib.liveness_runs import PROTOCOLS, run_steps, world_of
from lib.simulated import PARTS, SEED, STEPS


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_everything_goes_on_when_the_server_is_well(protocol: str, part: int) -> None:
    run_steps(protocol, SEED + part, len(PARTS), STEPS // len(PROTOCOLS) // len(PARTS))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_seed_is_a_run(protocol: str) -> None:
    logs = []
    for _ in range(2):
        world = world_of(protocol)(SEED)
        world.run()
        logs.append(world.log)
    assert logs[0] == logs[1]
