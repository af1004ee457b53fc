"""Recorded conversations, byte by byte: the client's against ClientConnection, the broker's against ServerConnection.

tests/vectors/mqtt_sequences holds them, made from the test data of eclipse-mosquitto. They were written for programs with
sockets; here bytes are handed over directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from wirefmt import mqtt
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused
from wirefmt.mqtt.events import LARGEST_PACKET
from wirefmt.mqtt.states import State

FOLDER = Path(__file__).resolve().parents[1] / "vectors" / "mqtt_sequences"


def cases(name: str) -> list[Any]:
    rows = [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]
    return [pytest.param(row, id=row["id"]) for row in rows]


#: Codes that count as the same (5.0), by kind of packet.
SAME = {0x81: 0x82, 0x10: 0x00, 0x92: 0x00}


def normal(data: bytes, version: int, side: Any) -> list[Any]:
    """Packets as they are compared: what the standard leaves open is left out."""
    packets: list[Any] = []
    for packet in mqtt.Decoder(version=version, side=side, strictness="lax").feed(data):
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

    def __init__(self, case: Any) -> None:
        self.version: int = case["version"]
        self.deed: str | None = case["command"]
        options = mqtt.ConnectionOptions(
            receive_maximum=20,
            packet_size=LARGEST_PACKET,
            automatic=True,
            control_characters=False,
            tolerate=TOLERATED if self.version == 5 else frozenset(),
        )
        self.connection = mqtt.ClientConnection(0.0, mqtt.Session("fuzzish"), options)
        self.connection.send(
            mqtt.Connect(
                client_identifier="fuzzish", clean_start=case["clean_start"], keep_alive=60, version=self.version
            )
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


async def play_against_the_client(case: Any) -> None:
    """The case over a loopback socket, against `mqtt.connect`."""
    version, deed = case["version"], case["command"]
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
        clean_start=case["clean_start"],
        version=version,
        options=options,
    )

    async def program() -> None:
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
    judge = Judge(*await streams, version, "client")
    if case["steps"][0]["do"] != "expect":
        assert type(mqtt.decode((await judge.reader.read(65536)), version=version)) is mqtt.Connect
        await judge.send(mqtt.Connack(version=version).encode())
    for step in case["steps"]:
        data = bytes.fromhex(step["hex"])
        await (judge.send if step["do"] == "send" else judge.expect)(data)
    await judge.send(PROBE[version])
    acknowledgement = b"\x40\x02\xff\xff"
    if case["finally"] == "connected":
        await judge.expect(acknowledgement)
        assert judge.said == []
    else:
        said = await judge.rest()
        assert said in ([], said[-1:]) and all(kind == "Disconnect" for kind, _ in said)  # a client may say why
    judge.writer.close()
    await asyncio.wait([running])
    if case["finally"] == "connected":
        assert isinstance(running.exception(), ConnectionLost)
    else:
        assert isinstance(running.exception(), ConnectionLost | Refused)
    server.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("case", cases("client.jsonl"))
def test_client_sequences_over_sockets(case: Any) -> None:
    async def timed() -> None:
        async with asyncio.timeout(30):
            await play_against_the_client(case)

    asyncio.run(timed())


@pytest.mark.parametrize("case", cases("client.jsonl"))
def test_client_sequences(case: Any) -> None:
    client = Client(case)
    version = case["version"]
    first = case["steps"][0]
    if first["do"] != "expect":
        client.connection.data_to_send()
        client.receive(mqtt.Connack(version=version).encode())
    for number, step in enumerate(case["steps"]):
        data = bytes.fromhex(step["hex"])
        if step["do"] == "send":
            client.receive(data)
        else:
            said = client.connection.data_to_send()
            assert normal(said, version, "client") == normal(data, version, "client"), f"step {number}"
    client.receive(PROBE[version])
    said = client.connection.data_to_send()
    acknowledged = b"\x40\x02\xff\xff" in said
    if case["finally"] == "connected":
        assert acknowledged
    else:
        assert client.connection.state is State.CLOSED
        assert not acknowledged
        assert normal(said, version, "client") == [] or said[0] == 0xE0  # a client may say why


# ---- brokers


class Broker:
    """A host for one connection: just enough of a broker to be judged by what its connection says."""

    def __init__(self, case: Any) -> None:
        options = mqtt.ConnectionOptions(
            receive_maximum=20,
            topic_alias_maximum=10,
            packet_size=2_000_000,
            control_characters=False,
            qos2_event="release",
        )
        self.connection = mqtt.ServerConnection(0.0, options)
        self.filters: dict[str, tuple[mqtt.Subscription, int | None]] = {}
        self.retained: dict[str, mqtt.Publish] = {}

    @property
    def five(self) -> bool:
        return self.connection.version == 5

    def receive(self, data: bytes) -> None:
        if self.connection.state is State.CLOSED:
            return
        events = self.connection.receive(data, 0.0)
        while events:
            event = events.pop(0)
            if self.connection.state is not State.CLOSED:
                events += self.decide(event)

    def decide(self, event: Any) -> list[Any]:
        connection = self.connection
        match event:
            case mqtt.Connect():
                if "authentication_method" in dict(event.properties):
                    return connection.refuse(event, 0x8C)
                if event.will is not None and event.will.topic.startswith("$CONTROL/"):
                    return connection.refuse(event, 0x81 if event.version == 5 else 5)
                assigned = [("assigned_client_identifier", "made")] if not event.client_identifier else []
                try:
                    return connection.accept(event, properties=assigned if event.version == 5 else ())
                except LocalProtocolError:  # CONNACK is larger than the client accepts
                    return connection.close(immediate=True)
            case mqtt.Publish() if event.qos == 0:
                self.route(event)
            case mqtt.Publish():
                topic = event.topic_name
                if topic.startswith(("$share/", "$SYS/")) and not topic.endswith("/state"):
                    return connection.acknowledge(event, 0x87)
                if event.qos == 1:
                    self.route(event)
                return connection.acknowledge(event)
            case mqtt.Released():
                self.route(event.message)
            case mqtt.Subscribe():
                return self.subscribe(event)
            case mqtt.Unsubscribe():
                codes = [0 if self.filters.pop(f, None) else 0x11 for f in event.topic_filters]
                return connection.grant(event, codes if self.five else ())
        return []

    def subscribe(self, event: mqtt.Subscribe) -> list[Any]:
        identifier = dict(event.properties).get("subscription_identifier")
        waiting: list[mqtt.Publish] = []
        for subscription in event.subscriptions:
            new = subscription.topic_filter not in self.filters
            self.filters[subscription.topic_filter] = (subscription, identifier)
            if subscription.topic_filter.startswith("$share/") or subscription.retain_handling - new >= 1:
                continue
            waiting += [
                m for topic, m in self.retained.items() if mqtt.matches(subscription.topic_filter, topic, event.version)
            ]
        events = self.connection.grant(event, [s.qos for s in event.subscriptions])
        for message in waiting:
            self.route(message, retained=True)
        return events

    def route(self, message: mqtt.Publish, *, retained: bool = False) -> None:
        if message.retain and not retained:
            self.retained[message.topic_name] = message
            if not message.payload:
                del self.retained[message.topic_name]
        external = message.version == 4 and self.five
        for topic_filter, (subscription, identifier) in self.filters.items():
            if not mqtt.matches(topic_filter, message.topic_name, 5):
                continue
            if subscription.no_local and not external:
                continue
            properties = message.properties if self.five else ()
            if identifier is not None:
                properties = (*properties, ("subscription_identifier", identifier))
            self.connection.publish(
                message.topic_name,
                message.payload,
                qos=min(message.qos, subscription.qos),
                retain=retained or (message.retain and subscription.retain_as_published),
                properties=properties,
            )


#: Cases that want what the standard forbids: id -> why.
AGAINST_THE_STANDARD = {
    "mosq-broker-PUBLISH-990": "a third copy of a QoS 2 PUBLISH closes; [MQTT-4.3.3-10] has PUBREC for each",
}


@pytest.mark.parametrize("case", [c for c in cases("broker.jsonl") if c.id not in AGAINST_THE_STANDARD])
def test_broker_sequences(case: Any) -> None:
    broker = Broker(case)
    version = case["version"]
    said: list[Any] = []
    for step in case["steps"]:
        match step["do"]:
            case "send":
                broker.receive(bytes.fromhex(step["hex"]))
            case "expect":  # in any order, and what is said early counts later
                said += normal(broker.connection.data_to_send(), version, "server")
                for packet in normal(bytes.fromhex(step["hex"]), version, "server"):
                    assert packet in said
                    said.remove(packet)
            case "external_publish":
                broker.route(
                    mqtt.Publish(
                        topic_name=step["topic"],
                        payload=step["payload"].encode(),
                        qos=step["qos"],
                        retain=bool(step["retain"]),
                        packet_identifier=1 if step["qos"] else None,
                        version=4,
                    )
                )
    said += normal(broker.connection.data_to_send(), version, "server")
    assert said == []
    broker.receive(b"\xc0\x00")
    answered = broker.connection.data_to_send() == b"\xd0\x00"
    assert answered is (case["finally"] == "connected")
    if broker.connection.state is not State.CLOSED and not answered:
        broker.receive(bytes(64))  # the last packet was cut: more bytes complete it
    assert (broker.connection.state is State.CLOSED) is (case["finally"] == "disconnected")
