"""A program with a journal that is killed at random moments and started again."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

#: How often a program is killed; 100 and more on demand.
KILLS = int(os.environ.get("KILLS", "4"))
SEED = int(os.environ.get("KILL_SEED", "0")) or random.SystemRandom().getrandbits(32)

#: Seconds that all runs together may take.
PATIENCE = 60 + 20 * KILLS


@dataclass
class Killed:
    """What is known after the last run.

    Attributes:
        promised: the messages that a program has called confirmed, or has left in its journal.
        left: how many were left in journals.
        last: the number of the last message of the last run.
    """

    promised: set[bytes]
    left: int
    last: int


async def kill_and_restart(program: str, url: str, database: Path, taken: Callable[[], set[bytes]]) -> Killed:
    """Run a program KILLS times until it is killed, and once until it ends by itself.

    Args:
        program: its file. Its arguments are `url`, `database`, the first number to send and the one after the last; it prints
            "up", and then each number that is confirmed.
        taken: the bodies in the journal now.
    """
    print(f"KILL_SEED={SEED}")
    random_ = random.Random(SEED)
    promised: set[bytes] = set()
    left = first = last = 0
    for kill in range(KILLS + 1):
        last = first + (100_000 if kill < KILLS else 50)
        process = await asyncio.create_subprocess_exec(
            sys.executable, program, url, str(database), str(first), str(last), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"up\n"
        said = process.stdout.read()
        if kill < KILLS:
            await asyncio.sleep(random_.random() ** 2 * 0.3)
            process.kill()
        promised.update((await said).split(b"\n")[:-1])
        await process.wait()
        kept = taken()
        if kill < KILLS:
            promised |= kept
            left += len(kept)
            first = last
        else:
            assert process.returncode == 0
            assert not kept
    assert len(promised) >= 50
    return Killed(promised, left, last - 1)
