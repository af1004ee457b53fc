"""The AMQP 0.9.1 broker in memory beside RabbitMQ 4 and the tests of its Java client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lib.kinds import checked
from lib.loopback import HOST, run, until
from wirefmt import amqp091, amqp10
from wirefmt import broker as brokers
from wirefmt.amqp091.spec import PROTOCOL_HEADER
from wirefmt.broker.amqp091 import Broker, BrokerOptions
from wirefmt.broker.permissions import Permissions
from wirefmt.errors import Refused

REPLY_TO = "amq.rabbitmq.reply-to"


class Raw:
    """A client by hand, with channel 1 open: nothing is sent, answered or left out that the test does not ask for."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    start: Any

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(
        cls, port: int, *, frame_max: int = 131_072, mechanism: str = "PLAIN", response: bytes = b"\0guest\0guest"
    ) -> AsyncIterator[Raw]:
        raw = cls()
        raw.reader, raw.writer = await asyncio.open_connection(HOST, port)
        raw.assembler = amqp091.Assembler(side="server", frame_max=0)
        raw.writer.write(PROTOCOL_HEADER)
        raw.start = await raw.expect(amqp091.ConnectionStart)
        raw.send(
            amqp091.ConnectionStartOk(client_properties={}, mechanism=mechanism, response=response, locale="en_US"),
            amqp091.ConnectionTuneOk(channel_max=100, frame_max=frame_max, heartbeat=0),
            amqp091.ConnectionOpen(virtual_host="/"),
            amqp091.ChannelOpen(channel=1),
        )
        await raw.expect(amqp091.ChannelOpenOk)
        try:
            yield raw
        finally:
            raw.writer.close()
            with contextlib.suppress(OSError):
                await raw.writer.wait_closed()

    def __init__(self) -> None:
        self.assembler: Any = None
        self.got: list[Any] = []

    def send(self, *messages: Any) -> None:
        self.writer.write(b"".join(message if isinstance(message, bytes) else message.encode() for message in messages))

    async def next(self) -> Any:
        while not self.got:
            data = await asyncio.wait_for(self.reader.read(1 << 20), 5)
            assert data, "the stream has ended"
            self.got += self.assembler.feed(data)
        return self.got.pop(0)

    async def expect(self, kind: type[Any]) -> Any:
        """The next message of this kind."""
        while not isinstance(message := await self.next(), kind):
            pass
        return message

    async def until_close(self) -> list[Any]:
        """All that comes up to channel.close or connection.close."""
        found = [await self.next()]
        while not isinstance(found[-1], amqp091.ChannelClose | amqp091.ConnectionClose):
            found.append(await self.next())
        return found


@contextlib.asynccontextmanager
async def connected(broker: Broker | None = None) -> AsyncIterator[tuple[Broker, amqp091.Client, int]]:
    broker = broker or Broker()
    server = await amqp091.serve(broker, HOST, 0, mechanisms=broker.mechanisms, properties=broker.properties)
    async with server, amqp091.connect(f"amqp://{HOST}:{server.port}") as client:
        yield broker, client, server.port
    broker.close()


def published(routing_key: str, octets: bytes = b"x", *, exchange: str = "", **properties: Any) -> bytes:
    method = amqp091.BasicPublish(channel=1, exchange=exchange, routing_key=routing_key)
    return amqp091.BasicMessage(method, amqp091.BasicProperties(**properties), octets).encode()


# ---- the order of answers


@pytest.mark.parametrize(
    "publish", [published("q", expiration="foobar"), published("q", exchange="none")], ids=["expiration", "exchange"]
)
@pytest.mark.parametrize(
    "method",
    [
        amqp091.BasicQos(channel=1, prefetch_count=1),
        amqp091.ConfirmSelect(channel=1),
        amqp091.TxSelect(channel=1),
        amqp091.BasicCancel(channel=1, consumer_tag="c"),
        amqp091.BasicRecover(channel=1, requeue=True),
        amqp091.ChannelFlow(channel=1, active=True),
        amqp091.QueueDeclare(channel=1, queue="q"),
        amqp091.BasicNack(channel=1, delivery_tag=7),
        amqp091.BasicAck(channel=1, delivery_tag=7),  # the tag is unknown: a fault
        amqp091.BasicMessage(
            amqp091.BasicPublish(channel=1, routing_key="q", immediate=True), amqp091.BasicProperties(), b""
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_refused_message_is_answered_before_what_follows_it(publish: bytes, method: Any) -> None:
    """4.7: the channel is closed by the message; nothing after it is answered."""

    async def test() -> None:
        async with connected() as (_, _, port), Raw.connected(port) as raw:
            raw.send(
                publish, method, amqp091.ChannelClose(channel=1, reply_code=200, reply_text="", class_id=0, method_id=0)
            )
            (closed,) = await raw.until_close()
            assert closed.reply_code in (404, 406)
            assert (closed.class_id, closed.method_id) == (60, 40)
            assert isinstance(await raw.next(), amqp091.ChannelCloseOk)  # the closes have crossed

    run(test())


def test_a_coroutine_as_handler_has_the_same_order() -> None:
    async def handler(peer: amqp091.Peer) -> None:
        async for event in peer:
            match event:
                case amqp091.ConnectionStartOk() | amqp091.ConnectionOpen():
                    peer.accept(event)
                case amqp091.BasicMessage():
                    await asyncio.sleep(0.01)
                    peer.refuse(event, 404, "no exchange")

    async def test() -> None:
        async with await amqp091.serve(handler, HOST, 0) as server, Raw.connected(server.port) as raw:
            raw.send(published("q"))
            await asyncio.sleep(0)
            raw.send(amqp091.BasicQos(channel=1, prefetch_count=1))
            (closed,) = await raw.until_close()
            assert closed.reply_code == 404

    run(test())


# ---- limits


@pytest.mark.parametrize("name", ["x-message-ttl", "x-expires", "expiration"])
@pytest.mark.parametrize(
    ("value", "taken"), [(134_217_728_000, True), (315_360_000_000, True), (315_360_000_001, False)]
)
def test_times_of_up_to_ten_years(name: str, value: int, taken: bool) -> None:
    """Celery declares 2^27 seconds."""

    async def test() -> None:
        async with connected() as (broker, client, _):
            channel = await client.channel()
            await channel.declare_queue("q")
            refused = contextlib.nullcontext() if taken else pytest.raises(Refused, match="invalid")
            with refused:
                if name == "expiration":
                    await channel.publish(
                        b"x", routing_key="q", properties=amqp091.BasicProperties(expiration=str(value))
                    )
                    assert broker.hosts["/"].queues["q"].count == 1
                else:
                    await channel.declare_queue("timed", arguments={name: value})

    run(test())


def test_a_header_that_is_larger_than_a_frame_is_delivered() -> None:
    """The header of a content is one frame (2.3.5.2) and cannot be split. RabbitMQ sends it, whatever has been agreed on: the
    client decides, and the message is not lost."""

    async def test() -> None:
        async with connected() as (broker, client, port):
            channel = await client.channel()
            await channel.declare_queue("q")
            large = amqp091.BasicProperties(headers={"h": "x" * 5000})
            await channel.publish(b"large", routing_key="q", properties=large)
            queue = broker.hosts["/"].queues["q"]
            async with Raw.connected(port, frame_max=4096) as raw:
                raw.send(amqp091.BasicGet(channel=1, queue="q"))
                got = await raw.expect(amqp091.BasicMessage)
                assert (got.body_bytes(), got.properties) == (b"large", large)
            await until(lambda: queue.count == 1)
            async with Raw.connected(port, frame_max=4096) as raw:
                raw.send(amqp091.BasicConsume(channel=1, queue="q"))
                got = await raw.expect(amqp091.BasicMessage)
                assert got.properties == large
            await until(lambda: queue.count == 1)
            assert queue.dropped == 0

    run(test())


# ---- direct reply-to


def asked(reply_to: str = REPLY_TO) -> amqp091.BasicProperties:
    return amqp091.BasicProperties(reply_to=reply_to, correlation_id="1")


def test_a_request_and_its_replies() -> None:
    async def test() -> None:
        async with connected() as (broker, client, _):
            assert (await (await client.channel()).declare_queue(REPLY_TO, passive=True)).queue == REPLY_TO
            asks, answers = await client.channel(), await client.channel()
            await asks.declare_queue("rpc")
            replies = await asks.consume(REPLY_TO, no_ack=True)
            await asks.publish(b"ask", routing_key="rpc", properties=asked())
            request = await answers.get("rpc", no_ack=True)
            assert request is not None
            key = checked(request.properties.reply_to, str)
            assert key.startswith(f"{REPLY_TO}.")
            assert len(key) >= len(REPLY_TO) + 33  # 128 bits that nobody can guess
            assert request.properties.correlation_id == "1"
            declared = await answers.declare_queue(key, passive=True)
            assert (declared.message_count, declared.consumer_count) == (0, 1)
            for body in (b"one", b"two"):
                await answers.publish(body, routing_key=key, mandatory=True)
                reply = await anext(replies)
                assert (reply.body, reply.routing_key, reply.exchange) == (body, key, "")
            assert not broker.hosts["/"].queues.keys() - {"rpc"}
            await replies.cancel()
            with pytest.raises(Refused) as returned:
                await answers.publish(b"late", routing_key=key, mandatory=True)
            assert returned.value.code == 312
            await answers.publish(b"late", routing_key=key)
            with pytest.raises(Refused) as missing:
                await answers.declare_queue(key, passive=True)
            assert missing.value.code == 404
            assert not broker.hosts["/"].replies

    run(test())


def test_replies_end_with_their_channel_and_connection() -> None:
    async def test() -> None:
        async with connected() as (broker, client, port):
            router = broker.hosts["/"]
            channel = await client.channel()
            await channel.consume(REPLY_TO, no_ack=True)
            async with Raw.connected(port) as raw:
                raw.send(amqp091.BasicConsume(channel=1, queue=REPLY_TO, no_ack=True))
                await raw.expect(amqp091.BasicConsumeOk)
                assert len(router.replies) == 2
            await until(lambda: len(router.replies) == 1)
            await channel.close()
            await until(lambda: not router.replies)

    run(test())


def test_what_direct_reply_to_refuses() -> None:
    async def test() -> None:
        async with connected() as (_, client, port):
            for method, code, text in (
                (amqp091.BasicConsume(channel=1, queue=REPLY_TO), 406, "reply consumer cannot acknowledge"),
                (amqp091.BasicGet(channel=1, queue=REPLY_TO), 404, "no queue"),
                (amqp091.QueueDeclare(channel=1, queue=f"{REPLY_TO}.{0:032x}", passive=True), 404, "no queue"),
                (amqp091.QueueDeclare(channel=1, queue=f"{REPLY_TO}.{0:032x}"), 404, "no queue"),
                (published("q", reply_to=REPLY_TO), 406, "fast reply consumer does not exist"),
            ):
                async with Raw.connected(port) as raw:
                    raw.send(method)
                    (closed,) = await raw.until_close()
                    assert closed.reply_code == code
                    assert text in closed.reply_text
            channel = await client.channel()
            await channel.consume(REPLY_TO, no_ack=True)
            with pytest.raises(Refused, match="reply consumer already set"):
                await channel.consume(REPLY_TO, no_ack=True)

    run(test())


def test_direct_replies_need_no_permission_but_that_to_publish_them() -> None:
    """As in RabbitMQ, which checks the default exchange."""
    permissions = Permissions({"guest": {"amqp": {"write": "^(amq.default)$"}}})

    async def test() -> None:
        broker = Broker(BrokerOptions(permissions=permissions))
        broker.hosts["/"].make_queue("rpc")
        async with connected(broker) as (_, client, _):
            channel = await client.channel()
            await channel.declare_queue(REPLY_TO, passive=True)
            replies = await channel.consume(REPLY_TO, no_ack=True)
            (key,) = broker.hosts["/"].replies
            await channel.publish(b"answer", routing_key=key)
            assert (await anext(replies)).body == b"answer"

    run(test())


def test_a_client_of_amqp_1_0_replies() -> None:
    async def test() -> None:
        async with (
            brokers.Broker(ports={"amqp": 0, "amqp10": 0}) as b,
            amqp091.connect(b.url("amqp")) as old,
            amqp10.connect(b.url("amqp10")) as new,
        ):
            channel = await old.channel()
            replies = await channel.consume(REPLY_TO, no_ack=True)
            (key,) = b.router.replies
            sender = await new.sender(f"/queues/{key}")
            await sender.send(amqp10.Message(body=[amqp10.Data(b"answer")]))
            assert (await anext(replies)).body == b"answer"
            with pytest.raises(Refused):
                await new.sender(f"/queues/{REPLY_TO}.unknown")
            assert not b.router.queues

    run(test())


# ---- as RabbitMQ's Java client expects


def test_what_a_server_says_of_itself() -> None:
    async def test() -> None:
        options = BrokerOptions(server_properties={"product": "plant", "cluster_name": "line-1"})
        async with connected(Broker(options)) as (_, _, port), Raw.connected(port) as raw:
            said = raw.start.server_properties
            assert (said["product"], said["cluster_name"]) == ("plant", "line-1")
            assert all(said[name] for name in ("version", "platform", "copyright", "information"))
            assert said["capabilities"]["direct_reply_to"] is True
            assert said["capabilities"]["basic.nack"] is True

    run(test())


@pytest.mark.parametrize(
    ("users", "let_in"), [({"guest": "guest"}, True), (None, True), ({"guest": "other"}, False), ({"a": "b"}, False)]
)
def test_anonymous_is_guest(users: dict[str, str] | None, let_in: bool) -> None:
    """RabbitMQ 4: who may come in without a password is who has the usual one."""

    async def test() -> None:
        async with await amqp091.serve(
            broker := Broker(BrokerOptions(users=users)), HOST, 0, mechanisms=broker.mechanisms
        ) as server:
            if not let_in:
                assert "ANONYMOUS" not in broker.mechanisms
                return
            async with Raw.connected(server.port, mechanism="ANONYMOUS", response=b"") as raw:
                assert b"ANONYMOUS" in raw.start.mechanisms
                raw.send(published("q", user_id="guest"), amqp091.BasicQos(channel=1))
                await raw.expect(amqp091.BasicQosOk)

    run(test())


def test_global_prefetch() -> None:
    """All consumers of the channel have one window, and turns; those without acknowledgements wait for it, too, though what
    they get does not count (QosTests.java)."""

    async def test() -> None:
        async with connected() as (broker, _, port), Raw.connected(port) as raw:
            queues = {name: broker.hosts["/"].make_queue(name) for name in ("a", "b", "c")}
            raw.send(amqp091.BasicQos(channel=1, prefetch_count=1, global_=True))
            for tag, queue in (("1", "a"), ("2", "a"), ("3", "b")):
                raw.send(amqp091.BasicConsume(channel=1, queue=queue, consumer_tag=tag))
            raw.send(amqp091.BasicConsume(channel=1, queue="c", consumer_tag="4", no_ack=True))
            raw.send(*(published("a") for _ in range(4)), *(published("b") for _ in range(4)), published("c"))
            tags = []
            for _ in range(6):
                got = await raw.expect(amqp091.BasicMessage)
                tags.append(got.method.consumer_tag)
                if tags[-1] != "4":
                    raw.send(amqp091.BasicAck(channel=1, delivery_tag=got.method.delivery_tag))
            assert set(tags) == {"1", "2", "3", "4"}
            assert queues["c"].count == 0
            assert queues["a"].count < 4
            assert queues["b"].count < 4

    run(test())


@pytest.mark.parametrize("dead_letters", [False, True])
def test_messages_that_come_back_to_a_full_queue(dead_letters: bool) -> None:
    """x-max-length drops the oldest, whether they are new or come back (QueueSizeLimit.java)."""

    async def test() -> None:
        async with connected() as (broker, client, _):
            channel = await client.channel()
            arguments: dict[str, Any] = {"x-max-length": 2}
            if dead_letters:
                arguments["x-dead-letter-exchange"] = "amq.fanout"
                await channel.declare_queue("dead")
                await channel.bind_queue("dead", "amq.fanout")
            await channel.declare_queue("q", arguments=arguments)
            for body in (b"1", b"2"):
                await channel.publish(body, routing_key="q")
            old = [await channel.get("q") for _ in range(2)]
            for body in (b"3", b"4"):
                await channel.publish(body, routing_key="q")
            for message in old:
                assert message is not None
                message.nack(requeue=True)
            await channel.declare_queue("q", passive=True)
            queue = broker.hosts["/"].queues["q"]
            assert [item.body for item in queue.messages] == [b"3", b"4"]
            assert queue.dropped == (0 if dead_letters else 2)
            if dead_letters:
                assert [item.body for item in broker.hosts["/"].queues["dead"].messages] == [b"1", b"2"]

    run(test())


def test_every_exchange_on_the_way_looks_at_all_routing_keys() -> None:
    """CC leads to the second exchange, BCC from there to the queue (CcRoutes.java)."""

    async def test() -> None:
        async with connected() as (_, client, _):
            channel = await client.channel()
            await channel.declare_queue("q")
            await channel.bind_exchange("amq.topic", "amq.direct", "one")
            await channel.bind_queue("q", "amq.topic", "two")
            headers = {"CC": ["one"], "BCC": ["two"]}
            await channel.publish(b"x", exchange="amq.direct", properties=amqp091.BasicProperties(headers=headers))
            got = await channel.get("q", no_ack=True)
            assert got is not None
            assert got.properties.headers == {"CC": ["one"]}
            assert await channel.get("q") is None

    run(test())


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({}, {"no-meaning": "x"}, True),
        ({"x-expires": amqp091.FieldValue("I", 60_000)}, {"x-expires": amqp091.FieldValue("l", 60_000)}, True),
        ({"x-max-priority": amqp091.FieldValue("B", 9)}, {"x-max-priority": amqp091.FieldValue("s", 9)}, True),
        ({"x-queue-type": "classic"}, {}, True),
        ({}, {"x-queue-type": "classic"}, True),
        ({}, {"x-queue-type": "quorum"}, False),
        ({}, {"x-expires": 60_000}, False),
        ({"x-expires": 60_000}, {}, False),
        ({"x-expires": 60_000}, {"x-expires": 60_001}, False),
        ({"x-single-active-consumer": True}, {"x-single-active-consumer": 1}, False),
    ],
)
def test_a_second_declaration_is_compared_in_what_has_a_meaning(
    first: dict[str, Any], second: dict[str, Any], same: bool
) -> None:
    """By value, whatever the size of an integer (QueueLifecycle.java, rabbit_misc:assert_args_equivalence)."""

    async def test() -> None:
        async with connected() as (_, client, _):
            channel = await client.channel()
            await channel.declare_queue("q", arguments=first)
            if same:
                await channel.declare_queue("q", arguments=second)
                return
            with pytest.raises(
                Refused, match=r"inequivalent arg 'x-.*' for queue 'q' in vhost '/': received .* but current is"
            ) as refused:
                await channel.declare_queue("q", arguments=second)
            assert refused.value.code == 406

    run(test())


def test_a_second_declaration_of_an_exchange_is_compared_in_its_alternate() -> None:
    async def test() -> None:
        async with connected() as (_, client, _):
            channel = await client.channel()
            await channel.declare_exchange("e", "fanout", arguments={"alternate-exchange": "amq.fanout"})
            await channel.declare_exchange(
                "e", "fanout", arguments={"alternate-exchange": "amq.fanout", "no-meaning": 1}
            )
            with pytest.raises(Refused, match="inequivalent arg 'alternate-exchange'"):
                await channel.declare_exchange("e", "fanout")

    run(test())


@pytest.mark.parametrize("priority", ["banana", {"a": 1}, None, [1, 2, 3], True, 1.5])
def test_the_priority_of_a_consumer_is_an_integer(priority: Any) -> None:
    """ConsumerPriorities.java"""

    async def test() -> None:
        async with connected() as (_, client, _):
            channel = await client.channel()
            await channel.declare_queue("q")
            with pytest.raises(Refused, match="invalid arg 'x-priority' for queue 'q' in vhost '/'") as refused:
                await channel.consume("q", arguments={"x-priority": priority})
            assert refused.value.code == 406

    run(test())


def test_cr_and_lf_are_no_part_of_names() -> None:
    """RabbitMQ removes them; permissions are those of the name that is left."""
    permissions = Permissions({"guest": {"amqp": {"configure": r"^(q|e)$|\n", "write": "^(q|e)$", "read": "^(q|e)$"}}})

    async def test() -> None:
        async with connected(Broker(BrokerOptions(permissions=permissions))) as (broker, client, _):
            channel, router = await client.channel(), broker.hosts["/"]
            assert (await channel.declare_queue("\rq\n")).queue == "q"
            await channel.declare_exchange("e\n", "fanout")
            await channel.bind_queue("q\n", "\re")
            assert "q" in router.queues
            assert [binding[0].name for binding in router.exchanges["e"].bindings] == ["q"]
            await channel.delete_exchange("\ne")
            await channel.delete_queue("q\r\n")
            assert "e" not in router.exchanges
            assert not router.queues
            with pytest.raises(Refused) as refused:
                await channel.declare_queue("other\n")
            assert refused.value.code == 403

    run(test())


@pytest.mark.parametrize("class_id", [10, 90, 0x0C22])
def test_a_content_header_of_another_class(class_id: int) -> None:
    """505 UNEXPECTED_FRAME (UnexpectedFrames.java)."""

    async def test() -> None:
        octets = bytearray(published("q"))
        at = octets.index(b"\x02\x00\x01") + 7
        octets[at : at + 2] = class_id.to_bytes(2)
        async with connected() as (_, _, port), Raw.connected(port) as raw:
            raw.send(bytes(octets))
            (closed,) = await raw.until_close()
            assert isinstance(closed, amqp091.ConnectionClose)
            assert closed.reply_code == 505

    run(test())


# ---- quorum queues and streams


@pytest.mark.parametrize(("given", "limit"), [({"x-delivery-limit": 1}, 1), ({"x-delivery-limit": 0}, 0), ({}, 20)])
@pytest.mark.parametrize("dead_letters", [False, True])
def test_the_delivery_limit_of_a_quorum_queue(given: dict[str, int], limit: int, dead_letters: bool) -> None:
    """x-delivery-count says how many deliveries have failed; over the limit the message is dropped or a dead letter."""

    async def test() -> None:
        async with connected() as (broker, client, _):
            channel = await client.channel()
            more = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"} if dead_letters else {}
            await channel.declare_queue("dead")
            await channel.declare_queue("q", durable=True, arguments={"x-queue-type": "quorum", **given, **more})
            headers = amqp091.FieldTable({"a": amqp091.FieldValue("s", 7), "x-delivery-count": 99})
            await channel.publish(
                b"x", routing_key="q", properties=amqp091.BasicProperties(headers=headers, app_id="a")
            )
            for number in range(limit + 1):
                got = await channel.get("q")
                assert got is not None
                assert got.redelivered is (number > 0)
                if number:
                    table = checked(got.properties.headers, amqp091.FieldTable)
                    assert table["x-delivery-count"] == number
                    assert ("a", "s", 7) in table.entries
                    assert got.properties.app_id == "a"
                got.nack(requeue=True)
            assert await channel.get("q") is None
            dead = broker.hosts["/"].queues["dead"]
            assert dead.count == dead_letters
            if dead_letters:
                got = await channel.get("dead")
                assert got is not None
                assert checked(got.properties.headers, amqp091.FieldTable)["x-death"][0]["reason"] == "delivery_limit"
            else:
                assert broker.hosts["/"].queues["q"].dropped == 1

    run(test())


@pytest.mark.parametrize("arguments", [{"x-queue-type": "quorum", "x-delivery-limit": -1}, {}, {"x-delivery-limit": 1}])
def test_queues_without_a_delivery_limit(arguments: dict[str, Any]) -> None:
    """-1 is none, and a classic queue has none; it does not count deliveries either."""

    async def test() -> None:
        async with connected() as (_, client, _):
            channel = await client.channel()
            await channel.declare_queue("q", durable=True, arguments=arguments)
            await channel.publish(b"x", routing_key="q")
            for _ in range(25):
                got = await channel.get("q")
                assert got is not None
                got.nack(requeue=True)
            got = await channel.get("q")
            assert got is not None
            quorum = "x-queue-type" in arguments
            assert dict(got.properties.headers or {}).get("x-delivery-count") == (25 if quorum else None)

    run(test())


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (amqp091.QueueDeclare(channel=1, queue="q", arguments={"x-queue-type": "stream"}), 540, "has no streams"),
        (
            amqp091.QueueDeclare(channel=1, queue="q", arguments={"x-queue-type": "tape"}),
            406,
            "unsupported queue type 'tape'",
        ),
        (amqp091.QueueDeclare(channel=1, queue="q", arguments={"x-queue-type": 1}), 406, "invalid arg 'x-queue-type'"),
        (amqp091.BasicConsume(channel=1, queue="quorum"), 540, "does not support global qos"),
    ],
)
def test_what_the_type_of_a_queue_refuses(method: Any, code: int, text: str) -> None:
    async def test() -> None:
        async with connected() as (broker, _, port), Raw.connected(port) as raw:
            broker.hosts["/"].make_queue("quorum", {"x-queue-type": "quorum"})
            raw.send(amqp091.BasicQos(channel=1, prefetch_count=1, global_=True), method)
            closed = (await raw.until_close())[-1]
            assert closed.reply_code == code
            assert text in closed.reply_text
            assert list(broker.hosts["/"].queues) == ["quorum"]

    run(test())
