"""Messages that come in one read with the end of the connection: their answers are owed, and QoS 2 is remembered (4.3, 4.4)."""

from __future__ import annotations

import pytest

from lib.kinds import all_of, checked, exactly, only
from wirefmt import mqtt
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import LocalProtocolError

DISCONNECT = b"\xe0\0"
MALFORMED = b"\xf0\xff\xff\xff\xff\xff"
#: What the server says last: 5.0 gives a reason for a malformed packet, unless its Remaining Length cannot be read.
WRONG = {4: b"\xc1\0", 5: b"\xc1\0"}


def publish(version: int, qos: int, identifier: int = 7, dup: bool = False) -> bytes:
    return mqtt.Publish(
        topic_name="t", payload=b"x", qos=qos, packet_identifier=identifier, dup=dup, version=version
    ).encode()


def subscribe(version: int) -> bytes:
    return mqtt.Subscribe(packet_identifier=9, subscriptions=[mqtt.Subscription("t")], version=version).encode()


def connected(
    version: int, session: mqtt.Session | None = None, expiry: int = 60, **options: object
) -> mqtt.ServerConnection:
    server = mqtt.ServerConnection(0.0, mqtt.ConnectionOptions(**options))  # type: ignore[arg-type]
    properties = [("session_expiry_interval", expiry)] if version == 5 else ()
    connect = mqtt.Connect(
        client_identifier="c", clean_start=version == 4 and not expiry, properties=properties, version=version
    )
    event = only(server.receive(connect.encode(), 0.0), mqtt.Connect)
    server.accept(event, session)
    server.data_to_send()
    return server


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(("end", "last"), [(DISCONNECT, b""), (WRONG, b"\xe0\x01\x81")], ids=["DISCONNECT", "a fault"])
def test_what_came_before_the_end_is_answered(version: int, end: bytes | dict[int, bytes], last: bytes) -> None:
    """PUBACK, PUBREC, SUBACK and PINGRESP leave before the last packet [MQTT-4.3.2-4, MQTT-4.3.3-8, MQTT-3.8.4-1]."""
    server = connected(version)
    data = end if isinstance(end, bytes) else end[version]
    one, two, asked, over = exactly(
        server.receive(publish(version, 1, 1) + publish(version, 2, 2) + subscribe(version) + b"\xc0\0" + data, 0.0),
        mqtt.Publish,
        mqtt.Publish,
        mqtt.Subscribe,
        Disconnected,
    )
    assert isinstance(over, Disconnected)
    assert not server.acknowledge(two)
    assert not server.acknowledge(one)
    assert not server.grant(asked, [0])
    suback = b"\x90\x04\0\x09\0\0" if version == 5 else b"\x90\x03\0\x09\0"
    said = server.data_to_send()
    assert said == b"\x50\x02\0\2\x40\x02\0\1" + suback + b"\xd0\0" + (last if version == 5 else b"")
    assert server.should_close
    with pytest.raises(LocalProtocolError):
        server.acknowledge(one)
    with pytest.raises(LocalProtocolError):
        server.grant(asked, [0])


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("end", [DISCONNECT, MALFORMED, b"", None], ids=["DISCONNECT", "a fault", "EOF", "close"])
@pytest.mark.parametrize("taken", [False, True])
def test_a_session_remembers_qos_2(version: int, end: bytes | None, taken: bool) -> None:
    """[MQTT-4.3.3-10, MQTT-4.4.0-1]: the same message again brings PUBREC, and no event. It is so whenever the host has
    answered, also after everything has been written."""
    server = connected(version)
    session = server.session
    message = checked(server.receive(publish(version, 2) + (end or b""), 0.0)[0], mqtt.Publish)
    if end == b"":
        server.receive_eof(0.0)
    elif end is None:
        server.close(immediate=True)
    if taken:
        server.data_to_send()
    server.acknowledge(message)
    said = server.data_to_send()
    assert (b"\x50\x02\0\7" in said) is (bool(end) and not taken)
    again = connected(version, session)
    assert again.receive(publish(version, 2, dup=True), 0.0) == []
    assert again.data_to_send() == b"\x50\x02\0\7"
    assert again.receive(b"\x62\x02\0\7", 0.0) == []
    assert again.data_to_send() == b"\x70\x02\0\7"
    assert not again.session.incoming  # type: ignore[union-attr]


def test_a_refused_message_is_not_remembered() -> None:
    server = connected(5)
    message, _ = exactly(server.receive(publish(5, 2) + DISCONNECT, 0.0), mqtt.Publish, Disconnected)
    server.acknowledge(message, 0x97)
    assert server.data_to_send() == b"\x50\x03\0\7\x97"
    again = connected(5, server.session)
    assert len(again.receive(publish(5, 2, dup=True), 0.0)) == 1


def test_a_session_that_another_connection_has_is_left_alone() -> None:
    """It has asked for the message again, and has it from there."""
    server = connected(5)
    message, _ = exactly(server.receive(publish(5, 2) + DISCONNECT, 0.0), mqtt.Publish, Disconnected)
    again = connected(5, server.session)
    with pytest.raises(LocalProtocolError, match="over"):
        server.acknowledge(message)
    assert len(again.receive(publish(5, 2, dup=True), 0.0)) == 1


def test_a_session_that_has_ended_remembers_nothing() -> None:
    server = connected(5, expiry=0, journaled=True)
    message, _ = exactly(server.receive(publish(5, 2) + DISCONNECT, 0.0), mqtt.Publish, Disconnected)
    server.acknowledge(message)
    assert server.data_to_send() == b"\x50\x02\0\7"
    assert server.session is not None
    assert not server.session.incoming
    assert not mqtt.Session.replay(server.changes()).incoming


@pytest.mark.parametrize("event", ["publish", "release"])
def test_it_is_the_same_for_a_client(event: str) -> None:
    """A server that shuts down: PUBLISH and DISCONNECT. The message does not come twice."""
    session = mqtt.Session("c")
    options = mqtt.ConnectionOptions(qos2_event=event)  # type: ignore[arg-type]

    def client() -> mqtt.ClientConnection:
        found = mqtt.ClientConnection(0.0, session, options)
        found.send(mqtt.Connect(client_identifier="c", clean_start=False, properties=[("session_expiry_interval", 60)]))
        connack = mqtt.Connack(session_present=session.established)
        assert len(found.receive(connack.encode(), 0.0)) == 1
        found.data_to_send()
        return found

    first = client()
    message, over = exactly(first.receive(publish(5, 2) + b"\xe0\x01\x8b", 0.0), mqtt.Publish, Disconnected)
    assert isinstance(over, Disconnected)
    first.acknowledge(message)
    second = client()
    assert second.receive(publish(5, 2, dup=True), 0.0) == []
    released = second.receive(b"\x62\x02\0\7", 0.0)
    assert [type(each).__name__ for each in released] == (["Released"] if event == "release" else [])


def test_bytes_that_are_not_acknowledged_close_the_window() -> None:
    """However many messages Receive Maximum allows; one larger than the limit can go."""
    server = connected(5, outgoing_bytes=3000)
    assert server.send_quota > 1000
    handles = []
    while server.send_quota:
        handles.append(server.publish("t", bytes(1000), qos=1))
    assert len(handles) == 3
    with pytest.raises(LocalProtocolError, match="window"):
        server.publish("t", bytes(1000), qos=1)
    server.publish("t", bytes(1000))
    assert server.session is not None
    assert server.session.outgoing_bytes == sum(each.size for each in handles if each is not None)
    events = server.receive(b"\x40\x02\0\1", 0.0)
    assert [type(each).__name__ for each in events] == ["Acknowledged", "WindowOpened"]
    server.publish("t", bytes(5000), qos=2)
    assert server.send_quota == 0
    assert mqtt.Session.restore(server.session.snapshot()).outgoing_bytes == server.session.outgoing_bytes
    server.receive(b"\x50\x02\0\4", 0.0)
    assert server.send_quota > 1000  # PUBREC: the content is not needed any more
    server.receive(b"\x40\x02\0\2\x40\x02\0\3\x70\x02\0\4", 0.0)
    assert server.session.outgoing_bytes == 0


def test_what_a_connection_counts() -> None:
    server = connected(5)
    before = server.bytes_in, server.packets_in, server.sent_bytes, server.packets_out
    assert before[1] == before[3] == 1
    read = publish(5, 1, 1) + publish(5, 2, 2) + publish(5, 1, 1)[:5]
    one, two = exactly(server.receive(read, 0.0), mqtt.Publish, mqtt.Publish)
    server.receive(publish(5, 1, 3)[5:] + b"\xc0\0", 0.0)
    server.acknowledge(one)
    server.acknowledge(two)
    server.publish("t", b"abc")
    server.publish("t", bytes(5000), qos=1)
    server.publish("t", b"", properties=[("content_type", "x")])
    said = server.data_to_send()
    packets = mqtt.Decoder(version=5, side="server").feed(said)
    assert server.packets_out - before[3] == len(packets)
    assert server.sent_bytes - before[2] == len(said)
    assert server.packets_in - before[1] == 4
    assert (server.publishes_in, server.payload_in) == (3, 3)
    assert (server.publishes_out, server.payload_out) == (3, 5003)


@pytest.mark.parametrize(("name", "version"), [(b"\0\4MQTT", 4), (b"\0\6MQIsdp", 3)])
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_bridge_is_known_by_the_highest_bit_of_its_version(name: bytes, version: int, size: int) -> None:
    """mosquitto's `try_private`."""
    body = name + bytes((0x80 | version,)) + b"\x02\0\x3c\0\1b"
    data = b"\x10" + bytes((len(body),)) + body
    server = mqtt.ServerConnection(0.0)
    events = [event for at in range(0, len(data), size) for event in server.receive(data[at : at + size], 0.0)]
    assert [(type(event), event.version, event.client_identifier) for event in all_of(events, mqtt.Connect)] == [
        (mqtt.Connect, version, "b")
    ]
    assert server.bridge
    assert not connected(4).bridge


def test_an_unknown_version_with_the_highest_bit_is_refused() -> None:
    server = mqtt.ServerConnection(0.0)
    server.receive(b"\x10\x0f\0\4MQTT\x85\x02\0\x3c\0\0\1b\0"[:17], 0.0)
    assert not server.bridge
    assert server.connect is None
