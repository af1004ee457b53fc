"""AMQP 0.9.1: publishing (1.8.3.7), RabbitMQ's confirms, and the session that keeps what is not confirmed."""

from __future__ import annotations

from typing import Any

import pytest

from lib.amqp091_channel import client_channel, frames, names, publish, server_channel
from lib.amqp091_driven import Pair, octets, proceeded
from lib.kinds import checked, only
from wirefmt import amqp091
from wirefmt.amqp091.states import State
from wirefmt.connection import Disconnected, WindowOpened
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError

OPTIONS = amqp091.ConnectionOptions


def test_numbers_of_confirms_begin_at_confirm_select() -> None:
    client, channel = client_channel()
    assert channel.publish("", "q") is None
    channel.confirm_select()
    client.receive(octets("confirm.select-ok"), 0.0)
    assert [channel.publish("", "q").tag for _ in range(3)] == [1, 2, 3]
    channel.confirm_select()  # the second one does not reset the numbers
    assert channel.publish("", "q").tag == 4


def test_confirms_of_one_turn_become_one() -> None:
    """RabbitMQ confirms all numbers below the smallest open one together, and the others singly; acks and nacks separately."""
    server, _channel = server_channel()
    server.receive(octets("confirm.select"), 0.0)
    messages = server.receive(publish() * 6, 0.0)
    server.data_to_send()
    for k in (1, 0, 2, 4):
        server.acknowledge(checked(messages[k], amqp091.BasicMessage))
    said = frames(server.data_to_send())
    assert [(frame.delivery_tag, frame.multiple) for frame in said] == [(3, True), (5, False)]
    server.reject(checked(messages[3], amqp091.BasicMessage))
    server.acknowledge(checked(messages[5], amqp091.BasicMessage))
    said = frames(server.data_to_send())
    assert [(frame.name, frame.delivery_tag) for frame in said] == [("basic.nack", 4), ("basic.ack", 6)]
    with pytest.raises(LocalProtocolError):
        server.acknowledge(checked(messages[0], amqp091.BasicMessage))


def test_multiple_confirms_and_unknown_ones() -> None:
    client, channel = client_channel()
    channel.confirm_select()
    client.receive(octets("confirm.select-ok"), 0.0)
    handles = [channel.publish("", "q") for _ in range(5)]
    (one,) = client.receive(octets("basic.ack", delivery_tag=2, multiple=False), 0.0)
    assert one.handles == [handles[1]]
    (more,) = client.receive(octets("basic.ack", delivery_tag=3), 0.0)
    assert more.handles == [handles[0], handles[2]]
    assert more.accepted
    assert client.receive(octets("basic.ack", delivery_tag=3), 0.0) == []  # unknown: ignored
    assert client.strays == 1
    (rest,) = client.receive(octets("basic.nack", delivery_tag=0), 0.0)  # 0: all
    assert rest.handles == handles[3:]
    assert not rest.accepted
    assert not client.session.outgoing


def test_a_return_comes_before_its_confirm_and_finds_its_message() -> None:
    """RabbitMQ: basic.return, then the ack. Earlier messages may still be unconfirmed."""
    pair = Pair()
    ours, _ = pair.channel()
    ours.confirm_select()
    pair.run()
    handles = [ours.publish("", key, key.encode(), mandatory=True) for key in ("a", "b", "b", "c")]
    _, events = pair.run()
    pair.server.return_message(events[1])
    for event in events:
        pair.server.acknowledge(event)
    (returned, confirmed), _ = pair.run()
    assert isinstance(returned, amqp091.Returned)
    assert returned.handle is handles[1]
    assert returned.message.method.reply_code == 312
    assert handles[1].returned is returned.message  # type: ignore[union-attr]
    assert confirmed.handles == handles
    with pytest.raises(LocalProtocolError):
        pair.server.return_message(events[1])


def test_a_publish_that_closes_the_channel_is_never_confirmed() -> None:
    pair = Pair()
    ours, _ = pair.channel()
    ours.confirm_select()
    pair.run()
    handles = tuple(ours.publish("gone", "k") for _ in range(3))
    _, events = pair.run()
    closed = only(pair.server.refuse(events[0], 404, "no exchange 'gone' in vhost '/'"), amqp091.ChannelClosed)
    assert closed.code == 404
    (told,), _ = pair.run()
    assert told.resumable == handles
    assert list(pair.client.session.outgoing.values()) == list(handles)
    assert pair.server.acknowledge(events[1]) == []  # answers of a channel that is closed are dropped
    assert not pair.server.waits(events[1])
    assert not pair.server.data_to_send()


def test_answers_to_events_of_a_channel_that_was_closed_after_them_are_dropped() -> None:
    server, _ = server_channel()
    server.receive(octets("confirm.select"), 0.0)
    server.data_to_send()
    events = proceeded(server, server.receive(publish() + octets("channel.close"), 0.0))
    assert isinstance(events[-1], amqp091.ChannelClosed)
    assert server.undecided == 0
    server.return_message(events[0])
    server.acknowledge(events[0])
    server.reject(events[0])
    server.refuse(events[0], 404)
    assert names(server.data_to_send()) == ["channel.close-ok"]


def test_the_same_handle_after_sending_again() -> None:
    pair = Pair()
    ours, _ = pair.channel()
    ours.confirm_select()
    pair.run()
    handles = [ours.publish("e", "k", bytes((k,))) for k in range(3)]
    pair.run()
    gone = only(pair.client.close(immediate=True), Disconnected)
    assert list(gone.resumable) == handles
    again = Pair(session=amqp091.Session.restore(pair.client.session.snapshot()))
    assert [p.message.body_bytes() for p in again.client.session.outgoing.values()] == [b"\0", b"\1", b"\2"]
    channel, _ = again.channel()
    channel.confirm_select()
    again.run()
    kept = list(again.client.session.outgoing.values())
    for publication in kept:
        channel.resend(publication)
        with pytest.raises(LocalProtocolError):
            channel.resend(publication)
    _, events = again.run()
    assert [event.body_bytes() for event in events] == [b"\0", b"\1", b"\2"]
    for event in events:
        again.server.acknowledge(event)
    (confirmed,), _ = again.run()
    assert confirmed.handles == kept
    assert not again.client.session.outgoing


def test_a_session_is_replayed_from_its_changes() -> None:
    session = amqp091.Session(journaled=True)
    pair = Pair(session=session)
    ours, _ = pair.channel()
    ours.confirm_select()
    pair.run()
    for k in range(3):
        ours.publish("e", "k", bytes((k,)))
    changes = pair.client.changes()
    _, events = pair.run()
    pair.server.acknowledge(events[1])
    pair.run()
    changes += pair.client.changes()
    again = amqp091.Session.replay(changes)
    assert [p.message.body_bytes() for p in again.outgoing.values()] == [b"\0", b"\2"]
    with pytest.raises(DecodeError):
        amqp091.Session.restore(b"nonsense")
    with pytest.raises(LocalProtocolError):
        amqp091.ClientConnection(0.0, session)  # it belongs to the first connection


def test_the_window_of_unconfirmed_publishes() -> None:
    client, channel = client_channel(OPTIONS(unconfirmed=2))
    channel.confirm_select()
    client.receive(octets("confirm.select-ok"), 0.0)
    channel.publish("", "q")
    channel.publish("", "q")
    assert channel.send_quota == 0
    with pytest.raises(LocalProtocolError):
        channel.publish("", "q")
    _, opened = client.receive(octets("basic.ack", delivery_tag=1, multiple=False), 0.0)
    assert opened == WindowOpened(1, channel)
    assert channel.publish("", "q").tag == 3


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (publish(immediate=True), 540),
        (octets("basic.qos", prefetch_size=1), 540),
        (octets("basic.recover", requeue=False), 540),
        (octets("basic.recover-async", requeue=False), 540),
        (octets("tx.commit"), 406),
        (octets("tx.rollback"), 406),
        (octets("confirm.select") + octets("tx.select"), 406),
        (octets("tx.select") + octets("confirm.select"), 406),
        (octets("basic.ack", delivery_tag=1, multiple=False), 406),
        (octets("basic.ack", delivery_tag=0, multiple=False), 406),
        (octets("basic.ack", delivery_tag=1, multiple=True), 406),
        (octets("basic.nack", delivery_tag=1, multiple=True), 406),
        (octets("basic.reject", delivery_tag=1), 406),
    ],
)
def test_codes_of_faults(said: bytes, code: int) -> None:
    """RabbitMQ's codes. Soft errors close the channel, hard errors the connection."""
    server, _channel = server_channel()
    gone: Any = server.receive(said, 0.0)[-1]
    assert gone.code == code
    assert isinstance(gone.error, RemoteProtocolError)
    soft = code == 406
    assert isinstance(gone, amqp091.ChannelClosed if soft else Disconnected)
    assert (server.state is State.OPEN) is soft
    close = frames(server.data_to_send())[-1]
    assert close.reply_code == code
    assert (close.class_id, close.method_id) != (0, 0)


def test_a_message_larger_than_allowed_is_406() -> None:
    server, _ = server_channel(OPTIONS(message_size=10))
    closed = only(server.receive(publish(b"x" * 11), 0.0), amqp091.ChannelClosed)
    assert (closed.code, server.state) == (406, State.OPEN)


def test_one_confirm_for_many_does_not_include_what_is_rejected() -> None:
    pair = Pair()
    ours, _ = pair.channel()
    ours.confirm_select()
    pair.run()
    handles = [ours.publish("", "q") for _ in range(3)]
    _, events = pair.run()
    pair.server.acknowledge(events[0])
    pair.server.acknowledge(events[2])
    pair.server.reject(events[1])
    confirmed, _ = pair.run()
    accepted = {handle.tag: event.accepted for event in confirmed for handle in event.handles}
    assert accepted == {1: True, 2: False, 3: True}
    assert len(handles) == 3
