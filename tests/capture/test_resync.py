"""After a gap the decoder goes on at the next message that can be one, neither earlier nor later."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lib.wire import Tcp, connack, connect, packet, pcap, publish
from wirefmt import amqp091, amqp10, capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1
PING, PONG = packet(0xC0), packet(0xD0)


def rows(frames: list[bytes]) -> list[dict[str, Any]]:
    return list(pa.table(capture.read(io.BytesIO(pcap(frames)))).to_pylist())


def brief(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["status"], r["kind"], r["destination"] if r["kind"] == "PUBLISH" else None) for r in found]


def behind_a_hole(side: int, *segments: bytes) -> list[tuple[object, ...]]:
    """Rows of what comes after a lost segment of this side, on a connection of MQTT 3.1.1."""
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(CLIENT, connect("c", 4)), *tcp.send(SERVER, connack(4))]
    tcp.send(side, publish("lost", bytes(40)))
    for octets in segments:
        frames += tcp.send(side, octets)
    found = brief(rows(frames + tcp.close()))
    assert found[:3] == [("ok", "CONNECT", None), ("ok", "CONNACK", None), ("gap", None, None)]
    return found[3:]


@pytest.mark.parametrize("first", [0xD1, 0xB1, 0x92, 0x4F])
def test_no_packet_begins_with_reserved_flags(first: int) -> None:
    """[MQTT-2.2.2-2]: flags of PINGRESP, UNSUBACK, SUBACK and PUBACK are 0; as no packet, it is not waited for."""
    assert behind_a_hole(SERVER, bytes((first, 0x7F)) + PONG * 20) == [("ok", "PINGRESP", None)] * 20


@pytest.mark.parametrize("first", [0x80, 0x8A, 0xA0, 0xE1, 0xC1])
def test_no_packet_of_a_client_begins_with_reserved_flags(first: int) -> None:
    assert behind_a_hole(CLIENT, bytes((first, 0x7F)) + PING * 20) == [("ok", "PINGREQ", None)] * 20


@pytest.mark.parametrize("first", [0x36, 0x37, 0x38, 0x39])
def test_no_publish_begins_with_flags_that_contradict(first: int) -> None:
    """[MQTT-3.3.1-4], [MQTT-3.3.1-2]: QoS is not 3, and DUP is 0 at QoS 0."""
    assert behind_a_hole(CLIENT, bytes((first, 0x7F, 0, 1)) + b"a" + PING * 20) == [("ok", "PINGREQ", None)] * 20


@pytest.mark.parametrize("payload", [b"", b"x", bytes(30)])
@pytest.mark.parametrize("cut", [2, 4, 50, 101, 102, 103])
def test_a_publish_that_comes_in_pieces(cut: int, payload: bytes) -> None:
    """Its topic may be all that it has."""
    octets = publish("a" * 100, payload, version=4)
    found = behind_a_hole(CLIENT, octets[:cut], octets[cut:], PING * 5)
    assert found == [("ok", "PUBLISH", "a" * 100), *[("ok", "PINGREQ", None)] * 5]


def behind_a_hole_of_amqp(*segments: bytes) -> list[object]:
    """Kinds of rows of what comes after a lost segment of a client of AMQP 1.0."""
    tcp = Tcp(5672)
    frames = [*tcp.open(), *tcp.send(CLIENT, b"AMQP\0\1\0\0" + amqp10.Open(container_id="c").encode())]
    tcp.send(CLIENT, amqp10.Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1).encode())
    for octets in segments:
        frames += tcp.send(CLIENT, octets)
    found = [row["kind"] for row in rows(frames + tcp.close())]
    assert found[:3] == ["protocol-header", "open", None]
    return found[3:]


FLOW = amqp10.Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1).encode()
#: The descriptor as a symbol (1.3.2, part 1): the same composite.
SYMBOLIC = FLOW[8:].replace(b"\0\x53\x13", b"\0\xa3\x0eamqp:flow:list", 1)
SYMBOLIC = (8 + len(SYMBOLIC)).to_bytes(4, "big") + FLOW[4:8] + SYMBOLIC


@pytest.mark.parametrize("cut", range(1, len(SYMBOLIC)))
def test_a_frame_with_a_symbolic_descriptor_that_comes_in_pieces(cut: int) -> None:
    assert behind_a_hole_of_amqp(SYMBOLIC[:cut], SYMBOLIC[cut:], FLOW, FLOW) == ["flow"] * 3


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_protocol_header_that_comes_in_pieces(cut: int) -> None:
    octets = b"AMQP\0\1\0\0"
    opened = amqp10.Open(container_id="c").encode()
    assert behind_a_hole_of_amqp(octets[:cut], octets[cut:], opened, FLOW) == ["protocol-header", "open", "flow"]


def behind_a_hole_of_nsq(*segments: bytes) -> list[tuple[object, ...]]:
    """Rows of what comes after a lost segment of nsqd."""
    tcp = Tcp(4150)
    ok = b"\0\0\0\6\0\0\0\0OK"
    frames = [*tcp.open(), *tcp.send(CLIENT, b"  V2SUB t c\nRDY 1\n"), *tcp.send(SERVER, ok)]
    tcp.send(SERVER, ok)
    for octets in segments:
        frames += tcp.send(SERVER, octets)
    found: list[tuple[object, ...]] = [
        (row["kind"], row["nsq"] and row["nsq"]["response"]) for row in rows(frames + tcp.close())
    ]
    assert found[3:5] == [("response", "OK"), (None, None)]
    return found[5:]


@pytest.mark.parametrize("text", ["OK", "CLOSE_WAIT", "_heartbeat_", '{"max_rdy_count":2500}'])
@pytest.mark.parametrize("cut", [1, 4, 7, 8, 9])
def test_a_response_of_nsqd_that_comes_in_pieces(text: str, cut: int) -> None:
    """What nsqd answers: OK, CLOSE_WAIT, heartbeats and JSON; the data begins with the ninth octet."""
    octets = (4 + len(text)).to_bytes(4, "big") + bytes(4) + text.encode()
    beat = b"\0\0\0\x0f\0\0\0\0_heartbeat_"
    found = behind_a_hole_of_nsq(octets[:cut], octets[cut:], beat, beat)
    assert found == [("response", text), *[("response", "_heartbeat_")] * 2]


@pytest.mark.parametrize("text", ["NO", "ok", "\0", "heartbeat", "[1]", "E_BAD_TOPIC"])
def test_no_response_of_nsqd_begins_so(text: str) -> None:
    """As no frame, it is not waited for."""
    octets = (1000).to_bytes(4, "big") + bytes(4) + text.encode()
    beat = b"\0\0\0\x0f\0\0\0\0_heartbeat_"
    assert behind_a_hole_of_nsq(octets, beat, beat) == [("response", "_heartbeat_")] * 2


@pytest.mark.parametrize("batch_rows", [1, 2, 3])
def test_the_other_direction_is_read_once_when_the_protocol_is_found(batch_rows: int) -> None:
    """Port 5672 is of both AMQPs. What the server said is kept until the client's octets, whose beginning is lost, say which one
    it is. Then the server's frames are read, and not again from the first if the batch is full after it."""
    tcp = Tcp(5672)
    unknown = bytes.fromhex("01 0000 00000004 000a0063 ce")  # no protocol is found by it
    frames = [*tcp.open(), *tcp.send(SERVER, unknown)]
    close = amqp091.ConnectionClose(reply_code=320, reply_text="", class_id=0, method_id=0)
    frames += tcp.send(SERVER, close.encode())
    tcp.send(CLIENT, bytes(40))
    frames += tcp.send(CLIENT, amqp091.ConnectionCloseOk().encode())
    octets = pcap(frames + tcp.close())
    whole = pa.table(capture.read(io.BytesIO(octets))).to_pylist()
    assert [(row["status"], row["kind"]) for row in whole] == [
        ("malformed", None), ("ok", "connection.close"), ("gap", None), ("ok", "connection.close-ok"),
    ]  # fmt: skip
    assert pa.table(capture.read(io.BytesIO(octets), batch_rows=batch_rows)).to_pylist() == whole
