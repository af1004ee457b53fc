"""What a client sends before its DISCONNECT, or before a fault, is answered, and its session knows it."""

from __future__ import annotations

from typing import Any

import pytest

from lib.loopback import HOST, run, until
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker
from wirefmt.connection import Disconnected
from wirefmt.errors import LocalProtocolError
from wirefmt.mqtt.states import State

both_versions = pytest.mark.parametrize("version", [4, 5])

#: How a client ends, and the bytes of our own end in 5.0.
ENDS = [
    pytest.param(b"\xe0\0", b"", id="DISCONNECT"),
    pytest.param(b"\xf0\xff\xff\xff\xff\xff", b"", id="a Remaining Length of five bytes"),
    pytest.param(b"\xc1\0", bytes.fromhex("e00181"), id="a malformed packet"),
    pytest.param(b"\xd0\0", bytes.fromhex("e00182"), id="a packet of servers"),
    pytest.param(b"\xe0\0\xc1\0", b"", id="DISCONNECT and more"),
]


def publish(identifier: int, qos: int, version: int, payload: bytes = b"x") -> bytes:
    return mqtt.Publish(
        topic_name="t/x", payload=payload, qos=qos, packet_identifier=identifier, version=version
    ).encode()


def connected(version: int, answers_first: bool = True, will: mqtt.Will | None = None) -> mqtt.ServerConnection:
    server = mqtt.ServerConnection(0.0, answers_first=answers_first)
    lives = [("session_expiry_interval", 100)] if version == 5 else ()
    connect = mqtt.Connect(client_identifier="c", clean_start=False, version=version, properties=lives, will=will)
    (event,) = server.receive(connect.encode(), 0.0)
    server.accept(event)
    server.data_to_send()
    return server


@both_versions
@pytest.mark.parametrize(("end", "last"), ENDS)
def test_answers_come_before_the_end(version: int, end: bytes, last: bytes) -> None:
    """[MQTT-4.3.2-4, MQTT-4.3.3-8]; [MQTT-4.3.3-10] on the next connection."""
    server = connected(version)
    subscribe = mqtt.Subscribe(packet_identifier=3, subscriptions=[mqtt.Subscription("a")], version=version)
    one, two, three = server.receive(publish(1, 1, version) + publish(2, 2, version) + subscribe.encode() + end, 0.0)
    assert not server.wants_read
    assert server.receive(b"\xc0\0" * 9, 0.0) == []  # dropped
    assert server.acknowledge(two) == []
    assert server.grant(three, [0]) == []
    (ended,) = server.acknowledge(one)
    assert isinstance(ended, Disconnected)
    assert server.state is State.CLOSED
    granted = "9003000300" if version == 4 else "900400030000"
    farewell = last if version == 5 else b""
    assert server.data_to_send() == bytes.fromhex("50020002" + granted + "40020001") + farewell
    assert server.session is not None
    assert server.session.incoming == {2: None}


@both_versions
def test_by_default_the_end_comes_at_once(version: int) -> None:
    server = connected(version, answers_first=False)
    message, ended = server.receive(publish(1, 1, version) + b"\xe0\0", 0.0)
    assert isinstance(ended, Disconnected)
    with pytest.raises(LocalProtocolError):
        server.acknowledge(message)


def test_nothing_to_answer_ends_at_once() -> None:
    server = connected(5)
    assert [type(e) for e in server.receive(b"\xe0\0", 0.0)] == [Disconnected]


@pytest.mark.parametrize("how", ["timeout", "close", "drop"])
def test_a_host_that_does_not_answer_does_not_keep_the_connection(how: str) -> None:
    """The DISCONNECT still counts: the will is not published [MQTT-3.1.2-10]."""
    server = connected(5, will=mqtt.Will("will"))
    (message,) = server.receive(publish(1, 1, 5) + b"\xe0\0", 1.0)
    assert server.receive_eof(1.0) == []
    when = server.next_timeout()
    assert when == 11.0
    if how == "timeout":
        (ended,) = server.handle_timeout(when)
    else:
        (ended,) = server.close(immediate=how == "drop")
    assert (ended.by, ended.code, ended.will) == ("peer", 0, None)
    with pytest.raises(LocalProtocolError):
        server.acknowledge(message)
    assert server.data_to_send() == b""
    assert server.should_close


def test_a_fault_in_the_disconnect_is_told_then() -> None:
    """3.14.2.2.2: a Session Expiry Interval of 0 cannot be raised."""
    server = mqtt.ServerConnection(0.0, answers_first=True)
    (event,) = server.receive(mqtt.Connect(client_identifier="c").encode(), 0.0)
    server.accept(event)
    server.data_to_send()
    (message,) = server.receive(publish(1, 1, 5) + bytes.fromhex("e007000511 00000001"), 0.0)
    (ended,) = server.acknowledge(message)
    assert ended.code == 0x82
    assert server.data_to_send() == bytes.fromhex("40020001 e00182")


def test_a_peer_that_sends_more_than_is_kept_is_given_up() -> None:
    server = connected(5)
    server.receive(publish(1, 1, 5) + b"\xe0\0", 0.0)
    events: list[Any] = []
    for _ in range(20):
        events = server.receive(bytes(1 << 17), 0.0)
        if events:
            break
    assert [e.code for e in events] == [0x97]


@both_versions
@pytest.mark.parametrize(("end", "last"), ENDS)
def test_a_message_of_qos_2_before_the_end_is_delivered_once(version: int, end: bytes, last: bytes) -> None:
    """Over sockets, to the broker: the client resumes its session and sends the message again."""
    import asyncio

    async def test() -> None:
        broker = Broker()
        seen: list[bytes] = []
        broker.observe = lambda message: seen.append(bytes(message.payload))
        lives = [("session_expiry_interval", 100)] if version == 5 else ()
        connect = mqtt.Connect(client_identifier="c", clean_start=False, version=version, properties=lives).encode()
        async with await mqtt.serve(broker, HOST, 0) as server:
            for first in (True, False):
                reader, writer = await asyncio.open_connection(HOST, server.port)
                writer.write(connect)
                head = await reader.readexactly(2)
                await reader.readexactly(head[1])
                packet = publish(7, 2, version, b"once")
                writer.write(packet + end if first else bytes((packet[0] | 8,)) + packet[1:] + b"\x62\2\0\7")
                if first:
                    assert (await reader.read())[:2] == (
                        b"\x50\2" if version == 4 else b"\x50\3"
                    )  # 0x10: no subscriber
                else:
                    said = b""
                    while b"\x70\2\0\7" not in said:
                        said += await reader.read(999)
                writer.close()
            await until(lambda: seen)
        broker.close()
        assert seen == [b"once"]

    run(test())
