"""The drivers of docs/sans-io.md run, against the broker in memory and against servers that make them wait or go away."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lib.loopback import HOST, run
from lib.pages import examples
from lib.skips import imported
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker
from wirefmt.connection import Disconnected

PAGE = "sans-io.md"
BLOCKS = examples(PAGE)
DRIVERS = {"blocking": BLOCKS[0], "trio": BLOCKS[1]}


def test_there_are_two_drivers_and_an_example_without() -> None:
    assert len(BLOCKS) == 3
    assert "import socket\n" in DRIVERS["blocking"]
    assert "import trio\n" in DRIVERS["trio"]


def test_the_example_without_a_transport_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[2], PAGE, "exec"), {})
    assert "MQTT-3.3.1-4" in capsys.readouterr().out  # QoS 3


@pytest.fixture(params=list(DRIVERS))
def driver(request: pytest.FixtureRequest) -> str:
    if request.param == "trio":
        imported("trio")
    return DRIVERS[request.param]


async def play(driver: str, port: int) -> tuple[int | None, list[str], str]:
    """Run the program: its exit status, the lines it has printed, its errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", driver, HOST, str(port), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, out.decode().splitlines(), errors.decode()


def check_whole(status: int | None, lines: list[str], errors: str) -> None:
    """The conversation came to its end. Message and acknowledgement may come in either order."""
    assert (status, errors) == (0, "")
    assert (lines[0], lines[-1]) == ("granted (1,)", "over: closed by the host")
    assert sorted(lines[1:-1]) == ["acknowledged with code 0", "received plant/line-1 b'21.5'"]


def test_a_driver_and_the_broker(driver: str) -> None:
    ends: list[Disconnected] = []

    class Noting(Broker):
        def handle(self, peer: mqtt.Peer, event: Any) -> None:
            if isinstance(event, Disconnected):
                ends.append(event)
            super().handle(peer, event)

    async def test() -> None:
        broker = Noting()
        async with await mqtt.serve(broker, HOST, 0) as server:
            check_whole(*await play(driver, server.port))
        broker.close()
        assert [(end.by, end.code, end.error) for end in ends] == [("peer", 0, None)]  # DISCONNECT came

    run(test())


def test_a_driver_keeps_its_timers(driver: str) -> None:
    """The server answers SUBSCRIBE once PINGREQ has arrived, which only a timer of the client sends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = mqtt.ServerConnection(0.0)
        held: list[mqtt.Subscribe] = []
        while data := await reader.read(1 << 16):
            events = connection.receive(data, 0.0) if connection.state is not mqtt.State.CLOSED else []
            for event in events:
                match event:
                    case mqtt.Connect():
                        connection.accept(event, properties=[("server_keep_alive", 1)])
                    case mqtt.Subscribe():
                        held.append(event)
                    case mqtt.Publish():
                        connection.acknowledge(event)
                        connection.publish(event.topic_name, event.payload, qos=1)
            if data == mqtt.Pingreq().encode() and held:
                connection.grant(held.pop(), [1])
            writer.write(connection.data_to_send())
        writer.close()
        await writer.wait_closed()

    async def test() -> None:
        server = await asyncio.start_server(serve, HOST, 0)
        async with server:
            check_whole(*await play(driver, server.sockets[0].getsockname()[1]))

    run(test())


@pytest.mark.parametrize("leave", [lambda peer: peer.close(0x8B), lambda peer: peer.abort()], ids=["0x8B", "reset"])
def test_a_driver_whose_server_goes_away(driver: str, leave: Callable[[mqtt.Peer], None]) -> None:
    async def handler(peer: mqtt.Peer) -> None:
        async for event in peer:
            match event:
                case mqtt.Connect():
                    peer.accept(event)
                case mqtt.Subscribe():
                    leave(peer)

    async def test() -> None:
        async with await mqtt.serve(handler, HOST, 0) as server:
            status, lines, errors = await play(driver, server.port)
        if driver is DRIVERS["trio"]:
            assert status and "ConnectionLost" in errors
        else:
            assert (status, errors, len(lines)) == (0, "", 1)
            assert lines[0].startswith("over: the s")

    run(test())


def test_trio_reads_only_while_there_is_room() -> None:
    """Messages of 3.1.1 whose bytes together exceed what a connection keeps while the host decides."""
    trio = imported("trio")
    names: dict[str, Any] = {}
    exec(compile(DRIVERS["trio"].rpartition("trio.run(")[0], PAGE, "exec"), names)
    count, payload = 100, bytes(10_000)

    async def serve(stream: Any) -> None:
        connection = mqtt.ServerConnection(0.0)
        handles: set[object] = set()
        async with stream:
            while data := await stream.receive_some():
                events = connection.receive(data, 0.0) if connection.state is not mqtt.State.CLOSED else []
                for event in events:
                    if isinstance(event, mqtt.Connect):
                        connection.accept(event)
                        handles.update(connection.publish("a", payload, qos=1) for _ in range(count))
                await stream.send_all(connection.data_to_send())
        assert len(handles) == count

    async def main() -> None:
        ours, theirs = (trio.SocketStream(end) for end in trio.socket.socketpair())
        with trio.fail_after(60):
            async with ours, trio.open_nursery() as nursery:
                nursery.start_soon(serve, theirs)
                client = names["Client"](ours)
                options = mqtt.ConnectionOptions(undecided=1, unread_bytes=1 << 17)
                client.connection = mqtt.ClientConnection(trio.current_time(), options=options)
                nursery.start_soon(client.run)
                await client.connect(mqtt.Connect(client_identifier="x", keep_alive=30, version=4))
                for _ in range(count):
                    message = await client.messages.receive()
                    assert message.payload_bytes() == payload
                    await trio.sleep(0)
                    await client.acknowledge(message)
                await client.close()

    trio.run(main)
