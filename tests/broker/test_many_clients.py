"""A thousand clients on one server, one of which does not read."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from lib.loopback import HOST
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker, BrokerOptions

CLIENTS = 1000
ROUNDS = 20
PAYLOAD = bytes(20_000)


def resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def connect(name: str) -> bytes:
    return mqtt.Connect(client_identifier=name).encode()


def subscribe(topic: str) -> bytes:
    return mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription(topic)]).encode()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_a_slow_client_among_a_thousand() -> None:
    """All but one receive every message; for the slow one the broker keeps no more than its limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3 * CLIENTS:
        pytest.skip("needs 3000 descriptors (ulimit -n 3000)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, 3 * CLIENTS), hard))

    async def follow(port: int, name: str, ready: asyncio.Semaphore) -> int:
        """Connect, subscribe, and count the messages until each of the topics has said `end`."""
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(connect(name) + subscribe("all/#"))
        decoder = mqtt.Decoder(version=5, side="server")
        count = 0
        while data := await reader.read(65536):
            for packet in decoder.feed(data):
                if isinstance(packet, mqtt.Suback):
                    ready.release()
                elif isinstance(packet, mqtt.Publish):
                    count += 1
                    if packet.payload_bytes() == b"end":
                        writer.close()
                        return count
        return -1

    async def test() -> None:
        policy = BrokerOptions(queue_messages=1_000_000, queue_bytes=1 << 20)
        broker = Broker(policy)
        options = mqtt.ConnectionOptions(receive_maximum=20)
        async with await mqtt.serve(broker, HOST, 0, options=options, backlog=CLIENTS) as server:
            ready = asyncio.Semaphore(0)
            followers = [asyncio.create_task(follow(server.port, f"c{n}", ready)) for n in range(CLIENTS - 2)]
            for _ in followers:
                await ready.acquire()
            # the slow one has a topic of its own, of which much more is said
            reader, writer = await asyncio.open_connection(HOST, server.port, limit=1000)
            writer.write(connect("slow") + subscribe("slow"))
            await reader.readexactly(1)
            async with mqtt.connect(f"mqtt://{HOST}:{server.port}", client_identifier="publisher") as publisher:
                while "slow" not in broker.subscribers or not broker.subscribers["slow"].subscriptions:
                    await asyncio.sleep(0.01)
                before = resident()
                for n in range(ROUNDS):
                    for _ in range(100):
                        await publisher.publish("slow", PAYLOAD)
                    assert await publisher.publish(f"all/{n}", b"x" * 100, qos=1) == 0
                await publisher.publish("all/over", b"end")
                counts = await asyncio.gather(*followers)
                assert counts == [ROUNDS + 1] * (CLIENTS - 2)
                slow = broker.subscribers["slow"]
                assert slow.peer is not None
                assert slow.queued_bytes <= policy.queue_bytes
                assert broker.counts["dropped"] > 0
                # 40 MB have been said to it
                assert resident() - before < 20 << 20
            writer.transport.abort()
        broker.close()

    asyncio.run(asyncio.wait_for(test(), 240))
