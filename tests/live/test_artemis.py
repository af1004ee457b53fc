"""`amqp10.connect` against ActiveMQ Artemis."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lib import amqp10_live, selector_cases
from lib.amqp10_live import body, message, take
from lib.java import BRIEF, class_path
from lib.kinds import checked
from lib.loopback import HOST, run
from wirefmt import amqp10
from wirefmt.connection.sasl import Anonymous, Plain
from wirefmt.errors import Refused

pytestmark = pytest.mark.live

JARS = os.environ.get("WIREFMT_ARTEMIS", "")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    how = "mvn -f tests/live/artemis/pom.xml dependency:copy-dependencies -DoutputDirectory=DIR; WIREFMT_ARTEMIS=DIR"
    folder = tmp_path_factory.mktemp("artemis")
    path = class_path(JARS, Path(__file__).parent / "artemis", folder, "ActiveMQ Artemis", how)
    command = ["java", *BRIEF, "-cp", path, "Artemis", "0", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline().split()
            assert said[0] == b"up"
            yield int(said[1])
        finally:
            process.kill()


def client(port: int, **arguments: Any) -> amqp10.Client:
    return amqp10.connect(f"amqp://{HOST}:{port}", **arguments)


@pytest.mark.parametrize("sasl", [Anonymous(), Plain("any", "body"), ()])
def test_send_and_receive(port: int, sasl: Any) -> None:
    async def test() -> None:
        async with client(port, sasl=sasl) as ours:
            await amqp10_live.send_and_receive(ours, "send")

    run(test())


@pytest.mark.parametrize(
    "does", [amqp10_live.settled_both_ways, amqp10_live.credit_and_drain, amqp10_live.a_message_in_parts]
)
def test_what_any_broker_does(port: int, does: Any) -> None:
    async def test() -> None:
        async with client(port) as ours:
            await does(ours, does.__name__)

    run(test())


def test_outcomes(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            failed = await amqp10_live.outcomes(ours, "outcomes")
            assert failed.message.header.delivery_count == 1

    run(test())


def test_transactions(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            sender = await ours.sender("tx")
            transaction = ours.transaction()
            await transaction.__aenter__()
            await sender.send(message(b"rolled back"), transaction=transaction)
            await transaction.__aexit__(ZeroDivisionError)
            async with ours.transaction() as transaction:
                await sender.send(message(b"committed"), transaction=transaction)
            receiver = await ours.receiver("tx", settle="manual")
            delivery = await receiver.receive()
            assert body(delivery) == b"committed"
            async with ours.transaction() as transaction:
                receiver.accept(delivery, transaction=transaction)
            await receiver.drain()
            receiver.link.keep(0)
            await receiver.close()
            rest = await ours.receiver("tx", credit=0)
            rest.grant(1)
            await rest.drain()
            assert rest.link.credit == 0
            assert not rest._inbox

    run(test())


def test_dynamic_nodes_and_the_anonymous_terminus(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            receiver = await ours.receiver(amqp10.Source(dynamic=True))
            sender = await ours.sender(amqp10.Target())
            properties = amqp10.Properties(to=receiver.source.address)
            await sender.send(message(b"x", properties=properties))
            assert await take(receiver, 1) == [b"x"]

    run(test())


def test_selectors(port: int) -> None:
    """What it says of each is what tests/data/amqp10 has, and our broker says the same (tests/broker/test_selectors.py)."""

    async def test() -> None:
        async with client(port) as ours:
            await selector_cases.publish(ours, "selectors")
            rows = selector_cases.recorded("selectors.jsonl")
            found: list[Any] = []
            for text, _ in rows:
                try:
                    found.append((text, await selector_cases.chosen(ours, "selectors", selector=text)))
                except Refused as refused:
                    found.append((text, refused.code))
            assert found == rows

    run(test())


def test_a_browser_and_what_is_ignored(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            sender = await ours.sender("browsed")
            await sender.send(message(b"1"))
            browser = await ours.receiver("browsed", browse=True)
            assert await take(browser, 1) == [b"1"]
            await sender.send(message(b"2"))  # Artemis does not show it to this one
            again = await ours.receiver("browsed", browse=True, credit=0)
            again.grant(10)
            await again.drain()
            assert await take(again, 2) == [b"1", b"2"]
            await browser.close()
            await again.close()
            with pytest.raises(Refused, match="ignores the filter sql-filter"):
                await ours.receiver("browsed", filter={"amqp:sql-filter": "n = 5"})
            assert await take(await ours.receiver("browsed"), 2) == [b"1", b"2"]

    run(test())


def test_a_full_address(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            sender = await ours.sender("small")
            sent = [sender.post(message(b"%d" % n)) for n in range(10)]
            done = await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), 10)
            assert done[0] == amqp10.Accepted()
            assert isinstance(done[-1], Refused)

    run(test())


def test_reconnection_and_a_journal(port: int, tmp_path: Path) -> None:
    async def test() -> None:
        again = amqp10.Backoff(first=0.05, most=0.2)
        journal = tmp_path / "journal.db"
        async with client(port, reconnect=again, journal=journal, container_id="meter") as ours:
            sender = await ours.sender("again")
            await sender.send(message(b"1"))
            waiting = [sender.post(message(b"%d" % n)) for n in range(2, 50)]
            await asyncio.sleep(0)
            assert ours._link is not None
            ours._link.driver.abort()
            await asyncio.gather(*waiting)
            assert ours.connections == 2
            receiver = await ours.receiver("again")
            found: list[bytes] = []
            while b"49" not in found:
                found += await take(receiver, 1)
            assert list(dict.fromkeys(found)) == [b"%d" % n for n in range(1, 50)]
        async with client(port, journal=journal, container_id="meter") as ours:
            assert not ours._earlier

    run(test())


def test_requests(port: int) -> None:
    """Over a dynamic node for the replies."""

    async def test() -> None:
        async with client(port) as other, client(port) as ours:
            receiver, sender = await other.receiver("rpc"), await other.sender(amqp10.Target())

            async def respond() -> None:
                async for delivery in receiver:
                    asked = delivery.message.properties
                    properties = amqp10.Properties(to=asked.reply_to, correlation_id=asked.message_id)
                    await sender.send(amqp10.Message(properties=properties, body=body(delivery).upper()))

            responder = asyncio.create_task(respond())
            replies = await asyncio.gather(*(ours.request("rpc", message(b"m%d" % n)) for n in range(100)))
            assert [bytes(checked(reply.payload, memoryview)) for reply in replies] == [b"M%d" % n for n in range(100)]
            with pytest.raises(TimeoutError):
                await ours.request("nobody", message(b"x"), timeout=0.3)
            responder.cancel()
            await asyncio.gather(responder, return_exceptions=True)

    run(test())


def test_a_link_that_is_refused_leaves_the_others_alone(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            senders = [await ours.sender(f"spread-{n}") for n in range(4)]
            posted = [sender.post(message(b"x")) for sender in senders for _ in range(1000)]
            with pytest.raises(Refused):
                await ours.receiver(None)
            assert set(await asyncio.gather(*posted)) == {amqp10.Accepted()}

    run(test())
