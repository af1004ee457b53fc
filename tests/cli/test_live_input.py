"""Commands that read from pipes that stay open, and signals that end them."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from cli.test_decode import COMMAND, COUNTS, V5, json_lines

from lib.kinds import checked
from lib.loopback import wait_for
from lib.wire import Tcp, connect, pcap, publish

pytest.importorskip("rich_click", reason="needs rich-click (pip install 'wirefmt[cli]')")


class Live:
    """A command that reads a capture from a pipe that stays open."""

    def __init__(self, *arguments: object, **options: Any) -> None:
        self.command = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        self.stdin = checked(self.command.stdin, io.BufferedIOBase)
        self.stdout = checked(self.command.stdout, io.BufferedIOBase)
        self.stderr = checked(self.command.stderr, io.BufferedIOBase)

    def write(self, octets: bytes) -> None:
        self.stdin.write(octets)
        self.stdin.flush()

    def unread(self) -> int:
        """Octets of the pipe that the command has not read yet."""
        return int.from_bytes(fcntl.ioctl(self.stdin.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)

    def end(self, number: int | None = None) -> tuple[int, bytes, bytes]:
        """Exit code, standard output and error; the pipe is still open when the command ends."""
        if number is not None:
            self.command.send_signal(number)
        out, err = self.stdout.read(), self.stderr.read()
        code = self.command.wait(60)
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        return code, out, err


@pytest.mark.parametrize("fmt", ["table", "jsonl", "csv"])
def test_rows_of_a_pipe_come_with_their_packets(fmt: str) -> None:
    tcp = Tcp()
    live = Live("decode", "-", "--format", fmt, "--columns", "kind,destination")
    live.write(pcap([*tcp.open(), *tcp.send(0, connect())]))
    shown = b""
    while b"CONNECT" not in shown:
        shown += live.stdout.readline()
    for k in range(3):
        live.write(pcap(tcp.send(0, publish(f"t/{k}", b"")))[24:])
        assert f"t/{k}".encode() in live.stdout.readline()
    code, out, err = live.end(signal.SIGINT)
    assert (code, out) == (130, b"")
    assert err.count(b"\n") == 1


def test_the_limit_stops_a_pipe_that_stays_open() -> None:
    live = Live("decode", "-", "--format", "jsonl", "-n", 5)
    live.write(V5.read_bytes())
    code, out, err = live.end()
    assert (code, out.count(b"\n"), err) == (0, 5, b"")


@pytest.mark.parametrize("name", ["m.jsonl", "m.csv", "m.arrow", "m.parquet", "m.jsonl.gz"])
def test_ctrl_c_leaves_a_valid_file_of_what_there_is(name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    live = Live("decode", "-", "-o", out)
    # half a packet record, as where a pipe is interrupted
    live.write(V5.read_bytes() + V5.read_bytes()[24:60])
    wait_for(lambda: list(tmp_path.iterdir()))
    code, _, err = live.end(signal.SIGINT)
    assert code == 130
    assert b"Traceback" not in err
    assert list(tmp_path.iterdir()) == [out]
    if name.endswith(".parquet"):
        rows = pa.parquet.read_table(out).num_rows
    elif name.endswith(".arrow"):
        rows = pa.ipc.open_file(out).read_all().num_rows
    elif name.endswith(".csv"):
        rows = len(list(csv.reader(open(out, newline="")))) - 1  # noqa: SIM115
    else:
        data = out.read_bytes()
        rows = len(json_lines(gzip.decompress(data) if name.endswith(".gz") else data))
    # all but what was not read when the signal came
    assert rows <= COUNTS[V5.name]


def test_ctrl_c_ends_a_summary_with_what_was_counted() -> None:
    tcp = Tcp()
    out = b""
    for wait in (0.2, 1, 5, 20):  # before it has begun to count, there is nothing to tell
        live = Live("summary", "-", "--json")
        live.write(pcap([*tcp.open(), *tcp.send(0, connect())]))
        wait_for(lambda live=live: live.unread() == 0)
        time.sleep(wait)
        code, out, _ = live.end(signal.SIGINT)
        assert code == 130
        if out:
            break
    assert json.loads(out)["messages"] == 1


def test_a_second_ctrl_c_breaks_off(tmp_path: Path) -> None:
    """The exit code is the same whenever they come; what is there and what is said belong together."""
    os.mkfifo(tmp_path / "endless")  # opening waits for a writer
    for wait in (
        0.3,
        2,
        10,
        30,
    ):  # a busy machine comes late to the second capture: then the first one ends it in good order
        command = subprocess.Popen(
            [*COMMAND, "decode", str(V5), str(tmp_path / "endless"), "-o", str(tmp_path / "m.csv")],
            stderr=subprocess.PIPE,
        )
        wait_for(lambda: (tmp_path / "m.csv.part").exists())
        time.sleep(wait)
        command.send_signal(signal.SIGINT)
        time.sleep(0.5)
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 130
        assert command.stderr is not None
        told = command.stderr.read()
        assert b"Traceback" not in told
        names = sorted(p.name for p in tmp_path.iterdir())
        if names == ["endless"]:
            assert told.strip() == b"wirefmt: stopped"
            if wait >= 2:
                return
        else:
            assert told.startswith(b"wirefmt: stopped; the output has the messages read so far")
            assert names == ["endless", "m.csv"]
            assert (tmp_path / "m.csv").read_bytes().endswith(b"\n")
            (tmp_path / "m.csv").unlink()
    raise AssertionError("no second one has met a command that waits")


def test_sigterm_leaves_no_file(tmp_path: Path) -> None:
    live = Live("decode", "-", "-o", tmp_path / "m.jsonl")
    live.write(V5.read_bytes())
    wait_for(lambda: list(tmp_path.iterdir()))
    code, _, err = live.end(signal.SIGTERM)
    assert (code, err) == (143, b"")
    assert list(tmp_path.iterdir()) == []
