"""`amqp10.connect` against RabbitMQ 4, whose AMQP 1.0 is native and has addresses of version 2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lib import amqp10_live
from lib.amqp10_live import message
from lib.loopback import HOST, run
from lib.rabbitmq import PASSWORD, USER, Broker
from wirefmt import amqp091, amqp10
from wirefmt.connection.recovery import NotRestored
from wirefmt.connection.sasl import Anonymous
from wirefmt.errors import ConnectionLost, Refused

pytestmark = pytest.mark.live


def with_queue(rabbitmq4: Broker, test: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """Run it with a client, and the queue "q"."""

    async def whole() -> None:
        url = f"amqp://{USER}:{PASSWORD}@{HOST}:{rabbitmq4.port}"
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
def test_what_any_broker_does(rabbitmq4: Broker, does: Any) -> None:
    with_queue(rabbitmq4, lambda ours: does(ours, "/queues/q"))


def test_a_wrong_password_and_no_sasl(rabbitmq4: Broker) -> None:
    async def test() -> None:
        with pytest.raises(Refused) as refused:
            await amqp10.connect(f"amqp://{USER}:wrong@{HOST}:{rabbitmq4.port}").open()
        assert refused.value.code == 1
        for sasl in (Anonymous(), ()):  # it offers no ANONYMOUS, and demands the SASL layer
            with pytest.raises((ConnectionLost, Refused)):
                await amqp10.connect(f"amqp://{HOST}:{rabbitmq4.port}", sasl=sasl).open()

    run(test())


def test_what_has_no_queue_is_released(rabbitmq4: Broker) -> None:
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

    with_queue(rabbitmq4, test)


def test_a_queue_has_no_filters_though_its_answer_says_so(rabbitmq4: Broker) -> None:
    """4.0 repeats in its answer what was asked, so nobody can see that it is ignored."""

    async def test(ours: Any) -> None:
        sender = await ours.sender("/queues/q")
        for asked in ({"selector": "n = 5"}, {"browse": True}):
            await sender.send(message(b"x"))
            receiver = await ours.receiver("/queues/q", **asked)
            assert await amqp10_live.take(receiver, 1) == [b"x"]
            receiver.finish()
            await receiver.close()
            rest = await ours.receiver("/queues/q", credit=0)
            rest.grant(1)
            await rest.drain()
            assert not rest._inbox
            await rest.close()

    with_queue(rabbitmq4, test)


def test_an_address_without_a_queue(rabbitmq4: Broker) -> None:
    """4.0 ends the session, with all its links. Later versions refuse the link."""

    async def test(ours: Any) -> None:
        sender = await ours.sender("/queues/q")
        receiver = await ours.receiver("/queues/q", settle="manual")
        for n in range(10):
            posted = [sender.post(message(b"%d-%d" % (n, k))) for k in range(50)]
            names = ["/queues/is-not-there", "/exchanges/is-not-there/x", "/queues/q", "/queues/is-not-there"]
            found: list[Any] = await asyncio.gather(
                *((ours.sender if "ex" in name else ours.receiver)(name) for name in names), return_exceptions=True
            )
            assert [isinstance(one, Refused) for one in found] == [True, True, False, True]
            await found[2].close()
            assert set(await asyncio.gather(*posted)) == {amqp10.Accepted()}
        got: set[bytes] = set()
        async with asyncio.timeout(30):
            while len(got) < 500:
                delivery = await receiver.receive()
                got.add(bytes(delivery.message.payload))
                receiver.accept(delivery)
        assert ours.connections == 1

    with_queue(rabbitmq4, test)


def test_many_senders_of_one_session(rabbitmq4: Broker) -> None:
    """Its window is 400, its credit 170."""

    async def test(ours: Any) -> None:
        senders = [await ours.sender("/queues/q") for _ in range(4)]
        posted = [sender.post(message(b"x")) for sender in senders for _ in range(1000)]
        async with asyncio.timeout(60):
            assert set(await asyncio.gather(*posted)) == {amqp10.Accepted()}
        receivers = await asyncio.gather(*(ours.receiver("/queues/q", credit=1) for _ in range(300)))  # 255 a session
        assert len({receiver.link.session for receiver in receivers}) == 2

    with_queue(rabbitmq4, test)


def test_a_queue_that_is_gone_when_the_client_comes_back(rabbitmq4: Broker) -> None:
    async def test() -> None:
        url = f"amqp://{USER}:{PASSWORD}@{HOST}:{rabbitmq4.port}"
        told: list[Any] = []
        backoff = amqp10.Backoff(first=0.1, most=0.5)
        async with (
            amqp091.connect(f"{url}/") as other,
            amqp10.connect(url, reconnect=backoff, on_event=told.append) as ours,
        ):
            channel = await other.channel()
            for name in ("q", "going"):
                await channel.declare_queue(name, durable=True)
            good, going = await ours.sender("/queues/q"), await ours.receiver("/queues/going", on_refused="retry")
            kept, left = await ours.sender("/queues/q"), await ours.receiver("/queues/going", on_refused="fail")
            await channel.delete_queue("going")
            assert ours._link is not None
            ours._link.driver.abort()
            async with asyncio.timeout(60):
                assert await good.send(message(b"x")) == amqp10.Accepted()
                with pytest.raises(Refused):
                    await left.receive()
                while not any(isinstance(event, NotRestored) and event.action == "retry" for event in told):
                    await asyncio.sleep(0.05)
                assert await kept.send(message(b"x")) == amqp10.Accepted()
                await channel.declare_queue("going", durable=True)
                await channel.publish(b"again", routing_key="going")
                assert bytes((await going.receive()).message.payload) == b"again"
            assert ours.connections == 2
            await channel.delete_queue("going")

    run(test())


def test_requests_need_dynamic_nodes(rabbitmq4: Broker) -> None:
    """RabbitMQ has them since 4.2."""

    async def test(ours: Any) -> None:
        receiver = await ours.receiver("/queues/q")
        sender = await ours.sender(amqp10.Target())

        async def respond() -> None:
            async for delivery in receiver:
                asked = delivery.message.properties
                properties = amqp10.Properties(to=asked.reply_to, correlation_id=asked.correlation_id)
                await sender.send(amqp10.Message(properties=properties, body=b"reply"))

        responder = asyncio.create_task(respond())
        try:
            reply = await ours.request("/queues/q", message(b"x"), timeout=10)
            assert bytes(reply.payload) == b"reply"
        except Refused as refused:
            assert refused.code == "amqp:not-implemented"
        finally:
            responder.cancel()
            await asyncio.gather(responder, return_exceptions=True)

    with_queue(rabbitmq4, test)
