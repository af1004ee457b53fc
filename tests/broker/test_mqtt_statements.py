"""Normative statements that concern a server, shown by the MQTT broker on sockets.

A statement is named as in tests/connection/test_mqtt_statements.py. The tables at the end name the test of each, here or in
another module, or say why the broker has nothing to show. The last tests check that none is missing.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from lib.loopback import HOST, until
from lib.mqtt_raw import EOF, Place, Raw, said, tried
from lib.paths import ROOT
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker, BrokerOptions, Message

STATEMENTS = {
    f"{version} {name}": who
    for version, name, who in (
        line.split() for line in (ROOT / "tests/data/mqtt/behaviour.txt").read_text().splitlines() if line[0] != "#"
    )
}
NAMED: dict[str, str] = {}
_Test = TypeVar("_Test", bound=Callable[..., None])


def shows(five: str = "", four: str = "") -> Callable[[_Test], _Test]:
    """The test shows these statements of 5.0 and of 3.1.1."""

    def note(test: _Test) -> _Test:
        for version, names in ((5, five), (4, four)):
            for name in names.split():
                assert f"{version} {name}" in STATEMENTS, name
                NAMED[f"{version} {name}"] = test.__name__
        return test

    return note


both = pytest.mark.parametrize("version", [4, 5])

LASTING: dict[int, dict[str, Any]] = {
    4: {"clean_start": False},
    5: {"clean_start": False, "properties": [("session_expiry_interval", 100)]},
}


def packet(kind: Any, version: int, identifier: int, **fields: Any) -> bytes:
    data: bytes = kind(packet_identifier=identifier, version=version, **fields).encode()
    return data


# ---- QoS


@both
@shows(
    "2.2.1-5 3.3.4-1 4.3.2-4 4.3.2-5 4.3.3-8 4.3.3-10 4.3.3-11 4.3.3-12",
    "2.3.1-6 3.3.4-1 4.3.2-2 4.3.3-2",
)
def test_answers_follow_the_qos(version: int) -> None:
    async def steps(place: Place) -> None:
        watcher = await place.connect("watcher", version=version)
        await watcher.subscribe("t", qos=0)
        client = await place.connect(version=version)
        client.publish("t", b"0")
        await client.none()
        for payload, dup in ((b"1", False), (b"2", False), (b"3", True)):  # the identifier is free again: new messages
            client.publish("t", payload, 1, packet_identifier=77, dup=dup)
            assert (await client.want(mqtt.Puback)).packet_identifier == 77
        for payload in (b"4", b"5"):
            for dup in (False, True):  # the second one is the same message
                client.publish("t", payload, 2, packet_identifier=77, dup=dup)
                assert (await client.want(mqtt.Pubrec)).packet_identifier == 77
            client.send(packet(mqtt.Pubrel, version, 77))
            assert (await client.want(mqtt.Pubcomp)).packet_identifier == 77
        got = [(await watcher.want(mqtt.Publish)).payload_bytes() for _ in range(6)]
        assert got == [b"0", b"1", b"2", b"3", b"4", b"5"]
        await watcher.none()

    tried(steps)


@both
@shows(
    "2.2.1-4 3.3.1-1 3.3.1-3 4.3.1-1 4.3.2-1 4.3.2-2 4.3.2-3 4.3.3-1 4.3.3-2 4.3.3-3 4.3.3-4 4.3.3-5 4.3.3-6 4.4.0-1",
    "2.3.1-4 3.3.1-1 3.3.1-3 4.3.1-1 4.3.2-1 4.3.3-1 4.4.0-1",
)
def test_what_is_sent_and_sent_again(version: int) -> None:
    """What is not acknowledged comes again in the next connection only, in its order, with DUP; PUBREL in place of PUBLISH."""

    async def steps(place: Place) -> None:
        client = await place.connect(version=version, **LASTING[version])
        await client.subscribe("t", qos=2)
        sender = await place.connect("sender", version=version)
        for number, qos in enumerate((0, 1, 2, 1, 2)):
            sender.publish("t", b"%d" % number, qos, dup=qos > 0)  # DUP of the publisher goes no further
            if qos:
                await sender.next()
            if qos == 2:
                sender.send(packet(mqtt.Pubrel, version, 7))
                await sender.want(mqtt.Pubcomp)
        messages = [await client.want(mqtt.Publish) for _ in range(5)]
        assert [(m.payload_bytes(), m.qos, m.dup) for m in messages] == [
            (b"%d" % number, qos, False) for number, qos in enumerate((0, 1, 2, 1, 2))
        ]
        identifiers = [m.packet_identifier for m in messages[1:]]
        assert len(set(identifiers)) == 4 and 0 not in identifiers
        client.send(packet(mqtt.Pubrec, version, identifiers[1]))
        assert (await client.want(mqtt.Pubrel)).packet_identifier == identifiers[1]
        client.send(packet(mqtt.Puback, version, identifiers[0]))
        await client.none()  # nothing again while the connection lasts
        client.close()
        again = await place.connect(version=version, **LASTING[version])
        found = [await again.next() for _ in range(3)]
        assert [type(p) for p in found] == [mqtt.Pubrel, mqtt.Publish, mqtt.Publish]
        assert [p.packet_identifier for p in found] == identifiers[1:]
        assert [p.dup for p in found[1:]] == [True, True]
        again.send(packet(mqtt.Pubcomp, version, identifiers[1]) + packet(mqtt.Puback, version, identifiers[2]))
        again.send(packet(mqtt.Pubrec, version, identifiers[3]))
        await again.want(mqtt.Pubrel)
        again.send(packet(mqtt.Pubcomp, version, identifiers[3]))
        await again.none()

    tried(steps)


@shows("4.3.3-9 4.4.0-2")
def test_codes_of_refusal_end_a_flow() -> None:
    """PUBREC of 0x80 and above: of ours, the identifier is new again; of the client, the message is done."""

    async def steps(place: Place) -> None:
        watcher = await place.connect("watcher", **LASTING[5])
        await watcher.subscribe("t", qos=2)
        for kind, qos in ((mqtt.Pubrec, 2), (mqtt.Puback, 1)):
            place.broker.publish(Message("t", b"y", qos))
            message = await watcher.want(mqtt.Publish)
            watcher.send(packet(kind, 5, message.packet_identifier, reason_code=0x80))
        await watcher.none()
        watcher.close()
        again = await place.connect("watcher", **LASTING[5])
        await again.none()
        client = await place.connect()
        client.publish("$SYS/x", b"", 2)
        assert (await client.want(mqtt.Pubrec)).reason_code == 0x87
        client.publish("t", b"x", 2)
        assert (await client.want(mqtt.Pubrec)).reason_code == 0
        assert (await again.want(mqtt.Publish)).payload_bytes() == b"x"

    tried(steps)


@shows("4.9.0-1 4.9.0-2 4.9.0-3 3.3.4-9 3.3.4-10")
def test_a_closed_window_delays_nothing_else() -> None:
    async def steps(place: Place) -> None:
        client = await place.connect(properties=[("receive_maximum", 1)])
        await client.subscribe("t", qos=1)
        for number in range(3):
            place.broker.publish(Message("t", b"%d" % number, 1))
        first = await client.want(mqtt.Publish)
        client.publish("u", b"", 1)
        await client.want(mqtt.Puback)
        await client.subscribe("v")
        await client.none()
        client.send(packet(mqtt.Puback, 5, first.packet_identifier))
        assert (await client.want(mqtt.Publish)).payload_bytes() == b"1"
        await client.none()

    tried(steps)


# ---- message expiry


@shows("3.3.2-5 3.3.2-6 4.3.3-7 4.3.3-13")
def test_time_goes_on_for_what_is_sent_again() -> None:
    """A message that comes again in the next connection has what is left of its interval. One of QoS 1 that has expired meanwhile
    does not come; one of QoS 2 does, since it has been sent."""

    async def steps(place: Place) -> None:
        client = await place.connect(**LASTING[5])
        await client.subscribe("t", qos=2)
        now = asyncio.get_running_loop().time()
        for name, qos, left in (("a", 1, 0.05), ("b", 2, 0.05), ("c", 1, 50.4), ("d", 2, 50.4), ("e", 1, None)):
            place.broker.publish(Message("t", name.encode(), qos, expires=None if left is None else now + left))
        sent = [await client.want(mqtt.Publish) for _ in range(5)]
        assert [said(message).get("message_expiry_interval") for message in sent] == [1, 1, 50, 50, None]
        client.close()
        await until(lambda: place.broker.subscribers["c"].peer is None)
        subscriber = place.broker.subscribers["c"]
        subscriber.expiring = {delivery: when - 20 for delivery, when in subscriber.expiring.items()}  # 20 s later
        again = await place.connect(**LASTING[5])
        got = [await again.want(mqtt.Publish) for _ in range(4)]
        assert [(m.payload_bytes(), said(m).get("message_expiry_interval"), m.dup) for m in got] == [
            (b"b", 1, True),
            (b"c", 30, True),
            (b"d", 30, True),
            (b"e", None, True),
        ]
        assert [m.packet_identifier for m in got] == [m.packet_identifier for m in sent[1:]]
        for message in got:
            kind = mqtt.Puback if message.qos == 1 else mqtt.Pubrec
            again.send(packet(kind, 5, message.packet_identifier))
        for message in (got[0], got[2]):
            assert (await again.want(mqtt.Pubrel)).packet_identifier == message.packet_identifier
            again.send(packet(mqtt.Pubcomp, 5, message.packet_identifier))
        await again.none()
        assert not subscriber.expiring
        assert not subscriber.session.outgoing

    tried(steps)


def test_a_shared_message_that_is_sent_again_is_still_one_of_its_share() -> None:
    async def steps(place: Place) -> None:
        client = await place.connect(**LASTING[5])
        await client.subscribe("$share/g/t", qos=1)
        place.broker.publish(Message("t", b"x", 1, expires=asyncio.get_running_loop().time() + 50))
        await client.want(mqtt.Publish)
        client.close()
        await until(lambda: place.broker.subscribers["c"].peer is None)
        again = await place.connect(**LASTING[5])
        await again.want(mqtt.Publish)
        other = await place.connect("other")
        await other.subscribe("$share/g/t", qos=1)
        again.send(mqtt.Disconnect(properties=[("session_expiry_interval", 0)]))
        assert (await other.want(mqtt.Publish)).payload_bytes() == b"x"

    tried(steps)


@shows("3.3.2-6")
def test_time_goes_on_while_pubrel_is_awaited() -> None:
    async def steps(place: Place) -> None:
        watcher = await place.connect("watcher")
        await watcher.subscribe("t", qos=0)
        client = await place.connect()
        client.publish("t", b"x", 2, properties=[("message_expiry_interval", 100)])
        await client.want(mqtt.Pubrec)
        held = place.broker.subscribers["c"].held
        held[7] -= 40
        client.send(packet(mqtt.Pubrel, 5, 7))
        assert said(await watcher.want(mqtt.Publish))["message_expiry_interval"] in (59, 60)
        assert not held

    tried(steps, limits=mqtt.ConnectionOptions(qos2_event="release"))


def test_a_retained_message_and_a_will_have_what_is_left() -> None:
    """3.3.2.3.3 and 3.1.3.2.4: the time of a will begins when it is published."""

    async def steps(place: Place) -> None:
        will = mqtt.Will(topic="w", payload=b"x", retain=True, properties=[("message_expiry_interval", 100)])
        client = await place.connect(will=will)
        client.writer.transport.abort()
        await until(lambda: place.broker.retained.get("w"))
        message = place.broker.retained.get("w")
        assert message is not None and message.expires is not None
        assert 99 < message.expires - asyncio.get_running_loop().time() <= 100
        message.expires -= 40
        other = await place.connect("other")
        await other.subscribe("w")
        assert said(await other.want(mqtt.Publish))["message_expiry_interval"] in (59, 60)

    tried(steps)


# ---- subscriptions


@both
@shows(
    "2.2.1-6 3.8.4-1 3.8.4-2 3.8.4-5 3.8.4-6 3.8.4-7 3.9.3-1 3.10.4-1 3.10.4-2 3.10.4-4 3.10.4-5 3.10.4-6 3.11.3-1 3.12.4-1 "
    "4.7.3-4 3.3.2-3",
    "2.3.1-7 3.8.4-1 3.8.4-2 3.8.4-4 3.8.4-5 3.9.3-1 3.10.4-1 3.10.4-2 3.10.4-4 3.10.4-5 3.10.4-6 3.12.4-1 4.7.3-4 3.3.2-3",
)
def test_requests_and_filters(version: int) -> None:
    """Each request has one answer with its identifier. Names are compared as they are: case, empty levels, composed letters."""
    names = ["a", "A", "a/", "/a", "a//b", "a/ b", "\u00e9", "e\u0301"]

    async def steps(place: Place) -> None:
        client = await place.connect(version=version)
        for identifier, topic_filter in enumerate(names, 1000):
            asked = [mqtt.Subscription(topic_filter, qos=identifier % 3), mqtt.Subscription("other", qos=2)]
            client.send(packet(mqtt.Subscribe, version, identifier, subscriptions=asked))
            answer = await client.want(mqtt.Suback)
            assert (answer.packet_identifier, answer.reason_codes) == (identifier, (identifier % 3, 2))
        for topic in names:
            place.broker.publish(Message(topic, b"x"))
            assert (await client.want(mqtt.Publish)).topic_name == topic
            await client.none()
        place.broker.publish(Message("b", b"x"))
        for identifier, topic_filter in enumerate(names, 2000):
            client.send(packet(mqtt.Unsubscribe, version, identifier, topic_filters=[topic_filter, "never", "other"]))
            answer = await client.want(mqtt.Unsuback)
            assert answer.packet_identifier == identifier
            if version == 5:
                assert answer.reason_codes == (0, 0x11, 0 if identifier == 2000 else 0x11)
            place.broker.publish(Message(topic_filter, b"x"))
            place.broker.publish(Message("other", b"x"))
            await client.none()

    tried(steps)


@both
@shows("3.10.4-3", "3.10.4-3")
def test_what_has_been_begun_is_finished_after_unsubscribe(version: int) -> None:
    async def steps(place: Place) -> None:
        client = await place.connect(version=version, **LASTING[version])
        await client.subscribe("t", qos=2)
        for qos in (1, 2):
            place.broker.publish(Message("t", b"x", qos))
        one, two = await client.want(mqtt.Publish), await client.want(mqtt.Publish)
        client.send(packet(mqtt.Unsubscribe, version, 1, topic_filters=["t"]))
        await client.want(mqtt.Unsuback)
        client.close()
        again = await place.connect(version=version, **LASTING[version])
        found = [await again.want(mqtt.Publish), await again.want(mqtt.Publish)]
        assert [m.packet_identifier for m in found] == [one.packet_identifier, two.packet_identifier]
        again.send(packet(mqtt.Pubrec, version, two.packet_identifier))
        await again.want(mqtt.Pubrel)

    tried(steps)


@shows("3.8.4-3 3.8.4-4 3.8.4-8 4.5.0-1")
def test_a_subscription_is_replaced() -> None:
    """Its QoS is the new one, the retained message comes again, and no message that waits is lost."""

    async def steps(place: Place) -> None:
        place.broker.publish(Message("t", b"retained", 2, retain=True))
        client = await place.connect(properties=[("receive_maximum", 1)])
        await client.subscribe("t", qos=1)
        message = await client.want(mqtt.Publish)
        for number in range(3):
            place.broker.publish(Message("t", b"%d" % number, 1))
        client.send(packet(mqtt.Subscribe, 5, 5, subscriptions=[mqtt.Subscription("t", qos=0)]))
        await client.want(mqtt.Suback)
        got = []
        for _ in range(4):
            if message.qos:
                client.send(packet(mqtt.Puback, 5, message.packet_identifier))
            message = await client.want(mqtt.Publish)
            got.append((message.payload_bytes(), message.qos))
        assert got == [(b"0", 1), (b"1", 1), (b"2", 1), (b"retained", 0)]
        place.broker.publish(Message("t", b"new", 2))
        assert (await client.want(mqtt.Publish)).qos == 0

    tried(steps)


@shows(four="3.8.4-3 3.8.4-6")
def test_a_subscription_of_3_1_1_is_replaced() -> None:
    async def steps(place: Place) -> None:
        place.broker.publish(Message("t", b"retained", 2, retain=True))
        client = await place.connect(version=4)
        for qos in (1, 0):
            await client.subscribe("t", qos=qos)
            assert (await client.want(mqtt.Publish)).qos == qos
            place.broker.publish(Message("t", b"new", 2))
            assert (await client.want(mqtt.Publish)).qos == qos
            await client.none()

    tried(steps)


@shows("3.8.3-3")
def test_no_local_is_for_retained_messages_too() -> None:
    async def steps(place: Place) -> None:
        client = await place.connect()
        client.publish("t", b"own", 1, retain=True)
        await client.want(mqtt.Puback)
        await client.subscribe(mqtt.Subscription("t", no_local=True))
        await client.none()
        other = await place.connect("other")
        await other.subscribe(mqtt.Subscription("t", no_local=True))
        assert (await other.want(mqtt.Publish)).payload_bytes() == b"own"

    tried(steps)


# ---- CONNECT and sessions of 3.1.1


@shows(
    four="3.1.2-4 3.1.2-5 3.1.2-6 3.1.2-7 3.1.3-2 3.1.4-2 3.1.4-3 3.1.4-4 3.2.2-1 3.2.2-2 3.2.2-3 4.1.0-1 4.1.0-2 4.5.0-1"
)
def test_sessions_of_3_1_1() -> None:
    async def steps(place: Place) -> None:
        first = await place.connect(version=4, clean_start=False)
        assert first.connack.session_present is False  # type: ignore[attr-defined]
        await first.subscribe("t", qos=1)
        first.publish("kept", b"x", 0, retain=True)
        first.send(b"\xe0\0")
        await first.end()
        for number, qos in enumerate((0, 1, 2)):
            place.broker.publish(Message("t", b"%d" % number, qos))
        second = await place.connect(version=4, clean_start=False)
        assert second.connack.session_present is True  # type: ignore[attr-defined]
        for payload in (b"1", b"2"):
            message = await second.want(mqtt.Publish)
            assert message.payload_bytes() == payload
            second.send(packet(mqtt.Puback, 4, message.packet_identifier))
        third = await place.connect(version=4, clean_start=False)  # the other one is disconnected
        assert third.connack.session_present is True  # type: ignore[attr-defined]
        await second.end()
        await third.none()
        fourth = await place.connect(version=4, clean_start=True)
        assert fourth.connack.session_present is False  # type: ignore[attr-defined]
        await third.end()
        place.broker.publish(Message("t", b"x", 1))
        await fourth.none()
        fourth.send(b"\xe0\0")
        await fourth.end()
        fifth = await place.connect(version=4, clean_start=False)
        assert fifth.connack.session_present is False  # type: ignore[attr-defined]
        await fifth.subscribe("kept")
        assert (await fifth.want(mqtt.Publish)).retain is True

    tried(steps)


@pytest.mark.parametrize("how", ["lose", "fault", "takeover", "DISCONNECT"])
@pytest.mark.parametrize("retain", [False, True])
@shows(four="3.1.2-8 3.1.2-10 3.1.2-12 3.1.2-16 3.1.2-17 3.14.4-3")
def test_wills_of_3_1_1(how: str, retain: bool) -> None:
    async def steps(place: Place) -> None:
        watcher = await place.connect("watcher", version=4)
        await watcher.subscribe("w", qos=1)
        will = mqtt.Will(topic="w", payload=b"x", qos=1, retain=retain)
        for number, each in enumerate((will, None)):
            client = await place.connect(f"c{number}", version=4, will=each)
            if how == "takeover":
                await place.connect(f"c{number}", version=4)
            elif how == "lose":
                client.writer.transport.abort()
            else:
                client.send(b"\xe0\0" if how == "DISCONNECT" else b"\xc1\0")
        await until(lambda: how == "takeover" or set(place.broker.subscribers) == {"watcher"})
        if how != "DISCONNECT":
            message = await watcher.want(mqtt.Publish)
            assert (message.payload_bytes(), message.qos) == (b"x", 1)
        await watcher.none()
        assert len(place.broker.retained) == (retain and how != "DISCONNECT")

    tried(steps)


@shows("3.1.2-7 3.1.2-14")
def test_a_will_without_retain_is_not_retained() -> None:
    async def steps(place: Place) -> None:
        watcher = await place.connect("watcher")
        await watcher.subscribe(mqtt.Subscription("w", retain_as_published=True))
        client = await place.connect(will=mqtt.Will(topic="w", payload=b"x"))
        client.writer.transport.abort()
        assert (await watcher.want(mqtt.Publish)).retain is False
        assert len(place.broker.retained) == 0

    tried(steps)


@shows(four="3.3.1-5 3.3.1-6 3.3.1-7 3.3.1-8 3.3.1-9 3.3.1-10 3.3.1-11 3.3.1-12")
def test_retained_messages_of_3_1_1() -> None:
    async def steps(place: Place) -> None:
        sender = await place.connect("sender", version=4)
        for topic, payload, qos, retain in (
            ("a", b"old", 1, True),
            ("a", b"kept", 1, True),
            ("a", b"not kept", 1, False),
            ("b", b"kept", 1, True),
            ("b", b"QoS 0", 0, True),
        ):
            sender.publish(topic, payload, qos, retain=retain)
            if qos:
                await sender.want(mqtt.Puback)
        await sender.none()
        client = await place.connect(version=4)
        await client.subscribe("a", "b", qos=1)
        got = [await client.want(mqtt.Publish) for _ in range(2)]
        assert {(m.topic_name, m.payload_bytes(), m.qos, m.retain) for m in got} == {
            ("a", b"kept", 1, True),
            ("b", b"QoS 0", 0, True),
        }
        sender.publish("a", b"", 0, retain=True)
        message = await client.want(mqtt.Publish)
        assert (message.payload_bytes(), message.retain) == (b"", False)
        assert [topic for topic, _ in place.broker.retained.match("#")] == ["b"]

    tried(steps)


@both
@shows(
    "3.1.4-2 3.1.4-6 3.2.0-1 3.2.0-2 3.2.2-6 3.2.2-7 3.1.3-8 4.12.0-4 4.13.2-1",
    "3.1.3-9 3.1.4-5 3.2.0-1 3.2.2-4 3.2.2-5",
)
def test_what_follows_a_refused_connect_is_not_read(version: int) -> None:
    async def steps(place: Place) -> None:
        watcher = await place.connect("watcher")
        await watcher.subscribe("t")
        client = await place.open(version)
        client.send(mqtt.Connect(client_identifier="bad", version=version).encode())
        client.publish("t", b"x")
        answer = await client.want(mqtt.Connack)
        assert (answer.reason_code, answer.session_present) == (0x85 if version == 5 else 2, False)
        assert await client.next() == EOF
        await watcher.none()

    def authenticate(connect: mqtt.Connect, peer: Any) -> int:
        return 0x85 if connect.client_identifier == "bad" else 0

    tried(steps, options=BrokerOptions(authenticate=authenticate))


@both
@shows("3.1.4-5 3.1.3-5 3.1.3-6 3.1.3-7 4.12.0-6", "3.1.3-5 3.1.3-6 3.1.4-4")
def test_identifiers(version: int) -> None:
    async def steps(place: Place) -> None:
        letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        for identifier in (letters[:23], letters[23:46], letters[46:], "a"):
            await (await place.connect(identifier, version=version)).none()
        first, second = [await place.connect("", version=version) for _ in range(2)]
        await first.none()
        await second.none()
        assert len(place.broker.subscribers) == 6
        if version == 5:
            name = said(first.connack)["assigned_client_identifier"]  # type: ignore[attr-defined]
            assert name in place.broker.subscribers

    tried(steps)


@shows(four="3.1.2-24")
def test_keep_alive_of_3_1_1() -> None:
    async def steps(place: Place) -> None:
        client = await place.connect(version=4, keep_alive=1)
        before = asyncio.get_running_loop().time()
        assert await client.next() == EOF
        assert asyncio.get_running_loop().time() - before > 1.4

    tried(steps)


@shows(four="3.3.5-1 4.6.0-5 4.6.0-6 4.7.2-1")
def test_overlap_order_and_dollar_topics_of_3_1_1() -> None:
    async def steps(place: Place) -> None:
        client = await place.connect(version=4)
        await client.subscribe("o/#", qos=1)
        await client.subscribe("o/+", "#", qos=0)
        sender = await place.connect("sender", version=4)
        for number in range(20):
            sender.publish("o/x", b"%d" % number, 1, packet_identifier=number + 1)
        sender.publish("$o/x", b"x")
        for number in range(20):
            message = await client.want(mqtt.Publish)
            assert (message.payload_bytes(), message.qos) == (b"%d" % number, 1)
        await client.none()

    tried(steps)


@shows(four="3.3.5-2")
def test_a_publish_that_is_not_allowed_is_acknowledged_before_5_0() -> None:
    async def steps(place: Place) -> None:
        client = await place.connect(version=4)
        client.publish("$SYS/x", b"", 1)
        await client.want(mqtt.Puback)
        client.publish("$SYS/x", b"", 2)
        await client.want(mqtt.Pubrec)
        client.send(packet(mqtt.Pubrel, 4, 7))
        await client.want(mqtt.Pubcomp)

    tried(steps)


# ---- the end of a connection


@shows("3.14.4-1 3.14.4-2 4.13.1-1 3.14.0-1")
def test_nothing_follows_disconnect() -> None:
    """Answers to what came before a fault leave before it; what is published afterwards does not come."""

    async def steps(place: Place) -> None:
        client = await place.connect(**LASTING[5])
        await client.subscribe("t", qos=1)
        client.publish("u", b"", 1, packet_identifier=3)
        client.send(b"\xc0\0\xc1\0")
        client.publish("t", b"x", 1)
        assert (await client.want(mqtt.Puback)).packet_identifier == 3
        await client.want(mqtt.Pingresp)
        await client.end(0x81)
        assert not place.broker.subscribers["c"].queue
        silent = await place.open()
        silent.send(b"\xe0\0")
        assert await silent.next() == EOF

    tried(steps)


# ---- WebSocket


def frame(data: bytes, opcode: int = 2, fin: bool = True) -> bytes:
    """A frame of a client, masked (RFC 6455, 5.2)."""
    size = bytes((0x80 | len(data),)) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2)
    mask = b"\1\2\3\4"
    return bytes((fin << 7 | opcode,)) + size + mask + bytes(octet ^ mask[at % 4] for at, octet in enumerate(data))


class Socket(Raw):
    """A WebSocket client."""

    async def shake(self, subprotocols: str = "mqtt") -> str:
        """The server's answer."""
        self.writer.write(
            b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            + (f"Sec-WebSocket-Protocol: {subprotocols}\r\n" if subprotocols else "").encode()
            + b"\r\n"
        )
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    async def frame(self) -> tuple[int, bytes]:
        """Opcode and data of the next frame; every one is a final one."""
        first, size = await self.reader.readexactly(2)
        assert first & 0x80 and size < 126
        return first & 15, await self.reader.readexactly(size)


async def over_websocket(steps: Callable[[Socket, Broker], Any]) -> None:
    broker = Broker()
    async with await mqtt.serve(broker, HOST, 0, websocket=True) as server:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        async with asyncio.timeout(20):
            await steps(Socket(reader, writer, 5), broker)
        writer.close()
    broker.close()


def websocket(steps: Callable[[Socket, Broker], Any]) -> None:
    asyncio.run(over_websocket(steps))


WILL = mqtt.Connect(client_identifier="c", will=mqtt.Will(topic="w", payload=b"x", retain=True)).encode()


@shows("6.0.0-2 6.0.0-3 6.0.0-4", "6.0.0-2 6.0.0-3 6.0.0-4")
def test_packets_in_frames_of_any_size() -> None:
    """The subprotocol is "mqtt", also among others. Frames have parts of packets, and several packets; fragments, too."""

    async def steps(client: Socket, broker: Broker) -> None:
        answer = (await client.shake("chat, mqtt")).lower()
        assert answer.startswith("http/1.1 101") and "sec-websocket-protocol: mqtt\r\n" in answer
        data = WILL + b"\xc0\0" * 3
        for at in range(len(WILL) - 1):
            client.writer.write(frame(data[at : at + 1], 2 if at == 0 else 0, fin=False))
        client.writer.write(frame(data[len(WILL) - 1 :], 0))
        said = b""
        while not said.endswith(b"\xd0\0" * 3):
            opcode, more = await client.frame()
            assert opcode == 2
            said += more
        client.writer.write(frame(b"hi", 9))
        assert await client.frame() == (10, b"hi")

    websocket(steps)


@pytest.mark.parametrize(
    ("data", "published"),
    [
        (frame(b"hi", 1), True),
        (frame(b"\xe0\0"), False),
        (frame(b"\x03\xe8", 8), True),
        (frame(b"\xe0\0") + frame(b"\x03\xe8", 8), False),
        (frame(b"\xc1\0"), True),
        (b"", True),
    ],
    ids=["text", "DISCONNECT", "close", "DISCONNECT and close", "a fault", "EOF"],
)
@shows("6.0.0-1", "6.0.0-1")
def test_the_end_over_websocket(data: bytes, published: bool) -> None:
    """A frame of text is a fault. The server closes the WebSocket and the stream, and the will is published unless DISCONNECT has
    come (RFC 6455, 7.1)."""

    async def steps(client: Socket, broker: Broker) -> None:
        await client.shake()
        client.writer.write(frame(WILL))
        await client.frame()
        client.writer.write(data)
        if not data:
            client.writer.write_eof()
        closed = False
        try:
            while True:
                opcode, _ = await client.frame()
                if opcode == 8:
                    closed = True
                    if data:
                        client.writer.write(frame(b"\x03\xe8", 8))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        assert closed
        await until(lambda: not broker.subscribers)
        assert bool(len(broker.retained)) is published

    websocket(steps)


# ---- all of them

#: Tests of other modules here, and the statements of 5.0 and of 3.1.1 that they show.
ELSEWHERE: dict[str, tuple[str, str]] = {
    "test_mqtt_conformance.py::test_a_fault_ends_the_connection_with_its_code": ("3.1.0-2", ""),
    "test_mqtt_conformance.py::test_before_5_0_a_fault_ends_the_connection_without_a_word": (
        "",
        "3.1.0-2 2.2.2-2 4.8.0-1",
    ),
    "test_mqtt_conformance.py::test_a_connect_that_is_refused": (
        "3.1.0-1 3.1.2-1 3.1.2-2 3.1.4-1 4.12.0-1",
        "3.1.0-1 3.1.2-1 3.1.2-2",
    ),
    "test_mqtt_conformance.py::test_a_connect_of_3_1_1_that_is_refused": ("", "3.1.3-8 3.1.4-1 3.2.2-6"),
    "test_mqtt_conformance.py::test_what_connack_says": ("3.1.2-28 3.2.2-16", ""),
    "test_mqtt_conformance.py::test_server_keep_alive_is_announced_and_kept": ("3.1.2-22", ""),
    "test_mqtt_conformance.py::test_maximum_packet_size": ("3.1.2-24 3.1.2-25", ""),
    "test_mqtt_conformance.py::test_topic_aliases_of_a_client": ("3.1.4-3 3.3.2-7 3.3.2-12", ""),
    "test_mqtt_conformance.py::test_topic_aliases_of_the_server": ("3.1.2-26 3.1.2-27 3.3.2-11", ""),
    "test_mqtt_conformance.py::test_properties_are_passed_on": (
        "3.3.2-4 3.3.2-15 3.3.2-16 3.3.2-17 3.3.2-18 3.3.2-20 3.3.4-3",
        "",
    ),
    "test_mqtt_conformance.py::test_retained_messages": (
        "3.3.1-5 3.3.1-6 3.3.1-7 3.3.1-8 3.3.1-10 3.3.1-11 3.3.1-12 3.3.1-13",
        "",
    ),
    "test_mqtt_retained.py::test_all_come": ("3.3.1-9", ""),
    "test_mqtt_conformance.py::test_no_local_and_topics_of_the_server": ("4.7.2-1", ""),
    "test_mqtt_conformance.py::test_overlapping_subscriptions": ("3.3.4-2 3.3.4-4 3.3.4-5", ""),
    "test_mqtt_conformance.py::test_sessions": (
        "3.1.2-4 3.1.2-5 3.1.2-6 3.1.2-23 3.1.3-2 3.1.4-4 3.2.2-2 3.2.2-3 4.1.0-1",
        "",
    ),
    "test_mqtt.py::test_a_session_ends_with_its_connection_or_after_its_time": ("4.1.0-2", ""),
    "test_mqtt_conformance.py::test_wills": ("3.1.2-8 3.1.2-10 3.1.2-15 3.1.3-9 3.1.3-10 3.14.4-3", ""),
    "test_mqtt_conformance.py::test_maximum_qos_of_the_server": ("3.2.2-9 3.2.2-10 3.2.2-12", ""),
    "test_mqtt_limits.py::test_a_broker_that_does_not_retain": ("3.2.2-13", ""),
    "test_mqtt_conformance.py::test_order_of_messages_and_acknowledgements": ("4.6.0-5 4.6.0-6", ""),
    "test_mqtt_shared.py::test_of_all_versions": ("4.8.2-3", ""),
    "test_mqtt_shared.py::test_qos_2_is_completed_with_the_member_that_has_it": ("4.8.2-4", ""),
    "test_mqtt_shared.py::test_qos_2_that_has_been_sent_goes_to_nobody_else": ("4.8.2-5", ""),
    "test_mqtt_shared.py::test_a_refused_message_goes_to_nobody_else": ("4.8.2-6", ""),
}

#: Statements of 5.0 and of 3.1.1 about something that the broker does not have, and why.
NOTHING: dict[str, tuple[str, str]] = {
    "the broker's answers have no Reason String and no User Property": (
        "3.1.2-29 3.2.2-19 3.2.2-20 3.4.2-2 3.4.2-3 3.5.2-2 3.5.2-3 3.6.2-2 3.6.2-3 3.7.2-2 3.7.2-3 3.9.2-1 3.9.2-2 3.11.2-1 "
        "3.11.2-2 3.14.2-3 3.14.2-4 3.15.2-2 3.15.2-3",
        "",
    ),
    "every Authentication Method is refused, so there is no AUTH": ("4.12.0-2 4.12.0-5 4.12.1-2", ""),
    "without maximum_keep_alive the client's holds, as 3.1.2-22 shows": ("3.2.2-22", ""),
    "wildcards are always there": ("", "3.8.3-2"),
    "TCP, TLS and WebSocket are such transports": ("4.2-1", "7.1.1-2 7.1.2-2"),
    "they are about implementations as a whole": ("", "7.0.0-1 7.0.0-2 7.1.1-1 7.1.2-1"),
    "a handler that raises drops the connection: tests/connection/test_aio.py": ("", "4.8.0-2"),
}


def test_no_statement_is_missing() -> None:
    named = dict(NAMED)
    for table in (ELSEWHERE, NOTHING):
        for where, names in table.items():
            for version, listed in zip((5, 4), names, strict=True):
                for name in listed.split():
                    assert f"{version} {name}" in STATEMENTS, name
                    assert f"{version} {name}" not in named, (
                        f"{version} {name}: {where} and {named[f'{version} {name}']}"
                    )
                    named[f"{version} {name}"] = where
    of_servers = {name for name, who in STATEMENTS.items() if who != "client"}
    assert not of_servers - set(named), sorted(of_servers - set(named))
    assert not set(named) - of_servers, sorted(set(named) - of_servers)


def test_the_tests_are_there() -> None:
    folder = Path(__file__).parent
    for where in ELSEWHERE:
        file, _, test = where.partition("::")
        tree = ast.parse((folder / file).read_text())
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, where
