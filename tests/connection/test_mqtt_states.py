"""Every state with every kind of packet, in both roles and both directions, against the table; and the table itself."""

from __future__ import annotations

from typing import Any

import pytest

from lib.kinds import checked, only
from lib.state_tables import arrows, reachable
from wirefmt import mqtt
from wirefmt.connection import Disconnected
from wirefmt.connection.states import Outcome, Role, Violation
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.mqtt import ClientConnection, ServerConnection
from wirefmt.mqtt.endpoint import kind_of
from wirefmt.mqtt.events import ConnectionOptions
from wirefmt.mqtt.states import KINDS, MEANINGS, RECEIVES, SENDS, State

METHOD = ("authentication_method", "m")
CONNECT = mqtt.Connect(client_identifier="c", properties=[METHOD])
PACKETS: dict[str, mqtt.Packet] = {
    "CONNECT": CONNECT,
    "CONNACK accepted": mqtt.Connack(properties=[METHOD]),
    "CONNACK refused": mqtt.Connack(reason_code=0x87),
    "PUBLISH": mqtt.Publish(topic_name="a/b"),
    "PUBACK": mqtt.Puback(packet_identifier=7),
    "PUBREC": mqtt.Pubrec(packet_identifier=7),
    "PUBREL": mqtt.Pubrel(packet_identifier=7),
    "PUBCOMP": mqtt.Pubcomp(packet_identifier=7),
    "SUBSCRIBE": mqtt.Subscribe(packet_identifier=7, subscriptions=[mqtt.Subscription("a/b")]),
    "SUBACK": mqtt.Suback(packet_identifier=7, reason_codes=[0]),
    "UNSUBSCRIBE": mqtt.Unsubscribe(packet_identifier=7, topic_filters=["a/b"]),
    "UNSUBACK": mqtt.Unsuback(packet_identifier=7, reason_codes=[0]),
    "PINGREQ": mqtt.Pingreq(),
    "PINGRESP": mqtt.Pingresp(),
    "DISCONNECT": mqtt.Disconnect(),
    "AUTH success": mqtt.Auth(reason_code=0, properties=[METHOD]),
    "AUTH continue": mqtt.Auth(reason_code=0x18, properties=[METHOD]),
    "AUTH re-authenticate": mqtt.Auth(reason_code=0x19, properties=[METHOD]),
}
AUTH = PACKETS["AUTH continue"].encode()
REAUTH = mqtt.Auth(reason_code=0x19, properties=[METHOD])


def client_in(state: State) -> ClientConnection:
    client = ClientConnection(0.0)
    if state is not State.IDLE:
        client.send(CONNECT)
    match state:
        case State.AUTHENTICATING:
            event = only(client.receive(AUTH, 0.0), mqtt.Auth)
            client.continue_authentication(event, b"")
        case State.CONNECTED | State.REAUTHENTICATING | State.CLOSED:
            client.receive(PACKETS["CONNACK accepted"].encode(), 0.0)
    match state:
        case State.REAUTHENTICATING:
            client.send(REAUTH)
        case State.CLOSED:
            client.close()
    client.data_to_send()
    assert client.state is state
    return client


def server_in(state: State) -> ServerConnection:
    server = ServerConnection(0.0)
    if state is not State.IDLE:
        connect = only(server.receive(CONNECT.encode(), 0.0), mqtt.Connect)
    match state:
        case State.AUTHENTICATING:
            server.continue_authentication(connect)
        case State.CONNECTED | State.REAUTHENTICATING | State.CLOSED:
            server.accept(connect)
    match state:
        case State.REAUTHENTICATING:
            auth = only(server.receive(REAUTH.encode(), 0.0), mqtt.Auth)
            server.continue_authentication(auth)
        case State.CLOSED:
            server.close()
    server.data_to_send()
    assert server.state is state
    return server


def connection_in(role: Role, state: State) -> Any:
    return client_in(state) if role is Role.CLIENT else server_in(state)


ROWS = [(role, state, kind) for role in Role for state in State for kind in KINDS]


def test_the_tables_are_complete_and_lead_somewhere() -> None:
    for table in (RECEIVES, SENDS):
        assert sorted(map(str, table)) == sorted(map(str, ROWS))
        assert {type(value) for value in table.values()} <= {State, Outcome, Violation}
    assert set(MEANINGS) == {(role, state) for role in Role for state in State}
    for role in Role:
        assert reachable(State.IDLE, arrows(role, RECEIVES, SENDS)) == set(State)


def test_what_one_role_may_send_the_other_may_receive() -> None:
    """Two machines that keep to the table never see a violation in the states that they share."""
    same = [(s, s) for s in (State.IDLE, State.CONNECTED, State.REAUTHENTICATING)]
    for sender, receiver in ((Role.CLIENT, Role.SERVER), (Role.SERVER, Role.CLIENT)):
        for ours, theirs in same:
            for kind in KINDS:
                if isinstance(SENDS[sender, ours, kind], State) and ours is not State.IDLE:
                    assert not isinstance(RECEIVES[receiver, theirs, kind], Violation), (sender, ours, kind)


def test_the_packets_are_of_their_kinds() -> None:
    assert list(PACKETS) == list(KINDS)
    assert [kind_of(packet) for packet in PACKETS.values()] == list(KINDS)


@pytest.mark.parametrize(("role", "state", "kind"), ROWS, ids=lambda v: getattr(v, "value", v))
def test_every_state_receives_every_packet(role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state)
    packet = PACKETS[kind].encode()
    expected = RECEIVES[role, state, kind]
    if state is State.CLOSED:
        assert expected is Outcome.DROPPED
        with pytest.raises(LocalProtocolError, match="over"):
            connection.receive(packet, 1.0)
        return
    events = connection.receive(packet, 1.0)
    gone = [event for event in events if isinstance(event, Disconnected)]
    if expected is Outcome.UNREAD:
        assert events == []
        assert connection.state is state
        assert not connection.wants_read
        connection.pause()
        assert connection.trailing_data == packet
    elif isinstance(expected, State):
        assert connection.state is expected
        assert len(gone) == (expected is State.CLOSED)
        assert all(event.error is None for event in gone)
    else:
        assert connection.state is State.CLOSED
        assert events == gone
        assert isinstance(gone[0].error, DecodeError | RemoteProtocolError)
        assert gone[0].by == "local"
        said = {
            (Role.SERVER, State.AUTHENTICATING): mqtt.Connack(reason_code=0x82).encode(),
            (Role.SERVER, State.CONNECTED): mqtt.Disconnect(reason_code=0x82).encode(),
            (Role.SERVER, State.REAUTHENTICATING): mqtt.Disconnect(reason_code=0x82).encode(),
            (Role.CLIENT, State.CONNECTED): mqtt.Disconnect(reason_code=0x82).encode(),
            (Role.CLIENT, State.REAUTHENTICATING): mqtt.Disconnect(reason_code=0x82).encode(),
        }.get((role, state), b"")
        assert not connection.should_close or not said
        assert connection.data_to_send() == said
        assert connection.should_close


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("AUTH") and kind != "CONNECT"])
def test_before_5_0_a_violation_is_answered_by_silence(version: int, role: Role, kind: str) -> None:
    connection: Any
    connect = mqtt.Connect(client_identifier="c", version=version)
    if role is Role.CLIENT:
        connection = ClientConnection(0.0)
        connection.send(connect)
        connection.receive(mqtt.Connack(version=version).encode(), 0.0)
    else:
        connection = ServerConnection(0.0)
        (event,) = connection.receive(connect.encode(), 0.0)
        connection.accept(event)
    connection.data_to_send()
    packets: dict[str, mqtt.Packet] = {
        "CONNACK accepted": mqtt.Connack(version=version),
        "CONNACK refused": mqtt.Connack(reason_code=5, version=version),
        "PUBLISH": mqtt.Publish(topic_name="a/b", version=version),
        "PUBACK": mqtt.Puback(packet_identifier=7, version=version),
        "PUBREC": mqtt.Pubrec(packet_identifier=7, version=version),
        "PUBREL": mqtt.Pubrel(packet_identifier=7, version=version),
        "PUBCOMP": mqtt.Pubcomp(packet_identifier=7, version=version),
        "SUBSCRIBE": mqtt.Subscribe(packet_identifier=7, subscriptions=[mqtt.Subscription("a")], version=version),
        "SUBACK": mqtt.Suback(packet_identifier=7, reason_codes=[0], version=version),
        "UNSUBSCRIBE": mqtt.Unsubscribe(packet_identifier=7, topic_filters=["a"], version=version),
        "UNSUBACK": mqtt.Unsuback(packet_identifier=7, version=version),
        "PINGREQ": mqtt.Pingreq(version=version),
        "PINGRESP": mqtt.Pingresp(version=version),
        "DISCONNECT": mqtt.Disconnect(version=version),
    }
    events = connection.receive(packets[kind].encode(), 1.0)
    expected = RECEIVES[role, State.CONNECTED, kind]
    if role is Role.CLIENT and kind == "DISCONNECT":  # a server's DISCONNECT is new in 5.0
        expected = Violation("")
    if isinstance(expected, Violation):
        assert isinstance(events[-1], Disconnected)
        assert events[-1].error is not None
        assert connection.data_to_send() == b""
        assert connection.should_close
    else:
        assert connection.state is expected


@pytest.mark.parametrize(("role", "state", "kind"), ROWS, ids=lambda v: getattr(v, "value", v))
def test_every_state_sends_every_packet(role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state)
    expected = SENDS[role, state, kind]
    by_send = {"PUBLISH"} | (
        {"CONNECT", "SUBSCRIBE", "UNSUBSCRIBE", "PINGREQ", "AUTH re-authenticate"} if role is Role.CLIENT else set()
    )
    if isinstance(expected, State) and kind in by_send:
        connection.send(PACKETS[kind])
        assert connection.pending_bytes
        assert connection.state is expected
        return
    with pytest.raises(LocalProtocolError) as refused:
        connection.send(PACKETS[kind])
    if isinstance(expected, State):  # legal, but an answer or `close` sends it
        assert "sent by" in str(refused.value)
    elif state is not State.CLOSED:
        assert isinstance(expected, Violation)
        assert str(refused.value) == expected.rule
        assert refused.value.reply == 0x82
    assert connection.pending_bytes == 0
    assert connection.state is state


def test_answers_send_what_send_does_not() -> None:
    """The kinds that `send` leaves to other methods, each by its method."""
    server = server_in(State.CONNECTING)
    server.refuse(checked(server.connect, mqtt.Connect), 0x87)
    assert server.data_to_send() == mqtt.Connack(reason_code=0x87).encode()
    server = server_in(State.CONNECTING)
    server.continue_authentication(checked(server.connect, mqtt.Connect), b"x")
    sent = mqtt.decode(server.data_to_send(), version=5)
    assert isinstance(sent, mqtt.Auth)
    assert sent.reason_code == 0x18
    assert dict(sent.properties) == {"authentication_method": "m", "authentication_data": b"x"}
    auth = only(server.receive(AUTH, 0.0), mqtt.Auth)
    server.accept(auth, authentication_data=b"y")
    connack = mqtt.decode(server.data_to_send(), version=5)
    assert isinstance(connack, mqtt.Connack)
    assert dict(connack.properties)["authentication_data"] == b"y"
    assert server.state is State.CONNECTED
    auth = only(server.receive(REAUTH.encode(), 0.0), mqtt.Auth)
    assert server.undecided == 1
    server.accept(auth)
    assert mqtt.decode(server.data_to_send(), version=5) == mqtt.Auth(reason_code=0, properties=[METHOD])
    assert server.state is State.CONNECTED
    auth = only(server.receive(REAUTH.encode(), 0.0), mqtt.Auth)
    gone = only(server.refuse(auth, 0x87), Disconnected)
    assert gone.code == 0x87
    assert server.data_to_send() == mqtt.Disconnect(reason_code=0x87).encode()


def test_options_are_checked() -> None:
    for wrong in ({"receive_maximum": 0}, {"topic_alias_maximum": 65536}, {"packet_size": 1}, {"undecided": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ConnectionOptions(**wrong)  # type: ignore[arg-type]
