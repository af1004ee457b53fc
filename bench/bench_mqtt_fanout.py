"""What does a broker's process cost for one publisher and 1,000 subscribers, MQTT QoS 0?

    python bench/bench_mqtt_fanout.py                   ours against mosquitto, 1,000 subscribers, 200 messages
    python bench/bench_mqtt_fanout.py 2000 500          2,000 subscribers, 500 messages

CPU seconds (user and system) of the broker's process for each message delivered, MQTT 3.1.1, payloads of 64 bytes, in rounds that
alternate between the brokers; the medians and their ratio. Ours is `wirefmt.broker.Broker` with its defaults and all protocols
on. The publisher sends bursts of 1, then of 20 messages, each when all subscribers have the one before. One generator makes the
load for all brokers; it sees to it that every subscriber receives every message.
"""

from __future__ import annotations

import os
import resource
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wirefmt import mqtt

ROUNDS = 5
PAYLOAD = bytes(64)

OURS = """
import asyncio
from wirefmt.broker import Broker
async def main():
    ports = dict.fromkeys(("amqp", "amqp10", "nsq", "rocketmq", "phpmq"), 0)
    async with Broker(ports={{"mqtt": {port}, **ports}}): await asyncio.Event().wait()
asyncio.run(main())
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """User and system time, to the nanosecond of the scheduler where it says so."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


def ours(port: int, folder: Path) -> list[str]:
    return [sys.executable, "-c", OURS.format(port=port)]


def mosquitto(port: int, folder: Path) -> list[str]:
    config = folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nset_tcp_nodelay true\n")
    return [shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin") or "", "-c", str(config)]


@contextmanager
def running(command: Callable[[int, Path], list[str]]) -> Iterator[tuple[int, int]]:
    """A broker's port and process."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        process = subprocess.Popen(command(port, Path(folder)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(600):
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    if process.poll() is not None:
                        raise SystemExit(f"{command.__name__} does not start") from None
                    time.sleep(0.1)
            yield port, process.pid
        finally:
            process.kill()
            process.wait()


class Load:
    """A publisher and its subscribers."""

    def __init__(self, port: int, pid: int, subscribers: int) -> None:
        self.pid = pid
        self.publisher = self.connect(port, "publisher")
        self.packet = mqtt.Publish(topic_name="bench/fan-out", payload=PAYLOAD, version=4).encode()
        subscribe = mqtt.Subscribe(
            packet_identifier=1, subscriptions=[mqtt.Subscription("bench/+")], version=4
        ).encode()
        self.selector = selectors.DefaultSelector()
        self.received: dict[socket.socket, int] = {}
        for number in range(subscribers):
            subscriber = self.connect(port, f"subscriber {number}")
            subscriber.sendall(subscribe)
            assert subscriber.recv(100)[:1] == b"\x90"
            subscriber.setblocking(False)
            self.received[subscriber] = 0
            self.selector.register(subscriber, selectors.EVENT_READ)

    @staticmethod
    def connect(port: int, identifier: str) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(mqtt.Connect(client_identifier=identifier, keep_alive=0, version=4).encode())
        assert connection.recv(100)[:1] == b"\x20"
        return connection

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
                subscriber = key.fileobj
                assert isinstance(subscriber, socket.socket)
                self.received[subscriber] += len(subscriber.recv(1 << 16))
                assert self.received[subscriber] <= wanted
                missing -= self.received[subscriber] == wanted

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
    if not mosquitto(0, Path(tempfile.mkdtemp()))[0]:
        raise SystemExit("mosquitto is not here: install it")
    with running(ours) as first, running(mosquitto) as second:
        loads = {"wirefmt": Load(*first, subscribers), "mosquitto": Load(*second, subscribers)}
        for size in (1, 20):
            for load in loads.values():
                load.burst(size)
            rounds = [{name: load.measure(messages, size) for name, load in loads.items()} for _ in range(ROUNDS)]
            medians = {name: statistics.median(each[name] for each in rounds) for name in loads}
            ratio = statistics.median(each["wirefmt"] / each["mosquitto"] for each in rounds)
            print(
                f"bursts of {size:2}, {subscribers} subscribers: wirefmt {medians['wirefmt'] * 1e6:.2f} us, "
                f"mosquitto {medians['mosquitto'] * 1e6:.2f} us, ratio {ratio:.2f}"
            )


if __name__ == "__main__":
    main()
