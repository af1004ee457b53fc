"""Faults on purpose, as clients of others see them: paho, pika, proton, pynsq; ours for RocketMQ and PHPMQ."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, PATIENCE, run, until
from wirefmt import amqp10, broker, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.broker.embedded import Running
from wirefmt.broker.faults import FAULTS, Fault, Script, Step, play, read_script
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
    import socket

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


def test_amqp_cut_of_deliveries(b: Running) -> None:
    """What the broker delivers counts, too: the second one arrives whole, the third does not."""
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
    got = []
    with pika_channel(b) as channel:
        for n in range(3):
            channel.basic_publish("", "orders", bytes([n]) * 200_000)  # more than a frame
        b.queue("orders").wait(3, timeout=PATIENCE)
        with b.fault("amqp", cut_after=2), pytest.raises(pika.exceptions.AMQPConnectionError):
            for _, _, body in channel.consume("orders", inactivity_timeout=PATIENCE):
                got.append(body)
    assert got == [bytes([n]) * 200_000 for n in range(2)]


def test_amqp_refuse(b: Running) -> None:
    """connection.close with 320, connection-forced (1.2.1 of the reference)."""
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
    with b.fault("amqp", refuse=True), pytest.raises(pika.exceptions.AMQPConnectionError) as refused, pika_channel(b):
        pass
    assert "320" in repr(refused.value)


def test_amqp_lost_confirm(b: Running) -> None:
    """pika waits for a confirm that does not come; the connection stays."""
    with pika_channel(b) as channel:
        channel.confirm_delivery()
        connection = channel.connection
        waited = []
        connection.call_later(0.3, lambda: (waited.append(len(b.queue("orders"))), b_fault.close()))
        with contextlib.ExitStack() as b_fault:
            b_fault.enter_context(b.fault("amqp", lose_acknowledgements=1))
            with b.fault("amqp", cut_after=2):
                pika = pytest.importorskip("pika")
                connection.call_later(0.5, lambda: b.run(b.broker.reset()))
                with pytest.raises(pika.exceptions.AMQPConnectionError):
                    channel.basic_publish("", "orders", b"0")
    assert waited == [1]


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
    return pytest.importorskip("proton").Message(body=body)


def test_amqp10_cut(b: Running) -> None:
    proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")
    with proton_connection(b) as connection:
        sender = connection.create_sender("/queues/orders")
        with b.fault("amqp10", cut_after=2):
            sender.send(proton_message("0"))
            with pytest.raises(proton.ProtonException):
                sender.send(proton_message("1"))
    assert len(b.queue("orders", "amqp10")) == 2


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
    assert len(b.queue("orders", "amqp10")) == 2


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
    assert len(b.queue("orders", "amqp10")) == 1
