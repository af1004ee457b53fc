"""The PHP server and our client, the PHP client and our server, on loopback. Both speak the early profile."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live.test_nsqd import stop

from lib.loopback import HOST, run, until
from lib.ports import free_port
from wirefmt import phpmq
from wirefmt.broker.phpmq import Broker

pytestmark = pytest.mark.live

PATIENCE = 30.0  # seconds for something that must come
PHP = shutil.which("php")
PROGRAMS = os.environ.get("WIREFMT_PHPMQ_PROGRAMS")
CLIENT = str(Path(__file__).parent / "phpmq" / "client.php")
needs_php = pytest.mark.skipif(
    PHP is None or PROGRAMS is None,
    reason="needs php-mq/server and php-mq/client (apt install php-cli php-xml php-sqlite3 php-mbstring; "
    "WIREFMT_PHPMQ_PROGRAMS, see tests/README.md)",
)

CONTENTS = [b"one", b"H0100102P01\n", bytes(range(256)), b"", "ä".encode(), bytes(100_000)]

CONFIG = """<?xml version="1.0" encoding="UTF-8"?>
<PHPMQ>
    <servers>
        <messagequeue><network>
            <config name="host" value="127.0.0.1"/><config name="port" value="{}"/>
        </network></messagequeue>
        <maintenance><network>
            <config name="host" value="127.0.0.1"/><config name="port" value="{}"/>
        </network></maintenance>
    </servers>
    <storage><sqlite><config name="path" value=":memory:"/></sqlite></storage>
    <logging><output loglevel="error"/></logging>
</PHPMQ>
"""


@contextmanager
def php_server(folder: Path) -> Iterator[int]:
    """The PHP server, its messages in memory; its port."""
    assert PHP is not None
    assert PROGRAMS is not None
    for _ in range(5):
        port = free_port()
        config = folder / f"{port}.xml"
        config.write_text(CONFIG.format(port, free_port()))
        process = subprocess.Popen(
            [PHP, f"{PROGRAMS}/server/bin/main.php", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            if listens(process, port):
                yield port
                assert process.poll() is None  # it ends at the first message that it does not understand
                return
        finally:
            stop(process)
    raise RuntimeError("the PHP server does not start")


def listens(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until a process listens, as the system says it: a connection would be one more client. False: it has ended."""
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        if any(
            line.split()[1:4:2] == [f"0100007F:{port:04X}", "0A"]
            for line in Path("/proc/net/tcp").read_text().splitlines()
        ):
            return True
        time.sleep(0.05)
    return False


@needs_php
def test_our_client_and_the_php_server(tmp_path: Path) -> None:
    """What is published comes in order, as many at a time as asked for; what is not acknowledged comes again."""

    async def main(port: int) -> None:
        url = f"phpmq://{HOST}:{port}"
        async with phpmq.connect(url) as one:
            for content in CONTENTS:
                await one.publish("q", content)
            await one.consume("q", 2)
            first = await one.get()
            assert first is not None
            assert first.content_bytes() == CONTENTS[0]
            assert await one.get() is not None  # both are still in flight when the connection ends
        async with phpmq.connect(url) as two:
            await two.consume("q", 4)
            seen = []
            async for message in two.messages():
                seen.append(message.content_bytes())
                assert two._link is not None
                assert two._link.connection.undecided <= 4
                if len(seen) == len(CONTENTS):
                    two.acknowledge(message)
                    break
            assert seen == CONTENTS
            await two.publish("q", b"last")
            last = await two.get()
            assert last is not None
            assert last.content_bytes() == b"last"

    with php_server(tmp_path) as port:
        run(main(port))


@needs_php
def test_the_php_client_and_our_server() -> None:
    async def php(port: int, *words: str, lines: str = "") -> bytes:
        assert PHP is not None
        process = await asyncio.create_subprocess_exec(
            PHP, CLIENT, f"{PROGRAMS}/client", str(port), *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        out, _ = await process.communicate(lines.encode())
        assert process.returncode == 0, out
        return out

    async def main() -> None:
        broker = Broker()
        async with await phpmq.serve(broker, HOST, 0) as server:
            await php(server.port, "send", "q", lines="".join(content.hex() + "\n" for content in CONTENTS))
            await until(lambda: len(broker.queue("q").messages) == len(CONTENTS))
            # the first one is acknowledged and published again, so it comes last
            out = await php(server.port, "consume", "q", "2", str(len(CONTENTS)))
            assert [bytes.fromhex(line) for line in out.decode().splitlines()] == [*CONTENTS[1:], CONTENTS[0]]
            await until(lambda: broker.counts["acknowledged"] == len(CONTENTS) + 1)
            assert not broker.queue("q").messages

    run(main())
