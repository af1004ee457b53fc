"""Deliveries of 256 octets received and accepted, and messages sent with their outcome, through a client connection.

    python bench/bench_amqp10_connection.py

Both connections get the same bytes of a server, recorded beforehand, in reads of 64 KiB, and their output is taken after each
read. The peer is proton's engine (python-qpid-proton). CPU time of the process.
"""

from __future__ import annotations

import time
from typing import Any

import proton
from ratios import compare, versions

from wirefmt import amqp10
from wirefmt.connection import Acknowledged

COUNT = 5000
SIZE = 256
READ = 1 << 16
OPTIONS = amqp10.ConnectionOptions(idle_timeout=None, incoming_window=1 << 30)
MESSAGE = amqp10.Message(body=bytes(SIZE - 5)).encode()


def opening(*, receives: bool) -> bytes:
    """What the server says first; receives: the client receives."""
    frames: list[Any] = [
        amqp10.ProtocolHeader(),
        amqp10.Open(container_id="s", max_frame_size=65536),
        amqp10.Begin(remote_channel=0, next_outgoing_id=0, incoming_window=1 << 30, outgoing_window=1 << 30),
        amqp10.Attach(
            name="l",
            handle=0,
            role=not receives,
            source=amqp10.Source(address="q"),
            target=amqp10.Target(address="q"),
            initial_delivery_count=0 if receives else None,
        ),
    ]
    if not receives:
        frames.append(
            amqp10.Flow(
                next_incoming_id=0,
                incoming_window=1 << 30,
                next_outgoing_id=0,
                outgoing_window=0,
                handle=0,
                delivery_count=0,
                link_credit=COUNT,
            )
        )
    return b"".join(frame.encode() for frame in frames)


TRANSFERS = b"".join(
    amqp10.Transfer(
        handle=0, delivery_id=n, delivery_tag=n.to_bytes(4), message_format=0, settled=False, payload=MESSAGE
    ).encode()
    for n in range(COUNT)
)
DISPOSITIONS = b"".join(
    amqp10.Disposition(role=True, first=n, settled=True, state=amqp10.Accepted()).encode() for n in range(COUNT)
)


def reads(data: bytes) -> list[bytes]:
    return [data[at : at + READ] for at in range(0, len(data), READ)]


# ---- ours


def ours(*, receives: bool) -> tuple[amqp10.ClientConnection, Any]:
    client = amqp10.ClientConnection(0.0, "c", options=OPTIONS)
    client.open(pipelined=True)
    session = client.begin()
    link: Any = session.receiver("l", "q") if receives else session.sender("l", "q")
    if receives:
        link.grant(COUNT)
    client.receive(opening(receives=receives), 0.0)
    client.data_to_send()
    return client, link


def ours_receives() -> None:
    client, _ = ours(receives=True)
    count = 0
    for data in reads(TRANSFERS):
        for event in client.receive(data, 0.0):
            if type(event) is amqp10.Incoming:
                count += len(event.payload) == len(MESSAGE)
                client.accept(event)
        client.data_to_send()
    assert count == COUNT


def ours_sends() -> None:
    client, link = ours(receives=False)
    for _ in range(COUNT):
        link.send(MESSAGE)
    client.data_to_send()
    count = 0
    for data in reads(DISPOSITIONS):
        count += sum(type(event) is Acknowledged for event in client.receive(data, 0.0))
        client.data_to_send()
    assert count == COUNT


# ---- proton


def pushed(transport: Any, data: bytes) -> None:
    while data:
        room = min(transport.capacity(), len(data))
        transport.push(data[:room])
        data = data[room:]


def taken(transport: Any) -> None:
    while (pending := transport.pending()) > 0:
        transport.peek(pending)
        transport.pop(pending)


def engine(*, receives: bool) -> tuple[Any, Any, Any]:
    connection, transport, collector = proton.Connection(), proton.Transport(), proton.Collector()
    connection.collect(collector)
    transport.bind(connection)
    connection.container = "c"
    connection.open()
    session = connection.session()
    session.incoming_capacity = 1 << 30
    session.open()
    link = session.receiver("l") if receives else session.sender("l")
    link.source.address = link.target.address = "q"
    link.open()
    if receives:
        link.flow(COUNT)
    taken(transport)
    pushed(transport, opening(receives=receives))
    taken(transport)
    return transport, collector, link


def proton_receives() -> None:
    transport, collector, link = engine(receives=True)
    count = 0
    for data in reads(TRANSFERS):
        pushed(transport, data)
        while (event := collector.peek()) is not None:
            if event.type == proton.Event.DELIVERY:
                while (delivery := link.current) is not None and delivery.readable and not delivery.partial:
                    count += len(link.recv(delivery.pending)) == len(MESSAGE)
                    delivery.update(proton.Delivery.ACCEPTED)
                    delivery.settle()
            collector.pop()
        taken(transport)
    assert count == COUNT, count


def proton_sends() -> None:
    transport, collector, link = engine(receives=False)
    for n in range(COUNT):
        link.delivery(str(n))
        link.stream(MESSAGE)
        link.advance()
    taken(transport)
    count = 0
    for data in reads(DISPOSITIONS):
        pushed(transport, data)
        while (event := collector.peek()) is not None:
            if event.type == proton.Event.DELIVERY and event.delivery.updated:
                count += event.delivery.remote_state == proton.Delivery.ACCEPTED
                event.delivery.settle()
            collector.pop()
        taken(transport)
    assert count == COUNT, count


if __name__ == "__main__":
    print(versions("wirefmt", "python-qpid-proton"))
    clock = time.process_time
    compare(
        "AMQP 1.0: transfer received and accepted",
        {"wirefmt": ours_receives, "proton": proton_receives},
        units=COUNT,
        clock=clock,
    )
    compare(
        "AMQP 1.0: message sent, and its outcome",
        {"wirefmt": ours_sends, "proton": proton_sends},
        units=COUNT,
        clock=clock,
    )
