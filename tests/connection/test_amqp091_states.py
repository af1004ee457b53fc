"""Every state with every kind of frame, in both roles and both directions, against the tables; and the tables themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lib.amqp091_driven import HEADER as HEADER_OCTETS
from lib.amqp091_driven import (
    METHODS,
    channel_in,
    client_in,
    connection_in,
    method,
    moved,
    octets,
    proceeded,
    server_in,
)
from lib.state_tables import arrows, reachable
from wirefmt import amqp091
from wirefmt.amqp091 import spec
from wirefmt.amqp091.channel import NAME_OF
from wirefmt.amqp091.events import SOFT
from wirefmt.amqp091.states import (
    BY_BOTH,
    BY_CLIENT,
    BY_SERVER,
    CHANNEL_FRAME,
    CHANNEL_KINDS,
    CHANNEL_MEANINGS,
    CHANNEL_ON_ZERO,
    CHANNEL_RECEIVES,
    CHANNEL_SENDS,
    HEADER,
    HEARTBEAT,
    KINDS,
    LIFE,
    MEANINGS,
    OF_BOTH,
    OF_CLIENT,
    OF_SERVER,
    ON_CHANNEL_ZERO_ONLY,
    RECEIVES,
    SENDS,
    ChannelState,
    State,
)
from wirefmt.connection import Disconnected
from wirefmt.connection.states import Outcome, Role, Violation
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError

CONNECTION_ROWS = [(role, state, kind) for role, state in MEANINGS for kind in KINDS]
CHANNEL_ROWS = [(role, state, kind) for role, state in CHANNEL_MEANINGS for kind in CHANNEL_KINDS]


def test_the_tables_are_complete() -> None:
    for table in (RECEIVES, SENDS):
        assert set(table) == set(CONNECTION_ROWS)
    for channel_table in (CHANNEL_RECEIVES, CHANNEL_SENDS):
        assert set(channel_table) == set(CHANNEL_ROWS)


def test_the_kinds_are_the_methods_of_the_specification() -> None:
    senders = {f"{c.name}.{m.name}": m.senders for c in spec.CLASSES for m in c.methods}
    of_connection = {name for name in senders if name.startswith("connection.")}
    assert of_connection == {*OF_SERVER, *OF_CLIENT, *OF_BOTH}
    assert set(senders) - of_connection == {*LIFE, *BY_CLIENT, *BY_SERVER, *BY_BOTH}
    for names, sender in ((OF_SERVER, "server"), (OF_CLIENT, "client"), (BY_SERVER, "server"), (BY_CLIENT, "client")):
        for name in names:
            assert senders[name] == sender, name
    for name in (*OF_BOTH, *BY_BOTH):
        assert senders[name] == "both", name
    assert set(NAME_OF.values()) == set(senders)


@pytest.mark.parametrize("role", Role)
def test_every_state_can_be_reached(role: Role) -> None:
    states = {state for whose, state in MEANINGS if whose is role}
    assert reachable(State.IDLE, arrows(role, RECEIVES, SENDS)) == states


def frame(role: Role, kind: str) -> bytes:
    """What the peer of this role sends for a kind."""
    if kind == HEADER:
        return HEADER_OCTETS
    if kind == HEARTBEAT:
        return amqp091.Heartbeat().encode()
    if kind == CHANNEL_FRAME:
        return octets("channel.close-ok")
    if kind == CHANNEL_ON_ZERO:
        return moved(octets("channel.flow"), 0)
    if kind == ON_CHANNEL_ZERO_ONLY:
        return moved(octets("connection.close-ok"), 1)
    return octets(kind)


def closes(data: bytes) -> list[Any]:
    """Methods that close a connection or a channel, in what has been sent."""
    kinds = (amqp091.ConnectionClose, amqp091.ChannelClose)
    return [m for m in amqp091.Decoder(frame_max=0).feed(data) if isinstance(m, kinds)]


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "octet by octet"])
@pytest.mark.parametrize(("role", "state", "kind"), CONNECTION_ROWS)
def test_what_comes(role: Role, state: State, kind: str, cut: bool) -> None:
    if state is State.CLOSED:
        assert RECEIVES[role, state, kind] is Outcome.DROPPED
        with pytest.raises(LocalProtocolError):
            connection_in(role, state).receive(frame(role, kind), 1.0)
        return
    connection = connection_in(role, state)
    if kind == "connection.update-secret-ok" and state is State.OPEN and role is Role.CLIENT:
        connection.update_secret(b"s")
        connection.data_to_send()
    data = frame(role, kind)
    events: list[Any] = []
    for piece in [data[k : k + 1] for k in range(len(data))] if cut else [data]:
        events += connection.receive(piece, 1.0)
        if events and isinstance(events[-1], Disconnected):
            break
    said = connection.data_to_send()
    expected = RECEIVES[role, state, kind]
    # for a client the sender of a method is a rule of the codec, which knows nothing of states
    wrong_side = kind in (*(OF_CLIENT if role is Role.CLIENT else ()), CHANNEL_ON_ZERO)
    if kind == "connection.secure" and state is State.SECURING and role is Role.CLIENT:
        # PLAIN has no challenge
        assert isinstance(events[-1].error, RemoteProtocolError)
    elif isinstance(expected, Violation) or (wrong_side and state is State.CLOSING):
        assert isinstance(events[-1], Disconnected)
        assert connection.state is State.CLOSED
        assert connection.should_close
        if state is State.CLOSING:
            assert events[-1].code == 200
            return
        error = events[-1].error
        assert isinstance(error, RemoteProtocolError | DecodeError)
        silent = (role is Role.CLIENT and state in (State.IDLE, State.STARTING)) or (
            role is Role.SERVER and state in (State.IDLE, State.STARTING, State.SECURING, State.TUNING)
        )
        if silent:
            assert not closes(said)
            assert said == (HEADER_OCTETS if role is Role.SERVER and state is State.IDLE else b"")
            assert events[-1].code is None
        else:
            assert isinstance(expected, Violation)
            (close,) = closes(said)
            assert close.reply_code == events[-1].code
            assert close.reply_code == expected.reply
    elif expected is Outcome.UNREAD:
        assert not events
        assert connection.state is state
        assert not connection.wants_read
        connection.pause()
        assert connection.trailing_data == data
    elif expected is Outcome.DROPPED:
        assert not events
        assert not said
        assert connection.state is state
    elif expected is Outcome.CHANNEL:
        assert isinstance(events[-1], Disconnected)  # channel 1 is not open
    elif isinstance(expected, State):
        assert connection.state is expected
        assert (expected is State.CLOSED) is any(isinstance(event, Disconnected) for event in events)
        assert not [event for event in events if getattr(event, "error", None) is not None]


def senders(role: Role, connection: Any) -> dict[str, Callable[[], Any]]:
    """The call that sends a kind; kinds that are sent by the connection itself have none."""
    waits = getattr(connection, "_waits", None)
    calls: dict[str, Callable[[], Any]] = {
        HEARTBEAT: lambda: connection.send(amqp091.Heartbeat()),
        "connection.close": connection.close,
    }
    if role is Role.CLIENT:
        return calls | {
            HEADER: connection.open,
            CHANNEL_FRAME: connection.open_channel,
            "connection.update-secret": lambda: connection.update_secret(b"s"),
        }
    return calls | {
        "connection.secure": lambda: connection.challenge(waits, b"?"),
        "connection.tune": lambda: connection.accept(waits),
        "connection.open-ok": lambda: connection.accept(waits),
        "connection.blocked": lambda: connection.block("low"),
        "connection.unblocked": connection.unblock,
        "connection.update-secret-ok": lambda: connection.accept(object()),
        CHANNEL_FRAME: lambda: connection.send(amqp091.ChannelFlow(channel=1, active=True)),
    }


AUTOMATIC = {
    "connection.start-ok",
    "connection.secure-ok",
    "connection.tune-ok",
    "connection.open",
    "connection.close-ok",
}


@pytest.mark.parametrize(("role", "state", "kind"), CONNECTION_ROWS)
def test_what_we_send(role: Role, state: State, kind: str) -> None:
    connection = connection_in(role, state)
    expected = SENDS[role, state, kind]
    call = senders(role, connection).get(kind)
    if call is None:
        # sent by the connection itself, or never: `send` refuses it
        message: Any = None
        if kind not in (HEADER, CHANNEL_FRAME, CHANNEL_ON_ZERO):
            message = method(kind)
        with pytest.raises(LocalProtocolError):
            connection.send(message)
        assert isinstance(expected, Violation) or kind in AUTOMATIC
        assert connection.state is state
        assert not connection.data_to_send()
    elif isinstance(expected, Violation):
        if kind == "connection.close" and state is State.CLOSING:
            assert call() == []
        else:
            with pytest.raises(LocalProtocolError):
                call()
        assert connection.state is state
        assert not connection.data_to_send()
    elif kind == "connection.update-secret-ok":
        (event,) = connection.receive(octets("connection.update-secret"), 1.0)
        connection.accept(event)
        assert connection.data_to_send() == octets(kind)
    elif kind == CHANNEL_FRAME and role is Role.SERVER:
        connection.receive(octets("channel.open"), 1.0)
        call()
        assert octets("channel.flow") in connection.data_to_send()
    elif kind == "connection.open-ok":
        server = server_in(State.OPENING)
        (opening,) = server.receive(octets("connection.open"), 0.0)
        server.accept(opening)
        assert server.state is expected
    else:
        call()
        if isinstance(expected, State):
            assert connection.state is expected
        silent = kind == "connection.unblocked" or expected is State.CLOSED
        assert bool(connection.data_to_send()) is not silent


@pytest.mark.parametrize(("role", "state", "kind"), CHANNEL_ROWS)
def test_what_comes_on_a_channel(role: Role, state: ChannelState, kind: str) -> None:
    connection, channel = channel_in(role, state)
    handles: dict[str, Any] = {
        "basic.consume-ok": ("basic.consume", {}),
        "basic.cancel-ok": ("basic.cancel", {}),
        "basic.get-ok": ("basic.get", {}),
        "basic.get-empty": ("basic.get", {}),
        "channel.flow-ok": None,
    }
    if role is Role.CLIENT and state is ChannelState.OPEN and channel is not None:
        # the call that the method answers
        if kind in ("tx.commit-ok", "tx.rollback-ok"):
            channel.call(amqp091.TxSelect)
            connection.receive(octets("tx.select-ok"), 0.5)
        if (kind.endswith("-ok") and kind in BY_SERVER) or kind in handles:
            asked = handles.get(kind, (kind.removesuffix("-ok"), {}))
            if asked is not None:
                channel.send(method(asked[0], **asked[1]))
        if kind == "basic.deliver":
            channel.consume("q", "c", nowait=True)
        connection.data_to_send()
    if role is Role.SERVER and state is ChannelState.OPEN:
        if kind in ("tx.commit", "tx.rollback"):
            connection.receive(octets("tx.select"), 0.5)
        if kind == "channel.flow-ok":
            channel.flow(True)
        if kind == "basic.reject":
            (consume,) = connection.receive(octets("basic.consume"), 0.5)
            connection.reply(consume)
            channel.deliver("c", "", "q", b"")
        connection.data_to_send()
    expected = CHANNEL_RECEIVES[role, state, kind]
    events = connection.receive(frame(role, kind), 1.0)
    said = connection.data_to_send()
    # class connection on channel 1 and, for a client, the sender of a method are rules of the codec, which knows nothing of
    # states
    foreign = kind == ON_CHANNEL_ZERO_ONLY or (role is Role.CLIENT and kind in (*BY_CLIENT, "channel.open"))
    if isinstance(expected, Violation) or foreign:
        assert isinstance(events[-1], Disconnected)
        (close,) = closes(said)
        assert isinstance(close, amqp091.ConnectionClose)
        assert close.reply_code == (503 if foreign else expected.reply)  # type: ignore[union-attr]
        assert connection.state is State.CLOSED
        return
    assert connection.state is State.OPEN, events
    now = connection.channels.get(1)
    if expected is Outcome.DROPPED:
        assert not events
        assert not said
        assert now is channel or now is None
    else:
        assert isinstance(expected, ChannelState)
        assert (now is None) is (expected in (ChannelState.UNUSED, ChannelState.CLOSED))
        if now is not None:
            assert now.state is expected
        assert not closes(said)
    if kind == "channel.close" and expected is not Outcome.DROPPED:
        assert octets("channel.close-ok") in said
    del channel


@pytest.mark.parametrize(("role", "state", "kind"), CHANNEL_ROWS)
def test_what_we_send_on_a_channel(role: Role, state: ChannelState, kind: str) -> None:
    connection, channel = channel_in(role, state)
    expected = CHANNEL_SENDS[role, state, kind]
    if role is Role.SERVER:
        _server_sends(connection, channel, state, kind, expected)
        return
    if kind == "channel.open":
        if isinstance(expected, Violation):
            with pytest.raises(LocalProtocolError):
                connection.open_channel(1)
        else:
            assert connection.open_channel(1).state is expected
        return
    message: Any = method("connection.close-ok") if kind == ON_CHANNEL_ZERO_ONLY else method(kind)
    if kind in ("tx.commit", "tx.rollback") and channel is not None and not isinstance(expected, Violation):
        channel.call(amqp091.TxSelect)
    if kind == "basic.reject" and channel is not None and state is ChannelState.OPEN:
        channel.consume("q", "c", nowait=True)
        connection.receive(octets("basic.deliver"), 0.5)
    connection.data_to_send()
    by_itself = kind in ("channel.close-ok", "channel.flow-ok", "basic.cancel-ok")
    nothing_to_settle = kind == "basic.reject" and state is ChannelState.OPENING
    if isinstance(expected, Violation) or by_itself or nothing_to_settle:
        with pytest.raises(LocalProtocolError):
            connection.send(message)
        assert not connection.data_to_send()
        return
    connection.send(message)
    assert channel.state is expected
    said = connection.data_to_send()
    if kind in ("basic.ack", "basic.nack"):  # with multiple and tag 0: all, and there are none
        assert not said
    else:
        assert said == octets(kind)


def _server_sends(server: Any, channel: Any, state: ChannelState, kind: str, expected: Any) -> None:
    """What a server sends are answers, deliveries and closes; each call checks the table."""
    calls: dict[str, Callable[[], Any]] = {
        "channel.flow": lambda: server.send(method("channel.flow")),
        "channel.close": lambda: channel.close(404, "gone"),
        "basic.deliver": lambda: channel.deliver("c", "", "q", b""),
        "basic.return": lambda: server.return_message(publish),
    }
    call = calls.get(kind)
    if call is None or channel is None:
        with pytest.raises(LocalProtocolError):
            server.send(method("connection.close-ok") if kind == ON_CHANNEL_ZERO_ONLY else method(kind))
        return
    publish: Any = method("basic.publish")
    if state is ChannelState.OPEN:
        (publish, consume) = proceeded(server, server.receive(octets("basic.publish") + octets("basic.consume"), 0.5))
        server.reply(consume)
        server.data_to_send()
    if isinstance(expected, Violation):
        if kind == "basic.return":  # an answer of a channel that is closed is dropped
            call()
        else:
            with pytest.raises(LocalProtocolError):
                call()
        assert not server.data_to_send()
        return
    call()
    assert channel.state is expected
    assert server.data_to_send()


def test_a_soft_code_closes_the_channel_only() -> None:
    assert {row.code for row in spec.REPLY_CODES if row.kind == "soft"} - {312, 313} == SOFT
    client = client_in(State.OPEN)
    assert client.state is State.OPEN
    assert len(METHODS) == len(set(METHODS))
