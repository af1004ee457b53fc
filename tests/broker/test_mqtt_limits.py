"""What the MQTT broker keeps is counted, all of it, in one sum."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lib.loopback import until
from lib.mqtt_raw import Place, Raw, tried
from wirefmt import mqtt
from wirefmt.broker.mqtt import BrokerOptions, Message

USER = [("user_property", ("k", "x" * 60_000))] * 4


async def publish(client: Raw, topic: str, payload: bytes = b"x", **fields: Any) -> int:
    """The code of the PUBACK."""
    client.publish(topic, payload, qos=1, **fields)
    return (await client.want(mqtt.Puback)).reason_code or 0


@pytest.mark.parametrize(
    ("topic", "fields"),
    [("r/{}", {"properties": USER}), ("r/{}", {"payload": bytes(240_000)}), ("/" * 199 + "{}", {})],
    ids=["properties", "payload", "levels"],
)
def test_retained_messages_count_as_a_whole(topic: str, fields: Any) -> None:
    async def steps(place: Place) -> None:
        client = await place.connect()
        codes = [await publish(client, topic.format(n), retain=True, **fields) for n in range(20)]
        assert codes[0] == 0x10 and codes[-1] == 0x97
        assert 1 <= len(place.broker.retained) < 15
        assert place.broker._retained.bytes <= 1_000_000
        for n in range(20):
            await publish(client, topic.format(n), b"", retain=True)
        assert place.broker._retained.bytes == 0 == len(place.broker.retained)

    tried(steps, options=BrokerOptions(retained_bytes=1_000_000))


def test_wills_count() -> None:
    """Of clients that are connected, and delayed ones of those that are away."""
    will = mqtt.Will(topic="w", payload=bytes(60_000), properties=[*USER, ("will_delay_interval", 1000)])
    properties = [("session_expiry_interval", 1000)]

    async def steps(place: Place) -> None:
        for number in range(3):
            client = await place.connect(f"{number}", will=will, properties=properties)
            if number:
                client.close()
                await until(lambda n=number: place.broker.subscribers[f"{n}"].peer is None)
        refused = await place.open()
        refused.send(mqtt.Connect(client_identifier="more", will=will))
        assert (await refused.want(mqtt.Connack)).reason_code == 0x97
        await place.connect("small")
        await place.connect("1", properties=[("session_expiry_interval", 0)])  # its will is gone
        await place.connect("more", will=will)

    tried(steps, options=BrokerOptions(memory=1_000_000, client_share=1))


def test_sessions_and_subscriptions_count() -> None:
    async def steps(place: Place) -> None:
        before = 0
        for number in range(10):
            await place.connect(f"{number}")
            assert place.broker.shares.bytes > before
            before = place.broker.shares.bytes
        client = place.clients[0]
        codes: list[int] = []
        while 0x97 not in codes:
            codes += await client.subscribe(f"{len(codes)}/" + "x" * 10_000)
        assert len(codes) < 20
        assert place.broker.shares.bytes <= 200_000
        assert await client.subscribe("0/" + "x" * 10_000) == (2,)  # the same again costs nothing
        unsubscribe = [f"{number}/" + "x" * 10_000 for number in range(len(codes))]
        client.send(mqtt.Unsubscribe(packet_identifier=1, topic_filters=unsubscribe))
        await client.want(mqtt.Unsuback)
        assert place.broker.shares.bytes == before
        for each in place.clients:
            each.close()
        await until(lambda: not place.broker.subscribers)
        assert place.broker.shares.bytes == 0

    tried(steps, options=BrokerOptions(memory=200_000))


@pytest.mark.parametrize("overflow", ["drop_oldest", "refuse"])
def test_messages_that_wait_for_many_clients_count_once(overflow: Any) -> None:
    async def steps(place: Place) -> None:
        for number in range(10):
            client = await place.connect(f"{number}", properties=[("session_expiry_interval", 1000)])
            await client.subscribe("t", qos=1)
            client.close()
        await until(lambda: not place.broker._clients.by_peer)
        sender = await place.connect("sender")
        empty = place.broker.shares.bytes
        assert await publish(sender, "t", bytes(100_000)) == 0
        assert 100_000 < place.broker.shares.bytes - empty < 110_000
        codes = [await publish(sender, "t", bytes(100_000)) for _ in range(20)]
        assert place.broker.shares.bytes <= 1_000_000
        if overflow == "refuse":
            assert codes[-1] == 0x97
        else:
            assert place.broker.counts["dropped"] >= 100
        assert {len(subscriber.queue) for name, subscriber in place.broker.subscribers.items() if name != "sender"} == {
            9
        }
        for number in range(10):  # they get what there is
            client = await place.connect(f"{number}", clean_start=False)
            await client.want(mqtt.Publish)
            client.send(b"\xe0\0")
        await until(lambda: len(place.broker.subscribers) == 1)
        assert 0 < place.broker.shares.bytes < 4000  # the sender

    tried(steps, options=BrokerOptions(memory=1_000_000, client_share=1, overflow=overflow))


def test_a_client_whose_queue_fills_its_share_connects_again() -> None:
    """It asks for no more than it has."""

    async def steps(place: Place) -> None:
        client = await place.connect(version=4, clean_start=False)
        await client.subscribe("t", qos=1)
        client.close()
        await until(lambda: not place.broker._clients.by_peer)
        for _ in range(300):
            place.broker.publish(Message("t", b"x", 1))
        assert place.broker.subscribers["c"].holder.bytes > 20_000
        client = await place.connect(version=4, clean_start=False)
        assert (await client.want(mqtt.Publish)).topic_name == "t"

    tried(steps, options=BrokerOptions(memory=1_000_000, client_share=0.02))


def test_expired_messages_make_room() -> None:
    """In a full queue, and among the retained ones; those that have not expired stay [MQTT-3.3.2-5]."""

    async def steps(place: Place) -> None:
        client = await place.connect(properties=[("session_expiry_interval", 1000)])
        await client.subscribe("t", qos=1)
        client.close()
        await until(lambda: not place.broker._clients.by_peer)
        soon = asyncio.get_running_loop().time() + 0.02
        place.broker.publish(Message("t", b"first", 1))
        place.broker.publish(Message("t", b"expires", 1, expires=soon))
        place.broker.publish(Message("r/1", b"expires", 1, retain=True, expires=soon))
        place.broker.publish(Message("r/2", b"stays", 1, retain=True, expires=soon + 1000))
        assert place.broker.publish(Message("r/3", b"x", 1, retain=True)) == 0x97
        await asyncio.sleep(0.03)
        assert place.broker.publish(Message("r/3", b"x", 1, retain=True)) == 0x10
        assert {topic for topic, _ in place.broker.retained.match("#")} == {"r/2", "r/3"}
        assert place.broker.publish(Message("t", b"second", 1)) == 0
        assert [queued.message.payload for queued in place.broker.subscribers["c"].queue] == [b"first", b"second"]
        assert place.broker.counts == {"expired": 1}

    tried(steps, options=BrokerOptions(queue_messages=2, retained_messages=2))


@pytest.mark.parametrize("version", [4, 5])
def test_the_limit_of_topic_levels(version: int) -> None:
    """mosquitto has 200; what is more is refused, and the connection goes on."""
    most, more = "/".join("a" * 4), "/".join("a" * 5)

    async def steps(place: Place) -> None:
        client = await place.connect(version=version)
        assert await client.subscribe(most, more, "a/#", f"$share/g/{most}", f"$share/g/{more}") == (
            (2, 0x8F, 2, 2, 0x8F) if version == 5 else (2, 0x80, 2, 2, 0x80)
        )
        if version == 5:
            assert await publish(client, more, retain=True) == 0x90
        else:
            client.publish(more, b"x", qos=0, retain=True)
        await client.none()
        assert len(place.broker.retained) == 0
        will = mqtt.Will(topic=more, payload=b"")
        other = await place.open(version)
        other.send(mqtt.Connect(client_identifier="w", will=will, version=version))
        assert (await other.want(mqtt.Connack)).reason_code == (0x90 if version == 5 else 3)

    tried(steps, options=BrokerOptions(topic_levels=4))


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_that_does_not_retain(version: int) -> None:
    """5.0: CONNACK says so, and RETAIN is a fault [MQTT-3.2.2-14]. Before, the message is one as any other."""

    async def steps(place: Place) -> None:
        client = await place.connect(version=version)
        await client.subscribe("t", qos=0)
        client.publish("t", b"x", retain=True)
        if version == 5:
            assert dict(client.connack.properties)["retain_available"] == 0  # type: ignore[attr-defined]
            await client.end(0x9A)
        else:
            assert (await client.want(mqtt.Publish)).payload_bytes() == b"x"
        assert len(place.broker.retained) == 0
        if version == 5:
            refused = await place.open()
            refused.send(mqtt.Connect(client_identifier="w", will=mqtt.Will(topic="t", payload=b"", retain=True)))
            assert (await refused.want(mqtt.Connack)).reason_code == 0x9A  # [MQTT-3.2.2-13]

    tried(steps, options=BrokerOptions(retain_available=False))


def test_a_session_is_taken_over_while_its_packets_wait_for_their_turn() -> None:
    """[MQTT-3.1.4-3]: what the earlier connection has sent comes first; its end does not take the session from the new one."""

    async def steps(place: Place) -> None:
        broker = place.broker
        properties = [("session_expiry_interval", 1000)]
        first = await place.connect("c", properties=properties)
        for number in range(50):
            other = await place.connect(f"s{number}")
            await other.subscribe("t")
        (driver,) = [peer.driver for peer, one in broker._clients.by_peer.items() if one.identifier == "c"]
        publish = mqtt.Publish(topic_name="t", payload=b"x", properties=[("content_type", "y")], version=5)
        first.send(publish.encode() * 2000)
        await until(lambda: driver._late)
        second = await place.connect("c", clean_start=False, properties=properties)
        subscriber = broker.subscribers["c"]
        await until(lambda: driver._lost and not driver._late)
        assert subscriber.peer is not None
        assert subscriber.peer.driver is not driver
        assert subscriber not in broker._clients.away
        await second.subscribe("own")
        sender = await place.connect("sender")
        sender.send(mqtt.Publish(topic_name="own", payload=b"y", version=5))
        assert (await second.want(mqtt.Publish)).payload_bytes() == b"y"

    tried(steps)
