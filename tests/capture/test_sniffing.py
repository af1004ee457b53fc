"""Which protocol is it? Streams of others are claimed by none of ours; each of ours is found on any port."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lib.batches import rows_of
from lib.openings import OTHERS, OURS
from lib.wire import Tcp, pcap

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1
CHANCE = random.Random(20)


def said(first: bytes, answer: bytes, port: int, *, handshake: bool = True) -> bytes:
    tcp = Tcp(port=port)
    frames = tcp.open() if handshake else []
    return pcap([*frames, *tcp.send(CLIENT, first), *tcp.send(SERVER, answer), *tcp.send(CLIENT, first), *tcp.close()])


@pytest.mark.parametrize("name", OTHERS)
def test_streams_of_others_are_not_claimed(name: str) -> None:
    first, answer = OTHERS[name]
    for handshake in (True, False):
        for octets in ((first, answer), (answer, first)):
            rows, stats = rows_of(said(*octets, port=7777, handshake=handshake))
            assert rows == []
            assert stats["rows"] == 0


def test_random_octets_are_not_claimed() -> None:
    frames = []
    for k in range(3000):
        tcp = Tcp(port=7777, client_port=20000 + k)
        octets = CHANCE.randbytes(CHANCE.choice((1, 4, 20, 600)))
        # the worst case: lengths that are small numbers, and letters
        if k % 3 == 0:
            octets = bytes((0, 0, 0, CHANCE.randrange(64))) + octets
        elif k % 3 == 1:
            octets = bytes(CHANCE.choice(b" ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\n") for _ in octets)
        frames += tcp.open() + tcp.send(CLIENT, octets) + tcp.send(SERVER, CHANCE.randbytes(40)) + tcp.close()
    rows, _ = rows_of(pcap(frames))
    assert rows == []


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("port", [7777, 80, 9100])
def test_ours_are_found_on_any_port(name: str, port: int) -> None:
    first, answer, kinds = OURS[name]
    rows, _ = rows_of(said(first, answer, port))
    assert {row["protocol"] for row in rows} == {name}
    found: list[Any] = [row["kind"] for row in rows]
    assert all(kind in found for kind in kinds)
    assert {row["direction"] for row in rows} == {CLIENT, SERVER}


@pytest.mark.parametrize("name", OURS)
def test_first_octets_may_come_one_by_one(name: str) -> None:
    first, answer, _ = OURS[name]
    tcp = Tcp(port=7777)
    frames = tcp.open() + tcp.send(CLIENT, first, size=1) + tcp.send(SERVER, answer, size=1) + tcp.close()
    rows, _ = rows_of(pcap(frames))
    assert {(row["protocol"], row["status"]) for row in rows} == {(name, "ok")}
