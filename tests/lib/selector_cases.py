"""Messages on which brokers with message selectors are compared. tests/data/amqp10 has what the real ones say."""

from __future__ import annotations

import json
import math
from typing import Any
from uuid import UUID

from lib.kinds import all_of, checked
from lib.paths import DATA
from wirefmt import amqp10


def _with(**properties: Any) -> dict[str, Any]:
    return {"application_properties": properties}


#: Messages by number, which is their body.
MESSAGES = [
    amqp10.Message(body=b"%d" % number, **fields)
    for number, fields in enumerate(
        [
            {},
            _with(i=amqp10.Int(5), n=amqp10.Int(5), l=7, s="abc", t=True),
            _with(i=amqp10.Int(-5), n=amqp10.Int(-5), f=2.5, s="a%c", t=False),
            _with(i=5, n=5, f=amqp10.Float(0.5), s="", u=amqp10.UInt(9)),
            _with(i="5", n=2.5, l=1 << 62, s="ABC\nabc", t="true"),
            _with(i=amqp10.Int(2147483647), n=amqp10.Int(2147483647), l=-1, f=-0.0, s="it's"),
            _with(f=float("inf"), l=(1 << 63) - 1, s="äöü", b=b"abc"),
            _with(f=float("nan"), i=amqp10.Int(0), s="a_c", **{"x-y": "dash"}),
            _with(i=amqp10.UByte(5), l=amqp10.UShort(7), s="abcabc"),
            _with(h=amqp10.Short(5), l=-7, s="abc'"),
            _with(i=None, s="5", z=UUID(int=5)),
            {
                "header": amqp10.Header(durable=True, priority=9),
                "properties": amqp10.Properties(subject="abc", message_id="ID:1"),
            },
            {
                "header": amqp10.Header(priority=0),
                "properties": amqp10.Properties(message_id="m2", correlation_id="abc", group_id="g", group_sequence=5),
            },
            {
                "properties": amqp10.Properties(creation_time=1_700_000_000_000, user_id=b"ann"),
                **_with(JMSType="5", l=0),
            },
        ]
    )
]


def recorded(name: str) -> list[tuple[str, Any]]:
    """Expressions of a file of tests/data/amqp10, with the numbers of the messages for which they are true, or what refuses
    them."""
    lines = (DATA / "amqp10" / name).read_text(encoding="utf-8").splitlines()
    return [tuple(json.loads(line)) for line in lines]


def finite(message: amqp10.Message) -> amqp10.Message:
    """A message without application properties that are not finite numbers: Erlang has none."""
    fields = {name: getattr(message, name) for name in ("header", "properties")}
    kept = {
        name: value
        for name, value in (message.application_properties or {}).items()
        if not isinstance(value, float) or math.isfinite(value)
    }
    return amqp10.Message(**fields, application_properties=kept or None, body=message.body)


async def publish(client: amqp10.Client, address: str) -> None:
    sender = await client.sender(address)
    for message in MESSAGES:
        await sender.send(message)


async def chosen(client: amqp10.Client, address: str, **arguments: Any) -> list[int]:
    """The numbers of the messages that a receiver browses. Raises Refused."""
    receiver = await client.receiver(address, credit=0, browse=True, **arguments)
    receiver.grant(2 * len(MESSAGES))
    await receiver.drain()
    found = [
        int(bytes(checked(delivery.message.payload, memoryview)))
        for delivery in all_of(receiver._inbox, amqp10.Incoming)
    ]
    await receiver.close()
    return sorted(found)
