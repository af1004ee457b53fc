"""The AMQP 0.9.1 broker in memory: exchanges, queues and their arguments, as in the specification and RabbitMQ."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lib import amqp_wire
from lib.loopback import HOST, run, until
from wirefmt import amqp091
from wirefmt.broker.amqp091 import Broker
from wirefmt.broker.bindings import headers_match, topic_matches
from wirefmt.broker.limits import ENTRY, Limits
from wirefmt.broker.messages import ENVELOPE
from wirefmt.errors import Refused


@contextlib.asynccontextmanager
async def connected(
    limits: Limits | None = None,
) -> AsyncIterator[tuple[Broker, amqp091.Client, amqp091.Channel]]:
    broker = Broker(limits=limits)
    async with (
        await amqp091.serve(broker, HOST, 0) as server,
        amqp091.connect(f"amqp://{HOST}:{server.port}") as client,
    ):
        yield broker, client, await client.channel()
    broker.close()


async def bodies(channel: amqp091.Channel, queue: str) -> list[bytes]:
    found = []
    while (message := await channel.get(queue, no_ack=True)) is not None:
        found.append(message.body)
    return found


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("*.stock.#", "usd.stock", True),  # the three of 3.1.3.3
        ("*.stock.#", "eur.stock.db", True),
        ("*.stock.#", "stock.nasdaq", False),
        ("#", "", True),
        ("#", "a.b.c", True),
        ("", "", True),
        ("", "a", False),
        ("*", "a", True),
        ("*", "", False),
        ("*", "a.b", False),
        ("a.*.b", "a..b", True),
        ("#.b", "b", True),
        ("#.b", "a.a.b", True),
        ("#.b", "a.b.c", False),
        ("a.#.b.#.c", "a.x.b.b.y.c", True),
        ("a.#.*", "a", False),
        ("a", "A", False),
    ],
)
def test_topics(pattern: str, key: str, matches: bool) -> None:
    assert topic_matches(pattern, key) is matches


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 2}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"b": "x"}, True),
        ({"x-match": "any", "a": 1}, {"a": 2}, False),
        ({"a": 1}, {"a": 1}, True),  # all is usual
        ({"a": None}, {"a": 5}, True),  # a value of type V: the header must be there
        ({"x-match": "all", "x-own": 1}, {}, True),
        ({"x-match": "all-with-x", "x-own": 1}, {}, False),
        ({}, {"a": 1}, True),
    ],
)
def test_headers(arguments: dict[str, Any], headers: dict[str, Any], matches: bool) -> None:
    assert headers_match(arguments, headers) is matches


def test_exchanges_of_every_type_and_bindings_between_them() -> None:
    async def test() -> None:
        async with connected() as (_, _, channel):
            for name in ("q1", "q2", "q3", "q4"):
                await channel.declare_queue(name)
            for kind in ("direct", "fanout", "topic", "headers"):
                await channel.declare_exchange(kind, kind)
            await channel.bind_queue("q1", "direct", "k")
            await channel.bind_queue("q2", "topic", "a.*")
            await channel.bind_queue("q3", "headers", arguments={"h": 1})
            await channel.bind_exchange("topic", "fanout")
            await channel.bind_queue("q4", "fanout")
            await channel.bind_queue("q4", "fanout", "again")  # a message comes once
            await channel.publish(b"1", exchange="direct", routing_key="k")
            await channel.publish(b"2", exchange="direct", routing_key="other")
            await channel.publish(b"3", exchange="fanout", routing_key="a.b")
            properties = amqp091.BasicProperties(headers={"h": 1})
            await channel.publish(b"4", exchange="headers", properties=properties)
            await channel.publish(b"5", exchange="amq.direct", routing_key="k")
            assert [await bodies(channel, q) for q in ("q1", "q2", "q3", "q4")] == [[b"1"], [b"3"], [b"4"], [b"3"]]
            await channel.unbind_exchange("topic", "fanout")
            await channel.publish(b"6", exchange="fanout", routing_key="a.b")
            assert await bodies(channel, "q2") == []

    run(test())


@pytest.mark.parametrize(
    ("cls", "fields", "code"),
    [
        (amqp091.ExchangeDeclare, {"exchange": "amq.mine"}, 403),
        (amqp091.ExchangeDeclare, {"exchange": ""}, 403),
        (amqp091.ExchangeDeclare, {"exchange": "", "passive": True}, 403),
        (amqp091.ExchangeDeclare, {"exchange": "amq.direct", "type": "topic"}, 406),
        (amqp091.ExchangeDeclare, {"exchange": "e", "type": "strange"}, 406),
        (amqp091.ExchangeDeclare, {"exchange": "gone", "passive": True}, 404),
        (amqp091.ExchangeDelete, {"exchange": "amq.direct"}, 403),
        (amqp091.QueueDeclare, {"queue": "amq.mine"}, 403),
        (amqp091.QueueDeclare, {"queue": "gone", "passive": True}, 404),
        (amqp091.QueueDeclare, {"queue": "q", "durable": True}, 406),
        (amqp091.QueueDeclare, {"queue": "q", "arguments": {"x-max-length": 5}}, 406),
        (amqp091.QueueDeclare, {"queue": "x", "arguments": {"x-max-length": "five"}}, 406),
        (amqp091.QueueDeclare, {"queue": "locked"}, 405),
        (amqp091.QueueDeclare, {"queue": "q", "exclusive": True}, 405),
        (amqp091.QueueDeclare, {"queue": "own", "durable": True}, 405),
        (amqp091.QueueBind, {"queue": "q", "exchange": "gone"}, 404),
        (amqp091.QueueBind, {"queue": "gone", "exchange": "amq.direct"}, 404),
        (amqp091.QueueBind, {"queue": "q", "exchange": ""}, 403),
        (amqp091.QueueDelete, {"queue": "q", "if_empty": True}, 406),
        (amqp091.QueueDelete, {"queue": "locked"}, 405),
        (amqp091.QueuePurge, {"queue": "gone"}, 404),
        (amqp091.BasicConsume, {"queue": "gone"}, 404),
        (amqp091.BasicConsume, {"queue": "locked"}, 405),
        (amqp091.BasicConsume, {"queue": "consumed", "exclusive": True}, 403),
        (amqp091.BasicGet, {"queue": "gone"}, 404),
        (amqp091.BasicGet, {"queue": "locked"}, 405),
    ],
)
def test_codes(cls: Any, fields: dict[str, Any], code: int) -> None:
    async def test() -> None:
        async with connected() as (_, client, channel):
            await channel.declare_queue("q")
            await channel.publish(b"x", routing_key="q")
            await channel.declare_queue("consumed")
            await channel.consume("consumed")
            url = f"amqp://{HOST}:{client._addresses[0].port}"
            async with amqp091.connect(url) as other:
                owner = await other.channel()
                await owner.declare_queue("locked", exclusive=True)
                await channel.declare_queue("own", exclusive=True)
                with pytest.raises(Refused) as refused:
                    await channel.call(cls, **fields)
                assert refused.value.code == code

    run(test())


@pytest.mark.parametrize(
    ("properties", "code"),
    [({"user_id": "someone"}, 406), ({"expiration": "soon"}, 406), ({"user_id": "guest", "expiration": "1000"}, None)],
)
def test_properties_of_publishes(properties: dict[str, Any], code: int | None) -> None:
    async def test() -> None:
        async with connected() as (_, _, channel):
            publishing = channel.publish(b"", routing_key="q", properties=amqp091.BasicProperties(**properties))
            if code is None:
                await publishing
            else:
                with pytest.raises(Refused) as refused:
                    await publishing
                assert refused.value.code == code

    run(test())


def test_what_is_not_there_is_deleted_and_unbound_in_peace() -> None:
    async def test() -> None:
        async with connected() as (_, _, channel):
            assert await channel.delete_queue("gone") == 0
            await channel.delete_exchange("gone")
            await channel.unbind_queue("gone", "amq.direct")

    run(test())


def test_time_to_live_and_dead_letters() -> None:
    async def test() -> None:
        async with connected() as (broker, _, channel):
            await channel.declare_exchange("dead", "fanout")
            await channel.declare_queue("graves")
            await channel.bind_queue("graves", "dead")
            letters = {"x-dead-letter-exchange": "dead"}
            await channel.declare_queue("short", arguments={**letters, "x-message-ttl": 1})
            await channel.declare_queue("two", arguments={**letters, "x-max-length": 2})
            await channel.declare_queue("plain", arguments={**letters, "x-dead-letter-routing-key": "other"})
            await channel.publish(b"expired", routing_key="short")
            graves = broker.hosts["/"].queues["graves"]
            await until(lambda: len(graves.messages) == 1)
            for body in (b"1", b"2", b"3"):
                await channel.publish(body, routing_key="two")
            assert await bodies(channel, "two") == [b"2", b"3"]
            await channel.publish(b"rejected", routing_key="plain")
            message = await channel.get("plain")
            assert message is not None
            message.reject()
            await until(lambda: len(graves.messages) == 3)
            found = []
            while (message := await channel.get("graves", no_ack=True)) is not None:
                headers = message.properties.headers
                assert headers is not None
                death = headers["x-death"][0]
                found.append((message.body, message.routing_key, death["reason"], death["queue"]))
            assert found == [
                (b"expired", "short", "expired", "short"),
                (b"1", "two", "maxlen", "two"),
                (b"rejected", "other", "rejected", "plain"),
            ]

    run(test())


def test_a_cycle_of_dead_letters_ends() -> None:
    async def test() -> None:
        async with connected() as (broker, _, channel):
            arguments = {"x-dead-letter-exchange": "", "x-message-ttl": 1}
            await channel.declare_queue("a", arguments={**arguments, "x-dead-letter-routing-key": "b"})
            await channel.declare_queue("b", arguments={**arguments, "x-dead-letter-routing-key": "a"})
            await channel.publish(b"x", routing_key="a")
            queues = broker.hosts["/"].queues
            await until(lambda: not queues["a"].messages and not queues["b"].messages)

    run(test())


def test_priorities_and_places() -> None:
    async def test() -> None:
        async with connected() as (_, _, channel):
            await channel.declare_queue("q", arguments={"x-max-priority": 5})
            for priority in (0, 3, 9, 3):
                properties = amqp091.BasicProperties(priority=priority)
                await channel.publish(b"%d" % priority, routing_key="q", properties=properties)
            first = await channel.get("q")
            assert first is not None
            assert first.body == b"9"
            first.nack()  # to its old place
            assert await bodies(channel, "q") == [b"9", b"3", b"3", b"0"]

    run(test())


def test_consumers_take_turns_and_higher_priorities_come_first() -> None:
    async def test() -> None:
        async with connected() as (_, client, channel):
            await channel.declare_queue("q")
            one = await (await client.channel(prefetch=2)).consume("q")
            two = await (await client.channel(prefetch=2)).consume("q")
            await channel.publish_many((b"%d" % k, "", "q", None, False) for k in range(4))
            assert [(await anext(one)).body, (await anext(two)).body] == [b"0", b"1"]
            first = await (await client.channel(prefetch=1)).consume("q", arguments={"x-priority": 10})
            await channel.publish_many((b"%d" % k, "", "q", None, False) for k in range(4, 6))
            assert (await anext(first)).body == b"4"

    run(test())


def test_exclusive_and_auto_delete_queues_go() -> None:
    async def test() -> None:
        async with connected() as (broker, client, channel):
            queues = broker.hosts["/"].queues
            await channel.declare_queue("mine", exclusive=True)
            await channel.declare_queue("auto", auto_delete=True)
            consumer = await channel.consume("auto")
            assert set(queues) == {"mine", "auto"}
            await consumer.cancel()
            assert set(queues) == {"mine"}
            await client.close()
            await until(lambda: not queues)

    run(test())


def test_deliveries_of_a_client_that_is_gone_come_again() -> None:
    async def test() -> None:
        async with connected() as (_, client, channel):
            await channel.declare_queue("q")
            await channel.publish_many((b"%d" % k, "", "q", None, False) for k in range(5))
            other = amqp091.connect(f"amqp://{HOST}:{client._addresses[0].port}")
            await other.open()
            consumer = await (await other.channel(prefetch=3)).consume("q")
            (await anext(consumer)).ack()
            link = other._link
            assert link is not None
            await anext(consumer)
            await channel.declare_queue("q")
            link.driver.abort()
            await other.close()
            consumer = await channel.consume("q")
            found = [await anext(consumer) for _ in range(4)]
            assert [message.body for message in found] in ([b"1", b"2", b"3", b"4"], [b"0", b"1", b"2", b"3"])
            assert found[0].redelivered

    run(test())


def test_queues_are_bounded() -> None:
    async def test() -> None:
        for overflow in ("refuse", "drop_oldest"):
            options = Limits(queue_messages=3, queues=2, client_share=1, user_share=1, overflow=overflow)
            async with connected(options) as (broker, client, channel):
                await channel.declare_queue("q")
                results = await asyncio.gather(
                    *(channel.publish(b"%d" % k, routing_key="q") for k in range(5)), return_exceptions=True
                )
                refused = sum(isinstance(result, Refused) for result in results)
                assert refused == (2 if overflow == "refuse" else 0)
                kept = await bodies(channel, "q")
                assert kept == ([b"0", b"1", b"2"] if overflow == "refuse" else [b"2", b"3", b"4"])
                await channel.declare_queue("q2")
                with pytest.raises(Refused):
                    await channel.declare_queue("q3")
                plain = await client.channel(confirms=False)
                for _ in range(5):
                    await plain.publish(b"x", routing_key="q")
                await plain.declare_queue("q")
                assert broker.dropped == (2 if overflow == "refuse" else 0)

    run(test())


async def opened_by_hand(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """An open connection with channel 1, whose bytes the test writes."""
    reader, writer = await asyncio.open_connection(HOST, port)
    opening = amqp091.ConnectionOpen(virtual_host="/").encode() + amqp091.ChannelOpen(channel=1).encode()
    for octets, last in (
        (amqp_wire.HEADER_091, amqp091.ConnectionStart),
        (
            amqp091.ConnectionStartOk(client_properties={}, response=b"\0guest\0guest").encode(),
            amqp091.ConnectionTune,
        ),
        (
            amqp091.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0).encode() + opening,
            amqp091.ChannelOpenOk,
        ),
    ):
        writer.write(octets)
        await answers(reader, last)
    return reader, writer


async def answers(reader: asyncio.StreamReader, last: type[Any]) -> list[Any]:
    """Read the broker's frames up to a method. Returns them."""
    assembler, said = amqp091.Assembler(side="server"), list[Any]()
    while not said or type(said[-1]) is not last:
        octets = await reader.read(65536)
        assert octets, said
        said += assembler.feed(octets)
    return said


def by_hand(routing_key: str, octets: bytes, *, mandatory: bool = False) -> bytes:
    method = amqp091.BasicPublish(channel=1, exchange="", routing_key=routing_key, mandatory=mandatory)
    return method.encode() + amqp_wire.header(1, len(octets)) + (amqp_wire.body(1, octets) if octets else b"")


@pytest.mark.parametrize(
    "last",
    [
        amqp091.QueueDeclare(channel=1, queue="q", passive=True),
        amqp091.QueueDeclare(channel=1, queue="q"),
        amqp091.QueueDelete(channel=1, queue="q"),
        amqp091.BasicGet(channel=1, queue="q"),
        amqp091.BasicConsume(channel=1, queue="amq.none"),
        amqp091.BasicConsume(channel=1, queue="there"),
    ],
)
def test_what_a_client_sends_right_before_it_closes_the_connection_needs_no_answer(last: Any) -> None:
    """4.2.2: pipelined with connection.close, so that the connection is over when the broker handles it."""

    async def test() -> None:
        broker = Broker()
        broker.hosts["/"].make_queue("there")
        reports: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
        async with await amqp091.serve(broker, HOST, 0) as server:
            reader, writer = await opened_by_hand(server.port)
            lost = amqp_wire.publish(1, "gone", "k") + amqp_wire.header(1, 1) + amqp_wire.body(1, b"x")
            kept = amqp_wire.publish(1, "", "there") + amqp_wire.header(1, 1) + amqp_wire.body(1, b"y")
            close = amqp091.ConnectionClose(reply_code=200, class_id=0, method_id=0)
            writer.write(kept + last.encode() + lost + close.encode())
            said = await reader.read()  # until the broker closes
            writer.close()
            assert said.endswith(amqp091.ConnectionCloseOk().encode())
        assert not reports
        (item,) = broker.hosts["/"].queues["there"].messages
        assert item.published.container.to("amqp091").body == b"y"
        broker.close()

    run(test())


@pytest.mark.parametrize(
    "fields", [{"exchange": "", "routing_key": b"a.\xff"}, {"exchange": b"\xff", "routing_key": "a"}]
)
def test_a_publish_names_its_exchange_and_key_in_utf8(fields: dict[str, Any]) -> None:
    """4.2.5.3: a short string is UTF-8. What is not was routed, and delivered, as the repr of its bytes."""

    async def test() -> None:
        broker = Broker()
        async with await amqp091.serve(broker, HOST, 0) as server:
            reader, writer = await opened_by_hand(server.port)
            writer.write(amqp091.BasicPublish(channel=1, **fields).encode() + amqp_wire.header(1, 0))
            close = (await answers(reader, amqp091.ConnectionClose))[-1]
            assert (close.reply_code, close.class_id, close.method_id) == (502, 60, 40)
            assert "UTF-8" in close.reply_text
            writer.close()
        broker.close()

    run(test())


def test_a_message_before_tx_select_is_not_of_the_transaction() -> None:
    """4.7, 1.9.2.1: methods of a channel take effect in their order, even if they arrive in one read."""

    async def test() -> None:
        broker = Broker()
        queue = broker.hosts["/"].make_queue("q")
        async with await amqp091.serve(broker, HOST, 0) as server:
            reader, writer = await opened_by_hand(server.port)
            select, rollback = amqp091.TxSelect(channel=1).encode(), amqp091.TxRollback(channel=1).encode()
            writer.write(by_hand("q", b"before") + select + by_hand("q", b"undone") + rollback)
            await answers(reader, amqp091.TxRollbackOk)
            assert [item.body for item in queue.messages] == [b"before"]
            writer.write(by_hand("q", b"kept") + select + amqp091.TxCommit(channel=1).encode())
            await answers(reader, amqp091.TxCommitOk)
            assert [item.body for item in queue.messages] == [b"before", b"kept"]
            writer.close()
        broker.close()

    run(test())


def test_a_message_before_confirm_select_has_no_confirm() -> None:
    """The first message after confirm.select has the number 1 (RabbitMQ), even if others came before it in the same read. An
    unroutable message from before is returned."""

    async def test() -> None:
        broker = Broker()
        broker.hosts["/"].make_queue("q")
        async with await amqp091.serve(broker, HOST, 0) as server:
            reader, writer = await opened_by_hand(server.port)
            writer.write(
                by_hand("gone", b"1", mandatory=True)
                + by_hand("q", b"2")
                + amqp091.ConfirmSelect(channel=1).encode()
                + by_hand("gone", b"3", mandatory=True)
                + by_hand("q", b"4")
            )
            said: list[Any] = []
            while not any(type(message) is amqp091.BasicAck and message.delivery_tag == 2 for message in said):
                said += await answers(reader, amqp091.BasicAck)
            returned = [message.body_bytes() for message in said if type(message) is amqp091.BasicMessage]
            assert returned == [b"1", b"3"]
            assert [type(message) for message in said].count(amqp091.ConfirmSelectOk) == 1
            assert {m.delivery_tag for m in said if type(m) is amqp091.BasicAck} <= {1, 2}
            writer.close()
        broker.close()

    run(test())


@pytest.mark.parametrize(
    ("limits", "bodies"),
    [
        (Limits(queue_messages=2), [b"", b"", b""]),
        (Limits(queue_bytes=10_000), [bytes(5000), bytes(6000)]),
        (Limits(memory=10_000, client_share=1, user_share=1), [bytes(5000), bytes(6000)]),
    ],
)
def test_messages_of_a_transaction_have_a_limit(limits: Limits, bodies: list[bytes]) -> None:
    """The channel is closed, and the messages of the transaction no longer count."""

    async def test() -> None:
        broker = Broker(limits=limits)
        router = broker.hosts["/"]
        queue = router.make_queue("q")
        async with await amqp091.serve(broker, HOST, 0) as server:
            reader, writer = await opened_by_hand(server.port)
            writer.write(amqp091.TxSelect(channel=1).encode())
            for octets in bodies[:-1]:
                writer.write(by_hand("q", octets))
            writer.write(amqp091.BasicQos(channel=1).encode())  # the broker has handled everything before it
            await answers(reader, amqp091.BasicQosOk)
            assert router.shares.bytes >= sum(map(len, bodies[:-1]))
            writer.write(by_hand("q", bodies[-1]))
            (close,) = await answers(reader, amqp091.ChannelClose)
            assert close.reply_code == 406
            assert (close.class_id, close.method_id) == (60, 40)
            assert (router.shares.bytes, queue.count) == (0, 0)
            again = amqp091.ChannelCloseOk(channel=1).encode() + amqp091.ChannelOpen(channel=1).encode()
            commit = (
                amqp091.TxSelect(channel=1).encode() + by_hand("q", bodies[0]) + amqp091.TxCommit(channel=1).encode()
            )
            writer.write(again + commit)
            await answers(reader, amqp091.TxCommitOk)
            assert queue.count == 1
            in_queue = router.shares.bytes
            writer.write(by_hand("q", b"x") + amqp091.BasicQos(channel=1).encode())
            await answers(reader, amqp091.BasicQosOk)
            assert router.shares.bytes > in_queue
            writer.close()  # the transaction ends with its connection
            await until(lambda: router.shares.bytes == in_queue)
        broker.close()

    run(test())


async def in_one_read(port: int, octets: bytes, last: type[Any]) -> list[Any]:
    """Send bytes in one write on a new connection. Returns the broker's frames up to a method."""
    reader, writer = await opened_by_hand(port)
    writer.write(octets)
    said = await answers(reader, last)
    writer.close()
    return said


def given(routing_key: str, octets: bytes, **properties: Any) -> bytes:
    method = amqp091.BasicPublish(channel=1, exchange="", routing_key=routing_key)
    return amqp091.BasicMessage(method, amqp091.BasicProperties(**properties), octets).encode()


def test_messages_of_one_read_keep_what_is_their_own() -> None:
    """Messages of one read are routed together only if they have the same destinations, priority and expiration."""

    async def test() -> None:
        broker = Broker()
        router = broker.hosts["/"]
        queue, copies = router.make_queue("q", {"x-max-priority": 9}), router.make_queue("copies")
        messages: list[dict[str, Any]] = [
            {},
            {"message_id": "1"},
            {"message_id": "2", "priority": 5},
            {"headers": {"CC": ["copies"]}},
            {"headers": {"h": 1}},
            {"expiration": "3600000"},
            {"message_id": "6"},
            {"message_id": "6"},
        ]
        async with await amqp091.serve(broker, HOST, 0) as server:
            octets = b"".join(given("q", b"%d" % k, **properties) for k, properties in enumerate(messages))
            await in_one_read(server.port, octets + amqp091.BasicQos(channel=1).encode(), amqp091.BasicQosOk)
            await until(lambda: queue.count == len(messages))
            assert [item.body for item in copies.messages] == [b"3"]
            assert [item.body for item in queue.messages] == [b"2", b"0", b"1", b"3", b"4", b"5", b"6", b"7"]
            assert [item.body for item in queue.messages if item.expires is not None] == [b"5"]
            for item in queue.messages:
                properties, _ = item.for_amqp091()
                assert properties == amqp091.BasicProperties(**messages[int(item.body)])
        broker.close()

    run(test())


@pytest.mark.parametrize("wrong", [{"expiration": "soon"}, {"user_id": "ann"}, {"headers": {"CC": 5}}])
def test_a_message_that_is_refused_among_others(wrong: dict[str, Any]) -> None:
    """The messages before it are published. It closes the channel, so the messages after it are not."""

    async def test() -> None:
        broker = Broker()
        queue = broker.hosts["/"].make_queue("q")
        async with await amqp091.serve(broker, HOST, 0) as server:
            octets = [given("q", b"%d" % k, **(wrong if k == 3 else {})) for k in range(6)]
            close = (await in_one_read(server.port, b"".join(octets), amqp091.ChannelClose))[-1]
            assert close.reply_code == 406
            assert [item.body for item in queue.messages] == [b"0", b"1", b"2"]
        broker.close()

    run(test())


@pytest.mark.parametrize(
    "limits",
    [
        Limits(queue_messages=3),
        Limits(queue_bytes=1000),
        Limits(memory=1000 + 3 * ENTRY + ENVELOPE, client_share=1, user_share=1),
    ],
)
def test_messages_of_one_read_for_which_there_is_no_room(limits: Limits) -> None:
    """The broker accepts as many messages as there is space for, and refuses the others."""

    async def test() -> None:
        broker = Broker(limits=limits)
        queue = broker.hosts["/"].make_queue("q")
        async with await amqp091.serve(broker, HOST, 0) as server:
            octets = b"".join(given("q", bytes([k]) * 300) for k in range(5))
            reader, writer = await opened_by_hand(server.port)
            writer.write(amqp091.ConfirmSelect(channel=1).encode() + octets)
            said: list[Any] = []
            while not said or said[-1].delivery_tag != 5:
                said += await answers(reader, amqp091.BasicNack)
            assert [message.delivery_tag for message in said if type(message) is amqp091.BasicNack] == [4, 5]
            assert [item.body[0] for item in queue.messages] == [0, 1, 2]
            writer.close()
        broker.close()

    run(test())


@pytest.mark.parametrize("no_ack", [True, False])
def test_consumers_get_messages_of_one_read_in_turn(no_ack: bool) -> None:
    """RabbitMQ: consumers take turns, even for messages of one write. None gets more than its prefetch."""

    async def test() -> None:
        broker = Broker()
        queue = broker.hosts["/"].make_queue("q")
        async with await amqp091.serve(broker, HOST, 0) as server:
            consumers = []
            for _ in range(2):
                reader, writer = await opened_by_hand(server.port)
                writer.write(
                    amqp091.BasicQos(channel=1, prefetch_count=2).encode()
                    + amqp091.BasicConsume(channel=1, queue="q", consumer_tag="c", no_ack=no_ack).encode()
                )
                await answers(reader, amqp091.BasicConsumeOk)
                consumers.append((reader, writer))
            octets = b"".join(given("q", b"%d" % k, message_id=str(k % 3)) for k in range(6))
            await in_one_read(server.port, octets + amqp091.BasicQos(channel=1).encode(), amqp091.BasicQosOk)
            await until(lambda: queue.count == (0 if no_ack else 2))
            for number, (reader, writer) in enumerate(consumers):
                expected = [b"%d" % k for k in range(number, 6 if no_ack else 4, 2)]
                got: list[Any] = []
                while len(got) < len(expected):
                    got += await answers(reader, amqp091.BasicMessage)
                assert [message.body_bytes() for message in got] == expected
                assert [message.properties.message_id for message in got] == [str(int(body) % 3) for body in expected]
                assert [message.method.delivery_tag for message in got] == list(range(1, len(got) + 1))
                writer.close()
        broker.close()

    run(test())


def test_a_consumer_that_falls_behind_gets_everything_in_order() -> None:
    """Messages wait in the queue, in the connection and in the transport. None is lost or reordered."""

    async def test() -> None:
        broker = Broker()
        queue = broker.hosts["/"].make_queue("q")
        async with (
            await amqp091.serve(broker, HOST, 0) as server,
            amqp091.connect(f"amqp://{HOST}:{server.port}") as client,
        ):
            channel = await client.channel(confirms=False)
            await channel.qos(50)
            count, size = 600, 5000
            for k in range(count):
                await channel.publish(b"%06d" % k + bytes(size), routing_key="q", properties=PROPERTIES[k % 3])
            await until(lambda: queue.count == count)
            consumer = await channel.consume("q")
            for k in range(count):
                message = await anext(consumer)
                assert message.body[:6] == b"%06d" % k
                assert message.properties == PROPERTIES[k % 3]
                message.ack()
            assert not queue.count
        broker.close()

    run(test())


PROPERTIES = [
    amqp091.BasicProperties(),
    amqp091.BasicProperties(message_id="m"),
    amqp091.BasicProperties(headers={"h": 1}),
]


def test_a_queued_message_does_not_keep_what_was_read_with_it() -> None:
    """`Limits` count the bytes of messages. A message must not take more memory than its own bytes."""

    async def test() -> None:
        broker = Broker()
        queue = broker.hosts["/"].make_queue("q")
        async with await amqp091.serve(broker, HOST, 0) as server:
            rounds, lost = 300, given("gone", bytes(100_000))
            tracemalloc.start()
            try:
                reader, writer = await opened_by_hand(server.port)
                for _ in range(rounds):
                    writer.write(given("q", b"x", message_id="m") + lost + amqp091.BasicQos(channel=1).encode())
                    await answers(reader, amqp091.BasicQosOk)
                assert queue.count == rounds
                kept, _ = tracemalloc.get_traced_memory()
                writer.close()
            finally:
                tracemalloc.stop()
            assert kept < 5_000_000
        broker.close()

    run(test())
