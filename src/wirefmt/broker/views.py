"""What a program sees of a broker: messages and clients as values, and functions that wait for them with a time limit."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

if TYPE_CHECKING:
    from wirefmt import amqp10

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
        near: says for errors what is there besides.
    """

    def __init__(self, what: str, look: Callable[[], Sequence[_T]], near: Callable[[], str] = str) -> None:
        self._what = what
        self._look = look
        self._near = near

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
        __tracebackhide__ = True
        end = asyncio.get_running_loop().time() + timeout
        while len(found := list(self._look())) < count:
            if asyncio.get_running_loop().time() >= end:
                seen = f"{len(found)} found:{listed(found)}" if found else "none found"
                raise NotSeen(f"{self._what}: {count} expected within {timeout} s, {seen}{self._near()}")
            await asyncio.sleep(INTERVAL)
        return found


class AsyncSeen(Seen[_T]):
    """The sequences of `Broker`."""

    async def wait(self, count: int = 1, timeout: float = 5.0) -> list[_T]:
        """Wait for at least `count` elements, and return all elements. Raises NotSeen after `timeout` seconds."""
        __tracebackhide__ = True
        return await self._until(count, timeout)


class _OtherThread(Seen[_T]):
    """A sequence of a broker that runs in another thread.

    Args:
        seen: the sequence in the broker's thread.
        submit: runs a coroutine in the broker's thread.
    """

    def __init__(self, seen: AsyncSeen[_T], submit: Callable[[Coroutine[Any, Any, Any]], Future[Any]]) -> None:
        async def look() -> list[_T]:
            return seen.messages

        super().__init__(seen._what, lambda: submit(look()).result())
        self._seen = seen
        self._submit = submit


class SyncSeen(_OtherThread[_T]):
    """The sequences of `Running`, for threads other than the broker's."""

    def wait(self, count: int = 1, timeout: float = 5.0) -> list[_T]:
        """Wait for at least `count` elements, and return all elements.

        Raises:
            NotSeen: after `timeout` seconds.
            RuntimeError: an event loop runs in this thread. It would stand still, and with it the program that is tested.
        """
        __tracebackhide__ = True
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError(
                "wait() would stop the event loop that runs this test: use the fixture wirefmt_async_broker"
                " (or broker.running_async()), and await it"
            )
        try:
            found: list[_T] = self._submit(self._seen.wait(count, timeout)).result()
        except NotSeen as unseen:
            raise NotSeen(*unseen.args) from None  # without the frames of the broker's thread
        return found


class ThreadSeen(_OtherThread[_T]):
    """The sequences of `AsyncRunning`, for event loops other than the broker's."""

    async def wait(self, count: int = 1, timeout: float = 5.0) -> list[_T]:
        """Wait for at least `count` elements, and return all elements. Raises NotSeen after `timeout` seconds."""
        __tracebackhide__ = True
        try:
            found: list[_T] = await asyncio.wrap_future(self._submit(self._seen.wait(count, timeout)))
        except NotSeen as unseen:
            raise NotSeen(*unseen.args) from None
        return found


# ---- texts of errors

#: How many things an error lists.
LISTED: Final = 10


def listed(found: Sequence[Any]) -> str:
    """The last of them, a line each."""
    lines = "".join(f"\n  {_line(each)}" for each in found[-LISTED:])
    return f" the last {LISTED} are{lines}" if len(found) > LISTED else lines


def named(kind: str, name: str, counts: Mapping[str, int]) -> str:
    """What is there under other names: how many messages each has, similar names first."""
    there = {each: count for each, count in counts.items() if count}
    if not there:
        return f"; there are no {kind} with messages"
    close = difflib.get_close_matches(name, there, n=LISTED, cutoff=0.5)
    order = [*close, *(each for each in there if each not in close)]
    rest = f", and {len(order) - LISTED} others" if len(order) > LISTED else ""
    return f"; {kind} with messages: {', '.join(f'{each} ({there[each]})' for each in order[:LISTED])}{rest}"


def _line(thing: Any) -> str:
    """A message or a client as a line."""
    if not isinstance(thing, Message):
        return repr(thing)
    text = thing.body.decode("utf-8", "backslashreplace")
    if len(text) > 60:
        text = f"{text[:60]}... ({len(thing.body)} bytes)"
    qos = f" qos {thing.qos}" if thing.protocol == "mqtt" else ""
    return f"{thing.protocol} {thing.exchange + ' ' if thing.exchange else ''}{thing.name}{qos} {text!r}"


def text_of_body(message: amqp10.Message) -> bytes:
    """The data sections, or a string or binary value. Other bodies are converted to text."""
    if message.payload is not None:
        return bytes(message.payload)
    values = [getattr(section, "value", section) for section in message.body]
    value = values[0] if len(values) == 1 else values
    return value if isinstance(value, bytes) else str(value).encode()
