"""Records that outlive the process, in SQLite: what a connection's `changes()` says is on disk before its bytes are sent."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar

_T = TypeVar("_T")

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS wirefmt_records (
    owner TEXT, tbl TEXT, key INTEGER, value BLOB, PRIMARY KEY (owner, tbl, key)) WITHOUT ROWID;
"""


class Change(NamedTuple):
    """One record for a journal. Applied in order, changes make the state again.

    Attributes:
        op: "put" replaces the record with this table and key; "delete" removes it.
        table: which kind of record; each protocol says which there are.
        key: counts up with each record, so it gives their order.
        value: the record; empty for "delete".
    """

    op: Literal["put", "delete"]
    table: str
    key: int
    value: bytes = b""


class Store:
    """Records of one owner in a SQLite database.

    Each transaction is written in a thread, so that the event loop does not wait.

    Args:
        path: of the database. Other tables in it are the program's.
        owner: whose records.
    """

    def __init__(self, path: str | Path, owner: str) -> None:
        self._path = path
        self._owner = owner
        self._thread = ThreadPoolExecutor(1, "wirefmt-journal")
        self._database: sqlite3.Connection | None = None

    async def open(self) -> list[Change]:
        """Open the database. Returns the records in it. Raises sqlite3.Error."""
        return await self._call(self._open)

    def put(self, changes: list[Change]) -> asyncio.Future[None] | None:
        """Write records in a transaction. The future is done once they are on disk; None: there is nothing to write."""
        if not changes:
            return None
        return asyncio.get_running_loop().run_in_executor(self._thread, self._write, changes)

    async def close(self) -> None:
        """Close the database, after the transactions before."""
        try:
            await self._call(self._close)
        finally:
            self._thread.shutdown(wait=False)

    # ---- in the thread

    async def _call(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _open(self) -> list[Change]:
        database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._database = database
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(_TABLE)
        rows = database.execute(
            "SELECT tbl, key, value FROM wirefmt_records WHERE owner = ? ORDER BY tbl, key", (self._owner,)
        ).fetchall()
        return [Change("put", *row) for row in rows]

    def _write(self, changes: list[Change]) -> None:
        database, owner = self._database, self._owner
        assert database is not None
        database.execute("BEGIN IMMEDIATE")
        try:
            for op, table, key, value in changes:
                if op == "put":
                    database.execute("REPLACE INTO wirefmt_records VALUES (?, ?, ?, ?)", (owner, table, key, value))
                else:
                    database.execute(
                        "DELETE FROM wirefmt_records WHERE owner = ? AND tbl = ? AND key = ?", (owner, table, key)
                    )
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
