"""`$SYS` as mosquitto has it: the broker's figures, and where bridges say whether they are connected."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, until
from lib.mosquitto import MOSQUITTO
from lib.mqtt_raw import Place, Raw, tried
from lib.ports import free_port
from wirefmt import mqtt
from wirefmt.broker import Broker
from wirefmt.broker.mqtt import BrokerOptions, Message

STATE = "$SYS/broker/connection/bridge.name/state"


async def figures(client: Raw, count: int) -> dict[str, bytes]:
    found = [await client.want(mqtt.Publish) for _ in range(count)]
    return {message.topic_name.removeprefix("$SYS/broker/"): message.payload_bytes() for message in found}


def test_they_are_published_while_somebody_subscribes() -> None:
    async def steps(place: Place) -> None:
        assert len(place.broker.retained) == 0
        client = await place.connect(properties=[("session_expiry_interval", 60)])
        await client.subscribe("t", "$share/g/t", qos=0)
        client.publish("t", b"12345", qos=1, retain=True)
        await client.want(mqtt.Publish)
        await client.want(mqtt.Publish)
        await client.want(mqtt.Puback)
        other = await place.connect("other")
        await other.subscribe("$SYS/#", qos=1)
        first = await figures(other, 21)
        assert first.pop("version").startswith(b"wirefmt ")
        assert first.pop("uptime") == b"0 seconds"
        sizes = {name: int(first.pop(name)) for name in list(first) if "bytes" in name}
        assert first == {
            "clients/total": b"2",
            "clients/connected": b"2",
            "clients/disconnected": b"0",
            "clients/maximum": b"2",
            "messages/received": b"5",  # 2 CONNECT, 2 SUBSCRIBE, PUBLISH
            "messages/sent": b"6",  # 2 CONNACK, SUBACK, 2 PUBLISH, PUBACK
            "messages/stored": b"1",
            "store/messages/count": b"1",
            "retained messages/count": b"1",
            "subscriptions/count": b"2",
            "shared_subscriptions/count": b"1",
            "publish/messages/received": b"1",
            "publish/messages/sent": b"2",
            "publish/messages/dropped": b"0",
        }
        assert (sizes["publish/bytes/received"], sizes["publish/bytes/sent"]) == (5, 10)
        assert sizes["bytes/received"] > 50 and sizes["bytes/sent"] > 50
        assert sizes["store/messages/bytes"] == place.broker.shares.bytes
        client.send(mqtt.Disconnect())
        later: dict[str, bytes] = {}
        while later.get("clients/connected") != b"1" or "bytes/sent" not in later:  # those that have changed
            later |= await figures(other, 1)
        assert int(later["bytes/sent"]) > sizes["bytes/sent"]
        assert not {"clients/total", "clients/maximum", "version"} & set(later)  # its session goes on
        other.send(mqtt.Unsubscribe(packet_identifier=1, topic_filters=["$SYS/#"]))
        while not isinstance(await other.next(), mqtt.Unsuback):
            pass
        assert {topic for topic, _ in place.broker.retained.match("$SYS/#")} == set()
        assert place.broker._figures._timer is None

    tried(steps, options=BrokerOptions(sys_interval=0.05))


def test_they_are_no_messages_for_others(tmp_path: Path) -> None:
    """Not for `#`, not for AMQP, and not among what a test sees."""

    async def main() -> None:
        async with Broker(ports={"mqtt": 0, "amqp": 0}, mqtt=BrokerOptions(sys_interval=0.01)) as b:
            from wirefmt import amqp091

            async with amqp091.connect(b.url("amqp")) as client, mqtt.connect(b.url("mqtt")) as watcher:
                channel = await client.channel()
                await channel.declare_queue("q")
                await channel.bind_queue("q", "amq.topic", "#")
                await watcher.subscribe("$SYS/broker/uptime", "#")
                assert (await anext(watcher.messages())).topic_name == "$SYS/broker/uptime"
                await asyncio.sleep(0.05)
                assert list(b.queue("q")) == []
                assert list(b.topic("$SYS/#")) == []
                await watcher.publish("t", b"x", qos=1)
                assert [message.body for message in b.queue("q")] == [b"x"]

    asyncio.run(main())


@pytest.mark.parametrize("topic_filter", ["$SYS/#", "$share/g/$SYS/#"])
def test_an_interval_of_0_has_none(topic_filter: str) -> None:
    async def steps(place: Place) -> None:
        client = await place.connect()
        await client.subscribe(topic_filter)
        await client.none()
        assert place.broker._figures._timer is None
        client.close()
        await until(lambda: not place.broker.subscribers)

    tried(steps, options=BrokerOptions(sys_interval=0))


@pytest.mark.parametrize("version", [4, 5])
def test_a_bridge_says_whether_it_is_connected(version: int) -> None:
    """As mosquitto's: a retained message, and a will. Nothing else may be published below $SYS."""

    async def steps(place: Place) -> None:
        watcher = await place.connect("watcher")
        await watcher.subscribe("$SYS/broker/connection/#", qos=1)
        while place.broker.subscribers["watcher"].queue:
            await watcher.next()
        will = mqtt.Will(topic=STATE, payload=b"0", qos=1, retain=True)
        bridge = await place.connect("bridge", version=version, will=will)
        bridge.publish(STATE, b"1", qos=1, retain=True)
        await bridge.want(mqtt.Puback)
        assert (await watcher.want(mqtt.Publish)).payload_bytes() == b"1"
        bridge.writer.transport.abort()
        assert (await watcher.want(mqtt.Publish)).payload_bytes() == b"0"
        assert place.broker.retained.get(STATE).payload == b"0"  # type: ignore[union-attr]
        other = await place.connect("other")
        for topic in (
            "$SYS/broker/uptime",
            "$SYS/broker/connection/state",
            "$SYS/broker/connection/a/b/state",
            "$SYS/x",
        ):
            other.publish(topic, b"1", qos=1)
            assert (await other.want(mqtt.Puback)).reason_code == 0x87
            refused = await place.open()
            refused.send(mqtt.Connect(client_identifier="w", will=mqtt.Will(topic=topic, payload=b"")))
            assert (await refused.want(mqtt.Connack)).reason_code == 0x87

    tried(steps, options=BrokerOptions(sys_interval=0))


@pytest.mark.parametrize("level", [3, 4])
def test_a_bridge_gets_none_of_its_own_messages_and_retain_as_published(level: int) -> None:
    """It says by its version that it is one, since 3.1.1 has no options for that (`try_private`)."""

    async def steps(place: Place) -> None:
        bridge = await place.open(level)
        connect = mqtt.Connect(client_identifier="bridge", version=level).encode()
        at = connect.index(bytes((level,)), 8 if level == 4 else 10)
        bridge.send(connect[:at] + bytes((0x80 | level,)) + connect[at + 1 :])
        assert (await bridge.want(mqtt.Connack)).reason_code == 0
        await bridge.subscribe("#", qos=1)
        bridge.publish("own", b"x")
        await bridge.none()
        for retain in (False, True):
            place.broker.publish(Message("t", b"x", retain=retain))
            assert (await bridge.want(mqtt.Publish)).retain is retain

    tried(steps)


@pytest.mark.skipif(MOSQUITTO is None, reason="needs mosquitto (apt install mosquitto)")
@pytest.mark.parametrize("extra", ["", "try_private false", "bridge_protocol_version mqttv50", "cleansession true"])
def test_mosquitto_as_a_bridge(tmp_path: Path, extra: str) -> None:
    """With its default settings: messages cross in both directions, none comes back, and its state can be seen."""
    assert MOSQUITTO is not None
    program: str = MOSQUITTO

    async def seen(client: Any, topic: str) -> bytes:
        async for message in client.messages():
            if message.topic_name == topic:
                payload: bytes = message.payload_bytes()
                return payload
        raise AssertionError("the stream ended")

    async def steps(place: Place) -> None:
        port = free_port()
        config = tmp_path / "mosquitto.conf"
        config.write_text(
            f"listener {port} {HOST}\nallow_anonymous true\nconnection up\naddress {HOST}:{place.port}\n"
            f"topic # both 1\nrestart_timeout 1\n{extra}\n"
        )
        url = f"mqtt://{HOST}:{place.port}"
        with subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL) as bridge:
            try:
                async with mqtt.connect(url) as here:
                    await here.subscribe("$SYS/broker/connection/#", "x/#", qos=1)
                    while await seen(here, f"$SYS/broker/connection/{socket.gethostname()}.up/state") != b"1":
                        pass
                    await until(lambda: any(s.subscriptions for s in place.broker.subscribers.values() if s.peer))
                    async with mqtt.connect(f"mqtt://{HOST}:{port}") as there:
                        await there.subscribe("y", qos=1)
                        await there.publish("x/1", b"up", qos=1)
                        assert await seen(here, "x/1") == b"up"
                        await here.publish("y", b"down", qos=1)
                        assert await seen(there, "y") == b"down"
                        await there.publish("y", b"end", qos=1)
                        assert await seen(there, "y") == b"end"  # "down" has arrived once
            finally:
                bridge.terminate()
                await asyncio.to_thread(bridge.wait)

    tried(steps)
