"""How soon does a broker accept its first connection, and how much memory does it take while nothing happens?

    python bench/bench_broker_start.py            `wirefmt.broker.Broker` with its defaults, all protocols on

Each round is a process of its own. Start-up is the time from after the import to the first connection accepted by each of the
six protocols; of the memory both the resident set and the proportional one (Pss) are printed. The goals are 150 ms and 60 MB.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

ROUNDS = 7

PROGRAM = """
import asyncio, json, sys, time
from pathlib import Path
from wirefmt.broker import Broker, Options

async def main(began):
    async with Broker() as b:
        for name in b.options.ports:
            _, writer = await asyncio.open_connection("127.0.0.1", b.port(name))
            writer.close()
        started = time.perf_counter() - began
        while any(server.drivers for server in b.servers.values()):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        print(json.dumps({"start": started, "rss": sizes["Rss"], "pss": sizes["Pss"]}))

asyncio.run(main(time.perf_counter()))
"""


def main() -> None:
    rounds = []
    for _ in range(ROUNDS):
        done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
        rounds.append(json.loads(done.stdout))
    start = [each["start"] * 1e3 for each in rounds]
    print(
        f"start-up to the first connections: median {statistics.median(start):.0f} ms, {min(start):.0f} to {max(start):.0f}"
    )
    for name, what in (("rss", "resident"), ("pss", "proportional")):
        print(f"idle, {what}: {statistics.median(each[name] for each in rounds) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
