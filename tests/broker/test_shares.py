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
from wirefmt.broker.shares import UNOWNED, Shares
from wirefmt.errors import ConnectionLost, Refused

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
        rocketmq=rocketmq_broker.BrokerOptions(topics=MOST),
        phpmq=phpmq_broker.BrokerOptions(queues=MOST),
        grace=0.0,
    ) as broker:
        yield broker


async def takes(take: Take, most: int = 100) -> tuple[int, Exception | None]:
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


def test_bytes_are_of_the_client_that_has_published_them() -> None:
    async def test() -> None:
        limits = Limits(bytes=40_000, queue_bytes=40_000)
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
            assert broker.router.bytes == 0
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
    ann, other = shares.holder("ann"), shares.holder("ann")
    ann.count("queues", 2)
    assert shares.lacks(ann, "queues", 8) == "client"
    assert shares.lacks(other, "queues", 8) is None
    other.count("queues", 2)
    assert shares.lacks(shares.holder("ann"), "queues", 8) == "user"
    assert shares.lacks(shares.holder("bob"), "queues", 8) is None
