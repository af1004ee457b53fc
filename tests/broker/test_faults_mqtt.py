"""Effects of injected faults on an MQTT client, paho."""

from __future__ import annotations

import contextlib
import queue
import socket
import time
from typing import Any

import pytest

from lib.kinds import checked
from lib.loopback import HOST, PATIENCE, wait_for
from lib.skips import imported
from wirefmt.broker import Message
from wirefmt.broker.thread import Running


class Paho:
    """A paho client that keeps its events."""

    def __init__(self, port: int, version: int = 5, name: str = "", *, clean: bool = True) -> None:
        client = imported("paho.mqtt.client")
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
        last.wait_for_publish(PATIENCE)  # paho has reconnected
    assert [m.body for m in b.topic("t")] == [b"0", b"1", b"2", b"2"]


def test_cut_after_bytes(b: Running) -> None:
    """CONNECT and CONNACK of 3.1.1 have 13 + 4 bytes with this name; one more ends the connection."""
    with b.fault("mqtt", cut_after_bytes=18), socket.create_connection((HOST, b.port("mqtt")), PATIENCE) as client:
        client.sendall(bytes.fromhex("100d00044d51545404020000000163"))
        assert client.recv(100) == bytes.fromhex("200200")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100) == b""


def test_delay(b: Running) -> None:
    """A PUBACK takes at least this time."""
    with Paho(b.port("mqtt")) as client, b.fault("mqtt", delay=0.3):
        begun = time.monotonic()
        client.client.publish("t", "x", qos=1).wait_for_publish(PATIENCE)
        assert time.monotonic() - begun >= 0.3
    assert client.acknowledged


def test_stall(b: Running) -> None:
    """No byte is read or written, and the connection stays. Then it continues."""
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
    """3.1.1: return code 3; 5.0: reason code 0x88. Connected clients stay."""
    with Paho(b.port("mqtt")) as before, b.fault("mqtt", refuse=True):
        refused = Paho(b.port("mqtt"), version)
        assert str(refused.connacks.get(timeout=PATIENCE)) == code
        refused.client.loop_stop()
        before.client.publish("t", "x", qos=1).wait_for_publish(PATIENCE)


def test_lost_acknowledgement(b: Running) -> None:
    """The broker has the message, and paho gets no acknowledgement. The next message is acknowledged."""
    with Paho(b.port("mqtt")) as client, b.fault("mqtt", lose_acknowledgements=1) as fault:
        lost = client.client.publish("t", "0", qos=1)
        b.topic("t").wait(1, timeout=PATIENCE)
        client.client.publish("t", "1", qos=1).wait_for_publish(PATIENCE)
        assert not lost.is_published()
        assert fault.happened == 1


def test_duplicate(b: Running) -> None:
    """Every second message arrives twice. paho publishes each once."""
    with Paho(b.port("mqtt")) as client:
        client.subscribe("t")
        with b.fault("mqtt", duplicate=2):
            for n in range(4):
                client.client.publish("t", str(n), qos=1).wait_for_publish(PATIENCE)
        assert [client.receive() for _ in range(6)] == [b"0", b"1", b"1", b"2", b"3", b"3"]


def test_reorder(b: Running) -> None:
    """Two clients publish one after the other. The messages arrive in reverse order."""
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
    """Bits change only in the bytes that paho receives. The same seed changes the same bits."""
    seen = []
    for _ in range(2):
        b.broker.faults.sow(7)
        with Paho(b.port("mqtt")) as client:
            client.subscribe("t", 0)
            with b.fault("mqtt", corrupt=20_000) as fault:
                client.client.publish("t", bytes(200_000))
                seen.append(client.receive())
            assert b.topic("t").last is not None
            assert checked(b.topic("t").last, Message).body == bytes(200_000)
            assert fault.happened == sum(octet != 0 for octet in seen[-1])
    assert seen[0] == seen[1]
    assert 1 <= sum(octet != 0 for octet in seen[0]) <= 40
    assert all(octet.bit_count() <= 1 for octet in seen[0])


def test_full(b: Running) -> None:
    """5.0: PUBACK with 0x97, quota exceeded (table 2-6); afterwards there is space."""
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
    """3.1.1 has no reason code for it, so the client is disconnected (section 4.8)."""
    with Paho(b.port("mqtt"), version=4) as client, b.fault("mqtt", full="memory"):
        client.client.publish("t", "x", qos=1)
        client.disconnected.get(timeout=PATIENCE)


@pytest.mark.parametrize("keep_state", [True, False])
def test_restart(b: Running, keep_state: bool) -> None:
    """With its state the broker has the retained message, without it not. paho reconnects by itself."""
    with Paho(b.port("mqtt")) as client:
        client.client.publish("t", "kept", qos=1, retain=True).wait_for_publish(PATIENCE)
        b.restart(keep_state=keep_state)
        client.disconnected.get(timeout=PATIENCE)
        assert client.connacks.get(timeout=PATIENCE).value == 0
        client.subscribe("t")
        client.client.publish("t", "new", qos=1).wait_for_publish(PATIENCE)
        assert client.receive() == (b"kept" if keep_state else b"new")
