"""An event loop with a virtual clock: when nothing is ready, its time jumps to the next timer. Sockets are those of a network
in memory (`virtual_network`), and what goes to a thread is run by the loop itself, at a moment of virtual time."""

from __future__ import annotations

import asyncio
import heapq
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any, Final, TypeVar
from unittest.mock import patch

from .virtual_network import Network

_T = TypeVar("_T")

#: Callbacks without any time passing, after which the loop goes round for ever.
BUSY: Final = 50_000
#: Callbacks of a whole run. A usual one has some thousands.
MOST: Final = 500_000


#: Seconds since 1970 when a loop begins.
EPOCH: Final = 1_700_000_000.0


class Stuck(AssertionError):
    """Nothing can ever happen again, or something happens for ever while no time passes."""


class _Task(asyncio.Task[Any]):
    """Its place in a set does not depend on where it lies in memory."""

    def __init__(self, number: int, coro: Any, **more: Any) -> None:
        self._number = number
        super().__init__(coro, **more)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks as asyncio does, in the same order; only waiting takes no time.

    Attributes:
        now: seconds since the loop was made.
        steps: callbacks that have been run.
        network: what sockets are connected to.
        complaints: what the exception handler was called with.
    """

    # asyncio's own
    _ready: deque[Any]
    _scheduled: list[Any]
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.now = 0.0
        self.steps = 0
        self.random = random
        self.network = Network(self, random)
        self.complaints: list[dict[str, Any]] = []
        self.watch: Callable[[], None] | None = None  # called once a round
        self._idle_since = 0
        self._numbers = count()
        self._threads: dict[Any, float] = {}  # when the last job of an executor ends
        self.set_exception_handler(lambda loop, context: self.complaints.append(context))

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> asyncio.Task[Any]:
        return _Task(next(self._numbers), coro, loop=self, name=name, context=context)

    # ---- time

    def time(self) -> float:
        return self.now

    @contextmanager
    def wall_clock(self) -> Iterator[None]:
        """`time.time()` goes with the loop's time."""
        with patch("time.time", lambda: EPOCH + self.now), patch("time.time_ns", lambda: int((EPOCH + self.now) * 1e9)):
            yield

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False
        if not ready and not self._stopping:
            if not scheduled:
                raise Stuck("nothing is ready, and no timer runs")
            if scheduled[0]._when > self.now:
                self.now = scheduled[0]._when
                self._idle_since = self.steps
        while scheduled and scheduled[0]._when <= self.now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                self.steps += 1
                handle._run()
        if self.watch is not None:
            self.watch()
        if self.steps - self._idle_since > BUSY:
            raise Stuck(f"{BUSY} callbacks at second {self.now:.3f}")
        if self.steps > MOST:
            raise Stuck(f"{MOST} callbacks, and it is second {self.now:.3f} only")

    def timers(self) -> list[asyncio.TimerHandle]:
        """Those that are to run."""
        return [handle for handle in self._scheduled if not handle._cancelled]

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        super()._timer_handle_cancelled(handle)  # type: ignore[misc]
        if self._timer_cancelled_count > 1000 and self._timer_cancelled_count * 2 > len(self._scheduled):
            self._scheduled = [kept for kept in self._scheduled if not kept._cancelled]
            heapq.heapify(self._scheduled)
            self._timer_cancelled_count = 0

    def _write_to_self(self) -> None:
        pass

    # ---- threads

    def run_in_executor(self, executor: Any, function: Callable[..., _T], *args: Any) -> asyncio.Future[_T]:  # type: ignore[override]
        """Call the function some moments later, after the jobs before it."""
        future: asyncio.Future[_T] = self.create_future()

        def work() -> None:
            try:
                result = function(*args)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        when = max(self._threads.get(executor, 0.0), self.now) + self.random.choice((0.0, 0.001, 0.02))
        self._threads[executor] = when
        self.call_at(when, work)
        return future

    # ---- the network

    async def getaddrinfo(self, host: Any, port: Any, **more: Any) -> Any:
        await asyncio.sleep(0.001)
        return socket.getaddrinfo("127.0.0.1", port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        await self.network.dial(sock, address[1])

    async def create_connection(  # type: ignore[override]
        self,
        factory: Callable[[], Any],
        host: Any = None,
        port: int = 0,
        *,
        sock: socket.socket | None = None,
        **more: Any,
    ) -> Any:
        if sock is None:
            sock = socket.socket()
            try:
                await self.network.dial(sock, port)
            except BaseException:
                sock.close()
                raise
        return await self.network.connect(factory, sock)

    async def create_server(self, factory: Callable[[], Any], host: Any, port: int, **more: Any) -> Any:  # type: ignore[override]
        return self.network.listen(factory, port)


def run_virtually(loop: VirtualLoop, main: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in a virtual loop, as `asyncio.run` does in a real one. Tasks that are left are cancelled."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            try:
                loop.run_until_complete(asyncio.wait(left, timeout=60))
            except Stuck:
                pass
        loop.network.close()
        asyncio.set_event_loop(None)
        loop.close()
