"""Which protocol a connection is of: its first octets say it, then its port; what was asked for changes nothing."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest

from lib.batches import decode_in_any_batches
from lib.openings import OTHERS, OURS
from lib.protocols import PORTS
from lib.wire import Tcp, pcap, puback, publish
from wirefmt import capture, nsq

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


# ---- connections that began before the capture, on ports that no protocol has


@pytest.mark.parametrize("client_port", [40000, 1000])
@pytest.mark.parametrize("name", ["mqtt", "amqp091", "amqp10", "nsq", "rocketmq"])
def test_frames_on_an_unregistered_port_are_found(name: str, client_port: int) -> None:
    """Nothing is missing: the packets by which it was recognised are read, too."""
    said = {
        "mqtt": [(0, publish("t", b"21.5", identifier=i)) for i in (1, 2, 3, 4)]
        + [(1, puback(i)) for i in (1, 2, 3, 4)],
        "amqp091": [(i % 2, b"\x08\0\0\0\0\0\0\xce") for i in range(10)],
        "amqp10": [(i % 2, bytes.fromhex("0000000802000000")) for i in range(10)],
        "nsq": [(i % 2, (b"FIN 0123456789abcdef\n", nsq.Response(b"OK").encode())[i % 2]) for i in range(10)],
        "rocketmq": [(0, OURS["rocketmq"][0])] * 4 + [(1, OURS["rocketmq"][1])] * 4,
    }[name]
    tcp = Tcp(port=20183, client_port=client_port)
    found = rows([frame for side, octets in said for frame in tcp.send(side, octets)])
    assert {(r["protocol"], r["status"]) for r in found} == {(name, "ok")}
    assert len(found) == len(said)
    if name in ("mqtt", "nsq", "rocketmq") and client_port == 40000:
        assert [r["direction"] for r in found].count(0) == sum(side == 0 for side, _ in said)


def test_messages_after_something_else_are_found() -> None:
    tcp = Tcp(port=20183)
    frames = [*tcp.send(0, bytes(range(200))), *tcp.send(1, b"x" * 3000)]
    for number in range(1, 41):
        frames += [*tcp.send(0, publish("a/b", b"%d" % number, identifier=number)), *tcp.send(1, puback(number))]
    found = rows(frames)
    assert [r["status"] for r in found].count("ok") == 80
    assert {r["status"] for r in found} == {"ok", "gap"}


@pytest.mark.parametrize("seed", range(10))
def test_late_connections_of_others_are_not_claimed(seed: int) -> None:
    """Length-prefixed protocols, text, DER and random octets, in small packets."""
    chance = random.Random(seed)
    frames = []
    for k in range(60):
        tcp = Tcp(port=chance.choice((20183, 389, 9092, 5432)), client_port=20000 + k)
        for _ in range(30):
            size = chance.choice((2, 4, 12, 60, 400))
            octets = chance.choice((
                chance.randbytes(size),
                (size + 4).to_bytes(4) + chance.randrange(4).to_bytes(4) + chance.randbytes(size),
                b"\x30" + (size % 128).to_bytes(1) + b"\x02\x01\x01" + chance.randbytes(size % 128)[3:],
                b"%d %s\r\n" % (size, b"word " * (size // 5)),
                b"\0" * size,
            ))  # fmt: skip
            frames += tcp.send(chance.randrange(2), octets)
    assert rows(frames) == []


def test_ports_of_what_was_not_recognised() -> None:
    frames = []
    for k, port in enumerate((443, 443, 8443, 1883)):
        tcp = Tcp(port=port, client_port=20000 + k)
        frames += [*tcp.open(), *tcp.send(0, b"SSH-2.0-x\r\n"), *tcp.send(1, b"SSH-2.0-y\r\n"), *tcp.close()]
    for threads in (1, 2):
        reader = capture.read(io.BytesIO(pcap(frames)), threads=threads)
        assert list(reader) == []
        assert reader.stats["not_recognised_ports"] == {443: 2, 1883: 1, 8443: 1}
