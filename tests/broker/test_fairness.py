"""What one client does costs what it has sent, not what others, or other parts of its connection, have."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from lib.kinds import checked
from lib.loopback import HOST, run, until
from lib.rocketmq_served import served
from wirefmt import amqp091, amqp10, nsq, phpmq, rocketmq
from wirefmt.broker import amqp091 as broker_amqp091
from wirefmt.broker import amqp10 as broker_amqp10
from wirefmt.broker import limits, routing
from wirefmt.broker import nsq as broker_nsq
from wirefmt.broker import phpmq as broker_phpmq
from wirefmt.broker.bindings import headers_match
from wirefmt.broker.limits import Limits, Refusal
from wirefmt.broker.messages import Envelope, Published
from wirefmt.broker.queues import Queue
from wirefmt.broker.rocketmq import log
from wirefmt.broker.rocketmq.popping import Popping
from wirefmt.broker.rocketmq.pulling import Pulling
from wirefmt.broker.routing import TOGETHER_COPIES
from wirefmt.connection.aio.driver import WORK
from wirefmt.errors import ConnectionLost


class Counted:
    """How often a method is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str) -> None:
        self.count = 0
        original = getattr(owner, name)

        def method(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, method)


def test_an_ack_of_amqp091_wakes_the_consumer_that_it_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        broker = broker_amqp091.Broker()
        async with (
            await amqp091.serve(broker, HOST, 0) as server,
            amqp091.connect(f"amqp://{HOST}:{server.port}") as client,
        ):
            one, other = await client.channel(prefetch=1), await client.channel(prefetch=1)
            await one.declare_queue("q")
            consumers = [await channel.consume("q") for channel in (one, other) for _ in range(20)]
            for _ in range(60):
                await one.publish(b"x", routing_key="q")
            queue = broker.hosts["/"].queues["q"]
            await until(lambda: queue.count == 20)
            woken = Counted(monkeypatch, Queue, "wake")
            for number, consumer in enumerate(consumers[:10]):
                (await anext(consumer)).ack()
                await until(lambda: queue.count == 19 - number)  # noqa: B023
            assert woken.count == 10  # not for each consumer of the channel
        broker.close()

    run(test())


def test_consumers_that_share_a_prefetch_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        broker = broker_amqp091.Broker()
        async with (
            await amqp091.serve(broker, HOST, 0) as server,
            amqp091.connect(f"amqp://{HOST}:{server.port}") as client,
        ):
            channel = await client.channel(prefetch=0)
            await channel.call(amqp091.BasicQos, prefetch_count=1, global_=True)
            names = [f"q{number}" for number in range(5)]
            for name in names:
                await channel.declare_queue(name)
                for _ in range(6):
                    await channel.publish(b"x", routing_key=name)
            consumers = [await channel.consume(name) for name in names]
            woken = Counted(monkeypatch, Queue, "wake")
            queues = [broker.hosts["/"].queues[name] for name in names]
            for step in range(20):
                took = next(k for k, consumer in enumerate(consumers) if consumer._inbox)
                (await anext(consumers[took])).ack()
                await until(lambda: any(consumer._inbox for consumer in consumers))
                assert sum(queue.count for queue in queues) == 28 - step
            assert max(queue.count for queue in queues) - min(queue.count for queue in queues) <= 1
            assert woken.count <= 2 * 20
        broker.close()

    run(test())


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_a_transport_that_takes_bytes_again_wakes_only_consumers_that_wait_for_it(
    monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    async def test() -> None:
        router = routing.Router()
        router.make_queue("q")
        module: Any = {"amqp091": amqp091, "amqp10": amqp10}[protocol]
        broker: Any = {"amqp091": broker_amqp091, "amqp10": broker_amqp10}[protocol].Broker(router=router)
        async with (
            await module.serve(broker, HOST, 0) as server,
            module.connect(f"amqp://{HOST}:{server.port}") as client,
        ):
            owner = await client.channel() if protocol == "amqp091" else client
            for _ in range(20):
                await (owner.consume("q") if protocol == "amqp091" else owner.receiver("q"))
            (driver,) = server.drivers
            woken = Counted(monkeypatch, Queue, "wake")
            broker.writable(driver.host)
            assert woken.count == 0
        broker.close()

    run(test())


# ---- RocketMQ


async def commands(address: str, *sent: rocketmq.RemotingCommand, answers: int = 0) -> asyncio.StreamWriter:
    """Send requests on a connection of their own, and wait for answers. The caller closes it."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"".join(command.encode() for command in sent))
    for _ in range(answers):
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    return writer


class Looked(float):
    """A time that counts how often it is compared."""

    count = 0

    def __lt__(self, other: float) -> bool:
        Looked.count += 1
        return float(self) < other

    def __ge__(self, other: float) -> bool:
        Looked.count += 1
        return float(self) >= other


def test_an_offset_of_rocketmq_is_found_by_bisection() -> None:
    queue = log.Queue()
    times = [Looked(number // 3) for number in range(3000)]
    for number, time in enumerate(times):
        queue.put(log.Stored(b"", number, time))
    for _ in range(1200):  # the oldest are dropped
        queue.drop()
    assert (queue.base, queue.end, len(queue), queue.at(1200).physical) == (1200, 3000, 1800, 1200)
    assert [stored.physical for stored in queue.messages] == list(range(1200, 3000))
    Looked.count = 0
    for seconds in (-1.0, 0.0, 399.5, 400.0, 400.5, 700.25, 998.9, 999.0, 999.5):
        wanted = next((k for k in range(1200, 3000) if float(times[k]) >= seconds), 3000)
        assert queue.since(seconds) == wanted
    assert Looked.count <= 9 * 12


def test_a_message_of_rocketmq_wakes_pulls_of_its_queue_and_one_pop_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with served(queues=2) as (broker, _, address), rocketmq.connect(address) as client:
            broker.topic("T", 2)
            pull: dict[str, Any] = {
                "consumer_group": "G",
                "topic": "T",
                "max_msg_nums": 1,
                "commit_offset": 0,
                "sub_version": 0,
            }
            pull |= {"queue_offset": 0, "subscription": "*", "sys_flag": 6, "suspend_timeout_millis": 50_000}
            pops: dict[str, Any] = {
                "consumer_group": "P",
                "topic": "T",
                "queue_id": -1,
                "max_msg_nums": 1,
                "invisible_time": 60_000,
            }
            pops |= {"poll_time": 50_000, "born_time": 0, "init_mode": 0}
            waiting = [
                rocketmq.RemotingCommand(
                    code=11, header=rocketmq.PullMessageRequestHeader(queue_id=1, **pull), opaque=n
                )
                for n in range(30)
            ] + [
                rocketmq.RemotingCommand(code=200050, header=rocketmq.PopMessageRequestHeader(**pops), opaque=n)
                for n in range(30, 60)
            ]
            writer = await commands(address, *waiting)
            await until(lambda: broker._waits.count == 60)
            pulled = Counted(monkeypatch, Pulling, "_look")
            popped = Counted(monkeypatch, Popping, "_take_next")
            for _ in range(3):
                await client.producer("P").send("T", b"x", queue=lambda queues: queues[0])
            assert pulled.count == 0
            assert popped.count <= 2 * 3
            assert broker._waits.count == 60 - 3
            writer.close()
            await until(lambda: not broker._waits.waiting and not broker._waits.of_peer and not broker._waits.count)

    run(test())


def test_members_of_rocketmq_groups_are_bounded_and_told_once() -> None:
    def heartbeat(number: int) -> rocketmq.RemotingCommand:
        consumer = rocketmq.ConsumerData(
            group_name="G",
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscription_data_set=[],
            unit_mode=False,
        )
        data = rocketmq.HeartbeatData(client_id=f"c{number}", consumer_data_set=[consumer], producer_data_set=[])
        return rocketmq.RemotingCommand(code=34, body=data.encode(), opaque=number)

    async def test() -> None:
        async with served(members=10, client_share=1) as (broker, server, address):
            member = await commands(address, heartbeat(0), answers=1)
            (driver,) = server.drivers
            asked: list[Any] = []
            host: Any = driver.host
            request = host.request

            def asking(*arguments: Any, **named: Any) -> Any:
                asked.append(arguments)
                return request(*arguments, **named)

            host.request = asking
            other = await commands(address, *(heartbeat(number) for number in range(1, 20)), answers=19)
            assert len(broker.consumers["G"]) == 10
            assert 1 <= len(asked) <= 2
            other.close()
            await until(lambda: len(broker.consumers["G"]) == 1)
            member.close()
            await until(lambda: not broker.consumers and not broker._groups.joined and not broker._groups.memberships)

    run(test())


# ---- PHPMQ


def test_queues_of_phpmq_are_bounded_and_removed_when_nobody_uses_them() -> None:
    async def test() -> None:
        broker = broker_phpmq.Broker(broker_phpmq.BrokerOptions(queues=3, memory=10_000, client_share=1))
        async with await phpmq.serve(broker, HOST, 0) as server:
            url = f"phpmq://{HOST}:{server.port}"
            async with phpmq.connect(url) as client:
                for number in range(10):  # each request replaces the one before
                    await client.consume(f"q{number}", 1)
                await until(lambda: list(broker.queues) == ["q9"])
                await client.publish("a", b"x")
                await client.publish("b", b"y")
                await until(lambda: len(broker.queues) == 3)
                async with phpmq.connect(url) as other:
                    await other.consume("c", 1)  # one too many
                    with pytest.raises(ConnectionLost):
                        await other.get()
                assert set(broker.queues) == {"q9", "a", "b"}
                await client.consume("a", 1)
                message = checked(await client.get(), phpmq.MessageServerToClient)
                client.acknowledge(message)
                await client.consume("b", 1)
                client.acknowledge(checked(await client.get(), phpmq.MessageServerToClient))
                await until(lambda: list(broker.queues) == ["b"])
                async with phpmq.connect(url) as other:
                    await other.consume("n" * 20_000, 1)  # names count
                    with pytest.raises(ConnectionLost):
                        await other.get()
            await until(lambda: not broker.queues)
            assert broker.counts["refused"] == 2
            assert broker.shares.bytes == broker.shares.messages == 0

    run(test())


def test_a_message_of_phpmq_asks_only_clients_that_may_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        broker = broker_phpmq.Broker()
        async with await phpmq.serve(broker, HOST, 0) as server, contextlib.AsyncExitStack() as stack:
            url = f"phpmq://{HOST}:{server.port}"
            clients = [await stack.enter_async_context(phpmq.connect(url)) for _ in range(12)]
            for client in clients[:-1]:
                await client.consume("q", 0)  # they want none
            await clients[-1].consume("q", 1)
            await until(lambda: len(broker.queue("q").clients) == 12)
            asked = 0
            ready = inspect.getattr_static(phpmq.server.Peer, "ready").fget

            def count(peer: Any) -> bool:
                nonlocal asked
                asked += 1
                return bool(ready(peer))

            monkeypatch.setattr(phpmq.server.Peer, "ready", property(count))
            for number in range(10):
                broker.publish("q", b"%d" % number)
            for number in range(10):
                message = await clients[-1].get()
                assert message is not None
                assert message.content_bytes() == b"%d" % number
                clients[-1].acknowledge(message)
            await until(lambda: broker.counts["acknowledged"] == 10)
            assert asked <= 12 + 2 * 10
            assert not broker.queue("q").waiting

    run(test())


def test_messages_of_phpmq_that_are_done_while_they_wait_take_no_place() -> None:
    queue = broker_phpmq.Queue("q")
    messages = [broker_phpmq.Message(number, f"{number}", b"x", 0) for number in range(1000)]
    for message in messages:
        queue.messages[message.message_id] = message
    queue.put(*reversed(messages))
    for message in messages[1:-1]:
        queue.remove(message)
    assert queue.waiting == [messages[0], messages[-1]]
    assert len(queue._heap) <= 4


# ---- NSQ


def test_sub_makes_neither_topic_nor_channel_beyond_the_limit_of_nsq() -> None:
    async def test() -> None:
        broker = broker_nsq.Broker(broker_nsq.BrokerOptions(topics=4, client_share=1))
        async with await nsq.serve(broker, HOST, 0) as server:

            async def sub(topic: str, channel: str) -> bytes:
                reader, writer = await asyncio.open_connection(HOST, server.port)
                writer.write(b"  V2" + nsq.Sub(topic=topic, channel=channel).encode())
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = (await reader.readexactly(size))[4:]
                writer.close()
                return answer

            assert await sub("a", "x") == await sub("b", "x") == b"OK"
            assert (await sub("c", "x")).startswith(b"E_SUB_FAILED")
            assert (await sub("a", "y")).startswith(b"E_SUB_FAILED")
            assert {name: list(topic.channels) for name, topic in broker.topics.items()} == {"a": ["x"], "b": ["x"]}
            assert await sub("a", "x") == b"OK"
        broker.close()

    run(test())


def test_a_channel_of_nsq_asks_only_clients_that_may_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        broker = broker_nsq.Broker()
        async with await nsq.serve(broker, HOST, 0) as server:
            writers = []
            for number in range(12):
                _, writer = await asyncio.open_connection(HOST, server.port)
                writer.write(b"  V2" + nsq.Sub(topic="t", channel="c").encode())
                if number == 5:
                    writer.write(nsq.Ready(count=2500).encode())
                writers.append(writer)
            await until(lambda: "t" in broker.topics and len(broker.topics["t"].channels["c"].clients) == 12)
            await until(lambda: any(peer.connection.send_quota for peer in broker._channels))
            asked = 0
            ready = inspect.getattr_static(nsq.server.Peer, "ready").fget

            def count(peer: Any) -> bool:
                nonlocal asked
                asked += 1
                return bool(ready(peer))

            monkeypatch.setattr(nsq.server.Peer, "ready", property(count))
            channel = broker.topics["t"].channels["c"]
            for number in range(20):
                broker.publish("t", b"%d" % number)
                channel.pump(1000)
            assert not channel.queue
            assert asked <= 12 + 2 * 20
            for writer in writers:
                writer.close()
            await until(lambda: not channel.clients)
        broker.close()

    run(test())


# ---- turns


def publication(exchange: str) -> bytes:
    method = amqp091.BasicPublish(channel=1, exchange=exchange, routing_key="")
    return amqp091.BasicMessage(method, amqp091.BasicProperties(), b"").encode()


async def opened_by_hand(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """An open connection of AMQP 0.9.1 with channel 1, whose bytes the test writes."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(
        b"AMQP\0\0\x09\1"
        + amqp091.ConnectionStartOk(client_properties={}, response=b"\0guest\0guest").encode()
        + amqp091.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0).encode()
        + amqp091.ConnectionOpen(virtual_host="/").encode()
        + amqp091.ChannelOpen(channel=1).encode()
    )
    decoder = amqp091.Assembler(side="server")
    said: list[Any] = []
    while not said or not isinstance(said[-1], amqp091.ChannelOpenOk):
        said += decoder.feed(await reader.read(1 << 16))
    return reader, writer


def test_what_exceeds_the_work_of_an_iteration_waits_for_its_turn() -> None:
    """The driver's host does a bounded amount of work in one iteration, and another client's request is answered meanwhile."""

    async def test() -> None:
        broker = broker_amqp091.Broker()
        async with (
            await amqp091.serve(broker, HOST, 0) as server,
            amqp091.connect(f"amqp://{HOST}:{server.port}") as client,
        ):
            router = broker.hosts["/"]
            queues = [router.make_queue(f"q{number}", {"x-max-length": 1}) for number in range(400)]
            for queue in queues:
                router.bind(router.exchanges["amq.fanout"], (queue, "", b""), {})
            reader, writer = await opened_by_hand(server.port)
            flooding = next(
                driver
                for driver in server.drivers
                if checked(driver.host, amqp091.Peer).address == writer.get_extra_info("sockname")
            )
            turn, most, behind = flooding._turn, 0, 0
            channel = await client.channel()
            writer.write(publication("amq.fanout") * 300 + amqp091.ConfirmSelect(channel=1).encode())
            while broker.hosts["/"].queues["q399"]._place < 300:
                await channel.declare_queue("q0", passive=True)  # is answered
                most = max(most, WORK - turn.left)
                behind += flooding._late
            assert behind  # requests of the other client were answered before the flood was over
            assert most <= 2 * WORK + TOGETHER_COPIES
            assert [queue._place for queue in queues] == [300] * 400
            size = await reader.readexactly(7)  # what came last is answered last
            assert int.from_bytes(size[3:7], "big") == len(amqp091.ConfirmSelectOk(channel=1).encode()) - 8
            writer.write(publication("amq.fanout") * 300)
            writer.close()  # also what is read before the end is handled
            await until(lambda: queues[0]._place == 600)
            await until(lambda: flooding not in server.drivers)
        broker.close()

    run(test())


def test_a_server_that_closes_does_not_work_off_what_waits() -> None:
    async def test() -> None:
        broker = broker_amqp091.Broker()
        async with await amqp091.serve(broker, HOST, 0) as server:
            router = broker.hosts["/"]
            queues = [router.make_queue(f"q{number}", {"x-max-length": 1}) for number in range(400)]
            for queue in queues:
                router.bind(router.exchanges["amq.fanout"], (queue, "", b""), {})
            _, writer = await opened_by_hand(server.port)
            (driver,) = server.drivers
            writer.write(publication("amq.fanout") * 1000)
            await until(lambda: driver._late)
            writer.transport.abort()
            await server.close()
            assert queues[0]._place < 500
        broker.close()

    run(test())


def test_an_entry_of_a_queue_counts_among_the_bytes_of_all() -> None:
    router = routing.Router(limits.Limits(memory=20_000))
    queues = [router.make_queue(f"q{number}") for number in range(30)]
    for queue in queues:
        router.bind(router.exchanges["amq.fanout"], (queue, "", b""), {})
    properties = amqp091.BasicProperties()
    envelope = Envelope(properties.encode(), "amq.fanout", "", None, 0, properties, "documented")
    accepted = 0
    published_first = published = Published(envelope, b"")
    for _ in range(10):
        destinations = router.route(router.exchanges["amq.fanout"], published)
        accepted += not router.refuses(destinations, published)
        router.put(destinations, published)
        published = Published(envelope, b"")
    assert accepted == 1
    assert router.shares.bytes == 30 * (limits.ENTRY + published_first.cost)
    assert router.shares.bytes <= 20_000
    for queue in queues:
        queue.purge()
    assert router.shares.bytes == 0


# ---- what a message may cost


def test_a_headers_exchange_looks_at_no_more_than_the_message_has() -> None:
    """3.1.3.4, as RabbitMQ: with a void value an argument only has to be there."""
    many = {f"k{number}": number for number in range(2000)}
    for how, given, matches in (
        ("all", {**many, "more": 1}, True),
        ("all", {**many, "k1999": 0}, False),
        ("all", {"k1": 1}, False),
        ("any", {"k1": 1}, True),
        ("any", {"k1": 2}, False),
        ("any", {"void": 2}, True),
        ("all", {**many, "k5": None}, False),
    ):
        arguments = {**many, "x-match": how, "x-ignored": 1, **({"void": None} if how == "any" else {})}
        assert headers_match(arguments, given) is matches, (how, given)
    counted: list[str] = []

    class Name(str):
        def __eq__(self, other: object) -> bool:
            counted.append(str(self))
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    wanted: dict[str, int] = {Name(f"k{number}"): 1 for number in range(2000)}
    assert not headers_match({"x-match": "any", **wanted}, {"other": 1, "k7": 2})
    assert len(counted) <= 2


def test_bindings_that_cost_a_message_too_much_are_refused() -> None:
    router = routing.Router(Limits(steps=10_000, client_share=1, user_share=1))
    queue = router.make_queue("q")
    topic, headers = router.exchanges["amq.topic"], router.exchanges["amq.headers"]

    def bind(exchange: routing.Exchange, key: str, arguments: dict[str, object]) -> bool:
        try:
            router.bind(exchange, (queue, key, repr(arguments).encode()), arguments)
        except Refusal as refusal:
            assert refusal.code == 406
            return False
        return True

    kinds: tuple[tuple[routing.Exchange, Callable[[int], str], dict[str, object]], ...] = (
        (topic, lambda n: f"#.a.#.x{n}", {}),
        (topic, lambda n: "".join("*." if n >> k & 1 else "a." for k in range(14)), {}),  # wildcards elsewhere
        (headers, str, {f"k{number}": True for number in range(100)}),
    )
    for exchange, name, arguments in kinds:
        bound = 0
        while bind(exchange, name(bound), arguments) and bound < 10_000:
            bound += 1
        assert 10 < bound < 10_000
        assert exchange.cost <= 10_000
        assert len(exchange.bindings) == bound
        for binding in list(exchange.bindings):
            router.unbind(exchange, binding)
        assert exchange.cost == 0
    for number in range(5000):
        assert bind(topic, f"a.{number}.#", {})  # they are found without a look at the others


def test_a_message_that_would_go_through_too_much_is_refused() -> None:
    router = routing.Router(Limits(steps=1000))
    names = [f"e{number}" for number in range(200)]
    for name in names:
        router.make_exchange(name, "fanout")
    for source, destination in zip(names, [*names[1:], names[0]], strict=True):
        router.bind(router.exchanges[source], (router.exchanges[destination], "", b""), {})
    properties = amqp091.BasicProperties()
    envelope = Envelope(properties.encode(), "e0", "", None, 0, properties, "documented")
    with pytest.raises(Refusal, match="too many"):
        router.route(router.exchanges["e0"], Published(envelope, b""))


def test_dead_letters_that_wait_count_and_come_in_order() -> None:
    async def test() -> None:
        router = routing.Router(Limits(queue_messages=10_000))
        source = router.make_queue("source", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
        dead = router.make_queue("dead")
        properties = amqp091.BasicProperties()
        envelope = Envelope(properties.encode(), "", "source", None, 0, properties, "documented")
        router.put([source], *(Published(envelope, b"%d" % number) for number in range(2000)))
        held = router.shares.bytes
        for _ in range(2000):
            router.dead_letter(source, source._pop(), "rejected")
        assert 0 < dead.count < 2000
        assert router.shares.bytes >= held
        await until(lambda: dead.count == 2000)
        assert [item.body for item in dead.messages] == [b"%d" % number for number in range(2000)]
        dead.purge()
        assert router.shares.bytes == 0
        router.put([source], *(Published(envelope, b"x") for number in range(2000)))
        for _ in range(2000):
            router.dead_letter(source, source._pop(), "rejected")
        router.close()
        assert router.shares.bytes == 0

    run(test())


def test_a_channel_of_nsq_sends_no_more_than_its_part_in_one_iteration() -> None:
    async def test() -> None:
        broker = broker_nsq.Broker()
        async with await nsq.serve(broker, HOST, 0) as server:
            writers = []
            for _ in range(4):
                _, writer = await asyncio.open_connection(HOST, server.port)
                writer.write(b"  V2" + nsq.Sub(topic="t", channel="c").encode() + nsq.Ready(count=2500).encode())
                writers.append(writer)
            await until(lambda: sum(bool(peer.connection.send_quota) for peer in broker._channels) == 4)
            channel = broker.topics["t"].channels["c"]
            broker.publish("t", *[b"x"] * 10_000)
            broker._pump_all()
            assert 10_000 - len(channel.queue) == broker_nsq.SENT
            await until(lambda: not channel.queue)
            for writer in writers:
                writer.close()
            await until(lambda: not channel.clients)
        broker.close()

    run(test())
