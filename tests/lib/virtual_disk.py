"""A disk for journals, which may be full. Nothing waits for the disk of this machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


class Disk:
    """Attributes:
    full: True: nothing can be written.
    """

    def __init__(self) -> None:
        self.full = False

    def _check(self, statement: str) -> None:
        if self.full and statement.lstrip().partition(" ")[0].upper() in ("INSERT", "REPLACE", "UPDATE", "DELETE"):
            raise sqlite3.OperationalError("database or disk is full")

    @contextmanager
    def used(self) -> Iterator[None]:
        """Databases that are opened meanwhile are on it."""
        disk, connect = self, sqlite3.connect

        class Database(sqlite3.Connection):
            def execute(self, statement: str, *more: Any) -> sqlite3.Cursor:
                disk._check(statement)
                if "synchronous" in statement:
                    statement = "PRAGMA synchronous = OFF"
                return super().execute(statement, *more)

            def executemany(self, statement: str, *more: Any) -> sqlite3.Cursor:
                disk._check(statement)
                return super().executemany(statement, *more)

        with patch.object(sqlite3, "connect", lambda *args, **more: connect(*args, **{**more, "factory": Database})):
            yield
