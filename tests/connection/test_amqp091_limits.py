"""AMQP 0.9.1: limits, and backpressure."""

from __future__ import annotations

from typing import Any

import pytest

from lib.amqp091_channel import client_channel, deliver, frames, names, publish, server_channel
from lib.amqp091_driven import method, octets, server_in
from lib.kinds import checked, only
from lib.steps import steps
from wirefmt import amqp091
from wirefmt.amqp091.channel import class_of
from wirefmt.amqp091.states import State
from wirefmt.connection import Disconnected
from wirefmt.errors import DecodeError, LocalProtocolError

OPTIONS = amqp091.ConnectionOptions


def test_requests_that_wait_stop_reading() -> None:
    server, _channel = server_channel(OPTIONS(undecided=3))
    events = server.receive(octets("queue.declare") * 5, 0.0)
    for left, reading in ((5, False), (4, False), (3, False), (2, True), (1, True)):
        (first,) = events  # one after another: those behind it wait, and count
        assert (server.undecided, server.wants_read) == (min(left, 3), reading)
        events = server.reply(first)
    assert (events, server.undecided, server.wants_read) == ([], 0, True)
    assert names(server.data_to_send()) == ["queue.declare-ok"] * 5
    with pytest.raises(LocalProtocolError):
        server.reply(first)


def test_publishes_that_wait_for_a_confirm_stop_reading() -> None:
    server, channel = server_channel(OPTIONS(undecided=3))
    server.receive(octets("confirm.select"), 0.0)
    events = server.receive(publish() * 5, 0.0)
    assert (len(events), server.wants_read) == (3, False)
    assert len(server.acknowledge(checked(events[0], amqp091.BasicMessage))) == 1
    closed = channel.close(404, "gone")
    assert isinstance(closed[0], amqp091.ChannelClosed)
    assert server.undecided == 0


def test_deliveries_that_wait_stop_the_reading_of_a_client() -> None:
    client, channel = client_channel(OPTIONS(undecided=3, heartbeat=0))
    channel.consume("q", "c", nowait=True)
    events = client.receive(b"".join(deliver(k) for k in range(1, 6)), 0.0)
    assert (len(events), client.wants_read) == (3, False)
    assert [event.method.delivery_tag for event in channel.ack(1)] == [4]
    assert [event.method.delivery_tag for event in channel.nack(2, multiple=True)] == [5]
    assert not client.wants_read
    assert channel.reject(3) == []
    assert client.wants_read


def test_many_publishes_without_a_confirm_stop_reading() -> None:
    """Of 32,000 publishes no more than the limit are events that the host has not answered."""
    count, limit = 32_000, 1000
    server, _channel = server_channel(OPTIONS(undecided=limit))
    server.receive(octets("confirm.select"), 0.0)
    server.data_to_send()
    stream = memoryview(publish() * count)
    at = 0
    waiting: list[Any] = []
    answered = 0
    while answered < count:
        while server.wants_read and at < len(stream):
            waiting += server.receive(stream[at : at + 4096], 0.0)
            at += 4096
            assert server.undecided == len(waiting) <= limit
        assert server.wants_read == (len(waiting) < limit)
        for event in [waiting.pop(0) for _ in range(min(len(waiting), 300))]:
            waiting += server.acknowledge(event)
            answered += 1
            assert len(waiting) <= limit
    assert (server.undecided, server.wants_read) == (0, True)
    last = [frame for frame in frames(server.data_to_send()) if isinstance(frame, amqp091.BasicAck)][-1]
    assert (last.delivery_tag, last.multiple) == (count, True)


def test_an_answer_to_get_goes_on_with_what_waits() -> None:
    server, channel = server_channel(OPTIONS(undecided=1))
    get = only(server.receive(octets("basic.get", queue="q", no_ack=True) * 3, 0.0), amqp091.BasicGet)
    for left in (1, 1, 0):
        assert server.wants_read is False
        _, events = channel.get_ok(get, "", "q", b"m")
        assert len(events) == left
        if events:
            get = only(events, amqp091.BasicGet)
    assert server.wants_read
    assert names(server.data_to_send()).count("basic.get-ok") == 3


def test_a_channel_that_is_closed_while_nothing_is_read() -> None:
    """Its pending events do not stop reading, because the answer to the close must be read."""
    server, channel = server_channel(OPTIONS(undecided=3))
    server.receive(octets("channel.open", 2) + octets("confirm.select"), 0.0)
    server.receive(publish() * 5 + octets("queue.declare", 2), 0.0)
    assert not server.wants_read
    closed, declare = channel.close(404, "gone")
    assert isinstance(closed, amqp091.ChannelClosed)
    assert isinstance(declare, amqp091.QueueDeclare)
    assert server.wants_read
    client, ours = client_channel(OPTIONS(undecided=3, heartbeat=0))
    other = client.open_channel(2)
    client.receive(octets("channel.open-ok", 2), 0.0)
    for view, tag in ((ours, "c"), (other, "d")):
        view.consume("q", tag, nowait=True)
    client.receive(b"".join(deliver(k) for k in range(1, 6)) + deliver(1, channel=2, consumer="d"), 0.0)
    assert not client.wants_read
    (event,) = ours.close()  # the fourth and fifth are dropped
    assert event.channel == 2
    assert client.wants_read
    (closed,) = client.receive(octets("channel.close-ok"), 0.0)
    assert isinstance(closed, amqp091.ChannelClosed)


@pytest.mark.parametrize("how", ["recover", "send"])
def test_a_method_that_voids_deliveries_lets_its_reply_be_read(how: str) -> None:
    client, channel = client_channel(OPTIONS(undecided=3, heartbeat=0))
    channel.consume("q", "c", nowait=True)
    client.receive(b"".join(deliver(k) for k in range(1, 4)), 0.0)
    assert not client.wants_read
    if how == "recover":
        channel.recover()
    else:
        channel.send(method("channel.close"))
    assert client.wants_read


def test_returned_messages_cost_what_they_are() -> None:
    """The cost of a return does not grow with the number of publications."""
    taken = []
    for count in (20, 400):
        client, channel = client_channel()
        channel.confirm_select()
        client.receive(octets("confirm.select-ok"), 0.0)
        handles = [channel.publish("", "q", b"%d" % n, mandatory=True) for n in range(count)]
        returned = [
            amqp091.BasicMessage(
                amqp091.BasicReturn(channel=1, reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key="q"),
                None,
                b"%d" % n,
            ).encode()
            for n in range(count)
        ]
        events = client.receive(b"".join(returned[:-1]), 0.0)
        assert [event.handle for event in events] == handles[:-1]
        taken.append(steps(lambda c=client, r=returned: c.receive(r[-1], 0.0)))  # type: ignore[misc]
        client.receive(octets("basic.ack", delivery_tag=count, multiple=True), 0.0)
        assert not channel.unconfirmed
    assert taken[1] < 1.5 * taken[0]


def test_bytes_that_come_although_we_do_not_read() -> None:
    server, _ = server_channel(OPTIONS(undecided=1, unread_bytes=1000))
    events = server.receive(octets("queue.declare") * 10, 0.0)
    assert len(events) == 1
    gone = only(server.receive(octets("queue.declare") * 50, 0.0), Disconnected)
    assert gone.code == 506


def test_bytes_of_unfinished_messages() -> None:
    server = server_in(State.OPEN, OPTIONS(unfinished_bytes=1000))
    for k in range(1, 4):
        server.receive(octets("channel.open", k), 0.0)
    begun = b"".join(
        amqp091.BasicPublish(channel=k).encode()
        + amqp091.ContentHeader(channel=k, body_size=600).encode()
        + amqp091.Body(channel=k, payload=b"x" * 400).encode()
        for k in range(1, 4)
    )
    gone = only(server.receive(begun, 0.0), Disconnected)
    assert isinstance(gone.error, DecodeError)
    assert gone.code == 506


LONG = "x" * 10_000
TOO_LONG: dict[str, Any] = {
    "exchange.declare": {"exchange": "e", "arguments": {"a": LONG}},
    "exchange.bind": {"destination": "d", "source": "s", "arguments": {"a": LONG}},
    "exchange.unbind": {"destination": "d", "source": "s", "arguments": {"a": LONG}},
    "queue.declare": {"queue": "q", "arguments": {"a": LONG}},
    "queue.bind": {"queue": "q", "exchange": "e", "arguments": {"a": LONG}},
    "queue.unbind": {"queue": "q", "exchange": "e", "arguments": {"a": LONG}},
    "basic.consume": {"queue": "q", "consumer_tag": "c", "arguments": {"a": LONG}},
}


@pytest.mark.parametrize("name", TOO_LONG)
@pytest.mark.parametrize("nowait", [False, True])
def test_a_method_that_does_not_fit_into_a_frame(name: str, nowait: bool) -> None:
    """4.2.3: a peer must not send larger frames. Nothing is sent, nothing has changed, and the connection goes on."""
    client, channel = client_channel(OPTIONS(frame_max=8192, heartbeat=0))
    fields = {**TOO_LONG[name], **({"nowait": nowait} if name != "queue.unbind" else {})}
    with pytest.raises(LocalProtocolError, match="a frame has at most 8192"):
        channel.call(class_of(name), **fields)
    assert not client.pending_bytes
    channel.call(class_of(name), **{**fields, "arguments": {"a": "short"}})
    assert names(client.data_to_send()) == [name]


def test_secrets_and_properties_that_do_not_fit_into_a_frame() -> None:
    client, _ = client_channel(OPTIONS(frame_max=8192))
    with pytest.raises(LocalProtocolError, match="8192"):
        client.update_secret(LONG)
    client.update_secret("short")
    with pytest.raises(LocalProtocolError, match="8192"):
        amqp091.ClientConnection(0.0).open(properties={"a": LONG})
    with pytest.raises(LocalProtocolError, match="8192"):
        amqp091.ServerConnection(0.0, properties={"a": LONG})
    server = server_in(State.STARTING)
    (event,) = server.receive(octets("connection.start-ok"), 0.0)
    with pytest.raises(LocalProtocolError, match="8192"):
        server.challenge(event, LONG.encode())
    server.challenge(event, b"short")
    assert names(server.data_to_send())[-1] == "connection.secure"


def test_a_response_that_does_not_fit_into_a_frame_ends_the_connection() -> None:
    client = amqp091.ClientConnection(0.0)
    client.open("/", [amqp091.Plain("token", LONG)])
    event = only(client.receive(octets("connection.start"), 0.0), Disconnected)
    assert (type(event), event.by, event.code) == (Disconnected, "local", None)
    assert "8192" in event.reason


@pytest.mark.parametrize("value", [-1, 1 << 16, 1 << 70, "x", None])
def test_a_value_that_cannot_be_written(value: Any) -> None:
    client, channel = client_channel()
    with pytest.raises(LocalProtocolError):
        channel.call(amqp091.BasicQos, prefetch_count=value)
    assert not client.pending_bytes


@pytest.mark.parametrize("what", ["body", "header", "frame", "method"])
def test_the_end_names_the_content_that_cannot_be_read(what: str) -> None:
    sent = deliver(1)
    table: Any = {"body": {}, "header": {str(k): k for k in range(40)}, "frame": {"a": LONG}, "method": {}}[what]
    delivery = amqp091.BasicDeliver(channel=1, consumer_tag="d", delivery_tag=2, exchange="", routing_key="q")
    if what == "method":
        bad = delivery.encode() + amqp091.ChannelFlow(channel=1, active=True).encode()
    else:
        body = b"x" * (2000 if what == "body" else 1)
        bad = amqp091.BasicMessage(delivery, amqp091.BasicProperties(headers=table), body).encode()
    for pieces in (1, 40):
        client, channel = client_channel(OPTIONS(frame_max=4096, body_size=1000, elements=30, heartbeat=0))
        for tag in ("c", "d"):
            channel.consume("q", tag, nowait=True)
        events: list[Any] = []
        stream = sent + bad
        for at in range(0, len(stream), len(stream) // pieces + 1):
            events += client.receive(stream[at : at + len(stream) // pieces + 1], 0.0)
            if client.state is State.CLOSED:
                break
        assert type(events[-1]) is Disconnected
        assert events[-1].message == delivery
        assert isinstance(events[-1].error, DecodeError)


def test_a_body_that_is_not_read_at_all() -> None:
    server, _ = server_channel(OPTIONS(body_size=1000))
    announced = amqp091.BasicPublish(channel=1).encode() + amqp091.ContentHeader(channel=1, body_size=1001).encode()
    gone = only(server.receive(announced, 0.0), Disconnected)
    assert isinstance(gone.error, DecodeError)
    assert gone.code == 501


def test_bytes_that_are_queued() -> None:
    client, channel = client_channel(OPTIONS(pending_bytes=1000))
    channel.publish("", "q", b"x" * 900)
    with pytest.raises(LocalProtocolError):
        channel.publish("", "q", b"x" * 900)
    with pytest.raises(LocalProtocolError):
        channel.send(method("queue.declare", queue="q" * 200))
    client.data_to_send()
    channel.publish("", "q", b"x" * 2000)  # one message may be larger
    server, opened = server_channel(OPTIONS(pending_bytes=1000))
    (consume,) = server.receive(octets("basic.consume"), 0.0)
    server.reply(consume)
    server.data_to_send()
    opened.deliver("c", "", "q", b"x" * 900)
    with pytest.raises(LocalProtocolError):
        opened.deliver("c", "", "q", b"x" * 900)
    server.data_to_send()
    delivery = opened.deliver("c", "", "q", b"")
    assert delivery is not None
    assert delivery.tag == 2  # a refused delivery takes no number


def test_a_peer_that_does_not_take_its_answers() -> None:
    server, _ = server_channel(OPTIONS(pending_bytes=1000))
    calls = octets("basic.qos") * 1000
    events: list[Any] = []
    for _ in range(200):
        events = server.receive(calls, 0.0)
        if isinstance(events[-1], Disconnected):
            break
    assert isinstance(events[-1], Disconnected)
    assert events[-1].code == 506
    assert server.pending_bytes < 4_000_000


def test_unacknowledged_deliveries_of_a_channel() -> None:
    server, channel = server_channel(OPTIONS(unacknowledged=3))
    _, consume = server.receive(octets("tx.select") + octets("basic.consume"), 0.0)
    server.reply(consume)
    for _ in range(3):
        channel.deliver("c", "", "q", b"")
    assert channel.credit("c") == 0
    server.receive(octets("basic.ack", delivery_tag=0), 0.0)  # in the transaction they still count
    assert channel.credit("c") == 0
    server.receive(octets("tx.commit"), 0.0)
    assert channel.credit("c") == 3


def test_consumers_of_a_channel() -> None:
    server, _channel = server_channel(OPTIONS(consumers=2))
    for tag in ("a", "b"):
        (consume,) = server.receive(octets("basic.consume", consumer_tag=tag), 0.0)
        server.reply(consume)
    gone = only(server.receive(octets("basic.consume", consumer_tag="d"), 0.0), Disconnected)
    assert gone.code == 530


def test_settling_costs_time_for_what_is_settled() -> None:
    """Deliveries are acknowledged one by one in order, and each ack is written at once: linear time."""
    client, channel = client_channel(OPTIONS(undecided=200_000))
    channel.consume("q", "c", nowait=True)
    client.receive(b"".join(deliver(k, b"") for k in range(1, 60_001)), 0.0)
    for k in range(1, 60_001):
        channel.ack(k)
        client.data_to_send()
    assert channel.unacknowledged == 0
