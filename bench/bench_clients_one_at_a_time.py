"""What does a client's process cost when it publishes a message and waits for the acknowledgement?

    python bench/bench_clients_one_at_a_time.py                     everything, 2,000 messages a round
    python bench/bench_clients_one_at_a_time.py mqtt amqp091        some of mqtt, amqp091, amqp10, nsq
    ROUNDS=15 MESSAGES=5000 python bench/bench_clients_one_at_a_time.py

CPU seconds (user and system) of the client's process for each message of 64 bytes: MQTT QoS 1 to PUBACK, AMQP 0.9.1 to the
confirm, AMQP 1.0 to the disposition, NSQ to OK. Each client is a program as its documentation has it. All of them are connected
to one server and take turns in every round; what the server costs does not count. Ratios are the median of those of the rounds,
of the other client to ours on asyncio.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from bench_amqp091_loopback import rabbitmq
from bench_nsq_connection import NSQD, nsqd
from bench_one_at_a_time import RABBITMQ, python
from brokers import LOOPS, MOSQUITTO, mosquitto, running

ROUNDS = int(os.environ.get("ROUNDS", "9"))
MESSAGES = int(os.environ.get("MESSAGES", "2000"))

#: What is around every program: a number of messages comes in, CPU seconds go out.
ASYNC = """
import asyncio, sys, time
{imports}
async def main():
    read = asyncio.get_running_loop().run_in_executor
    async with {client} as client:
        {begin}
        while line := await read(None, sys.stdin.readline):
            before = time.process_time()
            for _ in range(int(line)):
                await {publish}
            print(time.process_time() - before, flush=True)
import {loop}
{loop}.run(main())
"""
BLOCKING = """
import sys, time
{imports}
{begin}
for line in sys.stdin:
    before = time.process_time()
    for _ in range(int(line)):
        {publish}
    print(time.process_time() - before, flush=True)
"""

Running = Callable[[], AbstractContextManager[tuple[int, int]]]


def awaited(imports: str, client: str, publish: str, begin: str = "pass") -> str:
    parts = {"imports": imports, "client": client, "publish": publish, "begin": begin}
    return ASYNC.format(loop="{loop}", **parts)


def blocking(imports: str, begin: str, publish: str) -> str:
    return BLOCKING.format(imports=imports, begin=begin, publish=publish)


@dataclass(frozen=True)
class Load:
    """What is measured: the server, our program and those of others, by the name of the package. `{port}` is the server's."""

    title: str
    server: Running | None
    needs: str
    ours: str
    others: dict[str, str]


#: The server of AMQP 1.0: in RabbitMQ 3 it is a plugin that is off.
OURS_AMQP10 = """
import asyncio
from wirefmt import amqp10
from wirefmt.broker.amqp10 import Broker
async def main():
    async with await amqp10.serve(Broker(), "127.0.0.1", {port}): await asyncio.Event().wait()
{loop}.run(main())
"""

LOADS = {
    "mqtt": Load(
        "MQTT 3.1.1, QoS 1", partial(running, mosquitto) if MOSQUITTO else None, "mosquitto",
        awaited(
            "from wirefmt import mqtt", 'mqtt.connect("mqtt://127.0.0.1:{port}", version=4)',
            'client.publish("bench/00", bytes(64), qos=1)',
        ),
        {
            "aiomqtt": awaited(
                "from aiomqtt import Client", 'Client("127.0.0.1", {port})', 'client.publish("bench/00", bytes(64), qos=1)'
            ),
            "paho-mqtt": blocking(
                "from paho.mqtt.client import CallbackAPIVersion, Client",
                'client = Client(CallbackAPIVersion.VERSION2); client.connect("127.0.0.1", {port}); client.loop_start()',
                'client.publish("bench/00", bytes(64), qos=1).wait_for_publish()',
            ),
        },
    ),
    "amqp091": Load(
        "AMQP 0.9.1, confirms", rabbitmq if RABBITMQ else None, "RabbitMQ",
        awaited(
            "from wirefmt import amqp091", 'amqp091.connect("amqp://guest:guest@127.0.0.1:{port}/")',
            'channel.publish(bytes(64), exchange="amq.fanout")', "channel = await client.channel()",
        ),
        {
            "aio-pika": awaited(
                "import aio_pika", 'await aio_pika.connect("amqp://guest:guest@127.0.0.1:{port}/")',
                'exchange.publish(aio_pika.Message(bytes(64)), "", mandatory=False)',
                'exchange = await (await client.channel()).get_exchange("amq.fanout")',
            ),
            "pika": blocking(
                "import pika",
                'client = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", {port}))\n'
                "channel = client.channel(); channel.confirm_delivery()",
                'channel.basic_publish("amq.fanout", "", bytes(64))',
            ),
            "amqp": blocking(
                "import amqp",
                'client = amqp.Connection("127.0.0.1:{port}", confirm_publish=True); client.connect()\n'
                "channel = client.channel()",
                'channel.basic_publish(amqp.Message(bytes(64)), "amq.fanout")',
            ),
        },
    ),
    "amqp10": Load(
        "AMQP 1.0, unsettled", partial(running, partial(python, OURS_AMQP10)), "wirefmt",
        awaited(
            "from wirefmt import amqp10", 'amqp10.connect("amqp://127.0.0.1:{port}")',
            "sender.send(amqp10.Message(body=bytes(64)))", 'sender = await client.sender("/queues/bench00")',
        ),
        {
            "python-qpid-proton": blocking(
                "from proton import Message\nfrom proton.utils import BlockingConnection",
                'sender = BlockingConnection("amqp://127.0.0.1:{port}").create_sender("/queues/bench00")',
                "sender.send(Message(body=bytes(64)))",
            ),
        },
    ),
    "nsq": Load(
        "NSQ, PUB", partial(running, nsqd) if NSQD else None, "nsqd",
        awaited(
            "from wirefmt import nsq", 'nsq.connect("nsq://127.0.0.1:{port}")', 'client.publish("bench00#ephemeral", bytes(64))'
        ),
        {
            "ansq": awaited(
                "import ansq", "Writer({port})", 'client.pub("bench00#ephemeral", bytes(64))',
            ).replace(
                "async def main():",
                "class Writer:\n"
                "    def __init__(self, port): self.port = port\n"
                "    async def __aenter__(self):\n"
                '        self.writer = await ansq.create_writer([f"127.0.0.1:{{self.port}}"]); return self.writer\n'
                "    async def __aexit__(self, *_): await self.writer.close()\n"
                "async def main():",
            ),
        },
    ),
}  # fmt: skip


class Contestant:
    """A client's process."""

    def __init__(self, stack: ExitStack, code: str, port: int, loop: str = "asyncio") -> None:
        command = [sys.executable, "-c", code.format(port=port, loop=loop)]
        self.process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(self.process.kill)

    def play(self, messages: int) -> float:
        """CPU seconds for each message."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{messages}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline()) / messages


def have(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        print(f"{package} is not here: pip install {package}")
        return False


def measure(load: Load) -> None:
    if load.server is None:
        print(f"{load.needs} is not here: install it")
        return
    with load.server() as (port, _), ExitStack() as stack:
        rivals = {name: Contestant(stack, load.ours, port, loop) for name, loop in LOOPS.items()}
        for name, code in load.others.items():
            if have(name):
                rivals[f"{name} {version(name)}"] = Contestant(stack, code, port)
        rounds = [{name: rival.play(MESSAGES) for name, rival in rivals.items()} for _ in range(ROUNDS + 1)][1:]
    print(f"\n{load.title}, one message at a time to {load.needs}: CPU of the client's process a message")
    for name in rounds[0]:
        microseconds = statistics.median(each[name] for each in rounds) * 1e6
        ratio = statistics.median(each[name] / each["wirefmt"] for each in rounds)
        print(f"  {name:26} {microseconds:8.2f} us   {ratio:6.2f} x wirefmt", flush=True)


def main() -> None:
    for name in sys.argv[1:] or LOADS:
        measure(LOADS[name])


if __name__ == "__main__":
    main()
