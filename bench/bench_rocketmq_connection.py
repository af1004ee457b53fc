"""What do RocketMQ connections cost, beside their codec and beside the real broker?

    python bench/bench_rocketmq_connection.py

Machines: a request with a 200-byte body goes through the client's and the server's machine, and its response back; in turn, the
same two commands are made, encoded and decoded without machines. One by one, and 100 requests in a turn. At most three times is
the goal.

Brokers: processor time of a broker process that takes MESSAGES messages of 200 bytes from our client, one by one with 100 calls
at a time, and gives them to pulls of 32: ours in memory, and the real one of Java (if the variable WIREFMT_ROCKETMQ names its
jars, see tests/README.md), which writes to disk. Both run at the same time, and take ROUNDS rounds in turn. The time before the
first message is its start; Java compiles its code in the first rounds, so the last round of each is compared. At most half is the
goal.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ratios import RESULTS, compare, versions

from wirefmt import rocketmq
from wirefmt.errors import ConnectionLost, Refused
from wirefmt.rocketmq import ClientConnection, ConnectionOptions, RemotingCommand, ServerConnection

MESSAGES = int(os.environ.get("MESSAGES", "100000"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
BODY = b"x" * 200
HEADER = rocketmq.SendMessageRequestHeaderV2(
    a="producers", b="orders", c="TBW102", d=4, e=1, f=0, g=1700000000000, h=0,
    i=rocketmq.encode_properties({"UNIQ_KEY": "C0000201000078BF18B4AAC200000001", "WAIT": "true"}), j=0, k=False, m=False,
)  # fmt: skip
ANSWER = rocketmq.SendMessageResponseHeader(msg_id="7F000001000074D70000000000000000", queue_id=1, queue_offset=7)
ROOT = Path(__file__).resolve().parent.parent

SERVER = """
import asyncio, sys
from wirefmt import rocketmq
from wirefmt.broker.rocketmq import Broker
async def main():
    broker = Broker()
    server = await rocketmq.serve(broker, "127.0.0.1", 0)
    broker.address = f"127.0.0.1:{server.port}"
    print(server.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    broker.close()
    await server.close()
asyncio.run(main())
"""


def machines(form: Any, count: int) -> Callable[[], None]:
    client = ClientConnection(0.0, ConnectionOptions(serialize_type=form))
    server = ServerConnection(0.0)

    def run() -> None:
        for _ in range(count):
            client.request(310, HEADER, BODY, now=0.0)
        for event in server.receive(client.data_to_send(), 0.0):
            if type(event) is RemotingCommand:
                server.respond(event, 0, ANSWER)
        client.receive(server.data_to_send(), 0.0)
        assert not client.pending

    return run


def codec(form: Any, count: int) -> Callable[[], None]:
    requests, responses = rocketmq.Decoder(), rocketmq.Decoder()

    def run() -> None:
        said = [
            RemotingCommand(code=310, opaque=n, header=HEADER, body=BODY, serialize_type=form).encode()
            for n in range(count)
        ]
        for command in requests.feed(b"".join(said)):
            assert command.code == 310
        said = [
            RemotingCommand(code=0, flag=1, opaque=n, header=ANSWER, serialize_type=form).encode() for n in range(count)
        ]
        for command in responses.feed(b"".join(said)):
            assert command.code == 0

    return run


def cpu(process: int) -> float:
    """Seconds of processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Work:
    """A broker that is measured.

    Attributes:
        spent: seconds of its processor time: before the first message, and in each round.
    """

    def __init__(self, client: rocketmq.Client, process: int) -> None:
        self.producer, self.consumer = client.producer("bench"), client.pull_consumer("bench")
        self.client = client
        self.process = process
        self.spent = [cpu(process)]
        self.offsets: dict[rocketmq.Queue, int] = {}

    async def begin(self) -> None:
        """Wait until the broker takes messages."""
        while True:
            try:
                await self.producer.send("bench", BODY)
                self.client.forget_route("bench")
                queues = await self.consumer.queues("bench")
                break
            except (Refused, ConnectionLost):
                await asyncio.sleep(0.3)
        self.offsets = {queue: await self.consumer.max_offset(queue) for queue in queues}
        self.spent = [cpu(self.process)]

    async def some(self, count: int) -> None:
        for _ in range(count):
            await self.producer.send("bench", BODY)

    async def round(self) -> None:
        start, taken = cpu(self.process), 0
        await asyncio.gather(*(self.some(MESSAGES // 100) for _ in range(100)))
        while taken < MESSAGES // 100 * 100:  # the real broker shows a message some time after it has stored it
            for queue in self.offsets:
                result = await self.consumer.pull(queue, self.offsets[queue])
                self.offsets[queue] = result.next_offset
                taken += len(result.messages)
        self.spent.append(cpu(self.process) - start)


@contextmanager
def ours() -> Iterator[tuple[str, int]]:
    """The address of our broker, and its process."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.stdin.close()
            process.wait(30)


@contextmanager
def java(jars: str) -> Iterator[tuple[str, int]]:
    """The same of the real broker, with the program of the live tests."""
    sys.path[:0] = [str(ROOT / "tests")]
    from live.test_rocketmq import SOURCES, start, stop

    from lib.ports import free_port

    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join((f"{jars}/*", folder))
        subprocess.run(
            ["javac", "-nowarn", "-cp", path, "-d", folder, str(SOURCES / "Server.java")],
            check=True,
            capture_output=True,
        )
        names, broker = free_port(), free_port()
        running: list[Any] = []
        try:
            running.append(start(path, Path(folder) / "names", str(names)))
            running.append(start(path, Path(folder) / "broker", str(names), str(broker)))
            yield f"127.0.0.1:{names}", running[1].pid
        finally:
            for process in reversed(running):
                stop(process)


async def measured(places: dict[str, tuple[str, int]]) -> dict[str, list[float]]:
    """Processor time of each broker: its start, and each round."""
    async with AsyncExitStack() as stack:
        works = {}
        for name, (address, process) in places.items():
            client = await stack.enter_async_context(rocketmq.connect(address, timeout=60.0))
            works[name] = Work(client, process)
            await works[name].begin()
        for _ in range(ROUNDS):
            for work in works.values():
                await work.round()
    return {name: work.spent for name, work in works.items()}


def main() -> None:
    ratios: dict[str, Any] = {"versions": versions("wirefmt")}
    for form in ("JSON", "ROCKETMQ"):
        for count in (1, 100):
            best = compare(
                f"request and response, {form} headers, {count} in a turn",
                {"codec alone": codec(form, count), "both machines": machines(form, count)},
                units=count, unit="round trip", clock=time.process_time,
            )  # fmt: skip
            ratios[f"machines {form} {count}"] = round(best["both machines"] / best["codec alone"], 2)
    with ExitStack() as stack:
        places = {"ours": stack.enter_context(ours())}
        if jars := os.environ.get("WIREFMT_ROCKETMQ"):
            places["java"] = stack.enter_context(java(jars))
        seconds = asyncio.run(measured(places))
    if "java" in seconds:
        ratios["broker"] = round(seconds["ours"][-1] / seconds["java"][-1], 2)
        ratios["broker, first round"] = round(seconds["ours"][1] / seconds["java"][1], 2)
    print(f"\nseconds of processor time of a broker: its start, and each round of {MESSAGES} messages sent and pulled")
    for name, values in seconds.items():
        print(
            f"  {name:<10}"
            + "".join(f"{value:8.2f}" for value in values)
            + f"{values[-1] / MESSAGES * 1e6:8.1f} us per message"
        )
    print(json.dumps(ratios))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "rocketmq_connection.json").write_text(json.dumps({**ratios, "seconds": seconds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
