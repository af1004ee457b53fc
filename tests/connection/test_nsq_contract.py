"""NSQ's connections without a network: negotiation, upgrades, flow, time, limits, and the contract of docs/connections.md."""

from __future__ import annotations

from typing import Any

import pytest

from lib.driven import check_idle
from lib.kinds import all_of, checked, exactly, only
from lib.skips import imported
from wirefmt import nsq
from wirefmt.connection import Acknowledged, Connected, Disconnected, StartTls, WindowOpened
from wirefmt.connection.carriers import Deflate
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.nsq.spec import ServerOptions
from wirefmt.nsq.states import State

OK = nsq.Response(b"OK").encode()
BEAT = nsq.Response(b"_heartbeat_").encode()


def flow(client: nsq.ClientConnection, server: nsq.ServerConnection, now: float = 0.0) -> tuple[list[Any], list[Any]]:
    """Carry bytes both ways until there are none: the events of the client, and of the server."""
    of_client: list[Any] = []
    of_server: list[Any] = []
    while True:
        there, back = client.data_to_send(), server.data_to_send()
        if not there and not back:
            return of_client, of_server
        if there:
            of_server += server.receive(there, now)
        if back:
            of_client += client.receive(back, now)


def pair(
    identify: nsq.Identify | None = None, options: nsq.ConnectionOptions | None = None, ready: int = 0
) -> tuple[nsq.ClientConnection, nsq.ServerConnection]:
    """A client and a server after IDENTIFY, and with `ready` also after SUB and RDY."""
    client, server = nsq.ClientConnection(0.0, options=options), nsq.ServerConnection(0.0, options)
    client.send(identify or nsq.Identify(feature_negotiation=True))
    _, (event,) = flow(client, server)
    assert isinstance(server.accept(event)[0], Connected)
    ((connected,), _) = flow(client, server)
    assert isinstance(connected, Connected)
    if ready:
        client.subscribe("t", "c")
        _, (event,) = flow(client, server)
        server.accept(event)
        flow(client, server)
        client.ready(ready)
        _, (opened,) = flow(client, server)
        assert opened == WindowOpened(ready)
    return client, server


def message_id(number: int) -> bytes:
    return b"%016x" % number


def test_both_roles_keep_the_contract() -> None:
    check_idle(*pair())


# ---- negotiation


def test_what_identify_negotiates() -> None:
    options = nsq.ConnectionOptions(server=ServerOptions(max_rdy_count=77, max_msg_timeout=120_000), version="9")
    identify = nsq.Identify(feature_negotiation=True, heartbeat_interval=2000, msg_timeout=5000, sample_rate=7)
    client, server = pair(identify, options)
    for negotiated in (client.negotiated, server.negotiated):
        assert negotiated is not None
        assert (negotiated.heartbeat_interval, negotiated.msg_timeout, negotiated.sample_rate) == (2000, 5000, 7)
        assert (negotiated.max_rdy_count, negotiated.max_msg_timeout) == (77, 120_000)
        assert not (negotiated.tls or negotiated.deflate or negotiated.snappy or negotiated.auth_required)
    assert client.negotiated is not None
    assert dict(client.negotiated.members)["version"] == "9"


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("compression", ["", "deflate", "snappy"])
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_upgrades_are_switched_at_the_right_byte(tls: bool, compression: str, step: int) -> None:
    """Whatever the pieces in which bytes come; TLS is taken to change nothing here, which is what it does to bytes."""
    if compression == "snappy":
        imported("cramjam")
    features: dict[str, Any] = {compression: True} if compression else {}
    client, server = nsq.ClientConnection(0.0), nsq.ServerConnection(0.0, nsq.ConnectionOptions(tls="offered"))
    client.send(nsq.Identify(feature_negotiation=True, tls_v1=tls, **features))
    body = bytes(range(256)) * 300  # more than a snappy chunk
    seen: list[Any] = []

    def turn() -> None:
        for sender, receiver in ((client, server), (server, client)):
            data = sender.data_to_send()
            for at in range(0, len(data), step):
                for event in receiver.receive(data[at : at + step], 0.0):
                    seen.append(event)
                    if isinstance(event, nsq.Identify):
                        server.accept(event)
                    elif isinstance(event, nsq.Sub):
                        server.accept(event)
                        server.ready_count = 5
                        server.deliver(message_id(1), body)
                    elif isinstance(event, nsq.Publish):
                        server.acknowledge(event)
        if tls and client._handshaking:
            client.secured(0.0)
            assert server.secured(0.0)

    for _ in range(6):
        turn()
    assert client.negotiated is not None
    assert server.negotiated is not None
    assert client.negotiated.tls is tls
    assert [getattr(client.negotiated, name) for name in ("deflate", "snappy")] == [
        compression == name for name in ("deflate", "snappy")
    ]
    client.publish("t", body)
    turn()
    assert seen[-1].message.data == b"OK"
    assert [event.body_bytes() for event in seen if isinstance(event, nsq.Publish)] == [body]
    client._most_ready = 5
    client.subscribe("t", "c")
    turn()
    turn()
    assert seen[-1].body_bytes() == body


def test_bytes_that_are_sent_behind_identify_without_waiting_are_thrown_away() -> None:
    """As nsqd does; a command could otherwise be put in front of what TLS protects."""
    for features in ({"deflate": True}, {"tls_v1": True}):
        server = nsq.ServerConnection(0.0, nsq.ConnectionOptions(tls="offered"))
        identify = nsq.Identify(feature_negotiation=True, **features)  # type: ignore[arg-type]
        early = nsq.Publish(topic="t", body=b"early").encode()
        event = only(server.receive(b"  V2" + identify.encode() + early + b"no command", 0.0), nsq.Identify)
        events = server.accept(event)
        if "tls_v1" in features:
            assert events == [StartTls()]
            server.receive(b"garbage", 0.0)
            events = server.secured(0.0)
        assert isinstance(events[0], Connected)
        assert len(events) == 1
        later = nsq.Publish(topic="t", body=b"later").encode()
        publication = only(server.receive(Deflate().send(later) if "deflate" in features else later, 0.0), nsq.Publish)
        assert publication.body_bytes() == b"later"


def test_commands_behind_an_identify_without_upgrade_are_read() -> None:
    server = nsq.ServerConnection(0.0)
    early = nsq.Publish(topic="t", body=b"early").encode()
    event = only(server.receive(b"  V2" + nsq.Identify().encode() + early, 0.0), nsq.Identify)
    assert not server.wants_read
    _, publication = exactly(server.accept(event), Connected, nsq.Publish)
    assert publication.body_bytes() == b"early"


def test_tls_that_fails_is_told_without_tls() -> None:
    server = nsq.ServerConnection(0.0, nsq.ConnectionOptions(tls="offered"))
    event = only(
        server.receive(b"  V2" + nsq.Identify(feature_negotiation=True, tls_v1=True).encode(), 0.0), nsq.Identify
    )
    server.accept(event)
    server.data_to_send()
    gone = only(server.tls_failed("no handshake"), Disconnected)
    assert gone.code == "E_IDENTIFY_FAILED"
    assert b"E_IDENTIFY_FAILED" in server.data_to_send()


def test_a_server_that_requires_tls_takes_nothing_else_before() -> None:
    options = nsq.ConnectionOptions(tls="required")
    for command, name in ((nsq.Nop(), "NOP"), (nsq.Publish(topic="t", body=b"x"), "PUB")):
        server = nsq.ServerConnection(0.0, options)
        gone = only(server.receive(b"  V2" + command.encode(), 0.0), Disconnected)
        assert gone.code == "E_INVALID"
        error = nsq.decode(server.data_to_send(), side="server")
        assert isinstance(error, nsq.Error)
        assert error.text == f"cannot {name} in current state (TLS required)"


@pytest.mark.parametrize("said", [{"tls_v1": True}, {"deflate": True}, {"snappy": True}])
def test_a_client_takes_no_upgrade_that_it_has_not_asked_for(said: dict[str, bool]) -> None:
    client = nsq.ClientConnection(0.0)
    client.send(nsq.Identify(feature_negotiation=True))
    gone = only(client.receive(nsq.Response(members=said).encode(), 0.0), Disconnected)
    assert isinstance(gone.error, RemoteProtocolError)


def test_identify_may_be_said_again_before_sub() -> None:
    client, server = pair()
    client.send(nsq.Identify(feature_negotiation=True, msg_timeout=3000))
    _, (event,) = flow(client, server)
    server.accept(event)
    flow(client, server)
    assert client.negotiated is not None
    assert client.negotiated.msg_timeout == 3000


# ---- AUTH


def test_auth() -> None:
    client, server = pair(options=nsq.ConnectionOptions(auth_required=True))
    with pytest.raises(LocalProtocolError) as refused:
        client.publish("t", b"x")
    assert refused.value.reply == "E_AUTH_FIRST"
    handle = client.send(nsq.Auth(secret=b"s"))
    _, (event,) = flow(client, server)
    assert event.secret == b"s"
    server.accept(event, identity="i", permission_count=1)
    ((acknowledged,), _) = flow(client, server)
    assert acknowledged.handle is handle
    assert dict(acknowledged.message.members) == {"identity": "i", "identity_url": "", "permission_count": 1}
    client.publish("t", b"x")
    _, (publication,) = flow(client, server)
    assert publication.body_bytes() == b"x"


@pytest.mark.parametrize(
    ("options", "data", "code"),
    [
        ({"auth_required": True}, b"PUB t\n\0\0\0\1x", "E_AUTH_FIRST"),
        ({"auth_required": True}, b"SUB t c\n", "E_AUTH_FIRST"),
        ({}, b"AUTH\n\0\0\0\1s", "E_AUTH_DISABLED"),
        ({}, b'IDENTIFY\n\0\0\0\x19{"heartbeat_interval":-1}', None),
        ({}, b"PUB bad$topic\n\0\0\0\1x", "E_BAD_TOPIC"),
        ({}, b"MPUB t\n\0\0\0\4\0\0\0\0", "E_BAD_BODY"),
        ({}, b"PUB t\n\0\0\0\0", "E_BAD_MESSAGE"),
        ({}, b"nop\n", "E_INVALID"),
        ({}, b"RDY 1\n", "E_INVALID"),
        ({}, b"x" * 20_000, None),
    ],
)
def test_what_a_server_answers_as_nsqd_does(options: dict[str, Any], data: bytes, code: str | None) -> None:
    server = nsq.ServerConnection(0.0, nsq.ConnectionOptions(**options))
    events = server.receive(b"  V2" + data, 0.0)
    if isinstance(events[0], nsq.Identify):
        server.accept(events[0])
        events = server.receive(b"SUB t c\n", 0.0)
        assert server.data_to_send().endswith(b"E_INVALID cannot SUB with heartbeats disabled")
    else:
        assert (b"%b" % (code or "").encode()) in server.data_to_send()
        assert checked(events[-1], Disconnected).code == code
    assert isinstance(events[-1], Disconnected)


def test_wrong_first_bytes_are_answered_by_the_code_alone() -> None:
    server = nsq.ServerConnection(0.0)
    gone = only(server.receive(b"GET ", 0.0), Disconnected)
    assert server.data_to_send() == nsq.Error(b"E_BAD_PROTOCOL").encode()
    assert isinstance(gone.error, DecodeError)


# ---- publishing


def test_answers_leave_in_the_order_of_the_commands() -> None:
    client, server = pair()
    handles = [client.publish("t", b"%d" % n) for n in range(3)]
    _, events = flow(client, server)
    assert server.undecided == 3
    server.acknowledge(events[2])
    server.acknowledge(events[1])
    assert flow(client, server) == ([], [])
    server.acknowledge(events[0])
    acknowledged, _ = flow(client, server)
    assert [event.handle for event in acknowledged] == handles
    with pytest.raises(LocalProtocolError):
        server.acknowledge(events[0])


def test_a_refusal_waits_for_the_answers_before_it_and_names_its_command() -> None:
    client, server = pair()
    handles = [client.publish("t", b"%d" % n) for n in range(3)]
    _, (first, second, third) = flow(client, server)
    assert server.refuse(second, "E_PUB_FAILED", "topic is exiting") == []
    assert flow(client, server) == ([], [])
    gone = only(server.acknowledge(first), Disconnected)
    assert gone.code == "E_PUB_FAILED"
    (one, two, last), _ = flow_to(client, server)
    assert (one.handle, one.message.data) == (handles[0], b"OK")
    assert (two.handle, two.message.code) == (handles[1], "E_PUB_FAILED")
    assert last.code == "E_PUB_FAILED"
    assert last.lost == (handles[2],)
    with pytest.raises(LocalProtocolError):
        server.acknowledge(third)


def flow_to(client: nsq.ClientConnection, server: nsq.ServerConnection) -> tuple[list[Any], None]:
    return client.receive(server.data_to_send(), 0.0), None


def test_a_fault_waits_for_the_answers_before_it() -> None:
    server = nsq.ServerConnection(0.0)
    good = nsq.Publish(topic="t", body=b"x").encode()
    one = only(server.receive(b"  V2" + good + b"what\n" + good, 0.0), nsq.Publish)
    assert not server.wants_read
    gone = only(server.acknowledge(one), Disconnected)
    assert gone.code == "E_INVALID"
    assert server.data_to_send().startswith(OK)


def test_undecided_commands_are_bounded() -> None:
    for options, most in ((nsq.ConnectionOptions(undecided=5), 5), (nsq.ConnectionOptions(undecided_bytes=60), 3)):
        server = nsq.ServerConnection(0.0, options)
        data = nsq.Publish(topic="t", body=b"0123456789").encode()
        events = server.receive(b"  V2", 0.0)
        for _ in range(20):
            events += server.receive(data, 0.0)
        assert len(events) == most
        assert not server.wants_read
        assert server.undecided == most
        count = len(events)
        while events:
            more = server.acknowledge(checked(events.pop(0), nsq.Publish))
            events += more
            count += len(more)
        assert count == 20
        assert server.data_to_send() == OK * 20


def test_bytes_kept_while_the_host_decides_are_bounded() -> None:
    server = nsq.ServerConnection(0.0, nsq.ConnectionOptions(unread_bytes=1000))
    server.receive(b"  V2" + nsq.Identify().encode(), 0.0)
    assert server.receive(bytes(900), 0.0) == []
    gone = only(server.receive(bytes(200), 0.0), Disconnected)
    assert isinstance(gone.error, RemoteProtocolError)


def test_unanswered_commands_are_bounded() -> None:
    client, server = pair(options=nsq.ConnectionOptions(unanswered=2))
    client.publish("t", b"x")
    client.publish_many("t", [b"x", b"y"])
    assert client.send_quota == 0
    with pytest.raises(LocalProtocolError):
        client.publish("t", b"x", defer=5)
    _, events = flow(client, server)
    server.acknowledge(events[0])
    (acknowledged, opened), _ = flow(client, server)
    assert isinstance(acknowledged, Acknowledged)
    assert opened == WindowOpened(1)


def test_a_peer_that_does_not_read_is_given_up() -> None:
    server = nsq.ServerConnection(0.0, nsq.ConnectionOptions(pending_bytes=1000))
    sub = only(server.receive(b"  V2SUB t c\n", 0.0), nsq.Sub)
    server.accept(sub)
    flood = nsq.Finish(message_id=b"x" * 16).encode() * 10_000
    while server.state is not State.CLOSED:
        server.receive(flood, 0.0)
        assert server.pending_bytes < 1000 + (1 << 20) + 100 * 10_000
    assert server.pending_bytes


# ---- messages


def test_ready_is_a_window() -> None:
    client, server = pair(ready=2)
    first, second = server.deliver(message_id(1), b"1"), server.deliver(message_id(2), b"2", 5, 3)
    with pytest.raises(LocalProtocolError, match="no space"):
        server.deliver(message_id(3), b"3")
    (one, two), _ = flow(client, server)
    assert (two.body_bytes(), two.timestamp, two.attempts) == (b"2", 5, 3)
    assert client.undecided == 2
    client.finish(one)
    client.requeue(two, 10)
    _, events = flow(client, server)
    assert [type(event) for event in events] == [Acknowledged, WindowOpened, nsq.Requeued]
    assert (events[0].handle, events[2].handle, events[2].delay) == (first, second, 10)
    assert server.send_quota == 2
    for answer in (client.finish, client.requeue, client.touch):
        with pytest.raises(LocalProtocolError, match="does not wait"):
            answer(one)
    client.ready(0)
    flow(client, server)
    with pytest.raises(LocalProtocolError, match="no space"):
        server.deliver(message_id(3), b"3")


def test_a_delay_above_the_server_s_limit_is_reduced() -> None:
    client, server = pair(ready=1)
    server.deliver(message_id(1), b"1")
    (message,), _ = flow(client, server)
    client.requeue(message, 10**9)
    _, (requeued, _) = flow(client, server)
    assert requeued.delay == 3_600_000


def test_time_in_flight_touch_and_its_limit() -> None:
    options = nsq.ConnectionOptions(server=ServerOptions(max_msg_timeout=4000))
    client, server = pair(nsq.Identify(feature_negotiation=True, msg_timeout=2000), options, ready=5)
    one, two = server.deliver(message_id(1), b"1"), server.deliver(message_id(2), b"2")
    assert server.next_timeout() == 0.0  # time is asked for
    assert server.handle_timeout(10.0) == []
    (first, second), _ = flow(client, server, 10.0)
    for now in (11.5, 13.0):
        client.touch(first)
        _, events = flow(client, server, now)
        assert events == []
        if now == 11.5:
            assert server.handle_timeout(12.1)[0] == nsq.TimedOut(two)
            assert client.handle_timeout(12.1) == [nsq.TimedOut(second)]
    with pytest.raises(LocalProtocolError):
        client.finish(second)
    assert server.handle_timeout(13.9) == []
    assert server.handle_timeout(14.1)[0] == nsq.TimedOut(one)  # not 15: max_msg_timeout
    assert server.in_flight == 0


def test_an_answer_that_comes_too_late_is_no_fault() -> None:
    client, server = pair(nsq.Identify(feature_negotiation=True, msg_timeout=2000), ready=5)
    server.deliver(message_id(1), b"1")
    server.handle_timeout(0.0)
    (message,), _ = flow(client, server, 1.0)
    assert [type(event) for event in server.handle_timeout(2.5)] == [nsq.TimedOut]
    client.finish(message)
    events, _ = flow(client, server, 2.6)
    errors = [event for event in events if isinstance(event, nsq.Error)]
    assert [error.data for error in errors] == [b"E_FIN_FAILED FIN 0000000000000001 failed ID not in flight"]
    assert client.failures == 1
    assert client.state is State.SUBSCRIBED


def test_a_message_beyond_ready_tells_that_the_oldest_has_timed_out() -> None:
    client, _ = pair(ready=2)
    frames = [nsq.MessageFrame(timestamp=1, attempts=1, message_id=message_id(n), body=b"x").encode() for n in range(3)]
    first, second, over, third = exactly(
        client.receive(b"".join(frames), 0.0), nsq.MessageFrame, nsq.MessageFrame, nsq.TimedOut, nsq.MessageFrame
    )
    assert over == nsq.TimedOut(first)
    assert client.undecided == 2
    again, _ = client.receive(frames[1], 0.0)
    assert again == nsq.TimedOut(second)
    assert third.message_id == message_id(2)


def test_cls_finishes_what_is_in_flight() -> None:
    client, server = pair(ready=2)
    delivery = server.deliver(message_id(1), b"1")
    handle = client.send(nsq.Close())
    (message, acknowledged), (close,) = flow(client, server)
    assert isinstance(close, nsq.Close)
    assert (acknowledged.handle, acknowledged.message.data) == (handle, b"CLOSE_WAIT")
    with pytest.raises(LocalProtocolError):
        server.deliver(message_id(2), b"2")
    client.finish(message)
    _, (event,) = flow(client, server)
    assert event.handle is delivery
    client.close()
    assert client.should_close


def test_messages_in_flight_are_lost_with_the_connection() -> None:
    client, server = pair(ready=2)
    delivery = server.deliver(message_id(1), b"1")
    gone = only(server.receive_eof(1.0), Disconnected)
    assert (gone.by, gone.lost) == ("transport", (delivery,))
    handle = client.publish("t", b"x")
    gone = only(client.close(immediate=True), Disconnected)
    assert gone.lost == (handle,)
    assert client.data_to_send() == b""


# ---- time


def test_heartbeats() -> None:
    client, server = pair(nsq.Identify(feature_negotiation=True, heartbeat_interval=1000))
    for now in (0.0, 1.0, 2.0, 3.0):
        server.handle_timeout(now)
        client.handle_timeout(now)
        data = server.data_to_send()
        assert data == (BEAT if now else b"")
        client.receive(data, now)
        server.receive(client.data_to_send(), now)
    assert server.state is State.INIT
    server.handle_timeout(4.0)
    gone = only(server.handle_timeout(5.5), Disconnected)
    assert "two heartbeat intervals" in gone.reason
    gone = only(client.handle_timeout(5.5), Disconnected)
    assert gone.by == "local"


def test_a_client_that_does_not_read_says_nop_by_itself() -> None:
    client, _ = pair(nsq.Identify(feature_negotiation=True, heartbeat_interval=1000))
    client.handle_timeout(0.0)
    client.pause()
    sent = b""
    for now in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        assert client.handle_timeout(now) == []
        sent += client.data_to_send()
    assert sent.count(b"NOP\n") >= 2


def test_a_server_waits_for_a_command_only_so_long() -> None:
    server = nsq.ServerConnection(0.0)
    assert server.handle_timeout(0.0) == []
    gone = only(server.handle_timeout(60.5), Disconnected)
    assert gone.reason == "no command has arrived in time"


def test_a_client_waits_for_an_answer_only_so_long() -> None:
    client = nsq.ClientConnection(0.0)
    client.send(nsq.Identify())
    client.handle_timeout(0.0)
    gone = only(client.handle_timeout(31.0), Disconnected)
    assert gone.reason == "the server has not answered in time"


# ---- sessions


def test_a_session_sends_again_what_was_not_answered() -> None:
    session = nsq.Session(journaled=True)
    client = nsq.ClientConnection(0.0, session)
    client.send(nsq.Identify())
    client.receive(OK, 0.0)
    handles = [client.publish("t", b"%d" % n) for n in range(3)]
    client.receive(OK, 0.0)
    gone = only(client.receive_eof(1.0), Disconnected)
    assert gone.resumable == tuple(handles[1:])
    for other in (
        session,
        nsq.Session.restore(session.snapshot()),
        nsq.Session.replay(session.changes()),
    ):
        again = nsq.ClientConnection(0.0, other)
        with pytest.raises(LocalProtocolError):
            nsq.ClientConnection(0.0, other)
        again.send(nsq.Identify())
        again.data_to_send()
        again.receive(OK, 0.0)
        sent = nsq.Decoder(side="client").feed(again.data_to_send())
        assert [command.body_bytes() for command in sent] == [b"1", b"2"]  # type: ignore[attr-defined]
        later = again.publish("t", b"3")
        assert later.number == 4
        events = again.receive(OK * 3, 0.0)
        assert [event.handle.number for event in all_of(events, Acknowledged)] == [2, 3, 4]
        assert not other.pending
    for wrong in (b"", b"wirefmt nsq session 1\0" + bytes(15), b"wirefmt nsq session 1\0" + bytes(16)):
        with pytest.raises(DecodeError):
            nsq.Session.restore(wrong)


# ---- pause, large bodies, the end


def test_pause_stops_between_two_commands() -> None:
    _, server = pair()
    server.pause()
    data = nsq.Publish(topic="t", body=b"1").encode() + nsq.Publish(topic="t", body=b"2").encode()
    assert server.receive(data[:3], 0.0) == []
    assert server.trailing_data == data[:3]
    assert server.receive(data[3:-1], 0.0) == []
    one = only(server.resume(0.0), nsq.Publish)
    two = only(server.receive(data[-1:], 0.0), nsq.Publish)
    assert [one.body_bytes(), two.body_bytes()] == [b"1", b"2"]


def test_the_end_of_the_stream_waits_for_what_was_not_read() -> None:
    _, server = pair()
    server.pause()
    server.receive(nsq.Publish(topic="t", body=b"1").encode(), 0.0)
    assert server.receive_eof(0.0) == []
    message, gone = exactly(server.resume(0.0), nsq.Publish, Disconnected)
    assert message.body_bytes() == b"1"
    assert (gone.by, gone.reason) == ("transport", "the stream ended")


def test_large_bodies_are_not_copied() -> None:
    _, server = pair(ready=1)
    body = bytes(100_000)
    server.deliver(message_id(1), body)
    buffers = server.buffers_to_send()
    assert buffers[1] is body


def test_a_stream_that_grows_when_it_is_unpacked_is_read_in_pieces() -> None:
    """A server reads compressed bytes only as far as the host has space for commands."""
    options = nsq.ConnectionOptions(undecided=4, server=ServerOptions())
    client, server = pair(nsq.Identify(feature_negotiation=True, deflate=True), options)
    body = bytes(1 << 20)
    handles = [client.publish("t", body) for _ in range(20)]
    data = client.data_to_send()
    assert len(data) < 100_000
    events = server.receive(data, 0.0)
    assert len(events) == 4
    assert not server.wants_read
    count = 0
    while events:
        event = checked(events.pop(0), nsq.Publish)
        count += event.body_bytes() == body
        events += server.acknowledge(event)
    assert count == len(handles)


def turns(connection: Any) -> list[list[Any]]:
    """The events of each turn that a connection has left to do."""
    seen: list[list[Any]] = []
    while not connection.wants_read:
        now = connection.next_timeout()
        assert now == 0.0  # now
        seen.append(connection.handle_timeout(now))
    return seen


@pytest.mark.parametrize("compression", ["deflate", "snappy"])
def test_what_inflates_is_worked_off_in_turns(compression: str) -> None:
    """A client is sent heartbeats that inflate a hundredfold and more: each call reads a bounded number of them."""
    if compression == "snappy":
        imported("cramjam")
    features: dict[str, Any] = {compression: True}
    client, server = pair(nsq.Identify(feature_negotiation=True, **features))
    assert server._carrier is not None
    data = server._carrier.send(BEAT * 40_000)
    assert len(data) < len(BEAT) * 40_000 / 10
    answered = []
    assert client.receive(data, 0.0) == []
    answered.append(client.data_to_send())
    while not client.wants_read:
        assert client.next_timeout() == 0.0
        assert client.handle_timeout(0.0) == []
        answered.append(client.data_to_send())
    assert len(answered) > 3
    beats = [len(server.receive(answer, 0.0)) for answer in answered]
    assert beats == [0] * len(answered)
    server._outbox.put(nsq.Error(b"E_FIN_FAILED FIN failed").encode())
    assert [type(event) for event in client.receive(server.data_to_send(), 0.0)] == [nsq.Error]


def test_a_server_works_off_what_inflates_in_turns() -> None:
    """Also before SUB and AUTH, when it reads one command at a time; and without a compression."""
    client, server = pair(nsq.Identify(feature_negotiation=True, deflate=True))
    data = b"NOP\n" * 30_000 + b"PUB t\n\0\0\0\1x"
    for least in (6, 1):
        assert client._carrier is not None
        assert server.receive(client._carrier.send(data), 0.0) == []
        seen = turns(server)
        assert len(seen) >= least
        assert [event.topic for events in seen for event in events] == ["t"]
        server.acknowledge(seen[-1][0])
    plain = pair()[1]
    assert plain.receive(data, 0.0) == []
    assert [event.topic for events in turns(plain) for event in events] == ["t"]


def test_what_a_turn_has_left_keeps_to_pause_limits_and_the_end() -> None:
    def left(**options: Any) -> tuple[nsq.ClientConnection, nsq.ServerConnection]:
        client, server = pair(nsq.Identify(feature_negotiation=True, deflate=True), nsq.ConnectionOptions(**options))
        assert client._carrier is not None
        assert server.receive(client._carrier.send(b"NOP\n" * 30_000 + b"PUB t\n\0\0\0\1x"), 0.0) == []
        assert not server.wants_read
        return client, server

    _, server = left()
    server.pause()
    assert server.handle_timeout(0.0) == []
    assert server.next_timeout() != 0.0  # nothing goes on before `resume`
    assert not server.wants_read
    events = server.resume(0.0)
    assert [event.topic for event in events + [e for each in turns(server) for e in each]] == ["t"]

    _, server = left()
    assert server.receive_eof(0.0) == []  # what has arrived is read first
    events = []
    while not any(isinstance(event, Disconnected) for event in events):
        events += server.handle_timeout(0.0)
    assert [type(event) for event in events] == [nsq.Publish, Disconnected]

    client, server = left(unread_bytes=1000)  # a host that reads on meets the limit
    assert client._carrier is not None
    gone = only(server.receive(client._carrier.send(bytes(range(256)) * 8), 0.0), Disconnected)
    assert gone.reason == "more bytes than are kept while the host decides"


def test_touch_of_the_connection() -> None:
    """At half of each message's timeout, counted from its delivery or its last TOUCH, up to max_msg_timeout."""
    options = nsq.ConnectionOptions(server=ServerOptions(max_msg_timeout=5000), touch=True)
    client, server = pair(nsq.Identify(feature_negotiation=True, msg_timeout=2000), options, ready=5)
    sent = {}
    for number, now in ((1, 10.0), (2, 10.4), (3, 10.5)):
        sent[number] = server.deliver(message_id(number), b"x")
        server.handle_timeout(now)
        flow(client, server, now)
    (third,) = [message for message in client.messages() if message.message_id == message_id(3)]
    touched: list[tuple[float, bytes | None]] = []
    over: list[Any] = []
    while (when := client.next_timeout()) is not None and when < 16.0:
        now = when
        over += client.handle_timeout(now)
        data = client.data_to_send()
        touched += [
            (now, command.message_id)
            for command in all_of(nsq.Decoder(side="client", magic=False).feed(data), nsq.Touch)
        ]
        assert server.receive(data, now) == []
        if now == 11.5:
            client.finish(third)
            flow(client, server, now)
    one, two = message_id(1), message_id(2)
    times = [(round(now, 6), name) for now, name in touched]
    # both reach their end, 5 s after the delivery, by the last of these
    assert times == [
        *((11.0, one), (11.4, two), (11.5, message_id(3)), (12.0, one), (12.4, two), (13.0, one), (13.4, two)),
    ]
    assert [event.handle.message_id for event in over] == [one, two]
    assert client.undecided == 0


def test_an_invalid_deferred_publish_is_not_sent_again() -> None:
    """E_INVALID ends the connection, as nsqd says it of `DPUB t 3600001`; the next connection must not repeat it."""
    session = nsq.Session()
    client = nsq.ClientConnection(0.0, session)
    client.send(nsq.Identify(feature_negotiation=True))
    client.receive(OK, 0.0)
    wrong, other = client.publish("t", b"x", defer=3_600_001), client.publish("t", b"y")
    events = client.receive(nsq.Error(b"E_INVALID DPUB timeout 3600001 out of range 0-3600000").encode(), 0.0)
    assert [type(event) for event in events] == [Acknowledged, Disconnected]
    assert checked(events[0], Acknowledged).handle is wrong
    assert checked(events[1], Disconnected).resumable == (other,)
    client = nsq.ClientConnection(0.0, session)
    client.send(nsq.Identify(feature_negotiation=True))
    client.receive(OK, 0.0)
    events = client.receive(nsq.Error(b"E_INVALID cannot NOP in current state").encode(), 0.0)
    assert [type(event) for event in events] == [Disconnected]
    assert list(session.pending.values()) == [other]


#: What nsqd says, and whether it then closes the connection (nsqd 1.3.0).
CODES = {
    **dict.fromkeys(("E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED"), False),
    **dict.fromkeys(
        (
            *("E_INVALID", "E_BAD_PROTOCOL", "E_BAD_TOPIC", "E_BAD_CHANNEL", "E_BAD_BODY", "E_BAD_MESSAGE"),
            *("E_IDENTIFY_FAILED", "E_SUB_FAILED", "E_PUB_FAILED", "E_MPUB_FAILED", "E_DPUB_FAILED"),
            *("E_AUTH_DISABLED", "E_AUTH_FAILED", "E_UNAUTHORIZED", "E_AUTH_FIRST", "E_AUTH_ERROR"),
        ),
        True,
    ),
}


@pytest.mark.parametrize("code", CODES)
def test_which_errors_end_a_client(code: str) -> None:
    client, server = pair(ready=2)
    server.deliver(message_id(1), b"x")
    ((message,), _) = flow(client, server)
    events = client.receive(nsq.Error(b"%b FIN %b failed" % (code.encode(), message_id(9))).encode(), 0.0)
    if CODES[code]:
        assert [type(event) for event in events] == [Disconnected]
        assert (checked(events[0], Disconnected).by, checked(events[0], Disconnected).code) == ("peer", code)
    else:
        assert [type(event) for event in events] == [nsq.Error]
        assert client.failures == 1
        client.finish(message)
