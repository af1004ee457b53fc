"""Does memory grow with the capture? Peak resident memory of reading a file and one ten times as large, to Arrow and to Parquet.

    python bench/peak_memory.py

Each runs in a process of its own; flows begin and end, so the number of open flows does not grow with the file.
A ParquetWriter keeps the description of every row group until its end, so its memory grows with the file; a reader's must not.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import inputs

MESSAGES = 60_000
RESULTS = Path(__file__).parent / "results"


def sessions(count: int) -> Iterator[bytes]:
    """`count` rounds of 200 clients one after another, as in long captures."""
    for seed in range(count):
        yield from inputs.capture(MESSAGES, payload=400, version=5, seed=seed)


def read(path: str, out: str | None = None) -> None:
    """`out`: the Parquet file; None: the batches are dropped."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from wirefmt import capture

    with capture.read(path) as reader, ExitStack() as stack:
        writer = out and stack.enter_context(pq.ParquetWriter(out, pa.schema(reader.schema)))
        rows = 0
        for batch in map(pa.record_batch, reader):
            rows += batch.num_rows
            if writer:
                writer.write_batch(batch)
    print(json.dumps({"rows": rows, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def main() -> None:
    found: dict[str, dict[str, float]] = {"Arrow": {}, "Parquet": {}}
    with tempfile.TemporaryDirectory() as folder:
        for times in (1, 10):
            path = Path(folder) / f"{times}.pcap"
            size = inputs.write_pcap(path, sessions(times))
            for name, peaks in found.items():
                out = [str(Path(folder) / "out.parquet")] if name == "Parquet" else []
                run = subprocess.run([sys.executable, __file__, str(path), *out], check=True, stdout=subprocess.PIPE)
                told = json.loads(run.stdout)
                peaks[f"{size} octets"] = told["peak"]
                print(f"{name:7} {size / 1e6:8.1f} MB, {told['rows']:9,} rows: peak {told['peak'] / 1e6:7.1f} MB")
            path.unlink()
    for name, peaks in found.items():
        small, large = peaks.values()
        print(f"{name}: ten times the capture takes {large / small - 1:+.1%} memory")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "peak-memory.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    read(*sys.argv[1:]) if len(sys.argv) > 1 else main()
