"""What does NSQ cost: a client that consumes, one that publishes, and a server?

    python bench/bench_nsq_connection.py

Everything on loopback; a figure is the processor time of one process, the one under test, for each message of 200 bytes, without
its start. Clients talk to our server; contestants are pynsq and ansq, where they are installed. Servers are fed and emptied by
our client; the contestant is nsqd ($NSQD, or in PATH). The core's optimisation decides a part of it: build with -O3.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ratios import versions

from wirefmt import nsq
from wirefmt.broker.nsq import Broker

HOST = "127.0.0.1"
BODY = b"x" * 200
COUNT = int(os.environ.get("MESSAGES", "30000"))
WINDOW = 1000
NSQD = os.environ.get("NSQD") or shutil.which("nsqd", path=os.environ.get("PATH", "") + f":{Path.home()}/go/bin")


# ---- clients, each in a process of its own: seconds of processor time, without the start


async def consume_ours(port: int, count: int) -> float:
    client = nsq.connect(f"nsq://{HOST}:{port}")
    async with client, client.consume("topic", "channel", max_in_flight=WINDOW) as messages:
        begin, seen = 0.0, 0
        async for _ in messages:
            begin = begin or time.process_time()
            seen += 1
            if seen == count:
                return time.process_time() - begin
    raise AssertionError


async def consume_machine(port: int, count: int) -> float:
    """The connection without the consumer on top: what a program with a driver of its own pays."""
    reader, writer = await asyncio.open_connection(HOST, port)
    connection = nsq.ClientConnection(time.monotonic())
    connection.send(nsq.Identify(feature_negotiation=True))
    begin, seen = 0.0, 0
    while True:
        writer.write(connection.data_to_send())
        for event in connection.receive(await reader.read(1 << 18), time.monotonic()):
            if type(event) is nsq.MessageFrame:
                begin = begin or time.process_time()
                connection.finish(event)
                seen += 1
                if seen == count:
                    return time.process_time() - begin
            elif connection.state is nsq.State.INIT:
                connection.subscribe("topic", "channel")
            elif connection.state is nsq.State.SUBSCRIBED:
                connection.ready(WINDOW)


async def consume_pynsq(port: int, count: int) -> float:
    import nsq as pynsq

    done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    state = [0.0, 0]

    def handle(message: Any) -> bool:
        state[0] = state[0] or time.process_time()
        state[1] += 1
        if state[1] == count:
            done.set_result(time.process_time() - state[0])
        return True

    pynsq.Reader("topic", "channel", handle, nsqd_tcp_addresses=[f"{HOST}:{port}"], max_in_flight=WINDOW)
    return await done


async def consume_ansq(port: int, count: int) -> float:
    from ansq.tcp.connection import open_connection

    connection = await open_connection(host=HOST, port=port, auto_reconnect=False)
    await connection.identify()
    await connection.subscribe("topic", "channel", WINDOW)
    begin, seen = 0.0, 0
    async for message in connection.messages():
        begin = begin or time.process_time()
        await message.fin()
        seen += 1
        if seen == count:
            return time.process_time() - begin
    raise AssertionError


async def publish_ours(port: int, count: int) -> float:
    async with nsq.connect(f"nsq://{HOST}:{port}") as client:
        bodies = [BODY] * 100
        begin = time.process_time()
        for _ in range(count // 100):
            await client.publish_many("topic", bodies)
        return time.process_time() - begin


async def publish_pynsq(port: int, count: int) -> float:
    import nsq as pynsq

    writer = pynsq.Writer([f"{HOST}:{port}"])
    while not any(c.state == "CONNECTED" for c in writer.conns.values()):
        await asyncio.sleep(0.1)
    bodies = [BODY] * 100
    begin = time.process_time()
    for _ in range(count // 100):
        answered = asyncio.get_running_loop().create_future()
        writer.mpub("topic", bodies, callback=lambda *_, answered=answered: answered.set_result(None))
        await answered
    return time.process_time() - begin


async def publish_ansq(port: int, count: int) -> float:
    from ansq.tcp.connection import open_connection

    connection = await open_connection(host=HOST, port=port, auto_reconnect=False)
    await connection.identify()
    bodies = [BODY] * 100
    begin = time.process_time()
    for _ in range(count // 100):
        await connection.mpub("topic", *bodies)
    return time.process_time() - begin


async def serve_ours(port: int, count: int) -> float:
    async with await nsq.serve(Broker(), HOST, port):
        await asyncio.sleep(3600)
    return 0.0


CLIENTS: dict[str, Any] = {
    "consume_ours": consume_ours,
    "consume_machine": consume_machine,
    "consume_pynsq": consume_pynsq,
    "consume_ansq": consume_ansq,
    "publish_ours": publish_ours,
    "publish_pynsq": publish_pynsq,
    "publish_ansq": publish_ansq,
    "serve_ours": serve_ours,
}


async def measure(name: str) -> float:
    """One contestant, against our server in this process: seconds a message."""
    broker = Broker()
    server = await nsq.serve(broker, HOST, 0)
    if name.startswith("consume"):
        for _ in range(COUNT):
            broker.publish("topic", BODY)
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, name, str(server.port), stdout=asyncio.subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 120)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    for driver in list(server.drivers):
        driver.abort()
    await server.close()
    broker.close()
    return float(line) / COUNT


# ---- servers


def used(pid: int) -> float:
    """Seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def through(port: int, many: int) -> None:
    """COUNT messages in and out, published one by one or `many` together."""
    client = nsq.connect(f"nsq://{HOST}:{port}")
    async with client, client.consume("topic", "channel", max_in_flight=WINDOW) as messages:

        async def publish() -> None:
            if many > 1:
                for _ in range(COUNT // many):
                    await client.publish_many("topic", [BODY] * many)
            else:
                for _ in range(COUNT // 500):
                    await asyncio.gather(*(client.publish("topic", BODY) for _ in range(500)))

        task = asyncio.create_task(publish())
        seen = 0
        async for _ in messages:
            seen += 1
            if seen == COUNT // max(many, 500) * max(many, 500):
                break
        await task


def free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


def serve(command: list[str], port: int, many: int) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection((HOST, port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        before = used(process.pid)
        asyncio.run(through(port, many))
        return (used(process.pid) - before) / COUNT
    finally:
        process.kill()
        process.wait()


def show(title: str, figures: dict[str, float]) -> None:
    print(f"\n{title}")
    ours = next(iter(figures.values()))
    for name, seconds in figures.items():
        print(f"  {name:42} {seconds * 1e6:10.2f} us a message   {seconds / ours:8.2f} x")


def best(run: Any, *arguments: Any, rounds: int = 3) -> float:
    return min(run(*arguments) for _ in range(rounds))


def main() -> None:
    print(versions("wirefmt", "pynsq", "ansq"))
    for verb in ("consume", "publish"):
        figures = {}
        for name in CLIENTS:
            if name.startswith(verb):
                try:
                    figures[name] = best(lambda name=name: asyncio.run(measure(name)))
                except (ValueError, TimeoutError) as error:
                    print(f"{name}: {error!r}")
        show("received and finished" if verb == "consume" else "MPUB of 100", figures)
    for many in (1, 100):
        figures = {}
        port = free_port()
        figures["wirefmt"] = best(serve, [sys.executable, __file__, "serve_ours", str(port)], port, many)
        if NSQD is not None:
            with tempfile.TemporaryDirectory() as folder:
                port = free_port()
                command = [NSQD, f"-tcp-address={HOST}:{port}", f"-http-address={HOST}:{free_port()}"]
                command += [f"-data-path={folder}", "-log-level=fatal"]
                figures["nsqd"] = best(serve, command, port, many)
        show(f"through a server, published {'one by one' if many == 1 else f'by MPUB of {many}'}", figures)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(asyncio.run(CLIENTS[sys.argv[1]](int(sys.argv[2]), COUNT)), flush=True)
        os._exit(0)
    main()
