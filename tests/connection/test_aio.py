"""The asyncio driver, and WebSocket's opening handshake."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lib.loopback import HOST, run, until
from wirefmt import mqtt
from wirefmt.connection.aio import Driver
from wirefmt.connection.aio.driver import ALONE, WORK
from wirefmt.connection.carriers import WebSocket
from wirefmt.connection.contract import Disconnected
from wirefmt.connection.websocket import HEAD_LIMIT, ClientHandshake, ServerHandshake, accept_of
from wirefmt.errors import ConnectionLost, DecodeError, LimitExceeded, LocalProtocolError, Malformed

# ---- the handshake


def test_the_key_of_the_specification() -> None:
    """RFC 6455, 1.3."""
    assert accept_of("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_handshake_of_the_specification() -> None:
    """RFC 6455, 1.2, with the subprotocol of MQTT, in pieces of one byte; the client's first frame follows at once."""
    request = (
        b"GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://example.com\r\n"
        b"Sec-WebSocket-Protocol: chat, mqtt\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    server = ServerHandshake(("mqtt",), ["http://example.com"])
    for at in range(len(request) - 1):
        assert server.receive(request[at : at + 1]) == b""
        assert not server.done
    assert server.receive(request[-1:] + b"\x82\x80rest") == b"\x82\x80rest"
    assert server.done
    assert (server.path, server.subprotocol) == ("/chat", "mqtt")
    answer = server.data_to_send()
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    client = ClientHandshake("server.example.com", "/chat", "mqtt", base64.b64decode("dGhlIHNhbXBsZSBub25jZQ=="))
    assert b"\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" in client.data_to_send()
    assert client.receive(answer + b"\x82\x00") == b"\x82\x00"
    assert client.done


GOOD = {
    "Host": "h",
    "Upgrade": "WebSocket",
    "Connection": "upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "mqtt",
}


@pytest.mark.parametrize(
    ("first", "changes"),
    [
        ("POST / HTTP/1.1", {}),
        ("GET / HTTP/1.0", {}),
        ("GET /", {}),
        ("GET / HTTP/1.1", {"Host": None}),
        ("GET / HTTP/1.1", {"Upgrade": "h2c"}),
        ("GET / HTTP/1.1", {"Connection": "close"}),
        ("GET / HTTP/1.1", {"Sec-WebSocket-Key": "short"}),
        ("GET / HTTP/1.1", {"Sec-WebSocket-Key": "!!!"}),
        ("GET / HTTP/1.1", {"Sec-WebSocket-Version": "8"}),
        ("GET / HTTP/1.1", {"Sec-WebSocket-Protocol": "chat"}),
        ("GET / HTTP/1.1", {"Sec-WebSocket-Protocol": None}),
        ("GET / HTTP/1.1", {" Folded": "x"}),
        ("GET / HTTP/1.1", {"X": "\x00" * HEAD_LIMIT}),
    ],
)
def test_requests_that_are_refused(first: str, changes: dict[str, str | None]) -> None:
    fields = {**GOOD, **changes}
    lines = [first, *(f"{name}: {value}" for name, value in fields.items() if value is not None), "", ""]
    server = ServerHandshake(("mqtt",))
    with pytest.raises(DecodeError):
        server.receive("\r\n".join(lines).encode())
    assert server.data_to_send().startswith(b"HTTP/1.1 400 ")
    assert not server.done


@pytest.mark.parametrize(
    ("origin", "host", "origins", "allowed"),
    [
        (None, "h", (), True),  # no browser
        ("https://panel.example", "h", (), False),
        ("https://panel.example", "h", ("https://panel.example",), True),
        ("https://Panel.example", "h", ("https://panel.example/",), True),
        ("https://panel.example:8443", "h", ("https://panel.example",), False),
        ("http://panel.example", "h", ("https://panel.example",), False),
        ("https://panel.example.evil", "h", ("https://panel.example",), False),
        ("https://panel.example", "h", ("*",), True),
        ("null", "h", (), False),
        ("null", "h", ("null",), True),
        ("", "h", (), False),
        ("http://localhost:8000", "localhost:8083", (), False),  # a page of another server on the same machine
        ("http://localhost:8083", "localhost:8083", (), True),  # clients that send the server's address
        ("http://127.0.0.1:8083", "127.0.0.1:8083", (), True),
        ("https://[::1]:8084", "[::1]:8084", (), True),
        ("http://127.0.0.1:8083", "127.0.0.1", (), False),
        ("ws://127.0.0.1:8083", "127.0.0.1:8083", (), False),
        ("http://evil.example:8083", "evil.example:8083", (), False),  # a name that its owner leads to this machine
        ("http://evil.example:8083", "evil.example:8083", ("http://evil.example:8083",), True),
        ("http://a@127.0.0.1", "a@127.0.0.1", (), True),  # a browser sends neither
        ("http://[", "[", (), False),
    ],
)
def test_origins(origin: str | None, host: str, origins: tuple[str, ...], allowed: bool) -> None:
    """403 for web pages that are not allowed (RFC 6455, 10.2)."""
    fields = {**GOOD, "Host": host, **({} if origin is None else {"Origin": origin})}
    server = ServerHandshake(("mqtt",), origins)
    with contextlib.nullcontext() if allowed else pytest.raises(Malformed, match="is not allowed"):
        server.receive("\r\n".join(["GET / HTTP/1.1", *(f"{n}: {v}" for n, v in fields.items()), "", ""]).encode())
    assert server.data_to_send()[:13] == (b"HTTP/1.1 101 " if allowed else b"HTTP/1.1 403 ")
    assert server.done is allowed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"101", b"200"),
        (b"HTTP/1.1", b"SMTP"),
        (b"Upgrade: websocket", b"Upgrade: other"),
        (b"Connection: Upgrade", b"Connection: close"),
        (b"Accept: s3", b"Accept: xx"),
        (b"mqtt", b"chat"),
        (b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
    ],
)
def test_answers_that_are_no_upgrade(old: bytes, new: bytes) -> None:
    server = ServerHandshake(("mqtt",))
    server.receive("\r\n".join(["GET / HTTP/1.1", *(f"{n}: {v}" for n, v in GOOD.items()), "", ""]).encode())
    answer = server.data_to_send()
    assert old in answer
    client = ClientHandshake("h", "/", "mqtt", base64.b64decode(GOOD["Sec-WebSocket-Key"]))
    with pytest.raises(Malformed):
        client.receive(answer.replace(old, new))


def test_a_head_without_end_is_bounded() -> None:
    client = ClientHandshake("h", "/", "mqtt", bytes(16))
    client.receive(b"HTTP/1.1 101 x\r\n" + b"a" * (HEAD_LIMIT - 100))
    with pytest.raises(LimitExceeded):
        client.receive(b"a" * 100)
    for path in ("/\r\nX: y", "/\n"):
        with pytest.raises(ValueError, match="line break"):
            ClientHandshake("h", path, "mqtt", bytes(16))


# ---- the driver


class Host:
    """A server's host that accepts, and keeps what happens."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.peers: list[mqtt.Peer] = []
        self.gone = 0

    def handle(self, peer: mqtt.Peer, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, mqtt.Connect):
            self.peers.append(peer)
            peer.accept(event)

    def writable(self, peer: mqtt.Peer) -> None: ...

    def closed(self, peer: mqtt.Peer) -> None:
        self.gone += 1


async def opened(port: int, keep_alive: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(mqtt.Connect(client_identifier="x", keep_alive=keep_alive).encode())
    await reader.readexactly(2)
    return reader, writer


class Counting:
    """A transport that notes how many buffers each call writes."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.writes: list[int] = []

    def write(self, data: Any) -> None:
        self.writes.append(1)
        self.transport.write(data)

    def writelines(self, buffers: Any) -> None:
        self.writes.append(len(buffers))
        self.transport.writelines(buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


def test_one_write_for_all_that_is_queued_in_an_iteration() -> None:
    async def test() -> None:
        host = Host()
        async with await mqtt.serve(host, port=0) as server:
            _, writer = await opened(server.port)
            peer = host.peers[0]
            assert peer.driver.transport is not None
            counting = Counting(peer.driver.transport)
            peer.driver.transport = peer.driver._plain = counting  # type: ignore[assignment]
            writes = counting.writes
            for _ in range(100):
                peer.publish("small", b"x")
            await asyncio.sleep(0)
            assert writes == [1]
            for _ in range(3):
                peer.publish("large", bytes(5000))
            await asyncio.sleep(0)
            assert writes == [1, 6]  # of each large message the head, and the payload as it is
            writer.transport.abort()

    run(test())


class Sink:
    """A transport that notes what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))

    def writelines(self, buffers: list[bytes]) -> None:
        self.write(b"".join(buffers))


def arrived(driver: Driver, data: bytes) -> None:
    """A read of the transport."""
    driver.get_buffer(-1)[: len(data)] = data
    driver.buffer_updated(len(data))


PING, PONG = b"\xc0\x00", b"\xd0\x00"


@contextlib.asynccontextmanager
async def pinging() -> AsyncIterator[tuple[Driver, Sink]]:
    """A server's driver that answers PINGREQ, and its transport. Nothing is ready in the loop."""
    host = Host()
    async with await mqtt.serve(host, port=0) as server:
        driver: Any = server.accept()
        sink: Any = Sink()
        driver.connection_made(sink)
        arrived(driver, mqtt.Connect(client_identifier="x").encode())
        await asyncio.sleep(0.01)
        driver._turn.alone = driver._turn.reads = 0
        sink.written.clear()
        sink.abort = lambda: asyncio.get_running_loop().call_soon(driver.connection_lost, None)
        yield driver, sink
        driver.abort()


def test_after_a_read_that_was_alone_the_next_ones_are_answered_at_their_end() -> None:
    async def test() -> None:
        async with pinging() as (driver, sink):
            arrived(driver, PING)
            assert sink.written == []
            await asyncio.sleep(0)
            assert sink.written == [PONG]
            for number in range(2, 2 + ALONE):
                arrived(driver, PING)
                assert sink.written == [PONG] * number
            arrived(driver, PING)
            assert sink.written == [PONG] * (1 + ALONE)  # is it alone, too?
            await asyncio.sleep(0)
            assert sink.written == [PONG] * (2 + ALONE)
            arrived(driver, PING)
            assert sink.written == [PONG] * (3 + ALONE)

    run(test())


def test_reads_of_one_iteration_are_answered_together() -> None:
    async def test() -> None:
        async with pinging() as (driver, sink):
            for number in range(1, 5):
                arrived(driver, PING)
                arrived(driver, PING)
                assert sink.written == [PONG * 2] * (number - 1)
                await asyncio.sleep(0)
                assert sink.written == [PONG * 2] * number

    run(test())


def test_reads_that_are_answered_at_their_end_share_the_work_of_an_iteration() -> None:
    """There may be any number of them in one."""

    async def test() -> None:
        async with pinging() as (driver, sink):
            arrived(driver, PING)
            await asyncio.sleep(0)
            driver.spend(WORK // 2)
            arrived(driver, PING)
            assert sink.written == [PONG] * 2
            driver.spend(1)
            arrived(driver, PING)
            assert sink.written == [PONG] * 2
            await asyncio.sleep(0)
            assert sink.written == [PONG] * 3

    run(test())


def test_calls_before_writing_come_once_and_in_order() -> None:
    async def test() -> None:
        async with pinging() as (driver, sink):
            reported: list[Any] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
            error = ValueError("no")
            called: list[Any] = []

            def again() -> None:
                called.append("again")
                driver.before_writing(lambda: called.append("next"))
                arrived(driver, PING)  # what a call brings is written with the rest

            def fail() -> None:
                raise error

            for call in (fail, again, lambda: called.append(list(sink.written))):
                driver.before_writing(call)
            assert called == []
            await asyncio.sleep(0)
            assert called == ["again", []]
            assert reported == [error]
            assert sink.written == [PONG]
            await asyncio.sleep(0)
            assert called == ["again", [], "next"]

    run(test())


def test_calls_before_writing_that_are_interrupted_go_on() -> None:
    loop = asyncio.new_event_loop()
    called: list[int] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def ask() -> None:
        driver = Driver(mqtt.ServerConnection(0.0), SimpleNamespace(handle=None))
        driver.before_writing(interrupt)
        driver.before_writing(lambda: called.append(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    try:
        task = loop.create_task(ask())
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(task)
        loop.run_until_complete(task)
    finally:
        loop.close()
    assert called == [1]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_host_that_raises_when_it_may_write_stops_no_other_driver(error: type[BaseException]) -> None:
    """All drivers of a loop write in one callback."""
    loop = asyncio.new_event_loop()
    reported: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    flushed: list[int] = []

    class Raising(Driver):
        def __init__(self, number: int) -> None:
            super().__init__(mqtt.ServerConnection(0.0), SimpleNamespace(handle=None))
            self.number = number

        def _flush(self) -> None:
            self._scheduled = False
            flushed.append(self.number)
            if self.number == 1:
                raise error

    async def queue() -> None:
        for driver in [Raising(number) for number in range(4)]:
            driver.queued()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    try:
        task = loop.create_task(queue())
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                loop.run_until_complete(task)
        loop.run_until_complete(task)
    finally:
        loop.close()
    assert flushed == [0, 1, 2, 3]
    assert len(reported) == (error is ValueError)


def test_the_reason_reaches_a_peer_that_was_still_sending() -> None:
    """The server shuts down its side and drops what comes, so that no reset eats DISCONNECT."""

    async def test() -> None:
        host = Host()
        async with await mqtt.serve(host, port=0) as server:
            reader, writer = await opened(server.port)
            writer.write(b"\xf1\x00" + bytes(3_000_000))  # AUTH with wrong flags, and much after it
            rest = await reader.read()
            assert rest.endswith(b"\xe0\x01\x81")
            writer.close()
            await until(lambda: host.gone)
            assert [type(event).__name__ for event in host.events].count("Disconnected") == 1

    run(test())


def test_timers_run() -> None:
    async def test() -> None:
        host = Host()
        options = mqtt.ConnectionOptions(connect_timeout=0.05)
        async with await mqtt.serve(host, port=0, options=options) as server:
            silent, silent_writer = await asyncio.open_connection(HOST, server.port)
            assert await silent.read() == b""  # no CONNECT has arrived
            silent_writer.close()
            reader, writer = await opened(server.port, keep_alive=1)
            assert (await reader.read()).endswith(b"\xe0\x01\x8d")  # Keep Alive timeout
            writer.close()
            async with mqtt.connect(f"mqtt://{HOST}:{server.port}", client_identifier="y", keep_alive=1) as client:
                await asyncio.sleep(2.2)
                assert client.connected  # by PINGREQ

    run(test())


def test_half_closed_after_connect() -> None:
    """A client that shuts down its sending side has ended (there is no half-open MQTT)."""

    async def test() -> None:
        host = Host()
        async with await mqtt.serve(host, port=0) as server:
            reader, writer = await opened(server.port)
            writer.write_eof()
            await reader.read()
            assert host.events[-1].by == "transport"
            writer.close()

    run(test())


def test_pause_and_resume() -> None:
    async def test() -> None:
        host = Host()
        async with await mqtt.serve(host, port=0) as server:
            _, writer = await opened(server.port)
            driver = host.peers[0].driver
            driver.pause()
            writer.write(mqtt.Publish(topic_name="a").encode() * 3)
            await asyncio.sleep(0.05)
            assert not [event for event in host.events if isinstance(event, mqtt.Publish)]
            driver.resume()
            await until(lambda: len([event for event in host.events if isinstance(event, mqtt.Publish)]) == 3)
            writer.transport.abort()

    run(test())


# ---- WebSocket


async def upgraded(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, WebSocket]:
    reader, writer = await asyncio.open_connection(HOST, port)
    handshake = ClientHandshake("h", "/any", "mqtt", bytes(16))
    writer.write(handshake.data_to_send())
    while not handshake.done:
        handshake.receive(await reader.read(100))
    return reader, writer, WebSocket(lambda: b"mask")


@pytest.mark.parametrize(
    ("frames", "close"),
    [
        (b"\x81\x81masko", 1002),  # text [MQTT-6.0.0-1]
        (b"\x82\x01x", 1002),  # not masked
        (b"\x88\x82mask" + bytes(a ^ b for a, b in zip(b"\x03\xe8", b"ma", strict=True)), 1000),  # a close
    ],
    ids=["text", "not masked", "close"],
)
def test_frames_that_end_a_server_s_connection(frames: bytes, close: int) -> None:
    async def test() -> None:
        host = Host()
        async with await mqtt.serve(host, port=0, websocket=True) as server:
            reader, writer, carrier = await upgraded(server.port)
            connect = mqtt.Connect(client_identifier="x").encode()
            for at in range(len(connect)):  # frames and packets need not line up [MQTT-6.0.0-2]
                writer.write(carrier.send(connect[at : at + 1]))
            assert (await reader.readexactly(3))[0] == 0x82
            writer.write(b"\x89\x82mask\x00\x00")  # a ping of two bytes
            writer.write(frames)
            said = await reader.read()
            assert b"\x8a\x02ma" in said
            assert said.endswith(b"\x88\x02" + close.to_bytes(2))
            writer.close()
            await until(lambda: host.gone)
            assert host.events[-1].by in ("local", "transport")

    run(test())


def test_a_server_that_speaks_no_websocket() -> None:
    async def test() -> None:
        async with await mqtt.serve(Host(), port=0) as server, await mqtt.serve(Host(), port=0, websocket=True) as ws:
            for url in (f"ws://{HOST}:{server.port}", f"mqtt://{HOST}:{ws.port}"):
                with pytest.raises(ConnectionLost):
                    await mqtt.connect(url, timeout=5).open()

    run(test())


# ---- events on their way to the host


class Told:
    """A connection without bytes: only what a driver needs of it."""

    pending_bytes = 0
    wants_read = True
    should_close = False
    over = False

    def next_timeout(self) -> float | None:
        return None

    def buffers_to_send(self) -> list[bytes]:
        return []

    def changes(self) -> list[Any]:
        return []

    def close(self, *, immediate: bool = False) -> list[Any]:
        if self.over:
            raise LocalProtocolError("the connection is over")
        return [Disconnected("local")]


class Listener:
    """A host that notes events. A tuple is an event that brings others; an exception is raised."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: self.reported.append(context["exception"])
        )
        self.connection = Told()
        self.driver = Driver(self.connection, self)  # type: ignore[arg-type]

    def handle(self, event: Any) -> None:
        self.seen.append(event)
        if type(event) is tuple:
            self.driver.update(list(event))
        elif isinstance(event, BaseException):
            raise event


class Collector(Listener):
    """One that takes numbers in runs."""

    def handle_run(self, events: list[Any], at: int) -> int:
        first = at
        while at < len(events) and type(events[at]) is int:
            if events[at] < 0:
                raise ValueError("negative")
            at += 1
        if at > first:
            self.seen.append(events[first:at])
        return at


def test_events_of_a_call_inside_a_handler_come_after_those_before() -> None:
    async def test() -> None:
        host = Listener()
        host.driver.update([1, (4, (6,)), 2, 3, (5,)])
        assert host.seen == [1, (4, (6,)), 2, 3, (5,), 4, (6,), 5, 6]

    run(test())


def test_a_host_may_take_events_in_runs() -> None:
    async def test() -> None:
        host = Collector()
        events = [1, 2, "a", (4, 5, "b"), 3]
        host.driver.update(events)
        assert host.seen == [[1, 2], "a", (4, 5, "b"), [3], [4, 5], "b"]
        assert events == [1, 2, "a", (4, 5, "b"), 3]

    run(test())


@pytest.mark.parametrize("kind", [Listener, Collector])
def test_an_exception_of_a_host_drops_the_connection(kind: type[Listener]) -> None:
    """What has arrived before the end of the connection is still handled; the end comes once, last."""

    async def test() -> None:
        host = kind()
        error = ValueError("no")
        host.driver.update(["a", error, "b"])
        assert host.seen == ["a", error, "b", Disconnected("local")]
        assert host.reported == [error]
        assert host.driver.error is error

    run(test())


@pytest.mark.parametrize("ended", [False, True])
def test_an_exception_in_a_run_drops_the_connection(ended: bool) -> None:
    async def test() -> None:
        host = Collector()
        host.connection.over = ended
        end = Disconnected("peer")
        host.driver.update([1, "a", -1, 2, *([end] if ended else [])])
        assert host.seen == [[1], "a", end if ended else Disconnected("local")]
        assert [str(error) for error in host.reported] == ["negative"]

    run(test())


def test_events_behind_one_that_is_interrupted_are_not_lost() -> None:
    async def test() -> None:
        host = Listener()
        interrupt = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            host.driver.update([1, (4,), interrupt, 2])
        assert host.seen == [1, (4,), interrupt]
        host.driver.update()
        assert host.seen == [1, (4,), interrupt, 2, 4]

    run(test())


# ---- what is left to do for an event


class Stepping(Listener):
    """A host that does something in steps for each text: a step for each letter. A capital in it raises."""

    def handle(self, event: Any) -> None:
        super().handle(event)
        if type(event) is str:
            self.driver.later(self.letters(event))

    def letters(self, text: str) -> Iterator[int]:
        for letter in text:
            if letter.isupper():
                raise LocalProtocolError("the connection is over")
            self.seen.append(letter)
            yield 1


def test_the_next_event_comes_after_the_last_step() -> None:
    async def test() -> None:
        host = Stepping()
        host.driver.update(["ab", 1, ("cd", "e"), 2])
        assert host.seen == ["ab", "a", "b", 1, ("cd", "e"), 2, "cd", "c", "d", "e", "e"]

    run(test())


def test_steps_that_are_asked_for_twice_come_one_after_the_other() -> None:
    async def test() -> None:
        host = Stepping()

        def more() -> Iterator[int]:
            host.seen.append("more")
            yield 1
            host.driver.later(host.letters("xy"))  # by a step
            host.seen.append("last")

        host.driver.later(more())  # outside an event: they are taken immediately
        assert host.seen == ["more", "last", "x", "y"]
        host.driver.update([1])
        assert host.seen[4:] == [1]

    run(test())


def test_steps_that_are_interrupted_go_on() -> None:
    async def test() -> None:
        host = Stepping()

        def steps() -> Iterator[int]:
            yield 1
            host.driver.later(host.letters("z"))
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            host.driver.later(steps())
        host.driver.update([1])
        assert host.seen == ["z", 1]

    run(test())


@pytest.mark.parametrize("over", [False, True])
def test_a_step_that_answers_after_the_end_has_no_receiver(over: bool) -> None:
    """A step has no receiver for its answer once the connection is over. Before that it is the host's fault."""

    async def test() -> None:
        host = Stepping()
        host.connection.over = over
        if over:
            host.driver.update([Disconnected("peer")])
        host.driver.later(host.letters("aBc"))
        assert host.seen == ([Disconnected("peer"), "a"] if over else ["a", Disconnected("local")])
        assert len(host.reported) == (not over)

    run(test())


class Storing(Told):
    """A connection whose bytes belong to records."""

    def __init__(self) -> None:
        self.queued: list[bytes] = []

    def buffers_to_send(self) -> list[bytes]:
        queued, self.queued = self.queued, []
        return queued


@pytest.mark.parametrize("order", ["the earlier one is done first", "the later one fails first"])
def test_a_transaction_that_fails_while_an_earlier_one_is_written_drops_the_connection(order: str) -> None:
    """Bytes wait for the earlier one; records that were asked for meanwhile follow it. Nothing is written after a failure."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        earlier, later = loop.create_future(), loop.create_future()
        answers = [earlier, later, later, None]
        asked: list[Any] = []

        def store(changes: list[Any]) -> asyncio.Future[None] | None:
            asked.append(changes)
            return answers.pop(0) if answers else None

        host, connection = Listener(), Storing()
        host.driver = driver = Driver(connection, host, store=store)  # type: ignore[arg-type]
        sink: Any = Sink()
        dropped: list[bool] = []
        sink.abort = lambda: dropped.append(True)
        driver.connection_made(sink)
        connection.queued.append(b"first")
        driver.update()
        await asyncio.sleep(0.01)
        assert len(asked) == 1
        for _ in range(2):  # the second time nothing is new: the store says the same transaction
            connection.queued.append(b"second")
            driver.update()
            await asyncio.sleep(0.01)
        assert len(asked) == 3
        assert len(later._callbacks or ()) == 1, "a stalled disk gets no callback in each iteration"
        assert (sink.written, dropped) == ([], [])
        error = OSError("the disk is full")
        if order.startswith("the earlier"):
            earlier.set_result(None)
            later.set_exception(error)
        else:
            later.set_exception(error)
            await asyncio.sleep(0.01)
            earlier.set_result(None)
        await asyncio.sleep(0.01)
        assert dropped
        assert driver.error is error
        assert b"second" not in b"".join(sink.written)

    run(test())
