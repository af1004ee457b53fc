"""Every state with every kind of performative, at each level of AMQP 1.0, against the tables; and the tables themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lib.amqp10_pair import PLENTY, Pair, frames
from lib.kinds import checked
from wirefmt import amqp10
from wirefmt.amqp10 import Attaching, ClientConnection, LinkState, SaslState, ServerConnection, SessionState, State
from wirefmt.amqp10.endpoint import kind_of
from wirefmt.amqp10.states import (
    CONNECTION,
    KINDS,
    LEVELS,
    LINK,
    LINK_KINDS,
    LINK_RECEIVES,
    LINK_SENDS,
    MEANINGS,
    RECEIVES,
    SASL,
    SASL_KINDS,
    SASL_RECEIVES,
    SENDS,
    SESSION_KINDS,
    SESSION_RECEIVES,
    SESSION_SENDS,
    Level,
    LinkRole,
)
from wirefmt.connection import Disconnected
from wirefmt.connection.sasl import Plain
from wirefmt.connection.states import Outcome, Role, Violation
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError

OPEN = amqp10.Open(container_id="p")
BEGIN = amqp10.Begin(next_outgoing_id=0, incoming_window=9, outgoing_window=9)
PERFORMATIVES: dict[str, Any] = {
    "AMQP header": amqp10.ProtocolHeader(0),
    "open": OPEN,
    "begin": BEGIN,
    "attach": amqp10.Attach(name="x", handle=7, role=True, source=amqp10.Source(address="q")),
    "flow": amqp10.Flow(next_incoming_id=0, incoming_window=9, next_outgoing_id=0, outgoing_window=9),
    "transfer": amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"t", payload=b""),
    "disposition": amqp10.Disposition(role=True, first=0, settled=True, state=amqp10.Accepted()),
    "detach": amqp10.Detach(handle=0, closed=True),
    "end": amqp10.End(),
    "close": amqp10.Close(),
    "empty frame": amqp10.EmptyFrame(),
    "SASL header": amqp10.ProtocolHeader(3),
    "sasl-mechanisms": amqp10.SaslMechanisms(sasl_server_mechanisms=["PLAIN"]),
    "sasl-init": amqp10.SaslInit(mechanism="MINE", initial_response=b"x"),
    "sasl-challenge": amqp10.SaslChallenge(challenge=b"c"),
    "sasl-response": amqp10.SaslResponse(response=b"r"),
    "sasl-outcome ok": amqp10.SaslOutcome(code=0),
    "sasl-outcome failed": amqp10.SaslOutcome(code=1),
}
HEADER = PERFORMATIVES["AMQP header"].encode()


class Asking(Plain):
    """A mechanism of several steps."""

    def respond(self, challenge: bytes) -> bytes:
        return b"r"


def rows(level: Level) -> list[tuple[Any, Any, str]]:
    return [(role, state, kind) for role in level.roles for state in level.states for kind in level.kinds]


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.title)
def test_the_tables_are_complete_and_lead_somewhere(level: Level) -> None:
    for table in (level.receives, level.sends):
        assert sorted(map(str, table)) == sorted(map(str, rows(level)))
        assert {type(value) for value in table.values()} <= {level.states, Outcome, Violation}
    assert set(level.states) <= set(MEANINGS)
    reached, edge = {level.first}, {level.first}
    while edge:
        edge = {
            after
            for table in (level.receives, level.sends)
            for (_, state, _), after in table.items()
            if state in edge and isinstance(after, level.states)
        } - reached
        reached |= edge
    # These states follow a close, end or detach with an error. The tables have no kind of its own for that.
    assert set(level.states) - reached <= {State.DISCARDING, SessionState.DISCARDING, LinkState.ERRORED}


def test_the_performatives_are_of_their_kinds() -> None:
    assert set(PERFORMATIVES) == {*KINDS, *SASL_KINDS}
    assert {kind_of(message) for message in PERFORMATIVES.values()} == set(PERFORMATIVES)


# ---- the connection


def end_in(state: State, connection: ClientConnection | ServerConnection) -> None:
    """Close an open connection as far as the state needs it, and see that it has the state."""
    match state:
        case State.CLOSE_SENT:
            connection.close()
        case State.DISCARDING:
            connection.close(amqp10.Error(condition="amqp:internal-error"))
        case State.END:
            connection.close(immediate=True)
    connection.data_to_send()
    assert connection.state is state


def client_in(state: State) -> ClientConnection:
    client = ClientConnection(0.0, "c", options=PLENTY)
    match state:
        case State.START:
            pass
        case _:
            client.open()
    match state:
        case State.OC_PIPE | State.CLOSE_PIPE:
            client.close()
    match state:
        case State.OPEN_SENT | State.CLOSE_PIPE:
            client.receive(HEADER, 0.0)
        case State.OPENED | State.CLOSE_SENT | State.DISCARDING | State.END:
            client.receive(HEADER + OPEN.encode(), 0.0)
    end_in(state, client)
    return client


def server_in(state: State) -> ServerConnection:
    server = ServerConnection(0.0, "s", mechanisms=(), options=PLENTY)
    match state:
        case State.START:
            pass
        case State.HDR_EXCH:
            server.receive(HEADER, 0.0)
        case _:
            (event,) = server.receive(HEADER + OPEN.encode(), 0.0)
    match state:
        case State.OPENED | State.CLOSE_SENT | State.DISCARDING | State.END:
            server.accept(event)
    end_in(state, server)
    return server


#: States in which a role can be found between two calls. A client opens with its header, a server answers a header at once.
FOUND = {
    Role.CLIENT: set(State) - {State.HDR_SENT, State.HDR_RCVD, State.HDR_EXCH, State.OPEN_RCVD},
    Role.SERVER: {
        State.START,
        State.HDR_EXCH,
        State.OPEN_RCVD,
        State.OPENED,
        State.CLOSE_SENT,
        State.DISCARDING,
        State.END,
    },
}
CONNECTION_ROWS = [row for row in rows(CONNECTION) if row[1] in FOUND[row[0]]]


def connection_in(role: Role, state: State) -> Any:
    return client_in(state) if role is Role.CLIENT else server_in(state)


def name_of(value: Any) -> str:
    return value if isinstance(value, str) else value.value


@pytest.mark.parametrize(("role", "state", "kind"), CONNECTION_ROWS, ids=name_of)
def test_every_state_of_a_connection_receives_every_kind(role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state)
    expected = RECEIVES[role, state, kind]
    octets = PERFORMATIVES[kind].encode()
    if state is State.END:
        assert expected is Outcome.DROPPED
        with pytest.raises(LocalProtocolError, match="over"):
            connection.receive(octets, 1.0)
        return
    if state is State.OPENED and kind in SESSION_KINDS and kind != "begin":
        connection.receive(BEGIN.encode(), 0.5)  # there is a session; its own table is below
        if kind in ("transfer", "detach"):
            octets = PERFORMATIVES["disposition"].encode()
        connection.data_to_send()
    events = connection.receive(octets, 1.0)
    gone = [event for event in events if isinstance(event, Disconnected)]
    if expected is Outcome.UNREAD:
        assert events == []
        assert connection.state is state
        connection.pause()
        assert connection.trailing_data == octets
    elif expected is Outcome.DROPPED:
        assert events == []
        assert connection.state is state
        assert connection.data_to_send() == b""
    elif isinstance(expected, State):
        after = State.HDR_EXCH if expected is State.HDR_RCVD and role is Role.SERVER else expected
        assert connection.state is after
        assert len(gone) == (expected is State.END)
    else:
        assert connection.state is State.END
        assert len(gone) == 1
        assert events[-1] is gone[0]
        assert isinstance(gone[0].error, RemoteProtocolError | DecodeError)
        said = frames(connection.data_to_send()) if state not in (State.START, State.OPEN_PIPE) else []
        if state in (State.OPENED, State.OPEN_SENT):
            assert [type(frame) for frame in said] == [amqp10.Close]
            assert said[-1].error.condition == checked(expected, Violation).reply
        elif state is State.HDR_EXCH:
            assert [type(frame) for frame in said] == [amqp10.Open, amqp10.Close]
        assert connection.data_to_send() == b"" or state in (State.START, State.OPEN_PIPE)
        connection.data_to_send()
        assert connection.should_close


@pytest.mark.parametrize(("role", "state", "kind"), CONNECTION_ROWS, ids=name_of)
def test_every_state_of_a_connection_sends_every_kind(role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state)
    expected = SENDS[role, state, kind]
    if kind == "open" and role is Role.CLIENT and state is State.START:
        connection.send(PERFORMATIVES[kind])  # with its header
        assert [type(frame) for frame in frames(connection.data_to_send())] == [amqp10.ProtocolHeader, amqp10.Open]
        return
    with pytest.raises(LocalProtocolError) as refused:
        connection.send(PERFORMATIVES[kind])
    if not isinstance(expected, Violation):
        assert "sent by" in str(refused.value)
    if kind == "begin":
        if isinstance(expected, Violation):
            with pytest.raises(LocalProtocolError):
                connection.begin()
        else:
            connection.begin()
            assert [type(frame) for frame in frames(connection.data_to_send())] == [amqp10.Begin]
    if kind == "close" and isinstance(expected, State):
        connection.close()
        assert [type(frame) for frame in frames(connection.data_to_send())] == [amqp10.Close]
        assert connection.state is expected
    assert connection.pending_bytes == 0


# ---- the SASL layer


def sasl_in(role: Role, state: SaslState) -> Any:
    connection: Any
    if role is Role.CLIENT:
        connection = ClientConnection(0.0, "c", sasl=Asking("u", "p"), options=PLENTY)
        connection.open()
        steps = {
            SaslState.START: (),
            SaslState.HEADER: ("SASL header",),
            SaslState.INIT: ("SASL header", "sasl-mechanisms"),
            SaslState.DONE: ("SASL header", "sasl-mechanisms", "sasl-outcome ok"),
            SaslState.FAILED: ("SASL header", "sasl-mechanisms", "sasl-outcome failed"),
        }[state]
        for step in steps:
            connection.receive(PERFORMATIVES[step].encode(), 0.0)
    else:
        connection = ServerConnection(0.0, "s", mechanisms=["MINE"], options=PLENTY)
        if state is not SaslState.START:
            connection.receive(PERFORMATIVES["SASL header"].encode(), 0.0)
        if state not in (SaslState.START, SaslState.HEADER):
            (login,) = connection.receive(PERFORMATIVES["sasl-init"].encode(), 0.0)
        match state:
            case SaslState.INIT:
                connection.challenge(login, b"c")
            case SaslState.DONE:
                connection.accept(login)
            case SaslState.FAILED:
                connection.refuse(login, 1)
    connection.data_to_send()
    assert connection.sasl_state is state
    return connection


SASL_ROWS = [row for row in rows(SASL) if row[:2] != (Role.CLIENT, SaslState.WAITING)]


@pytest.mark.parametrize(("role", "state", "kind"), SASL_ROWS, ids=name_of)
def test_every_state_of_the_sasl_layer_receives_every_kind(role: Role, state: SaslState, kind: str) -> None:
    connection = sasl_in(role, state)
    expected = SASL_RECEIVES[role, state, kind]
    octets = PERFORMATIVES[kind].encode()
    if state is SaslState.FAILED:
        assert expected is Outcome.DROPPED
        assert connection.state is State.END
        return
    events = connection.receive(octets, 1.0)
    if expected is Outcome.UNREAD:
        assert events == []
        assert not connection.wants_read
    elif isinstance(expected, SaslState):
        assert connection.sasl_state is expected
        assert any(isinstance(event, Disconnected) for event in events) == (expected is SaslState.FAILED)
    else:
        assert isinstance(events[-1], Disconnected)
        assert connection.state is State.END
        connection.data_to_send()
        assert connection.should_close


# ---- sessions


def session_in(state: SessionState) -> tuple[Pair, Any]:
    pair = Pair()
    session: Any = None
    match state:
        case SessionState.BEGIN_SENT:
            session = pair.client.begin()
        case SessionState.MAPPED | SessionState.END_SENT | SessionState.DISCARDING:
            session, _ = pair.session()
    match state:
        case SessionState.END_SENT:
            session.end()
        case SessionState.DISCARDING:
            session.end(amqp10.Error(condition="amqp:internal-error"))
    pair.client.data_to_send()
    assert session is None or session.state is state
    return pair, session


@pytest.mark.parametrize("kind", SESSION_KINDS)
@pytest.mark.parametrize("state", SessionState, ids=name_of)
def test_every_state_of_a_session_receives_every_kind(state: SessionState, kind: str) -> None:
    pair, session = session_in(state)
    expected = SESSION_RECEIVES[Role.CLIENT, state, kind]
    frame = PERFORMATIVES[kind]
    if kind == "begin" and state is SessionState.BEGIN_SENT:
        frame = amqp10.Begin(remote_channel=0, next_outgoing_id=0, incoming_window=9, outgoing_window=9)
    if kind in ("transfer", "detach") and state is SessionState.MAPPED:
        receiver, _ = pair.receiver(session, window=5)
        frame = (
            amqp10.Transfer(handle=receiver.remote_handle, delivery_id=0, delivery_tag=b"t", payload=b"")
            if kind == "transfer"
            else amqp10.Detach(handle=receiver.remote_handle)
        )
    events = pair.client.receive(frame.encode(), 1.0)
    gone = [event for event in events if isinstance(event, Disconnected)]
    if isinstance(expected, Violation):
        assert len(gone) == 1
        assert gone[0].code == expected.reply
        return
    assert gone == []
    if expected is Outcome.DROPPED or kind == "begin":
        assert session is None or session.state is (state if expected is Outcome.DROPPED else expected)
    if expected is Outcome.DROPPED:
        assert events == []
    elif kind == "end":
        assert session.state is SessionState.UNMAPPED
        assert pair.client.sessions == {}
        answer = frames(pair.client.data_to_send())
        assert [type(frame) for frame in answer] == ([amqp10.End] if state is SessionState.MAPPED else [])


@pytest.mark.parametrize("state", SessionState, ids=name_of)
def test_every_state_of_a_session_sends_every_kind(state: SessionState) -> None:
    for kind in SESSION_KINDS:
        _, session = session_in(state)
        if session is None:
            continue  # `begin` makes it
        expected = SESSION_SENDS[Role.CLIENT, state, kind]
        calls: dict[str, Any] = {
            "attach": lambda s: s.sender("x", "q"),
            "flow": lambda s: s.ask(),
            "end": lambda s: s.end(),
        }
        call = calls.get(kind)
        if call is None:
            continue
        if isinstance(expected, Violation):
            with pytest.raises(LocalProtocolError) as refused:
                call(session)
            assert str(refused.value) == expected.rule
        else:
            call(session)
            assert session.state is expected


# ---- links


def link_in(role: LinkRole, state: LinkState) -> tuple[Pair, Any, Any, Any]:
    """The pair, the session and the link on the server's side, and the attaching that waits for an answer."""
    pair = Pair(accept=False)
    ours, session = pair.session()
    if state is LinkState.DETACHED:
        return pair, session, None, None
    if state in (LinkState.ATTACH_SENT, LinkState.DETACH_SENT, LinkState.ERRORED):
        make = session.sender if role is LinkRole.SENDER else session.receiver
        link: Any = make("x", "q")
        pair.server.data_to_send()
        if state is not LinkState.ATTACH_SENT:
            pair.tell(answer_to(link), to=pair.server)
            link.detach(amqp10.Error(condition="amqp:internal-error") if state is LinkState.ERRORED else None)
    else:
        if role is LinkRole.SENDER:
            ours.receiver("x", "q")
        else:
            ours.sender("x", "q")
        _, events = pair.carry()
        (attaching,) = (event for event in events if isinstance(event, Attaching))
        link = attaching.link
        if state is LinkState.ATTACHED:
            pair.server.accept(attaching)
            if role is LinkRole.RECEIVER:
                link.grant(5)
    pair.server.data_to_send()
    assert link.state is state
    return pair, session, link, None


def answer_to(link: Any) -> amqp10.Attach:
    return amqp10.Attach(
        name="x",
        handle=0,
        role=link.role is LinkRole.SENDER,
        source=amqp10.Source(address="q"),
        target=amqp10.Target(address="q"),
        initial_delivery_count=None if link.role is LinkRole.SENDER else 0,
    )


@pytest.mark.parametrize("kind", LINK_KINDS)
@pytest.mark.parametrize("state", LinkState, ids=name_of)
@pytest.mark.parametrize("role", LinkRole, ids=name_of)
def test_every_state_of_a_link_receives_every_kind(role: LinkRole, state: LinkState, kind: str) -> None:
    pair, session, link, _ = link_in(role, state)
    expected = LINK_RECEIVES[role, state, kind]
    if kind == "attach" and state is LinkState.DETACH_SENT:
        return  # it comes only if our detach has crossed it: test_amqp10_statements_links has that
    frames_of: dict[str, Callable[[], Any]] = {
        "attach": lambda: (
            answer_to(link)
            if link is not None
            else amqp10.Attach(name="x", handle=0, role=role is LinkRole.SENDER, initial_delivery_count=0)
        ),
        "flow": lambda: amqp10.Flow(
            next_incoming_id=0, incoming_window=9, next_outgoing_id=0, outgoing_window=9, handle=0, link_credit=1
        ),
        "transfer": lambda: PERFORMATIVES["transfer"],
        "detach": lambda: PERFORMATIVES["detach"],
    }
    events = pair.tell(frames_of[kind]())
    said = frames(pair.server.data_to_send())
    if isinstance(expected, Violation):
        if str(expected.reply).startswith("amqp:link:"):
            assert isinstance(said[-1], amqp10.Detach)
            assert session.state is SessionState.MAPPED
        else:
            assert isinstance(said[-1], amqp10.End)
            assert session.state is SessionState.DISCARDING
        assert said[-1].error.condition == expected.reply
    elif expected is Outcome.DROPPED:
        assert events == []
        assert said == []
        assert link.state is state
    elif link is not None:
        assert link.state is expected
        assert session.state is SessionState.MAPPED
        if kind == "detach":
            assert (amqp10.Detach in [type(frame) for frame in said]) == (
                state in (LinkState.ATTACHED, LinkState.ATTACH_RCVD)
            )
    else:
        (attaching,) = events
        assert attaching.link.state is expected
    assert pair.server.state is State.OPENED


@pytest.mark.parametrize("state", LinkState, ids=name_of)
@pytest.mark.parametrize("role", LinkRole, ids=name_of)
def test_every_state_of_a_link_sends_every_kind(role: LinkRole, state: LinkState) -> None:
    assert LINK.kinds == LINK_KINDS
    for kind in LINK_KINDS:
        _, _, link, _ = link_in(role, state)
        expected = LINK_SENDS[role, state, kind]
        call: Any = {
            ("flow", LinkRole.SENDER): lambda link: link.offer(1),
            ("flow", LinkRole.RECEIVER): lambda link: link.grant(1),
            ("transfer", LinkRole.SENDER): lambda link: link.send(b"m"),
            ("detach", role): lambda link: link.detach(),
        }.get((kind, role))
        if link is None or call is None:
            continue
        if state is LinkState.ATTACH_RCVD or isinstance(expected, Violation):
            with pytest.raises(LocalProtocolError):
                call(link)
            assert link.state is state
        elif kind == "transfer":
            with pytest.raises(LocalProtocolError, match="credit"):  # attached, and no credit has arrived
                call(link)
        else:
            call(link)
            assert link.state is expected
