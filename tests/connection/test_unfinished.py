"""What arrived in part is bounded over all connections: those that are silent end first, then the largest; the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lib.loopback import HOST, run, until
from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.connection.aio import unfinished
from wirefmt.connection.aio.unfinished import Unfinished

#: Bytes that all connections may have in part.
MOST = 300_000
BODY = bytes(250_000)


def amqp091_opening(*more: Any) -> bytes:
    return (
        b"AMQP\0\0\x09\1"
        + amqp091.ConnectionStartOk(client_properties={}, response=b"\0guest\0guest").encode()
        + amqp091.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0).encode()
        + amqp091.ConnectionOpen(virtual_host="/").encode()
        + amqp091.ChannelOpen(channel=1).encode()
    )


AMQP10 = b"AMQP\0\1\0\0" + b"".join(
    frame.encode()
    for frame in (
        amqp10.Open(container_id="c", max_frame_size=65536),
        amqp10.Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100),
        amqp10.Attach(
            name="l", handle=0, role=False, source=amqp10.Source(), target=amqp10.Target(address="/queues/q"),
            initial_delivery_count=0,
        ),
    )
)  # fmt: skip


def transfers(body: bytes) -> bytes:
    """One message of AMQP 1.0, in transfers."""
    payload = amqp10.Message(body=body).encode()
    parts = [payload[at : at + 60_000] for at in range(0, len(payload), 60_000)]
    return b"".join(
        amqp10.Transfer(
            handle=0, delivery_id=0, delivery_tag=b"t", message_format=0, more=part is not parts[-1], payload=part
        ).encode()
        for part in parts
    )


#: By listener: what a client sends first, a large message, and how the broker says that there is no space; None: it says nothing.
KINDS: dict[str, tuple[bytes, Callable[[bytes], bytes], Callable[[bytes], bool] | None]] = {
    "mqtt": (
        mqtt.Connect(client_identifier="", clean_start=True, version=5).encode(),
        lambda body: mqtt.Publish(topic_name="t", payload=body, version=5).encode(),
        lambda said: said[-16:].startswith(b"\xe0") or (b"\xe0" in said and 0x97 in said),
    ),
    "amqp": (
        amqp091_opening(),
        lambda body: amqp091.BasicMessage(
            amqp091.BasicPublish(channel=1, exchange="", routing_key="q"), amqp091.BasicProperties(), body
        ).encode(frame_max=131072),
        lambda said: (506).to_bytes(2, "big") in said,  # resource-error
    ),
    "amqp10": (AMQP10, transfers, lambda said: b"amqp:resource-limit-exceeded" in said),
    "nsq": (b"  V2", lambda body: nsq.Publish(topic="t", body=body).encode(), None),
    "rocketmq": (b"", lambda body: rocketmq.RemotingCommand(code=10, body=body, opaque=1).encode(), None),
    "phpmq": (b"", lambda body: phpmq.MessageClientToServer(queue_name="q", content=body).encode(), None),
}


class Clock:
    """The time that the broker's drivers see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.later = 0.0
        count = Unfinished.count
        clock = self

        def later(self: Unfinished, driver: Any, size: int, now: float) -> None:
            count(self, driver, size, now + clock.later)

        monkeypatch.setattr(Unfinished, "count", later)


async def opened(broker: Broker, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(HOST, broker.port(name))
    writer.write(KINDS[name][0])
    await until(lambda: any(driver for driver in broker.servers[name].drivers))
    return reader, writer


async def rest(reader: asyncio.StreamReader) -> bytes:
    """All until the end of the stream."""
    said = b""
    try:
        while data := await reader.read(1 << 16):
            said += data
    except ConnectionError:
        pass
    return said


@pytest.mark.parametrize("name", KINDS)
def test_the_largest_ends_and_small_ones_go_on(name: str) -> None:
    _, make, says = KINDS[name]

    async def test() -> None:
        async with Broker(ports=dict.fromkeys(KINDS, 0), unfinished=MOST, grace=0.0) as broker:
            if name.startswith("amqp"):
                broker.router.make_queue("q")
            small, large = await opened(broker, name), await opened(broker, name)
            octets = make(BODY)
            small[1].write(octets[:100_000])
            await until(lambda: broker.unfinished.bytes > 90_000)
            large[1].write(octets[:-10])
            said = await rest(large[0])
            assert broker.unfinished.ended == 1
            assert says is None or says(said)
            await until(lambda: broker.unfinished.bytes < 110_000)
            small[1].write(octets[100_000:])  # it is still there, and so is its message
            await until(lambda: broker.counts[name] == 1)
            await until(lambda: not broker.unfinished.bytes)
            small[1].write(octets[:1000])
            await until(lambda: broker.unfinished.bytes)
            for _, writer in (small, large):
                writer.close()
            await until(lambda: not broker.unfinished.bytes)
            assert not broker.unfinished._held

    run(test())


def test_those_that_are_silent_end_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        clock = Clock(monkeypatch)
        async with Broker(ports=dict.fromkeys(KINDS, 0), unfinished=MOST, grace=0.0) as broker:
            silent = [await opened(broker, name) for name in ("mqtt", "nsq", "phpmq")]
            for (_, writer), name in zip(silent, ("mqtt", "nsq", "phpmq"), strict=True):
                writer.write(KINDS[name][1](BODY)[:60_000])
                held = 60_000 * (1 + ("mqtt", "nsq", "phpmq").index(name)) - 5000
                await until(lambda: broker.unfinished.bytes > held)  # noqa: B023
            clock.later = unfinished.SILENT + 1
            reader, writer = await opened(broker, "mqtt")
            writer.write(KINDS["mqtt"][1](BODY)[:-10])  # the largest of all, and it sends
            whole = len(KINDS["mqtt"][1](BODY)) - 10
            await until(lambda: broker.unfinished.ended >= 3 and broker.unfinished.bytes > whole - 5000)
            assert broker.unfinished.ended == 3  # none was enough by itself
            writer.write(KINDS["mqtt"][1](BODY)[-10:])
            await until(lambda: broker.counts["mqtt"] == 1)
            for _, each in (*silent, (reader, writer)):
                each.close()

    run(test())
