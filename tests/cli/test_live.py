"""`wirefmt watch`: rows of a pipe and of an interface as they come, the live table, the end, and machines that cannot capture."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, PATIENCE, run, wait_for
from lib.paths import DATA
from lib.skips import imported
from lib.wire import Tcp, connack, connect, frames_of, pcap, publish
from wirefmt import mqtt
from wirefmt.broker import Broker

for _module in ("pyarrow", "rich_click"):
    imported(_module)

COMMAND = [sys.executable, "-m", "wirefmt.cli", "watch"]


@contextmanager
def watching(
    *arguments: str, path: str | None = None, stdin: Any = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | ({"PATH": path} if path is not None else {})
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=stdin, stdout=pipe, stderr=pipe, env=environment, bufsize=0
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[bytes]) -> str:
    """The next line of standard output."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE)[0], "no line came"
    return process.stdout.readline().decode().rstrip()


def records() -> list[bytes]:
    """The header of a capture, then records of packets, each with a message."""
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, connect("meter-7")), *tcp.send(1, connack())]
    frames += [frame for i in range(4) for frame in tcp.send(0, publish(f"plant/{i}", b"21.5"))]
    whole, found, at = pcap(frames), [], 24
    while at < len(whole):
        size = 16 + int.from_bytes(whole[at + 8 : at + 12], "little")
        found.append(whole[at : at + size])
        at += size
    return [whole[:24] + b"".join(found[:3]), *found[3:]]


def written(process: subprocess.Popen[bytes], octets: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(octets)
    process.stdin.flush()


def interrupted(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The exit code and the last line of standard error, after Ctrl-C."""
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said.decode().rstrip().splitlines()[-1]


# ---- a pipe


def test_each_row_is_there_before_the_next_packet(tmp_path: Path) -> None:
    copy = tmp_path / "copy.pcap"
    parts = records()
    with watching("-", "--write", str(copy)) as process:
        written(process, parts[0])
        written(process, parts[1])
        assert "UTC" in line(process)
        assert "detail" in line(process)
        assert re.search(r"-> CONNECT +", line(process))
        for part, kind in zip(parts[2:], ["CONNACK", "plant/0", "plant/1", "plant/2", "plant/3"], strict=True):
            written(process, part)
            assert kind in line(process)
            assert copy.stat().st_size > 0
        code, last = interrupted(process)
    assert code == 0
    size = sum(map(len, parts))
    assert re.fullmatch(
        rf"wirefmt: 6 messages, 9 packets, 1 connections in [\d.]+ s; .*copy.pcap has {size:,} bytes", last
    )
    assert copy.read_bytes() == b"".join(parts)


def test_the_end_of_the_pipe_is_the_end() -> None:
    with watching("-", "--filter", "kind == 'PUBLISH'", "--format", "jsonl") as process:
        out, said = process.communicate(b"".join(records()), timeout=PATIENCE)
    assert process.returncode == 0
    assert out.decode().count('"kind":"PUBLISH"') == len(out.splitlines()) == 4
    assert said.decode().startswith("wirefmt: 4 messages, 9 packets")


def test_a_limit_ends_it() -> None:
    with watching("-", "-n", "2") as process:
        for part in records():
            written(process, part)
        assert process.wait(PATIENCE) == 0


def test_what_is_no_capture() -> None:
    with watching("-") as process:
        _, said = process.communicate(b"ssh: no route to host\n" * 10, timeout=PATIENCE)
    assert process.returncode == 1
    assert b"Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "an interface"),
        (("-", "-i", "lo"), "an interface"),
        (("trace.pcap",), "wirefmt decode trace.pcap"),
        (("-", "-f", "port 1883"), "-f is for -i"),
        (("-", "--live"), "needs a terminal"),
        (("-", "--live", "-n", "1"), "for lines"),
        (("-", "--filter", "kid == 1"), "kid"),
        (("-", "--decode-as", "x"), "x"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], text: str) -> None:
    with watching(*arguments) as process:
        out, said = process.communicate(b"", timeout=PATIENCE)
    assert process.returncode == 2
    assert text in said.decode()
    assert out == b""


# ---- programs that capture


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!{shutil.which('sh')}\n{text}\n")
    file.chmod(0o755)


def test_without_a_program(tmp_path: Path) -> None:
    with watching("-i", "lo", path=str(tmp_path)) as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "apt install tcpdump or apt install wireshark-common" in said.decode()


def test_without_the_right(tmp_path: Path) -> None:
    program(tmp_path, "tcpdump", 'echo "tcpdump: lo: You don\'t have permission to capture on that device" >&2; exit 1')
    with watching("-i", "lo", path=str(tmp_path)) as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "tcpdump cannot capture on lo: tcpdump: lo: You don't have permission" in said.decode()
    assert f"sudo setcap cap_net_raw,cap_net_admin=eip {tmp_path}/tcpdump" in said.decode()


def test_the_next_program_is_tried_and_ended_by_ctrl_c(tmp_path: Path) -> None:
    """dumpcap may have the right that tcpdump has not."""
    parts = records()
    (tmp_path / "capture.pcap").write_bytes(b"".join(parts))
    program(tmp_path, "tcpdump", "echo 'tcpdump: Operation not permitted' >&2; exit 1")
    sleep, cat = shutil.which("sleep"), shutil.which("cat")
    program(
        tmp_path, "dumpcap",
        f'[ "$1" = --help ] && exit 0\necho $$ > {tmp_path}/pid\n{cat} {tmp_path}/capture.pcap\nexec {sleep} 1000',
    )  # fmt: skip
    with watching("-i", "eth9", path=str(tmp_path)) as process:
        lines = [line(process) for _ in range(8)]
        assert "plant/3" in lines[-1]
        number = int((tmp_path / "pid").read_text())
        os.kill(number, 0)
        code, last = interrupted(process)
    assert code == 0
    assert last.startswith("wirefmt: 6 messages, 9 packets, 1 connections")
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_a_program_that_fails_later(tmp_path: Path) -> None:
    (tmp_path / "capture.pcap").write_bytes(b"".join(records()))
    cat = shutil.which("cat")
    program(
        tmp_path, "tcpdump", f"{cat} {tmp_path}/capture.pcap; echo 'tcpdump: The interface disappeared' >&2; exit 1"
    )
    with watching("-i", "eth9", path=str(tmp_path)) as process:
        out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert b"plant/3" in out
    assert "The interface disappeared" in said.decode()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root (to capture on lo)")
@pytest.mark.parametrize("name", ["tcpdump", "dumpcap"])
def test_an_interface(name: str, tmp_path: Path) -> None:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} (apt install {'tcpdump' if name == 'tcpdump' else 'wireshark-common'})")
    (tmp_path / name).symlink_to(found)

    async def test() -> None:
        async with Broker(ports={"mqtt": 0}) as broker:
            port = broker.ports["mqtt"]
            copy = tmp_path / "copy.pcapng"
            with watching("-i", "lo", "-f", f"port {port}", "--write", str(copy), path=str(tmp_path)) as process:
                end = time.monotonic() + PATIENCE
                while not (copy.exists() and copy.stat().st_size):  # the header: packets are captured from now on
                    assert process.poll() is None, process.stderr.read()  # type: ignore[union-attr]
                    assert time.monotonic() < end
                    time.sleep(0.02)
                time.sleep(0.3)
                async with mqtt.connect(f"mqtt://{HOST}:{port}", client_identifier="meter-7") as client:
                    await client.publish("plant/line-1", b"21.5", qos=1)
                while "plant/line-1" not in line(process):
                    pass
                code, last = interrupted(process)
            assert code == 0
            assert "1 connections" in last

    run(test())


# ---- the live table


@pytest.mark.parametrize("width", [80, 140])
def test_the_live_table_on_a_terminal(width: int) -> None:
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = os.environ | {"TERM": "xterm", "COLUMNS": str(width)}
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, "-", "--live"], stdin=pipe, stdout=side, stderr=pipe, env=environment) as process:
        os.close(side)
        for part in records():
            written(process, part)
        said = b""
        end = time.monotonic() + PATIENCE
        while b"plant/3" not in said and time.monotonic() < end:
            if select.select([main], [], [], 0.1)[0]:
                said += os.read(main, 1 << 16)
        code, last = interrupted(process)
    os.close(main)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode())
    assert "6 messages" in text
    assert re.search(r"meter-7 +mqtt +10\.0\.0\.1:1883 +6", text)
    assert re.search(r"plant/3 +mqtt +1", text)
    assert max(len(each.rstrip()) for each in re.split(r"[\r\n]+", text)) <= width
    assert code == 0
    assert last.startswith("wirefmt: 6 messages")


def test_a_key_log_that_grows(tmp_path: Path) -> None:
    """A client writes its secrets when the handshake is complete; `watch` was started before."""
    pytest.importorskip("cryptography", reason="needs cryptography (pip install 'wirefmt[tls]')")
    octets = gzip.decompress((DATA / "tls/mqtt5-tls13-aes128gcm.pcap.gz").read_bytes())
    packets = [head + frame for head, frame in frames_of(octets)]
    keys = tmp_path / "keys.log"
    keys.write_bytes(b"# no secret yet\n")
    with watching("-", "--keylog", str(keys), "--format", "jsonl") as process:
        written(process, octets[:24] + b"".join(packets[:4]))  # with the client's hello
        assert process.stdin is not None
        pipe = process.stdin.fileno()
        wait_for(lambda: fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)) == bytes(4))  # they are read
        with keys.open("ab") as file:
            file.write((DATA / "tls/keys/mqtt5-tls13-aes128gcm.log").read_bytes())
        written(process, b"".join(packets[4:]))
        assert json.loads(line(process))["kind"] == "CONNECT"
        assert interrupted(process)[0] == 0
