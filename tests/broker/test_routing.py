"""What AMQP 0.9.1, AMQP 1.0 and MQTT share: addresses, limits, dead letters, and what crosses between them. The rules are
RabbitMQ's where the specifications have none."""

from __future__ import annotations

from typing import Any

import pytest

from lib.loopback import run, until
from wirefmt import amqp091, amqp10, mqtt
from wirefmt.broker import Broker
from wirefmt.broker.amqp10 import Address, Refused, parse_address
from wirefmt.broker.routing import Limits
from wirefmt.errors import Refused as ClientRefused

PORTS = {"mqtt": 0, "amqp": 0, "amqp10": 0}


def message(text: str, **fields: Any) -> amqp10.Message:
    return amqp10.Message(body=text.encode(), **fields)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/queues/q", Address("", "q")),
        ("/queues/a%2Fb%20c", Address("", "a/b c")),
        ("q", Address("", "q")),
        ("/exchanges/e/k.%2B", Address("e", "k.+")),
        ("/exchanges/e", Address("e", "")),
        ("/exchanges/e/", Address("e", "")),
        ("/queues/", None),
        ("/queues/a/b", None),
        ("/exchanges/", None),
        ("/exchanges//k", None),
        ("/exchanges/e/k/l", None),
        ("/topic/t", None),
        ("a/b", None),
        ("", None),
        ("/queues/%FF", None),
    ],
)
def test_addresses(text: str, address: Address | None) -> None:
    if address is None:
        with pytest.raises(Refused):
            parse_address(text)
    else:
        assert parse_address(text) == address


def test_amqp_1_0_publishes_to_exchanges() -> None:
    async def test() -> None:
        async with (
            Broker(ports=PORTS) as b,
            amqp091.connect(b.url("amqp")) as old,
            amqp10.connect(b.url("amqp10")) as new,
        ):
            channel = await old.channel()
            await channel.declare_exchange("e", "headers")
            await channel.declare_queue("q")
            await channel.bind_queue("q", "e", arguments={"colour": "red"})
            sender = await new.sender("/exchanges/e/key")
            assert await sender.send(message("1", application_properties={"colour": "red"})) == amqp10.Accepted()
            with pytest.raises(ClientRefused, match="released"):  # no queue is bound for it
                await sender.send(message("2", application_properties={"colour": "blue"}))
            assert [(m.body, m.exchange, m.name) for m in b.queue("q")] == [(b"1", "e", "key")]
            got = await channel.get("q", no_ack=True)
            assert got is not None
            assert (got.body, got.exchange, got.routing_key) == (b"1", "e", "key")
            assert got.properties.headers == {"colour": "red"}
            with pytest.raises(ClientRefused, match="not-found"):
                await new.sender("/exchanges/nothing/k")
            with pytest.raises(ClientRefused, match="not-implemented"):
                await new.receiver("/exchanges/e/k")

    run(test())


def test_both_amqps_share_a_queue_and_its_rules() -> None:
    async def test() -> None:
        async with (
            Broker(ports=PORTS) as b,
            amqp091.connect(b.url("amqp")) as old,
            amqp10.connect(b.url("amqp10")) as new,
        ):
            channel = await old.channel()
            await channel.declare_queue("graves")
            await channel.declare_queue(
                "q",
                arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves", "x-max-priority": 9},
            )
            await channel.declare_queue("mine", exclusive=True)
            with pytest.raises(ClientRefused, match="locked"):
                await new.receiver("/queues/mine")
            sender = await new.sender("/queues/q")
            for priority, text in ((1, "low"), (8, "high")):
                await sender.send(message(text, header=amqp10.Header(priority=priority)))
            receiver = await new.receiver("/queues/q", settle="manual", credit=1)
            first = await receiver.receive()
            assert bytes(first.message.payload) == b"high"
            receiver.modify(first, delivery_failed=True)
            again = await receiver.receive()
            assert again.message.header.delivery_count == 1
            receiver.reject(again)
            await b.queue("graves").wait(1)
            grave = await channel.get("graves", no_ack=True)
            assert grave is not None and grave.properties.headers is not None
            assert grave.body == b"high"
            assert grave.properties.headers["x-death"][0]["reason"] == "rejected"
            await receiver.receive()
            await sender.send(message("short", header=amqp10.Header(ttl=1)))
            await b.queue("graves").wait(1)  # expired
            await channel.delete_queue("q")
            with pytest.raises(ClientRefused, match="resource-deleted"):
                await receiver.receive()

    run(test())


def test_limits_of_all_queues_together() -> None:
    async def test() -> None:
        limits = Limits(bytes=2500)
        async with (
            Broker(ports=PORTS, limits=limits) as b,
            amqp091.connect(b.url("amqp")) as old,
            amqp10.connect(b.url("amqp10")) as new,
            mqtt.connect(b.url("mqtt")) as meter,
        ):
            channel = await old.channel()
            for name in ("one", "two"):
                await channel.declare_queue(name)
                await channel.publish(bytes(1000), routing_key=name)
            with pytest.raises(ClientRefused):
                await channel.publish(bytes(1000), routing_key="one")
            sender = await new.sender("/queues/three")
            with pytest.raises(ClientRefused, match="limit"):
                await sender.send(message("x" * 1000))
            await channel.bind_queue("one", "amq.topic", "a.#")
            with pytest.raises(ClientRefused) as refused:
                await meter.publish("a/b", bytes(1000), qos=1)
            assert refused.value.code == 0x97
            await channel.purge_queue("one")
            await meter.publish("a/b", bytes(1000), qos=1)
            assert b.router.bytes > 2000
            await channel.delete_queue("one")
            await channel.delete_queue("two")
            assert b.router.bytes == 0

    run(test())


def test_cc_and_bcc() -> None:
    async def test() -> None:
        async with Broker(ports=PORTS) as b, amqp091.connect(b.url("amqp")) as old:
            channel = await old.channel()
            for name in ("to", "cc", "bcc"):
                await channel.declare_queue(name)
            properties = amqp091.BasicProperties(headers={"CC": ["cc", "to"], "BCC": ["bcc"], "h": 1})
            await channel.publish(b"x", routing_key="to", properties=properties)
            for name in ("to", "cc", "bcc"):
                got = await channel.get(name, no_ack=True)
                assert got is not None
                assert got.properties.headers == {"CC": ["cc", "to"], "h": 1}
                assert await channel.get(name) is None  # once

    run(test())


def test_a_refused_message_may_be_dead_lettered() -> None:
    async def test() -> None:
        async with Broker(ports=PORTS) as b, amqp091.connect(b.url("amqp")) as old:
            channel = await old.channel()
            await channel.declare_queue("graves")
            arguments = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}
            await channel.declare_queue("q", arguments={**arguments, "x-overflow": "reject-publish-dlx"})
            await channel.publish(b"1", routing_key="q")
            with pytest.raises(ClientRefused):
                await channel.publish(b"2", routing_key="q")
            assert [m.body for m in b.queue("graves")] == [b"2"]

    run(test())


def test_unused_queues_expire() -> None:
    async def test() -> None:
        async with Broker(ports=PORTS) as b, amqp091.connect(b.url("amqp")) as old:
            channel = await old.channel()
            await channel.declare_queue("consumed", arguments={"x-expires": 1})
            # it may be gone before the consumer comes: then it is declared again
            for _ in range(1000):
                try:
                    consumer = await channel.consume("consumed")
                    break
                except ClientRefused:
                    channel = await old.channel()
                    await channel.declare_queue("consumed", arguments={"x-expires": 1})
            await channel.declare_queue("unused", arguments={"x-expires": 1})
            await until(lambda: "unused" not in b.router.queues)
            assert "consumed" in b.router.queues
            await consumer.cancel()
            await until(lambda: not b.router.queues)

    run(test())


def test_mqtt_and_dead_letters_and_wills() -> None:
    """What expires in a queue can come to a subscriber; a will goes to a queue."""

    async def test() -> None:
        async with (
            Broker(ports=PORTS) as b,
            amqp091.connect(b.url("amqp")) as old,
            mqtt.connect(b.url("mqtt")) as meter,
        ):
            channel = await old.channel()
            await meter.subscribe("late/+", qos=1)
            await channel.declare_queue("q", arguments={"x-message-ttl": 1, "x-dead-letter-exchange": "amq.topic"})
            await channel.bind_queue("q", "amq.topic", "late.#")
            await channel.declare_queue("wills")
            await channel.bind_queue("wills", "amq.topic", "gone.*")
            await channel.publish(b"x", exchange="amq.topic", routing_key="late.1")
            messages = meter.messages()
            for _ in range(2):  # at once, and when it has expired in the queue
                got = await anext(messages)
                assert (got.topic_name, got.payload_bytes()) == ("late/1", b"x")
            will = mqtt.Will(topic="gone/1", payload=b"bye", qos=1)
            other = mqtt.connect(b.url("mqtt"), will=will)
            await other.open()
            for driver in list(b.servers["mqtt"].drivers):
                driver.abort()
            assert (await b.queue("wills").wait(1))[0].body == b"bye"
            await other.close()

    run(test())


def test_keys_that_are_no_topics_do_not_disturb_mqtt() -> None:
    async def test() -> None:
        async with (
            Broker(ports=PORTS) as b,
            amqp091.connect(b.url("amqp")) as old,
            mqtt.connect(b.url("mqtt")) as meter,
        ):
            channel = await old.channel()
            await meter.subscribe("#")
            for key in ("", "*", "a.#.b", "good.key"):
                await channel.publish(key.encode(), exchange="amq.topic", routing_key=key)
            got = await anext(meter.messages())
            assert (got.topic_name, got.payload_bytes()) == ("good/key", b"good.key")

    run(test())


def test_a_client_that_goes_gives_back_what_the_other_protocol_then_gets() -> None:
    async def test() -> None:
        async with Broker(ports=PORTS) as b, amqp091.connect(b.url("amqp")) as old:
            async with amqp10.connect(b.url("amqp10")) as new:
                sender = await new.sender("/queues/q")
                for n in range(5):
                    await sender.send(message(str(n)))
                receiver = await new.receiver("/queues/q", settle="manual", credit=3)
                for _ in range(3):
                    await receiver.receive()
                assert len(b.queue("q")) == 2
            await b.queue("q").wait(5)
            channel = await old.channel()
            got = [await channel.get("q", no_ack=True) for _ in range(5)]
            assert [m.body for m in got if m is not None] == [b"0", b"1", b"2", b"3", b"4"]
            assert [m.redelivered for m in got if m is not None] == [True] * 3 + [False] * 2

    run(test())
