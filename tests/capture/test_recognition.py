"""Which protocol a connection is of: its first octets say it, then its port; what was asked for changes nothing."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest

from lib.batches import decode_in_any_batches
from lib.openings import OTHERS, OURS
from lib.protocols import PORTS
from lib.wire import Tcp, pcap
from wirefmt import capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")


def rows(frames: list[bytes], **options: Any) -> list[dict[str, Any]]:
    return decode_in_any_batches(pcap(frames), **options)[0]


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("port", [1883, 5672, 9876, 10911, 4150])
@pytest.mark.parametrize("size", [1448, 1])
@pytest.mark.parametrize("server_first", [True, False])
def test_others_from_their_start_are_not_read_by_their_port(
    name: str, port: int, size: int, server_first: bool
) -> None:
    """MQTT-3.1.0-1: the first packet is CONNECT; AMQP 0-9-1 4.2.2 and 1.0 2.2: the protocol header; NSQ: the magic octets."""
    if name == "text" and size == 1 and not server_first:
        pytest.skip("its first four octets are all that NSQ begins with")
    first, answer = OTHERS[name]
    tcp = Tcp(port=port)
    said = [tcp.send(0, first, size), tcp.send(1, answer, size)]
    frames = [*tcp.open(), *(f for side in (reversed(said) if server_first else said) for f in side)]
    frames += [*tcp.send(0, first, size), *tcp.send(1, answer, size), *tcp.close()]
    reader = capture.read(io.BytesIO(pcap(frames)))
    assert pa.table(reader).to_pylist() == []
    reason = "tls" if name == "tls" else "not_recognised"
    assert reader.stats["not_decoded"][reason]["packets"] == len(frames)


@pytest.mark.parametrize("port", [1883, 5672, 10911, 4150])
def test_random_octets_from_their_start_are_not_read_by_their_port(port: int) -> None:
    chance = random.Random(port)
    frames = []
    for k in range(200):
        tcp = Tcp(port=port, client_port=20000 + k)
        frames += tcp.open()
        for _ in range(4):
            frames += tcp.send(chance.randrange(2), chance.randbytes(chance.choice((2, 4, 20, 600))))
        frames += tcp.close()
    assert rows(frames) == []


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("port", [1883, 5672, 9876, 4150])
@pytest.mark.parametrize("size", [1448, 1])
def test_the_first_octets_decide_before_the_port(name: str, port: int, size: int) -> None:
    first, answer, kinds = OURS[name]
    tcp = Tcp(port=port)
    found = rows([*tcp.open(), *tcp.send(0, first, size), *tcp.send(1, answer, size), *tcp.close()])
    assert {(r["protocol"], r["status"]) for r in found} == {(name, "ok")}
    assert {r["kind"] for r in found} >= set(kinds)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("size", [1448, 1])
@pytest.mark.parametrize("captured", ["server", "client"])
def test_one_direction_alone(name: str, size: int, captured: str) -> None:
    """Only one direction was captured, from its SYN: asymmetric routing, a mirror of one port of a switch."""
    first, answer, _ = OURS[name]
    port = PORTS[name]
    tcp = Tcp(port=port)
    opening = tcp.open()
    client, server = tcp.send(0, first, size), tcp.send(1, answer, size)
    both = rows([*opening, *client, *server])
    side = ("client", "server").index(captured)
    found = rows([opening[side], *(client, server)[side]])  # what the other side sent may be a gap
    columns = ("protocol", "status", "byte_offset", "wire_size")
    of_both, alone = ([[r[c] for c in columns] for r in some if r["direction"] == side] for some in (both, found))
    assert alone == of_both


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("handshake", [True, False])
def test_a_filter_of_protocols_changes_nothing_else(name: str, handshake: bool) -> None:
    """Rows with some protocols are the rows of all, without the others."""
    first, answer, _ = OURS[name]
    for port in {7777, 1883, 5672, 10911, 4150}:
        tcp = Tcp(port=port)
        frames = [*(tcp.open() if handshake else []), *tcp.send(0, first), *tcp.send(1, answer), *tcp.close()]
        everything = rows(frames)
        for one in OURS:
            wanted = [r for r in everything if r["protocol"] in (one, None)]
            assert rows(frames, protocols=[one]) == wanted, (one, port)
