"""What parts 2, 4 and 5 of AMQP 1.0 say about state, each with its section."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lib.amqp10_pair import PLENTY, Pair, frames, kinds, message
from wirefmt import amqp10
from wirefmt.amqp10 import (
    Aborted,
    Attaching,
    ClientConnection,
    ConnectionOptions,
    Drained,
    DrainRequested,
    Flowed,
    Incoming,
    LinkAttached,
    LinkDetached,
    LinkState,
    Login,
    Part,
    ServerConnection,
    SessionEnded,
    SessionState,
    Settled,
    State,
    Terminus,
    Updated,
)
from wirefmt.connection import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.connection.sasl import Anonymous, External, Plain, Scram, ScramCredentials
from wirefmt.errors import LocalProtocolError

HEADER = amqp10.ProtocolHeader(0).encode()
SASL_HEADER = amqp10.ProtocolHeader(3).encode()
ERROR = amqp10.Error(condition="amqp:internal-error", description="why")


def of(events: list[Any], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


# ---- headers and SASL


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


def test_5_3_1_sasl_may_be_demanded_or_allowed() -> None:
    server = ServerConnection(0.0, mechanisms=["PLAIN"])
    (gone,) = server.receive(HEADER, 0.0)
    assert "SASL" in gone.reason
    assert server.data_to_send() == SASL_HEADER
    server = ServerConnection(0.0, mechanisms=["PLAIN"], without_sasl=True)
    assert server.receive(HEADER, 0.0) == []
    assert server.data_to_send() == HEADER
    client = ClientConnection(0.0)
    client.open()
    (gone,) = client.receive(SASL_HEADER, 0.0)
    assert "demands" in gone.reason


def login(
    sasl: Any, mechanisms: list[str], **answer: Any
) -> tuple[ClientConnection, ServerConnection, list[Any], Login]:
    client = ClientConnection(0.0, "c", sasl=sasl, options=PLENTY)
    server = ServerConnection(0.0, "s", mechanisms=mechanisms, options=PLENTY)
    client.open(hostname="h")
    events: list[Any] = []
    asked: Any = None
    for _ in range(8):
        for event in server.receive(client.data_to_send(), 0.0) if server.state is not State.END else ():
            if isinstance(event, Login):
                asked = event
                refusal = answer.get("refuse")
                server.refuse(event, refusal) if refusal else server.accept(event, **answer)
            elif isinstance(event, amqp10.Open):
                server.accept(event)
        data = server.data_to_send()
        if data and client.state is not State.END:
            events += client.receive(data, 0.0)
    return client, server, events, asked


@pytest.mark.parametrize(
    ("sasl", "expected"),
    [
        (Anonymous("t"), {"mechanism": "ANONYMOUS", "response": b"t"}),
        (Plain("u", "p", "z"), {"user_name": "u", "password": "p", "authorization": "z"}),
        (External("z"), {"authorization": "z"}),
    ],
)
def test_5_3_2_an_exchange(sasl: Any, expected: dict[str, Any]) -> None:
    client, server, events, asked = login(sasl, ["ANONYMOUS", "PLAIN", "EXTERNAL"])
    assert isinstance(events[-1], Connected)
    assert client.state is server.state is State.OPENED
    assert asked.hostname == "h"
    assert {name: getattr(asked, name) for name in expected} == expected
    assert server.login is asked
    assert "'p'" not in repr(asked)


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-1"])
def test_5_3_2_scram(name: str) -> None:
    credentials = ScramCredentials.of("pencil", b"salt", name=name)
    client, _, events, asked = login(
        Scram("user", "pencil", "a", name=name), [name], credentials=credentials, nonce="b"
    )
    assert isinstance(events[-1], Connected)
    assert asked.user_name == "user"
    client, server, events, _ = login(Scram("user", "pen", "a", name=name), [name], credentials=credentials, nonce="b")
    (gone,) = events
    assert (gone.by, gone.code) == ("peer", 1)
    assert client.state is server.state is State.END


def test_5_3_3_6_a_refused_login() -> None:
    _, server, (gone,), _ = login(Plain("u", "p"), ["PLAIN"], refuse=4)
    assert isinstance(gone, Disconnected)
    assert gone.code == 4
    assert server.should_close
    assert server.data_to_send() == b""


def test_5_3_2_only_a_mechanism_that_is_offered() -> None:
    _, _, (gone,), asked = login([External(), Plain("u", "p")], ["ANONYMOUS"])
    assert "ANONYMOUS" in gone.reason
    assert asked is None
    _client, _, _events, asked = login([External(), Plain("u", "p")], ["PLAIN", "ANONYMOUS"])
    assert asked.mechanism == "PLAIN"
    server = ServerConnection(0.0, mechanisms=["PLAIN"])
    init = amqp10.SaslInit(mechanism="ANONYMOUS")
    (gone,) = server.receive(SASL_HEADER + init.encode(), 0.0)
    assert gone.code == 1
    assert frames(server.data_to_send())[-1] == amqp10.SaslOutcome(code=1)


def test_5_3_2_mechanisms_of_the_host() -> None:
    server = ServerConnection(0.0, mechanisms=["MINE"], options=PLENTY)
    init = amqp10.SaslInit(mechanism="MINE", initial_response=b"1")
    (first,) = server.receive(SASL_HEADER + init.encode(), 0.0)
    server.challenge(first, b"2")
    (second,) = server.receive(amqp10.SaslResponse(response=b"3").encode(), 0.0)
    assert (first.response, second.response, second.mechanism) == (b"1", b"3", "MINE")
    with pytest.raises(LocalProtocolError, match="answer"):
        server.accept(first)
    server.accept(second, data=b"4")
    assert [type(frame).__name__ for frame in frames(server.data_to_send())] == [
        "ProtocolHeader",
        "SaslMechanisms",
        "SaslChallenge",
        "SaslOutcome",
    ]


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
    (gone,) = server.refuse(asked, amqp10.Error(condition="amqp:connection:redirect"))
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
    (ours,) = pair.client.receive(down, 0.0)
    (theirs,) = pair.server.receive(up, 0.0)
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
    sent = 0
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
    (gone,) = pair.client.handle_timeout(sent + 10.0)
    assert gone.code == "amqp:resource-limit-exceeded"
    assert isinstance(frames(pair.client.data_to_send())[-1], amqp10.Close)


@pytest.mark.parametrize(
    ("fields", "condition"),
    [({"max_frame_size": 511}, "amqp:invalid-field"), ({"idle_time_out": 50}, "amqp:not-allowed")],
)
def test_2_7_1_opens_that_cannot_be_kept_to(fields: dict[str, int], condition: str) -> None:
    server = ServerConnection(0.0, "s", mechanisms=(), options=PLENTY)
    (gone,) = server.receive(HEADER + amqp10.Open(container_id="c", **fields).encode(), 0.0)
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
    (delivery,) = pair.server.receive(data, 0.0)
    assert delivery.message == message(bytes(5000))


def test_2_7_1_a_frame_that_is_too_large() -> None:
    pair = Pair(server=ConnectionOptions(frame_size=600, idle_timeout=None))
    (gone,) = pair.server.receive((601).to_bytes(4) + b"\x02\x00\x00\x00", 0.0)
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
    (gone,) = server.handle_timeout(3.0)
    assert gone.by == "local"
    pair = Pair()
    pair.client.close()
    pair.client.handle_timeout(0.0)
    (gone,) = pair.client.handle_timeout(5.0)
    assert "close" in gone.reason


# ---- sessions


def test_2_5_1_channels_of_both_sides() -> None:
    pair = Pair()
    for number in range(3):
        ours, theirs = pair.session()
        assert (ours.channel, ours.remote_channel, theirs.channel) == (number, number, number)
    pair.client.sessions[1].end()
    ours, theirs = pair.carry()
    assert (ours[0].by, theirs[0].by) == ("local", "peer")
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
    assert theirs.state is SessionState.UNMAPPED
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


# ---- links


def test_2_6_1_a_name_in_both_directions_is_two_links() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    pair.sender(ours, name="x", credit=0)
    pair.receiver(ours, name="x")
    assert len(ours.links) == len(theirs.links) == 2
    with pytest.raises(LocalProtocolError, match="in use"):
        ours.sender("x", "q")


def test_2_6_1_a_name_used_again_steals_the_link() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    pair.sender(ours, name="x")
    attach = amqp10.Attach(name="x", handle=9, role=False, initial_delivery_count=0)
    gone, asked = pair.tell(attach)
    assert isinstance(gone, LinkDetached)
    assert gone.error is not None
    assert gone.error.condition == "amqp:link:stolen"
    assert isinstance(asked, Attaching)
    pair.server.accept(asked)
    assert asked.link.attached
    assert theirs.find("x", False) is asked.link


def test_2_6_2_handles() -> None:
    pair = Pair(server=ConnectionOptions(links=3, idle_timeout=None))
    ours, theirs = pair.session()
    links = [pair.sender(ours, name=str(n), credit=0)[0] for n in range(3)]
    with pytest.raises(LocalProtocolError, match="handle"):
        ours.sender("3", "q")
    links[1].detach()
    pair.carry()
    assert sorted(ours.links) == sorted(theirs.links) == [0, 2]
    assert pair.sender(ours, name="4", credit=0)[0].handle == 1
    (gone,) = pair.tell(amqp10.Attach(name="y", handle=3, role=True))
    assert gone.code == "amqp:connection:framing-error"


def test_2_6_2_a_handle_in_use() -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours)
    (gone,) = pair.tell(amqp10.Attach(name="y", handle=0, role=True))
    assert gone.error.condition == "amqp:session:handle-in-use"


def test_2_6_2_a_handle_without_a_link() -> None:
    for frame in (
        amqp10.Transfer(handle=4, delivery_id=0, delivery_tag=b"t", payload=b""),
        amqp10.Flow(next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=0, handle=4),
        amqp10.Detach(handle=4),
    ):
        pair = Pair()
        pair.session()
        (gone,) = pair.tell(frame)
        assert gone.error.condition == "amqp:session:unattached-handle"


def test_2_6_3_a_refused_link() -> None:
    pair = Pair(accept=False)
    ours, theirs = pair.session()
    ours.sender("a", "nowhere")
    ours.receiver("b", "nowhere")
    _, asked = pair.carry()
    for attaching in of(asked, Attaching):
        pair.server.refuse(attaching, amqp10.Error(condition="amqp:not-found"))
        with pytest.raises(LocalProtocolError, match="answer"):
            pair.server.accept(attaching)
    answers = frames(pair.server.data_to_send())
    assert [type(frame).__name__ for frame in answers] == ["Attach", "Detach", "Attach", "Detach"]
    assert answers[0].target is None
    assert answers[2].source is None
    events = pair.tell(*answers, to=pair.client)
    assert kinds(events) == ["LinkDetached", "LinkDetached"]  # never announced as attached
    assert [event.error.condition for event in events] == ["amqp:not-found"] * 2
    pair.carry()
    assert ours.links == theirs.links == {}


def test_2_6_3_the_actual_termini() -> None:
    pair = Pair()
    pair.answers = {"source": amqp10.Source(address="made-1"), "target": None}
    ours, _ = pair.session()
    receiver, _ = pair.receiver(ours)
    assert receiver.source.address == "made-1"


def test_2_6_3_a_dynamic_node() -> None:
    pair = Pair(accept=False)
    ours, _ = pair.session()
    link = ours.receiver("r", amqp10.Source(dynamic=True))
    _, events = pair.carry()
    (asked,) = of(events, Attaching)
    assert asked.message.source.dynamic is True
    pair.server.accept(asked, source=amqp10.Source(address="temporary-1", dynamic=True))
    events, _ = pair.carry()
    assert isinstance(events[-1], LinkAttached)
    assert link.source.address == "temporary-1"


def test_2_6_4_attaches_that_cross() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    mine = ours.sender("x", "q")
    other = theirs.receiver("x", "q")
    events, others = pair.carry()
    assert kinds(events) == kinds(others) == ["LinkAttached"]
    assert mine.state is other.state is LinkState.ATTACHED


def test_2_6_5_detaches_that_cross() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, receiver = pair.sender(ours)
    sender.detach(closed=False)
    receiver.detach(ERROR)
    (mine,), (other,) = pair.carry()
    assert (mine.by, mine.closed, other.by, other.error) == ("local", True, "local", ERROR)
    assert ours.links == theirs.links == {}


def test_2_6_5_a_detach_before_the_peers_attach() -> None:
    for error in (None, ERROR):
        pair = Pair()
        ours, theirs = pair.session()
        link = ours.sender("x", "q")
        link.detach(error)
        events, _ = pair.carry()
        assert kinds(events) == ["LinkDetached"]
        assert ours.links == theirs.links == {}
        assert pair.sender(ours, name="x")[0].handle == 0


def test_2_6_5_an_attach_is_withdrawn() -> None:
    pair = Pair(accept=False)
    ours, theirs = pair.session()
    link = ours.sender("x", "q")
    _, events = pair.carry()
    (asked,) = of(events, Attaching)
    assert pair.server.undecided == 1
    link.detach()
    _, (gone,) = pair.carry()
    assert isinstance(gone, LinkDetached)
    assert pair.server.undecided == 0
    assert theirs.links == {}
    assert pair.server.accept(asked) == []
    assert pair.server.data_to_send() == b""


def test_2_6_5_detach_keeps_the_answers_before_it() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, receiver = pair.sender(ours)
    sender.send(message())
    _, (delivery,) = pair.carry()
    pair.server.accept(delivery)
    receiver.detach()
    assert [type(frame).__name__ for frame in frames(pair.server.data_to_send())] == ["Disposition", "Detach"]


def test_2_6_5_transfers_under_way_count_in_the_window_only() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, receiver = pair.sender(ours)
    other, _ = pair.sender(ours, name="2")
    receiver.detach()
    sender.send(message(), settled=True)
    before = theirs.incoming_window
    pair.server.receive(pair.client.data_to_send(), 0.0)
    assert theirs.incoming_window == before - 1
    other.send(message(), settled=True)  # its delivery-id follows that of the dropped one
    _, events = pair.carry()
    assert kinds(events) == ["LinkDetached", "Incoming"] or kinds(events) == ["Incoming", "LinkDetached"]


def behind(sessions: tuple[Any, Any], kind: str) -> Any:
    """A performative of the client for its handle 0, which it sends without knowing of the server's detach."""
    ours, _ = sessions
    window = {
        "incoming_window": 9,
        "outgoing_window": 9,
        "next_incoming_id": 0,
        "next_outgoing_id": ours.next_outgoing_id,
    }
    return {
        "attach": amqp10.Attach(name="other", handle=0, role=False, initial_delivery_count=0),
        "flow": amqp10.Flow(handle=0, link_credit=5, delivery_count=0, **window),
        "transfer": amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"0", settled=True),
        "detach": amqp10.Detach(handle=0, closed=True),
    }[kind]


@pytest.mark.parametrize("kind", ["attach", "flow", "transfer"])
def test_2_6_5_input_for_a_link_that_was_detached_with_an_error_ends_the_session(kind: str) -> None:
    pair = Pair()
    sessions = ours, theirs = pair.session()
    receiver = pair.sender(ours)[1]
    receiver.detach(ERROR)
    assert receiver.state is LinkState.ERRORED
    (gone,) = pair.tell(behind(sessions, kind))
    detach, end = frames(pair.server.data_to_send())
    assert isinstance(gone, SessionEnded)
    assert (detach.error.condition, end.error.condition) == (ERROR.condition, "amqp:session:errant-link")
    assert theirs.state is SessionState.DISCARDING
    assert pair.server.state is State.OPENED


def test_2_6_5_so_does_input_behind_what_broke_a_rule_of_the_link() -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours, credit=1)
    transfers = [
        amqp10.Transfer(handle=0, delivery_id=n, delivery_tag=bytes([n]), settled=True, payload=message().encode())
        for n in range(3)
    ]
    incoming, gone, ended = pair.tell(*transfers)
    assert kinds([incoming, gone, ended]) == ["Incoming", "LinkDetached", "SessionEnded"]
    assert (gone.error.condition, ended.error.condition) == (
        "amqp:link:transfer-limit-exceeded",
        "amqp:session:errant-link",
    )


def test_2_6_5_the_peers_detach_is_the_answer() -> None:
    pair = Pair()
    sessions = ours, theirs = pair.session()
    _, receiver = pair.sender(ours)
    receiver.detach(ERROR)
    (gone,) = pair.tell(behind(sessions, "detach"))
    assert (gone.link, gone.error) == (receiver, ERROR)
    assert theirs.state is SessionState.MAPPED
    assert theirs.links == {}


@pytest.mark.parametrize("error", [None, ERROR], ids=["detached", "detached with an error"])
@pytest.mark.parametrize("kind", ["flow", "transfer", "detach"])
def test_2_6_2_input_on_a_handle_that_both_have_detached(kind: str, error: Any) -> None:
    pair = Pair()
    sessions = ours, theirs = pair.session()
    pair.sender(ours)[1].detach(error)
    pair.carry()
    assert theirs.links == {}
    (gone,) = pair.tell(behind(sessions, kind))
    assert gone.error.condition == "amqp:session:unattached-handle"
    (end,) = frames(pair.server.data_to_send())
    assert end.error == gone.error


def test_2_6_4_a_detach_without_an_error_drops_what_was_under_way() -> None:
    pair = Pair()
    sessions = ours, theirs = pair.session()
    pair.sender(ours)[1].detach()
    assert pair.tell(behind(sessions, "flow"), behind(sessions, "transfer")) == []
    assert theirs.state is SessionState.MAPPED
    (gone,) = pair.tell(behind(sessions, "attach"))
    assert gone.error.condition == "amqp:session:handle-in-use"


@pytest.mark.parametrize("kind", ["flow", "transfer"])
def test_2_6_3_what_follows_an_attach_that_is_refused_is_dropped(kind: str) -> None:
    """The peer may give credit behind its attach, before it knows the answer. The link never had an endpoint that failed."""
    pair = Pair(accept=False)
    sessions = ours, theirs = pair.session()
    ours.sender("x", "q")
    _, (asked,) = pair.carry()
    pair.server.refuse(asked, ERROR)
    assert pair.tell(behind(sessions, kind)) == []
    assert theirs.state is SessionState.MAPPED
    pair.tell(behind(sessions, "detach"))
    assert theirs.links == {}


# ---- credit


def test_2_6_7_the_formula_with_messages_under_way() -> None:
    pair = Pair()
    ours, _ = pair.session()
    start = (1 << 32) - 2
    sender, receiver = pair.sender(ours, credit=0, initial_delivery_count=start)
    receiver.grant(5)
    pair.carry()
    assert sender.credit == 5
    for _ in range(3):
        sender.send(message(), settled=True)
    assert (sender.delivery_count, sender.credit) == (1, 2)
    receiver.grant(4)  # the receiver has not seen the three
    flow = pair.server.data_to_send()
    pair.client.receive(flow, 0.0)
    assert sender.credit == 1
    pair.carry()
    assert (receiver.delivery_count, receiver.credit) == (1, 1)
    receiver.grant(0)
    pair.carry()
    assert sender.credit == 0


def test_2_6_7_credit_that_is_taken_back_may_be_negative() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, receiver = pair.sender(ours, credit=5)
    for _ in range(3):
        sender.send(message(), settled=True)
    receiver.grant(1)
    pair.client.receive(pair.server.data_to_send(), 0.0)
    assert sender.credit == -2
    with pytest.raises(LocalProtocolError, match="credit"):
        sender.send(message())
    _, events = pair.carry()
    assert kinds(events) == ["Incoming"] * 3  # what was sent before is taken


def test_2_6_7_messages_beyond_the_credit() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    _, _receiver = pair.sender(ours, credit=1)
    transfers = [amqp10.Transfer(handle=0, delivery_id=n, delivery_tag=b"%d" % n, payload=b"") for n in range(2)]
    events = pair.tell(*transfers)
    assert kinds(events) == ["Incoming", "LinkDetached"]
    assert events[1].error.condition == "amqp:link:transfer-limit-exceeded"
    assert events[1].returned == (events[0],)
    assert theirs.state is SessionState.MAPPED
    pair.server.data_to_send()
    pair.server.accept(events[0])  # the host cannot know yet
    assert pair.server.data_to_send() == b""
    with pytest.raises(LocalProtocolError, match="answered"):
        pair.server.accept(events[0])


def test_2_6_7_the_window_opens_once() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, receiver = pair.sender(ours, credit=0)
    receiver.grant(2)
    (event,), _ = pair.carry()
    assert event == WindowOpened(2, sender)
    receiver.grant(3)
    assert pair.carry()[0] == []
    for _ in range(3):
        sender.send(message(), settled=True)
    pair.carry()
    receiver.grant(1)
    assert pair.carry()[0] == [WindowOpened(1, sender)]


def test_2_6_7_credit_is_renewed_as_deliveries_are_settled() -> None:
    pair = Pair()
    ours, _ = pair.session()
    _receiver, sender = pair.receiver(ours, window=10)
    assert sender.credit == 10
    for _ in range(10):
        sender.send(message())
    events, _ = pair.carry()
    assert sender.credit == 0
    for delivery in events[:4]:
        pair.client.accept(delivery)
    pair.carry()
    assert sender.credit == 4
    for delivery in events[4:]:
        pair.client.accept(delivery)
    pair.carry()
    assert sender.credit == 10
    for _ in range(20):
        sender.send(message(), settled=True)
        pair.carry()
        assert 0 < sender.credit <= 10


def test_2_6_7_drain() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, sender = pair.receiver(ours)
    receiver.grant(5)
    pair.carry()
    receiver.drain()
    with pytest.raises(LocalProtocolError, match="drain"):
        receiver.grant(1)
    _, (asked,) = pair.carry()
    assert asked == DrainRequested(sender, 5)
    sender.send(message(), settled=True)
    sender.drained()
    said = frames(pair.server.data_to_send())
    assert [type(frame).__name__ for frame in said] == ["Transfer", "Flow"]
    assert (said[1].delivery_count, said[1].link_credit, said[1].drain) == (5, 0, True)
    events = pair.tell(*said, to=pair.client)
    assert kinds(events) == ["Incoming", "Drained"]
    assert (receiver.delivery_count, receiver.credit) == (5, 0)
    receiver.grant(2)
    pair.carry()
    assert (sender.credit, sender.draining) == (2, False)


def test_2_6_7_drain_that_comes_before_the_attach_is_answered() -> None:
    pair = Pair(accept=False)
    ours, _ = pair.session()
    receiver = ours.receiver("r", "/queues/q")
    receiver.grant(5)
    receiver.drain()
    _, (attaching,) = pair.carry()
    events = pair.server.accept(attaching)
    assert events == [WindowOpened(5, attaching.link), DrainRequested(attaching.link, 5)]
    attaching.link.drained()
    assert kinds(pair.carry()[0]) == ["LinkAttached", "Drained"]
    assert receiver.credit == 0


def test_2_7_3_keys_of_unsettled_are_delivery_tags() -> None:
    pair = Pair()
    _, theirs = pair.session()
    attach = amqp10.Attach(
        name="l", handle=0, role=False, initial_delivery_count=0, unsettled={"not binary": None}, source=amqp10.Source()
    )
    (ended,) = pair.tell(attach)
    assert isinstance(ended, SessionEnded)
    assert (ended.session, str(ended.error.condition)) == (theirs, "amqp:invalid-field")


def test_2_6_7_drain_is_answered_without_credit_too() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, sender = pair.receiver(ours)
    receiver.drain()
    _, events = pair.carry()
    assert of(events, DrainRequested) == [DrainRequested(sender, 0)]
    sender.drained()
    events, _ = pair.carry()
    assert events == [Drained(receiver)]


def test_2_6_7_drained_waits_for_transfers_that_wait() -> None:
    pair = Pair(ConnectionOptions(frame_size=512, incoming_window=1, idle_timeout=None))
    ours, _ = pair.session()
    receiver, sender = pair.receiver(ours)
    receiver.grant(5)
    receiver.drain()
    pair.carry()
    sender.send(message(bytes(3000)))
    sender.drained()
    events, _ = pair.carry()
    assert kinds(events) == ["Incoming", "Drained"]


def test_2_7_4_echo_available_and_properties() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, sender = pair.receiver(ours)
    sender.offer(17)
    pair.carry()
    assert receiver.available == 17
    receiver.ask()
    pair.server.receive(pair.client.data_to_send(), 0.0)
    (answer,) = frames(pair.server.data_to_send())
    assert (answer.handle, answer.echo, answer.available) == (0, None, 17)
    ours.ask()
    pair.server.receive(pair.client.data_to_send(), 0.0)
    (answer,) = frames(pair.server.data_to_send())
    assert (answer.handle, answer.echo) == (None, None)
    flow = amqp10.Flow(
        next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=0, handle=0, properties={"x": 1}
    )
    (event,) = pair.tell(flow)
    assert isinstance(event, Flowed)
    assert event.view is sender


def test_2_6_7_available_counts_down_to_zero_with_the_messages_that_come() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, sender = pair.receiver(ours, window=10)
    assert receiver.available is None
    sender.offer(2)
    pair.carry()
    seen = []
    for _ in range(4):
        sender.send(message(), settled=True)
        pair.carry()
        seen.append(receiver.available)
    assert seen == [1, 0, 0, 0]


def test_2_7_4_a_flow_of_a_session_says_nothing_of_links() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, _ = pair.receiver(ours, window=10)
    receiver.drain()
    pair.carry()
    ours.ask()
    (flow,) = frames(pair.client.data_to_send())
    assert flow.handle is None
    assert [flow.delivery_count, flow.link_credit, flow.available, flow.drain] == [None] * 4


# ---- transfers


def test_2_6_12_delivery_ids_follow_each_other_over_all_links() -> None:
    pair = Pair()
    ours, _ = pair.session(next_outgoing_id=(1 << 32) - 2)
    links = [pair.sender(ours, name=str(n))[0] for n in range(2)]
    ids = [links[n % 2].send(message()).delivery_id for n in range(4)]
    assert ids == [(1 << 32) - 2, (1 << 32) - 1, 0, 1]
    _, events = pair.carry()
    assert kinds(events) == ["Incoming"] * 4


@pytest.mark.parametrize(
    ("second", "condition"),
    [
        ({"delivery_id": 2, "delivery_tag": b"b"}, "amqp:invalid-field"),
        ({"delivery_id": 0, "delivery_tag": b"b"}, "amqp:invalid-field"),
        ({"delivery_id": 1}, "amqp:invalid-field"),
        ({"delivery_tag": b"b"}, "amqp:invalid-field"),
    ],
)
def test_2_7_5_first_transfers(second: dict[str, Any], condition: str) -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours)
    first = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"a", payload=b"")
    events = pair.tell(first, amqp10.Transfer(handle=0, payload=b"", **second))
    assert events[-1].error.condition == condition
    assert isinstance(events[-1], SessionEnded)


def test_2_7_5_a_tag_is_unique_among_the_unsettled() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    sender.send(message(), delivery_tag=b"x")
    with pytest.raises(LocalProtocolError, match="unique"):
        sender.send(message(), delivery_tag=b"x")
    with pytest.raises(LocalProtocolError, match="32"):
        sender.send(message(), delivery_tag=bytes(33))
    _, (delivery,) = pair.carry()
    repeated = amqp10.Transfer(handle=0, delivery_id=1, delivery_tag=b"x", payload=b"")
    (gone,) = pair.tell(repeated)
    assert gone.error.condition == "amqp:not-allowed"
    assert gone.returned == (delivery,)


def test_2_7_5_an_aborted_delivery() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, receiver = pair.sender(ours, credit=2)
    handle = sender.send(b"\0Su\xa0\x04ab", more=True)
    with pytest.raises(LocalProtocolError, match="part"):
        sender.send(message())
    sender.send_more(handle, b"c", more=True)
    sender.abort(handle)
    _, (event,) = pair.carry()
    assert isinstance(event, Aborted)
    assert (receiver.credit, receiver.unsettled, sender.unsettled) == (1, {}, {})
    assert pair.server.unfinished == 0
    sender.send(message())
    _, events = pair.carry()
    assert kinds(events) == ["Incoming"]


def test_2_7_5_parts_belong_together() -> None:
    for more in ({"delivery_id": 1}, {"delivery_tag": b"y"}):
        pair = Pair()
        ours, _ = pair.session()
        pair.sender(ours)
        first = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", more=True, payload=b"a")
        (gone,) = pair.tell(first, amqp10.Transfer(handle=0, payload=b"b", **more))
        assert gone.error.condition == "amqp:invalid-field"


def test_2_6_14_parts_of_several_links_may_mix() -> None:
    pair = Pair()
    ours, _ = pair.session()
    first, _ = pair.sender(ours, name="1")
    second, _ = pair.sender(ours, name="2")
    octets = message(b"0123456789").encode()
    handles = [first.send(octets[:5], more=True), second.send(octets[:7], more=True)]
    first.send_more(handles[0], octets[5:], more=False)
    second.send_more(handles[1], octets[7:], more=False)
    _, events = pair.carry()
    assert [delivery.message for delivery in events] == [message(b"0123456789")] * 2
    assert [delivery.link.name for delivery in events] == ["1", "2"]


def test_2_6_14_a_message_in_parts_as_they_come() -> None:
    pair = Pair(ConnectionOptions(frame_size=512, idle_timeout=None))
    ours, _ = pair.session()
    _receiver, sender = pair.receiver(ours, window=5, streamed=True)
    sender.send(message(bytes(2000)))
    events, _ = pair.carry()
    parts = of(events, Part)
    assert len(parts) > 3
    assert b"".join(part.payload for part in parts) == message(bytes(2000)).encode()
    delivery = events[-1]
    assert isinstance(delivery, Incoming)
    assert bytes(delivery.payload) == b""
    assert pair.client.unfinished == 0
    pair.client.accept(delivery)
    assert of(pair.carry()[1], Acknowledged)


def test_2_7_5_settled_on_any_transfer_counts() -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours)
    frames_ = [
        amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", more=True, payload=b"\0Su"),
        amqp10.Transfer(handle=0, settled=True, payload=b"\xa0\x00"),
    ]
    (delivery,) = pair.tell(*frames_)
    assert delivery.settled
    pair.server.accept(delivery)
    assert pair.server.data_to_send() == b""


def test_2_7_5_no_part_of_a_delivery_settles_it_and_the_mode_is_settled() -> None:
    """With snd-settle-mode settled, at least one transfer of each delivery is settled."""
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours, snd_settle_mode=1)
    first = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", more=True, payload=b"\0Su")
    assert pair.tell(first) == []
    (gone,) = pair.tell(amqp10.Transfer(handle=0, payload=b"\xa0\x00"))
    assert isinstance(gone, LinkDetached)
    assert gone.error is not None
    assert gone.error.condition == "amqp:not-allowed"


def test_2_7_5_a_resumed_delivery_that_is_not_known_is_ignored_with_all_its_parts() -> None:
    pair = Pair()
    ours, _ = pair.session()
    _, receiver = pair.sender(ours)
    parts = [
        amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", resume=True, more=True, payload=b"\0Su"),
        amqp10.Transfer(handle=0, more=True, payload=b"\xa0"),
        amqp10.Transfer(handle=0, payload=b"\x00"),
    ]
    assert pair.tell(*parts) == []
    assert (receiver.unsettled, receiver.credit, pair.server.unfinished) == ({}, 99, 0)
    (delivery,) = pair.tell(
        amqp10.Transfer(handle=0, delivery_id=1, delivery_tag=b"y", payload=message().encode()),
    )
    assert delivery.message == message()


def test_2_7_3_max_message_size() -> None:
    pair = Pair(ConnectionOptions(), ConnectionOptions(message_size=1000, frame_size=512, idle_timeout=None))
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    assert sender.max_message_size == 1000
    with pytest.raises(LocalProtocolError, match="1000"):
        sender.send(message(bytes(1001)))
    assert sender.credit == 100
    sender.send(message(bytes(900)))
    pair.carry()
    sender.max_message_size = 0  # as a peer that does not care
    sender.send(message(bytes(1200)))
    _, (gone,) = pair.carry()
    assert gone.error.condition == "amqp:link:message-size-exceeded"
    assert pair.server.unfinished == 0


# ---- settlement


def test_2_8_2_sender_settle_modes() -> None:
    pair = Pair()
    ours, _ = pair.session()
    settled, _ = pair.sender(ours, name="s", snd_settle_mode=1)
    unsettled, _ = pair.sender(ours, name="u", snd_settle_mode=0)
    assert settled.send(message()).settled
    assert not unsettled.send(message()).settled
    with pytest.raises(LocalProtocolError, match="settled"):
        settled.send(message(), settled=False)
    with pytest.raises(LocalProtocolError, match="unsettled"):
        unsettled.send(message(), settled=True)
    _, events = pair.carry()
    assert [delivery.settled for delivery in events] == [True, False]


@pytest.mark.parametrize(("mode", "wrong"), [(0, True), (1, False)])
def test_2_8_2_a_transfer_against_the_mode(mode: int, wrong: bool) -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours, snd_settle_mode=mode)
    (gone,) = pair.tell(amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", settled=wrong, payload=b""))
    assert gone.error.condition == "amqp:not-allowed"


def test_2_6_12_at_least_once() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, receiver = pair.sender(ours)
    handle = sender.send(message())
    _, (delivery,) = pair.carry()
    pair.server.accept(delivery)
    (disposition,) = frames(pair.server.data_to_send())
    assert (disposition.role, disposition.settled, disposition.state) == (True, True, amqp10.Accepted())
    (event,) = pair.tell(disposition, to=pair.client)
    assert event == Acknowledged(handle, amqp10.Accepted(), 0)
    assert pair.client.data_to_send() == b""
    assert (sender.unsettled, receiver.unsettled, ours.outgoing.records, theirs.incoming.records) == ({}, {}, {}, {})
    with pytest.raises(LocalProtocolError, match="answered"):
        pair.server.accept(delivery)


def test_2_6_12_exactly_once() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, receiver = pair.sender(ours, rcv_settle_mode=1)
    handle = sender.send(message())
    _, (delivery,) = pair.carry()
    pair.server.accept(delivery)
    (first,) = frames(pair.server.data_to_send())
    assert (first.role, first.settled, first.state) == (True, False, amqp10.Accepted())
    assert receiver.unsettled
    (event,) = pair.tell(first, to=pair.client)
    assert (event.handle, event.code) == (handle, 0)
    (second,) = frames(pair.client.data_to_send())
    assert (second.role, second.first, second.settled) == (False, 0, True)
    (done,) = pair.tell(second)
    assert isinstance(done, Settled)
    assert (done.delivery, done.state) == (delivery, amqp10.Accepted())
    assert pair.server.data_to_send() == b""
    assert (receiver.unsettled, theirs.incoming.records) == ({}, {})


def test_2_7_5_the_mode_of_one_delivery() -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours, rcv_settle_mode=1)
    transfer = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", rcv_settle_mode=0, payload=b"")
    (delivery,) = pair.tell(transfer)
    pair.server.accept(delivery)
    assert frames(pair.server.data_to_send())[0].settled is True
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours)
    transfer = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", rcv_settle_mode=1, payload=b"")
    (gone,) = pair.tell(transfer)
    assert gone.error.condition == "amqp:invalid-field"


def test_2_6_12_the_sender_settles_what_the_receiver_has_only_decided() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)  # mode first
    handle = sender.send(message())
    answer = amqp10.Disposition(role=True, first=0, settled=False, state=amqp10.Released())
    (event,) = pair.tell(answer, to=pair.client)
    assert (event.handle, event.code) == (handle, 0x26)
    (settling,) = frames(pair.client.data_to_send()[-0:])[-1:]
    assert (settling.role, settling.settled) == (False, True)


def test_3_4_all_outcomes() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    handles = [sender.send(message()) for _ in range(5)]
    _, deliveries = pair.carry()
    server = pair.server
    server.accept(deliveries[0])
    server.reject(deliveries[1], ERROR)
    server.release(deliveries[2])
    server.modify(deliveries[3], delivery_failed=True, message_annotations={"x-a": 1})
    server.settle(deliveries[4], None, settled=True)
    events, _ = pair.carry()
    assert [event.handle for event in events] == handles
    assert [event.code for event in events] == [0, 0x25, 0x26, 0x27, 0]
    assert events[1].message.error == ERROR
    assert events[3].message.delivery_failed is True
    assert events[4].message is None


def test_3_4_1_received_is_no_outcome() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    handle = sender.send(message())
    state = amqp10.Received(section_number=0, section_offset=3)
    (event,) = pair.tell(amqp10.Disposition(role=True, first=0, state=state), to=pair.client)
    assert isinstance(event, Updated)
    assert (list(event.handles), event.state, handle.state) == ([handle], state, state)
    assert not handle.settled
    assert sender.unsettled


def test_2_7_6_a_turns_answers_are_merged() -> None:
    pair = Pair()
    ours, _ = pair.session(next_outgoing_id=(1 << 32) - 3)
    links = [pair.sender(ours, name=str(n))[0] for n in range(2)]
    for n in range(10):
        links[n % 2].send(message())
    _, deliveries = pair.carry()
    order = list(deliveries)
    random.Random(1).shuffle(order)
    for delivery in order:
        n = deliveries.index(delivery)
        pair.server.release(delivery) if n == 6 else pair.server.accept(delivery)
    said = frames(pair.server.data_to_send())
    top = 1 << 32
    assert [(d.first, d.last, type(d.state).__name__) for d in said] == [
        (top - 3, 2, "Accepted"),
        (3, None, "Released"),
        (4, 6, "Accepted"),
    ]


def test_2_7_6_ranges_name_what_is_not_there() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    handles = [sender.send(message()) for _ in range(3)]
    everything = amqp10.Disposition(role=True, first=0, last=(1 << 31) - 1, settled=True, state=amqp10.Accepted())
    events = pair.tell(everything, to=pair.client)
    assert [event.handle for event in events] == handles
    assert pair.tell(everything, to=pair.client) == []
    backwards = amqp10.Disposition(role=True, first=5, last=4, settled=True)
    (gone,) = pair.tell(backwards, to=pair.client)
    assert isinstance(gone, SessionEnded)


def test_2_6_12_the_sender_may_settle_unasked() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, _ = pair.sender(ours)
    sender.send(message())
    _, (delivery,) = pair.carry()
    (event,) = pair.tell(amqp10.Disposition(role=False, first=0, settled=True))
    assert event.delivery is delivery
    assert theirs.incoming.records == {}
    pair.server.accept(delivery)
    assert pair.server.data_to_send() == b""
    with pytest.raises(LocalProtocolError, match="answered"):
        pair.server.accept(delivery)


# ---- resuming


def resumable(rcv_settle_mode: int = 0) -> tuple[Pair, Any, Any, Any, Any]:
    """A pair with a link whose ends both have a Terminus."""
    pair = Pair()
    ours, _ = pair.session()
    outgoing, incoming = Terminus("l", "sender"), Terminus("l", "receiver")
    pair.answers = {"terminus": incoming}
    sender, receiver = pair.sender(ours, terminus=outgoing, rcv_settle_mode=rcv_settle_mode)
    return pair, sender, receiver, outgoing, incoming


def again(
    outgoing: Terminus, incoming: Terminus, rcv_settle_mode: int = 0
) -> tuple[Pair, Any, Any, list[Any], list[Any]]:
    """Another connection on which the link is resumed."""
    pair = Pair(accept=False)
    ours, _ = pair.session(next_outgoing_id=100)
    sender = ours.sender("l", "q", terminus=outgoing, rcv_settle_mode=rcv_settle_mode)
    _, events = pair.carry()
    (asked,) = of(events, Attaching)
    theirs = pair.server.accept(asked, terminus=incoming)
    asked.link.grant(100)
    mine, more = pair.carry()
    return pair, sender, asked.link, mine, theirs + more


def cut(pair: Pair) -> tuple[list[Any], list[Any]]:
    """The connection breaks; bytes between the two are lost."""
    pair.client.data_to_send()
    pair.server.data_to_send()
    return pair.client.receive_eof(1.0), pair.server.receive_eof(1.0)


def test_2_6_13_a_new_link_has_no_unsettled_map_and_a_resumed_one_has() -> None:
    pair, _, _, outgoing, incoming = resumable()
    attaches = [f for data in (*pair.said, *pair.answered) for f in frames(data) if isinstance(f, amqp10.Attach)]
    assert attaches[0].unsettled is None
    cut(pair)
    pair, *_ = again(outgoing, incoming)
    attaches = [f for data in (*pair.said, *pair.answered) for f in frames(data) if isinstance(f, amqp10.Attach)]
    assert [attach.unsettled for attach in attaches] == [amqp10.Map(), amqp10.Map()]


def test_2_6_13_what_never_arrived_is_sent_again() -> None:
    pair, sender, _, outgoing, incoming = resumable()
    handles = [sender.send(message(b"%d" % n)) for n in range(3)]
    (gone,), _ = cut(pair)
    assert gone.resumable == tuple(handles)
    assert gone.lost == ()
    pair, sender, _, _, events = again(outgoing, incoming)
    deliveries = of(events, Incoming)
    assert [delivery.message for delivery in deliveries] == [message(b"%d" % n) for n in range(3)]
    assert not any(delivery.transfer.resume for delivery in deliveries)
    for delivery in deliveries:
        pair.server.accept(delivery)
    mine, _ = pair.carry()
    assert [event.handle for event in of(mine, Acknowledged)] == handles
    assert outgoing.outgoing == incoming.incoming == {}


def test_2_6_13_what_the_host_still_has_goes_on_without_coming_again() -> None:
    pair, sender, _, outgoing, incoming = resumable()
    handle = sender.send(message())
    _, (delivery,) = pair.carry()
    _, (_gone,) = cut(pair)
    pair, sender, _, _, events = again(outgoing, incoming)
    assert of(events, Incoming) == []
    pair.server.accept(delivery)
    mine, _ = pair.carry()
    assert of(mine, Acknowledged)[0].handle is handle
    assert outgoing.outgoing == incoming.incoming == {}


@pytest.mark.parametrize("arrives", [True, False])
def test_2_6_13_exactly_once_over_a_break(arrives: bool) -> None:
    """The receiver has decided; the break comes before or after the sender has heard of it."""
    pair, sender, _, outgoing, incoming = resumable(rcv_settle_mode=1)
    handle = sender.send(message())
    _, (delivery,) = pair.carry()
    pair.server.accept(delivery)
    if arrives:
        events = pair.client.receive(pair.server.data_to_send(), 0.0)
        assert of(events, Acknowledged)[0].handle is handle  # what it says is lost
    cut(pair)
    assert incoming.incoming == {delivery.delivery_tag: amqp10.Accepted()}
    pair, sender, receiver, mine, theirs = again(outgoing, incoming, rcv_settle_mode=1)
    assert of(theirs, Incoming) == []
    assert [event.delivery_tag for event in of(theirs, Settled)] == [delivery.delivery_tag]
    assert [event.handle for event in of(mine, Acknowledged)] == ([] if arrives else [handle])
    assert outgoing.outgoing == incoming.incoming == receiver.unsettled == sender.unsettled == {}


def test_2_6_13_only_the_receiver_has_it() -> None:
    outgoing, incoming = Terminus("l", "sender", established=True), Terminus("l", "receiver", established=True)
    incoming.incoming[b"x"] = amqp10.Accepted()
    _, _, _, _, theirs = again(outgoing, incoming)
    (event,) = of(theirs, Settled)
    assert (event.delivery, event.delivery_tag, event.state) == (None, b"x", amqp10.Accepted())
    assert incoming.incoming == {}


def test_2_6_13_a_message_goes_on_where_the_receiver_has_stopped() -> None:
    pair, sender, _, outgoing, _ = resumable()
    sent = amqp10.Message(properties=amqp10.Properties(message_id="m"), body=b"0123456789")
    sender.send(sent)
    cut(pair)
    server = Pair(accept=False)
    session, _ = server.session()
    sender = session.sender("l", "q", terminus=outgoing)
    _, events = server.carry()
    (asked,) = of(events, Attaching)
    state = amqp10.Received(section_number=1, section_offset=9)  # the properties, and nine bytes of the body's section
    server.answers = {}
    answer = amqp10.Attach(
        name="l",
        handle=0,
        role=True,
        target=amqp10.Target(address="q"),
        unsettled={b"\0\0\0\0": state},
    )
    flow = amqp10.Flow(
        next_incoming_id=0,
        incoming_window=9,
        next_outgoing_id=0,
        outgoing_window=0,
        handle=0,
        delivery_count=0,
        link_credit=5,
    )
    server.tell(answer, flow, to=server.client)
    (transfer,) = frames(server.client.data_to_send())
    assert transfer.resume is True
    assert transfer.payload_bytes() == b"456789"  # 5 bytes before the body, then "0123"
    assert asked.link.state is LinkState.ATTACH_RCVD


def test_2_6_13_a_terminus_is_a_value() -> None:
    pair, sender, _, outgoing, incoming = resumable(rcv_settle_mode=1)
    for n in range(3):
        sender.send(message(b"%d" % n))
    _, deliveries = pair.carry()
    pair.server.accept(deliveries[0])
    for terminus in (outgoing, incoming):
        made = Terminus.restore(terminus.snapshot())
        assert made.snapshot() == terminus.snapshot()
        assert (made.name, made.role, made.established) == (terminus.name, terminus.role, True)
    outgoing, incoming = Terminus.restore(outgoing.snapshot()), Terminus.restore(incoming.snapshot())
    cut(pair)
    pair, _, _, mine, theirs = again(outgoing, incoming, rcv_settle_mode=1)
    # after a crash the host has none of them: those that it has not decided come again
    assert [delivery.message for delivery in of(theirs, Incoming)] == [message(b"1"), message(b"2")]
    assert len(of(mine, Acknowledged)) == 1


def test_2_6_13_a_journal_has_the_same_as_a_snapshot() -> None:
    options = ConnectionOptions(idle_timeout=None, journaled=True)
    pair = Pair(options, options)
    ours, _ = pair.session()
    outgoing, incoming = Terminus("l", "sender"), Terminus("l", "receiver")
    pair.answers = {"terminus": incoming}
    sender, _ = pair.sender(ours, terminus=outgoing, rcv_settle_mode=1)
    logs: dict[str, list[Any]] = {"sender": [], "receiver": []}

    def keep() -> None:
        logs["sender"] += pair.client.changes()
        logs["receiver"] += pair.server.changes()

    for n in range(4):
        sender.send(message(b"%d" % n))
        keep()
    _, deliveries = pair.carry()
    keep()
    for delivery in deliveries[1:3]:
        pair.server.accept(delivery)
        keep()
    pair.client.receive(pair.server.data_to_send(), 0.0)
    keep()
    for terminus in (outgoing, incoming):
        made = Terminus.replay("l", terminus.role, logs[terminus.role])
        assert made.snapshot() == Terminus.restore(terminus.snapshot()).snapshot()
    assert pair.client.changes() == []


def test_2_6_13_a_closed_link_forgets() -> None:
    pair, sender, receiver, outgoing, incoming = resumable()
    handle = sender.send(message())
    _, (delivery,) = pair.carry()
    receiver.detach()
    (mine,), (theirs,) = pair.carry()
    assert mine.lost == (handle,)
    assert theirs.returned == (delivery,)
    assert outgoing.outgoing == incoming.incoming == {}
    assert not outgoing.established


def test_2_7_3_an_unsettled_map_that_does_not_fit() -> None:
    outgoing = Terminus("l", "sender", established=True)
    _pair, sender, _, _, _ = resumable()
    for n in range(40):
        sender.send(message(b"%d" % n), delivery_tag=b"%032d" % n)
    outgoing = Terminus.restore(sender.terminus.snapshot())
    small = Pair(server=ConnectionOptions(frame_size=512, idle_timeout=None), accept=False)
    ours, _ = small.session()
    link = ours.sender("l", "q", terminus=outgoing)
    (attach,) = frames(small.client.data_to_send())
    assert len(attach.encode()) <= 512
    assert attach.incomplete_unsettled is True
    assert 0 < len(attach.unsettled) < 40
    assert link.incomplete
    small.tell(attach)


def test_2_7_3_after_an_incomplete_map_only_resumed_deliveries_may_come() -> None:
    """The receiver that has sent the map detaches with an error."""
    incoming = Terminus("l", "receiver", established=True)
    for n in range(40):
        incoming.incoming[b"%032d" % n] = None
    pair = Pair(ConnectionOptions(frame_size=512, idle_timeout=None), accept=False)
    pair.session()
    source, target = amqp10.Source(address="q"), amqp10.Target(address="q")
    attach = amqp10.Attach(
        name="l", handle=0, role=False, initial_delivery_count=0, unsettled={}, source=source, target=target
    )
    (attaching,) = pair.tell(attach)
    pair.server.accept(attaching, terminus=incoming)
    attaching.link.grant(5)
    answer = frames(pair.server.data_to_send())[0]
    assert answer.incomplete_unsettled is True
    (gone,) = pair.tell(amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"new", payload=message().encode()))
    assert isinstance(gone, LinkDetached)
    assert gone.error is not None
    assert gone.error.condition == "amqp:not-allowed"


# ---- transactions


def test_part_4_transactions_on_the_wire() -> None:
    pair = Pair()
    ours, _ = pair.session()
    controller = ours.sender("txn", amqp10.Coordinator(capabilities=["amqp:local-transactions"]))
    _, events = pair.carry()
    (asked,) = of(events, Attaching)
    assert isinstance(asked.message.target, amqp10.Coordinator)
    asked.link.grant(10)
    sender, _ = pair.sender(ours)
    declaring = controller.send(amqp10.Message(body=amqp10.AmqpValue(amqp10.Declare())))
    _, (request,) = pair.carry()
    assert request.message.body[0].value == amqp10.Declare()
    pair.server.settle(request, amqp10.Declared(txn_id=b"t1"))
    (event,), _ = pair.carry()
    assert (event.handle, event.message.txn_id, event.code) == (declaring, b"t1", 0)
    posted = sender.send(message(), state=amqp10.TransactionalState(txn_id=b"t1"))
    _, (delivery,) = pair.carry()
    assert delivery.remote_state == amqp10.TransactionalState(txn_id=b"t1")
    assert delivery.message == message()
    outcome = amqp10.TransactionalState(txn_id=b"t1", outcome=amqp10.Accepted())
    pair.server.settle(delivery, outcome)
    (event,), _ = pair.carry()
    assert (event.handle, event.message, event.code) == (posted, outcome, 0)
    discharge = controller.send(amqp10.Message(body=amqp10.AmqpValue(amqp10.Discharge(txn_id=b"t1", fail=False))))
    _, (request,) = pair.carry()
    pair.server.reject(request, amqp10.Error(condition="amqp:transaction:rollback"))
    (event,), _ = pair.carry()
    assert (event.handle, event.code) == (discharge, 0x25)


def test_4_4_2_a_delivery_retired_in_a_transaction() -> None:
    pair = Pair()
    ours, _ = pair.session()
    _receiver, sender = pair.receiver(ours, window=10)
    handle = sender.send(message())
    (delivery,), _ = pair.carry()
    state = amqp10.TransactionalState(txn_id=b"t", outcome=amqp10.Accepted())
    pair.client.settle(delivery, state, settled=False)
    said = frames(pair.client.data_to_send())
    assert said[0] == amqp10.Disposition(role=True, first=0, settled=False, state=state)
    (event,) = pair.tell(said[0])
    assert event.handle is handle


def test_4_2_and_4_3_a_coordinator_hears_nothing_that_is_settled() -> None:
    pair = Pair()
    ours, _ = pair.session()
    controller = ours.sender("txn", amqp10.Coordinator())
    _, events = pair.carry()
    of(events, Attaching)[0].link.grant(10)
    pair.carry()
    with pytest.raises(LocalProtocolError, match="unsettled"):
        controller.send(amqp10.Message(body=amqp10.AmqpValue(amqp10.Declare())), settled=True)
    assert pair.client.data_to_send() == b""
    assert controller.credit == 10


def test_4_4_1_all_transfers_of_a_delivery_name_its_transaction() -> None:
    pair = Pair(server=ConnectionOptions(frame_size=512, idle_timeout=None))
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    state = amqp10.TransactionalState(txn_id=b"t1")
    sender.send(message(bytes(2000)), state=state)
    said = frames(pair.client.data_to_send())
    assert len(said) > 3
    assert [transfer.state for transfer in said] == [state] * len(said)
    handle = sender.send(b"\0Su\xa0", state=state, more=True)
    sender.send_more(handle, b"\x01", more=True)
    sender.abort(handle)
    said = frames(pair.client.data_to_send())
    assert [transfer.state for transfer in said] == [state] * 3
    sender.send(message(bytes(2000)), batchable=True)
    said = frames(pair.client.data_to_send())
    assert [transfer.batchable for transfer in said] == [True, *[None] * (len(said) - 1)]


# ---- the host and limits


def test_calls_after_the_end_raise() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, receiver = pair.sender(ours)
    sender.send(message())
    _, (delivery,) = pair.carry()
    pair.client.close()
    pair.carry()
    for call in (
        lambda: pair.client.receive(b"", 1.0),
        lambda: pair.client.receive_eof(1.0),
        lambda: pair.client.handle_timeout(1.0),
        pair.client.close,
        pair.client.begin,
        pair.client.pause,
        lambda: sender.send(message()),
        sender.detach,
        ours.end,
        lambda: receiver.grant(1),
    ):
        with pytest.raises(LocalProtocolError):
            call()
    pair.server.accept(delivery)  # the host may not have seen the end yet
    assert pair.client.data_to_send() == pair.server.data_to_send() == b""


def test_unsettled_deliveries_are_bounded_in_both_directions() -> None:
    options = ConnectionOptions(unsettled=5, incoming_window=100, idle_timeout=None)
    pair = Pair(options, PLENTY)
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    for _ in range(5):
        sender.send(message())
    with pytest.raises(LocalProtocolError, match="not settled"):
        sender.send(message())
    _, deliveries = pair.carry()
    pair.server.accept(deliveries[0])
    events, _ = pair.carry()
    assert kinds(events) == ["Acknowledged", "WindowOpened"]
    sender.send(message())


def test_bytes_of_unfinished_messages_are_bounded() -> None:
    pair = Pair(server=ConnectionOptions(unfinished_bytes=1000, idle_timeout=None))
    ours, _ = pair.session()
    first, _ = pair.sender(ours, name="1")
    second, _ = pair.sender(ours, name="2")
    first.send(bytes(600), more=True)
    assert pair.carry() == ([], [])
    second.send(bytes(600), more=True)
    _, (gone,) = pair.carry()
    assert gone.link.name == "2"
    assert gone.error.condition == "amqp:resource-limit-exceeded"
    assert pair.server.unfinished == 600


def test_queued_bytes_are_bounded() -> None:
    pair = Pair(ConnectionOptions(pending_bytes=1000, idle_timeout=None))
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    sender.send(message(bytes(900)))
    with pytest.raises(LocalProtocolError, match="queued"):
        sender.send(message(bytes(900)))
    assert sender.credit == 99
    pair.carry()
    sender.send(message(bytes(900)))


def test_attaches_that_wait_are_bounded() -> None:
    pair = Pair(server=ConnectionOptions(undecided=2, idle_timeout=None), accept=False)
    ours, _ = pair.session()
    for n in range(3):
        ours.sender(str(n), "q")
    events, asked = pair.carry()
    assert len(of(asked, Attaching)) == 2
    assert of(events, LinkDetached)[0].error.condition == "amqp:resource-limit-exceeded"


def test_parts_wait_for_the_window_and_go_on() -> None:
    pair = Pair(server=ConnectionOptions(frame_size=512, incoming_window=2, idle_timeout=None))
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    octets = message(bytes(4000)).encode()
    handle = sender.send(octets[:2000], more=True)
    with pytest.raises(LocalProtocolError, match="waits"):
        sender.send_more(handle, octets[2000:], more=False)
    events, _ = pair.carry()
    assert events == [WindowOpened(1, sender)]
    sender.send_more(handle, octets[2000:], more=False)
    _, (delivery,) = pair.carry()
    assert delivery.message == message(bytes(4000))


def test_a_sender_that_overruns_its_credit_may_be_tolerated() -> None:
    pair = Pair(server=ConnectionOptions(overrun=1, idle_timeout=None))
    ours, _ = pair.session()
    pair.sender(ours, credit=1)
    transfers = [amqp10.Transfer(handle=0, delivery_id=n, delivery_tag=b"%d" % n, payload=b"") for n in range(3)]
    assert kinds(pair.tell(*transfers)) == ["Incoming", "Incoming", "LinkDetached"]


def test_a_detach_ends_what_waits_for_the_window() -> None:
    pair = Pair(server=ConnectionOptions(frame_size=512, incoming_window=2, idle_timeout=None))
    for close in ("detach", "end"):
        ours, _ = pair.session()
        sender, _ = pair.sender(ours)
        sender.send(message(bytes(4000)))
        getattr(sender if close == "detach" else ours, close)()
        said = frames(pair.client.data_to_send())
        assert [type(frame).__name__ for frame in said[-3:]] == ["Transfer", "Transfer", close.title()]
        pair.tell(*said)
        pair.carry()
        assert ours.job is None


def test_pause_and_resume() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    sender.send(message())
    pair.server.pause()
    assert not pair.server.wants_read
    data = pair.client.data_to_send()
    assert pair.server.receive(data, 0.0) == []
    assert pair.server.trailing_data == data
    assert kinds(pair.server.resume(0.0)) == ["Incoming"]
    assert pair.server.wants_read


def test_an_end_names_the_handles() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, _ = pair.sender(ours)
    handles = tuple(sender.send(message()) for _ in range(2))
    _, deliveries = pair.carry()
    theirs.end()
    (mine,), (other,) = pair.carry()
    assert (mine.lost, mine.resumable) == (handles, ())
    assert other.returned == tuple(deliveries)
    assert isinstance(mine, SessionEnded)


def test_4_3_what_a_transaction_retires_is_said_before_its_discharge() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, back = pair.receiver(ours, window=5)
    controller, _ = pair.sender(ours, name="controller")
    controller.target = amqp10.Coordinator()
    back.send(message())
    (delivery,), _ = pair.carry()
    pair.client.settle(delivery, amqp10.TransactionalState(txn_id=b"t", outcome=amqp10.Accepted()))
    controller.send(amqp10.Message(body=amqp10.AmqpValue(amqp10.Discharge(txn_id=b"t", fail=False))))
    said = [frame for frame in frames(pair.client.data_to_send()) if not isinstance(frame, amqp10.Flow)]
    assert kinds(said) == ["Disposition", "Transfer"]
    assert receiver.unsettled == {}


def test_2_8_7_a_delivery_tag_may_be_empty() -> None:
    """Artemis gives none to messages that are settled."""
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours)
    transfer = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"", settled=True, payload=message().encode())
    (event,) = pair.tell(transfer)
    assert isinstance(event, Incoming)


@pytest.mark.parametrize("size", [*range(440, 520), *range(900, 1020)])
def test_a_message_takes_no_more_frames_than_it_needs(size: int) -> None:
    """2.7.5: `more` says that the message continues; a transfer that fits into a frame exactly is the last one."""
    pair = Pair(server=ConnectionOptions(idle_timeout=None, frame_size=512))
    session, _ = pair.session()
    link, _ = pair.sender(session)
    link.send(message(bytes(size)))
    sent = frames(pair.client.data_to_send())
    assert all(isinstance(frame, amqp10.Transfer) and frame.payload for frame in sent)
    assert [bool(frame.more) for frame in sent] == [True] * (len(sent) - 1) + [False]
    assert [len(frame.encode()) for frame in sent[:-1]] == [512] * (len(sent) - 1)
