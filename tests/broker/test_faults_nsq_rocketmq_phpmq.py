"""Effects of injected faults on clients of NSQ, RocketMQ and PHPMQ: ansq for NSQ, and our own."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from lib.loopback import HOST, run, until
from lib.skips import imported
from wirefmt import nsq, phpmq, rocketmq
from wirefmt.broker import Broker


async def ansq_connection(b: Broker) -> Any:
    ansq = imported("ansq")
    options = ansq.ConnectionOptions(auto_reconnect=False)
    return await ansq.open_connection(HOST, b.port("nsq"), connection_options=options)


def test_nsq() -> None:
    """Without room, PUB is answered with E_PUB_FAILED. With a lost acknowledgement it has no answer."""

    async def test() -> None:
        async with Broker(ports={"nsq": 0}) as b:
            client = await ansq_connection(b)
            with b.fault("nsq", duplicate=1):
                assert (await client.pub("orders", "0")).body == b"OK"
            assert [m.body for m in b.queue("orders", "nsq")] == [b"0", b"0"]
            with b.fault("nsq", lose_acknowledgements=1) as fault:
                lost = asyncio.ensure_future(client.pub("orders", "1"))
                await until(lambda: fault.happened)
                assert len(b.queue("orders", "nsq")) == 3
                assert not lost.done()
            lost.cancel()
            await client.close()
            client = await ansq_connection(b)
            with b.fault("nsq", full="disk"):
                assert "E_PUB_FAILED" in repr(await client.pub("orders", "2"))
            await client.close()
            client = await ansq_connection(b)
            with b.fault("nsq", cut_after=1):
                waiting = asyncio.ensure_future(client.pub("orders", "3"))
                await until(lambda: client.is_closed)
            waiting.cancel()
            assert [m.body for m in b.queue("orders", "nsq")] == [b"0", b"0", b"1", b"3"]
            with b.fault("nsq", refuse=True), pytest.raises(Exception, match=r".*"):
                await ansq_connection(b)

    run(test())


def test_rocketmq() -> None:
    """Without room, the answer is SYSTEM_BUSY (2). With a lost acknowledgement the message is stored and its sender waits."""

    async def test() -> None:
        async with Broker(ports={"rocketmq": 0}) as b:
            stored = b.topic("Topic", "rocketmq")
            async with rocketmq.connect(b.url("rocketmq")) as client:
                producer = client.producer("group")
                await producer.send("Topic", b"0")
                with b.fault("rocketmq", duplicate=1):
                    await producer.send("Topic", b"1")
                assert sorted(m.body for m in stored) == [b"0", b"1", b"1"]
                with b.fault("rocketmq", full="memory"), pytest.raises(Exception, match="busy"):
                    await producer.send("Topic", b"2")
                with b.fault("rocketmq", lose_acknowledgements=1) as fault:
                    sending = asyncio.ensure_future(producer.send("Topic", b"3"))
                    await until(lambda: fault.happened)
                    assert len(stored) == 4
                    assert not sending.done()
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)

    run(test())


def test_phpmq() -> None:
    """The protocol has no refusal, so the client is disconnected. Its messages are counted and repeated."""

    async def test() -> None:
        async with Broker(ports={"phpmq": 0}) as b:
            async with phpmq.connect(b.url("phpmq")) as client:
                with b.fault("phpmq", duplicate=1):
                    await client.publish("list", b"0")
                    assert len(await b.queue("list", "phpmq").wait(2)) == 2
                with b.fault("phpmq", cut_after=1):
                    await client.publish("list", b"1")
                    await until(lambda: not b.clients)
            with b.fault("phpmq", full="disk") as fault:
                async with phpmq.connect(b.url("phpmq")) as client:
                    await client.publish("list", b"2")
                    await until(lambda: not b.clients)
            assert fault.happened == 1
            assert [m.body for m in b.queue("list", "phpmq")] == [b"0", b"0", b"1"]

    run(test())


@pytest.mark.parametrize("protocol", ["nsq", "rocketmq"])
def test_nothing_is_remembered_while_messages_are_not_counted(protocol: str) -> None:
    """With `delay` no request of a client is kept. With `stall_after` each is kept until it is answered."""

    async def test() -> None:
        async with Broker(ports={protocol: 0}) as b, contextlib.AsyncExitStack() as stack:
            if protocol == "nsq":
                client: Any = await stack.enter_async_context(nsq.connect(b.url("nsq")))
                publish = client.publish
            else:
                address = b.url("rocketmq")
                publish = (await stack.enter_async_context(rocketmq.connect(address))).producer("group").send
            await publish("topic", b"0")
            for values in ({"delay": 0.001}, {"stall_after": 100}):
                with b.fault(protocol, **values):
                    await publish("topic", b"1")
                    (driver,) = b.servers[protocol].drivers
                    connection: Any = driver.connection
                    assert not connection.asked
                    assert not connection.requests

    run(test())


@pytest.mark.parametrize("delay", [None, 0.001])
def test_finished_messages_reach_the_broker(delay: float | None) -> None:
    """NSQ: the broker handles FIN commands together, and one by one while a fault is active."""

    async def test() -> None:
        async with Broker(ports={"nsq": 0}) as b, nsq.connect(b.url("nsq")) as client:
            with b.fault("nsq", delay=delay) if delay is not None else contextlib.nullcontext():
                for n in range(20):
                    await client.publish("t", b"%d" % n)
                async with client.consume("t", "c", max_in_flight=10) as messages:
                    for _ in range(20):
                        (await anext(messages)).finish()
                    await until(lambda: b.nsq.counts["finished"] == 20)
            assert b.nsq.shares.messages == b.nsq.shares.bytes == 0
            assert b.counts["nsq"] == 20

    run(test())
