"""Any bytes for a client and a server, with any cuts and any decisions: LocalProtocolError at most, within the limits."""

from __future__ import annotations

import random

import pytest

from lib.amqp091_driven import connection, drive, some_frames

SEEDS = 150


@pytest.mark.parametrize("role", ["client", "server"])
def test_random_frames(role: str) -> None:
    for seed in range(SEEDS):
        random_ = random.Random(f"{role} {seed}")
        machine, opening = connection(role, random_)
        frames = [some_frames(role, random_) for _ in range(random_.randrange(40))]
        try:
            drive(role, machine, bytearray(b"".join([*opening, *frames])), random_)
        except BaseException as error:
            error.add_note(f"role {role}, seed {seed}")
            raise


@pytest.mark.parametrize("role", ["client", "server"])
def test_random_bytes(role: str) -> None:
    for seed in range(SEEDS):
        random_ = random.Random(f"{role} bytes {seed}")
        machine, opening = connection(role, random_)
        drive(role, machine, bytearray(b"".join(opening) + random_.randbytes(random_.randrange(200))), random_)
