"""Records that outlive the process, in SQLite: what a connection's `changes()` says is on disk before its bytes are sent."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from wirefmt.connection.contract import Change

_T = TypeVar("_T")

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS wirefmt_records (
    owner TEXT, tbl TEXT, key INTEGER, value BLOB, PRIMARY KEY (owner, tbl, key)) WITHOUT ROWID;
"""


class Store:
    """Records of one owner in a SQLite database.

    Each transaction is written in a thread, so that the event loop does not wait. Statements of the program can go into
    the same transaction (`add`).

    Args:
        path: of the database. Other tables in it are the program's.
        owner: whose records.
    """

    def __init__(self, path: str | Path, owner: str) -> None:
        self._path = path
        self._owner = owner
        self._thread = ThreadPoolExecutor(1, "wirefmt-journal")
        self._database: sqlite3.Connection | None = None
        self._also: list[tuple[str, Sequence[Any]]] = []

    async def open(self, tables: str = "") -> list[Change]:
        """Open the database. Returns the records in it.

        Args:
            tables: statements that create further tables.

        Raises sqlite3.Error.
        """
        return await self._call(lambda: self._open(tables))

    def add(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """A statement of SQL for the next transaction."""
        self._also.append((statement, parameters))

    def put(self, changes: list[Change]) -> asyncio.Future[None] | None:
        """Write records, and what `add` was given, in a transaction. The future is done once they are on disk; None: there is
        nothing to write."""
        if not changes and not self._also:
            return None
        also, self._also = self._also, []
        return asyncio.get_running_loop().run_in_executor(self._thread, self._write, changes, also)

    async def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Rows of a query, after the transactions before it."""
        await asyncio.sleep(0)  # what was put in this iteration of the loop comes first
        return await self._call(lambda: self._connection.execute(statement, parameters).fetchall())

    async def close(self) -> None:
        """Write what `add` was given and is not written, and close the database."""
        try:
            if self._database is not None and (written := self.put([])) is not None:
                await written
            await self._call(self._close)
        finally:
            self._thread.shutdown(wait=False)

    # ---- in the thread

    async def _call(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._database is not None
        return self._database

    def _open(self, tables: str) -> list[Change]:
        database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._database = database
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(_TABLE + tables)
        rows = database.execute(
            "SELECT tbl, key, value FROM wirefmt_records WHERE owner = ? ORDER BY tbl, key", (self._owner,)
        ).fetchall()
        return [Change("put", *row) for row in rows]

    def _write(self, changes: list[Change], also: list[tuple[str, Sequence[Any]]]) -> None:
        database, owner = self._connection, self._owner
        database.execute("BEGIN IMMEDIATE")
        try:
            for op, table, key, value in changes:
                if op == "put":
                    database.execute("REPLACE INTO wirefmt_records VALUES (?, ?, ?, ?)", (owner, table, key, value))
                elif op == "delete":
                    database.execute(
                        "DELETE FROM wirefmt_records WHERE owner = ? AND tbl = ? AND key = ?", (owner, table, key)
                    )
                else:
                    database.execute("DELETE FROM wirefmt_records WHERE owner = ? AND tbl = ?", (owner, table))
            for statement, parameters in also:
                database.execute(statement, parameters)
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
