"""The tables of one pass over the message table: connections and operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wirefmt.batch import Batch
from wirefmt.insight._engine import CONNECTION_FACTS, Insight, with_values
from wirefmt.insight.reasons import community_id, reasons
from wirefmt.spec.insight import CONNECTIONS

#: Facts that reasons need.
_FACTS = [column.name for column in CONNECTION_FACTS]


def rows_of(batch: Batch, names: Sequence[str]) -> list[dict[str, Any]]:
    """Rows as dicts, null as None."""
    columns = {name: cells(batch, name) for name in names}
    return [{name: column[i] for name, column in columns.items()} for i in range(batch.num_rows)]


def cells(batch: Batch, name: str) -> list[Any]:
    """A column as a list, null as None."""
    values: list[Any] = batch[name].tolist()
    valid = batch.validity(name)
    return (
        values
        if valid is None
        else [value if is_valid else None for value, is_valid in zip(values, valid, strict=True)]
    )


class Tables:
    """Makes the tables that were asked for. Feed it `messages` and connections that have `ended`, and call `finish`.

    Args:
        tables: their names.
        all_connections: also connections that were not decoded have a row.
    """

    def __init__(self, tables: Sequence[str], *, all_connections: bool = False) -> None:
        self.tables = tuple(tables)
        self._engine = Insight(operations="operations" in tables)
        self._all = all_connections
        self._connections: list[Batch] = []

    @property
    def stats(self) -> dict[str, int]:
        stats: dict[str, int] = self._engine.stats
        return stats

    def messages(self, batch: Batch) -> Iterator[tuple[str, Batch]]:
        """Read a batch of the message table, with all its columns. Yields (table, batch)."""
        if "messages" in self.tables:
            yield "messages", batch
        self._engine.messages(batch)
        yield from self._operations()

    def ended(self, batch: Batch) -> Iterator[tuple[str, Batch]]:
        """Read rows of the transport table: all messages of these connections have been read. Yields (table, batch)."""
        self._engine.transport(batch, all_connections=self._all)
        self._keep_connections()
        yield from self._operations()

    def finish(self) -> Iterator[tuple[str, Batch]]:
        """No row follows. Yields (table, batch)."""
        self._engine.finish()
        self._keep_connections()
        yield from self._operations()
        if "connections" in self.tables:
            yield from self._finished()

    def _keep_connections(self) -> None:
        if (batch := self._engine.take_connections()) is not None:
            self._connections.append(batch)

    def _operations(self) -> Iterator[tuple[str, Batch]]:
        if (batch := self._engine.take_operations()) is not None:
            yield "operations", batch

    def _finished(self) -> Iterator[tuple[str, Batch]]:
        """The connections, with what depends on other connections."""
        rows = [row for batch in self._connections for row in rows_of(batch, _FACTS)]
        ended = iter(reasons(rows))
        for batch in self._connections:
            own = rows[: batch.num_rows]
            del rows[: batch.num_rows]
            told = [next(ended) for _ in own]
            values: Mapping[str, list[Any]] = {
                "community_id": [community_id(row) if row["client_ip"] else None for row in own],
                "reason": [one.reason for one in told],
                "reason_text": [one.text for one in told],
            }
            yield "connections", with_values(batch, CONNECTIONS, values)
