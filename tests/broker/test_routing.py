"""What AMQP 0.9.1, AMQP 1.0 and MQTT share: addresses, limits, dead letters, and what crosses between them. The rules are
RabbitMQ's where the specifications have none."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import quote

import pytest

from lib.loopback import run, until
from wirefmt import amqp091, amqp10, mqtt
from wirefmt.broker import Broker
from wirefmt.broker.amqp10 import Address, Refused, parse_address
from wirefmt.broker.credentials import is_password, user_of
from wirefmt.broker.limits import ENTRY, Limits, Refusal
from wirefmt.broker.messages import CONTAINER, Item, Published
from wirefmt.broker.mqtt import BrokerOptions, Message
from wirefmt.broker.queues import Queue
from wirefmt.broker.routing import PREDECLARED, Exchange, Router
from wirefmt.convert import Container, Wire
from wirefmt.errors import ConversionError
from wirefmt.errors import Refused as ClientRefused

PORTS = {"mqtt": 0, "amqp": 0, "amqp10": 0}


@contextlib.asynccontextmanager
async def broker(**changes: Any) -> AsyncIterator[tuple[Broker, amqp091.Channel]]:
    """A broker, and a channel of AMQP 0.9.1 on it."""
    async with Broker(ports=PORTS, **changes) as b, amqp091.connect(b.url("amqp")) as old:
        yield b, await old.channel()


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
        async with broker() as (b, channel), amqp10.connect(b.url("amqp10")) as new:
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
        async with broker() as (b, channel), amqp10.connect(b.url("amqp10")) as new:
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
        limits = Limits(memory=4500, client_share=1)
        async with (
            broker(limits=limits) as (b, channel),
            amqp10.connect(b.url("amqp10")) as new,
            mqtt.connect(b.url("mqtt")) as meter,
        ):
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
            assert b.router.shares.bytes > 2000
            await channel.delete_queue("one")
            await channel.delete_queue("two")
            assert b.router.shares.bytes == 0

    run(test())


def test_cc_and_bcc() -> None:
    async def test() -> None:
        async with broker() as (_, channel):
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
        async with broker() as (b, channel):
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
        async with broker() as (b, channel), amqp091.connect(b.url("amqp")) as old:
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


def test_a_time_of_zero_is_for_consumers_that_wait() -> None:
    async def test() -> None:
        async with broker() as (b, channel):
            await channel.declare_queue("q")
            properties = amqp091.BasicProperties(expiration="0")
            await channel.publish(b"nobody waits", routing_key="q", properties=properties)
            await until(lambda: not b.queue("q"))
            consumer = await channel.consume("q")
            await channel.publish(b"taken", routing_key="q", properties=properties)
            assert (await anext(consumer)).body == b"taken"

    run(test())


def test_mqtt_and_dead_letters_and_wills() -> None:
    """What expires in a queue can come to a subscriber; a will goes to a queue."""

    async def test() -> None:
        async with broker() as (b, channel), mqtt.connect(b.url("mqtt")) as meter:
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
        async with broker() as (b, channel), mqtt.connect(b.url("mqtt")) as meter:
            await meter.subscribe("#")
            for key in ("", "*", "a.#.b", "good.key"):
                await channel.publish(key.encode(), exchange="amq.topic", routing_key=key)
            got = await anext(meter.messages())
            assert (got.topic_name, got.payload_bytes()) == ("good/key", b"good.key")

    run(test())


def test_a_client_that_goes_gives_back_what_the_other_protocol_then_gets() -> None:
    async def test() -> None:
        async with broker() as (b, channel):
            async with amqp10.connect(b.url("amqp10")) as new:
                sender = await new.sender("/queues/q")
                for n in range(5):
                    await sender.send(message(str(n)))
                receiver = await new.receiver("/queues/q", settle="manual", credit=3)
                for _ in range(3):
                    await receiver.receive()
                assert len(b.queue("q")) == 2
            await b.queue("q").wait(5)
            got = [await channel.get("q", no_ack=True) for _ in range(5)]
            assert [m.body for m in got if m is not None] == [b"0", b"1", b"2", b"3", b"4"]
            assert [m.redelivered for m in got if m is not None] == [True] * 3 + [False] * 2

    run(test())


# ---- what cannot be delivered, and what is refused


@pytest.mark.parametrize("mode", ["plain", "confirm", "transaction"])
@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize("value", ["x", 1, {"a": 1}, None])
def test_cc_that_is_no_array_closes_the_channel(mode: str, name: str, value: Any) -> None:
    """RabbitMQ: 406, and the connection goes on."""

    async def test() -> None:
        async with Broker(ports=PORTS) as b, amqp091.connect(b.url("amqp")) as client:
            channel = await client.channel(confirms=mode == "confirm")
            await channel.declare_queue("q")
            properties = amqp091.BasicProperties(headers={name: value})

            async def publish() -> None:
                async with channel.transaction() if mode == "transaction" else contextlib.nullcontext():
                    await channel.publish(b"x", routing_key="q", properties=properties)
                    await channel.declare_queue("q", passive=True)

            with pytest.raises(ClientRefused, match="array") as refused:
                await publish()
            assert refused.value.code == 406
            assert len(b.clients) == 1
            other = await client.channel()
            await other.publish(b"y", routing_key="q")
            assert [m.body for m in b.queue("q")] == [b"y"]

    run(test())


@pytest.mark.parametrize("key", ["k" * 256, "é" * 128, "a." * 5000 + "a"])
@pytest.mark.parametrize("sender", ["mqtt", "amqp10"])
@pytest.mark.parametrize("takes", ["consume", "get"])
def test_a_routing_key_that_amqp_0_9_1_cannot_have_blocks_no_queue(key: str, sender: str, takes: str) -> None:
    async def test() -> None:
        async with (
            broker(mqtt=BrokerOptions(topic_levels=6000)) as (b, channel),
            amqp10.connect(b.url("amqp10")) as new,
            mqtt.connect(b.url("mqtt")) as meter,
        ):
            await channel.declare_queue("graves")
            graves = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}
            await channel.declare_queue("q", arguments=graves)
            await channel.bind_queue("q", "amq.topic", "#")
            consumer = await channel.consume("q") if takes == "consume" else None
            if sender == "mqtt":
                await meter.publish(key.replace(".", "/"), b"long", qos=1)
            else:
                await (await new.sender(f"/exchanges/amq.topic/{quote(key)}")).send(message("long"))
            await meter.publish("short", b"short", qos=1)
            got = await anext(consumer) if consumer is not None else await channel.get("q")
            assert got is not None
            assert (got.body, got.routing_key) == (b"short", "short")
            grave = await channel.get("graves")
            assert grave is not None and grave.properties.headers is not None
            assert grave.body == b"long"
            assert grave.properties.headers["x-death"][0]["reason"] == "rejected"
            if consumer is not None:
                await consumer.cancel()
            await meter.publish(key.replace(".", "/"), b"again", qos=1)  # AMQP 1.0 can have it
            receiver = await new.receiver("/queues/q")
            assert bytes((await receiver.receive()).message.payload) == b"again"

    run(test())


def test_a_message_that_is_larger_than_an_amqp_1_0_receiver_takes_blocks_no_queue() -> None:
    async def test() -> None:
        async with broker() as (b, channel):
            options = amqp10.ConnectionOptions(message_size=1000)
            async with amqp10.connect(b.url("amqp10"), options=options) as new:
                await channel.declare_queue("q")
                receiver = await new.receiver("/queues/q")
                await channel.publish(bytes(2000), routing_key="q")
                await channel.publish(b"small", routing_key="q")
                assert bytes((await receiver.receive()).message.payload) == b"small"
                assert b.router.queues["q"].dropped == 1

    run(test())


@pytest.mark.parametrize("protocol", ["amqp", "amqp10", "mqtt"])
def test_messages_that_exceed_what_may_be_queued_for_a_client_wait(protocol: str) -> None:
    """Nothing else happens that would have them delivered."""

    async def test() -> None:
        options = {
            "amqp": amqp091.ConnectionOptions(pending_bytes=10_000),
            "amqp10": amqp10.ConnectionOptions(pending_bytes=10_000),
            "mqtt": mqtt.ConnectionOptions(pending_bytes=10_000),
        }
        async with broker(connection={protocol: options[protocol]}) as (b, channel):
            bodies = [b"%d" % n * 9000 for n in range(4)]
            if protocol == "mqtt":
                for n, body in enumerate(bodies):
                    b.mqtt.publish(Message(f"a/{n}", body, retain=True))
                async with mqtt.connect(b.url("mqtt")) as meter:
                    await meter.subscribe("a/+")
                    messages = meter.messages()
                    assert sorted([(await anext(messages)).payload_bytes() for _ in bodies]) == bodies
                return
            await channel.declare_queue("q")
            router = b.router
            for body in bodies:  # not from a client, so that no limit is in the way
                made = Published.of(Container(Wire("amqp091", b"\0\0", body), routing_key="q"))
                router.put(router.route(router.exchanges[""], made), made)
            if protocol == "amqp":
                consumer = await channel.consume("q", no_ack=True)
                assert [(await anext(consumer)).body for _ in bodies] == bodies
            else:
                async with amqp10.connect(b.url("amqp10")) as new:
                    receiver = await new.receiver("/queues/q", settle="manual")
                    assert [bytes((await receiver.receive()).message.payload) for _ in bodies] == bodies

    run(test())


def test_a_message_that_no_consumer_can_have_ends_in_a_cycle() -> None:
    """A client's rejection keeps a cycle alive; the broker's own does not."""

    async def test() -> None:
        async with broker() as (b, channel), amqp10.connect(b.url("amqp10")) as new:
            for name, other in (("a", "b"), ("b", "a")):
                arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other}
                await channel.declare_queue(name, arguments=arguments)
            receivers = [await new.receiver(f"/queues/{name}") for name in ("a", "b")]
            bad = amqp091.BasicProperties(headers={"x-amqp-1.0-properties": "no properties"})
            await channel.publish(b"bad", routing_key="a", properties=bad)
            await channel.publish(b"good", routing_key="a")
            assert bytes((await receivers[0].receive()).message.payload) == b"good"
            assert not b.router.queues["a"].messages
            assert not b.router.queues["b"].messages
            assert sum(queue.dropped for queue in b.router.queues.values()) == 1

    run(test())


def test_a_headers_exchange_takes_nothing_from_others() -> None:
    """A message that AMQP 0.9.1 cannot have is counted, and everybody else gets it."""

    async def test() -> None:
        async with (
            broker(limits=Limits(dialect="rabbitmq-4.3")) as (b, channel),
            mqtt.connect(b.url("mqtt")) as meter,
        ):
            await meter.subscribe("a")
            await channel.declare_exchange("h", "headers")
            await channel.bind_exchange("h", "amq.topic", "a")
            for queue, exchange, arguments in (
                ("by header", "h", {"x": 1}),
                ("everything", "h", {}),
                ("by key", "amq.topic", {}),
            ):
                await channel.declare_queue(queue)
                await channel.bind_queue(queue, exchange, "a", arguments=arguments)
            # a broker sends none, so the dialect has no place for it
            wrong = Message("a", b"x", retain=True, properties=(("subscription_identifier", 5),))
            assert b.mqtt.publish(wrong) == 0
            assert (await anext(meter.messages())).payload_bytes() == b"x"
            assert [len(b.router.queues[name].messages) for name in ("by header", "everything", "by key")] == [0, 1, 1]
            assert b.mqtt.retained.get("a") is wrong
            assert b.mqtt.counts == {"unconvertible": 1}
            assert b.router.unconvertible == 1

    run(test())


def test_a_dead_letter_that_cannot_be_routed_is_counted() -> None:
    async def test() -> None:
        async with broker() as (b, channel):
            await channel.declare_queue(
                "q",
                arguments={"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "nothing"},
            )
            for _ in range(3):
                await channel.publish(b"x", routing_key="q")
            await until(lambda: b.router.queues["q"].dropped == 3)
            assert not b.queue("q")

    run(test())


def test_bcc_is_for_the_first_exchange_unless_the_keys_stay() -> None:
    """RabbitMQ: x-dead-letter-routing-key takes the place of all keys."""

    async def test() -> None:
        async with broker() as (b, channel):
            await channel.declare_queue("graves")
            await channel.declare_queue("bcc")
            for name, key in (("keyed", {"x-dead-letter-routing-key": "graves"}), ("plain", {})):
                await channel.declare_queue(
                    name, arguments={"x-dead-letter-exchange": "", "x-max-length": 0, "x-overflow": "drop-head", **key}
                )
            properties = amqp091.BasicProperties(headers={"BCC": ["bcc"]})
            await channel.publish(b"1", routing_key="keyed", properties=properties)
            assert [len(b.queue(name)) for name in ("graves", "bcc")] == [1, 1]
            await channel.publish(b"2", routing_key="plain", properties=properties)
            assert [len(b.queue(name)) for name in ("graves", "bcc")] == [1, 3]

    run(test())


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-dead-letter-exchange": ["a"]},
        {"x-dead-letter-exchange": 1},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 5},
        {"x-dead-letter-routing-key": "k"},
        {"x-overflow": "drop-tail"},
        {"x-overflow": [1]},
        {"x-max-length": -1},
        {"x-max-length": True},
        {"x-max-length-bytes": "1"},
        {"x-message-ttl": 315_360_000_001},
        {"x-message-ttl": -1},
        {"x-expires": 315_360_000_001},
        {"x-expires": 0},
        {"x-max-priority": 256},
    ],
)
def test_arguments_of_queues_are_checked(arguments: dict[str, Any]) -> None:
    """RabbitMQ: 406. None of them may fail when the queue is used."""

    async def test() -> None:
        async with broker() as (b, channel):
            with pytest.raises(ClientRefused, match="invalid arg") as refused:
                await channel.declare_queue("q", arguments=arguments)
            assert refused.value.code == 406
            assert not b.router.queues

    run(test())


def test_arguments_of_exchanges_and_bindings_and_expirations_are_checked() -> None:
    async def test() -> None:
        async with Broker(ports=PORTS) as b, amqp091.connect(b.url("amqp")) as client:
            channel = await client.channel()
            with pytest.raises(ClientRefused, match="alternate-exchange"):
                await channel.declare_exchange("e", "fanout", arguments={"alternate-exchange": ["a"]})
            channel = await client.channel()
            await channel.declare_queue("q")
            with pytest.raises(ClientRefused, match="x-match"):
                await channel.bind_queue("q", "amq.headers", arguments={"x-match": "some"})
            for expiration in ("315360000001", "\u0663", "9" * 255, "-1", ""):
                channel = await client.channel()
                properties = amqp091.BasicProperties(expiration=expiration)
                with pytest.raises(ClientRefused, match="invalid expiration") as refused:
                    await channel.publish(b"x", routing_key="q", properties=properties)
                assert refused.value.code == 406
            assert len(b.clients) == 1

    run(test())


# ---- many of everything


class Counting:
    """A consumer that counts how often it is asked (`queues.Consumer`)."""

    unfit: bytes | None = b"unfit"

    def __init__(self, takes: int, together: int = 1) -> None:
        """takes: messages, at most `together` of them in one delivery."""
        self.exclusive = False
        self.priority = 0
        self.takes = takes
        self.together = together
        self.asked = 0
        self.got: list[Item] = []
        self.deliveries: list[int] = []

    def credit(self) -> int:
        self.asked += 1
        return self.takes

    def deliver(self, queue: Queue, items: Sequence[Item], at: int) -> int:
        assert self.takes > 0
        if items[at].body == self.unfit:
            raise ConversionError("not for this protocol", rule="test")
        count = min(self.takes, self.together)
        taken = list(itertools.takewhile(lambda item: item.body != self.unfit, items[at : at + count]))
        if taken[0].body == b"last":
            queue.leave(self)
        self.takes -= len(taken)
        self.got += taken
        self.deliveries.append(len(taken))
        return len(taken)

    def cancelled(self, queue: Queue) -> None: ...

    @property
    def bodies(self) -> list[bytes]:
        return [item.body for item in self.got]


def publication(key: str, exchange: str = "", body: bytes = b"x") -> Published:
    return Published.of(Container(Wire("amqp091", b"\0\0", body), exchange=exchange, routing_key=key))


def publish(router: Router, key: str, exchange: str = "") -> None:
    made = publication(key, exchange)
    router.put(router.route(router.exchanges[exchange], made), made)


def test_consumers_without_room_are_asked_once() -> None:
    router = Router()
    queue = router.make_queue("q")
    blocked = [Counting(0) for _ in range(1000)]
    open_ = Counting(1000)
    for consumer in [*blocked, open_]:
        queue.insert(consumer)
    for _ in range(1000):
        publish(router, "q")
    assert len(open_.got) == 1000
    assert sum(consumer.asked for consumer in blocked) == 1000
    publish(router, "q")
    blocked[7].takes = 1
    queue.wake(blocked[7])
    assert len(blocked[7].got) == 1
    assert not queue.messages


#: How messages reach a consumer: from the queue, where they waited, or at once when they are published.
WAYS = ("waited", "at once")


def offer(way: str, consumer: Counting, bodies: Sequence[bytes], **queue: Any) -> tuple[Queue, list[bytes]]:
    """A queue with these messages, and the consumer for them. Returns the queue and the bodies of its dead letters."""
    router = Router()
    made = router.make_queue("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}, **queue)
    graves = router.make_queue("graves")
    messages = [publication("q", body=body) for body in bodies]
    if way == "waited":
        router.put([made], *messages)
    made.insert(consumer)
    if way == "at once":
        router.put([made], *messages)
    return made, [item.body for item in graves.messages]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("takes", "together", "deliveries"),
    [(9, 1, [1, 1, 1, 1, 1]), (9, 2, [2, 2, 1]), (9, 9, [5]), (4, 3, [3, 1]), (4, 9, [4]), (1, 2, [1])],
)
def test_a_consumer_takes_messages_together(way: str, takes: int, together: int, deliveries: list[int]) -> None:
    consumer = Counting(takes, together)
    bodies = [b"%d" % n for n in range(5)]
    queue, dead = offer(way, consumer, bodies)
    count = sum(deliveries)
    assert (consumer.deliveries, consumer.bodies, dead) == (deliveries, bodies[:count], [])
    assert [item.body for item in queue.messages] == bodies[count:]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("together", [1, 2, 9])
@pytest.mark.parametrize("places", [(0,), (1,), (4,), (0, 1), (1, 3), (0, 1, 2, 3, 4)])
def test_messages_that_a_consumer_cannot_have_are_dead_letters(
    way: str, together: int, places: tuple[int, ...]
) -> None:
    """The other messages reach it, in order."""
    bodies = [b"unfit" if n in places else b"%d" % n for n in range(5)]
    fit = [body for body in bodies if body != b"unfit"]
    consumer = Counting(len(fit) + 1, together)
    queue, dead = offer(way, consumer, bodies)
    assert (consumer.bodies, dead, queue.messages) == (fit, [b"unfit"] * len(places), [])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("auto_delete", [False, True])
def test_a_consumer_that_leaves_while_it_takes(way: str, auto_delete: bool) -> None:
    """The following messages stay in the queue, or are gone with it."""
    consumer = Counting(9)
    queue, dead = offer(way, consumer, [b"1", b"last", b"3", b"4"], auto_delete=auto_delete)
    assert (consumer.bodies, dead, queue.gone) == ([b"1", b"last"], [], auto_delete)
    assert [item.body for item in queue.messages] == ([] if auto_delete else [b"3", b"4"])
    assert queue.router.shares.bytes == sum(item.published.cost + ENTRY for item in queue.messages)


def test_a_message_that_a_consumer_cannot_have_costs_no_turn() -> None:
    router = Router()
    queue = router.make_queue("q")
    consumers = [Counting(9), Counting(9)]
    for consumer in consumers:
        queue.insert(consumer)
    router.put([queue], *[publication("q", body=body) for body in (b"unfit", b"1", b"2", b"unfit", b"3", b"4")])
    assert [consumer.bodies for consumer in consumers] == [[b"1", b"3"], [b"2", b"4"]]
    assert queue.dropped == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_dead_letter_that_fills_the_window_of_its_consumer(way: str) -> None:
    """A consumer of two queues has one window, as with basic.qos for a channel."""
    router = Router()
    source = router.make_queue("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"})
    graves = router.make_queue("graves")
    consumer = Counting(2)

    class Reader(Counting):
        """It reads the dead letters, and has the window of the other consumer."""

        unfit = None

        def deliver(self, queue: Queue, items: Sequence[Item], at: int) -> int:
            consumer.takes = 0
            return super().deliver(queue, items, at)

    graves.insert(Reader(1))
    messages = [publication("q", body=body) for body in (b"unfit", b"next")]
    if way == "waited":
        router.put([source], *messages)
    source.insert(consumer)
    if way == "at once":
        router.put([source], *messages)
    assert not consumer.got
    assert [item.body for item in source.messages] == [b"next"]
    consumer.takes = 1
    source.wake(consumer)
    assert consumer.bodies == [b"next"]


async def dead_lettered(router: Router) -> None:
    """All dead letters have arrived: more than some wait for the next iteration of the event loop."""
    while router._dead:
        await asyncio.sleep(0)


def test_a_chain_of_full_queues() -> None:
    run(_a_chain_of_full_queues())


async def _a_chain_of_full_queues() -> None:
    router = Router()
    count = 2000
    for n in range(count):
        arguments = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"q{n + 1}"}
        router.make_queue(f"q{n}", arguments)
    for n in range(count):
        publish(router, f"q{n}")
    assert not any(queue.dropped for queue in router.queues.values())
    publish(router, "q0")
    await dead_lettered(router)
    assert [len(queue.messages) for queue in router.queues.values()] == [1] * count
    assert router.queues[f"q{count - 1}"].dropped == 1


def test_queues_that_dead_letter_to_each_other_multiply_no_message() -> None:
    """Without a bound a message takes every way through them, and there are more than 10! of them."""
    run(_queues_that_dead_letter_to_each_other())


async def _queues_that_dead_letter_to_each_other() -> None:
    router = Router(Limits(queues=12))
    router.exchanges["all"] = all_ = Exchange("all", "fanout")
    for n in range(12):
        queue = router.make_queue(f"q{n}", {"x-max-length": 0, "x-dead-letter-exchange": "all"})
        router.bind(all_, (queue, "", b""), {})
    publish(router, "q0")
    await dead_lettered(router)
    assert router.shares.bytes == 0
    assert 0 < sum(queue.dropped for queue in router.queues.values()) < 100_000


def test_dead_letters_keep_to_the_limit_of_all_queues() -> None:
    router = Router(Limits(memory=10_000 + 5 * (ENTRY + CONTAINER)))
    router.exchanges["all"] = all_ = Exchange("all", "fanout")
    source = router.make_queue("source", {"x-dead-letter-exchange": "all"})
    for n in range(10):
        router.bind(all_, (router.make_queue(f"q{n}"), "", b""), {})
    made = publication("source", body=bytes(1998))  # 2,000 with its properties
    router.put([source], made)
    router.dead_letter(source, source._waiting.take(), "rejected")
    assert router.shares.bytes == 10_000 + 5 * (ENTRY + CONTAINER)
    assert sum(len(queue.messages) for queue in router.queues.values()) == 4  # and the one that was taken out by hand
    assert sum(queue.dropped for queue in router.queues.values()) == 6


def test_a_chain_of_exchanges_that_delete_themselves() -> None:
    router = Router()
    chain = [Exchange(f"e{n}", "fanout", auto_delete=True) for n in range(3000)]
    router.exchanges |= {exchange.name: exchange for exchange in chain}
    for source, destination in itertools.pairwise(chain):
        router.bind(source, (destination, "", b""), {})
    queue = router.make_queue("q")
    router.bind(chain[-1], (queue, "", b""), {})
    router.delete_queue(queue)
    assert router.exchanges.keys() == PREDECLARED.keys()


def test_many_queues_and_bindings() -> None:
    """Nothing looks at all bindings: a tenth of this would take minutes then."""
    router = Router()
    topic, direct = router.exchanges["amq.topic"], router.exchanges["amq.direct"]
    queues = [router.make_queue(f"q{n}") for n in range(10_000)]
    for n, queue in enumerate(queues):
        for k, pattern in enumerate(("a.{}.b", "a.*.{}.#", "#.{}", "#.x{}.#", "{}")):
            router.bind(topic, (queue, pattern.format(n), b""), {})
            router.bind(direct, (queue, f"{n}.{k}", b""), {})
    with pytest.raises(Refusal, match="too many bindings"):
        router.bind(direct, (queues[0], "more", b""), {})
    for n, queue in enumerate(queues):
        for key in (f"a.{n}.b", f"a.z.{n}.z.z", f"z.z.{n}", f"z.x{n}.z", f"{n}"):
            assert router.route(topic, publication(key)) == [queue]
        assert router.route(direct, publication(f"{n}.3")) == [queue]
    for queue in queues:
        router.delete_queue(queue)
    assert not topic.bindings
    assert not direct.bindings
    router.bind(direct, (router.make_queue("q"), "more", b""), {})


def test_exclusive_queues_go_with_their_owner() -> None:
    router = Router()
    mine, yours = object(), object()
    for n in range(3):
        router.make_queue(f"mine{n}", owner=mine)
    router.make_queue("yours", owner=yours)
    router.make_queue("all")
    router.delete_queue(router.queues["mine1"])
    router.release(mine)
    assert set(router.queues) == {"yours", "all"}
    router.release(mine)


# ---- passwords


@pytest.mark.parametrize(
    ("user", "given", "right"),
    [
        ("ann", "secret", True),
        ("ann", b"secret", True),
        ("zoe", "", True),
        ("ann", "Secret", False),
        ("ann", "", False),
        ("ann", None, False),
        ("zoe", None, False),
        ("bob", "secret", False),
        ("bob", "", False),
        ("émile", "é\udcff", True),
    ],
)
def test_passwords(user: str, given: str | bytes | None, right: bool) -> None:
    users = {"ann": "secret", "zoe": "", "émile": "é\udcff"}
    assert is_password(users, user, given) is right
    assert user_of({"ann": "secret", "b": "secret"}, b"secret") == "ann"
    assert user_of({"ann": "secret", "b": "t"}, b"other") is None
    assert user_of({}, b"") is None


def test_a_message_that_one_queue_refuses_goes_to_the_others() -> None:
    """RabbitMQ: the publisher receives a refusal, and the other queues get it."""

    async def test() -> None:
        async with broker() as (b, channel), amqp10.connect(b.url("amqp10")) as new:
            await channel.declare_queue("small", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
            await channel.declare_queue("large")
            for name in ("small", "large"):
                await channel.bind_queue(name, "amq.fanout")
            await channel.publish(b"1", exchange="amq.fanout")
            with pytest.raises(ClientRefused):
                await channel.publish(b"2", exchange="amq.fanout")
            sender = await new.sender("/exchanges/amq.fanout")
            with pytest.raises(ClientRefused, match="limit"):
                await sender.send(message("3"))
            assert [len(b.queue(name)) for name in ("small", "large")] == [1, 3]

    run(test())
