"""A broker in a thread of its own, for tests and synchronous programs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from wirefmt.broker.embedded import Broker, Options
from wirefmt.broker.faults import Active, Fault
from wirefmt.broker.views import Client, Message, SyncSeen, ThreadSeen


class _InThread:
    """A broker in its own thread. All methods can be called from any thread.

    Attributes:
        broker: the broker; use it only in its own thread (`run`).
    """

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self.broker = broker
        self._loop = loop
        self._stop = asyncio.Event()

    def _submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the broker's thread, and return its result."""
        return self._submit(coroutine).result()

    @contextmanager
    def fault(self, protocol: str = "*", **values: Any) -> Iterator[Active]:
        """As `Broker.fault`."""
        fault = Fault.of({"protocol": protocol, **values})

        async def start() -> Active:
            return self.broker.faults.start(fault)

        async def stop() -> None:
            self.broker.faults.stop(active)

        active: Active = self.run(start())
        try:
            yield active
        finally:
            self.run(stop())

    def restart(self, *, keep_state: bool) -> None:
        """As `Broker.restart`."""
        self.run(self.broker.restart(keep_state=keep_state))

    def port(self, name: str) -> int:
        """As `Broker.port`."""
        return self.broker.port(name)

    def url(self, name: str) -> str:
        """As `Broker.url`."""
        return self.broker.url(name)

    def reset(self) -> None:
        """As `Broker.reset`."""
        self.run(self.broker.reset())


class Running(_InThread):
    """A broker in its own thread, for synchronous programs. `running` makes it. All methods can be called from any thread.

    Attributes:
        broker: the broker; use it only in its own thread (`run`).
    """

    def publish(self, name: str, body: bytes | str = b"", protocol: Any = "amqp", **more: Any) -> None:
        """As `Broker.publish`."""
        self.run(self.broker.publish(name, body, protocol, **more))

    @property
    def clients(self) -> SyncSeen[Client]:
        """As `Broker.clients`."""
        return SyncSeen(self.broker.clients, self._submit)

    def queue(self, name: str, protocol: Literal["amqp", "nsq", "phpmq"] = "amqp") -> SyncSeen[Message]:
        """As `Broker.queue`."""
        return SyncSeen(self.broker.queue(name, protocol), self._submit)

    def unacked(self, name: str, protocol: Literal["amqp", "nsq", "phpmq"] = "amqp") -> SyncSeen[Message]:
        """As `Broker.unacked`."""
        return SyncSeen(self.broker.unacked(name, protocol), self._submit)

    def topic(self, name: str, protocol: Literal["mqtt", "rocketmq"] = "mqtt") -> SyncSeen[Message]:
        """As `Broker.topic`."""
        return SyncSeen(self.broker.topic(name, protocol), self._submit)

    def published(self, protocol: str = "*") -> SyncSeen[Message]:
        """As `Broker.published`."""
        return SyncSeen(self.broker.published(protocol), self._submit)

    @property
    def unrouted(self) -> SyncSeen[Message]:
        """As `Broker.unrouted`."""
        return SyncSeen(self.broker.unrouted, self._submit)


class AsyncRunning(_InThread):
    """A broker in its own thread, for programs on asyncio: what takes time is awaited. `running_async` makes it.

    Attributes:
        broker: the broker; use it only in its own thread (`run`).
    """

    async def publish(self, name: str, body: bytes | str = b"", protocol: Any = "amqp", **more: Any) -> None:
        """As `Broker.publish`."""
        await asyncio.wrap_future(self._submit(self.broker.publish(name, body, protocol, **more)))

    @property
    def clients(self) -> ThreadSeen[Client]:
        """As `Broker.clients`."""
        return ThreadSeen(self.broker.clients, self._submit)

    def queue(self, name: str, protocol: Literal["amqp", "nsq", "phpmq"] = "amqp") -> ThreadSeen[Message]:
        """As `Broker.queue`."""
        return ThreadSeen(self.broker.queue(name, protocol), self._submit)

    def unacked(self, name: str, protocol: Literal["amqp", "nsq", "phpmq"] = "amqp") -> ThreadSeen[Message]:
        """As `Broker.unacked`."""
        return ThreadSeen(self.broker.unacked(name, protocol), self._submit)

    def topic(self, name: str, protocol: Literal["mqtt", "rocketmq"] = "mqtt") -> ThreadSeen[Message]:
        """As `Broker.topic`."""
        return ThreadSeen(self.broker.topic(name, protocol), self._submit)

    def published(self, protocol: str = "*") -> ThreadSeen[Message]:
        """As `Broker.published`."""
        return ThreadSeen(self.broker.published(protocol), self._submit)

    @property
    def unrouted(self) -> ThreadSeen[Message]:
        """As `Broker.unrouted`."""
        return ThreadSeen(self.broker.unrouted, self._submit)


_Running = TypeVar("_Running", Running, AsyncRunning)


@contextmanager
def running(options: Options | None = None, **changes: Any) -> Iterator[Running]:
    """Run a broker in its own thread. The arguments are those of `Broker`. Raises OSError if a port is not available."""
    with _run(Running, options, changes) as found:
        yield found


@contextmanager
def running_async(options: Options | None = None, **changes: Any) -> Iterator[AsyncRunning]:
    """As `running`, for programs on asyncio. The broker has a loop of its own, so neither waits for the other."""
    with _run(AsyncRunning, options, changes) as found:
        yield found


@contextmanager
def _run(cls: type[_Running], options: Options | None, changes: dict[str, Any]) -> Iterator[_Running]:
    started: list[_Running] = []
    failed: list[BaseException] = []
    ready = threading.Event()

    async def serve() -> None:
        async with Broker(options, **changes) as broker:
            started.append(cls(broker, asyncio.get_running_loop()))
            ready.set()
            await started[0]._stop.wait()

    def main() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=main, name="wirefmt broker", daemon=True)
    thread.start()
    ready.wait()
    if not started:
        thread.join()
        raise failed[0]
    try:
        yield started[0]
    finally:
        started[0]._loop.call_soon_threadsafe(started[0]._stop.set)
        thread.join()
        if failed:
            raise failed[0]
