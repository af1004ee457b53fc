"""`amqp091.connect` against RabbitMQ: declare, publish, confirm, return, consume, get, transactions, errors, reconnection."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lib import rabbitmq as node
from lib.forwarder import Forwarder
from lib.loopback import HOST, run, until
from wirefmt import amqp091
from wirefmt.connection.recovery import NotRestored
from wirefmt.errors import ConnectionLost, Refused

pytestmark = pytest.mark.live


def url_of(broker: node.Broker) -> str:
    return f"amqp://{node.USER}:{node.PASSWORD}@{HOST}:{broker.port}/"


def test_publish_and_consume(rabbitmq: node.Broker) -> None:
    async def test() -> None:
        async with amqp091.connect(url_of(rabbitmq), properties={"connection_name": "wirefmt"}) as client:
            channel = await client.channel(prefetch=20)
            queue = str((await channel.declare_queue("", exclusive=True)).queue)
            await channel.declare_exchange("wirefmt-e", "topic", auto_delete=True)
            await channel.bind_queue(queue, "wirefmt-e", "a.#")
            await channel.publish_many(
                (b"%d" % k + b"x" * (k * 1000), "wirefmt-e", "a.b", None, True) for k in range(300)
            )
            message = await channel.get(queue)
            assert message is not None
            assert message.nack()
            consumer = await channel.consume(queue)
            found = []
            async for message in consumer:
                found.append(message.body)
                assert message.ack()
                if len(found) == 300:
                    break
            assert found == [b"%d" % k + b"x" * (k * 1000) for k in range(300)]
            await consumer.cancel()
            with pytest.raises(Refused) as refused:
                await channel.publish(b"", routing_key="nowhere", mandatory=True)
            assert refused.value.code == 312
            properties = amqp091.BasicProperties(headers={"n": 1}, delivery_mode=2, expiration="60000")
            await channel.publish(b"x", exchange="wirefmt-e", routing_key="a", properties=properties)
            got = await channel.get(queue)
            assert got is not None
            assert got.properties == properties
            assert got.ack()
            assert await channel.get(queue) is None
            assert await channel.delete_queue(queue) == 0

    run(test())


@pytest.mark.parametrize("what", ["gone queue", "gone exchange", "arguments"])
def test_errors_close_the_channel(rabbitmq: node.Broker, what: str) -> None:
    async def test() -> None:
        async with amqp091.connect(url_of(rabbitmq)) as client:
            channel, other = await client.channel(), await client.channel()
            queue = "wirefmt-exclusive"
            await channel.declare_queue(queue, exclusive=True)
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "gone queue": lambda: channel.consume("wirefmt-gone"),
                "gone exchange": lambda: channel.publish(b"", exchange="wirefmt-gone"),
                "arguments": lambda: channel.declare_queue(queue, exclusive=True, arguments={"x-max-length": 1}),
            }
            with pytest.raises(Refused) as refused:
                await calls[what]()
            assert refused.value.code == (406 if what == "arguments" else 404)
            await other.publish(b"x", routing_key=queue)

    run(test())


def test_wrong_credentials_and_virtual_hosts(rabbitmq: node.Broker) -> None:
    async def test() -> None:
        for url, code in (
            (f"amqp://guest:wrong@{HOST}:{rabbitmq.port}", 403),
            (f"amqp://guest:guest@{HOST}:{rabbitmq.port}/wirefmt-gone", 530),
        ):
            with pytest.raises(Refused) as refused:
                await amqp091.connect(url).open()
            assert refused.value.code == code
        async with amqp091.connect(url_of(rabbitmq), mechanisms=[amqp091.AmqPlain("guest", "guest")]) as client:
            assert client.negotiated is not None
            assert client.negotiated.mechanism == "AMQPLAIN"

    run(test())


def test_transactions(rabbitmq: node.Broker) -> None:
    async def test() -> None:
        async with amqp091.connect(url_of(rabbitmq)) as client:
            channel = await client.channel(confirms=False)
            queue = str((await channel.declare_queue("", exclusive=True)).queue)
            async with channel.transaction():
                await channel.publish(b"1", routing_key=queue)
            message = await channel.get(queue, no_ack=True)
            assert message is not None
            assert message.body == b"1"

    run(test())


def test_reconnection(rabbitmq: node.Broker) -> None:
    """RabbitMQ closes the connection (320); queue, binding and consumer are there again on the next one."""

    async def test() -> None:
        backoff = amqp091.Backoff(first=0.05, most=1.0)
        async with amqp091.connect(url_of(rabbitmq), reconnect=backoff) as client:
            channel = await client.channel()
            queue = str((await channel.declare_queue("", exclusive=True)).queue)
            await channel.bind_queue(queue, "amq.fanout")
            consumer = await channel.consume(queue)
            await channel.publish(b"before", exchange="amq.fanout")
            message = await anext(consumer)
            message.ack()
            link = client._link
            assert link is not None
            link.driver.abort()
            publishing = [asyncio.create_task(channel.publish(b"%d" % k, exchange="amq.fanout")) for k in range(20)]
            await asyncio.gather(*publishing)
            found = []
            async for message in consumer:
                message.ack()
                if message.body != b"before":
                    found.append(message.body)
                if len(set(found)) == 20:
                    break
            assert list(dict.fromkeys(found)) == [b"%d" % k for k in range(20)]
            assert client.connections == 2

    run(test())


def test_heartbeats_keep_a_connection(rabbitmq: node.Broker) -> None:
    """RabbitMQ ends a connection that is silent for two to three intervals."""

    async def test() -> None:
        options = amqp091.ConnectionOptions(heartbeat=1)
        async with amqp091.connect(url_of(rabbitmq), options=options) as client:
            channel = await client.channel()
            await asyncio.sleep(4)
            await channel.declare_queue("", exclusive=True)
            assert client.connections == 1

    run(test())


def test_the_server_closes_the_connection(rabbitmq: node.Broker) -> None:
    async def test() -> None:
        client = amqp091.connect(url_of(rabbitmq), properties={"connection_name": "to be closed"})
        await client.open()
        channel = await client.channel()
        assert node.CONTROL is not None
        await asyncio.to_thread(
            subprocess.run,
            [node.CONTROL, "close_all_connections", "maintenance"],
            env=rabbitmq.environment,
            check=True,
            capture_output=True,
        )
        await until(lambda: not client.connected)
        with pytest.raises(Refused) as refused:
            await channel.declare_queue("q")
        assert refused.value.code == 320
        await client.close()

    run(test())


# ---- recovery


SOON = amqp091.Backoff(first=0.05, most=0.2)


def test_the_server_has_not_noticed_the_end_of_an_exclusive_consumer(rabbitmq: node.Broker) -> None:
    async def test() -> None:
        told: list[Any] = []
        async with Forwarder(rabbitmq.port) as forwarder:
            url = f"amqp://{node.USER}:{node.PASSWORD}@{HOST}:{forwarder.port}/"
            async with amqp091.connect(url, reconnect=SOON, on_event=told.append) as client:
                channel = await client.channel()
                for name in ("wirefmt-held", "wirefmt-free"):
                    await channel.declare_queue(name)
                held = await channel.consume("wirefmt-held", exclusive=True)
                free = await channel.consume("wirefmt-free")
                link = client._link
                assert link is not None
                forwarder.silence()
                link.driver.abort()
                await until(lambda: sum(isinstance(event, NotRestored) for event in told) >= 3)
                for _ in range(10):  # the dead connection has a consumer, too, and gets its share
                    await channel.publish(b"1", routing_key="wirefmt-free")
                message = await anext(free)
                assert (message.body, message.ack()) == (b"1", True)
                for half in list(forwarder.halves):
                    if half.silent and half.transport is not None:
                        half.transport.abort()
                refused = [event for event in told if isinstance(event, NotRestored)]
                assert {(e.entity, e.error.code, e.action) for e in refused} == {(held, 403, "retry")}
                await channel.publish(b"2", routing_key="wirefmt-held")
                message = await anext(held)
                assert (message.body, message.ack()) == (b"2", True)
                assert client.connections == 2
                for name in ("wirefmt-held", "wirefmt-free"):
                    await channel.delete_queue(name)

    run(test())


def test_what_the_server_removes_stays_away(rabbitmq: node.Broker) -> None:
    async def test() -> None:
        async with amqp091.connect(url_of(rabbitmq), reconnect=SOON) as client:
            channel = await client.channel()
            await channel.declare_exchange("wirefmt-auto", "fanout", auto_delete=True)
            for name in ("wirefmt-used", "wirefmt-unused", "wirefmt-deleted"):
                await channel.declare_queue(name, auto_delete=True)
            await channel.bind_queue("wirefmt-used", "wirefmt-auto")
            await (await channel.consume("wirefmt-used")).cancel()
            gone = await channel.consume("wirefmt-deleted")
            async with amqp091.connect(url_of(rabbitmq)) as other:
                await (await other.channel()).delete_queue("wirefmt-deleted")
            with pytest.raises(Refused):
                await anext(gone)
            found: list[str] = []
            for connections in (1, 2):
                await until(lambda count=connections: client.connections == count and client.connected)
                for name in ("wirefmt-used", "wirefmt-unused", "wirefmt-deleted", "wirefmt-auto"):
                    probe = await client.channel()
                    with contextlib.suppress(Refused):
                        if name.endswith("auto"):
                            await probe.declare_exchange(name, "fanout", passive=True)
                        else:
                            await probe.declare_queue(name, passive=True)
                        found.append(name)
                link = client._link
                assert link is not None
                link.driver.abort()
            assert found == ["wirefmt-unused"] * 2
            await channel.delete_queue("wirefmt-unused")

    run(test())


def test_a_message_that_is_too_large_ends_its_consumer_only(rabbitmq: node.Broker) -> None:
    async def test() -> None:
        options = amqp091.ConnectionOptions(body_size=1000)
        async with amqp091.connect(url_of(rabbitmq), reconnect=SOON, options=options) as client:
            channel = await client.channel()
            for name in ("wirefmt-large", "wirefmt-small"):
                await channel.declare_queue(name)
            large, small = await channel.consume("wirefmt-large"), await channel.consume("wirefmt-small")
            for name, size in (("wirefmt-large", 5000), ("wirefmt-small", 10)):
                await channel.publish(b"x" * size, routing_key=name)
            with pytest.raises(ConnectionLost, match="wirefmt-large"):
                await anext(large)
            message = await anext(small)
            while not message.ack():
                message = await anext(small)
            assert client.connections == 2
            for name in ("wirefmt-large", "wirefmt-small"):
                await channel.delete_queue(name)

    run(test())


# ---- requests


def test_requests(rabbitmq: node.Broker) -> None:
    """Direct reply-to, with a server of requests that answers in any order."""

    async def serve(client: amqp091.Client, ready: asyncio.Event) -> None:
        channel = await client.channel()
        await channel.declare_queue("wirefmt-rpc", exclusive=True)
        consumer = await channel.consume("wirefmt-rpc")
        ready.set()
        waiting: list[Any] = []
        async for message in consumer:
            message.ack()
            waiting.append(message)
            if len(waiting) == 10:
                for request in reversed(waiting):
                    properties = amqp091.BasicProperties(correlation_id=request.properties.correlation_id)
                    reply_to = request.properties.reply_to
                    assert reply_to is not None
                    await channel.publish(b"re: " + request.body, routing_key=reply_to, properties=properties)
                waiting.clear()

    async def test() -> None:
        async with (
            amqp091.connect(url_of(rabbitmq)) as other,
            amqp091.connect(url_of(rabbitmq), reconnect=SOON) as client,
        ):
            ready = asyncio.Event()
            server = asyncio.create_task(serve(other, ready))
            await ready.wait()
            bodies = [b"%d" % k for k in range(100)]
            for connections in (1, 2):
                await until(lambda count=connections: client.connections == count and client.connected)
                replies = await asyncio.gather(*(client.request(b, routing_key="wirefmt-rpc") for b in bodies))
                assert [reply.body for reply in replies] == [b"re: " + body for body in bodies]
                link = client._link
                assert link is not None
                link.driver.abort()
            await until(lambda: client.connections == 3 and client.connected)
            with pytest.raises(Refused) as refused:
                await client.request(b"x", routing_key="wirefmt-nobody")
            assert refused.value.code == 312
            with pytest.raises(Refused) as refused:
                await client.request(b"x", exchange="wirefmt-gone")
            assert refused.value.code == 404
            with pytest.raises(TimeoutError):
                await client.request(b"x", routing_key="wirefmt-rpc", timeout=0.1)
            server.cancel()
            await asyncio.wait([server])

    run(test())


def test_a_type_of_exchange_that_the_server_does_not_know(rabbitmq: node.Broker) -> None:
    """RabbitMQ 3 ends the connection for it (503), 4 the channel (406): it costs the call, and other channels go on."""

    async def test() -> None:
        async with amqp091.connect(url_of(rabbitmq), reconnect=SOON) as client:
            channel, other = await client.channel(), await client.channel()
            queue = str((await channel.declare_queue(exclusive=True)).queue)
            consumer = await channel.consume(queue)
            with pytest.raises(Refused) as refused:
                await other.declare_exchange("wirefmt-odd", "odd")
            assert refused.value.code in (503, 406)
            await channel.bind_queue(queue, "amq.fanout")
            await channel.publish(b"x", exchange="amq.fanout")
            assert (await anext(consumer)).body == b"x"

    run(test())
