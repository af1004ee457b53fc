"""The asyncio driver beside peers that stop, or never answer: closing and opening always end."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run, until
from wirefmt import mqtt, nsq
from wirefmt.broker.mqtt import Broker
from wirefmt.connection.aio import driver, transports
from wirefmt.connection.carriers import WebSocket
from wirefmt.connection.websocket import HEAD_LIMIT, ClientHandshake, ServerHandshake
from wirefmt.errors import ConnectionLost, DecodeError

CONNACK = b"\x20\x03\x00\x00\x00"

needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds that a connection which is over waits."""
    for module in (driver, transports):
        monkeypatch.setattr(module, "LINGER", 0.2)


class Frozen:
    """A server in a thread of its own: it greets, and then does nothing until the test is over.

    Args:
        greet: what it says and reads first, on a blocking socket.
    """

    def __init__(self, greet: Callable[[socket.socket], Any]) -> None:
        self._greet = greet
        self._over = threading.Event()
        self._listener = socket.create_server((HOST, 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.port = self._listener.getsockname()[1]
        self.greeted = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        accepted, _ = self._listener.accept()
        with accepted:
            try:
                kept = self._greet(accepted)
            except OSError:
                kept = None
            self.greeted.set()
            self._over.wait(30)
            del kept

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._listener.close()


@asynccontextmanager
async def frozen(greet: Callable[[socket.socket], Any]) -> AsyncIterator[Frozen]:
    server = Frozen(greet)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.close)


def greet(peer: socket.socket) -> None:
    peer.recv(1000)
    peer.sendall(CONNACK)


def greet_tls(context: ssl.SSLContext) -> Callable[[socket.socket], ssl.SSLSocket]:
    def greet(peer: socket.socket) -> ssl.SSLSocket:
        secure = context.wrap_socket(peer, server_side=True, suppress_ragged_eofs=True)
        secure.recv(1000)
        secure.sendall(CONNACK)
        return secure

    return greet


def greet_websocket(peer: socket.socket) -> None:
    handshake, carrier = ServerHandshake(("mqtt",)), WebSocket()
    while not handshake.done:
        handshake.receive(peer.recv(1000))
    peer.sendall(handshake.data_to_send())
    peer.recv(1000)
    peer.sendall(carrier.send(CONNACK))


@pytest.mark.parametrize("pending", [0, 3_000_000], ids=["nothing pending", "a full window"])
@pytest.mark.parametrize("kind", ["mqtt", "ws", pytest.param("mqtts", marks=needs_openssl)])
def test_a_client_closes_beside_a_server_that_does_nothing(kind: str, pending: int, tmp_path: Path) -> None:
    """Bytes that wait are never taken; neither FIN nor close_notify nor WebSocket's close is answered."""
    context, trust = certificate(tmp_path) if kind == "mqtts" else (None, None)
    greets = {"mqtt": greet, "ws": greet_websocket, "mqtts": greet_tls(context) if context else greet}

    async def test() -> None:
        async with frozen(greets[kind]) as server:
            client = mqtt.connect(f"{kind}://{HOST}:{server.port}", client_identifier="x", ssl=trust)
            await client.open()
            if pending:
                sending = [asyncio.ensure_future(client.publish("t", bytes(pending // 3), qos=1)) for _ in range(3)]
            await asyncio.sleep(0.05)
            async with asyncio.timeout(10):
                await client.close()
            if pending:
                for done in await asyncio.gather(*sending, return_exceptions=True):
                    assert isinstance(done, ConnectionLost)

    run(test())


@pytest.mark.parametrize("pending", [0, 3_000_000], ids=["nothing pending", "a full window"])
@pytest.mark.parametrize("kind", ["plain", "websocket", pytest.param("tls", marks=needs_openssl)])
def test_a_server_closes_beside_a_client_that_does_nothing(kind: str, pending: int, tmp_path: Path) -> None:
    context, trust = certificate(tmp_path) if kind == "tls" else (None, None)

    def connected(port: int) -> Any:
        peer: Any = socket.create_connection((HOST, port))
        connect = mqtt.Connect(client_identifier="x").encode()
        if kind == "tls":
            assert trust is not None
            peer = trust.wrap_socket(peer, server_hostname=HOST)
        if kind == "websocket":
            handshake, carrier = ClientHandshake("h", "/", "mqtt", bytes(16)), WebSocket(lambda: b"mask")
            peer.sendall(handshake.data_to_send())
            while not handshake.done:
                handshake.receive(peer.recv(1000))
            connect = carrier.send(connect)
        peer.sendall(connect)
        peer.recv(100)
        return peer

    async def test() -> None:
        broker = Broker()
        async with asyncio.timeout(20):
            server = await mqtt.serve(broker, HOST, 0, ssl=context, websocket=kind == "websocket")
            peer = await asyncio.to_thread(connected, server.port)
            (at,) = server.drivers
            if pending:
                for _ in range(3):
                    at.host.publish("t", bytes(pending // 3))  # type: ignore[attr-defined]
            await asyncio.sleep(0.05)
            await server.close()
            assert not server.drivers
            peer.close()

    run(test())


# ---- handshakes


def never(peer: socket.socket) -> None:
    """It accepts, and says nothing."""


@pytest.mark.parametrize("ends", [False, True])
def test_a_server_whose_tls_handshake_never_ends(ends: bool) -> None:
    """NSQ: the answer to IDENTIFY asks for TLS, and then nothing comes. The attempt's time ends it, or the end of the stream."""

    def identify(peer: socket.socket) -> None:
        peer.recv(1000)
        body = b'{"tls_v1":true,"max_rdy_count":2500,"version":"1"}'
        peer.sendall((len(body) + 4).to_bytes(4) + bytes(4) + body)
        if ends:
            peer.recv(1000)
            peer.shutdown(socket.SHUT_RDWR)

    async def test() -> None:
        async with frozen(identify) as server, asyncio.timeout(10):
            with pytest.raises(ConnectionLost if ends else TimeoutError):
                await nsq.connect(
                    f"nsqs://{HOST}:{server.port}", timeout=5 if ends else 0.3, ssl=ssl.create_default_context()
                ).open()

    run(test())


@needs_openssl
def test_a_client_whose_tls_handshake_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NSQ's server: the client asks for TLS and does not begin. Closing the server does not wait for it."""
    context, _ = certificate(tmp_path)

    class Accepting:
        def handle(self, peer: nsq.Peer, event: Any) -> None:
            if isinstance(event, nsq.Identify):
                peer.accept(event)

        def writable(self, peer: nsq.Peer) -> None: ...

        def closed(self, peer: nsq.Peer) -> None: ...

    async def test() -> None:
        async with asyncio.timeout(10):
            server = await nsq.serve(Accepting(), HOST, 0, ssl=context, options=nsq.ConnectionOptions(tls="offered"))
            _, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(b"  V2" + nsq.Identify({"feature_negotiation": True, "tls_v1": True}).encode())
            await until(lambda: any(d._securing is not None for d in server.drivers))
            await server.close()
            writer.transport.abort()

    run(test())


@pytest.mark.parametrize("scheme", ["ws", pytest.param("wss", marks=needs_openssl)])
def test_a_server_that_never_answers_the_opening(scheme: str) -> None:
    async def test() -> None:
        async with frozen(never) as server, asyncio.timeout(10):
            with pytest.raises(TimeoutError):
                await mqtt.connect(f"{scheme}://{HOST}:{server.port}", timeout=0.3).open()

    run(test())


def test_headers_without_end_are_bounded_on_both_sides() -> None:
    """RFC 6455, 4: a head that is larger than the limit ends the attempt, however slowly it comes."""

    def endless(peer: socket.socket) -> None:
        peer.recv(1000)
        peer.sendall(b"HTTP/1.1 101 x\r\n" + b"a: b\r\n" * (HEAD_LIMIT // 6))

    async def test() -> None:
        async with frozen(endless) as server, asyncio.timeout(10):
            with pytest.raises((ConnectionLost, DecodeError), match="limit"):
                await mqtt.connect(f"ws://{HOST}:{server.port}", timeout=5).open()
        async with asyncio.timeout(10), await mqtt.serve(Broker(), HOST, 0, websocket=True) as ours:
            reader, writer = await asyncio.open_connection(HOST, ours.port)
            writer.write(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (HEAD_LIMIT // 6))
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            writer.close()

    run(test())


def test_a_client_that_never_ends_its_opening_is_dropped() -> None:
    """The time for CONNECT also holds for WebSocket's handshake."""

    async def test() -> None:
        options = mqtt.ConnectionOptions(connect_timeout=0.1)
        async with (
            asyncio.timeout(10),
            await mqtt.serve(Broker(), HOST, 0, websocket=True, options=options) as server,
        ):
            reader, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(b"GET / HTTP/1.1\r\n")
            assert await reader.read() == b""
            writer.close()
            await until(lambda: not server.drivers)

    run(test())
