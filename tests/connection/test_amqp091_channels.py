"""AMQP 0.9.1: closing connections; opening and closing channels; calls and their replies."""

from __future__ import annotations

import pytest

from lib.amqp091_channel import client_channel, deliver, frames, names, publish, server_channel
from lib.amqp091_driven import Pair, client_in, method, octets, server_in
from lib.kinds import all_of, only
from wirefmt import amqp091
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.connection import Disconnected, WindowOpened
from wirefmt.errors import LocalProtocolError

OPTIONS = amqp091.ConnectionOptions


# ---- closing (1.4.2.9, 1.4.2.10, 2.2.4)


def test_close_waits_for_close_ok_and_drops_what_comes_before() -> None:
    client, channel = client_channel()
    assert client.close(200, "bye") == []
    assert client.receive(octets("channel.flow"), 0.0) == []
    (close,) = frames(client.data_to_send())
    assert (close.reply_code, close.reply_text) == (200, "bye")
    with pytest.raises(LocalProtocolError):
        channel.publish("", "q")
    (gone,) = client.receive(octets("connection.close-ok"), 0.0)
    assert (gone.by, gone.code) == ("local", 200)


def test_closes_that_cross() -> None:
    pair = Pair()
    pair.client.close()
    pair.server.close()
    ours, theirs = pair.client.data_to_send(), pair.server.data_to_send()
    assert pair.client.receive(theirs, 0.0) == []
    assert pair.server.receive(ours, 0.0) == []
    (gone,) = pair.client.receive(pair.server.data_to_send(), 0.0)
    (also,) = pair.server.receive(pair.client.data_to_send(), 0.0)
    assert isinstance(gone, Disconnected)
    assert isinstance(also, Disconnected)


def test_no_close_ok_in_time() -> None:
    client = client_in(State.OPEN, OPTIONS(close_timeout=3, heartbeat=0))
    client.close()
    assert client.handle_timeout(1.0) == []
    assert client.handle_timeout(3.9) == []
    gone = only(client.handle_timeout(4.0), Disconnected)
    assert gone.by == "local"


def test_connection_close_in_the_middle_of_a_content() -> None:
    """RabbitMQ: methods of the connection are independent of its channels."""
    server, _ = server_channel()
    begun = publish(b"x" * 100)[:-50]
    begun = begun[: begun.index(b"\x03")]  # method and header
    gone = only(server.receive(begun + octets("connection.close"), 0.0), Disconnected)
    assert (gone.by, gone.code) == ("peer", 200)


def test_the_host_drops_the_connection() -> None:
    client, _ = client_channel()
    client.send(method("queue.declare"))
    (gone,) = client.close(immediate=True)
    assert not client.data_to_send()
    assert client.should_close
    assert [handle.message.name for handle in gone.lost] == ["queue.declare"]
    with pytest.raises(LocalProtocolError):
        client.receive(b"", 0.0)


def test_reply_texts_are_cut_to_255_bytes() -> None:
    server, channel = server_channel()
    channel.close(404, "é" * 300)
    (close,) = frames(server.data_to_send())
    assert close.reply_text.startswith("NOT_FOUND - é")
    assert len(close.reply_text.encode()) <= 255


# ---- channels (1.5)


def test_channel_closes_that_cross() -> None:
    pair = Pair()
    ours, theirs = pair.channel(1)
    ours.close()
    theirs.close(404, "gone")
    one, other = pair.client.data_to_send(), pair.server.data_to_send()
    assert pair.client.receive(other, 0.0) == []
    assert ours.state is ChannelState.CLOSING
    assert pair.server.receive(one, 0.0) == []
    assert theirs.state is ChannelState.CLOSING
    with pytest.raises(LocalProtocolError):
        pair.client.open_channel(1)
    (closed,) = pair.client.receive(pair.server.data_to_send(), 0.0)
    assert isinstance(closed, amqp091.ChannelClosed)
    pair.server.receive(pair.client.data_to_send(), 0.0)
    assert not pair.client.channels
    assert not pair.server.channels
    pair.channel(1)


def test_close_ok_and_open_in_one_write() -> None:
    """RabbitMQ: a number is free once close-ok has been written for the server's close."""
    client, _channel = client_channel()
    (closed,) = client.receive(octets("channel.close", reply_code=404, reply_text="NOT_FOUND - q"), 0.0)
    assert (closed.by, closed.code) == ("peer", 404)
    again = client.open_channel(1)
    again.send(method("queue.declare"))
    assert names(client.data_to_send()) == ["channel.close-ok", "channel.open", "queue.declare"]
    server, opened = server_channel()
    opened.close(404, "gone")
    events = server.receive(octets("channel.close-ok") + octets("channel.open") + octets("queue.declare"), 0.0)
    assert [type(event) for event in events] == [amqp091.ChannelOpened, amqp091.QueueDeclare]


def test_close_and_open_in_one_write() -> None:
    """RabbitMQ answers 504: the number is not free before close-ok."""
    client, channel = client_channel()
    channel.close()
    with pytest.raises(LocalProtocolError):
        client.open_channel(1)


def test_deliveries_after_the_close_of_a_channel_are_dropped() -> None:
    """rabbitmq-server #13384: a server may send them. A client must not close the connection because of them."""
    client, channel = client_channel()
    channel.consume("q", "c", nowait=True)
    (closed,) = client.receive(octets("channel.close", reply_code=404) + deliver(1) + deliver(2), 0.0)
    assert isinstance(closed, amqp091.ChannelClosed)
    assert client.state is State.OPEN
    (gone,) = client.receive(deliver(1, channel=2), 0.0)  # a number that was never used
    assert gone.code == 504


def test_what_a_client_sends_before_it_sees_a_close_is_dropped() -> None:
    server, channel = server_channel()
    channel.close(404, "gone")
    assert server.receive(publish() + octets("queue.declare") + octets("basic.qos-ok"), 0.0) == []
    server.receive(octets("channel.close-ok"), 0.0)
    gone = only(server.receive(octets("queue.declare"), 0.0), Disconnected)
    assert gone.code == 504


def test_leftovers_of_a_channel_before_open_ok_are_dropped() -> None:
    client, channel = client_channel()
    channel.close()
    client.receive(octets("channel.close-ok"), 0.0)
    again = client.open_channel(1)
    assert client.receive(deliver(7) + octets("basic.ack", delivery_tag=1), 0.0) == []
    (opened,) = client.receive(octets("channel.open-ok"), 0.0)
    assert opened.handle is again.opened


def test_half_a_publish_and_channel_close_is_505() -> None:
    server, _ = server_channel()
    gone = only(server.receive(method("basic.publish").method.encode() + octets("channel.close"), 0.0), Disconnected)
    assert gone.code == 505


def test_contents_of_several_channels_interleave() -> None:
    """4.2.6."""
    server = server_in(State.OPEN)
    server.receive(octets("channel.open", 1) + octets("channel.open", 2), 0.0)
    one, two = (amqp091.Decoder().feed(publish(bytes((k,)) * 10, channel=k)) for k in (1, 2))
    data = b"".join(frame.encode() for pair in zip(one, two, strict=True) for frame in (*pair, amqp091.Heartbeat()))
    assert [event.body_bytes() for event in all_of(server.receive(data, 0.0), amqp091.BasicMessage)] == [
        b"\1" * 10,
        b"\2" * 10,
    ]


def test_tags_and_numbers_start_at_1_when_a_channel_is_opened_again() -> None:
    pair = Pair()
    for _ in range(2):
        ours, theirs = pair.channel(1)
        ours.confirm_select()
        ours.consume("q", "c")
        _, (consume,) = pair.run()
        pair.server.reply(consume)
        assert theirs.deliver("c", "", "q", b"").tag == 1  # type: ignore[union-attr]
        pair.run()
        handle = ours.publish("", "q")
        assert handle is not None
        assert handle.tag == 1
        ours.close()
        _, events = pair.run()
        closed = events[-1]
        assert [delivery.tag for delivery in closed.lost] == [1]
        assert [consumer.tag for consumer in closed.consumers] == ["c"]


def test_flow() -> None:
    """1.5.2.3: content stops, other methods do not. A server refuses it to a client, as RabbitMQ does."""
    client, channel = client_channel()
    (_flow,) = client.receive(octets("channel.flow", active=False), 0.0)
    assert client.data_to_send() == octets("channel.flow-ok", active=False)
    with pytest.raises(LocalProtocolError):
        channel.publish("", "q")
    channel.send(method("queue.declare"))
    _, opened = client.receive(octets("channel.flow", active=True), 0.0)
    assert isinstance(opened, WindowOpened)
    assert opened.view is channel
    channel.publish("", "q")
    server, _ = server_channel()
    server.receive(octets("channel.flow", active=True), 0.0)
    assert server.data_to_send() == octets("channel.flow-ok", active=True)
    gone = only(server.receive(octets("channel.flow", active=False), 0.0), Disconnected)
    assert gone.code == 540


# ---- calls and replies (4.7)


def test_replies_in_another_order_than_the_calls() -> None:
    """RabbitMQ answers consume, declare and qos in one write with declare-ok, qos-ok and consume-ok."""
    client, channel = client_channel()
    calls = [
        channel.consume("q", "a"),
        channel.consume("q"),
        channel.call(amqp091.QueueDeclare, queue="q"),
        channel.qos(1),
    ]
    said = (
        octets("queue.declare-ok"),
        octets("basic.qos-ok"),
        octets("basic.consume-ok", consumer_tag="amq.x"),
        octets("basic.consume-ok", consumer_tag="a"),
    )
    events = client.receive(b"".join(said), 0.0)
    assert [event.handle for event in events] == [calls[2], calls[3], calls[1], calls[0]]
    assert set(channel.consumers) == {"a", "amq.x"}


def test_a_reply_without_a_call() -> None:
    client, _ = client_channel()
    (gone,) = client.receive(octets("queue.declare-ok"), 0.0)
    assert gone.code == 503


@pytest.mark.parametrize(
    "name",
    [
        "exchange.declare",
        "exchange.delete",
        "exchange.bind",
        "exchange.unbind",
        "queue.declare",
        "queue.bind",
        "queue.purge",
        "queue.delete",
        "basic.consume",
        "basic.cancel",
        "confirm.select",
    ],
)
def test_nowait_has_no_reply(name: str) -> None:
    _client, channel = client_channel()
    assert channel.send(method(name, nowait=True)) is None
    server, _ = server_channel()
    for event in server.receive(octets(name, nowait=True), 0.0):
        server.reply(event)
    assert not server.data_to_send()
    assert server.undecided == 0


@pytest.mark.parametrize("name", ["queue.unbind", "basic.qos", "basic.recover", "tx.select", "basic.get"])
def test_methods_without_nowait(name: str) -> None:
    assert not hasattr(method(name), "nowait")


def test_a_nowait_that_fails_closes_the_channel() -> None:
    server, _ = server_channel()
    (declare,) = server.receive(octets("queue.declare", nowait=True, passive=True), 0.0)
    closed = only(server.refuse(declare, 404, "no queue 'q' in vhost '/'"), amqp091.ChannelClosed)
    (close,) = frames(server.data_to_send())
    assert (close.reply_code, close.class_id, close.method_id) == (404, 50, 10)
    assert closed.by == "local"
    assert server.undecided == 0


def test_an_empty_queue_name_is_the_queue_declared_last() -> None:
    """1.7.2.1."""
    server, channel = server_channel()
    (declare,) = server.receive(octets("queue.declare", queue=""), 0.0)
    server.reply(declare, queue="amq.gen-1", message_count=0, consumer_count=0)
    bind = only(server.receive(octets("queue.bind", queue=""), 0.0), amqp091.QueueBind)
    assert channel.named(bind.queue) == "amq.gen-1"


@pytest.mark.parametrize(
    "name", ["queue.bind", "queue.unbind", "queue.purge", "queue.delete", "basic.consume", "basic.get"]
)
def test_an_empty_queue_name_and_no_queue(name: str) -> None:
    server, _ = server_channel()
    closed = only(server.receive(octets(name, queue=""), 0.0), amqp091.ChannelClosed)
    assert (closed.code, closed.by) == (404, "local")
    assert server.state is State.OPEN


def test_deliveries_come_between_a_call_and_its_reply() -> None:
    client, channel = client_channel()
    channel.consume("q", "c", nowait=True)
    call = channel.call(amqp091.QueueDeclare, queue="q")
    first, answer, second = client.receive(deliver(1) + octets("queue.declare-ok") + deliver(2), 0.0)
    assert answer.handle is call
    assert (first.method.delivery_tag, second.method.delivery_tag) == (1, 2)


def test_get() -> None:
    pair = Pair()
    ours, theirs = pair.channel()
    call = ours.get("q")
    _, (get,) = pair.run()
    delivery, _ = theirs.get_ok(get, "e", "k", b"body", message_count=4)
    assert delivery is not None
    ((answer,), _) = pair.run()
    assert answer.handle is call
    assert answer.message.method.message_count == 4
    assert answer.message.body_bytes() == b"body"
    ours.ack(answer.message.method.delivery_tag)
    _, (settled,) = pair.run()
    assert settled.deliveries == [delivery]
    assert isinstance(pair.call(ours.get("q")), amqp091.BasicGetEmpty)
