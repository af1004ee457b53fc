"""`amqp10.connect` and `amqp10.serve` on loopback, with the broker in memory as host."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lib.kinds import checked
from lib.loopback import HOST, OPENSSL, certificate, run, until
from wirefmt import amqp10
from wirefmt.amqp10.journal import Journal
from wirefmt.broker.amqp10 import Broker, BrokerOptions
from wirefmt.broker.limits import ENTRY, Limits
from wirefmt.broker.routing import Router
from wirefmt.connection import Disconnected
from wirefmt.connection.sasl import Scram, ScramCredentials
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

QUICK = amqp10.Backoff(first=0.01, most=0.05)


def message(text: str) -> amqp10.Message:
    return amqp10.Message(body=text.encode())


def text(delivery: Any) -> str:
    return bytes(delivery.message.payload).decode()


def text_of(item: Any) -> str:
    return bytes(checked(amqp10.decode_message(item.body).payload, memoryview)).decode()


async def whole(client: amqp10.Client, act: Any) -> None:
    """`act` with a transaction, which commits."""
    async with client.transaction() as transaction:
        await act(transaction)


async def take(receiver: Any, count: int) -> list[str]:
    return [text(await receiver.receive()) for _ in range(count)]


async def started(broker: Any = None, **arguments: Any) -> amqp10.Server:
    return await amqp10.serve(broker or Broker(), HOST, 0, **arguments)


def url(server: amqp10.Server, scheme: str = "amqp", user: str = "") -> str:
    return f"{scheme}://{user}{HOST}:{server.port}"


@contextlib.asynccontextmanager
async def sending(broker: Any = None) -> AsyncIterator[tuple[amqp10.Client, Any]]:
    """A client of a server with this broker, and its sender to the queue `a`."""
    async with await started(broker) as server, amqp10.connect(url(server)) as client:
        yield client, await client.sender("/queues/a")


def test_send_and_receive() -> None:
    async def test() -> None:
        async with sending() as (client, sender):
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
        async with sending(broker) as (client, sender):
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
        async with sending() as (client, sender):
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
        async with sending(broker) as (client, sender):
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
            assert checked(amqp10.decode_message(b"".join(found)).payload, memoryview) == bytes(3_000_000)
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
        async with sending(broker) as (client, sender):
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


@pytest.mark.parametrize(
    ("requested", "answered"), [(None, "move"), ("copy", "copy"), ("move", "move"), ("other", "move")]
)
def test_a_source_says_whether_its_messages_are_consumed(requested: str | None, answered: str) -> None:
    """2.6.3, 3.5.3: the source of the answer has the distribution mode that is in effect, whatever the client requested."""

    async def test() -> None:
        async with await started() as server, amqp10.connect(url(server)) as client:
            receiver = await client.receiver(amqp10.Source(address="/queues/a", distribution_mode=requested))
            assert receiver.link.source.distribution_mode == answered

    run(test())


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        (Limits(queue_messages=2), [0, 0, 0]),
        (Limits(queue_bytes=10_000), [5000, 6000]),
        (Limits(memory=10_000, client_share=1), [5000, 6000]),
    ],
)
def test_messages_of_a_transaction_have_a_limit(limits: Limits, sizes: list[int]) -> None:
    """A message beyond the limit is rejected, and the transaction may commit without it. Its messages count until it ends."""

    async def test() -> None:
        router = Router(limits)
        broker = Broker(router=router)
        queue = broker.queue("a")
        async with sending(broker) as (client, sender):
            for commits in (False, True):
                try:
                    async with client.transaction() as transaction:
                        for size in sizes[:-1]:
                            await sender.send(message("x" * size), transaction=transaction)
                        assert router.shares.bytes > sum(sizes[:-1])
                        with pytest.raises(Refused, match="amqp:resource-limit-exceeded"):
                            await sender.send(message("x" * sizes[-1]), transaction=transaction)
                        if not commits:
                            raise ValueError("no")
                except ValueError:
                    assert router.shares.bytes == 0
            assert queue.count == len(sizes) - 1
            assert router.shares.bytes == sum(item.published.cost + ENTRY for item in queue.messages)
            async with client.transaction() as transaction:
                with pytest.raises(Refused, match="amqp:resource-limit-exceeded"):  # the queue is full as well
                    await sender.send(message("x" * sizes[-1]), transaction=transaction)

    run(test())


def test_settled_messages_of_a_transaction_that_is_too_large_do_not_commit() -> None:
    """4.3: a settled message has no outcome to report, so the discharge is rejected with a transaction error."""

    async def test() -> None:
        router = Router(Limits(queue_messages=2))
        broker = Broker(router=router)
        queue = broker.queue("a")
        async with sending(broker) as (client, sender):

            async def send(transaction: amqp10.Transaction) -> None:
                for _ in range(3):
                    await sender.send(message("x"), transaction=transaction, settled=True)

            with pytest.raises(Refused, match="amqp:transaction:rollback"):
                await whole(client, send)
            assert (queue.count, router.shares.bytes) == (0, 0)

    run(test())


def test_a_transaction_commits_as_a_whole_or_not_at_all() -> None:
    """4.3: the queue refuses messages beyond its limit, so it has no space for the whole transaction when it commits."""

    async def test() -> None:
        router = Router()
        queue = router.make_queue("a", arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
        async with sending(Broker(router=router)) as (client, sender):

            async def send(transaction: amqp10.Transaction) -> None:
                for n in range(3):
                    await sender.send(message(str(n)), transaction=transaction)
                await sender.send(message("outside"))

            with pytest.raises(Refused, match="amqp:transaction:rollback"):
                await whole(client, send)
            assert [item.body for item in queue.messages] == [message("outside").encode()]
            async with client.transaction() as transaction:
                for n in range(2):
                    await sender.send(message(str(n)), transaction=transaction)
            assert queue.count == 3

    run(test())


def test_deliveries_that_a_transaction_retires_have_a_limit() -> None:
    """A receiver that retires more than the limit in one transaction is detached. The transaction cannot commit."""

    async def test() -> None:
        router = Router(Limits(queue_messages=3))
        broker = Broker(router=router)
        queue = broker.queue("a")
        async with sending(broker) as (client, sender):
            receiver = await client.receiver("/queues/a", settle="manual")

            async def accept(transaction: amqp10.Transaction) -> None:
                for n in range(4):
                    await sender.send(message(str(n)))
                    receiver.accept(await receiver.receive(), transaction=transaction)
                with pytest.raises(Refused, match="amqp:resource-limit-exceeded"):
                    await receiver.receive()

            with pytest.raises(Refused, match="amqp:transaction:rollback"):
                await whole(client, accept)
            assert [text_of(item) for item in queue.messages] == ["0", "1", "2", "3"]
            assert router.shares.bytes == sum(item.published.cost + ENTRY for item in queue.messages)

    run(test())


def test_a_coordinator_that_goes_takes_its_transactions_along() -> None:
    """Part 4: they are rolled back, and their memory is free."""

    async def test() -> None:
        router = Router()
        broker = Broker(router=router)
        async with sending(broker) as (client, sender):
            controller = await client.sender(amqp10.Coordinator())
            declared = await controller.send(amqp10.Message(body=amqp10.AmqpValue(amqp10.Declare())), settled=False)
            state = amqp10.TransactionalState(txn_id=declared.txn_id)
            await sender.send(message("1"), state=state)
            assert router.shares.bytes
            await controller.close()
            await until(lambda: not router.shares.bytes)
            with pytest.raises(Refused, match="amqp:transaction:unknown-id"):
                await sender.send(message("2"), state=state)

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


class Mute:
    """A host that takes messages and gives no outcome."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.peers: list[amqp10.Peer] = []

    async def __call__(self, peer: amqp10.Peer) -> None:
        self.peers.append(peer)
        async for event in peer:
            match event:
                case amqp10.Login() | amqp10.Open():
                    peer.accept(event)
                case amqp10.Attaching():
                    peer.accept(event)
                    if not event.link.sends:
                        checked(event.link, amqp10.Receiver).keep(100)
                    peer.update()
                case amqp10.Incoming():
                    self.got.append(f"{event.link.target.address} {text(event)}")


async def left_behind(path: Path, targets: list[str], cancelled: int = 0) -> None:
    """A client that sends a message to each target in turn, and ends without an outcome."""
    mute = Mute()
    async with await started(mute) as server:
        client = amqp10.connect(url(server), container_id="meter", journal=path)
        await client.open()
        senders = {target: await client.sender(target) for target in targets}
        waiting = [senders[target].post(message(str(n))) for n, target in enumerate(targets)]
        unkept = [senders[targets[0]].post(message("settled"), settled=True)]
        await until(lambda: len(mute.got) == len(targets) + 1)
        for future in waiting[:cancelled]:
            future.cancel()
        mute.peers[0].abort()
        results = await asyncio.gather(*waiting[cancelled:], return_exceptions=True)
        assert {type(result) for result in results} == {ConnectionLost}
        assert await unkept[0] is None
        await client.close()


def test_a_journal_keeps_what_has_no_outcome(tmp_path: Path) -> None:
    async def test() -> None:
        path, broker = tmp_path / "journal.db", Broker()
        targets = ["/queues/a", "/queues/b", "/queues/a", "/queues/a"]
        await left_behind(path, targets, cancelled=2)
        async with await started(broker) as server:
            async with amqp10.connect(url(server), container_id="other", journal=path) as client:
                assert not client._earlier  # they are another client's
            async with amqp10.connect(url(server), container_id="meter", journal=path) as client:
                sender = await client.sender("/queues/a")  # what it sends comes after what was left
                await asyncio.gather(*(sender.post(message(str(n))) for n in (10, 11)))
                await until(lambda: not client._earlier)
                assert client.lost == 0
                assert await take(await client.receiver("/queues/a"), 5) == ["0", "2", "3", "10", "11"]
                assert await take(await client.receiver("/queues/b"), 1) == ["1"]
            async with amqp10.connect(url(server), container_id="meter", journal=path) as client:
                assert not client._earlier

    run(test())


def test_what_the_server_does_not_accept_of_a_journal_is_counted_or_stays(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "journal.db"
        known, got = {"/queues/a"}, []

        async def picky(peer: amqp10.Peer) -> None:
            async for event in peer:
                match event:
                    case amqp10.Login() | amqp10.Open():
                        peer.accept(event)
                    case amqp10.Attaching() if event.message.target.address in known:
                        peer.accept(event)
                        checked(event.link, amqp10.Receiver).keep(100)
                        peer.update()
                    case amqp10.Attaching():
                        peer.refuse(event)
                    case amqp10.Incoming() if text(event) == "1":
                        peer.reject(event)
                    case amqp10.Incoming():
                        got.append(text(event))
                        peer.accept(event)

        await left_behind(path, ["/queues/a", "/queues/a", "/queues/b"])
        async with await started(picky) as server:
            async with amqp10.connect(url(server), container_id="meter", journal=path) as client:
                await until(lambda: not client._earlier)
                assert client.lost == 1
            assert got == ["0"]
            known.add("/queues/b")
            async with amqp10.connect(url(server), container_id="meter", journal=path) as client:
                assert len(client._earlier) == 1  # its link was refused before
                await until(lambda: not client._earlier)
            assert got == ["0", "2"]

    run(test())


def test_a_journal_and_reconnection(tmp_path: Path) -> None:
    """What has been sent is sent again once, even if the call that waited for it was cancelled."""

    async def test() -> None:
        path, mute = tmp_path / "journal.db", Mute()
        async with await started(mute) as server:
            client = amqp10.connect(url(server), container_id="meter", journal=path, reconnect=QUICK)
            await client.open()
            sender = await client.sender("/queues/a")
            waiting = [sender.post(message(str(n))) for n in range(3)]
            await until(lambda: len(mute.got) == 3)
            waiting[1].cancel()
            mute.peers[0].abort()
            await until(lambda: len(mute.got) == 6)
            assert mute.got[3:] == mute.got[:3]
            closing = asyncio.create_task(sender.close())
            await client.close()
            await closing
            assert waiting[1].cancelled()
            assert all(isinstance(waiting[n].exception(), ConnectionLost) for n in (0, 2))
        journal = Journal(path, "meter")
        assert [(record.number, record.payload) for record in await journal.open()] == [
            (n + 1, message(str(n)).encode()) for n in range(3)
        ]
        await journal.close()

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
                    checked(event.link, amqp10.Receiver).grant(10)
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
