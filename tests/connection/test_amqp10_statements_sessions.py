"""Statements of AMQP 1.0, part 2, on headers, connections and sessions (2.2 to 2.5). Test names begin with the section."""

from __future__ import annotations

from typing import Any

import pytest

from lib.amqp10_pair import ERROR, HEADER, PLENTY, SASL_HEADER, Pair, frames, kinds, message, of
from lib.kinds import only
from wirefmt import amqp10
from wirefmt.amqp10 import (
    ClientConnection,
    ConnectionOptions,
    Incoming,
    ServerConnection,
    SessionEnded,
    SessionState,
    State,
)
from wirefmt.connection import Acknowledged, Disconnected, WindowOpened
from wirefmt.connection.sasl import Plain
from wirefmt.errors import LocalProtocolError

# ---- headers


def test_2_2_another_header_is_answered_with_ours() -> None:
    for said in (b"AMQP\0\0\x09\x01", b"AMQP\0\2\0\0", b"GET / HTTP/1.1\r\n\r\n", b"AMQP\2\1\0\0"):
        server = ServerConnection(0.0, mechanisms=())
        (gone,) = server.receive(said, 0.0)
        assert isinstance(gone, Disconnected)
        assert gone.error is not None
        if said[:5] != b"AMQP\2":
            assert server.data_to_send() == HEADER
        server = ServerConnection(0.0, mechanisms=["PLAIN"])
        server.receive(said, 0.0)
        assert server.data_to_send() == SASL_HEADER
        assert server.should_close


# ---- open and close


def test_2_4_4_everything_in_one_write() -> None:
    client = ClientConnection(0.0, "c", sasl=Plain("u", "p"), options=PLENTY)
    client.open(pipelined=True)
    session = client.begin()
    session.sender("l", "q")
    said = client.data_to_send()
    assert [type(frame).__name__ for frame in frames(said)] == [
        "ProtocolHeader",
        "SaslInit",
        "ProtocolHeader",
        "Open",
        "Begin",
        "Attach",
    ]
    server = ServerConnection(0.0, "s", mechanisms=["PLAIN"], options=PLENTY)
    (asked,) = server.receive(said, 0.0)
    (opened,) = server.accept(asked)  # what follows is read now
    assert isinstance(opened, amqp10.Open)
    assert kinds(server.accept(opened)) == ["Connected", "SessionBegun", "Attaching"]
    assert kinds(client.receive(server.data_to_send(), 0.0)) == ["Connected", "SessionBegun"]


def test_2_4_4_what_follows_a_refused_open_is_dropped() -> None:
    server = ServerConnection(0.0, "s", mechanisms=(), options=PLENTY)
    begin = amqp10.Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    (asked,) = server.receive(HEADER + amqp10.Open(container_id="c").encode() + begin.encode(), 0.0)
    gone = only(server.refuse(asked, amqp10.Error(condition="amqp:connection:redirect")), Disconnected)
    assert gone.code == "amqp:connection:redirect"
    assert [type(frame).__name__ for frame in frames(server.data_to_send())] == ["ProtocolHeader", "Open", "Close"]
    assert server.should_close


def test_2_4_2_and_2_4_3_close() -> None:
    pair = Pair()
    assert pair.client.close(ERROR) == []
    assert pair.client.state is State.DISCARDING
    assert pair.client.close() == []
    (ours,), (theirs,) = pair.carry()
    assert (ours.by, ours.code, theirs.by, theirs.code, theirs.reason) == (
        "local",
        "amqp:internal-error",
        "peer",
        "amqp:internal-error",
        "why",
    )
    assert pair.client.should_close
    assert pair.server.should_close


def test_2_4_3_closes_that_cross_need_no_third() -> None:
    pair = Pair()
    pair.client.close()
    pair.server.close()
    up, down = pair.client.data_to_send(), pair.server.data_to_send()
    ours = only(pair.client.receive(down, 0.0), Disconnected)
    theirs = only(pair.server.receive(up, 0.0), Disconnected)
    assert ours.by == theirs.by == "local"
    assert pair.client.data_to_send() == pair.server.data_to_send() == b""


def test_2_4_3_nothing_follows_close_and_what_comes_is_dropped() -> None:
    pair = Pair()
    session, _ = pair.session()
    sender, receiver = pair.sender(session)
    sender.send(message())
    pair.client.close()
    with pytest.raises(LocalProtocolError):
        sender.send(message())
    with pytest.raises(LocalProtocolError):
        pair.client.begin()
    receiver.grant(7)
    assert pair.client.receive(pair.server.data_to_send(), 0.0) == []
    assert isinstance(frames(pair.client.data_to_send())[-1], amqp10.Close)


def test_2_4_5_idle_timeout_both_ways() -> None:
    pair = Pair(ConnectionOptions(idle_timeout=10.0), ConnectionOptions(idle_timeout=None))
    assert pair.server.negotiated is not None
    assert pair.server.negotiated.idle_timeout == 5.0  # half of what is enforced
    pair.server.handle_timeout(0.0)
    when = pair.server.next_timeout()
    assert when is not None
    sent = 0.0
    for _ in range(20):
        when = pair.server.next_timeout()
        assert when is not None
        pair.server.handle_timeout(when)
        data = pair.server.data_to_send()
        if data:
            assert frames(data) == [amqp10.EmptyFrame()]
            assert when - sent <= 5.0
            sent = when
            pair.client.receive(data, when)
    assert sent > 5.0
    assert pair.client.handle_timeout(sent + 9.9) == []
    gone = only(pair.client.handle_timeout(sent + 10.0), Disconnected)
    assert gone.code == "amqp:resource-limit-exceeded"
    assert isinstance(frames(pair.client.data_to_send())[-1], amqp10.Close)


@pytest.mark.parametrize(
    ("fields", "condition"),
    [({"max_frame_size": 511}, "amqp:invalid-field"), ({"idle_time_out": 50}, "amqp:not-allowed")],
)
def test_2_7_1_opens_that_cannot_be_kept_to(fields: dict[str, Any], condition: str) -> None:
    server = ServerConnection(0.0, "s", mechanisms=(), options=PLENTY)
    gone = only(server.receive(HEADER + amqp10.Open(container_id="c", **fields).encode(), 0.0), Disconnected)
    assert gone.code == condition
    assert [type(frame).__name__ for frame in frames(server.data_to_send())] == ["ProtocolHeader", "Open", "Close"]


def test_2_7_1_frames_keep_to_the_peers_limit() -> None:
    pair = Pair(server=ConnectionOptions(frame_size=512, idle_timeout=None))
    session, _ = pair.session()
    sender, _ = pair.sender(session)
    sender.send(message(bytes(5000)))
    data = pair.client.data_to_send()
    parts = frames(data)
    assert len(parts) == 11
    assert all(len(part.encode()) <= 512 for part in parts)
    assert [bool(part.more) for part in parts] == [True] * 10 + [False]
    delivery = only(pair.server.receive(data, 0.0), Incoming)
    assert delivery.message == message(bytes(5000))


def test_2_7_1_a_frame_that_is_too_large() -> None:
    pair = Pair(server=ConnectionOptions(frame_size=600, idle_timeout=None))
    gone = only(pair.server.receive((601).to_bytes(4) + b"\x02\x00\x00\x00", 0.0), Disconnected)
    assert gone.code == "amqp:connection:framing-error"
    (close,) = frames(pair.server.data_to_send())
    assert close.error.condition == "amqp:connection:framing-error"


def test_2_7_1_channel_max() -> None:
    pair = Pair(server=ConnectionOptions(sessions=2, idle_timeout=None))
    assert pair.client.negotiated is not None
    assert pair.client.negotiated.channel_max == 1
    pair.session()
    pair.session()
    with pytest.raises(LocalProtocolError, match="channel"):
        pair.client.begin()
    begin = amqp10.Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1, channel=2)
    (gone,) = pair.tell(begin)
    assert gone.code == "amqp:connection:framing-error"


def test_2_4_1_timers_end_what_does_not_begin_or_end() -> None:
    server = ServerConnection(0.0, options=ConnectionOptions(open_timeout=3.0))
    server.handle_timeout(0.0)
    assert server.next_timeout() == 3.0
    gone = only(server.handle_timeout(3.0), Disconnected)
    assert gone.by == "local"
    pair = Pair()
    pair.client.close()
    pair.client.handle_timeout(0.0)
    gone = only(pair.client.handle_timeout(5.0), Disconnected)
    assert "close" in gone.reason


# ---- sessions


def test_2_5_1_channels_of_both_sides() -> None:
    pair = Pair()
    for number in range(3):
        ours, theirs = pair.session()
        assert (ours.channel, ours.remote_channel, theirs.channel) == (number, number, number)
    pair.client.sessions[1].end()
    told, told_peer = pair.carry()
    assert (told[0].by, told_peer[0].by) == ("local", "peer")
    assert sorted(pair.client.sessions) == sorted(pair.server.sessions) == [0, 2]
    assert pair.client.begin().channel == 1  # the lowest free one


def test_2_5_1_a_number_is_free_when_both_have_ended() -> None:
    pair = Pair()
    session, _ = pair.session()
    session.end()
    assert pair.client.begin().channel == 1
    pair.carry()
    assert pair.client.begin().channel == 0


def test_2_5_3_ends_that_cross() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    ours.end()
    theirs.end(ERROR)
    (gone,), (other,) = pair.carry()
    assert (gone.by, gone.error, other.by, other.error) == ("local", None, "local", ERROR)
    assert pair.client.sessions == pair.server.sessions == {}


def test_2_5_3_an_end_before_the_peers_begin() -> None:
    pair = Pair()
    session = pair.client.begin()
    session.end()
    ours, theirs = pair.carry()
    assert kinds(ours) == ["SessionEnded"]
    assert kinds(theirs) == ["SessionBegun", "SessionEnded"]
    assert pair.client.sessions == pair.server.sessions == {}


def test_2_5_4_an_error_ends_the_session_alone() -> None:
    pair = Pair()
    _ours, theirs = pair.session()
    other, _ = pair.session()
    flow = amqp10.Flow(next_incoming_id=5, incoming_window=1, next_outgoing_id=0, outgoing_window=0)
    (gone,) = pair.tell(flow)
    assert isinstance(gone, SessionEnded)
    assert gone.error is not None
    assert gone.error.condition == "amqp:session:window-violation"
    assert theirs.state is SessionState.DISCARDING
    (event,), _ = pair.carry()
    assert event.error.condition == "amqp:session:window-violation"
    assert theirs.state is SessionState.UNMAPPED  # type: ignore[comparison-overlap]
    assert pair.client.sessions == {1: other}


def test_2_5_6_the_windows() -> None:
    pair = Pair(
        ConnectionOptions(incoming_window=100, idle_timeout=None),
        ConnectionOptions(incoming_window=10, idle_timeout=None),
    )
    start = (1 << 32) - 3
    ours, theirs = pair.session(next_outgoing_id=start)
    assert (theirs.next_incoming_id, theirs.remote_incoming_window) == (start, 100)
    assert ours.remote_incoming_window == 10
    sender, _ = pair.sender(ours, credit=1000)
    for number in range(4):
        sender.send(message(), settled=True)
        assert ours.next_outgoing_id == (start + number + 1) % (1 << 32)
        assert ours.remote_incoming_window == 9 - number
    pair.server.receive(pair.client.data_to_send(), 0.0)
    assert (theirs.next_incoming_id, theirs.incoming_window) == (1, 6)
    assert pair.server.data_to_send() == b""  # half of the window is not used
    sender.send(message(), settled=True)
    sender.send(message(), settled=True)
    pair.server.receive(pair.client.data_to_send(), 0.0)
    sender.send(message(), settled=True)  # not seen by the server
    (flow,) = frames(pair.server.data_to_send())
    assert (flow.handle, flow.next_incoming_id, flow.incoming_window) == (None, 3, 10)
    pair.client.receive(flow.encode(), 0.0)
    assert ours.remote_incoming_window == 9  # next-incoming-id + incoming-window - next-outgoing-id


def test_2_5_6_next_incoming_id_may_be_absent() -> None:
    pair = Pair()
    ours, _ = pair.session(next_outgoing_id=7)
    sender, _ = pair.sender(ours)
    sender.send(message(), settled=True)
    flow = amqp10.Flow(incoming_window=5, next_outgoing_id=0, outgoing_window=0)
    pair.tell(flow, to=pair.client)
    assert ours.remote_incoming_window == 4


def test_2_5_6_a_transfer_beyond_the_window() -> None:
    pair = Pair(server=ConnectionOptions(incoming_window=2, idle_timeout=None))
    ours, _ = pair.session()
    pair.sender(ours)
    transfer = [
        amqp10.Transfer(handle=0, delivery_id=n, delivery_tag=b"%d" % n, settled=True, payload=b"") for n in range(3)
    ]
    events = pair.tell(*transfer)
    assert kinds(events) == ["Incoming", "Incoming", "SessionEnded"]
    assert events[-1].error.condition == "amqp:session:window-violation"


def test_2_5_6_a_window_of_zero_stops_the_sender_and_a_session_flow_wakes_all_links() -> None:
    pair = Pair()
    ours, _ = pair.session()
    first, _ = pair.sender(ours, name="1")
    second, _ = pair.sender(ours, name="2")
    shut = amqp10.Flow(next_incoming_id=0, incoming_window=0, next_outgoing_id=0, outgoing_window=0)
    pair.tell(shut, to=pair.client)
    for sender in (first, second):
        assert sender.send_quota == 0
        with pytest.raises(LocalProtocolError, match="window"):
            sender.send(message())
    opened = amqp10.Flow(next_incoming_id=0, incoming_window=5, next_outgoing_id=0, outgoing_window=0)
    events = pair.tell(opened, to=pair.client)
    assert [(type(event), event.view) for event in events] == [(WindowOpened, first), (WindowOpened, second)]


def test_2_5_6_a_large_message_waits_in_the_middle_for_the_window() -> None:
    pair = Pair(server=ConnectionOptions(frame_size=512, incoming_window=1, idle_timeout=None))
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    handle = sender.send(message(bytes(4000)))
    assert pair.client.pending_bytes > 4000
    with pytest.raises(LocalProtocolError, match="window"):
        sender.send(message())
    _, events = pair.carry()
    (delivery,) = of(events, Incoming)
    assert delivery.message == message(bytes(4000))
    pair.server.accept(delivery)
    events, _ = pair.carry()
    assert of(events, Acknowledged)[0].handle is handle


@pytest.mark.parametrize("by", ["server", "client"])
def test_2_5_6_a_link_that_is_gone_gives_back_the_window_of_its_session(by: str) -> None:
    """The incoming-window has closed for deliveries that are not settled; their link is detached, so none of them waits."""
    pair = Pair(server=ConnectionOptions(idle_timeout=None, unsettled=3))
    ours, _ = pair.session()
    link, other = pair.sender(ours)
    second, _ = pair.sender(ours, name="m")
    for _ in range(3):
        link.send(b"x")
    pair.carry()
    assert not second.send_quota
    (other if by == "server" else link).detach()
    events, _ = pair.carry()
    assert second.send_quota
    assert any(isinstance(event, WindowOpened) and event.view is second for event in events)
