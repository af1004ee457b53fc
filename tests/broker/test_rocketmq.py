"""The RocketMQ broker in memory: its bounds, and what becomes of messages that fail again and again."""

from __future__ import annotations

import pytest

from lib.loopback import run, until
from lib.rocketmq_served import served
from wirefmt import rocketmq
from wirefmt.broker.rocketmq import MOST_RETRIES
from wirefmt.errors import Refused

TOPIC = "Topic"


def test_a_message_that_is_popped_too_often_becomes_a_dead_letter() -> None:
    async def test() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            consumer = client.pop_consumer("G")
            await client.producer("P").send(TOPIC, b"x")
            for attempt in range(MOST_RETRIES + 1):
                (popped,) = await consumer.pop(TOPIC, invisible=0.001, wait=20.0)
                assert popped.message.reconsume_times == attempt
            await until(lambda: "%DLQ%G" in broker.topics)
            (dead,) = [
                m
                for queue in broker.topics["%DLQ%G"]
                for s in queue.messages
                for m in rocketmq.decode_messages(s.frame)
            ]
            assert dead.body == b"x"
            assert await consumer.pop(TOPIC, wait=0.01) == []

    run(test())


def test_invisible_messages_are_bounded() -> None:
    async def test() -> None:
        async with served(popped=2) as (_, _, address), rocketmq.connect(address) as client:
            consumer = client.pop_consumer("G")
            for n in range(3):
                await client.producer("P").send(TOPIC, b"%d" % n)
            popped = await consumer.pop(TOPIC, invisible=30.0)
            assert len(popped) == 2
            assert await consumer.pop(TOPIC, invisible=30.0, wait=0.01) == []
            await consumer.ack(popped[0])
            assert len(await consumer.pop(TOPIC, invisible=30.0)) == 1

    run(test())


def test_delayed_messages_count() -> None:
    async def test() -> None:
        async with served(stored_bytes=1500, delay=1000.0) as (broker, _, address), rocketmq.connect(address) as client:
            producer = client.producer("P")
            await producer.send(TOPIC, bytes(1000), delay_level=18)
            assert not any(queue.messages for queue in broker.topics[TOPIC])
            with pytest.raises(Refused):
                await producer.send(TOPIC, bytes(1000), delay_level=18)
        async with served(delay=0.001) as (broker, _, address), rocketmq.connect(address) as client:
            await client.producer("P").send(TOPIC, bytes(1000), delay_level=1)
            await until(lambda: any(queue.messages for queue in broker.topics[TOPIC]))
            assert 1000 < broker.stored_bytes < 1500

    run(test())
