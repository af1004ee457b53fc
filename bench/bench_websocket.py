"""What do frames of WebSocket cost, in `wirefmt.connection.carriers` and in wsproto?

    python bench/bench_websocket.py

One frame per message, as MQTT and AMQP clients send them. A server receives masked frames, in reads of 256 KiB or one
frame a read; both sides send. The sizes are those of a PUBLISH with a reading, with a JSON text, and of larger payloads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from ratios import compare, versions
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage

from wirefmt.connection.carriers import WebSocket

READ = 1 << 18


def mask() -> bytes:
    return os.urandom(4)


def receive(wire: bytes, piece: int) -> int:
    server, size = WebSocket(), 0
    for at in range(0, len(wire), piece):
        size += len(server.receive(wire[at : at + piece]))
    return size


def receive_wsproto(wire: bytes, piece: int) -> int:
    server, size = Connection(ConnectionType.SERVER), 0
    for at in range(0, len(wire), piece):
        server.receive_data(wire[at : at + piece])
        for event in server.events():
            assert isinstance(event, BytesMessage)
            size += len(event.data)
    return size


def send(payload: bytes, count: int, masks: Callable[[], bytes] | None) -> None:
    socket = WebSocket(masks)
    for _ in range(count):
        socket.send(payload)


def send_wsproto(payload: bytes, count: int, side: ConnectionType) -> None:
    socket = Connection(side)
    for _ in range(count):
        socket.send(BytesMessage(payload))


def main() -> None:
    print(versions("wsproto"))
    for size, count in ((20, 2000), (200, 2000), (4096, 500), (65536, 50), (1 << 20, 5)):
        payload = os.urandom(size)
        wire = b"".join(map(WebSocket(mask).send, [payload] * count))
        for name, piece in (("256 KiB a read", READ), ("one frame a read", len(wire) // count)):
            assert receive(wire, piece) == receive_wsproto(wire, piece) == size * count
            compare(
                f"a server receives {size} bytes, {name}",
                {"wirefmt": partial(receive, wire, piece), "wsproto": partial(receive_wsproto, wire, piece)},
                units=count,
                unit="frame",
                rounds=5,
            )
        for side, masks, theirs in (("server", None, ConnectionType.SERVER), ("client", mask, ConnectionType.CLIENT)):
            compare(
                f"a {side} sends {size} bytes",
                {
                    "wirefmt": partial(send, payload, count, masks),
                    "wsproto": partial(send_wsproto, payload, count, theirs),
                },
                units=count,
                unit="frame",
                rounds=5,
            )


if __name__ == "__main__":
    main()
