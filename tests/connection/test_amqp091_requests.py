"""`Client.request`: requests and replies of AMQP 0.9.1 by direct reply-to, with a server that does what RabbitMQ's page says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lib.kinds import checked
from lib.loopback import HOST, run, until
from wirefmt import amqp091
from wirefmt.broker.amqp091 import Broker
from wirefmt.errors import ConnectionLost, Refused

NAME = "amq.rabbitmq.reply-to"
SOON = amqp091.Backoff(first=0.01, most=0.02)


class Direct:
    """A server with direct reply-to: replies are consumed without acknowledgement, on the channel that publishes. What is
    published to the default exchange with the key `back` is answered, or does what the test says."""

    def __init__(self) -> None:
        self.requests: list[amqp091.BasicMessage] = []
        self.peers: list[amqp091.Peer] = []
        self.consumers: dict[tuple[amqp091.Peer, int], str] = {}
        self.silent = False

    def handle(self, peer: amqp091.Peer, event: Any) -> None:
        match event:
            case amqp091.ConnectionStartOk():
                self.peers.append(peer)
                peer.accept(event)
            case amqp091.ConnectionOpen():
                peer.accept(event)
            case amqp091.BasicConsume():
                assert (event.queue, event.no_ack) == (NAME, True)
                self.consumers[peer, event.channel] = checked(event.consumer_tag, str)
                peer.reply(event)
            case amqp091.BasicMessage():
                self.publish(peer, event)

    def publish(self, peer: amqp091.Peer, event: amqp091.BasicMessage) -> None:
        method, properties = event.method, event.properties
        assert (peer, event.channel) in self.consumers
        assert properties.reply_to == NAME
        assert method.mandatory
        self.requests.append(event)
        if method.exchange:
            peer.refuse(event, 404, f"no exchange '{method.exchange}' in vhost '/'")
        elif method.routing_key != "back":
            peer.connection.return_message(event)
        elif not self.silent:
            self.reply(peer, event)

    def reply(self, peer: amqp091.Peer, event: amqp091.BasicMessage) -> None:
        properties = amqp091.BasicProperties(correlation_id=event.properties.correlation_id)
        tag = self.consumers[peer, event.channel]
        peer.channels[event.channel].deliver(tag, "", f"{NAME}.x", b"re: " + event.body_bytes(), properties)
        peer.update()

    def writable(self, peer: amqp091.Peer) -> None: ...

    def closed(self, peer: amqp091.Peer) -> None: ...


@contextlib.asynccontextmanager
async def direct(**more: Any) -> AsyncIterator[tuple[Direct, amqp091.Client]]:
    handler = Direct()
    async with (
        await amqp091.serve(handler, HOST, 0) as server,
        amqp091.connect(f"amqp://{HOST}:{server.port}", **more) as client,
    ):
        yield handler, client


def test_many_requests_at_a_time() -> None:
    async def test() -> None:
        async with direct() as (handler, client):
            bodies = [b"%d" % k for k in range(50)]
            replies = await asyncio.gather(*(client.request(body, routing_key="back") for body in bodies))
            assert [reply.body for reply in replies] == [b"re: " + body for body in bodies]
            assert len(handler.consumers) == 1
            own = amqp091.BasicProperties(correlation_id="mine", headers={"a": 1}, delivery_mode=1)
            reply = await client.request("text", routing_key="back", properties=own)
            assert (reply.properties.correlation_id, reply.body) == ("mine", b"re: text")
            assert handler.requests[-1].properties.headers == {"a": 1}
            with pytest.raises(ValueError, match="reply_to"):
                await client.request(b"", routing_key="back", properties=amqp091.BasicProperties(reply_to="x"))

    run(test())


def test_replies_come_in_any_order_too_late_and_from_nowhere() -> None:
    async def test() -> None:
        async with direct() as (handler, client):
            handler.silent = True
            slow = [asyncio.create_task(client.request(b"%d" % k, routing_key="back")) for k in range(3)]
            with pytest.raises(TimeoutError, match=r"'back' within 0\.05 s"):
                await client.request(b"late", routing_key="back", timeout=0.05)
            await until(lambda: len(handler.requests) == 4)
            peer = handler.peers[0]
            for request in reversed(handler.requests):
                handler.reply(peer, request)
                handler.reply(peer, request)
            assert [reply.body for reply in await asyncio.gather(*slow)] == [b"re: 0", b"re: 1", b"re: 2"]
            same = amqp091.BasicProperties(correlation_id="same")
            task = asyncio.create_task(client.request(b"x", routing_key="back", properties=same))
            await until(lambda: len(handler.requests) == 5)
            with pytest.raises(ValueError, match="same"):
                await client.request(b"y", routing_key="back", properties=same)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            handler.silent = False
            assert (await client.request(b"z", routing_key="back", properties=same)).body == b"re: z"

    run(test())


def test_what_is_refused_hurts_nobody_else() -> None:
    async def test() -> None:
        async with direct() as (handler, client):
            handler.silent = True
            good = asyncio.create_task(client.request(b"x", routing_key="back"))
            await until(lambda: handler.requests)
            with pytest.raises(Refused) as refused:
                await client.request(b"x", routing_key="nobody")
            assert refused.value.code == 312
            for _ in range(2):
                with pytest.raises(Refused) as refused:
                    await client.request(b"x", exchange="gone")
                assert refused.value.code == 404
            handler.reply(handler.peers[0], handler.requests[0])
            assert (await good).body == b"re: x"
            assert len(client._channels) == 1

    run(test())


def test_the_connection_is_lost_before_the_reply() -> None:
    """What was sent may have been handled; what was not is sent on the next connection."""

    async def test() -> None:
        async with direct(reconnect=SOON) as (handler, client):
            handler.silent = True
            sent = [asyncio.create_task(client.request(b"%d" % k, routing_key="back")) for k in range(3)]
            await until(lambda: len(handler.requests) == 3)
            handler.silent = False
            handler.peers[0].abort()
            await until(lambda: not client.connected)
            later = asyncio.create_task(client.request(b"later", routing_key="back"))
            for task in sent:
                with pytest.raises(ConnectionLost, match="not known"):
                    await task
            assert (await later).body == b"re: later"
            assert [request.body_bytes() for request in handler.requests] == [b"0", b"1", b"2", b"later"]

    run(test())


@pytest.mark.parametrize("ended", ["closed", "lost"])
def test_the_end_of_the_client(ended: str) -> None:
    async def test() -> None:
        async with direct() as (handler, client):
            handler.silent = True
            waiting = asyncio.create_task(client.request(b"x", routing_key="back", timeout=None))
            await until(lambda: handler.requests)
            if ended == "closed":
                await client.close()
            else:
                handler.peers[0].abort()
            with pytest.raises(ConnectionLost):
                await waiting
            with pytest.raises(ConnectionLost):
                await client.request(b"x", routing_key="back")

    run(test())


def test_requests_are_cancelled_at_any_step() -> None:
    async def test() -> None:
        async with direct() as (_, client):
            for turns in range(15):
                task = asyncio.create_task(client.request(b"x", routing_key="back"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                assert (await client.request(b"y", routing_key="back")).body == b"re: y"
            requester = client._requesters[""]
            assert not requester.waiting

    run(test())


def test_a_server_without_direct_reply_to() -> None:
    class Without(Broker):
        def handle(self, peer: amqp091.Peer, event: Any) -> None:
            if isinstance(event, amqp091.BasicConsume) and event.queue == NAME:
                peer.refuse(event, 404, f"no queue '{NAME}' in vhost '/'")
            else:
                super().handle(peer, event)

    async def test() -> None:
        async with (
            await amqp091.serve(Without(), HOST, 0) as server,
            amqp091.connect(f"amqp://{HOST}:{server.port}") as client,
        ):
            results = await asyncio.gather(*(client.request(b"x") for _ in range(3)), return_exceptions=True)
            for refused in results:
                assert isinstance(refused, Refused)
                assert refused.code == 404
                assert "no direct reply-to" in str(refused)
            assert not client._channels

    run(test())
