"""`Client.request`: a request and its reply over MQTT 5.0 (4.10)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lib.loopback import HOST, run, until
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

AT_ONCE = mqtt.Backoff(first=0.0, most=0.0)


def reply_to(request: mqtt.Publish, payload: bytes) -> dict[str, Any]:
    asked = dict(request.properties)
    return {
        "topic_name": asked["response_topic"],
        "payload": payload,
        "properties": [("correlation_data", asked["correlation_data"])],
    }


@contextlib.asynccontextmanager
async def answering(qos: int = 1, **more: Any) -> AsyncIterator[tuple[mqtt.Client, mqtt.Client, Broker]]:
    """A client that asks, and one that answers: "late" after the request has ended, "never" not at all, others in reverse
    order by twos."""
    broker = Broker()
    async with await mqtt.serve(broker, HOST, 0) as server:
        url = f"mqtt://{HOST}:{server.port}"
        async with mqtt.connect(url, client_identifier="responder") as responder:
            await responder.subscribe("ask/#", qos=qos)

            async def answer() -> None:
                kept: list[mqtt.Publish] = []
                async for request in responder.messages():
                    kind = request.topic_name.removeprefix("ask/")
                    if kind == "late":
                        await asyncio.sleep(0.1)
                    if kind == "two":
                        kept.insert(0, request)
                    if kind != "two" or len(kept) == 2:
                        for each in kept or [request]:
                            if kind != "never":
                                await responder.publish(**reply_to(each, each.payload_bytes().upper()), qos=qos)
                        kept.clear()

            task = asyncio.create_task(answer())
            async with mqtt.connect(url, client_identifier="asker", **more) as client:
                yield client, responder, broker
            task.cancel()
            await asyncio.wait([task])
    broker.close()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_request_has_its_reply(qos: int) -> None:
    async def test() -> None:
        async with answering(qos) as (client, _, broker):
            reply = await client.request("ask/one", "what", qos=qos, properties=[("content_type", "text/plain")])
            assert (reply.payload_bytes(), reply.qos) == (b"WHAT", qos)
            assert reply.topic_name.startswith("reply/")
            assert (await client.request("ask/one", b"more", qos=qos)).topic_name == reply.topic_name
            assert list(broker.subscribers["asker"].subscriptions) == [reply.topic_name]  # once
            assert client.late == 0
            if qos == 2:
                await until(lambda: not client.session.incoming)

    run(test())


def test_many_requests_at_a_time() -> None:
    """Each has its own reply, in whatever order they come."""

    async def test() -> None:
        async with answering() as (client, _, _):
            asked = [client.request("ask/two", b"q%d" % n) for n in range(50)]
            got = await asyncio.gather(*asked)
            assert [reply.payload_bytes() for reply in got] == [b"Q%d" % n for n in range(50)]

    run(test())


def test_a_time_limit_and_a_late_reply() -> None:
    async def test() -> None:
        async with answering() as (client, responder, _):
            await client.subscribe("other")
            with pytest.raises(TimeoutError):
                await client.request("ask/late", timeout=0.02)
            await until(lambda: client.late == 1)
            task = asyncio.create_task(client.request("ask/never", timeout=None))
            await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.wait([task])
            assert client._replies == {}
            await responder.publish("other", b"a message")  # the iterator sees no replies
            assert (await anext(client.messages())).payload_bytes() == b"a message"
            assert (await client.request("ask/one", b"again")).payload_bytes() == b"AGAIN"

    run(test())


def test_a_full_inbox_does_not_hold_replies_back() -> None:
    async def test() -> None:
        async with answering(inbox=2) as (client, _, _):
            await client.subscribe("ask/#", qos=1)  # its own requests fill the inbox
            for n in range(10):
                assert (await client.request("ask/one", b"q%d" % n, timeout=5)).payload_bytes() == b"Q%d" % n

    run(test())


def test_a_request_needs_5_0_and_its_properties_are_its_own() -> None:
    async def test() -> None:
        broker = Broker()
        async with await mqtt.serve(broker, HOST, 0) as server:
            url = f"mqtt://{HOST}:{server.port}"
            async with mqtt.connect(url, version=4) as client:
                with pytest.raises(LocalProtocolError, match=r"5\.0"):
                    await client.request("ask/one")
            async with mqtt.connect(url) as client:
                with pytest.raises(LocalProtocolError):
                    await client.request("ask/one", properties=[("response_topic", "mine")])
                assert client._replies == {}
        broker.close()

    run(test())


class Host:
    """A server that the test directs."""

    def __init__(self, *, refuse: int = 0, code: int = 0, information: str | None = None) -> None:
        self.refuse, self.code, self.information = refuse, code, information
        self.peers: list[mqtt.Peer] = []
        self.sessions: dict[str, Any] = {}
        self.filters: list[str] = []
        self.requests: list[mqtt.Publish] = []

    def handle(self, peer: mqtt.Peer, event: Any) -> None:
        match event:
            case mqtt.Connect():
                self.peers.append(peer)
                said = [("response_information", self.information)] if self.information else []
                peer.accept(event, None if event.clean_start else self.sessions.get(event.client_identifier), said)
                self.sessions[event.client_identifier] = peer.connection.session
            case mqtt.Subscribe():
                self.filters += [s.topic_filter for s in event.subscriptions]
                peer.grant(event, [self.refuse or s.qos for s in event.subscriptions])
            case mqtt.Publish():
                self.requests.append(event)
                if event.qos:
                    peer.acknowledge(event, self.code)

    def reply(self, request: mqtt.Publish, payload: bytes) -> None:
        self.peers[-1].publish(**reply_to(request, payload))

    def writable(self, peer: mqtt.Peer) -> None: ...

    def closed(self, peer: mqtt.Peer) -> None: ...


@contextlib.asynccontextmanager
async def directed(host: Host, **more: Any) -> AsyncIterator[mqtt.Client]:
    async with (
        await mqtt.serve(host, HOST, 0) as server,
        mqtt.connect(f"mqtt://{HOST}:{server.port}", client_identifier="c", **more) as client,
    ):
        yield client


def test_the_response_topic_begins_with_what_the_server_says() -> None:
    """3.1.2.11.6, 3.2.2.3.15: only if it was asked."""

    async def test(asked: bool, begins: str) -> None:
        host = Host(information="own/place/")
        properties = [("request_response_information", 1)] if asked else []
        async with directed(host, properties=properties) as client:
            task = asyncio.create_task(client.request("t", b"q"))
            await until(lambda: host.requests)
            host.reply(host.requests[0], b"a")
            assert (await task).topic_name.startswith(begins)
            assert host.filters == [(await task).topic_name]

    run(test(True, "own/place/"))
    run(test(False, "reply/"))


def test_refusals() -> None:
    async def test() -> None:
        for host in (Host(refuse=0x87), Host(code=0x87)):
            async with directed(host) as client:
                with pytest.raises(Refused) as caught:
                    await client.request("t")
                assert caught.value.code == 0x87
                assert client._replies == {}

    run(test())


def test_the_end_of_the_client_ends_requests() -> None:
    async def test() -> None:
        host = Host()
        async with directed(host) as client:
            tasks = [asyncio.create_task(client.request("t", timeout=None)) for _ in range(3)]
            await until(lambda: len(host.requests) == 3)
            host.peers[0].abort()
            for got in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(got, ConnectionLost)

    run(test())


@pytest.mark.parametrize("session", [True, False])
def test_a_request_waits_over_the_end_of_a_connection(session: bool) -> None:
    """The same Response Topic, also if the server has lost the session; a request that it has acknowledged is not sent again."""

    async def test() -> None:
        host = Host()
        async with directed(host, reconnect=AT_ONCE) as client:
            task = asyncio.create_task(client.request("t", b"q"))
            await until(lambda: host.requests and not client.session.outgoing)
            if not session:
                host.sessions.clear()
            host.peers[0].abort()
            await until(lambda: len(host.peers) == 2 and client.connected)
            await until(lambda: len(host.filters) == (1 if session else 2))
            assert len(set(host.filters)) == 1
            host.reply(host.requests[0], b"a")
            assert (await task).payload_bytes() == b"a"
            assert len(host.requests) == 1

    run(test())


def test_a_response_topic_that_is_not_granted_again_ends_the_requests() -> None:
    async def test() -> None:
        host = Host()
        async with directed(host, reconnect=AT_ONCE) as client:
            tasks = [asyncio.create_task(client.request("t")) for _ in range(3)]
            await until(lambda: len(host.requests) == 3)
            host.sessions.clear()
            host.refuse = 0x87
            host.peers[0].abort()
            for got in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(got, Refused)
            host.refuse = 0
            task = asyncio.create_task(client.request("t"))
            await until(lambda: len(host.requests) == 4)
            host.reply(host.requests[3], b"a")
            assert (await task).payload_bytes() == b"a"

    run(test())


def test_a_request_without_a_connection_waits_and_may_be_given_up() -> None:
    async def test() -> None:
        host = Host()
        server = await mqtt.serve(host, HOST, 0)
        port = server.port
        again = mqtt.Backoff(first=0.01, most=0.01)
        async with mqtt.connect(f"mqtt://{HOST}:{port}", client_identifier="c", reconnect=again) as client:
            await server.close()
            await until(lambda: not client.connected)
            with pytest.raises(TimeoutError):
                await client.request("t", b"given up", timeout=0.02)
            task = asyncio.create_task(client.request("t", b"kept", timeout=5))
            async with await mqtt.serve(host, HOST, port):
                await until(lambda: host.requests)
                host.reply(host.requests[0], b"a")
                assert (await task).payload_bytes() == b"a"
                await client.close()
        assert [request.payload_bytes() for request in host.requests] == [b"kept"]

    run(test())
