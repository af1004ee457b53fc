"""The contract of docs/connections.md on RocketMQ's connections: requests and their outcomes, limits, times, signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lib.driven import check_idle
from lib.rocketmq_vectors import Vector, of
from wirefmt import rocketmq
from wirefmt.connection import Acknowledged, Connected, Disconnected
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.rocketmq import (
    ClientConnection,
    ConnectionOptions,
    Credentials,
    RemotingCommand,
    ServerConnection,
    State,
    TimedOut,
)


def pair(client: ConnectionOptions | None = None, server: ConnectionOptions | None = None) -> tuple[Any, Any]:
    """A client and a server that have spoken."""
    ours, theirs = ClientConnection(0.0, client), ServerConnection(0.0, server)
    ours.request(105)
    _, request = theirs.receive(ours.data_to_send(), 0.0)
    theirs.respond(request)
    connected, answer = ours.receive(theirs.data_to_send(), 0.0)
    assert isinstance(connected, Connected)
    assert isinstance(answer, Acknowledged)
    return ours, theirs


def commands(data: bytes) -> list[RemotingCommand]:
    return list(rocketmq.Decoder().feed(data))


def test_both_roles_keep_the_contract() -> None:
    check_idle(*pair())


@pytest.mark.parametrize("back", [False, True])
def test_requests_are_matched_by_opaque_in_both_directions(back: bool) -> None:
    asking, answering = reversed(pair()) if back else pair()
    handles = [asking.request(38, ext_fields={"n": str(n)}, now=1.0) for n in range(5)]
    assert asking.request(40, oneway=True) is None
    events = answering.receive(asking.data_to_send(), 1.0)
    assert answering.undecided == 5
    for event in reversed(events[:5]):
        answering.respond(event, 1, remark=event.ext_fields["n"], body=b"body")
    assert answering.undecided == 0
    outcomes = asking.receive(answering.data_to_send(), 1.0)
    assert [o.handle for o in outcomes] == handles[::-1]
    assert [o.message.remark for o in outcomes] == ["4", "3", "2", "1", "0"]
    assert {(o.code, bytes(o.message.body)) for o in outcomes} == {(1, b"body")}
    assert [h.number for h in handles] == list(range(handles[0].number, handles[0].number + 5))
    assert asking.pending == 0
    with pytest.raises(LocalProtocolError, match="does not wait"):
        answering.respond(events[0])
    with pytest.raises(LocalProtocolError, match="does not wait"):
        answering.respond(events[5])  # one-way


def test_equal_requests_are_told_apart() -> None:
    _, server = pair()
    frame = RemotingCommand(code=38, opaque=7).encode()
    one, two = server.receive(frame + frame, 0.0)
    assert one == two
    server.respond(two, 2)
    assert server.undecided == 1
    with pytest.raises(LocalProtocolError):
        server.respond(two)
    server.respond(one, 1)
    assert [c.code for c in commands(server.data_to_send())] == [2, 1]


def test_a_request_without_an_opaque_is_answered_without_one() -> None:
    _, server = pair()
    (event,) = server.receive(RemotingCommand(code=38, opaque=None).encode(), 0.0)
    server.respond(event)
    (answer,) = commands(server.data_to_send())
    assert answer.opaque is None


def test_every_request_has_one_outcome() -> None:
    client, server = pair()
    answered, late, cancelled, lost = (
        client.request(n, timeout=t, now=10.0) for n, t in ((1, 9), (2, 1), (3, 9), (4, 9))
    )
    one, two, three, _ = server.receive(client.data_to_send(), 10.0)
    assert client.next_timeout() == 11.0
    assert client.handle_timeout(10.9) == []
    assert client.handle_timeout(11.0) == [TimedOut(late)]
    client.cancel(cancelled)
    client.cancel(cancelled)
    for event in (one, two, three):
        server.respond(event)
    data = server.data_to_send()
    (outcome,) = client.receive(data, 11.0)
    assert outcome.handle is answered
    assert (client.late, client.strays) == (2, 0)
    client.receive(data, 11.0)
    assert (client.late, client.strays) == (2, 3)
    (gone,) = client.receive_eof(12.0)
    assert gone.lost == (lost,)
    assert gone.by == "transport"
    calls: list[Callable[[], object]] = [
        lambda: client.request(1), lambda: client.receive(b"", 1.0), lambda: client.cancel(lost),
        lambda: client.handle_timeout(99.0), lambda: client.close(),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(LocalProtocolError):
            call()


def test_a_request_sent_without_the_time_begins_with_the_next_call() -> None:
    client, _ = pair()
    handle = client.request(1, timeout=2.0)
    assert (handle.deadline, client.next_timeout()) == (None, 0.0)
    assert client.handle_timeout(5.0) == []
    assert (handle.deadline, client.next_timeout()) == (7.0, 7.0)
    client.request(1, timeout=1.0, now=5.5)
    assert client.next_timeout() == 6.5
    assert [e.handle.timeout for e in client.handle_timeout(8.0)] == [1.0, 2.0]
    assert client.next_timeout() is None


def test_times_of_answered_requests_are_forgotten() -> None:
    client, server = pair()
    for round_ in range(40):
        for _ in range(100):
            client.request(1, timeout=1000.0, now=float(round_))
        for event in server.receive(client.data_to_send(), 0.0):
            server.respond(event)
        client.receive(server.data_to_send(), float(round_))
    assert client.pending == 0
    assert len(client._begun) < 1500
    assert client.next_timeout() is None


def test_opaques_go_round_and_skip_those_in_use() -> None:
    client, _ = pair()
    kept = client.request(1, now=0.0)
    client._opaque = 0x7FFFFFFE
    opaques = [client.request(1, now=0.0).opaque for _ in range(3)]
    assert opaques == [0x7FFFFFFF, 0, 1]
    assert kept.opaque == 2
    assert client.request(1, now=0.0).opaque == 3
    client.cancel(kept)
    client._opaque = 1
    assert client.request(1, now=0.0).opaque == 4  # a late response may still come for 2


def test_limits_of_sending() -> None:
    client, _ = pair(ConnectionOptions(pending=2, pending_bytes=1000))
    client.request(1, body=bytes(5000))  # one always goes
    with pytest.raises(LocalProtocolError, match="queued"):
        client.request(1)
    client.data_to_send()
    client.request(1)
    before = (client.pending, client.pending_bytes, client._opaque)
    with pytest.raises(LocalProtocolError, match="wait for their responses"):
        client.request(1)
    assert client.request(1, oneway=True) is None
    assert (client.pending, client._opaque) == (2, before[2] + 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"code": 1 << 40},
        {"code": "x"},
        {"code": 1, "body": "text"},
        {"code": 1, "timeout": 0},
        {"code": 1, "ext_fields": {1: 2}},
        {"code": 1, "body": bytes(1 << 24)},
    ],
)
def test_what_cannot_be_sent_changes_nothing(wrong: dict[str, Any]) -> None:
    client, server = pair()
    before = (client.pending, client.pending_bytes, client._opaque)
    with pytest.raises(LocalProtocolError):
        client.request(**wrong)
    assert (client.pending, client.pending_bytes, client._opaque) == before
    client.request(1)
    (event,) = server.receive(client.data_to_send(), 0.0)
    if "timeout" not in wrong:
        with pytest.raises(LocalProtocolError):
            server.respond(event, **wrong)
        assert (server.undecided, server.pending_bytes) == (1, 0)
    for nothing in (None, b"", 5):
        with pytest.raises(LocalProtocolError):
            client.send(nothing)


def test_reading_stops_at_the_limit_of_undecided_requests() -> None:
    _, server = pair(server=ConnectionOptions(undecided=2, unread_bytes=500))
    frame = RemotingCommand(code=38, opaque=7).encode()
    one, two = server.receive(frame * 3 + frame[:5], 0.0)
    assert not server.wants_read
    assert server.receive(frame[5:], 0.0) == []
    assert server.receive_eof(0.0) == []
    (three,) = server.respond(one)
    four, gone = server.ignore(two)  # all has been read, and so the end of the stream has arrived
    assert len(commands(server.data_to_send())) == 1
    assert (three, four) == (one, one)
    assert gone.by == "transport"
    with pytest.raises(LocalProtocolError, match="over"):
        server.respond(four)


def test_bytes_kept_while_reading_has_stopped_are_bounded() -> None:
    _, server = pair(server=ConnectionOptions(undecided=1, unread_bytes=500))
    frame = RemotingCommand(code=38, opaque=7).encode()
    server.receive(frame, 0.0)
    for _ in range(500 // len(frame)):
        assert server.receive(frame, 0.0) == []
    (gone,) = server.receive(frame, 0.0)
    assert isinstance(gone.error, RemoteProtocolError)


def test_pause_stops_between_two_commands_and_resume_goes_on() -> None:
    _, server = pair()
    frame = RemotingCommand(code=40, flag=2, opaque=1).encode()
    server.pause()
    assert not server.wants_read
    assert server.receive(frame[:3], 0.0) == []
    assert server.trailing_data == frame[:3]
    assert server.receive(frame[3:], 0.0) == []
    assert server.receive_eof(0.0) == []
    command, gone = server.resume(0.0)
    assert command.code == 40
    assert gone.by == "transport"
    fresh = ServerConnection(0.0, ConnectionOptions(tls="permissive"))
    fresh.pause()
    assert fresh.receive(b"\x16\x03", 0.0) == []
    assert fresh.trailing_data == b"\x16\x03"
    assert len(fresh.resume(0.0)) == 1
    assert fresh.trailing_data == b"\x16\x03"


def test_a_faulty_frame_ends_the_connection_after_what_came_before_it() -> None:
    """Without a word, as real servers do (section 1)."""
    for fault in (
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x03",
        b"\x00\x00\x00\x08\x02\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\x00\x00\x09",
    ):
        _, server = pair()
        request, gone = server.receive(RemotingCommand(code=38, opaque=7).encode() + fault + bytes(8), 0.0)
        assert request.code == 38
        assert isinstance(gone.error, DecodeError)
        assert server.data_to_send() == b""
        assert server.should_close


def test_frames_are_bounded_by_the_option() -> None:
    _, server = pair(server=ConnectionOptions(frame_size=1000))
    (gone,) = server.receive((997).to_bytes(4), 0.0)
    assert isinstance(gone.error, DecodeError)
    _, server = pair(server=ConnectionOptions(frame_size=1000))
    assert server.receive((996).to_bytes(4), 0.0) == []


def test_a_peer_that_does_not_take_its_responses_is_given_up() -> None:
    _, server = pair(server=ConnectionOptions(pending_bytes=1000))
    body = bytes(400_000)
    for _ in range(10):
        (event,) = server.receive(RemotingCommand(code=11, opaque=1).encode(), 0.0)
        events = server.respond(event, body=body)
        if events:
            break
    assert isinstance(events[0].error, RemoteProtocolError)
    assert server.state is State.CLOSED


def test_draining_a_server_turns_new_requests_away() -> None:
    """Clients above 5.3.1 know GO_AWAY; others get SERVICE_NOT_AVAILABLE."""
    client, server = pair()
    held, dropped = client.request(11, now=0.0), client.request(12, now=0.0)
    event, _ = server.receive(client.data_to_send(), 0.0)
    assert server.close(wait=5.0) == []
    assert server.wants_read
    old = RemotingCommand(code=34, opaque=77, version=475).encode()
    new = RemotingCommand(code=34, opaque=78, version=477, serialize_type="ROCKETMQ").encode()
    assert server.receive(old + new, 1.0) == []
    assert server.respond(event) == []
    answers = commands(server.data_to_send())
    assert [(a.code, a.opaque, a.serialize_type) for a in answers] == [
        (14, 77, "JSON"), (1500, 78, "ROCKETMQ"), (0, held.opaque, "JSON")]  # fmt: skip
    assert server.next_timeout() == 6.0
    (gone,) = server.handle_timeout(6.0)
    assert (gone.by, gone.error) == ("local", None)
    assert client.close(wait=1.0) == []
    (outcome,) = client.receive(answers[2].encode(), 2.0)
    assert outcome.handle is held
    (timed_out, gone) = client.handle_timeout(3.0)
    assert timed_out == TimedOut(dropped)
    assert gone.lost == ()


def test_a_flood_at_a_draining_server_is_bounded() -> None:
    client, server = pair(server=ConnectionOptions(pending_bytes=1000))
    client.request(11)
    server.receive(client.data_to_send(), 0.0)
    server.close(wait=50.0)
    chunk = RemotingCommand(code=34, opaque=77).encode() * 2000
    for _ in range(20):
        events = server.receive(chunk, 0.0)
        assert server.pending_bytes < 1000 + (1 << 20) + 2 * len(chunk)
        if events:
            break
    assert isinstance(events[0].error, RemoteProtocolError)


def test_a_client_that_is_asked_to_go_away_ends_when_all_is_answered() -> None:
    client, server = pair()
    first, second = client.request(310, now=0.0), client.request(34, now=0.0)
    one, two = server.receive(client.data_to_send(), 0.0)
    server.respond(one, 1500, remark="please go away")
    (outcome,) = client.receive(server.data_to_send(), 0.0)
    assert (outcome.handle, outcome.code) == (first, 1500)
    assert client.state is State.DRAINING
    with pytest.raises(LocalProtocolError, match="ending"):
        client.request(1)
    server.respond(two)
    outcome, gone = client.receive(server.data_to_send(), 0.0)
    assert outcome.handle is second
    assert (gone.by, gone.code, gone.reason) == ("peer", 1500, "please go away")


def test_a_silent_client_is_dropped_by_a_server() -> None:
    client, server = pair(server=ConnectionOptions(idle_timeout=10.0))
    server.handle_timeout(0.0)
    server.receive(b"\x00", 7.0)
    assert server.next_timeout() == 10.0
    assert server.handle_timeout(10.0) == []
    assert server.next_timeout() == 17.0
    server.pause()
    assert server.handle_timeout(17.0) == []
    server.resume(18.0)
    server.handle_timeout(18.0)
    (gone,) = server.handle_timeout(40.0)
    assert gone.by == "local"
    assert "idle" in gone.reason
    _, server = pair(server=ConnectionOptions(idle_timeout=None))
    assert server.next_timeout() is None
    assert client.next_timeout() is None


def test_close() -> None:
    client, server = pair()
    client.request(1)
    (gone,) = client.close()
    assert len(gone.lost) == 1
    assert not client.should_close
    assert len(commands(client.data_to_send())) == 1
    assert client.should_close
    server.request(1)
    (gone,) = server.close(immediate=True)
    assert isinstance(gone, Disconnected)
    assert (server.data_to_send(), server.should_close) == (b"", True)


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_the_form_of_headers(form: Any) -> None:
    """Requests of ours as the options say; responses in the form of the request; a server's requests in its client's form.
    POP codes always have JSON (section 3)."""
    client, server = pair(ConnectionOptions(serialize_type=form, language="OTHER", version=409))
    assert server.negotiated == rocketmq.Negotiated("OTHER", 409, form)
    assert client.negotiated.serialize_type == form
    client.request(34)
    client.request(200050)
    requests = commands(sent := client.data_to_send())
    assert [(c.serialize_type, c.code, c.version) for c in requests] == [(form, 34, 409), ("JSON", 200050, 409)]
    for event in server.receive(sent, 0.0):
        server.respond(event)
    server.request(40, oneway=True)
    assert [c.serialize_type for c in commands(server.data_to_send())] == [form, "JSON", form]


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_commands_of_others_go_through_unchanged_but_for_their_opaque(form: Any) -> None:
    client, server = pair()
    foreign = RemotingCommand(code=310, opaque=99, flag=0, remark="r", ext_fields={"a": "b", "x": "y"}, body=b"body",
                              language="GO", version=1, serialize_type=form)  # fmt: skip
    handle = client.send(foreign, timeout=1.0, now=0.0)
    (event,) = server.receive(client.data_to_send(), 0.0)
    names = [name for name in RemotingCommand.__match_args__ if name != "opaque"]
    assert [getattr(event, n) for n in names] == [getattr(foreign, n) for n in names]
    assert event.opaque == handle.opaque != 99
    answer = RemotingCommand(code=0, opaque=5, flag=1, body=b"answer", language="JAVA", serialize_type=form)
    with pytest.raises(LocalProtocolError):
        server.forward(event, foreign)
    server.forward(event, answer)
    (outcome,) = client.receive(server.data_to_send(), 0.0)
    assert outcome.handle is handle
    assert [getattr(outcome.message, n) for n in names] == [getattr(answer, n) for n in names]
    ready = RemotingCommand(code=0, opaque=event.opaque, flag=1)
    (event,) = server.receive(RemotingCommand(code=1, opaque=5).encode(), 0.0)
    server.forward(event, RemotingCommand(code=0, opaque=5, flag=1))
    assert server.data_to_send() == RemotingCommand(code=0, opaque=5, flag=1).encode()
    assert ready.opaque == handle.opaque


@pytest.mark.parametrize("deed", ["send", "forward"])
def test_a_binary_header_goes_through_with_what_is_unknown_here(deed: str) -> None:
    """A language without a name, and a field without one."""
    client, server = pair()
    octets = bytearray(RemotingCommand(code=11, opaque=5, flag=deed == "forward", serialize_type="ROCKETMQ").encode())
    octets[10] = 0x7B
    foreign = rocketmq.decode(bytes(octets))
    assert foreign.language is None
    if deed == "send":
        client.send(foreign, timeout=1.0, now=0.0)
        sent = client.data_to_send()
    else:
        client.request(11, timeout=1.0, now=0.0)
        (event,) = server.receive(client.data_to_send(), 0.0)
        octets[13:17] = event.opaque.to_bytes(4, "big")
        server.forward(event, foreign)
        sent = server.data_to_send()
    assert sent[:13] == octets[:13]
    assert sent[17:] == octets[17:]


def test_a_binary_response_to_a_request_without_an_opaque() -> None:
    _, server = pair()
    text = b'{"code":11,"flag":0,"language":"JAVA","version":479}'
    (event,) = server.receive((len(text) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text, 0.0)
    with pytest.raises(LocalProtocolError):
        server.forward(event, RemotingCommand(code=0, flag=1, opaque=3, serialize_type="ROCKETMQ"))
    server.forward(event, RemotingCommand(code=0, flag=1, opaque=3))
    assert rocketmq.decode(server.data_to_send()).opaque is None


def test_a_json_header_that_cannot_be_written_is_not_sent() -> None:
    """fastjson reads a null as a name; nothing writes one."""
    text = b'{"code":11,"extFields":{null:"x"},"flag":0,"language":"JAVA","opaque":5,"version":479}'
    octets = (len(text) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text
    client, _ = pair()
    with pytest.raises(LocalProtocolError):
        client.send(rocketmq.decode(octets), timeout=1.0, now=0.0)
    assert client.data_to_send() == b""


def test_large_bodies_are_not_copied() -> None:
    client, _ = pair()
    command = RemotingCommand(code=310, opaque=client._opaque + 1, body=bytes(100_000))
    client.send(command)
    (frame,) = client.buffers_to_send()
    assert frame is command.encode()


def test_signatures() -> None:
    """Vectors of the real code: what the Java client's hook signs (section 11)."""
    credentials = Credentials("AK", "secret", "token")
    assert "secret" not in repr(credentials)
    assert "token" not in repr(credentials)
    client, server = pair(ConnectionOptions(credentials=credentials))
    client.request(105, rocketmq.GetRouteInfoRequestHeader(topic="T"), b"body")
    (event,) = server.receive(client.data_to_send(), 0.0)
    assert event.ext_fields["AccessKey"] == "AK"
    assert rocketmq.is_signed(event, {"AK": "secret"}.get)
    assert not rocketmq.is_signed(event, {"AK": "other"}.get)
    assert not rocketmq.is_signed(event, dict[str, str]().get)
    assert not rocketmq.is_signed(RemotingCommand(code=1), {"AK": "secret"}.get)


@pytest.mark.parametrize("vector", of("acl-signed-request"), ids=lambda vector: vector.id)
def test_real_signatures_are_valid(vector: Vector) -> None:
    """Signed by the real client's hook (section 11)."""
    server = ServerConnection(0.0)
    _, command = server.receive(vector.octets, 0.0)
    secret = vector.decoded["secret_key"]
    assert rocketmq.is_signed(command, lambda key: secret)
    assert not rocketmq.is_signed(command, lambda key: secret + "x")
