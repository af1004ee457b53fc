"""A producer's journal: what was being sent when the process was killed is sent by the next one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from lib.loopback import run
from lib.rocketmq_served import served
from wirefmt import rocketmq
from wirefmt.errors import LocalProtocolError, Refused

CHILD = """
import asyncio, sys
from wirefmt import rocketmq

async def main(names, journal):
    async with rocketmq.connect(names, timeout=600.0) as client:
        producer = client.producer("P", journal=journal)
        tasks = [asyncio.create_task(producer.send("t", b"%d" % n, tags="a", flag=n)) for n in range(20)]
        while len(await producer.journal.left()) < 20:
            await asyncio.sleep(0.01)
        print("journaled", flush=True)
        await asyncio.gather(*tasks)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_killed_producer_loses_no_message(tmp_path: Path) -> None:
    """The first broker never answers, and the process is killed (SIGKILL) once its messages are on disk."""
    path = str(tmp_path / "journal.db")

    async def main() -> None:
        async with served() as (broker, _, address):
            broker._codes[310] = lambda peer, event: None
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CHILD, address, path, stdout=subprocess.PIPE
            )
            assert child.stdout is not None
            assert await child.stdout.readline() == b"journaled\n"
            child.kill()
            await child.wait()
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            producer = client.producer("P", journal=path)
            results = await producer.resend()
            assert len({result.message_id for result in results}) == 20
            assert await producer.resend() == []
            frames = [stored.frame for queue in broker.topics["t"] for stored in queue.messages]
            messages = sorted(rocketmq.decode_messages(b"".join(frames)), key=lambda message: message.flag)
            assert [m.body for m in messages] == [b"%d" % n for n in range(20)]
            assert {m.tags for m in messages} == {"a"}
            # a call that ends leaves nothing
            await producer.send("t", b"more")
            with pytest.raises(Refused):
                await producer.send("no good", b"")
            assert producer.journal is not None
            assert await producer.journal.left() == []
            with pytest.raises(LocalProtocolError, match="journal"):
                await client.producer("Q").resend()

    run(main())
