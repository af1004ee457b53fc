"""Targets of the connections of NSQ: any bytes for a client and a server, with any cuts and decisions. See targets.py.

The first octets seed what is random: cuts and decisions of the host.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from lib import nsq_driven


def nsq_either(role: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        random_ = random.Random(data[:2])
        connection, opening = nsq_driven.connection(role, random_)
        nsq_driven.drive(connection, opening + data[2:], random_)

    return run


def nsq_seeds(pieces: list[bytes]) -> Callable[[], Iterator[bytes]]:
    def seeds() -> Iterator[bytes]:
        random_ = random.Random(1)
        for k in range(100):
            yield k.to_bytes(2) + b"".join(random_.choices(pieces, k=12))

    return seeds


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "nsq_client_connection": (nsq_either("client"), nsq_seeds(nsq_driven.FRAMES)),
    "nsq_server_connection": (nsq_either("server"), nsq_seeds(nsq_driven.COMMANDS)),
}
