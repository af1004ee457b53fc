"""What does a broker's process cost when clients send one message and wait?

    python bench/bench_one_at_a_time.py                      everything, 2,000 messages a round
    python bench/bench_one_at_a_time.py mqtt0 mqtt1          some of mqtt0, mqtt1, nsq, amqp091, amqp091-confirms
    ROUNDS=15 MESSAGES=5000 python bench/bench_one_at_a_time.py
    BEFORE=TREE python bench/bench_one_at_a_time.py mqtt0    beside wirefmt in another folder: "before"

CPU seconds (user and system) of the broker's process for each message. A publisher sends a message of 64 bytes (AMQP 0.9.1: 256)
and the next one when its subscriber has the message and all acknowledgements have arrived; one pair, then ten of them beside each
other. The other benches send blocks of a hundred, which hide what one read and one write cost.

All brokers run at once, each on a port of its own, and take turns in every round, so a busy machine is so for all. The relay is
the floor: an asyncio protocol that writes what it has read to another transport, without looking at it. Ratios are the median of
those of the rounds, to the relay on the same loop.
"""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from bench_amqp091_loopback import Client, rabbitmq
from bench_amqp091_loopback import ours as ours_amqp091
from bench_mqtt_loopback import ours as ours_mqtt
from bench_nsq_connection import NSQD, nsqd
from brokers import LOOPS, MOSQUITTO, connect_mqtt, cpu_seconds, mosquitto, running

from wirefmt import amqp091, mqtt, nsq

ROUNDS = int(os.environ.get("ROUNDS", "9"))
MESSAGES = int(os.environ.get("MESSAGES", "2000"))
PAIRS = (1, 10)
PAYLOAD = bytes(64)
BEFORE = os.environ.get("BEFORE")
RABBITMQ = shutil.which("rabbitmq-server", path=os.environ.get("PATH", "") + ":/usr/sbin")

RELAY = """
import asyncio, {loop}
waiting = {{}}
class Relay(asyncio.Protocol):
    to = None
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        if self.to is not None:
            self.to.write(data)
            return
        other = waiting.pop(data[1:], None)
        if other is None:
            waiting[data[1:]] = self
        else:
            self.to, other.to = other.transport, self.transport
        self.transport.write(b".")
async def main():
    server = await asyncio.get_running_loop().create_server(Relay, "127.0.0.1", {port})
    await server.serve_forever()
{loop}.run(main())
"""

NSQ = """
import asyncio, {loop}
from wirefmt import nsq
from wirefmt.broker.nsq import Broker
async def main():
    async with await nsq.serve(Broker(), "127.0.0.1", {port}): await asyncio.Event().wait()
{loop}.run(main())
"""


def python(code: str, port: int, folder: Path, loop: str = "asyncio") -> list[str]:
    return [sys.executable, "-c", code.format(port=port, loop=loop)]


def connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Pair:
    """A publisher and its subscriber. A derived class connects both, and has these members.

    Attributes:
        publisher, subscriber: their sockets, or clients of AMQP. packet: what the publisher sends, and the subscriber gets.
        sockets: those that are read, and what is called with their bytes.
        missing: what has to arrive until the next message: messages and acknowledgements.
    """

    EXPECTED: ClassVar = 1
    publisher: Any
    subscriber: Any
    packet: bytes

    def __init__(self) -> None:
        self.missing = 0

    @property
    def sockets(self) -> Mapping[socket.socket, Callable[[bytes], object]]:
        return {self.subscriber: self._take}

    def send(self) -> None:
        self.publisher.sendall(self.packet)

    def _take(self, data: bytes) -> None:
        assert len(data) == len(self.packet)
        self.missing -= 1

    def begin(self) -> None:
        self.missing = self.EXPECTED
        self.send()


class Relayed(Pair):
    """Of the relay."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__()
        self.publisher, self.subscriber = connect(port), connect(port)
        for each, kind in ((self.publisher, b"p"), (self.subscriber, b"s")):
            each.sendall(b"%b%d" % (kind, number))
            assert each.recv(1) == b"."
        self.packet = mqtt.Publish(topic_name="bench/00", payload=PAYLOAD, version=4).encode()


class Mqtt(Pair):
    """MQTT 3.1.1."""

    QOS: ClassVar = 0

    def __init__(self, port: int, number: int) -> None:
        super().__init__()
        topic = f"bench/{number:02}"
        self.publisher, self.subscriber = (connect_mqtt(port, f"{kind}{number}") for kind in "ps")
        wanted = [mqtt.Subscription(topic, qos=self.QOS)]
        self.subscriber.sendall(mqtt.Subscribe(packet_identifier=1, subscriptions=wanted, version=4).encode())
        assert self.subscriber.recv(100)[:1] == b"\x90"
        identifier = 1 if self.QOS else None
        publish = mqtt.Publish(topic_name=topic, payload=PAYLOAD, qos=self.QOS, packet_identifier=identifier, version=4)
        self.packet = publish.encode()


class Mqtt1(Mqtt):
    """With QoS 1."""

    QOS: ClassVar = 1
    EXPECTED: ClassVar = 2

    @property
    def sockets(self) -> Mapping[socket.socket, Callable[[bytes], object]]:
        return {self.subscriber: self._take, self.publisher: self._take_acknowledgement}

    def _take(self, data: bytes) -> None:
        super()._take(data)
        at = len(data) - len(PAYLOAD) - 2
        self.subscriber.sendall(b"\x40\x02" + data[at : at + 2])

    def _take_acknowledgement(self, data: bytes) -> None:
        assert data == b"\x40\x02\0\1"
        self.missing -= 1


class Nsq(Pair):
    """PUB and its OK; the message and its FIN."""

    EXPECTED: ClassVar = 2

    def __init__(self, port: int, number: int) -> None:
        super().__init__()
        topic = f"bench{number:02}"
        self.publisher, self.subscriber = connect(port), connect(port)
        opening = b"  V2" + nsq.Identify(heartbeat_interval=60_000).encode()
        for each in (self.publisher, self.subscriber):
            each.sendall(opening)
            assert each.recv(100)[8:] == b"OK"
        self.subscriber.sendall(nsq.Sub(topic=topic, channel="c").encode())
        assert self.subscriber.recv(100)[8:] == b"OK"
        self.subscriber.sendall(nsq.Ready(count=1).encode())
        self.packet = nsq.Publish(topic=topic, body=PAYLOAD).encode()

    @property
    def sockets(self) -> Mapping[socket.socket, Callable[[bytes], object]]:
        return {self.subscriber: self._take, self.publisher: self._take_answer}

    def send(self) -> None:
        self.publisher.sendall(self.packet)

    def _take(self, data: bytes) -> None:
        assert len(data) == 34 + len(PAYLOAD), data
        self.subscriber.sendall(b"FIN " + data[18:34] + b"\n")
        self.missing -= 1

    def _take_answer(self, data: bytes) -> None:
        assert data[8:] == b"OK"
        self.missing -= 1


class Amqp091(Pair):
    """Transient messages by the default exchange, automatic acknowledgement."""

    ACKNOWLEDGED: ClassVar = False
    BODY: ClassVar = bytes(256)

    def __init__(self, port: int, number: int) -> None:
        super().__init__()
        queue = f"single{number}"
        self.publisher = Client(port, queue, "publisher", acknowledged=self.ACKNOWLEDGED)
        self.consumer = Client(port, queue, "consumer", acknowledged=self.ACKNOWLEDGED)
        for each in (self.publisher, self.consumer):
            each.socket.setblocking(True)
        method = amqp091.BasicPublish(channel=1, exchange="", routing_key=queue)
        properties = amqp091.BasicProperties(content_type="application/octet-stream", delivery_mode=1)
        self.packet = amqp091.BasicMessage(method, properties, self.BODY).encode()
        deliver = amqp091.BasicDeliver(channel=1, consumer_tag="c", delivery_tag=1, exchange="", routing_key=queue)
        self.size = len(amqp091.BasicMessage(deliver, properties, self.BODY).encode())
        self.part = 0  # RabbitMQ may write a delivery in parts
        self.tag = 0

    @property
    def sockets(self) -> Mapping[socket.socket, Callable[[bytes], object]]:
        return {self.consumer.socket: self._take, self.publisher.socket: self._take_confirm}

    def send(self) -> None:
        self.publisher.socket.sendall(self.packet)

    def _take(self, data: bytes) -> None:
        self.part += len(data)
        if self.part < self.size:
            return
        assert self.part == self.size
        self.part = 0
        self.tag += 1
        if self.ACKNOWLEDGED:
            self.consumer.socket.sendall(amqp091.BasicAck(channel=1, delivery_tag=self.tag).encode())
        self.missing -= 1

    def _take_confirm(self, data: bytes) -> None:
        assert self.ACKNOWLEDGED
        assert len(data) == 21
        self.missing -= 1


class Confirmed(Amqp091):
    """With confirms and acknowledgements."""

    ACKNOWLEDGED: ClassVar = True
    EXPECTED: ClassVar = 2


#: Something that runs: its port and process.
Running = Callable[[], AbstractContextManager[tuple[int, int]]]


@dataclass(frozen=True)
class Load:
    """What is measured: the pairs, our broker's program by loop, and another broker."""

    title: str
    pair: Callable[[int, int], Pair]
    ours: Callable[..., list[str]]
    peer: str
    run_peer: Running | None


LOADS = {
    "mqtt0": Load("MQTT QoS 0", Mqtt, ours_mqtt, "mosquitto", partial(running, mosquitto) if MOSQUITTO else None),
    "mqtt1": Load("MQTT QoS 1", Mqtt1, ours_mqtt, "mosquitto", partial(running, mosquitto) if MOSQUITTO else None),
    "nsq": Load("NSQ, PUB and FIN", Nsq, partial(python, NSQ), "nsqd", partial(running, nsqd) if NSQD else None),
    "amqp091": Load("AMQP 0.9.1", Amqp091, ours_amqp091, "RabbitMQ", rabbitmq if RABBITMQ else None),
    "amqp091-confirms": Load(
        "AMQP 0.9.1, confirms and acknowledgements", Confirmed, ours_amqp091, "RabbitMQ", rabbitmq if RABBITMQ else None
    ),
}


class Contestant:
    """A program that runs, and its pairs."""

    def __init__(self, pid: int, pairs: list[Pair]) -> None:
        self.pid = pid
        self.selector = selectors.DefaultSelector()
        self.pairs = pairs
        for pair in pairs:
            for each, take in pair.sockets.items():
                self.selector.register(each, selectors.EVENT_READ, (pair, take))

    def play(self, messages: int) -> float:
        """CPU seconds of the program for each message."""
        before = cpu_seconds(self.pid)
        left = messages - len(self.pairs)
        for pair in self.pairs:
            pair.begin()
        open_ = len(self.pairs)
        while open_:
            ready = self.selector.select(60)
            assert ready, [pair.missing for pair in self.pairs]
            for key, _ in ready:
                pair, take = key.data
                found: Any = key.fileobj
                take(found.recv(1 << 16))
                if pair.missing == 0:
                    if left > 0:
                        left -= 1
                        pair.begin()
                    else:
                        pair.missing = -1
                        open_ -= 1
        return (cpu_seconds(self.pid) - before) / messages

    def close(self) -> None:
        for each in list(self.selector.get_map().values()):
            found: Any = each.fileobj
            found.close()
        self.selector.close()


def ours_before(load: Load, loop: str, port: int, folder: Path) -> list[str]:
    return ["env", f"PYTHONPATH={BEFORE}", *load.ours(port, folder, loop=loop)]


def contestants(load: Load) -> Iterator[tuple[str, Running, Callable[[int, int], Pair]]]:
    for name, loop in LOOPS.items():
        relay = name.replace("wirefmt", "relay")
        yield relay, partial(running, partial(python, RELAY, loop=loop)), Relayed
        yield name, partial(running, partial(load.ours, loop=loop)), load.pair
        if BEFORE is not None:
            before = name.replace("wirefmt", "before")
            yield before, partial(running, partial(ours_before, load, loop)), load.pair
    if load.run_peer is not None:
        yield load.peer, load.run_peer, load.pair
    else:
        print(f"{load.peer} is not here: install it")


def measure(load: Load) -> None:
    with ExitStack() as stack:
        programs = {name: (stack.enter_context(run()), pair) for name, run, pair in contestants(load)}
        number = 0
        for count in PAIRS:
            rivals = {}
            for name, ((port, pid), pair) in programs.items():
                rivals[name] = Contestant(pid, [pair(port, number + i) for i in range(count)])
            number += count
            rounds: list[dict[str, float]] = []
            for warm in range(ROUNDS + 1):
                found = {name: rival.play(MESSAGES) for name, rival in rivals.items()}
                if warm:
                    rounds.append(found)
            for rival in rivals.values():
                rival.close()
            show(load, count, rounds)


def show(load: Load, count: int, rounds: list[dict[str, float]]) -> None:
    print(f"\n{load.title}, one message at a time, {count} pair{'s' * (count > 1)}: CPU of the process a message")
    for name in rounds[0]:
        microseconds = statistics.median(each[name] for each in rounds) * 1e6
        line = f"  {name:16} {microseconds:8.2f} us"
        for other in (name.replace("wirefmt", "relay"), name.replace("wirefmt", "before"), load.peer):
            if name in LOOPS and other in rounds[0]:
                ratio = statistics.median(each[name] / each[other] for each in rounds)
                line += f"   {ratio:6.2f} x {other}"
        print(line, flush=True)


def main() -> None:
    for name in sys.argv[1:] or LOADS:
        measure(LOADS[name])


if __name__ == "__main__":
    main()
