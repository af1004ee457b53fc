"""A producer with a journal is killed at random moments, again and again: nothing that its journal has taken is lost.

KILLS says how often (100 and more on demand); the seed is printed.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import sys
from pathlib import Path

import pytest

from lib import nsq_journaled
from lib.loopback import HOST
from wirefmt import nsq
from wirefmt.broker.nsq import Broker

pytestmark = pytest.mark.live

KILLS = int(os.environ.get("KILLS", "4"))
SEED = int(os.environ.get("KILL_SEED", "0")) or random.SystemRandom().getrandbits(32)


def taken(database: Path) -> set[bytes]:
    """Bodies in the journal."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT value FROM wirefmt_records").fetchall()
    connection.close()
    return {nsq.decode(row[0], side="client").body_bytes() for row in rows}  # type: ignore[attr-defined]


def test_a_killed_producer_loses_no_message(tmp_path: Path) -> None:
    print(f"KILL_SEED={SEED}")
    random_ = random.Random(SEED)
    database = tmp_path / "journal.db"

    async def main() -> None:
        broker = Broker()
        async with await nsq.serve(broker, HOST, 0) as server:
            url = f"nsq://{HOST}:{server.port}"
            promised: set[bytes] = set()
            first = 0
            for kill in range(KILLS + 1):
                last = first + (100_000 if kill < KILLS else 50)
                process = await asyncio.create_subprocess_exec(
                    sys.executable, nsq_journaled.__file__, url, str(database), str(first), str(last),
                    stdout=asyncio.subprocess.PIPE,
                )  # fmt: skip
                assert process.stdout is not None
                assert await process.stdout.readline() == b"up\n"
                said = process.stdout.read()
                if kill < KILLS:
                    await asyncio.sleep(random_.random() ** 2 * 0.3)
                    process.kill()
                said_bytes = await said
                await process.wait()
                promised |= set(said_bytes.split(b"\n")[:-1])
                if kill < KILLS:
                    promised |= taken(database)
                    first = last
                else:
                    assert process.returncode == 0
                    assert not taken(database)
            arrived = {message.body for message, _ in broker.topic("t").backlog}
            assert promised <= arrived
            assert len(promised) >= 50
        broker.close()

    asyncio.run(asyncio.wait_for(main(), 60 + 20 * KILLS))
