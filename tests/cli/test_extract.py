"""wirefmt decode --extract: payloads to files, whose names a sender cannot choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.wire import Tcp, connect, pcap, publish

pytest.importorskip("rich_click", reason="needs rich-click (pip install rich-click)")
pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

from wirefmt.cli.app import run as run_command

TOPICS = ["plant/line-1", "../../etc/passwd", "/dev/null", "CON", "ä\u202e.exe", "x" * 500, ".hidden", "a b;c"]


def run(*arguments: str) -> int:
    return run_command(["decode", *arguments])


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, connect())]
    for number, topic in enumerate(TOPICS):
        frames += tcp.send(0, publish(topic, b"payload %d" % number))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*frames, *tcp.close()]))
    return path


@pytest.mark.parametrize("columns", [(), ("--columns", "ts,kind"), ("--format", "jsonl")])
def test_each_payload_is_a_file(capture: Path, columns: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert run(str(capture), "--extract", str(folder), *columns) == 0
    files = sorted(folder.iterdir())
    assert [file.read_bytes() for file in files] == [b"payload %d" % number for number in range(len(TOPICS))]
    assert files[0].name == "000001-plant_line-1.bin"
    assert files[1].name == "000002-.._.._etc_passwd.bin"
    assert all(file.name.isascii() and len(file.name) < 100 and file.name[0] == "0" for file in files)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pcap", "out"]


def test_filter_and_limit_apply(capture: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert run(str(capture), "--extract", str(folder), "--filter", "destination == 'CON'") == 0
    assert [file.name for file in folder.iterdir()] == ["000001-CON.bin"]


def test_what_is_refused(capture: Path, tmp_path: Path) -> None:
    assert run(str(capture), "--extract", str(tmp_path)) == 2  # not empty
    assert run(str(capture), "--extract", str(tmp_path / "out"), "--no-payload") == 2
    assert run(str(capture), "--extract", str(capture)) == 2
