"""Every state with every command or frame, in both roles and both directions, against the table; and the table itself."""

from __future__ import annotations

from typing import Any

import pytest

from lib.kinds import checked, only
from lib.state_tables import arrows, reachable
from wirefmt import nsq
from wirefmt.connection import Connected, Disconnected, StartTls
from wirefmt.connection.carriers import Deflate
from wirefmt.connection.states import Outcome, Role, Violation
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.nsq import ClientConnection, ServerConnection
from wirefmt.nsq.endpoint import kind_of
from wirefmt.nsq.events import ConnectionOptions
from wirefmt.nsq.states import COMMANDS, FRAMES, MEANINGS, RECEIVES, SENDS, STATES, State

ID = b"0123456789abcdef"
SAID: dict[str, Any] = {
    "magic": nsq.Magic(),
    "IDENTIFY": nsq.Identify(feature_negotiation=True, tls_v1=True, deflate=True),
    "AUTH": nsq.Auth(secret=b"s"),
    "SUB": nsq.Sub(topic="t", channel="c"),
    "PUB": nsq.Publish(topic="t", body=b"x"),
    "MPUB": nsq.MultiPublish(topic="t", bodies=[b"x", b"y"]),
    "DPUB": nsq.DeferredPublish(topic="t", defer_time=5, body=b"x"),
    "RDY": nsq.Ready(count=5),
    "FIN": nsq.Finish(message_id=ID),
    "REQ": nsq.Requeue(message_id=ID, timeout=5),
    "TOUCH": nsq.Touch(message_id=ID),
    "CLS": nsq.Close(),
    "NOP": nsq.Nop(),
    "OK": nsq.Response(b"OK"),
    "JSON": nsq.Response(members={"version": "1.3.0"}),
    "JSON with tls_v1": nsq.Response(members={"tls_v1": True, "deflate": True}),
    "JSON with compression": nsq.Response(members={"tls_v1": False, "deflate": True}),
    "CLOSE_WAIT": nsq.Response(b"CLOSE_WAIT"),
    "heartbeat": nsq.Response(b"_heartbeat_"),
    "other response": nsq.Response(b"what"),
    "error": nsq.Error(b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight"),
    "fatal error": nsq.Error(b"E_INVALID no"),
    "message": nsq.MessageFrame(timestamp=1, attempts=1, message_id=ID, body=b"x"),
}
KINDS = {Role.CLIENT: COMMANDS, Role.SERVER: FRAMES}  # by the role that says them
PEER = {Role.CLIENT: Role.SERVER, Role.SERVER: Role.CLIENT}
OPTIONS = ConnectionOptions(tls="offered", auth_required=True)


def frame(kind: str) -> bytes:
    data: bytes = SAID[kind].encode()
    return data


def client_in(state: State) -> ClientConnection:
    """A client that awaits an answer in every state in which it can, and has a message in flight if it can."""
    client = ClientConnection(0.0)
    match state:
        case State.INIT:
            client.send(SAID["PUB"])
        case State.IDENTIFYING | State.SECURING | State.COMPRESSING:
            client.send(SAID["IDENTIFY"])
        case State.AUTHENTICATING | State.SUBSCRIBING:
            client.send(SAID["AUTH" if state is State.AUTHENTICATING else "SUB"])
        case State.SUBSCRIBED | State.CLOSING:
            client.send(SAID["SUB"])
            client.receive(frame("OK"), 0.0)
            client.ready(2)
            client.receive(frame("message"), 0.0)
            if state is State.SUBSCRIBED:
                client.publish("t", b"x")
            else:
                client.send(SAID["CLS"])
        case State.CLOSED:
            client.close()
    if state is State.SECURING:
        assert client.receive(frame("JSON with tls_v1"), 0.0) == [StartTls()]
        client.secured(0.0)
    elif state is State.COMPRESSING:
        client.receive(frame("JSON with compression"), 0.0)
    client.data_to_send()
    assert client.state is state
    return client


def server_in(state: State) -> ServerConnection:
    server = ServerConnection(0.0, OPTIONS)
    data = b"" if state is State.IDLE else frame("magic")
    if state in (State.IDENTIFYING, State.SECURING):
        data += frame("IDENTIFY")
    elif state not in (State.IDLE, State.INIT):
        data += frame("AUTH")
    events = server.receive(data, 0.0)
    if state is State.SECURING:
        assert server.accept(checked(events[0], nsq.Identify))[-1] == StartTls()
    elif state not in (State.IDLE, State.INIT, State.IDENTIFYING, State.AUTHENTICATING):
        waiting = events[0]
        assert isinstance(waiting, nsq.Identify | nsq.Auth)
        server.accept(waiting)
        sub = only(server.receive(frame("SUB"), 0.0), nsq.Sub)
        if state is not State.SUBSCRIBING:
            server.accept(sub)
            server.receive(frame("RDY"), 0.0)
            server.deliver(ID, b"x")
            if state is State.CLOSING:
                server.receive(frame("CLS"), 0.0)
            elif state is State.CLOSED:
                server.close()
    elif state is State.INIT:  # AUTH has been accepted, so every command is read as the table says
        server.authenticated = True
        server._restrict()
        server.options = ConnectionOptions(tls="offered", auth_required=True)
    server.data_to_send()
    assert server.state is state
    return server


def connection_in(role: Role, state: State) -> Any:
    return client_in(state) if role is Role.CLIENT else server_in(state)


RECEIVED = [(role, state, kind) for role in Role for state in STATES[role] for kind in KINDS[PEER[role]]]
SENT = [(role, state, kind) for role in Role for state in STATES[role] for kind in KINDS[role]]


def test_the_tables_are_complete_and_lead_somewhere() -> None:
    assert sorted(map(str, RECEIVES)) == sorted(map(str, RECEIVED))
    assert sorted(map(str, SENDS)) == sorted(map(str, SENT))
    for table in (RECEIVES, SENDS):
        assert {type(value) for value in table.values()} <= {State, Outcome, Violation}
    assert set(MEANINGS) == {(role, state) for role in Role for state in STATES[role]}
    for role in Role:
        assert reachable(State.IDLE, arrows(role, RECEIVES, SENDS)) == set(STATES[role])


def test_what_one_role_may_send_the_other_may_receive() -> None:
    """Two machines that keep to the table never see a violation in the states that they share."""
    for sender, receiver in ((Role.CLIENT, Role.SERVER), (Role.SERVER, Role.CLIENT)):
        for state in (State.INIT, State.SUBSCRIBED, State.CLOSING):
            for kind in KINDS[sender]:
                if isinstance(SENDS[sender, state, kind], State):
                    assert not isinstance(RECEIVES[receiver, state, kind], Violation), (sender, state, kind)


def test_the_commands_and_frames_are_of_their_kinds() -> None:
    assert tuple(SAID) == COMMANDS + FRAMES
    assert [kind_of(each) for each in SAID.values()] == list(SAID)


@pytest.mark.parametrize(("role", "state", "kind"), RECEIVED, ids=lambda v: getattr(v, "value", v))
def test_every_state_receives_everything(role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state)
    data = frame(kind)
    expected = RECEIVES[role, state, kind]
    if state is State.CLOSED:
        assert expected is Outcome.DROPPED
        with pytest.raises(LocalProtocolError, match="over"):
            connection.receive(data, 1.0)
        return
    if state is State.COMPRESSING:
        data = Deflate().send(data)
    elif kind == "magic" and expected is not Outcome.UNREAD and state is not State.IDLE:
        data += b"\n"  # behind the first four bytes there are lines only
    events = connection.receive(data, 1.0)
    gone = [event for event in events if isinstance(event, Disconnected)]
    if role is Role.CLIENT and state is State.SECURING and kind == "OK":
        assert connection.state is State.COMPRESSING  # both were agreed on, and compression comes second
        assert events == []
    elif expected is Outcome.UNREAD:
        assert events == []
        assert connection.state is state
        assert not connection.wants_read
        assert connection.trailing_data == data
    elif expected is Outcome.IGNORED:
        assert events == []
        assert connection.state is state
    elif kind == "fatal error" and state is not State.IDLE:
        assert connection.state is State.CLOSED
        assert (gone[0].by, gone[0].code, gone[0].error) == ("peer", "E_INVALID", None)
    elif isinstance(expected, State):
        wrong = state is State.SUBSCRIBED and kind == "CLOSE_WAIT"
        wrong |= role is Role.CLIENT and state is State.CLOSING and kind == "OK"  # CLS awaits CLOSE_WAIT
        wrong |= role is Role.SERVER and kind == "AUTH"  # a second one
        if wrong:
            assert connection.state is State.CLOSED
        else:
            assert not gone
            assert connection.state is expected
    else:
        assert isinstance(expected, Violation)
        assert connection.state is State.CLOSED
        assert events == gone
        assert isinstance(gone[0].error, DecodeError | RemoteProtocolError)
        assert gone[0].by == "local"
        answer = connection.data_to_send()
        if role is Role.CLIENT:
            assert answer == b""  # a client has no word for it
        else:
            error = nsq.decode(answer, side="server")
            assert isinstance(error, nsq.Error)
            assert error.code == expected.reply
        assert connection.should_close


@pytest.mark.parametrize(("role", "state", "kind"), SENT, ids=lambda v: getattr(v, "value", v))
def test_every_state_sends_everything(role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state)
    expected = SENDS[role, state, kind]
    message = SAID[kind]
    if kind == "message":
        message = nsq.MessageFrame(timestamp=1, attempts=1, message_id=b"f" * 16, body=b"x")
    awaits = role is Role.CLIENT and state is State.INIT and kind in ("IDENTIFY", "AUTH", "SUB")
    if isinstance(expected, State) and not awaits and (role is Role.CLIENT or kind == "message"):
        connection.send(message)
        assert connection.pending_bytes
        assert connection.state is expected
        sent = connection.data_to_send()
        if state is State.IDLE:
            assert sent.startswith(b"  V2")
        if state is not State.COMPRESSING:
            assert sent.endswith(message.encode())
        return
    with pytest.raises(LocalProtocolError) as refused:
        connection.send(message)
    if awaits:
        assert "await their answer" in str(refused.value)
    elif isinstance(expected, State):  # legal, but an answer sends it
        assert "sent by" in str(refused.value)
    elif state is not State.CLOSED:
        assert isinstance(expected, Violation)
        assert str(refused.value) == expected.rule
    assert connection.pending_bytes == 0
    assert connection.state is state


@pytest.mark.parametrize("role", Role)
def test_what_the_other_side_says_is_refused(role: Role) -> None:
    connection = connection_in(role, State.SUBSCRIBED)
    for kind in KINDS[PEER[role]]:
        with pytest.raises(LocalProtocolError):
            connection.send(SAID[kind])
    with pytest.raises(LocalProtocolError):
        connection.send(b"NOP\n")


def test_an_identify_that_asks_for_nothing_is_answered_by_ok() -> None:
    server = ServerConnection(0.0)
    identify = only(server.receive(b"  V2" + nsq.Identify(client_id="c", deflate=True).encode(), 0.0), nsq.Identify)
    (connected,) = server.accept(identify)
    assert isinstance(connected, Connected)
    assert server.data_to_send() == frame("OK")
    assert (connected.negotiated.deflate, connected.negotiated.tls) == (False, False)


def test_options_are_checked() -> None:
    for wrong in ({"frame_size": 0}, {"unanswered": 0}, {"undecided": 0}, {"msg_timeout": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ConnectionOptions(**wrong)  # type: ignore[arg-type]
