"""Shared subscriptions (4.8.2): of all versions, and of members that are gone."""

from __future__ import annotations

import pytest

from lib.kinds import checked
from lib.loopback import until
from lib.mqtt_raw import Place, Raw, tried
from wirefmt import mqtt
from wirefmt.broker.mqtt import BrokerOptions, Message

SESSION = [("session_expiry_interval", 1000)]


async def received(client: Raw, count: int) -> list[bytes]:
    """Payloads; nothing is acknowledged."""
    return [(await client.want(mqtt.Publish)).payload_bytes() for _ in range(count)]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_of_all_versions(version: int) -> None:
    """Before 5.0 as in mosquitto: each message goes to one member, no retained message comes, and UNSUBSCRIBE ends it."""

    async def steps(place: Place) -> None:
        place.broker.publish(Message("x", b"retained", retain=True))
        members = [await place.connect(f"{n}", version=v) for n, v in enumerate((version, version, 5))]
        for member in members:
            assert await member.subscribe("$share/g/x", qos=0) == (0,)
            await member.none()
        for n in range(6):
            place.broker.publish(Message("x", b"%d" % n))
        got = [await received(member, 2) for member in members]
        assert sorted(payload for each in got for payload in each) == [b"%d" % n for n in range(6)]
        for member in members:
            member.send(mqtt.Unsubscribe(packet_identifier=1, topic_filters=["$share/g/x"], version=member.version))
            await member.want(mqtt.Unsuback)
        assert place.broker.publish(Message("x", b"nobody")) == 0x10

    tried(steps)


@pytest.mark.parametrize("topic_filter", ["$share/g", "$share//x", "$share/g/", "$share/+/x"])
def test_a_filter_that_is_not_one_is_refused_before_5_0(topic_filter: str) -> None:
    async def steps(place: Place) -> None:
        client = await place.connect(version=4)
        assert await client.subscribe(topic_filter, "y", qos=0) == (0x80, 0)
        await client.none()

    tried(steps)


@pytest.mark.parametrize("end", ["close", "clean", "expiry"])
def test_unacknowledged_messages_of_a_dead_member_go_to_another(end: str) -> None:
    """QoS 1, in their order, before those that had not been sent (4.8.2). What was acknowledged does not come again."""

    async def steps(place: Place) -> None:
        properties = [("receive_maximum", 3), *(SESSION if end == "clean" else ())]
        first = await place.connect("first", properties=properties)
        await first.subscribe("$share/g/x", qos=1)
        for n in range(6):
            place.broker.publish(Message("x", b"%d" % n, 1))
        assert await received(first, 3) == [b"0", b"1", b"2"]
        first.send(mqtt.Puback(packet_identifier=1))
        assert await received(first, 1) == [b"3"]
        second = await place.connect("second")
        await second.subscribe("$share/g/x", qos=1)
        if end == "close":
            first.close()
        elif end == "clean":
            first.close()
            await until(lambda: place.broker.subscribers["first"].peer is None)
            await second.none()  # its session goes on, so they wait for it
            await place.connect("first", clean_start=True)
        else:
            first.send(mqtt.Disconnect())
        assert await received(second, 5) == [b"1", b"2", b"3", b"4", b"5"]
        await second.none()
        assert not place.broker.subscribers["second"].queue
        assert len(place.broker.subscribers["second"].unacknowledged) == 5
        for identifier in range(1, 6):
            second.send(mqtt.Puback(packet_identifier=identifier))
        await second.none()
        assert not place.broker.subscribers["second"].unacknowledged
        second.close()
        await until(lambda: "second" not in place.broker.subscribers)
        assert place.broker.shares.messages == 0

    tried(steps)


def test_qos_2_that_has_been_sent_goes_to_nobody_else() -> None:
    """[MQTT-4.8.2-5]; what has not been sent does."""

    async def steps(place: Place) -> None:
        first = await place.connect("first", properties=[("receive_maximum", 2)])
        await first.subscribe("$share/g/x", qos=2)
        for n in range(4):
            place.broker.publish(Message("x", b"%d" % n, 2))
        assert await received(first, 2) == [b"0", b"1"]
        second = await place.connect("second")
        await second.subscribe("$share/g/x", qos=2)
        first.close()
        assert await received(second, 2) == [b"2", b"3"]
        await second.none()

    tried(steps)


def test_qos_2_is_completed_with_the_member_that_has_it() -> None:
    """[MQTT-4.8.2-4]"""

    async def steps(place: Place) -> None:
        first = await place.connect("first", properties=SESSION)
        await first.subscribe("$share/g/x", qos=2)
        second = await place.connect("second")
        place.broker.publish(Message("x", b"0", 2))
        assert await received(first, 1) == [b"0"]
        await second.subscribe("$share/g/x", qos=2)
        first.close()
        await until(lambda: place.broker.subscribers["first"].peer is None)
        again = await place.connect("first", clean_start=False, properties=SESSION)
        message = await again.want(mqtt.Publish)
        assert (message.dup, message.payload_bytes()) == (True, b"0")
        again.send(mqtt.Pubrec(packet_identifier=message.packet_identifier))
        await again.want(mqtt.Pubrel)
        await second.none()

    tried(steps)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_refused_message_goes_to_nobody_else(qos: int) -> None:
    """[MQTT-4.8.2-6]"""

    async def steps(place: Place) -> None:
        first = await place.connect("first")
        await first.subscribe("$share/g/x", qos=qos)
        place.broker.publish(Message("x", b"0", qos))
        message = await first.want(mqtt.Publish)
        second = await place.connect("second")
        await second.subscribe("$share/g/x", qos=qos)
        kind = mqtt.Puback if qos == 1 else mqtt.Pubrec
        first.send(kind(packet_identifier=message.packet_identifier, reason_code=0x80))
        await first.none()
        first.close()
        await until(lambda: "first" not in place.broker.subscribers)
        await second.none()

    tried(steps)


def test_without_another_member_they_are_gone() -> None:
    async def steps(place: Place) -> None:
        first = await place.connect("first")
        await first.subscribe("$share/g/x", qos=1)
        place.broker.publish(Message("x", b"0", 1))
        await received(first, 1)
        first.close()
        await until(lambda: not place.broker.subscribers)
        assert place.broker.shares.bytes == place.broker.shares.messages == 0

    tried(steps, options=BrokerOptions())


def test_a_member_that_can_take_messages_again_gets_its_part() -> None:
    """After its acknowledgements, and when it is back: nobody is left out for ever."""

    async def steps(place: Place) -> None:
        clients = {
            name: await place.connect(name, properties=[("receive_maximum", 1), *SESSION]) for name in ("a", "b")
        }
        for client in clients.values():
            await client.subscribe("$share/g/x", qos=1)

        def publish(count: int) -> None:
            for _ in range(count):
                place.broker.publish(Message("x", b"", 1))

        async def take(name: str) -> int:
            got = 0
            client = clients[name]
            client.send(b"\xc0\x00")
            while isinstance(packet := await client.next(), mqtt.Publish):
                client.send(mqtt.Puback(packet_identifier=checked(packet.packet_identifier, int)))
                got += 1
                client.send(b"\xc0\x00")
                await client.want(mqtt.Pingresp)
            return got

        publish(2)
        assert await take("a") == 1
        publish(1)  # only a can
        assert await take("a") == 1
        assert await take("b") == 1
        for _ in range(4):
            publish(2)
            assert [await take(name) for name in ("a", "b")] == [1, 1]
        clients["a"].close()
        await until(lambda: place.broker.subscribers["a"].peer is None)
        for _ in range(3):
            publish(1)
            assert await take("b") == 1
        clients["a"] = await place.connect("a", clean_start=False, properties=[("receive_maximum", 1), *SESSION])
        await clients["a"].none()
        for _ in range(4):
            publish(2)
            assert [await take(name) for name in ("a", "b")] == [1, 1]

    tried(steps)
