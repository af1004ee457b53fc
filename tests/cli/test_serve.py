"""`wirefmt serve` as a process: real clients, SIGTERM, what is on standard output and in the recording."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import queue
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, PATIENCE, certificate
from wirefmt import amqp091, amqp10, capture, mqtt, nsq, phpmq, rocketmq
from wirefmt.cli.app import run
from wirefmt.connection.sasl import Scram

COMMAND = [sys.executable, "-m", "wirefmt.cli", "serve"]


class Served:
    """A running `wirefmt serve`, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self.urls: dict[str, str] = {}

    def read(self, event: str) -> dict[str, Any]:
        """Lines until this event comes."""
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            assert line, (self.lines, self.process.stderr and self.process.stderr.read())
            self.lines.append(json.loads(line))
            if self.lines[-1]["event"] == event:
                return self.lines[-1]

    def port(self, name: str) -> int:
        return int(self.urls[name].rpartition(":")[2].partition("/")[0])

    def stop(self) -> None:
        """SIGTERM; it ends with 0, and its last line says so."""
        self.process.send_signal(signal.SIGTERM)
        self.read("stopped")
        assert self.process.wait(PATIENCE) == 0


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[Served]:
    """On free ports. All listeners are there."""
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            found = Served(process)
            wanted = sum(argument.startswith("--") and argument[2:] in NAMES for argument in arguments)
            wanted += sum(argument == "--amqp" for argument in arguments)  # it is two
            wanted += sum(argument == "--listen" for argument in arguments)
            for _ in range(wanted):
                line = found.read("listening")
                found.urls[line["listener"]] = line["url"]
            yield found
        finally:
            if process.poll() is None:
                process.kill()


NAMES = ("mqtt", "amqp", "nsq", "rocketmq", "phpmq")
ALL = tuple(part for name in NAMES for part in (f"--{name}", "0"))


def test_all_six_are_served_recorded_and_ended(tmp_path: Path) -> None:
    """Real clients are connected when SIGTERM comes. Each learns of it in its protocol's way, and the recording is whole."""
    paho = pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt (pip install paho-mqtt)")
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
    proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")
    utils = pytest.importorskip("proton.utils", reason="needs python-qpid-proton (pip install python-qpid-proton)")
    path = tmp_path / "session.pcapng"
    told: queue.Queue[Any] = queue.Queue()
    with served(*ALL, "--record", str(path)) as b:
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, "meter", protocol=5)
        client.on_disconnect = lambda c, u, flags, code, properties: told.put(code)
        client.connect(HOST, b.port("mqtt"))
        client.loop_start()
        client.publish("plant/one", "21.5", qos=1).wait_for_publish(PATIENCE)
        rabbit = pika.BlockingConnection(pika.ConnectionParameters(HOST, b.port("amqp")))
        channel = rabbit.channel()
        channel.queue_declare("orders")
        channel.basic_publish("", "orders", b"one order")
        qpid = utils.BlockingConnection(b.urls["amqp10"], timeout=PATIENCE, allowed_mechs="ANONYMOUS")
        receiver = qpid.create_receiver("/queues/orders", credit=1)
        assert receiver.receive(timeout=PATIENCE) is not None

        async def others() -> None:
            async with nsq.connect(b.urls["nsq"]) as one:
                await one.publish("orders", b"two")
            async with rocketmq.connect(f"{HOST}:{b.port('rocketmq')}") as one:
                await one.producer("group").send("Topic", b"three")
            async with phpmq.connect(b.urls["phpmq"]) as one:
                await one.publish("list", b"four")
            async with phpmq.connect(b.urls["phpmq"]) as one:
                await one.consume("list", 1)
                async for message in one.messages():
                    assert message.content == b"four"
                    break

        asyncio.run(others())
        b.process.send_signal(signal.SIGTERM)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            rabbit.sleep(PATIENCE)
        assert closed.value.reply_code == 320
        with pytest.raises(proton.ConnectionException) as ended:
            receiver.receive(timeout=PATIENCE)
        assert "amqp:connection:forced" in str(ended.value)
        assert told.get(timeout=PATIENCE).value == 0x8B  # server shutting down
        client.loop_stop()
        b.read("stopped")
        assert b.process.wait(PATIENCE) == 0
    clients = [line["listener"] for line in b.lines if line["event"] == "connected"]
    assert {"mqtt", "amqp", "amqp10", "nsq", "rocketmq", "phpmq"} == set(clients)
    assert len([line for line in b.lines if line["event"] == "disconnected"]) == len(clients)
    import pyarrow as pa

    with capture.read(path, strictness="strict", decode_as=f"tcp.port=={b.port('phpmq')},phpmq") as reader:
        rows = pa.table(reader).to_pylist()
    assert [row for row in rows if row["status"] != "ok"] == []
    kinds = {(row["protocol"], row["kind"]) for row in rows}
    assert {
        ("mqtt", "DISCONNECT"), ("amqp091", "connection.close"), ("amqp10", "close"), ("nsq", "PUB"),
    } <= kinds  # fmt: skip
    assert {"mqtt", "amqp091", "amqp10", "nsq", "rocketmq", "phpmq"} == {protocol for protocol, _ in kinds}
    assert sum(row["wire_size"] or 0 for row in rows if row["protocol"] == "mqtt") == next(
        line["received_bytes"] + line["sent_bytes"] for line in b.lines
        if line["event"] == "disconnected" and line["listener"] == "mqtt"
    )  # fmt: skip


def test_users_tls_and_websocket(tmp_path: Path) -> None:
    """PLAIN, SCRAM, the NSQ secret, RocketMQ's ACL; MQTT over TLS and WebSocket."""
    if OPENSSL is None:
        pytest.skip("needs openssl (apt-get install openssl)")
    _, context = certificate(tmp_path)
    arguments = [*ALL, "--user", "alice:secret", "--listen", "mqtt+wss=0", "--listen", "amqp10+tls=0"]
    arguments += ["--tls-cert", str(tmp_path / "certificate.pem"), "--tls-key", str(tmp_path / "key.pem")]

    async def main(b: Served) -> None:
        with pytest.raises(Exception, match=r"0x86|bad user name|135|134"):
            async with mqtt.connect(b.urls["mqtt+wss"], ssl=context, user_name="alice", password=b"wrong"):
                pass
        async with mqtt.connect(b.urls["mqtt+wss"], ssl=context, user_name="alice", password=b"secret") as client:
            await client.publish("t", b"", qos=1)
        with pytest.raises(Exception, match="ACCESS_REFUSED"):
            async with amqp091.connect(b.urls["amqp"]):
                pass
        async with amqp091.connect(b.urls["amqp"].replace("//", "//alice:secret@")) as rabbit:
            await rabbit.channel()
        scram = Scram("alice", "secret", "abcdefgh")
        async with amqp10.connect(b.urls["amqp10+tls"], ssl=context, sasl=scram) as ten:
            await ten.sender("/queues/q")
        async with nsq.connect(b.urls["nsq"], secret="secret") as one:
            await one.publish("orders", b"x")

    with served(*arguments) as b:
        asyncio.run(main(b))
        b.stop()


def test_a_config_file_with_limits_and_faults(tmp_path: Path) -> None:
    """A queue of two messages refuses the third; the fault takes the first acknowledgement. The command line comes first."""
    config = tmp_path / "broker.toml"
    config.write_text(
        'host = "127.0.0.1"\n[ports]\nmqtt = 1\nnsq = 0\n[limits]\nclients = 1\nmessages = 2\n[mqtt]\noverflow = "refuse"\n'
        '[[fault]]\nprotocol = "mqtt"\nlose_acknowledgements = 1\n'
    )

    async def main(b: Served) -> None:
        async with nsq.connect(b.urls["nsq"]) as client:
            await client.publish("orders", b"0")
            await client.publish("orders", b"1")
            with pytest.raises(Exception, match="E_PUB_FAILED"):
                await client.publish("orders", b"2")
        async with mqtt.connect(b.urls["mqtt"]) as client:
            lost = asyncio.ensure_future(client.publish("t", b"0", qos=1))
            await asyncio.sleep(0)  # it is the first
            await client.publish("t", b"1", qos=1)
            assert not lost.done()
            with socket.create_connection((HOST, b.port("mqtt"))) as second:  # one client at a time
                assert await asyncio.to_thread(second.recv, 1) == b""
            lost.cancel()

    with served("--config", str(config), "--mqtt", "0") as b:
        line = b.read("listening")
        b.urls[line["listener"]] = line["url"]
        asyncio.run(main(b))
        b.stop()


def test_a_terminal_has_a_live_table() -> None:
    """Clients, queues and rates; no log lines."""
    with socket.create_server((HOST, 0)) as probe:
        port = probe.getsockname()[1]
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen(
        [*COMMAND, "--mqtt", str(port)], stdout=follower, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        seen = b""

        def read_until(*words: bytes) -> None:
            nonlocal seen
            end = time.monotonic() + PATIENCE
            while not all(word in seen for word in words):
                assert time.monotonic() < end, seen
                if select.select([leader], [], [], 0.1)[0]:
                    seen += os.read(leader, 4096)

        try:
            read_until(b"published/s", str(port).encode())

            async def main() -> None:
                async with mqtt.connect(f"mqtt://{HOST}:{port}", client_identifier="meter-7") as client:
                    await client.publish("t", b"", qos=1)
                    await asyncio.to_thread(read_until, b"meter-7", b"consumers")

            asyncio.run(main())
            process.send_signal(signal.SIGTERM)
            while True:  # or it waits for a reader
                try:
                    if not os.read(leader, 4096):
                        break
                except OSError:  # Linux says the end so
                    break
            assert process.wait(PATIENCE) == 0
            assert b'"event"' not in seen
        finally:
            os.close(leader)
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--listen", "mqtt"], "NAME=PORT"),
        (["--listen", "mqt=1"], "unknown listener 'mqt'"),
        (["--listen", "mqtt+tls=0"], "tls"),
        (["--user", "alice"], "NAME:PASSWORD"),
        (["--fault", "mqtt:cut=1"], "unknown fault 'cut'"),
    ],
)
def test_wrong_usage(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", *arguments]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hots = 1", "unknown setting 'hots'"),
        ("[mqtt]\noverflw = 1", "unknown option 'overflw' in mqtt"),
        ("x = [", "broker.toml"),
    ],
)
def test_a_wrong_config(tmp_path: Path, text: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broker.toml").write_text(text)
    assert run(["serve", "--config", str(tmp_path / "broker.toml")]) == 2
    assert why in capsys.readouterr().err


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((HOST, 0)) as taken:
        assert run(["serve", "--mqtt", str(taken.getsockname()[1])]) == 1
    assert "address already in use" in capsys.readouterr().err
