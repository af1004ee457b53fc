"""`nsq.connect` and `nsq.serve` on loopback, with the broker in memory."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run, until
from lib.skips import imported
from wirefmt import nsq
from wirefmt.broker.nsq import Broker, BrokerOptions
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For a server and for a client that trusts it."""
    if OPENSSL is None:
        pytest.skip("needs openssl (apt install openssl)")
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("features", [{}, {"deflate": True}, {"snappy": True}], ids=["plain", "deflate", "snappy"])
def test_what_is_published_is_consumed(
    secure: bool, features: dict[str, Any], contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    if "snappy" in features:
        imported("cramjam")

    async def main() -> None:
        broker = Broker()
        options = nsq.ConnectionOptions(tls="required" if secure else "no")
        server = await nsq.serve(broker, port=0, options=options, ssl=contexts[0] if secure else None)
        url = f"{'nsqs' if secure else 'nsq'}://localhost:{server.port}".replace("localhost", "127.0.0.1")
        large = bytes(range(256)) * 1000
        async with server, nsq.connect(url, ssl=contexts[1], **features) as client:
            await asyncio.gather(*(client.publish("t", b"%d" % n) for n in range(100)))
            await client.publish_many("t", [b"a", b"b"])
            await client.publish("t", large)
            await client.publish("t", "later", defer=0.05)
            seen: list[bytes] = []
            async with client.consume("t", "c", max_in_flight=7) as messages:
                async for message in messages:
                    assert message.attempts == 1
                    seen.append(message.body)
                    if len(seen) == 104:
                        break
            assert seen == [b"%d" % n for n in range(100)] + [b"a", b"b", large, b"later"]
            await until(lambda: broker.counts["finished"] == 104)
            assert broker.shares.messages == broker.shares.bytes == 0
        broker.close()

    run(main())


def test_a_client_that_wants_tls_takes_nothing_else() -> None:
    async def main() -> None:
        async with await nsq.serve(Broker(), port=0) as server:
            with pytest.raises(ConnectionLost, match="does not offer TLS"):
                async with nsq.connect(f"nsqs://127.0.0.1:{server.port}"):
                    pass

    run(main())


def test_auth() -> None:
    async def main() -> None:
        broker = Broker(BrokerOptions(authorise=lambda secret: "ann" if secret == b"let me in" else None))
        server = await nsq.serve(broker, port=0, options=nsq.ConnectionOptions(auth_required=True))
        async with server:
            async with nsq.connect(f"nsq://127.0.0.1:{server.port}", secret="let me in") as client:
                await client.publish("t", b"x")
                async with client.consume("t", "c") as messages:
                    assert (await anext(messages)).body == b"x"
            with pytest.raises(Refused) as refused:
                async with nsq.connect(f"nsq://:wrong@127.0.0.1:{server.port}"):
                    pass
            assert refused.value.code == "E_AUTH_FAILED"
            with pytest.raises(Refused):
                async with nsq.connect(f"nsq://127.0.0.1:{server.port}"):
                    pass

    run(main())


def test_several_servers_share_max_in_flight_and_are_found_by_look_up() -> None:
    async def main() -> None:
        brokers = [Broker() for _ in range(3)]
        async with contextlib.AsyncExitStack() as stack:
            lookups = []
            for number, broker in enumerate(brokers):
                server = await stack.enter_async_context(await nsq.serve(broker, port=0))
                stack.callback(broker.close)
                listener = await broker.serve_lookup(server.port)
                stack.push_async_callback(listener.close)
                lookups.append(f"http://{HOST}:{listener.port}")
                async with nsq.connect(f"nsq://{HOST}:{server.port}") as client:
                    for n in range(20):
                        await client.publish("t", b"%d %d" % (number, n))
            assert await nsq.lookup(lookups[0], "nothing") == []
            client = nsq.connect(lookup=lookups, lookup_interval=0.05)
            async with client, client.consume("t", "c", max_in_flight=7) as messages:
                assert {(await anext(messages)).body for _ in range(60)} == {
                    b"%d %d" % (number, n) for number in range(3) for n in range(20)
                }
                assert messages.connections == 3
                await until(lambda: ready_counts(messages) == [2, 2, 3])
                messages.change_max_in_flight(2)
                assert ready_counts(messages) == [0, 1, 1]
            with pytest.raises(ConnectionLost):
                await client.publish("t", b"x")

    run(main())


@contextlib.asynccontextmanager
async def several_servers(count: int) -> AsyncIterator[tuple[list[Broker], nsq.Client]]:
    """Brokers, and a client with all of them."""
    brokers = [Broker() for _ in range(count)]
    servers = [await nsq.serve(broker, port=0) for broker in brokers]
    async with nsq.connect(*(f"nsq://127.0.0.1:{server.port}" for server in servers)) as client:
        yield brokers, client
    for server, broker in zip(servers, brokers, strict=True):
        await server.close()
        broker.close()


def ready_counts(messages: nsq.Consumer) -> list[int]:
    """RDY of each connection, as the client has said it."""
    return sorted(link.connection.ready_count for link in messages._links)


def test_a_failure_stops_all_connections_then_one_message_is_tried() -> None:
    """Back-off: RDY 0 everywhere, then RDY 1 on one connection, and all again once as many are done as had failed."""

    async def main() -> None:
        async with (
            several_servers(3) as (brokers, client),
            client.consume("t", "c", max_in_flight=9, backoff=nsq.Backoff(first=1000.0)) as messages,
        ):
            await until(lambda: messages.connections == 3)
            assert ready_counts(messages) == [3, 3, 3]
            for broker in brokers:
                broker.publish("t", b"x")
            failed = [await messages.get(), await messages.get()]
            good = await messages.get()
            assert failed[0].requeue(1000.0)
            assert failed[1].requeue(1000.0)  # it was in flight before: both count once
            assert ready_counts(messages) == [0, 0, 0]
            assert good.finish()  # a message that was in flight before makes up for nothing
            assert ready_counts(messages) == [0, 0, 0]
            assert messages._pause is not None
            messages._pause.cancel()
            messages._probe()  # the time is over
            assert ready_counts(messages) == [0, 0, 1]
            for broker in brokers:
                broker.publish("t", b"probe")
            assert (await messages.get()).finish()
            assert ready_counts(messages) == [3, 3, 3]
            for _ in range(2):
                assert (await messages.get()).finish()

    run(main())


def test_fewer_messages_than_connections_take_turns() -> None:
    async def main() -> None:
        async with several_servers(2) as (brokers, client), client.consume("t", "c", max_in_flight=1) as messages:
            await until(lambda: messages.connections == 2)
            assert ready_counts(messages) == [0, 1]
            for number, broker in enumerate(brokers):
                broker.publish("t", b"%d" % number)
            seen = set()
            async for message in messages:
                seen.add(message.body)
                assert sum(link.connection.undecided for link in messages._links) == 1
                if len(seen) == 2:
                    break
            assert seen == {b"0", b"1"}

    run(main())


def test_a_topic_that_comes_later_is_found() -> None:
    """The look-up knows nothing of the topic first; it is asked again."""

    async def main() -> None:
        broker = Broker()
        async with await nsq.serve(broker, port=0) as server:
            lookup = await broker.serve_lookup(server.port)
            url = f"http://127.0.0.1:{lookup.port}"
            client = nsq.connect(
                lookup=[url, "http://127.0.0.1:1"], lookup_interval=0.05
            )  # nobody is at the second one
            async with client, client.consume("late", "c") as messages:
                assert messages.connections == 0
                broker.publish("late", b"x")
                assert (await anext(messages)).body == b"x"
                assert messages.connections == 1
            await lookup.close()
        broker.close()

    run(main())


def test_what_comes_together_is_handed_over_one_by_one() -> None:
    """Each of several receivers gets one; what was answered or whose time is over is skipped; what nobody took goes back."""

    async def main() -> None:
        broker = Broker()
        async with await nsq.serve(broker, port=0) as server, nsq.connect(f"nsq://127.0.0.1:{server.port}") as client:
            async with client.consume("t", "c") as messages:
                receivers = [asyncio.create_task(messages.get()) for _ in range(3)]
                await asyncio.sleep(0)
                broker.publish("t", *(b"%d" % n for n in range(200)))
                got = await asyncio.gather(*receivers)
                assert [message.body for message in got] == [b"0", b"1", b"2"]
                assert all(message.in_flight for message in got)
                connection = messages._links[0].connection
                await until(lambda: connection.undecided == 100)
                connection.finish(connection.messages()[3])  # behind the consumer's back
                following = await messages.get()
                assert following.body == b"4"
                assert following.finish()
                assert not following.finish()
                assert not following.requeue()
                assert not following.touch()
                assert not following.in_flight
                assert following.frame.body_bytes() == b"4"
                for message in got:
                    assert message.touch()
                    assert message.finish()
            await until(lambda: not broker.topics["t"].channels["c"].clients)
            left = [message.body for message in broker.topics["t"].channels["c"].queue]
            assert sorted(left, key=int) == [b"%d" % n for n in range(5, 200)]
            assert broker.counts["finished"] == 5
        broker.close()

    run(main())


def test_a_message_that_fails_comes_again_and_the_consumer_backs_off() -> None:
    async def main() -> None:
        broker = Broker()
        async with await nsq.serve(broker, port=0) as server, nsq.connect(f"nsq://127.0.0.1:{server.port}") as client:
            for body in (b"good", b"bad"):
                await client.publish("t", body)
            attempts: list[tuple[bytes, int]] = []

            async def handle(message: nsq.Message) -> None:
                attempts.append((message.body, message.attempts))
                if message.body == b"bad" and message.attempts < 3:
                    raise ValueError("once more")

            asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
            backoff = nsq.Backoff(first=0.01, most=0.02)
            async with client.consume("t", "c", requeue_delay=0.01, backoff=backoff) as messages:
                running = asyncio.create_task(messages.run(handle))
                await until(lambda: broker.counts["requeued"])
                await until(lambda: len(attempts) == 4 and broker.counts["finished"] == 2)
                assert messages._failures == 1  # two failures, one made up for
                await client.publish("t", b"one more")
                await until(lambda: messages._failures == 0)
                assert messages._links[0].connection.ready_count == 100
                running.cancel()
            assert sorted(attempts[:4]) == [(b"bad", 1), (b"bad", 2), (b"bad", 3), (b"good", 1)]
        broker.close()

    run(main())


def test_messages_are_touched_while_the_host_works() -> None:
    async def main() -> None:
        broker = Broker()
        async with await nsq.serve(broker, port=0) as server:
            client = nsq.connect(f"nsq://127.0.0.1:{server.port}", identify={"msg_timeout": 1000})
            async with client, client.consume("t", "c") as messages:
                await client.publish("t", b"x")
                (driver,) = [d for d in server.drivers if getattr(d.connection, "subscription", None)]
                flight = driver.connection._in_flight.by_id  # type: ignore[attr-defined]
                async for _ in messages:
                    await until(lambda: any(delivery.until for delivery in flight.values()))
                    break
        broker.close()

    run(main())


def test_a_message_whose_time_is_over_comes_again() -> None:
    async def main() -> None:
        broker = Broker()
        async with await nsq.serve(broker, port=0) as server:
            client = nsq.connect(f"nsq://127.0.0.1:{server.port}", identify={"msg_timeout": 1000})
            async with client, client.consume("t", "c", touch=False) as messages:
                await client.publish("t", b"x")
                first = await messages.get()
                second = await messages.get()
                assert not first.in_flight
                assert not first.finish()
                assert second.attempts > 1
                while not second.finish():
                    second = await messages.get()
        broker.close()

    run(main())


@pytest.mark.parametrize("how", ["timeout", "requeue"])
def test_a_message_that_comes_back_goes_to_another_client(how: str) -> None:
    """As with nsqd, where the other one waits for messages already. It has subscribed after the message was sent."""

    async def main() -> None:
        broker = Broker()
        async with await nsq.serve(broker, port=0) as server, AsyncExitStack() as stack:
            url = f"nsq://127.0.0.1:{server.port}"

            async def consumer() -> tuple[nsq.Client, nsq.Consumer]:
                client = await stack.enter_async_context(nsq.connect(url, identify={"msg_timeout": 1000}))
                consumed = client.consume("t", "c", max_in_flight=1, touch=False, requeue_delay=0.0)
                return client, await stack.enter_async_context(consumed)

            client, first = await consumer()
            await client.publish("t", b"x")
            message = await first.get()
            _, second = await consumer()
            await until(lambda: len(broker.topics["t"].channels["c"]._able) == 2)  # its RDY has arrived
            if how == "requeue":
                assert message.requeue()
            again = await second.get()
            assert again.attempts == 2
            assert again.finish()
        broker.close()

    run(main())


def test_what_is_in_flight_when_a_consumer_goes_is_delivered_again() -> None:
    async def main() -> None:
        broker = Broker()
        async with await nsq.serve(broker, port=0) as server, nsq.connect(f"nsq://127.0.0.1:{server.port}") as client:
            for n in range(5):
                await client.publish("t", b"%d" % n)
            with contextlib.suppress(ZeroDivisionError):
                async with client.consume("t", "c", requeue_delay=0.0) as messages:
                    async for _ in messages:
                        raise ZeroDivisionError
            seen = set()
            async with client.consume("t", "c") as messages:
                async for message in messages:
                    seen.add(message.body)
                    if len(seen) == 5:
                        break
            assert seen == {b"%d" % n for n in range(5)}
        broker.close()

    run(main())


def test_a_producer_connects_again_and_loses_nothing() -> None:
    async def main() -> None:
        broker = Broker()
        server = await nsq.serve(broker, port=0)
        port = server.port
        client = nsq.connect(f"nsq://127.0.0.1:{port}", reconnect=nsq.Backoff(first=0.01, most=0.05))
        async with client:

            async def publish(n: int) -> None:
                await client.publish("t", b"%d" % n)

            tasks = []
            for n in range(200):
                tasks.append(asyncio.create_task(publish(n)))
                if n % 50 == 25:
                    await asyncio.sleep(0.005)
                    for driver in list(server.drivers):
                        driver.abort()
            await asyncio.gather(*tasks)
            bodies = {message.body for message, _ in broker.topic("t").backlog}
            assert bodies == {b"%d" % n for n in range(200)}
            assert client.connections > 1
        await server.close()

    run(main())


def test_without_reconnect_the_end_of_the_connection_ends_the_producer() -> None:
    async def main() -> None:
        async with await nsq.serve(Broker(), port=0) as server, nsq.connect(f"nsq://127.0.0.1:{server.port}") as client:
            for driver in list(server.drivers):
                driver.abort()
            await until(lambda: not client.connected)
            with pytest.raises(ConnectionLost):
                await client.publish("t", b"x")

    run(main())


def test_faults_of_the_host_and_refusals_of_the_server() -> None:
    async def main() -> None:
        broker = Broker(BrokerOptions(messages=2, client_share=1))
        async with await nsq.serve(broker, port=0) as server, nsq.connect(f"nsq://127.0.0.1:{server.port}") as client:
            for wrong in ("bad topic", "x" * 65):
                with pytest.raises(LocalProtocolError):
                    await client.publish(wrong, b"x")
                with pytest.raises(ValueError, match="topic"):
                    client.consume(wrong, "c")
            task = asyncio.create_task(client.publish("t", b"x"))
            await asyncio.sleep(0)
            task.cancel()
            await client.publish("t", b"y")
            with pytest.raises(Refused) as refused:
                await client.publish("t", b"z")
            assert refused.value.code == "E_PUB_FAILED"
            assert broker.counts["refused"] == 1
        broker.close()
        for url in ("http://x", "nsq"):
            with pytest.raises(ValueError, match="scheme"):
                nsq.connect(url)
        with pytest.raises(ValueError, match="URL"):
            nsq.connect()
        with pytest.raises(ValueError, match="ssl"):
            await nsq.serve(broker, port=0, options=nsq.ConnectionOptions(tls="offered"))

    run(main())


def test_a_journal_publishes_again_what_was_not_answered(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "journal.db"
        held: list[Any] = []

        async def silent(peer: nsq.Peer) -> None:
            async for event in peer:
                if isinstance(event, nsq.Identify):
                    peer.accept(event)
                elif isinstance(event, nsq.Publish):
                    held.append(event.body_bytes())

        async with await nsq.serve(silent, port=0) as server:
            client = nsq.connect(f"nsq://127.0.0.1:{server.port}", journal=path, timeout=0.2)
            await client.open()
            tasks = [asyncio.create_task(client.publish("t", b"%d" % n)) for n in range(3)]
            await until(lambda: len(held) == 3)
            await client.close()
            for task in tasks:
                with pytest.raises(ConnectionLost):
                    await task
        broker = Broker()
        async with await nsq.serve(broker, port=0) as server:
            async with nsq.connect(f"nsq://127.0.0.1:{server.port}", journal=path) as client:
                await client.publish("t", b"3")
            assert [message.body for message, _ in broker.topic("t").backlog] == [b"0", b"1", b"2", b"3"]
            async with nsq.connect(f"nsq://127.0.0.1:{server.port}", journal=path) as client:
                assert client.session is not None
                assert not client.session.pending
        broker.close()

    run(main())


def test_ephemeral_channels_end_with_their_last_client() -> None:
    async def main() -> None:
        broker = Broker()
        async with await nsq.serve(broker, port=0) as server, nsq.connect(f"nsq://127.0.0.1:{server.port}") as client:
            async with client.consume("t#ephemeral", "c#ephemeral", max_in_flight=1) as messages:
                await client.publish_many("t#ephemeral", [b"1", b"2", b"3"])
                await messages.get()
                assert broker.shares.messages == 3
            await until(lambda: not broker.topics)
            assert broker.shares.messages == broker.shares.bytes == 0
        broker.close()

    run(main())
