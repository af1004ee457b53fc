"""What a program sees of a broker, and what it feeds it with: in all six protocols."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest

from lib.kinds import checked
from lib.loopback import HOST, run, until
from wirefmt import amqp091, amqp10, broker, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import NotSeen
from wirefmt.broker.history import History
from wirefmt.broker.listeners import NAMES
from wirefmt.broker.thread import Running
from wirefmt.errors import Refused


async def declare(b: broker.Broker, *queues: str) -> None:
    async with amqp091.connect(b.url("amqp")) as client:
        channel = await client.channel()
        for queue in queues:
            await channel.declare_queue(queue)


def test_what_is_published_is_seen_in_each_protocol() -> None:
    async def main() -> None:
        async with broker.Broker() as b:
            await declare(b, "q")
            for name in NAMES:
                await b.publish("q", f"from {name}", name)
            found = await b.published().wait(6)
            assert [(m.protocol, m.name, m.body) for m in found if m.protocol != "amqp10"] == [
                (name, "q", f"from {name}".encode()) for name in NAMES if name != "amqp10"
            ]
            (one,) = b.published("amqp10")
            assert (one.name, one.body) == ("/queues/q", b"from amqp10")
            assert [m.body for m in b.queue("q")] == [b"from amqp", b"from amqp10"]
            assert [m.body for m in b.queue("q", "nsq")] == [b"from nsq"]
            assert [m.body for m in await b.queue("q", "phpmq").wait(1)] == [b"from phpmq"]
            assert [m.body for m in b.topic("q")] == [b"from mqtt"]
            assert [m.body for m in b.topic("q", "rocketmq")] == [b"from rocketmq"]
            assert b.counts == dict.fromkeys(NAMES, 1)

    run(main())


def test_further_arguments_are_those_of_the_client() -> None:
    async def main() -> None:
        async with broker.Broker() as b:
            await declare(b, "q")
            await b.publish("t", b"1", "mqtt", retain=True, qos=0, properties=(("content_type", "text/plain"),))
            (message,) = await b.published("mqtt").wait()
            assert (message.retain, message.qos, message.properties) == (True, 0, (("content_type", "text/plain"),))
            properties = amqp091.BasicProperties(priority=3)
            await b.publish("q", b"2", exchange="amq.direct", properties=properties, mandatory=False)
            (message,) = await b.published("amqp").wait()
            assert (message.exchange, message.properties.priority) == ("amq.direct", 3)
            with pytest.raises(Refused):  # a queue that nobody has declared
                await b.publish("no such queue", b"3")

    run(main())


def test_a_publisher_has_the_rights_of_a_user() -> None:
    users = {"ann": "s3:cr/t"}
    permissions = {"ann": {"mqtt": {"publish": ["plant/+"], "subscribe": ["#"]}}}

    async def main() -> None:
        async with broker.Broker(users=users, permissions=permissions, ports={"mqtt": 0}) as b:
            with pytest.raises(Refused):
                await b.publish("plant/a", b"1", "mqtt")
            with pytest.raises(Refused):
                await b.publish("office", b"1", "mqtt", user="ann")
            await b.publish("plant/a", b"1", "mqtt", user="ann")
            assert [m.name for m in b.topic("#")] == ["plant/a"]
            with pytest.raises(KeyError):
                await b.publish("t", b"1", "nsq")

    run(main())


def test_messages_that_reach_no_queue() -> None:
    async def main() -> None:
        async with broker.Broker() as b:
            await b.publish("nobody", b"1", exchange="amq.topic", mandatory=False)
            async with amqp10.connect(b.url("amqp10")) as client:
                sender = await client.sender("/exchanges/amq.direct/nobody")
                with pytest.raises(Refused):
                    await sender.send(amqp10.Message(body=b"2"))
            assert [(m.exchange, m.name, m.body) for m in b.unrouted] == [
                ("amq.topic", "nobody", b"1"),
                ("amq.direct", "nobody", b"2"),
            ]
            await b.reset()
            assert b.unrouted == []

    run(main())


def test_what_clients_have_and_have_not_settled() -> None:
    async def main() -> None:
        async with broker.Broker() as b:
            await declare(b, "q")
            async with (
                amqp091.connect(b.url("amqp")) as old,
                nsq.connect(b.url("nsq")) as queue,
                phpmq.connect(b.url("phpmq")) as php,
            ):
                for protocol in ("amqp", "nsq", "phpmq"):
                    await b.publish("q", b"1", protocol)
                channel = await old.channel()
                messages = await channel.consume("q")
                async with queue.consume("q", "c") as more:
                    await php.consume("q", 1)
                    message = await anext(messages)
                    taken = await anext(more)
                    given = checked(await php.get(), phpmq.MessageServerToClient)
                    assert [m.body for m in b.unacked("q")] == [b"1"]
                    assert [m.body for m in b.unacked("q/c", "nsq")] == [b"1"]
                    assert [m.body for m in b.unacked("q", "phpmq")] == [b"1"]
                    assert b.queue("q") == b.queue("q/c", "nsq") == b.queue("q", "phpmq") == []
                    with pytest.raises(
                        NotSeen, match=r"unacknowledged messages of queue 'p'.*queues with messages: q \(1\)"
                    ):
                        await b.unacked("p").wait(1, 0.01)
                    message.ack()
                    taken.finish()
                    php.acknowledge(given)
                    for protocol in ("amqp", "phpmq"):
                        while b.unacked("q", protocol):  # type: ignore[arg-type]
                            await asyncio.sleep(0.01)
                    while b.unacked("q/c", "nsq"):
                        await asyncio.sleep(0.01)

    run(main())


def test_what_clients_of_amqp10_have_and_have_not_settled() -> None:
    async def main() -> None:
        async with broker.Broker() as b:
            await declare(b, "q")
            await b.publish("q", b"1")
            async with amqp10.connect(b.url("amqp10")) as client:
                receiver = await client.receiver("/queues/q", settle="manual")
                await anext(aiter(receiver))
                assert [m.body for m in b.unacked("q")] == [b"1"]

    run(main())


# ---- what was there instead


@pytest.fixture
def fed(b: Running) -> Running:
    async def main() -> None:
        await declare(b.broker, "orders", "stock")

    b.run(main())
    for n in range(3):
        b.publish("orders", f"number {n}")
    b.publish("plant/line-1/temp", b"21.5", "mqtt")
    b.publish("office", bytes(100), "mqtt")
    return b


def text(what: object) -> str:
    with pytest.raises(NotSeen) as told:
        what.wait(5, 0.01)  # type: ignore[attr-defined]
    return str(told.value)


def test_names_like_the_one_asked_for_come_first(fed: Running) -> None:
    assert text(fed.queue("ordrs")) == (
        "queue 'ordrs': 5 expected within 0.01 s, none found; queues with messages: orders (3)"
    )
    assert text(fed.topic("plant/line-2/+")) == (
        "topic 'plant/line-2/+': 5 expected within 0.01 s, none found; topics with messages: plant/line-1/temp (1), office (1)"
    )
    assert text(fed.queue("q", "nsq")).endswith("; there are no queues with messages")


def test_what_was_found_is_listed_a_line_each(fed: Running) -> None:
    assert text(fed.topic("#")) == (
        "topic '#': 5 expected within 0.01 s, 2 found:\n"
        "  mqtt plant/line-1/temp qos 1 '21.5'\n"
        f"  mqtt office qos 1 {chr(0) * 60 + '... (100 bytes)'!r}; topics with messages: plant/line-1/temp (1), office (1)"
    )


def test_many_are_cut(b: Running) -> None:
    for n in range(12):
        b.publish(f"t/{n}", str(n), "mqtt")
    said = text(b.published("mqtt")) if len(b.published("mqtt")) < 5 else ""
    assert said == ""
    with pytest.raises(NotSeen) as told:
        b.topic("#").wait(20, 0.01)
    lines = str(told.value).splitlines()
    assert lines[0] == "topic '#': 20 expected within 0.01 s, 12 found: the last 10 are"
    assert lines[1] == "  mqtt t/2 qos 1 '2'"
    assert lines[-1].endswith("and 2 others")


def test_an_error_has_no_frames_of_the_broker(b: Running) -> None:
    with pytest.raises(NotSeen) as told:
        b.queue("q").wait(1, 0.01)
    assert [frame.name for frame in traceback.extract_tb(told.tb)][1:] == ["wait"]
    assert told.value.__suppress_context__


def test_waiting_in_an_event_loop_is_refused_at_once(b: Running) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="wirefmt_async_broker"):
            b.queue("q").wait(1, timeout=60.0)

    run(main(), patience=10.0)


def test_a_publication_that_cannot_be_read_is_not_remembered() -> None:
    """It is refused, as it is without anybody who looks."""

    async def main() -> None:
        async with broker.Broker(ports={"mqtt": 0, "amqp10": 0}) as b:
            async with amqp10.connect(b.url("amqp10")) as client:
                sender = await client.sender("/queues/q")
                with pytest.raises(Refused):
                    await sender.send(b"\xff")
            assert b.published() == []
            async with mqtt.connect(b.url("mqtt"), client_identifier="a") as one:
                await one.publish("t", b"x", qos=1)
            assert [m.name for m in b.published()] == ["t"]

    run(main())


# ---- what is remembered


def test_a_history_is_bounded_in_number_and_bytes() -> None:
    history: History[str] = History(3, 100)
    for name, size in (("a", 10), ("b", 10), ("c", 10), ("d", 10)):
        history.add(name, size)
    assert (list(history), history.bytes) == (["b", "c", "d"], 30)
    history.add("e", 85)
    assert (list(history), history.bytes) == (["d", "e"], 95)
    history.add("too large", 101)
    assert (list(history), len(history), history.bytes) == ([], 0, 0)
    history.add("f", 100)
    history.clear()
    assert (list(history), history.bytes) == ([], 0)
    nothing: History[str] = History()
    nothing.add("a", 0)
    assert list(nothing) == []


@pytest.mark.parametrize("protocol", NAMES)
def test_what_is_remembered_is_bounded_in_bytes(protocol: Any) -> None:
    """Sixteen messages of 10,000 bytes, and space for less than ten of them; what they were read from is not held."""

    async def main() -> None:
        async with broker.Broker(history_bytes=100_000) as b:
            await declare(b, "q")
            for number in range(16):
                await b.publish("q", b"%02d" % number + bytes(9_998), protocol)
            await until(lambda: b.published()[-1].body[:2] == b"15")
            assert 4 <= len(b.published()) < 10  # AMQP 1.0's are kept twice: as they were, and decoded
            assert len(b.topic("q")) < 10
            for message in b.published():
                held = message.properties
                assert not isinstance(held, amqp091.BasicProperties) or len(held.encode()) < 100
            assert b._published.bytes <= 100_000

    run(main())


@pytest.mark.parametrize("flags", ["1", "769", "9999999999", "1" * 5000, "x", "\u0661"])
def test_a_request_that_lies_of_its_compression_is_not_remembered_as_such(flags: str) -> None:
    """The broker answers whatever it is, and goes on."""

    async def main() -> None:
        async with broker.Broker(ports={"rocketmq": 0}) as b:
            async with rocketmq.connect(f"{HOST}:{b.port('rocketmq')}") as client:
                remote = client.remote(f"{HOST}:{b.port('rocketmq')}")
                header = {"b": "t", "d": "4", "e": "0", "f": flags, "g": "0", "h": "0", "i": "", "j": "0"}
                request = rocketmq.RemotingCommand(code=310, ext_fields=header, body=b"no zlib", opaque=1)
                reader, writer = await asyncio.open_connection(HOST, b.port("rocketmq"))
                writer.write(request.encode())
                assert rocketmq.decode(await answer_of(reader)).opaque == 1
                writer.close()
                await remote.ready()
            assert [m.body for m in b.published()] in ([], [b"no zlib"])

    run(main())


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))
