"""What does uvloop gain? Clients and servers on it, and on asyncio's own event loop.

    python bench/bench_uvloop.py

CPU seconds of one process that has both the client and the server, for each message that is published and acknowledged over
loopback, with payloads of 64 bytes: one after the other, and 100 at a time. What a broker alone gains under load is in
bench_mqtt_loopback.py and bench_amqp091_loopback.py, what a client alone gains in bench_nsq_connection.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from ratios import compare, versions

from wirefmt import amqp091, mqtt, nsq
from wirefmt.broker import Broker

MESSAGES = 2000
BODY = bytes(64)
LOOPS: dict[str, Callable[[Coroutine[Any, Any, None]], None]] = {"asyncio": asyncio.run, "uvloop": uvloop.run}

Publish = Callable[[], Awaitable[Any]]


@asynccontextmanager
async def by_mqtt(b: Broker) -> AsyncIterator[Publish]:
    async with mqtt.connect(b.url("mqtt")) as client:
        yield lambda: client.publish("t", BODY, qos=1)


@asynccontextmanager
async def by_amqp(b: Broker) -> AsyncIterator[Publish]:
    async with amqp091.connect(b.url("amqp")) as client:
        channel = await client.channel()
        await channel.call(amqp091.ExchangeDeclare, exchange="bench", type="fanout")  # without queues: nothing is kept
        yield lambda: channel.publish(BODY, exchange="bench")


@asynccontextmanager
async def by_nsq(b: Broker) -> AsyncIterator[Publish]:
    async with nsq.connect(b.url("nsq")) as client:
        yield lambda: client.publish("t", BODY)


async def published(protocol: str, publisher: Any, together: int) -> None:
    async with Broker(ports={protocol: 0}) as b, publisher(b) as publish:
        for _ in range(MESSAGES // together):
            if together == 1:
                await publish()
            else:
                await asyncio.gather(*(publish() for _ in range(together)))


def main() -> None:
    print(versions("wirefmt", "uvloop"))
    for protocol, publisher in (("mqtt", by_mqtt), ("amqp", by_amqp), ("nsq", by_nsq)):
        for together in (1, 100):
            runs = {
                name: lambda run=run, args=(protocol, publisher, together): run(published(*args))
                for name, run in LOOPS.items()
            }
            kind = "one after the other" if together == 1 else f"{together} at a time"
            compare(f"{protocol}: published, {kind}", runs, units=MESSAGES, rounds=5, clock=time.process_time)


if __name__ == "__main__":
    main()
