"""What do all five tables cost beside the message table with all columns? For each protocol, in CPU time.

    python bench/bench_insight.py

The goal is twice. The captures are those of insight_inputs.py: a message is published, acknowledged, delivered to another
connection, and acknowledged there. `bench/instructions.py --case insight_mqtt_1_messages --case insight_mqtt_1_tables` counts
instructions instead, which do not depend on what else the machine does.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import inputs
import insight_inputs
from ratios import compare, versions

from wirefmt import capture

MESSAGES = 50_000
TABLES = ("messages", "connections", "operations", "paths", "findings")


def message_table(path: Path) -> int:
    with capture.read(path) as reader:
        return sum(batch.num_rows for batch in reader)


def tables(path: Path, *names: str) -> int:
    return sum(batch.num_rows for _, batch in capture.read_tables(path, names))


def main() -> None:
    print(versions("wirefmt", "numpy"))
    with tempfile.TemporaryDirectory() as folder:
        for name in insight_inputs.PROTOCOLS:
            path = Path(folder) / "capture.pcap"
            inputs.write_pcap(path, insight_inputs.packets(name, MESSAGES))
            compare(
                f"Tables of a capture, {name}",
                {
                    "message table, all columns": lambda p=path: message_table(p),
                    "all five tables": lambda p=path: tables(p, *TABLES),
                    **{name: lambda p=path, n=name: tables(p, n) for name in TABLES[1:]},
                },
                units=MESSAGES,
                clock=time.process_time,
            )


if __name__ == "__main__":
    main()
