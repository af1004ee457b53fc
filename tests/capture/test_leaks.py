"""Captures leave nothing behind: when they are read to the end, and when a reading is given up in the middle."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

from lib.leaks import leaks
from lib.paths import DATA
from lib.wire import Tcp, connack, connect, pcap, publish
from wirefmt.capture import CaptureDecoder

TLS = DATA / "tls"
CLIENT, SERVER = 0, 1

SCENES = (
    "amqp10-tls-protocol-header", "begun-later-tls13", "keys-wrong-for-one", "late-tls12", "lost-one-c2s-tls13",
    "lost-record-c2s-tls12-cbc", "lost-record-s2c-tls12-gcm", "mqtt-tls12-renegotiation", "mqtt-tls12-ticket",
    "mqtt-tls13-earlydata", "mqtt-tls13-keyupdate", "mqtt5-tls13-hrr", "nsq-tls12", "snapped-after-handshake-tls13",
    "wss-mqtt311-tls13-rabbitmq",
)  # fmt: skip


def whole(octets: bytes, **options: Any) -> None:
    """Read to the end."""
    decoder = CaptureDecoder(batch_rows=50, **options)
    decoder.begin_file("x")
    at = 0
    while at < len(octets):
        at += decoder.feed(octets[at:])
        decoder.take()
    while not decoder.end_file():
        decoder.take()
    while not decoder.finish():
        decoder.take()
    decoder.take(final=True)


def dropped(octets: bytes, **options: Any) -> None:
    """Read a part, and then no more: a batch is full, or connections are open."""
    for rows in (1, 1000):
        for share in (3, 2, 1):
            decoder = CaptureDecoder(batch_rows=rows, **options)
            decoder.begin_file("x")
            decoder.feed(octets[: len(octets) // share])


@pytest.mark.parametrize("use", [whole, dropped])
@pytest.mark.parametrize("name", SCENES)
def test_nothing_is_left_of_tls(name: str, use: Callable[..., None]) -> None:

    pytest.importorskip("cryptography", reason="needs cryptography (pip install 'wirefmt[tls]')")
    (path,) = TLS.glob(f"{name}.pcap*")
    keys = TLS / "keys" / f"{name}.log"
    octets = gzip.decompress(path.read_bytes())
    log = str(keys if keys.exists() else TLS / "keys" / "keys-none.log")
    assert leaks(lambda: use(octets, keylog=log)) == {}


PROXY = b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 1883\r\n"
TALK = [(CLIENT, connect()), (SERVER, connack()), *((CLIENT, publish(f"plant/{i}", b"21.5")) for i in range(4))]
CONNECT = [(CLIENT, b"CONNECT broker:1883 HTTP/1.1\r\nHost: broker:1883\r\n\r\n"), (SERVER, b"HTTP/1.1 200 OK\r\n\r\n")]


def capture_of(port: int, said: list[tuple[int, bytes]], *, begun: bool = True) -> bytes:
    tcp = Tcp(port)
    frames = tcp.open() if begun else []
    for side, octets in said:
        frames += tcp.send(side, octets)
    return pcap(frames)


OPENINGS = {
    "a header and no more": capture_of(1883, [(CLIENT, PROXY)]),
    "a header, then none of ours": capture_of(
        9999, [(CLIENT, PROXY), (CLIENT, b"\xff" * 300), (SERVER, b"\xff" * 300)]
    ),
    "a header and half a message": capture_of(1883, [(CLIENT, PROXY + connect()[:5])]),
    "a header and messages": capture_of(1883, [(CLIENT, PROXY), *TALK]),
    "a tunnel": capture_of(3128, [*CONNECT, *TALK]),
    "a tunnel and no more": capture_of(3128, CONNECT),
    "late, on a port of its own": capture_of(40001, 3 * TALK[2:], begun=False),
    "late, on the protocol's port": capture_of(1883, 3 * TALK[2:], begun=False),
}


@pytest.mark.parametrize("options", [{}, {"transport": True}], ids=str)
@pytest.mark.parametrize("use", [whole, dropped])
@pytest.mark.parametrize("opening", OPENINGS)
def test_nothing_is_left_of_openings(opening: str, use: Callable[..., None], options: dict[str, bool]) -> None:
    assert leaks(lambda: use(OPENINGS[opening], **options)) == {}
