"""Retained messages for new subscriptions: all of them come, in steps, however slowly their client reads (3.3.1.3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lib.mqtt_raw import Place, Raw, tried
from wirefmt import mqtt
from wirefmt.broker.mqtt import STEPS, BrokerOptions, Message


def retain(place: Place, count: int, size: int = 10, qos: int = 0, prefix: str = "r") -> None:
    for number in range(count):
        place.broker.publish(Message(f"{prefix}/{number}", b"%d " % number + bytes(size), qos, retain=True))


async def take(client: Raw, count: int) -> list[mqtt.Publish]:
    """The next messages; those of QoS 1 and 2 are acknowledged."""
    found: list[mqtt.Publish] = []
    while len(found) < count:
        packet = await client.next()
        if isinstance(packet, mqtt.Pubrel):
            client.send(mqtt.Pubcomp(packet_identifier=packet.packet_identifier, version=client.version))
            continue
        assert isinstance(packet, mqtt.Publish), packet
        if packet.qos:
            kind: Any = mqtt.Puback if packet.qos == 1 else mqtt.Pubrec
            client.send(kind(packet_identifier=packet.packet_identifier, version=client.version))
        found.append(packet)
    return found


@pytest.mark.parametrize(("version", "qos"), [(3, 0), (4, 0), (5, 0), (4, 1), (5, 1), (5, 2)])
def test_all_come(version: int, qos: int) -> None:
    """More than a queue may hold, and than the transport takes at once [MQTT-3.3.1-9]."""

    async def steps(place: Place) -> None:
        count = 3 * STEPS
        retain(place, count, 300, qos)
        maximum: dict[str, Any] = {"properties": [("receive_maximum", 7)]} if version == 5 else {}
        client = await place.connect(version=version, **maximum)
        await client.subscribe("r/#", qos=qos)
        got = await take(client, count)
        assert len({message.topic_name for message in got}) == count
        assert all(message.retain and message.qos == qos for message in got)
        assert place.broker.counts["dropped"] == 0
        if qos < 2:  # else PUBREL comes
            await client.none()

    tried(steps, options=BrokerOptions(queue_messages=5))


def test_a_client_that_does_not_read_costs_no_memory() -> None:
    async def steps(place: Place) -> None:
        retain(place, 300, 100_000)
        kept = place.broker.shares.bytes
        client = await place.connect()
        await client.subscribe("r/#")
        subscriber = place.broker.subscribers["c"]
        while subscriber.peer is None or subscriber.peer.ready:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        assert len(subscriber.queue) <= 1
        assert place.broker.shares.bytes - kept < 10_000
        assert len(await take(client, 300)) == 300

    tried(steps)


def test_others_are_served_meanwhile() -> None:
    """A turn of the event loop takes a limited number of steps, whatever all clients have asked for, also for filters that match
    little of what they look at."""

    async def steps(place: Place) -> None:
        for number in range(20 * STEPS):
            place.broker.publish(Message(f"r/{number}/x", b"", retain=True))
            place.broker.publish(Message(f"r/{number}/y", b"x", retain=True))
        other = await place.connect("other")
        walker = await place.connect("walker")
        filters = [mqtt.Subscription(f"r/+/{number}") for number in range(100)]
        walker.send(mqtt.Subscribe(packet_identifier=1, subscriptions=filters))
        await walker.want(mqtt.Suback)
        subscriber = place.broker.subscribers["walker"]
        assert subscriber.walks
        for _ in range(10):
            await other.none()
        assert subscriber.walks  # it goes on for long
        walker.send(mqtt.Unsubscribe(packet_identifier=1, topic_filters=[each.topic_filter for each in filters]))
        await walker.want(mqtt.Unsuback)
        await walker.subscribe("r/7/y")
        assert [message.topic_name for message in await take(walker, 1)] == ["r/7/y"]

    tried(steps)


@pytest.mark.parametrize("retained", [False, True])
@pytest.mark.parametrize("overlap", ["merged", "each"])
def test_a_new_message_comes_after_the_retained_one_of_its_topic(retained: bool, overlap: Any) -> None:
    """[MQTT-4.6.0-5]: while the retained messages are on their way, others are published to all of their topics."""

    async def steps(place: Place) -> None:
        count = 2 * STEPS
        retain(place, count, 2000)
        client = await place.connect()
        await client.subscribe("r/#", "r/+")
        for number in range(count):
            place.broker.publish(Message(f"r/{number}", b"new", retain=retained))
        place.broker.publish(Message("r/end", b"new"))
        got: dict[str, list[bytes]] = {}
        walks = place.broker.subscribers["c"].walks
        while "r/end" not in got or walks:  # its end may come after the last message
            walks = place.broker.subscribers["c"].walks
            client.send(b"\xc0\0")
            while isinstance(message := await client.next(), mqtt.Publish):
                got.setdefault(message.topic_name, []).append(message.payload_bytes()[:3])
        copies = 1 if overlap == "merged" else 2
        del got["r/end"]
        assert len(got) == count
        for payloads in got.values():  # the retained one for each subscription, then the new one
            assert payloads[:-copies] == [payloads[0]] * 2
            assert payloads[-copies:] == [b"new"] * copies
            assert payloads[0] != b"new"
        assert not place.broker.subscribers["c"].early

    tried(steps, options=BrokerOptions(overlap=overlap, queue_messages=10_000))


def test_messages_of_other_topics_do_not_wait() -> None:
    async def steps(place: Place) -> None:
        retain(place, 100 * STEPS, 0)
        client = await place.connect()
        await client.subscribe("r/#", "live")
        place.broker.publish(Message("live", b"x"))
        at = [message.topic_name for message in await take(client, 100 * STEPS + 1)].index("live")
        assert at < 10 * STEPS

    tried(steps)


@pytest.mark.parametrize("handling", [0, 1, 2])
def test_a_subscription_that_is_made_again_meanwhile(handling: int) -> None:
    """Retain Handling 0: all come again, from the beginning. 1 and 2: what is owed to the first one still comes, once
    [MQTT-3.3.1-10, MQTT-3.3.1-11]."""

    async def steps(place: Place) -> None:
        count = 4 * STEPS
        retain(place, count, 500)
        client = await place.connect()
        again = mqtt.Subscription("r/#", qos=1, retain_handling=handling)
        for number, asked in enumerate((mqtt.Subscription("r/#"), again), 1):
            client.send(mqtt.Subscribe(packet_identifier=number, subscriptions=[asked]))
        topics: list[str] = []
        client.send(b"\xc0\0")
        while place.broker.subscribers.get("c") is None or place.broker.subscribers["c"].walks or len(topics) < count:
            packet = await client.next()
            if isinstance(packet, mqtt.Publish):
                topics.append(packet.topic_name)
        client.send(b"\xc0\0")
        while not isinstance(packet := await client.next(), mqtt.Pingresp):
            topics.append(packet.topic_name)
        assert len(set(topics)) == count
        if handling:
            assert len(topics) == count
        else:
            assert topics[-count:] == list(dict.fromkeys(topics[-count:]))  # the whole of it, after some of the first

    tried(steps)


def test_what_is_removed_or_has_expired() -> None:
    """The message that removes one is a message, too, and comes after it. What has expired does not come."""

    async def steps(place: Place) -> None:
        retain(place, 4 * STEPS, 500)
        past = asyncio.get_running_loop().time() - 1
        place.broker.publish(Message("r/zz", b"expired", retain=True, expires=past))
        client = await place.connect()
        await client.subscribe("r/#")
        place.broker.publish(Message(f"r/{4 * STEPS - 1}", b"", retain=True))
        removed = f"r/{4 * STEPS - 1}"
        got = await take(client, 4 * STEPS + 1)
        assert [bool(message.payload) for message in got if message.topic_name == removed] == [True, False]
        assert "r/zz" not in {message.topic_name for message in got}
        await client.none()
        assert len(place.broker.retained) == 4 * STEPS - 1

    tried(steps, options=BrokerOptions(queue_messages=10_000))


def test_it_goes_on_in_the_next_connection_of_the_session() -> None:
    async def steps(place: Place) -> None:
        count = 4 * STEPS
        retain(place, count, 500, qos=1)
        client = await place.connect(properties=[("session_expiry_interval", 60), ("receive_maximum", 10)])
        await client.subscribe("r/#", qos=1)
        first = await take(client, 20)
        client.close()
        again = await place.connect(clean_start=False, properties=[("session_expiry_interval", 60)])
        topics = {message.topic_name for message in first}
        while len(topics) < count:
            topics |= {message.topic_name for message in await take(again, 1)}
        assert place.broker.counts["dropped"] == 0

    tried(steps)


def test_a_client_that_subscribes_and_ends_leaves_nothing() -> None:
    """SUBSCRIBE and DISCONNECT in one read, and a client that is dropped in the middle."""

    async def steps(place: Place) -> None:
        retain(place, 4 * STEPS, 500)
        client = await place.connect()
        client.send(mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("#")]).encode() + b"\xe0\0")
        await client.want(mqtt.Suback)
        other = await place.connect("other")
        await other.subscribe("r/#")
        other.close()
        while place.broker.subscribers:
            await asyncio.sleep(0.005)
        assert place.broker._walks.count == 0 and not place.broker._walks._walking
        assert place.broker.counts["too_large"] == 0

    tried(steps)


@pytest.mark.parametrize("denied", ["r/5", "r/#"])
def test_denied_topics_are_left_out(denied: str) -> None:
    from wirefmt.broker.permissions import Permissions

    async def steps(place: Place) -> None:
        retain(place, 10)
        client = await place.connect()
        await client.subscribe("#")
        got = [message.topic_name for message in await take(client, 9 if denied == "r/5" else 0)]
        assert denied not in got
        await client.none()

    rights = {"*": {"mqtt": {"publish": "#", "subscribe": "#", "deny": denied}}}
    tried(steps, options=BrokerOptions(permissions=Permissions(rights)))
