"""`wirefmt serve` as a process: real clients, SIGTERM, what is on standard output and in the recording."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import queue
import re
import select
import shlex
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, LOOP, OPENSSL, PATIENCE, certificate
from lib.paths import ROOT
from lib.ports import free_port
from lib.skips import imported
from wirefmt import amqp091, amqp10, capture, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.broker.faults import FAULTS, Fault, Script, Step
from wirefmt.cli.app import run
from wirefmt.cli.watch import Counted, Watch
from wirefmt.connection.sasl import Scram
from wirefmt.errors import ConnectionLost, Refused

#: On the event loop that the tests run on.
COMMAND = [sys.executable, "-m", "wirefmt.cli", "serve", *(["--loop", LOOP] if LOOP else [])]


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
            async with rocketmq.connect(b.urls["rocketmq"]) as one:
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
        text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"  # as RabbitMQ
        assert closed.value.reply_text == text
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
        pytest.skip("needs openssl (apt install openssl)")
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
        with pytest.raises(Refused, match="E_AUTH_FAILED"):
            await nsq.connect(b.urls["nsq"], secret="wrong").open()
        with pytest.raises(Refused, match="AUTH"):
            async with nsq.connect(b.urls["nsq"]) as one:
                await one.publish("orders", b"x")
        address = b.urls["rocketmq"]
        async with rocketmq.connect(address.replace("//", "//alice:secret@")) as rocket:
            await rocket.producer("group").send("Topic", b"x")
        for credentials in (None, rocketmq.Credentials("alice", "wrong"), rocketmq.Credentials("bob", "secret")):
            async with rocketmq.connect(address, credentials=credentials) as rocket:
                with pytest.raises(Refused) as refused:
                    await rocket.producer("group").send("Topic", b"x")
                assert refused.value.code == 16  # NO_PERMISSION

    with served(*arguments) as b:
        asyncio.run(main(b))
        b.stop()


def test_the_proxy_protocol(tmp_path: Path) -> None:
    """The log has the client's address, and says why a connection is refused."""
    header = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 1883\r\n"
    config = tmp_path / "serve.toml"
    config.write_text('proxy_protocol = ["mqtt"]\n')
    ports = ["--mqtt", "0", "--phpmq", "0"]
    for arguments, proxied in (([*ports, "--proxy-protocol"], True), ([*ports, "--config", str(config)], False)):
        with served(*arguments) as b:
            with socket.create_connection((HOST, b.port("mqtt")), timeout=PATIENCE) as client:
                client.sendall(header)
                assert b.read("connected")["client"] == "192.0.2.7:56324"
            assert "error" not in b.read("disconnected")
            with socket.create_connection((HOST, b.port("phpmq")), timeout=PATIENCE) as client:
                client.sendall(b"x" if proxied else header)
                assert client.recv(1) == b""
                reason = "no PROXY header" if proxied else "this listener does not take them (proxy_protocol)"
                assert reason in b.read("disconnected")["error"]
            b.stop()


def test_the_secret_of_nsq_as_ansq_sends_it() -> None:
    ansq = pytest.importorskip("ansq", reason="needs ansq (pip install ansq)")

    async def main(b: Served) -> None:
        options = ansq.ConnectionOptions(auto_reconnect=False)
        client = await ansq.open_connection(HOST, b.port("nsq"), connection_options=options)
        assert client.is_auth_required
        assert "permission_count" in str(await client.auth("secret"))
        client._is_authorized = True  # ansq 0.3.0 never sets it
        assert (await client.pub("orders", "x")).body == b"OK"
        await client.close()
        client = await ansq.open_connection(HOST, b.port("nsq"), connection_options=options)
        assert "E_AUTH_FAILED" in repr(await client.auth("wrong"))
        await client.close()

    with served("--nsq", "0", "--user", "alice:secret") as b:
        asyncio.run(main(b))
        b.stop()


#: Run in a network namespace of its own: loopback comes up, and each usual port takes a connection.
ON_USUAL_PORTS = """
import fcntl, json, signal, socket, struct, subprocess, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: IFF_UP, IFF_RUNNING
with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True) as process:
    urls = {}
    while len(urls) < 7:
        line = json.loads(process.stdout.readline())
        assert line["event"] == "listening", line
        urls[line["listener"]] = line["url"]
    for url in urls.values():
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))).close()
    print(json.dumps(urls))
    process.send_signal(signal.SIGTERM)
    process.stdout.read()
    sys.exit(process.wait())
"""

USUAL = {
    "mqtt": "mqtt://127.0.0.1:1883", "amqp": "amqp://127.0.0.1:5672", "amqp10": "amqp://127.0.0.1:5672",
    "nsq": "nsq://127.0.0.1:4150", "nsqlookupd": "http://127.0.0.1:4161", "rocketmq": "rocketmq://127.0.0.1:9876",
    "phpmq": "phpmq://127.0.0.1:9100",
}  # fmt: skip


def test_the_usual_ports() -> None:
    """1883 (MQTT) and 5672 (AMQP) are registered; 4150 and 4161 are nsqd's and nsqlookupd's, 9876 the name server's."""
    namespace = ["unshare", "-rn"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs unshare -rn (apt install util-linux, and user namespaces)")
    found = subprocess.run(
        [*namespace, sys.executable, "-c", ON_USUAL_PORTS, *COMMAND], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == USUAL


#: WebSocket's closing frame with code 1000 (RFC 6455, 5.5.1 and 7.4.1); the client answers by closing.
CLOSE = bytes.fromhex("880203e8")


def test_clients_of_every_protocol_see_the_end(tmp_path: Path) -> None:
    """SIGTERM while a client of each protocol is connected and idle: a closing message if there is one, then the end of the
    stream. The recording is whole, and each connection in it has its end."""
    path = tmp_path / "session.pcapng"
    hello = {
        "mqtt": mqtt.Connect(client_identifier="c", version=4).encode(),
        "mqtt+ws": b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
        "nsq": b"  V2" + nsq.Publish(topic="orders", body=b"x").encode(),
        "rocketmq": rocketmq.RemotingCommand(code=105, opaque=1, ext_fields={"topic": "TBW102"}).encode(),
        "phpmq": phpmq.MessageClientToServer(queue_name="list", content=b"x", ttl=0).encode(),
    }
    with served(*ALL, "--listen", "mqtt+ws=0", "--record", str(path)) as b, contextlib.ExitStack() as stack:
        clients = {}
        for name, data in hello.items():
            clients[name] = stack.enter_context(socket.create_connection((HOST, b.port(name)), PATIENCE))
            clients[name].sendall(data)
            if name != "phpmq":  # a publisher gets no answer
                assert clients[name].recv(1)
        b.process.send_signal(signal.SIGTERM)
        ends = {}
        for name, client in clients.items():
            ends[name] = b""
            while not ends[name].endswith(CLOSE) and (data := client.recv(65536)):  # no reset
                ends[name] += data
            client.close()
        b.read("stopped")
        assert b.process.wait(PATIENCE) == 0
    assert ends["mqtt"] == bytes.fromhex("020000")  # the rest of CONNACK: 3.1.1 has no DISCONNECT for servers (3.14)
    assert ends["mqtt+ws"].endswith(b"\r\n\r\n" + CLOSE)
    assert ends["nsq"] == bytes.fromhex("000006 00000000") + b"OK"
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
    gone = [line for line in b.lines if line["event"] == "disconnected"]
    assert len(gone) == len(hello)
    assert not any("error" in line for line in gone)
    with capture.read(path, strictness="strict", decode_as=f"tcp.port=={b.port('phpmq')},phpmq") as reader:
        rows = pa.table(reader).to_pylist()
    assert {row["protocol"] for row in rows if row["status"] == "ok"} == {"mqtt", "nsq", "rocketmq", "phpmq"}
    assert [row for row in rows if row["status"] != "ok"] == []
    data = path.read_bytes()
    assert data.endswith(struct.pack("<I", int.from_bytes(data[-4:], "little")))  # the last block is whole
    assert data.count(b"\x50\x11\xff\xff") >= 2 * len(
        hello
    )  # header of 20 bytes, FIN and ACK: both sides of each connection


# ---- --fault


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Script]:
    """The scripts with which `serve` would run."""
    found: list[Script] = []

    async def caught(options: Any, record: str | None, script: Script) -> int:
        found.append(script)
        return 0

    monkeypatch.setattr("wirefmt.cli.serve._serve", caught)
    return found


VALUES = {"refuse": "true", "delay": "0.25", "reorder": "2", "full": "disk"}


@pytest.mark.parametrize("protocol", ["", "mqtt:", "*:"])
@pytest.mark.parametrize("name", [kind.name for kind in FAULTS])
def test_every_fault_on_the_command_line(plans: list[Script], name: str, protocol: str) -> None:
    value = VALUES.get(name, "3")
    assert run(["serve", "--fault", f"{protocol}{name}={value}"]) == 0
    number: Any = {"true": True, "0.25": 0.25, "disk": "disk"}.get(value) or int(value)
    wanted = Fault(protocol=protocol.rstrip(":") or "*", **{name: number})
    assert plans == [Script(None, (Step(0.0, None, wanted, None),))]


def test_the_examples_of_the_page(plans: list[Script], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands and the script of docs/broker-faults.md."""
    page = (ROOT / "docs" / "broker-faults.md").read_text()
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "script.toml").write_text(toml)
    monkeypatch.chdir(tmp_path)
    (commands,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for line in commands.splitlines():
        assert run(shlex.split(line)[1:]) == 0
    first, second = (Fault(protocol="mqtt", cut_after=10), Fault(protocol="amqp", delay=0.2, lose_acknowledgements=1))
    assert plans == [
        Script(None, (Step(0.0, None, first, None), Step(0.0, None, second, None))),
        Script(7, (Step(10, 2.5, Fault(protocol="mqtt", stall_after=0), None), Step(20, None, None, "with state"))),
    ]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("", "unknown fault ''; there are cut_after, cut_after_bytes"),
        ("mqtt:", "unknown fault ''; there are"),
        ("mqtt", "unknown fault 'mqtt'; there are"),
        ("mqtt:cut=1", "unknown fault 'cut'; did you mean corrupt or cut_after?"),
        ("mqqt:refuse", "unknown protocol 'mqqt'; did you mean mqtt"),
        ("cut_after", "cut_after must be an integer, not True"),
        ("cut_after=", "cut_after must be an integer, not ''"),
        ("cut_after=1.5", "cut_after must be an integer, not 1.5"),
        ("cut_after=ten", "cut_after must be an integer, not 'ten'"),
        ("cut_after_bytes=-1", "cut_after_bytes must be at least 0 and finite, not -1"),
        ("delay=nan", "delay must be at least 0 and finite, not nan"),
        ("delay=inf", "delay must be at least 0 and finite, not inf"),
        ("delay=2 s", "delay must be a number, not '2 s'"),
        ("reorder=1", "reorder must be at least 2 and finite, not 1"),
        ("corrupt=0", "corrupt must be at least 1 and finite, not 0"),
        ("duplicate=0", "duplicate must be at least 1 and finite, not 0"),
        ("lose_acknowledgements=0", "lose_acknowledgements must be at least 1 and finite, not 0"),
        ("refuse=no", "refuse must be true, not 'no'"),
        ("full=cpu", 'full must be "memory" or "disk", not \'cpu\''),
        ("mqtt:delay=1,delay=2", "'delay' is given twice"),
        ("mqtt:protocol=nsq", "'protocol' is given twice"),
    ],
)
def test_errors_of_faults(plans: list[Script], fault: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--fault", fault]) == 2
    text = " ".join(capsys.readouterr().err.split())
    assert f"wirefmt serve: {why}" in text
    assert text.endswith("(see wirefmt serve --help)")
    assert plans == []


# ---- log lines


def test_each_event_is_a_line_of_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The fields are those of docs/cli.md. Text with line ends and bytes that are not text stay in their line."""
    monkeypatch.setattr("wirefmt.cli.watch.REPORT", 0.01)
    page = (ROOT / "docs" / "cli.md").read_text()

    async def main() -> None:
        watch = Watch()
        stop = asyncio.Event()
        async with Broker(ports={"mqtt": 0}, tap=watch.tap) as b:
            running = asyncio.ensure_future(watch.run(b, stop))
            async with mqtt.connect(b.url("mqtt")) as client:
                await client.publish("t", b"", qos=1)
                while "rates" not in (seen := capsys.readouterr().out):
                    written.append(seen)
                    await asyncio.sleep(0.01)
                written.append(seen)
            with contextlib.suppress(ConnectionLost):
                async with mqtt.connect(b.url("mqtt")):
                    transport = next(iter(b.servers["mqtt"].drivers)).transport
                    assert isinstance(transport, Counted)
                    transport.lost(OSError("one\ntwo \udcff"))
            stop.set()
            await running
        watch.say("stopping", clients=0)
        watch.say("stopped")

    written: list[str] = []
    asyncio.run(main())
    written.append(capsys.readouterr().out)
    lines = [json.loads(line) for line in "".join(written).splitlines()]
    assert {line["event"] for line in lines} == {
        "listening", "connected", "disconnected", "rates", "stopping", "stopped",
    }  # fmt: skip
    assert "one\ntwo \udcff" in [line.get("error") for line in lines]
    for line in lines:
        assert datetime.fromisoformat(line.pop("time")).utcoffset() == timedelta(0)
        (documented,) = [
            row for row in page.splitlines() if row.startswith("| `") and f"`{line['event']}`" in row.split("|")[1]
        ]
        assert set(line) - {"event"} <= set(re.findall(r"`(\w+)`", documented)), line


def test_a_config_file_with_limits_and_faults(tmp_path: Path) -> None:
    """A queue of two messages refuses the third; the fault takes the first acknowledgement. The command line comes first."""
    config = tmp_path / "broker.toml"
    config.write_text(
        'host = "127.0.0.1"\n[ports]\nmqtt = 1\nnsq = 0\n[limits]\nclients = 1\nmessages = 2\n[mqtt]\noverflow = "refuse"\n'
        "[nsq]\nclient_share = 1\n"
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


def test_clients_need_a_certificate(tmp_path: Path) -> None:
    if OPENSSL is None:
        pytest.skip("needs openssl (apt install openssl)")
    _, without = certificate(tmp_path)
    chain, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    known = ssl.create_default_context(cafile=str(chain))
    known.load_cert_chain(chain, key)
    (tmp_path / "other").mkdir()
    certificate(tmp_path / "other")
    unknown = ssl.create_default_context(cafile=str(chain))
    unknown.load_cert_chain(tmp_path / "other" / "certificate.pem", tmp_path / "other" / "key.pem")
    arguments = [
        "--listen",
        "mqtt+tls=0",
        "--tls-cert",
        str(chain),
        "--tls-key",
        str(key),
        "--tls-client-ca",
        str(chain),
    ]

    async def main(b: Served) -> None:
        async with mqtt.connect(b.urls["mqtt+tls"], ssl=known) as client:
            await client.publish("t", b"", qos=1)
        for context in (without, unknown):
            with pytest.raises((ConnectionLost, OSError)):
                async with mqtt.connect(b.urls["mqtt+tls"], ssl=context) as client:
                    await client.publish("t", b"", qos=1)

    with served(*arguments) as b:
        asyncio.run(main(b))
        b.stop()


@pytest.mark.parametrize(("version", "code"), [(4, 0x80), (5, 0x87)])
def test_a_filter_that_is_denied(tmp_path: Path, version: int, code: int) -> None:
    """The example of docs/broker.md, and paho's client as the one that sees the refusal."""
    paho = pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt (pip install paho-mqtt)")
    page = (ROOT / "docs" / "broker.md").read_text()
    config = tmp_path / "broker.toml"
    config.write_text(re.search(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1])  # type: ignore[index]
    told: queue.Queue[Any] = queue.Queue()
    with served("--config", str(config), "--mqtt", "0") as b:
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, "meter", protocol=version)
        client.on_connect = lambda c, u, flags, code, properties: told.put(code.value)
        client.on_subscribe = lambda c, u, mid, codes, properties: told.put([code.value for code in codes])
        client.connect(HOST, b.port("mqtt"))
        client.loop_start()
        assert told.get(timeout=PATIENCE) == 0
        client.subscribe([("test/nosubscribe", 2), ("test/+", 2), ("#", 1)])
        assert told.get(timeout=PATIENCE) == [code, 2, 1]
        client.disconnect()
        client.loop_stop()
        b.stop()


@pytest.mark.parametrize("how", ["file", "option"])
def test_origins(tmp_path: Path, how: str) -> None:
    """A web page may connect if it is named. paho sends the address of the server, as a page does not."""
    paho = pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt (pip install paho-mqtt)")
    config = tmp_path / "broker.toml"
    config.write_text('origins = ["https://panel.example"]\n' if how == "file" else "")
    more = ("--config", str(config)) if how == "file" else ("--origin", "https://panel.example")
    with served("--listen", "mqtt+ws=0", "--listen", "amqp10+ws=0", *more) as b:
        for listener, subprotocol in (("mqtt+ws", "mqtt"), ("amqp10+ws", "amqp")):
            for origin, code in (("https://panel.example", b"101"), ("https://other.example", b"403"), (None, b"101")):
                with socket.create_connection((HOST, b.port(listener)), PATIENCE) as page:
                    asked = (
                        "GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
                        f"Sec-WebSocket-Protocol: {subprotocol}\r\n"
                    )
                    page.sendall((asked + (f"Origin: {origin}\r\n" if origin else "") + "\r\n").encode())
                    assert page.recv(100)[:12] == b"HTTP/1.1 " + code
        told: queue.Queue[Any] = queue.Queue()
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, "meter", transport="websockets")
        client.on_connect = lambda c, u, flags, code, properties: told.put(code.value)
        client.connect(HOST, b.port("mqtt+ws"))
        client.loop_start()
        assert told.get(timeout=PATIENCE) == 0
        client.disconnect()
        client.loop_stop()
        b.stop()


def test_a_terminal_has_a_live_table() -> None:
    """Clients, queues and rates; no log lines."""
    port = free_port()
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
        (["--loop", "trio"], "'trio' is not one of 'asyncio', 'uvloop'"),
    ],
)
def test_wrong_usage(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", *arguments]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hots = 1", "unknown setting 'hots'"),
        ("loop = 1", "loop must be asyncio or uvloop, not 1"),
        ("users = 1", "users must be a table, not 1"),
        ("[users]\nann = 1", "the password of 'ann' must be a string"),
        ("[ports]\nmqtt = true", "the port of mqtt must be an integer from 0 to 65535, not True"),
        ("[tls]\nkey = 'key.pem'", "tls needs a certificate"),
        ("[tls]\ncertificate = 'a'\nkye = 'b'", "unknown option 'kye' in tls; did you mean key"),
        ("[mqtt]\nqueue_messages = 'x'", "mqtt.queue_messages must be of type int, not 'x'"),
        ("[mqtt]\noverflow = 'x'", "mqtt.overflow must be 'drop_oldest' or 'refuse' or 'disconnect', not 'x'"),
        ("[mqtt]\nauthorise = 'x'", "unknown option 'authorise' in mqtt"),
        ("[amqp]\nvirtual_hosts = '/'", "amqp.virtual_hosts must be a list of strings, not '/'"),
        ("[permissions.ann]\nmqtt = {}", "permissions for 'ann' need users"),
        ("[users]\nbob = ''\n[permissions.ann]\nmqtt = {}", "permissions for an unknown user 'ann'"),
        ("[users]\nann = ''\n[permissions.ann]\nmqt = {}", "unknown protocol 'mqt' in permissions"),
        ("[limits]\nmesages = 1", "unknown option 'mesages' in limits; did you mean messages"),
        ("[mqtt]\noverflw = 1", "unknown option 'overflw' in mqtt"),
        ("origins = 'x'", "origins must be a list of strings, not 'x'"),
        ("origins = 1", "origins must be a list of strings, not 1"),
        ("x = [", "broker.toml"),
    ],
)
def test_a_wrong_config(tmp_path: Path, text: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broker.toml").write_text(text)
    assert run(["serve", "--config", str(tmp_path / "broker.toml")]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("config", [True, False])
def test_the_event_loop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    config: bool,
    installed: bool,
) -> None:
    uvloop = imported("uvloop")
    found: list[Any] = []

    async def caught(options: Any, record: str | None, script: Script) -> int:
        found.append(asyncio.get_running_loop())
        return 0

    monkeypatch.setattr("wirefmt.cli.serve._serve", caught)
    if not installed:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    (tmp_path / "broker.toml").write_text("loop = 'uvloop'")
    code = run(["serve", *(["--config", str(tmp_path / "broker.toml")] if config else ["--loop", "uvloop"])])
    if installed:
        assert code == 0
        assert isinstance(found[0], uvloop.Loop)
        assert run(["serve", "--loop", "asyncio"]) == 0
        if LOOP is None:
            assert not isinstance(found[1], uvloop.Loop)
    else:
        assert code == 2
        assert "--loop uvloop needs uvloop: pip install 'wirefmt[uvloop]'" in " ".join(capsys.readouterr().err.split())


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((HOST, 0)) as taken:
        assert run(["serve", "--mqtt", str(taken.getsockname()[1])]) == 1
    assert "address already in use" in capsys.readouterr().err
