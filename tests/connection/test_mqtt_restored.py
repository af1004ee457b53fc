"""What `mqtt.connect` restores after a break, what becomes of a subscription that is refused, and calls that wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from lib.loopback import HOST, run, until
from wirefmt import mqtt
from wirefmt.connection import Disconnected
from wirefmt.connection.recovery import NotRestored
from wirefmt.errors import LocalProtocolError, Refused

SOON = mqtt.Backoff(first=0.01, most=0.01, jitter=0.0)


class Host:
    """A server that forgets sessions when the test says so, and grants what `codes` says."""

    def __init__(self) -> None:
        self.codes: Callable[[str], int] = lambda topic_filter: 0
        self.peers: list[mqtt.Peer] = []
        self.session: mqtt.Session | None = None
        self.asked: list[list[str]] = []  # filters of each SUBSCRIBE
        self.events: list[Any] = []
        self.silent = False
        self.properties: list[Any] = []

    def handle(self, peer: mqtt.Peer, event: Any) -> None:
        self.events.append(event)
        match event:
            case mqtt.Connect():
                self.peers.append(peer)
                properties = self.properties if event.version == 5 else ()
                peer.accept(event, None if event.clean_start else self.session, properties)
                self.session = peer.connection.session
            case mqtt.Subscribe():
                self.asked.append([s.topic_filter for s in event.subscriptions])
                if not self.silent:
                    peer.grant(event, [self.codes(s.topic_filter) for s in event.subscriptions])
            case mqtt.Unsubscribe():
                peer.grant(event)
            case mqtt.Publish() if event.qos and not self.silent:
                peer.acknowledge(event)

    def lose(self) -> None:
        """The session is lost, and the connection too."""
        self.session = None
        self.asked.clear()
        self.peers[-1].abort()

    def writable(self, peer: mqtt.Peer) -> None: ...

    def closed(self, peer: mqtt.Peer) -> None: ...


@contextlib.asynccontextmanager
async def hosted(host: Host, **more: Any) -> AsyncIterator[tuple[mqtt.Client, list[NotRestored]]]:
    told: list[NotRestored] = []

    def on_event(event: Any) -> None:
        if isinstance(event, NotRestored):
            told.append(event)

    options = {"client_identifier": "c", "reconnect": SOON, "keep_alive": 0, "on_event": on_event, **more}
    async with (
        await mqtt.serve(host, HOST, 0) as server,
        mqtt.connect(f"mqtt://{HOST}:{server.port}", **options) as client,
    ):
        yield client, told


@pytest.mark.parametrize("version", [3, 4, 5])
def test_subscriptions_come_back_in_packets_like_those_of_the_program(version: int) -> None:
    """A server may limit the filters of one packet."""

    async def test() -> None:
        host = Host()
        async with hosted(host, version=version) as (client, told):
            await client.subscribe("a", "b")
            await client.subscribe("c", "d", "e")
            await client.unsubscribe("d")
            host.lose()
            await until(lambda: len(host.asked) == 2)
            assert host.asked == [["a", "b"], ["c", "e"]]
            assert told == []
            host.lose()  # what was restored is restored again
            await until(lambda: len(host.asked) == 2)
            assert host.asked == [["a", "b"], ["c", "e"]]

    run(test())


@pytest.mark.parametrize(("version", "code"), [(4, 0x80), (5, 0x80), (5, 0x97)])
def test_a_refusal_that_can_pass_is_asked_again_until_it_is_granted(version: int, code: int) -> None:
    async def test() -> None:
        host = Host()
        async with hosted(host, version=version) as (client, told):
            await client.subscribe("good", "bad")
            connections = client.connections
            left = iter([code, code, code])
            host.codes = lambda topic_filter: next(left, 0) if topic_filter == "bad" else 0
            host.lose()
            await until(lambda: len(host.asked) == 4)
            assert host.asked == [["good", "bad"], ["bad"], ["bad"], ["bad"]]
            assert [(t.entity, t.error.code, t.action, t.wait) for t in told] == [("bad", code, "retry", 0.01)] * 3
            host.peers[-1].publish("bad", b"x")
            assert (await anext(client.messages())).topic_name == "bad"
            assert client.connections == connections + 1
            await asyncio.sleep(0.03)
            assert len(host.asked) == 4

    run(test())


def test_a_refusal_that_cannot_pass_ends_that_subscription_alone() -> None:
    """`messages` raises it once, and goes on."""

    async def test() -> None:
        host = Host()
        async with hosted(host) as (client, told):
            await client.subscribe("good", "bad")
            waiting = asyncio.create_task(anext(client.messages()))
            host.codes = lambda topic_filter: 0x87 if topic_filter == "bad" else 0
            host.lose()
            with pytest.raises(Refused, match="'bad'") as caught:
                await waiting
            assert caught.value.code == 0x87
            assert [(t.entity, t.action, t.wait) for t in told] == [("bad", "fail", None)]
            assert client.connected
            assert await client.publish("x", qos=1) == 0
            host.peers[-1].publish("good", b"x")
            assert (await anext(client.messages())).topic_name == "good"
            host.lose()
            await until(lambda: host.asked)
            assert host.asked == [["good"]]

    run(test())


@pytest.mark.parametrize("policy", ["skip", "fail", "retry"])
def test_the_policy_decides(policy: Any) -> None:
    async def test() -> None:
        host = Host()
        async with hosted(host) as (client, told):
            await client.subscribe("it", on_refused=policy)
            host.codes = lambda topic_filter: 0x87 if policy == "retry" else 0x80
            host.lose()
            await until(lambda: told)
            assert told[0].action == policy
            if policy == "retry":
                host.codes = lambda topic_filter: 0
                await until(lambda: not any(s.missing for s in client._subscriptions.values()))
                return
            if policy == "fail":
                with pytest.raises(Refused):
                    await anext(client.messages())
            await asyncio.sleep(0.03)
            assert len(told) == len(host.asked) == 1
            host.lose()
            await until(lambda: client.connections == 3)
            await asyncio.sleep(0.03)
            assert len(host.asked) == (1 if policy == "skip" else 0)  # with the next connection, or never again

    run(test())


def test_what_a_broken_connection_did_not_restore_the_next_one_does() -> None:
    """Though that one resumes the session. Nothing is asked for more than once on a connection."""

    async def test() -> None:
        host = Host()
        async with hosted(host) as (client, _):
            await client.subscribe("a")
            await client.subscribe("b")
            host.silent = True
            host.lose()
            for connections in (3, 4):
                await until(lambda: len(host.asked) == 2)
                assert host.asked == [["a"], ["b"]]
                host.asked.clear()
                host.peers[-1].abort()  # the session is kept
                await until(lambda connections=connections: client.connections == connections)
            host.silent = False
            host.asked.clear()
            host.peers[-1].abort()
            await until(lambda: len(host.asked) >= 2)
            await client.publish("x", qos=1)
            assert host.asked == [["a"], ["b"]]
            assert not any(s.missing for s in client._subscriptions.values())
            host.asked.clear()
            host.peers[-1].abort()
            await until(lambda: client.connections == 6)
            await client.publish("x", qos=1)
            assert host.asked == []

    run(test())


def test_the_program_may_unsubscribe_or_subscribe_meanwhile() -> None:
    async def test() -> None:
        host = Host()
        async with hosted(host) as (client, told):
            await client.subscribe("gone", "taken")
            host.codes = lambda topic_filter: 0x80
            host.lose()
            await until(lambda: len(told) >= 2)
            await client.unsubscribe("gone")
            host.codes = lambda topic_filter: 0
            assert await client.subscribe("taken", qos=0) == (0,)
            count = len(host.asked)
            await asyncio.sleep(0.05)
            assert len(host.asked) <= count + 1
            assert list(client._subscriptions) == ["taken"]

    run(test())


def test_a_server_that_offers_less_refuses_what_it_does_not_offer() -> None:
    """3.2.2.3.11: no wildcards now. The others of that packet are asked for one by one."""

    async def test() -> None:
        host = Host()
        async with hosted(host) as (client, told):
            await client.subscribe("a/+", "b")
            await client.subscribe("c/#", on_refused="skip")
            host.properties = [("wildcard_subscription_available", 0)]
            host.lose()
            await until(lambda: len(told) == 2 and host.asked)
            assert host.asked == [["b"]]
            found = {(t.entity, t.error.code, t.action) for t in told}
            assert found == {("a/+", 0xA2, "fail"), ("c/#", 0xA2, "skip")}
            with pytest.raises(Refused):
                await anext(client.messages())

    run(test())


def test_a_session_that_began_without_the_client_is_no_old_one() -> None:
    """The server has lost the session. It begins a new one at a CONNECT whose CONNACK does not come; the next CONNACK says that
    there is a session."""

    async def test() -> None:
        host = Host()
        async with hosted(host) as (client, _):
            await client.subscribe("a")
            accept = host.handle

            def swallow(peer: mqtt.Peer, event: Any) -> None:
                accept(peer, event)
                if isinstance(event, mqtt.Connect):
                    host.handle = accept  # type: ignore[method-assign]
                    peer.abort()  # before CONNACK is written

            host.handle = swallow  # type: ignore[method-assign]
            host.lose()
            await until(lambda: client.connections == 2)
            await until(lambda: host.asked)
            assert host.asked == [["a"]]
            host.asked.clear()
            host.peers[-1].abort()
            await until(lambda: client.connections == 3)
            await client.publish("x", qos=1)
            assert host.asked == []

    run(test())


# ---- calls that wait


def test_a_call_that_waits_for_a_place_is_not_held_up_by_a_full_inbox() -> None:
    """The window is full of messages of an earlier process: their acknowledgements are on the same stream as the messages that
    fill the inbox."""

    async def test() -> None:
        session = mqtt.Session("c", established=True)
        for number in range(2):
            session.add(
                mqtt.Publish(topic_name="old", payload=b"%d" % number, qos=1, packet_identifier=1, version=4).encode(),
                4,
            )
        host = Host()
        host.session = mqtt.Session("c", expiry_interval=100, established=True)
        host.silent = True
        async with hosted(
            host, version=4, session=session, session_expiry_interval=100, in_flight=2, inbox=2, reconnect=None
        ) as (client, _):
            await until(lambda: sum(isinstance(e, mqtt.Publish) for e in host.events) == 2)
            kept = [e for e in host.events if isinstance(e, mqtt.Publish)]
            for _ in range(5):
                host.peers[-1].publish("t", b"x")
            await until(lambda: client._link is not None and client._link.driver.paused)
            publishing = asyncio.create_task(client.publish("new", qos=1))
            await asyncio.sleep(0.02)
            host.silent = False
            for message in kept:
                host.peers[-1].acknowledge(message)
            assert await publishing == 0

    run(test())


def test_a_call_behind_one_that_was_given_up_is_not_held_up_by_a_full_inbox() -> None:
    async def test() -> None:
        host = Host()
        host.silent = True
        async with hosted(host, inbox=2, in_flight=1) as (client, _):
            first = asyncio.create_task(client.publish("t", qos=1))
            await until(lambda: [e for e in host.events if isinstance(e, mqtt.Publish)])
            first.cancel()
            await asyncio.wait([first])
            for _ in range(5):
                host.peers[-1].publish("t", b"x")
            await asyncio.sleep(0.02)
            publishing = asyncio.create_task(client.publish("t", qos=1))
            await asyncio.sleep(0.02)
            host.silent = False
            host.peers[-1].acknowledge(next(e for e in host.events if isinstance(e, mqtt.Publish)))
            assert await publishing == 0

    run(test())


def test_messages_above_the_limit_of_what_may_be_queued_wait_for_the_transport() -> None:
    async def test() -> None:
        host = Host()
        options = mqtt.ConnectionOptions(pending_bytes=100_000)
        async with hosted(host, options=options) as (client, _):
            got = await asyncio.gather(*(client.publish("t", bytes(60_000), qos=1) for _ in range(20)))
            assert got == [0] * 20

    run(test())


def test_a_call_that_is_given_up_leaves_nothing_behind() -> None:
    async def test() -> None:
        host = Host()
        async with hosted(host, reconnect=mqtt.Backoff(first=60.0, most=60.0)) as (client, _):
            host.peers[0].abort()
            await until(lambda: not client.connected)
            for _ in range(100):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await client.publish("t", b"x", qos=1)
            assert not client._queue

    run(test())


def test_a_subscribe_waits_while_all_packet_identifiers_are_in_use() -> None:
    async def test() -> None:
        host = Host()
        async with hosted(host) as (client, _):
            for identifier in range(1, 65536):
                client.session.identifiers.reserve(identifier)
            subscribing = asyncio.create_task(client.subscribe("t"))
            publishing = asyncio.create_task(client.publish("t", qos=1))
            await asyncio.sleep(0.02)
            assert not subscribing.done()
            for identifier in (7, 8):
                client.session.identifiers.release(identifier)
            client._pump()
            assert await subscribing == (0,)
            assert await publishing == 0

    run(test())


def test_a_message_that_cannot_be_sent_raises_and_the_others_go_on() -> None:
    async def test() -> None:
        host = Host()
        host.properties = [("maximum_qos", 1)]
        async with hosted(host) as (client, _):
            got = await asyncio.gather(*(client.publish("t", qos=qos) for qos in (1, 2, 0)), return_exceptions=True)
            assert (got[0], got[2]) == (0, 0)
            assert isinstance(got[1], LocalProtocolError)
            assert not [e for e in host.events if isinstance(e, Disconnected)]

    run(test())
