"""Messages of a producer in SQLite until their outcome is known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from wirefmt.connection.contract import Change, records_of
from wirefmt.connection.journal import Store
from wirefmt.errors import Malformed


class Entry(NamedTuple):
    """A message that was being sent. `number` gives the order."""

    number: int
    topic: str
    body: bytes
    properties: dict[str, str]
    flag: int


class Journal:
    """The messages of one producer group in a SQLite database. The first call opens it.

    Each call is a transaction in a thread, and is on disk when it returns. Calls are carried out in order. Raises JournalError.

    Args:
        path: of the database. Other tables in it are the program's.
        group: which producer's.
    """

    def __init__(self, path: str | Path, group: str) -> None:
        self._path = path
        self._group = group
        self._store: Store | None = None
        self._opening = asyncio.Lock()
        self._number = 0

    async def add(self, topic: str, body: bytes, properties: Mapping[str, str], flag: int) -> int:
        """Keep a message. Returns its number. If it raises or is cancelled, the message is not kept."""
        store = await self._opened()
        self._number = number = self._number + 1
        head = json.dumps([topic, flag, dict(properties)])
        written = store.put([Change("put", "outgoing", number, head.encode() + b"\n" + body)])
        assert written is not None
        try:
            await asyncio.shield(written)
        except BaseException:
            store.put([Change("delete", "outgoing", number)])
            raise
        return number

    async def remove(self, number: int) -> None:
        """Forget a message. If that cannot be written now, the next transaction writes it."""
        written = (await self._opened()).put([Change("delete", "outgoing", number)])
        assert written is not None
        await asyncio.wait([written])

    async def left(self) -> list[Entry]:
        """The messages in it, in order: those that an earlier process has left, and those that are being sent."""
        return _entries(await (await self._opened()).records())

    async def close(self) -> None:
        """Write what is not written, and close the database. Raises JournalError if that fails; all is closed then, too."""
        async with self._opening:
            store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def _opened(self) -> Store:
        async with self._opening:
            if self._store is None:
                store = Store(self._path, f"rocketmq {self._group}")
                entries = await store.restore(_entries)
                self._number = entries[-1].number if entries else 0
                self._store = store
            return self._store


def _entries(changes: list[Change]) -> list[Entry]:
    """Raises DecodeError for what is not a record."""
    entries: list[Entry] = []
    for number, value in records_of(changes, ("outgoing",), "rocketmq")["outgoing"].items():
        head, _, body = value.partition(b"\n")
        try:
            match json.loads(head):
                case [str(topic), int(flag), dict(properties)] if all(type(v) is str for v in properties.values()):
                    entries.append(Entry(number, topic, body, properties, flag))
                    continue
        except (ValueError, RecursionError):
            pass
        raise Malformed("a record is a topic, a flag, properties and a body", protocol="rocketmq")
    return entries
