"""A program with a journal is killed at random moments, again and again, with AMQP 0.9.1 and 1.0.

What its journal has taken is not lost, and the order is kept. KILLS says how often (100 and more on demand); the seed is
printed.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from lib import amqp_journaled
from lib.killed import KILLS, PATIENCE, kill_and_restart
from lib.kinds import checked
from lib.loopback import HOST
from wirefmt import amqp091, amqp10
from wirefmt.broker import amqp091 as broker091
from wirefmt.broker import amqp10 as broker10
from wirefmt.connection.contract import Change

pytestmark = pytest.mark.live


@asynccontextmanager
async def server(protocol: str) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A URL, and the bodies that have arrived: they are consumed as they come."""
    arrived: list[bytes] = []
    if protocol == "amqp091":
        host = broker091.Broker()
        async with await amqp091.serve(host, HOST, 0) as running:
            url = f"{HOST}:{running.port}/"
            async with amqp091.connect(f"amqp://{url}") as client:
                channel = await client.channel()
                await channel.declare_queue("kill")
                consumer = await channel.consume("kill", no_ack=True)

                async def watch() -> None:
                    async for message in consumer:
                        arrived.append(message.body)

                watching = asyncio.create_task(watch())
                yield f"amqp091://{url}", arrived
                watching.cancel()
        host.close()
        return
    async with (
        await amqp10.serve(broker10.Broker(), HOST, 0) as running10,
        amqp10.connect(f"amqp://{HOST}:{running10.port}") as client10,
    ):
        receiver = await client10.receiver("/queues/kill")

        async def watch10() -> None:
            async for delivery in receiver:
                arrived.append(bytes(delivery.message.payload))

        watching = asyncio.create_task(watch10())
        yield f"amqp10://{HOST}:{running10.port}", arrived
        watching.cancel()


def taken(database: Path, protocol: str) -> set[bytes]:
    """Bodies of the messages in the journal."""
    with closing(sqlite3.connect(database)) as connection:
        values = [value for (value,) in connection.execute("SELECT value FROM wirefmt_records")]
    if protocol == "amqp10":
        return {
            bytes(checked(amqp10.Message.decode(amqp10.decode_value(value)[-1]).payload, memoryview))
            for value in values
        }
    changes = [Change("put", "outgoing", number, value) for number, value in enumerate(values)]
    return {publication.message.body_bytes() for publication in amqp091.Session.replay(changes).outgoing.values()}


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_a_killed_program_loses_no_message(protocol: str, tmp_path: Path) -> None:
    database = tmp_path / "journal.db"

    async def main() -> None:
        async with server(protocol) as (url, arrived):
            done = await kill_and_restart(amqp_journaled.__file__, url, database, lambda: taken(database, protocol))
            while b"%d" % done.last not in arrived[-1:]:
                await asyncio.sleep(0.01)
            once = list(dict.fromkeys(arrived))
            assert done.promised <= set(once)
            assert once == sorted(once, key=int)  # the first copies are in the order of sending
            starts = [int(body) for body in once]
            gaps = [b for a, b in zip([-1, *starts], starts, strict=False) if b != a + 1]
            assert all(not number % 100_000 for number in gaps)  # nothing is missing before the last one of a process
            print(
                f"{KILLS} kills, {len(once)} messages, {len(arrived) - len(once)} copies, {done.left} left in journals"
            )

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
