"""What does converting a capture's messages cost, as a column, beside converting them one by one and beside decoding?

    python bench/bench_convert_table.py

The messages are random ones from the conversion vectors, each many times; the capture is that of bench_capture.py. Peers:
a Python loop of `convert` over the same octets, and pamqp reading one content header of five properties per message.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import inputs
import pyarrow as pa
from bench_convert import DIRECTIONS, messages
from pamqp import commands, frame, header
from ratios import compare, versions

from wirefmt import capture
from wirefmt.convert import Protocol, Wire, convert, convert_table
from wirefmt.errors import ConversionError

ROWS = 16384
CAPTURED = 100_000


def column(wires: list[Wire]) -> pa.RecordBatch:
    """The messages as rows of a message table."""
    protocol = {"mqtt5": "mqtt"}.get(wires[0].protocol, wires[0].protocol)
    rows = [
        {
            "protocol": protocol,
            "version": "5.0",
            "destination": "/queues/q",
            "routing_key": "q",
            "raw": wire.frames(),
        }
        for wire in wires
    ]
    schema = pa.schema([(name, pa.binary() if name == "raw" else pa.string()) for name in rows[0]])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def convertible(source: str, target: str) -> list[Wire]:
    good = []
    for wire in messages(source, target):
        try:
            convert(wire, to=target, routing_key="q")  # type: ignore[arg-type]
            good.append(wire)
        except ConversionError:
            continue
    return (good * (ROWS // len(good) + 1))[:ROWS]


def one_by_one(wires: list[Wire], target: Protocol) -> int:
    return sum(len(convert(wire, to=target, routing_key="q").octets) for wire in wires)


def pamqp_headers(count: int) -> int:
    properties = commands.Basic.Properties(
        content_type="application/json", delivery_mode=2, correlation_id="c-1", message_id="m-1", app_id="bench"
    )
    octets = frame.marshal(header.ContentHeader(0, 100, properties), 1)
    return sum(frame.unmarshal(octets)[0] for _ in range(count))


def read(path: Path, to: Protocol | None, **options: Any) -> int:
    rows = 0
    with capture.read(path, **options) as reader:
        for batch in reader:
            rows += (pa.record_batch(batch) if to is None else convert_table(pa.record_batch(batch), to=to)).num_rows
    return rows


def main() -> None:
    print(versions("pyarrow", "pamqp"))
    for source, target in DIRECTIONS:
        wires = convertible(source, target)
        batch = column(wires)
        compare(
            f"{source} to {target}",
            {
                "convert_table": lambda batch=batch, target=target: convert_table(batch, to=target),
                "convert, one by one": lambda wires=wires, target=target: one_by_one(wires, target),
                "pamqp, a content header": lambda: pamqp_headers(ROWS),
            },
            units=ROWS,
            rounds=3,
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "capture.pcap"
        inputs.write_pcap(path, inputs.capture(CAPTURED, payload=128, version=5, turn=8))
        compare(
            "a capture of PUBLISH, decoded",
            {
                "plain": lambda: read(path, None),
                "with raw": lambda: read(path, None, raw=True),
                "with raw, converted to amqp10": lambda: read(path, "amqp10", raw=True),
            },
            units=CAPTURED,
            rounds=5,
        )


if __name__ == "__main__":
    main()
