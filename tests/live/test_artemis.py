"""`amqp10.connect` against ActiveMQ Artemis."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, run
from wirefmt import amqp10
from wirefmt.connection.sasl import Anonymous, Plain
from wirefmt.errors import Refused

pytestmark = pytest.mark.live

JARS = os.environ.get("WIREFMT_ARTEMIS", "")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if shutil.which("javac") is None:
        pytest.skip("needs javac (apt install openjdk-17-jdk-headless)")
    if not JARS:
        pytest.skip(
            "needs ActiveMQ Artemis (mvn -f tests/live/artemis/pom.xml dependency:copy-dependencies "
            "-DoutputDirectory=DIR; WIREFMT_ARTEMIS=DIR)"
        )
    folder = tmp_path_factory.mktemp("artemis")
    path = os.pathsep.join((f"{JARS}/*", str(folder)))
    source = str(Path(__file__).parent / "artemis" / "Artemis.java")
    subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(folder), source], check=True, capture_output=True)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", path, "Artemis", "0", str(folder)]
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


def message(body: bytes, **fields: Any) -> amqp10.Message:
    return amqp10.Message(body=body, **fields)


def body(delivery: Any) -> bytes:
    return bytes(delivery.message.payload)


async def take(receiver: Any, count: int) -> list[bytes]:
    return [body(await receiver.receive()) for _ in range(count)]


@pytest.mark.parametrize("sasl", [Anonymous(), Plain("any", "body"), ()])
def test_send_and_receive(port: int, sasl: Any) -> None:
    async def test() -> None:
        async with client(port, sasl=sasl) as ours:
            sender = await ours.sender("send")
            bodies = [b"", b"\0\xff", bytes(300_000), *(b"%d" % n for n in range(1000))]
            outcomes = await asyncio.gather(*(sender.post(message(each)) for each in bodies))
            assert set(outcomes) == {amqp10.Accepted()}
            receiver = await ours.receiver("send", credit=30)
            assert await take(receiver, len(bodies)) == bodies

    run(test())


def test_settled_both_ways(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            sender = await ours.sender("settled", settled=True)
            for n in range(300):
                assert await sender.send(message(b"%d" % n)) is None
            receiver = await ours.receiver("settled", snd_settle_mode=1, credit=20)
            assert await take(receiver, 300) == [b"%d" % n for n in range(300)]

    run(test())


def test_outcomes(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            sender = await ours.sender("outcomes")
            receiver = await ours.receiver("outcomes", settle="manual", credit=1)
            await sender.send(message(b"1"))
            receiver.release(await receiver.receive())
            again = await receiver.receive()
            assert body(again) == b"1"
            receiver.modify(again, delivery_failed=True)
            failed = await receiver.receive()
            assert failed.message.header.delivery_count == 1
            receiver.reject(failed, amqp10.Error(condition="app:wrong"))
            await sender.send(message(b"2"))
            last = await receiver.receive()
            assert body(last) == b"2"
            receiver.accept(last)

    run(test())


def test_credit_and_drain(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            sender = await ours.sender("credit")
            for n in range(5):
                await sender.send(message(b"%d" % n))
            receiver = await ours.receiver("credit", credit=0)
            receiver.grant(2)
            assert await take(receiver, 2) == [b"0", b"1"]
            receiver.grant(10)
            await receiver.drain()
            assert await take(receiver, 3) == [b"2", b"3", b"4"]
            assert receiver.link.credit == 0

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


def test_a_full_address(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            sender = await ours.sender("small")
            sent = [sender.post(message(b"%d" % n)) for n in range(10)]
            done = await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), 10)
            assert done[0] == amqp10.Accepted()
            assert isinstance(done[-1], Refused)

    run(test())


def test_a_message_in_parts(port: int) -> None:
    async def test() -> None:
        async with client(port) as ours:
            sender = await ours.sender("parts")
            large = message(bytes(1_000_000)).encode()
            parts = (large[at : at + 50_000] for at in range(0, len(large), 50_000))
            assert await sender.stream(parts) == amqp10.Accepted()
            receiver = await ours.receiver("parts", streamed=True)
            found = b""
            while isinstance(item := await receiver.receive(), amqp10.Part):
                found += item.payload
            assert amqp10.decode_message(found).payload == bytes(1_000_000)

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
