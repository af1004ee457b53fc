"""Raw clients of the MQTT broker: bytes in, packets out, one connection for each."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from lib.loopback import HOST, run
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker, BrokerOptions

#: The end of the stream, in place of a packet.
EOF = "EOF"
LONG = 20.0

Steps = Callable[["Place"], Awaitable[None]]


class Raw:
    """A client that sends its input and keeps what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self.reader, self.writer, self.version = reader, writer, version
        self.decoder = mqtt.Decoder(version=version, side="server")
        self.waiting: list[Any] = []

    def send(self, data: bytes | mqtt.Packet) -> None:
        self.writer.write(data if isinstance(data, bytes) else data.encode())

    async def next(self) -> Any:
        """The next packet; EOF."""
        async with asyncio.timeout(LONG):
            while not self.waiting:
                try:
                    data = await self.reader.read(65536)
                except ConnectionError:
                    return EOF
                if not data:
                    return EOF
                self.waiting += self.decoder.feed(data)
        return self.waiting.pop(0)

    async def want(self, kind: type[Any]) -> Any:
        packet = await self.next()
        assert isinstance(packet, kind), packet
        return packet

    async def none(self) -> None:
        """Nothing has arrived but the answer to a PINGREQ."""
        self.send(b"\xc0\x00")
        packet = await self.next()
        assert isinstance(packet, mqtt.Pingresp), packet

    async def end(self, code: int | None = None) -> None:
        """The server ends the connection; in 5.0 with this code, None: without a packet."""
        packet = await self.next()
        if code is not None:
            assert isinstance(packet, mqtt.Disconnect), packet
            assert packet.reason_code == code, packet
            packet = await self.next()
        assert packet == EOF

    async def subscribe(self, *filters: str | mqtt.Subscription, qos: int = 2, properties: Any = ()) -> Any:
        asked = [mqtt.Subscription(f, qos=qos) if isinstance(f, str) else f for f in filters]
        self.send(
            mqtt.Subscribe(packet_identifier=99, subscriptions=asked, properties=properties, version=self.version)
        )
        return (await self.want(mqtt.Suback)).reason_codes

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, **more: Any) -> None:
        identifier = more.pop("packet_identifier", 7 if qos else None)
        self.send(
            mqtt.Publish(
                topic_name=topic,
                payload=payload,
                qos=qos,
                packet_identifier=identifier,
                version=self.version,
                **more,
            )
        )

    def close(self) -> None:
        self.writer.close()


class Place:
    """A broker, and clients for it."""

    def __init__(self, port: int, broker: Broker) -> None:
        self.port, self.broker = port, broker
        self.clients: list[Raw] = []

    async def open(self, version: int = 5) -> Raw:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        client = Raw(reader, writer, version)
        self.clients.append(client)
        return client

    async def connect(self, identifier: str = "c", version: int = 5, **fields: Any) -> Raw:
        """A client that has been accepted; `connack` has the answer."""
        client = await self.open(version)
        client.send(mqtt.Connect(client_identifier=identifier, version=version, **fields))
        client.connack = await client.want(mqtt.Connack)  # type: ignore[attr-defined]
        assert client.connack.reason_code == 0, client.connack  # type: ignore[attr-defined]
        return client


@contextlib.asynccontextmanager
async def placed(
    options: BrokerOptions | None = None, limits: mqtt.ConnectionOptions | None = None
) -> AsyncIterator[Place]:
    broker = Broker(options, random=random.Random(1))
    async with await mqtt.serve(broker, HOST, 0, options=limits) as server:
        place = Place(server.port, broker)
        yield place
        for client in place.clients:
            client.close()
    broker.close()


def tried(steps: Steps, **more: Any) -> None:
    async def main() -> None:
        async with placed(**more) as place:
            await steps(place)

    run(main())


def said(packet: Any) -> dict[str, Any]:
    return dict(packet.properties)
