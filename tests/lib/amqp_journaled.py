"""A program with a journal, to be killed: `python amqp_journaled.py URL DATABASE FIRST LAST`, with `amqp091` or `amqp10` as the
scheme of the URL.

It says `up` once it is connected, and the number of each message, from FIRST to LAST, once the server has confirmed it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from typing import Any

from wirefmt import amqp091, amqp10

WINDOW = 20  # calls that wait at a time


async def publish(first: int, last: int, start: Any) -> None:
    """`start`: sends a message, and returns what waits for its confirm."""
    print("up", flush=True)
    waiting: set[asyncio.Future[Any]] = set()
    for number in range(first, last):
        future = asyncio.ensure_future(start(b"%d" % number))
        future.add_done_callback(lambda done, number=number: done.exception() or print(number, flush=True))
        waiting.add(future)
        if len(waiting) >= WINDOW:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if waiting:
        await asyncio.wait(waiting)


async def main(url: str, database: str, first: int, last: int) -> None:
    protocol, _, rest = url.partition("://")
    if protocol == "amqp091":
        async with amqp091.connect(f"amqp://{rest}", journal=database) as client:
            channel = await client.channel()
            await publish(first, last, lambda body: channel.publish(body, routing_key="kill"))
            while client.session.outgoing:  # of earlier processes
                await asyncio.sleep(0.01)
    else:
        async with amqp10.connect(f"amqp://{rest}", journal=database) as client10:
            sender = await client10.sender("/queues/kill")

            def start(body: bytes) -> Awaitable[Any]:
                return sender.post(amqp10.Message(body=body))

            await publish(first, last, start)
            assert not client10.lost


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
