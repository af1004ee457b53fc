"""Fuzz target of insight: captures to operations and connections."""

from __future__ import annotations

from typing import Any

from common import pyarrow, same
from targets_captures import capture_seeds, known_limits, options_of

from wirefmt.capture import CaptureDecoder
from wirefmt.insight import Insight

OPEN_MOST = 4


def answers(octets: bytes, step: int, batch_rows: int, max_operations: int, **options: Any) -> list[Any]:
    """The operations and connections of a capture file fed in chunks of `step` octets."""
    decoder = CaptureDecoder(
        transport=True, batch_rows=batch_rows, **options | {"protocols": None, "payload_max": None}
    )
    insight = Insight(max_operations=max_operations)
    messages = operations = 0
    batches: list[Any] = []

    def take(final: bool = False) -> None:
        nonlocal messages, operations
        batch = decoder.take(final)
        if batch is not None:
            messages += len(batch)
            insight.messages(batch)
        if batch is not None or final:
            ends = decoder.take_transport()
            if ends is not None:
                insight.transport(ends, all_connections=True)
        if insight.stats["open_operations"] > max_operations:
            raise AssertionError(insight.stats)
        made = insight.take_operations()
        operations += len(made) if made is not None else 0
        batches.extend(batch for batch in (made, insight.take_connections()) if batch is not None)

    decoder.begin_file("fuzz", 0)
    for at in range(0, len(octets), step):
        chunk = memoryview(octets)[at : at + step]
        while len(chunk):
            chunk = chunk[decoder.feed(chunk) :]
            take()
    while not decoder.end_file():
        take()
    while not decoder.finish():
        take()
    take(final=True)
    insight.finish()
    take(final=True)
    stats = insight.stats
    same((stats["open_operations"], stats["open_connections"], stats["no_memory"]), (0, 0, 0), "what is left")
    if operations > 2 * messages:  # a message opens one at most, and may name one that an earlier connection has opened
        raise AssertionError(f"{operations} operations of {messages} messages")
    if pyarrow is None:
        return []
    found = [pyarrow.record_batch(batch) for batch in batches]
    for batch in found:
        batch.validate(full=True)
    return sorted(repr(row) for batch in found for row in batch.to_pylist())


def insight(data: bytes) -> None:
    """A capture file: answers, never an exception; the same for any chunks and batches, and few open operations if few are
    allowed."""
    if len(data) < 2:
        return
    options, limits = options_of(data[0]), known_limits(data[1])
    plain = answers(data[1:], len(data), 1 << 14, 1 << 20, **options)
    same(answers(data[1:], 1 + data[0] % 97, 1, 1 << 20, **options), plain, "chunks")
    answers(data[1:], len(data), 16, OPEN_MOST, limits=limits, **options)


TARGETS = {"insight": (insight, capture_seeds)}
