"""A program with a journal is killed at random moments, again and again, against mosquitto and against our broker.

QoS 1 is never lost, QoS 2 comes exactly once, and the order is kept. KILLS says how often (200 and more on demand); the
seed is printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lib import journaled
from lib.loopback import HOST
from lib.mosquitto import MOSQUITTO, start_broker, stop
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker, BrokerOptions

pytestmark = pytest.mark.live

KILLS = int(os.environ.get("KILLS", "4"))
SEED = int(os.environ.get("KILL_SEED", "0")) or random.SystemRandom().getrandbits(32)


@contextlib.asynccontextmanager
async def server(name: str, folder: Path) -> AsyncIterator[str]:
    if name == "mosquitto":
        if MOSQUITTO is None:
            pytest.skip("needs mosquitto (apt install mosquitto)")
        process, port = start_broker(folder, "max_queued_messages 0\n")
        try:
            yield f"mqtt://{HOST}:{port}"
        finally:
            stop(process)
    else:
        broker = Broker(BrokerOptions(queue_messages=1_000_000))
        async with await mqtt.serve(broker, HOST, 0) as running:
            yield f"mqtt://{HOST}:{running.port}"
        broker.close()


async def start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, journaled.__file__, *arguments, stdout=asyncio.subprocess.PIPE
    )


async def kill(process: asyncio.subprocess.Process, r: random.Random) -> None:
    """At a random moment after it is connected."""
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    await asyncio.sleep(r.random() ** 2 * 0.2)
    assert process.returncode is None
    process.kill()
    await process.wait()


def check(numbers: list[tuple[int, int]], count: int) -> None:
    """`numbers`: (QoS, number) in the order in which they came, of the messages 0 to `count`."""
    exactly = [number for qos, number in numbers if qos == 2]
    assert exactly == [number for number in range(count) if not number % 2]
    at_least = list(dict.fromkeys(number for qos, number in numbers if qos == 1))
    assert at_least == [number for number in range(count) if number % 2]


@pytest.mark.parametrize("name", ["mosquitto", "wirefmt"])
def test_a_publisher_is_killed(name: str, tmp_path: Path) -> None:
    async def test() -> None:
        r = random.Random(SEED)
        database = str(tmp_path / "journal.db")
        got: list[tuple[int, int]] = []
        async with server(name, tmp_path) as url, mqtt.connect(url, client_identifier="watcher") as watcher:
            await watcher.subscribe("kill/+", qos=2)

            async def watch() -> None:
                async for message in watcher.messages():
                    got.append((message.qos, int(message.payload_bytes())))

            watching = asyncio.create_task(watch())
            for _ in range(KILLS):
                await kill(await start("publish", url, database), r)
            with contextlib.closing(sqlite3.connect(database)) as journal:
                (taken,) = journal.execute("SELECT messages FROM wirefmt_count").fetchone()
            process = await start("publish", url, database, str(taken + 10))
            said, _ = await process.communicate()
            assert said.split() == [b"up", b"%d" % (taken + 10), b"0"]
            while (2, taken + 10 - 2 + taken % 2) not in got or (1, taken + 10 - 1 - taken % 2) not in got:
                await asyncio.sleep(0.01)
            watching.cancel()
        print(f"seed {SEED}: {KILLS} kills, {taken} messages, {len(got) - taken - 10} copies")
        check(got, taken + 10)

    asyncio.run(asyncio.wait_for(test(), 60 + 5 * KILLS))


@pytest.mark.parametrize("name", ["mosquitto", "wirefmt"])
def test_a_receiver_is_killed(name: str, tmp_path: Path) -> None:
    async def test() -> None:
        r = random.Random(SEED)
        database = str(tmp_path / "journal.db")
        async with server(name, tmp_path) as url, mqtt.connect(url, client_identifier="publisher") as publisher:
            sent = 0

            async def send(count: int) -> None:
                nonlocal sent
                for _ in range(count):
                    number, sent = (
                        sent,
                        sent + 1,
                    )  # it is sent, even if this task is cancelled before the acknowledgement
                    await publisher.publish(f"kill/{number % 2}", b"%d" % number, qos=2 - number % 2)

            process = await start("receive", url, database)  # makes the session
            assert process.stdout is not None
            assert await process.stdout.readline() == b"up\n"
            process.kill()
            await process.wait()
            for _ in range(KILLS):
                # mosquitto 2.0.11 sends live messages before queued ones, so there the two do not meet
                sending = asyncio.create_task(send(200 if name == "mosquitto" else 10**9))
                if name == "mosquitto":
                    await sending
                await kill(await start("receive", url, database), r)
                sending.cancel()
                await asyncio.wait([sending])
            process = await start("receive", url, database)
            await publisher.publish("kill/0", b"end", qos=2)
            await process.communicate()
            assert process.returncode == 0
        with contextlib.closing(sqlite3.connect(database)) as journal:
            rows = journal.execute("SELECT qos, number FROM seen ORDER BY rowid").fetchall()
        assert rows.pop() == (2, "end")
        got = [(qos, int(number)) for qos, number in rows]
        print(f"seed {SEED}: {KILLS} kills, {sent} messages, {len(got) - sent} copies")
        check(got, sent)

    asyncio.run(asyncio.wait_for(test(), 60 + 5 * KILLS))
