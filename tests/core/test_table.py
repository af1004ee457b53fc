"""The message table: what every column of an MQTT row says, and what a connection remembers from packet to packet."""

from __future__ import annotations

import io
import random
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lib.mqtt_vectors import Vector, expected, load
from lib.wire import START, Tcp, connect, packet, pcap, publish, string
from wirefmt import capture, mqtt
from wirefmt.mqtt.columns import FIELDS as MQTT_FIELDS
from wirefmt.spec.table import COLUMNS

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def table(data: bytes, **options: Any) -> Any:
    found = pa.table(capture.read(io.BytesIO(data), **options))
    found.validate(full=True)
    return found


def rows(frames: list[bytes], **options: Any) -> list[dict[str, Any]]:
    return list(table(pcap(frames), **options).to_pylist())


def talk(*sent: tuple[int, bytes], version: int = 5, client: str = "c") -> list[dict[str, Any]]:
    """Rows of one connection after its CONNECT: (side, octets) each."""
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(CLIENT, connect(client, version))]
    for side, octets in sent:
        frames += tcp.send(side, octets)
    found = rows(frames)
    assert [r["status"] for r in found] == ["ok"] * len(found)
    return found[1:]


def said(values: dict[str, Any] | None) -> dict[str, Any]:
    return {k: v for k, v in (values or {}).items() if v is not None}


# ---- the columns against the vectors

#: OpenTelemetry, messaging semantic conventions: send, receive, settle. The rest are words of ours.
OPERATIONS = {
    ("PUBLISH", CLIENT): "send",
    ("PUBLISH", SERVER): "receive",
    **{(kind, side): "settle" for kind in ("PUBACK", "PUBREC", "PUBREL", "PUBCOMP") for side in (CLIENT, SERVER)},
    ("CONNECT", CLIENT): "connect",
    ("CONNACK", SERVER): "connect",
    ("SUBSCRIBE", CLIENT): "subscribe",
    ("SUBACK", SERVER): "subscribe",
    ("UNSUBSCRIBE", CLIENT): "unsubscribe",
    ("UNSUBACK", SERVER): "unsubscribe",
    ("PINGREQ", CLIENT): "ping",
    ("PINGRESP", SERVER): "ping",
    ("DISCONNECT", CLIENT): "disconnect",
    ("DISCONNECT", SERVER): "disconnect",
    ("AUTH", CLIENT): "authenticate",
    ("AUTH", SERVER): "authenticate",
}
VERSIONS = {3: "3.1", 4: "3.1.1", 5: "5.0"}
#: What a row says of the capture and of its connection, and not of the packet.
CONTEXT = {c.name for c in COLUMNS[: [c.name for c in COLUMNS].index("protocol")]}


def as_text(octets: bytes) -> str:
    """MQTT 5.0, 1.5.4: text is well-formed UTF-8 without U+0000. All else is in hexadecimal: 1024 octets, and of how many."""
    try:
        if b"\0" not in octets:
            return octets.decode()
    except UnicodeDecodeError:
        pass
    return octets[:1024].hex() + (f"... (1024 of {len(octets)} bytes)" if len(octets) > 1024 else "")


def filter_columns(topic_filter: str, version: int) -> dict[str, Any]:
    parts = topic_filter.split("/", 2)
    if version == 5 and parts[0] == "$share":
        return {"consumer_group": parts[1], "destination": parts[2]}
    return {"destination": topic_filter}


def wanted(vector: Vector, side: int) -> dict[str, Any]:
    """The common columns as the vector's own fields make them."""
    fields = expected(vector)
    kind = (vector.decoded or {})["type"]
    row: dict[str, Any] = {"protocol": "mqtt", "version": VERSIONS[vector.version], "kind": kind, "status": "ok"}
    row |= {"operation": OPERATIONS[kind, side], "wire_size": len(vector.octets), "client_id": "c"}
    if fields.get("packet_identifier") is not None:
        row["sequence"] = fields["packet_identifier"]
    for name in ("reason_code", "return_code"):
        if fields.get(name) is not None:
            row["code"] = fields[name]
    if kind == "PUBLISH":
        row |= {"qos": fields["qos"], "destination": fields["topic_name"] or None}
        row |= {"payload": fields["payload"], "payload_size": len(fields["payload"])}
    if "dup" in fields:
        row["redelivered"] = fields["dup"]
    if kind == "CONNECT":
        row["client_id"] = fields["client_identifier"] or None
    elif kind == "SUBSCRIBE":
        row |= filter_columns(fields["subscriptions"][0].topic_filter, vector.version)
    elif kind == "UNSUBSCRIBE":
        row |= filter_columns(fields["topic_filters"][0], vector.version)
    for name, value in fields.get("properties", ()):
        if name == "user_property":
            row.setdefault("headers", []).append(value)
        elif name == "content_type":
            row["content_type"] = value
        elif name == "response_topic":
            row["reply_to"] = value
        elif name == "correlation_data":
            row["correlation_id"] = as_text(value)
        elif name == "message_expiry_interval":
            row["ttl_ms"] = value * 1000
        elif name == "assigned_client_identifier":
            row["client_id"] = value or "c"
    return said(row)


def test_rows_say_what_the_vectors_say() -> None:
    """One connection for each vector, in one capture. The mqtt struct is decode_batch's, whose test is elsewhere."""
    vectors = [v for v in load("public") if v.valid and len(v.octets) < 1 << 20]
    frames: list[bytes] = []
    for i, vector in enumerate(vectors):
        tcp = Tcp(client_port=1024 + i)
        side = SERVER if vector.side == "server" else CLIENT
        frames += tcp.open()
        if (vector.decoded or {})["type"] != "CONNECT":
            frames += tcp.send(CLIENT, connect("c", vector.version))
        frames += [*tcp.send(side, vector.octets), *tcp.close()]
    by_port: dict[int, dict[str, Any]] = {}
    for row in rows(frames, expose_credentials=True):
        by_port[row["dst_port"] if row["direction"] else row["src_port"]] = row  # the connection's last one
    assert len(by_port) == len(vectors) > 1000
    for i, vector in enumerate(vectors):
        side = SERVER if vector.side == "server" else CLIENT
        row = {k: v for k, v in by_port[1024 + i].items() if k not in CONTEXT}
        (alone,) = pa.record_batch(
            mqtt.decode_batch(vector.octets, strictness="strict", expose_credentials=True, **vector.options)
        ).to_pylist()
        further = said(row.pop("mqtt"))
        for name in ("dup", "retain"):
            assert further.get(name) == alone[name], vector.id
        assert further.pop("flags") == vector.octets[0] & 15, vector.id
        struct_alone = said(alone["mqtt"])
        struct_alone.pop("flags", None)
        assert further == struct_alone, vector.id
        assert said(row) == wanted(vector, side), vector.id


# ---- what the capture knows


def test_where_and_when() -> None:
    tcp = Tcp(client_port=50123, client=0xC0A80107, server=0x0A010203)
    first = connect("c")
    message = publish("t", b"0123456789")
    frames = [*tcp.open(), *tcp.send(CLIENT, first), *tcp.send(CLIENT, message, size=5)]
    row = rows(frames)[1]
    assert (row["src_ip"], row["src_port"], row["dst_ip"], row["dst_port"]) == ("192.168.1.7", 50123, "10.1.2.3", 1883)
    assert (row["direction"], row["byte_offset"], row["wire_size"]) == (0, len(first), len(message))
    # packets are a millisecond apart; the message is in the fifth, sixth and seventh
    assert row["frame_no"] == 7
    assert row["ts_first"] == EPOCH + timedelta(seconds=START, milliseconds=4)
    assert row["ts"] == EPOCH + timedelta(seconds=START, milliseconds=6)
    assert row["ts_ns"] == START * 10**9 + 6_000_000
    back = rows([*frames, *tcp.send(SERVER, b"\x20\x02\0\0")])[2]
    assert (back["src_ip"], back["src_port"], back["dst_ip"], back["dst_port"]) == (
        "10.1.2.3",
        1883,
        "192.168.1.7",
        50123,
    )
    assert (back["direction"], back["byte_offset"], back["flow_id"]) == (1, 0, row["flow_id"])


def test_nanoseconds_are_kept_and_microseconds_are_whole() -> None:
    tcp = Tcp()
    data = bytearray(pcap([*tcp.open(), *tcp.send(CLIENT, connect("c"))]))
    data[0:4] = struct.pack("<I", 0xA1B23C4D)  # times are in nanoseconds
    at = 24
    for _ in range(3):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    data[at : at + 8] = struct.pack("<II", START, 123_456_789)
    (row,) = (
        pa.table(capture.read(io.BytesIO(bytes(data))))
        .select(["ts", "ts_ns"])
        .cast(pa.schema([("ts", pa.int64()), ("ts_ns", pa.int64())]))
        .to_pylist()
    )
    assert row == {"ts": START * 10**6 + 123_456, "ts_ns": START * 10**9 + 123_456_789}


# ---- what a connection remembers


def test_the_client_identifier_goes_with_every_row() -> None:
    ping, pong = b"\xc0\0", b"\xd0\0"
    assert [r["client_id"] for r in talk((CLIENT, ping), (SERVER, pong), client="me")] == ["me", "me"]
    tcp = Tcp()
    assert [r["client_id"] for r in rows(tcp.send(CLIENT, ping + publish("t", b"")))] == [None, None]


def test_the_assigned_client_identifier_takes_its_place() -> None:
    assigned = b"\x12" + string("auto-17")  # 5.0, 3.2.2.3.7
    connack = packet(0x20, b"\0\0" + bytes((len(assigned),)) + assigned)
    assert [r["client_id"] for r in talk((SERVER, connack), (CLIENT, b"\xc0\0"), client="")] == ["auto-17", "auto-17"]


def alias(number: int, topic: str = "") -> bytes:
    return publish(topic, b"", 5, b"\x23" + number.to_bytes(2, "big"))  # property 35


def destinations(*sent: tuple[int, bytes]) -> list[str | None]:
    return [r["destination"] for r in talk(*sent)]


def test_topic_aliases_are_resolved_each_direction_apart() -> None:
    """5.0, 3.3.2.3.4: a mapping holds for one direction, and a new topic replaces the old one."""
    assert destinations(
        (CLIENT, alias(1, "a") + alias(1)),
        (SERVER, alias(1)),
        (SERVER, alias(1, "from the server") + alias(1)),
        (CLIENT, alias(1) + alias(2) + alias(1, "b") + alias(1)),
    ) == ["a", "a", None, "from the server", "from the server", "a", None, "b", "b"]


def test_topic_aliases_end_with_the_connection() -> None:
    """A second CONNECT in one stream is a fault, but a capture may have lost the end of the first connection."""
    assert destinations((CLIENT, alias(7, "a") + connect("d", 5) + alias(7))) == ["a", None, None]


def test_many_topic_aliases_in_any_order() -> None:
    order = [*random.Random(2).sample(range(1, 65535), 5000), 65535]
    first = b"".join(alias(n, f"t/{n}") for n in order)
    again = b"".join(alias(n) for n in reversed(order))
    unknown = sorted(set(range(1, 65536)) - set(order))[:3]
    names = destinations((CLIENT, first + again + b"".join(alias(n) for n in unknown)))
    assert names == [f"t/{n}" for n in order] + [f"t/{n}" for n in reversed(order)] + [None] * 3


def test_topics_beyond_the_limit_are_unknown_and_never_the_old_ones() -> None:
    """The topics of a direction's aliases are kept up to 1 MiB."""
    long = [chr(97 + n) * 65000 for n in range(20)]
    learn = b"".join(alias(n + 1, topic) for n, topic in enumerate(long))
    names = destinations((CLIENT, alias(100, "old") + learn + b"".join(alias(n + 1) for n in range(20))))[21:]
    assert names[:15] == long[:15]
    assert names[17:] == [None] * 3
    over = destinations((CLIENT, alias(100, "old") + learn + alias(100, "z" * 65000) + alias(100) + alias(1)))
    assert over[-2:] == [None, long[0]]


# ---- single columns


def test_shared_subscriptions_are_consumer_groups() -> None:
    """5.0, 4.8.2: $share/{ShareName}/{filter}."""
    subscribe = packet(0x82, b"\0\x01\0" + string("$share/workers/jobs/#") + b"\x01" + string("other") + b"\x02")
    (row,) = talk((CLIENT, subscribe))
    assert (row["consumer_group"], row["destination"], row["sequence"]) == ("workers", "jobs/#", 1)
    assert row["mqtt"]["topic_filters"] == ["$share/workers/jobs/#", "other"]
    assert row["mqtt"]["subscription_options"] == [1, 2]
    (row,) = talk((CLIENT, packet(0x82, b"\0\x01" + string("a/+") + b"\0")), version=4)
    assert (row["consumer_group"], row["destination"]) == (None, "a/+")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"order-1", "order-1"),
        ("né".encode(), "né"),
        (b"\xff\x00", "ff00"),
        (b"a\0b", "610062"),
        (b"", ""),
        (b"\xff" * 1024, "ff" * 1024),
        (b"\xff" * 2000, "ff" * 1024 + "... (1024 of 2000 bytes)"),
    ],
)
def test_correlation_data_as_text(data: bytes, text: str) -> None:
    properties = b"\x09" + string(data)
    length = mqtt.Publish(topic_name="t", payload=b"", properties=(("correlation_data", data),), version=5).encode()
    (row,) = talk((CLIENT, length))
    assert properties in length
    assert (row["correlation_id"], row["mqtt"]["correlation_data"]) == (text, data)


def test_headers_keep_order_and_repeats() -> None:
    pairs = [("b", "1"), ("a", "2"), ("b", "3"), ("", "")]
    octets = b"".join(b"\x26" + string(k) + string(v) for k, v in pairs)
    with_, without = talk((CLIENT, publish("t", b"", 5, octets) + publish("t", b"", 5)))
    assert with_["headers"] == pairs
    assert without["headers"] is None


def test_what_is_not_said_is_null() -> None:
    (row,) = talk((CLIENT, publish("t", b"", 4)), version=4)
    assert row["payload"] == b""
    null = {"routing_key", "consumer_group", "message_id", "correlation_id", "reply_to", "channel", "sequence"}
    null |= {"attempts", "ttl_ms", "code", "content_type", "headers", "error", "raw", "detail", "vlan"}
    null |= {c.name for c in COLUMNS if c.type.startswith("struct<") and c.name != "mqtt"}
    assert {name for name, value in row.items() if value is None} == null
    assert said(row["mqtt"]) == {"flags": 0, "dup": False, "retain": False}
    assert row["mqtt"].keys() == {f.name for f in MQTT_FIELDS}


# ---- options, and the size of batches


def test_columns_are_a_choice_and_an_order() -> None:
    tcp = Tcp()
    data = pcap(
        [*tcp.open(), *tcp.send(CLIENT, connect("c", 5) + publish("t", b"x", 5, b"\x26" + string("k") + string("v")))]
    )
    whole = table(data, raw=True, detail=True)  # a column that is named is filled
    for names in (
        ["payload", "ts"],
        ["mqtt"],
        ["headers", "kind", "destination"],
        ["error"],
        [c.name for c in COLUMNS],
    ):
        assert table(data, columns=names) == whole.select(names)


def test_a_payload_cannot_be_shorter_than_nothing() -> None:
    with pytest.raises(ValueError, match="payload_max"):
        capture.read(io.BytesIO(), payload_max=-1)


def test_batches_are_cut_by_their_octets_whatever_column_has_them() -> None:
    """Empty User Properties and lists of numbers have no octets of their own, but take memory."""
    tcp = Tcp()
    many = mqtt.Publish(
        topic_name="t", payload=b"", properties=(("user_property", ("", "")),) * 2000, version=5
    ).encode()
    codes = packet(0x90, b"\0\x01\0" + b"\0" * 2000)  # SUBACK
    frames = [*tcp.open(), *tcp.send(CLIENT, connect("c", 5))]
    for _ in range(40):
        frames += tcp.send(CLIENT, many)
        frames += tcp.send(SERVER, codes)
    batches = list(capture.read(io.BytesIO(pcap(frames)), batch_bytes=100_000))
    assert sum(b.num_rows for b in batches) == 81
    assert max(b.nbytes for b in batches) < 200_000
