"""Messages of a producer in SQLite until their outcome is known."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")

_TABLE = """
CREATE TABLE IF NOT EXISTS wirefmt_rocketmq (
    number INTEGER PRIMARY KEY AUTOINCREMENT, producer TEXT, topic TEXT, body BLOB, properties TEXT, flag INTEGER);
"""


class Entry(NamedTuple):
    """A message that was being sent. `number` gives the order."""

    number: int
    topic: str
    body: bytes
    properties: dict[str, str]
    flag: int


class Journal:
    """The messages of one producer group in a SQLite database.

    Each call is a transaction in a thread, and is on disk when it returns. Calls are carried out in order.

    Args:
        path: of the database. Other tables in it are the program's.
        group: which producer's.
    """

    def __init__(self, path: str | Path, group: str) -> None:
        self._path = path
        self._group = group
        self._thread = ThreadPoolExecutor(1, "wirefmt-journal")
        self._database: sqlite3.Connection | None = None

    async def add(self, topic: str, body: bytes, properties: Mapping[str, str], flag: int) -> int:
        """Keep a message. Returns its number."""
        row = (self._group, topic, body, json.dumps(dict(properties)), flag)

        def insert(database: sqlite3.Connection) -> int:
            return int(
                database.execute(
                    "INSERT INTO wirefmt_rocketmq (producer, topic, body, properties, flag) VALUES (?, ?, ?, ?, ?)", row
                ).lastrowid
                or 0
            )

        return await self._call(insert)

    async def remove(self, number: int) -> None:
        """Forget a message."""

        def delete(database: sqlite3.Connection) -> None:
            database.execute("DELETE FROM wirefmt_rocketmq WHERE number = ?", (number,))

        await self._call(delete)

    async def left(self) -> list[Entry]:
        """Messages that an earlier process has left, in order."""

        def select(database: sqlite3.Connection) -> list[Entry]:
            rows = database.execute(
                "SELECT number, topic, body, properties, flag FROM wirefmt_rocketmq WHERE producer = ? ORDER BY number",
                (self._group,),
            ).fetchall()
            return [
                Entry(n, topic, bytes(body), json.loads(properties), flag) for n, topic, body, properties, flag in rows
            ]

        return await self._call(select)

    async def close(self) -> None:
        """Close the database."""

        def close() -> None:
            if self._database is not None:
                self._database.close()
                self._database = None

        await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown(wait=False)

    async def _call(self, function: Callable[[sqlite3.Connection], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, function)

    def _run(self, function: Callable[[sqlite3.Connection], _T]) -> _T:
        database = self._database
        if database is None:
            database = self._database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.executescript(_TABLE)
        return function(database)
