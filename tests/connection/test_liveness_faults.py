"""Faults that clients had once are planted again: the simulation of liveness notices each."""

from __future__ import annotations

import os

import pytest

from lib.liveness_faults import FAULTS, look_for

ALL = os.environ.get("SIMULATE_FAULTS") == "all"


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if ALL or fault.quick])
def test_a_planted_fault_is_noticed(name: str) -> None:
    fault = FAULTS[name]
    assert look_for(fault) is not None, f"{fault.runs} runs of {fault.protocol} have not noticed that {fault.what}"
