"""The tables of one pass over the message table: connections, operations, paths and findings."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wirefmt._core import some_rows
from wirefmt.batch import Batch
from wirefmt.insight._engine import CONNECTION_FACTS, Insight, batch_of, with_values
from wirefmt.insight.counts import threshold
from wirefmt.insight.findings import Findings
from wirefmt.insight.reasons import Ended, community_id, reasons
from wirefmt.spec.insight import CONNECTIONS, FINDINGS, OPERATIONS

#: Rows of a batch of paths, at least, while the last of them are made.
PATH_ROWS = 1 << 14


class Facts(Mapping[str, Any]):
    """A connection: its columns by name, null as None. They are read from the batch when somebody asks: a capture may have very
    many connections, and most of them are of no interest.

    columns: lists of cells that are shared by all rows of the batch, made when they are asked for. more: what was added.
    """

    __slots__ = ("_at", "_batch", "_columns", "more")

    def __init__(self, batch: Batch, columns: dict[str, list[Any]], at: int) -> None:
        self._batch = batch
        self._columns = columns
        self._at = at
        self.more: tuple[str, str] | None = None

    def __getitem__(self, name: str) -> Any:
        if self.more is not None and name in _MORE:
            return self.more[_MORE[name]]
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = cells(self._batch, name)
        return column[self._at]

    def __iter__(self) -> Iterator[str]:
        yield from _FACTS
        if self.more is not None:
            yield from _MORE

    def __len__(self) -> int:
        return len(_FACTS) + (0 if self.more is None else len(_MORE))


#: What is known when all connections are: the place in `Facts.more`.
_MORE = {"reason": 0, "reason_text": 1}
_FACTS = [column.name for column in CONNECTION_FACTS]


def facts_of(batch: Batch) -> list[Facts]:
    """The rows of a batch with the columns CONNECTION_FACTS."""
    columns: dict[str, list[Any]] = {}
    return [Facts(batch, columns, i) for i in range(batch.num_rows)]


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
        path_seconds, max_paths, max_buffered: see `Options.LIMITS`; of operations, beside what the reassembly buffers.
    """

    def __init__(
        self,
        tables: Sequence[str],
        *,
        all_connections: bool = False,
        path_seconds: int = 3600,
        max_paths: int = 1 << 19,
        max_buffered: int = 256 << 20,
    ) -> None:
        self.tables = tuple(tables)
        self._findings = Findings() if "findings" in tables else None
        self._engine = Insight(
            operations="operations" in tables,
            findings=self._findings is not None,
            large_message=threshold("large-message"),
            paths="paths" in tables or self._findings is not None,
            path_seconds=path_seconds,
            max_paths=max_paths,
            max_octets=max_buffered,
        )
        self._all = all_connections
        self._connections: list[Batch] = []

    @property
    def stats(self) -> dict[str, int]:
        stats: dict[str, int] = self._engine.stats
        if self._findings is not None:
            stats["findings_dropped"] = self._findings.dropped
        return stats

    def messages(self, batch: Batch) -> Iterator[tuple[str, Batch]]:
        """Read a batch of the message table, with all its columns. Yields (table, batch)."""
        if "messages" in self.tables:
            yield "messages", batch
        self._engine.messages(batch)
        yield from self._operations()
        yield from self._paths()

    def ended(self, batch: Batch) -> Iterator[tuple[str, Batch]]:
        """Read rows of the transport table: all messages of these connections have been read. Yields (table, batch)."""
        if self._findings is not None:
            columns: dict[str, list[Any]] = {}
            self._findings.in_tls(
                Facts(batch, columns, i) for i, carrier in enumerate(cells(batch, "carrier")) if carrier == "tls"
            )
        self._engine.transport(batch, all_connections=self._all)
        self._keep_connections()
        yield from self._operations()

    def finish(self) -> Iterator[tuple[str, Batch]]:
        """No row follows. Yields (table, batch)."""
        self._engine.finish()
        self._keep_connections()
        yield from self._operations()
        done = False
        while not done:
            done = self._engine.finish_paths(PATH_ROWS)
            yield from self._paths()
        if "connections" in self.tables or self._findings is not None:
            yield from self._finished()

    def _keep_connections(self) -> None:
        if (batch := self._engine.take_connections()) is not None:
            self._connections.append(batch)

    def _operations(self) -> Iterator[tuple[str, Batch]]:
        noted, again = self._engine.take_noted()
        if (batch := self._engine.take_operations()) is not None:
            if self._findings is not None and noted:
                rows = array("q", noted)
                self._findings.operations(
                    some_rows(batch, rows, OPERATIONS) if len(rows) < batch.num_rows else batch, array("q", again)
                )
            if "operations" in self.tables:
                yield "operations", batch

    def _paths(self) -> Iterator[tuple[str, Batch]]:
        places = self._engine.take_places()
        if (batch := self._engine.take_paths()) is not None:
            if self._findings is not None:
                self._findings.paths(batch, places)
            if "paths" in self.tables:
                yield "paths", batch

    def _finished(self) -> Iterator[tuple[str, Batch]]:
        """The connections, with what depends on other connections, and findings."""
        rows = [row for batch in self._connections for row in facts_of(batch)]
        all_told = list(reasons(rows))
        if "connections" in self.tables:
            yield from self._told(rows, all_told)
        if self._findings is not None:
            for row, why in zip(rows, all_told, strict=True):
                row.more = why.reason, why.text
            if found := self._findings.finish(rows, self._engine.stats["deliveries_without_publish"]):
                yield "findings", batch_of(FINDINGS, found)

    def _told(self, rows: list[Facts], all_told: list[Ended]) -> Iterator[tuple[str, Batch]]:
        """The table of connections."""
        at = 0
        for batch in self._connections:
            own, told = rows[at : at + batch.num_rows], all_told[at : at + batch.num_rows]
            at += batch.num_rows
            values: Mapping[str, list[Any]] = {
                "community_id": [community_id(row) if row["client_ip"] else None for row in own],
                "reason": [one.reason for one in told],
                "reason_text": [one.text for one in told],
            }
            yield "connections", with_values(batch, CONNECTIONS, values)
