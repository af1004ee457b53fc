"""Each method in each state, to RabbitMQ and to our server: the same outcome, with the same reply code.

An outcome is what the client sees: a reply, nothing, the end of the channel or of the connection with its code, or the end of
the stream without a word.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from lib.amqp091_driven import ARGUMENTS, moved, octets
from lib.loopback import HOST
from lib.rabbitmq import Broker as Node
from wirefmt import amqp091
from wirefmt.amqp091 import spec
from wirefmt.broker.amqp091 import Broker

pytestmark = pytest.mark.live

METHODS = [f"{c.name}.{m.name}" for c in spec.CLASSES for m in c.methods]
#: In states in which RabbitMQ takes seconds to end the stream: methods of class connection and the first two of each other class.
#: WRONG_STATES=all: every method.
FEW = [f"{c.name}.{m.name}" for c in spec.CLASSES for m in (c.methods if c.name == "connection" else c.methods[:2])]
SLOW = () if os.environ.get("WRONG_STATES") == "all" else ("starting", "tuning")
PLACES = ("starting", "tuning", "opening", "channel 0", "unused", "open", "closing")
PATIENCE = 40.0
AT_A_TIME = 150  # connections

CAPABILITIES = dict.fromkeys(("authentication_failure_close", "basic.nack", "consumer_cancel_notify"), True)
START_OK = amqp091.ConnectionStartOk(
    client_properties={"capabilities": CAPABILITIES}, mechanism="PLAIN", response=b"\0guest\0guest"
).encode()
TUNE_OK = amqp091.ConnectionTuneOk(channel_max=100, frame_max=131072, heartbeat=0).encode()
OPEN = amqp091.ConnectionOpen(virtual_host="/").encode()
PROBE = 5  # a channel that is opened afterwards

Outcome = tuple[Any, ...]


class Talk:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.assembler = amqp091.Assembler(side="server", frame_max=131072)
        self.waiting: list[Any] = []

    async def receive(self) -> Any:
        """The next frame; None: the end of the stream."""
        while not self.waiting:
            try:
                data = await self.reader.read(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self.waiting += self.assembler.feed(data)
        return self.waiting.pop(0)

    async def ask(self, data: bytes) -> Any:
        self.writer.write(data)
        return await self.receive()

    async def reach(self, place: str) -> None:
        """Go through the handshake to a state."""
        assert type(await self.ask(amqp091.ProtocolHeader().encode())) is amqp091.ConnectionStart
        if place == "starting":
            return
        assert type(await self.ask(START_OK)) is amqp091.ConnectionTune
        if place == "tuning":
            return
        if place == "opening":
            self.writer.write(TUNE_OK)
            return
        assert type(await self.ask(TUNE_OK + OPEN)) is amqp091.ConnectionOpenOk
        if place in ("open", "closing"):
            assert type(await self.ask(octets("channel.open"))) is amqp091.ChannelOpenOk
        if place == "closing":
            absent = octets("queue.declare", queue="absent", passive=True)
            assert type(await self.ask(absent)) is amqp091.ChannelClose

    async def outcome(self, place: str, method: str, data: bytes) -> Outcome:
        """Send a method, and then something whose reply shows that the method has been handled."""
        probes: list[tuple[bytes, type[Any]]] = []
        if place == "open" and method == "channel.close-ok":
            pass  # RabbitMQ's reader forgets the channel at once, and refuses a probe before the channel refuses the method
        elif place == "open":  # on the same channel: RabbitMQ's channels do not wait for each other
            other = method == "basic.qos"
            one = (octets("tx.select"), amqp091.TxSelectOk) if other else (octets("basic.qos"), amqp091.BasicQosOk)
            probes = [one, one]  # the first reply may come before that of the host
        elif place in ("channel 0", "closing"):
            probes = [
                (octets("channel.open", PROBE), amqp091.ChannelOpenOk),
                (octets("basic.qos", PROBE), amqp091.BasicQosOk),
            ]
        seen: list[str] = []
        self.writer.write(data)
        for probe, _ in probes[:1]:
            self.writer.write(probe)
        while True:
            frame = await self.receive()
            if frame is None:
                return ("end", *seen)
            if isinstance(frame, amqp091.ConnectionClose):
                return ("connection", frame.reply_code, *seen)
            if isinstance(frame, amqp091.ChannelClose):
                return ("channel", frame.reply_code, *seen)
            if probes and isinstance(frame, probes[0][1]) and (place == "open" or frame.channel == PROBE):
                probes.pop(0)
                if not probes:
                    return ("goes on", *seen)
                self.writer.write(probes[0][0])
                continue
            seen.append(getattr(frame, "method", frame).name)
            if not probes or seen[-1] in ("connection.close-ok", "channel.close-ok"):
                return ("goes on", *seen)


def case(place: str, method: str) -> bytes:
    """The method, with names that no other case uses, on the channel of this place."""
    names: dict[str, Any] = {
        key: f"{place} {method} {value}"
        for key, value in ARGUMENTS.get(method, {}).items()
        if key in ("exchange", "queue", "source", "destination", "consumer_tag")
    }
    if method == "queue.declare":
        names["exclusive"] = True  # it goes with the connection
    data = octets(method, **names)
    of_connection = method.startswith("connection.")
    number = {"channel 0": 0, "unused": 9, "open": 1, "closing": 1}.get(place, 0 if of_connection else 1)
    cut = amqp091.Decoder(frame_max=0).feed(data)
    return b"".join(moved(frame.encode(), number) for frame in cut)


async def outcomes(port: int) -> dict[tuple[str, str], Outcome]:
    """Of all methods in all states."""
    limit = asyncio.Semaphore(AT_A_TIME)
    found: dict[tuple[str, str], Outcome] = {}

    async def one(place: str, method: str) -> None:
        async with limit:
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                async with asyncio.timeout(PATIENCE):
                    talk = Talk(reader, writer)
                    await talk.reach(place)
                    found[place, method] = await talk.outcome(place, method, case(place, method))
            except TimeoutError:
                found[place, method] = ("nothing",)
            finally:
                writer.close()

    async with asyncio.TaskGroup() as group:
        for place in PLACES:
            for method in FEW if place in SLOW else METHODS:
                group.create_task(one(place, method))
    return found


#: Methods of class connection on another channel than 0 break a rule of the codec (4.3), which knows no states: 503. RabbitMQ
#: closes the connection with 504 on a channel that is not open, and drops them on one that is closing.
OF_THE_CODEC = {(place, m) for place in ("unused", "closing") for m in METHODS if m.startswith("connection.")}


async def tune_ok(port: int, **values: int) -> Any:
    """The answer to a tune-ok that tune does not allow."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        talk = Talk(reader, writer)
        await talk.reach("tuning")
        answer = await talk.ask(amqp091.ConnectionTuneOk(**values).encode() + OPEN)
        return answer.reply_code if isinstance(answer, amqp091.ConnectionClose) else answer
    finally:
        writer.close()


WRONG_TUNE_OK: list[dict[str, int]] = [
    {"channel_max": 65000, "frame_max": 131072},
    {"channel_max": 10, "frame_max": 1000},
    {"channel_max": 10, "frame_max": 1 << 20},
]


def test_each_method_in_each_state(rabbitmq: Node) -> None:
    async def both() -> tuple[dict[tuple[str, str], Outcome], dict[tuple[str, str], Outcome]]:
        async with await amqp091.serve(Broker(), HOST, 0) as server:

            async def tuned(values: dict[str, int]) -> None:
                said, ours = await asyncio.gather(tune_ok(rabbitmq.port, **values), tune_ok(server.port, **values))
                assert (values, said) == (values, ours)

            theirs, _ = await asyncio.gather(outcomes(rabbitmq.port), asyncio.gather(*map(tuned, WRONG_TUNE_OK)))
            return theirs, await outcomes(server.port)

    theirs, ours = asyncio.run(both())
    for key in OF_THE_CODEC:
        assert theirs.pop(key)[:2] in {("connection", 504), ("goes on",)}
        assert ours.pop(key) == ("connection", 503)
    for key in theirs:
        if theirs[key] != ours[key]:
            print(key, "RabbitMQ", theirs[key], "ours", ours[key])
    assert ours == theirs
