"""Does the broker in memory keep its memory, tasks and descriptors while clients come and go for a long time?

    python bench/soak_broker.py --minutes 20 --connections 2000

The broker runs in a process of its own. Clients of all six protocols publish and consume; some read slowly or not at all, and
some are hostile: random bytes, truncated frames, lengths that are too large, silence, connections that are reset. Each lives for
some seconds and is followed by another. Every queue is bounded, so that memory has to become flat. The last lines say how much
memory was used in the second and in the last quarter of the time, and what was left when all clients had gone. The exit code is
1 if memory grew by more than a tenth (in runs of five minutes or more), or if a task, connection or descriptor is left.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import statistics
import sys
from collections import Counter
from typing import Any

from wirefmt import amqp091, amqp10, broker, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker import nsq as nsq_broker
from wirefmt.broker import phpmq as phpmq_broker
from wirefmt.broker import rocketmq as rocketmq_broker
from wirefmt.broker.limits import Limits

HOST = "127.0.0.1"
KEPT = 2000  # messages of a queue
BYTES = 4 << 20
GROWTH = 1.1
LONG = 300.0  # seconds from which growth is judged


# ---- the broker's process


def limited() -> broker.Options:
    return broker.Options(
        history=KEPT,
        limits=Limits(queue_messages=KEPT, queue_bytes=BYTES, overflow="drop_oldest"),
        mqtt=mqtt_broker.BrokerOptions(queue_messages=100, session_expiry=5),
        nsq=nsq_broker.BrokerOptions(messages=KEPT, memory=BYTES),
        rocketmq=rocketmq_broker.BrokerOptions(queue_messages=KEPT, memory=BYTES),
        phpmq=phpmq_broker.BrokerOptions(messages=KEPT, memory=BYTES),
    )


def measured(b: broker.Broker) -> dict[str, Any]:
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize()
    descriptors = len(os.listdir("/proc/self/fd")) - 1  # without the one that lists them
    return {
        "rss": resident,
        "fds": descriptors,
        "tasks": len(asyncio.all_tasks()),
        "clients": len(b.clients),
        "by_protocol": Counter(client.protocol for client in b.clients),
    }


async def serve() -> None:
    """Print the ports, then a line of figures for each line of standard input."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with broker.Broker(limited()) as b:
        print(json.dumps(b.ports), flush=True)
        while await reader.readline():
            print(json.dumps(measured(b)), flush=True)


# ---- clients


class Clients:
    def __init__(self, ports: dict[str, int], seed: int) -> None:
        self.ports = ports
        self.random = random.Random(seed)
        self.ended: Counter[str] = Counter()
        self.stopping = False

    async def slot(self) -> None:
        """One client after another."""
        names = list(KINDS)
        while not self.stopping:
            name = self.random.choice(names)
            try:
                async with asyncio.timeout(60):
                    await KINDS[name](self)
                self.ended[name] += 1
            except TimeoutError:
                self.ended[f"{name}: no end"] += 1
            except Exception:  # the broker refuses, is full or drops it
                self.ended[f"{name}: refused"] += 1
                await asyncio.sleep(0.05)

    async def live(self) -> None:
        await asyncio.sleep(self.random.uniform(0, 3))

    def url(self, name: str) -> str:
        return f"{'amqp' if name == 'amqp10' else name}://{HOST}:{self.ports[name]}"

    def payload(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 10, 100, 1000)))

    @contextlib.asynccontextmanager
    async def raw(self, name: str) -> Any:
        reader, writer = await asyncio.open_connection(HOST, self.ports[name])
        try:
            yield reader, writer
        finally:
            writer.transport.abort() if self.random.random() < 0.5 else writer.close()


async def mqtt_client(c: Clients) -> None:
    async with mqtt.connect(c.url("mqtt")) as client:
        await client.subscribe(f"soak/{c.random.randrange(50)}", qos=1)
        for _ in range(5):
            await client.publish(f"soak/{c.random.randrange(50)}", c.payload(), qos=c.random.randrange(3))
        await c.live()


async def amqp_client(c: Clients) -> None:
    async with amqp091.connect(c.url("amqp")) as client:
        channel = await client.channel()
        queue = f"soak-{c.random.randrange(20)}"
        await channel.declare_queue(queue)
        for _ in range(5):
            await channel.publish(c.payload(), routing_key=queue)
        await channel.consume(queue, no_ack=c.random.random() < 0.5)
        await c.live()


async def amqp10_client(c: Clients) -> None:
    async with amqp10.connect(c.url("amqp10")) as client:
        sender = await client.sender(f"/queues/soak-{c.random.randrange(20)}")
        for _ in range(5):
            await sender.send(amqp10.Message(body=c.payload()))
        await c.live()


async def nsq_client(c: Clients) -> None:
    async with nsq.connect(c.url("nsq")) as client:
        topic = f"soak-{c.random.randrange(20)}"
        await client.publish(topic, c.payload() or b"x")
        await c.live()


async def rocketmq_client(c: Clients) -> None:
    async with rocketmq.connect(f"{HOST}:{c.ports['rocketmq']}") as client:
        producer = client.producer("group")
        for _ in range(3):
            await producer.send(f"soak-{c.random.randrange(10)}", c.payload())
        await c.live()


async def phpmq_client(c: Clients) -> None:
    async with phpmq.connect(c.url("phpmq")) as client:
        queue = f"soak-{c.random.randrange(20)}"
        await client.publish(queue, c.payload())
        await client.consume(queue, 10)
        await c.live()


async def slow(c: Clients) -> None:
    """It subscribes to everything and reads nothing."""
    async with c.raw("mqtt") as (reader, writer):
        reader._transport.pause_reading()
        writer.write(mqtt.Connect(version=4).encode())
        subscriptions = [mqtt.Subscription("soak/#", qos=1)]
        writer.write(mqtt.Subscribe(packet_identifier=1, subscriptions=subscriptions, version=4).encode())
        await c.live()


async def silent(c: Clients) -> None:
    async with c.raw(c.random.choice(list(c.ports))):
        await c.live()


async def noise(c: Clients) -> None:
    async with c.raw(c.random.choice(list(c.ports))) as (reader, writer):
        writer.write(c.random.randbytes(c.random.randrange(1, 5000)))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reader.read(1 << 16), 3)


#: How clients begin, to be truncated.
OPENINGS = {
    "mqtt": mqtt.Connect(client_identifier="truncated").encode() + b"\x30\xff\xff\xff\x7f",
    "amqp": b"AMQP\0\0\x09\x01" + b"\x01\0\0\xff\xff\xff\xff",
    "amqp10": b"AMQP\0\1\0\0" + b"\xff\xff\xff\xff\2\0\0\0",
    "nsq": b"  V2IDENTIFY\n\x7f\xff\xff\xff",
    "rocketmq": b"\x7f\xff\xff\xff\0\0\0\x10",
    "phpmq": b"H0100102",
}


async def truncated(c: Clients) -> None:
    name = c.random.choice(list(OPENINGS))
    async with c.raw(name) as (reader, writer):
        data = OPENINGS[name]
        writer.write(data[: c.random.randrange(1, len(data) + 1)])
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reader.read(100), 1)


KINDS = {
    kind.__name__: kind
    for kind in (
        mqtt_client, amqp_client, amqp10_client, nsq_client, rocketmq_client, phpmq_client, slow, silent, noise, truncated,
    )
}  # fmt: skip


# ---- the run


async def soak(seconds: float, connections: int, seed: int) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--broker", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    asking, answers = process.stdin, process.stdout
    assert asking is not None
    assert answers is not None

    async def look() -> dict[str, Any]:
        asking.write(b"\n")
        found: dict[str, Any] = json.loads(await answers.readline())
        return found

    try:
        clients = Clients(json.loads(await answers.readline()), seed)
        before = await look()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: clients.ended.update([f"reported: {context['message']}"]))
        begun = loop.time()
        slots = [loop.create_task(clients.slot()) for _ in range(connections)]
        seen: list[tuple[float, dict[str, Any]]] = []
        while (now := loop.time() - begun) < seconds:
            await asyncio.sleep(min(1.0, seconds - now))
            seen.append((loop.time() - begun, await look()))
            if len(seen) % 60 == 0:
                print(f"{now:6.0f} s  {seen[-1][1]}  {sum(clients.ended.values())} clients so far", flush=True)
        clients.stopping = True
        await asyncio.gather(*slots)
        after = await look()
        for _ in range(600):  # timers of the broker end what was silent
            if after["clients"] == 0 and after["tasks"] <= before["tasks"]:
                break
            await asyncio.sleep(0.1)
            after = await look()
    finally:
        asking.close()
        await process.wait()
    quarters = [
        statistics.median([figures["rss"] for at, figures in seen if seconds * low <= at <= seconds * high] or [0])
        for low, high in ((0.25, 0.5), (0.75, 1.0))
    ]
    most = max(figures["clients"] for _, figures in seen)
    print(f"seed {seed}: {sum(clients.ended.values())} clients, at most {most} at a time")
    print(", ".join(f"{name} {count}" for name, count in sorted(clients.ended.items())))
    print(f"memory: second quarter {quarters[0] / 1e6:.1f} MB, last quarter {quarters[1] / 1e6:.1f} MB")
    own = len(os.listdir("/proc/self/fd")) - 1
    print(f"descriptors of this process, the clients': {own}")
    print(f"before: {before}\nafter:  {after}")
    left = [name for name in ("fds", "tasks", "clients") if after[name] > before[name]]
    grew = seconds >= LONG and quarters[1] > GROWTH * quarters[0]
    if left or grew:
        print(f"left over: {', '.join(left)}" if left else "memory grew")
    return int(bool(left or grew))


def main() -> int:
    parser = argparse.ArgumentParser(description="Clients of the broker in memory that come and go.")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--broker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * arguments.connections + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, wanted), hard), hard))
    if arguments.broker:
        asyncio.run(serve())
        return 0
    return asyncio.run(soak(arguments.minutes * 60, arguments.connections, arguments.seed))


if __name__ == "__main__":
    sys.exit(main())
