"""Real peers on loopback: a name server and a broker of RocketMQ with the Java client, in both header forms, recorded
while they talk; and our own frames, which the real broker answers.

Needs a JDK, dumpcap that may record, and the artifacts of tests/live/rocketmq/pom.xml in the folder that the variable
WIREFMT_ROCKETMQ names.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lib.paths import ROOT
from wirefmt import rocketmq

pytestmark = pytest.mark.live

HOST = "127.0.0.1"
PATIENCE = 120.0  # seconds for something that must come: three Java programs on a small machine
JARS = os.environ.get("WIREFMT_ROCKETMQ", "")
SOURCES = ROOT / "tests" / "live" / "rocketmq"
OPEN = ["--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED"]


class Servers(NamedTuple):
    names: int
    broker: int
    classes: str


def free_port() -> int:
    """Two ports are taken below it: the broker's second one is two less."""
    while True:
        with socket.create_server((HOST, 0)) as probe:
            port: int = probe.getsockname()[1]
        try:
            with socket.create_server((HOST, port - 2)):
                return port
        except OSError:
            continue


def start(classes: str, folder: Path, *args: str) -> subprocess.Popen[bytes]:
    """Server.java; it ends when its standard input does."""
    folder.mkdir()
    log = folder / "log"
    command = ["java", "-Xmx300m", "-XX:MaxDirectMemorySize=256m", *OPEN, "-cp", classes, "Server", str(folder), *args]
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out)
    end = time.monotonic() + PATIENCE
    while b"\nready" not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > end:
            stop(process)
            raise RuntimeError(f"no server: {log.read_bytes()[-2000:]!r}")
        time.sleep(0.1)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program} (apt install openjdk-17-jdk-headless)")
    if not list(Path(JARS or "/nowhere").glob("rocketmq-broker-*.jar")):
        pytest.skip("needs RocketMQ (WIREFMT_ROCKETMQ, see tests/README.md)")
    folder = tmp_path_factory.mktemp("rocketmq")
    classes = os.pathsep.join((f"{JARS}/*", str(folder)))
    sources = [str(SOURCES / name) for name in ("Server.java", "Talk.java")]
    subprocess.run(["javac", "-nowarn", "-cp", classes, "-d", str(folder), *sources], check=True, capture_output=True)
    names, broker = free_port(), free_port()
    running = []
    try:
        running.append(start(classes, folder / "names", str(names)))
        running.append(start(classes, folder / "broker", str(names), str(broker)))
        yield Servers(names, broker, classes)
    finally:
        for process in reversed(running):
            stop(process)


def ask(port: int, *commands: rocketmq.RemotingCommand) -> list[rocketmq.RemotingCommand]:
    decoder = rocketmq.Decoder()
    answers: list[rocketmq.RemotingCommand] = []
    with socket.create_connection((HOST, port), timeout=PATIENCE) as connection:
        connection.sendall(b"".join(c.encode() for c in commands))
        while len(answers) < len(commands):
            data = connection.recv(65536)
            assert data, "the server closed the connection"
            answers += decoder.feed(data)
    return sorted(answers, key=lambda c: c.opaque or 0)


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_servers_take_our_frames(servers: Servers, form: Any) -> None:
    """Key-values at the name server, a message to the broker and back: requests of ours in both header forms."""
    put, get, unknown = ask(
        servers.names,
        rocketmq.RemotingCommand(
            code=100, opaque=1, serialize_type=form,
            header=rocketmq.PutKVConfigRequestHeader(namespace="n", key="k", value="blü \x01\n\"\\"),
        ),
        rocketmq.RemotingCommand(code=21_000, opaque=3, serialize_type=form),
        rocketmq.RemotingCommand(code=21_001, opaque=4, serialize_type=form),
    )  # fmt: skip
    assert (put.code, get.code, unknown.code) == (0, 3, 3)
    assert get.remark == " request type 21000 not supported"
    (got,) = ask(
        servers.names,
        rocketmq.RemotingCommand(
            code=101, opaque=2, serialize_type=form, header=rocketmq.GetKVConfigRequestHeader(namespace="n", key="k")
        ),
    )
    assert got.decode_header(request=101).value == 'blü \x01\n"\\'

    topic = f"Ours_{form}"
    sent = rocketmq.SendMessageRequestHeaderV2(
        a="P", b=topic, c="TBW102", d=4, e=0, f=0, g=1700000000000, h=7,
        i=rocketmq.encode_properties({"UNIQ_KEY": "U", "TAGS": "Tag", "colour": "blü", "WAIT": "true"}), m=False,
    )  # fmt: skip
    (answer,) = ask(
        servers.broker,
        rocketmq.RemotingCommand(code=310, opaque=9, header=sent, body=b"hello", serialize_type=form, language="JAVA"),
    )
    assert (answer.code, answer.remark) == (0, None)
    reply = answer.decode_header(request=310)
    address, port, offset = rocketmq.decode_message_id(reply.msg_id)
    assert (address, port) == (HOST, servers.broker)
    (viewed,) = ask(
        servers.broker,
        rocketmq.RemotingCommand(
            code=33, opaque=5, serialize_type=form, header=rocketmq.ViewMessageRequestHeader(topic=topic, offset=offset)
        ),
    )
    (message,) = viewed.decode_body(request=33, check_crc=True)
    assert (message.topic, message.body, message.flag, message.queue_offset) == (topic, b"hello", 7, reply.queue_offset)
    assert message.properties.items() >= {"TAGS": "Tag", "colour": "blü"}.items()
    assert (message.offset_msg_id, message.physical_offset) == (reply.msg_id, offset)
    fields = {name: getattr(message, name) for name in message.__match_args__}
    assert rocketmq.MessageExt(**fields).encode() == message.encode()


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_a_real_client(servers: Servers, form: str, tmp_path: Path) -> None:
    """All that a real client and real servers say is read, and adds up."""
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
    from wirefmt.capture import read

    dumpcap = shutil.which("dumpcap")
    if dumpcap is None:
        pytest.skip("needs dumpcap (apt install wireshark-common)")
    path = tmp_path / "capture.pcapng"
    ports = f"tcp port {servers.names} or tcp port {servers.broker} or tcp port {servers.broker - 2}"
    recorder = subprocess.Popen(
        [dumpcap, "-q", "-i", "lo", "-f", ports, "-w", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 10
        while not path.exists() or not path.stat().st_size:
            if recorder.poll() is not None or time.monotonic() > end:
                pytest.skip("needs a dumpcap that may record (dpkg-reconfigure wireshark-common)")
            time.sleep(0.1)
        talk = subprocess.run(
            ["java", "-Xmx128m", f"-Duser.home={tmp_path}", f"-Drocketmq.serialize.type={form}", "-cp", servers.classes,
             "Talk", f"{HOST}:{servers.names}", f"{HOST}:{servers.broker}", form.lower()],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        time.sleep(1)
    finally:
        recorder.terminate()
        recorder.wait()
    steps = [line for line in talk.stdout.splitlines() if line.startswith(("ok ", "no ", "done"))]
    assert steps[-1] == "done", talk.stdout[-2000:]
    with read(path, decode_as=[f"tcp.port=={port},rocketmq" for port in (servers.names, servers.broker)]) as reader:
        rows = [row for batch in reader for row in pa.table(batch).to_pylist()]
    assert {(row["status"], row["error"]) for row in rows} == {("ok", None)}
    kinds = {row["kind"] for row in rows}
    assert len(kinds) >= 35, steps
    sent = {r["message_id"]: r["payload"] for r in rows if r["kind"] == "SEND_MESSAGE_V2" and r["direction"] == 0}
    given = {r["message_id"]: r["payload"] for r in rows if r["kind"] == "PULL_MESSAGE" and r["code"] == 0}
    assert len(sent.keys() & given.keys()) >= 8
    assert all(given[i] == sent[i] for i in sent.keys() & given.keys())
