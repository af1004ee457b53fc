"""What an AMQP 0.9.1 client does about a refusal, a limit or an end while it restores what it had on the last connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from lib.kinds import all_of
from lib.loopback import HOST, run, until
from wirefmt import amqp091
from wirefmt.amqp091.events import ConnectionOptions
from wirefmt.broker.amqp091 import Broker, Subscriber
from wirefmt.connection.recovery import ConnectionDown, ConnectionUp, NotRestored
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

SOON = amqp091.Backoff(first=0.01, most=0.02)

# texts of RabbitMQ
LOCKED = (405, "cannot obtain exclusive access to locked queue 'q' in vhost '/'")
IN_USE = (403, "queue 'q' in vhost '/' in exclusive use")
GONE = (404, "no queue 'q' in vhost '/'")
OTHER = (406, "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'")
FULL = (530, "access to vhost '/' refused for user 'guest': connection limit (1) is reached")

Refuse = Callable[[Any], tuple[int, str] | None]


class Moody(Broker):
    """A broker that refuses what a test says, and notes all that it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.refuse: Refuse = lambda event: None
        self.each: Callable[[amqp091.Peer, Any], None] = lambda peer, event: None
        self.events: list[Any] = []

    def handle(self, peer: amqp091.Peer, event: Any) -> None:
        self.events.append(event)
        self.each(peer, event)
        answer = self.refuse(event)
        if answer is not None:
            peer.refuse(event, *answer)
        else:
            super().handle(peer, event)

    def handle_run(self, peer: amqp091.Peer, events: list[Any], at: int) -> int:
        return at if type(events[at]) is amqp091.BasicMessage else super().handle_run(peer, events, at)

    def count(self, kind: type[Any], **fields: Any) -> int:
        return sum(
            type(event) is kind and all(getattr(event, name) == value for name, value in fields.items())
            for event in self.events
        )


def first(times: int, kind: type[Any], answer: tuple[int, str], **fields: Any) -> Refuse:
    """Refuse the first methods of a kind, and take those after them."""
    left = times

    def refuse(event: Any) -> tuple[int, str] | None:
        nonlocal left
        if left and type(event) is kind and all(getattr(event, name) == value for name, value in fields.items()):
            left -= 1
            return answer
        return None

    return refuse


def always(kind: type[Any], answer: tuple[int, str], **fields: Any) -> Refuse:
    return first(-1, kind, answer, **fields)


class Bench:
    """A broker, a client that reconnects, and what it has told."""

    def __init__(self, broker: Moody, server: amqp091.Server, client: amqp091.Client, told: list[Any]) -> None:
        self.broker, self.server, self.client, self.told = broker, server, client, told

    async def cut(self, refuse: Refuse | None = None) -> None:
        """End the connections; from then on the broker refuses this."""
        if refuse is not None:
            self.broker.refuse = refuse
        self.broker.events.clear()
        link = self.client._link
        for driver in list(self.server.drivers):
            driver.abort()
        await until(lambda: link is None or self.client._link is not link)

    async def again(self, count: int = 2) -> None:
        """Wait for this connection."""
        await until(lambda: self.client.connections >= count and self.client.connected)

    def consumed(self, queue: str) -> bool:
        """The queue is there, and has a consumer."""
        found = self.broker.hosts["/"].queues.get(queue)
        return found is not None and bool(found.consumers)

    def refusals(self, entity: Any = None) -> list[tuple[int | str, str]]:
        return [
            (event.error.code, event.action)
            for event in self.told
            if isinstance(event, NotRestored) and (entity is None or event.entity == entity)
        ]


@contextlib.asynccontextmanager
async def bench(**more: Any) -> AsyncIterator[Bench]:
    broker, told = Moody(), []  # type: ignore[var-annotated]
    async with await amqp091.serve(broker, HOST, 0) as server:
        client = amqp091.connect(f"amqp://{HOST}:{server.port}", **{"reconnect": SOON, "on_event": told.append, **more})
        async with client:
            yield Bench(broker, server, client, told)
    broker.close()


async def body(consumer: amqp091.aio_channel.Consumer) -> bytes:
    message = await anext(consumer)
    message.ack()
    return message.body


@pytest.mark.parametrize("call", ["get", "declare_queue", "delete_queue"])
def test_a_channel_that_is_closed_while_the_server_is_away_ends_its_calls(call: str) -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await b.cut(always(amqp091.ConnectionOpen, FULL))
            waiting = asyncio.ensure_future(getattr(channel, call)("q"))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await channel.close()
            b.broker.refuse = lambda event: None
            await b.again()
            with pytest.raises(LocalProtocolError, match="the channel is closed"):
                await waiting

    run(test())


# ---- one thing is refused


def test_a_locked_queue_is_asked_for_again_while_all_else_goes_on() -> None:
    async def test() -> None:
        async with bench() as b:
            channel, other = await b.client.channel(), await b.client.channel()
            await channel.declare_exchange("e", "fanout")
            for name in ("q", "r"):
                await channel.declare_queue(name, exclusive=name == "q")
                await channel.bind_queue(name, "e")
            locked, free = await channel.consume("q"), await channel.consume("r")
            gate = True
            await b.cut(
                lambda event: (
                    LOCKED if gate and isinstance(event, amqp091.QueueDeclare) and event.queue == "q" else None
                )
            )
            await b.again()
            await until(lambda: b.broker.count(amqp091.QueueDeclare, queue="q") >= 3)
            await other.publish(b"1", exchange="e")
            await channel.publish(b"2", exchange="e")
            assert [await body(free), await body(free)] == [b"1", b"2"]
            assert b.broker.count(amqp091.QueueBind, queue="q") == 0
            gate = False
            await until(lambda: b.consumed("q"))
            await other.publish(b"3", exchange="e")
            assert [await body(locked), await body(free)] == [b"3", b"3"]
            assert set(b.refusals()) == set(b.refusals("q")) == {(405, "retry")}
            assert b.client.connections == 2

    run(test())


def test_a_consumer_that_is_refused_is_tried_again_on_a_channel_of_its_own() -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel(prefetch=7)
            for name in ("q", "r", "s"):
                await channel.declare_queue(name)
            before = await channel.consume("r")
            await channel.qos(3)
            mine = await channel.consume("q", exclusive=True)
            after = await channel.consume("s")
            gate = True
            await b.cut(
                lambda event: (
                    IN_USE if gate and isinstance(event, amqp091.BasicConsume) and event.queue == "q" else None
                )
            )
            await b.again()
            await until(lambda: b.broker.count(amqp091.BasicConsume, queue="q") >= 3)
            opened = b.broker.count(amqp091.ChannelOpened)
            await asyncio.gather(*(channel.publish(b"%d" % k, routing_key=name) for k in range(20) for name in "rs"))
            assert [await body(before) for _ in range(20)] == [await body(after) for _ in range(20)]
            gate = False
            await channel.publish(b"x", routing_key="q")
            message = await anext(mine)
            assert message.body == b"x"
            assert message.ack()
            # all the time the channel was the same: what was published on it came once, and its deliveries were acknowledged
            assert sum(isinstance(e, amqp091.BasicMessage) for e in b.broker.events) == 41
            assert b.broker.count(amqp091.ChannelOpened) > opened
            limits = {
                queue: [
                    s.view.consumers[s.tag].prefetch
                    for s in all_of(b.broker.hosts["/"].queues[queue].consumers, Subscriber)
                ]
                for queue in "rqs"
            }
            assert limits == {"r": [7], "q": [3], "s": [3]}
            await mine.cancel()
            await channel.close()

    run(test())


def test_unconfirmed_messages_of_a_channel_whose_consumer_is_refused() -> None:
    """They are sent again once, in order, and before later ones."""

    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_queue("q")
            await channel.declare_queue("to")
            await channel.consume("q", exclusive=True)
            held = True
            b.broker.each = lambda peer, event: (
                peer.abort() if held and isinstance(event, amqp091.BasicMessage) else None
            )
            sent = [asyncio.create_task(channel.publish(b"%d" % k, routing_key="to")) for k in range(5)]
            await until(lambda: not b.client.connected)
            held = False
            await b.cut(first(3, amqp091.BasicConsume, IN_USE, queue="q"))
            sent.append(asyncio.create_task(channel.publish(b"5", routing_key="to")))
            await asyncio.gather(*sent)
            bodies = [e.body_bytes() for e in b.broker.events if isinstance(e, amqp091.BasicMessage)]
            assert bodies == [b"%d" % k for k in range(6)]

    run(test())


def test_a_queue_that_is_gone_ends_its_consumer_only() -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            others = amqp091.connect(f"amqp://{HOST}:{b.server.port}")
            async with others:
                await (await others.channel()).declare_queue("q")
            await channel.declare_queue("r")
            gone, there = await channel.consume("q"), await channel.consume("r")
            b.broker.hosts["/"].queues.pop("q")
            await b.cut()
            await b.again()
            await channel.publish(b"x", routing_key="r")
            assert await body(there) == b"x"
            with pytest.raises(Refused) as refused:
                await anext(gone)
            assert refused.value.code == 404
            # for others may declare it a moment later, it was asked for a few times
            assert b.refusals(gone) == [(404, "retry")] * 5 + [(404, "fail")]
            await channel.publish(b"y", routing_key="r")
            assert await body(there) == b"y"

    run(test())


def test_a_queue_that_goes_with_the_consumer_of_the_dead_connection() -> None:
    """It is an auto-delete queue: restored, as it was there; then gone with its last consumer, while ours was still refused."""

    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_exchange("e", "fanout")
            await channel.declare_queue("q", auto_delete=True)
            await channel.bind_queue("q", "e")
            mine = await channel.consume("q", exclusive=True)
            await b.cut(first(3, amqp091.BasicConsume, IN_USE))
            await b.again()
            b.broker.hosts["/"].delete_queue(b.broker.hosts["/"].queues["q"])
            await until(lambda: b.consumed("q"))
            await channel.publish(b"x", exchange="e")
            assert await body(mine) == b"x"
            assert b.refusals(mine) == [(403, "retry")] * 3 + [(404, "retry")]

    run(test())


@pytest.mark.parametrize("policy", ["retry", "skip", "fail"])
def test_policies(policy: Any) -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_queue("q", on_refused=policy)
            await channel.declare_exchange("e", on_refused=policy)
            await channel.bind_queue("q", "e", "k", on_refused=policy)
            consumer = await channel.consume("q", on_refused=policy)
            await b.cut(first(2, amqp091.QueueDeclare, OTHER))
            await b.again()
            binding = amqp091.QueueBind(channel=1, queue="q", exchange="e", routing_key="k")
            if policy == "retry":
                await until(lambda: b.consumed("q"))
                assert b.refusals() == [(406, "retry")] * 2
            else:
                assert b.refusals("q") == b.refusals(binding) == b.refusals(consumer) == [(406, policy)]
            b.broker.refuse = lambda event: None
            await b.cut()
            await b.again(3)
            assert b.broker.count(amqp091.QueueDeclare) == b.broker.count(amqp091.QueueBind) == (policy != "fail")
            assert b.broker.count(amqp091.BasicConsume) == (policy != "fail")
            if policy == "fail":
                with pytest.raises(Refused) as refused:
                    await anext(consumer)
                assert refused.value.code == 406
            else:
                await channel.publish(b"x", exchange="e", routing_key="k")
                assert await body(consumer) == b"x"

    run(test())


def test_a_binding_to_an_exchange_that_is_not_there() -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_queue("q")
            others = amqp091.connect(f"amqp://{HOST}:{b.server.port}")
            async with others:
                elsewhere = await others.channel()
                await elsewhere.declare_exchange("e", "fanout")
                await channel.bind_queue("q", "e")
                consumer = await channel.consume("q")
                await elsewhere.delete_exchange("e")
            await b.cut()
            await b.again()
            await until(lambda: (404, "fail") in b.refusals())
            await channel.publish(b"x", routing_key="q")
            assert await body(consumer) == b"x"
            await b.cut()
            await b.again(3)
            assert b.broker.count(amqp091.QueueBind) == 0

    run(test())


def test_a_channel_with_transactions_keeps_its_consumers_on_it() -> None:
    """So one of them that is refused is over; the others go on."""

    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel(confirms=False)
            await channel.declare_queue("q")
            await channel.declare_queue("r")
            async with channel.transaction():
                await channel.publish(b"1", routing_key="r")
            refused, there = await channel.consume("q", exclusive=True), await channel.consume("r")
            (await anext(there)).nack()
            await b.cut(first(1, amqp091.BasicConsume, IN_USE, queue="q"))
            await b.again()
            with pytest.raises(Refused):
                await anext(refused)
            async with channel.transaction():
                assert await body(there) == b"1"

    run(test())


def test_the_program_changes_its_mind_while_something_is_asked_for_again() -> None:
    async def test() -> None:
        async with bench() as b:
            channel, other = await b.client.channel(), await b.client.channel()
            for name in ("q", "r", "s"):
                await channel.declare_queue(name)
            cancelled, closed = await channel.consume("q"), await other.consume("r")
            await b.cut(
                lambda event: LOCKED if isinstance(event, amqp091.QueueDeclare | amqp091.BasicConsume) else None
            )
            await b.again()
            await until(lambda: b.broker.count(amqp091.QueueDeclare) > 6)
            await cancelled.cancel()
            await other.close()
            await channel.delete_queue("s")  # a queue.declare for it that has been sent is answered before
            b.broker.refuse = lambda event: None
            b.broker.events.clear()
            await until(lambda: b.broker.count(amqp091.QueueDeclare) == 2)
            await asyncio.sleep(0.05)
            assert b.broker.count(amqp091.QueueDeclare, queue="s") == b.broker.count(amqp091.BasicConsume) == 0
            assert [m async for m in cancelled] == [m async for m in closed] == []
            await channel.declare_queue("t")

    run(test())


# ---- the connection is refused


def test_a_limit_of_connections_can_pass() -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await b.cut(first(3, amqp091.ConnectionOpen, FULL))
            await channel.declare_queue("q")
            assert b.client.connections == 2
            downs = [e for e in b.told if isinstance(e, ConnectionDown)]
            assert [getattr(e.error, "code", None) for e in downs] == [None, 530, 530, 530]
            assert isinstance(b.told[-1], ConnectionUp)

    run(test())


@pytest.mark.parametrize(
    ("kind", "code", "text"),
    [(amqp091.ConnectionOpen, 530, "vhost limits not found"), (amqp091.ConnectionStartOk, 403, "Login was refused")],
)
def test_a_refusal_that_does_not_pass_ends_the_client(kind: type[Any], code: int, text: str) -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await b.cut(always(kind, (code, text)))
            with pytest.raises(Refused) as refused:
                await channel.declare_queue("q")
            assert refused.value.code == code
            with pytest.raises(Refused):
                await channel.publish(b"x")

    run(test())


@pytest.mark.parametrize("what", ["queue", "consumer"])
def test_a_refusal_that_costs_the_connection_is_of_one_thing(what: str) -> None:
    """541 for a queue whose node is away, 503 for a type that the server does not know."""

    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_queue("q")
            await channel.declare_queue("r")
            mine, good = await channel.consume("q"), await channel.consume("r")
            kind = amqp091.QueueDeclare if what == "queue" else amqp091.BasicConsume
            await b.cut(always(kind, (540, "not implemented"), queue="q"))
            await b.again()
            await channel.publish(b"x", routing_key="r")
            assert await body(good) == b"x"
            assert b.refusals() == b.refusals("q" if what == "queue" else mine) == [(540, "fail")]
            if what == "consumer":
                with pytest.raises(Refused) as refused:
                    await anext(mine)
                assert refused.value.code == 540
            else:  # the queue is there, but the client does not declare it any more
                await channel.publish(b"y", routing_key="q")
                assert await body(mine) == b"y"

    run(test())


@pytest.mark.parametrize("code", [506, 541])
def test_a_refusal_that_costs_the_connection_and_passes(code: int) -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_queue("q")
            mine = await channel.consume("q")
            await b.cut(first(3, amqp091.QueueDeclare, (code, "queue 'q' in vhost '/' has no leader"), queue="q"))
            await b.again()
            await channel.publish(b"x", routing_key="q")
            assert await body(mine) == b"x"
            assert b.refusals("q") == [(code, "retry")] * 3

    run(test())


def test_a_call_that_costs_the_connection_is_refused_and_others_come_back() -> None:
    async def test() -> None:
        async with bench() as b:
            channel, other = await b.client.channel(), await b.client.channel()
            await channel.declare_queue("q")
            consumer = await channel.consume("q")
            b.broker.refuse = always(amqp091.ExchangeDeclare, (503, "unknown exchange type 'x'"))
            with pytest.raises(Refused) as refused:
                await other.declare_exchange("e", "x")
            assert refused.value.code == 503
            await other.publish(b"x", routing_key="q")
            assert await body(consumer) == b"x"
            assert b.client.connections == 2

    run(test())


# ---- the connection breaks again


@pytest.mark.parametrize("step", range(40))
def test_the_connection_breaks_at_any_step_of_restoring(step: int) -> None:
    """Every publish has one outcome, every consumer goes on, and the client comes back."""

    async def test() -> None:
        async with bench() as b:
            channel, other = await b.client.channel(), await b.client.channel()
            await channel.declare_exchange("e", "fanout")
            await channel.declare_queue("q", exclusive=True)
            await channel.bind_queue("q", "e")
            await channel.declare_queue("r")
            mine, theirs = await channel.consume("q"), await channel.consume("r", exclusive=True)
            left = step
            armed = True

            def each(peer: amqp091.Peer, event: Any) -> None:
                nonlocal left, armed
                left -= 1
                if armed and left < 0:
                    armed = False
                    peer.abort()

            refusing = first(1, amqp091.QueueDeclare, LOCKED, queue="q")
            refusing_too = first(1, amqp091.BasicConsume, IN_USE, queue="r")
            await b.cut(lambda event: refusing(event) or refusing_too(event))
            b.broker.each = each
            bodies = [b"%d" % k for k in range(10)]
            tasks = [asyncio.create_task(other.publish(body, routing_key="r")) for body in bodies]
            found = Counter[bytes]()
            while set(found) < set(bodies):
                found[await body(theirs)] += 1
            assert await asyncio.gather(*tasks) == [None] * 10
            await until(lambda: b.consumed("q"))
            await other.publish(b"end", exchange="e")
            while await body(mine) != b"end":
                pass
            assert b.client.connections <= 3, "\n".join(map(repr, b.told))

    run(test())


@pytest.mark.parametrize("step", range(30))
def test_closed_at_any_step_of_restoring(step: int) -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_queue("q")
            await channel.declare_queue("r")
            consumer = await channel.consume("q", exclusive=True)
            left = step
            reached = asyncio.get_running_loop().create_future()

            def each(peer: amqp091.Peer, event: Any) -> None:
                nonlocal left
                left -= 1
                if left < 0 and not reached.done():
                    reached.set_result(None)

            await b.cut(always(amqp091.BasicConsume, IN_USE))
            b.broker.each = each
            publishing = asyncio.create_task(channel.publish(b"x", routing_key="r"))
            await asyncio.wait([reached], timeout=0.3)
            await b.client.close()
            assert [m async for m in consumer] == []
            with contextlib.suppress(ConnectionLost):
                await publishing

    run(test())


def test_closing_is_no_refusal_of_what_is_still_asked_for() -> None:
    """A consumer's turn to be asked for comes while close-ok is awaited."""

    async def test() -> None:
        async with bench(options=amqp091.ConnectionOptions(close_timeout=1)) as b:
            channel = await b.client.channel()
            await channel.declare_queue("q")
            consumer = await channel.consume("q", exclusive=True)
            await b.cut(always(amqp091.BasicConsume, IN_USE))
            await until(lambda: b.broker.count(amqp091.BasicConsume, queue="q") >= 2)
            told = len(b.told)
            for driver in b.server.drivers:
                transport: Any = driver.transport  # uvloop's is not an asyncio.Transport
                transport.pause_reading()
            await b.client.close()
            assert [m async for m in consumer] == []
            assert not [event for event in b.told[told:] if isinstance(event, NotRestored)]

    run(test())


@pytest.mark.parametrize("step", range(12))
@pytest.mark.parametrize("what", ["cancel", "close"])
def test_a_consumer_ends_at_any_step_of_restoring(step: int, what: str) -> None:
    """The server has no consumer then that nobody knows; the message stays in its queue."""

    async def test() -> None:
        async with bench() as b:
            channel, other = await b.client.channel(), await b.client.channel()
            await channel.declare_queue("q")
            consumer = await channel.consume("q")
            left = step
            ending: asyncio.Task[None] | None = None

            def each(peer: amqp091.Peer, event: Any) -> None:
                nonlocal left, ending
                left -= 1
                if left < 0 and ending is None:
                    ending = asyncio.create_task(consumer.cancel() if what == "cancel" else channel.close())

            await b.cut()
            b.broker.each = each
            await b.again()
            await other.publish(b"x", routing_key="q")
            await until(lambda: ending is not None or left > 0)
            if ending is None:
                ending = asyncio.create_task(consumer.cancel() if what == "cancel" else channel.close())
            await ending
            await other.declare_queue("q")
            queue = b.broker.hosts["/"].queues["q"]
            await until(lambda: not queue.consumers and [item.body for item in queue.messages] == [b"x"])

    run(test())


def test_a_consumer_is_started_while_there_is_no_connection() -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_queue("q")
            await b.cut()
            consumer = await channel.consume("q")
            assert b.broker.count(amqp091.BasicConsume) == 1
            await channel.publish(b"x", routing_key="q")
            assert await body(consumer) == b"x"

    run(test())


def test_messages_that_the_server_refuses_when_they_are_sent_again() -> None:
    """The exchange is gone: all publishes of the channel end, those that were not sent as well."""

    async def test() -> None:
        async with bench(options=ConnectionOptions(unconfirmed=5)) as b:
            channel, other = await b.client.channel(), await b.client.channel()
            await other.declare_queue("q")
            held = True

            def act(event: Any) -> tuple[int, str] | None:
                return (404, "no exchange 'e' in vhost '/'") if isinstance(event, amqp091.BasicMessage) else None

            b.broker.each = lambda peer, event: (
                peer.abort() if held and isinstance(event, amqp091.BasicMessage) else None
            )
            tasks = [asyncio.create_task(channel.publish(b"%d" % k, exchange="e")) for k in range(12)]
            await until(lambda: not b.client.connected)
            held = False
            await b.cut(
                lambda event: act(event) if getattr(getattr(event, "method", None), "exchange", "") == "e" else None
            )
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert {getattr(result, "code", None) for result in results} == {404}
            assert not b.client.session.outgoing
            await other.publish(b"x", routing_key="q")

    run(test())


def test_a_channel_that_is_closed_as_the_connection_breaks() -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()

            def each(peer: amqp091.Peer, event: Any) -> None:
                if isinstance(event, amqp091.BasicMessage):
                    peer.abort()

            b.broker.each = each
            publishing = asyncio.create_task(channel.publish(b"x"))
            await asyncio.sleep(0)
            await channel.close()
            with pytest.raises(ConnectionLost):
                await publishing
            await b.again()
            assert not b.client.session.outgoing

    run(test())


def test_a_channel_that_is_closed_while_there_is_no_connection() -> None:
    async def test() -> None:
        async with bench(reconnect=amqp091.Backoff(first=0.2)) as b:
            channel = await b.client.channel()
            b.broker.each = lambda peer, event: peer.abort() if isinstance(event, amqp091.BasicMessage) else None
            publishing = asyncio.create_task(channel.publish(b"x"))
            await until(lambda: not b.client.connected)
            await channel.close()
            with pytest.raises(ConnectionLost):
                await publishing

    run(test())


def test_the_server_blocks_while_messages_are_sent_again() -> None:
    """The connection is up and calls are answered; publishes wait for the end of the alarm, longer than an attempt may take."""

    async def test() -> None:
        async with bench(timeout=0.3) as b:
            channel, other = await b.client.channel(), await b.client.channel()
            await channel.declare_queue("q")
            state = "cut"
            blocked: list[amqp091.Peer] = []

            def each(peer: amqp091.Peer, event: Any) -> None:
                if state == "cut" and isinstance(event, amqp091.BasicMessage):
                    peer.abort()
                elif state == "alarm" and isinstance(event, amqp091.ChannelOpened) and peer not in blocked:
                    blocked.append(peer)
                    peer.connection.block("memory")

            b.broker.each = each
            publishing = asyncio.create_task(channel.publish(b"x", routing_key="q"))
            await until(lambda: not b.client.connected)
            state = "alarm"
            await b.again()
            assert b.client.blocked
            await other.declare_queue("r")
            await asyncio.sleep(0.4)
            assert b.client.connections == 2
            assert not publishing.done()
            blocked[0].connection.unblock()
            blocked[0].update()
            await publishing

    run(test())


def test_of_the_messages_of_an_earlier_process_one_is_refused(tmp_path: Path) -> None:
    """The others arrive, in order; one is counted as lost, and told."""

    async def test() -> None:
        journal = tmp_path / "journal.db"
        async with bench(reconnect=None, journal=journal) as b:
            channel = await b.client.channel()
            b.broker.each = lambda peer, event: peer.abort() if isinstance(event, amqp091.BasicMessage) else None
            calls = [channel.publish(b"%d" % k, exchange="e" if k == 2 else "", routing_key="q") for k in range(5)]
            await asyncio.gather(*calls, return_exceptions=True)
            assert len(b.client.session.outgoing) == 5
        broker, told = Moody(), []  # type: ignore[var-annotated]
        async with await amqp091.serve(broker, HOST, 0) as server:
            url = f"amqp://{HOST}:{server.port}"
            async with amqp091.connect(url) as plain:
                await (await plain.channel()).declare_queue("q")
            async with amqp091.connect(url, journal=journal, on_event=told.append) as client:
                await until(lambda: not client.session.outgoing and not client._channels)
                assert client.lost == 1
        refused = [event for event in told if isinstance(event, NotRestored)]
        assert [(e.entity.message.body_bytes(), e.error.code, e.action) for e in refused] == [(b"2", 404, "fail")]
        bodies = [item.body for item in sorted(broker.hosts["/"].queues["q"].messages)]
        assert list(dict.fromkeys(bodies)) == [b"0", b"1", b"3", b"4"]
        broker.close()

    run(test())


@pytest.mark.parametrize("confirms", [True, False])
def test_the_messages_of_an_earlier_process_go_first(confirms: bool, tmp_path: Path) -> None:
    """Also before those of a channel that the program opens before they can be sent."""

    async def test() -> None:
        journal = tmp_path / "journal.db"
        async with bench(reconnect=None, journal=journal) as b:
            channel = await b.client.channel()
            b.broker.each = lambda peer, event: peer.abort() if isinstance(event, amqp091.BasicMessage) else None
            calls = [channel.publish(b"%d" % k, routing_key="q") for k in range(5)]
            await asyncio.gather(*calls, return_exceptions=True)
        broker, arrived = Moody(), []
        broker.each = lambda peer, event: (
            arrived.append(event.body_bytes()) if isinstance(event, amqp091.BasicMessage) else None
        )
        async with (
            await amqp091.serve(broker, HOST, 0) as server,
            amqp091.connect(f"amqp://{HOST}:{server.port}", journal=journal) as client,
        ):
            channel = await client.channel(confirms=confirms)
            await asyncio.gather(*(channel.publish(b"%d" % k, routing_key="q") for k in range(5, 10)))
            await until(lambda: len(arrived) == 10)
        assert arrived == [b"%d" % k for k in range(10)]
        broker.close()

    run(test())


# ---- messages that cannot be read


@pytest.mark.parametrize("what", ["body", "header"])
def test_a_message_above_the_limits_ends_its_consumer_only(what: str) -> None:
    async def test() -> None:
        options = ConnectionOptions(body_size=1000) if what == "body" else ConnectionOptions(elements=30)
        async with bench(options=options) as b:
            channel = await b.client.channel()
            await channel.declare_queue("q")
            await channel.declare_queue("r")
            bad, good = await channel.consume("q"), await channel.consume("r")
            async with amqp091.connect(f"amqp://{HOST}:{b.server.port}") as other:
                properties = (
                    amqp091.BasicProperties(headers={f"{k}": k for k in range(40)}) if what == "header" else None
                )
                await (await other.channel()).publish(
                    b"x" * (5000 if what == "body" else 1), routing_key="q", properties=properties
                )
            with pytest.raises(ConnectionLost, match="a message of the queue 'q' cannot be read"):
                await anext(bad)
            await channel.publish(b"x", routing_key="r")
            assert await body(good) == b"x"
            assert b.client.connections == 2
            assert len(b.broker.hosts["/"].queues["q"].messages) == 1
            with pytest.raises(ConnectionLost, match=r"1000|30"):
                await channel.get("q")
            await channel.publish(b"y", routing_key="r")
            assert await body(good) == b"y"

    run(test())


def test_a_message_above_the_limit_that_is_returned() -> None:
    async def test() -> None:
        async with bench(options=ConnectionOptions(body_size=1000)) as b:
            channel = await b.client.channel()
            await channel.declare_queue("q")
            with pytest.raises(Refused) as refused:
                await channel.publish(b"x" * 5000, routing_key="nowhere", mandatory=True)
            assert refused.value.code == 312
            await channel.publish(b"x" * 5000, routing_key="q", mandatory=True)
            assert b.client.connections == 2

    run(test())


# ---- what the server removes by itself


async def existing(client: amqp091.Client, *queues: str) -> list[str]:
    found = []
    for name in queues:
        channel = await client.channel()
        with contextlib.suppress(Refused):
            await channel.declare_queue(name, passive=True)
            found.append(name)
        await channel.close()
    return found


def test_queues_without_their_owner_stay_away() -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            names = ("used", "unused", "twice", "plain", "deleted")
            for name in names:
                await channel.declare_queue(name, auto_delete=name != "plain")
            for name in ("used", "twice", "twice", "plain", "deleted"):
                consumer = await channel.consume(name)
                if name in ("used", "plain"):
                    await consumer.cancel()
            await channel.delete_queue("deleted")
            await consumer.cancel()
            before = await existing(b.client, *names)
            await b.cut()
            await b.again()
            assert before == await existing(b.client, *names) == ["unused", "twice", "plain"]

    run(test())


def test_a_queue_that_has_expired_stays_away() -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            for name in ("short", "long", "used"):
                expires = {"x-expires": 60_000 if name == "long" else 30}
                await channel.declare_queue(name, arguments=expires)
            await channel.consume("used")
            await until(lambda: "short" not in b.broker.hosts["/"].queues)
            await b.cut()
            await b.again()
            assert await existing(b.client, "short", "long", "used") == ["long", "used"]

    run(test())


def test_exchanges_without_bindings_stay_away() -> None:
    """An auto-delete exchange goes with the last binding of which it is the source, and with it the bindings that lead to it."""

    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            for name in ("first", "second", "alone"):
                await channel.declare_exchange(name, "fanout", auto_delete=True)
            await channel.declare_queue("q", auto_delete=True)
            await channel.bind_exchange("second", "first")
            await channel.bind_queue("q", "second")
            consumer = await channel.consume("q")
            exchanges = b.broker.hosts["/"].exchanges
            assert {"first", "second", "alone"} <= set(exchanges)
            await consumer.cancel()
            assert {"first", "second", "alone"} & set(exchanges) == {"alone"}
            await b.cut()
            await b.again()
            assert {e.exchange for e in b.broker.events if isinstance(e, amqp091.ExchangeDeclare)} == {"alone"}
            assert b.broker.count(amqp091.ExchangeBind) == b.broker.count(amqp091.QueueBind) == 0

    run(test())


def test_a_queue_declared_again_comes_before_its_bindings() -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_queue("q")
            await channel.declare_exchange("e", "fanout")
            await channel.bind_queue("q", "e")
            await channel.declare_queue("q")
            b.broker.hosts["/"].queues.clear()
            b.broker.hosts["/"].exchanges.pop("e")
            await b.cut()
            await b.again()
            assert b.refusals() == []
            await channel.publish(b"x", exchange="e")
            assert (await channel.declare_queue("q")).message_count == 1

    run(test())


def test_the_queue_declared_last_is_meant_by_an_empty_name_on_the_next_connection_too() -> None:
    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_exchange("e", "direct")
            name = (await channel.declare_queue(exclusive=True)).queue
            await channel.bind_queue("", "e")
            consumer = await channel.consume("")
            assert consumer.queue == name
            await b.cut()
            await b.again()
            await channel.publish(b"x", exchange="e", routing_key=name, mandatory=True)
            assert await body(consumer) == b"x"
            await channel.publish(b"y", exchange="e", routing_key=name)
            message = await anext(consumer)
            message.nack()
            await consumer.cancel()
            got = await channel.get("")
            assert got is not None
            assert got.body == b"y"

    run(test())


def test_nothing_is_sent_that_cannot_be_sent() -> None:
    """What was declared with large frames does not fit into the frames of the next server: it fails, and the connection lasts."""

    async def test() -> None:
        async with bench() as b:
            channel = await b.client.channel()
            await channel.declare_queue("q", arguments={"x": "y" * 10_000})
            await channel.declare_queue("r")
            b.client._options = ConnectionOptions(frame_max=4096)
            await b.cut()
            await b.again()
            assert b.refusals("q") == [(0, "fail")]
            assert await existing(b.client, "r") == ["r"]
            with pytest.raises(LocalProtocolError):
                await channel.declare_queue("s", arguments={"x": "y" * 10_000})

    run(test())
