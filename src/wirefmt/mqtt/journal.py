"""A client's session on disk, in SQLite: what was not acknowledged outlives the process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wirefmt.connection.contract import Change
from wirefmt.connection.journal import Store
from wirefmt.mqtt.session import Session

_COUNTS: Final = """
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
        self._client = client_identifier
        self._last = 0
        self._store = Store(path, f"mqtt {client_identifier}")

    async def open(self) -> Session | None:
        """Open the database. Returns the session in it, or None.

        Raises sqlite3.Error, or DecodeError for what is not a record.
        """
        records = await self._store.open(_COUNTS)
        for row in await self.read("SELECT last, messages FROM wirefmt_count WHERE client = ?", (self._client,)):
            self._last, self.count = row
        if not records:
            return None
        session = Session.replay(records, journaled=True)
        session.number_after(self._last)  # the records of finished messages are gone
        return session

    def add(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """A statement of SQL for the next transaction."""
        self._store.add(statement, parameters)

    def put(self, changes: list[Change]) -> asyncio.Future[None] | None:
        """Write records, and what `add` was given, in a transaction. The future is done once they are on disk; None: there is
        nothing to write."""
        count = self.count
        for change in changes:
            if change.table == "outgoing" and change.op == "put" and change.key > self._last:
                self._last = change.key
                self.count += 1
        if self.count > count:
            self.add("REPLACE INTO wirefmt_count VALUES (?, ?, ?)", (self._client, self._last, self.count))
        return self._store.put(changes)

    async def close(self) -> None:
        """Write what `add` was given and is not written, and close the database."""
        await self._store.close()

    async def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Rows of a query, after the transactions before it."""
        return await self._store.read(statement, parameters)
