"""What is compiled of an MQTT connection does what its readable part does."""

from __future__ import annotations

import random

import pytest

from lib.mqtt_driven import compare_cuts, compare_paths, opened
from wirefmt import mqtt
from wirefmt.connection import WindowOpened
from wirefmt.mqtt._codec import Arrivals, Flows, SessionFlows, split_packet


@pytest.mark.parametrize("seed", range(300))
def test_both_paths_of_a_connection_agree(seed: int) -> None:
    compare_paths(seed)


@pytest.mark.parametrize("seed", range(100))
def test_cuts_change_nothing(seed: int) -> None:
    compare_cuts(seed)


def received(identifier: int, qos: int = 1) -> mqtt.Publish:
    return mqtt.Publish(topic_name="a", qos=qos, packet_identifier=identifier)


@pytest.mark.parametrize("seed", range(5))
def test_arrivals_are_found_by_identifier(seed: int) -> None:
    """Against a dict: identifiers that share their low bits, and more of them than there is room for at first."""
    random_ = random.Random(seed)
    options = mqtt.ConnectionOptions(undecided=65535)
    server = opened("server", 4, options, 1, False)
    server.data_to_send()
    expected: dict[int, mqtt.Publish] = {}
    for _ in range(600):
        if random_.random() < 0.7:
            identifier = random_.choice((1, 16, 64)) * random_.randrange(1, 1000)
            if identifier in expected:
                continue
            (message,) = server.receive(
                mqtt.Publish(topic_name="a", qos=1, packet_identifier=identifier, version=4).encode(), 0.0
            )
            expected[identifier] = message
        elif expected:
            first = next(iter(expected))
            server.acknowledge(expected.pop(first))
            assert server.data_to_send() == b"\x40\x02" + first.to_bytes(2)
            assert first not in server._arrivals
        assert len(server._arrivals) == server.undecided == len(expected)
        for identifier, message in expected.items():
            assert server._arrivals[identifier].message is message
    for identifier in reversed(list(expected)):
        assert server.data_to_send() == b""  # the first one is answered last
        server.acknowledge(expected[identifier])
    assert server.data_to_send() == b"".join(b"\x40\x02" + i.to_bytes(2) for i in expected)
    assert len(server._arrivals) == 0


def test_arrivals_refuse_what_does_not_fit() -> None:
    arrivals = Arrivals()
    assert 1 not in arrivals
    assert not arrivals.waits(1)
    assert not arrivals.waits(0)
    arrivals.add(received(1))
    assert arrivals.waits(1)
    assert not arrivals.waits(2)
    for message in (received(1), received(1, 2), mqtt.Publish(topic_name="a")):
        with pytest.raises(ValueError, match="new identifier"):
            arrivals.add(message)
    with pytest.raises(KeyError):
        arrivals[2]
    arrivals.clear()
    assert (len(arrivals), arrivals.undecided, arrivals.get(1)) == (0, 0, None)


def test_a_packet_that_is_no_publish_is_not_split() -> None:
    for packet in (b"", b"\x32", b"\x32\x80\x80", b"\x32\x02\x00\x05", b"\x32\x03\x00\x01a"):
        with pytest.raises(ValueError, match="not a PUBLISH"):
            split_packet(packet, 1)
    assert split_packet(b"\x3a\x05\x00\x01a\x00\x07", 0x1234) == (b"\x32\x05\x00\x01a\x12\x34", b"")


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_is_passed_on_as_it_would_be_published(version: int, qos: int) -> None:
    options = mqtt.ConnectionOptions(pending_bytes=400)
    one, other = (opened("server", version, options, 3, False) for _ in range(2))
    for connection in (one, other):
        connection.data_to_send()
    for source in (3, 5):
        event = mqtt.decode(
            mqtt.Publish(topic_name="a/é", payload=b"xyz" * 50, retain=True, version=source).encode(), version=source
        )
        assert isinstance(event, mqtt.Publish)
        handle = one.forward(event, qos)
        assert (handle is None) is (qos == 0)
        other.publish("a/é", b"xyz" * 50, qos=qos)
        assert one.send_quota == other.send_quota
    assert one.pending_bytes == other.pending_bytes
    assert one.forward(event, qos) is NotImplemented  # more than may be queued
    assert one.data_to_send() == other.data_to_send()
    if version == 5 and qos:
        one.forward(event, qos)
        assert one.forward(event, qos) is NotImplemented  # the window
        if qos == 1:
            assert any(isinstance(e, WindowOpened) for e in one.receive(mqtt.Puback(packet_identifier=1).encode(), 0.0))


def test_what_is_no_plain_message_is_not_passed_on() -> None:
    server = opened("server", 5, mqtt.ConnectionOptions(), 3, False)
    server.data_to_send()
    event = mqtt.Publish(topic_name="a", properties=[("content_type", "x")])
    assert server.forward(event, 0) is NotImplemented
    assert server.forward(mqtt.Publish(topic_name="a"), 3) is NotImplemented
    assert server.forward(mqtt.Publish(topic_name="a", payload=bytes(4000)), 0) is NotImplemented
    server.publish("a", bytes(3))
    pending = server.pending_bytes
    assert (
        server.forward(mqtt.Publish(topic_name="a"), 0, pending - 1) is NotImplemented
    )  # more is queued than the host allows
    assert server.pending_bytes == pending
    assert server.forward(mqtt.Publish(topic_name="a"), 0, pending) is None
    server.data_to_send()
    assert mqtt.ServerConnection(0.0).forward(mqtt.Publish(topic_name="a"), 0) is NotImplemented
    assert server.pending_bytes == 0


def test_a_part_without_the_rest_refuses() -> None:
    flows = Flows()
    flows._up = True
    assert flows._run([received(1)], 0, []) == 0
    assert flows.forward(mqtt.Publish(topic_name="a"), 1) is NotImplemented
    with pytest.raises(AttributeError):
        flows.acknowledge(received(1))
    with pytest.raises(ValueError, match="does not wait"):
        flows._decide(received(1), b"", 0)
    session = SessionFlows()
    delivery = session.add(received(9).encode(), 5)
    assert (session.next_number(), delivery.packet_identifier, delivery.mark) == (2, 1, None)
