"""Conversations made by hand, and the tables that are made of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lib.wire import Tcp, pcap
from wirefmt import amqp10, capture

CLIENT, SERVER = 0, 1


class Sent(NamedTuple):
    side: int
    octets: bytes


def client(*messages: Any) -> Sent:
    return Sent(CLIENT, b"".join(m if isinstance(m, bytes) else m.encode() for m in messages))


def server(*messages: Any) -> Sent:
    return Sent(SERVER, b"".join(m if isinstance(m, bytes) else m.encode() for m in messages))


def tables_of(
    port: int, said: Sequence[Sent], *, closed: bool = True, begun: bool = True
) -> dict[str, list[dict[str, Any]]]:
    """The operations of one connection, its row and what is wrong. begun: its SYN was captured."""
    tcp = Tcp(port)
    opened = tcp.open()
    frames = opened if begun else []
    for side, octets in said:
        frames += tcp.send(side, octets)
    if closed:
        frames += tcp.close()
    found: dict[str, list[dict[str, Any]]] = {"operations": [], "connections": [], "findings": []}
    for table, batch in capture.read_tables(io.BytesIO(pcap(frames)), list(found)):
        found[table] += pa.table(batch).to_pylist()
    return found


def outcomes(port: int, said: Sequence[Sent], *kinds: str, closed: bool = True) -> list[tuple[Any, ...]]:
    """(kind, sequence, outcome) of each operation of these kinds, in the order of their requests."""
    rows = [row for row in tables_of(port, said, closed=closed)["operations"] if row["kind"] in kinds]
    rows.sort(key=lambda row: (row["request_frame"] or 0, row["sequence"] or 0))
    return [(row["kind"], row["sequence"], row["outcome"]) for row in rows]


# ---- AMQP 1.0


def transfer(delivery_id: int, *, body: Any = None, handle: int = 0, **fields: Any) -> Any:
    return amqp10.Transfer(
        channel=0,
        handle=handle,
        delivery_id=delivery_id & 0xFFFFFFFF,
        delivery_tag=b"t",
        message_format=0,
        payload=amqp10.Message(body=amqp10.Data(b"x") if body is None else body).encode(),
        **fields,
    )


def disposition(role: str, first: int, last: int | None = None, **fields: Any) -> Any:
    return amqp10.Disposition(
        channel=0,
        role=role == "receiver",
        first=first & 0xFFFFFFFF,
        last=None if last is None else last & 0xFFFFFFFF,
        **fields,
    )


AMQP10 = [
    client(b"AMQP\0\x01\0\0", amqp10.Open(channel=0, container_id="c")),
    server(b"AMQP\0\x01\0\0", amqp10.Open(channel=0, container_id="s")),
    client(amqp10.Begin(channel=0, next_outgoing_id=0, incoming_window=9, outgoing_window=9)),
    server(amqp10.Begin(channel=0, remote_channel=0, next_outgoing_id=0, incoming_window=9, outgoing_window=9)),
]
