"""AMQP 1.0 that goes over to TLS (5.2.1): a header with protocol-id 2, the same one as the answer, then TLS. For NSQ see
tests/nsq/test_captures.py."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lib.wire import Tcp, pcap
from wirefmt import capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

TLS_HEADER, PLAIN_HEADER, SASL_HEADER = b"AMQP\x02\x01\0\0", b"AMQP\0\x01\0\0", b"AMQP\x03\x01\0\0"


def record(kind: int, body: bytes) -> bytes:
    """RFC 8446, 5.1."""
    return bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body


HELLO = record(22, b"\x01\0\0\xc8\x03\x03" + bytes(198))
ANSWER = record(22, b"\x02\0\0\x64\x03\x03" + bytes(98)) + record(20, b"\x01")
DATA = record(23, bytes(range(256)) * 4)


def kinds_and_tls(frames: list[bytes], **options: Any) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    reader = capture.read(io.BytesIO(pcap(frames)), **options)
    rows = pa.table(reader).to_pylist()
    return [(r["direction"], r["kind"], r["status"]) for r in rows], reader.stats["not_decoded"]["tls"]


CHANGED = [(0, "protocol-header", "ok"), (1, "protocol-header", "ok"), (1, None, "gap")]


@pytest.mark.parametrize("port", [5672, 12345])
@pytest.mark.parametrize("size", [1448, 3])
@pytest.mark.parametrize("batch_rows", [1, 100])
@pytest.mark.parametrize("waits", [True, False], ids=["waits", "in one write"])
def test_amqp10_over_tls_that_its_header_begins(port: int, size: int, batch_rows: int, waits: bool) -> None:
    tcp = Tcp(port=port)
    frames = tcp.open()
    if waits:
        frames += [*tcp.send(0, TLS_HEADER, size), *tcp.send(1, TLS_HEADER, size)]
        frames += [*tcp.send(0, HELLO, size), *tcp.send(1, ANSWER, size)]
    else:
        frames += [*tcp.send(0, TLS_HEADER + HELLO, size), *tcp.send(1, TLS_HEADER + ANSWER, size)]
    frames += [*tcp.send(0, DATA, size), *tcp.send(1, DATA, size), *tcp.close()]
    rows, tls = kinds_and_tls(frames, batch_rows=batch_rows)
    assert rows == CHANGED
    assert (tls["connections"], tls["bytes"]) == (1, len(HELLO + ANSWER + 2 * DATA))


def test_amqp10_over_tls_whose_client_s_header_was_not_captured() -> None:
    tcp = Tcp(port=5672)
    frames = tcp.open()
    tcp.send(0, TLS_HEADER)
    frames += [
        *tcp.send(1, TLS_HEADER),
        *tcp.send(0, HELLO),
        *tcp.send(1, ANSWER),
        *tcp.send(0, DATA),
        *tcp.send(1, DATA),
    ]
    rows, tls = kinds_and_tls(frames)
    assert {row for row in rows if row[2] not in ("ok", "gap")} == set()
    assert tls["connections"] == 1


@pytest.mark.parametrize("asked", [PLAIN_HEADER, SASL_HEADER])
def test_a_header_of_tls_as_a_refusal_is_no_tls(asked: bytes) -> None:
    """2.2: a server that does not accept the header sends one that it accepts, and closes."""
    tcp = Tcp(port=5672)
    rows, tls = kinds_and_tls([*tcp.open(), *tcp.send(0, asked), *tcp.send(1, TLS_HEADER), *tcp.close()])
    assert rows == CHANGED[:2]
    assert tls["connections"] == 0


def test_a_header_of_tls_that_is_refused_is_no_tls() -> None:
    tcp = Tcp(port=5672)
    frames = [*tcp.open(), *tcp.send(0, TLS_HEADER), *tcp.send(1, PLAIN_HEADER)]
    frames += [*tcp.send(0, PLAIN_HEADER), *tcp.send(1, bytes.fromhex("0000000802000000")), *tcp.close()]
    rows, tls = kinds_and_tls(frames)
    assert rows == [*CHANGED[:2], (0, "protocol-header", "ok"), (1, "empty", "ok")]
    assert tls["connections"] == 0
