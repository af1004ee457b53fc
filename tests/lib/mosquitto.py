"""A mosquitto of one's own on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from lib.ports import HOST, free_port

PATIENCE = 10.0  # seconds until it must answer, or have ended
MOSQUITTO = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def start_broker(folder: Path, more: str = "", *, persistent: bool = False) -> tuple[subprocess.Popen[bytes], int]:
    """A mosquitto on a free port of loopback; another try if someone takes the port first.

    Args:
        more: of its configuration.
        persistent: it keeps its data in the folder, and can be started again.
    """
    for _ in range(5):
        port = free_port()
        config = folder / "mosquitto.conf"
        kept = f"persistence true\npersistence_location {folder}/" if persistent else "persistence false"
        user = "user root\n" if persistent and os.geteuid() == 0 else ""  # it could not write into the folder
        config.write_text(f"listener {port} {HOST}\nallow_anonymous true\n{kept}\nlog_dest none\n{user}{more}")
        with contextlib.suppress(RuntimeError):
            return start_again(folder, port), port
    raise RuntimeError("mosquitto does not start")


def start_again(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """A mosquitto with the configuration in the folder."""
    assert MOSQUITTO is not None
    command = [MOSQUITTO, "-c", str(folder / "mosquitto.conf")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return process
        time.sleep(0.02)
    stop(process)
    raise RuntimeError("mosquitto does not start")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
