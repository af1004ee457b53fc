"""One message for many subscribers is delivered in steps; what happens between them, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lib.loopback import until
from lib.mqtt_raw import Place, Raw, said, tried
from wirefmt import mqtt
from wirefmt.broker.mqtt import BrokerOptions, Message, publishing


@pytest.fixture(autouse=True)
def _one_copy_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "TOGETHER", 1)


async def begun(place: Place, publisher: Raw, topic: str = "t", payload: bytes = b"x", **fields: Any) -> Iterator[int]:
    """The steps of a PUBLISH of a client, none of which has been taken."""
    held: list[Any] = []
    publish = place.broker._handlers[mqtt.Publish]
    place.broker._handlers[mqtt.Publish] = lambda peer, event: held.append(publish(peer, event))
    publisher.publish(topic, payload, 1, **fields)
    await until(lambda: held)
    place.broker._handlers[mqtt.Publish] = publish
    (steps,) = held
    assert steps is not None
    return steps


@pytest.mark.parametrize("fields", [{}, {"properties": [("content_type", "y")]}, {"retain": True}])
def test_what_has_ended_gets_no_copy_and_what_has_taken_its_place_does(fields: Any) -> None:
    """3.10.4: no new messages after UNSUBACK. [MQTT-3.8.4-4]: a subscription that is replaced loses no message."""

    async def test(place: Place) -> None:
        publisher = await place.connect("p")
        stays, leaves, replaces, ends = [await place.connect(name) for name in ("a", "b", "c", "d")]
        for one in (stays, leaves, replaces, ends):
            assert await one.subscribe("t", qos=1) == (1,)
        steps = await begun(place, publisher, **fields)
        leaves.send(mqtt.Unsubscribe(packet_identifier=5, topic_filters=["t"], version=5))
        await leaves.want(mqtt.Unsuback)
        again = mqtt.Subscription("t", qos=1, retain_handling=2)
        assert await replaces.subscribe(again, properties=[("subscription_identifier", 9)]) == (1,)
        ends.send(mqtt.Disconnect(version=5))
        await until(lambda: "d" not in place.broker.subscribers)
        for one in (stays, leaves, replaces, publisher):
            await one.none()
        assert all(steps)
        assert (await stays.want(mqtt.Publish)).payload == b"x"
        assert said(await replaces.want(mqtt.Publish))["subscription_identifier"] == 9
        assert (await publisher.want(mqtt.Puback)).packet_identifier == 7
        for one in (stays, leaves, replaces, publisher):
            await one.none()

    tried(test)


@pytest.mark.parametrize("event", ["publish", "release"])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_is_refused_in_steps_if_one_of_many_has_no_room(qos: int, event: Any) -> None:
    """`overflow="refuse"`: it goes to nobody then, whatever comes in between. One that is taken is not lost."""

    async def test(place: Place) -> None:
        publisher = await place.connect("p")
        clients = [await place.connect(name, properties=[("receive_maximum", 1)]) for name in ("a", "b", "c")]
        for client in clients:
            await client.subscribe("t", "only" if client is clients[1] else "none", qos=qos)
        kind = mqtt.Puback if qos == 1 else mqtt.Pubrec

        async def publish(topic: str) -> int:
            publisher.publish(topic, topic.encode(), qos, properties=[("message_expiry_interval", 1000)])
            answer = await publisher.want(kind)
            if qos == 2 and answer.reason_code < 0x80:
                publisher.send(mqtt.Pubrel(packet_identifier=7, version=5))
                await publisher.want(mqtt.Pubcomp)
            return int(answer.reason_code)

        assert [await publish("t") for _ in range(2)] == [0, 0]  # in flight, and queued
        assert await publish("t") == 0x97
        assert await publish("only") == 0x97
        for client in clients:
            done = await client.want(mqtt.Publish)
            if qos == 2:
                client.send(mqtt.Pubrec(packet_identifier=done.packet_identifier, version=5))
                await client.want(mqtt.Pubrel)
                client.send(mqtt.Pubcomp(packet_identifier=done.packet_identifier, version=5))
            else:
                client.send(mqtt.Puback(packet_identifier=done.packet_identifier, version=5))
            assert (await client.want(mqtt.Publish)).payload == b"t"
            await client.none()
        place.broker.subscribers["c"].queue.clear()
        assert await publish("t") == 0
        assert place.broker.counts["dropped"] == 0
        assert [len(place.broker.subscribers[name].queue) for name in ("a", "b", "c")] == [1, 1, 1]

    options = BrokerOptions(overflow="refuse", queue_messages=1)
    tried(test, options=options, limits=mqtt.ConnectionOptions(qos2_event=event))


@pytest.mark.parametrize("limit", ["memory", "retained"])
def test_messages_that_look_for_room_at_the_same_time_keep_to_the_limits(limit: str) -> None:
    """Each finds room before another one takes it. There is space for one."""

    async def test(place: Place) -> None:
        for name in ("a", "b", "c"):
            client = await place.connect(name, properties=[("session_expiry_interval", 100)])
            await client.subscribe("t/#", qos=1)
            client.close()
            await until(lambda name=name: place.broker.subscribers[name].peer is None)
        publishers = [await place.connect(f"p{number}") for number in range(3)]
        memory, options = place.broker._memory, place.broker.options
        if limit == "memory":
            object.__setattr__(options, "memory", memory.bytes + 6000)
        walks = [
            await begun(place, one, f"t/{number}", b"x" * 4000, retain=limit == "retained")
            for number, one in enumerate(publishers)
        ]
        while walks:
            walks = [steps for steps in walks if next(steps, None) is not None]
            assert memory.bytes <= options.memory
        codes = sorted([(await one.want(mqtt.Puback)).reason_code for one in publishers])
        assert [len(place.broker.subscribers[name].queue) for name in ("a", "b", "c")] == [1, 1, 1]
        if limit == "retained":
            assert codes == [0, 0x97, 0x97]
            assert place.broker.counts["retained dropped"] == 0

    options = BrokerOptions(overflow="refuse", retained_messages=1, retained_overflow="refuse", client_share=1.0)
    tried(test, options=options)


def test_a_will_for_many_is_refused_in_steps() -> None:
    """Nobody learns it."""

    async def test(place: Place) -> None:
        clients = [await place.connect(name, properties=[("receive_maximum", 1)]) for name in ("a", "b")]
        for client in clients:
            await client.subscribe("t", qos=1)
        for number in range(3):
            client = await place.connect("p", will=mqtt.Will("t", b"%d" % number, qos=1))
            client.close()
            await until(lambda: "p" not in place.broker.subscribers)
        await until(lambda: not place.broker._publishing._spreading)
        for client in clients:
            for payload in (b"0", b"1"):
                got = await client.want(mqtt.Publish)
                assert got.payload == payload
                client.send(mqtt.Puback(packet_identifier=got.packet_identifier, version=5))
            await client.none()

    tried(test, options=BrokerOptions(overflow="refuse", queue_messages=1))


def test_a_client_with_several_filters_gets_one_copy() -> None:
    """3.3.4, with the highest QoS and all Subscription Identifiers."""

    async def test(place: Place) -> None:
        publisher = await place.connect("p")
        two, one = await place.connect("a"), await place.connect("b")
        await two.subscribe("t", qos=0, properties=[("subscription_identifier", 1)])
        await one.subscribe("t", qos=0)
        await two.subscribe("+", qos=1, properties=[("subscription_identifier", 2)])
        assert all(await begun(place, publisher))
        got = await two.want(mqtt.Publish)
        assert got.qos == 1
        assert {value for name, value in got.properties if name == "subscription_identifier"} == {1, 2}
        await two.none()
        assert (await one.want(mqtt.Publish)).qos == 0

    tried(test)


def test_messages_of_the_program_keep_their_order_and_are_bounded() -> None:
    """The second one has fewer subscribers; many more wait for the first ones."""

    async def test(place: Place) -> None:
        clients = [await place.connect(name) for name in ("a", "b", "c")]
        for client in clients:
            await client.subscribe("t", "few" if client is clients[0] else "none", qos=1)
        place.broker.publish(Message("t", b"0", 1))
        place.broker.publish(Message("few", b"1", 1))
        for number in range(2, 60):
            place.broker.publish(Message("t", b"%d" % number, 1))
            assert len(place.broker._publishing._spreading) <= publishing.WAITING
        for client in clients:
            numbers = [number for number in range(60) if number != 1 or client is clients[0]]
            for number in numbers:
                assert (await client.want(mqtt.Publish)).payload == b"%d" % number
        await until(lambda: place.broker._publishing._turn is None)

    tried(test)


def test_wills_that_a_message_sets_free_wait_for_its_end() -> None:
    """The last message is one too many for slow clients: the broker ends them, each in a step of that message, which publishes
    their wills."""
    slow = 3 * publishing.WAITING

    async def test(place: Place) -> None:
        watcher = await place.connect("watcher")
        await watcher.subscribe("gone", "after", qos=0)
        clients = []
        for number in range(slow):
            will = mqtt.Will("gone", b"%d" % number)
            clients.append(await place.connect(f"c{number}", will=will, properties=[("receive_maximum", 1)]))
            await clients[-1].subscribe("t", qos=1)
        for payload in (b"in flight", b"queued", b"too many"):
            place.broker.publish(Message("t", payload, 1))
        place.broker.publish(Message("after", b""))
        got = [await watcher.want(mqtt.Publish) for _ in range(slow + 1)]
        assert sorted(int(packet.payload) for packet in got if packet.topic_name == "gone") == list(range(slow))
        for client in clients:
            await client.want(mqtt.Publish)
            await client.end(0x97)
        await until(lambda: place.broker._publishing._turn is None)
        assert not place.broker._publishing._spreading

    tried(test, options=BrokerOptions(overflow="disconnect", queue_messages=1))


def test_a_broker_that_closes_drops_what_waits() -> None:
    async def test(place: Place) -> None:
        for name in ("a", "b"):
            await (await place.connect(name)).subscribe("t")
        place.broker.publish(Message("t", b"0"))
        place.broker.close()
        assert place.broker._publishing._turn is None
        assert not place.broker._publishing._spreading

    tried(test)
