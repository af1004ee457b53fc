"""Events that are too much for one iteration of the event loop are done in steps, which a broker that closes does not finish."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from lib.loopback import HOST, LOOP, run, until
from lib.turns import counted_turns
from wirefmt import amqp091, mqtt, nsq, rocketmq
from wirefmt.broker import Broker
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker.limits import Limits
from wirefmt.broker.topics import Sharing
from wirefmt.mqtt import Session

pytestmark = pytest.mark.skipif(LOOP is not None, reason="needs asyncio's own loop (unset WIREFMT_LOOP)")

#: Calls of functions that one iteration may take. What these floods do takes ten times as many.
MOST = 150_000

Flood = AsyncIterator[Callable[[], Any]]


async def opened(port: int, opening: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(opening)
    return reader, writer


async def amqp(broker: Broker, *methods: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection of AMQP 0.9.1 with channel 1; all that these methods do is done."""
    reader, writer = await opened(
        broker.port("amqp"),
        b"AMQP\0\0\x09\1"
        + amqp091.ConnectionStartOk(client_properties={}, response=b"\0guest\0guest").encode()
        + amqp091.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0).encode()
        + amqp091.ConnectionOpen(virtual_host="/").encode()
        + amqp091.ChannelOpen(channel=1).encode()
        + b"".join(method.encode() for method in methods),
    )
    await until(lambda: "q" in broker.router.queues)
    return reader, writer


def content(key: str) -> bytes:
    method = amqp091.BasicPublish(channel=1, exchange="", routing_key=key)
    return amqp091.BasicMessage(method, amqp091.BasicProperties(), b"").encode()


def declare(name: str, **arguments: Any) -> amqp091.QueueDeclare:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return amqp091.QueueDeclare(channel=1, queue=name, arguments=named, nowait=True)


# Each flood makes all ready, yields what says that it is over, and then sends what is much.


async def commit(broker: Broker) -> Flood:
    _, writer = await amqp(broker, declare("q"), amqp091.TxSelect(channel=1))
    writer.write(content("q") * 15_000)
    (session,) = broker.amqp._sessions.values()
    await until(lambda: len(session.transactions[1].messages) == 15_000)
    yield lambda: broker.router.queues["q"].count == 15_000
    writer.write(amqp091.TxCommit(channel=1).encode())
    yield writer.close


async def nack(broker: Broker) -> Flood:
    letters = [
        method
        for number in range(10)
        for method in (
            declare(f"d{number}", x_max_length=3),
            amqp091.QueueBind(channel=1, queue=f"d{number}", exchange="amq.fanout", nowait=True),
        )
    ]
    reader, writer = await amqp(broker, *letters, declare("q", x_dead_letter_exchange="amq.fanout"))
    writer.write(content("q") * 3000 + amqp091.BasicConsume(channel=1, queue="q", nowait=True).encode())
    queue = broker.router.queues["d9"]
    got = b""
    while got.count(b"\0\x3c\0\x3c") < 3000:
        got += await reader.read(1 << 20)
    yield lambda: queue._place == 3000
    writer.write(amqp091.BasicNack(channel=1, delivery_tag=0, multiple=True, requeue=False).encode())
    yield writer.close


async def requeue(broker: Broker) -> Flood:
    reader, writer = await amqp(broker, declare("q"))
    writer.write(content("q") * 30_000 + amqp091.BasicConsume(channel=1, queue="q", nowait=True).encode())
    got = b""
    while got.count(b"\0\x3c\0\x3c") < 30_000:
        got += await reader.read(1 << 20)
    yield lambda: broker.router.queues["q"].count == 30_000
    writer.close()
    yield lambda: None


async def expire(broker: Broker) -> Flood:
    _, writer = await amqp(broker, declare("q", x_message_ttl=3_600_000))
    writer.write(content("q") * 60_000)
    queue = broker.router.queues["q"]
    await until(lambda: queue.count == 60_000)
    yield lambda: queue.dropped == 60_000
    for item in queue._waiting:
        item.expires = 0.0
    queue._watch()
    yield writer.close


async def multi_publish(broker: Broker) -> Flood:
    subs = []
    for number in range(4):
        subs.append(await opened(broker.port("nsq"), b"  V2" + nsq.Sub(topic="t", channel=f"c{number}").encode()))
    await until(lambda: len(broker.nsq._channels) == 4)
    channels = broker.nsq.topics["t"].channels.values()
    yield lambda: all(len(channel.queue) == 50_000 for channel in channels)
    _, writer = await opened(broker.port("nsq"), b"  V2" + nsq.MultiPublish(topic="t", bodies=[b"x"] * 50_000).encode())

    def close() -> None:
        writer.close()
        for _, each in subs:
            each.close()

    yield close


async def batch(broker: Broker) -> Flood:
    body = rocketmq.encode_batch_messages([rocketmq.Message(body=b"", properties={})] * 15_000)
    header = rocketmq.SendMessageRequestHeader(
        producer_group="g", topic="T", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties="", batch=True,
    )  # fmt: skip
    yield lambda: "T" in broker.rocketmq.topics and len(broker.rocketmq.topics["T"][0]) == 15_000
    sent = rocketmq.RemotingCommand(code=10, header=header, body=body, opaque=1).encode()
    _, writer = await opened(broker.port("rocketmq"), sent)
    yield writer.close


async def filters(broker: Broker) -> Flood:
    wanted = [mqtt.Subscription(f"a/{number}") for number in range(9000)]
    yield lambda: "c" in broker.mqtt.subscribers and len(broker.mqtt.subscribers["c"].subscriptions) == 9000
    _, writer = await opened(
        broker.port("mqtt"),
        mqtt.Connect(client_identifier="c", version=5).encode()
        + mqtt.Subscribe(packet_identifier=1, subscriptions=wanted, version=5).encode(),
    )
    yield writer.close


async def retained(broker: Broker) -> Flood:
    """Copies that need more than forwarding."""
    many = [mqtt.Subscription(f"+/t/{'+/' * number}#") for number in range(1)]
    writers = []
    for number in range(100):
        _, writer = await opened(
            broker.port("mqtt"),
            mqtt.Connect(client_identifier=f"s{number}", version=5).encode()
            + mqtt.Subscribe(packet_identifier=1, subscriptions=many, version=5).encode(),
        )
        writers.append(writer)
    await until(lambda: sum(len(each.subscriptions) for each in broker.mqtt.subscribers.values()) == 100)
    _, writer = await opened(broker.port("mqtt"), mqtt.Connect(client_identifier="p", version=5).encode())
    yield lambda: broker.mqtt._publishing.work >= 8 * 100 * 300
    publish = mqtt.Publish(topic_name="a/t/", payload=b"x", retain=True, properties=[("content_type", "y")], version=5)
    writer.write(publish.encode() * 300)

    def close() -> None:
        for each in (*writers, writer):
            each.close()

    yield close


def subscribed(broker: Broker, count: int) -> None:
    """So many sessions without connections, with a subscription to "t"."""
    parts: Any = broker.mqtt
    for number in range(count):
        name = f"s{number}"
        subscriber = mqtt_broker.Subscriber(name, Session(), parts.shares.holder(None))
        subscription = mqtt_broker.Subscription(subscriber, mqtt.Subscription("t", qos=1), 1, None)
        subscriber.subscriptions["t"] = subscription
        parts.subscribers[name] = subscriber
        parts._subscriptions.index.add("t", subscription)


async def copies(broker: Broker, count: int = 15_000, **more: Any) -> Flood:
    """One message for many subscribers."""
    subscribed(broker, count)
    _, writer = await opened(broker.port("mqtt"), mqtt.Connect(client_identifier="p", version=5).encode())
    yield lambda: all(each.queue for each in broker.mqtt.subscribers.values() if each.identifier != "p")
    publish = mqtt.Publish(topic_name="t", payload=b"x", qos=1, packet_identifier=1, version=5, **more)
    writer.write(publish.encode())
    yield writer.close


async def shared(broker: Broker) -> Flood:
    """Messages for a share whose members are thought to take them, and cannot."""
    subscribed(broker, 15_000)
    subscriptions = broker.mqtt._subscriptions
    sharing: Sharing[mqtt_broker.Subscription] = Sharing(3)
    for each in broker.mqtt.subscribers.values():
        subscription = each.subscriptions["t"]
        subscription.shared = "g", "t"
        subscriptions.index.discard("t", subscription)
        sharing.add(subscription, "")
    subscriptions.shared["g", "t"] = sharing
    subscriptions.index.add("t", sharing)
    _, writer = await opened(broker.port("mqtt"), mqtt.Connect(client_identifier="p", version=5).encode())
    yield lambda: sharing.work >= 15_000
    writer.write(mqtt.Publish(topic_name="t", payload=b"x", version=5).encode() * 100)
    yield writer.close


def space(broker: Broker) -> Any:
    """A message for many, which none of them gets unless all have space for it."""
    broker.mqtt.options = dataclasses.replace(broker.mqtt.options, overflow="refuse")
    return copies(broker, 25_000)


def changed_copies(broker: Broker) -> Any:
    """The same, and each copy is one of its own."""
    return copies(broker, properties=[("content_type", "y")])


async def crossing(broker: Broker) -> Flood:
    """The same from AMQP."""
    subscribed(broker, 15_000)
    _, writer = await amqp(broker, declare("q"))
    yield lambda: all(each.queue for each in broker.mqtt.subscribers.values())
    method = amqp091.BasicPublish(channel=1, exchange="amq.topic", routing_key="t")
    writer.write(amqp091.BasicMessage(method, amqp091.BasicProperties(delivery_mode=2), b"").encode())
    yield writer.close


async def pulls(broker: Broker) -> Flood:
    """One message of RocketMQ for which 9,600 pulls wait."""
    broker.rocketmq.topic("T", 1)
    header = rocketmq.PullMessageRequestHeader(
        consumer_group="G", topic="T", queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=6, commit_offset=0,
        suspend_timeout_millis=50_000, subscription="*", sub_version=0,
    )  # fmt: skip
    waiting = b"".join(rocketmq.RemotingCommand(code=11, header=header, opaque=n).encode() for n in range(2400))
    writers = [(await opened(broker.port("rocketmq"), waiting))[1] for _ in range(4)]
    await until(lambda: broker.rocketmq._waits.count == 9600)
    yield lambda: not broker.rocketmq._waits.count
    sent = rocketmq.SendMessageRequestHeader(
        producer_group="g", topic="T", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties="",
    )  # fmt: skip
    _, writer = await opened(
        broker.port("rocketmq"), rocketmq.RemotingCommand(code=10, header=sent, body=b"x", opaque=1).encode()
    )

    def close() -> None:
        for each in (*writers, writer):
            each.close()

    yield close


def beat(client: str, groups: int, expression: str = "*") -> bytes:
    """A heartbeat of a consumer in so many groups."""
    wanted = [rocketmq.SubscriptionData(topic="T", sub_string=expression, sub_version=1)]
    consumers = [rocketmq.ConsumerData(group_name=f"g{n}", subscription_data_set=wanted) for n in range(groups)]
    body = rocketmq.HeartbeatData(client_id=client, producer_data_set=[], consumer_data_set=consumers).encode()
    return rocketmq.RemotingCommand(code=34, body=body, opaque=1).encode()


async def rebalance(broker: Broker) -> Flood:
    """RocketMQ: 60 groups of 200 members, and one that changes all its subscriptions."""
    _, writer = await opened(broker.port("rocketmq"), b"".join(beat(f"c{n}", 60) for n in range(200)))
    members = broker.rocketmq.consumers
    await until(lambda: len(members) == 60 and len(members["g59"]) == 200 and not broker.rocketmq._groups.notifying)
    yield lambda: members["g59"]["c0"].topics["T"].expression == "a" and not broker.rocketmq._groups.notifying
    writer.write(beat("c0", 60, "a"))
    yield writer.close


FLOODS: tuple[Any, ...] = (commit, nack, requeue, expire, multi_publish, batch, filters, retained)
FLOODS += (copies, changed_copies, space, shared, crossing, pulls, rebalance)


def made() -> Broker:
    return Broker(
        ports={"mqtt": 0, "amqp": 0, "nsq": 0, "rocketmq": 0}, limits=Limits(queue_messages=100_000), grace=0.0
    )


@pytest.mark.parametrize("flood", FLOODS)
def test_no_iteration_of_the_loop_does_more_than_its_work(flood: Callable[[Broker], Any]) -> None:
    async def test() -> None:
        async with made() as broker, aclosing(flood(broker)) as steps:
            over = await anext(steps)
            with counted_turns() as turns:
                close = await anext(steps)
                await until(over)
            assert turns.most < MOST, f"{turns.most} calls of {turns.calls} in one iteration"
            close()

    run(test())


@pytest.mark.parametrize("flood", FLOODS)
def test_a_broker_that_closes_does_not_finish_what_is_much(flood: Callable[[Broker], Any]) -> None:
    async def test() -> None:
        broker = made()
        await broker.start()
        async with aclosing(flood(broker)) as steps:
            over = await anext(steps)
            close = await anext(steps)
            idle = broker.router.work
            await until(lambda: broker.router.work != idle or any(each._late for each in drivers(broker)) or over())
            with counted_turns() as turns:
                await broker.close()
            assert turns.calls < 3 * MOST
            close()

    run(test())


def drivers(broker: Broker) -> list[Any]:
    return [driver for server in broker.servers.values() for driver in server.drivers]
