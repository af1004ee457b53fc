"""A producer with a journal is killed at random moments, again and again: nothing that its journal has taken is lost.

KILLS says how often (100 and more on demand); the seed is printed.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from lib import nsq_journaled
from lib.killed import PATIENCE, kill_and_restart
from lib.loopback import HOST
from wirefmt import nsq
from wirefmt.broker.nsq import Broker

pytestmark = pytest.mark.live


def taken(database: Path) -> set[bytes]:
    """Bodies in the journal."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT value FROM wirefmt_records").fetchall()
    connection.close()
    return {nsq.decode(row[0], side="client").body_bytes() for row in rows}  # type: ignore[attr-defined]


def test_a_killed_producer_loses_no_message(tmp_path: Path) -> None:
    database = tmp_path / "journal.db"

    async def main() -> None:
        broker = Broker()
        async with await nsq.serve(broker, HOST, 0) as server:
            url = f"nsq://{HOST}:{server.port}"
            done = await kill_and_restart(nsq_journaled.__file__, url, database, lambda: taken(database))
            arrived = {message.body for message, _ in broker.topic("t").backlog}
            assert done.promised <= arrived
        broker.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
