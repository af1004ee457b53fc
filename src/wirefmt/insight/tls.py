"""Findings about TLS: of all connections in TLS, also those that were not decrypted and have no row of connections."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from wirefmt.insight.counts import Row
from wirefmt.insight.report import Report, number
from wirefmt.spec.insight import TLS_REASONS

#: Versions that are not to be used (RFC 7568, RFC 8996).
WEAK: Final = ("SSL 3.0", "TLS 1.0", "TLS 1.1")
#: Reasons for which a finding would say nothing: nobody has given secrets, or there is nothing to decrypt.
NO_FAULT: Final = (None, TLS_REASONS["no_secrets"], TLS_REASONS["no_data"])
#: Of the first connection, for the row.
_KEPT: Final = ("capture", "protocol", "flow_id", "client_ip", "client_port", "server_ip", "server_port", "first_ns")

_Key = tuple[Any, ...]


class TlsCounts:
    """Counts connections by what is wrong with their TLS.

    Args:
        max_entries: how many keys are counted at most; others are dropped and counted in `dropped`.
    """

    def __init__(self, max_entries: int) -> None:
        self._max, self.dropped = max_entries, 0
        self._counts: dict[_Key, int] = {}
        self._firsts: dict[_Key, dict[str, Any]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Connections in TLS that have ended: columns of TRANSPORT by name."""
        for row in rows:
            server = row["server_ip"], row["server_port"]
            version, subject, reason = row["tls_version"], row["tls_subject"], row["tls_undecrypted"]
            if version in WEAK:
                self._count(row, "weak-tls", *server, version)
            if (fault := _invalid(row)) is not None:
                self._count(row, "certificate-not-valid", *server, subject, fault)
            if reason not in NO_FAULT:
                self._count(row, "not-decrypted", reason)

    def _count(self, row: Row, *key: Any) -> None:
        first = self._firsts.get(key)
        if first is None and len(self._counts) >= self._max:
            self.dropped += 1
            return
        self._counts[key] = self._counts.get(key, 0) + 1
        if first is None or (row["first_ns"], row["flow_id"]) < (first["first_ns"], first["flow_id"]):
            self._firsts[key] = {name: row[name] for name in _KEPT}

    def tell(self, report: Report) -> None:
        for key, count in self._counts.items():
            first, (rule, *about) = self._firsts[key], key
            of = number(count, "connection")
            if rule == "not-decrypted":
                cause = f"{of} could not be decrypted: {about[0]}"
            else:
                server = f"{about[0]}:{about[1]}"
                if rule == "weak-tls":
                    cause = f"{of} to {server} used {about[2]}"
                else:
                    cause = f"the certificate {about[2] or 'without a subject'} of {server} {about[3]} ({of})"
            own = report.by_flow.get(first["flow_id"], first)
            report.put_connections(rule, cause, own, time=first["first_ns"], count=count, frames=[])


def _invalid(row: Row) -> str | None:
    """What is wrong with the validity of the server's certificate when the connection began, in words. None: nothing."""
    begin, end = row["tls_not_before"], row["tls_not_after"]
    if begin is None or end is None:
        return None
    when = row["first_ns"]
    if when > _ns(end):
        return f"had expired on {end:%Y-%m-%d}"
    return f"was not valid before {begin:%Y-%m-%d}" if when < _ns(begin) else None


def _ns(time: datetime) -> int:
    return int(time.replace(tzinfo=UTC).timestamp()) * 1_000_000_000
