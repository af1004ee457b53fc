"""A real nsqd on loopback: what pynsq, ansq and our own encoders say to it is read under STRICT, and its captures decode.

cd tests; python -m live.test_nsqd      records the captures of tests/data/nsq anew
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import importlib.util
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lib.paths import DATA
from lib.ports import free_port
from lib.proxy import CLIENT, HOST, SERVER, Conversation, Proxy, capture
from lib.skips import imported
from wirefmt import nsq
from wirefmt.errors import DecodeError

pytestmark = pytest.mark.live

PATIENCE = 15.0  # seconds for something that must come
NSQD = os.environ.get("NSQD") or shutil.which("nsqd", path=os.environ.get("PATH", "") + f":{Path.home()}/go/bin")
needs_nsqd = pytest.mark.skipif(NSQD is None, reason="needs nsqd (github.com/nsqio/nsq in PATH or $NSQD)")
needs_ansq = pytest.mark.skipif(importlib.util.find_spec("ansq") is None, reason="needs ansq (pip install ansq)")
needs_pynsq = pytest.mark.skipif(importlib.util.find_spec("nsq") is None, reason="needs pynsq (pip install pynsq)")

COMMANDS = {"IDENTIFY", "SUB", "PUB", "MPUB", "DPUB", "RDY", "FIN", "REQ", "TOUCH", "CLS", "NOP"}


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:  # it waits for connections to end
        process.kill()
        process.wait()


@contextlib.contextmanager
def running_nsqd(*options: str) -> Iterator[int]:
    """An nsqd that listens on loopback; its port."""
    assert NSQD is not None
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(5):
            port = free_port()
            command = [NSQD, f"-tcp-address={HOST}:{port}", f"-http-address={HOST}:{free_port()}"]
            command += [f"-data-path={folder}", f"-broadcast-address={HOST}", "-log-level=fatal", *options]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = time.monotonic() + PATIENCE
            while process.poll() is None and time.monotonic() < end:
                with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
                    try:
                        yield port
                    finally:
                        stop(process)
                    return
                time.sleep(0.05)
            process.kill()
            process.wait()
    raise RuntimeError("nsqd does not start")


@pytest.fixture(scope="module")
def nsqd() -> Iterator[int]:
    with running_nsqd() as port:
        yield port


@pytest.fixture
def proxy(nsqd: int) -> Iterator[Proxy]:
    proxy = Proxy(nsqd)
    yield proxy
    proxy.close()


class Deflate:
    """One direction each way: raw deflate, flushed behind each write."""

    def __init__(self) -> None:
        self.packer, self.unpacker = zlib.compressobj(6, zlib.DEFLATED, -15), zlib.decompressobj(-15)

    def pack(self, octets: bytes) -> bytes:
        return self.packer.compress(octets) + self.packer.flush(zlib.Z_SYNC_FLUSH)

    def unpack(self, octets: bytes) -> bytes:
        return self.unpacker.decompress(octets)


class Snappy:
    """The framing format, chunk by chunk: a type, three octets of length, a checksum, data."""

    def __init__(self) -> None:
        self.cramjam = imported("cramjam")
        self.rest = b""

    def pack(self, octets: bytes) -> bytes:
        return bytes(self.cramjam.snappy.compress(octets))

    def unpack(self, octets: bytes) -> bytes:
        self.rest += octets
        out = b""
        while len(self.rest) >= 4 and len(self.rest) >= 4 + (size := int.from_bytes(self.rest[1:4], "little")):
            kind, data, self.rest = self.rest[0], self.rest[8 : 4 + size], self.rest[4 + size :]
            assert kind in (0, 1, 0xFF)
            out += b"" if kind == 0xFF else data if kind == 1 else bytes(self.cramjam.snappy.decompress_raw(data))
        return out


COMPRESSIONS: dict[str, Any] = {"deflate": Deflate, "snappy": Snappy}


def plain(conversation: Conversation) -> tuple[list[Any], list[Any]]:
    """Commands and frames of a conversation, all read under STRICT; what is compressed, unpacked."""
    out: tuple[list[Any], list[Any]] = [], []
    carriers: list[Any] = []
    decoders = [nsq.Decoder(side="client", magic=True), nsq.Decoder(side="server")]
    for side, octets in conversation.chunks:
        chunk = carriers[side].unpack(octets) if carriers else octets
        if side == SERVER and not carriers and decoders[SERVER].pending == 0:
            size = nsq.frame_size(chunk, side="server")
            assert isinstance(size, int)
            reply: Any = nsq.decode(chunk[:size], side="server")
            members = dict(reply.members or ()) if isinstance(reply, nsq.Response) else {}
            for name, kind in COMPRESSIONS.items():
                if members.get(name) is True:
                    carriers = [kind(), kind()]
                    chunk = chunk[:size] + carriers[side].unpack(chunk[size:])
        out[side].extend(decoders[side].feed(chunk))
    for side in (CLIENT, SERVER):
        decoders[side].close()
        for message in out[side]:
            assert message == nsq.decode(message.encode(), side=("client", "server")[side])
    return out


def check(conversations: list[Conversation]) -> set[str]:
    """Everything is read, and a capture of it has a row for each; the commands that were sent."""
    pyarrow = imported("pyarrow")
    from lib.batches import rows_of

    names: set[str] = set()
    for conversation in conversations:
        commands, frames = plain(conversation)
        names |= {command.name for command in commands}
        rows, _ = rows_of(capture([conversation], 4150))
        assert pyarrow is not None
        assert {(row["status"], row["error"]) for row in rows} == {("ok", None)}
        sent = [row for row in rows if row["direction"] == CLIENT]
        came = [row for row in rows if row["direction"] == SERVER]
        assert [row["kind"] for row in sent] == [c.kind for c in commands]
        assert [row["kind"] for row in came] == [f.kind for f in frames]
        assert [row["payload"] for row in came if row["kind"] == "message"] == [
            f.body_bytes() for f in frames if isinstance(f, nsq.MessageFrame)
        ]
    return names


# ---- our own client


class Client:
    """Sends commands, gives the frames that come; may be compressed, or under TLS."""

    def __init__(self, port: int, *, compression: str | None = None, tls: bool = False, **features: Any) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=PATIENCE)
        self.decoder = nsq.Decoder(side="server")
        self.waiting: list[Any] = []
        self.beats = 0
        self.early = b""
        self.carrier: Any = None
        self.socket.sendall(nsq.Magic().encode())
        if compression:
            features[compression] = True
        self.reply = self.ask(nsq.Identify(feature_negotiation=True, tls_v1=tls, **features))
        if tls:
            assert not self.early
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
            assert self.receive().data == b"OK"
        if compression:
            self.carrier = COMPRESSIONS[compression]()
            if self.early:
                self.waiting += self.decoder.feed(self.carrier.unpack(self.early))
            assert self.receive().data == b"OK"

    def send(self, command: nsq.Command) -> None:
        octets = command.encode()
        self.socket.sendall(self.carrier.pack(octets) if self.carrier else octets)

    def receive(self) -> Any:
        """The next frame other than a heartbeat; heartbeats are answered."""
        while True:
            while not self.waiting:
                octets = self.socket.recv(65536)
                if not octets:
                    raise EOFError
                if self.carrier:
                    octets = self.carrier.unpack(octets)
                elif self.decoder.offset == 0:  # the answer to IDENTIFY; what is behind it may be compressed
                    size = nsq.frame_size(octets, side="server")
                    assert isinstance(size, int)
                    octets, self.early = octets[:size], octets[size:]
                self.waiting += self.decoder.feed(octets)
            frame = self.waiting.pop(0)
            if not (isinstance(frame, nsq.Response) and frame.is_heartbeat):
                return frame
            self.beats += 1
            self.send(nsq.Nop())

    def ask(self, command: nsq.Command) -> Any:
        self.send(command)
        return self.receive()

    def close(self) -> None:
        self.socket.close()


def talk_in_full(port: int, topic: str, **features: Any) -> None:
    """Every command at least once."""
    client = Client(port, heartbeat_interval=1000, client_id="wirefmt", **features)
    assert dict(client.reply.members)["max_rdy_count"] == 2500
    assert client.ask(nsq.Sub(topic=topic, channel="ch#ephemeral")).data == b"OK"
    assert client.ask(nsq.Publish(topic=topic, body=b"one")).data == b"OK"
    assert client.ask(nsq.MultiPublish(topic=topic, bodies=[b"two", bytes(range(256)) * 8])).data == b"OK"
    assert client.ask(nsq.DeferredPublish(topic=topic, defer_time=0, body=b"later")).data == b"OK"
    client.send(nsq.Ready(count=1))
    first = client.receive()
    assert (first.attempts, first.body_bytes()) == (1, b"one")
    client.send(nsq.Touch(message_id=first.message_id))
    client.send(nsq.Requeue(message_id=first.message_id, timeout=0))
    bodies: set[bytes] = set()
    attempts: list[int] = []
    while len(bodies) < 4:
        frame = client.receive()
        bodies.add(frame.body_bytes())
        attempts.append(frame.attempts)
        client.send(nsq.Finish(message_id=frame.message_id))
    assert bodies == {b"one", b"two", bytes(range(256)) * 8, b"later"}
    assert max(attempts) == 2
    failed = client.ask(nsq.Finish(message_id=b"0123456789abcdef"))
    assert (failed.code, failed.fatal) == ("E_FIN_FAILED", False)
    while client.beats < 1:
        client.socket.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            client.receive()
    client.socket.settimeout(PATIENCE)
    assert client.ask(nsq.Close()).data == b"CLOSE_WAIT"
    client.close()


@needs_nsqd
@pytest.mark.parametrize("compression", [None, "deflate", "snappy"])
def test_every_command(proxy: Proxy, compression: str | None) -> None:
    if compression == "snappy":
        imported("cramjam")
    talk_in_full(proxy.port, f"full-{compression}", compression=compression)
    assert check(proxy.finish()) >= COMMANDS


class AuthServer(BaseHTTPRequestHandler):
    """What nsqd asks about a secret: one identity may do everything, nobody else anything."""

    def do_GET(self) -> None:
        good = parse_qs(urlsplit(self.path).query).get("secret") == ["let me in"]
        rule = {"topic": ".*", "channels": [".*"], "permissions": ["subscribe", "publish"]}
        answer = {"ttl": 60, "identity": "wirefmt", "identity_url": "http://localhost/", "authorizations": [rule]}
        octets = json.dumps(answer).encode() if good else b"{}"
        self.send_response(200 if good else 403)
        self.send_header("Content-Length", str(len(octets)))
        self.end_headers()
        self.wfile.write(octets)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are quiet."""


def talk_with_auth() -> list[Conversation]:
    """Three connections: one that is let in, one with a wrong secret, one that says none."""
    with ThreadingHTTPServer((HOST, 0), AuthServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with running_nsqd(f"-auth-http-address={HOST}:{server.server_address[1]}") as port:
                proxy = Proxy(port)
                try:
                    client = Client(proxy.port)
                    assert dict(client.reply.members)["auth_required"] is True
                    answer = client.ask(nsq.Auth(secret=b"let me in"))
                    said = {"identity": "wirefmt", "identity_url": "http://localhost/", "permission_count": 1}
                    assert dict(answer.members) == said
                    assert client.ask(nsq.Publish(topic="auth", body=b"one")).data == b"OK"
                    client.close()
                    client = Client(proxy.port)
                    failed = client.ask(nsq.Auth(secret=b"wrong"))
                    assert (failed.code, failed.fatal) == ("E_AUTH_FAILED", True)
                    client.close()
                    client = Client(proxy.port)
                    failed = client.ask(nsq.Publish(topic="auth", body=b"two"))
                    assert (failed.code, failed.fatal) == ("E_AUTH_FIRST", True)
                    client.close()
                    return proxy.finish()
                finally:
                    proxy.close()
        finally:
            server.shutdown()


@needs_nsqd
def test_auth() -> None:
    assert check(talk_with_auth()) >= {"IDENTIFY", "AUTH", "PUB"}


def talk_under_tls() -> list[Conversation]:
    """Every command, under TLS."""
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
        subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        with running_nsqd(f"-tls-cert={certificate}", f"-tls-key={key}") as port:
            proxy = Proxy(port)
            try:
                talk_in_full(proxy.port, "tls", tls=True)
                return proxy.finish()
            finally:
                proxy.close()


def check_tls(rows: list[dict[str, Any]]) -> None:
    """The capture shows what was agreed upon, and says why nothing follows."""
    assert [row["kind"] for row in rows[:3]] == ["MAGIC", "IDENTIFY", "response"]
    assert {row["status"] for row in rows[:3]} == {"ok"}
    assert rows[1]["nsq"]["tls_v1"] is True
    assert rows[3:]
    assert {(row["status"], row["error"]) for row in rows[3:]} == {("gap", "TLS from here on: not decoded")}


@needs_nsqd
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl (apt install openssl)")
def test_tls() -> None:
    imported("pyarrow")
    from lib.batches import rows_of

    check_tls(rows_of(capture(talk_under_tls(), 4150))[0])


@needs_nsqd
@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (b"PUB bad$topic\n\0\0\0\1x", "E_BAD_TOPIC"),
        (b"PUB t\n\0\0\0\0", "E_BAD_MESSAGE"),
        (b"MPUB t\n\0\0\0\4\0\0\0\0", "E_BAD_BODY"),
        (b"MPUB t\n\0\0\0\x10\0\0\0\2\0\0\0\1x\xff\xff\xff\xff", "E_BAD_MESSAGE"),
        (b"DPUB t 3600001\n\0\0\0\1x", "E_INVALID"),
        (b"DPUB t 18446744073710\n\0\0\0\1x", None),  # nanoseconds wrap modulo 2^64
        (b"IDENTIFY\n\0\0\0\2[]", "E_BAD_BODY"),
        (b'IDENTIFY\n\0\0\0\x14{"tl\xc5\xbf_v1":"no"     }', "E_BAD_BODY"),  # Go folds U+017F to s
        (b'IDENTIFY\n\0\0\0\x10{"snappy":1e0   }', "E_BAD_BODY"),
        (b'IDENTIFY\n\0\0\0\x18{"sample_rate":001     }', "E_BAD_BODY"),
        (b"AUTH x\n\0\0\0\1x", "E_INVALID"),
        (b"AUTH\n\0\0\0\1x", "E_AUTH_DISABLED"),
        (b"nop\n", "E_INVALID"),
        (b"TOUCH abc\n", "E_INVALID"),
    ],
)
def test_what_nsqd_refuses_is_refused_with_the_same_code(nsqd: int, octets: bytes, code: str | None) -> None:
    with socket.create_connection((HOST, nsqd), timeout=PATIENCE) as connection:
        connection.sendall(b"  V2" + octets)
        answer: Any = nsq.decode(connection.recv(4096), side="server")
    told = answer.code if isinstance(answer, nsq.Error) else None
    assert told == code
    try:
        nsq.Decoder(side="client", magic=True).feed(b"  V2" + octets)
        ours = None
    except DecodeError as error:
        ours = error.reply
    # what depends on the server's configuration and state octets do not tell
    assert ours == (None if code == "E_AUTH_DISABLED" else code)


@needs_nsqd
def test_the_words_of_refusals_are_those_of_nsqd(nsqd: int) -> None:
    """What `nsq/test_refusals.py` expects of our server."""
    for row in json.loads((DATA / "nsq" / "refusals.json").read_text()):
        with socket.create_connection((HOST, nsqd), timeout=PATIENCE) as connection:
            connection.sendall(b"  V2" + row["sent"].encode("latin-1"))
            decoder = nsq.Decoder(side="server")
            told: list[Any] = []
            while not told and (octets := connection.recv(4096)):
                told += [frame for frame in decoder.feed(octets) if isinstance(frame, nsq.Error)]
        assert [bytes(frame.data).decode() for frame in told] == [row["error"]], row["name"]


# ---- ansq


async def ansq_session(port: int, topic: str) -> None:
    from ansq.tcp.connection import open_connection

    connection = await open_connection(host=HOST, port=port, auto_reconnect=False)
    await connection.identify()
    assert (await connection.pub(topic, b"one")).is_ok
    assert (await connection.mpub(topic, b"two", b"three")).is_ok
    assert (await connection.dpub(topic, b"four", 10)).is_ok
    await connection.subscribe(topic, "ansq", 1)
    seen: set[bytes] = set()
    async for message in connection.messages():
        if message.attempts == 1 and not seen:
            await message.touch()
            await message.req()
        else:
            await message.fin()
        seen.add(message.body)
        if len(seen) == 4:
            break
    await connection.close()


@needs_nsqd
@needs_ansq
def test_ansq(proxy: Proxy) -> None:
    asyncio.run(asyncio.wait_for(ansq_session(proxy.port, "ansq"), 20))
    assert check(proxy.finish()) >= COMMANDS - {"NOP", "CLS"}


# ---- pynsq


async def pynsq_session(port: int, topic: str, *, deflate: bool) -> None:
    import nsq as pynsq

    address = f"{HOST}:{port}"
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    published: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    writer = pynsq.Writer([address], deflate=deflate, heartbeat_interval=1)

    def finished(*_: Any) -> None:
        published.set_result(None)

    while not any(c.state == "CONNECTED" for c in writer.conns.values()):
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.3)
    writer.mpub(topic, [b"a", b"b" * 500], callback=lambda *_: writer.dpub(topic, 5, b"c", callback=finished))
    await published
    seen: list[bytes] = []

    def handle(message: Any) -> bool:
        seen.append(message.body)
        if len(seen) == 1:
            message.touch()
            return False  # requeued
        if len(set(seen)) == 3 and not done.done():
            asyncio.get_running_loop().call_later(1.5, done.set_result, None)  # a heartbeat comes in between
        return True

    reader = pynsq.Reader(
        topic=topic, channel="pynsq", message_handler=handle, nsqd_tcp_addresses=[address], deflate=deflate,
        heartbeat_interval=1, max_backoff_duration=0.1, requeue_delay=0,
    )  # fmt: skip
    await done
    for peer in (reader, writer):
        for connection in list(peer.conns.values()):
            connection.close()
    await asyncio.sleep(0.1)


@needs_nsqd
@needs_pynsq
def test_pynsq(proxy: Proxy) -> None:
    """Not over deflate: pynsq 0.9.1 breaks off such a connection on a short read, and may do so again and again. What it
    sends there is among the recorded captures."""
    asyncio.run(asyncio.wait_for(pynsq_session(proxy.port, "pynsq", deflate=False), 60))
    assert check(proxy.finish()) >= {"IDENTIFY", "SUB", "MPUB", "DPUB", "RDY", "FIN", "REQ", "TOUCH", "NOP"}


# ---- captures that were recorded so


def record(folder: Path) -> None:
    sessions: dict[str, Any] = {
        "wirefmt": lambda port: talk_in_full(port, "recorded"),
        "wirefmt-deflate": lambda port: talk_in_full(port, "recorded", compression="deflate"),
        "wirefmt-snappy": lambda port: talk_in_full(port, "recorded", compression="snappy"),
        "ansq-0.3.0": lambda port: asyncio.run(ansq_session(port, "recorded-ansq")),
        "pynsq-0.9.1-deflate": lambda port: asyncio.run(pynsq_session(port, "recorded-pynsq", deflate=True)),
    }
    folder.mkdir(exist_ok=True)
    for name, session in sessions.items():
        with running_nsqd() as port:
            proxy = Proxy(port)
            session(proxy.port)
            octets = capture(proxy.finish(), 4150)
            proxy.close()
        (folder / f"nsqd-1.3.0-{name}.pcap.gz").write_bytes(gzip.compress(octets, 9, mtime=0))
        print(name, len(octets))
    for name, talk in (("tls", talk_under_tls), ("auth", talk_with_auth)):
        octets = capture(talk(), 4150)
        (folder / f"nsqd-1.3.0-wirefmt-{name}.pcap.gz").write_bytes(gzip.compress(octets, 9, mtime=0))


RECORDED = sorted((DATA / "nsq").glob("*.pcap.gz"))


@pytest.mark.parametrize("path", RECORDED, ids=[p.name for p in RECORDED])
def test_recorded_captures(path: Path) -> None:
    """Without an nsqd: what was recorded is read in full, every command is there, and bodies come as they were sent."""
    imported("pyarrow")
    from lib.batches import rows_of

    if "snappy" in path.name:
        imported("cramjam")
    rows, _ = rows_of(gzip.decompress(path.read_bytes()))
    if "tls" in path.name:
        check_tls(rows)
        return
    assert {(row["protocol"], row["status"], row["error"]) for row in rows} == {("nsq", "ok", None)}
    kinds = {row["kind"] for row in rows}
    if "auth" in path.name:
        assert kinds == {"MAGIC", "IDENTIFY", "AUTH", "PUB", "response", "error"}
        return
    assert kinds >= COMMANDS - (
        {"PUB", "CLS"} if "pynsq" in path.name else {"NOP", "CLS"} if "ansq" in path.name else set()
    )
    assert kinds >= {"MAGIC", "response", "message"}
    sent = {row["payload"] for row in rows if row["kind"] in ("PUB", "DPUB")}
    sent |= {body for row in rows if row["kind"] == "MPUB" for body in row["nsq"]["bodies"]}
    assert {row["payload"] for row in rows if row["kind"] == "message"} == sent
    for compression in COMPRESSIONS:
        assert (compression in path.name) == any(row["nsq"]["compression"] == compression for row in rows)
    settled = {row["message_id"] for row in rows if row["kind"] in ("FIN", "REQ")}
    assert settled >= {row["message_id"] for row in rows if row["kind"] == "message"}


if __name__ == "__main__":
    record(DATA / "nsq")
    sys.exit()
