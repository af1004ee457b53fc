"""The MQTT broker as a conformance suite sees it: raw bytes in, packets out, one connection for each case.

Numbers are those of the normative statements of MQTT 5.0 and 3.1.1. What is expected is what they say.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lib.kinds import checked
from lib.mqtt_raw import EOF, LONG, Place, said, tried
from wirefmt import mqtt
from wirefmt.broker.mqtt import BrokerOptions

# ---- packets that break a rule, after CONNECT

PUBLISH = bytes.fromhex("30 07 0003 612f62 00 78")

FAULTS_5: list[tuple[str, str, int | None]] = [
    ("3.1.0-2 a second CONNECT", "100d 0004 4d515454 05 02 003c 00 0000", 0x82),
    ("2.1.3-1 reserved flags of SUBSCRIBE", "80 07 0001 00 0001 61 00", 0x81),
    ("2.1.3-1 reserved flags of UNSUBSCRIBE", "a0 06 0001 00 0001 61", 0x81),
    ("2.1.3-1 reserved flags of PUBREL", "60 02 0001", 0x81),
    ("2.1.3-1 reserved flags of PINGREQ", "c1 00", 0x81),
    ("2.1.3-1 reserved flags of DISCONNECT", "e1 00", 0x81),
    ("packet type 0", "00 00", 0x81),
    ("1.5.5-1 a Remaining Length of five bytes", "30 8080808001", None),
    ("3.3.1-4 QoS 3", "36 08 0003 612f62 0001 00", 0x81),
    ("3.3.1-2 DUP with QoS 0", "38 06 0003 612f62 00", 0x81),
    ("2.2.1-3 PUBLISH with packet identifier 0", "32 08 0003 612f62 0000 00", 0x82),
    ("2.2.1-3 SUBSCRIBE with packet identifier 0", "82 07 0000 00 0001 61 00", 0x82),
    ("2.2.1-3 UNSUBSCRIBE with packet identifier 0", "a2 06 0000 00 0001 61", 0x82),
    ("3.3.2-2 a wildcard in a topic name", "30 06 0003 612f23 00", 0x81),
    ("3.3.2-2 a plus in a topic name", "30 06 0003 612f2b 00", 0x81),
    ("3.3.2-1 an empty topic name without an alias", "30 03 0000 00", 0x82),
    ("3.3.2-8 topic alias 0", "30 09 0003 612f62 03 23 0000", 0x94),
    ("3.3.2-9 a topic alias above our maximum", "30 09 0003 612f62 03 23 0001", 0x94),
    ("3.3.4-6 a subscription identifier of a client", "30 08 0003 612f62 02 0b 01", 0x82),
    ("1.5.4-2 U+0000 in a topic name", "30 06 0003 610062 00", 0x81),
    ("1.5.4-1 a surrogate in a topic name", "30 06 0003 eda080 00", 0x81),
    ("1.5.4-1 a topic name that is not UTF-8", "30 05 0002 61ff 00", 0x81),
    ("2.2.2-2 a property twice in PUBLISH", "30 0a 0003 612f62 04 01 00 01 00", 0x82),
    ("3.3.2-14 a wildcard in the response topic", "30 0a 0003 612f62 04 08 0001 23", 0x82),
    ("a property that PUBLISH does not have", "30 0b 0003 612f62 05 11 00000001", 0x81),
    ("an unknown property", "30 08 0003 612f62 02 7e 00", 0x81),
    ("a property length beyond the packet", "30 07 0003 612f62 05 01", 0x81),
    ("3.8.3-2 SUBSCRIBE without a filter", "82 03 0001 00", 0x82),
    ("3.10.3-2 UNSUBSCRIBE without a filter", "a2 03 0001 00", 0x82),
    ("3.8.3-5 reserved bits of the options", "82 07 0001 00 0001 61 40", 0x81),
    ("3.8.3.1 QoS 3 of a subscription", "82 07 0001 00 0001 61 03", 0x82),
    ("3.8.3.1 retain handling 3", "82 07 0001 00 0001 61 30", 0x82),
    ("4.7.1-1 # that is not last", "82 09 0001 00 0003 612362 00", 0x81),
    ("4.7.1-1 # in a level", "82 08 0001 00 0002 6123 00", 0x81),
    ("4.7.1-2 + in a level", "82 08 0001 00 0002 612b 00", 0x81),
    ("4.7.3-1 an empty filter", "82 06 0001 00 0000 00", 0x81),
    ("4.7.3-2 U+0000 in a filter", "82 08 0001 00 0002 6100 00", 0x81),
    ("3.8.2.1.2 subscription identifier 0", "82 09 0001 02 0b 00 0001 61 00", 0x82),
    ("3.8.2.1.2 two subscription identifiers", "82 0b 0001 04 0b01 0b02 0001 61 00", 0x82),
    ("3.8.3-4 No Local on a shared subscription", "82 10 0001 00 000a 2473686172652f672f61 04", 0x82),
    ("4.8.2-1 a share name that is empty", "82 0e 0001 00 0008 2473686172652f2f 00", 0x81),
    ("4.8.2-2 a wildcard in a share name", "82 10 0001 00 000a 2473686172652f2b2f61 00", 0x81),
    ("4.8.2-2 a share name without a filter", "82 0d 0001 00 0007 2473686172652f 00", 0x81),
    ("4.12.0-7 AUTH without a method in CONNECT", "f0 07 18 05 15 0002 6161", 0x82),
    ("a CONNACK of a client", "20 03 00 00 00", 0x82),
    ("a SUBACK of a client", "90 04 0001 00 00", 0x82),
    ("an UNSUBACK of a client", "b0 04 0001 00 00", 0x82),
    ("a PINGRESP of a client", "d0 00", 0x82),
    ("PINGREQ with a body", "c0 01 00", 0x81),
    ("PUBACK of one byte", "40 01 00", 0x81),
    ("PUBACK with a code that it does not have", "40 03 0001 01", 0x81),
    ("3.14.2.2.2 a session that was to end lives on", "e0 07 00 05 11 00000001", 0x82),
    ("3.14.2-1 an unknown code of DISCONNECT", "e0 01 7f", None),
]


@pytest.mark.parametrize(("data", "code"), [f[1:] for f in FAULTS_5], ids=[f[0] for f in FAULTS_5])
def test_a_fault_ends_the_connection_with_its_code(data: str, code: int | None) -> None:
    async def steps(place: Place) -> None:
        client = await place.connect()
        client.send(PUBLISH + bytes.fromhex(data))
        await client.end(code)
        await (await place.connect("other")).none()

    tried(steps)


FAULTS_4: list[tuple[str, str]] = [
    ("3.1.0-2 a second CONNECT", "100c 0004 4d515454 04 02 003c 0000"),
    ("2.2.2-2 reserved flags of SUBSCRIBE", "80 06 0001 0001 61 00"),
    ("2.2.2-2 reserved flags of PUBREL", "60 02 0001"),
    ("3.3.1-4 QoS 3", "36 07 0003 612f62 0001"),
    ("2.3.1-1 packet identifier 0", "32 07 0003 612f62 0000"),
    ("3.3.2-2 a wildcard in a topic name", "30 05 0003 612f23"),
    ("4.7.3-1 an empty topic name", "30 02 0000"),
    ("1.5.3-2 U+0000 in a topic name", "30 05 0003 610062"),
    ("1.5.3-1 a topic name that is not UTF-8", "30 04 0002 61ff"),
    ("3.8.3-3 SUBSCRIBE without a filter", "82 02 0001"),
    ("3.10.3-2 UNSUBSCRIBE without a filter", "a2 02 0001"),
    ("3.8.3-4 reserved bits of the QoS", "82 06 0001 0001 61 04"),
    ("3.8.3-4 QoS 3 of a subscription", "82 06 0001 0001 61 03"),
    ("4.7.1-2 # that is not last", "82 08 0001 0003 612362 00"),
    ("4.7.1-3 + in a level", "82 07 0001 0002 612b 00"),
    ("AUTH", "f0 00"),
    ("a CONNACK of a client", "20 02 0000"),
    ("3.14.1-1 DISCONNECT with flags", "e1 00"),
    ("DISCONNECT with a body", "e0 01 00"),
    ("4.8.0-1 a Remaining Length of five bytes", "30 8080808001"),
]


@pytest.mark.parametrize("data", [f[1] for f in FAULTS_4], ids=[f[0] for f in FAULTS_4])
def test_before_5_0_a_fault_ends_the_connection_without_a_word(data: str) -> None:
    async def steps(place: Place) -> None:
        client = await place.connect(version=4)
        client.send(bytes.fromhex(data))
        await client.end()

    tried(steps)


# ---- CONNECT

#: Level, flags and Keep Alive of a CONNECT of 5.0, then properties and payload; the code of CONNACK, None: no answer.
CONNECTS: list[tuple[str, str, int | None]] = [
    ("3.1.2-3 the reserved flag", "100d 0004 4d515454 05 03 003c 00 0000", 0x81),
    ("3.1.2-12 will QoS 3", "1015 0004 4d515454 05 1e 003c 00 0000 00 0001 61 0002 6262", None),
    ("3.1.2-11 will QoS without a will", "100d 0004 4d515454 05 0a 003c 00 0000", 0x81),
    ("3.1.2-13 will retain without a will", "100d 0004 4d515454 05 22 003c 00 0000", 0x81),
    ("3.1.2-1 another protocol name", "100d 0004 4d515458 05 02 003c 00 0000", 0x84),
    ("3.1.2-2 level 6", "100d 0004 4d515454 06 02 003c 00 0000", 0x84),
    ("3.1.2.11.3 receive maximum 0", "1010 0004 4d515454 05 02 003c 03 21 0000 0000", 0x82),
    ("3.1.2.11.4 maximum packet size 0", "1012 0004 4d515454 05 02 003c 05 27 00000000 0000", 0x82),
    ("3.1.2.11.6 request response information 2", "100f 0004 4d515454 05 02 003c 02 19 02 0000", 0x82),
    ("3.1.2.11.7 request problem information 2", "100f 0004 4d515454 05 02 003c 02 17 02 0000", 0x82),
    ("a property twice", "1013 0004 4d515454 05 02 003c 06 21 0001 21 0001 0000", 0x82),
    ("3.1.2.11.10 data without a method", "1011 0004 4d515454 05 02 003c 04 16 0001 61 0000", 0x82),
    ("4.12.0-1 a method that is not spoken", "1011 0004 4d515454 05 02 003c 04 15 0001 61 0000", 0x8C),
    ("3.1.3-11 a will topic with a wildcard", "1013 0004 4d515454 05 06 003c 00 0000 00 0001 23 0001 61", 0x81),
    ("bytes after the payload", "100e 0004 4d515454 05 02 003c 00 0000 00", 0x81),
    ("3.1.0-1 another first packet", "c0 00", None),
    ("3.1.0-1 PUBLISH first", "30 06 0003 612f62 00", None),
]


@pytest.mark.parametrize(("data", "code"), [c[1:] for c in CONNECTS], ids=[c[0] for c in CONNECTS])
def test_a_connect_that_is_refused(data: str, code: int | None) -> None:
    async def steps(place: Place) -> None:
        client = await place.open()
        client.send(bytes.fromhex(data))
        packet = await client.next()
        if code is not None:
            assert isinstance(packet, mqtt.Connack), packet
            assert (packet.reason_code, packet.session_present) == (code, False)  # [MQTT-3.2.2-6]
            packet = await client.next()
        assert packet == EOF

    tried(steps)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ("100c 0004 4d515454 04 00 003c 0000", "20020002"),  # 3.1.1: [MQTT-3.1.3-8]
        ("100c 0004 4d515454 04 03 003c 0000", ""),  # [MQTT-3.1.2-3]
        ("1011 0004 4d515454 04 42 003c 0000 0003 616263", ""),  # [MQTT-3.1.2-22]: a password without a user name
    ],
)
def test_a_connect_of_3_1_1_that_is_refused(data: str, answer: str) -> None:
    async def steps(place: Place) -> None:
        client = await place.open(4)
        client.send(bytes.fromhex(data))
        async with asyncio.timeout(LONG):
            assert (await client.reader.read()).hex() == answer

    tried(steps)


def test_what_connack_says() -> None:
    async def steps(place: Place) -> None:
        client = await place.connect("")
        told = said(client.connack)  # type: ignore[attr-defined]
        assert told["assigned_client_identifier"]  # [MQTT-3.2.2-16]
        assert told.get("receive_maximum") != 0
        assert told.get("maximum_packet_size") != 0
        assert "response_information" not in told  # [MQTT-3.1.2-28]
        second = await place.connect("")
        assert said(second.connack)["assigned_client_identifier"] != told["assigned_client_identifier"]  # type: ignore[attr-defined]
        named = await place.connect("named")
        assert "assigned_client_identifier" not in said(named.connack)  # type: ignore[attr-defined]
        long = await place.connect("i" * 23)  # [MQTT-3.1.3-5]
        await long.none()

    tried(steps)


def test_server_keep_alive_is_announced_and_kept() -> None:
    """[MQTT-3.1.2-21, MQTT-3.1.2-22, MQTT-3.2.2-21]"""

    async def steps(place: Place) -> None:
        client = await place.connect(keep_alive=60)
        assert said(client.connack)["server_keep_alive"] == 1  # type: ignore[attr-defined]
        await client.end(0x8D)

    tried(steps, options=BrokerOptions(maximum_keep_alive=1))


def test_receive_maximum() -> None:
    """[MQTT-3.3.4-7, MQTT-3.3.4-9]: the client's is kept; ours is 2, and the third message is too many."""

    async def steps(place: Place) -> None:
        client = await place.connect("few", properties=[("receive_maximum", 2)])
        await client.subscribe("t", qos=2)
        sender = await place.connect("many")
        for n in range(1, 6):
            sender.publish("t", b"%d" % n, 1, packet_identifier=n)
            await sender.want(mqtt.Puback)
        first, second = await client.want(mqtt.Publish), await client.want(mqtt.Publish)
        await client.none()
        client.send(mqtt.Puback(packet_identifier=second.packet_identifier))
        client.send(mqtt.Puback(packet_identifier=first.packet_identifier))
        rest = [await client.want(mqtt.Publish), await client.want(mqtt.Publish)]
        assert [m.payload_bytes() for m in (first, second, *rest)] == [b"1", b"2", b"3", b"4"]
        await client.none()
        for n in range(1, 3):
            sender.publish("t", b"", 2, packet_identifier=10 + n)
            await sender.want(mqtt.Pubrec)
        sender.publish("t", b"", 2, packet_identifier=13)
        await sender.end(0x93)

    tried(steps, limits=mqtt.ConnectionOptions(receive_maximum=2))


def test_maximum_packet_size() -> None:
    """[MQTT-3.1.2-24, MQTT-3.1.2-25, MQTT-3.2.2-15]"""

    async def steps(place: Place) -> None:
        small = await place.connect("small", properties=[("maximum_packet_size", 40)])
        await small.subscribe("t")
        sender = await place.connect("s")
        assert said(sender.connack)["maximum_packet_size"] == 100  # type: ignore[attr-defined]
        sender.publish("t", b"x" * 60, 1)
        assert (await sender.want(mqtt.Puback)).reason_code == 0
        sender.publish("t", b"fits", 1)
        assert (await sender.want(mqtt.Puback)).reason_code == 0
        assert (await small.want(mqtt.Publish)).payload_bytes() == b"fits"
        sender.publish("t", b"x" * 200)
        await sender.end(0x95)

    tried(steps, limits=mqtt.ConnectionOptions(packet_size=100))


def test_topic_aliases_of_a_client() -> None:
    """[MQTT-3.3.2-7, MQTT-3.3.2-10, MQTT-3.3.2-12]: kept, changed, gone with the connection; not passed on."""

    async def steps(place: Place) -> None:
        client = await place.connect("alias")
        assert said(client.connack)["topic_alias_maximum"] == 3  # type: ignore[attr-defined]
        await client.subscribe("#", qos=0)
        for topic in ("a/1", "", "a/2", ""):
            client.publish(topic, b"x", properties=[("topic_alias", 3)])
        for topic in ("a/1", "a/1", "a/2", "a/2"):
            message = await client.want(mqtt.Publish)
            assert (message.topic_name, said(message)) == (topic, {})
        again = await place.connect("alias", clean_start=False)
        await client.end(0x8E)  # [MQTT-3.1.4-3]
        again.publish("", b"x", properties=[("topic_alias", 3)])
        await again.end(0x82)

    tried(steps, limits=mqtt.ConnectionOptions(topic_alias_maximum=3))


def test_topic_aliases_of_the_server() -> None:
    """[MQTT-3.1.2-26, MQTT-3.1.2-27, MQTT-3.3.2-7]: never above the client's maximum, none without one."""

    async def steps(place: Place) -> None:
        client, plain = (
            await place.connect("alias", properties=[("topic_alias_maximum", 1)]),
            await place.connect("none"),
        )
        for each in (client, plain):
            await each.subscribe("al/#", qos=1)
        topics: dict[Any, str] = {}
        for topic in ("al/1", "al/1", "al/2", "al/1"):
            plain.publish(topic, b"x", 0)
            message = await client.want(mqtt.Publish)
            alias = said(message).get("topic_alias")
            if alias is not None:
                assert alias == 1
                if message.topic_name:
                    topics[alias] = message.topic_name
            assert (message.topic_name or topics[alias]) == topic
            message = await plain.want(mqtt.Publish)
            assert (message.topic_name, said(message)) == (topic, {})
        assert topics == {1: "al/1"}

    tried(steps)


def test_properties_are_passed_on() -> None:
    """[MQTT-3.3.2-4, MQTT-3.3.2-15 to MQTT-3.3.2-20]: unaltered, user properties in order; expiry reduced (3.3.2-6)."""

    async def steps(place: Place) -> None:
        sent = [
            ("payload_format_indicator", 1),
            ("message_expiry_interval", 100),
            ("content_type", "text/plain"),
            ("response_topic", "answers/1"),
            ("correlation_data", b"\x00\x01"),
            ("user_property", ("b", "2")),
            ("user_property", ("a", "1")),
            ("user_property", ("b", "2")),
        ]
        client = await place.connect()
        await client.subscribe("p", "q", properties=[("subscription_identifier", 268435455)])
        for qos, retain in ((0, False), (1, True), (2, False)):
            client.publish("p", "grün".encode(), qos, retain=retain, properties=sent)
            got = None
            while got is None:
                packet = await client.next()
                if isinstance(packet, mqtt.Pubrec):
                    client.send(mqtt.Pubrel(packet_identifier=7))
                elif isinstance(packet, mqtt.Publish):
                    got = packet
            assert got.payload_bytes() == "grün".encode()
            rest = [p for p in got.properties if p[0] not in ("subscription_identifier", "message_expiry_interval")]
            assert rest == [p for p in sent if p[0] != "message_expiry_interval"]
            assert 90 <= said(got)["message_expiry_interval"] <= 100
            assert said(got)["subscription_identifier"] == 268435455
            if got.qos == 1:
                client.send(mqtt.Puback(packet_identifier=checked(got.packet_identifier, int)))

    tried(steps)


def test_a_message_that_has_expired_is_not_sent() -> None:
    """[MQTT-3.3.2-5]"""

    async def steps(place: Place) -> None:
        away = await place.connect("away", clean_start=False, properties=[("session_expiry_interval", 100)])
        await away.subscribe("t")
        away.send(mqtt.Disconnect())
        await away.end()
        sender = await place.connect("s")
        for seconds in (1, 100):
            sender.publish("t", b"%d" % seconds, 1, properties=[("message_expiry_interval", seconds)])
            await sender.want(mqtt.Puback)
        await asyncio.sleep(1.1)  # the messages age
        back = await place.connect("away", clean_start=False, properties=[("session_expiry_interval", 100)])
        assert back.connack.session_present  # type: ignore[attr-defined]
        message = await back.want(mqtt.Publish)
        assert message.payload_bytes() == b"100"
        assert said(message)["message_expiry_interval"] < 100

    tried(steps)


def test_retained_messages() -> None:
    """[MQTT-3.3.1-5 to MQTT-3.3.1-13]"""

    async def steps(place: Place) -> None:
        client = await place.connect()
        client.publish("r/1", b"old", 1, retain=True)
        await client.want(mqtt.Puback)
        client.publish("r/1", b"kept", 1, retain=True)
        await client.want(mqtt.Puback)
        client.publish("r/1", b"not kept", 1)
        await client.want(mqtt.Puback)
        for handling, existing, sent in ((2, False, 0), (1, True, 0), (0, True, 1), (1, True, 0)):
            del existing
            await client.subscribe(mqtt.Subscription("r/+", qos=0, retain_handling=handling))
            if sent:
                message = await client.want(mqtt.Publish)
                assert (message.payload_bytes(), message.retain) == (b"kept", True)
            await client.none()
        client.publish("r/1", b"live", 0, retain=True)
        assert (await client.want(mqtt.Publish)).retain is False  # Retain As Published 0
        await client.subscribe(mqtt.Subscription("r/+", qos=0, retain_handling=2, retain_as_published=True))
        client.publish("r/1", b"live", 0, retain=True)
        assert (await client.want(mqtt.Publish)).retain is True
        client.publish("r/1", b"", 0, retain=True)  # removes it
        assert (await client.want(mqtt.Publish)).payload_bytes() == b""
        fresh = await place.connect("fresh")
        await fresh.subscribe("r/#")
        await fresh.none()

    tried(steps)


def test_no_local_and_topics_of_the_server() -> None:
    """[MQTT-3.8.3-3, MQTT-4.7.2-1]"""

    async def steps(place: Place) -> None:
        client = await place.connect()
        await client.subscribe(mqtt.Subscription("mine", qos=1, no_local=True))
        client.publish("mine", b"", 0)
        await client.none()
        await client.subscribe("#", "+/x", qos=0)
        client.publish("$own/x", b"", 0)
        await client.none()
        await client.subscribe("$own/#", qos=0)
        client.publish("$own/x", b"", 0)
        assert (await client.want(mqtt.Publish)).topic_name == "$own/x"
        client.publish("/x", b"", 0)  # 4.7.1.3: + matches an empty level
        assert (await client.want(mqtt.Publish)).topic_name == "/x"
        await client.none()

    tried(steps)


@pytest.mark.parametrize("overlap", ["merged", "each"])
def test_overlapping_subscriptions(overlap: Any) -> None:
    """[MQTT-3.3.4-2 to MQTT-3.3.4-5]"""

    async def steps(place: Place) -> None:
        client = await place.connect()
        await client.subscribe("a/#", qos=1, properties=[("subscription_identifier", 1)])
        await client.subscribe("a/+", qos=0, properties=[("subscription_identifier", 2)])
        await client.subscribe("a/b", qos=2)
        client.publish("a/b", b"", 1)
        copies: list[Any] = []
        while sum(isinstance(c, mqtt.Publish) for c in copies) < (1 if overlap == "merged" else 3):
            copies.append(await client.next())
        copies = [c for c in copies if isinstance(c, mqtt.Publish)]
        found = sorted((c.qos, sorted(v for n, v in c.properties if n == "subscription_identifier")) for c in copies)
        assert found == ([(1, [1, 2])] if overlap == "merged" else [(0, [2]), (1, []), (1, [1])])

    tried(steps, options=BrokerOptions(overlap=overlap))


def test_subscriptions_are_replaced_and_ended() -> None:
    """[MQTT-3.8.4-3, MQTT-3.8.4-6, MQTT-3.9.3-1, MQTT-3.10.4-1, MQTT-3.11.3-1]"""

    async def steps(place: Place) -> None:
        client = await place.connect()
        assert await client.subscribe("a", "b", qos=2) == (2, 2)
        assert await client.subscribe(mqtt.Subscription("a", qos=0), mqtt.Subscription("c", qos=1)) == (0, 1)
        client.publish("a", b"", 1)
        packets = [await client.next(), await client.next()]
        (message,) = [p for p in packets if isinstance(p, mqtt.Publish)]
        assert message.qos == 0
        client.send(mqtt.Unsubscribe(packet_identifier=5, topic_filters=["a", "never", "b"]))
        assert (await client.want(mqtt.Unsuback)).reason_codes == (0, 0x11, 0)
        client.publish("a", b"", 1)
        assert (await client.want(mqtt.Puback)).reason_code in (0, 0x10)
        await client.none()

    tried(steps)


def test_sessions() -> None:
    """[MQTT-3.1.2-4 to MQTT-3.1.2-6, MQTT-3.1.2-23, MQTT-3.2.2-2, MQTT-3.2.2-3, MQTT-4.4.0-1]"""

    async def steps(place: Place) -> None:
        lasting = [("session_expiry_interval", 100)]
        first = await place.connect("s", clean_start=False, properties=lasting)
        assert first.connack.session_present is False  # type: ignore[attr-defined]
        await first.subscribe("t", qos=2)
        sender = await place.connect("p")
        sender.publish("t", b"1", 1)
        await sender.want(mqtt.Puback)
        message = await first.want(mqtt.Publish)
        assert message.dup is False  # [MQTT-3.3.1-3]
        first.close()  # not acknowledged
        second = await place.connect("s", clean_start=False, properties=lasting)
        assert second.connack.session_present is True  # type: ignore[attr-defined]
        again = await second.want(mqtt.Publish)
        assert (again.dup, again.packet_identifier) == (True, message.packet_identifier)
        second.send(mqtt.Disconnect(properties=[("session_expiry_interval", 0)]))  # ends the session (3.14.2.2.2)
        await second.end()
        third = await place.connect("s", clean_start=False, properties=lasting)
        assert third.connack.session_present is False  # type: ignore[attr-defined]
        await third.none()
        third.send(mqtt.Disconnect())
        await third.end()
        fourth = await place.connect("s", clean_start=True)
        assert fourth.connack.session_present is False  # type: ignore[attr-defined]
        fourth.send(mqtt.Disconnect())
        await fourth.end()
        fifth = await place.connect("s", clean_start=False)
        assert fifth.connack.session_present is False  # type: ignore[attr-defined]

    tried(steps)


def test_a_qos_2_message_is_sent_again_as_pubrel() -> None:
    """[MQTT-4.3.3-4 to MQTT-4.3.3-7, MQTT-4.4.0-1]"""

    async def steps(place: Place) -> None:
        lasting = [("session_expiry_interval", 100)]
        first = await place.connect("s", clean_start=False, properties=lasting)
        await first.subscribe("t", qos=2)
        sender = await place.connect("p")
        sender.publish("t", b"1", 2)
        await sender.want(mqtt.Pubrec)
        sender.publish("t", b"1", 2, dup=True)  # [MQTT-4.3.3-10]
        await sender.want(mqtt.Pubrec)
        sender.send(mqtt.Pubrel(packet_identifier=7))
        await sender.want(mqtt.Pubcomp)
        sender.send(mqtt.Pubrel(packet_identifier=7))
        assert (await sender.want(mqtt.Pubcomp)).reason_code in (0, 0x92)
        message = await first.want(mqtt.Publish)
        await first.none()  # once
        first.send(mqtt.Pubrec(packet_identifier=message.packet_identifier))
        await first.want(mqtt.Pubrel)
        first.close()
        second = await place.connect("s", clean_start=False, properties=lasting)
        assert (await second.want(mqtt.Pubrel)).packet_identifier == message.packet_identifier
        second.send(mqtt.Pubcomp(packet_identifier=message.packet_identifier))
        await second.none()

    tried(steps)


WILLS: list[tuple[str, str, dict[str, Any], bool]] = [
    ("3.1.2-8 the connection is lost", "lose", {}, True),
    ("3.1.2-10 DISCONNECT 0x00", "e000", {}, False),
    ("3.14.4-3 DISCONNECT 0x04", "e00104", {}, True),
    ("3.1.2-8 a fault", "c100", {}, True),
    ("3.1.2-8 taken over", "again", {}, True),
    ("3.1.3-9 back within the delay", "again", {"delay": 100, "expiry": 100}, False),
    ("3.1.3-9 back with Clean Start within the delay", "clean", {"delay": 100, "expiry": 100}, True),
    ("3.1.3-9 the session ends before the delay", "lose", {"delay": 100, "expiry": 0}, True),
    ("3.1.3-9 the delay passes", "lose", {"delay": 1, "expiry": 100}, True),
    ("3.1.3-9 the session ends within the delay", "lose", {"delay": 100, "expiry": 1}, True),
    ("3.1.3-9 a session ended by DISCONNECT 0x04", "e0 07 04 05 11 00000000", {"delay": 100, "expiry": 100}, True),
]


@pytest.mark.parametrize(("how", "times", "published"), [w[1:] for w in WILLS], ids=[w[0] for w in WILLS])
def test_wills(how: str, times: dict[str, int], published: bool) -> None:
    async def steps(place: Place) -> None:
        watcher = await place.connect("watcher")
        await watcher.subscribe("will/#", "mark")
        properties: list[tuple[str, Any]] = [("user_property", ("k", "v")), ("content_type", "text")]
        if "delay" in times:
            properties.append(("will_delay_interval", times["delay"]))
        will = mqtt.Will(topic="will/1", payload=b"gone", qos=1, retain=True, properties=properties)
        expiry = [("session_expiry_interval", times["expiry"])] if "expiry" in times else []
        client = await place.connect("dying", will=will, properties=expiry, clean_start=False)
        if how in ("again", "clean"):
            await place.connect("dying", clean_start=how == "clean", properties=expiry)
            await client.end(0x8E)
        elif how == "lose":
            client.writer.transport.abort()
        else:
            client.send(bytes.fromhex(how))
            while await client.next() != EOF:
                pass
        if published:
            message = await watcher.want(mqtt.Publish)
            assert (message.topic_name, message.payload_bytes(), message.qos, message.retain) == (
                "will/1",
                b"gone",
                1,
                False,
            )
            assert said(message) == {"user_property": ("k", "v"), "content_type": "text"}  # [MQTT-3.1.3-10]
            fresh = await place.connect("fresh")
            await fresh.subscribe("will/1")
            assert (await fresh.want(mqtt.Publish)).retain is True  # [MQTT-3.1.2-15]
        else:
            watcher.publish("mark", b"", 0)
            assert (await watcher.want(mqtt.Publish)).topic_name == "mark"

    tried(steps)


def test_shared_subscriptions() -> None:
    """4.8.2: each message to one member; the group's own members only; no retained messages."""

    async def steps(place: Place) -> None:
        sender = await place.connect("p")
        sender.publish("t", b"kept", 1, retain=True)
        await sender.want(mqtt.Puback)
        members = [await place.connect(f"m{n}") for n in range(3)]
        for member in members:
            assert await member.subscribe("$share/g/t", qos=1) == (1,)
            await member.none()
        alone = await place.connect("alone")
        await alone.subscribe(mqtt.Subscription("t", qos=0, retain_handling=2))
        for n in range(9):
            sender.publish("t", b"%d" % n, 1)
            await sender.want(mqtt.Puback)
        got = []
        for member in members:
            member.send(b"\xc0\x00")
            while isinstance(packet := await member.next(), mqtt.Publish):
                got.append(packet.payload_bytes())
        assert sorted(got) == [b"%d" % n for n in range(9)]
        assert [(await alone.want(mqtt.Publish)).payload_bytes() for _ in range(9)] == [b"%d" % n for n in range(9)]
        members[0].send(mqtt.Unsubscribe(packet_identifier=1, topic_filters=["$share/g/t", "t"]))
        assert (await members[0].want(mqtt.Unsuback)).reason_codes == (0, 0x11)

    tried(steps)


def test_maximum_qos_of_the_server() -> None:
    """[MQTT-3.2.2-9, MQTT-3.2.2-10, MQTT-3.2.2-11, MQTT-3.2.2-12]"""

    async def steps(place: Place) -> None:
        client = await place.connect()
        assert said(client.connack)["maximum_qos"] == 1  # type: ignore[attr-defined]
        assert await client.subscribe("a", qos=2) == (1,)
        client.publish("a", b"", 2)
        await client.end(0x9B)
        other = await place.open()
        other.send(mqtt.Connect(client_identifier="w", will=mqtt.Will(topic="a", payload=b"", qos=2)))
        assert (await other.want(mqtt.Connack)).reason_code == 0x9B
        await other.end()

    tried(steps, options=BrokerOptions(maximum_qos=1))


def test_order_of_messages_and_acknowledgements() -> None:
    """[MQTT-4.6.0-1 to MQTT-4.6.0-6]"""

    async def steps(place: Place) -> None:
        client = await place.connect()
        await client.subscribe("o/#", qos=2)
        count = 50
        for n in range(1, count + 1):
            client.publish("o/x", b"%d" % n, 1 + n % 2, packet_identifier=n)
        acknowledged: list[int] = []
        received: list[tuple[int, int]] = []
        while len(acknowledged) < count or len(received) < count:
            packet = await client.next()
            if isinstance(packet, mqtt.Puback | mqtt.Pubrec):
                acknowledged.append(packet.packet_identifier)
                if isinstance(packet, mqtt.Pubrec):
                    client.send(mqtt.Pubrel(packet_identifier=packet.packet_identifier))
            elif isinstance(packet, mqtt.Publish):
                received.append((packet.qos, int(packet.payload_bytes())))
                kind = mqtt.Puback if packet.qos == 1 else mqtt.Pubrec
                client.send(kind(packet_identifier=checked(packet.packet_identifier, int)))
            elif isinstance(packet, mqtt.Pubrel):
                client.send(mqtt.Pubcomp(packet_identifier=packet.packet_identifier))
        for qos in (1, 2):
            sent = [n for n in range(1, count + 1) if 1 + n % 2 == qos]
            assert [n for q, n in received if q == qos] == sent
            assert [n for n in acknowledged if 1 + n % 2 == qos] == sent

    tried(steps)


def test_3_1_1_clients_and_5_0_clients_together() -> None:
    async def steps(place: Place) -> None:
        old, new = await place.connect("old", version=4), await place.connect("new")
        assert await old.subscribe("t", qos=2) == (2,)
        await new.subscribe("t", qos=2)
        new.publish("t", b"5", 0, properties=[("user_property", ("a", "b"))])
        assert (await old.want(mqtt.Publish)).payload_bytes() == b"5"
        assert said(await new.want(mqtt.Publish)) == {"user_property": ("a", "b")}
        old.publish("t", b"4", 0)
        assert said(await new.want(mqtt.Publish)) == {}
        assert (await old.want(mqtt.Publish)).payload_bytes() == b"4"
        taking = await place.connect("old", version=4, clean_start=False)
        assert taking.connack.session_present is False  # type: ignore[attr-defined]
        await old.end()

    tried(steps)


def test_what_is_pipelined_with_connect() -> None:
    """3.1.4: a client may send packets before CONNACK has arrived."""

    async def steps(place: Place) -> None:
        client = await place.open()
        client.send(
            mqtt.Connect(client_identifier="p").encode()
            + mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("a/b", qos=0)]).encode()
            + PUBLISH
            + b"\xc0\x00"
        )
        kinds = [type(await client.next()) for _ in range(4)]
        assert kinds == [mqtt.Connack, mqtt.Suback, mqtt.Publish, mqtt.Pingresp]

    tried(steps)


def test_every_packet_one_byte_at_a_time() -> None:
    async def steps(place: Place) -> None:
        client = await place.open()
        data = (
            mqtt.Connect(client_identifier="p").encode()
            + mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("a/b", qos=0)]).encode()
            + PUBLISH
        )
        for octet in data:
            client.send(bytes((octet,)))
            await client.writer.drain()
            await asyncio.sleep(0)
        kinds = [type(await client.next()) for _ in range(3)]
        assert kinds == [mqtt.Connack, mqtt.Suback, mqtt.Publish]

    tried(steps)
