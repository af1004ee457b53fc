"""A mosquitto of one's own on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

HOST = "127.0.0.1"
PATIENCE = 10.0  # seconds until it must answer, or have ended
MOSQUITTO = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def start_broker(folder: Path, more: str = "") -> tuple[subprocess.Popen[bytes], int]:
    """A mosquitto on a free port of loopback; another try if someone takes the port first. `more`: of its configuration."""
    assert MOSQUITTO is not None
    for _ in range(5):
        with socket.create_server((HOST, 0)) as probe:
            port = probe.getsockname()[1]
        config = folder / "mosquitto.conf"
        config.write_text(f"listener {port} {HOST}\nallow_anonymous true\npersistence false\nlog_dest none\n{more}")
        process = subprocess.Popen([MOSQUITTO, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
                return process, port
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
