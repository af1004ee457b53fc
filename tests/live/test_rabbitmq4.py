"""`amqp10.connect` against RabbitMQ 4, whose AMQP 1.0 is native and has addresses of version 2."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from lib import amqp10_live
from lib.amqp10_live import message
from lib.loopback import HOST, run
from lib.rabbitmq import PASSWORD, USER, Broker, rabbitmq4
from wirefmt import amqp091, amqp10
from wirefmt.connection.sasl import Anonymous
from wirefmt.errors import ConnectionLost, Refused

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with rabbitmq4() as node:
        yield node


def with_queue(broker: Broker, test: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """Run it with a client, and the queue "q"."""

    async def whole() -> None:
        url = f"amqp://{USER}:{PASSWORD}@{HOST}:{broker.port}"
        async with amqp091.connect(f"{url}/") as other:
            channel = await other.channel()
            await channel.declare_queue("q", durable=True)
            await channel.purge_queue("q")
            async with amqp10.connect(url) as ours:
                await test(ours)

    run(whole())


@pytest.mark.parametrize(
    "does",
    [
        amqp10_live.send_and_receive, amqp10_live.settled_both_ways, amqp10_live.outcomes, amqp10_live.credit_and_drain,
        amqp10_live.a_message_in_parts,
    ],
)  # fmt: skip
def test_what_any_broker_does(broker: Broker, does: Any) -> None:
    with_queue(broker, lambda ours: does(ours, "/queues/q"))


def test_a_wrong_password_and_no_sasl(broker: Broker) -> None:
    async def test() -> None:
        with pytest.raises(Refused) as refused:
            await amqp10.connect(f"amqp://{USER}:wrong@{HOST}:{broker.port}").open()
        assert refused.value.code == 1
        for sasl in (Anonymous(), ()):  # it offers no ANONYMOUS, and demands the SASL layer
            with pytest.raises((ConnectionLost, Refused)):
                await amqp10.connect(f"amqp://{HOST}:{broker.port}", sasl=sasl).open()

    run(test())


def test_what_has_no_queue_is_released(broker: Broker) -> None:
    async def test(ours: Any) -> None:
        sender = await ours.sender("/exchanges/amq.direct/nowhere")
        with pytest.raises(Refused) as refused:
            await sender.send(message(b"x"))
        assert isinstance(refused.value.message, amqp10.Released)
        anonymous = await ours.sender(amqp10.Target())  # without an address
        assert (
            await anonymous.send(amqp10.Message(properties=amqp10.Properties(to="/queues/q"), body=b"x"))
            == amqp10.Accepted()
        )

    with_queue(broker, test)


def test_an_address_without_a_queue(broker: Broker) -> None:
    """4.0 ends the session. Later versions refuse the link."""

    async def test(ours: Any) -> None:
        with pytest.raises((ConnectionLost, Refused)):
            await ours.receiver("/queues/is-not-there")

    with_queue(broker, test)
