"""`amqp10.connect` against RabbitMQ's 1.0 plugin: links, outcomes, credit, large messages, windows, and their ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lib import amqp10_live
from lib.amqp10_live import body, message, take
from lib.loopback import HOST, run
from lib.rabbitmq import PASSWORD, USER, Broker
from wirefmt import amqp10
from wirefmt.connection.sasl import Anonymous, Plain
from wirefmt.errors import Refused

pytestmark = pytest.mark.live


def client(broker: Broker, **arguments: Any) -> amqp10.Client:
    return amqp10.connect(f"amqp://{USER}:{PASSWORD}@{HOST}:{broker.port}", **arguments)


@pytest.mark.parametrize(
    "does", [amqp10_live.send_and_receive, amqp10_live.settled_both_ways, amqp10_live.a_message_in_parts]
)
def test_what_any_broker_does(rabbitmq: Broker, does: Any) -> None:
    async def test() -> None:
        async with client(rabbitmq) as ours:
            await does(ours, f"/queue/live-10-{does.__name__}")

    run(test())


@pytest.mark.parametrize("sasl", [Anonymous(), Plain(USER, PASSWORD), ()])
def test_every_way_to_log_in(rabbitmq: Broker, sasl: Any) -> None:
    async def test() -> None:
        async with client(rabbitmq, sasl=sasl) as ours:
            sender = await ours.sender("/queue/live-10-login")
            assert await sender.send(message(b"x")) == amqp10.Accepted()

    run(test())


def test_a_wrong_password(rabbitmq: Broker) -> None:
    async def test() -> None:
        with pytest.raises(Refused) as refused:
            await client(rabbitmq, sasl=Plain(USER, "wrong")).open()
        assert refused.value.code == 1

    run(test())


def test_outcomes_of_a_receiver(rabbitmq: Broker) -> None:
    async def test() -> None:
        async with client(rabbitmq) as ours:
            sender = await ours.sender("/queue/live-10-outcomes")
            receiver = await ours.receiver("/queue/live-10-outcomes", settle="manual", credit=1)
            await sender.send(message(b"1"))
            first = await receiver.receive()
            receiver.release(first)
            again = await receiver.receive()
            assert body(again) == b"1"
            receiver.reject(again)
            await sender.send(message(b"2"))
            assert await take(receiver, 1) == [b"2"]

    run(test())


def test_credit_and_drain(rabbitmq: Broker) -> None:
    """The plugin of 3.10 answers drain before it has the messages of the queue. A receiver gets them anyway."""

    async def test() -> None:
        async with client(rabbitmq) as ours:
            sender = await ours.sender("/queue/live-10-credit")
            for n in range(5):
                await sender.send(message(b"%d" % n))
            receiver = await ours.receiver("/queue/live-10-credit", credit=0)
            receiver.grant(2)
            assert await take(receiver, 2) == [b"0", b"1"]
            receiver.grant(3)
            assert await take(receiver, 3) == [b"2", b"3", b"4"]

    run(test())


def test_many_links_and_names_used_again(rabbitmq: Broker) -> None:
    async def test() -> None:
        async with client(rabbitmq) as ours:
            for n in range(3):
                async with await ours.sender(f"/queue/live-10-{n}", name="same") as sender:
                    assert await sender.send(message(b"x")) == amqp10.Accepted()
            senders = [await ours.sender(f"/queue/live-10-many-{n}") for n in range(20)]
            assert set(await asyncio.gather(*(s.send(message(b"y")) for s in senders))) == {amqp10.Accepted()}

    run(test())


def test_reconnection(rabbitmq: Broker) -> None:
    async def test() -> None:
        backoff = amqp10.Backoff(first=0.05, most=0.2)
        async with client(rabbitmq, reconnect=backoff) as ours:
            sender = await ours.sender("/queue/live-10-again")
            receiver = await ours.receiver("/queue/live-10-again")
            await sender.send(message(b"1"))
            assert await take(receiver, 1) == [b"1"]
            assert ours._link is not None
            ours._link.driver.abort()
            await sender.send(message(b"2"))
            bodies = await take(receiver, 1)
            if bodies == [b"1"]:  # its acceptance was lost
                bodies = await take(receiver, 1)
            assert bodies == [b"2"]
            assert ours.connections == 2

    run(test())
