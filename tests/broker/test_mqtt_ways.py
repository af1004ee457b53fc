"""Where messages of MQTT go that go on as they are: what is kept of it follows every change of subscriptions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.loopback import run
from lib.mqtt_served import Client, brokered
from wirefmt import mqtt
from wirefmt.broker.mqtt import Subscription
from wirefmt.broker.mqtt.options import BrokerOptions
from wirefmt.broker.mqtt.subscriptions import WAY_SUBSCRIBERS, WAY_TOPIC, WAYS, Index
from wirefmt.broker.topics import Sharing
from wirefmt.errors import Refused
from wirefmt.mqtt.codes import ReasonCode

TOPICS = ("a", "a/b", "b", "b/b", "c/d/e")
FILTERS = ("a", "a/b", "a/#", "+/b", "#", "b", "c/+/e")


def made(name: int, topic_filter: str, qos: int, **more: Any) -> Subscription:
    subscriber: Any = f"client {name}"
    return Subscription(subscriber, mqtt.Subscription(topic_filter, qos=qos, **more), qos, None)


Step = tuple[str, int, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("add", "add own", "add shared", "discard", "look")),
        st.integers(0, 3),
        st.sampled_from(FILTERS),
        st.integers(0, 2),
    ),
    max_size=30,
)


@given(STEPS)
def test_a_way_is_what_the_subscriptions_of_now_say(steps: list[Step]) -> None:
    index = Index()
    there: dict[tuple[int, str], Any] = {}
    for kind, name, topic_filter, qos in steps:
        before = there.pop((name, topic_filter), None) if kind != "look" else None
        if before is not None:
            index.discard(topic_filter, before)
        if kind.startswith("add"):
            target: Any = (
                Sharing(3) if kind == "add shared" else made(name, topic_filter, qos, no_local=kind == "add own")
            )
            there[name, topic_filter] = target
            index.add(topic_filter, target)
        for topic in TOPICS:
            found = [target for (_, wanted), target in there.items() if mqtt.matches(wanted, topic)]
            plain = all(isinstance(target, Subscription) and target.plain for target in found)
            expected = {target.subscriber: target.qos for target in found} if plain else None
            if expected is not None and len(expected) < len(found):
                expected = None  # a client with two
            assert index.plain_way(topic) == expected
            assert sorted(map(id, index.match(topic))) == sorted(map(id, found))


def test_a_client_with_two_subscriptions_has_no_plain_way() -> None:
    index = Index()
    one = made(1, "a", 0)
    other = Subscription(one.subscriber, mqtt.Subscription("#", qos=1), 1, None)
    index.add("a", one)
    assert index.plain_way("a") == {one.subscriber: 0}
    index.add("#", other)
    assert index.plain_way("a") is None
    assert index.plain_way("b") == {one.subscriber: 1}


def test_what_is_kept_is_bounded() -> None:
    index = Index()
    for number in range(3 * WAYS):
        assert index.plain_way(f"t/{number}") == {}
        assert len(index._ways) <= WAYS
    index.plain_way("x" * (WAY_TOPIC + 1))
    for number in range(WAY_SUBSCRIBERS + 1):
        index.add("many", made(number, "many", 0))
    way = index.plain_way("many")
    assert way is not None
    assert len(way) == WAY_SUBSCRIBERS + 1
    assert not any(len(topic) > WAY_TOPIC or topic == "many" for topic in index._ways)


def test_messages_of_a_run_follow_subscriptions_that_change_between_them() -> None:
    """Messages that are published in one write, before and after subscriptions change; each of QoS 0 and 1."""

    async def test() -> None:
        async with brokered() as (_, url), Client(url, "p") as publisher, Client(url, "s") as subscriber:

            async def send(number: int) -> None:
                for qos in (0, 1):
                    await publisher.publish("t/x", b"%d" % number, qos=qos)

            await send(0)  # for nobody
            await subscriber.subscribe("t/x", qos=1)
            await send(1)
            await subscriber.subscribe("t/x", qos=0)
            await send(2)
            await subscriber.subscribe("t/#", qos=1)
            await send(3)
            await subscriber.unsubscribe("t/x")
            await send(4)
            await subscriber.unsubscribe("t/#")
            await send(5)
            found = [(payload, qos) for _, payload, qos, _ in await subscriber.got(8)]
            assert found == [
                (b"1", 0), (b"1", 1), (b"2", 0), (b"2", 0), (b"3", 0), (b"3", 1), (b"4", 0), (b"4", 1)
            ]  # fmt: skip

    run(test())


def test_the_answer_says_that_nobody_has_subscribed() -> None:
    """5.0, 3.4.2.1."""

    async def test() -> None:
        async with brokered() as (_, url), Client(url, "p") as publisher, Client(url, "s") as subscriber:
            for wanted in (ReasonCode.NO_MATCHING_SUBSCRIBERS, ReasonCode.SUCCESS, ReasonCode.NO_MATCHING_SUBSCRIBERS):
                assert await publisher.publish("t", b"", qos=1) == wanted
                if wanted is ReasonCode.NO_MATCHING_SUBSCRIBERS:
                    await subscriber.subscribe("t", qos=1)
                else:
                    await subscriber.unsubscribe("t")

    run(test())


def test_options_that_are_replaced_hold_for_topics_that_are_known() -> None:
    async def test() -> None:
        async with brokered() as (broker, url), Client(url, "p") as publisher, Client(url, "s") as subscriber:
            await subscriber.subscribe("a/b", qos=1)
            await publisher.publish("a/b", b"1", qos=1)
            broker.options = BrokerOptions(authorise=lambda client, deed, topic: 0x87 if deed == "publish" else 0)
            with pytest.raises(Refused):
                await publisher.publish("a/b", b"2", qos=1)
            broker.options = BrokerOptions(topic_levels=1)
            with pytest.raises(Refused):
                await publisher.publish("a/b", b"3", qos=1)
            broker.options = BrokerOptions()
            await publisher.publish("a/b", b"4", qos=1)
            assert [payload for _, payload, _, _ in await subscriber.got(2)] == [b"1", b"4"]

    run(test())
