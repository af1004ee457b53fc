"""PROXY headers, versions 1 and 2, before the client's first octet: HAProxy's doc/proxy-protocol.txt."""

from __future__ import annotations

import io
import socket
import struct
from typing import Any

import pytest

from lib.batches import decode_in_any_batches, rows_of
from lib.openings import OTHERS, OURS
from lib.protocols import PORTS
from lib.websocket import REQUEST, RESPONSE
from lib.wire import Tcp, connack, connect, pcap, publish, socket_frame
from wirefmt import capture
from wirefmt.capture._engine import CaptureDecoder
from wirefmt.connection import proxy

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

SIGN = b"\r\n\r\n\0\r\nQUIT\n"  # 2.2


def second(command: int, kind: int, rest: bytes) -> bytes:
    return SIGN + bytes((command, kind)) + struct.pack(">H", len(rest)) + rest


ENDS4 = socket.inet_pton(socket.AF_INET, "192.0.2.1") + socket.inet_pton(socket.AF_INET, "192.0.2.2")
ENDS6 = socket.inet_pton(socket.AF_INET6, "2001:db8::1") + socket.inet_pton(socket.AF_INET6, "2001:db8::2")
PORTS_OF = struct.pack(">HH", 56324, 1883)
#: header -> client's address and port, server's address and port
HEADERS: dict[bytes, tuple[str, ...]] = {
    b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 1883\r\n": ("192.0.2.1", "56324", "192.0.2.2", "1883"),
    b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 1883\r\n": ("2001:db8::1", "56324", "2001:db8::2", "1883"),
    b"PROXY UNKNOWN\r\n": (),
    b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n": (),
    second(0x21, 0x11, ENDS4 + PORTS_OF): ("192.0.2.1", "56324", "192.0.2.2", "1883"),
    second(0x21, 0x21, ENDS6 + PORTS_OF + b"\x02\0\3abc"): ("2001:db8::1", "56324", "2001:db8::2", "1883"),
    second(0x21, 0x31, bytes(216)): (),
    second(0x20, 0x00, b""): (),
    second(0x21, 0x11, ENDS4 + PORTS_OF + b"\xee" + struct.pack(">H", 5000) + bytes(5000)): (
        "192.0.2.1", "56324", "192.0.2.2", "1883",
    ),
}  # fmt: skip
NAMES = ("client_ip", "client_port", "server_ip", "server_port")


def body(found: list[dict[str, Any]], offset: int = 0) -> list[dict[str, Any]]:
    """Rows without what the header moves: packets, their times, and the offset of the client."""
    without = {"frame_no", "ts", "ts_ns", "ts_first", "flow_id", "byte_offset"}
    return [
        {k: v for k, v in row.items() if k not in without}
        | {"byte_offset": row["byte_offset"] - (offset if row["direction"] == 0 else 0)}
        for row in found
    ]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize("size", [1448, 5, 1])
@pytest.mark.parametrize("header", HEADERS, ids=lambda octets: repr(octets[:20]))
def test_a_header_before_any_protocol(name: str, registered: bool, size: int, header: bytes) -> None:
    first, answer, _ = OURS[name]
    port = PORTS[name] if registered else 7777
    plain, proxied = Tcp(port=port), Tcp(port=port)
    usual, _ = rows_of(pcap([*plain.open(), *plain.send(0, first, size), *plain.send(1, answer, size)]))
    frames = [*proxied.open(), *proxied.send(0, header + first, size), *proxied.send(1, answer, size)]
    (row, *rest), stats = rows_of(pcap(frames))
    assert body(rest, len(header)) == body(usual)
    assert (row["protocol"], row["kind"], row["operation"], row["status"]) == (name, "PROXY", "connect", "ok")
    assert (row["direction"], row["byte_offset"], row["wire_size"]) == (0, 0, len(header))
    assert row["payload"] == header
    assert dict(row["headers"] or []) == dict(zip(NAMES, HEADERS[header], strict=False))
    assert row["frame_no"] == 4 + (len(header) - 1) // size
    assert not any(reason["connections"] for reason in stats["not_decoded"].values())
    with capture.read(io.BytesIO(pcap(frames)), table="connections") as reader:
        [connection] = pa.table(reader).to_pylist()
    told = HEADERS[header]
    ends = [
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for host, port in zip(told[::2], told[1::2], strict=True)
    ]
    assert [connection["proxied_client"], connection["proxied_server"]] == (ends or 2 * [None])


@pytest.mark.parametrize("header", HEADERS, ids=lambda octets: repr(octets[:20]))
def test_what_servers_read(header: bytes) -> None:
    """The same headers, as `wirefmt.connection.proxy` reads them."""
    found = proxy.read_header(header) if len(header) <= proxy.LIMIT else None
    if found is None:
        return
    assert isinstance(found, proxy.Header)
    assert found.size == len(header)
    source = found.source if isinstance(found.source, tuple) else ()
    assert tuple(map(str, source[:2])) == HEADERS[header][:2]


@pytest.mark.parametrize("header", list(HEADERS)[:5], ids=lambda octets: repr(octets[:20]))
@pytest.mark.parametrize(("late", "server_first"), [(False, False), (False, True), (True, False)])
def test_order_and_batches(header: bytes, late: bool, server_first: bool) -> None:
    tcp = Tcp(port=1883)
    opening = [] if late else tcp.open()
    client = [*tcp.send(0, header), *tcp.send(0, connect()), *tcp.send(0, publish("t", b"x") * 3)]
    server = tcp.send(1, connack())
    frames = [*opening, *(server + client if server_first else client[:1] + server + client[1:]), *tcp.close()]
    found, _ = decode_in_any_batches(pcap(frames), detail=True)
    assert [r["kind"] for r in found if r["direction"] == 0] == ["PROXY", "CONNECT", "PUBLISH", "PUBLISH", "PUBLISH"]
    assert [r["kind"] for r in found if r["direction"] == 1] == ["CONNACK"]
    words = HEADERS[header]
    detail = f"client {words[0]} port {words[1]}, server {words[2]} port {words[3]}" if words else None
    assert next(r for r in found if r["kind"] == "PROXY")["detail"] == detail


def test_slices_have_it_once() -> None:
    frames = []
    for k in range(20):
        tcp = Tcp(port=1883, client_port=40000 + k)
        frames += [*tcp.open(), *tcp.send(0, next(iter(HEADERS)) + connect()), *tcp.send(1, connack())]
    whole, _ = rows_of(pcap(frames))
    parts = [row for i in range(3) for row in rows_of(pcap(frames), slice=(i, 3))[0]]
    assert sorted(map(repr, parts)) == sorted(map(repr, whole))
    assert sum(row["kind"] == "PROXY" for row in whole) == 20


def test_a_header_before_a_websocket() -> None:
    tcp = Tcp(port=8080)
    frames = [*tcp.open(), *tcp.send(0, next(iter(HEADERS)) + REQUEST), *tcp.send(1, RESPONSE)]
    frames += [*tcp.send(0, socket_frame(connect(), mask=b"abcd")), *tcp.send(1, socket_frame(connack()))]
    found, _ = decode_in_any_batches(pcap(frames))
    assert [r["kind"] for r in found] == ["PROXY", "CONNECT", "CONNACK"]


@pytest.mark.parametrize("name", OTHERS)
def test_others_behind_a_header_are_counted_whole(name: str) -> None:
    first, answer = OTHERS[name]
    header = next(iter(HEADERS))
    for port in (7777, 1883):
        tcp = Tcp(port=port)
        frames = [*tcp.open(), *tcp.send(0, header), *tcp.send(0, first), *tcp.send(1, answer), *tcp.close()]
        found, stats = decode_in_any_batches(pcap(frames))
        assert found == []
        assert stats["not_decoded"]["tls" if name == "tls" else "not_recognised"] == {
            "connections": 1, "packets": len(frames), "bytes": len(header) + len(first) + len(answer),
        }  # fmt: skip
        assert stats["buffered"] == 0


@pytest.mark.parametrize(
    "octets",
    [
        b"PROXY TCP4 192.0.2.1 192.0.2.2 56324\r\n", b"PROXY TCP5 a b 1 2\r\n", b"PROXY TCP4 a  b 1 2\r\n",
        b"PROXY UNKNOWN\n", b"PROXY TCP4 " + b"1" * 97, b"PROXY\r\n", SIGN + b"\x22\x11\0\0", SIGN + b"\x11\x11\0\0",
    ],
)  # fmt: skip
def test_what_is_no_header(octets: bytes) -> None:
    tcp = Tcp(port=1883)
    assert rows_of(pcap([*tcp.open(), *tcp.send(0, octets + connect()), *tcp.send(1, connack())]))[0] == []


def test_no_memory_is_kept() -> None:
    decoder = CaptureDecoder()
    decoder.begin_file("f")
    tcp = Tcp(port=1883)
    decoder.feed(pcap([*tcp.open(), *tcp.send(0, list(HEADERS)[-1] + b"\x10")]))
    assert decoder.stats["buffered"] > 5000
    while not decoder.end_file():
        decoder.take()
    assert decoder.stats["buffered"] == 0
    assert decoder.stats["not_decoded"]["not_recognised"]["bytes"] == len(list(HEADERS)[-1]) + 1
