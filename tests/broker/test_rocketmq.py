"""The RocketMQ broker in memory: its bounds, and what becomes of messages that fail again and again."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from lib.loopback import HOST, run, until
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


@pytest.mark.parametrize("waits", [False, True])
def test_a_message_without_room_for_what_a_pop_adds_becomes_a_dead_letter(waits: bool) -> None:
    """Properties have a length of two bytes, with a sign. A pop adds POP_CK. Other messages are popped, and others' pops wake."""

    async def test() -> None:
        async with served() as (broker, _, address), rocketmq.connect(address) as client:
            producer, consumer, other = client.producer("P"), client.pop_consumer("G"), client.pop_consumer("H")
            await producer.send(TOPIC, b"first")
            for one in (consumer, other):
                assert len(await one.pop(TOPIC, invisible=30.0)) == 1
            async with asyncio.TaskGroup() as group:
                if waits:
                    pops = [group.create_task(one.pop(TOPIC, invisible=30.0, wait=20.0)) for one in (consumer, other)]
                    await until(lambda: broker._waits.count == 2)
                for size in range(32_767, 0, -1):  # the largest that the broker stores
                    with contextlib.suppress(Refused):
                        await producer.send(TOPIC, b"large", properties={"K": "v" * size})
                        break
                await producer.send(TOPIC, b"x")
                if waits:
                    for pop in pops:
                        await pop
            await until(lambda: "%DLQ%G" in broker.topics or not waits)
            (popped,) = await consumer.pop(TOPIC, invisible=30.0, wait=5.0)
            assert popped.message.body == b"x"
            dead = [s for queue in broker.topics["%DLQ%G"] for s in queue.messages]
            assert [m.body for s in dead for m in rocketmq.decode_messages(s.frame)] == [b"large"]

    run(test())


def test_invisible_messages_are_bounded() -> None:
    async def test() -> None:
        async with served(popped=2, client_share=1) as (_, _, address), rocketmq.connect(address) as client:
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
        async with (
            served(memory=2000, client_share=1, delay=1000.0) as (broker, _, address),
            rocketmq.connect(address) as client,
        ):
            producer = client.producer("P")
            await producer.send(TOPIC, bytes(1000), delay_level=18)
            assert not any(queue.messages for queue in broker.topics[TOPIC])
            with pytest.raises(Refused):
                await producer.send(TOPIC, bytes(1000), delay_level=18)
        async with served(delay=0.001) as (broker, _, address), rocketmq.connect(address) as client:
            await client.producer("P").send(TOPIC, bytes(1000), delay_level=1)
            await until(lambda: any(queue.messages for queue in broker.topics[TOPIC]))
            assert 1000 < broker.shares.bytes < 2000

    run(test())


def test_a_new_group_starts_with_the_first_message_as_long_as_it_is_there() -> None:
    """As the real broker's ConsumerManageProcessor: a consumer that would begin with the last message, which is what most do,
    does not miss what was sent right before it came."""

    async def test() -> None:
        async with served(queue_messages=2) as (broker, server, address), rocketmq.connect(address) as client:

            async def asked(queue_id: int, zero: bool | None = None, topic: str = TOPIC) -> tuple[int, int | None]:
                header = rocketmq.QueryConsumerOffsetRequestHeader(
                    consumer_group="G", topic=topic, queue_id=queue_id, set_zero_if_not_found=zero
                )
                raw = rocketmq.RemotingCommand(code=14, header=header, opaque=77).encode()
                reader, writer = await asyncio.open_connection(HOST, server.port)
                writer.write(raw)
                size = await reader.readexactly(4)
                answer = rocketmq.decode(size + await reader.readexactly(int.from_bytes(size, "big")))
                writer.close()
                offset = dict(answer.ext_fields or {}).get("offset")
                return answer.code, None if offset is None else int(offset)

            producer = client.producer("P")
            assert await asked(0, topic="None") == (22, None)
            await producer.send(TOPIC, b"0")
            queues = broker.topics[TOPIC]
            (first,) = (number for number, queue in enumerate(queues) if queue.messages)
            assert await asked(first) == (0, 0)
            assert await asked(first, zero=True) == (0, 0)
            assert await asked(first, zero=False) == (22, None)  # QUERY_NOT_FOUND
            assert await asked(len(queues)) == (22, None)
            for n in range(3 * len(queues)):  # the first ones are dropped
                await producer.send(TOPIC, b"%d" % n)
            assert queues[first].base
            assert await asked(first) == (22, None)

    run(test())


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (222, rocketmq.ResetOffsetRequestHeader(group="g", topic="t", timestamp=-1, is_force=True)),
        (223, rocketmq.GetConsumerStatusRequestHeader(topic="t", group="g")),
        (9999, None),
    ],
)
def test_a_request_that_the_broker_does_not_serve(code: int, header: Any) -> None:
    """As the real broker answers a code that it does not know, with its remark."""

    async def test() -> None:
        async with served() as (_, server, _):
            reader, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(rocketmq.RemotingCommand(code=code, header=header, opaque=77).encode())
            size = await reader.readexactly(4)
            answer = rocketmq.decode(size + await reader.readexactly(int.from_bytes(size, "big")))
            assert (answer.opaque, answer.code) == (77, 3)
            assert answer.remark == f" request type {code} not supported"
            writer.close()

    run(test())
