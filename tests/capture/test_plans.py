"""Threads that share a chunk read their own records by its plan: rows and counters are those of threads that read all records."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest

from lib.captures import Row, octets_of, parameters, recorded
from lib.wire import Tcp, connect, pcap, publish
from wirefmt import capture
from wirefmt.capture import CaptureDecoder, decode, sources
from wirefmt.capture._engine import Planner

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")


#: Counters of how the work was done, not of what was read.
OF_WORK = {"batches", "most_buffered", "flow_table_probes"}


class NoPlanner:
    def __init__(self, threads: int) -> None:
        pass

    def plan(self, chunk: Any) -> None:
        return None


class CountingPlanner:
    made = missing = 0

    def __init__(self, threads: int) -> None:
        self.inner = Planner(threads)

    def plan(self, chunk: Any) -> Any:
        found = self.inner.plan(chunk)
        CountingPlanner.made += found is not None
        CountingPlanner.missing += found is None
        return found


def read(data: bytes, **options: Any) -> tuple[dict[Any, list[str]], dict[str, Any]]:
    """Rows by flow, in their order, and counters. The order of rows of several flows depends on where a batch is full."""
    rows: dict[Any, list[str]] = {}
    with capture.read(io.BytesIO(data), **options) as reader:
        for batch in reader:
            for row in pa.record_batch(batch).to_pylist():
                rows.setdefault(row["flow_id"], []).append(str(row))
    return rows, {name: value for name, value in reader.stats.items() if name not in OF_WORK}


def with_and_without(data: bytes, monkeypatch: pytest.MonkeyPatch, chunk: int, **options: Any) -> None:
    monkeypatch.setattr(sources, "SHARED_CHUNK", chunk)
    with monkeypatch.context() as patch:
        patch.setattr(decode, "Planner", NoPlanner)
        expected = read(data, **options)
    assert read(data, **options) == expected


@pytest.mark.parametrize("row", parameters(recorded()))
def test_every_capture(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every form: pcapng, other byte orders, fragments, tunnels, IPv6, gaps."""
    data = octets_of(row)
    for chunk, threads, batch_rows in ((4000, 2, 16384), (70_000, 3, 5)):
        with_and_without(data, monkeypatch, chunk, threads=threads, batch_rows=batch_rows)


def talk(count: int = 12, messages: int = 15) -> list[bytes]:
    chance = random.Random(5)
    clients = [Tcp(client_port=20_000 + i) for i in range(count)]
    packets = [p for c in clients for p in (*c.open(), c.segment(0, connect(f"client{c.client_port}")))]
    for i in range(count * messages):
        packets.append(chance.choice(clients).segment(0, publish(f"a/{i}", bytes(chance.randrange(200)))))
    return packets


@pytest.mark.parametrize("chunk", [1, 2, 15, 16, 17, 40, 100, 333, 1000, 5000])
def test_chunks_that_end_anywhere(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the header of a record, between two records, in a packet; records longer than a chunk."""
    data = pcap(talk(4, 6) if chunk < 100 else talk())
    for batch_rows in (1, 3, 16384):
        with_and_without(data, monkeypatch, chunk, threads=2, batch_rows=batch_rows)


@pytest.mark.parametrize("seed", range(30))
def test_damaged_captures(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that cannot be ones, sizes that are wrong, packets that are none."""
    chance = random.Random(seed)
    data = bytearray(pcap(talk(5, 12)))
    for _ in range(chance.choice([1, 3, 30])):
        at = chance.randrange(24, len(data))
        data[at : at + chance.choice([1, 4])] = chance.randbytes(chance.choice([1, 4]))
    if seed % 5 == 0:
        del data[chance.randrange(len(data)) :]
    with_and_without(
        bytes(data), monkeypatch, chance.choice([64, 500, 3000, 1 << 20]), threads=chance.choice([2, 3]), batch_rows=4
    )


def test_nearly_every_chunk_of_a_usual_capture_has_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "Planner", CountingPlanner)
    monkeypatch.setattr(CountingPlanner, "made", 0)
    monkeypatch.setattr(CountingPlanner, "missing", 0)
    monkeypatch.setattr(sources, "SHARED_CHUNK", 2000)
    read(pcap(talk()), threads=2)
    assert CountingPlanner.made > 10 and CountingPlanner.missing <= 1


def test_packets_of_other_threads_are_not_looked_at() -> None:
    """After the plan was made, the other thread's packets are overwritten: a decoder with the plan does not see it."""
    packets = talk()
    data = pcap(packets)
    found = []
    for share in (0, 1):
        decoder = CaptureDecoder()
        decoder.set_share(share, 2)
        decoder.begin_file("x", 0)
        assert decoder.feed(data) == len(data)
        while not decoder.end_file():
            pass
        rows = decoder.take(final=True)
        assert rows is not None
        found.append(pa.record_batch(rows).to_pylist())
    assert found[0] and found[1]
    own = {row["frame_no"] for row in found[0]}
    damaged = bytearray(data)
    at = 24
    for number, packet in enumerate(packets, 1):
        if number > len(packets) // 2 and number not in own:
            damaged[at + 16 + 12 : at + 16 + 30] = bytes(18)  # EtherType, IPv4
        at += 16 + len(packet)
    plan = Planner(2).plan(data)
    decoder = CaptureDecoder()
    decoder.set_share(0, 2)
    decoder.begin_file("x", 0)
    assert decoder.feed(damaged, plan, 0) == len(data)
    while not decoder.end_file():
        pass
    rows = decoder.take(final=True)
    assert rows is not None
    assert pa.record_batch(rows).to_pylist() == found[0]
    assert decoder.stats["packets"] == len(packets)


def test_a_plan_of_another_chunk_is_not_used() -> None:
    """Its records do not begin where the decoder is."""
    packets = talk()
    data = pcap(packets)
    planner = Planner(2)
    planner.plan(data[:1000])
    later = planner.plan(data[1000:])
    assert later is not None
    results = []
    for plan in (None, later):
        decoder = CaptureDecoder()
        decoder.set_share(0, 2)
        decoder.begin_file("x", 0)
        decoder.feed(data, plan, 0)
        while not decoder.end_file():
            pass
        rows = decoder.take(final=True)
        results.append((pa.record_batch(rows).to_pylist() if rows is not None else [], decoder.stats))
    assert results[0] == results[1]
