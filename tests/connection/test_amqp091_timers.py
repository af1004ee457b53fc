"""AMQP 0.9.1: heartbeats and deadlines; RabbitMQ's connection.blocked and connection.update-secret."""

from __future__ import annotations

from typing import Any

import pytest

from lib.amqp091_channel import names
from lib.amqp091_driven import Pair, client_in, octets, server_in
from lib.kinds import only
from wirefmt import amqp091
from wirefmt.amqp091.states import State
from wirefmt.connection import Disconnected
from wirefmt.errors import LocalProtocolError

OPTIONS = amqp091.ConnectionOptions


# ---- blocked, secrets (RabbitMQ)


def test_blocked_and_unblocked() -> None:
    pair = Pair()
    ours, _ = pair.channel()
    assert pair.server.block("low on memory")
    (blocked,), _ = pair.run()
    assert blocked.reason == "low on memory"
    with pytest.raises(LocalProtocolError):
        ours.publish("", "q")
    pair.server.unblock()
    (unblocked, opened), _ = pair.run()
    assert isinstance(unblocked, amqp091.ConnectionUnblocked)
    assert opened.view is ours
    ours.publish("", "q")
    plain = server_in(State.OPEN, capable=False)
    assert not plain.block("low")
    assert not plain.data_to_send()


def test_a_deadline_for_blocked() -> None:
    client = client_in(State.OPEN, OPTIONS(blocked_timeout=5, heartbeat=0))
    client.receive(octets("connection.blocked"), 10.0)
    client.handle_timeout(10.0)
    assert client.next_timeout() == 15.0
    gone = only(client.handle_timeout(15.0), Disconnected)
    assert gone.by == "local"


def test_update_secret() -> None:
    pair = Pair()
    call = pair.client.update_secret(b"token", "renewed")
    _, (event,) = pair.run()
    assert (event.new_secret, event.reason) == (b"token", "renewed")
    assert pair.server.undecided == 1
    pair.server.accept(event)
    (answer,), _ = pair.run()
    assert answer.handle is call
    pair.client.update_secret(b"token")
    _, (event,) = pair.run()
    gone = only(pair.server.refuse(event), Disconnected)
    assert gone.code == 530


# ---- heartbeats and timers (4.2.7)


def test_heartbeats_begin_with_tune_ok() -> None:
    server = server_in(State.OPENING, OPTIONS(heartbeat=10, handshake_timeout=1000))
    assert not server.data_to_send()
    when = server.next_timeout()
    assert when is not None
    server.handle_timeout(0.0)
    server.handle_timeout(4.9)
    assert not server.data_to_send()
    server.handle_timeout(5.0)
    assert names(server.data_to_send()) == ["Heartbeat"]


def test_a_heartbeat_when_nothing_else_is_sent() -> None:
    """RabbitMQ sends one after half an interval in which nothing was sent."""
    client = client_in(State.OPEN, OPTIONS(heartbeat=60))
    client.handle_timeout(0.0)
    sent: list[float] = []
    now = 0.0
    while now < 119 and (when := client.next_timeout()) is not None:
        now = when
        client.receive(amqp091.Heartbeat().encode(), now)
        client.handle_timeout(now)
        if client.data_to_send():
            sent.append(now)
    assert sent
    assert max(b - a for a, b in zip([0.0, *sent], sent, strict=False)) <= 30


def test_silence_of_two_intervals_ends_the_connection_without_a_close() -> None:
    for connection in (client_in(State.OPEN, OPTIONS(heartbeat=10)), server_in(State.OPEN, OPTIONS(heartbeat=10))):
        connection.handle_timeout(100.0)
        connection.receive(octets("channel.flow-ok")[:3], 110.0)  # a part of a frame counts
        connection.data_to_send()
        events: list[Any] = []
        while not events:
            when = connection.next_timeout()
            assert when is not None
            events = connection.handle_timeout(when)
        (gone,) = events
        assert when == 130.0
        assert gone.code is None
        assert set(names(connection.data_to_send())) <= {"Heartbeat"}


def test_silence_does_not_count_while_we_do_not_read() -> None:
    """A server that does not read does not disconnect a silent client."""
    server = server_in(State.OPEN, OPTIONS(heartbeat=10))
    server.handle_timeout(0.0)
    server.pause()
    for k in range(20):
        assert server.handle_timeout(k * 10.0) == []
    server.resume(200.0)
    assert server.handle_timeout(200.0) == []
    assert server.handle_timeout(219.9) == []
    (gone,) = server.handle_timeout(220.0)
    assert isinstance(gone, Disconnected)


def test_a_deadline_for_the_handshake() -> None:
    server = amqp091.ServerConnection(5.0)
    assert server.next_timeout() == 15.0
    gone = only(server.handle_timeout(15.0), Disconnected)
    assert gone.by == "local"
    assert server_in(State.OPEN, OPTIONS(heartbeat=0)).next_timeout() is None
