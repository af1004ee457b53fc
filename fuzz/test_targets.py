"""The fuzz targets as tests: seeds and some mutations of them, always the same. tools/mutants runs them, too."""

from __future__ import annotations

import random
import time

import pytest
from run import LONGEST, mutate
from targets import TARGETS

SECONDS = 1  # CPU time limit of a target
SEEDS, MUTATIONS = 150, 150


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_target(name: str) -> None:
    r = random.Random(name)
    target = TARGETS[name]
    seeds = [seed for seed in target.seeds() if len(seed) <= LONGEST]
    inputs = r.sample(seeds, min(SEEDS, len(seeds)))
    inputs += [mutate(r.choice(seeds), r, seeds) for _ in range(MUTATIONS)]
    r.shuffle(inputs)
    end = time.process_time() + SECONDS
    for data in inputs:
        target.run(data)
        if time.process_time() > end:
            break
