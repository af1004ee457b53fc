"""Recorded conversations of real clients, changed at random, with the broker in memory: whatever bytes come, no handler raises,
no connection is left over, and clients that keep to the protocol are still served."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from lib.captures import octets_of, recorded, unpacked_octets
from lib.conversations import CLIENT, segments
from lib.loopback import HOST, run, until
from lib.paths import DATA
from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker

#: By listener: the port of the recorded server.
PORTS = {"mqtt": 1883, "amqp": 5672, "amqp10": 5672, "nsq": 4150, "rocketmq": 20911, "phpmq": 9100}
CONVERSATIONS = 300
AT_ONCE = 8

Pieces = list[bytes]


@cache
def recorded_pieces(listener: str) -> list[Pieces]:
    """What each client has sent, segment by segment."""
    folder = {"amqp": "amqp091"}.get(listener, listener)
    if listener in ("mqtt", "amqp", "amqp10"):
        rows = [row for row in recorded() if row["protocols"] == [folder] and "snaplen" not in row["file"]]
        captures = [octets_of(row) for row in rows]
    else:
        captures = [unpacked_octets(path) for path in sorted(Path(DATA / folder).glob("*.pcap.gz"))]
    found: list[Pieces] = []
    for capture in captures:
        flows: dict[int, Pieces] = {}
        for client, speaker, payload in segments(capture, PORTS[listener]):
            if speaker == CLIENT and payload:
                flows.setdefault(client, []).append(payload)
        found += flows.values()
    return found


def changed(pieces: Pieces, random_: random.Random, others: list[Pieces]) -> Pieces:
    """With some pieces left out, repeated, exchanged, cut, taken from another conversation, or with other bytes."""
    pieces = pieces[:200]

    def leave_out(at: int) -> None:
        del pieces[at]

    def repeat(at: int) -> None:
        pieces[at:at] = [pieces[at]] * random_.choice((1, 1, 20))

    def exchange(at: int) -> None:
        other = random_.randrange(len(pieces))
        pieces[at], pieces[other] = pieces[other], pieces[at]

    def cut(at: int) -> None:
        pieces[at] = pieces[at][: random_.randrange(len(pieces[at]) + 1)]

    def insert(at: int) -> None:
        pieces.insert(at + 1, random_.choice(random_.choice(others)))

    def spoil(at: int) -> None:
        octets = bytearray(pieces[at])
        for _ in range(random_.randrange(1, 4)):
            if octets:
                place = random_.randrange(len(octets))
                octets[place] = random_.choice((0, 1, 255, octets[place] ^ 1 << random_.randrange(8)))
        pieces[at] = bytes(octets)

    changes: list[Callable[[int], None]] = [leave_out, repeat, exchange, cut, insert, spoil, spoil]
    for _ in range(random_.randrange(7)):
        if len(pieces) > 1:
            random_.choice(changes)(random_.randrange(len(pieces)))
    return pieces


async def talk(port: int, pieces: Pieces, random_: random.Random) -> None:
    """Send them, together or one by one, and leave, with or without reading."""
    reader, writer = await asyncio.open_connection(HOST, port)
    reading = asyncio.create_task(reader.read()) if random_.random() < 0.8 else None
    try:
        if random_.random() < 0.3:
            pieces = [b"".join(pieces)]
        for piece in pieces:
            writer.write(piece)
            if random_.random() < 0.3:
                await asyncio.sleep(0)
        if random_.random() < 0.5:
            await writer.drain()
        if random_.random() < 0.3 and not writer.is_closing():
            writer.write_eof()
            await asyncio.sleep(0.01)
    except OSError:
        pass  # the broker has closed it
    finally:
        writer.transport.abort()
        if reading is not None:
            await asyncio.gather(reading, return_exceptions=True)


async def check_served(b: Broker, listener: str) -> None:
    """A client that keeps to the protocol publishes."""
    url = b.url(listener)
    match listener:
        case "mqtt":
            async with mqtt.connect(url) as client:
                await client.publish("t", b"x", qos=1)
        case "amqp":
            async with amqp091.connect(url) as old:
                await (await old.channel(confirms=True)).publish(b"x", exchange="amq.fanout")
        case "amqp10":
            async with amqp10.connect(url) as new:
                queue = await new.receiver(amqp10.Source(dynamic=True))
                assert queue.source is not None
                await (await new.sender(str(queue.source.address))).send(amqp10.Message(body=b"x"))
        case "nsq":
            async with nsq.connect(url) as producer:
                await producer.publish("t", b"x")
        case "rocketmq":
            # recorded brokers may have been registered, so a producer would look for them
            reader, writer = await asyncio.open_connection(HOST, b.port(listener))
            writer.write(rocketmq.RemotingCommand(code=106, opaque=7).encode())
            size = int.from_bytes(await reader.readexactly(4), "big")
            assert size == len(await reader.readexactly(size))
            writer.close()
            await writer.wait_closed()
        case _:
            async with phpmq.connect(url) as php:
                await php.publish("q", b"x")


@pytest.mark.parametrize("listener", PORTS)
def test_mutated_conversations(listener: str) -> None:
    async def test() -> None:
        random_ = random.Random(listener)
        pool = recorded_pieces(listener)
        assert len(pool) > 1
        async with Broker() as b:
            for _ in range(CONVERSATIONS // AT_ONCE):
                some = [changed(random_.choice(pool), random_, pool) for _ in range(AT_ONCE)]
                await asyncio.gather(*(talk(b.port(listener), pieces, random_) for pieces in some))
            await until(lambda: not b.servers[listener].drivers)
            await check_served(b, listener)

    run(test())
