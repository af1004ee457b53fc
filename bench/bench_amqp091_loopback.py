"""What does a broker's process cost for AMQP 0.9.1 messages over loopback?

    python bench/bench_amqp091_loopback.py                      ours, on both event loops, against RabbitMQ, 100,000 messages
    MESSAGES=1000000 python bench/bench_amqp091_loopback.py     the full figure

CPU seconds (user and system) of the broker's processes for each message. Five publishers, each with a queue of its own, and five
consumers; transient messages of 256 bytes, published to the default exchange. First without confirms and acknowledgements, then
with both, and a prefetch of WINDOW. One generator makes the load for all brokers: raw sockets, frames encoded beforehand, at most
WINDOW messages of a publisher on their way.

RabbitMQ is started as the tests do it, with ports and folders of its own, and with schedulers that do not spin while they wait
(+sbwt none).
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from brokers import LOOPS, cpu_seconds, running

from wirefmt import amqp091

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]
from lib.rabbitmq import SERVER, Broker  # noqa: E402

PAIRS = 5
BLOCK = 100
WINDOW = 1000
BODY = bytes(256)
PROPERTIES = amqp091.BasicProperties(content_type="application/octet-stream", delivery_mode=1)

OURS = """
import asyncio, {loop}
from wirefmt import amqp091
from wirefmt.broker.amqp091 import Broker
async def main():
    async with await amqp091.serve(Broker(), "127.0.0.1", {port}): await asyncio.Event().wait()
{loop}.run(main())
"""


def ours(port: int, folder: Path, loop: str = "asyncio") -> list[str]:
    return [sys.executable, "-c", OURS.format(port=port, loop=loop)]


class Quiet(Broker):
    """RabbitMQ whose schedulers sleep while they wait."""

    def configure(self) -> None:
        super().configure()
        self.environment["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"] += " +sbwt none +sbwtdcpu none +sbwtdio none"


@contextmanager
def rabbitmq() -> Iterator[tuple[int, int]]:
    """RabbitMQ: its port and process."""
    with tempfile.TemporaryDirectory() as folder:
        broker = Quiet(Path(folder))
        try:
            broker.start()
            time.sleep(5)  # what it does at its start is over
            assert broker.process is not None
            yield broker.port, broker.process.pid
        finally:
            broker.stop()


class Client:
    """One connection with one channel, by hand."""

    def __init__(self, port: int, queue: str, role: str, *, acknowledged: bool) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = amqp091.ClientConnection(0.0, options=amqp091.ConnectionOptions(heartbeat=0))
        self.connection.open()
        self.events = 0
        self.turn(lambda: self.connection.negotiated is not None)
        channel = self.connection.open_channel(1)
        calls: list[Any] = [channel.call(amqp091.QueueDeclare, queue=queue)]
        if role == "publisher" and acknowledged:
            calls.append(channel.confirm_select())
        if role == "consumer":
            if acknowledged:
                calls.append(channel.qos(WINDOW))
            calls.append(channel.consume(queue, "c", no_ack=not acknowledged))
        self.turn(lambda: self.events > len(calls) + 1)  # Connected, and the answers to channel.open and the calls
        self.socket.setblocking(False)

    def turn(self, done: Callable[[], bool]) -> None:
        while not done():
            self.socket.sendall(self.connection.data_to_send())
            self.events += len(self.connection.receive(self.socket.recv(1 << 16), 0.0))

    def send(self, block: bytes | memoryview) -> None:
        while block:
            try:
                block = block[self.socket.send(block) :]
            except BlockingIOError:
                time.sleep(0.001)


class Pair:
    """A publisher, a queue and its consumer."""

    def __init__(self, port: int, number: int, count: int, *, acknowledged: bool) -> None:
        queue = f"bench{number}"
        self.count, self.acknowledged = count, acknowledged
        self.publisher = Client(port, queue, "publisher", acknowledged=acknowledged)
        self.consumer = Client(port, queue, "consumer", acknowledged=acknowledged)
        method = amqp091.BasicPublish(channel=1, exchange="", routing_key=queue)
        self.block = amqp091.BasicMessage(method, PROPERTIES, BODY).encode() * BLOCK
        deliver = amqp091.BasicDeliver(channel=1, consumer_tag="c", delivery_tag=1, exchange="", routing_key=queue)
        self.size = len(amqp091.BasicMessage(deliver, PROPERTIES, BODY).encode())
        self.sent = self.received = self.confirmed = 0
        self.left = self.confirms = b""

    def publish(self) -> None:
        done = min(self.received, self.confirmed) if self.acknowledged else self.received
        while self.sent < self.count and self.sent + BLOCK - done <= WINDOW:
            self.publisher.send(self.block)
            self.sent += BLOCK

    def take(self) -> None:
        """What the consumer receives: all deliveries have the same size. They are acknowledged together."""
        data = self.left + self.consumer.socket.recv(1 << 18)
        whole = len(data) // self.size
        self.left = data[whole * self.size :]
        self.received += whole
        if self.acknowledged and whole:
            self.consumer.send(amqp091.BasicAck(channel=1, delivery_tag=self.received, multiple=True).encode())

    def take_confirms(self) -> None:
        """Confirms have 21 bytes. Several may come in any order, so what counts is how many messages they name."""
        data = self.confirms + self.publisher.socket.recv(1 << 18)
        for at in range(0, len(data) - 20, 21):
            tag = int.from_bytes(data[at + 11 : at + 19])
            self.confirmed = max(self.confirmed, tag)
        self.confirms = data[len(data) // 21 * 21 :]

    @property
    def done(self) -> bool:
        return self.received >= self.count and (not self.acknowledged or self.confirmed >= self.count)


def measure(broker: Any, messages: int, *, acknowledged: bool) -> float:
    """CPU seconds of the broker for each message."""
    with broker() as (port, pid):
        count = max(messages // PAIRS // BLOCK, 1) * BLOCK
        pairs = [Pair(port, number, count, acknowledged=acknowledged) for number in range(PAIRS)]
        selector = selectors.DefaultSelector()
        for pair in pairs:
            selector.register(pair.consumer.socket, selectors.EVENT_READ, (pair, pair.take))
            selector.register(pair.publisher.socket, selectors.EVENT_READ, (pair, pair.take_confirms))
        before = cpu_seconds(pid)
        for pair in pairs:
            pair.publish()
        while not all(pair.done for pair in pairs):
            ready = selector.select(60)
            assert ready, [(pair.sent, pair.received, pair.confirmed) for pair in pairs]
            for key, _ in ready:
                pair, call = key.data
                call()
                pair.publish()
        used = cpu_seconds(pid) - before
        for pair in pairs:
            pair.publisher.socket.close()
            pair.consumer.socket.close()
        return used / (count * PAIRS)


def main() -> None:
    messages = int(os.environ.get("MESSAGES", "100000"))
    brokers: dict[str, Any] = {name: partial(running, partial(ours, loop=loop)) for name, loop in LOOPS.items()}
    if SERVER is not None:
        brokers["RabbitMQ"] = rabbitmq
    else:
        print("RabbitMQ is not here: install rabbitmq-server")
    chosen = os.environ.get("BROKERS")
    for acknowledged in (False, True):
        kind = "confirms and acknowledgements" if acknowledged else "no confirms, automatic acknowledgement"
        print(f"{kind}: CPU of the broker a message, {PAIRS} publishers to {PAIRS} consumers, {messages} messages")
        seconds = {
            name: measure(broker, messages, acknowledged=acknowledged)
            for name, broker in brokers.items()
            if chosen is None or name in chosen
        }
        for name, value in seconds.items():
            print(f"  {name:16} {value * 1e6:10.2f} us   {value / next(iter(seconds.values())):8.2f} x", flush=True)


if __name__ == "__main__":
    main()
