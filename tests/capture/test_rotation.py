"""Rotated captures: files of tcpdump -C, -G and -W and dumpcap -b are read as one, by their names and times."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lib.wire import Tcp, connack, connect, pcap, puback, publish
from wirefmt import capture
from wirefmt.capture.rotation import MOST_NS, missing_between

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (("x.pcap", "x.pcap1"), 0),  # tcpdump -C
        (("x.pcap1", "x.pcap2"), 0),
        (("x.pcap9", "x.pcap10"), 0),
        (("x.pcap08", "x.pcap09"), 0),  # tcpdump -C -W 20
        (("trace-2024-01-01T00:59:00.pcap", "trace-2024-01-01T01:00:00.pcap"), 0),  # tcpdump -G
        (("trace-1700000000.pcap", "trace-1700000060.pcap"), 0),
        (("t_20240101235900.pcap", "t_20240102000000.pcap"), 0),
        (("x_00001_20240101000000.pcapng", "x_00002_20240101000100.pcapng"), 0),  # dumpcap -b
        (("x_00001_20240101000000.pcapng.gz", "x_00002_20240101000100.pcapng.gz"), 0),
        (("trace_0003.pcap", "trace_0005.pcap"), 1),
        (("x.pcap08", "x.pcap12"), 3),
        (("v5.pcap", "v311.pcap"), None),
        (("x.pcap2", "x.pcap1"), None),
        (("a1.pcap", "b2.pcap"), None),
        (("x1.pcap", "x2.pcapng"), None),
        (("a/x1.pcap", "b/x2.pcap"), None),
        (("x.pcap", "y.pcap"), None),
        (("trace_0003.pcap", "trace_9999.pcap"), None),
        (("9.pcap", "11.pcap"), None),
    ],
)
def test_names(names: tuple[str, str], missing: int | None) -> None:
    assert missing_between(*names) == missing


def conversation(count: int = 100) -> list[bytes]:
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, connect("sensor-7")), *tcp.send(1, connack())]
    for number in range(1, count + 1):
        message = publish("plant/line-1", b"x" * 40, identifier=number)
        # a message in two packets, so that files end inside messages
        frames += [*tcp.send(0, message[:30]), *tcp.send(0, message[30:]), *tcp.send(1, puback(number))]
    return frames + tcp.close()


def rotated(folder: Path, names: Sequence[str], *, frames: Sequence[bytes] = (), later: int = 0) -> list[str]:
    """Files of a conversation, cut in equal parts. later: seconds between the files."""
    frames = frames or conversation()
    cuts = [len(frames) * i // len(names) for i in range(len(names) + 1)]
    for k, (name, (begin, end)) in enumerate(zip(names, pairwise(cuts), strict=True)):
        data = pcap(list(frames[begin:end]), first=begin + 1000 * later * k)
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return [str(folder / name) for name in names]


def read(paths: Any, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    reader = capture.read(paths, **options)
    return pa.table(reader).to_pylist(), reader.notes


COUNTED = [f"trace_{i:04}.pcap" for i in range(5)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch_rows", [1, 16384])
@pytest.mark.parametrize(
    "names", [COUNTED, ["x.pcap", "x.pcap1", "x.pcap2"], [f"x_{i:05}.pcap.gz" for i in (9, 10, 11)]]
)
def test_files_of_one_rotation_are_read_as_one(names: list[str], threads: int, batch_rows: int, tmp_path: Path) -> None:
    paths = rotated(tmp_path, names)
    whole, nothing = read(paths, flows="across-files", threads=threads)
    rows, notes = read(paths, threads=threads, batch_rows=batch_rows)
    assert rows == whole
    assert sum(row["client_id"] == "sensor-7" for row in rows) == len(rows) == 202
    assert nothing == []
    assert notes == [f"{names[0]} ... {names[-1]}: {len(names)} files are read as one rotated capture"]
    alone, notes = read(paths, flows="in-file")
    assert sum(row["client_id"] == "sensor-7" for row in alone) < 100
    assert notes == []
    assert read(str(tmp_path)) == read(paths)
    parts = [row for i in range(3) for row in read(paths, slice=(i, 3))[0]]
    assert parts == whole  # of one connection


def test_a_ring_that_wrapped_is_ordered_by_time(tmp_path: Path) -> None:
    """tcpdump -C 1 -W 5: the files are written again from the first one on."""
    in_time = [COUNTED[i] for i in (3, 4, 0, 1, 2)]
    paths = rotated(tmp_path, in_time)
    whole, _ = read(paths, flows="across-files")
    rows, notes = read(sorted(paths))
    assert rows == whole
    assert notes == [
        "a ring that wrapped: the oldest of its files is trace_0003.pcap",
        "trace_0003.pcap ... trace_0002.pcap: 5 files are read as one rotated capture",
    ]


def test_numbers_may_count_something_else(tmp_path: Path) -> None:
    """Packets or seconds: the steps are equal, so no file is missing."""
    names = [f"trace_{i:04}.pcap" for i in (0, 50, 100, 150)]
    assert read(rotated(tmp_path, names))[1] == [f"{names[0]} ... {names[-1]}: 4 files are read as one rotated capture"]


def test_a_gap_is_reported(tmp_path: Path) -> None:
    paths = rotated(tmp_path, COUNTED)
    (tmp_path / COUNTED[2]).unlink()
    rows, notes = read([path for path in paths if not path.endswith(COUNTED[2])])
    assert notes == [
        "a rotated capture has a gap: 1 files are missing between trace_0001.pcap and trace_0003.pcap",
        "trace_0000.pcap ... trace_0004.pcap: 4 files are read as one rotated capture",
    ]
    assert {row["status"] for row in rows} == {"ok", "gap", "partial"}
    assert rows[-1]["client_id"] == "sensor-7"


def test_files_that_are_far_apart_are_two_captures(tmp_path: Path) -> None:
    paths = rotated(tmp_path, COUNTED[:2], later=MOST_NS // 10**9 + 1)
    rows, notes = read(paths)
    assert rows == read(paths, flows="in-file")[0]
    assert len(notes) == 1
    assert notes[0].endswith("between trace_0000.pcap and trace_0001.pcap: they are read as two captures")


@pytest.mark.parametrize("threads", [1, 3])
def test_others_among_them_stay_alone(threads: int, tmp_path: Path) -> None:
    """The rows are those of each capture by itself."""
    first = rotated(tmp_path, ["a.pcap1", "a.pcap2"])
    alone = rotated(tmp_path, ["b.pcap"])
    last = rotated(tmp_path, ["c_8.pcap", "c_9.pcap", "c_10.pcap"])
    rows, notes = read([*first, *alone, *last], threads=threads)
    expected = [row for some in (first, alone, last) for row in read(some, flows="across-files", threads=threads)[0]]
    assert rows == expected
    assert [note.split(":")[0] for note in notes] == ["a.pcap1 ... a.pcap2", "c_8.pcap ... c_10.pcap"]


def test_files_that_are_not_captures(tmp_path: Path) -> None:
    paths = rotated(tmp_path, COUNTED)
    (tmp_path / COUNTED[1]).write_bytes(b"no capture")
    (tmp_path / COUNTED[3]).write_bytes(b"")
    rows, notes = read(paths)
    assert sorted(row["error"] for row in rows if row["status"] == "malformed") == [
        "empty file", "not a packet capture: unknown magic number",
    ]  # fmt: skip
    assert notes == []
