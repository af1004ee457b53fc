"""`amqp091.connect` against RabbitMQ: declare, publish, confirm, return, consume, get, transactions, errors, reconnection."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from lib import rabbitmq as node
from lib.loopback import HOST, run, until
from wirefmt import amqp091
from wirefmt.errors import Refused

pytestmark = pytest.mark.live


def url_of(broker: node.Broker) -> str:
    return f"amqp://{node.USER}:{node.PASSWORD}@{HOST}:{broker.port}/"


def test_publish_and_consume(rabbitmq: node.Broker) -> None:
    async def test() -> None:
        async with amqp091.connect(url_of(rabbitmq), properties={"connection_name": "wirefmt"}) as client:
            channel = await client.channel(prefetch=20)
            queue = (await channel.declare_queue("", exclusive=True)).queue
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
            calls = {
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
            queue = (await channel.declare_queue("", exclusive=True)).queue
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
            queue = (await channel.declare_queue("", exclusive=True)).queue
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
