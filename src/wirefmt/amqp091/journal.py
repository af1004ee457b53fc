"""Messages of a client that are not confirmed, on disk, in SQLite: they outlive the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wirefmt.amqp091.session import Change, Session
from wirefmt.connection import journal


class Journal(journal.Journal[Session]):
    """The unconfirmed messages of one client in a SQLite database: see `wirefmt.connection.journal.Journal`.

    Args:
        path: of the database. Other tables in it are the program's.
        name: which client's.
    """

    def __init__(self, path: str | Path, name: str) -> None:
        super().__init__(path, f"amqp091 {name}", _replay)


def _replay(records: list[Any]) -> Session:
    return Session.replay([Change(*record) for record in records], journaled=True)
