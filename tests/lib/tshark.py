"""The independent decode (tshark 4.0.17) of the captures beside the checkout, for tests of each protocol."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import Any

from lib.paths import SHARED, shared
from wirefmt import capture

MANIFEST = SHARED / "captures" / "MANIFEST.jsonl"


def captures_of(protocol: str) -> list[dict[str, Any]]:
    """Rows of the list of captures; without the shared data one row, whose test is skipped."""
    if not MANIFEST.exists():
        return [{"file": "captures/MANIFEST.jsonl"}]
    return [row for row in map(json.loads, MANIFEST.read_text().splitlines()) if protocol in row["protocols"]]


def lines_of(row: dict[str, Any], name: str | None = None) -> list[dict[str, Any]]:
    """Output of tshark, one line per packet or frame of the protocol; `expected_inorder` where a capture has holes."""
    path = shared("captures/" + (name or row.get("expected_inorder", row["expected"])))
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return list(map(json.loads, lines))


def rows_of(row: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    path = shared("captures/" + row["file"])
    with capture.read(path, expose_credentials=True, limits={"idle_seconds": 1 << 30}, **options) as reader:
        return list(pa.table(reader).to_pylist())


def same(theirs: Any, ours: Any) -> bool:
    """Long strings and payloads are length and SHA-1 in the expected decode."""
    if isinstance(theirs, dict):
        octets = ours.encode() if isinstance(ours, str) else ours
        return theirs == {"len": len(octets), "sha1": hashlib.sha1(octets).hexdigest()}
    return bool(theirs == ours)


def where_from(r: dict[str, Any]) -> dict[str, Any]:
    """Packet, time and addresses of a row, as tshark writes them."""
    return {
        "frame": r["frame_no"],
        "t": f"{r['ts_ns'] // 10**9}.{r['ts_ns'] % 10**9:09}",
        "src": f"{r['src_ip']}:{r['src_port']}",
        "dst": f"{r['dst_ip']}:{r['dst_port']}",
    }
