"""Any bytes at any moment, with any decisions of the host: a defined outcome, one Disconnected, bounded memory."""

from __future__ import annotations

import random

import pytest

from lib.rocketmq_driven import connection, drive
from lib.rocketmq_vectors import load
from wirefmt.rocketmq import RemotingCommand

FRAMES = sorted({v.octets for v in load() if "frame" in v.kind or v.kind in ("request", "response")}, key=len)
PIECES = [frame for frame in FRAMES if frame and len(frame) < 2000] + [
    RemotingCommand(code=code, flag=flag, opaque=opaque).encode()
    for code in (0, 34, 1500)
    for flag in (0, 1, 2, 3)
    for opaque in range(1, 6)
]
PREFACES = [
    b"\x16\x03\x01",
    b"PROXY UNKNOWN\r\n",
    b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
    b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00",
]


@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize("seed", range(250))
def test_any_bytes_at_any_moment(role: str, seed: int) -> None:
    random_ = random.Random(f"{role} {seed}")
    data = bytearray()
    for _ in range(random_.randrange(3)):
        data += random_.choice(PREFACES)
    for _ in range(random_.randrange(1, 20)):
        piece = bytearray(random_.choice(PIECES))
        if random_.random() < 0.1:
            piece[random_.randrange(len(piece))] = random_.randrange(256)
        data += piece
    drive(connection(role, random_), data, random_)
