"""`amqp10.connect` and `amqp10.serve` on loopback, with the broker in memory as host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run, until
from wirefmt import amqp10
from wirefmt.broker.amqp10 import Broker, BrokerOptions
from wirefmt.broker.routing import Limits, Router
from wirefmt.connection import Disconnected
from wirefmt.connection.sasl import Scram, ScramCredentials
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

QUICK = amqp10.Backoff(first=0.01, most=0.05)


def message(text: str) -> amqp10.Message:
    return amqp10.Message(body=text.encode())


def text(delivery: Any) -> str:
    return bytes(delivery.message.payload).decode()


async def take(receiver: Any, count: int) -> list[str]:
    return [text(await receiver.receive()) for _ in range(count)]


async def started(broker: Any = None, **arguments: Any) -> amqp10.Server:
    return await amqp10.serve(broker or Broker(), HOST, 0, **arguments)


def url(server: amqp10.Server, scheme: str = "amqp", user: str = "") -> str:
    return f"{scheme}://{user}{HOST}:{server.port}"


def test_send_and_receive() -> None:
    async def test() -> None:
        async with await started() as server, amqp10.connect(url(server)) as client:
            sender = await client.sender("/queues/a")
            assert await sender.send(message("first")) == amqp10.Accepted()
            assert await sender.send(message("settled"), settled=True) is None
            outcomes = await asyncio.gather(*(sender.post(message(str(n))) for n in range(1000)))
            assert set(outcomes) == {amqp10.Accepted()}
            receiver = await client.receiver("/queues/a", credit=50)
            assert await take(receiver, 1002) == ["first", "settled", *map(str, range(1000))]

    run(test())


def test_every_answer() -> None:
    async def test() -> None:
        broker = Broker()
        async with await started(broker) as server, amqp10.connect(url(server)) as client:
            sender = await client.sender("/queues/a")
            receiver = await client.receiver("/queues/a", settle="manual", credit=1)
            queue = broker.queue("a")
            await sender.send(message("m"))
            for answer in (receiver.release, lambda d: receiver.modify(d, delivery_failed=True), receiver.reject):
                delivery = await receiver.receive()
                assert text(delivery) == "m"
                assert answer(delivery)
            await until(lambda: queue.dropped == 1)
            with pytest.raises(LocalProtocolError, match="answered"):
                receiver.accept(delivery)
            await sender.send(message("n"))
            delivery = await receiver.receive()
            await receiver.close()
            assert not receiver.accept(delivery)  # its link is gone
            assert [item.body for item in queue.messages] == [message("n").encode()]

    run(test())


def test_refusals_are_raised() -> None:
    async def test() -> None:
        broker = Broker(BrokerOptions(declare=False, users={"u": "p"}), router=Router(Limits(queue_messages=1)))
        broker.queue("a")
        async with await started(broker, mechanisms=["PLAIN"]) as server:
            with pytest.raises(Refused) as refused:
                await amqp10.connect(url(server, user="u:wrong@")).open()
            assert refused.value.code == 1
            async with amqp10.connect(url(server, user="u:p@")) as client:
                with pytest.raises(Refused, match="not-found"):
                    await client.sender("/queues/b")
                with pytest.raises(Refused, match="not-found"):
                    await client.receiver("/other/b")
                sender = await client.sender("/queues/a")
                await sender.send(message("1"))
                with pytest.raises(Refused, match="full") as refused:
                    await sender.send(message("2"))
                assert refused.value.code == 0x25
                with pytest.raises(LocalProtocolError, match="in use"):
                    await client.sender("/queues/a", name=sender.name)

    run(test())


def test_the_anonymous_terminus_and_dynamic_nodes() -> None:
    async def test() -> None:
        broker = Broker()
        async with await started(broker) as server:
            async with amqp10.connect(url(server)) as client:
                receiver = await client.receiver(amqp10.Source(dynamic=True))
                address = receiver.source.address
                sender = await client.sender(amqp10.Target())
                await sender.send(amqp10.Message(properties=amqp10.Properties(to=address), body=b"x"))
                assert await take(receiver, 1) == ["x"]
                with pytest.raises(Refused, match="to"):
                    await sender.send(message("nowhere"))
                with pytest.raises(Refused, match="not-found"):
                    await sender.send(amqp10.Message(properties=amqp10.Properties(to="/x/y"), body=b""))
                assert len(broker.router.queues) == 1
            await until(lambda: not broker.router.queues)

    run(test())


def test_credit_and_drain() -> None:
    async def test() -> None:
        async with await started() as server, amqp10.connect(url(server)) as client:
            sender = await client.sender("/queues/a")
            for n in range(3):
                await sender.send(message(str(n)))
            receiver = await client.receiver("/queues/a", credit=0)
            receiver.grant(2)
            assert await take(receiver, 2) == ["0", "1"]
            receiver.grant(10)
            await receiver.drain()
            assert await take(receiver, 1) == ["2"]
            await receiver.drain()  # without credit too
            receiver.grant(1)
            await sender.send(message("3"))
            assert await take(receiver, 1) == ["3"]

    run(test())


def test_large_messages_in_parts() -> None:
    async def test() -> None:
        broker = Broker()
        async with await started(broker) as server, amqp10.connect(url(server)) as client:
            sender = await client.sender("/queues/a")
            large = amqp10.Message(body=bytes(3_000_000)).encode()
            parts = (large[at : at + 100_000] for at in range(0, len(large), 100_000))
            assert await sender.stream(parts) == amqp10.Accepted()
            receiver = await client.receiver("/queues/a", streamed=True)
            found: list[bytes] = []
            async for item in receiver:
                if not isinstance(item, amqp10.Part):
                    break
                found.append(item.payload)
            assert len(found) > 30
            assert amqp10.decode_message(b"".join(found)).payload == bytes(3_000_000)
            assert isinstance(item, amqp10.Incoming)
            receiver.accept(item)
            await receiver.close()

            async def broken() -> Any:
                yield large[:200_000]
                raise ValueError("no more")

            with pytest.raises(ValueError, match="no more"):
                await sender.stream(broken())
            await sender.send(message("after"))
            assert [item.body for item in broker.queue("a").messages] == [message("after").encode()]

    run(test())


def test_transactions() -> None:
    async def test() -> None:
        broker = Broker()
        queue = broker.queue("a")
        async with await started(broker) as server, amqp10.connect(url(server)) as client:
            sender = await client.sender("/queues/a")
            async with client.transaction() as transaction:
                state = await sender.send(message("1"), transaction=transaction)
                assert state.outcome == amqp10.Accepted()
                assert not queue.messages
            assert len(queue.messages) == 1

            async def failing(act: Any) -> None:
                async with client.transaction() as transaction:
                    await act(transaction)
                    raise ValueError("no")

            async def accepting(transaction: amqp10.Transaction) -> None:
                receiver.accept(delivery, transaction=transaction)

            with pytest.raises(ValueError, match="no"):
                await failing(lambda transaction: sender.send(message("2"), transaction=transaction))
            assert len(queue.messages) == 1
            receiver = await client.receiver("/queues/a", settle="manual")
            delivery = await receiver.receive()
            with pytest.raises(ValueError, match="no"):
                await failing(accepting)
            delivery = await receiver.receive()  # again
            async with client.transaction() as transaction:
                receiver.accept(delivery, transaction=transaction)
            assert not queue.messages
            with pytest.raises(Refused, match="unknown-id"):
                await sender.send(message("3"), transaction=transaction)

    run(test())


def test_reconnection_restores_links_and_sends_again_in_order() -> None:
    async def test() -> None:
        broker = Broker()
        server = await started(broker)
        async with server, amqp10.connect(url(server), reconnect=QUICK) as client:
            sender = await client.sender("/queues/a")
            receiver = await client.receiver("/queues/b")
            other = await client.sender("/queues/b")
            posted = []
            for n in range(200):
                posted.append(sender.post(message(str(n))))
                if n % 50 == 25:
                    await asyncio.sleep(0)
                    for driver in list(server.drivers):
                        driver.abort()
                    await asyncio.sleep(0.01)
            assert set(await asyncio.gather(*posted)) == {amqp10.Accepted()}
            assert client.connections > 1
            got = [amqp10.decode_message(item.body) for item in sorted(broker.queue("a").messages)]
            numbers = [int(bytes(m.payload)) for m in got if m.payload is not None]
            first = [n for k, n in enumerate(numbers) if n not in numbers[:k]]
            assert first == list(range(200))
            await other.send(message("b"))
            assert await take(receiver, 1) == ["b"]

    run(test())


def test_without_reconnection_the_end_is_raised() -> None:
    async def test() -> None:
        async with await started() as server:
            client = amqp10.connect(url(server))
            async with client:
                receiver = await client.receiver("/queues/a")
                waiting = asyncio.ensure_future(receiver.receive())
                await asyncio.sleep(0)
                for driver in list(server.drivers):
                    driver.abort()
                with pytest.raises(ConnectionLost):
                    await waiting
                with pytest.raises(ConnectionLost):
                    await client.sender("/queues/a")
            with pytest.raises(ConnectionLost):
                await client.receiver("/queues/a")

    run(test())


def test_a_call_may_be_cancelled() -> None:
    async def test() -> None:
        async with await started() as server, amqp10.connect(url(server)) as client:
            receiver = await client.receiver("/queues/a")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await receiver.receive()
            sender = await client.sender("/queues/a")
            attempt = asyncio.ensure_future(client.sender("/queues/a"))
            await asyncio.sleep(0)
            attempt.cancel()
            await asyncio.gather(attempt, return_exceptions=True)
            await sender.send(message("x"))
            assert await take(receiver, 1) == ["x"]

    run(test())


def test_websocket() -> None:
    async def test() -> None:
        async with await started(websocket=True) as server, amqp10.connect(url(server, "ws") + "/amqp") as client:
            sender = await client.sender("/queues/a")
            await sender.send(message("x" * 200_000))
            receiver = await client.receiver("/queues/a")
            assert await take(receiver, 1) == ["x" * 200_000]

    run(test())


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")
def test_tls(tmp_path: Path) -> None:
    ours, theirs = certificate(tmp_path)

    async def test() -> None:
        async with await started(ssl=ours) as server, amqp10.connect(url(server, "amqps"), ssl=theirs) as client:
            sender = await client.sender("/queues/a")
            assert await sender.send(message("x")) == amqp10.Accepted()

    run(test())


def test_a_coroutine_as_handler_and_scram() -> None:
    credentials = ScramCredentials.of("secret", b"salt")
    seen: list[Any] = []

    async def handler(peer: amqp10.Peer) -> None:
        async for event in peer:
            match event:
                case amqp10.Login():
                    peer.accept(event, credentials=credentials, nonce="n")
                case amqp10.Open():
                    peer.accept(event)
                case amqp10.Attaching():
                    peer.accept(event)
                    event.link.grant(10)
                    peer.update()
                case amqp10.Incoming():
                    seen.append(text(event))
                    peer.accept(event)
                case Disconnected():
                    seen.append(event.by)

    async def test() -> None:
        async with await started(handler, mechanisms=["SCRAM-SHA-256"]) as server:
            async with amqp10.connect(url(server), sasl=Scram("user", "secret", "nonce")) as client:
                sender = await client.sender("/anything")
                await sender.send(message("x"))
            await until(lambda: len(seen) == 2)
        assert seen == ["x", "peer"]

    run(test())


def test_urls() -> None:
    with pytest.raises(ValueError, match="mqtt"):
        amqp10.connect("mqtt://host")
