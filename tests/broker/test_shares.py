"""One client, or one user, does not shut out all others: it has a share of every limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import pytest

from lib.loopback import run, until
from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker import nsq as nsq_broker
from wirefmt.broker import phpmq as phpmq_broker
from wirefmt.broker import rocketmq as rocketmq_broker
from wirefmt.broker.limits import Limits
from wirefmt.broker.rocketmq.reviving import Taken
from wirefmt.broker.shares import UNOWNED, Shares
from wirefmt.connection.aio.driver import Driver
from wirefmt.errors import ConnectionLost, Refused
from wirefmt.rocketmq import RemotingCommand
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.remote import check

USERS = {"ann": "a", "bob": "b"}
#: Of eight a client has two, and a user four.
MOST = 8

Take = Callable[[int], Awaitable[Any]]


class Case(NamedTuple):
    """`client`: connects as a user, or as nobody, and returns what takes thing number n. `code`: of the refusal, if there is one.
    `clients`, `users`: how many of the things a client and a user may have."""

    client: Callable[[AsyncExitStack, Broker, str | None, int], Awaitable[Take]]
    error: type[Exception]
    code: Any = None
    clients: int = MOST // 4
    users: int | None = MOST // 2


def url(broker: Broker, name: str, user: str | None) -> str:
    address = broker.url(name)
    return address if user is None else address.replace("://", f"://{user}:{USERS[user]}@")


async def amqp091_channel(stack: AsyncExitStack, broker: Broker, user: str | None) -> Any:
    client = await stack.enter_async_context(amqp091.connect(url(broker, "amqp", user)))

    async def call(*arguments: Any, method: str, **named: Any) -> Any:
        return await getattr(await client.channel(), method)(*arguments, **named)

    return call


async def queues(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    call = await amqp091_channel(stack, broker, user)
    return lambda n: call(f"q{number}-{n}", method="declare_queue")


async def exclusive_queues(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    call = await amqp091_channel(stack, broker, user)
    return lambda n: call(f"q{number}-{n}", method="declare_queue", exclusive=True)


async def exchanges(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    call = await amqp091_channel(stack, broker, user)
    return lambda n: call(f"e{number}-{n}", "direct", method="declare_exchange")


async def bindings(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    call = await amqp091_channel(stack, broker, user)
    if "all" not in broker.router.queues:
        broker.router.make_queue("all")
    return lambda n: call("all", "amq.direct", f"k{number}-{n}", method="bind_queue")


async def amqp10_queues(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    client = await stack.enter_async_context(amqp10.connect(url(broker, "amqp10", user)))
    return lambda n: client.sender(f"/queues/q{number}-{n}")


async def retained(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    client = await stack.enter_async_context(mqtt.connect(url(broker, "mqtt", user), client_identifier=f"c{number}"))
    return lambda n: client.publish(f"t/{number}/{n}", b"x", qos=1, retain=True)


async def topics_of_nsq(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    secret = None if user is None else USERS[user]
    client = await stack.enter_async_context(nsq.connect(broker.url("nsq"), secret=secret))
    return lambda n: client.publish(f"t{number}-{n}", b"x")


async def topics_of_rocketmq(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    credentials = rocketmq.Credentials(user, USERS[user]) if user is not None else None
    client = await stack.enter_async_context(rocketmq.connect(broker.url("rocketmq"), credentials=credentials))
    return lambda n: client.producer("g").send(f"t{number}-{n}", b"x")


async def asking(stack: AsyncExitStack, broker: Broker, user: str | None) -> tuple[Any, Any]:
    """A client of RocketMQ, and what asks its broker for something."""
    credentials = rocketmq.Credentials(user, USERS[user]) if user is not None else None
    client = await stack.enter_async_context(rocketmq.connect(broker.url("rocketmq"), credentials=credentials))

    async def ask(code: RequestCode, header: Any = None, body: bytes | None = None) -> RemotingCommand:
        return check(await client.remote(client.names[0]).call(code, header, body))

    return client, ask


def heartbeat(client: str, group: str, topics: int | None) -> bytes:
    """Of a producer; or of a consumer that subscribes to so many topics."""
    if topics is None:
        return rocketmq.HeartbeatData(
            client_id=client, producer_data_set=[rocketmq.ProducerData(group_name=group)], consumer_data_set=[]
        ).encode()
    consumer = rocketmq.ConsumerData(
        group_name=group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=[rocketmq.SubscriptionData(topic=f"t{n}", sub_string="*") for n in range(topics)],
        unit_mode=False,
    )
    return rocketmq.HeartbeatData(client_id=client, producer_data_set=[], consumer_data_set=[consumer]).encode()


async def producer_groups(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    _, ask = await asking(stack, broker, user)
    return lambda n: ask(RequestCode.HEART_BEAT, body=heartbeat(f"c{number}", f"g{number}-{n}", None))


async def consumer_groups(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    _, ask = await asking(stack, broker, user)
    return lambda n: ask(RequestCode.HEART_BEAT, body=heartbeat(f"c{number}", f"g{number}-{n}", 0))


async def members(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    _, ask = await asking(stack, broker, user)
    return lambda n: ask(RequestCode.HEART_BEAT, body=heartbeat(f"c{number}-{n}", "all", 0))


async def subscriptions(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    """Each member and each subscription count one."""
    _, ask = await asking(stack, broker, user)
    return lambda n: ask(RequestCode.HEART_BEAT, body=heartbeat(f"c{number}-{n}", f"g{number}", 149))


async def locks(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    _, ask = await asking(stack, broker, user)
    broker.rocketmq.topic("all", 1000)

    async def take(n: int) -> None:
        queue = rocketmq.MessageQueue(topic="all", broker_name="broker-a", queue_id=n)
        body = rocketmq.LockBatchRequestBody(consumer_group=f"g{number}", client_id=f"c{number}", mq_set=[queue])
        answer = await ask(RequestCode.LOCK_BATCH_MQ, body=body.encode())
        if not rocketmq.LockBatchResponseBody.decode(answer.body_bytes()).lock_okmqset:
            raise ConnectionLost("a lock that there is no space for is not in the answer")

    return take


async def offsets(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    _, ask = await asking(stack, broker, user)
    broker.rocketmq.topic("all", 1000)

    def take(n: int) -> Any:
        header = rocketmq.UpdateConsumerOffsetRequestHeader(
            consumer_group=f"g{number}", topic="all", queue_id=n, commit_offset=0
        )
        return ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)

    return take


async def places_of_pops(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    client, _ = await asking(stack, broker, user)
    broker.rocketmq.topic("all", 50)
    return lambda n: client.pop_consumer(f"g{number}-{n}").pop("all", wait=0)


async def popped(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    client, _ = await asking(stack, broker, user)
    for _ in range(20 if "all" not in broker.rocketmq.topics else 0):
        await client.producer("g").send("all", b"x")

    async def take(n: int) -> None:
        if not await client.pop_consumer("g").pop("all", count=1, invisible=60.0, wait=0.01):
            raise ConnectionLost("there is no word for a refusal")

    return take


async def queues_of_phpmq(stack: AsyncExitStack, broker: Broker, user: str | None, number: int) -> Take:
    client = await stack.enter_async_context(phpmq.connect(broker.url("phpmq")))

    async def take(n: int) -> None:
        refused = broker.phpmq.counts["refused"]
        await client.publish(f"q{number}-{n}", b"x")
        await until(lambda: f"q{number}-{n}" in broker.phpmq.queues or broker.phpmq.counts["refused"] > refused)
        if broker.phpmq.counts["refused"] > refused:
            raise ConnectionLost("there is no word for a refusal")

    return take


CASES = {
    "queues": Case(queues, Refused, 406),
    "exclusive queues": Case(exclusive_queues, Refused, 406),
    "exchanges": Case(exchanges, Refused, 406),
    "bindings": Case(bindings, Refused, 406),
    "queues of AMQP 1.0": Case(amqp10_queues, Refused),
    "retained messages": Case(retained, Refused, 0x97),
    "topics of NSQ": Case(topics_of_nsq, Refused),
    "topics of RocketMQ": Case(topics_of_rocketmq, Refused),
    "producer groups": Case(producer_groups, Refused, ResponseCode.SYSTEM_BUSY),
    "consumer groups": Case(consumer_groups, Refused, ResponseCode.SYSTEM_BUSY),
    "members of a group": Case(members, Refused, ResponseCode.SYSTEM_BUSY),
    "members and their subscriptions": Case(subscriptions, Refused, ResponseCode.SYSTEM_BUSY, clients=1, users=2),
    "locks": Case(locks, ConnectionLost, clients=25 * MOST, users=50 * MOST),
    "offsets": Case(offsets, Refused, ResponseCode.SYSTEM_BUSY, clients=25 * MOST, users=50 * MOST),
    "places of pops": Case(places_of_pops, Refused, ResponseCode.SYSTEM_BUSY, clients=MOST // 2, users=MOST),
    "popped messages": Case(popped, ConnectionLost),
    "queues of PHPMQ": Case(queues_of_phpmq, ConnectionLost, users=None),
}


@asynccontextmanager
async def served(users: bool) -> AsyncIterator[Broker]:
    async with Broker(
        ports=dict.fromkeys(("mqtt", "amqp", "amqp10", "nsq", "rocketmq", "phpmq"), 0),
        users=USERS if users else None,
        limits=Limits(queues=MOST, exchanges=MOST + 6, bindings=MOST),
        mqtt=mqtt_broker.BrokerOptions(retained_messages=MOST),
        nsq=nsq_broker.BrokerOptions(topics=MOST),
        rocketmq=rocketmq_broker.BrokerOptions(topics=MOST, groups=MOST, members=MOST, popped=MOST),
        phpmq=phpmq_broker.BrokerOptions(queues=MOST),
        grace=0.0,
    ) as broker:
        yield broker


async def takes(take: Take, most: int = 1000) -> tuple[int, Exception | None]:
    """How many things it gets, and the error at the end."""
    for n in range(most):
        try:
            async with asyncio.timeout(20):
                await take(n)
        except (Refused, ConnectionLost) as error:
            return n, error
    return most, None


@pytest.mark.parametrize("name", CASES)
def test_a_client_has_its_share(name: str) -> None:
    case = CASES[name]

    async def test() -> None:
        async with served(users=False) as broker, AsyncExitStack() as stack:
            got, error = await takes(await case.client(stack, broker, None, 0))
            most = 3 if name == "exchanges" else case.clients  # of those that are not predeclared
            assert got == most
            assert type(error) is case.error
            if case.code is not None:
                assert error.code == case.code  # type: ignore[attr-defined]
            other, _ = await takes(await case.client(stack, broker, None, 1))
            assert other == most

    run(test())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.users is not None])
def test_a_user_has_his_share(name: str) -> None:
    case = CASES[name]

    async def test() -> None:
        async with served(users=True) as broker, AsyncExitStack() as stack:
            got = [(await takes(await case.client(stack, broker, "ann", number)))[0] for number in range(4)]
            most = MOST - 1 if name == "exchanges" else case.users
            assert sum(got) == most
            assert (await takes(await case.client(stack, broker, "bob", 9), 1))[0] == 1

    run(test())


def test_what_is_gone_counts_no_more() -> None:
    async def test() -> None:
        async with served(users=True) as broker, AsyncExitStack() as stack:
            for number in range(5):  # exclusive queues end with their connection
                async with AsyncExitStack() as own:
                    got, _ = await takes(await exclusive_queues(own, broker, "ann", number))
                    assert got == MOST // 4
                await until(lambda: not broker.router.queues)
            call = await amqp091_channel(stack, broker, "ann")
            for n in range(MOST * 2):
                await call(f"q{n}", method="declare_queue")
                await call(f"q{n}", "amq.direct", "k", method="bind_queue")
                await call(f"q{n}", method="delete_queue")

    run(test())


def test_what_is_gone_counts_no_more_with_rocketmq() -> None:
    async def test() -> None:
        async with served(users=False) as broker, AsyncExitStack() as stack:
            of = broker.rocketmq
            client, ask = await asking(stack, broker, None)
            of.topic("all", 4)
            queue = rocketmq.MessageQueue(topic="all", broker_name="broker-a", queue_id=0)
            for n in range(MOST):
                await ask(RequestCode.HEART_BEAT, body=heartbeat("c", f"g{n}", None))
                await ask(RequestCode.HEART_BEAT, body=heartbeat("c", f"g{n}", 20))
                body = rocketmq.LockBatchRequestBody(consumer_group=f"g{n}", client_id="c", mq_set=[queue]).encode()
                await ask(RequestCode.LOCK_BATCH_MQ, body=body)
                if n % 2:  # otherwise the member that leaves unlocks it
                    await ask(RequestCode.UNLOCK_BATCH_MQ, body=body)
                header = rocketmq.UnregisterClientRequestHeader(
                    client_id="c", producer_group=f"g{n}", consumer_group=f"g{n}"
                )
                await ask(RequestCode.UNREGISTER_CLIENT, header)
            (holder,) = of._clients.holders.values()
            assert holder.counts == {}
            consumer = client.pop_consumer("g")
            for n in range(MOST):
                await client.producer("g").send("all", b"x")
                (message,) = await consumer.pop("all", count=1, invisible=60.0)
                assert holder.counts["popped"] == 1
                if n % 2:
                    message = await consumer.change_invisible(message, 50.0)
                    assert holder.counts["popped"] == 1
                await consumer.ack(message)
                assert "popped" not in holder.counts

    run(test())


def test_messages_that_wait_to_be_delivered_again_shut_out_nobody() -> None:
    """A group that is gone loses its first one when there are too many. That is a dead letter."""

    async def test() -> None:
        async with served(users=False) as broker, AsyncExitStack() as stack:
            of = broker.rocketmq
            client, _ = await asking(stack, broker, None)
            of.topic("all", 1)
            for n in range(MOST + 1):
                await client.producer("p").send("all", b"%d" % n)
            gone = client.pop_consumer("gone")
            for n in range(MOST):
                of._popping._hide("gone", "all", Taken(0, n, 0, UNOWNED), of._popping._pop_time(), 1)
            await until(lambda: not of._popping.popped)
            assert "%DLQ%gone" not in of.topics
            here = client.pop_consumer("here")
            assert [p.message.body for p in await here.pop("all", 2, invisible=0.001)] == [b"0", b"1"]
            await until(lambda: not of._popping.popped)
            assert len(of._popping.revived) == MOST
            assert [taken.offset for taken in of._popping.revived._places["here", "all"].values()] == [0, 1]
            assert [s.message().body for s in of.topics["%DLQ%gone"][0].messages] == [b"0", b"1"]
            assert [p.message.body for p in await gone.pop("all", 1, invisible=60.0)] == [b"2"]

    run(test())


@pytest.mark.parametrize("users", [False, True])
def test_who_has_popped_most_loses_messages_that_wait(users: bool) -> None:
    """A client with many groups that pops and never comes again does not make a slow group's messages dead letters."""

    async def test() -> None:
        async with served(users=users) as broker, AsyncExitStack() as stack:
            of = broker.rocketmq
            of.topic("all", 1)
            (slow, _) = await asking(stack, broker, "ann" if users else None)
            many = [(await asking(stack, broker, "bob"))[0] for _ in range(2)] if users else None
            many = many or [(await asking(stack, broker, None))[0]]
            for n in range(2):
                await slow.producer("p").send("all", b"%d" % n)
            assert len(await slow.pop_consumer("slow").pop("all", 2, invisible=0.001)) == 2
            await until(lambda: not of._popping.popped)
            for n in range(MOST):
                await many[n % len(many)].pop_consumer(f"g{n % 4}-{n}").pop("all", 1, invisible=0.001)
                await until(lambda: not of._popping.popped)
            assert "%DLQ%slow" not in of.topics
            assert sum(name.startswith("%DLQ%g") for name in of.topics) == 2
            assert len(await slow.pop_consumer("slow").pop("all", 2, invisible=60.0)) == 2

    run(test())


def test_every_client_is_in_the_inner_group() -> None:
    """The real client lists CLIENT_INNER_PRODUCER in each heartbeat, so that group has as many members as there are clients."""

    async def test() -> None:
        async with served(users=True) as broker, AsyncExitStack() as stack:
            _, ask = await asking(stack, broker, "ann")
            for n in range(2 * MOST):
                _, ask = await asking(stack, broker, "ann")
                await ask(RequestCode.HEART_BEAT, body=heartbeat(f"c{n}", "CLIENT_INNER_PRODUCER", None))
            assert len(broker.rocketmq.producers["CLIENT_INNER_PRODUCER"]) == 2 * MOST

    run(test())


def test_requests_that_look_at_members_say_what_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small request for a large group is more than one unit of an iteration's work."""
    spent: list[int] = []
    monkeypatch.setattr(Driver, "spend", lambda driver, work: spent.append(work))

    async def test() -> None:
        async with Broker(ports={"rocketmq": 0}, grace=0.0) as broker, AsyncExitStack() as stack:
            _, ask = await asking(stack, broker, None)
            broker.rocketmq.topic("t0", 1)
            for n in range(160):
                await ask(RequestCode.HEART_BEAT, body=heartbeat(f"c{n}", "g", 1))
            header = rocketmq.GetConsumerListByGroupRequestHeader(consumer_group="g")
            await ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
            pull = rocketmq.PullMessageRequestHeader(
                consumer_group="g", topic="t0", queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=0, commit_offset=0,
                suspend_timeout_millis=0, sub_version=0,
            )  # fmt: skip
            with pytest.raises(Refused):
                await ask(RequestCode.PULL_MESSAGE, pull)

    run(test())
    assert [work for work in spent if work] == [10, 10]


def test_a_message_that_its_queue_has_dropped_is_not_delivered_again() -> None:
    async def test() -> None:
        options = rocketmq_broker.BrokerOptions(queue_messages=1)
        async with Broker(ports={"rocketmq": 0}, rocketmq=options, grace=0.0) as broker, AsyncExitStack() as stack:
            client, _ = await asking(stack, broker, None)
            broker.rocketmq.topic("all", 1)
            consumer, producer = client.pop_consumer("g"), client.producer("p")
            await producer.send("all", b"0")
            assert await consumer.pop("all", invisible=0.001)
            await producer.send("all", b"1")
            await until(lambda: not broker.rocketmq._popping.popped)
            assert [p.message.body for p in await consumer.pop("all", invisible=60.0)] == [b"1"]

    run(test())


def test_a_client_without_room_does_not_keep_its_group_waiting() -> None:
    async def test() -> None:
        async with served(users=False) as broker, AsyncExitStack() as stack:
            of = broker.rocketmq
            (full, _), (free, _) = [await asking(stack, broker, None) for _ in range(2)]
            of.topic("all", 1)
            for _ in range(MOST // 4):
                await free.producer("p").send("all", b"x")
            assert len(await full.pop_consumer("g").pop("all", invisible=60.0)) == MOST // 4
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(full.pop_consumer("g").pop("all", invisible=60.0, wait=50.0))
                await until(lambda: of._waits.count == 1)
                second = tasks.create_task(free.pop_consumer("g").pop("all", invisible=60.0, wait=50.0))
                await until(lambda: of._waits.count == 2)
                await free.producer("p").send("all", b"y")
            assert first.result() == []
            assert [p.message.body for p in second.result()] == [b"y"]

    run(test())


def test_dead_letters_of_pops_need_room() -> None:
    async def test() -> None:
        options = rocketmq_broker.BrokerOptions(memory=8000, popped=MOST)
        async with Broker(ports={"rocketmq": 0}, rocketmq=options, grace=0.0) as broker, AsyncExitStack() as stack:
            of = broker.rocketmq
            (sender, _), (client, _) = [await asking(stack, broker, None) for _ in range(2)]
            of.topic("all", 1)
            await sender.producer("p").send("all", bytes(1000))
            for n in range(4):
                assert await client.pop_consumer(f"g{n}").pop("all", invisible=60.0)
                (key,) = of._popping.popped
                of._popping._dead_letter(f"g{n}", "all", of._popping._unhide(key).taken)
            assert [name for name in of.topics if name.startswith("%DLQ%")] == ["%DLQ%g0"]
            assert of.dropped == 3
            assert of.shares.bytes < 8000

    run(test())


def test_bytes_are_of_the_client_that_has_published_them() -> None:
    async def test() -> None:
        limits = Limits(memory=40_000, queue_bytes=40_000)
        async with Broker(ports={"amqp": 0}, limits=limits, grace=0.0) as broker, AsyncExitStack() as stack:
            broker.router.make_queue("q")
            one, two = [await stack.enter_async_context(amqp091.connect(broker.url("amqp"))) for _ in range(2)]
            channel, other = await one.channel(), await two.channel()

            async def fill(sender: Any) -> int:
                got, error = await takes(lambda n: sender.publish(bytes(1000), routing_key="q"))
                assert isinstance(error, Refused)
                return got

            got = await fill(channel)
            assert got == 6  # of 10,000 bytes, with what a message costs besides its own
            assert await fill(other) == got
            broker.router.queues["q"].purge()
            assert broker.router.shares.bytes == 0
            assert await fill(channel) == got

    run(test())


@pytest.mark.parametrize("share", [0, -1.0, 1.5])
def test_a_share_is_a_part(share: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Shares(share, 0.5)
    with pytest.raises(ValueError, match="above 0"):
        Broker(limits=Limits(user_share=share))


def test_what_is_nobodys_has_no_share() -> None:
    shares = Shares(0.25, 0.5)
    assert shares.lacks(UNOWNED, "queues", 1, 100) is None
    assert shares.left(UNOWNED, "queues", 8) == 8
    ann, other = shares.holder("ann"), shares.holder("ann")
    ann.count("queues", 2)
    assert shares.lacks(ann, "queues", 8) == "client"
    assert shares.lacks(other, "queues", 8) is None
    other.count("queues", 2)
    assert shares.lacks(shares.holder("ann"), "queues", 8) == "user"
    assert shares.lacks(shares.holder("bob"), "queues", 8) is None
    ann.count("queues", -1)
    assert [shares.left(each, "queues", 8) for each in (ann, other, shares.holder("ann"))] == [1, 0, 1]
    assert shares.left(shares.holder("bob"), "queues", 8) == 2
    assert shares.left(shares.holder(None), "queues", 2) == 1  # at least one
    assert Shares(1, 1).left(ann, "queues", 8) == 8  # what is left to the limit


def test_what_is_kept_is_counted() -> None:
    """As far as a broker, a user and a client have: all of it is in one place."""
    shares = Shares(0.25, 0.5)
    ann, other = shares.holder("ann"), shares.holder("ann")
    shares.keep(ann, 20, 2)
    shares.keep(other, 20)
    shares.keep(UNOWNED, 40, 1)
    assert (shares.bytes, shares.messages) == (80, 3)
    assert (ann.bytes, ann.messages, ann.user and ann.user.bytes) == (20, 2, 40)
    assert shares.fits(ann, 100, 5)
    assert not shares.fits(ann, 100, 6)  # a client's share
    assert shares.fits(shares.holder("ann"), 100, 10)
    assert not shares.fits(shares.holder("ann"), 100, 11)  # a user's
    assert shares.fits(UNOWNED, 100, 20)
    assert not shares.fits(UNOWNED, 100, 21)  # all
    assert shares.fits_messages(other, 8, 2)
    assert not shares.fits_messages(other, 8, 3)
    assert not shares.fits_messages(ann, 8, 1)
    assert not shares.fits_messages(UNOWNED, 3, 1)
    shares.keep(ann, 20)
    assert not shares.fits(ann, 100, 1)
    assert shares.fits(ann, 100, 0)  # it wants no more
    assert shares.fits(ann, 100, -1)
    assert not shares.fits(ann, 99, 0)
