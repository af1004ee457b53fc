"""The PROXY protocol: vectors by hand from HAProxy's doc/proxy-protocol.txt, and servers of all protocols with it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run, until
from lib.ports import free_port
from wirefmt import amqp091, amqp10, capture, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.broker.recording import Recorder
from wirefmt.connection import Disconnected, proxy
from wirefmt.connection.aio import proxied
from wirefmt.connection.proxy import LIMIT, REFUSAL, Header, crc32c, read_header
from wirefmt.errors import ConnectionLost, DecodeError, LimitExceeded, Malformed, Truncated

SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")
V1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 1883\r\n"
#: the same client in version 2
V2 = SIGNATURE + bytes.fromhex("2111 000c c0000207 c6336401 dc04 075b")
LOCAL = SIGNATURE + bytes.fromhex("2000 0000")
CLIENT = ("192.0.2.7", 56324)
FULL = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
PROTOCOLS: dict[str, Any] = {
    "mqtt": mqtt, "amqp": amqp091, "amqp10": amqp10, "nsq": nsq, "rocketmq": rocketmq, "phpmq": phpmq,
}  # fmt: skip


def reference(data: bytes) -> int:
    """CRC32c bit by bit: the reflected polynomial 0x1EDC6F41."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


# ---- headers


@pytest.mark.parametrize(
    ("data", "crc"),
    [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
)
def test_the_checksum_of_the_rfc(data: bytes, crc: int) -> None:
    """RFC 3720, B.4."""
    assert crc32c(data) == reference(data) == crc


def v2(rest: bytes, *, command: int = 0x21, family: int = 0x11, size: int | None = None) -> bytes:
    return SIGNATURE + bytes((command, family)) + (len(rest) if size is None else size).to_bytes(2) + rest


INET = bytes.fromhex("c0000207 c6336401 dc04 075b")
INET6 = bytes.fromhex("20010db8000000000000000000000001 20010db8000000000000000000000002 ffff 0000")
UNIX = b"/run/client".ljust(108, b"\0") + b"/run/server".ljust(108, b"\0")

READ = [
    (V1, Header(0, 1, False, "inet", "stream", CLIENT, ("198.51.100.1", 1883))),
    (b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
     Header(56, 1, False, "inet", "stream", ("255.255.255.255", 65535), ("255.255.255.255", 65535))),
    (b"PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", Header(0, 1, False, "inet", "stream", ("0.0.0.0", 0), ("0.0.0.0", 0))),
    (f"PROXY TCP6 {FULL} {FULL} 65535 65535\r\n".encode(),
     Header(104, 1, False, "inet6", "stream", (FULL, 65535, 0, 0), (FULL, 65535, 0, 0))),
    (b"PROXY TCP6 2001:DB8::1 :: 1 2\r\n",
     Header(0, 1, False, "inet6", "stream", ("2001:db8::1", 1, 0, 0), ("::", 2, 0, 0))),
    (b"PROXY UNKNOWN\r\n", Header(15, 1, transport="stream")),
    (f"PROXY UNKNOWN {FULL} {FULL} 65535 65535\r\n".encode(), Header(107, 1, transport="stream")),
    (b"PROXY UNKNOWN \xff anything\r\n", Header(0, 1, transport="stream")),
    (V2, Header(28, 2, False, "inet", "stream", CLIENT, ("198.51.100.1", 1883))),
    (v2(INET, family=0x12), Header(28, 2, False, "inet", "datagram", CLIENT, ("198.51.100.1", 1883))),
    (v2(INET6, family=0x21), Header(52, 2, False, "inet6", "stream", ("2001:db8::1", 65535, 0, 0), ("2001:db8::2", 0, 0, 0))),
    (v2(INET6, family=0x22), Header(52, 2, False, "inet6", "datagram", ("2001:db8::1", 65535, 0, 0), ("2001:db8::2", 0, 0, 0))),
    (v2(UNIX, family=0x31), Header(232, 2, False, "unix", "stream", "/run/client", "/run/server")),
    (v2(UNIX, family=0x32), Header(232, 2, False, "unix", "datagram", "/run/client", "/run/server")),
    (v2(bytes(216), family=0x31), Header(232, 2, False, "unix", "stream", "", "")),
    (v2(b"/" * 216, family=0x31), Header(232, 2, False, "unix", "stream", "/" * 108, "/" * 108)),
    (v2(b"\0name".ljust(216, b"\0"), family=0x31), Header(232, 2, False, "unix", "stream", "\0name", "")),
    (LOCAL, Header(16, 2, True)),
    (v2(b"\xff" * 7, command=0x20, family=0x11), Header(23, 2, True)),  # everything after LOCAL is discarded
    (v2(b"", family=0x00), Header(16, 2)),
    (v2(INET, family=0x00), Header(28, 2)),
    (v2(INET, family=0x10), Header(28, 2)),
    # records are skipped: ALPN "mqtt", NOOP, one for experiments
    (v2(INET + b"\x01\0\x04mqtt\x04\0\0\xf0\0\x01x"), Header(42, 2, False, "inet", "stream", CLIENT, ("198.51.100.1", 1883))),
    (v2(INET + b"\x20" + (LIMIT - 31).to_bytes(2) + bytes(LIMIT - 31)),
     Header(LIMIT, 2, False, "inet", "stream", CLIENT, ("198.51.100.1", 1883))),
]  # fmt: skip


@pytest.mark.parametrize(("data", "header"), READ, ids=range(len(READ)))
def test_headers_whatever_follows(data: bytes, header: Header) -> None:
    expected = Header(len(data), *(getattr(header, name) for name in Header.__slots__[1:]))
    assert header.size in (0, len(data))
    for rest in (b"", b"\r\n", b"AMQP\0\0\x09\x01"):
        assert read_header(data + rest) == expected


@pytest.mark.parametrize(("data", "header"), READ, ids=range(len(READ)))
def test_no_read_passes_the_end_of_a_header(data: bytes, header: Header) -> None:
    """Whatever the pieces, the bytes that are asked for are of the header, and the last of them completes it."""
    for piece in (1, 2, 5, LIMIT):
        at = 0
        while True:
            found = read_header(data[:at])
            if isinstance(found, Header):
                break
            assert 0 < found <= len(data) - at
            at += min(piece, found)
        assert at == found.size == len(data)


BAD = [
    b"CONNECT", b"\x10\x0c\0\x04MQTT", b"GET / HTTP/1.1", b"\x16\x03\x01", b"Proxy TCP4", b"PROXX",
    b"PROXY\r\n", b"PROXYTCP4 1.2.3.4 1.2.3.4 1 1\r\n", b"PROXY  TCP4 1.2.3.4 1.2.3.4 1 1\r\n",
    b"PROXY TCP5 1.2.3.4 1.2.3.4 1 1\r\n", b"PROXY tcp4 1.2.3.4 1.2.3.4 1 1\r\n", b"PROXY UNKNOWNS\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1 \r\n", b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1 1\r\n",
    b"PROXY TCP4 01.2.3.4 1.2.3.4 1 1\r\n", b"PROXY TCP4 1.2.3 1.2.3.4 1 1\r\n", b"PROXY TCP4 1.2.3.256 1.2.3.4 1 1\r\n",
    b"PROXY TCP4 ::1 ::1 1 1\r\n", b"PROXY TCP6 1.2.3.4 1.2.3.4 1 1\r\n", b"PROXY TCP6 ::1%lo ::1 1 1\r\n",
    b"PROXY TCP6 ::1::2 ::1 1 1\r\n", b"PROXY TCP6 1:2:3:4:5:6:7 ::1 1 1\r\n", b"PROXY TCP6 :: ::/0 1 1\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.4 01 1\r\n", b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 1\r\n", b"PROXY TCP4 1.2.3.4 1.2.3.4 +1 1\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 ١ 1\r\n".encode(), "PROXY TCP4 ١.2.3.4 1.2.3.4 1 1\r\n".encode(),
    b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1\n", b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1\rx", b"PROXY UNKNOWN\n\r\n",
    b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n", b"PROXY UNKNOWN " + b"x" * 200,
    v2(INET, command=0x11), v2(INET, command=0x31), v2(INET, command=0x22), v2(INET, command=0x2F),
    v2(INET, family=0x41), v2(INET, family=0x13), v2(INET, family=0xFF),
    v2(INET[:11]), v2(INET6[:35], family=0x21), v2(INET, family=0x21), v2(UNIX[:215], family=0x31), v2(b""),
    v2(INET + b"\x01"), v2(INET + b"\x01\0"), v2(INET + b"\x01\0\x05mqtt"), v2(INET + b"\x03\0\x03abc"),
    SIGNATURE[:11] + b"\x0b" + V2[12:],
]  # fmt: skip


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_what_is_not_a_header(data: bytes) -> None:
    with pytest.raises(DecodeError) as raised:
        read_header(data)
    assert raised.value.protocol == "proxy"


@pytest.mark.parametrize("seed", range(20))
def test_changed_headers_raise_nothing_else(seed: int) -> None:
    """And what is taken has a size that is in the data."""
    chance = random.Random(seed)
    for _ in range(300):
        data = bytearray(chance.choice(READ)[0])
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 13, 10, 32, 255, chance.randrange(256)))
        data = data[: chance.choice((len(data), len(data), chance.randrange(len(data))))]
        with contextlib.suppress(DecodeError):
            found = read_header(bytes(data))
            assert found.size <= len(data) if isinstance(found, Header) else found > 0


def test_the_size_of_version_2_is_limited_at_its_length() -> None:
    with pytest.raises(LimitExceeded, match="needs 4097, has 4096"):
        read_header(v2(b"", size=LIMIT - 15))


@pytest.mark.parametrize("before", [b"", b"\x04\0\x02ab"])
def test_the_checksum_is_checked(before: bytes) -> None:
    """2.2.3: over the whole header, with zeros in place of the checksum."""
    head = SIGNATURE + b"\x21\x11" + (12 + len(before) + 7 + 3).to_bytes(2) + INET + before + b"\x03\0\x04"
    crc = reference(head + bytes(4) + b"\x04\0\0").to_bytes(4)
    header = read_header(head + crc + b"\x04\0\0")
    assert isinstance(header, Header)
    assert header.source == CLIENT
    for at in (18, len(head), len(head) + 3, len(head) + 4):  # an address, the checksum, the type of the last record
        broken = bytearray(head + crc + b"\x04\0\0")
        broken[at] ^= 0x40
        with pytest.raises(Malformed, match=r"the checksum does not match.*\[proxy-protocol 2.2.3\]"):
            read_header(bytes(broken))


# ---- servers


class Between:
    """A proxy: it sends `header` with the first bytes of each client, in one write."""

    def __init__(self, target: int, header: bytes) -> None:
        self.target, self.header = target, header
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        with contextlib.suppress(ConnectionError):
            first = await reader.read(65536)
            back, forth = await asyncio.open_connection(HOST, self.target)
            forth.write(self.header + first)
            await asyncio.gather(self.pass_on(reader, forth), self.pass_on(back, writer))
            for each in (forth, writer):
                each.close()
                await each.wait_closed()

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
            writer.write_eof()


@contextlib.asynccontextmanager
async def between(target: int, header: bytes) -> AsyncIterator[int]:
    """The port of a proxy."""
    proxy_ = Between(target, header)
    server = await asyncio.start_server(proxy_.serve, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await until(lambda: not proxy_.tasks)


def connected(name: str, url: str, context: Any = None) -> Any:
    """A client; RocketMQ's has a connection once it has asked for something."""
    return PROTOCOLS[name.partition("+")[0]].connect(url, **({"ssl": context} if context is not None else {}))


async def use(name: str, client: Any) -> None:
    if name.startswith("rocketmq"):
        await client.producer("group").send("Topic", b"x")
    elif name.startswith("nsq"):
        await client.publish("topic", b"x")
    elif name.startswith("phpmq"):
        await client.publish("queue", b"x")


@pytest.mark.parametrize("header", [V1, V2], ids=["v1", "v2"])
def test_the_address_is_the_clients_for_all_protocols(header: bytes) -> None:
    async def test() -> None:
        async with Broker(ports=dict.fromkeys(PROTOCOLS, 0), proxy_protocol=True) as b:
            for name in PROTOCOLS:
                if name == "phpmq":
                    continue  # its client is a matter of the next test
                async with between(b.port(name), header) as port:
                    b.rocketmq.address = f"{HOST}:{port}"
                    url = b.url(name).replace(str(b.port(name)), str(port))
                    async with connected(name, url) as client:
                        await use(name, client)
                        await until(lambda: b.clients)
                        assert {each.address for each in b.clients} == {CLIENT}
                    await until(lambda: not b.clients)

    run(test())


SERVES: dict[str, Callable[..., Any]] = {name: package.serve for name, package in PROTOCOLS.items()}
WEBSOCKETS = {"mqtt+ws": SERVES["mqtt"], "amqp10+ws": SERVES["amqp10"]}


async def disconnected(name: str, data: bytes, **options: Any) -> tuple[list[Any], Any, Any, bytes]:
    """The events and the address of a client that sends these bytes, the server's error, and what the client reads."""
    events: list[Any] = []
    peers: list[Any] = []

    class Kept:
        def handle(self, peer: Any, event: Any) -> None:
            peers.append(peer)
            events.append(event)

        def writable(self, peer: Any) -> None: ...

        def closed(self, peer: Any) -> None: ...

    more = {"websocket": True} if name.endswith("+ws") else {}
    async with await PROTOCOLS[name.partition("+")[0]].serve(Kept(), HOST, 0, **more, **options) as server:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(data)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            answer = await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        await until(lambda: not server.drivers and not server.undecided)
        return events, peers[0] if peers else None, server, answer


@pytest.mark.parametrize("header", [V1, V2, V1[:5], SIGNATURE], ids=["v1", "v2", "PROXY", "signature"])
@pytest.mark.parametrize("name", [*SERVES, *WEBSOCKETS])
def test_without_the_option_a_header_is_refused_at_once(name: str, header: bytes) -> None:
    async def test() -> None:
        events, peer, _, answer = await disconnected(name, header)
        assert [type(event) for event in events] == [Disconnected]
        assert isinstance(events[0].error, Malformed)
        assert REFUSAL in str(events[0].error)
        assert REFUSAL in events[0].reason
        assert peer.error is events[0].error
        assert answer == b"" or (name.endswith("+ws") and answer.startswith(b"HTTP/1.1 400 "))

    run(test(), 20.0)


@pytest.mark.parametrize(("data", "error"), [
    (b"\x10\x0c\0\x04MQTT\x04\x02\0\0\0\0", "no PROXY header"),
    (b"AMQP\0\0\x09\x01", "no PROXY header"),
    (b"  V2", "no PROXY header"),
    (b"GET /mqtt HTTP/1.1\r\n", "no PROXY header"),
    (b"PROXY TCP4 1.2.3.4\r\n", "not PROXY, TCP4, TCP6 or UNKNOWN"),
])  # fmt: skip
@pytest.mark.parametrize("name", [*SERVES, *WEBSOCKETS])
def test_with_the_option_a_header_is_required(name: str, data: bytes, error: str) -> None:
    async def test() -> None:
        events, peer, _, answer = await disconnected(name, data, proxy_protocol=True)
        assert [type(event) for event in events] == [Disconnected]
        assert error in str(events[0].error)
        assert peer.error is events[0].error
        assert answer == b""

    run(test(), 20.0)


@pytest.mark.parametrize("name", SERVES)
@pytest.mark.parametrize(("piece", "header"), [(1, V1), (3, V2), (1, v2(INET6, family=0x21))], ids=["v1", "v2", "v6"])
def test_headers_in_pieces(name: str, piece: int, header: bytes) -> None:
    """The reads are of one byte each, if the network is that slow."""

    async def test() -> None:
        peers: list[Any] = []

        async def handler(peer: Any) -> None:
            peers.append(peer)

        async with await SERVES[name](handler, HOST, 0, proxy_protocol=True) as server:
            _, writer = await asyncio.open_connection(HOST, server.port)
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(header), piece):
                assert not server.drivers
                writer.write(header[at : at + piece])
                await asyncio.sleep(0)
            await until(lambda: server.drivers)
            host: Any = next(iter(server.drivers)).host
            assert host.address == (("2001:db8::1", 65535, 0, 0) if len(header) == 52 else CLIENT)
            writer.close()
            await until(lambda: not server.drivers)

    run(test())


@pytest.mark.parametrize(("header", "address"), [
    (LOCAL, None), (b"PROXY UNKNOWN\r\n", None), (v2(b"", family=0), None),
    (v2(UNIX, family=0x31), "/run/client"), (v2(bytes(216), family=0x31), ""),
])  # fmt: skip
def test_addresses_that_are_not_those_of_the_internet(header: bytes, address: str | None) -> None:
    """LOCAL and what is unspecified keep the transport's address."""

    async def test() -> None:
        async with Broker(ports={"mqtt": 0, "rocketmq": 0}, proxy_protocol=["mqtt", "rocketmq"]) as b:
            reader, writer = await asyncio.open_connection(HOST, b.port("mqtt"))
            writer.write(header + b"\x10\x0c\0\x04MQTT\x04\x02\0\0\0\0")
            assert await reader.readexactly(4) == b"\x20\x02\0\0"
            expected = writer.get_extra_info("sockname") if address is None else address or None
            assert [client.address for client in b.clients] == [expected]
            writer.close()
            async with (
                between(b.port("rocketmq"), header) as port,
                rocketmq.connect(f"rocketmq://{HOST}:{port}") as java,
            ):
                b.rocketmq.address = f"{HOST}:{port}"
                await java.producer("group").send("Topic", b"x")

    run(test())


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")
@pytest.mark.parametrize("header", [V1, V2], ids=["v1", "v2"])
def test_the_header_comes_before_tls_and_websockets(tmp_path: Path, header: bytes) -> None:
    """The first bytes of TLS come in one segment with the header."""
    server, client_tls = certificate(tmp_path)
    names = ("mqtt+tls", "mqtt+ws", "mqtt+wss", "amqp+tls", "amqp10+tls", "amqp10+wss", "rocketmq+tls", "nsq")

    async def test() -> None:
        async with Broker(ports=dict.fromkeys(names, 0), tls=server, proxy_protocol=names) as b:
            for name in names:
                context = client_tls if name.endswith(("tls", "wss")) else None
                async with between(b.port(name), header) as port:
                    b.rocketmq.address = f"{HOST}:{port}"
                    url = b.url(name).replace(str(b.port(name)), str(port))
                    client = nsq.connect(url, ssl=client_tls) if name == "nsq" else connected(name, url, context)
                    async with client:
                        await use(name, client)
                        await until(lambda: b.clients)
                        assert {each.address for each in b.clients} == {CLIENT}
                    await until(lambda: not b.clients)
            # a handshake that fails, one that is cut, and a client without TLS after its header
            for data in (b"\x10\x0c\0\x04MQTT\x04\x02\0\0\0\0", b"\x16\x03\x01\x02\x00\x01"):
                reader, writer = await asyncio.open_connection(HOST, b.port("mqtt+tls"))
                writer.write(header + data)
                writer.write_eof()
                with contextlib.suppress(ConnectionResetError):
                    await reader.read()
                writer.close()
            listener: Any = b.servers["mqtt+tls"]
            await until(lambda: not listener.undecided and not listener.drivers)

    run(test())


def test_amqp_on_one_port(tmp_path: Path) -> None:
    shared = free_port()

    async def test() -> None:
        async with Broker(ports={"amqp": shared, "amqp10": shared}, proxy_protocol=True) as b:
            for name in ("amqp", "amqp10"):
                async with between(shared, V2) as port, connected(name, f"amqp://{HOST}:{port}"):
                    await until(lambda: b.clients)
                    assert [client.address for client in b.clients] == [CLIENT]
                await until(lambda: not b.clients)
            reader, writer = await asyncio.open_connection(HOST, shared)
            writer.write(b"AMQP\0\0\x09\x01")
            assert await reader.read() == b""
            writer.close()
        async with Broker(ports={"amqp": shared, "amqp10": shared}) as b:
            reader, writer = await asyncio.open_connection(HOST, shared)
            writer.write(V2)
            assert await reader.read() == b""
            writer.close()
            await until(lambda: not b.clients)

    run(test())
    with pytest.raises(ValueError, match="on one port"):
        Broker(ports={"amqp": shared, "amqp10": shared}, proxy_protocol=["amqp"])
    with pytest.raises(ValueError, match="unknown listeners: mqtts"):
        Broker(proxy_protocol=["mqtts"])
    with pytest.raises(ValueError, match="a list of listeners"):
        Broker(proxy_protocol="mqtt")


@pytest.mark.parametrize("header", [V1, V2], ids=["v1", "v2"])
def test_nsqlookupd(header: bytes) -> None:
    async def ask(port: int, data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(data)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            answer = await reader.read()
        writer.close()
        return answer

    async def test() -> None:
        request = b"GET /ping HTTP/1.1\r\n\r\n"
        async with Broker(ports={"nsq": 0, "nsqlookupd": 0}, proxy_protocol=["nsqlookupd"]) as b:
            assert (await ask(b.port("nsqlookupd"), header + request)).endswith(b"\r\n\r\nOK")
            assert await ask(b.port("nsqlookupd"), request) == b""
        async with Broker(ports={"nsq": 0, "nsqlookupd": 0}) as b:
            assert (await ask(b.port("nsqlookupd"), request)).endswith(b"\r\n\r\nOK")
            assert await ask(b.port("nsqlookupd"), header) == b""

    run(test())


def test_a_recording_has_the_clients_address(tmp_path: Path) -> None:
    path = tmp_path / "r.pcapng"

    async def test() -> None:
        recorder = Recorder(path)
        b = Broker(ports={"mqtt": 0}, proxy_protocol=True, tap=lambda name, inner: recorder.tap(1883)(inner))
        async with b, between(b.port("mqtt"), V1) as port, mqtt.connect(f"mqtt://{HOST}:{port}"):
            pass
        recorder.close()

    run(test())
    import pyarrow as pa

    with capture.read(path) as reader:
        rows = list(pa.table(reader).to_pylist())
    assert [row["kind"] for row in rows] == ["CONNECT", "CONNACK", "DISCONNECT"]
    assert (rows[0]["src_ip"], rows[0]["src_port"]) == CLIENT


def test_time_is_limited_and_connections_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        events: list[Any] = []

        async def handler(peer: Any) -> None:
            async for event in peer:
                events.append(event)

        async with await mqtt.serve(handler, HOST, 0, proxy_protocol=True, most=2) as server:
            pairs = [await asyncio.open_connection(HOST, server.port) for _ in range(2)]
            pairs[0][1].write(V1[:20])
            await until(lambda: len(server.undecided) == 2)
            late = await asyncio.open_connection(HOST, server.port)
            with contextlib.suppress(ConnectionResetError):
                assert await late[0].read() == b""
            assert server.turned_away == 1
            with contextlib.suppress(ConnectionResetError):
                for reader, _ in pairs:
                    assert await reader.read() == b""
            assert [type(event.error) for event in events] == [Truncated, Truncated]
            assert "no complete PROXY header within 0.05 s" in str(events[0].error)
            for _, writer in [*pairs, late]:
                writer.close()
            await until(lambda: not server.drivers)
            # one that goes in its header, and one that goes before it
            for data in (V2[:20], b""):
                _, writer = await asyncio.open_connection(HOST, server.port)
                writer.write(data)
                writer.close()
            await until(lambda: len(events) == 3 and not server.drivers and not server.undecided)
            assert "the stream ended in the PROXY header" in str(events[2].error)
            # closing the server ends those that have not said anything
            reader, writer = await asyncio.open_connection(HOST, server.port)
            monkeypatch.setattr(proxied, "HEADER_TIMEOUT", 60.0)
            reader, writer = await asyncio.open_connection(HOST, server.port)
            await until(lambda: server.undecided)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()

    monkeypatch.setattr(proxied, "HEADER_TIMEOUT", 0.05)
    run(test())


def test_a_client_reports_the_refusal() -> None:
    async def test() -> None:
        async with Broker(ports={"mqtt": 0}) as b, between(b.port("mqtt"), V2) as port:
            with pytest.raises(ConnectionLost):
                await mqtt.connect(f"mqtt://{HOST}:{port}").open()

    run(test())
    assert proxy.REFUSAL == "a PROXY header and this listener does not take them (proxy_protocol)"
