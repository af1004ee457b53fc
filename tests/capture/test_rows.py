"""What rows of captures say beside their messages: names of clients, attempts, how much of a payload, what is cut."""

from __future__ import annotations

import io
import ipaddress
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lib.connection_rows import CLIENT, SERVER, rows
from lib.made_captures import block
from lib.wire import Tcp, connack, connect, pcap
from wirefmt import amqp091, amqp10, capture, mqtt, nsq, phpmq, rocketmq
from wirefmt.capture import CaptureDecoder

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

HEARTBEAT = amqp091.Heartbeat().encode()


def start_ok(value: Any) -> bytes:
    return amqp091.ConnectionStartOk(client_properties={"connection_name": value}, response=b"\0u\0p").encode()


@pytest.mark.parametrize(
    ("value", "client"),
    [("press-7", "press-7"), ("", None), (b"press-7", None), (7, None), (None, None), ({"a": "b"}, None)],
)
def test_the_name_of_a_connection_is_its_client(value: Any, client: str | None) -> None:
    """RabbitMQ's clients send it as a long string; rows from there on have it."""
    found = rows("amqp091", (CLIENT, start_ok(value)), (CLIENT, HEARTBEAT))
    assert [row["client_id"] for row in found] == [client, client]


@pytest.mark.parametrize("letter", "bBsuIilLdfStTDV")
@pytest.mark.parametrize("count", [0, 3, 127])
def test_attempts_are_deliveries_counted_from_one(letter: str, count: int) -> None:
    """x-delivery-count is how often before: any integer type of field values will do."""
    value: Any = {"S": str(count), "t": True, "V": None, "d": float(count), "f": float(count)}.get(letter, count)
    headers = [("x-delivery-count", amqp091.FieldValue(letter, value))]
    method = amqp091.BasicDeliver(channel=1, consumer_tag="c", delivery_tag=1, exchange="", routing_key="q")
    message = amqp091.BasicMessage(method, amqp091.BasicProperties(headers=headers), b"x")
    (row,) = rows("amqp091", (SERVER, message.encode()))
    assert row["attempts"] == (count + 1 if letter in "bBsuIilL" else None)


PAYLOADS: dict[str, tuple[int, bytes]] = {
    "mqtt": (
        CLIENT,
        mqtt.Connect(version=4).encode() + mqtt.Publish(topic_name="t", payload=b"abcdef", version=4).encode(),
    ),
    "amqp091": (
        CLIENT,
        amqp091.BasicMessage(
            amqp091.BasicPublish(channel=1, routing_key="q"), amqp091.BasicProperties(), b"abcdef", frame_max=11
        ).encode(),
    ),
    "amqp10": (
        CLIENT,
        amqp10.Transfer(handle=0, delivery_id=0, payload=amqp10.Message(body=b"abcdef").encode()).encode(),
    ),
    "nsq": (CLIENT, nsq.Publish(topic="t", body=b"abcdef").encode()),
    "phpmq": (CLIENT, phpmq.MessageClientToServer(queue_name="q", content=b"abcdef", ttl=1).encode()),
    "rocketmq": (
        CLIENT,
        rocketmq.RemotingCommand(code=10, opaque=1, ext_fields={"topic": "t"}, body=b"abcdef").encode(),
    ),
}


@pytest.mark.parametrize("protocol", PAYLOADS)
@pytest.mark.parametrize("most", [0, 1, 5, 6, 7, None])
def test_as_much_of_a_payload_as_was_asked_for(protocol: str, most: int | None) -> None:
    row = rows(protocol, PAYLOADS[protocol], payload_max=most)[-1]
    assert (row["payload"], row["payload_size"], row["status"]) == (b"abcdef"[:most], 6, "ok")


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_method_that_is_cut_has_its_kind_once_that_is_there(cut: int) -> None:
    """general 4.2.3, 4.2.4: seven octets of the frame's header, four that say which method it is."""
    octets = amqp091.QueueDeclare(channel=5, queue="orders").encode()[:cut]
    (row,) = rows("amqp091", (CLIENT, octets))
    assert row["status"] == "partial"
    assert row["kind"] == ("queue.declare" if cut >= 11 else None)
    assert row["channel"] == (5 if cut >= 7 else 0)


@pytest.mark.parametrize("cut", range(1, 14))
def test_a_body_that_is_cut_is_shown_as_far_as_it_goes(cut: int) -> None:
    publish = amqp091.BasicPublish(channel=1, routing_key="q").encode()
    header = amqp091.ContentHeader(channel=1, body_size=9, properties=amqp091.BasicProperties()).encode()
    body = amqp091.Body(channel=1, payload=b"abcdef").encode()[:cut]
    found = {row["kind"]: row for row in rows("amqp091", (CLIENT, publish + header + body))}
    assert set(found) == {"basic.publish"} | ({"body"} if cut < 7 else set())  # of which channel is not known before
    row = found["basic.publish"]
    assert ((row["payload"] or b""), row["status"]) == (b"abcdef"[: max(0, cut - 7)], "partial")


def test_a_second_connect_begins_anew() -> None:
    """A Topic Alias is of one Network Connection (5.0, 3.3.2.3.4)."""
    first = mqtt.Connect(client_identifier="a", version=5).encode()
    second = mqtt.Connect(client_identifier="b", version=5).encode()
    named = mqtt.Publish(topic_name="t", payload=b"", properties=(("topic_alias", 1),), version=5).encode()
    unnamed = mqtt.Publish(topic_name="", payload=b"", properties=(("topic_alias", 1),), version=5).encode()
    found = rows("mqtt", (CLIENT, first + named + unnamed), (CLIENT, second + unnamed + named + unnamed))
    assert [row["destination"] for row in found] == [None, "t", "t", None, None, "t", "t"]
    assert [row["client_id"] for row in found] == ["a", "a", "a", "b", "b", "b", "b"]


@pytest.mark.parametrize("cut", range(7, 11))
def test_what_lies_behind_a_cut_method_is_not_read(cut: int) -> None:
    """The octets of the frame before it may still be where the rest of this one would be."""
    octets = amqp091.QueueDeclare(channel=5, queue="orders").encode()
    found = rows("amqp091", (CLIENT, octets[:20]), (CLIENT, octets[20:] + octets[:3]), (CLIENT, octets[3:cut]))
    assert [(row["kind"], row["status"]) for row in found] == [("queue.declare", "ok"), (None, "partial")]


@pytest.mark.parametrize("size", [6, 255, 300])
def test_a_transfer_that_is_cut_shows_its_data_as_far_as_they_go(size: int) -> None:
    """A data section (3.2.6) of either width."""
    body = bytes(i % 251 for i in range(size))
    octets = amqp10.Transfer(handle=0, delivery_id=0, payload=amqp10.Message(body=body).encode()).encode()
    for missing in (1, 2, size - 1, size):
        row = rows("amqp10", (CLIENT, octets[: len(octets) - missing]))[-1]
        assert (row["kind"], row["status"], row["payload"] or b"") == ("transfer", "partial", body[: size - missing])


@pytest.mark.parametrize("client", [0x01020304, 0x0A000002])
@pytest.mark.parametrize("server", [0x05060708, 0xC0A864C8])
def test_addresses_of_any_length(client: int, server: int) -> None:
    """Those of both directions, as text."""
    tcp = Tcp(client=client, server=server)
    frames = tcp.open() + tcp.send(0, connect("c")) + tcp.send(1, connack())
    names = [str(ipaddress.IPv4Address(end)) for end in (client, server)]
    rows = pa.table(capture.read(io.BytesIO(pcap(frames)))).to_pylist()
    assert [(r["src_ip"], r["dst_ip"]) for r in rows] == [tuple(names), tuple(names[::-1])]


@pytest.mark.parametrize("ns", [-2_000, -1_999, -1_001, -1_000, -999, -1, 0, 1, 999, 1_000])
def test_microseconds_before_1970_are_rounded_down(ns: int) -> None:
    """`ts` is the last whole microsecond at or before the packet, `ts_ns` its time: here an interface's if_tsoffset is -1."""
    options = struct.pack("<HHBxxxHHq", 9, 1, 9, 14, 8, -1)
    octets = block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    octets += block("<", 1, struct.pack("<HHI", 1, 0, 262144) + options)
    tcp = Tcp()
    for frame in (*tcp.open(), tcp.segment(0, connect("c"))):
        octets += block("<", 6, struct.pack("<IIIII", 0, 0, 10**9 + ns, len(frame), len(frame)) + frame)
    (row,) = pa.table(capture.read(io.BytesIO(octets))).to_pylist()
    assert row["ts_ns"] == ns
    assert row["ts"] == row["ts_first"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)


@pytest.mark.parametrize("options", [{"batch_rows": 0}, {"batch_bytes": 0}, {"batch_rows": -1}, {"batch_bytes": -1}])
def test_batches_hold_something(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="batch_rows and batch_bytes must be at least 1"):
        CaptureDecoder(**options)
