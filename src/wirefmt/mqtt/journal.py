"""A client's session on disk, in SQLite: what was not acknowledged outlives the process."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from wirefmt.mqtt.session import Change, Session

_T = TypeVar("_T")

_TABLES = """
CREATE TABLE IF NOT EXISTS wirefmt_session (
    client TEXT, tbl TEXT, key INTEGER, value BLOB, PRIMARY KEY (client, tbl, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS wirefmt_count (client TEXT PRIMARY KEY, last INTEGER, messages INTEGER) WITHOUT ROWID;
"""


class Journal:
    """The session of one client in a SQLite database.

    Each transaction is on disk before the bytes that belong to it are written to the server, in a thread, so that the
    event loop does not wait. What a program has to note together with a message goes into the same transaction:
    `Client.acknowledge(message, record=...)`.

    Attributes:
        count: QoS 1 and 2 messages that have ever been taken into the journal. After a restart a program that numbers its
            messages goes on from here.

    Args:
        path: of the database. Other tables in it are the program's.
        client_identifier: which session.
    """

    def __init__(self, path: str | Path, client_identifier: str) -> None:
        self.count = 0
        self._path = path
        self._client = client_identifier
        self._last = 0
        self._thread = ThreadPoolExecutor(1, "wirefmt-journal")
        self._database: sqlite3.Connection | None = None
        self._also: list[tuple[str, Sequence[Any]]] = []

    async def open(self) -> Session | None:
        """Open the database. Returns the session in it, or None.

        Raises sqlite3.Error, or DecodeError for what is not a record.
        """
        return await self._call(self._open)

    def add(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """A statement of SQL for the next transaction."""
        self._also.append((statement, parameters))

    def put(self, changes: list[Change]) -> asyncio.Future[None] | None:
        """Write records, and what `add` was given, in a transaction. The future is done once they are on disk; None: there is
        nothing to write."""
        if not changes and not self._also:
            return None
        also, self._also = self._also, []
        for change in changes:
            if change.table == "outgoing" and change.op == "put" and change.key > self._last:
                self._last = change.key
                self.count += 1
        return asyncio.get_running_loop().run_in_executor(
            self._thread, self._write, changes, also, self._last, self.count
        )

    async def close(self) -> None:
        """Write what `add` was given and is not written, and close the database."""
        try:
            if self._database is not None and (written := self.put([])) is not None:
                await written
            await self._call(self._close)
        finally:
            self._thread.shutdown(wait=False)

    async def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Rows of a query, after the transactions before it."""
        await asyncio.sleep(0)  # what was acknowledged in this iteration of the loop comes first
        return await self._call(lambda: self._connection.execute(statement, parameters).fetchall())

    # ---- in the thread

    async def _call(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._database is not None
        return self._database

    def _open(self) -> Session | None:
        database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._database = database
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(_TABLES)
        rows = database.execute(
            "SELECT tbl, key, value FROM wirefmt_session WHERE client = ?", (self._client,)
        ).fetchall()
        count = database.execute(
            "SELECT last, messages FROM wirefmt_count WHERE client = ?", (self._client,)
        ).fetchone()
        if count is not None:
            self._last, self.count = count
        if not rows:
            return None
        return Session.replay([Change("put", *row) for row in rows], journaled=True)

    def _write(self, changes: list[Change], also: list[tuple[str, Sequence[Any]]], last: int, count: int) -> None:
        database, client = self._connection, self._client
        database.execute("BEGIN IMMEDIATE")
        try:
            for op, table, key, value in changes:
                if op == "put":
                    database.execute("REPLACE INTO wirefmt_session VALUES (?, ?, ?, ?)", (client, table, key, value))
                elif op == "delete":
                    database.execute(
                        "DELETE FROM wirefmt_session WHERE client = ? AND tbl = ? AND key = ?", (client, table, key)
                    )
                else:
                    database.execute("DELETE FROM wirefmt_session WHERE client = ? AND tbl = ?", (client, table))
            database.execute("REPLACE INTO wirefmt_count VALUES (?, ?, ?)", (client, last, count))
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
