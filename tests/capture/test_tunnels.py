"""Tunnels through proxies before the client's first byte: SOCKS5 (RFC 1928, RFC 1929) and CONNECT of HTTP (RFC 9110, 9.3.6)."""

from __future__ import annotations

import io
import random
import socket
from typing import Any

import pytest

from lib.batches import decode_in_any_batches, rows_of
from lib.openings import OTHERS, OURS
from lib.protocols import PORTS
from lib.websocket import REQUEST, RESPONSE
from lib.wire import Tcp, connack, connect, pcap, publish, socket_frame
from wirefmt import capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

SECRET = b"hunter2-hunter2"
REPLY = b"\x05\0\0\x01\0\0\0\0\0\0"
ENDS = {1: socket.inet_pton(socket.AF_INET, "192.0.2.2"), 4: socket.inet_pton(socket.AF_INET6, "2001:db8::2")}
PORT = b"\x07\x5b"  # 1883
HTTP = b"CONNECT broker.example:1883 HTTP/1.1\r\nHost: broker.example:1883\r\n"
OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
#: name -> what the client says, what the server says, headers of the row
TUNNELS: dict[str, tuple[bytes, bytes, dict[str, str]]] = {
    "socks-name": (
        b"\x05\x01\0" + b"\x05\x01\0\x03\x0ebroker.example" + PORT,
        b"\x05\0" + REPLY,
        {"server_name": "broker.example", "server_port": "1883"},
    ),
    "socks-ip": (
        b"\x05\x03\0\x01\x02" + b"\x05\x01\0\x01" + ENDS[1] + PORT,
        b"\x05\0" + b"\x05\0\0\x03\x04host\0\x50",
        {"server_ip": "192.0.2.2", "server_port": "1883"},
    ),
    "socks-ipv6": (
        b"\x05\x01\0" + b"\x05\x01\0\x04" + ENDS[4] + PORT,
        b"\x05\0" + b"\x05\0\0\x04" + bytes(16) + b"\0\x50",
        {"server_ip": "2001:db8::2", "server_port": "1883"},
    ),
    "socks-password": (
        b"\x05\x02\0\x02" + b"\x01\x05alice" + bytes((len(SECRET),)) + SECRET + b"\x05\x01\0\x01" + ENDS[1] + PORT,
        b"\x05\x02\x01\0" + REPLY,
        {"server_ip": "192.0.2.2", "server_port": "1883"},
    ),
    "http": (HTTP + b"\r\n", OK, {"server_name": "broker.example", "server_port": "1883"}),
    "http-password": (
        HTTP + b"Proxy-Authorization: Basic " + SECRET + b"\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nVia: x\r\n\r\n",
        {"server_name": "broker.example", "server_port": "1883"},
    ),
    "http-ipv6": (
        b"CONNECT [2001:db8::2]:1883 HTTP/1.1\r\n\r\n", OK, {"server_name": "[2001:db8::2]", "server_port": "1883"},
    ),
}  # fmt: skip


def body(found: list[dict[str, Any]], offsets: tuple[int, int] = (0, 0)) -> list[dict[str, Any]]:
    """Rows without what the tunnel moves: packets, their times, and offsets."""
    without = {"frame_no", "ts", "ts_ns", "ts_first", "flow_id", "byte_offset"}
    return [
        {k: v for k, v in row.items() if k not in without} | {"at": row["byte_offset"] - offsets[row["direction"]]}
        for row in found
    ]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize("size", [1448, 1])
@pytest.mark.parametrize("tunnel", TUNNELS)
def test_a_tunnel_before_any_protocol(name: str, registered: bool, size: int, tunnel: str) -> None:
    """On any port, and split at each byte."""
    asked, answered, headers = TUNNELS[tunnel]
    first, answer, _ = OURS[name]
    port = PORTS[name] if registered else 7777
    plain, through = Tcp(port=port), Tcp(port=port)
    usual, _ = rows_of(pcap([*plain.open(), *plain.send(0, first, size), *plain.send(1, answer, size)]))
    frames = [*through.open(), *through.send(0, asked, size), *through.send(1, answered, size)]
    frames += [*through.send(0, first, size), *through.send(1, answer, size)]
    (row, *rest), stats = rows_of(pcap(frames), detail=True)
    assert body([{**r, "detail": None} for r in rest], (len(asked), len(answered))) == body(
        [{**r, "detail": None} for r in usual]
    )
    kind = "SOCKS5" if tunnel.startswith("socks") else "HTTP CONNECT"
    assert (row["protocol"], row["kind"], row["operation"], row["status"]) == (name, kind, "connect", "ok")
    assert (row["direction"], row["byte_offset"], row["wire_size"]) == (0, 0, len(asked))
    assert dict(row["headers"]) == headers
    host, port_ = headers.values()
    assert row["detail"] == f"to {host} port {port_}"
    assert not any(reason["connections"] for reason in stats["not_decoded"].values())
    assert stats["carrier_bytes"] == len(answered)
    with capture.read(io.BytesIO(pcap(frames)), table="connections") as reader:
        [connection] = pa.table(reader).to_pylist()
    leads_to = f"[{host}]:{port_}" if ":" in host else f"{host}:{port_}"
    assert (connection["proxied_client"], connection["proxied_server"]) == (None, leads_to)


@pytest.mark.parametrize("tunnel", ["socks-password", "http-password"])
def test_no_secret_is_in_a_row(tunnel: str) -> None:
    asked, answered, _ = TUNNELS[tunnel]
    tcp = Tcp()
    frames = [
        *tcp.open(),
        *tcp.send(0, asked),
        *tcp.send(1, answered),
        *tcp.send(0, connect()),
        *tcp.send(1, connack()),
    ]
    found, _ = rows_of(pcap(frames), detail=True, raw=True)
    assert SECRET not in repr(found).encode()
    assert b"alice" not in repr(found).encode()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tunnel", TUNNELS)
def test_any_order_of_directions_and_batches(tunnel: str, seed: int) -> None:
    chance = random.Random(seed)
    asked, answered, _ = TUNNELS[tunnel]
    tcp = Tcp(port=1883)
    frames = tcp.open()
    client = [*tcp.send(0, asked, 20), *tcp.send(0, connect()), *tcp.send(0, publish("t", b"x") * 3)]
    server = [*tcp.send(1, answered, 7), *tcp.send(1, connack())]
    while client or server:
        frames.append((client if not server or (client and chance.random() < 0.5) else server).pop(0))
    found, stats = decode_in_any_batches(pcap(frames))
    assert [r["kind"] for r in found if r["direction"] == 0][1:] == ["CONNECT", "PUBLISH", "PUBLISH", "PUBLISH"]
    assert [r["kind"] for r in found if r["direction"] == 1] == ["CONNACK"]
    assert {r["status"] for r in found} == {"ok"}
    assert stats["buffered"] == 0


def test_a_tunnel_before_a_websocket_and_behind_a_proxy_header() -> None:
    asked, answered, _ = TUNNELS["http"]
    tcp = Tcp(port=8080)
    header = b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 8080\r\n"
    frames = [
        *tcp.open(),
        *tcp.send(0, header + asked),
        *tcp.send(1, answered),
        *tcp.send(0, REQUEST),
        *tcp.send(1, RESPONSE),
    ]
    frames += [*tcp.send(0, socket_frame(connect(), mask=b"abcd")), *tcp.send(1, socket_frame(connack()))]
    found, stats = decode_in_any_batches(pcap(frames))
    assert [(r["kind"], r["byte_offset"]) for r in found][:2] == [("PROXY", 0), ("HTTP CONNECT", len(header))]
    assert [r["kind"] for r in found][2:] == ["CONNECT", "CONNACK"]
    assert stats["websocket_flows"] == 1


def test_a_client_that_has_to_ask_again() -> None:
    """407 with a body, then the same with a password (RFC 9110, 15.5.8)."""
    refused = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 5\r\n\r\nHTTP/"
    tcp = Tcp(port=8080)
    frames = [*tcp.open(), *tcp.send(0, TUNNELS["http"][0]), *tcp.send(1, refused, 30)]
    frames += [
        *tcp.send(0, TUNNELS["http-password"][0]),
        *tcp.send(1, OK),
        *tcp.send(0, connect()),
        *tcp.send(1, connack()),
    ]
    found, _ = decode_in_any_batches(pcap(frames))
    assert [r["kind"] for r in found] == ["HTTP CONNECT", "HTTP CONNECT", "CONNECT", "CONNACK"]
    assert [r["byte_offset"] for r in found][:2] == [0, len(TUNNELS["http"][0])]


def test_an_answer_that_was_not_captured() -> None:
    tcp = Tcp(port=1883)
    frames = [*tcp.open(), *tcp.send(0, TUNNELS["socks-name"][0])]
    tcp.send(1, TUNNELS["socks-name"][1])
    frames += [*tcp.send(0, connect()), *tcp.send(1, connack()), *tcp.send(1, publish("t", b"x")), tcp.segment(0)]
    found, _ = decode_in_any_batches(pcap(frames))
    good = [(r["kind"], r["direction"]) for r in found if r["status"] == "ok"]
    assert good == [("SOCKS5", 0), ("CONNECT", 0), ("CONNACK", 1), ("PUBLISH", 1)]
    assert {r["status"] for r in found} == {"ok", "gap"}


@pytest.mark.parametrize("answer", [b"\x05\xff", b"\x05\0\x05\x05\0\x01" + bytes(6), b"\x05\x02\x01\x01"])
def test_a_tunnel_that_is_refused_is_counted(answer: bytes) -> None:
    asked = TUNNELS["socks-ip"][0]
    tcp = Tcp(port=1080)
    frames = [*tcp.open(), *tcp.send(0, asked), *tcp.send(1, answer), *tcp.close()]
    found, stats = decode_in_any_batches(pcap(frames))
    assert found == []
    counts = stats["not_decoded"]["not_recognised"]
    assert counts["connections"] == 1
    assert counts["bytes"] + stats["carrier_bytes"] == len(asked) + len(answer)
    assert stats["buffered"] == 0


@pytest.mark.parametrize("name", OTHERS)
def test_other_protocols_in_a_tunnel_are_counted(name: str) -> None:
    first, answer = OTHERS[name]
    asked, answered, _ = TUNNELS["socks-name"]
    tcp = Tcp(port=1080)
    frames = [
        *tcp.open(),
        *tcp.send(0, asked),
        *tcp.send(1, answered),
        *tcp.send(0, first),
        *tcp.send(1, answer),
        *tcp.close(),
    ]
    found, stats = decode_in_any_batches(pcap(frames))
    assert [r for r in found if r["status"] == "ok"] == []
    counts = sum(reason["bytes"] for reason in stats["not_decoded"].values()) + stats["carrier_bytes"]
    assert counts == len(asked) + len(answered) + len(first) + len(answer)
    assert stats["buffered"] == 0


WRONG = [
    b"\x05\0", b"\x05\x01\xff", b"\x05\x01\x50", b"\x05\x01\0\x04\x01\0\x01", b"\x05\x01\0\x05\x02\0\x01",
    b"\x05\x01\0\x05\x01\x01",
    b"\x05\x01\0\x05\x01\0\x02\0", b"\x05\x01\0\x05\x01\0\x03\0", b"\x05\x01\0\x05\x01\0\x03\x02a\n\0\x50",
    b"CONNECT broker HTTP/1.1\r\n\r\n", b"CONNECT :1883 HTTP/1.1\r\n\r\n", b"CONNECT broker:99999 HTTP/1.1\r\n\r\n",
    b"CONNECT broker:18a HTTP/1.1\r\n\r\n", b"CONNECT broker:1883 FTP/1.1\r\n\r\n",
    b"CONNECT " + b"a" * 400 + b":1 HTTP/1.1\r\n\r\n",
    b"CONNECT b\x80:1883 HTTP/1.1\r\n\r\n", HTTP + b"X: " + b"a" * 20000 + b"\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("asked", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("size", [1448, 1])
def test_what_is_not_a_request(asked: bytes, size: int) -> None:
    tcp = Tcp(port=7777)
    frames = [
        *tcp.open(),
        *tcp.send(0, asked, size if len(asked) < 1000 else 1448),
        *tcp.send(0, connect()),
        *tcp.close(),
    ]
    found, stats = decode_in_any_batches(pcap(frames))
    assert found == []
    assert stats["not_decoded"]["not_recognised"]["bytes"] == len(asked) + len(connect())
    assert stats["buffered"] == 0


def test_tunnels_in_tunnels_are_bounded() -> None:
    asked, answered, _ = TUNNELS["socks-name"]
    for count in (4, 5, 50):
        tcp = Tcp(port=7777)
        frames = tcp.open()
        for _ in range(count):
            frames += [*tcp.send(0, asked), *tcp.send(1, answered)]
        frames += [*tcp.send(0, connect()), *tcp.send(1, connack()), *tcp.close()]
        found, stats = decode_in_any_batches(pcap(frames))
        assert [r["kind"] for r in found] == (["SOCKS5"] * 4 + ["CONNECT", "CONNACK"] if count == 4 else [])
        assert stats["buffered"] == 0
