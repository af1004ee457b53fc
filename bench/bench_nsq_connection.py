"""What does NSQ cost: the connection alone, a client that consumes, one that publishes, and a server?

    python bench/bench_nsq_connection.py

First connections without a socket: ours against the connection code of pynsq and ansq, which get the bytes, or whole frames,
that a server would send. Then everything on loopback; a figure is the processor time of one process, the one under test, for each
message of 200 bytes, without its start. Clients talk to our server; contestants are pynsq and ansq, where they are installed.
Servers are fed and emptied by our client; the contestant is nsqd ($NSQD, or in PATH). The core's optimisation decides a part of
it: build with -O3.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from brokers import LOOPS, Command, cpu_seconds, free_port, running
from ratios import compare, versions

from wirefmt import nsq
from wirefmt.broker.nsq import Broker

HOST = "127.0.0.1"
BODY = b"x" * 200
BODIES = [BODY] * 100
COUNT = int(os.environ.get("MESSAGES", "30000"))
WINDOW = 1000
TOGETHER = 10  # MPUBs that are sent before the first answer, where they are pipelined
OK = nsq.Response(b"OK").encode()
NSQD = os.environ.get("NSQD") or shutil.which("nsqd", path=os.environ.get("PATH", "") + f":{Path.home()}/go/bin")


# ---- connections without a socket


class Written:
    """What a connection writes to, in place of a stream."""

    def write(self, data: bytes) -> None:
        self.data = data


def machine_ours() -> Any:
    connection = nsq.ClientConnection(0.0)
    connection.send(nsq.Identify(feature_negotiation=True))
    connection.receive(nsq.Response(b'{"max_rdy_count":2500}').encode(), 0.0)
    connection.data_to_send()
    return connection


def machine_pynsq() -> Any:
    import nsq as pynsq

    connection = pynsq.AsyncConn("host", 1)
    connection.stream = Written()
    connection.on("data", connection._on_data)  # as `connect` does
    return connection


def machine_ansq() -> Any:
    from ansq.tcp.connection import NSQConnection
    from ansq.tcp.types import ConnectionStatus

    connection = NSQConnection()
    connection._status = ConnectionStatus.CONNECTED
    connection._reader, connection._writer = object(), Written()
    return connection


def run_now(coroutine: Any) -> Any:
    """The result of a coroutine that need not wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError


def consuming() -> dict[str, Any]:
    """Each takes and finishes WINDOW messages."""
    frames = [
        nsq.MessageFrame(timestamp=1, attempts=1, message_id=b"%016x" % number, body=BODY).encode()
        for number in range(WINDOW)
    ]
    chunk = b"".join(frames)
    ours = machine_ours()
    ours.subscribe("topic", "channel")
    ours.receive(OK, 0.0)
    ours.ready(WINDOW)

    def run_ours() -> None:
        for message in ours.receive(chunk, 1.0):
            ours.finish(message)
        ours.buffers_to_send()

    contestants = {"wirefmt": run_ours}
    try:
        pynsq = machine_pynsq()
    except ImportError:
        pass
    else:
        pynsq.on("message", lambda conn, message: message.finish())

        def run_pynsq() -> None:
            for frame in frames:
                pynsq.trigger("data", conn=pynsq, data=frame[4:])

        contestants["pynsq"] = run_pynsq
    try:
        ansq = machine_ansq()
    except ImportError:
        pass
    else:

        def run_ansq() -> None:
            ansq._parser.feed(chunk)
            run_now(ansq._read_buffer())
            while (message := ansq.get_message()) is not None:
                run_now(message.fin())

        contestants["ansq"] = run_ansq
    return contestants


def publishing(together: int) -> dict[str, Any]:
    """Each sends so many MPUBs, and takes their answers."""
    ours, answers = machine_ours(), OK * together

    def run_ours() -> None:
        for _ in range(together):
            ours.publish_many("topic", BODIES)
        ours.buffers_to_send()
        ours.receive(answers, 1.0)

    contestants = {"wirefmt": run_ours}
    try:
        pynsq = machine_pynsq()
        from nsq import protocol
    except ImportError:
        pass
    else:
        answered: list[Any] = []
        pynsq.on("response", lambda conn, data: answered.append(data))

        def run_pynsq() -> None:
            for _ in range(together):
                pynsq.send(protocol.mpub("topic", BODIES))
            for _ in range(together):
                pynsq.trigger("data", conn=pynsq, data=OK[4:])
            answered.clear()

        contestants["pynsq"] = run_pynsq
    try:
        ansq = machine_ansq()
    except ImportError:
        pass
    else:

        def run_ansq() -> None:
            calls = [ansq.mpub("topic", *BODIES) for _ in range(together)]
            for call in calls:
                call.send(None)
            ansq._parser.feed(answers)
            run_now(ansq._read_buffer())
            for call in calls:
                run_now(call)

        contestants["ansq"] = run_ansq
    return contestants


async def machines() -> None:
    more: dict[str, Any] = {"clock": time.process_time}
    compare("connection alone: received and finished", consuming(), units=WINDOW, **more)
    compare("connection alone: MPUB of 100, one after the other", publishing(1), unit="MPUB", **more)
    compare(
        f"connection alone: MPUB of 100, {TOGETHER} at a time",
        publishing(TOGETHER),
        units=TOGETHER,
        unit="MPUB",
        **more,
    )


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


async def publish_ours(port: int, count: int, together: int = 1) -> float:
    async with nsq.connect(f"nsq://{HOST}:{port}") as client:
        begin = time.process_time()
        if together == 1:
            for _ in range(count // 100):
                await client.publish_many("topic", BODIES)
        else:
            for _ in range(count // 100 // together):
                await asyncio.gather(*(client.publish_many("topic", BODIES) for _ in range(together)))
        return time.process_time() - begin


async def publish_pynsq(port: int, count: int, together: int = 1) -> float:
    import nsq as pynsq

    writer = pynsq.Writer([f"{HOST}:{port}"])
    while not any(c.state == "CONNECTED" for c in writer.conns.values()):
        await asyncio.sleep(0.1)
    begin = time.process_time()
    for _ in range(count // 100 // together):
        answered = asyncio.get_running_loop().create_future()
        for more in range(together - 1, -1, -1):
            done = (lambda *_: None) if more else (lambda *_, answered=answered: answered.set_result(None))
            writer.mpub("topic", BODIES, callback=done)
        await answered
    return time.process_time() - begin


async def publish_ansq(port: int, count: int, together: int = 1) -> float:
    from ansq.tcp.connection import open_connection

    connection = await open_connection(host=HOST, port=port, auto_reconnect=False)
    await connection.identify()
    begin = time.process_time()
    if together == 1:
        for _ in range(count // 100):
            await connection.mpub("topic", *BODIES)
    else:
        for _ in range(count // 100 // together):
            await asyncio.gather(*(connection.mpub("topic", *BODIES) for _ in range(together)))
    return time.process_time() - begin


class Bare(asyncio.Protocol):
    """Sends what an MPUB has and waits for the answer: what asyncio itself takes."""

    answered: asyncio.Future[None]

    def data_received(self, data: bytes) -> None:
        if not self.answered.done():
            self.answered.set_result(None)


async def publish_bare(port: int, count: int) -> float:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(Bare, HOST, port)
    data = nsq.MultiPublish(topic="topic", bodies=BODIES).encode()
    transport.write(b"  V2")
    begin = time.process_time()
    for _ in range(count // 100):
        protocol.answered = loop.create_future()
        transport.write(data)
        await protocol.answered
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
    "publish_bare": publish_bare,
    "publish_pynsq": publish_pynsq,
    "publish_ansq": publish_ansq,
    "pipeline_ours": partial(publish_ours, together=TOGETHER),
    "pipeline_pynsq": partial(publish_pynsq, together=TOGETHER),
    "pipeline_ansq": partial(publish_ansq, together=TOGETHER),
    "serve_ours": serve_ours,
}
for verb in ("consume", "publish", "pipeline") if "uvloop" in LOOPS.values() else ():
    CLIENTS[f"{verb}_ours_uvloop"] = CLIENTS[f"{verb}_ours"]


async def measure(name: str) -> float:
    """One contestant, against our server in this process: seconds a message."""
    broker = Broker()
    server = await nsq.serve(broker, HOST, 0)
    if name.startswith("consume"):
        for _ in range(COUNT):
            broker.publish("topic", BODY)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        name,
        str(server.port),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
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


def ours(port: int, folder: Path) -> list[str]:
    return [sys.executable, __file__, "serve_ours", str(port)]


def nsqd(port: int, folder: Path) -> list[str]:
    addresses = [f"-tcp-address={HOST}:{port}", f"-http-address={HOST}:{free_port()}"]
    return [NSQD or "nsqd", *addresses, f"-data-path={folder}", "-log-level=fatal"]


def serve(command: Command, many: int) -> float:
    """CPU seconds of a server for each message."""
    with running(command) as (port, pid):
        before = cpu_seconds(pid)
        asyncio.run(through(port, many))
        return (cpu_seconds(pid) - before) / COUNT


def show(title: str, figures: dict[str, float]) -> None:
    print(f"\n{title}")
    ours = next(iter(figures.values()))
    for name, seconds in figures.items():
        print(f"  {name:42} {seconds * 1e6:10.2f} us per message   {seconds / ours:8.2f} x")


def best(run: Any, *arguments: Any, rounds: int = 3) -> float:
    return min(float(run(*arguments)) for _ in range(rounds))


def main() -> None:
    print(versions("wirefmt", "pynsq", "ansq"))
    asyncio.run(machines())
    titles = {
        "consume": "clients: received and finished",
        "publish": "clients: MPUB of 100, one after the other",
        "pipeline": f"clients: MPUB of 100, {TOGETHER} at a time",
    }
    for verb, title in titles.items():
        figures: dict[str, float] = {}
        for _ in range(3):  # alternating: a busy machine is so for all
            for name in CLIENTS:
                if name.startswith(verb):
                    try:
                        seconds = asyncio.run(measure(name))
                    except (ValueError, TimeoutError) as error:
                        print(f"{name}: {error!r}")
                    else:
                        figures[name] = min(figures.get(name, seconds), seconds)
        show(title, figures)
    for many in (1, 100):
        figures = {"wirefmt": best(serve, ours, many)}
        if NSQD is not None:
            figures["nsqd"] = best(serve, nsqd, many)
        show(f"through a server, published {'one by one' if many == 1 else f'by MPUB of {many}'}", figures)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        loop = import_module("uvloop" if sys.argv[1].endswith("_uvloop") else "asyncio")
        print(loop.run(CLIENTS[sys.argv[1]](int(sys.argv[2]), COUNT)), flush=True)
        os._exit(0)
    main()
