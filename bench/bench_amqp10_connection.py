"""Deliveries of 256 octets received and accepted, and messages sent with their outcome, through a client connection.

    python bench/bench_amqp10_connection.py

All connections get the same bytes of a server, recorded beforehand, in reads of 64 KiB (azure's: frame by frame from
memory), and their output is taken after each read. The peers are proton's engine (python-qpid-proton) and azure's pyamqp (of
azure-eventhub), if they can be imported. azure's client searches all pending messages for each outcome, so it has 10 of them,
and ours is measured with 10 beside it.
CPU time of the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ratios import compare, versions

from wirefmt import amqp10
from wirefmt.connection import Acknowledged

try:
    import proton
except ImportError:
    proton = None
try:
    from azure.eventhub import _pyamqp as azure
    from azure.eventhub._pyamqp import _transport as azure_transport
    from azure.eventhub._pyamqp import message as azure_message
    from azure.eventhub._pyamqp import outcomes as azure_outcomes
except ImportError:
    azure = None

COUNT = 5000
SIZE = 256
READ = 1 << 16
PENDING = 10
OPTIONS = amqp10.ConnectionOptions(idle_timeout=None, incoming_window=1 << 30)
MESSAGE = amqp10.Message(body=bytes(SIZE - 5)).encode()


def opening(*, receives: bool, channel: int = 0) -> bytes:
    """What the server says first, with all fields, which pyamqp needs; receives: the client
    receives; channel: the client's."""
    fields: Any = {"properties": {"product": "bench"}}
    frames: list[Any] = [
        amqp10.ProtocolHeader(),
        amqp10.Open(container_id="s", max_frame_size=65536, **fields),
        amqp10.Begin(
            remote_channel=channel, next_outgoing_id=0, incoming_window=1 << 30, outgoing_window=1 << 30, **fields
        ),
        amqp10.Attach(
            name="l",
            handle=0,
            role=not receives,
            source=amqp10.Source(address="q"),
            target=amqp10.Target(address="q"),
            initial_delivery_count=0 if receives else None,
            **fields,
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
                echo=False,
            )
        )
    return b"".join(frame.encode() for frame in frames)


TRANSFERS = b"".join(
    amqp10.Transfer(
        handle=0,
        delivery_id=n,
        delivery_tag=n.to_bytes(4),
        message_format=0,
        settled=False,
        more=False,
        batchable=False,
        payload=MESSAGE,
    ).encode()
    for n in range(COUNT)
)
EACH = [amqp10.Disposition(role=True, first=n, settled=True, state=amqp10.Accepted()).encode() for n in range(COUNT)]
DISPOSITIONS = b"".join(EACH)
DISPOSITIONS_OF_FEW = [b"".join(EACH[at : at + PENDING]) for at in range(0, COUNT, PENDING)]


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


def ours_sends_few() -> None:
    """With PENDING messages on their way."""
    client, link = ours(receives=False)
    count = 0
    for some in DISPOSITIONS_OF_FEW:
        for _ in range(PENDING):
            link.send(MESSAGE)
        client.data_to_send()
        count += sum(type(event) is Acknowledged for event in client.receive(some, 0.0))
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


# ---- azure


def memory(data: bytes) -> Any:
    """A transport of pyamqp whose peer has said this."""

    class Memory(azure_transport._AbstractTransport):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("memory")
            self.said, self.at, self.sent = memoryview(data), 0, 0
            self.connected = True

        def connect(self) -> None: ...
        def close(self) -> None: ...

        def _read(self, n: int, initial: bool = False, buffer: Any = None, _errnos: Any = None) -> Any:
            if self.at + n > len(self.said):
                raise TimeoutError
            buffer[:n] = self.said[self.at : self.at + n]
            self.at += n
            return buffer[:n]

        def _write(self, data: bytes) -> None:
            self.sent += len(data)

    return Memory()


def azure_link(*, receives: bool, said: bytes, **fields: Any) -> tuple[Any, Any, Any]:
    transport = memory(opening(receives=receives, channel=1) + said)
    connection = azure._connection.Connection("amqp://memory", container_id="c", transport=transport)
    connection.open()
    session = connection.create_session(incoming_window=1 << 30, outgoing_window=1 << 30)
    session.begin()
    make = session.create_receiver_link if receives else session.create_sender_link
    link = make("q", name="l", link_credit=COUNT, **fields)
    link.attach()
    while link.state is not azure.constants.LinkState.ATTACHED:
        connection.listen()
    return connection, transport, link


def azure_receives() -> None:
    count = 0
    accepted = azure_outcomes.Accepted()

    def arrived(_: Any, message: Any) -> Any:
        nonlocal count
        count += len(message.data[0]) == SIZE - 5
        return accepted

    connection, transport, _ = azure_link(receives=True, said=TRANSFERS, on_transfer=arrived)
    while transport.at < len(transport.said):
        connection.listen(batch=200)
    assert count == COUNT, count


def azure_sends() -> None:
    count = 0

    def settled(_: Any, state: Any) -> None:
        nonlocal count
        count += "accepted" in state

    connection, _, link = azure_link(
        receives=False, said=DISPOSITIONS, send_settle_mode=azure.constants.SenderSettleMode.Unsettled
    )
    connection.listen()  # the flow
    message = azure_message.Message(data=[bytes(SIZE - 5)])
    for _ in DISPOSITIONS_OF_FEW:
        for _ in range(PENDING):
            link.send_transfer(message, on_send_complete=settled)
        connection.listen(batch=PENDING)
    assert count == COUNT, count


if __name__ == "__main__":
    print(versions("wirefmt", "python-qpid-proton", "azure-eventhub"))
    receiving: dict[str, Callable[[], object]] = {"wirefmt": ours_receives}
    sending: dict[str, Callable[[], object]] = {"wirefmt": ours_sends}
    few: dict[str, Callable[[], object]] = {f"wirefmt, {PENDING} pending": ours_sends_few}
    if proton is not None:
        receiving["proton"], sending["proton"] = proton_receives, proton_sends
    if azure is not None:
        receiving["azure's pyamqp"], few[f"azure's pyamqp, {PENDING} pending"] = azure_receives, azure_sends
    for title, contestants in (
        ("AMQP 1.0: transfer received and accepted", receiving),
        ("AMQP 1.0: message sent, and its outcome", sending),
        ("AMQP 1.0: message sent, and its outcome, few at a time", few),
    ):
        compare(title, contestants, units=COUNT, clock=time.process_time)
