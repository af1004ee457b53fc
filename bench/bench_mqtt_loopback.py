"""What does a broker's process cost for messages over loopback?

    python bench/bench_mqtt_loopback.py                     ours, on both event loops, against mosquitto, 50,000 messages
    python bench/bench_mqtt_loopback.py 1000000             the full figure
    AMQTT=/path/to/python python bench/bench_mqtt_loopback.py 20000    also amqtt, of a Python that has it (pip install amqtt)

CPU seconds (user and system) of the broker's process for each message delivered, MQTT 3.1.1, payloads of 64 bytes. Ten
publishers and ten subscribers, first each pair with a topic of its own, then (fan-out) each subscriber with the messages of all
publishers. One generator makes the load for all brokers: raw sockets, packets encoded beforehand, at most WINDOW messages of a
publisher pending, so that no broker has to drop one.
"""

from __future__ import annotations

import os
import selectors
import sys
import time
from functools import partial
from pathlib import Path

from brokers import LOOPS, MOSQUITTO, Command, connect_mqtt, cpu_seconds, mosquitto, running

from wirefmt import mqtt

PAIRS = 10
BLOCK = 100
WINDOW = 400
PAYLOAD = bytes(64)

OURS = """
import asyncio, {loop}
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker, BrokerOptions
async def main():
    broker = Broker(BrokerOptions(queue_messages=100_000))
    async with await mqtt.serve(broker, "127.0.0.1", {port}): await asyncio.Event().wait()
{loop}.run(main())
"""

AMQTT = """
import asyncio, logging
from amqtt.broker import Broker
logging.disable(logging.CRITICAL)
async def main():
    broker = Broker({{"listeners": {{"default": {{"type": "tcp", "bind": "127.0.0.1:{port}"}}}},
                      "plugins": {{"amqtt.plugins.authentication.AnonymousAuthPlugin": {{"allow_anonymous": True}}}}}})
    await broker.start()
    await asyncio.Event().wait()
asyncio.run(main())
"""


class Pair:
    """A publisher of a topic, and a subscriber of this topic or of all."""

    def __init__(self, port: int, number: int, qos: int, count: int, *, fan_out: bool) -> None:
        topic = f"bench/{number:02}"
        self.qos = qos
        self.count = count
        self.share = PAIRS if fan_out else 1  # copies that each subscriber gets for one message of each publisher
        self.sent = self.received = 0
        self.acknowledged: float = 0
        self.left = b""
        self.publisher, self.subscriber = (connect_mqtt(port, f"{kind}{number}") for kind in "ps")
        subscribe = mqtt.Subscribe(
            packet_identifier=1, subscriptions=[mqtt.Subscription("bench/#" if fan_out else topic, qos=qos)], version=4
        )
        self.subscriber.sendall(subscribe.encode())
        assert self.subscriber.recv(100)[:1] == b"\x90"
        packets = [
            mqtt.Publish(
                topic_name=topic, payload=PAYLOAD, qos=qos, packet_identifier=i + 1 if qos else None, version=4
            ).encode()
            for i in range(WINDOW)
        ]
        self.size = len(packets[0])
        self.identifier = self.size - len(PAYLOAD) - 2
        self.blocks = [b"".join(packets[i : i + BLOCK]) for i in range(0, WINDOW, BLOCK)]
        for each in (self.publisher, self.subscriber):
            each.setblocking(False)

    def publish(self, received: float) -> None:
        """`received`: messages of a publisher that have reached everybody."""
        done = min(received, self.acknowledged) if self.qos else received
        while self.sent < self.count and self.sent + BLOCK - done <= WINDOW:
            block = self.blocks[self.sent // BLOCK % len(self.blocks)]
            while block:
                try:
                    block = block[self.publisher.send(block) :]
                except BlockingIOError:
                    time.sleep(0.001)
            self.sent += BLOCK

    def take(self) -> None:
        """What the subscriber receives."""
        data = self.left + self.subscriber.recv(1 << 18)
        whole = len(data) // self.size
        self.left = data[whole * self.size :]
        self.received += whole
        if self.qos and whole:
            answers = bytearray(b"\x40\x02\0\0" * whole)
            end = whole * self.size
            answers[2::4] = data[self.identifier : end : self.size]
            answers[3::4] = data[self.identifier + 1 : end : self.size]
            self.subscriber.sendall(answers)

    def take_answers(self) -> None:
        self.acknowledged += len(self.publisher.recv(1 << 18)) / 4


def measure(command: Command, qos: int, messages: int, *, fan_out: bool) -> float:
    """CPU seconds of the broker for each message delivered."""
    with running(command) as (port, pid):
        count = max(messages // PAIRS // (PAIRS if fan_out else 1) // BLOCK, 1) * BLOCK
        pairs = [Pair(port, number, qos, count, fan_out=fan_out) for number in range(PAIRS)]
        selector = selectors.DefaultSelector()
        for pair in pairs:
            selector.register(pair.subscriber, selectors.EVENT_READ, (pair, pair.take))
            selector.register(pair.publisher, selectors.EVENT_READ, (pair, pair.take_answers))

        def publish(pair: Pair) -> None:
            # with fan-out what each subscriber has got of all publishers is taken to be evenly from each
            slowest = min(each.received for each in pairs) / PAIRS if fan_out else pair.received
            pair.publish(slowest)

        before = cpu_seconds(pid)
        for pair in pairs:
            publish(pair)
        while any(pair.received < count * pair.share or (qos and pair.acknowledged < count) for pair in pairs):
            ready = selector.select(60)
            assert ready, [(pair.sent, pair.received, pair.acknowledged) for pair in pairs]
            for key, _ in ready:
                pair, call = key.data
                call()
                publish(pair)
        used = cpu_seconds(pid) - before
        for pair in pairs:
            pair.publisher.close()
            pair.subscriber.close()
        return used / (count * PAIRS * pairs[0].share)


def ours(port: int, folder: Path, loop: str = "asyncio") -> list[str]:
    return [sys.executable, "-c", OURS.format(port=port, loop=loop)]


def amqtt(port: int, folder: Path) -> list[str]:
    return [os.environ["AMQTT"], "-c", AMQTT.format(port=port)]


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    brokers: dict[str, Command] = {name: partial(ours, loop=loop) for name, loop in LOOPS.items()}
    if MOSQUITTO is not None:
        brokers["mosquitto"] = mosquitto
    else:
        print("mosquitto is not here: install it")
    if "AMQTT" in os.environ:
        brokers["amqtt"] = amqtt
    for fan_out in (False, True):
        for qos in (0, 1):
            kind = "fan-out" if fan_out else "pairs"
            print(f"QoS {qos}, {kind}: CPU of the broker a message, {PAIRS} publishers to {PAIRS} subscribers")
            seconds = {name: measure(command, qos, messages, fan_out=fan_out) for name, command in brokers.items()}
            for name, value in seconds.items():
                print(f"  {name:16} {value * 1e6:10.2f} us   {value / seconds['wirefmt']:8.2f} x")


if __name__ == "__main__":
    main()
