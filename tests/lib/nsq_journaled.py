"""A producer with a journal, to be killed: `python nsq_journaled.py URL DATABASE FIRST LAST`.

It says `up` once it is connected, and the number of each message, from FIRST to LAST, once the server has answered.
"""

from __future__ import annotations

import asyncio
import sys

from wirefmt import nsq


async def main(url: str, database: str, first: int, last: int) -> None:
    async with nsq.connect(url, journal=database) as client:
        print("up", flush=True)
        waiting: set[asyncio.Task[None]] = set()
        for number in range(first, last):
            task = asyncio.create_task(client.publish("t", b"%d" % number))
            task.add_done_callback(lambda _, number=number: print(number, flush=True))  # type: ignore[misc]
            waiting.add(task)
            if len(waiting) >= 20:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if waiting:
            await asyncio.wait(waiting)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
