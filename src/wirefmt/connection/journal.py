"""Records that outlive the process, in SQLite: what a connection's `changes()` says is on disk before its bytes are sent."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import platform
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from wirefmt.connection.contract import Change
from wirefmt.errors import DecodeError, JournalError

_T = TypeVar("_T")

#: The format of the tables. A journal of another one is not opened.
FORMAT: Final = 1

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS wirefmt_format (version INTEGER);
INSERT INTO wirefmt_format SELECT 1 WHERE NOT EXISTS (SELECT * FROM wirefmt_format);
CREATE TABLE IF NOT EXISTS wirefmt_records (
    owner TEXT, tbl TEXT, key INTEGER, value BLOB, PRIMARY KEY (owner, tbl, key)) WITHOUT ROWID;
"""

#: Errors of a statement that say nothing against the statement.
_PASSING: Final = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in ("FULL", "IOERR", "BUSY", "LOCKED", "NOMEM", "READONLY", "CANTOPEN", "PERM", "PROTOCOL", "INTERRUPT")
)

#: Seconds to wait for a journal that another one has: it may be about to close it.
LOCK_WAIT: Final = 0.5

#: While a file is created and closed, no other one of this process is opened: closing a file drops the locks that the process
#: has on it (POSIX).
_CREATING: Final = threading.Lock()


class Store:
    """Records of one owner in a SQLite database.

    Each transaction is written in a thread, so that the event loop does not wait. Statements of the program can go into
    the same transaction (`add`). What could not be written is kept in memory, and goes into the next transaction.

    Only their owner can read the files (mode 0600). While a store is open, no other one is opened for the same owner in the same
    file, in any process: a file beside the database is locked, as SQLite locks files, and says who has it. The lock ends with the
    process.

    Args:
        path: of the database. Other tables in it are the program's.
        owner: whose records.

    Attributes:
        error: why the last transaction was not written; None: it was.
    """

    # of the class: `__del__` also runs after a constructor that has raised
    _database: sqlite3.Connection | None = None
    _lock: sqlite3.Connection | None = None

    def __init__(self, path: str | Path, owner: str) -> None:
        self._path = os.path.realpath(path)
        self._owner = owner
        self._thread = ThreadPoolExecutor(1, "wirefmt-journal")
        self._also: list[tuple[str, Sequence[Any]]] = []
        # what `put` was given and is not on disk; the event loop appends, the thread takes from the front
        self._owed: list[tuple[list[Change], list[tuple[str, Sequence[Any]]]]] = []
        self._job: asyncio.Future[None] | None = None  # the last transaction that was asked for
        self._kept: set[int] = set()  # keys of the table "outgoing" on disk
        self._refused: tuple[str, Sequence[Any]] | None = None  # a statement that cannot be carried out
        self._closed = False
        self.error: JournalError | None = None

    async def restore(self, load: Callable[[list[Change]], _T], tables: str = "") -> _T:
        """Open the database, and restore what it keeps.

        Args:
            load: called with the records in it. Raises DecodeError for what is not a record.
            tables: statements that create further tables.

        Returns what `load` returns. Raises JournalError; nothing is open then.
        """
        try:
            records = await self._call(lambda: self._open(tables))
            try:
                return load(records)
            except DecodeError as error:
                raise self._failed(error) from error
        except BaseException:
            await self.close()
            raise

    def add(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """A statement of SQL for the next transaction."""
        self._also.append((statement, parameters))

    def put(self, changes: list[Change]) -> asyncio.Future[None] | None:
        """Write records, what `add` was given, and what earlier calls could not write, in a transaction.

        The future is done once they are on disk; its exception is a JournalError. None: there is nothing to write. Calls with
        nothing new share the future of the transaction that waits, so nobody may cancel it.
        """
        if changes or self._also:
            self._owed.append((changes, self._also))
            self._also = []
        elif not self._owed:
            return None
        elif self._job is not None and not self._job.done():
            return self._job
        self._job = asyncio.get_running_loop().run_in_executor(self._thread, self._run, self._flush)
        self._job.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is in `error`, too
        return self._job

    async def flush(self) -> None:
        """Write what is not on disk yet. Raises JournalError."""
        if (written := self.put([])) is not None:
            await asyncio.shield(written)

    async def withdraw(self) -> set[int]:
        """Forget records of the table "outgoing" that could not be written and have no earlier version on disk.

        Returns their keys. Nothing that belongs to them has been sent.
        """
        return await self._call(self._withdraw)

    async def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Rows of a query, after the transactions before it. Raises JournalError."""
        await asyncio.sleep(0)  # what was put in this iteration of the loop comes first
        return await self._call(lambda: self._connection.execute(statement, parameters).fetchall())

    async def records(self) -> list[Change]:
        """The records on disk, after the transactions before it. Raises JournalError."""
        return await self._call(self._records)

    async def close(self) -> None:
        """Write what is not written, and close the database.

        Raises JournalError if something could not be written. All is closed then, too.
        """
        if self._closed:
            return
        self._closed = True
        if self._also:
            self._owed.append(([], self._also))
            self._also = []
        try:
            await self._call(self._close)
        finally:
            self._thread.shutdown(wait=False)

    # ---- in the thread

    async def _call(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, function)

    def _run(self, function: Callable[[], _T]) -> _T:
        try:
            return function()
        except JournalError:
            raise
        except Exception as error:  # of SQLite, of the system, or for a value that SQLite does not take
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> JournalError:
        return JournalError(f"the journal {self._path}: {error}")

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._database is None:
            raise JournalError(f"the journal {self._path} is not open")
        return self._database

    def _open(self, tables: str) -> list[Change]:
        _create(self._path)
        self._lock = self._locked()
        database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._database = database
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        if database.execute("SELECT * FROM sqlite_master WHERE name = 'wirefmt_format'").fetchall():
            for (version,) in database.execute("SELECT version FROM wirefmt_format"):
                if version != FORMAT:
                    raise JournalError(
                        f"the journal {self._path} has format {version!r}, and this version of wirefmt reads {FORMAT}"
                    )
        database.execute("BEGIN IMMEDIATE")  # raises if the file cannot be written
        database.execute("COMMIT")
        database.executescript(_TABLES + tables)
        records = self._records()
        self._kept = {change.key for change in records if change.table == "outgoing"}
        return records

    def _records(self) -> list[Change]:
        rows = self._connection.execute(
            "SELECT tbl, key, value FROM wirefmt_records WHERE owner = ? ORDER BY tbl, key", (self._owner,)
        ).fetchall()
        for table, key, value in rows:
            if type(table) is not str or type(key) is not int or key < 0 or type(value) is not bytes:
                raise JournalError(
                    f"the journal {self._path}: the record {key!r} of {table!r} is not a record, but {type(value).__name__}"
                )
        return [Change("put", *row) for row in rows]

    def _locked(self) -> sqlite3.Connection:
        """Lock the file that belongs to the owner. Raises JournalError, which names who has locked it.

        A transaction that stays open is the lock (SQLite: RESERVED); others can still read who holds it.
        """
        path = f"{self._path}-{hashlib.blake2s(self._owner.encode(), digest_size=4).hexdigest()}.lock"
        _create(path)
        lock = sqlite3.connect(path, timeout=LOCK_WAIT, isolation_level=None, check_same_thread=False)
        try:
            try:
                lock.execute("BEGIN IMMEDIATE")
                lock.execute("CREATE TABLE IF NOT EXISTS holder (owner, pid, host, since)")
                lock.execute("DELETE FROM holder")
                row = (self._owner, os.getpid(), platform.node(), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
                lock.execute("INSERT INTO holder VALUES (?, ?, ?, ?)", row)
                lock.execute("COMMIT")
                lock.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                raise self._taken(lock) from None
        except BaseException:
            lock.close()
            raise
        return lock

    def _taken(self, lock: sqlite3.Connection) -> JournalError:
        """Who has it?"""
        with suppress(sqlite3.OperationalError):  # it has just been created
            for owner, pid, host, since in lock.execute("SELECT owner, pid, host, since FROM holder"):
                return JournalError(
                    f"the journal {self._path} of {owner!r} is open since {since}, in process {pid} on {host}", pid=pid
                )
        return JournalError(f"the journal {self._path} of {self._owner!r} is open in another place")

    def _flush(self) -> None:
        """Write what is owed, all in one transaction."""
        owed = self._owed[:]
        if not owed:
            return  # an earlier call has written it
        try:
            self._write([change for changes, _ in owed for change in changes], [s for _, also in owed for s in also])
        except Exception as error:
            refused, self._refused = self._refused, None
            failed = self._failed(error)
            if refused is not None:
                failed = JournalError(f"the journal {self._path}: {refused[0]!r}: {error}", statement=refused[0])
                for _, also in owed:
                    also[:] = [entry for entry in also if entry is not refused]
            else:
                self.error = failed
            raise failed from error
        del self._owed[: len(owed)]
        self.error = None
        for changes, _ in owed:
            for op, table, key, _ in changes:
                if table == "outgoing":
                    if op == "put":
                        self._kept.add(key)
                    elif op == "delete":
                        self._kept.discard(key)
                    else:
                        self._kept.clear()

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
            for entry in also:
                try:
                    database.execute(*entry)
                except Exception as error:
                    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _PASSING:
                        self._refused = entry
                    raise
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:  # after some errors SQLite has ended it
                database.execute("ROLLBACK")
            raise

    def _withdraw(self) -> set[int]:
        owed = self._owed[:]
        last = {change.key: change.op for changes, _ in owed for change in changes if change.table == "outgoing"}
        unkept = {key for key, op in last.items() if op == "put" and key not in self._kept}
        for changes, _ in owed:
            # deleted, since it is not known what has become of a transaction that could not be ended
            changes[:] = [
                Change("delete", "outgoing", change.key)
                if change.table == "outgoing" and change.key in unkept
                else change
                for change in changes
            ]
        return unkept

    def _close(self) -> None:
        try:
            if self._database is not None:
                self._flush()
        finally:
            self.__del__()

    def __del__(self) -> None:
        """A store that nobody has any more keeps no other one from its journal."""
        database, self._database = self._database, None
        lock, self._lock = self._lock, None
        if database is not None:
            database.close()
        if lock is not None:
            lock.close()


def _create(path: str) -> None:
    """A file that only its owner reads and writes, before anything is in it. SQLite gives the files that it creates beside a
    database the database's mode. A file that is there and ours is made so."""
    with _CREATING:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None
            for name in (path, f"{path}-wal", f"{path}-shm"):
                with suppress(OSError):  # it is not there, or it is another user's
                    if os.name == "posix" and os.stat(name).st_mode & 0o077:
                        os.chmod(name, 0o600)
