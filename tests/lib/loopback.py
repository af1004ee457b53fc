"""asyncio on loopback: run a test with a limit, and see that it leaves nothing behind; certificates."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import ssl
import subprocess
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

#: The module with the event loop that the tests run on; None: asyncio's own.
LOOP = os.environ.get("WIREFMT_LOOP") or None
HOST = "127.0.0.1"
PATIENCE = 60.0  # seconds to wait for something that must come, on a busy machine
OPENSSL = shutil.which("openssl")


def descriptors() -> set[str]:
    """The open descriptors of this process. Empty without /proc."""
    found = set()
    if os.path.isdir("/proc/self/fd"):
        for name in os.listdir("/proc/self/fd"):
            try:
                found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
            except OSError:
                continue  # the one that listed them
    return found


def run(coroutine: Coroutine[Any, Any, None], patience: float = PATIENCE) -> None:
    """Run to the end. No task and no descriptor is left over, and nothing was reported to the event loop."""
    reported: list[dict[str, Any]] = []

    async def timed() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        try:
            async with asyncio.timeout(patience):
                await coroutine
        except BaseException:
            # of what a failed test has left open uvloop warns while it closes; as an error that would end in a loop without end
            warnings.simplefilter("ignore", ResourceWarning)
            raise
        assert asyncio.all_tasks() == {asyncio.current_task()}

    gc.collect()
    before = descriptors()
    asyncio.run(timed())
    gc.collect()
    end = time.monotonic() + 10.0  # other threads of the test, an HTTP server say, close their connections soon
    while not descriptors() <= before and time.monotonic() < end:
        time.sleep(0.01)
    assert descriptors() <= before
    assert reported == [], reported


async def until(condition: Callable[[], Any] | Callable[[], Awaitable[Any]]) -> None:
    """Wait until the condition is true."""
    while not condition():
        await asyncio.sleep(0.005)


def wait_for(condition: Callable[..., Any]) -> None:
    """Wait until the condition is true, without an event loop."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.005)


def certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server and of a client that trusts it, for `localhost` and 127.0.0.1."""
    assert OPENSSL is not None
    key, chain = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", str(key), "-out", str(chain), "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    return server, ssl.create_default_context(cafile=str(chain))
