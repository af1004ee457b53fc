"""How much does a message cost in the connection code of a client: delivered and acknowledged, published and confirmed?

    python bench/bench_amqp091_connection.py

Peers: pika's Connection with its Channel, py-amqp's Connection, aiormq's Connection if it is installed (pip install aiormq), all
over a transport in memory. All read the same bytes of a server in pieces of 64 KiB, bodies have 256 bytes, and every byte written
counts. Each run has its own connection, with the handshake. What is measured is CPU time. aiormq's connection cannot be
separated from asyncio: its tasks and queues are part of what it costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import amqp
import pika
from amqp.transport import TCPTransport
from pika.connection import Connection
from ratios import compare, versions

from wirefmt import amqp091
from wirefmt.connection import Connected

COUNT = 2000
BODY = bytes(range(256))
PIECE = 1 << 16
OPTIONS = amqp091.ConnectionOptions(heartbeat=0)

logging.disable(logging.CRITICAL)


def handshake() -> list[bytes]:
    """What a server says: start; tune; open-ok. Recorded from ours."""
    client, server = amqp091.ClientConnection(0.0, options=OPTIONS), amqp091.ServerConnection(0.0, OPTIONS)
    client.open()
    said: list[bytes] = []
    while client.negotiated is None:
        for event in server.receive(client.data_to_send(), 0.0):
            if not isinstance(event, Connected):
                server.accept(event)
        said.append(server.data_to_send())
        client.receive(said[-1], 0.0)
    return said


START, TUNE, OPEN_OK = handshake()
CHANNEL_OPEN_OK = amqp091.ChannelOpenOk(channel=1).encode()
CONSUME_OK = amqp091.BasicConsumeOk(channel=1, consumer_tag="c").encode()
SELECT_OK = amqp091.ConfirmSelectOk(channel=1).encode()
PROPERTIES = amqp091.BasicProperties(content_type="application/json", delivery_mode=2)


def pieces(data: bytes) -> list[bytes]:
    return [data[at : at + PIECE] for at in range(0, len(data), PIECE)]


DELIVERIES = pieces(
    b"".join(
        amqp091.BasicMessage(
            amqp091.BasicDeliver(channel=1, consumer_tag="c", delivery_tag=k, exchange="e", routing_key="orders"),
            PROPERTIES,
            BODY,
        ).encode()
        for k in range(1, COUNT + 1)
    )
)
#: The server confirms in groups, as RabbitMQ does for a client that publishes without a pause.
GROUP = 50
CONFIRMS = [amqp091.BasicAck(channel=1, delivery_tag=k, multiple=True).encode() for k in range(GROUP, COUNT + 1, GROUP)]


# ---- ours


def ours_open() -> tuple[amqp091.ClientConnection, amqp091.ClientChannel]:
    client = amqp091.ClientConnection(0.0, options=OPTIONS)
    client.open()
    client.receive(START + TUNE + OPEN_OK, 0.0)
    return client, client.open_channel(1)


def ours_deliver() -> int:
    message: Any
    client, channel = ours_open()
    channel.consume("q", "c")
    client.receive(CHANNEL_OPEN_OK + CONSUME_OK, 0.0)
    client.data_to_send()
    written = taken = 0
    for piece in DELIVERIES:
        for message in client.receive(piece, 0.0):
            taken += len(message.body_bytes()) == 256
            channel.ack(message.method.delivery_tag)
        written += len(client.data_to_send())
    assert taken == COUNT
    return written


def ours_publish() -> int:
    event: Any
    client, channel = ours_open()
    channel.confirm_select()
    client.receive(CHANNEL_OPEN_OK + SELECT_OK, 0.0)
    written = confirmed = 0
    for confirm in CONFIRMS:
        for _ in range(GROUP):
            channel.publish("e", "orders", BODY, PROPERTIES)
        written += len(client.data_to_send())
        for event in client.receive(confirm, 0.0):
            confirmed += len(event.handles)
    assert confirmed == COUNT
    return written


# ---- pika


class Wire(Connection):  # type: ignore[misc]
    """pika's connection over nothing: bytes written are counted."""

    def __init__(self) -> None:
        self.written = 0
        super().__init__(
            pika.ConnectionParameters(heartbeat=0), lambda c: None, None, None, internal_connection_workflow=False
        )
        self._on_stream_connected()

    def _adapter_emit_data(self, data: bytes) -> None:
        self.written += len(data)

    def _adapter_call_later(self, delay: float, callback: Callable[..., Any]) -> object:
        return object()

    def _adapter_remove_timeout(self, timeout_id: object) -> None: ...

    def _adapter_add_callback_threadsafe(self, callback: Callable[..., Any]) -> None:
        callback()

    def _adapter_connect_stream(self) -> None: ...

    def _adapter_disconnect_stream(self) -> None: ...


def pika_open() -> tuple[Wire, Any]:
    wire = Wire()
    for said in (START, TUNE, OPEN_OK):
        wire._on_data_available(said)
    assert wire.is_open
    channel = wire.channel(1, on_open_callback=lambda c: None)
    wire._on_data_available(CHANNEL_OPEN_OK)
    return wire, channel


def pika_deliver() -> int:
    wire, channel = pika_open()
    taken = 0

    def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        nonlocal taken
        taken += len(body) == 256
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume("q", take, consumer_tag="c")
    wire._on_data_available(CONSUME_OK)
    for piece in DELIVERIES:
        wire._on_data_available(piece)
    assert taken == COUNT
    return wire.written


def pika_publish() -> int:
    wire, channel = pika_open()
    confirmed: list[int] = []
    channel.confirm_delivery(lambda frame: confirmed.append(frame.method.delivery_tag))
    wire._on_data_available(SELECT_OK)
    properties = pika.BasicProperties(content_type="application/json", delivery_mode=2)
    for confirm in CONFIRMS:
        for _ in range(GROUP):
            channel.basic_publish("e", "orders", BODY, properties)
        wire._on_data_available(confirm)
    assert len(confirmed) == COUNT // GROUP
    return wire.written


# ---- py-amqp


class Memory(TCPTransport):  # type: ignore[misc]
    """py-amqp's transport, its socket replaced by bytes in memory."""

    def __init__(self, says: Iterator[bytes]) -> None:
        super().__init__("localhost:5672")
        self.says = says
        self.written = 0
        self.polling = False

    def connect(self) -> None:
        self.connected = True
        self.raise_on_initial_eintr = False
        self._read_buffer = b""
        self._quick_recv = self.receive
        self._write = self.count

    def receive(self, size: int) -> bytes:
        if self.polling:
            raise TimeoutError
        return next(self.says)

    def count(self, data: Any) -> None:
        self.written += len(data)

    @contextlib.contextmanager
    def having_timeout(self, timeout: float | None) -> Iterator[None]:
        self.polling = timeout == 0
        try:
            yield
        finally:
            self.polling = False

    def close(self) -> None:
        self.connected = False


def py_amqp_open(says: list[bytes], **more: Any) -> tuple[Any, Any, Memory]:
    memory = Memory(iter([START, TUNE, OPEN_OK, CHANNEL_OPEN_OK, *says]))
    connection = amqp.Connection(heartbeat=0, **more)
    connection.Transport = lambda *args, **more: memory
    connection.connect()
    return connection, connection.channel(1), memory


def py_amqp_deliver() -> int:
    connection, channel, memory = py_amqp_open([CONSUME_OK, *DELIVERIES])
    taken = 0

    def take(message: Any) -> None:
        nonlocal taken
        taken += len(message.body) == 256
        channel.basic_ack(message.delivery_tag)

    channel.basic_consume("q", "c", callback=take)
    while taken < COUNT:
        connection.drain_events()
    return memory.written


def py_amqp_publish() -> int:
    """Its confirms are waited for one by one with confirm_publish; here the mode is selected and they are read in groups."""
    connection, channel, memory = py_amqp_open([SELECT_OK, *CONFIRMS])
    channel.confirm_select()
    for _ in CONFIRMS:
        for _ in range(GROUP):
            message = amqp.Message(BODY, content_type="application/json", delivery_mode=2)
            channel.basic_publish(message, exchange="e", routing_key="orders")
        connection.drain_events()
    return memory.written


# ---- aiormq


class Loopback:
    """A stream in memory: each write brings the next bytes of the server. Both transport factory and writer."""

    transport = None

    def __init__(self, says: list[bytes]) -> None:
        self.says = says
        self.reader = asyncio.StreamReader(limit=1 << 24)
        self.written = 0

    async def create(self, url: Any, **more: Any) -> tuple[asyncio.StreamReader, Any]:
        return self.reader, self

    def write(self, data: bytes) -> None:
        self.written += len(data)
        if self.says:
            self.reader.feed_data(self.says.pop(0))

    async def drain(self) -> None: ...

    async def wait_closed(self) -> None: ...

    def close(self) -> None: ...

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return False


async def aiormq_open(says: list[bytes], *, confirms: bool) -> tuple[Any, Any, Loopback]:
    import aiormq

    # in answer to: the header, start-ok, tune-ok, open, channel.open
    loopback = Loopback([START, TUNE, b"", OPEN_OK, CHANNEL_OPEN_OK, *says])
    connection = aiormq.Connection("amqp://guest:guest@localhost/?heartbeat=0", transport_factory=loopback)
    await connection.connect()
    return connection, await connection.channel(1, publisher_confirms=confirms), loopback


async def aiormq_close() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def aiormq_delivers() -> int:
    _, channel, loopback = await aiormq_open([CONSUME_OK], confirms=False)
    taken, done = 0, asyncio.Event()

    async def take(message: Any) -> None:
        nonlocal taken
        taken += len(message.body) == 256
        await channel.basic_ack(message.delivery.delivery_tag, wait=False)
        if taken == COUNT:
            done.set()

    await channel.basic_consume("q", take, consumer_tag="c")
    for piece in DELIVERIES:
        loopback.reader.feed_data(piece)
    await done.wait()
    await aiormq_close()
    return loopback.written


async def aiormq_publishes() -> int:
    import aiormq

    _, channel, loopback = await aiormq_open([SELECT_OK], confirms=True)
    properties = aiormq.spec.Basic.Properties(content_type="application/json", delivery_mode=2)
    for confirm in CONFIRMS:
        publishes = [
            asyncio.ensure_future(
                channel.basic_publish(BODY, exchange="e", routing_key="orders", properties=properties, wait=False)
            )
            for _ in range(GROUP)
        ]
        while channel.delivery_tag < GROUP * (CONFIRMS.index(confirm) + 1):
            await asyncio.sleep(0)
        loopback.reader.feed_data(confirm)
        await asyncio.gather(*publishes)
    await aiormq_close()
    return loopback.written


def aiormq_deliver() -> int:
    return asyncio.run(aiormq_delivers())


def aiormq_publish() -> int:
    return asyncio.run(aiormq_publishes())


if __name__ == "__main__":
    print(versions("wirefmt", "pika", "amqp", "aiormq"))
    more = importlib.util.find_spec("aiormq") is not None
    for title, contestants in (
        (
            "AMQP 0.9.1 client: delivered and acknowledged, 256 bytes",
            {
                "wirefmt": ours_deliver,
                "pika": pika_deliver,
                "py-amqp": py_amqp_deliver,
                **({"aiormq": aiormq_deliver} if more else {}),
            },
        ),
        (
            "AMQP 0.9.1 client: published and confirmed, 256 bytes",
            {
                "wirefmt": ours_publish,
                "pika": pika_publish,
                "py-amqp": py_amqp_publish,
                **({"aiormq": aiormq_publish} if more else {}),
            },
        ),
    ):
        compare(title, contestants, units=COUNT, rounds=5, clock=time.process_time)
