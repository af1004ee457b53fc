"""`mqtt.connect` against mosquitto and RabbitMQ's MQTT plugin: every version and QoS, retained, wills, sessions, TLS."""

from __future__ import annotations

import asyncio
import getpass
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lib import rabbitmq as node
from lib.loopback import HOST, OPENSSL, certificate, run
from lib.mosquitto import MOSQUITTO, start_broker, stop
from wirefmt import mqtt

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if MOSQUITTO is None:
        pytest.skip("needs mosquitto (apt install mosquitto)")
    process, port = start_broker(tmp_path_factory.mktemp("mosquitto"))
    yield f"mqtt://{HOST}:{port}"
    stop(process)


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """Of the server that the test is for."""
    if request.param == "mosquitto":
        return str(request.getfixturevalue("mosquitto"))
    broker = request.getfixturevalue("rabbitmq")
    assert isinstance(broker, node.Broker)
    return f"mqtt://{node.USER}:{node.PASSWORD}@{HOST}:{broker.mqtt_port}"


#: RabbitMQ before 4 has no 5.0, and no version has QoS 2: it delivers with QoS 1.
SERVERS = [("mosquitto", 3), ("mosquitto", 4), ("mosquitto", 5), ("rabbitmq", 3), ("rabbitmq", 4)]
each_server = pytest.mark.parametrize(("url", "version"), SERVERS, indirect=["url"])


def highest(url: str) -> int:
    return 1 if "@" in url else 2


async def take(client: mqtt.Client, count: int) -> list[mqtt.Publish]:
    found: list[mqtt.Publish] = []
    async for message in client.messages():
        found.append(message)
        if len(found) == count:
            break
    return found


@each_server
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_publish_and_subscribe(url: str, version: int, qos: int) -> None:
    async def test() -> None:
        most = min(qos, highest(url))
        async with mqtt.connect(url, client_identifier=f"pub-{version}-{qos}", version=version) as client:
            assert await client.subscribe(f"live/{version}/{qos}/+", qos=qos) == (most,)
            payloads = [b"", b"\x00\xff", bytes(100_000), *(b"%d" % n for n in range(50))]
            for payload in payloads:
                # RabbitMQ answers QoS 2 with PUBACK
                assert await client.publish(f"live/{version}/{qos}/é", payload, qos=most) == 0
            got = await take(client, len(payloads))
            assert [(m.topic_name, m.payload_bytes(), m.qos) for m in got] == [
                (f"live/{version}/{qos}/é", payload, most) for payload in payloads
            ]
            assert await client.unsubscribe(f"live/{version}/{qos}/+") == ((0,) if version == 5 else ())

    run(test())


@each_server
def test_retained_and_wills(url: str, version: int) -> None:
    async def test() -> None:
        topic = f"kept/{version}"
        will = mqtt.Will(topic, payload=b"gone", qos=1, retain=True)
        async with mqtt.connect(url, client_identifier=f"watch-{version}", version=version) as watcher:
            client = mqtt.connect(url, client_identifier=f"will-{version}", version=version, will=will)
            await client.open()
            await client.publish(topic, b"kept", qos=1, retain=True)
            await watcher.subscribe(topic, qos=1)
            (message,) = await take(watcher, 1)
            assert (message.payload_bytes(), message.retain) == (b"kept", True)
            assert client._link is not None
            client._link.driver.abort()
            (message,) = await take(watcher, 1)
            assert (message.payload_bytes(), message.retain) == (b"gone", False)
            await client.close()
            await watcher.publish(topic, b"", qos=1, retain=True)

    run(test())


def test_requests_with_replies(mosquitto: str) -> None:
    async def test() -> None:
        async with (
            mqtt.connect(mosquitto, client_identifier="meter") as meter,
            mqtt.connect(mosquitto, client_identifier="asker") as client,
        ):
            await meter.subscribe("ask/+", qos=2)

            async def answer() -> None:
                async for request in meter.messages():
                    asked = dict(request.properties)
                    repeated = [("correlation_data", asked["correlation_data"])]
                    payload = request.payload_bytes()[::-1]
                    await meter.publish(asked["response_topic"], payload, qos=request.qos, properties=repeated)

            answering = asyncio.create_task(answer())
            for qos in (0, 1, 2):
                asked = [client.request("ask/it", b"%03d" % n, qos=qos, timeout=30) for n in range(40)]
                got = await asyncio.gather(*asked)
                assert [reply.payload_bytes() for reply in got] == [(b"%03d" % n)[::-1] for n in range(40)]
            with pytest.raises(TimeoutError):
                await client.request("nobody", timeout=0.05)
            answering.cancel()
            await asyncio.wait([answering])

    run(test())


def test_topic_aliases_if_they_are_asked_for(mosquitto: str) -> None:
    """mosquitto allows 10."""

    async def test() -> None:
        for most in (None, 20):
            options = mqtt.ConnectionOptions(topic_aliases=most, topic_alias_maximum=most or 0)
            async with mqtt.connect(mosquitto, options=options) as client:
                assert client.negotiated is not None
                assert client.negotiated.topic_alias_maximum == 10
                await client.subscribe("alias/#", qos=1)
                for n in range(60):
                    await client.publish(f"alias/{n % 15}", b"%d" % n, qos=n % 2)
                got = {(m.topic_name, m.payload_bytes()) for m in await take(client, 60)}
                assert got == {(f"alias/{n % 15}", b"%d" % n) for n in range(60)}
                await client.unsubscribe("alias/#")

    run(test())


@each_server
def test_a_session_goes_on(url: str, version: int) -> None:
    async def test() -> None:
        more: dict[str, Any] = {
            "client_identifier": f"session-{version}",
            "version": version,
            "session_expiry_interval": 600,
        }
        topic = f"session/{version}"
        client = mqtt.connect(url, **more)
        await client.open()
        await client.subscribe(topic, qos=1)
        await client.close()
        async with mqtt.connect(url, client_identifier=f"other-{version}", version=version) as other:
            for n in range(20):
                await other.publish(topic, b"%d" % n, qos=1)
        async with mqtt.connect(url, session=client.session, **more) as again:
            assert [m.payload_bytes() for m in await take(again, 20)] == [b"%d" % n for n in range(20)]
        async with mqtt.connect(url, clean_start=True, client_identifier=f"session-{version}", version=version):
            pass

    run(test())


@each_server
def test_reconnection(url: str, version: int) -> None:
    """The transport breaks in the middle of traffic, several times: nothing is lost, and what was published is in order."""

    async def test() -> None:
        topic, most = f"again/{version}", highest(url)
        count = 300
        async with (
            mqtt.connect(url, client_identifier=f"watcher-{version}", version=version) as watcher,
            mqtt.connect(
                url,
                client_identifier=f"again-{version}",
                version=version,
                reconnect=mqtt.Backoff(first=0.01, most=0.01),
            ) as client,
        ):
            await watcher.subscribe(topic, qos=2)

            async def breaking() -> None:
                for _ in range(5):
                    await asyncio.sleep(0.02)
                    while client._link is None:
                        await asyncio.sleep(0.005)
                    client._link.driver.abort()

            breaks = asyncio.create_task(breaking())
            publishing = [asyncio.create_task(client.publish(topic, b"%d" % n, qos=most)) for n in range(count)]
            got: list[int] = []
            async for message in watcher.messages():
                got.append(int(message.payload_bytes()))
                if len(set(got)) == count:
                    break
            assert await asyncio.gather(*publishing) == [0] * count
            await breaks
            assert list(dict.fromkeys(got)) == list(range(count))
            if most == 2:
                assert len(got) == count
            assert client.lost == 0
            await client.publish(topic, b"over", qos=1)

    run(test())


def test_tls_of_mosquitto(tmp_path: Path) -> None:
    if MOSQUITTO is None:
        pytest.skip("needs mosquitto (apt install mosquitto)")
    if OPENSSL is None:
        pytest.skip("needs openssl (apt install openssl)")
    _, context = certificate(tmp_path)
    (tmp_path / "key.pem").chmod(0o644)
    process, port = start_broker(
        tmp_path,
        f"certfile {tmp_path}/certificate.pem\nkeyfile {tmp_path}/key.pem\n"
        f"user {getpass.getuser()}\n",  # else it gives up root, and cannot read the folder
    )
    try:
        run(there_and_back(f"mqtts://localhost:{port}", 5, context))
    finally:
        stop(process)


@pytest.mark.parametrize("version", [3, 4])
def test_web_socket_of_rabbitmq(rabbitmq: node.Broker, version: int) -> None:
    run(there_and_back(f"ws://{node.USER}:{node.PASSWORD}@{HOST}:{rabbitmq.web_port}/ws", version, None))


async def there_and_back(url: str, version: int, context: ssl.SSLContext | None) -> None:
    async with mqtt.connect(url, client_identifier="x", version=version, ssl=context) as client:
        await client.subscribe("a", qos=1)
        payload = bytes(200_000)
        for _ in range(3):
            await client.publish("a", payload, qos=1)
        assert [m.payload_bytes() for m in await take(client, 3)] == [payload] * 3
