"""Celery and FastStream with the broker: workers that are killed, delayed tasks, retries, direct reply-to.

These are programs of ours in the manner of the documentation of both: Celery's own tests need Docker, and no package has those of
FastStream.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from celery import Celery, Task
from faststream.rabbit import RabbitBroker

URL = "amqp://guest:guest@127.0.0.1:5672//"
DONE = Path(os.environ["WORK"], "done")
PATIENCE = 40


def note(text: str) -> None:
    with DONE.open("a") as file:
        file.write(f"{text}\n")


def made(kind: str) -> Celery:
    """An application with its tasks, for one kind of queue."""
    app = Celery(kind, broker=URL, backend="rpc://", set_as_current=False)
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        task_default_queue=f"tasks-{kind}",
        task_default_queue_type=kind,
        worker_detect_quorum_queues=kind == "quorum",
    )

    @app.task(name="add", shared=False)
    def add(one: int, other: int) -> int:
        note(f"{kind} add {one}")
        return one + other

    @app.task(name="slow", shared=False)
    def slow(number: int) -> None:
        time.sleep(0.03)
        note(f"{kind} slow {number}")

    @app.task(name="twice", shared=False, bind=True, max_retries=3)
    def twice(self: Task, number: int) -> int:
        if self.request.retries < 2:
            raise self.retry(countdown=1)
        return number

    return app


classic, quorum = made("classic"), made("quorum")
KINDS = {"classic": classic, "quorum": quorum}


def worker(kind: str, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "celery", "-A", f"celery_tests:{kind}", "worker", "-c", "2", "-n", f"{name}@localhost",
               "--without-gossip", "--without-mingle", "-l", "warning"]  # fmt: skip
    return subprocess.Popen(command, start_new_session=True, cwd=Path(__file__).parent)


def end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    os.killpg(process.pid, how)
    process.wait(PATIENCE)


@pytest.mark.parametrize("kind", KINDS)
def test_celery(kind: str) -> None:
    """Results, delays and retries; then the worker is killed. No task is lost: those in hand, that wait and that are delayed."""
    tasks = KINDS[kind].tasks
    process = worker(kind, "one")
    try:
        assert tasks["add"].delay(2, 3).get(timeout=PATIENCE) == 5
        began = time.monotonic()
        assert tasks["add"].apply_async((4, 5), countdown=2).get(timeout=PATIENCE) == 9
        assert time.monotonic() - began > 1.9
        assert tasks["twice"].delay(7).get(timeout=PATIENCE) == 7
        for number in range(100, 200):
            tasks["slow"].delay(number)
            if number % 10 == 0:
                tasks["add"].apply_async((number, 0), countdown=5)
        wanted = {f"{kind} slow {number}" for number in range(100, 200)}
        wanted |= {f"{kind} add {number}" for number in range(100, 200, 10)}
        wait_for(lambda: DONE.read_text().count(f"{kind} slow") >= 20)
        end(process, signal.SIGKILL)
        assert not wanted <= set(DONE.read_text().split("\n"))
        process = worker(kind, "other")
        wait_for(lambda: wanted <= set(DONE.read_text().split("\n")))
    finally:
        end(process, signal.SIGKILL)


def wait_for(done: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_faststream_asks_and_answers() -> None:
    async def test() -> None:
        broker = RabbitBroker(URL)

        @broker.subscriber("questions")
        async def answer(text: str) -> str:
            return text.upper()

        @broker.subscriber("first")
        @broker.publisher("second")
        async def forward(text: str) -> str:
            return text + "!"

        arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        @broker.subscriber("second")
        async def receive(text: str) -> None:
            arrived.set_result(text)

        async with broker:
            await broker.start()
            answers = await asyncio.gather(*(broker.request(f"a{n}", "questions", timeout=PATIENCE) for n in range(20)))
            assert [await answer.decode() for answer in answers] == [f"A{n}" for n in range(20)]
            await broker.publish("one", "first")
            assert await asyncio.wait_for(arrived, PATIENCE) == "one!"

    asyncio.run(test())
