"""What one client does costs what it has sent, not what others, or other parts of its connection, have."""

from __future__ import annotations

from typing import Any

import pytest

from lib.loopback import HOST, run, until
from wirefmt import amqp091, amqp10
from wirefmt.broker import amqp091 as broker_amqp091
from wirefmt.broker import amqp10 as broker_amqp10
from wirefmt.broker import routing


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
            woken = Counted(monkeypatch, routing.Queue, "wake")
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
            woken = Counted(monkeypatch, routing.Queue, "wake")
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
            woken = Counted(monkeypatch, routing.Queue, "wake")
            broker.writable(driver.host)
            assert woken.count == 0
        broker.close()

    run(test())
