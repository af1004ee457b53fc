"""`amqp091.connect` and `amqp091.serve` on loopback, with the broker in memory or a server that does what a test says."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from lib.kinds import checked
from lib.loopback import HOST, OPENSSL, certificate, run, until
from wirefmt import amqp091
from wirefmt.broker.amqp091 import Broker, BrokerOptions
from wirefmt.connection import Disconnected
from wirefmt.connection.recovery import NotRestored
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

AT_ONCE = amqp091.Backoff(first=0.0, most=0.0)


@contextlib.asynccontextmanager
async def brokered(
    policy: BrokerOptions | None = None, **more: Any
) -> AsyncIterator[tuple[Broker, amqp091.Server, str]]:
    broker = Broker(policy)
    async with await amqp091.serve(broker, HOST, more.pop("port", 0), **more) as server:
        yield broker, server, f"amqp://{HOST}:{server.port}"
    broker.close()


async def take(consumer: amqp091.aio_channel.Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    async for message in consumer:
        message.ack()
        found.append(message.body)
        if len(found) == count:
            break
    return found


class Script:
    """A server that accepts everybody, and does with other events what the test says."""

    def __init__(self, act: Callable[[amqp091.Peer, Any], None] | None = None) -> None:
        self.act = act
        self.events: list[Any] = []
        self.peers: list[amqp091.Peer] = []

    def handle(self, peer: amqp091.Peer, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, amqp091.ConnectionStartOk):
            self.peers.append(peer)
        if isinstance(event, amqp091.ConnectionStartOk | amqp091.ConnectionOpen):
            peer.accept(event)
        elif self.act is not None:
            self.act(peer, event)
        elif isinstance(event, amqp091.BasicConsume | amqp091.QueueDeclare | amqp091.QueueBind):
            peer.reply(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if type(event) is kind]

    def writable(self, peer: amqp091.Peer) -> None: ...

    def closed(self, peer: amqp091.Peer) -> None: ...


@contextlib.asynccontextmanager
async def scripted(script: Script, **more: Any) -> AsyncIterator[tuple[amqp091.Server, str]]:
    async with await amqp091.serve(script, HOST, 0, **more) as server:
        yield server, f"amqp://{HOST}:{server.port}"


def test_asyncio_is_not_imported_with_the_codec() -> None:
    loaded = "print('asyncio' in sys.modules)"
    code = f"import sys, wirefmt.amqp091; {loaded}; wirefmt.amqp091.connect; {loaded}"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.split() == ["False", "True"]


# ---- declare, publish, consume


def test_declare_publish_consume() -> None:
    async def test() -> None:
        async with brokered() as (_, _, url), amqp091.connect(url) as client:
            channel = await client.channel(prefetch=3)
            answer = await channel.declare_queue("orders", durable=True)
            assert (answer.queue, answer.message_count, answer.consumer_count) == ("orders", 0, 0)
            await channel.declare_exchange("plant", "topic")
            await channel.bind_queue("orders", "plant", "line.*")
            properties = amqp091.BasicProperties(delivery_mode=2, headers={"n": 1}, message_id="m")
            await channel.publish("21.5", exchange="plant", routing_key="line.1", properties=properties)
            message = await channel.get("orders")
            assert message is not None
            assert (message.body, message.exchange, message.routing_key) == (b"21.5", "plant", "line.1")
            assert message.properties == properties
            assert not message.redelivered
            message.nack()
            again = await channel.get("orders")
            assert again is not None
            assert again.redelivered
            assert again.ack()
            with pytest.raises(LocalProtocolError):
                again.ack()
            assert await channel.get("orders") is None
            await channel.publish_many((b"%d" % k, "", "orders", None, False) for k in range(50))
            consumer = await channel.consume("orders")
            assert await take(consumer, 50) == [b"%d" % k for k in range(50)]
            await consumer.cancel()
            assert [m async for m in consumer] == []
            assert await channel.purge_queue("orders") == 0
            await channel.unbind_queue("orders", "plant", "line.*")
            assert await channel.delete_queue("orders") == 0
            await channel.delete_exchange("plant")

    run(test())


def test_exchange_and_routing_key_that_are_not_text() -> None:
    """Short strings that are not UTF-8 are bytes, in what is published as in what is received."""

    async def test() -> None:
        script = Script()
        async with scripted(script) as (_, url), amqp091.connect(url) as client:
            channel = await client.channel(confirms=False)
            await channel.publish(b"1", exchange=b"e\xff", routing_key=b"a.\xff")
            await until(lambda: script.of(amqp091.BasicMessage))
        method = script.of(amqp091.BasicMessage)[0].method
        assert (method.exchange, method.routing_key) == (b"e\xff", b"a.\xff")

    run(test())


def test_many_calls_and_publishes_at_once() -> None:
    async def test() -> None:
        options = amqp091.ConnectionOptions(unconfirmed=7, frame_max=4096)
        async with brokered() as (broker, _, url), amqp091.connect(url, options=options) as client:
            channel = await client.channel()
            await asyncio.gather(*(channel.declare_queue(f"q{k}") for k in range(10)))
            bodies = [b"%d" % k + b"x" * 5000 for k in range(100)]
            await asyncio.gather(*(channel.publish(body, routing_key="q1") for body in bodies))
            assert len(broker.hosts["/"].queues["q1"].messages) == 100
            consumer = await channel.consume("q1")
            assert await take(consumer, 100) == bodies

    run(test())


@pytest.mark.parametrize("transport", ["tls", "unix"])
def test_transports(transport: str, tmp_path: Path) -> None:
    if transport == "tls" and OPENSSL is None:
        pytest.skip("needs openssl (apt install openssl)")

    async def test() -> None:
        broker = Broker()
        if transport == "tls":
            ours, theirs = certificate(tmp_path)
            server = await amqp091.serve(broker, HOST, 0, ssl=ours)
            client = amqp091.connect(f"amqps://{HOST}:{server.port}", ssl=theirs)
        else:
            path = str(tmp_path / "s")
            server = await amqp091.serve(broker, path=path)
            client = amqp091.connect(f"amqp+unix://{path}")
        async with server, client:
            channel = await client.channel()
            await channel.declare_queue("q")
            await channel.publish(b"x" * 300_000, routing_key="q")
            message = await channel.get("q")
            assert message is not None
            assert len(message.body) == 300_000
        broker.close()

    run(test())


def test_urls() -> None:
    async def test() -> None:
        policy = BrokerOptions(users={"a b": "p/w"}, virtual_hosts=frozenset(("/", "v/h")))
        async with brokered(policy) as (_, server, gone):
            async with amqp091.connect(f"amqp://a%20b:p%2Fw@{HOST}:{server.port}/v%2Fh") as client:
                assert client.negotiated is not None
                assert client.negotiated.virtual_host == "v/h"
            with pytest.raises(Refused) as refused:
                await amqp091.connect(f"amqp://a%20b:wrong@{HOST}:{server.port}").open()
            assert refused.value.code == 403
            with pytest.raises(Refused) as refused:
                await amqp091.connect(f"amqp://a%20b:p%2Fw@{HOST}:{server.port}/none").open()
            assert refused.value.code == 530
            client = amqp091.connect(f"amqp://{HOST}:{server.port}", mechanisms=[amqp091.AmqPlain("a b", "p/w")])
            async with client:
                assert client.negotiated is not None
                assert client.negotiated.mechanism == "AMQPLAIN"
        with pytest.raises(ValueError, match="scheme"):
            amqp091.connect("http://x")
        with pytest.raises(OSError, match=r"."):
            await amqp091.connect(gone).open()

    run(test())


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("heartbeat=7", {"heartbeat": 7}),
        ("channel_max=5&frame_max=8192", {"channel_max": 5, "frame_max": 8192}),
        ("blocked_connection_timeout=1.5", {"blocked_timeout": 1.5}),
    ],
)
def test_options_of_the_url(query: str, options: dict[str, Any]) -> None:
    """RabbitMQ's URI query parameters, and pika's blocked_connection_timeout."""

    async def test() -> None:
        async with brokered() as (_, _, url), amqp091.connect(f"{url}/?{query}") as client:
            assert client._link is not None
            used = client._link.connection.options
            assert {name: getattr(used, name) for name in options} == options
            for name in options.keys() & {"heartbeat", "channel_max", "frame_max"}:
                assert getattr(client.negotiated, name) == options[name]

    run(test())


def test_mechanisms_and_name_in_the_url() -> None:
    async def test() -> None:
        async with brokered() as (_, server, url):
            several = "auth_mechanism=external&auth_mechanism=AMQPLAIN&name=meter%207"
            async with amqp091.connect(f"{url}?{several}") as client:
                assert client.negotiated is not None
                assert client.negotiated.mechanism == "AMQPLAIN"
                (driver,) = server.drivers
                assert driver.connection.negotiated.properties["connection_name"] == "meter 7"  # type: ignore[attr-defined]

    run(test())


def test_connection_timeout_is_in_milliseconds() -> None:
    async def test() -> None:
        silent = await asyncio.start_server(lambda reader, writer: None, HOST, 0)
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(TimeoutError):
            await amqp091.connect(f"amqp://{HOST}:{port}/?connection_timeout=50").open()
        silent.close()

    run(test())


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("amqp://h/?hartbeat=7", "did you mean heartbeat"),
        ("amqp://h/?qqq=1", "there are heartbeat, connection_timeout, channel_max"),
        ("amqp://h/?heartbeat=1&heartbeat=2", "twice"),
        ("amqp://h/?heartbeat=1.5", "whole number"),
        ("amqp://h/?heartbeat=65536", "heartbeat is a number of 0 to 65535"),
        ("amqp://h/?frame_max=100", "frame_max"),
        ("amqp://h/?connection_timeout=0", "milliseconds"),
        ("amqp://h/?blocked_connection_timeout=soon", "seconds"),
        ("amqp://h/?auth_mechanism=digest", "there are plain"),
        ("amqp://h/?cacertfile=x", "amqps"),
        ("amqps://h/?verify=none", "verify_none"),
        ("amqps://h/?keyfile=x", "without certfile"),
        ("amqps://h/?fail_if_no_peer_cert=1", "true, false"),
        ("amqp://h/a/b", "%2F"),
    ],
)
def test_urls_that_are_refused(url: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        amqp091.connect(url)


def test_what_is_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="TLS is described twice"):
        amqp091.connect("amqps://h/?verify=verify_none", ssl=ssl.create_default_context())
    with pytest.raises(ValueError, match="mechanisms are given twice"):
        amqp091.connect("amqp://h/?auth_mechanism=plain", mechanisms=[amqp091.Plain("a", "b")])


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")
def test_tls_in_the_url(tmp_path: Path) -> None:
    async def test() -> None:
        ours, _ = certificate(tmp_path)
        broker = Broker()
        async with await amqp091.serve(broker, HOST, 0, ssl=ours) as server:
            authority = f"cacertfile={tmp_path}/certificate.pem"
            pair = f"certfile={tmp_path}/certificate.pem&keyfile={tmp_path}/key.pem"
            named = f"{authority}&server_name_indication=localhost"
            for query in (authority, f"{authority}&{pair}", "verify=verify_none", named):
                async with amqp091.connect(f"amqps://{HOST}:{server.port}/?{query}") as client:
                    await client.channel()
            for query in ("verify=verify_peer", f"{authority}&server_name_indication=elsewhere"):
                with pytest.raises(ssl.SSLError):
                    await amqp091.connect(f"amqps://{HOST}:{server.port}/?{query}").open()
            async with amqp091.connect(
                f"amqps://{HOST}:{server.port}/?{authority}&server_name_indication=disable"
            ) as client:
                await client.channel()
        broker.close()

    run(test())


# ---- refusals


def test_a_refused_call_closes_its_channel_only() -> None:
    async def test() -> None:
        async with brokered() as (_, _, url), amqp091.connect(url) as client:
            channel, other = await client.channel(), await client.channel()
            consumer = await channel.consume(str((await channel.declare_queue("q")).queue))
            with pytest.raises(Refused) as refused:
                await channel.bind_queue("q", "gone")
            assert refused.value.code == 404
            for call in (channel.publish(b""), channel.declare_queue("x"), anext(consumer)):
                with pytest.raises(Refused) as refused:
                    await call
                assert refused.value.code == 404
            await channel.close()
            await other.declare_queue("q")

    run(test())


def test_a_publish_to_an_exchange_that_is_not_there() -> None:
    async def test() -> None:
        async with brokered() as (_, _, url), amqp091.connect(url) as client:
            channel = await client.channel()
            results = await asyncio.gather(
                *(channel.publish(b"", exchange="gone") for _ in range(3)), return_exceptions=True
            )
            assert [getattr(result, "code", None) for result in results] == [404] * 3
            assert not client.session.outgoing

    run(test())


def test_returned_and_not_taken() -> None:
    async def test() -> None:
        async with brokered() as (broker, _, url), amqp091.connect(url) as client:
            channel = await client.channel()
            with pytest.raises(Refused) as refused:
                await channel.publish(b"x", routing_key="nowhere", mandatory=True)
            assert refused.value.code == 312
            await channel.publish(b"x", routing_key="nowhere")
            assert broker.hosts["/"].unroutable == 2
            arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
            await channel.declare_queue("small", arguments=arguments)
            await channel.publish(b"1", routing_key="small")
            with pytest.raises(Refused):
                await channel.publish(b"2", routing_key="small")

    run(test())


def test_the_end_is_raised_everywhere() -> None:
    async def test() -> None:
        script = Script(lambda peer, event: None)
        async with scripted(script) as (_, url):
            client = amqp091.connect(url)
            await client.open()
            channel, second, third = [await client.channel() for _ in range(3)]
            waiting = [
                asyncio.create_task(channel.publish(b"x", routing_key="q")),
                asyncio.create_task(second.declare_queue("q")),
                asyncio.create_task(third.get("q")),
            ]
            asked = (amqp091.BasicMessage, amqp091.QueueDeclare, amqp091.BasicGet)
            await until(lambda: sum(isinstance(event, asked) for event in script.events) == 3)
            script.peers[0].close(320, "maintenance")
            for task in waiting:
                with pytest.raises(Refused) as refused:
                    await task
                assert refused.value.code == 320
            for call in (client.channel(), channel.publish(b"x")):
                with pytest.raises((Refused, ConnectionLost, LocalProtocolError)):
                    await call
            await client.close()

    run(test())


def test_a_server_that_ends_a_consumer() -> None:
    async def test() -> None:
        async with brokered() as (_, _, url), amqp091.connect(url) as client:
            channel, other = await client.channel(), await client.channel()
            await channel.declare_queue("q")
            consumer = await channel.consume("q")
            await other.delete_queue("q")
            with pytest.raises(Refused, match="ended the consumer"):
                await anext(consumer)
            await channel.declare_queue("q")  # the channel lives on

    run(test())


# ---- cancellation


def test_cancelled_at_any_step() -> None:
    """Each call is cancelled after 0, 1, 2 ... turns of the loop; what follows works, and no message is lost."""

    async def test() -> None:
        async with brokered() as (broker, _, url), amqp091.connect(url) as client:
            setup = await client.channel()
            await setup.declare_queue("q")
            await setup.publish(b"kept", routing_key="q")

            async def consume_and_take() -> None:
                channel = await client.channel()
                consumer = await channel.consume("q")
                message = await anext(consumer)
                message.nack()
                await consumer.cancel()
                await channel.close()

            calls: list[Callable[[amqp091.Channel], Any]] = [
                lambda channel: client.channel(),
                lambda channel: channel.declare_queue("other"),
                lambda channel: channel.publish(b"x", routing_key="other"),
                lambda channel: channel.get("q"),
                lambda channel: channel.consume("q"),
                lambda channel: consume_and_take(),
            ]
            for call in calls:
                for turns in range(12):
                    channel = await client.channel()
                    task = asyncio.create_task(call(channel))
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                    await channel.declare_queue("other")
                    await channel.publish(b"y", routing_key="other")
                    await channel.close()
            queue = broker.hosts["/"].queues["q"]
            for channel in list(client._channels.values()):
                if channel is not setup:
                    await channel.close()
            await until(lambda: [item.body for item in queue.messages] == [b"kept"])

    run(test())


def test_closing_ends_what_waits() -> None:
    async def test() -> None:
        script = Script(lambda peer, event: None)
        async with scripted(script) as (_, url):
            client = amqp091.connect(url)
            await client.open()
            channel = await client.channel()
            waiting = [asyncio.create_task(channel.publish(b"x")), asyncio.create_task(channel.declare_queue("q"))]
            await until(lambda: script.of(amqp091.QueueDeclare))
            await client.close()
            for task in waiting:
                with pytest.raises(ConnectionLost):
                    await task
            with pytest.raises(ConnectionLost):
                await client.channel()

    run(test())


# ---- consuming


def test_prefetch_bounds_what_waits() -> None:
    async def test() -> None:
        async with brokered() as (broker, _, url), amqp091.connect(url) as client:
            channel = await client.channel(prefetch=5)
            await channel.declare_queue("q")
            await channel.publish_many((b"%d" % k, "", "q", None, False) for k in range(20))
            consumer = await channel.consume("q")
            await until(lambda: len(consumer._inbox) == 5)
            assert len(broker.hosts["/"].queues["q"].messages) == 15
            assert len(await take(consumer, 20)) == 20

    run(test())


def test_a_slow_program_stops_the_reading() -> None:
    """A consumer without acknowledgements has no window: with a full inbox the client stops to read."""

    async def test() -> None:
        async with brokered() as (_, _, url), amqp091.connect(url, inbox=10) as client:
            channel = await client.channel(prefetch=0)
            await channel.declare_queue("q")
            await channel.publish_many((b"x" * 1000, "", "q", None, False) for _ in range(2000))
            consumer = await channel.consume("q", no_ack=True)
            link = client._link
            assert link is not None
            await until(lambda: link.driver.paused)
            assert len(consumer._inbox) + consumer.dropped < 2000
            count = 0
            async for message in consumer:
                with pytest.raises(LocalProtocolError):
                    message.ack()
                count += 1
                if count + consumer.dropped == 2000:
                    break

    run(test())


def test_messages_of_a_consumer_that_is_cancelled_go_back() -> None:
    async def test() -> None:
        async with brokered() as (broker, _, url), amqp091.connect(url) as client:
            channel = await client.channel(prefetch=10)
            await channel.declare_queue("q")
            await channel.publish_many((b"%d" % k, "", "q", None, False) for k in range(5))
            consumer = await channel.consume("q")
            first = await anext(consumer)
            await consumer.cancel()
            await channel.declare_queue("q")
            assert [item.body for item in sorted(broker.hosts["/"].queues["q"].messages)] == [b"1", b"2", b"3", b"4"]
            assert first.ack()

    run(test())


def test_transactions() -> None:
    async def test() -> None:
        async with brokered() as (_, _, url), amqp091.connect(url) as client:
            channel = await client.channel(confirms=False)
            await channel.declare_queue("q")
            async with channel.transaction():
                await channel.publish(b"1", routing_key="q")
                assert await channel.get("q") is None

            async def fail() -> None:
                async with channel.transaction():
                    await channel.publish(b"2", routing_key="q")
                    message = await channel.get("q")
                    assert message is not None
                    assert message.body == b"1"
                    message.ack()
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            await channel.recover()  # the acknowledgement was undone
            async with channel.transaction():
                again = await channel.get("q")
                assert again is not None
                assert again.body == b"1"
                again.ack()
            assert await channel.get("q") is None
            confirming = await client.channel()
            with pytest.raises(LocalProtocolError):
                async with confirming.transaction():
                    pass

    run(test())


# ---- blocked, secrets


def test_publish_waits_while_the_server_has_blocked() -> None:
    async def test() -> None:
        def act(peer: amqp091.Peer, event: Any) -> None:
            if isinstance(event, amqp091.BasicMessage):
                peer.acknowledge(event)
            elif isinstance(event, amqp091.ConnectionUpdateSecret):
                peer.accept(event)

        script = Script(act)
        async with scripted(script) as (_, url), amqp091.connect(url) as client:
            channel = await client.channel()
            peer = script.peers[0]
            peer.connection.block("low on memory")
            peer.update()
            await until(lambda: client.blocked)
            task = asyncio.create_task(channel.publish(b"x"))
            await client.update_secret(b"token", "renewed")
            assert not task.done()
            peer.connection.unblock()
            peer.update()
            await task

    run(test())


# ---- reconnection


def test_topology_and_consumers_are_restored_and_messages_sent_again_in_order() -> None:
    async def test() -> None:
        async with (
            brokered() as (broker, server, url),
            amqp091.connect(url, reconnect=AT_ONCE) as client,
        ):
            channel = await client.channel(prefetch=5)
            await channel.declare_exchange("e", "fanout", auto_delete=False)
            named = checked((await channel.declare_queue("", exclusive=True)).queue, str)
            await channel.bind_queue(named, "e")
            consumer = await channel.consume(named)
            await channel.publish(b"before", exchange="e")
            assert await take(consumer, 1) == [b"before"]
            for round_ in range(3):
                for driver in list(server.drivers):
                    driver.abort()
                sent = [asyncio.create_task(channel.publish(b"%d %d" % (round_, k), exchange="e")) for k in range(10)]
                await asyncio.gather(*sent)
                assert await take(consumer, 10) == [b"%d %d" % (round_, k) for k in range(10)]
            assert client.connections == 4
            assert len(broker.hosts["/"].queues) == 1
            await channel.purge_queue(named)  # under the name that it had first

    run(test())


def test_unconfirmed_messages_are_sent_again_before_new_ones() -> None:
    async def test() -> None:
        confirming = False

        def act(peer: amqp091.Peer, event: Any) -> None:
            if isinstance(event, amqp091.BasicMessage) and confirming:
                peer.acknowledge(event)

        script = Script(act)
        async with scripted(script) as (_, url), amqp091.connect(url, reconnect=AT_ONCE) as client:
            channel = await client.channel()
            first = [asyncio.create_task(channel.publish(b"%d" % k)) for k in range(5)]
            await until(lambda: len(script.of(amqp091.BasicMessage)) == 5)
            confirming = True
            script.peers[0].abort()
            late = asyncio.create_task(channel.publish(b"late"))
            await asyncio.gather(*first, late)
            bodies = [event.body_bytes() for event in script.of(amqp091.BasicMessage)]
            assert bodies[:5] == [b"0", b"1", b"2", b"3", b"4"]
            assert bodies[-6:] == [b"0", b"1", b"2", b"3", b"4", b"late"]

    run(test())


def test_an_acknowledgement_after_the_connection_has_no_effect() -> None:
    async def test() -> None:
        async with (
            brokered() as (_, server, url),
            amqp091.connect(url, reconnect=AT_ONCE) as client,
        ):
            channel = await client.channel()
            await channel.declare_queue("q")
            await channel.publish(b"x", routing_key="q")
            consumer = await channel.consume("q")
            message = await anext(consumer)
            for driver in list(server.drivers):
                driver.abort()
            again = await anext(consumer)
            assert message.ack() is False
            assert again.redelivered
            assert again.ack()
            assert await channel.get("q") is None

    run(test())


def test_no_reconnection_after_a_final_code() -> None:
    async def test() -> None:
        script = Script()
        async with scripted(script) as (_, url):
            client = amqp091.connect(url, reconnect=AT_ONCE)
            await client.open()
            script.peers[0].close(530, "no")
            await until(lambda: client._ended)
            with pytest.raises(Refused):
                await client.channel()
            await client.close()
            assert client.connections == 1

    run(test())


def test_what_cannot_be_restored_is_told_and_dropped() -> None:
    async def test() -> None:
        told: list[Any] = []
        async with (
            brokered() as (broker, server, url),
            amqp091.connect(url, reconnect=AT_ONCE, on_event=told.append) as client,
        ):
            channel = await client.channel()
            await channel.declare_queue("q")
            broker.hosts["/"].queues["q"].durable = True  # another queue has this name now
            for connections in (2, 3):
                for driver in list(server.drivers):
                    driver.abort()
                await until(lambda count=connections: client.connections == count and client.connected)
            refused = [event for event in told if isinstance(event, NotRestored)]
            assert [(event.entity, event.error.code, event.action) for event in refused] == [("q", 406, "fail")]
            await channel.publish(b"x", routing_key="q")

    run(test())


def test_a_journal_keeps_what_is_not_confirmed(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "journal.db"
        script = Script(lambda peer, event: None)
        async with scripted(script) as (_, url):
            client = amqp091.connect(url, journal=path, name="meter")
            await client.open()
            channel = await client.channel()
            tasks = [asyncio.create_task(channel.publish(b"%d" % k, routing_key="q")) for k in range(3)]
            await until(lambda: len(script.of(amqp091.BasicMessage)) == 3)
            script.peers[0].abort()
            for task in tasks:
                with pytest.raises(ConnectionLost):
                    await task
            await client.close()
        async with brokered() as (broker, _, url):
            async with amqp091.connect(url) as plain:
                await (await plain.channel()).declare_queue("q")
            async with amqp091.connect(url, journal=path, name="meter") as client:
                await until(lambda: not client.session.outgoing)
                assert [m.body for m in sorted(broker.hosts["/"].queues["q"].messages)] == [b"0", b"1", b"2"]
            async with amqp091.connect(url, journal=path, name="meter") as client:
                assert not client.session.outgoing

    run(test())


# ---- the server


def test_a_message_before_the_close_of_its_channel_in_one_write_is_kept() -> None:
    async def test() -> None:
        async with brokered() as (broker, _, url), amqp091.connect(url) as client:
            channel = await client.channel(confirms=False)
            await channel.declare_queue("q")
            view, link = channel._view, client._link
            assert view is not None
            assert link is not None
            view.publish("", "q", b"kept")
            await channel.close()
            assert [item.body for item in broker.hosts["/"].queues["q"].messages] == [b"kept"]

    run(test())


def test_a_handler_that_is_a_coroutine() -> None:
    async def test() -> None:
        ended: list[Any] = []

        async def handler(peer: amqp091.Peer) -> None:
            async for event in peer:
                match event:
                    case amqp091.ConnectionStartOk() | amqp091.ConnectionOpen():
                        peer.accept(event)
                    case amqp091.QueueDeclare():
                        peer.reply(event, message_count=7)
                    case amqp091.BasicMessage():
                        peer.acknowledge(event)
                    case Disconnected():
                        ended.append(event)

        async with await amqp091.serve(handler, HOST, 0) as server:
            async with amqp091.connect(f"amqp://{HOST}:{server.port}") as client:
                channel = await client.channel()
                assert (await channel.declare_queue("q")).message_count == 7
                await channel.publish(b"x")
            await until(lambda: ended)
            assert ended[0].by == "peer"

    run(test())


def test_a_server_that_closes_says_so() -> None:
    async def test() -> None:
        async with brokered() as (_, server, url):
            client = amqp091.connect(url)
            await client.open()
            await server.close()
            await until(lambda: client._ended)
            await client.close()

    run(test())


@pytest.mark.parametrize("how", ["publish", "close"])
def test_what_waits_for_the_server_while_the_inbox_is_full(how: str) -> None:
    """Reading has stopped for a consumer that takes nothing; a confirm and a close-ok are still read."""

    async def test() -> None:
        async with brokered() as (_, _, url), amqp091.connect(url, inbox=1) as client:
            channel, other = await client.channel(), await client.channel()
            await channel.declare_queue("q")
            consumer = await channel.consume("q")
            await other.publish(b"1", routing_key="q")
            await until(lambda: client._link is not None and client._link.driver.paused)
            async with asyncio.timeout(2.0):
                await (other.publish(b"2", routing_key="in") if how == "publish" else other.close())
            assert (await anext(consumer)).body == b"1"

    run(test())


def test_closing_a_channel_ends_publishes_that_wait_for_room() -> None:
    async def test() -> None:
        async with brokered() as (_, server, url):
            options = amqp091.ConnectionOptions(unconfirmed=1)
            async with amqp091.connect(
                url, options=options, reconnect=amqp091.Backoff(first=60.0, most=60.0)
            ) as client:
                channel = await client.channel()
                for driver in list(server.drivers):
                    driver.abort()
                await until(lambda: not client.connected)
                waiting = [asyncio.ensure_future(channel.publish(b"x", routing_key="q")) for _ in range(3)]
                await asyncio.sleep(0)
                await channel.close()
                async with asyncio.timeout(2.0):
                    results = await asyncio.gather(*waiting, return_exceptions=True)
                assert all(isinstance(result, ConnectionLost) for result in results), results

    run(test())
