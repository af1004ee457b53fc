"""Publishing one message as a client of each protocol does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq


async def _mqtt(url: str, name: str, body: bytes, more: Mapping[str, Any]) -> None:
    async with mqtt.connect(url) as client:
        await client.publish(name, body, **{"qos": 1, **more})


async def _amqp091(url: str, name: str, body: bytes, more: Mapping[str, Any]) -> None:
    async with amqp091.connect(url) as client:
        channel = await client.channel()
        await channel.publish(body, routing_key=name, **{"mandatory": True, **more})


async def _amqp10(url: str, name: str, body: bytes, more: Mapping[str, Any]) -> None:
    async with amqp10.connect(url) as client:
        sender = await client.sender(f"/queues/{quote(name, '')}")
        await sender.send(amqp10.Message(body=body), **more)


async def _nsq(url: str, name: str, body: bytes, more: Mapping[str, Any]) -> None:
    async with nsq.connect(url) as client:
        await client.publish(name, body, **more)


async def _rocketmq(url: str, name: str, body: bytes, more: Mapping[str, Any]) -> None:
    async with rocketmq.connect(url.partition("://")[2]) as client:
        await client.producer("wirefmt").send(name, body, **more)


async def _phpmq(url: str, name: str, body: bytes, more: Mapping[str, Any]) -> None:
    async with phpmq.connect(url) as client:
        await client.publish(name, body, **more)


#: By the names of `wirefmt.broker.listeners.NAMES`: publishes with URL, name, body and further arguments.
PUBLISHERS: Final[dict[str, Callable[[str, str, bytes, Mapping[str, Any]], Awaitable[None]]]] = {
    "mqtt": _mqtt,
    "amqp": _amqp091,
    "amqp10": _amqp10,
    "nsq": _nsq,
    "rocketmq": _rocketmq,
    "phpmq": _phpmq,
}
