"""Selectors and browsing over AMQP 1.0: what is answered, who gets what."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lib.amqp10_live import body, message, take
from lib.loopback import HOST, run, until
from wirefmt import amqp091, amqp10
from wirefmt.broker import Broker as Embedded
from wirefmt.broker.amqp10 import Broker
from wirefmt.broker.limits import Limits
from wirefmt.broker.routing import Router
from wirefmt.errors import Refused

SELECTOR = amqp10.Symbol("apache.org:selector-filter:string")


@contextlib.asynccontextmanager
async def served(**limits: Any) -> AsyncIterator[tuple[Broker, str, amqp10.Client]]:
    broker = Broker(router=Router(Limits(**limits)))
    async with await amqp10.serve(broker, HOST, 0) as server:
        url = f"amqp://{HOST}:{server.port}"
        async with amqp10.connect(url) as client:
            yield broker, url, client
    broker.close()


def coloured(number: int, **fields: Any) -> amqp10.Message:
    properties = {"n": number, "colour": "red" if number % 2 else "blue"}
    return message(b"%d" % number, application_properties=properties, **fields)


async def fill(client: amqp10.Client, count: int, address: str = "q") -> Any:
    sender = await client.sender(address)
    await asyncio.gather(*(sender.post(coloured(number)) for number in range(count)))
    return sender


async def drained(receiver: Any, credit: int = 1000) -> list[bytes]:
    receiver.grant(credit)
    await receiver.drain()
    return [body(receiver._inbox.popleft()) for _ in range(len(receiver._inbox))]


def test_the_answer_has_the_filters_that_there_are() -> None:
    """3.5.3: "the sending endpoint sets the filter actually in place"."""

    async def test() -> None:
        async with served() as (_, _, client):
            selector = amqp10.Described(SELECTOR, "colour = 'red'")
            asked = {
                amqp10.Symbol("mine"): selector,
                amqp10.Symbol("other"): amqp10.Described(
                    amqp10.Symbol("apache.org:no-local-filter:list"), amqp10.List()
                ),
                amqp10.Symbol("bad"): amqp10.Described(amqp10.Symbol("amqp:sql-filter"), "n ="),
            }
            receiver = await client.receiver(amqp10.Source(address="q", filter=asked))
            assert receiver.source.filter == {"mine": selector}
            assert receiver.source.distribution_mode == "move"
            browser = await client.receiver(amqp10.Source(address="q", distribution_mode="copy"))
            assert browser.source.filter is None
            assert browser.source.distribution_mode == "copy"

    run(test())


@pytest.mark.parametrize("text", ["colour =", "", "5", "colour LIKE x", "XPATH 'a'", "a" * 5000, 5])
def test_an_invalid_selector_is_refused_and_makes_no_queue(text: Any) -> None:
    """As Artemis does."""

    async def test() -> None:
        async with served() as (broker, _, client):
            source = amqp10.Source(address="q", filter={amqp10.Symbol("s"): amqp10.Described(SELECTOR, text)})
            with pytest.raises(Refused, match="invalid selector") as refused:
                await client.receiver(source)
            assert refused.value.code == "amqp:invalid-field"
            assert not broker.router.queues

    run(test())


def test_selected_messages_are_taken_and_the_others_wait() -> None:
    async def test() -> None:
        async with served() as (broker, _, client):
            sender = await fill(client, 20)
            queue = broker.router.queues["q"]
            red = await client.receiver("q", selector="colour = 'red' AND n > 10")
            assert await take(red, 5) == [b"11", b"13", b"15", b"17", b"19"]
            blue = await client.receiver("q", filter={"amqp:sql-filter": "colour = 'blue' AND n % 4 = 0"})
            assert await take(blue, 5) == [b"0", b"4", b"8", b"12", b"16"]
            properties = {"amqp:application-properties-filter": {"colour": "red", "n": 3}}
            three = await client.receiver("q", filter=properties)
            assert await take(three, 1) == [b"3"]
            await sender.send(coloured(31))
            assert await take(red, 1) == [b"31"]
            assert queue.count == 9
            rest = await client.receiver("q", credit=0)
            assert await drained(rest) == [b"1", b"2", b"5", b"6", b"7", b"9", b"10", b"14", b"18"]

    run(test())


def test_released_messages_are_selected_again() -> None:
    async def test() -> None:
        async with served() as (_, url, client), amqp10.connect(url) as other:
            await fill(client, 10)
            holder = await other.receiver("q", settle="manual", credit=0)
            holder.grant(10)
            held = [await holder.receive() for _ in range(10)]
            red = await client.receiver("q", selector="colour = 'red'", credit=100)
            holder.release(held[3])
            assert await take(red, 1) == [b"3"]
            holder.modify(held[5], delivery_failed=True)
            delivery = await red.receive()
            assert body(delivery) == b"5"
            assert delivery.message.header.delivery_count == 1
            again = await client.receiver("q", selector="JMSRedelivered AND n > 5")
            holder.modify(held[8], delivery_failed=True)
            assert await take(again, 1) == [b"8"]

    run(test())


@pytest.mark.parametrize("settled", [True, False])
def test_a_browser_changes_nothing(settled: bool) -> None:
    async def test() -> None:
        async with served() as (broker, _, client):
            sender = await fill(client, 6)
            queue = broker.router.queues["q"]
            fields: dict[str, Any] = {"snd_settle_mode": 1} if settled else {}
            browser = await client.receiver("q", browse=True, settle="manual", credit=100, **fields)
            deliveries = [await browser.receive() for _ in range(6)]
            assert [body(delivery) for delivery in deliveries] == [b"0", b"1", b"2", b"3", b"4", b"5"]
            if not settled:
                browser.accept(deliveries[0])
                browser.reject(deliveries[1])
                browser.release(deliveries[2])
                browser.modify(deliveries[3], delivery_failed=True, undeliverable_here=True)
                async with client.transaction() as transaction:
                    browser.accept(deliveries[4], transaction=transaction)
            await sender.send(coloured(6))  # it waits for new ones
            assert await take(browser, 1) == [b"6"]
            await browser.close()
            assert queue.count == 7
            every = await client.receiver("q")
            for number in range(7):
                delivery = await every.receive()
                assert body(delivery) == b"%d" % number
                assert not delivery.message.header.delivery_count
            await every.close()  # which accepts the last one

    run(test())


def test_browsing_with_a_selector_and_drain() -> None:
    async def test() -> None:
        async with served() as (broker, _, client):
            await fill(client, 20)
            browser = await client.receiver("q", browse=True, selector="n BETWEEN 3 AND 5", credit=0)
            assert await drained(browser) == [b"3", b"4", b"5"]
            assert await drained(browser) == []
            some = await client.receiver("q", browse=True, credit=0)
            assert await drained(some, 2) == [b"0", b"1"]
            assert await drained(some, 2) == [b"2", b"3"]
            assert broker.router.queues["q"].count == 20

    run(test())


def test_drain_ends_after_a_long_search() -> None:
    """It is answered when all messages have been looked at, which takes several turns."""

    async def test() -> None:
        async with served() as (broker, _, client):
            await fill(client, 3000)
            last = await client.receiver("q", selector="n = 2999", credit=0)
            assert await drained(last) == [b"2999"]
            nobody = await client.receiver("q", selector="n = 5000", credit=0)
            assert await drained(nobody) == []
            assert nobody.link.credit == 0
            assert broker.router.queues["q"].count == 2999

    run(test())


def test_drain_waits_for_the_transport() -> None:
    """A receiver that reads slowly gets all that there is before it receives the answer."""

    async def test() -> None:
        async with served() as (broker, _, client):
            sender = await client.sender("q")
            await asyncio.gather(*(sender.post(message(bytes(100_000))) for _ in range(100)))
            receiver = await client.receiver("q", credit=0)
            assert len(await drained(receiver)) == 100
            assert broker.router.queues["q"].count == 0

    run(test())


def test_a_link_that_ends_while_it_looks() -> None:
    async def test() -> None:
        async with served() as (broker, url, client):
            await fill(client, 3000)
            async with amqp10.connect(url) as other:
                for number in range(5):
                    receiver = await other.receiver("q", selector=f"n = {5000 + number}")
                    await receiver.close()
                await other.receiver("q", selector="n = 6000")
            queue = broker.router.queues["q"]
            await until(lambda: not queue.consumers)
            assert not queue._views
            assert not queue._looking
            assert queue.count == 3000
            broker.router.delete_queue(queue)
            assert broker.router.shares.bytes == 0

    run(test())


def test_filters_count_as_memory() -> None:
    async def test() -> None:
        async with served(memory=1_000_000) as (_, _, client):
            selector = " OR ".join(f"n = {number}" for number in range(200))

            async def attach() -> None:
                for number in range(100):
                    await client.receiver("q", selector=f"{selector} OR n = {number}")

            with pytest.raises(Refused, match="no space for another filter") as refused:
                await attach()
            assert refused.value.code == "amqp:precondition-failed"

    run(test())


def test_messages_of_other_protocols_are_selected() -> None:
    async def test() -> None:
        async with (
            Embedded(ports={"amqp": 0, "amqp10": 0}) as b,
            amqp091.connect(b.url("amqp")) as old,
            amqp10.connect(b.url("amqp10")) as client,
        ):
            channel = await old.channel()
            await channel.declare_queue("q")
            for number in range(4):
                headers = {"n": number}
                properties = amqp091.BasicProperties(headers=headers, type="t" if number % 2 else "u")
                await channel.publish(b"%d" % number, routing_key="q", properties=properties)
            receiver = await client.receiver("q", selector="n > 0 AND \"m.x-basic-type\" = 't'")
            assert await take(receiver, 2) == [b"1", b"3"]
            assert [bytes(one.body) for one in b.queue("q")] == [b"0", b"2"]

    run(test())
