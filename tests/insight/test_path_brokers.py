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
        self.copies.update((str(topic), str(number), name) for name in reached or [None])
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
