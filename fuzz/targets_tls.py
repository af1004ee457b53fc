"""Fuzz target of TLS in captures: real connections and their key log, changed. Needs cryptography (wirefmt[tls])."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from captures import SEED_OCTETS, connections, octets_of, packets_of, small, written
from common import ROOT
from targets_captures import decoded, known_limits, options_of, same_rows

from wirefmt.capture.keylog import Secrets

TLS = ROOT / "tests" / "data" / "tls"
#: Of a capture whose connections are taken apart, as stored.
MOST = 1 << 16


def key_log() -> str:
    """A file with the secrets of all captures."""
    with tempfile.NamedTemporaryFile(prefix="wirefmt-fuzz-keys-", delete=False) as file:
        for path in sorted([*(TLS / "keys").glob("*.log"), *(TLS / "recorded").glob("*.log")]):
            file.write(path.read_bytes() + b"\n")
    return file.name


def rows(octets: bytes, step: int, log: str, **options: Any) -> Any:
    """Rows of a capture, read with the secrets of all: those of an earlier run are not known."""
    secrets = Secrets(log, keys=str(TLS / "recorded" / "rsa.pem"))
    secrets.begin(None, True)
    return decoded(octets, step, secrets=secrets, **options)


def tls(data: bytes) -> None:
    """A capture file, a key log and a private key: rows, never an exception, and the same for any chunks; few octets are kept if
    few may be. The third time what handshakes say is read, too, for the table of connections."""
    if len(data) < 2 or importlib.util.find_spec("cryptography") is None:
        return
    octets, options, limits = data[2:], options_of(data[0]), known_limits(data[1])
    options["protocols"] = None
    log = key_log()
    try:
        whole = rows(octets, max(1, len(octets)), log, **options)
        same_rows(rows(octets, 1 + data[1] % 97, log, **options), whole, "rows for other chunks")
        rows(octets, 1000, log, limits=limits, transport=True, **options)
    finally:
        Path(log).unlink()


def seeds() -> Iterator[bytes]:
    for number, path in enumerate(sorted(TLS.rglob("*.pcap*.gz"))):
        if path.stat().st_size > MOST:
            continue
        octets = octets_of(path)
        if len(octets) <= SEED_OCTETS:
            yield bytes([0, number]) + octets
            continue
        for connection in connections(packets_of(octets))[:2]:
            part = next(small(connection), None)
            if part is not None:
                yield bytes([0, number]) + written(part)


TARGETS = {"tls": (tls, seeds)}
