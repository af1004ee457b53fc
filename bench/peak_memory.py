"""Does memory grow with the capture? Peak resident memory of capture to Parquet for a file and one ten times as large.

    python bench/peak_memory.py

Each runs in a process of its own; flows begin and end, so the number of open flows does not grow with the file.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import inputs

MESSAGES = 60_000
RESULTS = Path(__file__).parent / "results"


def sessions(count: int) -> Iterator[bytes]:
    """`count` rounds of 200 clients one after another, as in long captures."""
    for seed in range(count):
        yield from inputs.capture(MESSAGES, payload=400, version=5, seed=seed)


def to_parquet(path: str, out: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from wirefmt import capture

    with capture.read(path) as reader, pq.ParquetWriter(out, pa.schema(reader.schema)) as writer:
        rows = 0
        for batch in reader:
            writer.write_batch(pa.record_batch(batch))
            rows += batch.num_rows
    print(json.dumps({"rows": rows, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for times in (1, 10):
            path = Path(folder) / f"{times}.pcap"
            size = inputs.write_pcap(path, sessions(times))
            run = subprocess.run(
                [sys.executable, __file__, str(path), str(Path(folder) / "out.parquet")],
                check=True,
                stdout=subprocess.PIPE,
            )
            found[times] = json.loads(run.stdout) | {"octets": size}
            print(f"{size / 1e6:8.1f} MB, {found[times]['rows']:9,} rows: peak {found[times]['peak'] / 1e6:7.1f} MB")
            path.unlink()
    found["growth"] = found[10]["peak"] / found[1]["peak"] - 1
    print(f"ten times the capture: {found['growth']:+.1%} memory")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "peak-memory.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    to_parquet(*sys.argv[1:]) if len(sys.argv) > 1 else main()
