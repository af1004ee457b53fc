"""Paths are what a real broker did: the one in memory, whose clients know what they published and received."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

from lib.loopback import run
from lib.path_truth import paths
from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.broker.recording import Recorder

Copies = Counter[tuple[str, str, str | None]]
TOPICS, MESSAGES = 6, 60
PORTS = {"mqtt": 1883, "amqp": 5672, "amqp10": 5672, "nsq": 4150, "rocketmq": 10911, "phpmq": 9100}


@contextlib.asynccontextmanager
async def recorded(path: Path, *names: str) -> Any:
    """A broker, of which a capture is written."""
    recorder = Recorder(path)
    async with Broker(
        ports=dict.fromkeys(names, 0), tap=lambda name, driver: recorder.tap(PORTS[name])(driver)
    ) as broker:
        yield broker
    recorder.close()


def copies_of(rows: list[dict[str, Any]], names: Callable[[dict[str, Any]], str | None]) -> Copies:
    """How often each message (its topic, and its place among those of the topic) reached each consumer."""
    places: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        places.setdefault(topic_of(row), []).append((row["publish_ts_ns"], row["publish_frame"]))
    order = {topic: {at: f"{n}" for n, at in enumerate(sorted(set(of)))} for topic, of in places.items()}
    return Counter(
        (topic, order[topic][row["publish_ts_ns"], row["publish_frame"]], names(row))
        for row in rows
        for topic in [topic_of(row)]
    )


def topic_of(row: dict[str, Any]) -> str:
    name: str = row["publish_routing_key"] or row["publish_destination"]
    return name.rpartition("/")[2].rpartition(".")[2]


class Story:
    """Who publishes what, and who follows it. Each topic has one publisher: the order in which a server takes the messages of
    several is not on the wire."""

    def __init__(self, seed: int, publishers: int, consumers: list[str]) -> None:
        self.chance = random.Random(seed)
        self.follows = {name: self.chance.sample(range(TOPICS), 3) for name in consumers}
        self.publisher = [self.chance.randrange(publishers) for _ in range(TOPICS)]
        self.said = [0] * TOPICS
        self.copies: Copies = Counter()

    def next(self) -> tuple[int, bytes]:
        """A topic and a payload; payloads repeat."""
        topic = self.chance.randrange(TOPICS)
        payload = self.chance.choice([b"on", b"off", b"%d" % sum(self.said)])
        number, self.said[topic] = self.said[topic], self.said[topic] + 1
        reached = [name for name, topics in self.follows.items() if topic in topics]
        self.copies.update((str(topic), str(number), name) for name in reached)
        if not reached:
            self.copies[str(topic), str(number), None] += 1
        return topic, payload

    def expected(self, name: str) -> int:
        return sum(count for (*_, who), count in self.copies.items() if who == name)


@pytest.mark.parametrize("seed", range(6))
def test_messages_that_cross_protocols(tmp_path: Path, seed: int) -> None:
    """MQTT, AMQP 0.9.1 and AMQP 1.0 in any direction."""
    story = Story(seed, 3, ["m0", "m1", "a0", "a1", "t0"])

    async def test() -> None:
        async with (
            recorded(tmp_path / "a.pcapng", "mqtt", "amqp", "amqp10") as broker,
            mqtt.connect(broker.url("mqtt"), client_identifier="p") as sensor,
            mqtt.connect(broker.url("mqtt"), client_identifier="m0") as m0,
            mqtt.connect(broker.url("mqtt"), client_identifier="m1") as m1,
            amqp091.connect(broker.url("amqp")) as rabbit,
            amqp10.connect(broker.url("amqp10")) as proton,
        ):
            channel = await rabbit.channel()
            for name in ("a0", "a1", "t0"):
                await channel.declare_queue(name)
                for topic in story.follows[name]:
                    await channel.bind_queue(name, "amq.topic", f"t.{topic}")
            for name, client in (("m0", m0), ("m1", m1)):
                for topic in story.follows[name]:
                    await client.subscribe(f"t/{topic}", qos=story.chance.randrange(3))
            senders = [await proton.sender(f"/exchanges/amq.topic/t.{topic}") for topic in range(TOPICS)]
            receiver = await proton.receiver("/queues/t0")
            for _ in range(MESSAGES):
                topic, payload = story.next()
                match story.publisher[topic]:
                    case 0:
                        await sensor.publish(f"t/{topic}", payload, qos=story.chance.choice([1, 2]))
                    case 1:
                        await channel.publish(payload, exchange="amq.topic", routing_key=f"t.{topic}")
                    case _:
                        with contextlib.suppress(Exception):  # released: no queue
                            await senders[topic].send(amqp10.Message(body=payload))
            for name, client in (("m0", m0), ("m1", m1)):
                messages = client.messages()
                for _ in range(story.expected(name)):
                    await anext(messages)
            for name in ("a0", "a1"):
                for _ in range(story.expected(name)):
                    assert await channel.get(name, no_ack=True) is not None
            for _ in range(story.expected("t0")):
                await receiver.receive()
            await asyncio.sleep(0.05)

    run(test())
    found = copies_of(
        paths(tmp_path / "a.pcapng"),
        lambda row: (row["deliver_queue"] or row["deliver_client_id"] or "").rpartition("/")[2] or None,
    )
    assert found == story.copies


# ---- protocols whose servers name messages: each delivery, also of the same message again, is a copy


def deliveries_of(rows: list[dict[str, Any]], group: str | None = "deliver_consumer_group") -> Counter[Any]:
    """How often each payload reached each group. A packet may have several payloads, so they are those of both sides."""
    return Counter(
        (payload, row[group] if group else None)
        for row in rows
        if row["deliver_flow_id"] is not None
        for payload in [sole(set(row["payload"]) & set(row["deliver_payload"]))]
    )


def text_of(payload: bytes | memoryview | None) -> str:
    assert payload is not None
    return bytes(payload).decode()


def sole(payloads: set[str]) -> str:
    (payload,) = payloads
    return payload


@pytest.mark.parametrize("seed", range(4))
def test_nsq(tmp_path: Path, seed: int) -> None:
    """A copy for each channel, and one more for each REQ."""
    chance = random.Random(seed)
    got: Counter[Any] = Counter()

    async def consume(client: nsq.Client, channel: str, count: int) -> None:
        finished = 0
        async with client.consume("t", channel, max_in_flight=1) as messages:
            while finished < count:
                message = await anext(messages)
                got[message.body.decode(), channel] += 1
                if message.attempts < 4 and chance.random() < 0.2:
                    message.requeue(0, backoff=False)
                else:
                    message.finish()
                    finished += 1
            await asyncio.sleep(0.05)

    async def test() -> None:
        async with (
            recorded(tmp_path / "a.pcapng", "nsq") as broker,
            nsq.connect(broker.url("nsq")) as client,
            nsq.connect(broker.url("nsq")) as other,
        ):
            tasks = [asyncio.ensure_future(consume(c, name, 30)) for name, c in (("x", client), ("y", other))]
            await asyncio.sleep(0.1)  # the channels are there
            for n in range(10):
                await client.publish("t", b"single-%d" % n)
            await client.publish_many("t", [b"many-%d" % n for n in range(20)])
            await asyncio.gather(*tasks)

    run(test())
    rows = paths(tmp_path / "a.pcapng")
    assert deliveries_of(rows) == got
    assert sum(row["redelivered"] is True for row in rows) == sum(got.values()) - 60


@pytest.mark.parametrize("seed", range(4))
def test_rocketmq(tmp_path: Path, seed: int) -> None:
    """Groups that pop and groups that pull; what is popped and not acknowledged comes again."""
    chance = random.Random(seed)
    got: Counter[Any] = Counter()

    async def test() -> None:
        async with (
            recorded(tmp_path / "a.pcapng", "rocketmq") as broker,
            rocketmq.connect(broker.url("rocketmq")) as client,
        ):
            producer = client.producer("producer")
            for n in range(20):
                await producer.send("topic", b"message-%d" % n)
            consumer, acknowledged = client.pop_consumer("pops"), 0
            while acknowledged < 20:
                for popped in await consumer.pop("topic", count=1, invisible=0.2, wait=0.5):
                    got[text_of(popped.message.body), "pops"] += 1
                    if chance.random() < 0.8:
                        await consumer.ack(popped)
                        acknowledged += 1
            puller = client.pull_consumer("pulls")
            for queue in await puller.queues("topic"):
                offset = 0
                while (result := await puller.pull(queue, offset, count=1)).status == "FOUND":
                    offset = result.next_offset
                    got.update((text_of(message.body), "pulls") for message in result.messages)

    run(test())
    assert deliveries_of(paths(tmp_path / "a.pcapng")) == got
    assert sum(count for (_, group), count in got.items() if group == "pulls") == 20


@pytest.mark.parametrize("seed", range(4))
def test_phpmq(tmp_path: Path, seed: int) -> None:
    """What one client had in flight when it left is delivered to the next."""
    chance = random.Random(seed)
    got: Counter[Any] = Counter()

    async def test() -> None:
        async with recorded(tmp_path / "a.pcapng", "phpmq") as broker:
            async with phpmq.connect(broker.url("phpmq")) as client:
                for n in range(20):
                    await client.publish("queue", b"message-%d" % n)
                await broker.queue("queue", "phpmq").wait(20)
            left = 20
            while left:
                async with phpmq.connect(broker.url("phpmq")) as client:
                    await client.consume("queue", 1)
                    for _ in range(min(left, chance.randint(1, 8))):
                        message = await client.get()
                        assert message is not None
                        got[text_of(message.content), None] += 1
                        if chance.random() < 0.3:
                            break  # it goes back
                        client.acknowledge(message)
                        left -= 1
                    await asyncio.sleep(0.05)

    run(test())
    found = deliveries_of(paths(tmp_path / "a.pcapng"), group=None)
    # a message may arrive at a client that leaves before it takes it
    assert set(found) == set(got)
    assert all(found[key] >= got[key] for key in got)
