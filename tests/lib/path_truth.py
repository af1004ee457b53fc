"""The claims about paths in the truth files of tests/data/insight, against what `capture` says."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from wirefmt import capture

Row = dict[str, Any]

#: Columns in milliseconds, as truth files have them.
SCALED = {"latency_ms": "latency_ns"}
#: Milliseconds that a claim about time is out.
SLACK = 2


def paths(source: Any, **options: Any) -> list[Row]:
    """The paths of a capture. `payload` and `deliver_payload` are lists: what the frames of both sides have."""
    import pyarrow as pa

    found: list[Row] = []
    said: dict[tuple[int, int], list[str]] = defaultdict(list)
    for table, batch in capture.read_tables(source, ["messages", "paths"], **options):
        if table == "paths":
            found += pa.table(batch).to_pylist()
            continue
        for row in pa.table(batch).to_pylist():
            bodies = (row["nsq"] or {}).get("bodies") or [row["payload"]]
            said[row["flow_id"], row["frame_no"]] += [
                body.decode(errors="replace") for body in bodies if body is not None
            ]
    for row in found:
        row["payload"] = said[row["publish_flow_id"], row["publish_frame"]]
        row["deliver_payload"] = said[row["deliver_flow_id"], row["deliver_frame"]]
    return found


def holds(claim: Any, value: Any) -> bool:
    if isinstance(claim, dict):
        return value is not None and claim.get("min", value) - SLACK <= value <= claim.get("max", value) + SLACK
    return value in claim if isinstance(claim, list) else bool(value == claim)


def value_of(row: Row, name: str) -> Any:
    if name in SCALED:
        return None if row[SCALED[name]] is None else row[SCALED[name]] / 1e6
    return row[name if name in row else f"publish_{name}"]


def is_meant(row: Row, where: Row) -> bool:
    """A frame may have several payloads: then any of them counts."""
    for name, claim in where.items():
        if name == "payload":
            if claim not in row["payload"] or (
                row["deliver_flow_id"] is not None and claim not in row["deliver_payload"]
            ):
                return False
        elif not holds(claim, value_of(row, name)):
            return False
    return True


def one_of(ports: int | list[int]) -> list[int]:
    return ports if isinstance(ports, list) else [ports]


def wrong_claims(truth: Path, found: list[Row]) -> list[str]:
    """What the truth file says of paths and the rows do not."""
    wrong = []
    for line in truth.read_text().splitlines():
        claim = json.loads(line)
        if claim["type"] in ("path", "paths", "trace") and (why := why_wrong(claim, found)):
            wrong.append(f"{claim}: {why}")
    return wrong


def why_wrong(claim: Row, found: list[Row]) -> Any:
    if claim["type"] == "trace":
        return trace_wrong(claim, found)
    meant = [row for row in found if is_meant(row, claim["where"])]
    several = any(len(row["payload"]) > 1 for row in meant)
    unlike = [
        [name for name, value in claim["expect"].items() if not holds(value, value_of(row, name))] for row in meant
    ]
    if all(unlike) if claim.get("some") else any(unlike):
        return unlike
    if several:
        return None if meant else "no row"
    if claim["type"] == "paths":
        return None if claim.get("count", len(meant)) == len(meant) else len(meant)
    if not meant or any(row["publish_client_port"] not in one_of(claim["publish_client_port"]) for row in meant):
        return [row["publish_client_port"] for row in meant]
    ports = sorted(row["deliver_client_port"] for row in meant if row["deliver_client_port"] is not None)
    expected = claim["deliver_client_ports"]
    return None if expected is None or ports == sorted(one_of(port)[0] for port in expected) else ports


def trace_wrong(claim: Row, found: list[Row]) -> Any:
    if claim["by"] == "message_id":
        meant = [row for row in found if row["publish_message_id"] in claim["hops"]]
    else:
        meant = [row for row in found if claim["payload"] in row["payload"]]
    meant.sort(key=lambda row: row["hop"])
    if len({row["trace_id"] for row in meant}) != 1 or [row["hop"] for row in meant] != list(range(1, len(meant) + 1)):
        return [(row["trace_id"], row["hop"]) for row in meant]
    along = [row["publish_message_id"] for row in meant]
    if claim["by"] == "client_port":
        along = [meant[0]["publish_client_port"], *(row["deliver_client_port"] for row in meant)]
    waits = [(b["publish_ts_ns"] - a["deliver_ts_ns"]) / 1e6 for a, b in pairwise(meant)]
    return None if along == claim["hops"] and all(holds(claim["delay_ms"], wait) for wait in waits) else (along, waits)
