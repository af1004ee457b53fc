"""TLS in captures: real connections and their secrets (tests/data/tls), compared with what an independent decryption and tshark
say of them; key logs; hostile handshakes."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lib.paths import DATA
from wirefmt import capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
pytest.importorskip("cryptography", reason="needs cryptography (pip install 'wirefmt[tls]')")

TLS = DATA / "tls"
SCENES = [json.loads(line) for line in (TLS / "MANIFEST.jsonl").read_text().splitlines()]
BY_NAME = {scene["file"].split(".")[0]: scene for scene in SCENES}

LABELS = (
    "CLIENT_RANDOM", "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0", "EXPORTER_SECRET",
)  # fmt: skip


def noisy(text: bytes, count: int) -> bytes:
    """A key log with lines that belong to nothing before and after `text`."""
    r = random.Random(7)
    lines = [f"{LABELS[i % 6]} {r.randbytes(32).hex()} {r.randbytes(48).hex()}\n".encode() for i in range(count)]
    return b"".join(lines[: count // 2]) + text.rstrip(b"\n") + b"\n" + b"".join(lines[count // 2 :])


def keylog_of(scene: dict[str, Any], folder: Path) -> str | None:
    if scene["keys"] is None:
        return None
    path = TLS / scene["keys"]
    if "noise_lines" in scene:
        noise = folder / "noisy.log"
        noise.write_bytes(noisy(path.read_bytes(), scene["noise_lines"]))
        path = noise
    return str(path)


def read(scene: dict[str, Any], folder: Path, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    reader = capture.read(str(TLS / scene["file"]), keylog=keylog_of(scene, folder), **options)
    rows = [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
    return rows, reader.stats


def expected_of(scene: dict[str, Any]) -> list[dict[str, Any]]:
    if scene["expected"] is None:
        return []
    with gzip.open(TLS / scene["expected"], "rt") as file:
        return [json.loads(line) for line in file]


#: Where the message table has what the expected rows name, by protocol.
COLUMNS: dict[str, dict[str, Any]] = {
    "mqtt": {
        "topic": lambda r: r["destination"],
        "qos": lambda r: r["qos"],
        "packet_id": lambda r: r["sequence"],
        "client_id": lambda r: r["client_id"],
        "topics": lambda r: r["mqtt"]["topic_filters"],
    },
    "amqp091": {
        "channel": lambda r: r["channel"] or 0,
        "exchange": lambda r: r["amqp091"]["exchange"] or "",
        "routing_key": lambda r: r["routing_key"] or "",
        "delivery_tag": lambda r: r["sequence"],
    },
    "amqp10": {
        "channel": lambda r: r["channel"],
        "delivery_id": lambda r: r["amqp10"]["delivery_id"],
        "protocol_id": lambda r: r["amqp10"]["protocol_id"],
    },
    "nsq": {
        "topic": lambda r: r["destination"],
        "message_id": lambda r: r["message_id"],
        "text": lambda r: r["nsq"]["response"],
    },
}


def told(row: dict[str, Any], names: set[str]) -> tuple[Any, ...]:
    """A row of the message table as the expected one of these names."""
    side = (f"{row['src_ip']}:{row['src_port']}", f"{row['dst_ip']}:{row['dst_port']}")
    said: dict[str, Any] = {
        "frame": row["frame_no"],
        "src": side[0],
        "dst": side[1],
        "dir": ("c2s", "s2c")[row["direction"]],
        "proto": row["protocol"],
        "kind": row["kind"],
        "wire_size": row["wire_size"],
    }
    for name in names - said.keys():
        if name == "payload":
            payload = row["payload"] or b""
            said[name] = {"len": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        elif name != "count":  # of MPUB's messages
            said[name] = COLUMNS[row["protocol"]][name](row)
    return as_tuple(said)


def as_tuple(said: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((name, json.dumps(value)) for name, value in said.items()))


MARKS = {"after_gap", "optional", "count"}


def compare(rows: list[dict[str, Any]], scene: dict[str, Any]) -> None:
    """In each direction of each connection: the same rows in the same order; after a gap rows may be absent, never wrong."""
    expected = expected_of(scene)
    directions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for e in expected:
        directions.setdefault((e["src"], e["dst"]), []).append(e)
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["status"] == "ok":
            found.setdefault((f"{row['src_ip']}:{row['src_port']}", f"{row['dst_ip']}:{row['dst_port']}"), []).append(
                row
            )
    assert set(found) <= set(directions)
    for side, wanted in directions.items():
        have = found.get(side, [])
        at = 0
        for e in wanted:
            may_be_absent = e.get("after_gap") or e.get("optional")
            says = as_tuple({name: value for name, value in e.items() if name not in MARKS})
            got = told(have[at], set(e) - MARKS) if at < len(have) else None
            if got == says:
                at += 1
            else:
                assert may_be_absent, (side, says, got)
        assert at == len(have), (side, told(have[at], set()))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", BY_NAME)
def test_every_capture_gives_the_rows_that_were_in_it(name: str, threads: int, tmp_path: Path) -> None:
    scene = BY_NAME[name]
    rows, stats = read(scene, tmp_path, threads=threads)
    problems = Counter((row["status"], row["error"]) for row in rows if row["status"] != "ok")
    if scene["mode"] == "all_or_nothing" and not rows:
        assert stats["not_decoded"]["tls"]["connections"] == 1
        return
    compare(rows, scene)
    if scene["mode"] == "gap":
        assert any(status == "gap" for status, _ in problems)
    else:
        assert not problems
    for reason, count in scene.get("not_decoded", {}).items():
        assert stats["not_decoded"][reason]["connections"] == count
