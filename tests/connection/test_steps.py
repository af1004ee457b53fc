"""What a host has left to do for an event is taken in steps, as the driver has work left: `Driver.later`, beside a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lib.loopback import HOST, run
from wirefmt import nsq
from wirefmt.connection import Disconnected
from wirefmt.connection.aio.driver import WORK

PUB = nsq.Publish(topic="t", body=b"x").encode()


class Slow:
    """Each PUB takes STEPS steps, each of which is the work of half an iteration. `at`: what is called in a step."""

    STEPS = 10

    def __init__(self, **at: Callable[[Any], Any]) -> None:
        self.done: list[Any] = []
        self.ticks: list[int] = []  # iterations of the loop in which the steps were taken
        self.tick = 0
        self.at = at

    def handle(self, peer: Any, event: Any) -> None:
        if isinstance(event, nsq.Publish):
            asyncio.get_running_loop().call_soon(self.go_on)
            peer.driver.later(self.steps(peer, event))
        elif isinstance(event, Disconnected):
            self.done.append("end")

    def go_on(self) -> None:
        self.tick += 1
        if "closed" not in self.done:
            asyncio.get_running_loop().call_soon(self.go_on)

    def steps(self, peer: Any, event: nsq.Publish) -> Iterator[int]:
        for number in range(self.STEPS):
            self.done.append(number)
            self.ticks.append(self.tick)
            if number == 3:
                for call in self.at.values():
                    call(peer)
            yield WORK // 2
        peer.acknowledge(event)

    def writable(self, peer: Any) -> None: ...

    def closed(self, peer: Any) -> None:
        self.done.append("closed")


async def ended(host: Slow, count: int = 1) -> bytes:
    """Serve one client, which sends so many PUBs at once, until its connection has ended. Returns what it got."""
    async with await nsq.serve(host, HOST, 0) as server:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(b"  V2" + PUB * count)
        said = b""
        while "closed" not in host.done:
            try:
                said += await reader.read(100)
            except ConnectionError:
                pass
            if len(said) == 10 * count:
                writer.close()
            await asyncio.sleep(0)
        writer.close()
        return said


def test_steps_are_taken_in_turns_and_the_next_event_comes_after_them() -> None:
    async def test() -> None:
        host = Slow()
        assert await ended(host, 2) == b"\0\0\0\x06\0\0\0\0OK" * 2
        assert host.done == [*range(host.STEPS), *range(host.STEPS), "end", "closed"]
        assert max(host.ticks.count(tick) for tick in host.ticks) <= 4

    run(test())


@pytest.mark.parametrize("how", ["transport", "abort"])
def test_steps_that_have_begun_are_finished_although_the_connection_ends(how: str) -> None:
    def end(peer: Any) -> None:
        peer.abort() if how == "abort" else peer.driver.transport.abort()

    async def test() -> None:
        host = Slow(end=end)
        assert await ended(host) == b""
        assert host.done == [*range(host.STEPS), "end", "closed"]

    run(test())


def test_a_server_that_closes_takes_no_more_steps() -> None:
    async def test() -> None:
        tasks: list[asyncio.Task[None]] = []
        host = Slow(close=lambda peer: tasks.append(asyncio.ensure_future(peer.server.close())))
        await ended(host)
        await asyncio.gather(*tasks)
        assert host.done[:4] == [0, 1, 2, 3]
        assert len(host.done) <= 4 + 2 + 2  # no more than an iteration, and the end
        assert host.done[-2:] == ["end", "closed"]

    run(test())


def test_a_step_that_raises_drops_the_connection() -> None:
    def fail(peer: Any) -> None:
        raise RuntimeError("a step")

    async def test() -> None:
        host = Slow(fail=fail)
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        assert await ended(host) == b""
        assert host.done == [0, 1, 2, 3, "end", "closed"]
        assert [str(context["exception"]) for context in reported] == ["a step"]

    run(test())
