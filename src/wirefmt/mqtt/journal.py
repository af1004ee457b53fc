"""A client's session on disk, in SQLite: what was not acknowledged outlives the process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from wirefmt.connection.contract import Change
from wirefmt.connection.journal import Store
from wirefmt.mqtt.session import Session

_COUNTS: Final = """
CREATE TABLE IF NOT EXISTS wirefmt_count (client TEXT PRIMARY KEY, last INTEGER, messages INTEGER) WITHOUT ROWID;
"""


class Journal(Store):
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
        super().__init__(path, f"mqtt {client_identifier}")
        self.count = 0
        self._client = client_identifier
        self._last = 0

    async def open(self) -> Session | None:
        """Open the database. Returns the session in it, or None. Raises JournalError."""
        session = await self.restore(
            lambda records: Session.replay(records, journaled=True) if records else None, _COUNTS
        )
        for last, messages in await self.read(
            "SELECT last, messages FROM wirefmt_count WHERE client = ?", (self._client,)
        ):
            if type(last) is not int or type(messages) is not int:
                await self.close()
                raise self._failed(TypeError(f"the count of {self._client!r} is not a number"))
            self._last, self.count = last, messages
        if session is not None:
            session.number_after(self._last)  # the records of finished messages are gone
        return session

    def put(self, changes: list[Change]) -> asyncio.Future[None] | None:
        count = self.count
        for change in changes:
            if change.table == "outgoing" and change.op == "put" and change.key > self._last:
                self._last = change.key
                self.count += 1
        if self.count > count:
            self._note_count()
        return super().put(changes)

    async def withdraw(self) -> set[int]:
        unkept = await super().withdraw()
        if unkept:
            self.count -= len(unkept)
            self._note_count()
        return unkept

    def _note_count(self) -> None:
        self.add("REPLACE INTO wirefmt_count VALUES (?, ?, ?)", (self._client, self._last, self.count))
