"""Rows of messages that are not whole, or malformed: what is known of a message is what has come of it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from lib.amqp_wire import HEADER_091, HEADER_10, attach, frame, performative, publish, short, transfer
from lib.wire import Tcp, connack, connect, packet, pcap
from wirefmt import capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1


def last(port: int, *said: tuple[int, bytes]) -> dict[str, Any]:
    """The last row of a connection that ends with these octets."""
    tcp = Tcp(port)
    frames = tcp.open()
    for side, octets in said:
        frames += tcp.send(side, octets)
    row: dict[str, Any] = pa.table(capture.read(io.BytesIO(pcap(frames + tcp.close())))).to_pylist()[-1]
    return row


# ---- MQTT

#: 2.2.1, table 2.1: the packets behind CONNECT and CONNACK, with who sends them and their flags.
PACKETS = [
    ("PUBLISH", CLIENT, 0x30), ("PUBACK", SERVER, 0x40), ("PUBREC", SERVER, 0x50), ("PUBREL", CLIENT, 0x62),
    ("PUBCOMP", SERVER, 0x70), ("SUBSCRIBE", CLIENT, 0x82), ("SUBACK", SERVER, 0x90), ("UNSUBSCRIBE", CLIENT, 0xA2),
    ("UNSUBACK", SERVER, 0xB0),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "side", "first"), PACKETS)
def test_a_packet_of_mqtt_has_its_kind(kind: str, side: int, first: int) -> None:
    before = ((CLIENT, connect("c", 4)), (SERVER, connack(4)))
    cut = last(1883, *before, (side, packet(first, b"\0\5" + b"a" * 98)[:20]))
    assert (cut["kind"], cut["status"], cut["error"]) == (kind, "partial", "stream ended: 20 of 102 bytes read")
    malformed = last(1883, *before, (side, packet(first, b"\0")))  # each has two octets at least
    assert (malformed["kind"], malformed["status"]) == (kind, "malformed")


# ---- AMQP 0.9.1


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_method_of_amqp091_is_known_by_its_four_octets(cut: int) -> None:
    """4.2.3, 4.2.4: seven octets of a frame, two of the class, two of the method. Octets of an earlier frame say nothing."""
    octets = frame(1, 1, bytes.fromhex("0014000a00"))
    tcp = Tcp(5672)
    frames = [*tcp.open(), *tcp.send(CLIENT, HEADER_091)]
    for part in (octets[:5], octets[5:], octets[:cut]):
        frames += tcp.send(CLIENT, part)
    found = pa.table(capture.read(io.BytesIO(pcap(frames + tcp.close())))).to_pylist()
    assert (found[-1]["kind"], found[-1]["status"]) == ("channel.open" if cut == 11 else None, "partial")


# ---- AMQP 1.0

#: 1.6.19: a binary of up to 255 octets, and of more; the same data section.
DATA = {"vbin8": b"\0\x53\x75\xa0\xc8", "vbin32": b"\0\x53\x75\xb0\0\0\0\xc8"}


@pytest.mark.parametrize("form", DATA)
@pytest.mark.parametrize("before", [b"", b"\0\x53\x70\xc0\5\3\x41\x40\x52\7"], ids=["data", "header-and-data"])
@pytest.mark.parametrize("missing", [1, 190, 199, 200])
def test_a_data_section_has_the_octets_that_came(form: str, before: bytes, missing: int) -> None:
    payload = bytes(range(200))
    octets = transfer(0, 0, before + DATA[form] + payload)
    row = last(5672, (CLIENT, HEADER_10 + attach(0, "/queues/a") + octets[:-missing]))
    assert (row["kind"], row["status"], row["destination"]) == ("transfer", "partial", "/queues/a")
    assert row["payload"] == (payload[:-missing] or None)
    assert row["ttl_ms"] == (7 if before else None)


# ---- NSQ

#: Frame format of the TCP protocol specification: size, type, data; 0, 1 and 2 are types.
TYPES = {0: "response", 1: "error", 2: "message", 3: "frame", 4: "frame", 256: "frame", 1 << 31: "frame"}


@pytest.mark.parametrize("number", TYPES)
@pytest.mark.parametrize("cut", [1, 4, 7, 8, 33, 34, 60])
def test_a_frame_of_nsq_is_known_by_its_type(number: int, cut: int) -> None:
    octets = (100).to_bytes(4, "big") + number.to_bytes(4, "big") + b"O" * 96
    ok = b"\0\0\0\6\0\0\0\0OK"
    row = last(4150, (CLIENT, b"  V2SUB t c\nRDY 1\n"), (SERVER, ok + octets[:cut]))
    assert (row["kind"], row["status"]) == (TYPES[number] if cut >= 8 else "frame", "partial")


# ---- what a client says of itself


@pytest.mark.parametrize(
    ("entry", "client"),
    [
        (short("connection_name") + b"S\0\0\0\4name", "name"), (short("connection_name") + b"S\0\0\0\0", None),
        (short("connection_name") + b"x\0\0\0\4name", None), (short("connection_names") + b"S\0\0\0\4name", None),
    ],
)  # fmt: skip
def test_the_name_of_a_connection_of_amqp091(entry: bytes, client: str | None) -> None:
    """The field connection_name of client-properties, which RabbitMQ's clients fill, is a long string (4.2.5.5)."""
    table = len(entry).to_bytes(4, "big") + entry
    start_ok = bytes.fromhex("000a000b") + table + short("PLAIN") + b"\0\0\0\0" + short("en")
    row = last(5672, (CLIENT, HEADER_091 + frame(1, 0, start_ok) + publish(1, "x", "k")))
    assert (row["kind"], row["client_id"]) == ("basic.publish", client)


def test_performatives_are_known_by_their_descriptor() -> None:
    """2.7: a frame that is cut behind its descriptor. An open frame names the client in its first field."""
    octets = performative(0x10, b"\xc0\4\1\xa1\1c")
    row = last(5672, (CLIENT, HEADER_10 + octets[:-1]))
    assert (row["kind"], row["status"], row["client_id"]) == ("open", "partial", None)
