"""AMQP in captures, by hand: contents over channels, deliveries over links, ports that both versions share, and streams
that never end what they begin."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lib.amqp_wire import (
    HEADER_091,
    HEADER_10,
    attach,
    body,
    data,
    frame,
    header,
    list8,
    performative,
    publish,
    short,
    transfer,
)
from lib.wire import Tcp, pcap, socket_frame
from wirefmt import amqp10, capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")


def rows(frames: list[bytes], **options: Any) -> list[dict[str, Any]]:
    return list(pa.table(capture.read(io.BytesIO(pcap(frames)), **options)).to_pylist())


def test_contents_are_folded_over_interleaved_channels() -> None:
    tcp = Tcp(port=5672)
    sent = HEADER_091 + publish(1, "x", "one") + publish(2, "", "two") + header(1, 6) + body(1, b"abc") + header(2, 2)
    sent += frame(8, 0, b"") + body(2, b"zz") + body(1, b"def")
    for size in (1448, 1):
        tcp = Tcp(port=5672)
        found = [r for r in rows([*tcp.open(), *tcp.send(0, sent, size)]) if r["kind"] == "basic.publish"]
        assert [(r["channel"], r["destination"], r["routing_key"], r["payload"]) for r in found] == [
            (2, "two", "two", b"zz"),
            (1, "x", "one", b"abcdef"),
        ]
        assert [r["amqp091"]["body_frames"] for r in found] == [1, 2]
        assert found[1]["byte_offset"] == 8


def test_a_body_that_is_too_long_and_a_body_without_anything() -> None:
    tcp = Tcp(port=5672)
    sent = HEADER_091 + publish(1, "x", "k") + header(1, 2) + body(1, b"abc") + body(3, b"?")
    found = rows([*tcp.open(), *tcp.send(0, sent)])
    assert [(r["status"], r["kind"]) for r in found[1:]] == [("malformed", "basic.publish"), ("malformed", "body")]
    assert "exceed" in found[1]["error"]


def test_contents_that_never_end_are_bounded() -> None:
    """One a channel: the oldest becomes a partial row, and memory does not grow with them."""
    tcp = Tcp(port=5672)
    sent = HEADER_091 + b"".join(publish(c, "x", "k") + header(c, 1 << 40) + body(c, b"abc") for c in range(1, 3000))
    found = rows([*tcp.open(), *tcp.send(0, sent), *tcp.close()])
    assert len(found) == 3000
    assert {r["status"] for r in found[1:]} == {"partial"}
    assert [r["error"].split(":")[0] for r in found[1:]].count("limit") == 2999 - 256


@pytest.mark.parametrize("limits", [{"max_message": 1000}, {"max_buffered": 5000}])
def test_limits_on_what_is_put_together(limits: dict[str, int]) -> None:
    tcp = Tcp(port=5672)
    sent = HEADER_091 + publish(1, "x", "k") + header(1, 10_000) + b"".join(body(1, b"x" * 100) for _ in range(100))
    found = rows([*tcp.open(), *tcp.send(0, sent)], limits=limits)
    assert found[1]["status"] == "partial"
    assert found[1]["error"].startswith("limit")
    assert len(found[1]["payload"]) <= 5000


def test_deliveries_are_joined_over_interleaved_links() -> None:
    message = data(b"a" * 100)
    sent = HEADER_10 + attach(0, "/queues/a") + attach(1, "/queues/b")
    sent += transfer(0, 0, message[:40], more=True) + transfer(1, 1, data(b"b"))
    sent += transfer(0, None, message[40:60], more=True) + transfer(0, 0, message[60:])
    for size in (1448, 1):
        tcp = Tcp(port=5672)
        found = [r for r in rows([*tcp.open(), *tcp.send(0, sent, size)]) if r["kind"] == "transfer"]
        assert [(r["status"], r["destination"], r["sequence"], r["payload"]) for r in found] == [
            ("ok", "/queues/b", 1, b"b"),
            ("ok", "/queues/a", 0, b"a" * 100),
        ]
        assert [r["amqp10"]["transfers"] for r in found] == [1, 3]


def test_aborted_and_detached_deliveries() -> None:
    tcp = Tcp(port=5672)
    sent = HEADER_10 + transfer(0, 0, data(b"a"), more=True) + transfer(0, 0, b"", aborted=True)
    sent += transfer(0, 1, data(b"b"), more=True) + performative(0x16, list8(b"\x43"))
    found = rows([*tcp.open(), *tcp.send(0, sent)])[1:]
    assert [(r["status"], r["kind"]) for r in found] == [("ok", "transfer"), ("partial", "transfer"), ("ok", "detach")]
    assert (found[0]["amqp10"]["aborted"], found[0]["payload"]) == (True, None)
    assert found[1]["error"].startswith("detach")
    assert found[1]["payload"] == b"b"


def test_a_transfer_without_payload_has_no_message() -> None:
    """3.2: a message has a body."""
    for sent in (transfer(0, 0, b""), transfer(0, 0, b"", more=True) + transfer(0, 0, b"")):
        for strictness, status in (("strict", "malformed"), ("lax", "ok")):
            tcp = Tcp(port=5672)
            _, row = rows([*tcp.open(), *tcp.send(0, HEADER_10 + sent)], strictness=strictness, raw=True)
            assert (row["status"], row["payload"], row["raw"]) == (status, None, None)
            assert "message has no body" in row["error"]


def test_deliveries_that_never_end_are_bounded() -> None:
    tcp = Tcp(port=5672)
    sent = HEADER_10 + b"".join(
        performative(
            0x14, list8(b"\x70" + h.to_bytes(4, "big"), b"\x43", b"\xa0\0", b"\x43", b"\x40", b"\x41"), data(b"x")
        )
        for h in range(3000)
    )
    found = rows([*tcp.open(), *tcp.send(0, sent), *tcp.close()])
    assert len(found) == 3001
    assert [r["error"].split(":")[0] for r in found[1:]].count("limit") == 3000 - 256


@pytest.mark.parametrize(
    ("octets", "protocol"), [(HEADER_091, "amqp091"), (HEADER_10, "amqp10"), (b"AMQP\3\1\0\0", "amqp10")]
)
@pytest.mark.parametrize("port", [5672, 5671, 4000])
def test_the_protocol_header_decides(octets: bytes, protocol: str, port: int) -> None:
    for size in (100, 1):
        tcp = Tcp(port=port)
        found = rows([*tcp.open(), *tcp.send(0, octets, size)])
        assert [(r["protocol"], r["kind"]) for r in found] == [(protocol, "protocol-header")]


@pytest.mark.parametrize(
    ("octets", "protocol"), [(publish(1, "x", "k") * 3, "amqp091"), (attach(0, "/queues/a") * 3, "amqp10")]
)
def test_without_a_header_the_frames_decide(octets: bytes, protocol: str) -> None:
    tcp = Tcp(port=5672)
    found = rows([*tcp.send(0, octets), *tcp.send(0, octets)])
    assert {r["protocol"] for r in found} == {protocol}


def test_credentials_are_left_out() -> None:
    """reference 1.4.2.2; 5.3.3.2"""
    secret = b"\0user\0pass"
    start_ok = (
        bytes.fromhex("000a000b 00000000") + short("PLAIN") + len(secret).to_bytes(4, "big") + secret + short("en")
    )
    octets = b"\2\1\0\0\0\x53\x41" + list8(b"\xa3\5PLAIN", b"\xa0" + bytes((len(secret),)) + secret)
    init = (len(octets) + 4).to_bytes(4, "big") + octets
    for sent, column, field in (
        (HEADER_091 + frame(1, 0, start_ok), "amqp091", "response"),
        (b"AMQP\3\1\0\0" + init, "amqp10", "initial_response"),
    ):
        tcp = Tcp(port=5672)
        frames = [*tcp.open(), *tcp.send(0, sent)]
        assert rows(frames)[1][column][field] is None
        assert rows(frames, expose_credentials=True)[1][column][field] == secret


def test_amqp_in_a_websocket() -> None:
    tcp = Tcp(port=80)
    request = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: amqp\r\n\r\n"
    answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: amqp\r\n\r\n"
    frames = [*tcp.open(), *tcp.send(0, request), *tcp.send(1, answer)]
    frames += tcp.send(0, socket_frame(HEADER_10 + attach(0, "/queues/a"), mask=b"abcd"))
    assert [(r["kind"], r["destination"]) for r in rows(frames)] == [("protocol-header", None), ("attach", "/queues/a")]


def link(handle: int, address: str) -> bytes:
    target = amqp10.Target(address=address)
    return amqp10.Attach(
        name="l", handle=handle, role=False, initial_delivery_count=0, source=amqp10.Source(), target=target
    ).encode()


def destinations(links: list[bytes], handles: list[int]) -> list[str | None]:
    """Of a transfer on each of these handles, behind those links."""
    tcp = Tcp(port=5672)
    message = amqp10.Message(body=b"x").encode()
    sent = [amqp10.Transfer(handle=h, delivery_id=i, payload=message).encode() for i, h in enumerate(handles)]
    found = rows([*tcp.open(), *tcp.send(0, HEADER_10 + b"".join(links + sent))])
    return [row["destination"] for row in found if row["kind"] == "transfer"]


def test_links_beyond_the_limit_have_no_address() -> None:
    """1024 of a connection are remembered; what is remembered is never another link's."""
    links = [link(h, f"q{h}") for h in range(1026)]
    assert destinations(links, [0, 1022, 1023, 1024, 1025]) == ["q0", "q1022", "q1023", None, None]
    detached = [amqp10.Detach(handle=7, closed=True).encode(), link(1025, "last")]
    assert destinations([*links[:1024], *detached], [7, 8, 1025]) == [None, "q8", "last"]
    again = [link(5, "other")]
    assert destinations([*links[:1024], *again], [4, 5]) == ["q4", "other"]


def test_addresses_beyond_the_limit_are_not_remembered() -> None:
    """1 MiB of a connection."""
    half = "h" * (1 << 19)
    assert destinations([link(0, half), link(1, half)], [0, 1]) == [half, half]
    assert destinations([link(0, half), link(1, half + "x"), link(2, "short")], [0, 1, 2]) == [half, None, "short"]
    assert destinations([link(0, half), link(1, half), link(2, "x")], [2]) == [None]
    freed = amqp10.Detach(handle=0, closed=True).encode()
    assert destinations([link(0, half), link(1, half), freed, link(2, half)], [1, 2]) == [half, half]


@pytest.mark.parametrize(
    ("letter", "octets", "attempts"),
    [
        ("b", "05", 6), ("b", "ff", None), ("B", "ff", 256), ("s", "0005", 6), ("s", "ffff", None), ("u", "ffff", 65536),
        ("I", "00000005", 6), ("I", "ffffffff", None), ("i", "00000005", 6), ("i", "ffffffff", None),
        ("l", "0000000000000005", 6), ("L", "0000000000000005", 6), ("l", "ffffffffffffffff", None), ("t", "01", None),
        ("S", "0000000135", None),
    ],
)  # fmt: skip
def test_attempts_count_the_deliveries_before(letter: str, octets: str, attempts: int | None) -> None:
    """A quorum queue tells in x-delivery-count how often it has delivered a message before; the integers of 0.9.1 by their
    letters (4.2.5.5 and RabbitMQ's errata)."""
    entry = short("x-delivery-count") + letter.encode() + bytes.fromhex(octets)
    deliver = bytes.fromhex("003c003c") + short("tag") + (1).to_bytes(8) + b"\0" + short("x") + short("k")
    content = bytes.fromhex("003c0000") + (1).to_bytes(8) + b"\x20\0" + len(entry).to_bytes(4) + entry
    tcp = Tcp(port=5672)
    sent = frame(1, 1, deliver) + frame(2, 1, content) + body(1, b"!")
    found = rows([*tcp.open(), *tcp.send(0, HEADER_091), *tcp.send(1, sent)])
    assert [(r["kind"], r["status"], r["attempts"]) for r in found[1:]] == [("basic.deliver", "ok", attempts)]


def test_the_beginning_of_a_frame_is_told_without_its_header() -> None:
    """A connection that ends in a body frame: seven octets before the payload are the frame's (4.2.3)."""
    tcp = Tcp(port=5672)
    octets = bytes(range(256)) * 2
    sent = HEADER_091 + publish(1, "x", "k") + header(1, len(octets)) + body(1, octets)
    found = rows([*tcp.open(), *tcp.send(0, sent[:-101]), *tcp.close()])
    assert [(r["kind"], r["status"], r["payload"]) for r in found[1:]] == [("basic.publish", "partial", octets[:-100])]
