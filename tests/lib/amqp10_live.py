"""Tests of an AMQP 1.0 client with any broker. `ours` is a connected client, `address` that of an empty queue."""

from __future__ import annotations

import asyncio
from typing import Any

from lib.kinds import checked
from wirefmt import amqp10


def message(body: bytes, **fields: Any) -> amqp10.Message:
    return amqp10.Message(body=body, **fields)


def body(delivery: Any) -> bytes:
    return bytes(delivery.message.payload)


async def take(receiver: Any, count: int) -> list[bytes]:
    return [body(await receiver.receive()) for _ in range(count)]


async def send_and_receive(ours: amqp10.Client, address: str) -> None:
    sender = await ours.sender(address)
    bodies = [b"", b"\0\xff", bytes(500_000), *(b"%d" % n for n in range(1000))]
    outcomes = await asyncio.gather(*(sender.post(message(each)) for each in bodies))
    assert set(outcomes) == {amqp10.Accepted()}
    receiver = await ours.receiver(address, credit=30)
    assert await take(receiver, len(bodies)) == bodies


async def settled_both_ways(ours: amqp10.Client, address: str) -> None:
    sender = await ours.sender(address, settled=True)
    for n in range(300):
        assert await sender.send(message(b"%d" % n)) is None
    receiver = await ours.receiver(address, snd_settle_mode=1, credit=20)
    assert await take(receiver, 300) == [b"%d" % n for n in range(300)]


async def outcomes(ours: amqp10.Client, address: str) -> Any:
    """A receiver releases, modifies, rejects and accepts. Returns the delivery that came after `delivery_failed`."""
    sender = await ours.sender(address)
    receiver = await ours.receiver(address, settle="manual", credit=1)
    await sender.send(message(b"1"))
    receiver.release(await receiver.receive())
    again = await receiver.receive()
    assert body(again) == b"1"
    receiver.modify(again, delivery_failed=True)
    failed = await receiver.receive()
    assert body(failed) == b"1"
    receiver.reject(failed, amqp10.Error(condition="app:wrong"))
    await sender.send(message(b"2"))
    last = await receiver.receive()
    assert body(last) == b"2"
    receiver.accept(last)
    return failed


async def credit_and_drain(ours: amqp10.Client, address: str) -> None:
    sender = await ours.sender(address)
    for n in range(5):
        await sender.send(message(b"%d" % n))
    receiver = await ours.receiver(address, credit=0)
    receiver.grant(2)
    assert await take(receiver, 2) == [b"0", b"1"]
    receiver.grant(10)
    await receiver.drain()
    assert await take(receiver, 3) == [b"2", b"3", b"4"]
    assert receiver.link.credit == 0


async def a_message_in_parts(ours: amqp10.Client, address: str) -> None:
    """The sender sends a message in parts, and the receiver gets it in parts."""
    sender = await ours.sender(address)
    large = message(bytes(1_000_000)).encode()
    parts = (large[at : at + 50_000] for at in range(0, len(large), 50_000))
    assert await sender.stream(parts) == amqp10.Accepted()
    receiver = await ours.receiver(address, streamed=True)
    found = b""
    while isinstance(item := await receiver.receive(), amqp10.Part):
        found += item.payload
    assert checked(amqp10.decode_message(found).payload, memoryview) == bytes(1_000_000)
