"""Every state with every kind of input, in both roles and both directions, against the table; and the table itself."""

from __future__ import annotations

from typing import Any

import pytest

from lib.kinds import only
from lib.state_tables import arrows, reachable
from wirefmt.connection import Acknowledged, Connected, Disconnected, StartTls
from wirefmt.connection.states import Outcome, Role, Violation
from wirefmt.errors import LocalProtocolError, RemoteProtocolError
from wirefmt.rocketmq import ClientConnection, ConnectionOptions, RemotingCommand, ServerConnection, State
from wirefmt.rocketmq.connection import kind_of
from wirefmt.rocketmq.states import CALLS, FRAMES, KINDS, MEANINGS, RECEIVES, SENDS

COMMANDS: dict[str, RemotingCommand] = {
    "request": RemotingCommand(code=39, opaque=901),
    "one-way request": RemotingCommand(code=40, flag=2, opaque=902),
    "response": RemotingCommand(code=0, flag=1, opaque=903),
    "response GO_AWAY": RemotingCommand(code=1500, flag=1, opaque=904),
}
BYTES: dict[str, bytes] = {
    "TLS preface": bytes.fromhex("16030100f4"),
    "PROXY preface": b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 9876\r\n",
    **{kind: command.encode() for kind, command in COMMANDS.items()},
}
OPTIONS = ConnectionOptions(tls="permissive", proxy=True)


def connection_in(role: Role, state: State) -> Any:
    """A connection in this state, with a request that waits for its response and one that waits for the host."""
    connection: Any = ClientConnection(0.0) if role is Role.CLIENT else ServerConnection(0.0, OPTIONS)
    match state:
        case State.PROXIED:
            connection.receive(BYTES["PROXY preface"], 0.0)
        case State.SECURING | State.SECURED:
            connection.receive(BYTES["TLS preface"], 0.0)
            if state is State.SECURED:
                connection.secured()
        case State.OPEN | State.DRAINING | State.CLOSED:
            connection.receive(RemotingCommand(code=7, opaque=1).encode(), 0.0)
            connection.request(8)
    if state is State.DRAINING:
        assert connection.close(wait=5.0) == []
    if state is State.CLOSED:
        connection.close()
    connection.data_to_send()
    assert connection.state is state
    return connection


STATES = list(MEANINGS)
ROWS = [(role, state, kind) for role, state in STATES for kind in KINDS]


def test_the_tables_are_complete_and_lead_somewhere() -> None:
    for table in (RECEIVES, SENDS):
        assert sorted(map(str, table)) == sorted(map(str, ROWS))
        assert {type(value) for value in table.values()} <= {State, Outcome, Violation}
    for role in Role:
        called = [(s, after) for r, s, _, after in CALLS if r is role and isinstance(after, State)]
        reached = reachable(State.IDLE, [*arrows(role, RECEIVES, SENDS), *called])
        assert reached == {state for whose, state in STATES if whose is role}


def test_what_one_role_may_send_the_other_may_receive() -> None:
    for kind in FRAMES:
        for sender, receiver in ((Role.CLIENT, Role.SERVER), (Role.SERVER, Role.CLIENT)):
            for state in (State.IDLE, State.OPEN):
                if isinstance(SENDS[sender, State.OPEN, kind], State):
                    assert isinstance(RECEIVES[receiver, state, kind], State)


def test_the_commands_are_of_their_kinds() -> None:
    assert list(BYTES) == list(KINDS)
    assert [kind_of(command) for command in COMMANDS.values()] == list(FRAMES)
    both = RemotingCommand(code=1, flag=3, opaque=1)  # receivers look at the response bit first
    assert kind_of(both) == "response"


@pytest.mark.parametrize(("role", "state", "kind"), ROWS, ids=lambda v: getattr(v, "value", v))
def test_every_state_receives_every_input(role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state)
    undecided = connection.undecided
    data = BYTES[kind]
    expected = RECEIVES[role, state, kind]
    if state is State.CLOSED:
        assert expected is Outcome.DROPPED
        with pytest.raises(LocalProtocolError, match="over"):
            connection.receive(data, 1.0)
        return
    events = connection.receive(data, 1.0)
    gone = [event for event in events if isinstance(event, Disconnected)]
    if expected is Outcome.UNREAD:
        assert events == []
        assert not connection.wants_read
        assert connection.trailing_data == BYTES["TLS preface"] + data
    elif expected is Outcome.DROPPED:
        assert events == []
        assert (connection.pending_bytes, connection.undecided) == (0, undecided)
    elif expected is Outcome.REFUSED:
        assert events == []
        (answer,) = [command_of(connection.data_to_send())]
        assert (answer.code, answer.opaque, answer.is_response) == (1500, 901, True)
    elif isinstance(expected, State):
        # a client that had nothing pending is done when it is asked to go away
        done = expected is State.DRAINING and not connection.pending and not connection.undecided
        assert connection.state is (State.CLOSED if done else expected)
        assert len(gone) == done
        first = state in (State.IDLE, State.PROXIED, State.SECURED) and kind in FRAMES
        assert [type(e) for e in events].count(Connected) == first
        assert [type(e) for e in events].count(StartTls) == (kind == "TLS preface")
        assert (COMMANDS.get(kind) in events) == ("request" in kind)
        assert connection.strays == kind.startswith("response")
        if not done:
            assert connection.undecided == undecided + (kind == "request")
    else:
        assert connection.state is State.CLOSED
        assert events == gone
        assert isinstance(gone[0].error, Exception)
        assert gone[0].by == "local"
        assert connection.data_to_send() == b""
        assert connection.should_close


def command_of(data: bytes) -> RemotingCommand:
    from wirefmt import rocketmq

    return rocketmq.decode(data)


@pytest.mark.parametrize(("role", "state", "kind"), ROWS, ids=lambda v: getattr(v, "value", v))
def test_every_state_sends_every_kind(role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state)
    expected = SENDS[role, state, kind]
    if kind not in FRAMES:
        assert isinstance(expected, Violation)
        return
    request = kind in ("request", "one-way request")
    if isinstance(expected, State) and request:
        handle = connection.send(COMMANDS[kind])
        assert (handle is not None) == (kind == "request")
        assert connection.state is expected
        sent = command_of(connection.data_to_send())
        assert (sent.code, sent.flag) == (COMMANDS[kind].code, COMMANDS[kind].flag)
        return
    with pytest.raises(LocalProtocolError) as refused:
        connection.send(COMMANDS[kind])
    if isinstance(expected, Violation):
        assert str(refused.value) == expected.rule
        if request:
            with pytest.raises(LocalProtocolError) as refused:
                connection.request(1, oneway=kind != "request")
            assert str(refused.value) == expected.rule
    else:
        assert "respond()" in str(refused.value)
        event = next(iter(connection._undecided.values()))
        connection.respond(event, COMMANDS[kind].code)
        sent = command_of(connection.data_to_send())
        assert (sent.code, sent.flag, sent.opaque) == (COMMANDS[kind].code, 1, 1)
        return
    assert connection.pending_bytes == 0
    assert connection.state is state


@pytest.mark.parametrize(("role", "state", "call", "after"), CALLS, ids=lambda v: getattr(v, "value", v))
def test_calls_of_the_host(role: Role, state: State, call: str, after: State) -> None:
    connection = connection_in(role, state)
    events: list[Any] = []
    if call == "secured()":
        connection.secured()
    elif call == "the last response or answer":
        (event,) = connection._undecided.values()
        assert connection.respond(event) == []
        (opaque,) = connection._pending
        events = connection.receive(RemotingCommand(code=0, flag=1, opaque=opaque).encode(), 1.0)
        assert isinstance(events.pop(0), Acknowledged)
    else:
        if call == "close(wait)":
            connection.request(1)  # something that is awaited
        events = connection.close(5.0 if "wait" in call else 0.0)
    assert connection.state is after
    assert [type(event) for event in events] == [Disconnected] * (after is State.CLOSED)


def test_secured_needs_a_preface() -> None:
    for role, state in STATES:
        if state is not State.SECURING:
            with pytest.raises(LocalProtocolError):
                connection_in(role, state).secured()


def test_tls_disabled_and_enforced() -> None:
    server = ServerConnection(0.0)
    (gone,) = server.receive(BYTES["TLS preface"], 0.0)
    assert "frame" in gone.reason
    server = ServerConnection(0.0, ConnectionOptions(tls="enforcing"))
    (gone,) = server.receive(BYTES["request"], 0.0)
    assert isinstance(gone.error, RemoteProtocolError)
    server = ServerConnection(0.0, ConnectionOptions(tls="enforcing", proxy=True))
    assert server.receive(BYTES["PROXY preface"] + BYTES["TLS preface"], 0.0) == [StartTls()]
    assert server.trailing_data == BYTES["TLS preface"]
    server.secured()
    connected, request = server.receive(BYTES["request"], 0.0)
    assert connected.negotiated.tls
    assert connected.negotiated.source == ("192.0.2.1", 56324)
    assert request == COMMANDS["request"]


V2 = b"\r\n\r\n\x00\r\nQUIT\n"


@pytest.mark.parametrize(
    ("preface", "source"),
    [
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff:f...f:ffff 65535 65535\r\n", None),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n", ("2001:db8::1", 1)),
        (V2 + b"\x21\x11\x00\x0c" + bytes([192, 0, 2, 1, 192, 0, 2, 2, 0xDC, 0x04, 0x26, 0x94]), ("192.0.2.1", 56324)),
        (V2 + b"\x21\x21\x00\x24" + bytes(15) + b"\x01" + bytes(16) + b"\x00\x07\x00\x08", ("::1", 7)),
        (V2 + b"\x20\x00\x00\x00", None),
        (V2 + b"\x21\x00\x00\x03abc", None),
    ],
)
def test_proxy_prefaces_in_pieces(preface: bytes, source: tuple[str, int] | None) -> None:
    server = ServerConnection(0.0, ConnectionOptions(proxy=True))
    data = preface + BYTES["request"]
    events = [event for at in range(len(data)) for event in server.receive(data[at : at + 1], 0.0)]
    assert [type(event) for event in events] == [Connected, RemotingCommand]
    assert events[0].negotiated.source == source


@pytest.mark.parametrize(
    "preface",
    [
        b"PROXY " + b"x" * 200,
        b"PROXY TCP4 192.0.2.1 192.0.2.2 56324\r\n",
        b"PROXY TCP4 ::1 ::1 1 1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 65536 1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 1\r\n",
        V2 + b"\x31\x11\x00\x0c" + bytes(12),
        V2 + b"\x21\x11\x00\x04" + bytes(4),
        V2 + b"\x21\x11\xff\xff",
        b"PROXZ",
    ],
)
def test_bad_prefaces(preface: bytes) -> None:
    server = ServerConnection(0.0, ConnectionOptions(proxy=True))
    (gone,) = server.receive(preface, 0.0)
    assert isinstance(gone, Disconnected)
    assert gone.error is not None


@pytest.mark.parametrize("data", [BYTES["PROXY preface"][:9], V2[:4], V2 + b"\x21"])
def test_the_stream_ends_inside_a_preface(data: bytes) -> None:
    server = ServerConnection(0.0, ConnectionOptions(proxy=True))
    assert server.receive(data, 0.0) == []
    gone = only(server.receive_eof(0.0), Disconnected)
    assert (gone.by, gone.reason) == ("transport", "the stream ended inside a frame")


def test_options_are_checked() -> None:
    for wrong in ({"pending": 0}, {"undecided": 0}, {"remembered": -1}, {"frame_size": 1 << 31}, {"tls": "yes"},
                  {"serialize_type": "XML"}, {"timeout": 0}, {"idle_timeout": 0}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ConnectionOptions(**wrong)
