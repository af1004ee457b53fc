"""How an AMQP 0.9.1 client restores what it had on the last connection. docs/amqp091-asyncio.md has the order.

A refusal of the server closes the channel of the call (AMQP 1.2), so nothing is asked for where others could be hurt: exchanges,
queues and bindings have a channel of their own, and a consumer that was refused is tried again on a channel of its own, where it
stays until the next connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from wirefmt import amqp091
from wirefmt.amqp091.aio_channel import Channel, Consumer, Link
from wirefmt.amqp091.channel import text_of
from wirefmt.amqp091.client_channel import ClientChannel
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp091.events import Call
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.amqp091.topology import Entry, Key, Topology
from wirefmt.connection import client as connecting
from wirefmt.connection.recovery import NotRestored, OnRefused
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

#: How often the server is asked again for what it does not have: after a restart another client may declare it a moment later.
ABSENT: Final = 5

#: A connection that takes no more: what it does not take has not been refused.
_OVER: Final = (State.CLOSING, State.CLOSED)

#: Words of RabbitMQ's texts: a queue that is there, but not at this moment (404).
_AWAY: Final = ("is down or inaccessible", "stopped by supervisor", "timeout", "timed out")

Problem = tuple[OnRefused, Refused]


def judge() -> Callable[[Refused], bool]:
    """A function that says of the refusals of one thing whether the cause can pass."""
    left = ABSENT

    def passes(refused: Refused) -> bool:
        nonlocal left
        text = str(refused)
        match refused.code:
            case ReplyCode.NOT_FOUND if not any(word in text for word in _AWAY):
                left -= 1
                return left >= 0
            case ReplyCode.ACCESS_REFUSED:
                return "in exclusive use" in text
            case ReplyCode.PRECONDITION_FAILED | ReplyCode.NOT_ALLOWED:
                return is_limit(text) or refused.message is None
            case code:
                return code in _PASSING

    return passes


_PASSING: Final = frozenset(
    (
        ReplyCode.NOT_FOUND,
        ReplyCode.RESOURCE_LOCKED,
        ReplyCode.CONNECTION_FORCED,
        ReplyCode.RESOURCE_ERROR,
        ReplyCode.INTERNAL_ERROR,
    )
)


def is_limit(text: str) -> bool:
    """A refusal because too many connections, channels or queues are there (RabbitMQ): there will be fewer."""
    return "limit" in text and "not found" not in text


class Restoration:
    """What is restored on one connection.

    `run` asks for everything once. What is refused and asked for again, and what depends on it, comes later, in tasks of the
    connection.

    Args:
        client: asks again as its options say, and tells the program.
        channels: those of the client, by id. One that is closed leaves it.
    """

    def __init__(
        self, client: connecting.Client[Link], link: Link, topology: Topology, channels: dict[int, Channel]
    ) -> None:
        self.client = client
        self.link = link
        self.topology = topology
        self.channels = channels
        self._loop = asyncio.get_running_loop()
        self._states: dict[Key, asyncio.Future[Problem | None]] = {}  # of exchanges, queues and bindings
        self._view: ClientChannel | None = None  # where these are declared
        self._first_pass = True
        self._granted: dict[Channel, list[Consumer]] = {}
        self._prefetch: dict[Channel, int] = {}

    async def run(self) -> None:
        """Ask for everything. Raises Refused and ConnectionLost if the connection ends meanwhile."""
        self.topology.expire(self._loop.time())
        entries = list(self.topology)
        for entry in entries:
            self._states[entry.key] = self._loop.create_future()
        for entry in entries:
            await self._begin(lambda answered, entry=entry: self._restore_entry(entry, answered))  # type: ignore[misc]
        for channel in list(self.channels.values()):
            await self._restore_channel(channel)
        async with self.topology.asking:
            self._first_pass = False
            self._close_view()

    async def _begin(self, work: Callable[[asyncio.Future[None]], Coroutine[Any, Any, None]]) -> None:
        """Begin to restore one thing, and wait for the first answer to it."""
        answered = self._loop.create_future()
        link = self.link

        async def begun() -> None:
            try:
                await work(answered)
            except (ConnectionLost, Refused):
                if link.event is None:
                    raise
            finally:
                connecting.release([answered])

        link.spawn(begun())
        await answered
        if link.event is not None:
            raise link.lost()

    async def _ask(
        self, entity: Any, ask: Callable[[], Awaitable[None]], policy: OnRefused | None, answered: asyncio.Future[None]
    ) -> Problem | None:
        """Ask for one thing until it is granted. Returns what has become of it otherwise."""
        client, link, passes = self.client, self.link, judge()
        last: Refused | None = None

        async def asked() -> None:
            nonlocal last
            try:
                await ask()
            except Refused as refused:
                last = refused
                raise
            finally:
                connecting.release([answered])

        try:
            granted = await client._restore_one(link, entity, asked, policy, passes)
        except Refused as refused:
            if link.event is None:
                return "fail", refused
            if link.blamed is None:
                raise
            action = policy or ("retry" if passes(refused) else "fail")
            client._tell(NotRestored(entity, refused, action, None))
            return action, refused
        assert granted or last is not None
        return None if granted else ("skip", last)  # type: ignore[return-value]

    async def _need(self, keys: Sequence[Key], answered: asyncio.Future[None]) -> Problem | None:
        """Wait for what a thing depends on. Returns what stands in its way."""
        for key in keys:
            state = self._states.get(key)
            if state is not None:
                if not state.done():
                    connecting.release([answered])
                    await asyncio.wait([state])
                if (problem := state.result()) is not None:
                    return problem
        return None

    # ---- exchanges, queues, bindings

    async def _restore_entry(self, entry: Entry, answered: asyncio.Future[None]) -> None:
        client, state = self.client, self._states[entry.key]
        entity = entry.cls(channel=1, **entry.fields) if entry.ends else entry.name
        problem: Problem | None = None
        try:
            problem = await self._need(entry.ends, answered)
            if problem is not None:
                client._tell(NotRestored(entity, problem[1], problem[0], None))
            else:
                problem = await self._ask(entity, lambda: self._declare(entry), entry.on_refused, answered)
            if problem is not None and problem[0] == "fail":
                self.topology.drop(entry)
        finally:
            if not state.done():
                state.set_result(problem)

    async def _declare(self, entry: Entry) -> None:
        topology = self.topology
        async with topology.asking:
            if topology.entries.get(entry.key) is not entry:
                return  # the program has changed it meanwhile
            if self._view is None or self._view.state not in (ChannelState.OPENING, ChannelState.OPEN):
                self._view = self._send(self.link.connection.open_channel)
            fields = topology.method(entry)
            view = self._view
            answer = await self.link.reply(self._send(lambda: view.call(entry.cls, **fields)))
            if entry.cls is amqp091.QueueDeclare and not fields["queue"]:
                topology.names[entry.name] = text_of(answer.queue)
            if not self._first_pass:
                self._close_view()

    async def _declare_again(self, queue: str) -> None:
        """Declare a queue and its bindings, if they are ours."""
        key = ("queue", queue)
        for entry in list(self.topology):
            if entry.key == key or key in entry.ends:
                await self._declare(entry)

    def _close_view(self) -> None:
        view, self._view = self._view, None
        if view is not None and view.state in (ChannelState.OPENING, ChannelState.OPEN):
            self.link.driver.update(view.close())

    def _send(self, act: Callable[[], Any]) -> Any:
        """Do what may not be possible now. Raises Refused, as if the server had refused it; ConnectionLost."""
        try:
            return act()
        except LocalProtocolError as error:
            if self.link.connection.state in _OVER:
                raise self.link.lost() from None
            raise Refused(str(error), error.reply if isinstance(error.reply, int) else 0) from error

    # ---- channels and consumers

    async def _restore_channel(self, channel: Channel) -> None:
        await self._open(channel)
        for consumer in list(channel._consumers.values()):
            await self._begin(lambda answered, consumer=consumer: self._restore_consumer(consumer, answered))  # type: ignore[misc]
        if channel._view is not None and self._prefetch[channel] != channel._prefetch:
            self.link.note(channel._view.qos(channel._prefetch))

    async def _open(self, channel: Channel) -> None:
        """Open a channel again. If that is refused, it ends."""
        self._granted[channel], self._prefetch[channel] = [], channel._prefetch
        try:
            await self.link.open(channel, again=True)
        except (Refused, LocalProtocolError) as error:
            if self.link.connection.state in _OVER:
                raise self.link.lost() from None
            refused = error if isinstance(error, Refused) else Refused(str(error), ReplyCode.NOT_ALLOWED)
            self.client._tell(NotRestored(channel, refused, "fail", None))
            channel._fail(refused)
        if channel._closed:
            channel._drop()

    async def _restore_consumer(self, consumer: Consumer, answered: asyncio.Future[None]) -> None:
        client = self.client
        problem = await self._need([("queue", consumer.queue)], answered)
        beside = answered.done()  # the first pass is over for it
        policy = consumer.on_refused
        if consumer.bound and policy in (None, "retry"):
            policy = "fail"  # it must be on the channel itself

        gone = False

        async def ask() -> None:
            nonlocal beside, gone
            if consumer._ended:
                return
            try:
                if gone:  # an auto-delete queue, for example, which went with the consumer of our dead connection
                    await self._declare_again(consumer.queue)
                if beside:
                    await self._consume_beside(consumer)
                else:
                    beside = True
                    await self._consume(consumer)
            except Refused as refused:
                gone = refused.code == ReplyCode.NOT_FOUND
                raise

        if problem is None and beside and consumer.bound:
            problem = (
                "fail",
                Refused("its queue came back too late for a channel with transactions", ReplyCode.RESOURCE_ERROR),
            )
        if problem is None:
            problem = await self._ask(consumer, ask, policy, answered)
        else:
            client._tell(NotRestored(consumer, problem[1], problem[0], None))
        if problem is not None and problem[0] == "fail":
            consumer.channel._consumers.pop(consumer.tag, None)
            consumer._end(problem[1])

    async def _consume(self, consumer: Consumer) -> None:
        """Start a consumer again, on its channel. If it is refused the channel is opened again for the others."""
        channel, link = consumer.channel, self.link
        view = channel._view
        if view is None:
            return  # the channel is over, and the consumer with it
        if consumer.prefetch != self._prefetch[channel]:
            self._prefetch[channel] = consumer.prefetch
            link.note(view.qos(consumer.prefetch))
        channel._asking = True
        try:
            await link.reply(self._send(lambda: self._call(consumer, view)))
        except Refused:
            if link.event is None and channel._view is None:
                granted = self._granted[channel]
                await self._open(channel)
                for other in granted:
                    await self._begin(lambda answered, other=other: self._restore_consumer(other, answered))  # type: ignore[misc]
            raise
        finally:
            channel._asking = False
        self._granted[channel].append(consumer)
        if consumer._ended and view.state is ChannelState.OPEN:
            view.cancel(consumer.tag, nowait=True)
            link.driver.update()

    async def _consume_beside(self, consumer: Consumer) -> None:
        """Start a consumer again, on a channel of its own."""
        channel, link = consumer.channel, self.link
        view: ClientChannel = self._send(link.connection.open_channel)
        link.channels[view.number] = channel
        link.beside[view.number] = consumer
        channel._beside.append(view)
        consumer._view, consumer._asking = view, True
        assert view.opened is not None
        link.note(view.opened)
        if consumer.prefetch:
            link.note(view.qos(consumer.prefetch))
        try:
            await link.reply(self._send(lambda: self._call(consumer, view)))
        except BaseException:
            consumer._view = None
            if view in channel._beside:
                channel._beside.remove(view)
            raise
        finally:
            consumer._asking = False
        if consumer._ended and view.state is ChannelState.OPEN:
            link.driver.update(view.close())

    def _call(self, consumer: Consumer, view: ClientChannel) -> Call:
        call = view.consume(self.topology.name(consumer.queue), consumer.tag, **consumer._fields)
        assert call is not None
        return call
