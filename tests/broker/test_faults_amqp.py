"""Effects of injected faults on AMQP clients: pika and our own (0.9.1), proton (1.0)."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lib.loopback import HOST, PATIENCE, run, until, wait_for
from lib.skips import imported
from wirefmt import amqp091
from wirefmt.broker import Broker
from wirefmt.broker.thread import Running
from wirefmt.errors import ConnectionLost

# ---- AMQP 0.9.1


@contextlib.contextmanager
def pika_channel(b: Running, **options: Any) -> Iterator[Any]:
    pika = imported("pika")
    parameters = pika.ConnectionParameters(HOST, b.port("amqp"), **options)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("orders")
    try:
        yield channel
    finally:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


def test_amqp_cut(b: Running) -> None:
    """The connection ends after the second message. Both are in the queue."""
    pika = imported("pika")
    with pika_channel(b) as channel, b.fault("amqp", cut_after=2):
        channel.confirm_delivery()
        channel.basic_publish("", "orders", b"0")
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            channel.basic_publish("", "orders", b"1")
    assert [m.body for m in b.queue("orders")] == [b"0", b"1"]


def test_amqp_cut_of_deliveries() -> None:
    """Deliveries count as well. The second one arrives completely, the third does not."""
    bodies = [bytes([n]) * 200_000 for n in range(3)]  # more than a frame

    async def test() -> None:
        got = []
        async with Broker(ports={"amqp": 0}) as b:
            with contextlib.suppress(ConnectionLost):
                async with amqp091.connect(b.url("amqp")) as client:
                    channel = await client.channel()
                    await channel.declare_queue("orders")
                    for body in bodies:
                        await channel.publish(body, routing_key="orders")
                    await b.queue("orders").wait(3)
                    with b.fault("amqp", cut_after=2):
                        async for message in await channel.consume("orders", no_ack=True):
                            got.append(message.body)
            assert got == bodies[:2]

    run(test())


def test_amqp_refuse(b: Running) -> None:
    """connection.close with 320, connection-forced (1.2.1 of the reference)."""
    pika = imported("pika")
    with b.fault("amqp", refuse=True), pytest.raises(pika.exceptions.AMQPConnectionError) as refused, pika_channel(b):
        pass
    assert "320" in repr(refused.value)


def test_amqp_lost_confirm(b: Running) -> None:
    """The message is in the queue, and pika waits for a confirm that does not come."""
    pika = imported("pika")
    ends: queue.Queue[Any] = queue.Queue()

    def publish() -> None:
        with pika_channel(b) as channel:
            channel.confirm_delivery()
            try:
                channel.basic_publish("", "orders", b"0")
                ends.put("confirmed")
            except pika.exceptions.AMQPConnectionError as error:
                ends.put(error)

    with b.fault("amqp", lose_acknowledgements=1) as fault:
        thread = threading.Thread(target=publish)
        thread.start()
        wait_for(lambda: fault.happened)
        assert [m.body for m in b.queue("orders")] == [b"0"]
        assert ends.empty()
        b.restart(keep_state=True)
        thread.join(PATIENCE)
        assert isinstance(ends.get(timeout=PATIENCE), pika.exceptions.AMQPConnectionError)


def test_amqp_duplicate(b: Running) -> None:
    with pika_channel(b) as channel, b.fault("amqp", duplicate=1):
        channel.confirm_delivery()
        channel.basic_publish("", "orders", b"0")
        channel.basic_publish("", "orders", b"1")
        bodies = [channel.basic_get("orders", auto_ack=True)[2] for _ in range(5)]
    assert bodies == [b"0", b"0", b"1", b"1", None]


def test_amqp_blocked(b: Running) -> None:
    """RabbitMQ's connection.blocked with the reason, then connection.unblocked. Messages published in between arrive then."""
    told: list[str] = []
    with pika_channel(b) as channel:
        connection = channel.connection
        connection.add_on_connection_blocked_callback(lambda c, frame: told.append(frame.method.reason))
        connection.add_on_connection_unblocked_callback(lambda c, frame: told.append("unblocked"))
        with b.fault("amqp", full="memory") as fault:
            channel.basic_publish("", "orders", b"0")
            wait_for(lambda: connection.process_data_events(0) or told)
            wait_for(lambda: fault.kept)
            assert len(b.queue("orders")) == 0
        b.queue("orders").wait(1, timeout=PATIENCE)
        wait_for(lambda: connection.process_data_events(0) or len(told) == 2)
    assert told == ["low on memory", "unblocked"]


def test_amqp_clients_are_blocked_when_they_publish(b: Running) -> None:
    """RabbitMQ tells those that publish while it is full, then, and no others: a client may connect, declare and consume."""
    pika = imported("pika")
    told: list[str] = []
    with pika_channel(b) as consuming:
        consuming.connection.add_on_connection_blocked_callback(lambda c, frame: told.append("of the other"))
        with b.fault("amqp", full="disk"):
            connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, b.port("amqp")))
            connection.add_on_connection_blocked_callback(lambda c, frame: told.append(frame.method.reason))
            channel = connection.channel()
            channel.queue_declare("more")
            assert not told
            channel.basic_publish("", "more", b"0")
            wait_for(lambda: connection.process_data_events(0) or told)
            consuming.queue_declare("others")
        connection.close()
    assert told == ["low on disk"]


@pytest.mark.parametrize("delay", [None, 0.01])
def test_messages_of_amqp_that_are_published_together_are_counted(delay: float | None) -> None:
    async def test() -> None:
        async with Broker(ports={"amqp": 0}) as b, amqp091.connect(b.url("amqp")) as client:
            channel = await client.channel(confirms=False)
            await channel.declare_queue("q")
            with b.fault("amqp", delay=delay) if delay is not None else contextlib.nullcontext():
                for n in range(20):
                    await channel.publish(b"%d" % n, routing_key="q")
                await until(lambda: len(b.queue("q").messages) == 20)
            assert b.counts["amqp"] == 20

    run(test())


def test_a_message_that_waits_for_room_is_forgotten_with_its_client() -> None:
    """AMQP 0.9.1: the client is disconnected while its message waits. The broker then keeps neither."""

    async def test() -> None:
        async with Broker(ports={"amqp": 0}) as b:
            with contextlib.suppress(ConnectionLost):
                async with amqp091.connect(b.url("amqp")) as client:
                    channel = await client.channel()
                    await channel.declare_queue("orders")
                    publishing = asyncio.ensure_future(channel.publish(b"0", routing_key="orders"))
                    await asyncio.sleep(0)
                    with b.fault("amqp", full="memory") as fault:
                        await until(lambda: fault.kept)
                        await b.reset()
                        await asyncio.gather(publishing, return_exceptions=True)
                        assert not fault.kept
            await until(lambda: not b.clients)
            assert not b.amqp._sessions

    run(test())


def test_what_follows_a_message_that_waits_waits_too() -> None:
    """AMQP 0.9.1: a message and basic.get in the same chunk. When there is space, basic.get is answered with the message."""

    async def test() -> None:
        async with Broker(ports={"amqp": 0}) as b, amqp091.connect(b.url("amqp")) as client:
            channel = await client.channel()
            await channel.declare_queue("orders")
            publishing = asyncio.ensure_future(channel.publish(b"0", routing_key="orders"))
            getting = asyncio.ensure_future(channel.get("orders", no_ack=True))
            await asyncio.sleep(0)
            with b.fault("amqp", full="memory") as fault:
                await until(lambda: fault.kept)
                assert not getting.done()
            await publishing
            message = await getting
            assert message is not None
            assert message.body == b"0"

    run(test())


def test_room_is_there_when_the_last_of_two_faults_ends() -> None:
    """AMQP 0.9.1: connection.unblocked is sent and the message arrives when both faults have ended."""

    async def test() -> None:
        async with Broker(ports={"amqp": 0}) as b, amqp091.connect(b.url("amqp")) as client:
            channel = await client.channel()
            await channel.declare_queue("orders")
            publishing = asyncio.ensure_future(channel.publish(b"0", routing_key="orders"))
            await asyncio.sleep(0)
            with b.fault("amqp", full="memory") as first:
                with b.fault("amqp", full="disk"):
                    await until(lambda: first.kept)
                (driver,) = b.servers["amqp"].drivers
                connection: Any = driver.connection
                assert connection.blocked
                assert not b.queue("orders")
            assert not connection.blocked
            await publishing
            assert [m.body for m in b.queue("orders")] == [b"0"]

    run(test())


# ---- AMQP 1.0


@contextlib.contextmanager
def proton_connection(b: Running) -> Iterator[Any]:
    utils = imported("proton.utils")
    connection = utils.BlockingConnection(b.url("amqp10"), timeout=PATIENCE, allowed_mechs="ANONYMOUS")
    try:
        yield connection
    finally:
        with contextlib.suppress(Exception):
            connection.close()


def proton_message(body: str) -> Any:
    return imported("proton").Message(body=body)


def test_amqp10_cut(b: Running) -> None:
    proton = imported("proton")
    with proton_connection(b) as connection:
        sender = connection.create_sender("/queues/orders")
        with b.fault("amqp10", cut_after=2):
            sender.send(proton_message("0"))
            with pytest.raises(proton.ProtonException):
                sender.send(proton_message("1"))
    assert len(b.queue("orders")) == 2


def test_amqp10_refuse(b: Running) -> None:
    """The login fails with sasl-outcome (5.3.3.6), or the open with amqp:connection:forced (2.8.16)."""
    proton = imported("proton")
    with b.fault("amqp10", refuse=True) as fault, pytest.raises(proton.ProtonException), proton_connection(b):
        pass
    assert fault.happened


def test_amqp10_lost_disposition(b: Running) -> None:
    """The message is in the queue, and its sender waits."""
    proton = imported("proton")
    with proton_connection(b) as connection:
        sender = connection.create_sender("/queues/orders")
        with b.fault("amqp10", lose_acknowledgements=1):
            with pytest.raises(proton.Timeout):
                sender.send(proton_message("0"), timeout=0.3)
            sender.send(proton_message("1"))
    assert len(b.queue("orders")) == 2


def test_amqp10_duplicate(b: Running) -> None:
    with proton_connection(b) as connection, b.fault("amqp10", duplicate=1):
        connection.create_sender("/queues/orders").send(proton_message("0"))
        receiver = connection.create_receiver("/queues/orders", credit=5)
        got = []
        for _ in range(2):
            got.append(receiver.receive(timeout=PATIENCE).body)
            receiver.accept()
    assert got == ["0", "0"]


def test_amqp10_full(b: Running) -> None:
    """The message is rejected with amqp:resource-limit-exceeded (2.8.15)."""
    utils = imported("proton.utils")
    with proton_connection(b) as connection:
        sender = connection.create_sender("/queues/orders")
        with b.fault("amqp10", full="memory"):
            with pytest.raises(utils.SendException) as refused:
                sender.send(proton_message("0"))
            assert refused.value.state == 0x25  # rejected (3.4.3)
        sender.send(proton_message("1"))
    assert len(b.queue("orders")) == 1
