"""What a program sees of a broker: messages and clients as values, and functions that wait for them with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, overload

_T = TypeVar("_T")

#: Seconds between two checks of a condition.
INTERVAL: Final = 0.005


class NotSeen(AssertionError):
    """The messages or clients did not arrive within the time limit. The text lists those that did."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the broker has it.

    Attributes:
        body: the payload. AMQP 1.0: the data sections, or another body as text.
        name: the topic, queue or routing key to which it was published.
        protocol: the protocol of its publisher: "mqtt", "amqp", "amqp10", "nsq", "rocketmq" or "phpmq".
        exchange: AMQP: the exchange to which it was published.
        qos, retain: MQTT: as published.
        properties: a tuple of pairs (MQTT), `amqp091.BasicProperties`, `amqp10.Message`, a dict (RocketMQ), otherwise None.
    """

    body: bytes
    name: str
    protocol: str
    exchange: str = ""
    qos: int = 0
    retain: bool = False
    properties: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Client:
    """A connected client.

    Attributes:
        protocol: "mqtt", "amqp", "amqp10", "nsq", "rocketmq" or "phpmq".
        name: the name that the client gives itself: Client Identifier (MQTT), `connection_name` (AMQP 0.9.1), container id
            (AMQP 1.0), `client_id` (NSQ); "" without a name.
        address: the client's address: host and port.
    """

    protocol: str
    name: str
    address: Any


class Seen(Sequence[_T], Generic[_T]):
    """A sequence that always has the current content.

    Args:
        what: the name in errors.
        look: returns the current content.
    """

    def __init__(self, what: str, look: Callable[[], Sequence[_T]]) -> None:
        self._what = what
        self._look = look

    @property
    def messages(self) -> list[_T]:
        """The current content, the oldest first."""
        return list(self._look())

    @property
    def last(self) -> _T | None:
        """The newest element, or None if the sequence is empty."""
        found = self._look()
        return found[-1] if found else None

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_T]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._look()[index]

    def __len__(self) -> int:
        return len(self._look())

    def __iter__(self) -> Iterator[_T]:
        return iter(self._look())

    def __eq__(self, other: object) -> bool:
        return list(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self._what}: {list(self._look())!r}"

    async def _until(self, count: int, timeout: float) -> list[_T]:
        end = asyncio.get_running_loop().time() + timeout
        while len(found := list(self._look())) < count:
            if asyncio.get_running_loop().time() >= end:
                raise NotSeen(f"{self._what}: {count} expected within {timeout} s, {len(found)} found: {found!r}")
            await asyncio.sleep(INTERVAL)
        return found


class AsyncSeen(Seen[_T]):
    """The sequences of `Broker`."""

    async def wait(self, count: int = 1, timeout: float = 5.0) -> list[_T]:
        """Wait for at least `count` elements, and return all elements. Raises NotSeen after `timeout` seconds."""
        return await self._until(count, timeout)


class SyncSeen(Seen[_T]):
    """The sequences of `Running`, for threads other than the broker's.

    Args:
        seen: the sequence in the broker's thread.
        run: runs a coroutine in the broker's thread and returns its result.
    """

    def __init__(self, seen: AsyncSeen[_T], run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        async def look() -> list[_T]:
            return seen.messages

        super().__init__(seen._what, lambda: run(look()))
        self._seen = seen
        self._run = run

    def wait(self, count: int = 1, timeout: float = 5.0) -> list[_T]:
        """Wait for at least `count` elements, and return all elements. Raises NotSeen after `timeout` seconds."""
        found: list[_T] = self._run(self._seen.wait(count, timeout))
        return found
