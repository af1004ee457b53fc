"""A broker of ours on loopback, for tests of the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from lib.loopback import HOST
from wirefmt import rocketmq
from wirefmt.broker.rocketmq import Broker, BrokerOptions


class Served(NamedTuple):
    broker: Broker
    server: rocketmq.Server
    address: str


@asynccontextmanager
async def served(ssl: Any = None, **options: Any) -> AsyncIterator[Served]:
    broker = Broker(BrokerOptions(**{"delay": 0.001, "check_after": 0.02, **options}))
    server = await rocketmq.serve(broker, HOST, 0, ssl=ssl)
    broker.address = f"{HOST}:{server.port}"
    try:
        yield Served(broker, server, broker.address)
    finally:
        broker.close()
        await server.close()


def watched(broker: Broker) -> list[Any]:
    """A list to which the events that the broker handles from now on are added."""
    events: list[Any] = []
    handle = broker.handle

    def watch(peer: Any, event: Any) -> None:
        events.append(event)
        handle(peer, event)

    broker.handle = watch  # type: ignore[method-assign]
    return events
