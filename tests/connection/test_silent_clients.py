"""Clients that connect and do not begin: servers of all protocols end these connections, also if some bytes come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lib.kinds import only
from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.connection.contract import Disconnected

#: Name, server, what a client says first (the beginning of a message, of which more would have to come).
SERVERS: list[tuple[str, Callable[[float], Any], bytes]] = [
    ("mqtt", lambda now: mqtt.ServerConnection(now), b"\x10\x7f\0\4MQTT\5" + bytes(100)),
    ("amqp091", lambda now: amqp091.ServerConnection(now), b"AMQP\0\0\x09\1" + b"\1\0\0\0\0\1\0" + bytes(100)),
    ("amqp10", lambda now: amqp10.ServerConnection(now, "broker"), b"AMQP\0\1\0\0" + b"\0\0\1\0\2\0\0\0" + bytes(100)),
    ("nsq", lambda now: nsq.ServerConnection(now), b"  V2IDENTIFY\n\0\0\1\0" + bytes(100)),
    ("rocketmq", lambda now: rocketmq.ServerConnection(now), b"\0\0\1\0\0\0\0\x80" + bytes(100)),
    (
        "phpmq",
        lambda now: phpmq.ServerConnection(now),
        phpmq.ConsumeRequest(queue_name="q" * 100, message_count=1).encode()[:-1],
    ),
]


def ended(events: list[Any]) -> bool:
    return any(isinstance(event, Disconnected) for event in events)


@pytest.mark.parametrize("trickling", [False, True], ids=["silent", "trickling"])
@pytest.mark.parametrize(("server", "begin"), [row[1:] for row in SERVERS], ids=[row[0] for row in SERVERS])
def test_a_client_that_does_not_begin_is_dropped(server: Callable[[float], Any], begin: bytes, trickling: bool) -> None:
    connection = server(0.0)
    events: list[Any] = []
    now, at = 0.0, 0
    while not ended(events):
        due = connection.next_timeout()
        assert due is not None
        assert now < 150.0, "the server waits for ever"
        if trickling and due > now + 2.0 and at < len(begin):
            now += 2.0
            events += connection.receive(begin[at : at + 1], now)
            at += 1
        else:
            now = due
            events += connection.handle_timeout(now)
    assert now <= 120.0
    assert next(event for event in events if isinstance(event, Disconnected)).error is None


def test_a_phpmq_client_that_has_begun_may_be_silent() -> None:
    connection = phpmq.ServerConnection(0.0)
    connection.receive(phpmq.ConsumeRequest(queue_name="q", message_count=1).encode(), 1.0)
    assert connection.next_timeout() is None


def test_a_silent_phpmq_client_is_dropped_if_asked_for() -> None:
    connection = phpmq.ServerConnection(0.0, phpmq.ConnectionOptions(idle_timeout=10.0))
    request = phpmq.ConsumeRequest(queue_name="q", message_count=1).encode()
    connection.receive(request, 1.0)
    connection.receive(request, 7.0)
    assert not ended(connection.handle_timeout(10.0))
    assert not ended(connection.handle_timeout(16.9))
    assert connection.next_timeout() == 17.0
    event = only(connection.handle_timeout(17.0), Disconnected)
    assert event.reason == "nothing has arrived within the idle timeout"


@pytest.mark.parametrize("module", [phpmq, rocketmq])
def test_the_first_message_ends_the_wait_for_it(module: Any) -> None:
    first: Any = {
        phpmq: phpmq.MessageClientToServer(queue_name="q", content=b"x"),
        rocketmq: rocketmq.RemotingCommand(code=105, opaque=1),
    }[module]
    connection = module.ServerConnection(0.0, module.ConnectionOptions(first_timeout=5.0, idle_timeout=None))
    assert connection.next_timeout() == 5.0
    connection.receive(first.encode(), 4.0)
    assert connection.next_timeout() is None
