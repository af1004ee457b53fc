"""The MQTT broker, seen by clients on loopback."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lib.loopback import HOST, run, until
from lib.mqtt_served import Client, brokered
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker, BrokerOptions, Message
from wirefmt.errors import Refused


def properties(message: mqtt.Publish) -> dict[str, Any]:
    return dict(message.properties)


# ---- retained messages


@pytest.mark.parametrize("version", [3, 4, 5])
def test_retained(version: int) -> None:
    async def test() -> None:
        async with (
            brokered() as (_, url),
            Client(url, "a", version=version) as a,
            Client(url, "b", version=version) as b,
        ):
            await a.subscribe("r/#", qos=2)
            for n in range(3):
                await b.publish(f"r/{n}", b"first", qos=n, retain=True)
            await b.publish("r/1", b"second", qos=1, retain=True)
            await b.publish("r/2", b"", qos=1, retain=True)
            assert sorted(await a.got(5)) == sorted(
                [("r/0", b"first", 0, False), ("r/1", b"first", 1, False), ("r/2", b"first", 2, False),
                 ("r/1", b"second", 1, False), ("r/2", b"", 1, False)]
            )  # fmt: skip
            await b.subscribe("r/+", qos=1)
            assert sorted(await b.got(2)) == [("r/0", b"first", 0, True), ("r/1", b"second", 1, True)]
            await a.subscribe("r/#", qos=0)  # again: sent again, with the new QoS
            assert sorted(await a.got(2)) == [("r/0", b"first", 0, True), ("r/1", b"second", 0, True)]

    run(test())


def test_retain_handling_and_retain_as_published() -> None:
    async def test() -> None:
        async with brokered() as (_, url), Client(url, "a") as a:
            await a.publish("r", b"x", qos=1, retain=True)
            for handling, first, second in ((0, 1, 1), (1, 1, 0), (2, 0, 0)):
                for count in (first, second):
                    await a.subscribe(mqtt.Subscription("r", retain_handling=handling))
                    assert await a.got(count) == [("r", b"x", 0, True)] * count
                await a.unsubscribe("r")
            await a.subscribe(mqtt.Subscription("r", retain_handling=2, retain_as_published=True))
            await a.publish("r", b"y", retain=True)
            await a.publish("r", b"z")
            assert await a.got(2) == [("r", b"y", 0, True), ("r", b"z", 0, False)]
            await a.subscribe("$share/g/r")
            assert await a.got(0) == []

    run(test())


def test_retained_messages_are_bounded() -> None:
    async def test() -> None:
        policy = BrokerOptions(retained_messages=2, retained_bytes=10_000, client_share=1)
        async with brokered(policy) as (broker, url), Client(url, "a") as a:
            assert await a.publish("1", b"x", qos=1, retain=True) == 0x10
            assert await a.publish("2", b"x", qos=2, retain=True) in (0, 0x10)
            for topic, size in (("3", 1), ("1", 20_000)):
                with pytest.raises(Refused) as caught:
                    await a.publish(topic, bytes(size), qos=1, retain=True)
                assert caught.value.code == 0x97
            await a.publish("1", b"", qos=1, retain=True)
            await a.publish("3", b"x", qos=1, retain=True)
            assert {topic for topic, _ in broker.retained.match("#")} == {"2", "3"}

    run(test())


def test_the_oldest_retained_messages_may_be_dropped() -> None:
    async def test() -> None:
        policy = BrokerOptions(
            retained_messages=2, retained_bytes=10_000, retained_overflow="drop_oldest", client_share=1
        )
        async with brokered(policy) as (broker, url), Client(url, "a") as a:
            for topic in ("1", "2", "1", "3"):  # "2" is the oldest then
                await a.publish(topic, b"x", qos=1, retain=True)
            assert {topic for topic, _ in broker.retained.match("#")} == {"1", "3"}
            await a.publish("4", bytes(9_000), qos=1, retain=True)
            assert {topic for topic, _ in broker.retained.match("#")} == {"4"}
            assert broker.counts["retained dropped"] == 3
            with pytest.raises(Refused):
                await a.publish("5", bytes(20_000), qos=1, retain=True)

    run(test())


def test_sessions_without_a_connection_may_be_dropped() -> None:
    async def test() -> None:
        policy = BrokerOptions(sessions=2, sessions_overflow="drop_oldest")
        async with brokered(policy) as (broker, url):
            for name in ("old", "new"):
                async with Client(url, name, session_expiry_interval=1000):
                    pass
                await until(lambda name=name: broker.subscribers[name].peer is None)
            async with Client(url, "third"):
                assert set(broker.subscribers) == {"new", "third"}
                async with Client(url, "fourth"):
                    assert set(broker.subscribers) == {"third", "fourth"}
                    with pytest.raises(Refused) as caught:  # all are connected
                        await Client(url, "fifth").open()
                    assert caught.value.code == 0x97

    run(test())


# ---- subscriptions


@pytest.mark.parametrize("overlap", ["merged", "each"])
def test_overlapping_subscriptions(overlap: Any) -> None:
    async def test() -> None:
        async with brokered(BrokerOptions(overlap=overlap)) as (_, url), Client(url, "a") as a:
            await a.subscribe("o/#", qos=0, properties=[("subscription_identifier", 1)])
            await a.subscribe("o/+", qos=2, properties=[("subscription_identifier", 2)])
            await a.subscribe("+/x", qos=1)
            await a.publish("o/x", b"", qos=2)
            await until(lambda: len(a.received) == (1 if overlap == "merged" else 3))
            found = sorted(
                (m.qos, sorted(v for k, v in m.properties if k == "subscription_identifier")) for m in a.received
            )
            assert found == ([(2, [1, 2])] if overlap == "merged" else [(0, [1]), (1, []), (2, [2])])
            a.received.clear()
            await a.unsubscribe("o/#", "o/+", "+/x")
            await a.publish("o/x", b"", qos=2)
            assert await a.got(0) == []

    run(test())


def test_no_local_and_dollar_topics() -> None:
    async def test() -> None:
        policy = BrokerOptions(sys_interval=0)
        async with brokered(policy) as (broker, url), Client(url, "a") as a, Client(url, "b") as b:
            await a.subscribe(mqtt.Subscription("n", qos=1, no_local=True), mqtt.Subscription("#"))
            await a.unsubscribe("#")
            await a.publish("n", b"own", qos=1)
            await b.publish("n", b"other", qos=1)
            assert await a.got(1) == [("n", b"other", 1, False)]
            await a.subscribe("#", "+/x")
            broker.publish(Message("$SYS/x", b"hidden"))
            assert await a.got(0) == []
            await a.subscribe("$SYS/#")
            broker.publish(Message("$SYS/x", b"seen"))
            assert await a.got(1) == [("$SYS/x", b"seen", 0, False)]
            with pytest.raises(Refused):
                await a.publish("$SYS/x", qos=1)

    run(test())


def test_codes_of_unsubscribe_and_limits() -> None:
    async def test() -> None:
        policy = BrokerOptions(subscriptions=2, authorise=lambda client, deed, topic: 0x87 * (topic == "secret"))
        async with brokered(policy) as (_, url), Client(url, "a") as a:
            assert await a.subscribe("1", "secret", "2", "3", "1", qos=1) == (1, 0x87, 1, 0x97, 1)
            assert await a.unsubscribe("1", "none", "2") == (0, 0x11, 0)
            assert await a.subscribe("$share/g/secret") == (0x87,)

    run(test())


def test_shared_subscriptions() -> None:
    async def test() -> None:
        async with brokered() as (_, url), Client(url, "p") as p, Client(url, "a") as a, Client(url, "b") as b:
            for client in (a, b):
                await client.subscribe("$share/g/s/#", qos=1)
            await b.subscribe("$share/h/s/x", qos=1)
            for n in range(10):
                await p.publish("s/x", b"%d" % n, qos=1)
            await until(lambda: len(a.received) + len(b.received) == 20)
            payloads = sorted(m.payload_bytes() for m in a.received + b.received)
            assert payloads == sorted([b"%d" % n for n in range(10)] * 2)
            assert 3 <= len(a.received) <= 7
            a.received.clear()
            b.received.clear()
            await a.unsubscribe("$share/g/s/#")
            await p.publish("s/y", qos=1)
            assert len(await b.got(1)) == 1
            assert await a.got(0) == []

    run(test())


def test_a_shared_message_that_waits_goes_to_another_member() -> None:
    async def test() -> None:
        policy = BrokerOptions()
        async with brokered(policy) as (_, url), Client(url, "p") as p:
            async with Client(url, "a", session_expiry_interval=600) as a:
                await a.subscribe("$share/g/s", qos=1)
            await p.publish("s", b"waits", qos=1)
            async with Client(url, "b") as b:
                await b.subscribe("$share/g/s", qos=1)
                async with Client(url, "a", clean_start=True):  # ends the session [MQTT-4.8.2-4]
                    assert await b.got(1) == [("s", b"waits", 1, False)]

    run(test())


# ---- sessions


@pytest.mark.parametrize("version", [3, 4, 5])
def test_messages_wait_for_a_client_that_is_away(version: int) -> None:
    async def test() -> None:
        async with brokered() as (_, url), Client(url, "p") as p:
            more: dict[str, Any] = {"version": version, "session_expiry_interval": 600}
            async with Client(url, "a", **more) as a:
                await a.subscribe("q/#", qos=2)
            for n in range(50):
                await p.publish(f"q/{n}", b"", qos=n % 3)
            async with Client(url, "a", clean_start=False, **more) as a:
                assert [topic for topic, *_ in await a.got(33)] == [f"q/{n}" for n in range(50) if n % 3]
            async with Client(url, "a", clean_start=True, **more) as a:
                await p.publish("q/x", qos=1)
                assert await a.got(0) == []

    run(test())


def test_a_session_ends_with_its_connection_or_after_its_time() -> None:
    async def test() -> None:
        async with brokered(BrokerOptions(session_expiry=1)) as (broker, url):
            async with Client(url, "now") as a:
                await a.subscribe("x")
                assert a.negotiated is not None
            async with Client(url, "later", session_expiry_interval=600) as a:
                await a.subscribe("x")
                assert a.negotiated is not None and a.negotiated.session_expiry_interval == 1
            await until(lambda: set(broker.subscribers) == {"later"})
            await until(lambda: not broker.subscribers)
            assert broker._subscriptions.index.match("x") == []

    run(test())


def test_takeover() -> None:
    async def test() -> None:
        async with brokered() as (_, url), Client(url, "w") as watcher:
            await watcher.subscribe("will/#", qos=1)
            more: dict[str, Any] = {"session_expiry_interval": 600}
            at_once = mqtt.Will("will/at-once")
            later = mqtt.Will("will/later", properties=[("will_delay_interval", 600)])
            async with Client(url, "a", will=at_once, **more) as first:
                await first.subscribe("x", qos=1)
                async with Client(url, "a", clean_start=False, will=later, **more) as second:
                    await until(lambda: not first.connected)
                    with pytest.raises(Refused) as caught:
                        await first.publish("x")
                    assert caught.value.code == 0x8E
                    await second.publish("x", b"mine", qos=1)
                    assert await second.got(1) == [("x", b"mine", 1, False)]
                    async with Client(url, "a", clean_start=False, **more):  # within the delay, and the session goes on
                        assert await watcher.got(1) == [("will/at-once", b"", 0, False)]
                    async with Client(url, "a", clean_start=False, will=later, **more) as third:
                        async with Client(url, "a", clean_start=True, **more):  # the session ends, and the will with it
                            assert await watcher.got(1) == [("will/later", b"", 0, False)]
                        await until(lambda: not third.connected)

    run(test())


def test_wills() -> None:
    async def test() -> None:
        async with brokered() as (_, url), Client(url, "w") as watcher:
            await watcher.subscribe("will/#", qos=2)
            delayed = [("will_delay_interval", 1), ("message_expiry_interval", 60), ("user_property", ("k", "v"))]
            will = mqtt.Will("will/1", payload=b"x", qos=2, retain=True, properties=delayed)
            async with Client(url, "1", will=will, session_expiry_interval=600) as one:
                await one.drop()
                await until(lambda: watcher.received)
                message = watcher.received[0]
                assert properties(message)["user_property"] == ("k", "v")
                assert properties(message)["message_expiry_interval"] in (59, 60)
                assert "will_delay_interval" not in properties(message)
                assert await watcher.got(1) == [("will/1", b"x", 2, False)]
            async with Client(url, "2", will=mqtt.Will("will/2", properties=[("will_delay_interval", 600)])) as two:
                await two.drop()  # the session ends with the connection, and the delay with it [MQTT-3.1.3-9]
                assert await watcher.got(1) == [("will/2", b"", 0, False)]
            async with Client(url, "r") as reader:
                await reader.subscribe("will/#", qos=2)
                assert await reader.got(1) == [("will/1", b"x", 2, True)]

    run(test())


def test_messages_expire() -> None:
    async def test() -> None:
        async with brokered() as (broker, url), Client(url, "p") as p:
            for version in (5, 4):
                async with Client(url, "a", session_expiry_interval=600, version=version) as a:
                    await a.subscribe("e", qos=1)
                for seconds in (1, 100):
                    await p.publish("e", b"%d" % seconds, qos=1, properties=[("message_expiry_interval", seconds)])
                await asyncio.sleep(1.1)
                async with Client(url, "a", session_expiry_interval=600, clean_start=False, version=version) as a:
                    await until(lambda a=a: a.received)
                    (message,) = a.received
                    assert message.payload_bytes() == b"100"
                    left = properties(message).get("message_expiry_interval")
                    assert left in (98, 99) if version == 5 else left is None
                async with Client(url, "a", clean_start=True, version=version):
                    pass
            assert broker.counts["expired"] == 2

    run(test())


# ---- connections


def test_connect_is_decided_by_the_host() -> None:
    async def slow(connect: mqtt.Connect, peer: mqtt.Peer) -> int:
        await asyncio.sleep(0.01)
        return 0 if connect.user_name == "known" else 0x86

    async def test() -> None:
        async with brokered(BrokerOptions(authenticate=slow, sessions=1)) as (_, url):
            for version, code in ((5, 0x86), (4, 4)):
                with pytest.raises(Refused) as caught:
                    await Client(url, "a", version=version).open()
                assert caught.value.code == code
            async with Client(url, "a", user_name="known") as a:
                with pytest.raises(Refused) as caught:
                    await Client(url, "b", user_name="known").open()
                assert caught.value.code == 0x97
                assert await a.publish("x", qos=1) == 0x10

    run(test())


def test_what_the_broker_announces() -> None:
    async def test() -> None:
        policy = BrokerOptions(maximum_qos=1, maximum_keep_alive=7)
        limits = mqtt.ConnectionOptions(receive_maximum=3, topic_alias_maximum=4, packet_size=5000)
        async with brokered(policy, options=limits) as (_, url), Client(url, "") as a:
            n = a.negotiated
            assert n is not None
            assert (n.maximum_qos, n.keep_alive, n.receive_maximum, n.topic_alias_maximum, n.maximum_packet_size) == (
                1, 7, 3, 4, 5000)  # fmt: skip
            assert len(n.client_identifier) == 20
            assert await a.subscribe("x", qos=2) == (1,)
            for _ in range(3):  # with an alias from the second on
                await a.publish("x" * 100, qos=1)
            with pytest.raises(Refused) as caught:
                await Client(url, "b", will=mqtt.Will("w", qos=2)).open()
            assert caught.value.code == 0x9B

    run(test())


def test_messages_too_large_for_a_client_are_dropped() -> None:
    async def test() -> None:
        small = mqtt.ConnectionOptions(packet_size=200)
        async with brokered() as (broker, url), Client(url, "p") as p, Client(url, "a", options=small) as a:
            await a.subscribe("t", qos=1)
            await p.publish("t", bytes(1000), qos=1)
            await p.publish("t", b"small", qos=1)
            assert await a.got(1) == [("t", b"small", 1, False)]
            assert broker.counts["too_large"] == 1

    run(test())


# ---- slow clients


async def flood(broker: Broker, url: str, count: int = 200) -> None:
    """A client that is away has a queue of 10; `count` messages of QoS 1 come."""
    async with Client(url, "slow", session_expiry_interval=600) as slow:
        await slow.subscribe("f", qos=1)
    await until(lambda: broker.subscribers["slow"].peer is None)


def test_a_full_queue_drops_the_oldest() -> None:
    async def test() -> None:
        policy = BrokerOptions(queue_messages=10)
        async with brokered(policy) as (broker, url), Client(url, "p") as p:
            await flood(broker, url)
            for n in range(25):
                assert await p.publish("f", b"%d" % n, qos=1) == 0
            assert broker.counts["dropped"] == 15
            async with Client(url, "slow", clean_start=False, session_expiry_interval=600) as slow:
                assert [payload for _, payload, *_ in await slow.got(10)] == [b"%d" % n for n in range(15, 25)]

    run(test())


@pytest.mark.parametrize("limit", ["queue_messages", "queue_bytes"])
def test_a_full_queue_refuses(limit: str) -> None:
    async def test() -> None:
        policy = BrokerOptions(overflow="refuse", **{limit: 10 if limit == "queue_messages" else 15_500})  # type: ignore[arg-type]
        async with brokered(policy) as (broker, url), Client(url, "p") as p, Client(url, "other") as other:
            await other.subscribe("f", qos=1)
            await flood(broker, url)
            for _ in range(10):
                assert await p.publish("f", bytes(980), qos=1) == 0
            with pytest.raises(Refused) as caught:
                await p.publish("f", bytes(980), qos=1)
            assert caught.value.code == 0x97
            assert len(await other.got(10)) == 10  # what is refused goes to nobody
            assert broker.subscribers["slow"].queued_bytes <= 15_500

    run(test())


@pytest.mark.parametrize("overlap", ["merged", "each"])
def test_a_queue_that_refuses_has_room_for_all_copies_of_a_message(overlap: Any) -> None:
    """Two subscriptions and a shared one of a client match. The shared copy comes last; without space it is dropped."""

    async def test() -> None:
        policy = BrokerOptions(overflow="refuse", queue_messages=4, overlap=overlap)
        async with brokered(policy) as (broker, url), Client(url, "p") as p:
            async with Client(url, "slow", session_expiry_interval=600) as slow:
                for topic_filter in ("f", "#", "$share/g/f"):
                    await slow.subscribe(topic_filter, qos=1)
            await until(lambda: broker.subscribers["slow"].peer is None)
            for waiting in (2, 4) if overlap == "merged" else (3,):
                await p.publish("f", b"x", qos=1)
                assert (len(broker.subscribers["slow"].queue), broker.counts["dropped"]) == (waiting, 0)
            with pytest.raises(Refused):
                await p.publish("f", b"x", qos=1)
            assert len(broker.subscribers["slow"].queue) == waiting

    run(test())


def test_a_full_queue_disconnects_the_slow_client() -> None:
    """It does not read; the others do not notice."""

    async def test() -> None:
        policy = BrokerOptions(overflow="disconnect", queue_bytes=1 << 20)
        async with brokered(policy) as (broker, url), Client(url, "p") as p, Client(url, "good") as good:
            reader, writer = await asyncio.open_connection(HOST, int(url.rpartition(":")[2]), limit=1000)
            writer.write(mqtt.Connect(client_identifier="slow").encode())
            subscription = mqtt.Subscription("f")
            writer.write(mqtt.Subscribe(packet_identifier=1, subscriptions=[subscription]).encode())
            await reader.read(10)
            await until(lambda: "slow" in broker.subscribers and broker.subscribers["slow"].subscriptions)
            await good.subscribe("f")
            sent = 0
            while not broker.counts["slow"]:
                await p.publish("f", bytes(100_000), qos=1)
                sent += 1
                assert sent < 1000
            await until(lambda: len(good.received) == sent)
            await until(lambda: "slow" not in broker.subscribers)
            writer.transport.abort()

    run(test())
