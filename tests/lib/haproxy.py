"""A HAProxy of one's own on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from lib.loopback import HOST
from lib.ports import free_port

HAPROXY = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


@contextlib.contextmanager
def haproxy(folder: Path, targets: Mapping[str, tuple[int, str]]) -> Iterator[dict[str, int]]:
    """The ports of a HAProxy, by name.

    Args:
        targets: port, and options of the line `server`, such as "send-proxy", by name.
    """
    assert HAPROXY is not None
    for attempt in range(5):
        ports = {name: free_port() for name in targets}
        parts = ["global", "  maxconn 100", "defaults", "  mode tcp"]
        parts += [f"  timeout {name} 30s" for name in ("connect", "client", "server", "check")]
        for name, (target, options) in targets.items():
            parts += [f"listen {name}", f"  bind {HOST}:{ports[name]}", f"  server one {HOST}:{target} {options}"]
        config = folder / f"haproxy{attempt}.cfg"
        config.write_text("\n".join([*parts, ""]))
        with subprocess.Popen(
            [HAPROXY, "-db", "-f", str(config)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            try:
                if _is_up(process, ports):
                    yield ports
                    return
            finally:
                process.kill()
    raise RuntimeError("haproxy does not start")


def _is_up(process: subprocess.Popen[bytes], ports: Mapping[str, int]) -> bool:
    end = time.monotonic() + 10.0
    waiting = set(ports.values())
    while waiting and process.poll() is None and time.monotonic() < end:
        for port in list(waiting):
            with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
                waiting.discard(port)
        time.sleep(0.02)
    return not waiting
