"""AMQP 0.9.1: one open channel of a client, of a server or of both, and frames written by hand."""

from __future__ import annotations

from typing import Any

from lib.amqp091_driven import Pair, client_in, octets, server_in
from wirefmt import amqp091
from wirefmt.amqp091.states import State


def frames(data: bytes) -> list[Any]:
    """Decode frames of any size."""
    return amqp091.Decoder(frame_max=0).feed(data)


def names(data: bytes) -> list[str]:
    """The names of methods, and the classes of other frames."""
    return [frame.name if isinstance(frame, amqp091.Method) else type(frame).__name__ for frame in frames(data)]


def server_channel(
    options: amqp091.ConnectionOptions | None = None,
) -> tuple[amqp091.ServerConnection, amqp091.ServerChannel]:
    """An open server, and its channel 1."""
    server = server_in(State.OPEN, options)
    server.receive(octets("channel.open"), 0.0)
    server.data_to_send()
    return server, server.channels[1]


def client_channel(options: amqp091.ConnectionOptions | None = None) -> tuple[Any, Any]:
    """An open client, and its channel 1."""
    client = client_in(State.OPEN, options)
    channel = client.open_channel(1)
    client.receive(octets("channel.open-ok"), 0.0)
    client.data_to_send()
    return client, channel


def publish(body: bytes = b"body", channel: int = 1, **fields: Any) -> bytes:
    """The frames of a message that a client publishes."""
    return amqp091.BasicMessage(amqp091.BasicPublish(channel=channel, **fields), None, body).encode()


def deliver(tag: int, body: bytes = b"body", channel: int = 1, consumer: str = "c") -> bytes:
    """The frames of a message that a server delivers."""
    deliver = amqp091.BasicDeliver(
        channel=channel, consumer_tag=consumer, delivery_tag=tag, exchange="", routing_key="q"
    )
    return amqp091.BasicMessage(deliver, None, body).encode()


def consuming(prefetch: int = 0, shared: bool = False, no_ack: bool = False) -> tuple[Pair, Any, Any]:
    """A pair, and the two views of a channel on which the client consumes."""
    pair = Pair()
    ours, theirs = pair.channel()
    if prefetch:
        ours.qos(prefetch, shared=shared)
    ours.consume("q", "c", no_ack=no_ack)
    _, events = pair.run()
    pair.server.reply(events[-1])
    pair.run()
    return pair, ours, theirs


def transactional() -> tuple[Pair, Any, Any]:
    """`consuming`, in a transaction."""
    pair, ours, theirs = consuming()
    ours.call(amqp091.TxSelect)
    pair.run()
    return pair, ours, theirs
