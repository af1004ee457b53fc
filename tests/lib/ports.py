"""Ports of loopback for programs that tests start.

A worker takes them from a range of its own, below those that systems give to connections. So no two workers choose the same
port, and no connection takes one between choice and use.
"""

from __future__ import annotations

import itertools
import os
import socket

HOST = "127.0.0.1"
FIRST, LAST = 11_000, 32_000
WORKERS = 14  # that have a range of their own
STEP = 4  # RocketMQ's broker also listens on the port before the last one and on the next one
ROOM = (LAST - FIRST) // WORKERS // STEP

_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
_numbers = itertools.count(os.getpid() * 31)  # another run on this machine begins elsewhere


def free_port() -> int:
    for _ in range(ROOM):
        port = FIRST + (_worker * ROOM + next(_numbers) % ROOM) * STEP + 2
        try:
            socket.create_server((HOST, port)).close()
        except OSError:
            continue
        return port
    raise RuntimeError(f"none of {ROOM} ports is free")
