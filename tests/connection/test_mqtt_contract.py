"""The contract of docs/connections.md on MQTT's connections, as far as no statement of the standard asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from lib.driven import check_idle
from lib.kinds import checked, exactly, only
from wirefmt import mqtt
from wirefmt.connection import Acknowledged, Disconnected
from wirefmt.errors import LocalProtocolError, RemoteProtocolError
from wirefmt.mqtt.states import State

CONNECT = mqtt.Connect(client_identifier="c")


def server(options: mqtt.ConnectionOptions | None = None, connect: mqtt.Connect = CONNECT) -> mqtt.ServerConnection:
    connection = mqtt.ServerConnection(0.0, options)
    event = only(connection.receive(connect.encode(), 0.0), mqtt.Connect)
    connection.accept(event)
    connection.data_to_send()
    return connection


def client(version: int = 5, options: mqtt.ConnectionOptions | None = None, **fields: Any) -> mqtt.ClientConnection:
    connection = mqtt.ClientConnection(0.0, options=options)
    connection.send(mqtt.Connect(client_identifier="c", version=version, **fields))
    connection.receive(mqtt.Connack(version=version, properties=fields.get("properties", ())).encode(), 0.0)
    connection.data_to_send()
    return connection


def publish(identifier: int = 1, qos: int = 1, payload: bytes = b"x", **fields: Any) -> bytes:
    return mqtt.Publish(
        topic_name="a", qos=qos, packet_identifier=identifier if qos else None, payload=payload, **fields
    ).encode()


def test_both_roles_keep_the_contract() -> None:
    check_idle(client(), server())


def test_pause_stops_between_two_packets_and_resume_goes_on() -> None:
    connection = server()
    connection.pause()
    assert not connection.wants_read
    packets = publish(qos=0, payload=b"1") + publish(qos=0, payload=b"2")
    assert connection.receive(packets[:3], 1.0) == []
    assert connection.trailing_data == packets[:3]
    assert connection.receive(packets[3:-1], 2.0) == []
    assert connection.trailing_data == packets[:-1]
    one = only(connection.resume(3.0), mqtt.Publish)
    assert bytes(one.payload) == b"1"
    assert connection.wants_read
    (two,) = connection.receive(packets[-1:], 4.0)
    assert bytes(two.payload) == b"2"


def test_the_end_of_the_stream_waits_for_what_was_not_read() -> None:
    connection = server()
    connection.pause()
    connection.receive(publish(qos=0) + mqtt.Disconnect().encode(), 0.0)
    assert connection.receive_eof(0.0) == []
    message, last = exactly(connection.resume(0.0), mqtt.Publish, Disconnected)
    assert isinstance(message, mqtt.Publish)
    assert (last.by, last.code) == ("peer", 0)


def test_the_end_of_the_stream_inside_a_packet() -> None:
    connection = server()
    connection.receive(publish()[:-1], 0.0)
    last = only(connection.receive_eof(0.0), Disconnected)
    assert (last.by, last.error, last.reason) == ("transport", None, "the stream ended inside a packet")


def test_large_payloads_are_not_copied() -> None:
    payload = bytes(100_000)
    message = mqtt.decode(publish(9, payload=payload), version=5)
    connection = server()
    connection.send(message)
    head, tail = connection.buffers_to_send()
    assert isinstance(tail, memoryview)
    assert len(tail) > 100_000
    assert bytes(head) + bytes(tail) == publish(1, payload=payload)


def test_send_refuses_while_too_much_is_queued() -> None:
    connection = server(mqtt.ConnectionOptions(pending_bytes=1000))
    connection.publish("a", bytes(900))
    with pytest.raises(LocalProtocolError) as refused:
        connection.publish("a", bytes(900), qos=1)
    assert refused.value.reply == 0x97
    assert connection.session is not None
    assert not connection.session.outgoing
    connection.data_to_send()
    connection.publish("a", bytes(2000), qos=1)  # one packet always goes


def test_send_refuses_what_is_no_packet_or_of_another_version() -> None:
    connection = client()
    for wrong in (mqtt.Publish(topic_name="a", version=4), b"\xc0\x00", None):
        with pytest.raises(LocalProtocolError):
            connection.send(wrong)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError):
        connection.publish("a/#")
    with pytest.raises(LocalProtocolError):
        client(4).publish("a", properties=[("content_type", "t")])
    assert connection.pending_bytes == 0


def test_limits_are_given_by_options_only() -> None:
    for name in ("receive_maximum", "maximum_packet_size", "topic_alias_maximum"):
        with pytest.raises(LocalProtocolError, match=name):
            mqtt.ClientConnection(0.0).send(mqtt.Connect(client_identifier="c", properties=[(name, 7)]))
        connection = mqtt.ServerConnection(0.0)
        event = only(connection.receive(CONNECT.encode(), 0.0), mqtt.Connect)
        with pytest.raises(LocalProtocolError, match=name):
            connection.accept(event, properties=[(name, 7)])
        connection.accept(event)


def test_answers_take_their_own_event_only() -> None:
    connection = server()
    event = only(connection.receive(publish(), 0.0), mqtt.Publish)
    same = mqtt.decode(publish(), version=5)
    assert same == event
    for call in (
        lambda: connection.acknowledge(same),
        lambda: connection.acknowledge(mqtt.Pingreq()),  # type: ignore[arg-type]
        lambda: connection.grant(event),  # type: ignore[arg-type]
        lambda: connection.accept(event),  # type: ignore[arg-type]
        lambda: connection.refuse(event, 0x87),  # type: ignore[arg-type]
        lambda: connection.continue_authentication(event),  # type: ignore[arg-type]
        lambda: connection.acknowledge(event, 0x99 + 1),
    ):
        with pytest.raises(LocalProtocolError):
            call()
    assert (connection.undecided, connection.pending_bytes) == (1, 0)
    connection.acknowledge(event)


def test_automatic_acknowledgements() -> None:
    connection = server(mqtt.ConnectionOptions(automatic=True))
    events = connection.receive(publish(1) + publish(2, 2), 0.0)
    assert len(events) == 2
    assert connection.undecided == 0
    assert connection.data_to_send() == bytes.fromhex("4002 0001 5002 0002")


def test_a_request_identifier_is_in_use_until_it_is_answered() -> None:
    def subscribe(version: int, dup: bool) -> bytes:
        return mqtt.Subscribe(
            packet_identifier=1, subscriptions=[mqtt.Subscription("a")], dup=dup, version=version
        ).encode()

    connection = server()
    first, last = exactly(connection.receive(subscribe(5, False) * 2, 0.0), mqtt.Subscribe, Disconnected)
    assert isinstance(first, mqtt.Subscribe)
    assert isinstance(last.error, RemoteProtocolError)
    # 3.1 lets a client send a request again while it waits
    connection = server(connect=mqtt.Connect(client_identifier="c", version=3))
    event = only(connection.receive(subscribe(3, False) + subscribe(3, True), 0.0), mqtt.Subscribe)
    connection.grant(event, [0])
    assert connection.data_to_send() == bytes.fromhex("9003 0001 00")


def test_undecided_requests_stop_reading_in_5_0_too() -> None:
    connection = server(mqtt.ConnectionOptions(undecided=1))
    requests = [mqtt.Unsubscribe(packet_identifier=n, topic_filters=["a"]).encode() for n in (1, 2)]
    one = only(connection.receive(b"".join(requests), 0.0), mqtt.Unsubscribe)
    assert not connection.wants_read
    two = only(connection.grant(one), mqtt.Unsubscribe)
    assert two.packet_identifier == 2
    connection.grant(two)
    assert connection.wants_read


def test_requests_are_lost_with_the_connection_and_their_identifiers_are_free() -> None:
    connection = client()
    request = connection.subscribe([mqtt.Subscription("a")])
    (last,) = connection.receive_eof(0.0)
    assert isinstance(last, Disconnected)
    assert last.lost == (request,)
    assert len(connection.session.identifiers) == 0


def test_a_client_that_does_not_read_waits_for_no_pingresp() -> None:
    connection = client(keep_alive=10)
    connection.pause()
    now = 0.0
    while now < 60:
        when = connection.next_timeout()
        assert when is not None
        now = when
        assert connection.handle_timeout(now) == []
    assert set(connection.data_to_send()) == {0xC0, 0x00}  # but it goes on sending
    connection.resume(now)
    events: list[Any] = []
    end = 0.0
    while not events:
        end = checked(connection.next_timeout(), float)
        events = connection.handle_timeout(end)
    assert end >= now + 10


def test_a_client_that_waits_too_long_for_auth_says_what_a_client_may_say() -> None:
    method = [("authentication_method", "m")]
    connection = client(properties=method)
    connection.send(mqtt.Auth(reason_code=0x19, properties=method))
    connection.handle_timeout(0.0)
    connection.data_to_send()
    last = only(connection.handle_timeout(30.0), Disconnected)
    assert last.code == 0x80
    assert connection.data_to_send() == bytes.fromhex("e00180")


def test_unread_bytes_after_the_end_are_trailing_data() -> None:
    connection = mqtt.ServerConnection(0.0)
    event = only(connection.receive(CONNECT.encode() + b"more", 0.0), mqtt.Connect)
    connection.refuse(event, 0x87)
    assert connection.state is State.CLOSED
    assert connection.trailing_data == b"more"


def test_control_characters_are_a_choice() -> None:
    for options, accepted in ((None, True), (mqtt.ConnectionOptions(control_characters=False), False)):
        for connection in (client(options=options), server(options)):
            packet = mqtt.Publish(topic_name="a\x01b").encode()
            (event,) = connection.receive(packet, 0.0)
            assert isinstance(event, mqtt.Publish) is accepted
            if not accepted:
                assert checked(event, Disconnected).code == 0x81


def test_tolerated_faults_are_named() -> None:
    packet = bytes.fromhex("b003 0001 00")  # UNSUBACK of 5.0 without codes
    last = only(client().receive(packet, 0.0), Disconnected)
    assert last.error is not None
    tolerant = client(options=mqtt.ConnectionOptions(tolerate=frozenset({"UNSUBACK UNSUBACK_EMPTY"})))
    request = tolerant.unsubscribe(["a"])
    event = only(tolerant.receive(packet, 0.0), Acknowledged)
    assert event.handle is request
    last = only(tolerant.receive(bytes.fromhex("c100"), 0.0), Disconnected)  # any other fault is one
    assert last.code == 0x81
    with pytest.raises(ValueError, match="check"):
        mqtt.ConnectionOptions(tolerate=frozenset({"UNSUBACK nothing"}))
