"""Brokers that run as processes of their own, and the processor time that they take."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wirefmt import mqtt

#: Makes the command line of a broker from its port and an empty folder for its files.
Command = Callable[[int, Path], list[str]]

MOSQUITTO = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin")


#: Event loops on which ours is measured, by the name of the contestant; the first one is asyncio's own.
LOOPS = {"wirefmt": "asyncio"}
if importlib.util.find_spec("uvloop") is not None:
    LOOPS["wirefmt, uvloop"] = "uvloop"
else:
    print("uvloop is not here: pip install uvloop")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def family(pid: int) -> list[int]:
    """A process and those it has started."""
    found = [pid]
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += family(int(child))
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and those it has started, with the scheduler's resolution of nanoseconds."""
    total = 0
    for each in family(pid):
        for thread in Path(f"/proc/{each}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


@contextmanager
def running(command: Command) -> Iterator[tuple[int, int]]:
    """A broker's port and process. Raises SystemExit if it does not accept a connection within a minute."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        process = subprocess.Popen(command(port, Path(folder)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise SystemExit(f"{command} does not start") from None
                    time.sleep(0.1)
            yield port, process.pid
        finally:
            process.kill()
            process.wait()


def mosquitto(port: int, folder: Path) -> list[str]:
    """mosquitto, without a limit on queued messages. MOSQUITTO is None if it is not installed."""
    config = folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nset_tcp_nodelay true\n")
    return [MOSQUITTO or "mosquitto", "-c", str(config)]


def connect_mqtt(port: int, identifier: str, version: int = 4) -> socket.socket:
    """A connection of MQTT that the broker has accepted, without keep-alive."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(mqtt.Connect(client_identifier=identifier, version=version).encode())
    assert connection.recv(100)[:1] == b"\x20"
    return connection
