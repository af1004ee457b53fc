"""How a WebSocket begins, RFC 6455, 4: its handshake may be lost in part, come late, follow other uses of HTTP on the connection
(RFC 9112, 9.3: connections are kept), and need not name a subprotocol."""

from __future__ import annotations

from typing import Any

import pytest

from lib.batches import decode_in_any_batches, rows_of
from lib.websocket import REQUEST, RESPONSE
from lib.wire import Tcp, connack, connect, pcap, puback, publish, socket_frame

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1
MASK = b"\x9a\x01\xf7\x33"
NAMED = b"Sec-WebSocket-Protocol: mqtt\r\n"
PAGE = b"GET /mqtt HTTP/1.1\r\nHost: broker\r\n\r\n"
POST = b"POST /login HTTP/1.1\r\nHost: broker\r\nContent-Length: 4\r\n\r\nuser"
#: What may come before the upgrade: request, response.
BEFORE: dict[str, list[tuple[bytes, bytes]]] = {
    "nothing": [],
    "a refusal": [(PAGE, b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")],
    "a page": [(PAGE, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")],
    "a large page": [(PAGE, b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"hello" * 10000)],
    "a login": [(POST, b"HTTP/1.1 204 No Content\r\n\r\n")],
    "several": [(PAGE, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), (POST, b"HTTP/1.1 200 OK\r\n\r\n")] * 3,
    "a refused upgrade": [(REQUEST, b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")],
    "a refused upgrade without a subprotocol": [(REQUEST.replace(NAMED, b""), b"HTTP/1.1 403 Forbidden\r\n\r\n")],
}


def masked(octets: bytes) -> bytes:
    return socket_frame(octets, mask=MASK)


def messages(tcp: Tcp, count: int = 40) -> list[bytes]:
    """82 messages for the default count."""
    frames = [*tcp.send(CLIENT, masked(connect("ws"))), *tcp.send(SERVER, socket_frame(connack()))]
    for number in range(1, count + 1):
        frames += tcp.send(CLIENT, masked(publish("a/b", b"%d" % number, identifier=number)))
        frames += tcp.send(SERVER, socket_frame(puback(number)))
    return frames


def brief(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["kind"], r["direction"], r["status"], r["payload"]) for r in found]


def usual() -> list[tuple[Any, ...]]:
    tcp = Tcp(port=8080)
    frames = [*tcp.open(), *tcp.send(CLIENT, REQUEST), *tcp.send(SERVER, RESPONSE), *messages(tcp)]
    found, stats = rows_of(pcap(frames))
    assert len(found) == 82
    assert stats["websocket_flows"] == 1
    return brief(found)


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("request_named", [True, False])
@pytest.mark.parametrize("response_named", [True, False])
@pytest.mark.parametrize("port", [8080, 9001, 1883])
@pytest.mark.parametrize("size", [1448, 700])
def test_an_upgrade_that_is_not_the_first_request(
    before: str, request_named: bool, response_named: bool, port: int, size: int
) -> None:
    tcp = Tcp(port=port)
    frames = tcp.open()
    asked = REQUEST if request_named else REQUEST.replace(NAMED, b"")
    answered = RESPONSE if response_named else RESPONSE.replace(NAMED, b"")
    for request, response in (*BEFORE[before], (asked, answered)):
        frames += [*tcp.send(CLIENT, request, size), *tcp.send(SERVER, response, size)]
    found, stats = decode_in_any_batches(pcap([*frames, *messages(tcp), *tcp.close()]))
    assert brief(found) == usual()
    assert stats["websocket_flows"] == 1
    assert not any(reason["connections"] for reason in stats["not_decoded"].values())
    assert stats["buffered"] == 0


@pytest.mark.parametrize("before", [name for name in BEFORE if "upgrade" not in name])
def test_http_without_an_upgrade_is_counted_whole(before: str) -> None:
    for port in (80, 1883, 5672):
        tcp = Tcp(port=port)
        frames = tcp.open()
        octets = 0
        for request, response in BEFORE[before] * 3 or [(PAGE, b"HTTP/1.1 200 OK\r\n\r\n")]:
            frames += [*tcp.send(CLIENT, request), *tcp.send(SERVER, response)]
            octets += len(request) + len(response)
        frames += tcp.close()
        found, stats = decode_in_any_batches(pcap(frames))
        assert found == []
        assert stats["not_decoded"]["not_recognised"] == {"connections": 1, "packets": len(frames), "bytes": octets}
        assert stats["carrier_bytes"] == stats["buffered"] == 0


def test_http_without_an_upgrade_is_not_searched_for_ever() -> None:
    tcp = Tcp(port=80)
    frames = [*tcp.open(), *tcp.send(CLIENT, PAGE), *tcp.send(SERVER, b"HTTP/1.1 200 OK\r\n\r\n" + bytes(2 << 20))]
    frames += [*tcp.send(CLIENT, REQUEST), *tcp.send(SERVER, RESPONSE), *messages(tcp)]
    found, stats = decode_in_any_batches(pcap(frames))
    assert found == []
    assert stats["not_decoded"]["not_recognised"]["packets"] == len(frames)


@pytest.mark.parametrize("rules", [(), "tcp.port==9001,mqtt"])
@pytest.mark.parametrize("missing", [(3,), (4,), (3, 4), range(4), range(5), (0, 3), (1, 4), (2, 3, 4)], ids=repr)
def test_a_handshake_that_was_not_captured_whole(missing: Any, rules: Any) -> None:
    """Packets 3 and 4 are GET and 101. At most the messages next to the hole are lost, and no payload becomes a message."""
    tcp = Tcp(port=9001)
    frames = [*tcp.open(), *tcp.send(CLIENT, REQUEST), *tcp.send(SERVER, RESPONSE), *messages(tcp)]
    found, stats = decode_in_any_batches(pcap([f for i, f in enumerate(frames) if i not in missing]), decode_as=rules)
    good = sorted((row for row in brief(found) if row[2] == "ok"), key=lambda row: row[1])  # a hole is waited for
    assert good == sorted((row for row in usual() if row in good), key=lambda row: row[1])
    assert len(good) >= 80
    assert {r["status"] for r in found} <= {"ok", "gap"}
    assert stats["websocket_flows"] == 1
    if 0 not in missing and stats["gaps"]:  # the beginning is known, so what is missing is reported
        lost = {direction for direction, packet in ((0, 3), (1, 4)) if packet in missing}
        assert {r["direction"] for r in found if r["status"] == "gap"} == lost


@pytest.mark.parametrize("lost_get", [True, False])
def test_a_response_after_several_frames_of_the_client(lost_get: bool) -> None:
    tcp = Tcp(port=8080)
    opening = tcp.open()
    request, response = tcp.send(CLIENT, REQUEST), tcp.send(SERVER, RESPONSE)
    said = messages(tcp)
    client = [frame for i, frame in enumerate(said) if i % 2 == 0][:6]
    rest = [frame for frame in said if frame not in client]
    found, _ = decode_in_any_batches(pcap([*opening, *([] if lost_get else request), *client, *response, *rest]))
    good = sorted(row for row in brief(found) if row[2] == "ok" and row[0] != "CONNACK")
    assert good == sorted(row for row in usual() if row in good)
    assert len(good) >= 80


@pytest.mark.parametrize("named", [True, False])
def test_an_upgrade_to_something_else(named: bool) -> None:
    """Frames of other protocols, and a subprotocol that is none of ours."""
    request = REQUEST.replace(b"Protocol: mqtt", b"Protocol: soap") if named else REQUEST.replace(NAMED, b"")
    tcp = Tcp(port=8080)
    frames = [*tcp.open(), *tcp.send(CLIENT, request), *tcp.send(SERVER, RESPONSE.replace(NAMED, b""))]
    for number in range(30):
        text = b'{"id": %d, "method": "subscribe"}' % number
        frames += [*tcp.send(CLIENT, masked(text)), *tcp.send(SERVER, socket_frame(text, first=0x81))]
    found, stats = decode_in_any_batches(pcap(frames))
    assert found == []
    assert stats["not_decoded"]["not_recognised"]["packets"] == len(frames)
