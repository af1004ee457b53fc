"""The captures of data/insight and what is known of them from outside, compared with our tables.

A value of a claim is equality; a list means any of them; {"min", "max"} a closed range, with 2 ms of slack for times;
{"contains"} a part of the text; {"not": [...]} none of these. Names that end with `_ms` are milliseconds of our `_ns` columns,
`payload` is the payload's text: ours has its hash.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from lib.paths import ROOT
from wirefmt import capture
from wirefmt.insight import payload_hash

FOLDER = ROOT / "tests" / "data" / "insight"
NAMES = sorted(path.name.removesuffix(".pcap.gz") for path in FOLDER.glob("*.pcap.gz"))
SLACK_MS = 2


def tables_of(name: str, *tables: str, **options: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows of these tables of a capture."""
    found: dict[str, list[dict[str, Any]]] = {table: [] for table in tables}
    for table, batch in capture.read_tables(FOLDER / f"{name}.pcap.gz", tables, **options):
        if table in found:
            found[table] += pa.table(batch).to_pylist()
    return found


def claims_of(name: str, kind: str) -> list[dict[str, Any]]:
    lines = Path(FOLDER / f"{name}.truth.jsonl").read_text().splitlines()
    return [claim for claim in map(json.loads, lines) if claim["type"] == kind]


def value_of(row: Mapping[str, Any], name: str) -> Any:
    if name.endswith("_ms") and name not in row:
        ns = row[name.removesuffix("_ms") + "_ns"]
        return None if ns is None else ns / 1e6
    return row[name]


def is_so(claim: Any, value: Any) -> bool:
    """Is this value what the truth says?"""
    if isinstance(claim, list):
        return value in claim
    if not isinstance(claim, dict):
        return bool(claim == value)
    if "not" in claim:
        return value not in claim["not"]
    if "contains" in claim:
        return value is not None and claim["contains"] in value
    return value is not None and claim.get("min", value) - SLACK_MS <= value <= claim.get("max", value) + SLACK_MS


def fits(where: Mapping[str, Any], row: Mapping[str, Any], prefix: str = "") -> bool:
    """Is every value of a claim's `where` so?"""
    for name, claim in where.items():
        if name == "payload":
            if row[f"{prefix}payload_hash"] != payload_hash(claim.encode()):
                return False
        elif not is_so(claim, value_of(row, name if name in row else prefix + name)):
            return False
    return True


def wrong_of(expect: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Names of values that are not as the truth says: what they should be, and are."""
    return {
        name: (claim, value_of(row, name)) for name, claim in expect.items() if not is_so(claim, value_of(row, name))
    }


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def connection_faults(claims: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Iterator[str]:
    """What is not as `connection` claims say."""
    rows = sorted(rows, key=lambda row: row["first"])
    for claim in claims:
        ends = claim["client_port"], claim["server_port"]
        found = [row for row in rows if (row["client_port"], row["server_port"]) == ends]
        if len(found) <= claim.get("nth", 0):
            if not claim.get("optional"):
                yield f"no connection {ends} {claim['label']}"
            continue
        if wrong := wrong_of(claim["expect"], found[claim.get("nth", 0)]):
            yield f"{ends} {claim['label']}: {wrong}; {found[claim.get('nth', 0)]['reason_text']}"


def operation_faults(claims: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Iterator[str]:
    """What is not as `operation` claims say."""
    for claim in claims:
        ports = claim.get("client_port")
        found = [
            row for row in rows if (ports is None or row["client_port"] in listed(ports)) and fits(claim["where"], row)
        ]
        what = f"{ports} {claim['where']}"
        if "count" in claim and not is_so(claim["count"], len(found)):
            yield f"{what}: {len(found)} rows, not {claim['count']}"
        outcomes = {outcome: count for outcome, count in claim.get("outcomes", {}).items() if count}
        if outcomes and Counter(row["outcome"] for row in found) != outcomes:
            yield f"{what}: {Counter(row['outcome'] for row in found)}, not {outcomes}"
        some = claim["expect"].get("some")
        wrong = [wrong_of(claim["expect"] if some is None else some, row) for row in found]
        if all(wrong) if some is not None else any(wrong):
            yield f"{what}: {[each for each in wrong if each][:3]}"
