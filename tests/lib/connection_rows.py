"""Rows of one connection in a capture, by what each side says."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lib.protocols import PORTS
from lib.wire import Tcp, pcap
from wirefmt import capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1
#: What a connection begins with, so that the octets behind it are known for what they are.
BEGIN: dict[str, tuple[tuple[int, bytes], ...]] = {
    "amqp091": ((CLIENT, b"AMQP\0\0\x09\1"),),
    "amqp10": ((CLIENT, b"AMQP\0\1\0\0"), (SERVER, b"AMQP\0\1\0\0")),
    "nsq": ((CLIENT, b"  V2"),),
}


def rows(protocol: str, *said: tuple[int, bytes], begin: bool = True, **options: Any) -> list[dict[str, Any]]:
    """Rows of one connection; of what was said behind its beginning."""
    tcp = Tcp(port=PORTS[protocol])
    first = BEGIN.get(protocol, ()) if begin else ()
    frames = tcp.open()
    for side, octets in (*first, *said):
        frames += tcp.send(side, octets)
    reading: dict[str, Any] = {"detail": True, "decode_as": f"tcp.port=={PORTS[protocol]},{protocol}"} | options
    with capture.read(io.BytesIO(pcap(frames + tcp.close())), **reading) as reader:
        return list(pa.table(reader).to_pylist())[len(first) :]
