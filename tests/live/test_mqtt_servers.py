"""The broker in memory and `mqtt.serve` against other clients: mosquitto_pub and mosquitto_sub, paho-mqtt, aiomqtt, gmqtt,
MQTT.js. Every version and QoS, retained messages, wills, sessions."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run, until
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker

pytestmark = pytest.mark.live

VERSIONS = {3: "mqttv31", 4: "mqttv311", 5: "mqttv5"}
PUB, SUB = shutil.which("mosquitto_pub"), shutil.which("mosquitto_sub")
needs_mosquitto_clients = pytest.mark.skipif(
    PUB is None or SUB is None, reason="needs mosquitto_pub (apt install mosquitto-clients)"
)


@contextlib.asynccontextmanager
async def brokered(**more: Any) -> AsyncIterator[tuple[Broker, int]]:
    broker = Broker()
    async with await mqtt.serve(broker, HOST, 0, **more) as server:
        yield broker, server.port
    broker.close()


async def call(*command: str | None, wait: bool = True) -> Any:
    """The output of a command; with wait=False the process."""
    process = await asyncio.create_subprocess_exec(
        *(word for word in command if word is not None),
        stdin=subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    if not wait:
        return process
    try:
        said, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, said.decode(errors="replace")
    return said


# ---- mosquitto's clients


def subscriber(port: int, version: int, *more: str) -> tuple[str | None, ...]:
    return (SUB, "-h", HOST, "-p", str(port), "-V", VERSIONS[version], "-W", "30", "-F", "%t %q %r %p", *more)


def publisher(port: int, version: int, *more: str) -> tuple[str | None, ...]:
    return (PUB, "-h", HOST, "-p", str(port), "-V", VERSIONS[version], *more)


@needs_mosquitto_clients
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mosquitto_pub_and_sub(version: int, qos: int) -> None:
    async def test() -> None:
        async with brokered() as (broker, port):
            reading = await call(*subscriber(port, version, "-i", "s", "-t", "a/+", "-q", "2", "-C", "3"), wait=False)
            await until(lambda: "s" in broker.subscribers and broker.subscribers["s"].subscriptions)
            for n in range(3):
                await call(*publisher(port, version, "-t", f"a/{n}", "-m", f"m{n}", "-q", str(qos), "-i", f"p{n}"))
            said, _ = await reading.communicate()
            assert said.decode().splitlines() == [f"a/{n} {qos} 0 m{n}" for n in range(3)]

    run(test())


@needs_mosquitto_clients
@pytest.mark.parametrize("version", [4, 5])
def test_mosquitto_pub_without_an_identifier(version: int) -> None:
    """Its default in 5.0. In 3.1.1 it makes one up itself, unless an option says otherwise."""
    seen: list[tuple[str, bytes]] = []

    async def handler(peer: mqtt.Peer) -> None:
        async for event in peer:
            match event:
                case mqtt.Connect():
                    peer.accept(event)
                case mqtt.Publish():
                    seen.append((event.topic_name, event.payload_bytes()))
                    peer.acknowledge(event)

    async def test() -> None:
        async with await mqtt.serve(handler, HOST, 0) as server:
            await call(*publisher(server.port, version, "-t", "a", "-m", "x", "-q", "2"))
        assert seen == [("a", b"x")]

    run(test())


@needs_mosquitto_clients
def test_mosquitto_rr_asks_and_our_client_answers() -> None:
    async def test() -> None:
        async with brokered() as (_, port), mqtt.connect(f"mqtt://{HOST}:{port}") as client:
            await client.subscribe("ask", qos=1)
            command = ["-h", HOST, "-p", str(port), "-V", "mqttv5", "-t", "ask", "-e", "answer", "-m", "q", "-W", "30"]
            asking = asyncio.create_task(call(shutil.which("mosquitto_rr"), *command))
            request = await anext(client.messages())
            asked = dict(request.properties)
            repeated = [(name, value) for name, value in asked.items() if name == "correlation_data"]
            await client.publish(asked["response_topic"], b"a", qos=1, properties=repeated)
            assert (await asking).strip() == b"a"

    run(test())


@needs_mosquitto_clients
@pytest.mark.parametrize("version", VERSIONS)
def test_mosquitto_retained_wills_and_sessions(version: int) -> None:
    async def test() -> None:
        async with brokered() as (broker, port):
            await call(*publisher(port, version, "-t", "r", "-m", "kept", "-q", "1", "-r", "-i", "p"))
            said = await call(*subscriber(port, version, "-i", "s", "-t", "r", "-C", "1"))
            assert said.decode().split() == ["r", "0", "1", "kept"]
            # a session that is left behind, and gone on with
            keep = ("-i", "session", "-c", "-t", "q", "-q", "2", *(("-x", "600") if version == 5 else ()))
            await call(*subscriber(port, version, *keep, "-E"))
            for n in range(3):
                await call(*publisher(port, version, "-t", "q", "-m", str(n), "-q", str(n), "-i", "p"))
            said = await call(*subscriber(port, version, *keep, "-C", "2"))
            assert said.decode().splitlines() == ["q 1 0 1", "q 2 0 2"]
            # a client that is killed has its will published
            dying = await call(
                *subscriber(port, version, "-i", "d", "-t", "x", "--will-topic", "w", "--will-payload", "gone"),
                wait=False,
            )
            await until(lambda: "d" in broker.subscribers and broker.subscribers["d"].subscriptions)
            watching = await call(*subscriber(port, version, "-i", "w", "-t", "w", "-C", "1"), wait=False)
            await until(lambda: "w" in broker.subscribers and broker.subscribers["w"].subscriptions)
            dying.kill()
            await dying.wait()
            said, _ = await watching.communicate()
            assert said.decode().split() == ["w", "0", "0", "gone"]

    run(test())


@needs_mosquitto_clients
def test_mosquitto_over_tls(tmp_path: Path) -> None:
    if OPENSSL is None:
        pytest.skip("needs openssl (apt install openssl)")

    async def test() -> None:
        context, _ = certificate(tmp_path)
        trust = ("--cafile", str(tmp_path / "certificate.pem"))
        async with brokered(ssl=context) as (broker, port):
            reading = await call(*subscriber(port, 5, "-i", "s", "-t", "a", "-C", "1", *trust), wait=False)
            await until(lambda: "s" in broker.subscribers and broker.subscribers["s"].subscriptions)
            await call(*publisher(port, 5, "-t", "a", "-m", "x" * 100_000, "-q", "1", *trust))
            said, _ = await reading.communicate()
            assert len(said) > 100_000

    run(test())


@needs_mosquitto_clients
def test_many_messages_of_mosquitto_pub() -> None:
    async def test() -> None:
        async with brokered() as (broker, port):
            reading = await call(*subscriber(port, 5, "-i", "s", "-t", "a", "-q", "2", "-C", "2000"), wait=False)
            await until(lambda: "s" in broker.subscribers and broker.subscribers["s"].subscriptions)
            for n in range(2):
                assert PUB is not None
                process = await asyncio.create_subprocess_exec(
                    PUB, "-h", HOST, "-p", str(port), "-t", "a", "-q", str(n + 1), "-l", stdin=asyncio.subprocess.PIPE
                )
                await process.communicate(b"".join(b"%d\n" % k for k in range(1000)))
            said, _ = await reading.communicate()
            assert [int(line.split()[3]) for line in said.splitlines()] == [*range(1000), *range(1000)]

    run(test())


# ---- paho


@pytest.mark.skipif(importlib.util.find_spec("paho") is None, reason="needs paho-mqtt (pip install paho-mqtt)")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transport", ["tcp", "websockets"])
def test_paho(version: int, transport: Any) -> None:
    from paho.mqtt import client as paho
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

    def use(port: int) -> list[tuple[str, bytes, int, bool]]:
        got: list[tuple[str, bytes, int, bool]] = []
        ready, done = threading.Event(), threading.Event()
        client = paho.Client(
            CallbackAPIVersion.VERSION2, "paho", protocol=MQTTProtocolVersion(version), transport=transport
        )
        client.on_subscribe = lambda *_: ready.set()

        def on_message(client: Any, data: Any, message: Any) -> None:
            got.append((message.topic, message.payload, message.qos, message.retain))
            if len(got) == 7:
                done.set()

        client.on_message = on_message
        client.will_set("w", b"gone", 1)
        client.connect(HOST, port)
        client.loop_start()
        client.publish("r", b"kept", 1, retain=True).wait_for_publish(20)
        client.subscribe("#", 2)
        assert ready.wait(20)
        for k in range(2):
            for qos in range(3):
                client.publish(f"p/{k}", b"x" * (1 + k * 50_000), qos).wait_for_publish(20)
        assert done.wait(20)
        client.disconnect()
        client.loop_stop()
        return got

    async def test() -> None:
        async with brokered(websocket=transport == "websockets") as (_, port):
            got = await asyncio.to_thread(use, port)
            assert got[0] == ("r", b"kept", 1, True)
            assert got[1:] == [(f"p/{k}", b"x" * (1 + k * 50_000), qos, False) for k in range(2) for qos in range(3)]
        await asyncio.get_running_loop().shutdown_default_executor()

    run(test())


# ---- clients on asyncio


@pytest.mark.skipif(importlib.util.find_spec("aiomqtt") is None, reason="needs aiomqtt (pip install aiomqtt)")
@pytest.mark.parametrize("version", [4, 5])
def test_aiomqtt(version: int) -> None:
    async def test() -> None:
        import aiomqtt

        async with brokered() as (_, port):
            more: dict[str, Any] = {"protocol": aiomqtt.ProtocolVersion(version), "identifier": "x"}
            async with aiomqtt.Client(HOST, port, **more) as client:
                await client.subscribe("a/#", qos=2)
                for qos in range(3):
                    await client.publish(f"a/{qos}", b"x" * 10 ** (2 * qos), qos=qos)
                got = []
                async for message in client.messages:
                    got.append((str(message.topic), message.payload, message.qos))
                    if len(got) == 3:
                        break
                assert got == [(f"a/{qos}", b"x" * 10 ** (2 * qos), qos) for qos in range(3)]

    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.skipif(importlib.util.find_spec("gmqtt") is None, reason="needs gmqtt (pip install gmqtt)")
@pytest.mark.parametrize("version", [4, 5])
def test_gmqtt(version: int) -> None:
    async def test() -> None:
        import gmqtt

        got: list[Any] = []
        subscribed = asyncio.Event()

        def on_message(client: Any, topic: str, payload: bytes, qos: int, properties: Any) -> int:
            got.append((topic, payload, qos))
            return 0

        async with brokered() as (_, port):
            client = gmqtt.Client("gmqtt", clean_session=True)
            client.on_message = on_message
            client.on_subscribe = lambda *_: subscribed.set()
            await client.connect(HOST, port, version=version)
            client.subscribe("a/#", qos=2)
            await subscribed.wait()
            for qos in range(3):
                client.publish(f"a/{qos}", b"x" * 1000, qos=qos)
            await until(lambda: len(got) == 3)
            await client.disconnect()
            assert sorted(got) == [(f"a/{qos}", b"x" * 1000, qos) for qos in range(3)]

    asyncio.run(asyncio.wait_for(test(), 60))


# ---- MQTT.js

SCRIPT = """
const mqtt = require('mqtt');
const [url, version] = [process.argv[2], Number(process.argv[3])];
const options = {protocolVersion: version, protocolId: version === 3 ? 'MQIsdp' : 'MQTT', clientId: 'js'};
const client = mqtt.connect(url, options);
const got = [];
client.on('error', error => { console.error(error); process.exit(1); });
client.on('message', (topic, payload, packet) => {
  got.push([topic, payload.toString(), packet.qos, packet.retain]);
  if (got.length === 4) { console.log(JSON.stringify(got)); client.end(); }
});
client.on('connect', async () => {
  await client.publishAsync('r', 'kept', {qos: 1, retain: true});
  await client.subscribeAsync('#', {qos: 2});
  for (const qos of [0, 1, 2]) await client.publishAsync('q/' + qos, 'x'.repeat(1000), {qos});
});
"""


def mqtt_js() -> bool:
    found = shutil.which("node")
    return found is not None and not subprocess.run([found, "-e", "require('mqtt')"], capture_output=True).returncode


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("scheme", ["mqtt", "ws"])
def test_mqtt_js(version: int, scheme: str, tmp_path: Path) -> None:
    if not mqtt_js():
        pytest.skip("needs MQTT.js (npm install --prefix DIR mqtt; export NODE_PATH=DIR/node_modules)")
    script = tmp_path / "client.js"
    script.write_text(SCRIPT)

    async def test() -> None:
        async with brokered(websocket=scheme == "ws") as (_, port):
            said = await call("node", str(script), f"{scheme}://{HOST}:{port}", str(version))
            assert json.loads(said) == [["r", "kept", 1, True], *([f"q/{n}", "x" * 1000, n, False] for n in range(3))]

    run(test())
