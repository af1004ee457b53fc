"""The RocketMQ client beside servers that are gone, that end each connection, that do not read, and that lie."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from lib.loopback import HOST, run, until
from lib.rocketmq_served import served
from wirefmt import rocketmq
from wirefmt.broker.rocketmq import Broker
from wirefmt.errors import ConnectionLost, LimitExceeded
from wirefmt.rocketmq import BrokerData, Queue, QueueData, RemotingCommand, TopicRouteData

pytestmark = pytest.mark.filterwarnings("error")

T = "orders"
FAST = {"poll_time": 0.1, "store_interval": 0.02, "pause": 0.01, "rebalance_interval": 0.02}
DEAD = f"{HOST}:1"


def routed(*addresses: str, queues: int = 2) -> TopicRouteData:
    """The route of a topic whose queues are at brokers with these addresses: a, b ..."""
    names = "abcdef"[: len(addresses)]
    return TopicRouteData(
        broker_datas=[
            BrokerData(cluster="c", broker_name=name, broker_addrs={0: address})
            for name, address in zip(names, addresses, strict=True)
        ],
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=6, topic_sys_flag=0)
            for name in names
        ],
    )


def name(broker: Broker, route: TopicRouteData) -> None:
    """Let a broker, as the name server that it is, say this of each topic."""
    say = broker._names.route
    broker._codes[105] = lambda peer, event: say(peer, event)._replace(code=0, body=route.encode())


def test_attempts_wait_longer_and_longer() -> None:
    """A server that accepts and drops is not hammered by calls in a loop."""

    async def main() -> None:
        accepted: list[float] = []
        loop = asyncio.get_running_loop()

        def drop(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(loop.time())
            writer.transport.abort()

        server = await asyncio.start_server(drop, HOST, 0)
        address = f"{HOST}:{server.sockets[0].getsockname()[1]}"
        backoff = rocketmq.Backoff(first=0.02, factor=2.0, jitter=0.0)
        async with rocketmq.connect(address, reconnect=backoff, timeout=0.1) as client:
            while len(accepted) < 6:
                with pytest.raises(ConnectionLost):
                    await client.remote(address).call(1)
        waits = [after - before for before, after in itertools.pairwise(accepted)]
        for wait, least in zip(waits, (0.02, 0.04, 0.08, 0.1, 0.1), strict=True):  # no longer than `timeout`
            assert wait > least * 0.95
        server.close()
        await server.wait_closed()

    run(main())


def test_calls_share_an_attempt_and_leave_nothing_of_it() -> None:
    async def main() -> None:
        backoff = rocketmq.Backoff(first=1000.0, most=1000.0)
        async with rocketmq.connect(DEAD, reconnect=backoff, timeout=0.05) as client:
            remote = client.remote(DEAD)
            results = await asyncio.gather(*(client.route(T) for _ in range(50)), return_exceptions=True)
            assert {type(result) for result in results} == {ConnectionLost}
            assert remote._failures == 1
            assert remote.resting
            results = await asyncio.gather(*(client.route(T) for _ in range(50)), return_exceptions=True)
            assert {type(result) for result in results} == {ConnectionLost}  # none has waited for 50 attempts
            assert remote._failures == 2
        async with rocketmq.connect(DEAD, reconnect=backoff, timeout=50.0) as client:
            with pytest.raises(ConnectionLost):
                await client.route(T)
            calls = [asyncio.create_task(client.route(T)) for _ in range(2)]
            await asyncio.sleep(0.01)
            calls[0].cancel()
            await asyncio.wait(calls[:1])
            assert client.remote(DEAD)._attempt is not None  # the other one waits for it
            calls[1].cancel()
            await asyncio.wait(calls)
            assert client.remote(DEAD)._attempt is None
            call = asyncio.create_task(client.route(T))
            await asyncio.sleep(0.01)
            await client.close()
            with pytest.raises(ConnectionLost, match="closed"):
                await call

    run(main())


def test_a_server_that_does_not_read() -> None:
    async def main() -> None:
        transports: list[Any] = []

        def freeze(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            transports.append(writer.transport)
            writer.transport.pause_reading()  # type: ignore[attr-defined]

        server = await asyncio.start_server(freeze, HOST, 0)
        address = f"{HOST}:{server.sockets[0].getsockname()[1]}"
        async with rocketmq.connect(address, timeout=0.2) as client:
            remote, body = client.remote(address), bytes(8 << 20)
            waits: tuple[Callable[[], Awaitable[None]], ...] = (remote.ready, partial(remote.send_oneway, 1))
            for number, wait in enumerate(waits, 1):
                results = await asyncio.gather(  # in less than the client's own time: the connection stays
                    *(remote.call(1, body=body, timeout=0.05) for _ in range(4)), return_exceptions=True
                )
                assert {type(result) for result in results} == {TimeoutError}
                assert remote.connections == number
                await wait()  # the connection is dropped meanwhile, and there is another one
                assert remote.connections == number + 1
        for transport in transports:
            transport.abort()
        server.close()
        await server.wait_closed()

    run(main())


@pytest.mark.parametrize(
    "lie", ["", "garbage", "host:", "h:0", "h:65536", "h:1x", ":1", "h:-1", "h/x:1", "h:²", "h:1:2²"]
)
def test_a_name_server_that_lies_about_an_address(lie: str) -> None:
    """The queues of other brokers are consumed nevertheless."""

    async def main() -> None:
        async with served() as place:
            name(place.broker, routed(lie, place.address))
            async with rocketmq.connect(place.address, timeout=1.0) as client:
                producer = client.producer("P", retries=0)
                with pytest.raises(ConnectionLost):
                    await producer.send(T, b"x", queue=Queue(T, "a", 0))
                await producer.send(T, b"x", queue=Queue(T, "b", 0))
                seen: list[Any] = []
                async with client.push_consumer("G", {T: "*"}, seen.append, begin="first", **FAST):
                    await until(lambda: seen)

    run(main())


def test_a_name_server_that_lies_about_numbers() -> None:
    async def main() -> None:
        async with served() as place, rocketmq.connect(place.address) as client:
            name(place.broker, routed(place.address, queues=(1 << 31) - 1))
            with pytest.raises(LimitExceeded):
                await client.route(T)
            name(place.broker, TopicRouteData())
            with pytest.raises(ConnectionLost):
                await client.pop_consumer("G").pop(T)

    run(main())


def test_a_broker_that_is_gone_stops_no_queue_of_another() -> None:
    """Whichever comes first: members, first offsets, and the offsets that are stored."""

    async def main() -> None:
        async with served() as place:
            name(place.broker, routed(DEAD, place.address))
            async with rocketmq.connect(place.address, timeout=1.0) as client:
                seen: list[bytes] = []

                def listen(message: rocketmq.MessageExt) -> None:
                    seen.append(bytes(message.body or b""))

                async with client.push_consumer("G", {T: "*"}, listen, begin="first", **FAST) as consumer:
                    await until(lambda: len(consumer.assigned) >= 2)
                    assert {queue.broker for queue in consumer.assigned} == {"b"}
                    producer = client.producer("P")
                    for n in range(4):
                        assert (await producer.send(T, b"%d" % n)).queue.broker == "b"
                    await until(lambda: len(seen) == 4)
                    await until(lambda: sum(place.broker.offsets.get(("G", T, n), 0) for n in range(2)) == 4)

    run(main())


def test_a_broker_that_ends_each_connection_after_the_heartbeat() -> None:
    async def main() -> None:
        connections = 0

        async def serve(peer: rocketmq.Peer) -> None:
            nonlocal connections
            connections += 1
            async for event in peer:
                if isinstance(event, RemotingCommand):
                    peer.respond(event)
                    peer.driver.close()

        async with served() as place, await rocketmq.serve(serve, HOST, 0) as server:
            address = f"{HOST}:{server.port}"
            name(place.broker, routed(address))
            backoff = rocketmq.Backoff(first=0.01, most=0.02)
            async with rocketmq.connect(place.address, reconnect=backoff) as client:
                with pytest.raises(ConnectionLost):
                    await client.producer("P").send(T, b"x")
            assert connections <= 12  # three attempts, and three for each

    run(main())
