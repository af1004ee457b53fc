"""The independent decode of captures (tshark 4.0.17), for the tests of each protocol."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from lib.captures import Row, lines_in, path_of
from wirefmt import capture


def lines_of(row: Row, name: str | None = None) -> list[dict[str, Any]]:
    """Output of tshark, one line per message; `expected_inorder` where a capture has gaps."""
    return lines_in(row, name or row.get("expected_inorder") or row["expected"])


def rows_of(row: Row, **options: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    with capture.read(
        path_of(row),
        expose_credentials=True,
        tunnels=row.get("tunnels", False),
        limits={"idle_seconds": 1 << 30},
        **options,
    ) as reader:
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


def sizes_of(rows: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    """For each direction of each flow: the sum of the sizes of its rows, and the octets from its first row to its last one."""
    streams = defaultdict(list)
    for r in rows:
        streams[r["flow_id"], r["direction"]].append(r)
    return [
        (
            sum(r["wire_size"] for r in stream),
            max(r["byte_offset"] + r["wire_size"] for r in stream) - min(r["byte_offset"] for r in stream),
        )
        for stream in streams.values()
    ]
