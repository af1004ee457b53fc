"""permessage-deflate beside Node's `ws`, which MQTT.js uses: both as server and as client, and what was said, in a recording."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, run
from wirefmt import capture, mqtt
from wirefmt.broker import Broker
from wirefmt.broker.recording import Recorder
from wirefmt.connection.deflate import Deflate

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

pytestmark = pytest.mark.live

#: Subscribes, publishes messages of many sizes, and prints what arrived, and what was agreed on.
CLIENT = """
const [url, count, options] = [process.argv[2], +process.argv[3], JSON.parse(process.argv[4])];
const { WebSocket } = require('ws');
let socket;
const client = require('mqtt').connect(url, { reconnectPeriod: 0, createWebsocket: (url, protocols) => {
  socket = new WebSocket(url, protocols, { perMessageDeflate: options });
  return socket;
} });
let got = [];
client.on('connect', () => client.subscribe('t/#', { qos: 1 }, () => {
  for (let i = 0; i < count; i++) client.publish(`t/${i}`, 'value '.repeat(i * 7), { qos: 1 });
}));
client.on('message', (topic, payload) => {
  got.push([topic, payload.length]);
  if (got.length === count) {
    console.log(JSON.stringify({ got, extensions: socket.extensions }));
    client.end();
  }
});
client.on('error', error => { console.error(error); process.exit(1); });
"""

#: A WebSocket server that passes on bytes to a port; prints its own, and what was agreed on.
SERVER = """
const { WebSocketServer, createWebSocketStream } = require('ws');
const net = require('net');
const options = JSON.parse(process.argv[3]);
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: options, handleProtocols: () => 'mqtt' });
server.on('listening', () => console.log(server.address().port));
server.on('connection', socket => {
  console.log(socket.extensions);
  const stream = createWebSocketStream(socket), broker = net.connect(+process.argv[2], '127.0.0.1');
  stream.pipe(broker).pipe(stream);
  stream.on('error', () => broker.destroy());
});
"""


@cache
def has_node() -> bool:
    node = shutil.which("node")
    return (
        node is not None
        and subprocess.run([node, "-e", "require('mqtt'); require('ws')"], capture_output=True).returncode == 0
    )


@pytest.fixture(autouse=True)
def node() -> None:
    if not has_node():
        pytest.skip("needs MQTT.js (npm install --prefix DIR mqtt; export NODE_PATH=DIR/node_modules)")


async def started(script: str, *arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        "node", "-e", script, "-", *arguments, stdout=pipe, stderr=pipe, env=os.environ
    )


OPTIONS: list[dict[str, Any]] = [
    {"threshold": 0},
    {"threshold": 100, "clientNoContextTakeover": True, "serverNoContextTakeover": True},
    {"threshold": 0, "clientMaxWindowBits": 10, "serverMaxWindowBits": 9},
]
OURS = [Deflate(smallest=0), Deflate(True, True), Deflate(client_max_window_bits=11, server_max_window_bits=12)]


@pytest.mark.parametrize("theirs", OPTIONS)
@pytest.mark.parametrize("ours", OURS)
def test_mqtt_js_and_our_broker(ours: Deflate, theirs: dict[str, Any], tmp_path: Path) -> None:
    record = tmp_path / "session.pcapng"

    async def test() -> None:
        recorder = Recorder(str(record))
        async with Broker(
            ports={"mqtt+ws": 0}, deflate=ours, tap=lambda name, driver: recorder.tap(80)(driver)
        ) as broker:
            process = await started(CLIENT, broker.url("mqtt+ws"), "40", json.dumps(theirs))
            out, error = await process.communicate()
            assert process.returncode == 0, error.decode()
            said = json.loads(out)
            assert said["got"] == [[f"t/{i}", 6 * i * 7] for i in range(40)]
            assert "permessage-deflate" in said["extensions"]
        recorder.close()

    run(test())
    reader = capture.read(record)
    found = pa.table(reader).to_pylist()
    assert {r["status"] for r in found} == {"ok"}
    for direction in (0, 1):
        sent = [r for r in found if r["kind"] == "PUBLISH" and r["direction"] == direction]
        assert [(r["destination"], r["payload"]) for r in sent] == [(f"t/{i}", b"value " * (i * 7)) for i in range(40)]
    assert reader.stats["websocket_flows"] == 1


@pytest.mark.parametrize("theirs", OPTIONS)
@pytest.mark.parametrize("ours", OURS)
def test_our_client_and_a_server_of_ws(ours: Deflate, theirs: dict[str, Any]) -> None:
    async def test() -> None:
        async with Broker(ports={"mqtt": 0}) as broker:
            process = await started(SERVER, str(broker.ports["mqtt"]), json.dumps(theirs))
            assert process.stdout is not None
            port = int(await process.stdout.readline())
            async with mqtt.connect(f"ws://{HOST}:{port}/mqtt", deflate=ours) as client:
                assert b"permessage-deflate" in await process.stdout.readline()
                await client.subscribe("t/#", qos=1)
                for i in range(40):
                    await client.publish(f"t/{i}", b"value " * (i * 7), qos=1)
                got = []
                async for message in client.messages():
                    got.append((message.topic_name, bytes(message.payload)))
                    if len(got) == 40:
                        break
                assert got == [(f"t/{i}", b"value " * (i * 7)) for i in range(40)]
            process.terminate()
            await process.communicate()

    run(test())
