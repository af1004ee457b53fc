"""What does Spark cost? decode_to_parquet, the data source and `read`, each written to Parquet, against the plain path in CPU
seconds; two cores against one in wall time.

    PYTHONPATH=src:spark python bench/bench_spark.py [--mib 1024] [--captures 8] [--rounds 3]

CPU seconds are those of the whole process tree (the driver's JVM, Python workers, this process), read from /proc, so
that other load on the machine does not blur them much. Starting the session is reported separately: it costs the
same for any capture. `--captures 1` is the case of one large capture: its flows are distributed to the tasks, each of
which walks the whole file, and the largest share determines the time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from ratios import RESULTS, versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = b"sensors/plant-7/line-0000/temperature"
PAYLOAD = 128
FLOWS = 64


def generate(path: Path, mib: int, seed: int = 1) -> int:
    """A pcap of 64 MQTT connections, with a PUBLISH of 128 random letters per packet. Returns the number of messages."""
    publish = 2 + len(TOPIC) + PAYLOAD
    body = b"\x30" + bytes([0x80 | publish & 0x7F, publish >> 7]) + len(TOPIC).to_bytes(2, "big")
    size = len(body) + len(TOPIC) + PAYLOAD
    record = np.dtype(
        [("s", "<u4"), ("us", "<u4"), ("cap", "<u4"), ("orig", "<u4"), ("eth", "u1", 14), ("ip0", "u1", 2),
         ("len", ">u2"), ("ip1", "u1", 8), ("src", ">u4"), ("dst", ">u4"), ("sport", ">u2"), ("dport", ">u2"),
         ("seq", ">u4"), ("ack", ">u4"), ("tcp", "u1", 8), ("body", "u1", len(body)), ("topic", "u1", len(TOPIC)),
         ("payload", "u1", PAYLOAD)]
    )  # fmt: skip
    connect = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x3c\x00\x05" + b"c0000"
    count = max(FLOWS, (mib << 20) // record.itemsize // FLOWS * FLOWS)
    random = np.random.default_rng(seed)
    with path.open("wb") as out:
        out.write(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
        for flow in range(FLOWS):
            frame = _frame(flow, 1, connect[:-4] + b"%04d" % flow)
            out.write(np.array([1_700_000_000, 0, len(frame), len(frame)], "<u4").tobytes() + frame)
        at = 0
        while at < count:
            n = min(count - at, FLOWS << 10)
            rows = np.zeros(n, record)
            number = np.arange(at, at + n)
            flows = number % FLOWS
            rows["s"], rows["us"] = 1_700_000_000 + number // 100_000, number % 100_000 * 10
            rows["cap"] = rows["orig"] = record.itemsize - 16
            head = np.frombuffer(_frame(0, 0, b""), "u1")
            rows["eth"], rows["ip0"], rows["ip1"], rows["tcp"] = head[:14], head[14:16], head[18:26], head[46:54]
            rows["len"] = 40 + size
            rows["src"], rows["dst"], rows["sport"], rows["dport"] = 0x0A000001, 0x0A000002, 20_000 + flows, 1883
            rows["seq"] = 1 + len(connect) + number // FLOWS * size
            rows["body"], rows["topic"] = np.frombuffer(body, "u1"), np.frombuffer(TOPIC, "u1")
            digits = TOPIC.index(b"0000")
            for place in range(4):
                rows["topic"][:, digits + place] = 48 + flows // 10 ** (3 - place) % 10
            rows["payload"] = random.integers(97, 123, (n, PAYLOAD), "u1")
            out.write(rows.tobytes())
            at += n
    return count + FLOWS


def _frame(flow: int, seq: int, data: bytes) -> bytes:
    ethernet = bytes.fromhex("0200000000020200000000010800")
    ip = bytes.fromhex("4500") + (40 + len(data)).to_bytes(2, "big") + bytes.fromhex("0000400040060000")
    addresses = bytes([10, 0, 0, 1, 10, 0, 0, 2])
    tcp = (20_000 + flow).to_bytes(2, "big") + (1883).to_bytes(2, "big") + seq.to_bytes(4, "big") + bytes(4)
    return ethernet + ip + addresses + tcp + bytes.fromhex("5018ffff00000000") + data


def plain(captures: list[Path], out: Path) -> int:
    """The single process: reader to Parquet writer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from wirefmt.capture import read

    rows = 0
    with (
        read([str(c) for c in captures]) as reader,
        pq.ParquetWriter(out, pa.schema(reader.schema), compression="snappy") as writer,
    ):
        for batch in reader:
            writer.write_batch(pa.record_batch(batch))
            rows += batch.num_rows
    return rows


def parquet_rows(file: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(file).num_rows)


def cpu_seconds(root: int | None = None) -> float:
    """User and system time of a process and its descendants, including dead children."""
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            used[int(entry.name)] = sum(int(f) for f in fields[11:15]) / tick
    total, waiting = 0.0, [root or os.getpid()]
    while waiting:
        process = waiting.pop()
        total += used.get(process, 0.0)
        waiting += children.get(process, [])
    return total


def measure(run: Callable[..., int]) -> tuple[float, float, int]:
    """CPU seconds, wall seconds, rows."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    rows = run()
    return cpu_seconds() - cpu, time.perf_counter() - wall, rows


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    p.add_argument("--mib", type=int, default=1024, help="size of the generated captures together")
    p.add_argument("--captures", type=int, default=8, help="how many they are")
    p.add_argument("--rounds", type=int, default=3)
    arguments = p.parse_args()
    from pyspark_wirefmt import decode_to_parquet, local_session, read

    work = Path(tempfile.mkdtemp(prefix="wirefmt-bench-"))
    try:
        captures = [work / f"large-{i}.pcap" for i in range(arguments.captures)]
        messages = sum(generate(c, arguments.mib // len(captures), seed=i) for i, c in enumerate(captures, 1))
        octets = sum(c.stat().st_size for c in captures)
        print(f"{len(captures)} captures, {octets:,} bytes, {messages:,} messages, load {os.getloadavg()[0]:.1f}")
        ways = ("plain", "local[1]", "local[2]", "format", "read")  # the last two with two cores
        seen: dict[str, list[tuple[float, float, int]]] = {way: [] for way in ways}
        paths, out = [str(c) for c in captures], str(work / "out")
        starts = []
        for _ in range(arguments.rounds):
            seen["plain"].append(measure(lambda: plain(captures, work / "plain.parquet")))
            for cores in (1, 2):
                cpu, wall = cpu_seconds(), time.perf_counter()
                spark = local_session(cores)
                spark.range(0, cores, 1, cores).mapInArrow(lambda batches: batches, "id bigint").collect()
                starts.append((cpu_seconds() - cpu, time.perf_counter() - wall))

                def decode(spark: SparkSession = spark) -> int:
                    return sum(m.rows for m in decode_to_parquet(spark, paths, out, mode="overwrite"))

                def written(frame: Any) -> int:
                    frame.write.mode("overwrite").parquet(out)
                    return sum(parquet_rows(file) for file in Path(out).glob("*.parquet"))

                seen[f"local[{cores}]"].append(measure(decode))
                if cores == 2:
                    seen["format"].append(
                        measure(lambda spark=spark: written(spark.read.format("wirefmt").load(paths)))
                    )
                    seen["read"].append(measure(lambda spark=spark: written(read(spark, paths))))
                spark.stop()
        report(seen, starts, messages, octets)
    finally:
        shutil.rmtree(work)


def report(
    seen: dict[str, list[tuple[float, float, int]]], starts: list[tuple[float, float]], messages: int, octets: int
) -> None:
    for name, runs in seen.items():
        assert all(rows == messages for _, _, rows in runs), f"{name}: {runs[0][2]} rows of {messages}"
        cpu, wall = min(r[0] for r in runs), min(r[1] for r in runs)
        spread = median(r[1] for r in runs) / wall - 1
        print(f"{name:10} {cpu / messages * 1e6:6.3f} us CPU a row   {wall:6.2f} s wall (median +{spread:.0%})")
    best = {name: (min(r[0] for r in runs), min(r[1] for r in runs)) for name, runs in seen.items()}
    start_cpu, start_wall = min(s[0] for s in starts), min(s[1] for s in starts)
    figures = {
        "cpu a row, local[1] to plain": best["local[1]"][0] / best["plain"][0],
        "cpu a row, local[2] to plain": best["local[2]"][0] / best["plain"][0],
        "cpu a row, format to plain": best["format"][0] / best["plain"][0],
        "cpu a row, read to plain": best["read"][0] / best["plain"][0],
        "cpu a row, local[2] with the session's start, to plain": (best["local[2]"][0] + start_cpu) / best["plain"][0],
        "wall, local[1] to local[2]": best["local[1]"][1] / best["local[2]"][1],
    }
    print(f"{'session':10} {start_cpu:6.1f} s CPU to start, {start_wall:.1f} s wall")
    for name, ratio in figures.items():
        print(f"  {name:58} {ratio:5.2f}")
    RESULTS.mkdir(exist_ok=True)
    told = {"figures": figures, "seen": seen, "messages": messages, "bytes": octets, "load": os.getloadavg()}
    told["versions"] = versions("wirefmt", "pyspark", "pyarrow", "numpy")
    (RESULTS / "spark.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
