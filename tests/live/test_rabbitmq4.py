"""`amqp10.connect` against RabbitMQ 4, whose AMQP 1.0 is native and has addresses of version 2."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, run
from lib.rabbitmq import EPMD, PASSWORD, USER, Broker
from wirefmt import amqp091, amqp10
from wirefmt.connection.sasl import Anonymous
from wirefmt.errors import ConnectionLost, Refused

pytestmark = pytest.mark.live

#: A root of Debian 13 with rabbitmq-server.
ROOT = os.environ.get("WIREFMT_RABBITMQ4", "")
PATH = "/usr/lib/rabbitmq/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Rooted(Broker):
    """A node whose programs are in another root. Its folder is there too."""

    def run(self, *command: str) -> subprocess.Popen[bytes]:
        name = "epmd" if command[0] == EPMD else "rabbitmq-server"
        there = {key: value.replace(ROOT, "") for key, value in self.environment.items()}
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                ("chroot", ROOT, name, *command[1:]),
                env={**there, "PATH": PATH, "LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    if not ROOT or os.geteuid() != 0:
        pytest.skip(
            "needs root, and RabbitMQ 4 in a root of Debian 13 (debootstrap --variant=minbase "
            "--include=rabbitmq-server trixie DIR; WIREFMT_RABBITMQ4=DIR)"
        )
    folder = Path(tempfile.mkdtemp(prefix="wirefmt-", dir=f"{ROOT}/tmp"))
    node = Rooted(folder)
    try:
        node.start()
        yield node
    finally:
        node.stop()
        shutil.rmtree(folder, ignore_errors=True)


def message(body: bytes) -> amqp10.Message:
    return amqp10.Message(body=body)


def body(delivery: Any) -> bytes:
    return bytes(delivery.message.payload)


async def take(receiver: Any, count: int) -> list[bytes]:
    return [body(await receiver.receive()) for _ in range(count)]


def with_queue(broker: Broker, test: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """Run it with a client, and the queue "q"."""

    async def whole() -> None:
        url = f"amqp://{USER}:{PASSWORD}@{HOST}:{broker.port}"
        async with amqp091.connect(f"{url}/") as other:
            channel = await other.channel()
            await channel.declare_queue("q", durable=True)
            await channel.purge_queue("q")
            async with amqp10.connect(url) as ours:
                await test(ours)

    run(whole())


def test_send_and_receive(broker: Broker) -> None:
    async def test(ours: Any) -> None:
        sender = await ours.sender("/queues/q")
        bodies = [b"", b"\0\xff", bytes(500_000), *(b"%d" % n for n in range(1000))]
        outcomes = await asyncio.gather(*(sender.post(message(each)) for each in bodies))
        assert set(outcomes) == {amqp10.Accepted()}
        receiver = await ours.receiver("/queues/q", credit=30)
        assert await take(receiver, len(bodies)) == bodies

    with_queue(broker, test)


def test_a_wrong_password_and_no_sasl(broker: Broker) -> None:
    async def test() -> None:
        with pytest.raises(Refused) as refused:
            await amqp10.connect(f"amqp://{USER}:wrong@{HOST}:{broker.port}").open()
        assert refused.value.code == 1
        for sasl in (Anonymous(), ()):  # it offers no ANONYMOUS, and demands the SASL layer
            with pytest.raises((ConnectionLost, Refused)):
                await amqp10.connect(f"amqp://{HOST}:{broker.port}", sasl=sasl).open()

    run(test())


def test_settled_both_ways(broker: Broker) -> None:
    async def test(ours: Any) -> None:
        sender = await ours.sender("/queues/q", settled=True)
        for n in range(300):
            assert await sender.send(message(b"%d" % n)) is None
        receiver = await ours.receiver("/queues/q", snd_settle_mode=1, credit=20)
        assert await take(receiver, 300) == [b"%d" % n for n in range(300)]

    with_queue(broker, test)


def test_outcomes(broker: Broker) -> None:
    async def test(ours: Any) -> None:
        sender = await ours.sender("/queues/q")
        receiver = await ours.receiver("/queues/q", settle="manual", credit=1)
        await sender.send(message(b"1"))
        receiver.release(await receiver.receive())
        again = await receiver.receive()
        assert body(again) == b"1"
        receiver.modify(again, delivery_failed=True)
        failed = await receiver.receive()
        assert body(failed) == b"1"
        receiver.reject(failed, amqp10.Error(condition="app:wrong"))
        await sender.send(message(b"2"))
        last = await receiver.receive()
        assert body(last) == b"2"
        receiver.accept(last)

    with_queue(broker, test)


def test_what_has_no_queue_is_released(broker: Broker) -> None:
    async def test(ours: Any) -> None:
        sender = await ours.sender("/exchanges/amq.direct/nowhere")
        with pytest.raises(Refused) as refused:
            await sender.send(message(b"x"))
        assert isinstance(refused.value.message, amqp10.Released)
        anonymous = await ours.sender(amqp10.Target())  # without an address
        assert (
            await anonymous.send(amqp10.Message(properties=amqp10.Properties(to="/queues/q"), body=b"x"))
            == amqp10.Accepted()
        )

    with_queue(broker, test)


def test_credit_and_drain(broker: Broker) -> None:
    async def test(ours: Any) -> None:
        sender = await ours.sender("/queues/q")
        for n in range(5):
            await sender.send(message(b"%d" % n))
        receiver = await ours.receiver("/queues/q", credit=0)
        receiver.grant(2)
        assert await take(receiver, 2) == [b"0", b"1"]
        receiver.grant(10)
        await receiver.drain()
        assert receiver.link.credit == 0
        assert await take(receiver, 3) == [b"2", b"3", b"4"]

    with_queue(broker, test)


def test_a_message_in_parts(broker: Broker) -> None:
    async def test(ours: Any) -> None:
        sender = await ours.sender("/queues/q")
        large = message(bytes(1_000_000)).encode()
        parts = (large[at : at + 50_000] for at in range(0, len(large), 50_000))
        assert await sender.stream(parts) == amqp10.Accepted()
        receiver = await ours.receiver("/queues/q")
        assert await take(receiver, 1) == [bytes(1_000_000)]

    with_queue(broker, test)


def test_an_address_without_a_queue(broker: Broker) -> None:
    """4.0 ends the session, later ones refuse the link."""

    async def test(ours: Any) -> None:
        with pytest.raises((ConnectionLost, Refused)):
            await ours.receiver("/queues/is-not-there")

    with_queue(broker, test)
