"""What is compiled of an MQTT connection does what its readable part does."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lib.kinds import all_of
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
    """Against a dict: identifiers that share their low bits, and more of them than there is space for at first."""
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


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("size", [0, 1900, 1998, 2048, 5000])
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("expiry", [None, 0, 70_000])
@pytest.mark.parametrize("identifiers", [(), (1,), tuple(range(268_435_448, 268_435_456))])
def test_properties_go_on_as_they_came(
    version: int, qos: int, size: int, retain: bool, expiry: int | None, identifiers: tuple[int, ...]
) -> None:
    """3.3.2.3: a server sends them on unaltered and in order; the interval is what is left, and identifiers are added."""
    pairs = [
        ("payload_format_indicator", 1),
        ("user_property", ("a", "b")),
        ("message_expiry_interval", 7),
        ("content_type", "text"),
        ("correlation_data", b"\x00" * 100),
        ("user_property", ("a", "c")),
        ("response_topic", "back"),
    ]
    octets = mqtt.Publish(topic_name="a/é", payload=b"x" * size, properties=pairs).encode()
    more = mqtt.Publish(topic_name="b", payload=bytes(20_000)).encode()
    expected: list[tuple[str, object]] = []
    if version == 5:
        expected = [pair for pair in pairs if pair[0] != "message_expiry_interval"]
        expected += [("message_expiry_interval", expiry)] if expiry is not None else []
        expected += [("subscription_identifier", each) for each in identifiers]
    one, other = (opened("server", version, mqtt.ConnectionOptions(), 10, False) for _ in range(2))
    for block in (octets, octets + more, more + octets):
        event = next(e for e in all_of(mqtt.Decoder(version=5).feed(block), mqtt.Publish) if e.topic_name == "a/é")
        handle = one.forward(event, qos, -1, retain, expiry, identifiers)
        assert handle is not NotImplemented
        expect = other.publish("a/é", b"x" * size, qos=qos, retain=retain, properties=expected)
        assert (handle is None) is (qos == 0) is (expect is None)
        if handle is not None:
            assert expect is not None
            assert (handle.packet, handle.mark, handle.size) == (expect.packet, expect.mark, expect.size)
            assert memoryview(handle.buffers[1]).nbytes in (0, size)
    assert one.pending_bytes == other.pending_bytes
    assert one.data_to_send() == other.data_to_send()
    assert one.session is not None
    assert other.session is not None
    assert one.session.snapshot() == other.session.snapshot()


@pytest.mark.parametrize("size", [2000, 2100, 4100, 100_000])
def test_a_large_payload_does_not_keep_more_than_itself(size: int) -> None:
    """It is queued in place if it is most of what was read; otherwise a copy of it is queued."""
    octets = mqtt.Publish(topic_name="a", payload=bytes(size)).encode()
    for before in (0, size // 2, 3 * size):
        block = mqtt.Publish(topic_name="b", payload=bytes(before)).encode() + octets
        server = opened("server", 5, mqtt.ConnectionOptions(), 3, False)
        server.data_to_send()
        server.forward(mqtt.Decoder(version=5).feed(block)[1], 0)
        head, *tail = server.buffers_to_send()
        assert b"".join((head, *tail)) == octets
        kept: list[Any] = [each.obj if isinstance(each, memoryview) else each for each in (head, *tail)]
        assert sum(len(each) for each in kept) < 3 * size


def test_what_needs_an_object_is_not_passed_on() -> None:
    server = opened("server", 5, mqtt.ConnectionOptions(), 3, False)
    server.data_to_send()
    for pairs in ([("topic_alias", 1)], [("subscription_identifier", 1)]):  # they belong to the other connection
        assert server.forward(mqtt.Publish(topic_name="a", properties=pairs), 0) is NotImplemented
    with_notes = mqtt.decode(b"\x30\x09\x00\x01a\x04\x01\x00\x01\x00x", version=5, strictness="lax")
    assert with_notes.notes
    assert server.forward(with_notes, 0) is NotImplemented  # twice the same property
    event = mqtt.Publish(topic_name="a")
    assert server.forward(event, 0, -1, False, None, tuple(range(1, 10))) is NotImplemented  # so many identifiers
    assert server.forward(event, 0, -1, False, None, (0,)) is NotImplemented
    assert server.forward(event, 3) is NotImplemented
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
