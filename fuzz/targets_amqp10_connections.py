"""Targets of AMQP 1.0 connections: any bytes for a client and a server, with any cuts and decisions. See targets.py.

The first octets seed what is random: cuts, decisions of the host, options.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from lib.amqp10_driven import connection, drive
from wirefmt import amqp10


def either(role: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        random_ = random.Random(data[:2])
        connection_, opening = connection(role, random_)
        drive(role, connection_, bytearray(b"".join(opening) + data[2:]), random_)

    return run


def seeds() -> Iterator[bytes]:
    """A session, links in both directions, credit, transfers whole and in parts, dispositions, and the ends of all."""
    window: dict[str, Any] = {"next_incoming_id": 0, "incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}
    frames = [
        amqp10.Begin(next_outgoing_id=0, incoming_window=9, outgoing_window=9),
        amqp10.Attach(name="1", handle=0, role=True, source=amqp10.Source(address="q"), unsettled={b"t": None}),
        amqp10.Attach(name="2", handle=1, role=False, target=amqp10.Target(address="q"), initial_delivery_count=0),
        amqp10.Flow(**window, handle=0, delivery_count=0, link_credit=3, drain=True),
        amqp10.Transfer(handle=1, delivery_id=0, delivery_tag=b"a", payload=amqp10.Message(body=b"x")),
        amqp10.Transfer(handle=1, delivery_id=1, delivery_tag=b"b", more=True, payload=b"\0Su\xa0"),
        amqp10.Transfer(handle=1, payload=b"\0"),
        amqp10.Disposition(role=True, first=0, last=5, settled=True, state=amqp10.Accepted()),
        amqp10.Disposition(role=False, first=0, settled=True),
        amqp10.Flow(**window, echo=True),
        amqp10.Detach(handle=0, closed=True),
        amqp10.End(),
        amqp10.Close(),
    ]
    for k in range(60):
        chosen = frames if k < 40 else [frame for n, frame in enumerate(frames) if n == 0 or (k >> (n % 5)) & 1]
        yield k.to_bytes(2) + b"".join(frame.encode() for frame in chosen)
    yield b"\0\0" + amqp10.SaslInit(mechanism="SCRAM-SHA-256", initial_response=b"n,,n=u,r=a").encode()


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "amqp10_client_connection": (either("client"), seeds),
    "amqp10_server_connection": (either("server"), seeds),
}
