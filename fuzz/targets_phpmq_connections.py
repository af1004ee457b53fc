"""Targets of the connections of PHPMQ: any bytes for a client and a server, with any cuts and decisions. See targets.py.

The first octets seed what is random: cuts and decisions of the host.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from wirefmt import phpmq
from wirefmt.connection import Disconnected
from wirefmt.phpmq.states import State


def phpmq_either(role: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        random_ = random.Random(data[:2])
        options = phpmq.ConnectionOptions(profile=random_.choice(("early", "present")), frame_size=3000, in_flight=5)
        connection: Any = (phpmq.ClientConnection if role == "client" else phpmq.ServerConnection)(0.0, options)
        if role == "client":
            connection.consume("q", 3)
        events: list[Any] = []
        rest = data[2:]
        while rest and connection.state is not State.CLOSED:
            size = random_.choice((1, 8, 40, len(rest)))
            events += connection.receive(rest[:size], 0.0)
            rest = rest[size:]
            if connection.state is State.CLOSED:
                break
            if role == "client" and connection.undecided and random_.random() < 0.5:
                connection.acknowledge(next(iter(connection._in_flight.values())))
            elif role == "server" and connection.send_quota and random_.random() < 0.5:
                name = f"{len(events)} {random_.random()}"
                connection.deliver("q", b"x", name)
            assert connection.undecided <= 6
        if connection.state is not State.CLOSED:
            events += connection.receive_eof(0.0)
        assert [isinstance(event, Disconnected) for event in events].count(True) == 1
        assert isinstance(events[-1], Disconnected)

    return run


def phpmq_seeds() -> Iterator[bytes]:
    messages = [
        phpmq.MessageClientToServer(queue_name="q", content=b"x").encode(),
        phpmq.ConsumeRequest(queue_name="q", message_count=3).encode(),
        phpmq.Acknowledgement(queue_name="q", message_id="1").encode(),
        phpmq.ReQueue(queue_name="q", message_id="1", ttl=5).encode(),
        phpmq.DeadLetter(queue_name="q", message_id="1").encode(),
        phpmq.MessageServerToClient(queue_name="q", content=b"x", message_id="1", ttl=5).encode(),
        phpmq.encode(phpmq.MessageServerToClient(queue_name="q", content=b"x", message_id="2", ttl=5), profile="early"),
    ]
    random_ = random.Random(1)
    for k in range(50):
        yield k.to_bytes(2) + b"".join(random_.choices(messages, k=8))


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "phpmq_client_connection": (phpmq_either("client"), phpmq_seeds),
    "phpmq_server_connection": (phpmq_either("server"), phpmq_seeds),
}
