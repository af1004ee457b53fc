"""AMQP 0.9.1: the methods of a channel take effect and are answered in their order, also if the host decides late."""

from __future__ import annotations

from typing import Any

import pytest

from lib.amqp091_channel import frames, names, publish, server_channel
from lib.amqp091_driven import octets, proceeded
from lib.kinds import only
from wirefmt import amqp091
from wirefmt.connection import Disconnected

#: Methods that a server answers at once, with what has to come before them.
AT_ONCE = [
    ([], "basic.qos", {"prefetch_count": 3}),
    ([], "channel.flow", {"active": True}),
    ([], "confirm.select", {}),
    ([], "tx.select", {}),
    (["tx.select"], "tx.rollback", {}),
    ([], "basic.recover", {"requeue": True}),
    ([], "basic.cancel", {"consumer_tag": "c"}),
    ([], "access.request", {}),
    ([], "channel.close", {}),
]


@pytest.mark.parametrize(("before", "method", "fields"), AT_ONCE, ids=[method for _, method, _ in AT_ONCE])
@pytest.mark.parametrize("pieces", [1, 2], ids=["together", "apart"])
@pytest.mark.parametrize("request_name", ["queue.declare", "basic.get", "basic.consume"])
def test_methods_of_a_channel_are_answered_in_their_order(
    before: list[str], method: str, fields: dict[str, Any], pieces: int, request_name: str
) -> None:
    """4.7: the host decides late about a request; what is answered without it waits."""
    server, _ = server_channel()
    for name in before:
        server.receive(octets(name), 0.0)
    server.data_to_send()
    request = octets(request_name) if request_name == "queue.declare" else octets(request_name, queue="q")
    parts = [request, octets(method, **fields)]
    events: list[Any] = []
    for part in parts if pieces == 2 else [b"".join(parts)]:
        events += server.receive(part, 0.0)
    (asked,) = events
    assert server.data_to_send() == b""
    server.reply(asked)
    answer = "basic.get-empty" if request_name == "basic.get" else f"{request_name}-ok"
    assert names(server.data_to_send()) == [answer, f"{method}-ok"]
    assert server.undecided == 0


@pytest.mark.parametrize(("before", "method", "fields"), AT_ONCE, ids=[method for _, method, _ in AT_ONCE])
@pytest.mark.parametrize("pieces", [1, 2], ids=["together", "apart"])
@pytest.mark.parametrize("held", [False, True], ids=["", "after a request"])
@pytest.mark.parametrize("refused", [True, False])
def test_methods_wait_for_the_messages_before_them(
    before: list[str], method: str, fields: dict[str, Any], pieces: int, held: bool, refused: bool
) -> None:
    """4.7: the host may refuse a message, which closes the channel: nothing after it has been answered then."""
    server, _ = server_channel()
    for name in before:
        server.receive(octets(name), 0.0)
    server.data_to_send()
    parts = [(octets("queue.declare") if held else b"") + publish(), octets(method, **fields) + octets("basic.qos")]
    if method == "channel.close":
        parts[1] = octets(method)
    events: list[Any] = []
    for part in parts if pieces == 2 else [b"".join(parts)]:
        events += server.receive(part, 0.0)
    if held:
        events = server.reply(events[0])
        assert names(server.data_to_send()) == ["queue.declare-ok"]
    message, waits = events
    assert (type(waits), waits.channel) == (amqp091.ChannelWaits, 1)
    assert server.data_to_send() == b""
    if refused:
        closed = only(server.refuse(message, 404, "no exchange"), amqp091.ChannelClosed)
        assert (closed.by, closed.code) == ("local", 404)
        assert server.proceed(waits) == []
        crossed = ["channel.close-ok"] if method == "channel.close" else []
        assert names(server.data_to_send()) == ["channel.close", *crossed]
    else:
        server.proceed(waits)
        assert server.proceed(waits) == []
        more = [] if method == "channel.close" else ["basic.qos-ok"]
        assert names(server.data_to_send()) == [f"{method}-ok", *more]
    assert server.undecided == 0


def test_methods_take_effect_after_a_request() -> None:
    """The prefetch of a consumer is that of the last basic.qos before it, and a message before confirm.select has no confirm."""
    server, channel = server_channel()
    one = octets("basic.consume", queue="q", consumer_tag="one")
    two = octets("basic.consume", queue="q", consumer_tag="two")
    qos = octets("basic.qos", prefetch_count=5)
    (asked,) = server.receive(one + qos + publish() + octets("confirm.select") + publish() + two + publish(), 0.0)
    plain, confirmed, asked_two = proceeded(server, server.reply(asked))[1:]
    assert not server.waits(plain)
    server.acknowledge(confirmed)
    (third,) = server.reply(asked_two)
    assert server.waits(third)
    assert (channel.consumers["one"].prefetch, channel.consumers["two"].prefetch) == (0, 5)
    assert names(server.data_to_send()) == [
        "basic.consume-ok",
        "basic.qos-ok",
        "confirm.select-ok",
        "basic.ack",
        "basic.consume-ok",
    ]


def test_a_request_holds_up_its_own_channel_only() -> None:
    server, _ = server_channel()
    server.receive(octets("channel.open", channel=2), 0.0)
    server.data_to_send()
    server.receive(octets("queue.declare") + octets("basic.qos") + octets("basic.qos", channel=2), 0.0)
    assert [frame.channel for frame in frames(server.data_to_send())] == [2]


@pytest.mark.parametrize("end", ["connection.close", "fault", "eof"])
def test_what_waits_for_a_request_is_handed_over_when_the_client_ends_the_connection(end: str) -> None:
    """A message that was published before the end is the host's."""
    server, _ = server_channel()
    sent = octets("queue.declare") + publish() + octets("queue.declare") + publish()
    events = server.receive(sent, 0.0)
    assert len(events) == 1
    if end == "eof":
        events += server.receive_eof(0.0)
    else:
        events += server.receive(octets("connection.close") if end == "connection.close" else b"\x09" * 8, 0.0)
    kinds = [amqp091.QueueDeclare, amqp091.BasicMessage, amqp091.QueueDeclare, amqp091.BasicMessage, Disconnected]
    assert [type(event) for event in events] == kinds
    assert server.undecided == 0


def test_a_fault_after_a_request_is_answered_after_it() -> None:
    """A soft fault closes the channel, and what follows it is dropped; a hard one closes the connection."""
    server, _ = server_channel()
    (asked,) = server.receive(octets("queue.declare") + octets("basic.ack", delivery_tag=9) + publish(), 0.0)
    closed = only(server.reply(asked), amqp091.ChannelClosed)
    assert (type(closed), closed.code) == (amqp091.ChannelClosed, 406)
    assert names(server.data_to_send()) == ["queue.declare-ok", "channel.close"]
    server, _ = server_channel()
    (asked,) = server.receive(octets("queue.declare") + octets("channel.open") + publish(), 0.0)
    (ended,) = server.reply(asked)
    assert isinstance(ended, Disconnected)
    assert names(server.data_to_send()) == ["queue.declare-ok", "connection.close"]
    assert server.undecided == 0


@pytest.mark.parametrize("request_name", ["queue.declare", "basic.get"])
def test_an_answer_to_a_request_of_a_channel_that_the_host_has_closed_is_dropped(request_name: str) -> None:
    server, channel = server_channel()
    (request,) = server.receive(octets(request_name) + publish() + octets("channel.close"), 0.0)
    closed = only(channel.close(320, "maintenance"), amqp091.ChannelClosed)
    assert closed.by == "local"
    assert server.undecided == 0
    assert server.reply(request) == []
    assert server.refuse(request, 404) == []
    assert names(server.data_to_send()) == ["channel.close", "channel.close-ok"]  # the closes have crossed


@pytest.mark.parametrize("room", range(1, 8))
def test_what_waits_behind_messages_counts_once(room: int) -> None:
    """Three channels, on each a message and a method that waits until the host has seen it: reading stops at the limit."""
    server, _ = server_channel(amqp091.ConnectionOptions(undecided=room))
    for number in (2, 3):
        server.receive(octets("channel.open", channel=number), 0.0)
    parts = [part for n in (1, 2, 3) for part in (publish(channel=n), *[octets("basic.qos", channel=n)] * 3)]
    events = server.receive(b"".join(parts), 0.0)
    assert 0 < server.undecided <= room
    while waits := [event for event in events if type(event) is amqp091.ChannelWaits]:
        events = [event for asked in waits for event in server.proceed(asked)]
        assert server.undecided <= room
    assert names(server.data_to_send()).count("basic.qos-ok") == 9
    assert server.undecided == 0
