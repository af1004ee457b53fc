"""What a program sees of a broker: messages and clients as values, and waiting for them with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, overload

_T = TypeVar("_T")

#: Seconds between two looks while something is waited for.
INTERVAL: Final = 0.005


class NotSeen(AssertionError):
    """What was waited for did not come within the time limit. The text says what was there instead."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the broker has it.

    Attributes:
        body: the payload; of AMQP 1.0 the data sections, or the text of another body.
        name: the topic, or the routing key, with which it was published.
        protocol: with which it was published: "mqtt", "amqp", "amqp10", "nsq", "rocketmq" or "phpmq".
        exchange: AMQP: the exchange that it was published to.
        qos, retain: of MQTT.
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
    """A connection of a client.

    Attributes:
        protocol: "mqtt", "amqp", "amqp10", "nsq", "rocketmq" or "phpmq".
        name: how the client calls itself: the Client Identifier, the container id, `client_id` of NSQ; "" if it does not.
        address: of its end.
    """

    protocol: str
    name: str
    address: Any


class Seen(Sequence[_T], Generic[_T]):
    """A sequence that is looked up anew whenever it is used.

    Args:
        what: the name for errors.
        look: returns what is there now.
    """

    def __init__(self, what: str, look: Callable[[], Sequence[_T]]) -> None:
        self._what = what
        self._look = look

    @property
    def messages(self) -> list[_T]:
        """What is there now, the oldest first."""
        return list(self._look())

    @property
    def last(self) -> _T | None:
        """The newest; None: there is none."""
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
                raise NotSeen(f"{self._what}: {count} expected within {timeout} s, {len(found)} there: {found!r}")
            await asyncio.sleep(INTERVAL)
        return found


class AsyncSeen(Seen[_T]):
    """What `Broker` returns."""

    async def wait(self, count: int = 1, timeout: float = 5.0) -> list[_T]:
        """Wait until at least so many are there, and return them. Raises NotSeen after `timeout` seconds."""
        return await self._until(count, timeout)


class SyncSeen(Seen[_T]):
    """What `Running` returns: it is used from other threads than the broker's.

    Args:
        run: runs a coroutine in the broker's thread and returns its result.
        seen: the same in the broker's thread.
    """

    def __init__(self, seen: AsyncSeen[_T], run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        async def look() -> list[_T]:
            return seen.messages

        super().__init__(seen._what, lambda: run(look()))
        self._seen = seen
        self._run = run

    def wait(self, count: int = 1, timeout: float = 5.0) -> list[_T]:
        """Wait until at least so many are there, and return them. Raises NotSeen after `timeout` seconds."""
        found: list[_T] = self._run(self._seen.wait(count, timeout))
        return found
