"""Clients of the MQTT broker on loopback that keep what they receive."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker, BrokerOptions

from .loopback import HOST, until

Received = tuple[str, bytes, int, bool]


class Client(mqtt.Client):
    """Keeps what it receives."""

    def __init__(self, url: str, name: str, **more: Any) -> None:
        super().__init__(url, client_identifier=name, **more)
        self.received: list[mqtt.Publish] = []
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Client:
        await self.open()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
        assert self._reading is not None
        await asyncio.wait([self._reading])
        self._reading.exception()

    async def _read(self) -> None:
        async for message in self.messages():
            self.received.append(message)

    async def drop(self) -> None:
        """End the connection without DISCONNECT."""
        assert self._link is not None
        self._link.driver.abort()
        await until(lambda: not self.connected)

    async def got(self, count: int) -> list[Received]:
        """The messages received, once there are so many; no more come with one that is published afterwards."""
        await until(lambda: len(self.received) >= count)
        await self.subscribe(f"mark/{self._identifier}")
        await self.publish(f"mark/{self._identifier}", qos=0)
        await until(lambda: self.received and self.received[-1].topic_name.startswith("mark/"))
        found = [(m.topic_name, m.payload_bytes(), m.qos, m.retain) for m in self.received[:-1]]
        self.received.clear()
        return found


@contextlib.asynccontextmanager
async def brokered(policy: BrokerOptions | None = None, **more: Any) -> AsyncIterator[tuple[Broker, str]]:
    broker = Broker(policy, random=random.Random(1))
    async with await mqtt.serve(broker, HOST, 0, **more) as server:
        yield broker, f"mqtt://{HOST}:{server.port}"
    broker.close()
