"""Several threads give the rows of one thread, in an order that does not depend on which of them is faster."""

from __future__ import annotations

import gc
import gzip
import io
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lib.captures import octets_of, row_of
from lib.made_captures import captures
from lib.wire import Tcp, connack, connect, pcap, publish
from wirefmt import capture
from wirefmt.capture import CaptureDecoder, decode, sources
from wirefmt.capture._engine import Dispatcher
from wirefmt.errors import CaptureError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

LIVE = (
    "mosquitto-paho-v5.pcap",
    "mosquitto-paho-v311-lossy-outoforder.pcap",
    "rabbitmq-proton.pcap",
    "rabbitmq-pyamqp.pcap",
)
#: Counters of how the work was done, not of what was read.
OF_WORK = {"batches", "most_buffered", "flow_table_probes"}


def set_chunk(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for name in ("CHUNK", "SHARED_CHUNK"):
        monkeypatch.setattr(sources, name, size)


@pytest.fixture(params=[500, 20_000, sources.SHARED_CHUNK], ids="{} octets a chunk".format)
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    set_chunk(monkeypatch, request.param)
    return int(request.param)


def live(name: str) -> bytes:
    return octets_of(row_of(name))


def many_connections(count: int = 40, messages: int = 30) -> bytes:
    chance = random.Random(3)
    packets: list[bytes] = []
    clients = [Tcp(client_port=20_000 + i) for i in range(count)]
    for client in clients:
        packets += [*client.open(), client.segment(0, connect(f"client{client.client_port}"))]
    for i in range(count * messages):
        packets.append(chance.choice(clients).segment(0, publish(f"a/{i}", bytes(50))))
    return pcap(packets)


def read(data: Any, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    with capture.read(io.BytesIO(data) if isinstance(data, bytes) else data, **options) as reader:
        rows = pa.table(reader).to_pylist()
    return rows, reader.stats


def by_flow(rows: list[dict[str, Any]]) -> dict[Any, list[str]]:
    found = defaultdict(list)
    for row in rows:
        found[row["flow_id"]].append(str(row))
    return found


def without_work(stats: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stats.items() if name not in OF_WORK}


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", LIVE)
def test_rows_and_counters_are_those_of_one_thread(name: str, threads: int) -> None:
    data = live(name)
    rows, stats = read(data)
    for batch_rows in (7, 16384):
        again, counted = read(data, threads=threads, batch_rows=batch_rows)
        assert by_flow(again) == by_flow(rows)
        assert without_work(counted) == without_work(stats)


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("name", captures())
def test_formats_layers_and_fragments_are_those_of_one_thread(name: str) -> None:
    made = captures()[name]
    rows, stats = read(made.octets, tunnels=made.tunnels)
    again, counted = read(made.octets, tunnels=made.tunnels, threads=3, batch_rows=5)
    assert by_flow(again) == by_flow(rows)
    assert without_work(counted) == without_work(stats)


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_capture_is_that_of_one_thread(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Octets changed, left out and repeated, anywhere: faults, too, are found once, where they are."""
    chance = random.Random(seed)
    set_chunk(monkeypatch, chance.choice((100, 1_000, 10_000, 1 << 20)))
    data = bytearray(chance.choice([made.octets for made in captures().values()] + [many_connections(10, 30)]))
    for _ in range(chance.randrange(1, 6)):
        at, size = chance.randrange(len(data)), chance.choice((1, 4, 50, 3_000))
        data[at : at + size] = chance.choice((b"", chance.randbytes(size), bytes(size), data[at : at + size] * 2))
    rows, stats = read([io.BytesIO(data)])
    again, counted = read([io.BytesIO(data)], threads=chance.choice((2, 3)), batch_rows=chance.choice((1, 7, 1_000)))
    assert by_flow(again) == by_flow(rows)
    assert without_work(counted) == without_work(stats)


@pytest.mark.usefixtures("chunk")
def test_the_order_of_rows_is_always_the_same() -> None:
    data = many_connections()
    first = read(data, threads=3, batch_rows=11)[0]
    assert len(first) == 40 * 31
    assert by_flow(first) == by_flow(read(data)[0])
    assert all(read(data, threads=3, batch_rows=11)[0] == first for _ in range(5))


def test_a_slice_in_threads_is_that_slice() -> None:
    data = many_connections()
    for part in range(3):
        rows, stats = read(data, slice=(part, 3))
        again, counted = read(data, slice=(part, 3), threads=2)
        assert by_flow(again) == by_flow(rows)
        assert without_work(counted) == without_work(stats)
        assert counted["packets_of_other_slices"] > 0


@pytest.mark.usefixtures("chunk")
def test_rotated_files_are_one_capture(tmp_path: Path) -> None:
    data = live(LIVE[0])
    half = len(data) // 2
    header, at = data[:24], 24
    while at < half:
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    for name, octets in (("a.pcap", data[:at]), ("b.pcap", header + data[at:])):
        (tmp_path / name).write_bytes(octets)
    rows, stats = read(tmp_path, flows="across-files")
    again, counted = read(tmp_path, flows="across-files", threads=2)
    assert {row["kind"] for row in rows} >= {"CONNECT", "PUBLISH"}
    assert by_flow(again) == by_flow(rows)
    assert without_work(counted) == without_work(stats)


@pytest.mark.usefixtures("chunk")
def test_a_truncated_file_has_one_row_for_each_error() -> None:
    data = gzip.compress(many_connections())[:-5000]
    rows, stats = read(data)
    again, counted = read(data, threads=2)
    errors = [row["error"] for row in again if row["kind"] is None]
    assert len(errors) == stats["capture_faults"] == 2  # the compressed file, and the last record in it
    assert sorted(map(str, again)) == sorted(map(str, rows))
    assert without_work(counted) == without_work(stats)


class Failing(io.BytesIO):
    def __init__(self, data: bytes, reads: int, fault: BaseException) -> None:
        super().__init__(data)
        self.reads, self.fault = reads, fault

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads -= 1
        if self.reads < 0:
            raise self.fault
        return super().read(size)


def test_a_read_error_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk(monkeypatch, 1000)
    data = many_connections()
    rows, stats = read(Failing(data, 20, OSError("the disk is gone")), threads=3)
    errors = [row["error"] for row in rows if row["kind"] is None]
    assert errors == ["OSError: the disk is gone", "file ends inside a record"]
    assert stats["capture_faults"] == 2
    assert len(rows) > 50
    assert by_flow(rows) == by_flow(read(Failing(data, 20, OSError("the disk is gone")))[0])


def test_another_exception_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk(monkeypatch, 1000)
    before = threading.active_count()
    with pytest.raises(KeyError, match="a fault of the source"):
        read(Failing(many_connections(), 20, KeyError("a fault of the source")), threads=3)
    assert threading.active_count() == before


def test_no_capture(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"cannot read .*: not a packet capture"):
        capture.read(io.BytesIO(b"this is not a capture"), threads=2)
    with pytest.raises(CaptureError, match="cannot read"):
        capture.read(tmp_path / "nothing.pcap", threads=2)
    (tmp_path / "a.pcap").write_bytes(b"this is not a capture")
    rows, _ = read([tmp_path / "a.pcap"], threads=2)
    assert [row["status"] for row in rows] == ["malformed"]


def test_stopping_gives_the_rows_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk(monkeypatch, 1000)
    data = many_connections(messages=100)
    with capture.read(io.BytesIO(data), threads=2, batch_rows=10) as reader:
        found = pa.record_batch(next(reader)).to_pylist()
        reader.stop()
        for batch in reader:
            found += pa.record_batch(batch).to_pylist()
    assert reader.stopped
    assert reader.bytes_read < len(data) // 2
    whole = by_flow(read(data)[0])
    flows = by_flow(found)
    assert flows
    for flow, rows in flows.items():
        assert rows == whole[flow][: len(rows)]
    # all threads end at the same packet
    last = max(row["frame_no"] for row in found)
    assert sorted(row["frame_no"] for row in found) == [
        int(frame) for frame in sorted(row["frame_no"] for row in read(data)[0]) if frame <= last
    ]


@pytest.mark.parametrize("how", ["close", "drop"])
def test_a_reader_that_is_left_ends_its_threads(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk(monkeypatch, 1000)
    before = threading.active_count()
    reader = capture.read(io.BytesIO(many_connections()), threads=3, batch_rows=1)
    next(reader)
    assert threading.active_count() == before + 3
    if how == "close":
        reader.close()
    else:
        del reader
        gc.collect()
    assert threading.active_count() == before


def test_a_reader_may_be_closed_after_any_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when one thread waits for a slower one, which waits for the caller."""
    set_chunk(monkeypatch, 500)
    data = many_connections(6, 20)

    def close_each() -> None:
        for taken in range(1, 121):
            with capture.read(io.BytesIO(data), threads=2, batch_rows=1) as reader:
                for _ in range(taken):
                    next(reader)
                time.sleep(0.005)  # the threads go on until they wait

    closing = threading.Thread(target=close_each, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()


def test_a_program_may_end_with_an_open_reader() -> None:
    import subprocess
    import sys

    program = (
        "import io, sys; from wirefmt import capture; data = sys.stdin.buffer.read();"
        "reader = capture.read(io.BytesIO(data), threads=2, batch_rows=1); print(len(next(reader)))"
    )
    told = subprocess.run([sys.executable, "-c", program], input=many_connections(), capture_output=True, timeout=60)
    assert (told.returncode, told.stdout, told.stderr) == (0, b"1\n", b"")


def test_rows_of_a_pipe_come_as_they_arrive() -> None:
    data = many_connections(4, 5)
    columns = ["flow_id", "frame_no", "kind", "destination"]
    at, end = os.pipe()
    with open(end, "wb", buffering=0) as writer, open(at, "rb", buffering=0) as pipe:
        writer.write(data)  # the pipe stays open
        found: list[Any] = []
        with capture.read(pipe, threads=2, columns=columns) as reader:
            begun = time.monotonic()
            while len(found) < 4 * 6 and time.monotonic() - begun < 30:
                found += pa.record_batch(next(reader)).to_pylist()
            writer.close()
            assert list(reader) == []
    assert by_flow(found) == by_flow(read(data, columns=columns)[0])


def test_threads_share_the_limits() -> None:
    _, stats = read(many_connections(), threads=4, limits={"max_flows": 12})
    assert stats["open_flows"] <= 12
    assert stats["flows_evicted"] >= 40 - 12


def test_several_decoders_need_a_dispatcher() -> None:
    (source,) = sources.find(io.BytesIO(many_connections()))
    with pytest.raises(ValueError, match="several decoders need a dispatcher"):
        next(capture.decode_source([CaptureDecoder(), CaptureDecoder()], source, 0))


def test_a_share_that_was_not_taken_to_its_end_is_left() -> None:
    """The next one is taken from its beginning."""
    data = many_connections(4, 20)
    dispatcher = Dispatcher(capture.Options())
    (long,), (short,) = dispatcher.dispatch(data[:4000]), dispatcher.dispatch(data[4000:5000])
    decoder = CaptureDecoder(batch_rows=1)
    decoder.begin_file("a.pcap")
    assert len(long) > len(short) > 2
    assert not decoder.feed_share(long)
    before = decoder.stats["segments"]
    while not decoder.feed_share(short):
        decoder.take()
    assert decoder.stats["segments"] == before + len(short)


def test_the_number_of_threads_is_checked() -> None:
    with pytest.raises(ValueError, match="threads must be 1 to 65,535, not 0"):
        capture.Options(threads=0)
    with pytest.raises(ValueError, match="a CaptureDecoder decodes in one thread"):
        CaptureDecoder(threads=2)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_every_thread_has_a_share_of_connections_that_differ_in_one_number(count: int) -> None:
    """Either the port or the address of the clients grows by one: no thread has more than twice its part."""
    for varied in ("client_port", "client", "server", "port"):
        packets = []
        for i in range(500):
            numbers: dict[str, Any] = {"client_port": 20_000, "client": 0x0A000002, "server": 0x0B000001, "port": 1883}
            client = Tcp(**numbers | {varied: numbers[varied] + i})
            packets += [*client.open(), client.segment(0, connect(f"client{i}"))]
        shares = Dispatcher(capture.Options(threads=count)).dispatch(pcap(packets))
        assert sum(map(len, shares)) == 500 * 4
        assert max(map(len, shares)) < 2 * 500 * 4 / count


class Numbered:
    """Chunks that are their numbers, and how many were read; and what dispatches them."""

    live = cut = not_a_capture = False

    def __init__(self, count: int) -> None:
        self.count = count
        self.read = 0

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            self.read = number + 1
            yield number

    def dispatch(self, chunk: int) -> tuple[Any, ...]:
        return tuple((chunk, i) for i in range(3))

    def end_file(self, fault: str | None) -> tuple[Any, ...]:
        assert fault is None
        return ("end",) * 3


@pytest.mark.parametrize("seed", range(5))
def test_every_thread_takes_every_chunk(seed: int) -> None:
    source: Any = Numbered(200)
    shared = decode.Shares(source, source, 3)
    taken: list[list[Any]] = [[], [], []]
    most = []

    def work(thread: int) -> None:
        chance = random.Random(seed * 3 + thread)
        while (share := shared.take(thread)) is not None:
            taken[thread].append(share)
            most.append(source.read - min(map(len, taken)))
            if chance.random() < 0.3:
                time.sleep(chance.random() / 1000)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert taken == [[(number, i) for number in range(200)] + ["end"] for i in range(3)]
    assert max(most) <= decode.SPAN + 1  # a chunk that was just taken may not be in the list yet


@pytest.mark.parametrize("threads", [1, 3])
def test_a_file_without_end_that_is_no_capture_ends(threads: int, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot read '/dev/zero'"):
        capture.read("/dev/zero", threads=threads)
    sample = tmp_path / "a.pcap"
    sample.write_bytes(pcap([*Tcp().open()]))
    rows, _ = read([sample, "/dev/zero", sample], threads=threads)
    assert [row["status"] for row in rows] == ["malformed"]


def test_stats_while_threads_run() -> None:
    """They are those of whole calls: never lower than before, and at last those of the rows."""
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, connect()), *tcp.send(1, connack())]
    for number in range(20_000):
        frames += tcp.send(0, publish("t", b"x" * 100, identifier=1 + number % 60_000))
    reader = capture.read(io.BytesIO(pcap(frames)), threads=2, batch_rows=100)
    packets = rows = 0
    for batch in reader:
        rows += len(batch)
        stats = reader.stats
        assert stats["packets"] >= packets
        packets = stats["packets"]
    assert reader.stats["rows"] == rows == 20_002
    assert reader.stats["packets"] == len(frames)
