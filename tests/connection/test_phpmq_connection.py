"""PHPMQ's connections: every state with every message in both roles, both profiles, flow, limits, and any bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lib.kinds import exactly, only
from wirefmt import phpmq
from wirefmt.connection import Acknowledged, Connection, Disconnected, WindowOpened
from wirefmt.connection.states import Outcome, Role, Violation
from wirefmt.errors import LocalProtocolError
from wirefmt.phpmq.connection import ClientConnection, ServerConnection
from wirefmt.phpmq.events import ConnectionOptions, Profile
from wirefmt.phpmq.states import FROM_CLIENT, FROM_SERVER, MEANINGS, RECEIVES, SENDS, STATES, State

SAID: dict[str, Any] = {
    "publish": phpmq.MessageClientToServer(queue_name="q", content=b"x"),
    "consume": phpmq.ConsumeRequest(queue_name="q", message_count=3),
    "acknowledge": phpmq.Acknowledgement(queue_name="q", message_id="1"),
    "re-queue": phpmq.ReQueue(queue_name="q", message_id="1", ttl=5),
    "dead letter": phpmq.DeadLetter(queue_name="q", message_id="1"),
    "message": phpmq.MessageServerToClient(queue_name="q", content=b"x", message_id="1", ttl=5),
}
KINDS = {Role.CLIENT: FROM_CLIENT, Role.SERVER: FROM_SERVER}
PEER = {Role.CLIENT: Role.SERVER, Role.SERVER: Role.CLIENT}
RECEIVED = [(role, state, kind) for role in Role for state in STATES[role] for kind in KINDS[PEER[role]]]
SENT = [(role, state, kind) for role in Role for state in STATES[role] for kind in KINDS[role]]
PROFILES: tuple[Profile, ...] = ("present", "early")


def connection_in(role: Role, state: State, profile: Profile = "present") -> Any:
    options = ConnectionOptions(profile=profile)
    connection: Any = ClientConnection(0.0, options) if role is Role.CLIENT else ServerConnection(0.0, options)
    if state is State.CONSUMING and role is Role.CLIENT:
        connection.consume("q", 3)
        connection.receive(phpmq.encode(SAID["message"], profile=profile), 0.0)
    elif state is State.CONSUMING:
        connection.receive(SAID["consume"].encode(), 0.0)
        connection.deliver("q", b"x", "1")
    elif state is State.CLOSED:
        connection.close()
    connection.data_to_send()
    assert connection.state is state
    return connection


def test_the_tables_are_complete_and_lead_somewhere() -> None:
    assert sorted(map(str, RECEIVES)) == sorted(map(str, RECEIVED))
    assert sorted(map(str, SENDS)) == sorted(map(str, SENT))
    assert set(MEANINGS) == {(role, state) for role in Role for state in State}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("role", "state", "kind"), RECEIVED, ids=lambda v: getattr(v, "value", v))
def test_every_state_receives_every_message(profile: Profile, role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state, profile)
    early_only = profile == "early" and kind in ("re-queue", "dead letter")
    data = phpmq.encode(SAID[kind], profile="present" if early_only else profile)
    expected = RECEIVES[role, state, kind]
    if state is State.CLOSED:
        assert expected is Outcome.DROPPED
        with pytest.raises(LocalProtocolError, match="over"):
            connection.receive(data, 1.0)
        return
    events = connection.receive(data, 1.0)
    if isinstance(expected, Violation) or early_only:
        assert [type(event) for event in events] == [Disconnected]
        assert events[0].error is not None
        assert connection.data_to_send() == b""  # the protocol has no word for it
        assert connection.should_close
    else:
        assert connection.state is expected
        assert not any(isinstance(event, Disconnected) for event in events)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("role", "state", "kind"), SENT, ids=lambda v: getattr(v, "value", v))
def test_every_state_sends_every_message(profile: Profile, role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state, profile)
    message = SAID[kind]
    if kind == "message":
        message = phpmq.MessageServerToClient(queue_name="q", content=b"x", message_id="2", ttl=5)
    expected = SENDS[role, state, kind]
    if isinstance(expected, Violation) or (profile == "early" and kind in ("re-queue", "dead letter")):
        with pytest.raises(LocalProtocolError):
            connection.send(message)
        assert connection.pending_bytes == 0
        assert connection.state is state
    else:
        connection.send(message)
        assert connection.state is expected
        assert connection.data_to_send() == phpmq.encode(message, profile=profile)


@pytest.mark.parametrize("role", Role)
def test_what_the_other_side_says_is_refused(role: Role) -> None:
    connection = connection_in(role, State.CONSUMING)
    for kind in KINDS[PEER[role]]:
        with pytest.raises(LocalProtocolError):
            connection.send(SAID[kind])


def pair(profile: Profile = "early", count: int = 2) -> tuple[ClientConnection, ServerConnection]:
    options = ConnectionOptions(profile=profile)
    client, server = ClientConnection(0.0, options), ServerConnection(0.0, options)
    client.consume("q", count)
    request, opened = exactly(server.receive(client.data_to_send(), 0.0), phpmq.ConsumeRequest, WindowOpened)
    assert (request.queue_name, request.message_count, opened) == ("q", count, WindowOpened(count))
    return client, server


def test_the_early_profile_is_what_the_real_programs_write() -> None:
    """Headers as the server and client of php-mq write them: 2 packets to the server, 3 to the client."""
    client, server = pair()
    client.publish("q", b"x", ttl=9)
    assert client.data_to_send().startswith(b"H0100102P01")
    server.deliver("q", b"x", "id", ttl=9)
    assert server.data_to_send().startswith(b"H0100303P01")
    client, server = pair("present")
    client.publish("q", b"x", ttl=9)
    assert client.data_to_send().startswith(b"H0100103P01")
    server.deliver("q", b"x", "id", ttl=9)
    assert server.data_to_send().startswith(b"H0100304P01")


def test_both_roles_keep_the_contract() -> None:
    connections: list[Connection] = list(pair())
    for connection in connections:
        assert connection.wants_read
        assert (connection.undecided, connection.trailing_data, connection.next_timeout()) == (0, b"", None)


def test_count_is_a_window() -> None:
    client, server = pair()
    deliveries = [server.deliver("q", b"%d" % n, f"{n}") for n in range(2)]
    with pytest.raises(LocalProtocolError, match="no space"):
        server.deliver("q", b"x", "x")
    one, two = exactly(
        client.receive(server.data_to_send(), 0.0), phpmq.MessageServerToClient, phpmq.MessageServerToClient
    )
    assert client.undecided == 2
    client.acknowledge(one)
    with pytest.raises(LocalProtocolError, match="does not wait"):
        client.acknowledge(one)
    acknowledged, opened = server.receive(client.data_to_send(), 0.0)
    assert isinstance(acknowledged, Acknowledged)
    assert (acknowledged.handle, opened) == (deliveries[0], WindowOpened(1))
    client.acknowledge(two)
    acknowledged = only(server.receive(client.data_to_send(), 0.0), Acknowledged)
    assert acknowledged.handle is deliveries[1]
    gone = only(server.receive_eof(0.0), Disconnected)
    assert gone.lost == ()


def test_messages_go_back_with_a_new_request_and_with_the_end() -> None:
    client, server = pair()
    first = server.deliver("q", b"1", "1")
    message = only(client.receive(server.data_to_send(), 0.0), phpmq.MessageServerToClient)
    client.consume("other", 1)
    with pytest.raises(LocalProtocolError):
        client.acknowledge(message)
    returned, request, _ = exactly(
        server.receive(client.data_to_send(), 0.0), phpmq.Returned, phpmq.ConsumeRequest, WindowOpened
    )
    assert returned == phpmq.Returned((first,))
    assert request.queue_name == "other"
    second = server.deliver("other", b"2", "2")
    gone = only(server.receive_eof(0.0), Disconnected)
    assert gone.lost == (second,)


def test_an_acknowledgement_counts_whoever_has_received_the_message() -> None:
    _, server = pair()
    (event,) = server.receive(SAID["acknowledge"].encode(), 0.0)
    assert isinstance(event, phpmq.Acknowledgement)


def test_answers_of_the_present_profile() -> None:
    client, server = pair("present")
    server.deliver("q", b"1", "1")
    server.deliver("q", b"2", "2")
    one, two = exactly(
        client.receive(server.data_to_send(), 0.0), phpmq.MessageServerToClient, phpmq.MessageServerToClient
    )
    client.requeue(one, 7)
    client.dead_letter(two)
    events = [event for event in server.receive(client.data_to_send(), 0.0) if isinstance(event, Acknowledged)]
    assert [type(event.message) for event in events] == [phpmq.ReQueue, phpmq.DeadLetter]
    assert events[0].message.ttl == 7


def test_more_messages_than_were_asked_for_are_a_fault() -> None:
    client, _ = pair(count=1)
    data = [
        phpmq.encode(phpmq.MessageServerToClient(queue_name="q", content=b"x", message_id=i, ttl=None)) for i in "12"
    ]
    message, gone = exactly(client.receive(b"".join(data), 0.0), phpmq.MessageServerToClient, Disconnected)
    assert message.message_id == "1"
    assert gone.error is not None
    client, _ = pair(count=1)
    client.consume("q", 1)  # a message of the request before may still come
    assert len(client.receive(b"".join(data), 0.0)) == 2


def test_limits() -> None:
    server = ServerConnection(0.0, ConnectionOptions(in_flight=2, frame_size=200, pending_bytes=300, unread_bytes=100))
    server.receive(phpmq.ConsumeRequest(queue_name="q", message_count=10**9).encode(), 0.0)
    assert server.send_quota == 2
    server.deliver("q", bytes(250), "1")
    with pytest.raises(LocalProtocolError, match="queued"):
        server.deliver("q", bytes(250), "2")
    server.pause()
    gone = only(server.receive(bytes(200), 0.0), Disconnected)
    assert gone.error is not None
    server = ServerConnection(0.0, ConnectionOptions(frame_size=200))
    gone = only(
        server.receive(phpmq.MessageClientToServer(queue_name="q", content=bytes(300)).encode(), 0.0), Disconnected
    )
    assert gone.error is not None
    with pytest.raises(LocalProtocolError):
        ClientConnection(0.0).consume("q", -1)
    for wrong in ({"frame_size": 1}, {"in_flight": 0}, {"profile": "late"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ConnectionOptions(**wrong)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("seed", range(100))
def test_any_bytes_at_any_moment(profile: Profile, role: Role, seed: int) -> None:
    random_ = random.Random(f"{profile} {role} {seed}")
    connection = connection_in(role, random_.choice((State.IDLE, State.CONSUMING)), profile)
    data = bytearray()
    for _ in range(random_.randrange(1, 20)):
        kind = random_.choice(KINDS[PEER[role]])
        piece = bytearray(phpmq.encode(SAID[kind], profile=random_.choice((None, None, "present"))))
        if random_.random() < 0.1:
            piece[random_.randrange(len(piece))] = random_.randrange(256)
        data += piece
    events: list[Any] = []
    while data and connection.state is not State.CLOSED:
        size = random_.choice((1, 8, 40, len(data)))
        events += connection.receive(bytes(data[:size]), 0.0)
        del data[:size]
        assert connection.undecided <= 7
        if random_.random() < 0.2 and connection.state is not State.CLOSED:
            connection.pause()
            events += connection.resume(0.0)
    if connection.state is not State.CLOSED:
        events += connection.receive_eof(0.0)
    assert [isinstance(event, Disconnected) for event in events].count(True) == 1
    assert isinstance(events[-1], Disconnected)
    for call in (lambda: connection.receive(b"x", 0.0), connection.close, lambda: connection.handle_timeout(1.0)):
        with pytest.raises(LocalProtocolError):
            call()
