"""MQTT in WebSockets: the opening handshake, and captures whose octets are carried in WebSocket frames."""

from __future__ import annotations

import random

from lib.paths import ROOT
from lib.wire import Tcp, frames_of, socket_frame

CLIENT, SERVER = 0, 1

#: RFC 6455, 1.3
REQUEST = (
    b"GET /mqtt HTTP/1.1\r\nHost: broker\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
RESPONSE = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)


def in_sockets(
    name: str, port: int, size: int, *, per_frame: int = 1, seed: int = 0
) -> tuple[list[bytes], list[bytes]]:
    """A sample's connections, their octets carried in WebSockets: the frames of the upgrades, and those behind them. Each
    packet's octets are a binary message; those of more than `size` octets are cut into fragments."""
    chance = random.Random(seed)
    ends: dict[tuple[int, int], Tcp] = {}
    upgrades, later = [], []
    for _, frame in frames_of((ROOT / "samples" / name).read_bytes()):
        head = 14 + 20
        ports = int.from_bytes(frame[head : head + 2], "big"), int.from_bytes(frame[head + 2 : head + 4], "big")
        total = int.from_bytes(frame[16:18], "big")
        octets = frame[head + (frame[head + 12] >> 4) * 4 : 14 + total]
        side = CLIENT if ports[1] == 1883 else SERVER
        key = ports if side == CLIENT else ports[::-1]
        if key not in ends:
            ends[key] = tcp = Tcp(port=port, client_port=key[0])
            upgrades += [*tcp.open(), *tcp.send(CLIENT, REQUEST), *tcp.send(SERVER, RESPONSE)]
        if not octets:
            continue
        parts = [octets[i : i + size] for i in range(0, len(octets), size)]
        for i, part in enumerate(parts):
            first = (0x80 if i == len(parts) - 1 else 0) | (2 if i == 0 else 0)
            carried = socket_frame(part, first=first, mask=chance.randbytes(4) if side == CLIENT else None)
            later += ends[key].send(side, carried)
    return upgrades, later
