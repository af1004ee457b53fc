"""Conversations, octet by octet: against a client, with a socket and without one, and against the broker.

They are made from the specification (lib/mqtt_conversations.py). With a checkout of mosquitto those of its tests are played, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import tomllib
from collections.abc import Coroutine
from typing import Any

import pytest

from lib import mosquitto_conversations
from lib.mqtt_conversations import Conversation, made
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker, Message
from wirefmt.cli.serve import _options
from wirefmt.errors import ConnectionLost, Refused
from wirefmt.mqtt.events import LARGEST_PACKET
from wirefmt.mqtt.states import State

#: Conversations of mosquitto in which wirefmt does otherwise, and why it may.
DIFFERENT = {
    **dict.fromkeys(
        ("server-CONNECT-87", "server-CONNECT-96"), "CONNACK says why before the connection is closed (3.1.4)"
    ),
    **dict.fromkeys(("server-PINGREQ-11", "server-PINGRESP-11"), "DISCONNECT says why (4.13.1)"),
    **dict.fromkeys(
        ("server-PUBLISH-63", "client-PUBLISH-52"), "no statement forbids 2 as Payload Format Indicator (3.3.2.3.2)"
    ),
    "client-PUBLISH-90": "a server may send several Subscription Identifiers (3.3.2.3.8)",
    "client-PUBLISH-7": "DUP with QoS 0 is an error (3.3.1-2)",
    "client-CONNACK-79": "an Authentication Method that no CONNECT had is an error (4.12.0-6)",
    **dict.fromkeys(("client-UNSUBACK-34", "client-UNSUBACK-50"), "0xFF is not a Reason Code of UNSUBACK (3.11.3-2)"),
}


def cases(role: str) -> list[Any]:
    theirs = [case for case in mosquitto_conversations.conversations(role) if case.id not in DIFFERENT]
    return [pytest.param(case, id=case.id) for case in made(role) + theirs]


#: Codes that count as the same (5.0), by kind of packet.
SAME = {0x81: 0x82, 0x10: 0x00, 0x92: 0x00}


def normal(data: bytes, version: int, side: Any) -> list[Any]:
    """Packets as they are compared: what the standard leaves open is left out."""
    packets: list[Any] = []
    decoder = mqtt.Decoder(version=version, side=side, strictness="lax")
    packet: Any
    for packet in decoder.feed(data):
        fields = {name: getattr(packet, name) for name in packet.__match_args__ if name != "form"}
        if version == 5 and "properties" in fields:
            left = {"topic_alias"} | (set() if isinstance(packet, mqtt.Publish) else {"reason_string", "user_property"})
            kept = left if isinstance(packet, mqtt.Subscribe | mqtt.Unsubscribe | mqtt.Connect) else set()
            fields["properties"] = sorted((k, str(v)) for k, v in packet.properties if k not in left - kept)
        if version == 5 and not isinstance(packet, mqtt.Connect | mqtt.Publish | mqtt.Subscribe | mqtt.Unsubscribe):
            code = fields.get("reason_code") or 0
            fields["reason_code"] = SAME.get(code, code)
        if isinstance(packet, mqtt.Publish):
            fields["payload"] = packet.payload_bytes()
        packets.append((type(packet).__name__, fields))
    return packets


# ---- clients

PROPERTIES = [
    ("payload_format_indicator", 1),
    ("message_expiry_interval", 4294967295),
    ("response_topic", "response/topic"),
    ("correlation_data", b"7deac5c5-8802-44ff-86ce-11479f337419"),
    ("content_type", "text/plain"),
    ("user_property", ("key", "value")),
]


#: Faults of servers that libmosquitto accepts, and with it the sequences.
TOLERATED = frozenset(("CONNACK TRAILING_OCTETS", "UNSUBACK UNSUBACK_EMPTY"))


class Client:
    """The program that the sequences drive: it does its deed once it is connected, and acknowledges at once."""

    def __init__(self, case: Conversation) -> None:
        self.version: int = case.version
        self.deed: str | None = case.command
        options = mqtt.ConnectionOptions(
            receive_maximum=20,
            packet_size=LARGEST_PACKET,
            automatic=True,
            control_characters=False,
            tolerate=TOLERATED if self.version == 5 else frozenset(),
        )
        self.connection = mqtt.ClientConnection(0.0, mqtt.Session("fuzzish"), options)
        self.connection.send(
            mqtt.Connect(client_identifier="fuzzish", clean_start=case.clean_start, keep_alive=60, version=self.version)
        )

    def receive(self, data: bytes) -> None:
        if self.connection.state is State.CLOSED:
            return
        events = self.connection.receive(data, 0.0)
        if self.connection.state is State.CONNECTED and self.deed and self.connection.negotiated and events:
            self.act(self.deed)
            self.deed = None

    def act(self, deed: str) -> None:
        five = self.version == 5
        if deed == "unsubscribe":
            self.connection.unsubscribe(["test/subscribe"], [("user_property", ("key", "value"))] if five else ())
        else:
            self.connection.publish(
                "test/publish", b"message", qos=int(deed[-1]), properties=PROPERTIES if five else ()
            )


PROBE = {v: mqtt.Publish(topic_name="probe", qos=1, packet_identifier=65535, version=v).encode() for v in (3, 4, 5)}


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(30):
            await coroutine

    asyncio.run(timed())


class Judge:
    """The other end of a loopback socket: it sends bytes, and compares what comes with the packets that it awaits."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int, side: Any) -> None:
        self.reader, self.writer = reader, writer
        self.version, self.side = version, side
        self.framer = mqtt.Decoder(version=version, side=side, strictness="lax")
        self.said: list[Any] = []

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def read(self) -> bool:
        """Some more packets; False: the stream has ended."""
        try:
            data = await self.reader.read(65536)
        except ConnectionError:
            return False
        for packet in self.framer.feed(data):
            self.said += normal(packet.encode(), self.version, self.side)
        return bool(data)

    async def expect(self, data: bytes) -> None:
        """These packets, in any order; what is said early counts later."""
        for packet in normal(data, self.version, self.side):
            while packet not in self.said:
                assert await self.read(), f"{packet} does not come; there is {self.said}"
            self.said.remove(packet)

    async def rest(self) -> list[Any]:
        """What is said until the stream ends."""
        while await self.read():
            pass
        return self.said


async def play_against_the_client(case: Conversation) -> None:
    """The case over a loopback socket, against `mqtt.connect`."""
    version, deed = case.version, case.command
    five = version == 5
    streams: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *ends: streams.set_result(ends), "127.0.0.1", 0)
    options = mqtt.ConnectionOptions(
        receive_maximum=20,
        packet_size=LARGEST_PACKET,
        control_characters=False,
        tolerate=TOLERATED if five else frozenset(),
    )
    client = mqtt.connect(
        f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}",
        client_identifier="fuzzish",
        clean_start=case.clean_start,
        version=version,
        options=options,
    )

    async def program() -> None:
        act: Any
        async with client:
            if deed == "unsubscribe":
                act = client.unsubscribe(
                    "test/subscribe", properties=[("user_property", ("key", "value"))] if five else ()
                )
            elif deed is not None:
                act = client.publish(
                    "test/publish", b"message", qos=int(deed[-1]), properties=PROPERTIES if five else ()
                )
            acting = asyncio.ensure_future(act) if deed else None
            try:
                async for _ in client.messages():
                    pass
            finally:
                if acting is not None:
                    await asyncio.wait([acting])
                    acting.exception()

    running = asyncio.create_task(program())
    reader, writer = await streams
    judge = Judge(reader, writer, version, "client")
    if case.steps[0].do != "expect":
        assert type(mqtt.decode((await judge.reader.read(65536)), version=version)) is mqtt.Connect
        await judge.send(mqtt.Connack(version=version).encode())
    for step in case.steps:
        data = step.octets
        await (judge.send if step.do == "send" else judge.expect)(data)
    await judge.send(PROBE[version])
    acknowledgement = b"\x40\x02\xff\xff"
    if case.stays:
        await judge.expect(acknowledgement)
        assert judge.said == []
    else:
        said = await judge.rest()
        assert said in ([], said[-1:]) and all(kind == "Disconnect" for kind, _ in said)  # a client may say why
    judge.writer.close()
    await asyncio.wait([running])
    if case.stays:
        assert isinstance(running.exception(), ConnectionLost)
    else:
        assert isinstance(running.exception(), ConnectionLost | Refused)
    server.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("case", cases("client"))
def test_client_sequences_over_sockets(case: Conversation) -> None:
    run(play_against_the_client(case))


@pytest.mark.parametrize("case", cases("client"))
def test_client_sequences(case: Conversation) -> None:
    client = Client(case)
    version = case.version
    first = case.steps[0]
    if first.do != "expect":
        client.connection.data_to_send()
        client.receive(mqtt.Connack(version=version).encode())
    for number, step in enumerate(case.steps):
        data = step.octets
        if step.do == "send":
            client.receive(data)
        else:
            said = client.connection.data_to_send()
            assert normal(said, version, "client") == normal(data, version, "client"), f"step {number}"
    client.receive(PROBE[version])
    said = client.connection.data_to_send()
    acknowledged = b"\x40\x02\xff\xff" in said
    if case.stays:
        assert acknowledged
    else:
        assert client.connection.state is State.CLOSED
        assert not acknowledged
        assert normal(said, version, "client") == [] or said[0] == 0xE0  # a client may say why


# ---- brokers


#: mosquitto's, as settings of `wirefmt serve`.
OPTIONS = _options(
    tomllib.loads("""
[ports]
mqtt = 0
[mqtt]
overlap = "each"
[connection.mqtt]
receive_maximum = 20
topic_alias_maximum = 10
packet_size = 2000000
control_characters = false
qos2_event = "release"
copies = 2
""")
)


async def play_against_the_broker(case: Conversation) -> None:
    """The case over a loopback socket, against `wirefmt.broker.mqtt`."""
    version = case.version
    broker = Broker(OPTIONS.mqtt)
    async with await mqtt.serve(broker, "127.0.0.1", 0, options=OPTIONS.connection["mqtt"]) as server:
        judge = Judge(*await asyncio.open_connection("127.0.0.1", server.port), version, "server")
        for step in case.steps:
            match step.do:
                case "send":
                    await judge.send(step.octets)
                case "expect":
                    await judge.expect(step.octets)
                case _:
                    assert step.message is not None
                    told = step.message
                    retain = bool(told.get("retain"))
                    broker.publish(
                        Message(told["topic"], told["payload"].encode(), told["qos"], retain, publisher="other")
                    )
        await judge.send(b"\xc0\x00")
        if case.stays:
            await judge.expect(b"\xd0\x00")
        else:
            # a last packet that was cut: more bytes complete it
            await judge.send(bytes(64))
            said = await judge.rest()
            if case.may_say_why and said:
                assert said.pop()[0] == "Disconnect"
        assert judge.said == []
        judge.writer.close()
    broker.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("case", cases("server"))
def test_broker_sequences(case: Conversation) -> None:
    run(play_against_the_broker(case))
