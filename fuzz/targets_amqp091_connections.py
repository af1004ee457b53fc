"""Targets of the AMQP 0.9.1 connections: any bytes for a client and a server, with any cuts and decisions. See targets.py.

The first two octets seed what is random: cuts and decisions of the host.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from lib.amqp091_driven import connection, drive, some_frames


def either(role: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        random_ = random.Random(data[:2])
        connection_, opening = connection(role, random_)
        drive(role, connection_, bytearray(b"".join(opening) + data[2:]), random_)

    return run


def seeds(role: str) -> Callable[[], Iterator[bytes]]:
    def made() -> Iterator[bytes]:
        for k in range(300):
            random_ = random.Random(k)
            yield k.to_bytes(2) + b"".join(some_frames(role, random_) for _ in range(20))

    return made


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "amqp091_client_connection": (either("client"), seeds("client")),
    "amqp091_server_connection": (either("server"), seeds("server")),
}
