"""How long another client waits while one does its worst: its longest PING of MQTT, and the time that SIGTERM takes.

    python bench/bench_fairness.py [FLOOD ...]

Each flood runs against a `wirefmt serve` of its own. "idle" is the broker without a flood. PYTHONPATH decides which wirefmt is
served, so a run with another tree is the comparison.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq

#: Seconds for which the other client asks while a flood runs.
SECONDS = float(os.environ.get("FLOOD_SECONDS", "6"))

PROTOCOLS = ("mqtt", "amqp", "nsq", "rocketmq", "phpmq")


class Served:
    """`wirefmt serve`."""

    def __init__(self) -> None:
        settings = [f"--set=ports.{name}=0" for name in PROTOCOLS] + ["--set=ports.amqp10=0"]
        command = [sys.executable, "-c", "from wirefmt.cli import main; main()", "serve", *settings]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.ports: dict[str, int] = {}
        while len(self.ports) < len(PROTOCOLS) + 1:
            line = json.loads(self.process.stdout.readline())
            if line["event"] == "listening":
                self.ports[line["listener"]] = int(line["url"].rpartition(":")[2])
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def memory(self) -> int:
        """Bytes that are resident."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def worked(self) -> float:
        """Seconds of processor time. Beside a busy machine it says more than the time that has passed."""
        with open(f"/proc/{self.process.pid}/schedstat") as file:
            return int(file.read().split()[0]) / 1e9

    def terminate(self) -> float:
        """SIGTERM. Returns the seconds until the end."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return time.monotonic() - begin


def connected(port: int, opening: bytes = b"") -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port))
    one.settimeout(300)
    one.sendall(opening)
    return one


class Other(threading.Thread):
    """The other client: it sends PINGREQ, and measures how long PINGRESP takes."""

    def __init__(self, broker: Served) -> None:
        super().__init__(daemon=True)
        port = broker.ports["mqtt"]
        self.broker = broker
        self.busiest = self.began = 0.0
        self.socket = connected(port, mqtt.Connect(client_identifier="other", version=4).encode())
        self.socket.recv(100)
        self.asked: float | None = None
        self.longest = 0.0
        self.ended = False

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while not self.ended:
                self.began = self.broker.worked()
                self.asked = time.monotonic()
                self.socket.sendall(b"\xc0\0")
                if not self.socket.recv(2):
                    return
                self.longest = max(self.longest, time.monotonic() - self.asked)
                self.busiest = max(self.busiest, self.broker.worked() - self.began)
                self.asked = None
                time.sleep(0.002)

    def waited(self) -> tuple[float, float]:
        """The longest wait in seconds, and the most that the broker worked while one lasted."""
        asked = self.asked
        if asked is None:
            return self.longest, self.busiest
        return max(self.longest, time.monotonic() - asked), max(self.busiest, self.broker.worked() - self.began)


# ---- what each flood sends


def push(one: socket.socket, data: bytes, times: int = 1) -> None:
    """Send in a thread of its own, for nobody may read."""

    def run() -> None:
        with contextlib.suppress(OSError):
            for _ in range(times):
                one.sendall(data)

    threading.Thread(target=run, daemon=True).start()


def drain(one: socket.socket) -> None:
    """Read what comes, in a thread of its own."""

    def run() -> None:
        with contextlib.suppress(OSError):
            while one.recv(1 << 16):
                pass

    threading.Thread(target=run, daemon=True).start()


def until(one: socket.socket, end: Callable[[bytes], bool]) -> bytes:
    got = b""
    while not end(got):
        data = one.recv(1 << 16)
        if not data:
            raise SystemExit(f"the broker has closed: {got[-200:]!r}")
        got += data
    return got


def until_count(one: socket.socket, mark: bytes, most: int) -> None:
    """Read until the mark has arrived so often."""
    count, tail = 0, b""
    while count < most:
        data = one.recv(1 << 20)
        count += (tail + data).count(mark)
        tail = data[1 - len(mark) :]


def amqp(port: int, *methods: Any) -> socket.socket:
    """A connection of AMQP 0.9.1 with channel 1, after these methods."""
    return connected(
        port,
        b"AMQP\0\0\x09\1"
        + amqp091.ConnectionStartOk(client_properties={}, response=b"\0guest\0guest").encode()
        + amqp091.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0).encode()
        + amqp091.ConnectionOpen(virtual_host="/").encode()
        + amqp091.ChannelOpen(channel=1).encode()
        + b"".join(method.encode() for method in methods),
    )


def content(exchange: str, key: str, body: bytes = b"", **properties: Any) -> bytes:
    method = amqp091.BasicPublish(channel=1, exchange=exchange, routing_key=key)
    return amqp091.BasicMessage(method, amqp091.BasicProperties(**properties), body).encode()


def declare(name: str, **arguments: Any) -> Any:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return amqp091.QueueDeclare(channel=1, queue=name, arguments=named, nowait=True)


def bind(name: str, exchange: str, key: str = "", arguments: Any = None) -> Any:
    return amqp091.QueueBind(
        channel=1, queue=name, exchange=exchange, routing_key=key, arguments=arguments or {}, nowait=True
    )


def ready(one: socket.socket) -> None:
    """All that has been sent is handled."""
    mark = amqp091.QueueDeclare(channel=1, queue="mark").encode()
    one.sendall(mark)
    until(one, lambda got: b"\x04mark" in got)


Flood = Iterator[None]


def idle(ports: dict[str, int]) -> Flood:
    yield


def commit(ports: dict[str, int]) -> Flood:
    """AMQP 0.9.1: a transaction of 100,000 messages is committed."""
    one = amqp(ports["amqp"], declare("q"), amqp091.TxSelect(channel=1))
    one.sendall(content("", "q") * 99_999)
    ready(one)
    yield
    one.sendall(amqp091.TxCommit(channel=1).encode())


def dead_letters(ports: dict[str, int]) -> Flood:
    """AMQP 0.9.1: 50,000 messages expire at once, and go through a fanout exchange to 20 queues."""
    names = [f"d{number}" for number in range(20)]
    one = amqp(
        ports["amqp"],
        declare("q", x_message_ttl=4000, x_dead_letter_exchange="amq.fanout"),
        *(method for name in names for method in (declare(name, x_max_length=10), bind(name, "amq.fanout"))),
    )
    one.sendall(content("", "q") * 50_000)
    ready(one)
    yield


def nack(ports: dict[str, int]) -> Flood:
    """AMQP 0.9.1: one nack of 60,000 messages, whose dead letters go to 20 queues."""
    names = [f"d{number}" for number in range(20)]
    one = amqp(
        ports["amqp"],
        declare("q", x_dead_letter_exchange="amq.fanout"),
        *(method for name in names for method in (declare(name, x_max_length=10), bind(name, "amq.fanout"))),
    )
    one.sendall(content("", "q") * 60_000 + amqp091.BasicConsume(channel=1, queue="q").encode())
    until_count(one, b"\0\x3c\0\x3c", 59_990)
    drain(one)
    yield
    one.sendall(amqp091.BasicNack(channel=1, delivery_tag=0, multiple=True, requeue=False).encode())


def headers(ports: dict[str, int]) -> Flood:
    """AMQP 0.9.1: messages for a headers exchange with bindings of thousands of arguments."""
    names = {f"k{number}": True for number in range(2000)}
    one = amqp(ports["amqp"], declare("q"))
    for number in range(200):
        one.sendall(bind("q", "amq.headers", "", {**names, "x-match": "all", "last": str(number)}).encode())
    drain(one)
    time.sleep(2)
    other = amqp(ports["amqp"])
    yield
    push(other, content("amq.headers", "", headers=names) * 50)


def patterns(ports: dict[str, int]) -> Flood:
    """AMQP 0.9.1: messages for a topic exchange with patterns that have many #."""
    one = amqp(ports["amqp"], declare("q"))
    for number in range(3000):
        pattern = "#.a." * 40 + f"#.x{number}.#"
        one.sendall(bind("q", "amq.topic", pattern).encode())
    drain(one)
    time.sleep(2)
    other = amqp(ports["amqp"])
    yield
    push(other, content("amq.topic", "a." * 100 + "b") * 50)


def cycle(ports: dict[str, int]) -> Flood:
    """AMQP 0.9.1: messages through 2,000 exchanges that are bound in a circle, each with 200 keys of CC."""
    one = amqp(ports["amqp"])
    for number in range(2000):
        one.sendall(amqp091.ExchangeDeclare(channel=1, exchange=f"e{number}", type="fanout", nowait=True).encode())
    for number in range(2000):
        one.sendall(
            amqp091.ExchangeBind(
                channel=1, destination=f"e{(number + 1) % 2000}", source=f"e{number}", routing_key="", nowait=True
            ).encode()
        )
    ready(one)
    drain(one)
    yield
    push(one, content("e0", "", headers={"CC": [f"k{number}" for number in range(200)]}) * 50)


def fanout(ports: dict[str, int]) -> Flood:
    """AMQP 0.9.1: messages to 1,000 queues."""
    names = [f"d{number}" for number in range(1000)]
    one = amqp(
        ports["amqp"], *(m for name in names for m in (declare(name, x_max_length=10), bind(name, "amq.fanout")))
    )
    ready(one)
    yield
    push(one, content("amq.fanout", "") * 20_000)


def multi_publish(ports: dict[str, int]) -> Flood:
    """NSQ: MPUB of 240,000 bodies to a topic with a channel."""
    one = connected(ports["nsq"], b"  V2" + nsq.Sub(topic="t", channel="c").encode())
    one.recv(100)
    other = connected(ports["nsq"], b"  V2")
    yield
    push(other, nsq.MultiPublish(topic="t", bodies=[b"x"] * 240_000).encode())


def channels(ports: dict[str, int]) -> Flood:
    """NSQ: messages to a topic with 2,000 channels; SUBs of 20 clients at the end are of a backlog."""
    subs = [connected(ports["nsq"], b"  V2" + nsq.Sub(topic="t", channel=f"c{n}").encode()) for n in range(1000)]
    for sub in subs:
        sub.recv(100)
    other = connected(ports["nsq"], b"  V2")
    drain(other)
    yield
    push(other, nsq.Publish(topic="t", body=b"x").encode() * 900)


def disposition(ports: dict[str, int]) -> Flood:
    """AMQP 1.0: one disposition of 60,000 deliveries, which are released."""
    one = amqp(ports["amqp"], declare("q"))
    one.sendall(content("", "q") * 60_000)
    ready(one)

    def frame(performative: Any) -> bytes:
        return bytes(performative.encode())

    two = connected(
        ports["amqp10"],
        b"AMQP\0\1\0\0"
        + frame(amqp10.Open(container_id="c", max_frame_size=65536))
        + frame(amqp10.Begin(next_outgoing_id=0, incoming_window=2**31 - 1, outgoing_window=100))
        + frame(amqp10.Attach(name="l", handle=0, role=True, source=amqp10.Source(address="/queues/q"),
                              target=amqp10.Target(), rcv_settle_mode=0))
        + frame(amqp10.Flow(incoming_window=2**31 - 1, next_outgoing_id=0, outgoing_window=100, next_incoming_id=0,
                            handle=0, delivery_count=0, link_credit=60_000)),
    )  # fmt: skip
    until_count(two, b"\0\x53\x14", 59_990)
    drain(two)
    yield
    two.sendall(frame(amqp10.Disposition(role=True, first=0, last=59_980, settled=True, state=amqp10.Released())))


def batch(ports: dict[str, int]) -> Flood:
    """RocketMQ: batches of 100,000 messages."""
    body = rocketmq.encode_batch_messages([rocketmq.Message(body=b"", properties={})] * 100_000)
    header = rocketmq.SendMessageRequestHeader(
        producer_group="g", topic="T", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
        born_timestamp=1, flag=0, properties="", batch=True,
    )  # fmt: skip
    one = connected(ports["rocketmq"])
    drain(one)
    yield
    push(one, rocketmq.RemotingCommand(code=10, header=header, body=body, opaque=1).encode() * 3)


def phpmq_flood(ports: dict[str, int]) -> Flood:
    """PHPMQ: 100,000 messages, and a consumer that wants them all, again and again."""
    one = connected(ports["phpmq"])
    publish = phpmq.MessageClientToServer(queue_name="q", content=b"x").encode()
    push(one, publish * 100_000)
    time.sleep(4)
    two = connected(ports["phpmq"])
    drain(two)
    yield
    push(two, phpmq.ConsumeRequest(queue_name="q", message_count=10_000).encode() * 3000)


def retained(ports: dict[str, int]) -> Flood:
    """MQTT: retained messages with properties for 1,000 subscribers."""
    subscribers = []
    for number in range(1000):
        one = connected(
            ports["mqtt"],
            mqtt.Connect(client_identifier=f"s{number}", version=5).encode()
            + mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("t")], version=5).encode(),
        )
        one.recv(1000)
        drain(one)
        subscribers.append(one)
    one = connected(ports["mqtt"], mqtt.Connect(client_identifier="p", version=5).encode())
    one.recv(100)
    yield
    publish = mqtt.Publish(
        topic_name="t", payload=b"x", retain=True, properties=[("user_property", ("a", "b"))], version=5
    )
    push(one, publish.encode() * 2000)


def filters(ports: dict[str, int]) -> Flood:
    """MQTT: SUBSCRIBE and UNSUBSCRIBE with 9,000 filters, again and again."""
    one = connected(ports["mqtt"], mqtt.Connect(client_identifier="p", version=5).encode())
    one.recv(100)
    names = [f"a/{number}" for number in range(9000)]
    both = (
        mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription(n) for n in names], version=5).encode()
        + mqtt.Unsubscribe(packet_identifier=2, topic_filters=names, version=5).encode()
    )  # fmt: skip
    drain(one)
    yield
    push(one, both * 20)


def copies(ports: dict[str, int]) -> Flood:
    """MQTT: messages with properties for 8,000 subscribers, one after the other."""
    selector = selectors.DefaultSelector()
    subscribe = mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("t")], version=5).encode()
    for number in range(8000):
        one = connected(ports["mqtt"], mqtt.Connect(client_identifier=f"s{number}", version=5).encode() + subscribe)
        until_count(one, b"\x90", 1)
        selector.register(one, selectors.EVENT_READ)

    def read() -> None:
        with contextlib.suppress(OSError):
            while True:
                for key, _ in selector.select():
                    if not key.fileobj.recv(1 << 16):  # type: ignore[union-attr]
                        return

    threading.Thread(target=read, daemon=True).start()
    one = connected(ports["mqtt"], mqtt.Connect(client_identifier="p", version=5).encode())
    one.recv(100)
    yield
    publish = mqtt.Publish(topic_name="t", payload=b"x", properties=[("user_property", ("a", "b"))], version=5)
    for _ in range(6):
        one.sendall(publish.encode())
        time.sleep(1)


def shared(ports: dict[str, int]) -> Flood:
    """MQTT: 8,000 messages of QoS 1 for a shared subscription of 4,000 members that do not acknowledge theirs."""
    subscribe = mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("$share/g/t", qos=1)], version=5)
    members = []
    for number in range(4000):
        connect = mqtt.Connect(client_identifier=f"s{number}", properties=[("receive_maximum", 1)], version=5)
        members.append(connected(ports["mqtt"], connect.encode() + subscribe.encode()))
        until_count(members[-1], b"\x90", 1)
    one = connected(ports["mqtt"], mqtt.Connect(client_identifier="p", version=5).encode())
    one.recv(100)
    yield
    publish = mqtt.Publish(topic_name="t", payload=b"x", qos=1, packet_identifier=1, version=5).encode()
    at = publish.index(b"\0\1", 5)
    push(one, b"".join(publish[:at] + number.to_bytes(2) + publish[at + 2 :] for number in range(1, 8001)))
    yield


FLOODS: dict[str, Callable[[dict[str, int]], Flood]] = {
    each.__name__: each
    for each in (
        idle, commit, dead_letters, nack, headers, patterns, cycle, fanout, multi_publish, channels, disposition, batch,
        phpmq_flood, retained, filters, copies, shared,
    )
}  # fmt: skip


def measure(flood: Callable[[dict[str, int]], Flood]) -> str:
    broker = Served()
    try:
        run = flood(broker.ports)
        next(run)
        other = Other(broker)
        other.start()
        time.sleep(0.2)
        for _ in run:
            pass
        time.sleep(SECONDS)
        waited, worked = other.waited()
        memory = broker.memory()
        other.ended = True
    finally:
        ended = broker.terminate()
    return f"{waited * 1000:12,.0f} {worked * 1000:12,.0f} {ended:10.1f} {memory / 1e6:10,.0f}"


if __name__ == "__main__":
    print(f"{'flood':14} {'PING, ms':>12} {'CPU, ms':>12} {'SIGTERM, s':>10} {'RSS, MB':>10}")
    for name in sys.argv[1:] or FLOODS:
        print(f"{name:14} {measure(FLOODS[name])}", flush=True)
