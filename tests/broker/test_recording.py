"""Recordings of a broker: read back by captures and by tshark."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run, until
from wirefmt import capture, mqtt, nsq
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker import nsq as nsq_broker
from wirefmt.broker.recording import KEPT, Address, Recorder, checksum
from wirefmt.nsq.events import ConnectionOptions

TSHARK = shutil.which("tshark")
LEFT, RIGHT = Address(socket.inet_aton("192.0.2.1"), 40000), Address(socket.inet_aton("192.0.2.2"), 1883)


def rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    found = all_rows(path, **options)
    assert [row for row in found if row["status"] != "ok"] == []
    return found


def all_rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    with capture.read(path, strictness="strict", **options) as reader:
        return list(pa.table(reader).to_pylist())


def tshark(path: Path, *fields: str) -> list[tuple[str, ...]]:
    """Fields of each packet, with all checksums verified."""
    assert TSHARK is not None
    names = [part for field in fields for part in ("-e", field)]
    checks = ["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]
    command = [TSHARK, "-n", "-r", str(path), *checks, "-T", "fields", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "middle of a packet" not in done.stderr
    assert "appears to" not in done.stderr
    return [tuple(line.split("\t")) for line in done.stdout.split("\n")[:-1]]


async def converse(url: str, *, payload: bytes = b"21.5", **options: Any) -> None:
    async with mqtt.connect(url, client_identifier="meter-7", **options) as client:
        await client.subscribe("plant/+", qos=1)
        await client.publish("plant/one", payload, qos=1)
        await anext(aiter(client.messages()))


EXPECTED = ["CONNECT", "CONNACK", "SUBSCRIBE", "SUBACK", "PUBLISH", "PUBLISH", "PUBACK", "PUBACK", "DISCONNECT"]


@contextlib.contextmanager
def recorded(folder: Path) -> Any:
    path = folder / "session.pcapng"
    recorder = Recorder(path)
    try:
        yield recorder, path
    finally:
        recorder.close()


def test_checksum_of_the_specification() -> None:
    """RFC 1071, 3: the sum of this example is ddf2, and the checksum its complement."""
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2


@pytest.mark.parametrize("kind", ["mqtt", "mqtts", "ws", "wss"])
def test_a_session_is_read_back(tmp_path: Path, kind: str) -> None:
    """Kinds, payload and ports. The recording is in clear text at the plain port, with any transport."""
    if kind in ("mqtts", "wss") and OPENSSL is None:
        pytest.skip("needs openssl (apt install openssl)")
    server_tls, client_tls = certificate(tmp_path) if kind in ("mqtts", "wss") else (None, None)
    ports: list[int] = []

    async def main() -> None:
        broker = mqtt_broker.Broker()
        plain = 80 if kind == "wss" else 1883
        server = await mqtt.serve(
            broker, HOST, 0, ssl=server_tls, websocket=kind in ("ws", "wss"), tap=recorder.tap(plain)
        )
        async with server:
            ports.append(plain if server_tls else server.port)
            extra: dict[str, Any] = {"ssl": client_tls} if client_tls else {}
            await converse(f"{kind}://{HOST}:{server.port}", **extra)
            await until(lambda: not server.drivers)
        broker.close()

    with recorded(tmp_path) as (recorder, path):
        run(main())
    found = rows(path)
    assert sorted(row["kind"] for row in found) == sorted(EXPECTED)
    assert [row["kind"] for row in found][:4] == EXPECTED[:4]
    assert [row["payload"] for row in found if row["kind"] == "PUBLISH"] == [b"21.5", b"21.5"]
    assert {row["dst_port"] for row in found if row["kind"] == "SUBSCRIBE"} == {ports[0]}
    assert (b"recorded as plaintext" in path.read_bytes()) is (server_tls is not None)


@pytest.mark.skipif(TSHARK is None, reason="needs tshark (apt install tshark)")
def test_tshark_finds_no_fault(tmp_path: Path) -> None:
    """A large payload is in several packets, of IPv4 and IPv6. Checksums are correct, and no segment is missing, out of order or
    repeated."""
    payload = bytes(range(256)) * 1000
    hosts = [HOST]
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        hosts.append("::1")

    async def main() -> None:
        for host in hosts:
            broker = mqtt_broker.Broker()
            async with await mqtt.serve(broker, host, 0, tap=recorder.tap(1883)) as server:
                url = f"mqtt://[{host}]:{server.port}" if ":" in host else f"mqtt://{host}:{server.port}"
                await converse(url, payload=payload)
                await until(lambda server=server: not server.drivers)
            broker.close()

    with recorded(tmp_path) as (recorder, path):
        run(main())
    packets = tshark(
        path, "tcp.stream", "tcp.flags.str", "tcp.checksum.status", "ip.checksum.status", "tcp.analysis.flags",
        "tcp.len", "_ws.expert.message",
    )  # fmt: skip
    assert {packet[2] for packet in packets} == {"1"}  # good
    assert {packet[3] for packet in packets} <= {"1", ""}  # IPv6 has none
    assert [packet for packet in packets if packet[4]] == []
    assert {packet[0] for packet in packets} == {str(k) for k in range(len(hosts))}
    for stream in range(len(hosts)):
        flags = [packet[1].replace("·", "") for packet in packets if packet[0] == str(stream)]
        assert flags[:3] == ["S", "AS", "A"]
        assert flags.count("AF") == 2
    sizes = [row["payload_size"] for row in rows(path, payload=False) if row["kind"] == "PUBLISH"]
    assert sizes == [len(payload)] * 2 * len(hosts)


def test_plaintext_ports_that_meet_stay_apart(tmp_path: Path) -> None:
    """Two clients can have the same port if they use two ports of the server that are one port in the recording."""
    with recorded(tmp_path) as (recorder, path):

        async def main() -> None:
            first, second = (recorder.conversation(LEFT, RIGHT) for _ in range(2))
            pingreq = bytes.fromhex("c000")
            first.say(True, bytes.fromhex("100c00044d5154540402003c0000"))
            second.say(True, bytes.fromhex("100c00044d5154540402003c0000"))
            first.say(False, bytes.fromhex("20020000"))
            second.say(False, bytes.fromhex("20020000"))
            for conversation in (first, second, first):
                conversation.say(True, pingreq)
            first.end()
            second.end(reset=True)

        run(main())
    found = rows(path)
    assert [(row["kind"], row["src_port"]) for row in found if row["kind"] == "PINGREQ"] == [
        ("PINGREQ", 40000),
        ("PINGREQ", 39999),
        ("PINGREQ", 40000),
    ]


def test_sequence_numbers_wrap(tmp_path: Path) -> None:
    """RFC 9293, 3.4: modulo 2^32."""
    ping = b"octets of the test"
    with recorded(tmp_path) as (recorder, path):

        async def main() -> None:
            conversation = recorder.conversation(LEFT, RIGHT)
            conversation._next[True] = (1 << 32) - 1
            conversation.say(True, ping)
            conversation.say(True, ping)

        run(main())
    data = path.read_bytes()
    numbers = [struct.unpack_from("!I", data, at - 16)[0] for at in range(len(data)) if data[at:].startswith(ping)]
    assert numbers == [(1 << 32) - 1, len(ping) - 1]


def test_nsq_that_goes_over_to_tls(tmp_path: Path) -> None:
    """The bytes after the change to TLS are recorded in clear text, in a separate stream."""
    if OPENSSL is None:
        pytest.skip("needs openssl (apt install openssl)")
    server_tls, client_tls = certificate(tmp_path)

    async def main() -> None:
        broker = nsq_broker.Broker()
        options = ConnectionOptions(tls="offered")
        async with await nsq.serve(broker, HOST, 0, ssl=server_tls, options=options, tap=recorder.tap(4150)) as server:
            async with nsq.connect(f"nsq://{HOST}:{server.port}", ssl=client_tls) as client:
                await client.publish("orders", b"one order")
            await until(lambda: not server.drivers)
        broker.close()

    with recorded(tmp_path) as (recorder, path):
        run(main())
    data = path.read_bytes()
    assert b"tls_v1" in data
    assert b"PUB orders" in data
    found = rows(path)
    assert "IDENTIFY" in [row["kind"] for row in found]
    assert [row["payload"] for row in found if row["kind"] == "PUB"] == [b"one order"]


WRITER = """
import asyncio, sys, time
from wirefmt.broker.recording import Recorder, Address
async def main():
    recorder = Recorder(sys.argv[1])
    conversation = recorder.conversation(Address(b"\\x7f\\0\\0\\1", 40000), Address(b"\\x7f\\0\\0\\1", 1883))
    conversation.say(True, bytes.fromhex("100c00044d5154540402003c0000"))
    conversation.say(False, bytes.fromhex("20020000"))
    publish = bytes.fromhex("30d30f000161") + b"x" * 2000
    while recorder.error is None:
        conversation.say(True, publish)
        await asyncio.sleep(0)
        print(1, flush=True)
    print(recorder.error, flush=True)
asyncio.run(main())
"""


def test_what_a_killed_process_has_recorded_is_read(tmp_path: Path) -> None:
    """Every block that was written is read back. A kill in the middle of a write truncates the last one."""
    path = tmp_path / "killed.pcapng"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(100):
            assert process.stdout.readline() == "1\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    found = all_rows(path)
    assert [row["error"] for row in found if row["status"] != "ok"] in ([], ["file ends inside a record"])
    assert {row["status"] for row in found[:-1]} == {"ok"}
    assert [row["kind"] for row in found].count("PUBLISH") >= 99


def test_a_full_disk_ends_the_recording_at_a_whole_block(tmp_path: Path) -> None:
    """A limit on the size of files replaces a full disk."""
    pytest.importorskip("resource", reason="needs resource, a module of Unix (a Unix)")
    path = tmp_path / "full.pcapng"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    done = subprocess.run([sys.executable, "-c", limit + WRITER, str(path)], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    kinds = [row["kind"] for row in rows(path)]
    assert path.stat().st_size <= 100_000
    assert kinds.count("PUBLISH") > 40


def test_memory_is_bounded(tmp_path: Path) -> None:
    """The recording keeps at most this much and one packet, even if one step has more."""
    with recorded(tmp_path) as (recorder, _):

        async def main() -> None:
            conversation = recorder.conversation(LEFT, RIGHT)
            for _ in range(100):
                conversation.say(True, bytes(10_000))
                assert len(recorder._kept) < KEPT + 1

        run(main())
