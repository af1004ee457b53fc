"""Faults on purpose, as clients of others see them: paho, pika, proton, pynsq; ours for RocketMQ and PHPMQ."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.loopback import HOST, PATIENCE, run, until
from wirefmt import amqp091, amqp10, broker, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker.embedded import Running
from wirefmt.broker.faults import FAULTS, Fault, Script, Step, play, read_script
from wirefmt.broker.faults.frames import HELD_BYTES, FrameSplitter
from wirefmt.broker.faults.protocols import PROTOCOLS
from wirefmt.connection import aio
from wirefmt.errors import ConnectionLost

ROOT = Path(__file__).parents[2]


@pytest.fixture
def b() -> Iterator[Running]:
    with broker.running() as found:
        yield found


def wait_for(condition: Any) -> None:
    """Wait until it is true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


# ---- MQTT, as paho sees it


class Paho:
    """A paho client, with what it has seen."""

    def __init__(self, port: int, version: int = 5, name: str = "", *, clean: bool = True) -> None:
        client = pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt (pip install paho-mqtt)")
        more: dict[str, Any] = {} if version == 5 else {"clean_session": clean}
        self.client = client.Client(client.CallbackAPIVersion.VERSION2, name, protocol=version, **more)
        self.connacks: queue.Queue[Any] = queue.Queue()
        self.subacks: queue.Queue[Any] = queue.Queue()
        self.messages: queue.Queue[Any] = queue.Queue()
        self.acknowledged: dict[int, list[int]] = {}
        self.disconnected: queue.Queue[Any] = queue.Queue()
        self.client.on_connect = lambda c, u, flags, code, properties: self.connacks.put(code)
        self.client.on_subscribe = lambda c, u, mid, codes, properties: self.subacks.put(codes)
        self.client.on_message = lambda c, u, message: self.messages.put(message)
        self.client.on_publish = lambda c, u, mid, code, p: self.acknowledged.setdefault(mid, []).append(code.value)
        self.client.on_disconnect = lambda c, u, flags, code, p: self.disconnected.put(code)
        self.client.reconnect_delay_set(0.01, 0.05)
        more = {"clean_start": clean} if version == 5 else {}
        self.client.connect(HOST, port, **more)
        self.client.loop_start()

    def __enter__(self) -> Paho:
        assert self.connacks.get(timeout=PATIENCE).value == 0
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def subscribe(self, topic: str, qos: int = 1) -> None:
        self.client.subscribe(topic, qos)
        self.subacks.get(timeout=PATIENCE)

    def receive(self) -> bytes:
        payload: bytes = self.messages.get(timeout=PATIENCE).payload
        return payload


def test_cut_after_messages(b: Running) -> None:
    """The third message ends the connection before its PUBACK, and paho sends it again."""
    with Paho(b.port("mqtt"), version=4, name="c", clean=False) as client:
        with b.fault("mqtt", cut_after=3) as fault:
            infos = [client.client.publish("t", str(n), qos=1) for n in range(2)]
            for info in infos:
                info.wait_for_publish(PATIENCE)
            last = client.client.publish("t", "2", qos=1)
            assert client.disconnected.get(timeout=PATIENCE) != 0
            assert fault.happened == 1
            assert not last.is_published()
        last.wait_for_publish(PATIENCE)  # paho has come back
    assert [m.body for m in b.topic("t")] == [b"0", b"1", b"2", b"2"]


def test_cut_after_bytes(b: Running) -> None:
    """CONNECT and CONNACK of 3.1.1 have 13 + 4 bytes with this name; one more ends the connection."""
    with b.fault("mqtt", cut_after_bytes=18), socket.create_connection((HOST, b.port("mqtt")), PATIENCE) as client:
        client.sendall(bytes.fromhex("100d00044d51545404020000000163"))
        assert client.recv(100) == bytes.fromhex("200200")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100) == b""


def test_delay(b: Running) -> None:
    """A PUBACK that took no time takes this much at least."""
    with Paho(b.port("mqtt")) as client, b.fault("mqtt", delay=0.3):
        begun = time.monotonic()
        client.client.publish("t", "x", qos=1).wait_for_publish(PATIENCE)
        assert time.monotonic() - begun >= 0.3
    assert client.acknowledged


def test_stall(b: Running) -> None:
    """Nothing comes and nothing is taken, and the connection stays. Then all goes on."""
    with Paho(b.port("mqtt")) as client:
        with b.fault("mqtt", stall_after=1) as fault:
            client.client.publish("t", "0", qos=0)
            wait_for(lambda: fault.happened)
            info = client.client.publish("t", "1", qos=1)
            with contextlib.suppress(RuntimeError):
                info.wait_for_publish(0.2)
            assert not info.is_published()
            assert [m.body for m in b.topic("t")] == [b"0"]
            assert client.disconnected.empty()
        info.wait_for_publish(PATIENCE)
        assert [m.body for m in b.topic("t").wait(2)] == [b"0", b"1"]


@pytest.mark.parametrize(("version", "code"), [(4, "Server unavailable"), (5, "Server unavailable")])
def test_refuse(b: Running, version: int, code: str) -> None:
    """3.1.1: return code 3; 5.0: reason code 0x88. Clients that are there stay."""
    with Paho(b.port("mqtt")) as before, b.fault("mqtt", refuse=True):
        refused = Paho(b.port("mqtt"), version)
        assert str(refused.connacks.get(timeout=PATIENCE)) == code
        refused.client.loop_stop()
        before.client.publish("t", "x", qos=1).wait_for_publish(PATIENCE)


def test_lost_acknowledgement(b: Running) -> None:
    """The broker has the message and paho does not know; the next one is acknowledged."""
    with Paho(b.port("mqtt")) as client, b.fault("mqtt", lose_acknowledgements=1) as fault:
        lost = client.client.publish("t", "0", qos=1)
        b.topic("t").wait(1, timeout=PATIENCE)
        client.client.publish("t", "1", qos=1).wait_for_publish(PATIENCE)
        assert not lost.is_published()
        assert fault.happened == 1


def test_duplicate(b: Running) -> None:
    """Every second message comes twice; paho publishes each once."""
    with Paho(b.port("mqtt")) as client:
        client.subscribe("t")
        with b.fault("mqtt", duplicate=2):
            for n in range(4):
                client.client.publish("t", str(n), qos=1).wait_for_publish(PATIENCE)
        assert [client.receive() for _ in range(6)] == [b"0", b"1", b"1", b"2", b"3", b"3"]


def test_reorder(b: Running) -> None:
    """Two clients publish one after the other, and are heard the other way round."""
    with Paho(b.port("mqtt")) as first, Paho(b.port("mqtt")) as second:
        with b.fault("mqtt", reorder=2) as fault:
            first.client.publish("t", "first")
            wait_for(lambda: fault.waiting)
            second.client.publish("t", "second")
            wait_for(lambda: fault.happened)
        assert [m.body for m in b.topic("t").wait(2, timeout=PATIENCE)] == [b"second", b"first"]


def test_reorder_does_not_wait_forever(b: Running) -> None:
    with Paho(b.port("mqtt")) as client, b.fault("mqtt", reorder=3):
        client.client.publish("t", "alone", qos=1).wait_for_publish(PATIENCE)


def test_corrupt(b: Running) -> None:
    """Bits change in what paho receives, and nowhere else; the same seed changes the same ones."""
    seen = []
    for _ in range(2):
        b.broker.faults.sow(7)
        with Paho(b.port("mqtt")) as client:
            client.subscribe("t", 0)
            with b.fault("mqtt", corrupt=20_000) as fault:
                client.client.publish("t", bytes(200_000))
                seen.append(client.receive())
            assert b.topic("t").last is not None
            assert b.topic("t").last.body == bytes(200_000)
            assert fault.happened == sum(octet != 0 for octet in seen[-1])
    assert seen[0] == seen[1]
    assert 1 <= sum(octet != 0 for octet in seen[0]) <= 40
    assert all(octet.bit_count() <= 1 for octet in seen[0])


def test_a_seed_is_printed_once(capfd: pytest.CaptureFixture[str]) -> None:
    with broker.running() as b:
        for _ in range(2):
            with b.fault("nsq", corrupt=10):
                pass
        assert capfd.readouterr().err == f"wirefmt: the seed of faults is {b.broker.faults.seed}\n"


def test_full(b: Running) -> None:
    """5.0: PUBACK with 0x97, quota exceeded (table 2-6); afterwards there is room."""
    with Paho(b.port("mqtt")) as client:
        with b.fault("mqtt", full="disk"):
            client.client.publish("t", "dropped", qos=0)
            info = client.client.publish("t", "x", qos=1)
            wait_for(lambda: client.acknowledged.get(info.mid))
            assert client.acknowledged[info.mid] == [0x97]
        info = client.client.publish("t", "y", qos=1)
        info.wait_for_publish(PATIENCE)
    assert [m.body for m in b.topic("t")] == [b"y"]


def test_full_before_5_0(b: Running) -> None:
    """3.1.1 has no word for it: the client is disconnected (section 4.8)."""
    with Paho(b.port("mqtt"), version=4) as client, b.fault("mqtt", full="memory"):
        client.client.publish("t", "x", qos=1)
        client.disconnected.get(timeout=PATIENCE)


@pytest.mark.parametrize("keep_state", [True, False])
def test_restart(b: Running, keep_state: bool) -> None:
    """The retained message is there again, or not. paho comes back by itself."""
    with Paho(b.port("mqtt")) as client:
        client.client.publish("t", "kept", qos=1, retain=True).wait_for_publish(PATIENCE)
        b.restart(keep_state=keep_state)
        client.disconnected.get(timeout=PATIENCE)
        assert client.connacks.get(timeout=PATIENCE).value == 0
        client.subscribe("t")
        client.client.publish("t", "new", qos=1).wait_for_publish(PATIENCE)
        assert client.receive() == (b"kept" if keep_state else b"new")


# ---- AMQP 0.9.1, as pika sees it


@contextlib.contextmanager
def pika_channel(b: Running, **options: Any) -> Iterator[Any]:
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
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
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
    with pika_channel(b) as channel, b.fault("amqp", cut_after=2):
        channel.confirm_delivery()
        channel.basic_publish("", "orders", b"0")
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            channel.basic_publish("", "orders", b"1")
    assert [m.body for m in b.queue("orders")] == [b"0", b"1"]


def test_amqp_cut_of_deliveries() -> None:
    """What the broker delivers counts, too: the second one arrives whole, the third does not."""
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
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
    with b.fault("amqp", refuse=True), pytest.raises(pika.exceptions.AMQPConnectionError) as refused, pika_channel(b):
        pass
    assert "320" in repr(refused.value)


def test_amqp_lost_confirm(b: Running) -> None:
    """The message is in the queue, and pika waits for a confirm that does not come."""
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
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
    """connection.blocked of RabbitMQ with the reason, then connection.unblocked; what was published meanwhile comes then."""
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


def test_amqp_client_that_comes_while_it_is_full(b: Running) -> None:
    with b.fault("amqp", full="disk"):
        told: list[str] = []
        pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
        connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, b.port("amqp")))
        connection.add_on_connection_blocked_callback(lambda c, frame: told.append(frame.method.reason))
        wait_for(lambda: connection.process_data_events(0) or told or connection._impl.is_open)
        connection.channel()
        connection.close()


# ---- AMQP 1.0, as proton sees it


@contextlib.contextmanager
def proton_connection(b: Running) -> Iterator[Any]:
    utils = pytest.importorskip("proton.utils", reason="needs python-qpid-proton (pip install python-qpid-proton)")
    connection = utils.BlockingConnection(b.url("amqp10"), timeout=PATIENCE, allowed_mechs="ANONYMOUS")
    try:
        yield connection
    finally:
        with contextlib.suppress(Exception):
            connection.close()


def proton_message(body: str) -> Any:
    return pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)").Message(
        body=body
    )


def test_amqp10_cut(b: Running) -> None:
    proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")
    with proton_connection(b) as connection:
        sender = connection.create_sender("/queues/orders")
        with b.fault("amqp10", cut_after=2):
            sender.send(proton_message("0"))
            with pytest.raises(proton.ProtonException):
                sender.send(proton_message("1"))
    assert len(b.queue("orders")) == 2


def test_amqp10_refuse(b: Running) -> None:
    """The login fails with sasl-outcome (5.3.3.6), or the open with amqp:connection:forced (2.8.16)."""
    proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")
    with b.fault("amqp10", refuse=True) as fault, pytest.raises(proton.ProtonException), proton_connection(b):
        pass
    assert fault.happened


def test_amqp10_lost_disposition(b: Running) -> None:
    """The message is in the queue, and its sender waits."""
    proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")
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
    utils = pytest.importorskip("proton.utils", reason="needs python-qpid-proton (pip install python-qpid-proton)")
    with proton_connection(b) as connection:
        sender = connection.create_sender("/queues/orders")
        with b.fault("amqp10", full="memory"):
            with pytest.raises(utils.SendException) as refused:
                sender.send(proton_message("0"))
            assert refused.value.state == 0x25  # rejected (3.4.3)
        sender.send(proton_message("1"))
    assert len(b.queue("orders")) == 1


# ---- NSQ, as ansq sees it; RocketMQ and PHPMQ, as our clients see them


async def ansq_connection(b: Broker) -> Any:
    ansq = pytest.importorskip("ansq", reason="needs ansq (pip install ansq)")
    options = ansq.ConnectionOptions(auto_reconnect=False)
    return await ansq.open_connection(HOST, b.port("nsq"), connection_options=options)


def test_nsq() -> None:
    """PUB is answered with E_PUB_FAILED when there is no room, and not at all when its answer is lost."""

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
    """SYSTEM_BUSY (2) when there is no room; a send whose answer is lost runs into its time limit, and is stored."""

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
    """The protocol has no word for a refusal: the client is dropped. Its messages are counted and repeated."""

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


# ---- the form of faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("mqtt:cut_after=10", Fault(protocol="mqtt", cut_after=10)),
        ("refuse", Fault(refuse=True)),
        ("amqp: delay=0.5, full=disk", Fault(protocol="amqp", delay=0.5, full="disk")),
        ("*:corrupt=1000", Fault(corrupt=1000)),
    ],
)
def test_the_form_of_the_command_line(text: str, fault: Fault) -> None:
    assert Fault.parse(text) == fault


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mqt:refuse", "unknown protocol 'mqt'.*mqtt"),
        ("mqtt:cutafter=1", "unknown fault 'cutafter'.*cut_after"),
        ("mqtt:cut_after=x", "cut_after must be an integer"),
        ("mqtt:cut_after=-1", "at least 0"),
        ("reorder=1", "at least 2"),
        ("full=cpu", "memory"),
        ("mqtt:refuse=false", "refuse must be true"),
    ],
)
def test_a_wrong_fault(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Fault.parse(text)


SCRIPT = """
seed = 7
[[fault]]
after = 0.2
restart = "without state"
[[fault]]
protocol = "mqtt"
for = 0.1
lose_acknowledgements = 1
"""


def test_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fault begins and ends, then the broker comes back without the message."""
    script = read_script(SCRIPT)
    lost = Step(0.0, 0.1, Fault(protocol="mqtt", lose_acknowledgements=1), None)
    assert script == Script(7, (lost, Step(0.2, None, None, "without state")))
    started: list[Fault] = []

    async def test() -> None:
        async with Broker(ports={"mqtt": 0}) as b:
            start = b.faults.start
            monkeypatch.setattr(b.faults, "start", lambda fault: (started.append(fault), start(fault))[1])
            port = b.port("mqtt")
            async with mqtt.connect(b.url("mqtt")) as client:
                await client.publish("t", b"", qos=1)
            assert len(b.topic("t")) == 1
            await play(b, script)
            assert started == [lost.fault]
            assert b.faults.seed == 7
            assert not b.faults.active["mqtt"]
            assert list(b.topic("t")) == []
            assert b.port("mqtt") == port

    run(test())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sed = 7", "a script has seed"),
        ("[[fault]]\nafter = 'x'\nrefuse = true", "after must be a number"),
        ("[[fault]]\nrestart = 'now'", "restart must be"),
        ("[[fault]]\nrestart = 'with state'\nrefuse = true", "no other entry"),
        ("[[fault]]\nprotocol = 'mqtt'", "no fault given; there are"),
    ],
)
def test_a_wrong_script(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_script(text)


def test_the_page_has_every_fault() -> None:
    """With its value and its effect, in the words of the table."""
    page = (ROOT / "docs" / "broker-faults.md").read_text()
    for kind in FAULTS:
        assert f"| `{kind.name}` | {kind.value} | {kind.effect} | {kind.where} |" in page


# ---- frames and chunks


def the_driver(b: Broker, protocol: str) -> aio.Driver:
    """The driver of the only client."""
    (driver,) = (driver for name, server in b.servers.items() if name == protocol for driver in server.drivers)
    return driver


#: 3.1.1, client identifier "c"; and its answer.
CONNECT, CONNACK = bytes.fromhex("100d00044d51545404020000000163"), bytes.fromhex("20020000")


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[Broker, aio.Driver]]:
    """A broker of MQTT with one client, and the driver of its connection, which takes chunks of any size."""
    async with Broker(ports={"mqtt": 0}) as b:
        reader, writer = await asyncio.open_connection(HOST, b.port("mqtt"))
        writer.write(CONNECT)
        assert await reader.readexactly(4) == CONNACK
        yield b, the_driver(b, "mqtt")
        writer.close()


#: A payload that looks like the beginnings of PUBLISH packets with 16,383 bytes.
MISLEADING = b"\x30\xff\x7f" * 20_000


def mqtt_publish(payload: bytes) -> bytes:
    return mqtt.Publish(topic_name="t", payload=payload, version=4).encode()


#: Whole frames of a client, of each protocol.
FRAMES = {
    "mqtt": [mqtt.Pingreq().encode(), mqtt_publish(b""), mqtt_publish(MISLEADING[:300])],
    "amqp": [b"AMQP\0\0\x09\x01", amqp091.ConnectionOpen(virtual_host="/").encode(), amqp091.Heartbeat().encode()],
    "amqp10": [b"AMQP\0\1\0\0", amqp10.Open(container_id="c").encode(), amqp10.End().encode()],
    "nsq": [nsq.Nop().encode(), nsq.Publish(topic="t", body=MISLEADING[:300]).encode()],
    "rocketmq": [rocketmq.RemotingCommand(code=105, opaque=1, ext_fields={"topic": "T"}, body=b"x").encode()],
    "phpmq": [phpmq.MessageClientToServer(queue_name="list", content=MISLEADING[:300], ttl=0).encode()],
}


@pytest.mark.parametrize("protocol", FRAMES)
@given(data=st.data())
def test_a_stream_is_split_where_frames_end(protocol: str, data: st.DataObject) -> None:
    """However it is cut: no byte is lost, and each frame ends a piece. An incomplete frame is passed on without its end."""
    frames = data.draw(st.lists(st.sampled_from(FRAMES[protocol]), max_size=8))
    stream = b"".join(frames)
    end = data.draw(st.integers(0, len(stream)))
    cuts = sorted(data.draw(st.lists(st.integers(0, end), max_size=12)))
    splitter = FrameSplitter(lambda buffer: PROTOCOLS[protocol].size(buffer, "client"))
    pieces: list[bytes] = []
    for at, after in pairwise([0, *cuts, end]):
        pieces += splitter.split(stream[at:after])
    rest = splitter.rest()
    assert b"".join(pieces) + rest == stream[:end]
    assert b"" not in pieces
    ends = set(accumulate(map(len, pieces)))
    assert {at for at in accumulate(map(len, frames)) if at <= end} <= ends
    assert not splitter.lost
    if protocol != "phpmq":  # its frames have their sizes in parts
        assert len(rest) < 12  # a header


@pytest.mark.parametrize("protocol", FRAMES)
@given(chunks=st.lists(st.binary(max_size=64), max_size=12))
def test_a_stream_of_anything_loses_no_byte(protocol: str, chunks: list[bytes]) -> None:
    splitter = FrameSplitter(lambda buffer: PROTOCOLS[protocol].size(buffer, "client"))
    pieces = [piece for chunk in chunks for piece in splitter.split(chunk)]
    assert b"".join(pieces) + splitter.rest() == b"".join(chunks)


def test_a_frame_that_is_too_long_to_hold_is_passed_on() -> None:
    """The content of a PHPMQ message hides where the message ends."""
    whole = phpmq.MessageClientToServer(queue_name="list", content=bytes(HELD_BYTES), ttl=0).encode()
    splitter = FrameSplitter(lambda buffer: PROTOCOLS["phpmq"].size(buffer, "client"))
    begin = whole.index(bytes(100))
    assert splitter.split(whole[:begin]) == []
    pieces = [splitter.split(whole[at : at + 4096]) for at in range(begin, begin + HELD_BYTES - 1, 4096)]
    assert pieces[-1] == [whole[: begin + HELD_BYTES]]
    assert not any(pieces[:-1])
    assert splitter.lost


@pytest.mark.parametrize("chunk", [1, 7, 1000, 16_383, 60_000])
def test_a_frame_that_comes_in_chunks_is_one_message(chunk: int) -> None:
    """The first message ends the connection, however it is cut; none of those in the same chunk after it passes."""

    async def test() -> None:
        async with connected() as (b, driver):
            with b.fault("mqtt", cut_after=1) as fault:
                data = mqtt_publish(MISLEADING)
                data = data + data[:-1]  # the second one is never complete, so nothing but the first may be counted
                data += mqtt_publish(b"later") * 3
                at = 0
                while at < len(data) and not fault.happened:
                    aio.hand_over(driver, data[at : at + chunk])
                    at += chunk
                assert fault.happened == 1
                assert [len(m.body) for m in b.topic("t")] == [len(MISLEADING)]
                assert at - chunk < len(mqtt_publish(MISLEADING)) <= at

    run(test())


def test_a_chunk_in_the_middle_of_a_message_hides_no_other_message() -> None:
    """The rest of the first message comes in one chunk with two more: cut_after=2 lets the second one in, and not the third."""

    async def test() -> None:
        async with connected() as (b, driver):
            with b.fault("mqtt", cut_after=2):
                data = mqtt_publish(MISLEADING) + mqtt_publish(b"second") + mqtt_publish(b"third")
                for piece in (data[:30_000], data[30_000:]):
                    aio.hand_over(driver, piece)
                assert [m.body[:6] for m in b.topic("t")] == [MISLEADING[:6], b"second"]

    run(test())


def test_bytes_that_are_held_keep_their_order() -> None:
    """The connection stalls after the first of three messages, which came in one chunk with the beginning of a fourth."""

    async def test() -> None:
        async with connected() as (b, driver):
            data = b"".join(mqtt_publish(b"%d" % n) for n in range(4))
            with b.fault("mqtt", stall_after=1):
                aio.hand_over(driver, data[:-4])
                assert [m.body for m in b.topic("t")] == [b"0"]
            assert [m.body for m in b.topic("t")] == [b"0", b"1", b"2"]
            aio.hand_over(driver, data[-4:])
            assert [m.body for m in b.topic("t")] == [b"0", b"1", b"2", b"3"]

    run(test())


def test_deliveries_after_a_stall_are_not_lost() -> None:
    """The broker has sent three messages at once; the connection stalls after the first, and then the others come."""

    async def test() -> None:
        async with Broker(ports={"mqtt": 0}) as b:
            reader, writer = await asyncio.open_connection(HOST, b.port("mqtt"))
            asked = mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("t")], version=4)
            writer.write(CONNECT + asked.encode())
            assert (
                await reader.readexactly(9)
                == CONNACK + mqtt.Suback(packet_identifier=1, reason_codes=[0], version=4).encode()
            )
            whole = b"".join(mqtt_publish(b"%d" % n) for n in range(3))
            with b.fault("mqtt", stall_after=1) as fault:
                for n in range(3):
                    b.mqtt.publish(mqtt_broker.Message("t", b"%d" % n))
                await until(lambda: fault.happened)
                assert await reader.readexactly(len(whole) // 3) == whole[: len(whole) // 3]
            assert await reader.readexactly(len(whole) * 2 // 3) == whole[len(whole) // 3 :]
            writer.close()

    run(test())


@pytest.mark.parametrize("protocol", ["nsq", "rocketmq"])
def test_nothing_is_remembered_while_messages_are_not_counted(protocol: str) -> None:
    """With `delay` no request of a client is noted. With `stall_after` each is, until it is answered."""

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
                    connection: Any = the_driver(b, protocol).connection
                    assert not connection.asked
                    assert not connection.requests

    run(test())


@pytest.mark.parametrize("delay", [None, 0.001])
def test_finished_messages_reach_the_broker(delay: float | None) -> None:
    """NSQ: the broker takes them in runs, and one by one while a fault is active."""

    async def test() -> None:
        async with Broker(ports={"nsq": 0}) as b, nsq.connect(b.url("nsq")) as client:
            with b.fault("nsq", delay=delay) if delay is not None else contextlib.nullcontext():
                for n in range(20):
                    await client.publish("t", b"%d" % n)
                async with client.consume("t", "c", max_in_flight=10) as messages:
                    for _ in range(20):
                        (await anext(messages)).finish()
                    await until(lambda: b.nsq.counts["finished"] == 20)
            assert b.nsq.messages == b.nsq.bytes == 0
            assert b.published["nsq"] == 20

    run(test())


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
            assert b.published["amqp"] == 20

    run(test())


def test_a_message_that_waits_for_room_is_forgotten_with_its_client() -> None:
    """AMQP 0.9.1: the client is dropped while its message waits, and nothing of it is left then."""

    async def test() -> None:
        async with Broker(ports={"amqp": 0}) as b:
            with contextlib.suppress(ConnectionLost):
                async with amqp091.connect(b.url("amqp")) as client:
                    channel = await client.channel()
                    await channel.declare_queue("orders")
                    with b.fault("amqp", full="memory") as fault:
                        publishing = asyncio.ensure_future(channel.publish(b"0", routing_key="orders"))
                        await until(lambda: fault.kept)
                        await b.reset()
                        await asyncio.gather(publishing, return_exceptions=True)
                        assert not fault.kept
            await until(lambda: not b.clients)
            assert not b.amqp._sessions

    run(test())


def test_what_follows_a_message_that_waits_waits_too() -> None:
    """AMQP 0.9.1: a message, and basic.get in the same chunk. The get is answered after there is room, with the message."""

    async def test() -> None:
        async with Broker(ports={"amqp": 0}) as b, amqp091.connect(b.url("amqp")) as client:
            channel = await client.channel()
            await channel.declare_queue("orders")
            with b.fault("amqp", full="memory") as fault:
                publishing = asyncio.ensure_future(channel.publish(b"0", routing_key="orders"))
                getting = asyncio.ensure_future(channel.get("orders", no_ack=True))
                await until(lambda: fault.kept)
                assert not getting.done()
            await publishing
            message = await getting
            assert message is not None
            assert message.body == b"0"

    run(test())


def test_room_is_there_when_the_last_of_two_faults_ends() -> None:
    """AMQP 0.9.1: connection.unblocked and the message come when both faults are over."""

    async def test() -> None:
        async with Broker(ports={"amqp": 0}) as b, amqp091.connect(b.url("amqp")) as client:
            channel = await client.channel()
            await channel.declare_queue("orders")
            with b.fault("amqp", full="memory") as first:
                with b.fault("amqp", full="disk"):
                    publishing = asyncio.ensure_future(channel.publish(b"0", routing_key="orders"))
                    await until(lambda: first.kept)
                connection = the_driver(b, "amqp").connection
                assert connection.blocked
                assert not b.queue("orders")
            assert not connection.blocked
            await publishing
            assert [m.body for m in b.queue("orders")] == [b"0"]

    run(test())


def test_many_small_frames_take_linear_time(b: Running) -> None:
    """Messages are counted in a chunk of 20,000 PINGREQs, and the connection goes on."""
    with b.fault("mqtt", stall_after=1), socket.create_connection((HOST, b.port("mqtt")), PATIENCE) as client:
        client.sendall(bytes.fromhex("100d00044d51545404020000000163") + bytes.fromhex("c000") * 20_000)
        expected = 4 + 2 * 20_000
        got = 0
        while got < expected:
            got += len(client.recv(1 << 16))
