"""Any bytes at any moment, with any decisions of the host: a defined answer, one Disconnected, bounded memory."""

from __future__ import annotations

import random

import pytest

from lib.nsq_driven import COMMANDS, FRAMES, connection, drive

PIECES = {"client": FRAMES, "server": COMMANDS}


@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize("seed", range(300))
def test_any_bytes_at_any_moment(role: str, seed: int) -> None:
    random_ = random.Random(f"{role} {seed}")
    subject, opening = connection(role, random_)
    data = bytearray(opening)
    for _ in range(random_.randrange(1, 20)):
        piece = bytearray(random_.choice(PIECES[role]))
        if random_.random() < 0.1:
            piece[random_.randrange(len(piece))] = random_.randrange(256)
        data += piece
    drive(subject, bytes(data), random_)
