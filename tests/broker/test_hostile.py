"""Messages that clients should not send, across all protocols: every message that the broker accepts reaches each consumer or
is counted, no connection is lost, no queue stops, and nothing is raised in the event loop (`lib.loopback.run` sees to that)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from lib.loopback import run, until
from wirefmt import amqp091, amqp10, mqtt
from wirefmt.broker import Broker
from wirefmt.broker.limits import Limits
from wirefmt.broker.messages import Item
from wirefmt.broker.mqtt import BrokerOptions
from wirefmt.errors import DecodeError, Refused

DIALECTS = ("documented", "rabbitmq-4.3", "rabbitmq-3.13")

# ---- AMQP 0.9.1

#: Routing keys; as topics of MQTT some of them are too long or have wildcards.
KEYS = ("a.b", "a/b", "", ".", "..", "#", "*.x", "+", "$SYS.x", "k" * 255, "é" * 127, "\0", "a b")

HEADERS: tuple[dict[str, Any], ...] = (
    {"CC": "x"}, {"CC": [1, 2]}, {"CC": ["a", b"\xff"]}, {"CC": ["k"] * 300}, {"CC": ["l" * 70_000]}, {"BCC": ["a"]},
    {"BCC": {"a": 1}}, {"CC": None}, {"CC": [], "BCC": []}, {"x-death": "no"}, {"x-death": [1]}, {"x-death": []},
    {"x-death": [{"queue": 1, "reason": 2, "count": "z"}]}, {"x-death": {"count": 1}},
    {"x-death": [{"queue": "q", "reason": "expired", "count": -5, "time": "x", "routing-keys": [1]}]},
    {"a": 1}, {"a": True}, {"a": [1]}, {"n": {"m": [{"z": None}]}}, {"x-delay": 5}, {"\0": "\0"}, {"": ""},
    {"x-first-death-queue": [1]}, {"k" * 255: 1}, {"bytes": b"\xff\xfe"}, {"x-amqp-1.0-properties": "no"},
    {"x-amqp-1.0-message-annotations": b"\x70"}, {"x-amqp-1.0-app-properties": b""}, {"x-amqp-1.0-header": 1},
    {"x-basic-type": 1, "x-correlation-id": {}, "x-reply-to-topic": [2]}, {"long": "v" * 100_000},
)  # fmt: skip

PROPERTIES: tuple[dict[str, Any], ...] = (
    {"expiration": "0"}, {"expiration": "1"}, {"expiration": "4294967295"}, {"expiration": "4294967296"},
    {"expiration": "9" * 255}, {"expiration": "-1"}, {"expiration": ""}, {"expiration": "٣"}, {"content_type": "\0x"},
    {"content_type": "c" * 255}, {"content_encoding": "a" * 255}, {"priority": 255}, {"delivery_mode": 0},
    {"delivery_mode": 9}, {"timestamp": (1 << 64) - 1}, {"timestamp": 0}, {"message_id": "\0"},
    {"correlation_id": "c" * 255}, {"correlation_id": "é" * 127}, {"reply_to": "/x/+/#"}, {"reply_to": "é" * 127},
    {"type": "amqp-1.0"}, {"type": ""}, {"app_id": "a"}, {"user_id": "guest"}, {"user_id": "nobody"},
    {"cluster_id": "c"},
)  # fmt: skip


def properties091() -> Iterator[amqp091.BasicProperties]:
    for fields in PROPERTIES:
        yield amqp091.BasicProperties(**fields)
    for headers, fields in zip(HEADERS, itertools.cycle([{}, *PROPERTIES[8:]]), strict=False):
        yield amqp091.BasicProperties(headers=headers)
        yield amqp091.BasicProperties(headers=headers, **fields)


async def from_amqp091(b: Broker) -> int:
    accepted = 0
    async with amqp091.connect(b.url("amqp")) as client:
        channel = await client.channel()
        for n, (properties, key) in enumerate(itertools.product(properties091(), KEYS)):
            try:
                await channel.publish(b"x" * (n % 3), exchange="amq.topic", routing_key=key, properties=properties)
            except Refused as refused:
                assert refused.code == 406
                channel = await client.channel()
            else:
                accepted += 1
        await channel.publish(b"end", exchange="amq.topic", routing_key="end")
    return accepted


# ---- AMQP 1.0

ANNOTATIONS: tuple[dict[str, Any], ...] = (
    {"x-cc": [1]}, {"x-cc": "no"}, {"x-cc": ["a", "b"]}, {"x-cc": None}, {"x-bcc": ["z"]}, {"x-opt-deaths": [1]},
    {"x-opt-deaths": "q"}, {"x-exchange": 5}, {"x-routing-key": 5}, {"x-exchange": "amq.direct"}, {"x-a": {"a": [1]}},
    {"x-death": [1]}, {"x-opt-deaths": amqp10.Array("map", [{}])}, {"x-stream-offset": "x"}, {"x-basic-type": 5},
    {"x-basic-priority": "high"}, {"x-first-death-queue": []},
)  # fmt: skip

FIELDS: tuple[dict[str, Any], ...] = (
    {"message_id": 5}, {"message_id": b"\xff"}, {"message_id": "m" * 500}, {"correlation_id": "c" * 500},
    {"subject": "s" * 300}, {"reply_to": "r" * 1000}, {"reply_to": "/exchanges/amq.topic/%00"}, {"to": "\0"},
    {"absolute_expiry_time": -1}, {"creation_time": -5}, {"creation_time": (1 << 63) - 1}, {"group_sequence": 7},
    {"user_id": b"\xff" * 300}, {"content_type": amqp10.Symbol("c" * 300)},
)  # fmt: skip

APPLICATION: tuple[dict[str, Any], ...] = (
    {"a": 1}, {"k" * 300: 1}, {"a": None}, {"a": 1.5}, {"": ""}, {"\0": "\0"}, {"CC": "x"}, {"x-death": "q"},
    {"long": "v" * 100_000},
)  # fmt: skip

BODIES: tuple[Any, ...] = (
    b"", b"x", b"x" * 100_000, (amqp10.AmqpValue("t"),), (amqp10.AmqpValue(None),), (amqp10.AmqpSequence([1, {"a": 2}]),),
    (amqp10.AmqpValue(amqp10.Array("uint", [0, 0])),), (amqp10.AmqpSequence([]), amqp10.AmqpSequence([1])),
    (amqp10.Data(b"a"), amqp10.Data(b"b")),
)  # fmt: skip

RAW = (
    b"", b"\0", b"\xff" * 20, b"\0\x53\x75\xa0\x05x", b"\0\x53\x75\xa0\x01x\0\x53\x70\x45", b"\0\x53\x70\x45",
    b"\0\x53\x99\x45", b"\0\x53\x77\xf0\0\0\0\x06\0\0\0\1\x52\5", b"\0\x53\x72\xc1\1\0" * 2 + b"\0\x53\x75\xa0\0",
)  # fmt: skip

LONG = ("k" * 256, "é" * 128, "/".join("ab" * 200), "x" * 60_000)


def messages10() -> Iterator[Any]:
    for body in BODIES:
        yield amqp10.Message(body=body)
    for given in ANNOTATIONS:
        yield amqp10.Message(message_annotations=given, body=b"x")
    for fields in FIELDS:
        yield amqp10.Message(properties=amqp10.Properties(**fields), body=b"x")
    for application in APPLICATION:
        yield amqp10.Message(application_properties=application, body=b"x")
    for header in ({"ttl": 0}, {"ttl": (1 << 32) - 1}, {"priority": 255}, {"durable": True}, {"delivery_count": 7}):
        yield amqp10.Message(header=amqp10.Header(**header), body=b"x")
    yield from RAW


async def from_amqp10(b: Broker) -> int:
    accepted = 0
    async with amqp10.connect(b.url("amqp10")) as client:
        for key in (*KEYS, *LONG):
            sender = await client.sender(f"/exchanges/amq.topic/{quote(key, safe='')}")
            for made in messages10():
                with contextlib.suppress(Refused):
                    await sender.send(made)
                    accepted += 1
            await sender.close()
        await (await client.sender("/exchanges/amq.topic/end")).send(amqp10.Message(body=b"end"))
    return accepted


# ---- MQTT

TOPICS = ("a", "/", "//", "a.b", "a/*/b", "a/ /b", "*", "x" * 300, "é" * 200, "x" * 65_535, "$other/a", "$SYS/a")

PACKETS: tuple[tuple[tuple[str, Any], ...], ...] = (
    (), (("content_type", "x\u00e9"),), (("content_type", "c" * 300),), (("content_type", ""),),
    (("user_property", ("CC", "z")), ("user_property", ("a", "1"))), (("user_property", ("k" * 300, "v" * 70)),),
    (("user_property", ("", "")),) * 3, (("user_property", ("x-death", "q")), ("user_property", ("x-cc", "q"))),
    (("response_topic", "r/" + "x" * 300), ("correlation_data", b"\xff" * 300)), (("correlation_data", b""),),
    (("payload_format_indicator", 1),), (("payload_format_indicator", 0),), (("message_expiry_interval", 0xFFFFFFFF),),
    (("message_expiry_interval", 0),), (("message_expiry_interval", 1),),
    (("user_property", ("long", "v" * 60_000)),) * 3,
)  # fmt: skip


async def from_mqtt(b: Broker) -> int:
    accepted = 0
    for version in (4, 5):
        async with mqtt.connect(b.url("mqtt"), version=version) as client:
            for n, (topic, properties) in enumerate(itertools.product(TOPICS, PACKETS if version == 5 else [()])):
                try:
                    await client.publish(topic, b"x" * (n % 3), qos=1 + n % 2, retain=n % 3 == 0, properties=properties)
                except Refused as refused:
                    assert refused.code == 0x87
                    assert topic.startswith("$SYS")
                else:
                    accepted += not (version == 4 and topic.startswith("$SYS"))  # 3.1.1 has no refusal
    async with mqtt.connect(b.url("mqtt")) as client:
        await client.publish("end", b"end", qos=1)
    return accepted


# ---- the other side


class Got:
    """What the consumers have received."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("amqp", "amqp10", "mqtt4", "mqtt5"), 0)
        self.ended = dict.fromkeys(self.counts, False)

    def take(self, who: str, body: bytes) -> None:
        if body == b"end":
            self.ended[who] = True
        else:
            self.counts[who] += 1


@contextlib.asynccontextmanager
async def consumers(b: Broker) -> AsyncIterator[Got]:
    """A consumer of each protocol, each with a queue of its own that dead-letters to another, and two headers exchanges."""
    got = Got()
    async with contextlib.AsyncExitStack() as stack:
        old = await stack.enter_async_context(amqp091.connect(b.url("amqp")))
        new = await stack.enter_async_context(amqp10.connect(b.url("amqp10")))
        channel = await old.channel()
        await channel.declare_exchange("from topics", "headers")
        await channel.bind_exchange("from topics", "amq.topic", "#")
        await channel.declare_exchange("dead by header", "headers")
        await channel.declare_exchange("dead", "fanout")
        await channel.bind_exchange("dead by header", "dead")
        for name in ("amqp", "amqp10", "headers"):
            await channel.declare_queue(f"{name} graves")
            await channel.declare_exchange(f"{name} dead", "fanout")
            await channel.bind_queue(f"{name} graves", f"{name} dead")
            await channel.bind_exchange("dead", f"{name} dead")
            await channel.declare_queue(name, arguments={"x-dead-letter-exchange": f"{name} dead", "x-max-priority": 5})
            if name != "headers":
                await channel.bind_queue(name, "amq.topic", "#")
        await channel.bind_queue("headers", "from topics", arguments={"x-match": "any", "a": 1, "k" * 255: None})
        await channel.bind_queue("headers", "dead by header", arguments={"x-match": "any-with-x", "x-death": None})

        async def from_old() -> None:
            async for message in await channel.consume("amqp"):
                got.take("amqp", message.body)
                message.ack()

        async def from_new() -> None:
            receiver = await new.receiver("/queues/amqp10")
            async for delivery in receiver:
                try:
                    body = delivery.message.payload or b""
                except DecodeError:  # RabbitMQ's dialects take bytes with the type "amqp-1.0" for sections
                    body = b""
                got.take("amqp10", bytes(body))

        async def from_meter(version: int) -> None:
            async with mqtt.connect(b.url("mqtt"), version=version) as meter:
                await meter.subscribe("#", qos=2)
                async for message in meter.messages():
                    got.take(f"mqtt{version}", message.payload_bytes())

        jobs: list[Callable[[], Awaitable[None]]] = [
            from_old, from_new, lambda: from_meter(4), lambda: from_meter(5),
        ]  # fmt: skip
        tasks = [asyncio.ensure_future(job()) for job in jobs]
        await until(lambda: sum(len(q.consumers) for q in b.router.queues.values()) == 2 and len(b.clients) == 4)
        try:
            yield got
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("sender", [from_amqp091, from_amqp10, from_mqtt])
def test_hostile_messages(sender: Callable[[Broker], Awaitable[int]], dialect: str) -> None:
    async def test() -> None:
        ports = {"mqtt": 0, "amqp": 0, "amqp10": 0}
        options: dict[str, Any] = {
            "limits": Limits(dialect=dialect),
            "mqtt": BrokerOptions(queue_messages=100_000, queue_bytes=1 << 30),
        }
        async with Broker(ports=ports, **options) as b, consumers(b) as got:
            seen: list[str] = []  # what MQTT's subscriptions have to get
            b.mqtt.observe = lambda message: seen.append(message.topic)
            put = b.mqtt._publishing.put

            def crossed(item: Item) -> None:
                seen.append(item.published.routing_key)
                put(item)

            b.mqtt._publishing.put = crossed  # type: ignore[method-assign]
            accepted = await sender(b)
            assert accepted > 100
            await until(lambda: all(got.ended.values()))
            await until(lambda: not any(b.router.queues[name].messages for name in ("amqp", "amqp10")))
            for name in ("amqp", "amqp10"):
                graves = len(b.router.queues[f"{name} graves"].messages)
                assert got.counts[name] + graves == accepted, name
                assert b.router.queues[name].dropped == 0
            topics = sum(not topic.startswith("$") and topic != "end" for topic in seen)
            taken, counts = got.counts["mqtt4"] + got.counts["mqtt5"], b.mqtt.counts
            assert taken <= 2 * topics <= taken + 2 * sum(counts.values())
            assert set(counts) <= {"expired", "too_large", "unconvertible"}
            assert len(b.clients) == 4

    run(test())
