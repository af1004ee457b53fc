"""What does a broker's process cost for one publisher and 1,000 subscribers, MQTT QoS 0?

    python bench/bench_mqtt_fanout.py                   ours against mosquitto, 1,000 subscribers, 200 messages
    python bench/bench_mqtt_fanout.py 2000 500          2,000 subscribers, 500 messages of each round

CPU seconds (user and system) of the broker's process for each message delivered, in rounds that alternate between the brokers:
the medians, and the ratio of each round. Messages: MQTT 3.1.1 with a payload of 64 bytes, 5.0 with five properties, and 5.0 with
8 KiB. Ours is `wirefmt.broker.Broker` with its defaults and all protocols on. The publisher sends bursts of 1, then of 20,
each when all subscribers have the one before. One generator makes the load for all brokers; it sees to it that every subscriber
receives every message.
"""

from __future__ import annotations

import resource
import selectors
import socket
import statistics
import sys
from pathlib import Path

from brokers import MOSQUITTO, connect_mqtt, cpu_seconds, mosquitto, running

from wirefmt import mqtt

ROUNDS = 5
TOPIC = "bench/fan-out"
PROPERTIES = [
    ("payload_format_indicator", 1),
    ("content_type", "application/json"),
    ("response_topic", "bench/back"),
    ("correlation_data", b"correlation"),
    ("user_property", ("trace", "00-4bf92f3577b34da6a3ce929d0e0e4736")),
]
MESSAGES = {
    "64 bytes": mqtt.Publish(topic_name=TOPIC, payload=bytes(64), version=4),
    "five properties": mqtt.Publish(topic_name=TOPIC, payload=bytes(64), properties=PROPERTIES),
    "8 KiB": mqtt.Publish(topic_name=TOPIC, payload=bytes(8192)),
}

OURS = """
import asyncio
from wirefmt.broker import Broker
async def main():
    ports = dict.fromkeys(("amqp", "amqp10", "nsq", "rocketmq", "phpmq"), 0)
    async with Broker(ports={{"mqtt": {port}, **ports}}): await asyncio.Event().wait()
asyncio.run(main())
"""


def ours(port: int, folder: Path) -> list[str]:
    return [sys.executable, "-c", OURS.format(port=port)]


class Load:
    """A publisher and its subscribers."""

    def __init__(self, port: int, pid: int, message: mqtt.Publish, subscribers: int) -> None:
        self.pid = pid
        self.publisher = connect_mqtt(port, "publisher", message.version)
        self.packet = message.encode()
        subscribe = mqtt.Subscribe(
            packet_identifier=1, subscriptions=[mqtt.Subscription("bench/+")], version=message.version
        ).encode()
        self.selector = selectors.DefaultSelector()
        self.received: dict[socket.socket, int] = {}
        for number in range(subscribers):
            subscriber = connect_mqtt(port, f"subscriber {number}", message.version)
            subscriber.sendall(subscribe)
            assert subscriber.recv(100)[:1] == b"\x90"
            subscriber.setblocking(False)
            self.received[subscriber] = 0
            self.selector.register(subscriber, selectors.EVENT_READ)

    def close(self) -> None:
        self.selector.close()
        for connection in (self.publisher, *self.received):
            connection.close()

    def burst(self, messages: int) -> None:
        """Publish messages, and wait until all subscribers have them."""
        self.publisher.sendall(self.packet * messages)
        wanted = messages * len(self.packet)
        missing = len(self.received)
        for subscriber in self.received:
            self.received[subscriber] = 0
        while missing:
            ready = self.selector.select(60)
            assert ready, f"{missing} subscribers wait"
            for key, _ in ready:
                ready_one = key.fileobj
                assert isinstance(ready_one, socket.socket)
                self.received[ready_one] += len(ready_one.recv(1 << 16))
                assert self.received[ready_one] <= wanted
                missing -= self.received[ready_one] == wanted

    def measure(self, messages: int, size: int) -> float:
        """CPU seconds of the broker for each message delivered."""
        before = cpu_seconds(self.pid)
        for _ in range(max(messages // size, 1)):
            self.burst(size)
        return (cpu_seconds(self.pid) - before) / (max(messages // size, 1) * size * len(self.received))


def main() -> None:
    subscribers = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    messages = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    if MOSQUITTO is None:
        raise SystemExit("mosquitto is not here: install it")
    with running(ours) as first, running(mosquitto) as second:
        for kind, message in MESSAGES.items():
            loads = {
                "wirefmt": Load(*first, message, subscribers),
                "mosquitto": Load(*second, message, subscribers),
            }
            for size in (1, 20):
                measure(kind, size, loads, subscribers, messages)
            for load in loads.values():
                load.close()


def measure(kind: str, size: int, loads: dict[str, Load], subscribers: int, messages: int) -> None:
    for load in loads.values():
        load.burst(size)
    rounds = [{name: load.measure(messages, size) for name, load in loads.items()} for _ in range(ROUNDS)]
    medians = {name: statistics.median(each[name] for each in rounds) for name in loads}
    ratios = [each["wirefmt"] / each["mosquitto"] for each in rounds]
    print(
        f"{kind}, bursts of {size:2}, {subscribers} subscribers: wirefmt {medians['wirefmt'] * 1e6:.2f} us, "
        f"mosquitto {medians['mosquitto'] * 1e6:.2f} us, ratio {statistics.median(ratios):.2f} "
        f"(rounds: {' '.join(f'{ratio:.2f}' for ratio in ratios)})"
    )


if __name__ == "__main__":
    main()
