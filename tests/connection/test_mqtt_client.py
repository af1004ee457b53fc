"""`mqtt.connect` and `mqtt.serve` on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run, until
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker, BrokerOptions, Message
from wirefmt.connection import Acknowledged, Disconnected
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

VERSIONS = (3, 4, 5)
AT_ONCE = mqtt.Backoff(first=0.0, most=0.0)


@contextlib.asynccontextmanager
async def brokered(policy: BrokerOptions | None = None, **more: Any) -> AsyncIterator[tuple[Broker, mqtt.Server, str]]:
    broker = Broker(policy)
    async with await mqtt.serve(broker, HOST, more.pop("port", 0), **more) as server:
        yield broker, server, f"mqtt://{HOST}:{server.port}"
    broker.close()


async def take(client: mqtt.Client, count: int) -> list[tuple[str, bytes, int]]:
    found = []
    if count:
        async for message in client.messages():
            found.append((message.topic_name, message.payload_bytes(), message.qos))
            if len(found) == count:
                break
    return found


class Script:
    """A server that does what the test says: events are kept, CONNECT is accepted, and nothing else is answered unless
    `act` does."""

    def __init__(self, act: Callable[[mqtt.Peer, Any], None] | None = None) -> None:
        self.act = act
        self.events: list[Any] = []
        self.peers: list[mqtt.Peer] = []
        self.session: mqtt.Session | None = None

    def handle(self, peer: mqtt.Peer, event: Any) -> None:
        self.events.append(event)
        match event:
            case mqtt.Connect():
                self.peers.append(peer)
                old = None if event.clean_start else self.session
                assigned = [] if event.client_identifier else [("assigned_client_identifier", "made")]
                peer.accept(event, old, assigned if event.version == 5 else ())
                self.session = peer.connection.session
            case _ if self.act is not None:
                self.act(peer, event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if type(event) is kind]

    def writable(self, peer: mqtt.Peer) -> None: ...

    def closed(self, peer: mqtt.Peer) -> None: ...


def answer(peer: mqtt.Peer, event: Any) -> None:
    match event:
        case mqtt.Publish() if event.qos:
            peer.acknowledge(event)
        case mqtt.Subscribe():
            peer.grant(event, [s.qos for s in event.subscriptions])
        case mqtt.Unsubscribe():
            peer.grant(event)


@contextlib.asynccontextmanager
async def scripted(
    script: Script, server_options: mqtt.ConnectionOptions | None = None, **client: Any
) -> AsyncIterator[mqtt.Client]:
    """A client of a server that does what the script says. `client`: arguments of `mqtt.connect`."""
    async with (
        await mqtt.serve(script, port=0, options=server_options) as server,
        mqtt.connect(f"mqtt://{HOST}:{server.port}", **client) as connected,
    ):
        yield connected


def test_asyncio_is_not_imported_with_the_codec() -> None:
    code = "import sys, wirefmt.mqtt; print('asyncio' in sys.modules); wirefmt.mqtt.connect; print('asyncio' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.split() == ["False", "True"]


# ---- subscribe, publish, receive


@pytest.mark.parametrize("version", VERSIONS)
def test_subscribe_publish_receive(version: int) -> None:
    async def test() -> None:
        async with (
            brokered() as (_, _, url),
            mqtt.connect(url, client_identifier="a", version=version) as client,
        ):
            assert await client.subscribe("plant/+", qos=2) == (2,)
            for qos in (0, 1, 2):
                assert await client.publish(f"plant/{qos}", b"21.5", qos=qos) == 0
            assert await take(client, 3) == [(f"plant/{qos}", b"21.5", qos) for qos in (0, 1, 2)]
            assert await client.unsubscribe("plant/+") == ((0,) if version == 5 else ())
            assert await client.publish("plant/x", "é", qos=1) == (0x10 if version == 5 else 0)

    run(test())


def test_large_messages_and_many() -> None:
    async def test() -> None:
        async with brokered(BrokerOptions(queue_messages=5000)) as (_, _, url), mqtt.connect(url) as client:
            await client.subscribe("#", qos=1)
            large = bytes(range(256)) * 8000
            sent = [("t", large, 1), *(("t", b"%d" % n, n % 2) for n in range(3000))]
            publishing = asyncio.gather(*(client.publish(t, p, qos=q) for t, p, q in sent))
            got = await take(client, len(sent))
            assert got == sent
            await publishing

    run(test())


@pytest.mark.parametrize("carrier", ["tcp", "unix", "ws", "tls", "wss"])
def test_transports(carrier: str, tmp_path: Path) -> None:
    if carrier in ("tls", "wss") and OPENSSL is None:
        pytest.skip("needs openssl (apt install openssl)")

    async def test() -> None:
        server_context = client_context = None
        if carrier in ("tls", "wss"):
            server_context, client_context = certificate(tmp_path)
        more: dict[str, Any] = {"ssl": server_context, "websocket": carrier in ("ws", "wss")}
        if carrier == "unix":
            more["path"] = str(tmp_path / "socket")
        async with brokered(**more) as (_, server, url):
            if carrier == "unix":
                url = f"mqtt+unix://{tmp_path}/socket"
            else:
                scheme = {"tcp": "mqtt", "tls": "mqtts"}.get(carrier, carrier)
                url = f"{scheme}://localhost:{server.port}"
            async with mqtt.connect(url, ssl=client_context) as client:
                await client.subscribe("a", qos=1)
                payload = bytes(300_000)
                for _ in range(3):
                    await client.publish("a", payload, qos=1)
                assert await take(client, 3) == [("a", payload, 1)] * 3
            await until(lambda: not server.drivers)
        await asyncio.sleep(0)

    run(test())


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    if OPENSSL is None:
        pytest.skip("needs openssl (apt install openssl)")

    async def test() -> None:
        context, _ = certificate(tmp_path)
        async with brokered(ssl=context) as (_, server, _):
            with pytest.raises(ssl.SSLCertVerificationError):
                await mqtt.connect(f"mqtts://localhost:{server.port}").open()
        await until(lambda: len(asyncio.all_tasks()) == 1)  # asyncio's, of the handshake

    run(test())


def test_urls() -> None:
    for url in ("http://host", "host:1883", ""):
        with pytest.raises(ValueError, match="scheme"):
            mqtt.connect(url)

    async def test() -> None:
        script = Script(answer)
        async with (
            await mqtt.serve(script, port=0) as server,
            mqtt.connect(f"mqtt://us%40er:p%3Aw@{HOST}:{server.port}"),
        ):
            (connect,) = script.of(mqtt.Connect)
            assert (connect.user_name, bytes(connect.password)) == ("us@er", b"p:w")

    run(test())


# ---- answers and windows


def test_publish_returns_when_acknowledged() -> None:
    async def test() -> None:
        script = Script()
        async with scripted(script) as client:
            publishing = asyncio.create_task(client.publish("a", qos=1))
            await until(lambda: script.of(mqtt.Publish))
            await asyncio.sleep(0.02)
            assert not publishing.done()
            script.peers[0].acknowledge(script.of(mqtt.Publish)[0])
            assert await publishing == 0
            refused = asyncio.create_task(client.publish("b", qos=2))
            await until(lambda: len(script.of(mqtt.Publish)) == 2)
            script.peers[0].acknowledge(script.of(mqtt.Publish)[1], 0x97)
            with pytest.raises(Refused) as caught:
                await refused
            assert caught.value.code == 0x97

    run(test())


def test_the_window_makes_publish_wait_and_keeps_the_order() -> None:
    async def test() -> None:
        script = Script()
        options = mqtt.ConnectionOptions(receive_maximum=2)
        async with scripted(script, server_options=options) as client:
            tasks = [asyncio.create_task(client.publish("a", b"%d" % n, qos=1 + n % 2)) for n in range(20)]
            for n in range(20):
                await until(lambda n=n: len(script.of(mqtt.Publish)) > n)
                assert len(script.of(mqtt.Publish)) <= n + 2
                script.peers[0].acknowledge(script.of(mqtt.Publish)[n])
            assert await asyncio.gather(*tasks) == [0] * 20
            assert [m.payload_bytes() for m in script.of(mqtt.Publish)] == [b"%d" % n for n in range(20)]

    run(test())


@pytest.mark.parametrize(
    ("version", "given", "most"), [(3, None, 20), (4, None, 20), (4, 5, 5), (5, 7, 7), (5, None, 40)]
)
def test_messages_in_flight_are_limited(version: int, given: int | None, most: int) -> None:
    async def test() -> None:
        script = Script()
        async with scripted(script, client_identifier="x", version=version, in_flight=given) as client:
            tasks = [asyncio.create_task(client.publish("a", b"%d" % n, qos=2)) for n in range(40)]
            await until(lambda: len(script.of(mqtt.Publish)) >= most)
            await asyncio.sleep(0.02)
            assert len(script.of(mqtt.Publish)) == most
            script.act = answer
            for message in script.of(mqtt.Publish):
                script.peers[0].acknowledge(message)
            assert await asyncio.gather(*tasks) == [0] * 40
            assert [int(m.payload_bytes()) for m in script.of(mqtt.Publish)] == list(range(40))

    run(test())


def test_what_cannot_be_sent_raises() -> None:
    async def test() -> None:
        options = mqtt.ConnectionOptions(packet_size=1000)
        async with brokered(BrokerOptions(maximum_qos=1), options=options) as (_, _, url), mqtt.connect(url) as client:
            for call in (
                client.publish("a", bytes(2000), qos=1),
                client.publish("a", qos=2),
                client.publish("a/#", b""),
                client.publish("", b"", qos=1),
                client.subscribe("a#"),
                client.subscribe(),
            ):
                with pytest.raises(LocalProtocolError):
                    await call
            assert await client.publish("a", b"still", qos=1) == 0x10
            assert client.connections == 1

    run(test())


@pytest.mark.parametrize("stage", ["window", "sent", "subscribe", "messages"])
def test_a_cancelled_call_leaves_a_usable_client(stage: str) -> None:
    async def test() -> None:
        script = Script()
        options = mqtt.ConnectionOptions(receive_maximum=1)
        async with scripted(script, server_options=options) as client:
            first = asyncio.create_task(client.publish("first", qos=1))
            await until(lambda: script.of(mqtt.Publish))
            call: Any
            match stage:
                case "window":
                    call = client.publish("second", qos=1)
                case "sent":
                    call, first = first, asyncio.create_task(asyncio.sleep(0, 0))
                case "subscribe":
                    call = client.subscribe("x")
                case "messages":
                    call = client.messages().__anext__()
            task = asyncio.ensure_future(call)
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            script.act = answer
            for request in script.of(mqtt.Subscribe):
                answer(script.peers[0], request)
            answer(script.peers[0], script.of(mqtt.Publish)[0])
            assert await first == 0
            assert await client.publish("third", qos=1) == 0
            assert await client.subscribe("y", qos=1) == (1,)
            script.peers[0].publish("to", b"client", qos=1)
            assert await take(client, 1) == [("to", b"client", 1)]
            expected = {"window": ["first", "third"]}.get(stage, ["first", "third"])
            assert [m.topic_name for m in script.of(mqtt.Publish)] == expected

    run(test())


def test_cancelled_at_any_step() -> None:
    """A program is cancelled after every number of steps of the loop; nothing is left over, and the server goes on."""

    async def program(url: str) -> None:
        async with mqtt.connect(url, reconnect=AT_ONCE) as client:
            await client.subscribe("a/#", qos=2)
            await client.publish("a/1", b"x", qos=2)
            await client.publish("a/2", b"x", qos=1)
            await take(client, 2)

    async def test() -> None:
        async with brokered() as (_, server, url):
            done = steps = 0
            while not done:
                task = asyncio.create_task(program(url))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                    done = True
                steps += 1
                assert steps < 100_000
                if steps > 200:
                    steps += steps // 10
            await program(url)
            await until(lambda: not server.drivers)

    run(test())


# ---- messages of the server


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_are_acknowledged_when_the_next_is_asked_for(version: int) -> None:
    async def test() -> None:
        script = Script(answer)
        async with scripted(script, client_identifier="x", version=version) as client:
            for n in range(3):
                script.peers[0].publish("t", b"%d" % n, qos=1)
            messages = client.messages()
            assert (await anext(messages)).payload_bytes() == b"0"
            await client.publish("a", qos=1)  # a whole exchange later
            assert script.of(Acknowledged) == []
            await anext(messages)
            await until(lambda: len(script.of(Acknowledged)) == 1)
            del messages  # a loop that is left
            async for _ in client.messages():
                break
            await until(lambda: len(script.of(Acknowledged)) == 2)
        assert len(script.of(Acknowledged)) == 3  # closing in good order

    run(test())


def test_a_program_that_fails_does_not_acknowledge() -> None:
    async def test() -> None:
        script = Script(answer)
        async with await mqtt.serve(script, port=0) as server:
            with contextlib.suppress(ZeroDivisionError):
                async with mqtt.connect(f"mqtt://{HOST}:{server.port}") as client:
                    script.peers[0].publish("t", b"", qos=1)
                    async for _ in client.messages():
                        raise ZeroDivisionError
            await until(lambda: script.of(Disconnected))
            assert script.of(Acknowledged) == []

    run(test())


def test_manual_acknowledgement() -> None:
    async def test() -> None:
        script = Script(answer)
        async with scripted(script, acknowledge="manual") as client:
            for n in range(3):
                script.peers[0].publish("t", b"%d" % n, qos=1)
            messages = client.messages()
            first, second, third = [await anext(messages) for _ in range(3)]
            assert client.acknowledge(third, 0x83)
            assert client.acknowledge(second)
            await client.publish("a", qos=1)
            assert script.of(Acknowledged) == []  # in the order of arrival [MQTT-4.6.0-2]
            assert client.acknowledge(first)
            await until(lambda: len(script.of(Acknowledged)) == 3)
            assert [event.code for event in script.of(Acknowledged)] == [0, 0, 0x83]
            with pytest.raises(LocalProtocolError):
                client.acknowledge(first)

    run(test())


def test_receive_maximum_bounds_what_waits() -> None:
    async def test() -> None:
        script = Script(answer)
        async with scripted(script, options=mqtt.ConnectionOptions(receive_maximum=5)) as client:
            peer = script.peers[0]
            for _ in range(5):
                peer.publish("t", qos=1)
            with pytest.raises(LocalProtocolError):
                peer.publish("t", qos=1)
            await take(client, 5)
            assert client.connected

    run(test())


def test_a_slow_program_stops_the_reading() -> None:
    """QoS 0 has no window: the client stops to read, so the server's buffers fill, and nothing is lost."""

    async def test() -> None:
        script = Script(answer)
        async with scripted(script, inbox=10) as client:
            peer, sent = script.peers[0], 0
            payload = bytes(100_000)
            while peer.ready or await settled(lambda: peer.ready):
                peer.publish("t", payload)
                sent += 1
                await asyncio.sleep(0)
                assert sent < 2000, "the client reads on"
            assert len(client._inbox) < 20
            assert len(await take(client, sent)) == sent
            assert client.dropped == 0

    async def settled(condition: Callable[[], bool]) -> bool:
        for _ in range(20):
            await asyncio.sleep(0.01)
            if condition():
                return True
        return False

    run(test())


def test_an_answer_is_read_past_a_full_inbox() -> None:
    """A program that publishes in its loop must not wait for ever; QoS 0 above ten times the limit is dropped and counted."""

    async def test() -> None:
        def act(peer: mqtt.Peer, event: Any) -> None:
            if isinstance(event, mqtt.Publish):
                for n in range(200):
                    peer.publish("flood", b"%d" % n)
                peer.acknowledge(event)

        script = Script(act)
        async with scripted(script, inbox=10) as client:
            assert await client.publish("a", qos=1) == 0
            assert client.dropped == 100
            assert len(await take(client, 100)) == 100
            assert await client.publish("a", qos=1) == 0

    run(test())


# ---- the end of a connection


def test_the_end_is_raised_everywhere() -> None:
    async def test() -> None:
        script = Script()
        async with scripted(script) as client:
            calls = [
                asyncio.ensure_future(each)
                for each in (client.publish("a", qos=1), client.subscribe("a"), client.messages().__anext__())
            ]
            await until(lambda: script.of(mqtt.Subscribe))
            script.peers[0].close(0x8B)
            for call in calls:
                with pytest.raises(Refused) as caught:
                    await call
                assert caught.value.code == 0x8B
            with pytest.raises(Refused):
                await client.publish("a")
            assert not client.connected

    run(test())


def test_messages_end_when_the_client_is_closed() -> None:
    async def test() -> None:
        async with brokered() as (_, _, url):
            client = mqtt.connect(url)
            await client.open()
            with pytest.raises(RuntimeError):
                await client.open()
            reading = asyncio.create_task(take(client, 1))
            waiting = asyncio.create_task(client.publish("a", qos=1))
            await waiting
            await client.close()
            assert await reading == []
            with pytest.raises(ConnectionLost):
                await client.publish("a")
            await client.close()
            await client.open()  # and once more
            assert await client.publish("a", qos=1) == 0x10
            await client.close()

    run(test())


@pytest.mark.parametrize(("version", "code"), [(5, 0x87), (5, 0x88), (4, 5), (3, 3)])
def test_a_refused_connection(version: int, code: int) -> None:
    async def refusing(peer: mqtt.Peer) -> None:
        async for event in peer:
            if isinstance(event, mqtt.Connect):
                peer.refuse(event, code)

    async def test() -> None:
        async with await mqtt.serve(refusing, port=0) as server:
            client = mqtt.connect(f"mqtt://{HOST}:{server.port}", client_identifier="x", version=version)
            with pytest.raises(Refused) as caught:
                await client.open()
            assert caught.value.code == code

    run(test())


def test_no_server() -> None:
    async def test() -> None:
        async with brokered() as (_, _, url):
            pass
        with pytest.raises(ConnectionRefusedError):
            await mqtt.connect(url).open()
        silent = await asyncio.start_server(lambda r, w: None, HOST, 0)
        with pytest.raises(TimeoutError):
            await mqtt.connect(f"mqtt://{HOST}:{silent.sockets[0].getsockname()[1]}", timeout=0.05).open()
        silent.close()

    run(test())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_will_is_published_unless_the_client_is_closed(version: int) -> None:
    async def test() -> None:
        async with brokered() as (_, _, url), mqtt.connect(url) as watcher:
            await watcher.subscribe("will/#", qos=1)
            will = mqtt.Will("will/a", payload=b"gone", qos=1)
            async with mqtt.connect(url, client_identifier="a", version=version, will=will):
                pass
            client = mqtt.connect(
                url, client_identifier="b", version=version, will=mqtt.Will("will/b", payload=b"gone", qos=1)
            )
            await client.open()
            assert client._link is not None
            client._link.driver.abort()
            assert await take(watcher, 1) == [("will/b", b"gone", 1)]
            await client.close()
            if version == 5:
                client = mqtt.connect(url, client_identifier="c", will=mqtt.Will("will/c"))
                await client.open()
                await client.close(0x04)
                assert await take(watcher, 1) == [("will/c", b"", 0)]

    run(test())


# ---- reconnection


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_are_sent_again_in_order(version: int) -> None:
    async def test() -> None:
        script = Script()
        async with scripted(script, client_identifier="x", version=version, reconnect=AT_ONCE, keep_alive=0) as client:
            first = len(script.of(mqtt.Connect))
            tasks = [asyncio.create_task(client.publish("a", b"%d" % n, qos=1 + n % 2)) for n in range(6)]
            await until(lambda: len(script.of(mqtt.Publish)) == 6)
            script.act = answer
            script.peers[-1].abort()
            assert await asyncio.gather(*tasks) == [0] * 6
            again = script.of(mqtt.Publish)[6:]
            assert [(m.payload_bytes(), m.dup) for m in again] == [(b"%d" % n, True) for n in range(6)]
            assert len(script.of(mqtt.Connect)) == first + 1
            assert script.of(mqtt.Connect)[-1].clean_start is False
            assert client.lost == 0

    run(test())


def test_a_lost_session_is_made_again() -> None:
    """The server has forgotten everything: subscriptions are made again, QoS 1 is published again, QoS 2 fails."""

    async def test() -> None:
        script = Script(lambda peer, event: answer(peer, event) if isinstance(event, mqtt.Subscribe) else None)
        async with scripted(script, client_identifier="x", reconnect=AT_ONCE) as client:
            await client.subscribe("a", "b", qos=1)
            await client.subscribe("c", properties=[("subscription_identifier", 7)])
            await client.subscribe("d")
            script.act = answer
            await client.unsubscribe("d")
            script.act = None
            tasks = [asyncio.create_task(client.publish("a", b"%d" % n, qos=1 + n % 2)) for n in range(4)]
            await until(lambda: len(script.of(mqtt.Publish)) == 4)
            asked = len(script.of(mqtt.Subscribe))
            script.session, script.act = None, answer
            script.peers[-1].abort()
            got = await asyncio.gather(*tasks, return_exceptions=True)
            assert [got[0], got[2]] == [0, 0]
            assert isinstance(got[1], ConnectionLost) and isinstance(got[3], ConnectionLost)
            assert [(m.payload_bytes(), m.dup) for m in script.of(mqtt.Publish)[4:]] == [(b"0", False), (b"2", False)]
            again = {
                (s.topic_filter, s.qos, dict(m.properties).get("subscription_identifier"))
                for m in script.of(mqtt.Subscribe)[asked:]
                for s in m.subscriptions
            }
            assert again == {("a", 1, None), ("b", 1, None), ("c", 0, 7)}

    run(test())


def test_messages_not_handled_come_again_once() -> None:
    """QoS 2 across a break: what the program had in hand, and what waited for it, comes to it once."""

    async def test() -> None:
        script = Script(answer)
        async with scripted(script, client_identifier="x", reconnect=AT_ONCE) as client:
            for n in range(5):
                script.peers[0].publish("t", b"%d" % n, qos=2)
            messages = client.messages()
            got = [(await anext(messages)).payload_bytes()]
            script.peers[0].abort()
            await until(lambda: client.connections == 2 and len(script.peers) == 2)
            while len(got) < 5:
                got.append((await anext(messages)).payload_bytes())
            assert got == [b"%d" % n for n in range(5)]
            await until(lambda: len(script.of(Acknowledged)) == 4)

    run(test())


def test_requests_go_on_after_a_break_and_wait_while_there_is_no_server() -> None:
    async def test() -> None:
        script = Script()
        server = await mqtt.serve(script, port=0)
        port = server.port
        async with mqtt.connect(f"mqtt://{HOST}:{port}", reconnect=mqtt.Backoff(first=0.01, most=0.01)) as client:
            subscribing = asyncio.create_task(client.subscribe("a"))
            await until(lambda: script.of(mqtt.Subscribe))
            await server.close()
            await until(lambda: not client.connected)
            publishing = [asyncio.create_task(client.publish("a", qos=qos)) for qos in (0, 1)]
            await asyncio.sleep(0.05)
            script.act = answer
            async with await mqtt.serve(script, port=port):
                assert await subscribing == (0,)
                assert [await each for each in publishing] == [0, 0]
                client_closed = client.close()
                await client_closed

    run(test())


@pytest.mark.parametrize("code", [0x8E, 0x87])
def test_no_reconnection_after_a_final_code(code: int) -> None:
    async def test() -> None:
        script = Script(answer)
        async with scripted(script, reconnect=AT_ONCE) as client:
            script.peers[0].close(code)
            with pytest.raises(Refused) as caught:
                await take(client, 1)
            assert caught.value.code == code
            assert len(script.peers) == 1

    run(test())


def test_attempts_end() -> None:
    async def test() -> None:
        server = await mqtt.serve(Script(), port=0)
        async with mqtt.connect(
            f"mqtt://{HOST}:{server.port}", reconnect=mqtt.Backoff(first=0, most=0, attempts=3)
        ) as client:
            await server.close()
            with pytest.raises(ConnectionRefusedError):
                await take(client, 1)

    run(test())


def test_backoff_grows_and_jitters() -> None:
    backoff = mqtt.Backoff(first=1.0, factor=2.0, most=10.0, jitter=0.5)
    waits = [backoff.delay(n, random.Random(1)) for n in range(2000)]
    part = 1 - 0.5 * random.Random(1).random()
    assert waits[:5] == [wait * part for wait in (1, 2, 4, 8, 10)]
    assert max(waits) <= 10
    assert {backoff.delay(9, random.Random(seed)) for seed in range(9)} != {10.0}


def test_the_session_of_a_server_goes_on_without_one_here() -> None:
    async def test() -> None:
        async with brokered() as (broker, _, url):
            for version in (4, 5):
                name = f"v{version}"
                more: dict[str, Any] = {"client_identifier": name, "version": version, "session_expiry_interval": 600}
                async with mqtt.connect(url, **more) as client:
                    await client.subscribe("a", qos=1)
                broker.publish(Message("a", b"meanwhile", 1))
                async with mqtt.connect(url, clean_start=False, **more) as client:
                    assert await take(client, 1) == [("a", b"meanwhile", 1)]
                async with mqtt.connect(url, clean_start=True, **more) as client:
                    assert broker.subscribers[name].subscriptions == {}

    run(test())


# ---- enhanced authentication


class Countdown:
    """A method for tests: the server sends a number, the client the number before it, until there is none."""

    method = "countdown"

    def __init__(self) -> None:
        self.completed: list[bytes | None] = []

    async def respond(self, data: bytes | None) -> bytes | None:
        await asyncio.sleep(0)
        return b"start" if data is None else b"%d" % (int(bytes(data)) - 1)

    def complete(self, data: bytes | None) -> None:
        self.completed.append(None if data is None else bytes(data))


def countdown(peer: mqtt.Peer, event: mqtt.Connect | mqtt.Auth) -> None:
    said = bytes(dict(event.properties)["authentication_data"])
    if said == b"start":
        peer.continue_authentication(event, b"4")
    elif int(said) > 1:
        peer.continue_authentication(event, b"%d" % (int(said) - 1))
    else:
        peer.accept(event, authentication_data=b"bye")


async def with_countdown(peer: mqtt.Peer) -> None:
    async for event in peer:
        if isinstance(event, mqtt.Connect | mqtt.Auth):
            countdown(peer, event)
        elif isinstance(event, mqtt.Publish):
            answer(peer, event)


def test_enhanced_authentication() -> None:
    async def test() -> None:
        async with await mqtt.serve(with_countdown, port=0) as server:
            method = Countdown()
            async with mqtt.connect(
                f"mqtt://{HOST}:{server.port}", client_identifier="x", authenticator=method
            ) as client:
                assert method.completed == [b"bye"]
                await asyncio.gather(client.reauthenticate(), client.publish("a", qos=1))
                assert method.completed == [b"bye", b"bye"]

    run(test())


def test_a_full_inbox_does_not_hold_up_an_authentication() -> None:
    """AUTH is on the same stream as the messages."""
    peers: list[mqtt.Peer] = []

    async def handler(peer: mqtt.Peer) -> None:
        peers.append(peer)
        await with_countdown(peer)

    async def test() -> None:
        async with await mqtt.serve(handler, port=0) as server:
            method = Countdown()
            options = mqtt.ConnectionOptions(authentication_timeout=2.0)
            async with mqtt.connect(
                f"mqtt://{HOST}:{server.port}", client_identifier="x", authenticator=method, inbox=2, options=options
            ) as client:
                for _ in range(5):
                    peers[0].publish("t", b"x")
                await until(lambda: client._link is not None and client._link.driver.paused)
                await client.reauthenticate()
                assert method.completed == [b"bye", b"bye"]
                assert client._link is not None
                assert client._link.driver.paused
                assert len(await take(client, 5)) == 5

    run(test())


def test_an_authenticator_that_fails() -> None:
    class Failing(Countdown):
        async def respond(self, data: bytes | None) -> bytes | None:
            if data is not None:
                raise ZeroDivisionError
            return b"start"

    async def test() -> None:
        async with await mqtt.serve(with_countdown, port=0) as server:
            with pytest.raises(ConnectionLost) as caught:
                await mqtt.connect(
                    f"mqtt://{HOST}:{server.port}", client_identifier="x", authenticator=Failing()
                ).open()
            assert isinstance(caught.value.__cause__, ZeroDivisionError)

    run(test())


# ---- the server


def test_a_server_that_closes_says_so() -> None:
    async def test() -> None:
        async with await mqtt.serve(Script(), port=0) as server:
            client = mqtt.connect(f"mqtt://{HOST}:{server.port}")
            await client.open()
        with pytest.raises(Refused) as caught:
            await take(client, 1)
        assert caught.value.code == 0x8B
        await client.close()

    run(test())


def test_a_handler_that_returns_closes_the_connection() -> None:
    seen: list[Any] = []

    async def handler(peer: mqtt.Peer) -> None:
        async for event in peer:
            seen.append(event)
            match event:
                case mqtt.Connect():
                    assert peer.address[0] == HOST
                    peer.accept(event)
                case mqtt.Publish():
                    return

    async def test() -> None:
        async with await mqtt.serve(handler, port=0) as server:
            async with mqtt.connect(f"mqtt://{HOST}:{server.port}", client_identifier="x") as client:
                await client.publish("a")
                with pytest.raises(Refused):
                    await take(client, 1)
            await until(lambda: not server.tasks)

    run(test())


def test_the_last_event_ends_the_iteration() -> None:
    seen: list[Any] = []

    async def handler(peer: mqtt.Peer) -> None:
        async for event in peer:
            seen.append(event)
            if isinstance(event, mqtt.Connect):
                peer.accept(event)
        seen.append("over")

    async def test() -> None:
        async with await mqtt.serve(handler, port=0) as server:
            async with mqtt.connect(f"mqtt://{HOST}:{server.port}", client_identifier="x"):
                pass
            await until(lambda: seen[-1:] == ["over"])
            assert type(seen[-2]) is Disconnected

    run(test())


def test_a_handler_that_raises_drops_its_client_only() -> None:
    reported: list[Any] = []

    class Raising(Script):
        def handle(self, peer: mqtt.Peer, event: Any) -> None:
            super().handle(peer, event)
            if isinstance(event, mqtt.Publish) and event.topic_name == "raise":
                raise ZeroDivisionError

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
        async with await mqtt.serve(Raising(answer), port=0) as server:
            url = f"mqtt://{HOST}:{server.port}"
            async with mqtt.connect(url) as good, mqtt.connect(url) as bad:
                await bad.publish("raise")
                with pytest.raises(ConnectionLost):
                    await take(bad, 1)
                assert await good.publish("a", qos=1) == 0
        assert [type(error) for error in reported] == [ZeroDivisionError]

    run(test())


def test_more_clients_than_the_limit_are_turned_away() -> None:
    async def test() -> None:
        async with await mqtt.serve(Script(answer), port=0, most=2) as server:
            url = f"mqtt://{HOST}:{server.port}"
            async with mqtt.connect(url), mqtt.connect(url):
                with pytest.raises(ConnectionError):
                    await mqtt.connect(url).open()
                assert server.turned_away == 1
            await until(lambda: not server.drivers)
            async with mqtt.connect(url) as client:
                await client.publish("a", qos=1)

    run(test())


def test_events_of_a_slow_handler_stop_the_reading() -> None:
    """The events that wait for a coroutine are bounded, and all come in the end."""
    waiting: list[int] = []

    async def handler(peer: mqtt.Peer) -> None:
        async for event in peer:
            if isinstance(event, mqtt.Connect):
                peer.accept(event)
            elif isinstance(event, mqtt.Publish):
                waiting.append(len(peer._inbox))
                await asyncio.sleep(0)
                answer(peer, event)

    async def test() -> None:
        async with (
            await mqtt.serve(handler, port=0) as server,
            mqtt.connect(f"mqtt://{HOST}:{server.port}", client_identifier="x", keep_alive=0) as client,
        ):
            for n in range(9000):
                await client.publish("a", bytes(1000), qos=n == 8999)
            assert len(waiting) == 9000
            assert max(waiting) < 2000

    run(test())
