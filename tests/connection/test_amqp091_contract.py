"""AMQP 0.9.1: the contract of all connections without I/O: sending, pausing, the end of the stream, options."""

from __future__ import annotations

from typing import Any

import pytest

from lib.amqp091_channel import client_channel, server_channel
from lib.amqp091_driven import method, octets
from lib.kinds import exactly
from wirefmt import amqp091
from wirefmt.connection import Disconnected
from wirefmt.errors import DecodeError, LocalProtocolError

OPTIONS = amqp091.ConnectionOptions


def test_a_send_that_is_refused_changes_nothing() -> None:
    client, channel = client_channel()
    wrong: list[Any] = [
        method("queue.declare-ok"),
        method("queue.declare", channel=2),
        method("connection.close-ok"),
        amqp091.ProtocolHeader(),
        method("basic.qos", prefetch_size=5),
        method("basic.recover", requeue=False),
        method("basic.deliver"),
        amqp091.BasicMessage(amqp091.BasicPublish(channel=1, immediate=True)),
        method("basic.consume", consumer_tag="", nowait=True),
        object(),
    ]
    for message in wrong:
        with pytest.raises(LocalProtocolError):
            client.send(message)
    assert not client.pending_bytes
    with pytest.raises(LocalProtocolError):
        channel.call(amqp091.QueueDeclare, queue=5)
    with pytest.raises(LocalProtocolError):
        channel.publish("", "k" * 256)
    with pytest.raises(LocalProtocolError):
        client.open_channel(70_000)
    assert not client.pending_bytes


def test_pause_and_resume() -> None:
    server, _ = server_channel()
    server.pause()
    assert server.receive(octets("queue.declare"), 0.0) == []
    assert not server.wants_read
    (event,) = server.resume(1.0)
    assert isinstance(event, amqp091.QueueDeclare)
    server.pause()
    server.receive(b"the rest", 1.0)
    assert server.trailing_data == b"the rest"


def test_the_end_of_the_stream_is_read_after_what_waits() -> None:
    server, _ = server_channel(OPTIONS(undecided=1))
    (first,) = server.receive(octets("queue.declare") * 2, 0.0)
    assert server.receive_eof(0.0) == []
    second, gone = exactly(server.reply(first), amqp091.QueueDeclare, Disconnected)
    assert isinstance(second, amqp091.QueueDeclare)
    assert (gone.by, gone.reason) == ("transport", "the stream ended")


def test_messages_before_a_fault_come_before_it() -> None:
    server, _ = server_channel()
    first, gone = exactly(
        server.receive(octets("queue.declare") + b"\xff" * 20, 0.0), amqp091.QueueDeclare, Disconnected
    )
    assert isinstance(first, amqp091.QueueDeclare)
    assert isinstance(gone.error, DecodeError)


def test_large_bodies_are_not_joined() -> None:
    _, channel = client_channel()
    channel.publish("", "q", b"x" * 100_000)
    assert max(memoryview(b).nbytes for b in channel.connection.buffers_to_send()) >= 100_000


@pytest.mark.parametrize("values", [{"channel_max": 70000}, {"frame_max": 100}, {"undecided": 0}, {"first_frame": 10}])
def test_options_are_checked(values: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        OPTIONS(**values)
