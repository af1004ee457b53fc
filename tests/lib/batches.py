"""Captures read in one batch and in batches of one row: rows and counts do not depend on where a batch ends."""

from __future__ import annotations

import io
from typing import Any

from lib.wire import Tcp, pcap
from wirefmt import capture
from wirefmt.capture._engine import CaptureDecoder

#: Counts of batches themselves, and of memory: what waits for a full batch to be taken is stored meanwhile.
OF_BATCHES = {"batches", "most_buffered"}


def decode_in_any_batches(data: bytes, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and stats of a capture; fails where batches of one row give others."""
    import pyarrow as pa

    whole = capture.read(io.BytesIO(data), **{"batch_rows": 1 << 30} | options)
    rows = pa.table(whole).to_pylist()
    small = capture.read(io.BytesIO(data), **options | {"batch_rows": 1})
    assert pa.table(small).to_pylist() == rows
    counts = [{k: v for k, v in reader.stats.items() if k not in OF_BATCHES} for reader in (small, whole)]
    assert counts[0] == counts[1]
    return rows, whole.stats


def rows_of(data: bytes, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and stats of a capture, a batch each time the decoder stops."""
    import pyarrow as pa

    decoder = CaptureDecoder(**options)
    decoder.begin_file("a.pcap", 0)
    batches = []
    at = 0
    while at < len(data):
        at += decoder.feed(data[at:])
        batches.append(decoder.take())
    while not decoder.end_file():
        batches.append(decoder.take())
    while not decoder.finish():
        batches.append(decoder.take())
    batches.append(decoder.take(True))
    rows = [row for batch in batches if batch is not None for row in pa.record_batch(batch).to_pylist()]
    return rows, decoder.stats


def talk(*said: tuple[int, bytes], port: int = 4150, size: int = 1448, **options: Any) -> list[dict[str, Any]]:
    """Rows of one connection on which these octets were sent, in this order."""
    tcp = Tcp(port=port)
    frames = tcp.open()
    for side, octets in said:
        frames += tcp.send(side, octets, size)
    return rows_of(pcap(frames + tcp.close()), **options)[0]


def talk_both_ways(*said: tuple[int, bytes], **options: Any) -> list[dict[str, Any]]:
    """Rows of one connection. They are those of the general path, which a capture with `raw` and `detail` takes. A few columns
    alone are as in the whole table."""
    rows = talk(*said, **options)
    for exposed in (False, True):
        found = talk(*said, **options, expose_credentials=exposed)
        other = talk(*said, **options, expose_credentials=exposed, raw=True, detail=True)
        for row, general in zip(found, other, strict=True):
            assert row | {"raw": None, "detail": None} == general | {"raw": None, "detail": None} | (
                {} if exposed else {"error": row["error"]}  # `raw` says there what it hides
            )
    for columns in (
        ["kind"],
        ["status", "destination"],
        ["payload", "headers"],
        ["sequence", "client_id", "redelivered"],
    ):
        assert talk(*said, **options, columns=columns) == [{name: row[name] for name in columns} for row in rows]
    return rows
