"""Clients whose connect, send or close fails or is cancelled: no socket, task or descriptor is left, and nothing is reported."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lib.loopback import HOST, descriptors, run, until
from wirefmt import amqp091, amqp10, broker, mqtt, nsq, phpmq, rocketmq
from wirefmt.connection import client as connecting
from wirefmt.connection.aio import dial
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

LOST = (OSError, ConnectionLost, Refused, LocalProtocolError)


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    """What only the garbage collector would close counts as left over."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ---- each client: connect, send, close


async def with_mqtt(port: int, timeout: float) -> None:
    async with mqtt.connect(f"mqtt://{HOST}:{port}", timeout=timeout) as client:
        await client.subscribe("t", qos=1)
        await client.publish("t", b"x", qos=2)


async def with_amqp091(port: int, timeout: float) -> None:
    async with amqp091.connect(f"amqp://guest:guest@{HOST}:{port}", timeout=timeout) as client:
        channel = await client.channel()
        await channel.declare_queue("q")
        await channel.publish(b"x", routing_key="q")


async def with_amqp10(port: int, timeout: float) -> None:
    async with amqp10.connect(f"amqp://{HOST}:{port}", timeout=timeout) as client:
        sender = await client.sender("/queues/q10")
        await sender.send(amqp10.Message(body=b"x"))


async def with_nsq(port: int, timeout: float) -> None:
    async with nsq.connect(f"nsq://{HOST}:{port}", timeout=timeout) as client, client.consume("t", "c"):
        await client.publish("t", b"x")


async def with_phpmq(port: int, timeout: float) -> None:
    async with phpmq.connect(f"phpmq://{HOST}:{port}", timeout=timeout) as client:
        await client.publish("q", b"x")
        await client.consume("q", 10)


async def with_rocketmq(port: int, timeout: float) -> None:
    async with rocketmq.connect(f"{HOST}:{port}", timeout=timeout) as client:
        producer = client.producer("group")
        async with client.push_consumer("c", {"t": "*"}, lambda message: True, poll_time=0.1):
            await producer.send("t", b"x")


CLIENTS: dict[str, Callable[[int, float], Coroutine[Any, Any, None]]] = {
    "mqtt": with_mqtt,
    "amqp": with_amqp091,
    "amqp10": with_amqp10,
    "nsq": with_nsq,
    "phpmq": with_phpmq,
    "rocketmq": with_rocketmq,
}

#: Iterations of the event loop after which a client is cancelled: each of the first ones, then some of those that follow.
MOMENTS = [*range(40), *range(40, 400, 9)]


@pytest.mark.parametrize("cancellations", [1, 2])
@pytest.mark.parametrize("protocol", CLIENTS)
def test_cancelled_at_any_moment(protocol: str, cancellations: int) -> None:
    """While it looks for a server, connects, greets, sends, waits or closes."""

    async def test() -> None:
        async with broker.Broker() as b:
            await CLIENTS[protocol](b.ports[protocol], 30.0)
            await until(lambda: not b.clients)
            tasks, before = asyncio.all_tasks(), descriptors()
            for moment in MOMENTS[:: 1 if cancellations == 1 else 3]:
                task = asyncio.get_running_loop().create_task(CLIENTS[protocol](b.ports[protocol], 30.0))
                for _ in range(moment):
                    await asyncio.sleep(0)
                for _ in range(cancellations):
                    task.cancel()
                    await asyncio.sleep(0)
                await asyncio.wait([task])
                assert task.cancelled() or task.exception() is None
                await until(lambda: not b.clients and asyncio.all_tasks() <= tasks and descriptors() <= before)

    run(test())


@pytest.mark.parametrize("host", [HOST, "localhost"])
def test_a_cancelled_attempt_keeps_no_socket(host: str) -> None:
    """The call is cancelled after each iteration of the event loop: before, as and after the socket is connected."""

    async def test() -> None:
        async with bad_server("never answers") as (port, idle):
            loop, tasks, before = asyncio.get_running_loop(), asyncio.all_tasks(), descriptors()
            for moment in range(25):
                task = loop.create_task(dial.connected(host, port))
                for _ in range(moment):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.result().close()
                await until(lambda: idle() and asyncio.all_tasks() <= tasks and descriptors() <= before)

    run(test())


def test_the_first_address_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses is skipped at once, one that never answers after a while; families alternate (RFC 8305, 4 and 5)."""

    async def test() -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), HOST, 0)
        port = server.sockets[0].getsockname()[1]
        with socket.socket() as unused:
            unused.bind((HOST, 0))
            refusing = unused.getsockname()[1]
            loop = asyncio.get_running_loop()
            tried: list[Any] = []
            connect = loop.sock_connect

            async def sock_connect(sock: socket.socket, address: Any) -> None:
                tried.append(address)
                if address == "silent":
                    await loop.create_future()
                await connect(sock, address)

            addresses: list[Any] = []

            resolve = loop.getaddrinfo

            async def getaddrinfo(host: Any, *rest: Any, **more: Any) -> list[Any]:
                if host != "name.invalid":  # uvloop asks for addresses, too
                    return await resolve(host, *rest, **more)
                return [(family, socket.SOCK_STREAM, 0, "", address) for family, address in addresses]

            monkeypatch.setattr(loop, "sock_connect", sock_connect)
            monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
            here = (HOST, port)
            for first in ((HOST, refusing), "silent"):
                addresses[:] = [(socket.AF_INET, first), (socket.AF_INET, here)]
                tried.clear()
                with await dial.connected("name.invalid", 1) as connected:
                    assert connected.getpeername() == here
                assert tried == [first, here]
            addresses[:] = [(socket.AF_INET, "silent"), (socket.AF_INET, "silent"), (socket.AF_UNIX, "silent")]
            tried.clear()
            families: list[int] = []
            real = socket.socket
            monkeypatch.setattr(socket, "socket", lambda *a, **k: (families.append(a[0]), real(*a, **k))[1])  # type: ignore[func-returns-value]
            task = loop.create_task(dial.connected("name.invalid", 1))
            await until(lambda: len(tried) == 3)
            monkeypatch.setattr(socket, "socket", real)
            assert families == [socket.AF_INET, socket.AF_UNIX, socket.AF_INET]
            task.cancel()
            await asyncio.wait([task])
            addresses[:] = [(socket.AF_INET, (HOST, refusing))]
            with pytest.raises(ConnectionRefusedError):
                await dial.connected("name.invalid", 1)
            addresses[:] *= 2
            with pytest.raises(OSError, match=rf"cannot connect to name\.invalid: .*{refusing}.*, .*{refusing}"):
                await dial.connected("name.invalid", 1)
            monkeypatch.undo()
        server.close()

    run(test())


# ---- servers that are of no use


@asynccontextmanager
async def bad_server(kind: str) -> AsyncIterator[tuple[int, Callable[[], bool]]]:
    """A port, and whether no client is connected to it any more."""
    streams: set[asyncio.StreamWriter] = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        streams.add(writer)
        try:
            if kind == "ends after the first bytes":
                await reader.read(1)
            while kind == "never answers" and await reader.read(1000):
                pass
        except ConnectionError:
            pass
        finally:
            streams.discard(writer)
            writer.close()

    with socket.socket() as listener:
        listener.bind((HOST, 0))
        server = await asyncio.start_server(served, sock=listener, start_serving=kind != "refuses")
        try:
            yield listener.getsockname()[1], lambda: not streams
        finally:
            server.close()


@pytest.mark.parametrize("kind", ["never answers", "ends at once", "ends after the first bytes", "refuses"])
@pytest.mark.parametrize("protocol", CLIENTS)
def test_a_server_that_does_not_answer(protocol: str, kind: str) -> None:
    async def test() -> None:
        async with bad_server(kind) as (port, idle):
            tasks, before = asyncio.all_tasks(), descriptors()
            try:
                await CLIENTS[protocol](port, 0.05)
            except LOST:
                pass
            else:
                assert protocol == "phpmq"  # the protocol has no answers
            await until(lambda: idle() and asyncio.all_tasks() <= tasks and descriptors() <= before)

    run(test())


@pytest.mark.parametrize("protocol", [name for name in CLIENTS if name != "rocketmq"])
def test_closed_while_it_opens(protocol: str) -> None:
    makers: dict[str, Callable[[str], Any]] = {
        "mqtt": mqtt.connect,
        "amqp": amqp091.connect,
        "amqp10": amqp10.connect,
        "nsq": nsq.connect,
        "phpmq": phpmq.connect,
    }

    async def test() -> None:
        async with broker.Broker() as b:
            tasks = asyncio.all_tasks()
            client = makers[protocol](f"{'amqp' if protocol == 'amqp10' else protocol}://{HOST}:{b.ports[protocol]}")
            opening = asyncio.get_running_loop().create_task(client.open())
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(ConnectionLost, match="the client was closed"):
                await opening
            await until(lambda: not b.clients and asyncio.all_tasks() <= tasks)

    run(test())


# ---- RocketMQ: a client of many connections


def test_rocketmq_sends_of_other_tasks_end_with_the_client() -> None:
    """They try again, but make no connection once the client is closed."""

    async def test() -> None:
        async with broker.Broker() as b:
            tasks = asyncio.all_tasks()
            ended: list[Exception] = []

            async def send(producer: Any) -> None:
                try:
                    while True:
                        await producer.send("t", b"x")
                except ConnectionLost as error:
                    ended.append(error)

            async with rocketmq.connect(f"{HOST}:{b.ports['rocketmq']}") as client:
                producer = client.producer("group")
                await producer.send("t", b"x")
                for _ in range(5):
                    asyncio.get_running_loop().create_task(send(producer))
                await asyncio.sleep(0)
            await until(lambda: len(ended) == 5)
            with pytest.raises(ConnectionLost, match="the client is closed"):
                await producer.send("t", b"x")
            await until(lambda: not b.clients and asyncio.all_tasks() <= tasks)
            async with client:  # it can be opened again
                await client.producer("group").send("t", b"x")

    run(test())


def test_rocketmq_a_close_that_fails_leaves_nothing() -> None:
    async def test() -> None:
        async with broker.Broker() as b:
            tasks = asyncio.all_tasks()
            client = rocketmq.connect(f"{HOST}:{b.ports['rocketmq']}")
            client.open()
            await client.producer("group").send("t", b"x")

            async def leave(**_: Any) -> None:
                raise LocalProtocolError("no")

            client.leave = leave  # type: ignore[method-assign]
            with pytest.raises(LocalProtocolError, match="no"):
                await client.close()
            await until(lambda: not b.clients and asyncio.all_tasks() <= tasks)

    run(test())


# ---- futures that nobody waits for


def test_a_call_that_nobody_waits_for_is_not_reported() -> None:
    async def test() -> None:
        future = asyncio.get_running_loop().create_future()
        connecting.fail(future, ConnectionLost("lost"))
        connecting.fail(future, ConnectionLost("lost again"))
        with pytest.raises(ConnectionLost, match=r"^lost$"):
            await future
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        connecting.fail(cancelled, ConnectionLost("lost"))
        connecting.fail(asyncio.get_running_loop().create_future(), ConnectionLost("lost"))

    run(test())  # sees what is reported


def test_a_stream_that_fails_after_the_connection_is_not_reported() -> None:
    """The outcome of the message fails with the connection, and the call raises what its parts raise."""

    async def test() -> None:
        async with broker.Broker() as b:
            client = amqp10.connect(f"amqp://{HOST}:{b.ports['amqp10']}")
            await client.open()
            sender = await client.sender("/queues/q")

            async def parts() -> AsyncIterator[bytes]:
                yield amqp10.Message(body=b"x" * 1000).encode()[:500]
                yield b"x" * 100
                assert client._link is not None
                client._link.driver.abort()
                await until(lambda: not client.connected and client._ended)
                raise ValueError("no more")

            with pytest.raises(ValueError, match="no more"):
                await sender.stream(parts())
            await client.close()
            await until(lambda: not b.clients)

    run(test())
